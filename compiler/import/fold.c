/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small integer tensors as dim expressions.
 *
 * Models compute shapes with ordinary operators: Shape -> Gather -> Mul -> Concat -> Reshape. Every such tensor is kept
 * as a `dims` node (i64[n]) or `dim` node (i64[]) whose elements are expressions over the model's symbols; imp_op()
 * asks here first, and when all operands are known this way the result is again a `dims` node instead of the operator.
 * The row's functions then read sizes with imp_exprs_of() and never see the difference to a constant.
 */
#include "compiler/import/import.h"

#include <string.h>

#include "base/format.h"
#include "base/mutant.h"

#define MAX_FOLLOWED 64

struct known {
    int n;
    int rank;
    enum tcc_dtype dtype;
    ir_expr at[MAX_FOLLOWED];
};

static bool integer(enum tcc_dtype d)
{
    return tcc_is_int(d) || d == TCC_BOOL;
}

static int exprs_of(struct imp *im, const struct ir_value *v, int max, ir_expr *out, int depth)
{
    if (v->type->kind != IR_T_TENSOR || !integer(imp_dtype(v)) || imp_rank(v) < 0 || imp_rank(v) > 1 || !v->def)
        return -1;
    const struct ir_tensor *t = ir_const_of(v);
    if (t && t->nelems <= max) {
        for (int k = 0; k < t->nelems; k++)
            out[k] = ir_const(im->ctx, tcc_load_i64(t->dtype, ir_tensor_at(t, k)));
        return (int)t->nelems;
    }
    if (v->def->op == IR_dims || v->def->op == IR_dim) {
        const struct ir_attr *a = ir_attr(v->def, IR_ATTR_exprs);
        if (!a || a->n > max)
            return -1;
        memcpy(out, a->exprs, (size_t)a->n * sizeof *out);
        return a->n;
    }
    /* Conversions between wide integers keep sizes as they are; a reshape between [] and [1] too. */
    bool transparent = v->def->op == IR_reshape || (v->def->op == IR_cast && tcc_dtype_bytes(imp_dtype(v)) >= 4 &&
                                                    tcc_is_int(imp_dtype(v->def->in[0].value)));
    return transparent && depth < 8 ? exprs_of(im, v->def->in[0].value, max, out, depth + 1) : -1;
}

int imp_exprs_of(struct imp *im, const struct ir_value *v, int max, ir_expr *out)
{
    return v ? exprs_of(im, v, max, out, 0) : -1;
}

static int bound_exprs(struct imp *im, struct ir_value *v, int max, int64_t lo, int64_t hi, bool clip, ir_expr *out);

/* Of a list that was put together, what is known of it stays known. */
static int bound_parts(struct imp *im, const struct ir_node *concat, int max, int64_t lo, int64_t hi, bool clip,
                       ir_expr *out)
{
    int total = 0;
    for (int i = 0; i < concat->nin; i++) {
        int n = bound_exprs(im, concat->in[i].value, max - total, lo, hi, clip, out + total);
        if (n < 0)
            return -1;
        total += n;
    }
    return total;
}

static int bound_exprs(struct imp *im, struct ir_value *v, int max, int64_t lo, int64_t hi, bool clip, ir_expr *out)
{
    if (!v)
        return im->refused ? -1 : (imp_bad(im, "an operand with sizes or indices is missing"), -1);
    int n = imp_exprs_of(im, v, max, out);
    if (n >= 0)
        return n;
    int64_t count = 1;
    if (!ir_is_tensor(v->type) || imp_rank(v) > 1 || !tcc_is_int(imp_dtype(v)))
        return imp_bad(im, "sizes and indices must be a list of integers"), -1;
    if (imp_rank(v) == 1 && !ir_is_const(imp_dim(v, 0), &count))
        return imp_open_size(im, imp_dim(v, 0), NULL, "how many sizes or indices there are is known only at run time"),
               -1;
    if (v->def && v->def->op == IR_concat)
        return bound_parts(im, v->def, max, lo, hi, clip, out);
    if (count > max)
        return imp_bad(im, "%lld sizes or indices; at most %d are expected", (long long)count, max), -1;
    for (int k = 0; k < count; k++)
        out[k] = imp_fresh_element(im, v, k, lo, hi);
    struct ir_value *wide = imp_cast(im, v, TCC_I64);
    if (MUTANT(335, clip, false)) {
        struct ir_value *hi_value = imp_int(im, TCC_I64, hi);
        wide = imp_tri(im, IR_clip, wide, imp_int(im, TCC_I64, lo), hi_value);
    }
    if (!wide)
        return -1;
    if (count && !ir_build(&im->b, IR_bind, 1, &wide, IR_ATTRS(ir_attr_exprs(IR_ATTR_syms, (int)count, out))))
        return -1;
    return (int)count;
}

