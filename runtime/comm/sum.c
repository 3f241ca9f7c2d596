/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions over ranks: n ranks' elements become one, in the order of ranks, so that the result depends neither on how
 * messages were cut nor on when they came. Floats narrower than float32 are reduced in float32 and rounded once at the
 * end.
 *
 * Work is done in blocks that fit the L1 cache and have a constant length, which lets compilers vectorise each loop
 * without code for odd lengths; the last block is padded. The functions of floats exist twice, the second time for
 * AVX2.
 */
#include <complex.h>
#include <string.h>

#include "runtime/comm/comm_int.h"
#include "runtime/libop/libop_int.h"
#include "base/mutant.h"

#define BLOCK 1024

static const char *const names[] = {"sum", "avg", "min", "max", "product", "and", "or", "xor"};

int tcr_reduction_by_name(const char *name)
{
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static bool is_float(int dtype)
{
    switch (dtype) {
    case TCC_F32:
    case TCC_F64:
    case TCC_F16:
    case TCC_BF16:
    case TCC_C64:
    case TCC_C128:
    case TCC_F8E4M3FN:
    case TCC_F8E4M3FNUZ:
    case TCC_F8E5M2:
    case TCC_F8E5M2FNUZ:
    case TCC_F4E2M1:
    case TCC_F8E8M0: return true;
    default: return false;
    }
}

int tcr_reduction_check(int dtype, int how, double scale)
{
    bool compares = how == TCCRT_MIN || how == TCCRT_MAX;

    if (how < TCCRT_SUM || how > TCCRT_XOR)
        return tcr_fail(TCC_EUSAGE, "unknown reduction %d", how);
    if (!tcr_dtype_bytes(dtype) || dtype == TCC_STRING)
        return tcr_fail(TCC_EINPUT, "tensors of type %s cannot be reduced", tcr_dtype_name(dtype));
    if (compares && (dtype == TCC_C64 || dtype == TCC_C128))
        return tcr_fail(TCC_EINPUT, "%s of complex numbers", names[how]);
    if (!compares && dtype == TCC_F8E8M0)
        return tcr_fail(TCC_EINPUT, "%s of f8e8m0: only min and max are possible", names[how]);
    if (how >= TCCRT_AND && (is_float(dtype) || dtype == TCC_C64 || dtype == TCC_C128))
        return tcr_fail(TCC_EINPUT, "%s of %s: it is for integers and bool", names[how], tcr_dtype_name(dtype));
    if (how == TCCRT_AVG && dtype == TCC_BOOL)
        return tcr_fail(TCC_EINPUT, "avg of bool");
    if (scale != 1 && !is_float(dtype))
        return tcr_fail(TCC_EINPUT, "a scale of %g for %s: only floats are scaled", scale, tcr_dtype_name(dtype));
    return TCC_OK;
}

/* -- Float32 blocks ------------------------------------------------------------------------------------- */

struct floats {
    void (*load)(int dtype, float *restrict to, const void *from);
    void (*combine)(int how, float *restrict acc, const float *restrict x);
    void (*store)(int dtype, void *to, const float *restrict from, float factor);
};

#define INLINE static inline __attribute__((always_inline))

static inline float from_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t to_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

/* Round to nearest even; NaN stays one. */
static inline uint16_t to_bf16(float f)
{
    uint32_t u = to_bits(f), rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16, nan = (u >> 16) | 0x40;

    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* Exponents are moved by a multiplication, which makes subnormals too; infinities and NaN get theirs afterwards. */
static inline float from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    uint32_t u = to_bits(from_bits(rest) * 0x1p112f);

    u = (h & 0x7c00) == 0x7c00 ? rest | 0x7f800000 : u;
    return from_bits(u | sign);
}

/* Normal results round on the integer; subnormal ones by adding a number whose last place is theirs. */
static inline uint16_t to_f16(float f)
{
    uint32_t u = to_bits(f), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
    uint32_t normal = (m - 0x38000000 + 0xfff + ((m >> 13) & 1)) >> 13;
    uint32_t small = to_bits(from_bits(m) + 0.5f) - 0x3f000000;
    uint32_t h = m < 0x38800000 ? small : normal;

    h = m >= 0x47800000 ? 0x7c00 : h;
    h = m > 0x7f800000 ? 0x7e00 | (m >> 13 & 0x3ff) : h;
    return (uint16_t)(h | sign);
}

INLINE void load_block(int dtype, float *restrict to, const void *from)
{
    const uint16_t *half = from;
    struct tcc_tensor t = {.data = (void *)from, .dtype = dtype};

    switch (dtype) {
    case TCC_F32: memcpy(to, from, BLOCK * sizeof *to); return;
    case TCC_BF16:
        for (int i = 0; i < BLOCK; i++)
            to[i] = from_bits((uint32_t)half[i] << 16);
        return;
    case TCC_F16:
        for (int i = 0; i < BLOCK; i++)
            to[i] = from_f16(half[i]);
        return;
    default:
        for (int i = 0; i < BLOCK; i++)
            to[i] = (float)lib_get(&t, i);
    }
}

INLINE void combine_block(int how, float *restrict acc, const float *restrict x)
{
    switch (how) {
    case TCCRT_MIN:
        for (int i = 0; i < BLOCK; i++)
            acc[i] = ((x[i] < acc[i]) | (x[i] != x[i])) ? x[i] : acc[i];
        return;
    case TCCRT_MAX:
        for (int i = 0; i < BLOCK; i++)
            acc[i] = ((x[i] > acc[i]) | (x[i] != x[i])) ? x[i] : acc[i];
        return;
    case TCCRT_PRODUCT:
        for (int i = 0; i < BLOCK; i++)
            acc[i] *= x[i];
        return;
    default:
        for (int i = 0; i < BLOCK; i++)
            acc[i] += x[i];
    }
}

INLINE void store_block(int dtype, void *to, const float *restrict from, float factor)
{
    uint16_t *half = to;
    float *whole = to;

    switch (dtype) {
    case TCC_F32:
        for (int i = 0; i < BLOCK; i++)
            whole[i] = from[i] * factor;
        return;
    case TCC_BF16:
        for (int i = 0; i < BLOCK; i++)
            half[i] = to_bf16(from[i] * factor);
        return;
    case TCC_F16:
        for (int i = 0; i < BLOCK; i++)
            half[i] = to_f16(from[i] * factor);
        return;
    default:
        for (int i = 0; i < BLOCK; i++)
            lib_put(to, dtype, i, from[i] * factor);
    }
}

#define FLOATS(suffix, attribute)                                                                       \
    attribute static void load_##suffix(int dtype, float *restrict to, const void *from)                \
    {                                                                                                   \
        load_block(dtype, to, from);                                                                    \
    }                                                                                                   \
    attribute static void combine_##suffix(int how, float *restrict acc, const float *restrict x)       \
    {                                                                                                   \
        combine_block(how, acc, x);                                                                     \
    }                                                                                                   \
    attribute static void store_##suffix(int dtype, void *to, const float *restrict from, float factor) \
    {                                                                                                   \
        store_block(dtype, to, from, factor);                                                           \
    }                                                                                                   \
    static const struct floats floats_##suffix = {load_##suffix, combine_##suffix, store_##suffix};

FLOATS(plain, )
#ifdef __x86_64__
FLOATS(avx2, __attribute__((target("avx2"))))
#endif

static const struct floats *floats(void)
{
#ifdef __x86_64__
    static atomic_int known; /* 1: plain, 2: AVX2 */
    int which = atomic_load_explicit(&known, memory_order_relaxed);
    char missing[64];

    if (!which)
        atomic_store(&known, which = 1 + tcr_cpu_runs("x86-64-v3", missing, sizeof missing));
    if (which == 2)
        return &floats_avx2;
#endif
    return &floats_plain;
}

/* -- Blocks of other types ---------------------------------------------------------------------------------- */

static void combine_f64(int how, double *restrict acc, const double *restrict x)
{
    for (int i = 0; i < BLOCK; i++)
        acc[i] = how == TCCRT_MIN       ? (((x[i] < acc[i]) | (x[i] != x[i])) ? x[i] : acc[i])
                 : how == TCCRT_MAX     ? (((x[i] > acc[i]) | (x[i] != x[i])) ? x[i] : acc[i])
                 : how == TCCRT_PRODUCT ? acc[i] * x[i]
                                        : acc[i] + x[i];
}

/* Clang's complex.h has no CMPLX. */
static double complex complex_of(double re, double im)
{
    const double parts[2] = {re, im};
    double complex z;

    memcpy(&z, parts, sizeof z);
    return z;
}

static void combine_complex(int how, double complex *restrict acc, const double complex *restrict x)
{
    for (int i = 0; i < BLOCK; i++)
        acc[i] = how == TCCRT_PRODUCT ? complex_of(creal(acc[i]) * creal(x[i]) - cimag(acc[i]) * cimag(x[i]),
                                                   creal(acc[i]) * cimag(x[i]) + cimag(acc[i]) * creal(x[i]))
                                      : acc[i] + x[i];
}

static bool is_unsigned(int dtype)
{
    return dtype == TCC_U8 || dtype == TCC_U16 || dtype == TCC_U32 || dtype == TCC_U64 || dtype == TCC_BOOL ||
           dtype == TCC_U4 || dtype == TCC_U2;
}

static int64_t load_int(int dtype, const void *from, int i)
{
    switch (dtype) {
    case TCC_U8:
    case TCC_U4:
    case TCC_U2: return ((const uint8_t *)from)[i];
    case TCC_BOOL: return ((const uint8_t *)from)[i] != 0;
    case TCC_I8:
    case TCC_I4:
    case TCC_I2: return ((const int8_t *)from)[i];
    case TCC_U16: return ((const uint16_t *)from)[i];
    case TCC_I16: return ((const int16_t *)from)[i];
    case TCC_U32: return ((const uint32_t *)from)[i];
    case TCC_I32: return ((const int32_t *)from)[i];
    default: return ((const int64_t *)from)[i];
    }
}

static int64_t sign_extend(int64_t v, int bits)
{
    return (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
}

static void store_int(int dtype, void *to, int i, int64_t v)
{
    switch (dtype) {
    case TCC_U4: ((uint8_t *)to)[i] = v & 15; return;
    case TCC_U2: ((uint8_t *)to)[i] = v & 3; return;
    case TCC_I4: ((int8_t *)to)[i] = (int8_t)sign_extend(v, 4); return;
    case TCC_I2: ((int8_t *)to)[i] = (int8_t)sign_extend(v, 2); return;
    case TCC_BOOL: ((uint8_t *)to)[i] = v != 0; return;
    case TCC_U8:
    case TCC_I8: ((uint8_t *)to)[i] = (uint8_t)v; return;
    case TCC_U16:
    case TCC_I16: ((uint16_t *)to)[i] = (uint16_t)v; return;
    case TCC_U32:
    case TCC_I32: ((uint32_t *)to)[i] = (uint32_t)v; return;
    default: ((int64_t *)to)[i] = v;
    }
}

static int64_t combine_int(int dtype, int how, int64_t a, int64_t b)
{
    bool less = MUTANT(45, dtype == TCC_U64, false) ? (uint64_t)b < (uint64_t)a : b < a;

    switch (how) {
    case TCCRT_MIN: return less ? b : a;
    case TCCRT_MAX: return less ? a : b;
    case TCCRT_PRODUCT: return (int64_t)((uint64_t)a * (uint64_t)b);
    case TCCRT_AND: return a & b;
    case TCCRT_OR: return a | b;
    case TCCRT_XOR: return a ^ b;
    default: return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

/* The mean of a sum that has wrapped in 64 bits at most. */
static int64_t mean_int(int dtype, int64_t sum, int n)
{
    return is_unsigned(dtype) ? (int64_t)((uint64_t)sum / (uint64_t)n) : sum / n;
}

/* -- One block of n ranks ------------------------------------------------------------------------------------- */

struct reduction {
    int dtype, how, n;
    double factor; /* of the result, the mean's included */
    size_t size;   /* bytes of an element */
    const struct floats *f;
    const void *const *in; /* of rank k */
    size_t at, valid;      /* this block: byte offset, elements */
};

/* Rank k's block; a short one is completed with zeros in `pad`. */
static const void *source(const struct reduction *r, int k, void *pad)
{
    const char *from = (const char *)r->in[k] + r->at;

    if (r->valid == BLOCK)
        return from;
    memset(pad, 0, BLOCK * r->size);
    memcpy(pad, from, r->valid * r->size);
    return pad;
}

static void reduce_floats(const struct reduction *r, void *out)
{
    _Alignas(64) float acc[BLOCK], x[BLOCK], pad[BLOCK];

    r->f->load(r->dtype, acc, source(r, 0, pad));
    for (int k = 1; k < r->n; k++) {
        const void *from = source(r, k, pad);

        if (r->dtype == TCC_F32 && (uintptr_t)from % sizeof *x == 0) {
            r->f->combine(r->how, acc, from);
            continue;
        }
        r->f->load(r->dtype, x, from);
        r->f->combine(r->how, acc, x);
    }
    r->f->store(r->dtype, out, acc, (float)r->factor);
}

static void reduce_f64(const struct reduction *r, void *out)
{
    double acc[BLOCK], x[BLOCK], pad[BLOCK];

    memcpy(acc, source(r, 0, pad), sizeof acc);
    for (int k = 1; k < r->n; k++) {
        memcpy(x, source(r, k, pad), sizeof x);
        combine_f64(r->how, acc, x);
    }
    for (int i = 0; i < BLOCK; i++)
        ((double *)out)[i] = acc[i] * r->factor;
}

static void load_complex(int dtype, double complex *to, const void *from)
{
    for (int i = 0; i < BLOCK; i++)
        to[i] = dtype == TCC_C128 ? ((const double complex *)from)[i]
                                  : complex_of(((const float *)from)[2 * i], ((const float *)from)[2 * i + 1]);
}

static void reduce_complex(const struct reduction *r, void *out)
{
    double complex acc[BLOCK], x[BLOCK], pad[BLOCK];

    load_complex(r->dtype, acc, source(r, 0, pad));
    for (int k = 1; k < r->n; k++) {
        load_complex(r->dtype, x, source(r, k, pad));
        combine_complex(r->how, acc, x);
    }
    for (int i = 0; i < BLOCK; i++) {
        double re = creal(acc[i]) * r->factor, im = cimag(acc[i]) * r->factor;

        if (r->dtype == TCC_C128) {
            ((double *)out)[2 * i] = re;
            ((double *)out)[2 * i + 1] = im;
        } else {
            ((float *)out)[2 * i] = (float)re;
            ((float *)out)[2 * i + 1] = (float)im;
        }
    }
}

static void reduce_ints(const struct reduction *r, void *out)
{
    int64_t acc[BLOCK], pad[BLOCK];
    const void *from = source(r, 0, pad);

    for (int i = 0; i < BLOCK; i++)
        acc[i] = load_int(r->dtype, from, i);
    for (int k = 1; k < r->n; k++) {
        from = source(r, k, pad);
        for (int i = 0; i < BLOCK; i++)
            acc[i] = combine_int(r->dtype, r->how, acc[i], load_int(r->dtype, from, i));
    }
    for (int i = 0; i < BLOCK; i++)
        store_int(r->dtype, out, i,
                  r->how == TCCRT_AVG ? mean_int(MUTANT(46, r->dtype, TCC_I64), acc[i], r->n) : acc[i]);
}

void tcr_reduce(int dtype, int how, double scale, int ranks, const void *const *in, void *out, int64_t n)
{
    struct reduction r = {dtype, how, ranks, scale, (size_t)tcr_dtype_bytes(dtype), floats(), in, 0, BLOCK};
    bool floating = is_float(dtype), is_complex = dtype == TCC_C64 || dtype == TCC_C128;
    _Alignas(64) char pad[BLOCK * sizeof(double complex)];

    if (how == TCCRT_AVG && MUTANT(40, floating, false))
        r.factor /= ranks;
    for (int64_t i = 0; i < n; i += BLOCK) {
        char *to = (char *)out + (size_t)i * r.size;
        bool whole = n - i >= BLOCK;

        r.at = (size_t)i * r.size;
        r.valid = whole ? BLOCK : (size_t)(n - i);
        (dtype == TCC_F64 ? reduce_f64
         : is_complex     ? reduce_complex
         : floating       ? reduce_floats
                          : reduce_ints)(&r, whole ? to : pad);
        if (!whole)
            memcpy(to, pad, r.valid * r.size);
    }
}
