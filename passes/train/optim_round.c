/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stochastic rounding of f32 to bf16: the word `dither` adds 16 random bits below bf16's last place and cuts them off,
 * so that the expected result is the exact value, and steps smaller than half a unit are not lost.
 *
 * The bits are a function of (train.seed, train.step, the state variable's name, the element's index): a hash, so that
 * neither threads nor the order of kernels matter. The hash is the xorshift-multiply `lowbias32` (C. Wellons,
 * hash-prospector), whose bias is below that of the 16 bits that are taken.
 */
#include "passes/train/optim_int.h"

#include "base/mutant.h"

static struct ir_value *word(struct ir_builder *b, uint32_t v)
{
    return ir_constant_i(b, TCC_U32, (int64_t)v);
}

static struct ir_value *xor_shift(struct ir_builder *b, struct ir_value *x, uint32_t by)
{
    return ir_binary(b, IR_xor, x, ir_binary(b, IR_shr, x, word(b, by)));
}

static struct ir_value *mix(struct ir_builder *b, struct ir_value *x)
{
    struct ir_value *first_multiplier = word(b, 0x7feb352du);
    x = ir_binary(b, IR_mul, xor_shift(b, x, 16), first_multiplier);
    struct ir_value *last_multiplier = word(b, 0x846ca68bu);
    x = ir_binary(b, IR_mul, xor_shift(b, x, 15), last_multiplier);
    return xor_shift(b, x, 16);
}

/* u32[]: the low or high half of an i64[]. */
static struct ir_value *half(struct ir_builder *b, struct ir_value *x, int shift)
{
    x = shift ? ir_binary(b, IR_shr, x, ir_constant_i(b, TCC_I64, shift)) : x;
    return x ? ir_cast_to(b, x, TCC_U32) : NULL;
}

/* u32[]: what seed and step make of all names. */
struct ir_value *optim_random_key(struct ir_builder *b)
{
    struct ir_value *seed = optim_read(b, "train.seed"), *step = optim_read(b, "train.step"), *key;

    if (!seed || !step)
        return NULL;
    struct ir_value *half_of = half(b, seed, 32);
    key = mix(b, ir_binary(b, IR_xor, mix(b, half(b, seed, 0)), half_of));
    struct ir_value *half_of_step = half(b, step, 32);
    return mix(b, ir_binary(b, IR_xor, mix(b, ir_binary(b, IR_xor, key, half(b, step, 0))), half_of_step));
}

/* u32 of the type's dims: each element's row-major index. */
static struct ir_value *element_index(struct ir_builder *b, ir_type type)
{
    struct ir_value *index = word(b, 0);
    ir_expr stride = ir_const(b->ctx, 1);

    for (int i = type->rank - 1; i >= 0; i--) {
        struct ir_value *along = ir_iota(b, type->rank, type->dim, i, TCC_U32);
        if (!ir_is_value(stride, 1))
            along = ir_binary(b, IR_mul, along, word(b, (uint32_t)ir_const_or(stride, 0)));
        index = i == type->rank - 1 ? along : ir_binary(b, IR_add, index, along);
        stride = ir_mul(b->ctx, stride, type->dim[i]);
    }
    return index;
}

struct ir_value *optim_dither(struct ir_builder *b, struct ir_value *key, const char *name, struct ir_value *x)
{
    uint32_t hash = 2166136261u; /* FNV-1a of the name */
    struct ir_value *r;

    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    key = mix(b, ir_binary(b, IR_xor, key, word(b, hash)));
    r = x ? mix(b, ir_binary(b, IR_xor, element_index(b, x->type), key)) : NULL;
    r = ir_binary(b, IR_and, r, word(b, MUTANT(33, 0xffff, 0x7fff)));
    return r ? ir_binary(b, IR_dither, x, ir_cast_to(b, r, TCC_F32)) : NULL;
}
