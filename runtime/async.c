/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async.c - runs that return when their work is in the device's queues, on the caller's memory and behind the caller's
 * streams.
 *
 * Runs of a session follow each other on the device: each ends with a join of all queues, and an event. Its control
 * block is written in the order of queue 0, and leaves a fault where it is, so that nothing behind a run that has met a
 * bad index is done until the host has heard of it.
 *
 * Inputs that a plan copies to the device as they are need no copy where they lie there already, and no place in the
 * arena: the buffer that the plan copies them to lies `instead` in the caller's memory, and so does the one from which
 * an output is copied. Inputs that lie on the host go ahead, in a queue of their own, to one of two sets of blocks in
 * turn, so that they are under way while the run before still computes.
 *
 * A device that is done when it is called, and the host itself, run at once.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"

enum { RUNS = TCR_RUNS, SETS = 2 }; /* under way at once; blocks for inputs */

struct ahead {
    void *at;
    size_t bytes;
};
struct tcr_async {
    uint32_t *
        /* by buffer: of an input the device's buffer that it becomes, of an output the one it was; TCC_NO: none */
        partner;
    struct ahead *ahead[SETS]; /* by input */
    uint32_t *rebound;         /* buffers that have another place now */
    uint32_t nrebound;
    int64_t runs[RUNS]; /* by ticket % RUNS: the number of the run */
    int queue;          /* for what goes ahead */
    uint32_t event;     /* its event; behind it, one for each run's end */
    bool began;         /* runs behind it need not clear the fault word */
    uintptr_t stream;   /* of the running call */
};

/* -- Which buffers may lie elsewhere -------------------------------------------------------------------- */

enum { OTHER = 0x80, MANY = 0x7f }; /* used by more than launches and copies; else how often it is written */

static void note(const struct tccrt_model *m, uint8_t *uses, uint32_t b, unsigned how)
{
    if (b == TCC_NO)
        return;
    while (m->buffers[b].space == TCC_SPACE_ALIAS)
        b = m->buffers[b].index;
    if (how == OTHER)
        uses[b] |= OTHER;
    else if (how == TCC_WRITES && (uses[b] & MANY) < MANY)
        uses[b]++;
}

static void note_list(const struct tccrt_model *m, uint8_t *uses, struct tcc_range list)
{
    for (uint32_t i = 0; i < list.count; i++)
        note(m, uses, m->u32s[list.first + i], OTHER);
}

static void note_step(const struct tccrt_model *m, uint8_t *uses, const struct tcc_pstep *p)
{
    const uint32_t *args = m->u32s + p->args.first;

    if (p->kind == TCC_STEP_LAUNCH)
        for (uint32_t i = 0; i < p->args.count; i++)
            note(m, uses, args[i],
                 m->buffers[args[i]].space <= TCC_SPACE_OUTPUT
                     ? OTHER
                     : m->u32s[m->kernels[p->what].uses.first + i] & TCC_WRITES);
    else if (p->kind == TCC_STEP_COPY)
        note(m, uses, args[1], TCC_WRITES);
    else
        note_list(m, uses, p->args);
}

static bool is_on_device(const struct tcc_pbuffer *b)
{
    return b->space == TCC_SPACE_ARENA && b->memory;
}

/* An input and what it is copied to, an output and what it is copied from: the only copy of it. */
static void find_partners(const struct tccrt_model *m, const uint8_t *uses, uint32_t *partner)
{
    for (uint32_t i = 0; i < m->plan->steps.count; i++) {
        const struct tcc_pstep *p = &m->steps[i];
        const uint32_t *args = m->u32s + p->args.first;
        bool fits;

        if (p->kind != TCC_STEP_COPY)
            continue;
        if (m->buffers[args[0]].space == TCC_SPACE_INPUT) {
            fits = is_on_device(&m->buffers[args[1]]) && uses[args[1]] == 1 && !uses[args[0]] &&
                   partner[args[0]] == TCC_NO;
            partner[args[0]] = fits ? args[1] : args[0];
        }
        if (m->buffers[args[1]].space == TCC_SPACE_OUTPUT) {
            fits = is_on_device(&m->buffers[args[0]]) && !(uses[args[0]] & OTHER) && uses[args[1]] == 1 &&
                   partner[args[1]] == TCC_NO;
            partner[args[1]] = fits ? args[0] : args[1];
        }
    }
    for (uint32_t b = 0; b < m->plan->buffers.count; b++) /* more than one copy, or one that has to be done */
        if (partner[b] == b)
            partner[b] = TCC_NO;
}

