/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: a session's state in a safetensors file. Tensors are the state variables under their names; the metadata
 * holds the random key and run counter, what the artifact was made of, and whatever pairs the program adds (its place
 * in the data).
 *
 * Gradients are no part of a checkpoint, but where they are being accumulated (train.micro is not 0), for then they are
 * all that the last calls have left. Loading looks at everything before it changes anything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/ckpt_int.h"
#include "base/mutant.h"

#define WEIGHTS (TCCRT_STATE_PARAM | TCCRT_STATE_BUFFER)

int tcr_accumulating(struct tccrt_session *s, bool *yes)
{
    int64_t micro = 0;
    int status = TCC_OK;

    for (uint32_t i = 0; i < s->m->plan->states.count && !status; i++)
        if (s->states[i] && strcmp(tcr_string(s->m, s->m->states[i].name), "train.micro") == 0 &&
            s->m->states[i].bytes == 8)
            status = tcr_state_read(s, i, 0, sizeof micro, &micro);
    *yes = micro != 0;
    return status;
}

static bool saved(const struct tcc_pstate *p, int flags, bool gradients)
{
    if (flags & TCCRT_CHECKPOINT_WEIGHTS)
        return p->flags & WEIGHTS;
    if (p->flags & TCCRT_STATE_LOCAL)
        return false;
    return !(p->flags & TCCRT_STATE_GRADIENT) || gradients;
}

/* own: where it lies, if not in the session. */
static struct tcc_tensor state_tensor(const struct tccrt_session *s, int i, void *own)
{
    struct tccrt_value_info info;
    struct tcc_tensor t = {.data = own ? own : s->states[i] ? s->states[i] : s->mirrors[i]};

    tccrt_state_info(s->m, i, &info);
    t.dtype = info.dtype;
    t.rank = info.rank;
    memcpy(t.dims, info.dims, sizeof t.dims);
    if (s->m->states[i].shard.axis)
        t.dims[s->m->states[i].shard.axis - 1] =
            t.dims[s->m->states[i].shard.axis - 1] * s->m->states[i].shard.parts - s->m->states[i].shard.padding;
    return t;
}

/* Does it write what all processes hold together? */
static bool is_writer(const struct tccrt_session *s)
{
    return s->stage <= 1 && s->tensor <= 1;
}

/* The variables of which others hold parts or all, on the one that writes: in memory of their own. The others send
 * them. */
static int gather_states(struct tccrt_session *s, int flags, void **own)
{
    bool gradients;
    int status = tcr_accumulating(s, &gradients);

    for (uint32_t i = 0; i < s->m->plan->states.count && !status; i++) {
        const struct tcc_pstate *p = &s->m->states[i];

        if ((p->owner_stage <= 1 && !p->shard.axis) || !saved(p, flags, gradients))
            continue;
        if (is_writer(s) && !(own[i] = malloc(tcr_whole_bytes(s->m, p) + 1)))
            return tcr_fail(TCC_EENV, "no memory for '%s' of stage %u", tcr_string(s->m, p->name), p->owner_stage - 1);
        status = tcr_state_gather(s, i, 0, own[i]);
    }
    return status;
}

/* What the group's first rank has to say about the file. */
static int tell_group(struct tccrt_comm *group, bool first, int status)
{
    int32_t result = status;
    struct tcc_tensor t = {&result, TCC_I32, 1, {1}};
    char why[400];

    snprintf(why, sizeof why, "%s", tccrt_error());
    if (!group)
        return status;
    int sent = tccrt_comm_broadcast(group, 0, 1, &t, NULL);
    if (first)
        return status ? tcr_fail(status, "%s", why) : sent;
    return sent ? sent : result ? tcr_fail(result, "the rank that writes could not write the checkpoint") : TCC_OK;
}

/* Stages, then the ranks that have parts of the same tensors. */
static int tell_stages(struct tccrt_session *s, int status)
{
    const char *parts = tcr_shard_group(s->m);

    if (s->stage && s->tensor <= 1)
        status = tell_group(tcr_session_group(s, "pp"), s->stage == 1, status);
    return s->tensor && parts ? tell_group(tcr_session_group(s, parts), s->tensor == 1, status) : status;
}

/* What a file holds besides tensors. */
struct about {
    struct tccrt_pair *pairs;
    int n;
    char seed[24], runs[24];
};

