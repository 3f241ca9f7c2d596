/* SPDX-License-Identifier: Apache-2.0 */
/*
 * range.h - half-open ranges [lo, hi) with lo <= hi by construction, of values of the run; of numbers that are known
 * when compiling: span.h. Loops take nothing else, edges and tiles are cut from one range; so what is shorter than a
 * window can't have edges that overlap, nor a loop a rest in front of its beginning. No code is made where both ends
 * are known.
 */
#ifndef TCC_EMIT_RANGE_H
#define TCC_EMIT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/emit/span.h"
#include "compiler/llvm_int.h"

struct em;

/* `end` is hi as it was asked for, which may lie in front of lo: a loop over the range ends there as well, at no cost.
 * Others read lo and hi. */
struct em_range { LLVMValueRef lo, hi, end; };
struct em_edges { struct em_range first, inner, last; };
struct em_parts { struct em_range whole, rest; };

struct em_range em_range(struct em *e, LLVMValueRef lo, LLVMValueRef hi);      /* hi becomes lo where it is less */
struct em_range em_below(struct em *e, LLVMValueRef size);                     /* [0, size); sizes are never negative */
/* of its tiles, the number-th; it has so many */
struct em_range em_tile(struct em *e, struct em_range r, LLVMValueRef number, LLVMValueRef width);
/* n points from `at` on, which lies in r, or as many as r has */
struct em_range em_first(struct em *e, struct em_range r, LLVMValueRef at, LLVMValueRef n);
struct em_range em_scale(struct em *e, struct em_range r, LLVMValueRef n);      /* where each point is n, a size */
/* what lies in both; inside r where that is nothing */
struct em_range em_cut(struct em *e, struct em_range r, struct em_range by);
/* The first n points, the last ones, and what is between; where r has fewer, the first come first. */
struct em_edges em_peel(struct em *e, struct em_range r, LLVMValueRef first, LLVMValueRef last);
/* as many whole tiles as there are, and the rest */
struct em_parts em_tiles(struct em *e, struct em_range r, int64_t width);
/* what of each lies in `by`; inside it where that is nothing */
struct em_edges em_edges_cut(struct em *e, struct em_edges r, struct em_range by);
/* nothing, at the end, where `done` holds (i1); NULL: never */
struct em_edges em_edges_unless(struct em *e, LLVMValueRef done, struct em_edges r);
LLVMValueRef em_length(struct em *e, struct em_range r);
LLVMValueRef em_least(struct em *e, LLVMValueRef a, LLVMValueRef b);           /* of two signed i64 */
LLVMValueRef em_most(struct em *e, LLVMValueRef a, LLVMValueRef b);
bool em_known(LLVMValueRef v, int64_t *n);                                     /* is it a number? */

#endif
