/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbols.c - what symbols stand for in a run: expressions of them, types that bind them or must agree with them, the
 * one that an input's size leaves to be solved for.
 */
#include <stdlib.h>

#include "ir/interp/interp_int.h"

static bool sym_value(void *user, ir_expr sym, int64_t *out)
{
    struct interp *it = user;
    if (sym->id >= it->nsyms || !it->syms[sym->id].bound)
        return false;
    *out = it->syms[sym->id].value;
    return true;
}

bool it_eval(struct interp *it, ir_expr e, int64_t *out)
{
    return ir_eval(e, sym_value, it, out);
}

static bool it_expr(struct it_call *c, enum ir_attr_key key, ir_expr e, int64_t *out)
{
    if ((key == IR_ATTR_exprs ? ir_eval_data : ir_eval)(e, sym_value, c->it, out))
        return true;
    it_fail(c, TCC_EINPUT, "a size or position cannot be computed: an unknown symbol, an overflow or a division by 0");
    return false;
}

bool it_exprs(struct it_call *c, enum ir_attr_key key, int n, int64_t *out)
{
    const struct ir_attr *a = ir_attr(c->n, key);
    int found = !a ? 0 : a->kind == IR_A_EXPR ? 1 : a->n;
    if (found != n) {
        it_fail(c, TCC_EBUG, "attribute %d: expected %d expressions, got %d", (int)key, n, found);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (!it_expr(c, key, a->kind == IR_A_EXPR ? a->e : a->exprs[i], &out[i]))
            return false;
    return true;
}

bool it_bind(struct interp *it, ir_expr sym, int64_t value)
{
    if (value < sym->lo || value > sym->hi)
        return false;
    it->syms[sym->id] = (struct it_sym){true, value};
    return true;
}

const int64_t *it_dims_of(const struct it_value *x, int *rank, int *dtype)
{
    if (x->t) {
        *rank = x->t->rank;
        *dtype = x->t->dtype;
        return x->t->dims;
    }
    *rank = x->o->t.rank;
    *dtype = x->o->t.dtype;
    return x->o->t.dims;
}

char *it_dims_text(char *to, int rank, const int64_t *dims)
{
    size_t at = (size_t)sprintf(to, "[");
    for (int i = 0; i < rank && at < IT_DIMS_TEXT - 40; i++)
        at += (size_t)snprintf(to + at, 32, i ? ", %lld" : "%lld", (long long)dims[i]);
    snprintf(to + at, 2, "]");
    return to;
}

/* A library op's result is not what inference said, as the run-time library says it (dense_output,
 * runtime/libop/lib.c). */
static int misshapen(struct interp *it, const struct ir_node *n, ir_type type, const int64_t *dims)
{
    char want[IT_DIMS_TEXT], got[IT_DIMS_TEXT];
    int64_t said[TCC_MAX_RANK];
    for (int i = 0; i < type->rank; i++)
        if (!it_eval(it, type->dim[i], &said[i]))
            said[i] = dims[i];
    return it_error(it, n, TCC_EINPUT, "expected a result of shape %s, got %s", it_dims_text(want, type->rank, said),
                    it_dims_text(got, type->rank, dims));
}

static int match_tensor(struct interp *it, const void *definer, const struct ir_value *v, const struct it_value *x)
{
    ir_type type = v->type;
    int rank, dtype;
    const struct ir_node *n = v->def;
    if (x->o && x->o->kind != TCC_OBJ_TENSOR)
        return it_error(it, n, TCC_EINPUT, "expected a tensor, got a sequence or nothing");
    const int64_t *dims = it_dims_of(x, &rank, &dtype);
    if (dtype != type->dtype)
        return it_error(it, n, TCC_EINPUT, "expected element type %s, got %s",
                        tcc_dtype_name((enum tcc_dtype)type->dtype), tcc_dtype_name((enum tcc_dtype)dtype));
    if (n && type->rank >= 0 && rank != type->rank)
        return it_error(it, n, TCC_EINPUT, "expected a result of dtype %s and rank %d, got %s and rank %d",
                        tcc_dtype_name((enum tcc_dtype)type->dtype), type->rank, tcc_dtype_name((enum tcc_dtype)dtype),
                        rank);
    if (type->rank >= 0 && rank != type->rank)
        return it_error(it, n, TCC_EINPUT, "expected rank %d, got %d", type->rank, rank);
    /* Plain symbols first: other dims may be made of them. */
    for (int i = 0; i < type->rank; i++) {
        ir_expr d = type->dim[i];
        if (d->kind == IR_X_SYM && definer && it->definer[d->id] == definer) {
            if (!it_bind(it, d, dims[i]))
                return it_error(it, n, TCC_EINPUT, "dim %d is %lld, outside the bounds of %s", i, (long long)dims[i],
                                ir_sym_said(d));
            it->definer[d->id] = NULL; /* a second dim of that name must agree; it_match puts it back */
        }
    }
    for (int i = 0; i < type->rank; i++) {
        int64_t want;
        if (n && it_eval(it, type->dim[i], &want) && want != dims[i])
            return misshapen(it, n, type, dims);
        if (it_eval(it, type->dim[i], &want) && want != dims[i])
            return it_error(it, n, TCC_EINPUT, "dim %d: expected %lld, got %lld", i, (long long)want,
                            (long long)dims[i]);
    }
    return TCC_OK;
}

int it_match(struct interp *it, const void *definer, const struct ir_value *v, const struct it_value *x)
{
    ir_type type = v->type;
    if (type->kind == IR_T_TENSOR)
        return x->t || x->o ? match_tensor(it, definer, v, x) : it_error(it, v->def, TCC_EINPUT, "a value is missing");
    if (type->kind == IR_T_VERSION)
        return x->t ? TCC_OK : it_error(it, v->def, TCC_EBUG, "a version without a value");
    if (x->t || !x->o)
        return it_error(it, v->def, TCC_EBUG, "expected an object");
    if (type->kind == IR_T_SEQUENCE && x->o->kind != TCC_OBJ_SEQUENCE)
        return it_error(it, v->def, TCC_EINPUT, "expected a sequence");
    return TCC_OK;
}

/* -- Entry ---------------------------------------------------------------------------------------- */

struct unknown {
    struct interp *it;
    ir_expr sym;
    int count;
    int64_t trial;
};

static void find_unknown(void *user, ir_expr sym)
{
    struct unknown *u = user;
    if (!u->it->syms[sym->id].bound && u->sym != sym) {
        u->sym = sym;
        u->count++;
    }
}

static bool trial_value(void *user, ir_expr sym, int64_t *out)
{
    struct unknown *u = user;
    if (sym != u->sym)
        return sym_value(u->it, sym, out);
    *out = u->trial;
    return true;
}

void it_solve(struct interp *it, ir_expr e, int64_t dim)
{
    struct unknown u = {it, NULL, 0, 0};
    int64_t at0, at1;
    ir_each_sym(e, find_unknown, &u);
    if (u.count != 1 || !ir_eval(e, trial_value, &u, &at0))
        return;
    u.trial = 1;
    if (!ir_eval(e, trial_value, &u, &at1) || at1 == at0 || (dim - at0) % (at1 - at0))
        return;
    u.trial = (dim - at0) / (at1 - at0);
    int64_t check;
    if (u.trial >= 0 && ir_eval(e, trial_value, &u, &check) && check == dim)
        it_bind(it, u.sym, u.trial);
}

static uint32_t max_expr_id(struct ir_ctx *ctx)
{
    return ir_fresh(ctx, "it", 0, 0)->id + 1; /* ids are dense: this one is the newest */
}

bool it_prepare_syms(struct interp *it, struct ir_ctx *ctx)
{
    it->nsyms = max_expr_id(ctx);
    it->syms = calloc(it->nsyms, sizeof *it->syms);
    return it->syms != NULL;
}
