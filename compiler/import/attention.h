/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.h - attention, for front ends: heads, rotation, caches, masks, and two products around a softmax. The
 * passes join them where they can. What the sources' forms set differently is a table in attention.c.
 */
#ifndef TCC_IMPORT_ATTENTION_H
#define TCC_IMPORT_ATTENTION_H

#include "compiler/import/import.h"

/* ONNX's Attention; ONNX Runtime's, and ONNX's FlexAttention; PyTorch's, whose queries come scaled. */
enum imp_attention_form { IMP_ATTENTION_ONNX, IMP_ATTENTION_WIDE, IMP_ATTENTION_ATEN };

struct imp_attention {
    enum imp_attention_form form;
    struct ir_value *q, *k, *v;          /* [b, h, s, d], [b, hk, t, d], [b, hk, t, dv]; h is a multiple of hk */
    struct ir_value *bias;               /* added to the scores, broadcasts to [b, h, s, t]; NULL: none */
    struct ir_value *sink;               /* [h]: one more key per head that has this score and no value; NULL: none */
    double scale, softcap;               /* 0: 1 / sqrt(d); none */
    /* types of the products and of the softmax; TCC_NONE: as the form has it; as the products */
    enum tcc_dtype computed, softmax;
    /* What becomes of the scores in front of the softmax, and of the weights behind it, in words of the source. NULL:
     * nothing. */
    struct ir_value *(*change)(struct imp *im, struct ir_value *x, bool weights, void *context);
    void *context;
    struct ir_value *products, *capped, *scores, *weights; /* results: the last two are before and after the softmax */
};

/* [b, h, s, dv] in the type of v. NULL after a message. */
struct ir_value *imp_attend(struct imp *im, struct imp_attention *a);
/* a->bias += v, where v is not NULL. */
bool imp_attention_bias(struct imp *im, struct imp_attention *a, struct ir_value *v);
/* Adds `filter` where `allowed` (bool) is false. */
bool imp_attention_mask(struct imp *im, struct imp_attention *a, struct ir_value *allowed, double filter);
/* Where queries and keys stand: i64 [s, t] each. `offset`: of the first query (i64; NULL: 0). */
struct imp_places { struct ir_value *query, *key; };
struct imp_places imp_attention_places(struct imp *im, const struct imp_attention *a, struct ir_value *offset);
/* A query looks at keys up to its own place (causal), at no more than `left` in front of it and `right` behind it (-1:
 * any). */
bool imp_attention_reach(struct imp *im, struct imp_attention *a, struct imp_places at, bool causal, int64_t left,
                         int64_t right);
/* Keys from place `end` on (i64, broadcasts to [b, 1, 1, 1]) are hidden. */
bool imp_attention_end(struct imp *im, struct imp_attention *a, struct ir_value *end);

/* Keys or values [b, h, t, d] behind those of earlier calls (NULL: none). `rows` [b or 1, 1, s, 1]: they are written
 * into these, and the past is made longer to hold `size`; NULL: they follow. */
struct ir_value *imp_behind_past(struct imp *im, struct ir_value *past, struct ir_value *now, struct ir_value *rows,
                                 ir_expr size);

/* [b, s, heads * d] -> [b, heads, s, d]; x of 4 dims as it is. */
struct ir_value *imp_split_heads(struct imp *im, struct ir_value *x, int64_t heads);
/* [b, heads, s, d] -> [b, s, heads * d] */
struct ir_value *imp_join_heads(struct imp *im, struct ir_value *x);
/* x [.., a + b + c] along the last axis as three. */
bool imp_split_three(struct imp *im, struct ir_value *x, const ir_expr *widths, struct ir_value **part);
/* Every key-value head serves `times` query heads that follow each other; `all` of them there are. */
struct imp_heads { ir_expr times, all; };
struct ir_value *imp_repeat_heads(struct imp *im, struct ir_value *x, const struct imp_heads *h);
/* `given`, or where that is 0 1 / sqrt(head size), which may be symbolic; the square root of it when both factors are
 * scaled. */
struct ir_value *imp_head_scale(struct imp *im, const struct ir_value *q, double given, bool half);

/* The cosines or sines of positions (i64 [b or 1, s]) from a cache [n, half], for imp_rotate; NULL: the cache has them
 * for every token, [b, s, half]. */
struct ir_value *imp_angles(struct imp *im, struct ir_value *cache, struct ir_value *positions);
/* x [b, h, s, d] turned by angles whose cosines and sines are [b or 1, 1, s, half]: the first `turned` elements of d
 * (NULL: all), as halves or as interleaved pairs. */
struct ir_value *imp_rotate(struct imp *im, struct ir_value *x, struct ir_value *cosine, struct ir_value *sine,
                            ir_expr turned, bool interleaved);

#endif
