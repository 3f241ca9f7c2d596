/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points that run in stages (abi.h, stages). A session runs one stage, and the others are other
 * processes of its group "pp"; or it runs all of them in turn: each goes on until it waits for something that another
 * has not sent yet.
 *
 * A stage's values lie in slots. A call writes into the slots' memory, which becomes the entry point's output memory
 * for the time of the call. A send leaves its slot alone until it has gone; a receive is begun while what comes before
 * it still computes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/stages_int.h"

/* -- Tables of a run ----------------------------------------------------------------------------------- */

const char *tcr_stages_value_name(const struct run *r, uint32_t v)
{
    return tcr_string(r->s->m, r->values[v].name);
}

static struct pslot *slot_of(const struct run *r, uint32_t stage, uint32_t v, uint32_t micro)
{
    const struct stage *t = &r->state->stages[stage];

    return &t->slots[r->state->first_slot[v] + micro % r->values[v].index];
}

static void drop_messages(struct tcr_staged *x)
{
    while (x->mail)
        tcr_stages_drop(&x->mail);
}

static void free_staged(struct tccrt_session *s)
{
    for (uint32_t i = 0; s->staged && i < s->m->plan->staged.count; i++) {
        const struct tcc_pstaged *p = &s->m->staged[i];
        struct tcr_staged *x = s->staged[i];

        for (uint32_t st = 0; x && x->stages && st < p->stages; st++) {
            for (uint32_t k = 0; x->stages[st].slots && k < x->nslots; k++)
                tcr_free(s, x->stages[st].slots[k].memory, x->stages[st].slots[k].data, x->stages[st].slots[k].held);
            free(x->stages[st].slots);
        }
        for (uint32_t k = 0; x && x->results && k < p->results.count; k++)
            free(x->results[k].data);
        for (uint32_t k = 0; x && x->slices && k < p->axes.count; k++)
            free(x->slices[k].data);
        if (x) {
            drop_messages(x);
            free(x->stages);
            free(x->first_slot);
            free(x->dims);
            free(x->results);
            free(x->slices);
            free(x->inputs);
            free(x->in_on_device);
            free(x->out_on_device);
            free(x->out);
            for (uint32_t k = 0; x->kept && k < s->m->plan->states.count; k++)
                free(x->kept[k].data);
            free(x->kept);
        }
        free(x);
    }
    free(s->staged);
}

static struct tcr_staged *staged_of(struct tccrt_session *s, uint32_t number)
{
    const struct tcc_pstaged *p = &s->m->staged[number];
    const struct tcc_pbuffer *values = s->m->buffers + p->buffers.first;
    struct tcr_staged *x;
    uint32_t n = 0;

    if (!s->staged && !(s->staged = calloc(s->m->plan->staged.count, sizeof *s->staged)))
        return NULL;
    s->free_staged = free_staged;
    if (s->staged[number])
        return s->staged[number];
    x = s->staged[number] = calloc(1, sizeof *x);
    if (!x || !(x->stages = calloc(p->stages, sizeof *x->stages)) ||
        !(x->first_slot = calloc(p->buffers.count + 1, sizeof *x->first_slot)) ||
        !(x->dims = calloc(p->buffers.count + 1, sizeof *x->dims)) ||
        !(x->results = calloc(p->results.count + 1, sizeof *x->results)) ||
        !(x->slices = calloc(p->axes.count + 1, sizeof *x->slices)) ||
        !(x->inputs = calloc(p->axes.count + 1, sizeof *x->inputs)) ||
        !(x->in_on_device = calloc(s->max_inputs + 1, sizeof *x->in_on_device)) ||
        !(x->out_on_device = calloc(s->max_outputs + 1, sizeof *x->out_on_device)) ||
        !(x->out = calloc(s->max_outputs + 1, sizeof *x->out)))
        return NULL;
    for (uint32_t v = 0; v < p->buffers.count; v++) {
        x->first_slot[v] = n;
        n += values[v].space == TCC_SPACE_SLOT ? values[v].index : 0;
    }
    x->nslots = n;
    for (uint32_t st = 0; st < p->stages; st++)
        if (tcr_has_stage(s, st + 1) && !(x->stages[st].slots = calloc(n + 1, sizeof *x->stages[st].slots)))
            return NULL;
    return x;
}

