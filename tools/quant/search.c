/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --max-drop: where the quantised model's score falls by more, nodes are left as they are. Each is quantised beside
 * itself, in one model that runs over the samples once: the ratio of its results to what they lose says how well its
 * type suits it. Those with the least are left, the fewest that are enough, which a bisection finds in log2(nodes)
 * compilations.
 */
#include "tools/quant/quant_int.h"

#include <math.h>
#include <stdlib.h>

/* The ratio of a node's results to their error, in dB. */
static double snr_of(const struct quant_node *n)
{
    double ratio = n->squares / n->error;
    return n->error == 0 ? INFINITY : isfinite(ratio) ? 10 * log10(ratio) : -INFINITY;
}

static int by_snr(const void *a, const void *b)
{
    const struct quant_node *x = *(struct quant_node *const *)a, *y = *(struct quant_node *const *)b;
    double p = snr_of(x), q = snr_of(y);
    return p != q ? (p > q) - (p < q) : (x > y) - (x < y);
}

int quant_search(struct quant *q, const char *path, const struct quant_classes *model, struct quant_classes *c)
{
    double least = quant_score(q, model, model) - q->max_drop;
    struct quant_node **list = IR_NEWN(q->ctx, q->nnodes + 1, struct quant_node *);
    int n = 0, code = quant_write(q, path);

    if (code == EXIT_FINE)
        code = quant_classes_of(q, path, c);
    if (code != EXIT_FINE || quant_score(q, c, model) >= least)
        return code;
    code = quant_measure(q);
    for (int i = 0; i < q->nnodes; i++)
        if (q->nodes[i].chosen)
            list[n++] = &q->nodes[i];
    qsort(list, (size_t)n, sizeof *list, by_snr);
    int few = 0, enough = n, tried = 0; /* nodes that are left out */
    while (enough - few > 1 && code == EXIT_FINE) {
        tried = (few + enough) / 2;
        for (int k = 0; k < n; k++)
            list[k]->excluded = k < tried;
        if ((code = quant_write(q, path)) != EXIT_FINE || (code = quant_classes_of(q, path, c)) != EXIT_FINE)
            return code;
        *(quant_score(q, c, model) >= least ? &enough : &few) = tried;
    }
    for (int k = 0; k < n; k++)
        list[k]->excluded = k < enough;
    if (tried != enough)
        c->n = 0;
    if (code == EXIT_FINE && enough == n)
        return tool_error(q->o, EXIT_DATA, "%smax-drop: no node can be quantised within it", quant_option(q));
    return code;
}
