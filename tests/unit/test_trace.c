/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lazy tracing: ops and training against the interpreter (eager mode), what is compiled when, the cache shared by processes, updates
 * in place, failures, closures, reports, random numbers, autocast and the scaler.
 */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/trace/trace_int.h"
#include "tools/values_int.h"

#define T struct trace_tensor
#define DIMS(...)                                                                \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                            \
        __VA_ARGS__                                                              \
    }
#define LIST(...) ((T *[]){__VA_ARGS__})

static struct trace_ctx *context_with(const char *mode, const struct trace_options *o)
{
    struct trace_ctx *c;
    setenv("TCCC_TRACE", mode, 1);
    ck_assert_int_eq(trace_new(o, &c), TCC_OK);
    return c;
}

static struct trace_ctx *context(const char *mode)
{
    return context_with(mode, &(struct trace_options){.threads = 2, .seed = 7, .cache_dir = ""});
}

#define OK(c, call) ck_assert_msg((call) == TCC_OK, "%s", trace_error(c))

static T *floats(struct trace_ctx *c, const float *v, int rank, const int64_t *dims)
{
    struct tcc_tensor t = {(void *)(uintptr_t)v, TCC_F32, rank, {0}};
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    return trace_from(c, &t);
}

static T *labels(struct trace_ctx *c, int n, int classes)
{
    int64_t v[64];
    for (int i = 0; i < n; i++)
        v[i] = (i * 7 + 3) % classes;
    return trace_from(c, &(struct tcc_tensor){v, TCC_I64, 1, {n}});
}

static double item(T *t)
{
    double v = NAN;
    ck_assert_ptr_nonnull(t);
    OK(t->c, trace_item(t, &v));
    return v;
}

/* -- Ops ----------------------------------------------------------------------------------------------------- */

#define MOST 128
struct outputs {
    int n;
    T *t[MOST];
    const char *what[MOST];
    double tolerance[MOST]; /* relative to the largest magnitude; 0: the same bits */
};

static void put(struct outputs *o, const char *what, double tolerance, T *t)
{
    ck_assert_msg(t != NULL, "%s gives nothing", what);
    ck_assert_int_lt(o->n, MOST);
    o->t[o->n] = trace_retain(t);
    o->what[o->n] = what;
    o->tolerance[o->n++] = tolerance;
}
#define EXACT(call) put(o, #call, 0, call)
#define CLOSE(call) put(o, #call, 1e-6, call)

static void elementwise(struct trace_ctx *c, struct outputs *o)
{
    T *x = trace_uniform(c, TCC_F32, DIMS(3, 5), -2, 2), *y = trace_uniform(c, TCC_F32, DIMS(5), 0.5, 1.5);
    T *b = trace_gt(x, y), *i = trace_cast(trace_mul_number(x, 10), TCC_I32), *k = trace_scalar(c, TCC_I32, 3);
    T *half = trace_scalar(c, TCC_F32, 0.5), *one = trace_scalar(c, TCC_F32, 1);
    EXACT(trace_add(x, y)), EXACT(trace_sub(x, y)), EXACT(trace_mul(x, y)), EXACT(trace_div(x, y));
    EXACT(trace_mod(x, y)), EXACT(trace_fmod(x, y)), CLOSE(trace_pow(y, x)), EXACT(trace_min(x, y)),
        EXACT(trace_max(x, y));
    EXACT(trace_and(i, k)), EXACT(trace_or(i, k)), EXACT(trace_xor(i, k)), EXACT(trace_shl(i, k)),
        EXACT(trace_shr(i, k));
    EXACT(trace_eq(i, k)), EXACT(trace_ne(i, k)), EXACT(trace_lt(x, y)), EXACT(trace_le(x, y)), EXACT(trace_ge(x, y));
    EXACT(trace_select(b, x, y)), CLOSE(trace_swish(x, half)), CLOSE(trace_elu(x, half)), CLOSE(trace_celu(x, half));
    EXACT(trace_leaky_relu(x, half)), EXACT(trace_thresholded_relu(x, half)), EXACT(trace_clip(x, half, one));
    CLOSE(trace_hardsigmoid(x, half, half)), CLOSE(trace_selu(x, half, one)), EXACT(trace_shrink(x, half, half));
    EXACT(trace_neg(x)), EXACT(trace_abs(x)), EXACT(trace_sign(x)), EXACT(trace_floor(x)), EXACT(trace_ceil(x));
    EXACT(trace_trunc(x)), EXACT(trace_round(x)), EXACT(trace_sqrt(y)), CLOSE(trace_rsqrt(y)), EXACT(trace_recip(y));
    EXACT(trace_square(x)), CLOSE(trace_exp(x)), CLOSE(trace_expm1(x)), CLOSE(trace_log(y)), CLOSE(trace_log1p(y));
    CLOSE(trace_sin(x)), CLOSE(trace_cos(x)), CLOSE(trace_tan(y)), CLOSE(trace_asin(trace_mul(x, half)));
    CLOSE(trace_acos(trace_mul(x, half))), CLOSE(trace_atan(x)), CLOSE(trace_sinh(x)), CLOSE(trace_cosh(x)),
        CLOSE(trace_tanh(x));
    CLOSE(trace_asinh(x)), CLOSE(trace_acosh(trace_add(y, one))), CLOSE(trace_atanh(trace_mul_number(x, 0.4)));
    CLOSE(trace_erf(x)), EXACT(trace_not(b)), EXACT(trace_isnan(trace_sqrt(x))),
        EXACT(trace_isinf(trace_div(x, trace_floor(y))));
    EXACT(trace_relu(x)), CLOSE(trace_sigmoid(x)), CLOSE(trace_silu(x)), CLOSE(trace_softplus(x)),
        CLOSE(trace_softsign(x));
    CLOSE(trace_gelu(x)), CLOSE(trace_gelu_tanh(x)), CLOSE(trace_hardswish(x)), CLOSE(trace_mish(x));
    EXACT(trace_add_number(x, 0.1)), EXACT(trace_cast(x, TCC_BF16)), EXACT(trace_cast(trace_cast(x, TCC_F16), TCC_F64));
    EXACT(trace_dither(x, trace_floor(trace_mul_number(y, 1000))));
}

