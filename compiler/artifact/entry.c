/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry.c - the artifact's C functions, one an entry point:
 *     int NAME_ENTRY(const struct tcc_tensor *in, struct tcc_tensor *out) { return tccrt_call(&NAME_model, number, in,
 *     out); }
 * A few instructions, which the instruction sets' tables have: LLVM takes a tenth of a small model's time for them.
 */
#include "compiler/artifact/artifact_int.h"
#include "compiler/artifact/elf_int.h"
#include "compiler/cpu/isa/isa_int.h"

#include <string.h>
#include <strings.h>

const char *artifact_identifier(struct ir_ctx *ctx, const char *name)
{
    char *s = ir_strdup(ctx, name && *name ? name : "unnamed");
    for (char *c = s; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    return s;
}

/* Does the header put b behind NAME_, too, for an entry point that is called a? Macros are of capitals. */
static bool clash(const char *a, const char *b)
{
    static const char *const ends[] = {"", "_run", "_run_with", "_picture", "_inputs", "_outputs", "_defaults"};
    size_t n = strlen(a);
    bool same = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !strncasecmp(a, b, n); i++)
        same |= !strcasecmp(b + n, ends[i]);
    return same;
}

/* The descriptor, what keeps the header from being read twice, a kernel (v0_k1: codegen.c). */
static bool is_own(const char *name)
{
    size_t version = *name == 'v' ? strspn(name + 1, "0123456789") : 0;
    const char *k = name + 1 + version;
    return !strcasecmp(name, "model") || !strcasecmp(name, "model_h") ||
           (version && k[0] == '_' && k[1] == 'k' && k[2] && !k[2 + strspn(k + 2, "0123456789")]);
}

static bool is_taken(const char *const *names, int i)
{
    bool taken = is_own(names[i]);
    for (int j = 0; j < i && !taken; j++)
        taken = clash(names[j], names[i]) || clash(names[i], names[j]);
    return taken;
}

const char **artifact_identifiers(struct ir_ctx *ctx, const struct kn_program *p)
{
    int n = artifact_nentries(p);
    const char **names = IR_NEWN(ctx, n + 1, const char *);
    for (int i = 0; i < n; i++) {
        const char *name = names[i] = artifact_identifier(ctx, artifact_entry_name(p, i));
        for (int number = 2; is_taken(names, i); number++)
            names[i] = ir_internf(ctx, "%s_%d", name, number);
    }
    return names;
}

static void define(struct elf *elf, int section, const struct cpu_entry *e, const char *name, uint32_t number,
                   bool hidden, int model, int call)
{
    uint8_t code[64];
    uint32_t word;
    memcpy(code, e->code, (size_t)e->size);
    memcpy(&word, code + e->number_at, sizeof word);
    word |= number << e->number_shift;
    memcpy(code + e->number_at, &word, sizeof word);
    uint64_t at = elf_copy(elf, section, code, (uint64_t)e->size, 16);
    const int symbols[] = {[ENTRY_MODEL] = model,
                           [ENTRY_CALL] = call,
                           [ENTRY_SELF] = elf_symbol(elf, ".Lentry", section, at, 0, ELF_LOCAL)};
    elf_symbol(elf, name, section, at, (uint64_t)e->size, ELF_GLOBAL | ELF_FUNC | (hidden ? ELF_HIDDEN : 0));
    for (size_t i = 0; i < sizeof e->relocations / sizeof *e->relocations && e->relocations[i].type; i++)
        elf_relocate(elf, section, at + (uint64_t)e->relocations[i].at, e->relocations[i].type,
                     symbols[e->relocations[i].of], e->relocations[i].addend);
}

bool artifact_entries(struct ir_ctx *ctx, const struct kn_program *p, const struct artifact_options *o, struct elf *elf,
                      int model)
{
    const struct cpu_entry *e = o->isa->entry;
    int n = artifact_nentries(p), section = elf_section(elf, ".text.tccc", ELF_CODE, 16),
        call = elf_symbol(elf, "tccrt_call", 0, 0, 0, ELF_GLOBAL | ELF_FUNC);
    const char **names = artifact_identifiers(ctx, p);
    if ((uint32_t)n > e->most)
        return ir_error(ctx, NULL, "%d entry points; code for %s has %u at most", n, o->isa->name, e->most);
    for (int i = 0; i < n; i++)
        define(elf, section, e, ir_internf(ctx, "%s_%s", o->name, names[i]), (uint32_t)i, o->hidden, model, call);
    return true;
}
