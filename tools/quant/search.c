/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --max-drop: where the quantised model's score falls by more, nodes are left as they are: those that do most to the
 * outputs (noise.c), the fewest that are enough, which a bisection finds in log2(nodes) compilations.
 */
#include "tools/quant/quant_int.h"

#include <stdlib.h>

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
        if (quant_used(&q->nodes[i]))
            list[n++] = &q->nodes[i];
    quant_sort(list, n);
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
