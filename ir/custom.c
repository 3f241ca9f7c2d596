/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custom.c - custom operators: which there are in a context, and the types of their results.
 *
 * A user's shape() computes with numbers. A size that is known at run time only is given to it as a negative number of
 * its own, far from all others: a result's dim that is one of these numbers is that size, any other negative one is not
 * known.
 */
#include "base/format.h"
#include "ir/ir_int.h"
#include "runtime/tccc_custom.h"

#include <string.h>

struct ir_custom *ir_customs(const struct ir_ctx *ctx)
{
    return ctx->customs;
}

struct ir_custom *ir_custom_find(const struct ir_ctx *ctx, const char *name)
{
    struct ir_custom *x = ctx->customs;
    while (x && strcmp(x->name, name) != 0)
        x = x->next;
    return x;
}

struct ir_custom *ir_custom_of(const struct ir_node *n)
{
    return n->op == IR_lib ? ir_custom_find(ir_node_ctx(n), ir_get_s(n, IR_ATTR_name, "")) : NULL;
}

struct ir_custom *ir_custom_add(struct ir_ctx *ctx, const char *name, const struct tccc_custom_op *op,
                                const void *origin)
{
    struct ir_custom *x = IR_NEW(ctx, struct ir_custom), **end = &ctx->customs;
    while (*end)
        end = &(*end)->next;
    *x = (struct ir_custom){.name = ir_strdup(ctx, name), .op = op, .origin = origin};
    return *end = x;
}

/* -- Types ------------------------------------------------------------------------------------------------ */

struct asking {
    struct tccc_custom c; /* first: the user's functions get its address */
    struct ir_ctx *ctx;
    const struct ir_where *where;
    const char *name;
    VEC(ir_expr) sizes; /* those that are not known, by number */
    bool failed;
};

static int tell(struct tccc_custom *c, const char *format, ...)
{
    struct asking *a = (struct asking *)c;
    FORMATTED(text, 300, format);
    ir_error(a->ctx, a->where, "custom operator '%s': %s", a->name, text);
    a->failed = true;
    return TCC_EINPUT;
}

static void one_by_one(struct tccc_custom *c, int64_t n, void (*body)(void *arg, int64_t i), void *arg)
{
    (void)c;
    for (int64_t i = 0; i < n; i++)
        body(arg, i);
}

/* The number that stands for size k: sums, products and quotients of few of them are none of them. */
static int64_t stand_in(int k)
{
    return -(INT64_C(1) << 41) - INT64_C(1000003) * (k + 1);
}

static int64_t size_as_number(struct asking *a, ir_expr e)
{
    int64_t v;
    if (ir_is_const(e, &v))
        return v;
    for (int k = 0; k < a->sizes.n; k++)
        if (a->sizes.at[k] == e)
            return stand_in(k);
    VEC_PUSH(a->ctx, a->sizes, e);
    return stand_in(a->sizes.n - 1);
}

static ir_expr number_as_size(struct asking *a, int64_t v)
{
    if (v >= 0)
        return ir_const(a->ctx, v);
    for (int k = 0; k < a->sizes.n; k++)
        if (stand_in(k) == v)
            return a->sizes.at[k];
    return ir_fresh(a->ctx, "u", 0, INT64_C(1) << 40);
}

static bool give_operands(struct asking *a, int nin, const ir_type *types, struct tccc_custom_tensor *in)
{
    for (int i = 0; i < nin; i++) {
        if (!types[i])
            continue;
        if (!ir_is_tensor(types[i]))
            return tell(&a->c,
                        "operand %d is %s; tensors of numbers with a known number of dims are what such an operator "
                        "takes",
                        i, ir_type_text(a->ctx, types[i])),
                   false;
        in[i].dtype = (int32_t)types[i]->dtype;
        in[i].rank = types[i]->rank;
        for (int d = 0; d < types[i]->rank; d++)
            in[i].dims[d] = size_as_number(a, types[i]->dim[d]);
    }
    return true;
}

