/* SPDX-License-Identifier: Apache-2.0 */
/* What the NeuronCore simulator computes, against plain loops: each instruction, products bit for bit, integers, DMA,
 * random numbers. */
#include <math.h>
#include <stdio.h>

#include "tests/unit/neuron_bench.h"
#include "tests/unit/suite.h"

/* -- Instructions: x and z [128, 64] lie at bytes 0 and 1024 of each partition, the result is taken from byte 8192
 * -- */

typedef float oracle(int p, int k, const float *x, const float *z); /* x, z: the whole tensors */
static float at(const float *x, int p, int k)
{
    return x[p * N + k];
}
#define ORACLE(name, value)                                         \
    static float name(int p, int k, const float *x, const float *z) \
    {                                                               \
        float a = at(x, p, k % N), b = at(z, p, k % N);             \
        (void)a;                                                    \
        (void)b;                                                    \
        return (float)(value);                                      \
    }
ORACLE(o_add, a + b)
ORACLE(o_sub, a - b)
ORACLE(o_mul, a *b)
ORACLE(o_max, a > b ? a : b)
ORACLE(o_min, a < b ? a : b)
ORACLE(o_ge, a >= b)
ORACLE(o_lt, a < b)
ORACLE(o_eq, a == b)
ORACLE(o_lxor, (a != 0) != (b != 0))
ORACLE(o_absmax, fabsf(a) > fabsf(b) ? fabsf(a) : fabsf(b))
ORACLE(o_half_plus, a * 0.5f + 3)
ORACLE(o_rev, 1 - a)
ORACLE(o_column, (a - at(z, p, 0)) * 2)
ORACLE(o_abs, fabsf(a))
ORACLE(o_square, a *a)
ORACLE(o_relu, a > 0 ? a : 0)
ORACLE(o_stt, (a - 0.25f) * b)
ORACLE(o_stt_rev, b - a * 0.25f)
ORACLE(o_recip, 1 / a)
ORACLE(o_copy, a)
ORACLE(o_predicated, a != 0 ? b : 7.5f)
ORACLE(o_range, k + 3 >= 8 && k + 3 < at(z, p, 0) * 10 ? a : -1)
ORACLE(o_shifted, at(x, p, 63 - k))
ORACLE(o_pow, at(x, p, k) == 0 ? 0 : fabsf(a) * fabsf(a) * fabsf(a))

