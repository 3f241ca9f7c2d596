/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.c - the pass `split`: reductions with few outer and many inner points are cut in pieces (ir/kernel.h), where
 * the machine's costs say that it pays: a sum to a scalar, a bias's gradient, a norm. Each launch gets a buffer for
 * what its pieces come to. So are scans, as two launches (prefix.c).
 *
 * How many pieces there are follows from the kernel's shape and from what kind of machine it is for, never from how
 * many threads or processors there are; so results don't depend on these. A sum of floats in pieces is rounded
 * elsewhere than one in order (bounded: doc/numerics.md); with --exact it stays whole, and integers and extremes are
 * cut all the same.
 */
#include "passes/lower_int.h"

/* Would a sum of floats be rounded elsewhere? */
static bool rounds(const struct kn_kernel *k)
{
    for (int i = 0; i < k->ninsns; i++)
        if ((k->insns[i].code == KN_REDUCE || k->insns[i].code == KN_SCAN) &&
            tcc_is_float((enum tcc_dtype)k->insns[i].dtype) && k->insns[i].reducer <= KN_PROD)
            return true;
    return false;
}

/* -- What pays --------------------------------------------------------------------------------------------------- */

/* Seconds that the stages in front of the cut take. */
static double seconds(const struct pass_cost *cost, const struct kn_kernel *k, const struct lw_cut *c)
{
    double operations = 0, bytes = 0, outer = lw_points(k, lw_outer_dims(k));
    for (int s = 0; s < c->first; s++) {
        double n = outer * lw_points(k, k->stages[s].inner);
        for (int i = k->stages[s].first; i < k->stages[s].last; i++) {
            const struct kn_insn *insn = &k->insns[i];
            if (insn->code == KN_LOAD)
                bytes += n * tcc_dtype_bytes((enum tcc_dtype)insn->dtype);
            else if (insn->code == KN_SCALAR)
                operations += n * (ir_is_expensive((enum ir_op)insn->op) ? cost->function : 1);
        }
    }
    return pass_seconds(cost, operations, bytes, false) - cost->launch;
}

/* Are neighbours in memory other outer points, as when rows are summed over columns that lie side by side? */
static bool runs_across(const struct kn_kernel *k, const struct lw_cut *c)
{
    for (int i = 0; i < k->stages[c->first - 1].last; i++) {
        const struct kn_insn *n = &k->insns[i];
        for (int d = 0; d < k->ndims && n->code == KN_LOAD && n->nindex; d++)
            if (k->dims[d].role == KN_OUTER && ir_uses_sym(n->index[n->nindex - 1], k->dims[d].var))
                return true;
    }
    return false;
}

/* The dim to cut in that many pieces: the first, so that pieces lie side by side, of those that are long enough; else
 * the longest. */
static int dim_to_cut(const struct kn_kernel *k, uint32_t inner, double pieces)
{
    int longest = -1;
    for (int d = 0; d < k->ndims; d++) {
        if (!(inner >> d & 1))
            continue;
        if (pass_extent(NULL, k->dims[d].extent) >= pieces)
            return d;
        if (longest < 0 || pass_extent(NULL, k->dims[d].extent) > pass_extent(NULL, k->dims[longest].extent))
            longest = d;
    }
    return longest;
}

static int64_t pieces_of(const struct pass_cost *cost, const struct kn_kernel *k, const struct lw_cut *c, int *dim)
{
    double work = seconds(cost, k, c), tasks = lw_points(k, lw_outer_dims(k));
    int64_t n = 1;
    if (runs_across(k, c))
        tasks = tasks > cost->lanes ? tasks / cost->lanes : 1;
    while (tasks * (double)n < cost->pieces && n < KN_MAX_PIECES &&
           work >= (double)(2 * n) * cost->piece * cost->launch)
        n *= 2;
    *dim = dim_to_cut(k, c->inner, (double)n);
    while (n > 1 && pass_extent(NULL, k->dims[*dim].extent) < (double)n)
        n /= 2;
    return n;
}

/* -- The pass ------------------------------------------------------------------------------------------------------ */

static bool known_at_entry(const struct lw *lw, ir_expr e)
{
    const struct kn_program *p = lw->prog;
    for (int i = 0; i < p->nsyms; i++)
        if (p->sym_level[i] && ir_uses_sym(e, p->syms[i]))
            return false;
    return true;
}