int imp_ints_of(struct imp *im, const struct ir_value *v, int max, int64_t *out)
{
    ir_expr e[64];
    if (!v || max > 64)
        return -1;
    int n = imp_exprs_of(im, v, max, e);
    for (int k = 0; k < n; k++) {
        if (!ir_is_const(e[k], &out[k]))
            return -1;
    }
    return n;
}

bool imp_scalar_of(const struct ir_value *v, double *out)
{
    const struct ir_tensor *t = v ? ir_const_of(v) : NULL;
    if (!t || t->nelems != 1 || t->dtype == TCC_STRING || tcc_dtype_class(t->dtype) == TCC_CLASS_COMPLEX)
        return false;
    *out = tcc_load_f64(t->dtype, ir_tensor_at(t, 0));
    return true;
}

int imp_bound_exprs(struct imp *im, struct ir_value *v, int max, int64_t lo, int64_t hi, ir_expr *out)
{
    return bound_exprs(im, v, max, lo, hi, false, out);
}

int imp_clipped_exprs(struct imp *im, struct ir_value *v, int max, ir_expr *out)
{
    return bound_exprs(im, v, max, -IMP_MAX_DIM, IMP_MAX_DIM, true, out);
}

bool imp_check_values(struct imp *im, struct ir_value *v, int64_t lo, int64_t hi)
{
    int64_t count = 1;
    ir_expr syms[TCC_MAX_RANK];
    struct ir_value *wide = imp_cast(im, v, TCC_I64);
    if (!wide)
        return false;
    if (imp_rank(wide) > 1 || (imp_rank(wide) == 1 && !ir_is_const(imp_dim(wide, 0), &count)) || count > TCC_MAX_RANK)
        return imp_open_size(im, imp_rank(wide) == 1 ? imp_dim(wide, 0) : NULL, NULL,
                             "how many values there are is known only at run time");
    for (int k = 0; k < count; k++)
        syms[k] = imp_fresh_element(im, v, k, lo, hi);
    return !count || ir_build(&im->b, IR_bind, 1, &wide, IR_ATTRS(ir_attr_exprs(IR_ATTR_syms, (int)count, syms)));
}

bool imp_assume(struct imp *im, enum ir_relation relation, ir_expr a, ir_expr b, const char *what, ...)
{
    struct ir_fact f = {relation, a, b, NULL};
    if (ir_fact_holds(im->ctx, &f, 0, NULL) == IR_YES)
        return true;
    FORMATTED(text, 300, what);
    if (ir_is_const(a, NULL) && ir_is_const(b, NULL))
        return imp_bad(im, "%s: %lld must be %s %lld", text, (long long)a->value,
                       relation == IR_EQ ? "equal to" : "at most", (long long)b->value);
    f.what = ir_intern(im->ctx, text);
    return ir_check(&im->b, &f);
}

struct ir_value *imp_with_dims(struct imp *im, struct ir_value *v, const ir_expr *dims, const char *const *what)
{
    ir_expr known[TCC_MAX_RANK];
    for (int k = 0; k < imp_rank(v); k++) {
        known[k] = dims[k] ? dims[k] : imp_dim(v, k);
        if (MUTANT(334, dims[k] != NULL, false) && !imp_assume(im, IR_EQ, imp_dim(v, k), dims[k], "%s", what[k]))
            return NULL;
    }
    return imp_reshape(im, v, imp_rank(v), known);
}

/* The least (or greatest) element, at most (at least) 0. */
static ir_expr extreme(struct imp *im, struct ir_value *list, bool greatest)
{
    int64_t axis = 0;
    ir_expr e;
    struct ir_value *v = imp_reduce(im, greatest ? IR_reduce_max : IR_reduce_min, list, 1, &axis, false);
    v = imp_bin(im, greatest ? IR_max : IR_min, v, imp_int(im, TCC_I64, 0));
    return v && imp_clipped_exprs(im, v, 1, &e) == 1 ? e : NULL;
}

