/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches ahead of time. A ring of batches is filled by threads and emptied by the caller in order; what a batch holds depends
 * on its number alone, so any number of threads gives the same training. With no workers the caller fills the next batch.
 */
#include "tools/data_int.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/mutant.h"

enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_READY };

struct loader {
    const struct data_set *set;
    int nslots, nworkers;
    int64_t size;
    struct batch *slots;
    enum slot_state *states;
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t work, made;
    bool stop;
    /* The epoch: batches [first, end); `taken` are in the making or made, `given` handed out, `released` done with. */
    const int64_t *order;
    int64_t count, first, end, number, taken, given, released;
};

static void fill(struct loader *l, int64_t k)
{
    struct batch *b = &l->slots[k % l->nslots];
    int64_t at = k * l->size, n = l->count - at < l->size ? l->count - at : l->size;

    b->rows = n;
    b->number = l->number + (k - l->first);
    b->error[0] = '\0';
    for (int i = 0; i < l->set->n && !*b->error; i++)
        data_fill(l->set, i, b->number, n, l->order + at, b->data[i], b->error);
}

static void *worker(void *arg)
{
    struct loader *l = arg;

    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (l->taken >= l->end || l->taken >= l->released + l->nslots) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        int64_t k = l->taken++;
        l->states[k % l->nslots] = SLOT_BUSY;
        pthread_mutex_unlock(&l->lock);
        fill(l, k);
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

struct loader *loader_new(const struct data_set *set, int workers, int ahead, int64_t size)
{
    struct loader *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (struct loader){.set = set, .nslots = ahead, .size = size};
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->made, NULL);
    int wanted = workers;
    l->nworkers = wanted;
    bool ok = make_slots(l);
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
bool loader_start(struct loader *l, const int64_t *order, int64_t count, bool drop_last, int64_t first, int64_t number)
{
    pthread_mutex_lock(&l->lock);
    l->order = order;
    l->count = count;
    l->number = number;
    l->first = l->taken = l->given = l->released = first;
    l->end = MUTANT(66, drop_last, true) ? count / l->size : (count + l->size - 1) / l->size;
    memset(l->states, 0, (size_t)l->nslots * sizeof *l->states);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return first < l->end;
}

struct batch *loader_next(struct loader *l)
{
    struct batch *b = NULL;

    pthread_mutex_lock(&l->lock);
    if (l->given < l->end) {
        int64_t k = l->given++;
        if (!l->nworkers) {
            l->taken = k + 1;
            fill(l, k);
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
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->made);
    free(l);
}
