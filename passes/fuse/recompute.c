/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recompute.c - elementwise values that several kernels read, which each of them works out again: as what a backward
 * pass reads of a GELU or a norm, or the exponentials of a softmax. It pays where elements are many, what they are made
 * of is stored anyhow and no wider, and their arithmetic takes less time than a store and a load. A machine whose cores
 * are slow beside its memory stores them (struct pass_cost's `recomputes`).
 */
#include "passes/lower_int.h"

enum { LEAST_BYTES = 1 << 20, MOST_STEPS = 12 };

static int64_t elements(struct lw *lw, const struct ir_value *v)
{
    int64_t n;
    return ir_is_tensor(v->type) && ir_is_const(ir_num_elements(lw->ctx, v->type), &n) ? n : -1;
}

/* All groups that read the value, through views too; false: more than the machine takes, or one whose operands are
 * stored in a place of its own. */
static bool groups_of(struct lw *lw, const struct ir_value *v, struct lw_set *readers, int depth)
{
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        const struct ir_node *user = u->user;
        if (user->block != v->def->block || !lw_is_kernel_node(user) || depth > MOST_STEPS)
            return false;
        if (lw_is_view(user)) {
            if (lw->live_out[user->out[0]->id] || !groups_of(lw, user->out[0], readers, depth + 1))
                return false;
            continue;
        }
        if (!lw->in[user->id].n || lw->pieces[user->id].group)
            return false;
        for (int i = 0; i < lw->in[user->id].n; i++)
            lw_set_add(lw, readers, lw->in[user->id].at[i]);
    }
    return readers->n <= pass_cost(lw->machine)->recomputes;
}

static bool stored(const struct lw *lw, const struct ir_value *v)
{
    return lw->materialised[v->id] || lw->live_out[v->id] || (v->uses && v->uses->next);
}

/*
 * What v's elements are made of, through elementwise nodes and views: the one value of as many elements, *leaf, that is
 * stored anyhow; others are of fewer. False: there are several, or it is state, which may change between its readers.
 */
static bool find_leaf(struct lw *lw, const struct ir_node *n, int64_t points, const struct ir_value **leaf, int *steps)
{
    for (int i = 0; i < n->nin; i++) {
        const struct ir_value *v = n->in[i].value;
        if (!v || ir_const_of(v) || elements(lw, v) == 1)
            continue;
        const struct ir_node *def = v->def;
        int64_t count = elements(lw, v);
        bool full = count == points;
        if (count < 0 || !def || def->block != n->block || !lw_is_kernel_node(def))
            return false;
        if (!full) {
            if (count > points / 16)
                return false;
            continue;
        }
        bool through = !lw->materialised[v->id] && !lw_is_anchor(def) &&
                       (lw_is_view(def) || ir_op_info(def->op)->kind == IR_K_MAP);
        const struct ir_value *before = *leaf;
        if (through && ++*steps <= MOST_STEPS && find_leaf(lw, def, points, leaf, steps))
            continue;
        *leaf = before;
        if (!stored(lw, v) || (*leaf && *leaf != v))
            return false;
        *leaf = v;
    }
    return true;
}

bool lw_recomputes(struct lw *lw, const struct ir_node *n, struct lw_set *readers)
{
    const struct pass_cost *c = pass_cost(lw->machine);
    const struct ir_value *v = n->out[0], *leaf = NULL;
    int64_t points = elements(lw, v);
    int bytes = tcc_dtype_bytes((enum tcc_dtype)v->type->dtype), steps = 0;
    double work = ir_is_expensive(n->op) ? c->function : 1;
    if (!c->recomputes || ir_op_info(n->op)->kind != IR_K_MAP || points * bytes < LEAST_BYTES ||
        work / c->flops > 2 * bytes / c->bandwidth)
        return false;
    if (!groups_of(lw, v, readers, 0))
        return false;
    for (int i = 0; i < readers->n && work > 1;
         i++) /* behind a product few threads run, and nothing hides a function */
        if (readers->at[i]->anchor)
            return false;
    return readers->n > 1 && find_leaf(lw, n, points, &leaf, &steps) && leaf &&
           tcc_dtype_bytes((enum tcc_dtype)leaf->type->dtype) <= bytes;
}
