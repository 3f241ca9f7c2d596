/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention and what models put around it: Attention, FlexAttention, RotaryEmbedding, TensorScatter, LinearAttention,
 * CausalConvWithState, SwiGLU.
 */
#include "compiler/import/attention.h"
#include "compiler/onnx/import_int.h"

#include <math.h>
#include <string.h>

/* What attributes say: how much of a head is turned, NULL: nothing. */
ir_expr imp_turned(struct imp *im)
{
    int64_t part = imp_i(im, "rotary_embedding_dim", 0);
    return part ? ir_const(im->ctx, part) : NULL;
}

/* From opset 24 on the mask may be shorter than the keys, be it one wide: what is missing is masked. Before it is
 * broadcast, as the functions of the operator have it. */
static bool add_mask(struct imp *im, struct imp_attention *a, struct ir_value *mask)
{
    if (!mask)
        return true;
    bool logical = imp_dtype(mask) == TCC_BOOL;
    int r = imp_rank(mask);
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK], keys = imp_dim(a->k, 2);
    for (int k = 0; k < r; k++)
        before[k] = after[k] = ir_const(im->ctx, 0);
    if (r && im->opset >= 24) {
        after[r - 1] = ir_max(im->ctx, ir_const(im->ctx, 0), ir_sub(im->ctx, keys, imp_dim(mask, r - 1)));
        mask = imp_pad(im, mask, logical ? imp_int(im, TCC_BOOL, 0) : imp_like(im, mask, -INFINITY), before, after,
                       "constant");
    }
    return mask && (logical ? imp_attention_mask(im, a, mask, -INFINITY) : imp_attention_bias(im, a, mask));
}

/* Which keys each query sees. `past`: keys in front of these; `valid`: the number of keys of each sample, the queries
 * being its last ones. Either may be NULL. */
static bool add_positions(struct imp *im, struct imp_attention *a, struct ir_value *past, struct ir_value *valid)
{
    int64_t left = imp_i(im, "left_window_size", -1), right = imp_i(im, "right_window_size", -1);
    bool causal = imp_i(im, "is_causal", 0);
    ir_expr one = ir_const(im->ctx, 1), dims[4] = {imp_dim(a->q, 0), one, one, one};
    struct ir_value *end = valid ? imp_reshape(im, valid, 4, dims) : NULL, *offset = NULL;
    if (valid && !end)
        return false;
    if (causal || left >= 0 || right >= 0) {
        if (past)
            offset = imp_dim_value(im, imp_dim(past, 2));
        else if (end)
            offset = imp_bin(im, IR_sub, end, imp_dim_value(im, imp_dim(a->q, 2)));
        if (!imp_attention_reach(im, a, imp_attention_places(im, a, offset), causal, left, right))
            return false;
    }
    return !valid || (imp_check_all(im, valid, imp_dim(a->k, 2), "a sample's number of keys (nonpad_kv_seqlen)") &&
                      imp_attention_end(im, a, end));
}

