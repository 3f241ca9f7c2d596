/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NeuronCores in the simulator. A launch is done when launch() returns: what queues and events order is modelled time.
 * A kernel that meets a bad index leaves a fault, as on any device that works later than it is told to: launches behind
 * it do nothing, and sync() reports it.
 *
 * TCCC_ORDER_SEED other than 0 draws another legal order of the engines. Without values (TCCC_SIM=time) launches
 * compute nothing: memory is zeros, so that what the host makes of results (indices, sizes, conditions) is what it
 * makes of zeros.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/neuron/neuron_int.h"

/* -- The library -------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct neuron_library neuron_lib;

static int open_library(void)
{
    char found[PATH_MAX];
    const char *path = tcr_library_path("libtccneuron.so.0", found), *lacks = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return tcr_fail(TCC_EENV, "no simulator of NeuronCores (%s)", dlerror());
#define X(name)                                                \
    if (!(*(void **)&neuron_lib.name = dlsym(library, #name))) \
        lacks = #name;
    NEURON_FUNCTIONS(X)
#undef X
    if (lacks) {
        dlclose(library);
        return tcr_fail(TCC_EENV, "no simulator of NeuronCores (%s: it has no %s)", path, lacks);
    }
    neuron_lib.library = library;
    return TCC_OK;
}

/* -- Work ---------------------------------------------------------------------------------------------- */

static int copy(struct tcr_device *d, int queue, const struct tcr_copy *c)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    if (n->fault && c->guarded)
        return TCC_OK;
    d->counts.copies++;
    if (!c->carried)
        neuron_model_copy(n, queue, (int64_t)c->bytes, c->kind, c->node);
    if (c->bytes)
        memmove(c->to, c->from, c->bytes);
    return TCC_OK;
}

static int fill(struct tcr_device *d, int queue, void *to, int byte, size_t bytes)
{
    neuron_model_copy((struct tcr_neuron *)d, queue, (int64_t)bytes, TCR_WITHIN, NULL);
    if (bytes)
        memset(to, byte, bytes);
    return TCC_OK;
}

/* -- Order: work is done when it has been given; only modelled time knows queues and events ----------------- */

static int sync_event(struct tcr_device *d, uint32_t event)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    neuron_model_sync(n, event);
    if (!n->fault)
        return TCC_OK;
    d->faulted = n->faulted;
    return n->met.check < 0 ? tcr_fail(TCC_EINDEX, "node '%s': index out of range", n->fault)
                            : tcr_bad_index(n->checks, &n->met);
}

static int reserve(struct tcr_device *d, int64_t scratch, int queues, uint32_t events)
{
    (void)scratch;
    return neuron_model_reserve((struct tcr_neuron *)d, queues, events);
}

static int begin(struct tcr_device *d, const struct tcr_control *c)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    uint64_t words[2] = {c->seed, (uint64_t)c->run};

    memcpy(n->env, words, sizeof words);
    n->run = c->run;
    if (!c->behind)
        n->fault = NULL;
    neuron_model_begin(n, c);
    return TCC_OK;
}

/* -- Opening and closing -------------------------------------------------------------------------------- */

static void close_neuron(struct tcr_device *d)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    neuron_kernels_free(n);
    neuron_core_give(n->record[0]);
    neuron_model_free(n);
    tcr_heap_free(n->heap, n, sizeof *n);
}

static const struct tcr_device_ops ops = {.close = close_neuron,
                                          .alloc = neuron_alloc,
                                          .free = neuron_free,
                                          .grow = neuron_grow,
                                          .release = neuron_release,
                                          .weights = neuron_weights,
                                          .copy = copy,
                                          .fill = fill,
                                          .launch = neuron_launch,
                                          .record = neuron_record,
                                          .wait = neuron_wait,
                                          .sync = sync_event,
                                          .reserve = reserve,
                                          .begin = begin,
                                          .timed = neuron_timed,
                                          .simulated = neuron_simulated,
                                          .clock = neuron_clock,
                                          .collective = neuron_begin_collective,
                                          .collected = neuron_collected,
                                          .reached = neuron_reached,
                                          .trace = neuron_put_trace};

/* One of two words, of an option or a variable. */
static int choice(const char *what, const char *given, const char *first, const char *second, bool *is_second)
{
    if (!given)
        return TCC_OK;
    *is_second = !strcmp(given, second);
    return *is_second || !strcmp(given, first)
               ? TCC_OK
               : tcr_fail(TCC_EUSAGE, "%s: '%s' is neither %s nor %s", what, given, first, second);
}

