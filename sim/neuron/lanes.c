/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise instructions, reductions along the free dims, scans and statistics, a partition at a time. Vector and
 * Scalar compute in float32 whatever the types; GpSimd computes integers exactly where all operands are integers;
 * operations on bits take them as they are.
 */
#include <math.h>

#include "sim/neuron/neuron_int.h"

/* -- Operations -- */

static float one(int op, float a, float b)
{
    switch ((enum neuron_alu)op) {
    case NEURON_ALU_BYPASS: return a;
    case NEURON_ALU_ADD: return a + b;
    case NEURON_ALU_SUB: return a - b;
    case NEURON_ALU_MUL: return a * b;
    case NEURON_ALU_MAX: return a > b || !(a == a) ? a : b; /* NaN of either side */
    case NEURON_ALU_MIN: return a < b || !(a == a) ? a : b;
    case NEURON_ALU_POW: return neuron_power(a, b);
    case NEURON_ALU_ABSMAX: return one(NEURON_ALU_MAX, fabsf(a), fabsf(b));
    case NEURON_ALU_ABSMIN: return one(NEURON_ALU_MIN, fabsf(a), fabsf(b));
    case NEURON_ALU_EQ: return a == b;
    case NEURON_ALU_NE: return a != b;
    case NEURON_ALU_GE: return a >= b;
    case NEURON_ALU_GT: return a > b;
    case NEURON_ALU_LE: return a <= b;
    case NEURON_ALU_LT: return a < b;
    case NEURON_ALU_LAND: return a != 0 && b != 0;
    case NEURON_ALU_LOR: return a != 0 || b != 0;
    case NEURON_ALU_LXOR: return (a != 0) != (b != 0);
    case NEURON_ALU_ABS: return fabsf(a);
    case NEURON_ALU_SQUARE: return a * a;
    case NEURON_ALU_RELU: return a > 0 || !(a == a) ? a : 0;
    case NEURON_ALU_RSQRT: return 1 / sqrtf(a);
    case NEURON_ALU_RECIP: return 1 / a;
    default: return a; /* on bits: integer() */
    }
}

/* On 32 bits; `sign`: of i32, i16, i8. Shifts beyond the word give 0. */
static uint32_t integer(int op, uint32_t a, uint32_t b, bool sign)
{
    bool less = sign ? (int32_t)a < (int32_t)b : a < b;
    switch ((enum neuron_alu)op) {
    case NEURON_ALU_ADD: return a + b;
    case NEURON_ALU_SUB: return a - b;
    case NEURON_ALU_MUL: return a * b;
    case NEURON_ALU_MAX: return less ? b : a;
    case NEURON_ALU_MIN: return less ? a : b;
    case NEURON_ALU_EQ: return a == b;
    case NEURON_ALU_NE: return a != b;
    case NEURON_ALU_GE: return !less;
    case NEURON_ALU_GT: return !less && a != b;
    case NEURON_ALU_LE: return less || a == b;
    case NEURON_ALU_LT: return less;
    case NEURON_ALU_LAND: return a && b;
    case NEURON_ALU_LOR: return a || b;
    case NEURON_ALU_LXOR: return !a != !b;
    case NEURON_ALU_NOT: return ~a;
    case NEURON_ALU_AND: return a & b;
    case NEURON_ALU_OR: return a | b;
    case NEURON_ALU_XOR: return a ^ b;
    case NEURON_ALU_SHL: return b < 32 ? a << b : 0;
    case NEURON_ALU_SHR: return b < 32 ? a >> b : 0;
    case NEURON_ALU_ABS: return sign && (int32_t)a < 0 ? 0 - a : a;
    case NEURON_ALU_SQUARE: return a * a;
    case NEURON_ALU_RELU: return sign && (int32_t)a < 0 ? 0 : a;
    case NEURON_ALU_ABSMAX:
    case NEURON_ALU_ABSMIN:
        a = integer(NEURON_ALU_ABS, a, 0, sign);
        b = integer(NEURON_ALU_ABS, b, 0, sign);
        return (op == NEURON_ALU_ABSMAX) == (a > b) ? a : b;
    default: return a;
    }
}

