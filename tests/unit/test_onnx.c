/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ONNX front end on files made here: what is right is read as it should be, and every kind of wrong file ends in an
 * error that says what was expected and found.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/import/frontend.h"
#include "compiler/onnx/open.c" /* a model in memory: files are all that the front end opens */
#include "tests/unit/onnx_write.h"
#include "tests/unit/suite.h"

static const int64_t two_three[] = {2, 3};
static struct ir_ctx *ctx; /* models that tests open are freed with it at the latest */

/* A model with one initialiser w of the given message. */
static struct pb with_initializer(struct pb *tensor)
{
    struct pb graph = {0}, node = {0};
    pb_node(&node, "Add", "x w", "y");
    pb_message(&graph, 1, &node);
    pb_message(&graph, 5, tensor);
    pb_value(&graph, 11, "x", 1, 2, two_three);
    pb_value(&graph, 12, "y", 1, 2, two_three);
    return pb_model(&graph, 17);
}

static struct pb tensor(int dtype, int rank, const int64_t *dims)
{
    struct pb t = {0};
    for (int k = 0; k < rank; k++)
        pb_int(&t, 1, dims[k]);
    pb_int(&t, 2, dtype);
    pb_text(&t, 8, "w");
    return t;
}

/* A model in memory; `data` must outlive it. External data is refused. */
static struct onnx_model *open_memory(struct ir_ctx *ctx, const void *data, uint64_t size, struct onnx_error *err)
{
    struct onnx_model *m = new_model(ctx, "");
    m->files[0].map = data;
    m->files[0].size = size;
    return read_model(ctx, m, err);
}

static struct onnx_model *open_bytes(const struct pb *m, struct onnx_error *err)
{
    *err = (struct onnx_error){0};
    return open_memory(ctx, m->at, m->n, err);
}

/* The model must be refused with a text that has `part` in it. */
static void refused(struct pb *m, const char *part)
{
    struct onnx_error err;
    struct onnx_model *model = open_bytes(m, &err);
    ck_assert_msg(!model, "accepted; a message with '%s' was expected", part);
    ck_assert_msg(strstr(err.text, part) != NULL, "'%s' is not in '%s'", part, err.text);
    ck_assert_int_eq(err.status, ONNX_BAD_FILE);
    free(m->at);
    *m = (struct pb){0};
}

/* The same through a file and the importer. */
static void import_refused(struct pb *m, const char *part)
{
    char path[] = "/tmp/tccc-onnx-XXXXXX";
    int fd = mkstemp(path);
    ck_assert(fd >= 0 && write(fd, m->at, m->n) == (ssize_t)m->n);
    struct ir_ctx *own = ir_ctx_new();
    struct ir_module *module = frontend_read(own, path, NULL);
    ck_assert_msg(!module, "accepted; a message with '%s' was expected", part);
    ck_assert_int_ge(ir_nmessages(own), 1);
    ck_assert_msg(strstr(ir_message(own, 0)->text, part) != NULL, "'%s' is not in '%s'", part,
                  ir_message(own, 0)->text);
    ir_ctx_free(own);
    unlink(path);
    close(fd);
    free(m->at);
    *m = (struct pb){0};
}

START_TEST(reads_raw_and_typed_data)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    static const int fields[] = {9, 4};
    for (int k = 0; k < 2; k++) {
        struct pb t = tensor(1, 2, two_three);
        pb_bytes(&t, fields[k], values, sizeof values);
        struct pb m = with_initializer(&t);
        struct onnx_error err;
        struct onnx_model *model = open_bytes(&m, &err);
        ck_assert_msg(model != NULL, "%s", err.text);
        const struct onnx_tensor *w = &model->graph->inits[0];
        ck_assert_uint_eq(w->count, 6);
        ck_assert_uint_eq(w->file, 0); /* both forms stay in the file */
        ck_assert(!memcmp(w->bytes, values, sizeof values));
        onnx_close(model);
        free(m.at);
    }
}
END_TEST

