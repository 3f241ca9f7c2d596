/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published rules as the compiler has them (compiler/neuron/cost.def) beside the simulator's own figures
 * (sim/neuron/timing.def and its code): they are written separately, and agree on every instruction and transfer below.
 * Each figure of either side is then altered by itself, and each row of cost.def taken away: they must disagree.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/neuron/cost.h"
#include "sim/neuron/neuron_int.h"
#include "tests/unit/neuron_costs.h"
#include "tests/unit/suite.h"

enum { FEW = 6, MANY = 14 };

/* What is simulated, assembled once: lines a few and many times (few may be missing: then what the program takes in all
 * is compared). */
static struct sample {
    struct neuron_program *few, *many;
    enum neuron_engine engine;
    int sharers;
    struct nk_transfer_of transfer; /* rows: it is one */
} samples[256];
static int nsamples;

static struct neuron_program *program(const char *core, const char *engine, const char *first, const char *lines, int n)
{
    static char text[1 << 15];
    char error[NEURON_ERROR] = "";
    size_t at = (size_t)snprintf(
        text, sizeof text, "core %s\ntensor x temp f32 [128, 65536]\ntensor h temp bf16 [128, 128]\nengine %s\n%s\n",
        core, engine, first);
    for (int k = 0; k < n; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\n", lines);
    struct neuron_program *p = neuron_assemble(text, strlen(text), error);
    if (!p) { /* in front of Check's tests */
        fprintf(stderr, "%s\n%s", error, text);
        exit(1);
    }
    return p;
}

static struct sample *add(const char *core, const char *engine, const char *first, const char *lines, bool repeated)
{
    struct sample *s = &samples[nsamples++];
    s->sharers = 1;
    s->few = repeated ? program(core, engine, first, lines, FEW) : NULL;
    s->many = program(core, engine, first, lines, repeated ? MANY : 1);
    while (strcmp(neuron_engine_name(s->engine), engine) != 0)
        s->engine++;
    return s;
}

static const struct {
    const char *core, *engine, *line;
    enum neuron_op op;
    bool on_chip;
    int sharers;
    int64_t rows, bytes;
} transfers[] = {
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 8192], x[0, 128@65536, 8192]", NEURON_OP_DMA, false, 1, 128, 32768},
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 8192], x[0, 128@65536, 8192]", NEURON_OP_DMA, false, 8, 128, 32768},
    {"trn1", "sync", "dma sbuf.f32[0:16, 0, 1], x[0, 16@65536, 1]", NEURON_OP_DMA, false, 1, 16, 4},
    {"trn1", "vector", "dma sbuf.f32[0:128, 0, 1024@2], x[0, 128@65536, 1024@2]", NEURON_OP_DMA, false, 1, 131072, 4},
    {"trn3", "vector", "dma sbuf.f32[0:128, 0, 8192], x[0, 128@65536, 8192]", NEURON_OP_DMA, false, 1, 128, 32768},
    {"trn3", "vector", "dma sbuf.f32[0:128, 0, 8192], x[0, 128@65536, 8192]", NEURON_OP_DMA, false, 16, 128, 32768},
    {"trn3", "sync", "dma sbuf.f32[0:16, 0, 1], x[0, 16@65536, 1]", NEURON_OP_DMA, false, 1, 16, 4},
    {"trn3", "scalar", "dma sbuf.bf16[0:128, 0, 8192], x[0, 128@65536, 8192]", NEURON_OP_DMA, false, 1, 128, 32768},
    {"trn2", "vector", "dma sbuf.f32[0:128, 0, 8192], x[0, 128@65536, 8192]", NEURON_OP_DMA, false, 1, 128, 32768},
    {"trn2", "vector", "dma sbuf.f32[0:128, 0, 8192], x[0, 128@65536, 8192]", NEURON_OP_DMA, false, 16, 128, 32768},
    {"trn2", "sync", "dma sbuf.f32[0:16, 0, 1], x[0, 16@65536, 1]", NEURON_OP_DMA, false, 1, 16, 4},
    {"trn2", "scalar", "dma sbuf.bf16[0:128, 0, 8192], x[0, 128@65536, 8192]", NEURON_OP_DMA, false, 1, 128, 32768},
    {"trn2", "vector", "dma_transpose sbuf.f32[0:128, 0, 128], x[0, 128, 128]", NEURON_OP_DMA_TRANSPOSE, false, 1, 128,
     512},
    {"trn2", "vector", "dma_transpose sbuf.f32[0:128, 0, 128], sbuf.f32[0:128, 4096, 128]", NEURON_OP_DMA_TRANSPOSE,
     true, 1, 128, 512},
};

