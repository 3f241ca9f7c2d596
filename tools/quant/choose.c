/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which nodes are quantised: products and convolutions with a constant weight of float32, of the kinds that --ops
 * names, but for those that --exclude does.
 */
#include "tools/quant/quant_int.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"Conv", "Gemm", "MatMul"};

bool quant_weight_of(const struct quant *q, const struct quant_node *n, struct quant_weight *w)
{
    int v = n->nin > 1 ? n->in[1] : -1, tensor = v >= 0 ? q->values[v].tensor : -1;
    const struct onnx_tensor *t = tensor >= 0 ? &q->tensors[tensor] : NULL;

    *w = (struct quant_weight){.tensor = tensor};
    if (*n->domain && strcmp(n->domain, "ai.onnx"))
        return false;
    if (n->nout != 1 || n->out[0] < 0)
        return false;
    if (!t || t->dtype != TCC_F32 || t->big || n->in[0] < 0 || q->values[n->in[0]].tensor >= 0 || quant_elements(t) < 1)
        return false;
    if (!strcmp(n->op, "Conv") && t->rank >= 3) {
        w->conv = true;
        w->n = t->dims[0];
        w->k = quant_elements(t) / w->n;
        w->groups = quant_attr_i(n, "group", 1);
        w->channels = t->dims[1] * w->groups;
        return true;
    }
    if (t->rank != 2 || (strcmp(n->op, "MatMul") && strcmp(n->op, "Gemm")))
        return false;
    w->transposed = quant_attr_i(n, "transB", 0) != 0;
    w->axis = w->transposed ? 0 : 1;
    w->k = t->dims[w->transposed];
    w->n = t->dims[!w->transposed];
    w->groups = 1;
    w->channels = w->k;
    return true;
}

int64_t quant_channel(const struct quant_weight *w, int64_t k, int64_t m)
{
    int64_t each = w->channels / w->groups;

    return k / (w->k / each) + m / (w->n / w->groups) * each;
}

/* Products that the mode has a form for. */
static bool suits(const struct quant *q, const struct quant_node *n, const struct quant_weight *w)
{
    bool plain =
        quant_attr_i(n, "transA", 0) == 0 && quant_attr_f(n, "alpha", 1) == 1 && quant_attr_f(n, "beta", 1) == 1;

    return q->mode == QUANT_DYNAMIC || q->mode == QUANT_WEIGHT4 ? !w->conv && plain : true;
}

static bool listed(const struct options *o, enum option_id id, const struct quant_node *n)
{
    for (int i = 0; i < o->given[id].n; i++)
        if (!fnmatch(o->given[id].at[i], n->name, 0) || !fnmatch(o->given[id].at[i], n->op, 0))
            return true;
    return false;
}

/* Does each pattern match a node? */
static int check_patterns(const struct quant *q, enum option_id id)
{
    for (int k = 0; k < q->o->given[id].n; k++) {
        const char *pattern = q->o->given[id].at[k];
        int i = 0;
        while (i < q->nnodes && fnmatch(pattern, q->nodes[i].name, 0) && fnmatch(pattern, q->nodes[i].op, 0))
            i++;
        if (i == q->nnodes)
            return tool_error(q->o, EXIT_DATA, "%s%s=%s: no node of %s has such a name or kind", quant_option(q),
                              option_table[id].long_name, pattern, quant_shown(q));
    }
    return EXIT_FINE;
}

int quant_choose(struct quant *q)
{
    int code = check_patterns(q, OPT_exclude);

    if (code != EXIT_FINE || (code = check_patterns(q, OPT_quant_only)) != EXIT_FINE)
        return code;
    for (int i = 0; i < q->nnodes; i++) {
        struct quant_node *n = &q->nodes[i];
        struct quant_weight w;
        bool kind = false;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            kind |= !strcmp(n->op, kinds[k]);
        n->chosen = kind && quant_weight_of(q, n, &w) && suits(q, n, &w) && !listed(q->o, OPT_exclude, n) &&
                    (!option_set(q->o, OPT_quant_only) || listed(q->o, OPT_quant_only, n));
    }
    return quant_chosen(q)
               ? EXIT_FINE
               : tool_error(
                     q->o, EXIT_DATA, "%s: nothing to quantise: no %s with a constant float32 weight%s", quant_shown(q),
                     q->mode == QUANT_DYNAMIC || q->mode == QUANT_WEIGHT4 ? "Gemm or MatMul" : "Conv, Gemm or MatMul",
                     option_set(q->o, OPT_exclude) || option_set(q->o, OPT_quant_only)
                         ? " is left by --only and --exclude"
                         : "");
}

int quant_chosen(const struct quant *q)
{
    int n = 0;

    for (int i = 0; i < q->nnodes; i++)
        n += q->nodes[i].chosen && !q->nodes[i].excluded;
    return n;
}

bool quant_bias_fits(const struct quant *q, const struct quant_node *n)
{
    struct quant_weight w;
    int v = n->nin > 2 ? n->in[2] : -1, tensor = v >= 0 ? q->values[v].tensor : -1;
    const struct onnx_tensor *t = tensor >= 0 ? &q->tensors[tensor] : NULL;

    return t && t->dtype == TCC_F32 && t->rank == 1 && quant_weight_of(q, n, &w) && t->dims[0] == w.n &&
           quant_attr_f(n, "alpha", 1) == 1 && quant_attr_f(n, "beta", 1) == 1;
}

float *quant_columns(struct quant *q, const struct quant_weight *w, int *code)
{
    float *from = quant_floats(q, w->tensor, code), *to;

    if (!from || !(w->conv || w->transposed))
        return from;
    if ((to = malloc((size_t)(w->k * w->n) * sizeof *to)))
        for (int64_t n = 0; n < w->n; n++)
            for (int64_t k = 0; k < w->k; k++)
                to[k * w->n + n] = from[n * w->k + k];
    free(from);
    return to;
}
