/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c - a function for each elementwise word of ir/scalar.def, and for the ops that networks use most. */
#include "compiler/trace/trace_int.h"

static struct trace_tensor *op(const char *name, int n, struct trace_tensor *const *in, const struct tcc_attr *attrs)
{
    struct trace_ctx *c = NULL;
    for (int i = 0; i < n; i++)
        c = c || !in[i] ? c : in[i]->c;
    return c ? trace_op(c, name, n, in, attrs) : NULL;
}

/* Words' operands may not be left out. */
static struct trace_tensor *word(const char *name, int n, struct trace_tensor *const *in)
{
    for (int i = 0; i < n; i++)
        if (!in[i])
            return NULL;
    return op(name, n, in, NULL);
}

#define INTS(key, count, values)                                             \
    {                                                                        \
        .name = (key), .kind = TCC_ATTR_INTS, .n = (count), .ints = (values) \
    }
#define ATTRS(...) ((const struct tcc_attr[]){__VA_ARGS__, {0}})
#define ONE(v) ((const int64_t[]){(v)})
#define TWO(v) ((const int64_t[]){(v), (v)})

/* -- Elementwise: trace_WORD for each row of the table */

#define NAMES_1 x
#define NAMES_2 x, y
#define NAMES_3 x, y, z
#define SCALAR(w, operands, types, flags, body, doc)                                    \
    struct trace_tensor *trace_##w(TRACE_OPERANDS_##operands)                           \
    {                                                                                   \
        return word(#w, operands, (struct trace_tensor *[operands]){NAMES_##operands}); \
    }
#define SCALAR_CAST(...)
#include "ir/scalar.def"
#undef SCALAR

struct trace_tensor *trace_cast(struct trace_tensor *x, int dtype)
{
    if (!x || x->dtype == dtype)
        return x;
    return op("cast", 1, &x, ATTRS(INTS("to", 1, ONE(dtype))));
}

struct trace_tensor *trace_add_number(struct trace_tensor *x, double value)
{
    return x ? trace_add(x, trace_scalar(x->c, x->dtype, value)) : NULL;
}

struct trace_tensor *trace_mul_number(struct trace_tensor *x, double value)
{
    return x ? trace_mul(x, trace_scalar(x->c, x->dtype, value)) : NULL;
}

/* -- Products and windows -------------------------------------------------------------------------------- */

struct trace_tensor *trace_matmul(struct trace_tensor *x, struct trace_tensor *y)
{
    return word("matmul", 2, (struct trace_tensor *[]){x, y});
}

struct trace_tensor *trace_linear(struct trace_tensor *x, struct trace_tensor *w, struct trace_tensor *bias)
{
    if (!x || !w)
        return NULL;
    struct trace_tensor *y = op("matmul", 2, (struct trace_tensor *[]){x, w}, ATTRS(INTS("trans_b", 1, ONE(1))));
    return bias ? trace_add(y, bias) : y;
}

struct trace_tensor *trace_conv(struct trace_tensor *x, struct trace_tensor *w, struct trace_tensor *bias, int stride,
                                int pad, int groups)
{
    if (!x || !w)
        return NULL;
    return op("conv", bias ? 3 : 2, (struct trace_tensor *[]){x, w, bias},
              ATTRS(INTS("strides", 2, TWO(stride)), INTS("before", 2, TWO(pad)), INTS("after", 2, TWO(pad)),
                    INTS("groups", 1, ONE(groups))));
}

static struct trace_tensor *pool(const char *name, struct trace_tensor *x, int kernel, int stride, int pad)
{
    return x ? op(name, 1, &x,
                  ATTRS(INTS("kernel", 2, TWO(kernel)), INTS("strides", 2, TWO(stride)), INTS("before", 2, TWO(pad)),
                        INTS("after", 2, TWO(pad))))
             : NULL;
}

struct trace_tensor *trace_max_pool(struct trace_tensor *x, int kernel, int stride, int pad)
{
    return pool("max_pool", x, kernel, stride, pad);
}

struct trace_tensor *trace_avg_pool(struct trace_tensor *x, int kernel, int stride, int pad)
{
    return pool("avg_pool", x, kernel, stride, pad);
}

struct trace_tensor *trace_attention(struct trace_tensor *q, struct trace_tensor *k, struct trace_tensor *v,
                                     struct trace_tensor *mask, double scale, bool causal)
{
    if (!q || !k || !v)
        return NULL;
    return op(
        "attention", mask ? 4 : 3, (struct trace_tensor *[]){q, k, v, mask},
        ATTRS({.name = "scale", .kind = TCC_ATTR_FLOATS, .n = 1, .floats = &scale}, INTS("causal", 1, ONE(causal))));
}

/* -- Moves ------------------------------------------------------------------------------------------------- */

struct trace_tensor *trace_reshape(struct trace_tensor *x, int rank, const int64_t *dims)
{
    int64_t all = 1, known = 1, to[TCC_MAX_RANK];
    int open = -1;
    char text[256];
    if (!x)
        return NULL;
    if (rank < 0 || rank > TCC_MAX_RANK)
        return trace_fail(x->c, TCC_EUSAGE, "reshape: rank %d", rank), NULL;
    for (int i = 0; i < x->rank; i++)
        all *= x->dims[i];
    for (int i = 0; i < rank; i++) {
        to[i] = dims[i];
        if (dims[i] == -1 && open < 0)
            open = i;
        else
            known *= dims[i];
    }
    if (open >= 0)
        to[open] = known > 0 ? all / known : 0;
    if (open >= 0 && (known <= 0 || all % known))
        return trace_fail(x->c, TCC_EINPUT, "reshape(%s): its elements cannot be split into rows of %lld",
                          trace_type_text(x, text, sizeof text), (long long)known),
               NULL;
    return op("reshape", 1, &x, ATTRS(INTS("shape", rank, to)));
}

/* An axis that may count from the end. */
static bool axis_of(struct trace_tensor *x, const char *what, int64_t axis, int64_t *out)
{
    char text[256];
    *out = axis < 0 ? axis + x->rank : axis;
    if (*out >= 0 && *out < x->rank)
        return true;
    trace_fail(x->c, TCC_EINPUT, "%s(%s): axis %lld out of range", what, trace_type_text(x, text, sizeof text),
               (long long)axis);
    return false;
}

struct trace_tensor *trace_flatten(struct trace_tensor *x, int axis)
{
    int64_t from, dims[TCC_MAX_RANK];
    if (!x || !axis_of(x, "flatten", axis, &from))
        return NULL;
    for (int i = 0; i < from; i++)
        dims[i] = x->dims[i];
    dims[from] = 1;
    for (int i = (int)from; i < x->rank; i++)
        dims[from] *= x->dims[i];
    return trace_reshape(x, (int)from + 1, dims);
}

struct trace_tensor *trace_transpose(struct trace_tensor *x, const int64_t *perm)
{
    return x ? op("transpose", 1, &x, ATTRS(INTS("perm", x->rank, perm))) : NULL;
}

struct trace_tensor *trace_expand(struct trace_tensor *x, int rank, const int64_t *dims)
{
    return x ? op("expand", 1, &x, ATTRS(INTS("shape", rank, dims))) : NULL;
}

struct trace_tensor *trace_concat(int n, struct trace_tensor *const *x, int axis)
{
    int64_t at;
    for (int i = 0; i < n; i++)
        if (!x[i])
            return NULL;
    return n > 0 && axis_of(x[0], "concat", axis, &at) ? op("concat", n, x, ATTRS(INTS("axis", 1, &at))) : NULL;
}

struct trace_tensor *trace_slice(struct trace_tensor *x, int axis, int64_t start, int64_t size)
{
    int64_t starts[TCC_MAX_RANK] = {0}, sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK], at;
    if (!x || !axis_of(x, "slice", axis, &at))
        return NULL;
    for (int i = 0; i < x->rank; i++) {
        sizes[i] = x->dims[i];
        steps[i] = 1;
    }
    starts[at] = start;
    sizes[at] = size;
    return op("slice", 1, &x,
              ATTRS(INTS("starts", x->rank, starts), INTS("sizes", x->rank, sizes), INTS("steps", x->rank, steps)));
}

