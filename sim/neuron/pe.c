/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensor engine. Operands become float32 (tf32 rounds what float32 it finds); a product's sums are complete before
 * they go to PSUM, which then is s or PSUM + s. A transpose is a product with the identity on NeuronCore-v2, where one
 * NaN or infinity spreads over its row of the result; v3 moves bits.
 */
#include <math.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

/* An operand as rows of `stride` floats. */
static void rows(struct run *r, int k, int stride, float *to)
{
    const struct neuron_operand *o = &r->i->operand[k];
    int64_t n = neuron_free_size(o);
    for (int lane = 0; lane < o->count; lane++) {
        float *row = to + lane * stride;
        neuron_get(r, k, lane, row);
        for (int64_t e = 0; o->type == NEURON_TF32 && e < n; e++) {
            uint32_t u;
            memcpy(&u, row + e, 4);
            u = neuron_round_tf32(u);
            memcpy(row + e, &u, 4);
        }
    }
}

/* Numbers of an MX format, times their scales: of each place of an element a plane of rows, `plane` floats apart. */
static void planes(struct run *r, int k, int stride, int64_t plane, float *to)
{
    enum { QUADRANT = 32, EIGHT = 8 };
    const struct neuron_operand *o = &r->i->operand[k];
    int n = (int)neuron_free_size(o), bits = isa_type(o->type)->bytes * 2;
    uint32_t *x = (uint32_t *)(void *)r->s->row[0], *scales = (uint32_t *)(void *)r->s->row[1];
    for (int lane = 0; lane < o->count; lane++) {
        if (lane % EIGHT == 0)
            neuron_get_bits(r, k + 1, lane / QUADRANT * QUADRANT + lane % QUADRANT / EIGHT, scales);
        neuron_get_bits(r, k, lane, x);
        for (int j = 0; j < NEURON_PACKED; j++)
            for (int e = 0; e < n; e++)
                to[j * plane + lane * stride + e] =
                    neuron_mx_decode((enum neuron_type)o->type, x[e] >> bits * j & ((1u << bits) - 1)) *
                    neuron_mx_power(scales[e]);
    }
}

static bool is_packed(int type)
{
    return isa_type(type)->class == 'x';
}

static bool wide(int type)
{
    return type == NEURON_F32 || type == NEURON_TF32;
}

/* What the order of the text could not say: a jump led here. */
static bool fits(struct run *r)
{
    const struct neuron_sim *s = r->s;
    const struct neuron_operand *o = r->i->operand;
    if (s->loaded && s->stationary_rows == o[1].count && s->stationary_start == o[1].start &&
        s->stationary_columns == o[0].count && wide(s->stationary_type) == wide(o[1].type) &&
        is_packed(s->stationary_type) == is_packed(o[1].type))
        return true;
    neuron_fail(r, NEURON_CHECK_STATIONARY,
                "stationary %s rows %d:%d, %d columns; moving %s rows %d:%d, %d partitions of the result",
                s->loaded ? neuron_type_name((enum neuron_type)s->stationary_type) : "(none)", s->stationary_start,
                s->stationary_start + s->stationary_rows, s->stationary_columns,
                neuron_type_name((enum neuron_type)o[1].type), o[1].start, o[1].start + o[1].count, o[0].count);
    return false;
}

/* Every word must come from the tensor engine: what else lies there is not what the accumulator holds. */
static void accumulators(struct run *r, int lane)
{
    const struct neuron_sim *s = r->s;
    const struct place *p = &r->at[0];
    int64_t n = neuron_free_size(p->o), run = neuron_run_length(p->o);
    for (int64_t e = 0; e < n; e += run) {
        int64_t word = neuron_address(p->o, p->offset, e) / 4;
        if (!neuron_written(&s->product, p->o->start + lane, word, run)) {
            neuron_fail(r, NEURON_CHECK_ACCUMULATE,
                        "partition %d, byte %lld on: not all of it is from the tensor engine", p->o->start + lane,
                        (long long)word * 4);
            return;
        }
    }
}

