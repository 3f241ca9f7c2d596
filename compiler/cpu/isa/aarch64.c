/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aarch64.c - AArch64: code is for 32 vectors of 128 bits (NEON, SVE's masks and gathers), or with SVE256 of 256. What
 * SVE has no general operation of LLVM's for works on scalable vectors, whose length LLVM is told. Sources: Arm
 * Architecture Reference Manual (DDI 0487); ELF for the Arm 64-bit Architecture (IHI 0056).
 */
#include "compiler/cpu/emit_int.h"
#include "compiler/cpu/isa/isa_int.h"

#include <elf.h>
#include <string.h>

#define V LLVMValueRef

enum { ARMV8 = 1, ARMV82, ARMV86, ARMV9 };
enum { V8 = 1 << ARMV8, V82 = 1 << ARMV82, V86 = 1 << ARMV86, V9 = 1 << ARMV9 };

enum arm_feature {
#define FEATURE(id, name, llvm, levels) ARM_##id,
#include "compiler/cpu/isa/aarch64.def"
    ARM_NFEATURES
};
static const struct cpu_feature features[] = {
#define FEATURE(id, name, llvm, levels) {name, llvm, levels, ARMV8},
#include "compiler/cpu/isa/aarch64.def"
};

static bool has(const struct cpu_machine *m, enum arm_feature f)
{
    return m->features >> f & 1;
}

enum { SVE256_LANES = 8 };

/* Is that a whole vector of SVE's 256 bits, by lanes of 32? */
static bool is_sve256(struct em *e, V v)
{
    return em_lanes_of(v) == SVE256_LANES && has(em_cpu(e), ARM_SVE256);
}

/* FCVTNS rounds to nearest even; SVE has FRINTN and FCVTZS. */
static V round_to_int(struct em *e, V v)
{
    LLVMTypeRef types[2] = {em_like(e->t_i32, v), LLVMTypeOf(v)};
    if (em_lanes_of(v) == 4)
        return em_intrinsic(e, "llvm.aarch64.neon.fcvtns", 2, types, 1, &v);
    return is_sve256(e, v) ? LLVMBuildFPToSI(e->b, em_unary_intrinsic(e, "llvm.roundeven", v), *types, "") : NULL;
}

/* The first `lanes` of v, and any behind them. */
static V resized(struct em *e, V v, int lanes)
{
    V at[8];
    for (int i = 0; i < lanes; i++)
        at[i] = LLVMConstInt(e->t_i32, (unsigned)(i % em_lanes_of(v)), 0);
    return LLVMBuildShuffleVector(e->b, v, LLVMGetUndef(LLVMTypeOf(v)), LLVMConstVector(at, (unsigned)lanes), "");
}

/* Lanes [half * n / 2, (half + 1) * n / 2) of n. */
static V half_of(struct em *e, V v, int half)
{
    V at[8];
    int n = em_lanes_of(v) / 2;
    for (int i = 0; i < n; i++)
        at[i] = LLVMConstInt(e->t_i32, (unsigned)(n * half + i), 0);
    return LLVMBuildShuffleVector(e->b, v, v, LLVMConstVector(at, (unsigned)n), "");
}

/* The lanes of a, and behind them those of b. */
static V joined(struct em *e, V a, V b)
{
    V at[16];
    int n = 2 * em_lanes_of(a);
    for (int i = 0; i < n; i++)
        at[i] = LLVMConstInt(e->t_i32, (unsigned)i, 0);
    return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(at, (unsigned)n), "");
}

/* Four floats as integers of 16 bits. Sums with `zero` that f32 rounds are beyond bytes' range. */
static V to_short(struct em *e, V y, double zero, bool round)
{
    LLVMTypeRef four = em_vec(e->t_i16, 4), types[2] = {em_vec(e->t_i32, 4), LLVMTypeOf(y)};
    bool moved = round && zero != 0;
    y = moved ? LLVMBuildFAdd(e->b, em_unary_intrinsic(e, "llvm.roundeven", y), em_fp(LLVMTypeOf(y), zero), "") : y;
    V i = round && !moved ? round_to_int(e, y) : em_intrinsic(e, "llvm.fptosi.sat", 2, types, 1, &y);
    return em_intrinsic(e, "llvm.aarch64.neon.sqxtn", 1, &four, 1, &i);
}

