/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isa_check_shape.c - the rules of an instruction's shapes and types, engine by engine (doc/neuron-isa.md, "Rules").
 */
#include <inttypes.h>

#include "sim/neuron/isa_int.h"

/* All operands on chip have as many partitions as the first. */
static bool same_partitions(struct checker *c)
{
    int count = 0;
    for (int k = 0; k < c->i->noperands; k++) {
        const struct neuron_operand *o = &c->i->operand[k];
        if (o->space != NEURON_SBUF && o->space != NEURON_PSUM)
            continue;
        if (count && o->count != count)
            return isa_bad(c, "operand %d has %d partitions, another one %d", k + 1, o->count, count);
        count = o->count;
    }
    return true;
}

static bool same_size(struct checker *c, int a, int b)
{
    if (isa_free_size(c, a) != isa_free_size(c, b))
        return isa_bad(c, "operand %d has %" PRId64 " elements a partition, operand %d %" PRId64, a + 1,
                       isa_free_size(c, a), b + 1, isa_free_size(c, b));
    return true;
}

static bool size_is(struct checker *c, int k, int64_t n)
{
    return isa_free_size(c, k) == n ? true
                                    : isa_bad(c, "operand %d has %" PRId64 " elements a partition: expected %" PRId64,
                                              k + 1, isa_free_size(c, k), n);
}

static bool is_int32(float v)
{
    return v >= -0x1p31f && v < 0x1p31f && v == (float)(int32_t)v;
}

/* An operation of the vector lanes on these operands: bits need integers of one size, powers the GpSimd engine. */
static bool check_alu(struct checker *c, enum neuron_attr a, int n, const int *operands)
{
    int op = neuron_attr(c->i, a).i;
    const struct neuron_operand *o = c->i->operand;
    if (op == NEURON_ALU_POW && c->engine != NEURON_GPSIMD)
        return isa_bad(c, "pow is GpSimd's alone");
    for (int k = 0; isa_alu(op)->kind == 'b' && k < n; k++) {
        const struct neuron_operand *x = &o[operands[k]];
        if (x->space == NEURON_NUMBER ? !is_int32(x->number)
                                      : isa_is_float(x->type) || isa_type(x->type)->bytes != isa_type(o[0].type)->bytes)
            return isa_bad(c, "%s needs integers of one size", isa_alu(op)->name);
    }
    return true;
}

static bool check_reduces(struct checker *c, enum neuron_attr a)
{
    int op = neuron_attr(c->i, a).i;
    if (!isa_alu(op)->reduces)
        return isa_bad(c, "%s does not reduce: expected add, sub, mul, max, min, land, lor, lxor, and, or or xor",
                       isa_alu(op)->name);
    return check_alu(c, a, 2, (int[]){0, 1});
}

static bool check_compare(struct checker *c, enum neuron_attr a)
{
    int op = neuron_attr(c->i, a).i;
    return op >= NEURON_ALU_EQ && op <= NEURON_ALU_LT
               ? true
               : isa_bad(c, "expected eq, ne, ge, gt, le or lt, found %s", isa_alu(op)->name);
}

static bool type_is(struct checker *c, int k, int a, int b)
{
    int t = c->i->operand[k].type;
    if (t == a || t == b)
        return true;
    return a == b ? isa_bad(c, "operand %d is %s: expected %s", k + 1, isa_type(t)->name, isa_type(a)->name)
                  : isa_bad(c, "operand %d is %s: expected %s or %s", k + 1, isa_type(t)->name, isa_type(a)->name,
                            isa_type(b)->name);
}

static bool wide(int type)
{
    return type == NEURON_F32 || type == NEURON_TF32;
}

bool isa_is_packed(int type)
{
    return isa_type(type)->class == 'x';
}

