/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.h - half-open ranges [lo, hi) of numbers that are known when compiling, with lo <= hi by construction: range.h's
 * constant form, which needs no LLVM.
 */
#ifndef TCC_EMIT_SPAN_H
#define TCC_EMIT_SPAN_H

#include <stdbool.h>
#include <stdint.h>

struct em_span { int64_t lo, hi; };

static inline struct em_span em_span(int64_t lo, int64_t hi)
{
    return (struct em_span){lo, hi < lo ? lo : hi};
}

/* What lies in both; inside r where that is nothing. */
static inline struct em_span em_span_cut(struct em_span r, struct em_span by)
{
    int64_t lo = by.lo < r.lo ? r.lo : by.lo > r.hi ? r.hi : by.lo;
    return em_span(lo, by.hi < r.hi ? by.hi : r.hi);
}

/* The same points, counted from `at` on. */
static inline struct em_span em_span_from(struct em_span r, int64_t at)
{
    return (struct em_span){r.lo - at, r.hi - at};
}

static inline bool em_span_holds(struct em_span r, int64_t lo, int64_t hi)
{
    return r.lo <= lo && hi <= r.hi;
}

static inline int64_t em_span_length(struct em_span r)
{
    return r.hi - r.lo;
}

#endif
