/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RNN, GRU, LSTM as loops over time.
 *
 * The input's products with W for all steps are one matrix product before the loop; a step only multiplies the state by
 * R. The three cells share everything but the few lines that combine gates. Per direction: one loop that carries the
 * state and collects it.
 *
 * With the sequences' lengths, a step at or past a sequence's length leaves its state as it is and outputs 0. That also
 * makes the reverse direction right, which begins with those steps.
 */
#include "compiler/import/rnn.h"

#include "base/mutant.h"

#include <math.h>

static const struct {
    int gates, functions;
    const char *usual[3];
    int order[4];
} cells[] = {[IMP_RNN] = {1, 1, {"Tanh"}, {0}},
             [IMP_GRU] = {3, 2, {"Sigmoid", "Tanh"}, {0, 1, 2}},
             [IMP_LSTM] = {4, 3, {"Sigmoid", "Tanh", "Tanh"}, {0, 1, 2, 3}}};

int imp_rnn_gates(enum imp_cell cell)
{
    return cells[cell].gates;
}

const char *const *imp_rnn_functions(enum imp_cell cell, int *n)
{
    *n = cells[cell].functions;
    return cells[cell].usual;
}

/* Part `k`, of `size` elements as each of them, of a vector or of the rows of a matrix. */
static struct ir_value *part(struct imp *im, struct ir_value *v, int axis, int64_t k, ir_expr size)
{
    return imp_slice1(im, v, axis, ir_mulc(im->ctx, size, k), size);
}

/* Gate k, in ONNX's order, of what has all of them along that axis. */
static struct ir_value *gate(struct imp *im, const struct imp_rnn *r, struct ir_value *v, int axis, int k)
{
    return part(im, v, axis, r->order[k], r->hidden);
}

static struct ir_value *activate(struct imp *im, const struct imp_rnn *r, int which, struct ir_value *x)
{
    if (r->clip > 0) {
        struct ir_value *clip_value = imp_like(im, x, r->clip);
        x = imp_tri(im, IR_clip, x, imp_like(im, x, -r->clip), clip_value);
    }
    return imp_activation(im, r->f[which], x, r->alpha[which], r->beta[which]);
}

static struct ir_value *add(struct imp *im, struct ir_value *a, struct ir_value *b)
{
    return imp_bin(im, IR_add, a, b);
}

static struct ir_value *mul(struct imp *im, struct ir_value *a, struct ir_value *b)
{
    return imp_bin(im, IR_mul, a, b);
}

/* x in bytes by its range, or the range of each row, times a matrix of bytes. */
static struct ir_value *by_bytes(struct imp *im, struct ir_value *x, bool rows, const struct imp_bytes *m)
{
    struct ir_value *scale = NULL, *zero = NULL, *q = x ? imp_dynamic_quantize(im, x, rows, &scale, &zero) : NULL;
    return q ? imp_integer_product(im, q, zero, scale, m->x, m->zero, m->scale) : NULL;
}

static bool step_rnn(struct imp *im, const struct imp_rnn *r, struct ir_value *x, struct ir_value **state)
{
    struct ir_value *h = imp_matmul(im, state[0], gate(im, r, r->r, 0, 0), false, true, TCC_NONE);
    state[0] = activate(im, r, 0, add(im, x, h));
    return state[0] != NULL;
}

