/* SPDX-License-Identifier: Apache-2.0 */
/* The reference interpreter on graphs made through the builder: each op family against figures worked out by hand. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp_int.h"
#include "ir/ir.h"
#include "ir/interp/words_int.h"
#include "tests/unit/suite.h"
#include "tools/values/values_int.h"

/* No library ops: this program tests the others, and needs none of the runtime's table. */
const struct tcc_libop tccrt_libops[] = {{NULL, NULL, NULL}};
const int tccrt_nlibops = 0;

static struct ir_ctx *ctx;
static struct ir_module *module;
static struct ir_func *func;
static struct ir_builder b;
static struct ir_interp_state *state;

static void setup(void)
{
    ctx = ir_ctx_new();
    module = ir_module_new(ctx, "test");
    func = ir_func_new(module, "main");
    b = (struct ir_builder){.ctx = ctx, .func = func, .block = func->body};
    state = NULL;
}

static void teardown(void)
{
    ir_interp_state_free(state);
    ir_ctx_free(ctx);
}

static struct ir_value *f32s(int rank, const int64_t *dims, const float *v)
{
    struct ir_tensor *t = ir_tensor_new(TCC_F32, rank, dims);
    memcpy((void *)t->data, v, (size_t)t->bytes);
    return ir_constant(&b, t);
}

static struct ir_value *i64s(int rank, const int64_t *dims, const int64_t *v)
{
    struct ir_tensor *t = ir_tensor_new(TCC_I64, rank, dims);
    memcpy((void *)t->data, v, (size_t)t->bytes);
    return ir_constant(&b, t);
}
#define DIMS(...)                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) \
    {                                                        \
        __VA_ARGS__                                          \
    }
#define F32(dims, ...) f32s(dims, (const float[]){__VA_ARGS__})
#define I64(dims, ...) i64s(dims, (const int64_t[]){__VA_ARGS__})
#define VALUES(...)       \
    (struct ir_value *[]) \
    {                     \
        __VA_ARGS__       \
    }

static void finish(int n, struct ir_value *const *results)
{
    static const char *names[] = {"o0", "o1", "o2", "o3"};
    ir_build(&b, IR_return, n, results, NULL);
    func->output_names = names;
}

/* Runs the function; fails the test unless the status is `status`. */
static void run_status(int status, struct tcc_object *const *in, struct tcc_object **out)
{
    char error[300];
    int got = ir_interp(func, state, in, out, error, sizeof error);
    ck_assert_msg(got == status, "status %d, expected %d: %s", got, status, error);
}

static struct tcc_object *run1(struct ir_value *v)
{
    struct tcc_object *out = NULL;
    ck_assert_ptr_nonnull(v);
    finish(1, &v);
    run_status(TCC_OK, NULL, &out);
    return out;
}

static void expect_f32(struct ir_value *v, int n, const float *expected)
{
    struct tcc_object *o = run1(v);
    int64_t count = 1;
    for (int i = 0; i < o->t.rank; i++)
        count *= o->t.dims[i];
    ck_assert_int_eq(count, n);
    for (int i = 0; i < n; i++) {
        float got = ((float *)o->t.data)[i];
        ck_assert_msg(float_excess(got, expected[i], 0, 1e-5) == 0, "element %d: %g, expected %g", i, (double)got,
                      (double)expected[i]);
    }
    tccrt_object_unref(o);
}

static void expect_i64(struct ir_value *v, int n, const int64_t *expected)
{
    struct tcc_object *o = run1(v);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(((int64_t *)o->t.data)[i], expected[i]);
    tccrt_object_unref(o);
}
#define EXPECT_F32(v, ...) expect_f32(v, (int)(sizeof((float[]){__VA_ARGS__}) / 4), (float[]){__VA_ARGS__})
#define EXPECT_I64(v, ...) expect_i64(v, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

START_TEST(map_broadcasts)
{
    struct ir_value *x = F32(DIMS(2, 3), 1, -2, 3, -4, 5, -6), *y = F32(DIMS(2, 1), 10, 20);
    EXPECT_F32(ir_unary(&b, IR_relu, ir_binary(&b, IR_add, x, y)), 11, 8, 13, 16, 25, 14);
}
END_TEST

