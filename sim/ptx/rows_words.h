/* SPDX-License-Identifier: Apache-2.0 */
/* rows_words.h - operations on a word of integers that C has no operator for; rows.def names them. */
#ifndef TCC_PTX_ROWS_WORDS_H
#define TCC_PTX_ROWS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline int64_t clamp32(int64_t v)
{
    return v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v;
}

static inline uint64_t reverse(uint64_t x)
{
    x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
    x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
    return __builtin_bswap64(x);
}

/* Position of the most significant bit that differs from the sign, -1: there is none. */
static inline int find_bit(int64_t x, size_t bytes, bool is_signed)
{
    uint64_t v = (uint64_t)(is_signed && x < 0 ? ~x : x);
    if (bytes == 4)
        v &= 0xffffffff;
    return v ? 63 - __builtin_clzll(v) : -1;
}

static inline int shift_bit(int64_t x, size_t bytes, bool is_signed)
{
    int at = find_bit(x, bytes, is_signed);
    return at < 0 ? -1 : 8 * (int)bytes - 1 - at;
}

static inline uint32_t funnel(uint32_t low, uint32_t high, uint32_t n, bool left)
{
    uint64_t both = (uint64_t)high << 32 | low;
    return left ? n == 32 ? low : (uint32_t)((both << n) >> 32) : n == 32 ? high : (uint32_t)(both >> n);
}

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selectors)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = selectors >> (4 * i) & 15, byte = (uint32_t)(both >> (8 * (s & 7))) & 255;
        if (s & 8)
            byte = byte & 128 ? 255 : 0;
        r |= byte << (8 * i);
    }
    return r;
}

static inline uint32_t back4(uint32_t k)
{
    uint32_t r = 0;
    for (uint32_t i = 0; i < 4; i++)
        r |= ((k - i) & 7) << (4 * i);
    return r;
}

static inline uint32_t edge(uint32_t k, bool left)
{
    uint32_t r = 0;
    for (uint32_t i = 0; i < 4; i++)
        r |= (left ? (i > k ? i : k) : (i < k ? i : k)) << (4 * i);
    return r;
}

static inline uint32_t dot4(uint32_t a, uint32_t b, bool signed_a, bool signed_b)
{
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8) {
        int32_t x = a >> i & 255, y = b >> i & 255;
        sum += (signed_a && x > 127 ? x - 256 : x) * (signed_b && y > 127 ? y - 256 : y);
    }
    return (uint32_t)sum;
}

#endif
