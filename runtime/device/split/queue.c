/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work in queues. Nothing runs when it is given; when the host waits, queues whose next work is not held up by an event
 * are chosen in an order that the seed decides, until what the host waits for has happened, and no longer. So whatever
 * nobody waits for happens late, in another order than it was given, and differently for every seed, but always
 * legally.
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "runtime/device/split/split_int.h"
#include "base/draw.h"
#include "base/mutant.h"

struct split_op *split_op_new(enum split_kind kind, const char *node)
{
    struct split_op *op = calloc(1, sizeof *op);

    if (!op)
        return tcr_fail(TCC_EENV, "no memory for work of the device"), NULL;
    op->kind = kind;
    op->node = node ? node : "";
    return op;
}

void split_op_free(struct split_op *op)
{
    free((void *)op->launch.args);
    free((void *)op->launch.sizes);
    free((void *)op->launch.access);
    free((void *)op->launch.at);
    free(op);
}

/* -- What it does ---------------------------------------------------------------------------------------- */

/* What was given was checked (split.c): here addresses become those that kernels see. A free() that came later doesn't
 * matter yet. */
static void *see(struct tcr_split *s, const void *p, size_t bytes)
{
    const char *what;

    return bytes ? split_card_see(s->card, p, bytes, true, &what) : NULL;
}

static int was_freed(const struct split_op *op)
{
    return tcr_fail(TCC_EBUG, "node '%s': memory that it uses was freed before it ran: requires a wait", op->node);
}

/* One of a launch's numbers in the control block. */
static int read_control(const struct tcr_split *s, const struct split_op *op, const int64_t *control, uint32_t i,
                        int64_t *out)
{
    uint32_t at = op->launch.at[i];

    if (at == TCC_NO)
        return TCC_OK;
    if (at >= s->ncontrol)
        return tcr_fail(TCC_EBUG, "node '%s': the control block has no value %u", op->node, at);
    *out = MUTANT(180, control[at], *out);
    return TCC_OK;
}

/* The sizes, which get room of their own, and numbers of tiles of this run. */
static int take_sizes(struct tcr_split *s, const struct split_op *op, struct tcr_kernel_launch *l)
{
    const int64_t *control = see(s, s->control, s->ncontrol * sizeof *control);
    int64_t *sizes = malloc((l->nsizes + 1) * sizeof *sizes);
    int status = TCC_OK;

    if (!sizes)
        return tcr_fail(TCC_EENV, "node '%s': no memory for its sizes", op->node);
    memcpy(sizes, l->sizes, l->nsizes * sizeof *sizes);
    l->sizes = sizes;
    for (uint32_t i = 0; i < l->nsizes && !status; i++)
        status = read_control(s, op, control, i, &sizes[i]);
    if (!status && !(status = read_control(s, op, control, l->nsizes, &l->tiles)))
        status = read_control(s, op, control, l->nsizes + 1, &l->combining);
    return status;
}

static int launch(struct tcr_split *s, const struct split_op *op)
{
    struct tcr_kernel_launch l = op->launch;
    struct tcr_env *envs = see(s, s->envs, (size_t)s->device.threads * sizeof *envs);
    void *few[64], **args = l.nargs <= 64 ? few : malloc(l.nargs * sizeof *args);
    const struct tcc_env *met = NULL;
    int status = TCC_OK;
    bool gone = false;

    if (!args)
        return tcr_fail(TCC_EENV, "node '%s': no memory for its arguments", op->node);
    if (l.at)
        status = take_sizes(s, op, &l);
    for (uint32_t i = 0; i < l.nargs && !gone; i++) {
        size_t bytes = l.access ? l.access[i].bytes : 1;

        args[i] = see(s, l.args[i], bytes);
        gone = bytes && !args[i];
    }
    l.args = args;
    if (!status)
        status = gone ? was_freed(op) : l.tiles ? tcr_cpu_run(s->cpu, &l, envs, &met) : TCC_OK;
    if (l.sizes != op->launch.sizes)
        free((void *)l.sizes);
    if (met && !s->met.fault) {
        s->met = *met;
        s->met_checks = l.checks;
        s->device.faulted = envs->env.run;
    }
    if (args != few)
        free(args);
    return status;
}

static int copy(struct tcr_split *s, const struct split_op *op)
{
    const struct tcr_copy *c = &op->copy;
    const void *from = c->kind == TCR_TO_DEVICE ? c->from : see(s, c->from, c->bytes);
    void *to = c->kind == TCR_TO_HOST ? c->to : see(s, c->to, c->bytes);

    if (!from || !to)
        return was_freed(op);
    memmove(to, from, c->bytes);
    return TCC_OK;
}

static int fill(struct tcr_split *s, const struct split_op *op)
{
    void *to = see(s, op->copy.to, op->copy.bytes);

    if (!to)
        return was_freed(op);
    memset(to, op->byte, op->copy.bytes);
    return TCC_OK;
}

