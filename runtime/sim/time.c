/* SPDX-License-Identifier: Apache-2.0 */
/* Modelled time: doc/ptxsim.md, "Modelled time", has the formulas. */
#include <string.h>

#include "runtime/sim/time.h"

static const struct sim_machine machines[] = {
#define MACHINE(id, name, major, minor, sms, mhz, gib, mem_mhz, bus, l2, shared_sm, shared_block, f, i, d, s, mma, \
                wgmma, mem, l2r, link)                                                                             \
    {#id,          name, major, minor, sms, mhz, gib,   mem_mhz, bus, l2,  shared_sm,                              \
     shared_block, f,    i,     d,     s,   mma, wgmma, mem,     l2r, link},
#include "runtime/sim/machines.def"
#undef MACHINE
};

const struct sim_machine *sim_machine(const char *id)
{
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++)
        if (strcmp(machines[k].id, id) == 0)
            return &machines[k];
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
    static const char *const names[] = {"issue",         "int pipe", "float pipe",   "double pipe", "special pipe",
                                        "shared memory", "latency",  "tensor cores", "L2",          "memory"};
    return (unsigned)b < SIM_BOUNDS ? names[b] : "";
}

struct sim_time sim_launch_time(const struct sim_machine *m, const struct sim_work *w)
{
    double blocks = (double)w->blocks, busiest = (double)((w->blocks + (unsigned)m->sms - 1) / (unsigned)m->sms);
    double share = blocks > 0 ? busiest / blocks : 0; /* of all work, what the busiest SM does */
    double resident = busiest < w->occupancy ? busiest : w->occupancy, warps = resident * w->warps,
           clock = m->mhz * 1e6;
    double a_warp = warps > 0 ? SIM_DEPENDENT_ISSUE / warps : 1, issue = a_warp > 0.25 ? a_warp : 0.25, most = 0;
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

double sim_copy_seconds(const struct sim_machine *m, uint64_t link, uint64_t memory)
{
    double seconds = SIM_LAUNCH_CYCLES / (m->mhz * 1e6), a = (double)link / m->link_rate,
           b = (double)memory / m->memory_rate;
    return seconds + (a > b ? a : b);
}
