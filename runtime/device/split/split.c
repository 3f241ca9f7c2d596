/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu-split's door. What is given is checked at once: that arguments lie in the device's memory and were not freed, and
 * that whatever else has used the same bytes is waited for. Then it goes into a queue (queue.c).
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/device/split/split_int.h"
#include "base/grow.h"

#define ARENA_ROOM ((size_t)4 << 30)

static struct tcr_split *split_of(struct tcr_device *d)
{
    return (struct tcr_split *)d;
}

static int check_queue(const struct tcr_split *s, int queue)
{
    return queue >= 0 && queue < s->nqueues
               ? TCC_OK
               : tcr_fail(TCC_EBUG, "device 'cpu-split' has no queue %d: there are %d", queue, s->nqueues);
}

/* -- Memory -------------------------------------------------------------------------------------------- */

/* Memory of the card, which has been asked for it by the caller's allocator. */
static void *take(struct tcr_split *s, size_t bytes, size_t room, bool zeroed)
{
    const struct tccrt_device_allocator *a = s->allocator;
    const char *what;
    void *p, *seen;

    if (!a)
        return split_card_alloc(s->card, bytes, room, zeroed);
    bytes = TCR_ROUND(bytes ? bytes : 1);
    if (!(p = a->alloc(a->user, bytes, 0)))
        return tcr_fail(TCC_EENV, "device 'cpu-split': the caller's allocator has no memory for %zu bytes", bytes),
               NULL;
    if (!(seen = split_card_see(s->card, p, bytes, false, &what)) || (uintptr_t)p % TCR_ALIGN) {
        a->free(a->user, p, 0);
        return tcr_fail(TCC_EUSAGE,
                        "device 'cpu-split': the caller's allocator gave %s, expected %d-byte aligned memory of the "
                        "device's",
                        seen ? "another" : what, TCR_ALIGN),
               NULL;
    }
    if (zeroed)
        memset(seen, 0, bytes);
    return p;
}

void split_put(struct tcr_split *s, void *p)
{
    if (s->allocator)
        s->allocator->free(s->allocator->user, p, 0);
    else
        split_card_free(s->card, p);
}

static void *alloc(struct tcr_device *d, int queue, size_t bytes, bool zeroed)
{
    struct tcr_split *s = split_of(d);
    void *p = take(s, bytes, 0, zeroed);

    (void)queue;
    if (p && split_clock_forget(&s->clocks, p, TCR_ROUND(bytes))) {
        split_put(s, p);
        return NULL;
    }
    if (p)
        tcr_holds(d, (ptrdiff_t)(TCR_ROUND(bytes ? bytes : 1)));
    return p;
}

static void free_later(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed)
{
    struct tcr_split *s = split_of(d);
    struct split_op *op = p ? split_op_new(SPLIT_FREE, "") : NULL;

    (void)zeroed;
    if (!p)
        return;
    tcr_holds(d, -(ptrdiff_t)TCR_ROUND(bytes ? bytes : 1));
    if (!s->allocator)
        split_card_retire(s->card, p);
    if (!op)
        return; /* it stays retired until the card goes */
    op->copy = (struct tcr_copy){.to = p, .bytes = bytes};
    split_give(s, queue, op);
}

static int grow(struct tcr_device *d, void **p, size_t *held, size_t bytes)
{
    struct tcr_split *s = split_of(d);

    if (*p && *held >= bytes)
        return TCC_OK;
    if (*p && (s->allocator || !split_card_extend(s->card, *p, bytes))) {
        split_put(s, *p);
        tcr_holds(d, -(ptrdiff_t)TCR_ROUND(*held));
        *p = NULL;
        *held = 0;
    }
    if (!*p && !(*p = take(s, bytes, ARENA_ROOM, false)))
        return TCC_EENV;
    tcr_holds(d, (ptrdiff_t)(TCR_ROUND(bytes) - TCR_ROUND(*held)));
    *held = bytes;
    return TCC_OK;
}

static void release(struct tcr_device *d, void *p, size_t held)
{
    if (!p)
        return;
    tcr_holds(d, -(ptrdiff_t)TCR_ROUND(held));
    split_put(split_of(d), p);
}

static void free_weights(void *card, void *p)
{
    split_card_free(card, p);
    split_card_put(card);
}

