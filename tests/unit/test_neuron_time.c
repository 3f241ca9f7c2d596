/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated time beside the published rules: the cost of each instruction (cycles of its engine, back to back) as its
 * formula says, exactly; what engines may not share; DMA within 10 % of the published rates. The formulas stand here by
 * hand, apart from the simulator's.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/neuronsim.h"
#include "tests/unit/neuron_costs.h"
#include "tests/unit/suite.h"

static struct neuron_counters time_of(const char *text, int sharers)
{
    char error[NEURON_ERROR] = "";
    struct neuron_counters n;
    struct neuron_program *p = neuron_assemble(text, strlen(text), error);
    ck_assert_msg(p != NULL, "%s\n%s", error, text);
    struct neuron_sim *s = neuron_sim_new(p, &(struct neuron_config){.sharers = sharers}, error);
    ck_assert_msg(s != NULL && neuron_sim_run(s, &n, error), "%s", error);
    neuron_sim_free(s);
    neuron_program_free(p);
    return n;
}

/* `lines` n times on an engine. */
static uint64_t repeated(const char *core, const char *engine, const char *first, const char *lines, int n)
{
    static char text[1 << 18];
    size_t at = (size_t)snprintf(text, sizeof text, "core %s\ntensor x temp f32 [128, 65536]\nengine %s\n%s\n", core,
                                 engine, first);
    for (int k = 0; k < n; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\n", lines);
    return time_of(text, 1).ticks;
}

/* Cycles of the engine that one more repetition takes. */
static double cycles(const char *core, const char *engine, const char *first, const char *lines)
{
    int ticks = *engine == 't' ? 2 : *engine == 'v' && core[3] != '3' ? 5 : 4;
    return (double)(repeated(core, engine, first, lines, 60) - repeated(core, engine, first, lines, 20)) / 40 / ticks;
}

START_TEST(instruction_costs)
{
    double got = cycles(costs[_i].core, costs[_i].engine, costs[_i].first, costs[_i].lines);
    ck_assert_msg(fabs(got - costs[_i].cycles) < 0.001, "%s, %s: %g cycles, not %g", costs[_i].core, costs[_i].lines,
                  got, costs[_i].cycles);
}
END_TEST

/* -- Clocks -- */

START_TEST(clocks)
{
    static const struct {
        const char *core, *engine;
        double ghz;
    } list[] = {{"trn1", "tensor", 2.8}, {"trn1", "scalar", 1.4}, {"trn1", "gpsimd", 1.4}, {"trn1", "vector", 1.12},
                {"trn2", "tensor", 2.4}, {"trn2", "scalar", 1.2}, {"trn2", "gpsimd", 1.2}, {"trn2", "vector", 0.96},
                {"trn3", "tensor", 2.4}, {"trn3", "scalar", 1.2}, {"trn3", "gpsimd", 1.2}, {"trn3", "vector", 1.2}};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        const char *line = *list[k].engine == 't' ? "pe_transpose psum.f32[0:128, 0, 128], sbuf.bf16[0:128, 0, 128]"
                                                  : "tensor_copy " S("f32", 8192, 128) ", " S("f32", 0, 128);
        uint64_t ticks =
            repeated(list[k].core, list[k].engine, "", line, 101) - repeated(list[k].core, list[k].engine, "", line, 1);
        double ns = (double)ticks / (list[k].core[3] == '1' ? 5.6 : 4.8);
        ck_assert_msg(fabs(ns - 12800 / list[k].ghz) < 1e-6 * ns, "%s %s: %g ns", list[k].core, list[k].engine, ns);
    }
    /* The observed 189 ns of dependent instructions. */
    double ns =
        (double)(repeated("trn1", "scalar", "", "activation " S("f32", 0, 1) ", " S("f32", 0, 1) " func=exp", 11) -
                 repeated("trn1", "scalar", "", "activation " S("f32", 0, 1) ", " S("f32", 0, 1) " func=exp", 1)) /
        10 / 5.6;
    ck_assert(fabs(ns - 189) < 1);
}
END_TEST

