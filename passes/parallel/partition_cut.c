/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact min-max cuts of a sequence. best(j, i) is the cost of the most_expensive of j parts that hold items 0..i-1:
 *     best(j, i) = min over cuts c <= i of max(best(j-1, c), cost of items c..i-1)
 * best(j-1, c) grows with c and the cost of the last part falls, so the minimum lies where they cross, which bisection
 * finds: O(k n log n). A second pass minimises the bytes that cross under the bound that the first one found.
 */
#include "passes/parallel/partition.h"

#include <float.h>

struct cutter {
    struct ir_ctx *ctx;
    int m;             /* places where cuts may be, ends included */
    const int *at;     /* their item numbers, ascending, 0 first, n last */
    const double *sum; /* of the costs before that place */
};

/* The lowest cost of the most_expensive of k parts. */
static double lowest(const struct cutter *c, int k)
{
    double *best = IR_NEWN(c->ctx, c->m, double), *next = IR_NEWN(c->ctx, c->m, double);
    for (int i = 0; i < c->m; i++)
        best[i] = c->sum[i];
    for (int j = 2; j <= k; j++) {
        for (int i = 0; i < c->m; i++) {
            int lo = 0, hi = i; /* the first cut from which on the parts before it are the more expensive */
            while (lo < hi) {
                int mid = (lo + hi) / 2;
                if (best[mid] >= c->sum[i] - c->sum[mid])
                    hi = mid;
                else
                    lo = mid + 1;
            }
            double x = best[lo] > c->sum[i] - c->sum[lo] ? best[lo] : c->sum[i] - c->sum[lo];
            if (lo > 0) {
                double last = c->sum[i] - c->sum[lo - 1];
                double y = best[lo - 1] > last ? best[lo - 1] : last;
                x = y < x ? y : x;
            }
            next[i] = x;
        }
        double *swap = best;
        best = next;
        next = swap;
    }
    return best[c->m - 1];
}

/* Cuts into k parts of at most `bound` each over which fewest bytes cross, of these the most even; false if there is
 * none. working: no part costs nothing. */
static bool fewest_bytes(const struct cutter *c, const double *crossing, int k, double bound, bool working, int *first)
{
    double *bytes = IR_NEWN(c->ctx, (size_t)(k + 1) * (size_t)c->m, double);
    double *squares = IR_NEWN(c->ctx, (size_t)(k + 1) * (size_t)c->m, double); /* of the parts' costs */
    int *from = IR_NEWN(c->ctx, (size_t)(k + 1) * (size_t)c->m, int);
    for (int i = 1; i < c->m; i++)
        bytes[i] = DBL_MAX;
    for (int j = 1; j <= k; j++) {
        double *now = bytes + (size_t)j * (size_t)c->m, *before = now - c->m;
        double *even = squares + (size_t)j * (size_t)c->m, *even_before = even - c->m;
        for (int i = 0; i < c->m; i++) {
            now[i] = DBL_MAX;
            for (int b = i; b >= 0 && c->sum[i] - c->sum[b] <= bound; b--) {
                double part = c->sum[i] - c->sum[b], here = b > 0 && b < c->m - 1 && crossing ? crossing[c->at[b]] : 0;
                if (before[b] == DBL_MAX || (working && part <= 0) || before[b] + here > now[i] ||
                    (before[b] + here == now[i] && even_before[b] + part * part >= even[i]))
                    continue;
                now[i] = before[b] + here;
                even[i] = even_before[b] + part * part;
                from[(size_t)j * (size_t)c->m + (size_t)i] = b;
            }
        }
    }
    int i = c->m - 1;
    if (bytes[(size_t)k * (size_t)c->m + (size_t)i] == DBL_MAX)
        return false;
    for (int j = k; j > 0; j--) {
        first[j] = c->at[i];
        i = from[(size_t)j * (size_t)c->m + (size_t)i];
    }
    first[0] = 0;
    return true;
}

double partition_cut(struct ir_ctx *ctx, int n, const double *cost, const bool *may_cut, const double *crossing, int k,
                     double slack, int *first)
{
    int *at = IR_NEWN(ctx, n + 2, int), m = 0;
    double *sum = IR_NEWN(ctx, n + 2, double), all = 0;
    for (int i = 0; i <= n; i++) {
        if (i == 0 || i == n || may_cut[i]) {
            if (m && at[m - 1] == i)
                continue;
            at[m] = i;
            sum[m++] = all;
        }
        all += i < n ? cost[i] : 0;
    }
    struct cutter c = {ctx, m, at, sum};
    double best = lowest(&c, k);
    double bound = best * (1 + slack) + all * 1e-12;
    if (!fewest_bytes(&c, crossing, k, bound, true, first))
        fewest_bytes(&c, crossing, k, bound, false, first);
    double most_expensive = 0;
    for (int j = 0; j < k; j++) {
        double part = 0;
        for (int i = first[j]; i < first[j + 1]; i++)
            part += cost[i];
        most_expensive = part > most_expensive ? part : most_expensive;
    }
    return most_expensive;
}
