/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4), HMAC (RFC 2104, RFC 4231's vectors in tests/unit/test_mac.c) and HKDF (RFC 5869). Plain: what
 * it is for are a few messages a rank.
 */
#include <string.h>

#include "runtime/comm/mac.h"

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t round_word[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void compress(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64], v[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) +
                     round_word[i] + w[i];
        uint32_t b =
            (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += a;
        v[0] = a + b;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void tcr_sha256_begin(struct tcr_sha256 *h)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(h->state, start, sizeof start);
    h->bytes = 0;
}

void tcr_sha256_add(struct tcr_sha256 *h, const void *data, size_t size)
{
    const uint8_t *at = data;

    while (size) {
        size_t used = h->bytes % 64, n = size < 64 - used ? size : 64 - used;

        memcpy(h->block + used, at, n);
        h->bytes += n;
        at += n;
        size -= n;
        if (used + n == 64)
            compress(h->state, h->block);
    }
}

void tcr_sha256_end(struct tcr_sha256 *h, uint8_t out[TCR_MAC])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = h->bytes * 8;
    uint8_t length[8];

    tcr_sha256_add(h, padding, 1 + (119 - h->bytes % 64) % 64);
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    tcr_sha256_add(h, length, 8);
    for (int i = 0; i < TCR_MAC; i++)
        out[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void tcr_hmac_begin(struct tcr_hmac *m, const void *key, size_t size)
{
    uint8_t block[64] = {0};

    if (size > sizeof block) {
        tcr_sha256_begin(&m->inner);
        tcr_sha256_add(&m->inner, key, size);
        tcr_sha256_end(&m->inner, block);
    } else if (size) {
        memcpy(block, key, size);
    }
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36;
    tcr_sha256_begin(&m->inner);
    tcr_sha256_add(&m->inner, block, sizeof block);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36 ^ 0x5c;
    tcr_sha256_begin(&m->outer);
    tcr_sha256_add(&m->outer, block, sizeof block);
}

void tcr_hmac_add(struct tcr_hmac *m, const void *data, size_t size)
{
    tcr_sha256_add(&m->inner, data, size);
}

void tcr_hmac_end(struct tcr_hmac *m, uint8_t out[TCR_MAC])
{
    tcr_sha256_end(&m->inner, out);
    tcr_sha256_add(&m->outer, out, TCR_MAC);
    tcr_sha256_end(&m->outer, out);
}

void tcr_hkdf_extract(const char *salt, const void *secret, size_t size, uint8_t key[TCR_MAC])
{
    struct tcr_hmac m;

    tcr_hmac_begin(&m, salt, strlen(salt));
    tcr_hmac_add(&m, secret, size);
    tcr_hmac_end(&m, key);
}

void tcr_hkdf_expand(const uint8_t key[TCR_MAC], const char *label, const uint8_t context[TCR_MAC],
                     uint8_t out[TCR_MAC])
{
    struct tcr_hmac m;

    tcr_hmac_begin(&m, key, TCR_MAC);
    tcr_hmac_add(&m, label, strlen(label));
    tcr_hmac_add(&m, context, TCR_MAC);
    tcr_hmac_add(&m, "\1", 1);
    tcr_hmac_end(&m, out);
}

bool tcr_mac_same(const uint8_t a[TCR_MAC], const uint8_t b[TCR_MAC])
{
    volatile uint8_t differ = 0;

    for (int i = 0; i < TCR_MAC; i++)
        differ = (uint8_t)(differ | (a[i] ^ b[i]));
    return differ == 0;
}
