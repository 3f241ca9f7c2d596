/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.c - state variables that a function writes and then reads: what was written is a value like others, and
 * gradients flow through it.
 *
 * In front of the sweep, whoever reads a version that the function has made takes the value that was written instead.
 * Ifs and loops that hand on a version hand on its content, too, where somebody reads it: as one more result, or as one
 * more carried value. After that only versions that a call begins with are read, which are sources. So regions that are
 * copied into gradients need no writes of their own.
 */

#include "passes/grad/control_int.h"

struct forward {
    struct ir_ctx *ctx;
    struct ir_func *f;
    struct ir_value **content; /* by id of a version; NULL: not asked for yet */
    uint32_t n;
    int nx;
    struct ir_value *const *xs;
};

static bool is_first(const struct ir_value *version)
{
    return version->def && version->def->op == IR_state_version;
}

static struct ir_value *content_of(struct forward *w, struct ir_value *version);

/* What a version holds, for a reader in front of `before`; a version that the call begins with is read there. */
static struct ir_value *content_at(struct forward *w, struct ir_value *version, struct ir_node *before)
{
    if (!is_first(version))
        return content_of(w, version);
    struct ir_builder b = {
        .ctx = w->ctx, .func = w->f, .block = before->block, .before = before, .where = before->where};
    return ir_build1(&b, IR_state_read, 1, &version, NULL);
}

static void hand_on_if(struct forward *w, struct ir_node *n, int k)
{
    struct ir_value *version = n->out[k];
    for (int r = 0; r < n->nregions; r++) {
        struct ir_node *yield = n->regions[r]->last;
        ir_add_operand(yield, content_at(w, yield->in[k].value, yield));
    }
    w->content[version->id] = ir_insert_output(n, n->nout, version->type->state->type);
}

/* Carried value k of the loop is a version. Its content is carried behind all others. */
static void hand_on_loop(struct forward *w, struct ir_node *n, int k)
{
    struct ir_block *body = n->regions[0];
    int ncarried = n->nin - 2;
    struct ir_value *version = n->out[k], *inner = body->params[2 + k];
    ir_type t = version->type->state->type;
    ir_add_operand(n, content_at(w, n->in[2 + k].value, n));
    w->content[inner->id] = ir_param_new(body, t, NULL);
    w->content[version->id] = ir_insert_output(n, ncarried, t);
    /* Until the value is known, the one that came in: other contents may be asked for meanwhile, and find a loop that
     * is whole. */
    ir_insert_operand(body->last, 1 + ncarried, w->content[inner->id]);
    ir_set_operand(body->last, 1 + ncarried, content_at(w, body->last->in[1 + k].value, body->last));
}

static struct ir_value *content_of(struct forward *w, struct ir_value *version)
{
    struct ir_node *n = version->def;
    if (w->content[version->id])
        return w->content[version->id];
    if (n && n->op == IR_state_write)
        w->content[version->id] = n->in[0].value;
    else if (n && n->op == IR_if)
        hand_on_if(w, n, version->index);
    else
        hand_on_loop(w, n ? n : version->block->parent, n ? version->index : version->index - 2);
    return w->content[version->id];
}

static bool is_leaf(const struct forward *w, const struct ir_value *v)
{
    for (int i = 0; i < w->nx; i++)
        if (w->xs[i] == v)
            return true;
    return false;
}

static bool reads_written(const struct forward *w, const struct ir_node *n)
{
    return n && n->op == IR_state_read && !is_first(n->in[0].value) && n->in[0].value->id < w->n &&
           !is_leaf(w, n->out[0]);
}

/* In the function's own block a read stays, since callers may know its value. */
static void forward_block(struct forward *w, struct ir_block *b, const struct ir_node *end)
{
    for (struct ir_node *n = b->first, *next; n && n != end; n = next) {
        next = n->next;
        for (int r = 0; r < n->nregions; r++)
            forward_block(w, n->regions[r], NULL);
        if (!reads_written(w, n))
            continue;
        ir_replace_uses(n->out[0], content_of(w, n->in[0].value));
        if (b->parent)
            ir_remove(n);
    }
}

struct ir_value *const *grad_forward_state(struct ir_builder *b, int ny, struct ir_value *const *ys, int nx,
                                           struct ir_value *const *xs)
{
    struct forward w = {.ctx = b->ctx, .f = b->func, .n = b->func->nvalues, .nx = nx, .xs = xs};
    struct ir_value **found = IR_NEWN(b->ctx, ny + 1, struct ir_value *);
    if (!b->func->module->states)
        return ys;
    w.content = IR_NEWN(b->ctx, w.n, struct ir_value *);
    for (int i = 0; i < ny; i++)
        found[i] = ys[i] && reads_written(&w, ys[i]->def) ? content_of(&w, ys[i]->def->in[0].value) : ys[i];
    forward_block(&w, b->block, b->before);
    return found;
}

/* == Copies of regions == */

static void drop_handed_on(struct ir_node *n)
{
    bool loop = n->op == IR_loop;
    for (int k = n->nout - 1; k >= 0; k--) {
        if (!ir_is_version(n->out[k]->type))
            continue;
        for (int r = 0; r < n->nregions; r++)
            ir_drop_operand(n->regions[r]->last, k + loop);
        ir_drop_output(n, k);
        if (loop)
            ir_drop_operand(n, k + 2);
    }
}

/* From the last node on: users go before what they use. */
void grad_drop_writes(struct ir_block *b)
{
    for (struct ir_node *n = b->last, *before; n; n = before) {
        before = n->prev;
        if (n->nregions)
            drop_handed_on(n);
        for (int r = 0; r < n->nregions; r++)
            grad_drop_writes(n->regions[r]);
        if (n->op == IR_state_write)
            ir_remove(n);
    }
    for (int i = b->nparams - 1; i >= 0; i--)
        if (ir_is_version(b->params[i]->type))
            ir_drop_param(b, i);
}
