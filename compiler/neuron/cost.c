/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c - cost.def applied to an instruction. */
#include "compiler/neuron/cost.h"

#include <stdlib.h>

/* What a row's condition may ask. */
struct asked {
    const struct neuron_instr *i;
    const struct neuron_operand *o;
    int generation;
};

static int alu(const struct asked *a, enum neuron_attr k)
{
    return neuron_attr(a->i, k).i;
}

static bool are(const struct asked *a, int n, enum neuron_type t)
{
    for (int k = 0; k < n; k++)
        if (a->o[k].type != t)
            return false;
    return true;
}

/* All of the first n are of 16 bits and lie in SBUF. */
static bool are_short(const struct asked *a, int n, bool in_sbuf)
{
    for (int k = 0; k < n; k++)
        if (neuron_type_bytes((enum neuron_type)a->o[k].type) != 2 || (in_sbuf && a->o[k].space != NEURON_SBUF))
            return false;
    return true;
}

/* Bytes between neighbours of the innermost dim with several. */
static int64_t distance(const struct neuron_operand *o)
{
    int64_t bytes = neuron_type_bytes((enum neuron_type)o->type);
    int d = o->ndims - 1;
    while (d >= 0 && o->size[d] == 1)
        d--;
    return d < 0 ? bytes : bytes * llabs(o->stride[d]);
}

static bool is_packed(const struct neuron_operand *o)
{
    int64_t next = 1;
    for (int d = o->ndims; d-- > 0; next *= o->size[d])
        if (o->size[d] > 1 && o->stride[d] != next)
            return false;
    return true;
}

static bool always(const struct asked *a)
{
    (void)a;
    return true;
}

static bool f32(const struct asked *a)
{
    return a->o[a->i->noperands - 1].type == NEURON_F32;
}

static bool psum_input(const struct asked *a)
{
    return a->o[1].space == NEURON_PSUM || a->o[2].space == NEURON_PSUM;
}

static bool bf16_sums(const struct asked *a)
{
    int op = alu(a, NEURON_ATTR_OP0);
    for (int k = 0; k < 3; k++)
        if (distance(&a->o[k]) != 2)
            return false;
    return are(a, 3, NEURON_BF16) && (op == NEURON_ALU_ADD || op == NEURON_ALU_SUB || op == NEURON_ALU_MUL);
}

static bool bf16_sub_mul(const struct asked *a)
{
    return a->o[1].type == NEURON_BF16 && a->o[3].type == NEURON_BF16 && alu(a, NEURON_ATTR_OP0) == NEURON_ALU_SUB &&
           alu(a, NEURON_ATTR_OP1) == NEURON_ALU_MUL && neuron_free_size(&a->o[1]) % 2 == 0;
}

static bool bf16_add_max(const struct asked *a)
{
    int op = alu(a, NEURON_ATTR_OP0);
    return are(a, 2, NEURON_BF16) && (op == NEURON_ALU_ADD || op == NEURON_ALU_MAX);
}

static bool rsqrt(const struct asked *a)
{
    return alu(a, NEURON_ATTR_OP0) == NEURON_ALU_RSQRT || alu(a, NEURON_ATTR_OP1) == NEURON_ALU_RSQRT;
}

static bool by_register(const struct asked *a)
{
    return a->o[0].reg != NEURON_NO_REGISTER || a->o[1].reg != NEURON_NO_REGISTER;
}

static bool short_zero(const struct asked *a)
{
    return a->o[1].number == 0 && (a->o[0].type == NEURON_BF16 || a->o[0].type == NEURON_F16);
}

static bool v3_16_bits(const struct asked *a)
{
    return a->generation >= 3 && are_short(a, 3, true);
}

static bool v3_16_bit_copy(const struct asked *a)
{
    return a->generation >= 3 && are_short(a, 2, false);
}

static bool v3_contiguous(const struct asked *a)
{
    return a->generation >= 3 && are_short(a, 2, true) && is_packed(&a->o[0]) && is_packed(&a->o[1]);
}

static bool sequencer(const struct asked *a)
{
    enum neuron_op op = (enum neuron_op)a->i->op;
    return neuron_is_dma(op) || op == NEURON_OP_NOP || op == NEURON_OP_SET || op == NEURON_OP_REG_ADD ||
           op == NEURON_OP_REG_MUL || op == NEURON_OP_REG_AND || op == NEURON_OP_REG_SHR || op == NEURON_OP_JUMP ||
           op == NEURON_OP_LOOP || op == NEURON_OP_END_LOOP;
}

static bool (*const whens[NK_COSTS])(const struct asked *) = {
#define COST(op, engine, when, least, times, over, plus) when,
#include "compiler/neuron/cost.def"
};

enum { NEURON_ANY = NK_ANY, NEURON_OP_ANY = NK_ANY };
const struct nk_costs nk_costs = {
    .core =
        {
#define CORE(core, t, s, g, v, y, dma, hbm, gib, dge)                                                            \
    [NEURON_##core] = {                                                                                          \
        {[NEURON_TENSOR] = t, [NEURON_SCALAR] = s, [NEURON_GPSIMD] = g, [NEURON_VECTOR] = v, [NEURON_SYNC] = y}, \
        dma,                                                                                                     \
        hbm,                                                                                                     \
        gib,                                                                                                     \
        dge},
#include "compiler/neuron/cost.def"
        },
    .transfer =
        {
#define TRANSFER(what, number) [NK_TRANSFER_##what] = number,
#include "compiler/neuron/cost.def"
        },
    .latency =
        {
#define LATENCY(engine, cycles) [NEURON_##engine] = cycles,
#include "compiler/neuron/cost.def"
        },
    .instr =
        {
#define COST(op, engine, when, least, times, over, plus) {NEURON_OP_##op, NEURON_##engine, least, times, over, plus},
#include "compiler/neuron/cost.def"
        },
};

