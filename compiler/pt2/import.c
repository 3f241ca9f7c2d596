/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The .pt2 front end's entry: an archive of torch.export becomes the function `main` (and for training `train`).
 *
 * graph.inputs and signature.input_specs run in parallel: parameters, buffers, constants, then what the caller gives.
 * What the program writes to among the first three becomes a state variable; what it writes to of the caller's is one
 * result more, named INPUT.after. For training, float parameters are state variables, those that require no gradient as
 * buffers, which are not trained.
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

static const json_t *module_of(const struct pt2 *p)
{
    return js_object(p->archive->program, "graph_module");
}

/* -- What is written to, before anything is built: constants fold, state does not */

static void mark(json_t *written, json_t *roots, const char *name)
{
    const char *root = name ? js_string(roots, name) : NULL;
    if (root)
        json_object_set_new(written, root, json_true());
}

static json_t *input_named(json_t *inputs, const char *name)
{
    for (size_t k = 0; k < json_array_size(inputs); k++) {
        const char *called = js_string(json_array_get(inputs, k), "name");
        if (called && !strcmp(called, name))
            return json_array_get(inputs, k);
    }
    return NULL;
}

static json_t *argument(json_t *inputs, const char *name)
{
    json_t *value;
    js_union(json_object_get(input_named(inputs, name), "arg"), &value);
    return value;
}

static void note_graph(struct pt2 *p, const json_t *graph, json_t *roots, json_t *written);

/* Output `name` of a node lies in the memory of that root. */
static void set_root(json_t *roots, json_t *output, const char *root)
{
    const char *name = js_string(output, "name");
    if (name && root)
        json_object_set_new(roots, name, json_string(root));
}

/* A graph that is called where it stands: its inputs and outputs are other names of what the node takes and gives. */
static void note_call(struct pt2 *p, json_t *node, json_t *roots, json_t *written)
{
    json_t *inputs = js_array(node, "inputs"), *value, *graph = NULL, *inner = json_object(), *taken = json_array(),
           *item;
    size_t k, i;
    VEC_PUSH(p->ctx, p->archive->held, inner);
    VEC_PUSH(p->ctx, p->archive->held, taken);
    for (k = 0; k < json_array_size(inputs); k++) {
        json_t *given = json_object_get(json_array_get(inputs, k), "arg");
        const char *kind = js_union(given, &value);
        if (!graph)
            graph = kind && !strcmp(kind, "as_graph") ? js_object(value, "graph") : NULL;
        else if (kind && json_is_array(value))
            json_array_extend(taken, value);
        else
            json_array_append(taken, given);
    }
    json_array_foreach(js_array(graph, "inputs"), k, item)
    {
        json_t *given = json_array_get(taken, k);
        const char *name = js_string(given, "name") ? js_string(given, "name") : pt2_name_of(given);
        if (pt2_name_of(item) && name && js_string(roots, name))
            json_object_set_new(inner, pt2_name_of(item), json_string(js_string(roots, name)));
    }
    note_graph(p, graph, inner, written);
    size_t at = 0;
    json_array_foreach(js_array(node, "outputs"), k, item)
    {
        js_union(item, &value);
        for (i = 0; i < (json_is_array(value) ? json_array_size(value) : 1); i++, at++) {
            const char *name = pt2_name_of(json_array_get(js_array(graph, "outputs"), at));
            set_root(roots, json_is_array(value) ? json_array_get(value, i) : value,
                     name ? js_string(inner, name) : NULL);
        }
    }
}

/* The name of which result k of the node may be another one. */
static const char *operand_name(json_t *node, size_t k)
{
    json_t *first = json_object_get(json_array_get(js_array(node, "inputs"), 0), "arg"), *value;
    const char *kind = js_union(first, &value);
    if (!kind || !json_is_array(value))
        return kind ? pt2_name_of(first) : NULL;
    return js_string(json_array_get(value, k), "name");
}

