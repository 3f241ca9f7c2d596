/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention and what models put around it: Attention, FlexAttention, RotaryEmbedding, TensorScatter, LinearAttention,
 * CausalConvWithState, SwiGLU. Attention is built as two products around a softmax; the passes join them where they
 * can.
 */
#include "compiler/onnx/attention_int.h"
#include "base/mutant.h"

#include <math.h>
#include <string.h>

/* [b, s, heads * d] -> [b, heads, s, d] */
struct ir_value *imp_split_heads(struct imp *im, struct ir_value *x, int64_t heads)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    if (!x || imp_rank(x) != 3)
        return x;
    if (heads < 1)
        return imp_bad(im, "operands with 3 dims need q_num_heads and kv_num_heads"), NULL;
    ir_expr dims[4] = {imp_dim(x, 0), imp_dim(x, 1), ir_const(im->ctx, heads),
                       ir_floordiv(im->ctx, imp_dim(x, 2), ir_const(im->ctx, heads))};
    return imp_transpose(im, imp_reshape(im, x, 4, dims), perm);
}

/* [b, heads, s, d] -> [b, s, heads * d] */
struct ir_value *imp_join_heads(struct imp *im, struct ir_value *x)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    x = imp_transpose(im, x, perm);
    if (!x)
        return NULL;
    ir_expr dims[3] = {imp_dim(x, 0), imp_dim(x, 1), ir_mul(im->ctx, imp_dim(x, 2), imp_dim(x, 3))};
    return imp_reshape(im, x, 3, dims);
}

struct ir_value *imp_repeat_heads(struct imp *im, struct ir_value *x, const struct imp_heads *h)
{
    if (!x || ir_is_value(h->times, 1))
        return x;
    int64_t axis = 2;
    ir_expr wide[5] = {imp_dim(x, 0), imp_dim(x, 1), h->times, imp_dim(x, 2), imp_dim(x, 3)};
    ir_expr dims[4] = {wide[0], h->all, wide[3], wide[4]};
    return imp_reshape(im, imp_expand(im, imp_unsqueeze(im, x, 1, &axis), 5, wide), 4, dims);
}

bool imp_head_ratio(struct imp *im, const struct ir_value *q, const struct ir_value *k, struct imp_heads *h)
{
    struct ir_ctx *c = im->ctx;
    ir_expr all = imp_dim(q, 1), shared = imp_dim(k, 1);
    int64_t a, b;
    *h = (struct imp_heads){ir_const(c, 1), all};
    if (all == shared)
        return true;
    if (!ir_is_const(all, &a) || !ir_is_const(shared, &b)) {
        h->times = ir_floordiv(c, all, ir_max(c, shared, ir_const(c, 1)));
        return imp_assume(im, IR_EQ, ir_mul(c, h->times, shared), all, "heads of the query for those of the key");
    }
    if (b < 1 || a % b)
        return imp_bad(im, "%s query heads for %s key heads", ir_expr_text(c, all), ir_expr_text(c, shared));
    h->times = ir_const(c, MUTANT(129, a / b, 1));
    return true;
}

/* 1 / sqrt(head size), which may be symbolic; sqrt of it when both factors are scaled. */
struct ir_value *imp_head_scale(struct imp *im, const struct ir_value *q, double given, bool half)
{
    int64_t d;
    if (!q)
        return NULL;
    if (given == 0 && ir_is_const(imp_dim(q, 3), &d))
        given = MUTANT(128, 1 / sqrt((double)d), 1 / (double)d);
    if (given != 0)
        return imp_like(im, q, half ? sqrt(given) : given);
    struct ir_value *size = imp_cast(im, imp_dim_value(im, imp_dim(q, 3)), TCC_F32);
    struct ir_value *s = imp_un(im, IR_rsqrt, size);
    return imp_cast(im, half ? imp_un(im, IR_sqrt, s) : s, imp_dtype(q));
}

