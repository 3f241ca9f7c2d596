/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modelled time of collectives beside the vendor's table of algorithms, within 10 %: hops times their latency, bytes
 * over rates, with the numbers worked out by hand here; what is chosen for which size; hierarchical ones.
 */
#include <check.h>
#include <math.h>

#include "sim/neuron/neuronsim.h"
#include "tests/unit/suite.h"

#define KIB 1024.0
#define MIB (1024.0 * 1024)

/* us. 1.5 us a hop. trn1: 192 bytes/ns of NeuronLink a rank, 410 of HBM; trn2: 128 and 362.5, a logical core of two 256
 * and 725. */
static const struct {
    enum { TRN1, TRN2, PAIRS, TRN3 } cores;
    enum neuron_collective_kind kind;
    enum neuron_algorithm algorithm;
    int ranks;
    double bytes, us;
} rows[] = {
    /* ring: N - 1 hops, (N - 1) C; HBM touched twice for a byte of all_gather, 3 times for reduce_scatter */
    {TRN1, NEURON_ALL_GATHER, NEURON_RING, 32, 64 * MIB, 31 * 1.5 + 31 * 2 * MIB / 192e3},
    {TRN1, NEURON_REDUCE_SCATTER, NEURON_RING, 32, 64 * MIB, 31 * 1.5 + 31 * 2 * MIB / 136.7e3},
    {TRN1, NEURON_ALL_REDUCE, NEURON_RING, 32, 64 * MIB, 62 * 1.5 + 31 * 2 * MIB / 192e3 + 31 * 2 * MIB / 136.7e3},
    {TRN2, NEURON_ALL_GATHER, NEURON_RING, 64, 64 * MIB, 63 * 1.5 + 63 * MIB / 128e3},
    {TRN2, NEURON_REDUCE_SCATTER, NEURON_RING, 64, 64 * MIB, 63 * 1.5 + 63 * MIB / 120.8e3},
    {PAIRS, NEURON_ALL_GATHER, NEURON_RING, 64, 64 * MIB, 63 * 1.5 + 63 * MIB / 256e3},
    {TRN3, NEURON_ALL_GATHER, NEURON_RING, 64, 64 * MIB, 63 * 1.5 + 63 * MIB / 320e3},
    /* mesh: a hop, (N - 1) C over links that others use too; all_reduce: 2 hops, twice as much */
    {TRN1, NEURON_ALL_GATHER, NEURON_MESH, 32, 512 * KIB, 1.5 + 31 * 16 * KIB / 96e3},
    {TRN1, NEURON_REDUCE_SCATTER, NEURON_MESH, 32, 512 * KIB, 1.5 + 31 * 16 * KIB / 96e3},
    {TRN1, NEURON_ALL_REDUCE, NEURON_MESH, 32, 512 * KIB, 3 + 62 * 16 * KIB / 96e3},
    {TRN2, NEURON_ALL_REDUCE, NEURON_MESH, 128, 512 * KIB, 3 + 254 * 4 * KIB / 64e3},
    {TRN1, NEURON_ALL_TO_ALL, NEURON_AUTO, 32, 512 * KIB, 1.5 + 31 * 16 * KIB / 96e3},
    /* single step: a hop, (N - 1) N C */
    {TRN1, NEURON_ALL_REDUCE, NEURON_SINGLE_STEP, 32, 8 * KIB, 1.5 + 31 * 8 * KIB / 96e3},
    /* recursive doubling: log2 N hops, (N - 1) C */
    {TRN1, NEURON_ALL_GATHER, NEURON_RDH, 32, 16 * MIB, 5 * 1.5 + 31 * 0.5 * MIB / 192e3},
    {TRN1, NEURON_REDUCE_SCATTER, NEURON_RDH, 8, 16 * MIB, 3 * 1.5 + 7 * 2 * MIB / 136.7e3},
    {TRN1, NEURON_ALL_REDUCE, NEURON_RDH, 32, 16 * MIB, 10 * 1.5 + 15.5 * MIB / 192e3 + 15.5 * MIB / 136.7e3},
    /* KangaRing: N / 2 hops; HBM touched 3 times instead of 4 for two ranks, 4 instead of 6 */
    {TRN1, NEURON_ALL_GATHER, NEURON_KANGARING, 32, 128 * MIB, 16 * 1.5 + 31 * 4 * MIB / 192e3},
    {TRN1, NEURON_REDUCE_SCATTER, NEURON_KANGARING, 32, 128 * MIB, 16 * 1.5 + 31 * 4 * MIB / 192e3},
    {TRN1, NEURON_ALL_REDUCE, NEURON_KANGARING, 32, 128 * MIB, 32 * 1.5 + 62 * 4 * MIB / 192e3},
    {PAIRS, NEURON_ALL_REDUCE, NEURON_KANGARING, 64, 128 * MIB, 64 * 1.5 + 2 * 126 * MIB / 256e3},
    /* what the table has not: by doublings, as all_gather */
    {TRN1, NEURON_BROADCAST, NEURON_AUTO, 32, 16 * MIB, 5 * 1.5 + 16 * MIB / 192e3},
    {TRN1, NEURON_BARRIER, NEURON_AUTO, 32, 0, 5 * 1.5},
    /* hierarchical, two instances of 32: 15 us and 25 Gb/s between them */
    {TRN1, NEURON_ALL_GATHER, NEURON_AUTO, 64, 16 * MIB, 5 * 1.5 + 15.5 * MIB / 192e3 + 15 + 0.25 * MIB / 3.125e3},
    {TRN1, NEURON_REDUCE_SCATTER, NEURON_AUTO, 64, 16 * MIB,
     5 * 1.5 + 15.5 * MIB / 136.7e3 + 15 + 0.25 * MIB / 3.125e3},
    {TRN1, NEURON_ALL_REDUCE, NEURON_AUTO, 64, 16 * MIB,
     10 * 1.5 + 15.5 * MIB / 192e3 + 15.5 * MIB / 136.7e3 + 2 * (15 + 0.25 * MIB / 3.125e3)},
    /* four instances of 64 logical cores of two: 50 Gb/s for each of them */
    {PAIRS, NEURON_ALL_GATHER, NEURON_AUTO, 256, 16 * MIB,
     6 * 1.5 + 15.75 * MIB / 256e3 + 3 * (15 + 0.0625 * MIB / 6.25e3)},
};

