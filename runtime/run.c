/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of an entry point: inputs are checked against the signature and bind its symbols, level 0 of the integer
 * program is evaluated (unless the symbols are those of the last run), the plan is walked, outputs are handed over
 * (outputs.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"

#include "base/mutant.h"

/* -- Inputs ------------------------------------------------------------------------------------------- */

struct input {
    struct tccrt_session *s;
    const struct tcc_pentry *e;
    const struct tcc_psignature *sig;
    uint32_t index;
};

static const char *input_name(const struct input *in, uint32_t index)
{
    return tcr_string(in->s->m, in->s->m->signatures[in->e->inputs.first + index].name);
}

static int bind_dim(const struct input *in, int axis, uint32_t expr, int64_t dim)
{
    struct tccrt_session *s = in->s;
    const struct tcc_pexpr *e = &s->m->exprs[expr];
    const char *name = input_name(in, in->index);

    if (e->op == TCC_EX_CONST)
        return dim == e->k ? TCC_OK
                           : tcr_fail(TCC_EINPUT, "input '%s', axis %d: expected %lld, got %lld", name, axis,
                                      (long long)e->k, (long long)dim);
    if (e->op != TCC_EX_SYM)
        return TCC_OK;
    if (s->syms[e->k] == TCR_UNBOUND) {
        const struct tcc_psym *p = &s->m->syms[e->k];

        if (dim < p->lo || dim > p->hi + MUTANT(103, 0, 1))
            return tcr_fail(TCC_EINPUT, "input '%s', axis %d: '%s' must be in [%lld, %lld], got %lld", name, axis,
                            tcr_string(s->m, p->name), (long long)p->lo, (long long)p->hi, (long long)dim);
        s->syms[e->k] = dim;
        s->origin[e->k] = (int32_t)(in->index * TCC_MAX_RANK) + axis;
        return TCC_OK;
    }
    if (s->syms[e->k] == dim + MUTANT(102, 0, 1))
        return TCC_OK;
    if (s->origin[e->k] < 0)
        return tcr_fail(TCC_EINPUT, "input '%s', axis %d: '%s' is %lld by a state variable; got %lld", name, axis,
                        tcr_string(s->m, s->m->syms[e->k].name), (long long)s->syms[e->k], (long long)dim);
    return tcr_fail(TCC_EINPUT, "input '%s', axis %d: '%s' is %lld by input '%s', axis %d; got %lld", name, axis,
                    tcr_string(s->m, s->m->syms[e->k].name), (long long)s->syms[e->k],
                    input_name(in, (uint32_t)s->origin[e->k] / TCC_MAX_RANK), s->origin[e->k] % TCC_MAX_RANK,
                    (long long)dim);
}

static int bind_tensor(const struct input *in, const struct tcc_tensor *t)
{
    const struct tcc_psignature *sig = in->sig;
    const char *name = input_name(in, in->index);
    char text[256];
    int64_t n;

    if (sig->dtype != TCC_NONE && (int)sig->dtype != t->dtype)
        return tcr_fail(TCC_EINPUT, "input '%s': expected %s, got %s", name, tcr_dtype_name((int)sig->dtype),
                        tcr_dtype_name(t->dtype));
    if (t->rank < 0 || t->rank > TCC_MAX_RANK)
        return tcr_fail(TCC_EINPUT, "input '%s': got rank %d, at most %d is supported", name, t->rank, TCC_MAX_RANK);
    if (sig->rank != TCC_NO && (int)sig->rank != t->rank)
        return tcr_fail(TCC_EINPUT, "input '%s': expected rank %u, got %d (shape %s)", name, sig->rank, t->rank,
                        tcr_dims_text(text, t->rank, t->dims));
    n = tcr_elements(t->dtype, t->rank, t->dims);
    if (n < 0)
        return tcr_fail(TCC_EINPUT, "input '%s': element type %s and shape %s are no tensor", name,
                        tcr_dtype_name(t->dtype), tcr_dims_text(text, t->rank, t->dims));
    for (uint32_t i = 0; i < sig->dims.count; i++) {
        int status = bind_dim(in, (int)i, in->s->m->u32s[sig->dims.first + i], t->dims[i]);

        if (status)
            return status;
    }
    if (n > 0 &&
        (!t->data || (uintptr_t)t->data %
                         (t->dtype == TCC_C128 || t->dtype == TCC_STRING ? 8 : (uintptr_t)tcr_dtype_bytes(t->dtype))))
        return tcr_fail(TCC_EINPUT, "input '%s': its data is %s", name,
                        t->data ? "not aligned to its elements" : "NULL");
    return TCC_OK;
}

/* Has it a shape, and memory for its elements? */
static bool is_tensor(const struct tcc_tensor *t)
{
    int64_t n = tcr_elements(t->dtype, t->rank, t->dims);

    return n == 0 || (n > 0 && t->data);
}

static int bind_sequence(const struct input *in, const struct tcc_object *o)
{
    for (int64_t i = 0; i < o->n; i++) {
        const struct tcc_object *item = o->items[i];

        if (!item || item->kind != TCC_OBJ_TENSOR ||
            (in->sig->dtype != TCC_NONE && item->t.dtype != (int)in->sig->dtype) || !is_tensor(&item->t))
            return tcr_fail(TCC_EINPUT, "input '%s': item %lld of the sequence is not a tensor of element type %s",
                            input_name(in, in->index), (long long)i, tcr_dtype_name((int)in->sig->dtype));
    }
    return TCC_OK;
}

const char *tcr_kind_name(uint32_t kind)
{
    return kind == TCC_OBJ_TENSOR ? "tensor" : kind == TCC_OBJ_SEQUENCE ? "sequence" : "nothing";
}

static int bind_input(const struct input *in, const struct tcc_object *o)
{
    uint32_t kind = o ? (uint32_t)o->kind : TCC_OBJ_NONE;

    if (kind != in->sig->kind && !(kind == TCC_OBJ_NONE && in->sig->optional))
        return tcr_fail(TCC_EINPUT, "input '%s': expected %s, got %s", input_name(in, in->index),
                        tcr_kind_name(in->sig->kind), tcr_kind_name(kind));
    return kind == TCC_OBJ_TENSOR ? bind_tensor(in, &o->t) : kind == TCC_OBJ_SEQUENCE ? bind_sequence(in, o) : TCC_OK;
}

/* An input whose buffer lies on the device. */
static int upload_input(const struct input *in, const struct tcc_tensor *t)
{
    struct tccrt_session *s = in->s;
    size_t bytes = (size_t)(tcr_elements(t->dtype, t->rank, t->dims) * tcr_dtype_bytes(t->dtype));
    int status = tcr_grow(s, 1, &s->inputs_there[in->index], &s->inputs_bytes[in->index], bytes);

    s->inputs[in->index] = s->inputs_there[in->index];
    return status ? status : tcr_copy(s, 1, s->inputs[in->index], 0, t->data, bytes, input_name(in, in->index));
}

/* The input becomes a buffer of the entry point that runs. */
static int place_input(const struct input *in, const struct tcc_object *o)
{
    struct tccrt_session *s = in->s;
    uint32_t buffer = in->e->staged ? TCC_NO : s->m->u32s[in->e->input_buffers.first + in->index];
    struct tcc_object *ref;

    s->inputs[in->index] = NULL;
    if (buffer == TCC_NO)
        return TCC_OK;
    if (s->m->buffers[buffer].space != TCC_SPACE_OBJECT) {
        if (!o || o->kind != TCC_OBJ_TENSOR)
            return tcr_fail(TCC_EINPUT, "input '%s': it is missing", input_name(in, in->index));
        s->inputs[in->index] = o->t.data;
        if (tcr_memory(s, buffer))
            return s->in_there && s->in_there[in->index] ? TCC_OK : upload_input(in, &o->t);
        return s->guard ? tcr_guard_input(s, in->index, &o->t) : TCC_OK;
    }
    ref = o ? tccrt_object_ref(o) : tccrt_object_none();
    if (!ref)
        return tcr_fail(TCC_EENV, "no memory for input '%s'", input_name(in, in->index));
    tcr_slot_set(s, &s->slots[s->m->slot_of[buffer]], ref);
    return TCC_OK;
}

/* Dims that are computed from symbols (2*n) are compared once those are known. */
static int check_computed(const struct input *in, const struct tcc_object *o)
{
    struct tccrt_session *s = in->s;

    if (!o || o->kind != TCC_OBJ_TENSOR)
        return TCC_OK;
    for (uint32_t i = 0; i < in->sig->dims.count; i++) {
        uint32_t e = s->m->u32s[in->sig->dims.first + i];

        if (s->m->exprs[e].op > TCC_EX_SYM && s->values[e] != o->t.dims[i] && s->values[e] != TCR_UNBOUND)
            return tcr_fail(TCC_EINPUT, "input '%s', axis %u: expected %s = %lld, got %lld", input_name(in, in->index),
                            i, s->m->expr_text[e], (long long)s->values[e], (long long)o->t.dims[i]);
    }
    return TCC_OK;
}

/* -- Shape versions ------------------------------------------------------------------------------------- */

static bool guard_holds(const struct tccrt_session *s, const struct tcc_pguard *g)
{
    int64_t a = s->values[g->a], b = s->values[g->b];

    return TCR_IS_VALUE(a) && TCR_IS_VALUE(b) && tcc_guard_holds(g->op, a, b);
}

static size_t size_text(char *to, size_t room, bool more, const struct tccrt_session *s, uint32_t sym)
{
    return (size_t)snprintf(to, room, "%s%s = %lld", more ? ", " : "", tcr_string(s->m, s->m->syms[sym].name),
                            (long long)s->syms[sym]);
}

/* The sizes of the call, in the order of what says them, and what the versions are for. */
static int no_version(const struct tccrt_session *s, const struct tcc_pentry *e)
{
    char sizes[256] = "", covered[512] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < s->m->plan->syms.count && n < sizeof sizes; i++)
        if (s->syms[i] != TCR_UNBOUND && s->origin[i] < 0)
            n += size_text(sizes + n, sizeof sizes - n, n > 0, s, i);
    for (uint32_t at = 0; at < e->inputs.count * TCC_MAX_RANK; at++)
        for (uint32_t i = 0; i < s->m->plan->syms.count && n < sizeof sizes; i++)
            if (s->syms[i] != TCR_UNBOUND && s->origin[i] == (int32_t)at)
                n += size_text(sizes + n, sizeof sizes - n, n > 0, s, i);
    n = 0;
    for (uint32_t i = 0; i < e->cases.count && n < sizeof covered; i++)
        n += (size_t)snprintf(covered + n, sizeof covered - n, "%s%s", n ? "; " : "",
                              tcr_string(s->m, s->m->cases[e->cases.first + i].text));
    return tcr_fail(TCC_EINPUT, "entry point '%s' was not compiled for %s; the sizes that it has versions for: %s",
                    tcr_string(s->m, e->name), sizes, covered);
}

