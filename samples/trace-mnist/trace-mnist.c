/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains the classic MNIST network as a traced C program: it is written down as calls that record, compiled once, and run from
 * then on. Two convolutions, max-pool, dropout, two dense layers; Adadelta, the rate times 0.7 after each epoch.
 *
 *   trace-mnist TRAINING HELD-OUT [EPOCHS [BATCH [autocast]]]
 *
 * TRAINING and HELD-OUT are folders with pictures.idx3-ubyte and labels.idx1-ubyte, in the layout of the MNIST files
 * (samples/digits/draw.py draws such sets). TCCC_CACHE_DIR=DIR keeps compiled graphs: the next run compiles nothing.
 *
 * Started as `mpirun -np 4 trace-mnist ...` it trains in 4 processes, each with its part of every batch; the first one tests.
 *
 * Build: cc -I TOP trace-mnist.c libtccc.so.0 -lm (or pkg-config tccc).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <compiler/trace.h>

#include "../idx.h"

enum { NPARAMS = 8, CLASSES = 10 };

struct network {
    struct trace_ctx *c;
    struct trace_tensor *params[NPARAMS];
    bool autocast;
};

/* -- The network --------------------------------------------------------------------------------------------- */

static void make(struct network *n)
{
    struct trace_ctx *c = n->c;
    const struct {
        const char *name;
        int rank;
        int64_t dims[4], fan_in;
    } rows[NPARAMS] = {
        {"conv1.weight", 4, {32, 1, 3, 3}, 9},    {"conv1.bias", 1, {32}, 9},
        {"conv2.weight", 4, {64, 32, 3, 3}, 288}, {"conv2.bias", 1, {64}, 288},
        {"fc1.weight", 2, {128, 9216}, 9216},     {"fc1.bias", 1, {128}, 9216},
        {"fc2.weight", 2, {CLASSES, 128}, 128},   {"fc2.bias", 1, {CLASSES}, 128},
    };
    for (int i = 0; i < NPARAMS; i++)
        n->params[i] =
            trace_param(trace_layer_init(c, TCC_F32, rows[i].rank, rows[i].dims, rows[i].fan_in), rows[i].name);
}

/* Scores of a batch of pictures. */
static struct trace_tensor *forward(struct network *n, struct trace_tensor *pictures, bool training)
{
    struct trace_tensor *const *p = n->params;
    int outer = trace_autocast(n->c, n->autocast ? TCC_BF16 : TCC_NONE);
    struct trace_tensor *x = trace_mul_number(trace_cast(pictures, TCC_F32), 1.0 / 255);
    x = trace_relu(trace_conv(x, p[0], p[1], 1, 0, 1));
    x = trace_relu(trace_conv(x, p[2], p[3], 1, 0, 1));
    x = trace_max_pool(x, 2, 2, 0);
    x = training ? trace_dropout(x, 0.25) : x;
    x = trace_relu(trace_linear(trace_flatten(x, 1), p[4], p[5]));
    x = training ? trace_dropout(x, 0.5) : x;
    x = trace_linear(x, p[6], p[7]);
    trace_autocast(n->c, outer);
    return x;
}

/* -- Training -------------------------------------------------------------------------------------------------- */

struct progress {
    double sum;
    int64_t steps;
};

/* Called behind each step, while the next ones run. */
static void count_loss(void *user, int n, const struct tcc_tensor *values)
{
    struct progress *p = user;
    (void)n;
    p->sum += (double)*(const float *)values[0].data;
    p->steps++;
}

static int train(struct network *n, struct trace_loader *data, struct trace_optimizer *opt, struct progress *p)
{
    struct trace_tensor *batch[2];
    bool more;
    int status;

    while (!(status = trace_loader_next(data, batch, &more)) && more) {
        struct trace_tensor *loss = trace_cross_entropy(forward(n, batch[0], true), trace_cast(batch[1], TCC_I64));
        trace_zero_grad(opt);
        trace_backward(loss);
        trace_optimizer_step(opt);
        loss = trace_all_reduce(loss, "dp", "avg"); /* of the whole batch */
        trace_step_closure(n->c, count_loss, p, 1, &loss);
    }
    return status ? status : trace_wait(n->c);
}

