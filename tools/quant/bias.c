/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --bias-correction (Nagel et al.: Data-free quantization through weight equalization and bias correction, ICCV 2019,
 * by the data's means): rounded weights shift the mean of each output by E[x] (W - Wq), which the bias takes back. The
 * means are of each channel of a node's input over --data; what a convolution's padding adds to them is not counted.
 */
#include "tools/quant/quant_int.h"

#include <stdlib.h>

static bool corrected(const struct quant *q, const struct quant_node *n)
{
    return n->chosen && !n->excluded && quant_bias_fits(q, n);
}

void quant_want_means(struct quant *q)
{
    for (int i = 0; i < q->nnodes && q->corrects; i++) {
        struct quant_weight w;
        struct quant_node *n = &q->nodes[i];
        if (!corrected(q, n) || !quant_weight_of(q, n, &w) || q->values[n->in[0]].channels)
            continue;
        q->values[n->in[0]].by_channel = w.conv;
        q->values[n->in[0]].channels = w.channels;
    }
}

void quant_add_means(struct quant_value *v, const float *x, int rank, const int64_t *dims, int64_t rows)
{
    int axis = v->by_channel ? 1 : rank - 1;
    int64_t inner = 1, outer = rows;

    if (rank < 2 || dims[axis] != v->channels)
        return;
    for (int i = 1; i < axis; i++)
        outer *= dims[i];
    for (int i = axis + 1; i < rank; i++)
        inner *= dims[i];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t c = 0; c < v->channels; c++)
            for (int64_t i = 0; i < inner; i++)
                v->sums[c] += (double)*x++;
    v->summed += outer * inner;
}

double *quant_correction(struct quant *q, const struct quant_node *n, const struct quant_weight *w,
                         const struct quant_codes *c, int *code)
{
    const struct quant_value *v = &q->values[n->in[0]];
    double *by = IR_NEWN(q->ctx, (size_t)w->n, double);

    if (!v->summed || v->by_channel != w->conv || v->channels != w->channels || w->n % w->groups ||
        w->k % (w->channels / w->groups))
        return NULL;
    float *x = quant_columns(q, w, code);
    bool done = x != NULL;
    for (int64_t k = 0; x && k < w->k; k++)
        for (int64_t m = 0; m < w->n; m++) {
            double own = (double)(c->at[k * w->n + m] - 128) * c->scales[m];
            int64_t channel = quant_channel(w, k, m);
            double s = v->smoothed ? v->by[channel] : 1;
            by[m] += (x[k * w->n + m] - own / s) * v->sums[channel] / (double)v->summed;
        }
    free(x);
    return done ? by : NULL;
}
