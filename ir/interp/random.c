/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.c - random_uniform and random_normal: Philox4x32-10 (words_int.h). Key: the low and high word of `seed`.
 * Counter words: the low and the high word of element / 4, the low word of `stream`, the low word of the session's step
 * count. Element e takes word e % 4.
 *
 * uniform: the word's leading p bits times 2^-p, p the significand bits of the type (at most 32), so that 1 is never
 * reached. normal: words 2j and 2j + 1 of a block give u = (leading 24 bits + 1) 2^-24 and v = leading 24 bits 2^-24;
 * element 2j is sqrt(-2 log u) cos(2 pi v), element 2j + 1 has sin.
 */
#include <math.h>

#include "ir/interp/interp_int.h"
#include "ir/interp/words_int.h"

static double normal(const uint32_t *words, int i)
{
    double u = ((words[i & ~1] >> 8) + 1) * 0x1p-24, v = (words[i | 1] >> 8) * 0x1p-24;
    double r = sqrt(-2 * log(u)), angle = 6.283185307179586 * v;
    return i & 1 ? r * sin(angle) : r * cos(angle);
}

static uint64_t run_of(const struct it_call *c)
{
    return c->it->state ? (uint32_t)c->it->state->step : 0;
}

int interp_random_key(struct it_call *c)
{
    const int64_t two = 2;
    struct ir_tensor *t = it_out(c, 0, 1, &two);
    if (!t)
        return c->status;
    uint64_t *key = (uint64_t *)(uintptr_t)t->data;
    key[0] = (uint64_t)ir_get_i(c->n, IR_ATTR_seed, 0);
    key[1] = (uint32_t)ir_get_i(c->n, IR_ATTR_stream, 0) | run_of(c) << 32;
    return TCC_OK;
}

int interp_random(struct it_call *c)
{
    const struct ir_attr *shape = ir_attr(c->n, IR_ATTR_shape);
    int64_t dims[TCC_MAX_RANK];
    if (!shape || shape->n > TCC_MAX_RANK || !it_exprs(c, IR_ATTR_shape, shape->n, dims))
        return it_fail(c, TCC_EBUG, "no shape");
    struct ir_tensor *t = it_out(c, 0, shape->n, dims);
    if (!t)
        return c->status;
    enum tcc_dtype d = it_dtype(t);
    uint64_t seed = (uint64_t)ir_get_i(c->n, IR_ATTR_seed, 0);
    uint32_t counter[4] = {0, 0, (uint32_t)ir_get_i(c->n, IR_ATTR_stream, 0), (uint32_t)run_of(c)};
    uint32_t words[4];
    int drop = 32 - tcc_random_bits(d);
    for (int64_t i = 0; i < t->nelems; i++) {
        if (i % 4 == 0) {
            counter[0] = (uint32_t)(i / 4);
            counter[1] = (uint32_t)((uint64_t)(i / 4) >> 32);
            ir_philox_block(seed, counter, words);
        }
        double v = c->n->op == IR_random_normal ? normal(words, (int)(i % 4)) : ldexp(words[i % 4] >> drop, drop - 32);
        tcc_store_f64(d, (void *)ir_tensor_at(t, i), v);
    }
    return TCC_OK;
}
