/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation. Scales and zero points are one for the tensor, one for each index of an axis, or one for each block of
 * it; all three become a tensor that broadcasts against x.
 */
#include "compiler/import/import.h"

#include "base/mutant.h"

/* Each element along the axis `block` times, cut to `size` in all. */
struct ir_value *imp_repeat_blocks(struct imp *im, struct ir_value *s, int axis, int64_t block, ir_expr size)
{
    struct ir_ctx *c = im->ctx;
    ir_expr wide[TCC_MAX_RANK], dims[TCC_MAX_RANK];
    int64_t behind = axis + 1;
    if (!s || imp_rank(s) + 1 > TCC_MAX_RANK)
        return s ? (imp_unsupported(im, "%d dims in blocks", imp_rank(s)), NULL) : NULL;
    int rank = imp_rank(s);
    for (int k = 0, j = 0; k < rank; k++) {
        wide[j++] = imp_dim(s, k);
        dims[k] = k == axis ? ir_mulc(c, imp_dim(s, k), block) : imp_dim(s, k);
        if (k == axis)
            wide[j++] = ir_const(c, block);
    }
    struct ir_value *y = imp_reshape(im, imp_expand(im, imp_unsqueeze(im, s, 1, &behind), rank + 1, wide), rank, dims);
    return imp_slice1(im, y, axis, ir_const(c, 0), size);
}

/* A scale or zero point of `x`, so that it broadcasts. */
static struct ir_value *spread(struct imp *im, struct ir_value *s, const struct ir_value *x, int64_t axis,
                               int64_t block)
{
    struct ir_ctx *c = im->ctx;
    int rank = imp_rank(x);
    if (!s || imp_rank(s) == 0)
        return s;
    if (imp_rank(s) == 1 && (ir_is_value(imp_dim(s, 0), 1) || rank == 0) && !block)
        return imp_reshape(im, s, 0, NULL);
    if (!imp_axis(im, &axis, rank))
        return NULL;
    if (imp_rank(s) == 1 && !block)
        return imp_along(im, s, (int)axis, rank);
    if (imp_rank(s) != rank || block < 1)
        return imp_bad(im, "a scale %s for x %s", ir_type_text(c, s->type), ir_type_text(c, x->type)), NULL;
    return imp_repeat_blocks(im, s, (int)axis, block, imp_dim(x, (int)axis));
}

static const struct {
    enum tcc_dtype dtype;
    double lo, hi;
} ranges[] = {{TCC_U8, 0, 255}, {TCC_I8, -128, 127}, {TCC_U16, 0, 65535}, {TCC_I16, -32768, 32767},
              {TCC_U4, 0, 15},  {TCC_I4, -8, 7},     {TCC_U2, 0, 3},      {TCC_I2, -2, 1}};

struct ir_value *imp_saturate(struct imp *im, struct ir_value *x, struct ir_value *zero, enum tcc_dtype to)
{
    for (size_t k = 0; x && k < sizeof ranges / sizeof *ranges; k++) {
        if (ranges[k].dtype != to)
            continue;
        x = imp_un(im, MUTANT(125, IR_round, IR_floor), imp_wide(im, x));
        if (x && zero)
            x = imp_bin(im, IR_add, x, imp_cast(im, zero, imp_dtype(x)));
        struct ir_value *most = x ? imp_like(im, x, ranges[k].hi) : NULL;
        x = x ? imp_tri(im, IR_clip, x, imp_like(im, x, ranges[k].lo), most) : NULL;
        return imp_cast(im, x, to);
    }
    return imp_unsupported(im, "quantisation to %s", tcc_dtype_name(to)), NULL;
}

struct ir_value *imp_quantize(struct imp *im, struct ir_value *x, const struct imp_scales *s, enum tcc_dtype in,
                              enum tcc_dtype to, bool saturate)
{
    struct ir_value *scale = x ? spread(im, s->scale, x, s->axis, s->block) : NULL,
                    *zero = x && s->zero ? spread(im, s->zero, x, s->axis, s->block) : NULL;
    scale = imp_cast(im, scale, in);
    struct ir_value *y = scale ? imp_bin(im, IR_div, imp_cast(im, x, in), scale) : NULL;
    if (!y)
        return NULL;
    if (!tcc_is_float(to))
        return imp_saturate(im, y, zero, to);
    if (zero && to == TCC_F4E2M1)
        y = imp_bin(im, IR_add, y, imp_cast(im, zero, in));
    return imp_op(im, IR_cast, 1, &y, IR_ATTRS(ir_attr_dtype(IR_ATTR_to, to), ir_attr_i(IR_ATTR_saturate, saturate)));
}

