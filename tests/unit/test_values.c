/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the tools: files give back what was written, and the rules of comparison. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/suite.h"
#include "tools/values/values_int.h"

static const int numeric[] = {
#define X(id, n, name, bytes, class) n,
    TCC_DTYPES(X)
#undef X
};

static struct tcc_object *sample(int dtype)
{
    int64_t dims[] = {3, 1, 5};
    struct tcc_object *v = tccrt_object_tensor(dtype, 3, dims);
    ck_assert_ptr_nonnull(v);
    if (dtype == TCC_STRING) {
        for (int i = 0; i < 15; i++)
            ck_assert_int_eq(tccrt_string_set((struct tcc_string *)v->t.data + i, &"a\0b\xff"[i % 2], i % 4), 0);
        return v;
    }
    for (int i = 0; i < 15; i++) {
        char *at = (char *)v->t.data + i * tcc_dtype_bytes((enum tcc_dtype)dtype);
        if (dtype == TCC_C64 || dtype == TCC_C128)
            memset(at, 0x3f, (size_t)tcc_dtype_bytes((enum tcc_dtype)dtype));
        else if (dtype == TCC_BOOL)
            *at = (char)(i & 1);
        else if (tcc_is_float((enum tcc_dtype)dtype))
            tcc_store_f64((enum tcc_dtype)dtype, at, dtype == TCC_F8E8M0 ? ldexp(1, i) : i - 7);
        else
            tcc_store_i64((enum tcc_dtype)dtype, at, tcc_is_signed((enum tcc_dtype)dtype) ? i % 4 - 2 : i % 4);
    }
    return v;
}

static const struct tolerance exact = {.absolute = true};

static void expect_same(struct tcc_object *v, struct tcc_object *back, const char *error)
{
    char why[ERROR_SIZE] = "";
    ck_assert_msg(back != NULL, "%s", error);
    ck_assert_msg(value_equal(back, v, &exact, why), "%s", why);
    tccrt_object_unref(back);
}

START_TEST(tensors_come_back)
{
    int dtype = numeric[_i];
    char error[ERROR_SIZE] = "", path[] = "/tmp/tccc-test-XXXXXX.pb", npy[] = "/tmp/tccc-test-XXXXXX.npy", *name;
    struct tcc_object *v = sample(dtype);

    close(mkstemps(path, 3));
    ck_assert_msg(pb_write(path, "the name", VALUE_TENSOR, v, error), "%s", error);
    struct tcc_object *back = value_read(path, VALUE_TENSOR, &name, error);
    ck_assert_msg(back != NULL, "%s", error);
    ck_assert_str_eq(name, "the name");
    free(name);
    expect_same(v, back, error);
    unlink(path);
    if (npy_can(v)) {
        close(mkstemps(npy, 4));
        ck_assert_msg(npy_write(npy, v, error), "%s", error);
        expect_same(v, value_read(npy, VALUE_TENSOR, NULL, error), error);
        unlink(npy);
    }
    tccrt_object_unref(v);
}
END_TEST

START_TEST(containers_come_back)
{
    char error[ERROR_SIZE] = "", path[] = "/tmp/tccc-test-XXXXXX.pb";
    struct tcc_object *sequence = tccrt_object_sequence(2), *none = tccrt_object_none();

    close(mkstemps(path, 3));
    sequence->items[0] = sample(TCC_F32);
    sequence->items[1] = sample(TCC_I4);
    ck_assert(pb_write(path, "s", VALUE_SEQUENCE, sequence, error));
    expect_same(sequence, value_read(path, VALUE_SEQUENCE, NULL, error), error);
    ck_assert(pb_write(path, "o", VALUE_OPTIONAL, sequence, error));
    expect_same(sequence, value_read(path, VALUE_OPTIONAL, NULL, error), error);
    ck_assert(pb_write(path, "o", VALUE_OPTIONAL, sequence->items[0], error));
    expect_same(sequence->items[0], value_read(path, VALUE_OPTIONAL, NULL, error), error);
    ck_assert(pb_write(path, "o", VALUE_OPTIONAL, none, error));
    expect_same(none, value_read(path, VALUE_OPTIONAL, NULL, error), error);
    unlink(path);
    tccrt_object_unref(sequence);
    tccrt_object_unref(none);
}
END_TEST

