/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x86.c - x86-64: its levels, what it does by one instruction that LLVM has no general operation for (struct
 * em_machine, struct cpu_machine), its objects. Sources: Intel SDM, volume 2; the System V ABI's x86-64 supplement.
 */
#include "compiler/cpu/emit_int.h"
#include "compiler/cpu/isa/isa_int.h"

#include <elf.h>

#define V LLVMValueRef

#ifndef SHF_X86_64_LARGE
#define SHF_X86_64_LARGE 0x10000000
#endif

enum x86_feature {
#define FEATURE(id, name, level, least) X86_##id,
#include "compiler/cpu/isa/x86.def"
    X86_NFEATURES
};
static const struct cpu_feature features[] = {
#define FEATURE(id, name, level, least) {name, name, (level) ? ~0u << (level) : 0, least},
#include "compiler/cpu/isa/x86.def"
};

static bool has(const struct cpu_machine *m, enum x86_feature f)
{
    return m->features >> f & 1;
}

/* -- Vector math ------------------------------------------------------------------------------------------- */

/* CVTPS2DQ rounds by the rounding mode, which is to nearest even. */
static V round_to_int(struct em *e, V v)
{
    switch (em_lanes_of(v)) {
    case 16: {
        if (!has(em_cpu(e), X86_AVX512F))
            return NULL;
        V none = LLVMConstNull(em_vec(e->t_i32, 16));
        V args[4] = {v, none, LLVMConstAllOnes(e->t_i16), LLVMConstInt(e->t_i32, 4, 0)};
        return em_intrinsic(e, "llvm.x86.avx512.mask.cvtps2dq.512", 0, NULL, 4, args);
    }
    case 8: return has(em_cpu(e), X86_AVX) ? em_intrinsic(e, "llvm.x86.avx.cvt.ps2dq.256", 0, NULL, 1, &v) : NULL;
    case 4: return em_intrinsic(e, "llvm.x86.sse2.cvtps2dq", 0, NULL, 1, &v);
    default: return NULL;
    }
}

/* VSCALEFPS */
static V scale(struct em *e, V p, V n)
{
    V args[5] = {p, n, LLVMConstNull(LLVMTypeOf(p)), LLVMConstInt(e->t_i16, 0xffff, 0), LLVMConstInt(e->t_i32, 4, 0)};
    return em_intrinsic(e, "llvm.x86.avx512.mask.scalef.ps.512", 0, NULL, 5, args);
}

/* VPERMPS, which looks at no more than the low bits of an index. */
static V look_up(struct em *e, V table, V index)
{
    const char *name = em_lanes_of(table) == 16 ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx2.permps";
    return em_intrinsic(e, name, 0, NULL, 2, (V[]){table, index});
}

/* -- Products of groups -------------------------------------------------------------------------------------- */

/* The instruction of vectors of 16, 8 or 4 sums. */
static V by_lanes(struct em *e, int lanes, const char *zmm, const char *ymm, const char *xmm, unsigned n, V *args)
{
    return em_intrinsic(e, lanes == 16 ? zmm : lanes == 8 ? ymm : xmm, 0, NULL, n, args);
}

/* PMADDWD */
static V dot_halves(struct em *e, V a, V b, V acc)
{
    int lanes = em_lanes_of(acc);
    LLVMTypeRef t = em_vec(e->t_i16, lanes * 2);
    V args[] = {LLVMBuildBitCast(e->b, a, t, ""), LLVMBuildBitCast(e->b, b, t, "")};
    V sums =
        by_lanes(e, lanes, "llvm.x86.avx512.pmaddw.d.512", "llvm.x86.avx2.pmadd.wd", "llvm.x86.sse2.pmadd.wd", 2, args);
    return LLVMBuildAdd(e->b, acc, sums, "");
}

/* Without VPDPBUSD: PMADDWD on the bytes with even and those with odd numbers, widened: exact too (PMADDUBSW would
 * saturate). */
static V dot_bytes_by_halves(struct em *e, V u, V s, V acc)
{
    for (int i = 0; i < 2; i++) {
        LLVMValueRef right = cpu_half_of(e, s, i, false);
        acc = dot_halves(e, cpu_half_of(e, u, i, true), right, acc);
    }
    return acc;
}

/* VPDPBUSD */
static V dot_bytes(struct em *e, V u, V s, V acc)
{
    V args[] = {acc, u, s};
    return by_lanes(e, em_lanes_of(acc), "llvm.x86.avx512.vpdpbusd.512", "llvm.x86.avx512.vpdpbusd.256",
                    "llvm.x86.avx512.vpdpbusd.128", 3, args);
}