static float o_sum(int p, int k, const float *x, const float *z)
{
    float sum = at(x, p, 16 * k);
    (void)z;
    for (int e = 1; e < 16; e++)
        sum += at(x, p, 16 * k + e);
    return sum;
}
static float o_minus_max(int p, int k, const float *x, const float *z)
{
    float most = at(x, p, 0);
    (void)k;
    (void)z;
    for (int e = 1; e < N; e++)
        most = at(x, p, e) > most ? at(x, p, e) : most;
    return -most;
}
static float o_scan(int p, int k, const float *x, const float *z)
{
    float last = 0.5f;
    for (int e = 0; e <= k; e++)
        last = at(x, p, e) * last + at(z, p, e);
    return last;
}
static float o_mean(int p, int k, const float *x, const float *z)
{
    double mean = 0, var = 0;
    (void)z;
    for (int e = 0; e < N; e++)
        mean += (double)at(x, p, e) / N;
    for (int e = 0; e < N; e++)
        var += ((double)at(x, p, e) - mean) * ((double)at(x, p, e) - mean) / N;
    return (float)(k ? var : mean);
}
static float o_reduced(int p, int k, const float *x, const float *z)
{
    float sum = at(x, p, 0) * 2;
    (void)z;
    if (k)
        return at(x, p, k - 1) * 2;
    for (int e = 1; e < N - 1; e++)
        sum += at(x, p, e) * 2;
    return sum;
}
static float o_eighth(int p, int k, const float *x, const float *z)
{
    float sorted[N];
    (void)z;
    for (int e = 0; e < N; e++) {
        int j = e;
        for (; j && sorted[j - 1] < at(x, p, e); j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = at(x, p, e);
    }
    return sorted[k];
}
static float o_index(int p, int k, const float *x, const float *z)
{
    float value = o_eighth(p, k, x, z);
    int skip = 0, e = 0;
    for (int before = 0; before < k; before++)
        skip += o_eighth(p, before, x, z) == value;
    for (;; e++)
        if (at(x, p, e) == value && !skip--)
            return (float)e;
}
static float o_replaced(int p, int k, const float *x, const float *z)
{
    for (int e = 0; e < 8; e++)
        if (o_index(p, e, x, z) == (float)k)
            return -100;
    return at(x, p, k);
}
ORACLE(o_iota, 5 + 3 * p + (k / 8) * 100 + (k % 8) * -7)
ORACLE(o_triangle, p - k >= 0 ? a : -9)
static float o_shuffled(int p, int k, const float *x, const float *z)
{
    (void)z;
    return at(x, p / 32 * 32 + 31 - p % 32, k);
}
static float o_blocks(int p, int k, const float *x, const float *z)
{
    (void)z;
    return at(x, p / 32 * 32 + k % 32, k / 32 * 32 + p % 32);
}
static float o_gathered(int p, int k, const float *x, const float *z)
{
    int j = k / 2, lane = p / 16 * 16 + j % 16;
    return at(x, p, (int)at(z, lane, j / 16) * 2 + k % 2);
}
ORACLE(o_activated, tanh((double)(a * 0.5f + at(z, p, 0))))
static float o_accumulated(int p, int k, const float *x, const float *z)
{
    double sum = 0;
    (void)k;
    (void)z;
    for (int e = 0; e < N; e++)
        sum += 2 * fabs((double)at(x, p, e));
    return (float)sum;
}
static float o_transposed(int p, int k, const float *x, const float *z)
{
    (void)z;
    return p < N ? at(x, k, p) : 0;
}

enum { EXACT, NEAR, WHOLE = 2, SIGNED_WHOLE = 4 }; /* WHOLE: z and x are small integers, from 0 or -4 */
static const struct {
    const char *engine, *lines;
    oracle *want;
    int width, flags;
} lanes[] = {
    {"vector", "tensor_tensor Y, X, Z op0=add", o_add, N, EXACT},
    {"gpsimd", "tensor_tensor Y, X, Z op0=sub", o_sub, N, EXACT},
    {"vector", "tensor_tensor Y, X, Z op0=mul", o_mul, N, EXACT},
    {"vector", "tensor_tensor Y, X, Z op0=max", o_max, N, EXACT},
    {"vector", "tensor_tensor Y, X, Z op0=min", o_min, N, EXACT},
    {"vector", "tensor_tensor Y, X, Z op0=ge", o_ge, N, SIGNED_WHOLE},
    {"vector", "tensor_tensor Y, X, Z op0=lt", o_lt, N, SIGNED_WHOLE},
    {"vector", "tensor_tensor Y, X, Z op0=eq", o_eq, N, SIGNED_WHOLE},
    {"vector", "tensor_tensor Y, X, Z op0=lxor", o_lxor, N, SIGNED_WHOLE},
    {"vector", "tensor_tensor Y, X, Z op0=abs_max", o_absmax, N, EXACT},
    {"vector", "tensor_scalar Y, X, 0.5, 3 op0=mul op1=add", o_half_plus, N, EXACT},
    {"scalar", "tensor_scalar Y, X, 0.5, 3 op0=mul op1=add", o_half_plus, N, EXACT},
    {"gpsimd", "tensor_scalar Y, X, 0.5, 3 op0=mul op1=add", o_half_plus, N, EXACT},
    {"vector", "tensor_scalar Y, X, 1 op0=sub rev0", o_rev, N, EXACT},
    {"vector", "tensor_scalar Y, X, sbuf.f32[0:128, 1024, 1], 2 op0=sub op1=mul", o_column, N, EXACT},
    {"vector", "tensor_scalar Y, X, 0 op0=abs", o_abs, N, EXACT},
    {"vector", "tensor_scalar Y, X, 0 op0=square", o_square, N, EXACT},
    {"vector", "tensor_scalar Y, X, 0 op0=relu", o_relu, N, EXACT},
    {"gpsimd",
     "tensor_scalar sbuf.f32[0:128, 2048, 64], X, 0 op0=abs\ntensor_scalar Y, sbuf.f32[0:128, 2048, 64], 3 op0=pow",
     o_pow, N, NEAR},
    {"vector", "scalar_tensor_tensor Y, X, 0.25, Z op0=sub op1=mul", o_stt, N, EXACT},
    {"vector", "scalar_tensor_tensor Y, X, 0.25, Z op0=mul op1=sub rev1", o_stt_rev, N, EXACT},
    {"vector", "reciprocal Y, X", o_recip, N, EXACT},
    {"vector", "tensor_copy Y, X", o_copy, N, EXACT},
    {"scalar", "tensor_copy Y, X", o_copy, N, EXACT},
    {"vector", "tensor_copy Y, sbuf.f32[0:128, 252, 64@-1]", o_shifted, N, EXACT},
    {"vector", "tensor_copy psum.f32[0:128, 2048, 64], X\ntensor_copy Y, psum.f32[0:128, 2048, 64]", o_copy, N, EXACT},
    {"vector", "tensor_copy sbuf.f32[0:128, 2048, 8, 8@9], X\ntensor_copy Y, sbuf.f32[0:128, 2048, 8, 8@9]", o_copy, N,
     EXACT},
    {"vector", "set r3, 256\ntensor_copy sbuf.f32[0:128, 2048+r3, 64], X\ntensor_copy Y, sbuf.f32[0:128, 2304, 64]",
     o_copy, N, EXACT},
    {"vector", "memset Y, 7.5\ntensor_copy_predicated Y, Z, X", o_predicated, N, SIGNED_WHOLE},
    {"vector",
     "tensor_scalar sbuf.f32[0:128, 2048, 1], sbuf.f32[0:128, 1024, 1], 10 op0=mul\n"
     "range_select Y, X, 8, sbuf.f32[0:128, 2048, 1] op0=ge op1=lt base=3 fill=-1",
     o_range, N, EXACT},
    {"vector", "tensor_reduce Y, sbuf.f32[0:128, 0, 4, 16] op0=add axes=1", o_sum, 4, EXACT},
    {"gpsimd", "tensor_reduce Y, sbuf.f32[0:128, 0, 4, 16] op0=add axes=1", o_sum, 4, EXACT},
    {"vector", "tensor_reduce Y, sbuf.f32[0:128, 0, 4, 16] op0=max axes=2 negate", o_minus_max, 1, EXACT},
    {"vector", "tensor_tensor_scan Y, sbuf.f32[0:128, 0, 8], sbuf.f32[0:128, 1024, 8], 0.5 op0=mul op1=add", o_scan, 8,
     EXACT},
    {"vector",
     "bn_stats sbuf.f32[0:128, 2048, 6], sbuf.f32[0:128, 0, 17]\nbn_stats sbuf.f32[0:128, 2072, 6], sbuf.f32[0:128, "
     "68, 47]\n"
     "bn_aggr Y, sbuf.f32[0:128, 2048, 12]",
     o_mean, 2, NEAR},
    {"vector",
     "tensor_scalar_reduce sbuf.f32[0:128, 8196, 63], sbuf.f32[0:128, 0, 63], 2, sbuf.f32[0:128, 8192, 1] op0=mul "
     "op1=add",
     o_reduced, N, EXACT},
    {"vector", "max8 Y, X", o_eighth, 8, EXACT},
    {"vector", "max8 Y, X", o_eighth, 8, SIGNED_WHOLE},
    {"vector",
     "max8 sbuf.f32[0:128, 2048, 8], X\nfind_index8 sbuf.u32[0:128, 4096, 8], X, sbuf.f32[0:128, 2048, 8]\n"
     "tensor_copy Y, sbuf.u32[0:128, 4096, 8]",
     o_index, 8, SIGNED_WHOLE},
    {"vector", "max8 sbuf.f32[0:128, 2048, 8], X\nmatch_replace8 Y, X, sbuf.f32[0:128, 2048, 8], -100", o_replaced, N,
     SIGNED_WHOLE},
    {"gpsimd",
     "iota sbuf.i32[0:128, 4096, 8, 8] base=5 channel=3 step0=100 step1=-7\ntensor_copy Y, sbuf.i32[0:128, 4096, 64]",
     o_iota, N, EXACT},
    {"gpsimd", "affine_select Y, X op0=ge channel=1 step0=-1 fill=-9", o_triangle, N, EXACT},
    {"vector",
     "stream_shuffle Y, X mask=31:30:29:28:27:26:25:24:23:22:21:20:19:18:17:16:15:14:13:12:11:10:9:8:7:6:5:4:3:2:1:0",
     o_shuffled, N, EXACT},
    {"vector", "transpose32 Y, X", o_blocks, N, EXACT},
    {"gpsimd", "tensor_copy sbuf.u16[0:128, 2048, 64], Z\nlocal_gather Y, X, sbuf.u16[0:128, 2048, 2] per_index=2",
     o_gathered, N, WHOLE},
    {"scalar", "activation Y, X, 0.5, sbuf.f32[0:128, 1024, 1] func=tanh", o_activated, N, NEAR},
    {"scalar",
     "activation sbuf.f32[0:128, 2048, 32], sbuf.f32[0:128, 0, 32], 2 func=abs acc=reset_reduce\n"
     "activation sbuf.f32[0:128, 2048, 32], sbuf.f32[0:128, 128, 32], 2 func=abs acc=reduce\nread_acc Y",
     o_accumulated, 1, NEAR},
    {"tensor",
     "pe_transpose psum.f32[0:64, 0, 128], X signal s5\nengine vector\nmemset sbuf.f32[0:128, 8192, 128], 0\n"
     "tensor_copy sbuf.f32[0:64, 8192, 128], psum.f32[0:64, 0, 128] wait s5>=1",
     o_transposed, 128, EXACT},
};

static void operands(char *to, size_t room, const char *lines, int width)
{
    size_t n = 0;
    for (const char *c = lines; *c; c++) {
        bool alone = c != lines && (c[-1] == ' ') && (c[1] == ',' || c[1] == ' ' || c[1] == '\n' || !c[1]);
        if (alone && (*c == 'X' || *c == 'Z'))
            n += (size_t)snprintf(to + n, room - n, "sbuf.f32[0:128, %d, 64]", *c == 'X' ? 0 : 1024);
        else if (alone && *c == 'Y')
            n += (size_t)snprintf(to + n, room - n, "sbuf.f32[0:128, 8192, %d]", width);
        else
            to[n++] = *c;
    }
    to[n] = 0;
}

START_TEST(instructions)
{
    char text[4096], lines[2048];
    float x[P * N], z[P * N], y[P * 128];
    int width = lanes[_i].width, whole = lanes[_i].flags;
    operands(lines, sizeof lines, lanes[_i].lines, width);
    snprintf(text, sizeof text,
             "tensor x in f32 [128, 64]\ntensor z in f32 [128, 64]\ntensor y out f32 [128, %d]\n"
             "engine sync\ndma sbuf.f32[0:128, 0, 64], x[0, 128, 64] signal s0\ndma sbuf.f32[0:128, 1024, 64], z[0, "
             "128, 64] queue=1 signal s1\n"
             "dma y[0, 128, %d], sbuf.f32[0:128, 8192, %d] wait s2>=1\n"
             "engine %s\nnop wait s0>=16 wait s1>=16\n%s\nnop signal s2\n",
             width, width, width, lanes[_i].engine, lines);
    state = 7;
    for (int k = 0; k < P * N; k++) {
        x[k] = (float)(whole & SIGNED_WHOLE ? rint(draw()) : draw());
        z[k] = (float)(whole & SIGNED_WHOLE ? rint(draw()) : whole & WHOLE ? floor((draw() + 4) * 4) : draw());
    }
    struct bench b = begin(text);
    set(&b, "x", x, P * N);
    set(&b, "z", z, P * N);
    run(&b);
    get(&b, "y", y, P * width);
    for (int p = 0; p < P; p++)
        for (int k = 0; k < width; k++) {
            float want = lanes[_i].want(p, k, x, z), got = y[p * width + k];
            bool fine = whole & NEAR ? fabsf(got - want) <= 2e-6f * (1 + fabsf(want)) : same(got, want);
            ck_assert_msg(fine, "%s: [%d, %d] is %.9g, not %.9g", lines, p, k, (double)got, (double)want);
        }
    end(&b);
}
END_TEST

/* -- Products: sums from row 0 on, each product and sum rounded; then PSUM = s, then PSUM + s -- */

static const char *const product_types[] = {"bf16", "f16", "f32", "tf32", "f8e4m3", "f8e5m2", "f8e3m4"};

static float rounded(const char *type, float f)
{
    char element[4];
    for (int t = 0; t < NEURON_NTYPES; t++)
        if (strcmp(neuron_type_name((enum neuron_type)t), type) == 0) {
            neuron_from_float((enum neuron_type)t, f, false, 0, element);
            return neuron_to_float((enum neuron_type)t, element);
        }
    return f;
}

START_TEST(products)
{
    enum { K = 100, M = 70, C = 300 };
    static float a[2 * K * M], b[2 * K * C], y[M * C];
    const char *type = product_types[_i];
    int bytes = strstr(type, "32") ? 4 : strstr(type, "16") ? 2 : 1;
    char text[2048];
    snprintf(text, sizeof text,
             "tensor a in %s [200, 70]\ntensor b in %s [200, 300]\ntensor y out f32 [70, 300]\n"
             "engine sync\ndma sbuf.%s[0:100, 0, 2, 70], a[0, 100@70, 2@7000, 70@1] signal s0\n"
             "dma sbuf.%s[0:100, 1024, 2, 300], b[0, 100@300, 2@30000, 300] queue=1 signal s1\n"
             "dma y[0, 70, 300], sbuf.f32[0:70, 8192, 300] wait s2>=1\n"
             "engine tensor\nload_stationary sbuf.%s[0:100, 0, 70] wait s0>=16\n"
             "matmul psum.f32[0:70, 2048, 300], sbuf.%s[0:100, 1024, 300] wait s1>=16\n"
             "set r0, 1\nreg_mul r1, r0, %d\nreg_mul r2, r0, %d\n"
             "load_stationary sbuf.%s[0:100, 0+r1, 70]\n"
             "matmul psum.f32[0:70, 2048, 300], sbuf.%s[0:100, 1024+r2, 300] accumulate signal s3\n"
             "engine vector\ntensor_copy sbuf.f32[0:70, 8192, 300], psum.f32[0:70, 2048, 300] wait s3>=1 signal s2\n",
             type, type, type, type, type, type, 70 * bytes, 300 * bytes, type, type);
    state = 3;
    for (int k = 0; k < 2 * K * M; k++)
        a[k] = rounded(type, (float)draw());
    for (int k = 0; k < 2 * K * C; k++)
        b[k] = rounded(type, (float)draw());
    struct bench t = begin(text);
    set(&t, "a", a, 2 * K * M);
    set(&t, "b", b, 2 * K * C);
    run(&t);
    get(&t, "y", y, M * C);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < C; n++) {
            float half[2];
            double exact = 0, size = 0;
            for (int h = 0; h < 2; h++) {
                half[h] = 0;
                for (int k = 0; k < K; k++) {
                    volatile float product = a[(h * K + k) * M + m] * b[(h * K + k) * C + n];
                    half[h] += product;
                    exact += (double)a[(h * K + k) * M + m] * (double)b[(h * K + k) * C + n];
                    size += fabs((double)product);
                }
            }
            ck_assert_msg(same(y[m * C + n], half[0] + half[1]), "%s: [%d, %d] is %.9g, not %.9g", type, m, n,
                          (double)y[m * C + n], (double)(half[0] + half[1]));
            ck_assert(fabs((double)y[m * C + n] - exact) <= 1e-5 * size);
        }
    end(&t);
}
END_TEST

