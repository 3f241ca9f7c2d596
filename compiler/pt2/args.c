/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of a node, by the names of ATen's schema. Each is a union of one key that says its kind; sizes among
 * integers may be names of numbers that earlier nodes compute.
 */
#include "compiler/pt2/pt2_int.h"

#include <math.h>
#include <string.h>

json_t *pt2_arg(struct pt2 *p, const char *name, const char **kind)
{
    json_t *inputs = js_array(p->at.node, "inputs");
    for (size_t k = 0; k < json_array_size(inputs); k++) {
        json_t *input = json_array_get(inputs, k), *value;
        const char *called = js_string(input, "name");
        if (!called || strcmp(called, name))
            continue;
        if (k < 256)
            p->asked[k / 64] |= UINT64_C(1) << k % 64;
        *kind = js_union(json_object_get(input, "arg"), &value);
        return *kind && strcmp(*kind, "as_none") ? value : NULL;
    }
    *kind = NULL;
    return NULL;
}

bool pt2_given(struct pt2 *p, const char *name)
{
    const char *kind;
    return pt2_arg(p, name, &kind) != NULL;
}

void pt2_ignore_all(struct pt2 *p, const char *const *names)
{
    for (const char *kind; *names; names++)
        pt2_arg(p, *names, &kind);
}

static bool odd(struct pt2 *p, const char *name, const char *kind, const char *expected)
{
    return imp_unsupported(p->im, "argument '%s' of kind %s; %s is expected", name, kind, expected);
}

/* -- Tensors */

/* Non-finite ones are strings. */
static bool to_double(const json_t *value, double *out)
{
    const char *s = json_string_value(value);
    if (json_is_number(value))
        *out = json_number_value(value);
    else if (json_is_boolean(value))
        *out = json_is_true(value);
    else if (s && !strcmp(s, "Infinity"))
        *out = INFINITY;
    else if (s && !strcmp(s, "-Infinity"))
        *out = -INFINITY;
    else if (s && !strcmp(s, "NaN"))
        *out = NAN;
    else
        return false;
    return true;
}

/* An {as_tensor}, {as_optional_tensor: {as_tensor}} ... as its innermost union. */
static const char *unwrap(const char *kind, json_t **value)
{
    for (int depth = 0; kind && !strncmp(kind, "as_optional_tensor", 18) && depth < 4; depth++) {
        if (json_is_array(*value))
            break;
        kind = js_union(*value, value);
    }
    return kind;
}

/* Products and their like take shorter floats in a region of torch.autocast, of which the program says the results'
 * types only. */
static struct ir_value *lowered(struct pt2 *p, struct ir_value *v)
{
    if (!v || p->autocast == TCC_NONE || !(p->row->flags & ATEN_LOWERS) || !ir_is_tensor(v->type) || !imp_is_float(v) ||
        imp_dtype(v) == TCC_F64 || imp_dtype(v) == p->autocast || pt2_out_type(p, 0) != p->autocast)
        return v;
    return imp_cast(p->im, v, p->autocast);
}

/* Does the argument say which elements, and not what they are? ATen's names. */
static bool selects(const char *argument)
{
    return !strcmp(argument, "index") || !strcmp(argument, "indices") || !strcmp(argument, "mask") ||
           !strcmp(argument, "condition");
}

/* `position`: of the operand among the node's; an element of a list counts. */
static struct ir_value *tensor_named(struct pt2 *p, const char *argument, const json_t *value, int position)
{
    const char *name = js_string(value, "name");
    struct pt2_value *v = name ? pt2_lookup(p, name) : NULL;
    if (!v)
        return imp_bad(p->im, "operand '%s' is not defined", name ? name : ""), NULL;
    struct ir_value *x = v->number ? pt2_number(p, v) : pt2_read(p, v);
    return selects(argument) && !v->complex ? x : lowered(p, pt2_operand_part(p, x, v->complex, position));
}

static int position_of(const struct pt2 *p, const char *name)
{
    const char *first = js_string(json_array_get(js_array(p->at.node, "inputs"), 0), "name");
    return !first || strcmp(first, name) != 0;
}

struct ir_value *pt2_t(struct pt2 *p, const char *name)
{
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind);
    kind = value ? unwrap(kind, &value) : NULL;
    if (!kind || !strcmp(kind, "as_none"))
        return NULL;
    if (!strcmp(kind, "as_complex") && p->part[0] == PT2_WHOLE && p->part[1] == PT2_WHOLE) {
        double re = 0, im = 0;
        to_double(json_object_get(value, "real"), &re);
        to_double(json_object_get(value, "imag"), &im);
        struct ir_value *im_value = imp_num(p->im, TCC_F64, im);
        return pt2_pair(p, imp_num(p->im, TCC_F64, re), im_value);
    }
    if (strcmp(kind, "as_tensor"))
        return odd(p, name, kind, "a tensor"), NULL;
    struct ir_value *v = tensor_named(p, name, value, position_of(p, name));
    if (v && !ir_is_tensor(v->type))
        return imp_unsupported(p->im, "argument '%s', %s", name, ir_type_text(p->ctx, v->type)), NULL;
    return v;
}

