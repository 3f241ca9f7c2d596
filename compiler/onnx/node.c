/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a row's function sees of its node: operands, results, attributes (those of a function's caller included), types.
 */
#include "compiler/onnx/import_int.h"

#include <string.h>

int imp_nin(const struct imp *im)
{
    return (int)im->node->input_count;
}

int imp_nout(const struct imp *im)
{
    return (int)im->node->output_count;
}

struct ir_value *imp_in(struct imp *im, int k)
{
    if (k < 0 || (size_t)k >= im->node->input_count || !im->node->inputs[k][0])
        return NULL;
    return imp_lookup(im, im->node->inputs[k]);
}

bool imp_has(const struct imp *im, int k)
{
    return imp_in((struct imp *)im, k) != NULL;
}

bool imp_wants(const struct imp *im, int k)
{
    return k >= 0 && (size_t)k < im->node->output_count && im->node->outputs[k][0];
}

bool imp_out(struct imp *im, int k, struct ir_value *v)
{
    if (!v)
        return false;
    if (k >= 0 && (size_t)k < im->node->output_count)
        im->outs[k] = v;
    return true;
}

/* -- Attributes */

static const struct onnx_attr *find_attr(const struct onnx_attr *attrs, size_t n, const char *name)
{
    for (size_t k = 0; k < n; k++) {
        if (!strcmp(attrs[k].name, name))
            return &attrs[k];
    }
    return NULL;
}

/* An attribute that refers to one of the function's: the caller's value, else the function's default. */
static const struct onnx_attr *follow_ref(const struct imp_call *call, const char *name)
{
    for (; call; call = call->node_call) {
        const struct onnx_attr *a = find_attr(call->node->attrs, call->node->attr_count, name);
        if (!a)
            return find_attr(call->function->defaults, call->function->default_count, name);
        if (!a->ref[0])
            return a;
        name = a->ref;
    }
    return NULL;
}

const struct onnx_attr *imp_attr(struct imp *im, const char *name)
{
    const struct onnx_attr *a = find_attr(im->node->attrs, im->node->attr_count, name);
    return a && a->ref[0] ? follow_ref(im->call, a->ref) : a;
}

/* The attribute, if it is there and holds what the operator expects; another kind of value is an error. */
static const struct onnx_attr *attr_of(struct imp *im, const char *name, int kind, const char *expected)
{
    const struct onnx_attr *a = imp_attr(im, name);
    if (!a || (int)a->type == kind)
        return a;
    return imp_bad(im, "attribute '%s' is expected to be %s", name, expected), NULL;
}

int64_t imp_i(struct imp *im, const char *name, int64_t otherwise)
{
    const struct onnx_attr *a = attr_of(im, name, ONNX_ATTR_INT, "an integer");
    return a ? a->i : otherwise;
}

double imp_f(struct imp *im, const char *name, double otherwise)
{
    const struct onnx_attr *a = attr_of(im, name, ONNX_ATTR_FLOAT, "a float");
    return a ? (double)a->f : otherwise;
}

const char *imp_s(struct imp *im, const char *name, const char *otherwise)
{
    const struct onnx_attr *a = attr_of(im, name, ONNX_ATTR_STRING, "a string");
    return a ? a->s.data : otherwise;
}

const int64_t *imp_ints(struct imp *im, const char *name, int *n)
{
    const struct onnx_attr *a = attr_of(im, name, ONNX_ATTR_INTS, "a list of integers");
    bool found = a && a->count < INT32_MAX;
    static const int64_t none[1];
    *n = found ? (int)a->count : 0;
    return !found ? NULL : a->ints ? a->ints : none;
}

const float *imp_floats(struct imp *im, const char *name, int *n)
{
    const struct onnx_attr *a = attr_of(im, name, ONNX_ATTR_FLOATS, "a list of floats");
    bool found = a && a->count < INT32_MAX;
    static const float none[1];
    *n = found ? (int)a->count : 0;
    return !found ? NULL : a->floats ? a->floats : none;
}

const struct onnx_str *imp_strs(struct imp *im, const char *name, int *n)
{
    const struct onnx_attr *a = attr_of(im, name, ONNX_ATTR_STRINGS, "a list of strings");
    bool found = a && a->count < INT32_MAX;
    *n = found ? (int)a->count : 0;
    return found ? a->strings : NULL;
}