/* Numbers of an MX format and the scales behind them: of 8 partitions x 4, in the first four partitions of each 32. */
static bool check_mx(struct checker *c, int k)
{
    const struct neuron_operand *o = &c->i->operand[k];
    if (!isa_is_packed(o->type))
        return isa_bad(c, "operand %d is %s: expected f8e4m3x4, f8e5m2x4 or f4e2m1x4", k + 1, isa_type(o->type)->name);
    if (o->count % 32)
        return isa_bad(c, "operand %d: %d partitions: expected a multiple of 32", k + 1, o->count);
    if (o[1].start != o->start || o[1].count != o->count)
        return isa_bad(c, "operand %d: scales on partitions %d:%d, numbers on %d:%d", k + 2, o[1].start,
                       o[1].start + o[1].count, o->start, o->start + o->count);
    return type_is(c, k + 1, NEURON_U8, NEURON_U8) && same_size(c, k, k + 1);
}

static bool check_quantize(struct checker *c)
{
    int margin = neuron_attr(c->i, NEURON_ATTR_MARGIN).i;
    if (margin < 0 || margin > 1)
        return isa_bad(c, "margin=%d: 0 or 1 are possible", margin);
    if (c->i->operand[0].type == NEURON_E2M1X4)
        return isa_bad(c, "quantises to 8 bits only");
    return same_partitions(c) && check_mx(c, 0) && size_is(c, 2, 4 * isa_free_size(c, 0)) &&
           type_is(c, 2, NEURON_BF16, NEURON_F16);
}

static bool check_stationary(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand;
    bool mx = c->i->op == NEURON_OP_LOAD_STATIONARY_MX;
    if (mx && !check_mx(c, 0))
        return false;
    if (!mx && !isa_is_float(o->type))
        return isa_bad(c, "the tensor engine multiplies floats, not %s", isa_type(o->type)->name);
    if (isa_free_size(c, 0) > NEURON_STATIONARY)
        return isa_bad(c, "%" PRId64 " columns: at most %d", isa_free_size(c, 0), NEURON_STATIONARY);
    c->stationary = c->i;
    c->unknown = false;
    return true;
}

static bool in_one_bank(struct checker *c, int k)
{
    int64_t lo, hi;
    const struct neuron_operand *o = &c->i->operand[k];
    isa_extent(o, &lo, &hi);
    return lo / NEURON_BANK_BYTES == hi / NEURON_BANK_BYTES ||
                   (o->reg != NEURON_NO_REGISTER && hi - lo < NEURON_BANK_BYTES)
               ? true
               : isa_bad(c, "operand %d: bytes %" PRId64 " to %" PRId64 " lie in more than one bank of %d", k + 1, lo,
                         hi, NEURON_BANK_BYTES);
}

static bool check_matmul(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand, *s = c->stationary ? c->stationary->operand : NULL;
    if (c->i->op == NEURON_OP_MATMUL_MX && !check_mx(c, 1))
        return false;
    if (c->i->op == NEURON_OP_MATMUL && !isa_is_float(o[1].type))
        return isa_bad(c, "the tensor engine multiplies floats, not %s", isa_type(o[1].type)->name);
    if (isa_free_size(c, 1) > NEURON_MOVING)
        return isa_bad(c, "%" PRId64 " moving columns: at most %d", isa_free_size(c, 1), NEURON_MOVING);
    if (!type_is(c, 0, NEURON_F32, NEURON_F32) || !same_size(c, 0, 1) || !in_one_bank(c, 0))
        return false;
    if (c->unknown)
        return true;
    if (!s)
        return isa_bad(c, "nothing was loaded with load_stationary");
    if (s->count != o[1].count || s->start != o[1].start)
        return isa_bad(c, "moving rows %d:%d, stationary rows %d:%d", o[1].start, o[1].start + o[1].count, s->start,
                       s->start + s->count);
    if (neuron_free_size(s) != o[0].count)
        return isa_bad(c, "%" PRId64 " stationary columns, %d partitions of the result", neuron_free_size(s),
                       o[0].count);
    if (isa_is_packed(s->type) != isa_is_packed(o[1].type))
        return isa_bad(c, "%s times %s: MX formats go with MX formats only", isa_type(s->type)->name,
                       isa_type(o[1].type)->name);
    if (wide(s->type) != wide(o[1].type))
        return isa_bad(c, "%s times %s: f32 and tf32 go with f32 and tf32 only", isa_type(s->type)->name,
                       isa_type(o[1].type)->name);
    return true;
}

