/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines of the CPU target: architecture strings and what they mean.
 *
 * "x86-64-v2", "-v3", "-v4" are the psABI's levels. "native" is resolved, once, to "native:" and the names of the
 * features (features.def) that the processor has, sorted as in the table, so that a build can be repeated elsewhere.
 * "native-avx512fp16" leaves that one out, and so on; "x86-64-v4+avx512bf16" is the level and one that no level has,
 * resolved to such a list too.
 */
#include "compiler/cpu/emit_int.h"
#include "compiler/child_int.h"
#include "base/safe.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <string.h>
#include <unistd.h>

struct feature {
    const char *name;
    int level;
};
static const struct feature features[] = {
#define FEATURE(id, name, level) {name, level},
#include "compiler/cpu/features.def"
#undef FEATURE
};

static uint64_t level_features(int isa)
{
    uint64_t set = 0;
    for (int i = 0; i < CPU_NFEATURES; i++)
        if (features[i].level && features[i].level <= isa)
            set |= 1ull << i;
    return set;
}

/* -1: there is none of that name. */
static int feature_of(const char *name, size_t length)
{
    int i = 0;
    while (i < CPU_NFEATURES && (strlen(features[i].name) != length || memcmp(features[i].name, name, length) != 0))
        i++;
    return i < CPU_NFEATURES ? i : -1;
}

/* Reads a comma-separated list of names, each with a '+' or '-' in front if `signs`. False: an unknown name (without
 * signs). */
static bool read_list(const char *list, bool signs, uint64_t *set)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        int found = feature_of(signs ? list + 1 : list, signs && n ? n - 1 : n);
        if (found >= 0 && (!signs || *list == '+'))
            *set |= 1ull << found;
        if (found < 0 && !signs)
            return false;
        list += n + (list[n] == ',');
    }
    return true;
}

/* The features of "-avx512fp16-avx512bf16", where the sign is '-'; false: one isn't known. */
static bool read_signed(const char *list, char sign, uint64_t *set)
{
    while (*list == sign) {
        size_t n = strcspn(++list, (const char[]){sign, '\0'});
        int found = feature_of(list, n);
        if (found < 0)
            return false;
        *set |= UINT64_C(1) << found;
        list += n;
    }
    return !*list;
}

/* A level's number; 0: the text, which `rest` gets the end of, begins with none. */
static int level_of(const char *arch, const char **rest)
{
    if (strncmp(arch, "x86-64-v", 8) != 0 || arch[8] < '2' || arch[8] > '4')
        return 0;
    *rest = arch + 9;
    return arch[8] - '0';
}

/* May they be added to the level? Those of a higher level mean all of it, and AVX-512's need AVX-512. */
static bool may_add(uint64_t set, int isa)
{
    for (int i = 0; i < CPU_NFEATURES; i++)
        if (set >> i & 1 && (features[i].level > isa || (isa < 4 && strncmp(features[i].name, "avx512", 6) == 0)))
            return false;
    return true;
}

/* In a child: LLVM ends the process that runs out of memory. */
static void tell_features(void *jobs, int i, int report)
{
    const char *host = LLVMGetHostCPUFeatures();
    (void)jobs, (void)i;
    if (!host)
        _exit(CHILD_NO_MEMORY);
    _exit(tcr_write_all(report, host, strlen(host)) ? 1 : 0);
}

const char *cpu_resolve(struct ir_ctx *ctx, const char *arch)
{
    char host[16384];
    const char *rest = "";
    uint64_t set = 0, other = 0;
    int isa = level_of(arch, &rest);
    if (isa && *rest == '+' && read_signed(rest, '+', &other) && may_add(other, isa)) {
        set = level_features(isa) | other;
    } else if (strncmp(arch, "native", 6) == 0 && (!arch[6] || arch[6] == '-') && read_signed(arch + 6, '-', &other)) {
        if (!child_ask(ctx, tell_features, host, sizeof host))
            return NULL;
        read_list(host, true, &set);
        set &= ~other;
    } else {
        return ir_intern(ctx, arch);
    }
    const char *text = "native:";
    for (int i = 0; i < CPU_NFEATURES; i++)
        if (set >> i & 1)
            text = ir_internf(ctx, "%s%s%s", text, strcmp(text, "native:") == 0 ? "" : ",", features[i].name);
    return text;
}

