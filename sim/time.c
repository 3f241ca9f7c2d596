/* SPDX-License-Identifier: Apache-2.0 */
/* Modelled time: doc/ptxsim.md, "Modelled time", has the formulas. */
#include <locale.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim/time.h"

static const struct sim_machine machines[] = {
#define MACHINE(id, name, major, minor, sms, mhz, gib, mem_mhz, bus, l2, shared_sm, shared_block, f, i, d, s, mma, \
                wgmma, mem, l2r, link, peer)                                                                       \
    {#id,          name, major, minor, sms, mhz, gib,   mem_mhz, bus, l2,   shared_sm,                             \
     shared_block, f,    i,     d,     s,   mma, wgmma, mem,     l2r, link, peer},
#include "sim/machines.def"
#undef MACHINE
};

/* What a machine that does not exist may have otherwise. */
static const struct {
    const char *name;
    size_t at;
    bool real;
} fields[] = {{"sms", offsetof(struct sim_machine, sms), false},
              {"mhz", offsetof(struct sim_machine, mhz), false},
              {"memory", offsetof(struct sim_machine, memory_gib), false},
              {"mma", offsetof(struct sim_machine, mma_flops), false},
              {"wgmma", offsetof(struct sim_machine, wgmma_flops), false},
              {"hbm", offsetof(struct sim_machine, memory_rate), true},
              {"l2", offsetof(struct sim_machine, l2_rate), true},
              {"link", offsetof(struct sim_machine, link_rate), true},
              {"nvlink", offsetof(struct sim_machine, peer_rate), true}};

/* "FIELD=VALUE": true if it is one. */
static bool change(struct sim_machine *m, const char *text, size_t n)
{
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
        size_t name = strlen(fields[k].name);
        char *end;
        if (n <= name + 1 || strncmp(text, fields[k].name, name) || text[name] != '=')
            continue;
        double value = strtod_l(text + name + 1, &end, newlocale(LC_ALL_MASK, "C", (locale_t)0));
        if (end != text + n || !(value > 0) || (!fields[k].real && !(value < 1e9)))
            return false;
        if (fields[k].real)
            *(double *)(void *)((char *)m + fields[k].at) = value;
        else
            *(int *)(void *)((char *)m + fields[k].at) = (int)value;
        return true;
    }
    return false;
}

/* "ID,FIELD=VALUE,...": a machine that is another with changes. They stay, since others point to them. */
static const struct sim_machine *derived(const struct sim_machine *base, const char *spec)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct derived {
        struct derived *next;
        struct sim_machine machine;
        char spec[];
    } * list;
    struct derived *d;
    bool fine = true;
    pthread_mutex_lock(&lock);
    for (d = list; d && strcmp(d->spec, spec);)
        d = d->next;
    if (!d && (d = malloc(sizeof *d + strlen(spec) + 1))) {
        d->machine = *base;
        d->machine.id = strcpy(d->spec, spec);
        for (const char *at = strchr(spec, ','); at && fine; at = strchr(at + 1, ','))
            fine = change(&d->machine, at + 1, strcspn(at + 1, ","));
        if (fine) {
            d->next = list;
            list = d;
        } else {
            free(d);
            d = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    return d ? &d->machine : NULL;
}

const struct sim_machine *sim_machine(const char *id)
{
    size_t n = strcspn(id, ",");
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++)
        if (strlen(machines[k].id) == n && !strncmp(machines[k].id, id, n))
            return id[n] ? derived(&machines[k], id) : &machines[k];
    return NULL;
}

