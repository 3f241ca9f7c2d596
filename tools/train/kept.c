/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --elastic: what a rank keeps of the state in front of a step, where those that are left can't go on from what they
 * have when another dies.
 *
 * With --accumulate the gradients of the calls since the last update go with it. With --zero its part of the state
 * does; and an owner has written its part before the others have what it makes of it. So in front of each update a rank
 * copies what it has, and gives a copy of what it alone has to the next rank. The state kept before is dropped behind a
 * barrier, when all have the new one whole: the oldest that a rank keeps all keep, or an older one, too (they are
 * counted: ranks that have met anew keep the same step's state again, divided otherwise). One that has come since the
 * older one, and has no more than the new one, doesn't know whether all have that before it is behind the barrier. When
 * ranks meet anew all go back to the oldest, and what each variable is comes from the rank that had it, else from the
 * one behind that.
 */
#include "tools/train/elastic_int.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(const struct trainer *t)
{
    return tool_error(t->o, EXIT_ENVIRONMENT, "no memory for a copy of the state");
}

static int nstates(const struct trainer *t)
{
    return tccrt_nstates(t->m.artifact);
}

static size_t state_bytes(const struct trainer *t, int i, struct tccrt_value_info *info)
{
    tccrt_state_info(t->m.artifact, i, info);
    return (size_t)tcc_elements(info->rank, info->dims) * (size_t)tcc_dtype_bytes((enum tcc_dtype)info->dtype);
}

bool kept_in_parts(const struct trainer *t)
{
    return t->elastic && tccrt_comm_divides(t->m.artifact, "step");
}

/* -- A rank's state, which may be written over in part ------------------------------------------------------------ */

void kept_put_back(struct trainer *t, void **copies, bool needed)
{
    for (int i = 0; copies && i < nstates(t); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor x;

        tccrt_state_info(t->m.artifact, i, &info);
        if (copies[i] && needed && tccrt_state_get(t->m.session, info.name, &x) == TCC_OK) {
            x.data = copies[i];
            tccrt_state_set(t->m.session, info.name, &x);
        }
        free(copies[i]);
    }
    free(copies);
}

void *kept_copies(struct trainer *t)
{
    void **copies = calloc((size_t)nstates(t) + 1, sizeof *copies);

    for (int i = 0; copies && i < nstates(t); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor x;
        size_t n = state_bytes(t, i, &info);

        if (tccrt_state_get(t->m.session, info.name, &x) != TCC_OK)
            continue;
        if (!(copies[i] = malloc(n + 1))) {
            kept_put_back(t, copies, false);
            return NULL;
        }
        memcpy(copies[i], x.data, n);
    }
    return copies;
}

static void forget(struct trainer *t, struct kept *k)
{
    if (!k)
        return;
    forget(t, k->before);
    kept_put_back(t, k->copies, false);
    free(k->others);
    free(k->block);
    free(k);
}

void ranks_forget(struct trainer *t)
{
    forget(t, t->kept);
    t->kept = NULL;
}

bool ranks_may_meet(struct trainer *t)
{
    return t->kept ? t->kept->at.done == t->done : trainer_scalar(t, "train.micro", 0) == 0;
}

void kept_drop_incomplete(struct trainer *t)
{
    struct kept *k = t->kept;

    if (!k || k->complete)
        return;
    t->kept = k->before;
    k->before = NULL;
    forget(t, k);
}

/* -- Parts (--zero) ------------------------------------------------------------------------------------------------ */

enum { HAS_NONE, HAS_ITSELF, HAS_OTHERS };

/* What each rank has of each variable: [ranks][nstates], by all. NULL after a message, or where a rank is gone. */
static uint8_t *who_has(struct trainer *t, const struct kept *k, int *code)
{
    size_t n = (size_t)nstates(t);
    uint8_t *mine = calloc(n + 1, 1), *all = calloc(n * (size_t)t->ranks + 1, 1);
    struct tcc_tensor in = {mine, TCC_U8, 1, {(int64_t)n}}, out = {all, TCC_U8, 1, {(int64_t)n * t->ranks}};

    for (size_t i = 0; mine && k && i < n; i++)
        mine[i] = k->copies[i] ? HAS_ITSELF : k->others && k->others[i] ? HAS_OTHERS : HAS_NONE;
    *code = !mine || !all                                            ? no_memory(t)
            : tccrt_comm_all_gather(t->world, &in, &out, NULL, NULL) ? trainer_status(t, TCC_EENV)
                                                                     : EXIT_FINE;
    free(mine);
    if (*code == EXIT_FINE)
        return all;
    free(all);
    return NULL;
}

/* The one rank that has the variable; -1: several have it. */
static int owner(const struct trainer *t, const uint8_t *all, int i)
{
    int n = 0, rank = -1;

    for (int r = 0; r < t->ranks; r++)
        if (all[r * nstates(t) + i] == HAS_ITSELF) {
            n++;
            rank = r;
        }
    return n == 1 ? rank : -1;
}

/* Bytes of what rank r alone has; those of this rank go to `to` (NULL: nowhere). */
static size_t part(const struct trainer *t, const uint8_t *all, int r, void *const *copies, unsigned char *to)
{
    struct tccrt_value_info info;
    size_t sum = 0;

    for (int i = 0; i < nstates(t); i++) {
        size_t n = owner(t, all, i) == r ? state_bytes(t, i, &info) : 0;
        if (to && n)
            memcpy(to + sum, copies[i], n);
        sum += n;
    }
    return sum;
}

/* This rank's part goes to the next rank; that of the one before comes here. */
static int exchange_parts(struct trainer *t, struct kept *k, const uint8_t *all)
{
    int next = (t->rank + 1) % t->ranks, last = (t->rank + t->ranks - 1) % t->ranks;
    size_t here = part(t, all, t->rank, NULL, NULL), there = part(t, all, last, NULL, NULL), at = 0;
    int64_t *counts = calloc((size_t)t->ranks * 2, sizeof *counts), *from = counts ? counts + t->ranks : NULL;
    unsigned char *packed = malloc(here + 1);

    k->block = malloc(there + 1);
    k->others = calloc((size_t)nstates(t) + 1, sizeof *k->others);
    int code = counts && packed && k->block && k->others ? EXIT_FINE : no_memory(t);
    if (code == EXIT_FINE) {
        struct tcc_tensor in = {packed, TCC_U8, 1, {(int64_t)here}}, out = {k->block, TCC_U8, 1, {(int64_t)there}};

        part(t, all, t->rank, k->copies, packed);
        counts[next] = (int64_t)here;
        from[last] = (int64_t)there;
        if (tccrt_comm_all_to_all(t->world, &in, counts, &out, from, NULL))
            code = trainer_status(t, TCC_EENV);
    }
    for (int i = 0; code == EXIT_FINE && i < nstates(t); i++) {
        struct tccrt_value_info info;

        if (owner(t, all, i) != last)
            continue;
        k->others[i] = k->block + at;
        at += state_bytes(t, i, &info);
    }
    free(counts);
    free(packed);
    return code;
}

static int keep_parts(struct trainer *t, struct kept *k)
{
    int code = EXIT_FINE;
    uint8_t *all = t->ranks > 1 ? who_has(t, k, &code) : NULL;

    if (all)
        code = exchange_parts(t, k, all);
    free(all);
    k->complete = code == EXIT_FINE;
    if (code == EXIT_FINE && t->ranks > 1 && tccrt_comm_barrier(t->world, NULL))
        code = trainer_status(t, TCC_EENV);
    if (code != EXIT_FINE)
        return code;
    forget(t, k->before);
    k->before = NULL;
    k->whole = true;
    return code;
}

int ranks_keep(struct trainer *t)
{
    bool parts = kept_in_parts(t);

    if (!t->elastic || trainer_scalar(t, "train.micro", parts ? 0 : -1) != 0)
        return EXIT_FINE;
    if (!parts)
        ranks_forget(t);
    struct kept *k = calloc(1, sizeof *k);
    if (!k)
        return no_memory(t);
    t->keeps++;
    *k = (struct kept){.at = elastic_place(t), .copies = kept_copies(t), .before = t->kept};
    t->kept = k;
    if (!k->copies)
        return no_memory(t);
    k->complete = !parts;
    return parts ? keep_parts(t, k) : EXIT_FINE;
}

/* -- Meeting anew, with parts -------------------------------------------------------------------------------------- */

/* The first rank that has the variable so; -1: none. */
static int rank_with(const struct trainer *t, const uint8_t *all, int i, int how)
{
    for (int r = 0; r < t->ranks; r++)
        if (all[r * nstates(t) + i] == how)
            return r;
    return -1;
}

/* Variable i, from the rank that has it, to those that have to have it now. */
static int share_one(struct trainer *t, const uint8_t *has, int i)
{
    struct tccrt_value_info info;
    size_t n = state_bytes(t, i, &info);
    int root = rank_with(t, has, i, HAS_ITSELF);
    bool whole = true, fresh = !t->kept, local = tccrt_state_flags(t->m.artifact, i) & TCCRT_STATE_LOCAL;
    const struct kept *k = t->kept;

    for (int r = 0; r < t->ranks; r++) /* does each have its own? */
        whole = whole && has[r * nstates(t) + i] == HAS_ITSELF;
    root = root < 0 ? rank_with(t, has, i, HAS_OTHERS) : root;
    if (root < 0)
        return tool_error(t->o, EXIT_ENVIRONMENT,
                          "a part of the state is lost (--zero): with the rank that had it the one is gone that kept "
                          "it; go on from a checkpoint (--resume)");
    void *own = fresh          ? NULL
                : k->copies[i] ? k->copies[i]
                : k->others    ? k->others[i]
                               : NULL,
         *room = own ? NULL : malloc(n + 1);
    struct tcc_tensor x = {.data = own ? own : room, .dtype = info.dtype, .rank = info.rank}, now;
    memcpy(x.dims, info.dims, sizeof x.dims);
    int code = x.data ? EXIT_FINE : no_memory(t);
    if (code == EXIT_FINE && !whole) {
        void *data = x.data; /* what is kept stays: another rank may die meanwhile */
        if (t->rank != root && own && !(x.data = room = malloc(n + 1)))
            code = no_memory(t);
        if (code == EXIT_FINE && n && tccrt_comm_broadcast(t->world, root, 1, &x, NULL))
            code = trainer_status(t, TCC_EENV);
        if (own)
            x.data = data;
    }
    if (code == EXIT_FINE && !(fresh && local) && tccrt_state_get(t->m.session, info.name, &now) == TCC_OK &&
        tccrt_state_set(t->m.session, info.name, &x) != TCC_OK)
        code = trainer_status(t, TCC_EENV);
    free(room);
    return code;
}

int kept_share(struct trainer *t, const struct place *all, int64_t number)
{
    struct place at = {0};
    struct tcc_tensor x = {&at, TCC_U8, 1, {sizeof at}};
    int root = 0, code = EXIT_FINE;

    while (t->kept &&
           t->kept->at.keeps != number) { /* not all have the newest; one that was left behind has none of it */
        t->kept->complete = false;
        kept_drop_incomplete(t);
    }
    if (t->kept) {
        forget(t, t->kept->before); /* which not all of them need have */
        t->kept->before = NULL;
        t->kept->whole = true;
        at = t->kept->at;
    }
    while (all[root].oldest != number && all[root].newest != number)
        root++;
    if (tccrt_comm_broadcast(t->world, root, 1, &x, NULL) || tccrt_comm_release(t->m.session))
        return trainer_status(t, TCC_EENV);
    uint8_t *has = who_has(t, t->kept, &code);
    for (int i = 0; i < nstates(t) && code == EXIT_FINE; i++)
        code = share_one(t, has, i);
    free(has);
    if (code == EXIT_FINE)
        elastic_take_place(t, &at);
    return code;
}