/* FCVTNS and FCVTZS saturate and give 0 for NaN, and what narrows saturates too: nothing is compared. */
static V to_byte(struct em *e, enum tcc_dtype to, V y, double zero, bool round)
{
    LLVMTypeRef bytes = em_vec(e->t_i8, 8);
    int lanes = em_lanes_of(y);
    if (LLVMGetElementType(LLVMTypeOf(y)) != e->t_f32 || zero < -255 || zero > 255 ||
        (lanes != 4 && (lanes != 8 || has(em_cpu(e), ARM_SVE256))))
        return NULL;
    V low = to_short(e, lanes == 8 ? half_of(e, y, 0) : y, zero, round), i;
    i = lanes == 8 ? joined(e, low, to_short(e, half_of(e, y, 1), zero, round)) : resized(e, low, 8);
    i = em_intrinsic(e, tcc_is_signed(to) ? "llvm.aarch64.neon.sqxtn" : "llvm.aarch64.neon.sqxtun", 1, &bytes, 1, &i);
    return resized(e, i, lanes);
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

/* Products of bytes fit 16 bits; SADDLP adds two of them: half[i] has those of 32-bit lanes 2 * i and 2 * i + 1. */
static void pairs_of_products(struct em *e, V a, V b, bool a_signed, V *half)
{
    LLVMTypeRef sixteen = em_vec(e->t_i8, 16), types[2] = {em_vec(e->t_i32, 4), em_vec(e->t_i16, 8)};
    a = LLVMBuildBitCast(e->b, a, sixteen, "");
    b = LLVMBuildBitCast(e->b, b, sixteen, "");
    for (int i = 0; i < 2; i++) {
        LLVMValueRef right = widened(e, b, i, true);
        V products = LLVMBuildMul(e->b, widened(e, a, i, a_signed), right, "");
        half[i] = em_intrinsic(e, "llvm.aarch64.neon.saddlp", 2, types, 1, &products);
    }
}

static V add_pairs(struct em *e, const V *half)
{
    LLVMTypeRef lanes = LLVMTypeOf(half[0]);
    return em_intrinsic(e, "llvm.aarch64.neon.addp", 1, &lanes, 2, half);
}

static V join_pairs(struct em *e, V acc)
{
    return add_pairs(e, (V[]){half_of(e, acc, 0), half_of(e, acc, 1)});
}

static V dot_bytes_by_halves(struct em *e, V u, V s, V acc)
{
    V half[2];
    pairs_of_products(e, u, s, false, half);
    return LLVMBuildAdd(e->b, acc, add_pairs(e, half), "");
}

/* v, of whose lanes LLVM knows nothing: else it makes one half of a splat and takes the other side's upper half to the
 * lower (EXT), where SMULL2 reads it. */
static V opaque(struct em *e, V v)
{
    LLVMTypeRef t = LLVMTypeOf(v), f = LLVMFunctionType(t, &t, 1, 0);
    V call =
        LLVMBuildCall2(e->b, f, LLVMGetInlineAsm(f, "", 0, "=w,0", 4, 0, 0, LLVMInlineAsmDialectATT, 0), &v, 1, "");
    unsigned memory = LLVMGetEnumAttributeKindForName("memory", 6); /* 0: none, so that equal calls are one */
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->lc, memory, 0));
    return call;
}

/* SMULL, SMULL2 and twice SADALP: A72 and A53 multiply no more of bytes. */
static V dot_bytes_pairs(struct em *e, V a, V b, V acc)
{
    V half[2];
    pairs_of_products(e, opaque(e, a), b, true, half);
    for (int i = 0; i < 2; i++)
        half[i] = LLVMBuildAdd(e->b, half_of(e, acc, i), half[i], "");
    return joined(e, half[0], half[1]);
}

