/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - executions, one after the other on a thread of the context's, and step closures on another.
 *
 * The context's own thread prepares a run (memory of inputs, results and state; references to it), hands it over and
 * goes on recording; when the run has ended it lets go of the memory (reap). Reference counts are that thread's
 * alone. The runner binds, runs, and copies what closures want before the next run may write there. On a device a run
 * stays under way until the next one has begun behind it, where it can, or somebody waits. After a failure
 * nothing is run until the context's thread has seen it: then every tensor goes back to what it was, newest run
 * first.
 */
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

#define MOST_WAITING 2 /* runs handed over and not ended */

/* -- Freeing ------------------------------------------------------------------------------------------------ */

static void call_free(struct trace_call *k)
{
    for (int i = 0; k->values && i < k->n; i++)
        free(k->values[i].data);
    free(k->values);
    free(k->tensors);
    free(k->from);
    free(k);
}

/* The context's thread: lets go of tensors and memory. The runner's part may be on its way already. */
static void call_release(struct trace_call *k)
{
    for (int i = 0; i < k->n; i++) {
        if (k->from)
            trace_data_unref(k->from[i]);
        if (k->tensors && k->tensors[i]) {
            k->tensors[i]->holds--;
            trace_tensor_drop(k->tensors[i]);
        }
    }
}

void trace_calls_free(struct trace_call *calls)
{
    for (struct trace_call *next; calls; calls = next) {
        next = calls->next;
        call_release(calls);
        call_free(calls);
    }
}

void trace_run_free(struct trace_run *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->nheld; i++)
        trace_data_unref(r->held[i]);
    for (int i = 0; i < r->nundo; i++) {
        trace_data_unref(r->undo[i].before);
        trace_data_unref(r->undo[i].now);
        r->undo[i].t->holds--;
        trace_tensor_drop(r->undo[i].t);
    }
    trace_calls_free(r->calls);
    free(r->in);
    free(r->out);
    free(r->states);
    free(r->in_data);
    free(r->state_data);
    free(r->held);
    free(r->undo);
    free(r);
}

/* -- The runner's side ----------------------------------------------------------------------------------------- */

static int run_here(struct trace_run *r)
{
    const struct trace_compiled *g = r->compiled;
    int status = TCC_OK;
    for (int i = 0; i < r->nstates && !status; i++)
        if (g->states[i] >= 0)
            status = tccrt_state_bind(g->session, g->states[i], &r->states[i]);
    tccrt_random_set(g->session, r->seed, r->count);
    return status ? status : tccrt_run(g->session, "main", r->nin, r->in, r->nout, r->out);
}

static void settled(struct trace_ctx *c, struct trace_run *r, int status)
{
    r->status = status;
    if (status) {
        snprintf(r->error, sizeof r->error, "%s", tccrt_error());
        trace_tell_failure(c, r->error);
    }
}

/* What the closure gets; false: no memory. */
static bool copy_values(struct trace_call *k)
{
    k->values = calloc((size_t)k->n + 1, sizeof *k->values);
    for (int i = 0; k->values && i < k->n; i++) {
        const struct tcc_tensor *t = &k->from[i]->o->t;
        size_t bytes = trace_host_bytes(t);
        if (!trace_host(k->from[i]))
            return false;
        k->values[i] = *t;
        k->values[i].data = malloc(bytes + 1);
        if (!k->values[i].data)
            return false;
        memcpy(k->values[i].data, t->data, bytes);
    }
    return k->values != NULL;
}

/* The closure as the caller gets it: with copies only. */
static struct trace_call *detach_call(struct trace_call *k)
{
    struct trace_call *own = calloc(1, sizeof *own);
    if (!own || !copy_values(k)) {
        free(own);
        return NULL;
    }
    *own = (struct trace_call){.fn = k->fn, .user = k->user, .n = k->n, .values = k->values};
    k->values = NULL;
    return own;
}

static void send_calls(struct trace_executor *e, struct trace_run *r)
{
    for (struct trace_call *k = r->calls; k && !r->status; k = k->next) {
        struct trace_call *own = detach_call(k);
        if (!own) {
            r->status = TCC_EENV;
            snprintf(r->error, sizeof r->error, "no memory for a step closure");
            return;
        }
        pthread_mutex_lock(&e->lock);
        struct trace_call **at = &e->calls;
        while (*at)
            at = &(*at)->next;
        *at = own;
        e->calling++;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
    }
}

