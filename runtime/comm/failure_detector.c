/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is waited for, who hangs, who has failed. Ranks send each other short notes in a lane of their own:
 *
 *   ASK     from a rank that has been waiting for a while: are you alive, and at what?
 *   STATE   the answer: how far the process has got (a counter), whom it waits for itself
 *   FAILED  a rank has failed, or found another one hanging, and why: everybody's operations end with that
 *   BYE     a rank has ended in good order (and why, if it ended early)
 *
 * A rank hangs when it is waited for and nothing has been heard of it for the time limit: neither data, nor a counter
 * that moved. So ranks that compute for long are left in peace, and nobody sends anything while all is well. Of ranks
 * that wait for each other in a row the last one is to blame: each says whom it waits for in the end.
 *
 * A rank that was killed says nothing, and whoever waits may be waiting for another one that waits for it. So before
 * anybody is blamed all members of the operation's group are asked, and one that does not answer is the one; of this
 * machine's ranks the processes are looked at, so that one that is gone is named at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

#define ASK_AFTER 0.5   /* seconds of waiting */
#define GONE_AFTER 0.5  /* from when a process was found gone: what it had said before may be on its way */
#define PROBE_AT_MOST 3 /* seconds in which all members must answer before one is blamed */

atomic_ullong tcr_work;

enum { ASK, STATE, FAILED, BYE };

struct note {
    int32_t kind, from;
    uint64_t work;
    int32_t waits_for; /* world rank at the end of the row; -1: nobody */
    char text[372];
};

struct letter {
    struct letter *next;
    struct note note;
    struct tcr_msg msg;
};

struct peer {
    bool known, ended, here; /* here: its process can be looked at */
    long process;
    uint64_t work;
    double changed, asked, heard, gone, lost; /* seconds; 0: never. gone: its process; lost: the connection to it */
    int waits_for;
    char *text; /* why it ended, or what it is doing */
};

struct tcr_watch {
    struct note in;
    struct tcr_msg listening;
    struct letter *letters;
    struct peer *peers;
    double looked, looked_around;
};

/* -- Notes ---------------------------------------------------------------------------------------------------- */

static int listen(struct tcr_net *net)
{
    struct tcr_watch *w = net->watch;

    return tcr_msg_start(net, &w->listening, false, TCR_LANE_CONTROL, -1, 0, &w->in, sizeof w->in);
}

static const struct tcr_op *longest(const struct tcr_net *net)
{
    const struct tcr_op *found = NULL;

    for (const struct tcr_op *op = net->ops; op; op = op->next)
        if (op->awaited >= 0 && (!found || op->since < found->since))
            found = op;
    return found;
}

/* Whom this rank waits for in the end, as far as it knows. */
static int blamed(const struct tcr_net *net)
{
    const struct tcr_op *op = longest(net);
    int next;

    if (!op)
        return -1;
    next = net->watch->peers[op->awaited].waits_for;
    return next >= 0 && next != net->rank ? next : op->awaited;
}

static void post(struct tcr_net *net, int to, int kind, const char *text)
{
    struct letter *l = calloc(1, sizeof *l);
    const struct tcr_op *op = longest(net);

    if (!l)
        return; /* whoever waits for it has a time limit */
    l->note = (struct note){.kind = kind, .from = net->rank, .work = tcr_work, .waits_for = blamed(net)};
    if (!text && op)
        text = tcr_coll_name(op->c.kind);
    snprintf(l->note.text, sizeof l->note.text, "%s", text ? text : "");
    if (tcr_msg_start(net, &l->msg, true, TCR_LANE_CONTROL, to, 0, &l->note, sizeof l->note)) {
        free(l);
        return;
    }
    l->next = net->watch->letters;
    net->watch->letters = l;
}

static void post_all(struct tcr_net *net, int kind, const char *text)
{
    for (int i = 1; net->watch && i < net->size; i++)
        post(net, (net->rank + i) % net->size, kind, text);
}

void tcr_watch_tell(struct tcr_net *net, const char *why)
{
    post_all(net, FAILED, why);
}

void tcr_watch_bye(struct tcr_net *net, const char *why)
{
    post_all(net, BYE, why ? why : "");
}

static void receive(struct tcr_net *net, const struct note *n, double now)
{
    struct peer *p = n->from >= 0 && n->from < net->size ? &net->watch->peers[n->from] : NULL;
    char *text;

    if (!p)
        return;
    p->heard = now;
    if (n->kind == ASK)
        post(net, n->from, STATE, NULL);
    if (n->kind == FAILED)
        tcr_net_break(net, false, "%.*s", (int)sizeof n->text - 1, n->text);
    if (n->kind == BYE)
        p->ended = true;
    if (n->kind != STATE && n->kind != BYE)
        return;
    if (p->known && p->work != n->work)
        p->changed = now;
    p->known = true;
    p->work = n->work;
    p->waits_for = n->waits_for;
    if ((text = strndup(n->text, sizeof n->text - 1))) {
        free(p->text);
        p->text = text;
    }
}

