/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builders of the importer: level-1 nodes, folded where their operands are known.
 *
 * Everything goes through imp_op(): small integer tensors are followed as expressions (fold.c), small constants are
 * computed by the reference interpreter, the rest becomes a node. Casts and moves are in move.c.
 */
#include "compiler/import/import.h"

/* -- One op */

static bool small_constants(int nin, struct ir_value *const *in)
{
    for (int k = 0; k < nin; k++) {
        const struct ir_tensor *t = ir_const_of(in[k]);
        if (!t || t->nelems > IMP_FOLD_ELEMENTS || t->dtype == TCC_STRING)
            return false;
    }
    return nin > 0;
}

/* Bytes that would become numbers of four: the pass quantise multiplies bytes. */
static bool widens_bytes(const struct ir_node *n, int64_t count)
{
    enum tcc_dtype from = n->nin == 1 ? imp_dtype(n->in[0].value) : TCC_NONE;
    return n->op == IR_cast && (from == TCC_I8 || from == TCC_U8) && count > 64;
}

static struct ir_value *computed(struct imp *im, struct ir_node *n)
{
    int64_t dims[TCC_MAX_RANK];
    ir_type type = n->out[0]->type;
    if (!ir_is_tensor(type) || !ir_static_dims(type, dims))
        return NULL;
    int64_t count = tcc_elements(type->rank, dims);
    if (count < 0 || count > IMP_FOLD_ELEMENTS || widens_bytes(n, count))
        return NULL;
    struct ir_tensor *result[1] = {NULL};
    if (!ir_interp_node(n, result) || !result[0])
        return NULL;
    ir_remove(n);
    return ir_constant(&im->b, result[0]);
}

/*
 * x with 1 for each dim that can't be what another operand has there (a size up to 9 beside 32, say): for the two to
 * broadcast, it has to be 1. The run checks it.
 */
static struct ir_value *broadcastable(struct imp *im, struct ir_value *x, int nin, struct ir_value *const *in)
{
    ir_expr dims[TCC_MAX_RANK];
    bool changes = false;
    if (!ir_is_tensor(x->type))
        return x;
    for (int i = 0; i < imp_rank(x); i++) {
        dims[i] = imp_dim(x, i);
        for (int k = 0; k < nin && !ir_is_const(dims[i], NULL); k++) {
            int at = i + (ir_is_tensor(in[k]->type) ? imp_rank(in[k]) - imp_rank(x) : -TCC_MAX_RANK);
            if (at < 0 || imp_dim(in[k], at)->lo < 2 || ir_expr_eq(im->ctx, dims[i], imp_dim(in[k], at)) != IR_NO)
                continue;
            dims[i] = ir_const(im->ctx, 1);
            changes = true;
        }
    }
    return changes ? imp_reshape(im, x, imp_rank(x), dims) : x;
}

struct ir_value *imp_op(struct imp *im, enum ir_op op, int nin, struct ir_value *const *in, const struct ir_attr *attrs)
{
    struct ir_value *fitting[4];
    for (int k = 0; k < nin; k++) {
        if (!in[k])
            return NULL;
    }
    bool map = ir_op_info(op)->kind == IR_K_MAP;
    if ((map || op == IR_matmul) && nin > 1 && nin <= 4) {
        for (int k = 0; k < nin; k++)
            fitting[k] = map ? broadcastable(im, in[k], nin, in) : in[k];
        if (!imp_fit(im, nin, fitting, map ? 0 : 2))
            return NULL;
        in = fitting;
    }
    struct ir_value *known = imp_follow(im, op, nin, in, attrs);
    if (known)
        return known;
    struct ir_node *n = ir_build(&im->b, op, nin, in, attrs);
    if (!n)
        return NULL;
    const struct ir_op_info *info = ir_op_info(op);
    if (n->nout == 1 && !(info->flags & (IR_F_EFFECT | IR_F_REGIONS)) && info->kind != IR_K_LIBRARY &&
        small_constants(nin, in)) {
        struct ir_value *v = computed(im, n);
        if (v)
            return v;
    }
    return n->out[0];
}

struct ir_value *imp_un(struct imp *im, enum ir_op op, struct ir_value *x)
{
    return imp_op(im, op, 1, &x, NULL);
}

struct ir_value *imp_bin(struct imp *im, enum ir_op op, struct ir_value *x, struct ir_value *y)
{
    struct ir_value *in[] = {x, y};
    return imp_op(im, op, 2, in, NULL);
}

struct ir_value *imp_with(struct imp *im, enum ir_op op, struct ir_value *x, double v)
{
    return imp_bin(im, op, x, imp_like(im, x, v));
}

struct ir_value *imp_tri(struct imp *im, enum ir_op op, struct ir_value *x, struct ir_value *y, struct ir_value *z)
{
    struct ir_value *in[] = {x, y, z};
    return imp_op(im, op, 3, in, NULL);
}

