/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that build kernels by hand, compile them for a CPU, and run them. */
#ifndef TESTS_UNIT_KERNELS_H
#define TESTS_UNIT_KERNELS_H

#include "compiler/target.h"

#define KB_MAX 64

/* A kernel under construction; kb_finish() makes it a struct kn_kernel in the context. */
struct kb {
    struct ir_ctx *ctx;
    struct kn_kernel k;
    struct kn_dim dims[KN_MAX_DIMS];
    struct kn_operand operands[KB_MAX];
    struct kn_insn insns[KB_MAX];
    struct kn_stage stages[8];
    ir_expr sizes[8];
};
void kb_init(struct kb *b, struct ir_ctx *ctx, const char *name);
ir_expr kb_size(struct kb *b, const char *name);                      /* a symbol passed at run time */
ir_expr kb_outer(struct kb *b, ir_expr extent);                       /* a new dim's variable */
ir_expr kb_inner(struct kb *b, ir_expr extent);
int kb_operand(struct kb *b, enum kn_operand_use use, enum tcc_dtype d, int rank, const ir_expr *dims);
void kb_stage(struct kb *b, uint32_t inner);                          /* following instructions belong to it */
int kb_const(struct kb *b, enum tcc_dtype d, double v);
int kb_load(struct kb *b, int operand, const ir_expr *index);
int kb_load_guarded(struct kb *b, int operand, const ir_expr *index, struct kn_guard guard, int otherwise);
void kb_store(struct kb *b, int operand, const ir_expr *index, int value);
int kb_scalar(struct kb *b, enum ir_op op, enum tcc_dtype d, int x, int y, int z);   /* -1: no such operand */
int kb_reduce(struct kb *b, enum kn_code code, enum kn_reducer r, enum tcc_dtype d, int x, int position, int64_t flag);
void kb_sort(struct kb *b, int keys, int companions, enum kn_reducer r);
int kb_expr(struct kb *b, enum tcc_dtype d, ir_expr x);
ir_expr kb_index(struct kb *b, int x, ir_expr bound);
struct kn_kernel *kb_finish(struct kb *b);
#define E(...) ((const ir_expr[]){__VA_ARGS__})

/* Compiled kernels, loaded into this process. */
struct kb_loaded { void *handle; const tcc_kernel_fn *fn; char folder[64]; };
/* "CODE" or "CODE/PLAN", resolved: code for one machine, schedules of it or of another, as an artifact for several has them (PLAN of "x86-64-v4"
 * and features that follow a '+', as "x86-64-v4+avx512bf16"). Aborts the test where there is no such machine. */
struct kb_arch { const char *code, *planned; };
struct kb_arch kb_arch(struct ir_ctx *ctx, const char *text);
/* Schedules (vector: by the machine, else single points) and compiles kernels for `arch`, as kb_arch(); aborts the test on failure. */
void kb_load_kernels(struct ir_ctx *ctx, struct kb_loaded *l, int n, struct kn_kernel *const *kernels, const char *arch, int level,
                     bool vector);
void kb_unload(struct kb_loaded *l);
/* Runs all tiles of a kernel, of both phases, `step` tiles a call; allocates scratch. Returns env.fault. */
int kb_run(const struct kn_kernel *k, tcc_kernel_fn fn, void *const *args, const int64_t *sizes, int64_t step);
/* Zeroed memory whose end meets a page that can't be touched: any access behind it crashes. */
void *kb_alloc(size_t bytes);
void kb_free(void *p, size_t bytes);
uint64_t kb_random(uint64_t *state);                                  /* splitmix64 */
int64_t kb_elements(const struct kn_kernel *k, int operand, const int64_t *sizes);
int64_t kb_value(const struct kn_kernel *k, ir_expr x, const int64_t *sizes);
bool kb_cpu_runs(struct ir_ctx *ctx, const char *arch);               /* can this processor run code for arch, as kb_arch()? */

#endif
