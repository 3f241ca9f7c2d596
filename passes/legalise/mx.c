/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mx.c - products of operands that are rounded to MX formats, where the machine multiplies no such: the same numbers by
 * ops of floats, after OCP's Microscaling specification (1.0, 6.3). Groups are a dim of their own; the power of two of
 * a group's largest number is what a cast to f8e8m0, rounded down, keeps of it.
 */
#include "passes/legalise/legalise_int.h"
#include "base/mutant.h"

#include <math.h>

/* Of each group of dim `axis`, which is reduced to 1: its scale, f32. */
static struct ir_value *scales(struct ir_builder *b, struct ir_value *x, int64_t axis, enum tcc_dtype to)
{
    enum { LEAST = -127 };
    struct ir_value *top = ir_unary(b, IR_abs, x);
    top = ir_reduce(b, IR_reduce_max, top, 1, &axis, true);
    top = ir_build1(b, IR_cast, 1, &top,
                    IR_ATTRS(ir_attr_dtype(IR_ATTR_to, TCC_F8E8M0), ir_attr_s(IR_ATTR_round_mode, "down")));
    struct ir_value *by = ir_constant_f(b, TCC_F32, ldexp(1, -tcc_mx_exponent(to))),
                    *least = ir_constant_f(b, TCC_F32, ldexp(1, MUTANT(408, LEAST, 0)));
    top = ir_binary(b, IR_mul, ir_cast_to(b, top, TCC_F32), by);
    return ir_binary(b, IR_max, top, least);
}

static struct ir_value *rounded(struct ir_builder *b, struct ir_value *x, int axis, enum tcc_dtype to)
{
    ir_expr dims[TCC_MAX_RANK + 1], group = ir_const(b->ctx, TCC_MX_GROUP);
    int rank = x->type->rank;
    for (int i = 0; i < rank; i++)
        dims[i + (i > axis)] = x->type->dim[i];
    dims[axis] = ir_floordiv(b->ctx, x->type->dim[axis], group);
    dims[axis + 1] = group;
    struct ir_value *wide = ir_reshape_to(b, ir_cast_to(b, x, TCC_F32), rank + 1, dims);
    struct ir_value *scale = scales(b, wide, axis + 1, to);
    struct ir_value *y = ir_cast_to(b, ir_binary(b, IR_div, wide, scale), to);
    y = ir_binary(b, IR_mul, ir_cast_to(b, y, TCC_F32), scale);
    y = ir_reshape_to(b, y, rank, x->type->dim);
    return ir_cast_to(b, y, (enum tcc_dtype)x->type->dtype);
}

static bool spell_out(struct ir_func *f, struct ir_node *n)
{
    struct ir_builder b = {f->module->ctx, f, n->block, n, n->where};
    enum tcc_dtype to = ir_attr(n, IR_ATTR_mx)->dtype;
    struct ir_value *in[2];
    int nattrs;
    bool trans[2] = {ir_get_i(n, IR_ATTR_trans_a, 0) != 0, ir_get_i(n, IR_ATTR_trans_b, 0) == 0};
    for (int i = 0; i < 2; i++) {
        struct ir_value *x = n->in[i].value;
        in[i] = rounded(&b, x, x->type->rank - (trans[i] ? 2 : 1), to);
        if (!in[i])
            return false;
    }
    return ir_replace(n, ir_build1(&b, IR_matmul, 2, in, ir_attrs_without(b.ctx, n, IR_ATTR_mx, &nattrs)));
}

bool legalise_mx(struct pass_run *r, struct ir_func *f, struct ir_block *block)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    for (struct ir_node *n = block->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->nregions; i++)
            if (!legalise_mx(r, f, n->regions[i]))
                return false;
        if (n->op != IR_matmul || !ir_attr(n, IR_ATTR_mx))
            continue;
        int takes = m && m->takes_mx ? m->takes_mx(m, pass_ctx(r), n) : 0;
        if (takes < 0 || (!takes && !spell_out(f, n)))
            return false;
    }
    return true;
}
