/* SPDX-License-Identifier: Apache-2.0 */
/*
 * no_compiler.c - the doors of compiler/ in an installation that runs artifacts and has no compiler (configure
 * --disable-compiler): each says so.
 */
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"

#include <string.h>

#define WHY                                                                                                   \
    "this installation runs artifacts and has no compiler: compile the model with tccc, elsewhere, and give " \
    "the artifact"

void tccc_options_init(struct tccc_options *o)
{
    memset(o, 0, sizeof *o);
}

int tccc_compile(const struct tccc_options *o)
{
    if (o->message)
        o->message(o->user, 2, "error: " WHY);
    return 3;
}

void tccc_prepare(void) {}

const char *tccc_version(void)
{
    return PACKAGE_VERSION;
}

const char *tccc_build(void)
{
    return "without the compiler\n";
}

/* What is to be read needs a front end. */
struct ir_module *frontend_read(struct ir_ctx *ctx, const char *path, const struct frontend_options *o)
{
    (void)path, (void)o;
    return ir_error(ctx, NULL, WHY), NULL;
}

/* Nothing has been read that these could be called with, but for the first. */
bool frontend_train_check(struct ir_ctx *ctx, const struct tccc_train *t)
{
    (void)t;
    return ir_error(ctx, NULL, WHY);
}

struct frontend_options frontend_options_of(const struct tccc_options *o)
{
    (void)o;
    return (struct frontend_options){0};
}

bool frontend_adapt(struct ir_module *m, const struct tccc_options *o)
{
    (void)o;
    return ir_error(m->ctx, NULL, WHY);
}

bool frontend_train(struct ir_module *m, const struct tccc_train *t, const struct pass_machine *machine, FILE *schedule,
                    struct train_recompute *recompute)
{
    (void)t, (void)machine, (void)schedule, (void)recompute;
    return ir_error(m->ctx, NULL, WHY);
}

bool frontend_versions(struct ir_module *m, const struct frontend_options *o)
{
    (void)o;
    return ir_error(m->ctx, NULL, WHY);
}

bool frontend_autocast(struct ir_module *m, const char *what, const char *type, const struct pass_options *o)
{
    (void)what, (void)type, (void)o;
    return ir_error(m->ctx, NULL, WHY);
}

bool frontend_mx(struct ir_module *m, const char *what, const struct pass_options *o)
{
    (void)m, (void)what, (void)o;
    return true;
}
