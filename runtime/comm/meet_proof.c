/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs of ranks that meet: SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) of the numbers of both
 * sides, keyed by the job's secret (empty: none).
 */
#include <string.h>
#include <sys/random.h>

#include "runtime/comm/meet_int.h"

static uint64_t turn(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static void rounds(uint64_t v[4], int n)
{
    while (n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = turn(v[1], 13) ^ v[0];
        v[3] = turn(v[3], 16) ^ v[2];
        v[0] = turn(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = turn(v[1], 17) ^ v[2];
        v[3] = turn(v[3], 21) ^ v[0];
        v[2] = turn(v[2], 32);
    }
}

uint64_t tcr_siphash(const uint64_t key[2], const void *data, size_t size)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                     key[1] ^ 0x7465646279746573};
    const unsigned char *at = data;

    for (size_t left = size;; left -= 8, at += 8) {
        uint64_t word = 0;

        for (size_t i = 0; i < 8 && i < left; i++)
            word |= (uint64_t)at[i] << 8 * i;
        if (left < 8)
            word |= (uint64_t)size << 56;
        v[3] ^= word;
        rounds(v, 2);
        v[0] ^= word;
        if (left < 8)
            break;
    }
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* side: 0 of rank 0, else 1 + rank */
uint64_t tcr_meet_prove(const uint64_t theirs[2], const uint64_t mine[2], uint64_t side)
{
    const char *secret = tccrt_env_text("TCCC_COMM_SECRET");
    size_t n = secret ? strlen(secret) : 0;
    uint64_t said[5] = {theirs[0], theirs[1], mine[0], mine[1], side};
    uint64_t key[2] = {tcr_siphash((const uint64_t[2]){0, 1}, secret ? secret : "", n),
                       tcr_siphash((const uint64_t[2]){2, 3}, secret ? secret : "", n)};

    return tcr_siphash(key, said, sizeof said);
}

bool tcr_meet_once(uint64_t out[2])
{
    return getrandom(out, 2 * sizeof *out, 0) == 2 * sizeof *out;
}