/* Products into parts of PSUM that overlap: each adds to what the earlier one left, and sets what it alone has. */
START_TEST(products_overlap)
{
    enum { K = 16, M = 8, C = 40 };
    static float a[K * M], b[K * C], y[M * 60], want[M * 60];
    static const char text[] =
        "tensor a in f32 [16, 8]\ntensor b in f32 [16, 40]\ntensor y out f32 [8, 60]\n"
        "engine sync\ndma sbuf.f32[0:16, 0, 8], a[0, 16, 8] signal s0\n"
        "dma sbuf.f32[0:16, 1024, 40], b[0, 16, 40] queue=1 signal s1\n"
        "dma y[0, 8, 60], sbuf.f32[0:8, 8192, 60] wait s2>=1\n"
        "engine tensor\nload_stationary sbuf.f32[0:16, 0, 8] wait s0>=16\n"
        "matmul psum.f32[0:8, 0, 40], sbuf.f32[0:16, 1024, 40] wait s1>=16\n"
        "matmul psum.f32[0:8, 160, 20], sbuf.f32[0:16, 1024, 20]\n"
        "matmul psum.f32[0:8, 80, 40], sbuf.f32[0:16, 1024, 40] accumulate signal s3\n"
        "engine vector\ntensor_copy sbuf.f32[0:8, 8192, 60], psum.f32[0:8, 0, 60] wait s3>=1 signal s2\n";
    state = 5;
    for (int k = 0; k < K * M; k++)
        a[k] = (float)draw();
    for (int k = 0; k < K * C; k++)
        b[k] = (float)draw();
    for (int m = 0; m < M; m++)
        for (int n = 0; n < 60; n++) {
            float sum[2] = {0, 0};
            int from[2] = {n < 40 ? n : n - 40, n < 20 ? -1 : n - 20};
            for (int h = 0; h < 2; h++)
                for (int k = 0; k < K && from[h] >= 0; k++) {
                    volatile float product = a[k * M + m] * b[k * C + from[h]];
                    sum[h] += product;
                }
            want[m * 60 + n] = from[1] < 0 ? sum[0] : sum[0] + sum[1];
        }
    struct bench t = begin(text);
    set(&t, "a", a, K * M);
    set(&t, "b", b, K * C);
    run(&t);
    get(&t, "y", y, M * 60);
    for (int k = 0; k < M * 60; k++)
        ck_assert_msg(same(y[k], want[k]), "%d: %g, not %g", k, (double)y[k], (double)want[k]);
    end(&t);
}
END_TEST

