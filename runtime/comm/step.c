/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan's steps of communication: collectives, sends and receives, started or done, and waits. Groups are the
 * session's, by name; a session that was given none is alone. What is under way when a run fails is waited for before
 * the run ends, since the session's memory is in use until then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

static const char *node_of(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    return tcr_string(s->m, p->node);
}

static const struct tcc_pattr *find_attr(const struct tccrt_session *s, const struct tcc_pstep *p, const char *name,
                                         int kind)
{
    for (uint32_t i = 0; i < p->attrs.count; i++) {
        const struct tcc_pattr *a = &s->m->attrs[p->attrs.first + i];

        if ((int)a->kind == kind && a->n >= 1 && strcmp(tcr_string(s->m, a->name), name) == 0)
            return a;
    }
    return NULL;
}

static const char *string_attr(const struct tccrt_session *s, const struct tcc_pstep *p, const char *name,
                               const char *otherwise)
{
    const struct tcc_pattr *a = find_attr(s, p, name, TCC_ATTR_STRINGS);

    return a ? tcr_string(s->m, s->m->u32s[a->data]) : otherwise;
}

static double float_attr(const struct tccrt_session *s, const struct tcc_pstep *p, const char *name, double otherwise)
{
    const struct tcc_pattr *a = find_attr(s, p, name, TCC_ATTR_FLOATS);

    return a ? *(const double *)(s->m->bytes + a->data) : otherwise;
}

static int64_t int_attr(const struct tccrt_session *s, const struct tcc_pstep *p, const char *name, int64_t otherwise)
{
    const struct tcc_pattr *a = find_attr(s, p, name, TCC_ATTR_INTS);

    return a ? *(const int64_t *)(s->m->bytes + a->data) : otherwise;
}

/* -- Groups of a session -------------------------------------------------------------------------------- */

int tccrt_session_group(struct tccrt_session *s, const char *name, struct tccrt_comm *c)
{
    tcr_clear_error();
    c = tcr_hosts(c);
    if (!s || !name || strlen(name) >= sizeof s->groups[0].name)
        return tcr_fail(TCC_EUSAGE, "session: a group needs a name of at most %zu letters",
                        sizeof s->groups[0].name - 1);
    for (int i = 0; i < TCR_MAX_GROUPS; i++) {
        struct tcr_group *g = &s->groups[i];

        if (g->comm && strcmp(g->name, name))
            continue;
        if (!g->comm && c)
            for (int j = i + 1; j < TCR_MAX_GROUPS; j++) /* further down under the same name? */
                if (s->groups[j].comm && !strcmp(s->groups[j].name, name))
                    s->groups[j].comm = NULL;
        strcpy(g->name, name);
        g->comm = c;
        if (c)
            return tcr_owners_find(s);
    }
    return c ? tcr_fail(TCC_EUSAGE, "session: more than %d groups", TCR_MAX_GROUPS) : tcr_owners_find(s);
}

struct tccrt_comm *tcr_session_group(struct tccrt_session *s, const char *name)
{
    for (int i = 0; i < TCR_MAX_GROUPS; i++)
        if (s->groups[i].comm && strcmp(s->groups[i].name, name) == 0)
            return s->groups[i].comm;
    return NULL;
}

bool tccrt_uses_group(const struct tccrt_model *m, const char *name)
{
    for (uint32_t i = 0; m && name && i < m->plan->groups.count; i++)
        if (!strcmp(tcr_string(m, m->groups[i].name), name))
            return true;
    return false;
}

uint64_t tccrt_digest(const struct tccrt_model *m)
{
    if (!m)
        return 0;
    uint64_t parts[2] = {tcr_xxh3(m->plan, m->plan->size), m->desc->weights_digest};

    return tcr_xxh3(parts, sizeof parts);
}

uint64_t tccrt_session_digest(const struct tccrt_session *s)
{
    return s ? tccrt_digest(s->m) : 0;
}

/* -- State of all ranks -------------------------------------------------------------------------------------------- */

