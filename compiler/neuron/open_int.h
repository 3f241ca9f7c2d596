/* SPDX-License-Identifier: Apache-2.0 */
/* open_int.h - a kernel with sizes that only the run knows: what open.c, open_access.c, phases.c, even_dims.c share. */
#ifndef TCC_NEURON_OPEN_INT_H
#define TCC_NEURON_OPEN_INT_H

#include "compiler/neuron/neuron_int.h"

#define NK_NOT_YET INT64_MIN

/* An open dim: points of it in a unit; whose product the units are, or, if it is not 0, how many. Or an index that is
 * read from a tensor, the same for all points (dim -1). */
struct nk_open_axis {
    int dim;
    ir_expr var;
    int64_t each, units, *shift; /* shift: of an operand: elements a unit, or NK_NOT_YET */
    uint16_t power;
};
struct nk_open {
    struct ir_ctx *ctx;
    const struct kn_kernel *k, *pinned; /* pinned: with numbers that stand for the sizes */
    const char *why;
    int naxes, nread;
    struct nk_open_axis axis[NK_OPEN + NK_READ]; /* open dims, then what is read */
    struct nk_read read[NK_READ];        /* tensor: the operand */
    struct nk_chain *chain;              /* by operand */
    struct nk_where where;               /* of axes whose indices are values, */
    int where_axis[NK_OPEN];             /* which those are */
    /* without copies; by operand, whose copy it is; -1: it is none */
    int noperands, *copied;
};

/* even_dims.c: of a kernel that may be changed, dims that turns can go along. True: it was changed. */
bool nk_even_dims(struct ir_ctx *ctx, struct kn_kernel *k);

/* open_access.c. False: it is the host's, and `why` says why. In this order: the open dims and their units; indices
 * that are single numbers in HBM, which registers have (a loop's counter); how each access goes on (o->chain). */
bool nk_find_units(struct nk_open *o);
bool nk_find_reads(struct nk_open *o);
bool nk_find_shifts(struct nk_open *o);
bool nk_open_refuse(struct nk_open *o, const char *why);             /* false */
/* The elements of an operand: a number times sizes. */
bool nk_open_elements(struct nk_open *o, const struct kn_operand *x, int64_t *each, uint16_t *power);

#endif