/* NaN spreads over a row of v2's transpose; v3 moves 16 bits. */
START_TEST(transposes_of_nan)
{
    for (int v3 = 0; v3 < 2; v3++) {
        char text[1024];
        float x[32 * 32], y[32 * 32];
        snprintf(text, sizeof text,
                 "core trn%d\ntensor x in bf16 [32, 32]\ntensor y out bf16 [32, 32]\nengine sync\ndma sbuf.bf16[0:32, "
                 "0, 32], x[0, 32, 32] signal s0\n"
                 "dma y[0, 32, 32], sbuf.bf16[0:32, 4096, 32] wait s2>=1\nengine tensor\npe_transpose psum.%s[0:32, 0, "
                 "32], sbuf.bf16[0:32, 0, 32] wait s0>=16 signal s1\n"
                 "engine vector\ntensor_copy sbuf.bf16[0:32, 4096, 32], psum.%s[0:32, 0, 32] wait s1>=1 signal s2\n",
                 1 + v3, v3 ? "bf16" : "f32", v3 ? "bf16" : "f32");
        for (int k = 0; k < 32 * 32; k++)
            x[k] = (float)k / 4;
        x[5 * 32 + 9] = NAN; /* of row 9 of the result */
        struct bench b = begin(text);
        set(&b, "x", x, 32 * 32);
        run(&b);
        get(&b, "y", y, 32 * 32);
        for (int p = 0; p < 32; p++)
            for (int k = 0; k < 32; k++)
                ck_assert(same(y[p * 32 + k], !v3 && p == 9 ? NAN : rounded("bf16", x[k * 32 + p])));
        end(&b);
    }
}
END_TEST

