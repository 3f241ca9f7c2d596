/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_sim.c - kernels timed by the simulator's model (doc/ptxsim.md). Some blocks of the grid run, the others are
 * taken to be like them; of memory a kernel reads no more lines for the first time than its operands have.
 */
#include "sim/ptx/ptxsim.h"
#include "tools/bench/tune_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim {
    const char *machine;
    struct ptx_device *device;
    struct ptx_module *module;
    uint64_t *at, bytes; /* memory, and how much it is */
    int n, room;
};

static bool load(struct tune_clock *c, const struct tcc_pimage *image, char *error)
{
    struct sim *s = c->state;
    if (s->module)
        ptx_unload(s->module);
    s->module = ptx_load(s->device, (const char *)image + image->code.first, image->code.count - 1, error);
    return s->module != NULL;
}

static bool memory(struct tune_clock *c, size_t bytes, const void *data, uint64_t *at, char *error)
{
    struct sim *s = c->state;
    if (!tune_room(&s->at, s->n, &s->room, error))
        return false;
    *at = ptx_alloc(s->device, bytes ? bytes : 1, "operand", error);
    if (!*at)
        return false;
    s->at[s->n++] = *at;
    s->bytes += bytes;
    return !data || !bytes || ptx_write(s->device, *at, data, bytes, error);
}

static void release(struct tune_clock *c)
{
    struct sim *s = c->state;
    char ignored[PTX_ERROR];
    while (s->n)
        ptx_free(s->device, s->at[--s->n], ignored);
    s->bytes = 0;
}

/* As many blocks as do this much work, some at least. */
static uint64_t sample(const struct records_shape *shape, double work)
{
    double blocks = (double)shape->grid[0] * shape->grid[1] * shape->grid[2], n = 0x1p28 / (work / blocks + 1);
    return n < 2 ? 2 : n > 16 ? 16 : (uint64_t)n;
}

static bool time_one(struct tune_clock *c, const char *symbol, const struct records_shape *shape,
                     const uint64_t *params, size_t size, double work, double *seconds, char *error)
{
    struct sim *s = c->state;
    struct ptx_launch l = {
        .shared = shape->shared, .params = params, .params_size = size, .sample = sample(shape, work)};
    const struct ptx_kernel *f = ptx_find(s->module, symbol);
    struct ptx_counters counters;
    struct ptx_time t;
    memcpy(l.grid, shape->grid, sizeof l.grid);
    memcpy(l.block, shape->block, sizeof l.block);
    memcpy(l.cluster, shape->cluster, sizeof l.cluster);
    if (!f || !ptx_run(s->device, f, &l, &counters, error)) {
        if (!f)
            strcpy(error, "the image lacks a function that it launches");
        ptx_reports_clear(s->device);
        return false;
    }
    if (counters.memory_bytes > s->bytes)
        counters.memory_bytes = s->bytes;
    if (!ptx_modelled(f, &l, &counters, s->machine, &t)) {
        strcpy(error, "it does not fit the machine");
        return false;
    }
    *seconds = t.seconds;
    return true;
}

static void close_sim(struct tune_clock *c)
{
    struct sim *s = c->state;
    release(c);
    if (s->module)
        ptx_unload(s->module);
    if (s->device)
        ptx_device_free(s->device);
    free(s->at);
    free(s);
}

bool tune_sim(struct tune_clock *c, const char *arch, char *error)
{
    const char *given = getenv("TCCC_SIM_MACHINE");
    struct ptx_config config = {.threads = 0};
    struct sim *s = calloc(1, sizeof *s);
    *c = (struct tune_clock){.state = s,
                             .load = load,
                             .memory = memory,
                             .free = release,
                             .maps = {ptx_map_tiled, ptx_map_im2col},
                             .time = time_one,
                             .close = close_sim};
    if (!s) {
        strcpy(error, "no memory");
        return false;
    }
    s->machine = given && *given ? given : !strncmp(arch, "sm_9", 4) ? "h100" : "a100";
    snprintf(c->name, sizeof c->name, "%.100s, modelled", s->machine);
    s->device = ptx_device_new(&config, error);
    if (s->device)
        return true;
    free(s);
    return false;
}
