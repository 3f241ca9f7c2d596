/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sketch.c - may a node be evaluated inside a group's kernel? The predicate of fusion.
 *
 * A group's sketch is what its kernel reads: each value that is not evaluated in it, with the indexes, guards and
 * stages of its loads. A node joins by replacing the loads of its value by what inline.c makes of it there, which gives
 * loads of its operands; nothing else is looked at again, so that the whole costs time and memory in proportion to the
 * nodes. What inline.c refuses is illegal, and what the machine's hook refuses does not pay: both leave the sketch as
 * it was. The kernel itself is built when all groups are known (group.c).
 *
 * All dims of the group's value are outer ones here. The kernel may make some of them inner ones (lw_build_inline),
 * which needs no more dims and allows all that is allowed here.
 */
#include "passes/lower_int.h"

/* The state of a sketch before a node is tried. */
struct mark {
    int dims, operands, insns, stages, order, memo, guard_sets, locals, reads, replaced, functions;
    bool have_reduce;
    uint32_t reduce_outer;
};

static struct mark mark_of(const struct kb *k)
{
    return (struct mark){k->dims.n,    k->operands.n,   k->insns.n,     k->stages.n, k->order.n,
                         k->memo.n,    k->guard_sets.n, k->locals.n,    k->reads.n,  k->replaced,
                         k->functions, k->have_reduce,  k->reduce_outer};
}

static void back_to(struct kb *k, const struct mark *m, const struct ir_value *v)
{
    for (int i = 0; i < m->reads; i++)
        if (k->reads.at[i].value == v)
            k->memo.at[k->reads.at[i].memo].value = v;
    k->dims.n = m->dims;
    k->operands.n = k->values.n = m->operands;
    k->insns.n = m->insns;
    k->stages.n = m->stages;
    k->order.n = m->order;
    k->memo.n = m->memo;
    k->guard_sets.n = m->guard_sets;
    k->locals.n = m->locals;
    k->reads.n = m->reads;
    k->replaced = m->replaced;
    k->functions = m->functions;
    k->have_reduce = m->have_reduce;
    k->reduce_outer = m->reduce_outer;
    k->failed = NULL;
    for (int s = 0; s < k->stages.n; s++)
        while (k->stages.at[s].ids.n && k->stages.at[s].ids.at[k->stages.at[s].ids.n - 1] >= m->insns)
            k->stages.at[s].ids.n--;
}

static void count_functions(struct kb *k, int from)
{
    for (int i = from; i < k->insns.n; i++)
        k->functions += k->insns.at[i].insn.code == KN_SCALAR && ir_is_expensive(k->insns.at[i].insn.op);
}

static struct kb *sketch_of(struct lw *lw, struct lw_group *g)
{
    if (!g->sketch) {
        g->sketch = IR_NEW(lw->ctx, struct kb);
        kb_init(g->sketch, lw, g);
        g->sketch->sketching = true;
        if (g->anchor)
            lw_build_anchor(g->sketch, g);
        else
            lw_sketch_inline(g->sketch, g);
        count_functions(g->sketch, 0);
    }
    return g->sketch;
}

/* Points for which a kernel with reductions computes each of them; sizes that are not known are guessed. */
static double outer_points(const struct kb *k)
{
    struct pass_sizes guess = {0};
    double points = 1;
    for (int d = 0; d < k->dims.n; d++)
        if (k->dims.at[d].role == KN_OUTER && (!k->have_reduce || (k->reduce_outer >> d & 1)))
            points *= pass_extent(&guess, k->dims.at[d].extent);
    return points;
}

#define MANY_DIMS 8

/*
 * Reductions take existing dims where their extents follow each other in the same order, and are over the same rows,
 * which depends on the order in which they are met: a kernel may need more dims than its sketch, or other rows. So it
 * is built to see whether it can be, once for each reduction, of which it has few, and where it has many dims.
 */
static bool can_build(struct lw *lw, const struct ir_node *n, struct lw_group *g, const struct mark *before)
{
    int dims = g->sketch->dims.n;
    if (!lw_is_reduce(n) && (dims <= MANY_DIMS || dims == before->dims))
        return true;
    bool room = lw_build(lw, g);
    g->kernel = NULL;
    return room;
}

/*
 * Do instructions from `from` on read a window's operand at indexes that are not linear in the kernel's dims, as behind
 * a padding by reflection? No fast template takes such a window; stored first, what it reads is copied once and not for
 * every tap.
 */