static int make_partners(struct tccrt_session *s, struct tcr_async *a)
{
    const struct tccrt_model *m = s->m;
    uint8_t *uses = calloc(m->plan->buffers.count + 1, 1);

    if (!uses)
        return tcr_fail(TCC_EENV, "no memory for a run");
    memset(a->partner, 0xff, m->plan->buffers.count * sizeof *a->partner);
    for (uint32_t i = 0; i < m->plan->steps.count; i++)
        note_step(m, uses, &m->steps[i]);
    for (uint32_t i = 0; i < m->plan->regions.count; i++) {
        note_list(m, uses, m->regions[i].params);
        note_list(m, uses, m->regions[i].results);
        note_list(m, uses, m->regions[i].exits);
    }
    if (s->ordered)
        find_partners(m, uses, a->partner);
    free(uses);
    return TCC_OK;
}

static int make_async(struct tccrt_session *s);

int tcr_goes_ahead(struct tccrt_session *s, const struct tcc_pentry *e, uint32_t i, bool *goes)
{
    uint32_t b = s->m->u32s[e->input_buffers.first + i];
    int status = s->async ? TCC_OK : make_async(s);

    *goes = !status && b != TCC_NO && s->async->partner[b] != TCC_NO;
    return status;
}

/* -- Another place ---------------------------------------------------------------------------------------- */

/* Buffer b of the run lies at `at` if it may and as many bytes are there: true. */
static bool put_instead(struct tccrt_session *s, uint32_t b, void *at, int64_t bytes)
{
    struct tcr_async *a = s->async;
    uint32_t e = b == TCC_NO ? TCC_NO : s->m->buffers[b].bytes;

    if (e == TCC_NO || s->values[e] != bytes || s->rebound[b] || !at || (uintptr_t)at % TCR_ALIGN)
        return false;
    s->rebound[b] = at;
    a->rebound[a->nrebound++] = b;
    return true;
}

static void clear_instead(struct tccrt_session *s)
{
    struct tcr_async *a = s->async;

    while (a->nrebound)
        s->rebound[a->rebound[--a->nrebound]] = NULL;
}

static int64_t bytes_of(const struct tcc_tensor *t)
{
    return tcr_elements(t->dtype, t->rank, t->dims) * tcr_dtype_bytes(t->dtype);
}

/* An input of the host's goes to this run's set of blocks, behind the run that had it last. */
static int send_ahead(struct tccrt_session *s, uint32_t i, uint32_t partner, const void *from, int64_t bytes)
{
    struct tcr_async *a = s->async;
    struct ahead *x = &a->ahead[s->given % SETS][i];
    int status;

    if (!bytes || s->m->buffers[partner].bytes == TCC_NO || s->values[s->m->buffers[partner].bytes] != bytes ||
        s->rebound[partner])
        return TCC_OK;
    s->queue = a->queue;
    status = tcr_grow(s, 1, &x->at, &x->bytes, (size_t)bytes);
    if (!status)
        status = tcr_copy(s, 1, x->at, 0, from, (size_t)bytes, "an input");
    s->queue = 0;
    if (!status) {
        put_instead(s, partner, x->at, bytes);
        s->inputs[i] = x->at;
    }
    return status;
}

static int place_inputs(struct tccrt_session *s, bool *there)
{
    struct tcr_async *a = s->async;
    const struct tcr_device_ops *o = s->device->ops;
    const struct tcc_pentry *e = s->running;
    int status = TCC_OK;

    if (s->given >= SETS) /* the last run that read the set */
        status = o->wait(s->device, a->queue, a->event + 1 + (uint32_t)((s->given - SETS) % RUNS));
    for (uint32_t i = 0; i < e->inputs.count && !status; i++) {
        uint32_t b = s->m->u32s[e->input_buffers.first + i], partner = b == TCC_NO ? TCC_NO : a->partner[b];

        if (partner == TCC_NO || !s->in[i] || s->in[i]->kind != TCC_OBJ_TENSOR)
            continue;
        if (there[i])
            put_instead(s, partner, s->in[i]->t.data, bytes_of(&s->in[i]->t));
        else if (!(status = send_ahead(s, i, partner, s->in[i]->t.data, bytes_of(&s->in[i]->t))))
            there[i] = s->inputs[i] != s->in[i]->t.data;
    }
    if (!status && !(status = o->record(s->device, a->queue, a->event)))
        status = o->wait(s->device, 0, a->event);
    return status;
}

