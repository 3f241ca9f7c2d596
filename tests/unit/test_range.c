/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of the emitter (compiler/emit/range.h) against the points that they stand for: of numbers every operation's
 * result is a number, too. */
#include <check.h>

#include "compiler/emit/emit.h"
#include "tests/unit/suite.h"

enum { LEAST = -2, MOST = 6 };

static struct em em;
static LLVMContextRef context;

static void setup(void)
{
    ck_assert_ptr_null(llvm_load());
    context = LLVMContextCreate();
    em = (struct em){.b = LLVMCreateBuilderInContext(context), .t_i64 = LLVMInt64TypeInContext(context)};
}

static void teardown(void)
{
    LLVMDisposeBuilder(em.b);
    LLVMContextDispose(context);
}

static LLVMValueRef number(int64_t v)
{
    return LLVMConstInt(em.t_i64, (uint64_t)v, true);
}

static int64_t value(LLVMValueRef v)
{
    int64_t n = 0;
    ck_assert(em_known(v, &n));
    return n;
}

static struct em_range range(int64_t lo, int64_t hi)
{
    return em_range(&em, number(lo), number(hi));
}

/* lo <= hi, and the points are those of [from, to). */
static void is(struct em_range r, int64_t from, int64_t to)
{
    int64_t lo = value(r.lo), hi = value(r.hi);
    ck_assert_msg(lo <= hi && value(em_length(&em, r)) == hi - lo, "[%d, %d) is none", (int)lo, (int)hi);
    if (from < to)
        ck_assert_msg(lo == from && hi == to, "[%d, %d), expected [%d, %d)", (int)lo, (int)hi, (int)from, (int)to);
    else
        ck_assert_msg(lo == hi, "[%d, %d), expected nothing", (int)lo, (int)hi);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* All pairs of ends, in order or not. */
#define EACH_PAIR(lo, hi)                      \
    for (int64_t lo = LEAST; lo <= MOST; lo++) \
        for (int64_t hi = LEAST; hi <= MOST; hi++)

START_TEST(made)
{
    EACH_PAIR(lo, hi)
    {
        is(range(lo, hi), lo, hi);
        ck_assert(value(range(lo, hi).lo) == lo && value(range(lo, hi).end) == hi);
    }
}
END_TEST

START_TEST(cut)
{
    EACH_PAIR(a, b)
    EACH_PAIR(c, d)
    {
        struct em_range r = range(a, b), x = em_cut(&em, r, range(c, d));
        is(x, most(a, c), least(b, d));
        ck_assert(value(x.lo) >= value(r.lo) && value(x.hi) <= value(r.hi));
    }
}
END_TEST

static void peel(int64_t lo, int64_t hi, int64_t first, int64_t last)
{
    struct em_edges x = em_peel(&em, range(lo, hi), number(first), number(last));
    int64_t n = most(hi - lo, 0), before = least(most(first, 0), n), behind = least(most(last, 0), n - before);
    is(x.first, lo, lo + before);
    is(x.inner, lo + before, lo + n - behind);
    is(x.last, lo + n - behind, lo + n);
    ck_assert(value(x.first.hi) == value(x.inner.lo) && value(x.inner.hi) == value(x.last.lo));
    for (int64_t c = lo; c <= lo + n; c++)
        for (int64_t d = c; d <= lo + n; d++) {
            struct em_edges y = em_edges_cut(&em, x, range(c, d));
            is(y.first, c, least(d, lo + before));
            is(y.inner, most(c, lo + before), least(d, lo + n - behind));
            is(y.last, most(c, lo + n - behind), d);
        }
}

START_TEST(peeled)
{
    for (int64_t lo = -1; lo <= 1; lo += 2)
        for (int64_t n = -1; n <= 4; n++)
            for (int64_t first = -1; first <= 5; first++)
                for (int64_t last = -1; last <= 5; last++)
                    peel(lo, lo + n, first, last);
}
END_TEST

START_TEST(tiled)
{
    EACH_PAIR(lo, hi)
    for (int64_t width = 1; width <= 5; width++) {
        struct em_range r = range(lo, hi);
        struct em_parts x = em_tiles(&em, r, width);
        int64_t n = most(hi - lo, 0), whole = n / width * width;
        is(x.whole, lo, lo + whole);
        is(x.rest, lo + whole, lo + n);
        for (int64_t i = 0; i * width < n; i++)
            is(em_tile(&em, r, number(i), number(width)), lo + i * width, least(lo + (i + 1) * width, hi));
        for (int64_t at = lo; at < hi; at++)
            is(em_first(&em, r, number(at), number(width)), at, least(at + width, hi));
        is(em_scale(&em, r, number(width)), lo * width, (lo + n) * width);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("range");
    TCase *t = tcase_create("range");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, made);
    tcase_add_test(t, cut);
    tcase_add_test(t, peeled);
    tcase_add_test(t, tiled);
    suite_add_tcase(suite, t);
    return run_tests(suite);
}
