/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-train as one of many ranks: the world that a launcher started, what all ranks must have in common, and who does
 * what. Rank 0 reads and writes files (checkpoints, reports), evaluates, and gives the others its state; each rank
 * takes its part of every batch. A rank that fails tells the others why, so that all end.
 */
#include "tools/train/train_int.h"

#include "base/format.h"
#include "base/safe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMPILE_SECONDS 3600.0 /* the others wait that long for the rank that compiles */

int ranks_begin(struct trainer *t)
{
    int64_t least = 1;
    int code = !*option_text(t->o, OPT_elastic, "") || option_int(t->o, OPT_elastic, 1, 64, &least)
                   ? model_world(t->o, false, &t->world)
                   : EXIT_USAGE;

    if (code != EXIT_FINE)
        return code;
    t->joins = tccrt_comm_joins(t->world);
    t->rank = t->joins ? 1 : tccrt_comm_rank(t->world); /* of no rank until it has joined */
    t->processes = t->ranks = tccrt_comm_size(t->world);
    t->chief = t->rank == 0;
    t->elastic = option_set(t->o, OPT_elastic) && (t->processes > 1 || t->joins);
    t->least = (int)least;
    if (t->chief && tccrt_comm_unguarded(t->world) && !option_set(t->o, OPT_quiet))
        fputs("note: TCCC_COMM_SECRET is not set: anybody who reaches the port of rank 0 can join the job\n", stderr);
    return EXIT_FINE;
}

/* -- Stages and copies ------------------------------------------------------------------------------------- */

/* That the step averages over. */
static const char *data_group(const struct trainer *t)
{
    const char *name = option_text(t->o, OPT_data_parallel, "");

    return *name ? name : "dp";
}

/* Order of the letters D (samples), P (stages), T (tensors); the last varies fastest over ranks. */
static const char *placement(const struct trainer *t)
{
    const char *text = option_text(t->o, OPT_placement, "cluster");

    text = !strcmp(text, "cluster") ? "DPT" : !strcmp(text, "spread") ? "TPD" : text;
    return strlen(text) == 3 && strchr(text, 'D') && strchr(text, 'P') && strchr(text, 'T') ? text : NULL;
}

/* Where a rank stands: one of the copies, of the stages, of those that share tensors. */
struct layout {
    char order[4];
    int size[3]; /* by the letters of AXES */
    int at[3];
};
static const char AXES[] = "DPT";

static int axis_of(char letter)
{
    return (int)(strchr(AXES, letter) - AXES);
}

/* How far apart in the world are neighbours along the axis? */
static int stride(const struct layout *l, int axis)
{
    int step = 1;

    for (int i = 2; axis_of(l->order[i]) != axis; i--)
        step *= l->size[axis_of(l->order[i])];
    return step;
}

static void locate(struct layout *l, int rank)
{
    for (int a = 0; a < 3; a++)
        l->at[a] = rank / stride(l, a) % l->size[a];
}

/* Those that differ along the axis alone. */
static int group(struct trainer *t, const struct layout *l, int axis, struct tccrt_comm **out)
{
    int n = l->size[axis], step = stride(l, axis), first = t->rank - l->at[axis] * step;
    int *list = calloc((size_t)n, sizeof *list);
    int status = list ? TCC_OK : TCC_EENV;

    for (int i = 0; list && i < n; i++)
        list[i] = first + i * step;
    if (list)
        status = tccrt_comm_group(t->world, n, list, out);
    free(list);
    return status == TCC_OK ? EXIT_FINE : trainer_status(t, status);
}

/* How many processes do what; the artifact says how many stages and parts there are. */
static int count_processes(struct trainer *t, struct layout *l)
{
    int stages = tccrt_stages(t->m.artifact), parts = tccrt_tensor_parts(t->m.artifact), one = stages * parts;
    const char *order = placement(t), *of = parts == 1    ? "stages"
                                            : stages == 1 ? "parts of tensors"
                                                          : "stages times parts of tensors";

    if (!order)
        return usage_error(t->o, "--placement=%s: expected cluster, spread or an order of the letters D, P and T",
                           option_text(t->o, OPT_placement, ""));
    if (t->processes % one && (t->processes > 1 || (parts > 1 && !train_is_folded(t))))
        return tool_error(t->o, EXIT_DATA, "%s: it has %d %s: start %s%d, %d, %d...; not %d", t->o->words[0], one, of,
                          parts == 1 ? "1 process, or " : "", one, 2 * one, 3 * one, t->processes);
    *l = (struct layout){.size = {t->processes > one ? t->processes / one : 1, stages, parts}};
    memcpy(l->order, order, 3);
    locate(l, t->rank);
    return EXIT_FINE;
}

