/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initialisers that are inputs too. From IR version 4 on these are values that a caller may replace; before it every
 * initialiser had to be listed, and nobody meant anything by it. @main takes them as constants, whose values are folded
 * and packed; a call that gives some of them runs @main.given, imported a second time with all of them as inputs
 * (ir_default). What that costs, a second plan and the values once more, is paid without being asked for where the
 * values are few.
 */
#include "compiler/onnx/import_int.h"

#include <string.h>

#define WITHOUT_ASKING (INT64_C(1) << 20) /* bytes of all values */
#define FIRST_WITH_DEFAULTS 4             /* IR version */

static const struct onnx_tensor *imp_initializer_of(const struct onnx_graph *g, const char *name)
{
    for (size_t k = 0; k < g->init_count; k++)
        if (!strcmp(g->inits[k].name, name))
            return &g->inits[k];
    return NULL;
}

bool imp_is_initializer(const struct onnx_graph *g, const char *name)
{
    for (size_t k = 0; k < g->sparse_count; k++)
        if (!strcmp(g->sparse[k].values->name, name))
            return true;
    return imp_initializer_of(g, name) != NULL;
}

bool imp_is_given(const struct imp *im, const char *name)
{
    for (int k = 0; k < im->defaults.n && im->given; k++)
        if (!strcmp(im->defaults.at[k]->name, name))
            return true;
    return false;
}

/* Can a call replace it? Not what is sparse or of strings, or not of the type that the input is said to have. */
static bool replaceable(const struct imp *im, const struct onnx_value_info *in)
{
    const struct onnx_tensor *t = imp_initializer_of(im->model->graph, in->name);
    return t && t->dtype != ONNX_STRING && in->type && in->type->kind == ONNX_TYPE_TENSOR &&
           in->type->dtype == t->dtype;
}

/* Is `name` among the names in `list`, separated by commas? */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = list; s; s = strchr(s, ',')) {
        s += *s == ',';
        if (!strncmp(s, name, n) && (s[n] == ',' || !s[n]))
            return true;
    }
    return false;
}

static int64_t bytes_of_all(const struct imp *im)
{
    const struct onnx_graph *g = im->model->graph;
    int64_t bytes = 0;
    for (size_t k = 0; k < g->input_count; k++) {
        const struct onnx_tensor *t = replaceable(im, &g->inputs[k]) ? imp_initializer_of(g, g->inputs[k].name) : NULL;
        int64_t n = t ? tcc_elements((int)t->rank, t->dims) : 0;
        if (n > WITHOUT_ASKING)
            return n;
        bytes += n ? n * tcc_dtype_bytes((enum tcc_dtype)t->dtype) : 0;
    }
    return bytes;
}

/* Every name of the option must be one of them. */
static bool names_are_there(struct imp *im, const char *list)
{
    struct ir_where w = {.file = im->path};
    for (const char *s = list; s; s = strchr(s, ',')) {
        s += *s == ',';
        const struct onnx_graph *g = im->model->graph;
        size_t n = strcspn(s, ","), k = 0;
        while (k < g->input_count && (strncmp(g->inputs[k].name, s, n) || g->inputs[k].name[n]))
            k++;
        if (k < g->input_count && replaceable(im, &g->inputs[k]))
            continue;
        return ir_diag(im->ctx, &w, IR_D_USAGE,
                       "--defaults: '%.*s' is no initialiser that is an input, too, and of numbers", (int)n, s);
    }
    return true;
}

bool imp_choose_defaults(struct imp *im, const struct frontend_options *o)
{
    const struct onnx_graph *g = im->model->graph;
    const char *which =
        o && o->defaults && !o->training && !o->one_version && !(o->states && o->states[0]) ? o->defaults : "none";
    bool automatic = !strcmp(which, "auto"), all = !strcmp(which, "all"), none = !strcmp(which, "none");
    if (automatic)
        all = im->model->ir_version >= FIRST_WITH_DEFAULTS && bytes_of_all(im) <= WITHOUT_ASKING;
    if (!automatic && !all && !none && !names_are_there(im, which))
        return false;
    im->may_fail = automatic;
    for (size_t k = 0; k < g->input_count; k++)
        if (replaceable(im, &g->inputs[k]) && (all || (!automatic && !none && listed(which, g->inputs[k].name))))
            VEC_PUSH(im->ctx, im->defaults, &g->inputs[k]);
    return true;
}

/* Tells the module of all of them, in the order of the inputs. */
static bool note_defaults(struct imp *im)
{
    const struct onnx_graph *g = im->model->graph;
    im->given = true;
    for (size_t k = 0; k < g->input_count; k++) {
        const char *name = g->inputs[k].name;
        struct ir_tensor *value = imp_is_given(im, name) ? imp_tensor_data(im, imp_initializer_of(g, name)) : NULL;
        if (imp_is_given(im, name) && !value)
            return false;
        if (imp_is_initializer(g, name))
            ir_default_new(im->module, name, ir_tensor_ref(value));
    }
    return true;
}

/* @main.given. Where nobody asked for it, a model that makes no sense with these values unknown has only @main. */
bool imp_given(struct imp *im, const struct frontend_options *o,
               bool (*import)(struct imp *, const struct frontend_options *))
{
    struct ir_func *last = im->module->last_func;
    if (im->defaults.n) {
        im->given = true;
        ir_quiet(im->ctx, im->may_fail);
        bool fine = imp_versions(im, o, IR_GIVEN, import);
        ir_quiet(im->ctx, false);
        if (!fine && !im->may_fail)
            return false;
        if (!fine) {
            ir_detail(im->ctx,
                      "%s: values of inputs are compiled in, since the model cannot do without them "
                      "(--defaults=all says why)",
                      ir_shown(im->path));
            while (im->module->last_func != last)
                ir_func_remove(im->module->last_func);
            im->defaults.n = 0;
            im->refusals.n = 0;
        }
    }
    return note_defaults(im);
}