/* -- Inputs ------------------------------------------------------------------------------------------------ */

static uint32_t axis_of(const struct run *r, uint32_t i)
{
    return r->s->m->u32s[r->p->axes.first + i];
}

/* The caller's inputs: kept, checked to be divisible, and their sizes bound to those of a microbatch. */
static int take_inputs(struct run *r)
{
    struct tccrt_session *s = r->s;

    for (uint32_t i = 0; i < r->e->inputs.count; i++) {
        const char *name = tcr_string(s->m, s->m->signatures[r->e->inputs.first + i].name);
        struct tcc_tensor *t = &r->state->inputs[i];
        uint32_t axis = axis_of(r, i);

        if (!s->in[i] || s->in[i]->kind != TCC_OBJ_TENSOR)
            return tcr_fail(TCC_EINPUT, "input '%s': a tensor expected", name);
        *t = s->in[i]->t;
        tcr_object_borrow(&s->heads[i], t);
        s->in[i] = &s->heads[i];
        if (axis == TCC_NO || (int)axis >= t->rank)
            continue;
        if (t->dims[axis] % r->p->micros)
            return tcr_fail(TCC_EINPUT, "input '%s', axis %u: %lld is no multiple of the %u microbatches", name, axis,
                            (long long)t->dims[axis], r->p->micros);
        s->heads[i].t.dims[axis] /= r->p->micros;
    }
    return TCC_OK;
}

/* Dims of values, as far as they follow from the inputs. */
static void evaluate_dims(struct run *r)
{
    const struct tccrt_model *m = r->s->m;

    for (uint32_t v = 0; v < r->p->buffers.count; v++) {
        const struct tcc_pbuffer *x = &r->values[v];

        for (uint32_t d = 0; d < x->rank; d++)
            r->state->dims[v][d] = r->s->values[m->u32s[x->dims.first + d]];
    }
}

static int64_t product(const int64_t *dims, int first, int last)
{
    int64_t n = 1;

    for (int i = first; i < last; i++)
        n *= dims[i];
    return n;
}

/* Microbatch m of an input: in place on axis 0, else copied. */
static int slice_input(struct run *r, uint32_t i, uint32_t micro, struct tcc_tensor *out)
{
    const struct tcc_tensor *t = &r->state->inputs[i];
    uint32_t axis = axis_of(r, i);
    struct slice *copy = &r->state->slices[i];
    int64_t part, inner, outer;

    *out = *t;
    if (axis == TCC_NO || (int)axis >= t->rank)
        return TCC_OK;
    part = out->dims[axis] = t->dims[axis] / r->p->micros;
    inner = product(t->dims, (int)axis + 1, t->rank) * tcr_dtype_bytes(t->dtype);
    outer = product(t->dims, 0, (int)axis);
    if (outer == 1) {
        out->data = (char *)t->data + (size_t)(part * inner) * micro;
        return TCC_OK;
    }
    if ((int64_t)copy->held < outer * part * inner) {
        free(copy->data);
        copy->held = 0;
        if (!(copy->data = malloc((size_t)(outer * part * inner) + 1)))
            return tcr_fail(TCC_EENV, "no memory for a microbatch");
        copy->held = (size_t)(outer * part * inner);
    }
    for (int64_t o = 0; o < outer; o++)
        memcpy((char *)copy->data + o * part * inner,
               (const char *)t->data + (o * t->dims[axis] + part * (int64_t)micro) * inner, (size_t)(part * inner));
    out->data = copy->data;
    return TCC_OK;
}

