/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SBUF, PSUM and HBM: bytes, and a bit for each that says whether it was written. Rows of an operand in a partition are
 * read and written in runs, of which the innermost dim is one. What was never written reads as NaN or 4, and is
 * reported.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

bool neuron_memory_new(struct memory *m, int64_t lane, int64_t lanes, bool values)
{
    m->lane = lane;
    if (!values)
        return true;
    m->data = calloc((size_t)lanes, (size_t)lane); /* pages of zeros until they are touched */
    m->written = calloc((size_t)lanes, (size_t)(lane + 7) / 8);
    return m->data && m->written;
}

void neuron_memory_free(struct memory *m)
{
    if (!m->bound)
        free(m->data);
    free(m->written);
    *m = (struct memory){0};
}

void neuron_memory_clear(struct memory *m, int64_t lanes)
{
    int64_t pitch = (m->lane + 7) / 8;
    for (int64_t k = 0; m->written && k < lanes; k++)
        memset(m->written + k * pitch, 0, (size_t)((m->high + 7) / 8));
    m->high = 0;
}

static uint8_t *written(const struct memory *m, int64_t lane)
{
    return m->written + lane * ((m->lane + 7) / 8);
}

/* The bits of bytes lo to lo + n - 1, which lie in one byte of the map. */
static unsigned bits(int64_t lo, int64_t n)
{
    return ((1u << n) - 1) << (lo & 7);
}

bool neuron_written(const struct memory *m, int64_t lane, int64_t byte, int64_t n)
{
    if (!m->written)
        return true;
    const uint8_t *w = written(m, lane);
    for (; n && (byte & 7); byte++, n--)
        if (!(w[byte >> 3] >> (byte & 7) & 1))
            return false;
    for (; n >= 64; byte += 64, n -= 64) {
        uint64_t all;
        memcpy(&all, w + (byte >> 3), 8);
        if (~all)
            return false;
    }
    for (; n >= 8; byte += 8, n -= 8)
        if (w[byte >> 3] != 255)
            return false;
    return !n || (w[byte >> 3] & bits(byte, n)) == bits(byte, n);
}

void neuron_mark(struct memory *m, int64_t lane, int64_t byte, int64_t n)
{
    if (!m->written)
        return;
    uint8_t *w = written(m, lane);
    int64_t head = -byte & 7;
    m->high = m->high > byte + n ? m->high : byte + n;
    head = head < n ? head : n;
    if (head)
        w[byte >> 3] |= (uint8_t)bits(byte, head);
    byte += head;
    n -= head;
    memset(w + (byte >> 3), 255, (size_t)(n >> 3));
    byte += n & ~INT64_C(7);
    if (n & 7)
        w[byte >> 3] |= (uint8_t)bits(byte, n & 7);
}

struct memory *neuron_memory(struct neuron_sim *s, const struct neuron_operand *o)
{
    return o->space == NEURON_SBUF ? &s->sbuf : o->space == NEURON_PSUM ? &s->psum : &s->hbm[o->tensor];
}

/* -- Patterns -- */

bool neuron_extent(const struct neuron_operand *o, int64_t offset, int64_t *lo, int64_t *hi)
{
    int64_t bytes = isa_type(o->type)->bytes;
    *lo = offset;
    *hi = offset + bytes;
    for (int d = 0; d < o->ndims; d++) {
        int64_t span = ((int64_t)o->size[d] - 1) * o->stride[d] * bytes; /* bounded by neuron_check() */
        *(span < 0 ? lo : hi) += span;
    }
    return true;
}

int64_t neuron_address(const struct neuron_operand *o, int64_t offset, int64_t element)
{
    int64_t at = 0;
    for (int d = o->ndims - 1; d >= 0; d--) {
        at += element % o->size[d] * o->stride[d];
        element /= o->size[d];
    }
    return offset + at * isa_type(o->type)->bytes;
}

int64_t neuron_run_length(const struct neuron_operand *o)
{
    int64_t n = 1;
    for (int d = o->ndims - 1; d >= 0; d--) {
        if (o->size[d] == 1)
            continue;
        if (o->stride[d] != n)
            return n;
        n *= o->size[d];
    }
    return n;
}

