/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation: its memory, what goes in and out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

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

static void free_tensors(struct neuron_sim *s)
{
    for (int k = 0; k < s->ntensors; k++) {
        neuron_memory_free(&s->hbm[k]);
        neuron_shadow_clear(&s->hbm_shadow[k]);
    }
    free(s->hbm);
    free(s->hbm_shadow);
    s->hbm = NULL;
    s->hbm_shadow = NULL;
    s->ntensors = 0;
}

/* Do sizes stand in instructions? Then those of a copy are run, which has their values. */
static bool has_sizes(const struct neuron_program *p)
{
    bool any = false;
    for (int e = 0; p->nsizes && e < NEURON_NENGINES; e++)
        for (int i = 0; i < p->stream[e].n && !any; i++)
            for (int k = 0; k < p->stream[e].code[i].noperands && !any; k++) {
                const struct neuron_operand *o = &p->stream[e].code[i].operand[k];
                any = o->power[0] || o->power[1];
                for (int d = 0; d < o->ndims; d++)
                    any |= o->times[d] != 0;
            }
    return any;
}

static bool set_program(struct neuron_sim *s, const struct neuron_program *p)
{
    neuron_program_free(s->sized);
    s->sized = has_sizes(p) ? neuron_with_sizes(p) : NULL;
    s->given = p;
    s->p = s->sized ? s->sized : p;
    return s->sized || !has_sizes(p);
}

/* The tensors of a program; those that are bound later get no pages until then. */
static bool make_tensors(struct neuron_sim *s, const struct neuron_program *p)
{
    bool fine = set_program(s, p);
    s->hbm = calloc((size_t)p->ntensors + 1, sizeof *s->hbm);
    s->hbm_shadow = calloc((size_t)p->ntensors + 1, sizeof *s->hbm_shadow);
    if (!fine || !s->hbm || !s->hbm_shadow)
        return false;
    s->ntensors = p->ntensors;
    for (int k = 0; fine && k < p->ntensors; k++) {
        int64_t bytes = neuron_tensor_bytes(&p->tensors[k]);
        fine = neuron_memory_new(&s->hbm[k], bytes, 1, s->c.values) && neuron_shadow_new(&s->hbm_shadow[k], bytes);
    }
    return fine;
}

static bool make_core(struct neuron_sim *s, enum neuron_core_kind core)
{
    bool values = s->c.values;
    int sbuf = neuron_sbuf_bytes(core);
    bool fine = neuron_memory_new(&s->sbuf, sbuf, NEURON_PARTITIONS, values) &&
                neuron_memory_new(&s->psum, NEURON_PSUM_BYTES, NEURON_PARTITIONS, values) &&
                neuron_shadow_new(&s->sbuf_shadow, sbuf) && neuron_shadow_new(&s->psum_shadow, NEURON_PSUM_BYTES);
    s->product =
        (struct memory){.lane = NEURON_PSUM_BYTES / 4, .written = calloc(NEURON_PARTITIONS, NEURON_PSUM_BYTES / 32)};
    fine = fine && s->product.written;
    if (!fine || !values)
        return fine;
    size_t packed = s->generation >= 4 ? NEURON_PACKED : 1;
    s->stationary = calloc(packed * STATIONARY_PLANE, sizeof *s->stationary);
    s->moving = calloc(packed * MOVING_PLANE, sizeof *s->moving);
    s->sums = calloc((packed > 1 ? 2 : 1) * MOVING_PLANE, sizeof *s->sums);
    s->quadrant = calloc(32 * ROW, sizeof *s->quadrant);
    fine = s->stationary && s->moving && s->sums && s->quadrant;
    for (int k = 0; k < 4; k++)
        fine = (s->row[k] = calloc(ROW, sizeof(float))) && fine;
    return fine;
}

static bool fits(const struct neuron_program *p, int lnc, char *error)
{
    int64_t all = 0, room = neuron_timings[p->core].hbm_bytes * (lnc > 1 ? lnc : 1);
    for (int k = 0; k < p->ntensors; k++)
        if (__builtin_add_overflow(all, neuron_tensor_bytes(&p->tensors[k]), &all))
            all = INT64_MAX;
    if (all > room)
        too_large(p, all, room, error);
    return all <= room;
}

struct neuron_sim *neuron_sim_new(const struct neuron_program *p, const struct neuron_config *config, char *error)
{
    if (!fits(p, config->lnc, error))
        return NULL;
    struct neuron_sim *s = calloc(1, sizeof *s);
    if (s) {
        s->c = *config;
        s->c.sharers = config->sharers > 0 ? config->sharers : 1;
        s->c.limit = config->limit ? config->limit : UINT64_C(1) << 32;
        s->t = &neuron_timings[p->core];
        s->figures = neuron_figures;
        s->generation = neuron_generation(p->core);
        if (make_core(s, p->core) && make_tensors(s, p))
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
    free_tensors(s);
    neuron_program_free(s->sized);
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

bool neuron_sim_load(struct neuron_sim *s, const struct neuron_program *p, char *error)
{
    if (neuron_timings + p->core != s->t) {
        snprintf(error, NEURON_ERROR, "the program is for %s: this core is another", neuron_core_name(p->core));
        return false;
    }
    s->nreports = 0;
    bool same = p == s->given && !s->lacks_memory;
    for (int k = 0; same && k < p->ntensors; k++) /* other sizes than before */
        same = s->hbm[k].lane == neuron_tensor_bytes(&p->tensors[k]);
    for (int k = 0; same && k < p->nsizes; k++)
        same = p->size[k].value == s->p->size[k].value || !s->sized;
    if (same)
        return true;
    if (!fits(p, s->c.lnc, error))
        return false;
    free_tensors(s);
    s->lacks_memory = false;
    if (make_tensors(s, p))
        return true;
    s->lacks_memory = true;
    free_tensors(s);
    snprintf(error, NEURON_ERROR, "no memory");
    return false;
}

void neuron_sim_round(struct neuron_sim *s, bool stochastic, uint64_t seed)
{
    s->c.stochastic = stochastic;
    s->c.rounding_seed = seed;
}

/* -- Tensors -- */

void neuron_sim_bind(struct neuron_sim *s, int tensor, void *memory)
{
    if (tensor < 0 || tensor >= s->ntensors || !s->c.values)
        return;
    struct memory *m = &s->hbm[tensor];
    int64_t bytes = m->lane;
    neuron_memory_free(m);
    if (memory)
        *m = (struct memory){.data = memory, .lane = bytes, .bound = true};
    else if (!neuron_memory_new(m, bytes, 1, true))
        s->lacks_memory = true;
}

static bool within(const struct neuron_sim *s, int tensor, int64_t offset, int64_t bytes, char *error)
{
    if (tensor < 0 || tensor >= s->ntensors || offset < 0 || bytes < 0 || offset > s->hbm[tensor].lane - bytes) {
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