static bool all_zero(const uint8_t *at, uint64_t n)
{
    return !n || (at && !at[0] && !memcmp(at, at + 1, n - 1));
}

/* A state variable on its way from the root: where the host has it, and its own memory if that is not the session's. */
struct carried {
    const void *data;
    void *room;
};

/* What the root has of a variable: a value, zeros, or nothing, since another owns it and nobody has set it: it
 * stays. */
enum { CARRY_VALUE, CARRY_ZEROS, CARRY_NOTHING };

static int look_at_states(struct tccrt_session *s, struct carried *states, uint8_t *how)
{
    int status = tcr_states_make(s);

    for (uint32_t i = 0; i < s->m->plan->states.count && !status; i++) {
        how[i] = CARRY_NOTHING;
        if (!tcr_has_state(s, i) && tcr_is_elsewhere(s, i))
            continue;
        status = tcr_state_on_host(s, i, &states[i].room, &states[i].data);
        how[i] = all_zero(states[i].data, s->m->states[i].bytes) ? CARRY_ZEROS : CARRY_VALUE;
    }
    return status;
}

/* What the root has, to everybody, or to the owner. */
static int share_states(struct tccrt_comm *c, int root, struct tccrt_session *s, struct carried *states, uint8_t *how,
                        struct tcc_tensor *list)
{
    uint32_t n = 0, count = s->m->plan->states.count;
    int64_t random[2] = {(int64_t)s->seed, s->runs};
    struct tcc_tensor flags = {how, TCC_U8, 1, {count}};
    int status = look_at_states(s, states, how);

    if (!status)
        status = tccrt_comm_broadcast(c, root, 1, &flags, NULL);
    for (uint32_t i = 0; i < count && !status; i++) {
        const struct tcc_pstate *p = &s->m->states[i];
        bool gradient = p->flags & TCCRT_STATE_GRADIENT, owned = p->owner != TCC_NO && s->owner[p->owner].known;

        if (gradient || p->flags & TCCRT_STATE_LOCAL || !tcr_has_stage(s, p->owner_stage) || how[i] == CARRY_NOTHING)
            continue;
        if (how[i] == CARRY_ZEROS && !tcr_is_elsewhere(s, i)) {
            if (!all_zero(states[i].data, p->bytes)) /* other zeros stay memory that nobody has touched */
                status = tcr_state_zero(s, i);
        } else if (owned) {
            status = tcr_state_carry(c, s, i, root);
        } else if (how[i] == CARRY_VALUE) {
            list[n++] = (struct tcc_tensor){(void *)states[i].data, TCC_U8, 1, {(int64_t)p->bytes}};
        }
    }
    if (!status)
        list[n++] = (struct tcc_tensor){random, TCC_I64, 1, {2}};
    status = status ? status : tccrt_comm_broadcast(c, root, (int)n, list, NULL);
    for (uint32_t i = 0; i < count && !status; i++)
        if (states[i].room && how[i] == CARRY_VALUE && s->m->states[i].owner == TCC_NO &&
            !(s->m->states[i].flags & (TCCRT_STATE_GRADIENT | TCCRT_STATE_LOCAL)))
            status = tcr_state_write(s, i, states[i].room);
    if (!status)
        tccrt_random_set(s, (uint64_t)random[0], random[1]);
    return status;
}

int tccrt_comm_state(struct tccrt_comm *c, int root, struct tccrt_session *s)
{
    if (!c || !s)
        return tcr_fail(TCC_EUSAGE, "a group and a session are required, got NULL");
    uint32_t count = s->m->plan->states.count;
    struct tcc_tensor *list = calloc(count + 1, sizeof *list);
    struct carried *states = calloc(count + 1, sizeof *states);
    uint8_t *zeros = calloc(count + 1, 1);
    int status;

    tcr_clear_error();
    c = tcr_hosts(c);
    if (!list || !zeros || !states)
        status = tcr_fail(TCC_EENV, "no memory for a list of state variables");
    else
        status = share_states(c, root, s, states, zeros, list);
    for (uint32_t i = 0; states && i < count; i++)
        free(states[i].room);
    free(states);
    free(list);
    free(zeros);
    return status;
}

