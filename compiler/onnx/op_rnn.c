/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RNN, GRU, LSTM as loops over time.
 *
 * The input's products with W for all steps are one matrix product before the loop; a step only multiplies the state by
 * R. The three cells share everything but the few lines that combine gates. Per direction: one loop that carries the
 * state and collects it.
 *
 * With sequence_lens, a step at or past a sequence's length leaves its state as it is and outputs 0. That also makes
 * the reverse direction right, which begins with those steps.
 */
#include "compiler/onnx/quant_int.h"
#include "base/mutant.h"

#include <math.h>
#include <string.h>

enum cell { CELL_RNN, CELL_GRU, CELL_LSTM };
static const int gates_of[] = {[CELL_RNN] = 1, [CELL_GRU] = 3, [CELL_LSTM] = 4};

/* A matrix [inputs, gates] of bytes, and its scale and zero point (may be NULL), one or one for each column. */
struct bytes {
    struct ir_value *x, *scale, *zero;
};

struct rnn {
    enum cell cell;
    int direction, directions; /* 0, 1 of this pass; how many there are */
    bool reverse;
    struct ir_value *x; /* [t, b, i] */
    struct ir_value *lens;
    ir_expr hidden, out; /* out: of the state that is put out, hidden unless projected */
    const char *f[3];    /* activations of this direction */
    double alpha[3], beta[3];
    double clip; /* 0: none */
    bool linear_before_reset, input_forget;
    struct ir_value *all_w, *all_r, *all_b,
        *all_p; /* of all directions: [d, g*h, i], [d, g*h, h], [d, 2*g*h], [d, 3*h] */
    struct ir_value *r, *peephole[3], *bias_w, *bias_r; /* r: [g*h, h] */
    struct bytes r_bytes;                               /* instead of r where x is set */
    struct ir_value *projection;                        /* [out, hidden], of PyTorch's LSTMs (operand 8); NULL: none */
    struct ir_value *project;                           /* [t, b, g*h], x W' + b where the cell allows */
};

/* Part `k`, of `size` elements as each of them, of a vector or of the rows of a matrix. */
static struct ir_value *part(struct imp *im, struct ir_value *v, int axis, int64_t k, ir_expr size)
{
    return imp_slice1(im, v, axis, ir_mulc(im->ctx, size, k), size);
}

/* Element `direction` of axis 0, that axis dropped. */
static struct ir_value *of_direction(struct imp *im, struct ir_value *v, int direction)
{
    int64_t zero = 0;
    return v ? imp_squeeze(im, imp_slice1(im, v, 0, ir_const(im->ctx, direction), ir_const(im->ctx, 1)), 1, &zero)
             : NULL;
}

