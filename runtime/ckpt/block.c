/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in blocks: what lies on a device comes to the host a block at a time. */
#include <stdlib.h>

#include "runtime/ckpt/ckpt_int.h"

#define BLOCK ((size_t)8 << 20)

/* The variable that lies there on the device; -1: none. */
static int64_t state_at(const struct tccrt_session *s, const void *at)
{
    for (uint32_t i = 0; s && s->discrete && i < s->m->plan->states.count; i++)
        if (s->states[i] == at)
            return i;
    return -1;
}

int ckpt_each_block(struct tccrt_session *s, const struct tcc_tensor *t,
                    int (*fn)(void *user, const void *data, size_t n), void *user)
{
    int64_t count = tcr_elements(t->dtype, t->rank, t->dims), i = state_at(s, t->data);
    size_t bytes = count > 0 ? (size_t)count * (size_t)tcr_dtype_bytes(t->dtype) : 0, n;
    int status = TCC_OK;
    void *block;

    if (i < 0 || !bytes)
        return fn(user, bytes ? t->data : "", bytes);
    if (!(block = malloc(bytes < BLOCK ? bytes : BLOCK)))
        return tcr_fail(TCC_EENV, "no memory for a block of '%s'", tcr_string(s->m, s->m->states[i].name));
    for (size_t at = 0; at < bytes && !status; at += n) {
        n = bytes - at < BLOCK ? bytes - at : BLOCK;
        status = tcr_state_read(s, (uint32_t)i, at, n, block);
        status = status ? status : fn(user, block, n);
    }
    free(block);
    return status;
}