struct tccrt_comm *tcr_step_group(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    const char *name = tcr_string(s->m, s->m->groups[p->group].name);

    for (int i = 0; i < TCR_MAX_GROUPS; i++)
        if (s->groups[i].comm && strcmp(s->groups[i].name, name) == 0)
            return s->groups[i].comm;
    return tcr_comm_alone();
}

/* -- Steps ------------------------------------------------------------------------------------------------ */

static int named(struct tccrt_session *s, const struct tcc_pstep *p, int status)
{
    char text[400];

    if (status) {
        snprintf(text, sizeof text, "%s", tccrt_error());
        tcr_fail(status, "node '%s': %s", node_of(s, p), text);
    }
    return status;
}

/* What the step started goes on: so do its views of the device's memory. */
static int started(struct tccrt_session *s, const struct tcc_pstep *p, size_t views)
{
    if (p->queue && s->requests[p->queue])
        tcr_views_until(s, views, p->queue);
    return TCC_OK;
}

/* Where the handle of what the step starts goes; NULL: it is done when the step ends. */
static int slot_of(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_request ***out)
{
    *out = p->queue ? &s->requests[p->queue] : NULL;
    if (*out && **out) { /* a queue's steps run in their order */
        int status = tcr_await(s, s->started[p->queue]);

        if (status)
            return status;
    }
    s->started[p->queue] = (uint32_t)(p - s->m->steps);
    s->started_at[p->queue] = tcr_now();
    return TCC_OK;
}

static int is_owner(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c,
                    const struct tcc_tensor *t)
{
    int *owners, status = tcr_step_owners(c, s->m, p, &owners);

    for (uint32_t i = 0; i < p->args.count && !status; i++)
        *(uint8_t *)t[i].data = owners[i] == c->rank;
    free(owners);
    return status;
}

static int members_of(const struct tccrt_session *s, const struct tcc_pstep *p, const char *what, struct tcr_members *m)
{
    const struct tcc_pattr *bytes = find_attr(s, p, "bytes", TCC_ATTR_INTS),
                           *at = find_attr(s, p, "members", TCC_ATTR_INTS);

    *m = (struct tcr_members){.n = (int)p->nin};
    if (!bytes || !at || at->n != p->nin)
        return tcr_fail(TCC_EINPUT, "%s: its lists are missing", what);
    m->nall = (int)bytes->n;
    m->bytes = (const int64_t *)(s->m->bytes + bytes->data);
    m->at = (const int64_t *)(s->m->bytes + at->data);
    for (int i = 0; i < m->n; i++)
        if (m->at[i] < 0 || m->at[i] >= m->nall)
            return tcr_fail(TCC_EINPUT, "%s: tensor %lld out of range", what, (long long)m->at[i]);
    return TCC_OK;
}

static int reduce_owned(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c, int how, double scale,
                        const struct tcc_tensor *t, struct tccrt_request **request)
{
    struct tcr_members m;
    int status = members_of(s, p, "reduce_owned", &m);

    return status ? status : tcr_comm_reduce_owned(c, how, scale, &m, t, t + m.n, request);
}

/* Of the list of operands itself, or of the one of which they are members. */
static int share(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c, const struct tcc_tensor *t,
                 struct tccrt_request **request)
{
    bool listed = find_attr(s, p, "bytes", TCC_ATTR_INTS) != NULL;
    struct tcr_members m;
    int status = listed ? members_of(s, p, "broadcast_from_owner", &m) : TCC_OK;

    return status ? status : tcr_comm_share(c, (int)p->nin, listed ? &m : NULL, t, t + p->nin, request);
}