START_TEST(decodes_varints_nibbles_and_strings)
{
    struct onnx_error err;
    struct pb packed = {0};
    int64_t five = 5;
    for (int k = -2; k < 3; k++)
        pb_varint(&packed, (uint64_t)(int64_t)k);
    struct pb t = tensor(3, 1, &five); /* int8 in int32_data, negative numbers as ten bytes */
    pb_message(&t, 5, &packed);
    struct pb m = with_initializer(&t);
    struct onnx_model *model = open_bytes(&m, &err);
    ck_assert_msg(model != NULL, "%s", err.text);
    for (int k = 0; k < 5; k++)
        ck_assert_int_eq(((const int8_t *)model->graph->inits[0].bytes)[k], k - 2);
    onnx_close(model);
    free(m.at);

    static const uint8_t nibbles[3] = {0x21, 0x43, 0x05};
    t = tensor(22, 1, &five); /* int4, two to a byte, low nibble first */
    pb_bytes(&t, 9, nibbles, 3);
    m = with_initializer(&t);
    model = open_bytes(&m, &err);
    ck_assert_msg(model != NULL, "%s", err.text);
    ck_assert_uint_eq(model->graph->inits[0].byte_count, 3);
    onnx_close(model);
    free(m.at);

    int64_t two = 2;
    t = tensor(8, 1, &two);
    pb_text(&t, 6, "a");
    pb_bytes(&t, 6, "b\0c", 3);
    m = with_initializer(&t);
    model = open_bytes(&m, &err);
    ck_assert_msg(model != NULL, "%s", err.text);
    ck_assert_uint_eq(model->graph->inits[0].strings[1].size, 3);
    onnx_close(model);
    free(m.at);
}
END_TEST

START_TEST(refuses_wrong_amounts)
{
    static const float values[6] = {0};
    struct pb t = tensor(1, 2, two_three), m;
    pb_bytes(&t, 9, values, 20);
    m = with_initializer(&t);
    refused(&m, "raw_data has 20 bytes, but its dims and type (FLOAT) need 24");
    t = tensor(1, 2, two_three);
    pb_bytes(&t, 9, (float[7]){0}, 28);
    m = with_initializer(&t);
    refused(&m, "raw_data has 28 bytes, but its dims and type (FLOAT) need 24");
    t = tensor(7, 2, two_three);
    pb_bytes(&t, 7, "\1\2\3", 3);
    m = with_initializer(&t);
    refused(&m, "holds fewer elements than its dims say (6)");
    t = tensor(1, 2, (int64_t[]){INT64_MAX, 8});
    m = with_initializer(&t);
    refused(&m, "multiply to more than 2^47");
    t = tensor(1, 2, (int64_t[]){1 << 20, 1 << 20});
    m = with_initializer(&t);
    refused(&m, "more elements than the file can hold");
    t = tensor(1, 1, (int64_t[]){-3});
    m = with_initializer(&t);
    refused(&m, "dim 0 is negative (-3)");
    t = tensor(99, 1, (int64_t[]){1});
    m = with_initializer(&t);
    refused(&m, "data type 99");
}
END_TEST

START_TEST(refuses_deep_nesting)
{
    struct pb graph = {0};
    pb_text(&graph, 2, "innermost");
    /* Graphs in attributes of nodes in graphs: three messages a level. Lengths grow, so wrap from the inside. */
    for (int k = 0; k < 7000; k++) {
        struct pb attr = {0}, node = {0}, outer = {0};
        pb_message(&attr, 6, &graph);
        pb_message(&node, 5, &attr);
        pb_message(&outer, 1, &node);
        graph = outer;
    }
    struct pb m = pb_model(&graph, 17);
    refused(&m, "nested more than 100 deep");
}
END_TEST

START_TEST(refuses_every_truncation)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    struct pb t = tensor(1, 2, two_three);
    pb_bytes(&t, 9, values, sizeof values);
    struct pb m = with_initializer(&t);
    for (size_t n = 0; n < m.n; n++) {
        uint8_t *exact = malloc(n ? n : 1); /* of just that size, so that a sanitizer sees a read past its end */
        memcpy(exact, m.at, n);
        struct onnx_error err = {0};
        struct onnx_model *model = open_memory(ctx, exact, n, &err);
        ck_assert_msg(model || err.text[0], "no message at %zu bytes", n);
        onnx_close(model);
        free(exact);
    }
    free(m.at);
}
END_TEST

