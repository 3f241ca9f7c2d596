/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a collective takes among cores that begin it together: hops, each of a latency, and bytes at the rate of
 * what carries them. Hops and bytes of each algorithm are the vendor's ("Intra-node" and "Inter-node collective
 * communications" of the Neuron SDK), and so are the sizes for which each is chosen. Rates of a rank are its share of
 * its chip's NeuronLink, or of HBM by how often an algorithm touches it, and of the instance's network. What the
 * documents leave open is ours: 1.5 us a hop (they say 1 to 2), links of a mesh shared by 2 (the mean distance of two
 * chips of a 4 x 4 torus), and single steps up to 16 KiB ("tiny").
 *
 * N ranks, B bytes in all: C = B / N is what a rank gives to all_gather or gets of reduce_scatter.
 */
#include "sim/link.h"
#include "sim/neuron/neuronsim.h"

#define MIB ((int64_t)1 << 20)
enum { HOP_NS = 1500, SERVER_HOP_NS = 15000, MESH_SHARE = 2, TINY = 16384, RDH_MIB = 1, KANGA_MIB = 56 };

/* Ranks of a chip and of an instance, bytes a ns of a rank: NeuronLink, HBM, network. */
static const struct fabric {
    enum neuron_core_kind core;
    int lnc, chip, instance;
    double link, hbm, network;
} fabrics[] = {
    {NEURON_TRN1, 1, 2, 32, 384 / 2.0, 820 / 2.0, 3.125},  {NEURON_TRN2, 1, 8, 128, 1024 / 8.0, 2900 / 8.0, 3.125},
    {NEURON_TRN2, 2, 4, 64, 1024 / 4.0, 2900 / 4.0, 6.25}, {NEURON_TRN3, 1, 8, 128, 2560 / 8.0, 4900 / 8.0, 3.125},
    {NEURON_TRN3, 2, 4, 64, 2560 / 4.0, 4900 / 4.0, 6.25},
};

static const struct fabric *fabric_of(enum neuron_core_kind core, int lnc)
{
    size_t k = 0;
    while (k + 1 < sizeof fabrics / sizeof *fabrics &&
           (fabrics[k].core != core || (core != NEURON_TRN1 && fabrics[k].lnc != (lnc == 2 ? 2 : 1))))
        k++;
    return &fabrics[k];
}

int neuron_instance_cores(enum neuron_core_kind core, int lnc)
{
    return fabric_of(core, lnc)->instance;
}

static bool power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

static double slower(double a, double b)
{
    return a < b ? a : b;
}

/* Bytes a ns where each byte that a rank gets touches its HBM so often. */
static double rate(const struct fabric *f, double touches)
{
    return slower(f->link, f->hbm / touches);
}

enum neuron_algorithm neuron_collective_choice(enum neuron_collective_kind kind, int ranks, int64_t bytes)
{
    if (kind == NEURON_BROADCAST || kind == NEURON_BARRIER)
        return NEURON_RDH;
    if (kind == NEURON_ALL_TO_ALL)
        return NEURON_MESH;
    if (kind == NEURON_ALL_REDUCE && bytes <= TINY)
        return NEURON_SINGLE_STEP;
    if (bytes < RDH_MIB * MIB)
        return NEURON_MESH;
    if (bytes <= KANGA_MIB * MIB && power_of_two(ranks))
        return NEURON_RDH;
    return bytes > KANGA_MIB * MIB && ranks % 2 == 0 ? NEURON_KANGARING : NEURON_RING;
}

/* all_gather, reduce_scatter within an instance. KangaRing: two ranks of a chip share a read of HBM. */
static double half(const struct fabric *f, bool reduces, enum neuron_algorithm a, int n, double bytes)
{
    double moved = (n - 1) * (bytes / n), plain = moved / rate(f, reduces ? 3 : 2);
    switch (a) {
    case NEURON_MESH: return HOP_NS + moved * MESH_SHARE / f->link;
    case NEURON_RDH: return HOP_NS * (double)sim_log2(n) + plain;
    case NEURON_KANGARING: return HOP_NS * (n / 2.0) + moved / rate(f, reduces ? 2 : 1.5);
    default: return HOP_NS * (n - 1.0) + plain;
    }
}

static double within(const struct fabric *f, enum neuron_collective_kind kind, enum neuron_algorithm a, int n,
                     double bytes)
{
    switch (kind) {
    case NEURON_ALL_GATHER:
    case NEURON_ALL_TO_ALL: return half(f, false, a, n, bytes);
    case NEURON_REDUCE_SCATTER: return half(f, true, a, n, bytes);
    case NEURON_BROADCAST: return HOP_NS * (double)sim_log2(n) + bytes / rate(f, 2);
    case NEURON_BARRIER: return HOP_NS * (double)sim_log2(n);
    default: break;
    }
    if (a == NEURON_SINGLE_STEP) /* everybody sends all it has to all */
        return HOP_NS + (n - 1) * bytes * MESH_SHARE / f->link;
    return half(f, true, a, n, bytes) + half(f, false, a, n, bytes);
}

/* Between instances: a ring of those ranks that stand at the same place, each with its part of the bytes. */
static double between(const struct fabric *f, int instances, double bytes)
{
    return SERVER_HOP_NS * (instances - 1.0) + (instances - 1) * (bytes / instances) / f->network;
}

double neuron_collective_ns(enum neuron_core_kind core, int lnc, const struct neuron_collective *c)
{
    const struct fabric *f = fabric_of(core, lnc);
    int instances = (c->ranks + f->instance - 1) / f->instance, n = instances > 1 ? f->instance : c->ranks;
    double bytes = (double)c->bytes, part = bytes / n;
    enum neuron_algorithm a =
        c->algorithm != NEURON_AUTO ? c->algorithm : neuron_collective_choice(c->kind, n, c->bytes);
    if (c->ranks < 2)
        return 0;
    double inside = within(f, c->kind, a, n, bytes);
    if (instances == 1)
        return inside;
    switch (c->kind) {
    case NEURON_ALL_REDUCE: return inside + 2 * between(f, instances, part);
    case NEURON_BROADCAST: return inside + SERVER_HOP_NS * (double)sim_log2(instances) + part / f->network;
    case NEURON_BARRIER: return inside + SERVER_HOP_NS * (double)sim_log2(instances);
    default: return inside + between(f, instances, part);
    }
}
