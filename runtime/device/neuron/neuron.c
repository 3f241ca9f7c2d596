/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NeuronCores in the simulator. The device's memory is this process's; a launch writes its arguments into the tensors of the kernel's program,
 * runs it and reads what it has written. It is done when launch() returns, so queues and events have nothing to do. Whatever the simulator
 * reports (a race, a byte that nobody wrote) is an error: programs are the compiler's.
 *
 * TCCC_ORDER_SEED other than 0 draws another legal order of the engines.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/neuron/neuron_int.h"
#include "runtime/sim/neuron/neuronsim.h"

/* -- The library -------------------------------------------------------------------------------------- */

#define FUNCTIONS(X)                                                                                   \
    X(neuron_decode)                                                                                   \
    X(neuron_program_free) X(neuron_sim_new) X(neuron_sim_free) X(neuron_sim_write) X(neuron_sim_read) \
        X(neuron_sim_run) X(neuron_sim_reports) X(neuron_report_text) X(neuron_tensor_bytes) X(neuron_core_name)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *library;
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
} sim;

static int open_library(void)
{
    char found[PATH_MAX];
    const char *path = tcr_library_path("libtccneuron.so.0", found), *lacks = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return tcr_fail(TCC_EENV, "no simulator of NeuronCores (%s)", dlerror());
#define X(name)                                         \
    if (!(*(void **)&sim.name = dlsym(library, #name))) \
        lacks = #name;
    FUNCTIONS(X)
#undef X
    if (lacks) {
        dlclose(library);
        return tcr_fail(TCC_EENV, "no simulator of NeuronCores (%s: it has no %s)", path, lacks);
    }
    sim.library = library;
    return TCC_OK;
}

/* -- Images ------------------------------------------------------------------------------------------- */

struct tcr_neuron {
    struct tcr_device device; /* first */
    struct tcr_heap *heap;
    const struct tcc_pimage *image;
    uint32_t nkernels;
    struct neuron_program **programs; /* by kernel; read when it is first launched */
    uint64_t seed;
};

static int bad_image(const char *what)
{
    return tcr_fail(TCC_EBUG, "an image of the artifact is damaged: %s", what);
}

static int program_of(struct tcr_neuron *n, const struct tcr_kernel_launch *l, struct neuron_program **out)
{
    const struct tcc_pimage *i = n->image;
    const uint8_t *code = (const uint8_t *)i + i->code.first;
    const uint64_t *at = (const uint64_t *)(const void *)code + 2 * (size_t)l->kernel;
    char error[NEURON_ERROR];

    if (l->kernel >= n->nkernels || !at[1])
        return tcr_fail(TCC_EENV, "node '%s': the artifact has no program of kernel %u for device '%s'", l->node,
                        l->kernel, n->device.name);
    if (!n->programs[l->kernel]) {
        if (at[0] > i->code.count || at[1] > i->code.count - at[0])
            return bad_image("a program");
        n->programs[l->kernel] = sim.neuron_decode(code + at[0], at[1], error);
        if (!n->programs[l->kernel])
            return tcr_fail(TCC_EBUG, "an image of the artifact is damaged: %s", error);
    }
    *out = n->programs[l->kernel];
    return TCC_OK;
}

/* -- Launches ----------------------------------------------------------------------------------------- */

/* What a report means: an index outside its axis is the caller's fault, everything else the program's. */
static int reported(struct neuron_sim *s, const char *node, const char *error)
{
    const struct neuron_report *list;
    char text[500];
    int n = sim.neuron_sim_reports(s, &list);

    for (int k = 0; k < n; k++)
        if (list[k].check == NEURON_CHECK_INDEX)
            return tcr_fail(TCC_EINDEX, "node '%s': index out of range", node);
    if (!n)
        return tcr_fail(TCC_EBUG, "node '%s': %s", node, error);
    sim.neuron_report_text(&list[0], text, sizeof text);
    return tcr_fail(TCC_EBUG, "node '%s': %s", node, text);
}

static int run(struct neuron_sim *s, const struct neuron_program *p, const struct tcr_kernel_launch *l)
{
    char error[NEURON_ERROR] = "";
    bool fine = true;
    const struct neuron_report *list;

    for (int t = 0; t < p->ntensors && fine; t++)
        if (p->tensors[t].use != NEURON_TEMP)
            fine = sim.neuron_sim_write(s, t, 0, l->args[t], sim.neuron_tensor_bytes(&p->tensors[t]), error);
    fine = fine && sim.neuron_sim_run(s, NULL, error) && !sim.neuron_sim_reports(s, &list);
    for (int t = 0; t < p->ntensors && fine; t++)
        if (p->tensors[t].use == NEURON_OUT || p->tensors[t].use == NEURON_INOUT)
            fine = sim.neuron_sim_read(s, t, 0, l->args[t], sim.neuron_tensor_bytes(&p->tensors[t]), error);
    return fine ? TCC_OK : reported(s, l->node, error);
}

static int launch(struct tcr_device *d, int queue, const struct tcr_kernel_launch *l)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    struct neuron_config config = {.values = true, .checks = true, .seed = n->seed};
    struct neuron_program *p = NULL;
    struct neuron_sim *s;
    char error[NEURON_ERROR];
    uint32_t arguments = 0;
    int status = program_of(n, l, &p);

    (void)queue;
    if (status)
        return status;
    for (int t = 0; t < p->ntensors; t++)
        arguments += p->tensors[t].use != NEURON_TEMP;
    if (arguments != l->nargs)
        return bad_image("a program's tensors");
    if (!(s = sim.neuron_sim_new(p, &config, error)))
        return tcr_fail(TCC_EENV, "node '%s': %s", l->node, error);
    d->counts.launches++;
    status = run(s, p, l);
    sim.neuron_sim_free(s);
    return status;
}

/* -- Memory ------------------------------------------------------------------------------------------- */

static void *alloc(struct tcr_device *d, int queue, size_t bytes, bool zeroed)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    void *p = tcr_heap_alloc(n->heap, bytes);

    (void)queue;
    if (p && zeroed)
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
    if (c->bytes)
        memmove(c->to, c->from, c->bytes);
    return TCC_OK;
}

static int fill(struct tcr_device *d, int queue, void *to, int byte, size_t bytes)
{
    (void)d, (void)queue;
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
    (void)d, (void)c;
    return TCC_OK;
}

/* -- Opening and closing -------------------------------------------------------------------------------- */

static void close_neuron(struct tcr_device *d)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    for (uint32_t k = 0; n->programs && k < n->nkernels; k++)
        if (n->programs[k])
            sim.neuron_program_free(n->programs[k]);
    free(n->programs);
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
                                          .launch = launch,
                                          .record = order,
                                          .wait = order,
                                          .sync = sync_event,
                                          .reserve = reserve,
                                          .begin = begin};

