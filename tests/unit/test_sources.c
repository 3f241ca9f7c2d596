/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of data: sizes of pictures against Pillow's, tokens against tokenizers', random choices that depend on the
 * sample alone, tables, and
 * --skip-bad. Figures and files are those of tests/train/sources.py. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/suite.h"
#include "tools/data/data_int.h"

static char error[ERROR_SIZE];

static const char *stored(const char *name)
{
    static char path[4096];
    const char *top = getenv("top_srcdir");

    snprintf(path, sizeof path, "%s/tests/fuzz/readers/%s", top ? top : "..", name);
    return path;
}

static const struct tccrt_value_info pictures = {
    .name = "x", .kind = TCC_OBJ_TENSOR, .dtype = TCC_F32, .rank = 4, .dims = {-1, 3, -1, -1}};
static const struct tccrt_value_info bytes = {
    .name = "x", .kind = TCC_OBJ_TENSOR, .dtype = TCC_U8, .rank = 4, .dims = {-1, 20, 24, 3}};
static const struct tccrt_value_info table = {
    .name = "x", .kind = TCC_OBJ_TENSOR, .dtype = TCC_F32, .rank = 2, .dims = {-1, -1}};
static const struct tccrt_value_info classes = {
    .name = "y", .kind = TCC_OBJ_TENSOR, .dtype = TCC_I64, .rank = 1, .dims = {-1}};

/* -- Pictures ------------------------------------------------------------------------------------------------------ */

static void read_picture(const struct data_picture *p, const char *name, int64_t sample, const struct data_draw *draw,
                         void *to)
{
    struct data_file *f = data_map(stored(name), error);

    ck_assert_msg(f != NULL, "%s", error);
    ck_assert_msg(data_picture_row(p, name, f->bytes, f->size, sample, draw, to, error), "%s", error);
    data_unref(f);
}

static const struct {
    int w, h;
    int64_t sum;
} sizes[] = {{8, 8, 2601753}, {11, 7, 3764915}, {30, 25, 67950245}, {24, 9, 17277418}};

START_TEST(resample_as_pillow)
{
    struct data_options o = {0};
    struct data_request q = {.path = "small.png", .o = &o, .info = &bytes};
    struct data_picture p;
    int64_t dims[3], sum = 0;
    uint8_t *x = malloc(20 * 24 * 3);
    struct tccdata_pixels y;

    ck_assert_msg(data_picture_for(&q, &p, dims, error), "%s", error);
    ck_assert(p.as.last && dims[0] == 20 && dims[1] == 24 && dims[2] == 3);
    read_picture(&p, "small.png", 0, NULL, x);
    ck_assert_int_eq(tccdata_resize(&(struct tccdata_pixels){24, 20, 3, 72, x}, NULL, sizes[_i].w, sizes[_i].h, &y),
                     TCC_OK);
    for (int64_t i = 0; i < sizes[_i].w * sizes[_i].h * 3; i++)
        sum += y.data[i] * (i + 1) % 65521;
    ck_assert_int_eq(sum, sizes[_i].sum);
    free(x);
    tccdata_free(&y);
}
END_TEST

START_TEST(random_by_sample)
{
    struct data_options o = {
        .size = 16, .augment = 1u << DATA_FLIP | 1u << DATA_CROP | 1u << DATA_JITTER, .means = {3, {0.5, 0.4, 0.3}}};
    struct data_request q = {.path = "small.jpg", .o = &o, .info = &pictures};
    struct data_draw draw = {7, 2}, later = {7, 3};
    struct data_picture p;
    static float a[768], b[768], other[768];
    int64_t dims[3];

    ck_assert_msg(data_picture_for(&q, &p, dims, error), "%s", error);
    ck_assert(!p.as.last && dims[0] == 3 && dims[1] == 16 && dims[2] == 16);
    read_picture(&p, "small.jpg", 11, &draw, a);
    read_picture(&p, "small.jpg", 11, &draw, b);
    ck_assert_mem_eq(a, b, sizeof a);
    read_picture(&p, "small.jpg", 12, &draw, other);
    ck_assert_mem_ne(a, other, sizeof a);
    read_picture(&p, "small.jpg", 11, &later, other);
    ck_assert_mem_ne(a, other, sizeof a);
    read_picture(&p, "small.jpg", 11, NULL, a);
    read_picture(&p, "small.jpg", 12, NULL, b);
    ck_assert_mem_eq(a, b, sizeof a);
    for (int i = 0; i < 768; i++)
        ck_assert(a[i] >= -0.5f && a[i] <= 0.7f);
}
END_TEST

