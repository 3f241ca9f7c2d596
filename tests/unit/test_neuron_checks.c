/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NeuronCore simulator's checks: each is provoked by a program with one fault, under every order of the engines,
 * and does not fire in the program without it. Random programs whose instructions wait for what they need give the same
 * values in every order; with one of the waits taken out, the race is reported in every order. TCCC_TEST_FULL: 2,000 of
 * them, else 64. Two engines that hand buffers on in loops: each wait, left out or made to count too little, is missed.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/neuronsim.h"
#include "tests/unit/suite.h"

enum { ORDERS = 4, PROGRAMS = 8, LOOPS = 8, ALL_LOOPS = 250 };

struct result {
    unsigned checks; /* bits */
    bool ran;
    char error[NEURON_ERROR],
        text[NEURON_ERROR]; /* text: of the report of the check that is wanted, else of the first */
    uint8_t y[128 * 64 * 4];
};

/* Runs a text in an order; tensors whose use is in hold 0, 1, 2, ..., where their name begins with i, else a
 * pattern. */
static void run_text(const char *text, struct neuron_config c, int wanted, struct result *out)
{
    memset(out, 0, sizeof *out);
    struct neuron_program *p = neuron_assemble(text, strlen(text), out->error);
    const struct neuron_report *list;
    ck_assert_msg(p != NULL, "%s\n%s", out->error, text);
    struct neuron_sim *s = neuron_sim_new(p, &c, out->error);
    ck_assert_msg(s != NULL, "%s", out->error);
    for (int t = 0; t < p->ntensors && c.values; t++) {
        int bytes = neuron_type_bytes((enum neuron_type)p->tensors[t].type);
        int64_t n = neuron_tensor_bytes(&p->tensors[t]) / bytes;
        for (int64_t k = 0; k < n && p->tensors[t].use != NEURON_OUT && p->tensors[t].use != NEURON_TEMP; k++) {
            uint8_t element[4];
            neuron_from_float((enum neuron_type)p->tensors[t].type,
                              *p->tensors[t].name == 'i' ? (float)k : (float)(k * 7 % 31) / 8 - 1.5f, false, 0,
                              element);
            ck_assert(neuron_sim_write(s, t, k * bytes, element, bytes, out->error));
        }
    }
    out->ran = neuron_sim_run(s, NULL, out->error);
    int n = neuron_sim_reports(s, &list);
    for (int k = n - 1; k >= 0; k--) {
        out->checks |= 1u << list[k].check;
        if (k == 0 && (wanted < 0 || !(out->checks >> wanted & 1)))
            neuron_report_text(&list[0], out->text, sizeof out->text);
        if ((int)list[k].check == wanted)
            neuron_report_text(&list[k], out->text, sizeof out->text);
    }
    int y = neuron_find_tensor(p, "y", 1);
    if (c.values && y >= 0) {
        int64_t bytes = neuron_tensor_bytes(&p->tensors[y]);
        ck_assert(neuron_sim_read(s, y, 0, out->y, bytes < (int64_t)sizeof out->y ? bytes : (int64_t)sizeof out->y,
                                  out->error));
    }
    neuron_sim_free(s);
    neuron_program_free(p);
}

/* -- Faults. A '$' begins what stands in the right program only, a '^' what stands in the wrong one only; both end with
 * '|'. -- */

#define HEAD                                                                                                    \
    "tensor x in f32 [128, 64]\ntensor i in i32 [4]\ntensor u temp f32 [128, 64]\ntensor y out f32 [128, 64]\n" \
    "engine sync\ndma sbuf.f32[0:128, 0, 64], x[0, 128, 64] signal s0\n"
#define STORE "engine sync\ndma y[0, 128, 64], sbuf.f32[0:128, 256, 64] $wait s2>=1|\n"