static void note_writes(struct pt2 *p, json_t *node, json_t *roots, json_t *written)
{
    const int sharing = ATEN_VIEW | ATEN_KEEPS | ATEN_PASSES;
    const char *target = js_string(node, "target");
    json_t *inputs = js_array(node, "inputs"), *outputs = js_array(node, "outputs"), *items;
    const struct aten_row *row = target ? pt2_row(target) : NULL;
    bool in_place = target && !row && pt2_row_in_place(p, target);
    size_t k, i, at = 0;
    const char *out =
        row && pt2_is_out_form(target) ? pt2_name_of(json_object_get(input_named(inputs, "out"), "arg")) : NULL;
    if (in_place)
        mark(written, roots, operand_name(node, 0));
    if (out) {
        mark(written, roots, out);
        js_union(json_array_get(outputs, 0), &items);
        set_root(roots, items, js_string(roots, out));
    }
    if (row && row->flags & ATEN_STATISTICS && json_is_true(argument(inputs, "training"))) {
        mark(written, roots, pt2_name_of(json_object_get(input_named(inputs, "running_mean"), "arg")));
        mark(written, roots, pt2_name_of(json_object_get(input_named(inputs, "running_var"), "arg")));
    }
    if (row && row->flags & ATEN_CALLS)
        note_call(p, node, roots, written);
    else if (in_place || (row && row->flags & sharing && !out))
        for (k = 0; k < json_array_size(outputs); k++) {
            js_union(json_array_get(outputs, k), &items);
            for (i = 0; i < (json_is_array(items) ? json_array_size(items) : 1); i++, at++) {
                const char *name = operand_name(node, at);
                set_root(roots, json_is_array(items) ? json_array_get(items, i) : items,
                         name ? js_string(roots, name) : NULL);
            }
        }
}

static void note_graph(struct pt2 *p, const json_t *graph, json_t *roots, json_t *written)
{
    size_t k;
    json_t *node;
    if (p->depth++ < PT2_MAX_DEPTH)
        json_array_foreach(js_array(graph, "nodes"), k, node) note_writes(p, node, roots, written);
    p->depth--;
}

/* Names of inputs that the program writes to: {name: true}, in place or by the signature. */
static json_t *written_inputs(struct pt2 *p)
{
    const json_t *graph = js_object(module_of(p), "graph"), *signature = js_object(module_of(p), "signature");
    json_t *roots = json_object(), *written = json_object(), *item, *value;
    size_t k;
    p->depth = 0;
    VEC_PUSH(p->ctx, p->archive->held, roots);
    VEC_PUSH(p->ctx, p->archive->held, written);
    json_array_foreach(js_array(graph, "inputs"), k, item) if (pt2_name_of(item))
        json_object_set_new(roots, pt2_name_of(item), json_string(pt2_name_of(item)));
    note_graph(p, graph, roots, written);
    json_array_foreach(js_array(signature, "output_specs"), k, item)
    {
        const char *kind = js_union(item, &value);
        for (const char *const *key = (const char *const[]){"buffer_name", "parameter_name", "user_input_name", NULL};
             kind && *key; key++)
            if (strstr(kind, "mutation") && js_string(value, *key))
                json_object_set_new(written, js_string(value, *key), json_true());
    }
    return written;
}

/* -- Inputs */

/* min_val and max_val; what is not there is unbounded. */
static void bound_symbols(struct pt2 *p)
{
    const char *name;
    json_t *range;
    json_object_foreach(js_object(p->archive->program, "range_constraints"), name, range)
    {
        int64_t lo = js_int(range, "min_val", 0), hi = js_int(range, "max_val", IMP_MAX_DIM);
        ir_sym_bounded(p->ctx, pt2_dim_name(p, name), lo < 0 ? 0 : lo, hi > IMP_MAX_DIM || hi < lo ? IMP_MAX_DIM : hi);
    }
}

