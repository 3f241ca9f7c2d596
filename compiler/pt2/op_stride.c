/* SPDX-License-Identifier: Apache-2.0 */
/* Elements by their numbers in memory, where an operand lies in row-major order; sizes of its memory; differences of neighbours. */
#include "compiler/pt2/pt2_int.h"

#define UNUSED(arg) ((void)(arg))

/* The numbers offset + sum of i * stride, of `size`. NULL after a message. */
static struct ir_value *numbers(struct pt2 *p)
{
    struct imp *im = p->im;
    ir_expr size[TCC_MAX_RANK], stride[TCC_MAX_RANK], offset = pt2_e(p, "storage_offset", 0);
    int n = pt2_exprs(p, "size", TCC_MAX_RANK, size), m = pt2_exprs(p, "stride", TCC_MAX_RANK, stride);
    if (!offset || n < 0 || n != m)
        return NULL;
    struct ir_value *at = imp_dim_value(im, offset);
    for (int k = 0; k < n; k++)
        at = imp_bin(im, IR_add, at,
                     imp_bin(im, IR_mul, imp_iota(im, n, size, k, TCC_I64), imp_dim_value(im, stride[k])));
    return at;
}

struct ir_value *pt2_flat(struct pt2 *p, struct ir_value *x)
{
    ir_expr count = x ? ir_num_elements(p->ctx, x->type) : NULL;
    return x ? imp_reshape(p->im, x, 1, &count) : NULL;
}

bool aten_as_strided(struct pt2 *p, int arg)
{
    UNUSED(arg);
    struct ir_value *x = pt2_need(p, "self"), *at = x ? numbers(p) : NULL;
    return at && pt2_out(p, 0, imp_gather(p->im, pt2_flat(p, x), at, 0));
}

/* The first elements of the memory, in other sizes. */
bool aten_resize(struct pt2 *p, int arg)
{
    UNUSED(arg);
    ir_expr size[TCC_MAX_RANK], count = ir_const(p->ctx, 1), zero = ir_const(p->ctx, 0);
    struct ir_value *x = pt2_flat(p, pt2_need(p, "self"));
    int n = x ? pt2_exprs(p, "size", TCC_MAX_RANK, size) : -2;
    if (n < 0)
        return false;
    for (int k = 0; k < n; k++) {
        if (size[k]->lo < 0)
            return imp_bad(p->im, "a size below 0");
        count = ir_mul(p->ctx, count, size[k]);
    }
    if (ir_expr_le(p->ctx, count, imp_dim(x, 0)) != IR_YES)
        return imp_unsupported(p->im, "more elements than there were: nothing says what they are");
    x = imp_slice1(p->im, x, 0, zero, count);
    return x && pt2_out(p, 0, imp_reshape(p->im, x, n, size));
}

/* What the exporter saw: the program may have gone one way or the other by it. */
bool aten_is_contiguous(struct pt2 *p, int arg)
{
    UNUSED(arg);
    json_t *operand = json_object_get(json_array_get(js_array(p->node, "inputs"), 0), "arg");
    const char *name = pt2_name_of(operand);
    json_t *meta = name ? pt2_meta(p, name) : NULL;
    if (!pt2_need(p, "self"))
        return false;
    if (!meta || pt2_i(p, "memory_format", 1) != 1)
        return imp_unsupported(p->im, "another order than row-major");
    int yes = pt2_meta_contiguous(p, meta);
    return yes >= 0 && pt2_out(p, 0, imp_int(p->im, TCC_BOOL, yes));
}

/* The operand with src in the place of the elements that as_strided() would give. */
bool aten_as_strided_scatter(struct pt2 *p, int arg)
{
    UNUSED(arg);
    struct ir_value *x = pt2_need(p, "self"), *src = x ? pt2_need(p, "src") : NULL, *at = src ? numbers(p) : NULL;
    if (!at)
        return false;
    return pt2_out(p, 0, pt2_put(p, x, at, imp_cast(p->im, src, imp_dtype(x))));
}

/* diff: n times each element less the one before it (of bools: whether they differ), with what `prepend` and `append` add. */
bool aten_diff(struct pt2 *p, int arg)
{
    UNUSED(arg);
    struct ir_value *in[3], *x = pt2_need(p, "self");
    int64_t times = pt2_i(p, "n", 1), axis;
    int n = 0;
    if (!x || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    if (times < 1 || times > PT2_MAX_LIST)
        return imp_unsupported(p->im, "n = %lld", (long long)times);
    for (int k = 0; k < 3; k++) {
        static const char *const names[] = {"prepend", "self", "append"};
        in[n] = pt2_given(p, names[k]) ? pt2_t(p, names[k]) : NULL;
        n += in[n] != NULL;
    }
    x = n > 1 ? imp_concat(p->im, n, in, (int)axis) : x;
    for (int64_t k = 0; x && k < times; k++) {
        ir_expr size = ir_addc(p->ctx, imp_dim(x, (int)axis), -1);
        if (size->lo < 0)
            return imp_unsupported(p->im, "an axis that may be empty");
        struct ir_value *next = imp_slice1(p->im, x, (int)axis, ir_const(p->ctx, 1), size),
                        *before = next ? imp_slice1(p->im, x, (int)axis, ir_const(p->ctx, 0), size) : NULL;
        x = before ? imp_bin(p->im, imp_dtype(x) == TCC_BOOL ? IR_xor : IR_sub, next, before) : NULL;
    }
    return x && pt2_out(p, 0, x);
}
