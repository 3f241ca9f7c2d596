/* SPDX-License-Identifier: Apache-2.0 */
/* isa.c - the instruction sets that there is code for, and LLVM's machines of them. */
#include "compiler/cpu/isa/isa_int.h"
#include "compiler/llvm_int.h"

#include <string.h>

static const struct cpu_isa *const isas[] = {&cpu_isa_x86, &cpu_isa_aarch64, &cpu_isa_riscv64};
enum { NISAS = sizeof isas / sizeof *isas };

const struct cpu_isa *cpu_isa_at(int i)
{
    return i < NISAS ? isas[i] : NULL;
}

const struct cpu_isa *cpu_isa_host(void)
{
#if defined(__aarch64__)
    return &cpu_isa_aarch64;
#elif defined(__riscv)
    return &cpu_isa_riscv64;
#else
    return &cpu_isa_x86;
#endif
}

/* Is it a list of that instruction set's features, or one of its levels? */
static bool is_of(const struct cpu_isa *isa, const char *arch)
{
    if (strncmp(arch, isa->prefix, strlen(isa->prefix)) == 0)
        return true;
    for (int i = 0; i < isa->nlevels; i++)
        if (isa->levels[i].name && strcmp(arch, isa->levels[i].name) == 0)
            return true;
    return false;
}

const struct cpu_isa *cpu_isa_of(const char *arch)
{
    for (int i = 0; i < NISAS; i++)
        if (is_of(isas[i], arch))
            return isas[i];
    return cpu_isa_host();
}

LLVMTargetMachineRef cpu_isa_llvm(const struct cpu_isa *isa, const char *cpu, const char *features, bool quick,
                                  char **error)
{
    LLVMTargetRef target;
    isa->initialise();
    if (LLVMGetTargetFromTriple(isa->triple, &target, error))
        return NULL;
    LLVMTargetMachineOptionsRef o = LLVMCreateTargetMachineOptions();
    LLVMTargetMachineOptionsSetCPU(o, cpu);
    LLVMTargetMachineOptionsSetFeatures(o, features);
    if (isa->abi)
        LLVMTargetMachineOptionsSetABI(o, isa->abi);
    LLVMTargetMachineOptionsSetCodeGenOptLevel(o, quick ? LLVMCodeGenLevelLess : LLVMCodeGenLevelDefault);
    LLVMTargetMachineOptionsSetRelocMode(o, LLVMRelocPIC);
    LLVMTargetMachineOptionsSetCodeModel(o, LLVMCodeModelDefault);
    LLVMTargetMachineRef tm = LLVMCreateTargetMachineWithOptions(target, isa->triple, o);
    LLVMDisposeTargetMachineOptions(o);
    return tm;
}
