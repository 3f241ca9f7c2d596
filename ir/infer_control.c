/* SPDX-License-Identifier: Apache-2.0 */
/* infer_control.c - types of state, control flow and library ops. Where attribute `types` gives them, they are taken
 * from it. */
#include "ir/infer_int.h"

#include "base/mutant.h"

static bool set_from_types(struct ir_ctx *ctx, struct ir_node *n)
{
    const struct ir_attr *types = infer_list(ctx, n, IR_ATTR_types, n->nout);
    for (int i = 0; types && i < n->nout; i++)
        n->out[i]->type = types->types[i];
    return types != NULL;
}

INFER(state_version)
{
    const struct ir_attr *types = infer_list(ctx, n, IR_ATTR_types, 1);
    if (types && !ir_is_version(types->types[0]))
        return infer_fail(ctx, n, "expected the type of a version, got %s", ir_type_text(ctx, types->types[0]));
    return types && infer_set_type(ctx, n, 0, types->types[0]);
}

/* The variable of operand i, which must be a version; NULL after a diagnostic. */
static struct ir_state *version_of(struct ir_ctx *ctx, struct ir_node *n, int i)
{
    ir_type t = n->in[i].value->type;
    if (!ir_is_version(t))
        infer_fail(ctx, n, "operand %d must be a version of a state variable, got %s", i, ir_type_text(ctx, t));
    return ir_is_version(t) ? t->state : NULL;
}

INFER(state_read)
{
    struct ir_state *s = version_of(ctx, n, 0);
    return s && infer_set_type(ctx, n, 0, s->type);
}

INFER(state_write)
{
    struct ir_state *s = version_of(ctx, n, 1);
    if (!s)
        return false;
    ir_type t = n->in[0].value->type;
    bool fits = t->kind == s->type->kind && t->dtype == s->type->dtype && t->rank == s->type->rank;
    for (int i = 0; fits && i < t->rank; i++)
        fits = infer_merge(ctx, t->dim[i], s->type->dim[i]) != NULL;
    if (!fits)
        return infer_fail(ctx, n, "state variable '%s' is %s, got %s", s->name, ir_type_text(ctx, s->type),
                          ir_type_text(ctx, t));
    return infer_set_type(ctx, n, 0, n->in[1].value->type);
}

/* A scalar operand of the given element type. */
static bool is_scalar(struct ir_ctx *ctx, struct ir_node *n, int i, enum tcc_dtype dtype)
{
    ir_type t = n->in[i].value->type;
    return (t->kind == IR_T_TENSOR && t->rank == 0 && t->dtype == dtype) ||
           infer_fail(ctx, n, "operand %d must be %s[], got %s", i, tcc_dtype_name(dtype), ir_type_text(ctx, t));
}

INFER(if)
{
    return is_scalar(ctx, n, 0, TCC_BOOL) && set_from_types(ctx, n);
}

INFER(loop)
{
    int64_t nscan = ir_get_i(n, IR_ATTR_nscan, 0), carried = n->nin - 2;
    if ((n->in[0].value && !is_scalar(ctx, n, 0, TCC_I64)) || (n->in[1].value && !is_scalar(ctx, n, 1, TCC_BOOL)))
        return false;
    if (nscan < 0 || n->nout != carried + nscan)
        return infer_fail(ctx, n, "%lld carried values and %lld collected ones make %lld outputs, got %d",
                          (long long)carried, (long long)nscan, (long long)(carried + nscan), n->nout);
    return set_from_types(ctx, n);
}

INFER(none)
{
    (void)ctx;
    (void)n;
    return true;
}

/* A fact of its own. One that cannot hold is an error of the run: other shape versions may have no need of it. */
INFER(check)
{
    const struct ir_attr *e = infer_list(ctx, n, IR_ATTR_exprs, 2), *what = ir_attr(n, IR_ATTR_name);
    const char *mode = ir_get_s(n, IR_ATTR_mode, "");
    if (!e)
        return false;
    if (strcmp(mode, "eq") != 0 && strcmp(mode, "le") != 0)
        return infer_fail(ctx, n, "mode must be eq or le, got '%s'", mode);
    struct ir_fact f = {*mode == 'e' ? IR_EQ : IR_LE, e->exprs[0], e->exprs[1], what ? ir_intern(ctx, what->s) : NULL};
    ir_assume(ctx, &f);
    return true;
}

INFER(bind)
{
    ir_type t = infer_tensor(ctx, n, 0);
    const struct ir_attr *syms = t ? infer_list(ctx, n, IR_ATTR_syms, -1) : NULL;
    if (!syms)
        return false;
    if (t->dtype != TCC_I64 || t->rank > 1)
        return infer_fail(ctx, n, "the operand must be an i64 tensor of rank 0 or 1, got %s", ir_type_text(ctx, t));
    if (t->rank == 0 ? syms->n != 1 : !infer_merge(ctx, t->dim[0], ir_const(ctx, syms->n)))
        return infer_fail(ctx, n, "%d symbols for %s", syms->n, ir_type_text(ctx, t));
    for (int i = 0; i < syms->n; i++) {
        if (syms->exprs[i]->kind != IR_X_SYM)
            return infer_fail(ctx, n, "expected symbols, got %s", ir_expr_text(ctx, syms->exprs[i]));
    }
    return true;
}

INFER(lib)
{
    if (!ir_get_s(n, IR_ATTR_name, NULL))
        return infer_fail(ctx, n, "attribute name is missing");
    if (!set_from_types(ctx, n))
        return false;
    for (int i = 0; i < MUTANT(413, n->nout, 0); i++)
        if (ir_is_tensor(n->out[i]->type) && !infer_sizes_fit(ctx, n, n->out[i]->type->rank, n->out[i]->type->dim))
            return false;
    return true;
}

INFER(box)
{
    ir_type t = n->in[0].value->type;
    if (t->kind != IR_T_TENSOR)
        return infer_fail(ctx, n, "expected a tensor, got %s", ir_type_text(ctx, t));
    return infer_set_type(ctx, n, 0, ir_unranked_type(ctx, t->dtype));
}

INFER(unbox)
{
    const struct ir_attr *types = infer_list(ctx, n, IR_ATTR_types, 1);
    ir_type from = n->in[0].value->type;
    if (!types)
        return false;
    if (!ir_is_object(from) || !ir_is_tensor(types->types[0]))
        return infer_fail(ctx, n, "expected an object and the type of a ranked tensor, got %s and %s",
                          ir_type_text(ctx, from), ir_type_text(ctx, types->types[0]));
    if (from->kind == IR_T_TENSOR && from->dtype != types->types[0]->dtype)
        return infer_fail(ctx, n, "%s does not hold %s", ir_type_text(ctx, from),
                          tcc_dtype_name(types->types[0]->dtype));
    return infer_set_type(ctx, n, 0, types->types[0]);
}
