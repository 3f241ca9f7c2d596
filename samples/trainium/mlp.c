/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The perceptron of the Neuron SDK's training tutorial as a traced C program on simulated NeuronCores: one worker or several, in float32, autocast or all in bf16.
 *
 *   mlp FOLDER [float32|autocast|bf16 [STEPS [BATCH]]]
 *
 * FOLDER has pictures.idx3-ubyte and labels.idx1-ubyte (samples/digits). Workers are processes that a launcher starts with torchrun's variables, a core each; BATCH is that
 * of all of them together:
 *
 *   TCCC_COMM=sim torchrun --nproc_per_node=2 --no-python ./mlp digits
 *
 * bf16: parameters and everything computed are bf16, and what becomes shorter is rounded stochastically (NEURON_RT_STOCHASTIC_ROUNDING_EN=1), without which small updates are
 * lost. TCCC_SIM=time models time alone. The same program trains on the CPU: TCCC_DEVICE=cpu.
 *
 * Build: cc -I TOP mlp.c libtccc.so.0 -lm (or pkg-config tccc).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../idx.h"

enum { LAYERS = 3 };
static const int64_t sizes[LAYERS + 1] = {784, 120, 84, 10};

struct network {
    struct trace_tensor *params[2 * LAYERS];
    int dtype, autocast;
};

static void make(struct trace_ctx *c, struct network *n)
{
    static const char *const names[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"};

    for (int k = 0; k < LAYERS; k++) {
        const int64_t dims[] = {sizes[k + 1], sizes[k]};

        for (int bias = 0; bias < 2; bias++)
            n->params[2 * k + bias] =
                trace_param(trace_layer_init(c, n->dtype, 2 - bias, dims, sizes[k]), names[2 * k + bias]);
    }
}

static struct trace_tensor *forward(struct trace_ctx *c, const struct network *n, struct trace_tensor *pictures)
{
    int outer = trace_autocast(c, n->autocast);
    struct trace_tensor *x = trace_mul_number(trace_cast(trace_flatten(pictures, 1), n->dtype), 1.0 / 255);

    for (int k = 0; k < LAYERS; k++) {
        x = trace_linear(x, n->params[2 * k], n->params[2 * k + 1]);
        x = k + 1 < LAYERS ? trace_relu(x) : x;
    }
    trace_autocast(c, outer);
    return trace_cast(x, TCC_F32);
}

static void print_loss(void *user, int n, const struct tcc_tensor *values)
{
    int64_t *step = user;

    (void)n;
    printf("step %" PRId64 ": loss %.6f\n", ++*step, (double)*(const float *)values[0].data);
}

static int train(struct trace_ctx *c, const struct network *n, struct trace_loader *data, int64_t steps)
{
    const struct trace_optimizer_options options = {.data_parallel = true};
    struct trace_optimizer *opt = trace_optimizer(c, "sgd:lr=0.2", 2 * LAYERS, n->params, &options);
    struct trace_tensor *batch[2];
    int64_t shown = 0, epoch = 0;
    int status = opt ? TCC_OK : TCC_EUSAGE;
    bool more, first = trace_group_rank(c, "world") == 0;

    for (int64_t k = 0; k < steps && !status; k++) {
        if (!(status = trace_loader_next(data, batch, &more)) && !more) {
            trace_loader_start(data, ++epoch);
            status = trace_loader_next(data, batch, &more);
        }
        if (status)
            break;
        struct trace_tensor *loss = trace_cross_entropy(forward(c, n, batch[0]), trace_cast(batch[1], TCC_I64));
        trace_zero_grad(opt);
        trace_backward(loss);
        trace_optimizer_step(opt);
        loss = trace_all_reduce(loss, "dp", "avg");
        if (first)
            trace_step_closure(c, print_loss, &shown, 1, &loss);
    }
    if (!status)
        status = trace_mark_step(c);
    return status ? status : trace_wait(c);
}

static int run(struct trace_ctx *c, const struct network *how, const struct idx_set *set, int64_t steps, int64_t batch)
{
    struct network n = *how;
    struct trace_counters counters;
    struct trace_loader *data;
    int status = trace_join(c, 1);

    if (status)
        return status;
    make(c, &n);
    data =
        trace_loader(c, 2, set->arrays,
                     &(struct trace_loader_options){.batch = batch, .shuffle = true, .seed = 1, .data_parallel = true});
    status = data ? train(c, &n, data, steps) : TCC_EUSAGE;
    trace_count(c, &counters);
    if (!status && trace_group_rank(c, "world") == 0)
        printf("%d workers, %" PRId64 " graphs: %.1f us of modelled time a step\n", trace_group_size(c, "world"),
               counters.compiled + counters.loaded, counters.modelled * 1e6 / (double)steps);
    return status;
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[2] : "float32", *device = getenv("TCCC_DEVICE");
    int64_t steps = argc > 3 ? atoll(argv[3]) : 20, batch = argc > 4 ? atoll(argv[4]) : 64;
    struct network n = {.dtype = TCC_F32, .autocast = TCC_NONE};
    struct idx_set set = {0};
    struct trace_ctx *c = NULL;

    if (!strcmp(how, "autocast"))
        n.autocast = TCC_BF16;
    else if (!strcmp(how, "bf16"))
        n.dtype = TCC_BF16;
    else if (strcmp(how, "float32"))
        argc = 0;
    if (argc < 2 || argc > 5 || steps < 1 || batch < 1) {
        fprintf(stderr, "usage: mlp FOLDER [float32|autocast|bf16 [STEPS [BATCH]]]\n");
        return 2;
    }
    if (idx_read_set(argv[1], &set))
        return 1;
    if (n.dtype == TCC_BF16)
        setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "1", 0);
    int status = trace_new(&(struct trace_options){.target = device && *device ? NULL : "neuron:trn1", .seed = 1}, &c);
    if (!status)
        status = run(c, &n, &set, steps, batch);
    if (status)
        fprintf(stderr, "mlp: %s\n", trace_error(c));
    trace_free(c);
    for (int i = 0; i < 2; i++)
        free(set.arrays[i].data);
    return status ? 1 : 0;
}
