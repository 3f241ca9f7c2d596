/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QuantizeLinear and DequantizeLinear around products and convolutions, which stay what they are: compilers make
 * integer kernels of them. Activations are u8 with one scale, weights i8 with a scale for each output, a bias i32 with
 * the product of both; or all of them float8. Weights alone: DequantizeLinear of i8.
 *
 * A convolution's result, behind its activation, is quantised too, for all that read it, so that it can be written in
 * 8 bits; other values for quantised nodes alone.
 */
#include "tools/quant/quant_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FP8_MOST 448.0

static bool is_activation(const struct quant_node *n)
{
    static const char *const kinds[] = {"Relu",      "Clip", "LeakyRelu", "Elu",  "Sigmoid", "HardSigmoid",
                                        "HardSwish", "Gelu", "Mish",      "Tanh", "Softplus"};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(n->op, kinds[k]))
            return n->nin > 0 && n->nout == 1 && n->out[0] >= 0;
    return false;
}

/* What an activation makes of v where nothing else reads it: a node, or v times what a node makes of it, as exporters
 * write SiLU; v: there is none. */
static int activated(const struct quant *q, int v)
{
    int made = -1, product = -1, by = -1;

    if (q->values[v].output || q->values[v].captured || q->values[v].uses > 2)
        return v;
    for (int i = 0; i < q->nnodes; i++) {
        const struct quant_node *n = &q->nodes[i];
        if (n->nin && n->in[0] == v && is_activation(n))
            made = n->out[0];
        if (n->nin == 2 && !strcmp(n->op, "Mul") && (n->in[0] == v || n->in[1] == v)) {
            product = n->out[0];
            by = n->in[n->in[0] == v];
        }
    }
    if (made >= 0 && q->values[v].uses == 1)
        return made;
    return made >= 0 && by == made && q->values[made].uses == 1 && !q->values[made].output && product >= 0 ? product
                                                                                                           : v;
}

void quant_want_static(struct quant *q, int *whole)
{
    for (int i = 0; i < q->nvalues; i++)
        q->values[i].wanted = false;
    for (int i = 0; i < q->nnodes; i++) {
        const struct quant_node *n = &q->nodes[i];
        if (!quant_used(n))
            continue;
        q->values[n->in[0]].wanted = true;
        int v = q->mode == QUANT_FP8 || q->trained || strcmp(n->op, "Conv") ? -1 : activated(q, n->out[0]);
        if (v < 0 || q->values[v].output || !q->values[v].uses)
            continue;
        q->values[v].wanted = true;
        if (whole)
            whole[v] = q->values[v].smoothed ? 0 : i + 1; /* that one's readers take it divided */
    }
    for (int i = 0; i < q->nnodes && whole; i++)
        if (q->nodes[i].chosen && q->nodes[i].excluded) /* whose input shall lose nothing, either */
            whole[q->nodes[i].in[0]] = 0;
}

double quant_multiplications(const struct quant *q, int node)
{
    const struct quant_node *n = &q->nodes[node];
    const struct hist *in = q->values[n->in[0]].hist, *out = q->values[activated(q, n->out[0])].hist;
    struct quant_weight w;

    if (!quant_weight_of(q, n, &w) || !in)
        return 0;
    return (w.conv && out ? (double)out->count / (double)w.n : (double)in->count / (double)w.channels) *
           (double)(w.k * w.n);
}

/* -- Activations ---------------------------------------------------------------------------------------------- */

/* Found once: a search over a histogram takes as long as a small model's compilation, and models are written often. */
static void activation_scale(struct quant *q, int value, float *scale, int *zero)
{
    struct quant_value *v = &q->values[value];
    double lo, hi;

    if (!(v->step > 0)) {
        if (v->smoothed)
            quant_smoothed_range(v, &lo, &hi);
        else
            hist_range(v->hist, q->method, q->percentile, &lo, &hi);
        quant_levels(lo, hi, &v->step, &v->zero);
        if (q->mode == QUANT_FP8) {
            v->step = (float)(fmax(-lo, hi) / FP8_MOST);
            v->step = v->step > 0 ? v->step : 1;
            v->zero = 0;
        }
    }
    *scale = v->step;
    *zero = v->zero;
}

