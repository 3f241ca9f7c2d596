/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files: what is written is read; damaged and hostile ones are refused, whatever byte is wrong. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/ckpt/ckpt_int.h"
#include "tests/unit/suite.h"

static char path[64];

static void make_path(void)
{
    snprintf(path, sizeof path, "/tmp/test-ckpt-%ld.safetensors", (long)getpid());
}

static void remove_path(void)
{
    unlink(path);
}

static float floats[6] = {1, 2, 3, 4, 5, 6};
static int64_t count = 42;
static uint8_t bytes[3] = {7, 8, 9};

static const struct tccrt_named tensors[] = {{"b \"quoted\" \xc3\xa4", {bytes, TCC_U8, 1, {3}}},
                                             {"w", {floats, TCC_F32, 2, {2, 3}}},
                                             {"empty", {NULL, TCC_F32, 2, {0, 3}}},
                                             {"count", {&count, TCC_I64, 0, {0}}}};
static const struct tccrt_pair meta[] = {{"key", "value\nline\t\\"}};

START_TEST(written_is_read)
{
    struct tccrt_tensors *f;
    ck_assert_int_eq(tccrt_tensors_write(path, 4, tensors, 1, meta), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_open(path, &f), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_count(f), 4);
    ck_assert_int_eq(tccrt_tensors_check(f), TCC_OK);
    ck_assert_str_eq(tccrt_tensors_value(f, "key"), "value\nline\t\\");
    for (int i = 0; i < 4; i++) {
        const struct tccrt_named *x = tccrt_tensors_find(f, tensors[i].name);
        ck_assert_ptr_nonnull(x);
        ck_assert_int_eq(x->t.dtype, tensors[i].t.dtype);
        ck_assert_int_eq(x->t.rank, tensors[i].t.rank);
        ck_assert_uint_eq((uintptr_t)x->t.data % (uintptr_t)tcr_dtype_bytes(x->t.dtype), 0);
    }
    ck_assert_mem_eq(tccrt_tensors_find(f, "w")->t.data, floats, sizeof floats);
    ck_assert_ptr_null(tccrt_tensors_find(f, "v"));
    tccrt_tensors_close(f);
    ck_assert_int_eq(access("/tmp/none/x", F_OK), -1);
    ck_assert_int_eq(tccrt_tensors_write("/tmp/none/x", 4, tensors, 1, meta), TCC_EENV);
    ck_assert_int_eq(tccrt_tensors_open("/tmp/none/x", &f), TCC_EINPUT);
}
END_TEST

/* -- Sets of parts ------------------------------------------------------------------------------------------------ */

/* Writes the two parts of a set beside `path`, and their index: of a file's name in place of the second part's, if
 * given. */
static int write_set(char set, float first, const char *second)
{
    static const char *const names[] = {"w", "v"};
    char digests[2][CKPT_DIGEST], text[4][64];
    for (int k = 0; k < 2; k++) {
        float one = first + (float)k;
        struct tccrt_named t = {names[k], {&one, TCC_F32, 0, {0}}};
        ck_assert_int_eq(ckpt_write_part(NULL, path, set, k, 2, 1, &t, 1, meta, digests[k]), TCC_OK);
    }
    if (!second)
        return ckpt_write_index(path, set, 2, digests, 1, meta);
    snprintf(text[0], sizeof text[0], "%s", strrchr(path, '/') + 1);
    snprintf(text[1], sizeof text[1], "%.*s.%c.1of2.safetensors", (int)(strlen(text[0]) - strlen(".safetensors")),
             text[0], set);
    struct tccrt_pair pairs[] = {{"tccc.parts", "2"},
                                 {"tccc.part.1", text[1]},
                                 {"tccc.part.1.digest", digests[0]},
                                 {"tccc.part.2", second},
                                 {"tccc.part.2.digest", digests[1]}};
    return tccrt_tensors_write(path, 0, NULL, 5, pairs);
}

static void part_path(char set, int k, char *to)
{
    snprintf(to, 100, "%.*s.%c.%dof2.safetensors", (int)(strlen(path) - strlen(".safetensors")), path, set, k + 1);
}

