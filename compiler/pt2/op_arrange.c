/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that repeat, turn, roll, pad or pick elements of a tensor: repeat, flip, roll, tril, diagonal, pad, ... */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

/* -- Repeats and orders */

bool aten_repeat(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    ir_expr times[TCC_MAX_RANK], dims[2 * TCC_MAX_RANK], wide[2 * TCC_MAX_RANK], flat[TCC_MAX_RANK];
    int n = pt2_exprs(p, pt2_given(p, "dims") ? "dims" : "repeats", TCC_MAX_RANK, times), m = 0;
    if (!x || n < 0)
        return false;
    if (n < imp_rank(x)) { /* tile takes fewer */
        memmove(times + imp_rank(x) - n, times, (size_t)n * sizeof *times);
        for (int k = 0; k < imp_rank(x) - n; k++)
            times[k] = pt2_one(p);
        n = imp_rank(x);
    }
    x = imp_to_rank(p->im, x, n);
    for (int k = 0; x && k < n; k++) {
        if (!ir_is_value(times[k], 1)) {
            dims[m] = pt2_one(p);
            wide[m++] = times[k];
        }
        dims[m] = wide[m] = imp_dim(x, k);
        m++;
        flat[k] = ir_mul(p->ctx, times[k], imp_dim(x, k));
    }
    if (!x || m > TCC_MAX_RANK)
        return x && imp_unsupported(p->im, "so many repeated axes");
    struct ir_value *y = imp_expand(p->im, imp_reshape(p->im, x, m, dims), m, wide);
    return y && pt2_out(p, 0, imp_reshape(p->im, y, n, flat));
}

struct ir_value *pt2_flip(struct pt2 *p, struct ir_value *x, int n, const int64_t *axes)
{
    ir_expr starts[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    for (int k = 0; x && k < imp_rank(x); k++) {
        starts[k] = pt2_zero(p);
        steps[k] = pt2_one(p);
    }
    for (int k = 0; x && k < n; k++) {
        starts[axes[k]] = ir_addc(p->ctx, imp_dim(x, (int)axes[k]), -1);
        steps[axes[k]] = ir_const(p->ctx, -1);
    }
    return x ? imp_slice(p->im, x, starts, x->type->dim, steps) : NULL;
}

/* flip(self, dims); flipud (arg 1) and fliplr (arg 2): the first and the second axis */
bool aten_flip(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, pt2_given(p, "a") ? "a" : "self");
    int64_t axes[TCC_MAX_RANK] = {arg - 1}, given[TCC_MAX_RANK];
    if (arg)
        return x && imp_rank(x) >= arg && pt2_out(p, 0, pt2_flip(p, x, 1, axes));
    if (!x || pt2_ints(p, "dims", TCC_MAX_RANK, given) == 0)
        return pt2_out(p, 0, x);
    int n = pt2_axes(p, "dims", imp_rank(x), axes);
    return n >= 0 && pt2_out(p, 0, pt2_flip(p, x, n, axes));
}

/* x with its elements `by` places further along an axis, those at the end in front; by: 0 .. size - 1 */
static struct ir_value *rolled(struct pt2 *p, struct ir_value *x, int axis, ir_expr by)
{
    ir_expr rest = ir_sub(p->ctx, imp_dim(x, axis), by);
    struct ir_value *in[] = {imp_slice1(p->im, x, axis, rest, by), imp_slice1(p->im, x, axis, pt2_zero(p), rest)};
    return in[0] && in[1] ? imp_concat(p->im, 2, in, axis) : NULL;
}

/* fft_fftshift(self, dim): the first bin of each axis to its middle; fft_ifftshift, arg 1: back */
bool aten_fft_shift(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axes[TCC_MAX_RANK];
    int n = x ? pt2_axes(p, "dim", imp_rank(x), axes) : -1;
    for (int k = 0; k < n && x; k++)
        x = rolled(p, x, (int)axes[k],
                   ir_floordiv(p->ctx, ir_addc(p->ctx, imp_dim(x, (int)axes[k]), p->row->arg), ir_const(p->ctx, 2)));
    return n >= 0 && pt2_out(p, 0, x);
}

/* sum_to_size(self, size): what broadcasting to self's shape repeated is added up */
bool aten_sum_to_size(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    ir_expr dims[TCC_MAX_RANK];
    int64_t axes[TCC_MAX_RANK];
    int rank = pt2_exprs(p, "size", TCC_MAX_RANK, dims), n = 0;
    if (!x || rank < 0 || rank > imp_rank(x))
        return x && rank >= 0 && imp_bad(p->im, "more dims than the operand has");
    for (int k = 0, first = imp_rank(x) - rank; k < imp_rank(x); k++)
        if (k < first || (ir_is_value(dims[k - first], 1) && !ir_is_value(imp_dim(x, k), 1)))
            axes[n++] = k;
    x = imp_reduce(p->im, IR_reduce_sum, imp_cast(p->im, x, pt2_out_type(p, 0)), n, axes, true);
    return x && pt2_out(p, 0, imp_reshape(p->im, x, rank, dims));
}

