/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instr.c - what the attention templates say in instructions of their own: values as rows of elements on partitions,
 * single instructions of the engines, an instruction of the kernel with all that it needs, and rows of a tensor in
 * blocks of as many as there are partitions.
 */
#include "compiler/neuron/neuron_int.h"

#include <string.h>

struct nk_tile nk_lanes(int64_t partitions, int64_t n)
{
    return (struct nk_tile){.n = 2, .nouter = 2, .axis = {{KN_MAX_DIMS - 1, 1, partitions}, {KN_MAX_DIMS - 1, 1, n}}};
}

struct nk_value nk_from(const struct nk_value *v, int64_t at)
{
    struct nk_value part = *v;
    part.offset += at * neuron_type_bytes((enum neuron_type)v->type);
    return part;
}

void nk_drop(struct nk *nk, const struct nk_value *v)
{
    if (v && !v->is_number)
        nk_release(nk, v->buffer);
}

const struct nk_value *nk_bank(struct nk *nk)
{
    struct nk_value *v = IR_NEW(nk->ctx, struct nk_value);
    *v = (struct nk_value){.dtype = TCC_F32, .type = NEURON_F32, .buffer = nk_psum(nk)};
    v->stride[1] = 1;
    return v;
}

void nk_activate(struct nk *nk, const struct nk_tile *t, enum neuron_func f, const struct nk_value *to,
                 const struct nk_value *x, double scale, const struct nk_value *bias, enum neuron_acc acc)
{
    struct nk_tile one = {.n = 1, .nouter = 1, .axis = {t->axis[0]}};
    struct neuron_instr i = {.op = NEURON_OP_ACTIVATION, .noperands = bias ? 4 : 3};
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, x, 0, NULL);
    i.operand[2] = nk_literal(scale);
    if (bias)
        i.operand[3] = nk_operand(nk, &one, bias, 0, NULL);
    neuron_set_attr(&i, NEURON_ATTR_FN, (union neuron_value){.i = f});
    neuron_set_attr(&i, NEURON_ATTR_ACC, (union neuron_value){.i = acc});
    struct nk_use uses[3] = {{to->buffer, true, 0}, {x->buffer, false, 0}};
    if (bias)
        uses[2] = (struct nk_use){bias->buffer, false, 0};
    nk_emit(nk, NEURON_SCALAR, &i, bias ? 3 : 2, uses);
}

void nk_scale_by(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, const struct nk_value *x,
                 enum neuron_alu op0, const struct nk_value *a, enum neuron_alu op1, const struct nk_value *b)
{
    struct nk_tile one = {.n = 1, .nouter = 1, .axis = {t->axis[0]}};
    bool tensor = !b->is_number;
    struct neuron_instr i = {.op = tensor ? NEURON_OP_SCALAR_TENSOR_TENSOR : NEURON_OP_TENSOR_SCALAR, .noperands = 4};
    struct nk_use uses[4] = {{to->buffer, true, 0}, {x->buffer, false, 0}};
    int n = 2;
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, x, 0, NULL);
    i.operand[2] = a->is_number ? nk_literal(a->number) : nk_operand(nk, &one, a, 0, NULL);
    i.operand[3] = tensor ? nk_operand(nk, t, b, 0, NULL) : nk_literal(b->number);
    if (!a->is_number)
        uses[n++] = (struct nk_use){a->buffer, false, 0};
    if (tensor)
        uses[n++] = (struct nk_use){b->buffer, false, 0};
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = op0});
    neuron_set_attr(&i, NEURON_ATTR_OP1, (union neuron_value){.i = op1});
    nk_emit(nk, NEURON_VECTOR, &i, n, uses);
}

void nk_multiply(struct nk *nk, const struct neuron_operand *to, struct nk_buffer *sum,
                 const struct neuron_operand *stationary, struct nk_buffer *s, const struct neuron_operand *moving,
                 struct nk_buffer *m, bool first)
{
    struct neuron_instr load = {.op = NEURON_OP_LOAD_STATIONARY, .noperands = 1, .operand = {*stationary}},
                        i = {.op = NEURON_OP_MATMUL, .noperands = 2, .operand = {*to, *moving}};
    nk_emit(nk, NEURON_TENSOR, &load, 1, (struct nk_use[]){{s, false, 0}});
    neuron_set_attr(&i, NEURON_ATTR_ACCUMULATE, (union neuron_value){.i = !first});
    nk_emit(nk, NEURON_TENSOR, &i, 2, (struct nk_use[]){{sum, true, 0}, {m, false, 0}});
}

const struct nk_value *nk_ramp(struct nk *nk, int64_t step)
{
    struct nk_tile one = nk_lanes(NEURON_PARTITIONS, 1);
    const struct nk_value *places = nk_new(nk, &one, TCC_I32), *to;
    struct neuron_instr i = {.op = NEURON_OP_IOTA, .noperands = 1};
    i.operand[0] = nk_operand(nk, &one, places, 0, NULL);
    neuron_set_attr(&i, NEURON_ATTR_CHANNEL, (union neuron_value){.i = (int32_t)step});
    nk_emit(nk, NEURON_GPSIMD, &i, 1, (struct nk_use[]){{places->buffer, true, 0}});
    to = nk_copy(nk, &one, TCC_F32, places);
    to->buffer->stays = true;
    nk_drop(nk, places);
    return to;
}

