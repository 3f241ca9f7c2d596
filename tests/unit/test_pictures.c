/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtccdata beside the pixels (tests/pictures.tap): what inputs take, arguments that make no sense, steps against the
 * whole, rows with gaps, allocations that fail, threads.
 */
#include <check.h>
#include <pthread.h>

#include "tests/unit/suite.h"
#undef fail
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tccdata.h"
#include "tests/unit/images.h"

/* -- Allocations that fail ----------------------------------------------------------------------------------------- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);

static int left = -1; /* allocations until one fails; below 0: none does */

void *__wrap_malloc(size_t n)
{
    return left >= 0 && left-- == 0 ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return left >= 0 && left-- == 0 ? NULL : __real_calloc(n, size);
}

/* -- Pictures ------------------------------------------------------------------------------------------------------ */

enum { W = 8, H = 6 };
static const struct tccdata_picture small = {.channels = 3,
                                             .height = 4,
                                             .width = 5,
                                             .resize = 5,
                                             .dtype = TCC_F32,
                                             .mean = {0.1f, 0.2f, 0.3f},
                                             .std = {1, 2, 3}};

/* 8 x 6 pixels as a PPM, so that no library is needed; 11 bytes of header. */
static unsigned char ppm[11 + W * H * 3] = "P6 8 6 255 ";

static void draw(void)
{
    for (int i = 0; i < W * H * 3; i++)
        ppm[11 + i] = (unsigned char)(i * 37 % 251);
}

START_TEST(inputs)
{
    static const struct {
        int dtype, rank;
        int64_t dims[4];
        int channels, height, width, last, type; /* channels 0: refused */
    } rows[] = {
        {TCC_F32, 4, {-1, 3, 224, 200}, 3, 224, 200, 0, TCC_F32},
        {TCC_F16, 4, {-1, 1, -1, -1}, 1, 0, 0, 0, TCC_F32},
        {TCC_U8, 4, {1, 20, 24, 3}, 3, 20, 24, 1, TCC_U8},
        {TCC_F32, 4, {-1, 3, 5, 3}, 3, 5, 3, 0, TCC_F32},
        {TCC_F32, 4, {-1, -1, -1, 1}, 1, 0, 0, 1, TCC_F32},
        {TCC_F32, 4, {-1, 2, 8, 8}, 0, 0, 0, 0, 0},
        {TCC_I32, 4, {-1, 3, 8, 8}, 0, 0, 0, 0, 0},
        {TCC_F32, 3, {3, 8, 8}, 0, 0, 0, 0, 0},
        {TCC_F32, 4, {-1, 3, 20000, 8}, 0, 0, 0, 0, 0},
        {TCC_F32, -1, {0}, 0, 0, 0, 0, 0},
    };
    struct tccrt_value_info info = {
        .name = "x", .kind = TCC_OBJ_TENSOR, .dtype = rows[_i].dtype, .rank = rows[_i].rank};
    struct tccdata_picture p = {.channels = -7};

    memcpy(info.dims, rows[_i].dims, sizeof rows[_i].dims);
    int status = tccdata_picture_for(&info, &p);
    ck_assert_int_eq(status, rows[_i].channels ? TCC_OK : TCC_EINPUT);
    if (status) {
        ck_assert_int_eq(p.channels, -7);
        ck_assert_ptr_nonnull(strstr(tccdata_error(), "pictures"));
        return;
    }
    ck_assert(p.channels == rows[_i].channels && p.height == rows[_i].height && p.width == rows[_i].width);
    ck_assert(p.last == rows[_i].last && p.dtype == rows[_i].type && p.resize == 0 && p.std[2] == 1);
    ck_assert(!tccdata_bytes(&p) == !p.height);
}
END_TEST

START_TEST(senseless)
{
    struct tccdata_picture p[] = {small, small, small, small, small, small, small, small};
    struct tccdata_pixels x = {W, H, 3, W * 3, ppm + 11}, out;
    float to[64];

    p[0].channels = 2;
    p[1].height = 0;
    p[2].width = 16385;
    p[3].resize = -1;
    p[4].std[1] = 0;
    p[5].mean[2] = 1.0f / 0.0f;
    p[6].dtype = TCC_F64;
    p[7].resize = 16385;
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        ck_assert_uint_eq(tccdata_bytes(&p[i]), 0);
        ck_assert_int_eq(tccdata_decode(&p[i], ppm, sizeof ppm, to), TCC_EUSAGE);
        ck_assert_int_eq(tccdata_middle(&p[i], &x, &out), TCC_EUSAGE);
        ck_assert_ptr_null(out.data);
    }
    ck_assert_int_eq(tccdata_sample(&small, &x, to), TCC_EUSAGE); /* of another size */
    ck_assert_int_eq(tccdata_pixels(ppm, sizeof ppm, 4, &out), TCC_EUSAGE);
    static const struct tccdata_box boxes[] = {{-1, 0, 2, 2}, {0, 0, 0, 2}, {7, 0, 2, 2}, {0, 5, 1, 2}, {0, 7, 1, 1}};
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
        ck_assert_int_eq(tccdata_resize(&x, &boxes[i], 3, 3, &out), TCC_EUSAGE);
    ck_assert_int_eq(tccdata_resize(&x, NULL, 0, 3, &out), TCC_EUSAGE);
    ck_assert_int_eq(tccdata_resize(&x, NULL, 1 << 20, 1 << 20, &out), TCC_EUSAGE);
    struct tccdata_pixels bad[] = {x, x, x, x};
    bad[0].stride = W * 3 - 1;
    bad[1].channels = 4;
    bad[2].data = NULL;
    bad[3].height = 0;
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(tccdata_resize(&bad[i], NULL, 3, 3, &out), TCC_EUSAGE);
    ck_assert_int_eq(tccdata_read(&small, "/nowhere.png", to), TCC_EENV);
    ck_assert_ptr_nonnull(strstr(tccdata_error(), "/nowhere.png: cannot be read"));
    ck_assert_int_eq(tccdata_read(&small, "/", to), TCC_EENV);
    ck_assert_int_eq(tccdata_decode(&small, "GIF89a----", 10, to), TCC_EINPUT);
    ck_assert_int_eq(tccdata_decode(&small, ppm, 20, to), TCC_EINPUT);
}
END_TEST

