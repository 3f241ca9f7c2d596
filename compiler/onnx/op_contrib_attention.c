/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Runtime's attention: Attention, QAttention, MultiHeadAttention, PackedAttention, PackedMultiHeadAttention.
 * (Those whose caches have room for tokens to come are in op_contrib_cache.c.) They are read into one form (struct
 * imp_attention). Source: ONNX Runtime, docs/ContribOperators.md.
 */
#include "compiler/import/attention.h"
#include "compiler/onnx/import_int.h"

#include <math.h>

/* -- Masks */

/* i64[n, 1, 1, 1]: elements from .. from + n of a vector. */
static struct ir_value *per_sample(struct imp *im, struct ir_value *v, ir_expr from, ir_expr n)
{
    ir_expr one = ir_const(im->ctx, 1), dims[4] = {n, one, one, one};
    return imp_reshape(im, imp_cast(im, imp_slice1(im, v, 0, from, n), TCC_I64), 4, dims);
}

/* One dim: ends [b]; ends and starts [2 b]; ends and more, which the ends imply [3 b + 2]. Where sizes are open it is
 * the run that knows which. */
static struct ir_value *allowed_range(struct imp *im, struct imp_attention *a, struct ir_value *mask)
{
    struct ir_ctx *c = im->ctx;
    ir_expr batch = imp_dim(a->q, 0), n = imp_dim(mask, 0), zero = ir_const(c, 0), keys = imp_dim(a->k, 2),
            both = ir_mulc(c, batch, 2);
    enum ir_tri starts = ir_expr_eq(c, n, both);
    if (!imp_assume(im, IR_LE, batch, n, "a mask of one dim has a number for each sample"))
        return NULL;
    struct ir_value *key = imp_iota(im, 1, &keys, 0, TCC_I64);
    struct ir_value *allowed = imp_bin(im, IR_lt, key, per_sample(im, mask, zero, batch));
    if (starts == IR_NO)
        return allowed;
    struct ir_value *start = per_sample(im, mask, ir_sub(c, n, batch), batch);
    if (starts == IR_MAYBE) {
        struct ir_value *given = imp_dim_value(im, n), *of_both = imp_dim_value(im, both);
        struct ir_value *is_start = imp_bin(im, IR_eq, given, of_both);
        start = imp_select(im, is_start, start, imp_int(im, TCC_I64, 0));
    }
    return imp_bin(im, IR_and, allowed, imp_bin(im, IR_ge, key, start));
}

/* Adds a mask operand in any of its forms (NULL: nothing); a->q and a->k say what sizes there are. `past`: keys before
 * the first query. */
static bool mask_operand(struct imp *im, struct imp_attention *a, struct ir_value *mask, ir_expr past, double filter)
{
    static const int64_t heads = 1, middle[2] = {1, 2};
    if (!mask)
        return true;
    int rank = imp_rank(mask);
    if (rank == 1)
        return imp_attention_mask(im, a, allowed_range(im, a, mask), filter);
    /* [b, 1] beside more keys: there to keep the operand, and not a mask. */
    if (rank == 2 && ir_is_value(imp_dim(mask, 1), 1) && !ir_is_value(imp_dim(a->k, 2), 1))
        return true;
    if (rank == 4) {
        mask = imp_slice1(im, mask, 2, past, imp_dim(a->q, 2));
        mask = imp_slice1(im, mask, 3, ir_const(im->ctx, 0), imp_dim(a->k, 2));
    } else if (rank == 2 || rank == 3) {
        mask = imp_unsqueeze(im, mask, rank == 2 ? 2 : 1, rank == 2 ? middle : &heads);
    } else {
        return imp_bad(im, "a mask with %d dims; 1 to 4 are expected", rank);
    }
    return mask && imp_attention_mask(im, a, imp_with(im, IR_gt, mask, 0), filter);
}

/* -- Rotation */