/* The gates z and r come first, in either order. */
static bool step_gru(struct imp *im, const struct imp_rnn *r, struct ir_value *x, struct ir_value **state)
{
    struct ir_value *h = state[0], *zr, *n;
    ir_expr two = ir_mulc(im->ctx, r->hidden, 2), none = ir_const(im->ctx, 0);
    if (r->linear_before_reset) {
        struct ir_value *all = imp_matmul(im, h, r->r, false, true, TCC_NONE);
        struct ir_value *all_part = imp_slice1(im, all, 1, none, two);
        zr = activate(im, r, 0, add(im, imp_slice1(im, x, 1, none, two), all_part));
        struct ir_value *inner = gate(im, r, all, 1, 2);
        if (r->bias_r)
            inner = add(im, inner, gate(im, r, r->bias_r, 0, 2));
        struct ir_value *product = mul(im, gate(im, r, zr, 1, 1), inner);
        n = activate(im, r, 1, add(im, gate(im, r, x, 1, 2), product));
    } else {
        struct ir_value *first = imp_matmul(im, h, imp_slice1(im, r->r, 0, none, two), false, true, TCC_NONE);
        zr = activate(im, r, 0, add(im, imp_slice1(im, x, 1, none, two), first));
        struct ir_value *reset = mul(im, gate(im, r, zr, 1, 1), h);
        struct ir_value *inner = imp_matmul(im, reset, gate(im, r, r->r, 0, 2), false, true, TCC_NONE);
        n = activate(im, r, 1, add(im, gate(im, r, x, 1, 2), inner));
    }
    struct ir_value *z = gate(im, r, zr, 1, 0);
    if (!z || !n)
        return false;
    struct ir_value *other = mul(im, z, MUTANT(120, h, n));
    state[0] = add(im, mul(im, imp_bin(im, IR_sub, imp_like(im, z, 1), z), n), other);
    return state[0] != NULL;
}

static struct ir_value *peep(struct imp *im, const struct imp_rnn *r, int k, struct ir_value *all, int which,
                             struct ir_value *c)
{
    struct ir_value *x = gate(im, r, all, 1, which);
    return r->peephole[k] ? add(im, x, mul(im, r->peephole[k], c)) : x;
}

static bool step_lstm(struct imp *im, const struct imp_rnn *r, struct ir_value *x, struct ir_value **state)
{
    struct ir_value *all =
        r->r ? imp_matmul(im, state[0], r->r, false, true, TCC_NONE) : by_bytes(im, state[0], true, &r->r_bytes);
    struct ir_value *c = state[1];
    all = add(im, x, all);
    struct ir_value *i = activate(im, r, 0, peep(im, r, 0, all, 0, c));
    struct ir_value *f = r->input_forget && i ? imp_bin(im, IR_sub, imp_like(im, i, 1), i)
                                              : activate(im, r, 0, peep(im, r, 2, all, 2, c));
    struct ir_value *fresh = activate(im, r, 1, gate(im, r, all, 1, 3));
    struct ir_value *product = mul(im, i, fresh);
    state[1] = add(im, mul(im, f, c), product);
    struct ir_value *o = activate(im, r, 0, peep(im, r, 1, all, 1, MUTANT(121, state[1], c)));
    state[0] = state[1] ? mul(im, o, imp_activation(im, r->f[2], state[1], r->alpha[2], r->beta[2])) : NULL;
    if (r->projection && state[0])
        state[0] = imp_matmul(im, state[0], r->projection, false, true, TCC_NONE);
    return state[0] != NULL;
}

bool imp_rnn_step(struct imp *im, const struct imp_rnn *r, struct ir_value *x, struct ir_value **state)
{
    static bool (*const steps[])(struct imp *, const struct imp_rnn *, struct ir_value *, struct ir_value **) = {
        [IMP_RNN] = step_rnn, [IMP_GRU] = step_gru, [IMP_LSTM] = step_lstm};
    return x && steps[r->cell](im, r, x, state);
}

/* The body of the loop: carried states in, states and the collected output out. */
static bool body(struct imp *im, const struct imp_rnn *r, struct ir_value **carried, int nstate,
                 struct ir_value *iteration, struct ir_value **out)
{
    struct ir_value *t = iteration, *state[2] = {carried[0], nstate > 1 ? carried[1] : NULL};
    if (MUTANT(119, r->reverse, false))
        t = imp_bin(im, IR_sub, imp_dim_value(im, ir_addc(im->ctx, imp_dim(r->x, 0), -1)), iteration);
    if (!imp_rnn_step(im, r, imp_gather(im, r->project, t, 0), state))
        return false;
    struct ir_value *y = state[0];
    if (r->lens) {
        struct ir_value *live = imp_bin(im, IR_lt, t, r->lens); /* [b, 1] */
        for (int k = 0; k < nstate; k++)
            state[k] = imp_select(im, live, state[k], carried[k]);
        y = imp_select(im, live, y, imp_like(im, y, 0));
    }
    for (int k = 0; k < nstate; k++)
        out[k] = state[k];
    out[nstate] = y;
    return y && state[0];
}