START_TEST(map_edges)
{
    float inf = INFINITY, nan = NAN;
    struct ir_value *x = F32(DIMS(5), nan, inf, -inf, -0.0f, 2.5f), *y = F32(DIMS(5), 1, -1, nan, 0, 2);
    EXPECT_F32(ir_binary(&b, IR_max, x, y), nan, inf, nan, 0, 2.5f);
}
END_TEST

START_TEST(map_integers)
{
    struct ir_value *x = I64(DIMS(6), 7, -7, 7, -7, INT64_MIN, 5), *y = I64(DIMS(6), 3, 3, -3, -3, -1, 0);
    EXPECT_I64(ir_binary(&b, IR_mod, x, y), 1, 2, -2, -1, 0, 0);
}
END_TEST

START_TEST(map_division)
{
    struct ir_value *x = I64(DIMS(4), 7, -7, INT64_MIN, 5), *y = I64(DIMS(4), 2, 2, -1, 0);
    EXPECT_I64(ir_binary(&b, IR_div, x, y), 3, -3, INT64_MIN, 0);
}
END_TEST

START_TEST(map_body)
{
    struct ir_value *x = F32(DIMS(3), 0, 1, -1000);
    EXPECT_F32(ir_unary(&b, IR_silu, x), 0, 0.731058579f, 0);
}
END_TEST

START_TEST(map_narrow)
{
    /* i8: 100 + 100 wraps; the cast back keeps the sign. */
    struct ir_value *x = ir_cast_to(&b, I64(DIMS(2), 100, -100), TCC_I8);
    EXPECT_I64(ir_cast_to(&b, ir_binary(&b, IR_add, x, x), TCC_I64), -56, 56);
}
END_TEST

START_TEST(moves)
{
    struct ir_value *x = F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    struct ir_value *t = ir_transpose_by(&b, x, (const int64_t[]){1, 0});
    ir_expr starts[2] = {ir_const(ctx, 2), ir_const(ctx, 0)}, sizes[2] = {ir_const(ctx, 2), ir_const(ctx, 2)};
    ir_expr steps[2] = {ir_const(ctx, -2), ir_const(ctx, 1)};
    struct ir_value *s =
        ir_build1(&b, IR_slice, 1, &t,
                  IR_ATTRS(ir_attr_exprs(IR_ATTR_starts, 2, starts), ir_attr_exprs(IR_ATTR_sizes, 2, sizes),
                           ir_attr_exprs(IR_ATTR_steps, 2, steps)));
    ir_expr one[2] = {ir_const(ctx, 1), ir_const(ctx, 1)}, none[2] = {ir_const(ctx, 0), ir_const(ctx, 0)};
    struct ir_value *p = ir_build1(&b, IR_pad, 1, &s,
                                   IR_ATTRS(ir_attr_exprs(IR_ATTR_before, 2, none),
                                            ir_attr_exprs(IR_ATTR_after, 2, one), ir_attr_s(IR_ATTR_mode, "reflect")));
    EXPECT_F32(p, 3, 6, 3, 1, 4, 1, 3, 6, 3);
}
END_TEST

START_TEST(gathers)
{
    struct ir_value *x = F32(DIMS(3, 2), 1, 2, 3, 4, 5, 6), *i = I64(DIMS(2), -1, 0);
    struct ir_value *g = ir_build1(&b, IR_gather, 2, VALUES(x, i), IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0)));
    EXPECT_F32(g, 5, 6, 1, 2);
}
END_TEST

START_TEST(gather_outside)
{
    struct ir_value *x = F32(DIMS(3), 1, 2, 3), *i = I64(DIMS(1), 3);
    struct ir_value *g = ir_build1(&b, IR_gather, 2, VALUES(x, i), IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0)));
    struct tcc_object *out;
    finish(1, &g);
    run_status(TCC_EINDEX, NULL, &out);
}
END_TEST

START_TEST(scatters)
{
    struct ir_value *x = F32(DIMS(4), 1, 2, 3, 4), *i = I64(DIMS(3, 1), 1, 1, -1), *u = F32(DIMS(3), 10, 20, 30);
    struct ir_value *s = ir_build1(&b, IR_scatter_nd, 3, VALUES(x, i, u), IR_ATTRS(ir_attr_s(IR_ATTR_mode, "add")));
    EXPECT_F32(s, 1, 32, 3, 34);
}
END_TEST

