/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_weights.c - weights that are made when an artifact is opened (struct tcc_prandom): a model is measured on a
 * machine to which its own were not carried. An element is a function of the seed and its place, so each process has
 * the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/rt_int.h"

/* SplitMix64's output function (Steele, Lea, Flood 2014), as a number from -1 to 1. */
static double drawn(uint64_t seed, uint64_t at)
{
    uint64_t z = (seed + at) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-52 - 1;
}

/* Cut off, not rounded: one drawn value is as good as its neighbour. */
static void put(uint32_t dtype, void *to, float v)
{
    uint32_t bits;
    uint16_t half;
    int exponent;

    memcpy(&bits, &v, 4);
    if (dtype == TCC_F32) {
        memcpy(to, &bits, 4);
        return;
    }
    half = (uint16_t)(bits >> 16); /* bf16 */
    if (dtype == TCC_F16) {
        exponent = (int)(bits >> 23 & 255) - 127 + 15;
        half = (uint16_t)((bits >> 16 & 0x8000) | (exponent <= 0    ? 0
                                                   : exponent >= 31 ? 0x7bff
                                                                    : (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff)));
    }
    memcpy(to, &half, 2);
}

static void fill(void *to, const struct tcc_prandom *r, uint64_t seed)
{
    uint64_t each = r->dtype == TCC_F32 ? 4 : 2, n = r->bytes / each;
    double wide = r->deviation * 1.7320508075688772; /* of an even distribution with that deviation */

    for (uint64_t i = 0; i < n; i++)
        put(r->dtype, (char *)to + i * each, (float)(r->mean + wide * drawn(seed, r->offset + i)));
}

int tcr_random_weights(struct tccrt_model *m, const char *what)
{
    const uint8_t *at = m->desc->weights;
    uint64_t seed = strtoull(m->desc->sidecar + strlen(TCC_RANDOM_WEIGHTS), NULL, 10) << 32,
             size = m->desc->weights_size;
    void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (made == MAP_FAILED)
        return tcr_fail(TCC_EENV, "%s: no memory for %llu bytes of weights: %s", what, (unsigned long long)size,
                        strerror(errno));
    m->map = made;
    m->map_size = size;
    m->weights = made;
    m->made = true;
    for (;;) {
        struct tcc_prandom r;

        memcpy(&r, at, sizeof r);
        at += sizeof r;
        if (r.offset == ~(uint64_t)0)
            return TCC_OK;
        if (r.offset > size || r.bytes > size - r.offset || (!r.given && !TCC_RANDOM_TYPE(r.dtype)))
            return tcr_fail(TCC_EBUG, "%s: a record of its weights is damaged", what);
        if (!r.given) {
            fill((char *)made + r.offset, &r, seed);
            continue;
        }
        memcpy((char *)made + r.offset, at, r.bytes);
        at += (r.bytes + 7) / 8 * 8;
    }
}
