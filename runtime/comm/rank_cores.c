/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's share of its machine: launchers bind ranks to cores, to a socket, or not at all. Ranks that may use the
 * same CPUs share them out among themselves, in the order of their ranks.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/comm_int.h"

struct place {
    uint64_t host, mask;
};

/* CPUs number `first` to `last` - 1 of a set. */
static cpu_set_t slice(const cpu_set_t *set, int first, int last)
{
    cpu_set_t part;
    int n = 0;

    CPU_ZERO(&part);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, set)) {
            if (n >= first && n < last)
                CPU_SET(cpu, &part);
            n++;
        }
    return part;
}

int tccrt_comm_cores(struct tccrt_comm *c)
{
    struct place mine, *all;
    struct tcc_tensor in = {&mine, TCC_U8, 1, {sizeof mine}}, out = {NULL, TCC_U8, 1, {(int64_t)sizeof mine * c->size}};
    char host[256] = "";
    cpu_set_t set;
    int sharers = 0, before = 0, cores = tcr_cpu_count(), cpus;

    CPU_ZERO(&set);
    if (c->size == 1 || sched_getaffinity(0, sizeof set, &set) || !(all = calloc((size_t)c->size, sizeof *all)))
        return cores;
    gethostname(host, sizeof host - 1);
    mine = (struct place){tcr_xxh3(host, strlen(host)), tcr_xxh3(&set, sizeof set)};
    out.data = all;
    if (tccrt_comm_all_gather(c, &in, &out, NULL, NULL)) {
        free(all);
        return cores;
    }
    for (int i = 0; i < c->size; i++) {
        bool same = !memcmp(&all[i], &mine, sizeof mine);

        sharers += same;
        before += same && i < c->rank;
    }
    free(all);
    cpus = CPU_COUNT(&set);
    if (sharers > 1 && cores >= sharers) {
        set = slice(&set, before * cpus / sharers, (before + 1) * cpus / sharers);
        sched_setaffinity(0, sizeof set, &set);
    }
    return cores / sharers ? cores / sharers : 1;
}