/* What a query may look at: all of it as an added bias (0 or -inf, and a float mask's values), NULL when there is
 * nothing to add. */
struct bias {
    struct ir_value *q;      /* [b, h, s, d] */
    ir_expr keys;            /* total keys */
    struct ir_value *offset; /* keys before the first query: i64[] or i64[b, 1, 1, 1]; NULL: 0 */
    struct ir_value *value;
};

static bool add_bias(struct imp *im, struct bias *b, struct ir_value *v)
{
    b->value = b->value ? imp_bin(im, IR_add, b->value, v) : v;
    return b->value != NULL;
}

static bool add_allowed(struct imp *im, struct bias *b, struct ir_value *allowed)
{
    struct ir_value *otherwise = imp_like(im, b->q, -INFINITY);
    return add_bias(im, b, imp_select(im, allowed, imp_like(im, b->q, 0), otherwise));
}

/* The mask may be shorter than the keys: what is missing is masked. */
static bool add_mask(struct imp *im, struct bias *b, struct ir_value *mask)
{
    if (!mask)
        return true;
    bool logical = imp_dtype(mask) == TCC_BOOL;
    int r = imp_rank(mask);
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK];
    for (int k = 0; k < r; k++)
        before[k] = after[k] = ir_const(im->ctx, 0);
    if (r && !ir_is_value(imp_dim(mask, r - 1), 1)) {
        after[r - 1] = ir_max(im->ctx, ir_const(im->ctx, 0), ir_sub(im->ctx, b->keys, imp_dim(mask, r - 1)));
        mask = imp_pad(im, mask, logical ? imp_int(im, TCC_BOOL, 0) : imp_like(im, mask, -INFINITY), before, after,
                       "constant");
    }
    if (!mask)
        return false;
    return logical ? add_allowed(im, b, mask) : add_bias(im, b, imp_cast(im, mask, imp_dtype(b->q)));
}

/* Position of the query minus that of the key: i64[.., s, t]. */
static struct ir_value *distance(struct imp *im, const struct bias *b)
{
    ir_expr dims[2] = {imp_dim(b->q, 2), b->keys};
    struct ir_value *right = imp_iota(im, 2, dims, 1, TCC_I64);
    struct ir_value *d = imp_bin(im, IR_sub, imp_iota(im, 2, dims, 0, TCC_I64), right);
    return b->offset ? imp_bin(im, IR_add, d, b->offset) : d;
}

static bool add_positions(struct imp *im, struct bias *b)
{
    int64_t left = imp_i(im, "left_window_size", -1), right = imp_i(im, "right_window_size", -1);
    bool causal = imp_i(im, "is_causal", 0);
    struct ir_value *d = causal || left >= 0 || right >= 0 ? distance(im, b) : NULL;
    if (causal && !add_allowed(im, b, imp_bin(im, IR_ge, d, imp_int(im, TCC_I64, 0))))
        return false;
    if (left >= 0 && !add_allowed(im, b, imp_bin(im, IR_le, d, imp_int(im, TCC_I64, left))))
        return false;
    return right < 0 || add_allowed(im, b, imp_bin(im, IR_ge, d, imp_int(im, TCC_I64, -right)));
}

/* Rows without any key that may be looked at: their probabilities are 0, not NaN. */
static struct ir_value *guarded_softmax(struct imp *im, struct ir_value *scores, struct ir_value *bias)
{
    struct ir_value *p = imp_softmax(im, scores, imp_rank(scores) - 1, false);
    if (!bias || !p)
        return p;
    int64_t last = imp_rank(bias) - 1;
    if (last < 0)
        return p;
    struct ir_value *top = imp_reduce(im, IR_reduce_max, bias, 1, &last, true);
    struct ir_value *chosen = imp_like(im, p, 0);
    return imp_select(im, imp_bin(im, IR_eq, top, imp_like(im, bias, -INFINITY)), chosen, p);
}

