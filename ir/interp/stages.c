/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stages.c - runs an entry point in stages (stages.h) in one process by the reference interpreter: all stages in turn,
 * each until it waits for what another has not sent yet. Slots, messages, outputs and state follow runtime/stages.c,
 * whose oracle this is: microbatch m of run r counts as run r * micros + m for random numbers; gradients begin at zero;
 * means and sums over microbatches are kept in float64.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp_int.h"
#include "ir/ir_int.h"

enum { AGAIN = -1 }; /* not yet: another stage comes first */

struct result {
    double *sums; /* MEAN, SUM */
    int seen;     /* microbatches */
    struct tcc_object *o;
};

struct staged_run {
    struct interp it; /* symbols, and where messages go */
    const struct ir_module *m;
    const struct kn_staged *p;
    struct tcc_object *const *in;
    struct tcc_object **slots; /* by stage and slot */
    int *first_slot;           /* by buffer */
    int nslots;
    int *at;                   /* by stage: its next step */
    struct tcc_object **given; /* by stage: to the gather that it stands at */
    bool *gathered;            /* by stage: it has everyone's */
    struct tcc_object **mail;  /* by buffer, microbatch and receiver: under way */
    struct result *results;
    uint64_t runs; /* ended before this one */
};

static int no_memory(struct staged_run *r)
{
    return it_error(&r->it, NULL, TCC_EENV, "no memory");
}

/* == Symbols and inputs == */

static int wrong_input(struct staged_run *r, int i, const char *what)
{
    return it_error(&r->it, NULL, TCC_EINPUT, "input '%s': %s", r->p->inputs[i].name, what);
}

/* Dim d of the input's microbatch. */
static int64_t micro_dim(const struct staged_run *r, int i, int d)
{
    int64_t n = r->in[i]->t.dims[d];
    return d == r->p->inputs[i].axis ? n / r->p->micros : n;
}

static int check_input(struct staged_run *r, int i)
{
    const struct kn_stage_input *x = &r->p->inputs[i];
    const struct tcc_object *o = r->in[i];
    if (!o || o->kind != TCC_OBJ_TENSOR)
        return wrong_input(r, i, "a tensor expected");
    if (o->t.dtype != x->type->dtype || o->t.rank != x->type->rank || o->t.dtype == TCC_STRING)
        return wrong_input(r, i, "another element type or rank was given");
    if (x->axis >= 0 && o->t.dims[x->axis] % r->p->micros)
        return wrong_input(r, i, "the batch is no multiple of the microbatches");
    return TCC_OK;
}

/* Plain symbols first, then what can be solved; at last all dims must agree. */
static int bind_symbols(struct staged_run *r)
{
    const struct kn_staged *p = r->p;
    for (int step = 0; step < 3; step++)
        for (int i = 0; i < p->ninputs; i++)
            for (int d = 0; d < p->inputs[i].type->rank; d++) {
                ir_expr e = p->inputs[i].type->dim[d];
                int64_t is = micro_dim(r, i, d), want;
                bool plain = e->kind == IR_X_SYM;
                if (step == 0 && plain && !it_eval(&r->it, e, &want) && !it_bind(&r->it, e, is))
                    return wrong_input(r, i, "a dim is outside the bounds of its symbol");
                if (step == 1 && !plain)
                    it_solve(&r->it, e, is);
                if (step == 2 && it_eval(&r->it, e, &want) && want != is)
                    return wrong_input(r, i, "a dim is not what the others ask for");
            }
    return TCC_OK;
}

/* Elements [part * from, part * (from + 1)) of an axis, or, with `to`, into them. */
static void copy_part(const struct tcc_tensor *whole, const struct tcc_tensor *part, int axis, int64_t from, bool into)
{
    int64_t inner = it_product(part->dims, axis, part->rank) * tcc_dtype_bytes((enum tcc_dtype)part->dtype);
    int64_t outer = it_product(part->dims, 0, axis), step = inner;
    if (part->rank == whole->rank)
        step = it_product(whole->dims, axis, whole->rank) * tcc_dtype_bytes((enum tcc_dtype)part->dtype);
    for (int64_t o = 0; o < outer; o++) {
        char *large = (char *)whole->data + o * step + from * inner, *small = (char *)part->data + o * inner;
        memcpy(into ? large : small, into ? small : large, (size_t)inner);
    }
}

