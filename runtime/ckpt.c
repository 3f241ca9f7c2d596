/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: a session's state in a safetensors file. Tensors are the state variables under their names; the metadata holds
 * the random key and run counter, what the artifact was made of, and whatever pairs the program adds (its place in the data).
 *
 * Gradients are no part of a checkpoint, but where they are being accumulated (train.micro is not 0), for then they are all
 * that the last calls have left. Loading looks at everything before it changes anything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt_int.h"

#define WEIGHTS (TCCRT_STATE_PARAM | TCCRT_STATE_BUFFER)

static bool accumulating(struct tccrt_session *s)
{
    for (uint32_t i = 0; i < s->m->plan->states.count; i++)
        if (s->states[i] && strcmp(tcr_string(s->m, s->m->states[i].name), "train.micro") == 0 &&
            s->m->states[i].bytes == 8)
            return *(const int64_t *)s->states[i] != 0;
    return false;
}

static bool saved(const struct tcc_pstate *p, int flags, bool gradients)
{
    if (flags & TCCRT_CHECKPOINT_WEIGHTS)
        return p->flags & WEIGHTS;
    return !(p->flags & TCCRT_STATE_GRADIENT) || gradients;
}

/* own: where it lies, if not in the session. */
static struct tcc_tensor state_tensor(const struct tccrt_session *s, int i, void *own)
{
    struct tccrt_value_info info;
    struct tcc_tensor t = {.data = own ? own : s->states[i]};

    tccrt_state_info(s->m, i, &info);
    t.dtype = info.dtype;
    t.rank = info.rank;
    memcpy(t.dims, info.dims, sizeof t.dims);
    return t;
}

/* The variables that other stages hold, on stage 0: in memory of their own. The other stages send them. */
static int gather_states(struct tccrt_session *s, int flags, void **own)
{
    bool gradients = accumulating(s);
    int status = TCC_OK;

    for (uint32_t i = 0; i < s->m->plan->states.count && !status; i++) {
        const struct tcc_pstate *p = &s->m->states[i];

        if (p->home <= 1 || !saved(p, flags, gradients))
            continue;
        if (s->stage == 1 && !(own[i] = malloc(p->bytes + 1)))
            return tcr_fail(TCC_EENV, "no memory for '%s' of stage %u", tcr_string(s->m, p->name), p->home - 1);
        status = tcr_state_gather(s, i, 0, own[i]);
    }
    return status;
}

/* What stage 0 has to say about the file. */
static int tell_stages(struct tccrt_session *s, int status)
{
    struct tccrt_comm *group = tcr_session_group(s, "pp");
    int32_t result = status;
    struct tcc_tensor t = {&result, TCC_I32, 1, {1}};
    char why[400];

    snprintf(why, sizeof why, "%s", tccrt_error());
    if (!group)
        return status;
    int sent = tccrt_comm_broadcast(group, 0, 1, &t, NULL);
    if (s->stage == 1)
        return status ? tcr_fail(status, "%s", why) : sent;
    return sent ? sent : result ? tcr_fail(result, "stage 0 could not write the checkpoint") : TCC_OK;
}

static int save(struct tccrt_session *s, const char *path, int flags, int nmeta, const struct tccrt_pair *meta,
                void **own)
{
    int nstates = (int)s->m->plan->states.count, n = 0, status, k = 0;
    struct tccrt_named *list = calloc((size_t)nstates + 1, sizeof *list);
    struct tccrt_pair *pairs = calloc((size_t)nmeta + 5, sizeof *pairs);
    bool gradients = accumulating(s);
    char seed[24], runs[24];

    tcr_clear_error();
    if (!list || !pairs) {
        free(list);
        free(pairs);
        return tcr_fail(TCC_EENV, "%s: no memory", path);
    }
    for (int i = 0; i < nstates; i++)
        if (saved(&s->m->states[i], flags, gradients))
            list[n++] = (struct tccrt_named){tcr_string(s->m, s->m->states[i].name), state_tensor(s, i, own[i])};
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
    snprintf(runs, sizeof runs, "%lld", (long long)s->runs);
    pairs[k++] = (struct tccrt_pair){"tccc.model", s->m->desc->name ? s->m->desc->name : ""};
    pairs[k++] = (struct tccrt_pair){"tccc.source", s->m->desc->source ? s->m->desc->source : ""};
    if (!(flags & TCCRT_CHECKPOINT_WEIGHTS)) {
        pairs[k++] = (struct tccrt_pair){"tccc.seed", seed};
        pairs[k++] = (struct tccrt_pair){"tccc.runs", runs};
    }
    for (int i = 0; i < nmeta; i++)
        pairs[k++] = meta[i];
    status = tccrt_tensors_write(path, n, list, k, pairs);
    free(list);
    free(pairs);
    return status;
}

