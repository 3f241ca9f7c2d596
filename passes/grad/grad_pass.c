/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grad: for tests and for looking at gradients. In each function that has them, the inputs (or state variables) named
 * in `wrt` (names separated by ":"; default: all float inputs) get a gradient, returned behind the outputs as
 * "grad.NAME": that of the sum of the outputs named in `of` (default: the first one). One that no output depends on is
 * zeros.
 */
#include "passes/grad/grad.h"
#include "passes/pass.h"

#include <string.h>

bool pass_grad_run(struct pass_run *r);

/* Is the name in the list? */
static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
        if (strcspn(at, ":") == length && !strncmp(at, name, length))
            return true;
    return false;
}

struct values {
    VEC(struct ir_value *) at;
    VEC(const char *) names;
};

static void add_x(struct ir_ctx *ctx, struct values *xs, struct ir_value *v, const char *name, const char *wrt)
{
    bool carries = v->type->kind == IR_T_TENSOR && v->type->rank >= 0 && tcc_is_float((enum tcc_dtype)v->type->dtype);
    if (!carries || !name || (wrt && !listed(wrt, name)))
        return;
    VEC_PUSH(ctx, xs->at, v);
    VEC_PUSH(ctx, xs->names, name);
}

static bool grad_func(struct ir_ctx *ctx, struct ir_func *f, const char *of, const char *wrt)
{
    struct ir_node *end = f->body->last;
    struct values xs = {0}, outs = {0};
    VEC(struct ir_value *) ys = {0};
    for (int i = 0; i < f->body->nparams; i++)
        add_x(ctx, &xs, f->body->params[i], f->input_names[i], wrt);
    IR_EACH_NODE(n, f->body)
        if (n->op == IR_state_read && wrt)
            add_x(ctx, &xs, n->out[0], ir_state_of(n)->name, wrt);
    for (int i = 0; i < end->nin; i++) {
        VEC_PUSH(ctx, outs.at, end->in[i].value);
        VEC_PUSH(ctx, outs.names, ir_output_name(f, i));
        if (of ? listed(of, ir_output_name(f, i)) : i == 0)
            VEC_PUSH(ctx, ys, end->in[i].value);
    }
    struct ir_builder b = {.ctx = ctx, .func = f, .block = f->body, .before = end};
    struct ir_value **grads = IR_NEWN(ctx, xs.at.n + 1, struct ir_value *);
    if (!grad_build(&b, ys.n, ys.at, NULL, xs.at.n, xs.at.at, grads))
        return false;
    for (int i = 0; i < xs.at.n; i++) {
        ir_type t = xs.at.at[i]->type;
        if (!grads[i])
            grads[i] = ir_expand_to(&b, ir_constant_f(&b, (enum tcc_dtype)t->dtype, 0), t->rank, t->dim);
        VEC_PUSH(ctx, outs.at, grads[i]);
        VEC_PUSH(ctx, outs.names, ir_internf(ctx, "grad.%s", xs.names.at[i]));
    }
    b.before = NULL;
    ir_remove(end);
    return ir_return(&b, outs.at.n, outs.at.at, outs.names.at) != NULL;
}

bool pass_grad_run(struct pass_run *r)
{
    const char *of = pass_param(r, "of", NULL), *wrt = pass_param(r, "wrt", NULL);
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        if (pass_changed(r) && !grad_func(pass_ctx(r), f, of, wrt))
            return false;
    return true;
}
