/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold: a node whose operands are constants is run now, by the reference interpreter. Exact.
 *
 * What folding must not do is blow the program up: a result may have as many bytes as the operands' data and
 * `limit` more (option limit=BYTES, default 65536). Tensors whose elements are all equal are kept as one element:
 * MAP ops on these, and moves of these, fold to such a tensor at any size.
 * Integer tensors that hold dims (shape arithmetic) become `dims` of their expressions, or constants.
 */
#include "passes/rewrite_int.h"

#include <stdlib.h>

#include "base/mutant.h"

bool pass_fold_run(struct pass_run *r);

struct folder {
    struct pass_run *run;
    struct ir_builder b;
    int64_t limit;
    bool stop;
};

/* Elements of a type with static dims; -1: too many to count, or dims are symbolic. */
static int64_t static_elements(ir_type t)
{
    int64_t dims[TCC_MAX_RANK];
    return ir_is_tensor(t) && ir_static_dims(t, dims) ? tcc_elements(t->rank, dims) : -1;
}

static bool replace(struct folder *f, struct ir_value *old, struct ir_tensor *t)
{
    struct ir_value *v = ir_constant(&f->b, t);
    if (!v)
        return false;
    v->name = old->name;
    ir_replace_uses(old, v);
    return true;
}

/* -- Equal elements ----------------------------------------------------------------------------------- */

static bool all_splats(const struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++) {
        const struct ir_tensor *t = n->in[i].value ? ir_const_of(n->in[i].value) : NULL;
        if (!t || (!t->splat && t->nelems != 1))
            return false;
    }
    return n->nin > 0;
}

static struct ir_tensor *splat_as(ir_type t, const void *element)
{
    int64_t dims[TCC_MAX_RANK];
    return ir_static_dims(t, dims) ? ir_tensor_splat((enum tcc_dtype)t->dtype, t->rank, dims, element) : NULL;
}

/* A MAP op on splats: run on scalars. */
static struct ir_tensor *map_splats(struct folder *f, struct ir_node *n)
{
    struct ir_value *scalars[8];
    struct ir_tensor *one = NULL, *result = NULL;

    if (n->nin > 8)
        return NULL;
    for (int i = 0; i < n->nin; i++) {
        const struct ir_tensor *t = ir_const_of(n->in[i].value);
        struct ir_tensor *element = ir_tensor_splat((enum tcc_dtype)t->dtype, 0, NULL, ir_tensor_at(t, 0));
        scalars[i] = element ? ir_constant(&f->b, element) : NULL;
        if (!scalars[i])
            return NULL;
    }
    struct ir_attr *attrs = IR_NEWN(f->b.ctx, n->nattrs + 1, struct ir_attr);
    for (int i = 0; i < n->nattrs; i++)
        attrs[i] = n->attrs[i];
    struct ir_node *small = ir_build(&f->b, n->op, n->nin, scalars, attrs);
    if (small && ir_interp_node(small, &one)) {
        result = splat_as(n->out[0]->type, ir_tensor_at(one, 0));
        ir_tensor_unref(one);
    }
    if (small)
        ir_remove(small);
    for (int i = n->nin - 1; i >= 0; i--)
        if (!ir_has_uses(scalars[i]))
            ir_remove(scalars[i]->def);
    return result;
}

/* Moves whose result holds elements of operand 0 only; a pad or concat may bring others. */
static bool keeps_elements(enum ir_op op)
{
    return op == IR_reshape || op == IR_transpose || op == IR_expand || op == IR_slice || op == IR_gather;
}

static struct ir_tensor *fold_splats(struct folder *f, struct ir_node *n)
{
    if (n->nout != 1 || static_elements(n->out[0]->type) < 0)
        return NULL;
    if (ir_op_info(n->op)->kind == IR_K_MAP && all_splats(n))
        return map_splats(f, n);
    const struct ir_tensor *x = n->nin > 0 && n->in[0].value ? ir_const_of(n->in[0].value) : NULL;
    if (x && MUTANT(88, keeps_elements(n->op), true) && n->nin == 1 && (x->splat || x->nelems == 1))
        return splat_as(n->out[0]->type, ir_tensor_at(x, 0));
    return NULL;
}

/* Removes n and the constants that only it read: of a chain of them no more than two are in memory at a time. */
static void remove_with_operands(struct ir_node *n)
{
    struct ir_node *operand[8];
    int count = 0;
    for (int i = 0; i < n->nin && count < 8; i++)
        if (n->in[i].value && n->in[i].value->def && n->in[i].value->def->op == IR_constant)
            operand[count++] = n->in[i].value->def;
    ir_remove(n);
    for (int i = 0; i < count; i++) {
        bool again = false;
        for (int k = 0; k < i; k++)
            again |= operand[k] == operand[i];
        if (!again && !ir_has_uses(operand[i]->out[0]))
            ir_remove(operand[i]);
    }
}

/* -- Any constants ---------------------------------------------------------------------------------------- */

/* Elements taken out of the bytes that hold several: constants of them would take the place of what was packed to be
 * small. */