/* -- Judging ---------------------------------------------------------------------------------------------------- */

static void ended_early(struct tcr_net *net, const struct tcr_op *op, const struct peer *p)
{
    const char *why = p->text && *p->text ? p->text : "it ended";

    tcr_net_break(net, true, "rank %d takes no part in %s: %s (said rank %d)", op->awaited, tcr_coll_name(op->c.kind),
                  why, net->rank);
}

static double probe_time(const struct tcr_net *net)
{
    return net->timeout / 3 < PROBE_AT_MOST ? net->timeout / 3 : PROBE_AT_MOST;
}

/* Was it asked, and has said nothing while others had the time to? */
static bool is_silent(const struct tcr_net *net, const struct peer *p, double now)
{
    return !p->ended && now - p->heard > 0.8 * probe_time(net);
}

static void blame_silent(struct tcr_net *net, const struct tcr_op *op, int rank)
{
    struct peer *p = &net->watch->peers[rank];
    bool stopped = p->here && tcr_look(rank, &p->process) == TCR_STOPPED;
    char process[64] = "";

    if (stopped)
        snprintf(process, sizeof process, ": its process %ld is stopped", p->process);
    tcr_net_break(net, true, "rank %d does not answer%s: no part in %s within %g s (found by rank %d)", rank, process,
                  tcr_coll_name(op->c.kind), net->timeout, net->rank);
}

/* The members of the operation's group that others may be waiting for; without a thread of ours a process that computes
 * says nothing, and only the awaited one is to answer. */
static int silent_member(const struct tcr_net *net, const struct tcr_op *op, double now)
{
    const struct peer *peers = net->watch->peers;

    if (is_silent(net, &peers[op->awaited], now))
        return op->awaited;
    for (int i = 0; net->threaded && i < op->c.c->size; i++) {
        int rank = op->c.c->ranks[i];

        if (rank != net->rank && is_silent(net, &peers[rank], now))
            return rank;
    }
    return -1;
}

static void ask_members(struct tcr_net *net, const struct tcr_op *op, double now)
{
    for (int i = 0; i < op->c.c->size; i++) {
        int rank = op->c.c->ranks[i];
        struct peer *p = &net->watch->peers[rank];

        if (rank == net->rank || p->ended || now - p->asked <= ASK_AFTER)
            continue;
        p->asked = now;
        post(net, rank, ASK, "");
    }
}

static void too_late(struct tcr_net *net, const struct tcr_op *op, const struct peer *p, double now)
{
    const char *what = tcr_coll_name(op->c.kind), *doing = p->text && *p->text ? p->text : "something else";
    int silent = silent_member(net, op, now);

    if (silent >= 0)
        blame_silent(net, op, silent);
    else if (p->waits_for == net->rank)
        tcr_net_break(net, true, "ranks %d and %d wait for each other, in %s and in %s: the ranks run different things",
                      net->rank, op->awaited, what, doing);
    else if (p->waits_for >= 0)
        tcr_net_break(net, true, "rank %d hangs: rank %d waits for it in %s, and rank %d for that in %s, since %g s",
                      p->waits_for, op->awaited, doing, net->rank, what, net->timeout);
    else
        tcr_net_break(net, true, "rank %d hangs: it is there, but took no part in %s within %g s (found by rank %d)",
                      op->awaited, what, net->timeout, net->rank);
}

/* The limit is a bit early, so that all ranks have their status within the time that was asked for. */
static void judge(struct tcr_net *net, const struct tcr_op *op, double now)
{
    struct peer *p = &net->watch->peers[op->awaited];
    double waiting = now - op->since, base = op->since > p->changed ? op->since : p->changed;

    if (p->ended && waiting > 0.2) {
        ended_early(net, op, p);
        return;
    }
    if (waiting < ASK_AFTER)
        return;
    if (now - p->asked > ASK_AFTER) {
        p->asked = now;
        post(net, op->awaited, ASK, "");
    }
    if (now - base > 0.95 * net->timeout - probe_time(net) && net->threaded)
        ask_members(net, op, now);
    if (now - base > 0.95 * net->timeout)
        too_late(net, op, p, now);
}

/* Ranks of this machine whose process has ended without a word. */
static void look_around(struct tcr_net *net, double now)
{
    struct tcr_watch *w = net->watch;

    if (now - w->looked_around < ASK_AFTER / 2)
        return;
    w->looked_around = now;
    for (int i = 0; i < net->size && !net->broken; i++) {
        struct peer *p = &w->peers[i];

        if (!p->here || p->ended || tcr_look(i, &p->process) != TCR_GONE)
            continue;
        if (!p->gone)
            p->gone = now;
        else if (now - p->gone > GONE_AFTER)
            tcr_net_break(net, true, "rank %d has died: its process %ld is gone (found by rank %d)", i, p->process,
                          net->rank);
    }
}