/* -2 ln(10000) / size */
static struct ir_value *turn_of(struct imp *im, ir_expr size)
{
    int64_t known;
    if (ir_is_const(size, &known) && known)
        return imp_num(im, TCC_F32, -2 * log(10000) / (double)known);
    struct ir_value *cast = imp_cast(im, imp_dim_value(im, size), TCC_F32);
    return imp_bin(im, IR_div, imp_num(im, TCC_F32, -2 * log(10000)), cast);
}

/* do_rotary: q and k turned by pos / 10000^(2 i / size), halves against halves. */
static bool rotate_both(struct imp *im, struct imp_attention *a, ir_expr past)
{
    int64_t axes[2] = {0, 1}, last = 1;
    ir_expr part = imp_turned(im);
    if (!a->q || !a->k)
        return false;
    ir_expr size = part ? part : imp_dim(a->q, 3), half = ir_floordiv(im->ctx, size, ir_const(im->ctx, 2)),
            tokens = imp_dim(a->q, 2);
    struct ir_value *i = imp_iota(im, 1, &half, 0, TCC_F32), *p = imp_iota(im, 1, &tokens, 0, TCC_I64);
    struct ir_value *rate = imp_un(im, IR_exp, imp_bin(im, IR_mul, i, turn_of(im, size)));
    p = imp_cast(im, imp_bin(im, IR_add, p, imp_dim_value(im, past)), TCC_F32);
    struct ir_value *angle = imp_bin(im, IR_mul, imp_unsqueeze(im, p, 1, &last), rate);
    struct ir_value *cosine = imp_unsqueeze(im, imp_cast(im, imp_un(im, IR_cos, angle), imp_dtype(a->q)), 2, axes);
    struct ir_value *sine = imp_unsqueeze(im, imp_cast(im, imp_un(im, IR_sin, angle), imp_dtype(a->q)), 2, axes);
    a->q = imp_rotate(im, a->q, cosine, sine, part, false);
    a->k = imp_rotate(im, a->k, cosine, sine, part, false);
    return a->q && a->k;
}

/* -- Attention, QAttention */

/* Widths of Q, K and V in the joined projection [.., n]. */
static bool read_widths(struct imp *im, ir_expr n, ir_expr *widths)
{
    int given;
    const int64_t *sizes = imp_ints(im, "qkv_hidden_sizes", &given);
    if (sizes && given != 3)
        return imp_bad(im, "qkv_hidden_sizes has %d values, 3 are expected", given);
    for (int k = 0; k < 3; k++)
        widths[k] = sizes ? ir_const(im->ctx, sizes[k]) : ir_floordiv(im->ctx, n, ir_const(im->ctx, 3));
    return true;
}

/* Q, K, V of the projection [b, s, n]. */
static bool take_projection(struct imp *im, struct imp_attention *a, struct ir_value *x)
{
    int64_t heads = imp_i(im, "num_heads", 0);
    ir_expr widths[3];
    struct ir_value *part[3];
    if (!x || imp_rank(x) != 3 || heads < 1)
        return x && imp_bad(im, "an input with 3 dims and num_heads are expected");
    if (!read_widths(im, imp_dim(x, 2), widths) || !imp_split_three(im, x, widths, part))
        return false;
    a->q = imp_split_heads(im, part[0], heads);
    a->k = imp_split_heads(im, part[1], heads);
    a->v = imp_split_heads(im, part[2], heads);
    return a->q && a->k && a->v;
}

/* Rows [1, 1, s, 1] of a shared buffer for new tokens behind `used` ones (i64[]). */
static struct ir_value *buffer_rows(struct imp *im, const struct ir_value *q, struct ir_value *used)
{
    ir_expr one = ir_const(im->ctx, 1), dims[4] = {one, one, imp_dim(q, 2), one};
    return imp_bin(im, IR_add, imp_iota(im, 4, dims, 2, TCC_I64), used);
}

/* Hides the room that a shared buffer has behind the new tokens; causal attention does that by itself. */
static bool hide_room(struct imp *im, struct imp_attention *a, struct ir_value *used, bool causal)
{
    return !used || causal || imp_attention_end(im, a, imp_bin(im, IR_add, used, imp_dim_value(im, imp_dim(a->q, 2))));
}

