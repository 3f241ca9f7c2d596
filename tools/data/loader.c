/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches ahead of time. A ring of batches is filled by threads and emptied by the caller in order; what a batch holds
 * depends on its number alone, so any number of threads gives the same training. With no workers the caller fills the
 * next batch.
 */
#include "tools/data/data_int.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutant.h"

enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_READY };

struct loader {
    const struct data_set *set;
    int nslots, nworkers, nstarted;
    int64_t size;
    struct batch *slots;
    enum slot_state *states;
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t work, made;
    bool stop;
    int64_t skip_bad, nbad;
    unsigned char *bad; /* a bit a sample: it is known to be bad */
    char first_bad[ERROR_SIZE];
    struct loader_span spans[LOADER_SPANS]; /* a ring */
    int64_t nspans;
    struct data_draw draw; /* of the epoch */
    bool random;
    /* The epoch: batches [first, end); `taken` are in the making or made, `given` handed out, `released` done with. */
    const int64_t *order;
    int64_t count, first, end, number, taken, given, released;
};

static bool known_bad(struct loader *l, int64_t sample)
{
    pthread_mutex_lock(&l->lock);
    bool bad = l->bad && l->bad[sample / 8] >> sample % 8 & 1;
    pthread_mutex_unlock(&l->lock);
    return bad;
}

/* May it be left out? It is counted then. */
static bool leave_out(struct loader *l, int64_t sample, const char *why)
{
    pthread_mutex_lock(&l->lock);
    bool first = !(l->bad[sample / 8] >> sample % 8 & 1);
    if (first && !l->nbad)
        snprintf(l->first_bad, sizeof l->first_bad, "%s", why);
    l->nbad += first;
    l->bad[sample / 8] |= (unsigned char)(1u << sample % 8);
    bool may = l->nbad <= l->skip_bad && l->nbad < l->set->samples;
    pthread_mutex_unlock(&l->lock);
    return may;
}

static void pass_known(struct loader *l, struct data_fill *f, int64_t *rows)
{
    for (int64_t k = 0; k < f->n; k++)
        for (int64_t tries = 0; tries < l->set->samples && known_bad(l, rows[k]); tries++)
            rows[k] = (rows[k] + 1) % l->set->samples;
}

/* With the batch's own list of rows, in which bad ones are replaced. */
static void fill_skipping(struct loader *l, struct batch *b, struct data_fill *f)
{
    int64_t *rows = malloc((size_t)f->n * sizeof *rows);

    if (!rows) {
        snprintf(b->error, sizeof b->error, "no memory");
        return;
    }
    memcpy(rows, f->rows, (size_t)f->n * sizeof *rows);
    f->rows = rows;
    for (int i = 0; i < l->set->n && !*b->error; i++) {
        pass_known(l, f, rows);
        if (data_fill(f, i, b->data[i], b->error) || f->bad < 0 || !leave_out(l, rows[f->bad], b->error))
            continue;
        b->error[0] = '\0';
        i = -1; /* all inputs again: with another sample */
    }
    free(rows);
}

static void fill(struct loader *l, int64_t k, int worker)
{
    double start = now_ms();
    struct batch *b = &l->slots[k % l->nslots];
    int64_t at = k * l->size;
    struct data_fill f = {.set = l->set,
                          .batch = l->number + (k - l->first),
                          .n = l->count - at < l->size ? l->count - at : l->size,
                          .rows = l->order + at,
                          .draw = l->random ? &l->draw : NULL};

    b->rows = f.n;
    b->number = f.batch;
    b->error[0] = '\0';
    if (l->skip_bad)
        fill_skipping(l, b, &f);
    for (int i = 0; i < l->set->n && !*b->error && !l->skip_bad; i++)
        data_fill(&f, i, b->data[i], b->error);
    pthread_mutex_lock(&l->lock);
    l->spans[l->nspans++ % LOADER_SPANS] = (struct loader_span){start, now_ms(), f.batch, worker};
    pthread_mutex_unlock(&l->lock);
}