bool imp_is_float(const struct ir_value *v)
{
    return v->type->kind == IR_T_TENSOR && tcc_is_float(imp_dtype(v));
}

bool imp_axis(struct imp *im, int64_t *axis, int rank)
{
    if (*axis < -rank || *axis >= rank)
        return imp_bad(im, "axis %lld of a tensor with %d dims", (long long)*axis, rank);
    if (*axis < 0)
        *axis += rank;
    return true;
}

struct ir_value *imp_select(struct imp *im, struct ir_value *c, struct ir_value *x, struct ir_value *y)
{
    return imp_tri(im, IR_select, c, x, y);
}

/* -- Regions */

struct ir_block *imp_open_region(struct imp *im, struct ir_node *parent, struct ir_builder *saved)
{
    *saved = im->b;
    im->b.block = ir_region_new(im->func, parent);
    im->b.before = NULL;
    return im->b.block;
}

void imp_close_region(struct imp *im, const struct ir_builder *saved)
{
    im->b.block = saved->block;
    im->b.before = saved->before;
}

bool imp_yield(struct imp *im, size_t n, struct ir_value *const *v)
{
    return ir_build(&im->b, IR_yield, (int)n, v, NULL) != NULL;
}

/* -- Constants */

/* Truncated and clamped: a float attribute of an integer operator may be anything. */
static int64_t to_integer(double v)
{
    return v != v ? 0 : v >= 9.2e18 ? INT64_MAX : v <= -9.2e18 ? INT64_MIN : (int64_t)v;
}

struct ir_tensor *imp_keep(struct imp *im, struct ir_tensor *t)
{
    if (!t)
        ir_no_memory(im->ctx);
    VEC_PUSH(im->ctx, im->kept, t);
    return t;
}

struct ir_value *imp_const(struct imp *im, struct ir_tensor *t)
{
    if (!t)
        ir_no_memory(im->ctx);
    return ir_constant(&im->b, t);
}

struct ir_value *imp_num(struct imp *im, enum tcc_dtype dtype, double v)
{
    return imp_const(im, ir_tensor_scalar_f(dtype, v));
}

struct ir_value *imp_int(struct imp *im, enum tcc_dtype dtype, int64_t v)
{
    return imp_const(im, ir_tensor_scalar_i(dtype, v));
}

struct ir_value *imp_like(struct imp *im, const struct ir_value *x, double v)
{
    if (!x)
        return NULL;
    enum tcc_dtype d = imp_dtype(x);
    return tcc_is_float(d) ? imp_num(im, d, v) : imp_int(im, d, to_integer(v));
}

static struct ir_value *formed(void *im, enum ir_op op, int n, struct ir_value *const *in)
{
    return imp_op(im, op, n, in, NULL);
}

static struct ir_value *literal(void *im, const struct ir_value *like, double v)
{
    return imp_like(im, like, v);
}

struct ir_value *imp_formula_of(struct imp *im, const char *text, const double *numbers,
                                struct ir_value *const *operands)
{
    return ir_form(&(struct ir_forming){im, formed, literal}, text, numbers, operands);
}

struct ir_value *imp_i64s(struct imp *im, int n, const int64_t *v)
{
    return imp_const(im, ir_tensor_ints(n, v));
}

struct ir_value *imp_dims(struct imp *im, int n, const ir_expr *e)
{
    int64_t values[64];
    bool constant = n <= 64;
    for (int k = 0; k < n && constant; k++)
        constant = ir_is_const(e[k], &values[k]);
    if (constant)
        return imp_i64s(im, n, values);
    return ir_build1(&im->b, IR_dims, 0, NULL, IR_ATTRS(ir_attr_exprs(IR_ATTR_exprs, n, e)));
}

struct ir_value *imp_dim_value(struct imp *im, ir_expr e)
{
    int64_t v;
    if (ir_is_const(e, &v))
        return imp_int(im, TCC_I64, v);
    return ir_build1(&im->b, IR_dim, 0, NULL, IR_ATTRS(ir_attr_exprs(IR_ATTR_exprs, 1, &e)));
}

struct ir_value *imp_shape(struct imp *im, const struct ir_value *x)
{
    return x ? imp_dims(im, imp_rank(x), x->type->dim) : NULL;
}

struct ir_value *imp_splat(struct imp *im, enum tcc_dtype dtype, double v, int rank, const ir_expr *dims)
{
    int64_t sizes[TCC_MAX_RANK];
    bool fixed = true;
    for (int k = 0; k < rank; k++)
        fixed &= ir_is_const(dims[k], &sizes[k]);
    if (!fixed)
        return imp_expand(im, tcc_is_float(dtype) ? imp_num(im, dtype, v) : imp_int(im, dtype, to_integer(v)), rank,
                          dims);
    uint8_t element[16] = {0};
    if (tcc_is_float(dtype))
        tcc_store_f64(dtype, element, v);
    else
        tcc_store_i64(dtype, element, to_integer(v));
    return imp_const(im, ir_tensor_splat(dtype, rank, sizes, element));
}

