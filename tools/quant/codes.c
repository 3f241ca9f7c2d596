/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights as whole numbers with scales: rounded to the nearest, or by GPTQ (Frantar et al., GPTQ: accurate
 * post-training quantization, 2022), which takes rows one after the other and gives what rounding has changed to the
 * rows that are left, by the inverse of the Hessian H = X'X of the layer's inputs, so that the layer's outputs change
 * least.
 */
#include "tools/quant/quant_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AXIS_OPSET = 13 };
#define DAMPING 0.01                       /* of the Hessian's mean diagonal, GPTQ's default */
enum { BLOCK = 128 };                      /* rows of the authors' blocks */
#define MOST_HESSIANS (INT64_C(512) << 20) /* bytes of those that are there at a time, of several */

void quant_codes_free(struct quant_codes *c)
{
    if (!c)
        return;
    free(c->at);
    free(c->zeros);
    free(c->scales);
    free(c->by);
    free(c);
}

bool quant_one_scale(const struct quant *q)
{
    return q->opset < AXIS_OPSET && (q->mode == QUANT_STATIC || q->mode == QUANT_WEIGHT8);
}

struct quant_codes *quant_codes_new(const struct quant *q, const struct quant_weight *w, int bits, int64_t group)
{
    struct quant_codes *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    *c = (struct quant_codes){.bits = bits, .one = quant_one_scale(q), .k = w->k, .n = w->n, .group = group};
    c->groups = (w->k + group - 1) / group;
    c->at = malloc((size_t)(w->k * w->n) + 1);
    c->zeros = malloc((size_t)(c->groups * w->n) + 1);
    c->scales = malloc((size_t)(c->groups * w->n) * sizeof *c->scales + 1);
    if (c->at && c->zeros && c->scales)
        return c;
    quant_codes_free(c);
    return NULL;
}

/* Scales and zero points of the group that begins at row k. */
static void settle_group(struct quant_codes *c, const float *w, int64_t k)
{
    int64_t last = k + c->group < c->k ? k + c->group : c->k, g = k / c->group;
    float most = 0;

    for (int64_t n = 0; n < c->n; n++) {
        float lo = 0, hi = 0, scale;
        for (int64_t i = k; i < last; i++) {
            float x = w[i * c->n + n];
            lo = x < lo ? x : lo;
            hi = x > hi ? x : hi;
        }
        scale = c->bits == 8 ? (hi > -lo ? hi : -lo) / 127 : (hi - lo) / 15;
        most = scale > most && isfinite(scale) ? scale : most;
        scale = scale > 0 && isfinite(scale) ? scale : 1;
        c->scales[g * c->n + n] = scale;
        c->zeros[g * c->n + n] = c->bits == 8 ? 128 : (uint8_t)fminf(fmaxf(nearbyintf(-lo / scale), 0), 15);
    }
    for (int64_t n = 0; c->one && n < c->n; n++)
        c->scales[g * c->n + n] = most > 0 ? most : 1;
}

/* The code of an element; its value. */
static float encode(struct quant_codes *c, int64_t k, int64_t n, float x)
{
    int64_t g = k / c->group * c->n + n;
    float least = c->bits == 8 ? 1 : 0, most = c->bits == 8 ? 255 : 15;
    float code = fminf(fmaxf(nearbyintf(x / c->scales[g]) + c->zeros[g], least), most);

    c->at[k * c->n + n] = (uint8_t)code;
    return (code - c->zeros[g]) * c->scales[g];
}

void quant_round(struct quant_codes *c, const float *w)
{
    for (int64_t k = 0; k < c->k; k++) {
        if (k % c->group == 0)
            settle_group(c, w, k);
        for (int64_t n = 0; n < c->n; n++)
            encode(c, k, n, w[k * c->n + n]);
    }
}

/* -- GPTQ ----------------------------------------------------------------------------------------------------- */

/* H becomes R, upper, with H = R R'. H's lower triangle is given. */
static void factorise(double *h, int64_t n)
{
    for (int64_t j = n - 1; j >= 0; j--)
        for (int64_t i = j; i >= 0; i--) {
            double sum = h[j * n + i];
            for (int64_t m = j + 1; m < n; m++)
                sum -= h[i * n + m] * h[j * n + m];
            h[i * n + j] = i == j ? sqrt(sum > 0 ? sum : 1e-30) : sum / h[j * n + j];
        }
}

/* t[j][m] = (R^-1)[m][j]: of each column of the inverse a row. */
static void invert(const double *r, double *t, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        memset(t + j * n, 0, (size_t)n * sizeof *t);
        t[j * n + j] = 1 / r[j * n + j];
        for (int64_t i = j - 1; i >= 0; i--) {
            double sum = 0;
            for (int64_t m = i + 1; m <= j; m++)
                sum += r[i * n + m] * t[j * n + m];
            t[j * n + i] = -sum / r[i * n + i];
        }
    }
}

/* Inputs that are always 0 have weights that say nothing; the diagonal is damped. */
static void prepare(double *h, float *w, const struct quant_codes *c)
{
    double mean = 0;

    for (int64_t i = 0; i < c->k; i++) {
        if (h[i * c->k + i] <= 0) {
            h[i * c->k + i] = 1;
            memset(w + i * c->n, 0, (size_t)c->n * sizeof *w);
        }
        mean += h[i * c->k + i] / (double)c->k;
    }
    for (int64_t i = 0; i < c->k; i++)
        h[i * c->k + i] += DAMPING * mean;
}