static void structural(struct trace_ctx *c, struct outputs *o)
{
    T *x = trace_normal(c, TCC_F32, DIMS(2, 4, 9, 9), 0, 1), *w = trace_normal(c, TCC_F32, DIMS(6, 2, 3, 3), 0, 0.3);
    T *m = trace_normal(c, TCC_F32, DIMS(7, 12), 1, 2), *n = trace_normal(c, TCC_F32, DIMS(5, 12), 0, 1);
    T *six = trace_uniform(c, TCC_F32, DIMS(6), -1, 1), *five = trace_uniform(c, TCC_F32, DIMS(5), -1, 1);
    T *q = trace_normal(c, TCC_F32, DIMS(1, 2, 6, 8), 0, 1), *wide = trace_uniform(c, TCC_F32, DIMS(12), 0.5, 1.5);
    const int64_t turn[] = {1, 0};
    CLOSE(trace_conv(x, w, six, 2, 1, 2)), EXACT(trace_max_pool(x, 3, 2, 1)), CLOSE(trace_avg_pool(x, 2, 2, 0));
    CLOSE(trace_linear(m, n, five)), CLOSE(trace_matmul(m, trace_transpose(n, turn)));
    CLOSE(trace_attention(q, q, q, NULL, 0.35, true));
    EXACT(trace_reshape(x, DIMS(8, -1))), EXACT(trace_flatten(x, 1)), EXACT(trace_transpose(m, turn));
    EXACT(trace_expand(five, DIMS(3, 5))), EXACT(trace_concat(2, LIST(m, n), 0)), EXACT(trace_slice(m, -1, 3, 4));
    EXACT(trace_embedding(n, labels(c, 4, 5))), EXACT(trace_gather(m, labels(c, 3, 12), 1));
    EXACT(trace_iota(c, TCC_I64, DIMS(2, 3), 1)), EXACT(trace_full(c, TCC_F32, DIMS(2, 2), 1.5));
    CLOSE(trace_sum(m, -1, NULL, false)), CLOSE(trace_sum(m, 1, (int64_t[]){-1}, true)),
        CLOSE(trace_mean(m, 1, (int64_t[]){0}, false));
    EXACT(trace_amax(m, 1, (int64_t[]){1}, true)), EXACT(trace_amin(m, -1, NULL, false)),
        CLOSE(trace_prod(five, -1, NULL, false));
    EXACT(trace_argmax(m, 1, false)), CLOSE(trace_softmax(m, 1)), CLOSE(trace_log_softmax(m, -1));
    CLOSE(trace_layer_norm(m, 1, wide, wide, 1e-5)), EXACT(trace_dropout(m, 0.3)), CLOSE(trace_detach(m));
    CLOSE(trace_cross_entropy(m, labels(c, 7, 12))), CLOSE(trace_nll(trace_log_softmax(m, 1), labels(c, 7, 12)));
    CLOSE(trace_mse(m, trace_mul_number(m, 0.5))),
        CLOSE(trace_loss(m, labels(c, 7, 12), "cross_entropy:label_smoothing=0.1,reduction=sum"));
    T *top[2];
    const int64_t k = 3, axis = 1, yes = 1;
    const struct tcc_attr attrs[] = {{.name = "axis", .kind = TCC_ATTR_INTS, .n = 1, .ints = &axis},
                                     {.name = "k", .kind = TCC_ATTR_INTS, .n = 1, .ints = &k},
                                     {.name = "largest", .kind = TCC_ATTR_INTS, .n = 1, .ints = &yes},
                                     {.name = "sorted", .kind = TCC_ATTR_INTS, .n = 1, .ints = &yes},
                                     {0}};
    OK(c, trace_op_many(c, "topk", 1, &m, attrs, 2, top));
    EXACT(top[0]), EXACT(top[1]);
}

static void compare(const char *what, T *a, T *b, double tolerance)
{
    size_t bytes = trace_bytes(a), each = (size_t)tcc_dtype_bytes((enum tcc_dtype)a->dtype);
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    double largest = 0;
    ck_assert_msg(trace_same_type(a, b), "%s: types", what);
    OK(a->c, trace_read(a, x, bytes));
    OK(b->c, trace_read(b, y, bytes));
    for (size_t i = 0; i < bytes; i += each) {
        double v = fabs(tcc_load_f64((enum tcc_dtype)a->dtype, x + i));
        largest = isfinite(v) && v > largest ? v : largest;
    }
    for (size_t i = 0; i < bytes; i += each) {
        double u = tcc_load_f64((enum tcc_dtype)a->dtype, x + i), v = tcc_load_f64((enum tcc_dtype)a->dtype, y + i);
        bool same = tolerance == 0 ? !memcmp(x + i, y + i, each) || (isnan(u) && isnan(v))
                                   : float_excess(u, v, 0, tolerance * largest) == 0;
        ck_assert_msg(same, "%s: element %zu is %.9g, eager %.9g", what, i / each, u, v);
    }
    free(x);
    free(y);
}

static void lazy_and_eager(void (*program)(struct trace_ctx *c, struct outputs *o))
{
    struct trace_ctx *lazy = context(""), *eager = context("eager");
    struct outputs a = {0}, b = {0};
    struct trace_counters n;
    program(lazy, &a);
    program(eager, &b);
    OK(lazy, trace_mark_step(lazy));
    OK(eager, trace_mark_step(eager));
    ck_assert_int_eq(a.n, b.n);
    for (int i = 0; i < a.n; i++)
        compare(a.what[i], a.t[i], b.t[i], a.tolerance[i]);
    trace_count(lazy, &n);
    ck_assert_int_eq(n.compiled, 1);
    ck_assert_int_eq(n.executed, 1);
    trace_count(eager, &n);
    ck_assert_int_eq(n.compiled, 0);
    trace_free(lazy);
    trace_free(eager);
}

START_TEST(elementwise_ops)
{
    lazy_and_eager(elementwise);
}
END_TEST

START_TEST(other_ops)
{
    lazy_and_eager(structural);
}
END_TEST

/* -- Training -------------------------------------------------------------------------------------------------- */

/* Two layers, layer norm and dropout, on 16 samples. */
struct net {
    struct trace_ctx *c;
    T *p[6];
};

static void net_make(struct net *n, struct trace_ctx *c)
{
    n->c = c;
    n->p[0] = trace_param(trace_layer_init(c, TCC_F32, DIMS(12, 8), 8), "one.weight");
    n->p[1] = trace_param(trace_layer_init(c, TCC_F32, DIMS(12), 8), "one.bias");
    n->p[2] = trace_param(trace_ones(c, TCC_F32, DIMS(12)), "norm.weight");
    n->p[3] = trace_param(trace_zeros(c, TCC_F32, DIMS(12)), "norm.bias");
    n->p[4] = trace_param(trace_layer_init(c, TCC_F32, DIMS(4, 12), 12), "two.weight");
    n->p[5] = trace_param(trace_layer_init(c, TCC_F32, DIMS(4), 12), "two.bias");
}