bool imp_check_all(struct imp *im, struct ir_value *v, ir_expr hi, const char *what)
{
    for (int i = 0; i < im->checked.n; i++)
        if (im->checked.at[i].v == v && im->checked.at[i].hi == hi && im->checked.at[i].block == im->b.block)
            return true;
    if (!v || !tcc_is_int(imp_dtype(v)))
        return v && imp_bad(im, "%s: integers are expected, got %s", what, ir_type_text(im->ctx, v->type));
    ir_expr count = ir_num_elements(im->ctx, v->type);
    struct ir_value *list = imp_reshape(im, imp_cast(im, v, TCC_I64), 1, &count);
    ir_expr least = extreme(im, list, false), greatest = least ? extreme(im, list, true) : NULL;
    VEC_PUSH(im->ctx, im->checked, (struct imp_checked){v, hi, im->b.block});
    return greatest && imp_assume(im, IR_LE, ir_const(im->ctx, 0), least, "%s is negative", what) &&
           imp_assume(im, IR_LE, greatest, hi, "%s is too large", what);
}

/* -- Following one op */

typedef bool (*follow_fn)(struct imp *im, const struct known *in, int nin, struct known *out);

static bool pairwise(struct imp *im, const struct known *in, struct known *out,
                     ir_expr (*f)(struct ir_ctx *, ir_expr, ir_expr))
{
    int n = in[0].n > in[1].n ? in[0].n : in[1].n;
    if ((in[0].n != n && in[0].n != 1) || (in[1].n != n && in[1].n != 1))
        return false;
    out->n = n;
    out->rank = in[0].rank > in[1].rank ? in[0].rank : in[1].rank;
    out->dtype = in[0].dtype;
    for (int k = 0; k < n; k++) {
        out->at[k] = f(im->ctx, in[0].at[in[0].n == 1 ? 0 : k], in[1].at[in[1].n == 1 ? 0 : k]);
        if (!out->at[k])
            return false;
    }
    return true;
}

/* C's division agrees with floor division where the operands can't be negative. */
static ir_expr div_expr(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    if (ir_expr_le(ctx, ir_const(ctx, 0), a) != IR_YES || ir_expr_le(ctx, ir_const(ctx, 1), b) != IR_YES)
        return NULL;
    return ir_floordiv(ctx, a, b);
}

/* As div_expr, of sizes that are 0 only where a size of an input is: (n - 1) / 2 + 1, as exporters write what a
 * convolution leaves of n. */
static bool follow_size_division(struct imp *im, const struct known *in, struct known *out)
{
    if (in[0].n != 1 || in[1].n != 1 || ir_const_or(in[1].at[0], 0) < 1 || !imp_unless_empty(im, in[0].at[0]))
        return false;
    *out = in[0];
    out->rank = in[0].rank > in[1].rank ? in[0].rank : in[1].rank;
    out->at[0] = ir_floordiv(im->ctx, in[0].at[0], in[1].at[0]);
    return true;
}

static ir_expr mod_expr(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return ir_expr_le(ctx, ir_const(ctx, 1), b) == IR_YES ? ir_mod(ctx, a, b) : NULL;
}

/* Comparisons give 0 or 1 where that is certain. */
static ir_expr truth(struct ir_ctx *ctx, enum ir_tri t, bool wanted)
{
    return t == IR_MAYBE ? NULL : ir_const(ctx, (t == IR_YES) == wanted);
}

static ir_expr eq_expr(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return truth(ctx, ir_expr_eq(ctx, a, b), true);
}

static ir_expr ne_expr(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return truth(ctx, ir_expr_eq(ctx, a, b), false);
}

static ir_expr le_expr(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return truth(ctx, ir_expr_le(ctx, a, b), true);
}

static ir_expr gt_expr(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return truth(ctx, ir_expr_le(ctx, a, b), false);
}

static ir_expr lt_expr(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return gt_expr(ctx, b, a);
}

static ir_expr ge_expr(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return le_expr(ctx, b, a);
}

