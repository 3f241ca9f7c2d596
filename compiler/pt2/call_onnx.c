/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ATen ops that are ONNX operators, by the operators' rows: the operands become the names of a node in a scope of its
 * own, and the row's function builds as it would for a model's node.
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

#define MAX_OPERANDS 16

struct onnx_attr pt2_attr_i(const char *name, int64_t v)
{
    return (struct onnx_attr){.name = name, .ref = "", .type = ONNX_ATTR_INT, .i = v};
}

struct onnx_attr pt2_attr_f(const char *name, double v)
{
    return (struct onnx_attr){.name = name, .ref = "", .type = ONNX_ATTR_FLOAT, .f = (float)v};
}

struct onnx_attr pt2_attr_s(const char *name, const char *v)
{
    return (struct onnx_attr){.name = name, .ref = "", .type = ONNX_ATTR_STRING, .s = {.data = v, .size = strlen(v)}};
}

struct onnx_attr pt2_attr_ints(const char *name, int n, const int64_t *v)
{
    return (struct onnx_attr){.name = name, .ref = "", .type = ONNX_ATTR_INTS, .count = (size_t)n, .ints = v};
}

bool pt2_onnx(struct pt2 *p, const char *op, int opset, int nin, struct ir_value *const *in, int nattrs,
              const struct onnx_attr *attrs, int nout, struct ir_value **outs)
{
    static const char *const names[MAX_OPERANDS] = {"0", "1", "2",  "3",  "4",  "5",  "6",  "7",
                                                    "8", "9", "10", "11", "12", "13", "14", "15"};
    struct imp *im = p->im;
    bool other_version = false;
    const struct imp_row *row = imp_find_row("", op, opset, &other_version);
    const struct onnx_node *outer = im->node;
    const char *domain = im->domain, *inputs[MAX_OPERANDS];
    int outer_opset = im->opset;
    struct ir_value **outer_outs = im->outs;
    struct onnx_node node = {.name = im->b.where.node,
                             .op = op,
                             .domain = "",
                             .inputs = inputs,
                             .outputs = names,
                             .input_count = (size_t)nin,
                             .output_count = (size_t)nout,
                             .attrs = attrs,
                             .attr_count = (size_t)nattrs};
    struct imp_scope scope;
    if (!row || nin > MAX_OPERANDS || nout > MAX_OPERANDS)
        return imp_bad(im, "no operator %s", op);
    im->scope = NULL;
    imp_push_scope(im, &scope);
    for (int k = 0; k < nin; k++) {
        inputs[k] = in[k] ? names[k] : "";
        if (!in[k])
            continue;
        const char *name = in[k]->name;
        imp_bind_name(im, names[k], in[k]);
        in[k]->name = name;
    }
    memset(outs, 0, (size_t)nout * sizeof *outs);
    im->node = &node;
    im->domain = "";
    im->opset = opset;
    im->outs = outs;
    bool fine = imp_build_row(im, row);
    im->scope = NULL;
    im->node = outer;
    im->domain = domain;
    im->opset = outer_opset;
    im->outs = outer_outs;
    return fine;
}

struct ir_value *pt2_onnx1(struct pt2 *p, const char *op, int opset, int nin, struct ir_value *const *in, int nattrs,
                           const struct onnx_attr *attrs)
{
    struct ir_value *out;
    return pt2_onnx(p, op, opset, nin, in, nattrs, attrs, 1, &out) ? out : NULL;
}
