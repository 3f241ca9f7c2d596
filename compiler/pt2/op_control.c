/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Higher-order ops: cond, while_loop, scan, map, and the wrappers that only call a graph. Their graphs become regions;
 * what a graph reads is among its operands, carried values keep their types (PyTorch checks both).
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

#define MAX_VALUES 256

struct subgraph {
    json_t *graph;
    size_t nin, nout;
};

static bool graph_at(struct pt2 *p, const char *name, struct subgraph *g)
{
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind);
    g->graph = js_object(value, "graph");
    g->nin = json_array_size(js_array(g->graph, "inputs"));
    g->nout = json_array_size(js_array(g->graph, "outputs"));
    if (g->graph && g->nin < MAX_VALUES && g->nout < MAX_VALUES)
        return true;
    return imp_unsupported(p->im, "argument '%s' is no graph of at most %d inputs and outputs", name, MAX_VALUES);
}

/* A list of operands; numbers are tensors of no dims. exprs: integers that are known as expressions. */
struct operands {
    int n;
    struct ir_value *v[MAX_VALUES];
    ir_expr e[MAX_VALUES];
    bool number[MAX_VALUES];
    struct pt2_value *name[MAX_VALUES]; /* NULL: a number by itself */
};

static bool add_operand(struct pt2 *p, json_t *item, bool bare, struct operands *to)
{
    struct pt2_value *v = NULL;
    json_t *value;
    if (to->n >= MAX_VALUES)
        return imp_unsupported(p->im, "more than %d operands", MAX_VALUES);
    const char *name = bare ? js_string(item, "name") : pt2_name_of(item);
    if (bare && !name)
        name = pt2_name_of(item);
    if (name)
        v = pt2_lookup(p, name);
    else if (js_union(item, &value))
        to->e[to->n] = pt2_size(p, item);
    if (v) {
        to->e[to->n] = v->e;
        to->number[to->n] = v->number;
        to->name[to->n] = v;
        to->v[to->n] = v->number ? pt2_number(p, v) : pt2_read(p, v);
    } else if (to->e[to->n]) {
        to->number[to->n] = true;
        to->v[to->n] = imp_dim_value(p->im, to->e[to->n]);
    }
    return to->v[to->n++] != NULL || imp_bad(p->im, "operand '%s' is not defined", name ? name : "");
}

static bool operands_at(struct pt2 *p, const char *name, struct operands *to)
{
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind), *item;
    size_t k;
    if (!value)
        return true;
    if (!json_is_array(value))
        return add_operand(p, value, true, to);
    json_array_foreach(value, k, item) if (!add_operand(p, item, !strcmp(kind, "as_tensors"), to)) return false;
    return true;
}

/*
 * Imports a graph at the builder's point; operands in the order of its inputs. Results that are numbers become tensors.
 * results: NULL, or where the values go that it gives, for a graph whose inputs are other names of the operands.
 */
static bool call(struct pt2 *p, const struct subgraph *g, const struct operands *in, struct ir_value **outs,
                 struct pt2_value **results)
{
    struct pt2_value *own[MAX_VALUES];
    struct pt2_scope *scope = IR_NEW(p->ctx, struct pt2_scope); /* views are made again in it */
    json_t *inputs = js_array(g->graph, "inputs");
    int refusals = p->im->refusals.n;
    bool names = results != NULL;
    if ((size_t)in->n != g->nin)
        return imp_bad(p->im, "a graph of %zu inputs gets %d operands", g->nin, in->n);
    if (!names)
        results = own;
    pt2_push_scope(p, scope, g->graph);
    bool fine = true;
    for (int k = 0; k < in->n && fine; k++) {
        const char *name = pt2_name_of(json_array_get(inputs, (size_t)k));
        struct pt2_value *v = name ? pt2_bind(p, name) : NULL;
        if (!v)
            continue;
        v->v = in->v[k];
        v->e = in->e[k];
        v->number = in->number[k];
        v->read = in->name[k] && in->name[k]->read;
        if (names && in->name[k] && !v->number) {
            v->complex = in->name[k]->complex;
            pt2_look_at(v, in->name[k]);
        } else {
            v->unwritable = "what a graph in the graph takes";
        }
    }
    fine = fine && pt2_graph(p, g->graph, results) && p->im->refusals.n == refusals;
    for (size_t k = 0; k < g->nout && fine; k++) {
        outs[k] = results[k]->number ? pt2_number(p, results[k]) : pt2_read(p, results[k]);
        fine = outs[k] != NULL || imp_unsupported(p->im, "a graph that gives None");
    }
    pt2_pop_scope(p);
    return fine;
}

static bool give(struct pt2 *p, size_t n, struct ir_value *const *v)
{
    for (size_t k = 0; k < n; k++) {
        if (!pt2_out(p, (int)k, v[k]))
            return false;
    }
    return true;
}