/* 128 x 128 products of 2 FLOPs a cycle: 91.75 and 78.64 TFLOP/s; of MX formats four times that, 314.6. */
START_TEST(peak)
{
    for (int v3 = 0; v3 < 2; v3++) {
        static char text[1 << 17];
        size_t at = (size_t)snprintf(text, sizeof text, "core trn%d\nengine tensor\n", 1 + v3);
        for (int k = 0; k < 500; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s\n", MM("bf16", 128, 512));
        struct neuron_counters n = time_of(text, 1);
        ck_assert(n.flops == 500 * 2.0 * 128 * 128 * 512);
        ck_assert(fabs(n.flops / n.seconds / (v3 ? 78.64e12 : 91.75e12) - 1) < 0.002);
        ck_assert(fabs(n.flops / n.peak_flops - 1) < 0.002);
    }
    static const char mx[] = "core trn3\nengine tensor\nloop 500 {\n"
                             "load_stationary_mx sbuf.f8e4m3x4[0:128, 0, 128], sbuf.u8[0:128, 512, 128]\n"
                             "matmul_mx psum.f32[0:128, 0, 512], sbuf.f8e4m3x4[0:128, 1024, 512], "
                             "sbuf.u8[0:128, 4096, 512]\n}\n";
    struct neuron_counters n = time_of(mx, 1);
    ck_assert(n.flops == 500 * 2.0 * 128 * 512 * 512 && fabs(n.flops / n.seconds / 314.6e12 - 1) < 0.02);
}
END_TEST

/* -- What engines may not share -- */

static const struct {
    const char *core, *a, *b;
    bool apart; /* one at a time */
} pairs[] = {
    {"trn1", "vector",
     "tensor_copy sbuf.f32[0:128, 8192, 1120], sbuf.f32[0:128, 0, 1120]\n;gpsimd tensor_copy sbuf.f32[0:128, 32768, "
     "1400], sbuf.f32[0:128, 16384, 1400]\n",
     true},
    {"trn2", "vector",
     "tensor_copy sbuf.f32[0:128, 8192, 1120], sbuf.f32[0:128, 0, 1120]\n;gpsimd tensor_copy sbuf.f32[0:128, 32768, "
     "1400], sbuf.f32[0:128, 16384, 1400]\n",
     false},
    {"trn2", "vector",
     "tensor_copy sbuf.bf16[0:128, 8192, 4480], sbuf.bf16[0:128, 0, 4480]\n;gpsimd tensor_copy sbuf.f32[0:128, 49152, "
     "1400], sbuf.f32[0:128, 32768, 1400]\n",
     true},
    {"trn1", "vector",
     "tensor_copy psum.f32[0:128, 0, 1120], psum.f32[0:128, 6144, 1120@0]\n;scalar tensor_copy psum.f32[0:128, 8192, "
     "1400], psum.f32[0:128, 14336, 1400@0]\n",
     true},
    {"trn2", "vector",
     "tensor_copy psum.f32[0:128, 0, 1120], psum.f32[0:128, 6144, 1120@0]\n;scalar tensor_copy psum.f32[0:128, 8192, "
     "1400], psum.f32[0:128, 14336, 1400@0]\n",
     false},
    {"trn2", "vector",
     "tensor_copy psum.f32[0:128, 0, 1120], psum.f32[0:128, 6144, 1120@0]\n;scalar tensor_copy psum.f32[0:128, 4096, "
     "1400], psum.f32[0:128, 14336, 1400@0]\n",
     true},
    {"trn1", "vector",
     "tensor_copy sbuf.f32[0:128, 8192, 1120], sbuf.f32[0:128, 0, 1120]\n;scalar tensor_copy sbuf.f32[0:128, 32768, "
     "1400], sbuf.f32[0:128, 16384, 1400]\n",
     false},
};

START_TEST(shared_memory)
{
    char text[8192], a[256], other[16], b[256];
    ck_assert_int_eq(sscanf(pairs[_i].b, "%255[^;];%15s %255[^\n]", a, other, b), 3);
    size_t at = (size_t)snprintf(text, sizeof text, "core %s\nengine vector\n", pairs[_i].core);
    for (int k = 0; k < 10; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", a);
    at += (size_t)snprintf(text + at, sizeof text - at, "engine %s\n", other);
    for (int k = 0; k < 10; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\n", b);
    double ns = time_of(text, 1).seconds * 1e9, each = 10 * 1000 * (pairs[_i].core[3] == '1' ? 1 : 1.1666667);
    /* Each engine is busy for 10 us (11.7 on trn2), and 0.2 us until the last result is seen. */
    ck_assert_msg(fabs(ns - each * (1 + pairs[_i].apart)) < 0.05 * each, "%s: %g ns", pairs[_i].b, ns);
}
END_TEST

/* -- DMA -- */

static const struct {
    const char *core, *engine, *lines;
    int sharers;
    double ns; /* published, within 10 %; queues are drained one after the other where lines wait */
} transfers[] = {
    /* About 1300 ns from semaphore to start; a row counts 512 bytes at least; 17 and 23 bytes/ns an engine, 16
     * engines */
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 1024], x[0, 128@65536, 1024]", 1, 1300 + 8 * 4096 / 17.0},
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 1], x[0, 128@65536, 1]", 1, 1300 + 8 * 512 / 17.0},
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 32], x[0, 128@65536, 32]", 1, 1300 + 8 * 512 / 17.0},
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 512], x[0, 128@65536, 512]", 1, 1300 + 8 * 2048 / 17.0},
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 1024@2], x[0, 128@65536, 1024@2]", 1,
     1300 + 128 * 1024 / 16 * 512 / 17.0}, /* each element a row of its own */
    {"trn1", "vector", "dma sbuf.f32[0:16, 0, 8192], x[0, 16@65536, 8192]", 1, 1300 + 32768 / 17.0},
    {"trn2", "vector", "dma sbuf.f32[0:16, 0, 8192], x[0, 16@65536, 8192]", 1,
     1300 + 1416}, /* measured: one engine moves 32 KiB in 1416 ns */
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 32768], x[0, 128@65536, 32768]", 1,
     1300 + 128 * 131072 / 272.0}, /* 272 bytes/ns a core */
    {"trn2", "vector", "dma sbuf.f32[0:128, 0, 32768], x[0, 128@65536, 32768]", 1, 1300 + 128 * 131072 / 368.0},
    /* A transfer of one row uses one engine */
    {"trn1", "vector", "dma x[0, 65536], x[262144, 65536]", 1, 1300 + 262144 / 17.0},
    /* 600 ns for each DMA instruction of Sync and Scalar on v3 */
    {"trn2", "sync", "dma sbuf.f32[0:128, 0, 1024], x[0, 128@65536, 1024]", 1, 600 + 1300 + 8 * 4096 / 23.0},
    {"trn2", "scalar", "dma sbuf.f32[0:128, 0, 1024], x[0, 128@65536, 1024]", 1, 600 + 1300 + 8 * 4096 / 23.0},
    {"trn1", "sync", "dma sbuf.f32[0:128, 0, 1024], x[0, 128@65536, 1024]", 1, 1300 + 8 * 4096 / 17.0},
    /* In a queue one after the other, start times hidden; two queues share the engines */
    {"trn1", "vector",
     "dma sbuf.f32[0:128, 0, 1024], x[0, 128@65536, 1024]\ndma sbuf.f32[0:128, 4096, 1024], x[4096, 128@65536, 1024]",
     1, 1300 + 16 * 4096 / 17.0},
    {"trn1", "vector",
     "dma sbuf.f32[0:128, 0, 1024], x[0, 128@65536, 1024]\ndma sbuf.f32[0:128, 4096, 1024], x[4096, 128@65536, 1024] "
     "queue=1",
     1, 1300 + 16 * 4096 / 17.0},
    /* One that waits for the other starts anew */
    {"trn1", "vector",
     "dma sbuf.f32[0:128, 0, 1024], x[0, 128@65536, 1024] signal s0\ndma sbuf.f32[0:128, 4096, 1024], x[4096, "
     "128@65536, 1024] wait s0>=16",
     1, 2 * (1300 + 8 * 4096 / 17.0)},
    /* Transposes: 90 % of the rate from HBM, 50 % within SBUF */
    {"trn2", "vector", "dma_transpose sbuf.f32[0:128, 0, 128], x[0, 128, 128]", 1, 1300 + 8 * 512 / (0.9 * 23)},
    {"trn2", "vector", "dma_transpose sbuf.f32[0:128, 0, 128], sbuf.f32[0:128, 4096, 128]", 1,
     1300 + 8 * 512 / (0.5 * 23)},
    /* Two sources are read */
    {"trn1", "vector", "dma_add x[0, 128@65536, 1024], x[8192, 128@65536, 1024], sbuf.f32[0:128, 0, 1024]", 1,
     1300 + 2 * 8 * 4096 / 17.0},
    /* HBM's 820 and 2900 GB/s shared by the cores of a chip */
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 32768], x[0, 128@65536, 32768]", 2, 1300 + 128 * 131072 / 272.0},
    {"trn2", "vector", "dma sbuf.f32[0:128, 0, 32768], x[0, 128@65536, 32768]", 8, 1300 + 128 * 131072 / 362.5},
    /* Of 2-byte elements, too */
    {"trn2", "vector", "dma_transpose sbuf.bf16[0:128, 0, 128], h[0, 128, 128]", 1, 1300 + 8 * 512 / (0.9 * 23)},
    /* GpSimd builds the descriptors of rows by index, 150 cycles and one for each of them, behind an index that is
     * visible after 164 */
    {"trn1", "gpsimd",
     "memset sbuf.i32[0:128, 8192, 1], 0 signal s1\ndma_gather sbuf.f32[0:128, 0, 1024], x[0, 128@65536, 1024], "
     "sbuf.i32[0:128, 8192, 1] wait s1>=1",
     1, (164 + 150 + 128) / 1.4 + 1300 + 8 * 4096 / 17.0},
    {"trn1", "gpsimd",
     "memset sbuf.i32[0:128, 8192, 1], 0 signal s1\ndma_scatter x[0, 128@65536, 1024], sbuf.f32[0:128, 0, 1024], "
     "sbuf.i32[0:128, 8192, 1] wait s1>=1",
     1, (164 + 150 + 128) / 1.4 + 1300 + 8 * 4096 / 17.0},
    /* Casts cost nothing but the wider side's bytes */
    {"trn1", "vector", "dma sbuf.bf16[0:128, 0, 1024], x[0, 128@65536, 1024]", 1, 1300 + 8 * 4096 / 17.0},
};