/* VDPBF16PS */
static V dot_bf16(struct em *e, V a, V b, V acc)
{
    LLVMTypeRef t = em_vec(LLVMBFloatTypeInContext(e->lc), em_lanes_of(acc) * 2);
    V args[] = {acc, LLVMBuildBitCast(e->b, a, t, ""), LLVMBuildBitCast(e->b, b, t, "")};
    return by_lanes(e, em_lanes_of(acc), "llvm.x86.avx512bf16.dpbf16ps.512", "llvm.x86.avx512bf16.dpbf16ps.256",
                    "llvm.x86.avx512bf16.dpbf16ps.128", 3, args);
}

/* VCVTNEPS2BF16 */
static V flushed_bf16(struct em *e, V v)
{
    int lanes = em_lanes_of(v);
    if (lanes != 8 && lanes != 16)
        return NULL;
    const char *name = lanes == 16 ? "llvm.x86.avx512bf16.cvtneps2bf16.512" : "llvm.x86.avx512bf16.cvtneps2bf16.256";
    return em_intrinsic(e, name, 0, NULL, 1, &v);
}

/* -- The table ----------------------------------------------------------------------------------------------- */

/* VDPBF16PS is used where it is faster than two multiply-adds of floats: it is on AMD's Zen 4 (twice), it is not on
 * Intel's processors with AVX512-FP16 (measured on Sapphire Rapids: a quarter of the rate of a multiply-add), which
 * leave bf16 to AMX. Multiply-adds of f16 are twice as many a cycle as of f32. */
static void describe(struct cpu_machine *m)
{
    bool wide = has(m, X86_AVX512F);
    m->emit.fma = has(m, X86_FMA);
    m->emit.masks = has(m, X86_AVX512VL) && has(m, X86_AVX512BW);
    m->emit.gathers = has(m, X86_AVX512VL);
    m->emit.converts_f16 = has(m, X86_F16C);
    m->emit.round_to_int = round_to_int;
    m->emit.narrows_saturated = !wide; /* PACKSSDW, PACKUSWB; else VPMOVDB */
    m->emit.scale = wide ? scale : NULL;
    m->emit.looked_up = wide ? 16 : has(m, X86_AVX2) ? 8 : 0;
    m->emit.look_up = m->emit.looked_up ? look_up : NULL;
    m->emit.flushed_bf16 = has(m, X86_AVX512BF16) ? flushed_bf16 : NULL;
    m->multiplies_bytes = has(m, X86_AVX512VNNI) || (has(m, X86_AVXVNNI) && m->emit.vector_bytes <= 32);
    m->multiplies_bf16 = has(m, X86_AVX512BF16) && !has(m, X86_AVX512FP16);
    m->multiplies_f16 = has(m, X86_AVX512FP16) && m->emit.vector_bytes == 64;
    m->shuffles_bytes = has(m, X86_AVX512BW);
    m->dot_bytes = m->multiplies_bytes ? dot_bytes : dot_bytes_by_halves;
    m->dot_halves = dot_halves;
    m->dot_bf16 = dot_bf16;
}

static void initialise(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

/* The whole vector width is used. */
#define WHOLE "-prefer-256-bit"
static const struct cpu_level levels[] = {[2] = {"x86-64-v2", "x86-64-v2", WHOLE, 16, 16, 256 << 10},
                                          [3] = {"x86-64-v3", "x86-64-v3", WHOLE, 32, 16, 256 << 10},
                                          [4] = {"x86-64-v4", "x86-64-v4", WHOLE, 64, 32, 1 << 20}};

static const char *const folders[] = {
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", NULL};

static const uint8_t entry_code[] = {0x48, 0x89, 0xf1,             /* mov rcx, rsi */
                                     0x48, 0x89, 0xfa,             /* mov rdx, rdi */
                                     0xbe, 0,    0,    0, 0,       /* mov esi, number */
                                     0x48, 0x8b, 0x3d, 0, 0, 0, 0, /* mov rdi, [rip + its place in the GOT] */
                                     0xe9, 0,    0,    0, 0};      /* jmp */
static const struct cpu_entry entry = {
    entry_code, sizeof entry_code, .number_at = 7, .most = INT32_MAX,
    .relocations = {{ENTRY_MODEL, 14, R_X86_64_REX_GOTPCRELX, -4}, {ENTRY_CALL, 19, R_X86_64_PLT32, -4}}};

const struct cpu_isa cpu_isa_x86 = {.name = "x86-64",
                                    .triple = "x86_64-unknown-linux-gnu",
                                    .prefix = "native:",
                                    .levels = levels,
                                    .nlevels = sizeof levels / sizeof *levels,
                                    .features = features,
                                    .nfeatures = X86_NFEATURES,
                                    .cpu_has_level = true,
                                    .initialise = initialise,
                                    .describe = describe,
                                    .elf_machine = EM_X86_64,
                                    .elf_pointer = R_X86_64_64,
                                    .elf_large = SHF_X86_64_LARGE,
                                    .entry = &entry,
                                    .folders = folders,
                                    .debian = "x86_64-linux-gnu",
                                    .cc = "x86_64-linux-gnu-gcc"};