/* Elements of the parts whose rows an attribute lists. False: it lists another number of ranks than there are. */
static bool parts_of(const struct tccrt_session *s, const struct tcc_pattr *rows, const struct tcc_tensor *t, int ranks,
                     int64_t *counts)
{
    int64_t row = 1;

    if (rows->n != (uint32_t)ranks)
        return false;
    for (int i = 1; i < t->rank; i++)
        row *= t->dims[i];
    for (int i = 0; i < ranks; i++)
        counts[i] = ((const int64_t *)(s->m->bytes + rows->data))[i] * row;
    return true;
}

static int all_to_all(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c,
                      const struct tcc_tensor *t, struct tccrt_request **request)
{
    const struct tcc_pattr *give = find_attr(s, p, "give", TCC_ATTR_INTS),
                           *take = find_attr(s, p, "take", TCC_ATTR_INTS);
    bool next = !strcmp(string_attr(s, p, "mode", ""), "next");
    int64_t *counts;
    int status;

    if (!next && (!give || !take))
        return tccrt_comm_all_to_all(c, t, NULL, t + 1, NULL, request);
    if (!(counts = calloc(2 * (size_t)c->size, sizeof *counts)))
        return tcr_fail(TCC_EENV, "no memory for the parts of all_to_all");
    if (next) {
        counts[(c->rank + 1) % c->size] = tcr_elements(t->dtype, t->rank, t->dims);
        counts[c->size + (c->rank + c->size - 1) % c->size] = tcr_elements(t->dtype, t->rank, t->dims);
        status = tccrt_comm_all_to_all(c, t, counts, t + 1, counts + c->size, request);
    } else if (!parts_of(s, give, t, c->size, counts) || !parts_of(s, take, t + 1, c->size, counts + c->size))
        status = tcr_fail(TCC_EINPUT, "all_to_all: parts for %u ranks, in a group of %d", give->n, c->size);
    else
        status = tccrt_comm_all_to_all(c, t, counts, t + 1, counts + c->size, request);
    free(counts);
    return status;
}

static int64_t bytes_of(const struct tcc_tensor *t, uint32_t n)
{
    int64_t bytes = 0;

    for (uint32_t i = 0; i < n; i++)
        bytes += tcr_elements(t[i].dtype, t[i].rank, t[i].dims) * tcr_dtype_bytes(t[i].dtype);
    return bytes;
}

static int run_collective(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c,
                          const struct tcc_tensor *t, struct tccrt_request **request)
{
    int n = (int)p->nin, how = tcr_reduction_by_name(string_attr(s, p, "mode", "sum"));
    double scale = float_attr(s, p, "scale", 1);
    int root = (int)int_attr(s, p, "root", 0), status = TCC_OK;

    switch (p->what) {
    case TCC_ALL_REDUCE: return tccrt_comm_all_reduce(c, how, scale, n, t, t + n, request);
    case TCC_REDUCE: return tccrt_comm_reduce(c, how, scale, root, n, t, t + n, request);
    case TCC_BROADCAST:
        for (int i = 0; i < n && !status && tccrt_comm_rank(c) == root; i++) /* in place at the root too */
            status = tcr_comm_copy(c->device, c->queue, t[n + i].data, t[i].data, (size_t)bytes_of(&t[i], 1));
        return status ? status : tccrt_comm_broadcast(c, root, n, t + n, request);
    case TCC_ALL_GATHER: return tccrt_comm_all_gather(c, t, t + 1, NULL, request);
    case TCC_REDUCE_SCATTER: return tccrt_comm_reduce_scatter(c, how, scale, t, t + 1, NULL, request);
    case TCC_BROADCAST_FROM_OWNER: return share(s, p, c, t, request);
    case TCC_IS_OWNER: return is_owner(s, p, c, t);
    case TCC_REDUCE_OWNED: return reduce_owned(s, p, c, how, scale, t, request);
    case TCC_ALL_TO_ALL: return all_to_all(s, p, c, t, request);
    case TCC_VOTE: return tcr_vote_begin(s, p, c, request);
    default: return tccrt_comm_barrier(c, request);
    }
}

