/* SPDX-License-Identifier: Apache-2.0 */
/* Integer expressions: canonical form, simplification, and agreement with plain evaluation. */
#include <check.h>
#include <stdlib.h>

#include "ir/ir_int.h"
#include "tests/unit/suite.h"

static struct ir_ctx *ctx;
static ir_expr N, S, E, i, j, k, h, w, H, W;

static void setup(void)
{
    ctx = ir_ctx_new();
    N = ir_sym(ctx, "N");
    S = ir_sym_bounded(ctx, "S", 1, 100);
    E = ir_sym_bounded(ctx, "E", 1, 1000);
    H = ir_sym_bounded(ctx, "H", 1, 1000);
    W = ir_sym_bounded(ctx, "W", 1, 1000);
    i = ir_iter(ctx, "i", N);
    j = ir_iter(ctx, "j", ir_const(ctx, 8));
    k = ir_iter(ctx, "k", E);
    h = ir_iter(ctx, "h", H);
    w = ir_iter(ctx, "w", W);
}

static void teardown(void)
{
    ir_ctx_free(ctx);
}

static ir_expr c(int64_t v)
{
    return ir_const(ctx, v);
}
static ir_expr add(ir_expr a, ir_expr b)
{
    return ir_add(ctx, a, b);
}
static ir_expr mul(ir_expr a, ir_expr b)
{
    return ir_mul(ctx, a, b);
}
static ir_expr dv(ir_expr a, ir_expr b)
{
    return ir_floordiv(ctx, a, b);
}
static ir_expr md(ir_expr a, ir_expr b)
{
    return ir_mod(ctx, a, b);
}

#define SAME(a, b)                                                                             \
    do {                                                                                       \
        ir_expr a_ = (a), b_ = (b);                                                            \
        ck_assert_msg(a_ == b_, "%s is not %s", ir_expr_text(ctx, a_), ir_expr_text(ctx, b_)); \
    } while (0)
#define TEXT(e, text) ck_assert_str_eq(ir_expr_text(ctx, (e)), (text))

START_TEST(sums)
{
    SAME(add(N, S), add(S, N));
    SAME(ir_sub(ctx, add(N, S), S), N);
    SAME(mul(add(N, c(1)), add(S, c(2))), add(add(mul(S, N), mul(c(2), N)), add(S, c(2))));
    TEXT(add(mul(N, c(8)), c(3)), "N * 8 + 3");
    TEXT(ir_sub(ctx, c(3), mul(N, c(8))), "N * -8 + 3");
    TEXT(ir_sub(ctx, S, add(N, c(3))), "N * -1 + S - 3");
    SAME(ir_sub(ctx, mul(N, N), mul(N, N)), c(0));
}
END_TEST

START_TEST(division)
{
    SAME(dv(add(mul(i, c(8)), j), c(8)), i);
    SAME(md(add(mul(i, c(8)), j), c(8)), j);
    SAME(dv(add(mul(i, c(8)), j), c(4)), add(mul(i, c(2)), dv(j, c(4))));
    SAME(dv(add(mul(i, c(8)), j), c(16)), dv(i, c(2)));
    SAME(md(add(mul(i, c(8)), j), c(16)), add(mul(md(i, c(2)), c(8)), j));
    SAME(dv(dv(N, c(4)), c(8)), dv(N, c(32)));
    SAME(md(md(N, c(32)), c(8)), md(N, c(8)));
    SAME(dv(ir_sub(ctx, add(N, c(24)), md(N, c(8))), c(8)), add(dv(N, c(8)), c(3)));
    SAME(dv(ir_sub(ctx, N, md(N, S)), S), dv(N, S));
    /* Rows that are padded to whole blocks lie in the blocks. */
    ir_expr row = ir_iter(ctx, "row", add(ir_sub(ctx, N, md(N, c(8))), c(16)));
    SAME(ir_least(ctx, ir_sub(ctx, add(mul(dv(N, c(8)), c(8)), c(15)), row)), c(0));
    SAME(dv(md(N, c(32)), c(8)), md(dv(N, c(8)), c(4)));
    SAME(add(mul(dv(N, c(8)), c(8)), md(N, c(8))), N);
    SAME(add(mul(dv(i, c(32)), c(32)), add(mul(md(dv(i, c(4)), c(8)), c(4)), md(i, c(4)))), i);
    SAME(dv(j, c(8)), c(0));
    SAME(md(j, c(8)), j);
    SAME(dv(c(-7), c(2)), c(-4));
    SAME(md(c(-7), c(2)), c(1));
    SAME(md(mul(N, c(12)), c(4)), c(0));
    SAME(ir_ceildiv(ctx, mul(N, c(8)), c(8)), N);
    SAME(ir_ceildiv(ctx, c(9), c(8)), c(2));
}
END_TEST

