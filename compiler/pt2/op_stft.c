/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that slide along an axis: unfold, its inverse that adds where they overlap, and the Fourier transforms of
 * windows. */
#include "compiler/pt2/pt2_int.h"

struct windows {
    int64_t size, step;
    ir_expr count;
};

/* The numbers of the windows' elements on the axis, one window after the other. */
static struct ir_value *numbers(struct pt2 *p, const struct windows *w)
{
    ir_expr dims[] = {w->count, ir_const(p->ctx, w->size)}, all = ir_mulc(p->ctx, w->count, w->size);
    struct ir_value *step_value = imp_int(p->im, TCC_I64, w->step);
    struct ir_value *first = imp_bin(p->im, IR_mul, imp_iota(p->im, 2, dims, 0, TCC_I64), step_value);
    struct ir_value *at = imp_bin(p->im, IR_add, first, imp_iota(p->im, 2, dims, 1, TCC_I64));
    return at ? imp_reshape(p->im, at, 1, &all) : NULL;
}

/* Moves axis `from` to `to`; those between move by one. */
static struct ir_value *moved(struct pt2 *p, struct ir_value *x, int from, int to)
{
    int64_t perm[TCC_MAX_RANK];
    for (int k = 0, next = 0; x && k < imp_rank(x); k++) {
        next += next == from;
        perm[k] = k == to ? from : next++;
    }
    return x ? imp_transpose(p->im, x, perm) : NULL;
}

static bool windows_of(struct pt2 *p, ir_expr n, int64_t size, int64_t step, struct windows *w)
{
    int64_t known;
    if (size < 0 || step < 1 || (ir_is_const(n, &known) && known < size))
        return imp_unsupported(p->im, "windows of %lld elements, %lld apart", (long long)size, (long long)step);
    *w = (struct windows){size, step,
                          ir_addc(p->ctx, ir_floordiv(p->ctx, ir_addc(p->ctx, n, -size), ir_const(p->ctx, step)), 1)};
    return true;
}

/* The axis becomes the windows; their elements are one more axis, the last. */
static struct ir_value *unfolded(struct pt2 *p, struct ir_value *x, int axis, int64_t size, int64_t step)
{
    struct windows w;
    ir_expr dims[TCC_MAX_RANK];
    int rank = x ? imp_rank(x) : 0;
    if (!x || !windows_of(p, imp_dim(x, axis), size, step, &w))
        return NULL;
    if (rank == TCC_MAX_RANK)
        return imp_unsupported(p->im, "a tensor of %d dims", rank), NULL;
    struct ir_value *at = numbers(p, &w), *y = at ? imp_gather(p->im, x, at, axis) : NULL;
    for (int k = 0; k <= rank; k++)
        dims[k] = k == axis ? w.count : k == axis + 1 ? ir_const(p->ctx, size) : imp_dim(x, k - (k > axis));
    return moved(p, y ? imp_reshape(p->im, y, rank + 1, dims) : NULL, axis + 1, rank);
}

/* From windows to an axis of n elements, each the sum of those that lie on it. */
static struct ir_value *folded(struct pt2 *p, struct ir_value *x, int axis, ir_expr n, int64_t size, int64_t step)
{
    struct imp *im = p->im;
    struct windows w;
    ir_expr dims[TCC_MAX_RANK];
    int rank = x ? imp_rank(x) - 1 : 0;
    if (!x || !windows_of(p, n, size, step, &w))
        return NULL;
    for (int k = 0; k < rank; k++)
        dims[k] = k == axis ? ir_mulc(p->ctx, w.count, size) : imp_dim(x, k);
    struct ir_value *values = moved(p, x, rank, axis + 1), *at = values ? numbers(p, &w) : NULL;
    values = at ? imp_reshape(im, values, rank, dims) : NULL;
    at = values ? imp_expand(im, imp_along(im, at, axis, rank), rank, dims) : NULL;
    dims[axis] = n;
    struct ir_value *in[] = {imp_splat(im, imp_dtype(x), 0, rank, dims), at, values};
    return in[0] && at ? imp_op(im, IR_scatter_elements, 3, in,
                                IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_s(IR_ATTR_mode, "add")))
                       : NULL;
}

