/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops in time (sim/neuron/fold.c): random programs of engines and DMA rings that hand buffers on, in loops, have the
 * figures that they have turn by turn, every one of them, and the same reports; and four million turns take no longer
 * than 65,536.
 */
#include <stdarg.h>
#include <stdio.h>

#include "tests/unit/neuron_bench.h"
#include "tests/unit/suite.h"

enum { PROGRAMS = 100, STAGES = 4, ROOM = 1 << 16, TILE = 65536 };

static int below(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* A chain: the first stage loads, the last one stores, each of those between reads a buffer and writes one of its own.
 * `buffers` of each; a stage's loop has `apart` rounds of them in a turn; each loop lies in another one of `outer`
 * turns. */
struct chain {
    const char *core, *engine[STAGES];
    int stages, buffers, apart[STAGES], rounds, outer;
    bool jumps, lasts, again, fixed; /* again: loads begin anew in each outer turn; fixed: all of one tile */
};

static struct chain draw_chain(void)
{
    static const char *const cores[] = {"trn1", "trn2", "trn3"}, *const orders[][STAGES] = {
                                                                     {"sync", "vector", "scalar", "gpsimd"},
                                                                     {"sync", "scalar", "vector", "gpsimd"},
                                                                     {"gpsimd", "vector", "scalar", "sync"},
                                                                     {"scalar", "gpsimd", "vector", "sync"},
                                                                 };
    struct chain c = {.core = cores[below(3)], .buffers = 1 + below(3), .outer = 1 + below(2) * below(12)};
    int order = below((int)(sizeof orders / sizeof *orders));
    c.stages = 3 + below(STAGES - 2);
    for (int k = 0; k < c.stages; k++) {
        c.engine[k] = orders[order][k];
        c.apart[k] = 1 + below(2);
    }
    c.rounds = 2 * (2 + below(1 << (1 + below(9))));
    c.jumps = below(10) == 0;
    c.lasts = below(3) == 0;
    c.again = below(2);
    return c;
}

static char text[ROOM];
static size_t length;
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    length += (size_t)vsnprintf(text + length, length < ROOM ? ROOM - length : 0, format, args);
    va_end(args);
    ck_assert_uint_lt(length, ROOM);
}

/* What a stage adds to the semaphore of a buffer that it has filled, or is done with: a transfer 16. */
static bool transfers(const struct chain *c, int stage)
{
    return stage == 0 || stage == c->stages - 1;
}

static int filled(const struct chain *c, int stage, int buffer)
{
    return stage * c->buffers + buffer;
}

static int emptied(const struct chain *c, int stage, int buffer)
{
    return 64 + stage * c->buffers + buffer;
}

/* Round q of a turn, with a buffer; r0 counts what the stage before has filled, r1 what the next one has emptied. */
static void one(const struct chain *c, int stage, int q, int b, const int *work)
{
    int in = stage ? transfers(c, stage - 1) ? 16 : 1 : 0,
        out = stage + 1 < c->stages ? transfers(c, stage + 1) ? 16 : 1 : 0,
        from = ((stage - 1) * c->buffers + b) * 2048, to = (stage * c->buffers + b) * 2048;
    for (int k = 0; k < work[0]; k++)
        if (strcmp(c->engine[stage], "sync"))
            say("tensor_copy sbuf.f32[0:32, %d, %d], sbuf.f32[0:32, 65536, %d]\n", 73728 + 8192 * stage, work[1],
                work[1]);
    if (stage == 0)
        say("dma sbuf.f32[0:32, %d, 512], x[0+r2, 32@%d, 512] queue=1", to, 512 * (1 + work[2]));
    else if (stage == c->stages - 1)
        say("dma y[%d+r2, 32@512, 512], sbuf.f32[0:32, %d, 512] queue=2", c->fixed ? b * TILE : 0, from);
    else
        say("tensor_copy sbuf.f32[0:32, %d, %d], sbuf.f32[0:32, %d, %d]", to, 512, from, 512);
    if (in)
        say(" wait s%d>=%d+r0", filled(c, stage - 1, b), in * (q + 1));
    if (out)
        say(" wait s%d>=%d+r1", emptied(c, stage, b), out * q);
    if (in)
        say(" signal s%d", emptied(c, stage - 1, b));
    if (out)
        say(" signal s%d", filled(c, stage, b));
    say("\n");
}

static void add(int reg, int64_t by)
{
    if (by)
        say("reg_add r%d, r%d, %lld\n", reg, reg, (long long)by);
}

