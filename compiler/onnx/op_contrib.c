/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of domain com.microsoft that ONNX Runtime's transformer optimiser writes in place of several of ONNX's:
 * activations with a bias, normalisations of sums, embeddings, products with what follows. Each is spelled out again,
 * so that the passes see ordinary graphs. Attention is in op_contrib_attention.c. Source: ONNX Runtime,
 * docs/ContribOperators.md.
 */
#include "compiler/onnx/import_int.h"

#include <math.h>
#include <string.h>

/* -- Elementwise */

static struct ir_value *plus(struct imp *im, struct ir_value *x, struct ir_value *y)
{
    return x && y ? imp_bin(im, IR_add, x, y) : x;
}

/* `arg` of the sum of operands 0 and 1; 1 may be missing. */
bool onnx_op_biased(struct imp *im)
{
    return imp_out(im, 0, imp_un(im, (enum ir_op)im->row->arg, plus(im, imp_tensor(im, 0), imp_in(im, 1))));
}

bool onnx_op_quick_gelu(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    return imp_out(im, 0, imp_with(im, IR_swish, x, imp_f(im, "alpha", 1.702f)));
}

bool onnx_op_bias_add(struct imp *im)
{
    return imp_out(im, 0, plus(im, plus(im, imp_tensor(im, 0), imp_in(im, 1)), imp_in(im, 2)));
}

/* The left half of x + bias times gelu of the right one. */
bool onnx_op_bias_split_gelu(struct imp *im)
{
    struct ir_value *x = plus(im, imp_tensor(im, 0), imp_in(im, 1));
    if (!x || !imp_rank(x))
        return x && imp_bad(im, "a scalar has no halves");
    int last = imp_rank(x) - 1;
    ir_expr half = ir_floordiv(im->ctx, imp_dim(x, last), ir_const(im->ctx, 2));
    struct ir_value *left = imp_slice1(im, x, last, ir_const(im->ctx, 0), half),
                    *right = imp_slice1(im, x, last, half, half);
    return imp_out(im, 0, imp_bin(im, IR_mul, left, imp_un(im, IR_gelu, right)));
}

/* -- Normalisation along the last axis */

/* LayerNormalization (`rms`: without the mean) of x, which is at least f32; beta may be NULL. Result of dtype `to`. */
static struct ir_value *normalised(struct imp *im, struct ir_value *x, struct ir_value *gamma, struct ir_value *beta,
                                   bool rms, double epsilon, enum tcc_dtype to)
{
    if (!x || !gamma || imp_rank(x) < 1)
        return (!x || gamma ? NULL : (imp_bad(im, "gamma is missing"), NULL));
    int64_t last = imp_rank(x) - 1;
    struct ir_value *y =
        rms ? imp_rms_normalise(im, x, 1, &last, epsilon, NULL) : imp_normalise(im, x, 1, &last, epsilon, NULL, NULL);
    y = imp_bin(im, IR_mul, y, imp_cast(im, gamma, imp_dtype(x)));
    return imp_cast(im, plus(im, y, imp_cast(im, beta, imp_dtype(x))), to);
}

/* Operands: input, skip, gamma, [beta unless rms,] bias. `arg`: 1 is SkipSimplifiedLayerNormalization. */
bool onnx_op_skip_layer_norm(struct imp *im)
{
    int arg = im->row->arg;
    struct ir_value *x = imp_tensor(im, 0), *skip = x ? imp_tensor(im, 1) : NULL, *gamma = imp_in(im, 2),
                    *beta = arg ? NULL : imp_in(im, 3), *bias = imp_in(im, arg ? 3 : 4);
    if (!skip)
        return false;
    enum tcc_dtype to = imp_dtype(x);
    struct ir_value *skip_wide = imp_wide(im, skip);
    struct ir_value *sum = imp_bin(im, IR_add, imp_wide(im, x), skip_wide);
    sum = plus(im, sum, imp_wide(im, bias));
    struct ir_value *y = normalised(im, sum, gamma, beta, arg, imp_f(im, "epsilon", 1e-12f), to);
    return imp_out(im, 0, y) && (!imp_wants(im, 3) || imp_out(im, 3, imp_cast(im, sum, to)));
}

