/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lstm, gru, rnn_tanh, rnn_relu: a layer at a time, as ONNX's operators. Those have the gates in another order, both
 * directions' weights stacked, and the biases of input and state in one tensor.
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

enum { LSTM, GRU, TANH, RELU };
static const struct {
    const char *op;
    int gates, order[4]; /* ONNX's gate k is PyTorch's order[k] */
} cells[] = {{"LSTM", 4, {0, 3, 1, 2}}, {"GRU", 3, {1, 0, 2}}, {"RNN", 1, {0}}, {"RNN", 1, {0}}};

struct rnn {
    int cell, directions, each; /* each: weights of a layer and direction */
    bool projects;              /* the last of these is a projection of the state */
    bool biases, batch_first;
    int64_t hidden, layers;
    double dropout;
    struct ir_value **params;
};

static struct ir_value *reordered(struct pt2 *p, const struct rnn *r, struct ir_value *w)
{
    struct ir_value *parts[4];
    for (int k = 0; k < cells[r->cell].gates; k++) {
        parts[k] =
            imp_slice1(p->im, w, 0, ir_const(p->ctx, cells[r->cell].order[k] * r->hidden), ir_const(p->ctx, r->hidden));
        if (!parts[k])
            return NULL;
    }
    return imp_concat(p->im, cells[r->cell].gates, parts, 0);
}

/* Parameter `which` (w_ih, w_hh, b_ih, b_hh, if there are biases, then the projection) of a layer, both directions
 * stacked. */
static struct ir_value *stacked(struct pt2 *p, const struct rnn *r, int64_t layer, int which, bool biases)
{
    struct ir_value *both[2];
    int64_t zero = 0;
    for (int d = 0; d < r->directions; d++) {
        struct ir_value **w = r->params + (layer * r->directions + d) * r->each;
        both[d] = which < 4 - 2 * !r->biases ? reordered(p, r, w[which]) : w[which];
        if (biases && both[d]) {
            struct ir_value *pair[] = {both[d], reordered(p, r, w[which + 1])};
            both[d] = pair[1] ? imp_concat(p->im, 2, pair, 0) : NULL;
        }
        both[d] = both[d] ? imp_unsqueeze(p->im, both[d], 1, &zero) : NULL;
        if (!both[d])
            return NULL;
    }
    return imp_concat(p->im, r->directions, both, 0);
}

static struct ir_value *of_layer(struct pt2 *p, const struct rnn *r, struct ir_value *state, int64_t layer)
{
    return state ? imp_slice1(p->im, state, 0, ir_const(p->ctx, layer * r->directions), ir_const(p->ctx, r->directions))
                 : NULL;
}

/* x [t, b, i] -> [t, b, directions * h]; the last states in outs[1..] */
static struct ir_value *layer(struct pt2 *p, const struct rnn *r, int64_t k, struct ir_value *x, struct ir_value *h,
                              struct ir_value *c, struct ir_value **outs)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    const struct onnx_str relu[] = {{"Relu", 4}, {"Relu", 4}};
    struct ir_value *in[] = {x,
                             stacked(p, r, k, 0, false),
                             stacked(p, r, k, 1, false),
                             r->biases ? stacked(p, r, k, 2, true) : NULL,
                             NULL,
                             of_layer(p, r, h, k),
                             of_layer(p, r, c, k),
                             NULL,
                             r->projects ? stacked(p, r, k, r->each - 1, false) : NULL};
    struct onnx_attr attrs[4] = {pt2_attr_i("hidden_size", r->hidden),
                                 pt2_attr_s("direction", r->directions == 2 ? "bidirectional" : "forward")};
    int n = 2;
    if (r->cell == GRU)
        attrs[n++] = pt2_attr_i("linear_before_reset", 1);
    if (r->cell == RELU)
        attrs[n++] = (struct onnx_attr){.name = "activations",
                                        .ref = "",
                                        .type = ONNX_ATTR_STRINGS,
                                        .count = (size_t)r->directions,
                                        .strings = relu};
    if (!in[1] || !in[2] || (r->biases && !in[3]) || (r->projects && !in[8]) ||
        !pt2_onnx(p, cells[r->cell].op, 14,
                  r->projects       ? 9
                  : r->cell == LSTM ? 7
                                    : 6,
                  in, n, attrs, r->cell == LSTM ? 3 : 2, outs) ||
        !outs[0])
        return NULL;
    struct ir_value *y = imp_transpose(p->im, outs[0], perm);
    ir_expr dims[3] = {imp_dim(y, 0), imp_dim(y, 1), ir_mul(p->ctx, imp_dim(y, 2), imp_dim(y, 3))};
    return imp_reshape(p->im, y, 3, dims);
}

static bool read_rnn(struct pt2 *p, int cell, struct rnn *r)
{
    bool train = pt2_b(p, "train", false);
    r->cell = cell;
    r->biases = pt2_b(p, "has_biases", true);
    r->batch_first = pt2_b(p, "batch_first", false);
    r->directions = pt2_b(p, "bidirectional", false) ? 2 : 1;
    r->layers = pt2_i(p, "num_layers", 1);
    r->dropout = pt2_f(p, "dropout", 0);
    if (!train)
        r->dropout = 0;
    int n = pt2_list(p, "params", &r->params);
    int weights = r->biases ? 4 : 2, sets = r->layers > 0 && r->layers <= 1000 ? (int)r->layers * r->directions : 0;
    r->projects = cell == LSTM && sets && n == sets * (weights + 1);
    r->each = weights + r->projects;
    if (!sets || n != sets * r->each)
        return imp_bad(p->im, "%d parameters", n);
    if (imp_rank(r->params[1]) != 2 || !ir_is_const(imp_dim(r->params[1], 0), &r->hidden))
        return imp_unsupported(p->im, "a symbolic state");
    r->hidden /= cells[cell].gates;
    return true;
}

