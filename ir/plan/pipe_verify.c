/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipe_verify.c - checks pipelines (pipe.h) by themselves, against the functions that they call and against the plan:
 *   tables     numbers are in range; inputs, values and outputs have the types of what the calls take and give
 *   slots      each stage's tasks in order: what is read is the microbatch that lies in the slot; a receive may begin
 *              as soon as the one before of the same value has ended, where the value has a slot to spare, so that slot
 *              must be free from there on
 *   messages   each receive has its one send, and each send its receive
 *   order      the stages, each doing its tasks in order, all come to their ends; sends don't wait
 *   outputs    each microbatch's value goes into each output once, on the stage from which all others get the output
 *   state      what a failing run must put back is named; a variable of one stage is accessed there alone
 */
#include <stdlib.h>
#include <string.h>

#include "ir/text/kernel_words_int.h"

struct message {
    int what, micro, from, to;
    int *number; /* of the task: which message it is */
};

struct checker {
    struct ir_ctx *ctx;
    const struct ir_module *m;
    const struct pipe *p;
    enum ir_diag_kind kind;
    struct ir_arena *scratch;
    int *first_slot; /* by value */
    int nslots;
    int **messages;  /* by stage and task */
    VEC(struct message) sends, receives;
    bool ok;
};

static bool bad(struct checker *v, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (v->ok)
        ir_invalid(v->ctx, NULL, v->kind, ir_internf(v->ctx, "stages of '%s': %s", v->p->name, text));
    v->ok = false;
    return false;
}

/* What stands where in a stage's list, for messages. */
static bool bad_task(struct checker *v, int stage, int i, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const struct pipe_task *t = &v->p->tasks[stage].at[i];
    return bad(v, "stage %d, task %d (%s %d micro %d): %s", stage, i, pipe_task_words[t->kind], t->what, t->micro,
               text);
}

/* == Tables == */

/* The same element type and rank, and no dim that is known to differ: passes write equal sizes in other forms. */
static bool alike(ir_type a, ir_type b)
{
    int64_t x, y;
    if (!ir_is_tensor(a) || !ir_is_tensor(b) || a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int d = 0; d < a->rank; d++)
        if (ir_is_const(a->dim[d], &x) && ir_is_const(b->dim[d], &y) && x != y)
            return false;
    return true;
}

static bool is_value(const struct checker *v, int i)
{
    return i >= 0 && i < v->p->nvalues;
}

static bool is_slot(const struct checker *v, int i)
{
    return is_value(v, i) && v->p->values[i].space == TCC_PIPE_SLOT;
}

/* One that others than the stage's calls may look at. */
static bool is_shared_slot(const struct checker *v, int i)
{
    return is_slot(v, i) && !v->p->values[i].on_device;
}

static bool adds(ir_type t)
{
    return t->dtype == TCC_F32 || t->dtype == TCC_F64 || t->dtype == TCC_I32 || t->dtype == TCC_I64;
}

static bool check_values(struct checker *v)
{
    const struct pipe *p = v->p;
    for (int i = 0; i < p->ninputs; i++)
        if (!ir_is_tensor(p->inputs[i].type) || p->inputs[i].axis >= p->inputs[i].type->rank)
            return bad(v, "input '%s' has no axis %d", p->inputs[i].name, p->inputs[i].axis);
    for (int i = 0; i < p->nvalues; i++) {
        const struct pipe_value *x = &p->values[i];
        if (!ir_is_tensor(x->type))
            return bad(v, "value %d is no tensor of known rank", i);
        if (x->space == TCC_PIPE_INPUT &&
            (x->input < 0 || x->input >= p->ninputs || p->inputs[x->input].type != x->type))
            return bad(v, "value %d is not of the type of an input %d", i, x->input);
        if (x->space == TCC_PIPE_SLOT && (x->slots < 1 || x->slots > p->micros))
            return bad(v, "value %d has %d slots for %d microbatches", i, x->slots, p->micros);
        v->first_slot[i] = v->nslots;
        v->nslots += x->space == TCC_PIPE_SLOT ? x->slots : 0;
    }
    for (int i = 0; i < p->noutputs; i++) {
        const struct pipe_output *o = &p->outputs[i];
        if (!is_shared_slot(v, o->value) || !alike(o->type, p->values[o->value].type))
            return bad(v, "output '%s' is not of the type of a value %d that has slots with the host", o->name,
                       o->value);
        if (o->stage < 0 || o->stage >= p->stages)
            return bad(v, "output '%s' comes from stage %d of %d", o->name, o->stage, p->stages);
        if (o->how == TCC_PIPE_CONCAT ? o->axis >= o->type->rank : o->how != TCC_PIPE_STACK && !adds(o->type))
            return bad(v, "output '%s': microbatches of %s can't become its %s", o->name,
                       ir_type_text(v->ctx, o->type), pipe_reduce_words[o->how]);
    }
    return true;
}

