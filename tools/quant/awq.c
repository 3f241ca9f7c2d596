/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWQ (Lin et al.: AWQ: Activation-aware weight quantization for on-device LLM compression and acceleration, MLSys
 * 2024; https://arxiv.org/abs/2306.00978): rows of a weight are multiplied by their inputs' size to some power, so that
 * rounding costs least where inputs are large, and the inputs divided by it. Of 20 powers from 0 (rounding to the
 * nearest) on, that one is taken with which the layer's outputs change least, by the products of its inputs H = X'X:
 * the sum of e'He over outputs. Size is the root of the mean square. Outputs are sampled, at most 64.
 */
#include "tools/quant/quant_int.h"

#include <math.h>
#include <stdlib.h>

enum { POWERS = 20, MOST_OUTPUTS = 64 };

/* What rows are multiplied by: geometric middle of the largest and the least 1. */
static void powers_of(const double *h, int64_t k, double power, float *by)
{
    double least = INFINITY, most = 0, largest = 0;

    for (int64_t i = 0; i < k; i++)
        largest = fmax(largest, h[i * k + i]);
    for (int64_t i = 0; i < k; i++) {
        double x = pow(fmax(sqrt(fmax(h[i * k + i], 0) / (largest > 0 ? largest : 1)), 1e-4), power);
        by[i] = (float)x;
        least = fmin(least, x);
        most = fmax(most, x);
    }
    for (int64_t i = 0; i < k; i++)
        by[i] = (float)(by[i] / sqrt(least * most));
}

/* The sum of e'He over columns of e[k][n]; of H the lower triangle is there. */
static double changed(const double *h, const float *e, int64_t k, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j <= i; j++) {
            double dot = 0;
            for (int64_t m = 0; m < n; m++)
                dot += (double)e[i * n + m] * e[j * n + m];
            sum += (i == j ? 1 : 2) * h[i * k + j] * dot;
        }
    return sum;
}

/* scaled = w with its rows multiplied. */
static void multiply(const float *w, const float *by, int64_t k, int64_t n, float *scaled)
{
    for (int64_t i = 0; i < k * n; i++)
        scaled[i] = w[i] * by[i / n];
}

/* What rounding does to the sampled columns w[k][n] with that power. */
static double cost_of(struct quant_codes *c, const float *w, const double *h, double power, float *by, float *e)
{
    powers_of(h, c->k, power, by);
    multiply(w, by, c->k, c->n, e);
    quant_round(c, e);
    for (int64_t i = 0; i < c->k; i++)
        for (int64_t m = 0; m < c->n; m++) {
            int64_t g = i / c->group * c->n + m;
            float value = (float)(c->at[i * c->n + m] - c->zeros[g]) * c->scales[g];
            e[i * c->n + m] = value / by[i] - w[i * c->n + m];
        }
    return changed(h, e, c->k, c->n);
}

/* The power with the least cost. False: no memory. */
static bool search(const struct quant *q, const struct quant_codes *c, const float *w, const double *h, double *best)
{
    int64_t n = c->n < MOST_OUTPUTS ? c->n : MOST_OUTPUTS;
    struct quant_codes *some = quant_codes_new(q, &(struct quant_weight){.k = c->k, .n = n}, c->bits, c->group);
    float *sample = malloc((size_t)(c->k * n) * sizeof *sample + 1), *e = malloc((size_t)(c->k * n) * sizeof *e + 1);
    double least = INFINITY;
    bool ok = some && sample && e;

    for (int64_t i = 0; ok && i < c->k * n; i++)
        sample[i] = w[i / n * c->n + i % n * c->n / n];
    for (int k = 0; ok && k < POWERS; k++) {
        double power = (double)k / POWERS, cost = cost_of(some, sample, h, power, c->by, e);
        if (cost < least) {
            least = cost;
            *best = power;
        }
    }
    quant_codes_free(some);
    free(sample);
    free(e);
    return ok;
}

bool quant_awq(const struct quant *q, struct quant_codes *c, const float *w, const double *hessian)
{
    float *scaled = malloc((size_t)(c->k * c->n) * sizeof *scaled + 1);
    double power = 0;

    c->by = malloc((size_t)c->k * sizeof *c->by + 1);
    bool ok = scaled && c->by && search(q, c, w, hessian, &power);
    if (ok) {
        powers_of(hessian, c->k, power, c->by);
        multiply(w, c->by, c->k, c->n, scaled);
        quant_round(c, scaled);
    }
    free(scaled);
    return ok;
}