static T *net_loss(struct net *n, int batch, double dropout)
{
    float x[16 * 8];
    for (int i = 0; i < batch * 8; i++)
        x[i] = (float)sin(i * 0.7) + (i % 8 == (i / 8) % 4);
    int64_t dims[] = {batch, 8};
    T *h = trace_gelu(
        trace_layer_norm(trace_linear(floats(n->c, x, 2, dims), n->p[0], n->p[1]), 1, n->p[2], n->p[3], 1e-5));
    return trace_cross_entropy(trace_linear(trace_dropout(h, dropout), n->p[4], n->p[5]), labels(n->c, batch, 4));
}

static T *net_step(struct net *n, struct trace_optimizer *o)
{
    T *loss = net_loss(n, 16, 0.2);
    trace_zero_grad(o);
    ck_assert_msg(trace_backward(loss) == TCC_OK && trace_optimizer_step(o) == TCC_OK, "%s", trace_error(n->c));
    return loss;
}

static const char *const optimizers[] = {
    "sgd:lr=0.1,momentum=0.9,nesterov=1,weight_decay=1e-3",
    "adam:lr=0.01,amsgrad=1",
    "adamw:lr=0.01;*bias:weight_decay=0",
    "adadelta:lr=1",
    "adagrad:lr=0.1,initial_accumulator_value=0.1",
    "rmsprop:lr=0.01,momentum=0.5,centered=1",
    "lamb:lr=0.01",
    "novograd:lr=0.01",
};

START_TEST(training)
{
    struct net a, b;
    net_make(&a, context(""));
    net_make(&b, context("eager"));
    struct trace_optimizer_options options = {.schedule = "step:size=1,gamma=0.7", .clip_norm = 1};
    struct trace_optimizer *x = trace_optimizer(a.c, optimizers[_i], 6, a.p, &options);
    struct trace_optimizer *y = trace_optimizer(b.c, optimizers[_i], 6, b.p, &options);
    struct trace_counters n;
    double first = 0, loss = 0;
    ck_assert_msg(x && y, "%s", trace_error(a.c));
    for (int i = 0; i < 6; i++) {
        OK(a.c, trace_set_epoch(x, i / 3));
        OK(b.c, trace_set_epoch(y, i / 3));
        T *l = net_step(&a, x), *m = net_step(&b, y);
        loss = item(l);
        first = i ? first : loss;
        ck_assert_double_eq_tol(loss, item(m), 2e-5);
        OK(a.c, trace_mark_step(a.c));
        OK(b.c, trace_mark_step(b.c));
    }
    ck_assert_double_lt(loss, first + 0.1);
    for (int i = 0; i < 6; i++)
        compare(a.p[i]->name, a.p[i], b.p[i], 2e-4);
    ck_assert_double_eq(item(trace_optimizer_state(x, "train.step")), 6);
    trace_count(a.c, &n);
    ck_assert_int_eq(n.traced, 6);
    ck_assert_int_eq(n.compiled, 1); /* rate, epoch, step count and the first step's constants make no other graph */
    ck_assert_int_eq(n.executed, 6);
    trace_free(a.c);
    trace_free(b.c);
}
END_TEST

/* Plain SGD by hand: w - lr * dw, and the rate set while running. */
START_TEST(sgd_by_hand)
{
    struct trace_ctx *c = context("");
    const float one[] = {1, 2, 3};
    T *w = trace_param(floats(c, one, 1, (int64_t[]){3}), NULL);
    struct trace_optimizer *o = trace_optimizer(c, "sgd:lr=0.5", 1, &w, NULL);
    float v[3], want[3] = {1, 2, 3};
    void *place = w->data->o->t.data;
    for (int i = 0; i < 4; i++) {
        double rate = i < 2 ? 0.5 : 0.125;
        OK(c, trace_set_rate(o, rate));
        trace_zero_grad(o);
        OK(c, trace_backward(trace_sum(trace_square(w), -1, NULL, false)));
        OK(c, trace_optimizer_step(o));
        OK(c, trace_mark_step(c));
        for (int k = 0; k < 3; k++)
            want[k] -= (float)rate * 2 * want[k];
        OK(c, trace_read(w, v, sizeof v));
        ck_assert_mem_eq(v, want, sizeof v);
        ck_assert_ptr_eq(w->data->o->t.data, place); /* in its own memory */
    }
    struct trace_counters n;
    trace_count(c, &n);
    ck_assert_int_eq(n.compiled, 1);
    ck_assert_int_gt(c->compiled->nstates, 0);
    trace_free(c);
}
END_TEST

/* What another tensor holds is not written over. */
START_TEST(shared_data)
{
    struct trace_ctx *c = context("");
    const float one[] = {1, 2, 3};
    T *w = trace_retain(floats(c, one, 1, (int64_t[]){3})), *kept = trace_retain(trace_from_number(c, TCC_F32, 0));
    T *old = trace_retain(trace_zeros(c, TCC_F32, DIMS(3)));
    float v[3];
    OK(c, trace_assign(old, w));
    OK(c, trace_assign(w, trace_add(w, w)));
    OK(c, trace_assign(kept, trace_add_number(kept, 1)));
    OK(c, trace_mark_step(c));
    OK(c, trace_read(old, v, sizeof v));
    ck_assert_float_eq(v[1], 2);
    OK(c, trace_read(w, v, sizeof v));
    ck_assert_float_eq(v[1], 4);
    OK(c, trace_assign(w, trace_add(w, old)));
    OK(c, trace_mark_step(c));
    OK(c, trace_read(w, v, sizeof v));
    ck_assert_float_eq(v[2], 9);
    ck_assert_double_eq(item(kept), 1);
    trace_free(c);
}
END_TEST

START_TEST(gradients_accumulate)
{
    struct trace_ctx *c = context("");
    T *w = trace_param(trace_from_number(c, TCC_F32, 3), "w");
    for (int i = 0; i < 3; i++) {
        T *fixed = trace_detach(w); /* d (w * w) / d w with one of them fixed: w */
        OK(c, trace_backward(trace_mul(w, fixed)));
        if (i == 1)
            OK(c, trace_backward(trace_square(w)));
        OK(c, trace_mark_step(c));
    }
    ck_assert_double_eq(item(trace_grad(w)), 3 + 3 + 6 + 3);
    struct trace_optimizer *o = trace_optimizer(c, "sgd:lr=1", 1, &w, NULL);
    OK(c, trace_optimizer_step(o));
    OK(c, trace_mark_step(c));
    ck_assert_ptr_null(trace_grad(w)); /* used */
    ck_assert_double_eq(item(w), 3 - 15);
    trace_free(c);
}
END_TEST

