/* SPDX-License-Identifier: Apache-2.0 */
/* job_int.h - a compilation under way: what compile.c and the files of its steps share. */
#ifndef TCCC_JOB_INT_H
#define TCCC_JOB_INT_H

#include "compiler/cache_int.h"
#include "compiler/sources_int.h"
#include "compiler/target.h"
#include "compiler/tccc.h"
#include "passes/train/train.h"
#include "base/safe.h"

enum { OK, WRONG_INPUT, USAGE, ENVIRONMENT, BUG };

#define MAX_VERSIONS 8

/* The machines of one target that an artifact has code for. */
struct versions {
    int n;
    const char *archs[MAX_VERSIONS];    /* resolved, best first */
    const struct pass_machine *machine; /* of the best one: its layouts hold for all */
};

struct job {
    const struct tccc_options *o;
    const char *spec; /* what of --target it is for: "cuda:sm_80,sm_90a" */
    struct job *next; /* the same model for another of --target's, to be in the same artifact; NULL: none */
    struct job *main; /* the first of them, whose names and entry points it has; NULL: this is it */
    struct ir_ctx *ctx;
    struct ir_module *module;
    struct sources sources; /* files that the module came from */
    uint64_t digest;        /* of those, or of a module that was built in memory */
    bool built;             /* in memory, not read from a file */
    int owner;              /* pid of the caller */
    bool fresh, cached;     /* pass over what the cache holds; was the artifact there */
    struct cache cache;
    const struct target *target;
    const struct pass_overrides *overrides; /* --schedules; NULL: none */
    struct versions made;               /* what the target makes */
    struct versions host;               /* the same, or those that run the kernels which it leaves on the host */
    const char *prefixes[MAX_VERSIONS]; /* of the host's functions, by version */
    const bool *on_host;                /* by kernel: has it functions of the host? NULL: all */
    const char *name;
    struct tcr_scratch scratch;
    const char *folder; /* the scratch folder's; "" when there is none */
    struct target_code code;
    int status;                        /* what a failure means */
    int64_t changes_left;              /* by passes (--change-limit) */
    struct train_recompute *recompute; /* by stage; NULL: nothing */
    const char *reproducer;            /* file; NULL: none is wanted */
    struct ir_beside *beside;          /* its big constants */
    char *graph;                       /* what goes into it for code generation */
    struct facts *facts;               /* compile_report.c; NULL: nobody asks */
    double lap;                        /* when the step that is under way began, in ms */
    int nlaps;
    struct {
        const char *what;
        double ms;
    } laps[8];
};

bool job_wants(const struct tccc_options *o, const char *dump);      /* is it one of --dump-ir's? */
/* The reproducer is there while code is generated, and afterwards where that went wrong. */
void job_write_graph(const struct job *j);
/* compile.c: to the caller: what is being done, and how much of it has been. */
void job_progress(const struct job *j, const char *what, double fraction);
/* job_passes.c: j->module becomes the training step that the options say; then kernels and a plan. */
bool job_build_training(struct job *j);
bool job_run_passes(struct job *j);

/* compile.c: the step for the job and those of --target's others, until one fails; j->status is then that one's. */
bool job_each_target(struct job *j, bool (*step)(struct job *));

/* machines.c: j->target, made and host, and j->next; false after a diagnostic, with j->status. All architectures,
 * for the cache. */
bool job_choose_target(struct job *j);
struct cache_key job_cache_key(struct job *j);

/* compile_report.c: the graph as it was read; a pass, of pass_options.timed; all of it, at the end, to o->facts. */
void facts_begin(struct job *j);
void facts_timed(void *job, const struct pass_timing *t);
void facts_write(struct job *j);

/* codegen.c */
const char *job_machine_dump(const struct tccc_options *o);          /* "llvm", "asm", "ptx"; NULL: none is wanted */
/* into j->code; false after a diagnostic, with j->status */
bool job_compile_kernels(struct job *j);

#endif
