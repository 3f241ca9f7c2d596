/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.c - random_uniform and random_normal as elementwise work: each element computes its own word of Philox by the
 * scalar op `philox`, then the number that interp/random.c says, with the same bits. Key and counter that only the
 * running program knows (the session's seed, its count of runs) come of the op `random_key`, which kernels work out
 * from their environment: no step on the host stands before them.
 */
#include "passes/legalise/legalise_int.h"

/* u64[2]: key, and the counter's upper half. */
static struct ir_value *random_key(struct ir_builder *b, const struct ir_node *n)
{
    return ir_build1(b, IR_random_key, 0, NULL,
                     IR_ATTRS(ir_attr_i(IR_ATTR_seed, ir_get_i(n, IR_ATTR_seed, 0)),
                              ir_attr_i(IR_ATTR_stream, ir_get_i(n, IR_ATTR_stream, 0))));
}

static struct ir_value *part(struct ir_builder *b, struct ir_value *key, int i)
{
    ir_expr start = ir_const(b->ctx, i), one = ir_const(b->ctx, 1);
    return ir_slice(b, key, &start, &one, &one);
}

static struct ir_value *number(struct ir_builder *b, uint64_t v)
{
    return ir_constant_i(b, TCC_U64, (int64_t)v);
}

static struct ir_value *words(struct ir_builder *b, struct ir_value *index, struct ir_value *key)
{
    struct ir_value *in[3] = {index, part(b, key, 0), part(b, key, 1)};
    return in[1] && in[2] ? ir_build1(b, IR_philox, 3, in, NULL) : NULL;
}

/* The word's leading bits as a whole number; with up to 31 of them by way of i32, which machines convert fastest. */
static struct ir_value *leading(struct ir_builder *b, struct ir_value *word, int bits, enum tcc_dtype to)
{
    word = bits < 32 ? ir_binary(b, IR_shr, word, number(b, 32 - (uint64_t)bits)) : word;
    word = word && bits < 32 ? ir_cast_to(b, word, TCC_I32) : word;
    return word ? ir_cast_to(b, word, to) : NULL;
}

static struct ir_value *scaled(struct ir_builder *b, struct ir_value *x, double by)
{
    return x ? ir_binary(b, IR_mul, x, ir_constant_f(b, x->type->dtype, by)) : NULL;
}

static struct ir_value *uniform(struct ir_builder *b, struct ir_value *index, struct ir_value *key, enum tcc_dtype to)
{
    int bits = tcc_random_bits(to);
    struct ir_value *word = words(b, index, key);
    return word ? scaled(b, leading(b, word, bits, tcc_wide_float(to)), 1.0 / (double)(1ull << bits))
                : NULL;
}

/* Elements 2j and 2j + 1 share two words. */
static struct ir_value *normal(struct ir_builder *b, struct ir_value *index, struct ir_value *key)
{
    struct ir_value *first = words(b, ir_binary(b, IR_and, index, number(b, ~1ull)), key),
                    *second = words(b, ir_binary(b, IR_or, index, number(b, 1)), key);
    struct ir_value *u = first ? leading(b, first, 24, TCC_F64) : NULL,
                    *v = second ? leading(b, second, 24, TCC_F64) : NULL;
    if (!u || !v)
        return NULL;
    u = scaled(b, ir_binary(b, IR_add, u, ir_constant_f(b, TCC_F64, 1)), 0x1p-24);
    struct ir_value *angle = scaled(b, scaled(b, v, 0x1p-24), 6.283185307179586);
    struct ir_value *r = ir_unary(b, IR_sqrt, scaled(b, ir_unary(b, IR_log, u), -2));
    struct ir_value *zero = number(b, 0);
    struct ir_value *odd = ir_binary(b, IR_ne, ir_binary(b, IR_and, index, number(b, 1)), zero);
    struct ir_value *turn[3] = {odd, ir_unary(b, IR_sin, angle), ir_unary(b, IR_cos, angle)};
    struct ir_value *side = odd && turn[1] && turn[2] ? ir_build1(b, IR_select, 3, turn, NULL) : NULL;
    return r && side ? ir_binary(b, IR_mul, r, side) : NULL;
}

struct ir_value *legalise_random(struct ir_builder *b, const struct ir_node *n)
{
    ir_type type = n->out[0]->type;
    ir_expr size = ir_const(b->ctx, 1);
    for (int i = 0; i < type->rank; i++)
        size = ir_mul(b->ctx, size, type->dim[i]);
    struct ir_value *key = random_key(b, n);
    struct ir_value *index = ir_iota(b, 1, &size, 0, TCC_U64);
    struct ir_value *x = !key || !index               ? NULL
                         : n->op == IR_random_uniform ? uniform(b, index, key, type->dtype)
                                                      : normal(b, index, key);
    x = x ? ir_cast_to(b, x, type->dtype) : NULL;
    return x ? ir_reshape_to(b, x, type->rank, type->dim) : NULL;
}