static struct tcc_object *floats(int n, const float *values)
{
    int64_t dims[] = {n};
    struct tcc_object *v = tccrt_object_tensor(TCC_F32, 1, dims);
    memcpy(v->t.data, values, (size_t)n * sizeof *values);
    return v;
}

static bool close_to(float got, float expected, float largest, double rtol, double atol, bool absolute)
{
    char why[ERROR_SIZE];
    struct tolerance t = {rtol, atol, absolute, false};
    struct tcc_object *a = floats(2, (float[]){got, largest}), *b = floats(2, (float[]){expected, largest});
    bool equal = value_equal(a, b, &t, why);
    tccrt_object_unref(a);
    tccrt_object_unref(b);
    return equal;
}

START_TEST(tolerances)
{
    ck_assert(close_to(1.0009f, 1, 0, 1e-3, 0, false));
    ck_assert(!close_to(1.0011f, 1, 0, 1e-3, 0, false));
    ck_assert(close_to(0.009f, 0, 100, 0, 1e-4, false)); /* a factor of the largest finite expected value */
    ck_assert(!close_to(0.011f, 0, 100, 0, 1e-4, false));
    ck_assert(!close_to(0.009f, 0, 100, 0, 1e-4, true));
    ck_assert(close_to(0.009f, 0, 100, 0, 1e-2, true));
    ck_assert(close_to(NAN, NAN, 1, 0, 0, false));
    ck_assert(!close_to(NAN, 1, 1, 1, 1, false));
    ck_assert(!close_to(1, NAN, 1, 1, 1, false));
    ck_assert(close_to(INFINITY, INFINITY, 1, 0, 0, false));
    ck_assert(!close_to(INFINITY, -INFINITY, 1, 1, 1, false));
    ck_assert(!close_to(3e38f, INFINITY, 1, 1, 1, false));
    ck_assert(close_to(0.0f, -0.0f, 1, 0, 0, false));
    ck_assert(!close_to(2, 1, INFINITY, 0, 0.5, false)); /* the infinity is not the largest finite value */
}
END_TEST

static void set_part(struct tcc_tensor *t, int i, int part, double v)
{
    if (t->dtype == TCC_C64)
        ((float *)t->data)[2 * i + part] = (float)v;
    else if (t->dtype == TCC_C128)
        ((double *)t->data)[2 * i + part] = v;
    else
        tcc_store_f64((enum tcc_dtype)t->dtype, (char *)t->data + i * tcc_dtype_bytes((enum tcc_dtype)t->dtype), v);
}

/* What is refused, however wide the tolerance: pairs of (got, expected), each in every float type that holds them. */
static const struct {
    double got, expected, rtol, atol;
    bool same;
} pairs[] = {
    {1, 1, 0, 0, true},
    {1, 1.5, 0, 0, false},
    {1.5, 1, 0.5, 0, true},
    {1.5, 1, 0.375, 0, false},
    {1, 1.5, 0.375, 0, true}, /* relative to what is expected */
    {-1, 1, 0.5, 1, false},
    {0, 1e-3, 0, 1e-2, true},
    {0, 0.5, 0, 0.25, false},
    {NAN, NAN, 0, 0, true},
    {NAN, 0, 1e30, 1e30, false},
    {0, NAN, 1e30, 1e30, false},
    {NAN, INFINITY, 1e30, 1e30, false},
    {INFINITY, NAN, 1e30, 1e30, false},
    {INFINITY, INFINITY, 0, 0, true},
    {-INFINITY, -INFINITY, 0, 0, true},
    {INFINITY, -INFINITY, 1e30, 1e30, false},
    {-INFINITY, INFINITY, 1e30, 1e30, false},
    {2, INFINITY, 1e-5, 1e-6, false},
    {30000, INFINITY, 1e30, 1e30, false},
    {INFINITY, 30000, 1e30, 1e30, false},
    {-30000, -INFINITY, 1e30, 1e30, false},
};

