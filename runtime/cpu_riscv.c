/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an RV64 CPU can do, as the kernel says (getauxval: a bit a letter), and the floating-point mode (frm; the RISC-V
 * Instruction Set Manual, volume I, "F"). An artifact's code version names "riscv64:" and the extensions that it needs.
 */
#include "runtime/rt_int.h"

#if defined(__riscv)

#include <sys/auxv.h>

#define PREFIX "riscv64:"

static bool has(const char *name, size_t size)
{
    return size == 1 && *name >= 'a' && *name <= 'z' && getauxval(AT_HWCAP) >> (*name - 'a') & 1;
}

bool tcr_cpu_runs(const char *isa, char *missing, size_t size)
{
    return tcr_cpu_runs_list(isa, PREFIX, has, missing, size);
}

/* Levels are x86-64's: here they keep nothing away. */
bool tcr_cpu_within(const char *isa, const char *level)
{
    (void)isa, (void)level;
    return true;
}

/* Round to nearest even; there are no other modes: nothing is flushed, exceptions don't trap. */
uint32_t tcr_fp_enter(void)
{
    uint64_t old;

    __asm__ volatile("fsrm %0, zero" : "=r"(old));
    return (uint32_t)old;
}

void tcr_fp_leave(uint32_t old)
{
    __asm__ volatile("fsrm %0" : : "r"((uint64_t)old));
}

#endif
