/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the CPU can do (CPUID, and XGETBV for the register state that the kernel saves), and the floating-point mode.
 * An artifact's code version names either a psABI level ("x86-64-v3") or "native:" and LLVM's feature names.
 */
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#endif

#include "runtime/rt_int.h"

/* All features of a comma-separated list, up to an '@', a leading + on each allowed. */
static bool tcr_cpu_has_all(const char *list, bool (*has)(const char *name, size_t size), char *missing, size_t size)
{
    while (*list && *list != '@') {
        const char *name = list + (*list == '+');
        size_t n = strcspn(name, ",@");

        if (n && !has(name, n)) {
            snprintf(missing, size, "%.*s", (int)n, name);
            return false;
        }
        list = name + n + (name[n] == ',');
    }
    return true;
}

bool tcr_cpu_runs_list(const char *isa, const char *prefix, bool (*has)(const char *name, size_t size), char *missing,
                       size_t size)
{
    size_t n = strlen(prefix);

    if (strncmp(isa, prefix, n) == 0)
        return tcr_cpu_has_all(isa + n, has, missing, size);
    snprintf(missing, size, "%s", isa);
    return false;
}

#if defined(__x86_64__)

enum { EAX, EBX, ECX, EDX };
enum { NONE = 0, YMM = 0x6, ZMM = 0xe6, AMX = 0x60000 }; /* bits of XCR0 */

static const struct feature {
    const char *name;
    uint32_t leaf, subleaf;
    uint8_t reg, bit;
    uint32_t state;
} features[] = {
#define FEATURE(name, leaf, subleaf, reg, bit, state) {name, leaf, subleaf, reg, bit, state},
#include "runtime/cpu.def"
#undef FEATURE
};

/* psABI levels, each with what it adds to the one before. */
static const struct {
    const char *name, *adds;
} levels[] = {
    {"x86-64", ""},
    {"x86-64-v2", "cx16,sahf,popcnt,sse3,ssse3,sse4.1,sse4.2"},
    {"x86-64-v3", "avx,avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,xsave"},
    {"x86-64-v4", "avx512f,avx512bw,avx512cd,avx512dq,avx512vl"},
};

static uint64_t xcr0(void)
{
    uint32_t lo, hi;
    unsigned r[4];

    if (!__get_cpuid(1, r, r + 1, r + 2, r + 3) || !(r[ECX] & 1u << 27))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        const struct feature *f = &features[i];
        unsigned r[4];

        if (strncmp(f->name, name, size) != 0 || f->name[size])
            continue;
        if (!__get_cpuid_count(f->leaf, f->subleaf, r, r + 1, r + 2, r + 3))
            return false;
        return (r[f->reg] >> f->bit & 1) && (xcr0() & f->state) == f->state;
    }
    return false;
}

bool tcr_cpu_runs(const char *isa, char *missing, size_t size)
{
    size_t n = sizeof levels / sizeof *levels, level = n;

    if (strncmp(isa, "native:", 7) == 0)
        return tcr_cpu_has_all(isa + 7, has, missing, size);
    for (size_t i = 0; i < n; i++)
        if (strcmp(isa, levels[i].name) == 0)
            level = i;
    if (level == n) {
        snprintf(missing, size, "%s", isa);
        return false;
    }
    for (size_t i = 0; i <= level; i++)
        if (!tcr_cpu_has_all(levels[i].adds, has, missing, size))
            return false;
    return true;
}

/* Is that feature one of the levels' up to `most`? */
static bool in_levels(size_t most, const char *name, size_t size)
{
    for (size_t i = 0; i <= most; i++)
        for (const char *s = levels[i].adds; *s; s += strspn(s, ",")) {
            size_t n = strcspn(s, ",");

            if (n == size && !memcmp(s, name, n))
                return true;
            s += n;
        }
    return false;
}

bool tcr_cpu_within(const char *isa, const char *level)
{
    size_t n = sizeof levels / sizeof *levels, most = 0;

    while (most < n && strcmp(level, levels[most].name) != 0)
        most++;
    if (most == n)
        return false;
    if (strncmp(isa, "native:", 7) != 0) {
        for (size_t i = 0; i <= most; i++)
            if (strcmp(isa, levels[i].name) == 0)
                return true;
        return false;
    }
    for (const char *s = isa + 7; *s; s += strspn(s, ",")) {
        size_t size = strcspn(s, ",");

        if (!in_levels(most, s, size))
            return false;
        s += size;
    }
    return true;
}

/* Exceptions masked, round to nearest even, denormals neither flushed nor taken as zero. */
uint32_t tcr_fp_enter(void)
{
    uint32_t old = _mm_getcsr();

    if ((old & 0xffc0) != 0x1f80)
        _mm_setcsr(0x1f80);
    return old;
}

void tcr_fp_leave(uint32_t old)
{
    if ((old & 0xffc0) != 0x1f80)
        _mm_setcsr(old);
}

#elif !defined(__aarch64__) && !defined(__riscv) /* cpu_arm.c, cpu_riscv.c */

bool tcr_cpu_runs(const char *isa, char *missing, size_t size)
{
    snprintf(missing, size, "%s", isa);
    return false;
}

bool tcr_cpu_within(const char *isa, const char *level)
{
    (void)isa, (void)level;
    return false;
}

uint32_t tcr_fp_enter(void)
{
    return 0;
}

void tcr_fp_leave(uint32_t old)
{
    (void)old;
}

#endif
