/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rule of every rewriting pass, by itself: on each text of tests/passes that it changes, random operands give
 * the same results in the interpreter before and after, the same bits where the rule needs no licence. The rules are
 * those of the tables that the passes themselves hand in, so that a new one without a text fails.
 */
#include <check.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/rewrite_int.h"
#include "runtime/abi.h"
#include "tests/unit/suite.h"
#include "tools/values/values_int.h"

enum { MAX_RULES = 400, MAX_VALUES = 64, SEEDS = 3, ENOUGH = 12 };
#define MOST_ELEMENTS 50000 /* of a text's values together */

struct row {
    const struct rewrite_rule *rule;
    const char *pass, *table;
    bool did;     /* in the run just made */
    int compared; /* runs before and after */
};

static struct row rows[MAX_RULES];
static int nrows;
static const char *pass;       /* that runs */
static const struct row *only; /* NULL: all rules may */

static struct row *row_of(const struct rewrite_table *t, const struct rewrite_rule *rule)
{
    for (int i = 0; i < nrows; i++)
        if (rows[i].rule == rule)
            return &rows[i];
    ck_assert_int_lt(nrows, MAX_RULES);
    rows[nrows] = (struct row){rule, pass, t->name, false, 0};
    return &rows[nrows++];
}

static bool may(void *user, const struct rewrite_table *t, const struct rewrite_rule *rule)
{
    const struct row *row = row_of(t, rule);
    (void)user;
    return !only || row == only;
}

static void did(void *user, const struct rewrite_table *t, const struct rewrite_rule *rule)
{
    (void)user;
    row_of(t, rule)->did = true;
}

static const struct rewrite_watch watch = {may, did, NULL};

static const char *of_op(const struct row *r)
{
    return r->rule->op == IR_OP_NONE ? "any op" : ir_op_info(r->rule->op)->name;
}

/* -- Random operands */

static uint64_t state;

static double draw(void) /* in [0, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

/* A few sizes, each symbol its own. */
static bool size_of(void *user, ir_expr sym, int64_t *out)
{
    int64_t v = 2 + (int64_t)(sym->id % 4);
    (void)user;
    *out = v < sym->lo ? sym->lo : v > sym->hi ? sym->hi : v;
    return true;
}

static double element(enum tcc_dtype d, int seed)
{
    static const double odd[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0.5};
    double x = draw();
    if (d == TCC_BOOL)
        return x < 0.5;
    if (!tcc_is_float(d)) /* that may be an index */
        return seed ? floor(x * (tcc_is_signed(d) ? 5 : 3)) - (tcc_is_signed(d) ? 2 : 0) : 0;
    return seed == 2 && x < 0.4 ? odd[(int)(x * 20)] : 4 * x - 2;
}

static struct tcc_object *operand(const struct ir_value *v, int seed)
{
    int64_t dims[TCC_MAX_RANK];
    if (v->type->kind != IR_T_TENSOR)
        return NULL;
    for (int i = 0; i < v->type->rank; i++)
        if (!ir_eval(v->type->dim[i], size_of, NULL, &dims[i]) || dims[i] < 0 || dims[i] > 4096)
            return NULL;
    enum tcc_dtype d = (enum tcc_dtype)v->type->dtype;
    struct tcc_object *o = tccrt_object_tensor((int)d, v->type->rank, dims);
    for (int64_t i = 0; o && i < tcc_elements(v->type->rank, dims); i++)
        tcc_store_f64(d, (char *)o->t.data + i * tcc_dtype_bytes(d), element(d, seed));
    return o;
}

/* -- Runs */

