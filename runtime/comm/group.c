/* SPDX-License-Identifier: Apache-2.0 */
/* The world of processes, its beginning and end, groups, and what their ranks agree on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

static int zero;
static struct tccrt_comm alone = {.world = &alone, .size = 1, .ranks = &zero};
static struct tccrt_comm *the_world; /* NULL: not begun */

/* What an elastic world is begun anew with. joins: the job runs, and this process is none of its ranks yet. */
static struct {
    struct tccrt_comm_options options;
    struct tcr_choice choice;
    bool joins;
} elastic;

struct tccrt_comm *tcr_comm_alone(void)
{
    return &alone;
}

int tccrt_comm_rank(const struct tccrt_comm *c)
{
    return c->rank;
}

int tccrt_comm_size(const struct tccrt_comm *c)
{
    return c->size;
}

int tccrt_comm_world_rank(const struct tccrt_comm *c, int rank)
{
    return rank >= 0 && rank < c->size ? c->ranks[rank] : -1;
}

int tccrt_comm_local_rank(const struct tccrt_comm *c)
{
    return c->net ? c->net->local_rank : 0;
}

int tccrt_comm_local_size(const struct tccrt_comm *c)
{
    return c->net ? c->net->local_size : 1;
}

void tccrt_comm_alive(void)
{
    tcr_work++;
}

void tccrt_comm_timeout(struct tccrt_comm *c, double seconds)
{
    if (c->net)
        c->net->timeout = seconds > 0 ? seconds : c->net->first_timeout;
}

void tccrt_comm_abort(struct tccrt_comm *c, const char *why)
{
    if (!c->net)
        return;
    tcr_net_lock(c->net);
    tcr_net_break(c->net, true, "rank %d: %s", c->net->rank, why && *why ? why : "it failed");
    tcr_net_unlock(c->net);
}

/* -- The world ------------------------------------------------------------------------------------------------ */

static double limit_of(const struct tccrt_comm_options *o)
{
    return o->timeout > 0 ? o->timeout : tccrt_env_seconds("TCCC_COMM_TIMEOUT", 10);
}

static struct tccrt_comm *comm_new(int size)
{
    struct tccrt_comm *c = calloc(1, sizeof *c);

    if (c && !(c->ranks = calloc((size_t)size, sizeof *c->ranks))) {
        free(c);
        c = NULL;
    }
    if (!c)
        tcr_fail(TCC_EENV, "no memory for a group of %d ranks", size);
    else
        c->size = size;
    return c;
}

/* The world over the engine that was chosen. */
static int begin(const struct tccrt_comm_options *o, const struct tcr_choice *choice, const struct tcr_launch *from,
                 struct tccrt_comm **world)
{
    struct tccrt_comm *c;
    struct tcr_net *net;
    int status;

    if ((status = tcr_net_open(choice->engine, o, limit_of(o), from, &net)))
        return status;
    elastic.joins = !net;
    if (!net) {
        *world = the_world = &alone;
        return TCC_OK;
    }
    net->peers = choice->peers;
    net->exact = choice->exact;
    if (!(c = comm_new(net->size)))
        return TCC_EENV;
    c->net = net;
    c->world = c;
    c->rank = net->rank;
    c->next_id = 1;
    for (int i = 0; i < c->size; i++)
        c->ranks[i] = i;
    *world = the_world = c;
    return TCC_OK;
}

int tccrt_comm_init(const struct tccrt_comm_options *options, struct tccrt_comm **world)
{
    static const struct tccrt_comm_options defaults;
    const struct tccrt_comm_options *o = options ? options : &defaults;
    struct tcr_choice choice;
    int status;

    tcr_clear_error();
    *world = the_world;
    if (the_world)
        return TCC_OK;
    if ((status = tccrt_env_check()) || (status = tcr_engine_choose(o, &choice)))
        return status;
    if (!choice.engine) {
        *world = the_world = &alone;
        return TCC_OK;
    }
    if (o->elastic && choice.engine->launcher != TCR_LAUNCHER_VARIABLES)
        return tcr_fail(TCC_EUSAGE, "%s can't go on without a rank: an elastic world needs the engine ucx or sim",
                        choice.engine->title);
    elastic.options = *o;
    elastic.choice = choice;
    return begin(o, &choice, NULL, world);
}

