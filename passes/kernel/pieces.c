/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pieces.c - a kernel whose first stages reduce over inner dims as one of two phases: pieces of an inner dim are
 * reduced each for itself, and what they come to is stored; then it is combined, and the stages behind the reductions
 * run (ir/kernel.h). Whether that pays is the pass's matter (split.c).
 */
#include "passes/lower_int.h"
#include "base/mutant.h"

#include <limits.h>

/* Pieces of at least so many points are whole cache lines and vectors. */
#define EVEN 64

/* -- What can be cut ------------------------------------------------------------------------------------------- */

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

/* A stage in front of the cut: it stores nothing and sums nothing that another one there needs. */
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

double lw_points(const struct kn_kernel *k, uint32_t dims)
{
    double n = 1;
    for (int d = 0; d < k->ndims; d++)
        n *= dims >> d & 1 ? pass_extent(NULL, k->dims[d].extent) : 1;
    return n;
}

bool lw_find_cut(const struct kn_kernel *k, int least, struct lw_cut *c)
{
    *c = (struct lw_cut){.inner = ~0u};
    const struct kn_contraction *roles = &k->roles.contraction; /* templates run products, but small ones */
    bool product = kn_is_product(k) && lw_points(k, roles->m) >= least && lw_points(k, roles->n) >= least;
    bool sums = k->kind == IR_K_REDUCE || (k->kind == IR_K_CONTRACT && !k->partial); /* of a row and a column */
    if (!sums || product || k->split.combine || k->ndims == KN_MAX_DIMS || kn_has_operand(k, KN_BIT(KN_LOCAL)))
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

/* -- The split kernel ---------------------------------------------------------------------------------------------- */

struct splitter {
    struct lw_copy c; /* number: of the phase that is being made */
    struct lw_cut cut;
    int *partial;  /* of reductions: operand of `to`; -1: none */
    int *position; /* of extreme positions: operand of `to` for them, beside one for the extremes; -1: none */
    int *extreme;  /* of these: the instruction of `to` that gives the extreme */
};

static void make_dims(struct splitter *x, int64_t pieces)
{
    const struct kn_kernel *from = x->c.from;
    struct kn_kernel *k = x->c.to;
    ir_expr n = ir_const(x->c.ctx, pieces);
    k->ndims = from->ndims + 1;
    k->dims = IR_NEWN(x->c.ctx, k->ndims, struct kn_dim);
    k->dims[0] = (struct kn_dim){ir_iter_at(x->c.ctx, 0, n), n, KN_PIECES};
    for (int d = 0; d < from->ndims; d++) {
        ir_expr extent = from->dims[d].extent;
        x->c.old[d] = from->dims[d].var;
        x->c.new[d] = ir_iter_at(x->c.ctx, d + 1, extent);
        k->dims[d + 1] = (struct kn_dim){x->c.new[d], extent, from->dims[d].role};
    }
}

/* An operand for what each piece comes to: [pieces, outer dims]. */
static int add_partial(struct splitter *x, enum tcc_dtype dtype)
{
    struct kn_kernel *k = x->c.to;
    struct kn_operand o = {.use = KN_PARTIAL, .dtype = dtype, .name = "partial"};
    for (int d = 0; d < k->ndims && k->dims[d].role != KN_INNER; d++)
        o.dims[o.rank++] = k->dims[d].extent;
    k->operands[k->noperands] = o;
    return k->noperands++;
}

/* What a reduction leaves: of positions the extreme too, by which those of pieces are compared. */
static void make_partial(struct splitter *x, int reduction)
{
    const struct kn_insn *n = &x->c.from->insns[reduction];
    bool arg = n->code == KN_ARGREDUCE;
    x->partial[reduction] = add_partial(x, (enum tcc_dtype)(arg ? x->c.from->insns[n->arg[0]].dtype : n->dtype));
    if (arg)
        x->position[reduction] = add_partial(x, TCC_I64);
}

static struct kn_insn partial_access(const struct splitter *x, int operand, enum kn_code code)
{
    const struct kn_kernel *k = x->c.to;
    const struct kn_operand *o = &k->operands[operand];
    ir_expr *index = IR_NEWN(x->c.ctx, o->rank, ir_expr);
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
    lw_copy_add(&x->c, store);
}

/* The extreme whose position instruction i of `from` finds. */
static void copy_extreme(struct splitter *x, int i)
{
    struct kn_insn n = x->c.from->insns[i];
    n.code = KN_REDUCE;
    n.reducer = MUTANT(192, n.reducer, n.reducer ^ KN_MAX ^ KN_MIN);
    n.dtype = x->c.from->insns[n.arg[0]].dtype;
    n.nargs = 1;
    n.ivalue = 0;
    n.arg[0] = x->c.number[n.arg[0]];
    x->extreme[i] = lw_copy_add(&x->c, n);
}

static void first_phase(struct splitter *x)
{
    const struct kn_kernel *from = x->c.from;
    for (int s = 0; s < x->cut.first; s++) {
        int first = x->c.to->ninsns;
        for (int i = from->stages[s].first; i < from->stages[s].last; i++) {
            lw_copy_insn(&x->c, i);
            if (x->position[i] >= 0)
                copy_extreme(x, i);
        }
        lw_copy_stage(&x->c, from->stages[s].inner << 1, first);
    }
    int first = x->c.to->ninsns;
    for (int i = 0; i < from->ninsns; i++) {
        if (x->partial[i] >= 0)
            store_partial(x, x->partial[i], x->position[i] < 0 ? x->c.number[i] : x->extreme[i]);
        if (x->position[i] >= 0)
            store_partial(x, x->position[i], x->c.number[i]);
    }
    lw_copy_stage(&x->c, 0, first);
}

static void second_phase(struct splitter *x)
{
    const struct kn_kernel *from = x->c.from;
    int first = x->c.to->ninsns;
    lw_copy_forget(&x->c);
    x->c.to->split.combine = x->c.to->nstages;
    for (int i = 0; i < from->ninsns; i++) {
        if (x->partial[i] < 0)
            continue;
        struct kn_insn reduce = from->insns[i];
        reduce.arg[0] = lw_copy_add(&x->c, partial_access(x, x->partial[i], KN_LOAD));
        if (x->position[i] >= 0)
            reduce.arg[1] = lw_copy_add(&x->c, partial_access(x, x->position[i], KN_LOAD));
        x->c.number[i] = MUTANT(172, lw_copy_add(&x->c, reduce), reduce.arg[0]);
    }
    lw_copy_stage(&x->c, 1, first);
    first = x->c.to->ninsns;
    for (int s = x->cut.first; s < from->nstages; s++)
        for (int i = from->stages[s].first; i < from->stages[s].last; i++)
            lw_copy_needed(&x->c, i);
    lw_copy_stage(&x->c, 0, first);
}

struct kn_kernel *pass_split_kernel(struct ir_ctx *ctx, const struct kn_kernel *k, int dim, int64_t pieces)
{
    struct splitter x = {.c = {.ctx = ctx, .from = k, .to = IR_NEW(ctx, struct kn_kernel)}};
    int reductions = 0;
    if (!lw_find_cut(k, INT_MAX, &x.cut) || dim < 0 || !(x.cut.inner >> dim & 1) ||
        __builtin_popcount(lw_outer_dims(k)) + 1 > TCC_MAX_RANK)
        return NULL;
    *x.c.to = (struct kn_kernel){.kind = IR_K_REDUCE, .name = k->name, .nsizes = k->nsizes, .sizes = k->sizes};
    make_dims(&x, pieces);
    for (int i = 0; i < k->ninsns; i++)
        reductions += is_reduction(&k->insns[i]);
    x.c.to->operands = IR_NEWN(ctx, k->noperands + 2 * reductions, struct kn_operand);
    for (int o = 0; o < k->noperands; o++)
        x.c.to->operands[x.c.to->noperands++] = k->operands[o];
    x.c.to->insns = IR_NEWN(ctx, 2 * k->ninsns + 6 * reductions, struct kn_insn);
    x.c.to->stages = IR_NEWN(ctx, k->nstages + 3, struct kn_stage);
    x.c.number = IR_NEWN(ctx, k->ninsns + 1, int);
    x.partial = IR_NEWN(ctx, k->ninsns + 1, int);
    x.position = IR_NEWN(ctx, k->ninsns + 1, int);
    x.extreme = IR_NEWN(ctx, k->ninsns + 1, int);
    for (int i = 0; i < k->ninsns; i++) {
        bool later = false;
        x.partial[i] = x.position[i] = -1;
        for (int j = k->stages[x.cut.first].first; j < k->ninsns && is_reduction(&k->insns[i]); j++)
            later = later || (kn_stage_of(k, i) < x.cut.first && uses(&k->insns[j], i));
        if (later)
            make_partial(&x, i);
    }
    ir_expr step = ir_ceildiv(ctx, k->dims[dim].extent, ir_const(ctx, pieces));
    if (pass_extent(NULL, step) >= 8 * EVEN)
        step = ir_mulc(ctx, ir_ceildiv(ctx, step, ir_const(ctx, EVEN)), EVEN);
    x.c.to->split.dim = dim + 1;
    x.c.to->split.step = MUTANT(171, step, ir_sub(ctx, step, ir_const(ctx, 1)));
    first_phase(&x);
    second_phase(&x);
    return x.c.to;
}
