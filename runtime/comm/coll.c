/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations as sequences of messages. Each is a state that is looked at again and again and never waits.
 *
 * Reductions: every rank owns a range of the elements. In the first phase each rank sends the owner what it has of that
 * range, the owner combines all ranks' elements in their order; in the second it sends the result to whoever is to have
 * it. For all_reduce the ranges are equal parts: as many bytes as a ring sends, in two rounds, each element is rounded
 * once, and the order of additions depends on nothing but the ranks. Short tensors are everybody's range: one round.
 * Ranges are cut into chunks, a few of which are under way at once, so that sums and messages overlap and staging
 * memory is bounded.
 *
 * Broadcasts go down a binomial tree in such chunks (coll_cast.c). The others are plain exchanges of blocks.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/coll_int.h"

#include "base/mutant.h"

#define STAGE_BYTES ((size_t)64 << 20) /* of all staging together, about */
#define SHORT_BYTES ((size_t)4 << 10)  /* everybody reduces everything */

/* -- A group of one --------------------------------------------------------------------------------------- */

void tcr_coll_alone(const struct tcr_coll *c)
{
    bool reduces = c->kind == TCC_ALL_REDUCE || c->kind == TCC_REDUCE || c->kind == TCC_REDUCE_SCATTER ||
                   c->kind == TCC_REDUCE_OWNED;

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

/* -- Elements of several tensors as if they were one ------------------------------------------------------------ */

char *tcr_coll_stretch(const struct tcr_coll *c, const struct tcr_piece *pieces, int64_t first, int64_t n)
{
    for (int i = 0; i < c->npieces; i++) {
        if (first < pieces[i].n)
            return first + n <= pieces[i].n ? pieces[i].data + (size_t)first * c->size : NULL;
        first -= pieces[i].n;
    }
    return NULL;
}

void tcr_coll_copy(const struct tcr_coll *c, const struct tcr_piece *pieces, int64_t first, int64_t n, char *flat,
                   bool out_of)
{
    for (int i = 0; i < c->npieces && n; i++) {
        int64_t take = pieces[i].n - first;

        if (take <= 0) {
            first -= pieces[i].n;
            continue;
        }
        take = take < n ? take : n;
        if (out_of)
            memcpy(flat, pieces[i].data + (size_t)first * c->size, (size_t)take * c->size);
        else
            memcpy(pieces[i].data + (size_t)first * c->size, flat, (size_t)take * c->size);
        flat += (size_t)take * c->size;
        n -= take;
        first = MUTANT(41, 0, first);
    }
}

/* -- Reductions --------------------------------------------------------------------------------------------------- */

struct range {
    int64_t first, last;
};

struct slot {
    int64_t k; /* its chunk; -1: free */
    bool summed;
    struct tcr_msg *to, *from, *give, *get; /* by rank: contributions, results */
    bool *getting;                          /* by rank: is `get` posted? */
    char *parts;                            /* size chunks: contributions as they come */
    char *packed;                           /* size chunks: what is sent, where it is not in one stretch */
    char *got;                              /* size chunks: results as they come, likewise */
    char *sum;                              /* one chunk: the result, likewise */
};

struct reduction {
    struct range *own;     /* by rank */
    bool *wants;           /* by rank: gets the results of all owners */
    int64_t chunk, chunks; /* elements; number that the longest range has */
    int64_t next_open, next_sum, next_close;
    bool clash; /* a result goes where a contribution is still read from */
    struct slot slots[WINDOW];
    int64_t *got_posted; /* by rank: the chunk whose result is received next */
    const void **at;     /* by rank */
    char *stage;
};

static struct range chunk_of(const struct reduction *r, int rank, int64_t k)
{
    struct range own = r->own[rank], c = {own.first + k * r->chunk, own.first + (MUTANT(47, k, 0) + 1) * r->chunk};

    c.last = c.last < own.last ? c.last : own.last;
    c.first = c.first < c.last ? c.first : c.last;
    return c;
}

static void set_ranges(struct reduction *r, const struct tcr_coll *c)
{
    int size = c->c->size;
    bool brief = (size_t)c->n * c->size <= SHORT_BYTES && size <= 64;

    for (int i = 0; i < size; i++) {
        if (c->kind == TCC_REDUCE_SCATTER || c->kind == TCC_REDUCE_OWNED) {
            r->own[i] = (struct range){c->in_first[i], c->in_first[i + 1]};
        } else if (brief && (c->kind == TCC_ALL_REDUCE || i == c->root)) {
            r->own[i] = (struct range){0, c->n};
        } else if (!brief) {
            int64_t lines = (c->n + 15) / 16; /* whole cache lines of float32 */

            r->own[i].first = lines * i / size * 16;
            r->own[i].last = lines * (i + 1) / size * 16 < c->n ? lines * (i + 1) / size * 16 : c->n;
        }
        r->wants[i] = !brief && (c->kind == TCC_ALL_REDUCE || (c->kind == TCC_REDUCE && i == c->root));
    }
    for (int i = 0; i < size; i++) {
        int64_t chunks = (r->own[i].last - r->own[i].first + r->chunk - 1) / r->chunk;

        r->chunks = chunks > r->chunks ? chunks : r->chunks;
    }
    r->clash = brief && c->kind == TCC_ALL_REDUCE;
}

static int64_t chunk_elements(const struct tcr_coll *c)
{
    size_t bytes = STAGE_BYTES / WINDOW / 3 / (size_t)c->c->size;

    bytes = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
    bytes = bytes > 4096 ? bytes : 4096;
    return (int64_t)(bytes / c->size / 1024 ? bytes / c->size / 1024 * 1024 : 1024);
}

/* One block of memory for the state, one for staging; the latter's pages are touched only where it is used. */
static int reduction_begin(struct tcr_op *op)
{
    const struct tcr_coll *c = &op->c;
    size_t size = (size_t)c->c->size, flat;
    size_t bytes = sizeof(struct reduction) + size * (sizeof(struct range) + 2 * sizeof(bool) + 3 * sizeof(int64_t)) +
                   WINDOW * size * (4 * sizeof(struct tcr_msg) + sizeof(bool)) + 64;
    struct reduction *r = calloc(1, bytes);
    char *at;

    op->state = r;
    if (!r)
        return tcr_fail(TCC_EENV, "no memory for %s", tcr_coll_name(c->kind));
    at = (char *)(r + 1);
    r->own = (struct range *)at;
    r->got_posted = (int64_t *)(r->own + size);
    r->at = (const void **)(r->got_posted + size);
    at = (char *)(r->at + size);
    for (int i = 0; i < WINDOW; i++) {
        struct slot *s = &r->slots[i];

        s->k = -1;
        s->to = (struct tcr_msg *)at;
        s->from = s->to + size;
        s->give = s->from + size;
        s->get = s->give + size;
        at = (char *)(s->get + size);
    }
    for (int i = 0; i < WINDOW; i++, at += size)
        r->slots[i].getting = (bool *)at;
    r->wants = (bool *)at;
    r->chunk = chunk_elements(c);
    r->chunk = r->chunk < c->n ? r->chunk : c->n + !c->n;
    set_ranges(r, c);
    flat = TCR_ROUND((size_t)r->chunk * c->size);
    if (!(r->stage = aligned_alloc(TCR_ALIGN, WINDOW * flat * (3 * size + 1))))
        return tcr_fail(TCC_EENV, "no memory for %s", tcr_coll_name(c->kind));
    at = r->stage;
    for (int i = 0; i < WINDOW; i++) {
        r->slots[i].parts = at;
        r->slots[i].packed = at + size * flat;
        r->slots[i].got = at + 2 * size * flat;
        r->slots[i].sum = at + 3 * size * flat;
        at += (3 * size + 1) * flat;
    }
    return TCC_OK;
}

int tcr_coll_world(const struct tcr_op *op, int rank)
{
    return op->c.c->ranks[rank];
}

/* Contributions of chunk k: those of others to this rank's range, and this rank's to theirs. */
static int open_slot(struct tcr_op *op, struct reduction *r, struct slot *s, int64_t k)
{
    const struct tcr_coll *c = &op->c;
    int me = c->c->rank, size = c->c->size, status = TCC_OK;
    size_t flat = TCR_ROUND((size_t)r->chunk * c->size);

    s->k = k;
    s->summed = false;
    for (int i = 1; i < size && !status; i++) { /* everybody begins with another one */
        int j = (me + i) % size;
        struct range mine = chunk_of(r, me, k), theirs = chunk_of(r, j, k);

        s->getting[j] = false;
        if (mine.first < mine.last)
            status = tcr_msg_start(op->net, &s->from[j], false, TCR_LANE_COLLECTIVE, tcr_coll_world(op, j), op->tag,
                                   s->parts + (size_t)j * flat, (size_t)(mine.last - mine.first) * c->size);
        if (!status && theirs.first < theirs.last) {
            int64_t n = theirs.last - theirs.first;
            char *data = tcr_coll_stretch(c, c->in, theirs.first, n);

            if (!data)
                tcr_coll_copy(c, c->in, theirs.first, n, data = s->packed + (size_t)j * flat, true);
            status = tcr_msg_start(op->net, &s->to[j], true, TCR_LANE_COLLECTIVE, tcr_coll_world(op, j), op->tag, data,
                                   (size_t)n * c->size);
        }
    }
    return status;
}

bool tcr_coll_all_over(struct tcr_msg *m, int n)
{
    for (int i = 0; i < n; i++)
        if (m[i].active)
            return false;
    return true;
}

/* Combines chunk k of this rank's range and gives the result to those who want it. */
static int sum_slot(struct tcr_op *op, struct reduction *r, struct slot *s)
{
    const struct tcr_coll *c = &op->c;
    int me = c->c->rank, size = c->c->size, status = TCC_OK;
    struct range mine = chunk_of(r, me, s->k);
    int64_t n = mine.last - mine.first, shift = MUTANT(42, c->kind == TCC_REDUCE_SCATTER, false) ? r->own[me].first : 0;
    size_t flat = TCR_ROUND((size_t)r->chunk * c->size);
    bool keeps = c->kind != TCC_REDUCE || me == c->root;
    char *own, *result;

    s->summed = true;
    if (!n)
        return TCC_OK;
    own = tcr_coll_stretch(c, c->in, mine.first, n);
    if (!own)
        tcr_coll_copy(c, c->in, mine.first, n, own = s->packed + (size_t)me * flat, true);
    result = keeps ? tcr_coll_stretch(c, c->out, mine.first - shift, n) : NULL;
    for (int j = 0; j < size; j++)
        r->at[j] = j == me ? own : s->parts + (size_t)j * flat;
    tcr_reduce(c->dtype, c->how, c->scale, size, r->at, result ? result : s->sum, n);
    if (!result && keeps)
        tcr_coll_copy(c, c->out, mine.first - shift, n, s->sum, false);
    for (int i = 1; i < size && !status; i++) {
        int j = (me + i) % size;

        if (r->wants[j])
            status = tcr_msg_start(op->net, &s->give[j], true, TCR_LANE_COLLECTIVE, tcr_coll_world(op, j), op->tag | 1,
                                   result ? result : s->sum, (size_t)n * c->size);
    }
    return status;
}

/* Receives results of chunk k as soon as what they overwrite has been sent, in the order of chunks. */
static int get_results(struct tcr_op *op, struct reduction *r, struct slot *s)
{
    const struct tcr_coll *c = &op->c;
    int me = c->c->rank, status = TCC_OK;
    size_t flat = TCR_ROUND((size_t)r->chunk * c->size);

    for (int j = 0; r->wants[me] && j < c->c->size && !status; j++) {
        struct range theirs = chunk_of(r, j, s->k);
        int64_t n = theirs.last - theirs.first;
        char *data;

        if (j == me || s->getting[j] || s->to[j].active || r->got_posted[j] != s->k)
            continue;
        s->getting[j] = true;
        r->got_posted[j]++;
        if (!n)
            continue;
        data = tcr_coll_stretch(c, c->out, theirs.first, n);
        status = tcr_msg_start(op->net, &s->get[j], false, TCR_LANE_COLLECTIVE, tcr_coll_world(op, j), op->tag | 1,
                               data ? data : s->got + (size_t)j * flat, (size_t)n * c->size);
    }
    return status;
}

static int poll_list(struct tcr_op *op, struct tcr_msg *m, bool *moved)
{
    int status = TCC_OK;

    for (int i = 0; i < op->c.c->size && !status; i++)
        if (m[i].active && !(status = tcr_msg_poll(op->net, &m[i], moved)) && m[i].active)
            op->awaited = op->awaited < 0 || !m[i].send ? m[i].peer : op->awaited;
    return status;
}

static int poll_results(struct tcr_op *op, struct reduction *r, struct slot *s, bool *moved)
{
    const struct tcr_coll *c = &op->c;
    size_t flat = TCR_ROUND((size_t)r->chunk * c->size);
    int status = TCC_OK;

    for (int j = 0; j < c->c->size && !status; j++) {
        if (!s->get[j].active)
            continue;
        if ((status = tcr_msg_poll(op->net, &s->get[j], moved)))
            break;
        if (s->get[j].active) {
            op->awaited = s->get[j].peer;
        } else {
            struct range theirs = chunk_of(r, j, s->k);

            if (s->get[j].data == s->got + (size_t)j * flat)
                tcr_coll_copy(c, c->out, theirs.first, theirs.last - theirs.first, s->got + (size_t)j * flat, false);
        }
    }
    return status;
}

/* Have all results of the slot's chunk been asked for? */
static bool asked(const struct tcr_op *op, const struct reduction *r, const struct slot *s)
{
    for (int j = 0; r->wants[op->c.c->rank] && j < op->c.c->size; j++)
        if (j != op->c.c->rank && !s->getting[j])
            return false;
    return true;
}

static int slot_step(struct tcr_op *op, struct reduction *r, struct slot *s, bool *moved)
{
    int size = op->c.c->size, status;

    if ((status = poll_list(op, s->from, moved)) || (status = poll_list(op, s->to, moved)) ||
        (status = poll_list(op, s->give, moved)) || (status = poll_results(op, r, s, moved)))
        return status;
    if (!s->summed && r->next_sum == s->k && tcr_coll_all_over(s->from, size) &&
        (!r->clash || tcr_coll_all_over(s->to, size))) {
        r->next_sum++;
        *moved = true;
        if ((status = sum_slot(op, r, s)))
            return status;
    }
    return get_results(op, r, s);
}

static int reduction_advance(struct tcr_op *op, bool *moved)
{
    struct reduction *r = op->state;
    int size = op->c.c->size, status;

    op->awaited = -1;
    while (r->next_open < r->chunks && r->slots[r->next_open % WINDOW].k < 0) {
        if ((status = open_slot(op, r, &r->slots[r->next_open % WINDOW], r->next_open)))
            return status;
        r->next_open++;
        *moved = true;
    }
    for (int64_t k = r->next_close; k < r->next_open; k++)
        if ((status = slot_step(op, r, &r->slots[k % WINDOW], moved)))
            return status;
    while (r->next_close < r->next_open) {
        struct slot *s = &r->slots[r->next_close % WINDOW];

        if (!s->summed || !asked(op, r, s) || !tcr_coll_all_over(s->to, size) || !tcr_coll_all_over(s->give, size) ||
            !tcr_coll_all_over(s->get, size))
            break;
        s->k = -1;
        r->next_close++;
        *moved = true;
    }
    op->done = r->next_close == r->chunks;
    return TCC_OK;
}

static void reduction_end(struct tcr_op *op)
{
    struct reduction *r = op->state;

    for (int i = 0; i < WINDOW && r; i++)
        for (int j = 0; j < op->c.c->size && r->slots[i].to; j++) {
            tcr_msg_cancel(op->net, &r->slots[i].to[j]);
            tcr_msg_cancel(op->net, &r->slots[i].from[j]);
            tcr_msg_cancel(op->net, &r->slots[i].give[j]);
            tcr_msg_cancel(op->net, &r->slots[i].get[j]);
        }
    if (r)
        free(r->stage);
}

/* -- Exchanges ----------------------------------------------------------------------------------------------------- */

/* Blocks to and from each rank: all_gather, all_to_all, send, recv, barrier. */
struct exchange {
    int n;
    char token;
    struct tcr_msg at[];
};

static int add(struct tcr_op *op, struct exchange *x, bool send, int rank, int tag, char *data, int64_t n)
{
    int lane = op->c.kind >= TCR_SEND ? TCR_LANE_POINT : TCR_LANE_COLLECTIVE;

    return tcr_msg_start(op->net, &x->at[x->n++], send, lane, tcr_coll_world(op, rank), tag, data,
                         (size_t)n * op->c.size);
}

static int exchange_with(struct tcr_op *op, struct exchange *x, int j)
{
    const struct tcr_coll *c = &op->c;
    int me = c->c->rank, status = TCC_OK;
    struct range in = {0, c->in[0].n}, out = {0, c->out[0].n};

    if (c->in_first)
        in = (struct range){c->in_first[j], c->in_first[j + 1]};
    if (c->out_first)
        out = (struct range){c->out_first[j], c->out_first[j + 1]};
    if (c->kind == TCC_BARRIER) {
        status = add(op, x, false, j, op->tag, &x->token, 1);
        return status ? status : add(op, x, true, j, op->tag, &x->token, 1);
    }
    if (j == me) {
        char *to = c->out[0].data + (size_t)out.first * c->size,
             *from = c->in[0].data + (size_t)MUTANT(44, in.first, 0) * c->size;

        if (in.last > in.first && to != from)
            memmove(to, from, (size_t)(in.last - in.first) * c->size);
        return TCC_OK;
    }
    if (out.last > out.first)
        status = add(op, x, false, j, op->tag, c->out[0].data + (size_t)out.first * c->size, out.last - out.first);
    if (!status && in.last > in.first)
        status = add(op, x, true, j, op->tag, c->in[0].data + (size_t)in.first * c->size, in.last - in.first);
    return status;
}

static int exchange_begin(struct tcr_op *op)
{
    const struct tcr_coll *c = &op->c;
    struct exchange *x = calloc(1, sizeof *x + 2 * (size_t)c->c->size * sizeof x->at[0]);
    int status = TCC_OK;

    op->state = x;
    if (!x)
        return tcr_fail(TCC_EENV, "no memory for %s", tcr_coll_name(c->kind));
    if (c->kind == TCR_SEND)
        return add(op, x, true, c->root, op->tag, c->in[0].data, c->n);
    if (c->kind == TCR_RECV)
        return add(op, x, false, c->root, op->tag, c->out[0].data, c->n);
    for (int i = c->kind == TCC_BARRIER; i < c->c->size && !status; i++)
        status = exchange_with(op, x, (c->c->rank + i) % c->c->size);
    return status;
}

static int exchange_advance(struct tcr_op *op, bool *moved)
{
    struct exchange *x = op->state;
    int status = TCC_OK;

    op->done = true;
    op->awaited = -1;
    for (int i = 0; i < x->n && !status; i++) {
        status = tcr_msg_poll(op->net, &x->at[i], moved);
        op->done &= !x->at[i].active;
        if (x->at[i].active && (op->awaited < 0 || !x->at[i].send))
            op->awaited = x->at[i].peer;
    }
    return status;
}

static void exchange_end(struct tcr_op *op)
{
    struct exchange *x = op->state;

    for (int i = 0; x && i < x->n; i++)
        tcr_msg_cancel(op->net, &x->at[i]);
}

/* -- All ----------------------------------------------------------------------------------------------------------- */

static const struct {
    int (*begin)(struct tcr_op *op);
    int (*advance)(struct tcr_op *op, bool *moved);
    void (*end)(struct tcr_op *op);
} algorithms[] = {
    [TCC_ALL_REDUCE] = {reduction_begin, reduction_advance, reduction_end},
    [TCC_REDUCE] = {reduction_begin, reduction_advance, reduction_end},
    [TCC_REDUCE_SCATTER] = {reduction_begin, reduction_advance, reduction_end},
    [TCC_REDUCE_OWNED] = {reduction_begin, reduction_advance, reduction_end},
    [TCC_BROADCAST] = {tcr_cast_begin, tcr_cast_advance, tcr_cast_end},
    [TCC_ALL_GATHER] = {exchange_begin, exchange_advance, exchange_end},
    [TCC_ALL_TO_ALL] = {exchange_begin, exchange_advance, exchange_end},
    [TCC_BARRIER] = {exchange_begin, exchange_advance, exchange_end},
    [TCR_SEND] = {exchange_begin, exchange_advance, exchange_end},
    [TCR_RECV] = {exchange_begin, exchange_advance, exchange_end},
};

int tcr_coll_begin(struct tcr_op *op)
{
    int status;

    if (op->c.device)
        return tcr_peers_begin(op);
    op->advance = algorithms[op->c.kind].advance;
    status = algorithms[op->c.kind].begin(op);
    if (status)
        tcr_coll_end(op);
    return status;
}

void tcr_coll_end(struct tcr_op *op)
{
    if (op->c.device)
        tcr_peers_end(op);
    else if (op->state)
        algorithms[op->c.kind].end(op);
    free(op->state);
    op->state = NULL;
}