struct ir_value *pt2_need(struct pt2 *p, const char *name)
{
    if (!pt2_given(p, name))
        return imp_bad(p->im, "argument '%s' is missing", name), NULL;
    return pt2_t(p, name);
}

int pt2_list(struct pt2 *p, const char *name, struct ir_value ***out)
{
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind);
    *out = NULL;
    if (!value)
        return -1;
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n > PT2_MAX_LIST)
        return odd(p, name, kind, "a list of tensors"), -2;
    *out = IR_NEWN(p->ctx, n + 1, struct ir_value *);
    for (size_t k = 0; k < n; k++) {
        json_t *item = json_array_get(value, k);
        if (strcmp(kind, "as_tensors")) {
            const char *inner = js_union(item, &item);
            if (inner && !strcmp(inner, "as_none"))
                continue;
            if (!inner || strcmp(inner, "as_tensor"))
                return odd(p, name, kind, "a list of tensors"), -2;
        }
        (*out)[k] = tensor_named(p, name, item, (int)k);
        if (!(*out)[k])
            return -2;
    }
    return (int)n;
}

/* -- Numbers */

/* {as_sym_int: {as_name | as_int}} and its like for floats and bools: the number of that name; NULL and *value what it
 * holds else. */
static struct pt2_value *number_named(struct pt2 *p, json_t **value)
{
    json_t *inner;
    const char *kind = js_union(*value, &inner);
    if (!kind)
        return NULL;
    *value = inner;
    if (strcmp(kind, "as_name"))
        return NULL;
    struct pt2_value *v = json_is_string(inner) ? pt2_lookup(p, json_string_value(inner)) : NULL;
    p->at.reads = p->at.reads || (v && v->read);
    return v;
}

/* The number that a size is of, if a node computes it; *e: what is known of it now. */
static struct pt2_value *size_named(struct pt2 *p, json_t *item, ir_expr *e)
{
    json_t *inner;
    const char *kind = js_union(item, &inner);
    if (kind && (!strcmp(kind, "as_sym_int") || !strcmp(kind, "as_int")))
        item = inner;
    struct pt2_value *v = js_union(item, &inner) ? number_named(p, &item) : NULL;
    *e = v && v->e ? v->e : json_is_integer(item) ? ir_const(p->ctx, json_integer_value(item)) : NULL;
    return v;
}

ir_expr pt2_known_size(struct pt2 *p, json_t *item)
{
    ir_expr e;
    size_named(p, item, &e);
    return e;
}

/* An integer that only scalars compute, such as 2 to the power of a size, becomes a symbol of the run. */
ir_expr pt2_size(struct pt2 *p, json_t *item)
{
    ir_expr e;
    struct pt2_value *v = size_named(p, item, &e);
    if (!e && v && v->v && tcc_is_int(imp_dtype(v->v)))
        e = imp_bound_exprs(p->im, v->v, 1, -IMP_MAX_DIM, IMP_MAX_DIM, &v->e) == 1 ? v->e : NULL;
    else if (!e)
        imp_bad(p->im, "a size that no node computes");
    return e;
}

ir_expr pt2_e(struct pt2 *p, const char *name, int64_t otherwise)
{
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind);
    return value ? pt2_size(p, value) : ir_const(p->ctx, otherwise);
}

struct ir_value *pt2_operand(struct pt2 *p, const char *name, bool *number)
{
    const char *kind;
    double f;
    json_t *value = pt2_arg(p, name, &kind);
    *number = false;
    if (!value)
        return NULL;
    if (!strncmp(kind, "as_tensor", 9) || !strncmp(kind, "as_optional_tensor", 18))
        return pt2_t(p, name);
    *number = true;
    if (!strcmp(kind, "as_complex") && p->part[position_of(p, name)] != PT2_WHOLE) {
        bool imaginary = p->part[position_of(p, name)] == PT2_IMAGINARY;
        if (!strcmp(name, "alpha")) /* a product of each part by each */
            return imp_unsupported(p->im, "a complex factor"), NULL;
        if (to_double(json_object_get(value, imaginary ? "imag" : "real"), &f))
            return imp_num(p->im, TCC_F64, f);
        return odd(p, name, kind, "a number"), NULL;
    }
    if (p->zeros && p->part[0] == PT2_IMAGINARY && strcmp(name, "alpha") != 0)
        return imp_int(p->im, TCC_I64, 0);
    if (!strncmp(kind, "as_sym", 6)) {
        struct pt2_value *v = number_named(p, &value);
        if (v)
            return pt2_number(p, v);
    }
    if (json_is_boolean(value))
        return imp_int(p->im, TCC_BOOL, json_is_true(value));
    if (json_is_integer(value))
        return imp_int(p->im, TCC_I64, json_integer_value(value));
    if (to_double(value, &f))
        return imp_num(p->im, TCC_F64, f);
    return odd(p, name, kind, "a tensor or a number"), NULL;
}

