/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_bounds.c - is an access inside its operand at every point that makes it? Each index e of an axis of extent n
 * asks two things: e >= 0 and n - 1 - e >= 0, at all points of the stage, where the access's guards hold and no index
 * is bad.
 *
 * A sum is proved to be at least 0
 *   by its least value: each iteration variable at that end of its range where the sum is least (ir_lower_bound; a dim
 *   without points has no accesses, so each extent is 1 at least). Values of KN_INDEX are variables below their bound;
 *   by cases: min and max by their operands; q = y floordiv d by d q <= y < d (q + 1), multiplied out; y mod d by y,
 *   where that is not negative; by facts: known sums >= 0 (guards, extents, requirements) are subtracted, times a
 *   factor that cancels a term, and the rest is proved.
 * It is a search of bounded depth, which gives up rather than err (kernel_prove.c).
 *
 * What is not proved is asked of the sizes, where it is the same as a relation of theirs: each variable at the end of
 * its range, or of the part of it that guards leave, where the sum is least. A run is refused only where an access
 * would be outside. What is more than that (the least value is that of no point, guards or indices from data take
 * points out) is no matter of sizes: then the access gets a guard of its own.
 */
#include <string.h>

#include "ir/kernel_prove_int.h"
#include "ir/text/kernel_words_int.h"

#include "base/mutant.h"

enum { MOST_ENDS = 3 }; /* variables that a question about sizes puts at an end of their range */

struct requirements {
    struct kn_requirement *at;
    int n, cap;
};

/* -- Accesses ------------------------------------------------------------------------------------------------------ */

/* A variable for what a KN_INDEX binds: it is used where it lies inside its bound. */
static ir_expr variable_for(struct ir_ctx *ctx, ir_expr symbol, ir_expr bound)
{
    for (const char *name = ir_internf(ctx, "%s'", symbol->name);; name = ir_internf(ctx, "%s'", name)) {
        ir_expr known = ir_sym_find(ctx, name);
        if (!known || known->extent == bound)
            return known ? known : ir_iter_named(ctx, name, bound);
    }
}

static ir_expr in_variables(const struct prover *p, ir_expr e)
{
    return p->nindex ? ir_subst(p->ctx, e, p->nindex, p->index, p->var) : e;
}

/* Does the stage run for every point of dim d? */
static bool walks(const struct kn_kernel *k, int stage, int d)
{
    const struct kn_stage *s = &k->stages[stage];
    return k->dims[d].role != KN_INNER || ((s->inner | s->repeat) >> d & 1);
}

static void open_access(struct prover *p, int stage, const struct kn_insn *n)
{
    const struct kn_kernel *k = p->k;
    for (int i = 0; i < k->ninsns && &k->insns[i] < n; i++) {
        const struct kn_insn *index = &k->insns[i];
        if (index->code != KN_INDEX || p->nindex == MOST_FACTS || !kn_insn_uses(n, index->expr))
            continue;
        ir_expr bound = in_variables(p, index->bound);
        p->index[p->nindex] = index->expr;
        p->var[p->nindex++] = variable_for(p->ctx, index->expr, bound);
        prover_know(p, ir_addc(p->ctx, bound, -1));
    }
    for (int g = 0; g < n->nguards; g++) {
        ir_expr e = in_variables(p, n->guards[g].e);
        prover_know(p, ir_sub(p->ctx, e, in_variables(p, n->guards[g].lo)));
        prover_know(p, ir_sub(p->ctx, ir_addc(p->ctx, in_variables(p, n->guards[g].hi), -1), e));
    }
    for (int d = 0; d < k->ndims; d++)
        if (walks(k, stage, d))
            prover_know(p, ir_addc(p->ctx, k->dims[d].extent, -1));
}

/* What must be at least 0 for axis `axis` of the access to stay inside: above: at its end, else at its beginning. */
static ir_expr room(const struct prover *p, const struct kn_insn *n, int axis, bool above)
{
    ir_expr e = in_variables(p, n->index[axis]), dim = p->k->operands[n->operand].dims[axis];
    return above ? ir_sub(p->ctx, ir_addc(p->ctx, dim, MUTANT(344, -1, 0)), e) : e;
}

