/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of an entry point: inputs are checked against the signature and bind its symbols (bind.c), level 0 of the
 * integer program is evaluated (unless the symbols are those of the last run), the plan is walked, outputs are handed
 * over (outputs.c).
 */
#include <stdio.h>
#include <string.h>

#include "runtime/rt_int.h"

/* -- The call --------------------------------------------------------------------------------------------- */

/* The host's arena where it is pinned: another block. Nothing is under way. */
static int grow_pinned(struct tccrt_session *s, size_t bytes)
{
    if (bytes <= s->arena_bytes[0])
        return TCC_OK;
    s->device->ops->host_free(s->device, s->arenas[0], s->arena_bytes[0]);
    s->arenas[0] = s->device->ops->host_alloc(s->device, bytes);
    s->arena_bytes[0] = s->arenas[0] ? bytes : 0;
    return s->arenas[0] ? TCC_OK : TCC_EENV;
}

static int grow_arena(struct tccrt_session *s, uint32_t memory, size_t bytes)
{
    struct tcr_device *d = tcr_device_of(s, memory);
    void *at = s->arenas[memory];
    int status = s->giving && bytes > s->arena_bytes[memory] ? tcr_sync(s) : TCC_OK; /* it may move */

    if (status)
        return status;
    if (!memory && tcr_pins(s))
        return grow_pinned(s, bytes);
    status = d->ops->grow(d, &at, &s->arena_bytes[memory], bytes);

    s->arenas[memory] = at;
    if (!status && d->ops->discard) /* whatever lay there is dead */
        status = d->ops->discard(d, 0, at, bytes);
    return status;
}

/* The arenas: one a memory of the plan's. What is placed when its sizes are bound is so in all of them. */
static int make_arenas(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int64_t bytes[2] = {0, 0};
    int status = e->arena == TCC_NO ? tcr_place(s, e, bytes)
                                    : tcr_size(s, e->arena, "the arena", "", &bytes[s->discrete && !s->placed]);

    if (!status && e->arena != TCC_NO && e->arenas.count && s->placed)
        status = tcr_size(s, s->m->u32s[e->arenas.first], "the device's arena", "", &bytes[1]);
    for (uint32_t i = 0; i < 2 && !status; i++)
        if (!i || bytes[i] || s->discrete)
            status = grow_arena(s, i, (size_t)bytes[i]);
    /* Poison comes before the run and the work of all queues; those of a run that is only given wait for queue 0
     * anyway. */
    return status || s->giving || !s->device->ops->discard ? status : tcr_sync(s);
}

/* Memory for the sizes of this call. */
static int make_room(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int64_t scratch = e->scratch != TCC_NO ? s->values[e->scratch] : -1;
    int status;

    if ((status = make_arenas(s, e)) || (s->guard && (status = tcr_guard_begin(s, e))))
        return status;
    if (scratch >= 0 && (status = s->device->ops->reserve(s->device, scratch, 1, 0)))
        return status;
    return tcr_early_outputs(s, e);
}

int tcr_prepare(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int status = tcr_bind(s, e), broken;

    if (status)
        return status;
    s->running = e = s->chosen;
    if ((status = tcr_entry_states(s, e)) || (status = tcr_check_advances(s, e)))
        return status;
    status = make_room(s, e);
    /* Sizes that don't fit make buffers of negative sizes: what doesn't fit is what is wrong. */
    return status == TCC_EINPUT && (broken = tcr_check_first(s, e)) ? broken : status;
}

/* -- The device ------------------------------------------------------------------------------------------- */

/* Variables in the caller's memory. */
int tcr_copy_borrowed(struct tccrt_session *s, bool back)
{
    int status = TCC_OK;

    for (uint32_t i = 0; s->any_lent && i < s->m->plan->states.count && !status; i++)
        if (s->borrowed[i])
            status = back ? tcr_state_read(s, i, 0, s->m->states[i].bytes, s->borrowed[i])
                          : tcr_state_write(s, i, s->borrowed[i]);
    return status;
}

/* State that was written between runs is there. */
static int take_state(struct tccrt_session *s)
{
    int status = s->discrete ? tcr_sync(s) : TCC_OK;

    return status || !s->discrete ? status : tcr_copy_borrowed(s, false);
}

/* The control block, when sizes are bound. */
static int begin(struct tccrt_session *s)
{
    struct tcr_control c = {.seed = s->seed, .run = s->runs};
    int status;

    tcr_control(s, s->running, &c);
    status = s->host->ops->begin(s->host, &c);
    return status || s->device == s->host ? status : s->device->ops->begin(s->device, &c);
}

int tcr_run_failed(struct tccrt_session *s, int status)
{
    char text[512];

    status = tcr_first_failure(s, status);
    snprintf(text, sizeof text, "%s", tccrt_error());
    s->device->ops->begin(s->device, &(struct tcr_control){.seed = s->seed, .run = s->runs}); /* its fault is over */
    return tcr_fail(status, "%s", text);
}