bool onnx_op_attention(struct imp *im)
{
    struct imp_attention a = {.form = IMP_ATTENTION_ONNX,
                              .scale = imp_f(im, "scale", 0),
                              .softcap = imp_f(im, "softcap", 0),
                              .q = imp_tensor(im, 0)};
    struct ir_value *past_k = imp_in(im, 4), *past_v = imp_in(im, 5);
    if (imp_attr(im, "scale") && !(a.scale > 0)) /* its root scales both factors, and 0 is none */
        return imp_bad(im, "scale %g; a positive one is expected", a.scale);
    a.k = a.q ? imp_tensor(im, 1) : NULL;
    a.v = a.k ? imp_tensor(im, 2) : NULL;
    if (!a.v)
        return false;
    int rank = imp_rank(a.q);
    if ((rank != 3 && rank != 4) || imp_rank(a.k) != rank || imp_rank(a.v) != rank || !past_k != !past_v)
        return imp_bad(im, "Q, K, V with 3 or with 4 dims, and both past_key and past_value or neither are expected");
    a.q = imp_split_heads(im, a.q, imp_i(im, "q_num_heads", 0));
    a.k = imp_behind_past(im, past_k, imp_split_heads(im, a.k, imp_i(im, "kv_num_heads", 0)), NULL, NULL);
    a.v = imp_behind_past(im, past_v, imp_split_heads(im, a.v, imp_i(im, "kv_num_heads", 0)), NULL, NULL);
    if (!a.q || !a.k || !a.v || (imp_wants(im, 1) && !imp_out(im, 1, a.k)) ||
        (imp_wants(im, 2) && !imp_out(im, 2, a.v)))
        return false;
    if (!add_mask(im, &a, imp_in(im, 3)) || !add_positions(im, &a, past_k, imp_in(im, 6)))
        return false;
    if (imp_attr(im, "softmax_precision") &&
        (a.softmax = imp_dtype_of(im, imp_i(im, "softmax_precision", 1))) == TCC_NONE)
        return false;
    struct ir_value *y = imp_attend(im, &a);
    struct ir_value *const shown[] = {a.products, a.capped, a.scores, a.weights};
    return imp_out(im, 0, rank == 3 ? imp_join_heads(im, y) : y) &&
           (!imp_wants(im, 3) || imp_out(im, 3, shown[imp_i(im, "qk_matmul_output_mode", 0)]));
}

/* score_mod, prob_mod: a graph attribute with one tensor in and one out, imported where it stands. */
static struct ir_value *modify(struct imp *im, struct ir_value *x, bool weights, void *context)
{
    const char *name = weights ? "prob_mod" : "score_mod";
    const struct onnx_attr *a = imp_attr(im, name);
    (void)context;
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
    struct imp_attention a = {
        .form = IMP_ATTENTION_WIDE, .scale = imp_f(im, "scale", 0), .change = modify, .q = imp_tensor(im, 0)};
    a.k = a.q ? imp_tensor(im, 1) : NULL;
    a.v = a.k ? imp_tensor(im, 2) : NULL;
    if (!a.v)
        return false;
    if (imp_rank(a.q) != 4 || imp_rank(a.k) != 4 || imp_rank(a.v) != 4)
        return imp_bad(im, "Q, K, V with 4 dims are expected");
    if (imp_attr(im, "softmax_precision") &&
        (a.computed = imp_dtype_of(im, imp_i(im, "softmax_precision", 1))) == TCC_NONE)
        return false;
    return imp_out(im, 0, imp_attend(im, &a));
}

/* -- RotaryEmbedding */

/* ONNX Runtime's positions: 1, that of the first token, or [b, s]. */
static struct ir_value *positions_of(struct imp *im, struct ir_value *ids, ir_expr tokens)
{
    if (!ids || imp_rank(ids) == 2)
        return ids;
    ir_expr dims[2] = {ir_const(im->ctx, 1), tokens};
    struct ir_value *first = imp_reshape(im, imp_cast(im, ids, TCC_I64), 0, NULL);
    return first ? imp_bin(im, IR_add, imp_iota(im, 2, dims, 1, TCC_I64), first) : NULL;
}

/* MRotaryEmbedding's angles [b, 1, s, d]: each column's are those of one of three positions (time, height, width) of
 * [3, b, s]. mrope_layout 0: in three sections of columns; 1: by turns, as far as height and width go. */