static void stage_text(const struct chain *c, int stage)
{
    int apart = c->apart[stage], in = stage ? transfers(c, stage - 1) ? 16 : 1 : 0,
        out = stage + 1 < c->stages ? transfers(c, stage + 1) ? 16 : 1 : 0, turns = c->rounds / apart;
    const int work[] = {below(3), 1 + below(512), below(2)};
    int64_t step = transfers(c, stage) && !c->fixed ? TILE : 0;
    say("engine %s\nset r0, 0\nset r1, 0\nset r2, 0\nset r3, 0\nloop %d {\n", c->engine[stage], c->outer);
    if (c->jumps)
        say("set r3, 0\nagain%d:\n", stage);
    else
        say("loop %d {\n", turns);
    for (int q = 0; q < apart; q++)
        for (int b = 0; b < c->buffers; b++) {
            one(c, stage, q, b, work);
            add(2, step);
        }
    if (work[0] == 2)
        say("loop %d {\nnop\n}\n", work[1] % 5);
    add(0, in * apart);
    add(1, out * apart);
    if (c->jumps)
        say("reg_add r3, r3, 1\njump again%d, r3, %d op0=lt\n", stage, turns);
    else
        say("}\n");
    if (c->again && stage == 0)
        add(2, -step * c->rounds * c->buffers);
    say("}\n");
}

static void chain_text(const struct chain *c)
{
    int64_t rows = c->fixed ? 32 * c->buffers : (int64_t)c->rounds * c->outer * c->buffers * 32 + 64;
    length = 0;
    say("core %s\ntensor x in f32 [%lld, 512]\ntensor y out f32 [%lld, 512]\n", c->core, (long long)rows,
        (long long)rows);
    for (int k = 0; k < c->stages; k++)
        stage_text(c, k);
    for (int k = 0; k < NEURON_NENGINES && c->lasts; k++) { /* somebody who waits for all that is loaded */
        const char *engine = neuron_engine_name((enum neuron_engine)k);
        bool used = false;
        for (int n = 0; n < c->stages; n++)
            used |= !strcmp(c->engine[n], engine);
        if (!used) {
            say("engine %s\nnop wait s%d>=%d\n", engine, filled(c, 0, 0), 16 * c->rounds * c->outer);
            return;
        }
    }
}

static struct neuron_counters figures(bool unfolded, int *reports)
{
    char error[NEURON_ERROR] = "", first[NEURON_ERROR] = "";
    struct neuron_counters n;
    const struct neuron_report *list;
    struct bench b = begin_with(text, (struct neuron_config){.checks = true, .unfolded = unfolded});
    bool ran = neuron_sim_run(b.s, &n, error);
    *reports = neuron_sim_reports(b.s, &list);
    if (*reports)
        neuron_report_text(&list[0], first, sizeof first);
    ck_assert_msg(ran && !*reports, "%s%s\n%.3000s", error, first, text);
    end(&b);
    return n;
}

/* How many are repeated for the most part is no matter of luck: all but those whose loops are jumps or have few
 * turns. */
START_TEST(random_loops)
{
    int repeated = 0, more = getenv("TCCC_TEST_FULL") ? 20 : 1;
    for (int k = 0; k < PROGRAMS * more; k++) {
        state = (uint64_t)k * 2 + 1;
        below(2);
        struct chain c = draw_chain();
        int reports[2];
        chain_text(&c);
        struct neuron_counters folded = figures(false, &reports[0]), turns = figures(true, &reports[1]);
        uint64_t all = 0;
        for (int e = 0; e < NEURON_NENGINES; e++)
            all += turns.engine[e].instructions;
        ck_assert_uint_eq(turns.folded, 0);
        ck_assert(!c.jumps || !folded.folded);
        repeated += folded.folded > all / 2;
        folded.folded = 0;
        ck_assert_msg(!memcmp(&folded, &turns, sizeof turns), "program %d: %llu and %llu ticks\n%.3000s", k,
                      (unsigned long long)folded.ticks, (unsigned long long)turns.ticks, text);
    }
    printf("# %d of %d programs were repeated for the most part\n", repeated, PROGRAMS * more);
    ck_assert_int_gt(repeated, PROGRAMS * more / 2);
}
END_TEST

/* 64 times as many turns take as many instructions that are run one by one. */
START_TEST(any_number_of_turns)
{
    static const int rounds[] = {1 << 16, 1 << 22};
    uint64_t all[2] = {0}, run[2], ticks[2];
    for (int k = 0; k < 2; k++) {
        struct chain c = {.core = "trn2",
                          .engine = {"sync", "vector", "scalar", "gpsimd"},
                          .stages = 4,
                          .buffers = 2,
                          .apart = {1, 2, 1, 1},
                          .rounds = rounds[k],
                          .outer = 1,
                          .fixed = true};
        int reports;
        state = 5;
        chain_text(&c);
        struct neuron_counters n = figures(false, &reports);
        for (int e = 0; e < NEURON_NENGINES; e++)
            all[k] += n.engine[e].instructions;
        run[k] = all[k] - n.folded;
        ticks[k] = n.ticks;
    }
    printf("# %llu of %llu and %llu of %llu instructions were run\n", (unsigned long long)run[0],
           (unsigned long long)all[0], (unsigned long long)run[1], (unsigned long long)all[1]);
    ck_assert_uint_eq(run[0], run[1]);
    ck_assert_double_eq_tol((double)ticks[1] / (double)ticks[0], 64, 0.1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("neuron_fold");
    TCase *t = tcase_create("neuron_fold");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, random_loops);
    tcase_add_test(t, any_number_of_turns);
    suite_add_tcase(s, t);
    return run_tests(s);
}