/* A pattern's runs: contiguous elements where there are several, else those of its innermost dim. */
struct runs {
    int64_t n, length, stride;
};

static struct runs runs_of(const struct neuron_operand *o)
{
    int64_t total = neuron_free_size(o), length = neuron_run_length(o);
    int last = o->ndims - 1;
    if (length > 1 || total == 1)
        return (struct runs){total / length, length, 1};
    while (last > 0 && o->size[last] == 1)
        last--;
    return (struct runs){total / o->size[last], o->size[last], o->stride[last]};
}

static struct memory *lane_of(struct run *r, int k, int lane, int64_t *line)
{
    const struct place *p = &r->at[k];
    *line = p->o->space == NEURON_HBM ? 0 : p->o->start + lane;
    return p->m;
}

/* Replaces what was never written by the sentinels, and reports it once. `to` is floats, or bits where `integers`. */
static void sentinels(struct run *r, int k, int lane, int64_t first, const struct runs *u, int64_t at, uint32_t *to,
                      bool integers)
{
    const struct neuron_operand *o = r->at[k].o;
    int64_t line, bytes = isa_type(o->type)->bytes;
    struct memory *m = lane_of(r, k, lane, &line);
    for (int64_t i = 0; i < u->length; i++) {
        if (neuron_written(m, line, at + i * u->stride * bytes, bytes))
            continue;
        float f = isa_type(o->type)->class == 'f' ? NAN : 4;
        if (integers)
            to[i] = isa_type(o->type)->class == 'f' ? 0x7fc07fc0 : 4;
        else
            memcpy(to + i, &f, 4);
        neuron_fail(r, NEURON_CHECK_UNINIT, "operand %d, partition %d, element %lld: byte %lld was never written",
                    k + 1, (int)line, (long long)(first + i), (long long)(at + i * u->stride * bytes));
    }
}

static bool all_written(const struct memory *m, int64_t line, int64_t at, const struct runs *u, int64_t bytes)
{
    if (u->stride == 1)
        return neuron_written(m, line, at, u->length * bytes);
    for (int64_t i = 0; i < u->length; i++)
        if (!neuron_written(m, line, at + i * u->stride * bytes, bytes))
            return false;
    return true;
}

/* Words of elements of a type, signed ones extended. */
#define WIDEN(type)                                              \
    for (int64_t i = 0; i < n; i++) {                            \
        type v;                                                  \
        memcpy(&v, from + i * stride * (int)sizeof v, sizeof v); \
        to[i] = (uint32_t)v;                                     \
    }                                                            \
    return

NEURON_WIDE static void load_bits(int type, const uint8_t *from, int64_t stride, int64_t n, uint32_t *to)
{
    bool sign = isa_type(type)->class == 'i';
    if (isa_type(type)->bytes == 4) {
        WIDEN(uint32_t);
    } else if (isa_type(type)->bytes == 2 && sign) {
        WIDEN(int16_t);
    } else if (isa_type(type)->bytes == 2) {
        WIDEN(uint16_t);
    } else if (sign) {
        WIDEN(int8_t);
    } else {
        WIDEN(uint8_t);
    }
}

#define NARROW(type)                                           \
    for (int64_t i = 0; i < n; i++) {                          \
        type v = (type)from[i];                                \
        memcpy(to + i * stride * (int)sizeof v, &v, sizeof v); \
    }                                                          \
    return

NEURON_WIDE static void store_bits(int type, uint8_t *to, int64_t stride, int64_t n, const uint32_t *from)
{
    if (isa_type(type)->bytes == 4) {
        NARROW(uint32_t);
    } else if (isa_type(type)->bytes == 2) {
        NARROW(uint16_t);
    } else {
        NARROW(uint8_t);
    }
}