static int weights(struct tcr_device *d, struct tccrt_model *m, const uint8_t **p)
{
    struct tcr_split *s = split_of(d);
    size_t bytes = tcr_device_weights(m);
    const char *what;
    void *at;

    *p = NULL;
    if (s->allocator && bytes) { /* a copy of the session's own */
        if (!(s->own_weights = at = take(s, bytes, 0, true)))
            return TCC_EENV;
        memcpy(split_card_see(s->card, at, bytes, false, &what), m->weights, bytes);
        *p = at;
        return TCC_OK;
    }
    if ((*p = tcr_uploaded(m, s->card)) || !bytes)
        return TCC_OK;
    if (!(at = split_card_alloc(s->card, bytes, 0, true)))
        return TCC_EENV;
    memcpy(split_card_see(s->card, at, bytes, false, &what), m->weights, bytes);
    *p = tcr_keep_uploaded(m, s->card, at, free_weights);
    if (*p == at)
        split_card_get(); /* the model's hold on it */
    else
        split_card_free(s->card, at); /* another session was faster, or there is no memory */
    return *p ? TCC_OK : TCC_EENV;
}

/* -- Work ---------------------------------------------------------------------------------------------- */

static int access_copy(struct tcr_split *s, int queue, const struct split_op *op)
{
    const struct tcr_copy *c = &op->copy;
    struct tcr_access from = {c->from, c->bytes, TCC_READS}, to = {c->to, c->bytes, TCC_WRITES};
    int status = split_clock_access(&s->clocks, queue, &from, op->node);

    return status ? status : split_clock_access(&s->clocks, queue, &to, op->node);
}

int split_accesses(struct tcr_split *s, int queue, const struct split_op *op)
{
    struct tcr_access a = {op->copy.to, op->copy.bytes, TCC_WRITES};
    int status = TCC_OK;

    switch (op->kind) {
    case SPLIT_COPY: return access_copy(s, queue, op);
    case SPLIT_FILL: return split_clock_access(&s->clocks, queue, &a, op->node);
    case SPLIT_LAUNCH:
        for (uint32_t i = 0; op->launch.access && i < op->launch.nargs && !status; i++)
            if (op->launch.access[i].how)
                status = split_clock_access(&s->clocks, queue, &op->launch.access[i], op->node);
        return status;
    default: return TCC_OK;
    }
}

/* Checks what the work does, and gives it to its queue. Takes it over. */
static int give(struct tcr_split *s, int queue, struct split_op *op)
{
    int status = check_queue(s, queue);

    if (!status) {
        split_clock_begin(&s->clocks, queue);
        status = split_accesses(s, queue, op);
    }
    if (!status)
        return split_give(s, queue, op);
    split_op_free(op);
    return status;
}

/* One end of a copy: the device's own memory, or the host's. */
static int check_end(const struct tcr_split *s, const struct tcr_copy *c, bool from, bool device)
{
    const char *what = "memory of device 'cpu-split', expected the host's";
    const void *p = from ? c->from : c->to;

    if (device ? split_card_see(s->card, p, c->bytes, false, &what) != NULL : !split_card_owns(s->card, p))
        return TCC_OK;
    return tcr_fail(TCC_EBUG, "node '%s': a copy %s %s", c->node ? c->node : "", from ? "from" : "to", what);
}

/* For tests: is this one the wait or the copy that is left out? */
static bool is_dropped(struct tcr_split *s, enum split_kind kind)
{
    return kind == s->drop_kind && s->drop-- == 0;
}

static int copy(struct tcr_device *d, int queue, const struct tcr_copy *c)
{
    struct split_op *op = NULL;
    int status = TCC_OK;

    if (!c->bytes || (queue > 0 && is_dropped(split_of(d), SPLIT_COPY)))
        return TCC_OK;
    if ((status = check_end(split_of(d), c, true, c->kind != TCR_TO_DEVICE)) ||
        (status = check_end(split_of(d), c, false, c->kind != TCR_TO_HOST)))
        return status;
    if (!(op = split_op_new(SPLIT_COPY, c->node)))
        return TCC_EENV;
    op->copy = *c;
    d->counts.copies++;
    return give(split_of(d), queue, op);
}