/* A value that a call reads, with a new reference; NULL: no memory. */
static struct tcc_object *operand(struct staged_run *r, int stage, int value, int micro)
{
    const struct kn_buffer *v = &r->p->buffers[value];
    int64_t dims[TCC_MAX_RANK] = {0};
    if (v->space == TCC_SPACE_SLOT)
        return tccrt_object_ref(r->slots[stage * r->nslots + r->first_slot[value] + micro % v->index]);
    if (v->space == TCC_SPACE_INPUT && r->p->inputs[v->index].axis < 0)
        return tccrt_object_ref(r->in[v->index]);
    for (int d = 0; d < v->type->rank; d++) {
        if (v->space == TCC_SPACE_INPUT)
            dims[d] = micro_dim(r, v->index, d);
        else if (!it_eval(&r->it, v->type->dim[d], &dims[d]))
            return NULL;
    }
    struct tcc_object *o = tccrt_object_tensor(v->type->dtype, v->type->rank, dims);
    if (o && v->space == TCC_SPACE_INPUT)
        copy_part(&r->in[v->index]->t, &o->t, r->p->inputs[v->index].axis, micro, false);
    return o;
}

/* == Steps == */

static void put(struct staged_run *r, int stage, int value, int micro, struct tcc_object *o)
{
    struct tcc_object **slot = &r->slots[stage * r->nslots + r->first_slot[value] + micro % r->p->buffers[value].index];
    if (*slot)
        tccrt_object_unref(*slot);
    *slot = o;
}

static struct tcc_object *slot(const struct staged_run *r, int stage, int value, int micro)
{
    return r->slots[stage * r->nslots + r->first_slot[value] + micro % r->p->buffers[value].index];
}

static int run_call(struct staged_run *r, int stage, const struct kn_step *c)
{
    struct tcc_object **in = calloc((size_t)c->nargs + 1, sizeof *in), **out = in ? in + c->nin : NULL;
    int status = in ? TCC_OK : no_memory(r);
    char text[256];
    for (int i = 0; i < c->nin && !status; i++)
        if (!(in[i] = operand(r, stage, c->args[i], c->micro)))
            status = no_memory(r);
    if (!status) {
        if (r->it.state)
            r->it.state->step = r->runs * (uint64_t)r->p->micros + (uint64_t)c->micro;
        status = ir_interp(c->func, r->it.state, in, out, r->it.error, r->it.error_size);
        if (status) {
            snprintf(text, sizeof text, "%s", r->it.error_size ? r->it.error : "");
            if (r->it.error_size)
                snprintf(r->it.error, r->it.error_size, "@%s, microbatch %d: %s", c->lib, c->micro, text);
        }
    }
    for (int i = c->nin; i < c->nargs && !status; i++)
        put(r, stage, c->args[i], c->micro, in[i]);
    for (int i = 0; in && i < c->nin; i++)
        if (in[i])
            tccrt_object_unref(in[i]);
    free(in);
    return status;
}

/* Where what is on its way to a stage lies. */
static struct tcc_object **mail(const struct staged_run *r, const struct kn_step *t, int to)
{
    return &r->mail[((size_t)t->args[0] * (size_t)r->p->micros + (size_t)t->micro) * (size_t)r->p->stages + (size_t)to];
}

static int post(struct staged_run *r, int stage, const struct kn_step *t)
{
    struct tcc_object **at = mail(r, t, t->peer);
    *at = tccrt_object_ref(slot(r, stage, t->args[0], t->micro));
    return *at ? TCC_OK : no_memory(r);
}

static int pick_up(struct staged_run *r, int stage, const struct kn_step *t)
{
    struct tcc_object **at = mail(r, t, stage);
    if (!*at)
        return AGAIN;
    put(r, stage, t->args[0], t->micro, *at);
    *at = NULL;
    return TCC_OK;
}

/* All stages' tensors, stacked; the last stage that comes gives it to all. */
static int gather(struct staged_run *r, int stage, const struct kn_step *t)
{
    const struct tcc_tensor *own = &slot(r, stage, t->args[0], 0)->t;
    int64_t dims[TCC_MAX_RANK] = {r->p->stages};
    if (r->gathered[stage]) {
        r->gathered[stage] = false;
        return TCC_OK;
    }
    if (!r->given[stage])
        r->given[stage] = tccrt_object_ref(slot(r, stage, t->args[0], 0));
    for (int s = 0; s < r->p->stages; s++)
        if (!r->given[s])
            return AGAIN;
    memcpy(dims + 1, own->dims, (size_t)own->rank * sizeof *dims);
    struct tcc_object *all = tccrt_object_tensor(own->dtype, own->rank + 1, dims);
    if (!all)
        return no_memory(r);
    for (int s = 0; s < r->p->stages; s++) {
        copy_part(&all->t, &r->given[s]->t, 0, s, true);
        tccrt_object_unref(r->given[s]);
        r->given[s] = NULL;
        r->gathered[s] = s != stage;
        put(r, s, t->args[1], 0, tccrt_object_ref(all));
    }
    tccrt_object_unref(all);
    return TCC_OK;
}

