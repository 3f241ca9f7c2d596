/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.c - runs a kernel by its plain meaning (kernel.h), one point after the other: the oracle for targets.
 *
 * Floats are held as f64 and rounded to their type after each instruction (f32 at least: f16 and smaller are only where
 * an instruction says so); sums of floats run in f64 and are rounded once, those of pieces in their order too. Every
 * access is checked against the operand's dims: TCC_EBUG says that the kernel reaches outside.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/ir_int.h"
#include "ir/interp/kernel_int.h"

static int count_nodes(const struct kn_insn *n)
{
    int count = 0;
    for (int i = 0; i < n->nindex; i++)
        count += ir_count_formula(n->index[i]);
    for (int g = 0; g < n->nguards; g++)
        count +=
            ir_count_formula(n->guards[g].e) + ir_count_formula(n->guards[g].lo) + ir_count_formula(n->guards[g].hi);
    return count + (n->expr ? ir_count_formula(n->expr) : 0) + (n->bound ? ir_count_formula(n->bound) : 0);
}

/* The instruction's expressions, side by side from `next` on, and behind them what is in them. */
static struct ir_formula *fill_nodes(struct ki_run *r, int i, struct ir_formula *next)
{
    const struct kn_insn *n = &r->k->insns[i];
    struct ir_formula *node = next;
    next += n->nindex + 3 * n->nguards + (n->expr != NULL) + (n->bound != NULL);
    r->exprs[i].index = node;
    for (int k = 0; k < n->nindex; k++)
        next = ir_fill_formula(node++, next, n->index[k], ki_where, r);
    r->exprs[i].guards = node;
    for (int g = 0; g < n->nguards; g++) {
        next = ir_fill_formula(node++, next, n->guards[g].e, ki_where, r);
        next = ir_fill_formula(node++, next, n->guards[g].lo, ki_where, r);
        next = ir_fill_formula(node++, next, n->guards[g].hi, ki_where, r);
    }
    if (n->expr) {
        r->exprs[i].expr = node;
        next = ir_fill_formula(node++, next, n->expr, ki_where, r);
    }
    if (n->bound) {
        r->exprs[i].bound = node;
        next = ir_fill_formula(node, next, n->bound, ki_where, r);
    }
    return next;
}

static bool resolve(struct ki_run *r)
{
    size_t count = 1;
    for (int i = 0; i < r->k->ninsns; i++)
        count += (size_t)count_nodes(&r->k->insns[i]);
    r->nodes = malloc(count * sizeof *r->nodes);
    struct ir_formula *next = r->nodes;
    for (int i = 0; next && i < r->k->ninsns; i++)
        next = fill_nodes(r, i, next);
    return next;
}

/* == Loops == */

/* Next point of the dims in the set, the last dim fastest; false after the last one. */
static bool advance(struct ki_run *r, uint32_t set)
{
    for (int d = r->k->ndims - 1; d >= 0; d--) {
        if (!(set >> d & 1))
            continue;
        if (++r->var[d] < r->extent[d])
            return true;
        r->var[d] = r->first[d];
    }
    return false;
}

static bool empty(const struct ki_run *r, uint32_t set)
{
    for (int d = 0; d < r->k->ndims; d++) {
        if ((set >> d & 1) && r->extent[d] <= r->first[d])
            return true;
    }
    return false;
}

static void run_stage(struct ki_run *r, const struct kn_stage *s)
{
    for (int i = s->first; i < s->last; i++) {
        if (r->k->insns[i].code >= KN_REDUCE)
            ki_start_accumulator(r, i);
    }
    for (int d = 0; d < r->k->ndims; d++) {
        if (s->inner >> d & 1)
            r->var[d] = r->first[d];
    }
    if (!empty(r, s->inner)) {
        do {
            for (int i = s->first; i < s->last && r->status != TCC_EBUG; i++)
                ki_run_insn(r, i);
        } while (r->status != TCC_EBUG && advance(r, s->inner));
    }
    for (int i = s->first; i < s->last; i++) {
        if (r->k->insns[i].code == KN_REDUCE || r->k->insns[i].code == KN_ARGREDUCE)
            ki_accumulated(r, i);
    }
}

/* A stage, or the neighbours that share a loop over their REPEAT dims; returns the stage after them. */
static int run_stages(struct ki_run *r, int first)
{
    uint32_t repeat = r->k->stages[first].repeat;
    int last = first + 1;
    while (repeat && last < r->k->nstages && r->k->stages[last].repeat == repeat)
        last++;
    for (int d = 0; d < r->k->ndims; d++) {
        if (repeat >> d & 1)
            r->var[d] = r->first[d];
    }
    if (repeat && empty(r, repeat))
        return last;
    do {
        for (int s = first; s < last && r->status != TCC_EBUG; s++)
            run_stage(r, &r->k->stages[s]);
    } while (repeat && r->status != TCC_EBUG && advance(r, repeat));
    return last;
}

/* The first element that the point stores outside of the kernel; -1: none. */
static int64_t stored_element(struct ki_run *r, int *arg)
{
    const struct kn_kernel *k = r->k;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code != KN_STORE || k->operands[n->operand].use == KN_LOCAL)
            continue;
        *arg = 0;
        for (int o = 0; o < n->operand; o++)
            *arg += k->operands[o].use != KN_LOCAL;
        const char *p = ki_guards_hold(r, n) ? ki_address(r, n) : NULL;
        return p ? (p - r->data[n->operand]) / tcc_dtype_bytes(k->operands[n->operand].dtype) : -1;
    }
    return -1;
}