/* -- Integers: GpSimd is exact, Vector computes in float32; bits are bits on both -- */

static int64_t i_mul(int64_t a, int64_t b)
{
    return (int32_t)((uint32_t)a * (uint32_t)b);
}
static int64_t i_add(int64_t a, int64_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}
static int64_t i_float_add(int64_t a, int64_t b)
{
    float f = (float)a + (float)b;
    return f >= 2147483648.0f ? INT32_MAX : f < -2147483648.0f ? INT32_MIN : (int64_t)f;
}
static int64_t i_xor(int64_t a, int64_t b)
{
    return a ^ b;
}
static int64_t i_and7(int64_t a, int64_t b)
{
    (void)b;
    return a & 7;
}
static int64_t i_shr(int64_t a, int64_t b)
{
    (void)b;
    return (int32_t)((uint32_t)a >> 5);
}
static int64_t i_shl_not(int64_t a, int64_t b)
{
    (void)b;
    return (int32_t) ~((uint32_t)a << 3);
}
static int64_t i_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t i_copy(int64_t a, int64_t b)
{
    (void)b;
    return a;
}
static int64_t i_float(int64_t a, int64_t b)
{
    (void)b;
    float f = (float)a;
    return f >= 2147483648.0f ? INT32_MAX : (int64_t)f;
}
static const struct {
    const char *engine, *line;
    int64_t (*want)(int64_t a, int64_t b);
} integer_lines[] = {
    {"gpsimd", "tensor_tensor Y, X, Z op0=mul", i_mul},
    {"gpsimd", "tensor_tensor Y, X, Z op0=add", i_add},
    {"gpsimd", "tensor_tensor Y, X, Z op0=max", i_max},
    {"gpsimd", "tensor_copy Y, X", i_copy},
    {"vector", "tensor_tensor Y, X, Z op0=add", i_float_add},
    {"vector", "tensor_tensor Y, X, Z op0=xor", i_xor},
    {"vector", "tensor_scalar Y, X, 7 op0=and", i_and7},
    {"vector", "tensor_scalar Y, X, 5 op0=shr", i_shr},
    {"vector", "tensor_scalar Y, X, 3, 0 op0=shl op1=not", i_shl_not},
    {"vector", "tensor_copy Y, X", i_copy},
    {"scalar", "tensor_copy Y, X", i_float},
};