static const struct {
    enum neuron_check_id check;
    const char *text, *says;
} faults[] = {
    /* Reads of what nobody wrote: SBUF, PSUM, HBM, a column, one element between two tiles */
    {NEURON_CHECK_UNINIT,
     "engine vector\n$memset sbuf.f32[0:4, 64, 4], 0|\ntensor_copy sbuf.f32[0:4, 0, 4], sbuf.f32[0:4, 64, 4]\n",
     "byte 64 was never written"},
    {NEURON_CHECK_UNINIT,
     "engine vector\n$memset psum.f32[0:4, 0, 4], 0|\ntensor_copy sbuf.f32[0:4, 0, 4], psum.f32[0:4, 0, 4]\n",
     "partition 0, element 0"},
    {NEURON_CHECK_UNINIT,
     HEAD "$dma u[0, 128, 64], x[0, 128, 64] queue=2 signal s1\n|dma sbuf.f32[0:128, 512, 64], u[0, 128, 64] $wait "
          "s1>=16|\n",
     "was never written"},
    {NEURON_CHECK_UNINIT,
     "engine vector\nmemset sbuf.f32[0:32, 0, 4], 0\n$memset sbuf.f32[32:40, 0, 4], 0|\ntensor_copy sbuf.f32[0:40, 64, "
     "4], sbuf.f32[0:40, 0, 4]\n",
     "partition 32"},
    {NEURON_CHECK_UNINIT,
     "engine vector\nmemset sbuf.f32[0:4, 0, 4], 0\nmemset sbuf.f32[0:4, ^20|$16|, 4], 0\ntensor_copy sbuf.f32[0:4, "
     "64, 8], sbuf.f32[0:4, 0, 8]\n",
     "element 4: byte 16"},
    {NEURON_CHECK_UNINIT,
     "engine scalar\nset r1, 0\nengine vector\nmemset sbuf.f32[0:4, 0, 4], 0\n$memset sbuf.f32[0:4, 256, 1], "
     "0|\ntensor_scalar sbuf.f32[0:4, 64, 4], sbuf.f32[0:4, 0, 4], sbuf.f32[0:4, 256, 1] op0=add\n",
     "operand 3"},
    {NEURON_CHECK_UNINIT,
     "tensor u temp i32 [1]\ntensor i in i32 [1]\nengine sync\n$dma u[0, 1@1], i[0, 1@1] signal s0\nnop wait "
     "s0>=16\n|reg_load r1, u[0, 1@1]\n",
     "operand 2"},
    /* Races: write then read, read then write, write then write; engines, DMA, HBM */
    {NEURON_CHECK_RACE,
     HEAD "engine vector\ntensor_copy sbuf.f32[0:128, 256, 64], sbuf.f32[0:128, 0, 64] wait s0>=16 signal s2\n" STORE,
     "in SBUF bytes 256 to 511"},
    {NEURON_CHECK_RACE,
     HEAD "engine vector\nmemset sbuf.f32[0:128, 256, 64], 1 signal s1\nengine scalar\ntensor_copy sbuf.f32[0:128, "
          "256, 64], sbuf.f32[0:128, 0, 64] wait s0>=16 $wait s1>=1|\n",
     "writes"},
    {NEURON_CHECK_RACE,
     HEAD "engine vector\nnop wait s0>=16\ntensor_copy sbuf.f32[0:128, 256, 64], sbuf.f32[0:128, 0, 64] signal "
          "s1\nengine scalar\ntensor_copy sbuf.f32[0:128, 512, 64], sbuf.f32[0:128, 0, 64] wait s0>=16 signal s2\n"
          "engine gpsimd\nmemset sbuf.f32[0:128, 0, 64], 0 wait s1>=1 $wait s2>=1|\n",
     "writes what"},
    {NEURON_CHECK_RACE,
     "tensor x in f32 [128, 128]\nengine sync\ndma sbuf.f32[0:128, 0, 128], x[0, 128, 128] signal s0\nengine "
     "tensor\nload_stationary sbuf.f32[0:128, 0, 64] wait s0>=16\nmatmul psum.f32[0:64, 0, 64], sbuf.f32[0:128, 256, "
     "64] signal s1\n"
     "engine vector\ntensor_copy sbuf.f32[0:64, 1024, 64], psum.f32[0:64, 0, 64] $wait s1>=1|\n",
     "in PSUM bytes 0 to 255"},
    {NEURON_CHECK_RACE,
     "tensor x in f32 [128, 64]\nengine sync\ndma sbuf.f32[0:128, 0, 64], x[0, 128, 64] signal s0\ndma sbuf.f32[0:128, "
     "0, 64], x[0, 128, 64] $wait s0>=16|\n",
     "writes what line 3"},
    {NEURON_CHECK_RACE,
     "tensor x in f32 [128, 64]\ntensor y out f32 [128, 64]\nengine sync\ndma y[0, 128@64, 32], x[0, 128@64, 32]\ndma "
     "y[^124|$128|, 128@64, 32], x[0, 128@64, 32] queue=1\n",
     "in y bytes"},
    {NEURON_CHECK_RACE,
     "engine vector\nmemset sbuf.f32[0:32, 0, 8, 2@16], 0\nengine gpsimd\nmemset sbuf.f32[0:32, ^64|$8|, 8, 2@16], 0\n",
     "in SBUF"},
    /* A wait that signals of others may fulfil: two transfers in flight on one semaphore; two engines */
    {NEURON_CHECK_RACE,
     "tensor x in f32 [128, 128]\nengine sync\ndma sbuf.f32[0:128, 0, 64], x[0, 128@128, 64] signal s0\ndma "
     "sbuf.f32[0:128, 256, 64], x[256, 128@128, 64] signal s^0|$1|\n"
     "engine vector\nnop\nnop wait s0>=16 $wait s1>=16|\ntensor_copy sbuf.f32[0:128, 1024, 64], sbuf.f32[0:128, 0, "
     "64]\n",
     "line 3"},
    {NEURON_CHECK_SEMAPHORE,
     "engine vector\nmemset sbuf.f32[0:4, 0, 4], 0 signal s3\nmemset sbuf.f32[0:4, 0, 4], 1 wait s0>=^1|$2|\nengine "
     "scalar\ntensor_copy sbuf.f32[0:4, 128, 4], sbuf.f32[0:4, 0, 4] wait s3>=1 signal s0\n"
     "engine gpsimd\nnop\nnop\nnop\nnop signal s0\n",
     NULL},
    /* Accumulation onto what no product wrote: never, by another engine, beside a product */
    {NEURON_CHECK_ACCUMULATE,
     "tensor x in f32 [128, 128]\nengine sync\ndma sbuf.f32[0:128, 0, 128], x[0, 128, 128] signal s0\nengine "
     "tensor\nload_stationary sbuf.f32[0:128, 0, 64] wait s0>=16\n"
     "$matmul psum.f32[0:64, 0, 64], sbuf.f32[0:128, 256, 64]\n|matmul psum.f32[0:64, 0, 64], sbuf.f32[0:128, 256, 64] "
     "accumulate\n",
     "not all of it is from the tensor engine"},
    {NEURON_CHECK_ACCUMULATE,
     "tensor x in f32 [128, 128]\nengine sync\ndma sbuf.f32[0:128, 0, 128], x[0, 128, 128] signal s0\nengine "
     "vector\nmemset psum.f32[0:64, 0, 64], 0 signal s1\nengine tensor\nload_stationary sbuf.f32[0:128, 0, 64] wait "
     "s0>=16 wait s1>=1\n"
     "matmul psum.f32[0:64, 0, 64], sbuf.f32[0:128, 256, 64] ^accumulate|\n",
     "from the tensor engine"},
    {NEURON_CHECK_ACCUMULATE,
     "tensor x in f32 [128, 128]\nengine sync\ndma sbuf.f32[0:128, 0, 128], x[0, 128, 128] signal s0\nengine "
     "tensor\nload_stationary sbuf.f32[0:128, 0, 64] wait s0>=16\n"
     "matmul psum.f32[0:64, 0, 32], sbuf.f32[0:128, 256, 32]\n$matmul psum.f32[0:64, 128, 32], sbuf.f32[0:128, 384, "
     "32]|\nmatmul psum.f32[0:64, 0, 64], sbuf.f32[0:128, 256, 64] accumulate\n",
     "from the tensor engine"},
    /* Products that do not fit what a jump left loaded */
    {NEURON_CHECK_STATIONARY,
     "tensor x in f32 [128, 128]\nengine sync\ndma sbuf.f32[0:128, 0, 128], x[0, 128, 128] signal s0\nengine "
     "tensor\nset r1, 0\nload_stationary sbuf.f32[0:128, 0, ^32|$64|] wait s0>=16\njump on, r1, 0 "
     "op0=eq\nload_stationary sbuf.f32[0:128, 0, 64]\n"
     "on: matmul psum.f32[0:64, 0, 64], sbuf.f32[0:128, 256, 64]\n",
     "stationary f32 rows 0:128, 32 columns"},
    {NEURON_CHECK_STATIONARY,
     "tensor x in f32 [128, 128]\nengine sync\ndma sbuf.f32[0:128, 0, 128], x[0, 128, 128] signal s0\nengine "
     "tensor\nnop wait s0>=16\nset r1, 0\n$load_stationary sbuf.f32[0:128, 0, 64]\n|jump on, r1, 0 op0=eq\n"
     "on: matmul psum.f32[0:64, 0, 64], sbuf.f32[0:128, 256, 64]\n",
     "stationary (none)"},
    /* Ranges of functions, with scale and bias applied */
    {NEURON_CHECK_RANGE,
     HEAD
     "engine scalar\nnop wait s0>=16\nactivation sbuf.f32[0:128, 256, 64], sbuf.f32[0:128, 0, 64], ^4|$0.5| func=sin\n",
     "sin(-6)"},
    {NEURON_CHECK_RANGE,
     HEAD
     "engine scalar\nnop wait s0>=16\nactivation sbuf.f32[0:128, 256, 64], sbuf.f32[0:128, 0, 64] func=^log|$exp|\n",
     "log(-1.5)"},
    {NEURON_CHECK_RANGE,
     HEAD "engine scalar\nnop wait s0>=16\nactivation sbuf.f32[0:128, 256, 64], sbuf.f32[0:128, 0, 64] "
          "func=^arctan|$tanh|\n",
     "arctan("},
    {NEURON_CHECK_RANGE,
     HEAD "engine vector\nmemset sbuf.f32[0:128, 512, 1], ^1e-20|$4| signal s1\nengine scalar\nactivation "
          "sbuf.f32[0:128, 256, 1], sbuf.f32[0:128, 512, 1] func=reciprocal wait s1>=1\n",
     "reciprocal(1e-20)"},
    {NEURON_CHECK_RANGE,
     HEAD "engine vector\nmemset sbuf.f32[0:128, 512, 1], ^-4|$4| signal s1\nengine scalar\nactivation sbuf.f32[0:128, "
          "256, 1], sbuf.f32[0:128, 512, 1] func=sqrt wait s1>=1\n",
     "sqrt(-4)"},
    {NEURON_CHECK_RANGE,
     HEAD "engine vector\nmemset sbuf.f32[0:128, 512, 1], ^1e-30|$4| signal s1\nengine scalar\nactivation "
          "sbuf.f32[0:128, 256, 1], sbuf.f32[0:128, 512, 1] func=rsqrt wait s1>=1\n",
     "rsqrt(1e-30)"},
    /* Registers that lead out of SBUF, of a bank, of a tensor, off an element */
    {NEURON_CHECK_BOUNDS, "engine vector\nset r1, ^196600|$196352|\nmemset sbuf.f32[0:4, 0+r1, 64], 0\n",
     "r1 is 196600: bytes 196600 to 196855 of 196608"},
    {NEURON_CHECK_BOUNDS, "engine vector\nset r1, ^-4|$4|\nmemset sbuf.f32[0:4, 0+r1, 64], 0\n", "bytes -4 to 251"},
    {NEURON_CHECK_BOUNDS, "engine vector\nset r1, ^2|$4|\nmemset sbuf.f32[0:4, 0+r1, 64], 0\n", "r1 is 2"},
    {NEURON_CHECK_BOUNDS,
     "tensor x in f32 [128, 128]\nengine sync\ndma sbuf.f32[0:128, 0, 128], x[0, 128, 128] signal s0\nengine "
     "tensor\nset r1, ^1920|$1792|\nload_stationary sbuf.f32[0:128, 0, 64] wait s0>=16\nmatmul psum.f32[0:64, 0+r1, "
     "64], sbuf.f32[0:128, 256, 64]\n",
     "in more than one bank"},
    {NEURON_CHECK_BOUNDS,
     "tensor x in f32 [128, 128]\nengine sync\nset r1, ^4|$0|\ndma sbuf.f32[0:128, 0, 128], x[0+r1, 128, 128]\n",
     "of 65536"},
    /* Indices */
    {NEURON_CHECK_INDEX,
     "tensor x in f32 [$4|^3|, 64]\ntensor i in i32 [4]\nengine sync\ndma sbuf.i32[0:4, 0, 1], i[0, 4, 1@1] signal "
     "s0\nengine gpsimd\ndma_gather sbuf.f32[0:4, 64, 64], x[0, $4|^3|, 64], sbuf.i32[0:4, 0, 1] queue=1 wait s0>=16\n",
     "index 3 of 3 rows"},
    {NEURON_CHECK_INDEX,
     "engine vector\nmemset sbuf.f32[0:16, 0, 8], 0\nmemset sbuf.u16[0:16, 64, 1], ^8|$7| signal s0\nengine "
     "gpsimd\nlocal_gather sbuf.f32[0:16, 128, 16], sbuf.f32[0:16, 0, 8], sbuf.u16[0:16, 64, 1] per_index=1 wait "
     "s0>=1\n",
     "is 8: there are 8"},
    /* Waits without end: a cycle of two and of three, nobody left, more than is given */
    {NEURON_CHECK_DEADLOCK,
     "engine vector\nnop ^wait s1>=1| signal s0\n$nop wait s1>=1\n|engine scalar\nnop wait s0>=1 signal s1\n",
     "scalar waits at line 4 for s0 >= 1, which is 0 and which vector would signal at line 2"},
    {NEURON_CHECK_DEADLOCK,
     "engine tensor\nnop ^wait s2>=1| signal s0\nengine vector\nnop wait s0>=1 signal s1\nengine scalar\nnop wait "
     "s1>=1 signal s2\n",
     "vector waits"},
    {NEURON_CHECK_DEADLOCK, "engine vector\nnop wait s7>=^1|$0|\n", "nobody signals any more"},
    {NEURON_CHECK_DEADLOCK, HEAD "nop wait s0>=^17|$16|\n", "s0 >= 17, which is 16"},
    {NEURON_CHECK_LIMIT, "engine vector\nset r0, 0\nback: nop\njump back, r0, ^0|$1| op0=eq\n",
     "instructions were executed"},
};