/* On a device that models time a collective begins when the last rank is there. */
static int model_collective(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c,
                            const struct tcc_tensor *t)
{
    const struct tcr_device_ops *ops = s->device->ops;
    double now;
    struct tcc_tensor clock = {&now, TCC_F64, 1, {1}};
    int status = TCC_OK;

    if (!ops->collective || p->what == TCC_IS_OWNER)
        return TCC_OK;
    now = ops->clock(s->device);
    if (c->size > 1)
        status = tccrt_comm_all_reduce(c, tcr_reduction_by_name("max"), 1, 1, &clock, &clock, NULL);
    if (status)
        return status;
    /* all_gather: what it gives; the others: what they take */
    ops->collective(s->device, (int)p->queue, (enum tcc_collective)p->what, c->size,
                    p->what == TCC_ALL_GATHER ? bytes_of(t + p->nin, p->args.count - p->nin) : bytes_of(t, p->nin), now,
                    node_of(s, p));
    if (!p->queue)
        ops->collected(s->device, 0);
    return TCC_OK;
}

/* -- On the device itself */

static bool lies_there(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    for (uint32_t i = 0; i < p->args.count; i++) {
        uint32_t b = s->m->u32s[p->args.first + i];

        if (!tcr_memory(s, b) || s->m->buffers[b].space == TCC_SPACE_OBJECT)
            return false;
    }
    return p->args.count > 0;
}

/* May the device's own library do it? What ranks agree about stays with their hosts. */
static int by_peers(struct tccrt_session *s, const struct tcc_pstep *p, bool *is)
{
    struct tccrt_comm *c = tcr_step_group(s, p);
    bool hosts = p->what == TCC_VOTE || p->what == TCC_IS_OWNER || p->what == TCC_BARRIER;

    *is = false;
    if (!s->discrete || !s->device->ops->peers || hosts || c->size < 2 || !lies_there(s, p))
        return TCC_OK;
    return tcr_peers_of(c, s->device, is);
}

/* In the order of its queue, for which others wait by its event: the host waits for nothing. */
static int collective_there(struct tccrt_session *s, const struct tcc_pstep *p, struct tcc_tensor *t)
{
    struct tccrt_comm *c = tcr_step_group(s, p), on = *c;
    int status = TCC_OK;

    on.base = c;
    on.device = s->device;
    on.queue = s->ordered && s->m->queues[p->queue].memory ? (int)p->queue : 0;
    on.node = node_of(s, p);
    for (uint32_t i = 0; !status && i < p->args.count; i++)
        status = tcr_buffer_tensor(s, s->m->u32s[p->args.first + i], node_of(s, p), &t[i]);
    s->exchanging = c->net;
    return status ? status : run_collective(s, p, &on, t, NULL);
}

int tcr_step_collective(struct tccrt_session *s, const struct tcc_pstep *p)
{
    struct tcc_tensor few[32], *t = few;
    struct tccrt_request **request;
    size_t views = s->nviews;
    bool there = false;
    int status = slot_of(s, p, &request);

    if (!status)
        status = named(s, p, by_peers(s, p, &there));
    s->carries = p->what != TCC_IS_OWNER;
    if (!status && p->args.count > sizeof few / sizeof *few && !(t = malloc(p->args.count * sizeof *t)))
        status = tcr_fail(TCC_EENV, "node '%s': no memory for a list of tensors", node_of(s, p));
    for (uint32_t i = 0; !status && !there && i < p->args.count; i++)
        status = tcr_host_tensor(s, s->m->u32s[p->args.first + i], node_of(s, p), i < p->nin ? TCC_READS : TCC_WRITES,
                                 &t[i]);
    s->carries = false;
    if (!status)
        status =
            named(s, p, there ? collective_there(s, p, t) : run_collective(s, p, tcr_step_group(s, p), t, request));
    if (!status)
        status = named(s, p, model_collective(s, p, tcr_step_group(s, p), t));
    if (t != few)
        free(t);
    if (!status && p->what == TCC_VOTE && !(p->queue && s->requests[p->queue]))
        status = tcr_vote_end(s, p, tcr_step_group(s, p));
    if (!status)
        status = started(s, p, views);
    return status ? status : tcr_commit(s, p, tcr_step_group(s, p));
}