static void make_samples(void)
{
    static const char *const engines[] = {"tensor", "scalar", "gpsimd", "vector", "sync"}, *const cores[] = {
                                                                                               "trn1", "trn2", "trn3"};
    for (size_t k = 0; k < sizeof costs / sizeof *costs; k++)
        add(costs[k].core, costs[k].engine, costs[k].first, costs[k].lines, true);
    for (int c = 0; c < NEURON_NCORES; c++) {
        for (int e = 0; e < NEURON_NENGINES; e++)
            add(cores[c], engines[e], "", "nop", true);
        add(cores[c], "tensor", "", MM("bf16", 128, 512), false);
        add(cores[c], "scalar", "", "reg_load r2, x.i32[4, 1]", true);
        add(cores[c], "scalar", "", "reg_store x.i32[4, 1], r2", true);
    }
    for (size_t k = 0; k < sizeof transfers / sizeof *transfers; k++) {
        struct sample *s = add(transfers[k].core, transfers[k].engine, "", transfers[k].line, false);
        s->sharers = transfers[k].sharers;
        s->transfer = (struct nk_transfer_of){s->many->core, s->engine,         transfers[k].op,   transfers[k].on_chip,
                                              s->sharers,    transfers[k].rows, transfers[k].bytes};
    }
    add("trn1", "gpsimd", "", "dma_gather sbuf.f32[0:16, 0, 1], x[0, 128@65536, 1], sbuf.i32[0:16, 8192, 1]", true);
    add("trn1", "gpsimd", "", "dma_scatter x[0, 128@65536, 1], sbuf.f32[0:16, 0, 1], sbuf.i32[0:16, 8192, 1]", true);
}

/* -- Both sides -- */

struct figures {
    struct timing timing[NEURON_NCORES];
    int figures[FIGURES];
};

static double simulated(const struct figures *f, const struct sample *x, const struct neuron_program *p)
{
    char error[NEURON_ERROR] = "";
    struct neuron_counters n;
    struct neuron_sim *s = neuron_sim_new(p, &(struct neuron_config){.sharers = x->sharers}, error);
    ck_assert_msg(s != NULL, "%s", error);
    s->t = &f->timing[p->core];
    s->figures = f->figures;
    ck_assert_msg(neuron_sim_run(s, &n, error), "%s", error);
    neuron_sim_free(s);
    return n.seconds * 1e9;
}

static bool depends_on_itself(const struct neuron_instr *i)
{
    return i->noperands > 1 && i->operand[1].space == i->operand[0].space &&
           i->operand[1].offset == i->operand[0].offset;
}

/* Of the last n instructions, what one after the other take; loads of the tensor engine run beside its products, but
 * for the first one. */
static double published(const struct nk_costs *c, const struct sample *x, int n, bool alone)
{
    const struct neuron_stream *s = &x->many->stream[x->engine];
    int64_t cycles = 0, loads = 0, latency = 0;
    for (int k = s->n - n; k < s->n; k++) {
        const struct neuron_instr *i = &s->code[k];
        *(neuron_is_load((enum neuron_op)i->op) ? &loads : &cycles) += nk_cycles(c, x->many->core, x->engine, i);
        if (depends_on_itself(i) || (alone && !x->transfer.rows))
            latency = c->latency[x->engine];
    }
    cycles = alone ? cycles + loads : loads > cycles ? loads : cycles;
    double ns = (double)(cycles + latency) * 1e3 / c->core[x->many->core].mhz[x->engine];
    return x->transfer.rows ? ns + nk_transfer_ns(c, &x->transfer) : ns;
}

/* The first sample of which the two sides say something else by more than 1 %, or -1. */
static int disagreement(const struct nk_costs *c, const struct figures *f)
{
    for (int core = 0; core < NEURON_NCORES; core++)
        if (f->timing[core].hbm_bytes != (int64_t)c->core[core].gib << 30)
            return nsamples;
    for (int k = 0; k < nsamples; k++) {
        const struct sample *x = &samples[k];
        double sim, rule;
        if (x->few) {
            int n = (x->many->stream[x->engine].n - x->few->stream[x->engine].n) / (MANY - FEW);
            sim = (simulated(f, x, x->many) - simulated(f, x, x->few)) / (MANY - FEW);
            rule = published(c, x, n, false);
        } else {
            sim = simulated(f, x, x->many);
            rule = published(c, x, x->many->stream[x->engine].n, true);
        }
        if (fabs(sim / rule - 1) > 0.01)
            return k;
    }
    return -1;
}

static struct nk_costs rules;
static struct figures own;

static void setup(void)
{
    rules = nk_costs;
    memcpy(own.timing, neuron_timings, sizeof own.timing);
    memcpy(own.figures, neuron_figures, sizeof own.figures);
    if (!nsamples)
        make_samples();
}

