/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Library ops: one small case an op or idea, wrong operands, and every allocation failing in turn (the C library's
 * allocators are wrapped at link time). ONNX's own cases run in the official suite.
 */
#include <check.h>

#include "tests/unit/suite.h"
#undef fail
#include <math.h>
#include <stdbool.h>

#include "tests/unit/lib_host.h"
#include "runtime/trees.h"

/* -- Allocations that fail ----------------------------------------------------------------------------------- */

static int allocations_left = -1; /* negative: any number */

static bool refuse(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refuse() ? NULL : __real_aligned_alloc(alignment, size);
}

/* -- Running and comparing ---------------------------------------------------------------------------------------- */

/* Runs an op on operands that are then released. First with every allocation failing in turn, until one run gets
 * through. */
static int run(const char *name, int nin, struct tcc_object **in, int nout, int nattrs, const struct tcc_attr *attrs)
{
    int status = TCC_EENV;

    for (int n = 0; n < 200 && status == TCC_EENV; n++) {
        allocations_left = n;
        status = lib_run(name, nin, in, nout, nattrs, attrs);
        allocations_left = -1;
    }
    ck_assert_msg(status != TCC_EENV, "%s: %s", name, lib_message);
    for (int i = 0; i < nin; i++)
        tccrt_object_unref(in[i]);
    return status;
}

#define IN(...)                                                                                   \
    (int)(sizeof((struct tcc_object *[]){__VA_ARGS__}) / sizeof(void *)), (struct tcc_object *[]) \
    {                                                                                             \
        __VA_ARGS__                                                                               \
    }
#define ATTRS(...)                                                                                 \
    (int)(sizeof((struct tcc_attr[]){__VA_ARGS__}) / sizeof(struct tcc_attr)), (struct tcc_attr[]) \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define NO_ATTRS 0, NULL
#define RUN(name, ...) ck_assert_msg(run(name, __VA_ARGS__) == TCC_OK, "%s: %s", name, lib_message)
#define FAILS(why, name, ...)                                                         \
    do {                                                                              \
        ck_assert_int_ne(run(name, __VA_ARGS__), TCC_OK);                             \
        ck_assert_msg(strstr(lib_message, why), "'%s' lacks '%s'", lib_message, why); \
    } while (0)

static void check_dims(int k, int dtype, int rank, const int64_t *dims)
{
    const struct tcc_tensor *t = &lib_results[k]->t;

    ck_assert_int_eq(t->dtype, dtype);
    ck_assert_int_eq(t->rank, rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(t->dims[i], dims[i]);
}

static void check_f32(int k, const float *want, int rank, const int64_t *dims)
{
    int64_t n = 1;

    check_dims(k, TCC_F32, rank, dims);
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    for (int64_t i = 0; i < n; i++)
        ck_assert_float_eq_tol(((float *)lib_results[k]->t.data)[i], want[i], 1e-4f);
}

static void check_i64(int k, const int64_t *want, int rank, const int64_t *dims)
{
    int64_t n = 1;

    check_dims(k, TCC_I64, rank, dims);
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    for (int64_t i = 0; i < n; i++)
        ck_assert_int_eq(((int64_t *)lib_results[k]->t.data)[i], want[i]);
}

static void check_strings(int k, int n, const char *const *want)
{
    ck_assert_int_eq(lib_results[k]->t.dtype, TCC_STRING);
    for (int i = 0; i < n; i++) {
        const struct tcc_string *s = (const struct tcc_string *)lib_results[k]->t.data + i;

        ck_assert_int_eq(s->size, (int64_t)strlen(want[i]));
        ck_assert(s->size == 0 || memcmp(s->data, want[i], (size_t)s->size) == 0);
    }
}

#define WANT_F32(k, values, ...) check_f32(k, (float[])values, DIMS(__VA_ARGS__))
#define WANT_I64(k, values, ...) check_i64(k, (int64_t[])values, DIMS(__VA_ARGS__))
#define WANT_STRINGS(k, ...) \
    check_strings(k, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__})

/* -- The table ------------------------------------------------------------------------------------------------------
 */

START_TEST(table)
{
    for (int i = 0; i < tccrt_nlibops; i++) {
        ck_assert(i == 0 || strcmp(tccrt_libops[i - 1].name, tccrt_libops[i].name) < 0);
        ck_assert(strcmp(tccrt_libops[i].symbol + strlen("tccrt_lib_"), tccrt_libops[i].name) == 0);
    }
}
END_TEST

/* No op may fall over operands that are missing, of another kind, or of no elements. */
START_TEST(odd_operands)
{
    struct tcc_object *odd[] = {NULL,
                                tccrt_object_none(),
                                tccrt_object_sequence(0),
                                SCALAR_I64(7),
                                F32(V(1, 2), 2),
                                F32(V(0), 0, 3),
                                I64(V(-3, 9), 2),
                                STRINGS("a", ""),
                                BOOLS(V(1, 0), 2),
                                F32(V(1, 2, 3, 4), 1, 2, 2),
                                F32(V(1, 2, 3, 4), 1, 1, 2, 2)};
    int n = (int)(sizeof odd / sizeof *odd);

    for (int op = 0; op < tccrt_nlibops; op++) {
        for (int code = 0; code < n * n; code++) {
            struct tcc_object *in[] = {odd[code % n], odd[code / n], odd[(code * 7) % n], odd[(code / 3) % n]};

            for (int nin = 0; nin <= 4; nin++)
                lib_run(tccrt_libops[op].name, nin, in, 4, 0, NULL);
        }
    }
    lib_drop();
    for (int i = 0; i < n; i++)
        tccrt_object_unref(odd[i]);
}
END_TEST

/* -- Shapes and moves -------------------------------------------------------------------------------------------------
 */

