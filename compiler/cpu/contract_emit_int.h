/* SPDX-License-Identifier: Apache-2.0 */
/* contract_emit_int.h - what contract_emit.c (loops over a tile, packing), contract_micro.c (register tile) and
 * contract_step.c (a step of its sum) share. */
#ifndef TCC_CPU_CONTRACT_EMIT_INT_H
#define TCC_CPU_CONTRACT_EMIT_INT_H

#include "compiler/cpu/contract_int.h"
#include "compiler/cpu/emit_int.h"

struct cg {
    struct em *e;
    struct ct c;
    int mr, cv;                      /* full register tile: rows, vectors of columns */
    int lanes;
    bool aligned;                    /* lanes of columns start at multiples of `lanes` */
    LLVMTypeRef elem, vec;           /* of products and sums */
    /* that addresses and strides of A and B count in: elem, or with depth i16 (bf16, f16), i8 (bytes) */
    LLVMTypeRef unit;
    int per_step;                    /* units that a step of the sum takes of each row or column: c.depth */
    int packed_step;                 /* of each row of packed A: twice that in halves */
    LLVMValueRef packed_a, packed_b; /* in scratch, or NULL */
    ir_expr a_ld;                    /* elements between packed rows of A */
    struct em_range rows;            /* of this tile (collapsed numbering), or of one group of them */
    LLVMValueRef packed_row;         /* the row that packed_a starts with */
    LLVMValueRef mask[CPU_TILE_VECTORS]; /* per vector of the current column tile: lanes that exist, or NULL: all */
    /* c.columns_first: of each vector of the column tile what shifted bytes of A make too little, negated; else NULL */
    LLVMValueRef less[CPU_TILE_VECTORS];
    bool *by_row;                    /* per instruction of the later stages: differs between rows of a column */
    bool joined;                     /* they have functions, and run on several vectors at a time */
    bool by_passes;
    int padding;                     /* vectors behind the current column tile that pad it: stored, not summed */
    struct em_range sum;             /* by_passes: points of the sum's outermost loop that this pass takes */
    ir_expr sum_begun;               /* symbol: > 0 when an earlier pass has stored the sum so far */
    int epilogue_cost;               /* rough number of vector instructions per accumulator */
};

/* One register tile: rows r0 .. r0+mr-1, columns x .. of cv vectors. start: the constant value of r0 where taps are
 * unrolled for their row ranges; CG_ALL_ROWS: all rows take part in every step; CG_ONE_ROW: mr is 1, and the row's
 * guards bound the loops of the sum; CG_FIRST_ROWS, CG_LAST_ROWS, CG_BOTH_ROWS: taps are unrolled, and the rows are the
 * first ones of late_rows, or the last, or all of them. */
enum { CG_ALL_ROWS = -1, CG_ONE_ROW = -2, CG_FIRST_ROWS = -3, CG_LAST_ROWS = -4, CG_BOTH_ROWS = -5 };
void cg_micro(struct cg *g, LLVMValueRef x, LLVMValueRef r0, int mr, int cv, int64_t start);
/* The later stages on the sums of mr rows, from r0 on, by cv vectors of columns (contract_epilogue.c). */
void cg_epilogue(struct cg *g, LLVMValueRef x, LLVMValueRef r0, int mr, int cv, LLVMValueRef *acc);
/* g->less of the column tile that starts at x */
void cg_column_sums(struct cg *g, LLVMValueRef x, int cv);
void cg_bind_row(struct cg *g, LLVMValueRef row);
void cg_bind_column(struct cg *g, LLVMValueRef x);           /* first lane's dims */
/* lanes are the c-th vector of the column tile that starts at x */
void cg_column_lanes(struct cg *g, LLVMValueRef x, int c);
/* Binds the kernel dims of the sum from their parts' current trips (part[i] belongs to ks[i]); of the innermost group,
 * point `which`. */
