/* SPDX-License-Identifier: Apache-2.0 */
/* collective.c - collectives as the interpreter runs them: alone in every group. */

#include "ir/interp/interp_int.h"

int interp_collective(struct it_call *c)
{
    const struct ir_attr *give = ir_attr(c->n, IR_ATTR_give);
    if (ir_get_i(c->n, IR_ATTR_count, 1) != 1 || (give && give->n != 1))
        return it_fail(c, TCC_EUSAGE, "the interpreter is alone: count must be 1");
    for (int i = 0; i < c->n->nin; i++)
        c->out[i] = ir_tensor_ref(c->in[i]);
    return TCC_OK;
}

int interp_all_reduce(struct it_call *c)
{
    double scale = ir_get_f(c->n, IR_ATTR_scale, 1);
    if (scale == 1)
        return interp_collective(c);
    if (ir_get_i(c->n, IR_ATTR_count, 1) != 1)
        return it_fail(c, TCC_EUSAGE, "the interpreter is alone: count must be 1");
    for (int i = 0; i < c->n->nin; i++) {
        const struct ir_tensor *x = c->in[i];
        struct ir_tensor *t = it_out(c, i, x->rank, x->dims);
        double *v = t ? it_scratch(c, t->nelems, sizeof *v) : NULL;
        if (!v)
            return c->status;
        it_load_f64s(x, 0, 1, t->nelems, v);
        for (int64_t k = 0; k < t->nelems; k++)
            v[k] *= it_dtype(x) == TCC_F64 ? scale : (double)(float)scale;
        it_store_f64s(t, 0, 1, t->nelems, v);
    }
    return TCC_OK;
}

int interp_send(struct it_call *c)
{
    return it_fail(c, TCC_EUSAGE, "%s: the interpreter is alone in group '%s'", ir_op_info(c->n->op)->name,
                   ir_get_s(c->n, IR_ATTR_group, "world"));
}

int interp_is_owner(struct it_call *c)
{
    for (int i = 0; i < c->n->nout; i++) {
        struct ir_tensor *t = it_out(c, i, 0, NULL);
        if (!t)
            return c->status;
        *(uint8_t *)it_data(t) = 1;
    }
    return TCC_OK;
}
