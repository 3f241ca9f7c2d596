/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures in another size: Pillow's bilinear resize (src/libImaging/Resample.c; its algorithm, bit for bit), which
 * torchvision's transforms of pictures use. Each pixel of the result is a weighted mean under a triangle as wide as two
 * pixels of the result (of the source, where it is enlarged): rows first, then columns, both in fixed point with 22
 * bits.
 */
#include "runtime/data/data_int.h"

#include <math.h>
#include <stdlib.h>

enum { BITS = 32 - 8 - 2 };

/* Weights of a line: pixel i of the result is the sum over k < n[i] of weight[i * most + k] times pixel first[i] +
 * k. */
struct line {
    int most;
    int *first, *n;
    int32_t *weight;
};

static void weigh(struct line *l, int i, int in, double centre, double scale, double *w)
{
    double filter = scale < 1 ? 1 : scale, sum = 0;
    int from = (int)(centre - filter + 0.5), to = (int)(centre + filter + 0.5);

    from = from < 0 ? 0 : from;
    to = to > in ? in : to;
    for (int k = 0; k < to - from; k++) {
        double x = fabs((k + from - centre + 0.5) / filter);
        w[k] = x < 1 ? 1 - x : 0;
        sum += w[k];
    }
    for (int k = 0; k < to - from; k++)
        l->weight[i * l->most + k] = (int32_t)(0.5 + (sum != 0 ? w[k] / sum : w[k]) * (1 << BITS));
    l->first[i] = from;
    l->n[i] = to - from;
}

static void line_free(struct line *l)
{
    free(l->first);
    free(l->n);
    free(l->weight);
}

/* `in` pixels become `out`. */
static bool line_make(struct line *l, int in, int out)
{
    double scale = (double)in / out;

    l->most = (int)ceil(scale < 1 ? 1 : scale) * 2 + 1;
    l->first = malloc((size_t)out * sizeof *l->first);
    l->n = malloc((size_t)out * sizeof *l->n);
    l->weight = calloc((size_t)out * (size_t)l->most, sizeof *l->weight);
    double *w = malloc((size_t)l->most * sizeof *w);
    bool ok = l->first && l->n && l->weight && w;
    for (int i = 0; ok && i < out; i++)
        weigh(l, i, in, (i + 0.5) * scale, scale, w);
    free(w);
    return ok;
}

static uint8_t clip(int32_t sum)
{
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* One line of `out` pixels; `step` bytes lie between two pixels of the source, `to_step` of the result. */
static void apply(const struct line *l, int out, int channels, const uint8_t *from, size_t step, uint8_t *to,
                  size_t to_step)
{
    for (int i = 0; i < out; i++)
        for (int c = 0; c < channels; c++) {
            const int32_t *w = l->weight + (size_t)i * (size_t)l->most;
            const uint8_t *at = from + (size_t)l->first[i] * step + c;
            int32_t sum = 1 << (BITS - 1);
            for (int k = 0; k < l->n[i]; k++)
                sum += w[k] * at[(size_t)k * step];
            to[(size_t)i * to_step + (size_t)c] = clip(sum);
        }
}

bool tcr_resample(const uint8_t *from, size_t stride, int w, int h, int channels, uint8_t *to, int tw, int th)
{
    struct line x = {0}, y = {0};
    size_t c = (size_t)channels;
    bool ok = line_make(&x, w, tw) && line_make(&y, h, th);
    int top = ok ? y.first[0] : 0, rows = ok ? y.first[th - 1] + y.n[th - 1] - top : 0;
    uint8_t *middle = ok ? malloc((size_t)rows * (size_t)tw * c) : NULL;

    for (int r = 0; middle && r < rows; r++)
        apply(&x, tw, channels, from + (size_t)(top + r) * stride, c, middle + (size_t)r * (size_t)tw * c, c);
    for (int i = 0; middle && i < th; i++)
        y.first[i] -= top;
    for (int i = 0; middle && i < tw; i++)
        apply(&y, th, channels, middle + (size_t)i * c, (size_t)tw * c, to + (size_t)i * c, (size_t)tw * c);
    line_free(&x);
    line_free(&y);
    free(middle);
    return middle != NULL;
}
