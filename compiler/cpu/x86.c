/* SPDX-License-Identifier: Apache-2.0 */
/* x86.c - what x86 does by one instruction that LLVM has no general operation for (struct em_machine). */
#include "compiler/cpu/emit_int.h"

#define V LLVMValueRef

/* CVTPS2DQ rounds by the rounding mode, which is to nearest even. */
V x86_round_to_int(struct em *e, V v)
{
    switch (em_lanes_of(v)) {
    case 16: {
        if (!cpu_has(em_cpu(e), CPU_AVX512F))
            return NULL;
        V none = LLVMConstNull(em_vec(e->t_i32, 16));
        V args[4] = {v, none, LLVMConstAllOnes(e->t_i16), LLVMConstInt(e->t_i32, 4, 0)};
        return em_intrinsic(e, "llvm.x86.avx512.mask.cvtps2dq.512", 0, NULL, 4, args);
    }
    case 8: return cpu_has(em_cpu(e), CPU_AVX) ? em_intrinsic(e, "llvm.x86.avx.cvt.ps2dq.256", 0, NULL, 1, &v) : NULL;
    case 4: return em_intrinsic(e, "llvm.x86.sse2.cvtps2dq", 0, NULL, 1, &v);
    default: return NULL;
    }
}

/* VSCALEFPS */
V x86_scale(struct em *e, V p, V n)
{
    V args[5] = {p, n, LLVMConstNull(LLVMTypeOf(p)), LLVMConstInt(e->t_i16, 0xffff, 0), LLVMConstInt(e->t_i32, 4, 0)};
    return em_intrinsic(e, "llvm.x86.avx512.mask.scalef.ps.512", 0, NULL, 5, args);
}

/* VPERMPS, which looks at no more than the low bits of an index. */
V x86_look_up(struct em *e, V table, V index)
{
    return em_intrinsic(e, "llvm.x86.avx512.permvar.sf.512", 0, NULL, 2, (V[]){table, index});
}
