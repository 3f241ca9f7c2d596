/* SPDX-License-Identifier: Apache-2.0 */
/* The NeuronCore simulator's types and their roundings, and the Scalar engine's functions against the C library's in
 * double precision. */
#include <math.h>
#include <stdio.h>

#include "tests/unit/neuron_bench.h"
#include "tests/unit/suite.h"

/* -- Types -- */

/* Each code of a short float is the nearest to itself; halfway points go to the even one; what lies between goes to the
 * nearer. */
START_TEST(roundings)
{
    enum neuron_type t = (enum neuron_type)_i;
    int bytes = neuron_type_bytes(t);
    uint32_t codes = bytes == 1 ? 256 : 65536, code, out;
    if (neuron_type_class(t) != 'f' || bytes > 2)
        return;
    for (code = 0; code < codes; code++) {
        float f = neuron_to_float(t, &code);
        out = 0;
        neuron_from_float(t, f, false, 0, &out);
        ck_assert_msg(out == code || f != f, "%s: %#x becomes %#x", neuron_type_name(t), code, out);
        neuron_from_float(t, f, true, 12345, &out);
        ck_assert(out == code || f != f); /* nothing is lost, so nothing is drawn */
        uint32_t next = code + 1;
        float up = next < codes ? neuron_to_float(t, &next) : NAN;
        if (!(up == up) || isinf(up) || !(f == f) || (code ^ next) >> (8 * bytes - 1))
            continue;
        float half = (float)(((double)f + (double)up) / 2);
        neuron_from_float(t, half, false, 0, &out);
        ck_assert_msg(out == (code & 1 ? next : code), "%s: halfway above %#x becomes %#x", neuron_type_name(t), code,
                      out);
        neuron_from_float(t, nextafterf(half, f), false, 0, &out);
        ck_assert(out == code);
        neuron_from_float(t, nextafterf(half, up), false, 0, &out);
        ck_assert(out == next);
    }
}
END_TEST

START_TEST(limits)
{
    static const struct {
        enum neuron_type t;
        float f, want;
    } list[] = {
        {NEURON_E4M3, 240, 240},
        {NEURON_E4M3, 247.9f, 240},
        {NEURON_E4M3, 248, INFINITY},
        {NEURON_E4M3, -1e9f, -INFINITY},
        {NEURON_E5M2, 57344, 57344},
        {NEURON_E5M2, 61440, INFINITY},
        {NEURON_E3M4, 15.5f, 15.5f},
        {NEURON_E3M4, 16, INFINITY},
        {NEURON_F16, 65519, 65504},
        {NEURON_F16, 65520, INFINITY},
        {NEURON_F16, 0x1p-25f, 0},
        {NEURON_F16, 0x1.8p-25f, 0x1p-24f},
        {NEURON_BF16, 3.4e38f, INFINITY},
        {NEURON_TF32, 1 + 0x1p-11f, 1},
        {NEURON_TF32, 1 + 0x1.8p-11f, 1 + 0x1p-10f},
        {NEURON_I8, 2.5f, 2},
        {NEURON_I8, 3.5f, 4},
        {NEURON_I8, 1000, 127},
        {NEURON_I8, -1000, -128},
        {NEURON_U8, -3, 0},
        {NEURON_U8, NAN, 0},
        {NEURON_U16, 70000, 65535},
        {NEURON_I16, -40000, -32768},
        {NEURON_I32, 3e9f, 2147483648.0f},
        {NEURON_U32, 3e9f, 3e9f},
        {NEURON_I32, -INFINITY, -2147483648.0f},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        uint32_t out = 0;
        neuron_from_float(list[k].t, list[k].f, false, 0, &out);
        ck_assert_msg(same(neuron_to_float(list[k].t, &out), list[k].want), "%s(%g)", neuron_type_name(list[k].t),
                      (double)list[k].f);
    }
}
END_TEST

/* Stochastic rounding: up as often as the value is near to what lies above. 50,000 draws: five standard deviations are
 * 0.0112. */
START_TEST(stochastic)
{
    static const enum neuron_type types[] = {NEURON_BF16, NEURON_F16, NEURON_TF32, NEURON_E4M3, NEURON_E5M2};
    enum neuron_type t = types[_i];
    static const float fractions[] = {0.0729f, 0.5f, 0.9f};
    for (int tiny = 0; tiny < 2; tiny++)
        for (int k = 0; k < 3; k++) {
            uint32_t low = 0, high = 0, out;
            float base = tiny && t != NEURON_TF32 && t != NEURON_BF16 ? 0 : 1.5f;
            neuron_from_float(t, base, false, 0, &low);
            high = low + (t == NEURON_TF32 ? 1u << 13 : 1);
            float lo = neuron_to_float(t, &low), hi = neuron_to_float(t, &high), f = lo + (hi - lo) * fractions[k];
            int up = 0;
            state = 1;
            for (int n = 0; n < 50000; n++) {
                out = 0;
                draw();
                neuron_from_float(t, f, true, (uint32_t)(state >> 32), &out);
                ck_assert(out == low || out == high);
                up += out == high;
            }
            double want = ((double)f - (double)lo) / ((double)hi - (double)lo);
            ck_assert_msg(fabs(up / 50000.0 - want) < 0.012, "%s: %g, not %g", neuron_type_name(t), up / 50000.0, want);
        }
}
END_TEST

