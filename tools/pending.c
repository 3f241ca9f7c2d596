/* SPDX-License-Identifier: Apache-2.0 */
/* Weak definitions of what is not in the tree yet, so that the tools link meanwhile. Goes away with the last of them. */
#include "ir/ir.h"

__attribute__((weak)) const int tccrt_nlibops = 0;
__attribute__((weak)) const struct tcc_libop tccrt_libops[1] = {{0}};
__attribute__((weak)) bool kn_verify_kernel(struct ir_ctx *ctx, const struct kn_kernel *k) { (void)ctx, (void)k; return false; }
__attribute__((weak)) bool kn_verify_program(const struct kn_program *p) { (void)p; return false; }
__attribute__((weak)) uint64_t kn_digest_kernel(const struct kn_kernel *k) { (void)k; return 0; }
__attribute__((weak)) int kn_physical_dims(struct ir_ctx *ctx, ir_type t, kn_layout l, ir_expr *dims) { (void)ctx, (void)t, (void)l, (void)dims; return 0; }
__attribute__((weak)) int kn_physical_index(struct ir_ctx *ctx, kn_layout l, int rank, const ir_expr *logical, ir_expr *physical) { (void)ctx, (void)l, (void)rank, (void)logical, (void)physical; return 0; }
__attribute__((weak)) void kn_print_program(FILE *out, const struct kn_program *p, bool kernels, bool plan) { (void)out, (void)p, (void)kernels, (void)plan; }
__attribute__((weak)) kn_layout kn_layout_make(struct ir_ctx *ctx, int rank, int naxes, const struct kn_axis *axes) { (void)ctx, (void)rank, (void)naxes, (void)axes; return NULL; }
__attribute__((weak)) kn_layout kn_layout_blocked(struct ir_ctx *ctx, int rank, int axis, int block) { (void)ctx, (void)rank, (void)axis, (void)block; return NULL; }
__attribute__((weak)) struct ir_tensor *kn_relayout(const struct ir_tensor *t, kn_layout l) { (void)t, (void)l; return NULL; }
