/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_int.h - contractions (matrix products and convolutions) as one loop nest, shared by the schedule and the
 * code.
 *
 * A kernel with a contraction is seen as
 *
 *     for batch, extra n, extra m dims:                       loops over kernel dims
 *       for column tiles, for row tiles:                      rows: one m dim (or several, collapsed); columns: n in
 *       vectors
 *         acc[mr][cv] = sum over k steps of splat(A[row, k]) * B[k, column vector]
 *         stage 1.. of the kernel on acc
 *
 * Columns are numbered x = 0 .. extent of n. With `block` dims (channel-blocked tensors) x = block_dim * width +
 * lane_dim; the lanes of a vector always run along `vec`. B's element offset of column x is (x div panel) *
 * panel_stride + x mod panel beside what its other indexes add: packed matrices (panel = NR) and blocked weights (panel
 * = 16) look the same, as does a row-major B (no panel). Strides come from the linear form of the flattened index
 * expressions, never from op names.
 */
#ifndef TCC_CPU_CONTRACT_INT_H
#define TCC_CPU_CONTRACT_INT_H

#include "compiler/cpu/cpu_int.h"
#include "compiler/emit/range.h"

#define CT_MAX_K 8
#define CT_MAX_GUARDS 8
#define CT_DYN INT64_MIN             /* a stride or extent that isn't a constant */

/* A loop of the sum: a kernel dim, or one part of a dim that is split (dim = high part * scale + low part). */
struct ct_k {
    int dim;                         /* kernel dim */
    int64_t scale;                   /* what one point adds to the kernel dim */
    int64_t step;                    /* points per trip: 1, or as many as a step takes neighbours (depth) */
    ir_expr var, extent;             /* var: stands for this loop in expressions; extent: trips */
    int64_t n;                       /* extent, or CT_DYN */
    ir_expr ea, eb;                  /* element strides */
    int64_t sa, sb;                  /* the same as constants, or CT_DYN */
    /* the low part of a dim whose last block is not full: trips in that block, of the loop over blocks; else 0 */
    int64_t last;
    bool unroll;                     /* a row guard depends on it: taps are unrolled in edge tiles */
};

/* lo <= e < hi on A's load. Row guards hold the row dim and become static row ranges per tap; the others hold one
 * loop of the sum and become that loop's bounds. */
struct ct_guard {
    ir_expr lo, hi, rest;            /* e = row_coef * row + k_coef * k + rest */
    int64_t row_coef, k_coef;
    int k;                           /* number in ks, -1: none */
};

struct ct {
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    enum tcc_dtype dtype;            /* of the products and sums */
    int load_a, load_b;              /* instructions */
    int val_a, val_b;                /* the product's operands */
    bool chain_a, chain_b;           /* something is computed between load and product */
    /* contract_dot.c: neighbours along the sum that a step takes together: 2 of bf16 or f16, 4 of bytes; twice as many
     * in squares; else 1 */
    int depth;
    bool square;                     /* products are of two rows by two columns; vectors of B have half the columns */
    int dot_a, dot_b;                /* the small values that the product's operands are casts of; -1: none */
    ir_expr dot_n;                   /* points of the innermost loop, whose last group may lack some; NULL: none does */
    bool a_by_k;                     /* packed A: rows side by side for each step of the sum */
    bool halves;                     /* packed A: of each group of four bytes the even ones, then the odd, in 16 bits */
    /* B of f16: columns of a step lie side by side, then, or in memory ks[nks - 1].sb / 2 on, those of the next one;
     * else a column's pairs do */
    bool unpaired;
    ir_expr off_a, off_b;            /* flattened element offsets, split dims substituted */
    /* Rows. */
    int row;                         /* kernel dim, -1: none (one row) */
    uint32_t collapsed;              /* m dims that run inside the row loop: rows = their product */
    ir_expr rows;                    /* number of rows: extent of row, or the product of the collapsed dims' */
    int64_t nrows;                   /* or CT_DYN */
    int64_t row_sa;                  /* element stride of a row in A, or CT_DYN */
    ir_expr row_ea;
    int64_t period;                  /* > 0: B is the same for so many rows only (groups): register tiles divide it */
    /* Columns. */
    int vec, block;                  /* kernel dims; block: -1: none */
    int64_t width;                   /* columns per point of `block`; 0: none */
    ir_expr cols;                    /* number of columns */
    int64_t ncols;                   /* or CT_DYN */
    int64_t live;                    /* those behind, whole vectors, pad the last block: zeros, without a sum */
    int64_t panel, panel_stride;     /* 0, 0: none */
    int64_t vec_sb;                  /* B's stride along columns inside a panel: 1, or B is packed on the fly */
    ir_expr vec_eb;
    uint32_t columns;                /* n dims that run inside the column loop, without `block`: like `collapsed` */
    uint32_t extra_m, extra_n, batch;    /* dims with loops of their own */
    int nks;
    struct ct_k ks[CT_MAX_K];        /* outermost first */
    bool unpadded;                   /* a dim is split whose last block, not full, ends what A or B has */
    int nguards;
    struct ct_guard guards[CT_MAX_GUARDS];
    int nrowguards;
    bool late_rows;                  /* row guards hold symbols: which rows are cut is found out at run time */
    /* late_rows: the guard that the first rows fail, or the last, for taps that are known when compiling */
    int edge;
    bool edge_known[2];              /* is that so of the first rows, of the last? */
    int64_t edge_room;               /* its hi - rest - row_coef * rows, if edge_known[1] */
    /* Decisions that follow from the above and the machine. */
    int lanes;                       /* elements per vector */
    bool pack_a, pack_b;
    int64_t copy_from;               /* rows from which on a B that could be read where it lies is packed; 0: none */
    /* of one vector of columns: so many steps take elements of A that the rows beside read, too, which are loaded once
     * (taps of a row of an image); 0: none */
    int shared;
    int by_lane;                     /* so many steps take their values of A by lane of one vector a row; 0: none */
    bool shifted;                    /* A's unsigned bytes less 128 are multiplied as signed; B's sums make up for it */
    bool packs_signed;               /* .. and packed so */
    bool pairs;                      /* .. to sums of two lanes for each of the result's */
    bool columns_first;              /* .. which many rows share, and nothing is cut off: made once a column tile */
    /* the store whose value is the sum as it is, so that a sum can go on from it; else -1 */
    int resume;
    /* one vector has all columns, of which only so many lie side by side in the result, and behind them those of the
     * next row; 0: none such */
    int crossed;
    ir_expr ksize;                   /* product of the k extents */
    int64_t nk;                      /* or CT_DYN */
};

