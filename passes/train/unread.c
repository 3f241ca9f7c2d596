/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody asks for any more once a model's last layers have been replaced, or its parameters made constants. */
#include "passes/train/adapt_int.h"

static bool wanted(const struct ir_node *n)
{
    int flags = ir_op_info(n->op)->flags;
    for (int i = 0; i < n->nout; i++)
        if (ir_has_uses(n->out[i]))
            return true;
    return n->nregions || flags & (IR_F_EFFECT | IR_F_TERMINATOR) || n->op == IR_check;
}

static void drop_nodes(struct ir_func *f)
{
    for (struct ir_node *n = f->body->last, *before; n; n = before) {
        before = n->prev;
        if (!wanted(n))
            ir_remove(n);
    }
}

static void mark(const struct ir_block *b, bool *read)
{
    IR_EACH_NODE(n, b) {
        const struct ir_state *s = ir_state_of(n);
        if (s)
            read[s->index] = true;
        for (int i = 0; i < n->nregions; i++)
            mark(n->regions[i], read);
    }
}

void train_drop_unread(struct ir_module *m)
{
    int n = 0;
    for (struct ir_state *s = m->states; s; s = s->next)
        n = s->index >= n ? s->index + 1 : n;
    bool *read = IR_NEWN(m->ctx, n + 1, bool);
    for (struct ir_func *f = m->funcs; f; f = f->next) {
        drop_nodes(f);
        mark(f->body, read);
    }
    struct ir_state *last = NULL;
    n = 0;
    for (struct ir_state **at = &m->states; *at;) {
        if (!(*at)->sym && (*at)->flags & (IR_STATE_PARAM | IR_STATE_BUFFER) && !read[(*at)->index]) {
            *at = (*at)->next;
        } else {
            last = *at;
            last->index = n++;
            at = &last->next;
        }
    }
    m->last_state = last;
}
