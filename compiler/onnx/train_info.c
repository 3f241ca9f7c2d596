/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model's TrainingInfoProto as entry points: what its bindings name are state variables.
 *
 *   @step(inputs of graph and algorithm...) -> the loss (what a Gradient differentiates), where it is a result, results
 *   of the algorithm
 *       that no binding takes, results of the graph
 *       the graph, then the algorithm in one scope, as onnx.proto combines them; then the update bindings
 *   @eval(inputs of the graph...) -> results of the graph
 *   @predict(inputs of the graph...) -> results of the graph but what a Gradient differentiates (the loss), in
 *   inference mode:
 *       Dropout drops nothing, BatchNormalization takes the running statistics, whatever the nodes say; inputs that
 *       only the loss needs are none of its
 *   @init() -> ()    initial values, then the initialization graph and its bindings
 */
#include "compiler/onnx/import_int.h"

#include <string.h>

static const struct onnx_training *info(const struct imp *im)
{
    return &im->model->training[0];
}

static bool binds(const struct onnx_binding *b, size_t n, const char *name)
{
    for (size_t k = 0; k < n; k++)
        if (!strcmp(b[k].key, name))
            return true;
    return false;
}

bool imp_is_bound(const struct imp *im, const char *name)
{
    const struct onnx_training *t = info(im);
    return binds(t->updates, t->update_count, name) || binds(t->inits, t->init_count, name);
}

static void note_graph(struct imp *im, const struct onnx_graph *g)
{
    for (size_t k = 0; g && k < g->node_count; k++) {
        const struct onnx_node *n = &g->nodes[k];
        if (strcmp(n->op, "Gradient"))
            continue;
        for (size_t a = 0; a < n->attr_count; a++)
            for (size_t s = 0; !strcmp(n->attrs[a].name, "xs") && s < n->attrs[a].count; s++)
                VEC_PUSH(im->ctx, im->differentiated, n->attrs[a].strings[s].data);
    }
}

void imp_note_differentiated(struct imp *im)
{
    note_graph(im, im->model->graph);
    for (size_t k = 0; k < im->model->training_count; k++)
        note_graph(im, im->model->training[k].algorithm);
}

static struct ir_where where_file(struct imp *im)
{
    return (struct ir_where){.file = im->path};
}

/* Writes what a graph's bindings name. */
static bool write_bound(struct imp *im, const struct onnx_binding *b, size_t n, const char *what)
{
    struct ir_where w = where_file(im);
    for (size_t k = 0; k < n; k++) {
        struct ir_state *s = ir_state_by_name(im->module, b[k].key);
        struct ir_value *v = imp_lookup(im, b[k].value);
        if (!s || !v || v == &imp_poison)
            return ir_error(im->ctx, &w, "the %s binding of '%s' to '%s': unknown %s", what, b[k].key, b[k].value,
                            s ? "value" : "initialiser");
        if (!imp_update_buffer(im, s, v))
            return false;
    }
    return true;
}

/* im->func is there, and empty. */
static void begin(struct imp *im, struct imp_scope *scope)
{
    im->graph = NULL;
    im->nodes = 0;
    im->refusals.n = 0;
    im->stream = 0;
    im->pins = (struct frontend_pins){0};
    im->b = (struct ir_builder){.ctx = im->ctx, .func = im->func, .block = im->func->body, .where = where_file(im)};
    imp_push_scope(im, scope);
}

static bool end(struct imp *im, bool fine, int n, struct ir_value **values, const char **names)
{
    imp_pop_scope(im);
    im->b.where = where_file(im);
    return fine && !im->again && !im->refusals.n && ir_return(&im->b, n, values, names);
}

/* Does a Gradient node of the graph differentiate this value? Then it is the loss. */
static bool differentiates(const struct onnx_graph *g, const char *value)
{
    for (size_t k = 0; g && k < g->node_count; k++) {
        const struct onnx_node *n = &g->nodes[k];
        for (size_t a = 0; a < n->attr_count && !strcmp(n->op, "Gradient"); a++)
            if (!strcmp(n->attrs[a].name, "y") && n->attrs[a].s.data && !strcmp(n->attrs[a].s.data, value))
                return true;
    }
    return false;
}

static bool is_loss(const struct imp *im, const char *output)
{
    return differentiates(im->model->graph, output) || differentiates(info(im)->algorithm, output);
}

static bool takes(const struct onnx_binding *b, size_t n, const char *value)
{
    for (size_t k = 0; k < n; k++)
        if (!strcmp(b[k].value, value))
            return true;
    return false;
}

