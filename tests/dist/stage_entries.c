/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of a step in stages, from C, in one process or in several (stages times copies of the model):
 *
 *   stage_entries grads ARTIFACT            grad and apply make what step makes; a program changes gradients between
 *   them, its own stage's
 *                                           only; the same as one process with all stages and the whole batch
 *   stage_entries accumulate ARTIFACT WHOLE K calls of the artifact in stages, compiled with --accumulate=K, are K of
 *   the uncut one
 *   stage_entries memory ARTIFACT NOTES     a stage takes what the compiler's notes promise
 *   stage_entries alike ARTIFACT OTHER      five steps of both lead to the same state, to 1e-6
 *   stage_entries failed ARTIFACT           a step that fails in its last microbatch leaves all state bit for bit as it
 *   was
 */
#include "runtime/tccrt.h"
#include "tests/dist/batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tccrt_comm *world, *pp, *dp;
static int rows = 8, rank, ranks, stages, stage, copy, copies; /* stage: 1 + this process's, 0: all */

static int failed(const char *what)
{
    printf("rank %d: FAIL: %s: %s\n", rank, what, tccrt_error());
    fflush(stdout);
    if (ranks > 1)
        tccrt_comm_abort(world, "a check has failed");
    return 1;
}

/* -- Data ---------------------------------------------------------------------------------------------------------- */

/* This copy's rows of a batch. */
static struct batch part_of(const struct batch *b)
{
    struct batch part = *b;
    for (int i = 0; i < b->n; i++) {
        part.in[i].dims[0] = rows / copies;
        part.in[i].data = (char *)b->in[i].data + bytes_of(&part.in[i]) * (size_t)copy;
    }
    return part;
}

/* The entry point's first output; NAN: failed. */
static double call(struct tccrt_session *s, const char *entry, const struct batch *b)
{
    float out = NAN;
    struct tcc_tensor result = {&out, TCC_F32, 0, {0}};
    int status = tccrt_run(s, entry, b ? b->n : 0, b ? b->in : NULL, 1, &result);
    return status ? NAN : (double)out;
}

/* -- State --------------------------------------------------------------------------------------------------------- */

/* The largest difference of parameters and optimizer state that `mine` holds, relative to the largest element. */
static double difference(struct tccrt_model *m, struct tccrt_session *mine, struct tccrt_session *all)
{
    double worst = 0;
    for (int i = 0; i < tccrt_nstates(m); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor x, y;
        tccrt_state_info(m, i, &info);
        if ((tccrt_state_flags(m, i) & TCCRT_STATE_GRADIENT) || info.dtype != TCC_F32 ||
            tccrt_state_get(mine, info.name, &x) || tccrt_state_get(all, info.name, &y))
            continue;
        double most = 1e-3, apart = 0;
        for (int64_t k = 0; k < elements(&x); k++) {
            double a = ((float *)x.data)[k], b = ((float *)y.data)[k];
            most = fmax(most, fabs(b));
            apart = isnan(a) || isnan(b) ? INFINITY : fmax(apart, fabs(a - b));
        }
        worst = fmax(worst, apart / most);
    }
    return worst;
}

static double number(struct tccrt_session *s, const char *name)
{
    struct tcc_tensor t;
    return tccrt_state_get(s, name, &t) ? NAN : (double)*(int64_t *)t.data;
}

/* All that the session holds, one behind the other; gradients where they are being accumulated. */
static char *copy_state(struct tccrt_model *m, struct tccrt_session *s, size_t *size)
{
    char *all = NULL;
    bool gradients = number(s, "train.micro") > 0;
    *size = 0;
    for (int i = 0; i < tccrt_nstates(m); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor t;
        tccrt_state_info(m, i, &info);
        if (((tccrt_state_flags(m, i) & TCCRT_STATE_GRADIENT) && !gradients) || tccrt_state_get(s, info.name, &t))
            continue;
        all = realloc(all, *size + bytes_of(&t) + 1);
        memcpy(all + *size, t.data, bytes_of(&t));
        *size += bytes_of(&t);
    }
    return all;
}

/* Multiplies the gradients that the session holds; how many there were. */
static int scale_gradients(struct tccrt_model *m, struct tccrt_session *s, float by, int *foreign)
{
    int n = 0;
    *foreign = 0;
    for (int i = 0; i < tccrt_nstates(m); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor t;
        tccrt_state_info(m, i, &info);
        if (!(tccrt_state_flags(m, i) & TCCRT_STATE_GRADIENT))
            continue;
        if (tccrt_state_get(s, info.name, &t)) {
            ++*foreign;
            continue;
        }
        for (int64_t k = 0; k < elements(&t); k++)
            ((float *)t.data)[k] *= by;
        n++;
    }
    return n;
}

