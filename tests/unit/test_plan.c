/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner: pipelines of equal stages against the formulas of their papers, messages and shared devices against sums
 * by hand, averages against the ring's formula, buckets by hand; what a model weighs; a search that stops early against
 * one that doesn't.
 */
#include "passes/cluster/cluster_int.h"
#include "passes/pass.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 1e-9

static struct ir_ctx *ctx;

static void setup(void)
{
    ctx = ir_ctx_new();
}

static void teardown(void)
{
    ir_ctx_free(ctx);
}

/* -- Pipelines ------------------------------------------------------------------------------------------------- */

/* Equal stages, forward 1 and backward 2 together; each segment sends `bytes` to the next and back. */
struct chain {
    int stages, chunks, micros;
    enum pipeline_kind kind;
    double bytes;
    struct plan_link link;
    double devices, weight; /* 0: each stage has its own */
};

static struct plan_run run_chain(const struct chain *k, double *bubble)
{
    int n = k->stages * k->chunks;
    struct pipeline_options o = {k->kind, k->chunks, k->micros, 0};
    double *forward = IR_NEWN(ctx, n, double), *backward = IR_NEWN(ctx, n, double);
    struct plan_message *messages = IR_NEWN(ctx, 2 * n, struct plan_message);
    const struct plan_link **link = IR_NEWN(ctx, (size_t)(k->stages * k->stages), const struct plan_link *);
    int *node = IR_NEWN(ctx, k->stages, int);
    double *weight = IR_NEWN(ctx, k->stages, double);
    for (int s = 0; s < n; s++) {
        forward[s] = 1.0 / k->chunks;
        backward[s] = 2.0 / k->chunks;
    }
    for (int s = 0; s + 1 < n; s++) {
        messages[2 * s] = (struct plan_message){s, s + 1, k->bytes, false};
        messages[2 * s + 1] = (struct plan_message){s + 1, s, k->bytes, true};
    }
    for (int i = 0; i < k->stages * k->stages; i++)
        link[i] = &k->link;
    for (int s = 0; s < k->stages; s++)
        weight[s] = k->weight;
    struct plan_pipeline p = {.order = pipeline_make(ctx, &o, k->stages, n, NULL, forward, backward, true),
                              .forward = forward,
                              .backward = backward,
                              .nmessages = 2 * n - 2,
                              .messages = messages,
                              .link = link,
                              .devices = k->devices,
                              .node = node,
                              .weight = weight};
    struct plan_run run;
    double busy = 0;
    ck_assert_ptr_nonnull(p.order);
    ck_assert(plan_simulate(ctx, &p, &run));
    for (int s = 0; s < k->stages; s++)
        busy += run.busy[s];
    *bubble = 1 - busy / (run.makespan * k->stages);
    return run;
}

/* GPipe and 1F1B: (m + p - 1)(tf + tb), bubble (p - 1) / (m + p - 1). */
START_TEST(bubbles)
{
    static const int stages[] = {1, 2, 3, 4, 8}, micros[] = {1, 2, 4, 7, 16, 32};
    static const enum pipeline_kind kinds[] = {PIPELINE_SIMPLE, PIPELINE_INTERLEAVED, PIPELINE_1F1B};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 6; k++)
            for (int j = 0; j < 3; j++) {
                struct chain c = {stages[i], 1, micros[k], kinds[j], 0, {0, 1, 1, 1}, 0, 1};
                double bubble, p = stages[i], m = micros[k];
                struct plan_run r = run_chain(&c, &bubble);
                ck_assert_double_eq_tol(r.makespan, 3 * (m + p - 1), NEAR);
                ck_assert_double_eq_tol(bubble, (p - 1) / (m + p - 1), NEAR);
                ck_assert_double_eq_tol(r.end[stages[i] - 1], 3 * m + p - 1, kinds[j] == PIPELINE_SIMPLE ? 1e9 : NEAR);
            }
}
END_TEST

/* Interleaved 1F1B: m(tf + tb) + (p - 1)(tf + tb) / v. */
START_TEST(bubbles_of_chunks)
{
    for (int p = 2; p <= 4; p++)
        for (int v = 2; v <= 4; v++)
            for (int m = p; m <= 4 * p; m += p) {
                struct chain c = {p, v, m, PIPELINE_1F1B_INTERLEAVED, 0, {0, 1, 1, 1}, 0, 1};
                double bubble;
                ck_assert_double_eq_tol(run_chain(&c, &bubble).makespan, 3 * (m + (p - 1.0) / v), NEAR);
                ck_assert_double_eq_tol(bubble, (p - 1.0) / (v * m + p - 1), NEAR);
            }
}
END_TEST

