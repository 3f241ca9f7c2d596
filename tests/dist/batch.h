/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up data for the step of a classifier, for the tests of many ranks. */
#ifndef TCCC_TESTS_DIST_BATCH_H
#define TCCC_TESTS_DIST_BATCH_H

#include "runtime/tccrt.h"
#include "tests/tensors.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 4, CLASSES = 10 };

struct batch {
    struct tcc_tensor in[MAX_INPUTS];
    int n;
};

/* Inputs of `step`, of `rows` samples: floats in [-1, 1), integers below CLASSES, by the seed. The caller drops
 * them. */
static inline void make_batch(struct tccrt_model *m, int rows, unsigned seed, struct batch *b)
{
    b->n = tccrt_ninputs(m, "step");
    for (int i = 0; i < b->n; i++) {
        struct tccrt_value_info info;
        tccrt_input(m, "step", i, &info);
        b->in[i] = (struct tcc_tensor){.dtype = info.dtype, .rank = info.rank};
        memcpy(b->in[i].dims, info.dims, sizeof info.dims);
        b->in[i].dims[0] = rows;
        b->in[i].data = calloc(bytes_of(&b->in[i]) + 1, 1);
        for (int64_t k = 0; k < elements(&b->in[i]); k++) {
            seed = seed * 1664525u + 1013904223u;
            if (info.dtype == TCC_I64)
                ((int64_t *)b->in[i].data)[k] = (seed >> 16) % CLASSES;
            else
                ((float *)b->in[i].data)[k] = (float)(seed >> 8) / 8388608.0f - 1;
        }
    }
}

static inline void drop_batch(struct batch *b)
{
    for (int i = 0; i < b->n; i++)
        free(b->in[i].data);
}

#endif