START_TEST(shapes)
{
    RUN("reshape_dims", IN(I64(V(2, 3, 4), 3), I64(V(0, -1), 2)), 1, NO_ATTRS);
    WANT_I64(0, V(2, 12), 2);
    RUN("reshape_dims", IN(I64(V(0, 3), 2), I64(V(3, 0), 2)), 1, ATTRS(A_INTS("allowzero", 1)));
    WANT_I64(0, V(3, 0), 2);
    FAILS("do not fill", "reshape_dims", IN(I64(V(2, 3), 2), I64(V(4, -1), 2)), 1, NO_ATTRS);
    FAILS("cannot take", "reshape_dims", IN(I64(V(2, 3), 2), I64(V(4, 2), 2)), 1, NO_ATTRS);
    FAILS("too large", "reshape_dims", IN(I64(V(2, 3), 2), I64(V(INT64_MAX, 2), 2)), 1, NO_ATTRS);
    RUN("slice_bounds",
        IN(I64(V(10, 5), 2), I64(V(-1, 100), 2), I64(V(-100, -3), 2), I64(V(0, -1), 2), I64(V(-3, -1), 2)), 1,
        NO_ATTRS);
    WANT_I64(0, V(9, 4, 4, 2, -3, -1), 6);
    RUN("slice_bounds", IN(I64(V(10), 1), I64(V(INT64_MIN), 1), I64(V(INT64_MAX), 1), NULL, I64(V(INT64_MAX), 1)), 1,
        NO_ATTRS);
    WANT_I64(0, V(0, 1, INT64_MAX), 3);
    RUN("pad_amounts", IN(SCALAR_I64(3), I64(V(1, 2), 2), I64(V(-1), 1)), 1, NO_ATTRS);
    WANT_I64(0, V(0, 0, 1, 0, 0, 2), 6);
    RUN("resize_dims", IN(I64(V(1, 3, 8), 3), NULL, I64(V(4), 1)), 1, ATTRS(A_INTS("axes", 2)));
    WANT_I64(0, V(1, 3, 4), 3);
    RUN("dyn_shape", IN(F32(V(0), 1, 1, 1)), 1, ATTRS(A_INTS("start", -2)));
    WANT_I64(0, V(1, 1), 2);
    RUN("dyn_unsqueeze", IN(F32(V(5, 6), 2), I64(V(0, -1), 2)), 1, NO_ATTRS);
    WANT_F32(0, V(5, 6), 1, 2, 1);
    RUN("dyn_squeeze", IN(F32(V(5, 6), 1, 2, 1)), 1, NO_ATTRS);
    WANT_F32(0, V(5, 6), 2);
    FAILS("not 1", "dyn_squeeze", IN(F32(V(5, 6), 2)), 1, ATTRS(A_INTS("axes", 0)));
}
END_TEST

START_TEST(moves)
{
    RUN("dyn_transpose", IN(F32(V(1, 2, 3, 4, 5, 6), 2, 3)), 1, NO_ATTRS);
    WANT_F32(0, V(1, 4, 2, 5, 3, 6), 3, 2);
    RUN("dyn_slice", IN(F32(V(0, 1, 2, 3, 4, 5), 6), I64(V(-2), 1), I64(V(-100), 1), NULL, I64(V(-2), 1)), 1, NO_ATTRS);
    WANT_F32(0, V(4, 2, 0), 3);
    RUN("dyn_gather", IN(STRINGS("a", "bc", "d"), I64(V(-1, 1, 1), 3)), 1, NO_ATTRS);
    WANT_STRINGS(0, "d", "bc", "bc");
    FAILS("outside", "dyn_gather", IN(STRINGS("a"), I64(V(1), 1)), 1, NO_ATTRS);
    RUN("dyn_gather_elements", IN(F32(V(1, 2, 3, 4), 2, 2), I64(V(0, -1, 1, 0), 2, 2)), 1, ATTRS(A_INTS("axis", 1)));
    WANT_F32(0, V(1, 2, 4, 3), 2, 2);
    FAILS("outside", "dyn_gather_elements", IN(STRINGS("a"), I64(V(1), 1)), 1, NO_ATTRS);
    RUN("dyn_concat", IN(F32(V(1, 2), 2, 1), F32(V(3, 4, 5, 6), 2, 2)), 1, ATTRS(A_INTS("axis", -1)));
    WANT_F32(0, V(1, 3, 4, 2, 5, 6), 2, 3);
    RUN("dyn_pad", IN(F32(V(1, 2, 3), 3), I64(V(2, 1), 2)), 1, ATTRS(A_STRINGS("mode", "reflect")));
    WANT_F32(0, V(3, 2, 1, 2, 3, 2), 6);
    RUN("dyn_pad", IN(F32(V(1, 2, 3), 3), I64(V(-1, 1), 2), F32(V(9), 1)), 1, NO_ATTRS);
    WANT_F32(0, V(2, 3, 9), 3);
    RUN("dyn_tile", IN(F32(V(1, 2), 1, 2), I64(V(2, 2), 2)), 1, NO_ATTRS);
    WANT_F32(0, V(1, 2, 1, 2, 1, 2, 1, 2), 2, 4);
    RUN("dyn_expand", IN(F32(V(1, 2), 2, 1), I64(V(3), 1)), 1, NO_ATTRS);
    WANT_F32(0, V(1, 1, 1, 2, 2, 2), 2, 3);
    RUN("dyn_select", IN(BOOLS(V(1, 0), 2), STRINGS("x"), STRINGS("y")), 1, NO_ATTRS);
    WANT_STRINGS(0, "x", "y");
    RUN("dyn_split", IN(F32(V(1, 2, 3, 4, 5), 5)), 2, NO_ATTRS);
    WANT_F32(1, V(4, 5), 2);
    RUN("dyn_reverse_sequence", IN(F32(V(1, 2, 3, 4, 5, 6), 3, 2), I64(V(3, 2), 2)), 1, NO_ATTRS);
    WANT_F32(0, V(5, 4, 3, 2, 1, 6), 3, 2);
}
END_TEST

