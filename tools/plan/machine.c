/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-plan --calibrate=MACHINE: a cluster of simulated GPUs (sim/machines.def, links.def), by what the simulator takes
 * for exchanges: latencies and rates are those of straight lines through two of its times. Rates of products and memory
 * are the machine's own, which kernels don't reach: --measure with --sim=time has the kernels' times in their place.
 */
#include "sim/link.h"
#include "sim/time.h"
#include "tools/plan/plan_tool_int.h"

#define LARGE 1e9 /* bytes at which rates count */

static double exchange(const char *machine, enum sim_exchange kind, int ranks, double bytes)
{
    return sim_exchange_seconds(machine, kind, ranks, bytes);
}

/* Bytes a second of `share` of them, beyond what `without` takes for the same. */
static double rate(const char *machine, enum sim_exchange kind, int ranks, int without, double share)
{
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        double bytes = (i + 1) * LARGE;
        seconds[i] = exchange(machine, kind, ranks, bytes) - (without ? exchange(machine, kind, without, bytes) : 0);
    }
    return share * LARGE / (seconds[1] - seconds[0]);
}

bool plan_machine(const char *machine, int ranks, struct plan_cluster *c)
{
    const struct sim_machine *m = sim_machine(machine);
    int gpus = sim_server_gpus(machine);
    if (!m || gpus < 2)
        return false;
    double clock = m->mhz * 1e6 * m->sms, half = m->wgmma_flops ? m->wgmma_flops : m->mma_flops;
    *c = (struct plan_cluster){.nodes = ranks > gpus ? (ranks + gpus - 1) / gpus : 1,
                               .devices = ranks && ranks < gpus ? ranks : gpus,
                               /* three products of tf32, each half as fast as one of 16 bits */
                               .flops = clock * m->mma_flops / 6,
                               .bf16_flops = clock * half,
                               .bandwidth = m->memory_rate,
                               .memory = (double)m->memory_gib * 1073741824,
                               .cache_bandwidth = m->memory_rate,
                               .host_bandwidth = m->link_rate,
                               .launch = (SIM_LAUNCH_CYCLES + SIM_MEMORY_LATENCY) / (m->mhz * 1e6)};
    double within = 2.0 * (gpus - 1) / gpus;
    c->local = (struct plan_link){exchange(machine, SIM_SEND, 2, 1), rate(machine, SIM_SEND, 2, 0, 1),
                                  rate(machine, SIM_ALL_REDUCE, gpus, 0, within), 1};
    /* Of a server, for all its GPUs; two servers send all bytes each, in both rounds half. */
    c->remote =
        (struct plan_link){exchange(machine, SIM_SEND, 2 * gpus, 1), gpus * rate(machine, SIM_SEND, 2 * gpus, gpus, 1),
                           rate(machine, SIM_ALL_REDUCE, 2 * gpus, gpus, 1), 1};
    return true;
}