static int add(struct staged_run *r, const struct kn_stage_output *o, struct result *x, const struct tcc_tensor *t)
{
    int64_t n = it_product(t->dims, 0, t->rank);
    enum tcc_dtype d = (enum tcc_dtype)t->dtype;
    size_t bytes = (size_t)tcc_dtype_bytes(d);
    if (!x->sums && (!(x->sums = calloc((size_t)n + 1, sizeof *x->sums)) ||
                     !(x->o = tccrt_object_tensor(t->dtype, t->rank, t->dims))))
        return no_memory(r);
    if (it_product(x->o->t.dims, 0, x->o->t.rank) != n)
        return it_error(&r->it, NULL, TCC_EINPUT, "output '%s' changes its shape between microbatches", o->name);
    x->seen++;
    for (int64_t i = 0; i < n; i++) {
        const char *from = (const char *)t->data + (size_t)i * bytes;
        char *to = (char *)x->o->t.data + (size_t)i * bytes;
        x->sums[i] += tcc_is_float(d) ? tcc_load_f64(d, from) : (double)tcc_load_i64(d, from);
        double v = o->how == TCC_COMBINE_MEAN ? x->sums[i] / r->p->micros : x->sums[i];
        if (x->seen < r->p->micros)
            continue;
        if (tcc_is_float(d))
            tcc_store_f64(d, to, v);
        else
            tcc_store_i64(d, to, (int64_t)v);
    }
    return TCC_OK;
}

static int append(struct staged_run *r, const struct kn_stage_output *o, struct result *x, const struct tcc_tensor *t,
                  int micro)
{
    bool stack = o->how == TCC_COMBINE_STACK;
    int64_t dims[TCC_MAX_RANK];
    if (t->rank + stack > TCC_MAX_RANK || (!stack && t->rank <= o->axis))
        return it_error(&r->it, NULL, TCC_EINPUT, "output '%s' cannot be put together", o->name);
    dims[0] = 1;
    memcpy(dims + stack, t->dims, (size_t)t->rank * sizeof *dims);
    dims[stack ? 0 : o->axis] *= r->p->micros;
    if (!x->o && !(x->o = tccrt_object_tensor(t->dtype, t->rank + stack, dims)))
        return no_memory(r);
    if (memcmp(x->o->t.dims, dims, (size_t)(t->rank + stack) * sizeof *dims))
        return it_error(&r->it, NULL, TCC_EINPUT, "output '%s' changes its shape between microbatches", o->name);
    copy_part(&x->o->t, t, stack ? 0 : o->axis, micro, true);
    return TCC_OK;
}

static int run_step(struct staged_run *r, int stage, const struct kn_step *t)
{
    switch (t->kind) {
    case TCC_STEP_CALL: return run_call(r, stage, t);
    case TCC_STEP_SEND: return post(r, stage, t);
    case TCC_STEP_RECV: return pick_up(r, stage, t);
    case TCC_STEP_COLLECTIVE: return gather(r, stage, t);
    default: break;
    }
    const struct kn_stage_output *o = &r->p->outputs[t->what];
    const struct tcc_tensor *x = &slot(r, stage, t->args[0], t->micro)->t;
    bool adds = o->how == TCC_COMBINE_MEAN || o->how == TCC_COMBINE_SUM;
    return adds ? add(r, o, &r->results[t->what], x) : append(r, o, &r->results[t->what], x, t->micro);
}

/* The verifier has seen that they come to their ends. */
static int run_stages(struct staged_run *r)
{
    int status = AGAIN;
    for (bool moved = true; status == AGAIN && moved;) {
        status = TCC_OK;
        moved = false;
        for (int s = 0; s < r->p->stages; s++) {
            int now = TCC_OK;
            while (now == TCC_OK && r->at[s] < r->p->lists[s].n)
                if ((now = run_step(r, s, &r->p->lists[s].at[r->at[s]])) == TCC_OK) {
                    r->at[s]++;
                    moved = true;
                }
            if (now != TCC_OK && now != AGAIN)
                return now;
            status = now == AGAIN ? AGAIN : status;
        }
    }
    if (status == AGAIN)
        return it_error(&r->it, NULL, TCC_EBUG, "the stages wait for each other");
    for (int i = 0; i < r->p->lists[r->p->stages].n && !status; i++)
        status = run_call(r, 0, &r->p->lists[r->p->stages].at[i]);
    return status;
}