/* A vector of 128 or 256 bits as SVE's functions take it. */
static V scalable(struct em *e, V v)
{
    LLVMTypeRef t = LLVMGetElementType(LLVMTypeOf(v));
    unsigned lanes = t == e->t_f64 || t == e->t_i64 ? 2 : 4;
    LLVMTypeRef types[2] = {LLVMScalableVectorType(t, lanes), LLVMTypeOf(v)};
    return em_intrinsic(e, "llvm.vector.insert", 2, types, 3, (V[]){LLVMGetPoison(*types), v, em_i64(e, 0)});
}

/* Its lanes of 32 bits as elements of type t: floats, bytes or bf16. */
static V elements(struct em *e, V v, LLVMTypeRef t)
{
    LLVMTypeRef of = LLVMGetElementType(LLVMTypeOf(v));
    return t == of ? v : LLVMBuildBitCast(e->b, v, LLVMScalableVectorType(t, t == e->t_i8 ? 16 : 8), "");
}

/* a and b: scalable; by that lane of b, or all. */
static V by_sve(struct em *e, const char *name, V acc, V a, V b, V lane)
{
    V args[4] = {scalable(e, acc), a, b, lane};
    LLVMTypeRef types[2] = {LLVMTypeOf(acc), LLVMTypeOf(*args)};
    bool overloaded = LLVMIntrinsicIsOverloaded(LLVMLookupIntrinsicID(name, strlen(name)));
    V sums = em_intrinsic(e, name, overloaded, types + 1, lane ? 4 : 3, args);
    return em_intrinsic(e, "llvm.vector.extract", 2, types, 2, (V[]){sums, em_i64(e, 0)});
}

/* Lanes multiplied in groups of elements of type t, by an instruction that NEON and SVE have. */
static V dot(struct em *e, const char *neon, const char *sve, LLVMTypeRef t, V acc, V a, V b)
{
    if (is_sve256(e, acc)) {
        LLVMValueRef right = elements(e, scalable(e, b), t);
        return by_sve(e, sve, acc, elements(e, scalable(e, a), t), right, NULL);
    }
    LLVMTypeRef types[2] = {LLVMTypeOf(acc), em_vec(t, t == e->t_i8 ? 16 : 8)};
    V args[3] = {acc, LLVMBuildBitCast(e->b, a, types[1], ""), LLVMBuildBitCast(e->b, b, types[1], "")};
    return em_intrinsic(e, neon, 2, types, 3, args);
}

/* USDOT */
static V dot_bytes_mixed(struct em *e, V u, V s, V acc)
{
    return dot(e, "llvm.aarch64.neon.usdot", "llvm.aarch64.sve.usdot", e->t_i8, acc, u, s);
}

/* SDOT, whose two sides are signed; A comes last, as its lanes can. */
static V dot_bytes_signed(struct em *e, V a, V b, V acc)
{
    V half[2];
    if (!em_cpu(e)->multiplies_bytes) {
        pairs_of_products(e, a, b, true, half);
        return LLVMBuildAdd(e->b, acc, add_pairs(e, half), "");
    }
    return dot(e, "llvm.aarch64.neon.sdot", "llvm.aarch64.sve.sdot", e->t_i8, acc, b, a);
}

/* u - 128 is signed, and 128 times s is taken away again (-128 is a signed byte, 128 is none). */
static V dot_bytes_shifted(struct em *e, V u, V s, V acc)
{
    V top = em_int(LLVMTypeOf(acc), (int)0x80808080), lower = LLVMBuildXor(e->b, u, top, "");
    V less = dot_bytes_signed(e, top, s, LLVMConstNull(LLVMTypeOf(acc)));
    return LLVMBuildSub(e->b, dot_bytes_signed(e, lower, s, acc), less, "");
}