START_TEST(integers_exact)
{
    char text[2048], line[512], error[NEURON_ERROR] = "";
    int32_t x[P * 8], z[P * 8], y[P * 8];
    size_t n = 0;
    for (const char *c = integer_lines[_i].line; *c; c++)
        if (*c >= 'X' && *c <= 'Z')
            n += (size_t)snprintf(line + n, sizeof line - n, "sbuf.i32[0:128, %d, 8]", (*c - 'X') * 512);
        else
            line[n++] = *c;
    line[n] = 0;
    snprintf(
        text, sizeof text,
        "tensor x in i32 [128, 8]\ntensor z in i32 [128, 8]\ntensor y out i32 [128, 8]\n"
        "engine sync\ndma sbuf.i32[0:128, 0, 8], x[0, 128, 8] signal s0\ndma sbuf.i32[0:128, 1024, 8], z[0, 128, 8] "
        "queue=1 signal s1\n"
        "dma y[0, 128, 8], sbuf.i32[0:128, 512, 8] wait s2>=1\nengine %s\nnop wait s0>=16 wait s1>=16\n%s signal s2\n",
        integer_lines[_i].engine, line);
    state = 11;
    for (int k = 0; k < P * 8; k++) {
        x[k] = (int32_t)(draw() * 0x1p29);
        z[k] = (int32_t)(draw() * 0x1p28);
    }
    struct bench b = begin(text);
    ck_assert(neuron_sim_write(b.s, 0, 0, x, sizeof x, error) && neuron_sim_write(b.s, 1, 0, z, sizeof z, error));
    run(&b);
    ck_assert(neuron_sim_read(b.s, 2, 0, y, sizeof y, error));
    for (int k = 0; k < P * 8; k++)
        ck_assert_msg(y[k] == integer_lines[_i].want(x[k], z[k]), "%s: %d, %d: %d", line, x[k], z[k], y[k]);
    end(&b);
}
END_TEST

