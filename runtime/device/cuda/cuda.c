/* SPDX-License-Identifier: Apache-2.0 */
/* The door of CUDA devices: streams for queues, events, the control block of a run, faults; opening and closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda/cuda_int.h"

/* -- Errors ------------------------------------------------------------------------------------------- */

int cuda_enter(struct tcr_cuda *c)
{
    c->m->cu->cuCtxPushCurrent_v2(c->m->context);
    return c->dead ? tcr_fail(c->dead, "%s", c->why) : TCC_OK;
}

int cuda_leave(struct tcr_cuda *c, int status)
{
    cuda_context ours;

    c->m->cu->cuCtxPopCurrent_v2(&ours);
    return status;
}

/* After these nothing of the context works any more (CUDA Driver API, CUresult: "the process must be terminated and
 * relaunched"), or the device is gone: unavailable, uncorrectable errors of memory or NVLink, contained errors,
 * whatever the driver has no name for. */
static bool is_sticky(int result)
{
    return result == 46 || result == 214 || result == 220 || result == 721 || result == 999 || result == 700 ||
           result == 702 || result == 710 || (result >= 714 && result <= 719);
}

int cuda_check(struct tcr_cuda *c, int result, const char *call, const char *node)
{
    const struct ptx_report *reports = NULL;
    char found[400] = "", under_way[160];
    int status;

    if (!result)
        return TCC_OK;
    status = cuda_says(c->m, result, call, node);
    if (!is_sticky(result))
        return status;
    if (c->m->cu->ptx_driver_reports && c->m->cu->ptx_report_text &&
        c->m->cu->ptx_driver_reports(c->m->ordinal, &reports) > 0)
        c->m->cu->ptx_report_text(reports, found, sizeof found);
    if (*found)
        status = tcr_fail(TCC_EENV, "device '%s': %s", c->name, found);
    c->dead = status;
    if (*found || !c->given[0])
        *under_way = 0;
    else if (!strcmp(c->given[0], c->given[1]))
        snprintf(under_way, sizeof under_way, "; node '%.60s' was under way", c->given[0]);
    else
        snprintf(under_way, sizeof under_way, "; nodes '%.60s' to '%.60s' were under way", c->given[0], c->given[1]);
    snprintf(c->why, sizeof c->why, "%s%s; the device is of no more use to this process", tccrt_error(), under_way);
    return tcr_fail(status, "%s", c->why);
}

int cuda_queue_ok(const struct tcr_cuda *c, int queue)
{
    return queue >= 0 && queue < c->nqueues
               ? TCC_OK
               : tcr_fail(TCC_EBUG, "device '%s' has no queue %d: there are %d", c->name, queue, c->nqueues);
}

/* -- Order -------------------------------------------------------------------------------------------- */

int cuda_order_all(struct tcr_cuda *c, int queue)
{
    int status = c->nqueues > 1 ? CU(c, NULL, cuEventRecord, c->order, c->queues[queue].stream) : TCC_OK;

    for (int q = 0; q < c->nqueues && c->nqueues > 1 && !status; q++)
        if (q != queue)
            status = CU(c, NULL, cuStreamWaitEvent, c->queues[q].stream, c->order, 0);
    return status;
}

static int check_event(const struct tcr_cuda *c, uint32_t event)
{
    return event < c->nevents ? TCC_OK : tcr_fail(TCC_EBUG, "device '%s' has no event %u", c->name, event);
}

static int record(struct tcr_device *d, int queue, uint32_t event)
{
    struct tcr_cuda *c = cuda_of(d);
    int status;

    if (!(status = cuda_enter(c)) && !(status = cuda_queue_ok(c, queue)) && !(status = check_event(c, event)))
        status = CU(c, NULL, cuEventRecord, c->events[event], c->queues[queue].stream);
    return cuda_leave(c, status);
}

static int wait(struct tcr_device *d, int queue, uint32_t event)
{
    struct tcr_cuda *c = cuda_of(d);
    int status;

    if (!(status = cuda_enter(c)) && !(status = cuda_queue_ok(c, queue)) && !(status = check_event(c, event)))
        status = CU(c, NULL, cuStreamWaitEvent, c->queues[queue].stream, c->events[event], 0);
    return cuda_leave(c, status);
}

static int fault_of(struct tcr_cuda *c)
{
    const int64_t *f = c->pinned->fault;
    const char *checks = (const char *)(uintptr_t)f[1];

    c->device.faulted = f[2];
    return (int32_t)f[0]
               ? tcr_bad_index(checks ? checks : "?", &(struct tcc_env){.index = f[3], .extent = f[4], .check = f[5]})
               : TCC_OK;
}

