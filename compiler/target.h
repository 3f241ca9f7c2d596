/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.h - the seam between the compiler and a machine. A target is a folder compiler/NAME/ and one struct target;
 * it sees kernels (ir/kernel.h) and switches on their structure and schedule, never on op names.
 */
#ifndef TCC_TARGET_H
#define TCC_TARGET_H

#include "passes/pass.h"

struct cache;
struct target_options {
    const char *arch;            /* cpu: one of --march's list; cuda: sm_90; neuron: trn1 */
    const char *planned;         /* the machine that made the schedules, by name, as pass_machine's; NULL: arch */
    const struct pass_machine *machine;  /* it itself */
    int level;                   /* 0..3 */
    bool exact, fast_math;       /* exact: no fused multiply-add where the program has two operations */
    int jobs;                    /* processes that may work at once */
    bool assemble;               /* images in the machine's own form too, where its assembler is installed */
    /* where what it makes is kept for later (compiler/cache_int.h); NULL or not open: nowhere */
    const struct cache *cache;
    /* "llvm", "asm", "ptx": print the machine form of all kernels to dump_to; NULL: none */
    const char *dump;
    FILE *dump_to;
    bool hang;                   /* for tests: code generation does not come back */
    const bool *wanted;          /* by kernel: is it to be compiled? NULL: all are */
    /* schedules asked for, of machines that are not the plan's too; NULL: none */
    const struct pass_overrides *overrides;
};

/* What code generation gives: object files for the host, images for a device (struct tcc_pimage, runtime/abi.h), best
 * first. All of it is the context's. */
struct target_image { const uint8_t *bytes; uint64_t size; };
struct target_code { char **objects; int nobjects, capobjects; struct target_image *images; int nimages, capimages; };
void target_add_object(struct ir_ctx *ctx, struct target_code *code, const char *path);
void target_add_image(struct ir_ctx *ctx, struct target_code *code, struct target_image image);

struct target {
    const char *name;            /* "cpu" */
    const char *machines;        /* the architectures that it has, by name, separated by blanks */
    /* Whose code runs the kernels that the plan leaves on the host (--march says for which processors), where this
     * one's compile() makes images; its schedules of such kernels are ignored: their tiles are run point by point.
     * NULL: compile() makes objects. */
    const struct target *host;
    /* The function of libtccrt.a that opens its devices, which artifacts then bring along. NULL: all runtimes have
     * it. */
    const char *device;
    /* The machine of an architecture string (resolved: never "native"), or NULL after a diagnostic naming what
     * exists. */
    const struct pass_machine *(*machine)(struct ir_ctx *ctx, const char *arch);
    /* > 0: what is made for a suits b less than b's own does for a; an artifact for several machines has the plan and
     * the layouts of the one that comes first so, and tries its code first. NULL: the first that the user named. */
    int (*compare)(const struct pass_machine *a, const struct pass_machine *b);
    /* Resolves "native" to a full, reproducible architecture string. */
    const char *(*resolve)(struct ir_ctx *ctx, const char *arch);
    /* Says, for kernels that it can't lower yet, why (NULL: can lower). */
    const char *(*refuses)(struct ir_ctx *ctx, const struct kn_kernel *k);
    /* Why a kernel that its machine has left to the host runs there. NULL: it leaves none to it. */
    const char *(*host_reason)(struct ir_ctx *ctx, const struct pass_machine *m, const struct kn_kernel *k);
    /* Compiles the program's kernels. To object files, written in `folder`: kernel i becomes the global hidden function
     * `PREFIXk<i>`, tcc_kernel_fn. Or to an image for o->arch, whose functions are PREFIXk<i>. Adds them to `code`.
     * False after a diagnostic. A crash of the code generator is a diagnostic too (it runs in child processes). */
    bool (*compile)(struct ir_ctx *ctx, const struct kn_program *p, const struct target_options *o, const char *prefix,
                    const char *folder, struct target_code *code);
};

extern const struct target target_cpu, target_cpu_split, target_cuda, target_neuron;
const struct target *target_by_name(const char *name);       /* NULL: there is none of that name */
const struct target *target_at(int i);                       /* NULL: there are no more */
/* The table of schedules in that file (compiler/schedules.c says how it is written); NULL after a diagnostic. */
const struct pass_overrides *target_schedules(struct ir_ctx *ctx, const char *path);
/* The program that assembles PTX: $TCCC_PTXAS, else the one that configure found. NULL: there is none, or
 * TCCC_PTXAS=none. */
const char *target_ptxas(void);
/* Adds a target, which outlives all compilations, before the first of them: --target=NAME then means it. False: the
 * name is taken, or there are too many. Not thread-safe. */
bool target_register(const struct target *t);

#endif
