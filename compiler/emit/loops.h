/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loops.h - parts of plain loop nests: segments of a vector dim, and accumulators.
 */
#ifndef TCC_EMIT_LOOPS_H
#define TCC_EMIT_LOOPS_H

#include "compiler/emit/emit.h"

/* A dim run in lanes is cut into segments: whole wide vectors, whole vectors, then a tail: masked vectors where the
 * machine has masks, else single points. */
#define LOOPS_MAX_SEGMENTS 3
struct loops_segment { int lanes; bool masked; };
struct loops_segments { int n; struct loops_segment at[LOOPS_MAX_SEGMENTS]; };
/* The segments that some count of points can need. counts: the possible numbers of points, ncounts 0: any. */
struct loops_segments loops_segments(const struct em *e, int width, int unroll, int ncounts, const int64_t *counts);
/* Runs body(user, segment) over the points r of `dim` with its variable bound and lanes set, then restores scalar
 * context. */
void loops_run_segments(struct em *e, const struct loops_segments *s, int dim, struct em_range r,
                        void (*body)(void *, int), void *user);

/* Accumulators of one stage's reductions in one vector context (stack slots, which LLVM turns into registers). */
struct loops_acc {
    int insn, lanes;
    /* a maximum or minimum whose position this instruction of the stage finds: it holds the value; -1: none */
    int position_of;
    LLVMValueRef value, position, total;
    LLVMValueRef extreme;        /* of a position, once there is a result */
};
void loops_acc_init(struct em *e, struct loops_acc *a, int insn, int lanes);
/* A sum of floats that is taken in parts: `total` has the sum of those that have ended. */
bool loops_in_parts(const struct kn_insn *n);
void loops_acc_parts(struct em *e, struct loops_acc *a);
void loops_acc_end_part(struct em *e, struct loops_acc *a);
/* Combines the instruction's argument (and position) at the current point; sets e->value of RUNNING instructions. */
void loops_acc_step(struct em *e, struct loops_acc *a);
/* The accumulator's value, and position (NULL: it has none); another one's combined with it. */
void loops_acc_get(struct em *e, struct loops_acc *a, LLVMValueRef *value, LLVMValueRef *position);
void loops_acc_set(struct em *e, struct loops_acc *a, LLVMValueRef value, LLVMValueRef position);
void loops_acc_merge(struct em *e, struct loops_acc *a, LLVMValueRef value, LLVMValueRef position);
/* The value over all points: `n` accumulators of one instruction; lanes are folded when `fold` (lanes ran along the
 * reduced dim). */
LLVMValueRef loops_acc_result(struct em *e, struct loops_acc *a, int n, bool fold);
/* The result of accumulator i of a stage's, those before it having theirs: all[j] is the first of n accumulators of
 * reduction j, each `stride` long. */
LLVMValueRef loops_acc_extreme(const struct loops_acc *all, int stride, int i);
/* The other outer dim along which some load is consecutive, when lanes along v would gather it; -1: none. */
int loops_transpose_dim(struct ir_ctx *ctx, const struct em_machine *m, const struct kn_kernel *k, int v, int width);
/* Is instruction i then a load that is consecutive along that one (or of a sum that is taken along it)? */
bool loops_transposes(struct ir_ctx *ctx, const struct em_machine *m, const struct kn_kernel *k, int i, int v,
                      int width);
/* A stage at the outer point, or the vector of them, that is set. */
void loops_run_stage(struct em *e, const struct kn_stage *s);
/* The tile's points of that dim, for the lanes that are set: blocks of W x W in registers, then point(user, 0) by
 * itself. */
void loops_run_transposed(struct em *e, int u, const struct em_tiles *t, int lanes,
                          void (*point)(void *user, int segment), void *user);
/* The outer dim of few points between which stores alternate when u is in lanes; -1: none. Its points, at the lanes
 * that are set. */
int loops_interleave_dim(struct ir_ctx *ctx, const struct kn_kernel *k, int u, int width);
void loops_run_interleaved(struct em *e, int v);
/* Stores the values of n points, 1, 2 or 4 vectors or elements, in turns, from where `store` says for the first. */
void loops_store_in_turns(struct em *e, const struct kn_insn *store, const LLVMValueRef *part, int n,
                          LLVMValueRef mask);
/* Points of an inner dim that a stage runs along: those of the piece in the first phase of a split kernel. */
struct em_range loops_bounds(struct em *e, int dim);
bool loops_is_reduction(const struct kn_insn *n);
/* The outer dim of which nest.rows points run side by side; -1: one after the other, as of kernels that are more than
 * sums and what becomes of them. */
int loops_row_dim(const struct kn_kernel *k, struct em_nest nest);
int loops_local_lanes(const struct kn_kernel *k, struct em_nest nest);   /* lanes of elements of local operands */
bool loops_folds(const struct kn_insn *n);                               /* REDUCE, ARGREDUCE */

#endif
