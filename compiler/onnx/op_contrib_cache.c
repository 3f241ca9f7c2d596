/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GroupQueryAttention: attention whose keys and values stand in a cache with room for tokens to come, each sample at a
 * place of its own.
 *
 * New rows are written where each sample's old ones end; what lies behind them is masked. So the cache may be of any
 * length, the one that comes in and goes out being the same buffer or not. Source: ONNX Runtime,
 * docs/ContribOperators.md.
 */
#include "compiler/import/attention.h"
#include "compiler/onnx/import_int.h"

struct cache {
    ir_expr total;              /* keys of the longest sample, new ones included */
    struct ir_value *before;    /* i64[b, 1, 1, 1]: keys of each sample before the new ones */
    struct ir_value *positions; /* i64[b, 1, s, 1]: of the new tokens */
};

/* Operands seqlens_k [b] (keys of each sample less one) and total_sequence_length. Where the latter is the number of
 * new tokens, all is new. */
static bool read_cache(struct imp *im, const struct ir_value *q, struct cache *c)
{
    struct ir_value *lengths = imp_tensor(im, 5), *total = lengths ? imp_tensor(im, 6) : NULL;
    ir_expr one = ir_const(im->ctx, 1), dims[4] = {imp_dim(q, 0), one, one, one},
            steps[4] = {one, one, imp_dim(q, 2), one};
    if (!total || imp_bound_exprs(im, total, 1, 0, IMP_MAX_DIM, &c->total) != 1)
        return total && imp_bad(im, "total_sequence_length must be one integer");
    struct ir_value *zero = imp_int(im, TCC_I64, 0), *news = imp_dim_value(im, imp_dim(q, 2));
    struct ir_value *one_key = imp_int(im, TCC_I64, 1);
    struct ir_value *keys = imp_bin(im, IR_add, imp_reshape(im, imp_cast(im, lengths, TCC_I64), 4, dims), one_key);
    struct ir_value *old = imp_bin(im, IR_sub, keys, news);
    enum ir_tri all_new = ir_expr_eq(im->ctx, c->total, imp_dim(q, 2));
    if (all_new == IR_YES)
        old = imp_bin(im, IR_mul, old, zero);
    else if (all_new != IR_NO)
        old = imp_select(im, imp_bin(im, IR_eq, imp_dim_value(im, c->total), news), zero, old);
    if (!imp_check_all(im, old, ir_sub(im->ctx, c->total, imp_dim(q, 2)),
                       "the number of keys in front of a sample's new ones (seqlens_k + 1 less these)"))
        return false;
    c->before = old;
    c->positions = imp_bin(im, IR_add, imp_iota(im, 4, steps, 2, TCC_I64), old);
    return c->positions != NULL;
}

/* Q, K, V: apart, or behind each other in the first operand. */
static bool read_heads(struct imp *im, struct imp_attention *a)
{
    struct ir_value *part[3] = {imp_tensor(im, 0), imp_in(im, 1), imp_in(im, 2)};
    int64_t heads = imp_i(im, "num_heads", 0), own = imp_i(im, "kv_num_heads", 0);
    if (!part[0] || imp_rank(part[0]) != 3 || heads < 1 || own < 1 || !part[1] != !part[2])
        return part[0] &&
               imp_bad(im, "query with 3 dims, key and value or neither, num_heads and kv_num_heads are expected");
    if (!part[1]) {
        struct ir_value *all = part[0];
        ir_expr size = ir_floordiv(im->ctx, imp_dim(all, 2), ir_const(im->ctx, heads + 2 * own)),
                kv = ir_mulc(im->ctx, size, own);
        if (!imp_split_three(im, all, (ir_expr[]){ir_mulc(im->ctx, size, heads), kv, kv}, part))
            return false;
    }
    a->q = imp_split_heads(im, part[0], heads);
    a->k = imp_split_heads(im, part[1], own);
    a->v = imp_split_heads(im, part[2], own);
    return a->q && a->k && a->v;
}

/* x [b, h, s, d] / its root mean square * weight [d] */
static struct ir_value *norm_heads(struct imp *im, struct ir_value *x, struct ir_value *weight)
{
    int64_t last = 3;
    if (!x || !weight)
        return x;
    enum tcc_dtype to = imp_dtype(x);
    struct ir_value *y = imp_rms_normalise(im, imp_wide(im, x), 1, &last, imp_f(im, "qk_norm_epsilon", 1e-6f), NULL);
    return imp_cast(im, imp_bin(im, IR_mul, y, imp_wide(im, weight)), to);
}

