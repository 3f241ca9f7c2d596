/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences and optionals. Items are shared, never copied (but those that stand for borrowed memory). */
#include "runtime/libop/libop_int.h"

static int need_sequence(struct tcc_lib_call *call, int i, const struct tcc_object **out)
{
    *out = i < call->nin ? call->in[i] : NULL;
    return *out && (*out)->kind == TCC_OBJ_SEQUENCE ? TCC_OK : LIB_FAIL(call, "operand %d must be a sequence", i);
}

/* Hands over a sequence; a missing one, or one with a missing item, is "no memory". */
static int give(struct tcc_lib_call *call, struct tcc_object *q)
{
    for (int64_t i = 0; q && i < q->n; i++) {
        if (!q->items[i]) {
            tccrt_object_unref(q);
            q = NULL;
        }
    }
    if (!q)
        return LIB_NO_MEMORY(call);
    call->host->set(call, 0, q);
    return TCC_OK;
}

static int give_ref(struct tcc_lib_call *call, const struct tcc_object *o)
{
    struct tcc_object *ref = tccrt_object_ref(o);

    if (!ref)
        return LIB_NO_MEMORY(call);
    call->host->set(call, 0, ref);
    return TCC_OK;
}

/* The position in operand i, counted from the end when negative; [0, n). `otherwise` when it is omitted. */
static int position(struct tcc_lib_call *call, int i, int64_t n, int64_t otherwise, int64_t *out)
{
    const struct tcc_tensor *t = lib_in(call, i);

    *out = otherwise;
    if (t) {
        if (lib_count(t) != 1)
            return LIB_FAIL(call, "the position must be one number");
        *out = lib_get_int(t, 0);
        *out += *out < 0 ? n : 0;
    }
    if (*out < 0 || *out >= n)
        return call->host->fail(call, TCC_EINDEX, "position %lld is outside a sequence of %lld", (long long)*out,
                                (long long)n);
    return TCC_OK;
}

static int give_scalar(struct tcc_lib_call *call, int dtype, int64_t v)
{
    void *y = lib_out(call, 0, dtype, 0, NULL);

    if (!y)
        return TCC_EENV;
    lib_put_int(y, dtype, 0, v);
    return TCC_OK;
}

int tccrt_lib_sequence_empty(struct tcc_lib_call *call)
{
    return give(call, tccrt_object_sequence(0));
}

int tccrt_lib_sequence_construct(struct tcc_lib_call *call)
{
    struct tcc_object *q = tccrt_object_sequence(call->nin);

    for (int i = 0; q && i < call->nin; i++)
        q->items[i] = tccrt_object_ref(call->in[i]);
    return give(call, q);
}

int tccrt_lib_sequence_insert(struct tcc_lib_call *call)
{
    const struct tcc_object *from;
    struct tcc_object *q;
    int64_t at;
    int status = need_sequence(call, 0, &from);

    if (status)
        return status;
    if (!lib_has(call, 1))
        return LIB_FAIL(call, "there is nothing to insert");
    /* Positions run to n (at the end), and negative ones count from there minus one, as in Python's insert. */
    if (lib_in(call, 2) && lib_count(lib_in(call, 2)) == 1 && lib_get_int(lib_in(call, 2), 0) == from->n)
        at = from->n;
    else if (!lib_has(call, 2))
        at = from->n;
    else if ((status = position(call, 2, from->n, 0, &at)))
        return status;
    q = tccrt_object_sequence(from->n + 1);
    for (int64_t i = 0; q && i <= from->n; i++)
        q->items[i] = tccrt_object_ref(i == at ? call->in[1] : from->items[i - (i > at)]);
    return give(call, q);
}