/* Groups that begin in a block have the ranges that their weights have where it begins, as in the authors' code and
 * those that followed it, not with what rows of the block have given them. */
static void settle_block(struct quant_codes *c, const float *w, int64_t k)
{
    int64_t first = (k + c->group - 1) / c->group * c->group;

    for (int64_t g = first; g < k + BLOCK && g < c->k; g += c->group)
        settle_group(c, w, g);
}

/* Destroys w. False: no memory. */
static bool by_gptq(struct quant_codes *c, float *w, const double *hessian)
{
    size_t size = (size_t)(c->k * c->k) * sizeof(double);
    double *h = malloc(size), *t = malloc(size);
    float *error = malloc((size_t)c->n * sizeof *error + 1);

    if (h && t && error) {
        memcpy(h, hessian, size);
        prepare(h, w, c);
        factorise(h, c->k);
        invert(h, t, c->k);
        for (int64_t k = 0; k < c->k; k++) {
            if (k % BLOCK == 0)
                settle_block(c, w, k);
            for (int64_t n = 0; n < c->n; n++)
                error[n] = (w[k * c->n + n] - encode(c, k, n, w[k * c->n + n])) / (float)t[k * c->k + k];
            for (int64_t m = k + 1; m < c->k; m++)
                for (int64_t n = 0; n < c->n; n++)
                    w[m * c->n + n] -= (float)t[m * c->k + k] * error[n];
        }
    }
    free(h);
    free(t);
    free(error);
    return h && t && error;
}

/* By steps that were trained: 4 bits are -7 to 7, as 8 are -127 to 127. */
static void by_steps(struct quant_codes *c, const float *w, const float *steps, float most)
{
    memcpy(c->scales, steps, (size_t)c->n * sizeof *steps);
    memset(c->zeros, 128, (size_t)c->n);
    for (int64_t i = 0; i < c->k * c->n; i++)
        c->at[i] = (uint8_t)(fminf(fmaxf(nearbyintf(w[i] / steps[i % c->n]), -most), most) + 128);
}

struct quant_codes *quant_codes_of(struct quant *q, int node, int bits, int64_t group, int *code)
{
    const struct quant_node *n = &q->nodes[node];
    const double *hessian = q->values[n->in[0]].hessian;
    struct quant_weight w;

    if (!quant_weight_of(q, n, &w))
        return NULL;
    float *x = quant_columns(q, &w, code);
    const struct quant_value *v = &q->values[n->in[0]];
    for (int64_t i = 0; x && v->smoothed && i < w.k * w.n; i++)
        x[i] *= v->by[quant_channel(&w, i / w.n, i % w.n)];
    struct quant_codes *c = x ? quant_codes_new(q, &w, bits, group && group < w.k ? group : w.k) : NULL;
    bool done = c != NULL;
    if (c && hessian && !w.conv && q->values[n->in[0]].width == w.k)
        done = q->method == METHOD_AWQ ? quant_awq(q, c, x, hessian) : by_gptq(c, x, hessian);
    else if (c && n->steps)
        by_steps(c, x, n->steps, q->trained_bits == 4 ? 7 : 127);
    else if (c)
        quant_round(c, x);
    free(x);
    if (done)
        return c;
    quant_codes_free(c);
    if (*code == EXIT_FINE)
        *code = tool_error(q->o, EXIT_ENVIRONMENT, "no memory");
    return NULL;
}

/* Codes of the nodes whose inputs have Hessians now. */
static int take_codes(struct quant *q, int bits, int64_t group)
{
    int code = EXIT_FINE;

    for (int i = 0; i < q->nnodes && code == EXIT_FINE; i++)
        if (q->nodes[i].chosen && !q->nodes[i].codes && q->values[q->nodes[i].in[0]].hessian)
            q->nodes[i].codes = quant_codes_of(q, i, bits, group, &code);
    for (int i = 0; i < q->nvalues; i++) {
        free(q->values[i].hessian);
        q->values[i].hessian = NULL;
        q->values[i].wanted = false;
    }
    return code;
}

int quant_gptq(struct quant *q, int bits, int64_t group)
{
    int64_t bytes = 0;
    int code = EXIT_FINE;

    for (int i = 0; i < q->nnodes && code == EXIT_FINE; i++) {
        struct quant_weight w;
        struct quant_value *v = q->nodes[i].chosen ? &q->values[q->nodes[i].in[0]] : NULL;
        if (!v || v->wanted || !quant_weight_of(q, &q->nodes[i], &w) || w.conv)
            continue;
        int64_t more = w.k * w.k * (int64_t)sizeof(double);
        if (bytes && bytes + more > MOST_HESSIANS) {
            if ((code = quant_calibrate(q)) == EXIT_FINE)
                code = take_codes(q, bits, group);
            bytes = 0;
        }
        v->wanted = true;
        v->width = w.k;
        bytes += more;
    }
    if (code == EXIT_FINE && bytes && (code = quant_calibrate(q)) == EXIT_FINE)
        code = take_codes(q, bits, group);
    return code;
}
