/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.c - bytes of SBUF, the same in all partitions, and banks of PSUM. SBUF is given out in turns, so that what was
 * freed last is used again last and engines need not wait for each other; who takes bytes inherits what their last
 * owners' users are. Where what repeats is to become loops, places keep their sizes, and are given out alike every few
 * tiles.
 */
#include "compiler/neuron/neuron_int.h"

#include <string.h>

bool nk_deps_empty(const struct nk_deps *d)
{
    for (int e = 0; e < NEURON_NENGINES; e++)
        if (d->at[e])
            return false;
    return !d->ndma;
}

void nk_deps_dma(struct nk *nk, struct nk_deps *to, int transfer)
{
    for (int i = to->ndma - 1; i >= 0; i--)
        if (to->dma[i] == transfer)
            return;
    IR_PUSH(nk->ctx, to->dma, to->ndma, to->capdma, transfer);
}

void nk_deps_join(struct nk *nk, struct nk_deps *to, const struct nk_deps *from)
{
    for (int e = 0; e < NEURON_NENGINES; e++)
        to->at[e] = to->at[e] > from->at[e] ? to->at[e] : from->at[e];
    for (int i = 0; i < from->ndma; i++)
        nk_deps_dma(nk, to, from->dma[i]);
}

static void inherit(struct nk *nk, struct nk_buffer *b, const struct nk_buffer *old)
{
    if (!old)
        return;
    if (nk_deps_empty(&old->writes)) /* never used: what came before it counts still */
        nk_deps_join(nk, &b->before, &old->before);
    nk_deps_join(nk, &b->before, &old->writes);
    nk_deps_join(nk, &b->before, &old->reads);
}

/* Segments [first, last) become one of `bytes`, and what is left of the last one. */
static struct nk_buffer *take(struct nk *nk, int first, int last, int64_t bytes)
{
    struct nk_segment *s = nk->sbuf.at;
    struct nk_buffer *b = IR_NEW(nk->ctx, struct nk_buffer);
    int64_t lo = s[first].lo, hi = s[last - 1].hi;
    struct nk_buffer *rest = s[last - 1].owner;
    *b = (struct nk_buffer){.space = NEURON_SBUF, .offset = lo, .bytes = bytes, .live = true, .number = ++nk->taken};
    for (int i = first; i < last; i++)
        inherit(nk, b, s[i].owner);
    int used = hi > lo + bytes ? 2 : 1, n = nk->sbuf.n;
    VEC_PUSH(nk->ctx, nk->sbuf, (struct nk_segment){0}); /* room for one more */
    s = nk->sbuf.at;
    memmove(s + first + used, s + last, (size_t)(n - last) * sizeof *s);
    s[first] = (struct nk_segment){lo, lo + bytes, b};
    if (used == 2)
        s[first + 1] = (struct nk_segment){lo + bytes, hi, rest};
    nk->sbuf.n = n - (last - first) + used;
    nk->cursor = lo + bytes;
    VEC_PUSH(nk->ctx, nk->scope, b);
    return b;
}

static struct nk_buffer *search(struct nk *nk, int64_t from, int64_t bytes)
{
    const struct nk_segment *s = nk->sbuf.at;
    for (int i = 0; i < nk->sbuf.n; i++) {
        if (s[i].lo < from)
            continue;
        int last = i;
        while (last < nk->sbuf.n && !(s[last].owner && s[last].owner->live)) {
            last++;
            if (s[last - 1].hi - s[i].lo >= bytes)
                return take(nk, i, last, bytes);
        }
    }
    return NULL;
}

/* Where the buffer of this size lay that came as this one does, before the tiles began anew, if that is free: what
 * repeats then lies where it lay. */
static int as_before(const struct nk *nk, int64_t bytes)
{
    int before = 0, lies = -1;
    for (int i = 0; i < nk->places.n; i++)
        before += nk->places.at[i].bytes == bytes;
    for (int i = 0; i < nk->old_places.n && lies < 0; i++)
        if (nk->old_places.at[i].bytes == bytes && before-- == 0)
            lies = i;
    for (int i = 0; lies >= 0 && i < nk->sbuf.n; i++) {
        const struct nk_segment *s = &nk->sbuf.at[i];
        if (s->lo == nk->old_places.at[lies].offset)
            return s->owner && !s->owner->live && s->hi - s->lo == bytes ? i : -1;
    }
    return -1;
}