static void *worker(void *arg)
{
    struct loader *l = arg;

    pthread_mutex_lock(&l->lock);
    int number = l->nstarted++;
    while (!l->stop) {
        if (l->taken >= l->end || l->taken >= l->released + l->nslots) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        int64_t k = l->taken++;
        l->states[k % l->nslots] = SLOT_BUSY;
        pthread_mutex_unlock(&l->lock);
        fill(l, k, number);
        pthread_mutex_lock(&l->lock);
        l->states[k % l->nslots] = SLOT_READY;
        pthread_cond_broadcast(&l->made);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static bool make_slots(struct loader *l)
{
    l->slots = calloc((size_t)l->nslots, sizeof *l->slots);
    l->states = calloc((size_t)l->nslots, sizeof *l->states);
    l->threads = calloc((size_t)l->nworkers + 1, sizeof *l->threads);
    if (!l->slots || !l->states || !l->threads)
        return false;
    for (int k = 0; k < l->nslots; k++) {
        if (!(l->slots[k].data = calloc((size_t)l->set->n + 1, sizeof(void *))))
            return false;
        for (int i = 0; i < l->set->n; i++) {
            size_t bytes = data_batch_bytes(l->set, i, l->size);
            if (!bytes || !(l->slots[k].data[i] = aligned_alloc(64, bytes)))
                return false;
        }
    }
    return true;
}

struct loader *loader_new(const struct data_set *set, int workers, int ahead, int64_t size, int64_t skip_bad)
{
    struct loader *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (struct loader){.set = set, .nslots = ahead, .size = size, .skip_bad = skip_bad};
    l->bad = calloc((size_t)set->samples / 8 + 1, 1);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->made, NULL);
    int wanted = workers;
    l->nworkers = wanted;
    bool ok = l->bad && make_slots(l);
    l->nworkers = 0;
    for (; ok && l->nworkers < wanted; l->nworkers++)
        if (pthread_create(&l->threads[l->nworkers], NULL, worker, l) != 0)
            break;
    if (!ok || (wanted && !l->nworkers)) {
        loader_free(l);
        return NULL;
    }
    return l;
}

/* No batch may be in the making or handed out. */
bool loader_start(struct loader *l, const struct loader_epoch *e)
{
    pthread_mutex_lock(&l->lock);
    l->order = e->order;
    l->count = e->count;
    l->number = e->number;
    l->random = e->draw != NULL;
    l->draw = e->draw ? *e->draw : (struct data_draw){0};
    l->first = l->taken = l->given = l->released = e->first;
    l->end = MUTANT(66, e->drop_last, true) ? e->count / l->size : (e->count + l->size - 1) / l->size;
    memset(l->states, 0, (size_t)l->nslots * sizeof *l->states);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return e->first < l->end;
}

struct batch *loader_next(struct loader *l)
{
    struct batch *b = NULL;

    pthread_mutex_lock(&l->lock);
    if (l->given < l->end) {
        int64_t k = l->given++;
        if (!l->nworkers) {
            l->taken = k + 1;
            pthread_mutex_unlock(&l->lock);
            fill(l, k, -1);
            pthread_mutex_lock(&l->lock);
        }
        while (l->nworkers && (l->taken <= k || l->states[k % l->nslots] != SLOT_READY))
            pthread_cond_wait(&l->made, &l->lock);
        b = &l->slots[k % l->nslots];
    }
    pthread_mutex_unlock(&l->lock);
    return b;
}

void loader_release(struct loader *l, int n)
{
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < n; i++)
        l->states[l->released++ % l->nslots] = SLOT_FREE;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
}

/* Ends the epoch where it is: waits for batches in the making. */
void loader_stop(struct loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->end = l->taken;
    for (int64_t k = l->given; k < l->taken && l->nworkers; k++)
        while (l->states[k % l->nslots] != SLOT_READY)
            pthread_cond_wait(&l->made, &l->lock);
    l->given = l->end;
    pthread_mutex_unlock(&l->lock);
}

int loader_spans(struct loader *l, struct loader_span *to)
{
    pthread_mutex_lock(&l->lock);
    int n = l->nspans < LOADER_SPANS ? (int)l->nspans : LOADER_SPANS;
    for (int i = 0; i < n; i++)
        to[i] = l->spans[(l->nspans - n + i) % LOADER_SPANS];
    pthread_mutex_unlock(&l->lock);
    return n;
}

int64_t loader_bad(struct loader *l, const char **first)
{
    pthread_mutex_lock(&l->lock);
    int64_t n = l->nbad;
    pthread_mutex_unlock(&l->lock);
    *first = l->first_bad;
    return n;
}

void loader_free(struct loader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->nworkers; i++)
        pthread_join(l->threads[i], NULL);
    for (int k = 0; l->slots && k < l->nslots; k++) {
        for (int i = 0; l->slots[k].data && i < l->set->n; i++)
            free(l->slots[k].data[i]);
        free(l->slots[k].data);
    }
    free(l->slots);
    free(l->states);
    free(l->threads);
    free(l->bad);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->made);
    free(l);
}