struct tcc_tensor tcr_stages_tensor(const struct run *r, uint32_t v, const struct pslot *x)
{
    struct tcc_tensor t = {.data = x->data, .dtype = (int32_t)r->values[v].dtype, .rank = x->rank};

    memcpy(t.dims, x->dims, sizeof t.dims);
    return t;
}

/* -- Calls ----------------------------------------------------------------------------------------------------- */

static int bind_value(struct run *r, uint32_t stage, uint32_t v, uint32_t micro, uint32_t i)
{
    static char nothing[TCR_ALIGN];
    struct tccrt_session *s = r->s;
    struct tcc_tensor t = {.data = nothing, .dtype = (int32_t)r->values[v].dtype, .rank = (int32_t)r->values[v].rank};
    int status = TCC_OK;

    r->state->in_on_device[i] = false;
    if (r->values[v].space == TCC_SPACE_INPUT) {
        status = slice_input(r, r->values[v].index, micro, &t);
    } else if (r->values[v].space == TCC_SPACE_SLOT) {
        const struct pslot *x = slot_of(r, stage, v, micro);

        t = tcr_stages_tensor(r, v, x);
        r->state->in_on_device[i] = x->memory;
    } else {
        memcpy(t.dims, r->state->dims[v], sizeof t.dims);
    }
    tcr_object_borrow(&s->heads[i], &t);
    s->in[i] = &s->heads[i];
    return status;
}

/* Memory of a slot on the device, for an output of a call; none where it lies with the host. */
static int slot_there(struct run *r, struct pslot *x, uint32_t v, struct tcc_tensor *out)
{
    int64_t bytes;

    *out = (struct tcc_tensor){.dtype = (int32_t)r->values[v].dtype, .rank = (int32_t)r->values[v].rank};
    memcpy(out->dims, r->state->dims[v], sizeof out->dims);
    bytes = tcr_elements(out->dtype, out->rank, out->dims) * tcr_dtype_bytes(out->dtype);
    if (!r->s->discrete || !r->values[v].memory || bytes < 0 || (x->held && !x->memory))
        return TCC_OK;
    x->memory = 1;
    int status = tcr_grow(r->s, 1, &x->data, &x->held, bytes ? (size_t)bytes : 1);
    out->data = x->data;
    return status;
}

static int place_outputs(struct run *r, const struct tcc_pstep *c, uint32_t stage, uint32_t micro)
{
    int status = TCC_OK;

    for (uint32_t k = 0; k < c->args.count - c->nin && !status; k++) {
        uint32_t v = tcr_stage_value(r, c, c->nin + k);
        struct tcc_tensor *out = &r->state->out[k];

        status = slot_there(r, slot_of(r, stage, v, micro), v, out);
        r->state->out_on_device[k] = out->data != NULL;
        if (out->data)
            r->s->outs[k].user = out;
    }
    return status;
}

/* Lends the slots' memory with the host to the call's outputs, or takes it back. */
static void swap_outputs(struct run *r, const struct tcc_pstep *c, uint32_t stage, uint32_t micro)
{
    for (uint32_t k = 0; k < c->args.count - c->nin; k++) {
        struct pslot *x = slot_of(r, stage, tcr_stage_value(r, c, c->nin + k), micro);
        struct tcr_out *o = &r->s->outs[k];
        void *data = o->own;
        size_t held = o->own_bytes;

        if (r->state->out_on_device[k])
            continue;
        o->own = x->data;
        o->own_bytes = x->held;
        x->data = data;
        x->held = held;
    }
}

static int settle_sends(struct run *r, const struct tcc_pstep *c, uint32_t stage, uint32_t micro)
{
    for (uint32_t k = 0; k < c->args.count - c->nin; k++) {
        struct pslot *x = slot_of(r, stage, tcr_stage_value(r, c, c->nin + k), micro);
        int status = tcr_stages_settle(x);

        if (status)
            return status;
    }
    return TCC_OK;
}

