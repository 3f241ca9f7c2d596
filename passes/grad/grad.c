/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grad.c - reverse-mode differentiation on the graph IR: the table of rules and the sweep.
 *
 * First a mark forwards: which values depend on an x through ops that pass gradients. Then a sweep backwards over the
 * nodes that have both a marked operand and a result with a gradient; each node's rule gives contributions to its
 * marked operands only, so that nothing is built that no x needs. What is built comes behind the forward nodes and
 * reads their values as they are; it says nothing about what is kept or computed again, which is the planner's choice.
 *
 * Griewank and Walther, "Evaluating Derivatives", chapter 3, is the textbook.
 */
#include "base/format.h"
#include "passes/grad/grad_int.h"

#include <stdlib.h>

/* -- The table ------------------------------------------------------------------------------------- */

struct rule {
    enum ir_op op;
    grad_rule rule; /* NULL: MAP (by text), or none */
    const char *text, *why;
};

static void refuse(struct grad *g, struct ir_node *n)
{
    grad_fail(g, n, "it is made behind the gradients, or a part of one itself");
}

static const struct rule rules[] = {
#define GRAD_MAP(word, x, y, z) {IR_##word, grad_map, NULL, NULL},
#define GRAD_OP(op, rule, meaning) {IR_##op, grad_rule_##rule, meaning, NULL},
#define GRAD_NONE(op, why) {IR_##op, NULL, NULL, why},
#define GRAD_REFUSED(op, why) {IR_##op, refuse, NULL, "an error: " why},
#include "passes/grad/grad.def"
};
#define NRULES (int)(sizeof rules / sizeof *rules)

static const struct rule *rule_of(enum ir_op op)
{
    for (int i = 0; i < NRULES; i++)
        if (rules[i].op == op)
            return &rules[i];
    return NULL;
}

bool grad_table_row(int i, struct grad_row *out)
{
    if (i < 0 || i >= NRULES)
        return false;
    *out = (struct grad_row){.op = rules[i].op,
                             .how = rules[i].why ? rules[i].why : "fd",
                             .text = rules[i].text,
                             .checked = rules[i].why == NULL};
    return true;
}

/* What differentiates an op; NULL where it has no gradient or none flows. */
static grad_rule find_rule(enum ir_op op)
{
    const struct rule *r = rule_of(op);
    return r ? r->rule : NULL;
}

bool grad_passes(const struct ir_node *n, int i)
{
    const struct rule *r = rule_of(n->op);
    if (r && !r->rule)
        return false;
    if (n->op == IR_lib)
        return grad_lib_passes(n, i);
    return ir_op_info(n->op)->kind != IR_K_MAP || (r && r->rule != grad_map) || grad_map_passes(n, i);
}

const char *grad_why_not(const struct ir_node *n, int i)
{
    const struct rule *r = rule_of(n->op);
    if (r && r->why)
        return r->why;
    if (n->op == IR_cast)
        return "a cast between floats and integers";
    if (ir_op_info(n->op)->kind == IR_K_MAP)
        return r ? "constant between its jumps by this operand" : "its result is no number that changes smoothly";
    return n->op == IR_lib && !grad_lib_passes(n, i) ? "this operand says how others are read"
                                                     : "its result is no float";
}

/* -- Values ---------------------------------------------------------------------------------------- */

static bool carries(const struct ir_value *v)
{
    return v && ir_is_tensor(v->type) && tcc_is_float((enum tcc_dtype)v->type->dtype);
}

struct ir_value *grad_in(const struct ir_node *n, int i)
{
    return i < n->nin ? n->in[i].value : NULL;
}

bool grad_wants_value(const struct grad *g, const struct ir_value *v)
{
    return v && v->id < g->nvalues && g->active[v->id];
}

/* does an x reach it, and it can't have a gradient? */
static bool grad_hides(const struct grad *g, const struct ir_value *v)
{
    return v && v->id < g->nvalues && g->hidden[v->id];
}

bool grad_wants(const struct grad *g, const struct ir_node *n, int i)
{
    return grad_wants_value(g, grad_in(n, i));
}

void grad_add_cotangent(struct grad *g, struct ir_value *to, struct cotangent part)
{
    if (grad_wants_value(g, to) && part.v)
        VEC_PUSH(g->ctx, g->sums[to->id].parts, part);
}

void grad_accumulate_value(struct grad *g, struct ir_value *to, struct ir_value *v)
{
    if (grad_wants_value(g, to))
        grad_add_cotangent(g, to, (struct cotangent){.form = GRAD_WHOLE, .v = grad_fit(g, v, to->type)});
}