static void variant(const char *text, bool right, char *to)
{
    char in = 0;
    for (; *text; text++)
        if (*text == '$' || *text == '^')
            in = *text;
        else if (*text == '|' && in)
            in = 0;
        else if (!in || (in == '$') == right)
            *to++ = *text;
    *to = 0;
}

START_TEST(planted)
{
    char wrong[4096], right[4096];
    static struct result r;
    enum neuron_check_id check = faults[_i].check;
    /* In some orders the wait lets what it should hold back go, which is a race. */
    unsigned instead = check == NEURON_CHECK_SEMAPHORE ? 1u << NEURON_CHECK_RACE : 0, all = 0;
    variant(faults[_i].text, false, wrong);
    variant(faults[_i].text, true, right);
    for (uint64_t seed = 0; seed < ORDERS; seed++) {
        struct neuron_config c = {.values = true, .checks = true, .seed = seed, .limit = 1000};
        run_text(wrong, c, check, &r);
        all |= r.checks;
        ck_assert_msg(r.checks & (1u << check | instead), "%s does not fire in order %d (%s): %s",
                      neuron_check_name(check), (int)seed, r.text, wrong);
        ck_assert_msg(!faults[_i].says || seed || strstr(r.text, faults[_i].says), "%s", r.text);
        run_text(right, c, check, &r);
        ck_assert_msg(r.ran && !r.checks, "order %d: %s\n%s", (int)seed, r.checks ? r.text : r.error, right);
    }
    ck_assert_msg(all >> check & 1, "%s fires in no order", neuron_check_name(check));
}
END_TEST

