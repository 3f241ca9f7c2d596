/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pieces.c - a kernel whose first stages reduce over inner dims as one of two phases: pieces of an inner dim are reduced each for itself, and
 * what they come to is stored; then it is combined, and the stages behind the reductions run (ir/kernel.h). Whether that pays is
 * the pass's matter (split.c).
 */
#include "passes/lower/lower_int.h"
#include "runtime/mutant.h"

#include <limits.h>

/* Pieces of at least so many points are whole cache lines and vectors. */
#define EVEN 64

/* -- What can be cut ------------------------------------------------------------------------------------------- */

static int stage_of(const struct kn_kernel *k, int insn)
{
    int s = 0;
    while (insn >= k->stages[s].last)
        s++;
    return s;
}

static bool uses(const struct kn_insn *n, int insn)
{
    for (int i = 0; i < n->nargs; i++)
        if (n->arg[i] == insn)
            return true;
    return false;
}

static bool is_reduction(const struct kn_insn *n)
{
    return n->code == KN_REDUCE || n->code == KN_ARGREDUCE;
}

/* A stage in front of the cut: it stores nothing, and sums nothing that another one there needs. */
static bool may_be_cut(const struct kn_kernel *k, const struct kn_stage *s, int last)
{
    for (int i = s->first; i < s->last; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code == KN_STORE || n->code == KN_SCAN || (n->code == KN_INDEX && !s->inner))
            return false;
        if (n->code == KN_REDUCE && tcc_small_float((enum tcc_dtype)n->dtype)) /* pieces would be rounded to it */
            return false;
        for (int j = i + 1; j < last && is_reduction(n); j++)
            if (uses(&k->insns[j], i))
                return false;
    }
    return !s->repeat;
}

/* Points of those dims, at least 1. */
static double points(const struct kn_kernel *k, uint32_t dims)
{
    double n = 1;
    for (int d = 0; d < k->ndims; d++)
        n *= dims >> d & 1 ? pass_extent(NULL, k->dims[d].extent) : 1;
    return n;
}

bool lw_find_cut(const struct kn_kernel *k, int least, struct lw_cut *c)
{
    *c = (struct lw_cut){.inner = ~0u};
    const struct kn_contraction *roles = &k->contraction; /* templates run products, but small ones */
    bool product =
        roles->present && (roles->m | roles->n) && points(k, roles->m) >= least && points(k, roles->n) >= least;
    bool sums =
        k->kind == IR_K_REDUCE || (k->kind == IR_K_CONTRACT && !k->contraction.partial); /* of a row and a column */
    if (!sums || product || k->split.combine || k->ndims == KN_MAX_DIMS)
        return false;
    for (int o = 0; o < k->noperands; o++)
        if (k->operands[o].use == KN_LOCAL)
            return false;
    for (int s = 0; s < k->nstages; s++)
        if (k->stages[s].inner) {
            c->first = s + 1;
            c->inner &= k->stages[s].inner;
        }
    if (!c->first || c->first == k->nstages || !c->inner)
        return false;
    for (int s = c->first; s < k->nstages; s++)
        if (k->stages[s].repeat)
            return false;
    for (int s = 0; s < c->first; s++)
        if (!may_be_cut(k, &k->stages[s], k->stages[c->first - 1].last))
            return false;
    return true;
}

uint32_t lw_outer_dims(const struct kn_kernel *k)
{
    uint32_t set = 0;
    for (int d = 0; d < k->ndims; d++)
        set |= (uint32_t)(k->dims[d].role == KN_OUTER) << d;
    return set;
}

/* -- The split kernel ------------------------------------------------------------------------------------------------ */

struct splitter {
    struct ir_ctx *ctx;
    const struct kn_kernel *from;
    struct kn_kernel *to;
    struct lw_cut cut;
    ir_expr old[KN_MAX_DIMS], new[KN_MAX_DIMS]; /* variables */
    int *number;   /* of from's instructions in the phase that is being made; -1: not there */
    int *partial;  /* of reductions: operand of `to`; -1: none */
    int *position; /* of extreme positions: operand of `to` for them, beside one for the extremes; -1: none */
    int *extreme;  /* of these: the instruction of `to` that gives the extreme */
};

static int add_insn(struct splitter *x, struct kn_insn n)
{
    struct kn_kernel *k = x->to;
    k->insns[k->ninsns++] = n;
    return k->ninsns - 1;
}

static void end_stage(struct splitter *x, uint32_t inner, int first)
{
    struct kn_kernel *k = x->to;
    k->stages[k->nstages++] = (struct kn_stage){.inner = inner, .first = first, .last = k->ninsns};
}

