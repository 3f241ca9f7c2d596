/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Runtime's mixtures of experts, MoE and QMoE: each token goes through the feed-forward networks of the k experts
 * whose logits are the largest, and gets the sum of what they say, weighted by softmax. Mixtral, gpt-oss and Qwen's
 * MoE are exported so.
 *
 * With as many tokens as all experts are needed for, every expert takes every token, as two products of matrices: the
 * experts of a layer are one matrix, and the weights, 0 of experts that were not chosen, are multiplied in between.
 * With fewer (a decoder's next token) the weights of those that were chosen are read and no others.
 * Source: ONNX Runtime, docs/ContribOperators.md; what its kernels for the CPU do where that leaves it open.
 */
#include "compiler/onnx/quant_int.h"

#include <math.h>
#include <string.h>

/* One layer of all experts. */
struct layer {
    struct ir_value *w;            /* [experts, n, k]; with bits bytes [experts, n, k * bits / 8] */
    struct ir_value *bias;         /* [experts, n], or NULL */
    struct ir_value *scale, *zero; /* with bits, [experts, n, blocks, 1]; zero: [] where all are one */
    int64_t n, k, bits;            /* bits 0: floats */
};

struct experts {
    struct layer fc[3];      /* fc[2].w NULL: there is none */
    struct ir_value *x;      /* [tokens, hidden], at least f32 */
    struct ir_value *which;  /* i64[tokens, k], the experts that were chosen */
    struct ir_value *weight; /* [tokens, k] */
    ir_expr tokens;
    int64_t number, k; /* of experts; of those that a token goes to */
};

/* -- Operands */

static bool read_bytes(struct imp *im, struct layer *l, int64_t number, struct ir_value *scale, struct ir_value *zero)
{
    struct ir_ctx *c = im->ctx;
    int64_t block = imp_i(im, "block_size", 0), count = block > 0 ? l->k / block : 1;
    ir_expr dims[4] = {ir_const(c, number), ir_const(c, l->n), ir_const(c, count), ir_const(c, 1)};
    if (!scale || imp_dtype(l->w) != TCC_U8 || (block > 0 && l->k % block))
        return imp_bad(im, "weights of u8 with scales, and blocks that fill their rows, are expected");
    l->scale = imp_reshape(im, imp_wide(im, scale), 4, dims);
    l->zero = imp_num(im, TCC_F32, (double)(1 << (l->bits - 1)));
    if (zero) { /* packed along the blocks, or along the results where a row is one block */
        int axis = block > 0 ? 2 : 1;
        zero = imp_unpack_bytes(im, zero, (int)l->bits);
        if (imp_rank(zero) != axis + 1)
            return zero && imp_bad(im, "zero points with %d dims are expected", axis + 1);
        zero = imp_slice1(im, zero, axis, ir_const(c, 0), dims[axis]);
        l->zero = imp_reshape(im, imp_cast(im, zero, TCC_F32), 4, dims);
    }
    return l->scale && l->zero;
}

/* Layer `k` (from 0) by its operands. */
static bool read_layer(struct imp *im, struct experts *e, int k, bool bytes)
{
    static const char *const own[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
    struct layer *l = &e->fc[k];
    int at = bytes ? 2 + 3 * k : 2 + 2 * k;
    int64_t dims[TCC_MAX_RANK];
    l->w = imp_in(im, at);
    l->bias = imp_wide(im, imp_in(im, at + 1 + bytes));
    if (!l->w)
        return k == 2 || imp_bad(im, "operand %d is missing", at);
    if (imp_rank(l->w) != 3 || !ir_static_dims(l->w->type, dims) || (e->number && dims[0] != e->number) || !dims[0])
        return imp_bad(im, "weights with 3 dims, the first of them the number of experts, are expected");
    l->bits = bytes ? imp_i(im, own[k], imp_i(im, "expert_weight_bits", 4)) : 0;
    if (bytes && l->bits != 2 && l->bits != 4 && l->bits != 8)
        return imp_unsupported(im, "weights of %lld bits", (long long)l->bits);
    e->number = dims[0];
    l->n = dims[1];
    l->k = bytes ? dims[2] * 8 / l->bits : dims[2];
    return !bytes || read_bytes(im, l, e->number, imp_in(im, at + 1), imp_in(im, 11 + k));
}

/* The experts of each token and their weights. */
static bool route(struct imp *im, struct experts *e, struct ir_value *logits, bool bytes)
{
    struct ir_value *given = bytes ? imp_wide(im, imp_in(im, 14)) : NULL;
    bool normalise = imp_i(im, "normalize_routing_weights", 0);
    int64_t last = 1;
    logits = imp_wide(im, logits);
    ir_expr dims[2] = {e->tokens, ir_const(im->ctx, e->number)};
    const char *const what[2] = {"router_probs has a row a token", "router_probs has a column an expert"};
    if (imp_rank(logits) != 2 || !(logits = imp_with_dims(im, logits, dims, what)))
        return logits && imp_bad(im, "router_probs with 2 dims are expected");
    if (e->k < 1 || e->k > e->number)
        return imp_bad(im, "k is %lld, of %lld experts", (long long)e->k, (long long)e->number);
    struct ir_node *top = imp_topk(im, logits, 1, ir_const(im->ctx, e->k), true, true);
    if (!top)
        return false;
    e->which = top->out[1];
    if (given) {
        e->weight = imp_gather_elements(im, given, e->which, 1);
        if (normalise)
            e->weight = imp_bin(im, IR_div, e->weight, imp_reduce(im, IR_reduce_sum, e->weight, 1, &last, true));
    } else if (normalise || bytes) { /* QMoE's do so whatever the attribute says */
        e->weight = imp_softmax(im, top->out[0], 1, false);
    } else {
        e->weight = imp_gather_elements(im, imp_softmax(im, logits, 1, false), e->which, 1);
    }
    return e->weight;
}

/* -- Layers */

/* Weights as floats [experts, n, k], of all experts or of those (i64[m]) that are picked. */
static struct ir_value *weights(struct imp *im, const struct layer *l, struct ir_value *pick)
{
    struct ir_ctx *c = im->ctx;
    struct ir_value *w = pick ? imp_gather(im, l->w, pick, 0) : l->w;
    if (!l->bits)
        return imp_wide(im, w);
    struct ir_value *scale = pick ? imp_gather(im, l->scale, pick, 0) : l->scale;
    struct ir_value *zero = pick && imp_rank(l->zero) ? imp_gather(im, l->zero, pick, 0) : l->zero;
    w = imp_unpack_bytes(im, w, (int)l->bits);
    if (!w || !scale || !zero)
        return NULL;
    int64_t count = 1;
    ir_is_const(imp_dim(l->scale, 2), &count);
    ir_expr blocks[4] = {imp_dim(w, 0), ir_const(c, l->n), ir_const(c, count), ir_const(c, l->k / count)};
    ir_expr rows[3] = {blocks[0], blocks[1], ir_const(c, l->k)};
    w = imp_cast(im, imp_reshape(im, w, 4, blocks), TCC_F32);
    w = imp_bin(im, IR_mul, imp_bin(im, IR_sub, w, zero), scale);
    return imp_reshape(im, w, 3, rows);
}

/* x [tokens, k] by every expert: [tokens, experts, n]. */
static struct ir_value *by_all(struct imp *im, const struct experts *e, const struct layer *l)
{
    struct ir_ctx *c = im->ctx;
    ir_expr flat[2] = {ir_const(c, e->number * l->n), ir_const(c, l->k)},
            apart[3] = {e->tokens, ir_const(c, e->number), ir_const(c, l->n)};
    struct ir_value *w = imp_reshape(im, weights(im, l, NULL), 2, flat);
    struct ir_value *y = imp_reshape(im, imp_matmul(im, e->x, w, false, true, TCC_NONE), 3, apart);
    return y && l->bias ? imp_bin(im, IR_add, y, l->bias) : y;
}

/* x [tokens, k or 1, k] by the experts of each token: [tokens, k, n]. */
static struct ir_value *by_chosen(struct imp *im, const struct experts *e, const struct layer *l, struct ir_value *x)
{
    struct ir_ctx *c = im->ctx;
    ir_expr k = ir_const(c, e->k), flat = ir_mul(c, e->tokens, k),
            apart[4] = {e->tokens, k, ir_const(c, l->n), ir_const(c, l->k)};
    int64_t row = 2, last = 3;
    struct ir_value *w = weights(im, l, imp_reshape(im, e->which, 1, &flat));
    w = imp_reshape(im, w, 4, apart);
    struct ir_value *y = imp_bin(im, IR_mul, w, imp_unsqueeze(im, x, 1, &row));
    y = imp_reduce(im, IR_reduce_sum, y, 1, &last, false);
    return y && l->bias ? imp_bin(im, IR_add, y, imp_gather(im, l->bias, e->which, 0)) : y;
}

/* What lies between the layers: y and third (NULL: none), [tokens, experts, n]. */
static struct ir_value *activated(struct imp *im, struct ir_value *y, struct ir_value *third)
{
    const char *name = imp_s(im, "activation_type", "relu");
    int64_t fused = imp_i(im, "swiglu_fusion", 0);
    double limit = imp_f(im, "swiglu_limit", INFINITY);
    struct ir_ctx *c = im->ctx;
    if (strcmp(name, "swiglu")) {
        y = !strcmp(name, "identity") ? y
            : !strcmp(name, "silu")   ? imp_with(im, IR_swish, y, 1)
                                      : imp_un(im, !strcmp(name, "gelu") ? IR_gelu : IR_relu, y);
        return third ? imp_bin(im, IR_mul, y, third) : y;
    }
    if (fused && y) {
        ir_expr half = ir_floordiv(c, imp_dim(y, 2), ir_const(c, 2)), two = ir_const(c, 2);
        ir_expr dims[4] = {imp_dim(y, 0), imp_dim(y, 1), fused == 1 ? half : two, fused == 1 ? two : half};
        int axis = fused == 1 ? 3 : 2;
        int64_t drop = axis;
        struct ir_value *pairs = imp_reshape(im, y, 4, dims);
        third = imp_squeeze(im, imp_slice1(im, pairs, axis, ir_const(c, 1), ir_const(c, 1)), 1, &drop);
        y = imp_squeeze(im, imp_slice1(im, pairs, axis, ir_const(c, 0), ir_const(c, 1)), 1, &drop);
    }
    if (!y || !third)
        return y ? (imp_bad(im, "swiglu without swiglu_fusion asks for fc3"), NULL) : NULL;
    if (isfinite(limit)) {
        y = imp_with(im, IR_min, y, limit);
        third = imp_with(im, IR_max, imp_with(im, IR_min, third, limit), -limit);
    }
    y = imp_with(im, IR_swish, y, imp_f(im, "activation_alpha", 1));
    return imp_bin(im, IR_mul, y, imp_with(im, IR_add, third, imp_f(im, "activation_beta", 0)));
}

static struct ir_value *all_experts(struct imp *im, const struct experts *e)
{
    static const int64_t turned[3] = {0, 2, 1};
    const struct layer *second = &e->fc[1];
    struct ir_ctx *c = im->ctx;
    ir_expr number = ir_const(c, e->number), inner = ir_const(c, e->number * second->k),
            flat[2] = {inner, ir_const(c, second->n)}, rows[2] = {e->tokens, inner};
    int64_t last = 2, middle = 1;
    struct ir_value *y = by_all(im, e, &e->fc[0]), *third = e->fc[2].w ? by_all(im, e, &e->fc[2]) : NULL;
    y = activated(im, y, third);
    struct ir_value *which = imp_unsqueeze(im, e->which, 1, &last), *weight = imp_unsqueeze(im, e->weight, 1, &last);
    struct ir_value *own = imp_bin(im, IR_eq, which, imp_iota(im, 1, &number, 0, imp_dtype(e->which)));
    own = imp_select(im, own, weight, imp_like(im, e->weight, 0));
    own = imp_reduce(im, IR_reduce_sum, own, 1, &middle, false);
    y = imp_reshape(im, imp_bin(im, IR_mul, y, imp_unsqueeze(im, own, 1, &last)), 2, rows);
    struct ir_value *w = imp_reshape(im, imp_transpose(im, weights(im, second, NULL), turned), 2, flat);
    y = imp_matmul(im, y, w, false, false, TCC_NONE);
    return y && second->bias ? imp_bin(im, IR_add, y, imp_matmul(im, own, second->bias, false, false, TCC_NONE)) : y;
}

static struct ir_value *chosen_experts(struct imp *im, const struct experts *e)
{
    int64_t middle = 1, last = 2;
    struct ir_value *x = imp_unsqueeze(im, e->x, 1, &middle), *y = by_chosen(im, e, &e->fc[0], x);
    y = activated(im, y, e->fc[2].w ? by_chosen(im, e, &e->fc[2], x) : NULL);
    y = by_chosen(im, e, &e->fc[1], y);
    y = imp_bin(im, IR_mul, y, imp_unsqueeze(im, e->weight, 1, &last));
    return imp_reduce(im, IR_reduce_sum, y, 1, &middle, false);
}

/* chosen_experts() or all_experts(), as the number of tokens turns out. */
static struct ir_value *by_tokens(struct imp *im, const struct experts *e)
{
    int64_t tokens, few = (e->number - 1) / e->k; /* so many do not need every expert */
    if (im->training || !few)
        return all_experts(im, e);
    if (ir_is_const(e->tokens, &tokens))
        return tokens <= few ? chosen_experts(im, e) : all_experts(im, e);
    ir_expr dims[2] = {e->tokens, ir_const(im->ctx, e->fc[1].n)};
    ir_type type = ir_tensor_type(im->ctx, imp_dtype(e->x), 2, dims);
    struct ir_value *limit = imp_int(im, TCC_I64, few), *is = imp_bin(im, IR_le, imp_dim_value(im, e->tokens), limit);
    struct ir_node *node =
        is ? ir_build_typed(&im->b, IR_if, 1, &is, IR_ATTRS(ir_attr_types(IR_ATTR_types, 1, &type)), 1, &type) : NULL;
    struct ir_builder outside;
    for (int k = 0; node && k < 2; k++) {
        imp_open_region(im, node, &outside);
        struct ir_value *y = k ? all_experts(im, e) : chosen_experts(im, e);
        bool fine = y && imp_yield(im, 1, &y);
        imp_close_region(im, &outside);
        if (!fine)
            return NULL;
    }
    return node ? node->out[0] : NULL;
}

/* MoE; row->arg: QMoE. */
bool onnx_op_moe(struct imp *im)
{
    bool bytes = im->row->arg;
    struct experts e = {.k = imp_i(im, "k", 1)};
    struct ir_value *x = imp_tensor(im, 0), *logits = x ? imp_tensor(im, 1) : NULL;
    if (!logits)
        return false;
    if (imp_i(im, "use_sparse_mixer", 0))
        return imp_unsupported(im, "use_sparse_mixer");
    if (bytes && strcmp(imp_s(im, "quant_type", "int"), "int"))
        return imp_unsupported(im, "quant_type %s", imp_s(im, "quant_type", "int"));
    if (bytes && imp_i(im, "weights_prepacked", -1) == 1)
        return imp_unsupported(im, "weights packed for one device");
    for (int k = 0; k < 3; k++)
        if (!read_layer(im, &e, k, bytes))
            return false;
    int rank = imp_rank(x);
    if (rank < 2)
        return imp_bad(im, "an input with 2 or 3 dims is expected");
    e.tokens = ir_const(im->ctx, 1);
    for (int k = 0; k < rank - 1; k++)
        e.tokens = ir_mul(im->ctx, e.tokens, imp_dim(x, k));
    ir_expr rows[2] = {e.tokens, ir_const(im->ctx, e.fc[0].k)};
    if (!imp_assume(im, IR_EQ, imp_dim(x, rank - 1), rows[1], "input has as many columns as the experts' weights"))
        return false;
    e.x = imp_reshape(im, imp_wide(im, x), 2, rows);
    if (!e.x || !route(im, &e, logits, bytes))
        return false;
    struct ir_value *y = imp_cast(im, by_tokens(im, &e), imp_dtype(x));
    return imp_out(im, 0, imp_reshape(im, y, rank, x->type->dim));
}
