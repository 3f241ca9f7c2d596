/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_int.h - private to compiler/cuda/: a contraction as a product of tiles, and what multiplies them.
 *
 *     for each tile of bm x bn results:                 rows: dims of one operand alone, cols: of the other; any
 *     number, as one index
 *         for k in steps of bk:                         a ring of `stages` buffers in shared memory: the next tiles are
 *         on their way (ring.c)
 *             tile of rows [bm, bk], of cols [bn, bk]   gathered through the operands' own access maps and guards: a
 *             convolution's too
 *             accumulators += rows x cols               by the engine
 *         results, some rows at a time, through shared memory; the epilogue at each, neighbours stored by neighbours
 *
 * Where results are few and terms many, terms are cut in pieces: a tile is of one piece, its sums go to scratch, and a
 * second function adds the pieces of each result in order and runs the epilogue. The number of pieces depends on the
 * shape alone: the same bits on every machine.
 */
#ifndef TCC_CUDA_CONTRACT_INT_H
#define TCC_CUDA_CONTRACT_INT_H

#include "compiler/cuda/cuda_int.h"

/* TOGETHER: results that a thread stores at once, at most; ROW: bytes of a row of the 128-byte swizzle: of a box along
 * what is consecutive, and of terms */
enum { CT_THREADS = 256, CT_MAX_ACC = 128, CT_ROW = 128, CT_TOGETHER = 4 };

/* A tensor map of a factor; batch[i]: the kernel's dim that dim i of the map is, -1: the terms or the side's own. Of
 * windows: dim i is that of position batch[i], a dim of the side; tap[i] is the dim of its taps, of the channels in dim
 * 0 that of the terms' channels; -1: there is one alone; taps are dilation[i] apart. */
struct ct_map { struct image_map map; int batch[TCC_MAP_RANK], tap[TCC_MAP_RANK], dilation[TCC_MAP_RANK]; };

/* One operand's tile in shared memory. */
struct ct_side {
    uint32_t dims;                   /* of the operand alone */
    int value, load;                 /* instructions: the factor, the load that it is made of */
    enum tcc_dtype type;             /* of the factor: f32, f16, bf16, f8e4m3fn, f8e5m2, i8 or u8 */
    int size;                        /* bm or bn */
    bool along_k;                    /* consecutive along k, else along its last dim */
    int width;                       /* elements that a thread brings at once */
    int pitch;                       /* elements from row to row; a row is along what is consecutive, but for FFMA */
    bool k_rows;                     /* rows are of one k: [bk][size]; else [size][bk] */
    bool copied;                     /* by cp.async, without passing through registers */
    int64_t at, bytes;               /* in the pool: of the first buffer; bytes of one */
    LLVMValueRef count, first;       /* i64: of all, the tile's first */
    struct ct_map map;               /* by which tensor copies bring it */
};

struct ct {
    struct cuda_fn *f;
    struct em *e;
    const struct ct_engine *engine;
    struct ct_side rows, cols;
    uint32_t k, batch;
    int bk;
    int pieces;                      /* of the terms; the sums of each go to scratch */
    LLVMValueRef nk, first, last;    /* i64: all terms; those of this tile's piece */
    /* shared memory; global: where the piece's sums of the tile's batch go, [rows][cols] of f32 */
    LLVMValueRef pool, partial;
    LLVMValueRef acc[CT_MAX_ACC];
    int nacc;
    /* of the threads; those but BOTH where tiles come by tensor copies (tma.c). The next two are theirs */
    enum ct_role { CT_BOTH, CT_MULTIPLIES, CT_SENDS } role;
    int64_t barriers;                /* in the pool: of each buffer `full`, then of each `empty` */
    LLVMValueRef turn;               /* i64: steps of the tiles of results before this one */
    LLVMValueRef rank;               /* i64: of the block in its cluster, which shares rows; NULL: it is alone */
    /* results that a thread stores at once: now, and where vectors lie at multiples of their bytes */
    int together, most_together;
    int64_t own;                     /* in the pool: the warps' own places for results (by_warps) */
    /* else: rows of results that lie in shared memory at once, how often; floats of a row of them */
    int strip, strips, pitch;
};

