/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights in 4 bits, with a scale and a zero point for each block of rows: MatMulNBits of com.microsoft, which reads
 * them as they are, or DequantizeLinear with blocks (opset 21) before the product.
 */
#include "tools/quant/quant_int.h"

#include <stdlib.h>

/* Two codes a byte, the first in the lower half. */
static void put_half(uint8_t *to, int64_t i, uint8_t code)
{
    to[i / 2] = (uint8_t)(i % 2 ? (to[i / 2] & 15) | code << 4 : (to[i / 2] & 240) | code);
}

/* The product's input, divided by what AWQ multiplied the weight's rows by. */
static const char *input_of(struct quant_out *w, const struct quant_node *n, const struct quant_codes *c,
                            const char *base)
{
    struct quant *q = w->q;
    const char *x = quant_value_name(q, n->in[0]), *out = quant_name(q, base, "_input");
    float *by = c->by ? malloc((size_t)c->k * sizeof *by + 1) : NULL;

    if (!by) {
        w->code = c->by ? tool_error(q->o, EXIT_ENVIRONMENT, "no memory") : w->code;
        return x;
    }
    for (int64_t i = 0; i < c->k; i++)
        by[i] = 1 / c->by[i];
    const char *factor = quant_put_tensor(w, quant_name(q, base, "_input_scale"), TCC_F32, 1, &c->k, by);
    quant_put_node(w, "", "Mul", (const char *[]){x, factor, NULL}, (const char *[]){out, NULL}, NULL);
    free(by);
    return out;
}

/* B [n, groups, group / 2], scales [n * groups], zero points [n * (groups + 1) / 2]: what MatMulNBits reads. */
static void put_nbits(struct quant_out *w, int node, const struct quant_codes *c, const char *base, int64_t group)
{
    struct quant *q = w->q;
    const struct quant_node *n = &q->nodes[node];
    int64_t halves = (c->groups + 1) / 2, scales = c->n * c->groups;
    uint8_t *codes = calloc((size_t)(scales * group / 2) + 1, 1), *zeros = calloc((size_t)(c->n * halves) + 1, 1);
    float *s = malloc((size_t)scales * sizeof *s + 1);
    bool biased = n->nin > 2 && n->in[2] >= 0;
    const char *y = quant_result(w, n->out[0]), *product = biased ? quant_name(q, y, "_product") : y;

    if (codes && zeros && s) {
        for (int64_t j = 0; j < c->n; j++) {
            for (int64_t k = 0; k < c->k; k++)
                put_half(codes + j * c->groups * group / 2, k, c->at[k * c->n + j]);
            for (int64_t g = 0; g < c->groups; g++) {
                put_half(zeros + j * halves, g, c->zeros[g * c->n + j]);
                s[j * c->groups + g] = c->scales[g * c->n + j];
            }
        }
        const char *b = quant_put_tensor(w, quant_name(q, base, "_quantized"), TCC_U8, 3,
                                         (int64_t[]){c->n, c->groups, group / 2}, codes),
                   *scale = quant_put_tensor(w, quant_name(q, base, "_scale"), TCC_F32, 1, &scales, s),
                   *zero = quant_put_tensor(w, quant_name(q, base, "_zero_point"), TCC_U8, 1,
                                            (int64_t[]){c->n * halves}, zeros);
        quant_put_node(w, "com.microsoft", "MatMulNBits",
                       (const char *[]){input_of(w, n, c, base), b, scale, zero, NULL}, (const char *[]){product, NULL},
                       (const struct quant_attr[]){{"K", c->k}, {"N", c->n}, {"bits", 4}, {"block_size", group}, {0}});
        if (biased)
            quant_put_node(w, "", "Add", (const char *[]){product, quant_value_name(q, n->in[2]), NULL},
                           (const char *[]){y, NULL}, NULL);
    } else {
        w->code = tool_error(q->o, EXIT_ENVIRONMENT, "no memory");
    }
    free(codes);
    free(zeros);
    free(s);
}

/* The weight as it lies, u4, with scales and zero points of its rank. */
static void put_linear(struct quant_out *w, int node, const struct quant_codes *c, const char *base, int64_t group)
{
    struct quant *q = w->q;
    const struct quant_node *n = &q->nodes[node];
    struct quant_weight x;
    const char **in = IR_NEWN(q->ctx, n->nin + 1, const char *);
    bool turned = quant_weight_of(q, n, &x) && x.transposed;
    int64_t scales = c->groups * c->n, dims[2] = {turned ? c->n : c->k, turned ? c->k : c->n},
            sdims[2] = {turned ? c->n : c->groups, turned ? c->groups : c->n};
    uint8_t *codes = calloc((size_t)(c->k * c->n) / 2 + 2, 1), *zeros = calloc((size_t)scales / 2 + 2, 1);
    float *s = malloc((size_t)scales * sizeof *s + 1);

    for (int i = 0; i < n->nin; i++)
        in[i] = quant_value_name(q, n->in[i]);
    if (codes && zeros && s) {
        for (int64_t k = 0; k < c->k; k++)
            for (int64_t j = 0; j < c->n; j++)
                put_half(codes, turned ? j * c->k + k : k * c->n + j, c->at[k * c->n + j]);
        for (int64_t g = 0; g < c->groups; g++)
            for (int64_t j = 0; j < c->n; j++) {
                int64_t at = turned ? j * c->groups + g : g * c->n + j;
                put_half(zeros, at, c->zeros[g * c->n + j]);
                s[at] = c->scales[g * c->n + j];
            }
        const char *b = quant_put_tensor(w, quant_name(q, base, "_quantized"), TCC_U4, 2, dims, codes),
                   *scale = quant_put_tensor(w, quant_name(q, base, "_scale"), TCC_F32, 2, sdims, s),
                   *zero = quant_put_tensor(w, quant_name(q, base, "_zero_point"), TCC_U4, 2, sdims, zeros);
        in[0] = input_of(w, n, c, base);
        in[1] = quant_name(q, base, "_dequantized");
        quant_put_node(w, "", "DequantizeLinear", (const char *[]){b, scale, zero, NULL}, (const char *[]){in[1], NULL},
                       (const struct quant_attr[]){{"axis", turned}, {"block_size", group}, {0}});
        quant_put_copy(w, n, in);
    } else {
        w->code = tool_error(q->o, EXIT_ENVIRONMENT, "no memory");
    }
    free(codes);
    free(zeros);
    free(s);
}

void quant_put_blocks(struct quant_out *w, int node)
{
    struct quant *q = w->q;
    const struct quant_node *n = &q->nodes[node];
    struct quant_codes *own = n->codes ? NULL : quant_codes_of(q, node, 4, q->group, &w->code);
    const struct quant_codes *c = n->codes ? n->codes : own;

    if (c)
        (q->qdq ? put_linear : put_nbits)(w, node, c, ir_internf(q->ctx, "%s_%d", quant_value_name(q, n->in[1]), node),
                                          q->group);
    quant_codes_free(own);
}