static void place_outputs(struct tccrt_session *s)
{
    const struct tcc_pentry *e = s->running;

    for (uint32_t k = 0; k < e->outputs.count && s->out_on_device; k++) {
        uint32_t b = s->m->u32s[e->output_buffers.first + k];

        if (s->out_on_device[k] && s->outs[k].data && s->m->buffers[b].space == TCC_SPACE_OUTPUT)
            put_instead(s, s->async->partner[b], s->outs[k].data, bytes_of(s->outs[k].user));
    }
}

/* -- Giving a run ------------------------------------------------------------------------------------------- */

/* Everything up to the first step. */
static int begin(struct tccrt_session *s, bool *there)
{
    struct tcr_async *a = s->async;
    struct tcr_control c = {.seed = s->seed, .run = s->runs, .behind = a->began, .ahead = (int)(s->given - s->waited)};
    int status = a->stream ? s->device->ops->stream(s->device, a->stream, 0, false) : TCC_OK;

    if (!status && !a->began)
        status = tcr_sync(s);
    if (!status)
        status = tcr_copy_borrowed(s, false);
    if (!status)
        status = tcr_prepare(s, s->running);
    /* first, so that nothing that waits for the run before stands in front of them in the device's copy engine */
    if (!status)
        status = place_inputs(s, there);
    if (status)
        return status;
    s->in_on_device = there;
    tcr_control(s, s->running, &c);
    if (!(status = s->host->ops->begin(s->host, &c)))
        status = s->device->ops->begin(s->device, &c);
    a->began = !status;
    return status;
}

/* What the host writes when a run has ended well has to wait for it. */
static int finish(struct tccrt_session *s)
{
    struct tcr_async *a = s->async;
    int status = tcr_late_outputs(s, s->running);

    if (!status)
        status = tcr_outputs_to_host(s);
    if (!status && (s->running->advances.count || s->any_lent) && !(status = tcr_sync(s)) &&
        !(status = tcr_advance(s, s->running)))
        status = tcr_copy_borrowed(s, true);
    if (!status)
        status = s->device->ops->record(s->device, 0, a->event + 1 + (uint32_t)(s->given % RUNS));
    return status || !a->stream ? status : s->device->ops->stream(s->device, a->stream, 0, true);
}

/* After a failure nothing is under way, and the runs that were given have been heard of. */
static int failed(struct tccrt_session *s, int status)
{
    int64_t oldest = s->waited < s->given ? s->async->runs[s->waited % RUNS] : s->runs;

    status = tcr_first_failure(s, status);
    if (status == TCC_EINDEX && s->device->faulted >= oldest && s->device->faulted < s->runs)
        s->runs = s->device->faulted; /* of an earlier run: what was behind it did nothing */
    s->waited = s->given;
    return tcr_run_failed(s, status);
}

static int wait_for(struct tccrt_session *s, int64_t ticket)
{
    struct tcr_async *a = s->async;
    int status = ticket == s->given ? tcr_sync(s) : tcr_sync_event(s, a->event + 1 + (uint32_t)((ticket - 1) % RUNS));

    if (status == TCC_EINDEX && s->device->faulted > a->runs[(ticket - 1) % RUNS]) {
        tcr_clear_error(); /* of a later one, which will be asked for */
        status = TCC_OK;
    }
    if (status)
        return failed(s, status);
    s->waited = ticket;
    if (s->profile && ticket == s->given)
        tcr_profile_device(s);
    return TCC_OK;
}

static int settle(struct tccrt_session *s)
{
    return wait_for(s, s->given);
}

/* The session's lists for what the caller says of inputs and outputs; `there` has room for all inputs. */
static int give(struct tccrt_session *s, bool *there)
{
    int status = s->given - s->waited < RUNS ? TCC_OK : wait_for(s, s->given - RUNS + 1);

    if (status)
        return status;
    if (s->profile && s->given == s->waited)
        tcr_profile_begin(s);
    else if (s->profile)
        tcr_profile_behind(s);
    s->giving = true;
    status = begin(s, there);
    if (!status) {
        place_outputs(s);
        status = tcr_join(s);
    }
    if (!status)
        status = tcr_run_steps(s);
    if (!status)
        status = finish(s);
    s->giving = false;
    if (status) {
        status = failed(s, status);
        s->async->began = true; /* the fault is over */
    } else {
        s->async->runs[s->given++ % RUNS] = s->runs++;
    }
    for (uint32_t i = 0; i < s->m->nslots; i++)
        tcr_slot_clear(s, &s->slots[i]);
    clear_instead(s);
    return status;
}

