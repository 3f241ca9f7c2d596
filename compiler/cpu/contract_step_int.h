/* SPDX-License-Identifier: Apache-2.0 */
/* contract_step_int.h - the sum of a register tile: its loops (contract_micro.c, contract_unroll.c), its steps
 * (contract_step.c). */
#ifndef TCC_CPU_CONTRACT_STEP_INT_H
#define TCC_CPU_CONTRACT_STEP_INT_H

#include "compiler/cpu/contract_emit_int.h"

/* State while one register tile's sum is emitted. */
struct sum {
    struct cg *g;
    int mr, cv;
    int64_t start;  /* constant first row, or CG_ALL_ROWS, CG_ONE_ROW */
    int64_t row_sa; /* element stride of rows in A; CT_DYN: row_value */
    LLVMValueRef row_value;
    int64_t vec_off[CPU_TILE_VECTORS]; /* element offset in B of each vector */
    int64_t sa[CT_MAX_K], sb[CT_MAX_K];
    ir_expr ea[CT_MAX_K], eb[CT_MAX_K];
    int64_t tap[CT_MAX_K];
    LLVMValueRef at[CT_MAX_K];       /* where loops of the sum stand */
    int part_level;                  /* loop that parts of the sum are cut from, -1: none */
    int64_t part;                    /* its points a part */
    LLVMValueRef acc[CPU_TILE_SUMS]; /* row * cv + vector */
    /* A's unsigned bytes are taken as signed ones, 128 less; of each vector of B what that makes too little, negated:
     * it is summed here, or all that is (A is -128) */
    bool shifted, sums_less, only_less;
    bool pairs; /* sums have two lanes for each of the result's */
    bool apart; /* of f16: the sums of two vectors of columns are one, of 16 bits a column */
    LLVMValueRef less[CPU_TILE_VECTORS];
    /* Prefetch of the columns that come next, or NULL: `fetch` is an address among them, advanced by as much as b is
     * ahead of b_start, shifted right by fetch_shift; fetch_lines lines each time, fetch_gap bytes apart. */
    LLVMValueRef fetch, b_start;
    int fetch_shift, fetch_lines;
    int64_t fetch_gap;
};

/* One step of the sum for those rows; the i-th of steps along a level; several, of each row one load of A, whose lanes
 * they take one after the other. */
void cg_sum_step(struct sum *s, LLVMValueRef a, LLVMValueRef b, struct em_span rows);
void cg_sum_step_at(struct sum *s, int level, LLVMValueRef a, LLVMValueRef b, int64_t i, struct em_span rows);
void cg_sum_steps_by_lane(struct sum *s, LLVMValueRef a, LLVMValueRef b, struct em_span rows);

/* contract_unroll.c. Steps of which no loop is made: more only gives the scheduler room to spill. Those that a turn of
 * a longer loop takes. Would steps that come together spill, so that each stands alone in its loop? */
int cg_few_steps(const struct sum *s);
int cg_unroll(const struct sum *s);
bool cg_crowded(const struct sum *s);
/* Sets what `fetch` needs, for the rows from r0 on and B's columns at b; at a step's b: brings the lines. */
void cg_start_fetch(struct sum *s, LLVMValueRef r0, LLVMValueRef b);
void cg_fetch(struct sum *s, LLVMValueRef b);

#endif
