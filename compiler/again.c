/* SPDX-License-Identifier: Apache-2.0 */
/* again.c - the command that goes on from a reproducer: the options that bear on it, as options.def says. */
#include "compiler/again_int.h"
#include "compiler/fields.h"
#include "ir/ir.h"

#include <string.h>

/* A word of a command line, in quotes where a shell would not take it as it stands. */
static const char *word(struct ir_ctx *ctx, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+-=,:@";
    VEC(char) quoted = {0};

    if (*text && !text[strspn(text, plain)])
        return text;
    for (const char *c = text; *c; c++)
        for (const char *part = *c == '\'' ? "'\\''" : (char[]){*c, 0}; *part; part++)
            VEC_PUSH(ctx, quoted, *part);
    VEC_PUSH(ctx, quoted, 0);
    return ir_internf(ctx, "'%s'", quoted.at);
}

static const char *add(struct ir_ctx *ctx, const char *command, const char *option, const char *text)
{
    return text ? ir_internf(ctx, "%s --%s=%s", command, option, word(ctx, text)) : command;
}

static const char *add_number(struct ir_ctx *ctx, const char *command, const char *option, double v, double otherwise)
{
    return v != otherwise ? add(ctx, command, option, ir_internf(ctx, "%.17g", v)) : command;
}

static const char *add_list(struct ir_ctx *ctx, const char *command, const char *option, const char *const *list)
{
    for (int i = 0; list && list[i]; i++)
        command = add(ctx, command, option, list[i]);
    return command;
}

/* Where it says something else than `plain`, the structure as it is when nothing is given. */
static const char *add_field(struct ir_ctx *ctx, const char *command, const struct tccc_field *f, const void *of,
                             const void *plain)
{
#define ADD_NUMBER(type) \
    add_number(ctx, command, f->option, (double)TCCC_FIELD_OF(type, of, f), (double)TCCC_FIELD_OF(type, plain, f))
    char said[64];
    switch (f->type) {
    case TCCC_TEXT: return add(ctx, command, f->option, TCCC_FIELD_OF(char *, of, f));
    case TCCC_LIST: return add_list(ctx, command, f->option, TCCC_FIELD_OF(char *const *, of, f));
    case TCCC_FLAG: return TCCC_FIELD_OF(bool, of, f) ? ir_internf(ctx, "%s --%s", command, f->option) : command;
    case TCCC_INT:
    case TCCC_COUNT: return ADD_NUMBER(int);
    case TCCC_LONG: return ADD_NUMBER(long);
    case TCCC_SIZE: return ADD_NUMBER(unsigned long long);
    case TCCC_REAL:
    case TCCC_LIMIT: return ADD_NUMBER(double);
    case TCCC_SET: return add(ctx, command, f->option, tccc_setter(f)->say(of, said, sizeof said));
    case TCCC_STREAM: break;
    }
    return command;
#undef ADD_NUMBER
}

static const char *add_fields(struct ir_ctx *ctx, const char *command, enum tccc_structure in, const void *of,
                              const void *plain)
{
    for (const struct tccc_field *f = tccc_fields; f < tccc_fields + tccc_nfields; f++)
        if (f->in == in && f->uses & TCCC_AGAIN)
            command = add_field(ctx, command, f, of, plain);
    return command;
}

const char *again_command(struct ir_ctx *ctx, const struct tccc_options *o)
{
    const char *slash = o->model ? strrchr(o->model, '/') : NULL, *command = "tccc --allow-files";
    struct tccc_options plain;

    tccc_options_init(&plain);
    if (slash && !strpbrk(o->model, "\n\r")) /* the model's folder, whose files the text may name */
        command = add(ctx, "tccc", "allow-files", ir_internf(ctx, "%.*s", (int)(slash - o->model) + 1, o->model));
    return add_fields(ctx, ir_internf(ctx, "%s -O%d", command, o->level), TCCC_OPTIONS, o, &plain);
}

const char *again_training(struct ir_ctx *ctx, const struct tccc_options *o)
{
    static const struct tccc_train plain;
    static const struct tccc_split whole = {.default_stage = -1};
    const struct tccc_train *t = o->train;
    const char *command = ir_internf(ctx, "%s --train", again_command(ctx, o));

    command = add_fields(ctx, command, TCCC_TRAIN, t, &plain);
    command = add(ctx, command, "auto-cast", t->auto_cast);
    command = add(ctx, command, "auto-cast-type", t->auto_cast_type);
    if (t->split)
        command = add_fields(ctx, command, TCCC_SPLIT, t->split, &whole);
    /* one microbatch for one partition is a split, too */
    if (t->split && t->split->partitions < 1)
        command = add(ctx, command, "partitions", "1");
    return command;
}
