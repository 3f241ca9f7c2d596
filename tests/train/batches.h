/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batches.h - the cases of tests/train/networks and their batches, which come of a formula (hashed) that networks.py
 * has too. Apart for programs that link the run-time library alone (tests/arm/steps.c).
 */
#ifndef TCCC_TESTS_BATCHES_H
#define TCCC_TESTS_BATCHES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/tensors.h"

enum { BATCHES = 4, MAX_ELEMENTS = 1 << 20 };

/* A line "case OPTIMIZER x DIMS CLASSES target DIMS CLASSES"; classes 0: numbers in [-1, 1). */
struct batch {
    char optimizer[200];
    struct tcc_tensor in[2];
    unsigned classes[2];
};

static inline uint32_t hashed(uint32_t i)
{
    uint32_t h = i * 0x9E3779B1u;
    h = (h ^ h >> 15) * 0x85EBCA77u;
    h = (h ^ h >> 13) * 0xC2B2AE3Du;
    return h ^ h >> 16;
}

static inline void batch_fill(struct batch *b, int step)
{
    for (int k = 0; k < 2; k++) {
        uint32_t first = (uint32_t)(2 * (step % BATCHES) + k) * 10000019u;
        for (uint32_t i = 0; i < (uint32_t)elements(&b->in[k]); i++) {
            uint32_t h = hashed(first + i);
            if (b->classes[k])
                ((int64_t *)b->in[k].data)[i] = h % b->classes[k];
            else
                ((float *)b->in[k].data)[i] = (float)(h / 2147483648.0 - 1);
        }
    }
}

static inline bool batch_dims(const char *text, struct tcc_tensor *t)
{
    char *end;
    for (t->rank = 0; t->rank < TCC_MAX_RANK; text = end + 1) {
        t->dims[t->rank++] = strtoll(text, &end, 10);
        if (*end != 'x')
            return *end == '\0' && elements(t) > 0 && elements(t) < MAX_ELEMENTS;
    }
    return false;
}

/* false: it is no such line, or there is no memory. */
static inline bool batch_read(struct batch *b, const char *line)
{
    char dims[2][100];
    if (sscanf(line, "case %199s x %99s %u target %99s %u", b->optimizer, dims[0], &b->classes[0], dims[1],
               &b->classes[1]) != 5)
        return false;
    for (int k = 0; k < 2; k++) {
        if (!batch_dims(dims[k], &b->in[k]))
            return false;
        b->in[k].dtype = b->classes[k] ? TCC_I64 : TCC_F32;
        b->in[k].data = calloc((size_t)elements(&b->in[k]), 8);
        if (!b->in[k].data)
            return false;
    }
    return true;
}

#endif