/* Reads the fault word beside whatever is under way. */
static int probe(struct tcr_cuda *c)
{
    uint64_t params[] = {c->control + CUDA_CONTROL_AT, (uint64_t)(uintptr_t)c->pinned->fault};
    size_t bytes = sizeof params;
    void *extra[] = {(void *)1, params, (void *)2, &bytes, NULL};
    int status = CU(c, NULL, cuLaunchKernel, c->m->probe, 1, 1, 1, 1, 1, 1, 0, c->probe, NULL, extra);

    if (!status)
        status = CU(c, NULL, cuStreamSynchronize, c->probe);
    return status ? status : fault_of(c);
}

static int sync_event(struct tcr_cuda *c, uint32_t event)
{
    int status = check_event(c, event);

    if (status || (status = CU(c, NULL, cuEventSynchronize, c->events[event])) || (status = cuda_land(c)) || !c->unread)
        return status;
    status = CU(c, NULL, cuStreamWaitEvent, c->probe, c->events[event], 0);
    return status ? status : probe(c);
}

static int sync_all(struct tcr_cuda *c)
{
    int status = TCC_OK;

    cuda_program_abort(c);
    for (int q = 0; q < c->nqueues && !status; q++)
        status = CU(c, NULL, cuStreamSynchronize, c->queues[q].stream);
    if (!status)
        c->given[0] = c->given[1] = NULL;
    cuda_applied_free(c, false);
    if (status || (status = cuda_land(c)) || !c->unread)
        return status;
    status = probe(c);
    c->unread = status == TCC_EINDEX; /* whoever asks hears of it, until the next run begins */
    return status;
}

static int sync(struct tcr_device *d, uint32_t event)
{
    struct tcr_cuda *c = cuda_of(d);
    int status;

    if (!(status = cuda_enter(c)))
        status = event == TCR_ALL ? sync_all(c) : sync_event(c, event);
    return cuda_leave(c, status);
}

/* -- Runs --------------------------------------------------------------------------------------------- */

static int more_events(struct tcr_cuda *c, uint32_t events)
{
    cuda_event *grown;
    int status = TCC_OK;

    if (events <= c->nevents)
        return TCC_OK;
    if (!(grown = realloc(c->events, events * sizeof *grown)))
        return tcr_fail(TCC_EENV, "no memory for %u events", events);
    c->events = grown;
    while (c->nevents < events && !(status = CU(c, NULL, cuEventCreate, &c->events[c->nevents], CUDA_EVENT_NO_TIMING)))
        c->nevents++;
    return status;
}

static int reserve(struct tcr_device *d, int64_t scratch, int queues, uint32_t events)
{
    struct tcr_cuda *c = cuda_of(d);
    int status;

    (void)scratch; /* of a thread of the host's */
    if (queues > CUDA_MAX_QUEUES)
        return tcr_fail(TCC_EENV, "device '%s' has %d queues, expected %d", c->name, CUDA_MAX_QUEUES, queues);
    status = cuda_enter(c);
    while (!status && c->nqueues < queues &&
           !(status = CU(c, NULL, cuStreamCreate, &c->queues[c->nqueues].stream, CUDA_STREAM_NON_BLOCKING)))
        c->nqueues++;
    return cuda_leave(c, status ? status : more_events(c, events));
}

/* Room for a control block of n values, of the device's and pinned. */
static int make_control(struct tcr_cuda *c, size_t n)
{
    size_t bytes = CUDA_CONTROL_AT + sizeof(struct tcc_control) + n * sizeof(int64_t);
    void *p = NULL;
    int status;

    if (c->control && bytes <= c->control_bytes)
        return TCC_OK;
    cuda_programs_renew(c); /* they have the old address */
    cuda_give(c, 0, c->control);
    if (c->pinned)
        c->m->cu->cuMemFreeHost(c->pinned);
    c->control = 0;
    c->pinned = NULL;
    if ((status = CU(c, NULL, cuMemHostAlloc, &p, sizeof *c->pinned + bytes, 0)))
        return status;
    c->pinned = p;
    c->control_bytes = bytes;
    return cuda_get(c, 0, &c->control, bytes);
}

static void fill_control(const struct tcr_control *control, struct tcc_control *to)
{
    *to = (struct tcc_control){.env = {.seed = control->seed, .run = control->run},
                               .nvalues = control->nvalues};
    for (uint32_t i = 0; i < control->nvalues; i++)
        to->values[i] = control->values[i];
}