void cg_bind_k(struct cg *g, const LLVMValueRef *part, int which);
LLVMValueRef cg_gep(struct cg *g, LLVMValueRef base, LLVMValueRef elements);
LLVMValueRef cg_gepc(struct cg *g, LLVMValueRef base, int64_t elements);
/* Transposes the square that the first `lanes` vectors hold (f32; 4, 8 or 16 lanes). */
void cg_transpose(struct cg *g, LLVMValueRef *v);
/* Are later stages of a register tile of mr rows run on vectors of rows (ct.crossed)? These stages. */
bool cg_crosses(const struct cg *g, int mr);
void cg_crossed_epilogue(struct cg *g, LLVMValueRef x, LLVMValueRef r0, int mr, const LLVMValueRef *acc);
/* contract_pack.c. The columns x .. x_end, of cv vectors a tile, of B; all rows of A. */
void cg_pack_b(struct cg *g, LLVMValueRef x, LLVMValueRef x_end, int cv);
void cg_pack_a(struct cg *g);
/* Emits the value of stage 0's instruction i for the dims as they are bound. */
LLVMValueRef cg_operand_value(struct cg *g, int i);
/* Loops over the first n of the sum's dims; returns the number of the trip in the packed order. */
LLVMValueRef cg_k_loops_begin(struct cg *g, struct em_loop *l, int n, LLVMValueRef *part);
void cg_k_loops_end(struct cg *g, struct em_loop *l, int n);

/* Is packed A 128 less, as signed bytes? */
static inline bool cg_packs_signed(const struct cg *g) { return g->c.packs_signed && em_cpu(g->e)->dot_bytes_signed; }
/* contract_dot.c: products, several of them a step. */
LLVMValueRef cg_dot_load(struct cg *g, LLVMValueRef p, int lanes, int operand);    /* raw groups: i32 */
/* acc + the products of a step, of a vector of A's values and one of B's. `shifted`: their bytes are all signed. */
LLVMValueRef cg_product(struct cg *g, bool shifted, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc);
/* The same of the one value in that lane of a. */
LLVMValueRef cg_lane_product(struct cg *g, bool shifted, LLVMValueRef a, int lane, LLVMValueRef b, LLVMValueRef acc);
/* The even (which: 0) or the odd bytes of each of B's groups in 16 bits. */
LLVMValueRef cg_dot_half(struct cg *g, LLVMValueRef b, int which);
/* Squares: two rows of A side by side, zero for one that takes no part; acc + their products by a vector of B's
 * columns. `first`, `second`: their addresses, or NULL. */
struct cg_pair { LLVMValueRef rows; bool there[2]; };
struct cg_pair cg_load_pair(struct cg *g, LLVMValueRef first, LLVMValueRef second);
LLVMValueRef cg_square_product(struct cg *g, const struct cg_pair *a, LLVMValueRef b, LLVMValueRef acc);
/* Sums of mr rows (an even number) by cv vectors of columns, in squares, become rows. */
void cg_square_rows(struct cg *g, int mr, int cv, LLVMValueRef *acc);
/* Pairs of a step's f16 and the next one's, of a vector of columns. The sum with the product of that lane of a's pairs
 * and a step's f16, of twice as many columns; its lower (which: 0) or upper columns as c.dtype. */
LLVMValueRef cg_pairs_of(struct cg *g, LLVMValueRef first, LLVMValueRef second);
LLVMValueRef cg_apart_product(struct cg *g, LLVMValueRef a, int lane, LLVMValueRef b, LLVMValueRef acc);
LLVMValueRef cg_apart_total(struct cg *g, LLVMValueRef sums, int which);
bool cg_half_sums(const struct cg *g);                                  /* are sums in f16? */
LLVMTypeRef cg_dot_sums(struct cg *g, bool pairs);                      /* what cg_product adds to */
LLVMValueRef cg_dot_total(struct cg *g, LLVMValueRef sums);             /* such sums in lanes of c.dtype */
LLVMValueRef cg_dot_of(struct cg *g, int value, const LLVMValueRef *part);         /* of all points of part[last] */
void cg_dot_pack_a(struct cg *g);

/* base + index * stride elements, stride constant or symbolic. */
LLVMValueRef cg_step(struct cg *g, LLVMValueRef base, LLVMValueRef index, int64_t stride, ir_expr symbolic);

#endif