static bool check_operand(struct checker *v, const struct pipe_call *c, int value, ir_type type, enum tcc_dtype dtype)
{
    if (!is_value(v, value))
        return bad(v, "@%s: there is no value %d", c->name, value);
    ir_type own = v->p->values[value].type;
    if (type ? !alike(own, type) : own->dtype != dtype)
        return bad(v, "@%s: value %d is %s, and %s there", c->name, value, ir_type_text(v->ctx, own),
                   type ? ir_type_text(v->ctx, type) : tcc_dtype_name(dtype));
    return true;
}

static bool check_function(struct checker *v, const struct pipe_call *c)
{
    const struct ir_block *body = c->func->body;
    if (c->nin != body->nparams || c->nout != body->last->nin)
        return bad(v, "@%s takes %d values and gives %d: %d and %d are named", c->name, body->nparams, body->last->nin,
                   c->nin, c->nout);
    for (int i = 0; i < c->nin; i++)
        if (!check_operand(v, c, c->in[i], body->params[i]->type, TCC_NONE))
            return false;
    for (int i = 0; i < c->nout; i++)
        if (!check_operand(v, c, c->out[i], body->last->in[i].value->type, TCC_NONE))
            return false;
    return true;
}

static bool check_entry(struct checker *v, const struct pipe_call *c)
{
    const struct kn_program *g = v->m->program;
    const struct kn_entry *e = NULL;
    for (int i = 0; i < g->nentries && !e; i++)
        e = !strcmp(g->entries[i].name, c->name) ? &g->entries[i] : NULL;
    if (!e)
        return bad(v, "the plan has no entry point '%s'", c->name);
    if (c->nin != e->ninputs || c->nout != e->noutputs)
        return bad(v, "the plan of '%s' takes %d buffers and gives %d: %d and %d values are named", c->name, e->ninputs,
                   e->noutputs, c->nin, c->nout);
    for (int i = 0; i < c->nin; i++)
        if (!check_operand(v, c, c->in[i], NULL, g->buffers[e->input_buffers[i]].dtype))
            return false;
    for (int i = 0; i < c->nout; i++)
        if (!check_operand(v, c, c->out[i], NULL, g->buffers[e->output_buffers[i]].dtype))
            return false;
    return true;
}

static bool check_calls(struct checker *v)
{
    const struct pipe *p = v->p;
    /* A plan has entry points from the pass `steps` on. */
    bool planned = v->m->program && v->m->program->nentries;
    for (int i = 0; i < p->ncalls; i++) {
        const struct pipe_call *c = &p->calls[i];
        if (c->stage < 0 || c->stage >= p->stages)
            return bad(v, "@%s is a call of stage %d of %d", c->name, c->stage, p->stages);
        if (!c->func && (v->m->funcs || !planned))
            return bad(v, "unknown function @%s", c->name);
        if ((c->func && !check_function(v, c)) || (planned && !check_entry(v, c)))
            return false;
        for (int k = 0; k < c->nout; k++)
            if (!is_slot(v, c->out[k]))
                return bad(v, "@%s gives value %d, which has no slots", c->name, c->out[k]);
    }
    if (p->last >= p->ncalls)
        return bad(v, "there is no call %d to be the last", p->last);
    return true;
}