/* Behind runs that are under way: by way of the queue's pinned blocks, all but the fault word. */
static int upload_behind(struct tcr_cuda *c, const struct tcr_control *control)
{
    size_t bytes = sizeof(struct tcc_control) + control->nvalues * sizeof(int64_t), skip = sizeof(int32_t);
    struct tcc_control *block = malloc(bytes);
    int status = block ? TCC_OK : tcr_fail(TCC_EENV, "no memory for a control block");

    if (!status) {
        fill_control(control, block);
        status = cuda_upload(c, 0, c->control + CUDA_CONTROL_AT + skip, (const char *)block + skip, bytes - skip, false,
                             NULL);
    }
    free(block);
    return status;
}

/* The control block is uploaded before all work of the run. */
static int begin_run(struct tcr_cuda *c, const struct tcr_control *control)
{
    size_t held = c->control_bytes;
    int status;

    cuda_program_abort(c);
    if ((status = make_control(c, control->nvalues)))
        return status;
    if (control->behind && held == c->control_bytes)
        return upload_behind(c, control); /* the other queues will be told to wait for queue 0 */
    memset(c->pinned, 0, sizeof *c->pinned + c->control_bytes);
    fill_control(control, (struct tcc_control *)(void *)(c->pinned->block + CUDA_CONTROL_AT));
    c->unread = false;
    status = CU(c, NULL, cuMemcpyHtoDAsync_v2, c->control, c->pinned->block, c->control_bytes, c->queues[0].stream);
    if (!status && (status = CU(c, NULL, cuEventRecord, c->order, c->queues[0].stream)))
        return status;
    for (int q = 1; q < c->nqueues && !status; q++)
        status = CU(c, NULL, cuStreamWaitEvent, c->queues[q].stream, c->order, 0);
    return status ? status : CU(c, NULL, cuStreamWaitEvent, c->probe, c->order, 0);
}

/* A larger block has no fault to keep: what is under way has to end before. */
static bool has_room(const struct tcr_cuda *c, uint32_t n)
{
    return c->control && CUDA_CONTROL_AT + sizeof(struct tcc_control) + n * sizeof(int64_t) <= c->control_bytes;
}

static int begin(struct tcr_device *d, const struct tcr_control *control)
{
    struct tcr_cuda *c = cuda_of(d);
    int status = cuda_enter(c);

    if (!status && control->behind && !has_room(c, control->nvalues))
        status = sync_all(c);
    return cuda_leave(c, status ? status : begin_run(c, control));
}

static int set_control(struct tcr_device *d, int queue, uint32_t first, uint32_t n, const int64_t *values)
{
    struct tcr_cuda *c = cuda_of(d);
    size_t at = CUDA_CONTROL_AT + offsetof(struct tcc_control, values) + first * sizeof *values;
    int status = cuda_enter(c);

    if (!status && !(status = cuda_queue_ok(c, queue)) && at + n * sizeof *values > c->control_bytes)
        status = tcr_fail(TCC_EBUG, "device '%s': the control block has no values %u to %u", c->name, first, first + n);
    return cuda_leave(c, status ? status
                                : cuda_upload(c, queue, c->control + at, values, n * sizeof *values, false, NULL));
}

static int stream(struct tcr_device *d, uintptr_t theirs, int queue, bool behind)
{
    struct tcr_cuda *c = cuda_of(d);
    int status = cuda_enter(c);

    if (!status && !(status = cuda_queue_ok(c, queue))) {
        cuda_stream ours = c->queues[queue].stream, caller = (cuda_stream)theirs;

        if (!(status = CU(c, "the caller's stream", cuEventRecord, c->order, behind ? ours : caller)))
            status = CU(c, "the caller's stream", cuStreamWaitEvent, behind ? caller : ours, c->order, 0);
    }
    return cuda_leave(c, status);
}

/* -- Opening and closing ---------------------------------------------------------------------------------- */

static void close_streams(struct tcr_cuda *c)
{
    const struct cuda_api *cu = c->m->cu;

    for (int q = 0; q < c->nqueues; q++)
        cu->cuStreamSynchronize(c->queues[q].stream);
    cuda_program_abort(c);
    cuda_programs_free(c);
    for (int q = 0; q < c->nqueues; q++)
        cuda_give(c, q, c->queues[q].scratch);
    if (c->nqueues)
        cuda_give(c, 0, c->control);
    if (c->nqueues)
        cuda_give(c, 0, c->own_weights);
    cuda_applied_free(c, true);
    cuda_staging_free(c);
    cuda_timing_free(c);
    if (c->pinned)
        cu->cuMemFreeHost(c->pinned);
    for (uint32_t e = 0; e < c->nevents; e++)
        cu->cuEventDestroy_v2(c->events[e]);
    if (c->order)
        cu->cuEventDestroy_v2(c->order);
    for (int q = 0; q < c->nqueues; q++) {
        cu->cuStreamSynchronize(c->queues[q].stream); /* what was given back last */
        cu->cuStreamDestroy_v2(c->queues[q].stream);
    }
    if (c->probe)
        cu->cuStreamDestroy_v2(c->probe);
}