struct ir_value *imp_softcap(struct imp *im, struct ir_value *x, double cap)
{
    if (cap <= 0)
        return x;
    struct ir_value *right = imp_like(im, x, cap);
    return imp_bin(im, IR_mul, imp_un(im, IR_tanh, imp_bin(im, IR_div, x, imp_like(im, x, cap))), right);
}

/* Past keys or values in front of the new ones. */
static struct ir_value *with_past(struct imp *im, struct ir_value *past, struct ir_value *now)
{
    struct ir_value *in[] = {past, now};
    return past ? imp_concat(im, 2, in, 2) : now;
}

static bool read_offset(struct imp *im, struct bias *b, struct ir_value *past, struct ir_value *valid)
{
    if (past) {
        b->offset = imp_dim_value(im, imp_dim(past, 2));
    } else if (valid) {
        ir_expr dims[4] = {imp_dim(b->q, 0), ir_const(im->ctx, 1), ir_const(im->ctx, 1), ir_const(im->ctx, 1)};
        struct ir_value *right = imp_dim_value(im, imp_dim(b->q, 2));
        b->offset = imp_bin(im, IR_sub, imp_reshape(im, valid, 4, dims), right);
    }
    return (!past && !valid) || b->offset;
}

static bool add_valid(struct imp *im, struct bias *b, struct ir_value *valid)
{
    if (!valid)
        return true;
    ir_expr one = ir_const(im->ctx, 1), dims[4] = {imp_dim(b->q, 0), one, one, one};
    if (!imp_check_all(im, valid, b->keys, "a sample's number of keys (nonpad_kv_seqlen)"))
        return false;
    struct ir_value *right = imp_reshape(im, valid, 4, dims);
    return add_allowed(im, b, imp_bin(im, IR_lt, imp_iota(im, 1, &b->keys, 0, TCC_I64), right));
}

bool onnx_op_attention(struct imp *im)
{
    struct ir_value *q = imp_tensor(im, 0), *k = q ? imp_tensor(im, 1) : NULL, *v = k ? imp_tensor(im, 2) : NULL;
    struct ir_value *mask = imp_in(im, 3), *past_k = imp_in(im, 4), *past_v = imp_in(im, 5), *valid = imp_in(im, 6);
    struct imp_heads heads;
    int64_t mode = imp_i(im, "qk_matmul_output_mode", 0);
    if (!v)
        return false;
    bool flat = imp_rank(q) == 3;
    if ((!flat && imp_rank(q) != 4) || imp_rank(k) != imp_rank(q) || imp_rank(v) != imp_rank(q) || !past_k != !past_v)
        return imp_bad(im, "Q, K, V with 3 or with 4 dims, and both past_key and past_value or neither are expected");
    enum tcc_dtype dtype = imp_dtype(q);
    q = imp_split_heads(im, q, imp_i(im, "q_num_heads", 0));
    k = with_past(im, past_k, imp_split_heads(im, k, imp_i(im, "kv_num_heads", 0)));
    v = with_past(im, past_v, imp_split_heads(im, v, imp_i(im, "kv_num_heads", 0)));
    if (!q || !k || !v || !imp_head_ratio(im, q, k, &heads))
        return false;
    if ((imp_wants(im, 1) && !imp_out(im, 1, k)) || (imp_wants(im, 2) && !imp_out(im, 2, v)))
        return false;
    struct bias bias = {.q = q, .keys = imp_dim(k, 2)};
    if (!read_offset(im, &bias, past_k, valid) || !add_mask(im, &bias, mask) || !add_positions(im, &bias) ||
        !add_valid(im, &bias, valid))
        return false;
    struct ir_value *scale = imp_head_scale(im, q, imp_f(im, "scale", 0), true);
    struct ir_value *key = imp_bin(im, IR_mul, imp_repeat_heads(im, k, &heads), scale);
    struct ir_value *qk = imp_matmul(im, imp_bin(im, IR_mul, q, scale), key, false, true, dtype), *shown = qk;
    qk = imp_softcap(im, qk, imp_f(im, "softcap", 0));
    shown = mode == 1 ? qk : shown;
    struct ir_value *scores = bias.value ? imp_bin(im, IR_add, qk, bias.value) : qk;
    shown = mode == 2 ? scores : shown;
    if (!scores)
        return false;
    if (imp_attr(im, "softmax_precision"))
        scores = imp_cast(im, scores, imp_dtype_of(im, imp_i(im, "softmax_precision", 1)));
    struct ir_value *p = scores ? guarded_softmax(im, scores, bias.value) : NULL;
    p = p ? imp_cast(im, p, dtype) : NULL;
    shown = mode == 3 ? p : shown;
    struct ir_value *right = p ? imp_repeat_heads(im, v, &heads) : NULL;
    struct ir_value *y = p ? imp_matmul(im, imp_cast(im, p, imp_dtype(v)), right, false, false, TCC_NONE) : NULL;
    return imp_out(im, 0, flat ? imp_join_heads(im, y) : y) && (!imp_wants(im, 3) || imp_out(im, 3, shown));
}

