/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs as graphs of the driver (CUDA Driver API, "Graph management"). A region of new grids or addresses is walked
 * once, so that whatever its launches need is there; the second time it is recorded from its stream (which runs nothing
 * meanwhile), and launched; then it is replayed. Eight are kept of each region; the one that was not used for longest
 * goes.
 */
#include <stdlib.h>

#include "runtime/device/cuda/cuda_int.h"
#include "base/grow.h"

/* Its work is not under way. */
static void empty(struct tcr_cuda *c, struct cuda_program *p)
{
    if (p->exec)
        c->m->cu->cuGraphExecDestroy(p->exec);
    for (uint32_t i = 0; i < p->ntables; i++)
        cuda_give(c, 0, p->tables[i]);
    free(p->tables);
    p->exec = NULL;
    p->tables = NULL;
    p->ntables = 0;
}

static void free_one(struct tcr_cuda *c, struct cuda_program *p)
{
    empty(c, p);
    free(p);
}

void cuda_programs_renew(struct tcr_cuda *c)
{
    for (int q = 0; q < c->nqueues && c->programs; q++)
        c->m->cu->cuStreamSynchronize(c->queues[q].stream);
    for (struct cuda_program *p = c->programs; p; p = p->next)
        empty(c, p);
}

void cuda_programs_free(struct tcr_cuda *c)
{
    while (c->programs) {
        struct cuda_program *p = c->programs;

        c->programs = p->next;
        free_one(c, p);
    }
}

static struct cuda_program *find(struct tcr_cuda *c, uint32_t number, uint64_t digest)
{
    for (struct cuda_program *p = c->programs; p; p = p->next)
        if (p->number == number && p->digest == digest)
            return p;
    return NULL;
}

/* Makes room for one more of the region. */
static void forget_oldest(struct tcr_cuda *c, uint32_t number)
{
    struct cuda_program **oldest = NULL, *p;
    int n = 0;

    for (struct cuda_program **at = &c->programs; *at; at = &(*at)->next)
        if ((*at)->number == number) {
            n++;
            if (!oldest || (*at)->age < (*oldest)->age)
                oldest = at;
        }
    if (n < CUDA_PROGRAMS)
        return;
    p = *oldest;
    *oldest = p->next;
    c->m->cu->cuStreamSynchronize(c->queues[c->recording_queue].stream);
    free_one(c, p);
}

static int remember(struct tcr_cuda *c, uint32_t number, uint64_t digest)
{
    struct cuda_program *p;

    forget_oldest(c, number);
    if (!(p = calloc(1, sizeof *p)))
        return tcr_fail(TCC_EENV, "no memory for a program of the device");
    *p = (struct cuda_program){.next = c->programs, .number = number, .digest = digest, .age = ++c->age};
    c->programs = p;
    return TCC_OK;
}

static int give(struct tcr_cuda *c, int queue, struct cuda_program *p)
{
    c->unread = true;
    p->age = ++c->age;
    c->device.counts.launches += p->launches;
    if (p->launches)
        cuda_gave(c->given, p->nodes[0], p->nodes[1]);
    return CU(c, NULL, cuGraphLaunch, p->exec, c->queues[queue].stream);
}

static int begin(struct tcr_cuda *c, int queue, uint32_t number, uint64_t digest, int *how)
{
    const struct cuda_api *cu = c->m->cu;
    struct cuda_program *p = find(c, number, digest);
    int status;

    *how = TCR_WALK;
    if (c->recording)
        return tcr_fail(TCC_EBUG, "device '%s': a program inside a program", c->name);
    if (!cu->cuStreamBeginCapture_v2 || !cu->cuStreamEndCapture || !cu->cuGraphInstantiateWithFlags ||
        !cu->cuGraphDestroy || !cu->cuGraphExecDestroy || !cu->cuGraphLaunch || c->blocking)
        return TCC_OK;
    c->recording_queue = queue;
    if (!p)
        return remember(c, number, digest);
    if (p->exec) {
        *how = TCR_REPLAY;
        c->device.counts.replays++;
        return give(c, queue, p);
    }
    if ((status = CU(c, NULL, cuStreamBeginCapture_v2, c->queues[queue].stream, CUDA_CAPTURE_RELAXED)))
        return status;
    *how = TCR_RECORD;
    c->recording = p;
    p->nodes[0] = p->nodes[1] = NULL;
    p->launches = c->device.counts.launches;
    return TCC_OK;
}

int cuda_program(struct tcr_device *d, int queue, uint32_t number, uint64_t digest, int *how)
{
    struct tcr_cuda *c = cuda_of(d);
    int status;

    if (!(status = cuda_enter(c)) && !(status = cuda_queue_ok(c, queue)))
        status = begin(c, queue, number, digest, how);
    return cuda_leave(c, status);
}

static int end(struct tcr_cuda *c, int queue)
{
    struct cuda_program *p = c->recording;
    cuda_graph graph = NULL;
    int status;

    c->recording = NULL;
    if (!p || queue != c->recording_queue)
        return tcr_fail(TCC_EBUG, "device '%s': the end of no program", c->name);
    p->launches = c->device.counts.launches - p->launches;
    c->device.counts.launches -= p->launches; /* they count when they run */
    if ((status = CU(c, NULL, cuStreamEndCapture, c->queues[queue].stream, &graph)))
        return status;
    status = CU(c, NULL, cuGraphInstantiateWithFlags, &p->exec, graph, 0);
    c->m->cu->cuGraphDestroy(graph);
    if (status) {
        p->exec = NULL;
        return status;
    }
    c->device.counts.programs++;
    return give(c, queue, p);
}

int cuda_program_end(struct tcr_device *d, int queue)
{
    struct tcr_cuda *c = cuda_of(d);
    int status = cuda_enter(c);

    return cuda_leave(c, status ? status : end(c, queue));
}

void cuda_program_abort(struct tcr_cuda *c)
{
    cuda_graph graph = NULL;

    if (!c->recording)
        return;
    c->recording = NULL;
    if (!c->m->cu->cuStreamEndCapture(c->queues[c->recording_queue].stream, &graph) && graph)
        c->m->cu->cuGraphDestroy(graph);
}

int cuda_program_table(struct tcr_cuda *c, uint64_t at)
{
    struct cuda_program *p = c->recording;

    if (!ONE_MORE(p->tables, p->ntables))
        return tcr_fail(TCC_EENV, "no memory for a program of the device");
    p->tables[p->ntables++] = at;
    return TCC_OK;
}
