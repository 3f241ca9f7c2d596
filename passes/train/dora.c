/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Magnitudes beside low-rank adapters (Liu et al.: DoRA: Weight-decomposed low-rank adaptation, ICML 2024;
 * https://arxiv.org/abs/2402.09353): a layer's weight is m (W + alpha / r B A) / |W + alpha / r B A|, with a norm and a
 * trained m for each output. The norm is taken for a constant by the gradient, as in the paper's section 4.3 and PEFT.
 */
#include "passes/train/lora_int.h"

#include <math.h>

struct lora_sizes dora_size(const struct dense *d)
{
    struct lora_sizes s = {.rank = d->conv ? d->weight->type->rank : 1, .a = {d->out}};
    for (int i = 0; i < s.rank && d->conv; i++)
        s.a[i] = i == 1 ? d->out : 1;
    return s;
}

struct ir_tensor *dora_norms(struct ir_ctx *ctx, const struct dense *d, const struct ir_tensor *w)
{
    struct lora_sizes size = dora_size(d);
    struct ir_tensor *t = ir_tensor_new(TCC_F32, size.rank, size.a);
    if (!t)
        ir_no_memory(ctx);
    int64_t each = w && d->out ? w->nelems / d->out : 0;
    for (int64_t o = 0; o < d->out; o++) {
        double sum = 0;
        for (int64_t i = 0; i < each; i++) {
            double v =
                tcc_load_f64((enum tcc_dtype)w->dtype, ir_tensor_at(w, d->by_input ? i * d->out + o : o * each + i));
            sum += v * v;
        }
        ((float *)(uintptr_t)t->data)[o] = (float)sqrt(sum);
    }
    return t;
}

/* [out, all else]. */
static struct ir_value *matrix(struct ir_builder *b, struct ir_value *x)
{
    ir_expr dims[2] = {x->type->dim[0], ir_const(b->ctx, 1)};
    for (int i = 1; i < x->type->rank; i++)
        dims[1] = ir_mul(b->ctx, dims[1], x->type->dim[i]);
    return ir_reshape_to(b, x, 2, dims);
}

struct ir_value *dora_factor(struct ir_builder *b, const struct dense *d, const struct dora_parts *p)
{
    static const int64_t turn[] = {1, 0}, axis[] = {1};
    struct ir_value *w = ir_cast_to(b, d->weight, TCC_F32);
    struct ir_value *in[] = {matrix(b, p->b), matrix(b, p->a)};
    struct ir_value *ba = ir_binary(b, IR_mul, ir_build1(b, IR_matmul, 2, in, NULL), p->scale);
    w = d->by_input ? ir_transpose_by(b, w, turn) : matrix(b, w);
    struct ir_value *whole = ir_unary(b, IR_stop_gradient, ir_binary(b, IR_add, w, ba));
    struct ir_value *square = ir_binary(b, IR_mul, whole, whole);
    struct ir_value *sum = ir_reduce(b, IR_reduce_sum, square, 1, axis, false);
    struct ir_value *norm = ir_unary(b, IR_sqrt, sum);
    return norm ? ir_binary(b, IR_div, p->magnitude,
                            ir_reshape_to(b, norm, p->magnitude->type->rank, p->magnitude->type->dim))
                : NULL;
}
