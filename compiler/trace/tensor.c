/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c - tensors, their data and lifetime; errors. */
#include "base/format.h"
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/target.h"

/* The context of this thread's last failure: what NULL, which an op gives after one, stands for. */
static _Thread_local struct trace_ctx *failed;
static _Thread_local char none_made[256]; /* why trace_new() failed */

int trace_fail(struct trace_ctx *c, int status, const char *format, ...)
{
    failed = c;
    if (c->status)
        return c->status;
    c->status = status;
    FORMAT_INTO(c->error, sizeof c->error, format);
    return status;
}

int trace_no_memory(struct trace_ctx *c)
{
    return trace_fail(c, TCC_EENV, "no memory");
}

const char *trace_error(const struct trace_ctx *c)
{
    return c ? c->error : none_made;
}

struct trace_ctx *trace_failed(void)
{
    return failed && failed->status ? failed : NULL;
}

void trace_forget_failure(const struct trace_ctx *c)
{
    if (failed == c)
        failed = NULL;
}

int trace_refuse(int status, const char *format, ...)
{
    FORMAT_INTO(none_made, sizeof none_made, format);
    return status;
}

/* -- Data -------------------------------------------------------------------------------------------- */

struct trace_data *trace_data_of(struct tcc_object *o)
{
    struct trace_data *d = o ? calloc(1, sizeof *d) : NULL;
    if (!d) {
        tccrt_object_unref(o);
        return NULL;
    }
    d->o = o;
    d->refs = 1;
    return d;
}

struct trace_data *trace_data_new(int dtype, int rank, const int64_t *dims)
{
    return trace_data_of(tccrt_object_tensor(dtype, rank, dims));
}

struct trace_data *trace_data_ref(struct trace_data *d)
{
    d->refs++;
    return d;
}

static void data_free(struct trace_data *d)
{
    tccrt_object_unref(d->o);
    d->o = NULL;
    if (!d->device) {
        free(d);
        return;
    }
    pthread_mutex_lock(&d->c->executor.lock);
    d->next = d->c->executor.garbage;
    d->c->executor.garbage = d;
    pthread_mutex_unlock(&d->c->executor.lock);
}

void trace_data_unref(struct trace_data *d)
{
    if (!d || --d->refs)
        return;
    data_free(d);
}

void trace_hold(struct trace_data **at, struct trace_data *data)
{
    struct trace_data *old = *at;
    if (data) {
        data->refs++;
        data->owners++;
    }
    *at = data;
    if (old) {
        old->owners--;
        trace_data_unref(old);
    }
}

/* -- Tensors ------------------------------------------------------------------------------------------ */

/* The shells of freed tensors, so that a program that uses one gets an error, not memory of another. */
#define MOST_DEAD 4096

static void bury(struct trace_ctx *c, struct trace_tensor *t)
{
    t->dead = true;
    t->next = NULL;
    *(c->last_dead ? &c->last_dead->next : &c->dead) = t;
    c->last_dead = t;
    if (++c->ndead <= MOST_DEAD)
        return;
    struct trace_tensor *oldest = c->dead;
    c->dead = oldest->next;
    c->ndead--;
    free(oldest);
}

bool trace_alive(struct trace_tensor *t)
{
    char text[256];
    if (!t->dead)
        return true;
    trace_fail(t->c, TCC_EUSAGE, "tensor %s is used after the end of its step, and was not retained",
               trace_type_text(t, text, sizeof text));
    return false;
}

void trace_tensor_free(struct trace_tensor *t)
{
    struct trace_ctx *c = t->c;
    *(t->prev ? &t->prev->next : &c->tensors) = t->next;
    *(t->next ? &t->next->prev : &c->last) = t->prev;
    trace_hold(&t->data, NULL);
    trace_hold(&t->before, NULL);
    struct trace_tensor *grad = t->grad;
    free(t->name);
    t->name = NULL;
    t->grad = NULL;
    t->value = NULL;
    bury(c, t);
    trace_release(grad);
}

void trace_count(const struct trace_ctx *c, struct trace_counters *out)
{
    *out = c->counters;
}

/* -- Tensors ------------------------------------------------------------------------------------------- */

static struct trace_tensor *tensor_new(struct trace_ctx *c, int dtype, int rank, const int64_t *dims)
{
    struct trace_tensor *t = calloc(1, sizeof *t);
    if (!t)
        return trace_no_memory(c), NULL;
    *t = (struct trace_tensor){.c = c, .temporary = true, .dtype = dtype, .rank = rank, .prev = c->last};
    for (int i = 0; i < rank; i++)
        t->dims[i] = dims[i];
    *(c->last ? &c->last->next : &c->tensors) = t;
    c->last = t;
    return t;
}

struct trace_tensor *trace_tensor_of(struct trace_ctx *c, struct ir_value *value)
{
    int64_t dims[TCC_MAX_RANK];
    if (!value)
        return NULL;
    if (!ir_is_tensor(value->type) || !ir_static_dims(value->type, dims))
        return trace_fail(c, TCC_EINPUT, "the result has no fixed shape"), NULL;
    struct trace_tensor *t = tensor_new(c, value->type->dtype, value->type->rank, dims);
    if (t) {
        t->value = value;
        t->generation = c->generation;
    }
    return t;
}