START_TEST(reductions)
{
    struct ir_value *x = F32(DIMS(2, 2, 2), 1, 2, 3, 4, 5, 6, 7, NAN);
    struct ir_value *m =
        ir_build1(&b, IR_reduce_max, 1, &x, IR_ATTRS(ir_attr_ints(IR_ATTR_axes, 2, (const int64_t[]){0, 2})));
    EXPECT_F32(m, 6, NAN);
}
END_TEST

START_TEST(argmax_last)
{
    struct ir_value *x = F32(DIMS(2, 3), 3, 1, 3, 0, NAN, 9);
    EXPECT_I64(ir_build1(&b, IR_argmax, 1, &x, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 1), ir_attr_i(IR_ATTR_last, 1))), 2, 1);
}
END_TEST

START_TEST(running_sum)
{
    struct ir_value *x = F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    struct ir_value *s =
        ir_build1(&b, IR_cumsum, 1, &x,
                  IR_ATTRS(ir_attr_i(IR_ATTR_axis, 1), ir_attr_i(IR_ATTR_exclusive, 1), ir_attr_i(IR_ATTR_reverse, 1)));
    EXPECT_F32(s, 5, 3, 0, 11, 6, 0);
}
END_TEST

START_TEST(products)
{
    struct ir_value *x = F32(DIMS(2, 1, 3), 1, 2, 3, 4, 5, 6), *y = F32(DIMS(2, 3), 1, 0, 1, 2, 2, 2);
    EXPECT_F32(ir_build1(&b, IR_matmul, 2, VALUES(x, y), IR_ATTRS(ir_attr_i(IR_ATTR_trans_b, 1))), 4, 12, 10, 30);
}
END_TEST

START_TEST(product_sizes)
{
    /* Edges of the loop's blocks: every size around 1, 2, 8 and 256 against a plain sum. */
    static const int64_t ks[] = {1, 2, 255, 257, 600}, ns[] = {1, 7, 8, 9, 17}, ms[] = {1, 2, 3};
    double *x = malloc(600 * 3 * 8), *y = malloc(600 * 17 * 8), z[51];
    for (size_t q = 0; q < 75; q++) {
        int64_t k = ks[q % 5], n = ns[q / 5 % 5], m = ms[q / 25];
        for (int64_t i = 0; i < m * k; i++)
            x[i] = (double)(i % 7) - 3;
        for (int64_t i = 0; i < k * n; i++)
            y[i] = (double)(i % 5) - 2;
        memset(z, 0, sizeof z);
        it_gemm_f64(m, n, k, x, y, z);
        for (int64_t i = 0; i < m * n; i++) {
            double s = 0;
            for (int64_t p = 0; p < k; p++)
                s += x[i / n * k + p] * y[p * n + i % n];
            ck_assert(s == z[i]);
        }
    }
    free(x);
    free(y);
}
END_TEST

START_TEST(convolution)
{
    struct ir_value *x = F32(DIMS(1, 2, 1, 4), 1, 2, 3, 4, 5, 6, 7, 8), *w = F32(DIMS(2, 1, 1, 2), 1, 1, 1, -1),
                    *bias = F32(DIMS(2), 0, 100);
    ir_expr before[2] = {ir_const(ctx, 0), ir_const(ctx, 1)};
    struct ir_value *y = ir_build1(&b, IR_conv, 3, VALUES(x, w, bias),
                                   IR_ATTRS(ir_attr_i(IR_ATTR_groups, 2), ir_attr_exprs(IR_ATTR_before, 2, before),
                                            ir_attr_ints(IR_ATTR_strides, 2, (const int64_t[]){1, 2})));
    EXPECT_F32(y, 1, 5, 95, 99);
}
END_TEST

START_TEST(transposed_convolution)
{
    struct ir_value *x = F32(DIMS(1, 1, 2), 1, 2), *w = F32(DIMS(1, 2, 3), 1, 2, 3, 1, 1, 1);
    ir_expr shape = ir_const(ctx, 4), before = ir_const(ctx, 1);
    struct ir_value *y =
        ir_build1(&b, IR_conv_transpose, 2, VALUES(x, w),
                  IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, 1, &shape), ir_attr_exprs(IR_ATTR_before, 1, &before),
                           ir_attr_ints(IR_ATTR_strides, 1, (const int64_t[]){2})));
    /* full: 1 2 3+2 4 6 | 1 1 1+2 2 2; one dropped in front, four kept */
    EXPECT_F32(y, 2, 5, 4, 6, 1, 3, 2, 2);
}
END_TEST