/* Gradients of a block with attention, and of one with convolutions, by all their parameters. */
static T *transformer(struct trace_ctx *c, int n, T **p)
{
    const int64_t heads[] = {0, 2, 1, 3}, split[] = {2, 6, 2, 4}, rows[] = {12, 8};
    T *x = trace_embedding(p[0], trace_reshape(labels(c, 12, 9), 2, (int64_t[]){2, 6})), *qkv[3];
    T *h = trace_layer_norm(x, 1, p[1], p[2], 1e-5);
    for (int i = 0; i < 3; i++)
        qkv[i] = trace_transpose(trace_reshape(trace_linear(h, p[3 + i], NULL), 4, split), heads);
    T *a = trace_transpose(trace_attention(qkv[0], qkv[1], qkv[2], NULL, 0.5, true), heads);
    x = trace_add(trace_reshape(x, 2, rows), trace_linear(trace_reshape(a, 2, rows), p[6], NULL));
    (void)n;
    return trace_cross_entropy(trace_linear(trace_gelu(x), p[0], NULL), labels(c, 12, 9));
}

static T *convnet(struct trace_ctx *c, int n, T **p)
{
    float x[2 * 3 * 8 * 8];
    for (int i = 0; i < 384; i++)
        x[i] = (float)sin(i * i * 0.37);
    T *y = trace_conv(floats(c, x, 4, (int64_t[]){2, 3, 8, 8}), p[0], NULL, 1, 1, 1);
    y = trace_relu(trace_batch_norm(y, p[2], p[3], p[n], p[n + 1], true, 0.1, 1e-5));
    y = trace_add(trace_max_pool(y, 2, 2, 0), trace_avg_pool(y, 2, 2, 0));
    return trace_mse(trace_conv(y, p[4], p[1], 2, 1, 2), trace_zeros(c, TCC_F32, DIMS(2, 4, 2, 2)));
}

static void block_gradients(T *(*block)(struct trace_ctx *c, int n, T **p), int n, int extra, const int64_t dims[][5])
{
    struct trace_ctx *c[2] = {context(""), context("eager")};
    T *p[2][16], *loss[2];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < n + extra; i++) {
            T *t = trace_normal(c[k], TCC_F32, (int)dims[i][0], dims[i] + 1, i < n ? 0.2 : 1, 0.5);
            p[k][i] = i < n ? trace_param(t, NULL) : trace_retain(t);
        }
        loss[k] = trace_retain(block(c[k], n, p[k]));
        OK(c[k], trace_backward(loss[k]));
        OK(c[k], trace_mark_step(c[k]));
    }
    ck_assert_double_eq_tol(item(loss[0]), item(loss[1]), 1e-5);
    for (int i = 0; i < n; i++)
        compare("gradient", trace_grad(p[0][i]), trace_grad(p[1][i]), 5e-5);
    for (int i = n; i < n + extra; i++)
        compare("buffer", p[0][i], p[1][i], 1e-5);
    trace_free(c[0]);
    trace_free(c[1]);
}

START_TEST(blocks)
{
    static const int64_t attention[][5] = {{2, 9, 8}, {1, 8}, {1, 8}, {2, 8, 8}, {2, 8, 8}, {2, 8, 8}, {2, 8, 8}};
    static const int64_t convolutions[][5] = {{4, 4, 3, 3, 3}, {1, 4}, {1, 4}, {1, 4}, {4, 4, 2, 3, 3}, {1, 4}, {1, 4}};
    block_gradients(transformer, 7, 0, attention);
    block_gradients(convnet, 5, 2, convolutions);
}
END_TEST

/* Two losses, one of them scaled: the sum of their gradients. */
START_TEST(two_losses)
{
    struct trace_ctx *c = context(""), *e = context("eager");
    T *grads[2];
    for (int k = 0; k < 2; k++) {
        struct net n;
        net_make(&n, k ? e : c);
        T *a = net_loss(&n, 16, 0), *b = net_loss(&n, 8, 0);
        OK(n.c, trace_backward(trace_add(trace_mul_number(a, 3), b)));
        grads[k] = trace_retain(trace_grad(n.p[4]));
        ck_assert_ptr_nonnull(grads[k]);
    }
    OK(c, trace_mark_step(c));
    OK(e, trace_mark_step(e));
    compare("gradient", grads[0], grads[1], 1e-5);
    trace_free(c);
    trace_free(e);
}
END_TEST

START_TEST(batch_norm)
{
    struct trace_ctx *c = context("");
    const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    T *mean = trace_retain(trace_zeros(c, TCC_F32, DIMS(2))), *var = trace_retain(trace_ones(c, TCC_F32, DIMS(2)));
    T *one = trace_param(trace_ones(c, TCC_F32, DIMS(2)), "scale"),
      *zero = trace_param(trace_zeros(c, TCC_F32, DIMS(2)), "bias");
    T *y = trace_retain(trace_batch_norm(floats(c, x, 3, (int64_t[]){2, 2, 2}), one, zero, mean, var, true, 0.1, 0));
    float v[8];
    OK(c, trace_mark_step(c));
    OK(c, trace_read(mean, v, 8)); /* channel 0: 1 2 5 6, channel 1: 3 4 7 8 */
    ck_assert_float_eq_tol(v[0], 0.35f, 1e-6);
    ck_assert_float_eq_tol(v[1], 0.55f, 1e-6);
    OK(c, trace_read(var, v, 8)); /* 4.25 * 4 / 3 */
    ck_assert_float_eq_tol(v[0], 0.9f + 0.1f * 17 / 3, 1e-6);
    OK(c, trace_read(y, v, sizeof v));
    ck_assert_float_eq_tol(v[0], -2.5f / sqrtf(4.25f), 1e-6);
    T *z = trace_batch_norm(floats(c, x, 3, (int64_t[]){2, 2, 2}), one, zero, mean, var, false, 0.1, 0);
    OK(c, trace_read(z, v, sizeof v));
    ck_assert_float_eq_tol(v[0], 0.65f / sqrtf(0.9f + 0.1f * 17 / 3), 1e-6);
    trace_free(c);
}
END_TEST

/* -- Random numbers ------------------------------------------------------------------------------------------------ */

START_TEST(random_numbers)
{
    float seen[4][3][64];
    for (int k = 0; k < 4; k++) { /* lazy, eager, lazy again, another seed */
        struct trace_ctx *c =
            context_with(k == 1 ? "eager" : "", &(struct trace_options){.seed = k == 3 ? 8 : 7, .cache_dir = ""});
        T *x = trace_retain(trace_uniform(c, TCC_F32, DIMS(64), 1, 2));
        for (int i = 0; i < 3; i++) {
            OK(c, trace_read(trace_dropout(x, 0.5), seen[k][i], sizeof seen[k][i]));
            OK(c, trace_mark_step(c));
        }
        trace_free(c);
    }
    ck_assert_mem_eq(seen[0], seen[1], sizeof seen[0]);
    ck_assert_mem_eq(seen[0], seen[2], sizeof seen[0]);
    ck_assert_mem_ne(seen[0], seen[3], sizeof seen[0]);
    ck_assert_mem_ne(seen[0][0], seen[0][1], sizeof seen[0][0]); /* another mask a step */
}
END_TEST

