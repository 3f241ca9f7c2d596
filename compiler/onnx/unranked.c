/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise operators on tensors whose rank is known only at run time.
 *
 * The operands are broadcast to their common shape by library ops and become vectors; the operator's own function makes ordinary IR of
 * those, so that it runs as a kernel; its results get the common shape back. Rank-0 operands stay as they are.
 */
#include "compiler/onnx/import_int.h"

enum { MOST_OPERANDS = 64 };

static bool is_unranked(const struct ir_value *v)
{
    return v && v->type->kind == IR_T_TENSOR && v->type->rank < 0 && imp_dtype(v) != TCC_STRING;
}

bool imp_has_unranked(struct imp *im)
{
    for (int k = 0; k < imp_nin(im); k++)
        if (is_unranked(imp_in(im, k)))
            return true;
    return false;
}

static struct ir_value *lib(struct imp *im, const char *name, int nin, struct ir_value *const *in, ir_type type)
{
    struct ir_node *n = imp_lib(im, name, nin, in, 1, &type, NULL);
    return n ? n->out[0] : NULL;
}

/* The dims of all operands broadcast together, a list of unknown length. */
static struct ir_value *common_shape(struct imp *im, int n, struct ir_value *const *in)
{
    return lib(im, n == 1 ? "dyn_shape" : "broadcast_dims", n, in, imp_fresh_type(im, TCC_I64, 1, NULL));
}

/* v as a vector of `count` elements: those of the common shape. */
static struct ir_value *flat(struct imp *im, struct ir_value *v, struct ir_value *shape, bool alone, ir_expr *count)
{
    int64_t rest = -1;
    struct ir_value *in[2] = {v, shape};
    if (!alone)
        in[0] = lib(im, "dyn_expand", 2, in, ir_unranked_type(im->ctx, imp_dtype(v)));
    in[1] = imp_i64s(im, 1, &rest);
    ir_type type = imp_fresh_type(im, imp_dtype(v), 1, *count ? count : NULL);
    *count = type->dim[0];
    return in[0] && in[1] ? lib(im, "dyn_reshape", 2, in, type) : NULL;
}

bool imp_map_unranked(struct imp *im, const struct imp_row *row)
{
    struct ir_value *shaped[MOST_OPERANDS], *v;
    struct imp_scope vectors;
    ir_expr count = NULL;
    int n = 0;
    for (int k = 0; k < imp_nin(im); k++) {
        if (!(v = imp_in(im, k)) || (ir_is_tensor(v->type) && !imp_rank(v)))
            continue;
        if (!is_unranked(v) && !imp_tensor(im, k))
            return false;
        if (n == MOST_OPERANDS)
            return imp_unsupported(im, "more than %d operands, some of a rank known only at run time", MOST_OPERANDS);
        shaped[n++] = v;
    }
    struct ir_value *shape = common_shape(im, n, shaped);
    imp_push_scope(im, &vectors);
    bool fine = shape != NULL;
    for (int k = 0; k < imp_nin(im) && fine; k++) {
        v = imp_in(im, k);
        for (int i = 0; i < n && fine; i++)
            if (v == shaped[i]) { /* a name that stands twice is a vector already the second time */
                struct ir_value *vector = flat(im, v, shape, n == 1, &count);
                fine = vector != NULL;
                imp_bind_name(im, im->node->inputs[k], vector);
                break;
            }
    }
    fine = fine && row->build(im, row->arg);
    imp_pop_scope(im);
    for (int k = 0; k < imp_nout(im) && fine; k++) {
        struct ir_value *in[2] = {im->outs[k], shape};
        if (!in[0])
            continue;
        im->outs[k] = lib(im, "dyn_reshape", 2, in, ir_unranked_type(im->ctx, imp_dtype(in[0])));
        fine = im->outs[k] != NULL;
    }
    return fine;
}
