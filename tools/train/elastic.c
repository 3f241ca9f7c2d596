/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --elastic: ranks that go on when one of them dies, and with processes that come while the job runs, as TorchElastic
 * and Horovod's elastic mode do between checkpoints; here from the memory of those that are left.
 *
 * Each rank has the whole state (data parallel), and a step either is done on a rank or has changed nothing there
 * (tccrt_comm_commits()). So those that meet anew tell each other how far they are: who is furthest, by one step at
 * most, gives its state to those that are not and to those that have come, and all go on from there, as that many ranks
 * would that go on from a checkpoint. A step that nobody has finished is made again, and with --accumulate so are those
 * since the last update. With --zero all go back to a state that each keeps its part of (kept.c), which they divide
 * anew.
 */
#include "tools/train/elastic_int.h"
#include "base/mutant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh3.h"

struct place elastic_place(struct trainer *t)
{
#define SAY(type, name, of) .name = t->of,
    struct place p = {PLACE(SAY).fresh = kept_in_parts(t) ? !t->kept : t->joins,
                      .oldest = t->kept && t->kept->before  ? t->kept->before->at.keeps
                                : t->kept && t->kept->whole ? t->kept->at.keeps
                                                            : -1,
                      .newest = t->kept ? t->kept->at.keeps : -1, .stopped = t->stopped};
    char text[400];

    ranks_flags(t, text, sizeof text);
    p.flags = tcr_xxh3(text, strlen(text));
    tccrt_random_get(t->m.session, NULL, &p.runs);
    return p;
}

void elastic_take_place(struct trainer *t, const struct place *p)
{
#define TAKE(type, name, of) t->of = p->name;
    PLACE(TAKE)
    ranks_seed(t, p->runs);
}

/* True: some steps will be made again. */
static bool go_back(struct trainer *t)
{
    if (kept_in_parts(t)) { /* where to, all say */
        kept_drop_incomplete(t);
        return false;
    }
    if (!t->kept)
        return false;
    bool back = t->kept->at.done != t->done;
    kept_put_back(t, t->kept->copies, true);
    t->kept->copies = NULL;
    elastic_take_place(t, &t->kept->at);
    ranks_forget(t);
    return back;
}

/* -- Meeting --------------------------------------------------------------------------------------------------- */

/* The furthest of those that have state. */
static int furthest(const struct place *all, int n)
{
    int root = -1;

    for (int i = 0; i < n; i++)
        if (!all[i].fresh && (root < 0 || all[i].done > all[root].done))
            root = i;
    return root;
}

/* Everybody's state becomes that of the furthest one; EXIT_FINE, or an exit code, after a message where all are
 * there. */
static int settle(struct trainer *t, const struct place *all)
{
    int root = furthest(all, t->ranks), code = EXIT_FINE;
    bool differs = false;

    for (int i = 0; i < t->ranks && root >= 0; i++)
        differs |= all[i].fresh || all[i].done != all[root].done;
    if (root < 0)
        return tool_error(t->o, EXIT_ENVIRONMENT, "no rank has the state of the job any more");
    if (MUTANT(409, all[t->rank].flags != all[root].flags, false))
        return tool_error(t->o, EXIT_DATA,
                          "this process has another artifact, other flags or data than the job that it came to join");
    if (kept_in_parts(t)) {
        int64_t number = -1, newest = -1; /* the oldest that a rank keeps, all keep */
        for (int i = 0; i < t->ranks; i++) {
            number = all[i].oldest > number ? all[i].oldest : number;
            newest = all[i].newest > newest ? all[i].newest : newest;
        }
        return kept_share(t, all, number < 0 ? newest : number);
    }
    if (differs) {
        bool behind = !t->joins && t->done != all[root].done;
        void **copies = behind ? kept_copies(t) : NULL;

        if (tccrt_comm_state(t->world, root, t->m.session) != TCC_OK)
            code = trainer_status(t, TCC_EENV);
        kept_put_back(t, copies, code != EXIT_FINE);
    }
    if (code == EXIT_FINE)
        elastic_take_place(t, &all[root]);
    return code;
}

static int exchange(struct trainer *t)
{
    struct place mine = elastic_place(t), *all = calloc((size_t)t->ranks, sizeof *all);
    struct tcc_tensor in = {&mine, TCC_U8, 1, {sizeof mine}}, out = {all, TCC_U8, 1, {(int64_t)sizeof mine * t->ranks}};
    int code = all ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");

    if (code == EXIT_FINE && tccrt_comm_all_gather(t->world, &in, &out, NULL, NULL) != TCC_OK)
        code = trainer_status(t, TCC_EENV);
    for (int i = 0; code == EXIT_FINE && i < t->ranks; i++)
        t->stopped |= all[i].stopped != 0; /* one who ends makes other calls than who goes on */
    if (code == EXIT_FINE)
        code = ranks_groups(t);
    if (code == EXIT_FINE)
        code = settle(t, all);
    free(all);
    return code;
}

static void tell(const struct trainer *t, const char *why)
{
    if (!t->chief || option_set(t->o, OPT_quiet))
        return;
    fprintf(stderr, "note: %d rank%s from step %" PRId64 " on%s%s\n", t->ranks, t->ranks > 1 ? "s" : "", t->done + 1,
            *why ? ": " : "", why);
}

/* The one that reports, now: what the one before it may not have said any more. */
static int report_anew(struct trainer *t, bool was_chief, bool back, int64_t told)
{
    int code = EXIT_FINE;

    if ((!was_chief || back) && (code = train_log_take(t)) != EXIT_FINE)
        return code;
    if (!was_chief || back)
        t->evaluated = -1;
    if (!was_chief) {
        t->owes = true;
        if ((code = train_events_open(t)) != EXIT_FINE || (code = train_serve_open(t)) != EXIT_FINE)
            return code;
    }
    if (t->done > t->done_at_start && (!was_chief || t->done > told))
        report_step(t, &t->last);
    return code;
}

int ranks_regroup(struct trainer *t)
{
    bool was_chief = t->chief, lost = tccrt_comm_broken(t->world) != TCC_OK, back;
    int64_t told;
    char why[400];
    int code;

    snprintf(why, sizeof why, "%.399s", lost ? tccrt_error() : "");
    if (!strcmp(why, "the ranks meet anew"))
        *why = 0;
    t->regroup = false;
    back = go_back(t);
    told = t->done;
    do {
        if (tccrt_comm_regroup(&t->world, t->least) != TCC_OK)
            return tool_error(t->o, EXIT_ENVIRONMENT, "%s", tccrt_error());
        t->dp = t->world;
        t->rank = tccrt_comm_rank(t->world);
        t->processes = t->ranks = tccrt_comm_size(t->world);
        t->chief = !t->rank;
        code = exchange(t);
    } while (ranks_lost(t, code));
    back |= kept_in_parts(t) && t->done < told;
    if (code == EXIT_FINE)
        code = trainer_recut(t);
    if (code != EXIT_FINE)
        return code;
    if (t->joins)
        t->done_at_start = told = t->done;
    t->joins = false;
    report_clear(t);
    tell(t, why);
    return t->chief ? report_anew(t, was_chief, back, told) : EXIT_FINE;
}