/* To floats, or to bits where `integers`. */
static void get(struct run *r, int k, int lane, uint32_t *to, bool integers)
{
    const struct place *p = &r->at[k];
    struct runs u = runs_of(p->o);
    int64_t line, bytes = isa_type(p->o->type)->bytes;
    struct memory *m = lane_of(r, k, lane, &line);
    for (int64_t run = 0; run < u.n; run++, to += u.length) {
        int64_t at = neuron_address(p->o, p->offset, run * u.length);
        const uint8_t *from = m->data + line * m->lane + at;
        if (integers)
            load_bits(p->o->type, from, u.stride, u.length, to);
        else
            neuron_load_floats(p->o->type, from, u.stride, u.length, (float *)(void *)to);
        if (!all_written(m, line, at, &u, bytes))
            sentinels(r, k, lane, run * u.length, &u, at, to, integers);
    }
}

void neuron_get(struct run *r, int k, int lane, float *to)
{
    get(r, k, lane, (uint32_t *)(void *)to, false);
}

void neuron_get_bits(struct run *r, int k, int lane, uint32_t *to)
{
    get(r, k, lane, to, true);
}

/* -- Writing -- */

static void mark_runs(struct run *r, struct memory *m, int64_t line, int64_t at, const struct runs *u, int64_t bytes,
                      bool product)
{
    struct neuron_sim *s = r->s;
    for (int64_t i = 0; i < (u->stride == 1 ? 1 : u->length); i++) {
        int64_t byte = at + i * u->stride * bytes, n = u->stride == 1 ? u->length * bytes : bytes;
        neuron_mark(m, line, byte, n);
        int64_t word = byte / 4, words = (byte + n - 1) / 4 - word + 1;
        if (m == &s->psum && product)
            neuron_mark(&s->product, line, word, words);
        for (; m == &s->psum && !product && words; word++, words--)
            written(&s->product, line)[word >> 3] &= (uint8_t) ~(1u << (word & 7));
    }
}

/* Random bits for the elements of a row depend on the instruction, how often its engine has executed, partition and
 * element alone. */
static void stochastic(struct run *r, const struct place *p, int64_t line, int64_t first, int64_t n, int64_t stride,
                       uint8_t *to, const float *from)
{
    struct neuron_sim *s = r->s;
    int64_t bytes = isa_type(p->o->type)->bytes;
    uint32_t bits4[4];
    for (int64_t i = 0; i < n; i++) {
        int64_t e = first + i;
        if (i == 0 || e % 4 == 0)
            neuron_philox(s->c.rounding_seed, (uint64_t)line << 32 | (uint64_t)(e / 4),
                          s->engine[r->engine].executed << 4 | (uint64_t)r->engine, bits4);
        neuron_from_float((enum neuron_type)p->o->type, from[i], true, bits4[e % 4], to + i * stride * bytes);
    }
}

/* Floats, or else bits. */
static void put(struct run *r, int k, int lane, const float *floats, const uint32_t *bits)
{
    const struct place *p = &r->at[k];
    struct runs u = runs_of(p->o);
    int64_t line, bytes = isa_type(p->o->type)->bytes;
    struct memory *m = lane_of(r, k, lane, &line);
    bool random = r->s->c.stochastic && isa_type(p->o->type)->class == 'f' && p->o->type != NEURON_F32;
    for (int64_t run = 0; run < u.n; run++) {
        int64_t first = run * u.length, at = neuron_address(p->o, p->offset, first);
        uint8_t *to = m->data + line * m->lane + at;
        if (floats && random)
            stochastic(r, p, line, first, u.length, u.stride, to, floats + first);
        else if (floats)
            neuron_store_floats(p->o->type, to, u.stride, u.length, floats + first);
        else
            store_bits(p->o->type, to, u.stride, u.length, bits + first);
        mark_runs(r, m, line, at, &u, bytes, floats && r->engine == NEURON_TENSOR);
    }
}

void neuron_put(struct run *r, int k, int lane, const float *from)
{
    put(r, k, lane, from, NULL);
}

void neuron_put_bits(struct run *r, int k, int lane, const uint32_t *from)
{
    put(r, k, lane, NULL, from);
}

float neuron_column(struct run *r, int k, int lane)
{
    float f = 0;
    if (r->i->operand[k].space == NEURON_NUMBER)
        return r->i->operand[k].number;
    neuron_get(r, k, lane, &f);
    return f;
}