static bool is_inside(const struct kn_operand *o, const struct kn_insn *n)
{
    for (int i = 0; i < n->nindex; i++)
        if (n->index[i]->lo < 0 || n->index[i]->hi >= o->dims[i]->lo)
            return false;
    return true;
}

/* -- What is left -------------------------------------------------------------------------------------------------- */

static void note_variable(void *user, ir_expr sym)
{
    bool *found = user;
    *found |= sym->extent != NULL;
}

static bool of_sizes(ir_expr e)
{
    bool found = false;
    ir_each_sym(e, note_variable, &found);
    return !found;
}

/* Is the least value of f over its variables that of a point? That of a remainder may be none; and what an index may
 * come to is a matter of data. */
static bool is_attained(const struct prover *p, ir_expr f)
{
    struct ir_poly terms;
    if (!ir_poly_of(&terms, f))
        return false;
    for (int i = 0; i < terms.n; i++) {
        const ir_expr *atom;
        int n = ir_mono_factors(&terms.at[i].mono, &atom);
        for (int a = 0; a < n; a++)
            if (atom[a]->kind == IR_X_MOD)
                return false;
    }
    for (int i = 0; i < p->nindex; i++)
        if (ir_uses_sym(f, p->var[i]))
            return false;
    return true;
}

static ir_expr if_any(const struct prover *p, ir_expr all, ir_expr extent)
{
    return extent->lo < 1 && of_sizes(extent) ? ir_mul(p->ctx, all, ir_min(p->ctx, ir_const(p->ctx, 1), extent)) : all;
}

/* Which part guards leave of a dim; -1: it is whole. */
static int part_of(const struct prover *p, ir_expr var)
{
    int i = p->nparts - 1;
    while (i >= 0 && p->whole[i] != var)
        i--;
    return i;
}

/* 0 where a dim of the stage, what guards leave of it, or what an index picks from, has no points, else 1. */
static ir_expr points_of(const struct prover *p, int stage)
{
    const struct kn_kernel *k = p->k;
    ir_expr all = ir_const(p->ctx, 1);
    for (int d = 0; d < k->ndims; d++) {
        int part = part_of(p, k->dims[d].var);
        if (walks(k, stage, d))
            all = if_any(p, all, part < 0 ? k->dims[d].extent : p->length[part]);
    }
    for (int i = 0; i < p->nindex; i++)
        all = if_any(p, all, p->var[i]->extent);
    return all;
}

/* lo <= v + c < hi, or lo <= c - v < hi, of a dim's variable that no other guard is of, and sizes. */
static bool narrow_by(struct prover *p, int stage, ir_expr e, ir_expr lo, ir_expr hi)
{
    struct ir_ctx *ctx = p->ctx;
    ir_expr c, sign, zero = ir_const(ctx, 0);
    for (int d = 0; d < p->k->ndims; d++) {
        ir_expr v = p->k->dims[d].var, first, end;
        if (!walks(p->k, stage, d) || !ir_linear_in(ctx, e, v, &sign, &c) || !of_sizes(c) || part_of(p, v) >= 0)
            continue;
        if (ir_is_value(sign, 1)) {
            first = ir_sub(ctx, lo, c);
            end = ir_sub(ctx, hi, c);
        } else if (ir_is_value(sign, -1)) {
            first = ir_addc(ctx, ir_sub(ctx, c, hi), 1);
            end = ir_addc(ctx, ir_sub(ctx, c, lo), 1);
        } else {
            continue;
        }
        first = ir_max(ctx, first, zero);
        p->whole[p->nparts] = v;
        p->length[p->nparts] = ir_max(ctx, ir_sub(ctx, ir_min(ctx, end, v->extent), first), zero);
        p->part[p->nparts] = ir_add(ctx, first, variable_for(ctx, v, p->length[p->nparts]));
        p->nparts++;
        return true;
    }
    return false;
}

