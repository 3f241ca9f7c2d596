/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.h - the seam between the compiler and a machine. A target is a folder compiler/NAME/ and one struct target;
 * it sees kernels (ir/kernel.h) and switches on their structure and schedule, never on op names.
 */
#ifndef TCC_TARGET_H
#define TCC_TARGET_H

#include "passes/pass.h"

struct target_options {
    const char *arch;            /* cpu: one of --march's list; cuda: sm_90; neuron: trn1 */
    int level;                   /* 0..3 */
    bool exact, fast_math;       /* exact: no fused multiply-add where the program has two operations */
    int jobs;                    /* processes that may work at once */
    const char *dump;            /* "llvm", "asm", "ptx": print the machine form of all kernels to dump_to; NULL: none */
    FILE *dump_to;
    bool hang;                   /* for tests: code generation does not come back */
};

struct target {
    const char *name;            /* "cpu" */
    const char *device;          /* what runs its artifacts and has a memory of its own (runtime/device/); NULL: the host */
    /* The machine of an architecture string (resolved: never "native"), or NULL after a diagnostic naming what exists. */
    const struct pass_machine *(*machine)(struct ir_ctx *ctx, const char *arch);
    /* > 0: what is made for a suits b less than b's own does for a; an artifact for several machines has the plan and the layouts of the one
     * that comes first so, and tries its code first. NULL: the first that the user named. */
    int (*compare)(const struct pass_machine *a, const struct pass_machine *b);
    /* Resolves "native" to a full, reproducible architecture string. */
    const char *(*resolve)(struct ir_ctx *ctx, const char *arch);
    /* Says, for kernels that it can't lower yet, why (NULL: can lower). */
    const char *(*refuses)(struct ir_ctx *ctx, const struct kn_kernel *k);
    /* Compiles the program's kernels to object files. Kernel i becomes the global hidden function `PREFIXk<i>`, tcc_kernel_fn.
     * Writes one or more object files in `folder`; their paths are appended to `objects`. False after a diagnostic.
     * A crash of the code generator is a diagnostic too (it runs in child processes). */
    bool (*compile)(struct ir_ctx *ctx, const struct kn_program *p, const struct target_options *o, const char *prefix,
                    const char *folder, char ***objects, int *nobjects);
};

extern const struct target target_cpu, target_cpu_split, target_cuda;
const struct target *target_by_name(const char *name);       /* NULL: there is none of that name */
/* Adds a target, which outlives all compilations, before the first of them: --target=NAME then means it. False: the name is taken, or there
 * are too many. Not thread-safe. */
bool target_register(const struct target *t);

#endif