/* The whole is its steps; rows of the program's own may have gaps; a box is the picture that lies in it. */
START_TEST(steps)
{
    enum { STRIDE = W * 3 + 5 };
    unsigned char gaps[H * STRIDE], part[3 * 4 * 3];
    float whole[60], own[60];
    struct tccdata_pixels x = {W, H, 3, STRIDE, gaps}, file, middle, a, b;
    const size_t row = (size_t)W * 3;

    draw();
    memset(gaps, 99, sizeof gaps);
    for (int r = 0; r < H; r++)
        memcpy(gaps + r * STRIDE, ppm + 11 + r * row, row);
    ck_assert_int_eq(tccdata_decode(&small, ppm, sizeof ppm, whole), TCC_OK);
    ck_assert_int_eq(tccdata_pixels(ppm, sizeof ppm, 3, &file), TCC_OK);
    ck_assert(file.width == W && file.height == H && file.channels == 3 && file.stride == W * 3);
    ck_assert_mem_eq(file.data, ppm + 11, sizeof ppm - 11);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(tccdata_middle(&small, i ? &x : &file, &middle), TCC_OK);
        ck_assert_int_eq(tccdata_sample(&small, &middle, own), TCC_OK);
        ck_assert_mem_eq(whole, own, sizeof own);
        tccdata_free(&middle);
    }
    tccdata_free(&file);
    ck_assert_ptr_null(file.data);
    for (int r = 0; r < 4; r++)
        memcpy(part + r * 9, gaps + (r + 2) * STRIDE + 4 * 3, 9);
    ck_assert_int_eq(tccdata_resize(&x, &(struct tccdata_box){4, 2, 3, 4}, 5, 3, &a), TCC_OK);
    ck_assert_int_eq(tccdata_resize(&(struct tccdata_pixels){3, 4, 3, 9, part}, NULL, 5, 3, &b), TCC_OK);
    ck_assert_mem_eq(a.data, b.data, 45);
    tccdata_free(&a);
    tccdata_free(&b);
}
END_TEST

/* Of each call without memory the pixels are all zeros. */
START_TEST(nothing_left)
{
    const struct tccdata_pixels x = {W, H, 3, W * 3, ppm + 11};
    int status = TCC_EENV, n = 0;

    for (; status && n < 100; n++) {
        struct tccdata_pixels out = x;
        left = n;
        status = _i == 0   ? tccdata_pixels(ppm, sizeof ppm, 3, &out)
                 : _i == 1 ? tccdata_middle(&small, &x, &out)
                           : tccdata_resize(&x, NULL, 4, 3, &out);
        left = -1;
        ck_assert_int_eq(!status, out.data != NULL);
        ck_assert(!status || !(out.width || out.height || out.channels || out.stride));
        tccdata_free(&out);
    }
    ck_assert_int_eq(status, TCC_OK);
    ck_assert_int_gt(n, 1);
}
END_TEST

START_TEST(no_memory)
{
    float to[60];
    int status = TCC_EENV, n = 0;

    for (; status && n < 100; n++) {
        left = n;
        status = _i ? tccdata_decode(&small, image_jpeg, sizeof image_jpeg, to)
                    : tccdata_decode(&small, ppm, sizeof ppm, to);
        left = -1;
        if (status && strstr(tccdata_error(), "not installed"))
            return;
        ck_assert_msg(status == TCC_OK || strstr(tccdata_error(), "no memory"), "%s", tccdata_error());
    }
    ck_assert_int_eq(status, TCC_OK);
    ck_assert_int_gt(n, 5);
}
END_TEST

static float expected[60];

static void *many(void *arg)
{
    float to[60];

    for (int i = 0; i < 200; i++) {
        if (tccdata_decode(&small, ppm, sizeof ppm, to) || memcmp(to, expected, sizeof to))
            return arg;
        if (tccdata_decode(&small, "P9", 2, to) != TCC_EINPUT)
            return arg;
    }
    return NULL;
}

START_TEST(threads)
{
    pthread_t list[4];
    void *wrong;

    draw();
    ck_assert_int_eq(tccdata_decode(&small, ppm, sizeof ppm, expected), TCC_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&list[i], NULL, many, expected), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(list[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pictures");
    TCase *c = tcase_create("pictures");

    tcase_add_loop_test(c, inputs, 0, 10);
    tcase_add_test(c, senseless);
    tcase_add_test(c, steps);
    tcase_add_loop_test(c, nothing_left, 0, 3);
    tcase_add_loop_test(c, no_memory, 0, 2);
    tcase_add_test(c, threads);
    suite_add_tcase(suite, c);
    return run_tests(suite);
}