/* Vectors of fewer than 16 bytes: of no more lanes than there are points. */
static V dot_bytes(struct em *e, V u, V s, V acc)
{
    if (em_lanes_of(acc) != 4 && !is_sve256(e, acc))
        return cpu_dot_bytes_plain(e, u, s, acc);
    const struct cpu_machine *m = em_cpu(e);
    return has(m, ARM_I8MM)                           ? dot_bytes_mixed(e, u, s, acc)
           : has(m, ARM_DOTPROD) || is_sve256(e, acc) ? dot_bytes_shifted(e, u, s, acc)
                                                      : dot_bytes_by_halves(e, u, s, acc);
}

/* SMLAL, of 16 bits in each lane; SVE's loads widen bytes to 32. */
static V multiply_bytes(struct em *e, V u, V s, V acc)
{
    bool words = em_lanes_of(acc) == 4;
    LLVMTypeRef types[2] = {LLVMTypeOf(acc), em_vec(e->t_i16, em_lanes_of(acc))}, t = words ? types[1] : types[0];
    V args[2] = {LLVMBuildZExt(e->b, u, t, ""), LLVMBuildSExt(e->b, s, t, "")};
    V product = words ? em_intrinsic(e, "llvm.aarch64.neon.smull", 1, types, 2, args)
                      : LLVMBuildMul(e->b, args[0], args[1], "");
    return LLVMBuildAdd(e->b, acc, product, "");
}

/* BFDOT, whose products and sums are rounded to odd. */
static V dot_bf16(struct em *e, V a, V b, V acc)
{
    return dot(e, "llvm.aarch64.neon.bfdot", "llvm.aarch64.sve.bfdot", LLVMBFloatTypeInContext(e->lc), acc, b, a);
}

/* 128 bits, repeated in a whole vector of SVE's, which their load does (LD1RQ), as elements of type t. */
static V repeated(struct em *e, V a, LLVMTypeRef t)
{
    V quad = scalable(e, a);
    LLVMTypeRef type = LLVMTypeOf(quad);
    return elements(e, em_intrinsic(e, "llvm.aarch64.sve.dupq.lane", 1, &type, 2, (V[]){quad, em_i64(e, 0)}), t);
}

/* SVE's lanes are those of each 128 bits. */
static V lane_product(struct em *e, enum cpu_product what, V a, int lane, V b, V acc)
{
    static const struct {
        const char *name;
        enum arm_feature needs;
    } by[] = {[CPU_FLOATS] = {"llvm.aarch64.sve.fmla.lane", ARM_SVE256},
              [CPU_BYTES_SIGNED] = {"llvm.aarch64.sve.sdot.lane", ARM_SVE256},
              [CPU_BYTES_A_UNSIGNED] = {"llvm.aarch64.sve.sudot.lane", ARM_I8MM},
              [CPU_BYTES_B_UNSIGNED] = {"llvm.aarch64.sve.usdot.lane", ARM_I8MM},
              [CPU_BF16] = {"llvm.aarch64.sve.bfdot.lane.v2", ARM_BF16},
              [CPU_OTHERS] = {NULL, ARM_NEON}};
    LLVMTypeRef t = LLVMGetElementType(LLVMTypeOf(b));
    if (!by[what].name || !has(em_cpu(e), by[what].needs) || em_lanes_of(acc) != (t == e->t_f64 ? 4 : 8))
        return NULL;
    if (what != CPU_FLOATS)
        t = what == CPU_BF16 ? LLVMBFloatTypeInContext(e->lc) : e->t_i8;
    b = elements(e, scalable(e, b), t);
    return by_sve(e, by[what].name, acc, b, repeated(e, a, t), LLVMConstInt(e->t_i32, (unsigned)lane, 0));
}

