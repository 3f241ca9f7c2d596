/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.c - partition scopes, and the part of a recorded graph that one process of group "pp" runs.
 *
 * A scope's number stands in its nodes as their name, which gradients inherit from what they are the gradient of. A
 * parameter belongs to the stage that first uses it. What was recorded outside of scopes (losses, updates) goes to
 * where most bytes of its operands are, and what needs nothing of any stage is computed by every process that wants it.
 * A tensor that is updated stays where it was first written; other results go to all processes. Every process records
 * the same graph and finds the same places; it keeps its own part, sends what others need of it right behind the node
 * that makes it, and receives at the same places of its own part, so that all see messages in one order and none waits
 * in a circle.
 */
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

enum { EVERYWHERE = -1 };

#define TAGS 4096 /* of messages; those of one number keep their order */
#define PREFIX "stage"

struct cut {
    struct trace_ctx *c;
    struct trace_graph *g;
    struct trace_results *r;
    int nstages, mine, messages;
    uint32_t nvalues;
    int *place;  /* by value id */
    int *target; /* of each result with a donor */
    struct ir_node **nodes;
    int *at; /* of each of those */
    int nnodes;
    int *by_id;   /* at, by node id */
    bool *needed; /* value id x stage: is it sent there? */
};

int trace_stage(struct trace_ctx *c, int stage)
{
    int outer = c->stage;
    struct tccrt_comm *pp = trace_comm(c, "pp");
    if (stage < EVERYWHERE || (pp && stage >= tccrt_comm_size(pp)))
        trace_fail(c, TCC_EUSAGE, "stage %d: expected -1 for none, or a number below %d", stage,
                   pp ? tccrt_comm_size(pp) : INT32_MAX);
    else
        c->stage = stage;
    return outer;
}

struct ir_where trace_where(struct trace_ctx *c, const char *source)
{
    struct ir_where where = {.op = source};
    if (c->stage >= 0)
        where.node = ir_internf(c->graph.ctx, PREFIX "%d", c->stage);
    return where;
}

static int scope_of(const struct ir_node *n)
{
    const char *name = n->where.node;
    return name && !strncmp(name, PREFIX, strlen(PREFIX)) ? atoi(name + strlen(PREFIX)) : EVERYWHERE;
}

/* The stage of the first node in a scope that uses the value. */
static int first_user(const struct ir_value *v)
{
    int best = EVERYWHERE;
    uint32_t id = UINT32_MAX;
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        int s = scope_of(u->user);
        if (s >= 0 && u->user->id < id) {
            id = u->user->id;
            best = s;
        }
    }
    return best;
}

int trace_stage_of(const struct trace_tensor *t)
{
    if (!trace_comm(t->c, "pp"))
        return EVERYWHERE;
    if (t->data && t->data->owner_stage)
        return t->data->owner_stage - 1;
    return t->value && t->generation == t->c->generation ? first_user(t->value) : EVERYWHERE;
}

/* -- Places -------------------------------------------------------------------------------------------------------- */

static double bytes_of(const struct ir_value *v)
{
    int64_t dims[TCC_MAX_RANK];
    double n = 1;
    if (!ir_is_tensor(v->type) || !ir_static_dims(v->type, dims))
        return 0;
    for (int i = 0; i < v->type->rank; i++)
        n *= (double)dims[i];
    return n * tcc_dtype_bytes((enum tcc_dtype)v->type->dtype);
}

static int place_node(const struct cut *x, const struct ir_node *n)
{
    int best = scope_of(n);
    double most = -1;
    for (int i = 0; best < 0 && i < n->nin; i++)
        if (n->in[i].value && x->place[n->in[i].value->id] >= 0)
            most = bytes_of(n->in[i].value) > most ? bytes_of(n->in[i].value) : most;
    for (int i = 0; best < 0 && i < n->nin; i++) /* of as many bytes, the first */
        if (n->in[i].value && x->place[n->in[i].value->id] >= 0 && bytes_of(n->in[i].value) >= most)
            best = x->place[n->in[i].value->id];
    return best;
}

