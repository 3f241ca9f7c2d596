/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time of collectives by steps and bytes (Thakur, Rabenseifner, Gropp, Optimization of collective communication
 * operations in MPICH, 2005: latency + bytes / bandwidth; rings and trees as NCCL's). Ours are: 5 us for a launch, 1 us
 * a hop within a server and 5 us between servers, and the share of a link that data gets, 0.8.
 */
#include <stddef.h>
#include <string.h>

#include "sim/link.h"
#include "sim/time.h"

#define LAUNCH 5e-6
#define HOP 1e-6
#define SERVER_HOP 5e-6
#define SHARE 0.8

static const struct links {
    const char *machine;
    int server;
    double network;
} all_links[] = {
#define LINKS(machine, server, network) {#machine, server, network},
#include "sim/links.def"
#undef LINKS
};

/* The quicker way, for links of so many seconds a hop and a byte. */
static struct sim_way sim_exchange_way(enum sim_exchange kind, int n, double bytes, double hop, double a_byte)
{
    struct sim_way ring = {SIM_RING, n - 1, (n - 1) / (double)n}, tree = {SIM_TREE, sim_log2(n), 1};
    switch (kind) {
    case SIM_SEND: return (struct sim_way){SIM_DIRECT, 1, 1};
    case SIM_ALL_TO_ALL: return (struct sim_way){SIM_DIRECT, 1, ring.share};
    case SIM_REDUCE_SCATTER:
    case SIM_ALL_GATHER: return ring;
    case SIM_ALL_REDUCE:
        ring.hops *= 2;
        ring.share *= 2;
        tree.hops *= 2;
        tree.share *= 2;
        break;
    default: ring.share = 1; /* broadcast, reduce: bytes pass by in a pipeline */
    }
    return ring.hops * hop + ring.share * bytes * a_byte <= tree.hops * hop + tree.share * bytes * a_byte ? ring : tree;
}

/* Within a server, or among ranks that stand at the same place of their servers. */
static double among(enum sim_exchange kind, int n, double bytes, double hop, double rate)
{
    struct sim_way way = sim_exchange_way(kind, n, bytes, hop, 1 / (rate * SHARE));
    return n > 1 ? way.hops * hop + way.share * bytes / (rate * SHARE) : 0;
}

static const struct links *links_of(const char *machine)
{
    const struct links *l = NULL;
    size_t n = strcspn(machine, ","); /* of what may have changes */
    for (size_t k = 0; k < sizeof all_links / sizeof *all_links; k++)
        if (strlen(all_links[k].machine) == n && !strncmp(all_links[k].machine, machine, n))
            l = &all_links[k];
    return l;
}

int sim_server_gpus(const char *machine)
{
    const struct links *l = links_of(machine);
    return l ? l->server : 0;
}

double sim_exchange_seconds(const char *machine, enum sim_exchange kind, int ranks, double bytes)
{
    const struct sim_machine *m = sim_machine(machine);
    const struct links *l = links_of(machine);
    if (!l || !m)
        return -1;
    if (ranks < 2)
        return 0;
    int within = ranks < l->server ? ranks : l->server, servers = (ranks + l->server - 1) / l->server;
    double seconds = LAUNCH + among(kind, within, bytes, HOP, m->peer_rate);
    if (servers > 1) /* each of a server's GPUs takes its part of the bytes to the other servers */
        seconds += among(kind, servers, kind == SIM_SEND ? bytes : bytes / within, SERVER_HOP, l->network);
    return seconds;
}