static bool unruly_window(const struct lw *lw, const struct lw_group *g, const struct kb *k, int from)
{
    if (!g->anchor || g->anchor->op != IR_conv)
        return false;
    for (int i = from; i < k->insns.n; i++) {
        const struct kn_insn *load = &k->insns.at[i].insn;
        if (load->code != KN_LOAD || lw->layout[k->values.at[load->operand]->id])
            continue;
        for (int p = 0; p < load->nindex; p++)
            for (int d = 0; d < k->dims.n; d++) {
                ir_expr c, rest, var = k->dims.at[d].var;
                if (ir_uses_sym(load->index[p], var) && !ir_linear_in(lw->ctx, load->index[p], var, &c, &rest))
                    return true;
            }
    }
    return false;
}

bool lw_join(struct lw *lw, struct ir_node *n, struct lw_group *g)
{
    struct ir_value *v = n->out[0];
    struct kb *k = g->updates ? NULL : sketch_of(lw, g);
    if (!k || k->failed)
        return false;
    struct mark before = mark_of(k);
    lw_set_add(lw, &lw->in[n->id], g);
    for (int i = 0; i < before.reads && !k->failed; i++) {
        struct kb_memo *memo = &k->memo.at[k->reads.at[i].memo];
        if (memo->value != v)
            continue;
        int stage = memo->stage;
        memo->value = NULL;
        k->replaced++;
        k->guards = memo->guards;
        k->operand_only = k->reads.at[i].operand;
        k->stages.at[stage].done = false;
        int first = k->insns.n;
        kb_value(k, stage, v, memo->idx);
        k->stages.at[stage].done = true;
        if (k->operand_only && !k->failed && unruly_window(lw, g, k, first))
            k->failed = "a window over elements in no simple order";
        k->operand_only = false;
        k->guards = 0;
    }
    count_functions(k, before.insns);
    struct pass_fusion f = {.node = n,
                            .result = g->results[0].value,
                            .anchor = g->anchor,
                            .instructions = k->insns.n - 1 - k->replaced,
                            .functions = k->functions,
                            .points = outer_points(k)};
    if (!k->failed && lw_worth(lw, &f) && can_build(lw, n, g, &before) && lw_may_change(lw)) {
        g->joined++;
        return true;
    }
    back_to(k, &before, v);
    lw->in[n->id].n = 0;
    return false;
}

bool lw_join_all(struct lw *lw, struct ir_node *n, const struct lw_set *groups)
{
    struct mark *before = IR_NEWN(lw->ctx, groups->n, struct mark);
    struct ir_value *v = n->out[0];
    bool joined = true;
    int tried = 0;
    for (; tried < groups->n && joined; tried++) {
        struct lw_group *g = groups->at[tried];
        struct kb *k = g->updates ? NULL : sketch_of(lw, g);
        joined = k != NULL;
        for (int i = 0; joined && i < k->reads.n; i++) /* of what a product multiplies there is one that is ready */
            joined = !k->reads.at[i].operand || k->memo.at[k->reads.at[i].memo].value != v;
        before[tried] = k ? mark_of(k) : (struct mark){0};
        joined = joined && lw_join(lw, n, g);
    }
    if (joined)
        return true;
    for (int i = tried - 2; i >= 0; i--) { /* the last one is as it was */
        back_to(groups->at[i]->sketch, &before[i], v);
        groups->at[i]->joined--;
    }
    lw->in[n->id].n = 0;
    return false;
}

static bool lacks(const struct lw *lw, const struct ir_value *v)
{
    return v && ir_is_tensor(v->type) && lw->machine->lacks(lw->machine, v->type->dtype);
}

/* Has it to do with elements of a type that the machine lacks? */
static bool is_hosts(const struct lw *lw, const struct ir_node *n)
{
    bool hosts = false;
    for (int i = 0; n && i < n->nin; i++)
        hosts |= lacks(lw, n->in[i].value);
    for (int i = 0; n && i < n->nout; i++)
        hosts |= lacks(lw, n->out[i]);
    return hosts;
}

bool lw_worth(const struct lw *lw, const struct pass_fusion *f)
{
    if (lw->machine->lacks && f->node && is_hosts(lw, f->node) != is_hosts(lw, f->result->def))
        return false; /* what the host has to compute takes nothing with it that the machine can */
    return (lw->machine->fuse ? lw->machine->fuse : pass_fuse)(lw->machine, lw->ctx, f);
}