static void expect(float w, float v)
{
    struct tccrt_tensors *f;
    int n;
    ck_assert_int_eq(tccrt_tensors_open(path, &f), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_count(f), 2);
    ck_assert_int_eq(tccrt_tensors_check(f), TCC_OK);
    ck_assert_float_eq(*(float *)tccrt_tensors_find(f, "w")->t.data, w);
    ck_assert_float_eq(*(float *)tccrt_tensors_find(f, "v")->t.data, v);
    ck_assert_str_eq(tccrt_tensors_value(f, "key"), "value\nline\t\\");
    ck_assert_ptr_nonnull(tccrt_tensors_meta(f, &n));
    ck_assert_int_eq(n, 1); /* what makes it an index is not seen */
    tccrt_tensors_close(f);
}

START_TEST(parts)
{
    char a[100], b[100], beside[120], text[100];
    struct tccrt_tensors *f;
    ck_assert_int_eq(ckpt_other_set(path), 'a');
    ck_assert_int_eq(write_set('a', 1, NULL), TCC_OK);
    expect(1, 2);
    ck_assert_int_eq(ckpt_other_set(path), 'b');
    ck_assert_int_eq(write_set('b', 3, NULL), TCC_OK);
    expect(3, 4);
    part_path('a', 0, a);
    part_path('b', 1, b);
    ck_assert_int_ne(access(a, F_OK), 0); /* the old set is gone */
    /* Damaged, mixed, incomplete. */
    ck_assert_int_eq(truncate(b, 40), 0);
    ck_assert_int_eq(tccrt_tensors_open(path, &f), TCC_EINPUT);
    part_path('b', 0, a);
    ck_assert_int_eq(rename(a, b), 0);
    ck_assert_int_eq(tccrt_tensors_open(path, &f), TCC_EINPUT);
    ck_assert_ptr_nonnull(strstr(tccrt_error(), "is not there: the set is incomplete"));
    ck_assert_int_eq(link(b, a), 0);
    ck_assert_int_eq(tccrt_tensors_open(path, &f), TCC_EINPUT);
    ck_assert_ptr_nonnull(strstr(tccrt_error(), "the set is mixed"));
    /* Names that lead elsewhere are not followed, and nothing but parts is removed. */
    snprintf(beside, sizeof beside, "%s.txt", path);
    ck_assert_int_eq(tccrt_tensors_write(beside, 4, tensors, 1, meta), TCC_OK);
    snprintf(text, sizeof text, "%s", strrchr(beside, '/') + 1);
    static const char *const names[] = {"/etc/passwd", "../x", ".", ""};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(write_set('a', 1, names[i]), TCC_OK);
        ck_assert_int_eq(tccrt_tensors_open(path, &f), TCC_EINPUT);
        ck_assert_ptr_nonnull(strstr(tccrt_error(), "has no name, or one that cannot be"));
    }
    ck_assert_int_eq(write_set('a', 1, text), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_open(path, &f), TCC_EINPUT);
    ck_assert_int_eq(tccrt_tensors_write(path, 4, tensors, 1, meta), TCC_OK);
    ck_assert_int_eq(access(beside, F_OK), 0);
    part_path('a', 0, a);
    ck_assert_int_ne(access(a, F_OK), 0);
    for (int k = 0; k < 4; k++) {
        part_path(k < 2 ? 'a' : 'b', k % 2, a);
        unlink(a);
    }
    unlink(beside);
}
END_TEST

START_TEST(two_parts_have_one)
{
    float one = 1, two = 2;
    struct tccrt_named a = {"w", {&one, TCC_F32, 0, {0}}}, b = {"w", {&two, TCC_F32, 0, {0}}};
    struct tccrt_tensors *f;
    char digests[2][CKPT_DIGEST], part[100];
    ck_assert_int_eq(ckpt_write_part(NULL, path, 'a', 0, 2, 1, &a, 0, NULL, digests[0]), TCC_OK);
    ck_assert_int_eq(ckpt_write_part(NULL, path, 'a', 1, 2, 1, &b, 0, NULL, digests[1]), TCC_OK);
    ck_assert_int_eq(ckpt_write_index(path, 'a', 2, digests, 0, NULL), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_open(path, &f), TCC_EINPUT);
    ck_assert_ptr_nonnull(strstr(tccrt_error(), "'w' is in two parts"));
    for (int k = 0; k < 2; k++) {
        part_path('a', k, part);
        unlink(part);
    }
}
END_TEST