/* A graph attribute with one tensor in and one out, imported where it stands. */
static struct ir_value *modify(struct imp *im, const char *name, struct ir_value *x)
{
    const struct onnx_attr *a = imp_attr(im, name);
    if (!a || !x)
        return x;
    struct ir_value *out[1] = {NULL};
    struct imp_scope scope;
    if (a->type != ONNX_ATTR_GRAPH || a->graph->input_count != 1 || a->graph->output_count != 1)
        return imp_bad(im, "%s must be a graph with one input and one output", name), NULL;
    imp_push_scope(im, &scope);
    imp_bind_name(im, a->graph->inputs[0].name, x);
    bool fine = imp_graph(im, a->graph, out);
    imp_pop_scope(im);
    if (fine && out[0] == &imp_poison) {
        im->refused = true;
        return NULL;
    }
    return fine ? out[0] : NULL;
}

bool onnx_op_flex_attention(struct imp *im)
{
    struct ir_value *q = imp_tensor(im, 0), *k = q ? imp_tensor(im, 1) : NULL, *v = k ? imp_tensor(im, 2) : NULL;
    struct imp_heads heads;
    if (!v)
        return false;
    if (imp_rank(q) != 4 || imp_rank(k) != 4 || imp_rank(v) != 4)
        return imp_bad(im, "Q, K, V with 4 dims are expected");
    if (!imp_head_ratio(im, q, k, &heads))
        return false;
    enum tcc_dtype dtype = imp_dtype(q), wide = dtype == TCC_F64 ? TCC_F64 : TCC_F32;
    if (imp_attr(im, "softmax_precision"))
        wide = imp_dtype_of(im, imp_i(im, "softmax_precision", 1));
    if (wide == TCC_NONE)
        return false;
    struct ir_value *right = imp_cast(im, imp_repeat_heads(im, k, &heads), wide);
    struct ir_value *qk = imp_matmul(im, imp_cast(im, q, wide), right, false, true, TCC_NONE);
    qk = qk ? imp_bin(im, IR_mul, qk,
                      imp_cast(im, imp_head_scale(im, imp_cast(im, q, wide), imp_f(im, "scale", 0), false), wide))
            : NULL;
    qk = modify(im, "score_mod", qk);
    struct ir_value *p = modify(im, "prob_mod", qk ? imp_softmax(im, qk, 3, false) : NULL);
    struct ir_value *y =
        p ? imp_matmul(im, p, imp_cast(im, imp_repeat_heads(im, v, &heads), wide), false, false, TCC_NONE) : NULL;
    return y && imp_out(im, 0, imp_cast(im, y, dtype));
}

/* -- RotaryEmbedding: pairs of elements are rotated by the angle of their position */

