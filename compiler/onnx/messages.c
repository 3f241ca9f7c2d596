/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each message of ONNX must hold beyond its wire format (onnx_finish_*, named by wire.def): checks of messages
 * whose fields are read, and what their structures say in one way where files have several.
 */
#include "compiler/onnx/decode_int.h"

#include <string.h>

#define FAIL(...) onnx_fail(r->err, ONNX_BAD_FILE, __VA_ARGS__)

enum { MAX_DIMS = 64 };

static const struct onnx_type no_type; /* of kind NONE */

/* ONNX writes its own domain in two ways. */
static void shorten_domain(const char **domain)
{
    if (!strcmp(*domain, "ai.onnx"))
        *domain = "";
}

bool onnx_finish_none(struct onnx_reader *r, const struct onnx_frame *f)
{
    (void)r, (void)f;
    return true;
}

/* -- Types ----------------------------------------------------------------------------------------------------- */

bool onnx_finish_dim(struct onnx_reader *r, const struct onnx_frame *f)
{
    struct onnx_dim *d = f->to;
    if (f->seen[1] && f->seen[2])
        return FAIL("a dim with a value and a name");
    if (!f->seen[1] || d->value < 0) /* old exporters write -1 for unknown */
        d->value = -1;
    return true;
}

bool onnx_finish_shape(struct onnx_reader *r, const struct onnx_frame *f)
{
    struct onnx_type *t = f->to;
    t->has_shape = true;
    return t->rank <= MAX_DIMS || FAIL("a type with %u dims; at most %d are read", t->rank, MAX_DIMS);
}

/* The type of elements, of a map the type of its keys. */
bool onnx_finish_element(struct onnx_reader *r, const struct onnx_frame *f)
{
    int elem = (int)((const struct onnx_type *)f->to)->dtype;
    return (elem >= 0 && elem < ONNX_DTYPE_COUNT) ||
           FAIL("a type with element type %d; ONNX defines 1 to %d", elem, ONNX_DTYPE_COUNT - 1);
}

bool onnx_finish_type(struct onnx_reader *r, const struct onnx_frame *f)
{
    static const struct {
        uint8_t field, kind;
    } kinds[] = {{1, ONNX_TYPE_TENSOR},
                 {8, ONNX_TYPE_SPARSE},
                 {4, ONNX_TYPE_SEQUENCE},
                 {9, ONNX_TYPE_OPTIONAL},
                 {5, ONNX_TYPE_MAP}};
    struct onnx_type *t = f->to;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (!f->seen[kinds[k].field])
            continue;
        if (t->kind != ONNX_TYPE_NONE)
            return FAIL("a type of two kinds");
        t->kind = (enum onnx_type_kind)kinds[k].kind;
    }
    if (!t->elem && t->kind >= ONNX_TYPE_SEQUENCE)
        t->elem = &no_type;
    return true;
}

bool onnx_finish_value_info(struct onnx_reader *r, const struct onnx_frame *f)
{
    struct onnx_value_info *v = f->to;
    (void)r;
    if (!v->type)
        v->type = &no_type;
    return true;
}

bool onnx_finish_sparse(struct onnx_reader *r, const struct onnx_frame *f)
{
    const struct onnx_sparse *s = f->to;
    return (s->values && s->indices && s->rank <= MAX_DIMS) ||
           FAIL("a sparse tensor without values or indices, or with more than %d dims", MAX_DIMS);
}

/* -- Nodes ------------------------------------------------------------------------------------------------------ */

