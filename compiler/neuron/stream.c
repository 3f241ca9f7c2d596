/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - instructions into the streams of engines, with semaphores where one depends on another.
 *
 * Each engine has a semaphore that counts those of its instructions that somebody waits for; of what an engine is known
 * to have done, what that engine knew then is known too, and is not waited for again; so is what other engines that are
 * waited for know. A queue's transfers end in order. A transfer by DMA has one of the other semaphores to itself until
 * it is used again by a later one, whose trigger then happens after the end of the first and after everybody who waited
 * for it (doc/neuron.md, "Checks").
 */
#include "compiler/neuron/cost.h"
#include "compiler/neuron/neuron_int.h"

#include <string.h>

enum { FIRST_FREE = NEURON_NENGINES, FREE = NEURON_SEMAPHORES - FIRST_FREE };

static void learn(struct nk *nk, int engine, const struct nk_clock *c)
{
    for (int e = 0; e < NEURON_NENGINES; e++)
        if (c->at[e] > nk->known[engine].at[e])
            nk->known[engine].at[e] = c->at[e];
    for (int q = 0; q < NEURON_QUEUES; q++)
        if (c->ended[q] > nk->known[engine].ended[q])
            nk->known[engine].ended[q] = c->ended[q];
}

/* The transfer's end, where its semaphore counts for another by now: an instruction that knew of it. */
static void settle(const struct nk *nk, struct nk_deps *d)
{
    int n = 0;
    for (int i = 0; i < d->ndma; i++) {
        const struct nk_transfer *t = &nk->transfers.at[d->dma[i]];
        if (!t->done_at)
            d->dma[n++] = d->dma[i];
        else if (t->done_at > d->at[t->done_engine])
            d->at[t->done_engine] = t->done_at;
    }
    d->ndma = n;
}

/* What it takes of its engine, for who chooses between two (nk_lighter()). */
static void count_work(struct nk *nk, int engine, const struct neuron_instr *i)
{
    enum neuron_core_kind core = nk->machine->core;
    int64_t ticks =
        nk_cycles(&nk_costs, core, (enum neuron_engine)engine, i) * nk_cycle_ticks(core, (enum neuron_engine)engine);
    nk->work[engine] += ticks;
    if (engine == NEURON_GPSIMD && neuron_generation(core) == 2) /* Vector stands still meanwhile */
        nk->work[NEURON_VECTOR] += ticks;
}

void nk_no_more_than(struct nk *nk, int64_t instructions)
{
    if (instructions > nk->most) {
        nk->large = true;
        nk_refuse(nk, "more than %d instructions", nk->most);
    }
}

int nk_instructions_of(const struct neuron_program *p)
{
    int n = 0;
    for (int e = 0; e < NEURON_NENGINES; e++)
        n += p->stream[e].n;
    return n;
}

static int append(struct nk *nk, int engine, struct neuron_instr *i)
{
    count_work(nk, engine, i);
    nk_no_more_than(nk, ++nk->instructions);
    if (!neuron_add(nk->p, (enum neuron_engine)engine, i))
        nk_refuse(nk, "no memory for a program");
    int number = nk->p->stream[engine].n;
    nk->known[engine].at[engine] = number;
    VEC_PUSH(nk->ctx, nk->clocks[engine], nk->known[engine]);
    return number;
}

/* Waits for instructions of other engines, into `i`, which will be the engine's next; more than it holds go before
 * it. */
struct waits {
    struct nk *nk;
    int engine;
    struct neuron_instr *i;
    struct nk_pending pending[NEURON_WAITS];
    int transfers[NEURON_WAITS], npending, ntransfers;
};

static void put(struct waits *w)
{
    struct nk *nk = w->nk;
    int index = nk->p->stream[w->engine].n; /* what stands there next */
    for (int k = 0; k < w->npending; k++) {
        w->pending[k].index = index;
        VEC_PUSH(nk->ctx, nk->pending, w->pending[k]);
    }
    for (int k = 0; k < w->ntransfers; k++) {
        struct nk_transfer *t = &nk->transfers.at[w->transfers[k]];
        if (index + 1 > t->waiters.at[w->engine])
            t->waiters.at[w->engine] = index + 1;
    }
    w->npending = w->ntransfers = 0;
}

static void flush(struct waits *w)
{
    struct neuron_instr nop = {.op = NEURON_OP_NOP, .nwaits = w->i->nwaits};
    memcpy(nop.wait, w->i->wait, sizeof nop.wait);
    w->i->nwaits = 0;
    put(w);
    append(w->nk, w->engine, &nop);
}

