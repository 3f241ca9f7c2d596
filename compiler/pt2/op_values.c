/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of values, distinct ones, the most frequent; whole numbers' divisors; the bits of floats. Results whose sizes
 * the data decides are the library's; what compares each element with each is one reduction over the pairs.
 */
#include "compiler/pt2/pt2_int.h"

#include <math.h>
#include <string.h>

/* -- Counts */

/* bincount(self, weights, minlength): how often, or with what weight, each of 0, 1, 2... is there */
bool aten_bincount(struct pt2 *p)
{
    struct ir_value *in[] = {pt2_need(p, "self"), pt2_t(p, "weights")};
    int64_t least = pt2_i(p, "minlength", 0);
    if (!in[0] || imp_rank(in[0]) != 1 || imp_is_float(in[0]) || least < 0)
        return in[0] && imp_bad(p->im, "a vector of whole numbers that are not negative is expected, and minlength of "
                                       "at least 0");
    in[1] = in[1] ? imp_cast(p->im, in[1], pt2_out_type(p, 0)) : NULL;
    struct ir_attr minlength = imp_user_int(p->im, "minlength", least);
    ir_expr n = imp_fresh_dim(p->im, 0, 0);
    ir_type type = ir_tensor_type(p->ctx, in[1] ? imp_dtype(in[1]) : TCC_I64, 1, &n);
    struct ir_node *node = imp_lib_of(p->im, "bincount", in[1] ? 2 : 1, in, 1, &type, 1, &minlength);
    return node && pt2_out(p, 0, node->out[0]);
}

/* The bounds of `bins` equal parts, as linspace counts them: from either end to the middle. */
static struct ir_value *bounds(struct pt2 *p, struct ir_value *from, struct ir_value *to, int64_t bins)
{
    ir_expr n = ir_const(p->ctx, bins + 1);
    const double *ends = IMP_NUMBERS((double)bins, (double)((bins + 1) / 2));
    struct ir_value *i = from ? imp_iota(p->im, 1, &n, 0, imp_dtype(from)) : NULL;
    struct ir_value *step = imp_formula_n(p->im, "(y - x) / a", ends, from, to);
    return imp_formula_n(p->im, "select(lt(z, b), x + u * z, y - u * (a - z))", ends, from, to, i, step);
}

/* Those of histogram's data, or the range that is given; of equal ones, half to either side. */
static struct ir_value *bounds_of(struct pt2 *p, struct ir_value *x, int64_t bins)
{
    double range[2];
    int64_t first = 0;
    int n = pt2_floats(p, "range", 2, range);
    struct ir_value *from = imp_like(p->im, x, 0), *to = from;
    if (n == 2) {
        from = imp_like(p->im, x, range[0]);
        to = imp_like(p->im, x, range[1]);
    } else if (n != -2 && !ir_is_value(imp_dim(x, 0), 0)) {
        if (!pt2_some(p, x, 1, &first))
            return NULL;
        from = imp_reduce(p->im, IR_reduce_min, x, 1, &first, false);
        to = imp_reduce(p->im, IR_reduce_max, x, 1, &first, false);
    }
    double half = n == 2 || !ir_is_value(imp_dim(x, 0), 0) ? 0.5 : 0; /* of no data 0 to 1 */
    const double *apart = IMP_NUMBERS(half, 1 - half);
    struct ir_value *least = imp_formula_n(p->im, "select(eq(x, y), x - a, x)", apart, from, to);
    return bounds(p, least, imp_formula_n(p->im, "select(eq(x, y), y + b, y)", apart, from, to), bins);
}

