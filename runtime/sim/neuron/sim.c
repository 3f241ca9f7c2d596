/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation: its memory, what goes in and out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/sim/neuron/neuron_int.h"

/* The largest tensors, for whoever has to make room. */
static void too_large(const struct neuron_program *p, int64_t all, int64_t room, char *error)
{
    bool *said = calloc((size_t)p->ntensors + 1, sizeof *said);
    int n = snprintf(error, NEURON_ERROR, "tensors of %lld bytes: the HBM of a core has %lld;", (long long)all,
                     (long long)room);
    for (int k = 0; said && k < 5 && k < p->ntensors; k++) {
        int largest = -1;
        for (int t = 0; t < p->ntensors; t++)
            if (!said[t] &&
                (largest < 0 || neuron_tensor_bytes(&p->tensors[t]) > neuron_tensor_bytes(&p->tensors[largest])))
                largest = t;
        said[largest] = true;
        n += snprintf(error + n, n < NEURON_ERROR ? (size_t)(NEURON_ERROR - n) : 0, "%s %.60s %lld", k ? "," : "",
                      p->tensors[largest].name, (long long)neuron_tensor_bytes(&p->tensors[largest]));
        n = n < NEURON_ERROR ? n : NEURON_ERROR - 1;
    }
    free(said);
}

static bool make_memory(struct neuron_sim *s)
{
    bool values = s->c.values;
    int sbuf = neuron_sbuf_bytes(s->p->core);
    bool fine = neuron_memory_new(&s->sbuf, sbuf, NEURON_PARTITIONS, values) &&
                neuron_memory_new(&s->psum, NEURON_PSUM_BYTES, NEURON_PARTITIONS, values) &&
                neuron_shadow_new(&s->sbuf_shadow, sbuf) && neuron_shadow_new(&s->psum_shadow, NEURON_PSUM_BYTES);
    s->hbm = calloc((size_t)s->p->ntensors + 1, sizeof *s->hbm);
    s->hbm_shadow = calloc((size_t)s->p->ntensors + 1, sizeof *s->hbm_shadow);
    s->product =
        (struct memory){.lane = NEURON_PSUM_BYTES / 4, .written = calloc(NEURON_PARTITIONS, NEURON_PSUM_BYTES / 32)};
    fine = fine && s->hbm && s->hbm_shadow && s->product.written;
    for (int k = 0; fine && k < s->p->ntensors; k++) {
        int64_t bytes = neuron_tensor_bytes(&s->p->tensors[k]);
        fine = neuron_memory_new(&s->hbm[k], bytes, 1, values) && neuron_shadow_new(&s->hbm_shadow[k], bytes);
    }
    if (!fine || !values)
        return fine;
    s->stationary = calloc(NEURON_PARTITIONS * NEURON_STATIONARY, sizeof *s->stationary);
    s->moving = calloc(NEURON_PARTITIONS * NEURON_MOVING, sizeof *s->moving);
    s->sums = calloc(NEURON_PARTITIONS * NEURON_MOVING, sizeof *s->sums);
    s->quadrant = calloc(32 * ROW, sizeof *s->quadrant);
    fine = s->stationary && s->moving && s->sums && s->quadrant;
    for (int k = 0; k < 4; k++)
        fine = (s->row[k] = calloc(ROW, sizeof(float))) && fine;
    return fine;
}

struct neuron_sim *neuron_sim_new(const struct neuron_program *p, const struct neuron_config *config, char *error)
{
    const struct timing *t = &neuron_timings[p->core];
    int64_t all = 0;
    for (int k = 0; k < p->ntensors; k++)
        if (__builtin_add_overflow(all, neuron_tensor_bytes(&p->tensors[k]), &all))
            all = INT64_MAX;
    if (all > t->hbm_bytes) {
        too_large(p, all, t->hbm_bytes, error);
        return NULL;
    }
    struct neuron_sim *s = calloc(1, sizeof *s);
    if (s) {
        s->p = p;
        s->c = *config;
        s->c.sharers = config->sharers > 0 ? config->sharers : 1;
        s->c.limit = config->limit ? config->limit : UINT64_C(1) << 32;
        s->t = t;
        s->generation = neuron_generation(p->core);
        if (make_memory(s))
            return s;
    }
    snprintf(error, NEURON_ERROR, "no memory");
    neuron_sim_free(s);
    return NULL;
}

void neuron_sim_free(struct neuron_sim *s)
{
    if (!s)
        return;
    neuron_order_clear(s);
    neuron_memory_free(&s->sbuf);
    neuron_memory_free(&s->psum);
    neuron_shadow_clear(&s->sbuf_shadow);
    neuron_shadow_clear(&s->psum_shadow);
    for (int k = 0; k < s->p->ntensors; k++) {
        if (s->hbm)
            neuron_memory_free(&s->hbm[k]);
        if (s->hbm_shadow)
            neuron_shadow_clear(&s->hbm_shadow[k]);
    }
    free(s->hbm);
    free(s->hbm_shadow);
    neuron_memory_free(&s->product);
    free(s->stationary);
    free(s->moving);
    free(s->sums);
    free(s->quadrant);
    for (int k = 0; k < 4; k++)
        free(s->row[k]);
    free(s->heap);
    free(s);
}

/* -- Tensors -- */

static bool within(const struct neuron_sim *s, int tensor, int64_t offset, int64_t bytes, char *error)
{
    if (tensor < 0 || tensor >= s->p->ntensors || offset < 0 || bytes < 0 || offset > s->hbm[tensor].lane - bytes) {
        snprintf(error, NEURON_ERROR, "bytes %lld to %lld of tensor %d: no such bytes", (long long)offset,
                 (long long)(offset + bytes), tensor);
        return false;
    }
    if (!s->c.values) {
        snprintf(error, NEURON_ERROR, "a simulation of time alone has no values");
        return false;
    }
    return true;
}

bool neuron_sim_write(struct neuron_sim *s, int tensor, int64_t offset, const void *from, int64_t bytes, char *error)
{
    if (!within(s, tensor, offset, bytes, error))
        return false;
    memcpy(s->hbm[tensor].data + offset, from, (size_t)bytes);
    neuron_mark(&s->hbm[tensor], 0, offset, bytes);
    return true;
}

bool neuron_sim_read(struct neuron_sim *s, int tensor, int64_t offset, void *to, int64_t bytes, char *error)
{
    if (!within(s, tensor, offset, bytes, error))
        return false;
    struct memory *m = &s->hbm[tensor];
    int type = s->p->tensors[tensor].type, size = isa_type(type)->bytes;
    uint8_t sentinel[4];
    memcpy(to, m->data + offset, (size_t)bytes);
    if (neuron_written(m, 0, offset, bytes))
        return true;
    neuron_from_float((enum neuron_type)type, isa_type(type)->class == 'f' ? NAN : 4, false, 0, sentinel);
    for (int64_t k = 0; k < bytes; k++)
        if (!neuron_written(m, 0, offset + k, 1))
            ((uint8_t *)to)[k] = sentinel[(offset + k) % size];
    return true;
}

bool neuron_sim_initialised(const struct neuron_sim *s, int tensor)
{
    return !s->c.values || neuron_written(&s->hbm[tensor], 0, 0, s->hbm[tensor].lane);
}

void neuron_sim_trace(struct neuron_sim *s, neuron_event_fn fn, void *user)
{
    s->trace = fn;
    s->user = user;
}
