/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_int.h - private to compiler/cuda/: attention as one kernel (passes/kernel/attention.c makes it), and what
 * multiplies its tiles.
 *
 * A block of 4 warps has 64 rows (queries) of one head (of 8 warps 128), a warp 16 of them with all keys. Keys come in
 * blocks of bn:
 *
 *     q -> shared memory; means = 0, tops = -FLT_MAX, sums = 0
 *     for key blocks:                  the next k and v are on their way, where shared memory has room for two of each
 *         scores = q k                 in registers: R rows x C keys a thread
 *         scale, mask; top' = max(top, scores of the row); p = exp(scores - top'); sum = sum * exp(top - top') + sum of
 *         p means = means * exp(top - top') + p v
 *     means through shared memory; the kernel's last stage at each
 *
 * The blocks whose keys are all there and that no mask of causal attention hides from any row come by themselves,
 * without comparisons.
 *
 * Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao, "FlashAttention-2", 2023. Keys behind
 * the last one get the score -inf, and so do those that the mask hides: a row that sees none keeps sum 0.
 *
 * Few rows with many keys have those in pieces, as many as the shapes say, each a block's (attention_split.c); a second
 * function adds them up (Dao et al., "Flash-Decoding for long-context inference", 2023).
 *
 * Where more columns are summed than a thread has registers for, they come in passes: the tile is run again for each
 * part of them, scores and all.
 *
 * A gradient (attention_grad.c) has 64 rows too, of queries, or, by k and v, of keys, with all columns, which are the
 * others:
 *
 *     q, dy -> shared memory (by k and v: k, v); sums = 0
 *     for column blocks:               of k and v (by k and v: q and dy)
 *         scores = q k, dp = dy v      in registers
 *         p = exp(scale, mask - lse); ds = p (dp - delta): the kernel's own stage. lse and delta of columns come to
 *         shared memory with them by k and v: sums' = sums' + p dy
 *         sums = sums + ds k
 *     sums through shared memory; the kernel's last stages at each
 */
#ifndef TCC_CUDA_ATTENTION_INT_H
#define TCC_CUDA_ATTENTION_INT_H

#include "compiler/cuda/cuda_int.h"

enum {
    FA_THREADS = 128, FA_ROWS = 64, FA_MOST_SUMMED = 192, FA_MOST_GRAD = 128, FA_PART = 128, FA_PART_GRAD = 96,
    FA_MAX_R = 4, FA_MAX_C = 32, FA_MAX_E = 32, FA_MAX_VECTORS = 4
};
#define FA_LOG2_E 1.44269504088896340736
/* of a block's pool: what all machines have; a warpgroup, one thread of which sends */
enum { FA_MOST_BYTES = 99 << 10, FA_SENDING = 128 };
enum { FA_ALIGN = 1024 };                    /* of sides: the pattern of the swizzle */

/* What a tile of an operand is in shared memory: rows along d or e. */
struct fa_side {
    int value, load;                 /* instructions: the factor, the load that it is made of */
    int row, col;                    /* dims; row -1: there is one */
    int rows, columns, pitch;        /* of the tile, padded; elements from row to row */
    int part;                        /* of a side that is summed: columns that one pass sums */
    bool apart;                      /* the tile has those alone */
    LLVMValueRef base;               /* i64: the first of them; NULL: 0, there is one pass */
    int width;                       /* elements that a thread brings at once */
    int64_t at, bytes;               /* from the pool's start; of a buffer */
    LLVMValueRef buffer;             /* i64: bytes to the one that is meant; NULL: 0 */
};

/* A float for each column, of which a gradient's weights are made; or for each row. */
struct fa_vector {
    int load;
    int64_t at;                      /* as above, of columns */
    LLVMValueRef of_row[4];          /* of rows: the thread's */
};

/* How a kernel is attention or a gradient of it for a machine: made by cuda_attention_shape(). */
struct fa_shape {
    bool gradient;
    struct kn_attention r;           /* or */
    struct kn_attention_grad g;
    const struct kn_score *is;       /* of the kernel's roles */
    bool plain;                      /* a score is the product times `scale`, but for what is hidden */
    double scale;
    ir_expr from, to;                /* columns that a row may look at; NULL: from the first, to the last */
    int row, col;                    /* dims: queries (-1: one) and keys; of a gradient by k the other way round */
    const struct fa_engine *engine;
    int rows, threads;               /* of a tile; of a block, but for those that send */
    bool sent;                       /* k and v come by tensor copies (attention_sent.c) */
    int64_t barriers;                /* then: in the pool */
    int ring;                        /* buffers of each column side: 2, or 1 where there is no room */
    struct fa_vector vectors[FA_MAX_VECTORS], row_vectors[FA_MAX_VECTORS];
    int nvectors, nrow_vectors;
    enum tcc_dtype dtype;            /* of elements in shared memory: F32, F16 or BF16 */
    int bn, passes;                  /* keys of a block; over the columns that are summed */
    struct fa_side q, k, v, dy;      /* rows: q, and a gradient's dy; columns: k and v */
    int64_t weights, bytes;          /* of the pool: where p lies, where the engine wants it there; all of it */
    int pitch_p, pitch_out;          /* floats from row to row: of p, of the means on their way out */
};

struct fa {
    struct cuda_fn *f;
    struct em *e;
    struct fa_shape s;
    LLVMValueRef pool, lane, warp;   /* shared memory; i64, of the thread */
    LLVMValueRef first, rows, keys;  /* i64: the tile's first row, all rows, all keys */
    bool wide;                       /* vectors lie at multiples of their bytes */
    bool full;                       /* of the columns that are looked at no row is left out, by any thread */
    /* numbers of the tile's piece of the keys and of the tile, i64; NULL: keys are in one piece */
    LLVMValueRef piece, head;
    /* One stack slot each, which become registers. */
    LLVMValueRef score[FA_MAX_R * FA_MAX_C], mean[FA_MAX_R * FA_MAX_E], top[FA_MAX_R], sum[FA_MAX_R];
    /* where k and v are sent for: weights of the block before, in pairs; i64: blocks of the tiles before */
    LLVMValueRef packed[FA_MAX_R * FA_MAX_C / 2], turn;
    LLVMValueRef score2[FA_MAX_R * FA_MAX_C], mean2[FA_MAX_R * FA_MAX_E];    /* a gradient's */
};

/* A thread has R rows of its warp's 16 and every 1 / across of the keys and of the means' columns. */
struct fa_engine {
    /* threads that share a row: lanes 0..across - 1 of each such group */
    int r, across;
    LLVMValueRef (*row)(struct fa *a, int i);                        /* of its warp's 16, i64 */
    LLVMValueRef (*key)(struct fa *a, int j);                        /* of the block's */
    /* of the means: pairs or fours of j follow each other */
    LLVMValueRef (*column)(struct fa *a, int j);
    int together;                                                    /* how many */
    int (*keys)(int widest, bool gradient);                          /* of a block, by the width of what is summed */
    /* a side's columns and pitch; summed: by means() too */
    void (*layout)(struct fa_side *s, int width, bool summed);
    /* address of a side's element */
    LLVMValueRef (*place)(struct fa *a, const struct fa_side *s, LLVMValueRef row, LLVMValueRef column);
    /* columns that are summed, at most, where there are registers for two buffers' addresses */
    int widest_ring;
    bool async_proxy;                                                /* reads shared memory by the async proxy */
    /* floats behind a row's weights in shared memory, 0: they stay in registers; of a block's keys, where its pool
     * would be too large */
    int pad_p, least;
    /* score[] = the products of the two sides' rows. */
    void (*scores)(struct fa *a, const struct fa_side *rows, const struct fa_side *keys, LLVMValueRef *score);
    /* Adds p (as score[]) times the side's rows to mean[]. */
    void (*means)(struct fa *a, const struct fa_side *values, LLVMValueRef *p, LLVMValueRef *mean);
};
extern const struct fa_engine fa_ffma, fa_mma, fa_wgmma;
/* attention_fragments.c: row(), key() and column(); two floats as a register of the small type */
LLVMValueRef fa_row_of_eight(struct fa *a, int i);
LLVMValueRef fa_pair(struct fa *a, int j);
LLVMValueRef fa_packed(struct fa *a, LLVMValueRef low, LLVMValueRef high);

/* address of an element */
LLVMValueRef fa_shared(struct fa *a, int64_t at, LLVMValueRef row, LLVMValueRef column, int pitch, int bytes);
LLVMValueRef fa_get(struct fa *a, LLVMValueRef slot);                /* a float */
LLVMValueRef fa_larger(struct em *e, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef fa_exponential(struct em *e, LLVMValueRef x);           /* of a score less the row's largest */
LLVMValueRef fa_power(struct em *e, LLVMValueRef x);                 /* 2^x */
/* place() in rows of `pitch` */
LLVMValueRef fa_place(struct fa *a, const struct fa_side *s, LLVMValueRef row, LLVMValueRef column);
int fa_keys(const struct fa *a);             /* of a block, that a thread has */
int fa_columns(const struct fa *a, const struct fa_side *s);         /* of a side's, that it has of means */
void fa_bind(struct fa *a, int dim, LLVMValueRef v);                 /* dim -1: nothing */
void fa_bind_row(struct fa *a, LLVMValueRef row);                    /* of the tile, clipped to what is there */
LLVMValueRef fa_own_row(struct fa *a, int i);                        /* of the tile */
/* Binds column j of this thread of the block that begins at `block`, clipped; i1: is it there? NULL: it is. */
LLVMValueRef fa_bind_column(struct fa *a, int j, LLVMValueRef block);
void fa_bring(struct fa *a, struct fa_side *s, LLVMValueRef first, LLVMValueRef count);         /* a tile on its way */
/* Values of the vectors for row i of the thread and column j of the block, in the places of their loads. */
void fa_set_vectors(struct fa *a, int i, int j, LLVMValueRef block);
/* Runs `block` for the blocks of columns in from..to, of which those in first..last are whole for all rows; with
 * a->full there. */
void fa_columns_in(struct fa *a, LLVMValueRef from, LLVMValueRef first, LLVMValueRef last, LLVMValueRef to,
                   void (*block)(struct fa *a, LLVMValueRef at));
LLVMValueRef fa_round(struct fa *a, LLVMValueRef column, bool up);   /* to a block of columns */
/* attention_wgmma.c. Weights in pairs, as they are operands; with those: means(). */
void fa_pack(struct fa *a, LLVMValueRef *p, LLVMValueRef *packed);
void fa_packed_means(struct fa *a, const struct fa_side *v, const LLVMValueRef *packed, LLVMValueRef *mean);
/* score[] = q k, and, under way until fa_end_means(), a->mean[] += packed v: nothing but these may touch the means and
 * the weights, nor a branch come, before. */
void fa_start_means(struct fa *a, LLVMValueRef *score, const LLVMValueRef *packed);
void fa_end_means(struct fa *a);
/* attention.c. Columns from..to that rows of the tile see; those before `seen` all rows see. Weights of row i of a
 * block: p of it in the places of its scores; what its means are to be multiplied by. Sums to their rows' places and
 * logarithms to memory; means to the kernel's result. */
void fa_key_range(struct fa *a, LLVMValueRef *from, LLVMValueRef *seen, LLVMValueRef *to);
void fa_begin_rows(struct fa *a);
LLVMValueRef fa_weigh(struct fa *a, int i, LLVMValueRef block, LLVMValueRef *p);
void fa_scale_means(struct fa *a, int i, LLVMValueRef by);
void fa_end_rows(struct fa *a);
void fa_each_tile(struct fa *a, void (*run)(struct fa *a));
/* attention_sent.c: the kernel, where the runtime has maps; `other` else, by the threads that multiply. */
void fa_emit_sent(struct fa *a, const int *align, void (*other)(void *user, bool wide));
int64_t fa_barrier_bytes(const struct fa_shape *s);
/* maps.c. Maps of k and v; false: they have none. */
struct ct_map;
bool fa_maps_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct fa_shape *s, struct ct_map *maps);
void fa_barrier(struct fa *a);               /* of the threads that multiply */
void fa_arrived(struct fa *a);               /* what was sent for is there, and what was read has been */
void fa_clear(struct fa *a, LLVMValueRef *slots, int n);
LLVMValueRef fa_part(struct fa *a, const struct fa_side *s);         /* columns of the pass that there are, i64 */
/* the side's column that is that one of the pass */
LLVMValueRef fa_of_part(struct fa *a, const struct fa_side *s, LLVMValueRef column);
/* Means of a side's columns to shared memory; then value `id` is one of them in stage `stage`, once for each row and
 * column of the pass. */
void fa_hand_over(struct fa *a, const struct fa_side *s, LLVMValueRef *mean);
LLVMValueRef fa_sum_place(struct fa *a, LLVMValueRef row, int which);
void fa_finish(struct fa *a, int stage, int id, const struct fa_side *s);
void fa_gradient_tile(struct fa *a);         /* attention_grad.c */
/* attention_split.c. The keys of the tile's piece; its means, sums and maxima to scratch, from where fa_hand_over() and
 * sums have put them. */
void fa_begin_pieces(struct fa *a);
void fa_piece(struct fa *a, LLVMValueRef *from, LLVMValueRef *to);
void fa_keep_piece(struct fa *a);
/* attention_shape.c. The sides that there are, at most four; how many. */
int fa_sides(struct fa_shape *s, struct fa_side **side);
/* False: the kernel is none that the template takes. */
bool cuda_attention_shape(struct ir_ctx *ctx, const struct kn_kernel *k, struct fa_shape *s);

#endif
