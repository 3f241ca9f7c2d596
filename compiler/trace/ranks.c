/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks.c - contexts of many processes: the world that mpirun started and its groups, state that all have in common,
 * state that stages have of their own, and compiling once on each machine.
 *
 * Processes of a machine share a cache folder; who finds no compiled graph there takes its lock and compiles, the
 * others wait for the lock and then find it. Whoever compiles is not taken for hanging: a thread says so meanwhile.
 */
#include "compiler/trace/trace_int.h"
#include "base/grow.h"
#include "base/safe.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SEED_STEP 0x9e3779b97f4a7c15u /* between the random numbers of copies */

struct trace_world {
    struct tccrt_comm *comm;
    int ngroups;
    struct group {
        char name[16];
        struct tccrt_comm *comm; /* NULL: this process is no member */
    } * groups;
    pthread_t ticker;
    bool ticking;
    atomic_bool busy, quit;
    struct tcr_scratch folder; /* of compiled graphs, for this run */
    bool first;                /* of this machine's processes */
};

static const struct group *group_by_name(const struct trace_ctx *c, const char *name)
{
    for (int i = 0; c->world && i < c->world->ngroups; i++)
        if (!strcmp(c->world->groups[i].name, name))
            return &c->world->groups[i];
    return NULL;
}

struct tccrt_comm *trace_comm(const struct trace_ctx *c, const char *group)
{
    const struct group *g = group_by_name(c, group);
    return g && g->comm && tccrt_comm_size(g->comm) > 1 ? g->comm : NULL;
}

int trace_group_rank(const struct trace_ctx *c, const char *name)
{
    const struct group *g = group_by_name(c, name);
    return !g ? 0 : g->comm ? tccrt_comm_rank(g->comm) : -1;
}

int trace_group_size(const struct trace_ctx *c, const char *name)
{
    const struct group *g = group_by_name(c, name);
    return g && g->comm ? tccrt_comm_size(g->comm) : 1;
}

int trace_comm_failed(struct trace_ctx *c, int status)
{
    return trace_fail(c, status, "%s", tccrt_error());
}

static int unknown_group(struct trace_ctx *c, const char *what, const char *name)
{
    struct ir_known known = {.near.word = name};

    for (int i = 0; c->world && i < c->world->ngroups; i++)
        ir_known_add(&known, c->world->groups[i].name);
    return trace_fail(c, TCC_EUSAGE, "%s: unknown group '%s'%s", what, name, ir_known_text(&known));
}

int trace_check_group(struct trace_ctx *c, const char *what, const char *name)
{
    bool usual = !strcmp(name, "dp") || !strcmp(name, "pp") || !strcmp(name, "world"); /* of one where nobody joined */
    if (!group_by_name(c, name) && !usual)
        return unknown_group(c, what, name);
    if (trace_group_rank(c, name) < 0)
        return trace_fail(c, TCC_EUSAGE, "%s: this process is no member of group '%s'", what, name);
    return TCC_OK;
}

/* -- Groups --------------------------------------------------------------------------------------------------- */

static int add_group(struct trace_ctx *c, const char *name, struct tccrt_comm *comm)
{
    struct trace_world *w = c->world;
    if (!ONE_MORE(w->groups, w->ngroups))
        return trace_no_memory(c);
    w->groups[w->ngroups] = (struct group){.comm = comm};
    strcpy(w->groups[w->ngroups++].name, name);
    return TCC_OK;
}

int trace_group(struct trace_ctx *c, const char *name, int n, const int *ranks)
{
    struct tccrt_comm *comm = NULL;
    if (c->status)
        return c->status;
    if (!c->world)
        return trace_fail(c, TCC_EUSAGE, "group: the context has not joined the other processes");
    if (!*name || strlen(name) >= sizeof c->world->groups->name || group_by_name(c, name))
        return trace_fail(c, TCC_EUSAGE, "group: '%s' is too long a name, or taken", name);
    if (c->generation > 1 || c->graph.ctx)
        return trace_fail(c, TCC_EUSAGE, "group: groups are made before anything is recorded");
    int status = tccrt_comm_group(c->world->comm, n, ranks, &comm);
    return status ? trace_comm_failed(c, status) : add_group(c, name, comm);
}

/* `count` ranks from `first`, `step` apart. */
static int add_row(struct trace_ctx *c, const char *name, int first, int step, int count)
{
    int *ranks = calloc((size_t)count, sizeof *ranks);
    struct tccrt_comm *comm = NULL;
    if (!ranks)
        return trace_no_memory(c);
    for (int i = 0; i < count; i++)
        ranks[i] = first + i * step;
    int status = tccrt_comm_group(c->world->comm, count, ranks, &comm);
    free(ranks);
    return status ? trace_comm_failed(c, status) : add_group(c, name, comm);
}

