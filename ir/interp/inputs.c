/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do the inputs of a call fit an entry point's types? Asked before a version is chosen, and said as the run-time
 * library says it (bind_input, runtime/run.c): what does not fit is the same for a model that is run and for its
 * artifact.
 */
#include "ir/interp/interp_int.h"

struct bound {
    ir_expr sym;
    int64_t value;
    const char *input;
    int axis;
};

struct binding {
    VEC(struct bound) at;
    const char *input; /* the one that is being bound */
    char *error;
    size_t size;
};

static bool bind_sym(struct ir_ctx *ctx, struct binding *b, int axis, ir_expr sym, int64_t dim)
{
    for (int i = 0; i < b->at.n; i++) {
        const struct bound *o = &b->at.at[i];
        if (o->sym != sym)
            continue;
        if (o->value != dim)
            snprintf(b->error, b->size, "input '%s', axis %d: '%s' is %lld by input '%s', axis %d; got %lld", b->input,
                     axis, sym->name, (long long)o->value, o->input, o->axis, (long long)dim);
        return o->value == dim;
    }
    if (dim < sym->lo || dim > sym->hi) {
        snprintf(b->error, b->size, "input '%s', axis %d: '%s' must be in [%lld, %lld], got %lld", b->input, axis,
                 sym->name, (long long)sym->lo, (long long)sym->hi, (long long)dim);
        return false;
    }
    VEC_PUSH(ctx, b->at, (struct bound){sym, dim, b->input, axis});
    return true;
}

static bool bind_dim(struct ir_ctx *ctx, struct binding *b, int axis, ir_expr e, int64_t dim)
{
    int64_t want;
    if (e->kind == IR_X_SYM)
        return bind_sym(ctx, b, axis, e, dim);
    if (!ir_is_const(e, &want) || want == dim)
        return true;
    snprintf(b->error, b->size, "input '%s', axis %d: expected %lld, got %lld", b->input, axis, (long long)want,
             (long long)dim);
    return false;
}

static bool bind_tensor(struct ir_ctx *ctx, struct binding *b, ir_type type, const struct tcc_tensor *t)
{
    char shape[256] = "";
    size_t n = 0;
    if (type->dtype != TCC_NONE && type->dtype != t->dtype) {
        snprintf(b->error, b->size, "input '%s': expected %s, got %s", b->input,
                 tcc_dtype_name((enum tcc_dtype)type->dtype), tcc_dtype_name((enum tcc_dtype)t->dtype));
        return false;
    }
    if (type->rank >= 0 && type->rank != t->rank) {
        for (int i = 0; i < t->rank && n < 220; i++)
            n += (size_t)snprintf(shape + n, 32, i ? ", %lld" : "%lld", (long long)t->dims[i]);
        snprintf(b->error, b->size, "input '%s': expected rank %d, got %d (shape [%s])", b->input, type->rank, t->rank,
                 shape);
        return false;
    }
    for (int i = 0; i < type->rank; i++)
        if (!bind_dim(ctx, b, i, type->dim[i], t->dims[i]))
            return false;
    return true;
}

bool it_inputs_fit(struct ir_ctx *ctx, int n, const char *const *names, const ir_type *types,
                   struct tcc_object *const *in, char *error, size_t size)
{
    struct binding b = {.error = error, .size = error ? size : 0};
    for (int i = 0; i < n; i++) {
        ir_type t = types[i]->kind == IR_T_OPTIONAL ? types[i]->elem : types[i];
        b.input = names[i];
        if (t->kind == IR_T_TENSOR && in[i] && in[i]->kind == TCC_OBJ_TENSOR && !bind_tensor(ctx, &b, t, &in[i]->t))
            return false;
    }
    return true;
}