START_TEST(reductions)
{
    RUN("dyn_reduce", IN(F32(V(1, 2, 3, 4), 2, 2), I64(V(1), 1)), 1,
        ATTRS(A_STRINGS("kind", "log_sum_exp"), A_INTS("keepdims", 0)));
    WANT_F32(0, V(2.3132617f, 4.3132617f), 2);
    RUN("dyn_reduce", IN(F32(V(1, NAN, 3, 4), 2, 2), I64(V(1), 1)), 1, ATTRS(A_STRINGS("kind", "max")));
    ck_assert(isnan(((float *)lib_results[0]->t.data)[0]));
    RUN("dyn_reduce", IN(I64(V(-5, 2), 2)), 1, ATTRS(A_STRINGS("kind", "min"), A_INTS("keepdims", 0)));
    WANT_I64(0, V(-5), );
    RUN("dyn_reduce", IN(F32(V(1, 2), 2), I64(V(0), 0)), 1, ATTRS(A_INTS("noop_with_empty_axes", 1)));
    WANT_F32(0, V(1, 2), 2);
    RUN("dyn_arg", IN(F32(V(3, 1, 3, 2), 4)), 1, ATTRS(A_INTS("select_last_index", 1)));
    WANT_I64(0, V(2), 1);
    RUN("dyn_cumulate", IN(F32(V(1, 2, 3), 3), SCALAR_I64(0)), 1, ATTRS(A_INTS("exclusive", 1), A_INTS("reverse", 1)));
    WANT_F32(0, V(5, 3, 0), 3);
}
END_TEST

/* -- Data-dependent ------------------------------------------------------------------------------------------------ */

START_TEST(selection)
{
    RUN("nonzero", IN(F32(V(1, 0, 2, 0, 0, 3), 2, 3)), 1, NO_ATTRS);
    WANT_I64(0, V(0, 0, 1, 0, 2, 2), 2, 3);
    RUN("compress", IN(F32(V(1, 2, 3, 4), 2, 2), BOOLS(V(0, 1), 2)), 1, ATTRS(A_INTS("axis", 1)));
    WANT_F32(0, V(2, 4), 2, 1);
    RUN("unique", IN(F32(V(3, 1, 3, 2, 1), 5)), 4, NO_ATTRS);
    WANT_F32(0, V(1, 2, 3), 3);
    WANT_I64(1, V(1, 3, 0), 3);
    WANT_I64(2, V(2, 0, 2, 1, 0), 5);
    WANT_I64(3, V(2, 1, 2), 3);
    RUN("unique", IN(F32(V(3, 1, 3, 2, 1), 5)), 4, ATTRS(A_INTS("sorted", 0)));
    WANT_F32(0, V(3, 1, 2), 3);
    WANT_I64(2, V(0, 1, 0, 2, 1), 5);
    RUN("unique", IN(F32(V(1, 2, 3, 4, 1, 2), 3, 2)), 3, ATTRS(A_INTS("axis", 0)));
    WANT_F32(0, V(1, 2, 3, 4), 2, 2);
    RUN("nonmaxsuppression",
        IN(F32(V(0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 10, 1, 11), 1, 3, 4), F32(V(0.9f, 0.75f, 0.6f), 1, 1, 3),
           I64(V(3), 1), F32(V(0.5f), 1)),
        1, NO_ATTRS);
    WANT_I64(0, V(0, 0, 0, 0, 0, 2), 2, 3);
    FAILS("do not fit", "nonmaxsuppression", IN(F32(V(0, 0, 1, 1), 1, 1, 4), F32(V(1, 2), 1, 1, 2)), 1, NO_ATTRS);
}
END_TEST

/* -- Images and signals -------------------------------------------------------------------------------------------- */

START_TEST(images)
{
    float grid[2 * 2 * 2] = {-1, -1, 1, -1, -1, 1, 1, 1};

    RUN("resize", IN(F32(V(1, 2), 1, 1, 1, 2), NULL, F32(V(1, 1, 1, 2), 4)), 1, ATTRS(A_STRINGS("mode", "linear")));
    WANT_F32(0, V(1, 1.25f, 1.75f, 2), 1, 1, 1, 4);
    RUN("upsample", IN(F32(V(1, 2), 2), F32(V(2), 1)), 1, NO_ATTRS);
    WANT_F32(0, V(1, 1, 2, 2), 4);
    FAILS("scale", "resize", IN(F32(V(1, 2), 2), NULL, F32(V(-1), 1)), 1, NO_ATTRS);
    RUN("grid_sample", IN(F32(V(1, 2, 3, 4), 1, 1, 2, 2), lib_tensor(TCC_F32, 4, grid, DIMS(1, 2, 2, 2))), 1,
        ATTRS(A_INTS("align_corners", 1)));
    WANT_F32(0, V(1, 2, 3, 4), 1, 1, 2, 2);
    RUN("affine_grid", IN(F32(V(1, 0, 0, 0, 1, 0), 1, 2, 3), I64(V(1, 1, 2, 2), 4)), 1,
        ATTRS(A_INTS("align_corners", 1)));
    WANT_F32(0, V(-1, -1, 1, -1, -1, 1, 1, 1), 1, 2, 2, 2);
    RUN("roialign", IN(F32(V(1, 2, 3, 4), 1, 1, 2, 2), F32(V(0, 0, 2, 2), 1, 4), I64(V(0), 1)), 1, NO_ATTRS);
    WANT_F32(0, V(2.5f), 1, 1, 1, 1);
    FAILS("batch index", "roialign", IN(F32(V(1, 2, 3, 4), 1, 1, 2, 2), F32(V(0, 0, 2, 2), 1, 4), I64(V(1), 1)), 1,
          NO_ATTRS);
    RUN("max_unpool", IN(F32(V(5, 6), 1, 1, 2), I64(V(1, 2), 1, 1, 2)), 1,
        ATTRS(A_INTS("kernel_shape", 2), A_INTS("strides", 2)));
    WANT_F32(0, V(0, 5, 6, 0), 1, 1, 4);
    FAILS("outside", "max_unpool", IN(F32(V(5, 6), 1, 1, 2), I64(V(1, 4), 1, 1, 2)), 1,
          ATTRS(A_INTS("kernel_shape", 2), A_INTS("strides", 2)));
    RUN("col2im", IN(F32(V(1, 2, 3, 4), 1, 2, 2), I64(V(3), 1), I64(V(2), 1)), 1, NO_ATTRS);
    WANT_F32(0, V(1, 2 + 3, 4), 1, 1, 3);
    RUN("deform_conv",
        IN(F32(V(1, 2, 3, 4), 1, 1, 2, 2), F32(V(1), 1, 1, 1, 1), F32(V(0, 0, 0, 0, 0.5f, 0, 0, 0), 1, 2, 2, 2)), 1,
        NO_ATTRS);
    WANT_F32(0, V(1.5f, 2, 3, 4), 1, 1, 2, 2);
    RUN("image_decoder", IN(lib_tensor(TCC_U8, 1, "P5 2 1 255\n\x10\x20", DIMS(13))), 1,
        ATTRS(A_STRINGS("pixel_format", "Grayscale")));
    check_dims(0, TCC_U8, DIMS(1, 2, 1));
    FAILS("no image", "image_decoder", IN(lib_tensor(TCC_U8, 1, "GIF89a----", DIMS(10))), 1, NO_ATTRS);
}
END_TEST

