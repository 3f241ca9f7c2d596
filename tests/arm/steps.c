/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.c - training steps of a compiled network of tests/train/networks by the run-time library alone, so that the
 * same program is made for this machine and for another one in an emulator (tests/arm-train.tap). Prints "STEP LOSS" a
 * line.
 *
 *   steps STEP.so CASE.txt FIRST END [LOAD|-] [SAVE|-] [GROUP]
 *
 * Steps FIRST to END - 1, behind what the checkpoint LOAD has; SAVE is written behind them. GROUP: one of several ranks
 * of the launcher's job, which averages gradients in that group; each takes its own part of the batch.
 */
#include "runtime/tccrt.h"
#include "tests/train/batches.h"

#include <string.h>

struct job {
    struct batch batch;
    struct tccrt_model *model;
    struct tccrt_session *session;
    struct tccrt_comm *world;
};

static bool good(int status)
{
    if (status != TCC_OK)
        fprintf(stderr, "%s\n", tccrt_error());
    return status == TCC_OK;
}

static bool join(struct job *j, const char *group)
{
    return good(tccrt_comm_init(NULL, &j->world)) && good(tccrt_session_group(j->session, group, j->world)) &&
           good(tccrt_comm_state(j->world, 0, j->session));
}

static bool begin(struct job *j, char **argv)
{
    char line[1000];
    FILE *f = fopen(argv[2], "r");
    bool ok = f && fgets(line, sizeof line, f) && batch_read(&j->batch, line);
    if (f)
        fclose(f);
    if (!ok)
        return fprintf(stderr, "%s: no case\n", argv[2]), false;
    return good(tccrt_open(argv[1], &j->model)) &&
           good(tccrt_session_new(j->model, &(struct tccrt_options){.threads = 2}, &j->session));
}

/* This rank's samples, which lie one behind another. */
static struct tcc_tensor part(const struct tcc_tensor *whole, const struct tccrt_comm *world)
{
    struct tcc_tensor t = *whole;
    int ranks = world ? tccrt_comm_size(world) : 1, rank = world ? tccrt_comm_rank(world) : 0;
    t.dims[0] /= ranks;
    t.data = (char *)whole->data + (size_t)rank * bytes_of(&t);
    return t;
}

static bool step(struct job *j, int number)
{
    struct tcc_tensor out = {0};
    batch_fill(&j->batch, number);
    struct tcc_tensor in[2] = {part(&j->batch.in[0], j->world), part(&j->batch.in[1], j->world)};
    if (!good(tccrt_run(j->session, "step", 2, in, 1, &out)))
        return false;
    printf("%d %.9g\n", number, (double)*(float *)out.data);
    return true;
}

static bool given(int argc, char **argv, int i)
{
    return argc > i && strcmp(argv[i], "-") != 0;
}

int main(int argc, char **argv)
{
    struct job j = {0};
    if (argc < 5)
        return 2;
    bool ok = begin(&j, argv) && (!given(argc, argv, 5) || good(tccrt_checkpoint_load(j.session, argv[5], 0))) &&
              (argc <= 7 || join(&j, argv[7]));
    for (int i = atoi(argv[3]); ok && i < atoi(argv[4]); i++)
        ok = step(&j, i);
    ok = ok && (!given(argc, argv, 6) || good(tccrt_checkpoint_save(j.session, argv[6], 0, 0, NULL)));
    tccrt_session_free(j.session);
    tccrt_close(j.model);
    if (j.world)
        ok = good(tccrt_comm_finalize(j.world, NULL)) && ok;
    free(j.batch.in[0].data);
    free(j.batch.in[1].data);
    return !ok;
}
