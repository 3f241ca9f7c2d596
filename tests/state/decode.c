/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode STATELESS STATEFUL NEXT PAST CAPACITY INPUT,OUTPUT...: decodes with a cache in the session, and beside it with
 * an artifact of the same model that is given the past. NEXT and PAST are the symbols of the new tokens' and the past's
 * number; a dim that is neither is both together. A prompt of three tokens and 19 single ones; the cache is reset and
 * all done again; then it is filled up. Prints TAP.
 */
#include "tests/tensors.h"

#include "runtime/tccrt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, PROMPT = 3, RUNS = 20 };

struct half {
    struct tccrt_model *m;
    struct tccrt_session *s;
    int nin, nout;
    struct tccrt_value_info in[MOST], out[MOST];
};

static struct half without, with;
static const char *next_name, *past_name;
static struct { char *in, *out; } pairs[MOST];
static int npairs, plan, failed;
static unsigned long seed = 1;

static void verdict(bool good, const char *what)
{
    printf("%sok %d - %s%s%s\n", good ? "" : "not ", ++plan, what, good ? "" : ": ", good ? "" : tccrt_error());
    failed += !good;
}

static unsigned random_below(unsigned n)
{
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(seed >> 33) % n;
}

static bool open_half(struct half *h, const char *path)
{
    if (tccrt_open(path, &h->m) || tccrt_session_new(h->m, NULL, &h->s))
        return false;
    h->nin = tccrt_ninputs(h->m, "main");
    h->nout = tccrt_noutputs(h->m, "main");
    for (int i = 0; i < h->nin; i++)
        tccrt_input(h->m, "main", i, &h->in[i]);
    for (int i = 0; i < h->nout; i++)
        tccrt_output(h->m, "main", i, &h->out[i]);
    return h->nin < MOST && h->nout < MOST;
}

static int index_of(int n, const struct tccrt_value_info *list, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return i;
    return -1;
}

/* Memory for a tensor of that signature. */
static struct tcc_tensor make(const struct tccrt_value_info *info, int64_t next, int64_t past)
{
    struct tcc_tensor t = {.dtype = info->dtype, .rank = info->rank};
    int64_t n = 1;
    for (int i = 0; i < info->rank; i++) {
        const char *name = info->dim_names[i];
        t.dims[i] = info->dims[i] >= 0                  ? info->dims[i]
                    : !name                             ? 1
                    : !strcmp(name, next_name)          ? next
                    : !strcmp(name, past_name)          ? past
                    : !strcmp(name, "source")           ? 6
                                                        : past + next;
        n *= t.dims[i];
    }
    t.data = calloc((size_t)n + 1, 8);
    return t;
}

/* Integers of a mask (past and new together) are 1, others tokens. */
static void fill(struct tcc_tensor *t, bool mask)
{
    for (int64_t i = 0; i < elements(t); i++)
        if (t->dtype == TCC_I64)
            ((int64_t *)t->data)[i] = mask ? 1 : random_below(40);
        else
            ((float *)t->data)[i] = (float)random_below(2000) / 1000 - 1;
}

static bool close_enough(const struct tcc_tensor *a, const struct tcc_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims))
        return false;
    for (int64_t i = 0; i < elements(a); i++) {
        double x = ((float *)a->data)[i], y = ((float *)b->data)[i];
        if (!(fabs(x - y) <= 1e-5 + 1e-4 * fabs(y)))
            return false;
    }
    return true;
}

/* One run of both; the stateless one's presents become its pasts. */
static bool step(struct tcc_tensor *past, int64_t next, int64_t held)
{
    struct tcc_tensor in[MOST], out[MOST] = {{0}}, sin[MOST], sout[MOST] = {{0}};
    bool good = true;
    for (int i = 0; i < without.nin; i++) {
        const struct tccrt_value_info *info = &without.in[i];
        int pair = 0;
        while (pair < npairs && strcmp(pairs[pair].in, info->name))
            pair++;
        if (pair < npairs) {
            in[i] = past[pair];
            continue;
        }
        in[i] = make(info, next, held);
        int k = index_of(with.nin, with.in, info->name);
        bool mask = info->rank > 1 && info->dims[1] < 0 && info->dim_names[1] && strcmp(info->dim_names[1], next_name);
        fill(&in[i], mask);
        if (k < 0)
            return false;
        sin[k] = in[i];
    }
    if (tccrt_run(without.s, "main", without.nin, in, without.nout, out) ||
        tccrt_run(with.s, "main", with.nin, sin, with.nout, sout))
        return false;
    for (int k = 0; k < with.nout; k++) {
        int i = index_of(without.nout, without.out, with.out[k].name);
        good &= i >= 0 && close_enough(&sout[k], &out[i]);
    }
    for (int p = 0; p < npairs; p++) {
        struct tcc_tensor *now = &out[index_of(without.nout, without.out, pairs[p].out)];
        past[p] = *now;
        past[p].data = malloc(bytes_of(now) + 1);
        memcpy(past[p].data, now->data, bytes_of(now));
    }
    return good;
}

static int64_t position(void)
{
    struct tcc_tensor t;
    return tccrt_state_get(with.s, "position", &t) ? -1 : *(int64_t *)t.data;
}

static bool decode(void)
{
    struct tcc_tensor past[MOST];
    int64_t held = 0;
    for (int p = 0; p < npairs; p++)
        past[p] = make(&without.in[index_of(without.nin, without.in, pairs[p].in)], 1, 0);
    for (int i = 0; i < RUNS; i++) {
        int64_t next = i ? 1 : PROMPT;
        if (position() != held || !step(past, next, held))
            return false;
        held += next;
    }
    return position() == held;
}

static bool overflow(int64_t capacity)
{
    int64_t held = position();
    struct tcc_tensor in[MOST], out[MOST] = {{0}};
    for (int i = 0; i < with.nin; i++) {
        in[i] = make(&with.in[i], capacity - held + 1, held);
        fill(&in[i], with.in[i].rank > 1 && with.in[i].dim_names[1] && strcmp(with.in[i].dim_names[1], next_name));
    }
    int status = tccrt_run(with.s, "main", with.nin, in, with.nout, out);
    printf("# %s\n", tccrt_error());
    return status == TCC_EINPUT && strstr(tccrt_error(), "position") && strstr(tccrt_error(), "fit") &&
           position() == held;
}

int main(int argc, char **argv)
{
    if (argc < 7)
        return 2;
    next_name = argv[3];
    past_name = argv[4];
    for (int i = 6; i < argc; i++) {
        char *colon = strchr(argv[i], ',');
        *colon = 0;
        pairs[npairs].in = argv[i];
        pairs[npairs++].out = colon + 1;
    }
    verdict(open_half(&without, argv[1]) && open_half(&with, argv[2]), "the artifacts open");
    if (failed)
        return 1;
    verdict(with.nin == without.nin - npairs && with.nout == without.nout - npairs,
            "past and present left the signature");
    verdict(decode(), "20 runs give what the model gives with the past as inputs");
    verdict(!tccrt_state_reset(with.s, NULL) && position() == 0 && decode(), "after a reset too");
    verdict(overflow(atoi(argv[5])), "more than the capacity is refused, and nothing changes");
    verdict(!tccrt_state_reset(with.s, "position") && position() == 0 && decode(), "the position alone can be reset");
    verdict(tccrt_state_reset(with.s, "nope") == TCC_EUSAGE && tccrt_state_reset(NULL, NULL) == TCC_EUSAGE,
            "what is not there cannot");
    printf("1..%d\n", plan);
    return 0;
}