int tcr_first_failure(struct tccrt_session *s, int status)
{
    char text[512];

    snprintf(text, sizeof text, "%s", tccrt_error());
    tcr_views_done(s, TCC_NO, status);
    return tcr_sync(s) == TCC_EINDEX ? TCC_EINDEX : tcr_fail(status, "%s", text);
}

/* Outputs come from the device; all that is under way ends, also of a run that failed, whose message stays. */
static int end_apart(struct tccrt_session *s, int status)
{
    if (!status)
        status = tcr_outputs_to_host(s);
    if (!status)
        status = tcr_sync(s);
    if (!status)
        status = tcr_advance(s, s->running);
    return status ? tcr_run_failed(s, status) : tcr_copy_borrowed(s, true);
}

int tcr_run_steps(struct tccrt_session *s)
{
    uint32_t mode = tcr_fp_enter();
    int status;

    s->voting = 0;
    status = tcr_walk(s, s->running->steps);
    if (status)
        status = tcr_vote_failed(s, s->running->steps, status);
    tcr_fp_leave(mode);
    tcr_drain(s, status);
    return status;
}

int tcr_execute(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int status;

    s->running = e;
    status = take_state(s);
    if (!status)
        status = tcr_prepare(s, e);
    if (!status)
        status = begin(s);
    if (!status)
        status = tcr_run_steps(s);
    if (!status)
        status = tcr_late_outputs(s, s->running);
    if (s->discrete)
        status = end_apart(s, status);
    else if (!status)
        status = tcr_advance(s, s->running);
    if (!status && s->guard)
        tcr_guard_outputs_back(s);
    if (s->discrete && s->profile)
        tcr_profile_device(s);
    for (uint32_t i = 0; i < s->m->nslots; i++)
        tcr_slot_clear(s, &s->slots[i]);
    return status;
}

/* Inputs are in s->in; leaves results in s->outs. */
int tcr_run_now(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int status = tcr_settle(s);

    if (status)
        return status;
    if (s->profile)
        tcr_profile_begin(s);
    if (e->staged)
        return tcr_stages_run(s, e);
    status = tcr_execute(s, e);
    s->runs += status == TCC_OK;
    return status;
}

int tcr_enter(struct tccrt_session *s)
{
    tcr_clear_error();
    if (!s)
        return tcr_fail(TCC_EUSAGE, "a session is required, got NULL");
    if (atomic_exchange_explicit(&s->busy, true, memory_order_acquire))
        return tcr_fail(TCC_EUSAGE, "the session is in use by another thread; each thread needs a session of its own");
    return TCC_OK;
}

int tcr_leave(struct tccrt_session *s, int status)
{
    if (status)
        tcr_say_operator(s);
    atomic_store_explicit(&s->busy, false, memory_order_release);
    return status;
}

static int wrong_number(struct tccrt_session *s, const struct tcc_pentry *e, int nin, int nout)
{
    char more[80] = "";

    if (e->defaults.count)
        snprintf(more, sizeof more, " (or %u with those that have values of their own)",
                 e->inputs.count + e->defaults.count);
    return tcr_fail(TCC_EINPUT, "entry point '%s' has %u inputs%s and %u outputs, %d and %d were given%s",
                    tcr_string(s->m, e->name), e->inputs.count, more, e->outputs.count, nin, nout,
                    nin > (int)(e->inputs.count + e->defaults.count) && e->fixed.count
                        ? "; inputs whose values are compiled in can be given after compiling with --defaults=all"
                        : "");
}

static int find(struct tccrt_session *s, const char *entry, int nin, const void *in, int nout, const void *out_list,
                const struct tcc_pentry **out)
{
    const struct tcc_pentry *e;

    if (!(e = tcr_find_entry(s->m, entry)))
        return TCC_EUSAGE;
    bool all = nin >= 0 && (uint32_t)nin == e->inputs.count + e->defaults.count;
    if (nin < 0 || nout < 0 || ((uint32_t)nin != e->inputs.count && !all) || (uint32_t)nout != e->outputs.count)
        return wrong_number(s, e, nin, nout);
    if ((nin && !in) || (nout && !out_list))
        return tcr_fail(TCC_EUSAGE, "entry point '%s': a list of %s is required, got NULL", tcr_string(s->m, e->name),
                        nin && !in ? "inputs" : "outputs");
    *out = e;
    return TCC_OK;
}

static void borrow(struct tccrt_session *s, int nin, const struct tcc_tensor *in)
{
    for (int i = 0; i < nin; i++) {
        tcr_object_borrow(&s->heads[i], &in[i]);
        if (in[i].dtype == TCC_NONE && !in[i].data)
            s->heads[i].kind = TCC_OBJ_NONE;
        s->in[i] = s->heads[i].kind ? &s->heads[i] : NULL;
    }
}

/* The inputs are in s->in. Where some that have values of their own are given, the others get these: the entry point
 * that takes them all runs. */