START_TEST(messages)
{
    double bubble;
    /* One microbatch: there and back again, each message whole. */
    struct chain c = {3, 1, 1, PIPELINE_1F1B, 100, {0.25, 200, 200, 1}, 0, 1};
    ck_assert_double_eq_tol(run_chain(&c, &bubble).makespan, 9 + 4 * (0.25 + 0.5), NEAR);
    /* Moved by the ranks themselves: the same time, but they work in it. */
    c.link.overlap = 0;
    struct plan_run r = run_chain(&c, &bubble);
    ck_assert_double_eq_tol(r.makespan, 9 + 4 * (0.25 + 0.5), NEAR);
    ck_assert_double_eq_tol(r.busy[0], 3 + 2 * 0.25, NEAR);
    ck_assert_double_eq_tol(r.busy[1], 3 + 4 * 0.25, NEAR);
    /* All forward passes first, on a link that is slower than they are: it paces them. */
    struct chain slow = {2, 1, 8, PIPELINE_SIMPLE, 100, {0, 20, 20, 1}, 0, 1};
    ck_assert_double_eq_tol(run_chain(&slow, &bubble).makespan, (1 + 8 * 5 + 1) + (2 + 8 * 5 + 2), NEAR);
    /* Messages that overlap with work cost their latency when the pipeline fills and drains, not for each
     * microbatch. */
    struct chain fast = {2, 1, 64, PIPELINE_SIMPLE, 1, {0.5, 10, 10, 1}, 0, 1};
    ck_assert_double_eq_tol(run_chain(&fast, &bubble).makespan, 3 * 65 + 2 * 0.6, NEAR);
}
END_TEST

START_TEST(shared_devices)
{
    double bubble;
    /* Two stages on one device: somebody always works, so nothing is lost but time is that of both. */
    struct chain c = {2, 1, 8, PIPELINE_1F1B, 0, {0, 1, 1, 1}, 1, 1};
    ck_assert_double_eq_tol(run_chain(&c, &bubble).makespan, 2 * 8 * 3, NEAR);
    c.devices = 2;
    ck_assert_double_eq_tol(run_chain(&c, &bubble).makespan, 3 * 9, NEAR);
    /* Enough devices: event by event as without them. */
    for (int m = 1; m < 12; m++) {
        struct chain apart = {3, 2, 3 * m, PIPELINE_1F1B_INTERLEAVED, 10, {0.1, 30, 30, 0.5}, 0, 1}, shared = apart;
        shared.devices = 3;
        ck_assert_double_eq_tol(run_chain(&apart, &bubble).makespan, run_chain(&shared, &bubble).makespan, NEAR);
    }
    /* Four on two: between half of the work and that on four of their own. */
    struct chain four = {4, 1, 8, PIPELINE_1F1B, 0, {0, 1, 1, 1}, 2, 1};
    double shared = run_chain(&four, &bubble).makespan;
    ck_assert_double_ge(shared, 4 * 8 * 3 / 2.0 - NEAR);
    ck_assert_double_le(shared, 4 * 8 * 3 / 2.0 + 3 * 3);
    /* Two copies of two stages on two devices take turns like one copy on one. */
    struct chain copies = {2, 1, 8, PIPELINE_1F1B, 0, {0, 1, 1, 1}, 2, 2};
    ck_assert_double_eq_tol(run_chain(&copies, &bubble).makespan, 2 * 8 * 3, NEAR);
}
END_TEST

/* -- Averages --------------------------------------------------------------------------------------------------- */

