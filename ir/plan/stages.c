/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stages.c - checks entry points that run in stages (stages.h) by themselves, against the functions that they call and
 * against the plan:
 *   tables     numbers are in range; inputs, buffers and outputs have the types of what the calls take and give
 *   slots      each list in order: what is read is the microbatch that lies in the slot; a receive may begin as soon as
 *              the one before of the same buffer has ended, where that has a slot to spare, so that slot must be free
 *              from there on
 *   order      all lists at once, each in its order: each receive has its one send and each send its receive, all
 *              gather the same, and all come to their ends; sends don't wait
 *   outputs    each microbatch goes into each output once, on the stage from which all others get the output
 *   state      what a failing run must put back is named; a variable of one stage is accessed there alone
 */
#include <string.h>

#include "base/format.h"
#include "ir/text/kernel_words_int.h"

struct checker {
    struct ir_ctx *ctx;
    const struct ir_module *m;
    const struct kn_staged *p;
    enum ir_diag_kind kind;
    struct ir_arena *scratch;
    int *first_slot; /* by buffer */
    int nslots;
    int ncalls;
    struct kn_call *calls;
    bool ok;
};

static bool bad(struct checker *v, const char *format, ...)
{
    FORMATTED(text, 512, format);
    if (v->ok)
        ir_invalid(v->ctx, NULL, v->kind, ir_internf(v->ctx, "stages of '%s': %s", v->p->name, text));
    v->ok = false;
    return false;
}

