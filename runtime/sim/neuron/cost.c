/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cycles of an instruction on its engine: how long until the next one may start. The formulas are those that the vendor published for
 * NeuronCore-v2 with SDK 2.26, and the modes of v3's Vector engine; doc/neuron.md has them, and says which are ours. MIN_II is the least
 * interval between two instructions.
 */
#include <stdlib.h>

#include "runtime/sim/neuron/neuron_int.h"

enum {
    MIN_II = 64,
    DYNAMIC = 600,
    GPSIMD_START = 150,
    SEQUENCER = 8,
    LATENCY_TENSOR = 128,
    LATENCY_SCALAR = 200,
    LATENCY_LANES = 100,
    COPY_START_NS = 1300,
    HOST_RATE = 25 /* bytes a ns */
};

const struct timing neuron_timings[NEURON_NCORES] = {
#define TIMING(core, ticks, tensor, scalar, gpsimd, vector, sync, dma, hbm, bytes, dge) \
    [NEURON_##core] = {ticks, {tensor, scalar, gpsimd, vector, sync}, dma, hbm, bytes, dge},
#include "runtime/sim/neuron/timing.def"
#undef TIMING
};

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

/* The vendor says neither what starts a copy from the host nor how fast it is: a DMA's start, and what PCIe 4.0's 16 lanes carry after their
 * framing. Within HBM every byte is read and written, by all 16 engines. */
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
            return llabs((int64_t)o->stride[d]) * isa_type(o->type)->bytes;
    return isa_type(o->type)->bytes;
}

static bool contiguous(const struct neuron_operand *o)
{
    return neuron_run_length(o) == neuron_free_size(o);
}

/* Elements that lie 16 bytes apart or more come at half the rate. */
static uint64_t apart(const struct neuron_instr *i)
{
    for (int k = 0; k < i->noperands; k++)
        if ((i->operand[k].space == NEURON_SBUF || i->operand[k].space == NEURON_PSUM) && step(&i->operand[k]) >= 16)
            return 2;
    return 1;
}

/* v3: 4 elements a cycle for 16-bit copies within SBUF, 2 where one is not contiguous or lies in PSUM; v2 has none. */
static uint64_t copy_mode(const struct neuron_sim *s, const struct neuron_instr *i)
{
    const struct neuron_operand *o = i->operand;
    if (s->generation < 3 || isa_type(o[0].type)->bytes != 2 || isa_type(o[1].type)->bytes != 2)
        return 1;
    return !is_psum(&o[0]) && !is_psum(&o[1]) && contiguous(&o[0]) && contiguous(&o[1]) ? 4 : 2;
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
    return 2 * n;
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
    uint64_t n = (uint64_t)neuron_free_size(&o[input]) * apart(i);
    switch (op) {
    case NEURON_OP_TENSOR_TENSOR:
        return engine == NEURON_GPSIMD ? GPSIMD_START + 2 * n : most(MIN_II, tensor_tensor(s, i, n));
    case NEURON_OP_TENSOR_SCALAR:
        if (engine == NEURON_GPSIMD && uses(i, NEURON_ALU_RSQRT))
            return 4 * most(MIN_II, n);
        return most(MIN_II, engine == NEURON_VECTOR ? n / copy_mode(s, i) : n);
    case NEURON_OP_SCALAR_TENSOR_TENSOR:
        return most(MIN_II, bf16_pair(i, 1, 3) && n % 2 == 0 && neuron_attr(i, NEURON_ATTR_OP0).i == NEURON_ALU_SUB &&
                                    neuron_attr(i, NEURON_ATTR_OP1).i == NEURON_ALU_MUL
                                ? n
                                : 2 * n);
    case NEURON_OP_TENSOR_SCALAR_REDUCE: return most(MIN_II, n) + MIN_II;
    case NEURON_OP_TENSOR_REDUCE: {
        int a = neuron_attr(i, NEURON_ATTR_OP0).i;
        if (engine == NEURON_GPSIMD)
            return GPSIMD_START + n;
        return most(MIN_II, bf16_pair(i, 0, 1) && (a == NEURON_ALU_ADD || a == NEURON_ALU_MAX) ? n / 2 : n);
    }
    case NEURON_OP_TENSOR_TENSOR_SCAN: return most(MIN_II, 2 * n);
    case NEURON_OP_BN_AGGR: return most(MIN_II, 13 * n / 3);
    case NEURON_OP_RECIPROCAL: return most(MIN_II, 8 * n);
    case NEURON_OP_TENSOR_COPY:
        if (o[0].reg != NEURON_NO_REGISTER || o[1].reg != NEURON_NO_REGISTER)
            return most(DYNAMIC, n);
        return most(MIN_II, engine == NEURON_VECTOR ? n / copy_mode(s, i) : n);
    case NEURON_OP_TENSOR_COPY_PREDICATED: return most(MIN_II, is_psum(&o[1]) || is_psum(&o[2]) ? n : 2 * n);
    case NEURON_OP_MEMSET:
        return most(MIN_II, o[1].number == 0 && short_float(&o[0]) && engine == NEURON_VECTOR ? n / 2 : n);
    case NEURON_OP_IOTA:
    case NEURON_OP_AFFINE_SELECT: return GPSIMD_START + n;
    case NEURON_OP_LOCAL_GATHER: {
        uint64_t e = (uint64_t)neuron_attr(i, NEURON_ATTR_PER_INDEX).i, wide = 4 / (uint64_t)isa_type(o[1].type)->bytes;
        uint64_t least = wide < e ? wide : e;
        /* n elements / C, C = ((28 + 4 e) / (4 e)) / least */
        return GPSIMD_START + ((uint64_t)neuron_free_size(&o[0]) * 4 * e * least + 28 + 4 * e - 1) / (28 + 4 * e);
    }
    default:
        return most(MIN_II, n); /* bn_stats, dropout, shuffles, the eights, activation, rng, transposes, read_acc */
    }
}