/* histogram(self, bins, range, weight, density); arg 1: bins are the bounds. The last part has its upper bound, too. */
bool aten_histogram(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = pt2_flat(p, pt2_need(p, "self")), *weight = x ? pt2_flat(p, pt2_t(p, "weight")) : NULL;
    bool density = pt2_b(p, "density", false);
    const int64_t last = 1;
    int64_t first = 0, bins = arg ? 0 : pt2_i(p, "bins", 100);
    if (!x || (!arg && (bins < 1 || bins > PT2_MAX_LIST)))
        return x && imp_bad(im, "%lld bins", (long long)bins);
    struct ir_value *edges = arg ? pt2_need(p, "bins") : bounds_of(p, x, bins);
    if (!edges || imp_rank(edges) != 1)
        return edges && imp_bad(im, "bounds in a vector are expected");
    ir_expr n = ir_addc(p->ctx, imp_dim(edges, 0), -1), one = ir_const(p->ctx, 1);
    if (n->lo < 1 && !imp_assume(im, IR_LE, ir_const(p->ctx, 1), n, "there are two bounds at least"))
        return false;
    struct ir_value *low = imp_slice1(im, edges, 0, ir_const(p->ctx, 0), n), *high = imp_slice1(im, edges, 0, one, n),
                    *end = imp_slice1(im, edges, 0, n, one);
    struct ir_value *from = imp_unsqueeze(im, low, 1, &last), *to = imp_unsqueeze(im, high, 1, &last);
    struct ir_value *y = imp_formula(im, "select(and(ge(x, y), or(lt(x, z), and(eq(z, u), eq(x, u)))), v, 0)", x, from,
                                     to, end, weight ? weight : imp_like(im, x, 1));
    y = imp_reduce(im, IR_reduce_sum, y, 1, &last, false);
    if (density) {
        struct ir_value *sum = imp_reduce(im, IR_reduce_sum, y, 1, &first, true);
        y = imp_formula(im, "x / (y * (z - u))", y, sum, high, low);
    }
    return pt2_out(p, 0, y) && (!pt2_wants(p, 1) || pt2_out(p, 1, edges));
}

/* -- Distinct values */

/* Results of unique: values, where each element is among them, counts. arg 0: _unique2 (all elements), 1: unique_dim,
 * 2: unique_consecutive, which looks at neighbours alone */
bool aten_unique(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis = 0;
    pt2_ignore(p, "sorted", "return_inverse", "return_counts");
    bool flat = !pt2_given(p, "dim");
    if (!x || (!flat && !pt2_axis(p, "dim", 0, imp_rank(x), &axis)))
        return false;
    ir_type inverse = ir_with_dtype(p->ctx, x->type, TCC_I64);
    x = flat || !imp_rank(x) ? pt2_flat(p, x) : x;
    ir_expr dims[TCC_MAX_RANK], all = imp_dim(x, (int)axis), n = imp_fresh_dim(im, 0, (int)axis);
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = k == axis ? n : imp_dim(x, k);
    ir_type index = ir_tensor_type(p->ctx, TCC_I64, 1, &n),
            types[] = {ir_tensor_type(p->ctx, imp_dtype(x), imp_rank(x), dims), index,
                       ir_tensor_type(p->ctx, TCC_I64, 1, &all), index};
    struct ir_attr own[] = {imp_user_int(im, "nan_differs", 1), imp_user_int(im, "consecutive", p->row->arg == 2),
                            imp_user_int(im, "axis", axis)};
    struct ir_node *node = imp_lib_of(im, "unique", 1, &x, 4, types, 3, own);
    if (!node || !pt2_out(p, 0, node->out[0]))
        return false;
    if (pt2_wants(p, 1) &&
        !pt2_out(p, 1, flat ? imp_reshape(im, node->out[2], inverse->rank, inverse->dim) : node->out[2]))
        return false;
    return !pt2_wants(p, 2) || pt2_out(p, 2, node->out[3]);
}

/* mode(self, dim, keepdim): the least of the most frequent values, and where the last of it is. A NaN equals none, and
 * comes behind all numbers. */