/* Without values, all that needs none. */
START_TEST(planted_in_time)
{
    static struct result r;
    char wrong[4096];
    enum neuron_check_id c = faults[_i].check;
    if (c != NEURON_CHECK_RACE && c != NEURON_CHECK_DEADLOCK && c != NEURON_CHECK_BOUNDS &&
        c != NEURON_CHECK_STATIONARY)
        return;
    variant(faults[_i].text, false, wrong);
    run_text(wrong, (struct neuron_config){.checks = true, .limit = 1000}, (int)c, &r);
    ck_assert_msg(r.checks >> c & 1, "%s does not fire: %s", neuron_check_name(c), wrong);
}
END_TEST

/* -- Loops: one engine fills buffers in turns, another one reads them -- */

enum { TURNS = 6, MANY_TURNS = 100 };
enum flaw {
    NO_FLAW,
    FILLS_WITHOUT_WAIT,
    READS_WITHOUT_WAIT,
    FILLS_TOO_EARLY,
    FILLS_BY_FIRST_TURN,
    READS_BY_FIRST_TURN,
    FLAWS
};
static const struct {
    const char *fills, *reads;
} handing[] = {{"vector", "scalar"}, {"scalar", "vector"}, {"gpsimd", "vector"}, {"vector", "gpsimd"},
               {"scalar", "gpsimd"}, {"gpsimd", "scalar"}, {"sync", "vector"},   {"sync", "scalar"}};