/* What stands where in a list, for messages. */
static bool bad_step(struct checker *v, int list, int i, const char *format, ...)
{
    FORMATTED(text, 400, format);
    const struct kn_step *s = &v->p->lists[list].at[i];
    const char *what = s->kind == TCC_STEP_CALL ? s->lib : ir_internf(v->ctx, "%d", s->args[0]);
    return bad(v, "stage %d, step %d (%s %s micro %d): %s", list, i, kn_step_words[s->kind], what, s->micro, text);
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

static bool is_slot(const struct checker *v, int i)
{
    return i >= 0 && i < v->p->nbuffers && v->p->buffers[i].space == TCC_SPACE_SLOT;
}

/* One that others than the stage's calls may look at. */
static bool is_shared_slot(const struct checker *v, int i)
{
    return is_slot(v, i) && !v->p->buffers[i].memory;
}

static bool adds(ir_type t)
{
    return t->dtype == TCC_F32 || t->dtype == TCC_F64 || t->dtype == TCC_I32 || t->dtype == TCC_I64;
}

static bool check_buffers(struct checker *v)
{
    const struct kn_staged *p = v->p;
    for (int i = 0; i < p->ninputs; i++)
        if (!ir_is_tensor(p->inputs[i].type) || p->inputs[i].axis >= p->inputs[i].type->rank)
            return bad(v, "input '%s' has no axis %d", p->inputs[i].name, p->inputs[i].axis);
    for (int i = 0; i < p->nbuffers; i++) {
        const struct kn_buffer *x = &p->buffers[i];
        bool slot = x->space == TCC_SPACE_SLOT, input = x->space == TCC_SPACE_INPUT;
        if (!x->type || !ir_is_tensor(x->type) || x->dtype != (enum tcc_dtype)x->type->dtype ||
            (!slot && !input && x->space != TCC_SPACE_SIZES))
            return bad(v, "buffer %d is no input, slots or sizes of a tensor of known rank", i);
        if (input && (x->index >= p->ninputs || p->inputs[x->index].type != x->type))
            return bad(v, "buffer %d is not of the type of an input %d", i, x->index);
        if (slot && (x->index < 1 || x->index > p->micros))
            return bad(v, "buffer %d has %d slots for %d microbatches", i, x->index, p->micros);
        v->first_slot[i] = v->nslots;
        v->nslots += slot ? x->index : 0;
    }
    for (int i = 0; i < p->noutputs; i++) {
        const struct kn_stage_output *o = &p->outputs[i];
        if (!is_shared_slot(v, o->buffer) || !alike(o->type, p->buffers[o->buffer].type))
            return bad(v, "output '%s' is not of the type of a buffer %d that has slots with the host", o->name,
                       o->buffer);
        if (o->stage < 0 || o->stage >= p->stages)
            return bad(v, "output '%s' comes from stage %d of %d", o->name, o->stage, p->stages);
        if (o->how == TCC_COMBINE_CONCAT ? o->axis >= o->type->rank : o->how != TCC_COMBINE_STACK && !adds(o->type))
            return bad(v, "output '%s': microbatches of %s can't become its %s", o->name, ir_type_text(v->ctx, o->type),
                       kn_result_words[o->how]);
    }
    return true;
}

/* == Calls == */

/* What takes and gives n buffers: of these types, or (none) of the plan's buffers' element types. */
static bool check_operand(struct checker *v, const struct kn_step *s, int i, ir_type type, enum tcc_dtype dtype)
{
    ir_type own = v->p->buffers[s->args[i]].type;
    if (type ? !alike(own, type) : own->dtype != dtype)
        return bad(v, "@%s: buffer %d is %s, and %s there", s->lib, s->args[i], ir_type_text(v->ctx, own),
                   type ? ir_type_text(v->ctx, type) : tcc_dtype_name(dtype));
    return true;
}

static bool check_function(struct checker *v, const struct kn_step *s)
{
    const struct ir_block *body = s->func->body;
    if (s->nin != body->nparams || s->nargs - s->nin != body->last->nin)
        return bad(v, "@%s takes %d buffers and gives %d: %d and %d are named", s->lib, body->nparams, body->last->nin,
                   s->nin, s->nargs - s->nin);
    for (int i = 0; i < s->nargs; i++)
        if (!check_operand(v, s, i, i < s->nin ? body->params[i]->type : body->last->in[i - s->nin].value->type,
                           TCC_NONE))
            return false;
    return true;
}

static bool check_entry(struct checker *v, const struct kn_step *s)
{
    const struct kn_program *g = v->m->program;
    const struct kn_entry *e = NULL;
    for (int i = 0; i < g->nentries && !e; i++)
        e = !strcmp(g->entries[i].name, s->lib) ? &g->entries[i] : NULL;
    if (!e)
        return bad(v, "the plan has no entry point '%s'", s->lib);
    if (s->nin != e->ninputs || s->nargs - s->nin != e->noutputs)
        return bad(v, "the plan of '%s' takes %d buffers and gives %d: %d and %d are named", s->lib, e->ninputs,
                   e->noutputs, s->nin, s->nargs - s->nin);
    for (int i = 0; i < s->nargs; i++)
        if (!check_operand(v, s, i, NULL,
                           g->buffers[i < s->nin ? e->input_buffers[i] : e->output_buffers[i - s->nin]].dtype))
            return false;
    return true;
}

static bool check_call(struct checker *v, const struct kn_step *s)
{
    /* A plan has entry points from the pass `steps` on. */
    bool planned = v->m->program && v->m->program->nentries;
    if (!s->func && (v->m->funcs || !planned))
        return bad(v, "unknown function @%s", s->lib);
    if ((s->func && !check_function(v, s)) || (planned && !check_entry(v, s)))
        return false;
    for (int k = s->nin; k < s->nargs; k++)
        if (!is_slot(v, s->args[k]))
            return bad(v, "@%s gives buffer %d, which has no slots", s->lib, s->args[k]);
    return true;
}

/* Those of other microbatches name the same. */
static bool check_repeated(struct checker *v, int list, int i)
{
    const struct kn_step *s = &v->p->lists[list].at[i];
    const struct kn_call *c = v->calls;
    if (s->kind != TCC_STEP_CALL)
        return true;
    while (c->list != list || strcmp(c->step->lib, s->lib))
        c++;
    return (s->nin == c->step->nin && s->nargs == c->step->nargs &&
            (!s->nargs || !memcmp(s->args, c->step->args, (size_t)s->nargs * sizeof *s->args))) ||
           bad_step(v, list, i, "another microbatch's call names other buffers");
}

static bool check_calls(struct checker *v)
{
    for (int c = 0; c < v->ncalls; c++)
        if (!check_call(v, v->calls[c].step))
            return false;
    for (int l = 0; l <= v->p->stages; l++)
        for (int i = 0; i < v->p->lists[l].n; i++)
            if (!check_repeated(v, l, i))
                return false;
    return true;
}

static bool is_called(const struct checker *v, const struct ir_func *f)
{
    for (int c = 0; c < v->ncalls; c++)
        if (v->calls[c].step->func == f)
            return true;
    return false;
}

/* Each is made for all microbatches, or once, and each of the entry point's parts, ENTRY.PART, is called. */
static bool check_made(struct checker *v)
{
    size_t n = strlen(v->p->name);
    for (const struct ir_func *f = v->m->funcs; f; f = f->next)
        if (!strncmp(f->name, v->p->name, n) && f->name[n] == '.' && !is_called(v, f))
            return bad(v, "no list calls @%s", f->name);
    for (int c = 0; c < v->ncalls; c++) {
        const struct kn_call *x = &v->calls[c];
        if (x->made != 1 && (x->made != v->p->micros || x->list == v->p->stages))
            return bad(v, "@%s is called %d times for %d microbatches: once, or once for each, is expected",
                       x->step->lib, x->made, v->p->micros);
    }
    return true;
}

/* == Steps == */

static bool check_gather(struct checker *v, int list, int i)
{
    const struct kn_step *s = &v->p->lists[list].at[i];
    ir_type one = v->p->buffers[s->args[0]].type, all = v->p->buffers[s->args[1]].type;
    int64_t n;
    if (all->dtype != one->dtype || all->rank != one->rank + 1 || !ir_is_const(all->dim[0], &n) || n != v->p->stages)
        return bad_step(v, list, i, "%s is not %d of %s", ir_type_text(v->ctx, all), v->p->stages,
                        ir_type_text(v->ctx, one));
    return true;
}

static bool check_step(struct checker *v, int list, int i)
{
    const struct kn_step *s = &v->p->lists[list].at[i];
    bool call = s->kind == TCC_STEP_CALL, message = s->kind == TCC_STEP_SEND || s->kind == TCC_STEP_RECV;
    bool gather = s->kind == TCC_STEP_COLLECTIVE && s->what == TCC_ALL_GATHER, result = s->kind == TCC_STEP_RESULT;
    if (call ? !s->lib : (!message && !gather && !result) || s->nargs != 1 + gather || list == v->p->stages)
        return bad(v, "list %d has a step '%s' of %d buffers", list, kn_step_words[s->kind], s->nargs);
    for (int a = 0; a < s->nargs; a++) {
        if (s->args[a] < 0 || s->args[a] >= v->p->nbuffers)
            return bad_step(v, list, i, "there is no buffer %d", s->args[a]);
        if (!call && !is_shared_slot(v, s->args[a]))
            return bad_step(v, list, i, "buffer %d has no slots with the host", s->args[a]);
    }
    if (s->micro < 0 || s->micro >= v->p->micros)
        return bad_step(v, list, i, "there are %d microbatches", v->p->micros);
    if (message && (s->peer < 0 || s->peer >= v->p->stages || s->peer == list))
        return bad_step(v, list, i, "%d is no other stage", s->peer);
    if (result && (s->what < 0 || s->what >= v->p->noutputs || v->p->outputs[s->what].stage != list ||
                   v->p->outputs[s->what].buffer != s->args[0]))
        return bad_step(v, list, i, "no output from this stage");
    return !gather || check_gather(v, list, i);
}

static bool check_steps(struct checker *v)
{
    for (int l = 0; l <= v->p->stages; l++)
        for (int i = 0; i < v->p->lists[l].n; i++)
            if (!check_step(v, l, i))
                return false;
    return true;
}

/* == Slots == */

struct slot {
    int holds; /* the microbatch; -1: nothing yet */
    int read;  /* the last step that read it; -1: none since it was written */
};

struct walk {
    struct checker *v;
    int stage, step;
    struct slot *slots;
    int *received; /* by buffer: the last receive of it; -1: none yet */
};

static bool reads(struct walk *w, const struct kn_step *t, int a)
{
    int b = t->args[a];
    if (!is_slot(w->v, b))
        return true;
    struct slot *s = &w->slots[w->v->first_slot[b] + t->micro % w->v->p->buffers[b].index];
    if (s->holds == t->micro) {
        s->read = w->step;
        return true;
    }
    if (w->step == w->v->p->lists[w->stage].n)
        return bad(w->v, "stage %d ends without buffer %d, which the last call reads", w->stage, b);
    if (s->holds < 0)
        return bad_step(w->v, w->stage, w->step, "nothing has come into the slot of buffer %d", b);
    return bad_step(w->v, w->stage, w->step, "the slot of buffer %d, microbatch %d, holds microbatch %d", b, t->micro,
                    s->holds);
}

static bool writes(struct walk *w, const struct kn_step *t, int a)
{
    const struct kn_buffer *b = &w->v->p->buffers[t->args[a]];
    struct slot *s = &w->slots[w->v->first_slot[t->args[a]] + t->micro % b->index];
    if (t->kind == TCC_STEP_RECV) {
        if (b->index > 1 && s->read > w->received[t->args[a]])
            return bad_step(w->v, w->stage, w->step,
                            "may begin while step %d still reads microbatch %d, which lies in the slot", s->read,
                            s->holds);
        w->received[t->args[a]] = w->step;
    }
    *s = (struct slot){t->micro, -1};
    return true;
}

static bool accesses(struct walk *w, const struct kn_step *t)
{
    int n = t->kind == TCC_STEP_CALL || t->kind == TCC_STEP_COLLECTIVE ? t->nin : t->kind != TCC_STEP_RECV;
    for (int a = 0; a < t->nargs; a++)
        if (a < n ? !reads(w, t, a) : !writes(w, t, a))
            return false;
    return true;
}

static bool check_slots(struct checker *v, int stage)
{
    const struct kn_steps *own = &v->p->lists[stage], *last = &v->p->lists[v->p->stages];
    struct walk w = {.v = v, .stage = stage};
    w.slots = ir_arena_alloc(v->scratch, (size_t)(v->nslots + 1) * sizeof *w.slots);
    w.received = ir_arena_alloc(v->scratch, (size_t)(v->p->nbuffers + 1) * sizeof *w.received);
    for (int i = 0; i < v->nslots; i++)
        w.slots[i] = (struct slot){-1, -1};
    for (int i = 0; i < v->p->nbuffers; i++)
        w.received[i] = -1;
    for (w.step = 0; w.step < own->n; w.step++)
        if (!accesses(&w, &own->at[w.step]))
            return false;
    for (int i = 0; i < last->n; i++)
        if (!accesses(&w, &last->at[i]))
            return false;
    return true;
}

/* == Order == */

struct race {
    struct checker *v;
    int *at; /* by stage: its next step */
    /* by buffer, microbatch and receiver: 1 + the sender of what is under way; -1: has come; 0: was not sent yet */
    int *sent;
};

static bool lonely(struct checker *v, const struct kn_step *s, int from, int to, const char *what)
{
    return bad(v, "buffer %d, microbatch %d, from stage %d to stage %d: %s", s->args[0], s->micro, from, to, what);
}

static int *message(const struct race *r, const struct kn_step *s, int to)
{
    return &r->sent[((size_t)s->args[0] * (size_t)r->v->p->micros + (size_t)s->micro) * (size_t)r->v->p->stages +
                    (size_t)to];
}

static const struct kn_step *next_of(const struct race *r, int stage)
{
    const struct kn_steps *l = &r->v->p->lists[stage];
    return r->at[stage] < l->n ? &l->at[r->at[stage]] : NULL;
}

/* Does the list come one step further, by itself? */
static bool goes_on(struct race *r, int stage)
{
    const struct kn_step *s = next_of(r, stage);
    if (!s || s->kind == TCC_STEP_COLLECTIVE || !r->v->ok)
        return false;
    int *m = s->kind == TCC_STEP_SEND || s->kind == TCC_STEP_RECV
                 ? message(r, s, s->kind == TCC_STEP_SEND ? s->peer : stage)
                 : NULL;
    if (s->kind == TCC_STEP_SEND) {
        if (*m)
            return lonely(r->v, s, stage, s->peer, "sent twice");
        *m = stage + 1;
    } else if (s->kind == TCC_STEP_RECV) {
        if (*m < 0)
            return lonely(r->v, s, s->peer, stage, "received twice");
        if (*m != s->peer + 1)
            return false;
        *m = -1;
    }
    r->at[stage]++;
    return true;
}

/* Once all lists stand at a gather: the same one. */
static bool gathers(struct race *r)
{
    const struct kn_step *a = next_of(r, 0);
    for (int s = 0; s < r->v->p->stages; s++) {
        const struct kn_step *b = next_of(r, s);
        if (!b || b->kind != TCC_STEP_COLLECTIVE)
            return false;
        if (a->args[0] != b->args[0] || a->args[1] != b->args[1])
            return bad(r->v, "stages 0 and %d gather other values", s);
    }
    for (int s = 0; s < r->v->p->stages; s++)
        r->at[s]++;
    return true;
}

/* Why the lists stand where they do: a message without its other end before one that is waited for. */
static bool stuck(struct race *r)
{
    const struct kn_staged *p = r->v->p;
    int waits = -1, ended = -1, meets = -1;
    for (int s = 0; s < p->stages; s++) {
        const struct kn_step *t = next_of(r, s);
        waits = t && t->kind == TCC_STEP_RECV && waits < 0 ? s : waits;
        meets = t && t->kind == TCC_STEP_COLLECTIVE && meets < 0 ? s : meets;
        ended = !t && ended < 0 ? s : ended;
    }
    for (int s = 0; s < p->stages; s++) {
        const struct kn_step *t = next_of(r, s);
        bool found = !t || t->kind != TCC_STEP_RECV;
        for (int i = 0; !found && i < p->lists[t->peer].n; i++) {
            const struct kn_step *x = &p->lists[t->peer].at[i];
            found = x->kind == TCC_STEP_SEND && x->peer == s && x->micro == t->micro && x->args[0] == t->args[0];
        }
        if (!found)
            return lonely(r->v, t, t->peer, s, "received, never sent");
    }
    if (waits >= 0)
        return bad_step(r->v, waits, r->at[waits], "waits for ever");
    return meets < 0 || bad(r->v, "stages %d and %d gather other values", meets < ended ? meets : ended,
                            meets < ended ? ended : meets);
}

static bool check_order(struct checker *v)
{
    const struct kn_staged *p = v->p;
    struct race r = {.v = v};
    r.at = ir_arena_alloc(v->scratch, (size_t)p->stages * sizeof *r.at);
    r.sent =
        ir_arena_alloc(v->scratch, ((size_t)p->nbuffers * (size_t)p->micros * (size_t)p->stages + 1) * sizeof *r.sent);
    for (bool moved = true; moved && v->ok;) {
        moved = false;
        for (int s = 0; s < p->stages; s++)
            while (goes_on(&r, s))
                moved = true;
        moved = moved || (v->ok && gathers(&r));
    }
    if (!v->ok || !stuck(&r))
        return false;
    for (int s = 0; s < p->stages; s++)
        for (int i = 0; i < p->lists[s].n; i++) {
            const struct kn_step *t = &p->lists[s].at[i];
            if (t->kind == TCC_STEP_SEND && *message(&r, t, t->peer) > 0)
                return lonely(v, t, s, t->peer, "sent, never received");
        }
    return true;
}

/* == Outputs == */

static bool check_outputs(struct checker *v)
{
    const struct kn_staged *p = v->p;
    size_t n = (size_t)p->noutputs * (size_t)p->micros;
    bool *given = ir_arena_alloc(v->scratch, n + 1);
    for (int s = 0; s < p->stages; s++)
        for (int i = 0; i < p->lists[s].n; i++) {
            const struct kn_step *t = &p->lists[s].at[i];
            if (t->kind != TCC_STEP_RESULT)
                continue;
            bool *g = &given[(size_t)t->what * (size_t)p->micros + (size_t)t->micro];
            if (*g)
                return bad_step(v, s, i, "the microbatch goes into output '%s' twice", p->outputs[t->what].name);
            *g = true;
        }
    for (size_t i = 0; i < n; i++)
        if (!given[i])
            return bad(v, "microbatch %zu never goes into output '%s'", i % (size_t)p->micros,
                       p->outputs[i / (size_t)p->micros].name);
    return true;
}

/* == State == */

struct states {
    struct checker *v;
    const struct kn_step *call;
    int list;
    bool can_end; /* nothing of its stage that may fail runs behind it */
};

static bool is_early(const struct kn_staged *p, const struct ir_state *s)
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
        if (s && s->owner_stage && s->owner_stage != x->list + 1) /* list `stages` is every process's */
            return bad(x->v, "@%s accesses '%s', which is on stage %d alone", x->call->lib, s->name,
                       s->owner_stage - 1);
        if (s && n->op == IR_state_write && !x->can_end && !(s->flags & IR_STATE_GRADIENT) && !is_early(x->v->p, s))
            return bad(x->v, "@%s writes '%s' before the end: it must be named as early", x->call->lib, s->name);
        for (int r = 0; r < n->nregions; r++)
            if (!check_block(x, n->regions[r]))
                return false;
    }
    return true;
}