/* Lengths with and without a factor of two against the definition. */
START_TEST(fourier)
{
    for (int64_t n = 1; n < 20; n++) {
        float x[20], *y;

        for (int64_t i = 0; i < n; i++)
            x[i] = (float)(i * i % 7) - 3;
        RUN("dft", IN(lib_tensor(TCC_F32, 4, x, DIMS(1, n, 1))), 1, NO_ATTRS);
        check_dims(0, TCC_F32, DIMS(1, n, 2));
        y = lib_results[0]->t.data;
        for (int64_t k = 0; k < n; k++) {
            double re = 0, im = 0;

            for (int64_t i = 0; i < n; i++) {
                re += x[i] * cos(2 * 3.14159265358979323846 * (double)(i * k) / (double)n);
                im -= x[i] * sin(2 * 3.14159265358979323846 * (double)(i * k) / (double)n);
            }
            ck_assert_double_eq_tol(y[2 * k], re, 1e-4);
            ck_assert_double_eq_tol(y[2 * k + 1], im, 1e-4);
        }
    }
    RUN("stft", IN(F32(V(1, 1, 1, 1, 1, 1), 1, 6, 1), SCALAR_I64(2), F32(V(1, 1, 1, 1), 4)), 1, NO_ATTRS);
    check_dims(0, TCC_F32, DIMS(1, 2, 3, 2));
}
END_TEST

/* -- Text ---------------------------------------------------------------------------------------------------------- */

START_TEST(matrices)
{
    RUN("det", IN(F32(V(0, 2, 3, 4), 2, 2)), 1, NO_ATTRS);
    WANT_F32(0, V(-6), );
    RUN("inverse", IN(F32(V(0, 2, 4, 2, 1, 0, 0, 1), 2, 2, 2)), 1, NO_ATTRS);
    WANT_F32(0, V(-0.25f, 0.25f, 0.5f, 0, 1, 0, 0, 1), 2, 2, 2);
    FAILS("square", "inverse", IN(F32(V(1, 2), 1, 2)), 1, NO_ATTRS);
    FAILS("singular", "inverse", IN(F32(V(1, 2, 2, 4), 2, 2)), 1, ATTRS(A_INTS("check", 1)));
    RUN("slogdet", IN(F32(V(0, 2, 3, 4), 2, 2)), 2, NO_ATTRS);
    WANT_F32(0, V(-1), );
    WANT_F32(1, V(1.7917595f), );
    RUN("solve", IN(F32(V(0, 2, 4, 2), 2, 2), F32(V(2, 6), 2, 1)), 2, NO_ATTRS);
    WANT_F32(0, V(1, 1), 2, 1);
    RUN("solve", IN(F32(V(0, 2, 4, 2), 2, 2), F32(V(4, 4), 1, 2)), 1, ATTRS(A_INTS("left", 0)));
    WANT_F32(0, V(1, 1), 1, 2);
    FAILS("batch element 1", "solve", IN(F32(V(1, 0, 0, 1, 1, 1, 1, 1), 2, 2, 2), F32(V(1, 1, 1, 1), 2, 2, 1)), 1,
          ATTRS(A_INTS("check", 1)));
    FAILS("rows where 2 fit", "solve", IN(F32(V(1, 0, 0, 1), 2, 2), F32(V(1, 1, 1), 3, 1)), 1, NO_ATTRS);
    RUN("triangular_solve", IN(F32(V(2, 9, 1, 4), 2, 2), F32(V(2, 9), 2, 1)), 1, NO_ATTRS);
    WANT_F32(0, V(1, 2), 2, 1);
    RUN("lu", IN(F32(V(0, 2, 4, 2), 2, 2)), 3, NO_ATTRS);
    WANT_F32(0, V(4, 2, 0, 2), 2, 2);
    FAILS("LU", "lu", IN(F32(V(0, 0, 0, 0), 2, 2)), 3, ATTRS(A_INTS("check", 1)));
    FAILS("pivot 3 of 2", "lu_solve", IN(F32(V(4, 2, 0, 2), 2, 2), I64(V(3, 2), 2), F32(V(2, 6), 2, 1)), 1, NO_ATTRS);
    RUN("lu_solve", IN(F32(V(4, 2, 0, 2), 2, 2), I64(V(2, 2), 2), F32(V(2, 6), 2, 1)), 1, NO_ATTRS);
    WANT_F32(0, V(1, 1), 2, 1);
    RUN("lu_permutation", IN(F32(V(0, 0, 0, 0, 0, 0), 3, 2), I64(V(2, 3), 2)), 1, NO_ATTRS);
    WANT_F32(0, V(0, 0, 1, 1, 0, 0, 0, 1, 0), 3, 3);
    RUN("cholesky", IN(F32(V(4, 2, 2, 5), 2, 2)), 2, ATTRS(A_INTS("upper", 1)));
    WANT_F32(0, V(2, 1, 0, 2), 2, 2);
    FAILS("leading minor of order 2", "cholesky", IN(F32(V(1, 2, 2, 1), 2, 2)), 2, ATTRS(A_INTS("check", 1)));
    RUN("qr", IN(F32(V(3, 4), 2, 1)), 2, NO_ATTRS);
    WANT_F32(0, V(-0.6f, -0.8f), 2, 1);
    WANT_F32(1, V(-5), 1, 1);
    RUN("geqrf", IN(F32(V(3, 4), 2, 1)), 2, NO_ATTRS);
    WANT_F32(0, V(-5, 0.5f), 2, 1);
    RUN("eigh", IN(F32(V(2, 9, 1, 2), 2, 2)), 2, NO_ATTRS);
    WANT_F32(0, V(1, 3), 2);
    FAILS("not finite", "eigh", IN(F32(V(NAN, 1, 1, 2), 2, 2)), 2, NO_ATTRS);
    RUN("check", IN(F32(V(3), 1), BOOLS(V(1, 1), 2)), 1, NO_ATTRS);
    WANT_F32(0, V(3), 1);
    FAILS("does not hold", "check", IN(F32(V(3), 1), BOOLS(V(1, 0), 2)), 1, NO_ATTRS);
    RUN("eig", IN(F32(V(0, -4, 1, 0), 2, 2)), 2, NO_ATTRS);
    WANT_F32(0, V(0, 2, 0, -2), 2, 2);
    FAILS("not finite", "eig", IN(F32(V(INFINITY), 1, 1)), 2, NO_ATTRS);
    FAILS("holds no eigenvectors", "eig_grad",
          IN(F32(V(1, 0), 1, 2), F32(V(1), 1, 1), F32(V(1, 0), 1, 2), F32(V(1), 1, 1)), 1, NO_ATTRS);
    FAILS("depend on each other", "eig_grad",
          IN(F32(V(1, 0, 1, 0), 2, 2), F32(V(1, 0, 1, 0, 0, 0, 0, 0), 2, 2, 2), F32(V(1, 0, 1, 0), 2, 2),
             F32(V(0, 0, 0, 0, 0, 0, 0, 0), 2, 2, 2)),
          1, NO_ATTRS);
    RUN("ldl", IN(F32(V(0, 9, 2, 0), 2, 2)), 3, NO_ATTRS);
    WANT_F32(0, V(0, 0, 2, 0), 2, 2);
    FAILS("block 1 of its factor D is 0", "ldl", IN(F32(V(0), 1, 1)), 3, ATTRS(A_INTS("check", 1)));
    RUN("ldl_solve", IN(F32(V(0, 0, 2, 0), 2, 2), I64(V(-2, -2), 2), F32(V(6, 4), 2, 1)), 1, NO_ATTRS);
    WANT_F32(0, V(2, 3), 2, 1);
    FAILS("none of ldl_factor", "ldl_solve", IN(F32(V(0, 0, 2, 0), 2, 2), I64(V(-2, 2), 2), F32(V(6, 4), 2, 1)), 1,
          NO_ATTRS);
    FAILS("none of ldl_factor", "ldl_solve", IN(F32(V(1), 1, 1), I64(V(2), 1), F32(V(6), 1, 1)), 1, NO_ATTRS);
    RUN("svd", IN(F32(V(0, 0, 0, -3, 0, 0), 2, 3)), 3, ATTRS(A_INTS("full", 1)));
    WANT_F32(1, V(3, 0), 2);
    check_dims(2, TCC_F32, DIMS(3, 3));
    FAILS("not finite", "svd", IN(F32(V(INFINITY), 1, 1)), 3, NO_ATTRS);
    RUN("pinv", IN(F32(V(0, 2, 0, 0), 2, 2)), 1, NO_ATTRS);
    WANT_F32(0, V(0, 0, 0.5f, 0), 2, 2);
    FAILS("one a matrix", "pinv", IN(F32(V(0, 2, 0, 0), 2, 2), F32(V(1, 2, 3), 3)), 1, NO_ATTRS);
    RUN("matrix_exp", IN(F32(V(0, 1, 0, 0), 2, 2)), 1, NO_ATTRS);
    WANT_F32(0, V(1, 1, 0, 1), 2, 2);
}
END_TEST