int tcr_device_neuron(const char *name, const struct tcr_device_request *r, struct tcr_device **out)
{
    const char *seed = tccrt_env_text("TCCC_ORDER_SEED");
    struct tcr_neuron *n;
    int status = TCC_OK;

    if (strcmp(name, "neuron") != 0 && strcmp(name, "sim") != 0)
        return tcr_fail(TCC_EENV, "no device '%s': NeuronCores are simulated only; there are neuron and sim", name);
    pthread_mutex_lock(&lock);
    if (!sim.library)
        status = open_library();
    pthread_mutex_unlock(&lock);
    if (status)
        return status;
    if (!(n = tcr_heap_alloc(r->heap, sizeof *n)))
        return TCC_EENV;
    *n = (struct tcr_neuron){.device = {.ops = &ops, .name = "neuron", .threads = 1},
                             .heap = r->heap,
                             .nkernels = r->nkernels,
                             .seed = seed ? strtoull(seed, NULL, 10) : 0};
    for (uint32_t k = 0; k < r->nimages && !n->image; k++)
        if (!strcmp(tcr_image_text(r->images[k], r->images[k]->format), "neuron"))
            n->image = r->images[k];
    if (!n->image)
        status = tcr_fail(TCC_EENV, "device '%s': the artifact has no image for NeuronCores", name);
    else if (n->image->code.count / 16 < n->nkernels)
        status = bad_image("its programs");
    if (!status && !(n->programs = calloc(n->nkernels + 1, sizeof *n->programs)))
        status = tcr_fail(TCC_EENV, "no memory for device '%s'", name);
    if (status) {
        close_neuron(&n->device);
        return status;
    }
    *out = &n->device;
    return TCC_OK;
}
