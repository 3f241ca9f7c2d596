/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of TensorFlow that tf2onnx has no ONNX for and leaves as they are: in its domain, or, by
 * --continue_on_error, in ONNX's. What else it leaves, left.def has words for.
 */
#include "compiler/onnx/import_int.h"

#include <math.h>
#include <string.h>

bool onnx_op_erfc(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    return x && imp_out(im, 0, imp_cast(im, imp_erfc(im, imp_wide(im, x)), imp_dtype(x)));
}

/* One of library op special's functions. */
bool onnx_op_tf_special(struct imp *im)
{
    static const char *const names[][2] = {
        {"BesselI0", "i0"},     {"BesselI0e", "i0e"}, {"BesselI1", "i1"},   {"BesselI1e", "i1e"},
        {"Digamma", "digamma"}, {"Erfinv", "erfinv"}, {"Lgamma", "lgamma"}, {"Ndtri", "ndtri"},
    };
    struct ir_value *x = imp_tensor(im, 0);
    int k = 0;
    if (!x)
        return false;
    while (strcmp(names[k][0], im->node->op))
        k++;
    return imp_lib_node(im, "special", 1, &x->type, IR_ATTRS(imp_user_text(im, "function", names[k][1])));
}

/* `arg`: 0 the inverse, 1 Cholesky's factor. A matrix that has none is an error of the run, as in TensorFlow. */
bool onnx_op_tf_matrix(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    if (!x)
        return false;
    if (imp_rank(x) < 2 || imp_i(im, "adjoint", 0))
        return imp_unsupported(im, "no matrices, or the adjoint of them");
    ir_type types[] = {x->type, ir_tensor_type(im->ctx, TCC_I32, imp_rank(x) - 2, x->type->dim)};
    return imp_lib_node(im, im->row->arg ? "cholesky" : "inverse", 2, types, IR_ATTRS(imp_user_int(im, "check", 1)));
}

/* How many of the boundaries, which ascend, are not above x. */
bool onnx_op_tf_bucketize(struct imp *im)
{
    struct ir_value *x = imp_cast(im, imp_tensor(im, 0), TCC_F32);
    int n, rank = x ? imp_rank(x) : 0;
    const float *given = imp_floats(im, "boundaries", &n);
    int64_t last = rank, count = n;
    if (!x || rank == TCC_MAX_RANK)
        return false;
    struct ir_tensor *t = imp_keep(im, ir_tensor_new(TCC_F32, 1, &count));
    if (n)
        memcpy((void *)(uintptr_t)t->data, given, (size_t)n * sizeof *given);
    struct ir_value *right = imp_const(im, ir_tensor_ref(t));
    struct ir_value *reached = imp_bin(im, IR_ge, imp_unsqueeze(im, x, 1, &last), right);
    return imp_out(im, 0, imp_reduce(im, IR_reduce_sum, imp_cast(im, reached, TCC_I32), 1, &last, false));
}

/*
 * A complex tensor inside of a model is the sequence of its two parts, so that what knows nothing of complex numbers
 * refuses it.
 */
bool onnx_op_tf_complex(struct imp *im)
{
    struct ir_value *part[] = {imp_tensor(im, 0), imp_tensor(im, 1)};
    return part[0] && part[1] && imp_out(im, 0, imp_sequence(im, 2, part));
}

/* `arg`: 0 the real part, 1 the imaginary one. */
bool onnx_op_tf_part(struct imp *im)
{
    struct ir_value *z = imp_in(im, 0);
    const struct imp_items *parts = z ? imp_items_of(im, z) : NULL;
    if (!parts || parts->n != 2)
        return imp_unsupported(im, "complex numbers that neither RFFT nor Complex made");
    return imp_out(im, 0, parts->at[im->row->arg]);
}

