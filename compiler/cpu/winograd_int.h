/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_int.h - what the schedule of a kernel by Winograd's algorithm (winograd.c) and its code share. */
#ifndef TCC_CPU_WINOGRAD_INT_H
#define TCC_CPU_WINOGRAD_INT_H

#include "compiler/cpu/emit_int.h"
#include "ir/winograd.h"

enum { BLOCK = IR_WINOGRAD_BLOCK, LINE = 16 }; /* elements */

struct wg {
    struct em *e;
    const struct kn_kernel *k;
    struct kn_winograd r;
    int64_t frequencies, channels, room; /* of input; tiles that v and m have room for */
    int64_t filters, depth;              /* of a long one; products of a sum */
    int panel;                           /* output channels */
    bool from_far; /* an image's lines come from behind the second cache, so that it is read block by block */
    LLVMValueRef scratch, first, ntiles;
};

static inline int64_t wg_v_step(const struct wg *g)
{
    return g->frequencies * g->channels + 16; /* not a multiple of a page: tiles would fall into one set */
}

/* Tiles that v and m take: register tiles reach beyond the last, long filters read further on. */
static inline int64_t wg_room(const struct wg *g, int64_t tiles)
{
    return tiles + 16 + g->filters - 1;
}

/* The kernel's sizes; false: it is none of these. */
bool wg_study(const struct kn_kernel *k, struct wg *g);
/* Of a register tile of a panel: channels whose values are lanes of one vector (1: none), vectors of a row, passes over
 * the panel, rows at most. */
int wg_by_lane(const struct cpu_machine *m);
int wg_vectors(const struct cpu_machine *m, int panel);
int wg_parts(const struct cpu_machine *m, int panel);
int wg_most_rows(const struct cpu_machine *m, int panel);
void wg_emit(struct em *e);

#endif
