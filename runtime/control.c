/* SPDX-License-Identifier: Apache-2.0 */
/* Steps with regions, and those that collect a value per iteration. */
#include <string.h>

#include "runtime/rt_int.h"

/* As it is now: a loop asks for its condition after each iteration. */
static int read_scalar(struct tccrt_session *s, uint32_t b, int dtype, const char *node, int64_t *out)
{
    size_t views = s->nviews;
    struct tcc_tensor t;
    int status = tcr_host_tensor(s, b, node, TCC_READS, &t);

    if (status)
        return status;
    if (t.dtype != dtype || tcr_elements(t.dtype, t.rank, t.dims) != 1)
        return tcr_fail(TCC_EINPUT, "node '%s': expected a single %s, got %s of %lld elements", node,
                        tcr_dtype_name(dtype), tcr_dtype_name(t.dtype),
                        (long long)tcr_elements(t.dtype, t.rank, t.dims));
    *out = dtype == TCC_BOOL ? *(const uint8_t *)t.data != 0 : *(const int64_t *)t.data;
    return s->discrete ? tcr_views_end(s, views, TCC_OK) : TCC_OK;
}

static int copy_list(struct tccrt_session *s, const uint32_t *from, const uint32_t *to, uint32_t n, const char *node)
{
    for (uint32_t i = 0; i < n; i++) {
        int status = from[i] == TCC_NO || to[i] == TCC_NO || from[i] == to[i]
                         ? TCC_OK
                         : tcr_copy_buffer(s, from[i], to[i], node);

        if (status)
            return status;
    }
    return s->ordered ? tcr_sync(s) : TCC_OK; /* the queues of the next list know nothing of these copies */
}

int tcr_step_if(struct tccrt_session *s, const struct tcc_pstep *p)
{
    const char *node = tcr_string(s->m, p->node);
    const struct tcc_pregion *r;
    int64_t condition;
    int status = read_scalar(s, s->m->u32s[p->args.first], TCC_BOOL, node, &condition);

    if (status)
        return status;
    r = &s->m->regions[p->regions.first + (condition ? 0 : 1)];
    status = tcr_walk(s, r->steps);
    return status ? status
                  : copy_list(s, s->m->u32s + r->results.first, s->m->u32s + r->exits.first, r->results.count, node);
}

/* -- Loops ---------------------------------------------------------------------------------------------- */

/* Results become parameters all at once: a body may swap two carried values. Where a later result lies in the memory of
 * an earlier parameter, the results go through memory of their own. */
struct staged {
    void *data;
    uint32_t memory;
    int64_t bytes;
    struct tcc_object *object;
};

static bool is_object(const struct tccrt_session *s, uint32_t b)
{
    return s->m->buffers[b].space == TCC_SPACE_OBJECT;
}

static int find_overlap(struct tccrt_session *s, const uint32_t *from, const uint32_t *to, uint32_t n, const char *node,
                        bool *found)
{
    *found = false;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = i + 1; j < n; j++) {
            void *a, *b;
            int64_t na, nb;
            int status;

            if (to[i] == TCC_NO || from[j] == TCC_NO || from[j] == to[j])
                continue;
            if (is_object(s, to[i]) || is_object(s, from[j])) {
                *found = *found || to[i] == from[j];
                continue;
            }
            if ((status = tcr_address(s, to[i], node, &a)) || (status = tcr_address(s, from[j], node, &b)) ||
                (status = tcr_buffer_bytes(s, to[i], node, &na)) || (status = tcr_buffer_bytes(s, from[j], node, &nb)))
                return status;
            *found = *found || ((char *)a < (char *)b + nb && (char *)b < (char *)a + na);
        }
    }
    return TCC_OK;
}

static int stage_one(struct tccrt_session *s, uint32_t from, struct staged *t, const char *node)
{
    void *data;
    int status;

    if (is_object(s, from)) {
        t->object = tccrt_object_ref(s->slots[s->m->slot_of[from]].object);
        return t->object ? TCC_OK : tcr_fail(TCC_EBUG, "node '%s': a carried value was never made", node);
    }
    if ((status = tcr_address(s, from, node, &data)) || (status = tcr_buffer_bytes(s, from, node, &t->bytes)))
        return status;
    t->memory = tcr_memory(s, from);
    t->data = tcr_alloc(s, t->memory, (size_t)t->bytes);
    if (!t->data)
        return TCC_EENV;
    return tcr_copy(s, t->memory, t->data, t->memory, data, (size_t)t->bytes, node);
}