/* past and present [2, b, h, .., d]: keys and values before these. `used`: how many rows are valid (NULL: all; operand
 * past_sequence_length of a buffer that is shared). */
static bool take_past(struct imp *im, struct imp_attention *a, struct ir_value *past, struct ir_value *used)
{
    struct ir_value **kv[2] = {&a->k, &a->v}, *both[2], *rows = NULL;
    int64_t axis = 0;
    if (past && imp_rank(past) != 5)
        return imp_bad(im, "past with 5 dims is expected");
    if (used && !(rows = buffer_rows(im, a->q, used)))
        return false;
    for (int k = 0; k < 2; k++) {
        struct ir_value *before = past ? imp_gather(im, past, imp_int(im, TCC_I64, k), 0) : NULL;
        *kv[k] = imp_behind_past(im, before, *kv[k], rows, before ? imp_dim(before, 2) : NULL);
        if (!*kv[k])
            return false;
        both[k] = imp_wants(im, 1) ? imp_unsqueeze(im, *kv[k], 1, &axis) : NULL;
    }
    return !imp_wants(im, 1) || (both[0] && both[1] && imp_out(im, 1, imp_concat(im, 2, both, 0)));
}

/* From the projection x [b, s, n] on. */
static bool self_attention(struct imp *im, struct ir_value *x, struct ir_value *mask, struct ir_value *past,
                           struct ir_value *bias, struct ir_value *used)
{
    struct imp_attention a = {.form = IMP_ATTENTION_WIDE, .scale = imp_f(im, "scale", 0)};
    double filter = imp_f(im, "mask_filter_value", -10000);
    bool causal = imp_i(im, "unidirectional", 0);
    used = used && imp_i(im, "past_present_share_buffer", 0) ? imp_reshape(im, imp_cast(im, used, TCC_I64), 0, NULL)
                                                             : NULL;
    if (!take_projection(im, &a, x))
        return false;
    ir_expr before = past && imp_rank(past) == 5 ? imp_dim(past, 3) : ir_const(im->ctx, 0);
    if (used && imp_i(im, "do_rotary", 0))
        return imp_unsupported(im, "do_rotary with a shared buffer");
    if (imp_i(im, "do_rotary", 0) && !rotate_both(im, &a, before))
        return false;
    if (!take_past(im, &a, past, used))
        return false;
    struct ir_value *offset = used ? used : past ? imp_dim_value(im, before) : NULL;
    if (!hide_room(im, &a, used, causal))
        return false;
    if ((causal && !imp_attention_reach(im, &a, imp_attention_places(im, &a, offset), true, -1, -1)) ||
        !mask_operand(im, &a, mask, before, filter) || !imp_attention_bias(im, &a, bias))
        return false;
    return imp_out(im, 0, imp_join_heads(im, imp_attend(im, &a)));
}

bool onnx_op_contrib_attention(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL, *bias = imp_in(im, 2);
    if (!w || imp_rank(w) != 2)
        return w && imp_bad(im, "weights with 2 dims are expected");
    struct ir_value *y = imp_matmul(im, x, w, false, false, imp_dtype(x));
    y = bias ? imp_bin(im, IR_add, y, bias) : y;
    return y && self_attention(im, y, imp_in(im, 3), imp_in(im, 4), imp_in(im, 5), imp_in(im, 6));
}

bool onnx_op_qattention(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL;
    struct ir_value *y =
        w ? imp_integer_product(im, x, imp_in(im, 6), imp_in(im, 3), w, imp_in(im, 7), imp_in(im, 4)) : NULL;
    if (y && imp_has(im, 2))
        y = imp_bin(im, IR_add, y, imp_in(im, 2));
    return y && self_attention(im, y, imp_in(im, 5), imp_in(im, 8), NULL, NULL);
}

/* -- MultiHeadAttention */