START_TEST(pools)
{
    struct ir_value *x = F32(DIMS(1, 1, 4), 1, 5, 5, 2);
    ir_expr one = ir_const(ctx, 1);
    struct ir_attr kernel = ir_attr_ints(IR_ATTR_kernel, 1, (const int64_t[]){3}),
                   before = ir_attr_exprs(IR_ATTR_before, 1, &one);
    struct ir_value *m = ir_build1(&b, IR_max_pool_index, 1, &x, IR_ATTRS(kernel, before));
    struct ir_value *a = ir_build1(&b, IR_avg_pool, 1, &x, IR_ATTRS(kernel, before));
    struct tcc_object *out[2];
    finish(2, VALUES(m, a));
    run_status(TCC_OK, NULL, out);
    const int64_t index[] = {1, 1, 1};
    ck_assert(!memcmp(out[0]->t.data, index, sizeof index));
    ck_assert(((float *)out[1]->t.data)[0] == 3 && fabsf(((float *)out[1]->t.data)[1] - 11.0f / 3) < 1e-6f);
    tccrt_object_unref(out[0]);
    tccrt_object_unref(out[1]);
}
END_TEST

START_TEST(sorting)
{
    struct ir_value *x = F32(DIMS(5), 1, NAN, 3, 3, 2);
    ir_expr k = ir_const(ctx, 4);
    struct ir_node *n = ir_build(&b, IR_topk, 1, &x,
                                 IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_e(IR_ATTR_k, k),
                                          ir_attr_i(IR_ATTR_largest, 1), ir_attr_i(IR_ATTR_sorted, 1)));
    EXPECT_I64(n->out[1], 1, 2, 3, 4);
}
END_TEST

START_TEST(attends)
{
    /* One head, causal: the first query sees one key only. */
    struct ir_value *q = F32(DIMS(1, 1, 2, 1), 0, 0), *v = F32(DIMS(1, 1, 2, 1), 3, 5);
    EXPECT_F32(ir_build1(&b, IR_attention, 3, VALUES(q, q, v),
                         IR_ATTRS(ir_attr_f(IR_ATTR_scale, 1), ir_attr_i(IR_ATTR_causal, 1))),
               3, 4);
}
END_TEST

START_TEST(philox)
{
    /* Known answers of the authors' Random123 distribution. */
    uint32_t out[4], ones[4] = {~0u, ~0u, ~0u, ~0u}, zeros[4] = {0};
    ir_philox_block(0, zeros, out);
    ck_assert(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d && out[2] == 0xbc57ac4c && out[3] == 0x9b00dbd8);
    ir_philox_block(~0ull, ones, out);
    ck_assert(out[0] == 0x408f276d && out[1] == 0x41c83b0e && out[2] == 0xa20bc7c6 && out[3] == 0x6d5451fd);
}
END_TEST

static struct tcc_object *f32_object(int64_t n, const float *v)
{
    struct tcc_object *o = tccrt_object_tensor(TCC_F32, 1, &n);
    memcpy(o->t.data, v, (size_t)n * sizeof *v);
    return o;
}

START_TEST(symbols_from_inputs)
{
    ir_expr n = ir_sym(ctx, "N"), twice = ir_mulc(ctx, n, 2);
    struct ir_value *x = ir_input_new(func, ir_tensor_type(ctx, TCC_F32, 1, &twice), "x");
    struct ir_value *y = ir_input_new(func, ir_tensor_type(ctx, TCC_F32, 1, &n), "y");
    ir_expr shape[2] = {ir_const(ctx, 2), n};
    struct ir_value *r = ir_binary(&b, IR_add, ir_reshape_to(&b, x, 2, shape), y);
    struct tcc_object *in[2] = {f32_object(4, (float[]){1, 2, 3, 4}), f32_object(2, (float[]){10, 20})}, *out;
    finish(1, &r);
    run_status(TCC_OK, in, &out);
    ck_assert(out->t.rank == 2 && out->t.dims[1] == 2 && ((float *)out->t.data)[3] == 24);
    tccrt_object_unref(out);
    tccrt_object_unref(in[1]);
    in[1] = f32_object(3, (float[]){1, 2, 3});
    run_status(TCC_EINPUT, in, &out);
    tccrt_object_unref(in[0]);
    tccrt_object_unref(in[1]);
}
END_TEST

