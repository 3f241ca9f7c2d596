/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic int8: DynamicQuantizeLinear gives each call's activations a scale, MatMulInteger multiplies codes, and the
 * sums are scaled by both scales. What ONNX Runtime's quantize_dynamic writes, and what it fuses.
 */
#include "tools/quant/quant_int.h"

/* The activation's codes, scale and zero point, one time for all products that read it. */
static void put_activation(struct quant_out *w, int value)
{
    static const char *const suffixes[] = {"_quantized", "_scale", "_zero_point"};
    const char *name = quant_value_name(w->q, value), *out[4] = {0};

    if (w->made[0][value])
        return;
    for (int i = 0; i < 3; i++)
        w->made[i][value] = out[i] = quant_name(w->q, name, suffixes[i]);
    quant_put_node(w, "", "DynamicQuantizeLinear", (const char *[]){name, NULL}, out, NULL);
}

/* Codes [k, n] and their scales: names. False: an error. */
static bool put_weight(struct quant_out *w, int node, const char **codes, const char **scale)
{
    struct quant *q = w->q;
    struct quant_codes *c = quant_codes_of(q, node, 8, 0, &w->code);
    const char *base = ir_internf(q->ctx, "%s_%d", quant_value_name(q, q->nodes[node].in[1]), node);

    if (!c)
        return false;
    for (int64_t i = 0; i < c->k * c->n; i++)
        c->at[i] = (uint8_t)(c->at[i] - 128); /* i8 */
    *codes = quant_put_tensor(w, quant_name(q, base, "_quantized"), TCC_I8, 2, (int64_t[]){c->k, c->n}, c->at);
    *scale = quant_put_tensor(w, quant_name(q, base, "_scale"), TCC_F32, 1, &c->n, c->scales);
    quant_codes_free(c);
    return true;
}

void quant_put_dynamic(struct quant_out *w, int node)
{
    struct quant *q = w->q;
    const struct quant_node *n = &q->nodes[node];
    int x = n->in[0];
    const char *y = quant_result(w, n->out[0]), *codes, *scale;
    const char *sums = quant_name(q, y, "_sums"), *floats = quant_name(q, y, "_floats"),
               *both = quant_name(q, y, "_scales"),
               *product = n->nin > 2 && n->in[2] >= 0 ? quant_name(q, y, "_product") : y;

    put_activation(w, x);
    if (!put_weight(w, node, &codes, &scale))
        return;
    quant_put_node(w, "", "MatMulInteger", (const char *[]){w->made[0][x], codes, w->made[2][x], NULL},
                   (const char *[]){sums, NULL}, NULL);
    quant_put_node(w, "", "Cast", (const char *[]){sums, NULL}, (const char *[]){floats, NULL},
                   (const struct quant_attr[]){{"to", TCC_F32}, {0}});
    quant_put_node(w, "", "Mul", (const char *[]){w->made[1][x], scale, NULL}, (const char *[]){both, NULL}, NULL);
    quant_put_node(w, "", "Mul", (const char *[]){floats, both, NULL}, (const char *[]){product, NULL}, NULL);
    if (product != y)
        quant_put_node(w, "", "Add", (const char *[]){product, quant_value_name(q, n->in[2]), NULL},
                       (const char *[]){y, NULL}, NULL);
}