/* How many of each row's words the mask shows: i32[b]. */
static struct ir_value *mask_index(struct imp *im, const struct ir_value *ids, struct ir_value *mask)
{
    int64_t axis = 1;
    ir_expr batch = imp_dim(ids, 0);
    if (!mask)
        return imp_splat(im, TCC_I32, 0, 1, &batch);
    mask = imp_cast(im, imp_with(im, IR_eq, mask, 1), TCC_I32);
    return imp_reduce(im, IR_reduce_sum, mask, 1, &axis, false);
}

/* The sum of word, position and (may be NULL) segment embeddings, normalised. */
static bool embed(struct imp *im, struct ir_value *const *table, struct ir_value *positions, struct ir_value *gamma,
                  struct ir_value *beta)
{
    struct ir_value *ids = imp_tensor(im, 0), *segments = imp_in(im, 1), *mask = imp_in(im, 7);
    if (!ids || imp_rank(ids) != 2 || !table[0] || !table[1] || imp_rank(table[1]) != 2)
        return ids && imp_bad(im, "input_ids[b, s] and embeddings with 2 dims are expected");
    struct ir_value *rows = positions ? imp_gather_row(im, table[1], positions)
                                      : imp_slice1(im, table[1], 0, ir_const(im->ctx, 0), imp_dim(ids, 1));
    struct ir_value *sum = imp_bin(im, IR_add, imp_gather_row(im, table[0], ids), rows);
    if (segments && table[2])
        sum = plus(im, sum, imp_gather_row(im, table[2], segments));
    if (!sum)
        return false;
    struct ir_value *y =
        normalised(im, imp_wide(im, sum), gamma, beta, false, imp_f(im, "epsilon", 1e-12f), imp_dtype(sum));
    return imp_out(im, 0, y) && (!imp_wants(im, 1) || imp_out(im, 1, mask_index(im, ids, mask))) &&
           (!imp_wants(im, 2) || imp_out(im, 2, sum));
}

bool onnx_op_embed_layer_norm(struct imp *im)
{
    struct ir_value *table[] = {imp_in(im, 2), imp_in(im, 3), imp_in(im, 4)};
    return embed(im, table, imp_in(im, 8), imp_in(im, 5), imp_in(im, 6));
}

/* (x - zero point) * scale of an operand of bytes: `k`; its scale at `scale`, its zero point five behind that. */
static struct ir_value *real_table(struct imp *im, int k, int scale)
{
    struct ir_value *x = imp_in(im, k), *s = imp_in(im, scale), *zero = imp_in(im, scale + 5);
    if (!x || !s)
        return NULL;
    x = imp_cast(im, x, TCC_F32);
    if (zero)
        x = imp_bin(im, IR_sub, x, imp_cast(im, imp_reshape(im, zero, 0, NULL), TCC_F32));
    return imp_bin(im, IR_mul, x, imp_reshape(im, s, 0, NULL));
}

bool onnx_op_qembed_layer_norm(struct imp *im)
{
    struct ir_value *table[] = {real_table(im, 2, 8), real_table(im, 3, 9), real_table(im, 4, 10)};
    struct ir_value *beta = real_table(im, 6, 12);
    return embed(im, table, NULL, real_table(im, 5, 11), beta);
}

/* -- GroupNorm of channels that come last (or second), and what is fused with it */

/* [n, c] or [n, 1, 1, c] so that it broadcasts to x; other shapes as they are. */
static struct ir_value *spread_skip(struct imp *im, struct ir_value *skip, const struct ir_value *x, int channels)
{
    ir_expr dims[TCC_MAX_RANK];
    if (!skip || imp_rank(skip) != 2)
        return skip;
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = k == 0 ? imp_dim(skip, 0) : k == channels ? imp_dim(skip, 1) : ir_const(im->ctx, 1);
    return imp_reshape(im, skip, imp_rank(x), dims);
}

