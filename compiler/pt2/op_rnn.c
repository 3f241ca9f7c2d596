/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers and cells, a layer and direction at a time. */
#include "compiler/import/rnn.h"
#include "compiler/pt2/pt2_int.h"

enum { LSTM, GRU, TANH, RELU };

/* The cell of a row; where PyTorch's weights have ONNX's gates. */
static struct imp_rnn cell_of(int which)
{
    static const int lstm[] = {0, 3, 1, 2}, gru[] = {1, 0, 2};
    struct imp_rnn r = {.cell = which == LSTM  ? IMP_LSTM
                                : which == GRU ? IMP_GRU
                                               : IMP_RNN,
                        .order = which == LSTM  ? lstm
                                 : which == GRU ? gru
                                                : NULL,
                        .linear_before_reset = true};
    r.f[0] = which == RELU ? "Relu" : NULL;
    return r;
}

struct rnn {
    int which, directions, each; /* each: weights of a layer and direction */
    bool projects;               /* the last of these is a projection of the state */
    bool biases, batch_first;
    int64_t layers;
    double dropout;
    struct ir_value **params;
};

/* The first state of a layer and direction, of these sizes: a part of axis 0, which goes. */
static struct ir_value *first_state(struct pt2 *p, struct ir_value *states, int64_t k, ir_expr rows, ir_expr size)
{
    int64_t axis = 0;
    struct ir_value *v = imp_slice1(p->im, states, 0, ir_const(p->ctx, k), ir_const(p->ctx, 1));
    return imp_expand(p->im, imp_squeeze(p->im, v, 1, &axis), 2, (const ir_expr[]){rows, size});
}

/* x [t, b, i] -> [t, b, h] of one direction; its last states go into last[0] and last[1] at k, [1, b, h]. */
static struct ir_value *direction(struct pt2 *p, const struct rnn *n, int64_t k, struct ir_value *x,
                                  struct ir_value *const *states, struct ir_value **const *last)
{
    struct imp_rnn r = cell_of(n->which);
    struct ir_value **w = n->params + k * n->each, *initial[2] = {NULL}, *done[3];
    int64_t axis = 0;
    r.x = x;
    r.reverse = k % n->directions;
    r.w = w[0];
    r.r = w[1];
    r.bias_w = n->biases ? w[2] : NULL;
    r.bias_r = n->biases ? w[3] : NULL;
    r.projection = n->projects ? w[n->each - 1] : NULL;
    r.hidden = ir_floordiv(p->ctx, imp_dim(w[1], 0), ir_const(p->ctx, imp_rnn_gates(r.cell)));
    r.out = imp_dim(w[1], 1);
    int nstate = r.cell == IMP_LSTM ? 2 : 1;
    for (int s = 0; s < nstate; s++)
        if (!(initial[s] = first_state(p, states[s], k, imp_dim(x, 1), s ? r.hidden : r.out)))
            return NULL;
    if (!imp_rnn_prepare(p->im, &r) || !imp_rnn_run(p->im, &r, initial, done))
        return NULL;
    for (int s = 0; s < nstate; s++)
        last[s][k] = imp_unsqueeze(p->im, done[s], 1, &axis);
    return done[nstate];
}

static bool read_rnn(struct pt2 *p, int which, struct rnn *r)
{
    bool train = pt2_b(p, "train", false);
    r->which = which;
    r->biases = pt2_b(p, "has_biases", true);
    r->batch_first = pt2_b(p, "batch_first", false);
    r->directions = pt2_b(p, "bidirectional", false) ? 2 : 1;
    r->layers = pt2_i(p, "num_layers", 1);
    r->dropout = pt2_f(p, "dropout", 0);
    if (!train)
        r->dropout = 0;
    int n = pt2_list(p, "params", &r->params);
    int weights = r->biases ? 4 : 2, sets = r->layers > 0 && r->layers <= 1000 ? (int)r->layers * r->directions : 0;
    r->projects = which == LSTM && sets && n == sets * (weights + 1);
    r->each = weights + r->projects;
    if (!sets || n != sets * r->each)
        return imp_bad(p->im, "%d parameters", n);
    for (int k = 0; k < sets; k++)
        if (imp_rank(r->params[k * r->each + 1]) != 2)
            return imp_bad(p->im, "a matrix of weights is expected");
    return true;
}

/* The state, and of an LSTM the cell's. */
static bool read_states(struct pt2 *p, bool lstm, struct ir_value **states)
{
    struct ir_value **list;
    if (!lstm)
        return (states[0] = pt2_need(p, "hx")) != NULL;
    if (pt2_list(p, "hx", &list) != 2)
        return false;
    states[0] = list[0];
    states[1] = list[1];
    return true;
}

bool aten_rnn(struct pt2 *p)
{
    struct imp *im = p->im;
    bool lstm = p->row->arg == LSTM;
    struct rnn r;
    struct ir_value *x = pt2_need(p, "input"), *states[2] = {NULL}, **last[2], *y[2];
    const int64_t swap[] = {1, 0, 2}, middle = 1;
    if (!x || !read_rnn(p, p->row->arg, &r) || !read_states(p, lstm, states))
        return false;
    bool single = imp_rank(x) == 2;
    if (single)
        x = imp_unsqueeze(im, x, 1, &middle);
    else if (r.batch_first)
        x = imp_transpose(im, x, swap);
    for (int s = 0; s < 1 + lstm; s++) {
        last[s] = IR_NEWN(p->ctx, r.layers * r.directions, struct ir_value *);
        states[s] = single ? imp_unsqueeze(im, states[s], 1, &middle) : states[s];
    }
    for (int64_t k = 0; k < r.layers; k++) {
        for (int d = 0; d < r.directions; d++)
            if (!x || !(y[d] = direction(p, &r, k * r.directions + d, x, states, last)))
                return false;
        x = imp_concat(im, r.directions, y, 2);
        if (k + 1 < r.layers)
            x = pt2_dropout(p, x, r.dropout, NULL);
    }
    for (int s = 0; s < 1 + lstm; s++) {
        struct ir_value *all = imp_concat(im, (int)r.layers * r.directions, last[s], 0);
        if (!all || !pt2_out(p, 1 + s, single ? imp_squeeze(im, all, 1, &middle) : all))
            return false;
    }
    return pt2_out(p, 0, single ? imp_squeeze(im, x, 1, &middle) : r.batch_first ? imp_transpose(im, x, swap) : x);
}