static int describe(struct tccrt_session *s, int flags, int nmeta, const struct tccrt_pair *meta, struct about *a)
{
    a->n = 0;
    if (!(a->pairs = calloc((size_t)nmeta + 5, sizeof *a->pairs)))
        return tcr_fail(TCC_EENV, "no memory");
    snprintf(a->seed, sizeof a->seed, "%llu", (unsigned long long)s->seed);
    snprintf(a->runs, sizeof a->runs, "%lld", (long long)s->runs);
    a->pairs[a->n++] = (struct tccrt_pair){"tccc.model", s->m->desc->name ? s->m->desc->name : ""};
    a->pairs[a->n++] = (struct tccrt_pair){"tccc.source", s->m->desc->source ? s->m->desc->source : ""};
    if (!(flags & TCCRT_CHECKPOINT_WEIGHTS)) {
        a->pairs[a->n++] = (struct tccrt_pair){"tccc.seed", a->seed};
        a->pairs[a->n++] = (struct tccrt_pair){"tccc.runs", a->runs};
    }
    for (int i = 0; i < nmeta; i++)
        a->pairs[a->n++] = meta[i];
    return TCC_OK;
}

/* The variables that belong into a file: of one stage (and of none, for stage 0), or all (stage < 0). NULL: message
 * set. */
static struct tccrt_named *list_states(struct tccrt_session *s, int flags, int stage, void *const *own, int *n)
{
    int nstates = (int)s->m->plan->states.count;
    struct tccrt_named *list = calloc((size_t)nstates + 1, sizeof *list);
    bool gradients;

    *n = 0;
    if (!list)
        tcr_fail(TCC_EENV, "no memory for a list of state variables");
    if (!list || tcr_accumulating(s, &gradients)) {
        free(list);
        return NULL;
    }
    for (int i = 0; list && i < nstates; i++) {
        const struct tcc_pstate *p = &s->m->states[i];

        if (!saved(p, flags, gradients) || (stage >= 0 && (p->owner_stage ? (int)p->owner_stage - 1 : 0) != stage))
            continue;
        int status = tcr_state_make(s, (uint32_t)i);

        if (!status && tcr_is_elsewhere(s, (uint32_t)i) && !tcr_has_state(s, (uint32_t)i) && !(own && own[i]))
            status = tcr_state_absent(s, (uint32_t)i);
        if (status) {
            free(list);
            return NULL;
        }
        list[(*n)++] = (struct tccrt_named){tcr_string(s->m, p->name), state_tensor(s, i, own ? own[i] : NULL)};
    }
    return list;
}

static int save_whole(struct tccrt_session *s, const char *path, int flags, const struct about *a)
{
    uint32_t n = s->m->plan->states.count;
    void **own = calloc(n + 1, sizeof *own);
    int status = own ? TCC_OK : tcr_fail(TCC_EENV, "%s: no memory", path), count;

    if (!status && (s->stage || s->tensor))
        status = gather_states(s, flags, own);
    if (!status && is_writer(s)) {
        struct tccrt_named *list = list_states(s, flags, -1, own, &count);

        status = list ? ckpt_replace(s, path, count, list, a->n, a->pairs) : TCC_EENV;
        free(list);
    }
    if (s->stage || s->tensor)
        status = tell_stages(s, status);
    for (uint32_t i = 0; own && i < n; i++)
        free(own[i]);
    free(own);
    return status;
}

/* -- In parts -------------------------------------------------------------------------------------------- */

/* How a stage's part went. */
struct part {
    int32_t status;
    char digest[CKPT_DIGEST], why[400];
};

static void write_part(struct tccrt_session *s, const char *path, int flags, const struct about *a, char set, int stage,
                       struct part *x)
{
    int stages = tccrt_stages(s->m), n;
    struct tccrt_named *list = list_states(s, flags, stage, NULL, &n);

    x->status = list ? ckpt_write_part(s, path, set, stage, stages, n, list, a->n, a->pairs, x->digest) : TCC_EENV;
    if (x->status)
        snprintf(x->why, sizeof x->why, "%s", tccrt_error());
    free(list);
}

/* Every stage's part, to all of them. */
static int exchange_parts(struct tccrt_session *s, const struct part *mine, struct part *all)
{
    struct tcc_tensor in = {(void *)mine, TCC_U8, 1, {sizeof *mine}},
                      out = {all, TCC_U8, 1, {(int64_t)sizeof *mine * tccrt_stages(s->m)}};

    return tccrt_comm_all_gather(tcr_session_group(s, "pp"), &in, &out, NULL, NULL);
}