const char *quant_dequantized(struct quant_out *w, int value)
{
    struct quant *q = w->q;
    const char *name = quant_value_name(q, value);
    float scale;
    int zero;

    if (w->made[0][value])
        return w->made[0][value];
    activation_scale(q, value, &scale, &zero);
    const char *from = q->values[value].smoothed ? quant_put_smoothed(w, value) : name;
    uint8_t byte = (uint8_t)zero;
    enum tcc_dtype dtype = q->mode == QUANT_FP8 ? TCC_F8E4M3FN : TCC_U8;
    const char *s = quant_put_tensor(w, quant_name(q, name, "_scale"), TCC_F32, 0, NULL, &scale),
               *z = quant_put_tensor(w, quant_name(q, name, "_zero_point"), dtype, 0, NULL, &byte),
               *bytes = quant_name(q, name, "_quantized"), *back = quant_name(q, name, "_dequantized");
    quant_put_node(w, "", "QuantizeLinear", (const char *[]){from, s, z, NULL}, (const char *[]){bytes, NULL}, NULL);
    quant_put_node(w, "", "DequantizeLinear", (const char *[]){bytes, s, z, NULL}, (const char *[]){back, NULL}, NULL);
    return w->made[0][value] = back;
}

/* -- Weights -------------------------------------------------------------------------------------------------- */

/* The elements as they are stored, in bytes: i8, or float8 with scales that replace those of the codes. */
static void *weight_bytes(struct quant_out *w, const struct quant_weight *x, struct quant_codes *c)
{
    struct quant *q = w->q;
    int8_t *to = malloc((size_t)(x->k * x->n) + 1);
    float *values = q->mode == QUANT_FP8 ? quant_floats(q, x->tensor, &w->code) : NULL;
    bool rows = x->conv || x->transposed;

    for (int64_t n = 0; n < x->n && values; n++)
        c->scales[n] = c->scales[n] == 1 ? 1 : (float)(c->scales[n] * 127 / FP8_MOST);
    for (int64_t k = 0; to && k < x->k; k++)
        for (int64_t n = 0; n < x->n; n++) {
            int64_t at = rows ? n * x->k + k : k * x->n + n;
            if (values)
                tcc_store_f64(TCC_F8E4M3FN, to + at, (double)values[at] / c->scales[n]);
            else
                to[at] = (int8_t)(c->at[k * x->n + n] - 128);
        }
    free(values);
    if (!to && w->code == EXIT_FINE)
        w->code = tool_error(q->o, EXIT_ENVIRONMENT, "no memory");
    return to;
}

/* Codes of 4 bits, two in a byte. */
static void pack(uint8_t *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int half = at[i] & 15;
        at[i / 2] = (uint8_t)(i & 1 ? at[i / 2] | half << 4 : half);
    }
}

/* The dequantised weight's name; *scales[n]: malloc'ed. NULL: an error. */
static const char *put_weight(struct quant_out *w, int node, const struct quant_weight *x, float **scales)
{
    struct quant *q = w->q;
    const struct quant_node *n = &q->nodes[node];
    const struct onnx_tensor *t = &q->tensors[x->tensor];
    struct quant_codes *own = n->codes ? NULL : quant_codes_of(q, node, 8, 0, &w->code), *c = n->codes ? n->codes : own;
    void *bytes = c ? weight_bytes(w, x, c) : NULL, *zeros = calloc(1, (size_t)x->n + 1);
    const char *back = NULL;
    int rank = !quant_one_scale(q);

    *scales = bytes && zeros ? malloc((size_t)x->n * sizeof **scales + 1) : NULL;
    if (*scales) {
        /* products that share a weight have it each their own: an axis, or GPTQ's codes, may differ */
        const char *base =
            ir_internf(q->ctx, q->values[n->in[1]].uses > 1 ? "%s_%d" : "%s", quant_value_name(q, n->in[1]), node);
        bool halves = q->trained && q->trained_bits == 4 && q->opset >= QUANT_HALVES_OPSET;
        enum tcc_dtype dtype = q->mode == QUANT_FP8 ? TCC_F8E4M3FN : halves ? TCC_I4 : TCC_I8;
        if (halves)
            pack(bytes, x->k * x->n);
        if (q->corrects)
            q->nodes[node].correction = quant_correction(q, n, x, c, &w->code);
        memcpy(*scales, c->scales, (size_t)x->n * sizeof **scales);
        const char *b = quant_put_tensor(w, quant_name(q, base, "_quantized"), dtype, t->rank, t->dims, bytes),
                   *s = quant_put_tensor(w, quant_name(q, base, "_scale"), TCC_F32, rank, &x->n, *scales),
                   *z = quant_put_tensor(w, quant_name(q, base, "_zero_point"), dtype, rank, &x->n, zeros);
        back = quant_name(q, base, "_dequantized");
        quant_put_node(w, "", "DequantizeLinear", (const char *[]){b, s, z, NULL}, (const char *[]){back, NULL},
                       rank ? (const struct quant_attr[]){{"axis", x->axis}, {0}} : NULL);
    } else if (w->code == EXIT_FINE) {
        w->code = tool_error(q->o, EXIT_ENVIRONMENT, "no memory");
    }
    free(bytes);
    free(zeros);
    quant_codes_free(own);
    return back;
}

