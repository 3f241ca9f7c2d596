/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c - the gradient of a loop is a loop over its iterations from the last to the first.
 *
 * It carries the gradients of the carried values, and sums of what flows to values from outside. What its body needs of
 * the forward iterations the forward loop collects in additional scans; views, constants, and rows gathered from
 * outside are made again instead. Two kinds of contributions to values from outside are collected, and summed behind
 * the loop: products (a weight's gradient is one long product instead of one per step) and rows at an index (one
 * scatter instead of one whole tensor per step). Nodes of the body that do not depend on the iteration move in front of
 * the loop first.
 */
#include "passes/grad/control_int.h"
#include "passes/rewrite_int.h"
#include "passes/util_int.h"
#include "base/mutant.h"

#include <string.h>

/* A contribution that is summed behind the loop: scans v and w (-1: none). */
struct late {
    struct ir_value *capture;
    struct cotangent part;
    int v, w;
    bool forwards, backwards; /* PICK: the index is the iteration, or counts down to 0 */
};

struct loop {
    struct grad *g;    /* around the loop */
    struct ir_node *n; /* forward */
    struct ir_block *body;
    int ncarried, nscan;
    ir_expr trips;      /* iterations made */
    struct ir_value *t; /* in the backward body: the forward iteration */
    struct ir_block *back;
    struct ir_builder inner; /* at the backward body's end */
    struct grad *sub;        /* the sweep over the body */
    VEC(int) carried;        /* those with gradients */
    struct grad_values captures;
    VEC(struct ir_value *) yields; /* backward: carried, then scans */
    VEC(struct ir_value *) scans;
    VEC(struct late) late;
    VEC(struct ir_value *) sums; /* captures that are summed in the loop */
    struct ir_value **made;      /* by id: a forward value's stand-in in the backward body */
    uint32_t nmade;
    struct ir_node *start; /* of the backward body's own nodes */
};

/* -- In front of the loop --------------------------------------------------------------------------- */

static bool defines_symbols(const struct ir_node *loop, const struct ir_block *b)
{
    for (int k = 2; k < b->nparams && k < loop->nin; k++)
        if (b->params[k]->type != loop->in[k].value->type)
            return true;
    IR_EACH_NODE(n, b)
        if (ir_op_info(n->op)->flags & IR_F_DEFINES_SYMS && n->op != IR_if)
            return true;
    return false;
}

/* Cheap nodes that depend on nothing of the iteration go in front of the loop. */
static void hoist(struct loop *l)
{
    if (defines_symbols(l->n, l->body))
        return;
    for (struct ir_node *n = l->body->first, *next; n; n = next) {
        enum ir_kind kind = ir_op_info(n->op)->kind;
        bool still = kind == IR_K_MAP || kind == IR_K_MOVE || kind == IR_K_SOURCE;
        next = n->next;
        for (int i = 0; i < n->nin && still; i++)
            still = !n->in[i].value || n->in[i].value->block != l->body;
        if (still)
            ir_move_before(n, l->n);
    }
}

static bool is_true(const struct ir_value *v)
{
    const struct ir_tensor *t = ir_const_of(v);
    return t && *(const uint8_t *)t->data;
}

/* Number of iterations: a dim of what the loop collects, the trip count of a loop without condition; else NULL. */
static ir_expr count_trips(struct loop *l)
{
    struct ir_value *go = l->body->last->in[0].value;
    bool plain = (!l->n->in[1].value || is_true(l->n->in[1].value)) && (go == l->body->params[1] || is_true(go));
    ir_expr e;
    if (l->nscan)
        return l->n->out[l->ncarried]->type->dim[0];
    if (plain && l->n->in[0].value && pass_exprs_of(l->g->ctx, l->n->in[0].value, &e, 1) == 1)
        return ir_max(l->g->ctx, e, ir_const(l->g->ctx, 0));
    return NULL;
}