static int run_call(struct run *r, uint32_t stage, const struct tcc_pstep *c)
{
    struct tccrt_session *s = r->s;
    const struct tcc_pentry *e = &s->m->entries[c->what];
    uint32_t micro = tcr_stage_micro(s->m, c);
    int status = settle_sends(r, c, stage, micro);

    for (uint32_t i = 0; !status && i < c->nin; i++)
        status = bind_value(r, stage, tcr_stage_value(r, c, i), micro, i);
    if (status)
        return status;
    tcr_reset_outputs(s);
    if ((status = place_outputs(r, c, stage, micro)))
        return status;
    swap_outputs(r, c, stage, micro);
    s->runs = r->runs * r->p->micros + micro;
    s->in_on_device = r->state->in_on_device;
    s->out_on_device = r->state->out_on_device;
    status = tcr_execute(s, e);
    s->in_on_device = s->out_on_device = NULL;
    for (uint32_t k = 0; !status && k < c->args.count - c->nin; k++) {
        uint32_t v = tcr_stage_value(r, c, c->nin + k);
        struct pslot *x = slot_of(r, stage, v, micro);
        const struct tcr_out *o = &s->outs[k];

        if (!r->state->out_on_device[k] && (!o->host || o->host != o->own))
            status = tcr_fail(TCC_EBUG, "value '%s' of a stage does not lie in its slot", tcr_stages_value_name(r, v));
        x->rank = o->rank;
        memcpy(x->dims, o->dims, sizeof x->dims);
    }
    swap_outputs(r, c, stage, micro);
    return status;
}

/* -- Steps -------------------------------------------------------------------------------------------------------- */

static int run_step(struct run *r, uint32_t stage, const struct tcc_pstep *t)
{
    uint32_t micro = tcr_stage_micro(r->s->m, t), v = t->args.count ? tcr_stage_value(r, t, 0) : 0;
    struct pslot *x = t->kind == TCC_STEP_CALL ? NULL : slot_of(r, stage, v, micro), *all;
    struct tcc_tensor one;
    bool alone = !r->group;

    switch (t->kind) {
    case TCC_STEP_CALL: return run_call(r, stage, t);
    case TCC_STEP_SEND:
        return alone ? tcr_stages_post(r, v, micro, stage, tcr_stage_peer(r, t), x) : tcr_stages_send(r, x, t);
    case TCC_STEP_RECV:
        return alone ? tcr_stages_pick_up(r, v, micro, tcr_stage_peer(r, t), stage, x) : tcr_stages_recv(r, x, t);
    case TCC_STEP_COLLECTIVE:
        all = slot_of(r, stage, tcr_stage_value(r, t, 1), 0);
        return alone ? tcr_stages_gather_here(r, stage, v, x, all) : tcr_stages_gather(r, x, all, t);
    default: one = tcr_stages_tensor(r, v, x); return tcr_stages_reduce(r, t->what, micro, &one);
    }
}

/* Receives that come next are begun before a call: one of each value, for which it has a slot to spare. */
static int begin_receives(struct run *r, uint32_t stage, const struct tcc_pstep *at, const struct tcc_pstep *end)
{
    const struct tcc_pstep *last = end - at > 24 ? at + 24 : end;

    for (const struct tcc_pstep *t = at + 1; t < last; t++) {
        bool first = t->kind == TCC_STEP_RECV;

        for (const struct tcc_pstep *b = at + 1; first && b < t; b++)
            first = b->kind != TCC_STEP_RECV || tcr_stage_value(r, b, 0) != tcr_stage_value(r, t, 0);
        if (first && r->values[tcr_stage_value(r, t, 0)].index > 1) {
            struct pslot *x = slot_of(r, stage, tcr_stage_value(r, t, 0), tcr_stage_micro(r->s->m, t));
            int status = tcr_stages_begin_recv(r, x, t);

            if (status)
                return status;
        }
    }
    return TCC_OK;
}

