/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profit.c - does it pay to evaluate a node inside a kernel? The answer for machines that have none of their own.
 *
 * A kernel has a size that compiles in good time: code generators take more than linear time for straight code, and
 * what a kernel saves by another instruction is one store and one load in hundreds. Functions (exp, sin) count as what
 * they expand to. Rates and bounds are the machine's (passes/cost.h).
 */
#include "passes/lower_int.h"

static bool elements(struct ir_ctx *ctx, const struct ir_value *v, int64_t *n)
{
    return ir_is_const(ir_num_elements(ctx, v->type), n);
}

/* Sizes that are not known are guessed. There one element doesn't count as fewer: it is worked out in front of the
 * loops. */
static bool fewer_elements(struct ir_ctx *ctx, const struct ir_value *a, const struct ir_value *b)
{
    struct pass_sizes guess = {0};
    int64_t na, nb;
    bool known_a = elements(ctx, a, &na);
    if (known_a && elements(ctx, b, &nb))
        return na < nb;
    return !(known_a && na == 1) && pass_elements(&guess, a->type) < pass_elements(&guess, b->type);
}

/* Does a gather look its indexes up? Those that are counted leave index arithmetic. */
static bool looks_up(const struct ir_node *n)
{
    if (n->op != IR_gather)
        return false;
    const struct ir_node *from = n->in[1].value->def;
    while (from && from->op != IR_iota && lw_is_view(from) && from->nin)
        from = from->in[0].value->def;
    return !from || from->op != IR_iota;
}

/* Is it one that `is_source` names, or made of such by maps and views alone? */
static bool is_made_of(const struct ir_node *n, bool (*is_source)(const struct ir_node *), int depth)
{
    if (!n || depth > 6)
        return false;
    if (is_source(n))
        return true;
    if (ir_op_info(n->op)->kind != IR_K_MAP && !lw_is_view(n))
        return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value && is_made_of(n->in[i].value->def, is_source, depth + 1))
            return true;
    return false;
}

/* Would look-ups be repeated for each element that others take: is n made of them, and read by one that takes more than
 * n has? */
static bool repeats_gathers(struct ir_ctx *ctx, const struct ir_node *n, const struct ir_value *result)
{
    for (struct ir_use *u = n->out[0]->uses; u; u = u->next)
        if (looks_up(u->user) && u->user->in[0].value == n->out[0] && fewer_elements(ctx, n->out[0], result))
            return is_made_of(n, looks_up, 0);
    return false;
}

/* Would evaluating the node there repeat much work? It is small and broadcast there, and expensive, or a chain of small
 * things. */
static bool wasteful(struct ir_ctx *ctx, const struct ir_node *n, const struct ir_value *result)
{
    if (!fewer_elements(ctx, n->out[0], result) || is_made_of(n, lw_is_reduce, 0))
        return false;
    if (ir_is_expensive(n->op) || looks_up(n) || repeats_gathers(ctx, n, result))
        return true;
    for (struct ir_use *u = n->out[0]->uses; u; u = u->next)
        if (!lw_is_view(u->user) && u->user->nout == 1 && fewer_elements(ctx, u->user->out[0], result))
            return true;
    return false;
}

/* A reduction to one element of more than can be read in the time of a launch: a kernel of its own runs it with
 * vectors, and beside others like it. One of few rows, by the machine's count, that take longer than the launches by
 * which it is a stage less: it is cut in pieces then, and what stands behind it runs along the rows. */
static bool long_reduction(struct ir_ctx *ctx, const struct pass_cost *c, const struct ir_node *n)
{
    enum { LONG = 8 };
    int64_t in, out;
    bool known = elements(ctx, n->in[0].value, &in);
    if (!elements(ctx, n->out[0], &out) || out < 1)
        return false;
    double launches = known ? (double)(in / out) * sizeof(float) / (c->launch * c->bandwidth) : 0;
    return out == 1 ? !known || launches > 1 : out <= c->rows && launches >= LONG;
}

/* Is each element of the reduction worked out for many points, as of a group of channels for each channel, for longer
 * than a launch takes? Sizes that are not known are guessed alike in all three numbers. */
static bool repeated(const struct pass_cost *c, const struct ir_node *n, double points)
{
    struct pass_sizes guess = {0};
    double in = pass_elements(&guess, n->in[0].value->type), out = pass_elements(&guess, n->out[0]->type);
    return points >= 2 * out && points / out * in > c->launch * c->flops;
}

bool pass_fuse(const struct pass_machine *m, struct ir_ctx *ctx, const struct pass_fusion *f)
{
    const struct ir_node *n = f->node;
    const struct pass_cost *c = pass_cost(m);
    if (f->instructions + f->functions * (c->function - 1) > c->kernel)
        return false;
    if (!n)
        return true;
    if (lw_is_reduce(n)) {
        /* Beside a product its loops would keep fast templates away. */
        if (f->anchor || long_reduction(ctx, c, n) || repeated(c, n, f->points))
            return false;
    }
    return !wasteful(ctx, n, f->result);
}
