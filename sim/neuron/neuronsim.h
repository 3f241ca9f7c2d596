/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NeuronCore simulator: runs a program (runtime/neuron_isa.h) on one core, exactly in values and by the published
 * cost rules in time, with every access checked. A simulation is used by one thread at a time; different ones are
 * independent. Functions that can fail return false or NULL and write why into `error` (NEURON_ERROR bytes). Nothing
 * here prints or exits.
 */
#ifndef TCCC_NEURONSIM_H
#define TCCC_NEURONSIM_H

#include "runtime/neuron_isa.h"

#define NEURON_MAX_REPORTS 64

enum neuron_check_id {
#define CHECK(id, name, fatal, text) NEURON_CHECK_##id,
#include "sim/neuron/checks.def"
    NEURON_NCHECKS
};

struct neuron_config {
    bool values;             /* compute; else time, capacity and races only */
    bool checks;             /* initialisation, races, ranges; bounds are always checked */
    bool unfolded;           /* without values: each turn of a loop is run, even those that are like others (fold.c) */
    /* 0: time is modelled; else every duration is drawn from it: another legal order of the engines */
    uint64_t seed;
    uint64_t limit;          /* instructions of one stream; 0: 2^32 */
    bool stochastic;         /* rounding of float32 to a shorter float; else to the nearest even */
    uint64_t rounding_seed;  /* of stochastic rounding, rng and dropout */
    int sharers;             /* cores of the chip that use its HBM at the same time; 0: one */
    int lnc;                 /* physical cores of the logical one, which have their HBM in common; 0: one */
};

/* Ticks are counted from the start of a run; `ticks_in_10ns` of them are 10 ns. */
struct neuron_counters {
    uint64_t ticks, ticks_in_10ns;
    double seconds;
    struct { uint64_t instructions, busy, waiting; } engine[NEURON_NENGINES];   /* ticks; waiting: for semaphores */
    /* paid: rows below 512 bytes count as 512; busy: ticks of all 16 */
    uint64_t dma_transfers, dma_rows, dma_bytes, dma_paid_bytes, dma_busy;
    uint64_t hbm_read, hbm_written;
    uint64_t folded;         /* instructions that were counted, not run: turns that repeat those before them (fold.c) */
    /* of the tensor engine; what it could do in this time with 16-bit operands */
    double flops, peak_flops;
};

/* What happened in a run, for traces. `lane`: an engine, or NEURON_NENGINES + ring of a DMA. */
struct neuron_event { int lane; uint64_t start, end, waited; const struct neuron_instr *instr; };
typedef void (*neuron_event_fn)(void *user, const struct neuron_event *e);

/* One failed check. The same check at the same instruction is reported once, with how often it failed. */
struct neuron_report {
    enum neuron_check_id check;
    int line;                /* of the text; 0: none */
    int engine, instr;       /* engine and number of the instruction */
    uint64_t count;
    char text[400];
};

struct neuron_sim;

/* What a copy takes that no program's instruction makes: between the host and a core's HBM, or within that.
 * Nanoseconds. */
double neuron_copy_ns(enum neuron_core_kind c, int64_t bytes, bool host);
/* What it takes two physical cores of a logical one to meet (core_barrier). */
double neuron_meet_ns(void);
/* Collectives among cores that begin one together, each on a device of its own (collective.c has the rules). bytes: of
 * the whole buffer: what all_gather gives, reduce_scatter takes, all_reduce changes. lnc: physical cores of a logical
 * one; trn1 has 1. */
enum neuron_collective_kind {
    NEURON_ALL_GATHER, NEURON_REDUCE_SCATTER, NEURON_ALL_REDUCE, NEURON_ALL_TO_ALL, NEURON_BROADCAST, NEURON_BARRIER,
    NEURON_NCOLLECTIVES
};
enum neuron_algorithm { NEURON_AUTO, NEURON_RING, NEURON_MESH, NEURON_SINGLE_STEP, NEURON_RDH, NEURON_KANGARING };
struct neuron_collective {
    enum neuron_collective_kind kind;
    enum neuron_algorithm algorithm;
    int ranks;
    int64_t bytes;
};
double neuron_collective_ns(enum neuron_core_kind core, int lnc, const struct neuron_collective *c);
/* What AUTO is, within an instance. */
enum neuron_algorithm neuron_collective_choice(enum neuron_collective_kind kind, int ranks, int64_t bytes);
int neuron_instance_cores(enum neuron_core_kind core, int lnc);
/* Bytes of HBM that a core has, and bytes a ns of a chip's. */
int64_t neuron_hbm_bytes(enum neuron_core_kind c);
double neuron_hbm_rate(enum neuron_core_kind c);
/* Ticks that are 10 ns on a core. */
uint64_t neuron_ticks_in_10ns(enum neuron_core_kind c);

/* Memory for a program's tensors and a core to run it. The program must stay as it is until neuron_sim_free(). Fails
 * with a list of the largest tensors where they are more than the core's HBM. */
struct neuron_sim *neuron_sim_new(const struct neuron_program *p, const struct neuron_config *config, char *error);
void neuron_sim_free(struct neuron_sim *s);
/* Another program for the same core (of the same kind), whose tensors take the place of the old one's; the reports of
 * earlier runs are forgotten. What is loaded already stays as it is. False: `error` says why, and nothing may run but
 * what a later load brings. */
bool neuron_sim_load(struct neuron_sim *s, const struct neuron_program *p, char *error);
/* Rounding from the next run on, as in struct neuron_config. */
void neuron_sim_round(struct neuron_sim *s, bool stochastic, uint64_t seed);
/* The tensor lies in the caller's memory, as long as it, until the next bind or load; all of it counts as written.
 * NULL: in the simulator's own again, unwritten. Without values nothing happens. */
void neuron_sim_bind(struct neuron_sim *s, int tensor, void *memory);
/* Bytes of a tensor: they count as initialised once written. Reading bytes that nobody wrote gives the sentinels (NaN,
 * 4). */
bool neuron_sim_write(struct neuron_sim *s, int tensor, int64_t offset, const void *from, int64_t bytes, char *error);
bool neuron_sim_read(struct neuron_sim *s, int tensor, int64_t offset, void *to, int64_t bytes, char *error);
bool neuron_sim_initialised(const struct neuron_sim *s, int tensor);         /* every byte of it was written */
void neuron_sim_trace(struct neuron_sim *s, neuron_event_fn fn, void *user);
/* Runs the program once: SBUF, PSUM and semaphores as after power-on, tensors as they are. False: a fatal check failed,
 * whose text is in `error`. Counters (may be NULL) are set in every case. */
bool neuron_sim_run(struct neuron_sim *s, struct neuron_counters *counters, char *error);

int neuron_sim_reports(const struct neuron_sim *s, const struct neuron_report **list);
const char *neuron_check_name(enum neuron_check_id c);
/* "race: line 12: text" in `to`. */
void neuron_report_text(const struct neuron_report *r, char *to, size_t room);

/* Numbers of a core's type from and to float32, as the engines convert them; `random` decides where `stochastic`. For
 * tests and tools. */
float neuron_to_float(enum neuron_type t, const void *from);
void neuron_from_float(enum neuron_type t, float f, bool stochastic, uint32_t random, void *to);
/* A function of the Scalar engine, in place. */
void neuron_functions(enum neuron_func f, float alpha, int64_t n, float *x);

#endif