/* Constants of 4 bits, which have a byte each in memory, as bytes: those are what the pass quantise multiplies. */
static struct ir_value *as_bytes(struct imp *im, struct ir_value *x)
{
    const struct ir_tensor *t = x ? ir_const_of(x) : NULL;
    if (!t || t->splat || (t->dtype != TCC_I4 && t->dtype != TCC_U4))
        return x;
    struct ir_tensor *to = imp_keep(im, ir_tensor_new(t->dtype == TCC_I4 ? TCC_I8 : TCC_U8, t->rank, t->dims));
    memcpy((void *)(uintptr_t)to->data, t->data, (size_t)t->nelems);
    return ir_constant(&im->b, ir_tensor_ref(to));
}

struct ir_value *imp_dequantize(struct imp *im, struct ir_value *x, const struct imp_scales *s, enum tcc_dtype to)
{
    x = s->block ? x : as_bytes(im, x); /* blocks stay: products read them in 4 bits */
    enum tcc_dtype in = tcc_wide_float(imp_dtype(s->scale));
    struct ir_value *scale = x ? spread(im, s->scale, x, s->axis, s->block) : NULL;
    struct ir_value *zero =
        x && s->zero && !tcc_is_float(imp_dtype(s->zero)) ? spread(im, s->zero, x, s->axis, s->block) : NULL;
    struct ir_value *y = imp_cast(im, x, in);
    if (zero)
        y = imp_bin(im, IR_sub, y, imp_cast(im, zero, in));
    return imp_cast(im, scale ? imp_bin(im, IR_mul, y, imp_cast(im, scale, in)) : NULL, to);
}

struct ir_value *imp_dynamic_quantize(struct imp *im, struct ir_value *x, bool rows, struct ir_value **scale,
                                      struct ir_value **point)
{
    int64_t axes[TCC_MAX_RANK];
    int n = rows ? 1 : imp_rank(x);
    for (int k = 0; k < n; k++)
        axes[k] = rows ? imp_rank(x) - 1 : k;
    struct ir_value *zero = imp_like(im, x, 0);
    struct ir_value *hi = imp_bin(im, IR_max, imp_reduce(im, IR_reduce_max, x, n, axes, rows), zero);
    struct ir_value *lo = imp_bin(im, IR_min, imp_reduce(im, IR_reduce_min, x, n, axes, rows), zero);
    struct ir_value *range = MUTANT(126, imp_bin(im, IR_sub, hi, lo), hi);
    *scale = imp_bin(im, IR_div, range, imp_like(im, x, 255));
    if (*scale) { /* nothing but zeros, or nothing at all: 1, as ONNX Runtime has it */
        struct ir_value *one = imp_like(im, x, 1);
        *scale = imp_select(im, imp_bin(im, IR_eq, range, zero), one, *scale);
    }
    *point = imp_bin(im, IR_sub, zero, imp_bin(im, IR_div, lo, *scale));
    if (!*point)
        return NULL;
    *point = imp_cast(im, imp_un(im, IR_round, imp_tri(im, IR_clip, *point, zero, imp_like(im, x, 255))), TCC_U8);
    return imp_saturate(im, imp_bin(im, IR_div, x, *scale), *point, TCC_U8);
}

struct ir_value *imp_one(struct imp *im, struct ir_value *v)
{
    return v && imp_rank(v) == 1 && ir_is_value(imp_dim(v, 0), 1) ? imp_reshape(im, v, 0, NULL) : v;
}

struct ir_value *imp_centred(struct imp *im, struct ir_value *x, struct ir_value *zero, int axis)
{
    x = imp_cast(im, x, TCC_I32);
    if (!x || !zero)
        return x;
    zero = imp_cast(im, zero, TCC_I32);
    if (zero && imp_rank(zero) == 1)
        zero =
            ir_is_value(imp_dim(zero, 0), 1) ? imp_reshape(im, zero, 0, NULL) : imp_along(im, zero, axis, imp_rank(x));
    return imp_bin(im, IR_sub, x, zero);
}

struct ir_value *imp_integer_product(struct imp *im, struct ir_value *a, struct ir_value *za, struct ir_value *sa,
                                     struct ir_value *b, struct ir_value *zb, struct ir_value *sb)
{
    if (!sa || !sb)
        return imp_bad(im, "scales are missing"), NULL;
    if (imp_rank(sa) == 1 && !ir_is_value(imp_dim(sa, 0), 1))
        return imp_unsupported(im, "a scale for each row"), NULL;
    a = imp_centred(im, a, za, imp_rank(a) - 2);
    b = imp_centred(im, b, zb, imp_rank(b) - 1);
    struct ir_value *y = imp_cast(im, imp_matmul_nd(im, a, b, TCC_I32), TCC_F32);
    struct ir_value *one = y ? imp_one(im, sb) : NULL;
    return y ? imp_bin(im, IR_mul, y, imp_bin(im, IR_mul, imp_one(im, sa), one)) : NULL;
}