enum { HANDINGS = sizeof handing / sizeof *handing };

/* Buffer d of `depth`: s(d + 1) counts what filled it, s0 what was read, with `depth` to begin with. */
static void hand_on(char *to, size_t room, int pair, int depth, int turns, enum flaw flaw)
{
    bool dma = !strcmp(handing[pair].fills, "sync");
    int each = dma ? 16 : 1, early = flaw == FILLS_TOO_EARLY ? depth : 0;
    size_t n =
        (size_t)snprintf(to, room, "core trn1\ntensor x in f32 [%d, 128]\nengine %s\nset r1, 0\nset r2, 0\nloop %d {\n",
                         turns, handing[pair].fills, turns);
    for (int d = 0; d < depth; d++) {
        n += (size_t)snprintf(to + n, room - n,
                              dma ? "dma sbuf.f32[0:1, %d, 128], x[0+r2, 128]"
                                  : "tensor_copy sbuf.f32[0:1, %d, 128], sbuf.f32[0:1, 8192, 128]",
                              512 * d);
        if (flaw != FILLS_WITHOUT_WAIT)
            n += (size_t)snprintf(to + n, room - n, " wait s0>=%d+r1", d + 1);
        n += (size_t)snprintf(to + n, room - n, " signal s%d\n", d + 1);
    }
    n += (size_t)snprintf(
        to + n, room - n,
        "reg_add r1, r1, %d\nreg_add r2, r2, 512\n}\nengine %s\nset r1, 0\nnop signal s0+%d\nloop %d {\n",
        flaw == FILLS_BY_FIRST_TURN ? 0 : depth, handing[pair].reads, depth + early, turns);
    for (int d = 0; d < depth; d++) {
        n +=
            (size_t)snprintf(to + n, room - n, "tensor_copy sbuf.f32[0:1, 4096, 128], sbuf.f32[0:1, %d, 128]", 512 * d);
        if (flaw != READS_WITHOUT_WAIT)
            n += (size_t)snprintf(to + n, room - n, " wait s%d>=%d+r1", d + 1, each);
        n += (size_t)snprintf(to + n, room - n, " signal s0\n");
    }
    snprintf(to + n, room - n, "reg_add r1, r1, %d\n}\n", flaw == READS_BY_FIRST_TURN ? 0 : each);
}

