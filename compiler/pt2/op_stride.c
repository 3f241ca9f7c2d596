/* SPDX-License-Identifier: Apache-2.0 */
/* Elements by their numbers in memory, where an operand lies in row-major order; sizes of its memory; differences of
 * neighbours. */
#include "compiler/pt2/pt2_int.h"

/* The numbers offset + sum of i * stride, of `size`. NULL after a message: some are not among `count` elements. */
static struct ir_value *numbers(struct pt2 *p, ir_expr offset, ir_expr count)
{
    struct imp *im = p->im;
    ir_expr size[TCC_MAX_RANK], stride[TCC_MAX_RANK], last = offset;
    int n = pt2_exprs(p, "size", TCC_MAX_RANK, size), m = pt2_exprs(p, "stride", TCC_MAX_RANK, stride);
    bool some = true;
    if (!offset || n < 0 || n != m)
        return NULL;
    struct ir_value *at = imp_dim_value(im, offset);
    for (int k = 0; k < n; k++) {
        struct ir_value *stride_size = imp_dim_value(im, stride[k]);
        at = imp_bin(im, IR_add, at, imp_bin(im, IR_mul, imp_iota(im, n, size, k, TCC_I64), stride_size));
        last = ir_add(p->ctx, last, ir_mul(p->ctx, ir_addc(p->ctx, size[k], -1), stride[k]));
        some = some && size[k]->lo > 0;
    }
    if (some && ir_expr_le(p->ctx, ir_addc(p->ctx, last, 1), count) == IR_NO)
        return imp_unsupported(p->im, "elements outside the %s of the memory", ir_expr_text(p->ctx, count)), NULL;
    return at;
}

/* The elements of a dense tensor in the order in which they lie; *perm: its axes, outermost first. NULL after a
 * message. */
static struct ir_value *as_it_lies(struct pt2 *p, struct ir_value *x, const json_t *meta, int64_t *perm)
{
    json_t *sizes = js_array(meta, "sizes"), *strides = js_array(meta, "strides");
    int rank = imp_rank(x);
    ir_expr step = ir_const(p->ctx, 1), one = step, offset = pt2_meta_size(p, json_object_get(meta, "storage_offset"));
    bool placed[TCC_MAX_RANK] = {false},
         dense = offset && ir_is_value(offset, 0) && (int)json_array_size(sizes) == rank;
    for (int at = rank - 1; at >= 0 && dense; at--) {
        int k = rank - 1;
        for (; k >= 0; k--) { /* the axis whose elements follow each other now */
            ir_expr size = pt2_meta_size(p, json_array_get(sizes, (size_t)k)),
                    stride = pt2_meta_size(p, json_array_get(strides, (size_t)k));
            if (!placed[k] && size && stride &&
                (ir_expr_eq(p->ctx, size, one) == IR_YES || ir_expr_eq(p->ctx, stride, step) == IR_YES))
                break;
        }
        dense = k >= 0;
        if (!dense)
            break;
        placed[k] = true;
        perm[at] = k;
        step = ir_mul(p->ctx, step, imp_dim(x, k));
    }
    if (dense)
        return pt2_flat(p, imp_transpose(p->im, x, perm));
    return imp_unsupported(p->im,
                           "elements by their places in memory that has gaps, or that the operand is only a part of"),
           NULL;
}

/* What is known of the memory that the node's first operand lies in, and its value. NULL after a message. */
static struct ir_value *memory_of_operand(struct pt2 *p, const json_t **meta)
{
    struct pt2_value *operand = pt2_first_operand(p, p->at.node, 0), *memory = operand ? pt2_memory(operand) : NULL;
    *meta = memory && memory->scope ? js_object(js_object(memory->scope->graph, "tensor_values"), memory->name) : NULL;
    if (!*meta || !pt2_given(p, "self"))
        return imp_unsupported(p->im, "an operand whose strides are not recorded"), NULL;
    return pt2_read(p, memory);
}

/* The offset that the node has, else the operand's own. */
static ir_expr first_place(struct pt2 *p)
{
    if (pt2_given(p, "storage_offset"))
        return pt2_e(p, "storage_offset", 0);
    struct pt2_value *operand = pt2_first_operand(p, p->at.node, 0);
    const json_t *meta = operand ? pt2_meta(p, operand->name) : NULL;
    return meta ? pt2_meta_size(p, json_object_get(meta, "storage_offset")) : NULL;
}

struct ir_value *pt2_flat(struct pt2 *p, struct ir_value *x)
{
    ir_expr count = x ? ir_num_elements(p->ctx, x->type) : NULL;
    return x ? imp_reshape(p->im, x, 1, &count) : NULL;
}

/* as_strided: of all elements of the memory that the operand lies in. */
bool aten_as_strided(struct pt2 *p)
{
    const json_t *meta;
    int64_t perm[TCC_MAX_RANK];
    struct ir_value *x = memory_of_operand(p, &meta), *flat = x ? as_it_lies(p, x, meta, perm) : NULL;
    struct ir_value *at = flat ? numbers(p, first_place(p), imp_dim(flat, 0)) : NULL;
    return at && pt2_out(p, 0, imp_gather(p->im, flat, at, 0));
}