/* Loops of their own for what is common, so that they are vector loops. */
#define LOOP(value)                   \
    for (int64_t k = 0; k < n; k++) { \
        float x = a[k], y = b[k * s]; \
        to[k] = value;                \
    }                                 \
    return

void neuron_alu(int op, int64_t n, const float *a, const float *b, int64_t s, float *to)
{
    switch ((enum neuron_alu)op) {
    case NEURON_ALU_ADD: LOOP(x + y);
    case NEURON_ALU_SUB: LOOP(x - y);
    case NEURON_ALU_MUL: LOOP(x * y);
    default: LOOP(one(op, x, y));
    }
}

/* Logical shifts see only the bits of their type. */
static uint32_t cut(uint32_t v, int type, int op)
{
    int bytes = isa_type(type)->bytes;
    return op == NEURON_ALU_SHR && bytes < 4 ? v & ((1u << 8 * bytes) - 1) : v;
}

/* Whether an instruction computes with integers: on bits, or on GpSimd with nothing but integers. */
static bool exact(const struct run *r, int op)
{
    if (isa_alu(op)->kind == 'b')
        return true;
    if (r->engine != NEURON_GPSIMD)
        return false;
    for (int k = 0; k < r->i->noperands; k++) {
        const struct neuron_operand *o = &r->i->operand[k];
        if (o->space == NEURON_NUMBER ? o->number != rintf(o->number) || fabsf(o->number) > 0x1p31f
                                      : isa_type(o->type)->class == 'f')
            return false;
    }
    return true;
}

static uint32_t *words(float *row)
{
    return (uint32_t *)(void *)row;
}

/* -- Instructions; `lane` is the partition among those of the operands -- */

static void tensor_tensor(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t n = neuron_free_size(&r->i->operand[0]);
    int op = neuron_attr(r->i, NEURON_ATTR_OP0).i, type = r->i->operand[1].type;
    if (exact(r, op)) {
        uint32_t *a = words(s->row[0]), *b = words(s->row[1]);
        neuron_get_bits(r, 1, lane, a);
        neuron_get_bits(r, 2, lane, b);
        for (int64_t k = 0; k < n; k++)
            a[k] = integer(op, cut(a[k], type, op), b[k], isa_type(type)->class == 'i');
        neuron_put_bits(r, 0, lane, a);
        return;
    }
    neuron_get(r, 1, lane, s->row[0]);
    neuron_get(r, 2, lane, s->row[1]);
    neuron_alu(op, n, s->row[0], s->row[1], 1, s->row[2]);
    neuron_put(r, 0, lane, s->row[2]);
}

