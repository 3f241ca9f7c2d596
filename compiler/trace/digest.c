/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.c - what makes a recorded graph the same as another: its nodes in order, each with its op, operands by
 * number, attributes, result types, and the operator that it is a part of; the types of inputs and state variables.
 * Nothing that a tensor holds, no address, no name of the program's: equal in every process.
 */
#include "compiler/trace/trace_int.h"

#include <string.h>
#include <xxhash.h>

struct digest {
    XXH3_state_t *h;
    uint32_t *number; /* by value id, from 1 in the order of definition */
    uint32_t next;
};

static void add_bytes(struct digest *d, const void *p, size_t n)
{
    XXH3_128bits_update(d->h, p, n);
}

static void add_number(struct digest *d, int64_t v)
{
    add_bytes(d, &v, sizeof v);
}

static void add_text(struct digest *d, const char *s)
{
    add_bytes(d, s ? s : "", s ? strlen(s) + 1 : 1);
}

static void add_expr(struct digest *d, ir_expr e)
{
    if (e->kind == IR_X_CONST) {
        add_number(d, e->value);
        return;
    }
    add_number(d, INT64_MIN + e->kind); /* recorded graphs have no symbols */
    add_text(d, e->name);
    for (int i = 0; i < e->nargs; i++)
        add_expr(d, e->arg[i]);
}

static void add_type(struct digest *d, ir_type t)
{
    add_number(d, t->kind << 16 | t->dtype << 8 | (t->rank + 1));
    for (int i = 0; t->kind == IR_T_TENSOR && i < t->rank; i++)
        add_expr(d, t->dim[i]);
    if (t->kind != IR_T_TENSOR && t->elem)
        add_type(d, t->elem);
    if (t->kind == IR_T_VERSION)
        add_number(d, t->state->index);
}

static void add_tensor(struct digest *d, const struct ir_tensor *t)
{
    add_number(d, t->dtype << 16 | t->rank << 8 | t->splat);
    add_bytes(d, t->dims, (size_t)t->rank * sizeof *t->dims);
    add_bytes(d, t->data, (size_t)t->bytes);
}

static void add_attr(struct digest *d, const struct ir_attr *a)
{
    add_number(d, a->key << 16 | a->kind << 8);
    add_number(d, a->n);
    add_text(d, a->name);
    switch ((enum ir_attr_kind)a->kind) {
    case IR_A_INTS: add_bytes(d, a->ints, (size_t)a->n * sizeof *a->ints); break;
    case IR_A_FLOATS: add_bytes(d, a->floats, (size_t)a->n * sizeof *a->floats); break;
    case IR_A_EXPR: add_expr(d, a->e); break;
    case IR_A_EXPRS:
        for (int i = 0; i < a->n; i++)
            add_expr(d, a->exprs[i]);
        break;
    case IR_A_STRING: add_text(d, a->s); break;
    case IR_A_STRINGS:
        for (int i = 0; i < a->n; i++)
            add_text(d, a->strings[i]);
        break;
    case IR_A_TENSOR: add_tensor(d, a->t); break;
    case IR_A_DTYPE: add_number(d, a->dtype); break;
    case IR_A_TYPES:
        for (int i = 0; i < a->n; i++)
            add_type(d, a->types[i]);
        break;
    case IR_A_INT:
    case IR_A_FLOAT: add_number(d, a->i); break; /* floats by their bits */
    }
}

static void add_block(struct digest *d, const struct ir_block *block);

static void add_node(struct digest *d, const struct ir_node *n)
{
    add_number(d, n->op);
    add_number(d, (int64_t)n->nin << 32 | n->nout << 16 | n->nattrs << 8 | n->nregions);
    for (int i = 0; i < n->nin; i++)
        add_number(d, n->in[i].value ? d->number[n->in[i].value->id] : 0);
    for (int i = 0; i < n->nattrs; i++)
        add_attr(d, &n->attrs[i]);
    for (int i = 0; i < n->nregions; i++)
        add_block(d, n->regions[i]);
    for (int i = 0; i < n->nout; i++) {
        add_type(d, n->out[i]->type);
        d->number[n->out[i]->id] = ++d->next;
    }
    add_text(d, n->where.op);
}

static void add_block(struct digest *d, const struct ir_block *block)
{
    for (int i = 0; i < block->nparams; i++) {
        add_type(d, block->params[i]->type);
        d->number[block->params[i]->id] = ++d->next;
    }
    IR_EACH_NODE(n, block) {
        add_node(d, n);
    }
    add_number(d, -1);
}

bool trace_digest(struct trace_ctx *c, uint64_t out[2])
{
    const struct trace_graph *g = &c->graph;
    struct digest d = {.number = IR_NEWN(g->ctx, g->func->nvalues + 1, uint32_t)};
    d.h = XXH3_createState();
    if (!d.h)
        return false;
    XXH3_128bits_reset(d.h);
    for (const struct ir_state *s = g->module->states; s; s = s->next)
        add_type(&d, s->type);
    add_block(&d, g->func->body);
    XXH128_hash_t h = XXH3_128bits_digest(d.h);
    XXH3_freeState(d.h);
    out[0] = h.high64;
    out[1] = h.low64;
    return true;
}
