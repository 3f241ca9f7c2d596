/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our object files, linked by the linker and read back: sections, alignment, pointers between them, large sections,
 * hidden and exported symbols, archives, the same bytes for the same calls, and what happens when something is missing.
 */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/artifact/elf_int.h"
#include "compiler/cpu/isa/isa_int.h"
#include "compiler/artifact/link_int.h"
#include "tests/unit/suite.h"

static char folder[64];
static struct ir_ctx *ctx;

static const char *path(const char *name)
{
    return ir_internf(ctx, "%s/%s", folder, name);
}

static void setup(void)
{
    ctx = ir_ctx_new();
    strcpy(folder, "/tmp/tccc-objects-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    static const char *const names[] = {"a.o", "b.o", "c.o", "x.so", "y.so", "x.a", "x.o"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path(names[i]));
    ck_assert_int_eq(rmdir(folder), 0); /* nothing else was left */
    ir_ctx_free(ctx);
}

struct record {
    const char *text;
    const int *numbers;
    const void *other;
    int64_t end;
};
static const int numbers[5] = {1, 2, 3, 4, 5};

/* An object with a record that points to a string, to data in a large section, and to a symbol of another object. */
static void write_object(const char *name)
{
    char error[256];
    struct elf *elf = elf_new(cpu_isa_host());
    int text = elf_section(elf, ".rodata.text", ELF_RODATA, 1),
        large = elf_section(elf, ".lrodata.data", ELF_LARGE_RODATA, 64);
    int relro = elf_section(elf, ".data.rel.ro.record", ELF_RELRO, 8);
    struct record r = {.end = 77};
    elf_copy(elf, text, "xyz", 3, 1);
    uint64_t at_text = elf_copy(elf, text, "hello", 6, 1), at = elf_copy(elf, relro, &r, sizeof r, 8);
    elf_zeros(elf, large, 100, 1);
    uint64_t at_numbers = elf_data(elf, large, numbers, sizeof numbers, 64);
    ck_assert_uint_eq(at_text, 3);
    ck_assert_uint_eq(at_numbers, 128);
    int s_text = elf_symbol(elf, "text", text, at_text, 6, ELF_LOCAL),
        s_data = elf_symbol(elf, "", large, 0, 0, ELF_LOCAL);
    int s_other = elf_symbol(elf, "other_thing", 0, 0, 0, ELF_GLOBAL | ELF_HIDDEN);
    elf_pointer(elf, relro, at + offsetof(struct record, text), s_text, 1);
    elf_pointer(elf, relro, at + offsetof(struct record, numbers), s_data, (int64_t)at_numbers);
    elf_pointer(elf, relro, at + offsetof(struct record, other), s_other, 0);
    elf_symbol(elf, "my_record", relro, at, sizeof r, ELF_GLOBAL);
    elf_symbol(elf, "my_secret", relro, at, sizeof r, ELF_GLOBAL);
    ck_assert_msg(elf_write(elf, path(name), error, sizeof error), "%s", error);
    elf_free(elf);
}

static void write_other(const char *name)
{
    char error[256];
    struct elf *elf = elf_new(cpu_isa_host());
    int data = elf_section(elf, ".rodata.other", ELF_RODATA, 8);
    uint64_t at = elf_copy(elf, data, "other", 6, 8);
    elf_symbol(elf, "other_thing", data, at, 6, ELF_GLOBAL | ELF_HIDDEN);
    ck_assert(elf_write(elf, path(name), error, sizeof error));
    elf_free(elf);
}

static bool same_file(const char *a, const char *b)
{
    char error[256];
    struct ir_file *fa = ir_file_open(path(a), error, sizeof error), *fb = ir_file_open(path(b), error, sizeof error);
    bool same =
        ir_file_size(fa) == ir_file_size(fb) && memcmp(ir_file_data(fa), ir_file_data(fb), ir_file_size(fa)) == 0;
    ir_file_unref(fa);
    ir_file_unref(fb);
    return same;
}

static void check_library(const char *name)
{
    void *handle = dlopen(path(name), RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    const struct record *r = dlsym(handle, "my_record");
    ck_assert_ptr_nonnull(r);
    ck_assert_str_eq(r->text, "ello");
    ck_assert_mem_eq(r->numbers, numbers, sizeof numbers);
    ck_assert_uint_eq((uintptr_t)r->numbers % 64, 0);
    ck_assert_str_eq(r->other, "other");
    ck_assert_int_eq(r->end, 77);
    ck_assert_ptr_null(dlsym(handle, "my_secret"));
    ck_assert_ptr_null(dlsym(handle, "other_thing"));
    dlclose(handle);
}

static const char *const exports[] = {"my_record"};

START_TEST(shared)
{
    write_object("a.o");
    write_other("b.o");
    const char *objects[] = {path("a.o"), path("b.o")};
    ck_assert(link_shared(ctx, cpu_isa_host(), path("x.so"), 2, objects, 0, NULL, 1, exports, NULL));
    check_library("x.so");
    ck_assert(link_shared(ctx, cpu_isa_host(), path("y.so"), 2, objects, 0, NULL, 1, exports, NULL));
    ck_assert(same_file("x.so", "y.so"));
    write_object("c.o");
    ck_assert(same_file("a.o", "c.o"));
}
END_TEST

START_TEST(merged)
{
    write_object("a.o");
    write_other("b.o");
    const char *objects[] = {path("a.o"), path("b.o")}, *one[] = {path("x.o")};
    ck_assert(link_object(ctx, cpu_isa_host(), path("x.o"), 2, objects, NULL));
    ck_assert(link_shared(ctx, cpu_isa_host(), path("x.so"), 1, one, 0, NULL, 1, exports, NULL));
    check_library("x.so");
}
END_TEST

/* The member that defines other_thing is found by the archive's index. */
START_TEST(archive)
{
    write_object("a.o");
    write_other("b.o");
    const char *members[] = {path("b.o")}, *objects[] = {path("a.o")}, *archives[] = {path("x.a")};
    ck_assert(link_archive(ctx, path("x.a"), "model", 1, members, NULL));
    ck_assert(link_shared(ctx, cpu_isa_host(), path("x.so"), 1, objects, 1, archives, 1, exports, NULL));
    check_library("x.so");
}
END_TEST

START_TEST(undefined)
{
    int status = 0;
    write_object("a.o");
    const char *objects[] = {path("a.o")};
    ck_assert(!link_shared(ctx, cpu_isa_host(), path("x.so"), 1, objects, 0, NULL, 1, exports, &status));
    ck_assert_int_eq(status, 4);
    ck_assert_int_ne(access(path("x.so"), F_OK), 0);
    ck_assert_ptr_nonnull(strstr(ir_message(ctx, 0)->text, "other_thing"));
    ck_assert(!link_archive(ctx, "/nonexistent/x.a", "model", 1, objects, &status));
    ck_assert_int_eq(status, 3);
    char error[256];
    struct elf *elf = elf_new(cpu_isa_host());
    ck_assert(!elf_write(elf, "/nonexistent/x.o", error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "/nonexistent/x.o"));
    elf_free(elf);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("objects");
    TCase *c = tcase_create("objects");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, shared);
    tcase_add_test(c, merged);
    tcase_add_test(c, archive);
    tcase_add_test(c, undefined);
    suite_add_tcase(s, c);
    return run_tests(s);
}
