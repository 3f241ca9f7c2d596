/* SPDX-License-Identifier: Apache-2.0 */
/* What ai.onnx.ml's models do with their scores: post_transform, and labels of classes. */
#include <math.h>

#include "runtime/libop/libop_int.h"

static void softmax(double *v, int64_t n, bool zeros)
{
    double top = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        top = fmax(top, v[i]);
    for (int64_t i = 0; i < n; i++) {
        v[i] = zeros && fabs(v[i]) <= 1e-7 ? v[i] * exp(-top) : exp(v[i] - top);
        sum += v[i];
    }
    for (int64_t i = 0; i < n; i++)
        v[i] = sum == 0 ? 0.5 : v[i] / sum;
}

/* Winitzki's approximation of the inverse error function, as the ONNX reference has it. */
static double probit(double p)
{
    double x = 2 * p - 1, product = (1 - x) * (1 + x), l, v;

    if (product == 0)
        return 0;
    l = log(product);
    v = 2 / (3.14159265358979323846 * 0.147) + 0.5 * l;
    return 1.41421356 * (x < 0 ? -1 : 1) * sqrt(-v + sqrt(v * v - l / 0.147));
}

int lib_post_transform(struct tcc_lib_call *call, const char *name, double *v, int64_t n)
{
    if (strcmp(name, "NONE") == 0)
        return TCC_OK;
    if (strcmp(name, "SOFTMAX") == 0 || strcmp(name, "SOFTMAX_ZERO") == 0) {
        softmax(v, n, name[7] != 0);
        return TCC_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(name, "LOGISTIC") == 0)
            v[i] = v[i] < 0 ? 1 - 1 / (1 + exp(v[i])) : 1 / (1 + exp(-v[i]));
        else if (strcmp(name, "PROBIT") == 0)
            v[i] = probit(v[i]);
        else
            return LIB_FAIL(call, "post_transform '%s' is not known", name);
    }
    return TCC_OK;
}

int lib_labels_begin(struct tcc_lib_call *call, const char *ints, const char *strings, int64_t rows,
                     struct lib_labels *l)
{
    l->ints = lib_attr(call, ints);
    l->strings = lib_attr(call, strings);
    l->ints = l->ints && l->ints->kind == TCC_ATTR_INTS && l->ints->n ? l->ints : NULL;
    l->strings = l->strings && l->strings->kind == TCC_ATTR_STRINGS && l->strings->n ? l->strings : NULL;
    l->out = lib_out(call, 0, l->strings ? TCC_STRING : TCC_I64, 1, &rows);
    return l->out ? TCC_OK : TCC_EENV;
}

int64_t lib_labels_count(const struct lib_labels *l)
{
    return l->strings ? l->strings->n : l->ints ? l->ints->n : 0;
}

/* The label of a class; a class that the list does not name is its number. */
int lib_labels_put(struct tcc_lib_call *call, struct lib_labels *l, int64_t row, int64_t class)
{
    if (l->strings) {
        const char *s = class >= 0 && class < l->strings->n ? l->strings->strings[class] : "";

        return tccrt_string_set((struct tcc_string *)l->out + row, s, (int64_t)strlen(s)) ? LIB_NO_MEMORY(call)
                                                                                          : TCC_OK;
    }
    ((int64_t *)l->out)[row] = l->ints && class >= 0 && class < l->ints->n ? l->ints->ints[class] : class;
    return TCC_OK;
}

/* Position of the first of the largest. */
int64_t lib_largest(const double *v, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        best = v[i] > v[best] ? i : best;
    return best;
}