static int control(struct tcr_split *s, const struct split_op *op)
{
    struct tcr_env *envs = see(s, s->envs, (size_t)s->device.threads * sizeof *envs);
    int64_t *values = see(s, s->control, op->launch.nsizes * sizeof *values);

    if (!envs || (op->launch.nsizes && !values))
        return was_freed(op);
    if (op->launch.nsizes)
        memcpy(values, op->launch.sizes, op->launch.nsizes * sizeof *values);
    for (int i = 0; i < s->device.threads; i++)
        envs[i].env = (struct tcc_env){.seed = op->seed, .run = op->run};
    return TCC_OK;
}

static int values(struct tcr_split *s, const struct split_op *op)
{
    int64_t *to = see(s, s->control, s->ncontrol * sizeof *to);

    if (!to || op->launch.nsizes > s->ncontrol || op->first > s->ncontrol - op->launch.nsizes)
        return tcr_fail(TCC_EBUG, "device 'cpu-split': the control block has %u values, expected %u from %u on",
                        s->ncontrol, op->launch.nsizes, op->first);
    memcpy(to + op->first, op->launch.sizes, op->launch.nsizes * sizeof *to);
    return TCC_OK;
}

int split_run(struct tcr_split *s, struct split_op *op)
{
    int status = TCC_OK;

    switch (op->kind) {
    case SPLIT_LAUNCH: return s->met.fault ? TCC_OK : launch(s, op);
    case SPLIT_COPY: return s->met.fault ? TCC_OK : copy(s, op);
    case SPLIT_FILL: return s->met.fault ? TCC_OK : fill(s, op);
    case SPLIT_FREE: split_put(s, op->copy.to); return TCC_OK;
    case SPLIT_CONTROL: return s->met.fault ? TCC_OK : control(s, op);
    case SPLIT_VALUES: return values(s, op);
    case SPLIT_RECORD:
        if (s->events[op->event].done < op->turn)
            s->events[op->event].done = op->turn;
        return TCC_OK;
    case SPLIT_WAIT: return TCC_OK;
    default:
        for (struct split_op *x = op->program->ops; x && !status; x = x->next)
            status = split_run(s, x);
        return status;
    }
}

/* -- The order --------------------------------------------------------------------------------------------- */

static bool ready(const struct tcr_split *s, int queue)
{
    const struct split_op *op = s->queues[queue].first;

    return op && (op->kind != SPLIT_WAIT || s->events[op->event].done >= op->turn);
}

/* A queue whose next work may run; -1: none. By the seed the last one, the first one, or any. */
static int choose(struct tcr_split *s)
{
    int list[SPLIT_MAX_QUEUES], n = 0;

    for (int q = 0; q < s->nqueues; q++)
        if (ready(s, q))
            list[n++] = q;
    if (!n)
        return -1;
    switch (s->seed % 4) {
    case 0: return list[n - 1];
    case 1: return list[0];
    default: return list[tcr_draw_next(&s->random) % (uint64_t)n];
    }
}

/* Takes the time of launches and copies where a profile wants it. */
static int timed_run(struct tcr_split *s, int queue, struct split_op *op)
{
    double start = s->device.timing ? tcr_now() : 0;
    int status = split_run(s, op);

    if (!s->device.timing || status || (op->kind != SPLIT_LAUNCH && op->kind != SPLIT_COPY))
        return status;
    if (!GROWN(s->timed, s->ntimed, s->timed_room, 64))
        return tcr_fail(TCC_EENV, "no memory for the times of a run");
    s->timed[s->ntimed++] = (struct tcr_timed){.tag = op->tag,
                                               .queue = queue,
                                               .kind = op->kind == SPLIT_COPY ? TCR_TIMED_COPY : TCR_TIMED_LAUNCH,
                                               .bytes = op->kind == SPLIT_COPY ? op->copy.bytes : 0,
                                               .start = start,
                                               .end = tcr_now()};
    return TCC_OK;
}

static int run_next(struct tcr_split *s, int queue)
{
    struct split_queue *q = &s->queues[queue];
    struct split_op *op = q->first;
    int status;

    q->first = op->next;
    if (!q->first)
        q->last = &q->first;
    status = timed_run(s, queue, op);
    split_op_free(op);
    return status;
}

static bool happened(const struct tcr_split *s, uint32_t event)
{
    if (event != TCR_ALL)
        return s->events[event].done >= s->events[event].recorded;
    for (int q = 0; q < s->nqueues; q++)
        if (s->queues[q].first)
            return false;
    return true;
}

int split_until(struct tcr_split *s, uint32_t event)
{
    while (!happened(s, event)) {
        int queue = choose(s), status;

        if (queue < 0)
            return tcr_fail(TCC_EBUG, "the queues of device 'cpu-split' wait for each other");
        if ((status = run_next(s, queue)))
            return status;
    }
    return TCC_OK;
}

int split_give(struct tcr_split *s, int queue, struct split_op *op)
{
    op->tag = s->device.tag;
    if (s->recording || s->comparing)
        return split_program_add(s, op);
    *s->queues[queue].last = op;
    s->queues[queue].last = &op->next;
    /* Some work runs at once: what must not be overwritten before it is read, and what is read too early. */
    if (s->seed % 4 == 3 && tcr_draw_next(&s->random) % 4 == 0) {
        int some = choose(s);

        return some < 0 ? TCC_OK : run_next(s, some);
    }
    return TCC_OK;
}