struct input {
    const char *name, *kind;  /* in the graph; of its specification */
    const char *outer;        /* the parameter's, buffer's or constant's name */
    ir_type type;             /* the caller's; NULL: not a tensor */
    ir_expr number;           /* the caller's integer */
    struct ir_tensor *tensor; /* kept by the importer */
    uint64_t storage;
    bool requires_grad, written;
};

static bool read_tensor(struct pt2 *p, struct input *in, bool constant)
{
    in->tensor = pt2_tensor(p->archive, in->outer, constant, &in->storage);
    if (!in->tensor)
        return false;
    imp_keep(p->im, in->tensor);
    const json_t *meta = pt2_meta(p, in->name);
    in->requires_grad = json_is_true(json_object_get(meta, "requires_grad"));
    if (meta && (int)pt2_held_type(meta) != in->tensor->dtype)
        return imp_bad(p->im, "tensor '%s': the program and the data differ in its element type", in->outer);
    return true;
}

static bool read_user_input(struct pt2 *p, struct input *in, json_t *argument)
{
    if (!in->name)
        return true; /* a constant of the call */
    const json_t *meta = pt2_meta(p, in->name);
    if (meta) {
        in->type = pt2_meta_type(p, meta);
        return in->type != NULL;
    }
    json_t *value;
    const char *kind = js_union(argument, &value);
    if (!kind || strcmp(kind, "as_sym_int"))
        return imp_unsupported(p->im, "input '%s' of kind %s", in->name, kind ? kind : "unknown");
    in->number = pt2_meta_size(p, js_object(js_object(p->at.scope->graph, "sym_int_values"), in->name));
    if (!in->number)
        return imp_unsupported(p->im, "input '%s' is an integer that is written in no known way", in->name);
    in->type = ir_scalar_type(p->ctx, TCC_I64);
    return true;
}

static bool read_input(struct pt2 *p, json_t *argument, json_t *spec, json_t *written, struct input *in)
{
    static const struct {
        const char *kind, *key;
        bool constant;
    } kinds[] = {{"parameter", "parameter_name", false},
                 {"buffer", "buffer_name", false},
                 {"tensor_constant", "tensor_constant_name", true}};
    json_t *value;
    in->kind = js_union(spec, &value);
    in->name = pt2_name_of(argument);
    if (!in->kind)
        return imp_bad(p->im, "an input without a specification");
    in->written = in->name && json_object_get(written, in->name);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(in->kind, kinds[k].kind))
            continue;
        in->outer = js_string(value, kinds[k].key);
        if (!in->outer || !in->name)
            return imp_bad(p->im, "a %s without a name", in->kind);
        in->written |= json_object_get(written, in->outer) != NULL;
        /* Buffers that are not saved with the module are constants of the program. */
        bool saved = !kinds[k].constant &&
                     (js_object(p->archive->weights, in->outer) || !js_object(p->archive->constants, in->outer));
        return read_tensor(p, in, !saved);
    }
    if (!strcmp(in->kind, "user_input"))
        return read_user_input(p, in, argument);
    if (!strcmp(in->kind, "constant_input") || !strcmp(in->kind, "token"))
        return true;
    return imp_unsupported(p->im, "an input of kind %s", in->kind);
}

/* -- Values of inputs */

static bool is_state(const struct pt2 *p, const struct input *in)
{
    bool parameter = !strcmp(in->kind, "parameter") && tcc_is_float((enum tcc_dtype)in->tensor->dtype);
    return p->im->training ? parameter || in->written : in->written;
}

