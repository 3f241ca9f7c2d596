/* SPDX-License-Identifier: Apache-2.0 */
/* RNN, GRU, LSTM, DynamicQuantizeLSTM: what their nodes say (compiler/import/rnn.c builds them). */
#include "compiler/import/rnn.h"
#include "compiler/onnx/import_int.h"

#include <math.h>
#include <string.h>

/* A direction, and which of how many. */
struct rnn {
    struct imp_rnn of;
    int direction, directions;
    struct ir_value *all_w, *all_r, *all_b,
        *all_p; /* of all directions: [d, g*h, i], [d, g*h, h], [d, 2*g*h], [d, 3*h] */
};

static ir_expr gates_of(struct imp *im, const struct rnn *r)
{
    return ir_mulc(im->ctx, r->of.hidden, imp_rnn_gates(r->of.cell));
}

/* Element `direction` of axis 0, that axis dropped. */
static struct ir_value *of_direction(struct imp *im, struct ir_value *v, int direction)
{
    int64_t zero = 0;
    return v ? imp_squeeze(im, imp_slice1(im, v, 0, ir_const(im->ctx, direction), ir_const(im->ctx, 1)), 1, &zero)
             : NULL;
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
    int n, na, nb, per, alphas = 0, betas = 0;
    const char *const *usual = imp_rnn_functions(r->of.cell, &per);
    const struct onnx_str *names = imp_strs(im, "activations", &n);
    const float *alpha = imp_floats(im, "activation_alpha", &na), *beta = imp_floats(im, "activation_beta", &nb);
    if (n && n != per * r->directions)
        return imp_bad(im, "%d activations; %d are expected", n, per * r->directions);
    for (int k = 0; k < (r->direction + 1) * per; k++) {
        const char *name = names && n ? names[k].data : usual[k % per];
        int takes = imp_activation_constants(name);
        r->of.f[k % per] = name;
        r->of.alpha[k % per] = next_constant(takes > 0, alpha, na, &alphas);
        r->of.beta[k % per] = next_constant(takes > 1, beta, nb, &betas);
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
static struct imp_bytes byte_matrix(struct imp *im, const struct rnn *r, int k)
{
    ir_expr dims[3] = {NULL, NULL, gates_of(im, r)};
    const char *what[3] = {NULL, NULL, k == 1 ? w_rows : r_rows};
    return (struct imp_bytes){.x = of_direction(im, imp_with_dims(im, imp_in(im, k), dims, what), r->direction),
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
    struct ir_value *b = of_direction(im, r->all_b, r->direction), *p = of_direction(im, r->all_p, r->direction);
    ir_expr gates = gates_of(im, r), none = ir_const(im->ctx, 0);
    if (computes_in_bytes(im)) {
        r->of.w_bytes = byte_matrix(im, r, 1);
        r->of.r_bytes = byte_matrix(im, r, 2);
    } else {
        r->of.w = of_direction(im, r->all_w, r->direction);
        r->of.r = of_direction(im, r->all_r, r->direction);
    }
    r->of.bias_w = b ? imp_slice1(im, b, 0, none, gates) : NULL;
    r->of.bias_r = b ? imp_slice1(im, b, 0, gates, gates) : NULL;
    for (int k = 0; p && k < 3; k++)
        r->of.peephole[k] = imp_slice1(im, p, 0, ir_mulc(im->ctx, r->of.hidden, k), r->of.hidden);
    return read_activations(im, r) && imp_rnn_prepare(im, &r->of);
}

static struct ir_value *initial_state(struct imp *im, const struct rnn *r, int operand, bool batch_first)
{
    static const int64_t swap[3] = {1, 0, 2};
    struct ir_value *v = imp_in(im, operand);
    ir_expr dims[2] = {imp_dim(r->of.x, 1), operand == 5 ? r->of.out : r->of.hidden};
    if (!v)
        return imp_splat(im, imp_dtype(r->of.x), 0, 2, dims);
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

/* hidden_size: the attribute; without it what the weights say, by a size that is known if there is one. */
static ir_expr hidden_size(struct imp *im, const struct rnn *r, const struct ir_value *w, const struct ir_value *rec)
{
    ir_expr gates = ir_const(im->ctx, imp_rnn_gates(r->of.cell));
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
    struct ir_value *b = imp_in(im, 3), *p = r->of.cell == IMP_LSTM ? imp_in(im, 7) : NULL;
    ir_expr d = ir_const(im->ctx, r->directions), gates = gates_of(im, r);
    if ((b && imp_rank(b) != 2) || (p && imp_rank(p) != 2))
        return imp_bad(im, "B and P with 2 dims are expected");
    r->all_w = imp_with_dims(im, w, (ir_expr[]){d, gates, NULL},
                             (const char *[]){"W has a part for each direction", w_rows, NULL});
    r->all_r = imp_with_dims(
        im, rec, (ir_expr[]){d, gates, r->of.out},
        (const char *[]){"R has a part for each direction", r_rows, "R has hidden_size columns for each gate"});
    r->all_b = imp_with_dims(
        im, b, (ir_expr[]){d, ir_mulc(im->ctx, gates, 2)},
        (const char *[]){"B has a part for each direction", "B has twice hidden_size elements for each gate"});
    r->all_p = imp_with_dims(
        im, p, (ir_expr[]){d, ir_mulc(im->ctx, r->of.hidden, 3)},
        (const char *[]){"P has a part for each direction", "P has hidden_size elements for each of 3 gates"});
    return r->all_w && r->all_r && (!b || r->all_b) && (!p || r->all_p);
}

static bool read_node(struct imp *im, struct rnn *r, bool batch_first)
{
    static const int64_t swap[3] = {1, 0, 2};
    struct ir_value *w = matrix(im, 1), *rec = matrix(im, 2), *lens = imp_in(im, 4);
    r->of.x = imp_tensor(im, 0);
    if (!r->of.x)
        return false;
    if (imp_rank(r->of.x) != 3 || !w || !rec || imp_rank(w) != 3 || imp_rank(rec) != 3)
        return imp_bad(im, "X, W and R with 3 dims are expected");
    r->of.hidden = r->of.out = hidden_size(im, r, w, rec);
    struct ir_value *projections = r->of.cell == IMP_LSTM && !*im->domain ? imp_in(im, 8) : NULL;
    if (projections) { /* [directions, out, hidden] */
        r->of.out = imp_dim(projections, 1);
        r->of.projection = of_direction(im, projections, r->direction);
    }
    if (batch_first)
        r->of.x = imp_transpose(im, r->of.x, swap);
    r->of.clip = imp_f(im, "clip", 0);
    r->of.linear_before_reset = imp_i(im, "linear_before_reset", 0);
    r->of.input_forget = imp_i(im, "input_forget", 0);
    int64_t axis = 1;
    if (!r->of.x || !read_weights(im, r, w, rec))
        return false;
    if (lens && imp_rank(lens) != 1)
        return imp_bad(im, "sequence_lens must have 1 dim, it is %s", ir_type_text(im->ctx, lens->type));
    if (lens && !imp_assume(im, IR_EQ, imp_dim(lens, 0), imp_dim(r->of.x, 1), "there is a length for each sequence"))
        return false;
    if (lens && !imp_check_all(im, lens, imp_dim(r->of.x, 0), "a length of a sequence"))
        return false;
    r->of.lens = lens ? imp_unsqueeze(im, imp_cast(im, lens, TCC_I64), 1, &axis) : NULL;
    return !lens || r->of.lens;
}

bool onnx_op_rnn(struct imp *im)
{
    int arg = im->row->arg;
    const char *direction = imp_s(im, "direction", "forward");
    int directions = !strcmp(direction, "bidirectional") ? 2 : 1, nstate = arg == IMP_LSTM ? 2 : 1;
    bool batch_first = imp_i(im, "layout", 0);
    struct ir_value *last[2][4] = {{NULL}};
    if (directions == 1 && strcmp(direction, "forward") && strcmp(direction, "reverse"))
        return imp_bad(im, "direction '%s'", direction);
    for (int d = 0; d < directions; d++) {
        struct rnn r = {.direction = d, .directions = directions};
        r.of.cell = (enum imp_cell)arg;
        r.of.reverse = d || !strcmp(direction, "reverse");
        struct ir_value *initial[2] = {NULL, NULL};
        if (!read_node(im, &r, batch_first) || !prepare(im, &r))
            return false;
        for (int k = 0; k < nstate; k++) {
            if (!(initial[k] = initial_state(im, &r, 5 + k, batch_first)))
                return false;
        }
        if (!imp_rnn_run(im, &r.of, initial, last[d]))
            return false;
    }
    return set_results(im, directions, nstate, last, batch_first);
}