static struct ir_value *mixed_angles(struct imp *im, struct ir_value *cache, struct ir_value *positions)
{
    int n;
    const int64_t *section = imp_ints(im, "mrope_section", &n);
    ir_expr dims[2];
    if (imp_i(im, "is_packed_batching", 0) || imp_f(im, "scale", 1) != 1)
        return imp_unsupported(im, "is_packed_batching, or a scale"), NULL;
    if (n != 3 || !positions || imp_rank(positions) != 3 || !ir_is_value(imp_dim(positions, 0), 3))
        return imp_bad(im, "position_ids[3, b, s] and three sections are expected"), NULL;
    int64_t columns = section[0] + section[1] + section[2];
    if (!imp_assume(im, IR_EQ, imp_dim(cache, 1), ir_const(im->ctx, columns), "the caches' columns and mrope_section"))
        return NULL;
    bool turns = imp_i(im, "mrope_layout", 0);
    struct ir_tensor *t = ir_tensor_new(TCC_I64, 1, &columns);
    int64_t *of = t ? (int64_t *)(uintptr_t)t->data : NULL;
    for (int64_t k = 0; of && k < columns; k++)
        of[k] =
            turns ? (k % 3 && k < 3 * section[k % 3] ? k % 3 : 0) : (k >= section[0]) + (k >= section[0] + section[1]);
    dims[0] = imp_dim(positions, 1);
    dims[1] = imp_dim(positions, 2);
    struct ir_value *stream = imp_const(im, t), *angles = NULL;
    for (int64_t k = 0; stream && k < 3; k++) {
        struct ir_value *at = imp_slice1(im, positions, 0, ir_const(im->ctx, k), ir_const(im->ctx, 1));
        struct ir_value *one = imp_angles(im, cache, imp_reshape(im, at, 2, dims));
        angles = angles ? imp_select(im, imp_with(im, IR_eq, stream, (double)k), one, angles) : one;
        if (!angles)
            return NULL;
    }
    return angles;
}

/* argument 1: ONNX Runtime's, whose positions stand in front of the caches, and say how many heads there are; 2: its
 * MRotaryEmbedding. */