/* The instruction with this phase's arguments and the new kernel's variables; its arguments are there. */
static int copy_insn(struct splitter *x, int i)
{
    struct kn_insn n = x->from->insns[i];
    ir_expr *index = IR_NEWN(x->ctx, n.nindex + 1, ir_expr);
    struct kn_guard *guards = IR_NEWN(x->ctx, n.nguards + 1, struct kn_guard);
    int dims = x->from->ndims;
    for (int j = 0; j < n.nargs; j++)
        if (n.arg[j] >= 0)
            n.arg[j] = x->number[n.arg[j]];
    for (int j = 0; j < n.nindex; j++)
        index[j] = ir_subst(x->ctx, n.index[j], dims, x->old, x->new);
    for (int j = 0; j < n.nguards; j++)
        guards[j] = (struct kn_guard){ir_subst(x->ctx, n.guards[j].e, dims, x->old, x->new),
                                      ir_subst(x->ctx, n.guards[j].lo, dims, x->old, x->new),
                                      ir_subst(x->ctx, n.guards[j].hi, dims, x->old, x->new)};
    n.index = index;
    n.guards = guards;
    if (n.code == KN_EXPR)
        n.expr = ir_subst(x->ctx, n.expr, dims, x->old, x->new);
    return x->number[i] = add_insn(x, n);
}

/* The same behind the cut, with what it needs of the uniform stages in front of it. */
static int copy_needed(struct splitter *x, int i)
{
    const struct kn_insn *n = &x->from->insns[i];
    if (x->number[i] >= 0)
        return x->number[i];
    for (int j = 0; j < n->nargs; j++)
        if (n->arg[j] >= 0)
            copy_needed(x, n->arg[j]);
    return copy_insn(x, i);
}

static void make_dims(struct splitter *x, int64_t pieces)
{
    const struct kn_kernel *from = x->from;
    struct kn_kernel *k = x->to;
    ir_expr n = ir_const(x->ctx, pieces);
    k->ndims = from->ndims + 1;
    k->dims = IR_NEWN(x->ctx, k->ndims, struct kn_dim);
    k->dims[0] = (struct kn_dim){ir_iter_at(x->ctx, 0, n), n, KN_PIECES};
    for (int d = 0; d < from->ndims; d++) {
        ir_expr extent = from->dims[d].extent;
        x->old[d] = from->dims[d].var;
        x->new[d] = ir_iter_at(x->ctx, d + 1, extent);
        k->dims[d + 1] = (struct kn_dim){x->new[d], extent, from->dims[d].role};
    }
}

/* An operand for what each piece comes to: [pieces, outer dims]. */
static int add_partial(struct splitter *x, enum tcc_dtype dtype)
{
    struct kn_kernel *k = x->to;
    struct kn_operand o = {.use = KN_PARTIAL, .dtype = dtype, .name = "partial"};
    for (int d = 0; d < k->ndims && k->dims[d].role != KN_INNER; d++)
        o.dims[o.rank++] = k->dims[d].extent;
    k->operands[k->noperands] = o;
    return k->noperands++;
}

/* What a reduction leaves: of positions the extreme too, by which those of pieces are compared. */
static void make_partial(struct splitter *x, int reduction)
{
    const struct kn_insn *n = &x->from->insns[reduction];
    bool arg = n->code == KN_ARGREDUCE;
    x->partial[reduction] = add_partial(x, (enum tcc_dtype)(arg ? x->from->insns[n->arg[0]].dtype : n->dtype));
    if (arg)
        x->position[reduction] = add_partial(x, TCC_I64);
}

static struct kn_insn partial_access(const struct splitter *x, int operand, enum kn_code code)
{
    const struct kn_kernel *k = x->to;
    const struct kn_operand *o = &k->operands[operand];
    ir_expr *index = IR_NEWN(x->ctx, o->rank, ir_expr);
    for (int d = 0; d < o->rank; d++)
        index[d] = k->dims[d].var;
    return (struct kn_insn){.code = (uint8_t)code,
                            .dtype = (uint8_t)o->dtype,
                            .nindex = (uint8_t)o->rank,
                            .operand = operand,
                            .index = index,
                            .arg = {-1, -1, -1}};
}

static void store_partial(struct splitter *x, int operand, int value)
{
    struct kn_insn store = partial_access(x, operand, KN_STORE);
    store.nargs = 1;
    store.arg[0] = value;
    add_insn(x, store);
}