void grad_accumulate(struct grad *g, struct ir_node *n, int i, struct ir_value *v)
{
    grad_accumulate_value(g, grad_in(n, i), v);
}

struct ir_value *grad_out(struct grad *g, struct ir_node *n, int k)
{
    struct ir_value *v = k < n->nout ? n->out[k] : NULL;
    return v && v->id < g->nvalues && !g->is_leaf[v->id] ? grad_total(g, v) : NULL;
}

void grad_fail(struct grad *g, const struct ir_node *n, const char *format, ...)
{
    FORMATTED(text, 512, format);
    const char *name = n->op == IR_lib ? ir_get_s(n, IR_ATTR_name, "lib") : ir_op_info(n->op)->name;
    ir_error(g->ctx, &n->where, "%s has no gradient: %s", name, text);
    g->failed = true;
}

/* -- Marking --------------------------------------------------------------------------------------- */

/* What may hold floats, but has no type that a gradient could have. */
static bool conceals(ir_type t)
{
    if (t->kind == IR_T_SEQUENCE || t->kind == IR_T_OPTIONAL)
        return !t->elem || conceals(t->elem) ||
               (t->elem->kind == IR_T_TENSOR && tcc_is_float((enum tcc_dtype)t->elem->dtype));
    return t->kind == IR_T_TENSOR && !ir_is_tensor(t) && tcc_is_float((enum tcc_dtype)t->dtype);
}

static const char *conceals_as(ir_type t)
{
    return t->kind == IR_T_SEQUENCE   ? "a sequence"
           : t->kind == IR_T_OPTIONAL ? "an optional"
                                      : "a tensor of unknown rank";
}

static bool mark(struct grad *g, const struct ir_value *v)
{
    if (!v || v->id >= g->nvalues)
        return false;
    bool *set = carries(v) ? &g->active[v->id] : conceals(v->type) ? &g->hidden[v->id] : NULL, news = set && !*set;
    if (news)
        *set = true;
    return news;
}

/* Does an x reach operand i? */
static bool reached(const struct grad *g, const struct ir_node *n, int i)
{
    return grad_wants(g, n, i) || grad_hides(g, grad_in(n, i));
}

static void mark_if(struct grad *g, const struct ir_node *n)
{
    for (int r = 0; r < n->nregions; r++) {
        const struct ir_block *region = n->regions[r];
        grad_mark(g, region, region->last);
        for (int k = 0; k < n->nout; k++)
            if (reached(g, region->last, k))
                mark(g, n->out[k]);
    }
}

/* Until nothing changes: a carried value is active when its first value is, or what the region makes of it. */
static void mark_loop(struct grad *g, const struct ir_node *n)
{
    const struct ir_block *region = n->regions[0];
    int ncarried = n->nin - 2;
    bool more = true;

    for (int k = 0; k < ncarried; k++)
        if (reached(g, n, k + 2))
            mark(g, region->params[k + 2]);
    while (more) {
        more = false;
        grad_mark(g, region, region->last);
        for (int k = 0; k < ncarried; k++)
            if (reached(g, region->last, k + 1))
                more |= mark(g, region->params[k + 2]);
    }
    for (int k = 0; k < n->nout; k++)
        if (reached(g, region->last, k + 1) || (k < ncarried && reached(g, n, k + 2)))
            mark(g, n->out[k]);
}

void grad_mark(struct grad *g, const struct ir_block *block, const struct ir_node *end)
{
    for (const struct ir_node *n = block->first; n && n != end; n = n->next) {
        if (n->op == IR_if)
            mark_if(g, n);
        else if (n->op == IR_loop)
            mark_loop(g, n);
        bool active = false;
        for (int i = 0; i < n->nin && !n->nregions; i++)
            active |= reached(g, n, i) && grad_passes(n, i);
        for (int k = 0; active && k < n->nout; k++)
            mark(g, n->out[k]);
    }
}

/* -- The sweep ------------------------------------------------------------------------------------- */

struct grad *grad_new(struct ir_ctx *ctx, struct ir_builder *b, struct ir_func *f)
{
    struct grad *g = IR_NEW(ctx, struct grad);
    *g = (struct grad){.ctx = ctx, .b = b, .nvalues = f->nvalues};
    g->active = IR_NEWN(ctx, f->nvalues, bool);
    g->hidden = IR_NEWN(ctx, f->nvalues, bool);
    g->is_leaf = IR_NEWN(ctx, f->nvalues, bool);
    g->sums = IR_NEWN(ctx, f->nvalues, struct grad_sum);
    return g;
}

