/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A traced program of many processes: trace STAGES STEPS [MICROBATCHES [check|fail|dropout]]. Trains a network of three
 * layers (Adam, clipping) on made-up data with STAGES stages and as many copies as there are processes for; the first
 * process prints a loss a step, each process how many graphs it compiled and loaded. `check` also does what only shows
 * in many processes: collectives, state that is brought from its stage, state that is shared, an evaluation between
 * steps. `fail`: the last process meets a label that is none. `dropout`: with masks, which in stages are those of one
 * process.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/trace.h"

enum { NPARAMS = 6, SAMPLES = 96, WIDTH = 24, HIDDEN = 40, CLASSES = 8, BATCH = 16 };
typedef struct trace_tensor T;

static struct trace_ctx *c;
static T *params[NPARAMS];
static int stages, micros;
static bool masks;

static int failed(const char *what)
{
    fprintf(stderr, "FAIL: rank %d: %s: %s\n", trace_group_rank(c, "world"), what, trace_error(c));
    trace_free(c);
    exit(1);
}

#define CHECK(condition, what) (void)((condition) || failed(what))

static void print_loss(void *user, int n, const struct tcc_tensor *values)
{
    (void)n;
    if (*(int *)user == 0)
        printf("{\"loss\":%.9g}\n", (double)*(const float *)values[0].data);
}

static void make(void)
{
    const int64_t dims[NPARAMS][2] = {{HIDDEN, WIDTH}, {HIDDEN},          {HIDDEN, HIDDEN},
                                      {HIDDEN},        {CLASSES, HIDDEN}, {CLASSES}};
    static const char *const names[] = {"a.weight", "a.bias", "b.weight", "b.bias", "c.weight", "c.bias"};
    for (int i = 0; i < NPARAMS; i++)
        params[i] = trace_param(trace_layer_init(c, TCC_F32, i % 2 ? 1 : 2, dims[i], HIDDEN), names[i]);
}

/* The last stages' layers; with one stage or two, some are together. */
static T *scores(T *x, bool training)
{
    for (int i = 0; i < 3; i++) {
        int outer = trace_stage(c, i * stages / 3);
        x = trace_linear(x, params[2 * i], params[2 * i + 1]);
        x = i < 2 ? trace_gelu(x) : x;
        x = i == 1 && training && masks ? trace_dropout(x, 0.2) : x;
        trace_stage(c, outer);
    }
    return x;
}

/* The mean of the microbatches' losses: all forward passes are recorded before the backward passes, so that stages work
 * at once. */
static T *step(T *x, T *labels, struct trace_optimizer *o)
{
    T *losses[8], *sum = NULL;
    int64_t count = trace_dims(x)[0] / micros;
    for (int m = 0; m < micros; m++) {
        losses[m] = trace_cross_entropy(scores(trace_slice(x, 0, m * count, count), true),
                                        trace_slice(labels, 0, m * count, count));
        losses[m] = trace_mul_number(losses[m], 1.0 / micros);
        sum = m ? trace_add(sum, losses[m]) : losses[m];
    }
    trace_zero_grad(o);
    for (int m = 0; m < micros; m++)
        trace_backward(losses[m]);
    trace_optimizer_step(o);
    return trace_all_reduce(sum, "dp", "avg");
}

static double evaluate(const struct tcc_tensor *x)
{
    double value = 0;
    T *y = trace_sum(scores(trace_from(c, x), false), -1, NULL, false);
    CHECK(!trace_item(y, &value), "evaluate");
    return value;
}