START_TEST(planted_in_loops)
{
    char text[4096];
    static struct result r;
    for (int depth = 1; depth <= 2; depth++)
        for (int flaw = 0; flaw < FLAWS; flaw++)
            for (uint64_t seed = 0; seed < ORDERS; seed++) {
                hand_on(text, sizeof text, _i, depth, TURNS, (enum flaw)flaw);
                run_text(text, (struct neuron_config){.checks = true, .seed = seed, .limit = 1000}, NEURON_CHECK_RACE,
                         &r);
                unsigned wrong = 1u << NEURON_CHECK_RACE | 1u << NEURON_CHECK_SEMAPHORE;
                ck_assert_msg(flaw ? (r.checks & wrong) != 0 : r.ran && !r.checks,
                              "depth %d, flaw %d, order %d: %s%s\n%s", depth, flaw, (int)seed, r.error, r.text, text);
            }
}
END_TEST

START_TEST(out_of_memory)
{
    static const char text[] = "core trn2\ntensor weights in f32 [2000000000]\ntensor moments inout f32 "
                               "[3000000000]\ntensor small in f32 [1]\n";
    char error[NEURON_ERROR] = "";
    struct neuron_program *p = neuron_assemble(text, strlen(text), error);
    ck_assert_msg(p != NULL, "%s", error);
    ck_assert(!neuron_sim_new(p, &(struct neuron_config){.values = true}, error));
    ck_assert_msg(strcmp(error, "tensors of 20000000004 bytes: the HBM of a core has 12884901888; moments 12000000000, "
                                "weights 8000000000, small 4") == 0,
                  "%s", error);
    neuron_program_free(p);
}
END_TEST

START_TEST(access_to_tensors)
{
    static const char text[] = "tensor x in f32 [2]\ntensor n in i32 [2]\n";
    char error[NEURON_ERROR] = "";
    float x[2] = {1, 2};
    int32_t n[2];
    struct neuron_program *p = neuron_assemble(text, strlen(text), error);
    struct neuron_sim *s = neuron_sim_new(p, &(struct neuron_config){.values = true}, error);
    ck_assert(!neuron_sim_write(s, 0, 4, x, 8, error) && strstr(error, "no such bytes"));
    ck_assert(!neuron_sim_write(s, 2, 0, x, 4, error) && !neuron_sim_read(s, -1, 0, x, 4, error));
    ck_assert(neuron_sim_write(s, 0, 0, x, 4, error) && !neuron_sim_initialised(s, 0));
    ck_assert(neuron_sim_read(s, 0, 0, x, 8, error) && x[0] == 1 && x[1] != x[1]);
    ck_assert(neuron_sim_read(s, 1, 0, n, 8, error) && n[0] == 4 && n[1] == 4);
    neuron_sim_free(s);
    s = neuron_sim_new(p, &(struct neuron_config){.values = false}, error);
    ck_assert(!neuron_sim_read(s, 0, 0, x, 8, error) && strstr(error, "no values"));
    neuron_sim_free(s);
    neuron_program_free(p);
}
END_TEST