/* unfold(self, dimension, size, step) */
bool aten_unfold(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis, size = pt2_i(p, "size", 1), step = pt2_i(p, "step", 1);
    if (!x || !pt2_axis(p, "dimension", 0, imp_rank(x), &axis))
        return false;
    struct ir_value *y = unfolded(p, imp_to_rank(p->im, x, 1), (int)axis, size, step);
    ir_expr elements = ir_const(p->ctx, size); /* without dims: the one window of a vector of one */
    return pt2_out(p, 0, y && !imp_rank(x) ? imp_reshape(p->im, y, 1, &elements) : y);
}

/* unfold_backward(grad_in, input_sizes, dim, size, step) */
bool aten_unfold_backward(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "grad_in");
    ir_expr sizes[TCC_MAX_RANK];
    int64_t axis;
    if (!x || pt2_exprs(p, "input_sizes", TCC_MAX_RANK, sizes) != imp_rank(x) - 1 || imp_rank(x) < 2 ||
        !pt2_axis(p, "dim", 0, imp_rank(x) - 1, &axis))
        return false;
    int64_t size = pt2_i(p, "size", 1), step = pt2_i(p, "step", 1);
    return pt2_out(p, 0, folded(p, x, (int)axis, sizes[axis], size, step));
}

/* -- Short-time Fourier transforms */

struct stft {
    int64_t n, hop;
    struct ir_value *window; /* [n]; NULL: all ones */
    bool normalized;
};

/* A window that is shorter than n lies in its middle; without one it is ones. */
static bool read_stft(struct pt2 *p, enum tcc_dtype dtype, struct stft *s)
{
    struct imp *im = p->im;
    s->n = pt2_i(p, "n_fft", 0);
    s->hop = pt2_i(p, "hop_length", s->n / 4);
    s->normalized = pt2_b(p, "normalized", false);
    int64_t length = pt2_i(p, "win_length", s->n);
    if (s->n < 1 || s->hop < 1 || length < 1 || length > s->n || pt2_is_complex(p, "window"))
        return imp_unsupported(im, "n_fft %lld, hop_length %lld, win_length %lld", (long long)s->n, (long long)s->hop,
                               (long long)length);
    ir_expr size = ir_const(p->ctx, length);
    s->window = pt2_given(p, "window") ? imp_cast(im, pt2_need(p, "window"), dtype)
                : length < s->n        ? imp_splat(im, dtype, 1, 1, &size)
                                       : NULL;
    if (s->window && length < s->n) {
        ir_expr before = ir_const(p->ctx, (s->n - length) / 2),
                after = ir_const(p->ctx, s->n - length - (s->n - length) / 2);
        s->window = imp_pad(im, s->window, imp_like(im, s->window, 0), &before, &after, "constant");
        return s->window != NULL;
    }
    return s->window || !pt2_given(p, "window");
}

/* stft(self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex): [batch, frequencies,
 * windows] */
bool aten_stft(struct pt2 *p)
{
    struct imp *im = p->im;
    struct stft s;
    struct ir_value *x = pt2_need(p, "self");
    bool complex = pt2_is_complex(p, "self"), onesided = pt2_b(p, "onesided", !complex);
    int64_t last = -1, front = 0;
    pt2_ignore(p, "return_complex"); /* the same memory */
    if (!x || !read_stft(p, imp_dtype(x), &s))
        return false;
    if (pt2_b(p, "center", false) || pt2_b(p, "align_to_window", false) || (complex && onesided))
        return imp_unsupported(im, "center, align_to_window, or one side of a complex signal");
    bool single = imp_rank(x) == 1 + complex;
    x = unfolded(p, single ? imp_unsqueeze(im, x, 1, &front) : x, 1, s.n, s.hop);
    if (x && s.window)
        x = imp_bin(im, IR_mul, x, s.window);
    last = x ? imp_rank(x) : 0;
    x = complex ? moved(p, x, 2, 3) : x ? imp_unsqueeze(im, x, 1, &last) : NULL;
    if (x && !complex && !onesided) {
        struct ir_value *parts[] = {x, imp_expand(im, imp_like(im, x, 0), imp_rank(x), x->type->dim)};
        x = parts[1] ? imp_concat(im, 2, parts, (int)last) : NULL;
    }
    x = x ? pt2_transform(p, x, 2, s.n, onesided ? PT2_R2C : PT2_C2C, s.normalized) : NULL;
    x = moved(p, x, 1, 2);
    return x && pt2_out(p, 0, single ? imp_squeeze(im, x, 1, &front) : x);
}