int tccrt_lib_sequence_erase(struct tcc_lib_call *call)
{
    const struct tcc_object *from;
    struct tcc_object *q;
    int64_t at;
    int status;

    if ((status = need_sequence(call, 0, &from)) || (status = position(call, 1, from->n, from->n - 1, &at)))
        return status;
    q = tccrt_object_sequence(from->n - 1);
    for (int64_t i = 0; q && i < from->n - 1; i++)
        q->items[i] = tccrt_object_ref(from->items[i + (i >= at)]);
    return give(call, q);
}

int tccrt_lib_sequence_at(struct tcc_lib_call *call)
{
    const struct tcc_object *from;
    int64_t at;
    int status;

    if ((status = need_sequence(call, 0, &from)) || (status = position(call, 1, from->n, -1, &at)))
        return status;
    return give_ref(call, from->items[at]);
}

int tccrt_lib_sequence_length(struct tcc_lib_call *call)
{
    const struct tcc_object *from;
    int status = need_sequence(call, 0, &from);

    return status ? status : give_scalar(call, TCC_I64, from->n);
}

/* -- Optionals ------------------------------------------------------------------------------------------------- */

int tccrt_lib_optional(struct tcc_lib_call *call)
{
    return lib_has(call, 0) ? give_ref(call, call->in[0]) : give(call, tccrt_object_none());
}

int tccrt_lib_optional_has_element(struct tcc_lib_call *call)
{
    return give_scalar(call, TCC_BOOL, lib_has(call, 0));
}

int tccrt_lib_optional_get_element(struct tcc_lib_call *call)
{
    return lib_has(call, 0) ? give_ref(call, call->in[0]) : LIB_FAIL(call, "the optional is empty");
}

/* Any value, unchanged. */
int tccrt_lib_dyn_identity(struct tcc_lib_call *call)
{
    if (call->nin < 1 || !call->in[0])
        return give(call, tccrt_object_none());
    return give_ref(call, call->in[0]);
}

/* (x, condition) -> x, where all of the condition holds. */
int tccrt_lib_check(struct tcc_lib_call *call)
{
    const struct tcc_tensor *holds;
    int status = lib_need(call, 1, -1, TCC_BOOL, &holds);

    for (int64_t k = 0; !status && k < lib_count(holds); k++)
        if (lib_get(holds, k) == 0)
            status = LIB_FAIL(call, "%s", lib_text(call, "message", "a check does not hold"));
    return status ? status : give_ref(call, call->in[0]);
}

/* What a branch begins with that makes no sense: the run that takes it ends. */
int tccrt_lib_refuse(struct tcc_lib_call *call)
{
    return LIB_FAIL(call, "%s", lib_text(call, "message", "it can't be computed"));
}

/* -- Tensors to sequences and back --------------------------------------------------------------------------------- */

/* Items [first, first + n) along an axis; the axis goes when `squeeze`. */
static struct tcc_object *take(const struct tcc_tensor *x, int axis, int64_t first, int64_t n, bool squeeze)
{
    int64_t dims[TCC_MAX_RANK], outer = lib_product(axis, x->dims),
                                inner = lib_product(x->rank - axis - 1, x->dims + axis + 1);
    struct tcc_object *o;
    int rank = 0;

    for (int i = 0; i < x->rank; i++)
        if (i != axis || !squeeze)
            dims[rank++] = i == axis ? n : x->dims[i];
    o = tccrt_object_tensor(x->dtype, rank, dims);
    for (int64_t k = 0; o && k < outer; k++) {
        if (!lib_copy_n(o->t.data, k * n * inner, x, (k * x->dims[axis] + first) * inner, n * inner)) {
            tccrt_object_unref(o);
            return NULL;
        }
    }
    return o;
}

/* (x, split?) attrs axis, keepdims. Without split: single slices, whose axis goes when keepdims is 0; a scalar split:
 * pieces of that size, the last may be smaller; a list: the sizes. With a scalar split of 1 the axis goes too, though
 * ONNX has keepdims ignored wherever there is a split: PyTorch exports unbind() so, and ONNX Runtime runs it so. */