static struct ir_value *every_second(struct imp *im, struct ir_value *x, int64_t first, ir_expr half)
{
    ir_expr start[4], size[4], step[4];
    for (int k = 0; k < 4; k++) {
        start[k] = ir_const(im->ctx, k == 3 ? first : 0);
        size[k] = k == 3 ? half : imp_dim(x, k);
        step[k] = ir_const(im->ctx, k == 3 ? 2 : 1);
    }
    return imp_slice(im, x, start, size, step);
}

ir_expr imp_turned(struct imp *im)
{
    int64_t part = imp_i(im, "rotary_embedding_dim", 0);
    return part ? ir_const(im->ctx, part) : NULL;
}

struct ir_value *imp_rotate(struct imp *im, struct ir_value *x, struct ir_value *cosine, struct ir_value *sine,
                            ir_expr turned, bool interleaved)
{
    struct ir_ctx *c = im->ctx;
    if (!x || !cosine || !sine)
        return NULL;
    ir_expr whole = imp_dim(x, 3), none = ir_const(c, 0);
    turned = turned ? turned : whole;
    ir_expr half = ir_floordiv(c, turned, ir_const(c, 2));
    struct ir_value *first = interleaved ? every_second(im, x, 0, half) : imp_slice1(im, x, 3, none, half);
    struct ir_value *second = interleaved ? every_second(im, x, 1, half) : imp_slice1(im, x, 3, half, half);
    struct ir_value *right = imp_bin(im, IR_mul, sine, second);
    struct ir_value *real = imp_bin(im, IR_sub, imp_bin(im, IR_mul, cosine, first), right);
    struct ir_value *other = imp_bin(im, IR_mul, cosine, second);
    struct ir_value *imaginary = imp_bin(im, IR_add, imp_bin(im, IR_mul, sine, first), other);
    struct ir_value *pair[2] = {real, imaginary};
    if (!real || !imaginary)
        return NULL;
    if (interleaved) {
        int64_t axis = 4;
        ir_expr dims[4] = {imp_dim(real, 0), imp_dim(real, 1), imp_dim(real, 2), turned};
        pair[0] = imp_unsqueeze(im, real, 1, &axis);
        pair[1] = imp_unsqueeze(im, imaginary, 1, &axis);
        pair[0] = imp_reshape(im, imp_concat(im, 2, pair, 4), 4, dims);
    } else {
        pair[0] = imp_concat(im, 2, pair, 3);
    }
    if (turned == whole)
        return pair[0];
    pair[1] = imp_slice1(im, x, 3, turned, ir_sub(c, whole, turned));
    return imp_concat(im, 2, pair, 3);
}

/* The cache for every token, as [b, 1, s, half]. */
static struct ir_value *angles(struct imp *im, struct ir_value *cache, struct ir_value *positions)
{
    int64_t axis = 1;
    if (positions)
        cache = imp_gather_row(im, cache, positions);
    return cache && imp_rank(cache) == 3
               ? imp_unsqueeze(im, cache, 1, &axis)
               : (imp_bad(im, "caches [b, s, d], or [n, d] with positions, are expected"), NULL);
}

bool onnx_op_rotary(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *cache_cos = imp_in(im, 1), *cache_sin = imp_in(im, 2),
                    *positions = imp_in(im, 3);
    if (!x)
        return false;
    bool flat = imp_rank(x) == 3;
    if ((!flat && imp_rank(x) != 4) || !cache_cos || !cache_sin)
        return imp_bad(im, "X with 3 or 4 dims and both caches are expected");
    x = imp_split_heads(im, x, imp_i(im, "num_heads", 0));
    struct ir_value *cosine = angles(im, cache_cos, positions), *sine = angles(im, cache_sin, positions);
    x = imp_rotate(im, x, cosine, sine, imp_turned(im), imp_i(im, "interleaved", 0));
    return x && imp_out(im, 0, flat ? imp_join_heads(im, x) : x);
}