double pt2_f(struct pt2 *p, const char *name, double otherwise)
{
    const char *kind;
    double f = otherwise;
    json_t *value = pt2_arg(p, name, &kind);
    if (value && !to_double(value, &f)) {
        struct pt2_value *v = number_named(p, &value);
        if ((!v || !imp_scalar_of(pt2_number(p, v), &f)) && !to_double(value, &f))
            odd(p, name, kind, "a number known when compiling");
    }
    return f;
}

int64_t pt2_i(struct pt2 *p, const char *name, int64_t otherwise)
{
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind);
    int64_t i = otherwise;
    if (!value)
        return otherwise;
    if (json_is_integer(value))
        return json_integer_value(value);
    if (json_is_boolean(value))
        return json_is_true(value);
    ir_expr e = pt2_size(p, value);
    if (e && !ir_is_const(e, &i))
        odd(p, name, kind, "an integer known when compiling");
    return i;
}

bool pt2_b(struct pt2 *p, const char *name, bool otherwise)
{
    return pt2_i(p, name, otherwise) != 0;
}

const char *pt2_s(struct pt2 *p, const char *name, const char *otherwise)
{
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind);
    if (value && !json_is_string(value))
        odd(p, name, kind, "a string");
    return json_is_string(value) ? json_string_value(value) : otherwise;
}

enum tcc_dtype pt2_type(struct pt2 *p, const char *name, enum tcc_dtype otherwise)
{
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind);
    if (!value)
        return otherwise;
    enum tcc_dtype d = pt2_dtype(json_integer_value(value));
    if (d == TCC_NONE)
        imp_unsupported(p->im, "element type %lld of the schema", (long long)json_integer_value(value));
    return d;
}

/* -- Lists */

static int listed(struct pt2 *p, const char *name, int max, json_t **value)
{
    const char *kind;
    *value = pt2_arg(p, name, &kind);
    if (!*value)
        return -1;
    size_t n = json_is_array(*value) ? json_array_size(*value) : 1;
    if (n > (size_t)max)
        return imp_unsupported(p->im, "argument '%s' has %zu elements; at most %d are supported", name, n, max), -2;
    return (int)n;
}

int pt2_exprs(struct pt2 *p, const char *name, int max, ir_expr *out)
{
    json_t *value;
    int n = listed(p, name, max, &value);
    for (int k = 0; k < n; k++) {
        out[k] = pt2_size(p, json_is_array(value) ? json_array_get(value, (size_t)k) : value);
        if (!out[k])
            return -2;
    }
    return n;
}

int pt2_ints(struct pt2 *p, const char *name, int max, int64_t *out)
{
    ir_expr *e = IR_NEWN(p->ctx, max + 1, ir_expr);
    int n = pt2_exprs(p, name, max, e);
    for (int k = 0; k < n; k++) {
        if (!ir_is_const(e[k], &out[k]))
            return imp_open_size(p->im, e[k], NULL, "argument '%s' is known only at run time", name), -2;
    }
    return n;
}

int pt2_floats(struct pt2 *p, const char *name, int max, double *out)
{
    json_t *value;
    int n = listed(p, name, max, &value);
    for (int k = 0; k < n; k++) {
        if (!to_double(json_is_array(value) ? json_array_get(value, (size_t)k) : value, &out[k]))
            return imp_unsupported(p->im, "argument '%s' is no list of numbers", name), -2;
    }
    return n;
}

/* -- Axes */

bool pt2_axis(struct pt2 *p, const char *name, int64_t otherwise, int rank, int64_t *axis)
{
    int64_t given = *axis = pt2_i(p, name, otherwise);
    int n = rank ? rank : 1; /* a scalar takes axes 0 and -1 */
    if (*axis < 0)
        *axis += n;
    if (*axis < 0 || *axis >= n)
        return imp_bad(p->im, "%s %lld of a tensor with %d dims", name, (long long)given, rank);
    return true;
}

int pt2_axes(struct pt2 *p, const char *name, int rank, int64_t *axes)
{
    int64_t given[TCC_MAX_RANK];
    bool listed_axis[TCC_MAX_RANK] = {false};
    int n = pt2_ints(p, name, TCC_MAX_RANK, given), count = 0;
    if (n < -1)
        return -1;
    for (int k = 0; k < n; k++) {
        int64_t a = given[k] < 0 ? given[k] + (rank ? rank : 1) : given[k];
        if (a < 0 || a >= (rank ? rank : 1))
            return imp_bad(p->im, "%s %lld of a tensor with %d dims", name, (long long)given[k], rank), -1;
        listed_axis[a] = true;
    }
    for (int k = 0; k < rank; k++) {
        if (n <= 0 || listed_axis[k])
            axes[count++] = k;
    }
    return count;
}
