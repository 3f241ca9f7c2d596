/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that take pieces of a tensor, add some or lay them out anew: Slice, Pad, DepthToSpace, SpaceToDepth. */
#include "compiler/onnx/import_int.h"

#include <string.h>

/* -- Slice */

/* ONNX's clamping of one axis: -> first index taken and how many. `step` is a constant other than 0. */
static void clamp_slice(struct imp *im, ir_expr dim, ir_expr start, ir_expr end, int64_t step, ir_expr *first,
                        ir_expr *count)
{
    struct ir_ctx *c = im->ctx;
    ir_expr zero = ir_const(c, 0);
    ir_expr lo = step > 0 ? zero : ir_const(c, -1), hi = step > 0 ? dim : ir_addc(c, dim, -1);
    ir_expr *both[2] = {&start, &end};
    for (int k = 0; k < 2; k++) {
        ir_expr e = *both[k];
        int64_t v;
        if (ir_is_const(e, &v) && v > IMP_MAX_DIM) {
            *both[k] = hi;
            continue;
        }
        if (ir_is_const(e, &v) && v < -IMP_MAX_DIM) {
            *both[k] = k == 0 && step < 0 ? lo : step < 0 ? lo : zero;
            continue;
        }
        /* e < 0 counts from the end. Symbols can be of either sign: their own bounds tell. */
        if (ir_expr_le(c, zero, e) == IR_YES)
            *both[k] = ir_min(c, e, hi);
        else if (ir_expr_le(c, e, ir_const(c, -1)) == IR_YES)
            *both[k] = ir_max(c, lo, ir_add(c, e, dim));
        else /* (e mod 2^62 moves no value in range): below 0 add the dim, by max(e, min(e + dim, -1) ...) */
            *both[k] = ir_max(
                c, lo,
                ir_min(c, hi,
                       ir_add(c, e, ir_mul(c, dim, ir_max(c, zero, ir_min(c, ir_const(c, 1), ir_sub(c, zero, e)))))));
    }
    if (step > 0) {
        *first = start;
        *count = ir_max(c, zero, ir_ceildiv(c, ir_sub(c, end, start), ir_const(c, step)));
    } else {
        *first = start;
        *count = ir_max(c, zero, ir_ceildiv(c, ir_sub(c, start, end), ir_const(c, -step)));
    }
}

struct slice_operands {
    int n;
    ir_expr starts[TCC_MAX_RANK], ends[TCC_MAX_RANK];
    int64_t axes[TCC_MAX_RANK], steps[TCC_MAX_RANK];
};

static int attr_exprs(struct imp *im, const char *name, ir_expr *out)
{
    int n;
    const int64_t *v = imp_ints(im, name, &n);
    for (int k = 0; v && k < n && k < TCC_MAX_RANK; k++)
        out[k] = ir_const(im->ctx, v[k]);
    return v && n <= TCC_MAX_RANK ? n : -1;
}

/*
 * A list whose length only the run knows (a slice of offsets, say) has as many entries as the other lists; where none
 * says, one, the usual case. The run checks.
 */
static struct ir_value *listed(struct imp *im, struct ir_value *v, const struct ir_value *other, int axes)
{
    int64_t n = 1;
    if (!v || imp_rank(v) != 1 || ir_is_const(imp_dim(v, 0), NULL))
        return v;
    if (axes >= 0)
        n = axes;
    else if (other && imp_rank(other) == 1)
        ir_is_const(imp_dim(other, 0), &n);
    ir_expr count = ir_const(im->ctx, n);
    return imp_reshape(im, v, 1, &count);
}