/* -- Cases --------------------------------------------------------------------------------------------------------- */

static int grads(struct tccrt_model *m, struct tccrt_session *mine, struct tccrt_session *all)
{
    struct batch b;
    double bound = copies > 1 ? 2e-6 : 0;
    unsigned steps = isnan(number(all, "train.micro")) ? 3 : 0; /* that are compared with step */
    int foreign, own;
    for (unsigned i = 0; i < 6; i++) {
        make_batch(m, rows, i, &b);
        struct batch part = part_of(&b);
        double loss = call(all, i < steps ? "step" : "grad", &b), same = call(mine, "grad", &part), rate, want;
        if (!(fabs(loss - same) <= 1e-6 * fabs(loss)))
            return failed("the loss of grad");
        if (i >= steps) {
            scale_gradients(m, all, 0.5f, &foreign);
            own = scale_gradients(m, mine, 0.5f, &foreign);
            if (!own || (stage && stages > 1 && !foreign) || (!stage && foreign))
                return failed("a stage's own gradients");
        }
        rate = call(mine, "apply", NULL);
        want = i < steps ? rate : call(all, "apply", NULL);
        if (!(rate > 0) || rate != want)
            return failed("the rate that apply returns");
        drop_batch(&b);
        if (number(mine, "train.step") != i + 1)
            return failed("steps are counted by apply");
    }
    double d = difference(m, mine, all);
    printf("rank %d: grad and apply against step: %.1e\n", rank, d);
    return d <= bound ? 0 : failed("grad and apply against step");
}

static int accumulate(struct tccrt_model *m, struct tccrt_session *mine, const char *path)
{
    struct tccrt_options one = {.threads = 1};
    struct tccrt_model *uncut;
    struct tccrt_session *all;
    struct batch b;
    int updates = 0;
    if (tccrt_open(path, &uncut) || tccrt_session_new(uncut, &one, &all))
        return failed("open");
    for (unsigned i = 0; i < 7; i++) {
        make_batch(m, rows, i, &b);
        struct batch part = part_of(&b);
        double loss = call(all, "step", &b), same = call(mine, "step", &part);
        if (!(fabs(loss - same) <= 1e-6 * fabs(loss)))
            return failed("the loss");
        drop_batch(&b);
        if (number(mine, "train.micro") != number(all, "train.micro") ||
            number(mine, "train.step") != number(all, "train.step"))
            return failed("calls and updates are counted alike");
        updates = (int)number(mine, "train.step");
    }
    double d = difference(m, mine, all);
    printf("rank %d: %d updates in 7 calls, difference to the uncut step: %.1e\n", rank, updates, d);
    tccrt_session_free(all);
    tccrt_close(uncut);
    return updates > 0 && updates < 7 && d <= 1e-5 ? 0 : failed("accumulated gradients");
}

static int alike(struct tccrt_model *m, struct tccrt_session *mine, const char *path)
{
    struct tccrt_options one = {.threads = 1};
    struct tccrt_model *other;
    struct tccrt_session *s;
    struct batch b;
    if (tccrt_open(path, &other) || tccrt_session_new(other, &one, &s))
        return failed("open");
    for (unsigned i = 0; i < 5; i++) {
        make_batch(m, rows, i, &b);
        double x = call(mine, "step", &b), y = call(s, "step", &b);
        if (!(fabs(x - y) <= 1e-6 * fabs(x)))
            return failed("the loss");
        drop_batch(&b);
    }
    double d = difference(m, mine, s);
    printf("difference: %.1e\n", d);
    tccrt_session_free(s);
    tccrt_close(other);
    return d <= 1e-6 ? 0 : failed("state");
}

static int fails(struct tccrt_model *m, struct tccrt_session *mine)
{
    struct batch b;
    make_batch(m, rows, 1, &b);
    for (int i = 0; i < 4; i++)
        if (isnan(call(mine, "step", &b)))
            return failed("a good step");
    size_t size, now;
    uint64_t seed;
    int64_t runs, after;
    char *before = copy_state(m, mine, &size);
    tccrt_random_get(mine, &seed, &runs);
    struct tcc_tensor *labels = &b.in[b.n - 1];
    int64_t *last = (int64_t *)labels->data + elements(labels) - 1, good = *last;
    *last = 1000000;
    if (!isnan(call(mine, "step", &b)))
        return failed("a label out of range was taken");
    printf("%s\n", tccrt_error());
    char *behind = copy_state(m, mine, &now);
    tccrt_random_get(mine, &seed, &after);
    int differs = now != size || memcmp(before, behind, size) || after != runs;
    /* And a good step after that is the good step. */
    struct tccrt_options one = {.threads = 1};
    struct tccrt_session *other;
    *last = good;
    tccrt_session_new(m, &one, &other);
    for (int i = 0; i < 4; i++)
        call(other, "step", &b);
    double a = call(mine, "step", &b), c = call(other, "step", &b);
    free(behind);
    behind = copy_state(m, other, &now);
    free(before);
    before = copy_state(m, mine, &size);
    int later = a != c || memcmp(before, behind, size);
    free(before);
    free(behind);
    drop_batch(&b);
    tccrt_session_free(other);
    return differs ? failed("a failed step has changed the state") : later ? failed("the step after a failed one") : 0;
}

