/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --base: weights that stand under low-rank adapters, and are not trained, kept in 8 or 4 bits (Dettmers et al.: QLoRA,
 * NeurIPS 2023; https://arxiv.org/abs/2305.14314): codes and a scale for each block, from which a step makes the floats
 * where a product reads them. Blocks are taken of the weight [outputs, inputs], row after row, as bitsandbytes does.
 */
#include "passes/train/lora_int.h"

#include <math.h>
#include <string.h>

/* block 0: a row. levels: what codes stand for; NULL: whole numbers, with a zero point for each block in 4 bits. */
struct base_form {
    const char *name;
    int bits, block;
    const float *levels;
};

/* Appendix E of the paper: means of the normal distribution's 16 quantiles, 0 among them, in units of the largest. */
static const float nf4[16] = {-1.0F,
                              -0.6961928009986877F,
                              -0.5250730514526367F,
                              -0.39491748809814453F,
                              -0.28444138169288635F,
                              -0.18477343022823334F,
                              -0.09105003625154495F,
                              0.0F,
                              0.07958029955625534F,
                              0.16093020141124725F,
                              0.24611230194568634F,
                              0.33791524171829224F,
                              0.44070982933044434F,
                              0.5626170039176941F,
                              0.7229568362236023F,
                              1.0F};

static const struct base_form forms[] = {
    {"float", 32, 0, NULL}, {"int8", 8, 0, NULL}, {"nf4", 4, 64, nf4}, {"q4", 4, 32, NULL}};

bool train_base_read(struct ir_ctx *ctx, const char *text, const struct base_form **form)
{
    *form = NULL;
    for (size_t i = 0; text && i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(text, forms[i].name)) {
            *form = forms[i].bits < 32 ? &forms[i] : NULL;
            return true;
        }
    if (text)
        ir_diag(ctx, NULL, IR_D_USAGE, "--base=%s: expected float, int8, nf4 or q4", text);
    return !text;
}

/* -- Codes ------------------------------------------------------------------------------------------------------- */

/* A weight in blocks. */
struct base_weight {
    const struct ir_tensor *from; /* the parameter's values */
    struct dense layer;           /* one that reads it */
    const struct base_form *form;
    int64_t size, count;      /* of blocks */
    struct ir_tensor *code;   /* [count, 1, size], a byte each */
    struct ir_tensor *scale;  /* [count, 1, 1] */
    struct ir_tensor *zero;   /* [count, 1, 1] */
    struct ir_tensor *packed; /* [count, 1, size / 2]: two codes a byte; NULL: codes have 8 bits */
};

static struct ir_tensor *new_tensor(struct ir_ctx *ctx, enum tcc_dtype type, int rank, const int64_t *dims)
{
    struct ir_tensor *t = ir_tensor_new(type, rank, dims);
    if (!t)
        ir_no_memory(ctx);
    return t;
}

static void *data_of(const struct ir_tensor *t)
{
    return (void *)(uintptr_t)t->data;
}

static uint8_t nearest_level(const float *levels, float x)
{
    int best = 0;
    for (int i = 1; i < 16; i++)
        best = fabsf(x - levels[i]) < fabsf(x - levels[best]) ? i : best;
    return (uint8_t)best;
}

/* code, scale and zero of a block, whose elements are x. */
static void encode_block(const struct base_form *form, int64_t size, const float *x, uint8_t *code, float *scale,
                         uint8_t *zero)
{
    float lo = 0, hi = 0, by;
    for (int64_t i = 0; i < size; i++) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    by = form->levels ? fmaxf(hi, -lo) : form->bits == 8 ? fmaxf(hi, -lo) / 127 : (hi - lo) / 15;
    by = by > 0 && isfinite(by) ? by : 1;
    *scale = by;
    *zero = form->bits == 8 ? 0 : (uint8_t)fminf(nearbyintf(-lo / by), 15);
    for (int64_t i = 0; i < size; i++) {
        if (form->levels)
            code[i] = nearest_level(form->levels, x[i] / by);
        else if (form->bits == 8)
            code[i] = (uint8_t)(int8_t)fminf(fmaxf(nearbyintf(x[i] / by), -127), 127);
        else
            code[i] = (uint8_t)fminf(fmaxf(nearbyintf(x[i] / by) + *zero, 0), 15);
    }
}

/* Where element i of the weight [outputs, inputs] lies in the parameter. */
static int64_t place(const struct dense *d, int64_t i)
{
    return d->by_input ? i % d->in * d->out + i / d->in : i;
}

/* A byte holds a code of the first and one of the second half of its block, so that elements that lie beside each other
 * come from bytes that do. */
static struct ir_tensor *in_halves(struct ir_ctx *ctx, const struct base_weight *w)
{
    int64_t half = w->size / 2, dims[] = {w->count, 1, half};
    struct ir_tensor *t = new_tensor(ctx, TCC_U8, 3, dims);
    for (int64_t i = 0; i < w->count * half; i++) {
        const uint8_t *from = (const uint8_t *)w->code->data + i / half * w->size + i % half;
        ((uint8_t *)data_of(t))[i] = (uint8_t)(from[0] | from[half] << 4);
    }
    return t;
}

static struct base_weight encode(struct ir_ctx *ctx, const struct base_form *form, const struct dense *d)
{
    const struct ir_tensor *t = d->state->init;
    struct base_weight w = {.from = t, .layer = *d, .form = form, .size = form->block ? form->block : d->in};
    w.count = (t->nelems + w.size - 1) / w.size;
    int64_t dims[] = {w.count, 1, w.size}, one[] = {w.count, 1, 1};
    w.code = new_tensor(ctx, form->bits == 8 ? TCC_I8 : TCC_U8, 3, dims);
    w.scale = new_tensor(ctx, TCC_F32, 3, one);
    w.zero = new_tensor(ctx, TCC_U8, 3, one);
    float *x = IR_NEWN(ctx, (size_t)w.size, float);
    for (int64_t block = 0; block < w.count; block++) {
        for (int64_t i = 0, at = block * w.size; i < w.size; i++, at++)
            x[i] = at >= t->nelems ? 0 : (float)tcc_load_f64((enum tcc_dtype)t->dtype, ir_tensor_at(t, place(d, at)));
        encode_block(form, w.size, x, (uint8_t *)data_of(w.code) + block * w.size, (float *)data_of(w.scale) + block,
                     (uint8_t *)data_of(w.zero) + block);
    }
    w.packed = form->bits == 4 ? in_halves(ctx, &w) : NULL;
    return w;
}

static const struct base_weight *packed_of(const struct base *base, const struct ir_tensor *t)
{
    for (int i = 0; t && i < base->list.n; i++)
        if (base->list.at[i].from == t)
            return &base->list.at[i];
    return NULL;
}

struct ir_tensor *base_values(struct ir_ctx *ctx, const struct base *base, struct ir_tensor *t)
{
    const struct base_weight *w = packed_of(base, t);
    enum tcc_dtype type = (enum tcc_dtype)t->dtype;
    if (!w)
        return t;
    struct ir_tensor *out = new_tensor(ctx, type, t->rank, t->dims);
    for (int64_t i = 0; i < t->nelems; i++) {
        int64_t block = i / w->size;
        uint8_t code = ((const uint8_t *)w->code->data)[i];
        float x = w->form->levels      ? w->form->levels[code]
                  : w->form->bits == 8 ? (float)(int8_t)code
                                       : (float)(code - ((const uint8_t *)w->zero->data)[block]);
        tcc_store_f64(type, (char *)data_of(out) + place(&w->layer, i) * tcc_dtype_bytes(type),
                      x * ((const float *)w->scale->data)[block]);
    }
    return out;
}

/* -- As a graph -------------------------------------------------------------------------------------------------- */

/* Codes of 4 bits, [count, 2, size / 2]. */
static struct ir_value *unpacked(struct ir_builder *b, const struct base_weight *w)
{
    int64_t parts[] = {2, 1};
    ir_expr two[] = {ir_const(b->ctx, w->count), ir_const(b->ctx, 2), ir_const(b->ctx, w->size / 2)};
    struct ir_tensor *shift = new_tensor(b->ctx, TCC_U8, 2, parts);
    memcpy(data_of(shift), (uint8_t[]){0, 4}, 2);
    struct ir_value *x = ir_constant(b, ir_tensor_ref(w->packed));
    x = ir_build1(b, IR_expand, 1, &x, IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, 3, two)));
    struct ir_value *low_bits = ir_constant_i(b, TCC_U8, 15);
    return ir_binary(b, IR_and, ir_binary(b, IR_shr, x, ir_constant(b, shift)), low_bits);
}

