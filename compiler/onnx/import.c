/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ONNX front end's entry: opens the model, makes the function `main` (and for training `train`) with its inputs and
 * outputs, imports the graph, and reports everything that was refused in one message.
 */
#include "compiler/onnx/import_int.h"

static struct ir_where where_file(struct imp *im)
{
    return (struct ir_where){.file = im->path};
}

static bool check_opsets(struct imp *im)
{
    struct ir_where w = where_file(im);
    for (size_t k = 0; k < im->model->opset_count; k++) {
        const struct onnx_opset *o = &im->model->opsets[k];
        if (!o->domain[0] && (o->version < 1 || o->version > ONNX_MAX_OPSET))
            return ir_error(im->ctx, &w, "the model uses opset %lld; opsets %d to %d are supported",
                            (long long)o->version, ONNX_MIN_OPSET, ONNX_MAX_OPSET);
    }
    return true;
}

/* Inputs become parameters; one that has an initialiser of its name is the constant (files of IR version 3 list both),
 * or a parameter behind the others. */
static int graph_inputs(struct imp *im, const struct onnx_graph *g, int n, const char **names, ir_type *types)
{
    struct ir_where w = where_file(im);
    for (size_t k = 0; k < g->input_count; k++) {
        if (imp_is_initializer(g, g->inputs[k].name))
            continue;
        names[n] = ir_intern(im->ctx, g->inputs[k].name);
        types[n] = imp_input_type(im, &g->inputs[k]);
        if (!types[n])
            return ir_error(im->ctx, &w,
                            "input '%s': its type is missing or not supported (sparse and opaque values are not)",
                            names[n]),
                   -1;
        n++;
    }
    return n;
}

bool imp_make_inputs(struct imp *im, const struct frontend_options *o, int ngraphs,
                     const struct onnx_graph *const *graphs)
{
    size_t room = 1;
    for (int k = 0; k < ngraphs; k++)
        room += graphs[k]->input_count;
    const char **names = IR_NEWN(im->ctx, room, const char *);
    ir_type *types = IR_NEWN(im->ctx, room, ir_type);
    struct ir_where w = where_file(im);
    int n = 0;
    im->pins = (struct frontend_pins){0};
    for (int k = 0; k < ngraphs; k++) {
        n = graph_inputs(im, graphs[k], n, names, types);
        if (n < 0)
            return false;
    }
    for (int k = 0; k < im->defaults.n && im->given; k++, n++) {
        names[n] = ir_intern(im->ctx, im->defaults.at[k]->name);
        types[n] = imp_input_type(im, im->defaults.at[k]);
    }
    if (!frontend_pin(im->ctx, o, n, names, types, &im->pins))
        return false;
    imp_pin_facts(im, n, types);
    for (int k = 0; k < n; k++) {
        const char *why = ir_type_impossible(types[k]);
        if (why)
            return ir_error(im->ctx, &w, "input '%s' is %s: %s", names[k], ir_type_text(im->ctx, types[k]), why);
        imp_bind_name(im, names[k], ir_input_new(im->func, types[k], names[k]));
    }
    return true;
}

/* What the model says of its outputs must be possible. */
static bool check_outputs(struct imp *im)
{
    const struct onnx_graph *g = im->model->graph;
    struct ir_where w = where_file(im);
    for (size_t k = 0; k < g->output_count; k++) {
        ir_type t = imp_type_of(im, g->outputs[k].type);
        const char *why = t ? ir_type_impossible(t) : NULL;
        if (why)
            return ir_error(im->ctx, &w, "output '%s' is declared %s: %s", g->outputs[k].name, ir_type_text(im->ctx, t),
                            why);
    }
    return true;
}

static void label(struct imp *im, const struct ir_value *v, const char *name)
{
    for (int i = 0; i < im->labels.n && !ir_labels_of(im->module, name); i++)
        if (im->labels.at[i].value == v)
            ir_labels_new(im->module, name, im->labels.at[i].n, im->labels.at[i].at);
}

static bool make_outputs(struct imp *im, struct ir_value **outs)
{
    const struct onnx_graph *g = im->model->graph;
    const char **names = IR_NEWN(im->ctx, g->output_count + 1, const char *);
    struct ir_where w = where_file(im);
    for (size_t k = 0; k < g->output_count; k++) {
        const struct onnx_type *said = g->outputs[k].type;
        ir_type t = outs[k]->type;
        names[k] = g->outputs[k].name;
        if (said && said->kind == ONNX_TYPE_TENSOR && said->dtype != ONNX_UNDEFINED && t->kind == IR_T_TENSOR &&
            (int)said->dtype != t->dtype)
            return ir_error(im->ctx, &w,
                            "output '%s' is declared with another element type than the %s that is computed", names[k],
                            tcc_dtype_name(t->dtype));
    }
    for (int k = 0; k < im->func->body->nparams; k++)
        label(im, im->func->body->params[k], im->func->input_names[k]);
    for (size_t k = 0; k < g->output_count; k++)
        label(im, outs[k], names[k]);
    im->b.where = where_file(im);
    return ir_return(&im->b, (int)g->output_count, outs, names) != NULL;
}