/* Of elements of four numbers: the sums of each of the four places, and then their sum, from the first to the last. */
static void multiply(struct run *r)
{
    struct neuron_sim *s = r->s;
    const struct neuron_operand *o = r->i->operand;
    int n = (int)neuron_free_size(&o[1]), nplanes = is_packed(o[1].type) ? NEURON_PACKED : 1;
    bool add = neuron_attr(r->i, NEURON_ATTR_ACCUMULATE).i;
    if (nplanes > 1)
        planes(r, 1, NEURON_MOVING, MOVING_PLANE, s->moving);
    else
        rows(r, 1, NEURON_MOVING, s->moving);
    for (int j = 0; j < nplanes; j++) {
        float *moving = s->moving + j * MOVING_PLANE, *sums = s->sums + (j ? MOVING_PLANE : 0);
        for (int k = 0; k < o[1].count; k++) /* padding is finite, so that it costs no time */
            memset(moving + k * NEURON_MOVING + n, 0, (size_t)((n + 31) / 32 * 32 - n) * sizeof(float));
        neuron_multiply(o[1].count, (o[0].count + 7) / 8 * 8, (n + 31) / 32 * 32, s->stationary + j * STATIONARY_PLANE,
                        moving, sums);
        for (int k = 0; j && k < o[0].count * NEURON_MOVING; k++)
            s->sums[k] += sums[k];
    }
    for (int lane = 0; lane < o[0].count; lane++) {
        float *sum = s->sums + lane * NEURON_MOVING;
        if (add) {
            if (s->c.checks)
                accumulators(r, lane);
            neuron_get(r, 0, lane, s->row[0]);
            for (int e = 0; e < n; e++)
                sum[e] = s->row[0][e] + sum[e];
        }
        neuron_put(r, 0, lane, sum);
    }
}

static void transpose(struct run *r)
{
    struct neuron_sim *s = r->s;
    const struct neuron_operand *o = r->i->operand;
    bool bits = s->generation >= 3 && o[0].type == o[1].type && isa_type(o[0].type)->bytes == 2;
    float *out = s->row[0];
    rows(r, 1, NEURON_MOVING, s->moving);
    for (int lane = 0; lane < o[0].count; lane++) {
        bool finite = true;
        for (int k = 0; k < o[1].count; k++) {
            out[k] = s->moving[k * NEURON_MOVING + lane];
            finite &= isfinite(out[k]) != 0;
        }
        for (int k = 0; s->generation < 3 && !finite && k < o[1].count; k++)
            out[k] = NAN;
        for (int k = 0; s->generation < 3 && finite && k < o[1].count; k++)
            out[k] += 0.0f; /* a sum that begins with 0 */
        if (!bits) {
            neuron_put(r, 0, lane, out);
            continue;
        }
        for (int k = 0; k < o[1].count; k++) { /* 16 bits as they are, NaN too */
            uint16_t h;
            memcpy(&h,
                   r->at[1].m->data + (o[1].start + k) * r->at[1].m->lane +
                       neuron_address(&o[1], r->at[1].offset, lane),
                   2);
            ((uint32_t *)(void *)s->row[1])[k] = h;
        }
        neuron_put_bits(r, 0, lane, (const uint32_t *)(const void *)s->row[1]);
    }
}

void neuron_pe(struct run *r)
{
    struct neuron_sim *s = r->s;
    const struct neuron_operand *o = r->i->operand;
    if (neuron_is_load((enum neuron_op)r->i->op)) {
        s->stationary_rows = o->count;
        s->stationary_columns = (int)neuron_free_size(o);
        s->stationary_start = o->start;
        s->stationary_type = o->type;
        s->loaded = true;
        if (!s->c.values)
            return;
        if (is_packed(o->type))
            planes(r, 0, NEURON_STATIONARY, STATIONARY_PLANE, s->stationary);
        else
            rows(r, 0, NEURON_STATIONARY, s->stationary);
        for (int j = 0; j < (is_packed(o->type) ? NEURON_PACKED : 1); j++)
            for (int k = 0; k < o->count; k++)
                memset(s->stationary + j * STATIONARY_PLANE + k * NEURON_STATIONARY + s->stationary_columns, 0,
                       (size_t)(NEURON_STATIONARY - s->stationary_columns) * sizeof(float));
    } else if (neuron_is_product((enum neuron_op)r->i->op)) {
        if (fits(r) && s->c.values)
            multiply(r);
    } else {
        s->loaded = false;
        if (s->c.values)
            transpose(r);
    }
}
