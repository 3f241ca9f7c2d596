/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small trees, for a chunk of rows side by side, without a walk: a node has a bit for each row that comes to it, and
 * hands them to its branches by one comparison of all rows. No load waits for another and there is no branch to
 * predict. What QuickScorer (Lucchese et al., SIGIR 2015) does with a bit a leaf; a bit a row needs no wider words for
 * more leaves. A leaf's number is then put together by its bits: of each bit of the number, the rows that have it.
 */
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "runtime/libop/ml_tree_int.h"
#include "runtime/trees.h"

_Static_assert(TREE_ROWS == 32, "a bit a row");
enum { BITS = 8 }; /* of a leaf's number, a power of two: one is unused */

/* lib_tree_small() by above_LEVEL(), which compares the ranks of a column with a split. */
#define SMALL(level, attribute)                                                                                        \
    attribute static void small_##level(const int64_t *nodes, int leaves, const int16_t *ranks, int64_t ncolumns,      \
                                        int32_t *numbers)                                                              \
    {                                                                                                                  \
        uint32_t reach[256], planes[BITS] = {0};                                                                       \
                                                                                                                       \
        memset(reach, 0, (size_t)(2 * leaves) * sizeof *reach);                                                        \
        reach[0] = ~(uint32_t)0;                                                                                       \
        for (int i = 0; i < leaves - 1; i++) {                                                                         \
            uint64_t node = (uint64_t)nodes[i], column = node >> NODE_COLUMN & NODE_MOST;                              \
            uint32_t here = reach[i],                                                                                  \
                     no =                                                                                              \
                         above_##level(ranks + (column < (uint64_t)ncolumns ? column : 0) * TREE_ROWS, (int16_t)node); \
                                                                                                                       \
            reach[node >> SMALL_YES & 0xff] = here & ~no;                                                              \
            reach[node >> SMALL_NO & 0xff] = here & no;                                                                \
        }                                                                                                              \
        for (int l = 1; l < leaves; l++)                                                                               \
            for (int b = 0; b < BITS; b++)                                                                             \
                planes[b] |= reach[leaves - 1 + l] & -(uint32_t)(l >> b & 1);                                          \
        memset(numbers, 0, TREE_ROWS * sizeof *numbers);                                                               \
        for (int b = 0; b < BITS - 1 && 1 << b < leaves; b++)                                                          \
            for (int k = 0; k < TREE_ROWS; k++)                                                                        \
                numbers[k] |= (int32_t)((planes[b] >> k & 1) << b);                                                    \
        for (int k = 0; k < TREE_ROWS; k++)                                                                            \
            numbers[k] = numbers[k] < leaves ? numbers[k] : 0;                                                         \
    }
#define INLINE static inline __attribute__((always_inline))

#ifdef __x86_64__
INLINE uint32_t above_any(const int16_t *ranks, int16_t split)
{
    const __m128i *p = (const __m128i *)(const void *)ranks, s = _mm_set1_epi16(split);
    __m128i a = _mm_packs_epi16(_mm_cmpgt_epi16(_mm_loadu_si128(p), s), _mm_cmpgt_epi16(_mm_loadu_si128(p + 1), s));
    __m128i b = _mm_packs_epi16(_mm_cmpgt_epi16(_mm_loadu_si128(p + 2), s), _mm_cmpgt_epi16(_mm_loadu_si128(p + 3), s));

    return (uint32_t)_mm_movemask_epi8(a) | (uint32_t)_mm_movemask_epi8(b) << 16;
}

INLINE __attribute__((target("avx2"))) uint32_t above_v3(const int16_t *ranks, int16_t split)
{
    const __m256i *p = (const __m256i *)(const void *)ranks, s = _mm256_set1_epi16(split);
    __m256i a = _mm256_cmpgt_epi16(_mm256_loadu_si256(p), s), b = _mm256_cmpgt_epi16(_mm256_loadu_si256(p + 1), s);

    /* packs works in halves of 128 bits: put the quarters in order */
    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8));
}

INLINE __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq"))) uint32_t above_v4(const int16_t *ranks,
                                                                                       int16_t split)
{
    return _mm512_cmpgt_epi16_mask(_mm512_loadu_si512(ranks), _mm512_set1_epi16(split));
}

SMALL(any, )
SMALL(v3, __attribute__((target("avx2"))))
SMALL(v4, __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq"))))
#else
#ifdef __aarch64__
/* 16 rows: a byte each, of which the bit stays that is the row's. */
INLINE uint8x16_t above_rows(const int16_t *ranks, int16x8_t split)
{
    static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t low = vreinterpretq_u8_u16(vcgtq_s16(vld1q_s16(ranks), split)),
               high = vreinterpretq_u8_u16(vcgtq_s16(vld1q_s16(ranks + 8), split));

    return vandq_u8(vuzp1q_u8(low, high), vld1q_u8(bits));
}

/* Sums of neighbours bring the bits of eight bytes into one. */
INLINE uint32_t above_any(const int16_t *ranks, int16_t split)
{
    int16x8_t s = vdupq_n_s16(split);
    uint8x16_t sums = vpaddq_u8(above_rows(ranks, s), above_rows(ranks + 16, s));

    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(sums, sums)), 0);
}
#else
INLINE uint32_t above_any(const int16_t *ranks, int16_t split)
{
    uint32_t above = 0;

    for (int k = 0; k < TREE_ROWS; k++)
        above |= (uint32_t)(ranks[k] > split) << k;
    return above;
}
#endif

SMALL(any, )
#define small_v3 small_any
#define small_v4 small_any
#endif

void lib_tree_small(const int64_t *nodes, int leaves, const int16_t *ranks, int64_t ncolumns,
                    int32_t numbers[TREE_ROWS])
{
    static void (*const forms[])(const int64_t *nodes, int leaves, const int16_t *ranks, int64_t ncolumns,
                                 int32_t *numbers) = {small_any, small_v3, small_v4};

    forms[lib_tree_level()](nodes, leaves, ranks, ncolumns, numbers);
}