static int fill(struct tcr_device *d, int queue, void *to, int byte, size_t bytes)
{
    struct split_op *op = NULL;
    const char *what;

    if (!bytes)
        return TCC_OK;
    if (!split_card_see(split_of(d)->card, to, bytes, false, &what))
        return tcr_fail(TCC_EBUG, "device 'cpu-split': a fill of %s", what);
    if (!(op = split_op_new(SPLIT_FILL, "")))
        return TCC_EENV;
    op->copy = (struct tcr_copy){.to = to, .bytes = bytes};
    op->byte = byte;
    return give(split_of(d), queue, op);
}

static void *keep(const void *list, size_t bytes)
{
    void *own = malloc(bytes + 1);

    if (own && bytes)
        memcpy(own, list, bytes);
    return own;
}

static int check_arguments(struct tcr_split *s, const struct tcr_kernel_launch *l)
{
    const char *what;

    for (uint32_t i = 0; i < l->nargs; i++)
        if ((!l->access || l->access[i].bytes) &&
            !split_card_see(s->card, l->args[i], l->access ? l->access[i].bytes : 1, false, &what))
            return tcr_fail(TCC_EBUG,
                            "node '%s': argument %u of its kernel is %s, expected memory of device 'cpu-split'",
                            l->node, i, what);
    return TCC_OK;
}

static int launch(struct tcr_device *d, int queue, const struct tcr_kernel_launch *l)
{
    struct tcr_split *s = split_of(d);
    int status = check_arguments(s, l);
    struct split_op *op = status ? NULL : split_op_new(SPLIT_LAUNCH, l->node);

    if (status)
        return status;
    if (!op)
        return TCC_EENV;
    op->launch = *l;
    op->launch.args = keep(l->args, l->nargs * sizeof *l->args);
    op->launch.sizes = keep(l->sizes, l->nsizes * sizeof *l->sizes);
    op->launch.access = l->access ? keep(l->access, l->nargs * sizeof *l->access) : NULL;
    op->launch.at = l->at ? keep(l->at, (l->nsizes + 2) * sizeof *l->at) : NULL;
    op->launch.ranges = NULL;
    if (!op->launch.args || !op->launch.sizes || (l->access && !op->launch.access) || (l->at && !op->launch.at)) {
        split_op_free(op);
        return tcr_fail(TCC_EENV, "no memory for work of the device");
    }
    d->counts.launches++;
    return give(s, queue, op);
}

/* -- Order ---------------------------------------------------------------------------------------------- */

static int check_event(const struct tcr_split *s, int queue, uint32_t event)
{
    int status = check_queue(s, queue);

    return status || event < s->nevents ? status : tcr_fail(TCC_EBUG, "device 'cpu-split' has no event %u", event);
}

static int mark(struct tcr_device *d, int queue, uint32_t event, enum split_kind kind)
{
    struct tcr_split *s = split_of(d);
    int status = check_event(s, queue, event);
    struct split_op *op = status ? NULL : split_op_new(kind, "");

    if (status || !op)
        return status ? status : TCC_EENV;
    if (kind == SPLIT_RECORD) {
        s->events[event].recorded++;
        split_clock_record(&s->clocks, queue, event);
    } else {
        split_clock_wait(&s->clocks, queue, event);
    }
    op->event = event;
    op->turn = s->events[event].recorded;
    return split_give(s, queue, op);
}

static int record(struct tcr_device *d, int queue, uint32_t event)
{
    return mark(d, queue, event, SPLIT_RECORD);
}

static int wait(struct tcr_device *d, int queue, uint32_t event)
{
    if (is_dropped(split_of(d), SPLIT_WAIT))
        return TCC_OK;
    return mark(d, queue, event, SPLIT_WAIT);
}

static int sync(struct tcr_device *d, uint32_t event)
{
    struct tcr_split *s = split_of(d);
    int status = event == TCR_ALL ? TCC_OK : check_event(s, 0, event);

    if (event == TCR_ALL)
        split_program_abort(s);
    if (status || (event != TCR_ALL && is_dropped(s, SPLIT_WAIT)) || (status = split_until(s, event)))
        return status;
    if (event == TCR_ALL)
        split_clock_all(&s->clocks);
    else
        split_clock_wait(&s->clocks, -1, event);
    return s->met.fault ? tcr_bad_index(s->met_checks, &s->met) : TCC_OK;
}

