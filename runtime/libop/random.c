/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.c - random_key: () seed, stream -> u64[2], what compiled random numbers (the scalar word philox, ir/scalar.def)
 * need of the running program. Key: the node's seed plus the session's own (tccrt_options). Upper half of the counter: the
 * node's stream, and the number of the session's runs so far.
 */
#include "runtime/libop/libop_int.h"

int tccrt_lib_random_key(struct tcc_lib_call *call)
{
    const int64_t two = 2;
    uint64_t *key = lib_out(call, 0, TCC_U64, 1, &two);
    if (!key)
        return LIB_NO_MEMORY(call);
    key[0] = (uint64_t)lib_int(call, "seed", 0) + call->seed;
    key[1] = (uint32_t)lib_int(call, "stream", 0) | (uint64_t)(uint32_t)call->run << 32;
    return TCC_OK;
}
