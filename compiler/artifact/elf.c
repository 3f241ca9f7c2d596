/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes ELF64 relocatable objects: sections made of pieces, symbols, relocations.
 * Layout of the file: header, section contents, .rela sections, .symtab, .strtab, .shstrtab, section headers.
 * Sources: the System V ABI (ELF-64 object file format) and its supplements for instruction sets
 * (compiler/cpu/isa has what differs).
 */
#include "base/grow.h"
#include "compiler/artifact/elf_int.h"
#include "compiler/cpu/isa/isa_int.h"
#include "base/safe.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    const void *data; /* NULL: zeros */
    void *owned;
    uint64_t offset, size; /* the gap before the offset is zeros */
};

struct section {
    char *name;
    enum elf_kind kind;
    int align;
    uint64_t size;
    struct piece *pieces;
    int npieces, cappieces;
    Elf64_Rela *relas; /* symbol numbers are the caller's until they are written */
    int nrelas, caprelas;
    uint64_t file, rela_file;
};

struct symbol {
    char *name;
    int section, flags;
    uint64_t offset, size;
    uint32_t index, name_at;
};

struct elf {
    struct section *sections; /* [0] is unused */
    int nsections, capsections;
    struct symbol *symbols;
    int nsymbols, capsymbols;
    const struct cpu_isa *isa;
    bool no_memory;
};

/* Room for one more entry of a growing array; false, and remembered, when there is none. */
static bool grow(struct elf *elf, void *array, int n, int *cap, size_t size)
{
    if (n < *cap || tcc_grow(array, size, cap, sizeof *cap, 16))
        return true;
    elf->no_memory = true;
    return false;
}

struct elf *elf_new(const struct cpu_isa *isa)
{
    struct elf *elf = calloc(1, sizeof *elf);
    if (!elf)
        return NULL;
    elf->isa = isa;
    if (!grow(elf, &elf->sections, 0, &elf->capsections, sizeof *elf->sections)) {
        free(elf);
        return NULL;
    }
    memset(&elf->sections[0], 0, sizeof elf->sections[0]);
    elf->nsections = 1;
    elf_section(elf, ".note.GNU-stack", ELF_NOTE, 1);
    return elf;
}

void elf_free(struct elf *elf)
{
    if (!elf)
        return;
    for (int i = 1; i < elf->nsections; i++) {
        struct section *s = &elf->sections[i];
        for (int j = 0; j < s->npieces; j++)
            free(s->pieces[j].owned);
        free(s->pieces);
        free(s->relas);
        free(s->name);
    }
    for (int i = 0; i < elf->nsymbols; i++)
        free(elf->symbols[i].name);
    free(elf->sections);
    free(elf->symbols);
    free(elf);
}

int elf_section(struct elf *elf, const char *name, enum elf_kind kind, int align)
{
    if (!grow(elf, &elf->sections, elf->nsections, &elf->capsections, sizeof *elf->sections))
        return 0;
    char *copy = strdup(name);
    if (!copy) {
        elf->no_memory = true;
        return 0;
    }
    elf->sections[elf->nsections] = (struct section){.name = copy, .kind = kind, .align = align > 0 ? align : 1};
    return elf->nsections++;
}

static uint64_t add_piece(struct elf *elf, int section, const void *data, void *owned, uint64_t size, int align)
{
    struct section *s = &elf->sections[section];
    if (section <= 0 || !grow(elf, &s->pieces, s->npieces, &s->cappieces, sizeof *s->pieces)) {
        free(owned);
        return 0;
    }
    uint64_t a = align > 0 ? (uint64_t)align : 1;
    uint64_t offset = (s->size + a - 1) & ~(a - 1);
    if (align > s->align)
        s->align = align;
    s->pieces[s->npieces++] = (struct piece){.data = data, .owned = owned, .offset = offset, .size = size};
    s->size = offset + size;
    return offset;
}

uint64_t elf_data(struct elf *elf, int section, const void *data, uint64_t size, int align)
{
    return add_piece(elf, section, data, NULL, size, align);
}