static bool has_gradient(const struct grad *g, const struct ir_node *n)
{
    for (int k = 0; k < n->nout; k++)
        if (n->out[k]->id < g->nvalues && g->sums[n->out[k]->id].parts.n && !g->is_leaf[n->out[k]->id])
            return true;
    return false;
}

/* An operand through which an x reaches n, and no gradient can come back; -1: none. */
static int hidden_operand(const struct grad *g, const struct ir_node *n)
{
    for (int i = 0; i < n->nin && !n->nregions; i++)
        if (grad_hides(g, n->in[i].value) && grad_passes(n, i))
            return i;
    return -1;
}

/* What has flown to operand i so far. */
static int contributions(const struct grad *g, const struct ir_node *n, int i)
{
    return g->sums[grad_in(n, i)->id].parts.n;
}

/* A rule that says nothing of an operand that it should reach has a hole, which must not pass for a gradient of 0. */
static void apply(struct grad *g, struct ir_node *n, grad_rule rule)
{
    int *before = IR_NEWN(g->ctx, n->nin + 1, int), errors = ir_nerrors(g->ctx);
    for (int i = 0; i < n->nin; i++)
        before[i] = grad_wants(g, n, i) ? contributions(g, n, i) : 0;
    rule(g, n);
    for (int i = 0; i < n->nin && !g->failed && ir_nerrors(g->ctx) == errors && !n->nregions; i++)
        if (grad_wants(g, n, i) && grad_passes(n, i) && contributions(g, n, i) == before[i])
            grad_fail(g, n, "none is known by operand %d", i);
}

static void differentiate(struct grad *g, struct ir_node *n)
{
    grad_rule rule = find_rule(n->op);
    int hidden = hidden_operand(g, n);
    if (hidden >= 0)
        grad_fail(g, n,
                  "its operand %d is %s that is put together at run time, through which no gradient is known to flow",
                  hidden, conceals_as(n->in[hidden].value->type));
    else if (rule)
        apply(g, n, rule);
    else
        grad_fail(g, n, "no gradient rule for this op");
}

/* A product that waits to be added up keeps two activations alive. */
static void add_products(struct grad *g, const struct ir_node *n)
{
    for (int i = 0; g->early && i < n->nin; i++) {
        struct ir_value *v = n->in[i].value;
        if (!grad_wants_value(g, v) || !g->is_leaf[v->id])
            continue;
        const struct grad_sum *s = &g->sums[v->id];
        bool products = s->parts.n > 0;
        for (int k = 0; k < s->parts.n; k++)
            products &= s->parts.at[k].form == GRAD_PRODUCT || s->parts.at[k].form == GRAD_WHOLE;
        if (products)
            grad_total(g, v);
    }
}

void grad_sweep(struct grad *g, struct ir_block *block, struct ir_node *last)
{
    for (struct ir_node *n = last; n; n = n->prev) {
        if (n->block != block || !has_gradient(g, n))
            continue;
        g->b->where = n->where;
        if (grad_whole(g, n))
            continue;
        differentiate(g, n);
        add_products(g, n);
    }
}

bool grad_build(struct ir_builder *b, int ny, struct ir_value *const *ys, struct ir_value *const *seeds, int nx,
                struct ir_value *const *xs, struct ir_value **grads)
{
    int errors = ir_nerrors(b->ctx);
    struct ir_where where = b->where;
    ys = grad_forward_state(b, ny, ys, nx, xs);
    struct ir_node *last = b->before ? b->before->prev : b->block->last;
    struct grad *g = grad_new(b->ctx, b, b->func);

    g->early = true;
    for (int j = 0; j < nx; j++) {
        g->is_leaf[xs[j]->id] = true;
        mark(g, xs[j]);
    }
    grad_mark(g, b->block, b->before);
    for (int i = 0; i < ny; i++)
        if (grad_wants_value(g, ys[i]))
            grad_accumulate_value(g, ys[i], seeds && seeds[i] ? seeds[i] : grad_full(g, ys[i]->type, 1));
    grad_sweep(g, b->block, last);
    for (int j = 0; j < nx; j++)
        grads[j] = g->failed ? NULL : grad_total(g, xs[j]);
    b->where = where;
    return !g->failed && ir_nerrors(b->ctx) == errors;
}