/* Files from before the field `type` existed say it by what they fill. */
bool onnx_finish_attr(struct onnx_reader *r, const struct onnx_frame *f)
{
    static const struct {
        uint8_t field, type;
        bool list, message;
    } values[] = {{2, ONNX_ATTR_FLOAT, false, false},    {3, ONNX_ATTR_INT, false, false},
                  {4, ONNX_ATTR_STRING, false, false},   {5, ONNX_ATTR_TENSOR, false, true},
                  {6, ONNX_ATTR_GRAPH, false, true},     {22, ONNX_ATTR_SPARSE, false, true},
                  {14, ONNX_ATTR_TYPE, false, true},     {7, ONNX_ATTR_FLOATS, true, false},
                  {8, ONNX_ATTR_INTS, true, false},      {9, ONNX_ATTR_STRINGS, true, false},
                  {10, ONNX_ATTR_TENSORS, false, false}, {11, ONNX_ATTR_GRAPHS, true, false}};
    struct onnx_attr *a = f->to;
    int n = sizeof values / sizeof *values, type = (int)a->type;
    for (int k = 0; k < n && a->type == ONNX_ATTR_NONE; k++)
        if (values[k].list ? f->count[values[k].field] : f->seen[values[k].field])
            a->type = (enum onnx_attr_type)values[k].type;
    if (type < 0 || type >= ONNX_ATTR_TYPE_COUNT)
        return FAIL("attribute '%.100s': type %d; ONNX defines 1 to %d", a->name, type, ONNX_ATTR_TYPE_COUNT - 1);
    a->count = 0;
    for (int k = 0; k < n; k++) {
        if (values[k].type != a->type)
            continue;
        if (values[k].message && !f->seen[values[k].field] && !a->ref[0])
            return FAIL("attribute '%.100s': its value is missing", a->name);
        a->count = f->count[values[k].field];
    }
    if (a->type != ONNX_ATTR_GRAPHS)
        a->graphs = NULL;
    return true;
}

/* The text in front of the last one of "['', 'blocks.0', 'blocks.0.fc', 'linear_2']", which goes from the outermost
 * module to the operator. Changes the list. */
static const char *scope_of(char *list)
{
    char *last = strrchr(list, ','), *end = last, *at;
    while (end && end > list && *end != '\'')
        end--;
    for (at = end; at && at > list && at[-1] != '\'';)
        at--;
    if (!at || at == list)
        return "";
    *end = 0;
    return at;
}

/* Looks for the scope among a node's metadata, which holds long texts besides (stack traces). */
static void find_scope(struct onnx_reader *r, const struct onnx_frame *f, struct onnx_node *n)
{
    static const char key[] = "pkg.torch.onnx.name_scopes";
    struct wire_record entry = {0};
    while (wire_next(&entry, f->start, f->end)) {
        struct wire_record part = {0}, text[3] = {{0}};
        if (entry.number != 9)
            continue;
        while (wire_next(&part, entry.payload, entry.end))
            if (part.number < 3 && part.wire == WIRE_BYTES)
                text[part.number] = part;
        if (text[1].value != sizeof key - 1 || memcmp(text[1].payload, key, sizeof key - 1) != 0 || !text[2].value)
            continue;
        char *list = ir_arena_alloc(r->model->arena, (size_t)text[2].value + 1);
        n->scope = scope_of(memcpy(list, text[2].payload, (size_t)text[2].value));
    }
}

bool onnx_finish_node(struct onnx_reader *r, const struct onnx_frame *f)
{
    struct onnx_node *n = f->to;
    n->index = f->index;
    n->scope = "";
    shorten_domain(&n->domain);
    if (f->seen[9])
        find_scope(r, f, n);
    return true;
}

/* -- The model ---------------------------------------------------------------------------------------------------- */

bool onnx_finish_opset(struct onnx_reader *r, const struct onnx_frame *f)
{
    (void)r;
    shorten_domain(&((struct onnx_opset *)f->to)->domain);
    return true;
}

bool onnx_finish_function(struct onnx_reader *r, const struct onnx_frame *f)
{
    (void)r;
    shorten_domain(&((struct onnx_function *)f->to)->domain);
    return true;
}

bool onnx_finish_model(struct onnx_reader *r, const struct onnx_frame *f)
{
    /* Before operator sets had versions (IR versions 1 and 2) no model imported one. */
    static const struct onnx_opset first = {"", 1};
    struct onnx_model *m = f->to;
    if (!m->graph)
        return FAIL("not an ONNX model: it has no graph");
    if (!m->opset_count) {
        m->opsets = &first;
        m->opset_count = 1;
    }
    return true;
}