/* x, cut or filled with zeros to a length along its last axis. */
static struct ir_value *of_length(struct imp *im, struct ir_value *x, int64_t length)
{
    int rank = imp_rank(x);
    ir_expr zero = ir_const(im->ctx, 0), none[TCC_MAX_RANK], more[TCC_MAX_RANK];
    ir_expr want = ir_const(im->ctx, length), has = imp_dim(x, rank - 1);
    if (has == want)
        return x;
    for (int k = 0; k < rank; k++)
        none[k] = more[k] = zero;
    more[rank - 1] = ir_max(im->ctx, zero, ir_sub(im->ctx, want, has));
    return imp_slice1(im, imp_pad(im, x, imp_like(im, x, 0), none, more, "constant"), rank - 1, zero, want);
}

bool onnx_op_tf_rfft(struct imp *im)
{
    struct ir_value *x = imp_wide(im, imp_tensor(im, 0)), *part[2];
    int64_t length, last = x ? imp_rank(x) : 0;
    if (!x)
        return false;
    if (!last || !imp_is_float(x) || imp_ints_of(im, imp_in(im, 1), 1, &length) != 1 || length < 1)
        return imp_unsupported(im, "a length that is known only at run time, or no floats");
    x = of_length(im, x, length);
    x = x ? imp_transform(im, imp_unsqueeze(im, x, 1, &last), (int)last - 1, false, true) : NULL;
    for (int k = 0; k < 2; k++) {
        part[k] = x ? imp_slice1(im, x, (int)last, ir_const(im->ctx, k), ir_const(im->ctx, 1)) : NULL;
        part[k] = part[k] ? imp_squeeze(im, part[k], 1, &last) : NULL;
    }
    return part[0] && part[1] && imp_out(im, 0, imp_sequence(im, 2, part));
}

/* As an input a complex tensor is two of floats for tf2onnx, one behind the other on a first axis. */
bool onnx_op_complex_abs(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0), *part[2];
    const struct imp_items *parts = x ? imp_items_of(im, x) : NULL;
    int64_t first = 0;
    if (parts && parts->n == 2)
        return imp_out(im, 0, imp_hypot(im, parts->at[0], parts->at[1]));
    if (!(x = imp_tensor(im, 0)))
        return false;
    if (!imp_is_float(x) || imp_rank(x) < 1 || ir_expr_eq(im->ctx, imp_dim(x, 0), ir_const(im->ctx, 2)) == IR_NO)
        return imp_bad(im, "%s; floats whose first axis has real and imaginary parts are expected",
                       ir_type_text(im->ctx, x->type));
    if (!imp_assume(im, IR_EQ, imp_dim(x, 0), ir_const(im->ctx, 2), "the first axis has real and imaginary parts"))
        return false;
    for (int k = 0; k < 2; k++) {
        part[k] = imp_slice1(im, imp_wide(im, x), 0, ir_const(im->ctx, k), ir_const(im->ctx, 1));
        part[k] = part[k] ? imp_squeeze(im, part[k], 1, &first) : NULL;
    }
    return imp_out(im, 0, imp_cast(im, imp_hypot(im, part[0], part[1]), imp_dtype(x)));
}

/* One spatial axis of a window that is moved over x[n, height, width, c]. */
struct moved {
    int64_t taps, step, rate;
    ir_expr before, after, places;
};

/* As TensorFlow pads: VALID not at all, SAME so that there are ceil(size / step) places, the larger half at the end. */
static bool read_moved(struct imp *im, const char *list, int axis, bool same, ir_expr size, int64_t taps,
                       struct moved *m)
{
    int n, nrates;
    const int64_t *steps = imp_ints(im, "strides", &n), *rates = imp_ints(im, list, &nrates);
    if (!steps || n != 4 || (rates && nrates != 4) || steps[axis] < 1 || (rates && rates[axis] < 1))
        return imp_bad(im, "strides and %s of 4 positive numbers are expected", list);
    *m = (struct moved){.taps = taps, .step = steps[axis], .rate = rates ? rates[axis] : 1};
    ir_expr zero = ir_const(im->ctx, 0), step = ir_const(im->ctx, m->step);
    int64_t reach = (taps - 1) * m->rate + 1;
    m->places = same ? ir_ceildiv(im->ctx, size, step)
                     : ir_max(im->ctx, zero, ir_ceildiv(im->ctx, ir_addc(im->ctx, size, 1 - reach), step));
    ir_expr covered = ir_addc(im->ctx, ir_mulc(im->ctx, ir_addc(im->ctx, m->places, -1), m->step), reach);
    ir_expr pads = same ? ir_max(im->ctx, zero, ir_sub(im->ctx, covered, size)) : zero;
    m->before = ir_floordiv(im->ctx, pads, ir_const(im->ctx, 2));
    m->after = ir_sub(im->ctx, pads, m->before);
    return true;
}