/* Results of the step: the loss, where it is one, then what the algorithm gives and no binding takes, then the
 * graph's. */
static int step_results(const struct imp *im, const struct onnx_graph *const g[2], struct ir_value **const outs[2],
                        struct ir_value **values, const char **names)
{
    const struct onnx_training *t = info(im);
    int n = 0;
    for (int losses = 1; losses >= 0; losses--) {
        for (int i = 1; i >= 0; i--) {
            for (size_t k = 0; g[i] && k < g[i]->output_count; k++) {
                const char *name = g[i]->outputs[k].name;
                if (is_loss(im, name) != losses || (i && takes(t->updates, t->update_count, name)))
                    continue;
                names[n] = name;
                values[n++] = outs[i][k];
            }
        }
    }
    return n;
}

static bool import_step(struct imp *im, const struct frontend_options *o)
{
    const struct onnx_training *t = info(im);
    const struct onnx_graph *g[2] = {im->model->graph, t->algorithm};
    size_t room = g[0]->output_count + (g[1] ? g[1]->output_count : 0) + 1;
    struct ir_value **outs[2] = {IR_NEWN(im->ctx, room, struct ir_value *), IR_NEWN(im->ctx, room, struct ir_value *)};
    struct ir_value **values = IR_NEWN(im->ctx, room, struct ir_value *);
    const char **names = IR_NEWN(im->ctx, room, const char *);
    struct imp_scope scope = {0};
    begin(im, &scope);
    bool fine = imp_make_inputs(im, o, g[1] ? 2 : 1, g) && imp_graph(im, g[0], outs[0]) &&
                (!g[1] || imp_graph(im, g[1], outs[1])) &&
                (im->refusals.n || write_bound(im, t->updates, t->update_count, "update"));
    int n = fine ? step_results(im, g, outs, values, names) : 0;
    return end(im, fine, n, values, names);
}

/* @eval, or where im->infers @predict. */
static bool import_forward(struct imp *im, const struct frontend_options *o)
{
    const struct onnx_graph *g = im->model->graph;
    struct ir_value **outs = IR_NEWN(im->ctx, g->output_count + 1, struct ir_value *);
    const char **names = IR_NEWN(im->ctx, g->output_count + 1, const char *);
    struct imp_scope scope = {0};
    int n = 0;
    begin(im, &scope);
    bool fine = imp_make_inputs(im, o, 1, &g) && imp_graph(im, g, outs);
    for (size_t k = 0; fine && k < g->output_count; k++) {
        if (im->infers && is_loss(im, g->outputs[k].name))
            continue;
        names[n] = g->outputs[k].name;
        outs[n++] = outs[k];
    }
    return end(im, fine, n, outs, names);
}

static bool import_predict(struct imp *im, const struct frontend_options *o)
{
    size_t losses = 0;
    for (size_t k = 0; k < im->model->graph->output_count; k++)
        losses += is_loss(im, im->model->graph->outputs[k].name);
    if (losses == im->model->graph->output_count)
        return true; /* the loss is all that the model gives */
    im->infers = true;
    bool fine = imp_versions(im, o, "predict", import_forward);
    im->infers = false;
    return fine;
}

static bool import_init(struct imp *im)
{
    const struct onnx_training *t = info(im);
    const struct onnx_graph *g = t->initialization;
    struct ir_value **outs = IR_NEWN(im->ctx, (g ? g->output_count : 0) + 1, struct ir_value *);
    struct imp_scope scope = {0};
    bool fine = true;
    im->func = ir_func_new(im->module, "init");
    begin(im, &scope);
    for (struct ir_state *s = im->module->states; fine && s; s = s->next) {
        if (binds(t->inits, t->init_count, s->name) || !s->init)
            continue;
        fine = imp_update_buffer(im, s, ir_constant(&im->b, ir_tensor_ref(s->init)));
    }
    fine = fine && (!g || (imp_graph(im, g, outs) &&
                           (im->refusals.n || write_bound(im, t->inits, t->init_count, "initialization"))));
    return end(im, fine, 0, NULL, NULL);
}

bool imp_training_info(struct imp *im, const struct frontend_options *o)
{
    struct ir_where w = where_file(im);
    if (im->model->training_count > 1)
        return ir_error(im->ctx, &w, "the model carries %zu training steps (TrainingInfoProto); one is supported",
                        im->model->training_count);
    im->by_binding = true;
    return imp_versions(im, o, "step", import_step) && imp_versions(im, o, "eval", import_forward) &&
           import_predict(im, o) && import_init(im);
}