static bool check_pe_transpose(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand;
    c->stationary = NULL; /* the transposed operand takes its place */
    c->unknown = false;
    bool small = c->generation >= 3 && isa_type(o[1].type)->bytes == 2;
    if (!isa_is_float(o[1].type))
        return isa_bad(c, "the tensor engine multiplies floats, not %s", isa_type(o[1].type)->name);
    if (isa_free_size(c, 1) > NEURON_STATIONARY || isa_free_size(c, 1) != o[0].count ||
        isa_free_size(c, 0) != o[1].count)
        return isa_bad(c, "[%d, %" PRId64 "] is no transpose of [%d, %" PRId64 "], at most 128 x 128", o[0].count,
                       isa_free_size(c, 0), o[1].count, isa_free_size(c, 1));
    return type_is(c, 0, NEURON_F32, small ? o[1].type : NEURON_F32) && in_one_bank(c, 0);
}

static bool check_tensor_tensor(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand;
    if (o[1].space == NEURON_PSUM && o[2].space == NEURON_PSUM)
        return isa_bad(c, "both inputs lie in PSUM: one of them has to lie in SBUF");
    return same_partitions(c) && same_size(c, 0, 1) && same_size(c, 0, 2) &&
           check_alu(c, NEURON_ATTR_OP0, 3, (int[]){0, 1, 2});
}

static bool check_tensor_scalar(struct checker *c)
{
    int two = c->i->noperands == 4, op0 = neuron_attr(c->i, NEURON_ATTR_OP0).i,
        op1 = neuron_attr(c->i, NEURON_ATTR_OP1).i;
    if (!two && op1 != NEURON_ALU_BYPASS)
        return isa_bad(c, "op1 without a second operand");
    if (c->engine == NEURON_SCALAR && !((op0 == NEURON_ALU_MUL || op0 == NEURON_ALU_ADD) &&
                                        (!two || (op0 == NEURON_ALU_MUL && op1 == NEURON_ALU_ADD))))
        return isa_bad(c, "the scalar engine has mul, add and mul then add, not %s%s%s", isa_alu(op0)->name,
                       two ? " then " : "", two ? isa_alu(op1)->name : "");
    if ((isa_alu(op0)->kind == 'b') != (isa_alu(op1)->kind == 'b') && op1 != NEURON_ALU_BYPASS)
        return isa_bad(c, "%s and %s: operations on bits and on numbers do not mix", isa_alu(op0)->name,
                       isa_alu(op1)->name);
    for (int k = 2; isa_alu(op0)->kind == 'b' && k < c->i->noperands; k++)
        if (c->i->operand[k].space != NEURON_NUMBER)
            return isa_bad(c, "%s needs a number, not a column", isa_alu(op0)->name);
    return same_partitions(c) && same_size(c, 0, 1) && check_alu(c, NEURON_ATTR_OP0, 3, (int[]){0, 1, 2}) &&
           (!two || check_alu(c, NEURON_ATTR_OP1, 3, (int[]){0, 1, 3}));
}

/* (src op0 a) op1 b, or a reduction with op1. */
static bool check_numbers(struct checker *c, enum neuron_attr a)
{
    int op = neuron_attr(c->i, a).i;
    if (isa_alu(op)->kind == 'b')
        return isa_bad(c, "%s: this instruction computes with numbers, not bits", isa_alu(op)->name);
    return check_alu(c, a, 0, NULL);
}

static bool check_reduce(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand;
    int axes = neuron_attr(c->i, NEURON_ATTR_AXES).i;
    int64_t n = 1;
    if (axes < 1 || axes > o[1].ndims)
        return isa_bad(c, "axes=%d: expected 1 to %d, the innermost dims to be reduced", axes, o[1].ndims);
    for (int d = 0; d < o[1].ndims - axes; d++)
        n *= o[1].size[d];
    return same_partitions(c) && size_is(c, 0, n) && check_reduces(c, NEURON_ATTR_OP0);
}