/* A buffer for an operand of the step's kernel. */
static int new_buffer(struct lw *lw, const struct kn_step *s, const struct kn_kernel *k, int operand)
{
    const struct kn_operand *p = &k->operands[operand];
    struct kn_buffer b = {.space = TCC_SPACE_ARENA, .dtype = p->dtype, .name = p->name};
    ir_expr dims[TCC_MAX_RANK];
    b.bytes = ir_const(lw->ctx, tcc_dtype_bytes(p->dtype));
    for (int d = 0; d < p->rank; d++) {
        dims[d] = ir_subst(lw->ctx, p->dims[d], s->nsizes, k->sizes, s->sizes);
        b.bytes = ir_mul(lw->ctx, b.bytes, dims[d]);
    }
    b.type = ir_tensor_type(lw->ctx, p->dtype, p->rank, dims);
    if (!known_at_entry(lw, b.bytes))
        b.space = TCC_SPACE_DYNAMIC;
    return lw_buffer_new(lw, b);
}

/* Buffers of the launch for the kernel's partial results, behind its arguments. */
static void add_buffers(struct lw *lw, struct kn_step *s, const struct kn_kernel *k)
{
    int *args = IR_NEWN(lw->ctx, s->nargs + k->noperands, int), n = s->nargs;
    for (int a = 0; a < s->nargs; a++)
        args[a] = s->args[a];
    for (int o = 0; o < k->noperands; o++)
        if (k->operands[o].use == KN_PARTIAL)
            args[n++] = new_buffer(lw, s, k, o);
    s->args = args;
    s->nargs = n;
}

static void cut_reduction(struct lw *lw, struct kn_step *s)
{
    const struct pass_cost *cost = pass_cost(lw->machine);
    struct lw_cut cut;
    int dim;
    if (!lw_find_cut(s->kernel, cost->products, &cut) || (lw->opts->exact && rounds(s->kernel)))
        return;
    int64_t pieces = pieces_of(cost, s->kernel, &cut, &dim);
    struct kn_kernel *k = pieces > 1 ? pass_split_kernel(lw->ctx, s->kernel, dim, pieces) : NULL;
    if (!k || !lw_may_change(lw))
        return;
    add_buffers(lw, s, k);
    s->kernel = k;
    lw_add_kernel(lw, k);
}

/* The step becomes two: *first, to stand in front of it. */
static bool cut_scan(struct lw *lw, struct kn_step *s, struct kn_step *first)
{
    const struct pass_cost *cost = pass_cost(lw->machine);
    const struct kn_kernel *k = s->kernel;
    struct lw_cut all = {.first = 1};
    struct pass_scan two;
    int dim;
    if (!cost->scans || s->nversions || lw_find_scan(k) < 0 || (lw->opts->exact && rounds(k)))
        return false;
    all.inner = k->stages[0].inner;
    int64_t pieces = pieces_of(cost, k, &all, &dim);
    if (pieces < 2 || !pass_split_scan(lw->ctx, k, pieces, &two) || !lw_may_change(lw))
        return false;
    int last = two.sums->noperands - 1, sums = new_buffer(lw, s, two.sums, last),
        *args = IR_NEWN(lw->ctx, s->nargs + 1, int);
    *first = *s;
    first->kernel = two.sums;
    first->nargs = last + 1;
    first->args = IR_NEWN(lw->ctx, last + 1, int);
    for (int o = 0; o <= last; o++)
        first->args[o] = o < last ? s->args[two.operands[o]] : sums;
    for (int a = 0; a < s->nargs; a++)
        args[a] = s->args[a];
    args[s->nargs++] = sums;
    s->args = args;
    s->kernel = two.scan;
    lw_add_kernel(lw, two.sums);
    lw_add_kernel(lw, two.scan);
    return true;
}

static void split_steps(struct lw *lw, struct kn_steps *steps)
{
    struct kn_steps all = {0};
    for (int i = 0; i < steps->n; i++) {
        struct kn_step s = steps->at[i], first;
        for (int r = 0; r < s.nregions; r++)
            split_steps(lw, &s.regions[r].steps);
        if (s.kind == TCC_STEP_LAUNCH && cut_scan(lw, &s, &first))
            lw_push_step(lw->ctx, &all, first);
        else if (s.kind == TCC_STEP_LAUNCH)
            cut_reduction(lw, &s);
        lw_push_step(lw->ctx, &all, s);
    }
    *steps = all;
}

void lw_split(struct lw *lw, struct kn_entry *e)
{
    split_steps(lw, &e->steps);
}
