/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as every source has it: two products around a softmax, with what they add to the scores. Apart from the
 * front ends, which read their own operands and attributes into struct imp_attention.
 */
#include "compiler/import/attention.h"
#include "base/mutant.h"

#include <math.h>

/* What the sources' forms set. */
static const struct {
    bool wide;                                /* computed in f32 at least; else in the type of q */
    enum { BOTH, SCORES, NOTHING } scaled;    /* q and k by the root of the scale; the scores; q came so */
    enum { NAN_ROWS, BIASED, SCORED } hidden; /* rows without a key: as they come; 0 by the bias; 0 by the scores */
} forms[] = {
    [IMP_ATTENTION_ONNX] = {false, BOTH, BIASED},
    [IMP_ATTENTION_WIDE] = {true, SCORES, NAN_ROWS},
    [IMP_ATTENTION_ATEN] = {false, NOTHING, SCORED},
};

/* -- Heads */

struct ir_value *imp_split_heads(struct imp *im, struct ir_value *x, int64_t heads)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    if (!x || imp_rank(x) == 4)
        return x;
    if (imp_rank(x) != 3)
        return imp_bad(im, "%s as heads; 3 or 4 dims are expected", ir_type_text(im->ctx, x->type)), NULL;
    if (heads < 1)
        return imp_bad(im, "operands with 3 dims need q_num_heads and kv_num_heads"), NULL;
    ir_expr dims[4] = {imp_dim(x, 0), imp_dim(x, 1), ir_const(im->ctx, heads),
                       ir_floordiv(im->ctx, imp_dim(x, 2), ir_const(im->ctx, heads))};
    return imp_transpose(im, imp_reshape(im, x, 4, dims), perm);
}

struct ir_value *imp_join_heads(struct imp *im, struct ir_value *x)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    x = imp_transpose(im, x, perm);
    if (!x)
        return NULL;
    ir_expr dims[3] = {imp_dim(x, 0), imp_dim(x, 1), ir_mul(im->ctx, imp_dim(x, 2), imp_dim(x, 3))};
    return imp_reshape(im, x, 3, dims);
}