/* Each rank gives its number + 1. */
static void check_collectives(void)
{
    int n = trace_group_size(c, "dp"), r = trace_group_rank(c, "dp");
    T *mine = trace_from_number(c, TCC_F32, r + 1), *row = trace_reshape(mine, 1, (int64_t[]){1});
    T *wide = trace_expand(row, 1, (int64_t[]){n});
    double sum, most, first;
    float all[16] = {0}, part[1], swapped[16];
    T *t[] = {trace_retain(trace_all_reduce(mine, "dp", "sum")),     trace_retain(trace_all_reduce(mine, "dp", "max")),
              trace_retain(trace_broadcast(mine, "dp", n - 1)),      trace_retain(trace_all_gather(row, "dp")),
              trace_retain(trace_reduce_scatter(wide, "dp", "sum")), trace_retain(trace_all_to_all(wide, "dp"))};
    CHECK(!trace_item(t[0], &sum) && !trace_item(t[1], &most) && !trace_item(t[2], &first) &&
              !trace_read(t[3], all, sizeof(float) * (size_t)n) && !trace_read(t[4], part, sizeof part) &&
              !trace_read(t[5], swapped, sizeof(float) * (size_t)n),
          "collectives");
    CHECK(sum == n * (n + 1) / 2 && most == n && first == n && part[0] == sum, "a collective's value");
    for (int i = 0; i < n; i++)
        CHECK(all[i] == i + 1 && swapped[i] == i + 1, "a collective's part");
    for (int i = 0; i < 6; i++)
        trace_release(t[i]);
    /* A list, by one message, scaled; parts of uneven sizes: rank r gives k + 1 rows to rank k. */
    T *both[] = {trace_from_number(c, TCC_F32, r + 1), NULL}, *sums[2];
    both[1] = trace_reshape(both[0], 1, (int64_t[]){1});
    int64_t give[16], take[16], total = 0;
    float parts[300], got[300];
    CHECK(!trace_all_reduce_many(c, 2, both, "dp", "sum", 0.5, sums), "a list of reductions");
    trace_retain(sums[0]);
    trace_retain(sums[1]);
    CHECK(!trace_item(sums[0], &sum) && !trace_read(sums[1], part, sizeof part), "a list's values");
    CHECK(sum == n * (n + 1) / 4.0 && part[0] == sum, "a scaled sum");
    trace_release(sums[0]);
    trace_release(sums[1]);
    for (int i = 0; i < n; i++) {
        give[i] = i + 1;
        take[i] = r + 1;
        for (int64_t k = 0; k < 2 * give[i]; k++)
            parts[total++] = (float)(10 * r + i);
    }
    T *uneven = trace_all_to_all_parts(trace_from(c, &(struct tcc_tensor){parts, TCC_F32, 2, {total / 2, 2}}), "dp",
                                       give, take);
    CHECK(uneven && trace_dims(uneven)[0] == n * (r + 1) &&
              !trace_read(uneven, got, sizeof(float) * (size_t)(2 * n * (r + 1))),
          "uneven parts");
    for (int i = 0; i < 2 * n * (r + 1); i++)
        CHECK(got[i] == (float)(10 * (i / (2 * (r + 1))) + r), "an uneven part");
    if (n > 1 && trace_group_size(c, "pp") == 1) {
        T *got = r ? trace_recv(c, "dp", r - 1, 3, TCC_F32, 0, NULL) : mine;
        T *next = trace_add_number(got, r ? 1 : 0);
        if (r + 1 < n)
            trace_send(next, "dp", r + 1, 3);
        CHECK(!trace_item(next, &sum) && sum == r + 1, "a row of messages");
    }
    CHECK(!trace_mark_step(c), "collectives");
    CHECK(!trace_reduce(mine, "dp", "sum", n) && trace_mark_step(c) == TCC_EUSAGE, "a tensor after its step");
    CHECK(!trace_reduce(trace_from_number(c, TCC_F32, 1), "dp", "sum", n) && trace_mark_step(c) == TCC_EUSAGE &&
              strstr(trace_error(c), "has no rank"),
          "a rank that is not there");
}