START_TEST(all_reduce)
{
    struct plan_cluster c = {.nodes = 8, .devices = 8, .local = {0, 1, 1e9, 1}, .remote = {0, 1, 1e9, 1}};
    ck_assert_double_eq(plan_all_reduce(&c, 1e9, 1, 1, 1), 0);
    /* As many bytes as a ring's: 2 (n - 1) / n. */
    for (int n = 2; n <= 8; n++) {
        ck_assert_double_eq_tol(plan_all_reduce(&c, 1e9, n, n, 8), 2.0 * (n - 1) / n, NEAR);
        ck_assert_double_eq_tol(plan_all_reduce(&c, 1e9, n, 1, 1), 2.0 * (n - 1) / n, NEAR);
    }
    /* 64 ranks of 8 nodes: 56 of 64 parts leave the node, where 8 ranks share the way. */
    ck_assert_double_eq_tol(plan_all_reduce(&c, 1e9, 64, 8, 8), 2 * 56.0 / 64 * 8, NEAR);
    c.remote.latency = 1e-3;
    ck_assert_double_eq_tol(plan_all_reduce(&c, 1e9, 2, 1, 1), 1 + 2e-3, NEAR);
    c.local.latency = 1e-3;
    ck_assert_double_eq_tol(plan_all_reduce(&c, 1, 10, 10, 1), 2 * (1e-3 + 2e-3), 1e-8);
}
END_TEST

START_TEST(buckets)
{
    static const double ready[] = {1, 2, 4}, seconds[] = {2, 2, 2};
    double compute;
    /* 1-3, 3-5, 5-7; the backward pass ends at 5. */
    ck_assert_double_eq_tol(plan_buckets(3, ready, seconds, 1, 5, &compute), 7, NEAR);
    ck_assert_double_eq_tol(compute, 5, NEAR);
    /* Nothing goes on beside: all behind one another. */
    ck_assert_double_eq_tol(plan_buckets(3, ready, seconds, 0, 5, &compute), 11, NEAR);
    ck_assert_double_eq_tol(compute, 11, NEAR);
    static const double late[] = {1, 3, 5}, short_ones[] = {1, 1, 1};
    ck_assert_double_eq_tol(plan_buckets(3, late, short_ones, 1, 5, &compute), 6, NEAR);
    ck_assert_double_eq_tol(plan_buckets(0, late, short_ones, 1, 5, &compute), 5, NEAR);
}
END_TEST

/* -- Models -------------------------------------------------------------------------------------------------------- */

#define WIDTH 256
#define LAYERS 16

/* Equal layers: product, tanh. */
static struct plan_model *layers(const char *batch, int micros, const char *optimizer)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    for (int i = 0; i < LAYERS; i++)
        fprintf(f, "state @w%d: f32[%d,%d] param\n", i, WIDTH, WIDTH);
    fprintf(f, "func @main(%%a0: f32[%s,%d]) -> (\"y\": f32[%s,%d]) {\n", batch, WIDTH, batch, WIDTH);
    for (int i = 0; i < LAYERS; i++)
        fprintf(f,
                "  %%p%d = state_read() {name = \"w%d\"} : f32[%d,%d]\n  %%m%d = matmul(%%a%d, %%p%d)\n  %%a%d = "
                "tanh(%%m%d)\n",
                i, i, WIDTH, WIDTH, i, i, i, i + 1, i);
    fprintf(f, "  return(%%a%d)\n}\n", LAYERS);
    fclose(f);
    struct ir_module *m = ir_parse(ctx, "layers.tcir", text, size);
    struct train_split split = {.partitions = 1, .microbatches = micros, .default_stage = -1};
    struct train_options o = {.loss = "mse", .optimizer = optimizer, .stages = &split, .data_parallel = true};
    struct plan_model *p = m ? plan_model_new(m, &o) : NULL;
    for (int i = 0; !p && i < ir_nmessages(ctx); i++)
        ir_print_message(stderr, ir_message(ctx, i));
    ck_assert_ptr_nonnull(p);
    free(text);
    return p;
}

static struct plan_cluster cluster(int nodes, int devices)
{
    struct plan_link link = {1e-6, 1e10, 1e10, 1};
    return (struct plan_cluster){.nodes = nodes,
                                 .devices = devices,
                                 .flops = 1e12,
                                 .bf16_flops = 1e12,
                                 .bandwidth = 1e11,
                                 .memory = 1e9,
                                 .cache_bandwidth = 1e11,
                                 .local = link,
                                 .remote = link};
}

static struct plan_layout layout(int partitions, int copies, int micros, int64_t batch)
{
    return (struct plan_layout){.partitions = partitions,
                                .copies = copies,
                                .micros = micros,
                                .kind = PIPELINE_1F1B,
                                .chunks = 1,
                                .batch = batch};
}