static int unstage_one(struct tccrt_session *s, struct staged *t, uint32_t to, const char *node)
{
    int64_t bytes;
    void *data;
    int status;

    if (is_object(s, to) != (t->object != NULL))
        return tcr_fail(TCC_EBUG, "node '%s': a carried value is an object on one side only", node);
    if (t->object) {
        tcr_slot_set(s, &s->slots[s->m->slot_of[to]], t->object);
        t->object = NULL;
        return TCC_OK;
    }
    if ((status = tcr_address(s, to, node, &data)) || (status = tcr_buffer_bytes(s, to, node, &bytes)))
        return status;
    if (bytes != t->bytes)
        return tcr_fail(TCC_EBUG, "node '%s': a carried value changes its size", node);
    return tcr_copy(s, tcr_memory(s, to), data, t->memory, t->data, (size_t)bytes, node);
}

static int copy_staged(struct tccrt_session *s, const uint32_t *from, const uint32_t *to, uint32_t n, const char *node)
{
    struct staged *t = tcr_heap_alloc(&s->heap, n * sizeof *t);
    int status = TCC_OK;

    if (!t)
        return TCC_EENV;
    memset(t, 0, n * sizeof *t);
    for (uint32_t i = 0; i < n && !status; i++)
        if (from[i] != TCC_NO && to[i] != TCC_NO)
            status = stage_one(s, from[i], &t[i], node);
    for (uint32_t i = 0; i < n && !status; i++)
        if (from[i] != TCC_NO && to[i] != TCC_NO)
            status = unstage_one(s, &t[i], to[i], node);
    for (uint32_t i = 0; i < n; i++) {
        tcr_free(s, t[i].memory, t[i].data, (size_t)t[i].bytes);
        tccrt_object_unref(t[i].object);
    }
    tcr_heap_free(&s->heap, t, n * sizeof *t);
    return status || !s->ordered ? status : tcr_sync(s);
}

static int write_param(struct tccrt_session *s, uint32_t b, int64_t value, const char *node)
{
    void *data;
    int status;

    if (b == TCC_NO)
        return TCC_OK;
    if ((status = tcr_address(s, b, node, &data)) ||
        (status = tcr_view(s, b, node, TCC_WRITES, &data, (size_t)tcr_dtype_bytes((int)s->m->buffers[b].dtype))))
        return status;
    if (s->m->buffers[b].dtype == TCC_BOOL)
        *(uint8_t *)data = value != 0;
    else
        *(int64_t *)data = value;
    return TCC_OK;
}

/* What a loop carries on a device has been waited for when it begins (runtime/abi.h: memories and queues), whether or
 * not it runs. */
static int take_over(struct tccrt_session *s, const uint32_t *params, uint32_t n, const char *node)
{
    int status = TCC_OK;

    for (uint32_t i = 0; s->ordered && s->device->checks && i < n && !status; i++) {
        void *at;
        int64_t bytes;

        if (params[i] == TCC_NO || is_object(s, params[i]) || !tcr_memory(s, params[i]))
            continue;
        if (!(status = tcr_address(s, params[i], node, &at)) &&
            !(status = tcr_buffer_bytes(s, params[i], node, &bytes)))
            status = tcr_touch(s, at, (size_t)bytes, TCC_READS | TCR_HANDS_OVER, node);
    }
    return status;
}

int tcr_carried_overlap(struct tccrt_session *s, const struct tcc_pstep *p, bool *overlap)
{
    const struct tcc_pregion *r = &s->m->regions[p->regions.first];

    return find_overlap(s, s->m->u32s + r->results.first + 1, s->m->u32s + r->params.first + 2, r->params.count - 2,
                        tcr_string(s->m, p->node), overlap);
}

