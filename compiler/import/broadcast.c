/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast.c - sizes that broadcast if they are equal or one is 1. For all pairs that is one fact: all are equal, the
 * usual case, in which nothing is different from sizes that are known to be equal; or any, where a dim that may be 1 is
 * read with the index 0 by a gather. Sizes that only the run knows make no versions: they are read so always.
 */
#include "compiler/import/import.h"
#include "base/mutant.h"

enum imp_broadcasting imp_broadcasting(const struct imp *im)
{
    for (int i = 0; i < im->facts.n; i++)
        if (im->facts.at[i].op == TCC_GUARD_BROADCAST)
            return im->facts.at[i].truth ? IMP_ALL_EQUAL : IMP_ANY;
    return IMP_NOT_ASKED;
}

static void note_pair(struct imp *im, ir_expr a, ir_expr b)
{
    for (int i = 0; i < im->pairs.n; i++)
        if ((im->pairs.at[i].a == a && im->pairs.at[i].b == b) || (im->pairs.at[i].a == b && im->pairs.at[i].b == a))
            return;
    VEC_PUSH(im->ctx, im->pairs, (struct ir_guard){TCC_GUARD_EQ, a, b});
}

/* A symbol's value in sample k: small ones, then larger ones, always the same. */
static bool sampled(void *user, ir_expr sym, int64_t *out)
{
    uint64_t k = *(const uint64_t *)user,
             h = (sym->id + 1) * UINT64_C(0x9e3779b97f4a7c15) + k * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 29)) * UINT64_C(0x94d049bb133111eb);
    *out = sym->lo + (int64_t)((h >> 33) % (k < 16 ? 12 : 5000));
    return *out <= sym->hi;
}

/*
 * Are they one size in two forms, such as n floordiv 2 - 1 and max(n floordiv 2 - 1, 0)? They have one value in every
 * sample in which both can be sizes. What no proof says is checked when the model runs, as for any two sizes.
 */
static bool alike(ir_expr a, ir_expr b)
{
    int compared = 0;
    for (uint64_t k = 0; k < 64; k++) {
        int64_t x, y;
        if (!ir_eval(a, sampled, &k, &x) || !ir_eval(b, sampled, &k, &y) || x < 0 || y < 0)
            continue;
        if (x != y)
            return false;
        compared++;
    }
    return compared >= 8;
}

enum imp_joining imp_joining(struct imp *im, ir_expr a, ir_expr b)
{
    if (a == b || ir_is_value(a, 1) || ir_is_value(b, 1) || (a->lo > 1 && b->lo > 1) ||
        ir_expr_eq(im->ctx, a, b) != IR_MAYBE || im->one_version)
        return IMP_AS_EVER;
    bool inputs = imp_of_inputs(im, a) && imp_of_inputs(im, b);
    if (!inputs)
        return IMP_EITHER;
    if ((imp_broadcasting(im) != IMP_ANY && !im->joins) || alike(a, b))
        return IMP_AS_EVER;
    if (imp_broadcasting(im) == IMP_NOT_ASKED)
        VEC_PUSH(im->ctx, im->facts,
                 (struct imp_fact){.op = TCC_GUARD_BROADCAST, .truth = true, .node = im->b.where.node});
    note_pair(im, a, b);
    return imp_broadcasting(im) == IMP_ANY ? IMP_EITHER : IMP_EQUAL;
}

/* That of a if b is the same, else -1, which no size can be: the run ends where it is bound. */
static struct ir_value *no_size(struct imp *im, struct ir_value *a, struct ir_value *b)
{
    struct ir_value *minus_one = imp_int(im, TCC_I64, -1);
    return imp_select(im, imp_bin(im, IR_eq, a, b), a, minus_one);
}

