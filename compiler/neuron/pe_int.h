/* SPDX-License-Identifier: Apache-2.0 */
/* pe_int.h - private to pe.c, pe_plan.c and pe_parts.c: a product under way. */
#ifndef TCC_NEURON_PE_INT_H
#define TCC_NEURON_PE_INT_H

#include "compiler/neuron/neuron_int.h"

enum { SIDES = 2, CACHED = 48, WEIGHTS = 16, PSUM_BANKS = 8 };

struct cached {
    int side;
    struct nk_tile t;
    const struct nk_value *v, *scale; /* scale: of packed MX numbers; else NULL */
};

struct product {
    struct nk *nk;
    const struct kn_contraction *c;
    int root[SIDES];            /* factors: instructions */
    uint32_t dims[SIDES];       /* outer dims of one factor alone */
    int rows;                   /* whose dim lies on partitions of the result */
    int along, summed;          /* that dim, -1: none; the summed dim on partitions of the factors */
    int64_t chunk[KN_MAX_DIMS]; /* of a dim of the other factor: points at once */
    struct nk_digits digits[KN_MAX_DIMS];
    bool wide; /* multiply float32; else 16 bits */
    int mx;    /* neuron_type of MX numbers that factors are quantised to; -1: none */
    struct cached cache[CACHED], alone; /* alone: one that stays on chip by itself */
    int ncached, next;
    struct nk_panel *panel[SIDES]; /* NULL: none */
    int across;                    /* the dim of the other factor, where there are panels */
    int64_t block;                 /* points of it in a panel */
    int64_t each;                  /* neighbouring rows that a partition has, where results are stored in short runs */
    uint32_t beside;               /* where there are panels: factors' own dims that these have one point of */
    int64_t part;                  /* summed points of a panel, where they come in parts; 0: they don't */
    int turned; /* the factor whose loads are turned over though the other one comes as it may; -1: none */
    struct nk_panel *weights[WEIGHTS];
    int nweights, weight; /* how many fit; the one that goes next */
};

/* pe_plan.c */
/* the one dim among these with more than one point; -1: there is none, or there are several */
int nk_only_dim(const struct nk *nk, uint32_t dims);
bool nk_find_own(struct product *p, int own[SIDES]);                         /* false: a panel would have none */
/* of MX numbers: the other dim of the sum, of those in one element; else none */
uint32_t nk_packed_dims(const struct product *p);
bool nk_plan_product(struct nk *nk, struct product *p);                     /* false: the kernel is none */

/* pe_parts.c */
/* panels of a part of the sum, if they fit */
void nk_find_parts(struct product *p);
void nk_run_parts(struct product *p, int64_t *at);

/* pe_rows.c */
/* Sets p->each, panels being there. */
void nk_find_each(struct product *p);
/* Those of p->each 128 rows that are on chip from base[along] on, by n points of the other factor from base[across]
 * on. */
struct nk_tile nk_each_tile(const struct product *p, const int64_t *base, int64_t n);
void nk_sum_each(struct product *p, const struct nk_tile *t, const struct nk_value *sums);

/* pe.c */
/* The number-th product of two panels, of a tile, into a bank; load: the tensor engine lacks what is stationary. */
void nk_multiply_panels(struct product *p, struct nk_panel *const *panel, int64_t number, const struct nk_tile *t,
                        bool load, struct nk_buffer *bank, const struct neuron_operand *to, bool first);
/* Products of a tile of each factor into a bank; number: of those on the summed dim. */
void nk_multiply_factors(struct product *p, const struct nk_tile *ts, const struct nk_tile *tm, int64_t number,
                         struct nk_buffer *bank, const struct neuron_operand *to, bool first);
struct nk_value *nk_new_sums(struct nk *nk, const struct nk_tile *t);       /* a bank for the sums of a tile */
/* how many tiles' instructions may take turns */
int nk_together(const struct nk *nk);
/* what the kernel makes of the sums of n tiles */
void nk_finish_sums(struct product *p, int n, const struct nk_tile *t, const struct nk_value *const *s);
/* how many rows of the result are made at once, from that one on */
int64_t nk_rows_at(const struct product *p, int64_t row);

#endif