/* Plane k of the axis of 2 or 3 in [b, s, h, 2 or 3, d], as [b, h, s, d]. */
static struct ir_value *plane(struct imp *im, struct ir_value *x, int64_t k)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    return imp_transpose(im, imp_gather(im, x, imp_int(im, TCC_I64, k), 3), perm);
}

/* The part of bias [q + k + v] that `x` has, added to it: x [b, s, width] or [b, h, s, d]. */
static struct ir_value *with_bias(struct imp *im, struct ir_value *x, struct ir_value *bias, ir_expr from,
                                  ir_expr width)
{
    ir_expr dims[4];
    if (!bias || !x)
        return x;
    bias = imp_slice1(im, bias, 0, from, width);
    if (imp_rank(x) != 4)
        return imp_bin(im, IR_add, x, bias);
    dims[0] = dims[2] = ir_const(im->ctx, 1);
    dims[1] = imp_dim(x, 1);
    dims[3] = imp_dim(x, 3);
    return imp_bin(im, IR_add, x, imp_reshape(im, bias, 4, dims));
}

static ir_expr width_of(struct imp *im, const struct ir_value *x)
{
    return imp_rank(x) == 4 ? ir_mul(im->ctx, imp_dim(x, 1), imp_dim(x, 3)) : imp_dim(x, imp_rank(x) - 1);
}

/* Q, K, V in any of their forms. *cached: K and V are [b, h, t, d] of earlier steps and want nothing else. */
static bool read_heads(struct imp *im, struct imp_attention *a, bool *cached)
{
    struct ir_value *q = imp_tensor(im, 0), *k = imp_in(im, 1), *v = imp_in(im, 2), *bias = imp_in(im, 3);
    int64_t heads = imp_i(im, "num_heads", 0);
    if (!q || heads < 1)
        return q && imp_bad(im, "num_heads is missing");
    *cached = k && imp_rank(k) == 4;
    if (imp_rank(q) == 5 && !k && !v) {
        v = plane(im, q, 2);
        k = plane(im, q, 1);
        q = plane(im, q, 0);
    } else if (k && imp_rank(k) == 5 && !v) {
        v = plane(im, k, 1);
        k = plane(im, k, 0);
    }
    if (!q || !k || !v || !imp_rank(q) || !imp_rank(k) || !imp_rank(v))
        return imp_bad(im, "query, key and value, or both or all of them packed with 5 dims, are expected");
    ir_expr wq = width_of(im, q), wk = width_of(im, k), zero = ir_const(im->ctx, 0);
    q = with_bias(im, q, bias, zero, wq);
    if (!*cached) {
        k = with_bias(im, k, bias, wq, wk);
        v = with_bias(im, v, bias, ir_add(im->ctx, wq, wk), width_of(im, v));
    }
    a->q = imp_split_heads(im, q, heads);
    a->k = imp_split_heads(im, k, heads);
    a->v = imp_split_heads(im, v, heads);
    return a->q && a->k && a->v;
}

/* As ONNX Runtime: keys are counted from the first one behind the past on, wherever they are from, and where there are
 * more of them than queries the last query sees all. `used`: rows of a shared buffer. */
static bool causal_rows(struct imp *im, struct imp_attention *a, ir_expr past, struct ir_value *used)
{
    ir_expr queries = imp_dim(a->q, 2);
    struct ir_value *offset = used ? used : ir_is_value(past, 0) ? NULL : imp_dim_value(im, past);
    struct imp_places at = imp_attention_places(im, a, offset);
    if (used || ir_expr_eq(im->ctx, ir_add(im->ctx, past, queries), imp_dim(a->k, 2)) == IR_YES)
        return imp_attention_reach(im, a, at, true, -1, -1);
    struct ir_value *last = imp_dim_value(im, ir_addc(im->ctx, ir_add(im->ctx, past, queries), -1));
    struct ir_value *is_last = imp_bin(im, IR_eq, at.query, last);
    return imp_attention_mask(im, a, imp_bin(im, IR_or, imp_bin(im, IR_le, at.key, at.query), is_last), -INFINITY);
}

