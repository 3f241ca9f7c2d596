/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_decoder on each format: right pixels, files that are cut off or changed at every place end with a status, and
 * sizes that no image has are refused before memory is asked for. A format whose library is not installed is skipped,
 * its message checked.
 */
#include <check.h>

#include "tests/unit/suite.h"
#undef fail
#include <stdbool.h>
#include <stdlib.h>

#include "runtime/libop/image_int.h"
#include "tests/unit/images.h"
#include "tests/unit/lib_host.h"

enum { W = 8, H = 6 };

static int decode(const unsigned char *bytes, size_t n, const char *format)
{
    struct tcc_object *in = lib_tensor(TCC_U8, 1, bytes, 1, (int64_t[]){(int64_t)n});
    struct tcc_attr attr = {.name = "pixel_format", .kind = TCC_ATTR_STRINGS, .n = 1, .strings = &format};

    lib_message[0] = 0;
    int status = lib_run("image_decoder", 1, &in, 1, 1, &attr);

    tccrt_object_unref(in);
    return status;
}

static const struct {
    const char *name;
    const unsigned char *bytes;
    size_t n;
    int off; /* that a pixel may be off: lossy formats */
} images[] = {
#define IMAGE(name, off) {#name, image_##name, sizeof image_##name, off}
    IMAGE(png, 0),  IMAGE(png_alpha, 0), IMAGE(png_palette, 0), IMAGE(jpeg, 12),
    IMAGE(webp, 0), IMAGE(tiff, 0),      IMAGE(jpeg2000, 0),
};
enum { N = sizeof images / sizeof *images };

START_TEST(pixels)
{
    int status = decode(images[_i].bytes, images[_i].n, "RGB");

    if (status == TCC_EENV) { /* not installed: the message says what is needed */
        ck_assert_msg(strstr(lib_message, "need the library lib"), "%s", lib_message);
        return;
    }
    ck_assert_msg(status == TCC_OK, "%s: %s", images[_i].name, lib_message);
    const struct tcc_tensor *t = &lib_results[0]->t;

    ck_assert(t->rank == 3 && t->dims[0] == H && t->dims[1] == W && t->dims[2] == 3 && t->dtype == TCC_U8);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const uint8_t *p = (const uint8_t *)t->data + 3 * (y * W + x);
            const int want[3] = {30 * x, 40 * y, 10 * (x + y)};

            for (int k = 0; k < 3; k++)
                ck_assert_msg(abs(p[k] - want[k]) <= images[_i].off, "%s: pixel %d %d: %d %d %d", images[_i].name, x, y,
                              p[0], p[1], p[2]);
        }
    uint8_t first[3];

    memcpy(first, (const uint8_t *)t->data + 3 * (W - 1), 3);
    ck_assert_int_eq(decode(images[_i].bytes, images[_i].n, "BGR"), TCC_OK);
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(((const uint8_t *)lib_results[0]->t.data)[3 * (W - 1) + k], first[2 - k]);
    ck_assert_int_eq(decode(images[_i].bytes, images[_i].n, "Grayscale"), TCC_OK);
    ck_assert_int_eq(lib_results[0]->t.dims[2], 1);
}
END_TEST

/* Cut off at every place: a status, or (TIFF keeps its directory behind the pixels, others a trailer) the image. */
START_TEST(cut_off)
{
    for (size_t n = 0; n < images[_i].n; n++) {
        unsigned char *part = malloc(n + 1);

        memcpy(part, images[_i].bytes, n);
        int status = decode(part, n, "RGB");

        ck_assert_msg(status != TCC_EBUG && (status == TCC_OK || lib_message[0]), "%s cut at %zu: %d", images[_i].name,
                      n, status);
        free(part);
    }
}
END_TEST

/* Two bytes changed, again and again. */
START_TEST(changed)
{
    uint32_t random = 12345;
    unsigned char *copy = malloc(images[_i].n);

    for (int round = 0; round < 1500; round++) {
        memcpy(copy, images[_i].bytes, images[_i].n);
        for (int k = 0; k < 2; k++) {
            random = random * 1664525 + 1013904223;
            copy[(random >> 8) % images[_i].n] = (unsigned char)(random >> 3);
        }
        int status = decode(copy, images[_i].n, "RGB");

        ck_assert_msg(status != TCC_EBUG && (status == TCC_OK || lib_message[0]), "%s, round %d: %d", images[_i].name,
                      round, status);
    }
    free(copy);
}
END_TEST

START_TEST(own_formats)
{
    static const unsigned char plain_bits[] = "P1 4 1 0110", short_bits[] = "P1 4 2 0110",
                               many[] = "P6 16000 16000 255 abc", too_many[] = "P5 99999999 99999999 255 a",
                               nothing[] = "GIF89a----------";
    unsigned char bmp[60] = "BM";

    ck_assert_int_eq(decode(plain_bits, sizeof plain_bits - 1, "Grayscale"), TCC_OK);
    ck_assert(!memcmp(lib_results[0]->t.data, "\xff\0\0\xff", 4));
    ck_assert_int_ne(decode(short_bits, sizeof short_bits - 1, "RGB"), TCC_OK);
    ck_assert_int_ne(decode(many, sizeof many - 1, "RGB"), TCC_OK);
    ck_assert(strstr(lib_message, "cut off"));
    ck_assert_int_ne(decode(too_many, sizeof too_many - 1, "RGB"), TCC_OK);
    ck_assert_msg(strstr(lib_message, "may have"), "%s", lib_message);
    ck_assert_int_ne(decode(nothing, sizeof nothing - 1, "RGB"), TCC_OK);
    ck_assert(strstr(lib_message, "no image"));
    bmp[14] = 40, bmp[28] = 32;
    memset(bmp + 18, 0x7f, 8); /* 2139062143 pixels a side */
    ck_assert_int_ne(decode(bmp, sizeof bmp, "RGB"), TCC_OK);
    ck_assert_msg(strstr(lib_message, "may have"), "%s", lib_message);
}
END_TEST

START_TEST(no_library)
{
    static const char *const files[] = {"libtccc-no-such-thing.so.1", NULL}, *const names[] = {"f"};
    static _Atomic(void *) handle;
    struct tcc_lib_call call = {.host = &lib_host};
    void *f = NULL;

    ck_assert_int_eq(lib_image_open(&call, "PNG", &handle, files, 1, names, (void **[]){&f}), TCC_EENV);
    ck_assert_str_eq(lib_message, "PNG images need the library libtccc-no-such-thing.so.1, which is not installed");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image");
    TCase *tc = tcase_create("image");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, pixels, 0, N);
    tcase_add_loop_test(tc, cut_off, 0, N);
    tcase_add_loop_test(tc, changed, 0, N);
    tcase_add_test(tc, own_formats);
    tcase_add_test(tc, no_library);
    suite_add_tcase(suite, tc);
    int status = run_tests(suite);

    lib_drop();
    return status;
}
