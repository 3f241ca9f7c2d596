/* SPDX-License-Identifier: Apache-2.0 */
/* Data to train on: the sampler against torch's figures, the loader with any number of workers, hostile .npz files. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/trace.h"
#include "tests/unit/suite.h"
#include "tools/data/data_int.h"

static const struct figure {
    int64_t n;
    int ranks, rank;
    bool shuffle, drop;
    uint64_t seed;
    int64_t epoch, count;
    uint64_t digest;
    int64_t first[5];
} figures[] = {
#define FIGURE(n, ranks, rank, shuffle, drop, seed, epoch, count, digest, ...) \
    {n, ranks, rank, shuffle, drop, seed, epoch, count, digest, {__VA_ARGS__}},
#include "tests/unit/sampler_figures.h"
};

static uint64_t digest(const int64_t *order, int64_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const unsigned char *p = (const unsigned char *)order, *end = p + n * 8; p < end; p++)
        h = (h ^ *p) * 0x100000001b3u;
    return h;
}

START_TEST(sampler_as_torch)
{
    const struct figure *f = &figures[_i];
    struct trace_sampler s = {f->n, f->ranks, f->rank, f->shuffle, f->drop, false, f->seed};
    int64_t count;
    int64_t *order = trace_sampler_epoch(&s, f->epoch, &count);
    ck_assert_ptr_nonnull(order);
    ck_assert_int_eq(count, f->count);
    for (int i = 0; i < 5 && i < count; i++)
        ck_assert_int_eq(order[i], f->first[i]);
    ck_assert_uint_eq(digest(order, count), f->digest);
    free(order);
}
END_TEST

START_TEST(sampler_contiguous)
{
    bool seen[10] = {false};
    for (int rank = 0; rank < 3; rank++) {
        struct trace_sampler s = {10, 3, rank, false, false, true, 0};
        int64_t count;
        int64_t *order = trace_sampler_epoch(&s, 0, &count);
        ck_assert_int_eq(count, 4);
        for (int i = 0; i < 4; i++) {
            ck_assert_int_eq(order[i], (rank * 4 + i) % 10);
            seen[order[i]] = true;
        }
        free(order);
    }
    for (int i = 0; i < 10; i++)
        ck_assert(seen[i]);
}
END_TEST

/* -- The loader --------------------------------------------------------------------------------------- */

static const struct tccrt_value_info input = {
    .name = "x", .kind = TCC_OBJ_TENSOR, .dtype = TCC_F32, .rank = 2, .dims = {-1, 3}};

static struct data_set make_set(int32_t *values, struct data_array *array)
{
    for (int i = 0; i < 300; i++)
        values[i] = i;
    *array = (struct data_array){.at = (unsigned char *)values,
                                 .dtype = TCC_I32,
                                 .rank = 2,
                                 .dims = {100, 3},
                                 .stride = 3,
                                 .outer = 1,
                                 .scale = 0.5,
                                 .mean = 1,
                                 .std = 2};
    static const int first;
    return (struct data_set){.n = 1, .arrays = array, .inputs = &input, .axes = &first, .samples = 100};
}

START_TEST(loader_any_workers)
{
    static int32_t values[300];
    struct data_array array;
    struct data_set set = make_set(values, &array);
    int64_t order[100];
    trace_randperm(9, 100, order);
    struct loader *l = loader_new(&set, _i, 4, 7, 0);
    ck_assert_ptr_nonnull(l);
    for (int epoch = 0; epoch < 3; epoch++) {
        int64_t at = 14;
        struct batch *b;
        ck_assert(loader_start(l, &(struct loader_epoch){order, 100, epoch == 1, 2, 2, NULL}));
        while ((b = loader_next(l))) {
            ck_assert_str_eq(b->error, "");
            ck_assert_int_eq(b->number, at / 7);
            for (int64_t k = 0; k < b->rows; k++, at++)
                for (int j = 0; j < 3; j++)
                    ck_assert_float_eq(((float *)b->data[0])[k * 3 + j], ((float)(order[at] * 3 + j) * 0.5f - 1) / 2);
            loader_release(l, 1);
            if (epoch == 2 && at > 50)
                break;
        }
        if (epoch < 2)
            ck_assert_int_eq(at, epoch == 1 ? 98 : 100);
        loader_stop(l);
    }
    loader_free(l);
}
END_TEST

