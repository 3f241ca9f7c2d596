/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks of sequences: torch.nn.LSTM and torch.nn.TransformerEncoder behind an embedding of tokens, or a dense layer
 * of rows of numbers, called `embed`, in front of a dense layer `fc`: of each element, or of the sequence, which the
 * LSTM's last state or the mean over the elements stands for.
 */
#include "tools/net/net_int.h"

#include <math.h>

/* [batch, time] tokens as [batch, time, width]. */
static struct net_value embed(struct net *n, struct net_value x, int64_t width)
{
    int64_t dims[] = {n->data->vocabulary, width};
    const char *table = net_param(n, "embed.weight", 2, dims, NET_NORMAL, 1);
    x.name = net_node1(n, "Gather", "embed", NET_IN(table, x.name), NULL);
    x.dims[x.rank++] = width;
    return x;
}

/* -- LSTM -------------------------------------------------------------------------------------------------------- */

/* PyTorch's gates are input, forget, cell, output; ONNX's input, output, forget, cell. */
static const char *reordered(struct net *n, const char *path, const char *w)
{
    const char *gate[4];
    net_node(n, "Split", path, NET_IN(w), 4, gate, NET_ATTRS(NET_I("axis", 0), NET_I("num_outputs", 4)));
    return net_node1(n, "Concat", path, NET_IN(gate[0], gate[3], gate[1], gate[2]), NET_ATTRS(NET_I("axis", 0)));
}

static const char *lstm_param(struct net *n, const char *name, int layer, int rank, const int64_t *dims, int64_t width)
{
    const char *path = net_text(n, "lstm.%s_l%d", name, layer);
    return reordered(n, path, net_param(n, path, rank, dims, NET_UNIFORM, 1 / sqrt((double)width)));
}

/* x: [time, batch, features]. *last: the state behind the last element, [batch, width]. */
static struct net_value lstm_layer(struct net *n, struct net_value x, int layer, int64_t width, const char **last)
{
    int64_t in[] = {4 * width, x.dims[2]}, own[] = {4 * width, width};
    const char *path = net_text(n, "lstm.%d", layer), *zero = net_int64s(n, 1, (int64_t[]){0}),
               *one = net_int64s(n, 1, (int64_t[]){1}), *out[2];
    const char *w = lstm_param(n, "weight_ih", layer, 2, in, width),
               *r = lstm_param(n, "weight_hh", layer, 2, own, width),
               *bi = lstm_param(n, "bias_ih", layer, 1, in, width), *bh = lstm_param(n, "bias_hh", layer, 1, in, width);
    w = net_node1(n, "Unsqueeze", path, NET_IN(w, zero), NULL);
    r = net_node1(n, "Unsqueeze", path, NET_IN(r, zero), NULL);
    const char *b = net_node1(n, "Concat", path, NET_IN(bi, bh), NET_ATTRS(NET_I("axis", 0)));
    b = net_node1(n, "Unsqueeze", path, NET_IN(b, zero), NULL);
    net_node(n, "LSTM", path, NET_IN(x.name, w, r, b), 2, out, NET_ATTRS(NET_I("hidden_size", width)));
    x.name = net_node1(n, "Squeeze", path, NET_IN(out[0], one), NULL);
    x.dims[2] = width;
    *last = net_node1(n, "Squeeze", path, NET_IN(out[1], zero), NULL);
    return x;
}

struct net_value net_build_lstm(struct net *n, struct net_value x, int variant)
{
    static const int64_t perm[] = {1, 0, 2};
    int64_t layers = n->spec->sizes[0], width = n->spec->sizes[1];
    const char *last = "";
    (void)variant;
    if (n->data->tokens)
        x = embed(n, x, width);
    x = net_transpose(n, "lstm", x, perm);
    for (int64_t k = 0; k < layers; k++) {
        x = lstm_layer(n, x, (int)k, width, &last);
        if (k + 1 < layers)
            x = net_dropout(n, "lstm", x, 0);
    }
    if (n->data->each)
        x = net_transpose(n, "lstm", x, perm);
    else
        x = (struct net_value){last, 2, {-1, width}};
    return net_linear(n, "fc", x, net_outputs(n), NET_LINEAR_TORCH);
}

/* -- Transformer ------------------------------------------------------------------------------------------------- */

/* q, k or v: [batch, heads, time, channels of a head]. */
static struct net_value heads_of(struct net *n, const char *path, const char *name, struct net_value x, int64_t heads)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    int64_t time = x.dims[1], width = x.dims[2], dims[] = {-1, time, heads, width / heads};
    x.name = name;
    return net_transpose(n, path, net_reshape(n, path, x, 4, dims), perm);
}