/* == Tasks == */

static bool check_message(struct checker *v, int stage, int i)
{
    const struct pipe_task *t = &v->p->tasks[stage].at[i];
    bool send = t->kind == TCC_TASK_SEND;
    if (!is_shared_slot(v, t->what))
        return bad_task(v, stage, i, "value %d has no slots with the host", t->what);
    if (t->peer < 0 || t->peer >= v->p->stages || t->peer == stage)
        return bad_task(v, stage, i, "%d is no other stage", t->peer);
    struct message x = {t->what, t->micro, send ? stage : t->peer, send ? t->peer : stage, &v->messages[stage][i]};
    if (send)
        VEC_PUSH(v->ctx, v->sends, x);
    else
        VEC_PUSH(v->ctx, v->receives, x);
    return true;
}

static bool check_gather(struct checker *v, int stage, int i)
{
    const struct pipe_task *t = &v->p->tasks[stage].at[i];
    int64_t n;
    if (!is_shared_slot(v, t->what) || !is_shared_slot(v, t->peer))
        return bad_task(v, stage, i, "values %d and %d must have slots with the host", t->what, t->peer);
    ir_type one = v->p->values[t->what].type, all = v->p->values[t->peer].type;
    if (all->dtype != one->dtype || all->rank != one->rank + 1 || !ir_is_const(all->dim[0], &n) || n != v->p->stages)
        return bad_task(v, stage, i, "%s is not %d of %s", ir_type_text(v->ctx, all), v->p->stages,
                        ir_type_text(v->ctx, one));
    return true;
}

static bool check_task(struct checker *v, int stage, int i)
{
    const struct pipe_task *t = &v->p->tasks[stage].at[i];
    if (t->micro < 0 || t->micro >= v->p->micros)
        return bad_task(v, stage, i, "there are %d microbatches", v->p->micros);
    switch (t->kind) {
    case TCC_TASK_CALL:
        if (t->what < 0 || t->what >= v->p->ncalls || v->p->calls[t->what].stage != stage || t->what == v->p->last)
            return bad_task(v, stage, i, "no call of this stage");
        return true;
    case TCC_TASK_SEND:
    case TCC_TASK_RECV: return check_message(v, stage, i);
    case TCC_TASK_GATHER: return check_gather(v, stage, i);
    case TCC_TASK_OUTPUT:
        if (t->what < 0 || t->what >= v->p->noutputs || v->p->outputs[t->what].stage != stage)
            return bad_task(v, stage, i, "no output from this stage");
        return true;
    }
    return bad(v, "a task of kind %d", (int)t->kind);
}

static bool check_tasks(struct checker *v)
{
    for (int s = 0; s < v->p->stages; s++)
        for (int i = 0; i < v->p->tasks[s].n; i++)
            if (!check_task(v, s, i))
                return false;
    return true;
}

/* == Slots == */

struct slot {
    int holds; /* the microbatch; -1: nothing yet */
    int read;  /* the last task that read it; -1: none since it was written */
};

struct walk {
    struct checker *v;
    int stage, task;
    struct slot *slots;
    int *received; /* by value: the last receive of it; -1: none yet */
};

static struct slot *slot_of(const struct walk *w, int value, int micro)
{
    return &w->slots[w->v->first_slot[value] + micro % w->v->p->values[value].slots];
}

static bool reads(struct walk *w, int value, int micro)
{
    if (!is_slot(w->v, value))
        return true;
    struct slot *s = slot_of(w, value, micro);
    if (s->holds == micro) {
        s->read = w->task;
        return true;
    }
    if (w->task == w->v->p->tasks[w->stage].n)
        return bad(w->v, "stage %d ends without value %d, which the last call reads", w->stage, value);
    if (s->holds < 0)
        return bad_task(w->v, w->stage, w->task, "nothing has come into the slot of value %d", value);
    return bad_task(w->v, w->stage, w->task, "the slot of value %d, microbatch %d, holds microbatch %d", value, micro,
                    s->holds);
}