/* Is the point, inner dims at their first, one that is asked for? Of a split kernel it is the same in all pieces. */
static bool is_wanted(struct ki_run *r, uint32_t outer)
{
    int64_t number = 0;
    int arg = 0;
    if (!r->sample)
        return true;
    for (int d = r->k->split.combine ? 1 : 0; d < r->k->ndims; d++) {
        if (outer >> d & 1)
            number = number * r->extent[d] + r->var[d];
        else
            r->var[d] = r->first[d];
    }
    int64_t element = stored_element(r, &arg);
    return r->sample->wanted(r->sample->user, number, arg, element);
}

/* Stages [first, last) for each point of the dims in the set. */
static void run_phase(struct ki_run *r, uint32_t outer, int first, int last)
{
    if (empty(r, outer))
        return;
    for (int d = 0; d < r->k->ndims; d++)
        r->var[d] = r->first[d];
    do {
        if (!is_wanted(r, outer))
            continue;
        for (int s = first; s < last && r->status != TCC_EBUG;)
            s = run_stages(r, s);
    } while (r->status != TCC_EBUG && advance(r, outer));
}

static void run_kernel(struct ki_run *r)
{
    const struct kn_kernel *k = r->k;
    const struct kn_split *split = &k->split;
    uint32_t outer = 0;
    for (int d = 0; d < k->ndims; d++) {
        r->extent[d] = ki_eval(r, k->dims[d].extent);
        outer |= k->dims[d].role == KN_OUTER ? 1u << d : 0;
    }
    if (r->status != TCC_OK)
        return;
    if (!split->combine) {
        run_phase(r, outer, 0, k->nstages);
        return;
    }
    int64_t all = r->extent[split->dim], pieces = r->extent[0], step = ki_eval(r, split->step);
    if (step < 1 || step > TCC_MAX_ELEMENTS || (all + step - 1) / step > pieces)
        r->status = TCC_EBUG;
    for (int64_t p = 0; p < pieces && r->status != TCC_EBUG; p++) {
        r->first[0] = p;
        r->extent[0] = p + 1;
        r->first[split->dim] = p * step < all ? p * step : all;
        r->extent[split->dim] = (p + 1) * step < all ? (p + 1) * step : all;
        run_phase(r, outer | 1, 0, split->combine);
    }
    r->first[0] = r->first[split->dim] = 0;
    r->extent[0] = pieces;
    r->extent[split->dim] = all;
    run_phase(r, outer, split->combine, k->nstages);
}

/* Operands' dims, and memory for the temporary ones, filled with a pattern that no test expects. */
static bool bind_operands(struct ki_run *r, void *const *args)
{
    for (int o = 0, a = 0; o < r->k->noperands; o++) {
        const struct kn_operand *op = &r->k->operands[o];
        int64_t n = tcc_dtype_bytes(op->dtype);
        for (int i = 0; i < op->rank; i++) {
            r->dims[o][i] = ki_eval(r, op->dims[i]);
            if (__builtin_mul_overflow(n, r->dims[o][i], &n) || n < 0)
                r->status = TCC_EBUG;
        }
        if (op->use != KN_LOCAL) {
            r->data[o] = args[a++];
            continue;
        }
        if (r->status != TCC_OK)
            return true;
        r->data[o] = malloc(n ? (size_t)n : 1);
        if (!r->data[o])
            return false;
        memset(r->data[o], 0xa5, (size_t)n);
    }
    return true;
}

int kn_interp_sample(const struct kn_kernel *k, void *const *args, const int64_t *sizes, const struct tcc_env *env,
                     const struct kn_sample *s)
{
    struct ki_run r = {.k = k, .sizes = sizes, .env = env, .sample = s, .status = TCC_OK};
    r.values = calloc((size_t)k->ninsns + 1, sizeof *r.values);
    r.bad = calloc((size_t)k->ninsns + 1, sizeof *r.bad);
    r.acc = calloc((size_t)k->ninsns + 1, sizeof *r.acc);
    r.data = calloc((size_t)k->noperands + 1, sizeof *r.data);
    r.dims = calloc((size_t)k->noperands + 1, sizeof *r.dims);
    r.exprs = calloc((size_t)k->ninsns + 1, sizeof *r.exprs);
    bool memory = r.values && r.bad && r.acc && r.data && r.dims && r.exprs && resolve(&r) && bind_operands(&r, args);
    if (memory && r.status == TCC_OK)
        run_kernel(&r);
    for (int o = 0; r.data && o < k->noperands; o++) {
        if (k->operands[o].use == KN_LOCAL)
            free(r.data[o]);
    }
    free(r.values);
    free(r.bad);
    free(r.acc);
    free(r.data);
    free(r.dims);
    free(r.exprs);
    free(r.nodes);
    return memory ? r.status : TCC_EENV;
}

int kn_interp_kernel(const struct kn_kernel *k, void *const *args, const int64_t *sizes, const struct tcc_env *env)
{
    return kn_interp_sample(k, args, sizes, env, NULL);
}
