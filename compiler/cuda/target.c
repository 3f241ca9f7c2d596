/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA target, first slice: every kernel becomes a PTX function through LLVM's NVPTX back end, bodies and math from the same
 * emitter that the CPU uses, run point by point. One thread computes one outer point of the kernel, its stages and inner dims
 * in order; threads stride over the points:
 *
 *     .visible .entry PREFIXk<i>(args, sizes, scratch, env, points)
 *         for (p = ctaid.x * ntid.x + tid.x; p < points; p += nctaid.x * ntid.x)  run tile p
 *
 * The last outer dim is the fastest, so that neighbouring threads read neighbouring addresses. Local operands lie in scratch, one
 * part per thread of the grid. Running on a device comes later: only --dump-ir=ptx gives output.
 */
#include "compiler/child_int.h"
#include "compiler/emit/emit.h"
#include "compiler/target.h"

#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <string.h>
#include <unistd.h>

static const char triple[] = "nvptx64-nvidia-cuda";

/* -- Machine ------------------------------------------------------------------------------------------ */

/* Compute capabilities that we name; NVPTX feature: the PTX version that has all of them. */
static const struct {
    const char *name, *ptx;
} archs[] = {{"sm_80", "+ptx70"}, {"sm_90", "+ptx78"}, {"sm_90a", "+ptx80"}};

static const char *ptx_version(const char *arch)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strcmp(archs[i].name, arch) == 0)
            return archs[i].ptx;
    return NULL;
}

/* One thread a point, without vectors. */
static void schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    (void)m;
    k->schedule = (struct kn_schedule){.how = "loops"};
    for (int i = 0; i < em_nouter(k); i++)
        k->schedule.tile[i] = 1;
    k->tiles = em_tile_count(ctx, k);
    k->scratch = em_local_scratch(ctx, k, 1);
}

static const char *resolve(struct ir_ctx *ctx, const char *arch)
{
    if (strcmp(arch, "native") == 0)
        return "sm_90";
    return ir_strdup(ctx, arch);
}

static const struct pass_machine *machine(struct ir_ctx *ctx, const char *arch)
{
    if (!ptx_version(arch)) {
        ir_error(ctx, NULL, "unknown target cuda:%s; expected cuda:sm_80, cuda:sm_90 or cuda:sm_90a", arch);
        return NULL;
    }
    struct pass_machine *m = IR_NEW(ctx, struct pass_machine);
    *m = (struct pass_machine){.name = "cuda", .schedule = schedule};
    return m;
}

static const char *refuses(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].space == KN_SHARED || k->operands[i].space == KN_REGISTERS)
            return "an operand in shared memory or registers";
    return em_refuses(ctx, k);
}

/* -- One child: all kernels to PTX ------------------------------------------------------------------------ */

struct job {
    struct ir_ctx *ctx;
    const struct kn_program *program;
    const struct target_options *options;
    const char *prefix, *path;
};

static LLVMValueRef special_register(struct em *e, const char *name)
{
    LLVMValueRef v = em_intrinsic(e, name, 0, NULL, 0, NULL);
    return LLVMBuildZExt(e->b, v, e->t_i64, "");
}

/* Bytes of scratch that a thread has for itself. */
static LLVMValueRef scratch_of_thread(struct em *e)
{
    e->nbind = 0;
    for (int i = 0; i < e->k->nsizes; i++) {
        LLVMValueRef index = em_i64(e, i), at = LLVMBuildGEP2(e->b, e->t_i64, LLVMGetParam(e->fn, 1), &index, 1, "");
        em_bind(e, e->k->sizes[i], LLVMBuildLoad2(e->b, e->t_i64, at, e->k->sizes[i]->name));
    }
    return em_expr(e, e->k->scratch);
}

/* The entry: a grid-stride loop over points that calls the body for tile [p, p + 1). */
static void emit_entry(struct em *e, const char *name, LLVMValueRef body)
{
    LLVMTypeRef params[] = {e->t_ptr, e->t_ptr, e->t_ptr, e->t_ptr, e->t_i64};
    LLVMValueRef fn = LLVMAddFunction(e->mod, name, LLVMFunctionType(e->t_void, params, 5, 0));
    LLVMSetFunctionCallConv(fn, 71); /* PTX_Kernel */
    e->fn = fn;
    e->entry = LLVMAppendBasicBlockInContext(e->lc, fn, "entry");
    LLVMPositionBuilderAtEnd(e->b, e->entry);
    LLVMValueRef block = special_register(e, "llvm.nvvm.read.ptx.sreg.ctaid.x"),
                 size = special_register(e, "llvm.nvvm.read.ptx.sreg.ntid.x");
    LLVMValueRef thread = special_register(e, "llvm.nvvm.read.ptx.sreg.tid.x"),
                 blocks = special_register(e, "llvm.nvvm.read.ptx.sreg.nctaid.x");
    LLVMValueRef id = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, block, size, ""), thread, "thread");
    LLVMValueRef own = LLVMBuildMul(e->b, id, scratch_of_thread(e), ""),
                 scratch = LLVMBuildGEP2(e->b, e->t_i8, LLVMGetParam(fn, 2), &own, 1, "scratch");
    struct em_loop l;
    em_loop_begin(e, &l, id, LLVMGetParam(fn, 4), LLVMBuildMul(e->b, blocks, size, "threads"), "point");
    LLVMValueRef args[] = {LLVMGetParam(fn, 0),
                           LLVMGetParam(fn, 1),
                           scratch,
                           LLVMGetParam(fn, 3),
                           l.iv,
                           LLVMBuildAdd(e->b, l.iv, em_i64(e, 1), "")};
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(body), body, args, 6, "");
    em_loop_end(e, &l);
    LLVMBuildRetVoid(e->b);
}