START_TEST(loader)
{
    struct trace_ctx *c = context("eager");
    float x[10];
    int64_t y[10], order[10], got[3];
    for (int i = 0; i < 10; i++)
        x[i] = (float)i, y[i] = 100 + i;
    const struct tcc_tensor arrays[] = {{x, TCC_F32, 1, {10}}, {y, TCC_I64, 1, {10}}};
    struct trace_loader *l =
        trace_loader(c, 2, arrays, &(struct trace_loader_options){.batch = 3, .shuffle = true, .seed = 4});
    T *batch[2];
    bool more;
    int count = 0;
    ck_assert_int_eq(trace_loader_batches(l), 3);
    trace_loader_start(l, 2);
    trace_randperm(6, 10, order);
    for (; trace_loader_next(l, batch, &more) == TCC_OK && more; count++) {
        OK(c, trace_read(batch[1], got, sizeof got));
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(got[i], 100 + order[count * 3 + i]);
    }
    ck_assert_int_eq(count, 3);
    l = trace_loader(c, 1, arrays, &(struct trace_loader_options){.batch = 4, .keep_last = true});
    for (count = 0; trace_loader_next(l, batch, &more) == TCC_OK && more; count++)
        ck_assert_int_eq(trace_dims(batch[0])[0], count < 2 ? 4 : 2);
    ck_assert_int_eq(count, 3);
    ck_assert_ptr_null(trace_loader(c, 1, arrays, &(struct trace_loader_options){.batch = 40}));
    ck_assert_int_eq(trace_mark_step(c), TCC_EUSAGE);
    trace_free(c);
}
END_TEST

/* -- The cache ------------------------------------------------------------------------------------------------------ */

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/tccc-trace-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static int each_file(void (*fn)(const char *path))
{
    struct dirent *e;
    char path[400];
    int n = 0;
    DIR *d = opendir(folder);
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            fn(path);
            n++;
        }
    if (d)
        closedir(d);
    return n;
}

static void remove_file(const char *path)
{
    unlink(path);
}

static void cut_file(const char *path)
{
    ck_assert_int_eq(truncate(path, 1000), 0);
}

/* One training step in a context of its own; how many graphs were compiled. */
static int one_step(struct trace_counters *n)
{
    struct trace_ctx *c = context_with("", &(struct trace_options){.cache_dir = folder});
    struct net net;
    net_make(&net, c);
    struct trace_optimizer *o = trace_optimizer(c, "adam", 6, net.p, NULL);
    net_step(&net, o);
    OK(c, trace_mark_step(c));
    OK(c, trace_wait(c));
    trace_count(c, n);
    trace_free(c);
    return (int)n->compiled;
}

START_TEST(many_processes)
{
    struct trace_counters n;
    pid_t pids[4];
    int compiled = 0, state;
    make_folder();
    for (int i = 0; i < 4; i++)
        if (!(pids[i] = fork())) {
            int mine = one_step(&n);
            _exit(n.executed == 1 && n.compiled + n.loaded == 1 ? mine : 9);
        }
    for (int i = 0; i < 4; i++) {
        waitpid(pids[i], &state, 0);
        ck_assert(WIFEXITED(state) && WEXITSTATUS(state) < 2);
        compiled += WEXITSTATUS(state);
    }
    ck_assert_int_eq(compiled, 1); /* the others waited for it */
    ck_assert_int_eq(one_step(&n), 0);
    ck_assert_int_eq(n.loaded, 1);
    ck_assert_int_eq(each_file(cut_file), 1); /* no lock and nothing temporary is left; a damaged one is made anew */
    ck_assert_int_eq(one_step(&n), 1);
    ck_assert_int_eq(one_step(&n), 0);
    each_file(remove_file);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* -- Reports ---------------------------------------------------------------------------------------------------------- */

static char report_text[8192];

static void capture(void (*program)(struct trace_ctx *c))
{
    FILE *f = tmpfile();
    int kept = dup(2);
    ck_assert_ptr_nonnull(f);
    fflush(stderr);
    dup2(fileno(f), 2);
    struct trace_ctx *c = context("report");
    program(c);
    trace_free(c);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    rewind(f);
    size_t n = fread(report_text, 1, sizeof report_text - 1, f);
    report_text[n] = 0;
    fclose(f);
}

static void changing(struct trace_ctx *c)
{
    static const float x[64];
    T *w = trace_param(trace_ones(c, TCC_F32, DIMS(4, 4)), "weights");
    for (int i = 0; i < 6; i++) {
        T *in = floats(c, x, 2, (int64_t[]){i == 1 ? 8 : 4, 4});
        T *y = trace_mul_number(trace_linear(in, w, NULL), i == 2 ? 0.25 : 0.5);
        y = i == 3 ? trace_tanh(y) : trace_relu(y);
        y = trace_sum(y, 1, (int64_t[]){i == 4 ? 1 : 0}, false);
        (void)y;
        OK(c, trace_mark_step(c));
    }
}

START_TEST(reports)
{
    static const char *const lines[] = {
        "graph 1 of", "it is the first\n",        "graph 2 of", "input 0 is f32[8,4], not f32[4,4]\n",
        "graph 3 of", "unlike graph 1, constant", "0.25",       "0.5",
        "graph 4 of", "is tanh, not relu\n",      "graph 5 of", "axes = [1]",
        "axes = [0]"};
    const char *at = report_text;
    capture(changing);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *found = strstr(at, lines[i]);
        ck_assert_msg(found != NULL, "'%s' is not in: %s", lines[i], report_text);
        at = found + strlen(lines[i]);
    }
    ck_assert_ptr_null(strstr(report_text, "graph 6"));
}
END_TEST

/* -- Failures ----------------------------------------------------------------------------------------------------------- */

static void expect(struct trace_ctx *c, int got, int status, const char *text)
{
    ck_assert_msg(got == status && strstr(trace_error(c), text), "status %d: %s", got, trace_error(c));
}