/* Waits for a run that is under way. */
static void end_run(struct trace_ctx *c, struct trace_run *r, bool followed)
{
    if (r->under_way)
        settled(c, r, trace_device_end(r, followed));
    if (!r->status)
        send_calls(&c->executor, r);
}

/* Begins a run, behind the one that is under way if there is one, and ends that. */
static void begin_run(struct trace_ctx *c, struct trace_run *r, struct trace_run *before)
{
    if (r && r->compiled)
        settled(c, r, c->discrete ? trace_device_begin(c, r, before) : run_here(r));
    if (!before)
        return;
    end_run(c, before, r && r->under_way);
    if (r && r->status && !before->status && trace_device_faulted(before)) { /* heard of too early */
        before->status = r->status;
        memcpy(before->error, r->error, sizeof r->error);
    }
    if (r && before->status) { /* it did nothing */
        if (r->under_way)
            trace_device_end(r, false);
        r->status = -1;
    }
}

/* Under the lock. */
static void hand_back(struct trace_executor *e, struct trace_run *r)
{
    struct trace_run **at = &e->done;
    e->failed |= r->status != TCC_OK;
    while (*at)
        at = &(*at)->next;
    *at = r;
    e->running--;
    pthread_cond_broadcast(&e->changed);
}

/* Under the lock: the next run, if it may begin now. */
static struct trace_run *take(struct trace_executor *e, const struct trace_run *under_way)
{
    struct trace_run *r = e->todo;
    if (!r || (under_way && (e->failed || under_way->calls || !trace_device_follows(under_way, r))))
        return NULL;
    e->todo = r->next;
    r->next = NULL;
    e->ahead += under_way != NULL;
    return r;
}

/* Nothing to do: no run, and the one that is under way may stay so. Other processes don't wait for that. */
static bool is_idle(const struct trace_ctx *c, const struct trace_run *under_way)
{
    const struct trace_executor *e = &c->executor;
    return !e->todo && !e->quit && (!under_way || (!e->wanted && !under_way->calls && !c->world));
}

/* Under the lock. */
static void begun(struct trace_executor *e)
{
    e->begun++;
    pthread_cond_broadcast(&e->changed);
}

