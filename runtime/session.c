/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: the memory of runs. Tables come from the session's heap, data from its device. One thread runs a session at
 * a time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/grow.h"
#include "runtime/rt_int.h"

/* -- Slots ------------------------------------------------------------------------------------------- */

void tcr_slot_clear(struct tccrt_session *s, struct tcr_slot *slot)
{
    tcr_free(s, slot->memory, slot->data, (size_t)slot->bytes);
    tccrt_object_unref(slot->object);
    slot->data = NULL;
    slot->object = NULL;
    slot->bytes = 0;
}

void tcr_slot_set(struct tccrt_session *s, struct tcr_slot *slot, struct tcc_object *object)
{
    tcr_slot_clear(s, slot);
    slot->object = object;
}

/* -- Making and freeing ---------------------------------------------------------------------------------- */

/* A table of the session's, which is freed with it: the list of all is kept here, so that none can be forgotten. */
static void *zeroed(struct tccrt_session *s, size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (__builtin_mul_overflow(n, size, &bytes) || !GROWN(s->tables, s->ntables, s->tables_room, 64)) {
        tcr_fail(TCC_EENV, "no memory for a session's tables");
        return NULL;
    }
    p = tcr_heap_alloc(&s->heap, bytes);
    if (p) {
        memset(p, 0, bytes);
        s->tables[s->ntables++] = p;
    }
    return p;
}

/*
 * A state's first value has been copied: the pages of the artifact's file that hold it need not stay in memory (they
 * come back when they are read again, for another session). Not for linked models, whose weights may lie in memory that
 * no file backs.
 */
static void release_first_value(const struct tccrt_model *m, const struct tcc_pstate *p)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from, to;

    if (p->init == ~(uint64_t)0 || m->made || !(m->handle || m->map))
        return;
    from = ((uintptr_t)(m->weights + p->init) + page - 1) & ~(page - 1);
    to = ((uintptr_t)(m->weights + p->init) + tcr_whole_bytes(m, p)) & ~(page - 1);
    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

static int make_states(struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;

    int status = s->device->ops->weights(s->device, s->m, &s->weights);

    for (uint32_t i = 0; !status && i < m->plan->states.count; i++) {
        if (m->states[i].owner != TCC_NO || m->states[i].flags & TCCRT_STATE_GRADIENT)
            continue; /* when it is known whose it is, or used */
        if (tcr_has_stage(s, m->states[i].owner_stage) && !(s->states[i] = tcr_state_alloc(s, &m->states[i])))
            return TCC_EENV;
        if (s->discrete) /* the copy reads the first value */
            status = tcr_sync(s);
        release_first_value(m, &m->states[i]);
    }
    return status ? status : tcr_owners_find(s);
}

/* Largest lists of the plan's steps and entry points, for room that is taken once. */
static void measure(const struct tccrt_model *m, size_t *args, size_t *sizes, size_t *inputs, size_t *outputs,
                    size_t *queues)
{
    *queues = m->plan->queues.count;
    *args = *sizes = *inputs = *outputs = 1;
    for (uint32_t i = 0; i < m->plan->steps.count; i++) {
        *args = m->steps[i].args.count > *args ? m->steps[i].args.count : *args;
        *sizes = m->steps[i].sizes.count > *sizes ? m->steps[i].sizes.count : *sizes;
    }
    for (uint32_t i = 0; i < m->plan->entries.count; i++) {
        *inputs = m->entries[i].inputs.count > *inputs ? m->entries[i].inputs.count : *inputs;
        *outputs = m->entries[i].outputs.count > *outputs ? m->entries[i].outputs.count : *outputs;
    }
}

/* A step of the device's that others wait for has an event. */
static int number_events(struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;

    if (!(s->event_of = zeroed(s, m->plan->steps.count, sizeof *s->event_of)))
        return TCC_EENV;
    for (uint32_t i = 0; i < m->plan->steps.count; i++)
        for (uint32_t k = 0; k < m->steps[i].waits.count; k++) {
            uint32_t w = m->u32s[m->steps[i].waits.first + k];

            if (!s->event_of[w] && m->queues[m->steps[w].queue].memory)
                s->event_of[w] = ++s->nevents;
        }
    return s->device->ops->reserve(s->device, 0, (int)m->plan->queues.count, s->nevents);
}

