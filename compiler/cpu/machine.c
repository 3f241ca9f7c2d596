/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines of the CPU target: architecture strings and what they mean.
 *
 * Each instruction set has levels by name (isa/x86.c: "x86-64-v2", "-v3", "-v4", the psABI's). "native" is resolved,
 * once, to "native:" and the names of the features (isa/x86.def) that the processor has, sorted as in the table, so
 * that a build can be repeated elsewhere.
 * "native-avx512fp16" leaves that one out, and so on; "x86-64-v4+avx512bf16" is the level and one that no level has,
 * resolved to such a list too. Of other instruction sets lists begin with their name ("aarch64:neon,crc"); a processor
 * by name is what it has, and itself behind that ("aarch64:neon,crc@cortex-a72").
 */
#include "compiler/cpu/emit_int.h"
#include "compiler/child_int.h"
#include "base/safe.h"

#include <string.h>
#include <unistd.h>

static uint64_t level_features(const struct cpu_isa *isa, int level)
{
    uint64_t set = 0;
    for (int i = 0; i < isa->nfeatures; i++)
        if (isa->features[i].levels >> level & 1)
            set |= 1ull << i;
    return set;
}

/* -1: there is none of that name. */
static int feature_of(const struct cpu_isa *isa, const char *name, size_t length)
{
    int i = 0;
    while (i < isa->nfeatures &&
           (strlen(isa->features[i].name) != length || memcmp(isa->features[i].name, name, length) != 0))
        i++;
    return i < isa->nfeatures ? i : -1;
}

/* Reads a comma-separated list of names, each with a '+' or '-' in front if `signs`. False: an unknown name (without
 * signs). */
static bool read_list(const struct cpu_isa *isa, const char *list, bool signs, uint64_t *set)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        int found = feature_of(isa, signs ? list + 1 : list, signs && n ? n - 1 : n);
        if (found >= 0 && (!signs || *list == '+'))
            *set |= 1ull << found;
        if (found < 0 && !signs)
            return false;
        list += n + (list[n] == ',');
    }
    return true;
}

/* The features of "-avx512fp16-avx512bf16", where the sign is '-'; false: one isn't known. */
static bool read_signed(const struct cpu_isa *isa, const char *list, char sign, uint64_t *set)
{
    while (*list == sign) {
        size_t n = strcspn(++list, (const char[]){sign, '\0'});
        int found = feature_of(isa, list, n);
        if (found < 0)
            return false;
        *set |= UINT64_C(1) << found;
        list += n;
    }
    return !*list;
}

/* The instruction set and the number of the level that the text begins with, whose end `rest` gets; NULL: with none. */
static const struct cpu_isa *level_of(const char *arch, int *level, const char **rest)
{
    const struct cpu_isa *isa;
    size_t n = strcspn(arch, "+");
    for (int i = 0; (isa = cpu_isa_at(i)); i++) {
        for (int l = 0; l < isa->nlevels; l++) {
            const char *name = isa->levels[l].name;
            if (!name || strlen(name) != n || memcmp(arch, name, n) != 0)
                continue;
            *level = l;
            *rest = arch + n;
            return isa;
        }
    }
    return NULL;
}