void nk_select_places(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, const struct nk_value *x,
                      int64_t base, enum neuron_alu op, const struct nk_value *column, double fill)
{
    struct nk_tile one = {.n = 1, .nouter = 1, .axis = {t->axis[0]}};
    struct neuron_instr i = {.op = NEURON_OP_RANGE_SELECT, .noperands = 4};
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, x, 0, NULL);
    i.operand[2] = i.operand[3] = nk_operand(nk, &one, column, 0, NULL);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = op});
    neuron_set_attr(&i, NEURON_ATTR_OP1, (union neuron_value){.i = op});
    neuron_set_attr(&i, NEURON_ATTR_BASE, (union neuron_value){.i = (int32_t)base});
    neuron_set_attr(&i, NEURON_ATTR_FILL, (union neuron_value){.f = (float)fill});
    nk_emit(nk, NEURON_VECTOR, &i, 3,
            (struct nk_use[]){{to->buffer, true, 0}, {x->buffer, false, 0}, {column->buffer, false, 0}});
}

const struct nk_value *nk_evaluate(struct nk *nk, const struct nk_tile *t, const struct nk_value **made, int insn)
{
    const struct kn_insn *n = &nk->k->insns[insn];
    const struct nk_value *args[3] = {NULL, NULL, NULL};
    for (int i = 0; i < n->nargs && i < 3 && !made[insn]; i++)
        args[i] = n->arg[i] >= 0 ? nk_evaluate(nk, t, made, n->arg[i]) : NULL;
    if (!made[insn])
        made[insn] = nk_body(nk, t, n, args);
    return made[insn];
}

void nk_run_stage(struct nk *nk, const struct nk_tile *t, const struct kn_stage *g, const struct nk_value **made)
{
    for (int i = g->first; i < g->last; i++) {
        const struct kn_insn *n = &nk->k->insns[i];
        const struct nk_value *args[3] = {NULL, NULL, NULL};
        for (int x = 0; x < n->nargs && x < 3; x++)
            args[x] = n->arg[x] >= 0 ? nk_evaluate(nk, t, made, n->arg[x]) : NULL;
        made[i] = nk_wait(nk, t, i, args);
        if (!made[i])
            made[i] = nk_body(nk, t, n, args);
    }
}

/* -- Rows in blocks ------------------------------------------------------------------------------------------------ */

/* of the block that begins there */
static int64_t nk_block_rows(const struct nk_blocks *b, int64_t lo)
{
    return nk_panel_part(b->panel, b->extent - lo, NEURON_PARTITIONS);
}

int64_t nk_block_number(int64_t lo)
{
    return lo / NEURON_PARTITIONS + (lo % NEURON_PARTITIONS != 0);
}

int64_t nk_load_blocks(struct nk *nk, const struct nk_blocks *b, const int64_t *base, int64_t lo,
                       const struct nk_value **to)
{
    int64_t n = nk_block_rows(b, lo),
            blocks = (b->extent - lo < NEURON_MOVING ? b->extent - lo : NEURON_MOVING) / NEURON_PARTITIONS,
            width = b->across < 0 ? 1 : nk->extent[b->across];
    struct nk_tile t = {.n = 1, .axis = {{b->dim, 1, n}}};
    const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *), *v;
    blocks = blocks < 1 ? 1 : blocks;
    if (blocks > 1)
        t.axis[t.n++] = (struct nk_axis){b->dim, NEURON_PARTITIONS, blocks};
    t.axis[t.n++] = (struct nk_axis){b->across < 0 ? KN_MAX_DIMS - 1 : b->across, 1, width};
    t.nouter = t.n;
    memcpy(t.base, base, sizeof t.base);
    t.base[b->dim] = lo;
    int mark = nk_mark(nk);
    v = nk_computed(nk, &t, nk_evaluate(nk, &t, made, b->insn));
    bool dense = !v->is_number && v->dtype == b->type && v->buffer->space == NEURON_SBUF &&
                 (width == 1 || v->stride[t.n - 1] == 1) && (blocks == 1 || v->stride[1] == width);
    if (!dense)
        v = nk_copy(nk, &t, b->type, nk_solid(nk, &t, v));
    nk_release_to(nk, mark, &v, 1);
    for (int64_t k = 0; k < blocks; k++) {
        struct nk_value *block = IR_NEW(nk->ctx, struct nk_value);
        *block = nk_from(v, k * width);
        block->stride[1] = 1;
        to[nk_block_number(lo + k * NEURON_PARTITIONS)] = block;
    }
    return blocks > 1 ? blocks * NEURON_PARTITIONS : n;
}

void nk_drop_blocks(struct nk *nk, const struct nk_blocks *b, const struct nk_value **blocks)
{
    for (int64_t lo = 0; lo < b->extent; lo += nk_block_rows(b, lo))
        nk_drop(nk, blocks[nk_block_number(lo)]);
}