/* For a device with programs: where their launches find sizes, and what these may be. */
static bool make_program_tables(struct tccrt_session *s)
{
    const struct tcc_plan *p = s->m->plan;
    bool positions = false;

    if (!s->ordered || !s->device->ops->program)
        return true;
    for (uint32_t i = 0; i < p->entries.count; i++)
        s->ncontrol = s->m->entries[i].control.count > s->ncontrol ? s->m->entries[i].control.count : s->ncontrol;
    for (uint32_t i = 0; i < p->steps.count; i++)
        if (s->m->steps[i].kind == TCC_STEP_PROGRAM && s->m->steps[i].what + s->m->steps[i].sizes.count > s->ncontrol)
            s->ncontrol = s->m->steps[i].what + s->m->steps[i].sizes.count;
    for (uint32_t i = 0; i < p->states.count; i++)
        positions |= s->m->states[i].sym != TCC_NO;
    if (positions && (!(s->ranges = zeroed(s, p->exprs.count, sizeof *s->ranges)) ||
                      !(s->sym_ranges = zeroed(s, p->syms.count, sizeof *s->sym_ranges))))
        return false;
    return (s->program_digests = zeroed(s, p->steps.count, sizeof *s->program_digests)) &&
           (s->control_at = zeroed(s, p->exprs.count, sizeof *s->control_at)) &&
           (s->control_values = zeroed(s, s->ncontrol + 1, sizeof *s->control_values)) &&
           (s->size_at = zeroed(s, s->max_sizes + 2, sizeof *s->size_at)) &&
           (s->size_ranges = zeroed(s, s->max_sizes + 2, sizeof *s->size_ranges));
}

static int make_tables(struct tccrt_session *s)
{
    const struct tcc_plan *p = s->m->plan;
    size_t args, sizes, inputs, outputs, queues;

    measure(s->m, &args, &sizes, &inputs, &outputs, &queues);
    s->max_queues = (uint32_t)queues;
    s->max_inputs = (uint32_t)inputs;
    s->max_outputs = (uint32_t)outputs;
    s->max_args = (uint32_t)args;
    s->max_sizes = (uint32_t)sizes;
    if (!(s->values = zeroed(s, p->exprs.count, sizeof *s->values)) ||
        !(s->syms = zeroed(s, p->syms.count, sizeof *s->syms)) ||
        !(s->bound = zeroed(s, p->syms.count, sizeof *s->bound)) ||
        !(s->origin = zeroed(s, p->syms.count, sizeof *s->origin)) ||
        !(s->owner = zeroed(s, p->syms.count, sizeof *s->owner)) ||
        !(s->entered = zeroed(s, p->entries.count, sizeof *s->entered)) ||
        !(s->states = zeroed(s, p->states.count, sizeof *s->states)) ||
        !(s->placed_states = zeroed(s, p->states.count, sizeof *s->placed_states)) ||
        !(s->borrowed = zeroed(s, p->states.count, sizeof *s->borrowed)) ||
        !(s->mirrors = zeroed(s, p->states.count, sizeof *s->mirrors)) ||
        !(s->slots = zeroed(s, s->m->nslots, sizeof *s->slots)) ||
        !(s->inputs = zeroed(s, inputs, sizeof *s->inputs)) || !(s->heads = zeroed(s, inputs, sizeof *s->heads)) ||
        !(s->inputs_there = zeroed(s, inputs, sizeof *s->inputs_there)) ||
        !(s->inputs_bytes = zeroed(s, inputs, sizeof *s->inputs_bytes)) ||
        !(s->apart = zeroed(s, inputs, sizeof *s->apart)) || !(s->in = zeroed(s, inputs, sizeof *s->in)) ||
        !(s->outs = zeroed(s, outputs, sizeof *s->outs)) ||
        !(s->spans = zeroed(s, inputs + 3 * outputs + 2 * (size_t)p->states.count, sizeof *s->spans)) ||
        !(s->places = zeroed(s, p->buffers.count, sizeof *s->places)) ||
        !(s->placements = zeroed(s, p->entries.count, sizeof *s->placements)) ||
        !(s->requests = zeroed(s, queues, sizeof *s->requests)) ||
        !(s->started = zeroed(s, queues, sizeof *s->started)) ||
        !(s->started_at = zeroed(s, queues, sizeof *s->started_at)) ||
        !(s->votes = zeroed(s, queues, sizeof *s->votes)) || !(s->args = zeroed(s, args, sizeof *s->args)) ||
        !(s->sizes = zeroed(s, sizes, sizeof *s->sizes)) ||
        (s->device->checks && !(s->access = zeroed(s, args, sizeof *s->access))) || !make_program_tables(s))
        return TCC_EENV;
    if (s->ordered && number_events(s))
        return TCC_EENV;
    return make_states(s);
}