bool aten_mode(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self");
    bool keep = pt2_b(p, "keepdim", false);
    int64_t axis;
    if (!x || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    if (!imp_rank(x))
        return pt2_alone(p, x);
    int rank = imp_rank(x);
    if (rank == TCC_MAX_RANK)
        return imp_unsupported(im, "a tensor of %d dims", rank);
    if (!pt2_some(p, x, 1, &axis))
        return false;
    int64_t next = axis + 1;
    struct ir_value *each = imp_unsqueeze(im, x, 1, &next), *other = imp_unsqueeze(im, x, 1, &axis);
    struct ir_value *count = imp_cast(im, imp_bin(im, IR_eq, each, other), TCC_I64);
    count = imp_reduce(im, IR_reduce_sum, count, 1, &next, false);
    struct ir_value *at = x ? imp_along(im, imp_iota(im, 1, &x->type->dim[axis], 0, TCC_I64), (int)axis, rank) : NULL,
                    *number = imp_is_float(x) ? imp_un(im, IR_not, imp_un(im, IR_isnan, x)) : NULL;
    if (number)
        count = imp_with(im, IR_max, count, 1);
    struct ir_value *most = imp_bin(im, IR_eq, count, imp_reduce(im, IR_reduce_max, count, 1, &axis, true));
    struct ir_value *known = number ? imp_bin(im, IR_and, most, number) : most;
    struct ir_value *value =
        imp_reduce(im, IR_reduce_min, imp_select(im, known, x, pt2_outermost(p, x, false)), 1, &axis, true);
    struct ir_value *here = imp_bin(im, IR_and, known, imp_bin(im, IR_eq, x, value));
    struct ir_value *index =
        imp_reduce(im, IR_reduce_max, imp_select(im, here, at, imp_int(im, TCC_I64, 0)), 1, &axis, true);
    struct ir_value *y = imp_gather_elements(im, x, index, (int)axis);
    return pt2_out(p, 0, keep ? y : imp_squeeze(im, y, 1, &axis)) &&
           (!pt2_wants(p, 1) || pt2_out(p, 1, keep ? index : imp_squeeze(im, index, 1, &axis)));
}

/* -- Divisors */

/* gcd(self, other); arg 1: lcm */
bool aten_gcd(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "other", TCC_NONE, &o))
        return false;
    struct ir_value *both = imp_bin(p->im, IR_add, o.a, o.b),
                    *in[] = {pt2_expand_as(p, o.a, both), pt2_expand_as(p, o.b, both)};
    struct ir_node *n = in[0] && in[1] ? imp_lib_of(p->im, "gcd", 2, in, 1, &in[0]->type, 0, NULL) : NULL;
    if (!n)
        return false;
    struct ir_value *gcd = n->out[0];
    if (!p->row->arg)
        return pt2_out(p, 0, gcd);
    /* Of zeros it is 0, as division by 0 is here; narrow integers are multiplied as C does, as int. */
    enum tcc_dtype wide = tcc_dtype_bytes(o.type) < 4 ? TCC_I32 : o.type;
    struct ir_value *part = imp_cast(p->im, imp_bin(p->im, IR_div, in[0], gcd), wide);
    return pt2_out(p, 0, imp_un(p->im, IR_abs, imp_bin(p->im, IR_mul, part, imp_cast(p->im, in[1], wide))));
}

/* -- Bits */

static const struct form {
    enum tcc_dtype type, bits;
    int mantissa, bias;
} forms[] = {
    {TCC_F16, TCC_I16, 10, 15}, {TCC_BF16, TCC_I16, 7, 127}, {TCC_F32, TCC_I32, 23, 127}, {TCC_F64, TCC_I64, 52, 1023}};

static const struct form *form_of(struct pt2 *p, const struct ir_value *x)
{
    for (size_t k = 0; x && k < sizeof forms / sizeof *forms; k++)
        if (forms[k].type == imp_dtype(x))
            return &forms[k];
    if (x)
        imp_bad(p->im, "%s; floating-point numbers are expected", ir_type_text(p->ctx, x->type));
    return NULL;
}

/* x's bits as another type; of another width, the last axis is as much longer or shorter. */
static struct ir_value *bitcast(struct pt2 *p, struct ir_value *x, enum tcc_dtype to)
{
    if (!x || imp_dtype(x) == to)
        return x;
    int from = tcc_dtype_bytes(imp_dtype(x)), wide = tcc_dtype_bytes(to), last = imp_rank(x) - 1;
    ir_expr dims[TCC_MAX_RANK];
    memcpy(dims, x->type->dim, (size_t)(last + 1) * sizeof *dims);
    if (from != wide && last < 0)
        return imp_bad(p->im, "a tensor without dims, whose elements' width changes"), NULL;
    if (from > wide)
        dims[last] = ir_mulc(p->ctx, dims[last], from / wide);
    if (from < wide) {
        ir_expr parts = ir_const(p->ctx, wide / from);
        dims[last] = ir_floordiv(p->ctx, dims[last], parts);
        if (!imp_assume(p->im, IR_EQ, ir_mul(p->ctx, dims[last], parts), imp_dim(x, last),
                        "the last size is a multiple of %d", wide / from))
            return NULL;
    }
    ir_type type = ir_tensor_type(p->ctx, to, last + 1, dims);
    struct ir_attr attr = imp_user_int(p->im, "to", to);
    struct ir_node *n = imp_lib_of(p->im, "bitcast", 1, &x, 1, &type, 1, &attr);
    return n ? n->out[0] : NULL;
}