static int write_parts(struct tccrt_session *s, const char *path, int flags, const struct about *a, struct part *all)
{
    int stages = tccrt_stages(s->m), status = TCC_OK;
    char set = s->stage <= 1 ? ckpt_other_set(path) : 0;
    struct tcc_tensor letter = {&set, TCC_U8, 1, {1}};

    if (s->stage) {
        struct part mine = {0};

        if ((status = tccrt_comm_broadcast(tcr_session_group(s, "pp"), 0, 1, &letter, NULL)))
            return status;
        write_part(s, path, flags, a, set, s->stage - 1, &mine);
        if ((status = exchange_parts(s, &mine, all)))
            return status;
    }
    for (int k = 0; k < stages && !s->stage && !status; k++) {
        write_part(s, path, flags, a, set, k, &all[k]);
        status = all[k].status;
    }
    for (int k = 0; k < stages; k++)
        if (all[k].status)
            return s->stage && k != s->stage - 1 ? tcr_fail(all[k].status, "stage %d: %s", k, all[k].why)
                                                 : tcr_fail(all[k].status, "%s", all[k].why);
    if (s->stage <= 1) {
        char(*digests)[CKPT_DIGEST] = calloc((unsigned)stages, sizeof *digests);

        for (int k = 0; digests && k < stages; k++)
            memcpy(digests[k], all[k].digest, sizeof digests[k]);
        status = digests ? ckpt_write_index(path, set, stages, digests, a->n, a->pairs)
                         : tcr_fail(TCC_EENV, "%s: no memory", path);
        free(digests);
    }
    return s->stage ? tell_stages(s, status) : status;
}

static int save_parts(struct tccrt_session *s, const char *path, int flags, const struct about *a)
{
    struct part *all = calloc((size_t)tccrt_stages(s->m), sizeof *all);
    int status;

    if (s->stage && !tcr_session_group(s, "pp"))
        status = tcr_fail(TCC_EUSAGE, "the session runs one stage and has no group \"pp\"");
    else
        status = all ? write_parts(s, path, flags, a, all) : tcr_fail(TCC_EENV, "%s: no memory", path);
    free(all);
    return status;
}

static int save(struct tccrt_session *s, const char *path, int flags, int nmeta, const struct tccrt_pair *meta)
{
    struct about a;
    int status;

    if (!path || nmeta < 0 || (nmeta && !meta))
        return tcr_fail(TCC_EUSAGE, "checkpoint: a path is required, and a list of the pairs, got NULL");
    if ((status = describe(s, flags, nmeta, meta, &a)))
        return status;
    if ((flags & TCCRT_CHECKPOINT_STAGES) && s->tensor)
        status = tcr_fail(TCC_EUSAGE, "a checkpoint of divided tensors (--tensor-parallel) is one file");
    else if ((flags & TCCRT_CHECKPOINT_STAGES) && tccrt_stages(s->m) > 1)
        status = save_parts(s, path, flags, &a);
    else
        status = save_whole(s, path, flags, &a);
    free(a.pairs);
    return status;
}

/* The first names of a file's tensors. */
static const char *list_names(const struct tccrt_tensors *f, char *to, size_t size)
{
    size_t used = (size_t)snprintf(to, size, "%s", f->ntensors ? "" : "no tensors");
    int k = 0;

    for (; k < f->ntensors && used < size / 2; k++)
        used += (size_t)snprintf(to + used, size - used, "%s'%.80s'", k ? ", " : "", f->tensors[k].name);
    if (k < f->ntensors)
        snprintf(to + used, size - used, ", ... (%d tensors)", f->ntensors);
    return to;
}