static void place_nodes(struct cut *x)
{
    for (int k = 0; k < x->nnodes; k++) {
        struct ir_node *n = x->nodes[k];
        x->at[k] = x->by_id[n->id] = place_node(x, n);
        for (int i = 0; i < n->nout; i++)
            x->place[n->out[i]->id] = x->at[k];
    }
}

/* Is the input a parameter's? Others that nobody has written yet are the same everywhere. */
static bool is_param(const struct trace_ctx *c, const struct trace_data *d)
{
    for (const struct trace_tensor *t = c->tensors; t; t = t->next)
        if (t->param && (t->data == d || t->before == d))
            return true;
    return false;
}

static void place_inputs(struct cut *x)
{
    for (int i = 0; i < x->g->ninputs; i++) {
        const struct trace_data *d = x->g->inputs[i];
        struct ir_value *v = x->g->func->body->params[i];
        x->place[v->id] = d->owner_stage ? d->owner_stage - 1 : is_param(x->c, d) ? first_user(v) : EVERYWHERE;
    }
}

/* An updated tensor is where it is; the first time, where its new value is made: then the old one is wanted there
 * too. */
static void place_results(struct cut *x)
{
    for (int i = 0; i < x->r->n; i++) {
        if (x->r->donors[i] < 0)
            continue;
        struct ir_value *old = x->g->func->body->params[x->r->donors[i]];
        if (x->place[old->id] < 0)
            x->place[old->id] = x->place[x->r->values[i]->id];
        x->target[i] = x->place[old->id];
    }
}

/* -- Messages ------------------------------------------------------------------------------------------------------ */

static void need(struct cut *x, const struct ir_value *v, int stage)
{
    if (x->place[v->id] >= 0 && x->place[v->id] != stage)
        x->needed[(size_t)v->id * (size_t)x->nstages + (size_t)stage] = true;
}

static void find_needs(struct cut *x)
{
    const struct ir_block *body = x->g->func->body;
    for (int k = -body->nparams; k < x->nnodes; k++) {
        int nout = k < 0 ? 1 : x->nodes[k]->nout;
        for (int i = 0; i < nout; i++) {
            struct ir_value *v = k < 0 ? body->params[k + body->nparams] : x->nodes[k]->out[i];
            for (const struct ir_use *u = v->uses; u; u = u->next)
                if (x->by_id[ir_outermost(u->user)->id] >= 0)
                    need(x, v, x->by_id[ir_outermost(u->user)->id]);
        }
    }
    for (int i = 0; i < x->r->n; i++)
        for (int s = 0; s < x->nstages; s++)
            if (x->r->donors[i] < 0 || x->target[i] < 0 || x->target[i] == s)
                need(x, x->r->values[i], s);
}

/* The value's messages; what is received takes its place in this process. */
static bool exchange(struct cut *x, struct ir_value *v, struct ir_node *before)
{
    struct ir_ctx *ctx = x->g->ctx;
    struct ir_builder b = x->g->b;
    int from = x->place[v->id];
    b.before = before;
    b.where = (struct ir_where){.op = from == x->mine ? "send" : "receive"};
    for (int s = 0; from >= 0 && s < x->nstages; s++) {
        if (!x->needed[(size_t)v->id * (size_t)x->nstages + (size_t)s])
            continue;
        struct ir_attr group = ir_attr_s(IR_ATTR_group, "pp"),
                       tag = ir_attr_e(IR_ATTR_tag, ir_const(ctx, x->messages++ % TAGS)),
                       peer = ir_attr_e(IR_ATTR_peer, ir_const(ctx, from == x->mine ? s : from)),
                       types = ir_attr_types(IR_ATTR_types, 1, &v->type);
        if (from == x->mine && !ir_build(&b, IR_send, 1, &v, IR_ATTRS(group, peer, tag)))
            return false;
        if (s != x->mine)
            continue;
        struct ir_value *got = ir_build1(&b, IR_recv, 0, NULL, IR_ATTRS(group, peer, tag, types));
        if (!got)
            return false;
        ir_replace_uses(v, got);
        for (int i = 0; i < x->r->n; i++)
            if (x->r->values[i] == v)
                x->r->values[i] = got;
    }
    return true;
}