/* Registers are given out to warps in units of 256, shared memory in units of 128 bytes (CUDA occupancy calculator). */
int sim_occupancy(const struct sim_machine *m, int threads, int registers, size_t shared)
{
    int warps = (threads + 31) / 32, blocks = SIM_BLOCKS;
    int by_registers = SIM_REGISTERS / ((registers * 32 + 255) / 256 * 256 + !registers);
    size_t bytes = (shared + SIM_RESERVED_SHARED + 127) & ~(size_t)127;
    by_registers = by_registers / 4 * 4; /* each of the four schedulers has its own quarter */
    if (threads <= 0 || warps > 32 || shared > (size_t)m->shared_block)
        return 0;
    blocks = SIM_WARPS / warps < blocks ? SIM_WARPS / warps : blocks;
    blocks = by_registers / warps < blocks ? by_registers / warps : blocks;
    return (int)(m->shared_sm / bytes) < blocks ? (int)(m->shared_sm / bytes) : blocks;
}

const char *sim_bound_name(enum sim_bound b)
{
    static const char *const names[] = {"issue",        "int pipe",      "float pipe",    "double pipe",
                                        "special pipe", "shared memory", "latency",       "tensor cores",
                                        "L2",           "memory",        "peer's memory", "waits"};
    return (unsigned)b < SIM_BOUNDS ? names[b] : "";
}

struct sim_time sim_launch_time(const struct sim_machine *m, const struct sim_work *w)
{
    double blocks = (double)w->blocks, busiest = (double)((w->blocks + (unsigned)m->sms - 1) / (unsigned)m->sms);
    double share = blocks > 0 ? busiest / blocks : 0; /* of all work, what the busiest SM does */
    double resident = busiest < w->occupancy ? busiest : w->occupancy, warps = resident * w->warps,
           clock = m->mhz * 1e6;
    double a_warp = warps > 0 ? SIM_DEPENDENT_ISSUE / warps : 1, issue = a_warp > 0.25 ? a_warp : 0.25, most = 0;
    uint64_t rounds = w->occupancy > 0 ? ((uint64_t)busiest + (unsigned)w->occupancy - 1) / (unsigned)w->occupancy : 0;
    double bound[SIM_BOUNDS] = {
        [SIM_ISSUE] = share * (double)w->warp_instructions * issue,
        [SIM_INT] = share * (double)w->int_instructions * 32 / m->int_lanes,
        [SIM_FLOAT] = share * (double)w->float_instructions * 32 / m->float_lanes,
        [SIM_DOUBLE] = share * (double)w->double_instructions * 32 / m->double_lanes,
        [SIM_SPECIAL] = share * (double)w->special_instructions * 32 / m->special_lanes,
        [SIM_SHARED] = share * (double)w->shared_wavefronts,
        [SIM_LATENCY] = warps > 0 ? share * (double)w->requests * SIM_MEMORY_LATENCY / (warps * SIM_IN_FLIGHT) : 0,
        [SIM_TENSOR] = share * (w->mma_flops / m->mma_flops + (m->wgmma_flops ? w->wgmma_flops / m->wgmma_flops : 0)),
        [SIM_L2] = (double)w->sectors * 32 / m->l2_rate,
        [SIM_MEMORY] = (double)w->memory_bytes * clock / m->memory_rate,
        [SIM_PEER] = (double)w->peer_bytes * clock / m->peer_rate,
        [SIM_WAITS] = blocks > 0 ? (double)w->path_cycles / blocks * (double)rounds : 0,
    };
    struct sim_time t = {.bound = SIM_ISSUE};
    for (int k = 0; k < SIM_BOUNDS; k++)
        if (bound[k] > most) {
            most = bound[k];
            t.bound = (enum sim_bound)k;
        }
    t.cycles = SIM_LAUNCH_CYCLES + (w->requests ? SIM_MEMORY_LATENCY : 0) + (uint64_t)(most + 0.999999);
    t.seconds = (double)t.cycles / clock;
    return t;
}

double sim_copy_seconds(const struct sim_machine *m, enum sim_link link, uint64_t bytes, uint64_t memory)
{
    double seconds = SIM_LAUNCH_CYCLES / (m->mhz * 1e6),
           a = (double)bytes / (link == SIM_LINK_PEER ? m->peer_rate : m->link_rate),
           b = (double)memory / m->memory_rate;
    return seconds + (a > b ? a : b);
}