START_TEST(table)
{
    struct neuron_collective c = {rows[_i].kind, rows[_i].algorithm, rows[_i].ranks, (int64_t)rows[_i].bytes};
    double us = neuron_collective_ns(rows[_i].cores == TRN1   ? NEURON_TRN1
                                     : rows[_i].cores == TRN3 ? NEURON_TRN3
                                                              : NEURON_TRN2,
                                     rows[_i].cores == PAIRS ? 2 : 1, &c) /
                1e3;
    ck_assert_msg(fabs(us - rows[_i].us) <= 0.1 * rows[_i].us, "row %d: %g us, expected %g", _i, us, rows[_i].us);
}
END_TEST

START_TEST(choice)
{
    enum neuron_collective_kind r = NEURON_ALL_REDUCE;
    ck_assert(neuron_collective_choice(r, 32, 4096) == NEURON_SINGLE_STEP);
    ck_assert(neuron_collective_choice(r, 32, 512 << 10) == NEURON_MESH);
    ck_assert(neuron_collective_choice(NEURON_ALL_GATHER, 32, 4096) == NEURON_MESH);
    ck_assert(neuron_collective_choice(r, 32, 1 << 20) == NEURON_RDH);
    ck_assert(neuron_collective_choice(r, 32, 56 << 20) == NEURON_RDH);
    ck_assert(neuron_collective_choice(r, 32, (56 << 20) + 1) == NEURON_KANGARING);
    ck_assert(neuron_collective_choice(r, 24, 8 << 20) == NEURON_RING); /* no power of two */
    ck_assert(neuron_collective_choice(r, 3, 64 << 20) == NEURON_RING);
}
END_TEST

/* More ranks and more bytes never take less time, one rank none; LNC 2 has the links of two cores; instances are those
 * of the vendor's. */
START_TEST(shape)
{
    for (int kind = 0; kind < NEURON_NCOLLECTIVES; kind++) {
        double before = 0;
        for (int64_t bytes = 64; bytes < (int64_t)1 << 32; bytes *= 4) {
            struct neuron_collective c = {(enum neuron_collective_kind)kind, NEURON_RDH, 64, bytes};
            double one = neuron_collective_ns(NEURON_TRN2, 1, &c), two = neuron_collective_ns(NEURON_TRN2, 2, &c);
            ck_assert(one >= before && two <= one && two > 0);
            before = one;
            c.ranks = 1;
            ck_assert(neuron_collective_ns(NEURON_TRN2, 1, &c) == 0);
        }
    }
    ck_assert_int_eq(neuron_instance_cores(NEURON_TRN1, 1), 32);
    ck_assert_int_eq(neuron_instance_cores(NEURON_TRN2, 1), 128);
    ck_assert_int_eq(neuron_instance_cores(NEURON_TRN2, 2), 64);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("neuron_collectives");
    TCase *t = tcase_create("neuron_collectives");
    tcase_add_loop_test(t, table, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(t, choice);
    tcase_add_test(t, shape);
    suite_add_tcase(s, t);
    return run_tests(s);
}