/* -- Reductions and contractions */

struct ir_value *imp_reduce(struct imp *im, enum ir_op op, struct ir_value *x, int n, const int64_t *axes, bool keep)
{
    if (!x || !n)
        return x;
    return imp_op(im, op, 1, &x, IR_ATTRS(ir_attr_ints(IR_ATTR_axes, n, axes), ir_attr_i(IR_ATTR_keepdims, keep)));
}

struct ir_value *imp_reduce_all(struct imp *im, enum ir_op op, struct ir_value *x)
{
    int64_t axes[TCC_MAX_RANK];
    return imp_reduce(im, op, x, imp_axes_from(0, imp_rank(x), axes), axes, false);
}

struct ir_value *imp_log_sum_exp(struct imp *im, struct ir_value *x, int n, const int64_t *axes, bool keep)
{
    struct ir_value *top = imp_reduce(im, IR_reduce_max, x, n, axes, true);
    struct ir_value *zero = imp_like(im, top, 0);
    top = imp_select(im, imp_un(im, IR_isinf, top), zero, top);
    struct ir_value *sum =
        imp_reduce(im, IR_reduce_sum, imp_un(im, IR_exp, imp_bin(im, IR_sub, x, top)), n, axes, true);
    struct ir_value *y = imp_bin(im, IR_add, imp_un(im, IR_log, sum), top);
    return keep ? y : imp_squeeze(im, y, n, axes);
}

struct ir_node *imp_topk(struct imp *im, struct ir_value *x, int64_t axis, ir_expr k, bool largest, bool sorted)
{
    return x ? ir_build(&im->b, IR_topk, 1, &x,
                        IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_e(IR_ATTR_k, k),
                                 ir_attr_i(IR_ATTR_largest, largest), ir_attr_i(IR_ATTR_sorted, sorted)))
             : NULL;
}

struct ir_value *imp_count(struct imp *im, const struct ir_value *x, int n, const int64_t *axes, enum tcc_dtype dtype)
{
    if (!x)
        return NULL;
    ir_expr e = ir_const(im->ctx, 1);
    for (int k = 0; k < n; k++)
        e = ir_mul(im->ctx, e, imp_dim(x, (int)axes[k]));
    return imp_cast(im, imp_dim_value(im, e), dtype);
}

/* The sum is divided, not each term: that is what the other runtimes do, and what integers need. */
struct ir_value *imp_mean(struct imp *im, struct ir_value *x, int n, const int64_t *axes, bool keep)
{
    if (!x || !n)
        return x;
    struct ir_value *wide = imp_wide(im, x);
    struct ir_value *sum = imp_reduce(im, IR_reduce_sum, wide, n, axes, keep);
    return sum ? imp_cast(im, imp_bin(im, IR_div, sum, imp_count(im, x, n, axes, imp_dtype(wide))), imp_dtype(x))
               : NULL;
}

struct ir_value *imp_matmul(struct imp *im, struct ir_value *a, struct ir_value *b, bool trans_a, bool trans_b,
                            enum tcc_dtype to)
{
    struct ir_value *in[] = {a, b};
    if (!a || !b)
        return NULL;
    return imp_op(im, IR_matmul, 2, in,
                  IR_ATTRS(ir_attr_i(IR_ATTR_trans_a, trans_a), ir_attr_i(IR_ATTR_trans_b, trans_b),
                           ir_attr_dtype(IR_ATTR_to, to == TCC_NONE ? imp_dtype(a) : to)));
}

/* Vectors are a row on the left, a column on the right; the 1 they bring is dropped from the result. */
struct ir_value *imp_matmul_nd(struct imp *im, struct ir_value *a, struct ir_value *b, enum tcc_dtype to)
{
    if (!a || !b)
        return NULL;
    if (!imp_rank(a) || !imp_rank(b))
        return imp_bad(im, "a scalar operand"), NULL;
    bool row = imp_rank(a) == 1, column = imp_rank(b) == 1;
    int64_t first = 0, second = 1;
    a = row ? imp_unsqueeze(im, a, 1, &first) : a;
    b = column ? imp_unsqueeze(im, b, 1, &second) : b;
    struct ir_value *y = imp_matmul(im, a, b, false, false, to);
    int64_t axes[2];
    int n = 0;
    if (!y)
        return NULL;
    if (row)
        axes[n++] = imp_rank(y) - 2;
    if (column)
        axes[n++] = imp_rank(y) - 1;
    return imp_squeeze(im, y, n, axes);
}