/* Stages of a copy are neighbours. */
static int make_groups(struct trace_ctx *c, int stages)
{
    int size = tccrt_comm_size(c->world->comm), rank = tccrt_comm_rank(c->world->comm);
    if (add_group(c, "world", c->world->comm) || size == 1)
        return c->status;
    if (size % stages)
        return trace_fail(c, TCC_EINPUT, "%d stages run on 1 process, or %d, %d, %d...; not on %d", stages, stages,
                          2 * stages, 3 * stages, size);
    if (stages == 1)
        return add_group(c, "dp", c->world->comm);
    return add_row(c, "pp", rank - rank % stages, 1, stages) ? c->status
                                                             : add_row(c, "dp", rank % stages, stages, size / stages);
}

int trace_session_groups(struct trace_ctx *c, struct tccrt_session *s)
{
    int status = TCC_OK;
    for (int i = 0; c->world && i < c->world->ngroups && !status; i++)
        if (c->world->groups[i].comm)
            status = tccrt_session_group(s, c->world->groups[i].name, c->world->groups[i].comm);
    return status;
}

/* -- Compiling ------------------------------------------------------------------------------------------------ */

static void *tick(void *arg)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    struct trace_world *w = arg;
    while (!w->quit) {
        if (w->busy)
            tccrt_comm_alive();
        nanosleep(&pause, NULL);
    }
    return NULL;
}

void trace_busy(struct trace_ctx *c, bool busy)
{
    if (c->world)
        c->world->busy = busy;
}

struct place {
    char host[64];
    int32_t local_rank;
    char folder[300];
};

/* A folder that the machine's processes share, made by the first of them. */
static int share_folder(struct trace_ctx *c)
{
    struct trace_world *w = c->world;
    int size = tccrt_comm_size(w->comm), status = TCC_OK;
    struct place mine = {.local_rank = tccrt_comm_local_rank(w->comm)}, *all = calloc((size_t)size, sizeof *all);
    struct tcc_tensor in = {&mine, TCC_U8, 1, {sizeof mine}}, out = {all, TCC_U8, 1, {(int64_t)sizeof mine * size}};
    if (!all)
        return trace_no_memory(c);
    gethostname(mine.host, sizeof mine.host - 1);
    if (w->first && (tcr_scratch_make(&w->folder, NULL, "tccc-job-") || strlen(w->folder.path) >= sizeof mine.folder))
        status = trace_fail(c, TCC_EENV, "%s: cannot make a temporary folder: %m", tcr_temporary());
    else if (w->first)
        memcpy(mine.folder, w->folder.path, strlen(w->folder.path) + 1);
    if (!status && (status = tccrt_comm_all_gather(w->comm, &in, &out, NULL, NULL)))
        trace_comm_failed(c, status);
    for (int i = 0; !status && i < size; i++)
        if (!all[i].local_rank && !strncmp(all[i].host, mine.host, sizeof mine.host)) {
            free(c->cache_dir);
            if (!(c->cache_dir = strdup(all[i].folder)))
                status = trace_no_memory(c);
        }
    free(all);
    return status;
}

/* -- The world ---------------------------------------------------------------------------------------------------- */

static atomic_bool world_taken; /* contexts join one at a time */

int trace_join(struct trace_ctx *c, int stages)
{
    if (c->status)
        return c->status;
    if (stages < 1 || c->generation > 1 || c->graph.ctx || c->ncreated)
        return trace_fail(c, TCC_EUSAGE, "join: 1 stage or more, and before anything is made or recorded");
    if (c->world || world_taken)
        return trace_fail(c, TCC_EUSAGE, "join: this process has joined the others already");
    struct trace_world *w = calloc(1, sizeof *w);
    if (!w)
        return trace_no_memory(c);
    if (tccrt_comm_init(NULL, &w->comm)) {
        free(w);
        return trace_comm_failed(c, TCC_EENV);
    }
    w->folder.alive = -1;
    c->world = w;
    world_taken = true;
    w->first = tccrt_comm_local_rank(w->comm) == 0;
    if (make_groups(c, stages) || tccrt_comm_size(w->comm) == 1)
        return c->status;
    c->run_seed = (uint64_t)trace_group_rank(c, "dp") * SEED_STEP;
    int threads = tccrt_comm_cores(w->comm);
    c->threads = c->threads ? c->threads : threads;
    if (pthread_create(&w->ticker, NULL, tick, w))
        return trace_fail(c, TCC_EENV, "cannot start a thread");
    w->ticking = true;
    return c->cache_dir ? TCC_OK : share_folder(c);
}

/* Others that wait for this process are told its last error. */
void trace_leave(struct trace_ctx *c)
{
    struct trace_world *w = c->world;
    if (!w)
        return;
    w->quit = true;
    if (w->ticking)
        pthread_join(w->ticker, NULL);
    for (int i = 0; i < w->ngroups; i++)
        if (w->groups[i].comm != w->comm)
            tccrt_comm_free(w->groups[i].comm);
    tccrt_comm_finalize(w->comm, *c->error ? c->error : NULL);
    tcr_scratch_remove(&w->folder);
    free(w->groups);
    free(w);
    c->world = NULL;
    world_taken = false;
}

void trace_tell_failure(struct trace_ctx *c, const char *why)
{
    if (c->world && tccrt_comm_size(c->world->comm) > 1)
        tccrt_comm_abort(c->world->comm, why);
}