/* What LLVM is told beyond the level's CPU: the other features, and to use the whole vector width. */
static const char *llvm_features(struct ir_ctx *ctx, uint64_t set, int isa)
{
    const char *text = "-prefer-256-bit";
    for (int i = 0; i < CPU_NFEATURES; i++)
        if (set >> i & 1 && !(level_features(isa) >> i & 1))
            text = ir_internf(ctx, "%s,+%s", text, features[i].name);
    return text;
}

static void fill_machine(struct ir_ctx *ctx, struct cpu_machine *m, const char *arch)
{
    static const char *const cpus[] = {[2] = "x86-64-v2", [3] = "x86-64-v3", [4] = "x86-64-v4"};
    m->arch = arch;
    m->emit = (struct em_machine){.llvm_cpu = cpus[m->isa],
                                  .llvm_features = llvm_features(ctx, m->features, m->isa),
                                  .vector_bytes = m->isa >= 4   ? 64
                                                  : m->isa >= 3 ? 32
                                                                : 16,
                                  .fma = cpu_has(m, CPU_FMA),
                                  .masks = cpu_has(m, CPU_AVX512VL) && cpu_has(m, CPU_AVX512BW),
                                  .gathers = cpu_has(m, CPU_AVX512VL),
                                  .divides_lanes = true,
                                  .converts_f16 = cpu_has(m, CPU_F16C),
                                  .round_to_int = x86_round_to_int,
                                  .scale = cpu_has(m, CPU_AVX512F) ? x86_scale : NULL,
                                  .look_up = cpu_has(m, CPU_AVX512F) ? x86_look_up : NULL};
    m->pass.name = arch;
    m->registers = m->isa >= 4 ? 32 : 16;
    m->pass.layout = cpu_layout;
    m->pass.attention = cpu_attention;
    m->pass.product_type = cpu_product_type;
    m->pass.product_group = cpu_product_group;
    m->pass.group_channels = cpu_group_channels;
    m->pass.pads = cpu_pads;
    m->pass.materialise = cpu_materialise;
    m->pass.winograd = cpu_winograd;
    m->l2 = m->isa >= 4 ? 1 << 20 : 256 << 10;
    m->pass.schedule = cpu_schedule;
    m->pass.verify_schedule = cpu_verify_schedule;
}

const struct cpu_machine *cpu_machine_make(struct ir_ctx *ctx, const char *arch, const char *planned)
{
    struct cpu_machine *m = IR_NEW(ctx, struct cpu_machine);
    const char *rest = "";
    bool known = true;
    arch = cpu_resolve(ctx, arch);
    if (!arch)
        return NULL;
    if (strncmp(arch, "native:", 7) == 0) {
        known = read_list(arch + 7, false, &m->features);
        for (int isa = 2; isa <= 4; isa++)
            if ((level_features(isa) & ~m->features) == 0)
                m->isa = isa;
        if (known && m->isa < 2) {
            ir_error(ctx, NULL, "this processor is older than x86-64-v2, the least that tccc makes code for");
            return NULL;
        }
    } else {
        m->isa = level_of(arch, &rest);
        m->features = level_features(m->isa);
        known = m->isa && !*rest;
    }
    if (!known) {
        ir_error(ctx, NULL,
                 "--march=%s: unknown architecture or feature; use native, native-FEATURE, x86-64-v2, x86-64-v3 or "
                 "x86-64-v4, the levels also with +FEATURE",
                 arch);
        return NULL;
    }
    fill_machine(ctx, m, arch);
    m->planned = planned && strcmp(planned, arch) != 0 ? cpu_machine_make(ctx, planned, NULL) : m;
    return m->planned ? m : NULL;
}
