/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What values a tensor has had over all samples, and which range of them 256 levels are to cover. Bins begin at zero,
 * so that two of them are one of the next width: a histogram is widened by adding neighbours up, exactly, and nothing
 * depends on the order of samples.
 *
 * Ranges: all values; all but a share of the outermost; the one whose quantised distribution has the least relative
 * entropy (Migacz, 8-bit inference with TensorRT, 2017); the one with the least squared error.
 */
#include "tools/quant/quant_int.h"

#include <math.h>

enum { LEVELS = 256, STEPS = 100, LEAST_STEP = 25 };

static double width_of(const struct hist *h)
{
    return ldexp(1, h->exponent);
}

/* Twice the width: bins 2i and 2i + 1, counted from zero, become bin i. */
static void widen(struct hist *h)
{
    for (int i = 0; i < HIST_HALF; i++) {
        uint64_t up = i < HIST_HALF / 2 ? h->bins[HIST_HALF + 2 * i] + h->bins[HIST_HALF + 2 * i + 1] : 0,
                 down = i < HIST_HALF / 2 ? h->bins[HIST_HALF - 1 - 2 * i] + h->bins[HIST_HALF - 2 - 2 * i] : 0;
        h->bins[HIST_HALF + i] = up;
        h->bins[HIST_HALF - 1 - i] = down;
    }
    h->exponent++;
}

/* Values of that magnitude have bins. */
static void cover(struct hist *h, double magnitude)
{
    int exponent;

    frexp(magnitude / HIST_HALF, &exponent); /* magnitude < HIST_HALF * 2^exponent */
    if (magnitude <= 0)
        return;
    if (h->exponent == INT32_MIN)
        h->exponent = exponent;
    while (h->exponent < exponent)
        widen(h);
}

void hist_add(struct hist *h, const float *x, int64_t n)
{
    double lo = INFINITY, hi = -INFINITY;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    if (!(lo <= hi))
        return;
    if (!h->count) {
        h->exponent = INT32_MIN;
        h->min = lo;
        h->max = hi;
    }
    h->min = lo < h->min ? lo : h->min;
    h->max = hi > h->max ? hi : h->max;
    cover(h, fmax(fabs(lo), fabs(hi)));
    double per = h->exponent == INT32_MIN ? 0 : 1 / width_of(h);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        h->bins[HIST_HALF + (int)floor(x[i] * per)]++;
        h->zeros += x[i] == 0;
        h->count++;
    }
}

void quant_levels(double lo, double hi, float *scale, int *zero)
{
    float s = (float)((hi - lo) / (LEVELS - 1));

    *scale = s > 0 && isfinite(s) ? s : 1;
    double z = nearbyint(-lo / *scale);
    *zero = (int)fmin(fmax(z, 0), LEVELS - 1);
}

/* -- Ranges --------------------------------------------------------------------------------------------------- */

static double centre(const struct hist *h, int bin)
{
    return (bin - HIST_HALF + 0.5) * width_of(h);
}

static void by_percentile(const struct hist *h, double percentile, double *lo, double *hi)
{
    double share = (100 - percentile) / 200 * (double)h->count, below = 0, above = 0;
    int first = 0, last = HIST_BINS - 1;

    while (first < HIST_BINS - 1 && (below += (double)h->bins[first]) <= share)
        first++;
    while (last > 0 && (above += (double)h->bins[last]) <= share)
        last--;
    *lo = fmax(h->min, (first - HIST_HALF) * width_of(h));
    *hi = fmin(h->max, (last + 1 - HIST_HALF) * width_of(h));
}

/* Sum of squares of what 256 levels make of the values. */
static double squared_error(const struct hist *h, double lo, double hi)
{
    float scale;
    int zero;
    double sum = 0;

    quant_levels(lo, hi, &scale, &zero);
    for (int i = 0; i < HIST_BINS; i++) {
        if (!h->bins[i])
            continue;
        double x = centre(h, i), level = fmin(fmax(nearbyint(x / scale) + zero, 0), LEVELS - 1);
        double e = x - (level - zero) * scale;
        sum += (double)h->bins[i] * e * e;
    }
    return sum;
}

static uint64_t counted(const struct hist *h, int bin)
{
    return h->bins[bin] - (bin == HIST_HALF ? h->zeros : 0);
}

/* The counts inside of the range, those outside added to its ends, against the same spread over levels; less what
 * counts that are drawn from the latter would have on average, which few samples would otherwise take for a difference
 * (Miller, Note on the bias of information estimates, 1955). Zeros, which every scale has, don't count: Relu makes so
 * many that they would decide. */
static double relative_entropy(const struct hist *h, double lo, double hi)
{
    double step = (hi - lo) / LEVELS, inside = 0, all = (double)(h->count - h->zeros), below = 0, above = 0, kl = 0;
    double count[LEVELS] = {0};
    int filled[LEVELS] = {0}, level[HIST_BINS], first = HIST_BINS, last = -1, free_bins = 0;

    for (int i = 0; i < HIST_BINS; i++) {
        double x = centre(h, i), n = (double)counted(h, i);
        level[i] = x < lo || x > hi ? -1 : (int)fmin((x - lo) / step, LEVELS - 1);
        if (level[i] < 0) {
            *(x < lo ? &below : &above) += n;
            continue;
        }
        free_bins += n > 0 && filled[level[i]];
        filled[level[i]] += n > 0;
        count[level[i]] += n;
        inside += n;
        first = n > 0 && i < first ? i : first;
        last = n > 0 ? i : last;
    }
    for (int i = first; i <= last; i++) {
        double p = (double)counted(h, i) + (i == first ? below : 0) + (i == last ? above : 0);
        if (p > 0)
            kl += p / all * log(p / all / (count[level[i]] / filled[level[i]] / inside));
    }
    return last < 0 ? INFINITY : kl - free_bins / (2 * all);
}

/* The best of the ranges whose ends are LEAST_STEP to STEPS hundredths of these: both alike, then each alone. */
static void search_range(const struct hist *h, double (*cost)(const struct hist *, double, double), bool apart,
                         double *lo, double *hi)
{
    double a = *lo, b = *hi, best = cost(h, a, b), ends[2] = {a, b};

    for (int turn = 0; turn < (apart ? 3 : 1); turn++) {
        double from[2] = {ends[0], ends[1]};
        for (int k = LEAST_STEP; k < STEPS; k++) {
            double l = turn == 2 ? from[0] : a * k / STEPS, u = turn == 1 ? from[1] : b * k / STEPS;
            double c = cost(h, l, u);
            if (c < best) {
                best = c;
                ends[0] = l;
                ends[1] = u;
            }
        }
    }
    *lo = ends[0];
    *hi = ends[1];
}

void hist_range(const struct hist *h, enum quant_method method, double percentile, double *lo, double *hi)
{
    *lo = h->count ? fmin(h->min, 0) : 0;
    *hi = h->count ? fmax(h->max, 0) : 0;
    if (!h->count || h->exponent == INT32_MIN)
        return;
    if (method == METHOD_PERCENTILE) {
        by_percentile(h, percentile, lo, hi);
        *lo = fmin(*lo, 0);
        *hi = fmax(*hi, 0);
    }
    if (method == METHOD_ENTROPY)
        search_range(h, relative_entropy, false, lo, hi);
    if (method == METHOD_MSE)
        search_range(h, squared_error, true, lo, hi);
}