START_TEST(rejects)
{
    static const int types[] = {TCC_F16, TCC_BF16, TCC_F32, TCC_F64, TCC_C64, TCC_C128};
    char why[ERROR_SIZE];

    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        int64_t dims[] = {4};
        struct tcc_object *got = tccrt_object_tensor(types[k], 1, dims),
                          *expected = tccrt_object_tensor(types[k], 1, dims);
        struct tolerance t = {pairs[_i].rtol, pairs[_i].atol, true, false};
        struct difference d;
        for (int part = 0; part < (types[k] == TCC_C64 || types[k] == TCC_C128 ? 2 : 1); part++) {
            for (int i = 0; i < 4; i++)
                set_part(&got->t, i, 0, 1), set_part(&expected->t, i, 0, 1);
            set_part(&got->t, 2, part, pairs[_i].got);
            set_part(&expected->t, 2, part, pairs[_i].expected);
            ck_assert_msg(tensor_equal(&got->t, &expected->t, &t, &d, why) == pairs[_i].same, "pair %d, %s: %s", _i,
                          tcc_dtype_name((enum tcc_dtype)types[k]), why);
            ck_assert_int_eq(d.count, !pairs[_i].same);
            ck_assert_int_eq(d.first, pairs[_i].same ? -1 : 2);
            ck_assert_int_eq(d.worst, d.first);
        }
        tccrt_object_unref(got);
        tccrt_object_unref(expected);
    }
}
END_TEST

START_TEST(tells_first_and_worst)
{
    char why[ERROR_SIZE];
    const struct tolerance t = {0, 0.25, true, false};
    struct difference d;
    struct tcc_object *got = floats(6, (float[]){1, 2.5f, 3, 9, NAN, 6}),
                      *expected = floats(6, (float[]){1, 2, 3, 4, NAN, 6.5f});

    ck_assert(!tensor_equal(&got->t, &expected->t, &t, &d, why));
    ck_assert_int_eq(d.count, 3);
    ck_assert_int_eq(d.first, 1);
    ck_assert_int_eq(d.worst, 3);
    ck_assert_str_eq(why, "3 of 6 elements differ; first at [1]: got 2.5, expected 2; worst at [3]: got 9, expected 4");
    ((float *)got->t.data)[4] = 1; /* nothing is worse than a NaN on one side */
    ck_assert(!tensor_equal(&got->t, &expected->t, &t, &d, why));
    ck_assert_int_eq(d.worst, 4);
    tccrt_object_unref(got);
    tccrt_object_unref(expected);
}
END_TEST

START_TEST(signs_of_zero)
{
    char why[ERROR_SIZE];
    struct tolerance t = {0, 0, true, true};
    struct tcc_object *plus = floats(1, (float[]){0.0f}), *minus = floats(1, (float[]){-0.0f});

    ck_assert(!value_equal(plus, minus, &t, why));
    ck_assert(value_equal(minus, minus, &t, why));
    t.signed_zero = false;
    ck_assert(value_equal(plus, minus, &t, why));
    tccrt_object_unref(plus);
    tccrt_object_unref(minus);
}
END_TEST

static void expect_different(struct tcc_object *got, struct tcc_object *expected, const char *said)
{
    const struct tolerance wide = {1e30, 1e30, true, false};
    char why[ERROR_SIZE] = "";

    ck_assert_msg(!value_equal(got, expected, &wide, why), "taken for equal: %s", said);
    ck_assert_msg(strstr(why, said) != NULL, "'%s' is not in: %s", said, why);
    tccrt_object_unref(got);
    tccrt_object_unref(expected);
}