/* Names of one storage are one variable; what has no elements lies nowhere. */
static struct ir_state *state_for(struct pt2 *p, const struct input *in)
{
    const char *name = in->outer;
    bool none = !in->tensor->nelems;
    for (int k = 0; k < p->storages.n && !none; k++) {
        if (p->storages.at[k].storage == in->storage)
            name = p->storages.at[k].name;
    }
    struct ir_state *s = ir_state_by_name(p->im->module, name);
    ir_type type = ir_tensor_type_i(p->ctx, (enum tcc_dtype)in->tensor->dtype, in->tensor->rank, in->tensor->dims);
    if (s && s->type == type)
        return s;
    bool trained = !strcmp(in->kind, "parameter") && in->requires_grad && !in->written && p->im->training;
    if (!none)
        VEC_PUSH(p->ctx, p->storages, (struct pt2_shared){in->storage, in->outer});
    return ir_state_new(p->im->module, ir_intern(p->ctx, in->outer), type, ir_tensor_ref(in->tensor),
                        trained ? IR_STATE_PARAM : IR_STATE_BUFFER);
}

static bool bind_input(struct pt2 *p, const struct input *in, ir_type pinned)
{
    struct imp *im = p->im;
    struct pt2_value *v = in->name ? pt2_bind(p, in->name) : NULL;
    if (!in->name || !strcmp(in->kind, "constant_input"))
        return true;
    if (!v)
        return false;
    if (!strcmp(in->kind, "token")) { /* it orders effects, and holds nothing */
        v->number = true;
        return (v->v = imp_int(im, TCC_I64, 0)) != NULL;
    }
    if (in->tensor && is_state(p, in)) {
        v->state = state_for(p, in);
        v->v = ir_read_state(&im->b, v->state);
    } else if (in->tensor) {
        v->v = imp_const(im, ir_tensor_ref(in->tensor));
        if (v->v && im->keeps_weights && tcc_is_float((enum tcc_dtype)in->tensor->dtype) && in->tensor->rank > 1)
            v->v = ir_reshape_to(&im->b, v->v, v->v->type->rank, v->v->type->dim);
        if (v->v && !v->v->name && in->outer)
            v->v->name = ir_intern(p->ctx, in->outer);
    } else {
        const char *why = ir_type_impossible(pinned);
        if (why)
            return imp_bad(im, "input '%s' is %s: %s", in->name, ir_type_text(p->ctx, pinned), why);
        v->v = ir_input_new(im->func, pinned, ir_intern(p->ctx, in->name));
        v->input = v->name;
    }
    v->complex = pt2_meta_complex(pt2_meta(p, in->name));
    if (in->number) {
        v->number = true;
        v->e = in->number;
        return v->e->kind != IR_X_SYM ||
               ir_build(&im->b, IR_bind, 1, &v->v, IR_ATTRS(ir_attr_exprs(IR_ATTR_syms, 1, &v->e))) != NULL;
    }
    VEC_PUSH(p->ctx, p->memory, v);
    return v->v != NULL;
}

static bool make_inputs(struct pt2 *p, const struct frontend_options *o, json_t *written)
{
    json_t *inputs = js_array(p->at.scope->graph, "inputs"),
           *specs = js_array(js_object(module_of(p), "signature"), "input_specs");
    size_t n = json_array_size(inputs);
    struct input *in = IR_NEWN(p->ctx, n + 1, struct input);
    const char **names = IR_NEWN(p->ctx, n + 1, const char *);
    ir_type *types = IR_NEWN(p->ctx, n + 1, ir_type);
    ir_expr *numbers = IR_NEWN(p->ctx, n + 1, ir_expr);
    int users = 0, at = 0;
    if (!inputs || json_array_size(specs) != n)
        return imp_bad(p->im, "its inputs and their specifications differ in number");
    for (size_t k = 0; k < n; k++) {
        if (!read_input(p, json_array_get(inputs, k), json_array_get(specs, k), written, &in[k]))
            return false;
        if (!in[k].type)
            continue;
        names[users] = in[k].name;
        numbers[users] = in[k].number;
        types[users++] = in[k].type;
    }
    p->im->pins = (struct frontend_pins){0};
    pt2_name_sizes(p, users, types, numbers);
    if (!frontend_pin(p->ctx, o, users, names, types, &p->im->pins))
        return false;
    imp_pin_facts(p->im, users, types);
    for (size_t k = 0; k < n; k++) {
        in[k].number = in[k].type ? numbers[at] : NULL;
        if (!bind_input(p, &in[k], in[k].type ? types[at] : NULL))
            return false;
        at += in[k].type != NULL;
    }
    return true;
}