static bool check_eights(struct checker *c)
{
    int op = c->i->op, values = op == NEURON_OP_MAX8 ? 0 : 2;
    int64_t n = isa_free_size(c, 1);
    if (n < 8 || n > 16384)
        return isa_bad(c, "%" PRId64 " elements: 8 to 16384 are possible", n);
    if (!same_partitions(c) || !size_is(c, values, 8))
        return false;
    if (op == NEURON_OP_FIND_INDEX8)
        return size_is(c, 0, 8) && type_is(c, 0, NEURON_U32, NEURON_I32);
    return op == NEURON_OP_MATCH_REPLACE8 ? same_size(c, 0, 1) : true;
}

static bool check_blocks(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand;
    bool transpose = c->i->op == NEURON_OP_TRANSPOSE32;
    if (o[0].count % 32 || (transpose && isa_free_size(c, 0) % 32))
        return isa_bad(c, "%d partitions of %" PRId64 " elements: expected multiples of 32", o[0].count,
                       isa_free_size(c, 0));
    for (int k = 0; !transpose && k < 32; k++)
        if (c->i->mask[k] >= 32 && c->i->mask[k] != 255)
            return isa_bad(c, "mask[%d] is %d: expected 0 to 31, or 255", k, c->i->mask[k]);
    if (!transpose && !neuron_attr(c->i, NEURON_ATTR_MASK).i)
        return isa_bad(c, "no mask is given");
    return same_partitions(c) && same_size(c, 0, 1) && type_is(c, 0, o[1].type, o[1].type);
}

static bool check_activation(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand;
    if (c->i->noperands == 4 && o[3].space == NEURON_NUMBER && o[3].number != 0 && c->generation < 3)
        return isa_bad(c, "the bias is a number: %s takes a column [partitions, 1]", neuron_core_name(c->p->core));
    return same_partitions(c) && same_size(c, 0, 1);
}

static bool check_affine(struct checker *c)
{
    const struct neuron_operand *o = &c->i->operand[c->i->op == NEURON_OP_AFFINE_SELECT];
    for (int d = o->ndims; d < 4; d++)
        if (neuron_attr(c->i, (enum neuron_attr)(NEURON_ATTR_STEP0 + d)).i)
            return isa_bad(c, "step%d without a dim %d", d, d);
    if (c->i->op == NEURON_OP_IOTA)
        return type_is(c, 0, NEURON_I32, NEURON_I32);
    return same_partitions(c) && same_size(c, 0, 1) && check_compare(c, NEURON_ATTR_OP0);
}

static bool check_local_gather(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand;
    int e = neuron_attr(c->i, NEURON_ATTR_PER_INDEX).i;
    if (e < 1 || isa_free_size(c, 0) % e || isa_free_size(c, 1) % e)
        return isa_bad(c, "per_index=%d does not divide %" PRId64 " and %" PRId64 " elements", e, isa_free_size(c, 0),
                       isa_free_size(c, 1));
    if (o[0].count % 16)
        return isa_bad(c, "%d partitions: expected a multiple of 16", o[0].count);
    if (isa_free_size(c, 0) / e > 16 * isa_free_size(c, 2))
        return isa_bad(c, "%" PRId64 " indices are wanted, %" PRId64 " given", isa_free_size(c, 0) / e,
                       16 * isa_free_size(c, 2));
    return same_partitions(c) && type_is(c, 2, NEURON_U16, NEURON_U16) && type_is(c, 0, o[1].type, o[1].type);
}

/* Elements of a DMA's side: partitions count as its outermost dim. */
static int64_t dma_size(const struct neuron_operand *o)
{
    return (o->space == NEURON_SBUF ? o->count : 1) * neuron_free_size(o);
}

