/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs that a model to be trained was exported for inference. Exporters make initialisers of equal value one
 * (LayerNorm scales of ones, layers that were copied from one another), so that training would tie them; and they fold
 * BatchNormalization into convolutions and drop Dropout. torch.onnx.export does both unless it is told otherwise
 * (doc/exporting.md).
 */
#include "compiler/onnx/import_int.h"

#include <stdlib.h>
#include <string.h>

#define NAMED 4 /* initialisers that a warning names */

/* Operators that give the same numbers on, and those that take a part of them, or look at something else. */
static const char *const passed_on[] = {"Identity", "Transpose", "Cast",    "CastLike",
                                        "Reshape",  "Unsqueeze", "Squeeze", "Flatten"};
static const char *const parts[] = {"Slice", "Split", "Gather", "Concat", "Shape", "Expand"};

struct use {
    const struct onnx_tensor *t;
    const struct onnx_node *first;
    size_t slot; /* of that node */
    int count;
    bool alike; /* another node of the same operator takes it in the same place */
};

struct alias {
    const char *name;
    struct use *of;
};

struct uses {
    struct use *at;
    int n;
    struct {
        struct alias *at;
        int n, cap;
    } aliases; /* outputs of what passes them on */
};

static int by_name(const void *a, const void *b)
{
    const struct use *x = a, *y = b;

    return strcmp(x->t->name, y->t->name);
}

static int name_of(const void *name, const void *use)
{
    return strcmp(name, ((const struct use *)use)->t->name);
}

static struct use *find(const struct uses *u, const char *name)
{
    struct use *found = u->n ? bsearch(name, u->at, (size_t)u->n, sizeof *u->at, name_of) : NULL;

    for (int k = 0; !found && k < u->aliases.n; k++)
        if (!strcmp(u->aliases.at[k].name, name))
            found = u->aliases.at[k].of;
    return found;
}

static bool is_one_of(const char *op, const char *const *names, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (!strcmp(op, names[k]))
            return true;
    return false;
}
#define IS_ONE_OF(op, names) is_one_of(op, names, sizeof(names) / sizeof *(names))

static void note(struct use *x, const struct onnx_node *n, size_t slot)
{
    if (!x->count++) {
        x->first = n;
        x->slot = slot;
    } else if (n != x->first && slot == x->slot && !strcmp(n->op, x->first->op)) {
        x->alike = true;
    }
}

/* All elements equal, as first values of norms and biases are. */
static bool is_splat(struct imp *im, const struct onnx_tensor *t)
{
    const struct ir_tensor *data = imp_tensor_data(im, t);
    size_t size = data ? (size_t)tcc_dtype_bytes((enum tcc_dtype)data->dtype) : 0;

    return data && data->nelems > 1 &&
           !memcmp(data->data, (const char *)data->data + size, size * (size_t)(data->nelems - 1));
}

static void warn_merged(struct imp *im)
{
    const struct onnx_graph *g = im->model->graph;
    struct uses u = {.at = IR_NEWN(im->ctx, g->init_count + 1, struct use)};
    const char *names = "";
    int merged = 0;

    for (size_t k = 0; k < g->init_count; k++)
        if (g->inits[k].rank && g->inits[k].count > 1 && imp_is_parameter(im, &g->inits[k]))
            u.at[u.n++].t = &g->inits[k];
    qsort(u.at, (size_t)u.n, sizeof *u.at, by_name);
    for (size_t k = 0; k < g->node_count; k++) {
        const struct onnx_node *n = &g->nodes[k];
        for (size_t i = 0; i < n->input_count; i++) {
            struct use *x = find(&u, n->inputs[i]);
            if (x && i == 0 && n->output_count == 1 && IS_ONE_OF(n->op, passed_on))
                VEC_PUSH(im->ctx, u.aliases, (struct alias){n->outputs[0], x});
            else if (x && !IS_ONE_OF(n->op, parts))
                note(x, n, i);
        }
    }
    for (int k = 0; k < u.n; k++) {
        const struct use *x = &u.at[k];
        if (x->count < 2 || (!x->alike && !is_splat(im, x->t)))
            continue;
        if (merged++ < NAMED)
            names = ir_internf(im->ctx, "%s%s'%s' (%d nodes)", names, *names ? ", " : "", x->t->name, x->count);
    }
    struct ir_where where = {.file = im->path};
    if (merged)
        ir_diag(im->ctx, &where, IR_D_WARNING,
                "%d initialiser%s of floats feed%s several nodes and will be trained as one: %s; exporters merge equal "
                "first values: unless the model shares them, export it for training (doc/exporting.md)",
                merged, merged > 1 ? "s" : "", merged > 1 ? "" : "s",
                merged > NAMED ? ir_internf(im->ctx, "%s, ...", names) : names);
}

static bool is_counted(const char *name, const char *stem)
{
    size_t n = strlen(stem);
    return !strncmp(name, stem, n) && name[n] && !name[n + strspn(name + n, "0123456789_")];
}

/* Names that exporters give to what they have computed: onnx::Conv_24, val_23; of a weight 0.weight, 0.weight_bias. */
static bool is_made_up(const char *name, const char *weight)
{
    size_t n = strlen(weight);
    return !strncmp(name, "onnx::", 6) || is_counted(name, "val_") ||
           (n && !strncmp(name, weight, n) && !strcmp(name + n, "_bias"));
}

static bool is_initializer(const struct onnx_graph *g, const char *name)
{
    for (size_t k = 0; k < g->init_count; k++)
        if (!strcmp(g->inits[k].name, name))
            return true;
    return false;
}

/* A convolution or product. BatchNormalization gives several results in PyTorch, so that the exporter calls the first
 * getitem: a name that outlives the folding. */
static void note_product(struct imp_export_signs *s, const struct onnx_graph *g, const struct onnx_node *n)
{
    bool convolution = strcmp(n->op, "Gemm") != 0;
    bool bias = n->input_count > 2 && n->inputs[2][0] && is_initializer(g, n->inputs[2]);

    s->biased += convolution && bias;
    s->plain += convolution && !bias;
    s->made += bias && (is_made_up(n->inputs[2], n->inputs[1]) || !strcmp(n->outputs[0], "getitem") ||
                        is_counted(n->outputs[0], "getitem_"));
}

static void warn_inference(struct imp *im)
{
    const struct onnx_graph *g = im->model->graph;
    struct imp_export_signs s = {0};

    for (size_t k = 0; k < g->node_count; k++) {
        const struct onnx_node *n = &g->nodes[k];
        if (!strcmp(n->op, "Dropout"))
            s.dropouts++;
        else if (strstr(n->op, "Normalization"))
            s.norms++;
        else if (!strcmp(n->op, "Conv") || !strcmp(n->op, "ConvTranspose") || !strcmp(n->op, "Gemm"))
            note_product(&s, g, n);
    }
    imp_warn_signs(im, &s);
}

void imp_warn_export(struct imp *im)
{
    if (!im->frozen)
        warn_merged(im);
    warn_inference(im);
}