START_TEST(half_are_flipped)
{
    struct data_options o = {.augment = 1u << DATA_FLIP};
    struct data_request q = {.path = "small.png", .o = &o, .info = &bytes};
    struct data_picture p;
    static uint8_t plain[1440], x[1440];
    int64_t dims[3];
    int flipped = 0;

    ck_assert(data_picture_for(&q, &p, dims, error));
    read_picture(&p, "small.png", 0, NULL, plain);
    for (int k = 0; k < 400; k++) {
        read_picture(&p, "small.png", k, &(struct data_draw){1, 0}, x);
        bool same = !memcmp(x, plain, sizeof x);
        for (int i = 0; i < 24 && !same; i++)
            ck_assert_mem_eq(x + 3 * i, plain + 3 * (23 - i), 3);
        flipped += !same;
    }
    ck_assert(flipped > 160 && flipped < 240);
}
END_TEST

START_TEST(truncated_picture)
{
    struct data_options o = {0};
    struct data_request q = {.path = "x", .o = &o, .info = &bytes};
    struct data_file *f = data_map(stored(_i ? "small.png" : "small.jpg"), error);
    struct data_picture p;
    static uint8_t x[1440];
    int64_t dims[3];

    ck_assert(f && data_picture_for(&q, &p, dims, error));
    ck_assert(!data_picture_row(&p, "cut.jpg", f->bytes, f->size / 2, 0, NULL, x, error));
    ck_assert_ptr_nonnull(strstr(error, "cut.jpg: the "));
    data_unref(f);
}
END_TEST

/* -- Tokens -------------------------------------------------------------------------------------------------------- */

#define TEXT                                                                                        \
    "The quick brown fox jumps over the lazy dog; it's 1984, and they've never seen 3.14159.\n\n  " \
    "\xc3\x85ngstr\xc3\xb6m's na\xc3\xafve "                                                        \
    "caf\xc3\xa9 \xe2\x80\x94 \xe2\x80\x9estra\xc3\x9f"                                             \
    "e\" \xe2\x80\x94 \xe6\x9d\xb1\xe4\xba\xac \xd9\xa1\xd9\xa2\xd9\xa3\t"                          \
    "don't we'll\xc2\xa0x   y\n"

static const uint32_t ids[] = {
    278, 326, 290, 319, 295, 78,  321, 88,  323, 293, 83,  325, 267, 324, 89,  316, 71,  27,  322, 261, 317,
    277, 12,  318, 68,  267, 89,  273, 266, 286, 327, 78,  313, 14,  274, 275, 25,  14,  312, 221, 329, 294,
    309, 261, 266, 262, 302, 320, 307, 269, 260, 253, 270, 262, 254, 69,  2,   269, 221, 311, 303, 305, 221,
    310, 301, 97,  198, 263, 78,  272, 328, 271, 76,  306, 88,  315, 314, 199, 278, 326, 290, 319, 295, 78,
    321, 88,  323, 293, 83,  325, 267, 324, 89,  316, 71,  27,  322, 261, 317, 277, 12,  318, 68,  267, 89,
    273, 266, 286, 327, 78,  313, 14,  274, 275, 25,  14,  312, 221, 329, 294, 309, 261, 266, 262, 302, 320,
    307, 269, 260, 253, 270, 262, 254, 69,  2,   269, 221, 311, 303, 305, 221, 310, 301, 97,  198, 263, 78,
    272, 328, 271, 76,  306, 88,  315, 314, 199, 0,   221, 221, 278, 221, 69,  78,  68,  0};

