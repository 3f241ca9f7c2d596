/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cycles of an instruction on its engine: how long until the next one may start. The formulas are those that the vendor
 * published for NeuronCore-v2 with SDK 2.26, and the modes of v3's Vector engine; doc/neuron.md has them, and says
 * which are ours. Their numbers are in timing.def.
 */
#include <stdlib.h>

#include "sim/neuron/neuron_int.h"

enum { COPY_START_NS = 1300, HOST_RATE = 25 /* bytes a ns */ };

const struct timing neuron_timings[NEURON_NCORES] = {
#define TIMING(core, ticks, tensor, scalar, gpsimd, vector, sync, dma, hbm, bytes, dge) \
    [NEURON_##core] = {ticks, {tensor, scalar, gpsimd, vector, sync}, dma, hbm, bytes, dge},
#include "sim/neuron/timing.def"
};

const int neuron_figures[FIGURES] = {
#define FIGURE(name, number) number,
#include "sim/neuron/timing.def"
};

static uint64_t figure(const struct neuron_sim *s, enum figure f)
{
    return (uint64_t)s->figures[f];
}

uint64_t neuron_ticks_in_10ns(enum neuron_core_kind c)
{
    return (unsigned)c < NEURON_NCORES ? (uint64_t)neuron_timings[c].ticks_in_10ns : 0;
}

int64_t neuron_hbm_bytes(enum neuron_core_kind c)
{
    return (unsigned)c < NEURON_NCORES ? neuron_timings[c].hbm_bytes : 0;
}

double neuron_hbm_rate(enum neuron_core_kind c)
{
    return neuron_timings[c].hbm_rate / 10.0;
}

/* The vendor says neither what starts a copy from the host nor how fast it is: a DMA's start, and what PCIe 4.0's 16
 * lanes carry after their framing. Within HBM every byte is read and written, by all 16 engines. */
double neuron_copy_ns(enum neuron_core_kind c, int64_t bytes, bool host)
{
    double rate = host ? HOST_RATE : NEURON_DMA_ENGINES * neuron_timings[c].dma_rate / 10.0;
    return COPY_START_NS + (double)bytes / rate;
}

/* Each writes a semaphore of the other, as a DMA does; the vendor gives no figure for it. */
double neuron_meet_ns(void)
{
    return COPY_START_NS;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool is_psum(const struct neuron_operand *o)
{
    return o->space == NEURON_PSUM;
}

static bool short_float(const struct neuron_operand *o)
{
    return o->type == NEURON_BF16 || o->type == NEURON_F16;
}

/* Bytes from an element to the next. */
static int64_t step(const struct neuron_operand *o)
{
    for (int d = o->ndims - 1; d >= 0; d--)
        if (o->size[d] > 1)
            return llabs(o->stride[d]) * isa_type(o->type)->bytes;
    return isa_type(o->type)->bytes;
}

static bool contiguous(const struct neuron_operand *o)
{
    return neuron_run_length(o) == neuron_free_size(o);
}

/* Elements that lie 16 bytes apart or more come at half the rate. */
static uint64_t apart(const struct neuron_sim *s, const struct neuron_instr *i)
{
    for (int k = 0; k < i->noperands; k++)
        if ((i->operand[k].space == NEURON_SBUF || i->operand[k].space == NEURON_PSUM) &&
            step(&i->operand[k]) >= s->figures[APART_BYTES])
            return figure(s, APART_TIMES);
    return 1;
}

/* v3: 4 elements a cycle for 16-bit copies within SBUF, 2 where one is not contiguous or lies in PSUM; v2 has none. */
static uint64_t copy_mode(const struct neuron_sim *s, const struct neuron_instr *i)
{
    const struct neuron_operand *o = i->operand;
    if (s->generation < 3 || isa_type(o[0].type)->bytes != 2 || isa_type(o[1].type)->bytes != 2)
        return 1;
    return !is_psum(&o[0]) && !is_psum(&o[1]) && contiguous(&o[0]) && contiguous(&o[1]) ? figure(s, V3_COPY_INTO)
                                                                                        : figure(s, V3_COPY_APART_INTO);
}

static bool all_short_in_sbuf(const struct neuron_instr *i, int n)
{
    for (int k = 0; k < n; k++)
        if (is_psum(&i->operand[k]) || isa_type(i->operand[k].type)->bytes != 2)
            return false;
    return true;
}

bool neuron_fast_mode(const struct neuron_sim *s, const struct neuron_instr *i)
{
    if (i->op == NEURON_OP_QUANTIZE_MX)
        return true;
    return (i->op == NEURON_OP_TENSOR_COPY || i->op == NEURON_OP_TENSOR_SCALAR)
               ? copy_mode(s, i) > 1
               : i->op == NEURON_OP_TENSOR_TENSOR && s->generation >= 3 && all_short_in_sbuf(i, 3);
}

static uint64_t tensor_tensor(const struct neuron_sim *s, const struct neuron_instr *i, uint64_t n)
{
    const struct neuron_operand *o = i->operand;
    int op = neuron_attr(i, NEURON_ATTR_OP0).i;
    bool bf16 = true;
    for (int k = 0; k < 3; k++)
        bf16 &= o[k].type == NEURON_BF16 && step(&o[k]) == 2;
    if (s->generation >= 3 && all_short_in_sbuf(i, 3))
        return n;
    if (is_psum(&o[1]) || is_psum(&o[2]) ||
        (bf16 && (op == NEURON_ALU_ADD || op == NEURON_ALU_MUL || op == NEURON_ALU_SUB)))
        return n;
    return figure(s, TENSOR_TENSOR_TIMES) * n;
}

static bool bf16_pair(const struct neuron_instr *i, int a, int b)
{
    return i->operand[a].type == NEURON_BF16 && i->operand[b].type == NEURON_BF16;
}

static bool uses(const struct neuron_instr *i, int op)
{
    return neuron_attr(i, NEURON_ATTR_OP0).i == op || neuron_attr(i, NEURON_ATTR_OP1).i == op;
}

/* Cycles of the Vector, Scalar and GpSimd engines; n: elements a partition of the input. */
static uint64_t lanes(const struct neuron_sim *s, int engine, const struct neuron_instr *i)
{
    const struct neuron_operand *o = i->operand;
    enum neuron_op op = (enum neuron_op)i->op;
    int input = i->noperands > 1 && o[1].space != NEURON_NUMBER;
    uint64_t n = (uint64_t)neuron_free_size(&o[input]) * apart(s, i), least = figure(s, LEAST),
             gpsimd = figure(s, GPSIMD_START);
    switch (op) {
    case NEURON_OP_TENSOR_TENSOR:
        return engine == NEURON_GPSIMD ? gpsimd + figure(s, GPSIMD_TENSOR_TENSOR_TIMES) * n
                                       : most(least, tensor_tensor(s, i, n));
    case NEURON_OP_TENSOR_SCALAR:
        if (engine == NEURON_GPSIMD && uses(i, NEURON_ALU_RSQRT))
            return figure(s, GPSIMD_RSQRT_TIMES) * most(least, n);
        return most(least, engine == NEURON_VECTOR ? n / copy_mode(s, i) : n);
    case NEURON_OP_SCALAR_TENSOR_TENSOR:
        return most(least, bf16_pair(i, 1, 3) && n % 2 == 0 && neuron_attr(i, NEURON_ATTR_OP0).i == NEURON_ALU_SUB &&
                                   neuron_attr(i, NEURON_ATTR_OP1).i == NEURON_ALU_MUL
                               ? n
                               : figure(s, SCALAR_TENSOR_TENSOR_TIMES) * n);
    case NEURON_OP_QUANTIZE_MX: return most(least, n * 4 / figure(s, QUANTIZE_INTO));
    case NEURON_OP_TENSOR_SCALAR_REDUCE: return most(least, n) + figure(s, REDUCE_END);
    case NEURON_OP_TENSOR_REDUCE: {
        int a = neuron_attr(i, NEURON_ATTR_OP0).i;
        if (engine == NEURON_GPSIMD)
            return gpsimd + n;
        return most(least, bf16_pair(i, 0, 1) && (a == NEURON_ALU_ADD || a == NEURON_ALU_MAX)
                               ? n / figure(s, BF16_REDUCE_INTO)
                               : n);
    }
    case NEURON_OP_TENSOR_TENSOR_SCAN: return most(least, figure(s, SCAN_TIMES) * n);
    case NEURON_OP_BN_AGGR: return most(least, figure(s, BN_AGGR_TIMES) * n / figure(s, BN_AGGR_INTO));
    case NEURON_OP_RECIPROCAL: return most(least, figure(s, RECIPROCAL_TIMES) * n);
    case NEURON_OP_TENSOR_COPY:
        if (o[0].reg != NEURON_NO_REGISTER || o[1].reg != NEURON_NO_REGISTER)
            return most(figure(s, LEAST_BY_REGISTER), n);
        return most(least, engine == NEURON_VECTOR ? n / copy_mode(s, i) : n);
    case NEURON_OP_TENSOR_COPY_PREDICATED:
        return most(least, is_psum(&o[1]) || is_psum(&o[2]) ? n : figure(s, PREDICATED_TIMES) * n);
    case NEURON_OP_MEMSET:
        return most(least, o[1].number == 0 && short_float(&o[0]) && engine == NEURON_VECTOR
                               ? n / figure(s, SHORT_ZERO_INTO)
                               : n);
    case NEURON_OP_IOTA:
    case NEURON_OP_AFFINE_SELECT: return gpsimd + n;
    case NEURON_OP_LOCAL_GATHER: {
        uint64_t e = (uint64_t)neuron_attr(i, NEURON_ATTR_PER_INDEX).i, wide = 4 / (uint64_t)isa_type(o[1].type)->bytes;
        uint64_t few = wide < e ? wide : e, each = figure(s, GATHER_EACH), down = figure(s, GATHER_START) + each * e;
        /* n elements / C, C = ((28 + 4 e) / (4 e)) / few */
        return gpsimd + ((uint64_t)neuron_free_size(&o[0]) * each * e * few + down - 1) / down;
    }
    default: return most(least, n); /* bn_stats, dropout, shuffles, the eights, activation, rng, transposes, read_acc */
    }
}

/* Stationary columns load at 4 a cycle. Float32 passes four times, in a transpose too, which is a product with the
 * identity. */
static uint64_t tensor(const struct neuron_sim *s, const struct neuron_instr *i)
{
    const struct neuron_operand *o = i->operand;
    uint64_t n = (uint64_t)neuron_free_size(&o[!neuron_is_load((enum neuron_op)i->op)]),
             columns = (uint64_t)s->stationary_columns, few = figure(s, PRODUCT_COLUMNS), into = figure(s, LOAD_INTO),
             passes = figure(s, F32_PASSES);
    if (neuron_is_load((enum neuron_op)i->op))
        return (o->type == NEURON_F32 ? passes : 1) * ((n + into - 1) / into);
    if (i->op == NEURON_OP_PE_TRANSPOSE)
        return (o[1].type == NEURON_F32 ? passes : 1) * most(o[1].count, n < few ? n : few);
    return (o[1].type == NEURON_F32 || s->stationary_type == NEURON_F32 ? passes : 1) *
           most(columns < few ? columns : few, n);
}

uint64_t neuron_cycles(const struct neuron_sim *s, int engine, const struct neuron_instr *i)
{
    switch ((enum neuron_op)i->op) {
    case NEURON_OP_LOAD_STATIONARY:
    case NEURON_OP_LOAD_STATIONARY_MX:
    case NEURON_OP_MATMUL:
    case NEURON_OP_MATMUL_MX:
    case NEURON_OP_PE_TRANSPOSE: return tensor(s, i);
    case NEURON_OP_NOP:
    case NEURON_OP_SET:
    case NEURON_OP_REG_ADD:
    case NEURON_OP_REG_MUL:
    case NEURON_OP_REG_AND:
    case NEURON_OP_REG_SHR:
    case NEURON_OP_JUMP:
    case NEURON_OP_LOOP:
    case NEURON_OP_END_LOOP:
    case NEURON_OP_DMA:
    case NEURON_OP_DMA_TRANSPOSE:
    case NEURON_OP_DMA_ADD: return figure(s, SEQUENCER);
    case NEURON_OP_REG_LOAD:
    case NEURON_OP_REG_STORE:
        /* a DMA of one row */
        return ((uint64_t)s->figures[DMA_START_NS] * (uint64_t)s->t->ticks_in_10ns / 10 +
                (uint64_t)(s->figures[DMA_LEAST_ROW_BYTES] * s->t->ticks_in_10ns / s->t->dma_rate)) /
               (uint64_t)s->t->cycle[engine];
    case NEURON_OP_DMA_GATHER:
    case NEURON_OP_DMA_SCATTER: return figure(s, GPSIMD_START) + i->operand[2].count;
    default: return lanes(s, engine, i);
    }
}

uint64_t neuron_latency(const struct neuron_sim *s, int engine, const struct neuron_instr *i)
{
    const char *operands = neuron_op_row((enum neuron_op)i->op)->operands;
    if (*operands != 'O' && *operands != 'B' && *operands != 'Q')
        return 0;
    return figure(s, engine == NEURON_TENSOR   ? LATENCY_TENSOR
                     : engine == NEURON_SCALAR ? LATENCY_SCALAR
                                               : LATENCY_LANES);
}