START_TEST(symbolic_division)
{
    SAME(dv(add(mul(i, E), k), E), i);
    SAME(md(add(mul(i, E), k), E), k);
    ir_expr flat = add(mul(add(mul(i, H), h), W), w), hw = mul(H, W);
    SAME(dv(flat, hw), i);
    SAME(md(flat, hw), add(mul(h, W), w));
    SAME(dv(md(flat, hw), W), h);
    SAME(md(flat, W), w);
    SAME(dv(flat, W), add(mul(i, H), h));
    SAME(dv(mul(N, E), E), N);
    ir_expr s1 = add(S, c(1)), t = ir_iter(ctx, "t", s1);
    SAME(dv(add(mul(i, s1), t), s1), i);
    SAME(md(add(mul(i, s1), t), s1), t);
    SAME(dv(mul(mul(N, S), c(64)), mul(S, c(16))), mul(N, c(4)));
}
END_TEST

START_TEST(bounds)
{
    ck_assert_int_eq(ir_expr_le(ctx, c(0), N), IR_YES);
    ck_assert_int_eq(ir_expr_le(ctx, add(i, c(1)), N), IR_YES);
    ck_assert_int_eq(ir_expr_le(ctx, N, i), IR_NO);
    ck_assert_int_eq(ir_expr_le(ctx, N, S), IR_MAYBE);
    ck_assert_int_eq(ir_expr_le(ctx, N, mul(N, S)), IR_YES);
    ck_assert_int_eq(ir_expr_eq(ctx, N, add(N, c(1))), IR_NO);
    ck_assert_int_eq(ir_expr_eq(ctx, N, S), IR_MAYBE);
    ck_assert_int_eq(ir_expr_eq(ctx, j, ir_sym_bounded(ctx, "touching", 7, 9)), IR_MAYBE); /* j < 8 */
    ck_assert_int_eq(ir_expr_eq(ctx, j, ir_sym_bounded(ctx, "behind", 8, 9)), IR_NO);
    SAME(ir_min(ctx, N, add(N, c(3))), N);
    SAME(ir_max(ctx, N, add(N, c(3))), add(N, c(3)));
    SAME(ir_min(ctx, c(8), j), j);
    SAME(ir_max(ctx, N, S), ir_max(ctx, S, N));
    /* a floordiv (a floordiv 8), where that is no 0 */
    ir_expr a = ir_max(ctx, N, c(8)), parts = dv(a, dv(a, c(8)));
    ck_assert_int_eq(parts->lo, 8);
    ck_assert_int_eq(parts->hi, 15);
}
END_TEST

START_TEST(substitution)
{
    ir_expr e = dv(add(mul(N, c(3)), S), c(4));
    SAME(ir_subst(ctx, e, 2, (ir_expr[]){N, S}, (ir_expr[]){c(5), c(2)}), c(4));
    ir_expr coefficient, rest;
    ck_assert(ir_linear_in(ctx, add(mul(i, add(S, c(2))), j), i, &coefficient, &rest));
    SAME(coefficient, add(S, c(2)));
    SAME(rest, j);
    ck_assert(!ir_linear_in(ctx, dv(i, c(2)), i, &coefficient, &rest));
    ck_assert(!ir_linear_in(ctx, mul(i, i), i, &coefficient, &rest));
}
END_TEST

START_TEST(overflow)
{
    ir_expr big = c(INT64_MAX), e = mul(big, c(4));
    int64_t v;
    ck_assert(!ir_is_const(e, NULL));
    ck_assert(!ir_eval(e, NULL, NULL, &v));
    ck_assert(!ir_eval(add(big, big), NULL, NULL, &v));
    ck_assert(ir_eval_data(add(big, big), NULL, NULL, &v));
    ck_assert_int_eq(v, -2);
    ir_eval(ir_floordiv(ctx, N, c(0)), NULL, NULL, &v);
    e = N;
    for (int n = 0; n < 40; n++)
        e = add(mul(e, add(e, c(n + 1))), S);
    ck_assert_ptr_nonnull(e);
}
END_TEST

/* Random trees, built canonically and evaluated plainly, must agree at random points. */
static int64_t values[10];
static ir_expr *const symbols[] = {&N, &S, &E, &i, &j, &k, &h, &w, &H, &W};
static uint64_t seed = 1;