/* The level of each code: a tree of choices by its bits, which is exact and needs no table in memory. Bits are as wide
 * as levels, so that both fill a vector alike. */
static struct ir_value *level(struct ir_builder *b, struct ir_value *const *bits, const float *levels, int bit)
{
    if (bit < 0)
        return ir_constant_f(b, TCC_F32, *levels);
    struct ir_value *set = level(b, bits, levels + (1 << bit), bit - 1);
    return ir_select(b, bits[bit], set, level(b, bits, levels, bit - 1));
}

static struct ir_value *levels_of(struct ir_builder *b, struct ir_value *code, const float *levels)
{
    struct ir_value *bits[4], *wide = ir_cast_to(b, code, TCC_I32);
    for (int i = 0; i < 4; i++) {
        struct ir_value *bit = ir_binary(b, IR_and, wide, ir_constant_i(b, TCC_I32, 1 << i));
        bits[i] = ir_binary(b, IR_ne, bit, ir_constant_i(b, TCC_I32, 0));
    }
    return level(b, bits, levels, 3);
}

/* The first `count` elements, as [outputs, inputs]. */
static struct ir_value *as_matrix(struct ir_builder *b, const struct base_weight *w, struct ir_value *x)
{
    int64_t count = w->from->nelems;
    ir_expr flat = ir_const(b->ctx, w->count * w->size), start = ir_const(b->ctx, 0), size = ir_const(b->ctx, count),
            step = ir_const(b->ctx, 1), shape[] = {ir_const(b->ctx, w->layer.out), ir_const(b->ctx, w->layer.in)};
    if (w->count * w->size > count) {
        x = ir_reshape_to(b, x, 1, &flat);
        x = ir_slice(b, x, &start, &size, &step);
    }
    return ir_reshape_to(b, x, 2, shape);
}