static struct plan_prediction predict(struct plan_model *m, const struct plan_cluster *c, struct plan_layout l)
{
    struct plan_prediction p;
    const char *why;
    bool ok = plan_predict(m, c, &l, &p, &why);
    ck_assert_msg(ok, "%s", ok ? "" : why);
    return p;
}

START_TEST(what_a_model_weighs)
{
    struct plan_model *m = layers("batch", 2, "adamw");
    double weights = 4.0 * LAYERS * WIDTH * WIDTH;
    ck_assert_double_eq(m->weights, weights);
    ck_assert_double_eq(m->trained, weights);
    ck_assert_double_eq_tol(m->state, 2 * weights, 100); /* and counters */
    ck_assert_int_eq(m->fixed_batch, 0);
    struct plan_cluster c = cluster(1, 1);
    c.bandwidth = 1e18; /* operations alone */
    struct plan_prediction p = predict(m, &c, layout(1, 1, 1, 64));
    double flops = 2.0 * 64 * LAYERS * WIDTH * WIDTH, small = 64.0 * LAYERS * WIDTH;
    ck_assert_double_eq_tol(p.pipeline, (3 * flops + 2 * small) / 1e12, 1e-9);
    ck_assert_double_eq(p.bubble, 0);
    ck_assert_double_eq(p.weights + p.gradients + p.state, 4 * weights + (m->state - 2 * weights));
    /* Where what a product moves fits a cache, that one's speed counts. */
    c.bandwidth = 1e8;
    c.cache = 1e9;
    c.cache_bandwidth = 1e18;
    ck_assert_double_eq_tol(predict(m, &c, layout(1, 1, 1, 64)).pipeline, p.pipeline, 1e-9);
    c.cache = 1e4;
    ck_assert_double_gt(predict(m, &c, layout(1, 1, 1, 64)).pipeline, 100 * p.pipeline);
    /* tanh's gradient reads its result, the product's its operand: one value a layer. */
    ck_assert_double_eq(p.activations, 64.0 * LAYERS * WIDTH * 4);
    ck_assert_double_eq(p.bytes[PLAN_AVERAGES], 0);
}
END_TEST

START_TEST(stages_and_copies)
{
    struct plan_model *m = layers("batch", 2, "adamw");
    struct plan_cluster c = cluster(1, 8);
    struct plan_prediction one = predict(m, &c, layout(1, 1, 1, 64)), four = predict(m, &c, layout(4, 1, 8, 64));
    struct plan_prediction both = predict(m, &c, layout(4, 2, 8, 64));
    double boundary = 8.0 * WIDTH * 4; /* bytes of a microbatch of 8 */
    ck_assert_double_eq(four.weights, one.weights / 4);
    ck_assert_double_eq_tol(four.bubble, 3.0 / 11, 0.04);
    /* A middle stage sends a value on and a gradient back for each microbatch. */
    ck_assert_double_eq(four.bytes[PLAN_ACTIVATIONS] + four.bytes[PLAN_GRADIENTS], 2 * 8 * boundary);
    ck_assert_double_eq(both.bytes[PLAN_AVERAGES], m->trained / 4);
    struct plan_layout zero = layout(1, 4, 1, 64);
    struct plan_prediction whole = predict(m, &c, zero);
    zero.zero = 1;
    struct plan_prediction divided = predict(m, &c, zero);
    ck_assert_double_eq(divided.state, whole.state / 4);
    ck_assert_double_eq(divided.bytes[PLAN_SHARES], m->trained * 3 / 4);
    ck_assert_double_eq(divided.bytes[PLAN_AVERAGES], m->trained * 3 / 4);
    ck_assert_double_eq(whole.bytes[PLAN_AVERAGES], m->trained * 2 * 3 / 4);
    ck_assert_double_le(whole.exposed, whole.average);
    m->bucket_cap = m->bucket_first = m->trained / 16;
    zero.zero = 2;
    struct plan_prediction two = predict(m, &c, zero);
    zero.zero = 3;
    struct plan_prediction three = predict(m, &c, zero);
    ck_assert_double_eq_tol(two.gradients, m->trained / 4 + m->trained / 8, 1);
    ck_assert_double_eq(two.weights, whole.weights);
    ck_assert_double_eq(two.bytes[PLAN_SHARES], m->trained * 3 / 4);
    ck_assert_double_eq_tol(three.gradients, two.gradients, 1);
    ck_assert_double_eq_tol(three.weights, whole.weights - m->trained * 5 / 8, 1);
    ck_assert_double_eq(three.bytes[PLAN_SHARES], m->trained * 2 * 3 / 4);
    ck_assert_double_gt(three.step, two.step * 0.5);
    ck_assert_double_lt(three.update, two.update);
    const char *why;
    zero.micros = 2;
    ck_assert(plan_predict(m, &c, &zero, &one, &why)); /* parameters for each microbatch */
    ck_assert_double_eq(one.bytes[PLAN_SHARES], 2 * three.bytes[PLAN_SHARES]);
    struct plan_layout many = layout(64, 1, 1, 64);
    ck_assert(!plan_predict(m, &c, &many, &one, &why) && !strcmp(why, "more ranks than devices"));
    c = cluster(8, 8);
    ck_assert(!plan_predict(m, &c, &many, &one, &why) && strstr(why, "cannot be cut"));
    many = layout(1, 3, 1, 64);
    ck_assert(!plan_predict(m, &c, &many, &one, &why) && strstr(why, "doesn't divide"));
}
END_TEST

