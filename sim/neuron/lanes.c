/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise instructions, reductions along the free dims, scans and statistics, a partition at a time. Vector and
 * Scalar compute in float32 whatever the types; GpSimd computes integers exactly where all operands are integers;
 * operations on bits take them as they are.
 */
#include <math.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

/* -- Operations -- */

static inline __attribute__((always_inline)) float one(enum neuron_alu op, float a, float b)
{
    switch (op) {
    case NEURON_ALU_BYPASS: return a;
    case NEURON_ALU_ADD: return a + b;
    case NEURON_ALU_SUB: return a - b;
    case NEURON_ALU_MUL: return a * b;
    case NEURON_ALU_MAX: return a > b || !(a == a) ? a : b; /* NaN of either side */
    case NEURON_ALU_MIN: return a < b || !(a == a) ? a : b;
    case NEURON_ALU_ABSMAX: return fabsf(a) > fabsf(b) || !(a == a) ? fabsf(a) : fabsf(b);
    case NEURON_ALU_ABSMIN: return fabsf(a) < fabsf(b) || !(a == a) ? fabsf(a) : fabsf(b);
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
    default: return a; /* powers are rows, operations on bits integer() */
    }
}

/* On 32 bits; `sign`: of i32, i16, i8. Shifts beyond the word give 0. */
static inline __attribute__((always_inline)) uint32_t integer(enum neuron_alu op, uint32_t a, uint32_t b, bool sign)
{
    bool less = sign ? (int32_t)a < (int32_t)b : a < b;
    uint32_t above = sign && (int32_t)a < 0 ? 0 - a : a, below = sign && (int32_t)b < 0 ? 0 - b : b;
    switch (op) {
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
    case NEURON_ALU_ABS: return above;
    case NEURON_ALU_SQUARE: return a * a;
    case NEURON_ALU_RELU: return sign && (int32_t)a < 0 ? 0 : a;
    case NEURON_ALU_ABSMAX: return above > below ? above : below;
    case NEURON_ALU_ABSMIN: return above > below ? below : above;
    default: return a;
    }
}

#if defined __clang__
#define ALONE _Pragma("clang loop vectorize(assume_safety)")
#else
#define ALONE _Pragma("GCC ivdep")
#endif