bool onnx_op_multi_head_attention(struct imp *im)
{
    struct imp_attention a = {.form = IMP_ATTENTION_WIDE, .scale = imp_f(im, "scale", 0)};
    struct ir_value *past[2] = {imp_in(im, 6), imp_in(im, 7)}, **kv[2] = {&a.k, &a.v}, *used = imp_in(im, 8),
                    *rows = NULL;
    bool cached = false, causal = imp_i(im, "unidirectional", 0);
    if (imp_has(im, 9))
        return imp_unsupported(im, "cache_indirection (the beams of a search)");
    if (!read_heads(im, &a, &cached))
        return false;
    if (!past[0] != !past[1])
        return imp_bad(im, "both past_key and past_value or neither are expected");
    ir_expr before = past[0] && !cached ? imp_dim(past[0], 2) : ir_const(im->ctx, 0);
    used = past[0] && !cached && used ? imp_reshape(im, imp_cast(im, used, TCC_I64), 0, NULL) : NULL;
    if (used && !(rows = buffer_rows(im, a.q, used)))
        return false;
    for (int k = 0; k < 2; k++) {
        *kv[k] = imp_behind_past(im, cached ? NULL : past[k], *kv[k], rows, before);
        if (!*kv[k] || (imp_wants(im, 1 + k) && !imp_out(im, 1 + k, *kv[k])))
            return false;
    }
    if (!hide_room(im, &a, used, causal))
        return false;
    if ((causal && !causal_rows(im, &a, before, used)) ||
        !mask_operand(im, &a, imp_in(im, 4), before, imp_f(im, "mask_filter_value", -10000)) ||
        !imp_attention_bias(im, &a, imp_in(im, 5)))
        return false;
    struct ir_value *y = imp_join_heads(im, imp_attend(im, &a));
    return imp_out(im, 0, y) && (!imp_wants(im, 3) || imp_out(im, 3, a.scores));
}

/* -- Packed: the tokens of all sequences behind each other, without padding */

struct packed {
    ir_expr batch, tokens, rows; /* of the padded form; rows of the packed one */
    struct ir_value *at;         /* i64[rows, 1]: where each row is in the padded form */
};

/* token_offset [b, s]: first where the rows are, then where padding is. */
static bool read_packed(struct imp *im, const struct ir_value *x, struct ir_value *offset, struct packed *p)
{
    if (!offset || imp_rank(offset) != 2)
        return imp_bad(im, "token_offset with 2 dims is expected");
    p->batch = imp_dim(offset, 0);
    p->tokens = imp_dim(offset, 1);
    p->rows = imp_dim(x, 0);
    ir_expr flat = ir_mul(im->ctx, p->batch, p->tokens), dims[2] = {p->rows, ir_const(im->ctx, 1)};
    struct ir_value *all = imp_reshape(im, imp_cast(im, offset, TCC_I64), 1, &flat);
    p->at = imp_reshape(im, imp_slice1(im, all, 0, ir_const(im->ctx, 0), p->rows), 2, dims);
    return p->at != NULL;
}

/* [rows, n] -> [b, s, n], zeros where there is padding. */
static struct ir_value *unpack(struct imp *im, const struct packed *p, struct ir_value *x)
{
    if (!x)
        return NULL;
    ir_expr wide[2] = {ir_mul(im->ctx, p->batch, p->tokens), imp_dim(x, 1)}, dims[3] = {p->batch, p->tokens, wide[1]};
    struct ir_value *in[] = {imp_splat(im, imp_dtype(x), 0, 2, wide), p->at, x};
    return imp_reshape(im, imp_op(im, IR_scatter_nd, 3, in, IR_ATTRS(ir_attr_s(IR_ATTR_mode, "none"))), 3, dims);
}