/* Has the artifact functions for the kernels of the device's launches, where the host's threads run them? (Devices of
 * their own check their image.) */
static int check_functions(struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;

    for (uint32_t k = 0; k < m->plan->kernels.count && m->desc->nimages; k++)
        if (!m->functions[k])
            return tcr_fail(TCC_EENV,
                            "device '%s': the artifact was made for '%s', and has no code of kernel '%s' for this one",
                            s->device->name, tcr_string(m, m->memories[m->plan->memories.count - 1].name),
                            tcr_string(m, m->kernels[k].name));
    return TCC_OK;
}

/* Memory 1 has the name of the device that a plan was made for. */
static const char *made_for(const struct tccrt_model *m)
{
    return m->plan->memories.count > 1 ? tcr_string(m, m->memories[1].name) : "cpu";
}

/* Of the artifact's plans that for the device; the first where there is none, as for the simulator. */
static struct tccrt_model *plan_for(struct tccrt_model *m, const char *device)
{
    size_t n = strcspn(device, ":");

    for (struct tccrt_model *k = m; k; k = k->next)
        if (strlen(made_for(k)) == n && !strncmp(made_for(k), device, n))
            return k;
    return m;
}

/* The host, and the device beside it unless that is the host. */
static int open_devices(struct tccrt_session *s, const struct tccrt_options *o, const char *name)
{
    struct tcr_device_request r = {.heap = &s->heap,
                                   .kernels = s->m->functions,
                                   .images = s->m->desc->images,
                                   .nimages = s->m->desc->nimages,
                                   .nkernels = s->m->plan->kernels.count,
                                   .options = o};
    int status = tcr_device_open("cpu", &r, &s->host);

    if (!status)
        s->device = s->host;
    if (!status && strcmp(name, s->host->name))
        status = tcr_device_open(name, &r, &s->device);
    if (!status && s->device->runs_host_kernels)
        status = check_functions(s);
    s->discrete = !status && !s->device->shared;
    s->placed = s->m->plan->memories.count > 1; /* even where everything has to run on the host */
    s->ordered = s->discrete && s->placed;
    if (!status) {
        s->device->tag = TCC_NO;
        s->device->timing = s->discrete && o->profile && s->device->ops->timed;
    }
    return status;
}

/* For the device that is asked for; else for the first of those that the artifact was made for which is there. */
static int choose_devices(struct tccrt_session *s, struct tccrt_model *m, const struct tccrt_options *o)
{
    const char *name = o->device ? o->device : tccrt_env_text("TCCC_DEVICE");
    int status;

    if (name && strcmp(name, "auto") != 0) {
        s->m = plan_for(m, name);
        return open_devices(s, o, name);
    }
    for (;; m = m->next) {
        s->m = m;
        status = open_devices(s, o, made_for(m));
        if (status != TCC_EENV || !m->next || !s->host)
            return status;
        s->host->ops->close(s->host);
        s->host = NULL;
        tcr_clear_error();
    }
}

/* Options may be NULL. The session keeps the model in use: free it before closing the model. */
int tccrt_session_new(struct tccrt_model *m, const struct tccrt_options *o, struct tccrt_session **out)
{
    static const struct tccrt_options defaults;
    struct tcr_heap heap;
    struct tccrt_session *s;
    int status;

    tcr_clear_error();
    if (out)
        *out = NULL;
    o = o ? o : &defaults;
    if (m && (o->stage < 0 || o->stage > tccrt_stages(m)))
        return tcr_fail(TCC_EUSAGE, "session: stage %d of a model of %d stages", o->stage, tccrt_stages(m));
    if (!m || !out || o->threads < 0 || (o->pool && (o->pool->count < 1 || !o->pool->run)) ||
        (o->allocator && (!o->allocator->alloc || !o->allocator->free)))
        return tcr_fail(TCC_EUSAGE, "session: no model, or options that cannot be (threads %d)", o->threads);
    tcr_heap_init(&heap, o->allocator);
    if (tcr_guard_wanted())
        tcr_guard_heap(&heap);
    if (!(s = tcr_heap_alloc(&heap, sizeof *s)))
        return TCC_EENV;
    memset(s, 0, sizeof *s);
    s->heap = heap;
    s->seed = o->seed;
    s->stage = o->stage;
    s->tensor = o->tensor;
    status = choose_devices(s, m, o);
    if (!status && s->device->ranks && !s->tensor && tccrt_tensor_parts(s->m) > 1)
        s->tensor = tccrt_tensor_parts(s->m); /* the last has most to do, where a causal sequence is divided */
    if (!status)
        status = tcr_check_tensor(s->m, s->tensor);
    if (!status)
        status = tcr_groups_fold(s);
    if (!status)
        status = make_tables(s);
    if (!status && heap.exact)
        status = tcr_guard_new(s);
    if (!status && o->profile)
        status = tcr_profile_new(s);
    if (status) {
        tccrt_session_free(s);
        return status;
    }
    *out = s;
    return TCC_OK;
}

