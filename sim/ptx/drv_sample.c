/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time alone (ptx_driver_time_only()): of each launch a few blocks run, spread over the grid, and count for all of
 * them. Kernels write nothing to the device's memory: what has not come from the host reads as zeros, which are good
 * indexes, not as what a few blocks have left. Fills and copies within devices take their time and do nothing, so that
 * memory which is only talked about costs the host none. Launches that are alike up to addresses (a network's layers)
 * run once between two copies from the host, which may bring other sizes.
 *
 * What is estimated: instructions, sectors and waits by proportion, which is exact where blocks do equal work; lines of
 * memory by proportion, at most all bytes of the launch's tensors, since what blocks share is read by each of those
 * that run.
 */
#include <string.h>

#include "sim/ptx/drv_int.h"

enum { BLOCKS = 16 }; /* or clusters, of a launch */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15;
    return h ^ h >> 29;
}

/* Equal for launches that are alike: addresses of devices in the parameters count as one. */
static uint64_t key_of(const struct drv_work *w)
{
    const struct ptx_launch *l = &w->launch;
    uint64_t h = mix((uintptr_t)w->func->kernel, l->shared), word;
    for (int i = 0; i < 3; i++)
        h = mix(mix(mix(h, l->grid[i]), l->block[i]), l->cluster[i]);
    for (size_t at = 0; at < l->params_size; at += sizeof word) {
        size_t n = l->params_size - at < sizeof word ? l->params_size - at : sizeof word;
        word = 0;
        memcpy(&word, (const char *)l->params + at, n);
        h = mix(h, drv_device_of(word) >= 0 ? 1 : word);
    }
    for (int i = 0; i < w->nranges; i++)
        h = mix(h, w->ranges[i].bytes);
    return h;
}

/* Bytes of the launch's tensors, in lines; 0: they are not known. */
static uint64_t tensors_bytes(const struct drv_work *w)
{
    uint64_t all = 0;
    for (int i = 0; i < w->nranges; i++) {
        bool again = false; /* in place */
        for (int j = 0; j < i; j++)
            again |= w->ranges[j].address == w->ranges[i].address;
        all += again ? 0 : w->ranges[i].bytes + 127;
    }
    return all & ~(uint64_t)127;
}

bool drv_sample_known(const struct drv_work *w, double *seconds, const char **bound)
{
    struct drv_samples *s = &drv.samples;
    uint64_t key = key_of(w);
    for (int k = 0; k < s->n; k++)
        if (s->at[k].key == key) {
            *seconds = s->at[k].seconds;
            *bound = s->at[k].bound;
            return true;
        }
    return false;
}

bool drv_sample_run(struct drv_work *w, struct ptx_device *d, struct ptx_counters *c, char *error)
{
    uint64_t most = tensors_bytes(w);
    w->launch.sample = BLOCKS;
    bool ran = ptx_run(d, w->func->kernel, &w->launch, c, error);
    w->launch.sample = 0;
    if (most && c->memory_bytes > most)
        c->memory_bytes = most;
    return ran;
}

void drv_sample_keep(const struct drv_work *w, double seconds, const char *bound)
{
    struct drv_samples *s = &drv.samples;
    if (drv_room(&s->at, s->n, &s->room, sizeof *s->at))
        s->at[s->n++] = (struct drv_sample){key_of(w), seconds, bound};
}

void drv_sample_forget(void)
{
    drv.samples.n = 0;
}

CUresult ptx_driver_time_only(bool on)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&drv.lock);
    if (!drv.ready)
        r = CUDA_ERROR_NOT_INITIALIZED;
    else if (drv.samples.decided && drv.time_only != on)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        drv.samples.decided = true;
        drv.time_only = on;
        for (int k = 0; k < drv.ndevices && on; k++)
            ptx_time_only(drv.devices[k].d);
    }
    pthread_mutex_unlock(&drv.lock);
    return r;
}
