/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that build kernels by hand, compile them for a CPU, and run them. */
#ifndef TESTS_UNIT_KERNELS_H
#define TESTS_UNIT_KERNELS_H

#include "compiler/target.h"

#define HK_MAX 64

/* A kernel under construction; hk_finish() makes it a struct kn_kernel in the context. */
struct hk {
    struct ir_ctx *ctx;
    struct kn_kernel k;
    struct kn_dim dims[KN_MAX_DIMS];
    struct kn_operand operands[HK_MAX];
    struct kn_insn insns[HK_MAX];
    struct kn_stage stages[8];
    ir_expr sizes[8];
};
void hk_init(struct hk *b, struct ir_ctx *ctx, const char *name);
ir_expr hk_size(struct hk *b, const char *name);                      /* a symbol passed at run time */
ir_expr hk_outer(struct hk *b, ir_expr extent);                       /* a new dim's variable */
ir_expr hk_inner(struct hk *b, ir_expr extent);
int hk_operand(struct hk *b, enum kn_operand_use use, enum tcc_dtype d, int rank, const ir_expr *dims);
void hk_stage(struct hk *b, uint32_t inner);                          /* following instructions belong to it */
int hk_const(struct hk *b, enum tcc_dtype d, double v);
int hk_load(struct hk *b, int operand, const ir_expr *index);
int hk_load_guarded(struct hk *b, int operand, const ir_expr *index, struct kn_guard guard, int otherwise);
void hk_store(struct hk *b, int operand, const ir_expr *index, int value);
int hk_scalar(struct hk *b, enum ir_op op, enum tcc_dtype d, int x, int y, int z);   /* -1: no such operand */
int hk_reduce(struct hk *b, enum kn_code code, enum kn_reducer r, enum tcc_dtype d, int x, int position, int64_t flag);
void hk_sort(struct hk *b, int keys, int companions, enum kn_reducer r);
int hk_expr(struct hk *b, enum tcc_dtype d, ir_expr x);
ir_expr hk_index(struct hk *b, int x, ir_expr bound);
struct kn_kernel *hk_finish(struct hk *b);
#define E(...) ((const ir_expr[]){__VA_ARGS__})

/* Compiled kernels, loaded into this process. */
struct hk_loaded { void *handle; const tcc_kernel_fn *fn; char folder[64]; };
/* "CODE" or "CODE/PLAN", resolved: code for one machine, schedules of it or of another, as an artifact for several has
 * them (PLAN of "x86-64-v4" and features that follow a '+', as "x86-64-v4+avx512bf16"). Aborts the test where there is
 * no such machine. */
struct hk_arch { const char *code, *planned; };
struct hk_arch hk_arch(struct ir_ctx *ctx, const char *text);
/* Schedules (vector: by the machine, else single points) and compiles kernels for `arch`, as hk_arch(); aborts the test
 * on failure. */
void hk_load_kernels(struct ir_ctx *ctx, struct hk_loaded *l, int n, struct kn_kernel *const *kernels,
                     const char *arch, int level,
                     bool vector);
void hk_unload(struct hk_loaded *l);
/* Runs all tiles of a kernel, of both phases, `step` tiles a call; allocates scratch. Returns env.fault. */
int hk_run(const struct kn_kernel *k, tcc_kernel_fn fn, void *const *args, const int64_t *sizes, int64_t step);
/* Zeroed memory whose end meets a page that can't be touched: any access behind it crashes. */
void *hk_alloc(size_t bytes);
void hk_free(void *p, size_t bytes);
uint64_t hk_random(uint64_t *state);                                  /* splitmix64 */
int64_t hk_elements(const struct kn_kernel *k, int operand, const int64_t *sizes);
int64_t hk_value(const struct kn_kernel *k, ir_expr x, const int64_t *sizes);
/* can this processor run code for arch, as hk_arch()? */
bool hk_cpu_runs(struct ir_ctx *ctx, const char *arch);

#endif