/* What lies in the plan's memories. */
static void free_data(struct tccrt_session *s)
{
    if (s->discrete)
        tcr_sync(s);
    if (s->staged)
        s->free_staged(s);
    if (s->batches)
        s->free_batches(s);
    if (s->async)
        s->free_async(s);
    tcr_guard_end(s);
    for (uint32_t i = 0; s->slots && i < s->m->nslots; i++)
        tcr_slot_clear(s, &s->slots[i]);
    for (uint32_t i = 0; s->states && i < s->m->plan->states.count; i++) {
        if (!s->borrowed || !(s->discrete ? s->placed_states[i] : s->borrowed[i] != NULL))
            tcr_state_free(s, &s->m->states[i], s->states[i]);
        if (s->mirrors)
            tcr_heap_free(&s->heap, s->mirrors[i], s->m->states[i].bytes);
    }
    for (uint32_t i = 0; s->outs && i < s->max_outputs; i++) {
        tcr_free(s, 0, s->outs[i].own, s->outs[i].own_bytes);
        tcr_free(s, 1, s->outs[i].there, s->outs[i].there_bytes);
        tccrt_object_unref(s->outs[i].object);
    }
    for (uint32_t i = 0; s->inputs_there && s->inputs_bytes && i < s->max_inputs; i++)
        tcr_free(s, 1, s->inputs_there[i], s->inputs_bytes[i]);
    for (uint32_t i = 0; s->apart && i < s->max_inputs; i++)
        tcr_free(s, 0, s->apart[i].at, s->apart[i].bytes);
    if (s->discrete)
        tcr_sync(s);
    for (uint32_t i = 0; i < 2; i++) {
        struct tcr_device *d = tcr_device_of(s, i);

        if (!i && tcr_pins(s))
            s->device->ops->host_free(s->device, s->arenas[0], s->arena_bytes[0]);
        else
            d->ops->release(d, s->arenas[i], s->arena_bytes[i]);
    }
}

void tccrt_session_free(struct tccrt_session *s)
{
    struct tccrt_allocator a;

    if (!s)
        return;
    a = s->heap.allocator;
    if (s->device) {
        free_data(s);
        if (s->device != s->host)
            s->device->ops->close(s->device);
    }
    if (s->host)
        s->host->ops->close(s->host);
    tcr_profile_free(s); /* waits are counted to the last */
    free(s->views);
    free(s->held);
    free(s->folded);
    for (uint32_t i = 0; s->placements && i < s->m->plan->entries.count; i++)
        tcr_heap_free(&s->heap, s->placements[i].sizes, s->m->entries[i].placed.count * sizeof *s->placements[i].sizes);
    for (size_t i = 0; i < s->ntables; i++)
        a.free(a.user, s->tables[i]);
    free(s->tables);
    a.free(a.user, s);
}

int tccrt_threads(const struct tccrt_session *s)
{
    return s ? s->device->threads : 0;
}

const char *tccrt_isa_used(const struct tccrt_session *s)
{
    return s->m->isa;
}

const char *tccrt_device_used(const struct tccrt_session *s)
{
    return s ? s->device->name : "";
}

int tccrt_version_used(const struct tccrt_session *s)
{
    const struct tcc_pentry *e = s->entry;

    for (uint32_t i = 0; e && i < e->cases.count; i++)
        if (&s->m->entries[s->m->cases[e->cases.first + i].entry] == s->chosen)
            return (int)i;
    return e ? 0 : -1;
}