START_TEST(dma_times)
{
    char text[2048];
    snprintf(text, sizeof text,
             "core %s\ntensor x temp f32 [128, 65536]\ntensor h temp bf16 [128, 128]\nengine %s\n%s\n",
             transfers[_i].core, transfers[_i].engine, transfers[_i].lines);
    double ns = time_of(text, transfers[_i].sharers).seconds * 1e9;
    ck_assert_msg(fabs(ns / transfers[_i].ns - 1) < 0.1, "%s, %s: %g ns, not %g", transfers[_i].core,
                  transfers[_i].lines, ns, transfers[_i].ns);
}
END_TEST

/* A queue's transfers go in order, those of different queues take turns by packets of 4 KiB: when the second of two
 * transfers has ended, 32 KiB and 4 KiB a partition, 8 partitions for each of the 16 engines. */
START_TEST(queues)
{
    static const struct {
        int queue;
        double bytes; /* that an engine has moved by then */
    } list[] = {{0, 8 * (32768 + 4096)}, {1, 2 * 8 * 4096}};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "tensor x temp f32 [128, 65536]\nengine sync\ndma sbuf.f32[0:128, 0, 8192], x[0, 128@65536, 8192] "
                 "signal s0\ndma sbuf.f32[0:128, 32768, 1024], x[32768, 128@65536, 1024] queue=%d signal s1\nengine "
                 "vector\nnop wait s1>=16\nengine scalar\nnop wait s0>=16\n",
                 list[k].queue);
        struct neuron_counters n = time_of(text, 1);
        double ns = (double)n.engine[NEURON_VECTOR].waiting / 5.6, all = (double)n.engine[NEURON_SCALAR].waiting / 5.6;
        ck_assert_msg(fabs(ns / (1300 + list[k].bytes / 17) - 1) < 0.1, "queue %d: %g ns", list[k].queue, ns);
        ck_assert_msg(list[k].queue ? all > ns * 2 : all < ns, "queue %d: the first ends after %g ns", list[k].queue,
                      all);
    }
}
END_TEST

