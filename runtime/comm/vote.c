/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vote.c - no rank writes state where another has failed: the plan's VOTE, the first phase of a two-phase commit (Gray,
 * Notes on data base operating systems, 1978). Each rank's status so far is reduced to the largest; if it is not
 * TCC_OK, the first rank that has it sends its message, and every rank's run fails with both. State is written behind
 * the vote only (ir/plan/verify.c), so it is what it was on all ranks, and the next run may go on.
 *
 * A rank whose run has failed earlier takes part in what communication the others still do in front of the vote, with
 * whatever its buffers hold: it knows sizes and order, as its plan is theirs. What it can't follow, communication
 * within a branch or a loop, ends the group (tccrt_comm_abort).
 *
 * In an elastic world the second phase is made sure of, too: behind the last step that communicates a rank waits for
 * all that is under way, and then for all others to have got as far. So when a rank dies the state of each of the
 * others is that of before or behind the step, and of some of them that of behind it only if all have what it takes.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

static bool is_vote(const struct tcc_pstep *p)
{
    return p->kind == TCC_STEP_COLLECTIVE && p->what == TCC_VOTE;
}

static bool communicates(const struct tcc_pstep *p)
{
    return (p->kind == TCC_STEP_COLLECTIVE && p->what != TCC_IS_OWNER) || p->kind == TCC_STEP_SEND ||
           p->kind == TCC_STEP_RECV;
}

static bool regions_have(const struct tccrt_model *m, const struct tcc_pstep *p, bool (*is)(const struct tcc_pstep *));

/* Is one of the steps so, or in their regions? */
static bool some_step(const struct tccrt_model *m, struct tcc_range steps, bool (*is)(const struct tcc_pstep *))
{
    for (uint32_t i = 0; i < steps.count; i++) {
        const struct tcc_pstep *p = &m->steps[steps.first + i];

        if (is(p) || regions_have(m, p, is))
            return true;
    }
    return false;
}

static bool regions_have(const struct tccrt_model *m, const struct tcc_pstep *p, bool (*is)(const struct tcc_pstep *))
{
    for (uint32_t r = 0; r < p->regions.count; r++)
        if (some_step(m, m->regions[p->regions.first + r].steps, is))
            return true;
    return false;
}

/* -- The vote ------------------------------------------------------------------------------------------- */

int tcr_vote_begin(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c,
                   struct tccrt_request **request)
{
    int64_t *vote = &s->votes[p->queue];
    struct tcc_tensor t = {vote, TCC_I64, 1, {1}};
    int status;

    if (c->size < 2)
        return TCC_OK;
    /* A device that was given its work without queues of the plan's: what it has met shows when it is done. */
    if (s->discrete && !s->ordered && !s->failed && (status = tcr_sync(s)))
        return status;
    s->voting = 1 + (uint32_t)(p - s->m->steps);
    *vote = s->failed ? ((int64_t)s->failed << 32) + (INT32_MAX - c->rank) : 0;
    return tccrt_comm_all_reduce(c, TCCRT_MAX, 1, 1, &t, &t, request);
}

int tcr_vote_end(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c)
{
    int64_t vote = s->votes[p->queue];
    char text[sizeof s->failure] = "";
    struct tcc_tensor t = {text, TCC_U8, 1, {sizeof text}};
    int rank = INT32_MAX - (int)(vote & INT32_MAX), status;

    if (c->size < 2 || !vote)
        return TCC_OK;
    if (rank == c->rank)
        memcpy(text, s->failure, sizeof text);
    if ((status = tccrt_comm_broadcast(c, rank, 1, &t, NULL)))
        return status;
    text[sizeof text - 1] = 0;
    return tcr_fail((int)(vote >> 32), "rank %d: %s", tccrt_comm_world_rank(c, rank), text);
}

/* -- Elastic worlds ------------------------------------------------------------------------------------------- */

static bool is_last(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    uint32_t at = (uint32_t)(p - s->m->steps);

    for (uint32_t i = 0; i < s->m->plan->entries.count; i++) {
        struct tcc_range steps = s->m->entries[i].steps;
        bool last = at - steps.first < steps.count;

        for (uint32_t k = at + 1; last && k < steps.first + steps.count; k++)
            last = !communicates(&s->m->steps[k]);
        if (last)
            return true;
    }
    return false;
}

int tcr_commit(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c)
{
    int status = TCC_OK;

    if (!c->net || !c->net->elastic || c->size < 2 || !is_last(s, p))
        return TCC_OK;
    for (uint32_t q = 0; q < s->max_queues && !status; q++)
        if (s->requests[q])
            status = tcr_await(s, s->started[q]);
    if (!status && s->discrete)
        status = tcr_sync(s);
    return status ? status : tccrt_comm_barrier(c, NULL);
}