/* Stationary columns load at 4 a cycle. Float32 passes four times. */
static uint64_t tensor(const struct neuron_sim *s, const struct neuron_instr *i)
{
    const struct neuron_operand *o = i->operand;
    uint64_t n = (uint64_t)neuron_free_size(&o[i->op != NEURON_OP_LOAD_STATIONARY]),
             columns = (uint64_t)s->stationary_columns;
    if (i->op == NEURON_OP_LOAD_STATIONARY)
        return (o->type == NEURON_F32 ? 4 : 1) * ((n + 3) / 4);
    if (i->op == NEURON_OP_PE_TRANSPOSE)
        return most(o[1].count, n < 64 ? n : 64);
    return (o[1].type == NEURON_F32 || s->stationary_type == NEURON_F32 ? 4 : 1) * most(columns < 64 ? columns : 64, n);
}

uint64_t neuron_cycles(const struct neuron_sim *s, int engine, const struct neuron_instr *i)
{
    switch ((enum neuron_op)i->op) {
    case NEURON_OP_LOAD_STATIONARY:
    case NEURON_OP_MATMUL:
    case NEURON_OP_PE_TRANSPOSE: return tensor(s, i);
    case NEURON_OP_NOP:
    case NEURON_OP_SET:
    case NEURON_OP_REG_ADD:
    case NEURON_OP_REG_MUL:
    case NEURON_OP_JUMP:
    case NEURON_OP_DMA:
    case NEURON_OP_DMA_TRANSPOSE:
    case NEURON_OP_DMA_ADD: return SEQUENCER;
    case NEURON_OP_REG_LOAD:
        return (uint64_t)(1330 * s->t->ticks_in_10ns / 10 / s->t->cycle[engine]); /* a DMA of one row */
    case NEURON_OP_DMA_GATHER:
    case NEURON_OP_DMA_SCATTER: return GPSIMD_START + i->operand[2].count;
    default: return lanes(s, engine, i);
    }
}

uint64_t neuron_latency(int engine, const struct neuron_instr *i)
{
    const char *operands = neuron_op_row((enum neuron_op)i->op)->operands;
    if (*operands != 'O' && *operands != 'B' && *operands != 'Q')
        return 0;
    return engine == NEURON_TENSOR ? LATENCY_TENSOR : engine == NEURON_SCALAR ? LATENCY_SCALAR : LATENCY_LANES;
}
