/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf_int.h - writes ELF64 relocatable objects of an instruction set: the artifact's descriptor, plan, weights and
 * entry points never go through LLVM.
 *
 * Contents are pieces that are written out in order, straight from where they lie (a mapped file, say): nothing is
 * copied but by elf_copy(). Every function but elf_write() records only; a failed allocation is remembered and reported
 * by elf_write(). Not thread-safe.
 */
#ifndef TCC_ELF_INT_H
#define TCC_ELF_INT_H

#include "ir/ir.h"

struct elf;

enum elf_kind {
    ELF_RODATA,         /* .rodata...: read-only, no relocations */
    ELF_RELRO,          /* .data.rel.ro...: read-only once relocated */
    ELF_LARGE_RODATA,   /* .lrodata...: read-only, may be larger than 2 GB and is reached by 64-bit pointers only */
    ELF_CODE,           /* .text... */
    ELF_NOTE            /* not loaded; e.g. .note.GNU-stack */
};
enum elf_symbol_flags { ELF_LOCAL = 0, ELF_GLOBAL = 1, ELF_HIDDEN = 2, ELF_FUNC = 4, ELF_WEAK = 8 };

/* NULL: no memory. A .note.GNU-stack section is added by itself */
struct cpu_isa;
struct elf *elf_new(const struct cpu_isa *isa);
void elf_free(struct elf *elf);                       /* NULL is fine */
int elf_section(struct elf *elf, const char *name, enum elf_kind kind, int align);   /* its number, from 1 */
/* Append `size` bytes after padding with zeros to `align` (a power of two); return the offset in the section.
 * elf_data: `data` must live until elf_write(). elf_copy: copied now. elf_zeros: zero bytes. */
uint64_t elf_data(struct elf *elf, int section, const void *data, uint64_t size, int align);
uint64_t elf_copy(struct elf *elf, int section, const void *data, uint64_t size, int align);
uint64_t elf_zeros(struct elf *elf, int section, uint64_t size, int align);
/* A symbol; section 0: undefined (defined elsewhere). Returns its number for relocations. */
int elf_symbol(struct elf *elf, const char *name, int section, uint64_t offset, uint64_t size, int flags);
/* A relocation of that type of the instruction set, at section + offset, by symbol + addend. */
void elf_relocate(struct elf *elf, int section, uint64_t offset, uint32_t type, int symbol, int64_t addend);
/* The 8 bytes at section + offset become the address of symbol + addend (x86-64: R_X86_64_64). */
void elf_pointer(struct elf *elf, int section, uint64_t offset, int symbol, int64_t addend);
/* Writes the object; the same calls give the same bytes. False: `error` says why, and no file is left. */
bool elf_write(struct elf *elf, const char *path, char *error, size_t error_size);

#endif