/* fill_diagonal(self, fill_value, wrap) */
bool aten_fill_diagonal(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self"), *on = NULL;
    bool number;
    struct ir_value *v = pt2_operand(p, "fill_value", &number);
    if (!x || !v || imp_rank(x) < 2)
        return x && v && imp_bad(im, "two dims at least are expected");
    if (pt2_b(p, "wrap", false))
        return imp_unsupported(im, "a diagonal that wraps around");
    for (int k = 1; k < imp_rank(x); k++) {
        struct ir_value *places = imp_iota(im, imp_rank(x), x->type->dim, k, TCC_I64);
        struct ir_value *same = imp_bin(im, IR_eq, imp_iota(im, imp_rank(x), x->type->dim, 0, TCC_I64), places);
        on = on ? imp_bin(im, IR_and, on, same) : same;
    }
    return pt2_out(p, 0, imp_select(im, on, imp_cast(im, v, imp_dtype(x)), x));
}

bool aten_roll(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axes[TCC_MAX_RANK];
    ir_expr shifts[TCC_MAX_RANK];
    int n = pt2_exprs(p, "shifts", TCC_MAX_RANK, shifts), m = pt2_ints(p, "dims", TCC_MAX_RANK, axes);
    if (!x || n < 0 || m < -1)
        return false;
    struct ir_value *y = m <= 0 ? pt2_flat(p, x) : x;
    if (m <= 0)
        axes[0] = 0;
    for (int k = 0; y && k < n; k++) {
        int axis = (int)(axes[k] < 0 ? axes[k] + imp_rank(y) : axes[k]);
        if (axis < 0 || axis >= imp_rank(y))
            return imp_bad(p->im, "axis %lld of %d dims", (long long)axes[k], imp_rank(y));
        y = rolled(p, y, axis, ir_mod(p->ctx, shifts[k], pt2_divisor(p->ctx, imp_dim(y, axis))));
    }
    return y && pt2_out(p, 0, imp_reshape(p->im, y, imp_rank(x), x->type->dim));
}

/* -- Triangles and diagonals */

struct ir_value *pt2_triangle(struct pt2 *p, struct ir_value *x, bool upper, ir_expr diagonal)
{
    struct imp *im = p->im;
    if (!x || imp_rank(x) < 2)
        return NULL;
    struct ir_value *edge = imp_dim_value(im, diagonal);
    struct ir_value *kept = imp_band(im, upper ? IR_ge : IR_le, x->type->dim + imp_rank(x) - 2, edge);
    return imp_select(im, kept, x, imp_like(im, x, 0));
}

/* triu (arg 1) and tril (arg 0) */
bool aten_tri(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    ir_expr diagonal = pt2_e(p, "diagonal", 0);
    return x && diagonal && imp_rank(x) >= 2 && pt2_out(p, 0, pt2_triangle(p, x, p->row->arg, diagonal));
}

struct ir_value *pt2_diagonal(struct pt2 *p, struct ir_value *x, int64_t offset, int64_t a, int64_t b)
{
    struct imp *im = p->im;
    int64_t perm[TCC_MAX_RANK];
    ir_expr dims[TCC_MAX_RANK];
    int n = 0;
    for (int k = 0; k < imp_rank(x); k++) {
        if (k != a && k != b)
            perm[n++] = k;
    }
    perm[n] = a;
    perm[n + 1] = b;
    x = imp_transpose(im, x, perm);
    if (!x)
        return NULL;
    const int64_t far = INT64_C(1) << 40; /* nothing is there */
    offset = offset < -far ? -far : offset > far ? far : offset;
    ir_expr rows = imp_dim(x, n), columns = imp_dim(x, n + 1);
    ir_expr skipped = ir_const(p->ctx, offset < 0 ? -offset : 0), across = ir_const(p->ctx, offset > 0 ? offset : 0);
    ir_expr size =
        ir_max(p->ctx, pt2_zero(p), ir_min(p->ctx, ir_sub(p->ctx, rows, skipped), ir_sub(p->ctx, columns, across)));
    for (int k = 0; k < n; k++)
        dims[k] = imp_dim(x, k);
    dims[n] = ir_mul(p->ctx, rows, columns);
    struct ir_value *row_step = imp_dim_value(im, ir_addc(p->ctx, columns, 1));
    struct ir_value *at = imp_bin(im, IR_mul, imp_iota(im, 1, &size, 0, TCC_I64), row_step);
    at = imp_bin(im, IR_add, at, imp_dim_value(im, ir_add(p->ctx, ir_mul(p->ctx, skipped, columns), across)));
    return imp_gather(im, imp_reshape(im, x, n + 1, dims), at, n);
}