static bool is_of_owners(const struct tcc_pstep *p)
{
    return p->kind == TCC_STEP_COLLECTIVE && (p->what == TCC_BROADCAST_FROM_OWNER || p->what == TCC_REDUCE_OWNED);
}

int tccrt_comm_commits(const struct tccrt_model *m, const char *entry)
{
    const struct tcc_pentry *e = m && entry ? tcr_find_entry(m, entry) : NULL;

    tcr_clear_error();
    if (!e)
        return tcr_fail(TCC_EUSAGE, "no entry point '%s'", entry ? entry : "");
    if (tccrt_stages(m) > 1 || tccrt_tensor_parts(m) > 1)
        return tcr_fail(TCC_EUSAGE, "a rank has a part of the model (--partitions, --tensor-parallel), which is lost "
                                    "when it dies: train without --elastic, with --checkpoint, and start all ranks "
                                    "again with --resume");
    return TCC_OK;
}

bool tccrt_comm_divides(const struct tccrt_model *m, const char *entry)
{
    const struct tcc_pentry *e = m && entry ? tcr_find_entry(m, entry) : NULL;

    return e && some_step(m, e->steps, is_of_owners);
}

/* -- A run that has failed -------------------------------------------------------------------------------- */

/* The first vote from step `at` of the list on that has not begun; NULL: there is none. */
static const struct tcc_pstep *next_vote(const struct tccrt_session *s, struct tcc_range steps, uint32_t at)
{
    for (uint32_t i = at; i < steps.first + steps.count; i++)
        if (is_vote(&s->m->steps[i]) && s->voting != i + 1)
            return &s->m->steps[i];
    return NULL;
}

static bool waits_for(const struct tccrt_session *s, const struct tcc_pstep *p, uint32_t step)
{
    for (uint32_t i = 0; i < p->waits.count; i++)
        if (s->m->u32s[p->waits.first + i] == step)
            return true;
    return false;
}

/* The communication of one step, and what it has to wait for. */
static int take_part(struct tccrt_session *s, const struct tcc_pstep *p)
{
    int status = TCC_OK;

    if (p->kind == TCC_STEP_EVAL)
        tcr_eval_level(s, p->what);
    if (!communicates(p))
        return TCC_OK;
    for (uint32_t i = 0; i < p->waits.count && !status; i++)
        status = tcr_await(s, s->m->u32s[p->waits.first + i]);
    if (!status)
        status = p->kind == TCC_STEP_COLLECTIVE ? tcr_step_collective(s, p) : tcr_step_message(s, p);
    return status;
}

/* Steps from `first` on, up to the first that waits for the vote. */
static int go_on(struct tccrt_session *s, struct tcc_range steps, uint32_t first, uint32_t vote,
                 struct tccrt_comm *group)
{
    uint32_t end = steps.first + steps.count;
    int status = TCC_OK;

    for (uint32_t i = first; i < end && !status; i++) {
        const struct tcc_pstep *p = &s->m->steps[i];

        if (i > vote && waits_for(s, p, vote))
            break;
        if (regions_have(s->m, p, communicates)) {
            tccrt_comm_abort(group, s->failure);
            return TCC_EENV;
        }
        status = take_part(s, p);
    }
    return status ? status : tcr_await(s, vote);
}

int tcr_vote_failed(struct tccrt_session *s, struct tcc_range steps, int status)
{
    const struct tcc_pstep *at = &s->m->steps[s->failed_at], *vote = next_vote(s, steps, s->failed_at);
    struct tccrt_comm *group = vote ? tcr_step_group(s, vote) : NULL;
    bool lost = status == TCC_EENV && communicates(at); /* the others are gone, not their data */
    int queue = s->queue, voted;

    if (!vote || group->size < 2 || lost)
        return status;
    s->failed = status;
    snprintf(s->failure, sizeof s->failure, "%s", tccrt_error());
    s->queue = 0;
    if (s->discrete) { /* its fault is known: from here on it only carries data */
        tcr_sync(s);
        s->device->ops->begin(s->device, &(struct tcr_control){.seed = s->seed, .run = s->runs});
    }
    if (regions_have(s->m, at, communicates))
        tccrt_comm_abort(group, s->failure);
    else {
        voted = go_on(s, steps, s->failed_at + !communicates(at), (uint32_t)(vote - s->m->steps), group);
        if (voted == status) /* every rank says it in the same words */
            snprintf(s->failure, sizeof s->failure, "%s", tccrt_error());
    }
    s->queue = queue;
    s->failed = TCC_OK;
    return tcr_fail(status, "%s", s->failure);
}