START_TEST(shapes_and_kinds)
{
    struct tcc_object *a = tccrt_object_sequence(1), *b = tccrt_object_sequence(1), *s = sample(TCC_STRING),
                      *c = sample(TCC_BOOL);

    expect_different(tccrt_object_tensor(TCC_F32, 2, (int64_t[]){2, 3}),
                     tccrt_object_tensor(TCC_F32, 2, (int64_t[]){3, 2}), "got f32[2,3], expected f32[3,2]");
    expect_different(tccrt_object_tensor(TCC_F32, 1, (int64_t[]){1}), tccrt_object_tensor(TCC_F32, 0, NULL),
                     "got f32[1], expected f32[]");
    expect_different(tccrt_object_tensor(TCC_F32, 2, (int64_t[]){0, 3}),
                     tccrt_object_tensor(TCC_F32, 2, (int64_t[]){0, 4}), "got f32[0,3], expected f32[0,4]");
    expect_different(tccrt_object_tensor(TCC_F32, 1, (int64_t[]){1}), tccrt_object_tensor(TCC_F64, 1, (int64_t[]){1}),
                     "got f32[1], expected f64[1]");
    expect_different(tccrt_object_tensor(TCC_I8, 1, (int64_t[]){1}), tccrt_object_tensor(TCC_U8, 1, (int64_t[]){1}),
                     "got i8[1], expected u8[1]");
    expect_different(tccrt_object_none(), tccrt_object_tensor(TCC_F32, 0, NULL), "got none, expected a tensor");
    expect_different(tccrt_object_sequence(0), tccrt_object_none(), "got a sequence, expected none");
    expect_different(tccrt_object_sequence(0), tccrt_object_sequence(1), "got a sequence of 0, expected one of 1");
    a->items[0] = floats(1, (float[]){1});
    b->items[0] = floats(1, (float[]){INFINITY});
    expect_different(a, b, "item 0: 1 of 1 elements differ");
    ck_assert_int_eq(tccrt_string_set((struct tcc_string *)s->t.data + 3, "longer", 6), 0);
    expect_different(s, sample(TCC_STRING), "1 of 15 elements differ; first at [0,0,3]");
    ((char *)c->t.data)[5] ^= 1;
    expect_different(c, sample(TCC_BOOL), "first at [1,0,0]");
}
END_TEST

START_TEST(types_are_exact)
{
    char why[ERROR_SIZE];
    const struct tolerance wide = {1, 1, true, false};
    struct tcc_object *i = sample(TCC_I32), *u = sample(TCC_U32), *j = sample(TCC_I32), *flat;

    ck_assert(!value_equal(i, u, &wide, why));
    ck_assert_ptr_nonnull(strstr(why, "got i32[3,1,5], expected u32[3,1,5]"));
    ((int32_t *)j->t.data)[4]++;
    ck_assert(!value_equal(i, j, &wide, why));
    ck_assert_ptr_nonnull(strstr(why, "1 of 15 elements differ; first at [0,0,4]"));
    flat = floats(2, (float[]){1, 2});
    ck_assert(!value_equal(flat, i, &wide, why));
    tccrt_object_unref(i);
    tccrt_object_unref(u);
    tccrt_object_unref(j);
    tccrt_object_unref(flat);
}
END_TEST

START_TEST(random_is_fixed)
{
    char why[ERROR_SIZE];
    int64_t dims[] = {100};
    struct tcc_object *a = value_random(TCC_F32, 1, dims, 3, 0), *b = value_random(TCC_F32, 1, dims, 3, 0),
                      *c = value_random(TCC_F32, 1, dims, 4, 0);
    ck_assert(value_equal(a, b, &exact, why));
    ck_assert(!value_equal(a, c, &exact, why));
    tccrt_object_unref(a);
    tccrt_object_unref(b);
    tccrt_object_unref(c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("values");
    TCase *c = tcase_create("values");
    tcase_add_loop_test(c, tensors_come_back, 0, (int)(sizeof numeric / sizeof *numeric));
    tcase_add_test(c, containers_come_back);
    tcase_add_test(c, tolerances);
    tcase_add_loop_test(c, rejects, 0, (int)(sizeof pairs / sizeof *pairs));
    tcase_add_test(c, tells_first_and_worst);
    tcase_add_test(c, signs_of_zero);
    tcase_add_test(c, shapes_and_kinds);
    tcase_add_test(c, types_are_exact);
    tcase_add_test(c, random_is_fixed);
    suite_add_tcase(s, c);
    return run_tests(s);
}