/* The first elements of the memory, in other sizes. */
bool aten_resize(struct pt2 *p)
{
    ir_expr size[TCC_MAX_RANK], count = ir_const(p->ctx, 1);
    const json_t *meta;
    int64_t perm[TCC_MAX_RANK];
    struct ir_value *x = memory_of_operand(p, &meta);
    x = x ? as_it_lies(p, x, meta, perm) : NULL;
    int n = x ? pt2_exprs(p, "size", TCC_MAX_RANK, size) : -2;
    ir_expr offset = x ? first_place(p) : NULL;
    if (n < 0 || !offset)
        return false;
    for (int k = 0; k < n; k++) {
        if (size[k]->lo < 0)
            return imp_bad(p->im, "a size below 0");
        count = ir_mul(p->ctx, count, size[k]);
    }
    if (ir_expr_le(p->ctx, ir_add(p->ctx, offset, count), imp_dim(x, 0)) != IR_YES)
        return imp_unsupported(p->im, "more elements than there were: nothing says what they are");
    x = imp_slice1(p->im, x, 0, offset, count);
    return x && pt2_out(p, 0, imp_reshape(p->im, x, n, size));
}

/* What the exporter saw: the program may have gone one way or the other by it. */
bool aten_is_contiguous(struct pt2 *p)
{
    json_t *operand = json_object_get(json_array_get(js_array(p->at.node, "inputs"), 0), "arg");
    const char *name = pt2_name_of(operand);
    json_t *meta = name ? pt2_meta(p, name) : NULL;
    if (!pt2_need(p, "self"))
        return false;
    if (!meta || pt2_i(p, "memory_format", 1) != 1)
        return imp_unsupported(p->im, "another order than row-major");
    return pt2_out(p, 0, imp_int(p->im, TCC_BOOL, pt2_row_major(p, meta) == IR_YES));
}

/* Of the axes that are left, the one of the least stride; -1: which that is isn't known. */
static int least_stride(struct pt2 *p, int n, const ir_expr *stride, const bool *placed)
{
    for (int k = 0; k < n; k++) {
        bool least = !placed[k];
        for (int j = 0; j < n && least; j++)
            least = placed[j] || ir_expr_le(p->ctx, stride[k], stride[j]) == IR_YES;
        if (least)
            return k;
    }
    return -1;
}

/* Do no two elements of such known sizes and strides lie in one place? False, too: they are too many to look at. */
static bool places_differ(struct pt2 *p, int n, const ir_expr *size, const ir_expr *stride)
{
    enum { MOST = 1 << 16 };
    int64_t count[TCC_MAX_RANK], step[TCC_MAX_RANK], at[TCC_MAX_RANK] = {0}, span = 1, place = 0;
    for (int k = 0; k < n; k++) {
        if (!ir_is_const(size[k], &count[k]) || !ir_is_const(stride[k], &step[k]) || count[k] > MOST ||
            step[k] > MOST || step[k] < 0)
            return false;
        span += count[k] ? (count[k] - 1) * step[k] : 0;
        if (!count[k] || span > MOST)
            return !count[k];
    }
    bool *taken = IR_NEWN(p->ctx, (size_t)span, bool);
    for (int k = 0; k >= 0;) {
        if (taken[place])
            return false;
        taken[place] = true;
        for (k = n - 1; k >= 0; k--) {
            place += step[k];
            if (++at[k] < count[k])
                break;
            place -= step[k] * at[k];
            at[k] = 0;
        }
    }
    return true;
}

/* Is it known that no two of the node's elements lie in one place? */
static bool lie_apart(struct pt2 *p)
{
    ir_expr size[TCC_MAX_RANK], stride[TCC_MAX_RANK], one = ir_const(p->ctx, 1), span = one;
    int n = pt2_exprs(p, "size", TCC_MAX_RANK, size), m = pt2_exprs(p, "stride", TCC_MAX_RANK, stride), left = n;
    bool placed[TCC_MAX_RANK] = {false};
    if (n < 0 || n != m)
        return false;
    if (places_differ(p, n, size, stride))
        return true;
    for (int k = 0; k < n; k++) {
        placed[k] = ir_expr_le(p->ctx, size[k], one) == IR_YES;
        left -= placed[k];
    }
    for (; left; left--) {
        int k = least_stride(p, n, stride, placed);
        if (k < 0 || ir_expr_le(p->ctx, span, stride[k]) != IR_YES)
            return false;
        placed[k] = true;
        span = ir_add(p->ctx, span, ir_mul(p->ctx, ir_addc(p->ctx, size[k], -1), stride[k]));
    }
    return true;
}

/* The operand with src in the place of the elements that as_strided() would give of a copy. Where several lie in one
 * place, PyTorch does not say which of them stays. */