/* The first version whose guards hold for the sizes that are bound now; e itself if it has none. */
static int choose(struct tccrt_session *s, const struct tcc_pentry *e)
{
    const struct tccrt_model *m = s->m;

    s->chosen = e->cases.count ? NULL : e;
    for (uint32_t i = 0; i < e->cases.count && !s->chosen; i++) {
        const struct tcc_pcase *x = &m->cases[e->cases.first + i];
        uint32_t g = 0;

        while (g < x->guards.count && guard_holds(s, &m->guards[x->guards.first + g]))
            g++;
        if (g == x->guards.count)
            s->chosen = &m->entries[x->entry];
    }
    /* No room in the caches is what is wrong, not what follows from it. */
    for (uint32_t i = 0; i < e->cases.count && !s->chosen; i++) {
        int status = tcr_check_advances(s, &m->entries[m->cases[e->cases.first + i].entry]);

        if (status)
            return status;
    }
    return s->chosen ? TCC_OK : no_version(s, e);
}

/* What the shapes of the inputs say: symbols, sizes that follow from them, and the version for them. */
static int bind_sizes(struct tccrt_session *s, const struct tcc_pentry *e)
{
    const struct tccrt_model *m = s->m;
    uint32_t nsyms = m->plan->syms.count;
    int status;

    for (uint32_t i = 0; i < nsyms; i++)
        s->syms[i] = TCR_UNBOUND;
    tcr_owners_bind(s);
    if ((status = tcr_bind_positions(s)))
        return status;
    for (uint32_t i = 0; i < e->inputs.count; i++) {
        struct input in = {s, e, &m->signatures[e->inputs.first + i], i};

        if ((status = bind_input(&in, s->in[i])))
            return status;
    }
    if (s->entry != e || memcmp(s->syms, s->bound, nsyms * sizeof *s->syms)) {
        s->entry = NULL;
        memcpy(s->bound, s->syms, nsyms * sizeof *s->syms);
        if (m->plan->levels)
            tcr_eval_level(s, 0);
        if ((status = choose(s, e)))
            return status;
        tcr_bounds(s, s->chosen);
        s->entry = e;
    }
    tcr_forget_levels(s);
    for (uint32_t i = 0; i < e->inputs.count && !status; i++) {
        struct input in = {s, e, &m->signatures[e->inputs.first + i], i};

        status = check_computed(&in, s->in[i]);
    }
    return status;
}

