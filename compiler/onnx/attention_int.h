/* SPDX-License-Identifier: Apache-2.0 */
/* attention_int.h - what op_attention.c (ONNX's attention) and op_contrib_attention.c, op_contrib_cache.c (ONNX
 * Runtime's) share. */
#ifndef TCC_ONNX_ATTENTION_INT_H
#define TCC_ONNX_ATTENTION_INT_H

#include "compiler/onnx/import_int.h"

/* [b, s, heads * d] -> [b, heads, s, d]; x of other ranks as it is. */
struct ir_value *imp_split_heads(struct imp *im, struct ir_value *x, int64_t heads);
/* [b, heads, s, d] -> [b, s, heads * d] */
struct ir_value *imp_join_heads(struct imp *im, struct ir_value *x);
/* Every key-value head serves `times` query heads that follow each other; `all` of them there are. */
struct imp_heads { ir_expr times, all; };
struct ir_value *imp_repeat_heads(struct imp *im, struct ir_value *x, const struct imp_heads *h);
/* Of open sizes it is a fact that they are whole multiples; false after a message. */
bool imp_head_ratio(struct imp *im, const struct ir_value *q, const struct ir_value *k, struct imp_heads *h);
/* `given`, or where that is 0 1 / sqrt(head size), which may be symbolic; the square root of it when both factors are
 * scaled. */
struct ir_value *imp_head_scale(struct imp *im, const struct ir_value *q, double given, bool half);
/* cap * tanh(x / cap); x where cap is 0. */
struct ir_value *imp_softcap(struct imp *im, struct ir_value *x, double cap);
/* x [b, h, s, d] turned by angles whose cosines and sines are [b or 1, 1, s, half]: the first `turned` elements of d
 * (NULL: all), as halves or as interleaved pairs. */
struct ir_value *imp_rotate(struct imp *im, struct ir_value *x, struct ir_value *cosine, struct ir_value *sine,
                            ir_expr turned,
                            bool interleaved);
/* What an attribute says of them; NULL: nothing. */
ir_expr imp_turned(struct imp *im);

/* One attention of ONNX Runtime's (op_contrib_attention.c). q [b, h, s, d], k [b, hk, t, d], v [b, hk, t, dv]; h is a
 * multiple of hk. */
struct contrib_attention {
    struct ir_value *q, *k, *v;
    struct ir_value *bias;       /* added to the scores, broadcasts to [b, h, s, t]; NULL: none */
    struct ir_value *sink;       /* [h]: one more key per head that has this score and no value; NULL: none */
    double scale, softcap;       /* 0: 1 / sqrt(d); none */
    struct ir_value *scores, *weights;   /* results: before and after the softmax */
};

/* [b, s, h * dv] in the dtype of q; computed in f32 at least. NULL after a message. */
struct ir_value *contrib_attend(struct imp *im, struct contrib_attention *a);
/* a->bias += v, where v is not NULL. */
bool contrib_add_bias(struct imp *im, struct contrib_attention *a, struct ir_value *v);
/* Adds `filter` where `allowed` (bool) is false. */
bool contrib_mask(struct imp *im, struct contrib_attention *a, struct ir_value *allowed, double filter);
/* Angles of positions (i64 [b or 1, s]) from caches [n, half], for imp_rotate. */
struct ir_value *contrib_angles(struct imp *im, struct ir_value *cache, struct ir_value *positions);
/* Rows [b or 1, 1, s, 1] of `now` written into `past` [b, h, p, d], made longer to hold `rows` of them. */
struct ir_value *contrib_write_cache(struct imp *im, struct ir_value *past, struct ir_value *now,
                                     struct ir_value *rows, ir_expr size);

#endif