/* Attention of the padded form, and its rows that are no padding. `bounds`: operand of cumulative lengths, [b + 1]. */
static bool attend_packed(struct imp *im, struct imp_attention *a, const struct packed *p, struct ir_value *bounds,
                          struct ir_value *bias, double filter)
{
    ir_expr zero = ir_const(im->ctx, 0), one = ir_const(im->ctx, 1);
    if (!a->q || !a->k || !a->v)
        return false;
    if (!bounds || imp_rank(bounds) != 1)
        return imp_bad(im, "cumulative_sequence_length with 1 dim is expected");
    struct ir_value *bounds_part = imp_slice1(im, bounds, 0, zero, p->batch);
    struct ir_value *lengths = imp_bin(im, IR_sub, imp_slice1(im, bounds, 0, one, p->batch), bounds_part);
    if (!lengths || !mask_operand(im, a, lengths, zero, filter) || !imp_attention_bias(im, a, bias))
        return false;
    struct ir_value *y = imp_join_heads(im, imp_attend(im, a));
    if (!y)
        return false;
    ir_expr dims[2] = {ir_mul(im->ctx, p->batch, p->tokens), imp_dim(y, 2)};
    struct ir_value *at = imp_reshape(im, p->at, 1, &p->rows);
    return imp_out(im, 0, imp_gather(im, imp_reshape(im, y, 2, dims), at, 0));
}

bool onnx_op_packed_attention(struct imp *im)
{
    struct imp_attention a = {.form = IMP_ATTENTION_WIDE, .scale = imp_f(im, "scale", 0)};
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL, *bias = imp_in(im, 2);
    struct packed p;
    if (!w || imp_rank(x) != 2 || imp_rank(w) != 2)
        return w && imp_bad(im, "input and weights with 2 dims are expected");
    if (!read_packed(im, x, imp_in(im, 3), &p))
        return false;
    struct ir_value *y = imp_matmul(im, x, w, false, false, imp_dtype(x));
    y = bias ? imp_bin(im, IR_add, y, bias) : y;
    return take_projection(im, &a, unpack(im, &p, y)) &&
           attend_packed(im, &a, &p, imp_in(im, 4), imp_in(im, 5), -10000);
}

bool onnx_op_packed_multi_head_attention(struct imp *im)
{
    struct imp_attention a = {.form = IMP_ATTENTION_WIDE, .scale = imp_f(im, "scale", 0)};
    struct ir_value *part[3] = {imp_tensor(im, 0), imp_in(im, 1), imp_in(im, 2)}, *bias = imp_in(im, 3);
    int64_t heads = imp_i(im, "num_heads", 0);
    struct packed p;
    if (!part[0] || heads < 1)
        return part[0] && imp_bad(im, "num_heads is missing");
    if (!read_packed(im, part[0], imp_in(im, 4), &p))
        return false;
    if (imp_rank(part[0]) == 4) {
        struct ir_value *all = part[0];
        for (int k = 0; k < 3; k++) {
            struct ir_value *one = imp_gather(im, all, imp_int(im, TCC_I64, k), 2);
            ir_expr dims[2] = {p.rows, ir_mul(im->ctx, imp_dim(all, 1), imp_dim(all, 3))};
            part[k] = imp_reshape(im, one, 2, dims);
        }
    }
    ir_expr from = ir_const(im->ctx, 0);
    for (int k = 0; k < 3; k++) {
        if (!part[k] || imp_rank(part[k]) != 2)
            return imp_bad(im, "query, key, value with 2 dims, or packed with 4, are expected");
        ir_expr width = imp_dim(part[k], 1);
        struct ir_value *own = bias ? imp_slice1(im, bias, 0, from, width) : NULL;
        part[k] = imp_split_heads(im, unpack(im, &p, own ? imp_bin(im, IR_add, part[k], own) : part[k]), heads);
        from = ir_add(im->ctx, from, width);
    }
    a.q = part[0];
    a.k = part[1];
    a.v = part[2];
    return attend_packed(im, &a, &p, imp_in(im, 5), imp_in(im, 6), imp_f(im, "mask_filter_value", -10000));
}