struct ct_engine {
    int bytes;                                           /* of an element in shared memory */
    bool whole;                                          /* sums are i32, else f32 */
    /* rows of results that lie in shared memory at once; 0: all of the tile */
    int strip;
    bool async_proxy;                                    /* reads shared memory by the async proxy */
    /* a factor as an element; vectors too */
    LLVMValueRef (*element)(struct ct *c, const struct ct_side *s, LLVMValueRef value);
    void (*layout)(struct ct_side *s, int bk);           /* k_rows, pitch */
    /* of an element in a buffer */
    LLVMValueRef (*index)(struct ct *c, const struct ct_side *s, LLVMValueRef row, LLVMValueRef k);
    /* buffer: i64, its number; where tiles are sent, one step stays under way if there is a finish() */
    void (*multiply)(struct ct *c, LLVMValueRef buffer);
    void (*finish)(struct ct *c);                        /* it ends */
    /* strips are of 64 columns of each warp's 16 rows, and go to ct_own_place() */
    bool by_warps;
    /* Puts the accumulators of strip number i there, and tells the row of the tile that row r (i64) of the strip is. */
    void (*put)(struct ct *c, int strip, LLVMValueRef to);
    LLVMValueRef (*row)(struct ct *c, int strip, LLVMValueRef r);
};
extern const struct ct_engine ct_ffma, ct_mma, ct_mma_tf32, ct_mma_bytes, ct_mma_fp8, ct_wgmma, ct_wgmma_fp8;
LLVMTypeRef ct_sum_type(const struct ct *c);
LLVMValueRef ct_element16(struct ct *c, const struct ct_side *s, LLVMValueRef value);    /* element() of f16 and bf16 */
LLVMValueRef ct_element_fp8(struct ct *c, const struct ct_side *s, LLVMValueRef value);  /* of 8-bit floats */

LLVMValueRef ct_at(struct em *e, LLVMValueRef base, LLVMValueRef index, int bytes);      /* base + index * bytes */
/* binds the dims of a set by one index, the last fastest */
void ct_bind(struct em *e, uint32_t dims, LLVMValueRef index);
/* address of a side's buffer of that number */
LLVMValueRef ct_buffer(struct ct *c, const struct ct_side *s, LLVMValueRef buffer);

/* contract.c */
void ct_barrier(struct ct *c);       /* of the threads that multiply */
/* maps.c. The map of factor number `which` of a product, in boxes of `size` of the side; false: it has none. */
struct ct_shape;
bool ct_map_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct ct_shape *s, int which, int size,
               struct ct_map *m);
/* Rows of a copy: the side's, or the block's share of them. */
int ct_share(const struct cuda_schedule *s, bool rows);
/* tma.c */
void ct_begin_copies(struct ct *c);  /* once, by all threads */
void ct_send_all(struct ct *c);      /* by the first warp of those that send: the tile's steps */
void ct_sum_sent(struct ct *c);      /* by those that multiply: the tile's sums in c->acc; the pool is free then */
LLVMValueRef ct_next_tile(struct ct *c);     /* steps of the tiles up to this one, i64 */
void ct_end_copies(struct ct *c, LLVMValueRef sent);     /* once, by all threads; i1: tiles were sent */

/* results.c */
void ct_results(struct ct *c);       /* of the tile */
/* the kernel's other stages at results of a row; value: a vector of them */
void ct_epilogue(struct ct *c, LLVMValueRef row, LLVMValueRef col, LLVMValueRef value);
/* Where a result of the thread's warp lies, by its row of 16 and its column of 64. */
LLVMValueRef ct_own_place(struct ct *c, LLVMValueRef row, LLVMValueRef column);
/* Results that a thread may store at once; align: of operands, where they lie at multiples of that, as cuda_twice() has
 * it, or NULL. */
int ct_together(struct ir_ctx *ctx, const struct kn_kernel *k, uint32_t columns, int *align);
/* Sums of the pieces of results number `result` on, in order; all: results of a piece. */
LLVMValueRef ct_add_pieces(struct ct *c, LLVMValueRef all, LLVMValueRef result, bool whole);

/* ring.c */
bool ct_may_copy(const struct ct *c, const struct ct_side *s);
/* is its value outside its guards zero, as a copy fills it? */
bool ct_zero_outside(const struct kn_kernel *k, const struct kn_insn *load);
void ct_sum(struct ct *c);           /* the tile's sums in c->acc; the pool is free then */

int64_t ct_own_bytes(void);          /* of the warps' own places for results */

/* choose.c. Points of a dim, guessed where symbols decide; how an access moves along dim v: 0, 1 element a point, or
 * -1, another way; `aligned`: in the second case, `width` of them begin at a multiple of it. */
int64_t cuda_extent(const struct kn_kernel *k, int dim);
int cuda_access_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *n, int v, int width,
                   bool *aligned);

/* choose_product.c, and to know again what it chose. False: the kernel is no product that the machine's tiles take. */
bool cuda_choose_product(const struct cuda_machine *m, struct ir_ctx *ctx, struct kn_kernel *k,
                         struct cuda_schedule *s);
/* Pieces of sums of `terms`, of at least `least` each, that give a machine of few tiles more blocks. */
int cuda_choose_split(int64_t tiles, int64_t terms, int64_t least);
struct ct_shape {
    int value[2], load[2];
    bool swap, along_k[2], whole;
    int width[2];
    int bytes;
    enum tcc_dtype type[2];
};
int ct_last_dim(const struct kn_kernel *k, uint32_t dims);      /* the last of a set with more than a point */
/* How the kernel is such a product in a schedule: false: it isn't. type: of the factors as tensor cores take them (f32
 * in tf32 parts), bytes: of an element of those. swap: rows are b's. fp8: 8-bit floats are factors as they are; else
 * they are f16. whole: sums are of i32. */
bool ct_shape_by(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *by, struct ct_shape *s);

#endif