int tccrt_checkpoint_save(struct tccrt_session *s, const char *path, int flags, int nmeta,
                          const struct tccrt_pair *meta)
{
    uint32_t n = s->m->plan->states.count;
    void **own = calloc(n + 1, sizeof *own);
    int status;

    tcr_clear_error();
    if (!own)
        return tcr_fail(TCC_EENV, "%s: no memory", path);
    status = s->stage ? gather_states(s, flags, own) : TCC_OK;
    if (!status && s->stage <= 1)
        status = save(s, path, flags, nmeta, meta, own);
    if (s->stage)
        status = tell_stages(s, status);
    for (uint32_t i = 0; i < n; i++)
        free(own[i]);
    free(own);
    return status;
}

/* The file's tensor for state variable i, or NULL: it may be absent. */
static int match(struct tccrt_session *s, const struct tccrt_tensors *f, const char *path, int flags, int i,
                 const struct tccrt_named **out)
{
    const struct tcc_pstate *p = &s->m->states[i];
    const char *name = tcr_string(s->m, p->name);
    struct tcc_tensor t = state_tensor(s, i, NULL);
    const struct tccrt_named *x = tccrt_tensors_find(f, name);
    char want[256], found[256];

    *out = saved(p, flags, true) ? x : NULL;
    if (!x && saved(p, flags, false) && !(flags & TCCRT_CHECKPOINT_PARTIAL))
        return tcr_fail(TCC_EINPUT, "%s: '%s' (%s%s) is not there: this is no checkpoint of model '%s'", path, name,
                        tcr_dtype_name(t.dtype), tcr_dims_text(want, t.rank, t.dims), s->m->desc->name);
    if (*out &&
        (x->t.dtype != t.dtype || x->t.rank != t.rank || memcmp(x->t.dims, t.dims, (size_t)t.rank * sizeof *t.dims)))
        return tcr_fail(TCC_EINPUT, "%s: '%s': %s%s expected, %s%s found: this is no checkpoint of model '%s'", path,
                        name, tcr_dtype_name(t.dtype), tcr_dims_text(want, t.rank, t.dims), tcr_dtype_name(x->t.dtype),
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
            return tcr_fail(TCC_EINPUT, "%s: model '%s' has no state variable '%s': this is no checkpoint of it", path,
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
    for (int i = 0; i < nstates && !status; i++)
        status = match(s, f, path, flags, i, &found[i]);
    if (!status && !(flags & (TCCRT_CHECKPOINT_PARTIAL | TCCRT_CHECKPOINT_WEIGHTS)))
        status = check_names(s, f, path);
    if (!status && tccrt_tensors_check(f)) {
        char why[256];

        snprintf(why, sizeof why, "%s", tccrt_error());
        status = tcr_fail(TCC_EINPUT, "%s: %s", path, why);
    }
    for (int i = 0; i < nstates && !status; i++) {
        if (!s->states[i])
            continue; /* another stage's */
        if (found[i])
            memcpy(s->states[i], found[i]->t.data, s->m->states[i].bytes);
        else if (s->m->states[i].flags & TCCRT_STATE_GRADIENT)
            memset(s->states[i], 0, s->m->states[i].bytes);
    }
    if (!status && !(flags & TCCRT_CHECKPOINT_WEIGHTS) && seed && runs) {
        s->seed = strtoull(seed, NULL, 10);
        s->runs = strtoll(runs, NULL, 10);
    }
    free(found);
    return status;
}

int tccrt_checkpoint_load(struct tccrt_session *s, const char *path, int flags)
{
    struct tccrt_tensors *f;
    int status = tccrt_tensors_open(path, &f);

    if (status)
        return status;
    status = load(s, f, path, flags);
    tccrt_tensors_close(f);
    return status;
}
