/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions that choose: the largest eight, ranges, shuffles and blocks across partitions, random numbers (Vector);
 * index patterns and gathers (GpSimd); the accumulators' way out (Scalar).
 */
#include <math.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

static int partition(const struct run *r, int lane)
{
    return r->i->operand[0].start + lane;
}

/* -- Eights -- */

/* Descending, equal ones in the order of their places; NaN is larger than everything. */
static bool above(float a, float b)
{
    return a > b || (!(a == a) && b == b);
}

static void max8(struct run *r, int lane)
{
    float *x = r->s->row[0], top[8];
    int64_t n = neuron_free_size(&r->i->operand[1]);
    int have = 0;
    neuron_get(r, 1, lane, x);
    for (int64_t k = 0; k < n; k++) {
        if (have == 8 && !above(x[k], top[7]))
            continue;
        int at = have < 8 ? have++ : 7;
        for (; at && above(x[k], top[at - 1]); at--)
            top[at] = top[at - 1];
        top[at] = x[k];
    }
    neuron_put(r, 0, lane, top);
}

static bool same(float a, float b)
{
    return a == b || (!(a == a) && !(b == b));
}

/* Of a value that stands several times among the eight, each takes the next place; one that is absent has
 * 0xffffffff. */
static void find(struct run *r, int lane)
{
    float *x = r->s->row[0], values[8];
    uint32_t out[8];
    int64_t n = neuron_free_size(&r->i->operand[1]);
    neuron_get(r, 1, lane, x);
    neuron_get(r, 2, lane, values);
    for (int v = 0; v < 8; v++) {
        int64_t from = 0;
        for (int before = 0; before < v; before++)
            if (same(values[before], values[v]) && out[before] != UINT32_MAX)
                from = (int64_t)out[before] + 1;
        out[v] = UINT32_MAX;
        for (int64_t k = from; k < n && out[v] == UINT32_MAX; k++)
            if (same(x[k], values[v]))
                out[v] = (uint32_t)k;
    }
    neuron_put_bits(r, 0, lane, out);
}

/* Each of the eight replaces the first element that equals it and is not replaced yet. */
static void replace(struct run *r, int lane)
{
    float *x = r->s->row[0], values[8];
    int64_t n = neuron_free_size(&r->i->operand[1]), places[8];
    neuron_get(r, 1, lane, x);
    neuron_get(r, 2, lane, values);
    for (int v = 0; v < 8; v++) {
        places[v] = -1;
        for (int64_t k = 0; k < n && places[v] < 0; k++) {
            bool taken = false;
            for (int before = 0; before < v; before++)
                taken |= places[before] == k;
            if (!taken && same(x[k], values[v]))
                places[v] = k;
        }
    }
    for (int v = 0; v < 8; v++)
        if (places[v] >= 0)
            x[places[v]] = r->i->operand[3].number;
    neuron_put(r, 0, lane, x);
}

/* -- Ranges and patterns of indices -- */

static bool compare(int op, float a, float b)
{
    float out;
    neuron_alu(op, 1, &a, &b, 0, &out);
    return out != 0;
}

static void range_select(struct run *r, int lane)
{
    float *x = r->s->row[0], lo, hi;
    int64_t n = neuron_free_size(&r->i->operand[0]), base = neuron_attr(r->i, NEURON_ATTR_BASE).i;
    lo = neuron_column(r, 2, lane);
    hi = neuron_column(r, 3, lane);
    neuron_get(r, 1, lane, x);
    for (int64_t k = 0; k < n; k++)
        if (!compare(neuron_attr(r->i, NEURON_ATTR_OP0).i, (float)(base + k), lo) ||
            !compare(neuron_attr(r->i, NEURON_ATTR_OP1).i, (float)(base + k), hi))
            x[k] = neuron_attr(r->i, NEURON_ATTR_FILL).f;
    neuron_put(r, 0, lane, x);
}