static void mistakes(const char *mode)
{
    struct trace_ctx *c = context(mode), *other = context(mode);
    T *x = trace_retain(trace_ones(c, TCC_F32, DIMS(2, 3))), *y = trace_retain(trace_ones(c, TCC_F32, DIMS(4)));
    T *i = trace_retain(trace_ones(c, TCC_I64, DIMS(2, 3)));
    ck_assert_ptr_null(trace_exp(trace_add(x, y)));
    expect(c, trace_mark_step(c), TCC_EINPUT, "add(f32[2,3], f32[4]): ");
    trace_matmul(x, x);
    expect(c, trace_mark_step(c), TCC_EINPUT, "matmul(f32[2,3], f32[2,3]): ");
    trace_add(x, i);
    expect(c, trace_mark_step(c), TCC_EINPUT, "add(f32[2,3], i64[2,3]): ");
    trace_softmax(y, 3);
    expect(c, trace_mark_step(c), TCC_EINPUT, "(f32[4]): axis 3 out of range");
    trace_cross_entropy(x, y);
    expect(c, trace_mark_step(c), TCC_EINPUT, "cross_entropy(f32[2,3], f32[4]): ");
    trace_op(c, "state_read", 0, NULL, NULL);
    expect(c, trace_mark_step(c), TCC_EUSAGE, "unknown op 'state_read'");
    trace_assign(x, y);
    expect(c, trace_mark_step(c), TCC_EINPUT, "the tensor is f32[2,3], the value f32[4]");
    trace_add(x, trace_ones(other, TCC_F32, DIMS(1)));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "another context");
    trace_backward(trace_sum(x, -1, NULL, false));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "not computed from a parameter");
    ck_assert_ptr_null(trace_optimizer(c, "sdg", 0, NULL, NULL));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "unknown optimizer 'sdg'");
    ck_assert_ptr_null(trace_optimizer(c, "sgd", 1, &x, NULL));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "tensor 0 is no parameter");
    float v;
    expect(c, trace_read(x, &v, sizeof v), TCC_EUSAGE, "24 bytes, the buffer 4");
    ck_assert_int_eq(trace_read(NULL, &v, sizeof v), TCC_EUSAGE);
    /* A tensor inside a graph that has been run. */
    T *inner = trace_add(x, x), *outer = trace_sum(inner, -1, NULL, false);
    ck_assert_double_eq(item(outer), 12);
    if (!*mode) {
        trace_exp(inner);
        expect(c, trace_mark_step(c), TCC_EUSAGE, "not retained");
    }
    /* Tensors of a step that has ended. */
    OK(c, trace_mark_step(c));
    trace_add(x, outer);
    expect(c, trace_mark_step(c), TCC_EUSAGE, "tensor f32[] is used after the end of its step");
    expect(c, trace_read(inner, &v, sizeof v), TCC_EUSAGE, "tensor f32[2,3] is used after");
    ck_assert_ptr_null(trace_retain(inner));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "is used after");
    trace_release(x);
    trace_assign(x, x);
    trace_exp(x);
    expect(c, trace_mark_step(c), TCC_EUSAGE, "is used after");
    trace_free(other);
    ck_assert_int_eq(trace_new(&(struct trace_options){.device = "tpu"}, &other), TCC_EUSAGE);
    ck_assert_ptr_null(other);
    trace_free(c);
}

START_TEST(errors)
{
    mistakes("");
    mistakes("eager");
}
END_TEST

static void bad_label(const char *mode)
{
    struct trace_ctx *c = context(mode);
    struct net n;
    float before[32], after[32];
    net_make(&n, c);
    struct trace_optimizer *o = trace_optimizer(c, "adam:lr=0.1", 6, n.p, NULL);
    net_step(&n, o);
    OK(c, trace_mark_step(c));
    OK(c, trace_read(n.p[2], before, 48));
    int64_t wrong[16] = {0, 1, 9};
    T *loss = trace_retain(trace_cross_entropy(
        trace_linear(trace_layer_norm(trace_linear(trace_ones(c, TCC_F32, DIMS(16, 8)), n.p[0], n.p[1]), 1, n.p[2],
                                      n.p[3], 1e-5),
                     n.p[4], n.p[5]),
        trace_from(c, &(struct tcc_tensor){wrong, TCC_I64, 1, {16}})));
    trace_zero_grad(o);
    int status = *mode || trace_backward(loss) || trace_optimizer_step(o) ? TCC_OK : trace_mark_step(c);
    if (!status && !*mode) { /* steps that follow it before it is known */
        net_step(&n, o);
        status = trace_mark_step(c);
    }
    if (!status)
        status = trace_wait(c);
    ck_assert_int_eq(status, TCC_EINDEX);
    OK(c, trace_read(n.p[2], after, 48));
    ck_assert_mem_eq(before, after, 48); /* neither that step nor the one behind it */
    ck_assert_double_eq(item(trace_optimizer_state(o, "train.step")), 1);
    if (!*mode) {
        double v;
        ck_assert_int_eq(trace_item(loss, &v), TCC_EUSAGE);
    }
    net_step(&n, o); /* and on it goes */
    OK(c, trace_mark_step(c));
    ck_assert_double_eq(item(trace_optimizer_state(o, "train.step")), 2);
    trace_free(c);
}

START_TEST(failing_step)
{
    bad_label("");
    bad_label("eager");
}
END_TEST

/* Tensors let go while steps run with them. */
START_TEST(lifetimes)
{
    struct trace_ctx *c = context("");
    T *sum = trace_retain(trace_zeros(c, TCC_F32, DIMS(1000)));
    for (int i = 0; i < 20; i++) {
        T *x = trace_retain(trace_uniform(c, TCC_F32, DIMS(1000), 0, 1)), *y = trace_retain(trace_add(sum, x));
        OK(c, trace_assign(sum, y));
        OK(c, trace_mark_step(c));
        trace_release(x);
        T *z = trace_retain(trace_add(y, y));
        trace_release(y);
        OK(c, trace_mark_step(c));
        trace_release(z);
    }
    trace_release(sum);
    trace_retain(trace_add(trace_uniform(c, TCC_F32, DIMS(3), 0, 1), trace_ones(c, TCC_F32, DIMS(1))));
    trace_free(c); /* with a graph that was not run */
}
END_TEST

/* -- Closures -------------------------------------------------------------------------------------------------------------- */

struct seen {
    int n;
    double values[64];
};

static void see(void *user, int n, const struct tcc_tensor *values)
{
    struct seen *s = user;
    usleep(2000);
    ck_assert_int_eq(n, 2);
    s->values[s->n++] = (double)*(const float *)values[0].data + (double)((const float *)values[1].data)[1];
}

static void closures_in(const char *mode)
{
    struct trace_ctx *c = context(mode);
    struct seen s = {0};
    T *w = trace_retain(trace_ones(c, TCC_F32, DIMS(2)));
    for (int i = 0; i < 20; i++) {
        OK(c, trace_assign(w, trace_add(w, w)));
        T *sum = trace_sum(w, -1, NULL, false), *all[] = {sum, w};
        T *unused = trace_exp(sum);
        (void)unused;
        OK(c, trace_step_closure(c, see, &s, 2, all));
        OK(c, trace_mark_step(c));
    }
    OK(c, trace_wait(c));
    ck_assert_int_eq(s.n, 20);
    for (int i = 0; i < 20; i++) /* the values of that step, not of later ones */
        ck_assert_double_eq(s.values[i], 3 * ldexp(1, i + 1));
    OK(c, trace_step_closure(c, see, &s, 2, LIST(w, w))); /* nothing else in the step */
    OK(c, trace_mark_step(c));
    OK(c, trace_wait(c));
    ck_assert_int_eq(s.n, 21);
    OK(c, trace_step_closure(c, see, &s, 2, LIST(w, w)));
    trace_free(c); /* as it is: the step was not ended */
    ck_assert_int_eq(s.n, 21);
}

