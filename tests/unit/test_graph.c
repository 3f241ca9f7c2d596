/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: building, use lists, cloning, the verifier's findings, running out of memory. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "tests/unit/suite.h"

static struct ir_ctx *ctx;
static struct ir_module *m;
static struct ir_func *f;
static struct ir_builder b;
static struct ir_value *x, *y;

static void setup(void)
{
    ctx = ir_ctx_new();
    m = ir_module_new(ctx, "test.onnx");
    f = ir_func_new(m, "main");
    ir_type t = ir_tensor_type(ctx, TCC_F32, 2, (ir_expr[]){ir_sym(ctx, "N"), ir_const(ctx, 4)});
    x = ir_input_new(f, t, "x");
    y = ir_input_new(f, t, "y");
    b = (struct ir_builder){.ctx = ctx, .func = f, .block = f->body};
}

static void teardown(void)
{
    ir_ctx_free(ctx);
}

static int count_uses(const struct ir_value *v)
{
    int n = 0;
    for (const struct ir_use *u = v->uses; u; u = u->next)
        n++;
    return n;
}

START_TEST(building)
{
    struct ir_value *s = ir_binary(&b, IR_add, x, y), *e = ir_unary(&b, IR_exp, s), *p = ir_binary(&b, IR_mul, e, s);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(count_uses(s), 2);
    ck_assert(ir_has_one_use(e));
    ir_return(&b, 1, &p, (const char *[]){"out"});
    ck_assert(ir_verify(m));
    ir_replace_uses(s, x);
    ck_assert(!ir_has_uses(s));
    ck_assert_int_eq(count_uses(x), 3);
    ir_remove(s->def);
    ck_assert(ir_verify(m));
    ir_add_operand(f->body->last, y);
    ck_assert_int_eq(f->body->last->nin, 2);
    ck_assert(ir_verify(m));
    ck_assert_int_eq(ir_nerrors(ctx), 0);
}
END_TEST

START_TEST(refusals)
{
    ir_type t = ir_tensor_type_i(ctx, TCC_F32, 1, (int64_t[]){3});
    struct ir_value *z = ir_input_new(f, t, "z");
    ck_assert_ptr_null(ir_binary(&b, IR_add, x, z));
    ck_assert_int_eq(ir_nerrors(ctx), 1);
    ck_assert_ptr_null(ir_unary(&b, IR_exp, NULL)); /* calls nest: no second message */
    ck_assert_int_eq(ir_nerrors(ctx), 1);
    ck_assert_ptr_null(f->body->first);
    ck_assert_ptr_null(ir_cast_to(&b, x, TCC_NONE));
    ck_assert_int_eq(ir_nerrors(ctx), 2);
    ck_assert(!ir_has_uses(x) && !ir_has_uses(z));
}
END_TEST

START_TEST(constants)
{
    double v;
    struct ir_value *c = ir_constant_f(&b, TCC_F32, 0.5);
    ck_assert_int_eq(ir_const_of(c)->refs, 1); /* the node's */
    ck_assert(ir_splat_f(c, &v) && v == 0.5);
    ck_assert(!ir_splat_f(x, &v));
    struct ir_tensor *kept = ir_tensor_ref(ir_const_of(c));
    ir_remove(c->def);
    ck_assert_int_eq(kept->refs, 1);
    ir_tensor_unref(kept);
    ck_assert_ptr_eq(ir_cast_to(&b, x, TCC_F32), x);
}
END_TEST

START_TEST(cloning)
{
    struct ir_value *cond = ir_input_new(f, ir_scalar_type(ctx, TCC_BOOL), "c");
    struct ir_node *n = ir_build(&b, IR_if, 1, &cond, IR_ATTRS(ir_attr_types(IR_ATTR_types, 1, &x->type)));
    struct ir_builder in = b;
    for (int r = 0; r < 2; r++) {
        in.block = ir_region_new(f, n);
        struct ir_value *e = ir_unary(&in, r ? IR_exp : IR_relu, x);
        ir_build(&in, IR_yield, 1, &e, NULL);
    }
    ir_return(&b, 1, &n->out[0], NULL);
    ck_assert(ir_verify(m));
    /* A branch's nodes, and the whole `if` again, before the return. */
    struct ir_value **map = calloc(f->nvalues, sizeof *map), *result;
    struct ir_builder at = b;
    at.before = f->body->last;
    ir_clone_block(&at, n->regions[1], map, &result);
    ck_assert_int_eq(result->def->op, IR_exp);
    ck_assert_ptr_eq(result->def->in[0].value, x);
    free(map);
    map = calloc(f->nvalues, sizeof *map);
    ir_clone_block(&at, f->body, map, &result);
    free(map);
    ck_assert_int_eq(result->def->op, IR_if);
    ck_assert_int_eq(result->def->nregions, 2);
    ck_assert(ir_verify(m));
    ir_set_operand(f->body->last, 0, result);
    ck_assert(ir_verify(m));
}
END_TEST

