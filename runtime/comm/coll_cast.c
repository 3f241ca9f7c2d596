/* SPDX-License-Identifier: Apache-2.0 */
/* coll_cast.c - broadcasts down a binomial tree, in chunks of which a few are under way. coll.c has the others. */
#include <stdlib.h>

#include "runtime/comm/coll_int.h"

#include "base/mutant.h"

enum { MAX_CHILDREN = 31 };

struct cast {
    int64_t chunk, chunks, next_get, next_close;
    int parent, nchildren, children[MAX_CHILDREN]; /* world ranks; parent -1: the root */
    struct {
        int64_t k;         /* -1: free */
        bool here, passed; /* the data is; and was given on */
        struct tcr_msg get, give[MAX_CHILDREN];
        char *stage, *data;
    } slots[WINDOW];
    char *stage;
};

int tcr_cast_begin(struct tcr_op *op)
{
    const struct tcr_coll *c = &op->c;
    struct cast *b = calloc(1, sizeof *b);
    int size = c->c->size, v = (c->c->rank - c->root + size) % size, bit = 1;
    size_t flat;

    op->state = b;
    if (!b)
        return tcr_fail(TCC_EENV, "no memory for broadcast");
    while (bit < size && !(v & bit))
        bit <<= 1;
    b->parent = v ? tcr_coll_world(op, ((v & ~bit) + c->root) % size) : -1;
    for (bit >>= 1; bit; bit >>= 1)
        if (v + bit < size)
            b->children[b->nchildren++] = tcr_coll_world(op, (v + bit + c->root) % size);
    b->chunk = (int64_t)(CHUNK_BYTES / c->size);
    b->chunk = b->chunk < c->n ? b->chunk : c->n + !c->n;
    b->chunks = (c->n + b->chunk - 1) / b->chunk;
    flat = TCR_ROUND((size_t)b->chunk * c->size);
    if (!(b->stage = aligned_alloc(TCR_ALIGN, WINDOW * flat)))
        return tcr_fail(TCC_EENV, "no memory for broadcast");
    for (int i = 0; i < WINDOW; i++) {
        b->slots[i].k = -1;
        b->slots[i].stage = b->stage + (size_t)i * flat;
    }
    return TCC_OK;
}

static int64_t cast_count(const struct tcr_op *op, const struct cast *b, int64_t k)
{
    int64_t left = op->c.n - k * b->chunk;

    return left < b->chunk ? left : b->chunk;
}

/* The root has its chunk at once, others ask their parent. */
static int cast_open(struct tcr_op *op, struct cast *b, int64_t k)
{
    const struct tcr_coll *c = &op->c;
    __typeof__(&b->slots[0]) s = &b->slots[k % WINDOW];
    int64_t n = cast_count(op, b, k);

    s->k = k;
    s->here = b->parent < 0;
    s->passed = false;
    s->data = tcr_coll_stretch(c, c->out, MUTANT(43, k, 0) * b->chunk, n);
    if (!s->data) {
        s->data = s->stage;
        if (s->here)
            tcr_coll_copy(c, c->in, k * b->chunk, n, s->data, true);
    }
    if (s->here)
        return TCC_OK;
    return tcr_msg_start(op->net, &s->get, false, TCR_LANE_COLLECTIVE, b->parent, op->tag, s->data,
                         (size_t)n * c->size);
}

static int cast_pass_on(struct tcr_op *op, struct cast *b, int64_t k, bool *moved)
{
    const struct tcr_coll *c = &op->c;
    __typeof__(&b->slots[0]) s = &b->slots[k % WINDOW];
    int64_t n = cast_count(op, b, k);
    int status = tcr_msg_poll(op->net, &s->get, moved);

    if (status)
        return status;
    if (s->get.active)
        op->awaited = b->parent;
    if (!s->here && !s->get.active) {
        s->here = true;
        if (s->data == s->stage)
            tcr_coll_copy(c, c->out, k * b->chunk, n, s->data, false);
    }
    if (s->here && !s->passed && b->next_get == k) {
        s->passed = true;
        b->next_get++;
        *moved = true;
        for (int i = 0; i < b->nchildren && !status; i++)
            status = tcr_msg_start(op->net, &s->give[i], true, TCR_LANE_COLLECTIVE, b->children[i], op->tag, s->data,
                                   (size_t)n * c->size);
    }
    for (int i = 0; i < b->nchildren && !status; i++) {
        status = tcr_msg_poll(op->net, &s->give[i], moved);
        if (s->give[i].active && op->awaited < 0)
            op->awaited = b->children[i];
    }
    return status;
}

int tcr_cast_advance(struct tcr_op *op, bool *moved)
{
    struct cast *b = op->state;
    int status;

    op->awaited = -1;
    for (int64_t k = b->next_close; k < b->chunks && k < b->next_close + WINDOW; k++) {
        if (b->slots[k % WINDOW].k < 0 && (status = cast_open(op, b, k)))
            return status;
        if ((status = cast_pass_on(op, b, k, moved)))
            return status;
    }
    while (b->next_close < b->next_get && tcr_coll_all_over(b->slots[b->next_close % WINDOW].give, b->nchildren))
        b->slots[b->next_close++ % WINDOW].k = -1;
    op->done = b->next_close == b->chunks;
    return TCC_OK;
}

void tcr_cast_end(struct tcr_op *op)
{
    struct cast *b = op->state;

    for (int i = 0; i < WINDOW && b; i++) {
        tcr_msg_cancel(op->net, &b->slots[i].get);
        for (int j = 0; j < b->nchildren; j++)
            tcr_msg_cancel(op->net, &b->slots[i].give[j]);
    }
    if (b)
        free(b->stage);
}
