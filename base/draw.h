/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draw.h - numbers that a seed decides: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
 * OOPSLA 2014). First values of a parameter begin at a seed and the digest of its name, so that they depend on no other
 * parameter.
 */
#ifndef TCR_DRAW_H
#define TCR_DRAW_H

#include <stdint.h>

static inline uint64_t tcr_draw_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The digest is FNV-1a. */
static inline uint64_t tcr_draw_begin(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return tcr_draw_next(&seed) ^ h;
}

/* Uniform in [0, 1). */
static inline double tcr_draw_unit(uint64_t *state)
{
    return (double)(tcr_draw_next(state) >> 11) * 0x1p-53;
}

#endif
