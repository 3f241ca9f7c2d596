/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3-64 (seed 0, default secret) of a block of memory: the digest of sidecar weights. Written from the
 * specification (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md); a test holds it against libxxhash.
 */
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "runtime/rt_int.h"

#define P32_1 0x9E3779B1u
#define P32_2 0x85EBCA77u
#define P32_3 0xC2B2AE3Du
#define P64_1 0x9E3779B185EBCA87u
#define P64_2 0xC2B2AE3D27D4EB4Fu
#define P64_3 0x165667B19E3779F9u
#define P64_4 0x85EBCA77C2B2AE63u
#define P64_5 0x27D4EB2F165667C5u
#define MX1 0x165667919E3779F9u
#define MX2 0x9FB21C651E98DF25u

#define SECRET 192
static const uint8_t secret[SECRET] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16,
    0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t rotl(uint64_t v, int n)
{
    return v << n | v >> (64 - n);
}

static uint64_t avalanche(uint64_t h)
{
    h ^= h >> 37;
    h *= MX1;
    return h ^ h >> 32;
}

static uint64_t avalanche64(uint64_t h)
{
    h = (h ^ h >> 33) * P64_2;
    h = (h ^ h >> 29) * P64_3;
    return h ^ h >> 32;
}

static uint64_t mix16(const uint8_t *p, const uint8_t *s)
{
    return fold(get64(p) ^ get64(s), get64(p + 8) ^ get64(s + 8));
}

static uint64_t up_to_16(const uint8_t *p, size_t n)
{
    if (n > 8) {
        uint64_t lo = get64(p) ^ get64(secret + 24) ^ get64(secret + 32);
        uint64_t hi = get64(p + n - 8) ^ get64(secret + 40) ^ get64(secret + 48);

        return avalanche(n + __builtin_bswap64(lo) + hi + fold(lo, hi));
    }
    if (n >= 4) {
        uint64_t v = get32(p + n - 4) + ((uint64_t)get32(p) << 32);

        v ^= get64(secret + 8) ^ get64(secret + 16);
        v ^= rotl(v, 49) ^ rotl(v, 24);
        v *= MX2;
        v ^= (v >> 35) + n;
        v *= MX2;
        return v ^ v >> 28;
    }
    if (n > 0) {
        uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[n >> 1] << 24 | p[n - 1] | (uint32_t)n << 8;

        return avalanche64(v ^ (uint64_t)(get32(secret) ^ get32(secret + 4)));
    }
    return avalanche64(get64(secret + 56) ^ get64(secret + 64));
}

static uint64_t up_to_128(const uint8_t *p, size_t n)
{
    uint64_t h = n * P64_1;

    for (size_t i = (n - 1) / 32 + 1; i-- > 0;)
        h += mix16(p + 16 * i, secret + 32 * i) + mix16(p + n - 16 * (i + 1), secret + 32 * i + 16);
    return avalanche(h);
}

static uint64_t up_to_240(const uint8_t *p, size_t n)
{
    uint64_t h = n * P64_1, tail;
    size_t i;

    for (i = 0; i < 8; i++)
        h += mix16(p + 16 * i, secret + 16 * i);
    h = avalanche(h);
    tail = mix16(p + n - 16, secret + 136 - 17);
    for (; i < n / 16; i++)
        tail += mix16(p + 16 * i, secret + 16 * (i - 8) + 3);
    return avalanche(h + tail);
}

/* One stripe of 64 bytes into the eight accumulators. */
static inline void accumulate(uint64_t *acc, const uint8_t *p, const uint8_t *s)
{
#ifdef __SSE2__
    __m128i *a = (__m128i *)acc;

    for (int i = 0; i < 4; i++) {
        __m128i v = _mm_loadu_si128((const __m128i *)p + i);
        __m128i k = _mm_xor_si128(v, _mm_loadu_si128((const __m128i *)s + i));
        __m128i product = _mm_mul_epu32(k, _mm_shuffle_epi32(k, 0x31));

        a[i] = _mm_add_epi64(a[i], _mm_add_epi64(product, _mm_shuffle_epi32(v, 0x4e)));
    }
#else
    for (int i = 0; i < 8; i++) {
        uint64_t v = get64(p + 8 * i), k = v ^ get64(s + 8 * i);

        acc[i ^ 1] += v;
        acc[i] += (k & 0xffffffff) * (k >> 32);
    }
#endif
}

static void scramble(uint64_t *acc)
{
    for (int i = 0; i < 8; i++) {
        acc[i] ^= acc[i] >> 47;
        acc[i] ^= get64(secret + SECRET - 64 + 8 * i);
        acc[i] *= P32_1;
    }
}

static uint64_t long_input(const uint8_t *p, size_t n)
{
    _Alignas(16) uint64_t acc[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
    const size_t stripes = (SECRET - 64) / 8, block = 64 * stripes, blocks = (n - 1) / block;
    const uint8_t *last = p + blocks * block;
    uint64_t h = n * P64_1;

    for (size_t b = 0; b < blocks; b++) {
        for (size_t i = 0; i < stripes; i++)
            accumulate(acc, p + b * block + 64 * i, secret + 8 * i);
        scramble(acc);
    }
    for (size_t i = 0; i < ((n - 1) - blocks * block) / 64; i++)
        accumulate(acc, last + 64 * i, secret + 8 * i);
    accumulate(acc, p + n - 64, secret + SECRET - 64 - 7);
    for (int i = 0; i < 4; i++)
        h += fold(acc[2 * i] ^ get64(secret + 11 + 16 * i), acc[2 * i + 1] ^ get64(secret + 11 + 16 * i + 8));
    return avalanche(h);
}

uint64_t tcr_xxh3(const void *data, size_t size)
{
    if (size <= 16)
        return up_to_16(data, size);
    if (size <= 128)
        return up_to_128(data, size);
    if (size <= 240)
        return up_to_240(data, size);
    return long_input(data, size);
}
