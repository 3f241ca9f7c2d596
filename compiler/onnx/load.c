/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns protobuf-c's messages into the structures of onnx_int.h.
 *
 * The messages live in the model's arena, so strings and number lists are used where they are; each message becomes the
 * tidy structure once: no NULL strings, no has_ flags, lists as arrays. Recursion follows the nesting of the file,
 * which the scanner bounds.
 */
#include "compiler/onnx/load_int.h"

#include <string.h>

static const char *text(const char *s)
{
    return s ? s : "";
}

/* ONNX writes its own domain in two ways. */
static const char *domain_text(const char *s)
{
    return !s || !strcmp(s, "ai.onnx") ? "" : s;
}

static void *alloc(struct onnx_reader *r, size_t count, size_t size)
{
    void *p = onnx_arena_alloc(r->model->arena, count, size);
    if (!p)
        onnx_no_memory(r->err);
    return p;
}

/* NAME(r, from, n): the n messages that `from` lists, as an array of which `one` fills each; NULL after a report. */
#define ARRAY(name, type, message, one)                                           \
    static const type *name(struct onnx_reader *r, message const *from, size_t n) \
    {                                                                             \
        type *to = alloc(r, n, sizeof *to);                                       \
        for (size_t k = 0; to && k < n; k++)                                      \
            if (!one(r, from[k], &to[k]))                                         \
                return NULL;                                                      \
        return to;                                                                \
    }

static const char *const *names(struct onnx_reader *r, char *const *from, size_t n)
{
    const char **to = alloc(r, n, sizeof *to);
    for (size_t k = 0; to && k < n; k++)
        to[k] = text(from[k]);
    return to;
}

static bool string_of(struct onnx_reader *r, ProtobufCBinaryData from, struct onnx_str *to)
{
    char *copy = alloc(r, from.len + 1, 1); /* protobuf-c ends byte fields with no NUL */
    if (!copy)
        return false;
    if (from.len)
        memcpy(copy, from.data, from.len);
    *to = (struct onnx_str){copy, from.len};
    return true;
}

ARRAY(strings_of, struct onnx_str, ProtobufCBinaryData, string_of)

static const struct onnx_type *type_of(struct onnx_reader *r, const Onnx__TypeProto *p);

static bool tensor_type(struct onnx_reader *r, struct onnx_type *t, int32_t elem, const Onnx__TensorShapeProto *shape)
{
    if (elem < 0 || elem >= ONNX_DTYPE_COUNT)
        return onnx_fail(r->err, ONNX_BAD_FILE, "a type with element type %d; ONNX defines 1 to %d", elem,
                         ONNX_DTYPE_COUNT - 1);
    t->dtype = (enum onnx_dtype)elem;
    if (!shape)
        return true;
    if (shape->n_dim > 64)
        return onnx_fail(r->err, ONNX_BAD_FILE, "a type with %zu dims; at most 64 are read", shape->n_dim);
    struct onnx_dim *dims = alloc(r, shape->n_dim, sizeof *dims);
    if (!dims)
        return false;
    t->has_shape = true;
    t->rank = (uint32_t)shape->n_dim;
    t->dims = dims;
    for (uint32_t k = 0; k < t->rank; k++) {
        const Onnx__TensorShapeProto__Dimension *d = shape->dim[k];
        bool number = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        bool symbol = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        dims[k].value = number && d->dim_value >= 0 ? d->dim_value : -1; /* old exporters write -1 for unknown */
        dims[k].param = symbol ? text(d->dim_param) : "";
    }
    return true;
}

static const struct onnx_type *type_of(struct onnx_reader *r, const Onnx__TypeProto *p)
{
    struct onnx_type *t = alloc(r, 1, sizeof *t);
    if (!t || !p)
        return t;
    const Onnx__TypeProto *elem = NULL;
    switch (p->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        t->kind = ONNX_TYPE_TENSOR;
        return tensor_type(r, t, p->tensor_type->elem_type, p->tensor_type->shape) ? t : NULL;
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        t->kind = ONNX_TYPE_SPARSE;
        return tensor_type(r, t, p->sparse_tensor_type->elem_type, p->sparse_tensor_type->shape) ? t : NULL;
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        t->kind = ONNX_TYPE_SEQUENCE;
        elem = p->sequence_type->elem_type;
        break;
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        t->kind = ONNX_TYPE_OPTIONAL;
        elem = p->optional_type->elem_type;
        break;
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        t->kind = ONNX_TYPE_MAP;
        if (!tensor_type(r, t, p->map_type->key_type, NULL))
            return NULL;
        elem = p->map_type->value_type;
        break;
    default: return t;
    }
    t->elem = type_of(r, elem);
    return t->elem ? t : NULL;
}