/* The points at which the guards of an access hold as those of other variables; false: they are not that simple. */
static bool narrow(struct prover *p, int stage, const struct kn_insn *n)
{
    for (int g = 0; g < n->nguards; g++) {
        ir_expr lo = in_variables(p, n->guards[g].lo), hi = in_variables(p, n->guards[g].hi);
        if (!of_sizes(lo) || !of_sizes(hi) || !narrow_by(p, stage, in_variables(p, n->guards[g].e), lo, hi))
            return false;
    }
    return true;
}

struct question {
    struct prover *p;
    struct requirements *to;
    const struct kn_insn *n;
    int stage, axis;
};

/* least >= 0 as a <= b, without differences. */
static void as_relation(struct ir_ctx *ctx, ir_expr least, struct kn_requirement *r)
{
    struct ir_poly terms, side[2] = {0};
    *r = (struct kn_requirement){.a = ir_const(ctx, 0), .b = least};
    if (!ir_poly_of(&terms, least))
        return;
    for (int i = 0; i < terms.n; i++) {
        int64_t c = terms.at[i].coef;
        if (c == INT64_MIN || !ir_poly_add(&side[c > 0], terms.at[i].mono, c < 0 ? -c : c))
            return;
    }
    r->a = ir_poly_expr(ctx, &side[0]);
    r->b = ir_poly_expr(ctx, &side[1]);
}

/* False: no sizes are so. Lanes that pad a result to whole blocks read where its operand has nothing, and what they get
 * counts for nothing. */
static bool require(const struct question *q, ir_expr least)
{
    struct ir_ctx *ctx = q->p->ctx;
    struct kn_requirement r;
    as_relation(ctx, least, &r);
    r.points = points_of(q->p, q->stage);
    r.operand = q->n->operand;
    r.axis = q->axis;
    if (ir_expr_le(ctx, r.a, r.b) == IR_NO)
        return false;
    q->p->asked = true;
    for (int i = 0; i < q->to->n; i++)
        if (q->to->at[i].a == r.a && q->to->at[i].b == r.b && q->to->at[i].points == r.points)
            return true;
    VEC_PUSH(ctx, *q->to, r);
    return true;
}

static ir_expr a_variable(ir_expr e)
{
    if (e->kind == IR_X_SYM)
        return e->extent ? e : NULL;
    ir_expr found = NULL;
    for (int i = 0; i < e->nargs && !found; i++)
        found = a_variable(e->arg[i]);
    return found;
}

/* The first atom of f = c atom + rest by which f >= 0 is the same as something simpler: a min or max where it is asked
 * of both operands, or a quotient alone. */
static ir_expr simpler_by(struct prover *p, ir_expr f, ir_expr *c, ir_expr *rest)
{
    struct ir_poly terms;
    int sign;
    if (!ir_poly_of(&terms, f))
        return NULL;
    for (int i = 0; i < terms.n; i++) {
        const ir_expr *atoms;
        int n = ir_mono_factors(&terms.at[i].mono, &atoms);
        for (int a = 0; a < n; a++) {
            ir_expr atom = atoms[a];
            if (atom->kind < IR_X_FLOORDIV || atom->kind == IR_X_MOD || !prover_split(p, f, atom, c, rest, &sign))
                continue;
            if (atom->kind == IR_X_FLOORDIV)
                prover_divide_by_factor(p, c, rest);
            if (atom->kind == IR_X_FLOORDIV ? atom->arg[1]->lo > 0 && (ir_is_value(*c, 1) || ir_is_value(*c, -1))
                                            : (atom->kind == IR_X_MIN) == (sign > 0))
                return atom;
        }
    }
    return NULL;
}

static bool ask(const struct question *q, ir_expr f, int ends);

static bool ask_if_open(const struct question *q, ir_expr f, int ends)
{
    return prover_proves(q->p, f) || ask(q, f, ends);
}

