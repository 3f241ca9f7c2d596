/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush.c - the end of a graph: which results it must give, which of them replace an input in its own memory, and
 * handing it over to be run.
 *
 * A tensor that was assigned (an optimizer's parameter) and whose old data nobody else holds donates that data: the
 * input becomes a state variable of the compiled graph, bound to that memory, and the new value is written there.
 * Compiled code updates state behind whatever may fail, so a step that fails leaves it as it was.
 */
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

/* -- Which results ------------------------------------------------------------------------------------------ */

static bool in_closure(const struct trace_ctx *c, const struct trace_tensor *t)
{
    for (const struct trace_call *k = c->calls; k; k = k->next)
        for (int i = 0; i < k->n; i++)
            if (k->tensors[i] == t)
                return true;
    return false;
}

static bool needed(const struct trace_tensor *t, const struct trace_tensor *want)
{
    return trace_is_pending(t) && (t == want || t->refs || !ir_has_uses(t->value) || (t->holds && in_closure(t->c, t)));
}

/* Gradients that an optimizer has used are kept for nobody but the caller. */
static void drop_used_grads(struct trace_ctx *c)
{
    for (struct trace_tensor *t = c->tensors; t; t = t->next)
        if (t->grad && t->used_grad)
            trace_forget_grad(t);
}

/* Values that tensors need, each once; inputs of the graph are there already. */
static void collect(struct trace_ctx *c, const struct trace_tensor *want, struct trace_results *r)
{
    struct ir_ctx *ctx = c->graph.ctx;
    uint32_t nvalues = c->graph.func->nvalues;
    int n = 0;
    for (struct trace_tensor *t = c->tensors; t; t = t->next)
        n += needed(t, want);
    r->values = IR_NEWN(ctx, (size_t)n + 1, struct ir_value *);
    r->data = IR_NEWN(ctx, (size_t)n + 1, struct trace_data *);
    r->donors = IR_NEWN(ctx, (size_t)n + 1, int);
    r->index = IR_NEWN(ctx, nvalues + 1, int);
    r->skip = IR_NEWN(ctx, (size_t)n + 1, bool);
    r->gone = IR_NEWN(ctx, (size_t)c->graph.ninputs + 1, bool);
    for (uint32_t i = 0; i < nvalues; i++)
        r->index[i] = -1;
    for (int i = 0; i < c->graph.ninputs; i++)
        r->index[c->graph.func->body->params[i]->id] = i;
    for (struct trace_tensor *t = c->tensors; t; t = t->next) {
        if (trace_is_pending(t) && !t->value->def) {
            c->graph.inputs[t->value->index]->alias = true;
            continue;
        }
        if (!needed(t, want))
            continue;
        if (r->index[t->value->id] < 0) {
            r->index[t->value->id] = r->n;
            r->donors[r->n] = -1;
            r->values[r->n++] = t->value;
        }
    }
}

/* The assigned tensors' own memory, where that may be; new memory for the rest. */
static bool allocate(struct trace_ctx *c, struct trace_results *r)
{
    int64_t dims[TCC_MAX_RANK];
    for (struct trace_tensor *t = c->tensors; t; t = t->next) {
        struct trace_data *d = t->assigned ? t->before : NULL;
        int i = trace_is_pending(t) && t->value->def ? r->index[t->value->id] : -1;
        if (!d || i < 0 || r->data[i] || d->owners != 1 || d->generation != c->generation || d->alias)
            continue;
        r->data[i] = trace_data_ref(d);
        r->donors[i] = d->input;
    }
    for (int i = 0; i < r->n; i++) {
        ir_type type = r->values[i]->type;
        ir_static_dims(type, dims);
        if (!r->data[i] && !(r->data[i] = trace_data_new(type->dtype, type->rank, dims)))
            trace_no_memory(c);
    }
    return !c->status;
}

/* -- The execution ----------------------------------------------------------------------------------------------- */

static void hold(struct trace_run *r, struct trace_data *d)
{
    r->held[r->nheld++] = trace_data_ref(d);
}

static struct trace_run *run_new(struct trace_ctx *c, const struct trace_results *r)
{
    const struct trace_graph *g = &c->graph;
    size_t n = (size_t)(g->ninputs + r->n + 1);
    struct trace_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->in = calloc(n, sizeof *run->in);
    run->out = calloc(n, sizeof *run->out);
    run->states = calloc(n, sizeof *run->states);
    run->held = calloc(n, sizeof(void *));
    run->in_data = calloc(n, sizeof(void *));
    run->state_data = calloc(n, sizeof(void *));
    if (run->in && run->out && run->states && run->held && run->in_data && run->state_data)
        return run;
    trace_run_free(run);
    return NULL;
}

/* Inputs that are left, in order; results without and with a donor, each in their order: what compiled graphs expect.
 * */
static void fill_run(struct trace_ctx *c, const struct trace_results *r, struct trace_run *run)
{
    const struct trace_graph *g = &c->graph;
    bool *given = IR_NEWN(g->ctx, (size_t)g->ninputs + 1, bool);
    for (int i = 0; i < r->n; i++) {
        hold(run, r->data[i]);
        if (r->skip[i])
            continue;
        if (r->donors[i] < 0) {
            run->out[run->nout++] = r->data[i]->o->t;
        } else {
            run->state_data[run->nstates] = r->data[i];
            run->states[run->nstates++] = r->data[i]->o->t;
            given[r->donors[i]] = true;
        }
    }
    for (int i = 0; i < g->ninputs; i++)
        if (!given[i] && !r->gone[i]) {
            hold(run, g->inputs[i]);
            run->in_data[run->nin] = g->inputs[i];
            run->in[run->nin++] = g->inputs[i]->o->t;
        }
    run->count = trace_runs(c);
    run->seed = c->seed + c->run_seed;
}

/* -- Handing out --------------------------------------------------------------------------------------------------- */

/* The data that a tensor gets; NULL: it was inside the graph only. */
static struct trace_data *data_for(struct trace_ctx *c, const struct trace_results *r, const struct trace_tensor *t,
                                   struct trace_data **made)
{
    const struct trace_graph *g = &c->graph;
    uint32_t id = t->value->id;
    *made = NULL;
    if (!t->value->def) /* compiling may have moved it */
        return g->inputs[r->index[id]];
    if (c->mode == TRACE_EAGER) {
        struct tcc_object *o = id < g->neager ? g->eager[id] : NULL;
        return *made = o ? trace_data_of(tccrt_object_ref(o)) : NULL;
    }
    return r->index && r->index[id] >= 0 ? r->data[r->index[id]] : NULL;
}

static void hand_out(struct trace_ctx *c, const struct trace_results *r, struct trace_run *run)
{
    for (struct trace_tensor *t = c->tensors; t; t = t->next) {
        struct trace_data *made, *d = trace_is_pending(t) ? data_for(c, r, t, &made) : NULL;
        if (d) {
            trace_hold(&t->data, d);
            if (run && run->undo) {
                t->holds++;
                run->undo[run->nundo++] = (struct trace_undo){
                    t, t->assigned && t->before ? trace_data_ref(t->before) : NULL, trace_data_ref(d)};
            }
            trace_data_unref(made);
        }
        t->assigned = false;
        trace_hold(&t->before, NULL);
    }
}

/* The graph can't be run: assigned tensors go back to what they were. */
static void take_back(struct trace_ctx *c)
{
    for (struct trace_tensor *t = c->tensors; t; t = t->next) {
        if (t->assigned)
            trace_hold(&t->data, t->before);
        else if (trace_is_pending(t))
            t->value = NULL;
        t->assigned = false;
        trace_hold(&t->before, NULL);
    }
    for (struct trace_tensor *t = c->tensors; t; t = t->next)
        if (t->grad && !t->grad->data)
            trace_forget_grad(t);
}

/* Closures' tensors have their data now. */
static void bind_calls(struct trace_ctx *c, struct trace_run *run)
{
    struct trace_call **at = &c->calls;
    while (*at) {
        struct trace_call *k = *at;
        bool ok = true;
        for (int i = 0; i < k->n; i++)
            ok &= k->tensors[i]->data && trace_is_here(k->tensors[i]);
        for (int i = 0; ok && i < k->n; i++)
            k->from[i] = trace_data_ref(k->tensors[i]->data);
        if (!ok)
            trace_fail(c, TCC_EUSAGE, "step_closure: a tensor has no value, or belongs to another stage");
        at = &k->next;
    }
    run->calls = c->calls;
    c->calls = NULL;
}

static int count_pending(const struct trace_ctx *c)
{
    int n = 0;
    for (const struct trace_tensor *t = c->tensors; t; t = t->next)
        n += trace_is_pending(t);
    return n;
}

static void start(struct trace_ctx *c, const struct trace_results *r, struct trace_compiled *compiled)
{
    struct trace_run *run = run_new(c, r);
    if (run)
        run->undo = calloc((size_t)count_pending(c) + 1, sizeof *run->undo);
    if (!run || !run->undo) {
        trace_run_free(run);
        trace_no_memory(c);
        return;
    }
    run->compiled = compiled;
    if (compiled)
        fill_run(c, r, run);
    hand_out(c, r, run);
    bind_calls(c, run);
    c->counters.executed += compiled != NULL;
    trace_run_start(c, run);
}

static void flush_graph(struct trace_ctx *c, struct trace_tensor *want)
{
    struct trace_results *r = &c->results;
    struct trace_compiled *compiled = NULL;
    if (c->graph.func)
        collect(c, want, r);
    if (c->mode == TRACE_EAGER) {
        c->counters.traced += r->n > 0;
        c->counters.executed += r->n > 0;
        r->n = 0;
    } else if (r->n || c->graph.effects) {
        c->counters.traced++;
        if (allocate(c, r) && trace_cut(c, r))
            compiled = trace_compile(c, r);
        if (!compiled)
            trace_no_memory(c); /* unless it has been said what went wrong */
    }
    if (!c->status && (compiled || c->calls))
        start(c, r, compiled);
    else if (!c->status)
        hand_out(c, r, NULL);
}

/* Also where memory ran out on the way. */
static void drop_results(struct trace_ctx *c)
{
    struct trace_results *r = &c->results;
    for (int i = 0; i < r->n; i++)
        trace_data_unref(r->data[i]);
    *r = (struct trace_results){0};
    trace_compiled_free(c->fresh);
    c->fresh = NULL;
}

int trace_flush(struct trace_ctx *c, struct trace_tensor *want)
{
    struct ir_protect frame;
    trace_reap(c, false);
    if (!c->status && !c->graph.ctx && c->calls && !(c->graph.ctx = ir_ctx_new()))
        trace_no_memory(c);
    if (c->graph.ctx && !c->status) {
        if (IR_PROTECT(c->graph.ctx, &frame)) {
            drop_used_grads(c);
            flush_graph(c, want);
            ir_unprotect(c->graph.ctx);
        } else {
            trace_no_memory(c);
        }
    }
    drop_results(c);
    if (c->status) {
        take_back(c);
        trace_calls_free(c->calls);
        c->calls = NULL;
    }
    if (c->graph.ctx)
        trace_graph_drop(c);
    return c->status;
}

int trace_report_status(struct trace_ctx *c)
{
    int status = c->status;
    c->status = TCC_OK;
    return status;
}

/* Frees what is not retained: gradients are let go first, so that freeing one tensor frees no other on the way. */
static void end_step(struct trace_ctx *c)
{
    for (struct trace_tensor *t = c->tensors; t; t = t->next)
        if (t->grad && !t->refs && !t->holds)
            trace_forget_grad(t);
    for (struct trace_tensor *t = c->tensors, *next; t; t = next) {
        next = t->next;
        t->temporary = false;
        if (!t->refs) /* an execution may hold the tensor; its data has an owner less */
            trace_hold(&t->data, NULL);
        trace_tensor_drop(t);
    }
}

int trace_mark_step(struct trace_ctx *c)
{
    trace_flush(c, NULL);
    end_step(c);
    return trace_report_status(c);
}

int trace_wait(struct trace_ctx *c)
{
    trace_reap(c, true);
    if (c->status)
        trace_flush(c, NULL); /* drops what was recorded */
    return trace_report_status(c);
}

/* The call that reads the result of an op that failed ends the step, and has the op's status. */
static int read_nothing(void)
{
    struct trace_ctx *c = trace_failed();
    if (!c)
        return TCC_EUSAGE;
    trace_flush(c, NULL);
    return trace_report_status(c);
}

/* -- Reading ------------------------------------------------------------------------------------------------------- */

/* t's data, computed. NULL: a failure, which is noted. */
static const void *data_of(struct trace_tensor *t)
{
    struct trace_ctx *c = t->c;
    if (trace_alive(t) && !c->status && trace_is_pending(t))
        trace_flush(c, t);
    trace_reap(c, true);
    if (c->status) {
        trace_flush(c, NULL);
        return NULL;
    }
    if (!t->data)
        trace_fail(c, TCC_EUSAGE, "read: tensor %s was part of a graph that has been run, and not retained",
                   t->name ? t->name : "without a name");
    else if (!trace_is_here(t))
        trace_fail(c, TCC_EUSAGE, "read: tensor %s belongs to stage %d: trace_collect() brings it to all processes",
                   t->name ? t->name : "without a name", t->data->owner_stage - 1);
    else {
        const void *data = trace_host(t->data);
        trace_random_show(t);
        if (!data)
            trace_fail(c, TCC_EENV, "read: %s", tccrt_error());
        return data;
    }
    return NULL;
}

int trace_read(struct trace_tensor *t, void *buffer, size_t bytes)
{
    if (!t)
        return read_nothing();
    const void *data = data_of(t);
    if (data && bytes != trace_bytes(t))
        trace_fail(t->c, TCC_EUSAGE, "read: the tensor has %zu bytes, the buffer %zu", trace_bytes(t), bytes);
    else if (data)
        memcpy(buffer, data, bytes);
    return trace_report_status(t->c);
}

int trace_item(struct trace_tensor *t, double *value)
{
    if (!t)
        return read_nothing();
    size_t each = (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    const void *data = data_of(t);
    if (data && trace_bytes(t) != each)
        trace_fail(t->c, TCC_EUSAGE, "item: the tensor has more than one element, or none");
    else if (data)
        *value = tcc_load_f64((enum tcc_dtype)t->dtype, data);
    return trace_report_status(t->c);
}

int trace_print(struct trace_tensor *t, FILE *to)
{
    char text[256];
    if (!t)
        return read_nothing();
    const char *data = data_of(t);
    size_t each = (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype), n = trace_bytes(t) / each;
    if (data) {
        fprintf(to, "%s%s%s", t->name ? t->name : "", t->name ? " " : "", trace_type_text(t, text, sizeof text));
        for (size_t i = 0; i < n && i < 16; i++)
            fprintf(to, " %.9g", tcc_load_f64((enum tcc_dtype)t->dtype, data + i * each));
        fprintf(to, n > 16 ? " ...\n" : "\n");
    }
    return trace_report_status(t->c);
}