/* -- TensorScatter: a cache with new entries written at each sample's position */

bool onnx_op_tensor_scatter(struct imp *im)
{
    struct ir_value *cache = imp_tensor(im, 0), *update = cache ? imp_tensor(im, 1) : NULL, *at = imp_in(im, 2);
    int64_t axis = imp_i(im, "axis", -2);
    if (!update || !imp_axis(im, &axis, imp_rank(cache)))
        return false;
    int rank = imp_rank(cache);
    if (axis == 0 || imp_rank(update) != rank)
        return imp_bad(im, "an axis other than 0 and an update with %d dims are expected", rank);
    struct ir_value *index = imp_iota(im, rank, update->type->dim, (int)axis, TCC_I64);
    if (at)
        index = imp_bin(im, IR_add, index, imp_along(im, at, 0, rank));
    if (!strcmp(imp_s(im, "mode", "linear"), "circular"))
        index = imp_bin(im, IR_mod, index, imp_dim_value(im, imp_dim(cache, (int)axis)));
    if (at && index) { /* a negative position is one of no entry */
        struct ir_value *chosen = imp_dim_value(im, imp_dim(cache, (int)axis));
        struct ir_value *right = imp_like(im, imp_along(im, at, 0, rank), 0);
        index = imp_select(im, imp_bin(im, IR_lt, imp_along(im, at, 0, rank), right), chosen, index);
    }
    struct ir_value *in[] = {cache, index, update};
    return imp_out(im, 0,
                   imp_op(im, IR_scatter_elements, 3, in,
                          IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_s(IR_ATTR_mode, "none"))));
}

/* -- Causal depthwise convolution that carries the last inputs */

bool onnx_op_causal_conv(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL, *bias = imp_in(im, 2),
                    *past = imp_in(im, 3);
    int64_t k, channels;
    if (!w)
        return false;
    if (imp_rank(x) != 3 || imp_rank(w) != 3)
        return imp_bad(im, "x[b, c, n] and w[c, 1, k] are expected");
    if (!ir_is_const(imp_dim(w, 2), &k) || !ir_is_const(imp_dim(w, 0), &channels))
        return imp_open_size(im, imp_dim(w, 0), imp_dim(w, 2), "w[c, 1, k] whose size is known only at run time");
    const char *activation = imp_s(im, "activation", "none");
    ir_expr zero = ir_const(im->ctx, 0), front = ir_const(im->ctx, k - 1);
    ir_expr before[3] = {zero, zero, front}, after[3] = {zero, zero, zero};
    struct ir_value *joined[2] = {past, x};
    struct ir_value *padded = past ? imp_concat(im, 2, joined, 2) : imp_pad(im, x, NULL, before, after, "constant");
    if (!padded)
        return false;
    struct imp_window window = {1, {k}, {1}, {1}, {NULL}, {zero}, {zero}};
    struct ir_value *y = imp_convolve(im, &window, padded, w, bias, channels, imp_dtype(x));
    if (strcmp(activation, "none") && strcmp(activation, "silu") && strcmp(activation, "swish"))
        return imp_bad(im, "activation '%s'", activation);
    y = activation[0] == 's' ? imp_un(im, IR_silu, y) : y;
    struct ir_value *state = imp_slice1(im, padded, 2, ir_sub(im->ctx, imp_dim(padded, 2), front), front);
    return imp_out(im, 0, y) && (!imp_wants(im, 1) || imp_out(im, 1, state));
}

bool onnx_op_swiglu(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL;
    double alpha = imp_f(im, "alpha", 1);
    if (!b)
        return false;
    struct ir_value *gate = alpha == 1 ? imp_un(im, IR_silu, a) : imp_bin(im, IR_swish, a, imp_like(im, a, alpha));
    return imp_out(im, 0, imp_bin(im, IR_mul, gate, b));
}

