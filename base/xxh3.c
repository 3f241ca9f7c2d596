/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3-64 (seed 0, default secret) of a block of memory: the digest of sidecar weights, plans and names. libxxhash's
 * own code, taken from its header as static functions: artifacts embed this file and depend on no library.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/xxh3.h"

uint64_t tcr_xxh3(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct tcr_xxh3), "struct tcr_xxh3 has room for the library's state");

void tcr_xxh3_begin(struct tcr_xxh3 *x)
{
    XXH3_64bits_reset((XXH3_state_t *)x);
}

void tcr_xxh3_add(struct tcr_xxh3 *x, const void *data, size_t size)
{
    XXH3_64bits_update((XXH3_state_t *)x, data, size);
}

uint64_t tcr_xxh3_end(const struct tcr_xxh3 *x)
{
    return XXH3_64bits_digest((const XXH3_state_t *)x);
}
