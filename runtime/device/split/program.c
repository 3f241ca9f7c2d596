/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs: work that is recorded with its arguments when its region is walked for the first time, and replayed from
 * then on. The second time it is walked once more, and what is given must be what was recorded: an argument or a size
 * that changes from run to run belongs into the control block. Later runs are replayed without a walk. Of a session's
 * programs the one that was not used for longest goes where there are too many.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/device/split/split_int.h"

#define MOST 16 /* programs of one session */

static struct split_program *find(struct tcr_split *s, uint32_t number, uint64_t digest)
{
    for (struct split_program *p = s->programs; p; p = p->next)
        if (p->number == number && p->digest == digest)
            return p;
    return NULL;
}

static void free_one(struct split_program *p)
{
    for (struct split_op *op = p->ops, *next; op; op = next) {
        next = op->next;
        split_op_free(op);
    }
    free(p);
}

void split_programs_free(struct tcr_split *s)
{
    while (s->programs) {
        struct split_program *p = s->programs;

        s->programs = p->next;
        free_one(p);
    }
    split_program_abort(s);
}

void split_program_abort(struct tcr_split *s)
{
    if (s->recording)
        free_one(s->recording);
    s->recording = s->comparing = NULL;
}

static int give(struct tcr_split *s, int queue, struct split_program *p)
{
    struct split_op *op = split_op_new(SPLIT_PROGRAM, "");

    if (!op)
        return TCC_EENV;
    op->program = p;
    p->age = ++s->age;
    p->runs++;
    return split_give(s, queue, op);
}

/* What a replay does to memory: that of all its work, in its queue. */
static int replay(struct tcr_split *s, int queue, struct split_program *p)
{
    int status = TCC_OK;

    for (const struct split_op *op = p->ops; op && !status; op = op->next) {
        split_clock_begin(&s->clocks, queue);
        status = split_accesses(s, queue, op);
    }
    if (status)
        return status;
    s->device.counts.replays++;
    s->device.counts.launches += p->launches;
    return give(s, queue, p);
}

/* What was given to queues may hold it. */
static int forget_oldest(struct tcr_split *s)
{
    struct split_program **oldest = &s->programs, *p;
    int status = split_until(s, TCR_ALL);

    for (struct split_program **at = &s->programs; *at; at = &(*at)->next)
        if ((*at)->age < (*oldest)->age)
            oldest = at;
    if (status)
        return status;
    p = *oldest;
    *oldest = p->next;
    free_one(p);
    return TCC_OK;
}

int split_program(struct tcr_device *d, int queue, uint32_t number, uint64_t digest, int *how)
{
    struct tcr_split *s = (struct tcr_split *)d;
    struct split_program *p = find(s, number, digest);
    int n = 0, status;

    if (s->recording || s->comparing)
        return tcr_fail(TCC_EBUG, "device 'cpu-split': a program inside a program");
    for (struct split_program *x = s->programs; x; x = x->next)
        n++;
    *how = p && p->runs > 1 ? TCR_REPLAY : TCR_RECORD;
    if (*how == TCR_REPLAY)
        return replay(s, queue, p);
    if (p) {
        s->comparing = p;
        p->at = p->ops;
        return TCC_OK;
    }
    if (n == MOST && (status = forget_oldest(s)))
        return status;
    if (!(s->recording = p = calloc(1, sizeof *p)))
        return tcr_fail(TCC_EENV, "no memory for a program of the device");
    *p = (struct split_program){.number = number, .digest = digest, .last = &p->ops};
    return TCC_OK;
}

/* Sizes: those that are given, or where they are in the control block. */
static bool equal_sizes(const struct tcr_kernel_launch *a, const struct tcr_kernel_launch *b)
{
    if (!a->at != !b->at)
        return false;
    if (a->at)
        return !memcmp(a->at, b->at, (a->nsizes + 2) * sizeof *a->at);
    return a->tiles == b->tiles && a->combining == b->combining &&
           !memcmp(a->sizes, b->sizes, a->nsizes * sizeof *a->sizes);
}

static bool equal_launch(const struct tcr_kernel_launch *a, const struct tcr_kernel_launch *b)
{
    return a->kernel == b->kernel && a->scratch == b->scratch && a->nargs == b->nargs && a->nsizes == b->nsizes &&
           !memcmp(a->args, b->args, a->nargs * sizeof *a->args) && equal_sizes(a, b);
}

static bool equal(const struct split_op *a, const struct split_op *b)
{
    return a->kind == b->kind && a->byte == b->byte && a->copy.kind == b->copy.kind && a->copy.to == b->copy.to &&
           a->copy.from == b->copy.from && a->copy.bytes == b->copy.bytes &&
           (a->kind != SPLIT_LAUNCH || equal_launch(&a->launch, &b->launch));
}

int split_program_add(struct tcr_split *s, struct split_op *op)
{
    struct split_program *p = s->comparing;
    bool order = op->kind == SPLIT_RECORD || op->kind == SPLIT_WAIT; /* the order given is one that keeps them */
    int status = TCC_OK;

    if (op->kind == SPLIT_FREE || (op->kind == SPLIT_COPY && op->copy.kind != TCR_WITHIN)) {
        split_op_free(op);
        return tcr_fail(TCC_EBUG,
                        "a program of device 'cpu-split' can't hold copies of the host's memory, nor free any");
    }
    if (!p && !order) {
        s->recording->launches += op->kind == SPLIT_LAUNCH;
        *s->recording->last = op;
        s->recording->last = &op->next;
        return TCC_OK;
    }
    if (p && !order) {
        if (!p->at || !equal(p->at, op))
            status = tcr_fail(TCC_EBUG, "node '%s': its arguments are not those that its program was recorded with",
                              op->node);
        else
            p->at = p->at->next;
    }
    if (op->kind == SPLIT_RECORD)
        status = split_run(s, op); /* it comes before the program then, and what waits for it waits for end() too */
    split_op_free(op);
    return status;
}

int split_program_end(struct tcr_device *d, int queue)
{
    struct tcr_split *s = (struct tcr_split *)d;
    struct split_program *p = s->comparing ? s->comparing : s->recording;
    bool fresh = s->recording != NULL;

    s->comparing = s->recording = NULL;
    if (!p)
        return tcr_fail(TCC_EBUG, "device 'cpu-split': the end of no program");
    if (!fresh && p->at)
        return tcr_fail(TCC_EBUG, "node '%s': its program was recorded with it, and is run without", p->at->node);
    if (fresh) {
        p->next = s->programs;
        s->programs = p;
        d->counts.programs++;
    }
    return give(s, queue, p);
}