bool onnx_op_rotary(struct imp *im)
{
    int own = im->row->arg > 0, mixed = im->row->arg == 2;
    struct ir_value *x = imp_tensor(im, 0), *cosine = imp_in(im, 1 + own), *sine = imp_in(im, 2 + own),
                    *positions = imp_in(im, own ? 1 : 3);
    int64_t heads = imp_i(im, "num_heads", 0), size, hidden;
    if (!x)
        return false;
    bool flat = imp_rank(x) == 3;
    if ((!flat && imp_rank(x) != 4) || !cosine || !sine || (own && imp_rank(cosine) != 2))
        return imp_bad(im, "X with 3 or 4 dims and both caches are expected");
    if (own && flat && !heads) {
        if (!ir_is_const(imp_dim(cosine, 1), &size) || !ir_is_const(imp_dim(x, 2), &hidden) || size < 1)
            return imp_open_size(im, imp_dim(cosine, 1), imp_dim(x, 2), "heads whose size is known only at run time");
        heads = hidden / (2 * size);
    }
    x = imp_split_heads(im, x, heads);
    if (own && !mixed && x && !(positions = positions_of(im, positions, imp_dim(x, 2))))
        return false;
    cosine = mixed ? mixed_angles(im, cosine, positions) : imp_angles(im, cosine, positions);
    sine = mixed ? mixed_angles(im, sine, positions) : imp_angles(im, sine, positions);
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
        struct ir_value *size = imp_dim_value(im, imp_dim(cache, (int)axis));
        struct ir_value *zero = imp_like(im, imp_along(im, at, 0, rank), 0);
        index = imp_select(im, imp_bin(im, IR_lt, imp_along(im, at, 0, rank), zero), size, index);
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
    if (imp_i(im, "state_window", 0) || imp_i(im, "channels_last", 0) || imp_i(im, "ndim", 1) != 1)
        return imp_unsupported(im, "state_window, channels_last, and more than one spatial axis");
    if (imp_rank(x) != 3 || imp_rank(w) != 3)
        return imp_bad(im, "x[b, c, n] and w[c, 1, k] are expected");
    if (!ir_is_const(imp_dim(w, 2), &k) || !ir_is_const(imp_dim(w, 0), &channels))
        return imp_open_size(im, imp_dim(w, 0), imp_dim(w, 2), "w[c, 1, k] whose size is known only at run time");
    const char *activation = imp_s(im, "activation", "none");
    int64_t dilation = imp_i(im, "dilation", 1);
    ir_expr zero = ir_const(im->ctx, 0), front = ir_const(im->ctx, (k - 1) * dilation);
    ir_expr before[3] = {zero, zero, front}, after[3] = {zero, zero, zero};
    struct ir_value *joined[2] = {past, x};
    struct ir_value *padded = past ? imp_concat(im, 2, joined, 2) : imp_pad(im, x, NULL, before, after, "constant");
    if (!padded)
        return false;
    struct imp_window window = {1, {k}, {1}, {dilation}, {NULL}, {zero}, {zero}};
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
    struct ir_value *gate = alpha == 1 ? imp_un(im, IR_silu, a) : imp_with(im, IR_swish, a, alpha);
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
static struct ir_value *by_time(struct imp *im, struct ir_value *x, ir_expr heads, enum tcc_dtype wide)
{
    static const int64_t perm[4] = {1, 0, 2, 3};
    if (!x)
        return NULL;
    if (imp_rank(x) != 3)
        return imp_bad(im, "%s; 3 dims are expected", ir_type_text(im->ctx, x->type)), NULL;
    ir_expr last = imp_dim(x, 2), dims[4] = {imp_dim(x, 0), imp_dim(x, 1), heads ? heads : last,
                                             heads ? ir_floordiv(im->ctx, last, heads) : ir_const(im->ctx, 1)};
    return imp_transpose(im, imp_cast(im, imp_reshape(im, x, 4, dims), wide), perm);
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
    struct ir_value *state_heads = imp_repeat_heads(im, s, &l->heads);
    struct ir_value *y = imp_matmul(im, imp_unsqueeze(im, q, 1, &middle), state_heads, false, false, TCC_NONE);
    *out = imp_bin(im, IR_mul, imp_squeeze(im, y, 1, &middle), l->scale);
    *state = s;
    return *out && s;
}

static struct ir_node *linear_loop(struct imp *im, const struct linear *l, struct ir_value *initial)
{
    struct ir_builder outside;
    ir_expr dims[4] = {imp_dim(l->q, 0), imp_dim(l->q, 1), imp_dim(l->q, 2), imp_dim(l->v, 3)};
    ir_type types[2] = {initial->type, ir_tensor_type(im->ctx, imp_dtype(initial), 4, dims)};
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
    if (imp_i(im, "state_window", 0))
        return imp_unsupported(im, "state_window: the state of each of the last tokens");
    struct linear l = {.gated = strstr(rule, "gated"), .delta = strstr(rule, "delta")};
    if (!v)
        return false;
    if (hq < 1 || hk < 1 || hq % hk || imp_rank(q) != 3 || imp_rank(k) != 3 || imp_rank(v) != 3 || l.gated != !!decay ||
        l.delta != !!beta)
        return imp_bad(im, "Q, K, V with 3 dims, head numbers, and the operands of update_rule '%s' are expected",
                       rule);
    l.heads = (struct imp_heads){ir_const(im->ctx, hq / hk), ir_const(im->ctx, hq)};
    enum tcc_dtype wide = tcc_wide_float(imp_dtype(q));
    l.q = by_time(im, q, ir_const(im->ctx, hq), wide);
    l.k = by_time(im, k, heads, wide);
    l.v = by_time(im, v, heads, wide);
    l.decay = by_time(im, decay, heads, wide);
    l.beta = by_time(im, beta, NULL, wide);
    if (!l.q || !l.k || !l.v || (decay && !l.decay) || (beta && !l.beta))
        return false;
    if (!linear_sizes(im, &l))
        return false;
    l.scale = imp_cast(im, imp_head_scale(im, l.q, imp_f(im, "scale", 0), false), wide);
    ir_expr dims[4] = {imp_dim(q, 0), heads, imp_dim(l.k, 3), imp_dim(l.v, 3)};
    struct ir_value *initial = past ? imp_cast(im, past, wide) : imp_splat(im, wide, 0, 4, dims);
    initial = initial ? imp_expand(im, initial, 4, dims) : NULL;
    struct ir_node *loop = initial ? linear_loop(im, &l, initial) : NULL;
    if (!loop)
        return false;
    struct ir_value *y = imp_transpose(im, loop->out[1], order);
    ir_expr flat[3] = {imp_dim(q, 0), imp_dim(q, 1), ir_mulc(im->ctx, dims[3], hq)};
    return imp_out(im, 0, imp_cast(im, imp_reshape(im, y, 3, flat), imp_dtype(q))) &&
           (!imp_wants(im, 1) || imp_out(im, 1, imp_cast(im, loop->out[0], past ? imp_dtype(past) : imp_dtype(q))));
}
