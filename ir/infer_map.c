/* SPDX-License-Identifier: Apache-2.0 */
/* infer_map.c - types of the elementwise ops, by scalar.def's types column; their operands broadcast as in NumPy. */
#include "ir/infer_int.h"
#include "ir/scalar_int.h"

/* What operand i must be, or NULL when d is fine. */
static const char *expected(enum ir_scalar_types types, int i, enum tcc_dtype d)
{
    switch (types) {
    case IR_ST_SAME: return tcc_is_float(d) || tcc_is_int(d) ? NULL : "numbers";
    case IR_ST_FLOAT:
    case IR_ST_TEST: return tcc_is_float(d) ? NULL : "floats";
    case IR_ST_LOGIC: return d == TCC_BOOL || tcc_is_int(d) ? NULL : "bools or integers";
    case IR_ST_SELECT: return i > 0 || d == TCC_BOOL ? NULL : "bools";
    case IR_ST_COMPARE:
    case IR_ST_CAST: break;
    }
    return NULL;
}

static enum tcc_dtype result_dtype(enum ir_scalar_types types, struct ir_node *n)
{
    if (types == IR_ST_COMPARE || types == IR_ST_TEST)
        return TCC_BOOL;
    return n->in[types == IR_ST_SELECT].value->type->dtype;
}

INFER(map)
{
    enum ir_scalar_types types = ir_scalar_row(n->op)->types;
    int rank = 0, first = types == IR_ST_SELECT;
    ir_expr dims[TCC_MAX_RANK];
    for (int i = 0; i < n->nin; i++) {
        ir_type t = infer_tensor(ctx, n, i);
        if (!t)
            return false;
        const char *want = expected(types, i, t->dtype);
        if (want)
            return infer_fail(ctx, n, "operand %d must hold %s, got %s", i, want, ir_type_text(ctx, t));
        if (i > first && !infer_same_dtype(ctx, n, first, i))
            return false;
        int joined = infer_broadcast(ctx, rank, dims, t->rank, t->dim, dims);
        if (joined < 0)
            return infer_fail(ctx, n, "operand %d, %s, does not broadcast with those before it (%s)", i,
                              ir_type_text(ctx, t), ir_type_text(ctx, ir_tensor_type(ctx, t->dtype, rank, dims)));
        rank = joined;
    }
    enum tcc_dtype dtype = TCC_NONE;
    if (types != IR_ST_CAST)
        dtype = result_dtype(types, n);
    else if (!infer_dtype(ctx, n, &dtype))
        return false;
    return infer_set(ctx, n, 0, dtype, rank, dims);
}