START_TEST(tokens_as_tokenizers)
{
    static const char text[] = TEXT TEXT "<|end|>  The end<|end|>";
    int code;
    struct data_bpe *b = data_bpe_open(stored("bpe.json"), error, &code);
    uint32_t *got = NULL;
    size_t n = 0;

    ck_assert_msg(b != NULL, "%s", error);
    ck_assert_msg(data_bpe_encode(b, (const unsigned char *)text, sizeof text - 1, &got, &n, error), "%s", error);
    for (size_t i = 0; i < n && i < sizeof ids / sizeof *ids; i++)
        ck_assert_msg(got[i] == ids[i], "token %zu is %u, not %u", i, got[i], ids[i]);
    ck_assert_uint_eq(n, sizeof ids / sizeof *ids);
    ck_assert(!data_bpe_encode(b, (const unsigned char *)"fine\nnot \xc3(", 11, &got, &n, error));
    ck_assert_ptr_nonnull(strstr(error, "byte 9 (line 2) is not UTF-8"));
    free(got);
    data_bpe_free(b);
}
END_TEST

/* Every kind of tokenizer.json: what tokenizers makes of tests/train/tokens-text.txt is in tokens.txt
 * (tests/train/tokens.py). */
START_TEST(kinds_of_tokenizers)
{
    struct data_file *text = data_map(stored("../../train/tokens-text.txt"), error);
    FILE *f = fopen(stored("../../train/tokens.txt"), "r");
    char kind[40], path[80];
    int kinds = 0, code = 0;

    ck_assert_msg(text && f, "%s", error);
    while (fscanf(f, "%39s", kind) == 1) {
        uint32_t *got = NULL, want;
        size_t n = 0, at = 0;
        snprintf(path, sizeof path, "tokens-%s.json", kind);
        struct data_bpe *b = data_bpe_open(stored(path), error, &code);
        if (!b && code == EXIT_ENVIRONMENT) { /* no PCRE2 */
            ck_assert(fscanf(f, "%*[^\n]") == 0);
            continue;
        }
        ck_assert_msg(b != NULL, "%s", error);
        ck_assert_msg(data_bpe_encode(b, text->bytes, text->size, &got, &n, error), "%s: %s", kind, error);
        for (; fscanf(f, "%u", &want) == 1; at++)
            ck_assert_msg(at < n && got[at] == want, "%s: token %zu of %zu is %u, not %u", kind, at, n,
                          at < n ? got[at] : 0, want);
        ck_assert_msg(at == n, "%s: %zu tokens, not %zu", kind, n, at);
        free(got);
        data_bpe_free(b);
        kinds++;
    }
    ck_assert_int_ge(kinds, 8);
    fclose(f);
    data_unref(text);
}
END_TEST

static const struct {
    const char *json, *text, *message;
} bad_tokenizers[] = {
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "", "model 'WordPiece': expected BPE"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "", "model 'Unigram': expected BPE"},
    {"{\"model\":{\"vocab\":{},\"merges\":[]},\"normalizer\":{\"type\":\"Lowercase\"}}", "",
     "normalizer 'Lowercase' is not supported"},
    {"{\"model\":{\"vocab\":{},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}", "",
     "pre_tokenizer 'BertPreTokenizer' is not supported"},
    {"{\"model\":{\"vocab\":{},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}", "",
     "'end_of_word_suffix' is not supported"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "", "merge 0 is malformed, or names what 'vocab' lacks"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}", "ab", "no token for U+0062"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
     "false}}",
     "a!", "no token for byte 0x21"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"normalizer\":{\"type\":\"NFC\"}}", "aa\xcc\x81",
     "U+0301: this text may not be in normalization form C"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
     "\"pattern\":{\"Regex\":\"(\"}}}",
     "", "the pattern '('"},
};

