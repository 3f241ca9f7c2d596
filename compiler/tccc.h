/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc.h - the compiler as a library (public).
 *
 * Thread-safe in that different calls share nothing. A compilation runs in a forked process, which is ended when it
 * makes no progress (time_limit); the handlers are called by the calling thread. Nothing is printed unless a FILE is
 * given; messages go to the handler.
 */
#ifndef TCCC_H
#define TCCC_H

#include <stdbool.h>
#include <stdio.h>
#include "runtime/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tccc_output { TCCC_SO, TCCC_OBJECT, TCCC_ARCHIVE };
/* What --train compiles: a whole training step. Texts as on the command line (doc/training.md); NULL or 0: the
 * default. */
struct tccc_train {
    const char *loss, *optimizer, *optimizer_state, *schedule, *precision, *auto_cast, *auto_cast_type, *loss_scale,
        *step_outputs;
    const char *const *freeze, *const *train_only;   /* patterns of parameters' names, ended by NULL */
    double clip_norm;
    /* decay of the averages of parameters, below 1; 0: none are kept */
    double ema;
    int accumulate;
    unsigned long long memory_budget;                /* bytes; 0: none */
    bool data_parallel;                              /* doc/distributed.md */
    const char *group;                               /* whose ranks average; NULL: dp */
    double bucket_cap_mb;                            /* 0: the default */
    const char *broadcast_buffers;
    bool sync_bn;
    int zero;
    int tensor_parallel;                             /* ranks among which tensors are divided; 0: 1 */
    bool sequence_parallel;
    bool offload_activations, offload_optimizer;     /* --offload: from the device's memory to the host's */
    /* what happens to each tensor kept for the backward pass; NULL: none */
    FILE *report;
    const struct tccc_split *split;                  /* NULL: one stage, whole batches */
    /* --new-head: classes of a new last layer (0: none), and the value it is built on (NULL: found) */
    int new_head;
    const char *head_at;
    int unfreeze_after;                              /* epochs in which the last layer alone is trained; 0: none */
    const char *lora;                                /* "r:16,alpha:32,targets=REGEX", "adapter:DIR"; NULL: none */
    unsigned long long seed;                         /* of first values that these need */
};

/* --partitions and what goes with it: the step is cut into stages that run microbatch by microbatch
 * (doc/partitions.md). */
struct tccc_split {
    int partitions, microbatches;                    /* 0: 1 */
    int active;                                      /* --active-microbatches; 0: the schedule's own bound */
    int default_stage;                               /* --default-partition; -1: none */
    const char *pipeline, *optimize;                 /* NULL: interleaved, speed */
    const char *map;                                 /* --partition-map: path; NULL: automatic */
    const char *const *split_axes;                   /* "NAME:K", "NAME:none"; ended by NULL; may be NULL */
    /* parameters, activations, time and bytes of each stage; NULL: none */
    FILE *report;
    const char *chart;                               /* path: the schedule drawn, .svg or a Chrome trace; NULL: none */
};

enum tccc_weights { TCCC_WEIGHTS_AUTO, TCCC_WEIGHTS_EMBED, TCCC_WEIGHTS_EXTERNAL, TCCC_WEIGHTS_RANDOM };

struct tccc_options {
    const char *model;               /* path: .onnx or .tcir */
    const char *output;              /* path; NULL: no artifact (dump only) */
    enum tccc_output kind;
    const char *header;              /* -H; NULL: none */
    /* folder of finished artifacts, made when missing; NULL: none. Where a report, chart or facts are wanted it is not
     * read */
    const char *cache_dir;
    const char *depfile;             /* -MD -MF; NULL: none */
    const char *name;                /* --name; NULL: from the model's file name */
    bool export_name;                /* the symbols of .o and .a are not hidden: a library with it in it exports them */
    int level;                       /* 0..3 */
    const char *target;              /* "cpu", "cpu-split", "cuda:sm_90"; NULL: cpu */
    const char *march;               /* comma-separated; NULL: native */
    enum tccc_weights weights;
    unsigned long long weights_seed; /* RANDOM: made when the artifact is opened, in place of the model's */
    const char *const *dims;         /* "name=N", ended by NULL; may be NULL */
    const char *const *shapes;       /* "input=AxBxC" */
    /* "DOMAIN:NAME=FILE.c|FILE.cu": kernels of one's own (runtime/tccc_custom.h, doc/custom-op.md) */
    const char *const *customs;
    const char *defaults;            /* --defaults: "auto", "all", "none", "NAME,NAME..."; NULL: auto */
    /* --state: "INPUT:OUTPUT[,axis=K][,capacity=N]", "auto[,capacity=N]" (doc/state.md) */
    const char *const *states;
    /* of TCCC_DUMPS, "" being the final level-1 IR, "before:PASS", "after:PASS" */
    const char *const *dumps;
    FILE *dump_to;
    int copies;                      /* for the dump "memory": ranks that share what train->zero divides; 0: 1 */
    const char *schedules;           /* --schedules: a table of kernels' schedules (doc/cuda.md); NULL: none */
    const char *pipeline;            /* NULL: by level */
    bool exact, fast_math, time_passes, verify;
    /* a kernel of floats that a device would leave to the host is an error, not a warning */
    bool strict_device;
    FILE *report;                    /* each entry point's buffers and peak of memory; NULL: none */
    /* what was compiled, an object of JSON (doc/reports.md): graph, steps, kernels, buffers, passes, times; NULL:
     * none */
    FILE *facts;
    const struct tccc_train *train;  /* NULL: inference */
    const char *adapter;             /* inference: folder of a stored adapter, merged into the weights; NULL: none */
    /* inference: matmul, list, all or a file; bf16 or fp16. Both NULL: no casts */
    const char *auto_cast, *auto_cast_type;
    long change_limit;               /* -1: none */
    /* NULL: a .tcir text reads no files, file(PATH, OFFSET); "": those below its folder; or below this one too */
    const char *allow_files;
    /* that a model's functions may expand to, beside the nodes of its graph; 0: 50,000 */
    long max_nodes;
    /* folder for reproducers of crashes and of compilations that make no progress; NULL: none */
    const char *reproducer;
    /* seconds without progress after which the compilation is ended (4, our bug); 0: none. Default 600 */
    double time_limit;
    /* for tests of that: the pass of this name, "train", "partition" (of a training step), or "code" for code
     * generation, does not come back; NULL: none */
    const char *hang;
    /* for tests of reproducers: "train" (a training step), "partition" (its stages) or what the pass of this name makes
     * is wrong, as `verify` finds; NULL: nothing */
    const char *damage;
    int jobs;                        /* 0: as many as the process may use */
    int verbose;
    void (*message)(void *user, int severity, const char *text);     /* severity: 0 note, 1 warning, 2 error, 3 bug */
    void (*progress)(void *user, const char *what, double fraction);  /* may be NULL */
    void *user;
};
#define TCCC_DUMPS {"", "all", "kernels", "plan", "memory", "llvm", "asm", "ptx", "neuron"}
/* Sets every option to what the command line's is when it is not given. */
void tccc_options_init(struct tccc_options *o);

/* Returns 0, or an exit code of DESIGN section 8: 1 model wrong or unsupported, 2 usage, 3 environment, 4 our bug. No
 * partial output is left. */
int tccc_compile(const struct tccc_options *o);
const char *tccc_version(void);
/* Lines for --version: LLVM's version, the targets with their architectures, ONNX's opsets. Thread-safe. */
const char *tccc_build(void);

#ifdef __cplusplus
}
#endif
#endif
