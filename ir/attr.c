/* SPDX-License-Identifier: Apache-2.0 */
/* attr.c - attributes of nodes: making, copying, comparing, looking up. */
#include <string.h>

#include "ir/ir_int.h"

struct ir_attr ir_attr_i(enum ir_attr_key key, int64_t v)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_INT, .i = v};
}

struct ir_attr ir_attr_f(enum ir_attr_key key, double v)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_FLOAT, .f = v};
}

struct ir_attr ir_attr_s(enum ir_attr_key key, const char *s)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_STRING, .s = s};
}

struct ir_attr ir_attr_user_i(const char *name, int64_t v)
{
    struct ir_attr a = ir_attr_i(IR_ATTR_user, v);
    a.name = name;
    return a;
}

struct ir_attr ir_attr_user_s(const char *name, const char *s)
{
    struct ir_attr a = ir_attr_s(IR_ATTR_user, s);
    a.name = name;
    return a;
}

struct ir_attr ir_attr_ints(enum ir_attr_key key, int n, const int64_t *v)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_INTS, .n = n, .ints = v};
}

struct ir_attr ir_attr_floats(enum ir_attr_key key, int n, const double *v)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_FLOATS, .n = n, .floats = v};
}

struct ir_attr ir_attr_strings(enum ir_attr_key key, int n, const char *const *v)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_STRINGS, .n = n, .strings = v};
}

struct ir_attr ir_attr_e(enum ir_attr_key key, ir_expr e)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_EXPR, .e = e};
}

struct ir_attr ir_attr_exprs(enum ir_attr_key key, int n, const ir_expr *v)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_EXPRS, .n = n, .exprs = v};
}

struct ir_attr ir_attr_dtype(enum ir_attr_key key, enum tcc_dtype d)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_DTYPE, .dtype = d};
}

struct ir_attr ir_attr_t(enum ir_attr_key key, struct ir_tensor *t)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_TENSOR, .t = t};
}

struct ir_attr ir_attr_types(enum ir_attr_key key, int n, const ir_type *v)
{
    return (struct ir_attr){.key = (uint8_t)key, .kind = IR_A_TYPES, .n = n, .types = v};
}

/* Element size of a list attribute; 0: not a list. */
static size_t list_size(enum ir_attr_kind kind)
{
    switch (kind) {
    case IR_A_INTS: return sizeof(int64_t);
    case IR_A_FLOATS: return sizeof(double);
    case IR_A_EXPRS:
    case IR_A_STRINGS:
    case IR_A_TYPES: return sizeof(void *);
    default: return 0;
    }
}

struct ir_attr ir_attr_copy(struct ir_ctx *ctx, const struct ir_attr *a)
{
    struct ir_attr c = *a;
    size_t size = list_size(a->kind);
    c.name = a->name ? ir_intern(ctx, a->name) : NULL;
    if (size) {
        void *p = ir_alloc_n(ctx, (size_t)a->n, size);
        if (a->n)
            memcpy(p, a->ints, (size_t)a->n * size);
        c.ints = p;
    }
    if (a->kind == IR_A_STRINGS) {
        const char **s = IR_NEWN(ctx, a->n, const char *);
        for (int i = 0; i < a->n; i++)
            s[i] = ir_intern(ctx, a->strings[i]);
        c.strings = s;
    } else if (a->kind == IR_A_STRING) {
        c.s = ir_intern(ctx, a->s);
    } else if (a->kind == IR_A_TENSOR) {
        c.t = ir_tensor_ref(a->t);
    }
    return c;
}

const struct ir_attr *ir_attr(const struct ir_node *n, enum ir_attr_key key)
{
    for (int i = 0; i < n->nattrs; i++) {
        if (n->attrs[i].key == key)
            return &n->attrs[i];
    }
    return NULL;
}

struct ir_attr *ir_attrs_without(struct ir_ctx *ctx, const struct ir_node *n, enum ir_attr_key key, int *count)
{
    struct ir_attr *attrs = IR_NEWN(ctx, n->nattrs + 4, struct ir_attr);
    *count = 0;
    for (int i = 0; i < n->nattrs; i++)
        if (n->attrs[i].key != key)
            attrs[(*count)++] = n->attrs[i];
    return attrs;
}

static const struct ir_attr *user_attr(const struct ir_node *n, const char *name)
{
    for (int i = 0; i < n->nattrs; i++) {
        if (n->attrs[i].key == IR_ATTR_user && n->attrs[i].name && strcmp(n->attrs[i].name, name) == 0)
            return &n->attrs[i];
    }
    return NULL;
}

int ir_user_ints(const struct ir_node *n, const char *name, const int64_t **values)
{
    const struct ir_attr *a = user_attr(n, name);
    bool one = a && a->kind == IR_A_INT, list = a && a->kind == IR_A_INTS;
    *values = one ? &a->i : list ? a->ints : NULL;
    return one ? 1 : list ? a->n : 0;
}

int ir_user_floats(const struct ir_node *n, const char *name, const double **values)
{
    const struct ir_attr *a = user_attr(n, name);
    bool one = a && a->kind == IR_A_FLOAT, list = a && a->kind == IR_A_FLOATS;
    *values = one ? &a->f : list ? a->floats : NULL;
    return one ? 1 : list ? a->n : 0;
}

int64_t ir_user_i(const struct ir_node *n, const char *name, int64_t otherwise)
{
    const int64_t *v;
    return ir_user_ints(n, name, &v) ? v[0] : otherwise;
}

double ir_user_f(const struct ir_node *n, const char *name, double otherwise)
{
    const int64_t *i;
    const double *v;
    return ir_user_floats(n, name, &v) ? v[0] : ir_user_ints(n, name, &i) ? (double)i[0] : otherwise;
}

const char *ir_user_s(const struct ir_node *n, const char *name, const char *otherwise)
{
    const struct ir_attr *a = user_attr(n, name);
    if (a && a->kind == IR_A_STRINGS && a->n)
        return a->strings[0];
    return a && a->kind == IR_A_STRING ? a->s : otherwise;
}

int64_t ir_get_i(const struct ir_node *n, enum ir_attr_key key, int64_t otherwise)
{
    const struct ir_attr *a = ir_attr(n, key);
    return a && a->kind == IR_A_INT ? a->i : otherwise;
}

double ir_get_f(const struct ir_node *n, enum ir_attr_key key, double otherwise)
{
    const struct ir_attr *a = ir_attr(n, key);
    return a && a->kind == IR_A_FLOAT ? a->f : otherwise;
}

const char *ir_get_s(const struct ir_node *n, enum ir_attr_key key, const char *otherwise)
{
    const struct ir_attr *a = ir_attr(n, key);
    return a && a->kind == IR_A_STRING ? a->s : otherwise;
}

void ir_set_attr(struct ir_node *n, struct ir_attr a)
{
    struct ir_ctx *ctx = ir_node_ctx(n);
    struct ir_attr copy = ir_attr_copy(ctx, &a);
    for (int i = 0; i < n->nattrs; i++) {
        struct ir_attr *old = &n->attrs[i];
        if (old->key != copy.key || old->name != copy.name)
            continue;
        if (old->kind == IR_A_TENSOR)
            ir_tensor_unref(old->t);
        *old = copy;
        return;
    }
    struct ir_attr *more = IR_NEWN(ctx, n->nattrs + 1, struct ir_attr);
    if (n->nattrs)
        memcpy(more, n->attrs, (size_t)n->nattrs * sizeof *more);
    more[n->nattrs] = copy;
    n->attrs = more;
    n->nattrs++;
}
