/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes static archives: the System V / GNU format with a symbol index and a table of long names; dates, owners and
 * modes are fixed, so the same members give the same bytes. Sources: System V ABI, GNU ar's documentation.
 */
#include "compiler/artifact/link_int.h"
#include "base/safe.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

struct member {
    struct ir_file *file;
    uint64_t offset;
    int nsymbols;
    const char *name;
};
struct index {
    VEC(char) names;
    VEC(int) members;
};

/* Adds the global symbols that an ELF64 object defines to the index; false if it isn't such an object. */
static bool index_object(struct ir_ctx *ctx, const struct ir_file *file, int member, struct index *index)
{
    const uint8_t *data = ir_file_data(file);
    uint64_t size = ir_file_size(file);
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)data;
    if (size < sizeof *h || memcmp(data, ELFMAG, SELFMAG) != 0 || h->e_shoff + h->e_shnum * sizeof(Elf64_Shdr) > size)
        return false;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(data + h->e_shoff);
    for (int i = 0; i < h->e_shnum; i++) {
        if (s[i].sh_type != SHT_SYMTAB || s[i].sh_link >= h->e_shnum || s[i].sh_offset + s[i].sh_size > size)
            continue;
        const Elf64_Sym *syms = (const Elf64_Sym *)(data + s[i].sh_offset);
        const char *names = (const char *)data + s[s[i].sh_link].sh_offset;
        for (uint64_t j = s[i].sh_info; j < s[i].sh_size / sizeof *syms; j++) {
            if (syms[j].st_shndx == SHN_UNDEF)
                continue;
            const char *name = names + syms[j].st_name;
            do
                VEC_PUSH(ctx, index->names, *name);
            while (*name++);
            VEC_PUSH(ctx, index->members, member);
        }
    }
    return true;
}

static void write_header(FILE *f, const char *name, uint64_t size)
{
    char text[80];
    snprintf(text, sizeof text, "%-16s%-12d%-6d%-6d%-8s%-10llu`\n", name, 0, 0, 0, "644", (unsigned long long)size);
    fwrite(text, 1, 60, f);
}

/* Integers of the index are big-endian; archives over 4 GB use 64-bit ones under another name. */
static void write_number(FILE *f, uint64_t v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        fputc((int)(v >> (8 * i) & 0xff), f);
}

static void write_archive(FILE *f, struct index *index, const char *names, int nmembers, struct member *members)
{
    uint64_t names_size = strlen(names), at;
    int wide = 4;
    for (;; wide = 8) {
        at = 8 + 60 + (uint64_t)wide * (1 + (uint64_t)index->members.n) + (uint64_t)index->names.n;
        at += at & 1;
        at += 60 + names_size + (names_size & 1);
        for (int i = 0; i < nmembers; i++) {
            uint64_t size = ir_file_size(members[i].file);
            members[i].offset = at;
            at += 60 + size + (size & 1);
        }
        if (wide == 8 || at < UINT32_MAX)
            break;
    }
    uint64_t index_size = (uint64_t)wide * (1 + (uint64_t)index->members.n) + (uint64_t)index->names.n;
    fwrite("!<arch>\n", 1, 8, f);
    write_header(f, wide == 8 ? "/SYM64/" : "/", index_size);
    write_number(f, (uint64_t)index->members.n, wide);
    for (int i = 0; i < index->members.n; i++)
        write_number(f, members[index->members.at[i]].offset, wide);
    fwrite(index->names.at, 1, (size_t)index->names.n, f);
    if (index_size & 1)
        fputc('\n', f);
    write_header(f, "//", names_size);
    fwrite(names, 1, names_size, f);
    if (names_size & 1)
        fputc('\n', f);
    for (int i = 0; i < nmembers; i++) {
        uint64_t size = ir_file_size(members[i].file);
        write_header(f, members[i].name, size);
        fwrite(ir_file_data(members[i].file), 1, size, f);
        if (size & 1)
            fputc('\n', f);
    }
}

/* Opens the members and collects their symbols; false after a message in `error`. */
static bool open_members(struct ir_ctx *ctx, int n, const char *const *objects, struct member *members,
                         struct index *index, char *error, size_t error_size)
{
    for (int i = 0; i < n; i++) {
        members[i].file = ir_file_get(ctx, objects[i], error, error_size);
        if (!members[i].file)
            return false;
        if (!index_object(ctx, members[i].file, i, index)) {
            snprintf(error, error_size, "%s: not an object file", objects[i]);
            return false;
        }
    }
    return true;
}

bool link_archive(struct ir_ctx *ctx, const char *output, const char *member, int nobjects, const char *const *objects,
                  int *status)
{
    struct member *members = IR_NEWN(ctx, nobjects, struct member);
    struct index index = {0};
    VEC(char) names = {0};
    char error[512];
    bool ok = open_members(ctx, nobjects, objects, members, &index, error, sizeof error);
    for (int i = 0; ok && i < nobjects; i++) {
        members[i].name = ir_internf(ctx, "/%d", names.n);
        for (const char *s = ir_internf(ctx, "%s%d.o/\n", member, i); *s; s++)
            VEC_PUSH(ctx, names, *s);
    }
    VEC_PUSH(ctx, names, '\0');
    struct tcr_save save;
    if (ok) {
        ok = !tcr_save_open(&save, output, TCR_SAVE_STREAM);
        if (ok)
            write_archive(save.stream, &index, names.at, nobjects, members);
        ok = ok && !tcr_save_commit(&save);
        if (!ok)
            snprintf(error, sizeof error, "%s: %s", output, strerror(errno));
    }
    for (int i = 0; i < nobjects; i++)
        if (members[i].file)
            ir_file_unref(members[i].file);
    if (!ok) {
        ir_error(ctx, NULL, "%s", error);
        if (status)
            *status = 3;
    }
    return ok;
}