/* ((28 + 4 e) / (4 e)) / min(4 / bytes, e) elements a cycle, of e each index. */
static int64_t gathered(const struct neuron_instr *i)
{
    int64_t e = neuron_attr(i, NEURON_ATTR_PER_INDEX).i,
            few = 4 / neuron_type_bytes((enum neuron_type)i->operand[1].type);
    int64_t down = 28 + 4 * e, up = neuron_free_size(&i->operand[0]) * 4 * e * (few < e ? few : e);
    return (up + down - 1) / down;
}

static int64_t elements(const struct neuron_instr *i)
{
    enum { APART = 16, TWICE = 2 };
    const struct neuron_operand *o = i->operand;
    enum neuron_op op = (enum neuron_op)i->op;
    if (op == NEURON_OP_LOCAL_GATHER)
        return gathered(i);
    if (op == NEURON_OP_DMA_GATHER || op == NEURON_OP_DMA_SCATTER)
        return o[2].count;
    if (op == NEURON_OP_PE_TRANSPOSE)
        return o[1].count;
    if (neuron_is_load(op))
        return (neuron_free_size(&o[0]) + 3) / 4 * 4;
    if (!i->noperands)
        return 0;
    int64_t n = neuron_free_size(&o[i->noperands > 1 && o[1].space != NEURON_NUMBER]);
    if (neuron_is_product(op))
        return n;
    for (int k = 0; k < i->noperands; k++)
        if ((o[k].space == NEURON_SBUF || o[k].space == NEURON_PSUM) && distance(&o[k]) >= APART)
            return TWICE * n;
    return n;
}

int64_t nk_cycles(const struct nk_costs *c, enum neuron_core_kind core, enum neuron_engine e,
                  const struct neuron_instr *i)
{
    enum { FULL = 64 };
    struct asked a = {i, i->operand, neuron_generation(core)};
    const struct nk_instr_cost *r = c->instr;
    if (i->op == NEURON_OP_REG_LOAD ||
        i->op == NEURON_OP_REG_STORE) { /* a transfer of one row, while the engine waits */
        struct nk_transfer_of word = {core, NEURON_VECTOR, NEURON_OP_DMA, false, 1, 1, 4};
        return (int64_t)(nk_transfer_ns(c, &word) * c->core[core].mhz[e] / 1e3);
    }
    while ((r->op != NK_ANY && r->op != i->op) || (r->engine != NK_ANY && r->engine != (int)e) ||
           !whens[r - c->instr](&a))
        r++;
    int64_t least = r->least, n = elements(i) * r->times / r->over, columns = FULL;
    if (neuron_is_product((enum neuron_op)i->op))
        columns = i->operand[0].count;
    else if (i->op == NEURON_OP_PE_TRANSPOSE)
        columns = neuron_free_size(&i->operand[1]);
    least = columns < FULL ? least * columns / FULL : least;
    return (n > least ? n : least) + r->plus;
}

int64_t nk_cycle_ticks(enum neuron_core_kind core, enum neuron_engine e)
{
    const int *mhz = nk_costs.core[core].mhz;
    return 2 * mhz[NEURON_TENSOR] / mhz[e];
}

int64_t nk_ticks_of(enum neuron_core_kind core, const struct neuron_program *p)
{
    enum { DMA_BYTES = 48 }; /* that are carried in a tick */
    int64_t most = 0, bytes = 0;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        int64_t sum = 0;
        for (int k = 0; k < p->stream[e].n; k++) {
            const struct neuron_instr *i = &p->stream[e].code[k];
            sum += nk_cycles(&nk_costs, core, (enum neuron_engine)e, i);
            if (neuron_is_dma((enum neuron_op)i->op))
                bytes += neuron_free_size(&i->operand[0]) * neuron_type_bytes((enum neuron_type)i->operand[0].type) *
                         (i->operand[0].count ? i->operand[0].count : 1);
        }
        sum *= nk_cycle_ticks(core, (enum neuron_engine)e);
        most = sum > most ? sum : most;
    }
    return bytes / DMA_BYTES > most ? bytes / DMA_BYTES : most;
}

double nk_transfer_ns(const struct nk_costs *c, const struct nk_transfer_of *t)
{
    const struct nk_core_cost *k = &c->core[t->core];
    double least = c->transfer[NK_TRANSFER_LEAST_ROW], each = (double)t->bytes > least ? (double)t->bytes : least;
    double share = (double)k->hbm / t->sharers / NEURON_DMA_ENGINES,
           rate = t->on_chip || k->dma < share ? k->dma : share;
    if (t->op == NEURON_OP_DMA_TRANSPOSE)
        rate *= c->transfer[t->on_chip ? NK_TRANSFER_TRANSPOSE_ON_CHIP_PERCENT : NK_TRANSFER_TRANSPOSE_PERCENT] / 100.0;
    double generation = t->engine == NEURON_SCALAR || t->engine == NEURON_SYNC ? k->generation_ns : 0;
    int64_t most = (t->rows + NEURON_DMA_ENGINES - 1) / NEURON_DMA_ENGINES; /* of one engine */
    return generation + c->transfer[NK_TRANSFER_START_NS] + (double)most * each / rate;
}