static bool takes_bits(const struct ir_node *n)
{
    return (n->op == IR_and || n->op == IR_shr) && n->nin == 2 && n->out[0]->type->dtype == TCC_U8;
}

static bool foldable(const struct folder *f, const struct ir_node *n)
{
    int64_t operands = 0, results = 0;
    bool kept = false; /* weights in bytes, which are to stay such */
    int barred = IR_F_EFFECT | IR_F_TERMINATOR | IR_F_REGIONS;

    if (n->op == IR_constant || n->nout == 0 || (ir_op_info(n->op)->flags & barred) ||
        ir_op_info(n->op)->kind == IR_K_LIBRARY)
        return false;
    for (int i = 0; i < n->nin; i++) {
        const struct ir_tensor *t = n->in[i].value ? ir_const_of(n->in[i].value) : NULL;
        if (n->in[i].value && !t)
            return false;
        operands += t ? (t->splat ? tcc_dtype_bytes((enum tcc_dtype)t->dtype) : (int64_t)t->bytes) : 0;
        kept |= t && pass_opts(f->run)->keep_bytes && !t->splat && (t->dtype == TCC_U8 || t->dtype == TCC_I8);
    }
    for (int i = 0; i < n->nout; i++) {
        int64_t count = static_elements(n->out[i]->type);
        if (count < 0 || count > INT64_MAX / 16 - results)
            return false;
        results += count * tcc_dtype_bytes((enum tcc_dtype)n->out[i]->type->dtype);
    }
    int64_t limit = kept ? 0 : f->limit;
    if (takes_bits(n))
        return results <= limit;
    /* Weights in a small type that are computed with in a larger one: widened here, or else in every run. */
    enum { WEIGHTS = 64 << 20 };
    return MUTANT(87, results <= operands + limit, true) || (n->op == IR_cast && results <= WEIGHTS && !kept);
}

/* -- Shape arithmetic ---------------------------------------------------------------------------------------- */

/* A value that holds expressions, made by more than one node: `dims` of them, or a constant when they all are. */
static bool fold_exprs(struct folder *f, struct ir_node *n)
{
    ir_expr exprs[64];
    int64_t values[64];
    bool constant = true;

    if (n->nout != 1 || n->op == IR_constant || !ir_is_tensor(n->out[0]->type))
        return false;
    ir_type t = n->out[0]->type;
    int count = pass_exprs_of(f->b.ctx, n->out[0], exprs, 64);
    if (count < 0)
        return false;
    for (int i = 0; i < count; i++)
        constant &= ir_is_const(exprs[i], &values[i]);
    bool plain = n->op == IR_dims || n->op == IR_dim;
    if ((plain && !constant) || (!constant && t->dtype != TCC_I64) || (f->stop = !pass_changed(f->run)))
        return false;
    struct ir_value *v;
    if (!constant) {
        v = ir_build1(&f->b, t->rank ? IR_dims : IR_dim, 0, NULL, IR_ATTRS(ir_attr_exprs(IR_ATTR_exprs, count, exprs)));
    } else {
        int64_t size = count;
        struct ir_tensor *data = ir_tensor_new((enum tcc_dtype)t->dtype, t->rank, &size);
        for (int i = 0; data && i < count; i++)
            tcc_store_i64((enum tcc_dtype)t->dtype,
                          (char *)(uintptr_t)data->data + i * tcc_dtype_bytes((enum tcc_dtype)t->dtype), values[i]);
        v = data ? ir_constant(&f->b, data) : NULL;
    }
    return v && v->type == t && ir_replace(n, v);
}

/* -- The pass ---------------------------------------------------------------------------------------------------- */

static void fold_node(struct folder *f, struct ir_node *n)
{
    struct ir_tensor *out[4] = {NULL};

    f->b = (struct ir_builder){
        .ctx = pass_ctx(f->run), .func = n->block->func, .block = n->block, .before = n, .where = n->where};
    if (n->nout > 4 || fold_exprs(f, n) || f->stop)
        return;
    out[0] = fold_splats(f, n);
    if (!out[0] && (!foldable(f, n) || !ir_interp_node(n, out)))
        return;
    if (!pass_changed(f->run)) {
        f->stop = true;
        for (int i = 0; i < n->nout; i++)
            ir_tensor_unref(out[i]);
        return;
    }
    bool ok = true;
    for (int i = 0; i < n->nout; i++)
        ok &= replace(f, n->out[i], out[i]);
    if (ok)
        remove_with_operands(n);
}

static void fold_block(struct folder *f, struct ir_block *b)
{
    for (struct ir_node *n = b->first, *next; n && !f->stop; n = next) {
        next = n->next;
        for (int i = 0; i < n->nregions; i++)
            fold_block(f, n->regions[i]);
        if (!n->nregions)
            fold_node(f, n);
    }
}

bool pass_fold_run(struct pass_run *r)
{
    struct folder f = {.run = r, .limit = strtoll(pass_param(r, "limit", "65536"), NULL, 10)};

    for (struct ir_func *func = pass_module(r)->funcs; func; func = func->next)
        fold_block(&f, func->body);
    return true;
}