/* In time alone most of many turns are not run (fold.c): what is reported is the same. */
START_TEST(planted_in_many_turns)
{
    char text[4096];
    static struct result folded, turns;
    for (int depth = 1; depth <= 2; depth++)
        for (int flaw = 0; flaw < FLAWS; flaw++) {
            hand_on(text, sizeof text, _i, depth, MANY_TURNS, (enum flaw)flaw);
            run_text(text, (struct neuron_config){.checks = true}, NEURON_CHECK_RACE, &folded);
            run_text(text, (struct neuron_config){.checks = true, .unfolded = true}, NEURON_CHECK_RACE, &turns);
            ck_assert_msg(folded.checks == turns.checks && folded.ran == turns.ran &&
                              (flaw != 0) == (folded.checks != 0),
                          "depth %d, flaw %d: %x and %x: %s%s\n%s", depth, flaw, folded.checks, turns.checks,
                          folded.error, folded.text, text);
        }
}
END_TEST

/* -- Random programs -- */

static uint64_t state;
static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

enum { TILES = 6, STEPS = 40, STREAMS = 4 }; /* streams: tensor is left out; 3 is the ring of sync */

/*
 * STEPS instructions on tiles of SBUF, each on an engine or a DMA. Engine e adds 1 to semaphore e for each instruction;
 * a DMA has a semaphore of its own. An instruction waits for the last writer of what it reads, the last writer and all
 * later readers of what it writes, unless they are of its engine. `drop`: the wait, of those in the order that they are
 * made, that is left out. Returns how many there are; `needed`: whether nothing else tells what it tells.
 */
struct step {
    int engine, from, other, to, number, queue; /* number: of its engine; a DMA: its semaphore */
    bool dma, before[STEPS], tells[STEPS];      /* which steps have ended when it begins, when it has ended */
};

static void learn(bool *known, const bool *from)
{
    for (int k = 0; k < STEPS; k++)
        known[k] |= from[k];
}

static int make(uint64_t seed, int drop, char *text, size_t room, bool *needed)
{
    static const char *const engines[] = {"vector", "scalar", "gpsimd", "sync"};
    static struct step step[STEPS];
    static char lines[4][16384];
    size_t n[4] = {0}, at = 0;
    int count[4] = {0}, waits = 0;
    state = seed * 2 + 1;
    memset(step, 0, sizeof step);
    *needed = false;
    for (int k = 0; k < STEPS; k++) {
        struct step *s = &step[k];
        bool must[STEPS] = {false};
        char wait[256] = "";
        size_t w = 0;
        int nwaits = 0;
        s->engine = k < TILES ? 3 : draw(4);
        s->dma = s->engine == 3;
        s->to = k < TILES ? k : draw(TILES);
        s->from = draw(TILES);
        s->other = draw(TILES);
        bool load = k < TILES || (s->dma && draw(3) == 0), two = !s->dma && s->engine != 1;
        int last[3] = {-1, -1, -1};
        for (int j = 0; j < k; j++) {
            bool reads_to = !(step[j].from < 0) && (step[j].from == s->to || step[j].other == s->to);
            if (!load && step[j].to == s->from)
                last[0] = j;
            if (two && step[j].to == s->other)
                last[1] = j;
            if (step[j].to == s->to)
                last[2] = j;
            must[j] |= reads_to;
        }
        for (int j = 0; j < k; j++)
            must[j] |= j == last[0] || j == last[1] || j == last[2];
        for (int j = 0; j < k; j++) /* its own engine's are over; a DMA has only begun */
            if (step[j].engine == s->engine)
                learn(s->before, step[j].dma ? step[j].before : step[j].tells);
        for (int j = k - 1; j >= 0; j--) {
            if (!must[j] || s->before[j])
                continue;
            if (waits++ == drop) {
                *needed = true;
                continue;
            }
            if (nwaits++ == NEURON_WAITS) { /* an instruction of its own for more */
                n[s->engine] +=
                    (size_t)snprintf(lines[s->engine] + n[s->engine], sizeof lines[0] - n[s->engine], "nop%s\n", wait);
                w = 0;
                nwaits = 1;
            }
            w +=
                (size_t)snprintf(wait + w, sizeof wait - w, " wait s%d>=%d",
                                 step[j].dma ? 10 + step[j].number : step[j].engine, step[j].dma ? 16 : step[j].number);
            learn(s->before, step[j].tells);
        }
        s->queue = draw(3);
        learn(s->tells, s->before);
        s->tells[k] = true;
        for (int j = 0; j < k; j++) /* a queue keeps its order */
            if (s->dma && step[j].dma && step[j].queue == s->queue)
                learn(s->tells, step[j].tells);
        s->number = ++count[s->engine];
        char *line = lines[s->engine] + n[s->engine];
        size_t left = sizeof lines[0] - n[s->engine];
        if (load)
            n[s->engine] +=
                (size_t)snprintf(line, left, "dma sbuf.f32[0:32, %d, 16], x[%d, 32, 16]%s signal s%d queue=%d\n",
                                 64 * s->to, 2048 * draw(4), wait, 10 + s->number, s->queue);
        else if (s->dma)
            n[s->engine] += (size_t)snprintf(
                line, left, "dma sbuf.f32[0:32, %d, 16], sbuf.f32[0:32, %d, 16]%s signal s%d queue=%d\n", 64 * s->to,
                64 * s->from, wait, 10 + s->number, s->queue);
        else if (!two)
            n[s->engine] += (size_t)snprintf(
                line, left, "activation sbuf.f32[0:32, %d, 16], sbuf.f32[0:32, %d, 16], 0.5 func=tanh%s signal s1\n",
                64 * s->to, 64 * s->from, wait);
        else
            n[s->engine] +=
                (size_t)snprintf(line, left,
                                 "tensor_tensor sbuf.f32[0:32, %d, 16], sbuf.f32[0:32, %d, 16], sbuf.f32[0:32, %d, 16] "
                                 "op0=%s%s signal s%d\n",
                                 64 * s->to, 64 * s->from, 64 * s->other, draw(2) ? "add" : "max", wait, s->engine);
        s->from = load ? -1 : s->from;
        s->other = two ? s->other : -1;
    }
    at += (size_t)snprintf(text + at, room - at, "tensor x in f32 [128, 16]\ntensor y out f32 [32, 96]\n");
    for (int e = 0; e < 4; e++)
        at += (size_t)snprintf(text + at, room - at, "engine %s\n%.*s", engines[e], (int)n[e], lines[e]);
    for (int k = 0; k < STEPS; k += 1) /* all has ended */
        at += step[k].dma ? (size_t)snprintf(text + at, room - at, "nop wait s%d>=16\n", 10 + step[k].number) : 0;
    for (int e = 0; e < 3; e++)
        at += count[e] ? (size_t)snprintf(text + at, room - at, "nop wait s%d>=%d\n", e, count[e]) : 0;
    snprintf(text + at, room - at, "dma y[0, 32, 96], sbuf.f32[0:32, 0, 96]\n");
    return waits;
}