static struct ir_value *activate(struct imp *im, const struct rnn *r, int which, struct ir_value *x)
{
    if (r->clip > 0)
        x = imp_tri(im, IR_clip, x, imp_like(im, x, -r->clip), imp_like(im, x, r->clip));
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
static struct ir_value *by_bytes(struct imp *im, struct ir_value *x, bool rows, const struct bytes *m)
{
    struct ir_value *scale = NULL, *zero = NULL, *q = x ? imp_dynamic_quantize(im, x, rows, &scale, &zero) : NULL;
    return q ? imp_integer_product(im, q, zero, scale, m->x, m->zero, m->scale) : NULL;
}

static struct ir_value *gate_r(struct imp *im, const struct rnn *r, int k, struct ir_value *h)
{
    return imp_matmul(im, h, part(im, r->r, 0, k, r->hidden), false, true, TCC_NONE);
}

static bool step_rnn(struct imp *im, const struct rnn *r, struct ir_value *x, struct ir_value **state)
{
    state[0] = activate(im, r, 0, add(im, x, gate_r(im, r, 0, state[0])));
    return state[0] != NULL;
}

static bool step_gru(struct imp *im, const struct rnn *r, struct ir_value *x, struct ir_value **state)
{
    struct ir_value *h = state[0], *zr, *n;
    ir_expr w = r->hidden, two = ir_mulc(im->ctx, w, 2), none = ir_const(im->ctx, 0);
    if (r->linear_before_reset) {
        struct ir_value *all = imp_matmul(im, h, r->r, false, true, TCC_NONE);
        zr = activate(im, r, 0, add(im, imp_slice1(im, x, 1, none, two), imp_slice1(im, all, 1, none, two)));
        struct ir_value *inner = part(im, all, 1, 2, w);
        if (r->bias_r)
            inner = add(im, inner, part(im, r->bias_r, 0, 2, w));
        n = activate(im, r, 1, add(im, part(im, x, 1, 2, w), mul(im, part(im, zr, 1, 1, w), inner)));
    } else {
        struct ir_value *first = imp_matmul(im, h, imp_slice1(im, r->r, 0, none, two), false, true, TCC_NONE);
        zr = activate(im, r, 0, add(im, imp_slice1(im, x, 1, none, two), first));
        struct ir_value *reset = mul(im, part(im, zr, 1, 1, w), h);
        n = activate(im, r, 1, add(im, part(im, x, 1, 2, w), gate_r(im, r, 2, reset)));
    }
    struct ir_value *z = part(im, zr, 1, 0, w);
    if (!z || !n)
        return false;
    state[0] = add(im, mul(im, imp_bin(im, IR_sub, imp_like(im, z, 1), z), n), mul(im, z, MUTANT(120, h, n)));
    return state[0] != NULL;
}

static struct ir_value *peep(struct imp *im, const struct rnn *r, int k, struct ir_value *gate, struct ir_value *c)
{
    return r->peephole[k] ? add(im, gate, mul(im, r->peephole[k], c)) : gate;
}

static bool step_lstm(struct imp *im, const struct rnn *r, struct ir_value *x, struct ir_value **state)
{
    ir_expr w = r->hidden;
    struct ir_value *all =
        r->r ? imp_matmul(im, state[0], r->r, false, true, TCC_NONE) : by_bytes(im, state[0], true, &r->r_bytes);
    struct ir_value *c = state[1];
    all = add(im, x, all);
    struct ir_value *i = activate(im, r, 0, peep(im, r, 0, part(im, all, 1, 0, w), c));
    struct ir_value *f = r->input_forget && i ? imp_bin(im, IR_sub, imp_like(im, i, 1), i)
                                              : activate(im, r, 0, peep(im, r, 2, part(im, all, 1, 2, w), c));
    struct ir_value *fresh = activate(im, r, 1, part(im, all, 1, 3, w));
    state[1] = add(im, mul(im, f, c), mul(im, i, fresh));
    struct ir_value *o = activate(im, r, 0, peep(im, r, 1, part(im, all, 1, 1, w), MUTANT(121, state[1], c)));
    state[0] = state[1] ? mul(im, o, imp_activation(im, r->f[2], state[1], r->alpha[2], r->beta[2])) : NULL;
    if (r->projection && state[0])
        state[0] = imp_matmul(im, state[0], r->projection, false, true, TCC_NONE);
    return state[0] != NULL;
}

/* The body of the loop: carried states in, states and the collected output out. */
static bool body(struct imp *im, const struct rnn *r, struct ir_value **carried, int nstate, struct ir_value *iteration,
                 struct ir_value **out)
{
    static bool (*const steps[])(struct imp *, const struct rnn *, struct ir_value *, struct ir_value **) = {
        [CELL_RNN] = step_rnn, [CELL_GRU] = step_gru, [CELL_LSTM] = step_lstm};
    struct ir_value *t = iteration, *state[2] = {carried[0], nstate > 1 ? carried[1] : NULL};
    if (MUTANT(119, r->reverse, false))
        t = imp_bin(im, IR_sub, imp_dim_value(im, ir_addc(im->ctx, imp_dim(r->x, 0), -1)), iteration);
    struct ir_value *x = imp_gather(im, r->project, t, 0);
    if (!x || !steps[r->cell](im, r, x, state))
        return false;
    struct ir_value *y = state[0];
    if (r->lens) {
        struct ir_value *live = imp_bin(im, IR_lt, t, r->lens); /* [b, 1] */
        for (int k = 0; k < nstate; k++)
            state[k] = imp_tri(im, IR_select, live, state[k], carried[k]);
        y = imp_tri(im, IR_select, live, y, imp_like(im, y, 0));
    }
    for (int k = 0; k < nstate; k++)
        out[k] = state[k];
    out[nstate] = y;
    return y && state[0];
}

/* Runs one direction: results are the last states and the outputs [t, b, h]. */
static bool run_direction(struct imp *im, const struct rnn *r, int nstate, struct ir_value **initial,
                          struct ir_value **last)
{
    struct ir_builder outside = im->b;
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
    struct ir_block *region = ir_region_new(im->func, loop);
    struct ir_value *iteration = ir_param_new(region, ir_scalar_type(im->ctx, TCC_I64), "t");
    struct ir_value *condition = ir_param_new(region, ir_scalar_type(im->ctx, TCC_BOOL), "go");
    struct ir_value *carried[2], *out[4];
    for (int k = 0; k < nstate; k++)
        carried[k] = ir_param_new(region, initial[k]->type, k ? "c" : "h");
    im->b.block = region;
    im->b.before = NULL;
    bool fine = body(im, r, carried, nstate, iteration, out + 1);
    out[0] = condition;
    fine = fine && ir_build(&im->b, IR_yield, nstate + 2, out, NULL);
    im->b.block = outside.block;
    im->b.before = outside.before;
    for (int k = 0; k < nstate; k++)
        last[k] = loop->out[k];
    last[nstate] = loop->out[nstate];
    return fine;
}

/* The next value of a list, if the activation takes one: the lists hold those of the activations that do, in order.
 * NaN: its own default. */
static double next_constant(bool takes, const float *list, int n, int *at)
{
    return takes && *at < n ? (double)list[(*at)++] : (double)NAN;
}

/* Reads those of all directions up to this one. */
static bool read_activations(struct imp *im, struct rnn *r)
{
    static const char *const usual[][3] = {
        [CELL_RNN] = {"Tanh"}, [CELL_GRU] = {"Sigmoid", "Tanh"}, [CELL_LSTM] = {"Sigmoid", "Tanh", "Tanh"}};
    static const int counts[] = {1, 2, 3};
    int n, na, nb, per = counts[r->cell], alphas = 0, betas = 0;
    const struct onnx_str *names = imp_strs(im, "activations", &n);
    const float *alpha = imp_floats(im, "activation_alpha", &na), *beta = imp_floats(im, "activation_beta", &nb);
    if (n && n != per * r->directions)
        return imp_bad(im, "%d activations; %d are expected", n, per * r->directions);
    for (int k = 0; k < (r->direction + 1) * per; k++) {
        const char *name = names && n ? names[k].data : usual[r->cell][k % per];
        int takes = imp_activation_constants(name);
        r->f[k % per] = name;
        r->alpha[k % per] = next_constant(takes > 0, alpha, na, &alphas);
        r->beta[k % per] = next_constant(takes > 1, beta, nb, &betas);
    }
    return true;
}

static const char w_rows[] = "W has hidden_size rows for each gate", r_rows[] = "R has hidden_size rows for each gate";

/* DynamicQuantizeLSTM (com.microsoft): W and R are bytes, [directions, inputs, gates], with a scale and a zero point
 * for each direction or each of its columns. x becomes bytes once, by the range of all of it, the state at every step,
 * by the range of each sample's: as ONNX Runtime does with as many threads as samples. */
static bool computes_in_bytes(const struct imp *im)
{
    return !strcmp(im->domain, "com.microsoft") && imp_quantises(im);
}

/* The part of operand k, W or R, that a direction has, as bytes. */
static struct bytes byte_matrix(struct imp *im, const struct rnn *r, int k)
{
    ir_expr dims[3] = {NULL, NULL, ir_mulc(im->ctx, r->hidden, gates_of[r->cell])};
    const char *what[3] = {NULL, NULL, k == 1 ? w_rows : r_rows};
    return (struct bytes){.x = of_direction(im, imp_with_dims(im, imp_in(im, k), dims, what), r->direction),
                          .scale = of_direction(im, imp_in(im, 6 + 2 * k), r->direction),
                          .zero = of_direction(im, imp_in(im, 7 + 2 * k), r->direction)};
}

/* Operand k, W or R, as [directions, gates, inputs]: floats, unless the cell computes in bytes, where the matrix only
 * says how large things are. */
static struct ir_value *matrix(struct imp *im, int k)
{
    static const int64_t swap[3] = {0, 2, 1};
    struct ir_value *v = imp_in(im, k), *part[2] = {imp_in(im, 6 + 2 * k), imp_in(im, 7 + 2 * k)};
    ir_expr dims[3];
    if (!v || strcmp(im->domain, "com.microsoft"))
        return v;
    if (imp_rank(v) != 3 || !part[0])
        return imp_bad(im, "W and R with 3 dims, and their scales, are expected"), NULL;
    if (computes_in_bytes(im))
        return imp_transpose(im, v, swap);
    v = imp_cast(im, v, TCC_F32);
    for (int i = 1; i >= 0; i--) {
        if (!part[i])
            continue;
        dims[0] = imp_rank(part[i]) ? imp_dim(part[i], 0) : ir_const(im->ctx, 1);
        dims[1] = ir_const(im->ctx, 1);
        dims[2] = imp_rank(part[i]) > 1 ? imp_dim(part[i], 1) : dims[1];
        struct ir_value *p = imp_reshape(im, imp_cast(im, part[i], TCC_F32), 3, dims);
        v = imp_bin(im, i ? IR_sub : IR_mul, v, p);
    }
    return imp_transpose(im, v, swap);
}

/* Weights, biases and the products of this direction. */
static bool prepare(struct imp *im, struct rnn *r)
{
    bool bytes = computes_in_bytes(im);
    struct bytes w_bytes = bytes ? byte_matrix(im, r, 1) : (struct bytes){NULL, NULL, NULL};
    struct ir_value *w = bytes ? NULL : of_direction(im, r->all_w, r->direction),
                    *b = of_direction(im, r->all_b, r->direction);
    ir_expr h = r->hidden, gates = ir_mulc(im->ctx, h, gates_of[r->cell]);
    if (bytes)
        r->r_bytes = byte_matrix(im, r, 2);
    else
        r->r = of_direction(im, r->all_r, r->direction);
    r->bias_w = b ? part(im, b, 0, 0, gates) : NULL;
    r->bias_r = b ? part(im, b, 0, 1, gates) : NULL;
    struct ir_value *bias = r->bias_w;
    if (bias && r->cell == CELL_GRU && r->linear_before_reset) {
        /* The candidate's recurrent bias stays inside the reset gate. */
        struct ir_value *zr = imp_slice1(im, r->bias_r, 0, ir_const(im->ctx, 0), ir_mulc(im->ctx, h, 2));
        ir_expr none = ir_const(im->ctx, 0);
        bias = add(im, bias, imp_pad(im, zr, NULL, &none, &h, "constant"));
    } else if (bias) {
        bias = add(im, bias, r->bias_r);
    }
    r->project = bytes ? by_bytes(im, r->x, false, &w_bytes) : imp_matmul(im, r->x, w, false, true, TCC_NONE);
    if (bias)
        r->project = add(im, r->project, bias);
    struct ir_value *p = of_direction(im, r->all_p, r->direction);
    for (int k = 0; p && k < 3; k++)
        r->peephole[k] = part(im, p, 0, k, h);
    return r->project && (r->r || r->r_bytes.x) && read_activations(im, r);
}

static struct ir_value *initial_state(struct imp *im, const struct rnn *r, int operand, bool batch_first)
{
    static const int64_t swap[3] = {1, 0, 2};
    struct ir_value *v = imp_in(im, operand);
    ir_expr dims[2] = {imp_dim(r->x, 1), operand == 5 ? r->out : r->hidden};
    if (!v)
        return imp_splat(im, imp_dtype(r->x), 0, 2, dims);
    v = of_direction(im, batch_first ? imp_transpose(im, v, swap) : v, r->direction);
    return imp_expand(im, v, 2, dims);
}

/* Stacks the directions: outputs [t, d, b, h] or [b, t, d, h], states [d, b, h] or [b, d, h]. */
static bool set_results(struct imp *im, int directions, int nstate, struct ir_value *(*last)[4], bool batch_first)
{
    static const int64_t y_order[4] = {2, 0, 1, 3}, state_order[3] = {1, 0, 2};
    for (int k = 0; k <= nstate; k++) {
        struct ir_value *each[2];
        int64_t axis = k == nstate ? 1 : 0;
        int result = k == nstate ? 0 : k + 1;
        if (!imp_wants(im, result))
            continue;
        for (int d = 0; d < directions; d++)
            each[d] = imp_unsqueeze(im, last[d][k], 1, &axis);
        struct ir_value *v = imp_concat(im, directions, each, (int)axis);
        if (batch_first)
            v = imp_transpose(im, v, k == nstate ? y_order : state_order);
        if (!imp_out(im, result, v))
            return false;
    }
    return true;
}

/* The outputs of a reverse pass come last step first. */
static struct ir_value *reversed(struct imp *im, struct ir_value *y)
{
    ir_expr start[3], size[3], step[3];
    if (!y)
        return NULL;
    for (int k = 0; k < 3; k++) {
        start[k] = k ? ir_const(im->ctx, 0) : ir_addc(im->ctx, imp_dim(y, 0), -1);
        size[k] = imp_dim(y, k);
        step[k] = ir_const(im->ctx, k ? 1 : -1);
    }
    return imp_slice(im, y, start, size, step);
}

/* hidden_size: the attribute; without it what the weights say, by a size that is known if there is one. */
static ir_expr hidden_size(struct imp *im, const struct rnn *r, const struct ir_value *w, const struct ir_value *rec)
{
    ir_expr gates = ir_const(im->ctx, gates_of[r->cell]);
    ir_expr size[] = {imp_dim(rec, 2), ir_floordiv(im->ctx, imp_dim(rec, 1), gates),
                      ir_floordiv(im->ctx, imp_dim(w, 1), gates)};
    if (imp_attr(im, "hidden_size"))
        return ir_const(im->ctx, imp_i(im, "hidden_size", 0));
    for (size_t k = 0; k < sizeof size / sizeof *size; k++)
        if (ir_is_const(size[k], NULL))
            return size[k];
    return size[0];
}

/* The weights, with as many directions, gates and rows as there are. */
static bool read_weights(struct imp *im, struct rnn *r, struct ir_value *w, struct ir_value *rec)
{
    struct ir_value *b = imp_in(im, 3), *p = r->cell == CELL_LSTM ? imp_in(im, 7) : NULL;
    ir_expr d = ir_const(im->ctx, r->directions), gates = ir_mulc(im->ctx, r->hidden, gates_of[r->cell]);
    if ((b && imp_rank(b) != 2) || (p && imp_rank(p) != 2))
        return imp_bad(im, "B and P with 2 dims are expected");
    r->all_w = imp_with_dims(im, w, (ir_expr[]){d, gates, NULL},
                             (const char *[]){"W has a part for each direction", w_rows, NULL});
    r->all_r = imp_with_dims(
        im, rec, (ir_expr[]){d, gates, r->out},
        (const char *[]){"R has a part for each direction", r_rows, "R has hidden_size columns for each gate"});
    r->all_b = imp_with_dims(
        im, b, (ir_expr[]){d, ir_mulc(im->ctx, gates, 2)},
        (const char *[]){"B has a part for each direction", "B has twice hidden_size elements for each gate"});
    r->all_p = imp_with_dims(
        im, p, (ir_expr[]){d, ir_mulc(im->ctx, r->hidden, 3)},
        (const char *[]){"P has a part for each direction", "P has hidden_size elements for each of 3 gates"});
    return r->all_w && r->all_r && (!b || r->all_b) && (!p || r->all_p);
}

static bool read_node(struct imp *im, struct rnn *r, bool batch_first)
{
    static const int64_t swap[3] = {1, 0, 2};
    struct ir_value *w = matrix(im, 1), *rec = matrix(im, 2), *lens = imp_in(im, 4);
    r->x = imp_tensor(im, 0);
    if (!r->x)
        return false;
    if (imp_rank(r->x) != 3 || !w || !rec || imp_rank(w) != 3 || imp_rank(rec) != 3)
        return imp_bad(im, "X, W and R with 3 dims are expected");
    r->hidden = r->out = hidden_size(im, r, w, rec);
    struct ir_value *projections = r->cell == CELL_LSTM && !*im->domain ? imp_in(im, 8) : NULL;
    if (projections) { /* [directions, out, hidden] */
        r->out = imp_dim(projections, 1);
        r->projection = of_direction(im, projections, r->direction);
    }
    if (batch_first)
        r->x = imp_transpose(im, r->x, swap);
    r->clip = imp_f(im, "clip", 0);
    r->linear_before_reset = imp_i(im, "linear_before_reset", 0);
    r->input_forget = imp_i(im, "input_forget", 0);
    int64_t axis = 1;
    if (!r->x || !read_weights(im, r, w, rec))
        return false;
    if (lens && imp_rank(lens) != 1)
        return imp_bad(im, "sequence_lens must have 1 dim, it is %s", ir_type_text(im->ctx, lens->type));
    if (lens && !imp_assume(im, IR_EQ, imp_dim(lens, 0), imp_dim(r->x, 1), "there is a length for each sequence"))
        return false;
    if (lens && !imp_check_all(im, lens, imp_dim(r->x, 0), "a length of a sequence"))
        return false;
    r->lens = lens ? imp_unsqueeze(im, imp_cast(im, lens, TCC_I64), 1, &axis) : NULL;
    return !lens || r->lens;
}

bool onnx_op_rnn(struct imp *im)
{
    int arg = im->row->arg;
    const char *direction = imp_s(im, "direction", "forward");
    int directions = !strcmp(direction, "bidirectional") ? 2 : 1, nstate = arg == CELL_LSTM ? 2 : 1;
    bool batch_first = imp_i(im, "layout", 0);
    struct ir_value *last[2][4] = {{NULL}};
    if (directions == 1 && strcmp(direction, "forward") && strcmp(direction, "reverse"))
        return imp_bad(im, "direction '%s'", direction);
    for (int d = 0; d < directions; d++) {
        struct rnn r = {.cell = (enum cell)arg,
                        .direction = d,
                        .directions = directions,
                        .reverse = d || !strcmp(direction, "reverse")};
        struct ir_value *initial[2] = {NULL, NULL};
        if (!read_node(im, &r, batch_first) || !prepare(im, &r))
            return false;
        for (int k = 0; k < nstate; k++) {
            if (!(initial[k] = initial_state(im, &r, 5 + k, batch_first)))
                return false;
        }
        if (!run_direction(im, &r, nstate, initial, last[d]))
            return false;
        if (r.reverse)
            last[d][nstate] = reversed(im, last[d][nstate]);
    }
    return set_results(im, directions, nstate, last, batch_first);
}