/* A region of a picture of ones: its mean is 1, whose gradient goes to the four elements, a quarter each. */
START_TEST(regions)
{
    const struct tcc_attr attrs[] = {A_INTS("output_height", 1), A_INTS("sampling_ratio", 1)};

    RUN("roialign", IN(F32(V(1, 1, 1, 1), 1, 1, 2, 2), F32(V(0, 0, 2, 2), 1, 4), I64(V(0), 1)), 1, 2, attrs);
    WANT_F32(0, V(1), 1, 1, 1, 1);
    RUN("roialign_grad",
        IN(F32(V(2), 1, 1, 1, 1), F32(V(0, 0, 2, 2), 1, 4), I64(V(0), 1), F32(V(0, 0, 0, 0), 1, 1, 2, 2)), 1, 2, attrs);
    WANT_F32(0, V(0.5f, 0.5f, 0.5f, 0.5f), 1, 1, 2, 2);
    FAILS("dims of the result", "roialign_grad",
          IN(F32(V(2, 2), 1, 2, 1, 1), F32(V(0, 0, 2, 2), 1, 4), I64(V(0), 1), F32(V(0, 0, 0, 0), 1, 1, 2, 2)), 1, 2,
          attrs);
}
END_TEST

/* Values of the NIST Digital Library's tables, and of mpmath with 60 digits. */
START_TEST(special_functions)
{
    RUN("special", IN(F32(V(0.5f, -0.5f, 4), 3)), 1, ATTRS(A_STRINGS("function", "lgamma")));
    WANT_F32(0, V(0.5723649429f, 1.2655121235f, 1.7917594692f), 3);
    RUN("special", IN(F32(V(1, -1.5f, 10), 3)), 1, ATTRS(A_STRINGS("function", "digamma")));
    WANT_F32(0, V(-0.5772156649f, 0.7031566406f, 2.2517525891f), 3);
    RUN("special", IN(F32(V(1, 2), 2), F32(V(1, 0.5f), 2)), 1, ATTRS(A_STRINGS("function", "polygamma")));
    WANT_F32(0, V(1.6449340668f, -16.8287966442f), 2);
    RUN("special", IN(F32(V(0.5f, 2, 0), 3), F32(V(1, 3, 1), 3)), 1, ATTRS(A_STRINGS("function", "igamma")));
    WANT_F32(0, V(0.8427007929f, 0.8008517265f, 1), 3);
    RUN("special", IN(F32(V(0.5f, -0.25f), 2)), 1, ATTRS(A_STRINGS("function", "erfinv")));
    WANT_F32(0, V(0.4769362762f, -0.2253120550f), 2);
    RUN("special", IN(F32(V(0.1f, 2), 2)), 1, ATTRS(A_STRINGS("function", "k1")));
    WANT_F32(0, V(9.8538445509f, 0.1398658818f), 2);
    FAILS("no special function", "special", IN(F32(V(1), 1)), 1, ATTRS(A_STRINGS("function", "gauss")));
    FAILS("equal dims", "special", IN(F32(V(1), 1), F32(V(1, 2), 2)), 1, ATTRS(A_STRINGS("function", "zeta")));
    FAILS("floating-point", "special", IN(I64(V(1), 1)), 1, ATTRS(A_STRINGS("function", "i0")));
}
END_TEST