static int configure(struct tcr_neuron *n, const struct tccrt_options *o)
{
    const char *order = tccrt_env_text("TCCC_ORDER_SEED"), *seed = tccrt_env_text("NEURON_RT_STOCHASTIC_ROUNDING_SEED");
    const char *sim = o->sim ? o->sim : tccrt_env_text("TCCC_SIM");
    char *end = NULL;
    bool time = false, folds = sim && !strncmp(sim, "time,ranks=", 11);
    int status = folds ? TCC_OK : choice("sim", sim, "full", "time", &time);

    if (folds) { /* one process stands for all ranks, which do the same */
        time = true;
        n->device.ranks = (int)strtol(sim + 11, &end, 10);
        if (*end || end == sim + 11 || n->device.ranks < 1 || n->device.ranks > 1 << 20)
            status = tcr_fail(TCC_EUSAGE, "sim: '%s': expected time,ranks=N, N from 1 to 1048576", sim);
    }

    if (!status)
        status = o->rounding ? choice("rounding", o->rounding, "nearest", "stochastic", &n->stochastic)
                             : choice("NEURON_RT_STOCHASTIC_ROUNDING_EN",
                                      tccrt_env_text("NEURON_RT_STOCHASTIC_ROUNDING_EN"), "0", "1", &n->stochastic);
    if (!status && seed) {
        n->rounding_seed = strtoull(seed, &end, 0);
        if (*end || end == seed)
            status = tcr_fail(TCC_EUSAGE, "NEURON_RT_STOCHASTIC_ROUNDING_SEED: '%s' is no number", seed);
    }
    n->config = (struct neuron_config){.values = !time, .checks = true, .seed = order ? strtoull(order, NULL, 10) : 0};
    n->drawn = n->config.seed != 0;
    n->traced = o->profile;
    return status;
}

/* Of the image's machine: NEURON_LNC2 behind its name. */
static int cores_of(const struct tcc_pimage *image)
{
    const char *machine = tcr_image_text(image, image->machine);
    size_t n = strlen(machine), pair = strlen(NEURON_LNC2);

    return n > pair && !strcmp(machine + n - pair, NEURON_LNC2) ? NEURON_PAIR : 1;
}

/* What a core has of its chip's HBM: bytes, and a share of the rate with workers beside it. */
static void share_chip(struct tcr_neuron *n)
{
    const char *local = tccrt_env_text("LOCAL_WORLD_SIZE");
    int workers = n->device.ranks ? n->device.ranks : local ? atoi(local) : 1,
        cores = neuron_lib.neuron_instance_cores(n->kind, n->lnc) / NEURON_CHIPS;

    n->device.memory = (size_t)neuron_lib.neuron_hbm_bytes(n->kind) * (size_t)n->lnc;
    n->config.sharers = n->lnc * (workers < 1 ? 1 : workers < cores ? workers : cores);
    n->config.lnc = n->lnc;
}

int tcr_device_neuron(const char *name, const struct tcr_device_request *r, struct tcr_device **out)
{
    struct tcr_neuron *n, made = {.device = {.ops = &ops,
                                             .name = "neuron",
                                             .threads = 1,
                                             .defers = true,
                                             .one_transfer = true,
                                             .modelled = true},
                                  .heap = r->heap,
                                  .nkernels = r->nkernels};
    int status = configure(&made, r->options);

    if (strcmp(name, "neuron") != 0 && strcmp(name, "sim") != 0)
        return tcr_fail(TCC_EENV, "no device '%s': NeuronCores are simulated only; there are neuron and sim", name);
    if (r->options->device_allocator)
        return tcr_fail(TCC_EUSAGE, "device '%s' takes no allocator of the caller's", name);
    pthread_mutex_lock(&lock);
    if (!status && !neuron_lib.library)
        status = open_library();
    pthread_mutex_unlock(&lock);
    if (status)
        return status;
    if (!(n = tcr_heap_alloc(r->heap, sizeof *n)))
        return TCC_EENV;
    *n = made;
    tcr_heap_init(&n->memory, NULL);
    for (uint32_t k = 0; k < r->nimages && !n->image; k++)
        if (!strcmp(tcr_image_text(r->images[k], r->images[k]->format), "neuron"))
            n->image = r->images[k];
    if (!n->image)
        status = tcr_fail(TCC_EENV, "device '%s': the artifact has no image for NeuronCores", name);
    else if ((n->lnc = cores_of(n->image)) < 1 || n->image->code.count / 16 / (uint32_t)n->lnc < n->nkernels)
        status = neuron_bad_image("its programs");
    if (!status && !(n->kernels = calloc(n->nkernels + 1, sizeof *n->kernels)))
        status = tcr_fail(TCC_EENV, "no memory for device '%s'", name);
    if (!status)
        status = neuron_first_kind(n);
    if (!status && n->has_kind)
        share_chip(n);
    if (!status && n->has_kind)
        status = neuron_core_take(neuron_lib.neuron_core_name(n->kind),
                                  neuron_lib.neuron_instance_cores(n->kind, n->lnc), n->lnc, n->record);
    if (status) {
        close_neuron(&n->device);
        return status;
    }
    *out = &n->device;
    return TCC_OK;
}
