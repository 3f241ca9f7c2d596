/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts: what the body's nodes take for granted of sizes (ir_assumptions) becomes `check` nodes, at the function's
 * beginning where the inputs alone decide it, else, and in regions, which may not run, in front of the node: rewrites
 * that compose or take out such nodes lose none of it, and all levels refuse the same runs in the words of the node
 * that the user knows.
 *
 * What the version's guards say, or a check in front, is left out; checks that have come to hold since go.
 */
#include "passes/pass.h"

#include "base/mutant.h"

bool pass_facts_run(struct pass_run *r);

struct facts {
    struct ir_ctx *ctx;
    struct ir_func *f;
    struct ir_node *at;       /* a node's; checks stand in front of the first other one */
    VEC(ir_expr) bound;       /* symbols that the inputs bind */
    VEC(ir_expr) found;       /* that nodes so far and regions' parameters define */
    bool here;                /* look for these too */
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
    for (int i = 0; i < x->found.n && !bound && x->here; i++)
        bound = x->found.at[i] == sym;
    x->open |= !bound;
}

/* By the inputs, or where `here` says so by what stands in front of the node. */
static bool decided(struct facts *x, const struct ir_fact *f, bool here)
{
    x->open = false;
    x->here = here;
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
    if (x->left && decided(x, f, MUTANT(324, true, false)))
        VEC_PUSH(x->ctx, x->held, *f);
}

static void define_type(struct facts *x, ir_type t)
{
    for (int d = 0; t->kind == IR_T_TENSOR && d < t->rank; d++)
        if (t->dim[d]->kind == IR_X_SYM)
            VEC_PUSH(x->ctx, x->found, t->dim[d]);
}

/* Symbols that have values behind n. */
static void find_symbols(struct facts *x, const struct ir_node *n)
{
    const struct ir_attr *syms = n->op == IR_bind ? ir_attr(n, IR_ATTR_syms) : NULL;
    for (int i = 0; syms && i < syms->n; i++)
        VEC_PUSH(x->ctx, x->found, syms->exprs[i]);
    for (int k = 0; k < n->nout && (ir_op_info(n->op)->flags & IR_F_DEFINES_SYMS); k++)
        define_type(x, n->out[k]->type);
}

/* The front end's own: it goes where it holds, and of the body to the others where the inputs decide it, so that the
 * first that fails is told. A region's stays there: the region may not run. */
static bool state_check(struct pass_run *r, struct facts *x, struct ir_node *n, int first)
{
    struct ir_builder b = {x->ctx, x->f, x->f->body, x->at, n->where};
    bool early = MUTANT(323, n->block == x->f->body, true) && x->held.n > first &&
                 decided(x, &x->held.at[first], false) && n->next != x->at;
    if ((x->left && !early) || !pass_changed(r))
        return true;
    if (x->left && !ir_check(&b, &x->held.at[first]))
        return false;
    ir_remove(n);
    return true;
}

/* Checks of what n takes for granted stand behind those of the nodes in front of it. */
static bool state_node(struct pass_run *r, struct facts *x, struct ir_node *n)
{
    int first = x->held.n;
    x->left = false;
    ir_assumptions(n, note, x);
    if (n->op == IR_check)
        return state_check(r, x, n, first);
    for (int i = first; i < x->held.n; i++) {
        bool early = n->block == x->f->body && decided(x, &x->held.at[i], false);
        struct ir_builder b = {x->ctx, x->f, n->block, early ? x->at : n, n->where};
        b.where.op = b.where.op ? b.where.op : ir_op_info(n->op)->name;
        b.where.node = b.where.node ? b.where.node : b.where.op;
        if (!pass_changed(r))
            return true;
        if (!ir_check(&b, &x->held.at[i]))
            return false;
    }
    return true;
}

/* A block's nodes, and those of their regions: what is found there says nothing of what comes behind. */
static bool state_block(struct pass_run *r, struct facts *x, struct ir_block *block)
{
    for (struct ir_node *n = block->first, *next; n; n = next) {
        next = n->next;
        if (n->op == IR_check && n == x->at)
            x->at = next;
        bool check = n->op == IR_check; /* it may go */
        if (!state_node(r, x, n))
            return false;
        for (int i = 0; !check && i < n->nregions; i++) {
            int held = x->held.n, found = x->found.n;
            for (int k = 0; k < n->regions[i]->nparams; k++)
                define_type(x, n->regions[i]->params[k]->type);
            if (!state_block(r, x, n->regions[i]))
                return false;
            x->held.n = held;
            x->found.n = found;
        }
        if (!check)
            find_symbols(x, n);
    }
    return true;
}

bool pass_facts_run(struct pass_run *r)
{
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next) {
        struct facts x = {.ctx = pass_ctx(r), .f = f, .at = f->body->first};
        begin(&x);
        if (!state_block(r, &x, f->body))
            return false;
    }
    return true;
}