/* Of the text's first function; their number, -1: it can't be run on these. */
static int run(struct ir_module *m, int seed, struct tcc_object **out)
{
    struct ir_func *f = m->funcs;
    struct tcc_object *in[MAX_VALUES] = {NULL};
    int n = f->body->nparams, results = f->body->last->nin;
    char error[300];
    if (n > MAX_VALUES || results > MAX_VALUES)
        return -1;
    state = (uint64_t)seed * 977 + 5;
    for (int i = 0; i < n; i++)
        if (!(in[i] = operand(f->body->params[i], seed)))
            results = -1;
    struct ir_interp_state *s = ir_interp_state_new(m);
    memset(out, 0, MAX_VALUES * sizeof *out);
    if (results >= 0 && ir_interp(f, s, in, out, error, sizeof error) != TCC_OK)
        results = -1;
    ir_interp_state_free(s);
    for (int i = 0; i < n; i++)
        tccrt_object_unref(in[i]);
    return results;
}

static void let_go(struct tcc_object **o)
{
    for (int i = 0; i < MAX_VALUES; i++)
        tccrt_object_unref(o[i]);
}

/* Elements of all values; too many where they are not known. */
static double elements(const struct ir_block *b)
{
    double all = 0;
    IR_EACH_NODE(n, b) {
        for (int i = 0; i < n->nout; i++) {
            double here = 1;
            ir_type t = n->out[i]->type;
            for (int k = 0; t->kind == IR_T_TENSOR && k < t->rank; k++) {
                int64_t dim;
                here *= ir_eval(t->dim[k], size_of, NULL, &dim) ? (double)dim : 1;
            }
            all += here * (n->op == IR_matmul || n->op == IR_conv || n->op == IR_conv_transpose ? 30 : 1);
        }
        for (int i = 0; i < n->nregions; i++)
            all += 10 * elements(n->regions[i]);
    }
    return all;
}

struct text {
    const char *path;
    char *data;
    size_t size;
};

/* The module after the pass (NULL: as it is), under a licence; NULL: the text isn't for it. */
static struct ir_module *after(struct ir_ctx *ctx, const struct text *t, const char *by, bool exact)
{
    struct pass_options o = {.level = exact ? 0 : 2,
                             .exact = exact,
                             .fast_math = !exact,
                             .verify = true,
                             .change_limit = -1,
                             .rules = &watch};
    struct ir_module *m = ir_parse(ctx, t->path, t->data, t->size);
    for (int i = 0; i < nrows; i++)
        rows[i].did = false;
    if (!m || !m->funcs || m->program || m->staged || elements(m->funcs->body) > MOST_ELEMENTS)
        return NULL;
    pass = by;
    return !by || pass_list(m, by, &o) ? m : NULL;
}

/* Bytes that are rounded from floats may be the next ones with a licence. */
static void compare(const struct text *t, const struct row *r, const struct tcc_object *a, const struct tcc_object *b,
                    bool exact)
{
    if (a->kind != TCC_OBJ_TENSOR)
        return;
    enum tcc_dtype d = (enum tcc_dtype)a->t.dtype;
    ck_assert_int_eq(a->t.rank, b->t.rank);
    for (int64_t i = 0; i < tcc_elements(a->t.rank, a->t.dims); i++) {
        double x = tcc_load_f64(d, (char *)a->t.data + i * tcc_dtype_bytes(d)),
               y = tcc_load_f64(d, (char *)b->t.data + i * tcc_dtype_bytes(d));
        bool same = x == y ? !exact || !signbit(x) == !signbit(y) : x != x && y != y;
        if (!exact && !same)
            same = tcc_is_float(d) ? fabs(x - y) <= 2e-5 * (fabs(x) + 1) : fabs(x - y) <= 1;
        ck_assert_msg(same, "%s: %s %s of %s: %.9g becomes %.9g", t->path, r->pass, r->rule->name, of_op(r), x, y);
    }
}