/* False: refused or wrong, or (with *opaque) axes or steps are known only at run time. */
static bool read_slice(struct imp *im, const struct ir_value *x, struct slice_operands *s, bool *opaque)
{
    int starts, ends, axes = -1, steps = -1;
    if (im->opset < 10) {
        int n = 0;
        const int64_t *a = imp_ints(im, "axes", &n);
        starts = attr_exprs(im, "starts", s->starts);
        ends = attr_exprs(im, "ends", s->ends);
        axes = a && n <= TCC_MAX_RANK ? n : -1;
        for (int k = 0; k < axes; k++)
            s->axes[k] = a[k];
    } else {
        axes = imp_has(im, 3) ? imp_ints_of(im, imp_in(im, 3), TCC_MAX_RANK, s->axes) : -1;
        steps = imp_has(im, 4) ? imp_ints_of(im, imp_in(im, 4), TCC_MAX_RANK, s->steps) : -1;
        *opaque = (imp_has(im, 3) && axes < 0) || (imp_has(im, 4) && steps < 0);
        if (*opaque)
            return false;
        struct ir_value *from = imp_in(im, 1), *to = imp_in(im, 2);
        starts = imp_clipped_exprs(im, listed(im, from, to, axes), TCC_MAX_RANK, s->starts);
        ends = starts < 0 ? -1 : imp_clipped_exprs(im, listed(im, to, from, axes), TCC_MAX_RANK, s->ends);
    }
    s->n = starts;
    if (starts < 0 || ends < 0)
        return false;
    if (ends != starts || (axes >= 0 && axes != starts) || (steps >= 0 && steps != starts) || starts > imp_rank(x))
        return imp_bad(im, "starts, ends, axes and steps differ in length, or are more than the operand's %d dims",
                       imp_rank(x));
    for (int k = 0; k < starts; k++) {
        if (axes < 0)
            s->axes[k] = k;
        if (steps < 0)
            s->steps[k] = 1;
        if (!imp_axis(im, &s->axes[k], imp_rank(x)))
            return false;
        if (!s->steps[k])
            return imp_bad(im, "step 0");
    }
    return true;
}

bool onnx_op_slice(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    struct slice_operands s = {0};
    ir_expr first[TCC_MAX_RANK], count[TCC_MAX_RANK], step[TCC_MAX_RANK];
    bool opaque = false;
    if (!x)
        return false;
    if (!read_slice(im, x, &s, &opaque))
        return opaque && imp_slice_opaque(im);
    for (int k = 0; k < imp_rank(x); k++) {
        first[k] = ir_const(im->ctx, 0);
        count[k] = imp_dim(x, k);
        step[k] = ir_const(im->ctx, 1);
    }
    for (int k = 0; k < s.n; k++) {
        int a = (int)s.axes[k];
        /* A step that leaves the axis at once takes one element: any step as large as the axis is the same. */
        if (s.steps[k] > IMP_MAX_DIM || s.steps[k] < -IMP_MAX_DIM)
            s.steps[k] = s.steps[k] > 0 ? IMP_MAX_DIM : -IMP_MAX_DIM;
        clamp_slice(im, imp_dim(x, a), s.starts[k], s.ends[k], s.steps[k], &first[a], &count[a]);
        step[a] = ir_const(im->ctx, s.steps[k]);
    }
    return imp_out(im, 0, imp_slice(im, x, first, count, step));
}

/* -- Pad */

/* Amounts per axis (axes operand of opset 18), negative ones cut off first. */
static bool pad_by(struct imp *im, struct ir_value *x, struct ir_value *fill, const char *mode, int n,
                   const ir_expr *pads, const int64_t *axes)
{
    struct ir_ctx *c = im->ctx;
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK], start[TCC_MAX_RANK], size[TCC_MAX_RANK], step[TCC_MAX_RANK];
    ir_expr zero = ir_const(c, 0);
    for (int k = 0; k < imp_rank(x); k++) {
        before[k] = after[k] = start[k] = zero;
        size[k] = imp_dim(x, k);
        step[k] = ir_const(c, 1);
    }
    for (int k = 0; k < n; k++) {
        int a = (int)axes[k];
        ir_expr cut_front = ir_max(c, zero, ir_mulc(c, pads[k], -1)),
                cut_back = ir_max(c, zero, ir_mulc(c, pads[k + n], -1));
        before[a] = ir_max(c, zero, pads[k]);
        after[a] = ir_max(c, zero, pads[k + n]);
        start[a] = cut_front;
        size[a] = ir_sub(c, size[a], ir_add(c, cut_front, cut_back));
        if (ir_const_or(size[a], 0) < 0)
            return imp_bad(im, "pads cut more from axis %d than it has", a);
    }
    return imp_out(im, 0, imp_pad(im, imp_slice(im, x, start, size, step), fill, before, after, mode));
}