/* Breaks a sound module and expects the verifier to say so. */
static void expect_bug(const char *text)
{
    int before = ir_nmessages(ctx);
    ck_assert(!ir_verify(m));
    ck_assert_int_gt(ir_nmessages(ctx), before);
    ck_assert_int_eq(ir_message(ctx, before)->severity, IR_BUG);
    ck_assert_msg(strstr(ir_message(ctx, before)->text, text) != NULL, "%s", ir_message(ctx, before)->text);
}

START_TEST(verifier)
{
    struct ir_value *s = ir_binary(&b, IR_add, x, y), *e = ir_unary(&b, IR_exp, s);
    ir_return(&b, 1, &e, NULL);
    ck_assert(ir_verify(m));
    ir_type good = e->type;
    e->type = ir_scalar_type(ctx, TCC_F32);
    expect_bug("inference finds f32[N,4]");
    e->type = good;
    ir_move_before(s->def, f->body->last);
    expect_bug("is not defined before it");
    ir_move_before(s->def, e->def);
    ck_assert(ir_verify(m));
    struct ir_use *uses = s->uses;
    s->uses = NULL;
    expect_bug("use list");
    s->uses = uses;
    e->id = s->id;
    expect_bug("used twice");
    e->id = f->nvalues - 1;
    ck_assert(ir_verify(m));
    ir_set_attr(s->def, ir_attr_i(IR_ATTR_axis, 1));
    expect_bug("no attribute axis");
}
END_TEST

START_TEST(symbols)
{
    ir_expr k = ir_sym(ctx, "K");
    struct ir_value *i = ir_build1(
        &b, IR_iota, 0, NULL,
        IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, 1, &k), ir_attr_i(IR_ATTR_axis, 0), ir_attr_dtype(IR_ATTR_to, TCC_F32)));
    ir_return(&b, 1, &i, NULL);
    expect_bug("symbol 'K' is not defined");
}
END_TEST

START_TEST(no_memory)
{
    struct ir_protect frame;
    volatile int jumps = 0;
    if (IR_PROTECT(ctx, &frame)) {
        ir_alloc(ctx, SIZE_MAX / 2);
        ck_abort_msg("there can't be so much memory");
    } else {
        jumps++;
    }
    ck_assert_int_eq(jumps, 1);
    ck_assert_ptr_nonnull(ir_alloc(ctx, 10));
}
END_TEST

START_TEST(layouts)
{
    ir_type t = ir_tensor_type_i(ctx, TCC_F32, 4, (int64_t[]){2, 5, 3, 3});
    kn_layout l = kn_layout_blocked(ctx, 4, 1, 4);
    ir_expr dims[TCC_MAX_RANK];
    ck_assert_int_eq(kn_physical_dims(ctx, t, l, dims), 5);
    ck_assert(ir_is_value(dims[1], 2) && ir_is_value(dims[4], 4));
    ck_assert_ptr_eq(kn_layout_blocked(ctx, 4, 1, 4), l);
    ck_assert_ptr_null(kn_layout_make(ctx, 2, 2, (struct kn_axis[]){{0, 1, 0}, {1, 1, 0}}));
    struct ir_tensor *from = ir_tensor_new(TCC_F32, 4, (int64_t[]){2, 5, 3, 3});
    for (int n = 0; n < 90; n++)
        ((float *)from->data)[n] = (float)(n + 1);
    struct ir_tensor *to = kn_relayout(from, l);
    ck_assert_int_eq(to->nelems, 2 * 2 * 9 * 4);
    for (int n = 0; n < 2; n++) {
        for (int c = 0; c < 8; c++) {
            for (int s = 0; s < 9; s++) {
                float want = c < 5 ? ((const float *)from->data)[(n * 5 + c) * 9 + s] : 0;
                ck_assert(((const float *)to->data)[((n * 2 + c / 4) * 9 + s) * 4 + c % 4] == want);
            }
        }
    }
    ir_tensor_unref(to);
    ir_tensor_unref(from);
}
END_TEST