/* == A run == */

/* Gradients begin at zero, unless they go on from those of earlier calls. */
static void begin_gradients(struct staged_run *r)
{
    if (!r->p->accumulates || !r->it.state || (r->p->counter && it_position(r->it.state, r->p->counter)))
        return;
    for (const struct ir_state *s = r->m->states; s; s = s->next)
        if (s->flags & IR_STATE_GRADIENT) {
            ir_tensor_unref(r->it.state->values[s->index]);
            r->it.state->values[s->index] = NULL;
        }
}

static size_t messages(const struct staged_run *r)
{
    return (size_t)r->p->nbuffers * (size_t)r->p->micros * (size_t)r->p->stages;
}

static bool prepare(struct staged_run *r)
{
    const struct kn_staged *p = r->p;
    size_t stages = (size_t)p->stages;
    if (!(r->first_slot = calloc((size_t)p->nbuffers + 1, sizeof *r->first_slot)))
        return false;
    for (int v = 0; v < p->nbuffers; v++) {
        r->first_slot[v] = r->nslots;
        r->nslots += p->buffers[v].space == TCC_SPACE_SLOT ? p->buffers[v].index : 0;
    }
    r->slots = calloc(stages * (size_t)r->nslots + 1, sizeof *r->slots);
    r->mail = calloc(messages(r) + 1, sizeof *r->mail);
    r->at = calloc(stages, sizeof *r->at);
    r->given = calloc(stages, sizeof *r->given);
    r->gathered = calloc(stages, sizeof *r->gathered);
    r->results = calloc((size_t)p->noutputs + 1, sizeof *r->results);
    return it_prepare_syms(&r->it, r->m->ctx) && r->slots && r->mail && r->at && r->given && r->gathered && r->results;
}

static void drop(struct tcc_object *o)
{
    if (o)
        tccrt_object_unref(o);
}

static void finish(struct staged_run *r)
{
    for (size_t i = 0; r->slots && i < (size_t)r->p->stages * (size_t)r->nslots; i++)
        drop(r->slots[i]);
    for (int s = 0; r->given && s < r->p->stages; s++)
        drop(r->given[s]);
    for (int o = 0; r->results && o < r->p->noutputs; o++) {
        drop(r->results[o].o);
        free(r->results[o].sums);
    }
    for (size_t i = 0; r->mail && i < messages(r); i++)
        drop(r->mail[i]);
    free(r->mail);
    free(r->slots);
    free(r->first_slot);
    free(r->at);
    free(r->given);
    free(r->gathered);
    free(r->results);
    free(r->it.syms);
}

static int run_staged(struct staged_run *r)
{
    int status = TCC_OK;
    for (int l = 0; l <= r->p->stages; l++)
        for (int i = 0; i < r->p->lists[l].n; i++)
            if (r->p->lists[l].at[i].kind == TCC_STEP_CALL && !r->p->lists[l].at[i].func)
                return it_error(&r->it, NULL, TCC_EUSAGE,
                                "@%s is no function of the module: a plan by itself is not interpreted",
                                r->p->lists[l].at[i].lib);
    for (int i = 0; i < r->p->ninputs && !status; i++)
        status = check_input(r, i);
    if (!status)
        status = bind_symbols(r);
    if (!status)
        begin_gradients(r);
    return status ? status : run_stages(r);
}

int ir_interp_staged(const struct ir_module *m, const struct kn_staged *p, struct ir_interp_state *state,
                     struct tcc_object *const *in, struct tcc_object **out, char *error, size_t error_size)
{
    struct staged_run r = {.it = {.state = state, .error = error, .error_size = error_size}, .m = m, .p = p, .in = in};
    struct ir_tensor **saved = NULL;
    if (error_size)
        error[0] = 0;
    r.runs = state ? state->step : 0;
    int status = prepare(&r) && it_save_state(&r.it, &saved) ? TCC_OK : no_memory(&r);
    if (!status)
        status = run_staged(&r);
    for (int k = 0; k < p->noutputs && !status; k++) {
        out[k] = r.results[k].o;
        r.results[k].o = NULL;
    }
    it_settle_state(&r.it, saved, status != TCC_OK);
    if (state)
        state->step = r.runs + !status;
    finish(&r);
    return status;
}
