/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces symbols by expressions in all types and attributes of a function. */
#include "passes/pass.h"

struct subst {
    struct ir_ctx *ctx;
    int n;
    const ir_expr *from, *to;
};

static ir_type subst_type(const struct subst *s, ir_type t)
{
    ir_expr dims[TCC_MAX_RANK];

    if (!t)
        return NULL;
    if (t->kind == IR_T_SEQUENCE)
        return ir_sequence_type(s->ctx, subst_type(s, t->elem));
    if (t->kind == IR_T_OPTIONAL)
        return ir_optional_type(s->ctx, subst_type(s, t->elem));
    if (t->rank <= 0)
        return t;
    for (int i = 0; i < t->rank; i++)
        dims[i] = ir_subst(s->ctx, t->dim[i], s->n, s->from, s->to);
    return ir_tensor_type(s->ctx, (enum tcc_dtype)t->dtype, t->rank, dims);
}

static void subst_attr(const struct subst *s, struct ir_attr *a)
{
    if (a->kind == IR_A_EXPR) {
        a->e = ir_subst(s->ctx, a->e, s->n, s->from, s->to);
    } else if (a->kind == IR_A_EXPRS) {
        ir_expr *exprs = IR_NEWN(s->ctx, a->n, ir_expr);
        for (int i = 0; i < a->n; i++)
            exprs[i] = ir_subst(s->ctx, a->exprs[i], s->n, s->from, s->to);
        a->exprs = exprs;
    } else if (a->kind == IR_A_TYPES) {
        ir_type *types = IR_NEWN(s->ctx, a->n, ir_type);
        for (int i = 0; i < a->n; i++)
            types[i] = subst_type(s, a->types[i]);
        a->types = types;
    }
}

static void subst_block(const struct subst *s, struct ir_block *b);

static void subst_nodes(const struct subst *s, struct ir_node *n)
{
    for (; n; n = n->next) {
        for (int i = 0; i < n->nattrs; i++)
            subst_attr(s, &n->attrs[i]);
        for (int i = 0; i < n->nout; i++)
            n->out[i]->type = subst_type(s, n->out[i]->type);
        for (int i = 0; i < n->nregions; i++)
            subst_block(s, n->regions[i]);
    }
}

static void subst_block(const struct subst *s, struct ir_block *b)
{
    for (int i = 0; i < b->nparams; i++)
        b->params[i]->type = subst_type(s, b->params[i]->type);
    subst_nodes(s, b->first);
}

ir_type pass_subst_type(struct ir_ctx *ctx, ir_type t, int n, const ir_expr *from, const ir_expr *to)
{
    struct subst s = {ctx, n, from, to};
    return subst_type(&s, t);
}

void pass_substitute_from(struct ir_block *b, struct ir_node *n, int nsyms, const ir_expr *from, const ir_expr *to)
{
    struct subst s = {b->func->module->ctx, nsyms, from, to};
    if (n)
        subst_nodes(&s, n);
    else
        subst_block(&s, b);
}

bool pass_substitute(struct ir_func *f, int n, const ir_expr *from, const ir_expr *to)
{
    struct subst s = {f->module->ctx, n, from, to};
    if (n == 0)
        return true;
    subst_block(&s, f->body);
    for (int i = 0; i < f->nadvances; i++)
        f->advances[i].to = ir_subst(s.ctx, f->advances[i].to, n, from, to);
    return ir_infer_func(f);
}
