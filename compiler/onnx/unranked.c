/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise operators on tensors whose rank is known only at run time.
 *
 * The operands are broadcast to their common shape by library ops and become vectors; the operator's own function makes
 * ordinary IR of those, so that it runs as a kernel; its results get the common shape back. Rank-0 operands stay as
 * they are.
 *
 * Where an operand is one of two ranked tensors, as an If with a scalar in one branch and a list in the other gives,
 * its rank is bounded: with 1s in front it is a ranked tensor. Beside an operand that has as many axes this changes
 * nothing, since broadcasting would put those 1s there, and the result is ranked again.
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

/* -- Bounded ranks */

/* t with 1s in front. */
static ir_expr padded_dim(struct imp *im, ir_type t, int rank, int axis)
{
    int own = axis - (rank - t->rank);
    return own < 0 ? ir_const(im->ctx, 1) : t->dim[own];
}

void imp_note_ranks(struct imp *im, const struct ir_value *v, ir_type a, ir_type b)
{
    ir_expr dims[TCC_MAX_RANK];
    if (!is_unranked(v) || !ir_is_tensor(a) || !ir_is_tensor(b))
        return;
    int rank = a->rank > b->rank ? a->rank : b->rank;
    for (int k = 0; k < rank; k++) {
        dims[k] = padded_dim(im, a, rank, k);
        if (dims[k] != padded_dim(im, b, rank, k))
            dims[k] = NULL;
    }
    VEC_PUSH(im->ctx, im->padded, (struct imp_padded){v, imp_fresh_type(im, imp_dtype(v), rank, dims)});
}

static ir_type padded_type(struct imp *im, const struct ir_value *v)
{
    for (int k = im->padded.n - 1; k >= 0; k--)
        if (im->padded.at[k].value == v)
            return im->padded.at[k].type;
    return NULL;
}

/* v with 1s in front: its last dims are those of its shape. */
static struct ir_value *padded(struct imp *im, struct ir_value *v, ir_type type)
{
    ir_expr ones = ir_const(im->ctx, type->rank), dims[TCC_MAX_RANK];
    struct ir_value *parts[2] = {imp_splat(im, TCC_I64, 1, 1, &ones),
                                 lib(im, "dyn_shape", 1, &v, imp_fresh_type(im, TCC_I64, 1, NULL))};
    if (!parts[0] || !parts[1])
        return NULL;
    struct ir_value *all = imp_concat(im, 2, parts, 0);
    struct ir_value *shape = all ? imp_slice1(im, all, 0, imp_dim(parts[1], 0), ones) : NULL;
    for (int k = 0; k < type->rank; k++)
        dims[k] = ir_is_const(type->dim[k], NULL) ? type->dim[k] : NULL;
    struct ir_value *in[2] = {v, shape};
    return shape ? lib(im, "dyn_reshape", 2, in, imp_fresh_type(im, imp_dtype(v), type->rank, dims)) : NULL;
}

/* Is the result ranked, since an operand has as many axes as any other may have? */
static bool bounded(struct imp *im)
{
    int most = -1, ranked = -1;
    for (int k = 0; k < imp_nin(im); k++) {
        struct ir_value *v = imp_in(im, k);
        ir_type type = is_unranked(v) ? padded_type(im, v) : NULL;
        if (is_unranked(v) && !type)
            return false;
        if (type && type->rank > most)
            most = type->rank;
        else if (v && !type && ir_is_tensor(v->type) && imp_rank(v) > ranked)
            ranked = imp_rank(v);
    }
    return most <= ranked;
}

static bool map_bounded(struct imp *im, const struct imp_row *row)
{
    struct imp_scope scope;
    bool fine = true;
    imp_push_scope(im, &scope);
    for (int k = 0; k < imp_nin(im) && fine; k++) {
        struct ir_value *v = imp_in(im, k);
        if (!is_unranked(v))
            continue;
        struct ir_value *ranked = padded(im, v, padded_type(im, v));
        fine = ranked != NULL;
        imp_bind_name(im, im->node->inputs[k], ranked);
    }
    fine = fine && imp_build_row(im, row);
    imp_pop_scope(im);
    return fine;
}

/* What is known of the operands' ranks is known of those of the results. */
static void note_results(struct imp *im)
{
    ir_type all = NULL;
    ir_expr dims[TCC_MAX_RANK];
    for (int k = 0; k < imp_nin(im); k++) {
        struct ir_value *v = imp_in(im, k);
        ir_type t = is_unranked(v) ? padded_type(im, v) : v ? v->type : NULL;
        if (!v)
            continue;
        if (!t || !ir_is_tensor(t))
            return;
        int rank = all && all->rank > t->rank ? all->rank : t->rank;
        for (int d = 0; d < rank; d++) {
            ir_expr a = padded_dim(im, all ? all : t, rank, d), b = padded_dim(im, t, rank, d);
            dims[d] = a == b || ir_is_value(b, 1) ? a : ir_is_value(a, 1) ? b : NULL;
        }
        all = imp_fresh_type(im, (enum tcc_dtype)t->dtype, rank, dims);
    }
    for (int k = 0; all && k < imp_nout(im); k++)
        if (im->outs[k])
            imp_note_ranks(im, im->outs[k], all, all);
}

/* -- The operators */

struct ir_value *imp_single(struct imp *im, struct ir_value *v)
{
    struct ir_value *in[2] = {v, NULL};
    if (!is_unranked(v))
        return imp_reshape(im, v, 0, NULL);
    in[1] = imp_i64s(im, 0, NULL);
    return in[1] ? lib(im, "dyn_reshape", 2, in, ir_scalar_type(im->ctx, imp_dtype(v))) : NULL;
}

struct ir_value *imp_map1_unranked(struct imp *im, struct ir_value *x,
                                   struct ir_value *(*f)(struct imp *im, struct ir_value *x, int arg), int arg)
{
    ir_expr count = NULL;
    struct ir_value *shape = common_shape(im, 1, &x), *in[2] = {NULL, shape};
    in[0] = shape ? flat(im, x, shape, true, &count) : NULL;
    in[0] = in[0] ? f(im, in[0], arg) : NULL;
    struct ir_value *y = in[0] ? lib(im, "dyn_reshape", 2, in, ir_unranked_type(im->ctx, imp_dtype(in[0]))) : NULL;
    ir_type type = padded_type(im, x);
    if (y && type)
        imp_note_ranks(im, y, type, type);
    return y;
}

bool imp_map_unranked(struct imp *im, const struct imp_row *row)
{
    if (bounded(im))
        return map_bounded(im, row);
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
    fine = fine && imp_build_row(im, row);
    imp_pop_scope(im);
    for (int k = 0; k < imp_nout(im) && fine; k++) {
        struct ir_value *in[2] = {im->outs[k], shape};
        if (!in[0])
            continue;
        im->outs[k] = lib(im, "dyn_reshape", 2, in, ir_unranked_type(im->ctx, imp_dtype(in[0])));
        fine = im->outs[k] != NULL;
    }
    if (fine)
        note_results(im);
    return fine;
}