/* Whatever its shape, a transfer adds 16 to its semaphore, 1 for each engine, and no more. */
START_TEST(sixteen)
{
    static const char *const shapes[] = {"sbuf.f32[0:1, 0, 1], x[0, 1, 1]", "sbuf.f32[0:3, 0, 7], x[0, 3@65536, 7]",
                                         "sbuf.f32[0:128, 0, 1024], x[0, 128@65536, 1024]",
                                         "sbuf.f32[0:32, 0, 40@2], x[0, 32@65536, 40@3]"};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int wanted = 16; wanted <= 17; wanted++) {
            char text[512], error[NEURON_ERROR] = "";
            snprintf(text, sizeof text,
                     "tensor x temp f32 [128, 65536]\nengine sync\ndma %s signal s0\nengine vector\nnop wait s0>=%d\n",
                     shapes[k], wanted);
            struct neuron_program *p = neuron_assemble(text, strlen(text), error);
            ck_assert_msg(p != NULL, "%s", error);
            struct neuron_sim *s = neuron_sim_new(p, &(struct neuron_config){0}, error);
            ck_assert(s != NULL);
            bool ran = neuron_sim_run(s, NULL, error);
            ck_assert_msg(ran == (wanted == 16), "%s, %d: %s", shapes[k], wanted, error);
            ck_assert_msg(ran || strstr(error, "s0 >= 17, which is 16"), "%s", error);
            neuron_sim_free(s);
            neuron_program_free(p);
        }
}
END_TEST