/* for i in 0..3: x = x + i, collecting x */
START_TEST(loops)
{
    ir_type scalar = ir_scalar_type(ctx, TCC_I64), yes = ir_scalar_type(ctx, TCC_BOOL);
    ir_expr trips = ir_fresh(ctx, "trips", 0, 100);
    ir_type types[2] = {scalar, ir_tensor_type(ctx, TCC_I64, 1, &trips)};
    struct ir_value *count = ir_constant_i(&b, TCC_I64, 3), *go = ir_constant_i(&b, TCC_BOOL, 1),
                    *x = ir_constant_i(&b, TCC_I64, 5);
    struct ir_node *loop =
        ir_build_typed(&b, IR_loop, 3, VALUES(count, go, x),
                       IR_ATTRS(ir_attr_i(IR_ATTR_nscan, 1), ir_attr_types(IR_ATTR_types, 2, types)), 2, types);
    struct ir_builder in = b;
    in.block = ir_region_new(func, loop);
    struct ir_value *i = ir_param_new(in.block, scalar, "i"), *c = ir_param_new(in.block, yes, "c"),
                    *y = ir_param_new(in.block, scalar, "y");
    struct ir_value *z = ir_binary(&in, IR_add, y, i);
    ir_build(&in, IR_yield, 3, VALUES(c, z, z), NULL);
    struct tcc_object *out[2];
    finish(2, loop->out);
    for (int again = 0; again < 2; again++) {
        run_status(TCC_OK, NULL, out);
        const int64_t seen[] = {5, 6, 8};
        ck_assert(*(int64_t *)out[0]->t.data == 8 && out[1]->t.dims[0] == 3 &&
                  !memcmp(out[1]->t.data, seen, sizeof seen));
        tccrt_object_unref(out[0]);
        tccrt_object_unref(out[1]);
    }
}
END_TEST

START_TEST(states)
{
    float two = 2;
    struct ir_tensor *init = ir_tensor_splat(TCC_F32, 0, NULL, &two);
    struct ir_state *s = ir_state_new(module, "w", ir_scalar_type(ctx, TCC_F32), init, IR_STATE_PARAM);
    struct ir_value *w = ir_read_state(&b, s);
    struct ir_value *next = ir_unary(&b, IR_square, w);
    ck_assert(ir_write_state(&b, s, next));
    finish(1, &w);
    state = ir_interp_state_new(module);
    struct tcc_object *out;
    for (float expected = 2; expected < 1000; expected *= expected) {
        run_status(TCC_OK, NULL, &out);
        ck_assert(*(float *)out->t.data == expected);
        tccrt_object_unref(out);
    }
}
END_TEST

START_TEST(folds)
{
    struct ir_value *x = F32(DIMS(2), 1, 2), *p = ir_input_new(func, x->type, "p");
    struct ir_value *y = ir_binary(&b, IR_mul, x, x), *z = ir_binary(&b, IR_mul, x, p);
    struct ir_tensor *out = NULL;
    ck_assert(ir_interp_node(y->def, &out));
    ck_assert(((const float *)out->data)[1] == 4);
    ir_tensor_unref(out);
    ck_assert(!ir_interp_node(z->def, &out));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("interp");
    TCase *c = tcase_create("interp");
    tcase_add_checked_fixture(c, setup, teardown);
    const TTest *const tests[] = {map_broadcasts,
                                  map_edges,
                                  map_integers,
                                  map_division,
                                  map_body,
                                  map_narrow,
                                  moves,
                                  gathers,
                                  gather_outside,
                                  scatters,
                                  reductions,
                                  argmax_last,
                                  running_sum,
                                  products,
                                  product_sizes,
                                  convolution,
                                  transposed_convolution,
                                  pools,
                                  sorting,
                                  attends,
                                  philox,
                                  symbols_from_inputs,
                                  loops,
                                  states,
                                  folds};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(c, tests[i]);
    suite_add_tcase(s, c);
    return run_tests(s);
}