/* -- Making what it takes ------------------------------------------------------------------------------------- */

static void *zeros(struct tccrt_session *s, size_t n, size_t size)
{
    void *p = tcr_heap_alloc(&s->heap, n * size);

    if (p)
        memset(p, 0, n * size);
    return p;
}

static void free_async(struct tccrt_session *s)
{
    struct tcr_async *a = s->async;

    for (int k = 0; k < SETS; k++) {
        for (uint32_t i = 0; a->ahead[k] && i < s->max_inputs; i++)
            tcr_free(s, 1, a->ahead[k][i].at, a->ahead[k][i].bytes);
        tcr_heap_free(&s->heap, a->ahead[k], s->max_inputs * sizeof *a->ahead[k]);
    }
    tcr_heap_free(&s->heap, a->partner, s->m->plan->buffers.count * sizeof *a->partner);
    tcr_heap_free(&s->heap, a->rebound, (s->max_inputs + s->max_outputs) * sizeof *a->rebound);
    if (!s->guard) { /* whose it is then */
        tcr_heap_free(&s->heap, s->rebound, s->m->plan->buffers.count * sizeof *s->rebound);
        s->rebound = NULL;
    }
    tcr_heap_free(&s->heap, a, sizeof *a);
    s->async = NULL;
}

static int make_async(struct tccrt_session *s)
{
    struct tcr_async *a = zeros(s, 1, sizeof *a);
    uint32_t buffers = s->m->plan->buffers.count, queues = s->ordered ? s->max_queues : 1;
    int status = TCC_EENV;

    if (!a)
        return TCC_EENV;
    s->async = a;
    s->free_async = free_async;
    a->queue = (int)queues;
    a->event = s->nevents + queues;
    if ((a->partner = zeros(s, buffers, sizeof *a->partner)) &&
        (s->rebound || (s->rebound = zeros(s, buffers, sizeof *s->rebound))) &&
        (a->rebound = zeros(s, s->max_inputs + s->max_outputs, sizeof *a->rebound)) &&
        (a->ahead[0] = zeros(s, s->max_inputs, sizeof *a->ahead[0])) &&
        (a->ahead[1] = zeros(s, s->max_inputs, sizeof *a->ahead[1])))
        status = make_partners(s, a);
    if (!status)
        status = s->device->ops->reserve(s->device, 0, (int)queues + 1, a->event + 1 + RUNS);
    if (status)
        free_async(s);
    else
        s->settle = settle;
    return status;
}

/* -- The calls ---------------------------------------------------------------------------------------------- */

static int check_async(const struct tccrt_session *s, const struct tcc_pentry *e, const struct tccrt_async *how)
{
    if (how->stream && !s->device->ops->stream)
        return tcr_fail(TCC_EUSAGE, "device '%s' has no streams, got one", s->device->name);
    for (uint32_t k = 0; k < e->outputs.count && how->out_on_device; k++)
        if (how->out_on_device[k] && !s->outs[k].user)
            return tcr_fail(TCC_EUSAGE, "output %u: its memory on the device is required, got NULL", k);
    if (e->staged && s->discrete && (how->in_on_device || how->out_on_device))
        return tcr_fail(TCC_EUSAGE, "entry point '%s' runs in stages: its inputs and outputs lie on the host",
                        tcr_string(s->m, e->name));
    return TCC_OK;
}

static int on_device(struct tccrt_session *s, const struct tcc_pentry *e, const struct tccrt_async *how, bool *there)
{
    if (how->in_on_device)
        memcpy(there, how->in_on_device, e->inputs.count * sizeof *there);
    s->in_on_device = there;
    s->out_on_device = how->out_on_device;
    s->async->stream = how->stream;
    s->running = e;
    return give(s, there);
}

static int give_or_run(struct tccrt_session *s, const struct tcc_pentry *e)
{
    static const struct tccrt_async plain;
    const struct tccrt_async *how = s->how ? s->how : &plain;
    bool few[32] = {false}, *there = few;
    int status = check_async(s, e, how);

    if (!status && s->discrete && s->device->defers && !e->staged) {
        if (!s->async && (status = make_async(s)))
            return status;
        if (e->inputs.count > 32 && !(there = calloc(e->inputs.count, sizeof *there)))
            return tcr_fail(TCC_EENV, "no memory for a run");
        status = on_device(s, e, how, there);
        if (there != few)
            free(there);
    } else if (!status) { /* it is done when the call returns */
        s->in_on_device = how->in_on_device;
        s->out_on_device = how->out_on_device;
        status = tcr_run_now(s, e);
        s->given += status == TCC_OK;
        s->waited = s->given;
    }
    s->in_on_device = s->out_on_device = NULL;
    return status;
}