/* The documented demonstration: 1024 in f16, 0.5 added 2,048 times: 1024 to the nearest even, about 2048
 * stochastically. */
START_TEST(demonstration)
{
    static const char text[] = "tensor x in f16 [128, 1]\ntensor y out f16 [128, 1]\n"
                               "engine sync\ndma sbuf.f16[0:128, 0, 1], x[0, 128, 1@1] signal s0\ndma y[0, 128, 1@1], "
                               "sbuf.f16[0:128, 0, 1] wait s1>=1\n"
                               "engine vector\nset r0, 0\nnop wait s0>=16\nagain: tensor_scalar sbuf.f16[0:128, 0, 1], "
                               "sbuf.f16[0:128, 0, 1], 0.5 op0=add\n"
                               "reg_add r0, r0, 1\njump again, r0, 2048 op0=lt\nnop signal s1\n";
    float x[P], y[P], again[P];
    double mean = 0;
    for (int k = 0; k < P; k++)
        x[k] = 1024;
    for (int round = 0; round < 3; round++) {
        struct bench b = begin_with(
            text,
            (struct neuron_config){.values = true, .checks = true, .stochastic = round > 0, .seed = round > 1 ? 9 : 0});
        set(&b, "x", x, P);
        run(&b);
        get(&b, "y", round == 2 ? again : y, P);
        for (int k = 0; k < P && !round; k++)
            ck_assert(y[k] == 1024);
        end(&b);
    }
    for (int k = 0; k < P; k++) {
        mean += (double)y[k] / P;
        ck_assert(y[k] > 1850 && y[k] < 2250);
        ck_assert(y[k] == again[k]); /* whatever the order of the engines */
    }
    ck_assert_msg(fabs(mean - 2048) < 15, "%g", mean); /* a lane's standard deviation is about 23 */
}
END_TEST

/* -- Functions of the Scalar engine -- */

static double f_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double f_gelu(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2));
}
static double f_gelu_dx(double x)
{
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
}
static double f_gelu_tanh(double x)
{
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double f_gelu_sigmoid(double x)
{
    return x * f_sigmoid(1.702 * x);
}
static double f_silu(double x)
{
    return x * f_sigmoid(x);
}
static double f_silu_dx(double x)
{
    return f_sigmoid(x) * (1 + x * f_sigmoid(-x));
}
static double f_softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}
static double f_mish(double x)
{
    return x * tanh(f_softplus(x));
}
static double f_erf_dx(double x)
{
    return 2 / sqrt(M_PI) * exp(-x * x);
}
static double f_relu(double x)
{
    return x > 0 ? x : 0;
}
static double f_prelu(double x)
{
    return x > 0 ? x : 0.25 * x;
}
static double f_square(double x)
{
    return x * x;
}
static double f_sign(double x)
{
    return (x > 0) - (x < 0);
}
static double f_rsqrt(double x)
{
    return 1 / sqrt(x);
}
static double f_recip(double x)
{
    return 1 / x;
}
static double f_copy(double x)
{
    return x;
}

static const struct {
    enum neuron_func f;
    double (*exact)(double);
    double lo, hi;
} functions[] = {
    {NEURON_FUNC_COPY, f_copy, -1e30, 1e30},
    {NEURON_FUNC_SQUARE, f_square, -1e3, 1e3},
    {NEURON_FUNC_SIGMOID, f_sigmoid, -80, 80},
    {NEURON_FUNC_RELU, f_relu, -5, 5},
    {NEURON_FUNC_PRELU, f_prelu, -5, 5},
    {NEURON_FUNC_GELU, f_gelu, -12, 12},
    {NEURON_FUNC_GELU_DX, f_gelu_dx, -12, 12},
    {NEURON_FUNC_GELU_TANH, f_gelu_tanh, -6, 12},
    {NEURON_FUNC_GELU_SIGMOID, f_gelu_sigmoid, -40, 40},
    {NEURON_FUNC_SILU, f_silu, -80, 80},
    {NEURON_FUNC_SILU_DX, f_silu_dx, -20, 20},
    {NEURON_FUNC_TANH, tanh, -20, 20},
    {NEURON_FUNC_SOFTPLUS, f_softplus, -80, 80},
    {NEURON_FUNC_MISH, f_mish, -30, 30},
    {NEURON_FUNC_ERF, erf, -6, 6},
    {NEURON_FUNC_ERF_DX, f_erf_dx, -9, 9},
    {NEURON_FUNC_EXP, exp, -87, 88},
    {NEURON_FUNC_LOG, log, 1e-19, 1e19},
    {NEURON_FUNC_SIN, sin, -3.1415926, 3.1415926},
    {NEURON_FUNC_ARCTAN, atan, -1.5707, 1.5707},
    {NEURON_FUNC_SQRT, sqrt, 1e-34, 1e35},
    {NEURON_FUNC_RSQRT, f_rsqrt, 1e-26, 1e29},
    {NEURON_FUNC_RECIPROCAL, f_recip, -4e12, 4e12},
    {NEURON_FUNC_SIGN, f_sign, -2, 2},
    {NEURON_FUNC_ABS, fabs, -2, 2},
};

