/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs of accesses (ir/kernel_bounds.c) and of facts (ir/fact.c) against all points: random kernels of one load, by
 * affine, floordiv, mod, min and max expressions, with guards and indices from data. Where an access is proved, it is
 * inside its operand at every point of every size; what it requires of the sizes is enough, and not more than enough:
 * where it fails, some point is outside. TCCC_TEST_FULL: many more.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "tests/unit/suite.h"

enum { MOST_VARS = 3, NSIZES = 3, LARGEST = 5 };

/* What is made up: a kernel of `nvars` dims (and one index from data), and one load. */
struct recipe {
    struct ir_ctx *ctx;
    uint64_t state;
    struct kn_kernel k;
    struct kn_dim dims[MOST_VARS];
    struct kn_operand operands[2];
    struct kn_insn insns[3];
    struct kn_stage stages[1];
    ir_expr sizes[NSIZES];
    ir_expr index[2];
    struct kn_guard guards[3];
    ir_expr var[MOST_VARS + 1], extent[MOST_VARS + 1]; /* of the dims, and of the index */
    int nvars;
    bool indexed;
    /* A point. */
    int64_t size[NSIZES], at[MOST_VARS + 1];
};

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int pick(struct recipe *r, int n)
{
    return (int)((next_random(&r->state) >> 8) % (uint64_t)n);
}

static ir_expr number(struct recipe *r, int64_t v)
{
    return ir_const(r->ctx, v);
}

static const char *const names[NSIZES] = {"N", "M", "K"};

/* -- Expressions --------------------------------------------------------------------------------------------------- */

static ir_expr some_size(struct recipe *r)
{
    ir_expr n = pick(r, 3) ? r->sizes[pick(r, NSIZES)] : number(r, pick(r, 5));
    switch (pick(r, 8)) {
    case 0: return ir_add(r->ctx, n, r->sizes[pick(r, NSIZES)]);
    case 1: return ir_mul(r->ctx, n, r->sizes[pick(r, NSIZES)]);
    case 2: return ir_ceildiv(r->ctx, n, number(r, 2 + pick(r, 2)));
    case 3: return ir_min(r->ctx, n, r->sizes[pick(r, NSIZES)]);
    default: return ir_addc(r->ctx, n, pick(r, 3));
    }
}

static ir_expr some_var(struct recipe *r)
{
    return r->var[pick(r, r->nvars + r->indexed)];
}

/* Any expression of variables and sizes. */
static ir_expr tree(struct recipe *r, int depth)
{
    struct ir_ctx *ctx = r->ctx;
    if (depth == 0)
        return pick(r, 3) ? some_var(r) : pick(r, 2) ? r->sizes[pick(r, NSIZES)] : number(r, pick(r, 6) - 2);
    ir_expr a = tree(r, depth - 1), b = tree(r, depth - 1);
    switch (pick(r, 7)) {
    case 0: return ir_add(ctx, a, b);
    case 1: return ir_sub(ctx, a, b);
    case 2: return ir_mul(ctx, a, pick(r, 2) ? number(r, 1 + pick(r, 4)) : r->sizes[pick(r, NSIZES)]);
    case 3:
        return ir_floordiv(ctx, a, pick(r, 2) ? number(r, 2 + pick(r, 3)) : ir_addc(ctx, r->sizes[pick(r, NSIZES)], 1));
    case 4: return ir_mod(ctx, a, pick(r, 2) ? number(r, 2 + pick(r, 3)) : ir_addc(ctx, r->sizes[pick(r, NSIZES)], 1));
    case 5: return ir_min(ctx, a, b);
    default: return ir_max(ctx, a, b);
    }
}