START_TEST(text)
{
    RUN("string_concat", IN(STRINGS("a", ""), STRINGS("x")), 1, NO_ATTRS);
    WANT_STRINGS(0, "ax", "x");
    RUN("string_split", IN(STRINGS("  a b  c ", "", "x")), 2, NO_ATTRS);
    WANT_I64(1, V(3, 0, 1), 3);
    WANT_STRINGS(0, "a", "b", "c", "", "", "", "x", "", "");
    RUN("string_split", IN(STRINGS("a,,b,c")), 2, ATTRS(A_STRINGS("delimiter", ","), A_INTS("maxsplit", 2)));
    WANT_STRINGS(0, "a", "", "b,c");
    RUN("string_normalizer", IN(STRINGS("Mon", "TUE", "\xc3\x89t\xc3\xa9")), 1,
        ATTRS(A_STRINGS("case_change_action", "LOWER"), A_STRINGS("stopwords", "mon")));
    WANT_STRINGS(0, "tue", "\xc3\xa9t\xc3\xa9");
    RUN("string_normalizer", IN(STRINGS("a")), 1, ATTRS(A_STRINGS("stopwords", "a")));
    WANT_STRINGS(0, "");
    RUN("regex_full_match", IN(STRINGS("a1", "a12", "b1", "")), 1, ATTRS(A_STRINGS("pattern", "(?:a|)\\d[\\d\\]]*?")));
    ck_assert(memcmp(lib_results[0]->t.data, "\1\1\0\0", 4) == 0);
    FAILS("not supported", "regex_full_match", IN(STRINGS("a")), 1, ATTRS(A_STRINGS("pattern", "(?=a)")));
    RUN("tokenizer", IN(STRINGS("a,bc;d", ",;", "e f")), 1,
        ATTRS(A_STRINGS("separators", ",", ";"), A_STRINGS("pad_value", "#")));
    WANT_STRINGS(0, "a", "bc", "d", "#", "#", "#", "e f", "#", "#");
    RUN("tokenizer", IN(STRINGS("ab12c345", "x")), 1, ATTRS(A_STRINGS("tokenexp", "[0-9]+"), A_INTS("mark", 1)));
    WANT_STRINGS(0, "\2", "12", "345", "\3", "\2", "\3", "", "");
    RUN("tokenizer", IN(STRINGS("ab--c", "d-")), 1, ATTRS(A_STRINGS("separators", "-+"), A_INTS("mincharnum", 2)));
    WANT_STRINGS(0, "ab", "");
    RUN("tokenizer", IN(STRINGS("h\xc3\xa9", "")), 1, ATTRS(A_STRINGS("separators", "")));
    WANT_STRINGS(0, "h", "\xc3\xa9", "", "");
    FAILS("separators or tokenexp", "tokenizer", IN(STRINGS("a")), 1, NO_ATTRS);
    FAILS("not closed", "tokenizer", IN(STRINGS("a")), 1, ATTRS(A_STRINGS("separators", "[")));
    RUN("cast_to_string", IN(F32(V(0.1f, 1e20f, -2, NAN, 1e-7f, 123456.5f), 6)), 1, NO_ATTRS);
    WANT_STRINGS(0, "0.1", "1e+20", "-2.0", "nan", "1e-07", "123456.5");
    RUN("cast_from_string", IN(STRINGS("-INF", " 1e3 ", "nan")), 1, ATTRS(A_INTS("to", TCC_F32)));
    ck_assert(((float *)lib_results[0]->t.data)[0] == -INFINITY && ((float *)lib_results[0]->t.data)[1] == 1000);
    FAILS("'x1' is not a number", "cast_from_string", IN(STRINGS("x1")), 1, ATTRS(A_INTS("to", TCC_I64)));
    RUN("tfidfvectorizer", IN(I64(V(1, 2, 1, 2), 4)), 1,
        ATTRS(A_INTS("pool_int64s", 1, 2, 1, 2), A_INTS("ngram_counts", 0, 2), A_INTS("ngram_indexes", 0, 1, 2),
              A_INTS("max_gram_length", 2)));
    WANT_F32(0, V(2, 2, 2), 3);
}
END_TEST

/* -- Sequences ----------------------------------------------------------------------------------------------------- */

START_TEST(sequences)
{
    struct tcc_object *q;

    RUN("split_to_sequence", IN(F32(V(1, 2, 3, 4, 5), 5), SCALAR_I64(2)), 1, NO_ATTRS);
    ck_assert_int_eq(lib_results[0]->n, 3);
    q = tccrt_object_ref(lib_results[0]);
    RUN("concat_from_sequence", IN(tccrt_object_ref(q)), 1, ATTRS(A_INTS("axis", 0)));
    WANT_F32(0, V(1, 2, 3, 4, 5), 5);
    RUN("sequence_at", IN(tccrt_object_ref(q), SCALAR_I64(-1)), 1, NO_ATTRS);
    WANT_F32(0, V(5), 1);
    FAILS("outside a sequence of 3", "sequence_at", IN(tccrt_object_ref(q), SCALAR_I64(3)), 1, NO_ATTRS);
    RUN("sequence_erase", IN(tccrt_object_ref(q), SCALAR_I64(0)), 1, NO_ATTRS);
    ck_assert_int_eq(lib_results[0]->n, 2);
    RUN("sequence_insert", IN(q, F32(V(9), 1), SCALAR_I64(3)), 1, NO_ATTRS);
    ck_assert_int_eq(lib_results[0]->n, 4);
    RUN("split_to_sequence", IN(F32(V(1, 2, 3), 3), SCALAR_I64(1)), 1, ATTRS(A_INTS("keepdims", 0)));
    RUN("sequence_at", IN(tccrt_object_ref(lib_results[0]), SCALAR_I64(1)), 1, NO_ATTRS);
    WANT_F32(0, V(2));
    RUN("sequence_construct", IN(F32(V(1), 1), F32(V(2), 1)), 1, NO_ATTRS);
    q = tccrt_object_ref(lib_results[0]);
    RUN("concat_from_sequence", IN(q), 1, ATTRS(A_INTS("axis", 1), A_INTS("new_axis", 1)));
    WANT_F32(0, V(1, 2), 1, 2);
    RUN("optional_has_element", IN(tccrt_object_none()), 1, NO_ATTRS);
    ck_assert_int_eq(*(uint8_t *)lib_results[0]->t.data, 0);
    FAILS("empty", "optional_get_element", IN(tccrt_object_none()), 1, NO_ATTRS);
}
END_TEST