static bool local_symbol(const struct loop *l, ir_expr sym)
{
    for (int k = 2; k < l->body->nparams; k++) {
        ir_type t = l->body->params[k]->type;
        for (int i = 0; t != l->n->in[k].value->type && t->kind == IR_T_TENSOR && i < t->rank; i++)
            if (t->dim[i] == sym)
                return true;
    }
    IR_EACH_NODE(n, l->body) {
        const struct ir_attr *syms = ir_attr(n, IR_ATTR_syms);
        bool defines = ir_op_info(n->op)->flags & IR_F_DEFINES_SYMS;
        for (int i = 0; defines && syms && i < syms->n; i++)
            if (syms->exprs[i] == sym)
                return true;
        for (int k = 0; defines && k < n->nout; k++)
            for (int i = 0; n->out[k]->type->kind == IR_T_TENSOR && i < n->out[k]->type->rank; i++)
                if (n->out[k]->type->dim[i] == sym)
                    return true;
    }
    return false;
}

struct search {
    const struct loop *l;
    bool found;
};

static void look_at(void *user, ir_expr sym)
{
    struct search *s = user;
    s->found |= local_symbol(s->l, sym);
}

/* -- What the backward body takes from the forward one ---------------------------------------------- */

/* The forward loop collects v, if it does not yet; the result that holds it. */
static struct ir_value *collect(struct loop *l, struct ir_value *v)
{
    struct ir_ctx *ctx = l->g->ctx;
    for (int k = l->ncarried; k < l->n->nout; k++)
        if (l->body->last->in[1 + k].value == v)
            return l->n->out[k];
    struct search s = {.l = l};
    ir_expr dims[TCC_MAX_RANK];
    if (!ir_is_tensor(v->type) || v->type->rank + 1 > TCC_MAX_RANK)
        return NULL;
    pass_each_type_symbol(v->type, look_at, &s);
    if (s.found)
        return NULL;
    dims[0] = l->trips;
    memcpy(dims + 1, v->type->dim, (size_t)v->type->rank * sizeof *dims);
    ir_type type = ir_tensor_type(ctx, (enum tcc_dtype)v->type->dtype, v->type->rank + 1, dims);
    ir_add_operand(l->body->last, v);
    struct ir_value *out = ir_insert_output(l->n, l->n->nout, type);
    ir_set_attr(l->n, ir_attr_i(IR_ATTR_nscan, ir_get_i(l->n, IR_ATTR_nscan, 0) + 1));
    return out;
}

static struct ir_value *stand_in(struct loop *l, struct ir_value *v);

/* Views, constants and rows of what lies outside are made again. */
static bool cheap(const struct loop *l, const struct ir_node *n)
{
    switch (n->op) {
    case IR_reshape:
    case IR_transpose:
    case IR_expand:
    case IR_slice: return true;
    case IR_gather: return n->in[0].value->block != l->body;
    default: return ir_op_info(n->op)->kind == IR_K_SOURCE;
    }
}

static struct ir_value *make_again(struct loop *l, const struct ir_node *n)
{
    struct ir_value *in[2] = {NULL};
    struct ir_attr *attrs = IR_NEWN(l->g->ctx, n->nattrs + 1, struct ir_attr);
    struct search s = {.l = l};
    pass_each_symbol(n, look_at, &s);
    for (int i = 0; i < n->nin; i++)
        in[i] = stand_in(l, n->in[i].value);
    if (s.found || (n->nin > 0 && !in[0]) || (n->nin > 1 && !in[1]))
        return NULL;
    if (n->nattrs)
        memcpy(attrs, n->attrs, (size_t)n->nattrs * sizeof *attrs);
    struct ir_builder b = l->inner;
    b.before = l->start;
    b.where = n->where;
    return ir_build1(&b, n->op, n->nin, in, attrs);
}

