/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipe.c - runs a pipeline (pipe.h) in one process by the reference interpreter: all stages in turn, each until it
 * waits for what another has not sent yet. Slots, messages, outputs and state follow runtime/pipe.c, whose oracle this
 * is: microbatch m of run r counts as run r * micros + m for random numbers; gradients begin at zero; means and sums
 * over microbatches are kept in float64.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp_int.h"
#include "ir/ir_int.h"

enum { AGAIN = -1 }; /* not yet: another stage comes first */

struct letter {
    int value, micro, to;
    struct tcc_object *o;
    struct letter *next;
};

struct result {
    double *sums; /* MEAN, SUM */
    int seen;     /* microbatches */
    struct tcc_object *o;
};

struct pipe_run {
    struct interp it; /* symbols, and where messages go */
    const struct ir_module *m;
    const struct pipe *p;
    struct tcc_object *const *in;
    struct tcc_object **slots; /* by stage and slot */
    int *first_slot;           /* by value */
    int nslots;
    int *at;                   /* by stage: its next task */
    struct tcc_object **given; /* by stage: to the gather that it stands at */
    bool *gathered;            /* by stage: it has everyone's */
    struct letter *mail;
    struct result *results;
    uint64_t runs; /* ended before this one */
};

static int no_memory(struct pipe_run *r)
{
    return it_error(&r->it, NULL, TCC_EENV, "no memory");
}

/* == Symbols and inputs == */

static int wrong_input(struct pipe_run *r, int i, const char *what)
{
    return it_error(&r->it, NULL, TCC_EINPUT, "input '%s': %s", r->p->inputs[i].name, what);
}

/* Dim d of the input's microbatch. */
static int64_t micro_dim(const struct pipe_run *r, int i, int d)
{
    int64_t n = r->in[i]->t.dims[d];
    return d == r->p->inputs[i].axis ? n / r->p->micros : n;
}