/* The element that the layout's definition says lies at each place; padding is 0. */
static void check_relayout(const struct ir_tensor *from, kn_layout l)
{
    struct ir_tensor *to = kn_relayout(from, l);
    size_t size = (size_t)tcc_dtype_bytes(from->dtype);
    char *want = calloc((size_t)to->nelems, size);
    for (int64_t n = 0; n < from->nelems; n++) {
        int64_t index[TCC_MAX_RANK], rest = n, at = 0;
        for (int i = from->rank - 1; i >= 0; rest /= from->dims[i--])
            index[i] = rest % from->dims[i];
        for (int p = 0; p < l->naxes; p++) {
            int64_t q = index[l->at[p].axis] / l->at[p].div;
            at = at * to->dims[p] + (l->at[p].mod ? q % l->at[p].mod : q);
        }
        memcpy(want + (size_t)at * size, (const char *)from->data + (from->splat ? 0 : (size_t)n * size), size);
    }
    bool same = true;
    for (int64_t n = 0; n < to->nelems && same; n++)
        same = !memcmp((const char *)to->data + (to->splat ? 0 : (size_t)n * size), want + (size_t)n * size, size);
    ck_assert(same);
    free(want);
    ir_tensor_unref(to);
}

/* Axes cut in up to three pieces, in any order. */
static kn_layout random_layout(unsigned *seed, int rank)
{
    struct kn_axis axes[TCC_MAX_RANK];
    int n = 0;
    for (int i = 0; i < rank; i++) {
        int inner = 1 << rand_r(seed) % 5, middle = 1 << rand_r(seed) % 2;
        axes[n++] = (struct kn_axis){(int16_t)i, inner * middle, 0};
        if (middle > 1)
            axes[n++] = (struct kn_axis){(int16_t)i, inner, middle};
        if (inner > 1)
            axes[n++] = (struct kn_axis){(int16_t)i, 1, inner};
    }
    for (int i = n - 1; i > 0; i--) {
        int j = rand_r(seed) % (i + 1);
        struct kn_axis a = axes[i];
        axes[i] = axes[j];
        axes[j] = a;
    }
    return n <= 8 ? kn_layout_make(ctx, rank, n, axes) : NULL;
}

START_TEST(relayouts)
{
    static const enum tcc_dtype dtypes[] = {TCC_F32, TCC_I8, TCC_BF16, TCC_F64};
    unsigned seed = 1;
    int taken = 0;
    for (int t = 0; t < 3000; t++) {
        int rank = 1 + rand_r(&seed) % 4;
        int64_t dims[4];
        for (int i = 0; i < rank; i++)
            dims[i] = 1 + (rand_r(&seed) % 3 ? rand_r(&seed) % 9 : rand_r(&seed) % 40);
        kn_layout l = random_layout(&seed, rank);
        if (!l)
            continue;
        struct ir_tensor *from = t % 7 ? ir_tensor_new(dtypes[t % 4], rank, dims)
                                       : ir_tensor_splat(dtypes[t % 4], rank, dims, "\1\2\3\4\5\6\7");
        for (size_t i = 0; t % 7 && i < (size_t)from->nelems * (size_t)tcc_dtype_bytes(from->dtype); i++)
            ((unsigned char *)from->data)[i] = (unsigned char)rand_r(&seed);
        check_relayout(from, l);
        ir_tensor_unref(from);
        taken++;
    }
    ck_assert_int_gt(taken, 1000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("graph");
    TCase *t = tcase_create("graph");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, building);
    tcase_add_test(t, refusals);
    tcase_add_test(t, constants);
    tcase_add_test(t, cloning);
    tcase_add_test(t, verifier);
    tcase_add_test(t, symbols);
    tcase_add_test(t, no_memory);
    tcase_add_test(t, layouts);
    tcase_add_test(t, relayouts);
    suite_add_tcase(s, t);
    return run_tests(s);
}
