/* SPDX-License-Identifier: Apache-2.0 */
/* Modelled time, for the simulators: machines, occupancy of a multiprocessor, cycles of a launch from what it counted. */
#ifndef TCCC_SIM_TIME_H
#define TCCC_SIM_TIME_H

#include <stddef.h>
#include <stdint.h>

struct sim_machine {
    const char *id, *name;
    int major, minor, sms, mhz, memory_gib, memory_mhz, bus, l2, shared_sm, shared_block;
    int float_lanes, int_lanes, double_lanes, special_lanes, mma_flops, wgmma_flops;
    double memory_rate, l2_rate, link_rate;
};
enum { SIM_WARPS = 64, SIM_BLOCKS = 32, SIM_REGISTERS = 65536, SIM_RESERVED_SHARED = 1024 };   /* of an SM, all machines here */

/* The machine of that id; NULL: there is none. */
const struct sim_machine *sim_machine(const char *id);

/* Blocks that fit an SM: `threads` and registers a thread, shared bytes a block. 0: not one does. */
int sim_occupancy(const struct sim_machine *m, int threads, int registers, size_t shared);

#endif
