/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs of the simulator ask of it beside CUDA's functions: reports, counts, modelled times, and whose work
 * comes next with which of its memory (ptxsim.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/drv_int.h"
#include "sim/ptx/ptx_int.h"
#include "sim/time.h"

static __thread struct {
    char who[64];
    struct ptx_range *list;
    int n;
} next;

int ptx_driver_reports(int device, const struct ptx_report **list)
{
    int n = 0;
    *list = NULL;
    pthread_mutex_lock(&drv.lock);
    drv_quiet();
    if (device >= 0 && device < drv.ndevices && drv.devices[device].d)
        n = ptx_reports(drv.devices[device].d, list);
    pthread_mutex_unlock(&drv.lock);
    return n;
}

void ptx_driver_reports_clear(int device)
{
    pthread_mutex_lock(&drv.lock);
    drv_quiet();
    if (device >= 0 && device < drv.ndevices && drv.devices[device].d)
        ptx_reports_clear(drv.devices[device].d);
    pthread_mutex_unlock(&drv.lock);
}

void ptx_driver_counters(int device, struct ptx_counters *sum)
{
    memset(sum, 0, sizeof *sum);
    pthread_mutex_lock(&drv.lock);
    drv_quiet();
    if (device >= 0 && device < drv.ndevices)
        *sum = drv.devices[device].count;
    pthread_mutex_unlock(&drv.lock);
}

void ptx_driver_modelled(int device, double *now, double busy[3])
{
    *now = 0;
    memset(busy, 0, 3 * sizeof *busy);
    pthread_mutex_lock(&drv.lock);
    if (device >= 0 && device < drv.ndevices) {
        drv_drain(NULL);
        drv_settle_all();
        *now = drv.last_end > drv.host_time ? drv.last_end : drv.host_time;
        memcpy(busy, drv.devices[device].engine_busy, sizeof drv.devices[device].engine_busy);
    }
    pthread_mutex_unlock(&drv.lock);
}

const char *ptx_driver_machine(void)
{
    return drv.machine ? drv.machine->id : "";
}

uint64_t ptx_driver_waits(void)
{
    pthread_mutex_lock(&drv.lock);
    uint64_t n = drv.faults.waits;
    pthread_mutex_unlock(&drv.lock);
    return n;
}

bool ptx_driver_next(const char *who, const struct ptx_range *list, int n)
{
    struct ptx_range *copy = n > 0 ? malloc((size_t)n * sizeof *copy) : NULL;
    if (n > 0 && !copy)
        return false;
    if (copy)
        memcpy(copy, list, (size_t)n * sizeof *copy);
    free(next.list);
    next.list = copy;
    next.n = n > 0 ? n : 0;
    snprintf(next.who, sizeof next.who, "%s", who ? who : "");
    return true;
}

void drv_next_work(struct drv_work *w)
{
    if (w->kind == WORK_MARK || w->kind == WORK_FREE)
        return;
    if (next.who[0])
        memcpy(w->who, next.who, sizeof w->who);
    w->ranges = next.list;
    w->nranges = next.n;
    next.list = NULL;
    next.n = 0;
    next.who[0] = 0;
}