static void wait_engine(struct waits *w, int e, int number)
{
    struct nk *nk = w->nk;
    if (e == w->engine || number <= nk->known[w->engine].at[e])
        return;
    if (w->i->nwaits == NEURON_WAITS)
        flush(w);
    w->pending[w->npending++] = (struct nk_pending){w->engine, 0, w->i->nwaits, e, number};
    w->i->wait[w->i->nwaits++] = (struct neuron_wait){.semaphore = (uint8_t)e, .reg = NEURON_NO_REGISTER};
    learn(nk, w->engine, &nk->clocks[e].at[number - 1]);
}

static void wait_transfer(struct waits *w, int number)
{
    struct nk *nk = w->nk;
    struct nk_transfer *t = &nk->transfers.at[number];
    if (number < nk->known[w->engine].ended[t->queue])
        return;
    if (w->i->nwaits == NEURON_WAITS)
        flush(w);
    w->transfers[w->ntransfers++] = number;
    w->i->wait[w->i->nwaits++] =
        (struct neuron_wait){.semaphore = (uint8_t)t->semaphore, .reg = NEURON_NO_REGISTER, .value = t->value};
    nk->known[w->engine].ended[t->queue] = number + 1;
    learn(nk, w->engine, &nk->clocks[t->engine].at[t->number - 1]);
}

/* Does another engine, which is waited for anyway, know of the transfer's end? */
static bool is_implied(const struct nk *nk, const struct nk_deps *d, int number)
{
    for (int e = 0; e < NEURON_NENGINES; e++)
        if (d->at[e] && number < nk->clocks[e].at[d->at[e] - 1].ended[nk->transfers.at[number].queue])
            return true;
    return false;
}

/* The latest first: what it knew need not be waited for. */
static void wait_all(struct waits *w, struct nk_deps *d)
{
    settle(w->nk, d);
    for (int i = 1; i < d->ndma; i++)
        for (int j = i; j > 0 && d->dma[j] < d->dma[j - 1]; j--) {
            int number = d->dma[j];
            d->dma[j] = d->dma[j - 1];
            d->dma[j - 1] = number;
        }
    for (int i = d->ndma - 1; i >= 0; i--)
        if (!is_implied(w->nk, d, d->dma[i]))
            wait_transfer(w, d->dma[i]);
    for (int done = 0; done < NEURON_NENGINES; done++) {
        int best = -1;
        int64_t most = -1;
        for (int e = 0; e < NEURON_NENGINES; e++) {
            int64_t sum = 0;
            if (e == w->engine || d->at[e] <= w->nk->known[w->engine].at[e])
                continue;
            for (int k = 0; k < NEURON_NENGINES; k++)
                sum += w->nk->clocks[e].at[d->at[e] - 1].at[k];
            if (sum > most) {
                most = sum;
                best = e;
            }
        }
        if (best < 0)
            return;
        wait_engine(w, best, d->at[best]);
    }
}

/* A semaphore for a transfer: its last user has ended, and those who waited for that have gone on. */
static int semaphore(struct nk *nk, int engine)
{
    int s = FIRST_FREE + nk->next_semaphore, user = nk->semaphore_user[s];
    nk->next_semaphore = (nk->next_semaphore + 1) % FREE;
    if (user < 0)
        return s;
    struct neuron_instr nop = {.op = NEURON_OP_NOP};
    struct waits w = {.nk = nk, .engine = engine, .i = &nop};
    struct nk_deps d = nk->transfers.at[user].waiters;
    wait_transfer(&w, user);
    wait_all(&w, &d);
    flush(&w);
    struct nk_transfer *t = &nk->transfers.at[user];
    t->done_engine = engine;
    t->done_at = nk->p->stream[engine].n;
    return s;
}

/* What the instruction depends on. */
static struct nk_deps needs(struct nk *nk, int n, const struct nk_use *uses)
{
    struct nk_deps d = {0};
    for (int k = 0; k < n; k++) {
        struct nk_buffer *b = uses[k].b;
        if (!uses[k].write) {
            nk_deps_join(nk, &d, &b->writes);
            continue;
        }
        if (!uses[k].group || b->group != uses[k].group || !nk_deps_empty(&b->reads)) {
            struct nk_deps before = {0};
            if (nk_deps_empty(&b->writes))
                nk_deps_join(nk, &before, &b->before);
            nk_deps_join(nk, &before, &b->writes);
            nk_deps_join(nk, &before, &b->reads);
            b->before = before;
            b->writes = b->reads = (struct nk_deps){0};
            b->group = uses[k].group;
        }
        nk_deps_join(nk, &d, &b->before);
    }
    return d;
}