int tccrt_comm_regroup(struct tccrt_comm **world, int least)
{
    struct tcr_launch from = {.least = least};
    struct tccrt_comm *c = *world;
    int status;

    tcr_clear_error();
    if (!c || c != the_world || (!elastic.joins && !(c->net && c->net->elastic)))
        return tcr_fail(TCC_EUSAGE, "regroup: this is no elastic world");
    if (atomic_load(&c->ngroups))
        return tcr_fail(TCC_EUSAGE, "regroup: %d groups are not freed", atomic_load(&c->ngroups));
    from.ready = elastic.joins;
    if (c->net) {
        tcr_peers_leave(c);
        from.before = tcr_net_leave(c->net);
        free(c->ranks);
        free(c);
    }
    *world = the_world = NULL;
    status = begin(&elastic.options, &elastic.choice, &from, world);
    tcr_meet_free(from.before);
    return status;
}

bool tccrt_comm_joins(const struct tccrt_comm *world)
{
    return world && world == the_world && elastic.joins;
}

int tccrt_comm_waiting(struct tccrt_comm *c)
{
    int n = 0;

    if (!c->net || !c->net->elastic)
        return 0;
    tcr_net_lock(c->net);
    n = tcr_meet_waiting(c->net->meeting);
    tcr_net_unlock(c->net);
    return n;
}

int tccrt_comm_broken(struct tccrt_comm *c)
{
    int status = TCC_OK;

    if (!c->net)
        return TCC_OK;
    tcr_net_lock(c->net);
    status = tcr_net_status(c->net);
    tcr_net_unlock(c->net);
    return status;
}

bool tccrt_comm_initialized(void)
{
    return the_world != NULL;
}

bool tccrt_comm_unguarded(const struct tccrt_comm *world)
{
    const char *secret = tccrt_env_text("TCCC_COMM_SECRET");

    return world && world->net && world->net->engine->launcher == TCR_LAUNCHER_VARIABLES && !(secret && *secret);
}

int tccrt_comm_finalize(struct tccrt_comm *world, const char *why)
{
    int status;

    tcr_clear_error();
    if (!world || world != the_world)
        return world ? tcr_fail(TCC_EUSAGE, "finalize: this is not the world") : TCC_OK;
    if (atomic_load(&world->ngroups))
        return tcr_fail(TCC_EUSAGE, "finalize: %d groups are not freed", atomic_load(&world->ngroups));
    the_world = NULL;
    if (!world->net)
        return TCC_OK;
    tcr_peers_leave(world);
    status = tcr_net_close(world->net, why);
    free(world->ranks);
    free(world);
    return status;
}

/* -- Groups --------------------------------------------------------------------------------------------------- */

#define SETUP_ID ((1u << (TCR_TAG_BITS - TCR_POINT_BITS)) - 1) /* of groups that are being made */

/* The members find a number that none of them has used, and compare their lists. */
static int agree_on_id(struct tccrt_comm *c)
{
    int64_t digest = (int64_t)(tcr_xxh3(c->ranks, (size_t)c->size * sizeof *c->ranks) >> 2);
    int64_t mine[3] = {c->world->next_id, digest, -digest}, most[3];
    struct tcc_tensor in = {mine, TCC_I64, 1, {3}}, out = {most, TCC_I64, 1, {3}};
    int status;

    c->id = SETUP_ID;
    c->turn = (uint32_t)digest;
    if ((status = tccrt_comm_all_reduce(c, TCCRT_MAX, 1, 1, &in, &out, NULL)))
        return status;
    if (most[1] != -most[2])
        return tcr_fail(TCC_EUSAGE, "group: the ranks list different members");
    c->world->next_id = most[0] + 1;
    c->id = (uint32_t)(most[0] % SETUP_ID);
    c->turn = 0;
    return TCC_OK;
}

static int check_ranks(const struct tccrt_comm *c, int n, const int *ranks, int *mine)
{
    *mine = -1;
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= c->size)
            return tcr_fail(TCC_EUSAGE, "group: rank %d out of range in a group of %d", ranks[i], c->size);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return tcr_fail(TCC_EUSAGE, "group: rank %d is listed twice", ranks[i]);
        if (ranks[i] == c->rank)
            *mine = i;
    }
    return n > 0 ? TCC_OK : tcr_fail(TCC_EUSAGE, "group: no ranks");
}

