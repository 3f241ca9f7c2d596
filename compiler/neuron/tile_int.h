/* SPDX-License-Identifier: Apache-2.0 */
/* tile_int.h - private to tile.c, along.c and tile_reduce.c: a kernel by the lanes, and a stage of it over a tile. */
#ifndef TCC_NEURON_TILE_INT_H
#define TCC_NEURON_TILE_INT_H

#include "compiler/neuron/neuron_int.h"

/* Values of earlier stages that a stage works out again (keep.c), by instruction: the first that has its value, or -1;
 * is it one of those firsts? Does nobody need it where values are taken from earlier stages? By operand: a row buffer
 * all of whose loads are taken so. That is for stages whose points are on chip at once. */
struct nk_again { int *of; bool *hold, *skip, *forwarded; };
struct nk_again nk_find_again(struct nk *nk);

struct plan {
    struct nk *nk;
    struct nk_digits digits[KN_MAX_DIMS];
    int along;                  /* the dim on partitions; -1: none */
    int64_t chunk[KN_MAX_DIMS]; /* of an outer dim that is free: points at once */
    int64_t each;               /* of the dim on partitions: points beside each other in one of them */
    struct nk_tile tile;
    struct nk_again again;
    const struct nk_value **uniform; /* by instruction: a load of the same element for all points; NULL: it is none */
};

/* What later stages use: by outer axes as a value is, by other dims with these strides. */
struct kept {
    struct nk_value v;
    int64_t stride[KN_MAX_DIMS];
    bool present;
};

struct stage {
    struct plan *p;
    struct kept *kept; /* by instruction */
    const struct nk_value **held; /* by instruction, of the tile: what later stages take instead of working it out */
    struct nk_tile t;
    const struct nk_value **value; /* by instruction, of this chunk */
    int *same, *order; /* by instruction: the first load of the stage that loads the same; the stage's, in order */
    bool *made;        /* by instruction, of this chunk */
    bool *summed;      /* by instruction: a sum that the function it is of has left already */
    uint32_t inner, repeat;
    int number, ninner; /* axes of inner dims */
    bool first, whole;  /* chunk of the inner dims: the first; the only one */
    bool takes;         /* from earlier stages what it has in common with them */
};

/* tile.c: inner and repeated points of a stage. */
int64_t nk_stage_points(const struct nk *nk, const struct kn_stage *s);

/* along.c: digits, along, chunk and each of a plan */
void nk_find_along(struct plan *p);

/* online.c: both reductions of a softmax in one pass, where a row comes in chunks; false: it does not. */
bool nk_run_online(struct plan *p, struct kept *kept);

/* tile_reduce.c */
const struct nk_value *nk_kept_at(struct nk *nk, const struct nk_tile *t, const struct kept *k);    /* over that tile */
/* instruction i's value, whichever stage made it */
const struct nk_value *nk_stage_arg(struct stage *s, int i);
/* over outer axes and all points of the repeated dims */
void nk_make_kept(struct stage *s, int insn, enum tcc_dtype d, bool wide);
/* A function, or a square, of which Scalar sums a row as it computes it; false: instruction `insn` is none. */
bool nk_function_and_sum(struct stage *s, int insn, const struct nk_value *x);
void nk_reduce(struct stage *s, int insn);
void nk_argreduce(struct stage *s, int insn);

/* max8.c: an argmax by places of the stage's inner dim; a row buffer's first few in order, with their places */
bool nk_is_argmax8(const struct nk *nk, const struct kn_stage *g, int insn);
void nk_argmax8(struct stage *s, int insn);
void nk_sort(struct stage *s, int insn);

/* tile_reduce.c */
const struct nk_value *nk_scan(struct stage *s, int insn);

#endif
