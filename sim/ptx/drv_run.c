/* SPDX-License-Identifier: Apache-2.0 */
/* What an op does when its turn comes, with the lock released; what went wrong becomes its context's sticky error. */
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/drv_int.h"
#include "sim/time.h"

bool drv_work_copy(struct drv_work *to, const struct drv_work *from)
{
    size_t list = (size_t)from->nranges * sizeof *from->ranges, bytes = from->width * from->height * from->depth;
    void *params = from->launch.params_size ? malloc(from->launch.params_size) : NULL;
    *to = *from;
    to->launch.params = params;
    to->ranges = list ? malloc(list) : NULL;
    to->staged = from->staged ? malloc(bytes) : NULL;
    if ((from->launch.params_size && !params) || (list && !to->ranges) || (from->staged && !to->staged)) {
        drv_work_free(to);
        return false;
    }
    if (params)
        memcpy(params, from->launch.params, from->launch.params_size);
    if (list)
        memcpy(to->ranges, from->ranges, list);
    if (to->staged) {
        memcpy(to->staged, from->staged, bytes);
        to->from.at = (uintptr_t)to->staged;
    }
    return true;
}

void drv_work_free(struct drv_work *w)
{
    free((void *)(uintptr_t)w->launch.params);
    free(w->ranges);
    free(w->staged);
    if (w->outside.drop)
        w->outside.drop(w->outside.data);
    w->outside.drop = NULL;
    w->launch.params = NULL;
    w->ranges = NULL;
    w->staged = NULL;
}

static CUresult of_check(enum ptx_check c)
{
    switch (c) {
    case PTX_CHECK_MISALIGNED: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case PTX_CHECK_BOUNDS:
    case PTX_CHECK_FREED:
    case PTX_CHECK_HOST:
    case PTX_CHECK_READONLY: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case PTX_CHECK_LIMIT:
    case PTX_CHECK_DEADLOCK: return CUDA_ERROR_LAUNCH_TIMEOUT;
    case PTX_CHECK_STACK: return CUDA_ERROR_HARDWARE_STACK_ERROR;
    default: return CUDA_ERROR_LAUNCH_FAILED;
    }
}

static void reach_peers(struct drv_device *dev, CUcontext ctx)
{
    struct ptx_device *peers[DRV_MAX_DEVICES];
    int n = 0;
    for (int k = 0; k < drv.ndevices; k++)
        if (ctx->peers >> k & 1)
            peers[n++] = drv.devices[k].d;
    ptx_peers(dev->d, peers, n);
}