static bool writes(struct walk *w, int value, int micro)
{
    *slot_of(w, value, micro) = (struct slot){micro, -1};
    return true;
}

static bool receives(struct walk *w, int value, int micro)
{
    const struct slot *s = slot_of(w, value, micro);
    if (w->v->p->values[value].slots > 1 && s->read > w->received[value])
        return bad_task(w->v, w->stage, w->task,
                        "may begin while task %d still reads microbatch %d, which lies in the slot", s->read, s->holds);
    w->received[value] = w->task;
    return writes(w, value, micro);
}

static bool call_accesses(struct walk *w, const struct pipe_call *c, int micro)
{
    for (int k = 0; k < c->nin; k++)
        if (!reads(w, c->in[k], micro))
            return false;
    for (int k = 0; k < c->nout; k++)
        writes(w, c->out[k], micro);
    return true;
}

static bool task_accesses(struct walk *w, const struct pipe_task *t)
{
    const struct pipe *p = w->v->p;
    switch (t->kind) {
    case TCC_TASK_CALL: return call_accesses(w, &p->calls[t->what], t->micro);
    case TCC_TASK_SEND: return reads(w, t->what, t->micro);
    case TCC_TASK_RECV: return receives(w, t->what, t->micro);
    case TCC_TASK_GATHER: return reads(w, t->what, 0) && writes(w, t->peer, 0);
    case TCC_TASK_OUTPUT: return reads(w, p->outputs[t->what].value, t->micro);
    }
    return true;
}

static bool check_slots(struct checker *v, int stage)
{
    struct walk w = {.v = v, .stage = stage};
    w.slots = ir_arena_alloc(v->scratch, (size_t)(v->nslots + 1) * sizeof *w.slots);
    w.received = ir_arena_alloc(v->scratch, (size_t)(v->p->nvalues + 1) * sizeof *w.received);
    for (int i = 0; i < v->nslots; i++)
        w.slots[i] = (struct slot){-1, -1};
    for (int i = 0; i < v->p->nvalues; i++)
        w.received[i] = -1;
    for (w.task = 0; w.task < v->p->tasks[stage].n; w.task++)
        if (!task_accesses(&w, &v->p->tasks[stage].at[w.task]))
            return false;
    return v->p->last < 0 || call_accesses(&w, &v->p->calls[v->p->last], 0);
}

/* == Messages == */

static int compare(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    const int keys[][2] = {{x->what, y->what}, {x->micro, y->micro}, {x->from, y->from}, {x->to, y->to}};
    for (int i = 0; i < 4; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static bool lonely(struct checker *v, const struct message *x, const char *what)
{
    return bad(v, "value %d, microbatch %d, from stage %d to stage %d: %s", x->what, x->micro, x->from, x->to, what);
}

static bool sorted(struct checker *v, int n, struct message *list, const char *twice)
{
    if (n)
        qsort(list, (size_t)n, sizeof *list, compare);
    for (int i = 1; i < n; i++)
        if (!compare(&list[i], &list[i - 1]))
            return lonely(v, &list[i], twice);
    return true;
}

static bool check_messages(struct checker *v)
{
    if (!sorted(v, v->sends.n, v->sends.at, "sent twice") ||
        !sorted(v, v->receives.n, v->receives.at, "received twice"))
        return false;
    for (int i = 0; i < v->sends.n || i < v->receives.n; i++) {
        const struct message *s = i < v->sends.n ? &v->sends.at[i] : NULL;
        const struct message *r = i < v->receives.n ? &v->receives.at[i] : NULL;
        int order = !s ? 1 : !r ? -1 : compare(s, r);
        if (order)
            return lonely(v, order < 0 ? s : r, order < 0 ? "sent, never received" : "received, never sent");
        *s->number = *r->number = i;
    }
    return true;
}

/* == Order == */

struct race {
    struct checker *v;
    int *at;       /* by stage: its next task */
    bool *sent;    /* by message */
    int *gathers;  /* by stage: gathers that it has come to */
    bool *waiting; /* by stage: at a gather */
};

/* The stages that have come to their next gather may go on once all have. */
static bool gather_is_done(struct race *r, int stage)
{
    if (!r->waiting[stage]) {
        r->waiting[stage] = true;
        r->gathers[stage]++;
    }
    for (int s = 0; s < r->v->p->stages; s++)
        if (r->gathers[s] < r->gathers[stage])
            return false;
    r->waiting[stage] = false;
    return true;
}

static bool can_go_on(struct race *r, int stage)
{
    int i = r->at[stage];
    switch (r->v->p->tasks[stage].at[i].kind) {
    case TCC_TASK_SEND: r->sent[r->v->messages[stage][i]] = true; return true;
    case TCC_TASK_RECV: return r->sent[r->v->messages[stage][i]];
    case TCC_TASK_GATHER: return gather_is_done(r, stage);
    default: return true;
    }
}

static bool check_order(struct checker *v)
{
    const struct pipe *p = v->p;
    struct race r = {.v = v};
    r.at = ir_arena_alloc(v->scratch, (size_t)p->stages * sizeof *r.at);
    r.gathers = ir_arena_alloc(v->scratch, (size_t)p->stages * sizeof *r.gathers);
    r.waiting = ir_arena_alloc(v->scratch, (size_t)p->stages * sizeof *r.waiting);
    r.sent = ir_arena_alloc(v->scratch, (size_t)v->sends.n + 1);
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < p->stages; s++)
            while (r.at[s] < p->tasks[s].n && can_go_on(&r, s)) {
                r.at[s]++;
                moved = true;
            }
    }
    for (int s = 0; s < p->stages; s++)
        if (r.at[s] < p->tasks[s].n)
            return bad_task(v, s, r.at[s], "waits for ever");
    return true;
}