static float function_of(enum neuron_func f, float x, float alpha)
{
    neuron_functions(f, alpha, 1, &x);
    return x;
}

START_TEST(scalar_functions)
{
    double worst = 0;
    ck_assert_int_eq((int)(sizeof functions / sizeof *functions), NEURON_NFUNCS);
    state = 1;
    for (int k = 0; k < 10000; k++) {
        double u = (draw() + 4) / 8, lo = functions[_i].lo, hi = functions[_i].hi;
        float x = (float)(lo + (hi - lo) * u);
        if (k & 1) /* also where magnitudes are small */
            x = lo > 0 ? (float)(lo * pow(hi / lo, u)) : (float)((k & 2 ? hi : lo) * pow(2, -40 * u));
        double want = functions[_i].exact((double)x), got = (double)function_of(functions[_i].f, x, 0.25f);
        double ulp = ldexp(1, ilogb(fabs(want) > 1e-37 ? want : 1e-37) - 23), error = fabs(got - want) / ulp;
        worst = error > worst ? error : worst;
        ck_assert_msg(error <= 1, "%s(%.9g) is %.9g, not %.9g: %g ulp", neuron_func_name(functions[_i].f), (double)x,
                      got, want, error);
    }
    float nan = function_of(functions[_i].f, NAN, 0.25f);
    ck_assert_msg(nan != nan, "%s(NaN) is %g", neuron_func_name(functions[_i].f), (double)nan);
}
END_TEST

static const struct {
    enum neuron_func f;
    float x, want;
} extremes[] = {
    {NEURON_FUNC_EXP, INFINITY, INFINITY}, {NEURON_FUNC_EXP, -INFINITY, 0},
    {NEURON_FUNC_EXP, 1000, INFINITY},     {NEURON_FUNC_TANH, -INFINITY, -1},
    {NEURON_FUNC_GELU, -INFINITY, NAN},    {NEURON_FUNC_GELU, INFINITY, INFINITY},
    {NEURON_FUNC_SILU, -INFINITY, NAN},    {NEURON_FUNC_SILU, -1000, 0},
    {NEURON_FUNC_SOFTPLUS, 1000, 1000},    {NEURON_FUNC_SOFTPLUS, -1000, 0},
    {NEURON_FUNC_SIGMOID, -1000, 0},       {NEURON_FUNC_ERF, 100, 1},
    {NEURON_FUNC_LOG, 0, -INFINITY},       {NEURON_FUNC_LOG, INFINITY, INFINITY},
    {NEURON_FUNC_RELU, -0.0f, 0},          {NEURON_FUNC_MISH, -INFINITY, 0},
    {NEURON_FUNC_RSQRT, 0, INFINITY},
};

START_TEST(function_extremes)
{
    for (size_t k = 0; k < sizeof extremes / sizeof *extremes; k++) {
        float got = function_of(extremes[k].f, extremes[k].x, 0);

        ck_assert_msg(isnan(extremes[k].want) ? isnan(got) : got == extremes[k].want, "%s(%g)",
                      neuron_func_name(extremes[k].f), (double)extremes[k].x);
    }
}
END_TEST

#define LOOP_OVER(test, list) tcase_add_loop_test(t, test, 0, (int)(sizeof(list) / sizeof *(list)))

int main(void)
{
    Suite *s = suite_create("neuron_types");
    TCase *t = tcase_create("neuron_types");
    tcase_add_loop_test(t, roundings, 0, NEURON_NTYPES);
    tcase_add_test(t, limits);
    tcase_add_loop_test(t, stochastic, 0, 5);
    tcase_add_test(t, demonstration);
    LOOP_OVER(scalar_functions, functions);
    tcase_add_test(t, function_extremes);
    suite_add_tcase(s, t);
    return run_tests(s);
}