static bool exchange_all(struct cut *x)
{
    struct ir_block *body = x->g->func->body;
    struct ir_node *first = body->first;
    for (int i = 0; i < body->nparams; i++)
        if (!exchange(x, body->params[i], first))
            return false;
    for (int k = 0; k < x->nnodes; k++) {
        struct ir_node *next = k + 1 < x->nnodes ? x->nodes[k + 1] : NULL;
        for (int i = 0; i < x->nodes[k]->nout; i++)
            if (!exchange(x, x->nodes[k]->out[i], next))
                return false;
    }
    return true;
}

/* -- The part that is left ----------------------------------------------------------------------------------------- */

/* What other stages update leaves this process: memory of no size stands for it. */
static bool leave_results(struct cut *x)
{
    static const int64_t none = 0;
    for (int i = 0; i < x->r->n; i++) {
        struct trace_data *d = x->r->data[i];
        if (x->r->donors[i] < 0 || x->target[i] < 0)
            continue;
        if (x->target[i] != x->mine) {
            x->r->gone[x->r->donors[i]] = x->r->skip[i] = true;
            if (!d->owner_stage || d->here) {
                if (!(d = trace_data_new(TCC_U8, 1, &none)))
                    return false;
                trace_data_unref(x->r->data[i]);
                x->r->data[i] = d;
            }
        }
        d->owner_stage = x->target[i] + 1;
        d->here = false;
    }
    return true;
}

static void leave_inputs(struct cut *x)
{
    bool *donor = IR_NEWN(x->g->ctx, (size_t)x->g->ninputs + 1, bool);
    for (int i = 0; i < x->r->n; i++)
        if (x->r->donors[i] >= 0)
            donor[x->r->donors[i]] = true;
    for (int i = 0; i < x->g->ninputs; i++)
        if (!donor[i] && x->place[x->g->func->body->params[i]->id] >= 0 &&
            x->place[x->g->func->body->params[i]->id] != x->mine)
            x->r->gone[i] = true;
}

static void begin(struct cut *x)
{
    struct ir_ctx *ctx = x->g->ctx;
    struct ir_func *f = x->g->func;
    x->nvalues = f->nvalues;
    x->place = IR_NEWN(ctx, x->nvalues + 1, int);
    x->target = IR_NEWN(ctx, (size_t)x->r->n + 1, int);
    x->nodes = IR_NEWN(ctx, f->nnodes + 1, struct ir_node *);
    x->at = IR_NEWN(ctx, f->nnodes + 1, int);
    x->by_id = IR_NEWN(ctx, f->nnodes + 1, int);
    x->needed = IR_NEWN(ctx, (size_t)x->nvalues * (size_t)x->nstages + 1, bool);
    IR_EACH_NODE(n, f->body) {
        x->nodes[x->nnodes++] = n;
    }
    for (int i = 0; i < x->r->n; i++)
        x->target[i] = EVERYWHERE;
}

bool trace_cut(struct trace_ctx *c, struct trace_results *r)
{
    struct tccrt_comm *pp = trace_comm(c, "pp");
    if (!pp)
        return true;
    struct cut x = {.c = c, .g = &c->graph, .r = r, .nstages = tccrt_comm_size(pp), .mine = tccrt_comm_rank(pp)};
    begin(&x);
    place_inputs(&x);
    place_nodes(&x);
    place_results(&x);
    place_nodes(&x);
    find_needs(&x);
    if (!exchange_all(&x))
        return false;
    for (int k = x.nnodes - 1; k >= 0; k--)
        if (x.at[k] >= 0 && x.at[k] != x.mine)
            ir_remove(x.nodes[k]);
    leave_inputs(&x);
    return leave_results(&x);
}