/* The file's tensor for state variable i, or NULL: it may be absent. */
static int match(struct tccrt_session *s, const struct tccrt_tensors *f, const char *path, int flags, int i,
                 const struct tccrt_named **out)
{
    const struct tcc_pstate *p = &s->m->states[i];
    const char *name = tcr_string(s->m, p->name);
    struct tcc_tensor t = state_tensor(s, i, NULL);
    const struct tccrt_named *x = flags & TCCRT_CHECKPOINT_WEIGHTS
                                      ? tccrt_tensors_parameter(f->ntensors, f->tensors, name)
                                      : tccrt_tensors_find(f, name);
    char want[256], found[256], names[256];

    *out = saved(p, flags, true) ? x : NULL;
    if (!x && saved(p, flags, false) && !(flags & TCCRT_CHECKPOINT_PARTIAL))
        return tcr_fail(TCC_EINPUT, "%s: '%s' (%s%s) is missing: not a checkpoint of model '%s'; it has %s", path, name,
                        tcr_dtype_name(t.dtype), tcr_dims_text(want, t.rank, t.dims), s->m->desc->name,
                        list_names(f, names, sizeof names));
    if (*out &&
        (x->t.dtype != t.dtype || x->t.rank != t.rank || memcmp(x->t.dims, t.dims, (size_t)t.rank * sizeof *t.dims)))
        return tcr_fail(TCC_EINPUT, "%s: '%s': expected %s%s, got %s%s: not a checkpoint of model '%s'", path, name,
                        tcr_dtype_name(t.dtype), tcr_dims_text(want, t.rank, t.dims), tcr_dtype_name(x->t.dtype),
                        tcr_dims_text(found, x->t.rank, x->t.dims), s->m->desc->name);
    return TCC_OK;
}

static int check_names(struct tccrt_session *s, const struct tccrt_tensors *f, const char *path)
{
    for (int k = 0; k < tccrt_tensors_count(f); k++) {
        const char *name = tccrt_tensors_at(f, k)->name;
        uint32_t i = 0;

        while (i < s->m->plan->states.count && strcmp(tcr_string(s->m, s->m->states[i].name), name))
            i++;
        if (i == s->m->plan->states.count)
            return tcr_fail(TCC_EINPUT, "%s: model '%s' has no state variable '%s': not a checkpoint of it", path,
                            s->m->desc->name, name);
    }
    return TCC_OK;
}

static int load(struct tccrt_session *s, const struct tccrt_tensors *f, const char *path, int flags)
{
    const char *seed = tccrt_tensors_value(f, "tccc.seed"), *runs = tccrt_tensors_value(f, "tccc.runs");
    int nstates = (int)s->m->plan->states.count, status = TCC_OK;
    const struct tccrt_named **found = calloc((size_t)nstates + 1, sizeof(void *));

    if (!found)
        return tcr_fail(TCC_EENV, "%s: no memory", path);
    status = tcr_states_make(s);
    for (int i = 0; i < nstates && !status; i++)
        status = match(s, f, path, flags, i, &found[i]);
    if (!status && !(flags & (TCCRT_CHECKPOINT_PARTIAL | TCCRT_CHECKPOINT_WEIGHTS)))
        status = check_names(s, f, path);
    if (!status && (status = tccrt_tensors_check(f)))
        status = tcr_fail(status, "%s: %s", path, tccrt_error());
    for (int i = 0; i < nstates && !status; i++) {
        if (!tcr_has_stage(s, s->m->states[i].owner_stage))
            continue;
        if (found[i])
            status = tcr_state_write_whole(s, (uint32_t)i, found[i]->t.data);
        else if (MUTANT(57, s->m->states[i].flags & TCCRT_STATE_GRADIENT, 0))
            status = tcr_state_zero(s, (uint32_t)i);
    }
    if (!status && !(flags & TCCRT_CHECKPOINT_WEIGHTS) && seed && runs) {
        s->seed = strtoull(seed, NULL, 10);
        s->runs = MUTANT(58, strtoll(runs, NULL, 10), 0);
    }
    free(found);
    return status;
}

int tccrt_checkpoint_save(struct tccrt_session *s, const char *path, int flags, int nmeta,
                          const struct tccrt_pair *meta)
{
    int status = tcr_enter(s);

    if (!status && (status = tcr_states_make(s)))
        return tcr_leave(s, status);
    return status ? status : tcr_leave(s, save(s, path, flags, nmeta, meta));
}

int tccrt_checkpoint_load(struct tccrt_session *s, const char *path, int flags)
{
    struct tccrt_tensors *f;
    int status = tcr_enter(s);

    if (status)
        return status;
    status = tccrt_tensors_open(path, &f);
    if (status)
        return tcr_leave(s, status);
    status = load(s, f, path, flags);
    tccrt_tensors_close(f);
    return tcr_leave(s, status);
}