/* By the node's offset, dim1 and dim2; NULL: these operands can't be. */
static struct ir_value *diagonal_of(struct pt2 *p, struct ir_value *x)
{
    int64_t offset = pt2_i(p, "offset", 0), a, b;
    if (!x || imp_rank(x) < 2 || !pt2_axis(p, "dim1", 0, imp_rank(x), &a) || !pt2_axis(p, "dim2", 1, imp_rank(x), &b) ||
        a == b)
        return NULL;
    return pt2_diagonal(p, x, offset, a, b);
}

bool aten_diagonal(struct pt2 *p)
{
    return pt2_out(p, 0, diagonal_of(p, pt2_need(p, "self")));
}

/* The operand with src in the place of its diagonal. */
bool aten_diagonal_scatter(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *src = x ? pt2_need(p, "src") : NULL;
    ir_expr count = src ? ir_num_elements(p->ctx, x->type) : NULL;
    struct ir_value *numbers =
        src ? imp_reshape(p->im, imp_iota(p->im, 1, &count, 0, TCC_I64), imp_rank(x), x->type->dim) : NULL;
    struct ir_value *values = src ? imp_cast(p->im, src, imp_dtype(x)) : NULL;
    return src && pt2_out(p, 0, pt2_put(p, x, diagonal_of(p, numbers), values));
}

/* -- Pads */

/* Amounts are listed from the last axis, front and back; negative ones cut. arg: the mode. */
static bool pad(struct pt2 *p, struct ir_value *x, struct ir_value *fill, const char *mode)
{
    ir_expr given[2 * TCC_MAX_RANK], before[TCC_MAX_RANK], after[TCC_MAX_RANK], starts[TCC_MAX_RANK],
        sizes[TCC_MAX_RANK];
    int n = pt2_exprs(p, pt2_given(p, "padding") ? "padding" : "pad", 2 * TCC_MAX_RANK, given);
    if (!x || n < 0 || n % 2 || n / 2 > imp_rank(x))
        return false;
    ir_expr steps[TCC_MAX_RANK];
    for (int k = 0; k < imp_rank(x); k++) {
        int at = imp_rank(x) - 1 - k;
        ir_expr front = 2 * at < n ? given[2 * at] : pt2_zero(p), back = 2 * at < n ? given[2 * at + 1] : pt2_zero(p);
        before[k] = ir_max(p->ctx, front, pt2_zero(p));
        after[k] = ir_max(p->ctx, back, pt2_zero(p));
        starts[k] = ir_max(p->ctx, ir_mulc(p->ctx, front, -1), pt2_zero(p));
        sizes[k] = ir_sub(p->ctx, imp_dim(x, k),
                          ir_add(p->ctx, starts[k], ir_max(p->ctx, ir_mulc(p->ctx, back, -1), pt2_zero(p))));
        steps[k] = pt2_one(p);
    }
    x = imp_slice(p->im, x, starts, sizes, steps);
    return pt2_out(p, 0, imp_pad(p->im, x, fill, before, after, mode));
}

bool aten_constant_pad(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    return x && pad(p, x, imp_like(p->im, x, pt2_f(p, "value", 0)), "constant");
}

bool aten_mode_pad(struct pt2 *p)
{
    static const char *const modes[] = {"reflect", "edge"};
    return pad(p, pt2_need(p, "self"), NULL, modes[p->row->arg]);
}

/* pad(self, pad, mode, value) */
bool aten_pad(struct pt2 *p)
{
    static const char *const names[][2] = {
        {"constant", "constant"}, {"reflect", "reflect"}, {"replicate", "edge"}, {"circular", "wrap"}};
    struct ir_value *x = pt2_need(p, "self");
    const char *mode = pt2_s(p, "mode", "constant");
    double value = pt2_f(p, "value", 0);
    for (size_t k = 0; x && k < sizeof names / sizeof *names; k++) {
        if (!strcmp(mode, names[k][0]))
            return pad(p, x, k ? NULL : imp_like(p->im, x, value), names[k][1]);
    }
    return x && imp_unsupported(p->im, "mode '%s'", mode);
}