/* SEND, RECV */
int tcr_step_message(struct tccrt_session *s, const struct tcc_pstep *p)
{
    const uint32_t *size = s->m->u32s + p->sizes.first;
    struct tccrt_request **request;
    struct tccrt_comm *c = tcr_step_group(s, p);
    struct tcc_tensor t;
    int64_t peer, tag;
    size_t views = s->nviews;
    int status = slot_of(s, p, &request);

    if (status ||
        (status = tcr_host_tensor(s, s->m->u32s[p->args.first], node_of(s, p),
                                  p->kind == TCC_STEP_SEND ? TCC_READS : TCC_WRITES, &t)) ||
        (status = tcr_size(s, size[0], "peer", node_of(s, p), &peer)) ||
        (status = tcr_size(s, size[1], "tag", node_of(s, p), &tag)))
        return status;
    if (peer > INT32_MAX || tag > INT32_MAX)
        return tcr_fail(TCC_EBUG, "node '%s': no rank %lld, or no tag %lld", node_of(s, p), (long long)peer,
                        (long long)tag);
    status = named(s, p,
                   (p->kind == TCC_STEP_SEND ? tccrt_comm_send : tccrt_comm_recv)(c, (int)peer, (int)tag, &t, request));
    return status ? status : started(s, p, views);
}

/* What came over the network goes to the device, in the step's queue; what waits for the step waits for that. */
static int arrived(struct tccrt_session *s, const struct tcc_pstep *p, int status)
{
    int queue = s->queue;
    uint32_t event;

    if (!s->ordered || !s->m->queues[p->queue].memory)
        return tcr_views_done(s, p->queue, status);
    s->queue = (int)p->queue;
    status = tcr_views_done(s, p->queue, status);
    s->queue = queue;
    event = s->event_of[p - s->m->steps];
    return status || !event ? status : s->device->ops->record(s->device, (int)p->queue, event - 1);
}

int tcr_await(struct tccrt_session *s, uint32_t step)
{
    const struct tcc_pstep *p = &s->m->steps[step];
    struct tccrt_request *r = s->requests[p->queue];
    double begin, ended = 0;
    int status;

    if (!r || s->started[p->queue] != step) /* a later one of its queue runs: it has ended */
        return TCC_OK;
    s->requests[p->queue] = NULL;
    begin = tcr_now();
    status = tcr_request_wait(r, &ended);
    tcr_profile_wait(s, step, tcr_now() - begin);
    if (ended > s->started_at[p->queue])
        tcr_profile_aside(s, step, s->started_at[p->queue], ended);
    status = named(s, p, status);
    if (!status && p->kind == TCC_STEP_COLLECTIVE && s->device->ops->collected)
        s->device->ops->collected(s->device, (int)p->queue);
    if (!status && p->kind == TCC_STEP_COLLECTIVE && p->what == TCC_VOTE)
        status = tcr_vote_end(s, p, tcr_step_group(s, p));
    return s->discrete ? arrived(s, p, status) : status;
}

int tcr_await_list(struct tccrt_session *s, struct tcc_range steps)
{
    int status = TCC_OK;

    for (uint32_t q = 1; q < s->max_queues && !status; q++)
        if (s->requests[q] && s->started[q] - steps.first < steps.count)
            status = tcr_await(s, s->started[q]);
    return status;
}

/* A run that failed may leave something under way. */
void tcr_drain(struct tccrt_session *s, int status)
{
    char text[512];

    if (status)
        snprintf(text, sizeof text, "%s", tccrt_error());
    for (uint32_t q = 0; q < s->max_queues; q++) {
        if (!s->requests[q])
            continue;
        tccrt_comm_wait(s->requests[q]);
        s->requests[q] = NULL;
        if (status)
            tcr_fail(status, "%s", text);
    }
}