/* -- Types */

struct ir_value *imp_tensor(struct imp *im, int k)
{
    struct ir_value *v = imp_in(im, k);
    if (!v)
        return imp_bad(im, "operand %d is missing", k), NULL;
    if (ir_is_tensor(v->type))
        return v;
    if (v->type->kind == IR_T_TENSOR && imp_dtype(v) == TCC_STRING)
        imp_unsupported(im, "operand %d is a string tensor", k);
    else if (v->type->kind == IR_T_TENSOR)
        imp_unsupported(im, "operand %d has a rank that is known only at run time", k);
    else
        imp_unsupported(im, "operand %d is a %s, a tensor is expected", k,
                        v->type->kind == IR_T_SEQUENCE ? "sequence" : "optional");
    return NULL;
}

enum tcc_dtype imp_dtype_of(struct imp *im, int64_t dtype)
{
    if (dtype > 0 && dtype < TCC_NDTYPES)
        return (enum tcc_dtype)dtype;
    const char *name = onnx_dtype_name(dtype);
    if (name)
        imp_unsupported(im, "elements of type %s", name);
    else
        imp_bad(im, "element type %lld is not one that ONNX defines", (long long)dtype);
    return TCC_NONE;
}

/*
 * What exporters write where they know no name: such dims are unknown each for itself. Names that only look so, like
 * tf2onnx's unk__12 or paddle2onnx's DynamicDimension.0, are made up once a dim and are names.
 */
static bool no_name(const char *param)
{
    static const char *const words[] = {"?", "*", "-", "#", "none", "null", "nan", "unk", "unknown", "undefined"};
    size_t n;
    param += strspn(param, " ");
    n = strcspn(param, " ");
    if (param[n + strspn(param + n, " ")]) /* several words */
        return false;
    if (!n || (*param == '-' && strspn(param + 1, "0123456789") + 1 == n))
        return true;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (strlen(words[k]) == n && !strncasecmp(words[k], param, n))
            return true;
    return false;
}

/* Has an input of the model a dim of that name? */
static bool names_dim(const struct imp *im, const char *name)
{
    const struct onnx_graph *g = im->model->graph;
    for (size_t k = 0; k < g->input_count; k++)
        for (uint32_t d = 0; g->inputs[k].type && d < g->inputs[k].type->rank; d++)
            if (!strcmp(g->inputs[k].type->dims[d].param, name))
                return true;
    return false;
}

/* A dim without a name is an input's "INPUT.AXIS", for --dim and messages; elsewhere (`owner` NULL) it is any. */
static ir_expr dim_of(struct imp *im, const struct onnx_dim *d, const char *owner, uint32_t axis)
{
    if (d->value >= 0)
        return ir_const(im->ctx, d->value);
    if (!no_name(d->param))
        return ir_sym(im->ctx, d->param);
    if (!owner)
        return ir_fresh(im->ctx, "d", 0, IMP_MAX_DIM);
    const char *name = ir_internf(im->ctx, "%s.%u", owner, axis);
    while (names_dim(im, name))
        name = ir_internf(im->ctx, "%s'", name);
    return ir_sym(im->ctx, name);
}

/* How many keys the reader of a model's map has, if it says so. */
static ir_expr map_width(struct imp *im, const char *owner, ir_expr otherwise)
{
    const struct onnx_graph *g = im->model->graph;
    for (size_t k = 0; owner && k < g->node_count; k++) {
        const struct onnx_node *n = &g->nodes[k];
        if (strcmp(n->op, "DictVectorizer") || n->input_count != 1 || strcmp(n->inputs[0], owner))
            continue;
        const struct onnx_attr *words = find_attr(n->attrs, n->attr_count, "string_vocabulary");
        words = words ? words : find_attr(n->attrs, n->attr_count, "int64_vocabulary");
        if (words && words->count)
            return ir_const(im->ctx, (int64_t)words->count);
    }
    return otherwise;
}

/* A map is a row of its values, whose keys the operator that reads it says (op_ml.c), a sequence of maps rows of them.
 */
