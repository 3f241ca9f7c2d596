/* SPDX-License-Identifier: Apache-2.0 */
/* op_custom.c - a node whose operator the user gives himself (--custom-op): one library op, of whose results his
 * shape() says the types. */
#include "compiler/onnx/import_int.h"

struct ir_custom *imp_custom(struct ir_ctx *ctx, const char *domain, const char *op)
{
    return ir_customs(ctx) ? ir_custom_find(ctx, ir_internf(ctx, "%s:%s", *domain ? domain : "ai.onnx", op)) : NULL;
}

bool imp_custom_node(struct imp *im, const struct ir_custom *custom)
{
    int nin = imp_nin(im), nout = imp_nout(im), nattrs;
    struct ir_value **in = IR_NEWN(im->ctx, nin + 1, struct ir_value *);
    ir_type *types = IR_NEWN(im->ctx, nin + 1, ir_type);
    const struct ir_attr *attrs = imp_user_attrs(im, &nattrs);
    if (!attrs)
        return false;
    for (int k = 0; k < nin; k++) {
        in[k] = imp_in(im, k);
        types[k] = in[k] ? in[k]->type : NULL;
    }
    const ir_type *results = ir_custom_types(im->ctx, &im->b.where, custom, nin, types, nattrs, attrs, nout);
    return results && imp_lib_node(im, custom->name, nout, results, NULL);
}