/* A value of the forward body in the backward one. */
static struct ir_value *stand_in(struct loop *l, struct ir_value *v)
{
    if (!v || v->block != l->body)
        return v;
    if (v->id < l->nmade && l->made[v->id])
        return l->made[v->id];
    struct ir_value *made = NULL;
    struct ir_builder b = l->inner;
    b.before = l->start;
    if (!v->def && v->index == 0)
        made = l->t;
    else if (!v->def && v->index == 1)
        made = ir_constant_i(&b, TCC_BOOL, 1);
    else if (v->def && cheap(l, v->def))
        made = make_again(l, v->def);
    else {
        made = ir_gather(&b, collect(l, v), l->t, 0);
    }
    if (!made)
        grad_fail(l->g, l->n,
                  "its body computes a value of type %s that differs in size from one iteration to the next",
                  ir_type_text(l->g->ctx, v->type));
    if (v->id < l->nmade)
        l->made[v->id] = made;
    return made;
}

static void connect(struct loop *l, struct ir_block *b)
{
    for (struct ir_node *n = b == l->back ? l->start : b->first; n && !l->g->failed; n = n->next) {
        for (int i = 0; i < n->nin; i++) {
            struct ir_value *v = n->in[i].value, *to = stand_in(l, v);
            if (v != to)
                ir_set_operand(n, i, to);
        }
        for (int r = 0; r < n->nregions; r++)
            connect(l, n->regions[r]);
    }
}

/* -- The backward body ------------------------------------------------------------------------------ */

/* Is index trips - 1 - iteration? */
static bool counts_down(const struct loop *l, const struct ir_value *index)
{
    ir_expr e;
    const struct ir_node *sub = index->def;
    return sub && sub->op == IR_sub && sub->in[1].value == l->body->params[0] &&
           pass_exprs_of(l->g->ctx, sub->in[0].value, &e, 1) == 1 &&
           ir_expr_eq(l->g->ctx, e, ir_addc(l->g->ctx, l->trips, -1)) == IR_YES;
}

static int add_scan(struct loop *l, struct ir_value *v)
{
    for (int i = 0; i < l->scans.n; i++)
        if (l->scans.at[i] == v)
            return i;
    VEC_PUSH(l->g->ctx, l->scans, v);
    return l->scans.n - 1;
}

/* Takes out of a capture's contributions what is summed behind the loop. */
static void postpone(struct loop *l, struct ir_value *capture)
{
    struct grad_sum *s = &l->sub->sums[capture->id];
    for (int i = 0; i < s->parts.n; i++) {
        struct cotangent p = s->parts.at[i];
        struct late late = {.capture = capture, .part = p, .v = -1, .w = -1};
        if ((p.form != GRAD_PICK && p.form != GRAD_PRODUCT) || p.v->type->rank + 1 > TCC_MAX_RANK)
            continue;
        if (p.form == GRAD_PICK) {
            bool all = ir_expr_eq(l->g->ctx, capture->type->dim[p.axis], l->trips) == IR_YES;
            late.forwards = all && p.w == l->body->params[0];
            late.backwards = all && counts_down(l, p.w);
        }
        late.v = add_scan(l, p.v);
        if (!late.forwards && !late.backwards)
            late.w = add_scan(l, p.w);
        VEC_PUSH(l->g->ctx, l->late, late);
        s->parts.at[i--] = s->parts.at[--s->parts.n];
    }
}

static void sweep_body(struct loop *l)
{
    struct grad *g = l->g, *sub = grad_new(g->ctx, &l->inner, g->b->func);
    struct ir_node *yield = l->body->last;
    l->sub = sub;
    memcpy(sub->active, g->active, g->nvalues * sizeof *sub->active);
    memcpy(sub->hidden, g->hidden, g->nvalues * sizeof *sub->hidden);
    for (int j = 0; j < l->carried.n; j++)
        grad_accumulate_value(sub, yield->in[1 + l->carried.at[j]].value, l->back->params[2 + j]);
    for (int k = 0; k < l->nscan; k++) {
        struct ir_value *d = grad_out(g, l->n, l->ncarried + k);
        if (d)
            grad_accumulate_value(sub, yield->in[1 + l->ncarried + k].value, ir_gather(&l->inner, d, l->t, 0));
    }
    grad_sweep(sub, l->body, yield);
    g->failed |= sub->failed;
    for (int j = 0; j < l->carried.n; j++) {
        struct ir_value *param = l->body->params[2 + l->carried.at[j]], *d = grad_total(sub, param);
        VEC_PUSH(g->ctx, l->yields, d ? d : grad_full(sub, param->type, 0));
    }
    for (int i = 0; i < l->captures.at.n; i++) {
        struct ir_value *c = l->captures.at.at[i];
        postpone(l, c);
        struct ir_value *d = grad_total(sub, c);
        if (!d)
            continue;
        struct ir_value *sum = ir_param_new(l->back, c->type, NULL);
        VEC_PUSH(g->ctx, l->sums, c);
        VEC_PUSH(g->ctx, l->yields, MUTANT(17, ir_binary(&l->inner, IR_add, sum, d), d));
    }
}