START_TEST(tokenizers_refused)
{
    char path[] = "/tmp/tokenizer-XXXXXX";
    int fd = mkstemp(path), code = EXIT_DATA;
    size_t size = strlen(bad_tokenizers[_i].json), n = 0;
    uint32_t *got = NULL;

    ck_assert(fd >= 0 && write(fd, bad_tokenizers[_i].json, size) == (ssize_t)size);
    struct data_bpe *b = data_bpe_open(path, error, &code);
    if (b)
        ck_assert(!data_bpe_encode(b, (const unsigned char *)bad_tokenizers[_i].text, strlen(bad_tokenizers[_i].text),
                                   &got, &n, error));
    if (code != EXIT_ENVIRONMENT)
        ck_assert_msg(strstr(error, bad_tokenizers[_i].message) != NULL, "%s", error);
    free(got);
    data_bpe_free(b);
    close(fd);
    unlink(path);
}
END_TEST

/* A word of many letters takes n log n. */
START_TEST(long_words)
{
    enum { LONG = 1 << 20 };
    int code;
    struct data_bpe *b = data_bpe_open(stored("bpe.json"), error, &code);
    unsigned char *text = malloc(LONG);
    uint32_t *got = NULL;
    size_t n = 0;

    ck_assert(b && text);
    for (int i = 0; i < LONG; i++)
        text[i] = (unsigned char)"the"[i % 3];
    ck_assert_msg(data_bpe_encode(b, text, LONG, &got, &n, error), "%s", error);
    ck_assert(n > LONG / 4 && n < LONG);
    free(got);
    free(text);
    data_bpe_free(b);
}
END_TEST

/* -- Tables -------------------------------------------------------------------------------------------------------- */

static bool open_table(const char *text, const struct data_options *o, const struct tccrt_value_info *info,
                       struct data_array *a)
{
    unsigned char *copy = malloc(strlen(text) + 1);
    memcpy(copy, text, strlen(text));
    struct data_file *f = data_take(copy, strlen(text), error);
    struct data_tables tables = {0};
    struct data_options own = *o;
    struct data_request q = {.path = "t.csv", .file = f, .o = &own, .info = info, .ninputs = 1, .inputs = &classes};
    bool found, ok = true;

    own.table = data_table_of(&tables, info->name);
    for (int phase = PHASE_COLUMNS; ok && phase <= PHASE_ROWS; phase++) {
        q.phase = (enum data_phase)phase;
        ok = data_open_csv(&q, a, &found, error);
    }
    data_tables_free(&tables);
    data_unref(f);
    return ok;
}

START_TEST(table_of_all_kinds)
{
    static const char text[] =
        "\xef\xbb\xbf"
        "a,\"b, c\",y,kind\r\n1,2.5,no,\"x \"\"y\"\"\"\r\n\r\n,3,yes,\"line\nbreak\"\n-1e2, 4 ,yes,line\n";
    static const float want[3][3] = {{1, 2.5f, 2}, {-49.5f, 3, 1}, {-100, 4, 0}}; /* line, line\nbreak, x ""y"" */
    struct data_options o = {.scale = 1, .missing = "mean"};
    struct data_array a;
    float row[3];
    int64_t y;

    ck_assert_msg(open_table(text, &o, &table, &a), "%s", error);
    ck_assert(a.rank == 2 && a.dims[0] == 3 && a.dims[1] == 3 && a.dtype == TCC_F32);
    for (int i = 0; i < 3; i++) {
        ck_assert(a.source->row(a.source, i, NULL, row, error));
        ck_assert_mem_eq(row, want[i], sizeof row);
    }
    data_release(&a);
    ck_assert_msg(open_table(text, &o, &classes, &a), "%s", error);
    for (int i = 0; i < 3; i++)
        ck_assert(a.source->row(a.source, i, NULL, &y, error) && y == (i > 0));
    data_release(&a);
    o.categories = "y:yes+maybe+no";
    ck_assert_msg(open_table(text, &o, &classes, &a), "%s", error);
    for (int i = 0; i < 3; i++)
        ck_assert(a.source->row(a.source, i, NULL, &y, error) && y == (i ? 0 : 2));
    data_release(&a);
}
END_TEST