/* What istft() gives of the axis: from the middle of the first window, where it was centred, to `length` elements or
 * the last one's. */
static struct ir_value *cut(struct pt2 *p, struct ir_value *y, int64_t start, ir_expr total, ir_expr length)
{
    struct imp *im = p->im;
    ir_expr end = length ? ir_addc(p->ctx, length, start) : ir_addc(p->ctx, total, -start), zero = ir_const(p->ctx, 0);
    ir_expr beyond = ir_max(p->ctx, zero, ir_sub(p->ctx, end, total)), none[3] = {zero, zero, zero};
    ir_expr more[3] = {zero, beyond, zero};
    y = y ? imp_pad(im, y, imp_like(im, y, 0), none, more, "constant") : NULL;
    return y ? imp_slice1(im, y, 1, ir_const(p->ctx, start), ir_addc(p->ctx, end, -start)) : NULL;
}

/* istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex) */
bool aten_istft(struct pt2 *p)
{
    struct imp *im = p->im;
    struct stft s;
    struct ir_value *x = pt2_need(p, "self");
    bool center = pt2_b(p, "center", true), complex = pt2_b(p, "return_complex", false);
    int64_t front = 0, known;
    if (!x || !pt2_is_complex(p, "self") || imp_rank(x) < 3 || !read_stft(p, imp_dtype(x), &s))
        return false;
    bool single = imp_rank(x) == 3;
    x = moved(p, single ? imp_unsqueeze(im, x, 1, &front) : x, 1, 2);
    if (!x || !ir_is_const(imp_dim(x, 2), &known))
        return x && imp_unsupported(im, "a number of frequencies that is not known");
    bool onesided = pt2_b(p, "onesided", known != s.n);
    if (complex && onesided)
        return imp_unsupported(im, "a complex result of one side");
    if (!complex && !onesided)
        x = imp_slice1(im, x, 2, ir_const(p->ctx, 0), ir_const(p->ctx, s.n / 2 + 1));
    ir_expr frames = imp_dim(x, 1), length = pt2_given(p, "length") ? pt2_e(p, "length", 0) : NULL,
            total = ir_addc(p->ctx, ir_mulc(p->ctx, frames, s.hop), s.n - s.hop);
    struct ir_value *y = x ? pt2_transform(p, x, 2, s.n, complex ? PT2_C2C_INVERSE : PT2_C2R, s.normalized) : NULL;
    if (y && complex) /* the windows' elements last, as folded() takes them */
        y = moved(p, y, 2, 3);
    ir_expr dims[] = {ir_const(p->ctx, 1), frames, ir_const(p->ctx, s.n)}, size = dims[2];
    struct ir_value *w = s.window ? s.window : y ? imp_splat(im, imp_dtype(y), 1, 1, &size) : NULL;
    y = y && w ? folded(p, imp_bin(im, IR_mul, y, w), 1, total, s.n, s.hop) : NULL;
    struct ir_value *weight =
        y ? folded(p, imp_expand(im, imp_un(im, IR_square, w), 3, dims), 1, total, s.n, s.hop) : NULL;
    y = cut(p, y, center ? s.n / 2 : 0, total, length);
    weight = cut(p, weight, center ? s.n / 2 : 0, total, length);
    if (weight && complex) {
        int64_t last = 2;
        weight = imp_unsqueeze(im, weight, 1, &last);
    }
    y = y && weight ? imp_bin(im, IR_div, y, weight) : NULL;
    return y && pt2_out(p, 0, single ? imp_squeeze(im, y, 1, &front) : y);
}