static bool check_states(struct checker *v)
{
    const struct kn_staged *p = v->p;
    if (p->counter && p->counter->type != ir_scalar_type(v->ctx, TCC_I64))
        return bad(v, "the counter '%s' is not of type i64[]", p->counter->name);
    for (const struct ir_state *s = v->m->states; s; s = s->next)
        if (s->owner_stage > p->stages)
            return bad(v, "state variable '%s' is on stage %d of %d", s->name, s->owner_stage - 1, p->stages);
    for (int l = 0; l <= p->stages; l++) {
        int end = p->lists[l].n; /* behind it: no call, no message */
        while (end > 0 && p->lists[l].at[end - 1].kind == TCC_STEP_RESULT)
            end--;
        for (int i = 0; i < end; i++) {
            const struct kn_step *t = &p->lists[l].at[i];
            struct states x = {v, t, l, l == p->stages || i == end - 1};
            /* The other microbatches' steps are the same. */
            if (t->func && (x.can_end || !t->micro) && !check_block(&x, t->func->body))
                return false;
        }
    }
    return true;
}

static bool check(struct checker *v)
{
    v->first_slot = ir_arena_alloc(v->scratch, (size_t)(v->p->nbuffers + 1) * sizeof *v->first_slot);
    if (!check_buffers(v) || !check_steps(v))
        return false;
    v->ncalls = kn_calls(v->ctx, v->p, &v->calls);
    if (!check_calls(v))
        return false;
    for (int s = 0; s < v->p->stages; s++)
        if (!check_slots(v, s))
            return false;
    return check_order(v) && check_outputs(v) && check_made(v) && check_states(v);
}