/* -- ai.onnx.ml
 * --------------------------------------------------------------------------------------------------------------------
 */

START_TEST(models)
{
    RUN("label_encoder", IN(STRINGS("b", "z")), 1,
        ATTRS(A_STRINGS("keys_strings", "a", "b"), A_INTS("values_int64s", 10, 20), A_INTS("default_int64", -7)));
    WANT_I64(0, V(20, -7), 2);
    RUN("one_hot_encoder", IN(I64(V(5, 4), 2)), 1, ATTRS(A_INTS("cats_int64s", 4, 5)));
    WANT_F32(0, V(0, 1, 1, 0), 2, 2);
    RUN("imputer", IN(F32(V(1, NAN), 1, 2)), 1,
        ATTRS(A_FLOATS("imputed_value_floats", 8), A_FLOATS("replaced_value_float", NAN)));
    WANT_F32(0, V(1, 8), 1, 2);
    RUN("normalizer", IN(F32(V(3, 4), 1, 2)), 1, ATTRS(A_STRINGS("norm", "L2")));
    WANT_F32(0, V(0.6f, 0.8f), 1, 2);
    RUN("linear_classifier", IN(F32(V(1, 2), 1, 2)), 2,
        ATTRS(A_FLOATS("coefficients", 1, 1, 2, 2), A_FLOATS("intercepts", 0, 1),
              A_STRINGS("classlabels_strings", "no", "yes"), A_STRINGS("post_transform", "SOFTMAX")));
    WANT_STRINGS(0, "yes");
    WANT_F32(1, V(0.0179862f, 0.9820138f), 1, 2);
    RUN("linear_regressor", IN(F32(V(1, 2), 1, 2)), 1,
        ATTRS(A_FLOATS("coefficients", 3, 4), A_FLOATS("intercepts", 1)));
    WANT_F32(0, V(12), 1, 1);
    RUN("svm_regressor", IN(F32(V(1, 2), 1, 2)), 1,
        ATTRS(A_FLOATS("coefficients", 2), A_FLOATS("support_vectors", 1, 0), A_FLOATS("rho", 0.5),
              A_INTS("n_supports", 1), A_STRINGS("kernel_type", "RBF"), A_FLOATS("kernel_params", 0.1, 0, 0)));
    WANT_F32(0, V(0.5f + 2 * 0.67032f), 1, 1);
    RUN("svm_classifier", IN(F32(V(1, 2), 1, 2)), 2,
        ATTRS(A_FLOATS("coefficients", 1, -1), A_FLOATS("support_vectors", 1, 0, 0, 1), A_FLOATS("rho", 0),
              A_INTS("vectors_per_class", 1, 1), A_INTS("classlabels_ints", 3, 4)));
    WANT_I64(0, V(4), 1);
    WANT_F32(1, V(1, -1), 1, 2);
}
END_TEST

/* x <= 0.5: the first leaf, else the second, in tables of trees.h. */
#define RANK(r) ((int64_t)(uint16_t)((r)-COLUMN_BIAS))
#define NODE(rank, column, ahead) (RANK(rank) | (int64_t)(column) << NODE_COLUMN | (int64_t)(ahead) << NODE_AHEAD)
#define LEAF(number) NODE(COLUMN_CUTS_MOST, number, 0)
#define TREE(...) I32(V(__VA_ARGS__), 1, TREE_WORDS)
#define STUMP(flags, nodes, tree, shares, weights) \
    I32(V(0, flags, 0, 1), 1, COLUMN_WORDS), F32(V(0.5), 1), nodes, tree, NULL, I32(V(0, 1), 2), shares, weights
#define NODES I64(V(NODE(0, 0, 1), LEAF(0), LEAF(1)), 3)
#define ONE_TREE TREE(0, 1, 2, 0, -1, -1, 0)

START_TEST(trees)
{
    RUN("tree_ensemble",
        IN(F32(V(0, 1, NAN), 3, 1), STUMP(0, NODES, ONE_TREE, I32(V(0, 0, 0, 0), 2, 2), F32(V(7, 9), 2))), 1, NO_ATTRS);
    WANT_F32(0, V(7, 9, 9), 3, 1);
    RUN("tree_ensemble", /* the second leaf gives to both targets; two trees */
        IN(F32(V(0, 1, NAN), 3, 1), I32(V(0, COLUMN_NAN_YES, 0, 1), 1, COLUMN_WORDS), F32(V(0.5), 1), NODES,
           I32(V(0, 1, 2, 0, -1, -1, 0, 0, 1, 2, 0, -1, -1, 0), 2, TREE_WORDS), NULL, I32(V(0, 2), 2),
           I32(V(0, 1, 1, 0, 1, 0), 3, 2), F32(V(7, 1, 9), 3)),
        1, ATTRS(A_INTS("n_targets", 2), A_STRINGS("aggregate_function", "AVERAGE")));
    WANT_F32(0, V(7, 1, 0, 9, 7, 1), 3, 2);
    RUN("tree_ensemble", /* more targets than a block's sums on the stack have room for */
        IN(F32(V(0, 1), 2, 1), I32(V(0, 0, 0, 1), 1, COLUMN_WORDS), F32(V(0.5), 1), NODES,
           I32(V(0, 1, 2, 0, -1, -1, 0, 0, 1, 2, 0, -1, -1, 0), 2, TREE_WORDS), NULL, I32(V(0, 1), 2),
           I32(V(8, 0, 3, 0), 2, 2), F32(V(7, 9), 2)),
        1, ATTRS(A_INTS("n_targets", 9)));
    WANT_F32(0, V(0, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 18, 0, 0, 0, 0, 0), 2, 9);
    for (int flags = 0; flags < 2 * COLUMN_SET; flags++) {
        bool lt = flags & COLUMN_LT, nan = flags & COLUMN_NAN_YES, set = flags & COLUMN_SET;

        RUN("tree_ensemble",
            IN(F32(V(0.25, 0.5, 1, NAN), 4, 1),
               STUMP(flags, NODES, ONE_TREE, I32(V(0, 0, 0, 0), 2, 2), F32(V(7, 9), 2))),
            1, NO_ATTRS);
        WANT_F32(0, V(set ? 9 : 7, set || !lt ? 7 : 9, 9, nan ? 7 : 9), 4, 1);
    }
    RUN("tree_ensemble_classifier",
        IN(F32(V(0, 1), 2, 1), STUMP(0, NODES, ONE_TREE, I32(V(0, 0, 1, 0), 2, 2), F32(V(1, 1), 2))), 2,
        ATTRS(A_INTS("n_targets", 2), A_INTS("classlabels_int64s", 5, 6)));
    WANT_I64(0, V(5, 6), 2);
}
END_TEST

