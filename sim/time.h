/* SPDX-License-Identifier: Apache-2.0 */
/* Modelled time, for the simulators: machines, occupancy of a multiprocessor, cycles of a launch from what it
 * counted. */
#ifndef TCCC_SIM_TIME_H
#define TCCC_SIM_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_machine {
    const char *id, *name;
    int major, minor, sms, mhz, memory_gib, memory_mhz, bus, l2, shared_sm, shared_block;
    int float_lanes, int_lanes, double_lanes, special_lanes, mma_flops, wgmma_flops;
    double memory_rate, l2_rate, link_rate, peer_rate;
};
/* of an SM, all machines here */
enum { SIM_WARPS = 64, SIM_BLOCKS = 32, SIM_REGISTERS = 65536, SIM_RESERVED_SHARED = 1024 };

/* The machine of that id, or "ID,FIELD=VALUE,...", one that is another with changes (sms, mhz, memory, mma, wgmma, hbm,
 * l2, link, nvlink: members of struct sim_machine); NULL: there is none. */
const struct sim_machine *sim_machine(const char *id);

/* What a launch did, over all blocks: warp instructions by pipe, shared wavefronts, global requests of warps and the
 * 32-byte sectors they touched, bytes of lines touched for the first time, FLOPs of matrix instructions (at the rate of
 * 16-bit types). */
struct sim_work {
    uint64_t blocks, warp_instructions, int_instructions, float_instructions, double_instructions, special_instructions;
    uint64_t shared_wavefronts, requests, sectors, memory_bytes, peer_bytes;
    double mma_flops, wgmma_flops;
    uint64_t path_cycles;                    /* of each block by itself, added up */
    int warps, occupancy;                    /* of a block; blocks an SM */
};
enum sim_bound {
    SIM_ISSUE, SIM_INT, SIM_FLOAT, SIM_DOUBLE, SIM_SPECIAL, SIM_SHARED, SIM_LATENCY, SIM_TENSOR, SIM_L2, SIM_MEMORY,
    SIM_PEER, SIM_WAITS, SIM_BOUNDS
};
struct sim_time { uint64_t cycles; double seconds; enum sim_bound bound; };
enum { SIM_LAUNCH_CYCLES = 2000, SIM_MEMORY_LATENCY = 600, SIM_IN_FLIGHT = 4, SIM_DEPENDENT_ISSUE = 4 };
/* Of a block by itself: bytes a cycle of the L2 for one multiprocessor; FLOPs a cycle of one of its four tensor cores,
 * by wgmma; cycles from a product's last FLOP to its sums. */
enum { SIM_L2_SHARE = 42, SIM_WGMMA_CORE = 1024, SIM_PRODUCT_LATENCY = 32 };
struct sim_time sim_launch_time(const struct sim_machine *m, const struct sim_work *w);
const char *sim_bound_name(enum sim_bound b);
/* Seconds of a copy or fill: `bytes` over the host's link or the one to another device, `memory` bytes read or written
 * in the device's memory. */
enum sim_link { SIM_LINK_HOST, SIM_LINK_PEER };
double sim_copy_seconds(const struct sim_machine *m, enum sim_link link, uint64_t bytes, uint64_t memory);

/* Blocks that fit an SM: `threads` and registers a thread, shared bytes a block. 0: not one does. */
int sim_occupancy(const struct sim_machine *m, int threads, int registers, size_t shared);

#endif