/* "stage 1 takes N bytes at its peak: N for tensors, ..." */
struct promise {
    unsigned long long peak, tensors, state, flight, other, scratch;
};

static int read_promise(const char *path, struct promise *p)
{
    char line[1000];
    FILE *f = fopen(path, "r");
    int found = 0;
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "stage ");
        int n;
        found = at &&
                sscanf(at,
                       "stage %d takes %llu bytes at its peak: %llu for tensors, %llu for state, %llu for "
                       "microbatches in flight, %llu for outputs and copies (and up to %llu a thread)",
                       &n, &p->peak, &p->tensors, &p->state, &p->flight, &p->other, &p->scratch) == 7 &&
                n == stage - 1;
    }
    if (f)
        fclose(f);
    return found;
}

static int memory(struct tccrt_model *m, struct tccrt_session *mine, const char *notes)
{
    struct promise p;
    struct batch b;
    unsigned long long state = 0, before, taken;
    if (!read_promise(notes, &p))
        return failed("no note about this stage");
    for (int i = 0; i < tccrt_nstates(m); i++) { /* gradients have memory from when somebody asks for them */
        struct tccrt_value_info info;
        struct tcc_tensor t;
        tccrt_state_info(m, i, &info);
        state += tccrt_state_get(mine, info.name, &t) ? 0 : bytes_of(&t);
    }
    before = tccrt_arena_bytes(mine);
    make_batch(m, rows, 1, &b);
    for (int i = 0; i < 3; i++)
        if (isnan(call(mine, "step", &b)))
            return failed("a step");
    drop_batch(&b);
    taken = tccrt_arena_bytes(mine) - before;
    printf("stage %d: promised %llu for tensors and microbatches in flight, taken %llu; state %llu and %llu\n",
           stage - 1, p.tensors + p.flight, taken, p.state, state);
    return taken >= p.tensors + p.flight && taken <= p.tensors + p.flight + p.scratch + 256 && state == p.state &&
                   p.peak == p.tensors + p.flight + p.state + p.other
               ? 0
               : failed("memory");
}

static int groups(struct tccrt_session *s)
{
    int list[64];
    for (int i = 0; i < stages; i++)
        list[i] = copy * stages + i;
    if (tccrt_comm_group(world, stages, list, &pp))
        return 1;
    for (int i = 0; i < copies; i++)
        list[i] = i * stages + stage - 1;
    return tccrt_comm_group(world, copies, list, &dp) || tccrt_session_group(s, "pp", pp) ||
           tccrt_session_group(s, "dp", dp);
}

int main(int argc, char **argv)
{
    struct tccrt_model *m;
    struct tccrt_session *mine, *all;
    if (argc < 3 || tccrt_comm_init(NULL, &world) || tccrt_open(argv[2], &m))
        return failed("open");
    rank = tccrt_comm_rank(world);
    ranks = tccrt_comm_size(world);
    stages = tccrt_stages(m);
    copies = ranks > 1 ? ranks / stages : 1;
    stage = ranks > 1 ? 1 + rank % stages : 0;
    copy = ranks > 1 ? rank / stages : 0;
    struct tccrt_value_info info;
    if (!tccrt_input(m, "step", 0, &info) && info.dims[0] > 0)
        rows = (int)info.dims[0];
    struct tccrt_options one = {.threads = 1, .stage = stage}, whole = {.threads = 1};
    if (ranks % copies || ranks > 64 || tccrt_session_new(m, &one, &mine) || tccrt_session_new(m, &whole, &all) ||
        (stage && groups(mine)))
        return failed("sessions");
    int code = !strcmp(argv[1], "grads")                    ? grads(m, mine, all)
               : !strcmp(argv[1], "accumulate") && argc > 3 ? accumulate(m, mine, argv[3])
               : !strcmp(argv[1], "memory") && argc > 3     ? memory(m, mine, argv[3])
               : !strcmp(argv[1], "alike") && argc > 3      ? alike(m, mine, argv[3])
               : !strcmp(argv[1], "failed")                 ? fails(m, mine)
                                                            : failed("no such case");
    tccrt_session_free(mine);
    tccrt_session_free(all);
    tccrt_close(m);
    tccrt_comm_free(pp);
    tccrt_comm_free(dp);
    return tccrt_comm_finalize(world, NULL) || code;
}