/* An index and the dim for it, of a form that kernels have. */
static void shape_of(struct recipe *r, ir_expr *index, ir_expr *dim)
{
    struct ir_ctx *ctx = r->ctx;
    int i = pick(r, r->nvars + r->indexed), j = pick(r, r->nvars), c = 1 + pick(r, 3);
    ir_expr v = r->var[i], n = r->extent[i], w = r->var[j], m = r->extent[j], k = some_size(r), reach;
    switch (pick(r, 11)) {
    case 0:
        *index = ir_add(ctx, v, k);
        *dim = ir_add(ctx, n, k);
        break;
    case 1:
        *index = ir_sub(ctx, ir_addc(ctx, n, -1), v);
        *dim = n;
        break;
    case 2:
        *index = ir_floordiv(ctx, ir_addc(ctx, v, c - 1), number(r, c));
        *dim = ir_ceildiv(ctx, n, number(r, c));
        break;
    case 3:
        *index = ir_add(ctx, ir_mul(ctx, v, m), w);
        *dim = ir_mul(ctx, n, m);
        break;
    case 4:
        *index = ir_floordiv(ctx, v, ir_max(ctx, k, number(r, 1)));
        *dim = n;
        break;
    case 5:
        *index = ir_mod(ctx, v, ir_max(ctx, k, number(r, 1)));
        *dim = k;
        break;
    case 6:
        *index = ir_max(ctx, ir_min(ctx, ir_addc(ctx, v, -c), ir_addc(ctx, k, -1)), number(r, 0));
        *dim = k;
        break;
    case 7: /* reflection */
        reach = ir_max(ctx, ir_mulc(ctx, ir_addc(ctx, k, -1), 2), number(r, 1));
        v = ir_mod(ctx, v, reach);
        *index = ir_min(ctx, v, ir_sub(ctx, reach, v));
        *dim = k;
        break;
    case 8:
        *index = ir_add(ctx, ir_mulc(ctx, v, c), w);
        *dim = ir_add(ctx, ir_mulc(ctx, ir_addc(ctx, n, -1), c), m);
        break;
    case 9:
        *index = ir_add(ctx, ir_mul(ctx, k, v), w);
        *dim = some_size(r);
        break;
    default: *index = tree(r, 2); *dim = some_size(r);
    }
    if (pick(r, 4) == 0)
        *index = ir_addc(ctx, *index, pick(r, 5) - 2);
    if (pick(r, 4) == 0)
        *dim = ir_addc(ctx, *dim, pick(r, 3) - 1);
    if (pick(r, 8) == 0)
        *dim = some_size(r);
}

static struct kn_guard some_guard(struct recipe *r, int rank)
{
    struct ir_ctx *ctx = r->ctx;
    int which = pick(r, 4);
    ir_expr e = which < 2 ? r->index[pick(r, rank)] : which == 2 ? some_var(r) : tree(r, 1);
    ir_expr lo = pick(r, 2) ? number(r, 0) : pick(r, 2) ? number(r, pick(r, 4)) : some_size(r);
    ir_expr hi = pick(r, 2) ? r->operands[0].dims[pick(r, rank)] : ir_add(ctx, lo, some_size(r));
    return (struct kn_guard){e, lo, hi};
}

static void make(struct recipe *r)
{
    struct kn_kernel *k = &r->k;
    memset(k, 0, sizeof *k);
    *k = (struct kn_kernel){.name = "random",
                            .dims = r->dims,
                            .operands = r->operands,
                            .insns = r->insns,
                            .stages = r->stages,
                            .nsizes = NSIZES,
                            .sizes = r->sizes,
                            .noperands = 1,
                            .nstages = 1,
                            .ninsns = 1};
    for (int i = 0; i < NSIZES; i++)
        r->sizes[i] = ir_sym(r->ctx, names[i]);
    r->nvars = 1 + pick(r, MOST_VARS);
    k->ndims = r->nvars;
    for (int i = 0; i < r->nvars; i++) {
        r->extent[i] = some_size(r);
        r->var[i] = ir_iter(r->ctx, "i", r->extent[i]);
        r->dims[i] = (struct kn_dim){r->var[i], r->extent[i], KN_OUTER};
    }
    r->indexed = pick(r, 6) == 0;
    int at = 0;
    if (r->indexed) {
        r->extent[r->nvars] = some_size(r);
        r->var[r->nvars] = ir_fresh(r->ctx, "g", 0, INT64_C(1) << 40);
        r->insns[at++] = (struct kn_insn){.code = KN_CONST, .dtype = TCC_I64};
        r->insns[at++] = (struct kn_insn){
            .code = KN_INDEX, .dtype = TCC_I64, .nargs = 1, .expr = r->var[r->nvars], .bound = r->extent[r->nvars]};
    }
    int rank = 1 + (pick(r, 4) == 0), nguards = pick(r, 3) ? 0 : 1 + pick(r, 2);
    r->operands[0] = (struct kn_operand){.use = KN_IN, .dtype = TCC_F32, .rank = rank, .name = "x"};
    for (int i = 0; i < rank; i++)
        shape_of(r, &r->index[i], &r->operands[0].dims[i]);
    for (int g = 0; g < nguards; g++)
        r->guards[g] = some_guard(r, rank);
    r->insns[at++] = (struct kn_insn){
        .code = KN_LOAD, .dtype = TCC_F32, .nindex = rank, .index = r->index, .nguards = nguards, .guards = r->guards};
    k->ninsns = at;
    r->stages[0] = (struct kn_stage){0, 0, 0, at};
}

