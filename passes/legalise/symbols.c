/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbols.c - a size that only the run knows is bound by one node of the module. What a block binds is not visible
 * behind it, so that copies of a node may bind the same symbol: in entry points that were made of one function, in a
 * region and in that of its gradient. A plan has one value for each symbol, and one level at which it is there; so each
 * of these copies gets a symbol of its own, in what stands behind it in its block. A node that stands where the symbol
 * is bound already binds nothing.
 */
#include "passes/legalise/legalise_int.h"

#include <string.h>

struct seen {
    struct ir_ctx *ctx;
    unsigned char *state; /* by symbol's id: 0 not met, else one of these */
    uint32_t room;
    VEC(ir_expr) open; /* the visible ones */
    bool renamed;
};
enum { VISIBLE = 1, BEHIND = 2 };

static unsigned char *state_of(struct seen *s, ir_expr sym)
{
    if (sym->id >= s->room) {
        uint32_t room = 2 * sym->id + 64;
        unsigned char *grown = IR_NEWN(s->ctx, room, unsigned char);
        if (s->room)
            memcpy(grown, s->state, s->room);
        s->state = grown;
        s->room = room;
    }
    return &s->state[sym->id];
}

static void show(struct seen *s, ir_expr sym)
{
    *state_of(s, sym) = VISIBLE;
    VEC_PUSH(s->ctx, s->open, sym);
}

/* Symbols that the inputs and the state variables bind are the same everywhere. */
static void show_types(struct seen *s, int n, const ir_type *types)
{
    for (int i = 0; i < n; i++)
        for (int d = 0; types[i]->kind == IR_T_TENSOR && d < types[i]->rank; d++)
            if (types[i]->dim[d]->kind == IR_X_SYM)
                show(s, types[i]->dim[d]);
}

/* What was met elsewhere: another one from `n` on (NULL: all of the block). */
static void own(struct seen *s, struct ir_block *b, struct ir_node *n, ir_expr sym)
{
    if (sym->kind != IR_X_SYM || *state_of(s, sym) == VISIBLE)
        return;
    if (*state_of(s, sym) == BEHIND) {
        ir_expr fresh = ir_fresh_as(s->ctx, ir_sym_said(sym), sym->lo, sym->hi);
        pass_substitute_from(b, n, 1, &sym, &fresh);
        s->renamed = true;
        sym = fresh;
    }
    show(s, sym);
}

static void own_type(struct seen *s, struct ir_block *b, struct ir_node *n, const struct ir_value *v)
{
    for (int d = 0; v->type->kind == IR_T_TENSOR && d < v->type->rank; d++)
        own(s, b, n, v->type->dim[d]);
}

static void own_block(struct seen *s, struct ir_block *b)
{
    int open = s->open.n;
    for (int i = 0; i < b->nparams && b->parent; i++)
        own_type(s, b, NULL, b->params[i]);
    IR_EACH_NODE(n, b) {
        for (int r = 0; r < n->nregions; r++)
            own_block(s, n->regions[r]);
        if (!(ir_op_info(n->op)->flags & IR_F_DEFINES_SYMS))
            continue;
        const struct ir_attr *syms = n->op == IR_bind ? ir_attr(n, IR_ATTR_syms) : NULL;
        for (int i = 0; syms && i < syms->n; i++)
            own(s, b, n, ir_attr(n, IR_ATTR_syms)->exprs[i]);
        for (int i = 0; i < n->nout; i++)
            own_type(s, b, n, n->out[i]);
    }
    while (s->open.n > open)
        *state_of(s, s->open.at[--s->open.n]) = BEHIND;
}

bool legalise_symbols(struct ir_module *m)
{
    struct seen s = {.ctx = m->ctx};
    for (const struct ir_state *t = m->states; t; t = t->next)
        for (int i = 0; i < 2; i++)
            if ((i ? t->owner : t->sym) && (i ? t->owner : t->sym)->kind == IR_X_SYM)
                show(&s, i ? t->owner : t->sym);
    for (struct ir_func *f = m->funcs; f; f = f->next) {
        for (int i = 0; i < f->body->nparams; i++)
            show_types(&s, 1, &f->body->params[i]->type);
        if (f->version)
            show_types(&s, f->version->ninputs, f->version->inputs);
    }
    for (struct ir_func *f = m->funcs; f; f = f->next) {
        s.renamed = false;
        own_block(&s, f->body);
        if (s.renamed && !ir_infer_func(f))
            return false;
    }
    return true;
}
