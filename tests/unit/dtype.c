/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: every code of every small float, rounding, saturation, and the integer rules of Cast. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "tests/unit/suite.h"

#define NAN_WORD 0x7fc00000u

static const struct digest {
    enum tcc_dtype dtype;
    uint64_t decoded, plain, saturated;
} digests[] = {
#include "dtype_digests.h"
};

static void fnv(uint64_t *h, uint32_t w)
{
    for (int k = 0; k < 4; k++)
        *h = (*h ^ (w >> 8 * k & 255)) * 0x100000001b3ull;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t code_of(enum tcc_dtype d, const void *p)
{
    if (isnan(tcc_load_f64(d, p)))
        return NAN_WORD;
    return tcc_dtype_bytes(d) == 2 ? *(const uint16_t *)p : *(const uint8_t *)p;
}

static uint64_t decode_all(enum tcc_dtype d)
{
    uint64_t h = 0xcbf29ce484222325ull;
    int n = tcc_dtype_bytes(d) == 2 ? 65536 : d == TCC_F4E2M1 ? 16 : 256;
    for (int i = 0; i < n; i++) {
        uint16_t code = (uint16_t)i;
        float f = (float)tcc_load_f64(d, &code);
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        fnv(&h, isnan(f) ? NAN_WORD : u);
    }
    return h;
}

static void encode_one(uint64_t *h, enum tcc_dtype d, uint32_t bits, bool saturate)
{
    float f = from_bits(bits);
    uint16_t code = 0;
    if (d == TCC_F4E2M1 && isnan(f))
        return;
    tcc_cast(d, &code, TCC_F32, &f, saturate, NULL);
    fnv(h, code_of(d, &code));
}

static uint64_t encode_many(enum tcc_dtype d, bool saturate)
{
    static const uint32_t tails[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    uint64_t h = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < 65536; i++)
        for (int k = 0; k < 6; k++)
            encode_one(&h, d, i << 16 | tails[k], saturate);
    for (uint32_t i = 0; i < 65536; i++)
        encode_one(&h, d, (i << 12) + 0x30000000u, saturate);
    return h;
}

START_TEST(small_floats)
{
    const struct digest *d = &digests[_i];
    ck_assert_msg(decode_all(d->dtype) == d->decoded, "%s to f32", tcc_dtype_name(d->dtype));
    ck_assert_msg(encode_many(d->dtype, false) == d->plain, "f32 to %s", tcc_dtype_name(d->dtype));
    ck_assert_msg(encode_many(d->dtype, true) == d->saturated, "f32 to %s, saturating", tcc_dtype_name(d->dtype));
}
END_TEST

START_TEST(names)
{
    for (int d = 1; d < TCC_NDTYPES; d++)
        ck_assert_int_eq(tcc_dtype_by_name(tcc_dtype_name((enum tcc_dtype)d)), d);
    ck_assert_int_eq(tcc_dtype_by_name("f12"), TCC_NONE);
    ck_assert_int_eq(tcc_dtype_bytes(TCC_C128), 16);
    ck_assert(tcc_small_float(TCC_F4E2M1) && !tcc_small_float(TCC_F64) && !tcc_is_int(TCC_BOOL) &&
              tcc_is_signed(TCC_I2));
}
END_TEST

static int64_t f32_to(enum tcc_dtype to, float v)
{
    int64_t out = 0;
    tcc_cast(to, &out, TCC_F32, &v, true, NULL);
    return tcc_load_i64(to, &out);
}

static int64_t i64_to(enum tcc_dtype to, int64_t v)
{
    int64_t out = 0;
    tcc_cast(to, &out, TCC_I64, &v, true, NULL);
    return tcc_load_i64(to, &out);
}

START_TEST(integers)
{
    ck_assert_int_eq(f32_to(TCC_I8, 300), 127);
    ck_assert_int_eq(f32_to(TCC_U8, -1), 0);
    ck_assert_int_eq(f32_to(TCC_I8, -1.9f), -1);
    ck_assert_int_eq(f32_to(TCC_I32, NAN), 0);
    ck_assert_int_eq(f32_to(TCC_I64, INFINITY), INT64_MAX);
    ck_assert_int_eq(f32_to(TCC_U32, -INFINITY), 0);
    ck_assert_uint_eq((uint64_t)f32_to(TCC_U64, INFINITY), UINT64_MAX);
    ck_assert_int_eq(f32_to(TCC_BOOL, NAN), 1);
    ck_assert_int_eq(f32_to(TCC_BOOL, -0.0f), 0);
    for (int i = -40; i < 40; i++) {
        ck_assert_int_eq(f32_to(TCC_I4, (float)i), ((i & 15) ^ 8) - 8);
        ck_assert_int_eq(f32_to(TCC_U4, (float)i), i & 15);
        ck_assert_int_eq(f32_to(TCC_I2, (float)i), ((i & 3) ^ 2) - 2);
        ck_assert_int_eq(f32_to(TCC_U2, (float)i), i & 3);
    }
    ck_assert_int_eq(i64_to(TCC_I8, 200), -56);
    ck_assert_int_eq(i64_to(TCC_U16, -1), 65535);
    ck_assert_int_eq(i64_to(TCC_BOOL, 256), 1);
    ck_assert_int_eq(i64_to(TCC_I4, 8), -8);
}
END_TEST

START_TEST(rounding_once)
{
    /* i64 -> f32 is one rounding: by way of f64 this one would go to the lower neighbour. */
    int64_t v = (1ll << 60) + (1ll << 36) + 1;
    float f;
    tcc_store_i64(TCC_F32, &f, v);
    ck_assert(f == (float)v);
    uint64_t u = UINT64_MAX;
    tcc_cast(TCC_F32, &f, TCC_U64, &u, true, NULL);
    ck_assert(f == 0x1p64f);
    ck_assert(tcc_load_f64(TCC_U64, &u) == 0x1p64);
    float pair[2] = {1.5f, -2.5f};
    double wide[2];
    tcc_cast(TCC_C128, wide, TCC_C64, pair, true, NULL);
    ck_assert(wide[0] == 1.5 && wide[1] == -2.5);
    tcc_cast(TCC_F64, wide, TCC_C64, pair, true, NULL);
    ck_assert(wide[0] == 1.5);
}
END_TEST

START_TEST(e8m0_modes)
{
    static const struct {
        float v;
        const char *mode;
        uint8_t code;
    } cases[] = {
        {0, "up", 0},        {0.124f, "up", 124},     {0.25f, "up", 125},     {1.1f, NULL, 128},
        {1.1f, "down", 127}, {1.4f, "nearest", 127},  {1.5f, "nearest", 128}, {INFINITY, "down", 255},
        {-2, "up", 128},     {0x1.8p127f, "up", 254},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t code = 1;
        tcc_cast(TCC_F8E8M0, &code, TCC_F32, &cases[i].v, true, cases[i].mode);
        ck_assert_int_eq(code, cases[i].code);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtype");
    TCase *c = tcase_create("dtype");
    tcase_add_loop_test(c, small_floats, 0, (int)(sizeof digests / sizeof *digests));
    tcase_add_test(c, names);
    tcase_add_test(c, integers);
    tcase_add_test(c, rounding_once);
    tcase_add_test(c, e8m0_modes);
    suite_add_tcase(s, c);
    return run_tests(s);
}