static void check_state(struct trace_optimizer *o)
{
    static float w[CLASSES * HIDDEN], again[CLASSES * HIDDEN];
    T *last = params[4];
    int n = trace_group_size(c, "pp"), home = 2 * stages / 3;
    if (n > 1 && trace_group_rank(c, "pp") != home)
        CHECK(trace_read(last, w, sizeof w) == TCC_EUSAGE && strstr(trace_error(c), "belongs to stage"),
              "a foreign parameter");
    CHECK(!trace_collect(last) && !trace_read(last, w, sizeof w), "collect");
    CHECK(!trace_collect(trace_optimizer_state(o, "optimizer.exp_avg.c.weight")), "collect a moment");
    /* What the first copy has, all get. */
    if (trace_group_rank(c, "dp") && (n == 1 || trace_group_rank(c, "pp") == home)) {
        memset(again, 0, sizeof again);
        CHECK(!trace_set(last, &(struct tcc_tensor){again, TCC_F32, 2, {CLASSES, HIDDEN}}), "set");
    }
    if (n == 1) {
        CHECK(!trace_share_state(c, "dp", 0) && !trace_read(last, again, sizeof again), "share");
        CHECK(!memcmp(w, again, sizeof w), "what was shared differs");
    }
}

int main(int argc, char **argv)
{
    static float x[SAMPLES][WIDTH];
    static int64_t labels[SAMPLES];
    struct tcc_tensor arrays[] = {{x, TCC_F32, 2, {SAMPLES, WIDTH}}, {labels, TCC_I64, 1, {SAMPLES}}};
    struct trace_counters count;
    T *batch[2];
    bool more;
    uint32_t random = 1;
    stages = argc > 1 ? atoi(argv[1]) : 1;
    micros = argc > 3 ? atoi(argv[3]) : 1;
    bool check = argc > 4 && !strcmp(argv[4], "check"), bad = argc > 4 && !strcmp(argv[4], "fail");
    masks = argc > 4 && !strcmp(argv[4], "dropout");
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < WIDTH; k++)
            x[i][k] = (float)((random = random * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1;
        labels[i] = (int64_t)(x[i][0] * 2 + x[i][1] * 2 + 4);
    }
    if (trace_new(&(struct trace_options){.seed = 7, .threads = 1}, &c))
        return 3;
    CHECK(!trace_join(c, stages), "join");
    int rank = trace_group_rank(c, "world");
    if (bad && rank == trace_group_size(c, "world") - 1)
        labels[50] = CLASSES;
    make();
    struct trace_optimizer *o = trace_optimizer(
        c, "adam:lr=3e-3", NPARAMS, params,
        &(struct trace_optimizer_options){.clip_norm = 0.5, .data_parallel = true, .bucket_cap_mb = 0.004});
    struct trace_loader *data =
        trace_loader(c, 2, arrays,
                     &(struct trace_loader_options){.batch = BATCH, .shuffle = true, .seed = 3, .data_parallel = true});
    CHECK(o && data, "make");
    if (check)
        check_collectives();
    for (int i = 0, steps = argc > 2 ? atoi(argv[2]) : 10; i < steps; i++) {
        CHECK(!trace_loader_next(data, batch, &more), "a step");
        if (!more) {
            trace_loader_start(data, i);
            CHECK(!trace_loader_next(data, batch, &more) && more, "an epoch");
        }
        T *loss = step(batch[0], batch[1], o);
        trace_step_closure(c, print_loss, &rank, 1, &loss);
        if (check && i == 4) {
            CHECK(!trace_mark_step(c), "a step");
            double value = evaluate(&arrays[0]);
            if (!rank)
                printf("{\"loss\":%.9g}\n", value);
        }
    }
    CHECK(!trace_mark_step(c) && !trace_wait(c), "the last step");
    trace_count(c, &count);
    printf("graphs: compiled %d, loaded %d\n", (int)count.compiled, (int)count.loaded);
    if (check)
        check_state(o);
    trace_free(c);
    return 0;
}