static const struct {
    enum ir_op op;
    ir_expr (*f)(struct ir_ctx *ctx, ir_expr a, ir_expr b);
    bool compares;
} pairs[] = {
    {IR_add, ir_add, false},   {IR_sub, ir_sub, false}, {IR_mul, ir_mul, false}, {IR_div, div_expr, false},
    {IR_mod, mod_expr, false}, {IR_min, ir_min, false}, {IR_max, ir_max, false}, {IR_eq, eq_expr, true},
    {IR_ne, ne_expr, true},    {IR_le, le_expr, true},  {IR_lt, lt_expr, true},  {IR_gt, gt_expr, true},
    {IR_ge, ge_expr, true},
};

static bool follow_pair(struct imp *im, enum ir_op op, const struct known *in, struct known *out)
{
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        if (pairs[k].op != op)
            continue;
        if (!pairwise(im, in, out, pairs[k].f))
            return op == IR_div && follow_size_division(im, in, out);
        if (pairs[k].compares)
            out->dtype = TCC_BOOL;
        return true;
    }
    return false;
}

static bool follow_select(const struct known *in, struct known *out)
{
    int n = 1;
    int64_t which;
    for (int k = 0; k < 3; k++)
        n = in[k].n > n ? in[k].n : n;
    *out = in[1];
    out->n = n;
    for (int k = 0; k < 3; k++)
        out->rank = in[k].rank > out->rank ? in[k].rank : out->rank;
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < 3; j++) {
            if (in[j].n != n && in[j].n != 1)
                return false;
        }
        if (!ir_is_const(in[0].at[in[0].n == 1 ? 0 : k], &which))
            return false;
        const struct known *from = &in[which ? 1 : 2];
        out->at[k] = from->at[from->n == 1 ? 0 : k];
    }
    return true;
}

static bool follow_gather(const struct known *in, struct known *out)
{
    if (in[0].rank != 1)
        return false;
    out->n = in[1].n;
    out->rank = in[1].rank;
    out->dtype = in[0].dtype;
    for (int k = 0; k < in[1].n; k++) {
        int64_t i;
        if (!ir_is_const(in[1].at[k], &i) || i < -in[0].n || i >= in[0].n)
            return false;
        out->at[k] = in[0].at[i < 0 ? i + in[0].n : i];
    }
    return true;
}

static bool follow_concat(const struct known *in, int nin, struct known *out)
{
    out->rank = 1;
    out->dtype = in[0].dtype;
    for (int k = 0; k < nin; k++) {
        if (out->n + in[k].n > MAX_FOLLOWED || in[k].rank != 1)
            return false;
        memcpy(out->at + out->n, in[k].at, (size_t)in[k].n * sizeof *out->at);
        out->n += in[k].n;
    }
    return true;
}

static const struct ir_attr *given(const struct ir_attr *attrs, enum ir_attr_key key)
{
    for (; attrs && attrs->key != IR_ATTR_NONE; attrs++) {
        if (attrs->key == key)
            return attrs;
    }
    return NULL;
}

static bool follow_slice(const struct known *in, const struct ir_attr *attrs, struct known *out)
{
    const struct ir_attr *start = given(attrs, IR_ATTR_starts), *size = given(attrs, IR_ATTR_sizes),
                         *step = given(attrs, IR_ATTR_steps);
    int64_t first, count, by = 1;
    if (in->rank != 1 || !start || !size || !ir_is_const(start->exprs[0], &first) ||
        !ir_is_const(size->exprs[0], &count))
        return false;
    if (step && !ir_is_const(step->exprs[0], &by))
        return false;
    *out = *in;
    out->n = (int)count;
    for (int k = 0; k < count; k++) {
        if (first + k * by < 0 || first + k * by >= in->n)
            return false;
        out->at[k] = in->at[first + k * by];
    }
    return count >= 0 && count <= MAX_FOLLOWED;
}

static bool follow_reshape(const struct known *in, const struct ir_attr *attrs, struct known *out)
{
    const struct ir_attr *shape = given(attrs, IR_ATTR_shape);
    int64_t n = 1;
    if (!shape || shape->n > 1 || (shape->n && !ir_is_const(shape->exprs[0], &n)) || n != in->n)
        return false;
    *out = *in;
    out->rank = shape->n;
    return true;
}