/* The weight's values, as the parameter lies. */
static struct ir_value *decoded(struct ir_builder *b, const struct base_weight *w)
{
    static const int64_t turn[] = {1, 0};
    struct ir_value *x = w->packed ? unpacked(b, w) : ir_constant(b, ir_tensor_ref(w->code));
    x = w->form->levels ? levels_of(b, x, w->form->levels) : ir_cast_to(b, x, TCC_F32);
    if (w->packed && !w->form->levels)
        x = ir_binary(b, IR_sub, x, ir_cast_to(b, ir_constant(b, ir_tensor_ref(w->zero)), TCC_F32));
    x = as_matrix(b, w, ir_binary(b, IR_mul, x, ir_constant(b, ir_tensor_ref(w->scale))));
    return ir_cast_to(b, w->layer.by_input ? ir_transpose_by(b, x, turn) : x, (enum tcc_dtype)w->from->dtype);
}

/* -- The pass ---------------------------------------------------------------------------------------------------- */

/* A product's weight, but the last one's, and none in which rows are looked up. */
static bool can_be_packed(struct ir_func *f, const struct dense *d)
{
    if (d->conv || !d->state || !d->state->init || train_is_last(f, d->node))
        return false;
    for (const struct ir_use *u = d->weight->uses; u; u = u->next)
        if (u->user->op == IR_gather)
            return false;
    return true;
}

void base_encode(struct ir_module *m, const struct base_form *form, struct base *base)
{
    struct dense d;
    for (struct ir_func *f = form ? m->funcs : NULL; f; f = f->next)
        IR_EACH_NODE(n, f->body) {
            if (train_dense_of(n, &d) && can_be_packed(f, &d) && !packed_of(base, d.state->init))
                VEC_PUSH(m->ctx, base->list, encode(m->ctx, form, &d));
        }
}

static int replace_constants(struct ir_func *f, const struct base *base)
{
    int count = 0;
    for (struct ir_node *n = f->body->first, *next; n; n = next) {
        next = n->next;
        const struct base_weight *w = n->op == IR_constant ? packed_of(base, ir_const_of(n->out[0])) : NULL;
        if (!w)
            continue;
        struct ir_builder b = {.ctx = f->module->ctx, .func = f, .block = n->block, .before = n};
        struct ir_value *v = decoded(&b, w);
        count += ir_replace(n, v);
    }
    return count;
}

bool base_replace(struct ir_module *m, struct base *base)
{
    int count = 0;
    for (struct ir_func *f = m->funcs; f; f = f->next)
        count += replace_constants(f, base);
    for (int i = 0; i < base->list.n; i++) {
        struct ir_tensor *own[] = {base->list.at[i].code, base->list.at[i].scale, base->list.at[i].zero,
                                   base->list.at[i].packed};
        for (int k = 0; k < 4; k++)
            if (own[k])
                ir_tensor_unref(own[k]);
    }
    return count > 0;
}