/* What the guide asks rows to be: 4 KiB and 2 KiB lose nothing to the least that a row costs, 256 bytes half, 64 bytes
 * 7 of 8 parts. */
START_TEST(row_lengths)
{
    static const struct {
        int elements;
        double efficiency;
    } list[] = {{1024, 1}, {512, 1}, {128, 1}, {64, 0.5}, {16, 0.125}};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        char text[256];
        snprintf(text, sizeof text,
                 "tensor x temp f32 [128, 65536]\nengine sync\ndma sbuf.f32[0:128, 0, %d], x[0, 128@65536, %d]\n",
                 list[k].elements, list[k].elements);
        struct neuron_counters n = time_of(text, 1);
        ck_assert(n.dma_rows == 128 && (double)n.dma_bytes == list[k].efficiency * (double)n.dma_paid_bytes);
    }
}
END_TEST

/* What is counted: rows, bytes, bytes that were paid for. */
START_TEST(counters)
{
    struct neuron_counters n =
        time_of("tensor x temp f32 [128, 65536]\nengine sync\ndma sbuf.f32[0:128, 0, 32], x[0, 128@65536, 32] signal "
                "s0\nengine vector\nnop wait s0>=16\nmemset " S("f32", 0, 512) ", 0\n",
                1);
    ck_assert(n.dma_transfers == 1 && n.dma_rows == 128 && n.dma_bytes == 128 * 128 && n.dma_paid_bytes == 128 * 512);
    ck_assert(n.hbm_read == 128 * 128 && n.hbm_written == 0);
    ck_assert(n.engine[NEURON_VECTOR].instructions == 2 && n.engine[NEURON_VECTOR].busy == 5 * (512 + 8));
    ck_assert(n.engine[NEURON_VECTOR].waiting > 1300 * 56 / 10 && n.engine[NEURON_SYNC].waiting == 0);
    ck_assert(n.ticks_in_10ns == 56);
}
END_TEST

/* Products, their loads and the copies behind them overlap: a chain of tiles takes what its busiest engine takes. */
START_TEST(overlap)
{
    static char text[1 << 16];
    size_t at = 0;
    at += (size_t)snprintf(text + at, sizeof text - at, "engine tensor\n");
    for (int k = 0; k < 64; k++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "load_stationary sbuf.bf16[0:128, 0, 128]%s\nmatmul psum.f32[0:128, %d, 512], "
                               "sbuf.bf16[0:128, 1024, 512] signal s0\n",
                               "", k % 8 * 2048);
    at += (size_t)snprintf(text + at, sizeof text - at, "engine scalar\n");
    for (int k = 0; k < 64; k++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "activation sbuf.bf16[0:128, 4096, 512], psum.f32[0:128, %d, 512] wait s0>=%d\n",
                               k % 8 * 2048, k + 1);
    double ns = time_of(text, 1).seconds * 1e9;
    ck_assert_msg(fabs(ns - 64 * 512 / 1.4 - (512 / 2.8 + 128 / 2.8 + 200 / 1.4)) < 20, "%g", ns);
}
END_TEST

#define LOOP_OVER(test, list) tcase_add_loop_test(t, test, 0, (int)(sizeof(list) / sizeof *(list)))

int main(void)
{
    Suite *s = suite_create("neuron_time");
    TCase *t = tcase_create("neuron_time");
    LOOP_OVER(instruction_costs, costs);
    tcase_add_test(t, clocks);
    tcase_add_test(t, peak);
    LOOP_OVER(shared_memory, pairs);
    LOOP_OVER(dma_times, transfers);
    tcase_add_test(t, queues);
    tcase_add_test(t, sixteen);
    tcase_add_test(t, row_lengths);
    tcase_add_test(t, counters);
    tcase_add_test(t, overlap);
    suite_add_tcase(s, t);
    return run_tests(s);
}