/* base + partition * channel + sum of step * index, in 32 bits. */
static uint32_t affine(const struct run *r, const struct neuron_operand *o, int lane, int64_t element)
{
    uint32_t v = (uint32_t)neuron_attr(r->i, NEURON_ATTR_BASE).i +
                 (uint32_t)partition(r, lane) * (uint32_t)neuron_attr(r->i, NEURON_ATTR_CHANNEL).i;
    for (int d = o->ndims - 1; d >= 0; d--) {
        v +=
            (uint32_t)(element % o->size[d]) * (uint32_t)neuron_attr(r->i, (enum neuron_attr)(NEURON_ATTR_STEP0 + d)).i;
        element /= o->size[d];
    }
    return v;
}

static void iota(struct run *r, int lane)
{
    uint32_t *w = (uint32_t *)(void *)r->s->row[0];
    int64_t n = neuron_free_size(&r->i->operand[0]);
    for (int64_t k = 0; k < n; k++)
        w[k] = affine(r, &r->i->operand[0], lane, k);
    neuron_put_bits(r, 0, lane, w);
}

static void affine_select(struct run *r, int lane)
{
    float *x = r->s->row[0];
    int op = neuron_attr(r->i, NEURON_ATTR_OP0).i;
    int64_t n = neuron_free_size(&r->i->operand[0]);
    neuron_get(r, 1, lane, x);
    for (int64_t k = 0; k < n; k++) {
        int32_t v = (int32_t)affine(r, &r->i->operand[1], lane, k);
        if (!compare(op, (float)((v > 0) - (v < 0)), 0))
            x[k] = neuron_attr(r->i, NEURON_ATTR_FILL).f;
    }
    neuron_put(r, 0, lane, x);
}

/* The 16 partitions of a processor share its indices: number j lies in the j mod 16th of them, column j / 16. */
static void local_gather(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    const struct neuron_operand *o = r->i->operand;
    uint32_t *x = (uint32_t *)(void *)s->row[0], *out = (uint32_t *)(void *)s->row[1],
             *column = (uint32_t *)(void *)s->row[2];
    int64_t e = neuron_attr(r->i, NEURON_ATTR_PER_INDEX).i, n = neuron_free_size(&o[0]) / e,
            most = neuron_free_size(&o[1]) / e;
    neuron_get_bits(r, 1, lane, x);
    for (int j = 0; j < 16 && j < n; j++) {
        neuron_get_bits(r, 2, lane / 16 * 16 + j, column);
        for (int64_t k = j; k < n; k += 16) {
            uint32_t index = column[k / 16];
            if (index >= most) {
                neuron_fail(r, NEURON_CHECK_INDEX, "partition %d, index %lld is %u: there are %lld",
                            o[2].start + lane / 16 * 16 + j, (long long)(k / 16), index, (long long)most);
                return;
            }
            memcpy(out + k * e, x + index * e, (size_t)e * 4);
        }
    }
    neuron_put_bits(r, 0, lane, out);
}

/* -- Random numbers: by instruction, partition and element -- */

static void numbers(struct run *r, int lane, int64_t n, uint32_t *to)
{
    struct neuron_sim *s = r->s;
    for (int64_t k = 0; k < n; k += 4) {
        uint32_t four[4];
        neuron_philox(s->c.rounding_seed ^ UINT64_C(0x726e67), (uint64_t)partition(r, lane) << 32 | (uint64_t)(k / 4),
                      s->engine[r->engine].executed << 4 | (uint64_t)r->engine, four);
        memcpy(to + k, four, (size_t)(n - k < 4 ? n - k : 4) * 4);
    }
}

static void rng(struct run *r, int lane)
{
    uint32_t *w = (uint32_t *)(void *)r->s->row[0];
    numbers(r, lane, neuron_free_size(&r->i->operand[0]), w);
    neuron_put_bits(r, 0, lane, w);
}

static void dropout(struct run *r, int lane)
{
    float *x = r->s->row[0];
    uint32_t *w = (uint32_t *)(void *)r->s->row[1];
    int64_t n = neuron_free_size(&r->i->operand[0]);
    double below = (double)neuron_attr(r->i, NEURON_ATTR_PROBABILITY).f * 4294967296.0;
    numbers(r, lane, n, w);
    neuron_get(r, 1, lane, x);
    for (int64_t k = 0; k < n; k++)
        x[k] = (double)w[k] < below ? 0 : x[k];
    neuron_put(r, 0, lane, x);
}