struct trace_tensor *trace_tensor_data(struct trace_ctx *c, struct trace_data *data)
{
    if (!data)
        return trace_no_memory(c), NULL;
    struct trace_tensor *t = tensor_new(c, data->o->t.dtype, data->o->t.rank, data->o->t.dims);
    if (t)
        trace_hold(&t->data, data);
    trace_data_unref(data);
    return t;
}

void trace_tensor_drop(struct trace_tensor *t)
{
    if (!t->refs && !t->temporary && !t->holds)
        trace_tensor_free(t);
}

/* A constant that is kept becomes data, so that the graph does not differ from the next step's, which would find data
 * there. */
static void settle_constant(struct trace_tensor *t)
{
    double v;
    const struct ir_tensor *k = trace_is_pending(t) ? ir_const_of(t->value) : NULL;
    if (!k || !k->splat || t->assigned || !ir_splat_f(t->value, &v))
        return;
    struct trace_data *d = trace_data_new(t->dtype, t->rank, t->dims);
    if (!d) {
        trace_no_memory(t->c);
        return;
    }
    size_t each = (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    for (int64_t i = 0; i < k->nelems; i++)
        memcpy((char *)d->o->t.data + (size_t)i * each, k->data, each);
    trace_hold(&t->data, d);
    trace_data_unref(d);
    t->value = NULL;
}

struct trace_tensor *trace_retain(struct trace_tensor *t)
{
    if (!t || !trace_alive(t))
        return NULL;
    settle_constant(t);
    t->refs++;
    return t;
}

void trace_release(struct trace_tensor *t)
{
    if (t && t->refs && !t->dead) {
        t->refs--;
        trace_tensor_drop(t);
    }
}

struct trace_tensor *trace_param(struct trace_tensor *t, const char *name)
{
    if (!t || !trace_alive(t))
        return NULL;
    if (!tcc_is_float((enum tcc_dtype)t->dtype))
        return trace_fail(t->c, TCC_EUSAGE, "a parameter has a float type, not %s",
                          tcc_dtype_name((enum tcc_dtype)t->dtype)),
               NULL;
    char *copy = name && *name ? strdup(name) : NULL;
    if (!copy && name && *name)
        return trace_no_memory(t->c), NULL;
    if (copy) {
        free(t->name);
        t->name = copy;
    }
    t->param = true;
    return trace_retain(t);
}

void trace_forget_grad(struct trace_tensor *t)
{
    struct trace_tensor *grad = t->grad;
    t->grad = NULL;
    t->used_grad = false;
    trace_release(grad);
}

struct trace_tensor *trace_grad(struct trace_tensor *t)
{
    return t ? t->grad : NULL;
}

int trace_dtype(const struct trace_tensor *t)
{
    return t->dtype;
}

int trace_rank(const struct trace_tensor *t)
{
    return t->rank;
}

const int64_t *trace_dims(const struct trace_tensor *t)
{
    return t->dims;
}

bool trace_same_type(const struct trace_tensor *a, const struct trace_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

const char *trace_type_text(const struct trace_tensor *t, char *to, size_t size)
{
    size_t n = (size_t)snprintf(to, size, "%s[", tcc_dtype_name((enum tcc_dtype)t->dtype));
    for (int i = 0; i < t->rank && n < size; i++)
        n += (size_t)snprintf(to + n, size - n, i ? ",%lld" : "%lld", (long long)t->dims[i]);
    if (n < size)
        snprintf(to + n, size - n, "]");
    return to;
}

size_t trace_host_bytes(const struct tcc_tensor *t)
{
    size_t n = (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    for (int i = 0; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    return n;
}

size_t trace_bytes(const struct trace_tensor *t)
{
    size_t n = (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    for (int i = 0; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    return n;
}

/* -- Random numbers ----------------------------------------------------------------------------------------- */

int64_t trace_runs(const struct trace_ctx *c)
{
    return (int64_t)c->generation + c->runs_before;
}

void trace_random_show(struct trace_tensor *t)
{
    const int64_t now[2] = {(int64_t)t->c->seed, trace_runs(t->c)};
    if (t->random && t->data)
        memcpy(t->data->o->t.data, now, sizeof now); /* no graph's: it is the host's alone */
}

void trace_random_take(struct trace_tensor *t)
{
    int64_t then[2];
    if (!t->random || !t->data)
        return;
    memcpy(then, t->data->o->t.data, sizeof then);
    t->c->seed = (uint64_t)then[0];
    t->c->runs_before = then[1] - (int64_t)t->c->generation;
}

/* -- New values -------------------------------------------------------------------------------------------- */

/* The value that the tensor goes back to when the graph being recorded fails. */
static void remember(struct trace_tensor *t)
{
    if (t->assigned)
        return;
    t->assigned = true;
    trace_hold(&t->before, t->data);
}

void trace_become(struct trace_tensor *t, struct ir_value *value)
{
    remember(t);
    trace_hold(&t->data, NULL);
    t->value = value;
    t->generation = t->c->generation;
}

bool trace_is_pending(const struct trace_tensor *t)
{
    return t->value && t->generation == t->c->generation && !t->data;
}