struct trace_tensor *trace_gather(struct trace_tensor *x, struct trace_tensor *index, int axis)
{
    int64_t at;
    if (!x || !index || !axis_of(x, "gather", axis, &at))
        return NULL;
    return op("gather", 2, (struct trace_tensor *[]){x, index}, ATTRS(INTS("axis", 1, &at)));
}

struct trace_tensor *trace_embedding(struct trace_tensor *w, struct trace_tensor *index)
{
    return trace_gather(w, index, 0);
}

struct trace_tensor *trace_iota(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, int axis)
{
    return trace_op(c, "iota", 0, NULL,
                    ATTRS(INTS("shape", rank, dims), INTS("axis", 1, ONE(axis)), INTS("to", 1, ONE(dtype))));
}

/* -- Reductions ---------------------------------------------------------------------------------------------- */

static struct trace_tensor *reduce(const char *name, struct trace_tensor *x, int naxes, const int64_t *axes, bool keep)
{
    bool over[TCC_MAX_RANK] = {false};
    int64_t list[TCC_MAX_RANK], at;
    int n = 0;
    if (!x)
        return NULL;
    for (int i = 0; i < naxes; i++) {
        if (!axis_of(x, name, axes[i], &at))
            return NULL;
        over[at] = true;
    }
    for (int i = 0; i < x->rank; i++)
        if (naxes < 0 || over[i])
            list[n++] = i;
    return op(name, 1, &x, ATTRS(INTS("axes", n, list), INTS("keepdims", 1, ONE(keep))));
}

struct trace_tensor *trace_sum(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep)
{
    return reduce("reduce_sum", x, naxes, axes, keep);
}

struct trace_tensor *trace_amax(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep)
{
    return reduce("reduce_max", x, naxes, axes, keep);
}

struct trace_tensor *trace_amin(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep)
{
    return reduce("reduce_min", x, naxes, axes, keep);
}

struct trace_tensor *trace_prod(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep)
{
    return reduce("reduce_prod", x, naxes, axes, keep);
}

struct trace_tensor *trace_mean(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep)
{
    struct trace_tensor *sum = trace_sum(x, naxes, axes, keep);
    int64_t n = 1, left = 1;
    if (!sum)
        return NULL;
    for (int i = 0; i < x->rank; i++)
        n *= x->dims[i];
    for (int i = 0; i < sum->rank; i++)
        left *= sum->dims[i];
    return trace_div(sum, trace_scalar(x->c, sum->dtype, left ? (double)(n / left) : 1));
}

struct trace_tensor *trace_argmax(struct trace_tensor *x, int axis, bool keep)
{
    int64_t at;
    if (!x || !axis_of(x, "argmax", axis, &at))
        return NULL;
    return op("argmax", 1, &x, ATTRS(INTS("axis", 1, &at), INTS("keepdims", 1, ONE(keep))));
}
