/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --method=smooth (Xiao et al.: SmoothQuant: Accurate and efficient post-training quantization for large language
 * models, ICML 2023; https://arxiv.org/abs/2211.10438): what products multiply has one scale, which a few channels of
 * large values make coarse for all others. So each channel j is divided by s(j) = max|x(j)|^a / max|w(j)|^(1 - a), and
 * the rows of the weights multiplied by it. Products that read the same value share s; maxima of w are over all of
 * them. Convolutions likewise, by the channels of their inputs.
 */
#include "tools/quant/quant_int.h"

#include <math.h>
#include <stdlib.h>

#define LEAST 1e-5

/* Do products alone read the value in 8 bits, over its last axis, or convolutions alone? Then its channels; else 0.
 * One that all are to read in 8 bits (`whole`) must have no other readers. */
static int64_t channels_of(const struct quant *q, int value, const int *whole, int *behind)
{
    const struct quant_value *v = &q->values[value];
    int64_t channels = 0;
    int uses = 0;

    for (int i = 0; i < q->nnodes; i++) {
        struct quant_weight w;
        const struct quant_node *n = &q->nodes[i];
        if (!quant_used(n) || n->in[0] != value)
            continue;
        if (!quant_weight_of(q, n, &w) || w.groups < 1 || w.n % w.groups)
            return 0;
        int axes = w.conv ? q->tensors[w.tensor].rank - 2 : 0;
        if (channels && (channels != w.channels || *behind != axes))
            return 0;
        channels = w.channels;
        *behind = axes;
        uses++;
    }
    return whole[value] && (uses != v->uses || v->output || v->captured) ? 0 : channels;
}

void quant_want_extremes(struct quant *q, const int *whole)
{
    for (int i = 0; i < q->nvalues && q->smooth > 0; i++) {
        struct quant_value *v = &q->values[i];
        v->smoothed = v->wanted ? channels_of(q, i, whole, &v->behind) : 0;
        if (!v->smoothed)
            continue;
        v->extremes = IR_NEWN(q->ctx, (size_t)(2 * v->smoothed), float);
        v->by = IR_NEWN(q->ctx, (size_t)v->smoothed, float);
    }
}

void quant_add_extremes(struct quant_value *v, const struct tcc_tensor *t, int64_t n)
{
    int axis = t->rank - 1 - v->behind;
    const float *x = t->data;
    int64_t each = axis < 0 ? 0 : tcc_elements(v->behind, t->dims + axis + 1);

    for (int64_t i = 0; i < n && axis >= 0 && t->dims[axis] == v->smoothed; i++) {
        float *of = v->extremes + 2 * (i / each % v->smoothed);
        of[0] = fminf(of[0], x[i]);
        of[1] = fmaxf(of[1], x[i]);
    }
}

/* The largest weight of each row, over all products that read the value. */
static int largest_weights(struct quant *q, int value, float *most)
{
    int code = EXIT_FINE;

    for (int i = 0; i < q->nnodes && code == EXIT_FINE; i++) {
        struct quant_weight w;
        if (!quant_used(&q->nodes[i]) || q->nodes[i].in[0] != value || !quant_weight_of(q, &q->nodes[i], &w))
            continue;
        float *x = quant_columns(q, &w, &code);
        if (!x)
            return code == EXIT_FINE ? tool_error(q->o, EXIT_ENVIRONMENT, "no memory") : code;
        for (int64_t k = 0; k < w.k * w.n; k++) {
            float *to = &most[quant_channel(&w, k / w.n, k % w.n)];
            *to = fmaxf(*to, fabsf(x[k]));
        }
        free(x);
    }
    return code;
}

int quant_smooth(struct quant *q)
{
    int code = EXIT_FINE;

    for (int i = 0; i < q->nvalues && code == EXIT_FINE; i++) {
        struct quant_value *v = &q->values[i];
        if (!v->smoothed)
            continue;
        float *most = IR_NEWN(q->ctx, (size_t)v->smoothed, float);
        code = largest_weights(q, i, most);
        for (int64_t k = 0; k < v->smoothed; k++) {
            double x = fmax(-v->extremes[2 * k], v->extremes[2 * k + 1]);
            v->by[k] = x > 0 && most[k] > 0 ? (float)fmax(pow(x, q->smooth) / pow(most[k], 1 - q->smooth), LEAST) : 1;
        }
    }
    return code;
}

void quant_smoothed_range(const struct quant_value *v, double *lo, double *hi)
{
    *lo = *hi = 0;
    for (int64_t k = 0; k < v->smoothed; k++) {
        *lo = fmin(*lo, v->extremes[2 * k] / v->by[k]);
        *hi = fmax(*hi, v->extremes[2 * k + 1] / v->by[k]);
    }
}

const char *quant_put_smoothed(struct quant_out *w, int value)
{
    struct quant *q = w->q;
    const struct quant_value *v = &q->values[value];
    const char *x = quant_value_name(q, value), *out = quant_name(q, x, "_smoothed");
    float *by = IR_NEWN(q->ctx, (size_t)v->smoothed + 1, float);
    int64_t dims[TCC_MAX_RANK] = {v->smoothed};

    for (int k = 0; k < v->behind; k++)
        dims[k + 1] = 1;
    for (int64_t k = 0; k < v->smoothed; k++)
        by[k] = 1 / v->by[k];
    const char *factor = quant_put_tensor(w, quant_name(q, x, "_smoothing"), TCC_F32, v->behind + 1, dims, by);
    quant_put_node(w, "", "Mul", (const char *[]){x, factor, NULL}, (const char *[]){out, NULL}, NULL);
    return out;
}