/* Bytes that a step of the sum takes of a row or a column. */
static inline int ct_step_bytes(const struct ct *c) { return c->square ? 8 : tcc_dtype_bytes(c->dtype); }

/* Rows whose sums are held: pairs in squares. */
static inline int64_t ct_held_rows(const struct ct *c, int64_t rows) { return c->square ? (rows + 1) / 2 * 2 : rows; }

/* Vectors of B are summed beside the rows, as if for one more. */
static inline int ct_summed_row(const struct ct *c) { return c->shifted && !c->columns_first; }

/* contract_sched.c: packs what could be read where it lies, if that is faster. */
void ct_choose_copies(const struct cpu_machine *m, struct ct *c);
/* Fills *c. False: the kernel is not a contraction of a form that the templates take. */
bool ct_analyse(const struct cpu_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k, struct ct *c);

/* Neighbours along the sum that the machine multiplies and adds at once, of the values dot_a and dot_b, if c->square in
 * squares; 1: no more than one. */
int ct_depth(const struct cpu_machine *m, const struct ct *c);
/* Are products and sums of up to CT_HALF_PART steps in f16? With c->depth set. */
bool ct_half(const struct ct *c);
#define CT_HALF_PART 80
/* Are sums of f16 one a column, of each two of cv vectors together, of A's values by lane of 16 bits? Else there is one
 * for each of a pair. */
static inline bool ct_apart(const struct ct *c, int cv) { return c->unpaired && cv % 2 == 0; }
/* With c->depth set, and A and B known to lie so: can they be taken in groups? Settles pack_a, pack_b, unpaired and the
 * innermost loop. */
bool ct_dot(const struct cpu_machine *m, struct ct *c);
/* Is A packed in another form? Sets halves or packs_signed, and pack_a, behind ct_dot(). */
void ct_pack_bytes(const struct cpu_machine *m, struct ct *c);

#define CT_SHORT 9                       /* taps along an axis are fewer */
/* contract_nest.c. Coefficient of sym in e (0 when it isn't there); false when e isn't linear in it. */
bool ct_stride_of(struct ir_ctx *ctx, ir_expr e, ir_expr sym, ir_expr *coef);
bool ct_uses(ir_expr e, ir_expr sym);                                /* e NULL: no */
/* May dim `outer` be run as rows beyond dim `row`, `rows` points of it? Every access must step by rows * row's step. */
bool ct_collapses(const struct ct *c, int outer, int row, ir_expr rows);
/* contract_rows.c. The last m dim that is more than one point, and not of taps that padding cuts if there is another;
 * or -1. The rows; guards of A and of the rows, false: they aren't of a form that the loops take. */
int ct_row_dim(const struct ct *c);
void ct_find_rows(struct ct *c);
/* contract_micro.c. Points of the sum's level-th loop that are added from zero at a time, where loops inside it have
 * `inner` together; 0: all are. */
int64_t ct_part_points(const struct ct *c, int level, int64_t inner);
bool ct_find_guards(struct ct *c);

/* Rows for which all row guards hold when row-guarded loops have the values tap[k]. */
struct em_span ct_row_range(const struct ct *c, const int64_t *tap);

/* Rows for which they hold for every tap. */
struct em_span ct_interior(const struct ct *c);
/* For late_rows: how many of the first rows lack a tap, and how many of the last; of fewer rows than a window has, more
 * than there are. */
void ct_late_cuts(const struct ct *c, ir_expr *first, ir_expr *last);
/* How many of the first rows, or of the last, lack point `tap` of the loop that guard `edge` holds; if
 * edge_known[last]. */
int64_t ct_cut_rows(const struct ct *c, bool last, int64_t tap);

/* Do the rows left after whole blocks of mr share the last block's? Where a tile ends in them alone they can't. */
bool ct_shared_rest(const struct ct *c, int mr);
/* Do mr rows of A read what others of them do in so many steps side by side, as neighbouring pixels by a convolution's
 * taps? `step`, `row`: elements from one to the next. */
bool ct_rows_share(int64_t step, int64_t row, int mr, int64_t steps);

/* Can multiply-adds read B where it lies, so that the sums of few rows take all registers? */
bool ct_b_in_place(const struct cpu_machine *m, const struct ct *c);

/* Cycles of a step of the sum in a register tile of mr rows and cv vectors, about. */
double ct_step_cost(const struct ct *c, int mr, int cv);
/* Leading dimension of a tile's packed A, in elements of the sum: of its rows, or (a_by_k) of its steps. */
ir_expr ct_packed_a_ld(const struct ct *c);

struct em;
void ct_emit(struct em *e);                      /* contract_emit.c */

#endif