/* What tap (i, j) of the window reads at all places, plus its weights. */
static struct ir_value *one_tap(struct imp *im, struct ir_value *x, struct ir_value *w, const struct moved *m,
                                int64_t i, int64_t j)
{
    ir_expr zero = ir_const(im->ctx, 0), one = ir_const(im->ctx, 1);
    ir_expr starts[] = {zero, ir_const(im->ctx, i * m[0].rate), ir_const(im->ctx, j * m[1].rate), zero},
            sizes[] = {imp_dim(x, 0), m[0].places, m[1].places, imp_dim(x, 3)},
            steps[] = {one, ir_const(im->ctx, m[0].step), ir_const(im->ctx, m[1].step), one};
    struct ir_value *row = imp_slice1(im, w, 0, ir_const(im->ctx, i), one);
    struct ir_value *weight = row ? imp_slice1(im, row, 1, ir_const(im->ctx, j), one) : NULL;
    struct ir_value *weight_shaped = weight ? imp_reshape(im, weight, 1, &sizes[3]) : NULL;
    return imp_bin(im, IR_add, imp_slice(im, x, starts, sizes, steps), weight_shaped);
}

/* Grey-scale dilation: max over taps of x + filter[height, width, c]; what lies outside of x is left out. */
bool onnx_op_dilation(struct imp *im)
{
    enum { MOST_TAPS = 256 };
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL, *best = NULL;
    const char *padding = imp_s(im, "padding", "");
    bool same = !strcmp(padding, "SAME");
    int64_t taps[2];
    struct moved m[2];
    if (!w)
        return false;
    if (imp_rank(x) != 4 || imp_rank(w) != 3 || !imp_is_float(x) || imp_dtype(x) != imp_dtype(w) ||
        (!same && strcmp(padding, "VALID")))
        return imp_bad(
            im, "x[n, height, width, c], filter[height, width, c] of floats and padding SAME or VALID are expected");
    if (!ir_is_const(imp_dim(w, 0), &taps[0]) || !ir_is_const(imp_dim(w, 1), &taps[1]))
        return imp_unsupported(im, "a filter whose height or width is known only at run time");
    if (taps[0] < 1 || taps[1] < 1 || taps[0] > MOST_TAPS || taps[0] * taps[1] > MOST_TAPS)
        return imp_unsupported(im, "a filter of %lld x %lld; at most %d elements are supported", (long long)taps[0],
                               (long long)taps[1], MOST_TAPS);
    const char *rates = imp_attr(im, "rates") ? "rates" : "dilations";
    for (int k = 0; k < 2; k++)
        if (!read_moved(im, rates, k + 1, same, imp_dim(x, k + 1), taps[k], &m[k]))
            return false;
    ir_expr zero = ir_const(im->ctx, 0), before[] = {zero, m[0].before, m[1].before, zero},
            after[] = {zero, m[0].after, m[1].after, zero};
    x = imp_pad(im, x, imp_like(im, x, -INFINITY), before, after, "constant");
    for (int64_t k = 0; x && k < taps[0] * taps[1]; k++) {
        struct ir_value *tap = one_tap(im, x, w, m, k / taps[1], k % taps[1]);
        best = k ? imp_bin(im, IR_max, best, tap) : tap;
    }
    return imp_out(im, 0, best);
}
