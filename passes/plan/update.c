/* SPDX-License-Identifier: Apache-2.0 */
/*
 * update.c - concat(slice(v, 0..p), new, slice(v, p + n..)) is v with a part overwritten: an append to a cache, where v
 * is the value of a state variable; so is a scatter of elements into v, where that is a cache. The result's buffer gets
 * a copy of v as soon as that is read, and the kernel of `new`, or of the updates, stores its elements there. elide.c
 * takes the copy out where the buffer can be the variable itself.
 */
#include "passes/lower_int.h"

/* Is v what a state variable held, of n's type, read in n's block? */
static bool is_read(const struct ir_value *v, const struct ir_node *n)
{
    return v && v->def && v->def->op == IR_state_read && v->def->block == n->block && v->type == n->out[0]->type;
}

/* The value of which operand i of the concat is a part that stays where it is; NULL: none. */
static struct ir_value *stays(struct lw *lw, const struct ir_node *n, int i)
{
    ir_expr start = lw_whole_slice(n, i, (int)ir_get_i(n, IR_ATTR_axis, 0));
    struct ir_value *v = start ? n->in[i].value->def->in[0].value : NULL;
    return is_read(v, n) && start == lw_piece_position(lw, n, i) ? v : NULL;
}

static struct ir_value *updated_by(struct lw *lw, const struct ir_node *n)
{
    struct ir_value *v = NULL;
    int others = 0;
    if (n->op == IR_scatter_elements || n->op == IR_scatter_nd) {
        v = lw->fuse && is_read(n->in[0].value, n) && !lw->layout[n->out[0]->id] ? n->in[0].value : NULL;
        /* It may fail half-way: of another variable it would be a copy of its own all the same. */
        return v && (ir_state_of(v->def)->flags & IR_STATE_CACHE) ? v : NULL;
    }
    if (!lw->fuse || n->op != IR_concat || n->nin < 2 || n->nin > 3 || !lw_is_kernel_node(n) || lw_is_view(n) ||
        lw->layout[n->out[0]->id])
        return NULL;
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *of = stays(lw, n, i);
        others += !of || (v && of != v);
        v = of && !v ? of : v;
    }
    return others == 1 ? v : NULL;
}

void lw_find_updates(struct lw *lw, struct ir_block *block)
{
    IR_EACH_NODE(n, block) {
        struct ir_value *v = updated_by(lw, n);
        if (!v)
            continue;
        lw->pieces[n->id].updated = v;
        for (int i = 0; i < n->nin && n->op == IR_concat; i++)
            lw->pieces[n->id].stays |= (stays(lw, n, i) == v ? 1u : 0u) << i;
        if (n->op != IR_concat)
            lw->pieces[n->id].stays = 1;
    }
}

struct ir_value *lw_updated(const struct lw *lw, const struct ir_node *n)
{
    return lw->pieces[n->id].updated;
}

bool lw_is_unchanged(const struct lw *lw, const struct ir_node *n, int piece)
{
    return piece < 32 && lw->pieces[n->id].stays >> piece & 1;
}

void lw_copy_updated(struct lw *lw, struct ir_value *v, const struct ir_node *read, struct kn_steps *to)
{
    for (struct ir_use *u = v->uses; u; u = u->next) {
        if (u->index == 0 && u->user->op != IR_concat && lw_updated(lw, u->user) == v)
            lw_step(lw, to, TCC_STEP_COPY, read, 2, (int[]){lw_buffer(lw, v), lw_buffer(lw, u->user->out[0])});
        for (struct ir_use *c = u->user->op == IR_slice ? u->user->out[0]->uses : NULL; c; c = c->next) {
            struct ir_value *out = c->user->nout ? c->user->out[0] : NULL;
            /* Once, at the first operand that stays. */
            int first = 0;
            while (out && first < c->user->nin && !lw_is_unchanged(lw, c->user, first))
                first++;
            if (!out || c->index != first || lw_updated(lw, c->user) != v)
                continue;
            int args[2] = {lw_buffer(lw, v), lw_buffer(lw, out)};
            lw_step(lw, to, TCC_STEP_COPY, read, 2, args);
        }
    }
}