/* A size of the run beside one that is known: it is that, or 1. (Guards say so of those of inputs.) */
static ir_expr join_known(struct imp *im, ir_expr known, ir_expr n)
{
    ir_expr more = ir_addc(im->ctx, n, -1), less = ir_sub(im->ctx, n, known);
    bool asked = MUTANT(401, imp_of_inputs(im, n), true);
    return asked || imp_assume(im, IR_EQ, ir_mul(im->ctx, ir_min(im->ctx, more, ir_const(im->ctx, 1)), less),
                               ir_const(im->ctx, 0), "%s is neither 1 nor %s, beside which it stands",
                               ir_expr_text(im->ctx, n), ir_expr_text(im->ctx, known))
               ? known
               : NULL;
}

ir_expr imp_join(struct imp *im, ir_expr a, ir_expr b)
{
    if (ir_const_or(a, 1) != 1 || ir_const_or(b, 1) != 1)
        return ir_const_or(a, 1) != 1 ? join_known(im, a, b) : join_known(im, b, a);
    for (int i = 0; i < im->joined.n; i++) {
        const struct imp_joined *j = &im->joined.at[i];
        bool both = (j->a == a && j->b == b) || (j->a == b && j->b == a);
        bool again = (j->both == a && (j->a == b || j->b == b)) || (j->both == b && (j->a == a || j->b == a));
        if (both || again)
            return j->both;
    }
    ir_expr both;
    struct ir_value *one = imp_int(im, TCC_I64, 1), *va = imp_dim_value(im, a), *vb = imp_dim_value(im, b);
    struct ir_value *no_size_of = no_size(im, va, vb);
    struct ir_value *size = imp_select(im, imp_bin(im, IR_eq, vb, one), va, no_size_of);
    size = imp_select(im, imp_bin(im, IR_eq, va, one), vb, size);
    if (imp_bound_exprs(im, size, 1, 0, IMP_MAX_DIM, &both) != 1)
        return NULL;
    if (im->b.block == im->func->body) /* inside a region it means nothing elsewhere */
        VEC_PUSH(im->ctx, im->joined, (struct imp_joined){a, b, both});
    return both;
}

struct ir_value *imp_widen(struct imp *im, struct ir_value *x, int axis, ir_expr to)
{
    if (!x || !to || imp_dim(x, axis) == to || ir_is_value(imp_dim(x, axis), 1))
        return to ? x : NULL;
    ir_expr step = ir_min(im->ctx, ir_addc(im->ctx, imp_dim(x, axis), -1), ir_const(im->ctx, 1));
    struct ir_value *step_size = imp_dim_value(im, step);
    struct ir_value *index = imp_bin(im, IR_mul, imp_iota(im, 1, &to, 0, TCC_I64), step_size);
    return imp_gather(im, x, index, axis);
}

/* The axis of x that is number `axis` of `rank`; -1: it has none. */
static int axis_of(const struct ir_value *x, int axis, int rank)
{
    return ir_is_tensor(x->type) ? axis - (rank - imp_rank(x)) : -1;
}

bool imp_fit(struct imp *im, int n, struct ir_value **in, int but)
{
    int rank = 0;
    for (int k = 0; k < n; k++)
        rank = ir_is_tensor(in[k]->type) && imp_rank(in[k]) > rank ? imp_rank(in[k]) : rank;
    for (int d = 0; d < rank - but; d++) {
        ir_expr size = ir_const(im->ctx, 1);
        bool either = false;
        for (int k = 0; k < n; k++) {
            int at = axis_of(in[k], d, rank);
            ir_expr own = at < 0 ? ir_const(im->ctx, 1) : imp_dim(in[k], at);
            enum imp_joining how = imp_joining(im, size, own);
            either |= how == IMP_EITHER;
            size = how == IMP_EITHER ? imp_join(im, size, own) : ir_is_value(size, 1) ? own : size;
            if (!size)
                return false;
        }
        for (int k = 0; k < n && either; k++)
            if (axis_of(in[k], d, rank) >= 0 && !(in[k] = imp_widen(im, in[k], axis_of(in[k], d, rank), size)))
                return false;
    }
    return true;
}