/* A byte of a tensor changes: the file opens, its check does not pass. */
START_TEST(damaged)
{
    struct tccrt_tensors *f;
    ck_assert_int_eq(tccrt_tensors_write(path, 4, tensors, 1, meta), TCC_OK);
    FILE *file = fopen(path, "r+");
    ck_assert_int_eq(fseek(file, -1, SEEK_END), 0);
    int last = fgetc(file);
    ck_assert_int_eq(fseek(file, -1, SEEK_END), 0);
    fputc(last ^ 1, file);
    fclose(file);
    ck_assert_int_eq(tccrt_tensors_open(path, &f), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_check(f), TCC_EINPUT);
    ck_assert_ptr_nonnull(strstr(tccrt_error(), "the file's bytes are damaged"));
    tccrt_tensors_close(f);
}
END_TEST

/* Each byte of a file, metadata too, changed in each way that a flipped bit, and all of them, change it: it is refused
 * when opened or when checked. */
static void flip_all(void)
{
    struct tccrt_tensors *f;
    FILE *file = fopen(path, "rb");
    uint8_t data[4096];
    size_t n = fread(data, 1, sizeof data, file);

    fclose(file);
    ck_assert(n > 100 && n < sizeof data);
    for (size_t at = 0; at < n; at++)
        for (int way = 0; way < 10; way++) {
            uint8_t was = data[at];

            data[at] = way < 8    ? was ^ (uint8_t)(1 << way)
                       : way == 8 ? (uint8_t)~was
                                  : (uint8_t)(was == ' ' ? '\t' : ' ');
            if (tcr_tensors_parse("x", data, n, &f) == TCC_OK) {
                ck_assert_msg(tccrt_tensors_check(f) == TCC_EINPUT, "byte %zu of %zu, way %d, is not missed", at, n,
                              way);
                tccrt_tensors_close(f);
            }
            data[at] = was;
        }
    ck_assert_int_eq(tcr_tensors_parse("x", data, n, &f), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_check(f), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_covered(f), TCCRT_DIGEST_FILE);
    tccrt_tensors_close(f);
}

START_TEST(every_byte)
{
    static const struct tccrt_pair more[] = {
        {"tccc.model", "m"}, {"tccc.runs", "12"}, {"x", "\"tccc.digest\":\"file:0000000000000000\""}};

    ck_assert_int_eq(tccrt_tensors_write(path, 4, tensors, 1, meta), TCC_OK);
    flip_all();
    ck_assert_int_eq(tccrt_tensors_write(path, 0, NULL, 0, NULL), TCC_OK);
    flip_all();
    ck_assert_int_eq(tccrt_tensors_write(path, 3, tensors, 3, more), TCC_OK);
    flip_all();
}
END_TEST

/* A file of before the digest of files loads, and says so; a wrong byte of a tensor is still found. */
START_TEST(older_file)
{
    static const char text[] = "{\"__metadata__\":{\"tccc.digest\":\"%016llx\"},\"a\":{\"dtype\":\"U8\",\"shape\":[3],"
                               "\"data_offsets\":[0,3]}}";
    uint64_t each = tcr_xxh3(bytes, 3);
    uint8_t file[256] = {0};
    int n = snprintf((char *)file + 8, sizeof file - 8, text, (unsigned long long)tcr_xxh3(&each, sizeof each));
    struct tccrt_tensors *f;

    file[0] = (uint8_t)n;
    memcpy(file + 8 + n, bytes, 3);
    ck_assert_int_eq(tcr_tensors_parse("x", file, 8 + (size_t)n + 3, &f), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_check(f), TCC_OK);
    ck_assert_int_eq(tccrt_tensors_covered(f), TCCRT_DIGEST_TENSORS);
    file[8 + n] ^= 1;
    ck_assert_int_eq(tccrt_tensors_check(f), TCC_EINPUT);
    tccrt_tensors_close(f);
}
END_TEST

/* Names in JSON's escapes: U+1F600 is a surrogate pair, F0 9F 98 80 in UTF-8. */
START_TEST(escaped_names)
{
    static const char text[] =
        "{\"\\ud83d\\ude00 \\u00e9\\u20ac\\n\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    uint8_t file[8 + sizeof text] = {(uint8_t)(sizeof text - 1)};
    struct tccrt_tensors *f;
    memcpy(file + 8, text, sizeof text - 1);
    ck_assert_int_eq(tcr_tensors_parse("x", file, sizeof file, &f), TCC_OK);
    ck_assert_ptr_nonnull(tccrt_tensors_find(f, "\xf0\x9f\x98\x80 \xc3\xa9\xe2\x82\xac\n"));
    tccrt_tensors_close(f);
}
END_TEST

