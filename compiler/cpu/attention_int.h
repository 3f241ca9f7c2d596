/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_int.h - attention kernels (passes/kernel/attention.c makes them), shared by the schedule and the code.
 *
 * A tile is some rows (queries) of one head. Keys come in blocks, so that a block of keys and the rows' scores stay in
 * the near caches, whatever the number of keys:
 *
 *     rows of q -> scratch; means = 0, tops = -inf, sums = 0
 *     for key blocks: keys -> scratch, transposed in panels
 *       for row blocks of mr:
 *         scores[mr][block] = q k                         register tiles of mr x cv vectors of keys
 *         each row: scale, mask; top' = max; weights = exp(scores - top'); sum = sum * exp(top - top') + sum of weights
 *         means[mr][e] = means * exp(top - top') + weights v    register tiles of mr x cv vectors of e
 *     each row: the kernel's last stage on the means
 *
 * A tile of one row (a decoder's token) reads its keys where they lie, along d, and makes no panels.
 *
 * The last row block may have rows behind the tile's last one: they repeat it, and are never stored. Keys behind the
 * last one get the score -inf.
 */
#ifndef TCC_CPU_ATTENTION_INT_H
#define TCC_CPU_ATTENTION_INT_H

#include "compiler/cpu/cpu_int.h"

struct at {
    const struct kn_kernel *k;
    struct ir_ctx *ctx;
    struct kn_attention r;
    ir_expr keys;                        /* that a row may look at; NULL: all */
    int64_t nt, nd, ne, nrows;           /* extents; nt, nrows -1: not constant */
    ir_expr off_k;                       /* k's element offset where it is read as it lies; NULL: it is not */
    ir_expr off_v, step_v;               /* v's element offset, and how far it is between keys; NULL: v is packed */
    int lanes, cv, mr, block;            /* block: keys */
    int64_t tile_rows;                   /* rows of a tile, whole row blocks */
};

bool at_analyse(const struct cpu_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k, struct at *a);
static inline int64_t at_round(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
/* The parts of scratch, in elements from its start. */
struct at_scratch { int64_t q, means, tops, sums, fixes, scores, keys, values, all; };
struct at_scratch at_scratch(const struct at *a);

struct em;
void at_emit(struct em *e);              /* attention_emit.c */

#endif