static void emit_kernel(const struct job *j, struct em *e, int i)
{
    const struct kn_kernel *k = j->program->kernels[i];
    unsigned inlined = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    e->k = k;
    e->bind = NULL;
    e->nbind = e->capbind = 0;
    em_kernel_begin(e, ir_internf(j->ctx, "%sk%d_point", j->prefix, i), 1);
    em_loops(e, (struct em_nest){.vector = -1, .width = 1, .unroll = 1});
    em_kernel_end(e);
    LLVMValueRef body = e->fn;
    LLVMSetLinkage(body, LLVMInternalLinkage);
    LLVMSetVisibility(body, LLVMDefaultVisibility);
    LLVMSetSection(body, "");
    LLVMAddAttributeAtIndex(body, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->lc, inlined, 0));
    emit_entry(e, ir_internf(j->ctx, "%sk%d", j->prefix, i), body);
}

static LLVMTargetMachineRef target_machine(const struct job *j)
{
    LLVMTargetRef target;
    char *error = NULL;
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    if (LLVMGetTargetFromTriple(triple, &target, &error))
        em_give_up("LLVM: ", error);
    return LLVMCreateTargetMachine(target, triple, j->options->arch, ptx_version(j->options->arch),
                                   LLVMCodeGenLevelDefault, LLVMRelocDefault, LLVMCodeModelDefault);
}

static void ptx_child(void *jobs, int index, int report)
{
    const struct job *j = (const struct job *)jobs + index;
    const struct em_machine plain = {
        .vector_bytes = 4, .fma = true, .llvm_cpu = j->options->arch, .llvm_features = ptx_version(j->options->arch)};
    struct ir_protect frame;
    char *error = NULL;
    em_child(report);
    if (!IR_PROTECT(j->ctx, &frame))
        em_give_up("no memory", NULL);
    LLVMContextRef lc = LLVMContextCreate();
    LLVMTargetMachineRef tm = target_machine(j);
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext("kernels", lc);
    LLVMSetDataLayout(mod, LLVMCopyStringRepOfTargetData(LLVMCreateTargetDataLayout(tm)));
    LLVMSetTarget(mod, triple);
    struct em e = {.ctx = j->ctx,
                   .m = &plain,
                   .level = j->options->level,
                   .fast_math = j->options->fast_math,
                   .lc = lc,
                   .mod = mod,
                   .b = LLVMCreateBuilderInContext(lc)};
    for (int i = 0; i < j->program->nkernels; i++)
        emit_kernel(j, &e, i);
    em_verify(mod);
    em_run_passes(mod, tm,
                  "always-inline,globaldce,function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
                  "loop-mssa(loop-rotate,licm),gvn,adce,simplifycfg)");
    if (LLVMTargetMachineEmitToFile(tm, mod, (char *)j->path, LLVMAssemblyFile, &error))
        em_give_up("cannot write PTX: ", error);
    _exit(0);
}

static bool compile(struct ir_ctx *ctx, const struct kn_program *p, const struct target_options *o, const char *prefix,
                    const char *folder, char ***objects, int *nobjects)
{
    (void)objects, (void)nobjects;
    struct job j = {
        .ctx = ctx, .program = p, .options = o, .prefix = prefix, .path = ir_internf(ctx, "%s/%s.ptx", folder, prefix)};
    if (!o->dump || strcmp(o->dump, "ptx") != 0) {
        ir_error(ctx, NULL,
                 "running on a GPU is not supported yet: --target=cuda:%s gives PTX only (--dump-ir=ptx, without -o)",
                 o->arch);
        return false;
    }
    if (!child_run(ctx, 1, 1, ptx_child, &j))
        return false;
    child_take_dump(j.path, o->dump_to);
    return true;
}

const struct target target_cuda = {
    .name = "cuda", .machine = machine, .resolve = resolve, .refuses = refuses, .compile = compile};