/* Gathers are the same everywhere: a collective is named by its place. */
static bool check_gathers(struct checker *v)
{
    const struct pipe *p = v->p;
    for (int s = 1; s < p->stages; s++) {
        int i = 0, k = 0;
        for (;; i++, k++) {
            while (i < p->tasks[0].n && p->tasks[0].at[i].kind != TCC_TASK_GATHER)
                i++;
            while (k < p->tasks[s].n && p->tasks[s].at[k].kind != TCC_TASK_GATHER)
                k++;
            const struct pipe_task *a = i < p->tasks[0].n ? &p->tasks[0].at[i] : NULL;
            const struct pipe_task *b = k < p->tasks[s].n ? &p->tasks[s].at[k] : NULL;
            if (!a && !b)
                break;
            if (!a || !b || a->what != b->what || a->peer != b->peer)
                return bad(v, "stages 0 and %d gather other values", s);
        }
    }
    return true;
}

/* == Outputs == */

static bool check_outputs(struct checker *v)
{
    const struct pipe *p = v->p;
    size_t n = (size_t)p->noutputs * (size_t)p->micros;
    bool *given = ir_arena_alloc(v->scratch, n + 1);
    for (int s = 0; s < p->stages; s++)
        for (int i = 0; i < p->tasks[s].n; i++) {
            const struct pipe_task *t = &p->tasks[s].at[i];
            if (t->kind != TCC_TASK_OUTPUT)
                continue;
            bool *g = &given[(size_t)t->what * (size_t)p->micros + (size_t)t->micro];
            if (*g)
                return bad_task(v, s, i, "the microbatch goes into output '%s' twice", p->outputs[t->what].name);
            *g = true;
        }
    for (size_t i = 0; i < n; i++)
        if (!given[i])
            return bad(v, "microbatch %zu never goes into output '%s'", i % (size_t)p->micros,
                       p->outputs[i / (size_t)p->micros].name);
    return true;
}

/* Each call but the last is made: for all microbatches, or once. */
static bool check_made(struct checker *v)
{
    const struct pipe *p = v->p;
    int *made = ir_arena_alloc(v->scratch, (size_t)(p->ncalls + 1) * sizeof *made);
    for (int s = 0; s < p->stages; s++)
        for (int i = 0; i < p->tasks[s].n; i++)
            if (p->tasks[s].at[i].kind == TCC_TASK_CALL)
                made[p->tasks[s].at[i].what]++;
    for (int c = 0; c < p->ncalls; c++)
        if (c != p->last && made[c] != 1 && made[c] != p->micros)
            return bad(v, "@%s is called %d times for %d microbatches: once, or once for each, is expected",
                       p->calls[c].name, made[c], p->micros);
    return true;
}