static const struct onnx_tensor *onnx_load_tensor(struct onnx_reader *r, const Onnx__TensorProto *p)
{
    struct onnx_tensor *t = alloc(r, 1, sizeof *t);
    return t && onnx_read_tensor(r, p, t) ? t : NULL;
}

static const struct onnx_sparse *sparse_of(struct onnx_reader *r, const Onnx__SparseTensorProto *p)
{
    struct onnx_sparse *s = alloc(r, 1, sizeof *s);
    if (!s)
        return NULL;
    if (!p->values || !p->indices || p->n_dims > 64) {
        onnx_fail(r->err, ONNX_BAD_FILE, "a sparse tensor without values or indices, or with more than 64 dims");
        return NULL;
    }
    s->values = onnx_load_tensor(r, p->values);
    s->indices = s->values ? onnx_load_tensor(r, p->indices) : NULL;
    s->rank = (uint32_t)p->n_dims;
    s->dims = p->dims;
    return s->indices ? s : NULL;
}

static const struct onnx_graph *graph_of(struct onnx_reader *r, const Onnx__GraphProto *p);

/* Files from before the field `type` existed say it by what they fill. */
static enum onnx_attr_type attr_type(const Onnx__AttributeProto *p)
{
    if (p->has_type && p->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED)
        return (enum onnx_attr_type)p->type;
    return p->has_f           ? ONNX_ATTR_FLOAT
           : p->has_i         ? ONNX_ATTR_INT
           : p->has_s         ? ONNX_ATTR_STRING
           : p->t             ? ONNX_ATTR_TENSOR
           : p->g             ? ONNX_ATTR_GRAPH
           : p->sparse_tensor ? ONNX_ATTR_SPARSE
           : p->tp            ? ONNX_ATTR_TYPE
           : p->n_floats      ? ONNX_ATTR_FLOATS
           : p->n_ints        ? ONNX_ATTR_INTS
           : p->n_strings     ? ONNX_ATTR_STRINGS
           : p->n_tensors     ? ONNX_ATTR_TENSORS
           : p->n_graphs      ? ONNX_ATTR_GRAPHS
                              : ONNX_ATTR_NONE;
}

static bool attr_lists(struct onnx_reader *r, const Onnx__AttributeProto *p, struct onnx_attr *a)
{
    if (a->type == ONNX_ATTR_STRINGS) {
        a->count = p->n_strings;
        return (a->strings = strings_of(r, p->strings, p->n_strings)) != NULL;
    }
    if (a->type == ONNX_ATTR_TENSORS) {
        const struct onnx_tensor **list = alloc(r, p->n_tensors, sizeof *list);
        for (size_t k = 0; list && k < p->n_tensors; k++) {
            if (!(list[k] = onnx_load_tensor(r, p->tensors[k])))
                return false;
        }
        a->count = p->n_tensors;
        return (a->tensors = list) != NULL;
    }
    if (a->type == ONNX_ATTR_GRAPHS) {
        const struct onnx_graph **list = alloc(r, p->n_graphs, sizeof *list);
        for (size_t k = 0; list && k < p->n_graphs; k++) {
            if (!(list[k] = graph_of(r, p->graphs[k])))
                return false;
        }
        a->count = p->n_graphs;
        return (a->graphs = list) != NULL;
    }
    a->floats = p->floats;
    a->ints = p->ints;
    a->count = a->type == ONNX_ATTR_FLOATS ? p->n_floats : a->type == ONNX_ATTR_INTS ? p->n_ints : 0;
    return true;
}

