/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of tensors, for tests that link the run-time library alone. */
#ifndef TCCC_TESTS_TENSORS_H
#define TCCC_TESTS_TENSORS_H

#include <stddef.h>

#include "runtime/abi.h"

static inline int64_t elements(const struct tcc_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* Of the types that training uses: integers, floats of 4 and of 2 bytes. */
static inline size_t bytes_of(const struct tcc_tensor *t)
{
    return (size_t)elements(t) * (t->dtype == TCC_F32 || t->dtype == TCC_I32 ? 4 : t->dtype == TCC_I64 ? 8 : 2);
}

#endif