/* One rule alone. What byte a NaN becomes nobody says, and infinities have no bounds. */
static void try_rule(const struct text *t, struct row *r, bool exact)
{
    struct ir_ctx *before = ir_ctx_new(), *ctx = ir_ctx_new();
    struct ir_module *plain = after(before, t, NULL, exact);
    only = r;
    struct ir_module *m = plain ? after(ctx, t, r->pass, exact) : NULL;
    only = NULL;
    bool fired = m && r->did;
    for (int seed = 0; fired && seed < (exact && strcmp(r->pass, "quantise") ? SEEDS : SEEDS - 1); seed++) {
        struct tcc_object *a[MAX_VALUES], *b[MAX_VALUES];
        int n = run(plain, seed, a);
        if (n >= 0) {
            ck_assert_msg(run(m, seed, b) == n, "%s: %s %s: it no longer runs", t->path, r->pass, r->rule->name);
            for (int i = 0; i < n; i++)
                compare(t, r, a[i], b[i], exact);
            r->compared++;
            let_go(b);
        }
        let_go(a);
    }
    ir_ctx_free(before);
    ir_ctx_free(ctx);
}

static void try_text(const struct text *t)
{
    int n;
    const struct pass *table = pass_table(&n);
    for (int exact = 1; exact >= 0; exact--) {
        for (int k = 0; k < n; k++) {
            bool some[MAX_RULES] = {false};
            struct ir_ctx *ctx = ir_ctx_new();
            bool has_rules = false;
            for (int i = 0; i < nrows; i++)
                has_rules |= !strcmp(rows[i].pass, table[k].name);
            /* the passes' help says which keep every bit without a licence */
            if (exact && !strstr(table[k].help, "(exact"))
                has_rules = false;
            if (has_rules && after(ctx, t, table[k].name, exact))
                for (int i = 0; i < nrows; i++)
                    some[i] = rows[i].did;
            ir_ctx_free(ctx);
            for (int i = 0; i < nrows; i++)
                if (some[i] && rows[i].compared < ENOUGH)
                    try_rule(t, &rows[i], exact);
        }
    }
}

static bool read_text(const char *path, struct text *t)
{
    FILE *f = fopen(path, "rb");
    *t = (struct text){path, NULL, 0};
    if (f && getdelim(&t->data, &(size_t){0}, EOF, f) > 0)
        t->size = strlen(t->data);
    if (f)
        fclose(f);
    return t->size > 0;
}

/* The passes that have rules: all are run on a function of one node. */
static void find_rules(void)
{
    static const char text[] = "func @main(%x: f32[4]) -> (f32[4]) {\n  %a = exp(%x)\n  return(%a)\n}\n";
    int n;
    const struct pass *table = pass_table(&n);
    for (int k = 0; k < n; k++) {
        struct ir_ctx *ctx = ir_ctx_new();
        if (table[k].level == 1)
            after(ctx, &(struct text){"one", (char *)(uintptr_t)text, strlen(text)}, table[k].name, false);
        ir_ctx_free(ctx);
    }
}

START_TEST(rules_mean_the_same)
{
    char pattern[4096];
    const char *top = getenv("top_srcdir");
    glob_t files;
    int missing = 0;
    find_rules();
    ck_assert_int_gt(nrows, 80);
    snprintf(pattern, sizeof pattern, "%s/tests/passes/*/*.tcir", top ? top : "..");
    ck_assert_int_eq(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct text t;
        if (read_text(files.gl_pathv[i], &t))
            try_text(&t);
        free(t.data);
    }
    globfree(&files);
    for (int i = 0; i < nrows; i++) {
        missing += !rows[i].compared;
        if (!rows[i].compared)
            fprintf(stderr, "%s: no text of tests/passes shows the rule %s of %s\n", rows[i].pass, rows[i].rule->name,
                    of_op(&rows[i]));
    }
    ck_assert_int_eq(missing, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rules");
    TCase *c = tcase_create("rules");
    tcase_set_timeout(c, 0);
    tcase_add_test(c, rules_mean_the_same);
    suite_add_tcase(s, c);
    return run_tests(s);
}