/* -- DMA: patterns, casts, sums, rows by index, transposes -- */

START_TEST(dma)
{
    static const char text[] =
        "core trn2\ntensor x in f32 [64, 48]\ntensor i in i32 [16]\ntensor h out bf16 [48, 64]\ntensor g out f32 [16, "
        "48]\n"
        "tensor s inout f32 [64, 48]\ntensor t out f32 [64, 48]\ntensor c out i16 [64, 48]\n"
        "engine sync\n"
        "dma h[0, 64@1, 48@64], x[0, 64, 48] signal s0\n" /* transposed by strides, cast */
        "dma sbuf.i32[0:16, 0, 1], i[0, 16, 1@1] signal s1\n"
        "dma sbuf.f32[0:64, 1024, 48], x[0, 64, 48] queue=2 signal s2\n"
        "dma_transpose sbuf.f32[0:48, 2048, 64], sbuf.f32[0:64, 1024, 48] queue=3 wait s2>=16 signal s3\n"
        "dma t[0, 48@1, 64@48], sbuf.f32[0:48, 2048, 64] wait s3>=16\n" /* and back by strides */
        "dma c[0, 64, 48], x[0, 64, 48] queue=1\n"
        "dma g[0, 16, 48], sbuf.f32[0:16, 4096, 48] queue=4 wait s4>=16\n"
        "engine gpsimd\n"
        "dma_gather sbuf.f32[0:16, 4096, 48], x[0, 64, 48], sbuf.i32[0:16, 0, 1] queue=5 wait s1>=16 signal s4\n"
        "dma_scatter s[0, 64, 48], sbuf.f32[0:16, 4096, 48], sbuf.i32[0:16, 0, 1] queue=5 wait s4>=16 signal s5\n"
        "dma_add s[0, 64, 48], s[0, 64, 48], x[0, 64, 48] queue=5 wait s5>=16\n";
    float x[64 * 48], i[16], h[48 * 64], g[16 * 48], s[64 * 48], t[64 * 48], c[64 * 48];
    struct bench b = begin(text);
    state = 5;
    for (int k = 0; k < 64 * 48; k++) {
        x[k] = (float)draw() * 100;
        s[k] = (float)k;
    }
    for (int k = 0; k < 16; k++)
        i[k] = (float)(k * 7 % 64);
    set(&b, "x", x, 64 * 48);
    set(&b, "i", i, 16);
    set(&b, "s", s, 64 * 48);
    run(&b);
    get(&b, "h", h, 48 * 64);
    get(&b, "g", g, 16 * 48);
    get(&b, "t", t, 64 * 48);
    get(&b, "c", c, 64 * 48);
    for (int r = 0; r < 64; r++)
        for (int k = 0; k < 48; k++) {
            ck_assert(same(h[k * 64 + r], rounded("bf16", x[r * 48 + k])));
            ck_assert(c[r * 48 + k] == rintf(x[r * 48 + k]));
            ck_assert(same(t[r * 48 + k], x[r * 48 + k]));
        }
    for (int k = 0; k < 16 * 48; k++)
        ck_assert(same(g[k], x[(int)i[k / 48] * 48 + k % 48]));
    float was[64 * 48];
    for (int k = 0; k < 64 * 48; k++)
        was[k] = (float)k;
    for (int k = 0; k < 16 * 48; k++)
        was[(int)i[k / 48] * 48 + k % 48] = g[k];
    get(&b, "s", s, 64 * 48);
    for (int k = 0; k < 64 * 48; k++)
        ck_assert(same(s[k], was[k] + x[k]));
    end(&b);
}
END_TEST

/* Dropout drops what it says, rng has every bit, both whatever the order of the engines. */
START_TEST(random_numbers)
{
    static const char text[] =
        "tensor x in f32 [128, 64]\ntensor y out f32 [128, 64]\ntensor r out u32 [128, 64]\n"
        "engine sync\ndma sbuf.f32[0:128, 0, 64], x[0, 128, 64] signal s0\ndma y[0, 128, 64], sbuf.f32[0:128, 1024, "
        "64] wait s1>=1\n"
        "dma r[0, 128, 64], sbuf.u32[0:128, 2048, 64] wait s1>=1 queue=1\n"
        "engine vector\ndropout sbuf.f32[0:128, 1024, 64], sbuf.f32[0:128, 0, 64] probability=0.25 wait s0>=16\n"
        "rng sbuf.u32[0:128, 2048, 64] signal s1\n";
    float x[P * N], y[P * N], first[P * N];
    uint32_t r[P * N], ones[32] = {0};
    char error[NEURON_ERROR];
    for (int k = 0; k < P * N; k++)
        x[k] = (float)(k + 1);
    for (uint64_t seed = 0; seed < 3; seed++) {
        int dropped = 0;
        struct bench b =
            begin_with(text, (struct neuron_config){.values = true, .checks = true, .seed = seed, .rounding_seed = 42});
        set(&b, "x", x, P * N);
        run(&b);
        get(&b, "y", seed ? y : first, P * N);
        ck_assert(neuron_sim_read(b.s, 2, 0, r, sizeof r, error));
        for (int k = 0; k < P * N; k++) {
            ck_assert(first[k] == 0 || first[k] == x[k]);
            dropped += first[k] == 0;
            ck_assert(!seed || same(y[k], first[k]));
        }
        ck_assert_msg(abs(dropped - P * N / 4) < 200, "%d", dropped); /* five standard deviations */
        end(&b);
    }
    for (int k = 0; k < P * N; k++)
        for (int bit = 0; bit < 32; bit++)
            ones[bit] += r[k] >> bit & 1;
    for (int bit = 0; bit < 32; bit++)
        ck_assert(abs((int)ones[bit] - P * N / 2) < 230);
}
END_TEST