static ir_type type_of(struct imp *im, const struct onnx_type *t, const char *owner)
{
    static const struct onnx_dim any = {.value = -1, .param = ""};
    ir_expr dims[TCC_MAX_RANK];
    if (!t)
        return NULL;
    if (t->kind == ONNX_TYPE_SEQUENCE && t->elem->kind == ONNX_TYPE_MAP)
        t = t->elem;
    if (t->kind == ONNX_TYPE_MAP) {
        ir_type value = type_of(im, t->elem, NULL);
        for (uint32_t k = 0; k < 2; k++)
            dims[k] = dim_of(im, &any, owner, k);
        dims[1] = map_width(im, owner, dims[1]);
        return !value || value->kind != IR_T_TENSOR
                   ? NULL
                   : frontend_pinned_type(im->ctx, &im->pins,
                                          ir_tensor_type(im->ctx, (enum tcc_dtype)value->dtype, 2, dims));
    }
    if (t->kind == ONNX_TYPE_SEQUENCE || t->kind == ONNX_TYPE_OPTIONAL) {
        ir_type elem = type_of(im, t->elem, owner);
        if (!elem)
            return NULL;
        /* What is declared of a sequence's items is often only one of them: their shapes may differ. */
        if (elem->kind == IR_T_TENSOR && (t->kind == ONNX_TYPE_SEQUENCE || !ir_static_dims(elem, NULL)))
            elem = ir_unranked_type(im->ctx, (enum tcc_dtype)elem->dtype);
        return t->kind == ONNX_TYPE_SEQUENCE ? ir_sequence_type(im->ctx, elem) : ir_optional_type(im->ctx, elem);
    }
    if (t->kind != ONNX_TYPE_TENSOR || t->dtype == ONNX_UNDEFINED || (int)t->dtype >= TCC_NDTYPES ||
        t->rank > TCC_MAX_RANK)
        return NULL;
    if (!t->has_shape)
        return ir_unranked_type(im->ctx, (enum tcc_dtype)t->dtype);
    for (uint32_t k = 0; k < t->rank; k++)
        dims[k] = dim_of(im, &t->dims[k], owner, k);
    return frontend_pinned_type(im->ctx, &im->pins,
                                ir_tensor_type(im->ctx, (enum tcc_dtype)t->dtype, (int)t->rank, dims));
}

ir_type imp_type_of(struct imp *im, const struct onnx_type *t)
{
    return type_of(im, t, NULL);
}

ir_type imp_input_type(struct imp *im, const struct onnx_value_info *input)
{
    return type_of(im, input->type, input->name);
}

static const struct onnx_type *declared_in(const struct onnx_value_info *infos, size_t n, const char *name)
{
    for (size_t k = 0; k < n; k++) {
        if (!strcmp(infos[k].name, name))
            return infos[k].type;
    }
    return NULL;
}

ir_type imp_declared(struct imp *im, const char *name)
{
    if (!im->graph || !name || !*name)
        return NULL;
    const struct onnx_type *t = declared_in(im->graph->outputs, im->graph->output_count, name);
    if (!t)
        t = declared_in(im->graph->infos, im->graph->info_count, name);
    ir_type type = imp_type_of(im, t);
    return type && ir_type_impossible(type) ? NULL : type;
}

int imp_axes(struct imp *im, int k, int rank, int64_t *axes)
{
    int n = -1;
    const int64_t *given = imp_ints(im, "axes", &n);
    int64_t buffer[TCC_MAX_RANK];
    struct ir_value *v = imp_in(im, k);
    if (!given && !v)
        return -1;
    if (!given) {
        n = imp_rank(v) == 1 && ir_is_value(imp_dim(v, 0), 0) ? 0 : imp_ints_of(im, v, TCC_MAX_RANK, buffer);
        if (n < 0)
            return ir_const_of(v) ? (imp_bad(im, "the axes must be a list of at most %d integers", TCC_MAX_RANK), -3)
                                  : -2;
        given = buffer;
    }
    bool seen[TCC_MAX_RANK] = {false};
    for (int i = 0; i < n; i++) {
        int64_t a = given[i];
        if (!imp_axis(im, &a, rank))
            return -3;
        if (seen[a])
            return imp_bad(im, "axis %lld is listed twice", (long long)a), -3;
        seen[a] = true;
    }
    n = 0;
    for (int a = 0; a < rank; a++) {
        if (seen[a])
            axes[n++] = a;
    }
    return n;
}