/*
 * Asks of the sizes what nothing has shown of f, the room of that axis; false: it is no matter of sizes. What is linear
 * in a variable is least at one of its ends: at both, where the sign isn't known (a slice whose step the run says).
 * What is less than both of two is asked of each, and a quotient is multiplied out.
 */
static bool ask(const struct question *q, ir_expr f, int ends)
{
    struct ir_ctx *ctx = q->p->ctx;
    ir_expr least = ir_least(ctx, f), c, rest;
    if (!is_attained(q->p, f))
        return false;
    if (of_sizes(least))
        return require(q, least);
    if (ends == 0)
        return false;
    ir_expr by = simpler_by(q->p, f, &c, &rest), v = a_variable(least);
    if (by && by->kind == IR_X_FLOORDIV)
        return ask_if_open(q, prover_without_quotient(q->p, by, c, rest), ends - 1);
    if (by)
        return ask_if_open(q, prover_plus(q->p, rest, c, by->arg[0]), ends - 1) &&
               ask_if_open(q, prover_plus(q->p, rest, c, by->arg[1]), ends - 1);
    if (!v || !ir_linear_in(ctx, least, v, &c, &rest))
        return false;
    return ask(q, rest, ends - 1) && ask(q, prover_plus(q->p, rest, c, ir_addc(ctx, v->extent, -1)), ends - 1);
}

static bool no_proof(struct ir_ctx *ctx, const struct kn_kernel *k, int insn, int axis)
{
    const struct kn_insn *n = &k->insns[insn];
    const char *line =
        ir_internf(ctx, "kernel %s: no proof that index %s of the %s o%d stays inside %s", k->name ? k->name : "",
                   ir_expr_text(ctx, n->index[axis]), n->code == KN_STORE ? "store to" : "load of", n->operand,
                   ir_expr_text(ctx, k->operands[n->operand].dims[axis]));
    ir_invalid(ctx, NULL, ctx->parsing ? IR_D_ERROR : IR_D_BUG, line);
    return false;
}

/* Nothing shows that the index stays inside: the access gets a guard that says so, and does not happen elsewhere. */
static void guard(struct ir_ctx *ctx, const struct kn_kernel *k, struct kn_insn *n, int axis)
{
    struct kn_guard *guards = IR_LONGER(ctx, n->guards, n->nguards);
    guards[n->nguards] = (struct kn_guard){n->index[axis], ir_const(ctx, 0), k->operands[n->operand].dims[axis]};
    n->nguards += MUTANT(345, 1, 0);
    n->guards = guards;
}

/* Is it inside wherever there is an element at all, which it needs in any case (reflection, the nearest edge)? */
static bool is_inside_of_some(struct prover *p, ir_expr below, ir_expr above, ir_expr last)
{
    int known = p->nfacts;
    bool never = p->never;
    if (last->lo >= 0)
        return false;
    prover_know(p, last);
    bool inside = prover_proves(p, below) && prover_proves(p, above);
    p->nfacts = known;
    p->never = never;
    return inside;
}

/* Is the access inside its operand along an axis? Where that is a matter of sizes, and of nothing else, `to` has what
 * they must be (NULL: that is not asked). */
static bool is_answered(struct prover *p, const struct kn_insn *n, int stage, int axis, struct requirements *to)
{
    ir_expr dim = p->k->operands[n->operand].dims[axis], last = ir_addc(p->ctx, dim, -1);
    ir_expr f[2] = {room(p, n, axis, false), room(p, n, axis, true)};
    const struct question q = {p, to, n, stage, axis};
    bool proved[2];
    if (prover_in_rows(p, in_variables(p, n->index[axis]), dim, KN_MAX_DIMS))
        return true;
    for (int i = 0; i < 2; i++)
        if (!(proved[i] = prover_proves(p, f[i])) && !to)
            return false;
    if ((proved[0] && proved[1]) || (is_inside_of_some(p, f[0], f[1], last) && require(&q, last)))
        return true;
    for (int i = 0; i < 2; i++)
        if (!proved[i] && !ask(&q, ir_subst(p->ctx, f[i], p->nparts, p->whole, p->part), MOST_ENDS))
            return false;
    return true;
}