static bool check_dma(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand;
    int queue = neuron_attr(c->i, NEURON_ATTR_QUEUE).i;
    if (queue < 0 || queue >= NEURON_QUEUES)
        return isa_bad(c, "queue=%d: 0 to %d are possible", queue, NEURON_QUEUES - 1);
    if (c->owner[queue] != -1 && c->owner[queue] != c->engine)
        return isa_bad(c, "queue=%d belongs to the %s engine, which triggers it, too", queue,
                       neuron_engine_name((enum neuron_engine)c->owner[queue]));
    c->owner[queue] = c->engine;
    for (int k = 0; k < c->i->nsignals; k++)
        if (c->i->signal[k].value != 1)
            return isa_bad(c, "signal +%" PRIu32 ": each of the 16 engines of a DMA adds 1", c->i->signal[k].value);
    if (c->i->op == NEURON_OP_DMA_GATHER || c->i->op == NEURON_OP_DMA_SCATTER) {
        bool gather = c->i->op == NEURON_OP_DMA_GATHER;
        const struct neuron_operand *rows = &o[gather], *tile = &o[!gather];
        if (rows->space != NEURON_HBM || tile->space != NEURON_SBUF || rows->ndims < 2)
            return isa_bad(c, "expected rows of at least two dims in HBM, and SBUF");
        if (neuron_free_size(rows) / rows->size[0] != neuron_free_size(tile))
            return isa_bad(c, "rows of %" PRId64 " elements, %" PRId64 " a partition",
                           neuron_free_size(rows) / rows->size[0], neuron_free_size(tile));
        return tile->count == o[2].count && isa_free_size(c, 2) == 1 && type_is(c, 2, NEURON_I32, NEURON_U32)
                   ? true
                   : isa_bad(c, "expected one index i32 or u32 for each of %d partitions", tile->count);
    }
    if (c->i->op == NEURON_OP_DMA_TRANSPOSE) {
        int64_t outer[2], inner[2];
        for (int k = 0; k < 2; k++) {
            outer[k] = o[k].space == NEURON_SBUF ? o[k].count : o[k].size[0];
            inner[k] = dma_size(&o[k]) / outer[k];
        }
        if (o[0].type != o[1].type || (isa_type(o[0].type)->bytes != 2 && isa_type(o[0].type)->bytes != 4))
            return isa_bad(c, "%s to %s: expected one type of 2 or 4 bytes", isa_type(o[1].type)->name,
                           isa_type(o[0].type)->name);
        return outer[0] == inner[1] && inner[0] == outer[1]
                   ? true
                   : isa_bad(c, "[%" PRId64 ", %" PRId64 "] is no transpose of [%" PRId64 ", %" PRId64 "]", outer[0],
                             inner[0], outer[1], inner[1]);
    }
    for (int k = 1; k < c->i->noperands; k++)
        if (dma_size(&o[k]) != dma_size(&o[0]))
            return isa_bad(c, "%" PRId64 " elements to %" PRId64, dma_size(&o[k]), dma_size(&o[0]));
    return true;
}

static bool check_bn_stats(struct checker *c)
{
    if (isa_free_size(c, 1) > NEURON_BN)
        return isa_bad(c, "%" PRId64 " elements: at most %d", isa_free_size(c, 1), NEURON_BN);
    return same_partitions(c) && size_is(c, 0, 6) && type_is(c, 0, NEURON_F32, NEURON_F32);
}

static bool check_bn_aggr(struct checker *c)
{
    if (isa_free_size(c, 1) % 3)
        return isa_bad(c, "%" PRId64 " elements: expected triples", isa_free_size(c, 1));
    return same_partitions(c) && size_is(c, 0, 2);
}

static bool check_dropout(struct checker *c)
{
    float q = neuron_attr(c->i, NEURON_ATTR_PROBABILITY).f;
    return q >= 0 && q <= 1 ? same_partitions(c) && same_size(c, 0, 1)
                            : isa_bad(c, "probability=%g: expected 0 to 1", (double)q);
}

