/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happens-before by vector clocks (Lamport 1978; Fidge 1988; Mattern 1989). The host and every queue count the work
 * they were given; a clock says how much of each other's work is known to be over. An event is a copy of its queue's
 * clock. Bytes remember who wrote them last and up to where each queue has read them: an access that does not have
 * these in its clock is not waited for, however the queues happen to run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/split/split_int.h"
#include "base/grow.h"

#define N (SPLIT_MAX_QUEUES + 1)

static void join(uint32_t *to, const uint32_t *from)
{
    for (int i = 0; i < N; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

void split_clock_begin(struct split_clocks *k, int queue)
{
    int c = queue + 1;

    if (c)
        join(k->now[c], k->now[0]); /* it was given after what the host has done */
    k->now[c][c]++;
}

/* -- Ranges ------------------------------------------------------------------------------------------------ */

/* The first segment that ends behind `at`. */
static size_t first_behind(const struct split_clocks *k, uintptr_t at)
{
    size_t low = 0, high = k->nsegments;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (k->segments[middle].to <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int room_for(struct split_clocks *k, size_t more)
{
    size_t room = k->room ? k->room : 64;
    struct split_segment *grown;

    while (room < k->nsegments + more)
        room *= 2;
    if (room == k->room)
        return TCC_OK;
    grown = realloc(k->segments, room * sizeof *grown);
    if (!grown)
        return tcr_fail(TCC_EENV, "no memory for a list of accesses");
    k->segments = grown;
    k->room = room;
    return TCC_OK;
}

static struct split_segment *insert_at(struct split_clocks *k, size_t i, struct split_segment x)
{
    memmove(k->segments + i + 1, k->segments + i, (k->nsegments - i) * sizeof x);
    k->nsegments++;
    k->segments[i] = x;
    return &k->segments[i];
}

/* Cuts the segment that covers `at` in two there. There is room. */
static void cut(struct split_clocks *k, uintptr_t at)
{
    size_t i = first_behind(k, at);

    if (i == k->nsegments || k->segments[i].from >= at)
        return;
    struct split_segment *x = insert_at(k, i, k->segments[i]);

    x[0].to = x[1].from = at;
}

static bool same(const struct split_segment *a, const struct split_segment *b)
{
    return a->to == b->from && a->write == b->write && a->written == b->written &&
           !memcmp(a->reads, b->reads, sizeof a->reads) && a->node[0] == b->node[0] && a->node[1] == b->node[1];
}

/* Makes neighbours that say the same into one, from segment i to the one that ends at `to`. */
static void merge(struct split_clocks *k, size_t i, uintptr_t to)
{
    size_t w = i ? i - 1 : i, r = w + 1;

    for (; r < k->nsegments && k->segments[r].from <= to; r++) {
        if (same(&k->segments[w], &k->segments[r]))
            k->segments[w].to = k->segments[r].to;
        else
            k->segments[++w] = k->segments[r];
    }
    if (r == w + 1)
        return;
    memmove(k->segments + w + 1, k->segments + r, (k->nsegments - r) * sizeof *k->segments);
    k->nsegments -= r - w - 1;
}

/* -- Accesses ---------------------------------------------------------------------------------------------- */

static const char *who(int clock, char *to, size_t size)
{
    if (!clock)
        return "the host";
    snprintf(to, size, "queue %d", clock - 1);
    return to;
}

static int missing(int queue, const struct tcr_access *a, const char *node, int other, const char *other_node,
                   bool wrote)
{
    char mine[32], theirs[32];

    return tcr_fail(TCC_EBUG, "node '%s' (%s) %s %zu bytes that node '%s' (%s) %s: requires a wait", node ? node : "",
                    who(queue + 1, mine, sizeof mine), a->how & TCC_WRITES ? "writes" : "reads", a->bytes,
                    other_node ? other_node : "", who(other, theirs, sizeof theirs), wrote ? "writes" : "reads");
}

static int check_one(const struct split_clocks *k, int queue, const struct tcr_access *a, const char *node,
                     const struct split_segment *x)
{
    const uint32_t *now = k->now[queue + 1];

    if (x->written > now[x->write])
        return missing(queue, a, node, (int)x->write, x->node[0], true);
    for (int c = 0; c < N && a->how & TCC_WRITES; c++)
        if (x->reads[c] > now[c])
            return missing(queue, a, node, c, x->node[1], false);
    return TCC_OK;
}

int split_clock_access(struct split_clocks *k, int queue, const struct tcr_access *a, const char *node)
{
    uintptr_t from = (uintptr_t)a->at, to = from + a->bytes, at = from;
    uint32_t c = (uint32_t)(queue + 1);
    size_t first, i;
    int status;

    if (!a->bytes)
        return TCC_OK;
    /* Two cuts; and a gap before each segment, and behind the last. */
    for (first = i = first_behind(k, from); i < k->nsegments && k->segments[i].from < to; i++)
        if ((status = check_one(k, queue, a, node, &k->segments[i])))
            return status;
    if ((status = room_for(k, 3 + (i - first))))
        return status;
    cut(k, from);
    cut(k, to);
    for (first = i = first_behind(k, from); at < to; i++) {
        struct split_segment *x = &k->segments[i];

        if (i == k->nsegments || x->from > at) {
            uintptr_t end = i < k->nsegments && x->from < to ? x->from : to;

            x = insert_at(k, i, (struct split_segment){.from = at, .to = end});
        }
        if (a->how & TCC_WRITES) {
            memset(x->reads, 0, sizeof x->reads);
            x->write = c;
            x->written = k->now[c][c];
            x->node[0] = node;
            x->node[1] = NULL;
        } else {
            x->reads[c] = k->now[c][c];
            x->node[1] = node;
        }
        at = x->to;
    }
    merge(k, first, to);
    return TCC_OK;
}

bool split_clock_free_of(struct split_clocks *k, int queue, const void *at, size_t bytes)
{
    uintptr_t from = (uintptr_t)at, to = from + bytes;

    for (size_t i = first_behind(k, from); i < k->nsegments && k->segments[i].from < to; i++) {
        const struct split_segment *x = &k->segments[i];

        if (x->written > k->now[queue + 1][x->write])
            return false;
        for (int c = 0; c < N; c++)
            if (x->reads[c] > k->now[queue + 1][c])
                return false;
    }
    return true;
}

int split_clock_forget(struct split_clocks *k, const void *at, size_t bytes)
{
    uintptr_t from = (uintptr_t)at, to = from + bytes;
    size_t i, end;
    int status = room_for(k, 2);

    if (status)
        return status;
    cut(k, from);
    cut(k, to);
    for (i = end = first_behind(k, from); end < k->nsegments && k->segments[end].from < to; end++)
        ;
    memmove(k->segments + i, k->segments + end, (k->nsegments - end) * sizeof *k->segments);
    k->nsegments -= end - i;
    return TCC_OK;
}

/* -- Events ------------------------------------------------------------------------------------------------ */

int split_clock_events(struct split_clocks *k, uint32_t n)
{
    return RESERVED(k->events, k->nevents, n) ? TCC_OK : tcr_fail(TCC_EENV, "no memory for %u events", n);
}

void split_clock_record(struct split_clocks *k, int queue, uint32_t event)
{
    memcpy(k->events[event], k->now[queue + 1], sizeof k->events[event]);
}

void split_clock_wait(struct split_clocks *k, int queue, uint32_t event)
{
    join(k->now[queue + 1], k->events[event]);
}

void split_clock_all(struct split_clocks *k)
{
    for (int i = 1; i < N; i++)
        join(k->now[0], k->now[i]);
    k->nsegments = 0;
}