struct ir_value *imp_iota(struct imp *im, int rank, const ir_expr *dims, int axis, enum tcc_dtype to)
{
    struct ir_node *n = ir_build(&im->b, IR_iota, 0, NULL,
                                 IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, rank, dims), ir_attr_i(IR_ATTR_axis, axis),
                                          ir_attr_dtype(IR_ATTR_to, to)));
    struct ir_value *v = n ? computed(im, n) : NULL;
    return v ? v : n ? n->out[0] : NULL;
}

struct ir_value *imp_band(struct imp *im, enum ir_op compare, const ir_expr *dims, struct ir_value *k)
{
    struct ir_value *row = imp_iota(im, 2, dims, 0, TCC_I64), *column = imp_iota(im, 2, dims, 1, TCC_I64);
    double number;
    if (imp_scalar_of(k, &number) && number == 0)
        return imp_bin(im, compare, column, row);
    return imp_bin(im, compare, imp_bin(im, IR_sub, column, row), k);
}

struct ir_value *imp_range(struct imp *im, struct ir_value *start, struct ir_value *limit, struct ir_value *delta)
{
    ir_expr s, l, d, n;
    int64_t step;
    if (!start || !limit || !delta)
        return NULL;
    enum tcc_dtype t = imp_dtype(start);
    double by_constant;
    if (imp_scalar_of(delta, &by_constant) && by_constant == 0)
        return imp_bad(im, "a step that is not 0 is expected"), NULL;
    bool known = imp_exprs_of(im, start, 1, &s) == 1 && imp_exprs_of(im, limit, 1, &l) == 1 &&
                 imp_exprs_of(im, delta, 1, &d) == 1 && ir_is_const(d, &step) && step;
    if (known) {
        ir_expr span = step > 0 ? ir_sub(im->ctx, l, s) : ir_sub(im->ctx, s, l);
        n = ir_max(im->ctx, ir_const(im->ctx, 0),
                   ir_ceildiv(im->ctx, span, ir_const(im->ctx, step > 0 ? step : -step)));
    } else {
        /* ceil((limit - start) / delta), in f64 so that both integers and floats count exactly enough. */
        struct ir_value *start_cast = imp_cast(im, start, TCC_F64);
        struct ir_value *span = imp_bin(im, IR_sub, imp_cast(im, limit, TCC_F64), start_cast);
        struct ir_value *count = imp_un(im, IR_ceil, imp_bin(im, IR_div, span, imp_cast(im, delta, TCC_F64)));
        count = imp_cast(im, imp_bin(im, IR_max, count, imp_num(im, TCC_F64, 0)), TCC_I64);
        if (imp_bound_exprs(im, imp_reshape(im, count, 0, NULL), 1, 0, IMP_MAX_DIM, &n) != 1)
            return NULL;
    }
    struct ir_value *i = imp_iota(im, 1, &n, 0, t);
    struct ir_value *at = imp_reshape(im, start, 0, NULL), *by = imp_reshape(im, delta, 0, NULL);
    return imp_bin(im, IR_add, imp_bin(im, IR_mul, i, by), at);
}

/* The sum along an axis, rounded after each addition: of a type whose sums are otherwise kept in a wider one. */
static struct ir_value *rounded_sum(struct imp *im, struct ir_value *x, int axis)
{
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    if (!x)
        return NULL;
    for (int k = 0; k < imp_rank(x); k++) {
        starts[k] = ir_const(im->ctx, 0);
        sizes[k] = k == axis ? ir_const(im->ctx, 1) : imp_dim(x, k);
        steps[k] = ir_const(im->ctx, 1);
    }
    starts[axis] = ir_addc(im->ctx, imp_dim(x, axis), -1);
    x = imp_op(im, IR_cumsum, 1, &x, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_i(IR_ATTR_rounded, 1)));
    return imp_slice(im, x, starts, sizes, steps);
}

/* With --exact as the operator's text says, in the operands' type step by step; of an axis that may be empty there is
 * no last sum. */
struct ir_value *imp_softmax(struct imp *im, struct ir_value *x, int axis, bool log)
{
    int64_t a = axis, size;
    bool each = im->exact && x && tcc_small_float(imp_dtype(x)) && ir_is_const(imp_dim(x, axis), &size) && size > 0;
    struct ir_value *shifted = imp_bin(im, IR_sub, x, imp_reduce(im, IR_reduce_max, x, 1, &a, true));
    struct ir_value *e = imp_un(im, IR_exp, shifted);
    struct ir_value *sum = each ? rounded_sum(im, e, axis) : imp_reduce(im, IR_reduce_sum, e, 1, &a, true);
    struct ir_value *y = log ? imp_bin(im, IR_sub, shifted, imp_un(im, IR_log, sum)) : imp_bin(im, IR_div, e, sum);
    return y ? imp_cast(im, y, imp_dtype(x)) : NULL;
}