/* The extreme whose position instruction i of `from` finds. */
static void copy_extreme(struct splitter *x, int i)
{
    struct kn_insn n = x->from->insns[i];
    n.code = KN_REDUCE;
    n.dtype = x->from->insns[n.arg[0]].dtype;
    n.nargs = 1;
    n.ivalue = 0;
    n.arg[0] = x->number[n.arg[0]];
    x->extreme[i] = add_insn(x, n);
}

static void first_phase(struct splitter *x)
{
    const struct kn_kernel *from = x->from;
    for (int s = 0; s < x->cut.first; s++) {
        int first = x->to->ninsns;
        for (int i = from->stages[s].first; i < from->stages[s].last; i++) {
            copy_insn(x, i);
            if (x->position[i] >= 0)
                copy_extreme(x, i);
        }
        end_stage(x, from->stages[s].inner << 1, first);
    }
    int first = x->to->ninsns;
    for (int i = 0; i < from->ninsns; i++) {
        if (x->partial[i] >= 0)
            store_partial(x, x->partial[i], x->position[i] < 0 ? x->number[i] : x->extreme[i]);
        if (x->position[i] >= 0)
            store_partial(x, x->position[i], x->number[i]);
    }
    end_stage(x, 0, first);
}

static void second_phase(struct splitter *x)
{
    const struct kn_kernel *from = x->from;
    int first = x->to->ninsns;
    for (int i = 0; i < from->ninsns; i++)
        x->number[i] = -1;
    x->to->split.combine = x->to->nstages;
    for (int i = 0; i < from->ninsns; i++) {
        if (x->partial[i] < 0)
            continue;
        struct kn_insn reduce = from->insns[i];
        reduce.arg[0] = add_insn(x, partial_access(x, x->partial[i], KN_LOAD));
        if (x->position[i] >= 0)
            reduce.arg[1] = add_insn(x, partial_access(x, x->position[i], KN_LOAD));
        x->number[i] = MUTANT(172, add_insn(x, reduce), reduce.arg[0]);
    }
    end_stage(x, 1, first);
    first = x->to->ninsns;
    for (int s = x->cut.first; s < from->nstages; s++)
        for (int i = from->stages[s].first; i < from->stages[s].last; i++)
            copy_needed(x, i);
    end_stage(x, 0, first);
}

struct kn_kernel *pass_split_kernel(struct ir_ctx *ctx, const struct kn_kernel *k, int dim, int64_t pieces)
{
    struct splitter x = {.ctx = ctx, .from = k, .to = IR_NEW(ctx, struct kn_kernel)};
    int reductions = 0;
    if (!lw_find_cut(k, INT_MAX, &x.cut) || dim < 0 || !(x.cut.inner >> dim & 1) ||
        __builtin_popcount(lw_outer_dims(k)) + 1 > TCC_MAX_RANK)
        return NULL;
    *x.to = (struct kn_kernel){.kind = IR_K_REDUCE, .name = k->name, .nsizes = k->nsizes, .sizes = k->sizes};
    make_dims(&x, pieces);
    for (int i = 0; i < k->ninsns; i++)
        reductions += is_reduction(&k->insns[i]);
    x.to->operands = IR_NEWN(ctx, k->noperands + 2 * reductions, struct kn_operand);
    for (int o = 0; o < k->noperands; o++)
        x.to->operands[x.to->noperands++] = k->operands[o];
    x.to->insns = IR_NEWN(ctx, 2 * k->ninsns + 6 * reductions, struct kn_insn);
    x.to->stages = IR_NEWN(ctx, k->nstages + 3, struct kn_stage);
    x.number = IR_NEWN(ctx, k->ninsns + 1, int);
    x.partial = IR_NEWN(ctx, k->ninsns + 1, int);
    x.position = IR_NEWN(ctx, k->ninsns + 1, int);
    x.extreme = IR_NEWN(ctx, k->ninsns + 1, int);
    for (int i = 0; i < k->ninsns; i++) {
        bool later = false;
        x.partial[i] = x.position[i] = -1;
        for (int j = k->stages[x.cut.first].first; j < k->ninsns && is_reduction(&k->insns[i]); j++)
            later = later || (stage_of(k, i) < x.cut.first && uses(&k->insns[j], i));
        if (later)
            make_partial(&x, i);
    }
    ir_expr step = ir_ceildiv(ctx, k->dims[dim].extent, ir_const(ctx, pieces));
    if (pass_extent(NULL, step) >= 8 * EVEN)
        step = ir_mulc(ctx, ir_ceildiv(ctx, step, ir_const(ctx, EVEN)), EVEN);
    x.to->split.dim = dim + 1;
    x.to->split.step = MUTANT(171, step, ir_sub(ctx, step, ir_const(ctx, 1)));
    first_phase(&x);
    second_phase(&x);
    return x.to;
}
