/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isa_int.h - instruction sets of the CPU target: one table each, of all that differs between them. A file and a .def
 * of this folder, and a row in isa.c, are a new one.
 */
#ifndef TCC_CPU_ISA_INT_H
#define TCC_CPU_ISA_INT_H

#include "ir/ir.h"

struct cpu_machine;
struct LLVMOpaqueTargetMachine;      /* what an LLVMTargetMachineRef points to */

/* The levels that there are, for who asks a program what it compiles for (tests/arm.tap compares). */
#define CPU_LEVELS "x86-64-v2 x86-64-v3 x86-64-v4 armv8-a armv8.2-a armv8.6-a armv9-a rv64gc rv64gcv"

/* A level of an instruction set, which --march names. */
struct cpu_level {
    const char *name;                /* "x86-64-v3"; NULL: there is none of that number */
    const char *llvm_cpu, *llvm_features;
    int vector_bytes, registers;     /* of vectors */
    int64_t l2;                      /* bytes of the second cache that tiles are made for */
};

/* `levels`: bit set of those that include it. `least`: the least that it may be added to. */
struct cpu_feature { const char *name, *llvm; uint32_t levels; int least; };

/* A processor by name: LLVM's name of it, by which instructions are ordered; what it has, as --march would say it;
 * bytes of its second cache. */
struct cpu_model { const char *name, *llvm, *arch; int64_t l2; };

/* The function of an artifact's entry point: it ends in tccrt_call(model, number, in, out), with in and out what it is
 * called with itself. The number, `most` at most, is put into the 32 bits at number_at. Relocations end where there is
 * no type. */
struct cpu_entry {
    const uint8_t *code;
    int size, number_at, number_shift;
    uint32_t most;
    struct {
        enum { ENTRY_MODEL, ENTRY_CALL, ENTRY_SELF } of;
        int at;
        uint32_t type;
        int addend;
    } relocations[3];
};

struct cpu_isa {
    const char *name;                /* "x86-64" */
    const char *triple, *abi;        /* LLVM's; abi NULL: the triple's own */
    const char *prefix;              /* what lists of features begin with, as architecture strings: "native:" */
    const struct cpu_level *levels;  /* [number]; the least one that exists is the least that there is code for */
    int nlevels;
    const struct cpu_feature *features;      /* bits of cpu_machine.features */
    int nfeatures;
    bool cpu_has_level;              /* llvm_cpu of a level means its features too */
    bool lists;                      /* levels by name become lists of features in artifacts, too */
    const struct cpu_model *models;  /* ended by one without a name; NULL: none */
    void (*initialise)(void);        /* LLVM's back end */
    /* What a machine of that level and with those features does by instructions of its own. */
    void (*describe)(struct cpu_machine *m);
    /* Objects: ELF's machine and flags, the relocation of a 64-bit address, the flag of sections that may lie far. */
    uint16_t elf_machine;
    uint32_t elf_flags, elf_pointer;
    uint64_t elf_large;
    const struct cpu_entry *entry;
    /* Linking: where libc lies (ended by NULL); what Debian calls it, in names of cross compilers and folders, and an
     * option behind -z, or NULL. */
    const char *const *folders;
    const char *debian, *page_option;
    const char *cc;                  /* the cross compiler, of custom operators; what it makes calls no libgcc */
};

extern const struct cpu_isa cpu_isa_x86, cpu_isa_aarch64, cpu_isa_riscv64;

/* isa.c */
const struct cpu_isa *cpu_isa_at(int i);                     /* NULL: there are no more */
const struct cpu_isa *cpu_isa_host(void);                    /* the one that this program runs on */
/* Whose code an artifact has for that architecture string (resolved); the host's where it is nobody's. */
const struct cpu_isa *cpu_isa_of(const char *arch);
/* LLVM's machine, in a child process; `quick`: with few optimisations. NULL: `error` says why not (LLVM's string). */
struct LLVMOpaqueTargetMachine *cpu_isa_llvm(const struct cpu_isa *isa, const char *cpu, const char *features,
                                             bool quick, char **error);

#endif