/* -- LinearAttention: a matrix-valued state [b, h, k, v] updated token by token */

struct linear {
    bool gated, delta;
    struct imp_heads heads;
    struct ir_value *q, *k, *v, *decay, *beta; /* [t, b, h, d], f32 */
    struct ir_value *scale;
};

/* heads NULL: one for each element of the last dim. */
static struct ir_value *by_time(struct imp *im, struct ir_value *x, ir_expr heads)
{
    static const int64_t perm[4] = {1, 0, 2, 3};
    if (!x)
        return NULL;
    if (imp_rank(x) != 3)
        return imp_bad(im, "%s; 3 dims are expected", ir_type_text(im->ctx, x->type)), NULL;
    ir_expr last = imp_dim(x, 2), dims[4] = {imp_dim(x, 0), imp_dim(x, 1), heads ? heads : last,
                                             heads ? ir_floordiv(im->ctx, last, heads) : ir_const(im->ctx, 1)};
    return imp_transpose(im, imp_cast(im, imp_reshape(im, x, 4, dims), TCC_F32), perm);
}

/* All operands are of as many tokens of as many batches as the query; keys are as wide. */
static bool linear_sizes(struct imp *im, const struct linear *l)
{
    const struct ir_value *of[4] = {l->k, l->v, l->decay, l->beta};
    static const char *const names[4] = {"key", "value", "decay", "beta"};
    for (int i = 0; i < 4; i++)
        if (of[i] &&
            (!imp_assume(im, IR_EQ, imp_dim(of[i], 1), imp_dim(l->q, 1), "batches of %s and query", names[i]) ||
             !imp_assume(im, IR_EQ, imp_dim(of[i], 0), imp_dim(l->q, 0), "tokens of %s and query", names[i])))
            return false;
    return imp_assume(im, IR_EQ, imp_dim(l->k, 3), imp_dim(l->q, 3), "widths of heads of key and query");
}

/* One token: state in, state and output [b, h_q, v] out. */
static bool linear_step(struct imp *im, const struct linear *l, struct ir_value *t, struct ir_value **state,
                        struct ir_value **out)
{
    int64_t last = 3, middle = 2;
    struct ir_value *s = *state, *k = imp_gather(im, l->k, t, 0), *v = imp_gather(im, l->v, t, 0),
                    *q = imp_gather(im, l->q, t, 0);
    if (l->gated)
        s = imp_bin(im, IR_mul, s, imp_unsqueeze(im, imp_un(im, IR_exp, imp_gather(im, l->decay, t, 0)), 1, &last));
    struct ir_value *column = imp_unsqueeze(im, k, 1, &last); /* [b, h, k, 1] */
    if (l->delta) {
        struct ir_value *seen =
            imp_matmul(im, imp_unsqueeze(im, k, 1, &middle), s, false, false, TCC_NONE); /* [b, h, 1, v] */
        v = imp_bin(im, IR_sub, v, imp_squeeze(im, seen, 1, &middle));
        v = imp_bin(im, IR_mul, v, imp_gather(im, l->beta, t, 0));
    }
    s = imp_bin(im, IR_add, s, imp_bin(im, IR_mul, column, imp_unsqueeze(im, v, 1, &middle)));
    struct ir_value *right = imp_repeat_heads(im, s, &l->heads);
    struct ir_value *y = imp_matmul(im, imp_unsqueeze(im, q, 1, &middle), right, false, false, TCC_NONE);
    *out = imp_bin(im, IR_mul, imp_squeeze(im, y, 1, &middle), l->scale);
    *state = s;
    return *out && s;
}