/* A free place of that size: where it was before; the first that was not used since the tiles began anew, else one that
 * never was, else the one that was used longest ago. */
static struct nk_buffer *again(struct nk *nk, int64_t bytes)
{
    const struct nk_segment *s = nk->sbuf.at;
    int fresh = -1, unused = -1, oldest = -1;
    for (int i = 0; i < nk->sbuf.n; i++) {
        int64_t room = s[i].hi - s[i].lo;
        if (!s[i].owner && room >= bytes && unused < 0)
            unused = i;
        if (!s[i].owner || s[i].owner->live || room != bytes)
            continue;
        if (fresh < 0 && s[i].owner->number <= nk->began)
            fresh = i;
        if (oldest < 0 || s[i].owner->number < s[oldest].owner->number)
            oldest = i;
    }
    int i = as_before(nk, bytes);
    i = i >= 0 ? i : fresh >= 0 ? fresh : unused >= 0 ? unused : oldest;
    return i < 0 ? NULL : take(nk, i, i + 1, bytes);
}

struct nk_buffer *nk_sbuf(struct nk *nk, int64_t bytes)
{
    struct nk_buffer *b;
    bytes = (bytes + 63) / 64 * 64;
    b = nk->steady ? again(nk, bytes) : NULL;
    if (!b)
        b = search(nk, nk->steady ? 0 : nk->cursor, bytes);
    if (!b)
        b = search(nk, 0, bytes);
    if (!b)
        nk_full(nk, "a point's values don't fit in SBUF");
    if (nk->steady)
        VEC_PUSH(nk->ctx, nk->places, (struct nk_place){bytes, b->offset});
    return b;
}

struct nk_buffer *nk_psum(struct nk *nk)
{
    for (int i = 0; i < 8; i++) {
        struct nk_buffer *old = nk->bank[nk->next_bank], *b;
        int at = nk->next_bank;
        nk->next_bank = (nk->next_bank + 1) % 8;
        if (old && old->live)
            continue;
        b = IR_NEW(nk->ctx, struct nk_buffer);
        *b = (struct nk_buffer){
            .space = NEURON_PSUM, .offset = (int64_t)at * NEURON_BANK_BYTES, .bytes = NEURON_BANK_BYTES, .live = true};
        inherit(nk, b, old);
        nk->bank[at] = b;
        VEC_PUSH(nk->ctx, nk->scope, b);
        return b;
    }
    nk_full(nk, "more than eight sums at once");
}

struct nk_buffer *nk_psum_row(struct nk *nk, int64_t bytes)
{
    enum { BANKS = 8, MOST = 4 }; /* of which others keep half */
    int n = (int)((bytes + NEURON_BANK_BYTES - 1) / NEURON_BANK_BYTES), taken = 0;
    for (int at = BANKS - n; at >= BANKS - MOST; at--) {
        for (taken = 0; taken < n && !(nk->bank[at + taken] && nk->bank[at + taken]->live);)
            taken++;
        if (taken < n)
            continue;
        struct nk_buffer *b = IR_NEW(nk->ctx, struct nk_buffer);
        *b = (struct nk_buffer){.space = NEURON_PSUM,
                                .offset = (int64_t)at * NEURON_BANK_BYTES,
                                .bytes = bytes,
                                .live = true,
                                .stays = true};
        for (int i = 0; i < n; i++) {
            inherit(nk, b, nk->bank[at + i]);
            nk->bank[at + i] = b;
        }
        return b;
    }
    return NULL;
}

void nk_release(struct nk *nk, struct nk_buffer *b)
{
    (void)nk;
    if (b && b->space != NEURON_HBM && !b->stays)
        b->live = false;
}

int nk_mark(struct nk *nk)
{
    return nk->scope.n;
}

void nk_release_to(struct nk *nk, int mark, const struct nk_value *const *keep, int nkeep)
{
    int kept = mark;
    for (int i = mark; i < nk->scope.n; i++) {
        struct nk_buffer *b = nk->scope.at[i];
        bool stays = b->stays;
        for (int j = 0; j < nkeep; j++)
            stays |= keep[j] && keep[j]->buffer == b;
        if (stays && b->live)
            nk->scope.at[kept++] = b;
        else
            nk_release(nk, b);
    }
    nk->scope.n = kept;
}
