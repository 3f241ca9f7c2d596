/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusion_verify.c - checks groups: what a group computes and what it is made of stand in its function, nodes in one
 * block; a piece is an operand of what it is a piece of; the kernel's operands have their values' element types; a
 * value is stored by one group only. Of a node whose operands are stored in its buffer each has its place there, once:
 * passes that decided that twice, with two answers, would leave one out.
 */
#include "ir/text/kernel_words_int.h"

struct checker {
    const struct ir_func *f;
    bool *stored; /* by value: a group stores it */
    unsigned char *
        *at; /* by value: of each operand of its node that has a place in its buffer, how often; NULL: none has */
    struct ir_arena *scratch;
};

static bool bad(const struct checker *c, const struct ir_node *n, const char *text)
{
    struct ir_ctx *ctx = c->f->module->ctx;
    const char *node = n && n->where.node ? n->where.node : "";
    ir_invalid(ctx, NULL, ctx->parsing ? IR_D_ERROR : IR_D_BUG,
               ir_internf(ctx, "fusion of @%s: group of %s: %s", c->f->name, node, text));
    return false;
}

static bool of_func(const struct ir_func *f, const struct ir_value *v)
{
    return v && v->block && v->block->func == f;
}

static bool check_kernel(const struct checker *c, const struct kn_group *g)
{
    for (int i = 0, a = 0; i < g->kernel->noperands; i++) {
        const struct kn_operand *o = &g->kernel->operands[i];
        if (o->use == KN_LOCAL)
            continue;
        const struct ir_value *v = g->args[a++];
        if (!of_func(c->f, v) || !ir_is_tensor(v->type) || v->type->dtype != o->dtype)
            return bad(c, g->root, "an operand of the kernel is not of its value's type");
    }
    return true;
}

/* Is v what the loop yields for that one of its results? */
static bool is_element(const struct ir_value *v, const struct ir_value *all)
{
    const struct ir_node *n = all->def;
    if (!n || n->op != IR_loop)
        return false;
    for (int i = 0; i < n->nout; i++)
        if (n->out[i] == all)
            return n->regions[0]->last->in[1 + i].value == v;
    return false;
}

/* Is operand `piece` of the node of g's dest what g stores, or made of what it collects by nodes of one operand? */
static bool is_piece(const struct kn_group *g)
{
    const struct ir_node *n = g->results[0].into->def;
    if (!n || g->results[0].piece >= n->nin)
        return false;
    const struct ir_value *v = n->in[g->results[0].piece].value;
    for (int i = 0; i < KN_MAX_VIEWS && g->collects && v && v != g->collects && v->def && v->def->nin == 1; i++)
        v = v->def->in[0].value;
    return v == (g->collects ? g->collects : g->results[0].value);
}

static void place(struct checker *c, const struct ir_value *into, int piece)
{
    unsigned char **at = &c->at[into->id];
    if (!*at)
        *at = ir_arena_alloc(c->scratch, (size_t)into->def->nin);
    (*at)[piece] += (*at)[piece] < 2;
}

static bool check_group(struct checker *c, const struct kn_group *g)
{
    const struct ir_func *f = c->f;
    const struct ir_value *stored = g->collects ? g->collects : g->results[0].value;
    if (!g->root || !of_func(f, g->results[0].value) || (g->collects && !of_func(f, g->collects)) ||
        (!g->collects && (g->root->nout < 1 || !of_func(f, g->root->out[0]))))
        return bad(c, g->root, "what it stores is no value of the function");
    if (g->collects && !is_element(g->results[0].value, g->collects))
        return bad(c, g->root, "it stores what is no element of what it collects");
    if (g->anchor && g->anchor->block != g->root->block)
        return bad(c, g->root, "its anchor stands in another block");
    for (int i = 0; i < g->nnodes; i++)
        if (g->nodes[i]->block != g->root->block)
            return bad(c, g->root, "a node stands in another block");
    if (g->results[0].into && (!of_func(f, g->results[0].into) || !is_piece(g)))
        return bad(c, g->root, "it stores into a value of which its own is no such piece");
    if (!g->results[0].into && c->stored[stored->id])
        return bad(c, g->root, "another group stores its value");
    c->stored[stored->id] |= !g->results[0].into;
    if (g->results[0].into)
        place(c, g->results[0].into, g->results[0].piece);
    for (int i = 1; i < g->nresults; i++) {
        const struct ir_value *v = g->results[i].value;
        if (!of_func(f, v) || c->stored[v->id])
            return bad(c, g->root, "a further result is no value of the function, or another group's");
        c->stored[v->id] = true;
    }
    return !g->kernel || check_kernel(c, g);
}

static bool check_place(struct checker *c, const struct kn_place *q)
{
    if (!of_func(c->f, q->into) || !q->into->def || q->piece >= q->into->def->nin || !q->into->def->in[q->piece].value)
        return bad(c, q->into ? q->into->def : NULL, "a place is that of no operand");
    place(c, q->into, q->piece);
    return true;
}

static bool is_empty(const struct ir_value *v)
{
    for (int i = 0; i < v->type->rank; i++)
        if (ir_is_value(v->type->dim[i], 0))
            return true;
    return false;
}

/* Of a node that joins its operands all have a place as soon as one has; a scatter begins with its first. */
static bool check_pieces(const struct checker *c, const struct ir_node *n)
{
    const unsigned char *at = n->nout == 1 ? c->at[n->out[0]->id] : NULL;
    int pieces = n->op == IR_concat || n->op == IR_interleave ? n->nin : 1;
    for (int i = 0; at && i < n->nin; i++)
        if (at[i] > 1 || (i < pieces && !at[i] && !is_empty(n->in[i].value)) || (i >= pieces && at[i]))
            return bad(
                c, n,
                ir_internf(c->f->module->ctx, "operand %d has %s in its buffer", i, at[i] ? "two places" : "no place"));
    return true;
}

static bool check_block(const struct checker *c, const struct ir_block *b)
{
    bool ok = true;
    for (const struct ir_node *n = b->first; n && ok; n = n->next) {
        ok = check_pieces(c, n);
        for (int r = 0; r < n->nregions && ok; r++)
            ok = check_block(c, n->regions[r]);
    }
    return ok;
}

bool kn_verify_fusion(const struct ir_func *f)
{
    struct checker c = {.f = f, .scratch = ir_arena_new(f->module->ctx)};
    bool ok = true;
    c.stored = ir_arena_alloc(c.scratch, f->nvalues + 1u);
    c.at = ir_arena_alloc(c.scratch, (f->nvalues + 1u) * sizeof *c.at);
    for (int i = 0; f->fusion && ok && i < f->fusion->n; i++)
        ok = check_group(&c, &f->fusion->at[i]);
    for (int i = 0; f->fusion && ok && i < f->fusion->places.n; i++)
        ok = check_place(&c, &f->fusion->places.at[i]);
    ok = ok && (!f->fusion || check_block(&c, f->body));
    ir_arena_free(c.scratch);
    return ok;
}
