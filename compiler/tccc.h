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

struct tccdata_picture;

enum tccc_output { TCCC_SO, TCCC_OBJECT, TCCC_ARCHIVE };
enum tccc_weights { TCCC_WEIGHTS_AUTO, TCCC_WEIGHTS_EMBED, TCCC_WEIGHTS_EXTERNAL, TCCC_WEIGHTS_RANDOM };
enum tccc_offload { TCCC_OFFLOAD_ACTIVATIONS = 1, TCCC_OFFLOAD_OPTIMIZER = 2 };

/*
 * Members that are options of the command line come from the rows of base/options.def, which say what each means:
 * texts are as on the command line, lists ended by NULL; NULL or 0 is the default, of a FILE: nothing is written.
 */
#define TCCC_OF_OPTIONS(member)
#define TCCC_OF_TRAIN(member) member
#define TCCC_OF_SPLIT(member)
/* What --train compiles: a whole training step (doc/training.md, doc/distributed.md). */
struct tccc_train {
#define TCCC_FIELD(id, long_name, short_name, argument, kind, tools, group, help, in, type, member, least, most, uses) \
    TCCC_OF_##in(TCCC_MEMBER_##type(member))
#include "base/options.def"
    const char *auto_cast, *auto_cast_type;          /* as in tccc_options */
    bool data_parallel;
    const char *group;                               /* of data_parallel: whose ranks average; NULL: dp */
    int offload;                                     /* of enum tccc_offload: from the device's memory to the host's */
    /* what happens to each tensor kept for the backward pass; NULL: none */
    FILE *report;
    const struct tccc_split *split;                  /* NULL: one stage, whole batches */
    unsigned long long seed;                         /* of first values of new_head and lora */
};

#undef TCCC_OF_TRAIN
#undef TCCC_OF_SPLIT
#define TCCC_OF_TRAIN(member)
#define TCCC_OF_SPLIT(member) member
/* --partitions and what goes with it: the step is cut into stages that run microbatch by microbatch
 * (doc/partitions.md). Numbers 0: the default, but for default_stage, -1: none. */
struct tccc_split {
#define TCCC_FIELD(id, long_name, short_name, argument, kind, tools, group, help, in, type, member, least, most, uses) \
    TCCC_OF_##in(TCCC_MEMBER_##type(member))
#include "base/options.def"
};

#undef TCCC_OF_OPTIONS
#undef TCCC_OF_SPLIT
#define TCCC_OF_OPTIONS(member) member
#define TCCC_OF_SPLIT(member)
struct tccc_options {
    const char *model;               /* path: .onnx or .tcir */
    const char *output;              /* path; NULL: no artifact (dump only) */
    enum tccc_output kind;
    enum tccc_weights weights;
    unsigned long long weights_seed; /* RANDOM: made when the artifact is opened, in place of the model's */
#define TCCC_FIELD(id, long_name, short_name, argument, kind, tools, group, help, in, type, member, least, most, uses) \
    TCCC_OF_##in(TCCC_MEMBER_##type(member))
#include "base/options.def"
    FILE *dump_to;                   /* of dumps */
    int copies;                      /* for the dump "memory": ranks that share what train->zero divides; 0: 1 */
    /* what was compiled, an object of JSON (doc/reports.md): graph, steps, kernels, buffers, passes, times; NULL:
     * none */
    FILE *facts;
    const struct tccc_train *train;  /* NULL: inference */
    /* what training made of pictures (runtime/tccdata.h), for the header: resize, mean, std; height and width where the
     * model leaves them open, else 0 or the model's; channels 0 or the model's. NULL: the header says nothing of it */
    const struct tccdata_picture *pictures;
    /* folder for reproducers of crashes and of compilations that make no progress; NULL: none */
    const char *reproducer;
    void (*message)(void *user, int severity, const char *text);     /* severity: 0 note, 1 warning, 2 error, 3 bug */
    void (*progress)(void *user, const char *what, double fraction);  /* may be NULL */
    void *user;
};
#undef TCCC_OF_OPTIONS
#undef TCCC_OF_TRAIN
#undef TCCC_OF_SPLIT
#undef TCCC_OF_TRAIN
/* Of --dump-ir, besides before:PASS and after:PASS. "": the graph after all of its passes. */
#define TCCC_DUMPS {"", "all", "kernels", "plan", "memory", "llvm", "asm", "ptx", "neuron"}
/* Sets every option to what the command line's is when it is not given. */
void tccc_options_init(struct tccc_options *o);

/* Returns 0, or an exit code of DESIGN section 8: 1 model wrong or unsupported, 2 usage, 3 environment, 4 our bug. No
 * partial output is left. */
int tccc_compile(const struct tccc_options *o);
/* Loads what every compilation needs, LLVM (a seventh of a small one's time), for this process and those that it forks:
 * for those whose children compile one model each. */
void tccc_prepare(void);
const char *tccc_version(void);
/* Lines for --version: LLVM's version, the targets with their architectures, ONNX's opsets. Thread-safe. */
const char *tccc_build(void);

#ifdef __cplusplus
}
#endif
#endif