static int check_input(struct pipe_run *r, int i)
{
    const struct pipe_input *x = &r->p->inputs[i];
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
static int bind_symbols(struct pipe_run *r)
{
    const struct pipe *p = r->p;
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
static struct tcc_object *operand(struct pipe_run *r, int stage, int value, int micro)
{
    const struct pipe_value *v = &r->p->values[value];
    int64_t dims[TCC_MAX_RANK] = {0};
    if (v->space == TCC_PIPE_SLOT)
        return tccrt_object_ref(r->slots[stage * r->nslots + r->first_slot[value] + micro % v->slots]);
    if (v->space == TCC_PIPE_INPUT && r->p->inputs[v->input].axis < 0)
        return tccrt_object_ref(r->in[v->input]);
    for (int d = 0; d < v->type->rank; d++) {
        if (v->space == TCC_PIPE_INPUT)
            dims[d] = micro_dim(r, v->input, d);
        else if (!it_eval(&r->it, v->type->dim[d], &dims[d]))
            return NULL;
    }
    struct tcc_object *o = tccrt_object_tensor(v->type->dtype, v->type->rank, dims);
    if (o && v->space == TCC_PIPE_INPUT)
        copy_part(&r->in[v->input]->t, &o->t, r->p->inputs[v->input].axis, micro, false);
    return o;
}

/* == Tasks == */

static void put(struct pipe_run *r, int stage, int value, int micro, struct tcc_object *o)
{
    struct tcc_object **slot = &r->slots[stage * r->nslots + r->first_slot[value] + micro % r->p->values[value].slots];
    if (*slot)
        tccrt_object_unref(*slot);
    *slot = o;
}

static struct tcc_object *slot(const struct pipe_run *r, int stage, int value, int micro)
{
    return r->slots[stage * r->nslots + r->first_slot[value] + micro % r->p->values[value].slots];
}

static int run_call(struct pipe_run *r, int stage, const struct pipe_call *c, int micro)
{
    struct tcc_object **in = calloc((size_t)c->nin + 1, sizeof *in), **out = calloc((size_t)c->nout + 1, sizeof *out);
    int status = in && out ? TCC_OK : no_memory(r);
    char text[256];
    for (int i = 0; i < c->nin && !status; i++)
        if (!(in[i] = operand(r, stage, c->in[i], micro)))
            status = no_memory(r);
    if (!status) {
        if (r->it.state)
            r->it.state->step = r->runs * (uint64_t)r->p->micros + (uint64_t)micro;
        status = ir_interp(c->func, r->it.state, in, out, r->it.error, r->it.error_size);
        if (status) {
            snprintf(text, sizeof text, "%s", r->it.error_size ? r->it.error : "");
            if (r->it.error_size)
                snprintf(r->it.error, r->it.error_size, "@%s, microbatch %d: %s", c->name, micro, text);
        }
    }
    for (int i = 0; i < c->nout && !status; i++)
        put(r, stage, c->out[i], micro, out[i]);
    for (int i = 0; in && i < c->nin; i++)
        if (in[i])
            tccrt_object_unref(in[i]);
    free(in);
    free(out);
    return status;
}

static int post(struct pipe_run *r, int stage, const struct pipe_task *t)
{
    struct letter *m = calloc(1, sizeof *m), **end = &r->mail;
    if (!m)
        return no_memory(r);
    *m = (struct letter){t->what, t->micro, t->peer, tccrt_object_ref(slot(r, stage, t->what, t->micro)), NULL};
    while (*end)
        end = &(*end)->next;
    *end = m;
    return TCC_OK;
}

static int pick_up(struct pipe_run *r, int stage, const struct pipe_task *t)
{
    for (struct letter **at = &r->mail; *at; at = &(*at)->next) {
        struct letter *m = *at;
        if (m->value != t->what || m->micro != t->micro || m->to != stage)
            continue;
        put(r, stage, t->what, t->micro, m->o);
        *at = m->next;
        free(m);
        return TCC_OK;
    }
    return AGAIN;
}

/* All stages' tensors, stacked; the last stage that comes gives it to all. */
static int gather(struct pipe_run *r, int stage, const struct pipe_task *t)
{
    const struct tcc_tensor *own = &slot(r, stage, t->what, 0)->t;
    int64_t dims[TCC_MAX_RANK] = {r->p->stages};
    if (r->gathered[stage]) {
        r->gathered[stage] = false;
        return TCC_OK;
    }
    if (!r->given[stage])
        r->given[stage] = tccrt_object_ref(slot(r, stage, t->what, 0));
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
        put(r, s, t->peer, 0, tccrt_object_ref(all));
    }
    tccrt_object_unref(all);
    return TCC_OK;
}

static int add(struct pipe_run *r, const struct pipe_output *o, struct result *x, const struct tcc_tensor *t)
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
        double v = o->how == TCC_PIPE_MEAN ? x->sums[i] / r->p->micros : x->sums[i];
        if (x->seen < r->p->micros)
            continue;
        if (tcc_is_float(d))
            tcc_store_f64(d, to, v);
        else
            tcc_store_i64(d, to, (int64_t)v);
    }
    return TCC_OK;
}

