/* SPDX-License-Identifier: Apache-2.0 */
/* The pass tables agree with each other, lists parse, and the runner keeps a reproducer exactly while a pass is at
 * fault. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "passes/pass.h"
#include "tests/unit/suite.h"

START_TEST(tables_agree)
{
    char buffer[256];
    ck_assert_msg(pass_tables_error(buffer, sizeof buffer) == NULL, "%s", buffer);
}
END_TEST

START_TEST(names_differ)
{
    int n;
    const struct pass *table = pass_table(&n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(table[i].name, table[k].name);
}
END_TEST

START_TEST(lists_parse)
{
    static const struct {
        const char *list;
        bool good;
    } cases[] = {{"", true},
                 {"cse", true},
                 {"cse,dce", true},
                 {" cse , fold{limit=1} ", true},
                 {"fold{limit=1,other=a\\,b}", true},
                 {"O2", true},
                 {"cse,", false},
                 {",cse", false},
                 {"nothing", false},
                 {"fold{", false},
                 {"fold{limit}", false},
                 {"fold{limit=1", false},
                 {"fold{}", false},
                 {"cse dce", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ir_ctx *ctx = ir_ctx_new();
        ck_assert_msg(pass_check(ctx, cases[i].list, NULL) == cases[i].good, "'%s'", cases[i].list);
        ck_assert((ir_nerrors(ctx) == 0) == cases[i].good);
        ir_ctx_free(ctx);
    }
}
END_TEST

static const char text[] =
    "func @main(%x: f32[4]) -> (f32[4]) {\n  %a = exp(%x)\n  %b = exp(%x)\n  %c = add(%a, %b)\n  return(%c)\n}\n";

START_TEST(reproducer_goes)
{
    char path[] = "/tmp/tccc-test-XXXXXX";
    int fd = mkstemp(path);
    struct pass_options o = {.level = 2, .verify = true, .change_limit = -1, .reproducer = path};
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_module *m = ir_parse(ctx, "test.tcir", text, strlen(text));

    ck_assert(m && pass_list(m, "cse,dce", &o));
    ck_assert(access(path, F_OK) != 0);
    close(fd);
    ir_ctx_free(ctx);
}
END_TEST

START_TEST(limit_stops)
{
    struct pass_options o = {.level = 2, .verify = true};
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_module *m = ir_parse(ctx, "test.tcir", text, strlen(text));
    char *printed;
    size_t size;

    ck_assert(m && pass_list(m, "cse,dce", &o));
    FILE *out = open_memstream(&printed, &size);
    ir_print_module(out, m);
    fclose(out);
    ck_assert_ptr_nonnull(strstr(printed, "%b = exp"));
    free(printed);
    ir_ctx_free(ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("passes");
    TCase *c = tcase_create("passes");
    tcase_add_test(c, tables_agree);
    tcase_add_test(c, names_differ);
    tcase_add_test(c, lists_parse);
    tcase_add_test(c, reproducer_goes);
    tcase_add_test(c, limit_stops);
    suite_add_tcase(s, c);
    return run_tests(s);
}
