/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neuron_int.h - NeuronCores through the simulator (libtccneuron.so.0), which is opened when a session asks for it.
 * Nothing here is linked into artifacts that hold no image: runtime/device/open.c refers to it weakly.
 *
 *   neuron.c   the door: copies, order, opening and closing
 *   memory.c   HBM: what a session holds there
 *   launch.c   programs of the image, the core that runs them from launch to launch
 *   cores.c    which core of the instance a process has, and what others see of it
 *   model.c    modelled time: what launches and copies add up to, queue by queue, and the trace of a run
 */
#ifndef TCCRT_DEVICE_NEURON_INT_H
#define TCCRT_DEVICE_NEURON_INT_H

#include <stdio.h>

#include "runtime/rt_int.h"
#include "sim/neuron/neuronsim.h"

/* What is used of the library. */
#define NEURON_FUNCTIONS(X) \
    X(neuron_collective_ns) X(neuron_copy_ns) X(neuron_core_name) X(neuron_decode) X(neuron_engine_name) \
    X(neuron_hbm_bytes) X(neuron_hbm_rate) X(neuron_instance_cores) X(neuron_instr_text) X(neuron_meet_ns) \
    X(neuron_op_row) X(neuron_program_free) X(neuron_report_text) X(neuron_set_size) X(neuron_sim_bind) \
    X(neuron_sim_free) \
    X(neuron_sim_load) X(neuron_sim_new) X(neuron_sim_read) X(neuron_sim_reports) X(neuron_sim_round) \
    X(neuron_sim_run) X(neuron_sim_trace) X(neuron_sim_write) X(neuron_tensor_bytes) X(neuron_ticks_in_10ns)
struct neuron_library {
    void *library;
#define X(name) __typeof__(name) *name;
    NEURON_FUNCTIONS(X)
#undef X
};
extern struct neuron_library neuron_lib;

/* A kernel of the image, as far as it was launched. Without values a program takes the same time in each launch: it is
 * known after the first. */
enum { NEURON_PAIR = 2 };     /* physical cores of a logical one, at most */
/* then: of the first core, when both have ended */
struct neuron_kernel {
    struct neuron_program *program[NEURON_PAIR], *then;
    struct neuron_counters known;
    bool is_known;
};

/* Of the last run, in ns, of those that were under way when it began, and of the copies ahead of it. kept: marks that
 * were there when all work was last waited for. starts: of the last runs, how many were there when it began. behind:
 * ticks of the launch before its program began. lane: as in struct neuron_event; NEURON_COPIES: a copy,
 * NEURON_COLLECTIVES: a collective, `bytes` long. */
enum {
    NEURON_COPIES = NEURON_NENGINES + NEURON_QUEUES, NEURON_COLLECTIVES, NEURON_LANES, NEURON_WAITED = 64,
    NEURON_CHIPS = 16 /* of an instance */
};
struct neuron_mark {
    double start, end, waited;
    const struct neuron_program *program;
    const struct neuron_instr *instr;
    const char *node;
    int64_t bytes;
    int lane, core;
};
struct neuron_trace {
    struct neuron_mark *list;
    size_t n, room, kept, starts[TCR_RUNS];
    unsigned runs;
    double begin;
    const char *node;
    const struct neuron_program *program;
    uint64_t behind;
    int core;
};

