/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aarch64.c - AArch64: code is for vectors of 128 bits (NEON), of which there are 32. Sources: Arm Architecture
 * Reference Manual (DDI 0487); ELF for the Arm 64-bit Architecture (IHI 0056).
 */
#include "compiler/cpu/emit_int.h"
#include "compiler/cpu/isa/isa_int.h"

#include <elf.h>

#define V LLVMValueRef

enum { ARMV8 = 1, ARMV82, ARMV86, ARMV9 };
enum { V8 = 1 << ARMV8, V82 = 1 << ARMV82, V86 = 1 << ARMV86, V9 = 1 << ARMV9 };

enum arm_feature {
#define FEATURE(id, name, llvm, levels) ARM_##id,
#include "compiler/cpu/isa/aarch64.def"
#undef FEATURE
    ARM_NFEATURES
};
static const struct cpu_feature features[] = {
#define FEATURE(id, name, llvm, levels) {name, llvm, levels, ARMV8},
#include "compiler/cpu/isa/aarch64.def"
#undef FEATURE
};

static bool has(const struct cpu_machine *m, enum arm_feature f)
{
    return m->features >> f & 1;
}

/* FCVTNS rounds to nearest even. */
static V round_to_int(struct em *e, V v)
{
    LLVMTypeRef types[2] = {em_like(e->t_i32, v), LLVMTypeOf(v)};
    return em_lanes_of(v) == 4 ? em_intrinsic(e, "llvm.aarch64.neon.fcvtns", 2, types, 1, &v) : NULL;
}

/* -- Products of groups -------------------------------------------------------------------------------------- */

/* Bytes 8 * half .. 8 * half + 7 of 16, widened to 16 bits. */
static V widened(struct em *e, V bytes, int half, bool sign)
{
    V at[8];
    for (int i = 0; i < 8; i++)
        at[i] = LLVMConstInt(e->t_i32, (unsigned)(8 * half + i), 0);
    V part = LLVMBuildShuffleVector(e->b, bytes, bytes, LLVMConstVector(at, 8), "");
    LLVMTypeRef t = em_vec(e->t_i16, 8);
    return sign ? LLVMBuildSExt(e->b, part, t, "") : LLVMBuildZExt(e->b, part, t, "");
}

/* Products of an unsigned and a signed byte fit 16 bits; SADDLP and ADDP add them by pairs. */
static V dot_bytes_by_halves(struct em *e, V u, V s, V acc)
{
    LLVMTypeRef sixteen = em_vec(e->t_i8, 16), lanes = em_vec(e->t_i32, 4), types[2] = {lanes, em_vec(e->t_i16, 8)};
    V half[2];
    u = LLVMBuildBitCast(e->b, u, sixteen, "");
    s = LLVMBuildBitCast(e->b, s, sixteen, "");
    for (int i = 0; i < 2; i++) {
        V products = LLVMBuildMul(e->b, widened(e, u, i, false), widened(e, s, i, true), "");
        half[i] = em_intrinsic(e, "llvm.aarch64.neon.saddlp", 2, types, 1, &products);
    }
    return LLVMBuildAdd(e->b, acc, em_intrinsic(e, "llvm.aarch64.neon.addp", 1, &lanes, 2, half), "");
}

static V dot(struct em *e, const char *name, V acc, V a, V b)
{
    LLVMTypeRef sixteen = em_vec(e->t_i8, 16), types[2] = {em_vec(e->t_i32, 4), sixteen};
    V args[3] = {acc, LLVMBuildBitCast(e->b, a, sixteen, ""), LLVMBuildBitCast(e->b, b, sixteen, "")};
    return em_intrinsic(e, name, 2, types, 3, args);
}

/* USDOT */
static V dot_bytes_mixed(struct em *e, V u, V s, V acc)
{
    return dot(e, "llvm.aarch64.neon.usdot", acc, u, s);
}

/* SDOT, whose two sides are signed; A comes last, as its lanes can. */
static V dot_bytes_signed(struct em *e, V a, V b, V acc)
{
    return dot(e, "llvm.aarch64.neon.sdot", acc, b, a);
}

/* u - 128 is signed, and 128 times s is taken away again (-128 is a signed byte, 128 is none). */
static V dot_bytes_shifted(struct em *e, V u, V s, V acc)
{
    V top = em_int(em_vec(e->t_i8, 16), -128), lower = LLVMBuildBitCast(e->b, u, LLVMTypeOf(top), "");
    V less = dot_bytes_signed(e, top, s, LLVMConstNull(LLVMTypeOf(acc)));
    return LLVMBuildSub(e->b, dot_bytes_signed(e, LLVMBuildXor(e->b, lower, top, ""), s, acc), less, "");
}