/* -- Outputs */

struct outputs {
    VEC(struct ir_value *) values;
    VEC(const char *) names;
};

static bool add_output(struct pt2 *p, struct outputs *to, const char *name, struct ir_value *v)
{
    if (!v)
        return false;
    name = *name ? ir_intern(p->ctx, name) : ir_internf(p->ctx, "output_%d", to->values.n);
    const char *first = name;
    for (int k = 0, copy = 1; k < to->names.n; k++) {
        if (to->names.at[k] != name)
            continue;
        name = ir_internf(p->ctx, "%s.%d", first, copy++);
        k = -1;
    }
    VEC_PUSH(p->ctx, to->values, v);
    VEC_PUSH(p->ctx, to->names, name);
    return true;
}

static struct pt2_value *memory_named(struct pt2 *p, json_t *signature, const char *list, const char *key,
                                      const char *wanted)
{
    json_t *specs = js_array(signature, list), *inputs = js_array(p->at.scope->graph, "inputs"), *value;
    for (size_t k = 0; wanted && k < json_array_size(specs) && k < json_array_size(inputs); k++) {
        js_union(json_array_get(specs, k), &value);
        const char *name = pt2_name_of(json_array_get(inputs, k)), *outer = js_string(value, key);
        if (name && outer && !strcmp(outer, wanted))
            return pt2_lookup(p, name);
    }
    return NULL;
}

/* What the signature says of output k. */
static bool make_output(struct pt2 *p, json_t *spec, struct pt2_value *v, struct outputs *to)
{
    json_t *value, *signature = js_object(module_of(p), "signature");
    const char *kind = js_union(spec, &value), *name = v->name;
    struct pt2_value *target = NULL;
    if (!kind)
        return imp_bad(p->im, "an output without a specification");
    if (v->refused || !strcmp(kind, "token"))
        return true;
    if (!strcmp(kind, "buffer_mutation"))
        target = memory_named(p, signature, "input_specs", "buffer_name", js_string(value, "buffer_name"));
    else if (!strcmp(kind, "parameter_mutation"))
        target = memory_named(p, signature, "input_specs", "parameter_name", js_string(value, "parameter_name"));
    else if (!strcmp(kind, "user_input_mutation") && js_string(value, "user_input_name"))
        target = pt2_lookup(p, js_string(value, "user_input_name"));
    if (strstr(kind, "mutation"))
        return target && !target->number ? pt2_write(p, target, pt2_read(p, v))
                                         : imp_bad(p->im, "a mutation of something that is no input");
    const char *of =
        js_string(value, "parameter_name") ? js_string(value, "parameter_name") : js_string(value, "user_input_name");
    if (!strncmp(kind, "gradient_to", 11) && of)
        name = ir_internf(p->ctx, "grad.%s", of);
    else if (strcmp(kind, "user_output") && strcmp(kind, "loss_output"))
        return imp_unsupported(p->im, "an output of kind %s", kind);
    struct ir_value *out = v->number ? pt2_number(p, v) : pt2_read(p, v);
    return (v->number && !out) || add_output(p, to, name, out); /* None is no output */
}

/* Writes to state, and to inputs of the caller's. A function that only infers from a program that is trained changes
 * nothing. */
static bool leave_memory(struct pt2 *p, struct outputs *to)
{
    for (int k = 0; k < p->mutated.n; k++) {
        struct pt2_value *v = p->mutated.at[k];
        if (v->state && !p->eval && !ir_write_state(&p->im->b, v->state, v->v))
            return false;
        if (v->input && !add_output(p, to, ir_internf(p->ctx, "%s.after", v->input), v->v))
            return false;
    }
    return true;
}