/* `arg`: 1 is SkipGroupNorm, which normalises x + skip + bias. */
bool onnx_op_contrib_group_norm(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *gamma = imp_in(im, 1), *beta = imp_in(im, 2);
    int64_t groups = imp_i(im, "groups", 0), axes[TCC_MAX_RANK], activation = imp_i(im, "activation", 0);
    if (!x)
        return false;
    int rank = imp_rank(x), channels = imp_i(im, "channels_last", 1) ? rank - 1 : 1, n;
    if (!gamma || !beta || rank < 3 || rank + 1 > TCC_MAX_RANK || groups < 1 || activation < 0 || activation > 1)
        return imp_bad(im, "X with spatial axes, gamma, beta, groups, and activation 0 or 1 are expected");
    enum tcc_dtype to = imp_dtype(x);
    x = imp_wide(im, x);
    if (im->row->arg) {
        struct ir_value *bias = imp_in(im, 4);
        x = plus(im, x, imp_wide(im, spread_skip(im, imp_in(im, 3), x, channels)));
        x = bias ? plus(im, x, imp_along(im, imp_wide(im, bias), channels, rank)) : x;
        if (imp_wants(im, 1) && !imp_out(im, 1, imp_cast(im, x, to)))
            return false;
    }
    struct ir_value *y = imp_grouped(im, x, channels, groups, &n, axes);
    y = imp_normalise(im, y, n, axes, imp_f(im, "epsilon", 1e-5f), NULL, NULL);
    struct ir_value *bias = y ? imp_along(im, beta, channels, rank) : NULL;
    struct ir_value *scale = y ? imp_along(im, gamma, channels, rank) : NULL;
    y = y ? imp_scaled(im, imp_reshape(im, y, rank, x->type->dim), scale, bias) : NULL;
    return imp_out(im, 0, imp_cast(im, activation ? imp_un(im, IR_silu, y) : y, to));
}

/* -- Products with what follows them */

/* transBatch: the first axis goes behind the other batch axes. */
static struct ir_value *batch_last(struct imp *im, struct ir_value *x, const char *attribute)
{
    int64_t perm[TCC_MAX_RANK];
    if (!x || imp_rank(x) < 3 || !imp_i(im, attribute, 0))
        return x;
    int rank = imp_rank(x);
    for (int k = 0; k < rank; k++)
        perm[k] = k == rank - 1 ? k : k == rank - 2 ? 0 : k + 1;
    return imp_transpose(im, x, perm);
}

bool onnx_op_fused_matmul(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL, *y;
    double alpha = imp_f(im, "alpha", 1);
    if (!b)
        return false;
    bool ta = imp_i(im, "transA", 0) && imp_rank(a) > 1, tb = imp_i(im, "transB", 0) && imp_rank(b) > 1;
    if (imp_rank(a) > 1 && imp_rank(b) > 1) {
        struct ir_value *b_batch_last = batch_last(im, b, "transBatchB");
        y = imp_matmul(im, batch_last(im, a, "transBatchA"), b_batch_last, ta, tb, imp_dtype(a));
    } else if (ta || tb)
        return imp_unsupported(im, "a transposed matrix times a vector");
    else
        y = imp_matmul_nd(im, a, b, imp_dtype(a));
    return imp_out(im, 0, alpha == 1 ? y : imp_bin(im, IR_mul, y, imp_like(im, a, alpha)));
}

bool onnx_op_gemm_fast_gelu(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL;
    struct ir_value *y = w ? plus(im, imp_matmul_nd(im, x, w, imp_dtype(x)), imp_in(im, 2)) : NULL;
    return imp_out(im, 0, imp_un(im, IR_gelu_tanh, y));
}

/* The activation that attributes name; y where there is none. Constants are NaN where they aren't given. */
static struct ir_value *activated(struct imp *im, struct ir_value *y, double alpha, double beta)
{
    const char *name = imp_s(im, "activation", "");
    return *name ? imp_activation(im, name, y, alpha, beta) : y;
}

bool onnx_op_fused_gemm(struct imp *im)
{
    double alpha = imp_f(im, "activation_alpha", (double)NAN), beta = imp_f(im, "activation_beta", (double)NAN);
    return imp_out(im, 0, activated(im, imp_gemm(im), alpha, beta));
}