static bool attr_of(struct onnx_reader *r, const Onnx__AttributeProto *p, struct onnx_attr *a)
{
    *a = (struct onnx_attr){
        .name = text(p->name), .ref = text(p->ref_attr_name), .f = p->f, .i = p->i, .type = attr_type(p)};
    if (a->type < 0 || a->type >= ONNX_ATTR_TYPE_COUNT)
        return onnx_fail(r->err, ONNX_BAD_FILE, "attribute '%.100s': type %d; ONNX defines 1 to %d", a->name, a->type,
                         ONNX_ATTR_TYPE_COUNT - 1);
    if (!string_of(r, p->s, &a->s))
        return false;
    if (a->ref[0])
        return true;
    bool wrong = (a->type == ONNX_ATTR_TENSOR && !p->t) || (a->type == ONNX_ATTR_GRAPH && !p->g) ||
                 (a->type == ONNX_ATTR_SPARSE && !p->sparse_tensor) || (a->type == ONNX_ATTR_TYPE && !p->tp);
    if (wrong)
        return onnx_fail(r->err, ONNX_BAD_FILE, "attribute '%.100s': its value is missing", a->name);
    if (a->type == ONNX_ATTR_TENSOR && !(a->tensor = onnx_load_tensor(r, p->t)))
        return false;
    if (a->type == ONNX_ATTR_GRAPH && !(a->graph = graph_of(r, p->g)))
        return false;
    if (a->type == ONNX_ATTR_SPARSE && !(a->sparse = sparse_of(r, p->sparse_tensor)))
        return false;
    if (a->type == ONNX_ATTR_TYPE && !(a->tp = type_of(r, p->tp)))
        return false;
    return attr_lists(r, p, a);
}

ARRAY(attrs_of, struct onnx_attr, Onnx__AttributeProto *, attr_of)

/* Calls `visit` with the bytes of each record of the moved field `number` that protobuf-c kept as unknown. */
static bool each_moved(struct onnx_reader *r, const ProtobufCMessage *m, uint32_t number, void *to,
                       bool (*visit)(struct onnx_reader *r, const uint8_t *bytes, size_t size, void *to))
{
    for (unsigned k = 0; k < m->n_unknown_fields; k++) {
        const ProtobufCMessageUnknownField *u = &m->unknown_fields[k];
        if (u->tag != number + ONNX_MOVED)
            continue;
        uint64_t pos = 0;
        uint64_t size;
        if (!onnx_read_varint(u->data, &pos, u->len, &size) || size > u->len - pos)
            return onnx_fail(r->err, ONNX_BAD_FILE, "a field newer than the schema is cut off");
        if (!visit(r, u->data + pos, (size_t)size, to))
            return false;
    }
    return true;
}

static bool moved_string(struct onnx_reader *r, const uint8_t *bytes, size_t size, void *to)
{
    char *copy = alloc(r, size + 1, 1);
    if (!copy)
        return false;
    if (size)
        memcpy(copy, bytes, size);
    *(const char **)to = copy;
    return true;
}

/* "['', 'blocks.0', 'blocks.0.fc', 'linear_2']", from the outermost module to the operator: the text in front of the
 * last one. */
static const char *scope_of(struct onnx_reader *r, const char *list)
{
    const char *last = strrchr(list, ','), *end = last, *at;
    while (end && end > list && *end != '\'')
        end--;
    for (at = end; at && at > list && at[-1] != '\'';)
        at--;
    if (!at || at == list)
        return "";
    char *scope = alloc(r, (size_t)(end - at) + 1, 1);
    return scope ? memcpy(scope, at, (size_t)(end - at)) : NULL;
}

/* One of a node's metadata. */
static bool moved_scope(struct onnx_reader *r, const uint8_t *bytes, size_t size, void *to)
{
    ProtobufCAllocator allocator = onnx_protobuf_allocator(r->model->arena);
    const Onnx__StringStringEntryProto *p = onnx__string_string_entry_proto__unpack(&allocator, size, bytes);
    if (!p)
        return onnx_fail(r->err, ONNX_BAD_FILE, "not a valid ONNX file: a node's metadata cannot be unpacked");
    if (!strcmp(text(p->key), "pkg.torch.onnx.name_scopes"))
        *(const char **)to = scope_of(r, text(p->value));
    return *(const char **)to != NULL;
}

static bool node_of(struct onnx_reader *r, const Onnx__NodeProto *p, size_t index, struct onnx_node *n)
{
    *n = (struct onnx_node){.name = text(p->name),
                            .op = text(p->op_type),
                            .domain = domain_text(p->domain),
                            .overload = "",
                            .scope = "",
                            .index = index,
                            .input_count = p->n_input,
                            .output_count = p->n_output,
                            .attr_count = p->n_attribute};
    n->inputs = names(r, p->input, p->n_input);
    n->outputs = names(r, p->output, p->n_output);
    n->attrs = attrs_of(r, p->attribute, p->n_attribute);
    if (!n->inputs || !n->outputs)
        return false;
    if (!n->attrs) {
        struct onnx_error inner = *r->err;
        r->err->status = ONNX_OK;
        return onnx_fail(r->err, inner.status, "node '%.100s' (%.60s): %.300s", n->name[0] ? n->name : "", n->op,
                         inner.text);
    }
    return each_moved(r, &p->base, 8, &n->overload, moved_string) && each_moved(r, &p->base, 9, &n->scope, moved_scope);
}