static int reserve(struct tcr_device *d, int64_t scratch, int queues, uint32_t events)
{
    struct tcr_split *s = split_of(d);
    int status = s->cpu->device.ops->reserve(&s->cpu->device, scratch, 0, 0);

    if (status || (status = split_clock_events(&s->clocks, events)))
        return status;
    if (queues > SPLIT_MAX_QUEUES)
        return tcr_fail(TCC_EENV, "device 'cpu-split' has %d queues, expected %d", SPLIT_MAX_QUEUES, queues);
    s->nqueues = queues > s->nqueues ? queues : s->nqueues;
    return RESERVED(s->events, s->nevents, events) ? TCC_OK : tcr_fail(TCC_EENV, "no memory for %u events", events);
}

/* Room in the device's memory for n values of the control block. */
static int make_control(struct tcr_split *s, uint32_t n)
{
    if (n <= s->ncontrol)
        return TCC_OK;
    if (s->control)
        split_put(s, s->control);
    s->ncontrol = 0;
    if (!(s->control = take(s, n * sizeof *s->control, 0, false)))
        return TCC_EENV;
    s->ncontrol = n;
    return TCC_OK;
}

/* Behind runs that are under way. */
static int begin_behind(struct tcr_split *s, const struct tcr_control *control)
{
    size_t bytes = control->nvalues * sizeof *control->values;
    struct split_op *op;
    int status =
        control->nvalues > s->ncontrol ? split_until(s, TCR_ALL) : TCC_OK; /* they read the values that there are */

    split_program_abort(s);
    if (status || (status = make_control(s, control->nvalues)))
        return status;
    if (!(op = split_op_new(SPLIT_CONTROL, "")))
        return TCC_EENV;
    op->seed = control->seed;
    op->run = control->run;
    if (bytes && !(op->launch.sizes = keep(control->values, bytes))) {
        split_op_free(op);
        return tcr_fail(TCC_EENV, "no memory for a control block");
    }
    op->launch.nsizes = control->nvalues;
    return split_give(s, 0, op);
}

/* The control block's way to the device comes before all launches. Whatever a run that failed has left there is
 * gone. */
static int begin(struct tcr_device *d, const struct tcr_control *control)
{
    struct tcr_split *s = split_of(d);
    struct tcr_env *envs;
    const char *what;
    int status = TCC_OK;

    if (control->behind)
        return begin_behind(s, control);
    for (int q = 0; q < s->nqueues; q++)
        for (struct split_op *op = s->queues[q].first; op && !status; op = op->next)
            if (op->kind == SPLIT_LAUNCH || op->kind == SPLIT_PROGRAM)
                status = tcr_fail(TCC_EBUG, "device 'cpu-split': a run begins while kernels of another are under way");
    if (status)
        return status;
    if (!(envs = split_card_see(s->card, s->envs, (size_t)d->threads * sizeof *envs, false, &what)))
        return tcr_fail(TCC_EBUG, "device 'cpu-split': its control block is %s", what);
    if ((status = make_control(s, control->nvalues)))
        return status;
    if (control->nvalues)
        memcpy(split_card_see(s->card, s->control, control->nvalues * sizeof *s->control, false, &what),
               control->values, control->nvalues * sizeof *s->control);
    s->met.fault = 0;
    for (int i = 0; i < d->threads; i++)
        envs[i].env = (struct tcc_env){.seed = control->seed, .run = control->run};
    return TCC_OK;
}

static int set_control(struct tcr_device *d, int queue, uint32_t first, uint32_t n, const int64_t *values)
{
    struct tcr_split *s = split_of(d);
    int status = check_queue(s, queue);
    struct split_op *op = status ? NULL : split_op_new(SPLIT_VALUES, "");

    if (status || !op)
        return status ? status : TCC_EENV;
    if (!(op->launch.sizes = keep(values, n * sizeof *values))) {
        split_op_free(op);
        return tcr_fail(TCC_EENV, "no memory for values of a control block");
    }
    op->launch.nsizes = n;
    op->first = first;
    return split_give(s, queue, op);
}

/* -- Checks ---------------------------------------------------------------------------------------------- */

static int touch(struct tcr_device *d, const struct tcr_access *a, const char *node)
{
    struct tcr_split *s = split_of(d);

    if (split_card_owns(s->card, a->at) && !(a->how & TCR_HANDS_OVER))
        return tcr_fail(TCC_EBUG, "node '%s': the host %s memory of device 'cpu-split'", node,
                        a->how & TCC_WRITES ? "writes" : "reads");
    split_clock_begin(&s->clocks, -1);
    return split_clock_access(&s->clocks, -1, a, node);
}

