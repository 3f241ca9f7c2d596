/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stages_mail.c - messages between stages of one process, and pieces of a result that several of them have: posted by
 * value, microbatch and rank, picked up in any order.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/stages_int.h"

void tcr_stages_drop(struct message **at)
{
    struct message *m = *at;

    *at = m->next;
    free(m->data);
    free(m);
}

int tcr_stages_post(struct run *r, uint32_t v, uint32_t micro, uint32_t from, uint32_t to, const struct pslot *x)
{
    struct message *m = calloc(1, sizeof *m), **end = &r->state->mail;
    struct tcc_tensor t = tcr_stages_tensor(r, v, x);
    size_t bytes = (size_t)(tcr_elements(t.dtype, t.rank, t.dims) * tcr_dtype_bytes(t.dtype));

    if (!m || !(m->data = malloc(bytes + 1))) {
        free(m);
        return tcr_fail(TCC_EENV, "no memory for '%s' on its way to stage %u", tcr_stages_value_name(r, v), to);
    }
    memcpy(m->data, t.data, bytes);
    m->value = v;
    m->micro = micro;
    m->from = from;
    m->to = to;
    m->bytes = bytes;
    m->t = t;
    while (*end)
        end = &(*end)->next;
    *end = m;
    return TCC_OK;
}

/* NULL: it has not come. */
static struct message **find(struct run *r, uint32_t v, uint32_t micro, uint32_t from, uint32_t to)
{
    for (struct message **at = &r->state->mail; *at; at = &(*at)->next)
        if ((*at)->value == v && (*at)->micro == micro && (*at)->from == from && (*at)->to == to)
            return at;
    return NULL;
}

int tcr_stages_pick_up(struct run *r, uint32_t v, uint32_t micro, uint32_t from, uint32_t stage, struct pslot *x)
{
    struct message **at = find(r, v, micro, from, stage);
    int status;

    if (!at)
        return AGAIN;
    if ((status = tcr_grow(r->s, 0, &x->data, &x->held, (*at)->bytes)))
        return status;
    memcpy(x->data, (*at)->data, (*at)->bytes);
    x->rank = (*at)->t.rank;
    memcpy(x->dims, (*at)->t.dims, sizeof x->dims);
    tcr_stages_drop(at);
    return TCC_OK;
}

int tcr_stages_gather_here(struct run *r, uint32_t stage, uint32_t v, const struct pslot *own, struct pslot *all)
{
    struct tcc_tensor one = tcr_stages_tensor(r, v, own);
    size_t bytes = (size_t)(tcr_elements(one.dtype, one.rank, one.dims) * tcr_dtype_bytes(one.dtype));
    bool *gave = &r->state->stages[stage].gave;
    int status = TCC_OK;

    for (uint32_t to = 0; !*gave && !status && to < r->p->stages; to++)
        status = tcr_stages_post(r, v, 0, stage, to, own);
    *gave = true;
    for (uint32_t from = 0; !status && from < r->p->stages; from++)
        if (!find(r, v, 0, from, stage))
            return AGAIN;
    if (status || (status = tcr_grow(r->s, 0, &all->data, &all->held, bytes * r->p->stages)))
        return status;
    for (uint32_t from = 0; from < r->p->stages; from++) {
        struct message **m = find(r, v, 0, from, stage);

        if ((*m)->bytes != bytes)
            return tcr_fail(TCC_EBUG, "stages gather '%s' in different sizes", tcr_stages_value_name(r, v));
        memcpy((char *)all->data + bytes * from, (*m)->data, bytes);
        tcr_stages_drop(m);
    }
    *gave = false;
    all->rank = one.rank + 1;
    all->dims[0] = r->p->stages;
    memcpy(all->dims + 1, one.dims, (size_t)one.rank * sizeof *one.dims);
    return TCC_OK;
}
