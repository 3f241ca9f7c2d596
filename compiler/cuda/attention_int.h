/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_int.h - private to compiler/cuda/: attention as one kernel (passes/lower/attention.c makes it), and what multiplies its tiles.
 *
 * A block of 4 warps has 64 rows (queries) of one head, a warp 16 of them with all keys. Keys come in blocks of bn:
 *
 *     q -> shared memory; means = 0, tops = -FLT_MAX, sums = 0
 *     for key blocks:                  v is on its way while scores are computed, the next k while means are
 *         scores = q k                 in registers: R rows x C keys a thread
 *         scale, mask; top' = max(top, scores of the row); p = exp(scores - top'); sum = sum * exp(top - top') + sum of p
 *         means = means * exp(top - top') + p v
 *     means through shared memory; the kernel's last stage at each
 *
 * Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao, "FlashAttention-2", 2023. Keys behind the last one get
 * the score -inf, and so do those that the mask hides: a row that sees none keeps sum 0.
 */
#ifndef TCC_CUDA_ATTENTION_INT_H
#define TCC_CUDA_ATTENTION_INT_H

#include "compiler/cuda/cuda_int.h"
#include "compiler/emit/attention.h"

enum { FA_THREADS = 128, FA_ROWS = 64, FA_MOST_WIDTH = 128, FA_MAX_R = 4, FA_MAX_C = 16, FA_MAX_E = 32 };

/* What a tile of an operand is in shared memory: rows along d or e. */
struct fa_side {
    int value, load;                 /* instructions: the factor, the load that it is made of */
    int row, col;                    /* dims; row -1: there is one */
    int rows, columns, pitch;        /* of the tile, padded; elements from row to row */
    int width;                       /* elements that a thread brings at once */
    int64_t at;                      /* bytes from the pool's start */
};

/* How a kernel is attention for a machine: made by cuda_attention_shape(). */
struct fa_shape {
    struct em_attention r;
    const struct fa_engine *engine;
    enum tcc_dtype dtype;            /* of elements in shared memory: F32, F16 or BF16 */
    int bn;                          /* keys of a block */
    struct fa_side q, k, v;
    int64_t weights, bytes;          /* of the pool: where p lies, where the engine wants it there; all of it */
    int pitch_p, pitch_out;          /* floats from row to row: of p, of the means on their way out */
};

struct fa {
    struct cuda_fn *f;
    struct em *e;
    struct fa_shape s;
    LLVMValueRef pool, lane, warp;   /* shared memory; i64, of the thread */
    LLVMValueRef first, rows, keys;  /* i64: the tile's first row, all rows, all keys */
    /* One stack slot each, which become registers. */
    LLVMValueRef score[FA_MAX_R * FA_MAX_C], mean[FA_MAX_R * FA_MAX_E], top[FA_MAX_R], sum[FA_MAX_R];
};

/* A thread has R rows of its warp's 16 and every 1 / across of the keys and of the means' columns. */
struct fa_engine {
    int r, across;                                                   /* threads that share a row: lanes 0..across - 1 of each such group */
    LLVMValueRef (*row)(struct fa *a, int i);                        /* of its warp's 16, i64 */
    LLVMValueRef (*key)(struct fa *a, int j);                        /* of the block's */
    LLVMValueRef (*column)(struct fa *a, int j);                     /* of the means: pairs or fours of j follow each other */
    int together;                                                    /* how many */
    void (*layout)(struct fa_shape *s, int nd, int ne);              /* the sides' columns and pitches */
    void (*scores)(struct fa *a);                                    /* sets score[] */
    void (*means)(struct fa *a, LLVMValueRef *p);                    /* adds p (as score[]) times v to mean[] */
};
extern const struct fa_engine fa_ffma, fa_mma;

LLVMValueRef fa_shared(struct fa *a, int64_t at, LLVMValueRef row, LLVMValueRef column, int pitch, int bytes);   /* address of an element */
LLVMValueRef fa_get(struct fa *a, LLVMValueRef slot);                /* a float */
/* False: the kernel is none that the template takes. */
bool cuda_attention_shape(struct ir_ctx *ctx, const struct kn_kernel *k, struct fa_shape *s);

#endif
