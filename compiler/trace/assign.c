/* SPDX-License-Identifier: Apache-2.0 */
/* assign.c - new values of tensors: another tensor's, or the host's. */
#include "compiler/trace/trace_int.h"

static int check_same(struct trace_tensor *t, const struct trace_tensor *value, const char *what)
{
    char a[256], b[256];
    if (trace_same_type(t, value))
        return TCC_OK;
    return trace_fail(t->c, TCC_EINPUT, "%s: the tensor is %s, the value %s", what, trace_type_text(t, a, sizeof a),
                      trace_type_text(value, b, sizeof b));
}

static void take_value(struct trace_ctx *c, void *arg)
{
    struct trace_tensor **pair = arg;
    struct ir_value *v = trace_value(pair[1]);
    (void)c;
    if (v)
        trace_become(pair[0], v);
}

int trace_assign(struct trace_tensor *t, struct trace_tensor *value)
{
    if (!t || !value)
        return t ? trace_fail(t->c, TCC_EUSAGE, "assign: there is no value") : TCC_EUSAGE;
    if (t->c != value->c)
        return trace_fail(t->c, TCC_EUSAGE, "assign: the value is of another context");
    if (t->random)
        return trace_fail(t->c, TCC_EUSAGE, "assign: seed and number of executions are set by trace_set()");
    if (t == value || !trace_alive(t) || check_same(t, value, "assign"))
        return t->c->status;
    struct trace_tensor *pair[] = {t, value};
    return trace_do(t->c, take_value, pair);
}

int trace_set(struct trace_tensor *t, const struct tcc_tensor *host)
{
    if (!t)
        return TCC_EUSAGE;
    struct trace_tensor *value = trace_alive(t) ? trace_from(t->c, host) : NULL;
    if (!value || check_same(t, value, "set"))
        return t->c->status;
    t->assigned = false;
    trace_hold(&t->before, NULL);
    trace_hold(&t->data, value->data);
    trace_hold(&value->data, NULL); /* it is t's alone, which steps may update in place */
    t->value = NULL;
    trace_random_take(t);
    return TCC_OK;
}