static struct ir_node *linear_loop(struct imp *im, const struct linear *l, struct ir_value *initial)
{
    struct ir_builder outside;
    ir_expr dims[4] = {imp_dim(l->q, 0), imp_dim(l->q, 1), imp_dim(l->q, 2), imp_dim(l->v, 3)};
    ir_type types[2] = {initial->type, ir_tensor_type(im->ctx, TCC_F32, 4, dims)};
    struct ir_value *in[3] = {imp_dim_value(im, dims[0]), NULL, initial}, *yields[3];
    struct ir_node *loop =
        ir_build_typed(&im->b, IR_loop, 3, in,
                       IR_ATTRS(ir_attr_i(IR_ATTR_nscan, 1), ir_attr_types(IR_ATTR_types, 2, types)), 2, types);
    if (!loop)
        return NULL;
    struct ir_block *region = imp_open_region(im, loop, &outside);
    struct ir_value *t = ir_param_new(region, ir_scalar_type(im->ctx, TCC_I64), "t");
    yields[0] = ir_param_new(region, ir_scalar_type(im->ctx, TCC_BOOL), "go");
    yields[1] = ir_param_new(region, initial->type, "state");
    bool fine = linear_step(im, l, t, &yields[1], &yields[2]) && imp_yield(im, 3, yields);
    imp_close_region(im, &outside);
    return fine ? loop : NULL;
}

bool onnx_op_linear_attention(struct imp *im)
{
    static const int64_t order[4] = {1, 0, 2, 3};
    int64_t hq = imp_i(im, "q_num_heads", 0), hk = imp_i(im, "kv_num_heads", 0);
    ir_expr heads = ir_const(im->ctx, hk);
    struct ir_value *q = imp_tensor(im, 0), *k = q ? imp_tensor(im, 1) : NULL, *v = k ? imp_tensor(im, 2) : NULL,
                    *past = imp_in(im, 3);
    struct ir_value *decay = imp_in(im, 4), *beta = imp_in(im, 5);
    const char *rule = imp_s(im, "update_rule", "gated_delta");
    struct linear l = {.gated = strstr(rule, "gated"), .delta = strstr(rule, "delta")};
    if (!v)
        return false;
    if (hq < 1 || hk < 1 || hq % hk || imp_rank(q) != 3 || imp_rank(k) != 3 || imp_rank(v) != 3 || l.gated != !!decay ||
        l.delta != !!beta)
        return imp_bad(im, "Q, K, V with 3 dims, head numbers, and the operands of update_rule '%s' are expected",
                       rule);
    l.heads = (struct imp_heads){ir_const(im->ctx, hq / hk), ir_const(im->ctx, hq)};
    l.q = by_time(im, q, ir_const(im->ctx, hq));
    l.k = by_time(im, k, heads);
    l.v = by_time(im, v, heads);
    l.decay = by_time(im, decay, heads);
    l.beta = by_time(im, beta, NULL);
    if (!l.q || !l.k || !l.v || (decay && !l.decay) || (beta && !l.beta))
        return false;
    if (!linear_sizes(im, &l))
        return false;
    l.scale = imp_cast(im, imp_head_scale(im, l.q, imp_f(im, "scale", 0), false), TCC_F32);
    ir_expr dims[4] = {imp_dim(q, 0), heads, imp_dim(l.k, 3), imp_dim(l.v, 3)};
    struct ir_value *initial = past ? imp_cast(im, past, TCC_F32) : imp_splat(im, TCC_F32, 0, 4, dims);
    initial = initial ? imp_expand(im, initial, 4, dims) : NULL;
    struct ir_node *loop = initial ? linear_loop(im, &l, initial) : NULL;
    if (!loop)
        return false;
    struct ir_value *y = imp_transpose(im, loop->out[1], order);
    ir_expr flat[3] = {imp_dim(q, 0), imp_dim(q, 1), ir_mulc(im->ctx, dims[3], hq)};
    return imp_out(im, 0, imp_cast(im, imp_reshape(im, y, 3, flat), imp_dtype(q))) &&
           (!imp_wants(im, 1) || imp_out(im, 1, imp_cast(im, loop->out[0], past ? imp_dtype(past) : imp_dtype(q))));
}