/* -- State ------------------------------------------------------------------------------------------------------ */

/* Ends what is recorded: nothing runs, and every retained tensor has its data. */
static int settle(struct trace_ctx *c)
{
    trace_flush(c, NULL);
    trace_reap(c, true);
    return c->status;
}

static int send_state(struct trace_ctx *c, struct tccrt_comm *comm, int root)
{
    int n = 0, count = 0;
    for (const struct trace_tensor *t = c->tensors; t; t = t->next)
        count++;
    struct tcc_tensor *list = calloc((size_t)count + 1, sizeof *list);
    if (!list)
        return trace_no_memory(c);
    for (struct trace_tensor *t = c->tensors; t; t = t->next)
        if (t->refs && t->data && trace_is_here(t)) {
            if (!trace_host_write(t->data)) {
                free(list);
                return trace_fail(c, TCC_EENV, "%s", tccrt_error());
            }
            trace_random_show(t);
            list[n++] = t->data->o->t;
        }
    int status = tccrt_comm_broadcast(comm, root, n, list, NULL);
    free(list);
    for (struct trace_tensor *t = c->tensors; t && !status; t = t->next)
        if (t->refs)
            trace_random_take(t);
    return status ? trace_comm_failed(c, status) : TCC_OK;
}

int trace_share_state(struct trace_ctx *c, const char *group, int root)
{
    struct tccrt_comm *comm = trace_comm(c, group);
    if (!settle(c) && comm)
        send_state(c, comm, root);
    return trace_report_status(c);
}

/* Names and types, a text for comparing. */
static char *describe(int n, struct trace_tensor *const *tensors)
{
    char *text = NULL, type[256];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    for (int i = 0; f && i < n; i++)
        fprintf(f, "%s%s %s", i ? ", " : "", tensors[i]->name ? tensors[i]->name : "param",
                trace_type_text(tensors[i], type, sizeof type));
    if (f && fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

void trace_share_tensors(struct trace_ctx *c, const char *group, int n, struct trace_tensor *const *tensors)
{
    struct tccrt_comm *comm = trace_comm(c, group);
    if (!comm || settle(c))
        return;
    struct tcc_tensor *list = calloc((size_t)n + 1, sizeof *list);
    char *text = list ? describe(n, tensors) : NULL;
    int status = TCC_OK;
    if (!text)
        trace_no_memory(c);
    else if ((status = tccrt_comm_agree(comm, "list of parameters", text)))
        trace_comm_failed(c, status);
    for (int i = 0; i < n && !c->status; i++) { /* memory of their own: others may hold what they hold */
        struct trace_data *d = trace_data_new(tensors[i]->dtype, tensors[i]->rank, tensors[i]->dims);
        if (!d || !tensors[i]->data || !trace_host(tensors[i]->data)) {
            trace_data_unref(d);
            trace_no_memory(c);
            break;
        }
        memcpy(d->o->t.data, tensors[i]->data->o->t.data, trace_bytes(tensors[i]));
        trace_hold(&tensors[i]->data, d);
        tensors[i]->value = NULL;
        list[i] = d->o->t;
        trace_data_unref(d);
    }
    if (!c->status && n && (status = tccrt_comm_broadcast(comm, 0, n, list, NULL)))
        trace_comm_failed(c, status);
    free(text);
    free(list);
}

bool trace_is_here(const struct trace_tensor *t)
{
    return !t->data->owner_stage || t->data->here || t->data->owner_stage == trace_group_rank(t->c, "pp") + 1;
}

/* New memory with the tensor's data in it: what a stage does not hold has none. */
static struct trace_data *room_for(struct trace_ctx *c, const struct trace_tensor *t)
{
    struct trace_data *d = trace_data_new(t->dtype, t->rank, t->dims);
    if (!d)
        trace_no_memory(c);
    else
        d->owner_stage = t->data->owner_stage;
    return d;
}

/* Of one tensor, from the stage that holds it to all. */
static int bring(struct trace_ctx *c, struct tccrt_comm *pp, struct trace_tensor *t)
{
    struct trace_data *d = trace_is_here(t) ? trace_data_ref(t->data) : room_for(c, t);
    if (!d)
        return c->status;
    if (!trace_host_write(d)) {
        trace_data_unref(d);
        return trace_fail(c, TCC_EENV, "%s", tccrt_error());
    }
    int status = tccrt_comm_broadcast(pp, d->owner_stage - 1, 1, &d->o->t, NULL);
    if (status)
        trace_comm_failed(c, status);
    else
        trace_hold(&t->data, d);
    d->here = true;
    trace_data_unref(d);
    return status;
}

int trace_collect(struct trace_tensor *t)
{
    if (!t)
        return TCC_EUSAGE;
    struct trace_ctx *c = t->c;
    struct tccrt_comm *pp = trace_comm(c, "pp");
    if (trace_alive(t) && !settle(c) && pp && t->data && t->data->owner_stage)
        bring(c, pp, t);
    return trace_report_status(c);
}