static int append(struct pipe_run *r, const struct pipe_output *o, struct result *x, const struct tcc_tensor *t,
                  int micro)
{
    bool stack = o->how == TCC_PIPE_STACK;
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

static int run_task(struct pipe_run *r, int stage, const struct pipe_task *t)
{
    switch (t->kind) {
    case TCC_TASK_CALL: return run_call(r, stage, &r->p->calls[t->what], t->micro);
    case TCC_TASK_SEND: return post(r, stage, t);
    case TCC_TASK_RECV: return pick_up(r, stage, t);
    case TCC_TASK_GATHER: return gather(r, stage, t);
    default: break;
    }
    const struct pipe_output *o = &r->p->outputs[t->what];
    const struct tcc_tensor *x = &slot(r, stage, o->value, t->micro)->t;
    bool adds = o->how == TCC_PIPE_MEAN || o->how == TCC_PIPE_SUM;
    return adds ? add(r, o, &r->results[t->what], x) : append(r, o, &r->results[t->what], x, t->micro);
}

/* The verifier has seen that they come to their ends. */
static int run_stages(struct pipe_run *r)
{
    int status = AGAIN;
    for (bool moved = true; status == AGAIN && moved;) {
        status = TCC_OK;
        moved = false;
        for (int s = 0; s < r->p->stages; s++) {
            int now = TCC_OK;
            while (now == TCC_OK && r->at[s] < r->p->tasks[s].n)
                if ((now = run_task(r, s, &r->p->tasks[s].at[r->at[s]])) == TCC_OK) {
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
    return status || r->p->last < 0 ? status : run_call(r, 0, &r->p->calls[r->p->last], 0);
}

/* == A run == */

/* Gradients begin at zero, unless they go on from those of earlier calls. */
static void begin_gradients(struct pipe_run *r)
{
    if (!r->p->accumulates || !r->it.state || (r->p->counter && it_position(r->it.state, r->p->counter)))
        return;
    for (const struct ir_state *s = r->m->states; s; s = s->next)
        if (s->flags & IR_STATE_GRADIENT) {
            ir_tensor_unref(r->it.state->values[s->index]);
            r->it.state->values[s->index] = NULL;
        }
}

static bool prepare(struct pipe_run *r)
{
    const struct pipe *p = r->p;
    size_t stages = (size_t)p->stages;
    if (!(r->first_slot = calloc((size_t)p->nvalues + 1, sizeof *r->first_slot)))
        return false;
    for (int v = 0; v < p->nvalues; v++) {
        r->first_slot[v] = r->nslots;
        r->nslots += p->values[v].space == TCC_PIPE_SLOT ? p->values[v].slots : 0;
    }
    r->slots = calloc(stages * (size_t)r->nslots + 1, sizeof *r->slots);
    r->at = calloc(stages, sizeof *r->at);
    r->given = calloc(stages, sizeof *r->given);
    r->gathered = calloc(stages, sizeof *r->gathered);
    r->results = calloc((size_t)p->noutputs + 1, sizeof *r->results);
    return it_prepare_syms(&r->it, r->m->ctx) && r->slots && r->at && r->given && r->gathered && r->results;
}

static void drop(struct tcc_object *o)
{
    if (o)
        tccrt_object_unref(o);
}

static void finish(struct pipe_run *r)
{
    for (size_t i = 0; r->slots && i < (size_t)r->p->stages * (size_t)r->nslots; i++)
        drop(r->slots[i]);
    for (int s = 0; r->given && s < r->p->stages; s++)
        drop(r->given[s]);
    for (int o = 0; r->results && o < r->p->noutputs; o++) {
        drop(r->results[o].o);
        free(r->results[o].sums);
    }
    for (struct letter *m = r->mail, *next; m; m = next) {
        next = m->next;
        tccrt_object_unref(m->o);
        free(m);
    }
    free(r->slots);
    free(r->first_slot);
    free(r->at);
    free(r->given);
    free(r->gathered);
    free(r->results);
    free(r->it.syms);
}

static int run_pipe(struct pipe_run *r)
{
    int status = TCC_OK;
    for (int c = 0; c < r->p->ncalls; c++)
        if (!r->p->calls[c].func)
            return it_error(&r->it, NULL, TCC_EUSAGE,
                            "@%s is no function of the module: a plan by itself is not interpreted",
                            r->p->calls[c].name);
    for (int i = 0; i < r->p->ninputs && !status; i++)
        status = check_input(r, i);
    if (!status)
        status = bind_symbols(r);
    if (!status)
        begin_gradients(r);
    return status ? status : run_stages(r);
}

int ir_interp_pipe(const struct ir_module *m, const struct pipe *p, struct ir_interp_state *state,
                   struct tcc_object *const *in, struct tcc_object **out, char *error, size_t error_size)
{
    struct pipe_run r = {.it = {.state = state, .error = error, .error_size = error_size}, .m = m, .p = p, .in = in};
    struct ir_tensor **saved = NULL;
    if (error_size)
        error[0] = 0;
    r.runs = state ? state->step : 0;
    int status = prepare(&r) && it_save_state(&r.it, &saved) ? TCC_OK : no_memory(&r);
    if (!status)
        status = run_pipe(&r);
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
