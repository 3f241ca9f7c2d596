/* SPDX-License-Identifier: Apache-2.0 */
/* attention_int.h - attention as one kernel, under way: what attention.c and attention_means.c share. */
#ifndef TCC_NEURON_ATTENTION_INT_H
#define TCC_NEURON_ATTENTION_INT_H

#include "compiler/neuron/neuron_int.h"

enum { PARTS = 4, PART = NEURON_MOVING, KEYS = PARTS * PART, MOST_WIDTH = 512, AHEAD = 2, MOST_BYTES = 64 << 10 };

/* What rows of the same outer dims share: keys in panels of as many as a product takes, and blocks of 128 values. */
struct na_head {
    int64_t base[KN_MAX_DIMS], keys_at, values_at; /* up to where they are loaded */
    struct nk_panel **keys;
    const struct nk_value **values;
    const struct nk_value *tops, *sums; /* of whole blocks of rows, where their logarithms are stored: columns */
    const struct nk_value *state;       /* what rows have of other keys; NULL: nothing */
};

/* 128 rows, or fewer. */
struct na_rows {
    int64_t base[KN_MAX_DIMS], n;
    struct na_head *head;
    struct nk_panel *q;
    const struct nk_value *top, *sum, *mean; /* so far; columns and [rows, e] */
    const struct nk_value *kept;             /* where the largest score is to be when the turn ends */
};

/* Rows and keys that are looked at together. */
struct na_step {
    struct na_rows *rows;
    int nparts;
    struct {
        int64_t lo, n;
        const struct nk_value *scores, *weights;
    } part[PARTS];
    const struct nk_value *factor, *sum,
        *mean; /* by which what was there gets smaller, NULL: nothing was; of these weights */
    bool last_of_rows, last_of_head;
};

struct na_attention {
    struct nk *nk;
    struct kn_attention r;
    ir_expr visible;             /* keys that a row may look at; NULL: all */
    const struct kn_insn *state; /* stores what rows have of other keys (phases.c); NULL: none does */
    const struct nk_value *none; /* what rows have where they have nothing */
    struct nk_panel *q, *k;
    enum tcc_dtype type; /* in which weights and values are multiplied */
    struct nk_blocks values;
    bool plain; /* it is the product times `scale` */
    double scale;
    int64_t keys, width;
};

/* attention.c. Rows on partitions, points of a dim beside each other; dim -1: one point. */
struct nk_tile na_tile_of(const struct na_attention *a, const struct na_rows *r, int dim, int64_t lo, int64_t n);

/* attention_means.c. Turns a step's weights over as far as banks are kept for that; its sums of weights times values,
 * in a bank; its means and sums to those of its rows, which the last step stores. */
void na_turn_first(struct na_attention *a, struct na_step *s);
void na_average(struct na_attention *a, struct na_step *s);
void na_add_up(struct na_attention *a, struct na_step *s);
/* Of a head, what its rows have of other keys: loaded; where they have nothing, stored; of these rows. */
void na_load_state(struct na_attention *a, struct na_head *h);
void na_store_none(struct na_attention *a, const struct na_head *h);
void na_begin_with_state(struct na_attention *a, struct na_rows *r);

#endif
