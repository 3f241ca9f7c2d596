/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as sequences of messages. */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm_int.h"

/* -- A group of one --------------------------------------------------------------------------------------- */

void tcr_coll_alone(const struct tcr_coll *c)
{
    bool reduces = c->kind == TCC_ALL_REDUCE || c->kind == TCC_REDUCE || c->kind == TCC_REDUCE_SCATTER;

    for (int i = 0; i < c->npieces; i++) {
        const struct tcr_piece *in = &c->in[i], *out = &c->out[i];

        if (!in->n || (in->data == out->data && c->scale == 1))
            continue;
        if (reduces && c->scale != 1)
            tcr_reduce(c->dtype, c->how, c->scale, 1, (const void *const[]){in->data}, out->data, in->n);
        else
            memmove(out->data, in->data, (size_t)in->n * c->size);
    }
}

int tcr_op_start(struct tcr_coll *c, struct tcr_op **out)
{
    *out = NULL;
    return tcr_fail(TCC_EBUG, "%s in a group of %d", tcr_coll_name(c->kind), c->c->size);
}

bool tcr_op_done(struct tcr_op *op)
{
    return op == NULL;
}

int tcr_op_finish(struct tcr_op *op)
{
    return op ? TCC_EBUG : TCC_OK;
}
