/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes of moved strings.
 *
 * What operators such as Gather, Reshape and Concat make of a shape does not depend on the elements' type. For strings,
 * which are moved by library ops, the operator's own function is called with bytes of the same shapes instead of the
 * strings: it checks the operands, and the types of its results say what the strings' shapes will be. Nothing reads
 * those results, so they go away as dead code.
 */
#include "compiler/onnx/import_int.h"

static bool is_string(const struct ir_value *v)
{
    return v && v->type->kind == IR_T_TENSOR && imp_dtype(v) == TCC_STRING;
}

/* Are strings the only reason why the operands are no ranked tensors? */
static bool ranked_strings(struct imp *im)
{
    bool any = false;
    for (int k = 0; k < imp_nin(im); k++) {
        const struct ir_value *v = imp_in(im, k);
        if (v && !(is_string(v) ? imp_rank(v) >= 0 : ir_is_tensor(v->type)))
            return false;
        any |= is_string(v);
    }
    return any;
}

static bool bind_bytes(struct imp *im)
{
    for (int k = 0; k < imp_nin(im); k++) {
        struct ir_value *v = imp_in(im, k);
        if (!is_string(v))
            continue;
        struct ir_value *bytes = imp_splat(im, TCC_U8, 0, imp_rank(v), v->type->dim);
        if (!bytes)
            return false;
        imp_bind_name(im, im->node->inputs[k], bytes);
    }
    return true;
}

bool imp_string_shapes(struct imp *im, const struct imp_row *row, bool *known)
{
    struct imp_scope scope;
    int refusals = im->refusals.n;
    *known = ranked_strings(im);
    if (!*known)
        return true;
    imp_push_scope(im, &scope);
    bool fine = bind_bytes(im) && imp_build_row(im, row);
    imp_pop_scope(im);
    if (im->refused) { /* what can't be followed is the library op's */
        im->refused = *known = false;
        im->refusals.n = refusals;
        return true;
    }
    return fine;
}
