/* SPDX-License-Identifier: Apache-2.0 */
/* emit_int.h - the emitter (compiler/emit) as the templates of the CPU target use it. */
#ifndef TCC_CPU_EMIT_INT_H
#define TCC_CPU_EMIT_INT_H

#include "compiler/cpu/cpu_int.h"

/* The machine that an emitter of this target has. */
static inline const struct cpu_machine *em_cpu(const struct em *e)
{
    return (const struct cpu_machine *)(const void *)((const char *)e->m - offsetof(struct cpu_machine, emit));
}

/* dot.c. acc + the products of four unsigned bytes u by four signed bytes s in each 32-bit lane (4, 8 or 16 lanes). */
LLVMValueRef cpu_dot_bytes(struct em *e, LLVMValueRef u, LLVMValueRef s, LLVMValueRef acc);
LLVMValueRef cpu_dot_bytes_signed(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc);
LLVMValueRef cpu_dot_bf16(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc);
/* acc + the products of two 16-bit numbers; where the machine that plans has dot_halves. */
LLVMValueRef cpu_dot_halves(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc);
/* The even (which: 0) or the odd bytes of each 32-bit lane as two 16-bit numbers. */
LLVMValueRef cpu_half_of(struct em *e, LLVMValueRef groups, int which, bool is_unsigned);
/* That lane of v, n times; acc + the products of b and it, by the machine's instruction or LLVM's choice. */
LLVMValueRef cpu_lane(struct em *e, LLVMValueRef v, int lane, int n);
LLVMValueRef cpu_lane_fma(struct em *e, LLVMValueRef a, int lane, LLVMValueRef b, LLVMValueRef acc);
/* The same by multiplications of 32-bit lanes: any number of them, no instruction of its own. */
LLVMValueRef cpu_dot_bytes_plain(struct em *e, LLVMValueRef u, LLVMValueRef s, LLVMValueRef acc);
/* For each lane its bytes at p, p + step, .. (n of them, at most four; then zeros) side by side in 32 bits. */
LLVMValueRef cpu_dot_group(struct em *e, LLVMValueRef p, int64_t step, int n, int lanes, int operand);
void cpu_collapse(struct ir_ctx *ctx, struct kn_kernel *k);   /* joins dims, flattens operands: LOOPS only */

#endif