/* The loop itself, once its body is known: the body moves from a placeholder that held it. */
static struct ir_node *close_loop(struct loop *l, struct ir_node *holder)
{
    struct grad *g = l->g;
    int ncarried = l->yields.n, nscan = l->scans.n;
    struct ir_value **in = IR_NEWN(g->ctx, ncarried + 2, struct ir_value *),
                    **yields = IR_NEWN(g->ctx, 1 + ncarried + nscan, struct ir_value *);
    ir_type *types = IR_NEWN(g->ctx, ncarried + nscan, ir_type);
    in[0] = holder->in[0].value;
    yields[0] = l->back->params[1];
    for (int j = 0; j < ncarried; j++) {
        in[2 + j] = j < l->carried.n ? holder->in[2 + j].value : grad_full(g, l->sums.at[j - l->carried.n]->type, 0);
        types[j] = l->back->params[2 + j]->type;
        yields[1 + j] = l->yields.at[j];
    }
    for (int k = 0; k < nscan; k++) {
        ir_type t = l->scans.at[k]->type;
        ir_expr dims[TCC_MAX_RANK] = {l->trips};
        memcpy(dims + 1, t->dim, (size_t)t->rank * sizeof *dims);
        types[ncarried + k] = ir_tensor_type(g->ctx, (enum tcc_dtype)t->dtype, t->rank + 1, dims);
        yields[1 + ncarried + k] = l->scans.at[k];
    }
    ir_build(&l->inner, IR_yield, 1 + ncarried + nscan, yields, NULL);
    struct ir_node *n =
        ir_build_typed(g->b, IR_loop, ncarried + 2, in,
                       IR_ATTRS(ir_attr_i(IR_ATTR_nscan, nscan), ir_attr_types(IR_ATTR_types, ncarried + nscan, types)),
                       ncarried + nscan, types);
    n->regions = holder->regions;
    n->nregions = 1;
    l->back->parent = n;
    holder->nregions = 0;
    ir_remove(holder);
    return n;
}

/* -- Behind the loop -------------------------------------------------------------------------------- */

/* [trips, m, k] -> [trips * m, k] */
static struct ir_value *rows(struct grad *g, struct ir_value *v)
{
    ir_expr dims[2] = {ir_mul(g->ctx, v->type->dim[0], v->type->dim[1]), v->type->dim[2]};
    return ir_reshape_to(g->b, v, 2, dims);
}