/* One step: gru_cell, lstm_cell, rnn_tanh_cell, rnn_relu_cell (input, hx, w_ih, w_hh, b_ih, b_hh), of vectors or rows
 * of them */
bool aten_cell(struct pt2 *p)
{
    struct imp *im = p->im;
    bool lstm = p->row->arg == LSTM;
    struct imp_rnn r = cell_of(p->row->arg);
    struct ir_value *x = pt2_need(p, "input"), *states[2] = {NULL};
    if (!x || !read_states(p, lstm, states))
        return false;
    bool single = imp_rank(states[0]) == 1;
    r.x = imp_to_rank(im, x, 2);
    r.w = pt2_need(p, "w_ih");
    r.r = pt2_need(p, "w_hh");
    r.bias_w = pt2_t(p, "b_ih");
    r.bias_r = pt2_t(p, "b_hh");
    if (!r.w || imp_rank(r.r) != 2 || !r.bias_w != !r.bias_r)
        return false;
    r.hidden = r.out = imp_dim(r.r, 1);
    for (int s = 0; s < 1 + lstm; s++)
        states[s] = imp_to_rank(im, states[s], 2);
    if (!imp_rnn_prepare(im, &r) || !imp_rnn_step(im, &r, r.project, states))
        return false;
    for (int s = 0; s < 1 + lstm; s++)
        if (!pt2_out(p, s, single ? imp_squeeze(im, states[s], 1, (const int64_t[]){0}) : states[s]))
            return false;
    return true;
}

/* -- Recursive filters --------------------------------------------------------------------------------------------- */

/* Channel c: a plain cell without activation, whose state are the last `order` elements of y[b, 1, order + t]. */
static struct ir_value *filtered(struct pt2 *p, struct ir_value *x, struct ir_value *a, struct ir_value *y, int64_t c,
                                 int64_t order)
{
    struct imp *im = p->im;
    const int64_t time_first[] = {2, 0, 1}, samples_first[] = {1, 2, 0}, middle = 1;
    ir_expr at = ir_const(p->ctx, c), one = ir_const(p->ctx, 1), zero = ir_const(p->ctx, 0),
            n = ir_const(p->ctx, order);
    struct imp_rnn r = {.cell = IMP_RNN, .hidden = n, .out = n, .f = {"Affine"}, .alpha = {1}, .beta = {0}};
    struct ir_value *row = imp_slice1(im, imp_slice1(im, a, 0, at, one), 1, zero, n), *last[2];
    struct ir_value *begin = imp_slice1(im, imp_slice1(im, y, 1, at, one), 2, zero, n);
    struct ir_value *next[2] = {imp_cast(im, pt2_on_diagonal(p, ir_const(p->ctx, order - 1), n, 1), imp_dtype(x)),
                                NULL};
    if (!row || !begin || !(next[1] = imp_un(im, IR_neg, row)))
        return NULL;
    r.x = imp_transpose(im, imp_slice1(im, x, 1, at, one), time_first);
    r.w = imp_cast(im, pt2_on_diagonal(p, n, one, 1 - order), imp_dtype(x));
    r.r = imp_concat(im, 2, next, 0);
    begin = imp_squeeze(im, begin, 1, &middle);
    if (!begin || !imp_rnn_prepare(im, &r) || !imp_rnn_run(im, &r, &begin, last))
        return NULL;
    struct ir_value *newest = imp_slice1(im, last[1], 2, ir_const(p->ctx, order - 1), one);
    return newest ? imp_transpose(im, newest, samples_first) : NULL;
}

/* _lfilter_core_loop(x[b, c, t], a[c, order + 1], y[b, c, order + t], written and returned): y[order + t] is x[t] less
 * the sum of a[k] y[t + k]. */
bool aten_lfilter(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "input_signal_windows"), *a = x ? pt2_need(p, "a_coeff_flipped") : NULL;
    struct ir_value *y = a ? pt2_need(p, "padded_output_waveform") : NULL, *all[2] = {NULL};
    int64_t channels, order;
    if (!y || !ir_is_const(imp_dim(a, 0), &channels) || !ir_is_const(imp_dim(a, 1), &order))
        return y && imp_unsupported(p->im, "a filter of a length that only the run knows");
    struct ir_value **parts = IR_NEWN(p->ctx, channels + 1, struct ir_value *);
    for (int64_t c = 0; order > 1 && c < channels; c++)
        if (!(parts[c] = filtered(p, x, a, y, c, order - 1)))
            return false;
    all[0] = imp_slice1(p->im, y, 2, ir_const(p->ctx, 0), ir_const(p->ctx, order - 1));
    all[1] = order > 1 ? imp_concat(p->im, (int)channels, parts, 1) : x;
    struct ir_value *written = all[0] && all[1] ? imp_concat(p->im, 2, all, 2) : NULL;
    return written && pt2_write_operand(p, "padded_output_waveform", written) && pt2_out(p, 0, written);
}
