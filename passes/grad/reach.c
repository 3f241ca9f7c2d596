/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.c - where gradients stop: what a value depends on in the graph without having a gradient by it, and the nodes
 * that are the reason.
 *
 * Three marks by value: the x reaches it somehow (an operand of any type, a condition, what a region takes from
 * outside), the x reaches it so that gradients come back (grad_mark()), and the ys are computed from it. A node stops a
 * gradient where an operand has the second mark, and a result only the first and the third. What has no gradient but by
 * definition (grad.def) is an error of grad_build() already.
 */
#include "passes/grad/grad_int.h"

struct reach {
    struct grad *g;
    bool *from_x, *to_y; /* by value id */
    int max, n;
    struct grad_stop *stops;
};

static bool has(const struct reach *r, const bool *set, const struct ir_value *v)
{
    return v && v->id < r->g->nvalues && set[v->id];
}

static bool put(struct reach *r, bool *set, const struct ir_value *v)
{
    bool news = v && v->id < r->g->nvalues && !set[v->id];
    if (news)
        set[v->id] = true;
    return news;
}

/* Forwards, until nothing changes: what a loop makes is carried into its next iteration. False: nothing was new. */
static bool flood(struct reach *r, const struct ir_block *b)
{
    bool news = false;
    for (const struct ir_node *n = b->first; n; n = n->next) {
        bool any = false;
        for (int i = 0; i < n->nin; i++)
            any |= has(r, r->from_x, n->in[i].value);
        for (int k = 0; k < n->nregions; k++) {
            const struct ir_block *region = n->regions[k];
            for (int i = 0; any && i < region->nparams; i++)
                news |= put(r, r->from_x, region->params[i]);
            while (flood(r, region))
                news = true;
            for (int i = 0; region->last && i < region->last->nin; i++)
                any |= has(r, r->from_x, region->last->in[i].value);
        }
        for (int k = 0; any && k < n->nout; k++)
            news |= put(r, r->from_x, n->out[k]);
    }
    return news;
}

/* Backwards: all that a node on the way takes, what its regions yield included. */
static void needed(struct reach *r, const struct ir_block *b)
{
    for (const struct ir_node *n = b->last; n; n = n->prev) {
        bool any = b->parent && n == b->last;
        for (int k = 0; k < n->nout; k++)
            any |= has(r, r->to_y, n->out[k]);
        if (!any)
            continue;
        for (int k = 0; k < n->nregions; k++)
            needed(r, n->regions[k]);
        for (int i = 0; i < n->nin; i++)
            put(r, r->to_y, n->in[i].value);
    }
}

static bool stops_at(const struct reach *r, const struct ir_node *n, int i)
{
    if (!grad_wants(r->g, n, i) || n->nregions)
        return false;
    for (int k = 0; k < n->nout; k++)
        if (has(r, r->to_y, n->out[k]) && !grad_wants_value(r->g, n->out[k]))
            return true;
    return false;
}

static void collect(struct reach *r, const struct ir_block *b)
{
    for (const struct ir_node *n = b->first; n; n = n->next) {
        for (int k = 0; k < n->nregions; k++)
            collect(r, n->regions[k]);
        for (int i = 0; i < n->nin && r->n < r->max; i++) {
            if (!stops_at(r, n, i))
                continue;
            r->stops[r->n++] = (struct grad_stop){n, grad_why_not(n, i)};
            break;
        }
    }
}

bool grad_stops(struct ir_builder *b, int ny, struct ir_value *const *ys, struct ir_value *x, int max,
                struct grad_stop *stops, int *n)
{
    struct grad *g = grad_new(b->ctx, b, b->func);
    struct reach r = {.g = g, .max = max, .stops = stops};
    bool depends = false;
    r.from_x = IR_NEWN(b->ctx, g->nvalues, bool);
    r.to_y = IR_NEWN(b->ctx, g->nvalues, bool);
    put(&r, r.from_x, x);
    while (flood(&r, b->block))
        ;
    for (int i = 0; i < ny; i++) {
        depends |= has(&r, r.from_x, ys[i]);
        put(&r, r.to_y, ys[i]);
    }
    *n = 0;
    if (!depends)
        return false;
    needed(&r, b->block);
    g->active[x->id] = true;
    grad_mark(g, b->block, NULL);
    collect(&r, b->block);
    *n = r.n;
    return true;
}
