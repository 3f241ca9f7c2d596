/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NeuronCores in the simulator. The device's memory is this process's; a launch is done when launch() returns, so queues and events have nothing to do.
 *
 * TCCC_ORDER_SEED other than 0 draws another legal order of the engines. Without values (TCCC_SIM=time) launches compute nothing: memory is zeros, so that
 * what the host makes of results (indices, sizes, conditions) is what it makes of zeros.
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

/* -- Memory ------------------------------------------------------------------------------------------- */

static void *alloc(struct tcr_device *d, int queue, size_t bytes, bool zeroed)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    void *p = tcr_heap_alloc(n->heap, bytes);

    (void)queue;
    if (p && (zeroed || !n->config.values))
        memset(p, 0, bytes);
    return p;
}

static void give_back(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed)
{
    (void)queue, (void)zeroed;
    tcr_heap_free(((struct tcr_neuron *)d)->heap, p, bytes);
}

static void release(struct tcr_device *d, void *p, size_t held)
{
    tcr_heap_free(((struct tcr_neuron *)d)->heap, p, held);
}

static int grow(struct tcr_device *d, void **p, size_t *held, size_t bytes)
{
    if (bytes <= *held && *p)
        return TCC_OK;
    release(d, *p, *held);
    *held = 0;
    if (!(*p = tcr_heap_alloc(((struct tcr_neuron *)d)->heap, TCR_ROUND(bytes))))
        return TCC_EENV;
    *held = TCR_ROUND(bytes);
    if (!((struct tcr_neuron *)d)->config.values)
        memset(*p, 0, *held);
    return TCC_OK;
}

static int weights(struct tcr_device *d, struct tccrt_model *m, const uint8_t **p)
{
    (void)d;
    *p = m->weights;
    return TCC_OK;
}

static int copy(struct tcr_device *d, int queue, const struct tcr_copy *c)
{
    (void)queue;
    d->counts.copies++;
    if (!c->carried)
        neuron_model_copy((struct tcr_neuron *)d, (int64_t)c->bytes, c->kind != TCR_WITHIN, c->node);
    if (c->bytes)
        memmove(c->to, c->from, c->bytes);
    return TCC_OK;
}

static int fill(struct tcr_device *d, int queue, void *to, int byte, size_t bytes)
{
    (void)queue;
    neuron_model_copy((struct tcr_neuron *)d, (int64_t)bytes, false, NULL);
    if (bytes)
        memset(to, byte, bytes);
    return TCC_OK;
}

/* -- Order: work is done when it has been given --------------------------------------------------------- */

static int order(struct tcr_device *d, int queue, uint32_t event)
{
    (void)d, (void)queue, (void)event;
    return TCC_OK;
}

static int sync_event(struct tcr_device *d, uint32_t event)
{
    (void)d, (void)event;
    return TCC_OK;
}

static int reserve(struct tcr_device *d, int64_t scratch, int queues, uint32_t events)
{
    (void)d, (void)scratch, (void)queues, (void)events;
    return TCC_OK;
}

static int begin(struct tcr_device *d, const struct tcr_control *c)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    uint64_t words[2] = {c->seed, (uint64_t)c->run};

    memcpy(n->env, words, sizeof n->env);
    neuron_model_begin(n);
    return TCC_OK;
}

/* -- Opening and closing -------------------------------------------------------------------------------- */

static void close_neuron(struct tcr_device *d)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    neuron_kernels_free(n);
    neuron_core_give(n->record);
    free(n->trace.list);
    tcr_heap_free(n->heap, n, sizeof *n);
}

static const struct tcr_device_ops ops = {.close = close_neuron,
                                          .alloc = alloc,
                                          .free = give_back,
                                          .grow = grow,
                                          .release = release,
                                          .weights = weights,
                                          .copy = copy,
                                          .fill = fill,
                                          .launch = neuron_launch,
                                          .record = order,
                                          .wait = order,
                                          .sync = sync_event,
                                          .reserve = reserve,
                                          .begin = begin,
                                          .simulated = neuron_simulated,
                                          .clock = neuron_clock,
                                          .collective = neuron_begin_collective,
                                          .collected = neuron_collected,
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
        n->ranks = (int)strtol(sim + 11, &end, 10);
        if (*end || end == sim + 11 || n->ranks < 1 || n->ranks > 1 << 20)
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

int tcr_device_neuron(const char *name, const struct tcr_device_request *r, struct tcr_device **out)
{
    struct tcr_neuron *n,
        made = {.device = {.ops = &ops, .name = "neuron", .threads = 1}, .heap = r->heap, .nkernels = r->nkernels};
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
    for (uint32_t k = 0; k < r->nimages && !n->image; k++)
        if (!strcmp(tcr_image_text(r->images[k], r->images[k]->format), "neuron"))
            n->image = r->images[k];
    if (!n->image)
        status = tcr_fail(TCC_EENV, "device '%s': the artifact has no image for NeuronCores", name);
    else if (n->image->code.count / 16 < n->nkernels)
        status = neuron_bad_image("its programs");
    if (!status && !(n->kernels = calloc(n->nkernels + 1, sizeof *n->kernels)))
        status = tcr_fail(TCC_EENV, "no memory for device '%s'", name);
    if (!status)
        status = neuron_first_kind(n);
    if (!status && n->has_kind)
        status = neuron_core_take(neuron_lib.neuron_core_name(n->kind), neuron_lib.neuron_instance_cores(n->kind, 1),
                                  &n->record);
    if (status) {
        close_neuron(&n->device);
        return status;
    }
    *out = &n->device;
    return TCC_OK;
}
