/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - from kernels to PTX: LLVM runs in a child process, which writes the text to a file. */
#include "compiler/child_int.h"
#include "compiler/cuda/cuda_int.h"

#include <string.h>
#include <unistd.h>

static const char triple[] = "nvptx64-nvidia-cuda";

struct job {
    struct ir_ctx *ctx;
    const struct kn_program *program;
    const struct target_options *options;
    const struct cuda_machine *machine;
    const char *prefix, *path;
    bool *stops;      /* by kernel: it does nothing behind a fault */
    const bool *rows; /* and: several launches run as one */
};

/* Products of 8-bit floats by mma.sync came with PTX 8.4 (wgmma has them from the first); programs without them are
 * read by older drivers. */
static const char *ptx_version(const struct job *j)
{
    for (int i = 0; i < j->program->nkernels; i++)
        if (j->machine->fp8 == CUDA_MMA && !j->program->kernels[i]->custom &&
            cuda_get_schedule(j->program->kernels[i]).fp8)
            return "+ptx84";
    return j->machine->ptx;
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
    return LLVMCreateTargetMachine(target, triple, j->machine->name, ptx_version(j), LLVMCodeGenLevelDefault,
                                   LLVMRelocDefault, LLVMCodeModelDefault);
}

static int kernel_number(const struct kn_program *p, const struct kn_kernel *k)
{
    int i = 0;
    while (i < p->nkernels && p->kernels[i] != k && strcmp(p->kernels[i]->name, k->name) != 0)
        i++;
    return i;
}

/* Kernels that write state, in an artifact in which any may meet a bad index; not those that may themselves, whose
 * threads see the fault at different times. */
static void find_stops(const struct kn_program *p, const struct kn_steps *steps, bool *stops)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        bool writes = false;
        for (int v = 0; v < s->nversions; v++)
            writes = writes || s->versions[v].makes >= 0;
        int k = s->kind == TCC_STEP_LAUNCH && writes ? kernel_number(p, s->kernel) : p->nkernels;
        if (k < p->nkernels && !kn_has(p->kernels[k], KN_BIT(KN_INDEX)))
            stops[k] = true;
        for (int r = 0; r < s->nregions; r++)
            find_stops(p, &s->regions[r].steps, stops);
    }
}

static void emit_function(const struct job *j, struct em *e, int i, const char *name, bool combining, bool first,
                          bool rows, void (*const emit[])(struct cuda_fn *))
{
    struct cuda_fn f = {.stops = j->stops[i], .rows = rows};
    e->k = j->program->kernels[i];
    struct cuda_schedule s = cuda_get_schedule(e->k);
    f.has_maps = first && cuda_has_maps(&s);
    e->bind = NULL;
    e->nbind = e->capbind = 0;
    e->combining = combining;
    cuda_begin(&f, e, name);
    emit[f.s.how](&f);
    cuda_end(&f);
}

static void emit_kernel(const struct job *j, struct em *e, int i)
{
    static void (*const emit[])(struct cuda_fn *) = {
        [CUDA_POINTS] = cuda_emit_points,       [CUDA_GROUPS] = cuda_emit_group,
        [CUDA_TRANSPOSE] = cuda_emit_transpose, [CUDA_OWNERS] = cuda_emit_owners,
        [CUDA_ATTENTION] = cuda_emit_attention, [CUDA_CONTRACT] = cuda_emit_contract,
        [CUDA_MMA] = cuda_emit_contract,        [CUDA_WGMMA] = cuda_emit_contract};
    static void (*const emit_sum[])(struct cuda_fn *) = {[CUDA_CONTRACT] = cuda_emit_contract_sum,
                                                         [CUDA_ATTENTION] = cuda_emit_attention_sum,
                                                         [CUDA_MMA] = cuda_emit_contract_sum,
                                                         [CUDA_WGMMA] = cuda_emit_contract_sum};
    const struct kn_kernel *k = j->program->kernels[i];
    const char *name = ir_internf(j->ctx, "%sk%d", j->prefix, i), *sum = ir_internf(j->ctx, "%s_sum", name);
    ir_tick(j->ctx);
    emit_function(j, e, i, name, false, true, false, emit);
    if (j->rows[i])
        emit_function(j, e, i, ir_internf(j->ctx, "%s_rows", name), false, false, true, emit);
    if (k->split.combine)
        emit_function(j, e, i, sum, true, false, false, emit);
    else if (cuda_get_schedule(k).split > 1)
        emit_function(j, e, i, sum, false, false, false, emit_sum);
}

