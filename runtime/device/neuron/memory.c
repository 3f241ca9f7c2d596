/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a core: pages of this process, which cost nothing until somebody writes them, counted against the core's
 * HBM. What a session holds there is its weights, its state, the arenas of its runs and batches that wait for theirs.
 */
#include <string.h>
#include <sys/mman.h>

#include "runtime/device/neuron/neuron_int.h"

#define PAGES ((size_t)1 << 20) /* from so many bytes on a block has pages of its own */

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static double gib(size_t bytes)
{
    return (double)bytes / 1073741824.0;
}

/* As many more bytes, or a message that says what lies there. */
static bool has_room(struct tcr_neuron *n, size_t bytes)
{
    const struct tcr_device *d = &n->device;

    if (!d->memory || (bytes <= d->memory && d->held + n->weights <= d->memory - bytes))
        return true;
    tcr_fail(
        TCC_EENV,
        "device 'neuron': %.3f GiB asked for; of the %.3f GiB of HBM that a core of %s has the session holds %.3f, and "
        "%.3f are weights",
        gib(bytes), gib(d->memory), neuron_lib.neuron_core_name(n->kind), gib(d->held), gib(n->weights));
    return false;
}

static void *take(struct tcr_neuron *n, size_t bytes, bool zeroed)
{
    size_t rounded = TCR_ROUND(bytes ? bytes : 1);
    void *p;

    if (!has_room(n, rounded))
        return NULL;
    if (rounded >= PAGES) {
        p = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        p = p == MAP_FAILED ? NULL : p;
        if (!p)
            tcr_fail(TCC_EENV, "no memory for %zu bytes of device 'neuron'", bytes);
    } else if ((p = tcr_heap_alloc(&n->memory, rounded)) && (zeroed || !n->config.values)) {
        memset(p, 0, rounded);
    }
    if (p)
        tcr_holds(&n->device, (ptrdiff_t)rounded);
    return p;
}

static void put_back(struct tcr_neuron *n, void *p, size_t bytes)
{
    size_t rounded = TCR_ROUND(bytes ? bytes : 1);

    if (!p)
        return;
    tcr_holds(&n->device, -(ptrdiff_t)rounded);
    if (rounded >= PAGES)
        munmap(p, rounded);
    else
        tcr_heap_free(&n->memory, p, rounded);
}

void *neuron_alloc(struct tcr_device *d, int queue, size_t bytes, bool zeroed)
{
    (void)queue;
    return take((struct tcr_neuron *)d, bytes, zeroed);
}

void neuron_free(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed)
{
    (void)queue, (void)zeroed;
    put_back((struct tcr_neuron *)d, p, bytes);
}

void neuron_release(struct tcr_device *d, void *p, size_t held)
{
    put_back((struct tcr_neuron *)d, p, held);
}

int neuron_grow(struct tcr_device *d, void **p, size_t *held, size_t bytes)
{
    if (bytes <= *held && *p)
        return TCC_OK;
    neuron_release(d, *p, *held);
    *held = 0;
    if (!(*p = take((struct tcr_neuron *)d, TCR_ROUND(bytes), false)))
        return TCC_EENV;
    *held = TCR_ROUND(bytes);
    return TCC_OK;
}

/* Where they are mapped: processes of one artifact share the pages. */
int neuron_weights(struct tcr_device *d, struct tccrt_model *m, const uint8_t **p)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    if (!has_room(n, m->desc->weights_size))
        return TCC_EENV;
    n->weights = m->desc->weights_size;
    *p = m->weights;
    return TCC_OK;
}
