/* SPDX-License-Identifier: Apache-2.0 */
/* attention_emit_int.h - what the code of a tile of attention stands on: attention_read.c brings its operands in, and
 * attention_emit.c computes with them. */
#ifndef TCC_CPU_ATTENTION_EMIT_INT_H
#define TCC_CPU_ATTENTION_EMIT_INT_H

#include "compiler/cpu/attention_int.h"
#include "compiler/emit/emit.h"

struct ag {
    struct em *e;
    struct at a;
    struct at_scratch at;
    LLVMValueRef scratch;
    LLVMTypeRef vec;
    LLVMValueRef lo, hi, rows; /* of the tile; rows: their number */
    LLVMValueRef nkeys;        /* keys that any row of the tile looks at */
    bool single;               /* all keys are one block: nothing to correct */
    bool one_row;              /* the tile is one row, as a decoder's is: see row_scores() */
};

static inline LLVMValueRef ag_add(struct ag *g, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildAdd(g->e->b, a, b, "");
}

static inline LLVMValueRef ag_times(struct ag *g, LLVMValueRef a, int64_t n)
{
    return LLVMBuildMul(g->e->b, a, em_i64(g->e, n), "");
}

static inline LLVMValueRef ag_element(struct ag *g, LLVMValueRef base, LLVMValueRef i)
{
    return LLVMBuildGEP2(g->e->b, g->e->t_f32, base, &i, 1, "");
}

static inline LLVMValueRef ag_part(struct ag *g, int64_t at)
{
    return ag_element(g, g->scratch, em_i64(g->e, at));
}

static inline LLVMValueRef ag_load(struct ag *g, LLVMValueRef p, int lanes)
{
    return em_load(g->e, TCC_F32, p, lanes, NULL, NULL, -1);
}

static inline void ag_store(struct ag *g, LLVMValueRef p, LLVMValueRef v)
{
    em_store(g->e, TCC_F32, p, v, NULL, -1);
}

LLVMValueRef ag_pieces(struct ag *g, LLVMValueRef n, int64_t unit); /* ceil(n / unit) */
void ag_bind_dim(struct ag *g, int dim, LLVMValueRef v);            /* nothing where the kernel has no such dim: -1 */
void ag_bind_row(struct ag *g, LLVMValueRef r);                     /* row r of the tile, or its last one */
/* An instruction's value in all lanes, its stage's instructions computed for the dims as they are bound. */
LLVMValueRef ag_value(struct ag *g, int i);
/* What is emitted is for a vector of points along the dim, from `first` on; mask NULL: all exist. */
void ag_lanes_along(struct ag *g, int dim, LLVMValueRef first, LLVMValueRef mask);
void ag_no_lanes(struct ag *g);
/* Lanes that exist of a vector at `first` of `n` elements, both constant; NULL: all. */
LLVMValueRef ag_const_mask(struct ag *g, int64_t first, int64_t n);

bool ag_keys_are_lanes(struct ag *g); /* are k's elements at consecutive addresses along the keys? */
/* q of the tile's rows; k of keys [t0, t0 + n), transposed in panels; v of those, unless it is read where it lies. */
void ag_take_queries(struct ag *g);
void ag_take_keys(struct ag *g, LLVMValueRef t0, LLVMValueRef n);
void ag_take_values(struct ag *g, LLVMValueRef t0, LLVMValueRef n);

#endif