int tcr_step_loop(struct tccrt_session *s, const struct tcc_pstep *p)
{
    const char *node = tcr_string(s->m, p->node);
    const uint32_t *args = s->m->u32s + p->args.first;
    const struct tcc_pregion *r = &s->m->regions[p->regions.first];
    const uint32_t *params = s->m->u32s + r->params.first, *results = s->m->u32s + r->results.first;
    uint32_t carried = r->params.count - 2;
    int64_t trip = INT64_MAX, condition = 1;
    int status = TCC_OK;

    if (args[0] != TCC_NO)
        status = read_scalar(s, args[0], TCC_I64, node, &trip);
    if (!status && args[1] != TCC_NO)
        status = read_scalar(s, args[1], TCC_BOOL, node, &condition);
    if (!status)
        status = take_over(s, params + 2, carried, node);
    for (int64_t i = 0; !status && condition && i < trip; i++) {
        size_t views = s->nviews;
        bool overlap;

        if ((status = write_param(s, params[0], i, node)) || (status = write_param(s, params[1], condition, node)) ||
            (status = tcr_views_end(s, views, TCC_OK)) || (status = tcr_walk(s, r->steps)))
            return status;
        if (results[0] != TCC_NO && (status = read_scalar(s, results[0], TCC_BOOL, node, &condition)))
            return status;
        if ((status = find_overlap(s, results + 1, params + 2, carried, node, &overlap)))
            return status;
        status = (overlap ? copy_staged : copy_list)(s, results + 1, params + 2, carried, node);
    }
    return status ? status : copy_list(s, params + 2, s->m->u32s + r->exits.first, carried, node);
}

/* -- A value per iteration --------------------------------------------------------------------------------- */

/* Appends to the sequence in `slot`. Its room doubles when it is full: n is a power of two. One that others hold too
 * is copied first. */
static int append(struct tcr_slot *slot, struct tcc_object *item)
{
    struct tcc_object *q = slot->object;
    bool shared = q && __atomic_load_n(&q->refs, __ATOMIC_ACQUIRE) > 1;

    if (!q || shared || (q->n & (q->n - 1)) == 0) {
        int64_t n = q ? q->n : 0, room = 1;
        struct tcc_object *grown;

        while (room <= n)
            room *= 2;
        grown = tccrt_object_sequence(room);
        if (!grown)
            return -1;
        for (int64_t i = 0; i < n; i++)
            grown->items[i] = shared ? tccrt_object_ref(q->items[i]) : q->items[i];
        grown->n = n;
        if (q && !shared)
            q->n = 0;
        tccrt_object_unref(q);
        slot->object = q = grown;
    }
    q->items[q->n++] = item;
    return 0;
}

int tcr_step_accum(struct tccrt_session *s, const struct tcc_pstep *p)
{
    const char *node = tcr_string(s->m, p->node);
    const uint32_t *args = s->m->u32s + p->args.first;
    struct tcr_slot *slot = &s->slots[s->m->slot_of[args[1]]];
    struct tcc_object head, *item;
    struct tcc_tensor t;
    int status;

    if (is_object(s, args[0])) {
        item = tccrt_object_ref(s->slots[s->m->slot_of[args[0]]].object);
    } else {
        if ((status = tcr_host_tensor(s, args[0], node, TCC_READS, &t)))
            return status;
        tcr_object_borrow(&head, &t);
        item = tccrt_object_ref(&head);
    }
    if (!item)
        return tcr_fail(TCC_EENV, "node '%s': no memory", node);
    if (append(slot, item)) {
        tccrt_object_unref(item);
        return tcr_fail(TCC_EENV, "node '%s': no memory", node);
    }
    return TCC_OK;
}

/* Copies one item into its place: rows of `inner` bytes, `stride` bytes apart. */
static int place(char *to, const struct tcc_tensor *t, int64_t outer, int64_t inner, int64_t stride)
{
    const char *from = t->data;

    for (int64_t i = 0; i < outer && inner; i++) {
        if (t->dtype != TCC_STRING) {
            memcpy(to + i * stride, from + i * inner, (size_t)inner);
            continue;
        }
        for (int64_t k = 0; k < inner / (int64_t)sizeof(struct tcc_string); k++) {
            const struct tcc_string *a = (const struct tcc_string *)(from + i * inner) + k;

            if (tccrt_string_set((struct tcc_string *)(to + i * stride) + k, a->data, a->size))
                return -1;
        }
    }
    return 0;
}