static const struct onnx_node *nodes_of(struct onnx_reader *r, Onnx__NodeProto *const *from, size_t n)
{
    struct onnx_node *to = alloc(r, n, sizeof *to);
    for (size_t k = 0; to && k < n; k++) {
        if (!node_of(r, from[k], k, &to[k]))
            return NULL;
    }
    return to;
}

static bool info_of(struct onnx_reader *r, const Onnx__ValueInfoProto *p, struct onnx_value_info *v)
{
    v->name = text(p->name);
    v->type = type_of(r, p->type);
    return v->type != NULL;
}

ARRAY(infos_of, struct onnx_value_info, Onnx__ValueInfoProto *, info_of)

static bool graph_tensors(struct onnx_reader *r, const Onnx__GraphProto *p, struct onnx_graph *g)
{
    const struct onnx_tensor **inits = alloc(r, p->n_initializer, sizeof *inits);
    struct onnx_named_sparse *sparse = alloc(r, p->n_sparse_initializer, sizeof *sparse);
    if (!inits || !sparse)
        return false;
    g->inits = inits;
    g->sparse = sparse;
    for (size_t k = 0; k < p->n_initializer; k++, g->init_count++) {
        if (!(inits[k] = onnx_load_tensor(r, p->initializer[k])))
            return false;
    }
    for (size_t k = 0; k < p->n_sparse_initializer; k++, g->sparse_count++) {
        const struct onnx_sparse *s = sparse_of(r, p->sparse_initializer[k]);
        if (!s)
            return false;
        sparse[k] = (struct onnx_named_sparse){s->values->name, s};
    }
    return true;
}

static const struct onnx_graph *graph_of(struct onnx_reader *r, const Onnx__GraphProto *p)
{
    struct onnx_graph *g = alloc(r, 1, sizeof *g);
    if (!g || !graph_tensors(r, p, g))
        return NULL;
    g->name = text(p->name);
    g->node_count = p->n_node;
    g->input_count = p->n_input;
    g->output_count = p->n_output;
    g->info_count = p->n_value_info;
    g->nodes = nodes_of(r, p->node, p->n_node);
    g->inputs = g->nodes ? infos_of(r, p->input, p->n_input) : NULL;
    g->outputs = g->inputs ? infos_of(r, p->output, p->n_output) : NULL;
    g->infos = g->outputs ? infos_of(r, p->value_info, p->n_value_info) : NULL;
    return g->infos ? g : NULL;
}

static const struct onnx_opset *opsets_of(struct onnx_reader *r, Onnx__OperatorSetIdProto *const *from, size_t n)
{
    struct onnx_opset *to = alloc(r, n, sizeof *to);
    for (size_t k = 0; to && k < n; k++)
        to[k] = (struct onnx_opset){domain_text(from[k]->domain), from[k]->version};
    return to;
}

/* The moved lists of a function (attribute_proto, value_info), gathered in two rounds: count, then unpack. */
struct moved_list {
    size_t count;
    struct onnx_attr *attrs;
    struct onnx_value_info *infos;
};

static bool count_moved(struct onnx_reader *r, const uint8_t *bytes, size_t size, void *to)
{
    (void)r, (void)bytes, (void)size;
    ((struct moved_list *)to)->count++;
    return true;
}

static bool unpack_attr(struct onnx_reader *r, const uint8_t *bytes, size_t size, void *to)
{
    struct moved_list *list = to;
    ProtobufCAllocator allocator = onnx_protobuf_allocator(r->model->arena);
    const Onnx__AttributeProto *p = onnx__attribute_proto__unpack(&allocator, size, bytes);
    if (!p)
        return onnx_fail(r->err, ONNX_BAD_FILE, "not a valid ONNX file: a function's attribute cannot be unpacked");
    return attr_of(r, p, &list->attrs[list->count++]);
}

static bool unpack_info(struct onnx_reader *r, const uint8_t *bytes, size_t size, void *to)
{
    struct moved_list *list = to;
    ProtobufCAllocator allocator = onnx_protobuf_allocator(r->model->arena);
    const Onnx__ValueInfoProto *p = onnx__value_info_proto__unpack(&allocator, size, bytes);
    if (!p)
        return onnx_fail(r->err, ONNX_BAD_FILE, "not a valid ONNX file: a function's value_info cannot be unpacked");
    return info_of(r, p, &list->infos[list->count++]);
}