START_TEST(closures)
{
    closures_in("");
    closures_in("eager");
}
END_TEST

/* -- Mixed precision --------------------------------------------------------------------------------------------------------- */

START_TEST(autocast)
{
    struct trace_ctx *c = context("");
    T *x = trace_retain(trace_normal(c, TCC_F32, DIMS(4, 6), 0, 1)),
      *w = trace_param(trace_normal(c, TCC_F32, DIMS(5, 6), 0, 1), "w");
    ck_assert_int_eq(trace_autocast(c, TCC_BF16), TCC_NONE);
    T *y = trace_linear(x, w, NULL), *p = trace_softmax(y, 1), *n = trace_layer_norm(y, 1, NULL, NULL, 1e-5),
      *r = trace_relu(y);
    ck_assert_int_eq(
        trace_dtype(trace_concat(
            2, LIST(x, trace_transpose(trace_matmul(x, trace_transpose(x, (int64_t[]){1, 0})), (int64_t[]){1, 0})), 1)),
        TCC_F32);
    ck_assert_int_eq(trace_autocast(c, TCC_NONE), TCC_BF16);
    ck_assert_int_eq(trace_dtype(y), TCC_BF16);
    ck_assert_int_eq(trace_dtype(r), TCC_BF16);
    ck_assert_int_eq(trace_dtype(p), TCC_F32);
    ck_assert_int_eq(trace_dtype(n), TCC_F32);
    ck_assert_int_eq(trace_dtype(trace_linear(x, w, NULL)), TCC_F32);
    OK(c, trace_backward(trace_sum(trace_square(trace_cast(y, TCC_F32)), -1, NULL, false)));
    ck_assert_int_eq(trace_dtype(trace_grad(w)), TCC_F32);
    ck_assert_double_ge(item(trace_amax(trace_abs(trace_grad(w)), -1, NULL, false)), 1e-3);
    trace_autocast(c, TCC_I32);
    ck_assert_int_eq(trace_mark_step(c), TCC_EUSAGE);
    trace_free(c);
}
END_TEST

START_TEST(scaler)
{
    struct trace_ctx *c = context("");
    struct net n;
    net_make(&n, c);
    struct trace_optimizer *o = trace_optimizer(c, "sgd:lr=0.1", 6, n.p, NULL);
    struct trace_scaler *s = trace_scaler(c, 1024);
    float before[12], after[12];
    for (int i = 0; i < 3; i++) { /* the second one overflows */
        T *loss = trace_mul(net_loss(&n, 16, 0), trace_from_number(c, TCC_F32, i == 1 ? 1e38 : 1));
        OK(c, trace_read(n.p[1], before, sizeof before));
        loss = trace_mul(net_loss(&n, 16, 0), trace_from_number(c, TCC_F32, i == 1 ? 1e38 : 1));
        trace_zero_grad(o);
        OK(c, trace_backward(trace_scaler_scale(s, loss)));
        OK(c, trace_scaler_step(s, o));
        OK(c, trace_mark_step(c));
        ck_assert_double_eq(item(trace_scaler_value(s)), i ? 512 : 1024);
        OK(c, trace_read(n.p[1], after, sizeof after));
        ck_assert_int_eq(!memcmp(before, after, sizeof after), i == 1);
    }
    ck_assert_double_eq(item(trace_optimizer_state(o, "train.step")), 2);
    ck_assert_double_eq(item(trace_optimizer_state(o, "train.skipped")), 1);
    trace_free(c);
}
END_TEST

/* GradScaler's settings, and its state set into another one: what that does next is what the first one does. */
START_TEST(scaler_state)
{
    struct trace_ctx *c = context("");
    const struct trace_scaler_options options = {.init = 8, .growth = 4, .backoff = 0.25, .interval = 2};
    struct trace_scaler *s = trace_scaler_new(c, &options), *again = trace_scaler_new(c, &options);
    T *w = trace_param(trace_full(c, TCC_F32, DIMS(1), 1), "w");
    struct trace_optimizer *o = trace_optimizer(c, "sgd:lr=0", 1, &w, NULL);
    const double scales[] = {8, 32, 8, 8, 32}; /* the third step overflows */
    for (int i = 0; i < 5; i++) {
        struct trace_scaler *now = i < 4 ? s : again;
        T *loss = trace_sum(trace_mul(w, trace_from_number(c, TCC_F32, i == 2 ? 3e38 : 1)), -1, NULL, false);
        if (i == 4)
            for (int k = 0; k < 2; k++) {
                uint32_t bits;
                const char *name = trace_scaler_state_name(s, k);
                T *t = trace_scaler_state(s, name);
                OK(c, trace_read(t, &bits, sizeof bits));
                OK(c, trace_set(trace_scaler_state(again, name), &(struct tcc_tensor){&bits, trace_dtype(t), 0, {0}}));
            }
        loss = trace_sum(trace_mul(w, trace_from_number(c, TCC_F32, i == 2 ? 3e38 : 1)), -1, NULL, false);
        trace_zero_grad(o);
        OK(c, trace_backward(trace_scaler_scale(now, loss)));
        OK(c, trace_scaler_step(now, o));
        OK(c, trace_mark_step(c));
        ck_assert_double_eq(item(trace_scaler_value(now)), scales[i]);
    }
    ck_assert_ptr_null(trace_scaler_state_name(s, 2));
    ck_assert_ptr_null(trace_scaler_new(c, &(struct trace_scaler_options){.growth = 0.5}));
    ck_assert_int_eq(trace_mark_step(c), TCC_EUSAGE);
    trace_free(c);
}
END_TEST

