/* SPDX-License-Identifier: Apache-2.0 */
/*
 * riscv64.c - RV64: code for vectors of 128 bits, which is what every V has at least, or for none, where LLVM takes
 * vectors apart. Nothing is tuned. Sources: the RISC-V Instruction Set Manual, volume I; RISC-V ABIs Specification.
 */
#include "compiler/cpu/emit_int.h"
#include "compiler/cpu/isa/isa_int.h"

#include <elf.h>

enum { RV64GC = 1, RV64GCV };
enum { GC = 1 << RV64GC, GCV = 1 << RV64GCV };

enum riscv_feature {
#define FEATURE(id, name, levels) RISCV_##id,
#include "compiler/cpu/isa/riscv64.def"
    RISCV_NFEATURES
};
static const struct cpu_feature features[] = {
#define FEATURE(id, name, levels) {name, name, levels, RV64GC},
#include "compiler/cpu/isa/riscv64.def"
};

static void describe(struct cpu_machine *m)
{
    m->emit.fma = true;
    m->dot_bytes = cpu_dot_bytes_plain;
}

static void initialise(void)
{
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTarget();
    LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmPrinter();
}

static const struct cpu_level levels[] = {[RV64GC] = {"rv64gc", "generic-rv64", "+64bit", 16, 16, 512 << 10},
                                          [RV64GCV] = {"rv64gcv", "generic-rv64", "+64bit", 16, 32, 512 << 10}};

static const char *const folders[] = {"/usr/riscv64-linux-gnu/lib", "/lib/riscv64-linux-gnu",
                                      "/usr/lib/riscv64-linux-gnu", NULL};

/* The low part of an address is relocated by the instruction that has the high one: the first. */
static const uint8_t entry_code[] = {0x97, 0x02, 0x00, 0x00,  /* auipc t0, its place in the GOT */
                                     0x93, 0x86, 0x05, 0x00,  /* mv a3, a1 */
                                     0x13, 0x06, 0x05, 0x00,  /* mv a2, a0 */
                                     0x93, 0x05, 0x00, 0x00,  /* li a1, number */
                                     0x03, 0xb5, 0x02, 0x00,  /* ld a0, what auipc leaves(t0) */
                                     0x17, 0x03, 0x00, 0x00,  /* auipc t1 */
                                     0x67, 0x00, 0x03, 0x00}; /* jr t1 */
static const struct cpu_entry entry = {entry_code,
                                       sizeof entry_code,
                                       .number_at = 12,
                                       .number_shift = 20,
                                       .most = 2047,
                                       .relocations = {{ENTRY_MODEL, 0, R_RISCV_GOT_HI20, 0},
                                                       {ENTRY_SELF, 16, R_RISCV_PCREL_LO12_I, 0},
                                                       {ENTRY_CALL, 20, R_RISCV_CALL_PLT, 0}}};

const struct cpu_isa cpu_isa_riscv64 = {.name = "riscv64",
                                        .triple = "riscv64-unknown-linux-gnu",
                                        .abi = "lp64d",
                                        .prefix = "riscv64:",
                                        .levels = levels,
                                        .nlevels = sizeof levels / sizeof *levels,
                                        .features = features,
                                        .nfeatures = RISCV_NFEATURES,
                                        .lists = true,
                                        .initialise = initialise,
                                        .describe = describe,
                                        .elf_machine = EM_RISCV,
                                        .elf_flags = EF_RISCV_RVC | EF_RISCV_FLOAT_ABI_DOUBLE,
                                        .elf_pointer = R_RISCV_64,
                                        .entry = &entry,
                                        .folders = folders,
                                        .debian = "riscv64-linux-gnu",
                                        .cc = "riscv64-linux-gnu-gcc"};
