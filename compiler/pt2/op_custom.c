/* SPDX-License-Identifier: Apache-2.0 */
/*
 * op_custom.c - operators of other libraries than ATen (torch.library.custom_op) that the user gives himself:
 * --custom-op=NAMESPACE:NAME=FILE. Of the node's arguments, in the schema's order, tensors are operands (None: one that
 * is left out), numbers, strings and lists of them attributes by their names.
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

/* "torch.ops.lib.name.overload": lib:name; NULL: it is not given. */
static const struct ir_custom *find(struct pt2 *p, const char *target)
{
    if (!strncmp(target, "torch.ops.", 10))
        target += 10;
    const char *dot = strchr(target, '.'), *end = dot ? strchr(dot + 1, '.') : NULL;
    if (!dot || !ir_customs(p->ctx))
        return NULL;
    size_t n = end ? (size_t)(end - dot - 1) : strlen(dot + 1);
    return ir_custom_find(p->ctx, ir_internf(p->ctx, "%.*s:%.*s", (int)(dot - target), target, (int)n, dot + 1));
}

struct arguments {
    VEC(struct ir_value *) in;
    VEC(ir_type) types;
    VEC(struct ir_attr) attrs;
};

static void add_attr(struct pt2 *p, struct arguments *a, const char *name, struct ir_attr attr)
{
    attr.name = ir_intern(p->ctx, name);
    VEC_PUSH(p->ctx, a->attrs, attr);
}

static void add_operand(struct pt2 *p, struct arguments *a, struct ir_value *v)
{
    VEC_PUSH(p->ctx, a->in, v);
    VEC_PUSH(p->ctx, a->types, v ? v->type : NULL);
}

static bool is_one_of(const char *kind, const char *a, const char *b)
{
    return !strcmp(kind, a) || !strcmp(kind, b);
}

static bool add_numbers(struct pt2 *p, struct arguments *a, const char *name, bool floats)
{
    int64_t *ints = IR_NEWN(p->ctx, PT2_MAX_LIST, int64_t);
    double *doubles = IR_NEWN(p->ctx, PT2_MAX_LIST, double);
    int n = floats ? pt2_floats(p, name, PT2_MAX_LIST, doubles) : pt2_ints(p, name, PT2_MAX_LIST, ints);
    if (n < 0)
        return false;
    add_attr(p, a, name, floats ? ir_attr_floats(IR_ATTR_user, n, doubles) : ir_attr_ints(IR_ATTR_user, n, ints));
    return true;
}

static bool add_argument(struct pt2 *p, struct arguments *a, const char *name)
{
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind);
    if (!value || is_one_of(kind, "as_tensor", "as_optional_tensor")) {
        struct ir_value *v = value ? pt2_t(p, name) : NULL;
        int refused = p->im->refused;
        add_operand(p, a, v);
        return !refused;
    }
    if (is_one_of(kind, "as_tensors", "as_optional_tensors")) {
        struct ir_value **list;
        int n = pt2_list(p, name, &list);
        for (int i = 0; i < n; i++)
            add_operand(p, a, list[i]);
        return n >= 0;
    }
    if (is_one_of(kind, "as_ints", "as_int"))
        return add_numbers(p, a, name, false);
    if (is_one_of(kind, "as_floats", "as_float"))
        return add_numbers(p, a, name, true);
    if (!strcmp(kind, "as_bool")) {
        int64_t *v = IR_NEW(p->ctx, int64_t);
        *v = pt2_b(p, name, false);
        add_attr(p, a, name, ir_attr_ints(IR_ATTR_user, 1, v));
        return true;
    }
    if (!strcmp(kind, "as_string")) {
        const char **v = IR_NEW(p->ctx, const char *);
        *v = ir_intern(p->ctx, pt2_s(p, name, ""));
        add_attr(p, a, name, ir_attr_strings(IR_ATTR_user, 1, v));
        return true;
    }
    return imp_unsupported(
        p->im, "argument '%s' of kind %s: tensors, numbers and strings are what a custom operator takes", name, kind);
}

static bool build(struct pt2 *p)
{
    const struct ir_custom *x = find(p, js_string(p->at.node, "target"));
    json_t *inputs = js_array(p->at.node, "inputs");
    struct arguments a = {0};
    for (size_t k = 0; k < json_array_size(inputs); k++) {
        const char *name = js_string(json_array_get(inputs, k), "name");
        if (name && !add_argument(p, &a, name))
            return false;
    }
    int nout = pt2_nouts(p);
    const ir_type *types = ir_custom_types(p->ctx, &p->im->b.where, x, a.in.n, a.types.at, a.attrs.n, a.attrs.at, nout);
    struct ir_node *n = types ? imp_lib_of(p->im, x->name, a.in.n, a.in.at, nout, types, a.attrs.n, a.attrs.at) : NULL;
    bool ok = n != NULL;
    for (int k = 0; k < nout && ok; k++)
        ok = pt2_out(p, k, n->out[k]);
    return ok;
}

const struct aten_row *pt2_custom(struct pt2 *p, const char *target)
{
    static const struct aten_row row = {"custom", 0, build, 0};
    return find(p, target) ? &row : NULL;
}