/* Losses of steps with dropout; from step `from` on with the state that an earlier program left. */
static void dropout_steps(const char *mode, int from, int to, int64_t state[2], double *losses)
{
    struct trace_ctx *c = context(mode);
    T *w = trace_param(trace_full(c, TCC_F32, DIMS(64), 1), "w");
    struct trace_optimizer *o = trace_optimizer(c, "sgd:lr=0", 1, &w, NULL);
    T *random = trace_optimizer_state(o, "train.random");
    ck_assert_ptr_nonnull(random);
    if (from)
        OK(c, trace_set(random, &(struct tcc_tensor){state, TCC_I64, 1, {2}}));
    for (int i = from; i < to; i++) {
        T *loss = trace_sum(trace_mul(trace_dropout(w, 0.5), trace_iota(c, TCC_F32, DIMS(64), 0)), -1, NULL, false);
        trace_zero_grad(o);
        OK(c, trace_backward(loss));
        OK(c, trace_optimizer_step(o));
        losses[i] = item(loss);
        OK(c, trace_mark_step(c));
    }
    OK(c, trace_read(random, state, 2 * sizeof *state));
    trace_free(c);
}

START_TEST(dropout_resumes)
{
    static const char *const modes[] = {"", "eager"};
    for (int m = 0; m < 2; m++) {
        double whole[6], parts[6];
        int64_t state[2], left[2];
        dropout_steps(modes[m], 0, 6, state, whole);
        dropout_steps(modes[m], 0, 3, left, parts);
        dropout_steps(modes[m], 3, 6, left, parts);
        for (int i = 0; i < 6; i++)
            ck_assert_double_eq(parts[i], whole[i]);
        ck_assert_double_ne(whole[0], whole[1]);
        ck_assert(!memcmp(state, left, sizeof state));
    }
}
END_TEST

/* Steps that hold several batches; samples that don't divide. */
START_TEST(batches_per_execution)
{
    struct trace_ctx *c = context("");
    float x[11] = {0};
    const struct tcc_tensor array = {x, TCC_F32, 1, {11}};
    struct trace_loader *l = trace_loader(
        c, 1, &array, &(struct trace_loader_options){.batch = 2, .batches_per_execution = 2, .keep_last = true});
    T *batch, *first = NULL;
    bool more;
    int64_t count = 0;
    struct trace_counters k;
    for (; trace_loader_next(l, &batch, &more) == TCC_OK && more; count++) {
        if (count % 2) /* of the same step */
            trace_retain(trace_concat(2, LIST(first, batch), 0));
        first = batch;
    }
    ck_assert_int_eq(count, 6);
    ck_assert_int_eq(trace_loader_batches(l), 6);
    OK(c, trace_wait(c));
    trace_count(c, &k);
    ck_assert_int_eq(k.executed, 3);
    ck_assert_ptr_null(trace_loader(c, 1, &array, &(struct trace_loader_options){.batch = 2, .group = "none"}));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "unknown group 'none'");
    trace_free(c);
}
END_TEST

/* What the environment and the options may not say; TCCC_FLAGS. */
START_TEST(environment)
{
    static const struct {
        const char *device, *trace, *flags;
        int status;
        const char *text;
    } rows[] = {
        {"cuda:sm_90", "", "", TCC_EUSAGE, "unknown device 'cuda:sm_90'"},
        {"neuron:trn1", "", "", TCC_EUSAGE, "unknown device 'neuron:trn1'"},
        {"tpu", "", "", TCC_EUSAGE, "unknown device 'tpu'"},
        {NULL, "report,lazy", "", TCC_EUSAGE, "TCCC_TRACE=report,lazy: unknown value 'lazy'"},
        {NULL, "", "-O3 --bogus", TCC_EUSAGE, "TCCC_FLAGS: unknown option '--bogus'"},
        {NULL, "", "-O7", TCC_EUSAGE, "TCCC_FLAGS: wrong value for option '-O7'"},
        {NULL, "", "--exact --fast-math", TCC_EUSAGE, "exclude each other"},
        {NULL, "", "-v --threads=3 --exact -j 2 -O 1 --march x86-64-v2", TCC_OK, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trace_ctx *c;
        setenv("TCCC_TRACE", rows[i].trace, 1);
        setenv("TCCC_FLAGS", rows[i].flags, 1);
        ck_assert_int_eq(trace_new(&(struct trace_options){.device = rows[i].device}, &c), rows[i].status);
        ck_assert_msg(strstr(trace_error(c), rows[i].text) != NULL, "%s", trace_error(c));
        if (c) {
            ck_assert(c->level == 1 && c->flags.exact && c->flags.jobs == 2 && !strcmp(c->march, "x86-64-v2"));
            ck_assert_double_eq(item(trace_exp(trace_scalar(c, TCC_F32, 0))), 1);
        }
        trace_free(c);
    }
    unsetenv("TCCC_FLAGS");
}
END_TEST

/* The call that reads what failed has its status, and the next step is well, in both modes. */
START_TEST(recovers)
{
    static const char *const modes[] = {"", "eager"};
    for (int m = 0; m < 2; m++) {
        struct trace_ctx *c = context(modes[m]);
        float x[6] = {1, 2, 3, 4, 5, 6};
        int64_t wrong[] = {1, 7}, right[] = {1, 2};
        double v;
        T *scores = trace_retain(floats(c, x, DIMS(2, 3)));
        T *loss = trace_cross_entropy(scores, trace_from(c, &(struct tcc_tensor){wrong, TCC_I64, 1, {2}}));
        ck_assert_int_eq(trace_item(loss, &v), TCC_EINDEX);
        ck_assert(*trace_error(c));
        loss = trace_cross_entropy(scores, trace_from(c, &(struct tcc_tensor){right, TCC_I64, 1, {2}}));
        OK(c, trace_item(loss, &v));
        ck_assert_double_eq_tol(v, 0.907606, 1e-6);
        ck_assert_int_eq(trace_item(trace_add(scores, floats(c, x, DIMS(4))), &v), TCC_EINPUT);
        ck_assert_double_eq(item(trace_sum(scores, -1, NULL, false)), 21);
        trace_free(c);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace");
    TCase *t = tcase_create("trace");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, elementwise_ops);
    tcase_add_test(t, other_ops);
    tcase_add_loop_test(t, training, 0, (int)(sizeof optimizers / sizeof *optimizers));
    tcase_add_test(t, sgd_by_hand);
    tcase_add_test(t, shared_data);
    tcase_add_test(t, gradients_accumulate);
    tcase_add_test(t, blocks);
    tcase_add_test(t, two_losses);
    tcase_add_test(t, batch_norm);
    tcase_add_test(t, random_numbers);
    tcase_add_test(t, loader);
    tcase_add_test(t, many_processes);
    tcase_add_test(t, reports);
    tcase_add_test(t, errors);
    tcase_add_test(t, failing_step);
    tcase_add_test(t, lifetimes);
    tcase_add_test(t, closures);
    tcase_add_test(t, autocast);
    tcase_add_test(t, scaler);
    tcase_add_test(t, scaler_state);
    tcase_add_test(t, dropout_resumes);
    tcase_add_test(t, batches_per_execution);
    tcase_add_test(t, environment);
    tcase_add_test(t, recovers);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