static const struct {
    const char *text, *message;
    struct data_options o;
} bad_tables[] = {
    {"", "empty", {.scale = 1}},
    {"a,b\n1,2\n3\n", "t.csv: line 3: 1 field, the first line names 2 columns", {.scale = 1}},
    {"a,b\n1,2\n\n3,\n", "t.csv: line 4: column 'b': no value", {.scale = 1}},
    {"a,b\n1,2\n3,\"4\n5\n", "line 3: a quote is never closed", {.scale = 1}},
    {"a,b\n1,2\n", "no column 'c'; it has 'a', 'b'", {.scale = 1, .columns = "a+c"}},
    {"a\nred\nblue\n",
     "line 3: column 'a': 'blue' is none of its categories",
     {.scale = 1, .categories = "a:red+green"}},
};

START_TEST(tables_refused)
{
    struct data_array a;

    ck_assert(!open_table(bad_tables[_i].text, &bad_tables[_i].o, &table, &a));
    ck_assert_msg(strstr(error, bad_tables[_i].message) != NULL, "%s", error);
}
END_TEST

/* -- --skip-bad ---------------------------------------------------------------------------------------------------- */

START_TEST(bad_rows_are_replaced)
{
    static const int first;
    const struct data_options o = {.scale = 1, .lenient = true};
    struct data_array a;
    char text[2000] = "a,b\n";
    const char *why;
    int64_t order[50];
    struct batch *b;

    for (int i = 0; i < 50; i++) {
        order[i] = 49 - i;
        sprintf(text + strlen(text), i == 7 || i == 8 || i == 30 || i == 49 ? "%d\n" : "%d,%d\n", i, i);
    }
    ck_assert_msg(open_table(text, &o, &table, &a), "%s", error);
    struct data_set set = {.n = 1, .arrays = &a, .inputs = &table, .axes = &first, .samples = 50};
    for (int allowed = 3; allowed <= 4; allowed++) {
        struct loader *l = loader_new(&set, _i, 3, 10, allowed);
        int64_t k = 0;
        ck_assert(loader_start(l, &(struct loader_epoch){.order = order, .count = 50}));
        while ((b = loader_next(l)) && !*b->error) {
            for (int64_t j = 0; j < b->rows; j++, k++) {
                int64_t row = order[k], want = row == 7 || row == 8 ? 9 : row == 30 ? 31 : row == 49 ? 0 : row;
                ck_assert_float_eq(((float *)b->data[0])[2 * j + 1], (float)want);
            }
            loader_release(l, 1);
        }
        ck_assert(allowed == 4 ? !b && k == 50 : b && strstr(b->error, "1 field"));
        loader_stop(l);
        ck_assert_int_eq(loader_bad(l, &why), 4);
        ck_assert_ptr_nonnull(strstr(why, "t.csv: line "));
        loader_free(l);
    }
    data_release(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sources");
    TCase *c = tcase_create("all");

    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, resample_as_pillow, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(c, random_by_sample);
    tcase_add_test(c, half_are_flipped);
    tcase_add_loop_test(c, truncated_picture, 0, 2);
    tcase_add_test(c, tokens_as_tokenizers);
    tcase_add_test(c, kinds_of_tokenizers);
    tcase_add_loop_test(c, tokenizers_refused, 0, sizeof bad_tokenizers / sizeof *bad_tokenizers);
    tcase_add_test(c, long_words);
    tcase_add_test(c, table_of_all_kinds);
    tcase_add_loop_test(c, tables_refused, 0, sizeof bad_tables / sizeof *bad_tables);
    tcase_add_loop_test(c, bad_rows_are_replaced, 0, 3);
    suite_add_tcase(suite, c);
    return run_tests(suite);
}