static CUresult run_kernel(struct drv_work *w, struct drv_device *dev, double *seconds, const char **bound)
{
    char error[PTX_ERROR] = "";
    struct ptx_counters c;
    const struct ptx_report *list;
    int before = ptx_reports(dev->d, &list);
    if (drv.time_only && drv_sample_known(w, seconds, bound))
        return CUDA_SUCCESS;
    reach_peers(dev, w->ctx);
    if (!ptx_ranges(dev->d, w->ranges, w->nranges))
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool ran =
        drv.time_only ? drv_sample_run(w, dev->d, &c, error) : ptx_run(dev->d, w->func->kernel, &w->launch, &c, error);
    ptx_ranges(dev->d, NULL, 0);
    for (size_t k = 0; k < sizeof c / sizeof(uint64_t); k++)
        ((uint64_t *)&dev->count)[k] += ((const uint64_t *)&c)[k];
    struct ptx_time t;
    if (ptx_modelled(w->func->kernel, &w->launch, &c, drv.machine->id, &t)) {
        *seconds = t.seconds;
        *bound = t.bound;
    }
    if (drv.time_only)
        drv_sample_keep(w, *seconds, *bound);
    int after = ptx_reports(dev->d, &list);
    if (after > before)
        return of_check(list[after - 1].check);
    return ran ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

static CUresult copy_row(uint64_t to, uint64_t from, size_t bytes)
{
    char error[PTX_ERROR];
    int d = drv_device_of(to), s = drv_device_of(from);
    if (drv.time_only && d >= 0 && s >= 0)
        return CUDA_SUCCESS;
    if (drv.time_only && d >= 0)
        drv_sample_forget();
    struct ptx_device *dd = d >= 0 ? drv.devices[d].d : NULL, *sd = s >= 0 ? drv.devices[s].d : NULL;
    bool fine = true;
    if (dd && sd)
        fine = ptx_copy(dd, to, sd, from, bytes, error);
    else if (dd)
        fine = ptx_write(dd, to, (const void *)(uintptr_t)from, bytes, error);
    else if (sd)
        fine = ptx_read(sd, (void *)(uintptr_t)to, from, bytes, error);
    else
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return fine ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult run_copy(const struct drv_work *w)
{
    CUresult r = CUDA_SUCCESS;
    bool flat = w->to.pitch == w->width && w->from.pitch == w->width;
    size_t rows = flat ? 1 : w->height, bytes = flat ? w->width * w->height : w->width;
    for (size_t z = 0; z < w->depth; z++)
        for (size_t y = 0; y < rows && !r; y++)
            r = copy_row(w->to.at + z * w->to.slice + y * w->to.pitch,
                         w->from.at + z * w->from.slice + y * w->from.pitch, bytes);
    return r;
}

static CUresult fill_row(uint64_t at, const struct drv_work *w)
{
    char error[PTX_ERROR];
    uint8_t part[4096];
    size_t bytes = w->width * w->element;
    int d = drv_device_of(at);
    if (d >= 0 && drv.time_only)
        return CUDA_SUCCESS;
    if (d >= 0 && w->element == 1)
        return ptx_fill(drv.devices[d].d, at, (int)w->value, bytes, error) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t k = 0; k < sizeof part; k += w->element)
        memcpy(part + k, &w->value, w->element);
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < sizeof part ? bytes - done : sizeof part;
        if (d < 0)
            memcpy((void *)(uintptr_t)(at + done), part, n);
        else if (!ptx_write(drv.devices[d].d, at + done, part, n, error))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

static CUresult run_fill(const struct drv_work *w)
{
    CUresult r = CUDA_SUCCESS;
    for (size_t y = 0; y < w->height && !r; y++)
        r = fill_row(w->to.at + y * w->to.pitch, w);
    return r;
}

static void begin_all(int slot, uint64_t id, const uint64_t *clock, const char *who)
{
    for (int k = 0; k < drv.ndevices; k++)
        ptx_begin(drv.devices[k].d, slot, id, clock, who);
}

/* Copies touch several devices' memory; a conflict there is a report like a kernel's. */
static CUresult checked(const struct drv_work *w, CUresult (*run)(const struct drv_work *w))
{
    const struct ptx_report *list;
    int before = 0, after = 0;
    for (int k = 0; k < drv.ndevices; k++)
        before += ptx_reports(drv.devices[k].d, &list);
    CUresult r = run(w);
    for (int k = 0; k < drv.ndevices; k++)
        after += ptx_reports(drv.devices[k].d, &list);
    return r ? r : after > before ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

static double copy_seconds(const struct drv_work *w)
{
    uint64_t bytes = (uint64_t)w->width * w->height * (w->kind == WORK_COPY ? w->depth : w->element);
    int to = drv_device_of(w->to.at), from = w->kind == WORK_COPY ? drv_device_of(w->from.at) : to;
    if (to < 0 || from < 0)
        return sim_copy_seconds(drv.machine, SIM_LINK_HOST, bytes, bytes);
    if (to != from)
        return sim_copy_seconds(drv.machine, SIM_LINK_PEER, bytes, bytes);
    return sim_copy_seconds(drv.machine, SIM_LINK_HOST, 0, w->kind == WORK_COPY ? 2 * bytes : bytes);
}

extern __thread bool drv_in_callback;

static CUresult run_outside(const struct drv_work *w, bool *again)
{
    switch (w->outside.poll(w->outside.data)) {
    case PTX_OUTSIDE_PENDING: *again = true; return CUDA_SUCCESS;
    case PTX_OUTSIDE_DONE: return CUDA_SUCCESS;
    default: return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
}

bool ptx_driver_read(void *to, CUdeviceptr from, size_t bytes)
{
    char error[PTX_ERROR];
    int d = drv_device_of(from);
    return !bytes || (d >= 0 && ptx_read(drv.devices[d].d, to, from, bytes, error));
}

bool ptx_driver_write(CUdeviceptr to, const void *from, size_t bytes)
{
    char error[PTX_ERROR];
    int d = drv_device_of(to);
    return !bytes || (d >= 0 && ptx_write(drv.devices[d].d, to, from, bytes, error));
}

static int reports_of(const struct drv_device *dev)
{
    const struct ptx_report *list;
    return ptx_reports(dev->d, &list);
}

/* With the lock released. */
static CUresult run_unlocked(struct drv_work *w, struct drv_op *op, double *seconds, bool *again)
{
    struct drv_device *dev = &drv.devices[w->ctx->device];
    int before;
    CUresult r;
    if (w->kind == WORK_HOST) {
        drv_in_callback = true;
        w->fn(w->data);
        drv_in_callback = false;
        return CUDA_SUCCESS;
    }
    begin_all(op->slot, op->id, op->clock, w->who[0] ? w->who : NULL);
    if (w->kind == WORK_KERNEL) {
        r = run_kernel(w, dev, seconds, &op->bound);
    } else if (w->kind == WORK_OUTSIDE) {
        before = reports_of(dev);
        drv_in_callback = true;
        r = run_outside(w, again);
        drv_in_callback = false;
        r = r ? r : reports_of(dev) > before ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
    } else {
        r = checked(w, w->kind == WORK_COPY ? run_copy : run_fill);
        *seconds = copy_seconds(w);
    }
    begin_all(0, 0, NULL, NULL);
    return r;
}

double drv_run(struct drv_work *w, struct drv_op *op, bool *again)
{
    CUresult r = CUDA_SUCCESS;
    double seconds = 0;
    struct drv_device *dev = &drv.devices[w->ctx->device];
    bool dead = w->ctx->sticky != CUDA_SUCCESS; /* nothing of a context that failed runs any more */
    if (w->kind == WORK_FREE) {
        drv_release(dev, w->freed);
        return 0;
    }
    if (dead || w->kind == WORK_MARK)
        return 0;
    if (w->kind == WORK_KERNEL && (r = drv_fault_launch(w->ctx))) {
        w->ctx->sticky = r;
        return 0;
    }
    pthread_mutex_unlock(&drv.lock);
    r = run_unlocked(w, op, &seconds, again);
    pthread_mutex_lock(&drv.lock);
    if (r && !w->ctx->sticky)
        w->ctx->sticky = r;
    return seconds;
}