static void give_attrs(struct asking *a, int nattrs, const struct ir_attr *attrs, struct tccc_custom_attr *to)
{
    for (int i = 0; i < nattrs; i++) {
        const struct ir_attr *x = &attrs[i];
        struct tccc_custom_attr *t = &to[a->c.nattrs];
        if (x->key != IR_ATTR_user)
            continue;
        *t = (struct tccc_custom_attr){.name = x->name, .n = 1};
        switch (x->kind) {
        case IR_A_INT: t->ints = &x->i; break;
        case IR_A_INTS: t->ints = x->ints, t->n = x->n; break;
        case IR_A_FLOAT: t->kind = TCCC_ATTR_FLOATS, t->floats = &x->f; break;
        case IR_A_FLOATS: t->kind = TCCC_ATTR_FLOATS, t->floats = x->floats, t->n = x->n; break;
        case IR_A_STRING: t->kind = TCCC_ATTR_STRINGS, t->strings = &x->s; break;
        case IR_A_STRINGS: t->kind = TCCC_ATTR_STRINGS, t->strings = x->strings, t->n = x->n; break;
        case IR_A_TENSOR: {
            struct tccc_custom_tensor *tensor = IR_NEW(a->ctx, struct tccc_custom_tensor);
            tensor->dtype = (int32_t)x->t->dtype; /* its data is for run() */
            tensor->rank = x->t->rank;
            memcpy(tensor->dims, x->t->dims, sizeof tensor->dims);
            t->kind = TCCC_ATTR_TENSOR;
            t->tensor = tensor;
            break;
        }
        default: continue;
        }
        a->c.nattrs++;
    }
}

static ir_type result_type(struct asking *a, int i)
{
    const struct tccc_custom_tensor *t = &a->c.out[i];
    ir_expr dims[TCC_MAX_RANK];
    if (t->dtype <= 0 || t->dtype >= TCC_NDTYPES || t->dtype == TCC_STRING)
        return tell(&a->c, "its shape() gives result %d the element type %d, which there is not", i, t->dtype), NULL;
    if (t->rank < 0 || t->rank > TCC_MAX_RANK)
        return tell(&a->c, "its shape() gives result %d %d dims, expected 0 to %d", i, t->rank, TCC_MAX_RANK), NULL;
    for (int d = 0; d < t->rank; d++) {
        if (t->dims[d] > INT64_C(1) << 40)
            return tell(&a->c, "its shape() gives dim %d of result %d the size %lld", d, i, (long long)t->dims[d]),
                   NULL;
        dims[d] = number_as_size(a, t->dims[d]);
    }
    return ir_tensor_type(a->ctx, (enum tcc_dtype)t->dtype, t->rank, dims);
}

const ir_type *ir_custom_types(struct ir_ctx *ctx, const struct ir_where *where, const struct ir_custom *x, int nin,
                               const ir_type *in, int nattrs, const struct ir_attr *attrs, int nout)
{
    struct tccc_custom_tensor *tensors = IR_NEWN(ctx, nin + nout + 1, struct tccc_custom_tensor);
    struct tccc_custom_attr *own = IR_NEWN(ctx, nattrs + 1, struct tccc_custom_attr);
    ir_type *types = IR_NEWN(ctx, nout + 1, ir_type);
    struct asking a = {.c = {.nin = nin,
                             .nout = nout,
                             .in = tensors,
                             .out = tensors + nin,
                             .attrs = own,
                             .fail = tell,
                             .each = one_by_one},
                       .ctx = ctx,
                       .where = where,
                       .name = x->name};
    if (!give_operands(&a, nin, in, tensors))
        return NULL;
    give_attrs(&a, nattrs, attrs, own);
    int status = tccrt_custom_shape(&a.c, x->op);
    if (status && !a.failed)
        tell(&a.c, "its shape() returned %d and gave no reason", status);
    for (int i = 0; i < nout && !a.failed; i++)
        types[i] = result_type(&a, i);
    return a.failed ? NULL : types;
}