void tcr_watch_lost(struct tcr_net *net, int rank)
{
    struct peer *p = net->watch ? &net->watch->peers[rank] : NULL;

    if (p && !p->lost)
        p->lost = tcr_seconds();
}

/* Ranks that the engine has lost, without a word from them, and whose process this machine can't look at. */
static void look_for_lost(struct tcr_net *net, double now)
{
    for (int i = 0; i < net->size && !net->broken; i++) {
        const struct peer *p = &net->watch->peers[i];

        if (p->lost && !p->ended && now - p->lost > (p->here ? 2 : 1) * GONE_AFTER)
            tcr_net_break(net, true, "rank %d has died: the connection to it is lost (found by rank %d)", i, net->rank);
    }
}

/* In an elastic world the connections of the meeting say who is gone, at once. */
static void tend(struct tcr_net *net)
{
    bool next = tcr_meet_tend(net->meeting);

    for (int i = 0; i < net->size && !net->broken; i++)
        if (!net->watch->peers[i].ended && tcr_meet_gone(net->meeting, i))
            tcr_net_break(net, true, "rank %d has died: its connection ended (found by rank %d)", i, net->rank);
    if (next)
        tcr_net_break(net, false, "the ranks meet anew");
}

int tcr_watch_poll(struct tcr_net *net, double now)
{
    struct tcr_watch *w = net->watch;
    bool moved = false;
    int status = TCC_OK;

    if (!w)
        return TCC_OK;
    for (int i = 0; i < 64 && !status; i++) {
        status = tcr_msg_poll(net, &w->listening, &moved);
        if (status || w->listening.active)
            break;
        receive(net, &w->in, now);
        status = listen(net);
    }
    for (struct letter **at = &w->letters; *at;) {
        struct letter *l = *at;

        if (tcr_msg_poll(net, &l->msg, &moved) || l->msg.active) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        free(l);
    }
    if (now - w->looked < 0.05)
        return status;
    w->looked = now;
    if (net->elastic)
        tend(net);
    for (const struct tcr_op *op = net->ops; op && !net->broken; op = op->next)
        if (op->awaited >= 0)
            judge(net, op, now);
    const struct tcr_op *op = longest(net);
    if (op && now - op->since > ASK_AFTER)
        look_around(net, now);
    look_for_lost(net, now);
    return status;
}

bool tcr_watch_quiet(struct tcr_net *net)
{
    return !net->watch || !net->watch->letters;
}

bool tcr_watch_alone(struct tcr_net *net, int *missing)
{
    struct tcr_watch *w = net->watch;
    double now = tcr_seconds();

    for (int i = 0; w && i < net->size; i++) {
        struct peer *p = &w->peers[i];

        if (i == net->rank || p->ended)
            continue;
        if (i != *missing) { /* a new one to wait for */
            *missing = i;
            p->changed = now;
            p->asked = now;
        }
        if (now - p->asked > ASK_AFTER) {
            p->asked = now;
            post(net, i, ASK, "");
        }
        look_around(net, now);
        if (now - p->changed > 0.95 * net->timeout)
            tcr_net_break(net, true, "rank %d does not end: nothing happened there for %g s (found by rank %d)", i,
                          net->timeout, net->rank);
        return false;
    }
    return true;
}

/* -- Beginning and end -------------------------------------------------------------------------------------------- */

int tcr_watch_new(struct tcr_net *net)
{
    struct tcr_watch *w = calloc(1, sizeof *w);

    if (!w || !(w->peers = calloc((size_t)net->size, sizeof *w->peers))) {
        free(w);
        return tcr_fail(TCC_EENV, "no memory for communication");
    }
    for (int i = 0; i < net->size; i++)
        w->peers[i].waits_for = -1;
    for (int i = 0; i < net->size && !net->elastic && tcr_numbered_as_launched(net->rank, net->size); i++)
        w->peers[i].here = i != net->rank && tcr_look(i, &w->peers[i].process) != TCR_GONE;
    net->watch = w;
    return listen(net);
}

void tcr_watch_free(struct tcr_net *net)
{
    struct tcr_watch *w = net->watch;

    if (!w)
        return;
    tcr_msg_cancel(net, &w->listening);
    for (struct letter *l = w->letters, *next; l;
         l = next) { /* left only by a broken net: the library may still read them */
        next = l->next;
        if (!net->broken)
            free(l);
    }
    for (int i = 0; i < net->size; i++)
        free(w->peers[i].text);
    free(w->peers);
    if (!net->broken)
        free(w);
    net->watch = NULL;
}