static struct tcc_object *stack(const struct tcc_object *q, int axis, bool reversed)
{
    const struct tcc_tensor *first = &q->items[0]->t;
    int64_t dims[TCC_MAX_RANK], outer = 1, inner = tcr_dtype_bytes(first->dtype);
    struct tcc_object *o;

    for (int i = 0, k = 0; i <= first->rank; i++)
        dims[i] = i == axis ? q->n : first->dims[k++];
    for (int i = 0; i < first->rank; i++)
        *(i < axis ? &outer : &inner) *= first->dims[i];
    o = tccrt_object_tensor(first->dtype, first->rank + 1, dims);
    for (int64_t i = 0; o && i < q->n; i++) {
        if (place((char *)o->t.data + i * inner, &q->items[reversed ? q->n - 1 - i : i]->t, outer, inner,
                  inner * q->n)) {
            tccrt_object_unref(o);
            return NULL;
        }
    }
    return o;
}

/* No iteration ran: the item's dims come from the plan. */
static int empty_stack(struct tccrt_session *s, const struct tcc_pstep *p, uint32_t to, struct tcc_object **out)
{
    const char *node = tcr_string(s->m, p->node);
    int64_t dims[TCC_MAX_RANK] = {0}, item[TCC_MAX_RANK];
    uint32_t rank = p->sizes.count + 1, dtype = s->m->buffers[to].dtype;
    int status;

    if (rank > TCC_MAX_RANK || p->what >= rank)
        return tcr_fail(TCC_EINPUT, "node '%s': a stack of nothing on axis %u", node, p->what);
    if ((status = tcr_dims(s, p->sizes, "an item's size", node, item)))
        return status;
    for (uint32_t i = 0, k = 0; i < rank; i++)
        dims[i] = i == p->what ? 0 : item[k++];
    *out = tccrt_object_tensor(dtype ? (int)dtype : TCC_F32, (int)rank, dims);
    return TCC_OK;
}

int tcr_step_stack(struct tccrt_session *s, const struct tcc_pstep *p)
{
    const char *node = tcr_string(s->m, p->node);
    const uint32_t *args = s->m->u32s + p->args.first;
    const struct tcc_object *q = s->slots[s->m->slot_of[args[0]]].object;
    struct tcc_object *o = NULL;
    int status = TCC_OK;

    if (q && q->kind != TCC_OBJ_SEQUENCE)
        return tcr_fail(TCC_EBUG, "node '%s': a stack of something that is not a sequence", node);
    if (!q || q->n == 0) {
        status = empty_stack(s, p, args[1], &o);
    } else {
        const struct tcc_tensor *first = &q->items[0]->t;
        char a[256], b[256];

        for (int64_t i = 0; i < q->n; i++) {
            const struct tcc_tensor *t = &q->items[i]->t;

            if (q->items[i]->kind != TCC_OBJ_TENSOR || t->dtype != first->dtype || t->rank != first->rank ||
                memcmp(t->dims, first->dims, (size_t)t->rank * sizeof *t->dims))
                return tcr_fail(TCC_EINPUT, "node '%s': iterations yield values of different shapes, %s and %s", node,
                                tcr_dims_text(a, first->rank, first->dims), tcr_dims_text(b, t->rank, t->dims));
        }
        if (first->rank == TCC_MAX_RANK || (int64_t)p->what > first->rank)
            return tcr_fail(TCC_EINPUT, "node '%s': values of rank %d cannot be stacked on axis %u", node, first->rank,
                            p->what);
        o = stack(q, (int)p->what, p->tiles != TCC_NO && s->values[p->tiles] > 0);
    }
    if (status)
        return status;
    if (!o)
        return tcr_fail(TCC_EENV, "node '%s': no memory", node);
    tcr_slot_set(s, &s->slots[s->m->slot_of[args[1]]], o);
    return TCC_OK;
}
