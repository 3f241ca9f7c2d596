/* SPDX-License-Identifier: Apache-2.0 */
/* cost.h - what instructions and transfers take by the published rules (cost.def), which the simulator has written
 * anew. */
#ifndef TCC_NEURON_COST_H
#define TCC_NEURON_COST_H

#include "runtime/neuron_isa.h"

/* A core's clocks in MHz, bytes a ns of a DMA engine and of the chip's HBM, GiB of it, ns of descriptor generation. */
struct nk_core_cost { int mhz[NEURON_NENGINES], dma, hbm, gib, generation_ns; };

enum nk_transfer_cost {
#define TRANSFER(what, number) NK_TRANSFER_##what,
#include "compiler/neuron/cost.def"
    NK_NTRANSFERS
};

enum nk_cost_row {
#define COST(op, engine, when, least, times, over, plus) NK_COST_##op##_##engine##_##when,
#include "compiler/neuron/cost.def"
    NK_COSTS
};
enum { NK_ANY = -1 };
struct nk_instr_cost { int op, engine, least, times, over, plus; };

/* All of the tables, so that a test can alter a row. */
struct nk_costs {
    struct nk_core_cost core[NEURON_NCORES];
    int transfer[NK_NTRANSFERS], latency[NEURON_NENGINES];
    struct nk_instr_cost instr[NK_COSTS];
};
extern const struct nk_costs nk_costs;

/* Cycles of its engine until the next instruction may start. */
int64_t nk_cycles(const struct nk_costs *c, enum neuron_core_kind core, enum neuron_engine e,
                  const struct neuron_instr *i);
/* A cycle of an engine in halves of the tensor engine's, of which all are whole numbers. */
int64_t nk_cycle_ticks(enum neuron_core_kind core, enum neuron_engine e);
/* What a program takes at least, without loops: the busiest engine's time, or that of its transfers' bytes. */
int64_t nk_ticks_of(enum neuron_core_kind core, const struct neuron_program *p);
/* A transfer that has HBM's engines to itself: rows of so many bytes (each element as wide as on its widest side),
 * triggered by an engine, while so many cores use the chip's HBM. */
struct nk_transfer_of {
    enum neuron_core_kind core;
    enum neuron_engine engine;
    enum neuron_op op;
    bool on_chip;
    int sharers;
    int64_t rows, bytes;
};
double nk_transfer_ns(const struct nk_costs *c, const struct nk_transfer_of *t);

#endif