int ranks_place(struct trainer *t)
{
    struct layout l;
    int code = count_processes(t, &l);

    if (code != EXIT_FINE)
        return code;
    t->dp = t->world;
    if (t->elastic && tccrt_comm_commits(t->m.artifact, "step") != TCC_OK)
        return tool_error(t->o, EXIT_DATA, "--elastic: %s: %s", t->o->words[0], tccrt_error());
    t->eval_sharded = t->ranks > 1 && !strcmp(option_text(t->o, OPT_eval, "rank0"), "sharded");
    if (t->processes == 1)
        return EXIT_FINE; /* all stages in turn */
    if (l.size[0] > 1 && !tccrt_uses_group(t->m.artifact, data_group(t)) && strcmp(data_group(t), "dp"))
        return tool_error(t->o, EXIT_DATA,
                          "%s: the step does not average over group '%s': compile it with --data-parallel=%s",
                          t->o->words[0], data_group(t), data_group(t));
    if (l.size[0] > 1 && !tccrt_uses_group(t->m.artifact, data_group(t)))
        return tool_error(
            t->o, EXIT_DATA,
            "%s: the step was compiled for %d process%s, %d were started: compile it with --data-parallel",
            t->o->words[0], l.size[1] * l.size[2], l.size[1] * l.size[2] > 1 ? "es" : "", t->processes);
    if (l.size[1] == 1 && l.size[2] == 1)
        return EXIT_FINE;
    if ((l.size[1] > 1 && (code = group(t, &l, 1, &t->pp)) != EXIT_FINE) ||
        (l.size[2] > 1 && (code = group(t, &l, 2, &t->tp)) != EXIT_FINE) ||
        (code = group(t, &l, 0, &t->dp)) != EXIT_FINE)
        return code;
    t->stage = l.size[1] > 1 ? l.at[1] + 1 : 0;
    t->tensor = l.size[2] > 1 ? l.at[2] + 1 : 0;
    t->rank = l.at[0];
    t->ranks = l.size[0];
    t->eval_sharded = t->eval_sharded && t->ranks > 1;
    t->sampler.ranks = t->ranks;
    t->sampler.rank = t->rank;
    return code;
}

int ranks_groups(struct trainer *t)
{
    if ((t->processes > 1 || t->elastic) && (tccrt_session_group(t->m.session, data_group(t), t->dp) ||
                                             tccrt_session_group(t->m.session, "world", t->world) ||
                                             (t->pp && tccrt_session_group(t->m.session, "pp", t->pp)) ||
                                             (t->tp && tccrt_session_group(t->m.session, "tp", t->tp))))
        return trainer_status(t, TCC_EENV);
    return EXIT_FINE;
}

/* -- Compiling once a machine ------------------------------------------------------------------------------ */

struct place {
    char host[64];
    int32_t local_rank;
    char path[300];
};

/* A cache of finished artifacts that the ranks of a machine share; the user's, or one for this job. */
static int shared_cache(struct trainer *t, struct tcr_scratch *made)
{
    struct place place = {.host = ""}, *mine = &place, *all = calloc((size_t)t->ranks, sizeof *all);
    struct tcc_tensor in = {mine, TCC_U8, 1, {sizeof *mine}},
                      out = {all, TCC_U8, 1, {(int64_t)sizeof *mine * t->ranks}};
    int code = all ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");

    gethostname(mine->host, sizeof mine->host - 1);
    mine->local_rank = tccrt_comm_local_rank(t->world);
    if (code == EXIT_FINE && !mine->local_rank) {
        if (tcr_scratch_make(made, NULL, "tccc-job-") || strlen(made->path) >= sizeof mine->path)
            code = tool_error(t->o, EXIT_ENVIRONMENT, "cannot make a folder in '%s': %m", tcr_temporary());
        else
            memcpy(mine->path, made->path, strlen(made->path) + 1);
    }
    if (code == EXIT_FINE && tccrt_comm_all_gather(t->world, &in, &out, NULL, NULL))
        code = trainer_status(t, TCC_EENV);
    for (int i = 0; code == EXIT_FINE && i < t->ranks; i++)
        if (!all[i].local_rank && !strncmp(all[i].host, mine->host, sizeof mine->host))
            setenv("TCCC_CACHE_DIR", all[i].path, 1);
    free(all);
    return code;
}