uint64_t elf_copy(struct elf *elf, int section, const void *data, uint64_t size, int align)
{
    void *copy = malloc(size ? size : 1);
    if (!copy) {
        elf->no_memory = true;
        return 0;
    }
    memcpy(copy, data, size);
    return add_piece(elf, section, copy, copy, size, align);
}

uint64_t elf_zeros(struct elf *elf, int section, uint64_t size, int align)
{
    return add_piece(elf, section, NULL, NULL, size, align);
}

int elf_symbol(struct elf *elf, const char *name, int section, uint64_t offset, uint64_t size, int flags)
{
    if (!grow(elf, &elf->symbols, elf->nsymbols, &elf->capsymbols, sizeof *elf->symbols))
        return 0;
    char *copy = strdup(name);
    if (!copy) {
        elf->no_memory = true;
        return 0;
    }
    elf->symbols[elf->nsymbols] =
        (struct symbol){.name = copy, .section = section, .flags = flags, .offset = offset, .size = size};
    return elf->nsymbols++;
}

void elf_relocate(struct elf *elf, int section, uint64_t offset, uint32_t type, int symbol, int64_t addend)
{
    struct section *s = &elf->sections[section];
    if (section <= 0 || !grow(elf, &s->relas, s->nrelas, &s->caprelas, sizeof *s->relas))
        return;
    uint64_t info = ELF64_R_INFO((uint64_t)symbol, type);
    s->relas[s->nrelas++] = (Elf64_Rela){.r_offset = offset, .r_info = info, .r_addend = addend};
}

void elf_pointer(struct elf *elf, int section, uint64_t offset, int symbol, int64_t addend)
{
    elf_relocate(elf, section, offset, elf->isa->elf_pointer, symbol, addend);
}

/* -- Writing ------------------------------------------------------------------------------- */

struct strings {
    char *at;
    int n, cap;
};

/* Appends a string; returns its offset. */
static uint32_t string_add(struct elf *elf, struct strings *t, const char *s)
{
    int need = (int)strlen(s) + 1, at = t->n;
    while (t->n + need > t->cap) {
        if (!grow(elf, &t->at, t->cap, &t->cap, 1))
            return 0;
    }
    memcpy(t->at + at, s, (size_t)need);
    t->n += need;
    return (uint32_t)at;
}

static void write_zeros(FILE *f, uint64_t n)
{
    static const char zeros[4096];
    for (; n > sizeof zeros; n -= sizeof zeros)
        fwrite(zeros, 1, sizeof zeros, f);
    fwrite(zeros, 1, n, f);
}

static void pad_to(FILE *f, uint64_t *at, uint64_t to)
{
    write_zeros(f, to - *at);
    *at = to;
}

static void write_section(FILE *f, const struct section *s)
{
    uint64_t at = 0;
    for (int i = 0; i < s->npieces; i++) {
        const struct piece *p = &s->pieces[i];
        pad_to(f, &at, p->offset);
        if (p->data)
            fwrite(p->data, 1, p->size, f);
        else
            write_zeros(f, p->size);
        at += p->size;
    }
}

static bool is_local(const struct symbol *s)
{
    return s->section && !(s->flags & (ELF_GLOBAL | ELF_WEAK));
}

/* Numbers the symbols, locals first as ELF wants it; returns the number of the first global one. */
static uint32_t number_symbols(struct elf *elf)
{
    uint32_t next = 1, first_global;
    for (int i = 0; i < elf->nsymbols; i++)
        if (is_local(&elf->symbols[i]))
            elf->symbols[i].index = next++;
    first_global = next;
    for (int i = 0; i < elf->nsymbols; i++)
        if (!is_local(&elf->symbols[i]))
            elf->symbols[i].index = next++;
    return first_global;
}

