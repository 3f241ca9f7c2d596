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