/* A time that no run of the layout can be shorter than. */
static double bound(struct plan_model *m, const struct plan_cluster *c, const struct plan_layout *l)
{
    struct plan_prediction p;
    const char *why;
    return plan_evaluate(m, c, l, false, &p, &why) ? p.step : 0;
}

/* Schedules too large to be simulated are extended: they go on where the simulated ones end. */
START_TEST(extended_schedules)
{
    struct plan_model *m = layers("batch", 2, "adamw");
    struct plan_cluster c = cluster(1, 8);
    static const enum pipeline_kind kinds[] = {PIPELINE_SIMPLE, PIPELINE_INTERLEAVED, PIPELINE_1F1B};
    for (int k = 0; k < 3; k++) {
        struct plan_layout few = layout(8, 1, 8192, 8192), more = layout(8, 1, 16384, 16384),
                           many = layout(8, 1, 32768, 32768);
        few.kind = more.kind = many.kind = kinds[k];
        struct plan_prediction a = predict(m, &c, few), b = predict(m, &c, more), e = predict(m, &c, many);
        ck_assert(!a.extended && !b.extended && e.extended);
        ck_assert_double_eq_tol(e.pipeline, 3 * b.pipeline - 2 * a.pipeline, 1e-5 * e.pipeline);
        ck_assert_double_eq_tol(e.bubble, b.bubble, 1e-3);
        ck_assert_double_ge(e.step, bound(m, &c, &many));
    }
}
END_TEST

/* The best of a search that passes over slower ones are those of one that looks at all. */
START_TEST(searches)
{
    struct plan_model *m = layers("batch", 2, "adamw");
    static const int ranks[] = {1, 6, 16, 64};
    struct plan_cluster c = cluster(8, 8);
    c.remote.bandwidth = c.remote.reduce = 1e9;
    for (int i = 0; i < 4; i++) {
        struct plan_search all = {.ranks = ranks[i], .batch = 192, .kind = -1, .zero = -1, .spread = -1}, some = all;
        int n, best;
        some.top = 5;
        struct plan_prediction *x = plan_search(m, &c, &all, &n), *y = plan_search(m, &c, &some, &best);
        ck_assert_int_gt(n, 0);
        ck_assert_int_eq(all.slower, 0);
        ck_assert_int_eq(all.considered, n + all.impossible + all.too_large);
        ck_assert_int_le(best, n);
        for (int k = 0; k < n; k++) {
            ck_assert_int_eq(x[k].layout.partitions * x[k].layout.copies * x[k].layout.parts, ranks[i]);
            ck_assert_double_ge(x[k].step, bound(m, &c, &x[k].layout) * (1 - 1e-9));
            ck_assert(k == 0 || x[k].step >= x[k - 1].step * (1 - 1e-12));
        }
        for (int k = 0; k < 5 && k < n; k++)
            ck_assert_double_eq_tol(x[k].step, y[k].step, 1e-12);
    }
    struct plan_search small = {.ranks = 4, .batch = 192, .kind = -1, .zero = -1, .spread = -1};
    int n;
    c.memory = 1e6;
    plan_search(m, &c, &small, &n);
    ck_assert_int_eq(n, 0);
    ck_assert_int_gt(small.too_large, 0);
    ck_assert_double_gt(small.least_memory, 1e6);
}
END_TEST