static const struct tcc_pentry *with_defaults(struct tccrt_session *s, const struct tcc_pentry *e, int nin)
{
    bool given = false;

    for (uint32_t i = e->inputs.count; i < (uint32_t)nin; i++)
        given |= s->in[i] && s->in[i]->kind != TCC_OBJ_NONE;
    if (!given)
        return e;
    for (uint32_t i = e->inputs.count; i < (uint32_t)nin; i++) {
        const struct tcc_pattr *a = &s->m->attrs[e->defaults.first + i - e->inputs.count];
        struct tcc_tensor t = {.dtype = (int32_t)a->dtype, .rank = (int32_t)a->rank};

        if (s->in[i] && s->in[i]->kind != TCC_OBJ_NONE)
            continue;
        t.data = (void *)(uintptr_t)(s->m->bytes + a->data);
        for (uint32_t d = 0; d < a->rank; d++)
            t.dims[d] = s->m->u32s[a->dims.first + d];
        tcr_object_borrow(&s->heads[i], &t);
        s->in[i] = &s->heads[i];
    }
    return &s->m->entries[e->given - 1];
}

static int output_shapes(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
                         struct tcc_tensor *out)
{
    const struct tcc_pentry *e;
    int status = find(s, entry, nin, in, nout, out, &e);

    if (status)
        return status;
    borrow(s, nin, in);
    e = with_defaults(s, e, nin);
    if ((status = tcr_bind_sizes(s, e)))
        return status;
    for (int k = 0; k < nout; k++) {
        const struct tcc_psignature *sig = &s->m->signatures[s->chosen->outputs.first + (uint32_t)k];
        struct tcc_tensor t = {.dtype = (int32_t)sig->dtype, .rank = -1};

        if (sig->kind == TCC_OBJ_TENSOR && sig->rank != TCC_NO)
            t.rank = (int32_t)sig->rank;
        for (uint32_t i = 0; t.rank > 0 && i < sig->dims.count; i++) {
            int64_t v = s->values[s->m->u32s[sig->dims.first + i]];

            t.dims[i] = v >= 0 ? v : -1;
        }
        out[k] = t;
    }
    return TCC_OK;
}

int tccrt_output_shapes(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
                        struct tcc_tensor *out)
{
    int status = tcr_enter(s);

    return status ? status : tcr_leave(s, output_shapes(s, entry, nin, in, nout, out));
}

int tcr_run_tensors(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
                    struct tcc_tensor *out, int (*run)(struct tccrt_session *s, const struct tcc_pentry *e))
{
    const struct tcc_pentry *e;
    int status = find(s, entry, nin, in, nout, out, &e);

    if (status)
        return status;
    borrow(s, nin, in);
    e = with_defaults(s, e, nin);
    if ((status = tcr_keep_apart(s, e, nout, out)))
        return status;
    s->objects = false;
    tcr_reset_outputs(s);
    for (int k = 0; k < nout; k++)
        s->outs[k].user = out[k].data ? &out[k] : NULL;
    status = run(s, e);
    for (int k = 0; !status && k < nout; k++) {
        const struct tcr_out *o = &s->outs[k];

        if (o->user)
            continue;
        if (o->object) {
            out[k] = o->object->t;
            continue;
        }
        out[k] = (struct tcc_tensor){
            .data = o->host,
            .rank = o->rank,
            .dtype = e->staged
                         ? (int32_t)s->m->signatures[e->outputs.first + (uint32_t)k].dtype
                         : (int32_t)s->m->buffers[s->m->u32s[s->running->output_buffers.first + (uint32_t)k]].dtype};
        memcpy(out[k].dims, o->dims, sizeof out[k].dims);
    }
    return status;
}

int tccrt_run(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
              struct tcc_tensor *out)
{
    int status = tcr_enter(s);

    return status ? status : tcr_leave(s, tcr_run_tensors(s, entry, nin, in, nout, out, tcr_run_now));
}

static int run_objects(struct tccrt_session *s, const char *entry, int nin, struct tcc_object *const *in, int nout,
                       struct tcc_object **out)
{
    const struct tcc_pentry *e;
    int status = find(s, entry, nin, in, nout, out, &e);

    for (int k = 0; out && k < nout; k++)
        out[k] = NULL;
    if (status)
        return status;
    for (int i = 0; i < nin; i++)
        s->in[i] = in[i];
    e = with_defaults(s, e, nin);
    status = tcr_keep_apart(s, e, nout, NULL);
    s->objects = true;
    tcr_reset_outputs(s);
    if (!status)
        status = tcr_run_now(s, e);
    for (int k = 0; !status && k < nout; k++) {
        out[k] = s->outs[k].object;
        s->outs[k].object = NULL;
    }
    tcr_reset_outputs(s);
    return status;
}

int tccrt_run_objects(struct tccrt_session *s, const char *entry, int nin, struct tcc_object *const *in, int nout,
                      struct tcc_object **out)
{
    int status = tcr_enter(s);

    for (int k = 0; status && out && k < nout; k++)
        out[k] = NULL;
    return status ? status : tcr_leave(s, run_objects(s, entry, nin, in, nout, out));
}