/* == State == */

struct states {
    struct checker *v;
    const struct pipe_call *call;
    bool last;    /* the process's last call, on every stage */
    bool can_end; /* nothing of its stage that may fail runs behind it */
};

static bool is_early(const struct pipe *p, const struct ir_state *s)
{
    for (int i = 0; i < p->nearly; i++)
        if (p->early[i] == s->index)
            return true;
    return false;
}

static bool check_block(struct states *x, const struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        const struct ir_state *s = ir_state_of(n);
        if (s && s->home && (x->last || s->home != x->call->stage + 1))
            return bad(x->v, "@%s accesses '%s', which is on stage %d alone", x->call->name, s->name, s->home - 1);
        if (s && n->op == IR_state_write && !x->can_end && !(s->flags & IR_STATE_GRADIENT) && !is_early(x->v->p, s))
            return bad(x->v, "@%s writes '%s' before the end: it must be named as early", x->call->name, s->name);
        for (int r = 0; r < n->nregions; r++)
            if (!check_block(x, n->regions[r]))
                return false;
    }
    return true;
}

static bool check_states(struct checker *v)
{
    const struct pipe *p = v->p;
    if (p->counter && p->counter->type != ir_scalar_type(v->ctx, TCC_I64))
        return bad(v, "the counter '%s' is not of type i64[]", p->counter->name);
    for (const struct ir_state *s = v->m->states; s; s = s->next)
        if (s->home > p->stages)
            return bad(v, "state variable '%s' is on stage %d of %d", s->name, s->home - 1, p->stages);
    for (int s = 0; s < p->stages; s++) {
        int end = p->tasks[s].n; /* behind it: no call, no message */
        while (end > 0 && p->tasks[s].at[end - 1].kind == TCC_TASK_OUTPUT)
            end--;
        for (int i = 0; i < end; i++) {
            const struct pipe_task *t = &p->tasks[s].at[i];
            const struct pipe_call *c = t->kind == TCC_TASK_CALL ? &p->calls[t->what] : NULL;
            struct states x = {v, c, false, i == end - 1};
            /* The other microbatches' tasks are the same. */
            if (c && c->func && (x.can_end || !t->micro) && !check_block(&x, c->func->body))
                return false;
        }
    }
    struct states x = {v, p->last < 0 ? NULL : &p->calls[p->last], true, true};
    return !x.call || !x.call->func || check_block(&x, x.call->func->body);
}

static bool check(struct checker *v)
{
    const struct pipe *p = v->p;
    v->first_slot = ir_arena_alloc(v->scratch, (size_t)(p->nvalues + 1) * sizeof *v->first_slot);
    v->messages = ir_arena_alloc(v->scratch, (size_t)p->stages * sizeof *v->messages);
    for (int s = 0; s < p->stages; s++)
        v->messages[s] = ir_arena_alloc(v->scratch, (size_t)(p->tasks[s].n + 1) * sizeof **v->messages);
    if (!check_values(v) || !check_calls(v) || !check_tasks(v))
        return false;
    for (int s = 0; s < p->stages; s++)
        if (!check_slots(v, s))
            return false;
    return check_messages(v) && check_gathers(v) && check_order(v) && check_outputs(v) && check_made(v) &&
           check_states(v);
}

bool pipe_verify(const struct ir_module *m, enum ir_diag_kind kind)
{
    bool ok = true;
    for (const struct pipe *p = m->pipes; p && ok; p = p->next) {
        struct checker v = {.ctx = m->ctx, .m = m, .p = p, .kind = kind, .scratch = ir_arena_new(m->ctx), .ok = true};
        ok = check(&v);
        ir_arena_free(v.scratch);
    }
    return ok;
}