/* A batch that is a number in the model is what each copy takes. */
START_TEST(a_fixed_batch)
{
    struct plan_model *m = layers("32", 1, "sgd");
    struct plan_cluster c = cluster(1, 8);
    struct plan_search s = {.ranks = 4, .kind = -1, .zero = -1, .spread = -1};
    int n;
    ck_assert_int_eq(m->fixed_batch, 32);
    struct plan_prediction *x = plan_search(m, &c, &s, &n);
    ck_assert_int_gt(n, 0);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(x[i].layout.batch, 32 * x[i].layout.copies);
}
END_TEST

/* -- Clusters ------------------------------------------------------------------------------------------------------ */

START_TEST(cluster_files)
{
    struct plan_cluster c, again;
    static const char text[] =
        "nodes = 4 # four\n[node]\ndevices=8\nsharing = divided\n[device]\nflops = 1.5T\nbandwidth= 2e12\n"
        "memory = 80 Gi\n[local]\nbandwidth = 300G\nlatency = 3us\n";
    ck_assert(plan_cluster_read(ctx, "a", text, &c));
    ck_assert_int_eq(c.nodes, 4);
    ck_assert_int_eq(c.devices, 8);
    ck_assert(c.divided);
    ck_assert_double_eq(c.flops, 1.5e12);
    ck_assert_double_eq(c.bf16_flops, 1.5e12);
    ck_assert_double_eq(c.memory, 80 * 1073741824.0);
    ck_assert_double_eq_tol(c.local.latency, 3e-6, 1e-18);
    ck_assert_double_eq(c.remote.reduce, 300e9);
    ck_assert_double_eq(c.node_bandwidth, 0);
    char *written = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&written, &size);
    plan_cluster_write(f, &c);
    fclose(f);
    ck_assert_msg(plan_cluster_read(ctx, "b", written, &again), "%s", written);
    free(written);
    ck_assert_double_eq_tol(again.memory, c.memory, c.memory * 1e-3);
    again.memory = c.memory;
    ck_assert_double_eq_tol(again.local.latency, c.local.latency, 1e-12);
    ck_assert_double_eq(again.remote.bandwidth, c.remote.bandwidth);
    ck_assert_int_eq(again.divided, c.divided);
}
END_TEST

START_TEST(wrong_cluster_files)
{
    static const struct {
        const char *text, *says;
    } cases[] = {{"nodes = 0\n", "nodes = 0: expected a whole number"},
                 {"nodes = 2\nnodes = 3\n", "'nodes' is given twice"},
                 {"[disk]\n", "unknown section [disk]"},
                 {"nodes\n", "expected key = value"},
                 {"[device]\nflops = 3 dozen\n", "flops = 3 dozen: expected a number a second"},
                 {"[device]\nmemory = 3us\n", "memory = 3us: expected a number of bytes"},
                 {"[local]\noverlap = 2\n", "overlap = 2: expected a number from 0 to 1"},
                 {"[local]\nlatency = -1us\n", "expected a time"},
                 {"[node]\nsharing = maybe\n", "expected whole or divided"},
                 {"[device]\nflops = nan\n", "expected a number a second"},
                 {"devices = 2\n", "unknown key 'devices'; expected one of nodes"},
                 {"nodes = 2\n", "'flops' in [device] is missing"},
                 {"", "'flops' in [device] is missing"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_cluster c;
        ck_assert(!plan_cluster_read(ctx, "a", cases[i].text, &c));
        const char *said = ir_message(ctx, ir_nmessages(ctx) - 1)->text;
        ck_assert_msg(strstr(said, cases[i].says) != NULL, "'%s' does not say '%s'", said, cases[i].says);
    }
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("plan");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, bubbles);
    tcase_add_test(c, bubbles_of_chunks);
    tcase_add_test(c, messages);
    tcase_add_test(c, shared_devices);
    tcase_add_test(c, all_reduce);
    tcase_add_test(c, buckets);
    tcase_add_test(c, what_a_model_weighs);
    tcase_add_test(c, stages_and_copies);
    tcase_add_test(c, extended_schedules);
    tcase_add_test(c, searches);
    tcase_add_test(c, a_fixed_batch);
    tcase_add_test(c, cluster_files);
    tcase_add_test(c, wrong_cluster_files);
    tcase_set_timeout(c, 120);
    Suite *s = suite_create("plan");
    suite_add_tcase(s, c);
    return run_tests(s);
}
