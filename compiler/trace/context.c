/* SPDX-License-Identifier: Apache-2.0 */
/* context.c - a context's begin and end. It calls what holds the context's parts, none of which calls it. */
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

static bool copy_text(char **to, const char *text)
{
    *to = text && *text ? strdup(text) : NULL;
    return *to || !text || !*text;
}

static int check_options(const struct trace_options *o)
{
    if (o->level < 0 || o->level > 3)
        return trace_refuse(TCC_EUSAGE, "level %d: expected 1 to 3, or 0 for the default", o->level);
    if (o->threads < 0)
        return trace_refuse(TCC_EUSAGE, "%d threads: expected a number from 0", o->threads);
    return tccrt_env_check() ? trace_refuse(TCC_EUSAGE, "%s", tccrt_error()) : TCC_OK;
}

/* What the options leave open TCCC_FLAGS says, then the defaults. */
static bool settle_options(struct trace_ctx *c, const struct trace_options *o)
{
    const char *cache = o->cache_dir         ? o->cache_dir
                        : c->flags.cache_dir ? c->flags.cache_dir
                                             : tccrt_env_text("TCCC_CACHE_DIR");
    c->threads = o->threads;
    c->level = o->level ? o->level : c->flags.level >= 0 ? c->flags.level : 2;
    c->seed = o->seed;
    return copy_text(&c->march, o->march ? o->march : c->flags.march) && copy_text(&c->cache_dir, cache);
}

int trace_new(const struct trace_options *options, struct trace_ctx **out)
{
    static const struct trace_options defaults;
    const struct trace_options *o = options ? options : &defaults;
    char why[256];
    int status = check_options(o);
    *out = NULL;
    if (status)
        return status;
    struct trace_ctx *c = calloc(1, sizeof *c);
    if (!c)
        return trace_refuse(TCC_EENV, "no memory");
    c->mode = tccrt_env_has("TCCC_TRACE", "eager") ? TRACE_EAGER : TRACE_LAZY;
    c->report = tccrt_env_has("TCCC_TRACE", "report");
    c->generation = 1;
    c->stage = -1;
    if (!trace_executor_init(c)) {
        free(c);
        return trace_refuse(TCC_EENV, "no memory");
    }
    if ((status = trace_settle_device(c, o, why, sizeof why)) ||
        (status = trace_flags_read(&c->flags, why, sizeof why)))
        trace_refuse(status, "%s", why);
    else if (!settle_options(c, o))
        status = trace_refuse(TCC_EENV, "no memory");
    else if (c->mode == TRACE_LAZY && tccrt_device_there(c->device, c->target))
        status = trace_refuse(TCC_EENV, "%s", tccrt_error());
    if (status) {
        trace_free(c);
        return status;
    }
    trace_refuse(TCC_OK, "%s", "");
    *out = c;
    return TCC_OK;
}

void trace_free(struct trace_ctx *c)
{
    if (!c)
        return;
    trace_forget_failure(c);
    trace_executor_end(c);
    trace_loaders_free(c);
    trace_optimizers_free(c);
    trace_calls_free(c->calls);
    for (struct trace_tensor *t = c->tensors; t; t = t->next)
        t->grad = NULL;
    while (c->tensors)
        trace_tensor_free(c->tensors);
    while (c->dead) {
        struct trace_tensor *t = c->dead;
        c->dead = t->next;
        free(t);
    }
    trace_graph_drop(c);
    trace_device_collect(c);
    while (c->compiled) {
        struct trace_compiled *g = c->compiled;
        c->compiled = g->next;
        trace_compiled_free(g);
    }
    trace_leave(c);
    free(c->target);
    free(c->device);
    free(c->march);
    free(c->cache_dir);
    trace_flags_free(&c->flags);
    trace_executor_free(c);
    free(c);
}