bool kn_verify_staged(const struct ir_module *m, enum ir_diag_kind kind)
{
    bool ok = true;
    for (const struct kn_staged *p = m->staged; p && ok; p = p->next) {
        struct checker v = {.ctx = m->ctx, .m = m, .p = p, .kind = kind, .scratch = ir_arena_new(m->ctx), .ok = true};
        ok = check(&v);
        ir_arena_free(v.scratch);
    }
    return ok;
}

/* == Questions == */

struct kn_staged *kn_staged_by_name(const struct ir_module *m, const char *name)
{
    for (struct kn_staged *p = m->staged; p; p = p->next)
        if (!strcmp(p->name, name))
            return p;
    return NULL;
}

int kn_calls(struct ir_ctx *ctx, const struct kn_staged *p, struct kn_call **out)
{
    VEC(struct kn_call) calls = {0};
    for (int l = 0, first = 0; l <= p->stages; l++, first = calls.n)
        for (int i = 0; i < p->lists[l].n; i++) {
            struct kn_step *s = &p->lists[l].at[i];
            int c = first;
            if (s->kind != TCC_STEP_CALL)
                continue;
            while (c < calls.n && strcmp(calls.at[c].step->lib, s->lib))
                c++;
            if (c == calls.n)
                VEC_PUSH(ctx, calls, (struct kn_call){s, l, 0});
            calls.at[c].made++;
        }
    *out = calls.at;
    return calls.n;
}