/* The list from *at on, until a step has to wait. *moved: something was done. tcr_walk() would have to leave a list in
 * its middle and come back, and to name operands by stage and microbatch: questions in the path of every step of every
 * entry point, of which a stage's call runs one to its end. The table of kinds and its checks are shared (plan.def). */
static int walk(struct run *r, uint32_t stage, struct tcc_range list, uint32_t *at, bool *moved)
{
    const struct tcc_pstep *first = r->s->m->steps + list.first, *end = first + list.count;

    for (; *at < list.count; ++*at) {
        int status = TCC_OK;

        if (r->group && first[*at].kind == TCC_STEP_CALL)
            status = begin_receives(r, stage, first + *at, end);
        double start = r->s->profile ? tcr_now() : 0;
        if (!status)
            status = run_step(r, stage, first + *at);
        if (status)
            return status;
        tcr_profile_staged(r->s, stage, first + *at, start, r->s->profile ? tcr_now() : 0);
        *moved = true;
    }
    return TCC_OK;
}

/* Of stage `stages`: what every process does at the end. */
static struct tcc_range list_of(const struct run *r, uint32_t stage)
{
    return r->s->m->regions[r->p->lists.first + stage].steps;
}

static int run_stages(struct run *r)
{
    int status = AGAIN;

    for (uint32_t st = 0; st < r->p->stages; st++) {
        r->state->stages[st].at = 0;
        r->state->stages[st].gave = false;
    }
    while (status == AGAIN) {
        bool moved = false;

        status = TCC_OK;
        for (uint32_t st = 0; st < r->p->stages; st++) {
            int now =
                tcr_has_stage(r->s, st + 1) ? walk(r, st, list_of(r, st), &r->state->stages[st].at, &moved) : TCC_OK;

            if (now != TCC_OK && now != AGAIN)
                return now;
            status = now == AGAIN ? AGAIN : status;
        }
        if (status == AGAIN && !moved)
            return tcr_fail(TCC_EBUG, "the stages wait for each other");
    }
    return status;
}

/* -- State ------------------------------------------------------------------------------------------------------- */

/* Do gradients go on from those of earlier calls? */
static int goes_on(const struct run *r, bool *yes)
{
    int64_t calls = 0;
    int status = TCC_OK;

    if (r->p->counter && r->s->states[r->p->counter - 1])
        status = tcr_state_read(r->s, r->p->counter - 1, 0, sizeof calls, &calls);
    *yes = calls != 0;
    return status;
}

/* Is the variable written by microbatches, and worth something if the run fails? */
static bool is_early(const struct run *r, uint32_t i, bool goes_on)
{
    if (!r->s->states[i])
        return false;
    if (r->s->m->states[i].flags & TCCRT_STATE_GRADIENT)
        return r->p->accumulates && goes_on;
    for (uint32_t k = 0; k < r->p->early.count; k++)
        if (r->s->m->u32s[r->p->early.first + k] == i)
            return true;
    return false;
}

static int keep_state(struct run *r, uint32_t i)
{
    const struct tccrt_model *m = r->s->m;

    if (!r->state->kept && !(r->state->kept = calloc(m->plan->states.count, sizeof *r->state->kept)))
        return tcr_fail(TCC_EENV, "no memory");
    if (!r->state->kept[i].data && !(r->state->kept[i].data = malloc(m->states[i].bytes + 1)))
        return tcr_fail(TCC_EENV, "no memory for a copy of '%s'", tcr_string(m, m->states[i].name));
    int status = tcr_state_read(r->s, i, 0, m->states[i].bytes, r->state->kept[i].data);
    r->state->kept[i].now = !status;
    return status;
}

