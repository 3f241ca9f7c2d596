/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grad.c - gradients of a scalar by all parameters that it depends on.
 *
 * Losses are differentiated by their own formulas (passes/train/loss.c), as in compiled steps: first the gradient by
 * each loss's value, from the last recorded to the first, then by its scores with that as a factor; what remains is
 * one sweep over the graph with the scores' gradients as seeds.
 */
#include "compiler/trace/trace_int.h"

struct sweep {
    struct trace_ctx *c;
    struct ir_value *loss;
    VEC(struct ir_value *) ys; /* the loss, then scores */
    VEC(struct ir_value *) seeds;
    VEC(struct trace_tensor *) params;
};

/* grads[j]: of the ys by xs[j], for the n first xs; nothing flows through the stops and losses' values. */
static bool differentiate(struct sweep *s, int n, struct ir_value *const *xs, struct ir_value **grads)
{
    struct trace_graph *g = &s->c->graph;
    VEC(struct ir_value *) all = {0};
    for (int i = 0; i < n; i++)
        VEC_PUSH(g->ctx, all, xs[i]);
    for (int i = 0; i < g->stops.n; i++)
        VEC_PUSH(g->ctx, all, g->stops.at[i]);
    for (int i = 0; i < g->wholes.n; i++)
        VEC_PUSH(g->ctx, all, g->wholes.at[i].value);
    struct ir_value **out = IR_NEWN(g->ctx, (size_t)all.n + 1, struct ir_value *);
    if (!grad_build(&g->b, s->ys.n, s->ys.at, s->seeds.at, all.n, all.at, out))
        return false;
    for (int i = 0; i < n; i++)
        grads[i] = out[i];
    return true;
}

static bool losses(struct sweep *s)
{
    struct trace_graph *g = &s->c->graph;
    for (int i = g->wholes.n - 1; i >= 0; i--) {
        const struct trace_whole *w = &g->wholes.at[i];
        struct ir_value *factor = NULL, *value, *seed;
        if (w->value != s->loss && !differentiate(s, 1, &w->value, &factor))
            return false;
        if (w->value != s->loss && !factor)
            continue;
        if (!train_loss_at(&g->b, w->text, w->scores, w->target, factor, &value, &seed))
            return false;
        VEC_PUSH(g->ctx, s->ys, w->scores);
        VEC_PUSH(g->ctx, s->seeds, seed);
    }
    return true;
}

/* Parameters that this graph has used; each value once. */
static struct ir_value **used_params(struct sweep *s)
{
    struct trace_ctx *c = s->c;
    for (struct trace_tensor *t = c->tensors; t; t = t->next)
        if (t->param && t->value && t->generation == c->generation)
            VEC_PUSH(c->graph.ctx, s->params, t);
    struct ir_value **values = IR_NEWN(c->graph.ctx, (size_t)s->params.n + 1, struct ir_value *);
    for (int i = 0; i < s->params.n; i++)
        values[i] = s->params.at[i]->value;
    return values;
}

static bool keep(struct trace_tensor *t, struct ir_value *grad)
{
    if (t->grad) {
        struct ir_value *sum = trace_value(t->grad);
        grad = sum ? ir_binary(&t->c->graph.b, IR_add, sum, grad) : NULL;
    }
    struct trace_tensor *now = trace_tensor_of(t->c, grad);
    if (!now)
        return false;
    trace_forget_grad(t);
    t->grad = trace_retain(now);
    return true;
}

static void build_backward(struct trace_ctx *c, void *arg)
{
    struct trace_tensor *loss = arg;
    struct sweep s = {.c = c, .loss = trace_value(loss)};
    bool any = false;
    if (!s.loss)
        return;
    VEC_PUSH(c->graph.ctx, s.ys, s.loss);
    VEC_PUSH(c->graph.ctx, s.seeds, NULL);
    c->graph.b.where = (struct ir_where){.op = "backward"};
    struct ir_value **xs = used_params(&s);
    struct ir_value **grads = IR_NEWN(c->graph.ctx, (size_t)s.params.n + 1, struct ir_value *);
    if (!losses(&s) || !differentiate(&s, s.params.n, xs, grads))
        return;
    for (int i = 0; i < s.params.n; i++) {
        if (grads[i] && !keep(s.params.at[i], grads[i]))
            return;
        any |= grads[i] != NULL;
    }
    if (!any)
        trace_fail(c, TCC_EUSAGE, "backward: the loss was not computed from a parameter in the graph being recorded");
}

int trace_backward(struct trace_tensor *loss)
{
    char text[256];
    if (!loss)
        return TCC_EUSAGE;
    struct trace_ctx *c = loss->c;
    bool scalar = tcc_is_float((enum tcc_dtype)loss->dtype);
    for (int i = 0; i < loss->rank; i++)
        scalar &= loss->dims[i] == 1;
    if (!scalar)
        return trace_fail(c, TCC_EUSAGE, "backward: the loss is one number of float type, not %s",
                          trace_type_text(loss, text, sizeof text));
    if (!c->status && !trace_is_pending(loss))
        return trace_fail(c, TCC_EUSAGE, "backward: the loss is not part of the graph being recorded");
    return trace_do(c, build_backward, loss);
}

/* -- Detaching -------------------------------------------------------------------------------------------------- */

struct detach_work {
    struct trace_tensor *t, *out;
};

/* A node of its own, through which no gradient goes; canonicalisation takes it out. */
static void build_detach(struct trace_ctx *c, void *arg)
{
    struct detach_work *w = arg;
    struct trace_graph *g = &c->graph;
    struct ir_value *v = trace_value(w->t);
    if (!v)
        return;
    v = ir_reshape_to(&g->b, v, v->type->rank, v->type->dim);
    VEC_PUSH(g->ctx, g->stops, v);
    w->out = trace_tensor_of(c, v);
}

struct trace_tensor *trace_detach(struct trace_tensor *t)
{
    struct detach_work w = {.t = t};
    return t && !trace_do(t->c, build_detach, &w) ? w.out : NULL;
}