START_TEST(random_programs)
{
    static char text[65536];
    static struct result first, r;
    for (uint64_t seed = (uint64_t)_i * PROGRAMS; seed < (uint64_t)(_i + 1) * PROGRAMS; seed++) {
        bool needed;
        int waits = make(seed, -1, text, sizeof text, &needed);
        for (uint64_t order = 0; order < 4; order++) {
            run_text(text, (struct neuron_config){.values = true, .checks = true, .seed = order}, -1,
                     order ? &r : &first);
            ck_assert_msg(order ? r.ran && !r.checks : first.ran && !first.checks, "program %d, order %d: %s",
                          (int)seed, (int)order, order ? r.text : first.text);
            ck_assert_msg(!order || memcmp(first.y, r.y, 32 * 96 * 4) == 0, "program %d differs in order %d", (int)seed,
                          (int)order);
        }
        make(seed, draw(waits), text, sizeof text, &needed);
        for (uint64_t order = 0; needed && order < 3; order++) {
            run_text(text, (struct neuron_config){.values = true, .checks = true, .seed = order}, -1, &r);
            ck_assert_msg(r.checks & (1u << NEURON_CHECK_RACE | 1u << NEURON_CHECK_UNINIT),
                          "program %d with a wait less, order %d: nothing is reported", (int)seed, (int)order);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("neuron_checks");
    TCase *t = tcase_create("neuron_checks");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, planted, 0, (int)(sizeof faults / sizeof *faults));
    tcase_add_loop_test(t, planted_in_time, 0, (int)(sizeof faults / sizeof *faults));
    tcase_add_loop_test(t, planted_in_loops, 0, HANDINGS);
    tcase_add_loop_test(t, planted_in_many_turns, 0, HANDINGS);
    tcase_add_test(t, out_of_memory);
    tcase_add_test(t, access_to_tensors);
    tcase_add_loop_test(t, random_programs, 0, getenv("TCCC_TEST_FULL") ? ALL_LOOPS : LOOPS);
    suite_add_tcase(s, t);
    return run_tests(s);
}