/* A loop for each operation, so that they are vector loops; b is a row or one number, and `to` may be a or b. */
#define LOOP(id, compute)                                                                              \
    case NEURON_ALU_##id:                                                                              \
        ALONE for (int64_t k = 0; step && k < n; k++) to[k] = compute(NEURON_ALU_##id, a[k], b[k]);    \
        ALONE for (int64_t k = 0; !step && k < n; k++) to[k] = compute(NEURON_ALU_##id, a[k], number); \
        return;

NEURON_WIDE static void floats(enum neuron_alu op, int64_t n, const float *a, const float *b, int64_t step, float *to)
{
    float number = *b;
    switch (op) {
#define ALU(id, name, kind, reduces) LOOP(id, one)
#include "runtime/neuron_isa.def"
    case NEURON_NALU: return;
    }
}

void neuron_alu(int op, int64_t n, const float *a, const float *b, int64_t step, float *to)
{
    if (op == NEURON_ALU_POW)
        neuron_powers(n, a, b, step, to);
    else
        floats((enum neuron_alu)op, n, a, b, step, to);
}

static inline __attribute__((always_inline)) uint32_t of_signed(enum neuron_alu op, uint32_t a, uint32_t b)
{
    return integer(op, a, b, true);
}

static inline __attribute__((always_inline)) uint32_t of_unsigned(enum neuron_alu op, uint32_t a, uint32_t b)
{
    return integer(op, a, b, false);
}

NEURON_WIDE static void integers(enum neuron_alu op, bool sign, int64_t n, const uint32_t *a, const uint32_t *b,
                                 int64_t step, uint32_t *to)
{
    uint32_t number = *b;
    if (sign)
        switch (op) {
#define ALU(id, name, kind, reduces) LOOP(id, of_signed)
#include "runtime/neuron_isa.def"
        case NEURON_NALU: return;
        }
    switch (op) {
#define ALU(id, name, kind, reduces) LOOP(id, of_unsigned)
#include "runtime/neuron_isa.def"
    case NEURON_NALU: return;
    }
}

/* x op b, or b op x where they are exchanged; `room` for a row of b. */
static void words_alu(int op, int type, bool reversed, int64_t n, uint32_t *x, const uint32_t *b, int64_t step,
                      uint32_t *room)
{
    bool sign = isa_type(type)->class == 'i';
    int bytes = isa_type(type)->bytes;
    for (int64_t k = 0; op == NEURON_ALU_SHR && bytes < 4 && k < n; k++) /* logical shifts see only these bits */
        x[k] &= (1u << 8 * bytes) - 1;
    if (!reversed) {
        integers((enum neuron_alu)op, sign, n, x, b, step, x);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        room[k] = *b;
    integers((enum neuron_alu)op, sign, n, room, x, 1, x);
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
        words_alu(op, type, false, n, a, b, 1, NULL);
        neuron_put_bits(r, 0, lane, a);
        return;
    }
    neuron_get(r, 1, lane, s->row[0]);
    neuron_get(r, 2, lane, s->row[1]);
    neuron_alu(op, n, s->row[0], s->row[1], 1, s->row[2]);
    neuron_put(r, 0, lane, s->row[2]);
}

/* Rows of n in ascending order. Each number waits for the last one of its row, so that eight rows go on at once. */
enum { CHAINS = 8 };

#define CHAIN(id)                                                             \
    case NEURON_ALU_##id:                                                     \
        for (int k = 0; k < many; k++)                                        \
            sum[k] = x[k * n];                                                \
        for (int64_t e = 1; many == CHAINS && e < n; e++)                     \
            _Pragma("GCC unroll 8") for (int k = 0; k < CHAINS; k++) sum[k] = \
                one(NEURON_ALU_##id, sum[k], x[k * n + e]);                   \
        for (int k = 0; many < CHAINS && k < many; k++)                       \
            for (int64_t e = 1; e < n; e++)                                   \
                sum[k] = one(NEURON_ALU_##id, sum[k], x[k * n + e]);          \
        break;

static void chains(enum neuron_alu op, int64_t rows, int64_t n, const float *x, float *to)
{
    for (; rows > 0; rows -= CHAINS, x += CHAINS * n, to += CHAINS) {
        float sum[CHAINS];
        int many = rows < CHAINS ? (int)rows : CHAINS;
        switch (op) {
#define ALU(id, name, kind, reduces) CHAIN(id)
#include "runtime/neuron_isa.def"
        case NEURON_NALU: return;
        }
        memcpy(to, sum, (size_t)many * sizeof *sum);
    }
}

/* x op b, or b op x where they are exchanged. */
static void scalar(struct neuron_sim *s, int op, bool reversed, int64_t n, float *x, float b)
{
    float *row = s->row[3];
    if (!reversed) {
        neuron_alu(op, n, x, &b, 0, x);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        row[k] = b;
    neuron_alu(op, n, row, x, 1, x);
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
            uint32_t b = (uint32_t)(int64_t)r->i->operand[k].number;
            words_alu(op, type, reversed, n, words(x), &b, 0, words(s->row[3]));
        }
        neuron_put_bits(r, 0, lane, words(x));
        return;
    }
    neuron_get(r, 1, lane, x);
    scalar(s, neuron_attr(r->i, NEURON_ATTR_OP0).i, neuron_attr(r->i, NEURON_ATTR_REV0).i, n, x,
           neuron_column(r, 2, lane));
    if (r->i->op == NEURON_OP_TENSOR_SCALAR && r->i->noperands == 4)
        scalar(s, neuron_attr(r->i, NEURON_ATTR_OP1).i, neuron_attr(r->i, NEURON_ATTR_REV1).i, n, x,
               neuron_column(r, 3, lane));
    neuron_put(r, 0, lane, x);
    if (r->i->op == NEURON_OP_TENSOR_SCALAR_REDUCE) {
        float sum;
        chains((enum neuron_alu)neuron_attr(r->i, NEURON_ATTR_OP1).i, 1, n, x, &sum);
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
    scalar(s, neuron_attr(r->i, NEURON_ATTR_OP0).i, neuron_attr(r->i, NEURON_ATTR_REV0).i, n, s->row[0],
           neuron_column(r, 2, lane));
    if (neuron_attr(r->i, NEURON_ATTR_REV1).i)
        neuron_alu(op, n, s->row[1], s->row[0], 1, s->row[2]);
    else
        neuron_alu(op, n, s->row[0], s->row[1], 1, s->row[2]);
    neuron_put(r, 0, lane, s->row[2]);
}

/* Over the innermost `axes` dims, of eight partitions at once where a row has room for them. */
static void reduce(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t all = neuron_free_size(&r->i->operand[1]), out = neuron_free_size(&r->i->operand[0]), n = all / out;
    int op = neuron_attr(r->i, NEURON_ATTR_OP0).i, lanes = all * CHAINS > ROW ? 1 : CHAINS;
    bool negate = neuron_attr(r->i, NEURON_ATTR_NEGATE).i, sign = isa_type(r->i->operand[1].type)->class == 'i';
    if (exact(r, op)) {
        uint32_t *w = words(s->row[0]), *t = words(s->row[1]);
        neuron_get_bits(r, 1, lane, w);
        for (int64_t k = 0; k < out; k++) {
            t[k] = w[k * n];
            for (int64_t e = 1; e < n; e++)
                t[k] = integer((enum neuron_alu)op, t[k], w[k * n + e], sign);
            t[k] = negate ? 0 - t[k] : t[k];
        }
        neuron_put_bits(r, 0, lane, t);
        return;
    }
    if (lane % lanes)
        return;
    lanes = lanes < r->i->operand[0].count - lane ? lanes : r->i->operand[0].count - lane;
    for (int k = 0; k < lanes; k++)
        neuron_get(r, 1, lane + k, s->row[0] + k * all);
    chains((enum neuron_alu)op, out * lanes, n, s->row[0], s->row[1]);
    for (int64_t k = 0; negate && k < out * lanes; k++)
        s->row[1][k] = -s->row[1][k];
    for (int k = 0; k < lanes; k++)
        neuron_put(r, 0, lane + k, s->row[1] + k * out);
}

static void scan(struct run *r, int lane)
{
    struct neuron_sim *s = r->s;
    int64_t n = neuron_free_size(&r->i->operand[0]);
    enum neuron_alu op0 = (enum neuron_alu)neuron_attr(r->i, NEURON_ATTR_OP0).i,
                    op1 = (enum neuron_alu)neuron_attr(r->i, NEURON_ATTR_OP1).i;
    float last = neuron_column(r, 3, lane);
    neuron_get(r, 1, lane, s->row[0]);
    neuron_get(r, 2, lane, s->row[1]);
    for (int64_t k = 0; k < n; k++) {
        last = one(op0, s->row[0][k], last);
        last = one(op1, last, s->row[1][k]);
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