/* The arguments of higher-order ops stand in the archive without names. */
static void name_arguments(struct pt2 *p, const char *const *names)
{
    json_t *inputs = js_array(p->at.node, "inputs");
    for (size_t k = 0; k < json_array_size(inputs) && names[k]; k++) {
        json_t *input = json_array_get(inputs, k);
        const char *name = js_string(input, "name");
        if (!name || !*name)
            json_object_set_new(input, "name", json_string(names[k]));
    }
}

/* Sizes that differ, or are not seen to be the same, the run decides. */
static ir_type common_type(struct pt2 *p, ir_type a, ir_type b)
{
    ir_expr dims[TCC_MAX_RANK];
    if (a == b)
        return a;
    if (!ir_is_tensor(a) || !ir_is_tensor(b) || a->dtype != b->dtype || a->rank != b->rank)
        return imp_unsupported(p->im, "branches that give %s and %s", ir_type_text(p->ctx, a), ir_type_text(p->ctx, b)),
               NULL;
    for (int k = 0; k < a->rank; k++)
        dims[k] = a->dim[k] == b->dim[k] ? a->dim[k] : NULL;
    return imp_fresh_type(p->im, (enum tcc_dtype)a->dtype, a->rank, dims);
}

/* cond(pred, true_graph, false_graph, operands) */
bool aten_cond(struct pt2 *p)
{
    static const char *const names[] = {"pred", "true_graph", "false_graph", "operands", NULL};
    struct subgraph g[2];
    struct operands *in = IR_NEW(p->ctx, struct operands);
    struct ir_value *outs[2][MAX_VALUES];
    struct ir_builder saved;
    ir_type types[MAX_VALUES];
    bool number;
    double truth;
    name_arguments(p, names);
    struct ir_value *pred = pt2_operand(p, "pred", &number);
    for (int b = 0; b < 2; b++) {
        if (!graph_at(p, names[1 + b], &g[b]))
            return false;
    }
    if (!pred || !operands_at(p, "operands", in) || g[0].nout != g[1].nout)
        return false;
    pred = imp_cast(p->im, pred, TCC_BOOL);
    if (pred && imp_rank(pred))
        pred = imp_reshape(p->im, pred, 0, NULL);
    if (imp_scalar_of(pred, &truth))
        return call(p, &g[truth == 0], in, outs[0], NULL) && give(p, g[0].nout, outs[0]);
    int n = (int)g[0].nout;
    for (int k = 0; k < n; k++)
        types[k] = ir_scalar_type(p->ctx, TCC_BOOL);
    struct ir_node *node =
        ir_build_typed(&p->im->b, IR_if, 1, &pred, IR_ATTRS(ir_attr_types(IR_ATTR_types, n, types)), n, types);
    for (int b = 0; b < 2 && node; b++) {
        imp_open_region(p->im, node, &saved);
        bool fine = call(p, &g[b], in, outs[b], NULL) && imp_yield(p->im, (size_t)n, outs[b]);
        imp_close_region(p->im, &saved);
        if (!fine)
            return false;
    }
    for (int k = 0; k < n && node; k++) {
        types[k] = common_type(p, outs[0][k]->type, outs[1][k]->type);
        if (!types[k])
            return false;
        node->out[k]->type = types[k];
    }
    if (node)
        ir_set_attr(node, ir_attr_types(IR_ATTR_types, n, types));
    return node && give(p, (size_t)n, node->out);
}

/* The loop node, with parameters of its region in `in` (the carried ones first) and the iteration's number. */
static struct ir_node *loop(struct pt2 *p, struct ir_value *trip, struct ir_value *condition,
                            const struct operands *carried, int nscan, const ir_type *scanned)
{
    struct ir_value *operands[MAX_VALUES + 2] = {trip, condition};
    ir_type types[2 * MAX_VALUES];
    for (int k = 0; k < carried->n; k++) {
        operands[k + 2] = carried->v[k];
        types[k] = carried->v[k]->type;
    }
    for (int k = 0; k < nscan; k++)
        types[carried->n + k] = scanned[k];
    return ir_build_typed(
        &p->im->b, IR_loop, carried->n + 2, operands,
        IR_ATTRS(ir_attr_i(IR_ATTR_nscan, nscan), ir_attr_types(IR_ATTR_types, carried->n + nscan, types)),
        carried->n + nscan, types);
}

/* Parameters for the carried values; what is known of a number before the loop isn't inside. */
static void carry(struct ir_block *b, const struct operands *carried, struct operands *to)
{
    for (int k = 0; k < carried->n; k++) {
        to->v[to->n] = ir_param_new(b, carried->v[k]->type, NULL);
        to->number[to->n++] = carried->number[k];
    }
}