static bool follow_expand(const struct known *in, const struct ir_attr *attrs, struct known *out)
{
    const struct ir_attr *shape = given(attrs, IR_ATTR_shape);
    int64_t n = 1;
    if (!shape || shape->n > 1 || (shape->n && !ir_is_const(shape->exprs[0], &n)) || n > MAX_FOLLOWED ||
        (in->n != 1 && in->n != n))
        return false;
    *out = *in;
    out->rank = shape->n;
    out->n = (int)n;
    for (int k = 0; k < n; k++)
        out->at[k] = in->at[in->n == 1 ? 0 : k];
    return true;
}

static bool follow_reduce(struct imp *im, enum ir_op op, const struct known *in, const struct ir_attr *attrs,
                          struct known *out)
{
    const struct ir_attr *keep = given(attrs, IR_ATTR_keepdims), *axes = given(attrs, IR_ATTR_axes);
    if (in->rank != 1 || !axes || axes->n != 1)
        return false;
    *out = *in;
    out->rank = keep && keep->i ? 1 : 0;
    out->n = 1;
    bool sum = op == IR_reduce_sum, prod = op == IR_reduce_prod;
    if (!sum && !prod && !in->n)
        return false;
    ir_expr e = sum ? ir_const(im->ctx, 0) : prod ? ir_const(im->ctx, 1) : in->at[0];
    for (int k = 0; k < in->n; k++)
        e = sum                   ? ir_add(im->ctx, e, in->at[k])
            : prod                ? ir_mul(im->ctx, e, in->at[k])
            : op == IR_reduce_max ? ir_max(im->ctx, e, in->at[k])
                                  : ir_min(im->ctx, e, in->at[k]);
    out->at[0] = e;
    return true;
}

static bool follow_op(struct imp *im, enum ir_op op, const struct known *in, int nin, const struct ir_attr *attrs,
                      struct known *out)
{
    switch (op) {
    case IR_select: return follow_select(in, out);
    case IR_gather: return follow_gather(in, out);
    case IR_concat: return follow_concat(in, nin, out);
    case IR_slice: return follow_slice(in, attrs, out);
    case IR_reshape: return follow_reshape(in, attrs, out);
    case IR_expand: return follow_expand(in, attrs, out);
    case IR_reduce_sum:
    case IR_reduce_prod:
    case IR_reduce_max:
    case IR_reduce_min: return follow_reduce(im, op, in, attrs, out);
    case IR_neg:
        *out = in[0];
        for (int k = 0; k < out->n; k++)
            out->at[k] = ir_mulc(im->ctx, in[0].at[k], -1);
        return true;
    default: return nin == 2 && follow_pair(im, op, in, out);
    }
}

/* Is any operand symbolic, or are all i64 or bool? Narrower constants, which wrap, are the interpreter's. */
static bool followed(const struct known *in, int nin)
{
    bool wide = true;
    for (int k = 0; k < nin; k++) {
        wide &= in[k].dtype == TCC_I64 || in[k].dtype == TCC_BOOL;
        for (int j = 0; j < in[k].n; j++) {
            if (!ir_is_const(in[k].at[j], NULL))
                return true;
        }
    }
    return wide;
}

struct ir_value *imp_follow(struct imp *im, enum ir_op op, int nin, struct ir_value *const *in,
                            const struct ir_attr *attrs)
{
    struct known known[8], out = {0};
    if (nin < 1 || nin > 8)
        return NULL;
    for (int k = 0; k < nin; k++) {
        if (!in[k] || !ir_is_tensor(in[k]->type) || imp_rank(in[k]) > 1 || !integer(imp_dtype(in[k])))
            return NULL;
        known[k].n = imp_exprs_of(im, in[k], MAX_FOLLOWED, known[k].at);
        if (known[k].n < 0)
            return NULL;
        known[k].rank = imp_rank(in[k]);
        known[k].dtype = imp_dtype(in[k]);
    }
    if (!followed(known, nin) || !follow_op(im, op, known, nin, attrs, &out) || (!out.rank && out.n != 1))
        return NULL;
    struct ir_value *v = out.rank ? imp_dims(im, out.n, out.at) : imp_dim_value(im, out.at[0]);
    return v ? imp_cast(im, v, out.dtype) : NULL;
}
