/* SPDX-License-Identifier: Apache-2.0 */
/*
 * online.c - the largest of a row and the sum of exp(x - largest), in one pass over a row that does not fit in SBUF: a
 * chunk after the other, the sum so far
 * times exp(old largest - new largest)    (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018)
 *
 * A row whose largest is infinite has the sum NaN, as when it is summed by the largest of all.
 */
#include "compiler/neuron/tile_int.h"

#include <float.h>

static void largest(struct nk *nk, const struct nk_tile *one, const struct nk_tile *t, const struct nk_value *to,
                    const struct nk_value *x)
{
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_REDUCE, .noperands = 2};
    int axes;
    i.operand[0] = nk_operand(nk, one, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, x, t->n - 1, &axes);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = NEURON_ALU_MAX});
    neuron_set_attr(&i, NEURON_ATTR_AXES, (union neuron_value){.i = axes});
    nk_emit(nk, NEURON_VECTOR, &i, 2, (struct nk_use[]){{to->buffer, true, 0}, {x->buffer, false, 0}});
}

bool nk_run_online(struct plan *p, struct kept *kept)
{
    const struct kn_softmax *o = &p->nk->k->roles.softmax;
    struct nk *nk = p->nk;
    const struct kn_insn *insns = nk->k->insns;
    int64_t parts = p->tile.axis[0].extent, length = nk->extent[o->along], chunk = nk->room;
    const struct nk_tile one = nk_lanes(parts, 1);
    const struct nk_value *top = NULL;
    if (nk_free_elements(&p->tile) > 1 || length <= chunk || p->digits[o->along].n > 1)
        return false;
    struct nk_value *sum = nk_new(nk, &one, TCC_F32);
    for (int64_t at = 0; at < length; at += chunk) {
        int mark = nk_mark(nk);
        struct nk_tile t = p->tile;
        t.base[o->along] = at;
        nk_add_axes(nk, &t, o->along, length - at < chunk ? length - at : chunk, &p->digits[o->along]);
        const struct nk_value *none = NULL, *x = nk_body(nk, &t, &insns[o->load], &none), *before = top, *factor = NULL;
        if (o->cast != o->load)
            x = nk_body(nk, &t, &insns[o->cast], &x);
        x = nk_solid(nk, &t, nk_computed(nk, &t, x));
        struct nk_value *part = nk_new(nk, &one, TCC_F32), *less = nk_new(nk, &one, TCC_F32),
                        *weights = nk_new(nk, &t, TCC_BF16);
        largest(nk, &one, &t, part, x);
        top = before ? nk_tt(nk, &one, TCC_F32, NEURON_ALU_MAX, before, part) : part;
        struct nk_value *right = nk_number(nk, TCC_F32, FLT_MAX);
        nk_scale_by(nk, &one, less, top, NEURON_ALU_MUL, nk_number(nk, TCC_F32, -1), NEURON_ALU_MIN, right);
        if (before) {
            factor = nk_new(nk, &one, TCC_F32);
            nk_activate(nk, &one, NEURON_FUNC_EXP, factor, before, 1, less, NEURON_ACC_IDLE);
        }
        nk_activate(nk, &t, NEURON_FUNC_EXP, weights, x, 1, less, NEURON_ACC_RESET_REDUCE);
        struct nk_value *added = before ? nk_new(nk, &one, TCC_F32) : sum;
        struct neuron_instr read = {.op = NEURON_OP_READ_ACC, .noperands = 1};
        read.operand[0] = nk_operand(nk, &one, added, 0, NULL);
        nk_emit(nk, NEURON_SCALAR, &read, 1, (struct nk_use[]){{added->buffer, true, 0}});
        if (before)
            nk_scale_by(nk, &one, sum, sum, NEURON_ALU_MUL, factor, NEURON_ALU_ADD, added);
        nk_release_to(nk, mark, (const struct nk_value *const[]){top}, 1);
        nk_drop(nk, before);
    }
    struct stage s = {.p = p, .kept = kept};
    nk_make_kept(&s, o->top, TCC_F32, false);
    nk_make_kept(&s, o->sum, TCC_F32, false);
    nk_copy_to(nk, &one, &kept[o->top].v, top);
    nk_copy_to(nk, &one, &kept[o->sum].v,
               nk_tt(nk, &one, TCC_F32, NEURON_ALU_ADD, sum, nk_tt(nk, &one, TCC_F32, NEURON_ALU_SUB, top, top)));
    return true;
}