/* USMMLA, whose first operand's bytes are the unsigned ones, and BFMMLA. */
static V square_product(struct em *e, enum cpu_product what, V a, V b, V acc)
{
    bool bytes = what != CPU_BF16, swapped = what == CPU_BYTES_B_UNSIGNED;
    if (!has(em_cpu(e), bytes ? ARM_I8MM : ARM_BF16) || (em_lanes_of(acc) != 4 && !is_sve256(e, acc)))
        return NULL;
    LLVMTypeRef t = bytes ? e->t_i8 : LLVMBFloatTypeInContext(e->lc);
    if (is_sve256(e, acc)) {
        V rows = repeated(e, a, t), columns = elements(e, scalable(e, b), t);
        return by_sve(e, bytes ? "llvm.aarch64.sve.usmmla" : "llvm.aarch64.sve.bfmmla", acc, swapped ? columns : rows,
                      swapped ? rows : columns, NULL);
    }
    LLVMTypeRef types[2] = {LLVMTypeOf(acc), em_vec(t, bytes ? 16 : 8)};
    a = LLVMBuildBitCast(e->b, a, types[1], "");
    b = LLVMBuildBitCast(e->b, b, types[1], "");
    V args[3] = {acc, swapped ? b : a, swapped ? a : b};
    return em_intrinsic(e, bytes ? "llvm.aarch64.neon.usmmla" : "llvm.aarch64.neon.bfmmla", bytes ? 2 : 0, types, 3,
                        args);
}

/* -- Gathers at 128 bits ------------------------------------------------------------------------------------- */

/* SVE's predicate of two lanes of 64 bits, whatever its vectors hold behind them; of those the ones with `mask`. */
static V two_lanes(struct em *e, V mask)
{
    enum { VL2 = 2 };
    LLVMTypeRef i64 = LLVMScalableVectorType(e->t_i64, 2), on = LLVMScalableVectorType(e->t_i1, 2);
    V pattern = LLVMConstInt(e->t_i32, VL2, 0), both = em_intrinsic(e, "llvm.aarch64.sve.ptrue", 1, &on, 1, &pattern);
    if (!mask)
        return both;
    V wide = scalable(e, LLVMBuildSExt(e->b, mask, em_vec(e->t_i64, 2), ""));
    return em_intrinsic(e, "llvm.aarch64.sve.cmpne", 1, &i64, 3, (V[]){both, wide, LLVMConstNull(i64)});
}

/* Two addresses at once, whose elements come as integers of 64 bits. For bytes that is more than a load a lane. */
static V gather(struct em *e, V pointers, V mask, int bytes)
{
    V part[EM_MAX_LANES / 2];
    int lanes = em_lanes_of(pointers);
    if (lanes % 2 || bytes == 1)
        return NULL;
    LLVMTypeRef element = LLVMIntTypeInContext(e->lc, 8 * (unsigned)bytes), two = em_vec(e->t_i64, 2);
    LLVMTypeRef i64 = LLVMScalableVectorType(e->t_i64, 2), loaded[2] = {LLVMScalableVectorType(element, 2), i64};
    for (int i = 0; i < lanes; i += 2) {
        LLVMValueRef on = two_lanes(e, mask ? em_part(e, mask, i, 2) : NULL);
        V at = scalable(e, LLVMBuildPtrToInt(e->b, em_part(e, pointers, i, 2), two, ""));
        V v = em_intrinsic(e, "llvm.aarch64.sve.ld1.gather.scalar.offset", 2, loaded, 3, (V[]){on, at, em_i64(e, 0)});
        v = bytes < 8 ? LLVMBuildZExt(e->b, v, i64, "") : v;
        v = em_intrinsic(e, "llvm.vector.extract", 2, (LLVMTypeRef[]){two, i64}, 2, (V[]){v, em_i64(e, 0)});
        part[i / 2] = LLVMBuildTrunc(e->b, v, em_vec(element, 2), "");
    }
    return lanes == 2 ? *part : em_side_by_side(e, lanes / 2, part);
}

/* -- The table ----------------------------------------------------------------------------------------------- */