static void used(struct nk *nk, int n, const struct nk_use *uses, int engine, int number, int transfer)
{
    for (int k = 0; k < n; k++) {
        struct nk_deps *d = uses[k].write ? &uses[k].b->writes : &uses[k].b->reads;
        bool also = false;
        for (int o = 0; o < n; o++)
            also |= o != k && uses[o].b == uses[k].b && uses[o].write;
        if (!uses[k].write && also)
            continue;
        if (transfer >= 0)
            nk_deps_dma(nk, d, transfer);
        else if (number > d->at[engine])
            d->at[engine] = number;
    }
}

void nk_emit(struct nk *nk, enum neuron_engine e, struct neuron_instr *i, int n, const struct nk_use *uses)
{
    bool dma = neuron_is_dma((enum neuron_op)i->op);
    int s = dma ? semaphore(nk, (int)e) : -1, transfer = -1;
    struct waits w = {.nk = nk, .engine = (int)e, .i = i};
    /* Reads first: an instruction that reads and writes a buffer waits for its writers, too. */
    struct nk_deps d = {0};
    for (int write = 0; write < 2; write++)
        for (int k = 0; k < n; k++)
            if (uses[k].write == (bool)write) {
                struct nk_deps one = needs(nk, 1, &uses[k]);
                nk_deps_join(nk, &d, &one);
            }
    wait_all(&w, &d);
    if (dma && w.ntransfers) /* who waits for the wait can't wait for a trigger: its signal is the transfer's */
        flush(&w);
    put(&w);
    if (dma) {
        int before = nk->semaphore_user[s];
        struct nk_transfer t = {.semaphore = s,
                                .engine = (int)e,
                                .queue = neuron_attr(i, NEURON_ATTR_QUEUE).i,
                                .number = nk->p->stream[e].n + 1,
                                .value = (before < 0 ? 0 : nk->transfers.at[before].value) + NEURON_DMA_ENGINES};
        i->nsignals = 1;
        i->signal[0] = (struct neuron_signal){(uint8_t)s, 1};
        transfer = nk->transfers.n;
        VEC_PUSH(nk->ctx, nk->transfers, t);
        nk->semaphore_user[s] = transfer;
    }
    int number = append(nk, (int)e, i);
    used(nk, n, uses, (int)e, number, transfer);
}

void nk_meet(struct nk *nk)
{
    struct neuron_instr nop = {.op = NEURON_OP_NOP};
    struct waits w = {.nk = nk, .engine = NEURON_SYNC, .i = &nop};
    struct nk_deps d = {0};
    for (int e = 0; e < NEURON_NENGINES; e++)
        d.at[e] = e == NEURON_SYNC ? 0 : nk->p->stream[e].n;
    for (int s = 0; s < NEURON_SEMAPHORES; s++)
        if (nk->semaphore_user[s] >= 0) /* those before it have been waited for */
            nk_deps_dma(nk, &d, nk->semaphore_user[s]);
    wait_all(&w, &d);
    flush(&w);
    int number = nk->p->stream[NEURON_SYNC].n;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        struct neuron_instr other = {.op = NEURON_OP_NOP};
        struct waits v = {.nk = nk, .engine = e, .i = &other};
        if (e == NEURON_SYNC)
            continue;
        wait_engine(&v, NEURON_SYNC, number);
        flush(&v);
    }
}

void nk_finish(struct nk *nk)
{
    int *count[NEURON_NENGINES];
    for (int e = 0; e < NEURON_NENGINES; e++)
        count[e] = IR_NEWN(nk->ctx, nk->p->stream[e].n + 1, int);
    for (int k = 0; k < nk->pending.n; k++)
        count[nk->pending.at[k].of_engine][nk->pending.at[k].of_number - 1] = 1;
    for (int e = 0; e < NEURON_NENGINES; e++)
        for (int i = 0, sum = 0; i < nk->p->stream[e].n; i++) {
            struct neuron_instr *in = &nk->p->stream[e].code[i];
            if (count[e][i])
                in->signal[in->nsignals++] = (struct neuron_signal){(uint8_t)e, 1};
            count[e][i] = sum += count[e][i];
        }
    for (int k = 0; k < nk->pending.n; k++) {
        const struct nk_pending *p = &nk->pending.at[k];
        nk->p->stream[p->engine].code[p->index].wait[p->slot].value = (uint32_t)count[p->of_engine][p->of_number - 1];
    }
}
