/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h - how an index that may not count from the end says so: where it is negative, it is lower by TCC_FROM_ZERO,
 * more than any axis is long, so that every access refuses it; messages give the number that the data have.
 */
#ifndef TCC_INDEX_H
#define TCC_INDEX_H

#include <stdint.h>

#define TCC_FROM_ZERO (INT64_C(1) << 41)

static inline int64_t tcc_index_told(int64_t index)
{
    if (index == INT64_MAX - TCC_FROM_ZERO + 1) /* the least, which wrapped */
        return INT64_MIN;
    return index < -TCC_FROM_ZERO / 2 && index >= -TCC_FROM_ZERO / 2 * 3 ? index + TCC_FROM_ZERO : index;
}

#endif