static Elf64_Sym elf_sym(const struct symbol *s)
{
    int bind = is_local(s) ? STB_LOCAL : s->flags & ELF_WEAK ? STB_WEAK : STB_GLOBAL;
    int type = !s->section ? STT_NOTYPE : s->flags & ELF_FUNC ? STT_FUNC : STT_OBJECT;
    return (Elf64_Sym){.st_name = s->name_at,
                       .st_info = (unsigned char)ELF64_ST_INFO(bind, type),
                       .st_other = s->flags & ELF_HIDDEN ? STV_HIDDEN : STV_DEFAULT,
                       .st_shndx = (Elf64_Half)s->section,
                       .st_value = s->offset,
                       .st_size = s->size};
}

static void write_symbols(const struct elf *elf, FILE *f)
{
    Elf64_Sym none = {0};
    fwrite(&none, sizeof none, 1, f);
    for (int local = 1; local >= 0; local--) {
        for (int i = 0; i < elf->nsymbols; i++) {
            if (is_local(&elf->symbols[i]) != local)
                continue;
            Elf64_Sym sym = elf_sym(&elf->symbols[i]);
            fwrite(&sym, sizeof sym, 1, f);
        }
    }
}

static void write_relas(const struct elf *elf, FILE *f, const struct section *s)
{
    for (int i = 0; i < s->nrelas; i++) {
        Elf64_Rela r = s->relas[i];
        uint64_t index = elf->symbols[ELF64_R_SYM(r.r_info)].index;
        r.r_info = ELF64_R_INFO(index, ELF64_R_TYPE(r.r_info));
        fwrite(&r, sizeof r, 1, f);
    }
}

static Elf64_Shdr section_header(const struct elf *elf, const struct section *s, uint32_t name)
{
    const uint64_t flags[] = {[ELF_RODATA] = SHF_ALLOC,
                              [ELF_RELRO] = SHF_ALLOC | SHF_WRITE,
                              [ELF_LARGE_RODATA] = SHF_ALLOC | elf->isa->elf_large,
                              [ELF_CODE] = SHF_ALLOC | SHF_EXECINSTR,
                              [ELF_NOTE] = 0};
    return (Elf64_Shdr){.sh_name = name,
                        .sh_type = SHT_PROGBITS,
                        .sh_flags = flags[s->kind],
                        .sh_offset = s->file,
                        .sh_size = s->size,
                        .sh_addralign = (uint64_t)s->align};
}

struct tables {
    Elf64_Shdr *headers;
    int n;
    struct strings names, symbol_names;
    uint32_t first_global;
};

static void add_header(struct tables *t, Elf64_Shdr h)
{
    t->headers[t->n++] = h;
}

/* Places everything after the sections' contents, and makes the section headers. Returns where they start. */
static uint64_t lay_out(struct elf *elf, struct tables *t)
{
    uint64_t at = sizeof(Elf64_Ehdr);
    int symtab = elf->nsections;
    string_add(elf, &t->names, "");
    string_add(elf, &t->symbol_names, "");
    add_header(t, (Elf64_Shdr){0});
    for (int i = 1; i < elf->nsections; i++) {
        struct section *s = &elf->sections[i];
        uint64_t a = (uint64_t)s->align;
        s->file = at = (at + a - 1) & ~(a - 1);
        at += s->size;
        add_header(t, section_header(elf, s, string_add(elf, &t->names, s->name)));
    }
    for (int i = 0; i < elf->nsymbols; i++)
        elf->symbols[i].name_at = string_add(elf, &t->symbol_names, elf->symbols[i].name);
    at = (at + 7) & ~7ull;
    uint64_t bytes = (uint64_t)(elf->nsymbols + 1) * sizeof(Elf64_Sym);
    add_header(t, (Elf64_Shdr){.sh_name = string_add(elf, &t->names, ".symtab"),
                               .sh_type = SHT_SYMTAB,
                               .sh_offset = at,
                               .sh_size = bytes,
                               .sh_link = (uint32_t)symtab + 1,
                               .sh_info = t->first_global,
                               .sh_addralign = 8,
                               .sh_entsize = sizeof(Elf64_Sym)});
    at += bytes;
    add_header(t, (Elf64_Shdr){.sh_name = string_add(elf, &t->names, ".strtab"),
                               .sh_type = SHT_STRTAB,
                               .sh_offset = at,
                               .sh_size = (uint64_t)t->symbol_names.n,
                               .sh_addralign = 1});
    at = (at + (uint64_t)t->symbol_names.n + 7) & ~7ull;
    for (int i = 1; i < elf->nsections; i++) {
        struct section *s = &elf->sections[i];
        char name[256];
        if (!s->nrelas)
            continue;
        snprintf(name, sizeof name, ".rela%s", s->name);
        bytes = (uint64_t)s->nrelas * sizeof(Elf64_Rela);
        s->rela_file = at;
        add_header(t, (Elf64_Shdr){.sh_name = string_add(elf, &t->names, name),
                                   .sh_type = SHT_RELA,
                                   .sh_flags = SHF_INFO_LINK,
                                   .sh_offset = at,
                                   .sh_size = bytes,
                                   .sh_link = (uint32_t)symtab,
                                   .sh_info = (uint32_t)i,
                                   .sh_addralign = 8,
                                   .sh_entsize = sizeof(Elf64_Rela)});
        at += bytes;
    }
    uint32_t name = string_add(elf, &t->names, ".shstrtab");
    add_header(t, (Elf64_Shdr){.sh_name = name,
                               .sh_type = SHT_STRTAB,
                               .sh_offset = at,
                               .sh_size = (uint64_t)t->names.n,
                               .sh_addralign = 1});
    return (at + (uint64_t)t->names.n + 7) & ~7ull;
}

