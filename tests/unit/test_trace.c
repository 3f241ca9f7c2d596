/* SPDX-License-Identifier: Apache-2.0 */
/* Lazy tracing: ops and training against the interpreter (eager mode), updates in place, random numbers, the loader. */
#include "tests/unit/suite.h"
#include "tests/unit/trace_nets.h"
#include "tools/values/values_int.h"

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
    suite_add_tcase(s, t);
    return run_tests(s);
}