/* What is said and drawn while compiling is so once a machine; who wants it again would compile again. */
static struct options without_reports(const struct options *o)
{
    static const enum option_id reports[] = {OPT_report, OPT_partition_report, OPT_pipeline_chart};
    struct options quiet = *o;

    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++)
        quiet.given[reports[i]].n = 0;
    return quiet;
}

/* The first rank of a machine compiles, the others then find the artifact in the cache. */
int ranks_open(struct trainer *t, bool artifact)
{
    const struct options *o = t->o;
    struct tcr_scratch cache = {.alive = -1};
    bool compiles = !artifact && t->ranks > 1,
         own = compiles && !option_set(o, OPT_cache_dir) && !tccrt_env_text("TCCC_CACHE_DIR");
    int code = own ? shared_cache(t, &cache) : EXIT_FINE, first = tccrt_comm_local_rank(t->world) == 0;

    if (compiles)
        tccrt_comm_timeout(t->world, COMPILE_SECONDS);
    if (code == EXIT_FINE && (first || !compiles))
        code = model_open(o, o->words[0], &t->m, NULL);
    if (code == EXIT_FINE && compiles && tccrt_comm_barrier(t->world, NULL))
        code = trainer_status(t, TCC_EENV);
    if (code == EXIT_FINE && !first && compiles) {
        struct options quiet = without_reports(o);
        code = model_open(&quiet, o->words[0], &t->m, NULL);
    }
    if (code == EXIT_FINE && compiles && tccrt_comm_barrier(t->world, NULL))
        code = trainer_status(t, TCC_EENV);
    tcr_scratch_remove(&cache);
    if (compiles)
        tccrt_comm_timeout(t->world, 0);
    return code;
}

/* -- What all have in common ------------------------------------------------------------------------------------ */

static int agree(struct trainer *t, const char *what, const char *format, ...)
{
    FORMATTED(text, 400, format);
    int status = tccrt_comm_agree(t->world, what, text);
    return status == TCC_OK ? EXIT_FINE : trainer_status(t, status);
}

int ranks_tables(struct trainer *t)
{
    if (t->joins)
        return EXIT_FINE;
    char *text = t->chief ? data_tables_text(&t->tables) : NULL;
    int64_t n = text ? (int64_t)strlen(text) + 1 : 1;
    struct tcc_tensor length = {&n, TCC_I64, 0, {0}};
    int status = TCC_OK;

    if (t->processes > 1)
        status = tccrt_comm_broadcast(t->world, 0, 1, &length, NULL);
    if (status == TCC_OK && !t->chief)
        text = calloc((size_t)n, 1);
    struct tcc_tensor bytes = {text, TCC_U8, 1, {n}};
    if (status == TCC_OK && text && t->processes > 1)
        status = tccrt_comm_broadcast(t->world, 0, 1, &bytes, NULL);
    if (status == TCC_OK && text && !t->chief && !data_tables_parse(&t->tables, text))
        status = TCC_EENV;
    int code = status != TCC_OK ? trainer_status(t, status)
               : text           ? EXIT_FINE
                                : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    free(text);
    return code;
}

/* Of the plan that runs, where that is known: an artifact for several targets has one for each. */
static uint64_t digest_of(const struct trainer *t)
{
    return t->m.session ? tccrt_session_digest(t->m.session) : tccrt_digest(t->m.artifact);
}

void ranks_flags(const struct trainer *t, char *text, size_t size)
{
    snprintf(text, size,
             "batch %" PRId64 ", %" PRId64 " samples, %" PRId64 " epochs, %" PRId64
             " steps, shuffle %d, evaluation every %" PRId64 ", sharded %d, checkpoint every %" PRId64
             ", parts %d, %d per execution, %016" PRIx64 " %s",
             t->fixed_batch ? 0 : t->global_batch, t->data.samples, t->epochs, t->steps, t->sampler.shuffle,
             t->eval_every, !strcmp(option_text(t->o, OPT_eval, "rank0"), "sharded"), t->checkpoint_every,
             option_set(t->o, OPT_partial), t->per_execution, digest_of(t), tccrt_name(t->m.artifact));
}

int ranks_agree_plan(struct trainer *t)
{
    if (t->processes == 1 || t->joins)
        return EXIT_FINE;
    return agree(t, "plan, of an artifact for several targets,", "%016" PRIx64, digest_of(t));
}