bool aten_as_strided_scatter(struct pt2 *p)
{
    if (!lie_apart(p))
        return imp_unsupported(p->im, "writes to elements that may lie in one place");
    struct ir_value *x = pt2_need(p, "self"), *src = x ? pt2_need(p, "src") : NULL;
    struct pt2_value *operand = pt2_first_operand(p, p->at.node, 0);
    int64_t perm[TCC_MAX_RANK], back[TCC_MAX_RANK];
    ir_expr dims[TCC_MAX_RANK];
    struct ir_value *flat = src && operand ? as_it_lies(p, x, pt2_meta(p, operand->name), perm) : NULL,
                    *at = flat ? numbers(p, first_place(p), imp_dim(flat, 0)) : NULL;
    if (!at)
        return false;
    for (int k = 0; k < imp_rank(x); k++) {
        back[perm[k]] = k;
        dims[k] = imp_dim(x, (int)perm[k]);
    }
    flat = pt2_put(p, flat, at, imp_cast(p->im, src, imp_dtype(x)));
    return pt2_out(p, 0, imp_transpose(p->im, imp_reshape(p->im, flat, imp_rank(x), dims), back));
}

/* diff: n times each element less the one before it (of bools: whether they differ), with what `prepend` and `append`
 * add. */
bool aten_diff(struct pt2 *p)
{
    struct ir_value *in[3], *x = pt2_need(p, "self");
    int64_t times = pt2_i(p, "n", 1), axis;
    int n = 0;
    if (!x || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    if (times < 0 || times > PT2_MAX_LIST)
        return imp_unsupported(p->im, "n = %lld", (long long)times);
    if (!times) { /* of no differences nothing is joined, either */
        pt2_ignore(p, "prepend", "append");
        return pt2_out(p, 0, x);
    }
    for (int k = 0; k < 3; k++) {
        static const char *const names[] = {"prepend", "self", "append"};
        in[n] = pt2_given(p, names[k]) ? pt2_t(p, names[k]) : NULL;
        n += in[n] != NULL;
    }
    x = n > 1 ? imp_concat(p->im, n, in, (int)axis) : x;
    for (int64_t k = 0; x && k < times; k++) {
        ir_expr whole = imp_dim(x, (int)axis), size = ir_max(p->ctx, pt2_zero(p), ir_addc(p->ctx, whole, -1));
        struct ir_value *next = imp_slice1(p->im, x, (int)axis, ir_sub(p->ctx, whole, size), size),
                        *before = next ? imp_slice1(p->im, x, (int)axis, ir_const(p->ctx, 0), size) : NULL;
        x = before ? imp_bin(p->im, imp_dtype(x) == TCC_BOOL ? IR_xor : IR_sub, next, before) : NULL;
    }
    return x && pt2_out(p, 0, x);
}

/* The sum of (y[i] + y[i + 1]) / 2 times the step: trapezoid (y, x or dx, dim); arg 1: the sums so far,
 * cumulative_trapezoid. A vector x is that of the axis; one with fewer dims has 1s in front. */
bool aten_trapezoid(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *y = pt2_need(p, "y"), *x = y ? pt2_t(p, "x") : NULL;
    double step = pt2_f(p, "dx", 1);
    int64_t axis;
    if (!y || !imp_rank(y) || !pt2_axis(p, "dim", -1, imp_rank(y), &axis))
        return y && !imp_rank(y) && imp_bad(im, "a tensor with dims is expected");
    x = x && imp_rank(x) == 1            ? imp_along(im, x, (int)axis, imp_rank(y))
        : x && imp_rank(x) < imp_rank(y) ? imp_to_rank(im, x, imp_rank(y))
                                         : x;
    ir_expr n = ir_addc(p->ctx, imp_dim(y, (int)axis), -1), one = ir_const(p->ctx, 1), zero = ir_const(p->ctx, 0);
    n = ir_max(p->ctx, n, zero);
    struct ir_value *low = imp_slice1(im, y, (int)axis, zero, n), *high = imp_slice1(im, y, (int)axis, one, n);
    if (ir_is_value(imp_dim(y, (int)axis), 0))
        high = low;
    struct ir_value *sum = pt2_bin(p, IR_add, low, high);
    if (x) {
        struct ir_value *x_low = imp_slice1(im, x, (int)axis, zero, n), *x_high = imp_slice1(im, x, (int)axis, one, n);
        sum = pt2_times(p, sum, imp_bin(im, IR_sub, x_high, x_low));
    } else {
        sum = imp_with(im, IR_mul, pt2_wide_float(p, sum), step);
    }
    sum = sum && !imp_is_float(sum) ? imp_cast(im, sum, TCC_I64) : imp_wide(im, sum);
    if (p->row->arg)
        sum = sum ? imp_op(im, IR_cumsum, 1, &sum, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis))) : NULL;
    else
        sum = imp_reduce(im, IR_reduce_sum, sum, 1, &axis, false);
    return pt2_out(p, 0, imp_with(im, IR_div, pt2_wide_float(p, sum), 2));
}