static bool make_outputs(struct pt2 *p, struct pt2_value **outs)
{
    json_t *specs = js_array(js_object(module_of(p), "signature"), "output_specs");
    size_t n = json_array_size(js_array(p->at.scope->graph, "outputs"));
    struct outputs to = {0};
    if (json_array_size(specs) != n)
        return imp_bad(p->im, "its outputs and their specifications differ in number");
    p->im->b.where = p->archive->where;
    for (size_t k = 0; k < n; k++) {
        if (!make_output(p, json_array_get(specs, k), outs[k], &to))
            return false;
    }
    return leave_memory(p, &to) && ir_return(&p->im->b, to.values.n, to.values.at, to.names.at) != NULL;
}

/* -- Functions */

static bool import_func(struct imp *im, const struct frontend_options *o)
{
    struct pt2 *p = (struct pt2 *)im;
    json_t *graph = js_object(module_of(p), "graph"), *written = written_inputs(p);
    struct pt2_scope scope;
    im->nodes = 0;
    im->refusals.n = 0;
    im->stream = 0;
    im->refused = false;
    im->b = (struct ir_builder){.ctx = im->ctx, .func = im->func, .block = im->func->body, .where = p->archive->where};
    p->eval = im->training && !im->train;
    p->mutated.n = p->memory.n = p->depth = 0;
    p->at.scope = NULL;
    p->autocast = TCC_NONE;
    if (im->train) {
        memset(&p->signs, 0, sizeof p->signs);
        memset(&p->core, 0, sizeof p->core);
        p->core.is = pt2_is_core(p);
    }
    if (!graph)
        return imp_bad(im, "it has no graph");
    pt2_push_scope(p, &scope, graph);
    struct pt2_value **outs = IR_NEWN(p->ctx, json_array_size(js_array(graph, "outputs")) + 1, struct pt2_value *);
    bool fine = make_inputs(p, o, written) && pt2_guards(p) && pt2_graph(p, graph, outs);
    if (im->again)
        return false;
    fine = fine && (im->refusals.n || make_outputs(p, outs));
    if (im->refusals.n)
        imp_report_refusals(im);
    return fine && !im->refusals.n;
}

static struct ir_module *import_program(struct pt2 *p, const struct frontend_options *o)
{
    struct imp *im = p->im;
    im->module = ir_module_new(im->ctx, im->path);
    im->exact = o && o->exact;
    im->one_version = o && o->one_version;
    im->training = o && o->training;
    im->keeps_weights = o && o->keeps_weights;
    im->sync_bn = o && o->sync_bn;
    bound_symbols(p);
    if (!imp_main_and_train(im, o, import_func))
        return NULL;
    if (im->training) {
        imp_warn_signs(im, &p->signs);
        pt2_core_warn(p);
    }
    return im->module;
}

/* Out of memory jumps to whoever protected the context; a frame of our own sees to it that the archive is closed on
 * that way too. */
struct ir_module *pt2_import(struct ir_ctx *ctx, const char *path, const struct frontend_options *o)
{
    struct pt2_archive archive = {0};
    struct ir_protect frame;
    struct ir_module *volatile module = NULL;
    struct pt2 *volatile held = NULL;
    volatile bool no_memory = true;
    if (IR_PROTECT(ctx, &frame)) {
        if (pt2_open(&archive, ctx, path)) {
            struct pt2 *p = held = IR_NEW(ctx, struct pt2);
            p->im = &p->builder;
            p->ctx = p->im->ctx = ctx;
            p->im->path = path;
            p->im->line = pt2_line;
            p->archive = &archive;
            module = import_program(p, o);
        }
        no_memory = false;
        ir_unprotect(ctx);
    }
    for (int k = 0; held && k < held->im->kept.n; k++)
        ir_tensor_unref(held->im->kept.at[k]);
    pt2_close(&archive);
    if (no_memory)
        ir_no_memory(ctx);
    return module;
}