static bool rotate_heads(struct imp *im, struct imp_attention *a, const struct cache *c)
{
    struct ir_value *cosine = imp_in(im, 7), *sine = imp_in(im, 8), *positions = imp_in(im, 9);
    if (!cosine || !sine || imp_rank(cosine) != 2)
        return imp_bad(im, "do_rotary needs cos_cache and sin_cache with 2 dims");
    if (!positions) {
        ir_expr dims[2] = {imp_dim(c->positions, 0), imp_dim(c->positions, 2)};
        positions = imp_reshape(im, c->positions, 2, dims);
    }
    bool pairs = imp_i(im, "rotary_interleaved", 0);
    ir_expr part = ir_mulc(im->ctx, imp_dim(cosine, 1), 2);
    if (!imp_assume(im, IR_LE, part, imp_dim(a->q, 3),
                    "cos_cache has an angle for each pair of a head's elements at most"))
        return false;
    cosine = imp_angles(im, cosine, positions);
    sine = imp_angles(im, sine, positions);
    a->q = imp_rotate(im, a->q, cosine, sine, part, pairs);
    a->k = imp_rotate(im, a->k, cosine, sine, part, pairs);
    return a->q && a->k;
}

/* What each new token may look at: keys up to itself (or all there are), and no more than a window of them. */
static bool add_reach(struct imp *im, struct imp_attention *a, const struct cache *c)
{
    ir_expr keys = imp_dim(a->k, 2);
    struct imp_places at = {c->positions, imp_iota(im, 1, &keys, 0, TCC_I64)};
    int64_t window = imp_i(im, "local_window_size", -1);
    if (imp_i(im, "causal", 1))
        return imp_attention_reach(im, a, at, true, window > 0 ? window - 1 : -1, -1);
    return imp_attention_end(im, a, imp_bin(im, IR_add, c->before, imp_dim_value(im, imp_dim(a->q, 2))));
}

/* attention_bias [.., s, total], with 0 for the room that the cache has behind. */
static bool add_bias(struct imp *im, struct imp_attention *a, struct ir_value *bias)
{
    if (!bias)
        return true;
    if (imp_rank(bias) != 4)
        return imp_bad(im, "attention_bias with 4 dims is expected");
    ir_expr zero = ir_const(im->ctx, 0), none[4] = {zero, zero, zero, zero}, after[4] = {zero, zero, zero, zero};
    after[3] = ir_max(im->ctx, zero, ir_sub(im->ctx, imp_dim(a->k, 2), imp_dim(bias, 3)));
    bias = imp_pad(im, bias, NULL, none, after, "constant");
    return bias && imp_attention_bias(im, a, bias);
}

/* Writes the new keys and values behind the old ones; attention then reads the cache no further than its longest sample
 * goes. */
static bool update_cache(struct imp *im, struct imp_attention *a, const struct cache *c)
{
    struct ir_value **kv[2] = {&a->k, &a->v}, *past[2] = {imp_in(im, 3), imp_in(im, 4)};
    if (!past[0] != !past[1])
        return imp_bad(im, "both past_key and past_value or neither are expected");
    for (int k = 0; k < 2; k++) {
        if (past[k] && (imp_rank(past[k]) != 4 || imp_dtype(past[k]) != imp_dtype(*kv[k])))
            return imp_unsupported(im, "a cache of %s", ir_type_text(im->ctx, past[k]->type));
        *kv[k] = imp_behind_past(im, past[k], *kv[k], c->positions,
                                 past[k] ? ir_max(im->ctx, imp_dim(past[k], 2), c->total) : NULL);
        if (!*kv[k] || (imp_wants(im, 1 + k) && !imp_out(im, 1 + k, *kv[k])))
            return false;
        *kv[k] = imp_slice1(im, *kv[k], 2, ir_const(im->ctx, 0), c->total);
    }
    return a->k && a->v;
}

bool onnx_op_group_query_attention(struct imp *im)
{
    struct imp_attention a = {.form = IMP_ATTENTION_WIDE,
                              .scale = imp_f(im, "scale", 0),
                              .softcap = imp_f(im, "softcap", 0),
                              .sink = imp_in(im, 11)};
    int64_t heads = imp_i(im, "num_heads", 0), shown = imp_i(im, "qk_output", 0);
    struct cache c;
    if (imp_i(im, "sliding_window_cache", 0))
        return imp_unsupported(im, "sliding_window_cache");
    if (!read_heads(im, &a) || !read_cache(im, a.q, &c))
        return false;
    a.q = norm_heads(im, a.q, imp_in(im, 14));
    a.k = norm_heads(im, a.k, imp_in(im, 15));
    if (!a.q || !a.k)
        return false;
    if ((imp_i(im, "do_rotary", 0) && !rotate_heads(im, &a, &c)) || !update_cache(im, &a, &c))
        return false;
    if (!a.sink && imp_i(im, "smooth_softmax", 0) == 1) {
        ir_expr n = ir_const(im->ctx, heads);
        a.sink = imp_splat(im, TCC_F32, 0, 1, &n);
    }
    if (!add_reach(im, &a, &c) || !add_bias(im, &a, imp_in(im, 10)))
        return false;
    struct ir_value *y = imp_join_heads(im, imp_attend(im, &a));
    return imp_out(im, 0, y) && (!imp_wants(im, 3) || imp_out(im, 3, shown == 1 ? a.scores : a.weights));
}