/* The outputs of a reverse pass come last step first. */
static struct ir_value *reversed(struct imp *im, struct ir_value *y)
{
    ir_expr start[3], size[3], step[3];
    for (int k = 0; k < 3; k++) {
        start[k] = k ? ir_const(im->ctx, 0) : ir_addc(im->ctx, imp_dim(y, 0), -1);
        size[k] = imp_dim(y, k);
        step[k] = ir_const(im->ctx, k ? 1 : -1);
    }
    return imp_slice(im, y, start, size, step);
}

bool imp_rnn_run(struct imp *im, const struct imp_rnn *r, struct ir_value *const *initial, struct ir_value **last)
{
    int nstate = r->cell == IMP_LSTM ? 2 : 1;
    struct ir_builder outside;
    struct ir_value *in[4] = {imp_dim_value(im, imp_dim(r->x, 0)), NULL, initial[0], nstate > 1 ? initial[1] : NULL};
    ir_type types[3];
    for (int k = 0; k < nstate; k++)
        types[k] = initial[k]->type;
    ir_expr dims[3] = {imp_dim(r->x, 0), imp_dim(r->x, 1), r->out};
    types[nstate] = ir_tensor_type(im->ctx, imp_dtype(r->x), 3, dims);
    struct ir_node *loop = ir_build_typed(
        &im->b, IR_loop, 2 + nstate, in,
        IR_ATTRS(ir_attr_i(IR_ATTR_nscan, 1), ir_attr_types(IR_ATTR_types, nstate + 1, types)), nstate + 1, types);
    if (!loop)
        return false;
    struct ir_block *region = imp_open_region(im, loop, &outside);
    struct ir_value *iteration = ir_param_new(region, ir_scalar_type(im->ctx, TCC_I64), "t");
    struct ir_value *condition = ir_param_new(region, ir_scalar_type(im->ctx, TCC_BOOL), "go");
    struct ir_value *carried[2], *out[4];
    for (int k = 0; k < nstate; k++)
        carried[k] = ir_param_new(region, initial[k]->type, k ? "c" : "h");
    bool fine = body(im, r, carried, nstate, iteration, out + 1);
    out[0] = condition;
    fine = fine && imp_yield(im, (size_t)nstate + 2, out);
    imp_close_region(im, &outside);
    for (int k = 0; k <= nstate; k++)
        last[k] = loop->out[k];
    if (r->reverse)
        last[nstate] = reversed(im, last[nstate]);
    return fine;
}

bool imp_rnn_prepare(struct imp *im, struct imp_rnn *r)
{
    if (!r->order)
        r->order = cells[r->cell].order;
    for (int k = 0; k < cells[r->cell].functions; k++) {
        if (!r->f[k]) {
            r->f[k] = cells[r->cell].usual[k];
            r->alpha[k] = r->beta[k] = NAN;
        }
    }
    struct ir_value *bias = r->bias_w;
    if (bias && r->cell == IMP_GRU && r->linear_before_reset) {
        /* The candidate's recurrent bias stays inside the reset gate. */
        ir_expr none = ir_const(im->ctx, 0);
        struct ir_value *zr = imp_slice1(im, r->bias_r, 0, none, ir_mulc(im->ctx, r->hidden, 2));
        bias = add(im, bias, imp_pad(im, zr, NULL, &none, &r->hidden, "constant"));
    } else if (bias) {
        bias = add(im, bias, r->bias_r);
    }
    r->project =
        r->w_bytes.x ? by_bytes(im, r->x, false, &r->w_bytes) : imp_matmul(im, r->x, r->w, false, true, TCC_NONE);
    if (bias)
        r->project = add(im, r->project, bias);
    return r->project && (r->r || r->r_bytes.x);
}
