/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From kernels to an object file: emits LLVM IR, runs a short pipeline, writes ELF. Runs in a child process only.
 *
 * The IR is explicitly vectorised, so the pipeline only tidies: promote stack slots, share expressions, rotate loops,
 * hoist. Objects are position-independent, one section a kernel, without dates or paths.
 */
#include "compiler/cpu/object_int.h"
#include "compiler/cpu/emit_int.h"
#include "compiler/emit/loops.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

/* -- Pipeline ------------------------------------------------------------------------------------------ */

static const char *pipeline(int level)
{
    if (level == 0)
        return "function(sroa,early-cse,simplifycfg)";
    return "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
           "loop-mssa(loop-rotate,licm),gvn,instcombine<no-verify-fixpoint>,loop-mssa(licm),adce,simplifycfg)";
}

/*
 * Loop strength reduction is off: its search grows with the number of address expressions of a loop (half of the time
 * that DenseNet-121 took to compile, minutes for detectors), and the loops here are emitted with their addresses
 * hoisted.
 */
static void llvm_options(void)
{
    static const char *const options[] = {"tccc", "-disable-lsr"};
    LLVMParseCommandLineOptions((int)(sizeof options / sizeof *options), options, NULL);
}

static LLVMTargetMachineRef target_machine(const struct object_job *job)
{
    char *error = NULL;
    const struct cpu_machine *m = job->machine;
    LLVMTargetMachineRef tm =
        cpu_isa_llvm(m->isa, m->emit.llvm_cpu, m->emit.llvm_features, job->options->level == 0, &error);
    if (!tm)
        em_give_up("LLVM: ", error);
    return tm;
}

static void emit_kernel(const struct object_job *job, struct em *e, int i)
{
    const struct kn_kernel *k = job->program->kernels[i];
    enum cpu_how how = cpu_get_schedule(k).how;
    ir_tick(job->ctx);
    e->k = k;
    e->bind = NULL;
    e->nbind = e->capbind = 0;
    em_kernel_begin(e, ir_internf(job->ctx, "%sk%d", job->prefix, i),
                    how == CPU_LOOPS ? loops_local_lanes(k, cpu_nest(cpu_get_schedule(k))) : 1);
    for (int t = 0; cpu_templates[t]; t++) {
        if (cpu_templates[t]->how == how) {
            cpu_templates[t]->emit(e);
            em_kernel_end(e);
            return;
        }
    }
    em_give_up("no template for the schedule of kernel ", k->name);
}

static LLVMModuleRef make_module(const struct object_job *job, LLVMContextRef lc, LLVMTargetMachineRef tm)
{
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext("kernels", lc);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
    char *text = LLVMCopyStringRepOfTargetData(layout);
    LLVMSetDataLayout(mod, text);
    LLVMSetTarget(mod, job->machine->isa->triple);
    struct em e = {.ctx = job->ctx,
                   .m = &job->machine->emit,
                   .level = job->options->level,
                   .exact = job->options->exact,
                   .fast_math = job->options->fast_math,
                   .lc = lc,
                   .mod = mod,
                   .b = LLVMCreateBuilderInContext(lc)};
    for (int i = 0; i < job->program->nkernels; i++)
        if (job->part_of[i] == job->part)
            emit_kernel(job, &e, i);
    return mod;
}

/* A choice of two halves by comparing them is one of float32 again, from which LLVM narrowed it: where the machine has
 * no arithmetic of halves, LLVM would call fmaxf and fminf for it. */
static void widen_choices(LLVMModuleRef mod, LLVMContextRef lc)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(lc);
    LLVMTypeRef half = LLVMHalfTypeInContext(lc);
    for (LLVMValueRef f = LLVMGetFirstFunction(mod); f; f = LLVMGetNextFunction(f)) {
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block; block = LLVMGetNextBasicBlock(block)) {
            for (LLVMValueRef i = LLVMGetFirstInstruction(block), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                LLVMTypeRef t = LLVMTypeOf(i);
                bool vector = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
                if (LLVMGetInstructionOpcode(i) != LLVMSelect || (vector ? LLVMGetElementType(t) : t) != half)
                    continue;
                LLVMTypeRef wide = LLVMFloatTypeInContext(lc);
                wide = vector ? LLVMVectorType(wide, LLVMGetVectorSize(t)) : wide;
                LLVMPositionBuilderBefore(b, next);
                LLVMValueRef x = LLVMBuildFPExt(b, LLVMGetOperand(i, 1), wide, "");
                LLVMValueRef y = LLVMBuildFPExt(b, LLVMGetOperand(i, 2), wide, "");
                LLVMValueRef chosen = LLVMBuildSelect(b, LLVMGetOperand(i, 0), x, y, "");
                LLVMReplaceAllUsesWith(i, LLVMBuildFPTrunc(b, chosen, t, ""));
            }
        }
    }
    LLVMDisposeBuilder(b);
}

static void write_dump(const struct object_job *job, LLVMModuleRef mod, LLVMTargetMachineRef tm)
{
    char *error = NULL;
    if (strcmp(job->options->dump, "llvm") == 0 && LLVMPrintModuleToFile(mod, job->dump_path, &error))
        em_give_up("dump: ", error);
    if (strcmp(job->options->dump, "asm") == 0) {
        LLVMModuleRef copy = LLVMCloneModule(mod);
        if (LLVMTargetMachineEmitToFile(tm, copy, (char *)job->dump_path, LLVMAssemblyFile, &error))
            em_give_up("dump: ", error);
    }
}

void object_child(const struct object_job *job, int report)
{
    char *error = NULL;
    while (job->options->hang)
        pause();
    em_child(report);
    llvm_options();
    LLVMContextRef lc = LLVMContextCreate();
    LLVMTargetMachineRef tm = target_machine(job);
    LLVMModuleRef mod = make_module(job, lc, tm);
    em_verify(mod);
    em_run_passes(mod, tm, pipeline(job->options->level));
    if (!job->machine->multiplies_f16)
        widen_choices(mod, lc);
    if (job->options->dump)
        write_dump(job, mod, tm);
    ir_tick(job->ctx);
    if (LLVMTargetMachineEmitToFile(tm, mod, (char *)job->path, LLVMObjectFile, &error))
        em_give_up("cannot write the object: ", error);
    _exit(0);
}

/* -- Undefined symbols ------------------------------------------------------------------------------------- */

static bool is_allowed(const char *name)
{
    static const char *const allowed[] = {"", "memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (strcmp(name, allowed[i]) == 0)
            return true;
    return false;
}

bool object_check(struct ir_ctx *ctx, const char *path)
{
    char error[512];
    struct ir_file *file = ir_file_get(ctx, path, error, sizeof error);
    bool ok = true;
    if (!file)
        return ir_error(ctx, NULL, "%s", error);
    const uint8_t *data = ir_file_data(file);
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)data;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(data + h->e_shoff);
    for (int i = 0; i < h->e_shnum; i++) {
        if (s[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *syms = (const Elf64_Sym *)(data + s[i].sh_offset);
        const char *names = (const char *)data + s[s[i].sh_link].sh_offset;
        for (uint64_t j = 1; j < s[i].sh_size / sizeof *syms; j++) {
            if (syms[j].st_shndx != SHN_UNDEF || is_allowed(names + syms[j].st_name))
                continue;
            ir_diag(ctx, NULL, IR_D_BUG, "generated code calls %s, which nothing defines", names + syms[j].st_name);
            ok = false;
        }
    }
    ir_file_unref(file);
    return ok;
}
