/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.c - tensors' data on a device with memory of its own: retained tensors that steps update in place lie there
 * and stay there; what a step reads goes along with its run, and lies there from the second run on that reads it. The
 * host has a copy where it asks for one.
 *
 * The context's thread looks at data when all runs have ended (trace_reap). A run of the graph that is under way may
 * begin behind it: its batch is copied while the one before computes. Memory of the device that nobody holds any more
 * is given back by the thread that runs, before a run, since sessions are one thread's at a time.
 */
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/target.h"

/* -- Names ------------------------------------------------------------------------------------------------ */

static int refuse(char *error, size_t size, int status, const char *format, const char *name)
{
    snprintf(error, size, format, name);
    return status;
}

/* The name, or the name and a number. */
static bool names(const char *text, const char *device, bool numbered)
{
    size_t n = strlen(device);
    if (strncmp(text, device, n))
        return false;
    return !text[n] ||
           (numbered && text[n] == ':' && text[n + 1] && strspn(text + n + 1, "0123456789") == strlen(text + n + 1));
}

int trace_settle_device(struct trace_ctx *c, const struct trace_options *o, char *error, size_t size)
{
    static const struct {
        const char *device, *target;
        bool numbered;
    } rows[] = {{"cpu", "cpu", false},
                {"cpu-split", "cpu-split", false},
                {"cuda", "cuda:sm_80", true},
                {"neuron", "neuron:trn1", false},
                {"sim", "cuda:sm_80", true}};
    const char *device = o->device ? o->device : tccrt_env_text("TCCC_DEVICE"), *target = o->target;
    bool known = false;
    char family[64];
    if (device && (!*device || !strcmp(device, "auto")))
        device = NULL;
    for (size_t i = 0; device && i < sizeof rows / sizeof *rows; i++)
        if (names(device, rows[i].device, rows[i].numbered)) {
            target = target ? target : rows[i].target;
            known = true;
        }
    if (device && !known)
        return refuse(error, size, TCC_EUSAGE,
                      "unknown device '%s': expected cpu, cuda, cuda:K, neuron, sim or cpu-split (architectures are "
                      "the option target)",
                      device);
    target = target ? target : "cpu";
    snprintf(family, sizeof family, "%.*s", (int)strcspn(target, ":"), target);
    if (!target_by_name(family))
        return refuse(error, size, TCC_EUSAGE,
                      "unknown target '%s': expected cpu, cpu-split, cuda:ARCH or neuron:MACHINE", target);
    c->target = strdup(target);
    c->device = device ? strdup(device) : NULL;
    c->discrete = strcmp(target, "cpu") != 0 && !(device && !strcmp(device, "cpu"));
    return c->target && (c->device || !device) ? TCC_OK : refuse(error, size, TCC_EENV, "%s", "no memory");
}

/* -- Data: its own thread's, or between runs ------------------------------------------------------------------ */

void *trace_host(struct trace_data *d)
{
    struct tcc_tensor *t = &d->o->t;
    if (d->stale && tccrt_device_copy(d->session, false, t->data, true, d->device, trace_host_bytes(t)))
        return NULL;
    d->stale = false;
    return t->data;
}

void *trace_host_write(struct trace_data *d)
{
    void *data = trace_host(d);
    d->ahead = data != NULL;
    return data;
}

/* The device has what the host has. */
static int upload(struct trace_ctx *c, struct trace_data *d, struct tccrt_session *s)
{
    const struct tcc_tensor *t = &d->o->t;
    size_t bytes = trace_host_bytes(t);
    if (!d->device) {
        if (!(d->device = tccrt_device_alloc(s, bytes ? bytes : 1)))
            return TCC_EENV;
        d->session = s;
        d->bytes = bytes ? bytes : 1;
        d->c = c;
        d->ahead = true;
    }
    if (!d->ahead)
        return TCC_OK;
    int status = tccrt_device_copy(s, true, d->device, false, t->data, bytes);
    d->ahead = status != TCC_OK;
    return status;
}

void trace_device_collect(struct trace_ctx *c)
{
    struct trace_executor *e = &c->executor;
    pthread_mutex_lock(&e->lock);
    struct trace_data *list = e->garbage;
    e->garbage = NULL;
    pthread_mutex_unlock(&e->lock);
    for (struct trace_data *next; list; list = next) {
        next = list->next;
        tccrt_device_free(list->session, list->device, list->bytes);
        free(list);
    }
}

/* -- Runs ---------------------------------------------------------------------------------------------------- */

