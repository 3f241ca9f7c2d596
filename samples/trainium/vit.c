/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small vision transformer as a traced C program on simulated NeuronCores, trained on one worker or several; batches_per_execution batches are one execution: one transfer an
 * input, one graph.
 *
 *   vit FOLDER [BATCHES_PER_EXECUTION [EXECUTIONS [BATCH]]]
 *
 * FOLDER has pictures.idx3-ubyte and labels.idx1-ubyte (samples/digits): 28 x 28, cut in 16 patches of 7 x 7. Prints the loss of each batch and how many pictures a second the
 * modelled core learns from. Workers: as for mlp.c.
 *
 * Build: cc -I TOP vit.c libtccc.so.0 -lm (or pkg-config tccc).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../idx.h"

enum {
    PATCHES = 4,
    SIDE = 7,
    TOKENS = PATCHES * PATCHES,
    PIXELS = SIDE * SIDE,
    WIDTH = 32,
    HEADS = 2,
    BLOCKS = 2,
    CLASSES = 10
};
enum { WEIGHTS = 5 + 12 * BLOCKS };

/* Parameters in the order in which the network takes them. */
struct network {
    struct trace_ctx *c;
    struct trace_tensor *params[WEIGHTS];
    int made, at;
};

static struct trace_tensor *param(struct network *n, int rank, int64_t rows, int64_t columns, double value)
{
    const int64_t dims[] = {rows, columns};
    char name[32];

    snprintf(name, sizeof name, "p%d", n->made);
    return n->params[n->made++] = trace_param(rank == 2 ? trace_layer_init(n->c, TCC_F32, 2, dims, columns)
                                                        : trace_full(n->c, TCC_F32, 1, dims, value),
                                              name);
}

static void make_linear(struct network *n, int64_t in, int64_t out)
{
    param(n, 2, out, in, 0);
    param(n, 1, out, 0, 0);
}

static void make_norm(struct network *n)
{
    param(n, 1, WIDTH, 0, 1);
    param(n, 1, WIDTH, 0, 0);
}

static void make(struct network *n)
{
    make_linear(n, PIXELS, WIDTH);
    param(n, 2, TOKENS, WIDTH, 0); /* positions */
    for (int k = 0; k < BLOCKS; k++) {
        make_norm(n);
        make_linear(n, WIDTH, 3 * WIDTH);
        make_linear(n, WIDTH, WIDTH);
        make_norm(n);
        make_linear(n, WIDTH, 2 * WIDTH);
        make_linear(n, 2 * WIDTH, WIDTH);
    }
    make_linear(n, WIDTH, CLASSES);
}

static struct trace_tensor *next(struct network *n)
{
    return n->params[n->at++];
}

static struct trace_tensor *linear(struct network *n, struct trace_tensor *x)
{
    struct trace_tensor *w = next(n);
    return trace_linear(x, w, next(n));
}

static struct trace_tensor *norm(struct network *n, struct trace_tensor *x)
{
    struct trace_tensor *scale = next(n);
    return trace_layer_norm(x, 1, scale, next(n), 1e-6);
}

/* x[b, tokens, width] -> [b, heads, tokens, width / heads], of part k of the three. */
static struct trace_tensor *head(struct trace_tensor *x, int k)
{
    struct trace_tensor *part = trace_slice(x, 2, k * WIDTH, WIDTH);
    const int64_t dims[] = {trace_dims(x)[0], TOKENS, HEADS, WIDTH / HEADS}, perm[] = {0, 2, 1, 3};

    return trace_transpose(trace_reshape(part, 4, dims), perm);
}

static struct trace_tensor *block(struct network *n, struct trace_tensor *x)
{
    const int64_t perm[] = {0, 2, 1, 3};
    struct trace_tensor *h = linear(n, norm(n, x));

    h = trace_attention(head(h, 0), head(h, 1), head(h, 2), NULL, 0.25, false); /* 1 / sqrt(16) */
    h = trace_reshape(trace_transpose(h, perm), 3, trace_dims(x));
    x = trace_add(x, linear(n, h));
    h = trace_gelu(linear(n, norm(n, x)));
    return trace_add(x, linear(n, h));
}