/* x op b, or b op x where they are exchanged. */
static void scalar(int op, bool reversed, int64_t n, float *x, float b)
{
    if (!reversed) {
        neuron_alu(op, n, x, &b, 0, x);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        x[k] = one(op, b, x[k]);
}

static void tensor_scalar(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t n = neuron_free_size(&r->i->operand[0]);
    int type = r->i->operand[1].type;
    float *x = s->row[0];
    if (exact(r, neuron_attr(r->i, NEURON_ATTR_OP0).i)) {
        neuron_get_bits(r, 1, lane, words(x));
        for (int k = 2; k < r->i->noperands; k++) {
            int op = neuron_attr(r->i, k == 2 ? NEURON_ATTR_OP0 : NEURON_ATTR_OP1).i;
            bool reversed = neuron_attr(r->i, k == 2 ? NEURON_ATTR_REV0 : NEURON_ATTR_REV1).i;
            uint32_t b = (uint32_t)(int64_t)r->i->operand[k].number, *w = words(x);
            for (int64_t e = 0; e < n; e++) {
                uint32_t a = cut(w[e], type, op);
                w[e] = reversed ? integer(op, b, a, isa_type(type)->class == 'i')
                                : integer(op, a, b, isa_type(type)->class == 'i');
            }
        }
        neuron_put_bits(r, 0, lane, words(x));
        return;
    }
    neuron_get(r, 1, lane, x);
    scalar(neuron_attr(r->i, NEURON_ATTR_OP0).i, neuron_attr(r->i, NEURON_ATTR_REV0).i, n, x,
           neuron_column(r, 2, lane));
    if (r->i->op == NEURON_OP_TENSOR_SCALAR && r->i->noperands == 4)
        scalar(neuron_attr(r->i, NEURON_ATTR_OP1).i, neuron_attr(r->i, NEURON_ATTR_REV1).i, n, x,
               neuron_column(r, 3, lane));
    neuron_put(r, 0, lane, x);
    if (r->i->op == NEURON_OP_TENSOR_SCALAR_REDUCE) {
        float sum = x[0];
        for (int64_t k = 1; k < n; k++)
            sum = one(neuron_attr(r->i, NEURON_ATTR_OP1).i, sum, x[k]);
        neuron_put(r, 3, lane, &sum);
    }
}

static void scalar_tensor_tensor(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t n = neuron_free_size(&r->i->operand[0]);
    int op = neuron_attr(r->i, NEURON_ATTR_OP1).i;
    neuron_get(r, 1, lane, s->row[0]);
    neuron_get(r, 3, lane, s->row[1]);
    scalar(neuron_attr(r->i, NEURON_ATTR_OP0).i, neuron_attr(r->i, NEURON_ATTR_REV0).i, n, s->row[0],
           neuron_column(r, 2, lane));
    if (neuron_attr(r->i, NEURON_ATTR_REV1).i)
        neuron_alu(op, n, s->row[1], s->row[0], 1, s->row[2]);
    else
        neuron_alu(op, n, s->row[0], s->row[1], 1, s->row[2]);
    neuron_put(r, 0, lane, s->row[2]);
}

/* Over the innermost `axes` dims, ascending. */
static void reduce(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t out = neuron_free_size(&r->i->operand[0]), n = neuron_free_size(&r->i->operand[1]) / out;
    int op = neuron_attr(r->i, NEURON_ATTR_OP0).i;
    bool negate = neuron_attr(r->i, NEURON_ATTR_NEGATE).i, sign = isa_type(r->i->operand[1].type)->class == 'i';
    if (exact(r, op)) {
        uint32_t *w = words(s->row[0]), *t = words(s->row[1]);
        neuron_get_bits(r, 1, lane, w);
        for (int64_t k = 0; k < out; k++) {
            t[k] = w[k * n];
            for (int64_t e = 1; e < n; e++)
                t[k] = integer(op, t[k], w[k * n + e], sign);
            t[k] = negate ? 0 - t[k] : t[k];
        }
        neuron_put_bits(r, 0, lane, t);
        return;
    }
    neuron_get(r, 1, lane, s->row[0]);
    for (int64_t k = 0; k < out; k++) {
        float sum = s->row[0][k * n];
        for (int64_t e = 1; e < n; e++)
            sum = one(op, sum, s->row[0][k * n + e]);
        s->row[1][k] = negate ? -sum : sum;
    }
    neuron_put(r, 0, lane, s->row[1]);
}

static void scan(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t n = neuron_free_size(&r->i->operand[0]);
    float last = neuron_column(r, 3, lane);
    neuron_get(r, 1, lane, s->row[0]);
    neuron_get(r, 2, lane, s->row[1]);
    for (int64_t k = 0; k < n; k++) {
        last = one(neuron_attr(r->i, NEURON_ATTR_OP0).i, s->row[0][k], last);
        last = one(neuron_attr(r->i, NEURON_ATTR_OP1).i, last, s->row[1][k]);
        s->row[2][k] = last;
    }
    neuron_put(r, 0, lane, s->row[2]);
}

/* Count, mean and sum of squared deviations of the even elements, then of the odd ones. */
static void statistics(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t n = neuron_free_size(&r->i->operand[1]);
    float out[6] = {0};
    neuron_get(r, 1, lane, s->row[0]);
    for (int odd = 0; odd < 2; odd++) {
        float count = (float)((n + 1 - odd) / 2), sum = 0, squares = 0;
        for (int64_t k = odd; k < n; k += 2)
            sum += s->row[0][k];
        float mean = count > 0 ? sum / count : 0;
        for (int64_t k = odd; k < n; k += 2)
            squares += (s->row[0][k] - mean) * (s->row[0][k] - mean);
        out[3 * odd] = count;
        out[3 * odd + 1] = mean;
        out[3 * odd + 2] = squares;
    }
    neuron_put(r, 0, lane, out);
}

/* Mean and variance of groups (Chan, Golub and LeVeque 1979). */
static void aggregate(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t n = neuron_free_size(&r->i->operand[1]);
    const float *x = s->row[0];
    float count = 0, sum = 0, squares = 0, out[2] = {0};
    neuron_get(r, 1, lane, s->row[0]);
    for (int64_t k = 0; k < n; k += 3) {
        count += x[k];
        sum += x[k] * x[k + 1];
    }
    out[0] = sum / count;
    for (int64_t k = 0; k < n; k += 3)
        squares += x[k + 2] + x[k] * (x[k + 1] - out[0]) * (x[k + 1] - out[0]);
    out[1] = squares / count;
    neuron_put(r, 0, lane, out);
}

/* Vector keeps every bit where the types are equal, GpSimd every integer; Scalar goes through float32. */
static void copy(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    const struct neuron_operand *o = r->i->operand;
    bool integers = isa_type(o[0].type)->class != 'f' && isa_type(o[1].type)->class != 'f';
    if ((r->engine == NEURON_VECTOR && o[0].type == o[1].type) || (r->engine == NEURON_GPSIMD && integers)) {
        neuron_get_bits(r, 1, lane, words(s->row[0]));
        neuron_put_bits(r, 0, lane, words(s->row[0]));
        return;
    }
    neuron_get(r, 1, lane, s->row[0]);
    neuron_put(r, 0, lane, s->row[0]);
}

static void predicated(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t n = neuron_free_size(&r->i->operand[0]);
    neuron_get(r, 1, lane, s->row[0]);
    neuron_get(r, 2, lane, s->row[1]);
    neuron_get(r, 0, lane, s->row[2]);
    for (int64_t k = 0; k < n; k++)
        if (s->row[1][k] != 0)
            s->row[2][k] = s->row[0][k];
    neuron_put(r, 0, lane, s->row[2]);
}

static void reciprocal(struct run *r, int lane)
{
    float *x = r->s->row[0];
    int64_t n = neuron_free_size(&r->i->operand[0]);
    neuron_get(r, 1, lane, x);
    for (int64_t k = 0; k < n; k++)
        x[k] = 1 / x[k];
    neuron_put(r, 0, lane, x);
}

static void fill(struct run *r, int lane)
{
    float *x = r->s->row[0];
    int64_t n = neuron_free_size(&r->i->operand[0]);
    for (int64_t k = 0; k < n; k++)
        x[k] = r->i->operand[1].number;
    neuron_put(r, 0, lane, x);
}

void neuron_lanes(struct run *r)
{
    static void (*const of[NEURON_NOPS])(struct run *, int) = {
        [NEURON_OP_TENSOR_TENSOR] = tensor_tensor,
        [NEURON_OP_TENSOR_SCALAR] = tensor_scalar,
        [NEURON_OP_TENSOR_SCALAR_REDUCE] = tensor_scalar,
        [NEURON_OP_SCALAR_TENSOR_TENSOR] = scalar_tensor_tensor,
        [NEURON_OP_TENSOR_REDUCE] = reduce,
        [NEURON_OP_TENSOR_TENSOR_SCAN] = scan,
        [NEURON_OP_BN_STATS] = statistics,
        [NEURON_OP_BN_AGGR] = aggregate,
        [NEURON_OP_TENSOR_COPY] = copy,
        [NEURON_OP_TENSOR_COPY_PREDICATED] = predicated,
        [NEURON_OP_RECIPROCAL] = reciprocal,
        [NEURON_OP_MEMSET] = fill,
    };
    for (int lane = 0; lane < r->i->operand[0].count; lane++)
        of[r->i->op](r, lane);
}