static unsigned rnd(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 40) % n;
}

struct tree {
    int op, a, b;
    int64_t v;
};
static struct tree trees[200];

static ir_expr build(int t)
{
    struct tree *n = &trees[t];
    switch (n->op) {
    case 0: return *symbols[n->a];
    case 1: return c(n->v);
    case 2: return add(build(n->a), build(n->b));
    case 3: return mul(build(n->a), c(n->v));
    case 4: return dv(build(n->a), c(n->v));
    case 5: return md(build(n->a), c(n->v));
    case 6: return ir_sub(ctx, build(n->a), build(n->b));
    case 7: return ir_min(ctx, build(n->a), build(n->b));
    case 8: return ir_max(ctx, build(n->a), build(n->b));
    case 9: return dv(build(n->a), *symbols[n->b]);
    case 10: return md(build(n->a), *symbols[n->b]);
    default: return mul(build(n->a), *symbols[n->b]);
    }
}

static __int128 plain(int t)
{
    struct tree *n = &trees[t];
    __int128 a = n->op > 1 ? plain(n->a) : 0, b = n->op == 2 || (n->op >= 6 && n->op <= 8) ? plain(n->b) : n->v;
    if (n->op >= 9)
        b = values[n->b];
    __int128 m = n->op == 4 || n->op == 5 || n->op == 9 || n->op == 10 ? ((a % b) + b) % b : 0;
    switch (n->op) {
    case 0: return values[n->a];
    case 1: return n->v;
    case 2: return a + b;
    case 4:
    case 9: return (a - m) / b;
    case 5:
    case 10: return m;
    case 6: return a - b;
    case 7: return a < b ? a : b;
    case 8: return a > b ? a : b;
    default: return a * b;
    }
}

static int grow(int *n, int depth)
{
    int t = (*n)++;
    static const int divisors[] = {2, 4, 8, 16, 3, 6, 12, 32};
    static const int positive[] = {1, 2, 8, 9};
    trees[t].op = depth == 0 ? (int)rnd(4) == 0 : 2 + (int)rnd(10);
    trees[t].v = trees[t].op == 4 || trees[t].op == 5 ? divisors[rnd(8)] : (int)rnd(20) - 4;
    if (trees[t].op == 0)
        trees[t].a = (int)rnd(10);
    if (trees[t].op > 1)
        trees[t].a = grow(n, depth - 1);
    if (trees[t].op == 2 || (trees[t].op >= 6 && trees[t].op <= 8))
        trees[t].b = grow(n, depth - 1);
    if (trees[t].op >= 9)
        trees[t].b = positive[rnd(4)];
    return t;
}

static bool value_of(void *user, ir_expr sym, int64_t *out)
{
    (void)user;
    for (int s = 0; s < 10; s++) {
        if (*symbols[s] == sym) {
            *out = values[s];
            return true;
        }
    }
    return false;
}

START_TEST(random_trees)
{
    for (int round = 0; round < 4000; round++) {
        int n = 0, root = grow(&n, 1 + (int)rnd(5));
        ir_expr e = build(root);
        for (int point = 0; point < 8; point++) {
            int64_t dims[] = {1 + rnd(50), 1 + rnd(100), 1 + rnd(20), 0, rnd(8), 0, 0, 0, 1 + rnd(9), 1 + rnd(9)};
            for (int s = 0; s < 10; s++)
                values[s] = dims[s];
            values[3] = rnd((unsigned)values[0]);
            values[5] = rnd((unsigned)values[2]);
            values[6] = rnd((unsigned)values[8]);
            values[7] = rnd((unsigned)values[9]);
            int64_t got;
            ck_assert(ir_eval(e, value_of, NULL, &got));
            ck_assert_msg(got == (int64_t)plain(root), "round %d: %s", round, ir_expr_text(ctx, e));
            ck_assert_msg(got >= e->lo && got <= e->hi, "round %d: %s out of bounds", round, ir_expr_text(ctx, e));
        }
        if (round % 200 == 199) { /* memory: the context keeps all expressions */
            teardown();
            setup();
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("expr");
    TCase *t = tcase_create("expr");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, sums);
    tcase_add_test(t, division);
    tcase_add_test(t, symbolic_division);
    tcase_add_test(t, bounds);
    tcase_add_test(t, substitution);
    tcase_add_test(t, overflow);
    tcase_add_test(t, random_trees);
    suite_add_tcase(s, t);
    return run_tests(s);
}
