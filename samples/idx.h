/* SPDX-License-Identifier: Apache-2.0 */
/* Labelled pictures in the layout of the MNIST files, for samples that are traced programs. */
#ifndef TCCC_SAMPLES_IDX_H
#define TCCC_SAMPLES_IDX_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <compiler/trace.h>

/* A labelled set: pictures[n, 1, height, width] and labels[n], bytes. */
struct idx_set {
    struct tcc_tensor arrays[2];
};

/* Reads an IDX file of bytes: a big-endian head, then the data, which the caller frees. */
static inline int idx_read(const char *folder, const char *name, int rank, struct tcc_tensor *t)
{
    char path[4096];
    unsigned char head[4], d[4];
    size_t n = 1;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    bool good = f && fread(head, 1, 4, f) == 4 && !head[0] && !head[1] && head[2] == 8 && head[3] == rank;
    *t = (struct tcc_tensor){.dtype = TCC_U8, .rank = rank};
    for (int i = 0; good && i < rank; i++) {
        good = fread(d, 1, 4, f) == 4;
        t->dims[i] = good ? (int64_t)d[0] << 24 | (int64_t)d[1] << 16 | (int64_t)d[2] << 8 | (int64_t)d[3] : 0;
        good = good && t->dims[i] > 0 && (size_t)t->dims[i] <= ((size_t)1 << 30) / n;
        n *= good ? (size_t)t->dims[i] : 0;
    }
    t->data = good ? malloc(n) : NULL;
    good = t->data && fread(t->data, 1, n, f) == n;
    if (f)
        fclose(f);
    if (!good)
        fprintf(stderr, "%s: no IDX file of bytes with %d dims\n", path, rank);
    return !good;
}

static inline int idx_read_set(const char *folder, struct idx_set *s)
{
    if (idx_read(folder, "pictures.idx3-ubyte", 3, &s->arrays[0]) ||
        idx_read(folder, "labels.idx1-ubyte", 1, &s->arrays[1]))
        return 1;
    struct tcc_tensor *p = &s->arrays[0];
    p->rank = 4;
    p->dims[3] = p->dims[2];
    p->dims[2] = p->dims[1];
    p->dims[1] = 1;
    if (p->dims[0] == s->arrays[1].dims[0] && p->dims[2] == 28 && p->dims[3] == 28)
        return 0;
    fprintf(stderr, "%s: not labelled pictures of 28 x 28\n", folder);
    return 1;
}

#endif