static LLVMValueRef pair_bf16(struct em *e, LLVMValueRef low, LLVMValueRef high)
{
    LLVMValueRef pair = em_intrinsic(e, "llvm.nvvm.ff2bf16x2.rn", 0, NULL, 2, (LLVMValueRef[]){high, low});
    return LLVMBuildBitCast(e->b, pair, e->t_i32, "");
}

static LLVMValueRef power(struct em *e, LLVMValueRef x)
{
    return em_intrinsic(e, "llvm.nvvm.ex2.approx.ftz.f", 0, NULL, 1, &x);
}

static void ptx_child(void *jobs, int index, int report)
{
    const struct job *j = (const struct job *)jobs + index;
    const struct em_machine plain = {.vector_bytes = 16,
                                     .fma = true,
                                     .converts_f16 = true,
                                     .pair_bf16 = pair_bf16,
                                     .power = power,
                                     .index32 = true,
                                     .llvm_cpu = j->machine->name,
                                     .llvm_features = ptx_version(j)};
    char *error = NULL;
    while (j->options->hang)
        pause();
    em_child(report);
    LLVMContextRef lc = LLVMContextCreate();
    LLVMTargetMachineRef tm = target_machine(j);
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext("kernels", lc);
    LLVMSetDataLayout(mod, LLVMCopyStringRepOfTargetData(LLVMCreateTargetDataLayout(tm)));
    LLVMSetTarget(mod, triple);
    struct em e = {.ctx = j->ctx,
                   .m = &plain,
                   .level = j->options->level,
                   .exact = j->options->exact,
                   .fast_math = j->options->fast_math,
                   .lc = lc,
                   .mod = mod,
                   .b = LLVMCreateBuilderInContext(lc)};
    for (int i = 0; i < j->program->nkernels; i++)
        if (!j->program->kernels[i]->custom && (!j->options->wanted || j->options->wanted[i]))
            emit_kernel(j, &e, i);
    em_verify(mod);
    em_run_passes(mod, tm,
                  "function(sroa,early-cse<memssa>,simplifycfg,infer-address-spaces,instcombine<no-verify-fixpoint>,"
                  "loop-mssa(loop-rotate,licm),gvn,instcombine<no-verify-fixpoint>,adce,simplifycfg)");
    if (LLVMTargetMachineEmitToFile(tm, mod, (char *)j->path, LLVMAssemblyFile, &error))
        em_give_up("cannot write PTX: ", error);
    _exit(0);
}

static void find_rows(const struct kn_program *p, const struct kn_steps *steps, bool *rows)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        int k = s->kind == TCC_STEP_BATCH ? kernel_number(p, s->regions[0].steps.at[0].kernel) : p->nkernels;
        if (k < p->nkernels && cuda_get_schedule(p->kernels[k]).how == CUDA_POINTS)
            rows[k] = true;
        for (int r = 0; r < s->nregions; r++)
            find_rows(p, &s->regions[r].steps, rows);
    }
}

bool *cuda_find_rows(struct ir_ctx *ctx, const struct kn_program *p)
{
    bool *rows = IR_NEWN(ctx, p->nkernels + 1, bool);
    for (int i = 0; i < p->nentries; i++)
        find_rows(p, &p->entries[i].steps, rows);
    return rows;
}

const char *cuda_ptx(struct ir_ctx *ctx, const struct kn_program *p, const bool *rows, const struct target_options *o,
                     const char *prefix, const char *folder, size_t *size)
{
    struct job j = {.ctx = ctx,
                    .program = p,
                    .options = o,
                    .machine = cuda_machine_make(ctx, o->arch),
                    .prefix = prefix,
                    .rows = rows,
                    .path = ir_internf(ctx, "%s/%s.ptx", folder, prefix)};
    char error[512];
    bool any = false;
    j.stops = IR_NEWN(ctx, p->nkernels + 1, bool);
    for (int i = 0; i < p->nkernels; i++)
        any = any || kn_has(p->kernels[i], KN_BIT(KN_INDEX));
    for (int i = 0; i < p->nentries && any; i++)
        find_stops(p, &p->entries[i].steps, j.stops);
    if (!j.machine || !child_run(ctx, 1, 1, ptx_child, &j))
        return NULL;
    struct ir_file *file = ir_file_get(ctx, j.path, error, sizeof error);
    if (!file)
        return ir_error(ctx, NULL, "%s", error), NULL;
    *size = (size_t)ir_file_size(file) + 1;
    char *text = IR_NEWN(ctx, *size, char); /* zeroed: terminated */
    memcpy(text, ir_file_data(file), *size - 1);
    ir_file_unref(file);
    unlink(j.path);
    return text;
}