/* May they be added to the level? */
static bool may_add(const struct cpu_isa *isa, uint64_t set, int level)
{
    for (int i = 0; i < isa->nfeatures; i++)
        if (set >> i & 1 && isa->features[i].least > level)
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

/* The processor of that name, `n` characters long; NULL: there is none. */
static const struct cpu_model *model_of(const struct cpu_isa *isa, const char *name, size_t n)
{
    for (const struct cpu_model *m = isa->models; m && m->name; m++)
        if (strlen(m->name) == n && memcmp(m->name, name, n) == 0)
            return m;
    return NULL;
}

/* "cortex-a72+dotprod": the name stands for what the processor has. NULL: it begins with no such name. */
static const struct cpu_model *model_begin(struct ir_ctx *ctx, const char **arch)
{
    const struct cpu_isa *isa;
    size_t n = strcspn(*arch, "+");
    for (int i = 0; (isa = cpu_isa_at(i)); i++) {
        const struct cpu_model *m = model_of(isa, *arch, n);
        if (!m)
            continue;
        *arch = ir_internf(ctx, "%s%s", m->arch, *arch + n);
        return m;
    }
    return NULL;
}

static const char *list_text(struct ir_ctx *ctx, const struct cpu_isa *isa, uint64_t set)
{
    const char *text = isa->prefix;
    for (int i = 0; i < isa->nfeatures; i++)
        if (set >> i & 1)
            text = ir_internf(ctx, "%s%s%s", text, strcmp(text, isa->prefix) == 0 ? "" : ",", isa->features[i].name);
    return text;
}

const char *cpu_resolve(struct ir_ctx *ctx, const char *arch)
{
    char report[16384];
    const char *rest = "";
    uint64_t set = 0, other = 0;
    int level = 0;
    const struct cpu_model *model = model_begin(ctx, &arch);
    const struct cpu_isa *isa = level_of(arch, &level, &rest), *host = cpu_isa_host();
    bool listed = isa && (*rest == '+' || model || isa->lists);
    if (listed && read_signed(isa, rest, '+', &other) && may_add(isa, other, level)) {
        const char *text = list_text(ctx, isa, level_features(isa, level) | other);
        return model ? ir_internf(ctx, "%s@%s", text, model->name) : text;
    }
    if (strncmp(arch, "native", 6) == 0 && (!arch[6] || arch[6] == '-') && read_signed(host, arch + 6, '-', &other)) {
        if (!child_ask(ctx, tell_features, report, sizeof report))
            return NULL;
        read_list(host, report, true, &set);
        return list_text(ctx, host, set & ~other);
    }
    return ir_intern(ctx, arch);
}

/* What LLVM is told beyond the level's CPU: the level's own text and the other features. */
static const char *llvm_features(struct ir_ctx *ctx, const struct cpu_machine *m)
{
    const struct cpu_isa *isa = m->isa;
    const char *text = isa->levels[m->level].llvm_features;
    uint64_t known = isa->cpu_has_level ? level_features(isa, m->level) : 0;
    for (int i = 0; i < isa->nfeatures; i++)
        if ((m->features & ~known) >> i & 1)
            text = ir_internf(ctx, "%s,+%s", text, isa->features[i].llvm);
    return text;
}

static void fill_machine(struct ir_ctx *ctx, struct cpu_machine *m, const char *arch)
{
    const struct cpu_level *level = &m->isa->levels[m->level];
    m->arch = arch;
    m->emit = (struct em_machine){.llvm_cpu = level->llvm_cpu,
                                  .llvm_features = llvm_features(ctx, m),
                                  .vector_bytes = level->vector_bytes,
                                  .tune = m->model ? m->model->llvm : NULL,
                                  .divides_lanes = true};
    m->registers = level->registers;
    m->l2 = m->model ? m->model->l2 : level->l2;
    m->emit.page = 4096; /* all of them have that or a multiple */
    m->isa->describe(m);
    m->pass.name = arch;
    m->pass.layout = cpu_layout;
    m->pass.takes = cpu_takes;
    m->pass.product_type = cpu_product_type;
    m->pass.product_group = cpu_product_group;
    m->pass.window = cpu_window;
    m->pass.materialise = cpu_materialise;
    m->pass.bytes_cost = cpu_bytes_cost;
    m->pass.schedule = cpu_schedule;
    m->pass.verify_schedule = cpu_verify_schedule;
}

/* The least level that there is code for. */
static int least_level(const struct cpu_isa *isa)
{
    int l = 0;
    while (!isa->levels[l].name)
        l++;
    return l;
}

/* Levels and processors of all instruction sets. */
static const char *known_names(struct ir_ctx *ctx)
{
    const struct cpu_isa *isa;
    const char *text = "", *last = NULL;
    for (int i = 0; (isa = cpu_isa_at(i)); i++) {
        for (int l = least_level(isa); l < isa->nlevels; l++) {
            text = last ? ir_internf(ctx, "%s%s%s", text, *text ? ", " : "", last) : text;
            last = isa->levels[l].name;
        }
        for (const struct cpu_model *m = isa->models; m && m->name; m++) {
            text = ir_internf(ctx, "%s, %s", text, last);
            last = m->name;
        }
    }
    return ir_internf(ctx, "%s or %s", text, last);
}

/* From a resolved string: instruction set, level and features. False after a diagnostic. */
static bool read_arch(struct ir_ctx *ctx, struct cpu_machine *m, const char *arch)
{
    const char *rest = "";
    const struct cpu_isa *isa = level_of(arch, &m->level, &rest);
    m->isa = isa;
    if (isa && !*rest) {
        m->features = level_features(isa, m->level);
        return true;
    }
    for (int i = 0; (isa = cpu_isa_at(i)); i++) {
        size_t n = strlen(isa->prefix);
        const char *at = strchr(arch, '@');
        const char *list = at ? ir_internf(ctx, "%.*s", (int)(at - arch), arch) : arch;
        if (strncmp(list, isa->prefix, n) != 0 || !read_list(isa, list + n, false, &m->features))
            continue;
        m->isa = isa;
        m->model = at ? model_of(isa, at + 1, strlen(at + 1)) : NULL;
        for (int l = least_level(isa); l < isa->nlevels; l++)
            if ((level_features(isa, l) & ~m->features) == 0)
                m->level = l;
        if (m->level)
            return true;
        return ir_error(ctx, NULL, "this processor is older than %s, the least that tccc makes code for",
                        isa->levels[least_level(isa)].name);
    }
    return ir_error(
        ctx, NULL,
        "--march=%s: unknown architecture or feature; use native, native-FEATURE, %s, the levels also with +FEATURE",
        arch, known_names(ctx));
}

const struct cpu_machine *cpu_machine_make(struct ir_ctx *ctx, const char *arch, const char *planned)
{
    struct cpu_machine *m = IR_NEW(ctx, struct cpu_machine);
    arch = cpu_resolve(ctx, arch);
    if (!arch || !read_arch(ctx, m, arch))
        return NULL;
    fill_machine(ctx, m, arch);
    m->planned = planned && strcmp(planned, arch) != 0 ? cpu_machine_make(ctx, planned, NULL) : m;
    return m->planned ? m : NULL;
}
