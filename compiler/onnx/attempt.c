/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attempt.c - graphs that may be wrong where they stand. A branch that nobody takes at these sizes need not make sense
 * at them: exporters keep what an If decided for other shapes, and scripts test for ranks that the model never sees. So
 * the graph of a region is imported as an attempt. Where that fails for the sake of types, sizes or values, the region
 * gets one node that ends the run in which it is reached, with the importer's words. What is no model at any size (an
 * operand that nothing computes, an attribute that the operator has not) stays an error of the compilation.
 */
#include "compiler/onnx/import_int.h"

void imp_attempt_begin(struct imp *im, struct imp_attempt *a)
{
    a->before = *im;
    im->malformed = false;
    ir_attempt_begin(im->ctx, &a->errors);
}

static void go_back(struct imp *im, const struct imp *before)
{
    im->scope = before->scope;
    im->call = before->call;
    im->graph = before->graph;
    im->node = before->node;
    im->domain = before->domain;
    im->opset = before->opset;
    im->outs = before->outs;
    im->b = before->b;
    im->refused = before->refused;
    im->refusals.n = before->refusals.n;
    im->padded.n = before->padded.n;
}

enum imp_outcome imp_attempt_end(struct imp *im, struct imp_attempt *a, bool fine)
{
    bool malformed = im->malformed;
    ir_attempt_end(im->ctx);
    im->malformed |= a->before.malformed;
    if (im->again)
        return IMP_FAILED;
    if (fine && !a->errors.errors)
        return IMP_FINE;
    if (!a->errors.errors)
        return IMP_FAILED;
    if (malformed) {
        imp_attempt_tell(im, a);
        return IMP_FAILED;
    }
    go_back(im, &a->before);
    while (im->b.block->last)
        ir_remove(im->b.block->last);
    return IMP_WRONG;
}

void imp_attempt_tell(struct imp *im, const struct imp_attempt *a)
{
    ir_error(im->ctx, &a->errors.where, "%s", a->errors.text);
}

bool imp_attempt_refuse(struct imp *im, const struct imp_attempt *a, struct ir_block *block, int n,
                        const ir_type *types, struct ir_value **outs)
{
    struct ir_builder saved = im->b;
    struct ir_attr message = ir_attr_user_s("message", a->errors.text);
    im->b.block = block;
    im->b.before = NULL;
    im->b.where = a->errors.where;
    ir_detail(im->ctx, "node '%s': %s: an error of the runs that come there", ir_shown(a->errors.where.node),
              a->errors.text);
    struct ir_node *made = imp_lib_of(im, "refuse", 0, NULL, n, types, 1, &message);
    im->b = saved;
    for (int k = 0; made && k < n; k++)
        outs[k] = made->out[k];
    return made != NULL;
}