static int run_async(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
                     struct tcc_tensor *out, const struct tccrt_async *how, int64_t *ticket)
{
    int status;

    s->how = how;
    status = tcr_run_tensors(s, entry, nin, in, nout, out, give_or_run);
    s->how = NULL;
    if (!status && ticket)
        *ticket = s->given;
    return status;
}

int tccrt_run_async(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
                    struct tcc_tensor *out, const struct tccrt_async *how, int64_t *ticket)
{
    int status = tcr_enter(s);

    return status ? status : tcr_leave(s, run_async(s, entry, nin, in, nout, out, how, ticket));
}

int tccrt_wait(struct tccrt_session *s, int64_t ticket)
{
    int status = tcr_enter(s);

    if (status)
        return status;
    if (ticket < 0 || ticket > s->given)
        return tcr_leave(s, tcr_fail(TCC_EUSAGE, "the session has been given %lld runs, got the number %lld",
                                     (long long)s->given, (long long)ticket));
    ticket = ticket ? ticket : s->given;
    return tcr_leave(s, ticket > s->waited ? wait_for(s, ticket) : TCC_OK);
}

int tccrt_under_way(const struct tccrt_session *s)
{
    return s ? (int)(s->given - s->waited) : 0;
}

/* A copy behind the last run, whose end is when that has been made. What the host keeps is looked at when all is
 * done. */
static int state_behind(struct tccrt_session *s, uint32_t i, void *to)
{
    size_t bytes = s->m->states[i].bytes;
    int status;

    if (s->given == s->waited || !s->states[i] || tcr_state_stays(s, i))
        return tcr_state_read(s, i, 0, bytes, to);
    status = tcr_copy(s, 0, to, 1, s->states[i], bytes, tcr_string(s->m, s->m->states[i].name));
    return status ? status
                  : s->device->ops->record(s->device, 0, s->async->event + 1 + (uint32_t)((s->given - 1) % RUNS));
}

int tccrt_state_behind(struct tccrt_session *s, const char *name, void *to)
{
    int status = tcr_enter(s), i;

    if (status)
        return status;
    if (!name || !to)
        status = tcr_fail(TCC_EUSAGE, "a state variable's name and a place for its value are required, got NULL");
    else if ((i = tcr_find_state(s, name)) < 0)
        status = TCC_EUSAGE;
    else if (!tcr_has_state(s, (uint32_t)i))
        status = tcr_state_absent(s, (uint32_t)i);
    else
        status = state_behind(s, (uint32_t)i, to);
    return tcr_leave(s, status);
}

/* -- Memory of the device ------------------------------------------------------------------------------------- */

void *tccrt_device_alloc(struct tccrt_session *s, size_t bytes)
{
    void *p = NULL;

    if (tcr_enter(s))
        return NULL;
    if (!tcr_settle(s)) /* here runs that were given are heard of */
        p = s->device->ops->alloc(s->device, 0, bytes, false);
    if (p && s->discrete && tcr_sync(s)) { /* other sessions and streams may use it */
        s->device->ops->free(s->device, 0, p, bytes, false);
        p = NULL;
    }
    tcr_leave(s, TCC_OK);
    return p;
}

void tccrt_device_free(struct tccrt_session *s, void *p, size_t bytes)
{
    if (!p || tcr_enter(s))
        return;
    s->device->ops->free(s->device, 0, p, bytes, false);
    tcr_leave(s, TCC_OK);
}

static int copy(struct tccrt_session *s, bool to_device, void *to, bool from_device, const void *from, size_t bytes)
{
    int status = tcr_settle(s);

    if (!status && bytes && (!to || !from))
        status = tcr_fail(TCC_EUSAGE, "a copy's two addresses are required, got NULL");
    if (!status && bytes)
        status = tcr_copy(s, to_device, to, from_device, from, bytes, "a copy of the caller's");
    return status || !s->discrete ? status : tcr_sync(s);
}

int tccrt_device_copy(struct tccrt_session *s, bool to_device, void *to, bool from_device, const void *from,
                      size_t bytes)
{
    int status = tcr_enter(s);

    return status ? status : tcr_leave(s, copy(s, to_device, to, from_device, from, bytes));
}