/* -- Biases ----------------------------------------------------------------------------------------------------- */

/* The dequantised bias: i32, as sums of products of codes are. */
static const char *put_bias(struct quant_out *w, int node, const float *scales, int64_t n)
{
    struct quant *q = w->q;
    int value = q->nodes[node].in[2];
    float in, *x = quant_floats(q, q->values[value].tensor, &w->code), *both = malloc((size_t)n * sizeof *both + 1);
    int32_t *to = malloc((size_t)n * sizeof *to + 1);
    const char *back = "";
    int zero, rank = !quant_one_scale(q);

    activation_scale(q, q->nodes[node].in[0], &in, &zero);
    if (x && both && to) {
        for (int64_t i = 0; i < n; i++) {
            both[i] = in * scales[i];
            double lacks = q->nodes[node].correction ? q->nodes[node].correction[i] : 0;
            to[i] = (int32_t)fmin(fmax(nearbyint(((double)x[i] + lacks) / both[i]), INT32_MIN), INT32_MAX);
        }
        const char *base = ir_internf(q->ctx, "%s_%d", quant_value_name(q, value), node);
        const char *b = quant_put_tensor(w, quant_name(q, base, "_quantized"), TCC_I32, 1, &n, to),
                   *s = quant_put_tensor(w, quant_name(q, base, "_scale"), TCC_F32, rank, &n, both);
        back = quant_name(q, base, "_dequantized");
        quant_put_node(w, "", "DequantizeLinear", (const char *[]){b, s, NULL}, (const char *[]){back, NULL},
                       rank ? (const struct quant_attr[]){{"axis", 0}, {0}} : NULL);
    } else if (w->code == EXIT_FINE) {
        w->code = tool_error(q->o, EXIT_ENVIRONMENT, "no memory");
    }
    free(x);
    free(both);
    free(to);
    return back;
}

void quant_put_qdq(struct quant_out *w, int node)
{
    struct quant *q = w->q;
    const struct quant_node *n = &q->nodes[node];
    const char **in = IR_NEWN(q->ctx, n->nin + 1, const char *);
    struct quant_weight x;
    float *scales = NULL;
    bool values = q->mode != QUANT_WEIGHT8;

    if (!quant_weight_of(q, n, &x))
        return;
    for (int i = 0; i < n->nin; i++)
        in[i] = quant_value_name(q, n->in[i]);
    if (values)
        in[0] = quant_dequantized(w, n->in[0]);
    in[1] = put_weight(w, node, &x, &scales);
    if (in[1] && q->mode == QUANT_STATIC && quant_bias_fits(q, n))
        in[2] = put_bias(w, node, scales, x.n);
    for (int i = 2; in[1] && i < n->nin; i++)
        if (n->in[i] >= 0 && w->whole[n->in[i]])
            in[i] = quant_dequantized(w, n->in[i]);
    free(scales);
    if (in[1])
        quant_put_copy(w, n, in);
}