static struct trace_tensor *forward(struct network *n, struct trace_tensor *pictures)
{
    const int64_t b = trace_dims(pictures)[0], cut[] = {b, PATCHES, SIDE, PATCHES, SIDE}, perm[] = {0, 1, 3, 2, 4},
                  tokens[] = {b, TOKENS, PIXELS}, axis = 1;
    struct trace_tensor *x = trace_mul_number(trace_cast(pictures, TCC_F32), 1.0 / 255);

    n->at = 0;
    x = linear(n, trace_reshape(trace_transpose(trace_reshape(x, 5, cut), perm), 3, tokens));
    x = trace_add(x, next(n));
    for (int k = 0; k < BLOCKS; k++)
        x = block(n, x);
    return linear(n, trace_mean(x, 1, &axis, false));
}

static void print_loss(void *user, int n, const struct tcc_tensor *values)
{
    int64_t *batch = user;

    (void)n;
    printf("batch %" PRId64 ": loss %.6f\n", ++*batch, (double)*(const float *)values[0].data);
}

static int train(struct network *n, struct trace_loader *data, int64_t batches)
{
    const struct trace_optimizer_options options = {.data_parallel = true};
    struct trace_optimizer *opt = trace_optimizer(n->c, "adamw:lr=1e-3", WEIGHTS, n->params, &options);
    struct trace_tensor *batch[2];
    int64_t shown = 0, epoch = 0;
    int status = opt ? TCC_OK : TCC_EUSAGE;
    bool more, first = trace_group_rank(n->c, "world") == 0;

    for (int64_t k = 0; k < batches && !status; k++) {
        if (!(status = trace_loader_next(data, batch, &more)) && !more) {
            trace_loader_start(data, ++epoch);
            status = trace_loader_next(data, batch, &more);
        }
        if (status)
            break;
        struct trace_tensor *loss = trace_cross_entropy(forward(n, batch[0]), trace_cast(batch[1], TCC_I64));
        trace_zero_grad(opt);
        trace_backward(loss);
        trace_optimizer_step(opt);
        loss = trace_all_reduce(loss, "dp", "avg");
        if (first)
            trace_step_closure(n->c, print_loss, &shown, 1, &loss);
    }
    if (!status)
        status = trace_mark_step(n->c);
    return status ? status : trace_wait(n->c);
}

static int run(struct trace_ctx *c, const struct idx_set *set, int per, int64_t executions, int64_t batch)
{
    struct network n = {.c = c};
    struct trace_counters counters;
    struct trace_loader *data;
    int status = trace_join(c, 1);

    if (status)
        return status;
    make(&n);
    data = trace_loader(
        c, 2, set->arrays,
        &(struct trace_loader_options){
            .batch = batch, .shuffle = true, .seed = 1, .data_parallel = true, .batches_per_execution = per});
    status = data ? train(&n, data, per * executions) : TCC_EUSAGE;
    trace_count(c, &counters);
    if (!status && trace_group_rank(c, "world") == 0 && counters.modelled > 0)
        printf("%d batches an execution: %.1f pictures a second of modelled time\n", per,
               (double)(per * executions * batch) / counters.modelled);
    return status;
}

int main(int argc, char **argv)
{
    const char *device = getenv("TCCC_DEVICE");
    int64_t per = argc > 2 ? atoll(argv[2]) : 1, executions = argc > 3 ? atoll(argv[3]) : 4,
            batch = argc > 4 ? atoll(argv[4]) : 8;
    struct idx_set set = {0};
    struct trace_ctx *c = NULL;

    if (argc < 2 || argc > 5 || per < 1 || per > 64 || executions < 1 || batch < 1) {
        fprintf(stderr, "usage: vit FOLDER [BATCHES_PER_EXECUTION [EXECUTIONS [BATCH]]]\n");
        return 2;
    }
    if (idx_read_set(argv[1], &set))
        return 1;
    int status = trace_new(&(struct trace_options){.target = device && *device ? NULL : "neuron:trn1", .seed = 1}, &c);
    if (!status)
        status = run(c, &set, (int)per, executions, batch);
    if (status)
        fprintf(stderr, "vit: %s\n", trace_error(c));
    trace_free(c);
    for (int i = 0; i < 2; i++)
        free(set.arrays[i].data);
    return status ? 1 : 0;
}
