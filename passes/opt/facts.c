/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts: what the body's nodes take for granted of sizes (ir_assumptions), and the inputs alone decide, becomes `check` nodes at the function's beginning: rewrites
 * that compose or take out such nodes lose none of it, and all levels refuse the same runs in the words of the node that the user knows.
 *
 * What the version's guards say, or a check in front, is left out; checks that have come to hold since go.
 */
#include "passes/pass.h"

bool pass_facts_run(struct pass_run *r);

struct facts {
    struct ir_ctx *ctx;
    struct ir_func *f;
    struct ir_node *at;       /* a node's; checks stand in front of the first other one */
    VEC(ir_expr) bound;       /* symbols that the inputs bind */
    VEC(struct ir_fact) held; /* that need no further check */
    bool open;                /* a symbol was found that they don't bind */
    bool left;                /* of the last node, a fact does not hold by itself */
};

static void look_up(void *user, ir_expr sym)
{
    struct facts *x = user;
    bool bound = false;
    for (int i = 0; i < x->bound.n && !bound; i++)
        bound = x->bound.at[i] == sym;
    x->open |= !bound;
}

static bool decided_by_inputs(struct facts *x, const struct ir_fact *f)
{
    x->open = false;
    ir_each_sym(f->a, look_up, x);
    ir_each_sym(f->b, look_up, x);
    return !x->open;
}

static void bind_type(struct facts *x, ir_type t)
{
    for (int d = 0; t->kind == IR_T_TENSOR && d < t->rank; d++)
        if (t->dim[d]->kind == IR_X_SYM)
            VEC_PUSH(x->ctx, x->bound, t->dim[d]);
}

static void begin(struct facts *x)
{
    const struct ir_version *v = x->f->version;
    struct ir_fact f;
    for (int i = 0; i < x->f->body->nparams; i++)
        bind_type(x, x->f->body->params[i]->type);
    for (const struct ir_state *s = x->f->module->states; s; s = s->next)
        if (s->sym)
            VEC_PUSH(x->ctx, x->bound, s->sym);
    for (int i = 0; v && i < v->ninputs; i++)
        bind_type(x, v->inputs[i]);
    for (int i = 0; v && i < v->nguards; i++)
        if (ir_guard_fact(&v->guards[i], &f))
            VEC_PUSH(x->ctx, x->held, f);
}

static bool holds(const struct facts *x, const struct ir_fact *f)
{
    return ir_fact_holds(x->ctx, f, x->held.n, x->held.at) == IR_YES;
}

static void note(void *user, const struct ir_fact *f)
{
    struct facts *x = user;
    x->left = !holds(x, f);
    if (x->left && decided_by_inputs(x, f))
        VEC_PUSH(x->ctx, x->held, *f);
}

/* Checks of what n takes for granted stand behind those of the nodes in front of it. */
static bool state_node(struct pass_run *r, struct facts *x, struct ir_node *n)
{
    int first = x->held.n;
    x->left = false;
    ir_assumptions(n, note, x);
    if (n->op == IR_check) {
        if (!x->left && pass_changed(r))
            ir_remove(n);
        return true;
    }
    for (int i = first; i < x->held.n; i++) {
        struct ir_builder b = {x->ctx, x->f, x->f->body, x->at, n->where};
        if (!b.where.node)
            b.where.node = ir_op_info(n->op)->name;
        if (!pass_changed(r))
            return true;
        if (!ir_check(&b, &x->held.at[i]))
            return false;
    }
    return true;
}

static bool state_func(struct pass_run *r, struct ir_func *f)
{
    struct facts x = {.ctx = pass_ctx(r), .f = f, .at = f->body->first};
    begin(&x);
    for (struct ir_node *n = f->body->first, *next; n; n = next) {
        next = n->next;
        if (n->op == IR_check && n == x.at)
            x.at = next;
        if (!state_node(r, &x, n))
            return false;
    }
    return true;
}

bool pass_facts_run(struct pass_run *r)
{
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        if (!state_func(r, f))
            return false;
    return true;
}