/* -- Across partitions: all are read before one is written -- */

static void across(struct run *r)
{
    const struct neuron_operand *o = r->i->operand;
    int64_t n = neuron_free_size(&o[0]);
    bool transpose = r->i->op == NEURON_OP_TRANSPOSE32;
    uint32_t *quadrant = r->s->quadrant, *out = (uint32_t *)(void *)r->s->row[0];
    for (int first = 0; first < o[0].count; first += 32) {
        for (int k = 0; k < 32; k++)
            neuron_get_bits(r, 1, first + k, quadrant + (int64_t)k * ROW);
        for (int k = 0; k < 32; k++) {
            int from = transpose ? k : r->i->mask[k];
            if (from == 255)
                continue;
            for (int64_t e = 0; e < n; e++)
                out[e] = transpose ? quadrant[e % 32 * ROW + e / 32 * 32 + k] : quadrant[(int64_t)from * ROW + e];
            neuron_put_bits(r, 0, first + k, out);
        }
    }
}

/* Each 8 partitions x 4 elements have a scale, which lies in the first four partitions of their 32. */
static void quantize(struct run *r)
{
    struct neuron_sim *s = r->s;
    const struct neuron_operand *o = r->i->operand;
    enum { EIGHT = 8, QUAD = 4 };
    enum neuron_type t = (enum neuron_type)o->type;
    int64_t n = neuron_free_size(&o[0]);
    float *x = (float *)(void *)s->quadrant;
    uint32_t *scales = (uint32_t *)(void *)s->row[0], *out = (uint32_t *)(void *)s->row[1];
    for (int first = 0; first < o->count; first += EIGHT) {
        for (int k = 0; k < EIGHT; k++)
            neuron_get(r, 2, first + k, x + (int64_t)k * ROW);
        for (int64_t e = 0; e < n; e++) {
            float most = 0;
            for (int k = 0; k < EIGHT * QUAD; k++) {
                float a = fabsf(x[(int64_t)(k / QUAD) * ROW + QUAD * e + k % QUAD]);
                most = !(most == most) || a <= most ? most : a;
            }
            scales[e] = neuron_mx_scale(t, most, neuron_attr(r->i, NEURON_ATTR_MARGIN).i);
        }
        neuron_put_bits(r, 1, first / 32 * 32 + first % 32 / EIGHT, scales);
        for (int k = 0; k < EIGHT; k++) {
            for (int64_t e = 0; e < n; e++) {
                float by = scales[e] == 255 ? NAN : ldexpf(1, 127 - (int)scales[e]);
                out[e] = 0;
                for (int j = 0; j < QUAD; j++)
                    out[e] |= neuron_mx_encode(t, x[(int64_t)k * ROW + QUAD * e + j] * by) << 8 * j;
            }
            neuron_put_bits(r, 0, first + k, out);
        }
    }
}

static void read_acc(struct run *r, int lane)
{
    neuron_put(r, 0, lane, &r->s->acc[partition(r, lane)]);
}

void neuron_select(struct run *r)
{
    static void (*const of[NEURON_NOPS])(struct run *, int) = {
        [NEURON_OP_MAX8] = max8,
        [NEURON_OP_FIND_INDEX8] = find,
        [NEURON_OP_MATCH_REPLACE8] = replace,
        [NEURON_OP_RANGE_SELECT] = range_select,
        [NEURON_OP_IOTA] = iota,
        [NEURON_OP_AFFINE_SELECT] = affine_select,
        [NEURON_OP_LOCAL_GATHER] = local_gather,
        [NEURON_OP_RNG] = rng,
        [NEURON_OP_DROPOUT] = dropout,
        [NEURON_OP_READ_ACC] = read_acc,
    };
    if (r->i->op == NEURON_OP_QUANTIZE_MX) {
        quantize(r);
        return;
    }
    if (!of[r->i->op]) {
        across(r);
        return;
    }
    for (int lane = 0; lane < r->i->operand[0].count && !r->s->stopped; lane++)
        of[r->i->op](r, lane);
}