static void append(const struct operands *from, struct operands *to)
{
    for (int k = 0; k < from->n && to->n < MAX_VALUES; k++) {
        to->v[to->n] = from->v[k];
        to->e[to->n] = from->e[k];
        to->number[to->n++] = from->number[k];
    }
}

static bool same_types(struct pt2 *p, const struct operands *carried, struct ir_value **outs)
{
    for (int k = 0; k < carried->n; k++) {
        outs[k] = imp_cast(p->im, outs[k], imp_dtype(carried->v[k]));
        if (outs[k]->type != carried->v[k]->type)
            return imp_unsupported(p->im, "a carried value that is %s and becomes %s",
                                   ir_type_text(p->ctx, carried->v[k]->type), ir_type_text(p->ctx, outs[k]->type));
    }
    return true;
}

static struct ir_value *truth_of(struct pt2 *p, struct ir_value *v)
{
    v = imp_cast(p->im, v, TCC_BOOL);
    return v && imp_rank(v) ? imp_reshape(p->im, v, 0, NULL) : v;
}

/* while_loop(cond_fn, body_fn, carried_inputs, additional_inputs) */
bool aten_while_loop(struct pt2 *p)
{
    struct subgraph cond, body;
    struct operands *carried = IR_NEW(p->ctx, struct operands), *more = IR_NEW(p->ctx, struct operands),
                    *in = IR_NEW(p->ctx, struct operands), *first = IR_NEW(p->ctx, struct operands),
                    *next = IR_NEW(p->ctx, struct operands);
    struct ir_value *outs[MAX_VALUES + 1], *go[MAX_VALUES];
    struct ir_builder saved;
    name_arguments(p, (const char *const[]){"cond_fn", "body_fn", "carried_inputs", "additional_inputs", NULL});
    if (!graph_at(p, "cond_fn", &cond) || !graph_at(p, "body_fn", &body) ||
        !operands_at(p, "carried_inputs", carried) || !operands_at(p, "additional_inputs", more) || cond.nout != 1 ||
        body.nout != (size_t)carried->n)
        return false;
    *first = *carried;
    append(more, first);
    if (!call(p, &cond, first, go, NULL))
        return false;
    struct ir_node *node = loop(p, NULL, truth_of(p, go[0]), carried, 0, NULL);
    if (!node)
        return false;
    struct ir_block *b = imp_open_region(p->im, node, &saved);
    ir_param_new(b, ir_scalar_type(p->ctx, TCC_I64), "iteration");
    ir_param_new(b, ir_scalar_type(p->ctx, TCC_BOOL), "condition");
    carry(b, carried, in);
    append(more, in);
    bool fine = call(p, &body, in, outs + 1, NULL) && same_types(p, carried, outs + 1);
    for (int k = 0; k < carried->n && fine; k++) {
        next->v[k] = outs[k + 1];
        next->number[k] = carried->number[k];
        next->n++;
    }
    append(more, next);
    fine = fine && call(p, &cond, next, go, NULL);
    outs[0] = fine ? truth_of(p, go[0]) : NULL;
    fine = fine && outs[0] && imp_yield(p->im, (size_t)carried->n + 1, outs);
    imp_close_region(p->im, &saved);
    return fine && give(p, (size_t)carried->n, node->out);
}

/* Element `t` of axis 0 of each. */
static bool elements(struct pt2 *p, const struct operands *xs, struct ir_value *t, struct operands *to)
{
    for (int k = 0; k < xs->n; k++) {
        struct ir_value *x = imp_gather(p->im, xs->v[k], t, 0);
        if (!x || to->n >= MAX_VALUES)
            return false;
        to->number[to->n] = false;
        to->e[to->n] = NULL;
        to->v[to->n++] = x;
    }
    return true;
}

