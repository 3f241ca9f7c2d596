/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.c - which version of a state variable a step reads. A state_read whose value lives in the variable's own buffer is read
 * by steps that may come behind a write, where fusion puts them there, or a write stands in a region or a later iteration: those would
 * see the new value. They are found as steps are made, and refused by the variable's name.
 *
 * Events are kept in the order of the plan. The branches of an if exclude each other: what one writes the other does not see, but
 * the next iteration of a loop around them does.
 */
#include "passes/lower/lower_int.h"

#include <string.h>

static bool inside(const struct ir_block *block, const struct ir_block *outer)
{
    while (block && block != outer)
        block = block->parent ? block->parent->block : NULL;
    return block == outer;
}

static void refuse(struct lw *lw, const struct ir_node *read)
{
    const char *name = ir_get_s(read, IR_ATTR_name, "");
    for (int i = 0; i < lw->stale.n; i++)
        if (lw->stale.at[i] == read)
            return;
    VEC_PUSH(lw->ctx, lw->stale, read);
    ir_error(lw->ctx, &read->where,
             "state variable '%s': its value from before a write is used behind the write, where it is gone; expected "
             "its last use in front of the write, or a copy made there",
             name);
}

void lw_note_read(struct lw *lw, const struct ir_value *v)
{
    const struct ir_node *read = v->def;
    int state = lw->buffers.at[lw->buffer[v->id]].index, since = 0;
    while (since < lw->accesses.n && lw->accesses.at[since].read != read)
        since++;
    for (int i = since; i < lw->accesses.n; i++) {
        const struct lw_access *a = &lw->accesses.at[i];
        bool seen = !a->read && a->state == state && !a->hidden;
        for (int k = 0; k < lw->loops.n && !a->read && a->state == state; k++)
            seen |= i >= lw->loops.at[k].first && !inside(read->block, lw->loops.at[k].body);
        if (seen) {
            refuse(lw, read);
            return;
        }
    }
    VEC_PUSH(lw->ctx, lw->accesses, (struct lw_access){.state = state, .read = read});
}

void lw_note_write(struct lw *lw, int state)
{
    /* Steps in front of it in a loop run again behind it. */
    for (int k = 0; k < lw->loops.n; k++)
        for (int i = lw->loops.at[k].first; i < lw->accesses.n; i++) {
            const struct lw_access *a = &lw->accesses.at[i];
            if (a->read && a->state == state && !inside(a->read->block, lw->loops.at[k].body))
                refuse(lw, a->read);
        }
    VEC_PUSH(lw->ctx, lw->accesses, (struct lw_access){.state = state});
}

void lw_hide_writes(struct lw *lw, int first, int end, bool hidden)
{
    for (int i = first; i < end; i++)
        lw->accesses.at[i].hidden = hidden;
}
