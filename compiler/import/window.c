/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and pools, once their windows are known. */
#include "compiler/import/import.h"

#include "base/mutant.h"

ir_expr imp_reach(struct imp *im, const struct imp_window *w, int k)
{
    ir_expr taps = w->open[k] ? w->open[k] : ir_const(im->ctx, w->kernel[k]);
    return ir_addc(im->ctx, ir_mulc(im->ctx, ir_addc(im->ctx, taps, -1), w->dilations[k]), 1);
}

void imp_ceil_pads(struct imp *im, const struct ir_value *x, struct imp_window *w)
{
    struct ir_ctx *c = im->ctx;
    for (int k = 0; k < w->n; k++) {
        ir_expr in = imp_dim(x, k + 2), stride = ir_const(c, w->strides[k]);
        ir_expr padded = ir_add(c, in, ir_add(c, w->before[k], w->after[k]));
        ir_expr span = ir_sub(c, padded, imp_reach(im, w, k));
        ir_expr last = ir_ceildiv(c, span, stride); /* index of the last window */
        /* It must start before the end of the operand and the pads in front: index * stride < in + before. */
        ir_expr most = ir_floordiv(c, ir_addc(c, ir_add(c, in, w->before[k]), -1), stride);
        last = MUTANT(116, ir_min(c, last, most), last);
        ir_expr need = ir_sub(c, ir_mul(c, last, stride), span); /* may be negative: then the pads suffice */
        w->after[k] = ir_add(c, w->after[k], ir_max(c, ir_const(c, 0), need));
    }
}

struct ir_value **imp_places(struct imp *im, const struct imp_window *w, struct ir_value *x, int64_t *n)
{
    struct ir_ctx *c = im->ctx;
    ir_expr zero = ir_const(c, 0), one = ir_const(c, 1);
    ir_expr before[TCC_MAX_RANK] = {zero, zero}, after[TCC_MAX_RANK] = {zero, zero}, at[TCC_MAX_RANK] = {zero, zero},
            size[TCC_MAX_RANK] = {imp_dim(x, 0), imp_dim(x, 1)}, step[TCC_MAX_RANK] = {one, one};
    *n = 1;
    for (int k = 0; k < w->n; k++) {
        before[k + 2] = w->before[k];
        after[k + 2] = w->after[k];
        step[k + 2] = ir_const(c, w->strides[k]);
        ir_expr padded = ir_add(c, imp_dim(x, k + 2), ir_add(c, w->before[k], w->after[k]));
        size[k + 2] = ir_addc(c, ir_floordiv(c, ir_sub(c, padded, imp_reach(im, w, k)), step[k + 2]), 1);
        if (w->kernel[k] < 1 || w->kernel[k] > 1024 || (*n *= w->kernel[k]) > 1024)
            return imp_unsupported(im, "a window of more than 1024 places"), NULL;
    }
    x = imp_pad(im, x, imp_like(im, x, 0), before, after, "constant");
    struct ir_value **places = IR_NEWN(c, *n, struct ir_value *);
    for (int64_t place = 0; place < *n; place++) {
        int64_t rest = place;
        for (int k = w->n - 1; k >= 0; rest /= w->kernel[k--])
            at[k + 2] = ir_const(c, rest % w->kernel[k] * w->dilations[k]);
        if (!x || !(places[place] = imp_slice(im, x, at, size, step)))
            return NULL;
    }
    return places;
}

struct ir_value *imp_convolve(struct imp *im, const struct imp_window *w, struct ir_value *x, struct ir_value *weight,
                              struct ir_value *bias, int64_t groups, enum tcc_dtype to)
{
    struct ir_value *in[] = {x, weight, bias};
    return imp_op(im, IR_conv, bias ? 3 : 2, in,
                  IR_ATTRS(IMP_WINDOW(w), ir_attr_exprs(IR_ATTR_after, w->n, w->after),
                           ir_attr_i(IR_ATTR_groups, groups), ir_attr_dtype(IR_ATTR_to, to)));
}

struct ir_value *imp_convolve_transposed(struct imp *im, const struct imp_window *w, struct ir_value *x,
                                         struct ir_value *weight, struct ir_value *bias, int64_t groups,
                                         const ir_expr *shape)
{
    struct ir_value *in[] = {x, weight, bias};
    return imp_op(im, IR_conv_transpose, bias ? 3 : 2, in,
                  IR_ATTRS(IMP_WINDOW(w), ir_attr_exprs(IR_ATTR_after, w->n, w->after),
                           ir_attr_i(IR_ATTR_groups, groups), ir_attr_exprs(IR_ATTR_shape, w->n, shape)));
}

struct ir_value *imp_pool(struct imp *im, enum ir_op op, struct ir_value *x, const struct imp_window *w,
                          const char *mode)
{
    struct ir_attr attrs[7] = {ir_attr_ints(IR_ATTR_kernel, w->n, w->kernel), IMP_WINDOW(w),
                               ir_attr_exprs(IR_ATTR_after, w->n, w->after)};
    if (mode)
        attrs[5] = ir_attr_s(IR_ATTR_mode, mode);
    return imp_op(im, op, 1, &x, attrs);
}