/* -- All points ---------------------------------------------------------------------------------------------------- */

static bool value_of(void *user, ir_expr sym, int64_t *out)
{
    const struct recipe *r = user;
    for (int i = 0; i < NSIZES; i++)
        if (r->sizes[i] == sym) {
            *out = r->size[i];
            return true;
        }
    for (int i = 0; i < r->nvars + r->indexed; i++)
        if (r->var[i] == sym) {
            *out = r->at[i];
            return true;
        }
    return false;
}

static bool value(struct recipe *r, ir_expr e, int64_t *out)
{
    return ir_eval(e, value_of, r, out);
}

struct seen {
    int64_t points, outside;
};

static void look(struct recipe *r, const struct kn_insn *n, struct seen *s)
{
    int64_t e, lo, hi, dim;
    for (int g = 0; g < n->nguards; g++)
        if (!value(r, n->guards[g].e, &e) || !value(r, n->guards[g].lo, &lo) || !value(r, n->guards[g].hi, &hi) ||
            e < lo || e >= hi)
            return;
    bool outside = false;
    for (int i = 0; i < n->nindex; i++) {
        if (!value(r, n->index[i], &e) || !value(r, r->operands[0].dims[i], &dim))
            return;
        outside |= e < 0 || e >= dim;
    }
    s->points++;
    s->outside += outside;
}

static void walk(struct recipe *r, const struct kn_insn *n, int d, struct seen *s)
{
    int64_t extent;
    if (d == r->nvars + r->indexed || (d == r->nvars && !kn_insn_uses(n, r->var[d]))) {
        look(r, n, s);
        return;
    }
    if (!value(r, r->extent[d], &extent))
        return;
    for (r->at[d] = 0; r->at[d] < extent; r->at[d]++)
        walk(r, n, d + 1, s);
}

static bool required(struct recipe *r)
{
    int64_t a, b, points;
    for (int i = 0; i < r->k.nrequired; i++) {
        const struct kn_requirement *q = &r->k.required[i];
        ck_assert(value(r, q->a, &a) && value(r, q->b, &b) && value(r, q->points, &points));
        if (a * points > b * points)
            return false;
    }
    return true;
}

static bool next_sizes(struct recipe *r)
{
    static const int64_t of[LARGEST] = {0, 1, 2, 3, 7};
    for (int i = 0; i < NSIZES; i++) {
        int at = 0;
        while (of[at] != r->size[i])
            at++;
        r->size[i] = of[(at + 1) % LARGEST];
        if (at + 1 < LARGEST)
            return true;
    }
    return false;
}

static void say(struct recipe *r, uint64_t seed, const char *what)
{
    fprintf(stderr, "seed %llu: %s, with N = %lld, M = %lld, K = %lld\n", (unsigned long long)seed, what,
            (long long)r->size[0], (long long)r->size[1], (long long)r->size[2]);
    kn_print_kernel(stderr, &r->k);
}

static int count[4];

