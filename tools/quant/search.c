/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --max-drop: where the quantised model's score falls by more, the nodes that alone change the model's outputs most are
 * left as they are, the fewest that are enough.
 */
#include "tools/quant/quant_int.h"

#include <math.h>
#include <stdlib.h>

/* The model with the nodes that are not excluded quantised. */
static int try(struct quant *q, const char *path, struct quant_classes *c)
{
    int code = quant_write(q, path);
    return code == EXIT_FINE ? quant_classes_of(q, path, c) : code;
}

/* How far outputs are from the model's, those that were kept. */
static double distance(const struct quant_classes *a, const struct quant_classes *b)
{
    double sum = 0;

    for (int64_t i = 0; i < a->nvalues && i < b->nvalues; i++) {
        double d = (double)a->values[i] - b->values[i];
        sum += isfinite(d) ? d * d : INFINITY;
    }
    return sum;
}

static int by_cost(const void *a, const void *b)
{
    const struct quant_node *x = *(struct quant_node *const *)a, *y = *(struct quant_node *const *)b;
    return x->cost != y->cost ? (x->cost < y->cost) - (x->cost > y->cost) : (x > y) - (x < y);
}

/* The chosen nodes, the costliest first. */
static int rank_nodes(struct quant *q, const char *path, const struct quant_classes *model, struct quant_classes *c,
                      struct quant_node **list, int *n)
{
    int code = EXIT_FINE;

    *n = 0;
    for (int i = 0; i < q->nnodes; i++)
        if (q->nodes[i].chosen)
            list[(*n)++] = &q->nodes[i];
    for (int i = 0; i < *n && code == EXIT_FINE; i++) {
        for (int k = 0; k < *n; k++)
            list[k]->excluded = k != i;
        if ((code = try(q, path, c)) == EXIT_FINE)
            list[i]->cost = distance(c, model);
    }
    qsort(list, (size_t)*n, sizeof *list, by_cost);
    return code;
}

int quant_search(struct quant *q, const char *path, const struct quant_classes *model, struct quant_classes *c)
{
    double least = quant_score(q, model, model) - q->max_drop;
    struct quant_node **list;
    int n = 0, code = try(q, path, c);

    if (code != EXIT_FINE || quant_score(q, c, model) >= least)
        return code;
    list = IR_NEWN(q->ctx, q->nnodes + 1, struct quant_node *);
    code = rank_nodes(q, path, model, c, list, &n);
    int low = 1, high = n; /* nodes that are left out: high are enough */
    while (low <= high && code == EXIT_FINE) {
        int middle = low == high ? high : (low + high) / 2;
        for (int k = 0; k < n; k++)
            list[k]->excluded = k < middle;
        code = middle == n ? EXIT_FINE : try(q, path, c);
        bool fine = middle == n || (code == EXIT_FINE && quant_score(q, c, model) >= least);
        if (low == high)
            break;
        low = fine ? low : middle + 1;
        high = fine ? middle : high;
    }
    if (code == EXIT_FINE && !quant_chosen(q))
        return tool_error(q->o, EXIT_DATA, "%smax-drop: no node can be quantised within it", quant_option(q));
    return code;
}
