/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3-64 (seed 0, default secret) of a block of memory: the digest of sidecar weights, plans and names. libxxhash's own code, taken
 * from its header as static functions: artifacts embed this file and depend on no library.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/rt_int.h"

uint64_t tcr_xxh3(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}