int tccrt_lib_split_to_sequence(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *split = lib_in(call, 1);
    int64_t n, each = 1, length, at = 0;
    struct tcc_object *q;
    bool squeeze = false;
    int axis, status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    axis = lib_axis(lib_int(call, "axis", 0), x->rank);
    if (axis < 0)
        return LIB_FAIL(call, "axis %lld is outside a tensor of rank %d", (long long)lib_int(call, "axis", 0), x->rank);
    length = x->dims[axis];
    if (split && split->rank == 0)
        each = lib_get_int(split, 0);
    if (each < 1)
        return LIB_FAIL(call, "pieces of size %lld", (long long)each);
    if (each == 1 && !(split && split->rank))
        squeeze = !lib_int(call, "keepdims", 1);
    n = split && split->rank ? lib_count(split) : (length + each - 1) / each;
    q = tccrt_object_sequence(n);
    for (int64_t i = 0; q && i < n; i++) {
        int64_t size = split && split->rank ? lib_get_int(split, i) : each < length - at ? each : length - at;

        if (size < 0 || size > length - at) {
            tccrt_object_unref(q);
            return LIB_FAIL(call, "the pieces do not add up to %lld", (long long)length);
        }
        q->items[i] = take(x, axis, at, size, squeeze);
        at += size;
    }
    if (q && at != length) {
        tccrt_object_unref(q);
        return LIB_FAIL(call, "the pieces add up to %lld, not %lld", (long long)at, (long long)length);
    }
    return give(call, q);
}

/* (sequence) attrs axis, new_axis: concatenation, on an axis of their own if new_axis. */
int tccrt_lib_concat_from_sequence(struct tcc_lib_call *call)
{
    const struct tcc_object *q;
    const struct tcc_tensor *first;
    int64_t dims[TCC_MAX_RANK], outer, inner, at = 0, total = 0;
    bool stack = lib_int(call, "new_axis", 0) != 0;
    int rank, axis, status = need_sequence(call, 0, &q);
    void *y;

    if (status)
        return status;
    if (q->n == 0 || q->items[0]->kind != TCC_OBJ_TENSOR)
        return LIB_FAIL(call, "a sequence of at least one tensor expected");
    first = &q->items[0]->t;
    rank = first->rank + stack;
    axis = lib_axis(lib_int(call, "axis", 0), rank);
    if (axis < 0 || rank > TCC_MAX_RANK)
        return LIB_FAIL(call, "axis %lld is not possible for tensors of rank %d", (long long)lib_int(call, "axis", 0),
                        first->rank);
    for (int64_t i = 0; i < q->n; i++) {
        const struct tcc_tensor *t = &q->items[i]->t;

        if (q->items[i]->kind != TCC_OBJ_TENSOR || t->dtype != first->dtype || t->rank != first->rank)
            return LIB_FAIL(call, "item %lld has another type or rank than item 0", (long long)i);
        for (int a = 0; a < t->rank; a++)
            if (t->dims[a] != first->dims[a] && (stack || a != axis))
                return LIB_FAIL(call, "item %lld has another size on axis %d than item 0", (long long)i, a);
        total += stack ? 1 : t->dims[axis];
    }
    for (int a = 0, k = 0; a < rank; a++)
        dims[a] = a == axis && stack ? total : first->dims[k++];
    dims[axis] = total;
    outer = lib_product(axis, dims);
    inner = lib_product(rank - axis - 1, dims + axis + 1);
    if (!(y = lib_out(call, 0, first->dtype, rank, dims)))
        return TCC_EENV;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < q->n; i++) {
            const struct tcc_tensor *t = &q->items[i]->t;
            int64_t n = (stack ? 1 : t->dims[axis]) * inner;

            if (!lib_copy_n(y, at, t, o * n, n))
                return LIB_NO_MEMORY(call);
            at += n;
        }
    }
    return TCC_OK;
}