START_TEST(refuses_broken_wire)
{
    struct pb m = {0};
    pb_raw(&m, "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    refused(&m, "a length runs past the end");
    pb_raw(&m, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
    refused(&m, "a number is cut off or too long");
    pb_raw(&m, "\x38\x01", 2); /* field 7, the graph, as a number */
    refused(&m, "in graph: another type of value expected");
    pb_raw(&m, "\x3b\x3c", 2);
    refused(&m, "groups");
    pb_raw(&m, "\x08\x07", 2);
    refused(&m, "it has no graph");
    pb_text(&m, 7, "\x12\x01x");
    pb_text(&m, 7, "\x12\x01y");
    refused(&m, "given twice");
}
END_TEST

START_TEST(names_other_formats)
{
    static const struct {
        const char *bytes, *part;
        size_t n;
    } others[] = {
        {"PK\3\4", "zip archive, cut off", 4},
        {"\x80\x02}q\x00.", "Python pickle", 6},
        {"\x89HDF\r\n\x1a\n", "HDF5", 8},
        {"\x1c\0\0\0TFL3", "TensorFlow Lite", 8},
        {"\x08\x01\x12\x05\x0a\x03xyz", "TensorFlow SavedModel", 9},
        {"GGUF\3\0\0\0", "GGUF", 8},
        {"\x20\0\0\0\0\0\0\0{\"a\":1}", "safetensors", 15},
        {"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer", 43},
        {"", "empty", 0},
    };
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        struct pb m = {0};
        pb_raw(&m, others[k].bytes, others[k].n);
        refused(&m, others[k].part);
    }
}
END_TEST

/* -- External data */

static char folder[] = "/tmp/tccc-external-XXXXXX";

static void write_file(const char *name, const void *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void entry(struct pb *t, const char *key, const char *value)
{
    struct pb e = {0};
    pb_text(&e, 1, key);
    pb_text(&e, 2, value);
    pb_message(t, 13, &e);
}

static struct onnx_model *open_external(const char *location, const char *offset, const char *length,
                                        struct onnx_error *err)
{
    struct pb t = tensor(1, 2, two_three);
    entry(&t, "location", location);
    if (offset)
        entry(&t, "offset", offset);
    if (length)
        entry(&t, "length", length);
    pb_int(&t, 14, 1);
    struct pb m = with_initializer(&t);
    char path[256];
    write_file("model.onnx", m.at, m.n);
    free(m.at);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    *err = (struct onnx_error){0};
    return onnx_open(ctx, path, err);
}

START_TEST(external_data)
{
    static const float values[8] = {9, 9, 1, 2, 3, 4, 5, 6};
    static const struct {
        const char *location, *offset, *length, *part;
    } wrong[] = {
        {"/etc/passwd", NULL, NULL, "leaves the model's folder"},
        {"../data.bin", NULL, NULL, "leaves the model's folder"},
        {"sub/../../data.bin", NULL, NULL, "leaves the model's folder"},
        {"link.bin", NULL, NULL, "is a link that leaves the model's folder"},
        {"absent.bin", NULL, NULL, "cannot be opened"},
        {"data.bin", "12", NULL, "runs past the end"},
        {"data.bin", "18446744073709551615", NULL, "is not a number"},
        {"data.bin", "9223372036854775807", "24", "runs past the end"},
        {"data.bin", "-8", NULL, "is not a number"},
        {"data.bin", "0", "23", "need 24 bytes"},
        {"", NULL, NULL, "without a location"},
        {".", NULL, NULL, "leaves the model's folder"},
    };
    struct onnx_error err;
    char path[256];
    ck_assert(mkdtemp(folder) != NULL);
    write_file("data.bin", values, sizeof values);
    snprintf(path, sizeof path, "%s/link.bin", folder);
    ck_assert(symlink("/etc/passwd", path) == 0);
    struct onnx_model *model = open_external("data.bin", "8", "24", &err);
    ck_assert_msg(model != NULL, "%s", err.text);
    ck_assert_uint_eq(model->graph->inits[0].file, 1);
    ck_assert_uint_eq(model->graph->inits[0].offset, 8);
    ck_assert(!memcmp(model->graph->inits[0].bytes, values + 2, 24));
    onnx_close(model);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        model = open_external(wrong[k].location, wrong[k].offset, wrong[k].length, &err);
        ck_assert_msg(!model, "'%s' was accepted", wrong[k].location);
        ck_assert_msg(strstr(err.text, wrong[k].part) || !strcmp(wrong[k].location, "."), "'%s' is not in '%s'",
                      wrong[k].part, err.text);
    }
    static const char *const names[] = {"link.bin", "data.bin", "model.onnx"};
    for (int k = 0; k < 3; k++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[k]);
        unlink(path);
    }
    rmdir(folder);
}
END_TEST

/* -- The importer */

START_TEST(lists_all_unknown_operators)
{
    struct pb graph = {0}, node = {0}, attr = {0};
    pb_node(&node, "Frobnicate", "x", "a");
    pb_text(&node, 3, "first");
    pb_message(&graph, 1, &node);
    pb_node(&node, "Relu", "a", "b"); /* reads what is not known: not listed itself */
    pb_message(&graph, 1, &node);
    pb_node(&node, "Frobnicate", "b", "e");
    pb_message(&graph, 1, &node);
    pb_node(&node, "Behind", "e", "f"); /* nobody would get here */
    pb_text(&node, 3, "third");
    pb_message(&graph, 1, &node);
    pb_node(&node, "Reluu", "x", "d");
    pb_text(&node, 3, "mistyped");
    pb_message(&graph, 1, &node);
    pb_node(&node, "Elu", "x", "c");
    pb_text(&node, 7, "my.domain");
    pb_text(&node, 3, "second");
    pb_message(&graph, 1, &node);
    (void)attr;
    pb_value(&graph, 11, "x", 1, 2, two_three);
    pb_value(&graph, 12, "b", 1, 2, two_three);
    struct pb m = pb_model(&graph, 17);
    import_refused(
        &m,
        "5 nodes are not supported:\n"
        "  node 'first' (Frobnicate, domain ai.onnx, opset 17): unsupported operator (and 1 more node)\n"
        "  node 'mistyped' (Reluu, domain ai.onnx, opset 17): unsupported operator: did you mean 'Relu'?\n"
        "  node 'second' (Elu, domain my.domain, opset 0): the model does not import the operator set of this domain\n"
        "  node 'third' (Behind, domain ai.onnx, opset 17): unsupported operator");
}
END_TEST