static void report(struct imp *im)
{
    if (!im->refusals.n)
        return;
    imp_list_unknown(im);
    imp_report_refusals(im);
}

static bool import_func(struct imp *im, const struct frontend_options *o)
{
    struct imp_scope scope = {0};
    im->graph = NULL;
    im->nodes = 0;
    im->refusals.n = 0;
    im->labels.n = 0;
    im->stream = 0;
    im->pins = (struct frontend_pins){0};
    im->b = (struct ir_builder){.ctx = im->ctx, .func = im->func, .block = im->func->body};
    struct ir_value **outs = IR_NEWN(im->ctx, im->model->graph->output_count + 1, struct ir_value *);
    imp_push_scope(im, &scope);
    bool fine = check_opsets(im) && imp_make_inputs(im, o, 1, &im->model->graph) && check_outputs(im) &&
                imp_graph(im, im->model->graph, outs);
    imp_pop_scope(im);
    if (im->again)
        return false;
    report(im);
    return fine && !im->refusals.n && make_outputs(im, outs);
}

/* One that is left out: by the first. */
static const char *result_name(const struct imp *im, int output)
{
    const struct onnx_node *n = im->node;
    for (int k = output; n && k >= 0; k = k ? 0 : -1)
        if ((size_t)k < n->output_count && *n->outputs[k])
            return n->outputs[k];
    return NULL;
}

static struct ir_module *import_model(struct imp *im, const struct frontend_options *o)
{
    im->module = ir_module_new(im->ctx, im->path);
    im->exact = o && o->exact;
    im->one_version = o && o->one_version;
    imp_sort_functions(im);
    if (!imp_check_expansion(im, o && o->max_nodes ? o->max_nodes : FRONTEND_MAX_NODES))
        return NULL;
    imp_note_differentiated(im);
    if (o && o->training && o->own_step && im->model->training_count) {
        bool fine = imp_training_info(im, o);
        report(im);
        return fine ? im->module : NULL;
    }
    im->training = o && o->training;
    im->keeps_weights = o && o->keeps_weights;
    im->frozen = o && o->frozen;
    im->sync_bn = o && o->sync_bn;
    if (im->training)
        imp_note_constants(im);
    if (!imp_choose_defaults(im, o) || !imp_main_and_train(im, o, import_func) || !imp_given(im, o, import_func))
        return NULL;
    if (im->training)
        imp_warn_export(im);
    return im->module;
}

/* Lets go of what the importer itself held. */
static void release(struct imp *im)
{
    for (size_t k = 0; im && im->files && k < im->model->file_count; k++) {
        if (im->files[k])
            ir_file_unref(im->files[k]);
    }
    for (int k = 0; im && k < im->kept.n; k++)
        ir_tensor_unref(im->kept.at[k]);
}

/*
 * The model is closed after import: what the module keeps is copied or holds its own reference to the mapped file. Out
 * of memory jumps to whoever protected the context; a frame of our own sees to it that the model is closed on that way
 * too.
 */
struct ir_module *onnx_import(struct ir_ctx *ctx, const char *path, const struct frontend_options *o)
{
    struct onnx_error err = {0};
    struct onnx_model *model = onnx_open(ctx, path, &err);
    struct ir_where w = {.file = path};
    if (!model) {
        if (err.status == ONNX_ENVIRONMENT)
            ir_diag(ctx, &w, IR_D_ENVIRONMENT, "%s", err.text);
        else
            ir_error(ctx, &w, "%s", err.text);
        return NULL;
    }
    struct ir_protect frame;
    struct ir_module *volatile module = NULL;
    struct imp *volatile held = NULL;
    volatile bool no_memory = true;
    if (IR_PROTECT(ctx, &frame)) {
        struct imp *im = held = IR_NEW(ctx, struct imp);
        im->ctx = ctx;
        im->path = path;
        im->model = model;
        im->result = result_name;
        im->files = IR_NEWN(ctx, model->file_count, struct ir_file *);
        module = import_model(im, o);
        no_memory = false;
        ir_unprotect(ctx);
    }
    release(held);
    onnx_close(model);
    if (no_memory)
        ir_no_memory(ctx);
    return module;
}