static void *runner(void *arg)
{
    struct trace_ctx *c = arg;
    struct trace_executor *e = &c->executor;
    struct trace_run *under_way = NULL;
    pthread_mutex_lock(&e->lock);
    begun(e);
    while (!e->quit || e->todo || under_way) {
        struct trace_run *before = under_way, *r = take(e, before);
        if (!r && is_idle(c, before)) {
            pthread_cond_wait(&e->changed, &e->lock);
            continue;
        }
        bool skip = e->failed;
        pthread_mutex_unlock(&e->lock);
        if (r && skip)
            r->status = -1;
        else
            begin_run(c, r, before);
        under_way = r && r->under_way ? r : NULL;
        if (r && !under_way && !r->status)
            send_calls(e, r);
        pthread_mutex_lock(&e->lock);
        if (before)
            hand_back(e, before);
        if (r && !under_way)
            hand_back(e, r);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static void *caller(void *arg)
{
    struct trace_executor *e = arg;
    pthread_mutex_lock(&e->lock);
    begun(e);
    for (;;) {
        while (!e->calls && !(e->quit && !e->running))
            pthread_cond_wait(&e->changed, &e->lock);
        struct trace_call *k = e->calls;
        if (!k)
            break;
        e->calls = k->next;
        pthread_mutex_unlock(&e->lock);
        k->fn(k->user, k->n, k->values);
        call_free(k);
        pthread_mutex_lock(&e->lock);
        e->calling--;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* -- The context's side ------------------------------------------------------------------------------------------ */

bool trace_executor_init(struct trace_ctx *c)
{
    struct trace_executor *e = &c->executor;
    if (pthread_mutex_init(&e->lock, NULL))
        return false;
    if (pthread_cond_init(&e->changed, NULL) == 0)
        return true;
    pthread_mutex_destroy(&e->lock);
    return false;
}

static bool start_threads(struct trace_ctx *c)
{
    struct trace_executor *e = &c->executor;
    if (e->started)
        return true;
    if (pthread_create(&e->runner, NULL, runner, c))
        return false;
    if (pthread_create(&e->caller, NULL, caller, e)) {
        pthread_mutex_lock(&e->lock);
        e->quit = true;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->runner, NULL);
        e->quit = false;
        e->begun = 0;
        return false;
    }
    e->started = true;
    pthread_mutex_lock(&e->lock); /* the compiler may fork next: no thread is to be half begun then */
    while (e->begun < 2)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    return true;
}

/* A run that failed, or was not run: its tensors are what they were. */
static void undo(const struct trace_run *r)
{
    for (int i = 0; i < r->nundo; i++) {
        struct trace_tensor *t = r->undo[i].t;
        if (t->assigned && t->before == r->undo[i].now)
            trace_hold(&t->before, r->undo[i].before);
        else if (t->data == r->undo[i].now)
            trace_hold(&t->data, r->undo[i].before);
    }
}

/* All runs have ended, `done` among them one that failed. */
static void undo_all(struct trace_ctx *c, struct trace_run *done)
{
    struct trace_run *newest = NULL;
    bool bad = false;
    for (struct trace_run *r = done, *next; r; r = next) {
        next = r->next;
        if (r->status && !bad)
            trace_fail(c, r->status, "%s", r->error);
        bad |= r->status != TCC_OK;
        c->counters.executed -= r->status && r->compiled;
        r->next = newest;
        newest = r;
    }
    for (struct trace_run *next; newest; newest = next) {
        next = newest->next;
        if (newest->status)
            undo(newest);
        trace_run_free(newest);
    }
}

void trace_reap(struct trace_ctx *c, bool wait)
{
    struct trace_executor *e = &c->executor;
    if (!e->started)
        return;
    pthread_mutex_lock(&e->lock);
    e->wanted = wait || e->failed;
    pthread_cond_broadcast(&e->changed);
    while ((wait || e->failed) && (e->running || (wait && e->calling)))
        pthread_cond_wait(&e->changed, &e->lock);
    struct trace_run *done = e->done;
    bool failed = e->failed;
    e->wanted = false;
    e->done = NULL;
    e->failed = false;
    pthread_mutex_unlock(&e->lock);
    if (failed) {
        undo_all(c, done);
        return;
    }
    for (struct trace_run *next; done; done = next) {
        next = done->next;
        c->counters.modelled += done->modelled;
        trace_run_free(done);
    }
}

void trace_run_start(struct trace_ctx *c, struct trace_run *r)
{
    struct trace_executor *e = &c->executor;
    if (!start_threads(c)) {
        undo(r);
        trace_run_free(r);
        trace_fail(c, TCC_EENV, "cannot start a thread");
        return;
    }
    pthread_mutex_lock(&e->lock);
    while (e->running >= MOST_WAITING)
        pthread_cond_wait(&e->changed, &e->lock);
    struct trace_run **at = &e->todo;
    while (*at)
        at = &(*at)->next;
    *at = r;
    e->running++;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

void trace_executor_end(struct trace_ctx *c)
{
    struct trace_executor *e = &c->executor;
    if (e->started) {
        trace_reap(c, true);
        pthread_mutex_lock(&e->lock);
        e->quit = true;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->runner, NULL);
        pthread_join(e->caller, NULL);
    }
}

void trace_executor_free(struct trace_ctx *c)
{
    pthread_cond_destroy(&c->executor.changed);
    pthread_mutex_destroy(&c->executor.lock);
}

int trace_step_closure(struct trace_ctx *c, trace_closure fn, void *user, int n, struct trace_tensor *const *tensors)
{
    if (c->status)
        return c->status;
    struct trace_call *k = calloc(1, sizeof *k), **at = &c->calls;
    if (k) {
        *k = (struct trace_call){.fn = fn, .user = user};
        k->tensors = calloc((size_t)n + 1, sizeof(void *));
        k->from = calloc((size_t)n + 1, sizeof(void *));
    }
    if (!k || !k->tensors || !k->from) {
        if (k)
            call_free(k);
        return trace_no_memory(c);
    }
    for (int i = 0; i < n; i++) {
        if (!tensors[i] || tensors[i]->c != c || !trace_alive(tensors[i])) {
            trace_calls_free(k);
            return trace_fail(c, TCC_EUSAGE, "step_closure: tensor %d is none of this context", i);
        }
        k->tensors[k->n++] = tensors[i];
        tensors[i]->holds++;
    }
    while (*at)
        at = &(*at)->next;
    *at = k;
    return TCC_OK;
}
