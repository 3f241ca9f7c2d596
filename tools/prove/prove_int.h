/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prove_int.h - kernels of an artifact, a device's in the simulator and the host's in guarded memory, beside their
 * meaning.
 */
#ifndef TCC_TOOLS_PROVE_INT_H
#define TCC_TOOLS_PROVE_INT_H

#include "ir/ir.h"
#include "sim/ptx/ptxsim.h"

enum { PROVE_TEXT = 1024, PROVE_MOST = 1 << 26 };

/* An image whose PTX the simulator has loaded. */
struct prove {
    struct ptx_device *device;
    struct ptx_module *module;
    const struct tcc_pimage *image;
    struct ptx_counters counters;    /* of the last kernel that ran, and its operations */
    int64_t operations;
    /* operations or points of a kernel that is run whole, and, from PROVE_MOST on, which it is at first, 16 times the
     * elements of its operands. Of larger ones a sample is: blocks of 16 times as many operations, and points among
     * those that they store, as many as `most` pays */
    int64_t most;
    /* kernels of the host's processor, by number, which run instead of an image's; no samples of them */
    const tcc_kernel_fn *host;
    bool whole;                      /* no samples: what is larger is skipped */
    /* of the last kernel: one of so many blocks (0: it ran whole); all results; those compared */
    struct prove_sample { int64_t share, results, compared; } sample;
};
/* seed: order of warps. False: `error` (PROVE_TEXT bytes) says why. */
bool prove_open(struct prove *p, const struct tcc_pimage *image, uint64_t seed, char *error);
void prove_close(struct prove *p);

/* One launch: for each operand that is none of the kernel's own, in order, its bytes on the host; those that are only
 * written are not copied to the device, those that are written come back. */
struct prove_launch {
    int kernel, nargs, nsizes;
    void *const *args;
    const size_t *bytes;
    const enum kn_operand_use *uses;
    const int64_t *sizes;
    bool by_control;                 /* sizes and tiles are read in the control block, as within a program */
    /* one of so many blocks runs, results of the others stay as they are; 0: all run */
    int64_t share;
    int64_t tiles;
    struct tcc_env env;              /* `fault` afterwards */
    struct ptx_counters counters;    /* of all its functions */
};
/* The same of a kernel of the host, each operand ending at a page that nobody may touch, or beginning behind one. */
struct prove_extent { int64_t scratch, combining; };     /* bytes; tiles of the second phase */
bool prove_run_host(tcc_kernel_fn f, struct prove_launch *l, const struct prove_extent *e, bool begins, char *error);
/* False: a check of the simulator failed, or the launch is none; `error` says why. */
bool prove_run(struct prove *p, struct prove_launch *l, char *error);

/* Kernel number `kernel` on random operands of these sizes, and the interpreter (kn_interp_kernel) on the same; of
 * large ones samples. False: they differ, or a check failed; `error` says how. *skipped: they could not be compared
 * (too large, or the sizes make no sense), and why. Results of floats are equal within what another order of sums
 * gives. */
bool prove_kernel(struct prove *p, int kernel, const struct kn_kernel *k, const int64_t *sizes, uint64_t seed,
                  const char **skipped,
                  char *error);

/* tccc --prove-kernels: the artifact's device kernels, or, where it has none, those of the host; samples of those of
 * more than `most` operations, k being those of its plan by number, at several sizes; a line for each that is wrong,
 * skipped or of which a sample ran, with `counts` one for what each counted at the largest, and their numbers, to
 * `out`. False: some kernel is wrong, or there is nothing that can be run here. */
bool prove_artifact(const struct tcc_model *m, int nkernels, struct kn_kernel *const *k, int64_t most, bool counts,
                    FILE *out);

struct options;
struct tccc_options;
/* The kernels that a compilation with these options makes, and with `plan` what launches them, in a context of their
 * own, which the caller frees. NULL after a report; *code: the exit code. */
struct ir_module *model_kernels(const struct options *o, const struct tccc_options *c, bool plan, struct ir_ctx **ctx,
                                int *code);
/* tune.c, tccc --tune: times schedules, writes the table, and has c take it. An exit code. */
int tune_model(const struct options *o, struct tccc_options *c);
/* The artifact that has been written as these options say. An exit code. */
int prove_model(const struct options *o, const struct tccc_options *c);

#endif