int tccrt_simulated(const struct tccrt_session *s, struct tccrt_sim *out)
{
    if (!s || !out)
        return tcr_fail(TCC_EUSAGE, "a session and a place for its figures are required, got NULL");
    *out = (struct tccrt_sim){0};
    if (!s->device->ops->simulated)
        return tcr_fail(TCC_EUSAGE, "device '%s' models no time", s->device->name);
    return s->device->ops->simulated(s->device, out);
}

int64_t tccrt_device_launches(const struct tccrt_session *s)
{
    return s ? s->device->counts.launches : 0;
}

int tccrt_device_there(const char *device, const char *target)
{
    static const struct tccrt_options options;
    struct tcr_heap heap;
    struct tcr_device_request r = {.heap = &heap, .options = &options};
    struct tcr_device *d;
    bool cuda = target && !strncmp(target, "cuda", 4);
    tcr_clear_error();
    tcr_heap_init(&heap, NULL);
    device = device ? device : cuda ? "cuda" : "cpu";
    if (strncmp(device, "cuda", 4) != 0 && !(cuda && !strncmp(device, "sim", 3)))
        return TCC_OK;
    int status = tcr_device_open(device, &r, &d);
    if (!status)
        d->ops->close(d);
    return status;
}

void tccrt_device_counts(const struct tccrt_session *s, struct tccrt_device_counts *out)
{
    const struct tcr_device_counts *c = s ? &s->device->counts : NULL;

    *out = c ? (struct tccrt_device_counts){c->launches, c->copies, c->programs, c->replays}
             : (struct tccrt_device_counts){0};
}

size_t tccrt_arena_bytes(const struct tccrt_session *s)
{
    return s ? s->heap.held - TCR_ROUND(sizeof *s) + s->device->held : 0;
}

static int64_t predicted(const struct tccrt_session *s, const struct tcc_pentry *e, int64_t state)
{
    const struct tcc_pstaged *p = e->staged ? &s->m->staged[e->staged - 1] : NULL;
    uint32_t stage = s->stage ? (uint32_t)s->stage - 1 : 0;
    int64_t scratch;

    if (p && (!p->peaks.count || (p->stages > 1 && !s->stage)))
        return -1; /* the compiler has looked at processes of a stage each */
    if (p) {
        const uint32_t *words = s->m->u32s + p->peaks.first + 4 * stage;
        scratch = (int64_t)((uint64_t)words[3] << 32 | words[2]);
        return (int64_t)((uint64_t)words[1] << 32 | words[0]) + scratch * s->device->threads;
    }
    if (!s->chosen || s->running != s->chosen || (s->chosen != e && !e->cases.count))
        return -1;
    scratch = s->chosen->scratch != TCC_NO ? s->values[s->chosen->scratch] : 0;
    return state + (int64_t)(s->arena_bytes[0] + s->arena_bytes[1]) + (scratch > 0 ? scratch : 0) * s->device->threads;
}

int tccrt_memory(const struct tccrt_session *s, const char *entry, struct tccrt_memory *out)
{
    const struct tcc_pentry *e = s && out ? tcr_find_entry(s->m, entry) : NULL;

    if (!s || !out)
        return tcr_fail(TCC_EUSAGE, "a session and a place for its memory are required, got NULL");
    if (!e)
        return TCC_EUSAGE;
    *out = (struct tccrt_memory){0};
    for (uint32_t i = 0; i < s->m->plan->states.count; i++)
        out->state += s->states[i] ? (int64_t)s->m->states[i].bytes : 0;
    for (uint32_t i = 0; i < s->m->plan->states.count; i++) {
        uint32_t flags = s->m->states[i].flags;

        if (s->states[i])
            *(flags & TCCRT_STATE_GRADIENT    ? &out->gradients
              : flags & TCCRT_STATE_OPTIMIZER ? &out->optimizer
                                              : &out->params) += (int64_t)s->m->states[i].bytes;
    }
    out->arena = (int64_t)s->arena_bytes[s->discrete];
    out->weights = (int64_t)s->m->desc->weights_size;
    out->predicted = predicted(s, e, out->state);
    if (s->discrete) {
        out->device = (int64_t)s->device->held;
        out->device_peak = (int64_t)s->device->peak;
        out->device_weights = s->weights ? (int64_t)tcr_device_weights(s->m) : 0;
        out->device_bytes = (int64_t)s->device->memory;
    }
    return TCC_OK;
}
