/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accuracy of vector math, against the C library in long double: at most 2 ULP for f32, 4 ULP for f64; fmod exact; 1 +
 * erf, which has a way of its own as 1 + exp has, in ULP of 1. Sweeps
 * random bit patterns, points around the edges of each function's branches, and specials; every --march that can run
 * here.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kernels.h"
#include "tests/unit/suite.h"

#define POINTS 40000

struct function {
    enum ir_op word;
    const char *name;
    long double (*one)(long double);
    long double (*two)(long double, long double);
    double exponent; /* unless 0, the second argument is this constant */
};

static long double one_plus_erf(long double x)
{
    return 1 + erfl(x);
}

static long double one_plus_exp(long double x)
{
    return 1 + expl(x);
}

static long double one_plus_gelu(long double x)
{
    return 1 + tanhl(sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x));
}

static const struct function functions[] = {
    {IR_exp, "exp", expl, NULL, 0},
    {IR_expm1, "expm1", expm1l, NULL, 0},
    {IR_log, "log", logl, NULL, 0},
    {IR_log1p, "log1p", log1pl, NULL, 0},
    {IR_sin, "sin", sinl, NULL, 0},
    {IR_cos, "cos", cosl, NULL, 0},
    {IR_tan, "tan", tanl, NULL, 0},
    {IR_asin, "asin", asinl, NULL, 0},
    {IR_acos, "acos", acosl, NULL, 0},
    {IR_atan, "atan", atanl, NULL, 0},
    {IR_sinh, "sinh", sinhl, NULL, 0},
    {IR_cosh, "cosh", coshl, NULL, 0},
    {IR_tanh, "tanh", tanhl, NULL, 0},
    {IR_asinh, "asinh", asinhl, NULL, 0},
    {IR_acosh, "acosh", acoshl, NULL, 0},
    {IR_atanh, "atanh", atanhl, NULL, 0},
    {IR_erf, "erf", erfl, NULL, 0},
    {IR_pow, "pow", NULL, powl, 0},
    {IR_fmod, "fmod", NULL, fmodl, 0},
    {IR_erf, "1 + erf", one_plus_erf, NULL, 0},
    {IR_pow, "x^(1/4)", NULL, powl, 0.25},
    {IR_pow, "x^(1/2)", NULL, powl, 0.5},
    {IR_pow, "x^(3/4)", NULL, powl, 0.75},
    {IR_pow, "x^(5/4)", NULL, powl, 1.25},
    {IR_pow, "x^(3/2)", NULL, powl, 1.5},
    {IR_pow, "x^(7/4)", NULL, powl, 1.75},
    {IR_pow, "x^(-3/4)", NULL, powl, -0.75},
    {IR_exp, "1 + exp", one_plus_exp, NULL, 0},
    {IR_tanh, "GELU", one_plus_gelu, NULL, 0},
};
#define NFUNCTIONS ((int)(sizeof functions / sizeof *functions))

/* Is 1 added to the word's value? */
static bool adds_one(const struct function *f)
{
    return f->one == one_plus_erf || f->one == one_plus_exp || f->one == one_plus_gelu;
}

static uint64_t state;

static uint64_t next(void)
{
    return hk_random(&state);
}

/* Points: specials, then thirds of any bits, moderate sizes, and small sizes near the branches. */
static double point(int i, bool f64, bool second)
{
    static const double specials[] = {0.0,  -0.0, INFINITY, -INFINITY, NAN,      1,         -1,       0.5,
                                      -0.5, 2,    -2,       3,         0x1p-149, 0x1p-1074, 0x1p-126, 0x1p-1022,
                                      88.7, 88.8, -103.9,   -104,      709.7,    709.8,     -745.1,   -746,
                                      1e10, 1e22, 0x1p100,  -7,        1e30,     3.92,      -3.92,    0.625};
    int n = (int)(sizeof specials / sizeof *specials);
    if (i < n * n)
        return second ? specials[i / n] : specials[i % n];
    uint64_t r = next();
    double u = (double)(int64_t)next() * 0x1p-63, v;
    if (i % 4 == 0) {
        uint32_t r32 = (uint32_t)r;
        float f;
        memcpy(&f, &r32, 4);
        memcpy(&v, &r, 8);
        return f64 ? v : f;
    }
    return i % 4 == 1 ? u * 100 : i % 4 == 2 ? u * 2 : ldexp(u, (int)(r % 40) - 30);
}

/* Distance in units of the expected value's last place. */
static double ulps(long double want, double got, bool f64)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    long double limit = f64 ? 0x1.fffffffffffff8p1023L : 0x1.ffffffp127L;
    if (fabsl(want) >= limit || isinf(want))
        return isinf(got) && !signbit(got) == !signbit(want)      ? 0
               : fabsl(want) < limit * 1.0000001L && !isinf(want) ? 1
                                                                  : INFINITY;
    int e;
    frexpl(want, &e);
    int least = f64 ? -1074 : -149, place = e - (f64 ? 53 : 24);
    if (want == 0 || place < least)
        place = least;
    if (isinf(got))
        got = copysign(f64 ? 0x1.fffffffffffffp1023 : 0x1p128, got);
    return (double)(fabsl((long double)got - want) * ldexpl(1, -place));
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static int gelu_argument(struct hk *b, enum tcc_dtype d, int x)
{
    int square = hk_scalar(b, IR_mul, d, x, x, -1), factor = hk_const(b, d, 0.044715);
    int cube = hk_scalar(b, IR_mul, d, square, x, -1);
    int sum = hk_scalar(b, IR_add, d, x, hk_scalar(b, IR_mul, d, cube, factor, -1), -1);
    return hk_scalar(b, IR_mul, d, sum, hk_const(b, d, 0.7978845608028654), -1);
}