static const char *text_of(int k)
{
    static char text[512];
    if (k < 0 || k >= nsamples)
        return "";
    const struct neuron_stream *s = &samples[k].many->stream[samples[k].engine];
    neuron_instr_text(samples[k].many, &s->code[s->n - 1], text, sizeof text);
    return text;
}

START_TEST(agree)
{
    int k = disagreement(&rules, &own);
    ck_assert_msg(k < 0, "sample %d: %s", k, text_of(k));
}
END_TEST

static int altered(int n)
{
    return n ? n + (n + 3) / 4 : 100;
}

/* -- Each figure of timing.def -- */

static const char *const names[] = {
#define FIGURE(name, number) #name,
#include "sim/neuron/timing.def"
};

START_TEST(figures_of_the_simulator)
{
    own.figures[_i] = altered(own.figures[_i]);
    ck_assert_msg(disagreement(&rules, &own) >= 0, "%s: nobody notices", names[_i]);
}
END_TEST

START_TEST(cores_of_the_simulator)
{
    struct timing *t = &own.timing[_i];
    const struct timing right = *t;
    int *const fields[] = {&t->ticks_in_10ns, &t->cycle[0], &t->cycle[1], &t->cycle[2], &t->cycle[3],
                           &t->cycle[4],      &t->dma_rate, &t->hbm_rate, &t->dge_ns};
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
        *fields[k] = altered(*fields[k]);
        ck_assert_msg(disagreement(&rules, &own) >= 0, "core %d, field %zu: nobody notices", _i, k);
        *t = right;
    }
    t->hbm_bytes++;
    ck_assert(disagreement(&rules, &own) >= 0);
}
END_TEST

/* -- Each figure and each row of cost.def -- */

static const char *const rows[] = {
#define COST(op, engine, when, least, times, over, plus) #op " " #engine " " #when,
#include "compiler/neuron/cost.def"
};

START_TEST(rows_of_the_rules)
{
    struct nk_instr_cost *r = &rules.instr[_i];
    const struct nk_instr_cost right = *r;
    struct {
        const char *name;
        int *field;
    } fields[] = {{"least", &r->least}, {"times", &r->times}, {"over", &r->over}, {"plus", &r->plus}};
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
        if (fields[k].field == &r->over && !r->times)
            continue; /* of nothing */
        *fields[k].field = altered(*fields[k].field);
        ck_assert_msg(disagreement(&rules, &own) >= 0, "%s, %s: nobody notices", rows[_i], fields[k].name);
        *r = right;
    }
    if (_i + 1 < NK_COSTS) { /* the last one is for all that is left */
        r->op = NEURON_NOPS;
        ck_assert_msg(disagreement(&rules, &own) >= 0, "%s, left out: nobody notices", rows[_i]);
    }
}
END_TEST

START_TEST(cores_of_the_rules)
{
    struct nk_core_cost *c = &rules.core[_i];
    const struct nk_core_cost right = *c;
    int *const fields[] = {&c->mhz[0], &c->mhz[1], &c->mhz[2], &c->mhz[3],       &c->mhz[4],
                           &c->dma,    &c->hbm,    &c->gib,    &c->generation_ns};
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
        *fields[k] = altered(*fields[k]);
        ck_assert_msg(disagreement(&rules, &own) >= 0, "core %d, field %zu: nobody notices", _i, k);
        *c = right;
    }
}
END_TEST

START_TEST(transfers_of_the_rules)
{
    rules.transfer[_i] = altered(rules.transfer[_i]);
    ck_assert_msg(disagreement(&rules, &own) >= 0, "row %d: nobody notices", _i);
}
END_TEST

START_TEST(latencies_of_the_rules)
{
    if (_i == NEURON_SYNC) /* has no results */
        return;
    rules.latency[_i] = altered(rules.latency[_i]);
    ck_assert_msg(disagreement(&rules, &own) >= 0, "%s: nobody notices", neuron_engine_name((enum neuron_engine)_i));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("neuron_cost");
    TCase *t = tcase_create("neuron_cost");
    setup(); /* in front of the forks */
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, agree);
    tcase_add_loop_test(t, figures_of_the_simulator, 0, FIGURES);
    tcase_add_loop_test(t, cores_of_the_simulator, 0, NEURON_NCORES);
    tcase_add_loop_test(t, rows_of_the_rules, 0, NK_COSTS);
    tcase_add_loop_test(t, cores_of_the_rules, 0, NEURON_NCORES);
    tcase_add_loop_test(t, transfers_of_the_rules, 0, NK_NTRANSFERS);
    tcase_add_loop_test(t, latencies_of_the_rules, 0, NEURON_NENGINES);
    suite_add_tcase(s, t);
    int failed = run_tests(s);
    for (int k = 0; k < nsamples; k++) {
        neuron_program_free(samples[k].few);
        neuron_program_free(samples[k].many);
    }
    return failed;
}
