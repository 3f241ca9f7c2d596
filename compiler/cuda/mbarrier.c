/* SPDX-License-Identifier: Apache-2.0 */
/* mbarrier.c - barriers in shared memory whose phases end with arrivals and bytes, and the tensor copies that bring
 * these (PTX ISA, "mbarrier", "cp.async.bulk.tensor"). */
#include "compiler/cuda/cuda_int.h"

#define V LLVMValueRef

V cuda_shared_address(struct em *e, V shared)
{
    return LLVMBuildPtrToInt(e->b, shared, e->t_i32, "");
}

void cuda_mbarrier_init(struct em *e, V at, int arrivals)
{
    V args[] = {at, LLVMConstInt(e->t_i32, (unsigned)arrivals, 0)};
    cuda_asm(e, e->t_void, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", 2, args);
}

void cuda_mbarrier_expect(struct em *e, V at, int64_t bytes)
{
    V args[] = {at, LLVMConstInt(e->t_i32, (unsigned)bytes, 0)};
    cuda_asm(e, e->t_void, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", 2, args);
}

void cuda_mbarrier_wait(struct em *e, V at, V parity)
{
    V args[] = {at, parity};
    cuda_asm(e, e->t_void,
             "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
             "@!done bra AGAIN;\n}",
             "r,r,~{memory}", 2, args);
}

void cuda_mbarrier_arrive(struct em *e, V at, V ok)
{
    V args[] = {at, LLVMBuildZExt(e->b, ok, e->t_i32, "")};
    cuda_asm(e, e->t_void, "{\n.reg .pred ok;\nsetp.ne.u32 ok, $1, 0;\n@ok mbarrier.arrive.shared::cta.b64 _, [$0];\n}",
             "r,r,~{memory}", 2, args);
}

void cuda_send_box(struct em *e, int rank, int offsets, int blocks, V *args)
{
    struct ir_ctx *ctx = e->ctx;
    const char *at = "", *taps = "", *constraints = "r,r,l";
    int n = 3 + rank + offsets;
    bool all = blocks > 1;
    if (all)
        args[n] = LLVMConstInt(e->t_i16, (1u << blocks) - 1, 0);
    for (int i = 0; i < rank; i++) {
        at = ir_internf(ctx, "%s%s$%d", at, i ? ", " : "", 3 + i);
        constraints = ir_internf(ctx, "%s,r", constraints);
    }
    for (int i = 0; i < offsets; i++) {
        taps = ir_internf(ctx, "%s%s$%d", i ? taps : ", {", i ? ", " : "", 3 + rank + i);
        constraints = ir_internf(ctx, "%s,h", constraints);
    }
    cuda_asm(e, e->t_void,
             ir_internf(ctx,
                        "cp.async.bulk.tensor.%dd.shared::cluster.global.%s.mbarrier::complete_tx::bytes%s "
                        "[$0], [$2, {%s}], [$1]%s%s%s;",
                        rank, offsets ? "im2col" : "tile", all ? ".multicast::cluster" : "", at, taps,
                        offsets ? "}" : "", all ? ir_internf(ctx, ", $%d", n) : ""),
             ir_internf(ctx, "%s%s,~{memory}", constraints, all ? ",h" : ""), n + all, args);
}