/* `arg`: 1 is com.microsoft's, whose pads are an operand in its only version, of one dim or [1, n]. */
bool onnx_op_pad(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *fill = NULL, *by;
    const char *mode = imp_s(im, "mode", "constant");
    ir_expr pads[2 * TCC_MAX_RANK];
    int64_t axes[TCC_MAX_RANK];
    int n, naxes = -1;
    if (!x)
        return false;
    if (strcmp(mode, "constant") && strcmp(mode, "edge") && strcmp(mode, "reflect") && strcmp(mode, "wrap"))
        return imp_bad(im, "mode '%s'; constant, edge, reflect or wrap is expected", mode);
    bool constant = !strcmp(mode, "constant");
    if (im->opset < 11 && !im->row->arg) {
        const int64_t *given = imp_ints(im, "pads", &n);
        if (!given || n != 2 * imp_rank(x))
            return imp_bad(im, "%d pads for a tensor with %d dims", n, imp_rank(x));
        for (int k = 0; k < n; k++)
            pads[k] = ir_const(im->ctx, given[k]);
        if (imp_attr(im, "value"))
            fill = imp_like(im, x, imp_f(im, "value", 0));
    } else {
        naxes = imp_has(im, 3) ? imp_ints_of(im, imp_in(im, 3), TCC_MAX_RANK, axes) : -1;
        if (imp_has(im, 3) && naxes < 0)
            return imp_pad_opaque(im);
        by = imp_in(im, 1);
        if (by && imp_rank(by) == 2 && ir_is_value(imp_dim(by, 0), 1))
            by = imp_reshape(im, by, 1, by->type->dim + 1);
        n = imp_bound_exprs(im, by, 2 * TCC_MAX_RANK, -IMP_MAX_DIM, IMP_MAX_DIM, pads);
        fill = imp_in(im, 2);
        if (n < 0)
            return false;
    }
    if (naxes < 0) {
        for (int k = 0; k < imp_rank(x); k++)
            axes[k] = k;
        naxes = imp_rank(x);
    }
    if (n != 2 * naxes)
        return imp_bad(im, "%d pads for %d axes", n, naxes);
    for (int k = 0; k < naxes; k++) {
        if (!imp_axis(im, &axes[k], imp_rank(x)))
            return false;
    }
    if (fill && imp_rank(fill) == 1)
        fill = imp_reshape(im, fill, 0, NULL);
    return pad_by(im, x, constant ? fill : NULL, mode, naxes, pads, axes);
}

/* -- Space and depth */

bool onnx_op_depth_to_space(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t b = imp_i(im, "blocksize", 0);
    const char *mode = imp_s(im, "mode", "DCR");
    if (!x)
        return false;
    if (imp_rank(x) != 4 || b < 1)
        return imp_bad(im, "a tensor with 4 dims and a positive blocksize are expected");
    struct ir_ctx *c = im->ctx;
    ir_expr e = ir_const(c, b), depth = ir_floordiv(c, imp_dim(x, 1), ir_const(c, b * b)), h = imp_dim(x, 2),
            w = imp_dim(x, 3);
    bool crd = !strcmp(mode, "CRD");
    ir_expr six[6] = {imp_dim(x, 0), crd ? depth : e, e, crd ? e : depth, h, w};
    int64_t perm[6] = {0, crd ? 1 : 3, 4, crd ? 2 : 1, 5, crd ? 3 : 2};
    ir_expr out[4] = {imp_dim(x, 0), depth, ir_mul(c, h, e), ir_mul(c, w, e)};
    return imp_out(im, 0, imp_reshape(im, imp_transpose(im, imp_reshape(im, x, 6, six), perm), 4, out));
}

bool onnx_op_space_to_depth(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t b = imp_i(im, "blocksize", 0);
    if (!x)
        return false;
    if (imp_rank(x) != 4 || b < 1)
        return imp_bad(im, "a tensor with 4 dims and a positive blocksize are expected");
    struct ir_ctx *c = im->ctx;
    ir_expr e = ir_const(c, b), h = ir_floordiv(c, imp_dim(x, 2), e), w = ir_floordiv(c, imp_dim(x, 3), e);
    ir_expr six[6] = {imp_dim(x, 0), imp_dim(x, 1), h, e, w, e};
    static const int64_t dcr[6] = {0, 3, 5, 1, 2, 4}, crd[6] = {0, 1, 3, 5, 2, 4};
    const int64_t *perm = strcmp(imp_s(im, "mode", "DCR"), "CRD") ? dcr : crd;
    ir_expr out[4] = {imp_dim(x, 0), ir_mulc(c, imp_dim(x, 1), b * b), h, w};
    return imp_out(im, 0, imp_reshape(im, imp_transpose(im, imp_reshape(im, x, 6, six), perm), 4, out));
}