/* scan(combine_fn, init, xs, additional_inputs); arg 1: map_impl(f, xs, pos_args), a scan that carries nothing */
bool aten_scan(struct pt2 *p)
{
    int arg = p->row->arg;
    static const char *const names[][4] = {{"combine_fn", "init", "xs", "additional_inputs"},
                                           {"f", "", "xs", "pos_args"}};
    struct subgraph body;
    struct operands *carried = IR_NEW(p->ctx, struct operands), *xs = IR_NEW(p->ctx, struct operands),
                    *more = IR_NEW(p->ctx, struct operands), *in = IR_NEW(p->ctx, struct operands);
    struct ir_value *outs[MAX_VALUES + 1];
    struct ir_builder saved;
    ir_type scanned[MAX_VALUES];
    name_arguments(p, arg ? (const char *const[]){"f", "xs", "pos_args", NULL}
                          : (const char *const[]){"combine_fn", "init", "xs", "additional_inputs", NULL});
    if (!graph_at(p, names[arg][0], &body) || (!arg && !operands_at(p, names[arg][1], carried)) ||
        !operands_at(p, names[arg][2], xs) || !operands_at(p, names[arg][3], more) || !xs->n || !imp_rank(xs->v[0]) ||
        body.nout < (size_t)carried->n)
        return false;
    ir_expr trips = imp_dim(xs->v[0], 0);
    int nscan = (int)body.nout - carried->n;
    for (int k = 0; k < nscan; k++)
        scanned[k] = ir_scalar_type(p->ctx, TCC_BOOL);
    struct ir_node *node = loop(p, imp_dim_value(p->im, trips), NULL, carried, nscan, scanned);
    if (!node)
        return false;
    struct ir_block *b = imp_open_region(p->im, node, &saved);
    struct ir_value *t = ir_param_new(b, ir_scalar_type(p->ctx, TCC_I64), "iteration");
    outs[0] = ir_param_new(b, ir_scalar_type(p->ctx, TCC_BOOL), "condition");
    carry(b, carried, in);
    bool fine = elements(p, xs, t, in);
    append(more, in);
    fine = fine && call(p, &body, in, outs + 1, NULL) && same_types(p, carried, outs + 1) &&
           imp_yield(p->im, body.nout + 1, outs);
    imp_close_region(p->im, &saved);
    if (!fine)
        return false;
    ir_type *types = IR_NEWN(p->ctx, body.nout + 1, ir_type);
    for (size_t k = 0; k < body.nout; k++) {
        ir_expr dims[TCC_MAX_RANK + 1] = {trips};
        ir_type inner = outs[k + 1]->type;
        bool stacked = (int)k >= carried->n;
        if (stacked && inner->rank >= TCC_MAX_RANK)
            return imp_unsupported(p->im, "results of so many dims");
        for (int i = 0; i < inner->rank; i++)
            dims[i + 1] = inner->dim[i];
        types[k] = stacked ? ir_tensor_type(p->ctx, (enum tcc_dtype)inner->dtype, inner->rank + 1, dims) : inner;
        node->out[k]->type = types[k];
    }
    ir_set_attr(node, ir_attr_types(IR_ATTR_types, (int)body.nout, types));
    return give(p, body.nout, node->out);
}

/*
 * wrap_with_set_grad_enabled(enabled, graph, operands...) and its like call a graph where they stand. Its operands are
 * named arg_K after the first `arg` arguments. In a graph without gradient each node's results are cut off (mutate.c).
 */
bool aten_wrap(struct pt2 *p)
{
    struct subgraph g = {0};
    struct operands *in = IR_NEW(p->ctx, struct operands);
    struct ir_value *outs[MAX_VALUES];
    json_t *inputs = js_array(p->at.node, "inputs"), *value;
    bool outer = p->at.no_gradient;
    enum tcc_dtype outer_autocast = p->autocast;
    int seen = 0; /* of autocast's arguments (device, dtype, enabled, cache) the truth values */
    memset(p->asked, 0xff, sizeof p->asked);
    for (size_t k = 0; k < json_array_size(inputs); k++) {
        json_t *argument = json_object_get(json_array_get(inputs, k), "arg");
        const char *kind = js_union(argument, &value);
        if (!g.graph && kind && !strcmp(kind, "as_graph")) {
            g = (struct subgraph){js_object(value, "graph"), 0, 0};
            g.nin = json_array_size(js_array(g.graph, "inputs"));
            g.nout = json_array_size(js_array(g.graph, "outputs"));
        } else if (!g.graph && p->row->arg) {
            p->at.no_gradient = json_is_false(value);
        } else if (!g.graph && kind && !strcmp(kind, "as_scalar_type")) {
            p->autocast = pt2_dtype(json_integer_value(value));
        } else if (!g.graph && kind && !strcmp(kind, "as_bool") && !seen++) {
            p->autocast = json_is_true(value) ? p->autocast : TCC_NONE;
        } else if (!g.graph) {
            continue;
        } else if (kind && !strcmp(kind, "as_tensors")) {
            for (size_t i = 0; i < json_array_size(value); i++)
                if (!add_operand(p, json_array_get(value, i), true, in))
                    return false;
        } else if (!add_operand(p, argument, false, in)) {
            return false;
        }
    }
    struct pt2_value **made = IR_NEWN(p->ctx, g.nout + 1, struct pt2_value *);
    bool fine = g.graph && g.nin < MAX_VALUES && g.nout < MAX_VALUES && call(p, &g, in, outs, made);
    p->at.no_gradient = outer;
    p->autocast = outer_autocast;
    p->at.made = made;
    for (size_t k = 0; k < g.nout && fine; k++) /* a size that the graph computes stays one */
        fine = made[k]->number && made[k]->e ? pt2_out_e(p, (int)k, made[k]->e) : pt2_out(p, (int)k, outs[k]);
    return fine;
}
