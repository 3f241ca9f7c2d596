/* SPDX-License-Identifier: Apache-2.0 */
/*
 * few_channels.c - first convolutions of bytes or bf16. Machines multiply several neighbours along the sum at once; of
 * pictures, which have few channels, those are taps of a row. So rows of taps get zeros behind them, up to a multiple
 * of that number, and padding is written out, with as much more of it as these taps reach: then no tap has to be left
 * out. Exact.
 */
#include "passes/legalise/legalise_int.h"

#include <string.h>

/* Channels fewer than which aren't stored in blocks (as targets' layouts have it). */
#define FEW 8

/* How many neighbours the machine multiplies at once in that convolution. */
static int group_of(const struct pass_machine *m, const struct ir_node *n)
{
    enum tcc_dtype x = (enum tcc_dtype)n->in[0].value->type->dtype, w = (enum tcc_dtype)n->in[1].value->type->dtype;
    bool bytes = (x == TCC_U8 || x == TCC_I8) && w == TCC_I8 && n->out[0]->type->dtype == TCC_I32;
    return m && m->product_group && (bytes || (x == TCC_BF16 && w == TCC_BF16)) ? m->product_group(m, x, w) : 0;
}

static bool takes(const struct pass_run *r, const struct ir_node *n, int *group)
{
    const struct ir_tensor *w = n->op == IR_conv ? ir_const_of(n->in[1].value) : NULL;
    *group = w ? group_of(pass_opts((struct pass_run *)(uintptr_t)r)->machine, n) : 0;
    if (*group < 2 || w->rank < 3 || w->dims[1] >= FEW || w->dims[0] < FEW || ir_get_i(n, IR_ATTR_groups, 1) != 1 ||
        ir_attr(n, IR_ATTR_dilations)->ints[w->rank - 3] != 1)
        return false;
    bool pads = false;
    for (int i = 0; i < w->rank - 2; i++)
        pads |= !ir_is_value(ir_attr(n, IR_ATTR_before)->exprs[i], 0) ||
                !ir_is_value(ir_attr(n, IR_ATTR_after)->exprs[i], 0);
    return pads || w->dims[w->rank - 1] % *group;
}

/* Rows of taps, `more` longer. */
static struct ir_value *longer_rows(struct ir_builder *b, const struct ir_tensor *w, int64_t more)
{
    int64_t dims[TCC_MAX_RANK], row = w->dims[w->rank - 1];
    for (int i = 0; i < w->rank; i++)
        dims[i] = w->dims[i];
    dims[w->rank - 1] += more;
    struct ir_tensor *t = ir_tensor_new((enum tcc_dtype)w->dtype, w->rank, dims);
    if (!t)
        ir_no_memory(b->ctx);
    size_t bytes = (size_t)tcc_dtype_bytes((enum tcc_dtype)w->dtype);
    for (int64_t i = 0; i < w->nelems; i++)
        memcpy((char *)(uintptr_t)t->data + (size_t)(i / row * (row + more) + i % row) * bytes, ir_tensor_at(w, i),
               bytes);
    return ir_constant(b, t);
}

struct ir_value *legalise_few_channels(struct pass_run *r, struct ir_builder *b, struct ir_node *n)
{
    int group;
    if (!takes(r, n, &group))
        return NULL;
    const struct ir_tensor *w = ir_const_of(n->in[1].value);
    int64_t more = (group - w->dims[w->rank - 1] % group) % group;
    return legalise_conv_padded(b, n, more ? longer_rows(b, w, more) : n->in[1].value, more);
}