/* Tables that do not fit: an error, and no access outside. */
START_TEST(wrong_trees)
{
    static const struct {
        int64_t nodes[3];
        int32_t tree[TREE_WORDS], column[COLUMN_WORDS];
        int32_t share, rows; /* the fewest that ask for it */
    } wrong[] = {
        {{NODE(0, 0, 7), LEAF(0), LEAF(1)}, {0, 1, 2, 0, -1, -1, 0}, {0, 0, 0, 1}, 0, 1}, /* a branch past the end */
        {{NODE(0, 0, 1), LEAF(0), LEAF(5)}, {0, 1, 2, 0, -1, -1, 0}, {0, 0, 0, 1}, 0, 1}, /* a leaf's number */
        {{NODE(0, 0, 1), LEAF(0), LEAF(1)}, {5, 1, 2, 0, -1, -1, 0}, {0, 0, 0, 1}, 0, 1}, /* a root */
        {{NODE(0, 0, 1), LEAF(0), LEAF(1)}, {0, 0, 2, 0, -1, -1, 0}, {0, 0, 0, 1}, 0, 1}, /* too little depth */
        {{NODE(0, 0, 1), LEAF(0), LEAF(1)}, {0, 1, 2, 1, -1, -1, 0}, {0, 0, 0, 1}, 0, 1}, /* leaves */
        {{NODE(0, 0, 1), LEAF(0), LEAF(1)}, {0, 1, 2, 0, -1, 1, 0}, {0, 0, 0, 1}, 0, 40}, /* shares, */
        {{NODE(0, 0, 1), LEAF(0), LEAF(1)}, {0, 1, 2, 0, -1, 0, 3}, {0, 0, 0, 1}, 0, 40}, /* their target */
        {{NODE(0, 0, 1), LEAF(0), LEAF(1)}, {0, 1, 2, 0, -1, -1, 0}, {0, 0, 0, 1}, 4, 1}, /* a target */
        {{NODE(0, 0, 1), LEAF(0), LEAF(1)}, {0, 1, 2, 0, -1, -1, 0}, {1, 0, 0, 1}, 0, 1}, /* a feature */
        {{NODE(0, 0, 1), LEAF(0), LEAF(1)}, {0, 1, 2, 0, -1, -1, 0}, {0, 0, 1, 1}, 0, 1}, /* cuts */
        {{NODE(0, 0, 1), LEAF(0), LEAF(1)}, {0, 1, 2, 0, -1, -1, 0}, {0, 0, 0, 1 << 20}, 0, 1},
    };
    float x[40] = {0};

    for (int i = 0; i < 40; i++)
        x[i] = (float)(~i & 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int rows = wrong[i].rows; rows <= 40; rows += 39)
            FAILS("does not exist", "tree_ensemble",
                  IN(lib_tensor(TCC_F32, 4, x, DIMS(rows, 1)), lib_tensor(TCC_I32, 4, wrong[i].column, DIMS(1, 4)),
                     F32(V(0.5), 1), lib_tensor(TCC_I64, 8, wrong[i].nodes, DIMS(3)),
                     lib_tensor(TCC_I32, 4, wrong[i].tree, DIMS(1, TREE_WORDS)), NULL, I32(V(0, 1), 2),
                     I32(V(wrong[i].share, 0, wrong[i].share, 0), 2, 2), F32(V(7, 9), 2)),
                  1, NO_ATTRS);
    for (int column = 0; column <= 3; column += 3) /* what small trees say: an answer or an error */
        run("tree_ensemble",
            IN(lib_tensor(TCC_F32, 4, x, DIMS(40, 1)), I32(V(0, 0, 0, 1), 1, COLUMN_WORDS), F32(V(0.5), 1), NODES,
               TREE(0, 1, 2, 0, 0, -1, 0),
               I64(V((NODE(0, column, 0) | (int64_t)200 << SMALL_YES | (int64_t)255 << SMALL_NO)), 1), I32(V(0, 1), 2),
               I32(V(0, 0, 0, 0), 2, 2), F32(V(7, 9), 2)),
            1, NO_ATTRS);
    FAILS("do not fit", "tree_ensemble",
          IN(F32(V(0), 1, 1), STUMP(0, NODES, ONE_TREE, I32(V(0, 0), 1, 2), F32(V(7, 9), 2))), 1, NO_ATTRS);
    FAILS("are for rows of floats", "tree_ensemble",
          IN(lib_tensor(TCC_F64, 8, (double[]){0}, DIMS(1, 1)),
             STUMP(0, NODES, ONE_TREE, I32(V(0, 0, 0, 0), 2, 2), F32(V(7, 9), 2))),
          1, NO_ATTRS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libop");
    TCase *tc = tcase_create("libop");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, table);
    tcase_add_test(tc, odd_operands);
    tcase_add_test(tc, shapes);
    tcase_add_test(tc, moves);
    tcase_add_test(tc, reductions);
    tcase_add_test(tc, selection);
    tcase_add_test(tc, images);
    tcase_add_test(tc, fourier);
    tcase_add_test(tc, matrices);
    tcase_add_test(tc, special_functions);
    tcase_add_test(tc, regions);
    tcase_add_test(tc, text);
    tcase_add_test(tc, sequences);
    tcase_add_test(tc, models);
    tcase_add_test(tc, trees);
    tcase_add_test(tc, wrong_trees);
    suite_add_tcase(suite, tc);
    int status = run_tests(suite);
    lib_drop();
    return status;
}