struct tcr_neuron {
    struct tcr_device device; /* first */
    struct tcr_heap *heap, memory;               /* the session's, on the host; of small blocks of HBM */
    size_t weights;                              /* bytes of HBM that hold them */
    const char *fault;                           /* a node that met a bad index, of run `faulted`; NULL: none */
    const char *checks;                          /* of its launch, of which it met that */
    struct tcc_env met;                          /* check: below 0 where what was read doesn't show it */
    int64_t run, faulted;
    const struct tcc_pimage *image;
    uint32_t nkernels;
    struct neuron_kernel *kernels;
    int lnc;                                     /* physical cores of the logical one */
    struct neuron_sim *core[NEURON_PAIR];        /* made by the first launch, kept for all others */
    struct neuron_config config;
    bool stochastic, drawn, traced;              /* rounding; TCCC_ORDER_SEED draws durations; a profile is kept */
    uint64_t rounding_seed;
    enum neuron_core_kind kind;                  /* of the programs, once one was launched */
    bool has_kind;
    uint32_t env[NEURON_ENV_WORDS];              /* of the run under way: NEURON_ENV_NAME */
    struct neuron_counters sum;                  /* of all launches */
    int64_t copies, copy_bytes;
    double now, copy_ns;                         /* until when the core is busy; and all that copies took */
    /* until when a queue's work lasts, and copies to the device and from it */
    double ready[NEURON_WAITED], link[2];
    double host;                                 /* what the host has waited for */
    double *events;
    uint32_t nevents;
    double ends[NEURON_WAITED];                  /* of the last collective of each of the plan's queues */
    int64_t collectives, collective_bytes;
    double collective_ns, exposed_ns;            /* all of them, and what the core stood still for */
    struct tccrt_neuron_core *record[NEURON_PAIR]; /* of the process's core; NULL: it has none */
    struct neuron_trace trace;
    struct tcr_timed *timed;                     /* what was done since it was asked for, while a profile is kept */
    size_t ntimed, timed_room;
};

/* memory.c */
void *neuron_alloc(struct tcr_device *d, int queue, size_t bytes, bool zeroed);
void neuron_free(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed);
int neuron_grow(struct tcr_device *d, void **p, size_t *held, size_t bytes);
void neuron_release(struct tcr_device *d, void *p, size_t held);
int neuron_weights(struct tcr_device *d, struct tccrt_model *m, const uint8_t **p);

/* launch.c */
int neuron_launch(struct tcr_device *d, int queue, const struct tcr_kernel_launch *l);
void neuron_kernels_free(struct tcr_neuron *n);
int neuron_bad_image(const char *what);
int neuron_first_kind(struct tcr_neuron *n);     /* of the image's first program */

/* cores.c: a core for this process, all of whose sessions share it, of `lnc` physical ones; record[0] NULL: there is no
 * place to say so */
int neuron_core_take(const char *kind, int instance, int lnc, struct tccrt_neuron_core **record);
void neuron_core_give(const struct tccrt_neuron_core *record);     /* its first; NULL: nothing */

/* model.c */
void neuron_model_begin(struct tcr_neuron *n, const struct tcr_control *c);
/* a launch in the queue: the core's clock is when it begins */
void neuron_model_starts(struct tcr_neuron *n, int queue);
void neuron_count(struct neuron_counters *to, const struct neuron_counters *c);  /* adds c's */
void neuron_model_launch(struct tcr_neuron *n, int queue, const struct neuron_counters *c);
void neuron_model_copy(struct tcr_neuron *n, int queue, int64_t bytes, enum tcr_copy_kind kind, const char *node);
int neuron_model_reserve(struct tcr_neuron *n, int queues, uint32_t events);
void neuron_model_sync(struct tcr_neuron *n, uint32_t event);
void neuron_model_free(struct tcr_neuron *n);
int neuron_record(struct tcr_device *d, int queue, uint32_t event);
int neuron_wait(struct tcr_device *d, int queue, uint32_t event);
void neuron_model_event(void *user, const struct neuron_event *e);
double neuron_clock(struct tcr_device *d);
void neuron_begin_collective(struct tcr_device *d, int queue, enum tcc_collective kind, int ranks, int64_t bytes,
                             double start, const char *node);
void neuron_collected(struct tcr_device *d, int queue);
void neuron_reached(struct tcr_device *d, double sent, int64_t bytes, const char *node);
int neuron_timed(struct tcr_device *d, const struct tcr_timed **list, size_t *n);
int neuron_simulated(struct tcr_device *d, struct tccrt_sim *out);
void neuron_put_trace(struct tcr_device *d, FILE *f);

int tcr_device_neuron(const char *name, const struct tcr_device_request *r, struct tcr_device **out);

#endif