static int test(struct network *n, struct trace_loader *data, int64_t *right)
{
    const struct tcc_tensor zero = {right, TCC_I64, 0, {0}};
    struct trace_tensor *batch[2], *sum;
    bool more;
    int status;

    *right = 0;
    sum = trace_retain(trace_from(n->c, &zero));
    while (!(status = trace_loader_next(data, batch, &more)) && more) {
        struct trace_tensor *label = trace_argmax(forward(n, batch[0], false), 1, false);
        struct trace_tensor *hits = trace_cast(trace_eq(label, trace_cast(batch[1], TCC_I64)), TCC_I64);
        trace_assign(sum, trace_add(sum, trace_sum(hits, -1, NULL, false)));
    }
    if (!status)
        status = trace_read(sum, right, sizeof *right);
    trace_release(sum);
    return status;
}

static int run(struct network *n, struct trace_loader *training, struct trace_loader *held_out, int epochs,
               int64_t count)
{
    const struct trace_optimizer_options options = {.schedule = "step:size=1,gamma=0.7", .data_parallel = true};
    struct trace_optimizer *opt = trace_optimizer(n->c, "adadelta:lr=1", NPARAMS, n->params, &options);
    int status = TCC_OK;

    for (int epoch = 0; !status && epoch < epochs; epoch++) {
        struct progress p = {0};
        int64_t right = 0;
        trace_loader_start(training, epoch);
        trace_loader_start(held_out, 0);
        trace_set_epoch(opt, epoch);
        status = train(n, training, opt, &p);
        bool first = trace_group_rank(n->c, "world") == 0; /* the others go on, and wait for it in their next step */
        if (!status && first)
            status = test(n, held_out, &right);
        if (!status && first)
            printf("epoch %d: loss %.4f, %" PRId64 " of %" PRId64 " held-out images right (%.1f %%)\n", epoch + 1,
                   p.sum / (double)p.steps, right, count, 100.0 * (double)right / (double)count);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct idx_set training = {0}, held_out = {0};
    struct network n = {0};
    int epochs = argc > 3 ? atoi(argv[3]) : 3, batch = argc > 4 ? atoi(argv[4]) : 64;

    if (argc < 3 || argc > 6 || epochs < 1 || batch < 1 || (argc == 6 && strcmp(argv[5], "autocast"))) {
        fprintf(stderr, "usage: trace-mnist TRAINING HELD-OUT [EPOCHS [BATCH [autocast]]]\n");
        return 2;
    }
    n.autocast = argc == 6;
    if (idx_read_set(argv[1], &training) || idx_read_set(argv[2], &held_out))
        return 1;
    if (trace_new(&(struct trace_options){.seed = 1}, &n.c)) {
        fprintf(stderr, "trace-mnist: no memory\n");
        return 3;
    }
    if (trace_join(n.c, 1)) {
        fprintf(stderr, "trace-mnist: %s\n", trace_error(n.c));
        trace_free(n.c);
        return 3;
    }
    make(&n);
    struct trace_loader *a =
        trace_loader(n.c, 2, training.arrays,
                     &(struct trace_loader_options){.batch = batch, .shuffle = true, .seed = 1, .data_parallel = true});
    struct trace_loader *b =
        trace_loader(n.c, 2, held_out.arrays, &(struct trace_loader_options){.batch = 100, .keep_last = true});
    int status = a && b ? run(&n, a, b, epochs, held_out.arrays[0].dims[0]) : trace_mark_step(n.c);
    if (status)
        fprintf(stderr, "trace-mnist: %s\n", trace_error(n.c));

    struct trace_counters counters;
    trace_count(n.c, &counters);
    printf("graphs: %" PRId64 " traced, %" PRId64 " compiled, %" PRId64 " loaded, %" PRId64 " executed\n",
           counters.traced, counters.compiled, counters.loaded, counters.executed);
    trace_free(n.c);
    for (int i = 0; i < 2; i++) {
        free(training.arrays[i].data);
        free(held_out.arrays[i].data);
    }
    return status ? 1 : 0;
}