/* One core runs programs in turn, with tensors in our memory: what each gives on a core of its own. Bytes of SBUF that
 * an earlier program wrote count as unwritten; a program of another kind of core is refused. */
START_TEST(core_kept)
{
    static const char doubles[] =
        "core trn1\ntensor x in f32 [2, 8]\ntensor y out f32 [2, 8]\nengine sync\n"
        "dma sbuf.f32[0:2, 0, 8], x[0, 2, 8] signal s0\n"
        "dma y[0, 2, 8], sbuf.f32[0:2, 64, 8] wait s1>=1\nengine vector\n"
        "tensor_scalar sbuf.f32[0:2, 64, 8], sbuf.f32[0:2, 0, 8], 2 op0=mul wait s0>=16 signal s1\n";
    static const char stale[] =
        "core trn1\ntensor y out f32 [2, 8]\nengine sync\ndma y[0, 2, 8], sbuf.f32[0:2, 64, 8]\n";
    char error[NEURON_ERROR] = "";
    float x[16], y[16] = {0};
    const struct neuron_report *list;
    struct neuron_counters first, again;
    struct bench b = begin(doubles);
    struct neuron_program *other = neuron_assemble(stale, strlen(stale), error),
                          *trn2 = neuron_assemble("core trn2\n", 10, error);

    for (int k = 0; k < 16; k++)
        x[k] = (float)draw();
    neuron_sim_bind(b.s, tensor(&b, "x"), x);
    neuron_sim_bind(b.s, tensor(&b, "y"), y);
    ck_assert_msg(neuron_sim_run(b.s, &first, error), "%s", error);
    for (int k = 0; k < 16; k++)
        ck_assert(y[k] == 2 * x[k]);
    ck_assert(neuron_sim_load(b.s, other, error) && neuron_sim_run(b.s, NULL, error));
    ck_assert_int_eq(neuron_sim_reports(b.s, &list), 1);
    ck_assert_int_eq(list[0].check, NEURON_CHECK_UNINIT);
    ck_assert(neuron_sim_load(b.s, b.p, error));
    ck_assert_int_eq(neuron_sim_reports(b.s, &list), 0);
    neuron_sim_bind(b.s, tensor(&b, "x"), x); /* in place: the values are read before they are written */
    neuron_sim_bind(b.s, tensor(&b, "y"), x);
    ck_assert_msg(neuron_sim_run(b.s, &again, error) && !neuron_sim_reports(b.s, &list), "%s", error);
    ck_assert(memcmp(x, y, sizeof x) == 0 && again.ticks == first.ticks && again.dma_bytes == first.dma_bytes);
    neuron_sim_bind(b.s, tensor(&b, "x"), NULL); /* the simulator's again */
    ck_assert(neuron_sim_run(b.s, NULL, error) && neuron_sim_reports(b.s, &list) == 1);
    ck_assert(!neuron_sim_load(b.s, trn2, error));
    ck_assert_str_eq(error, "the program is for trn2: this core is another");
    neuron_sim_free(b.s);
    neuron_program_free(b.p);
    neuron_program_free(other);
    neuron_program_free(trn2);
}
END_TEST

#define LOOP_OVER(test, list) tcase_add_loop_test(t, test, 0, (int)(sizeof(list) / sizeof *(list)))

int main(void)
{
    Suite *s = suite_create("neuron_values");
    TCase *t = tcase_create("neuron_values");
    LOOP_OVER(instructions, lanes);
    LOOP_OVER(products, product_types);
    tcase_add_test(t, products_overlap);
    tcase_add_test(t, transposes_of_nan);
    LOOP_OVER(integers_exact, integer_lines);
    tcase_add_test(t, dma);
    tcase_add_test(t, random_numbers);
    tcase_add_test(t, core_kept);
    suite_add_tcase(s, t);
    return run_tests(s);
}