/* -infinity above the diagonal. */
static const char *causal_mask(struct net *n, int64_t time)
{
    int64_t dims[] = {time, time};
    float *values = IR_NEWN(n->ctx, (size_t)(time * time), float);
    for (int64_t i = 0; i < time; i++)
        for (int64_t k = i + 1; k < time; k++)
            values[i * time + k] = -INFINITY;
    return net_floats(n, 2, dims, values);
}

/* torch.nn.MultiheadAttention: one weight for q, k and v. */
static struct net_value self_attention(struct net *n, const char *path, struct net_value x, const char *mask)
{
    static const int64_t back[] = {0, 2, 1, 3}, turned[] = {0, 1, 3, 2};
    int64_t width = x.dims[2], time = x.dims[1], heads = n->spec->heads, dims[] = {3 * width, width};
    float scale = (float)(1 / sqrt((double)(width / heads)));
    const char *w = net_param(n, net_text(n, "%s.in_proj_weight", path), 2, dims, NET_UNIFORM,
                              sqrt(6 / (double)(4 * width))),
               *b = net_param(n, net_text(n, "%s.in_proj_bias", path), 1, dims, NET_ZEROS, 0), *part[3];
    const char *all =
        net_node1(n, "MatMul", path, NET_IN(x.name, net_node1(n, "Transpose", path, NET_IN(w), NULL)), NULL);
    all = net_node1(n, "Add", path, NET_IN(all, b), NULL);
    net_node(n, "Split", path, NET_IN(all), 3, part, NET_ATTRS(NET_I("axis", 2), NET_I("num_outputs", 3)));
    struct net_value q = heads_of(n, path, part[0], x, heads), k = heads_of(n, path, part[1], x, heads),
                     v = heads_of(n, path, part[2], x, heads);
    q.name = net_node1(n, "Mul", path, NET_IN(q.name, net_floats(n, 0, NULL, &scale)), NULL);
    k = net_transpose(n, path, k, turned);
    struct net_value scores = q;
    scores.name = net_node1(n, "MatMul", path, NET_IN(q.name, k.name), NULL);
    if (mask)
        scores.name = net_node1(n, "Add", path, NET_IN(scores.name, mask), NULL);
    scores.name = net_node1(n, "Softmax", path, NET_IN(scores.name), NET_ATTRS(NET_I("axis", -1)));
    scores = net_dropout(n, path, scores, 0.1);
    v.name = net_node1(n, "MatMul", path, NET_IN(scores.name, v.name), NULL);
    v = net_reshape(n, path, net_transpose(n, path, v, back), 3, (int64_t[]){-1, time, width});
    return net_linear(n, net_text(n, "%s.out_proj", path), v, width, NET_LINEAR_NO_BIAS);
}

/* What was before a sublayer, plus what it made. */
static struct net_value residual(struct net *n, const char *path, struct net_value x, struct net_value y)
{
    y = net_dropout(n, path, y, 0.1);
    y.name = net_node1(n, "Add", path, NET_IN(x.name, y.name), NULL);
    return y;
}

/* torch.nn.TransformerEncoderLayer(norm_first=True, activation="gelu"), four times as wide inside. */
static struct net_value encoder_layer(struct net *n, const char *path, struct net_value x, const char *mask)
{
    int64_t width = x.dims[2];
    struct net_value y = net_layer_norm(n, net_text(n, "%s.norm1", path), x);
    x = residual(n, path, x, self_attention(n, net_text(n, "%s.self_attn", path), y, mask));
    y = net_layer_norm(n, net_text(n, "%s.norm2", path), x);
    y = net_map(n, "Gelu", path, net_linear(n, net_text(n, "%s.linear1", path), y, 4 * width, NET_LINEAR_TORCH));
    y = net_linear(n, net_text(n, "%s.linear2", path), net_dropout(n, path, y, 0.1), width, NET_LINEAR_TORCH);
    return residual(n, path, x, y);
}

struct net_value net_build_transformer(struct net *n, struct net_value x, int variant)
{
    int64_t layers = n->spec->sizes[0], width = n->spec->sizes[1], time = x.dims[1], dims[] = {time, width};
    (void)variant;
    const char *mask = n->data->each ? causal_mask(n, time) : NULL;
    x = n->data->tokens ? embed(n, x, width) : net_linear(n, "embed", x, width, NET_LINEAR_TORCH);
    const char *position = net_param(n, "position", 2, dims, NET_NORMAL, 0.02);
    x.name = net_node1(n, "Add", "position", NET_IN(x.name, position), NULL);
    for (int64_t k = 0; k < layers; k++)
        x = encoder_layer(n, net_text(n, "layers.%d", (int)k), x, mask);
    x = net_layer_norm(n, "norm", x);
    if (!n->data->each)
        x = net_mean(n, "mean", x, 1, 1);
    return net_linear(n, "fc", x, net_outputs(n), NET_LINEAR_TORCH);
}