int tcr_bind(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int status = bind_sizes(s, e);

    for (uint32_t i = 0; i < e->inputs.count && !status; i++) {
        struct input in = {s, s->chosen, &s->m->signatures[e->inputs.first + i], i};

        status = place_input(&in, s->in[i]);
    }
    return status;
}

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
                                    : tcr_size(s, e->arena, "the arena", "", &bytes[s->apart && !s->placed]);

    if (!status && e->arena != TCC_NO && e->arenas.count && s->placed)
        status = tcr_size(s, s->m->u32s[e->arenas.first], "the device's arena", "", &bytes[1]);
    for (uint32_t i = 0; i < 2 && !status; i++)
        if (!i || bytes[i] || s->apart)
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
int tcr_copy_lent(struct tccrt_session *s, bool back)
{
    int status = TCC_OK;

    for (uint32_t i = 0; s->any_lent && i < s->m->plan->states.count && !status; i++)
        if (s->lent[i])
            status =
                back ? tcr_state_read(s, i, 0, s->m->states[i].bytes, s->lent[i]) : tcr_state_write(s, i, s->lent[i]);
    return status;
}

/* State that was written between runs is there. */
static int take_state(struct tccrt_session *s)
{
    int status = s->apart ? tcr_sync(s) : TCC_OK;

    return status || !s->apart ? status : tcr_copy_lent(s, false);
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
    return status ? tcr_run_failed(s, status) : tcr_copy_lent(s, true);
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
    if (s->apart)
        status = end_apart(s, status);
    else if (!status)
        status = tcr_advance(s, s->running);
    if (!status && s->guard)
        tcr_guard_outputs_back(s);
    if (s->apart && s->profile)
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
    if ((status = bind_sizes(s, e)))
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
    s->objects = true;
    tcr_reset_outputs(s);
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