/* Reads every tensor's every byte, so that a sanitizer sees what lies outside. */
static int look(const uint8_t *data, size_t size)
{
    struct tccrt_tensors *f;
    int status = tcr_tensors_parse("x", data, size, &f);
    if (status)
        return status;
    tccrt_tensors_check(f);
    tccrt_tensors_close(f);
    return TCC_OK;
}

START_TEST(wrapped_names)
{
    static const struct tccrt_named list[] = {{"module.fc.weight", {0}},   {"enc._orig_mod.fc.weight", {0}},
                                              {"_orig_mod.module.b", {0}}, {"a.w", {0}},
                                              {"module.a.w", {0}},         {"module.twice", {0}},
                                              {"_orig_mod.twice", {0}},    {"a.module.c", {0}}};
    int n = (int)(sizeof list / sizeof *list);

    ck_assert_ptr_eq(tccrt_tensors_parameter(n, list, "fc.weight"), &list[0]);
    ck_assert_ptr_eq(tccrt_tensors_parameter(n, list, "_orig_mod.fc.weight"), &list[0]);
    ck_assert_ptr_eq(tccrt_tensors_parameter(n, list, "enc.fc.weight"), &list[1]);
    ck_assert_ptr_eq(tccrt_tensors_parameter(n, list, "module.enc.fc.weight"), &list[1]);
    ck_assert_ptr_eq(tccrt_tensors_parameter(n, list, "b"), &list[2]);
    ck_assert_ptr_eq(tccrt_tensors_parameter(n, list, "a.w"), &list[3]);
    ck_assert_ptr_eq(tccrt_tensors_parameter(n, list, "module.a.w"), &list[4]);
    ck_assert_ptr_null(tccrt_tensors_parameter(n, list, "twice")); /* which one? */
    ck_assert_ptr_null(tccrt_tensors_parameter(n, list, "a.c"));   /* a module of the user's */
    ck_assert_ptr_null(tccrt_tensors_parameter(n, list, "fc.weigh"));
    ck_assert_ptr_null(tccrt_tensors_parameter(0, list, "fc.weight"));
}
END_TEST

START_TEST(hostile)
{
    struct stat st;
    ck_assert_int_eq(tccrt_tensors_write(path, 4, tensors, 1, meta), TCC_OK);
    ck_assert_int_eq(stat(path, &st), 0);
    size_t size = (size_t)st.st_size;
    uint8_t *good = malloc(size), *bad = malloc(size);
    FILE *in = fopen(path, "r");
    ck_assert_uint_eq(fread(good, 1, size, in), size);
    fclose(in);
    for (size_t n = 0; n < size; n++) {
        uint8_t *cut = malloc(n + 1);
        memcpy(cut, good, n);
        ck_assert_int_eq(look(cut, n), TCC_EINPUT);
        free(cut);
    }
    for (size_t i = 0; i < size; i++)
        for (int k = 0; k < 256; k++) {
            memcpy(bad, good, size);
            bad[i] = (uint8_t)k;
            look(bad, size);
        }
    free(good);
    free(bad);
}
END_TEST

static const char *const malformed[] = {
    "",
    "[]",
    "{",
    "{\"a\"}",
    "{\"a\":{}}",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}",
    "{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1e3],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4611686018427387904],\"data_offsets\":[0,0]}}",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999999],\"data_offsets\":[0,0]}}",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,4]}}",
    ("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}"),
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
    "{\"__metadata__\":{\"a\":1}}",
    "{} x",
    "{\"\\ud800\":{}}",
    "{\"a\\u0000\":{}}",
    "{\"a\":{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};

START_TEST(malformed_headers)
{
    uint8_t file[1024] = {0};
    size_t n = strlen(malformed[_i]);
    file[0] = (uint8_t)n;
    file[1] = (uint8_t)(n >> 8);
    memcpy(file + 8, malformed[_i], n);
    ck_assert_int_eq(look(file, 8 + n + 8), TCC_EINPUT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ckpt");
    TCase *t = tcase_create("ckpt");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, make_path, remove_path);
    tcase_add_test(t, written_is_read);
    tcase_add_test(t, parts);
    tcase_add_test(t, two_parts_have_one);
    tcase_add_test(t, damaged);
    tcase_add_test(t, every_byte);
    tcase_add_test(t, older_file);
    tcase_add_test(t, escaped_names);
    tcase_add_test(t, wrapped_names);
    tcase_add_test(t, hostile);
    tcase_add_loop_test(t, malformed_headers, 0, (int)(sizeof malformed / sizeof *malformed));
    suite_add_tcase(s, t);
    return run_tests(s);
}