/* view.dtype(self, dtype) */
bool aten_view_type(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    enum tcc_dtype to = pt2_type(p, "dtype", TCC_NONE);
    return x && to != TCC_NONE && pt2_out(p, 0, bitcast(p, x, to));
}

/* 2 to the power of a whole number of f's width, within the exponents of numbers that are not subnormal. */
static struct ir_value *power_of_2(struct pt2 *p, const struct form *f, struct ir_value *k)
{
    return bitcast(p, imp_with(p->im, IR_shl, imp_with(p->im, IR_add, k, f->bias), f->mantissa), f->type);
}

/* frexp(self): a number of [0.5, 1), and the exponent of 2 that it is to be multiplied by. Subnormal ones are scaled
 * first; the power is made in two steps, for by itself it may be none that the type has. */
bool aten_frexp(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    const struct form *f = form_of(p, x);
    if (!f)
        return false;
    double least = ldexp(1, 1 - f->bias);
    struct ir_value *small = imp_formula_n(p->im, "lt(abs(x), a)", IMP_NUMBERS(least), x);
    struct ir_value *whole =
        imp_formula_n(p->im, "select(y, x * a, x)", IMP_NUMBERS(ldexp(1, f->mantissa + 1)), x, small);
    struct ir_value *e = imp_formula_n(p->im, "and(shr(x, a), b)", IMP_NUMBERS(f->mantissa, 2 * f->bias + 1),
                                       bitcast(p, whole, f->bits));
    struct ir_value *none = imp_formula(p->im, "or(eq(x, 0), or(isnan(x), isinf(x)))", x);
    e = imp_formula_n(p->im, "select(z, 0, x - select(y, a, b))", IMP_NUMBERS(f->bias + f->mantissa, f->bias - 1), e,
                      small, none);
    struct ir_value *first = power_of_2(p, f, imp_formula(p->im, "-shr(x, 1)", e));
    struct ir_value *second = power_of_2(p, f, imp_formula(p->im, "-(x - shr(x, 1))", e));
    struct ir_value *y = imp_formula(p->im, "x * y * z", x, first, second);
    return pt2_out(p, 0, y) && (!pt2_wants(p, 1) || pt2_out(p, 1, imp_cast(p->im, e, TCC_I32)));
}

/* nextafter(self, other) */
bool aten_nextafter(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "other", pt2_out_type(p, 0), &o))
        return false;
    const struct form *f = form_of(p, o.a);
    struct ir_value *x = f ? pt2_expand_as(p, o.a, imp_bin(p->im, IR_add, o.a, o.b)) : NULL, *y = o.b;
    if (!x)
        return false;
    struct ir_value *away = imp_formula(p->im, "eq(lt(x, y), gt(x, 0))", x, y), *bits = bitcast(p, x, f->bits);
    struct ir_value *moved = bitcast(p, imp_formula(p->im, "x + select(y, 1, -1)", bits, away), f->type);
    double least = ldexp(1, 1 - f->bias - f->mantissa);
    moved =
        imp_formula_n(p->im, "select(eq(x, 0), select(lt(x, y), a, b), z)", IMP_NUMBERS(least, -least), x, y, moved);
    moved = imp_select(p->im, imp_bin(p->im, IR_eq, x, y), y, moved);
    struct ir_value *is_nan = imp_un(p->im, IR_isnan, y);
    struct ir_value *nan = imp_bin(p->im, IR_or, imp_un(p->im, IR_isnan, x), is_nan);
    return pt2_out(p, 0, imp_select(p->im, nan, imp_bin(p->im, IR_add, x, y), moved));
}
