/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an AArch64 CPU can do, as the kernel says (getauxval), and the floating-point mode (FPCR; Arm Architecture
 * Reference Manual, C5.2). An artifact's code version names "aarch64:" and the features that it needs; what stands
 * behind an '@' is the processor that it was tuned for.
 */
#include "runtime/rt_int.h"

#if defined(__aarch64__)

#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

static const struct feature {
    const char *name;
    unsigned long word;
    int bit;
} features[] = {
#define FEATURE(name, word, bit) {name, word, bit},
#include "runtime/cpu_arm.def"
#undef FEATURE
};

#define PREFIX "aarch64:"

/* Has a vector of SVE's 256 bits? Code for a length gives wrong results at any other; the kernel may have set it to
 * less than the processor's. */
static bool has_sve256(void)
{
    int length = prctl(PR_SVE_GET_VL);

    return length >= 0 && (length & PR_SVE_VL_LEN_MASK) == 32;
}

/* FP16 as a feature means half-precision arithmetic of vectors, too (ASIMDHP); processors have both or none. */
static bool has(const char *name, size_t size)
{
    if (size == 6 && memcmp(name, "sve256", 6) == 0)
        return has_sve256();
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (strlen(features[i].name) == size && memcmp(features[i].name, name, size) == 0)
            return getauxval(features[i].word) >> features[i].bit & 1;
    return false;
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

static uint64_t get_mode(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static void set_mode(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

/* 0: exceptions don't trap, round to nearest even, denormals neither flushed nor taken as zero, NaNs stay. */
uint32_t tcr_fp_enter(void)
{
    uint64_t old = get_mode();

    if (old)
        set_mode(0);
    return (uint32_t)old;
}

void tcr_fp_leave(uint32_t old)
{
    if (old)
        set_mode(old);
}

#endif
