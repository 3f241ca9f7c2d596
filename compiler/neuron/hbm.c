/* SPDX-License-Identifier: Apache-2.0 */
/* hbm.c - tensors of a program, which lie in HBM. */
#include "compiler/neuron/hbm_int.h"

struct nk_buffer *nk_add_tensor(struct nk *nk, const char *name, enum neuron_use use, enum neuron_type type, int64_t n)
{
    struct neuron_tensor t = {
        .name = (char *)name /* copied */, .use = (uint8_t)use, .type = (uint8_t)type, .rank = 1, .dims = {n}};
    struct nk_buffer *b = IR_NEW(nk->ctx, struct nk_buffer);
    int number = neuron_add_tensor(nk->p, &t);
    if (number < 0)
        nk_refuse(nk, "no memory for a program");
    *b = (struct nk_buffer){.space = NEURON_HBM, .live = true, .tensor = (uint16_t)number};
    return b;
}