static void describe(struct cpu_machine *m)
{
    bool sve256 = has(m, ARM_SVE256);
    if (sve256)
        m->emit.vector_bytes = 32;
    m->emit.vscale = sve256 ? 2 : 0;
    m->emit.masks = m->emit.gathers = sve256;
    m->emit.gather = has(m, ARM_SVE) && !sve256 ? gather : NULL;
    m->emit.word_bytes = 4; /* NEON's least vectors have 8 */
    m->emit.fma = true;
    m->emit.converts_f16 = true;
    m->emit.round_to_int = round_to_int;
    m->emit.to_byte = to_byte;
    m->emit.passes_nan = true;
    m->multiplies_bytes = has(m, ARM_DOTPROD) || sve256; /* SVE has SDOT in any case */
    m->lane_bytes = 16;
    m->lane_rows = sve256 ? 8 : m->registers; /* SVE's number a register by three bits */
    m->lane_product = sve256 ? lane_product : NULL;
    m->multiplies_bf16 = m->squares_bf16 = has(m, ARM_BF16);
    m->multiplies_f16 = has(m, ARM_FP16);
    m->squares_bytes = has(m, ARM_I8MM);
    m->square_product = square_product;
    m->dot_bf16 = dot_bf16;
    m->dot_bytes = dot_bytes;
    m->multiply_bytes = multiply_bytes;
    m->dot_bytes_signed = has(m, ARM_I8MM) ? NULL : dot_bytes_signed;
    if (!m->multiplies_bytes) {
        m->dot_bytes_pairs = dot_bytes_pairs;
        m->join_pairs = join_pairs;
    }
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
                                          {"neoverse-v1", "neoverse-v1", N1 "+bf16+i8mm+sve+sve256", 1 << 20},
                                          {"neoverse-n2", "neoverse-n2", "armv9-a+bf16+i8mm", 1 << 20},
                                          {"neoverse-v2", "neoverse-v2", "armv9-a+bf16+i8mm", 1 << 20},
                                          {"grace", "neoverse-v2", "armv9-a+bf16+i8mm", 1 << 20},
                                          {"apple-m1", "apple-m1", N1, 4 << 20},
                                          {NULL, NULL, NULL, 0}};

static const char *const folders[] = {"/usr/aarch64-linux-gnu/lib", "/lib/aarch64-linux-gnu",
                                      "/usr/lib/aarch64-linux-gnu", "/usr/aarch64-linux-gnu/lib64", NULL};

static const uint8_t entry_code[] = {0xe3, 0x03, 0x01, 0xaa,  /* mov x3, x1 */
                                     0xe2, 0x03, 0x00, 0xaa,  /* mov x2, x0 */
                                     0x01, 0x00, 0x80, 0x52,  /* mov w1, number */
                                     0x00, 0x00, 0x00, 0x90,  /* adrp x0, its place in the GOT */
                                     0x00, 0x00, 0x40, 0xf9,  /* ldr x0, [x0 + what adrp leaves] */
                                     0x00, 0x00, 0x00, 0x14}; /* b */
static const struct cpu_entry entry = {entry_code,
                                       sizeof entry_code,
                                       .number_at = 8,
                                       .number_shift = 5,
                                       .most = UINT16_MAX,
                                       .relocations = {{ENTRY_MODEL, 12, R_AARCH64_ADR_GOT_PAGE, 0},
                                                       {ENTRY_MODEL, 16, R_AARCH64_LD64_GOT_LO12_NC, 0},
                                                       {ENTRY_CALL, 20, R_AARCH64_JUMP26, 0}}};

const struct cpu_isa cpu_isa_aarch64 = {.name = "aarch64",
                                        .triple = "aarch64-unknown-linux-gnu",
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
                                        .entry = &entry,
                                        .folders = folders,
                                        .debian = "aarch64-linux-gnu",
                                        .page_option = "max-page-size=65536",
                                        .cc = "aarch64-linux-gnu-gcc -mno-outline-atomics"};