/* may_guard: the kernel is in the making; else what has no proof is an error. An access with an axis that is no matter
 * of sizes requires nothing of the others: it may not happen where sizes are not so. */
static bool answer(struct ir_ctx *ctx, struct kn_kernel *k, struct requirements *to, int stage, int insn,
                   bool may_guard)
{
    struct kn_insn *n = &k->insns[insn];
    struct prover p = {.ctx = ctx, .k = k};
    int before = to->n, axis = 0;
    n->answer = KN_PROVED;
    if (is_inside(&k->operands[n->operand], n))
        return true;
    open_access(&p, stage, n);
    if (p.never)
        return true;
    bool simple = narrow(&p, stage, n);
    while (axis < n->nindex - MUTANT(346, 0, 1) && is_answered(&p, n, stage, axis, simple ? to : NULL))
        axis++;
    n->answer = p.asked ? KN_CHECKED : p.nindex ? KN_GUARDED : KN_PROVED;
    if (axis == n->nindex)
        return true;
    to->n = before;
    n->answer = KN_GUARDED;
    for (axis = 0; axis < n->nindex; axis++) {
        if (is_answered(&p, n, stage, axis, NULL))
            continue;
        if (!may_guard || n->nguards == UINT8_MAX)
            return no_proof(ctx, k, insn, axis);
        guard(ctx, k, n, axis);
    }
    return true;
}

static bool answer_all(struct ir_ctx *ctx, struct kn_kernel *k, bool may_guard)
{
    struct requirements all = {0};
    for (int s = 0; s < k->nstages; s++)
        for (int i = k->stages[s].first; i < k->stages[s].last; i++)
            if ((k->insns[i].code == KN_LOAD || k->insns[i].code == KN_STORE) && !answer(ctx, k, &all, s, i, may_guard))
                return false;
    VEC_GIVE(all, k->required, k->nrequired);
    return true;
}

bool kn_require(struct ir_ctx *ctx, struct kn_kernel *k)
{
    return answer_all(ctx, k, true);
}

static bool differs(struct ir_ctx *ctx, const char *line)
{
    ir_invalid(ctx, NULL, ctx->parsing ? IR_D_ERROR : IR_D_BUG, line);
    return false;
}

static bool says(const struct kn_kernel *k, const struct kn_requirement *r)
{
    for (int i = 0; i < k->nrequired; i++)
        if (k->required[i].a == r->a && k->required[i].b == r->b && k->required[i].points == r->points)
            return true;
    return false;
}

bool kn_verify_answers(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct kn_kernel again = *k;
    const char *name = k->name ? k->name : "";
    bool answered = false;
    again.insns = IR_NEWN(ctx, k->ninsns + 1, struct kn_insn);
    if (k->ninsns)
        memcpy(again.insns, k->insns, (size_t)k->ninsns * sizeof *k->insns);
    if (!answer_all(ctx, &again, false))
        return false;
    for (int i = 0; i < k->ninsns; i++) {
        int said = k->insns[i].answer, found = again.insns[i].answer;
        if (said != KN_UNKNOWN && said != found)
            return differs(ctx, ir_internf(ctx, "kernel %s: instruction %d is %s, not %s", name, i,
                                           kn_answer_words[found], kn_answer_words[said]));
        answered |= said == KN_CHECKED;
    }
    for (int i = 0; answered && i < again.nrequired; i++) {
        const struct kn_requirement *r = &again.required[i];
        if (!says(k, r))
            return differs(ctx, ir_internf(ctx, "kernel %s: it requires %s <= %s if %s for o%d", name,
                                           ir_expr_text(ctx, r->a), ir_expr_text(ctx, r->b),
                                           ir_expr_text(ctx, r->points), r->operand));
    }
    return true;
}