/* Vectors of fewer than 16 bytes: of no more lanes than there are points. */
static V dot_bytes(struct em *e, V u, V s, V acc)
{
    if (em_lanes_of(acc) != 4)
        return cpu_dot_bytes_plain(e, u, s, acc);
    const struct cpu_machine *m = em_cpu(e);
    return has(m, ARM_I8MM)      ? dot_bytes_mixed(e, u, s, acc)
           : has(m, ARM_DOTPROD) ? dot_bytes_shifted(e, u, s, acc)
                                 : dot_bytes_by_halves(e, u, s, acc);
}

/* BFDOT, whose products and sums are rounded to odd. */
static V dot_bf16(struct em *e, V a, V b, V acc)
{
    LLVMTypeRef types[2] = {LLVMTypeOf(acc), LLVMTypeOf(a)};
    return em_intrinsic(e, "llvm.aarch64.neon.bfdot", 2, types, 3, (V[]){acc, b, a});
}

/* -- The table ----------------------------------------------------------------------------------------------- */

static void describe(struct cpu_machine *m)
{
    m->emit.fma = true;
    m->emit.converts_f16 = true;
    m->emit.round_to_int = round_to_int;
    m->multiplies_bytes = has(m, ARM_DOTPROD);
    m->by_lane = true;
    m->multiplies_bf16 = has(m, ARM_BF16);
    m->dot_bf16 = dot_bf16;
    m->dot_bytes = dot_bytes;
    m->dot_bytes_signed = has(m, ARM_DOTPROD) && !has(m, ARM_I8MM) ? dot_bytes_signed : NULL;
}

static void initialise(void)
{
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
}

static const struct cpu_level levels[] = {[ARMV8] = {"armv8-a", "generic", "+fp-armv8", 16, 32, 512 << 10},
                                          [ARMV82] = {"armv8.2-a", "generic", "+fp-armv8", 16, 32, 512 << 10},
                                          [ARMV86] = {"armv8.6-a", "generic", "+fp-armv8", 16, 32, 1 << 20},
                                          [ARMV9] = {"armv9-a", "generic", "+fp-armv8", 16, 32, 1 << 20}};

/* Arm's Technical Reference Manuals; of caches that a model may have in several sizes, a usual one. */
#define N1 "armv8.2-a+dotprod+fp16"
static const struct cpu_model models[] = {{"cortex-a53", "cortex-a53", "armv8-a+crc", 512 << 10},
                                          {"cortex-a72", "cortex-a72", "armv8-a+crc", 1 << 20},
                                          {"cortex-a76", "cortex-a76", N1, 512 << 10},
                                          {"cortex-a78ae", "cortex-a78ae", N1, 512 << 10},
                                          {"neoverse-n1", "neoverse-n1", N1, 1 << 20},
                                          {"neoverse-v1", "neoverse-v1", N1 "+bf16+i8mm+sve", 1 << 20},
                                          {"neoverse-n2", "neoverse-n2", "armv9-a+bf16+i8mm", 1 << 20},
                                          {"neoverse-v2", "neoverse-v2", "armv9-a+bf16+i8mm", 1 << 20},
                                          {"grace", "neoverse-v2", "armv9-a+bf16+i8mm", 1 << 20},
                                          {"apple-m1", "apple-m1", N1, 4 << 20},
                                          {NULL, NULL, NULL, 0}};

static const char *const folders[] = {"/usr/aarch64-linux-gnu/lib", "/lib/aarch64-linux-gnu",
                                      "/usr/lib/aarch64-linux-gnu", "/usr/aarch64-linux-gnu/lib64", NULL};

const struct cpu_isa cpu_isa_aarch64 = {.name = "aarch64",
                                        .triple = "aarch64-unknown-linux-gnu",
                                        .base_cpu = "generic",
                                        .prefix = "aarch64:",
                                        .levels = levels,
                                        .nlevels = sizeof levels / sizeof *levels,
                                        .features = features,
                                        .nfeatures = ARM_NFEATURES,
                                        .lists = true,
                                        .models = models,
                                        .initialise = initialise,
                                        .describe = describe,
                                        .elf_machine = EM_AARCH64,
                                        .elf_pointer = R_AARCH64_ABS64,
                                        .folders = folders,
                                        .debian = "aarch64-linux-gnu",
                                        .page_option = "max-page-size=65536"};