int tccrt_comm_group(struct tccrt_comm *c, int n, const int *ranks, struct tccrt_comm **out)
{
    struct tccrt_comm *g;
    int mine, status;

    *out = NULL;
    tcr_clear_error();
    c = tcr_hosts(c);
    if ((status = check_ranks(c, n, ranks, &mine)) || mine < 0)
        return status;
    if (!(g = comm_new(n)))
        return TCC_EENV;
    g->net = c->net;
    g->world = c->world;
    g->rank = mine;
    for (int i = 0; i < n; i++)
        g->ranks[i] = c->ranks[ranks[i]];
    if (n > 1 && (status = agree_on_id(g))) {
        free(g->ranks);
        free(g);
        return status;
    }
    atomic_fetch_add(&c->world->ngroups, 1);
    *out = g;
    return TCC_OK;
}

void tccrt_comm_free(struct tccrt_comm *g)
{
    if (!g || g == g->world)
        return;
    atomic_fetch_sub(&g->world->ngroups, 1);
    if (g->device) { /* the rest is its base's */
        tcr_peers_close(g);
        free(g);
        return;
    }
    tcr_peers_leave(g);
    free(g->ranks);
    free(g);
}

int tcr_groups_fold(struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;
    int ranks = s->device->ranks, parts = tccrt_tensor_parts(m), *numbers;
    uint32_t n = m->plan->groups.count;
    const char *divided = tcr_shard_group(m);

    if (!ranks)
        return TCC_OK;
    if (ranks % parts)
        return tcr_fail(TCC_EUSAGE, "sim: time,ranks=%d: model '%s' has %d parts of tensors", ranks, m->desc->name,
                        parts);
    if (n > TCR_MAX_GROUPS)
        return tcr_fail(TCC_EUSAGE, "session: more than %d groups", TCR_MAX_GROUPS);
    if (!(s->folded = calloc(1, n * sizeof *s->folded + (size_t)ranks * sizeof *numbers)))
        return tcr_fail(TCC_EENV, "no memory for groups of %d ranks", ranks);
    numbers = (int *)(s->folded + n);
    for (int i = 0; i < ranks; i++)
        numbers[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = tcr_string(m, m->groups[i].name);
        bool same = divided && !strcmp(name, divided), all = !strcmp(name, "world");

        s->folded[i] = (struct tccrt_comm){.world = &s->folded[i],
                                           .size = same  ? parts
                                                   : all ? ranks
                                                         : ranks / parts,
                                           .ranks = numbers};
        s->folded[i].rank = same ? s->tensor - 1 : 0;
        snprintf(s->groups[i].name, sizeof s->groups[i].name, "%s", name);
        s->groups[i].comm = &s->folded[i];
    }
    return tcr_owners_fold(s);
}

/* -- Agreement -------------------------------------------------------------------------------------------------- */

struct said {
    uint64_t digest;
    char text[120];
};

int tccrt_comm_agree(struct tccrt_comm *c, const char *what, const char *value)
{
    struct said mine = {.digest = tcr_xxh3(value, strlen(value))}, *all;
    struct tcc_tensor in = {&mine, TCC_U8, 1, {sizeof mine}}, out = {NULL, TCC_U8, 1, {(int64_t)sizeof mine * c->size}};
    int status;

    tcr_clear_error();
    c = tcr_hosts(c);
    if (c->size == 1)
        return TCC_OK;
    if (!(all = calloc((size_t)c->size, sizeof *all)))
        return tcr_fail(TCC_EENV, "no memory to compare %s", what);
    snprintf(mine.text, sizeof mine.text, "%s", value);
    out.data = all;
    status = tccrt_comm_all_gather(c, &in, &out, NULL, NULL);
    for (int i = 1; i < c->size && !status; i++)
        if (all[i].digest != all[0].digest)
            status = tcr_fail(TCC_EINPUT, "rank %d has another %s than rank %d: '%.119s', not '%.119s'", c->ranks[i],
                              what, c->ranks[0], all[i].text, all[0].text);
    free(all);
    return status;
}