/* Copies what a run that fails must put back; gradients begin. */
static int begin_states(struct run *r)
{
    const struct tccrt_model *m = r->s->m;
    bool on;
    int status = goes_on(r, &on);

    for (uint32_t i = 0; r->state->kept && i < m->plan->states.count; i++)
        r->state->kept[i].now = false;
    for (uint32_t i = 0; i < m->plan->states.count && !status; i++)
        if (is_early(r, i, on))
            status = keep_state(r, i);
    for (uint32_t i = 0; i < m->plan->states.count && !status; i++)
        if (r->p->accumulates && !on && r->s->states[i] && (m->states[i].flags & TCCRT_STATE_GRADIENT))
            status = tcr_state_zero(r->s, i);
    r->keeps = !status;
    return status;
}

/* The message of what went wrong stays. */
static void put_states_back(struct run *r, int status)
{
    char text[512];

    snprintf(text, sizeof text, "%s", tccrt_error());
    for (uint32_t i = 0; r->keeps && r->state->kept && i < r->s->m->plan->states.count; i++)
        if (r->state->kept[i].now)
            tcr_state_write(r->s, i, r->state->kept[i].data);
    tcr_fail(status, "%s", text);
}

/* What was under way when the run ended. */
static void settle_all(struct run *r)
{
    for (uint32_t st = 0; r->group && st < r->p->stages; st++)
        for (uint32_t k = 0; r->state->stages[st].slots && k < r->state->nslots; k++)
            tcr_stages_settle(&r->state->stages[st].slots[k]);
}

static int run_all(struct run *r)
{
    struct tccrt_session *s = r->s;
    int status = take_inputs(r);
    uint32_t at = 0;
    bool moved;

    if (status || (status = tcr_bind(s, r->e)) || (status = tcr_stages_begin_results(r)))
        return status;
    evaluate_dims(r);
    if ((status = begin_states(r)))
        return status;
    r->started = true;
    status = run_stages(r);
    if (!status)
        status = walk(r, s->stage ? (uint32_t)s->stage - 1 : 0, list_of(r, r->p->stages), &at, &moved);
    return status ? status : tcr_stages_share_results(r);
}

int tcr_stages_run(struct tccrt_session *s, const struct tcc_pentry *e)
{
    uint32_t number = e->staged - 1;
    const struct tcc_pstaged *p = &s->m->staged[number];
    bool objects = s->objects;
    const struct tcc_tensor *users[64] = {NULL};
    struct run r = {.s = s,
                    .e = e,
                    .p = p,
                    .values = s->m->buffers + p->buffers.first,
                    .outputs = s->m->results + p->results.first,
                    .runs = s->runs,
                    .group = s->stage ? tcr_session_group(s, "pp") : NULL};
    int status = TCC_OK;

    if (!(r.state = staged_of(s, number)))
        return tcr_fail(TCC_EENV, "no memory for stages");
    if (s->stage && p->stages > 1 && (!r.group || tccrt_comm_size(r.group) != (int)p->stages))
        return tcr_fail(TCC_EUSAGE, "the session runs stage %d of %u: it needs a group \"pp\" of %u processes",
                        s->stage - 1, p->stages, p->stages);
    for (uint32_t k = 0; k < e->outputs.count && k < 64; k++)
        users[k] = s->outs[k].user;
    if (e->outputs.count > 64)
        return tcr_fail(TCC_EUSAGE, "more than 64 outputs of stages");
    s->objects = false;
    status = run_all(&r);
    if (status && r.group && r.started)
        tccrt_comm_abort(r.group, tccrt_error());
    settle_all(&r);
    if (status)
        put_states_back(&r, status);
    drop_messages(r.state);
    s->objects = objects;
    s->runs = r.runs;
    s->running = e;
    tcr_reset_outputs(s);
    for (uint32_t k = 0; !status && k < e->outputs.count; k++) {
        s->outs[k].user = users[k];
        status = tcr_stages_give_result(&r, k);
    }
    s->runs += status == TCC_OK;
    return status;
}