static bool fine(struct recipe *r, uint64_t seed)
{
    make(r);
    struct kn_insn *n = &r->insns[r->k.ninsns - 1];
    ck_assert(kn_require(r->ctx, &r->k));
    count[n->answer]++;
    memset(r->size, 0, sizeof r->size);
    do {
        struct seen s = {0};
        walk(r, n, 0, &s);
        bool holds = required(r);
        if (holds == !s.outside)
            continue;
        say(r, seed, holds ? "an access is outside" : "refused, and no access is outside");
        return false;
    } while (next_sizes(r));
    return true;
}

static int tries(int n)
{
    return getenv("TCCC_TEST_FULL") ? 50 * n : n;
}

START_TEST(accesses)
{
    int n = tries(2000), wrong = 0;
    struct recipe r = {0};
    for (int i = 0; i < n; i++) {
        uint64_t seed = r.state = (uint64_t)i;
        r.ctx = ir_ctx_new();
        wrong += !fine(&r, seed);
        ir_ctx_free(r.ctx);
    }
    ck_assert_msg(!wrong, "%d of %d are wrong", wrong, n);
    ck_assert_int_ge(count[KN_PROVED], n / 3); /* else the test says nothing of proofs, */
    ck_assert_int_ge(count[KN_CHECKED], n / 10);
    ck_assert_int_ge(count[KN_GUARDED], n / 10);
}
END_TEST

/* -- Facts --------------------------------------------------------------------------------------------------------- */

enum { MOST_KNOWN = 4 };

static struct ir_fact some_fact(struct recipe *r)
{
    ir_expr a = some_size(r), b = some_size(r);
    if (pick(r, 3) == 0)
        a = ir_sub(r->ctx, a, some_size(r));
    if (pick(r, 3) == 0)
        b = ir_max(r->ctx, b, some_size(r));
    return (struct ir_fact){pick(r, 2) ? IR_EQ : IR_LE, a, b, NULL};
}

static bool related(struct recipe *r, const struct ir_fact *f)
{
    int64_t a, b;
    ck_assert(value(r, f->a, &a) && value(r, f->b, &b));
    return f->relation == IR_EQ ? a == b : a <= b;
}

static bool is_so(struct recipe *r, const struct ir_fact *f, int nknown, const struct ir_fact *known, enum ir_tri said)
{
    memset(r->size, 0, sizeof r->size);
    do {
        bool all = true;
        for (int i = 0; i < nknown; i++)
            all &= related(r, &known[i]);
        if (all && related(r, f) != (said == IR_YES))
            return false;
    } while (next_sizes(r));
    return true;
}

START_TEST(facts)
{
    int n = tries(20000), decided = 0, wrong = 0;
    struct recipe r = {0};
    for (int i = 0; i < n; i++) {
        struct ir_fact known[MOST_KNOWN], f;
        r.state = (uint64_t)i;
        r.ctx = ir_ctx_new();
        for (int s = 0; s < NSIZES; s++)
            r.sizes[s] = ir_sym(r.ctx, names[s]);
        int nknown = pick(&r, MOST_KNOWN + 1);
        for (int k = 0; k < nknown; k++)
            known[k] = some_fact(&r);
        f = some_fact(&r);
        enum ir_tri said = ir_fact_holds(r.ctx, &f, nknown, known);
        decided += said != IR_MAYBE;
        if (said != IR_MAYBE && !is_so(&r, &f, nknown, known, said)) {
            fprintf(stderr, "seed %d: %s %s %s is said to %s, with N = %lld, M = %lld, K = %lld\n", i,
                    ir_expr_text(r.ctx, f.a), f.relation == IR_EQ ? "=" : "<=", ir_expr_text(r.ctx, f.b),
                    said == IR_YES ? "hold" : "be wrong", (long long)r.size[0], (long long)r.size[1],
                    (long long)r.size[2]);
            wrong++;
        }
        ir_ctx_free(r.ctx);
    }
    ck_assert_msg(!wrong, "%d of %d are wrong", wrong, n);
    ck_assert_int_ge(decided, n / 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proofs");
    TCase *t = tcase_create("proofs");
    tcase_set_timeout(t, 600);
    tcase_add_test(t, accesses);
    tcase_add_test(t, facts);
    suite_add_tcase(suite, t);
    return run_tests(suite);
}