static bool function_moved(struct onnx_reader *r, const Onnx__FunctionProto *p, struct onnx_function *f)
{
    struct moved_list list = {0};
    if (!each_moved(r, &p->base, 13, &f->overload, moved_string) || !each_moved(r, &p->base, 11, &list, count_moved))
        return false;
    if (!(list.attrs = alloc(r, list.count, sizeof *list.attrs)))
        return false;
    list.count = 0;
    if (!each_moved(r, &p->base, 11, &list, unpack_attr))
        return false;
    f->defaults = list.attrs;
    f->default_count = list.count;
    list.count = 0;
    if (!each_moved(r, &p->base, 12, &list, count_moved) || !(list.infos = alloc(r, list.count, sizeof *list.infos)))
        return false;
    list.count = 0;
    if (!each_moved(r, &p->base, 12, &list, unpack_info))
        return false;
    f->infos = list.infos;
    f->info_count = list.count;
    return true;
}

static bool function_of(struct onnx_reader *r, const Onnx__FunctionProto *p, struct onnx_function *f)
{
    *f = (struct onnx_function){.name = text(p->name),
                                .domain = domain_text(p->domain),
                                .overload = "",
                                .input_count = p->n_input,
                                .output_count = p->n_output,
                                .attr_count = p->n_attribute,
                                .node_count = p->n_node,
                                .opset_count = p->n_opset_import};
    f->inputs = names(r, p->input, p->n_input);
    f->outputs = names(r, p->output, p->n_output);
    f->attrs = names(r, p->attribute, p->n_attribute);
    f->opsets = opsets_of(r, p->opset_import, p->n_opset_import);
    if (!f->inputs || !f->outputs || !f->attrs || !f->opsets)
        return false;
    f->nodes = nodes_of(r, p->node, p->n_node);
    return f->nodes && function_moved(r, p, f);
}

static const struct onnx_binding *bindings_of(struct onnx_reader *r, Onnx__StringStringEntryProto *const *from,
                                              size_t n)
{
    struct onnx_binding *to = alloc(r, n, sizeof *to);
    for (size_t k = 0; to && k < n; k++)
        to[k] = (struct onnx_binding){text(from[k]->key), text(from[k]->value)};
    return to;
}

static bool training_of(struct onnx_reader *r, const Onnx__TrainingInfoProto *p, struct onnx_training *t)
{
    t->init_count = p->n_initialization_binding;
    t->update_count = p->n_update_binding;
    t->inits = bindings_of(r, p->initialization_binding, t->init_count);
    t->updates = bindings_of(r, p->update_binding, t->update_count);
    if (!t->inits || !t->updates)
        return false;
    if (p->initialization && !(t->initialization = graph_of(r, p->initialization)))
        return false;
    return !p->algorithm || (t->algorithm = graph_of(r, p->algorithm)) != NULL;
}

bool onnx_load_model(struct onnx_reader *r, const Onnx__ModelProto *p)
{
    struct onnx_model *m = r->model;
    if (!p->graph)
        return onnx_fail(r->err, ONNX_BAD_FILE, "not an ONNX model: it has no graph");
    m->ir_version = p->ir_version;
    m->producer = text(p->producer_name);
    m->producer_version = text(p->producer_version);
    struct onnx_function *functions = alloc(r, p->n_functions, sizeof *functions);
    struct onnx_training *training = alloc(r, p->n_training_info, sizeof *training);
    /* Before operator sets had versions (IR versions 1 and 2) no model imported one. */
    static const struct onnx_opset first = {"", 1};
    m->opsets = p->n_opset_import ? opsets_of(r, p->opset_import, p->n_opset_import) : &first;
    m->opset_count = p->n_opset_import ? p->n_opset_import : 1;
    if (!functions || !training || !m->opsets)
        return false;
    for (size_t k = 0; k < p->n_functions; k++) {
        if (!function_of(r, p->functions[k], &functions[k]))
            return false;
    }
    for (size_t k = 0; k < p->n_training_info; k++) {
        if (!training_of(r, p->training_info[k], &training[k]))
            return false;
    }
    m->functions = functions;
    m->function_count = p->n_functions;
    m->training = training;
    m->training_count = p->n_training_info;
    return (m->graph = graph_of(r, p->graph)) != NULL;
}