static struct kn_kernel *build(struct ir_ctx *ctx, const struct function *f, enum tcc_dtype d)
{
    struct hk b;
    hk_init(&b, ctx, f->name);
    ir_expr n = ir_const(ctx, POINTS), v = hk_outer(&b, n);
    int x = hk_operand(&b, KN_IN, d, 1, E(n)), y = hk_operand(&b, KN_IN, d, 1, E(n)),
        z = hk_operand(&b, KN_OUT, d, 1, E(n));
    hk_stage(&b, 0);
    int a = hk_load(&b, x, E(v)), c = f->two ? hk_load(&b, y, E(v)) : -1;
    if (f->exponent != 0)
        c = hk_const(&b, d, f->exponent);
    if (f->one == one_plus_gelu)
        a = gelu_argument(&b, d, a);
    int r = hk_scalar(&b, f->word, d, a, c, -1);
    if (adds_one(f))
        r = hk_scalar(&b, IR_add, d, r, hk_const(&b, d, 1), -1);
    hk_store(&b, z, E(v), r);
    return hk_finish(&b);
}

static void check_function(const struct function *f, const struct kn_kernel *k, tcc_kernel_fn fn, bool f64,
                           const char *arch)
{
    size_t size = f64 ? 8 : 4;
    void *args[3];
    double worst = 0, at = 0, at2 = 0, found = 0;
    for (int i = 0; i < 3; i++)
        args[i] = calloc(POINTS, size);
    for (int i = 0; i < POINTS; i++) {
        for (int j = 0; j < 2; j++) {
            double v = j && f->exponent != 0 ? f->exponent : point(i, f64, j);
            if (f64)
                ((double *)args[j])[i] = v;
            else
                ((float *)args[j])[i] = (float)v;
        }
    }
    hk_run(k, fn, args, NULL, 1);
    for (int i = 0; i < POINTS; i++) {
        double x = f64 ? ((double *)args[0])[i] : ((float *)args[0])[i],
               y = f64 ? ((double *)args[1])[i] : ((float *)args[1])[i];
        double got = f64 ? ((double *)args[2])[i] : ((float *)args[2])[i];
        long double want = f->two ? f->two(x, y) : f->one(x);
        bool of_one = f->one == one_plus_erf || f->one == one_plus_gelu;
        double error =
            of_one && !isnan(want) ? (double)(fabsl(got - want) * (f64 ? 0x1p52L : 0x1p23L)) : ulps(want, got, f64);
        if (of_one && got < 0) /* its logarithm would be NaN */
            error = INFINITY;
        if (f->word == IR_pow && want == 0 && !signbit(want) != !signbit(got))
            error = INFINITY;
        if (error > worst) {
            worst = error;
            at = x;
            at2 = y;
            found = got;
        }
    }
    double limit = f->word == IR_fmod ? 0 : f64 ? 4 : 2;
    if (getenv("VMATH_VERBOSE") || worst > limit)
        fprintf(stderr, "%s %s %s: %.3f ULP at %a, %a: %a\n", arch, f->name, f64 ? "f64" : "f32", worst, at, at2,
                found);
    ck_assert_msg(worst <= limit, "%s %s %s: %.3f ULP at %a, %a: %a", arch, f->name, f64 ? "f64" : "f32", worst, at,
                  at2, found);
    for (int i = 0; i < 3; i++)
        free(args[i]);
}

static const char *const arches[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "native"};

START_TEST(accuracy)
{
    const char *arch = arches[_i / 2];
    bool f64 = _i & 1;
    struct ir_ctx *ctx = ir_ctx_new();
    if (hk_cpu_runs(ctx, arch)) {
        struct kn_kernel *kernels[NFUNCTIONS];
        struct hk_loaded loaded;
        for (int i = 0; i < NFUNCTIONS; i++)
            kernels[i] = build(ctx, &functions[i], f64 ? TCC_F64 : TCC_F32);
        hk_load_kernels(ctx, &loaded, NFUNCTIONS, kernels, arch, 2, true);
        state = 1;
        for (int i = 0; i < NFUNCTIONS; i++)
            check_function(&functions[i], kernels[i], loaded.fn[i], f64, arches[_i / 2]);
        hk_unload(&loaded);
    }
    ir_ctx_free(ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vmath");
    TCase *c = tcase_create("vmath");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, accuracy, 0, 2 * (int)(sizeof arches / sizeof *arches));
    suite_add_tcase(s, c);
    return run_tests(s);
}