bool imp_split_three(struct imp *im, struct ir_value *x, const ir_expr *widths, struct ir_value **part)
{
    ir_expr at = ir_const(im->ctx, 0);
    for (int k = 0; k < 3; k++) {
        part[k] = imp_slice1(im, x, imp_rank(x) - 1, at, widths[k]);
        at = ir_add(im->ctx, at, widths[k]);
        if (!part[k])
            return false;
    }
    return true;
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

/* Of open sizes it is a fact that they are whole multiples; false after a message. */
static bool head_ratio(struct imp *im, const struct ir_value *q, const struct ir_value *k, struct imp_heads *h)
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

/* -- What is added to the scores */

static enum tcc_dtype computed_in(const struct imp_attention *a)
{
    enum tcc_dtype d = a->computed != TCC_NONE ? a->computed : imp_dtype(a->q);
    return a->computed != TCC_NONE || !forms[a->form].wide || d == TCC_F64 ? d : TCC_F32;
}

bool imp_attention_bias(struct imp *im, struct imp_attention *a, struct ir_value *v)
{
    if (!v)
        return true;
    v = imp_cast(im, v, computed_in(a));
    a->bias = a->bias ? imp_bin(im, IR_add, a->bias, v) : v;
    return a->bias != NULL;
}

bool imp_attention_mask(struct imp *im, struct imp_attention *a, struct ir_value *allowed, double filter)
{
    struct ir_value *zero = imp_num(im, computed_in(a), 0), *hidden = imp_num(im, computed_in(a), filter);
    struct ir_value *v = imp_select(im, allowed, zero, hidden);
    return v && imp_attention_bias(im, a, v);
}

struct imp_places imp_attention_places(struct imp *im, const struct imp_attention *a, struct ir_value *offset)
{
    ir_expr dims[2] = {imp_dim(a->q, 2), imp_dim(a->k, 2)};
    struct imp_places at = {imp_iota(im, 2, dims, 0, TCC_I64), NULL};
    at.key = imp_iota(im, 2, dims, 1, TCC_I64);
    at.query = offset ? imp_bin(im, IR_add, at.query, offset) : at.query;
    return at;
}

static struct ir_value *both(struct imp *im, struct ir_value *x, struct ir_value *y)
{
    return x ? imp_bin(im, IR_and, x, y) : y;
}

bool imp_attention_reach(struct imp *im, struct imp_attention *a, struct imp_places at, bool causal, int64_t left,
                         int64_t right)
{
    struct ir_value *distance = left >= 0 || right >= 0 ? imp_bin(im, IR_sub, at.query, at.key) : NULL;
    struct ir_value *seen = causal ? imp_bin(im, IR_le, at.key, at.query) : NULL;
    if (left >= 0)
        seen = both(im, seen, imp_bin(im, IR_le, distance, imp_int(im, TCC_I64, left)));
    if (right >= 0)
        seen = both(im, seen, imp_bin(im, IR_ge, distance, imp_int(im, TCC_I64, -right)));
    return (!causal && left < 0 && right < 0) || imp_attention_mask(im, a, seen, -INFINITY);
}

bool imp_attention_end(struct imp *im, struct imp_attention *a, struct ir_value *end)
{
    ir_expr keys = imp_dim(a->k, 2);
    return imp_attention_mask(im, a, imp_bin(im, IR_lt, imp_iota(im, 1, &keys, 0, TCC_I64), end), -INFINITY);
}

struct ir_value *imp_behind_past(struct imp *im, struct ir_value *past, struct ir_value *now, struct ir_value *rows,
                                 ir_expr size)
{
    struct ir_value *both[] = {past, now};
    if (!past || !now)
        return now;
    if (!rows)
        return imp_concat(im, 2, both, 2);
    ir_expr zero = ir_const(im->ctx, 0), none[4] = {zero, zero, zero, zero};
    ir_expr after[4] = {zero, zero, ir_sub(im->ctx, size, imp_dim(past, 2)), zero};
    past = imp_pad(im, past, NULL, none, after, "constant");
    struct ir_value *in[] = {past, imp_expand(im, rows, 4, now->type->dim), now};
    return imp_op(im, IR_scatter_elements, 3, in,
                  IR_ATTRS(ir_attr_i(IR_ATTR_axis, 2), ir_attr_s(IR_ATTR_mode, "none")));
}

/* -- The weights */

/* softmax over the keys and one more score per head that has no value. */
static struct ir_value *softmax_with_sink(struct imp *im, struct ir_value *scores, struct ir_value *sink)
{
    ir_expr one = ir_const(im->ctx, 1), dims[4] = {one, imp_dim(scores, 1), one, one}, wide[4];
    for (int k = 0; k < 4; k++)
        wide[k] = k == 3 ? one : imp_dim(scores, k);
    sink = imp_reshape(im, imp_cast(im, sink, imp_dtype(scores)), 4, dims);
    struct ir_value *in[2] = {scores, sink ? imp_expand(im, sink, 4, wide) : NULL};
    struct ir_value *p = in[1] ? imp_concat(im, 2, in, 3) : NULL;
    p = p ? imp_softmax(im, p, 3, false) : NULL;
    return imp_slice1(im, p, 3, ir_const(im->ctx, 0), imp_dim(scores, 3));
}

/* Where x along the axis is nothing but -inf. */
static struct ir_value *all_hidden(struct imp *im, struct ir_value *x, int64_t axis)
{
    struct ir_value *most = imp_reduce(im, IR_reduce_max, x, 1, &axis, true);
    return imp_with(im, IR_eq, most, -INFINITY);
}

/* The row of hidden elements has no largest: it is taken as zeros, so that it has no gradient that is not a number, and
 * gives zeros. */
struct ir_value *imp_safe_softmax(struct imp *im, struct ir_value *x, int axis)
{
    struct ir_value *hidden = all_hidden(im, x, axis), *zero = imp_like(im, x, 0);
    return imp_select(im, hidden, zero, imp_softmax(im, imp_select(im, hidden, zero, x), axis, false));
}

static struct ir_value *weights_of(struct imp *im, const struct imp_attention *a, struct ir_value *scores)
{
    if (!scores)
        return NULL;
    if (a->sink)
        return softmax_with_sink(im, scores, a->sink);
    if (forms[a->form].hidden == SCORED)
        return imp_safe_softmax(im, scores, imp_rank(scores) - 1);
    struct ir_value *p = imp_softmax(im, scores, imp_rank(scores) - 1, false);
    if (forms[a->form].hidden == NAN_ROWS || imp_rank(a->bias) < 1 || !p)
        return p;
    struct ir_value *hidden = all_hidden(im, a->bias, imp_rank(a->bias) - 1);
    return imp_select(im, hidden, imp_like(im, p, 0), p);
}

/* cap * tanh(x / cap); x where cap is 0. */
static struct ir_value *capped(struct imp *im, struct ir_value *x, double cap)
{
    return cap > 0 ? imp_with(im, IR_mul, imp_un(im, IR_tanh, imp_with(im, IR_div, x, cap)), cap) : x;
}

static struct ir_value *scores_of(struct imp *im, struct imp_attention *a, struct ir_value *q, struct ir_value *k)
{
    struct ir_value *x = imp_matmul(im, q, k, false, true, TCC_NONE);
    if (forms[a->form].scaled == SCORES)
        x = imp_bin(im, IR_mul, x, imp_head_scale(im, q, a->scale, false));
    a->products = x;
    a->capped = x = capped(im, x, a->softcap);
    x = a->bias ? imp_bin(im, IR_add, x, a->bias) : x;
    return a->change ? a->change(im, x, false, a->context) : x;
}

struct ir_value *imp_attend(struct imp *im, struct imp_attention *a)
{
    struct imp_heads heads;
    if (!a->q || !a->k || !a->v || !head_ratio(im, a->q, a->k, &heads))
        return NULL;
    if (!imp_is_float(a->q) || !imp_is_float(a->k) || !imp_is_float(a->v))
        return imp_bad(im, "attention of %s; floats are expected", ir_type_text(im->ctx, a->q->type)), NULL;
    enum tcc_dtype to = imp_dtype(a->q), in = computed_in(a);
    struct ir_value *scale = forms[a->form].scaled == BOTH ? imp_head_scale(im, a->q, a->scale, true) : NULL;
    struct ir_value *q = imp_cast(im, a->q, in), *k = imp_cast(im, imp_repeat_heads(im, a->k, &heads), in),
                    *v = imp_repeat_heads(im, a->v, &heads);
    v = forms[a->form].wide ? imp_cast(im, v, in) : v;
    if (forms[a->form].scaled == BOTH) {
        k = imp_bin(im, IR_mul, k, scale);
        q = imp_bin(im, IR_mul, q, scale);
    }
    struct ir_value *x = scores_of(im, a, q, k);
    a->scores = imp_cast(im, x, to);
    struct ir_value *p = weights_of(im, a, a->softmax != TCC_NONE ? imp_cast(im, x, a->softmax) : x);
    p = imp_cast(im, a->change ? a->change(im, p, true, a->context) : p, in);
    a->weights = imp_cast(im, p, to);
    struct ir_value *y = imp_matmul(im, imp_cast(im, p, imp_dtype(v)), v, false, false, TCC_NONE);
    return imp_cast(im, y, imp_dtype(a->v));
}

/* -- Rotation: pairs of elements are turned by the angle of their position */

struct ir_value *imp_angles(struct imp *im, struct ir_value *cache, struct ir_value *positions)
{
    int64_t axis = 1;
    if (positions)
        cache = imp_gather_row(im, cache, positions);
    return cache && imp_rank(cache) == 3
               ? imp_unsqueeze(im, cache, 1, &axis)
               : (imp_bad(im, "caches [b, s, d], or [n, d] with positions, are expected"), NULL);
}

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

struct ir_value *imp_rotate(struct imp *im, struct ir_value *x, struct ir_value *cosine, struct ir_value *sine,
                            ir_expr turned, bool interleaved)
{
    struct ir_ctx *c = im->ctx;
    if (!x || !cosine || !sine)
        return NULL;
    ir_expr whole = imp_dim(x, 3), none = ir_const(c, 0);
    turned = turned ? turned : whole;
    ir_expr half = ir_floordiv(c, turned, ir_const(c, 2));
    struct ir_value *re_part = interleaved ? every_second(im, x, 0, half) : imp_slice1(im, x, 3, none, half);
    struct ir_value *im_part = interleaved ? every_second(im, x, 1, half) : imp_slice1(im, x, 3, half, half);
    struct ir_value *pair[2] = {imp_formula(im, "y * z - x * u", sine, cosine, re_part, im_part)};
    pair[1] = imp_formula(im, "x * z + y * u", sine, cosine, re_part, im_part);
    if (!pair[0] || !pair[1])
        return NULL;
    if (interleaved) {
        int64_t axis = 4;
        ir_expr dims[4] = {imp_dim(x, 0), imp_dim(x, 1), imp_dim(x, 2), turned};
        pair[0] = imp_unsqueeze(im, pair[0], 1, &axis);
        pair[1] = imp_unsqueeze(im, pair[1], 1, &axis);
        pair[0] = imp_reshape(im, imp_concat(im, 2, pair, 4), 4, dims);
    } else {
        pair[0] = imp_concat(im, 2, pair, 3);
    }
    if (turned == whole)
        return pair[0];
    pair[1] = imp_slice1(im, x, 3, turned, ir_sub(c, whole, turned));
    return imp_concat(im, 2, pair, 3);
}