static void close_cuda(struct tcr_device *d)
{
    struct tcr_cuda *c = cuda_of(d);

    cuda_enter(c);
    close_streams(c);
    cuda_leave(c, TCC_OK);
    free(c->events);
    free(c->values);
    free(c->params);
    if (c->code)
        cuda_code_put(c->m, c->code);
    cuda_machine_put(c->m);
    tcr_heap_free(c->heap, c, sizeof *c);
}

static const struct tcr_device_ops cuda = {.peers = &cuda_peers,
                                           .close = close_cuda,
                                           .alloc = cuda_alloc,
                                           .free = cuda_free,
                                           .grow = cuda_grow,
                                           .release = cuda_release,
                                           .host_alloc = cuda_host_alloc,
                                           .host_free = cuda_host_free,
                                           .weights = cuda_weights,
                                           .copy = cuda_copy,
                                           .fill = cuda_fill,
                                           .launch = cuda_launch,
                                           .launch_rows = cuda_launch_rows,
                                           .record = record,
                                           .wait = wait,
                                           .sync = sync,
                                           .reserve = reserve,
                                           .begin = begin,
                                           .control = set_control,
                                           .stream = stream,
                                           .timed = cuda_timed,
                                           .simulated = cuda_simulated,
                                           .program = cuda_program,
                                           .end = cuda_program_end,
                                           .holds = cuda_holds};

static int open_cuda(struct tcr_cuda *c, const struct tcr_device_request *r)
{
    bool launches = r->nkernels || r->nimages; /* else it only copies and exchanges */
    int status = TCC_OK;

    if (launches && !(c->code = cuda_code_get(c->m, r, &status)))
        return status;
    if (launches && !(c->values = malloc((c->code->image->exprs.count + 1) * sizeof *c->values)))
        return tcr_fail(TCC_EENV, "no memory for device '%s'", c->name);
    if ((status = reserve(&c->device, 0, 1, 0)))
        return status;
    cuda_enter(c);
    if (!(status = CU(c, NULL, cuStreamCreate, &c->probe, CUDA_STREAM_NON_BLOCKING)) &&
        !(status = CU(c, NULL, cuEventCreate, &c->order, CUDA_EVENT_NO_TIMING)))
        status = make_control(c, 0);
    return cuda_leave(c, status);
}

/* --sim: of the simulator, for all of the process. */
static int configure(const struct cuda_machine *m, const struct tccrt_options *o)
{
    const char *sim = o->sim ? o->sim : tccrt_env_text("TCCC_SIM");
    bool time = sim && !strcmp(sim, "time");

    if (!m->cu->ptx_driver_time_only)
        return TCC_OK;
    if (sim && !time && strcmp(sim, "full") != 0)
        return tcr_fail(TCC_EUSAGE, "sim: '%s' is neither full nor time, which simulated GPUs have", sim);
    return m->cu->ptx_driver_time_only(time)
               ? tcr_fail(TCC_EUSAGE, "sim: '%s', where the process has simulated GPUs otherwise before",
                          time ? "time" : "full")
               : TCC_OK;
}

int tcr_device_cuda(const char *name, const struct tcr_device_request *r, struct tcr_device **out)
{
    struct cuda_machine *m;
    struct tcr_cuda *c;
    int status;

    *out = NULL;
    if (!(m = cuda_machine_get(name, &status)))
        return status;
    if ((status = configure(m, r->options))) {
        cuda_machine_put(m);
        return status;
    }
    if (!(c = tcr_heap_alloc(r->heap, sizeof *c))) {
        cuda_machine_put(m);
        return TCC_EENV;
    }
    *c = (struct tcr_cuda){.m = m, .heap = r->heap, .allocator = r->options->device_allocator};
    c->blocking = getenv("CUDA_LAUNCH_BLOCKING") && atoi(getenv("CUDA_LAUNCH_BLOCKING"));
    if (m->ordinal || !strcmp(m->cu->name, "cuda"))
        snprintf(c->name, sizeof c->name, "%s:%d", m->cu->name, m->ordinal);
    else
        snprintf(c->name, sizeof c->name, "%s", m->cu->name);
    c->device = (struct tcr_device){.ops = &cuda,
                                    .name = c->name,
                                    .checks = m->cu->ptx_driver_next != NULL,
                                    .defers = true,
                                    .modelled = m->cu->ptx_driver_times != NULL,
                                    .threads = 1,
                                    .memory = m->memory};
    if ((status = open_cuda(c, r))) {
        close_cuda(&c->device);
        return status;
    }
    *out = &c->device;
    return TCC_OK;
}
