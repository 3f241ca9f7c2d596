/* SPDX-License-Identifier: Apache-2.0 */
/* What reports are made of (compiler/compile_report.c): which buffers the steps of communication read and write. */
#include "compiler/tccc.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char program[] =
    "func @main(%x: f32[4,3], %i: i32[6]) -> (f32[4,3], i32[6]) {\n"
    "  %a, %b = all_reduce(%x, %i) {group = \"dp\", mode = \"sum\", types = [f32[4,3], i32[6]]} : f32[4,3], i32[6]\n"
    "  %c = mul(%a, %a) : f32[4,3]\n"
    "  %d = mul(%b, %b) : i32[6]\n"
    "  return(%c, %d)\n"
    "}\n";

/* The facts of that program. */
static json_t *facts_of(const char *text)
{
    char folder[] = "/tmp/test-facts-XXXXXX", model[64], output[64], *json = NULL;
    size_t size = 0;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/m.tcir", folder);
    snprintf(output, sizeof output, "%s/m.so", folder);
    FILE *f = fopen(model, "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
    struct tccc_options o;
    tccc_options_init(&o);
    o.model = model;
    o.output = output;
    o.facts = open_memstream(&json, &size);
    ck_assert_ptr_nonnull(o.facts);
    ck_assert_int_eq(tccc_compile(&o), 0);
    fclose(o.facts);
    json_t *facts = json_loads(json, 0, NULL);
    ck_assert_ptr_nonnull(facts);
    unlink(model);
    unlink(output);
    rmdir(folder);
    free(json);
    return facts;
}

/* The first step of that kind in the first entry point. */
static const json_t *step_of(const json_t *facts, const char *kind)
{
    const json_t *steps = json_object_get(json_array_get(json_object_get(facts, "entries"), 0), "steps");
    for (size_t i = 0; i < json_array_size(steps); i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(steps, i), "kind")), kind))
            return json_array_get(steps, i);
    return NULL;
}

static bool has(const json_t *list, json_int_t buffer)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == buffer)
            return true;
    return false;
}

START_TEST(collectives_of_two)
{
    json_t *facts = facts_of(program);
    const json_t *s = step_of(facts, "collective"), *k = step_of(facts, "kernel");
    ck_assert(s && k);
    const json_t *reads = json_object_get(s, "reads"), *writes = json_object_get(s, "writes");
    ck_assert_uint_eq(json_array_size(reads), 2);
    ck_assert_uint_eq(json_array_size(writes), 2);
    /* What the first kernel multiplies is one of the results. */
    ck_assert(has(writes, json_integer_value(json_array_get(json_object_get(k, "reads"), 0))));
    json_decref(facts);
}
END_TEST

START_TEST(messages)
{
    json_t *facts = facts_of("func @main(%x: f32[4,3]) -> (f32[4,3]) {\n"
                             "  %y = mul(%x, %x) : f32[4,3]\n"
                             "  send(%y) {group = \"pp\", peer = 1}\n"
                             "  return(%y)\n"
                             "}\n");
    const json_t *s = step_of(facts, "send");
    ck_assert_ptr_nonnull(s);
    ck_assert_uint_eq(json_array_size(json_object_get(s, "reads")), 1);
    ck_assert_uint_eq(json_array_size(json_object_get(s, "writes")), 0);
    json_decref(facts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("facts");
    TCase *c = tcase_create("facts");
    suite_add_tcase(suite, c);
    tcase_add_test(c, collectives_of_two);
    tcase_add_test(c, messages);
    return run_tests(suite);
}