/* Last iteration first -> first iteration first. */
static struct ir_value *turned(struct grad *g, struct ir_value *v)
{
    ir_expr starts[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    int rank = v->type->rank;
    for (int i = 0; i < rank; i++) {
        starts[i] = i ? ir_const(g->ctx, 0) : ir_addc(g->ctx, v->type->dim[0], -1);
        steps[i] = ir_const(g->ctx, i ? 1 : -1);
    }
    return ir_slice(g->b, v, starts, v->type->dim, steps);
}

static void accumulate_late(struct loop *l, const struct late *late, struct ir_node *made)
{
    struct grad *g = l->g;
    int first = l->yields.n;
    struct ir_value *v = made->out[first + late->v], *w = late->w < 0 ? NULL : made->out[first + late->w];
    if (late->part.form == GRAD_PRODUCT) {
        struct cotangent p = {.form = GRAD_PRODUCT, .v = rows(g, v), .w = rows(g, w), .to = late->part.to};
        grad_add_cotangent(g, late->capture, p);
        return;
    }
    if (MUTANT(16, late->forwards, false))
        v = turned(g, v);
    v = grad_move_axis(g, v, 0, 1, late->part.axis);
    grad_accumulate_value(g, late->capture, w ? grad_put(g, late->capture->type, late->part.axis, w, v) : v);
}

/* Which carried values have gradients; false after a diagnostic. */
static bool choose_carried(struct loop *l)
{
    for (int k = 0; k < l->ncarried; k++) {
        struct ir_value *param = l->body->params[2 + k];
        if (!grad_wants_value(l->g, param))
            continue;
        if (param->type != l->n->in[2 + k].value->type || param->type != l->n->out[k]->type)
            return grad_fail(l->g, l->n, "carried value %d changes its shape from one iteration to the next", k), false;
        VEC_PUSH(l->g->ctx, l->carried, k);
    }
    return true;
}

static struct ir_node *open_loop(struct loop *l)
{
    struct grad *g = l->g;
    int n = l->carried.n;
    struct ir_value **in = IR_NEWN(g->ctx, n + 2, struct ir_value *);
    ir_type *types = IR_NEWN(g->ctx, n, ir_type);
    in[0] = ir_dim_value(g->b, l->trips);
    for (int j = 0; j < n; j++) {
        struct ir_value *out = l->n->out[l->carried.at[j]], *d = grad_out(g, l->n, l->carried.at[j]);
        in[2 + j] = d ? d : grad_full(g, out->type, 0);
        types[j] = out->type;
    }
    struct ir_node *holder =
        ir_build_typed(g->b, IR_loop, n + 2, in,
                       IR_ATTRS(ir_attr_i(IR_ATTR_nscan, 0), ir_attr_types(IR_ATTR_types, n, types)), n, types);
    l->back = ir_region_new(g->b->func, holder);
    l->inner = (struct ir_builder){.ctx = g->ctx, .func = g->b->func, .block = l->back, .where = l->n->where};
    struct ir_value *u = ir_param_new(l->back, ir_scalar_type(g->ctx, TCC_I64), "u");
    ir_param_new(l->back, ir_scalar_type(g->ctx, TCC_BOOL), "go");
    for (int j = 0; j < n; j++)
        ir_param_new(l->back, types[j], NULL);
    l->t = ir_binary(&l->inner, IR_sub, ir_dim_value(&l->inner, ir_addc(g->ctx, l->trips, -1)), u);
    return holder;
}

void grad_rule_loop(struct grad *g, struct ir_node *n)
{
    struct loop l = {.g = g, .n = n, .body = n->regions[0], .ncarried = n->nin - 2, .nscan = n->nout - (n->nin - 2)};
    hoist(&l);
    grad_captures(g, n, &l.captures);
    if (!choose_carried(&l))
        return;
    l.trips = count_trips(&l);
    if (!l.trips) { /* what the loop collects defines the symbol */
        l.trips = ir_fresh(g->ctx, "trips", 0, (int64_t)1 << 40);
        collect(&l, l.body->params[0]);
    }
    struct ir_node *holder = open_loop(&l);
    sweep_body(&l);
    struct ir_node *made = close_loop(&l, holder);
    l.nmade = g->b->func->nvalues;
    l.made = IR_NEWN(g->ctx, l.nmade, struct ir_value *);
    l.start = l.t->def->next;
    connect(&l, l.back);
    for (int j = 0; j < l.carried.n; j++)
        grad_accumulate(g, n, 2 + l.carried.at[j], made->out[j]);
    for (int j = 0; j < l.sums.n; j++)
        grad_accumulate_value(g, l.sums.at[j], made->out[l.carried.n + j]);
    for (int i = 0; i < l.late.n && !g->failed; i++)
        accumulate_late(&l, &l.late.at[i], made);
}
