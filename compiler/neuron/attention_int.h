/* SPDX-License-Identifier: Apache-2.0 */
/* attention_int.h - attention as one kernel, under way: what attention.c and attention_means.c share. */
#ifndef TCC_NEURON_ATTENTION_INT_H
#define TCC_NEURON_ATTENTION_INT_H

#include "compiler/neuron/neuron_int.h"

enum { PARTS = 4, PART = NEURON_MOVING, KEYS = PARTS * PART, MOST_WIDTH = 512, AHEAD = 2, MOST_BYTES = 64 << 10 };

/* Logarithms of rows of several heads beside each other along `dim`, made at once: their largest scores as they are,
 * and sums of weights, a column for each head's whole 128 rows. */
struct na_logs {
    int dim;
    int64_t base[KN_MAX_DIMS], heads;
    struct na_head *last; /* of them */
    const struct nk_value *tops, *sums;
};

/* What rows of the same outer dims share: keys in panels of as many as a product takes, and blocks of 128 values. */
struct na_head {
    int64_t base[KN_MAX_DIMS], keys_at, values_at; /* up to where they are loaded */
    struct nk_panel **keys;
    const struct nk_value **values;
    struct na_logs *logs; /* NULL: no row's is stored */
    int64_t number;       /* among their heads */
    const struct nk_value *state;       /* what rows have of other keys; NULL: nothing */
};

/* 128 rows, or fewer. */
struct na_rows {
    int64_t base[KN_MAX_DIMS], n;
    struct na_head *head;
    struct nk_panel *q;
    const struct nk_value *top, *sum, *mean; /* so far; columns and [rows, e] */
    bool noted;                              /* where logarithms are made of them, too */
    const struct nk_value *kept;             /* where the largest score is to be when the turn ends */
};

/* Rows and keys that are looked at together. */
struct na_step {
    struct na_rows *rows;
    int nparts;
    struct {
        int64_t lo, n;
        bool beside; /* its scores lie in the bank of the part before */
        const struct nk_value *scores, *weights;
    } part[PARTS];
    /* the largest scores of the parts, NULL: not known yet; of all so far; what weights take off */
    const struct nk_value *tops, *top, *less;
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
    const struct nk_value *more; /* what each row of a causal mask sees more than the first: a column; NULL: not made */
    struct na_logs *logs;        /* of the head that came last */
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
/* A head that comes next gets a place among those whose logarithms are made at once. Where they are made of `what`, of
 * whole rows: a column, which stays until then; NULL: not of such rows. */
void na_join_logarithms(struct na_attention *a, struct na_head *h);
const struct nk_value *na_logarithm_of(struct na_attention *a, const struct na_rows *r, bool sums);
void na_add_up(struct na_attention *a, struct na_step *s);
/* Of a head, what its rows have of other keys: loaded; where they have nothing, stored; of these rows. */
void na_load_state(struct na_attention *a, struct na_head *h);
void na_store_none(struct na_attention *a, const struct na_head *h);
void na_begin_with_state(struct na_attention *a, struct na_rows *r);

#endif
