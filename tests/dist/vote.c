/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's data is bad: no rank changes its state, and all of them say whose fault it is.
 *
 *   vote index ARTIFACT       rank 1's labels are out of range: status, message and state at all ranks; steps before
 *   and after go well
 *   vote overflow ARTIFACT    rank 1's inputs are infinite: all ranks leave out the update, by their dynamic loss scale
 *
 * A third argument says that ranks hold different state between steps (--zero=1, --accumulate). An artifact in stages
 * is run by that many ranks, the last of which has the loss; a fault there ends the job.
 */
#include "runtime/tccrt.h"
#include "tests/dist/batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, BAD = 1 };

static struct tccrt_comm *world;
static int rank, ranks;

static int failed(const char *what)
{
    printf("rank %d: FAIL: %s: %s\n", rank, what, tccrt_error());
    fflush(stdout);
    tccrt_comm_abort(world, "a check has failed");
    return 1;
}

static int step(struct tccrt_session *s, const struct batch *b)
{
    float loss;
    struct tcc_tensor out = {&loss, TCC_F32, 0, {0}};

    return tccrt_run(s, "step", b->n, b->in, 1, &out);
}

/* What the session holds; `params`: parameters and optimizer's slots, not the loss scale and the counts. Gradients of
 * stages are worth nothing between steps. */
static char *copy_state(struct tccrt_model *m, struct tccrt_session *s, int params, size_t *size)
{
    char *all = calloc(1, 1);

    *size = 0;
    for (int i = 0; i < tccrt_nstates(m); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor t;

        tccrt_state_info(m, i, &info);
        if ((params && !strncmp(info.name, "train.", 6)) || tccrt_state_get(s, info.name, &t) ||
            (tccrt_stages(m) > 1 && (tccrt_state_flags(m, i) & TCCRT_STATE_GRADIENT)))
            continue;
        all = realloc(all, *size + bytes_of(&t) + 1);
        memcpy(all + *size, t.data, bytes_of(&t));
        *size += bytes_of(&t);
    }
    return all;
}

static double number(struct tccrt_session *s, const char *name)
{
    struct tcc_tensor t;

    return tccrt_state_get(s, name, &t) ? NAN : (double)*(int64_t *)t.data;
}

/* Have all ranks the same? (Of the state of a stage each its own.) */
static int agrees(struct tccrt_model *m, struct tccrt_session *s)
{
    size_t size;
    char *state = copy_state(m, s, 0, &size);
    uint64_t sum = 14695981039346656037u;
    char text[32];

    for (size_t i = 0; i < size; i++)
        sum = (sum ^ (unsigned char)state[i]) * 1099511628211u;
    free(state);
    snprintf(text, sizeof text, "%llx", (unsigned long long)sum);
    return tccrt_comm_agree(world, "state", text);
}

/* How the bad rank's batch goes. */
static int bad_step(struct tccrt_model *m, struct tccrt_session *s, struct batch *b, int stages)
{
    struct tcc_tensor *labels = &b->in[b->n - 1];
    int64_t *last = (int64_t *)labels->data + elements(labels) - 1, good = *last;
    size_t size, now;
    char *before = copy_state(m, s, 0, &size), *behind, want[80];
    int status, differs;

    if (rank == BAD || stages > 1)
        *last = 1000000;
    status = step(s, b);
    *last = good;
    printf("rank %d: status %d: %s\n", rank, status, tccrt_error());
    snprintf(want, sizeof want, "rank %d: node '", BAD);
    if (stages == 1 && status != TCC_EINDEX)
        return failed("the status of a fault");
    if ((stages == 1 || rank != BAD) && !strstr(tccrt_error(), want))
        return failed("the message names the rank and the node");
    if (!status || !strstr(tccrt_error(), "is outside an axis of"))
        return failed("the message of a fault");
    behind = copy_state(m, s, 0, &now);
    differs = now != size || memcmp(before, behind, size);
    free(before);
    free(behind);
    return differs ? failed("state after a fault of one rank") : 0;
}

static int index_out_of_range(struct tccrt_model *m, struct tccrt_session *s, int stages, int zero)
{
    for (unsigned i = 0; i < 6; i++) {
        struct batch b;
        int bad;

        make_batch(m, ROWS, 10 * i + (stages > 1 ? 0 : (unsigned)rank), &b);
        if ((i == 2 || i == 3) && (bad = bad_step(m, s, &b, stages)))
            return bad;
        if (i == 2 && stages > 1) /* a pipeline that has failed is over */
            return drop_batch(&b), 0;
        if (step(s, &b))
            return failed("a good step");
        drop_batch(&b);
    }
    return !zero && stages == 1 && agrees(m, s) ? failed("the ranks' state") : 0;
}

static int overflow(struct tccrt_model *m, struct tccrt_session *s, int zero)
{
    for (unsigned i = 0; i < 4; i++) {
        struct batch b;
        size_t size, now;
        char *before = copy_state(m, s, 1, &size), *behind;
        int differs;

        make_batch(m, ROWS, 10 * i + (unsigned)rank, &b);
        if (i == 2 && rank == BAD)
            *(float *)b.in[0].data = INFINITY;
        if (step(s, &b))
            return failed("a step");
        behind = copy_state(m, s, 1, &now);
        differs = memcmp(before, behind, size) != 0;
        if (differs != (i != 2) || number(s, "train.skipped") != (i >= 2))
            return failed("an update after an overflow of one rank");
        free(before);
        free(behind);
        drop_batch(&b);
    }
    return !zero && agrees(m, s) ? failed("the ranks' state") : 0;
}

int main(int argc, char **argv)
{
    struct tccrt_options options = {.threads = 1};
    struct tccrt_model *m;
    struct tccrt_session *s;
    int bad;

    if (argc < 3 || tccrt_comm_init(NULL, &world))
        return printf("%s\n", tccrt_error()), 3;
    rank = tccrt_comm_rank(world);
    ranks = tccrt_comm_size(world);
    if (tccrt_open(argv[2], &m))
        return failed("open");
    int stages = tccrt_stages(m);
    options.stage = stages > 1 ? rank + 1 : 0;
    if (tccrt_session_new(m, &options, &s))
        return failed("session");
    tccrt_session_group(s, stages > 1 ? "pp" : "dp", world);
    bad = !strcmp(argv[1], "index") ? index_out_of_range(m, s, stages, argc > 3) : overflow(m, s, argc > 3);
    tccrt_session_free(s);
    tccrt_close(m);
    tccrt_comm_finalize(world, NULL);
    printf("rank %d of %d: %s\n", rank, ranks, bad ? "failed" : "well");
    return bad;
}