static int bind_states(struct trace_ctx *c, const struct trace_run *r)
{
    const struct trace_compiled *g = r->compiled;
    int status = TCC_OK;
    for (int i = 0; i < r->nstates && !status; i++) {
        struct trace_data *d = r->state_data[i];
        struct tcc_tensor there = d->o->t;
        if (g->states[i] < 0 || (status = upload(c, d, g->session)))
            continue;
        there.data = d->device;
        status = tccrt_state_bind_on_device(g->session, g->states[i], &there);
    }
    return status;
}

/* Inputs that the device has, or that are read not for the first time, are given as it has them. */
static int place_inputs(struct trace_ctx *c, struct trace_run *r, bool *there)
{
    int status = TCC_OK;
    for (int i = 0; i < r->nin && !status; i++) {
        struct trace_data *d = r->in_data[i];
        if (!d->device && !d->wanted && !d->reads++)
            continue;
        if (!(status = upload(c, d, r->compiled->session))) {
            r->in[i].data = d->device;
            there[i] = true;
        }
    }
    return status;
}

/* Modelled seconds of the session so far; 0: its device models none. */
static double modelled(struct tccrt_session *s)
{
    struct tccrt_sim sim;

    return tccrt_simulated(s, &sim) ? 0 : sim.seconds;
}

bool trace_device_follows(const struct trace_run *before, const struct trace_run *r)
{
    const struct trace_compiled *g = r->compiled;
    bool may = g && g == before->compiled;
    for (int i = 0; may && i < r->nstates; i++)
        may = g->states[i] < 0 || (r->state_data[i] == before->state_data[i] && !r->state_data[i]->ahead);
    for (int i = 0; may && i < r->nin; i++) {
        const struct trace_data *d = r->in_data[i];
        may = d->device ? !d->ahead : !d->reads && !d->wanted; /* brought for itself if read again */
        for (int k = 0; may && k < before->nout; k++)
            may = before->out[k].data != d->o->t.data;
    }
    return may;
}

int trace_device_begin(struct trace_ctx *c, struct trace_run *r, bool follows)
{
    struct tccrt_session *s = r->compiled->session;
    bool *there = calloc((size_t)r->nin + 1, sizeof *there);
    int status = there ? TCC_OK : TCC_EENV;
    trace_device_collect(c);
    if (!follows)
        r->compiled->modelled = modelled(s);
    if (!status && !follows)
        status = bind_states(c, r);
    if (!status && !(status = place_inputs(c, r, there))) {
        const struct tccrt_async how = {.in_on_device = there};
        tccrt_random_set(s, r->seed, r->count);
        status = tccrt_run_async(s, "main", r->nin, r->in, r->nout, r->out, &how, &r->ticket);
        r->under_way = !status;
    }
    free(there);
    return status;
}

/* A session whose run failed goes on at that run's number. */
bool trace_device_faulted(const struct trace_run *r)
{
    uint64_t seed;
    int64_t runs;
    tccrt_random_get(r->compiled->session, &seed, &runs);
    return runs == r->count;
}

int trace_device_end(struct trace_run *r, bool followed)
{
    const struct trace_compiled *g = r->compiled;
    int status = tccrt_wait(g->session, r->ticket);
    r->under_way = false;
    for (int i = 0; i < r->nstates && !status; i++)
        r->state_data[i]->stale = g->states[i] >= 0;
    if (!followed) /* to ask for modelled time is to wait for what is under way */
        r->modelled = modelled(g->session) - g->modelled;
    return status;
}

/* -- By hand -------------------------------------------------------------------------------------------------- */

struct trace_tensor *trace_to(struct trace_tensor *t, const char *device)
{
    if (!t || !trace_alive(t))
        return NULL;
    struct trace_ctx *c = t->c;
    bool to_host = device && !strcmp(device, "cpu");
    if (!to_host && !(device && c->device && !strcmp(device, c->device)))
        return trace_fail(c, TCC_EUSAGE, "to: the context's device is '%s', which or 'cpu' was expected, got '%s'",
                          c->device ? c->device : "cpu", device ? device : "NULL"),
               NULL;
    if (!c->discrete || trace_is_pending(t) || !t->data)
        return t;
    trace_reap(c, true);
    if (c->status)
        return NULL;
    if (to_host && !trace_host(t->data))
        trace_fail(c, TCC_EENV, "to: %s", tccrt_error());
    else if (!to_host && c->compiled && upload(c, t->data, c->compiled->session))
        trace_fail(c, TCC_EENV, "to: %s", tccrt_error());
    t->data->wanted = !to_host; /* before the first step nobody has the device open: the first run brings it there */
    return c->status ? NULL : t;
}
