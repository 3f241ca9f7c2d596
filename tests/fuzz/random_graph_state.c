/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makers of the random-graph generator: state variables, read in front of writes and behind them, also in regions. What
 * a read gave is in the pool like any other value, so that later nodes use it behind writes.
 */
#include "tests/fuzz/random_graph_int.h"

enum { MAX_STATES = 3 };
static const double MAG = 20, SCALE = 20; /* of what variables may hold */

/* A variable of the type of some value, or an earlier one; NULL: that value's type does not do. */
static struct ir_state *some_state(struct gen *g)
{
    struct ir_module *m = g->result->module;
    int64_t dims[TCC_MAX_RANK], n = 1;
    char name[16];
    int have = 0;

    for (struct ir_state *s = m->states; s; s = s->next)
        have++;
    if (have && (have == MAX_STATES || below(g, 3))) {
        struct ir_state *s = m->states;
        for (int i = below(g, have); i > 0; i--)
            s = s->next;
        return s;
    }
    ir_type t = pick(g)->v->type;
    if (t->dtype != TCC_F32 || t->rank > 3 || !ir_static_dims(t, dims))
        return NULL;
    for (int i = 0; i < t->rank; i++)
        n *= dims[i];
    struct ir_tensor *init = n && below(g, 4) ? ir_tensor_new(TCC_F32, t->rank, dims) : NULL;
    for (int64_t i = 0; init && i < n; i++)
        tcc_store_f64(TCC_F32, (void *)ir_tensor_at(init, i), (below(g, 49) - 24) / 8.0);
    snprintf(name, sizeof name, "s%d", have);
    return ir_state_new(m, name, t, init, below(g, 2) ? IR_STATE_PARAM : IR_STATE_BUFFER);
}

/* A value that the variable may hold, for the block of b: mostly one of the pool, else what the variable holds. */
static struct ir_value *some_value(struct gen *g, struct ir_builder *b, struct ir_state *s)
{
    int at = below(g, g->npool);

    for (int i = 0; i < g->npool; i++) {
        const struct item *x = &g->pool[(at + i) % g->npool];
        if (x->v->type == s->type && x->mag <= MAG && x->scale <= SCALE)
            return x->v;
    }
    return ir_read_state(b, s);
}

static void make_write(struct gen *g, struct ir_state *s)
{
    struct ir_value *v = some_value(g, &g->b, s);

    if (below(g, 2))
        v = ir_unary(&g->b, IR_tanh, ir_binary(&g->b, IR_add, v, ir_constant_f(&g->b, TCC_F32, 0.25)));
    g->failed = g->failed || !ir_write_state(&g->b, s, v);
}

/* if (something) { perhaps read; write } else { perhaps write; read } */
static void make_branches(struct gen *g, struct ir_state *s)
{
    struct item x = *pick(g);
    struct ir_node *n = new_if(g, x, &s->type);

    if (!n)
        return;
    for (int r = 0; r < 2; r++) {
        struct ir_builder in = g->b;
        in.block = ir_region_new(in.func, n);
        struct ir_value *y = below(g, 2) ? ir_read_state(&in, s) : some_value(g, &in, s);
        if (r == 0 || below(g, 2))
            g->failed = g->failed || !ir_write_state(&in, s, ir_unary(&in, IR_tanh, some_value(g, &in, s)));
        y = below(g, 2) ? ir_unary(&in, IR_neg, y) : below(g, 2) ? ir_read_state(&in, s) : y;
        ir_build(&in, IR_yield, 1, &y, NULL);
    }
    add(g, n->out[0], MAG, SCALE, 0);
}

/* y = x; a few times: read; z = tanh(y + what was read or a value from outside); write z; y = z or what was read,
 * halved */
static void make_iterations(struct gen *g, struct ir_state *s)
{
    struct ir_value *in[3] = {ir_constant_i(&g->b, TCC_I64, below(g, 4)), NULL, some_value(g, &g->b, s)};
    struct ir_node *n =
        ir_build_typed(&g->b, IR_loop, 3, in,
                       IR_ATTRS(ir_attr_i(IR_ATTR_nscan, 0), ir_attr_types(IR_ATTR_types, 1, &s->type)), 1, &s->type);
    if (!n)
        return;
    struct ir_builder body = g->b;
    body.block = ir_region_new(body.func, n);
    ir_param_new(body.block, ir_scalar_type(g->ctx, TCC_I64), "i");
    struct ir_value *go = ir_param_new(body.block, ir_scalar_type(g->ctx, TCC_BOOL), "go");
    struct ir_value *y = ir_param_new(body.block, s->type, "y"), *k = ir_read_state(&body, s);
    struct ir_value *z =
        ir_unary(&body, IR_tanh, ir_binary(&body, IR_add, y, below(g, 2) ? k : some_value(g, &body, s)));
    g->failed = g->failed || !ir_write_state(&body, s, z);
    struct ir_value *next = below(g, 2) ? z : ir_binary(&body, IR_mul, k, ir_constant_f(&body, TCC_F32, 0.5));
    struct ir_value *out[2] = {go, next};
    ir_build(&body, IR_yield, 2, out, NULL);
    add(g, n->out[0], MAG, SCALE, 0);
}

void make_state(struct gen *g)
{
    struct ir_state *s = some_state(g);

    if (!s)
        return;
    int what = below(g, 8);
    if (what < 3)
        add(g, ir_read_state(&g->b, s), MAG, SCALE, 0);
    else if (what < 6)
        make_write(g, s);
    else if (what == 6)
        make_branches(g, s);
    else
        make_iterations(g, s);
}

void read_states(struct gen *g)
{
    for (struct ir_state *s = g->result->module->states; s; s = s->next)
        add(g, ir_read_state(&g->b, s), MAG, SCALE, 0);
}