START_TEST(refuses_wrong_graphs)
{
    struct pb graph = {0}, node = {0}, m;
    pb_node(&node, "Add", "x y", "y"); /* a cycle */
    pb_message(&graph, 1, &node);
    pb_value(&graph, 11, "x", 1, 2, two_three);
    pb_value(&graph, 12, "y", 1, 2, two_three);
    m = pb_model(&graph, 17);
    import_refused(&m, "operand 1, 'y', is neither an input nor computed by an earlier node");

    pb_node(&node, "MatMul", "x x", "y");
    pb_message(&graph, 1, &node);
    pb_value(&graph, 11, "x", 1, 2, two_three);
    pb_value(&graph, 12, "y", 1, 2, two_three);
    m = pb_model(&graph, 17);
    import_refused(&m, "matmul");

    pb_node(&node, "Relu", "x", "z");
    pb_message(&graph, 1, &node);
    pb_value(&graph, 11, "x", 1, 2, two_three);
    pb_value(&graph, 12, "y", 1, 2, two_three);
    m = pb_model(&graph, 17);
    import_refused(&m, "output 'y' of graph '' is not computed by any node");

    pb_value(&graph, 11, "x", 1, 2, two_three);
    pb_value(&graph, 12, "x", 1, 2, two_three);
    m = pb_model(&graph, 99);
    import_refused(&m, "opset 99");
}
END_TEST

/* A function that calls itself, and one whose expansion doubles at each of 40 levels. */
START_TEST(bounds_functions)
{
    for (int kind = 0; kind < 2; kind++) {
        struct pb graph = {0}, node = {0}, import = {0}, own = {0};
        pb_node(&node, "f0", "x", "y");
        pb_text(&node, 7, "local");
        pb_message(&graph, 1, &node);
        pb_value(&graph, 11, "x", 1, 2, two_three);
        pb_value(&graph, 12, "y", 1, 2, two_three);
        struct pb m = pb_model(&graph, 17);
        pb_text(&own, 1, "local");
        pb_int(&own, 2, 1);
        pb_message(&m, 8, &own);
        for (int k = 0; k < (kind ? 40 : 1); k++) {
            struct pb f = {0};
            char name[16], next[16];
            snprintf(name, sizeof name, "f%d", k);
            snprintf(next, sizeof next, "f%d", kind ? k + 1 : 0);
            pb_text(&f, 1, name);
            pb_text(&f, 4, "a");
            pb_text(&f, 5, "c");
            pb_node(&node, k == 39 ? "Relu" : next, "a", "b");
            if (k != 39)
                pb_text(&node, 7, "local");
            pb_message(&f, 7, &node);
            pb_node(&node, k == 39 ? "Relu" : next, "b", "c");
            if (k != 39)
                pb_text(&node, 7, "local");
            pb_message(&f, 7, &node);
            pb_int(&import, 2, 17);
            pb_message(&f, 9, &import);
            pb_text(&own, 1, "local");
            pb_int(&own, 2, 1);
            pb_message(&f, 9, &own);
            pb_text(&f, 10, "local");
            pb_message(&m, 25, &f);
        }
        import_refused(&m, kind ? "functions expand to" : "functions call each other more than");
    }
}
END_TEST

static void begin(void)
{
    ctx = ir_ctx_new();
}

static void end(void)
{
    ir_ctx_free(ctx);
}

int main(void)
{
    Suite *s = suite_create("onnx");
    TCase *t = tcase_create("file");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, reads_raw_and_typed_data);
    tcase_add_test(t, decodes_varints_nibbles_and_strings);
    tcase_add_test(t, refuses_wrong_amounts);
    tcase_add_test(t, refuses_deep_nesting);
    tcase_add_test(t, refuses_every_truncation);
    tcase_add_test(t, refuses_broken_wire);
    tcase_add_test(t, names_other_formats);
    tcase_add_test(t, external_data);
    tcase_add_test(t, lists_all_unknown_operators);
    tcase_add_test(t, refuses_wrong_graphs);
    tcase_add_test(t, bounds_functions);
    tcase_add_checked_fixture(t, begin, end);
    suite_add_tcase(s, t);
    return run_tests(s);
}