int ranks_agree(struct trainer *t)
{
    char text[400];
    int code;

    if (t->processes == 1)
        return EXIT_FINE;
    if ((code = agree(t, "artifact", "%s %016" PRIx64, tccrt_name(t->m.artifact), digest_of(t))) != EXIT_FINE)
        return code;
    ranks_flags(t, text, sizeof text);
    return agree(t, "set of flags or data", "%s, seed %" PRIu64, text, t->sampler.seed);
}

/* Rank 0's state and place in the data. Masks of Dropout differ between ranks, as their samples do. */
int ranks_share(struct trainer *t)
{
    int64_t place[9] = {t->epoch, t->batch, t->done,          t->resumed,     (int64_t)t->sampler.seed,
                        0,        0,        t->control.worse, t->control.flat};
    struct tcc_tensor tensor = {place, TCC_I64, 1, {9}};
    int64_t runs;

    if (t->ranks == 1)
        return EXIT_FINE;
    memcpy(&place[5], &t->best_loss, sizeof t->best_loss);
    memcpy(&place[6], &t->control.resumed_rate, sizeof t->control.resumed_rate);
    if (tccrt_comm_state(t->dp, 0, t->m.session) || tccrt_comm_broadcast(t->dp, 0, 1, &tensor, NULL))
        return trainer_status(t, TCC_EENV);
    t->epoch = place[0];
    t->batch = place[1];
    t->done = place[2];
    t->resumed = place[3] != 0;
    t->sampler.seed = (uint64_t)place[4];
    memcpy(&t->best_loss, &place[5], sizeof t->best_loss);
    memcpy(&t->control.resumed_rate, &place[6], sizeof t->control.resumed_rate);
    t->control.worse = place[7];
    t->control.flat = place[8];
    tccrt_random_get(t->m.session, &t->first_seed, &runs);
    ranks_seed(t, runs);
    return EXIT_FINE;
}

void ranks_seed(struct trainer *t, int64_t runs)
{
    tccrt_random_set(t->m.session, t->first_seed + (uint64_t)t->rank * 0x9e3779b97f4a7c15, runs);
}

int ranks_collect(struct trainer *t)
{
    int root = t->eval_sharded && option_set(t->o, OPT_use_ema) ? -1 : 0; /* all evaluate with the averages */
    int status = t->ranks > 1 ? tccrt_comm_collect(t->dp, root, t->m.session) : TCC_OK;

    return status == TCC_OK ? EXIT_FINE : trainer_status(t, status);
}

int ranks_params(struct trainer *t)
{
    int status = t->ranks > 1 ? tccrt_comm_params(t->dp, t->eval_sharded ? -1 : 0, t->m.session) : TCC_OK;

    return status == TCC_OK ? EXIT_FINE : trainer_status(t, status);
}

int ranks_release(struct trainer *t, int code)
{
    int status = t->ranks > 1 && code == EXIT_FINE ? tccrt_comm_release(t->m.session) : TCC_OK;

    return status == TCC_OK ? code : trainer_status(t, status);
}

/* Has any rank been asked to stop? All then stop after the same step. Does a process wait to become a rank? */
int ranks_stop(struct trainer *t, bool mine, bool *all)
{
    int32_t flag[2] = {mine, t->elastic && tccrt_comm_waiting(t->world) > 0};
    struct tcc_tensor tensor = {flag, TCC_I32, 1, {2}};
    int status = t->processes > 1 ? tccrt_comm_all_reduce(t->world, TCCRT_MAX, 1, 1, &tensor, &tensor, NULL) : TCC_OK;

    *all = flag[0] != 0;
    t->regroup |= flag[1] != 0 && ranks_may_meet(t);
    return status == TCC_OK ? EXIT_FINE : trainer_status(t, status);
}

int ranks_end(struct trainer *t, int code)
{
    ranks_forget(t);
    if (!t->world)
        return code;
    if (code != EXIT_FINE && t->processes > 1)
        tccrt_comm_abort(t->world, tool_last_error());
    if (t->stage || t->tensor)
        tccrt_comm_free(t->dp);
    if (t->pp)
        tccrt_comm_free(t->pp);
    if (t->tp)
        tccrt_comm_free(t->tp);
    if (tccrt_comm_finalize(t->world, NULL) && code == EXIT_FINE && !t->elastic)
        code = tool_error(t->o, EXIT_ENVIRONMENT, "%s", tccrt_error());
    return code;
}