/* Poison, where nobody can still be using them. */
static int discard(struct tcr_device *d, int queue, void *at, size_t bytes)
{
    struct tcr_split *s = split_of(d);

    if (check_queue(s, queue) || s->recording || s->comparing || !split_clock_free_of(&s->clocks, queue, at, bytes))
        return TCC_OK;
    return fill(d, queue, at, SPLIT_POISON, bytes);
}

static int timed(struct tcr_device *d, const struct tcr_timed **list, size_t *n)
{
    struct tcr_split *s = split_of(d);

    *list = s->timed;
    *n = s->ntimed;
    s->ntimed = 0;
    tcr_times_from_first(s->timed, *n);
    return TCC_OK;
}

/* -- Opening and closing ---------------------------------------------------------------------------------- */

static void close_split(struct tcr_device *d)
{
    struct tcr_split *s = split_of(d);
    struct tcr_heap *heap = s->cpu ? s->cpu->heap : NULL;

    split_until(s, TCR_ALL);
    for (int q = 0; q < SPLIT_MAX_QUEUES; q++)
        while (s->queues[q].first) {
            struct split_op *op = s->queues[q].first;

            s->queues[q].first = op->next;
            split_op_free(op);
        }
    split_programs_free(s);
    if (s->card && s->envs)
        split_put(s, s->envs);
    if (s->card && s->control)
        split_put(s, s->control);
    if (s->own_weights)
        split_put(s, s->own_weights);
    if (s->card)
        split_card_put(s->card);
    free(s->timed);
    free(s->events);
    free(s->clocks.events);
    free(s->clocks.segments);
    if (!s->cpu)
        return;
    s->cpu->device.ops->close(&s->cpu->device);
    tcr_heap_free(heap, s, sizeof *s);
}

static const struct tcr_device_ops split = {.close = close_split,
                                            .alloc = alloc,
                                            .free = free_later,
                                            .grow = grow,
                                            .release = release,
                                            .weights = weights,
                                            .copy = copy,
                                            .fill = fill,
                                            .launch = launch,
                                            .record = record,
                                            .wait = wait,
                                            .sync = sync,
                                            .reserve = reserve,
                                            .begin = begin,
                                            .control = set_control,
                                            .program = split_program,
                                            .end = split_program_end,
                                            .timed = timed,
                                            .touch = touch,
                                            .discard = discard};

/* wait:N or copy:N, N from 0: of the session's, that one; of copies those of plans, on the device's queues. */
static void read_drop(struct tcr_split *s)
{
    const char *text = tccrt_env_text("TCCC_SPLIT_DROP"), *colon = text ? strchr(text, ':') : NULL;

    s->drop = -1;
    if (!colon || (strncmp(text, "wait", 4) != 0 && strncmp(text, "copy", 4) != 0))
        return;
    s->drop_kind = *text == 'w' ? SPLIT_WAIT : SPLIT_COPY;
    s->drop = strtoll(colon + 1, NULL, 10);
}

int tcr_device_split(const struct tcr_device_request *r, struct tcr_device **out)
{
    struct tcr_split *s = tcr_heap_alloc(r->heap, sizeof *s);
    const char *seed = tccrt_env_text("TCCC_ORDER_SEED");
    struct tcr_device *cpu;
    int status;

    *out = NULL;
    if (!s)
        return TCC_EENV;
    if ((status = tcr_device_cpu(r, &cpu))) {
        tcr_heap_free(r->heap, s, sizeof *s);
        return status;
    }
    *s = (struct tcr_split){.cpu = (struct tcr_cpu *)cpu, .nqueues = 1, .seed = seed ? strtoull(seed, NULL, 10) : 0};
    s->device = (struct tcr_device){.ops = &split,
                                    .name = "cpu-split",
                                    .defers = true,
                                    .runs_host_kernels = true,
                                    .checks = true,
                                    .threads = cpu->threads};
    s->random = s->seed;
    s->allocator = r->options->device_allocator;
    read_drop(s);
    for (int q = 0; q < SPLIT_MAX_QUEUES; q++)
        s->queues[q].last = &s->queues[q].first;
    if (!(s->card = split_card_get()) || !(s->envs = take(s, (size_t)cpu->threads * sizeof *s->envs, 0, true))) {
        close_split(&s->device);
        return TCC_EENV;
    }
    s->device.memory = split_card_bytes(s->card);
    *out = &s->device;
    return TCC_OK;
}
