/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eager.c - ops computed one by one when they are recorded, through the reference interpreter: each node becomes a
 * function of its own. The graph is recorded all the same, for gradients go through it.
 */
#include "compiler/trace/trace_int.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

int trace_eager_node(const struct ir_node *n, int64_t count, struct tcc_object *const *in, struct tcc_object **out,
                     char *error, size_t size)
{
    struct ir_ctx *ctx = n->block->func->module->ctx;
    struct ir_module *m = ir_module_new(ctx, "op");
    struct ir_func *f = ir_func_new(m, "main");
    struct ir_builder b = {.ctx = ctx, .func = f, .block = f->body, .where = n->where};
    struct ir_value **values = IR_NEWN(ctx, (size_t)n->nin + 1, struct ir_value *);
    struct ir_attr *attrs = IR_NEWN(ctx, (size_t)n->nattrs + 1, struct ir_attr);
    ir_type *types = IR_NEWN(ctx, (size_t)n->nout + 1, ir_type);
    struct tcc_object **given = IR_NEWN(ctx, (size_t)n->nin + 1, struct tcc_object *);
    int ngiven = 0;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value) {
            values[i] = ir_input_new(f, n->in[i].value->type, ir_internf(ctx, "x%d", i));
            given[ngiven++] = in[i];
        }
    for (int i = 0; i < n->nattrs; i++)
        attrs[i] = n->attrs[i];
    for (int i = 0; i < n->nout; i++)
        types[i] = n->out[i]->type;
    struct ir_node *copy = ir_build_typed(&b, n->op, n->nin, values, attrs, n->nout, types);
    if (!copy || !ir_return(&b, copy->nout, copy->out, NULL))
        return TCC_EBUG;
    struct ir_interp_state *state = ir_interp_state_new(m);
    if (!state)
        return TCC_EENV;
    ir_interp_state_step(state, count);
    int status = ir_interp(f, state, given, out, error, size);
    ir_interp_state_free(state);
    return status;
}

static struct tcc_object *data_of(const struct trace_graph *g, const struct ir_value *v)
{
    if (!v)
        return NULL;
    return v->def ? g->eager[v->id] : g->inputs[v->index]->o;
}

static bool make_room(struct trace_ctx *c)
{
    struct trace_graph *g = &c->graph;
    uint32_t n = g->func->nvalues;
    if (n <= g->neager)
        return true;
    n += n / 2 + 64;
    return RESERVED(g->eager, g->neager, n) || (trace_no_memory(c), false);
}

static void compute(struct trace_ctx *c, const struct ir_node *n)
{
    struct trace_graph *g = &c->graph;
    struct tcc_object **in = IR_NEWN(g->ctx, (size_t)n->nin + 1, struct tcc_object *);
    struct tcc_object **out = IR_NEWN(g->ctx, (size_t)n->nout + 1, struct tcc_object *);
    char error[512] = "";
    for (int i = 0; i < n->nin; i++)
        in[i] = data_of(g, n->in[i].value);
    bool together = ir_op_info(n->op)->kind == IR_K_COLLECTIVE && trace_comm(c, ir_get_s(n, IR_ATTR_group, "world"));
    int status = together ? trace_eager_collective(c, n, in, out)
                          : trace_eager_node(n, trace_runs(c), in, out, error, sizeof error);
    if (status)
        trace_fail(c, status, "%s", *error ? error : "an op cannot be computed");
    for (int i = 0; i < n->nout; i++)
        g->eager[n->out[i]->id] = out[i];
}

/* The first new node. They follow what has been computed, unless they were put where a gradient is made
 * (collectives). */
static struct ir_node *first_new(const struct trace_graph *g)
{
    struct ir_node *n = g->func->body->last;
    uint32_t found = 0;
    for (; n && n->id >= g->computed; n = n->prev)
        found++;
    return n && found == g->func->nnodes - g->computed ? n->next : g->func->body->first;
}

void trace_eager(struct trace_ctx *c)
{
    struct trace_graph *g = &c->graph;
    if (!make_room(c))
        return;
    for (struct ir_node *n = first_new(g); n && !c->status; n = n->next)
        if (n->id >= g->computed)
            compute(c, n);
    g->computed = g->func->nnodes;
}