START_TEST(fill_refuses)
{
    static int32_t values[300];
    struct data_array array;
    struct data_set set = make_set(values, &array);
    struct tccrt_value_info narrow = input;
    int64_t rows[2] = {98, 99};
    unsigned char to[64];
    char error[ERROR_SIZE];
    struct data_fill f = {.set = &set, .batch = 5, .n = 2, .rows = rows};
    set.inputs = &narrow;
    narrow.dtype = TCC_U8; /* 298 and 299 don't fit */
    ck_assert(!data_fill(&f, 0, to, error));
    ck_assert_ptr_nonnull(strstr(error, "batch 5, sample 0 (row 98 of the file)"));
    narrow.dtype = TCC_F32;
    array.dtype = TCC_F32;
    array.scale = 1, array.mean = 0, array.std = 1;
    ((uint32_t *)values)[99 * 3 + 1] = 0x7fc00000;
    ck_assert(!data_fill(&f, 0, to, error));
    ck_assert_ptr_nonnull(strstr(error, "sample 1 (row 99 of the file), element 1: NaN"));
}
END_TEST

/* -- Hostile archives: every byte of a small .npz changed, and every prefix of it. ---------------------- */

static size_t small_npz(unsigned char *b)
{
    static const char header[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    unsigned char npy[128 + 24];
    memset(npy, ' ', sizeof npy);
    memcpy(npy, header, sizeof header - 1);
    npy[127] = '\n';
    memset(npy + 128, 0, 24);
    size_t n = sizeof npy, at = 0;
    unsigned char local[30] = {'P', 'K', 3, 4, 20, 0, [18] = (unsigned char)n, [22] = (unsigned char)n, [26] = 5};
    unsigned char central[46] = {
        'P', 'K', 1, 2, 20, 0, 20, 0, [20] = (unsigned char)n, [24] = (unsigned char)n, [28] = 5};
    unsigned char end[22] = {'P', 'K', 5, 6, [8] = 1, [10] = 1, [12] = 51};
    memcpy(b + at, local, 30), at += 30;
    memcpy(b + at, "x.npy", 5), at += 5;
    memcpy(b + at, npy, n), at += n;
    end[16] = (unsigned char)at;
    memcpy(b + at, central, 46), at += 46;
    memcpy(b + at, "x.npy", 5), at += 5;
    memcpy(b + at, end, 22), at += 22;
    return at;
}

static bool read_npz(const unsigned char *bytes, size_t size)
{
    char error[ERROR_SIZE];
    unsigned char *copy = malloc(size + 1);
    const struct data_options plain = {.scale = 1};
    struct data_array a = {0};
    bool found = false;
    memcpy(copy, bytes, size);
    struct data_file *f = data_take(copy, size, error);
    bool ok = data_zip_is(f) && data_zip_array("x.npz", f, "x", &plain, &input, &a, &found, error);
    if (ok) {
        volatile unsigned char sum = 0;
        for (int64_t i = 0; i < a.dims[0] * data_row_elements(&a) * tcc_dtype_bytes(a.dtype); i++)
            sum = (unsigned char)(sum + a.at[i]);
        data_unref(a.file);
    }
    data_unref(f);
    return ok;
}

START_TEST(hostile_npz)
{
    unsigned char b[512], changed[512];
    size_t n = small_npz(b);
    ck_assert(read_npz(b, n));
    memcpy(changed, b, n);
    changed[30 + 5 + 128 + 24 + 24] += 4; /* the size in the directory, not that of its bytes */
    ck_assert(!read_npz(changed, n));
    for (size_t i = 0; i < n; i++)
        ck_assert(!read_npz(b, i));
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++) {
            memcpy(changed, b, n);
            changed[i] = (unsigned char[]){0, 255, (unsigned char)(b[i] + 1), (unsigned char)(b[i] ^ 128)}[k];
            read_npz(changed, n);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("data");
    TCase *t = tcase_create("data");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, sampler_as_torch, 0, (int)(sizeof figures / sizeof *figures));
    tcase_add_test(t, sampler_contiguous);
    tcase_add_loop_test(t, loader_any_workers, 0, 4);
    tcase_add_test(t, fill_refuses);
    tcase_add_test(t, hostile_npz);
    suite_add_tcase(s, t);
    return run_tests(s);
}