bool isa_check_shape(struct checker *c)
{
    const struct neuron_operand *o = c->i->operand;
    switch ((enum neuron_op)c->i->op) {
    case NEURON_OP_LOAD_STATIONARY:
    case NEURON_OP_LOAD_STATIONARY_MX: return check_stationary(c);
    case NEURON_OP_MATMUL:
    case NEURON_OP_MATMUL_MX: return check_matmul(c);
    case NEURON_OP_QUANTIZE_MX: return check_quantize(c);
    case NEURON_OP_PE_TRANSPOSE: return check_pe_transpose(c);
    case NEURON_OP_TENSOR_TENSOR: return check_tensor_tensor(c);
    case NEURON_OP_TENSOR_SCALAR: return check_tensor_scalar(c);
    case NEURON_OP_SCALAR_TENSOR_TENSOR:
        return same_partitions(c) && same_size(c, 0, 1) && same_size(c, 0, 3) && check_numbers(c, NEURON_ATTR_OP0) &&
               check_numbers(c, NEURON_ATTR_OP1);
    case NEURON_OP_TENSOR_SCALAR_REDUCE:
        return same_partitions(c) && same_size(c, 0, 1) && size_is(c, 3, 1) && check_numbers(c, NEURON_ATTR_OP0) &&
               check_numbers(c, NEURON_ATTR_OP1) && check_reduces(c, NEURON_ATTR_OP1);
    case NEURON_OP_TENSOR_REDUCE: return check_reduce(c);
    case NEURON_OP_TENSOR_TENSOR_SCAN:
        return same_partitions(c) && same_size(c, 0, 1) && same_size(c, 0, 2) && check_numbers(c, NEURON_ATTR_OP0) &&
               check_numbers(c, NEURON_ATTR_OP1);
    case NEURON_OP_BN_STATS: return check_bn_stats(c);
    case NEURON_OP_BN_AGGR: return check_bn_aggr(c);
    case NEURON_OP_RECIPROCAL:
    case NEURON_OP_TENSOR_COPY: return same_partitions(c) && same_size(c, 0, 1);
    case NEURON_OP_TENSOR_COPY_PREDICATED: return same_partitions(c) && same_size(c, 0, 1) && same_size(c, 0, 2);
    case NEURON_OP_DROPOUT: return check_dropout(c);
    case NEURON_OP_RNG: return isa_is_float(o->type) ? isa_bad(c, "expected an integer type") : true;
    case NEURON_OP_STREAM_SHUFFLE:
    case NEURON_OP_TRANSPOSE32: return check_blocks(c);
    case NEURON_OP_RANGE_SELECT:
        return same_partitions(c) && same_size(c, 0, 1) && check_compare(c, NEURON_ATTR_OP0) &&
               check_compare(c, NEURON_ATTR_OP1);
    case NEURON_OP_MAX8:
    case NEURON_OP_FIND_INDEX8:
    case NEURON_OP_MATCH_REPLACE8: return check_eights(c);
    case NEURON_OP_ACTIVATION: return check_activation(c);
    case NEURON_OP_READ_ACC: return size_is(c, 0, 1);
    case NEURON_OP_IOTA:
    case NEURON_OP_AFFINE_SELECT: return check_affine(c);
    case NEURON_OP_LOCAL_GATHER: return check_local_gather(c);
    case NEURON_OP_DMA:
    case NEURON_OP_DMA_TRANSPOSE:
    case NEURON_OP_DMA_ADD:
    case NEURON_OP_DMA_GATHER:
    case NEURON_OP_DMA_SCATTER: return check_dma(c);
    case NEURON_OP_JUMP: return check_compare(c, NEURON_ATTR_OP0);
    case NEURON_OP_MEMSET:
    case NEURON_OP_NOP:
    case NEURON_OP_SET:
    case NEURON_OP_REG_ADD:
    case NEURON_OP_REG_MUL:
    case NEURON_OP_REG_AND:
    case NEURON_OP_REG_SHR:
    case NEURON_OP_REG_LOAD:
    case NEURON_OP_REG_STORE:
    case NEURON_OP_LOOP:
    case NEURON_OP_END_LOOP:
    case NEURON_NOPS: return true;
    }
    return true;
}