static void write_all(const struct elf *elf, const struct tables *t, uint64_t headers_at, FILE *f)
{
    Elf64_Ehdr h = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE},
                    .e_type = ET_REL,
                    .e_machine = elf->isa->elf_machine,
                    .e_version = EV_CURRENT,
                    .e_shoff = headers_at,
                    .e_flags = elf->isa->elf_flags,
                    .e_ehsize = sizeof(Elf64_Ehdr),
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = (Elf64_Half)t->n,
                    .e_shstrndx = (Elf64_Half)(t->n - 1)};
    uint64_t at = sizeof h;
    fwrite(&h, sizeof h, 1, f);
    for (int i = 1; i < elf->nsections; i++) {
        const struct section *s = &elf->sections[i];
        pad_to(f, &at, s->file);
        write_section(f, s);
        at += s->size;
    }
    const Elf64_Shdr *symtab = &t->headers[elf->nsections];
    pad_to(f, &at, symtab[0].sh_offset);
    write_symbols(elf, f);
    fwrite(t->symbol_names.at, 1, (size_t)t->symbol_names.n, f);
    at = symtab[1].sh_offset + symtab[1].sh_size;
    for (int i = 1; i < elf->nsections; i++) {
        const struct section *s = &elf->sections[i];
        if (!s->nrelas)
            continue;
        pad_to(f, &at, s->rela_file);
        write_relas(elf, f, s);
        at += (uint64_t)s->nrelas * sizeof(Elf64_Rela);
    }
    pad_to(f, &at, t->headers[t->n - 1].sh_offset);
    fwrite(t->names.at, 1, (size_t)t->names.n, f);
    at += (uint64_t)t->names.n;
    pad_to(f, &at, headers_at);
    fwrite(t->headers, sizeof *t->headers, (size_t)t->n, f);
}

bool elf_write(struct elf *elf, const char *path, char *error, size_t error_size)
{
    struct tables t = {.headers = calloc((size_t)elf->nsections * 2 + 4, sizeof(Elf64_Shdr))};
    bool ok = false;
    if (t.headers) {
        t.first_global = number_symbols(elf);
        uint64_t headers_at = lay_out(elf, &t);
        struct tcr_save save;
        if (!elf->no_memory && !tcr_save_open(&save, path, TCR_SAVE_STREAM)) {
            write_all(elf, &t, headers_at, save.stream);
            ok = !tcr_save_commit(&save);
        }
    }
    if (!ok)
        snprintf(error, error_size, "%s: %s", path, !t.headers || elf->no_memory ? "no memory" : strerror(errno));
    free(t.headers);
    free(t.names.at);
    free(t.symbol_names.at);
    return ok;
}
