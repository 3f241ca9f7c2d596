/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing, verifying and printing with memory that runs out at the k-th allocation, for every k: a jump, no crash and
 * (under AddressSanitizer) no leak. Linked with --wrap, so that our allocations can fail. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "tests/unit/suite.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);

static long left = -1; /* allocations until the first that fails; < 0: none fails */

static int fails(void)
{
    if (left > 0)
        left--;
    return left == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

static const char text[] =
    "state @w : f32[4,2] param = f32[4,2] [1, 2, 3, 4, 5, 6, 7, 8]\n"
    "func @main(%x: f32[N,4], %c: bool[]) -> (\"y\": f32[N,2]) {\n"
    "  %w = state_read() {name = \"w\"}\n"
    "  %s = constant() {value = string[2] [\"a\", \"bc\"]}\n"
    "  %t = constant() {value = string[2] splat(\"d\")}\n"
    "  %h = constant() {value = f16[2] hex \"007f0180\"}\n"
    "  %m = matmul(%x, %w)\n"
    "  %r = if(%c) : f32[N,2] do { yield(%m) } do { %z = exp(%m) yield(%z) }\n"
    "  return(%r)\n}\n"
    "kernel @k MAP {\n outer i < N floordiv 2 * 3\n in x: f32[N floordiv 2 * 3]\n out y: f32[N floordiv 2 * 3]\n"
    " stage () {\n %a = load f32 x[i]\n store y[i] = %a\n }\n}\n";

/* Parses, verifies and prints; false when memory ran out. */
static bool work(struct ir_ctx *ctx)
{
    struct ir_protect frame;
    if (!IR_PROTECT(ctx, &frame))
        return false;
    struct ir_module *m = ir_parse(ctx, "oom.tcir", text, strlen(text));
    FILE *out = fopen("/dev/null", "w");
    if (m && out) {
        ir_verify(m);
        fprintf(out, "%s", ir_type_text(ctx, m->funcs->body->params[0]->type));
    }
    if (out)
        fclose(out);
    ir_unprotect(ctx);
    return m && out;
}

START_TEST(every_allocation)
{
    bool done = false;
    for (long k = 1; !done && k < 10000; k++) {
        left = k;
        struct ir_ctx *ctx = ir_ctx_new();
        done = ctx && work(ctx) && left > 0;
        left = -1;
        ir_ctx_free(ctx);
    }
    ck_assert(done);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("oom");
    TCase *t = tcase_create("oom");
    tcase_add_test(t, every_allocation);
    suite_add_tcase(s, t);
    return run_tests(s);
}