/* Channels from the last axis to axis 1, or back. */
static struct ir_value *move_channels(struct imp *im, struct ir_value *x, bool to_front)
{
    int64_t perm[TCC_MAX_RANK];
    if (!x || imp_rank(x) < 3)
        return x;
    int rank = imp_rank(x);
    for (int k = 1; k < rank; k++)
        perm[k] = to_front ? (k == 1 ? rank - 1 : k - 1) : (k == rank - 1 ? 1 : k + 1);
    perm[0] = 0;
    return imp_transpose(im, x, perm);
}

struct ir_value *imp_channels_first(struct imp *im, struct ir_value *x)
{
    return move_channels(im, x, true);
}

struct ir_value *imp_channels_last(struct imp *im, struct ir_value *x)
{
    return move_channels(im, x, false);
}

/* FusedConv: activation(conv(x, w) + b + z). `arg`: 1 where channels come last (NhwcConv, NhwcFusedConv). */
bool onnx_op_fused_conv(struct imp *im)
{
    int arg = im->row->arg;
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL, *z = imp_in(im, 3);
    int n;
    if (!w)
        return false;
    const float *given = imp_floats(im, "activation_params", &n);
    double constants[2] = {given && n > 0 ? (double)given[0] : (double)NAN,
                           given && n > 1 ? (double)given[1] : (double)NAN};
    struct ir_value *y = imp_conv(im, arg ? imp_channels_first(im, x) : x, w, imp_in(im, 2), imp_dtype(x));
    y = plus(im, arg ? imp_channels_last(im, y) : y, z);
    return imp_out(im, 0, activated(im, y, constants[0], constants[1]));
}

bool onnx_op_nhwc_max_pool(struct imp *im)
{
    struct ir_value *x = imp_channels_first(im, imp_tensor(im, 0));
    return x && imp_out(im, 0, imp_channels_last(im, imp_max_pool(im, x)));
}

/* -- Others */

bool onnx_op_expand_dims(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis;
    if (!x)
        return false;
    if (imp_ints_of(im, imp_in(im, 1), 1, &axis) != 1)
        return imp_unsupported(im, "an axis that is known only at run time");
    return imp_axis(im, &axis, imp_rank(x) + 1) && imp_out(im, 0, imp_unsqueeze(im, x, 1, &axis));
}

/* The elements of a vector in the order in which they first come, where each element is among them, and how many there
 * are. */
bool onnx_op_contrib_unique(struct imp *im)
{
    static const int of[3] = {0, 2, 3}; /* results of ONNX's Unique */
    struct ir_value *x = imp_tensor(im, 0);
    if (!x || imp_rank(x) != 1)
        return x && imp_bad(im, "%s; one dim is expected", ir_type_text(im->ctx, x->type));
    ir_expr n = imp_fresh_dim(im, 0, 0);
    ir_type index = ir_tensor_type(im->ctx, TCC_I64, 1, &n),
            types[4] = {ir_tensor_type(im->ctx, imp_dtype(x), 1, &n), index, ir_with_dtype(im->ctx, x->type, TCC_I64),
                        index};
    struct ir_attr unsorted = imp_user_int(im, "sorted", 0);
    struct ir_node *node = imp_lib(im, "unique", 1, &x, 4, types, IR_ATTRS(unsorted));
    for (int k = 0; node && k < 3; k++) {
        if (imp_wants(im, k) && !imp_out(im, k, node->out[of[k]]))
            return false;
    }
    return node != NULL;
}

/* Distances of the rows of operand 0 to those of operand 1; by differences, so that equal rows are 0 apart. */
bool onnx_op_cdist(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL;
    int64_t row = 1, column = 0, last = 2;
    if (!b || imp_rank(a) != 2 || imp_rank(b) != 2)
        return b && imp_bad(im, "two matrices are expected");
    b = imp_unsqueeze(im, b, 1, &column);
    struct ir_value *d = imp_bin(im, IR_sub, imp_unsqueeze(im, a, 1, &row), b);
    d = imp_reduce(im, IR_reduce_sum, imp_bin(im, IR_mul, d, d), 1, &last, false);
    return imp_out(im, 0, strcmp(imp_s(im, "metric", "sqeuclidean"), "euclidean") ? d : imp_un(im, IR_sqrt, d));
}
