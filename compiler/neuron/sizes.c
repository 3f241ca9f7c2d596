/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sizes.c - numbers that have sizes as factors, which only the run knows. While a turn of an open kernel is made
 * (open.c), a number stands for each size, far above all that is added to it within a turn, so that templates see rows
 * whose distances are numbers. What they made of these, offsets and strides in HBM, is taken apart again here: so many
 * times a product of sizes, and what is left.
 *
 * A tensor's addresses are made of a few such products, each a factor of the next one: of [B, S, 8], S and 1. Anything
 * else is refused.
 */
#include <stdlib.h>

#include "compiler/neuron/neuron_int.h"

/* Odd, so that no row is a whole number of others; what two are factors of still fits in 64 bits. What is added to one
 * is below half of it: one that no row is a multiple of (a rank's number, of whose part of a large tensor all is one
 * turn) is far. */
enum { STAND_IN = 1 << 23, FAR_STAND_IN = 1 << 30 };
static const int64_t stands_for[NEURON_SIZES] = {9, 77, 135, 201, 267, 333};

static int64_t stand_in(bool far)
{
    return far ? FAR_STAND_IN : STAND_IN;
}

int64_t nk_stand_in(uint16_t power, bool far)
{
    int64_t v = 1;
    for (int s = 0; s < NEURON_SIZES; s++)
        for (int k = power >> 2 * s & NEURON_POWER; k; k--)
            if (__builtin_mul_overflow(v, stand_in(far) + stands_for[s], &v) || v > NK_MOST_STAND_IN)
                return 0;
    return v;
}

bool nk_power_times(uint16_t *power, uint16_t by)
{
    int all = 0;
    for (int s = 0; s < NEURON_SIZES; s++) {
        int k = (*power >> 2 * s & NEURON_POWER) + (by >> 2 * s & NEURON_POWER);
        if (k > NEURON_POWER)
            return false;
        all |= k << 2 * s;
    }
    *power = (uint16_t)all;
    return true;
}

int nk_size_of(const struct kn_kernel *k, ir_expr e)
{
    int s = 0;
    while (s < k->nsizes && k->sizes[s] != e)
        s++;
    return s < k->nsizes ? s : -1;
}

/* e as a number times sizes, both multiplied to what is there already. */
bool nk_factors(const struct kn_kernel *k, ir_expr e, int64_t *number, uint16_t *power)
{
    int64_t c;
    int s = nk_size_of(k, e);
    if (ir_is_const(e, &c))
        return !__builtin_mul_overflow(*number, c, number);
    if (s >= 0)
        return s < NEURON_SIZES && nk_power_times(power, (uint16_t)(1 << 2 * s));
    bool fine = e->kind == IR_X_MUL;
    for (int a = 0; fine && a < e->nargs; a++)
        fine = nk_factors(k, e->arg[a], number, power);
    return fine;
}

/* Is each size at least as often a factor of a as of b? */
static bool is_factor(uint16_t b, uint16_t a)
{
    bool fine = true;
    for (int s = 0; s < NEURON_SIZES; s++)
        fine &= (a >> 2 * s & NEURON_POWER) >= (b >> 2 * s & NEURON_POWER);
    return fine;
}

bool nk_chain_add(struct nk_chain *c, uint16_t power)
{
    int at = 0;
    if (!power)
        return true;
    while (at < c->n && c->power[at] != power && is_factor(power, c->power[at]))
        at++;
    if (at < c->n && c->power[at] == power)
        return true;
    if (c->n == NK_CHAIN || !nk_stand_in(power, c->far) || (at < c->n && !is_factor(c->power[at], power)))
        return false;
    for (int k = c->n++; k > at; k--)
        c->power[k] = c->power[k - 1];
    c->power[at] = power;
    return true;
}

bool nk_take_apart(const struct nk_chain *c, int64_t v, struct neuron_operand *to)
{
    int64_t below = stand_in(c->far) / 2;
    int n = 0;
    *to = (struct neuron_operand){.space = NEURON_REGISTER, .reg = NEURON_NO_REGISTER};
    for (int k = 0; k < c->n; k++) {
        int64_t m = nk_stand_in(c->power[k], c->far), times = (llabs(v) + m / 2) / m * (v < 0 ? -1 : 1);
        if (!times)
            continue;
        if (n == NEURON_TERMS || llabs(times) > below)
            return false;
        to->by[n] = times;
        to->power[n++] = c->power[k];
        v -= times * m;
    }
    to->offset = v;
    return !c->n || llabs(v) <= below;
}

bool nk_times(struct neuron_operand *o, int64_t n, uint16_t power)
{
    int used = 0;
    struct neuron_operand to = {.space = NEURON_REGISTER, .reg = NEURON_NO_REGISTER};
    if (power && o->offset) {
        to.by[used] = o->offset * n;
        to.power[used++] = power;
    } else {
        to.offset = o->offset * n;
    }
    for (int k = 0; k < NEURON_TERMS; k++) {
        if (!o->power[k])
            continue;
        if (used == NEURON_TERMS)
            return false;
        to.by[used] = o->by[k] * n;
        to.power[used] = o->power[k];
        if (!nk_power_times(&to.power[used++], power))
            return false;
    }
    *o = to;
    return true;
}

static bool take_apart_operand(const struct nk_chain *c, struct neuron_operand *o)
{
    struct neuron_operand v;
    if (!nk_take_apart(c, o->offset, &v) || v.offset < 0)
        return false;
    o->offset = v.offset;
    for (int k = 0; k < NEURON_TERMS; k++) {
        o->by[k] = v.by[k];
        o->power[k] = v.power[k];
    }
    for (int d = 0; d < o->ndims; d++) {
        if (!nk_take_apart(c, o->stride[d], &v) || v.power[1] || (v.power[0] && v.offset))
            return false;
        o->stride[d] = v.power[0] ? v.by[0] : v.offset;
        o->times[d] = v.power[0];
    }
    return true;
}

/* Do its elements lie in the tensor as the turn has it? A turn may be longer than a table that it goes along. */
static bool is_inside(const struct neuron_program *p, const struct neuron_operand *o)
{
    int64_t bytes = neuron_type_bytes((enum neuron_type)o->type), last = o->offset + bytes;
    for (int d = 0; d < o->ndims; d++)
        last += o->stride[d] > 0 ? ((int64_t)o->size[d] - 1) * o->stride[d] * bytes : 0;
    return last <= neuron_tensor_bytes(&p->tensors[o->tensor]);
}

bool nk_sizes_apart(const struct nk_chain *chains, int nchains, struct neuron_program *p)
{
    for (int e = 0; e < NEURON_NENGINES; e++)
        for (int i = 0; i < p->stream[e].n; i++)
            for (int k = 0; k < p->stream[e].code[i].noperands; k++) {
                struct neuron_operand *o = &p->stream[e].code[i].operand[k];
                if (o->space != NEURON_HBM || o->tensor >= nchains)
                    continue;
                if (chains[o->tensor].n ? !take_apart_operand(&chains[o->tensor], o) : !is_inside(p, o))
                    return false;
            }
    return true;
}
