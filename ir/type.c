/* SPDX-License-Identifier: Apache-2.0 */
/* type.c - types of level-1 values, hash-consed: equal pointers are equal types. */
#include <string.h>

#include "ir/ir_int.h"

static ir_type make_type(struct ir_ctx *ctx, enum ir_type_kind kind, enum tcc_dtype dtype, int rank, ir_type elem,
                         const ir_expr *dims)
{
    int ndims = rank > 0 ? rank : 0;
    uint64_t hash = ir_hash_mix((uint64_t)kind * 1000 + dtype, (uint64_t)(rank + 1));
    hash = ir_hash_mix(hash, elem ? elem->id + 1u : 0);
    for (int i = 0; i < ndims; i++)
        hash = ir_hash_mix(hash, dims[i]->id);
    uint32_t pos = UINT32_MAX;
    for (ir_type t; (t = ir_set_next(&ctx->types, hash, &pos));) {
        if (t->kind == kind && t->dtype == dtype && t->rank == rank && t->elem == elem &&
            (ndims == 0 || memcmp(t->dim, dims, (size_t)ndims * sizeof *dims) == 0))
            return t;
    }
    struct ir_type_node *t = ir_alloc(ctx, sizeof *t + (size_t)ndims * sizeof(ir_expr));
    t->kind = (uint8_t)kind;
    t->dtype = (uint8_t)dtype;
    t->rank = (int8_t)rank;
    t->id = ctx->ntypes++;
    t->elem = elem;
    if (ndims)
        memcpy(t->dim, dims, (size_t)ndims * sizeof *dims);
    ir_set_add(ctx, &ctx->types, hash, t);
    return t;
}

ir_type ir_tensor_type(struct ir_ctx *ctx, enum tcc_dtype dtype, int rank, const ir_expr *dims)
{
    if (rank > TCC_MAX_RANK)
        return ir_error(ctx, NULL, "a tensor of rank %d: at most %d dimensions are supported", rank, TCC_MAX_RANK),
               NULL;
    return make_type(ctx, IR_T_TENSOR, dtype, rank < 0 ? -1 : rank, NULL, dims);
}

ir_type ir_tensor_type_i(struct ir_ctx *ctx, enum tcc_dtype dtype, int rank, const int64_t *dims)
{
    ir_expr e[TCC_MAX_RANK];
    for (int i = 0; i < rank && i < TCC_MAX_RANK; i++)
        e[i] = ir_const(ctx, dims[i]);
    return ir_tensor_type(ctx, dtype, rank, e);
}

ir_type ir_scalar_type(struct ir_ctx *ctx, enum tcc_dtype dtype)
{
    return make_type(ctx, IR_T_TENSOR, dtype, 0, NULL, NULL);
}

ir_type ir_unranked_type(struct ir_ctx *ctx, enum tcc_dtype dtype)
{
    return make_type(ctx, IR_T_TENSOR, dtype, -1, NULL, NULL);
}

ir_type ir_sequence_type(struct ir_ctx *ctx, ir_type elem)
{
    return make_type(ctx, IR_T_SEQUENCE, TCC_NONE, -1, elem, NULL);
}

ir_type ir_optional_type(struct ir_ctx *ctx, ir_type elem)
{
    return make_type(ctx, IR_T_OPTIONAL, TCC_NONE, -1, elem, NULL);
}

ir_type ir_with_dtype(struct ir_ctx *ctx, ir_type t, enum tcc_dtype dtype)
{
    return make_type(ctx, t->kind, dtype, t->rank, t->elem, t->dim);
}

bool ir_same_dims(ir_type a, ir_type b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool ir_is_tensor(ir_type t)
{
    return t->kind == IR_T_TENSOR && t->rank >= 0 && t->dtype != TCC_STRING;
}

bool ir_is_object(ir_type t)
{
    return !ir_is_tensor(t) && !ir_is_version(t);
}

bool ir_static_dims(ir_type t, int64_t *dims)
{
    if (t->kind != IR_T_TENSOR || t->rank < 0)
        return false;
    for (int i = 0; i < t->rank; i++) {
        int64_t v;
        if (!ir_is_const(t->dim[i], &v))
            return false;
        if (dims)
            dims[i] = v;
    }
    return true;
}

/* Of an expression that has no value: because of a symbol, or because it overflows? */
static bool note_symbol(void *met, ir_expr sym, int64_t *out)
{
    *(bool *)met = true;
    *out = sym->lo;
    return false;
}

const char *ir_type_impossible(ir_type t)
{
    int64_t dim, bytes = t->kind == IR_T_TENSOR ? tcc_dtype_bytes((enum tcc_dtype)t->dtype) : 0;
    bool huge = false;

    for (int i = 0; t->kind == IR_T_TENSOR && i < t->rank; i++) {
        bool symbolic = false;
        if (!ir_eval(t->dim[i], note_symbol, &symbolic, &dim)) {
            if (!symbolic)
                return "a dim that overflows or is divided by zero";
            continue;
        }
        if (dim < 0)
            return "a negative dim";
        huge = __builtin_mul_overflow(bytes, dim ? dim : 1, &bytes) || bytes > IR_MAX_BYTES || huge;
    }
    return huge ? "more than 2^47 bytes" : NULL;
}

ir_expr ir_num_elements(struct ir_ctx *ctx, ir_type t)
{
    ir_expr n = ir_const(ctx, 1);
    for (int i = 0; i < t->rank; i++)
        n = ir_mul(ctx, n, t->dim[i]);
    return n;
}

void ir_print_type(FILE *out, ir_type t)
{
    if (!t) {
        fputc('?', out);
        return;
    }
    if (t->kind == IR_T_VERSION) {
        ir_print_global(out, t->state->name);
        return;
    }
    if (t->kind != IR_T_TENSOR) {
        fputs(t->kind == IR_T_SEQUENCE ? "seq<" : "optional<", out);
        ir_print_type(out, t->elem);
        fputc('>', out);
        return;
    }
    fprintf(out, "%s[", tcc_dtype_name(t->dtype));
    if (t->rank < 0)
        fputc('*', out);
    for (int i = 0; i < t->rank; i++) {
        if (i)
            fputc(',', out);
        ir_print_expr(out, t->dim[i]);
    }
    fputc(']', out);
}

static void print_any(FILE *out, const void *t)
{
    ir_print_type(out, t);
}

const char *ir_type_text(struct ir_ctx *ctx, ir_type t)
{
    return ir_text_of(ctx, print_any, t);
}