bool aten_rnn(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct rnn r;
    struct ir_value *x = pt2_need(p, "input"), *h = NULL, *c = NULL, **states = NULL, *last[2][1024], *outs[3];
    const int64_t swap[] = {1, 0, 2}, middle = 1;
    if (!x || !read_rnn(p, arg, &r))
        return false;
    if (arg == LSTM) {
        if (pt2_list(p, "hx", &states) != 2)
            return false;
        h = states[0];
        c = states[1];
    } else {
        h = pt2_need(p, "hx");
    }
    bool single = imp_rank(x) == 2;
    if (single) {
        x = imp_unsqueeze(im, x, 1, &middle);
        h = h ? imp_unsqueeze(im, h, 1, &middle) : NULL;
        c = c ? imp_unsqueeze(im, c, 1, &middle) : NULL;
    } else if (r.batch_first) {
        x = imp_transpose(im, x, swap);
    }
    for (int64_t k = 0; k < r.layers; k++) {
        x = x && h ? layer(p, &r, k, x, h, c, outs) : NULL;
        if (!x)
            return false;
        last[0][k] = outs[1];
        last[1][k] = arg == LSTM ? outs[2] : NULL;
        if (k + 1 < r.layers)
            x = pt2_dropout(p, x, r.dropout, NULL);
    }
    for (int k = 0; k < 1 + (arg == LSTM); k++) {
        struct ir_value *all = imp_concat(im, (int)r.layers, last[k], 0);
        if (!all || !pt2_out(p, 1 + k, single ? imp_squeeze(im, all, 1, &middle) : all))
            return false;
    }
    return pt2_out(p, 0, single ? imp_squeeze(im, x, 1, &middle) : r.batch_first ? imp_transpose(im, x, swap) : x);
}

/* -- One step: gru_cell, lstm_cell, rnn_tanh_cell, rnn_relu_cell (input, hx, w_ih, w_hh, b_ih, b_hh), of vectors or
 * rows of them */

static struct ir_value *weighed(struct pt2 *p, struct ir_value *x, const char *weight, const char *bias)
{
    struct ir_value *w = pt2_need(p, weight), *b = pt2_t(p, bias);
    struct ir_value *y = x && w ? imp_matmul(p->im, imp_to_rank(p->im, x, 2), w, false, true, TCC_NONE) : NULL;
    return b ? pt2_bin(p, IR_add, y, b) : y;
}

/* Gate k of n. */
static struct ir_value *gate(struct pt2 *p, struct ir_value *gates, int k, int n)
{
    ir_expr size = gates ? ir_floordiv(p->ctx, imp_dim(gates, 1), ir_const(p->ctx, n)) : NULL;
    return gates ? imp_slice1(p->im, gates, 1, ir_mulc(p->ctx, size, k), size) : NULL;
}

static struct ir_value *lstm_step(struct pt2 *p, struct ir_value *gates, struct ir_value *c, struct ir_value **next)
{
    struct ir_value *in = pt2_un(p, IR_sigmoid, gate(p, gates, 0, 4)),
                    *keep = pt2_un(p, IR_sigmoid, gate(p, gates, 1, 4));
    struct ir_value *cell = pt2_un(p, IR_tanh, gate(p, gates, 2, 4)),
                    *out = pt2_un(p, IR_sigmoid, gate(p, gates, 3, 4));
    *next = pt2_bin(p, IR_add, pt2_bin(p, IR_mul, keep, c), pt2_bin(p, IR_mul, in, cell));
    return pt2_bin(p, IR_mul, out, pt2_un(p, IR_tanh, *next));
}

static struct ir_value *gru_step(struct pt2 *p, struct ir_value *a, struct ir_value *b, struct ir_value *h)
{
    struct ir_value *reset = pt2_un(p, IR_sigmoid, pt2_bin(p, IR_add, gate(p, a, 0, 3), gate(p, b, 0, 3)));
    struct ir_value *keep = pt2_un(p, IR_sigmoid, pt2_bin(p, IR_add, gate(p, a, 1, 3), gate(p, b, 1, 3)));
    struct ir_value *fresh =
        pt2_un(p, IR_tanh, pt2_bin(p, IR_add, gate(p, a, 2, 3), pt2_bin(p, IR_mul, reset, gate(p, b, 2, 3))));
    return pt2_bin(p, IR_add, fresh, pt2_bin(p, IR_mul, keep, pt2_bin(p, IR_sub, h, fresh)));
}

bool aten_cell(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "input"), *h = NULL, *c = NULL, **states, *y, *next = NULL;
    if (arg == LSTM) {
        if (pt2_list(p, "hx", &states) != 2)
            return false;
        h = states[0];
        c = imp_to_rank(im, states[1], 2);
    } else {
        h = pt2_need(p, "hx");
    }
    if (!x || !h)
        return false;
    bool single = imp_rank(h) == 1;
    struct ir_value *a = weighed(p, x, "w_ih", "b_ih"), *b = weighed(p, h, "w_hh", "b_hh"),
                    *sum = arg == GRU ? NULL : pt2_bin(p, IR_add, a, b);
    h = imp_to_rank(im, h, 2);
    if (arg == LSTM)
        y = lstm_step(p, sum, c, &next);
    else
        y = arg == GRU ? gru_step(p, a, b, h) : pt2_un(p, arg == TANH ? IR_tanh : IR_relu, sum);
    const int64_t first = 0;
    if (single) {
        y = imp_squeeze(im, y, 1, &first);
        next = imp_squeeze(im, next, 1, &first);
    }
    return pt2_out(p, 0, y) && (arg != LSTM || pt2_out(p, 1, next));
}
