/* SPDX-License-Identifier: Apache-2.0 */
/*
 * legalise: nodes that have no kernel of their own become ones that have, just before lowering. Sorting becomes kernels
 * that sort, or a library op, random numbers elementwise work; attention is spelled out as product, softmax, product
 * (exact up to rounding).
 */
#include "passes/legalise/legalise_int.h"
#include "passes/pass.h"

#include <string.h>

bool pass_legalise_run(struct pass_run *r);

static void replace(struct ir_node *n, struct ir_node *with)
{
    for (int i = 0; i < n->nout; i++) {
        with->out[i]->name = n->out[i]->name;
        ir_replace_uses(n->out[i], with->out[i]);
    }
    ir_remove(n);
}

/* Types of n's outputs, for a node that replaces it. */
static ir_type *types_of(struct ir_ctx *ctx, const struct ir_node *n)
{
    ir_type *types = IR_NEWN(ctx, n->nout + 1, ir_type);
    for (int i = 0; i < n->nout; i++)
        types[i] = n->out[i]->type;
    return types;
}

static bool library_call(struct ir_builder *b, struct ir_node *n, const char *name, int nin, struct ir_value *const *in,
                         int nuser, const struct ir_attr *user)
{
    ir_type *types = types_of(b->ctx, n);
    struct ir_attr attrs[8] = {ir_attr_s(IR_ATTR_name, name), ir_attr_types(IR_ATTR_types, n->nout, types)};
    for (int i = 0; i < nuser; i++)
        attrs[2 + i] = user[i];
    struct ir_node *call = ir_build_typed(b, IR_lib, nin, in, attrs, n->nout, types);
    if (call)
        replace(n, call);
    return call != NULL;
}

static bool topk(struct pass_run *r, struct ir_builder *b, struct ir_node *n)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    if (m && m->takes && m->takes(m, n, 0))
        return legalise_topk(b, n);
    struct ir_value *k = ir_dim_value(b, ir_attr(n, IR_ATTR_k)->e);
    struct ir_value *in[2] = {n->in[0].value, k};
    struct ir_attr user[3] = {ir_attr_user_i("axis", ir_get_i(n, IR_ATTR_axis, 0)),
                              ir_attr_user_i("largest", ir_get_i(n, IR_ATTR_largest, 1)),
                              ir_attr_user_i("sorted", ir_get_i(n, IR_ATTR_sorted, 1))};
    return k && library_call(b, n, "topk", 2, in, 3, user);
}

static bool random_numbers(struct ir_builder *b, struct ir_node *n)
{
    struct ir_value *v = legalise_random(b, n);
    if (v)
        replace(n, v->def);
    return v != NULL;
}

static bool allows(enum ir_op op, enum ir_attr_key key)
{
    for (const enum ir_attr_key *at = ir_op_info(op)->attrs; *at != IR_ATTR_NONE; at++)
        if (*at == key)
            return true;
    return false;
}

/* Window attributes that are left out, filled in: kernels are built from all of them. */
static void fill_window(struct ir_ctx *ctx, struct ir_node *n)
{
    static const struct {
        enum ir_attr_key key;
        bool sizes;
    } lists[] = {{IR_ATTR_strides, false}, {IR_ATTR_dilations, false}, {IR_ATTR_before, true}, {IR_ATTR_after, true}};
    int64_t ones[TCC_MAX_RANK];
    ir_expr zeros[TCC_MAX_RANK];
    int rank = n->out[0]->type->rank - 2;
    for (int i = 0; i < rank; i++) {
        ones[i] = 1;
        zeros[i] = ir_const(ctx, 0);
    }
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        if (!ir_attr(n, lists[k].key) && allows(n->op, lists[k].key))
            ir_set_attr(n, lists[k].sizes ? ir_attr_exprs(lists[k].key, rank, zeros)
                                          : ir_attr_ints(lists[k].key, rank, ones));
}

static void fill_windows(struct ir_ctx *ctx, struct ir_block *block)
{
    IR_EACH_NODE(n, block) {
        if (ir_op_info(n->op)->kind == IR_K_WINDOW)
            fill_window(ctx, n);
        for (int i = 0; i < n->nregions; i++)
            fill_windows(ctx, n->regions[i]);
    }
}

/* A variable that gets many equal values: they are filled in, not copied from a weight that holds them all. */
static bool fill_state(struct ir_builder *b, struct ir_node *n)
{
    enum { MANY = 1024 };
    const struct ir_tensor *t = ir_const_of(n->in[0].value);
    if (!t || !t->splat || t->nelems < MANY)
        return true;
    struct ir_value *v = ir_constant(b, ir_tensor_splat((enum tcc_dtype)t->dtype, 0, NULL, t->data));
    v = v ? ir_expand_to(b, v, n->in[0].value->type->rank, n->in[0].value->type->dim) : NULL;
    if (v)
        ir_set_operand(n, 0, v);
    return v != NULL;
}

static bool winograd(struct pass_run *r, struct ir_builder *b, struct ir_node *n)
{
    struct ir_value *v;
    if (!legalise_winograd(r, b, n, &v))
        return false;
    if (v)
        replace(n, v->def);
    return true;
}

/* -- Groups of few channels ------------------------------------------------------------------------------------
 * Channels are stored in blocks: groups smaller than a block become groups of one block, with zeros in the weights
 * between what were different groups, and behind the last ones where they fill no block. Bounded: the same sums and
 * zeros, but an infinite element makes NaN of others in its block. */

/* Channels that groups are to have which have fewer; 0: they stay. */
static int64_t narrow_groups(struct pass_run *r, const struct ir_node *n)
{
    enum { PADS = 4 }; /* most of the channels that may be padding: one of so many */
    const struct ir_tensor *w = n->op == IR_conv && n->nin > 1 ? ir_const_of(n->in[1].value) : NULL;
    if (!w || w->rank != 4 || w->dtype != TCC_F32 || n->in[0].value->type->dtype != TCC_F32 || !pass_bounded(r) ||
        pass_opts(r)->level < 1)
        return 0;
    int64_t per = w->dims[1], groups = ir_get_i(n, IR_ATTR_groups, 1);
    if (groups < 2 || w->dims[0] != per * groups)
        return 0;
    int64_t block = legalise_window(r, n, PASS_WINDOW_CHANNELS);
    if (block <= per || block % per)
        return 0;
    int64_t more = (block - w->dims[0] % block) % block;
    return more * PADS <= w->dims[0] ? block : 0;
}

static struct ir_tensor *wide_weights(struct ir_ctx *ctx, const struct ir_tensor *w, int64_t wide, int64_t block)
{
    int64_t per = w->dims[1], taps = w->dims[2] * w->dims[3], dims[4] = {wide, block, w->dims[2], w->dims[3]};
    struct ir_tensor *t = ir_tensor_new(TCC_F32, 4, dims);
    if (!t)
        ir_no_memory(ctx);
    memset((void *)t->data, 0, (size_t)(wide * block * taps) * sizeof(float));
    for (int64_t o = 0; o < w->dims[0]; o++)
        for (int64_t i = 0; i < per * taps; i++)
            memcpy(&((float *)t->data)[(o * block + o % block / per * per) * taps + i],
                   ir_tensor_at(w, o * per * taps + i), sizeof(float));
    return t;
}

static bool widen_groups(struct ir_builder *b, struct ir_node *n, int64_t block)
{
    const struct ir_tensor *w = ir_const_of(n->in[1].value);
    int64_t channels = w->dims[0], wide = (channels + block - 1) / block * block;
    ir_expr none = ir_const(b->ctx, 0), more = ir_const(b->ctx, wide - channels);
    struct ir_value *x = ir_pad_axis(b, n->in[0].value, NULL, 1, none, more),
                    *bias = n->nin > 2 ? ir_pad_axis(b, n->in[2].value, NULL, 0, none, more) : NULL,
                    *args[3] = {x, ir_constant(b, wide_weights(b->ctx, w, wide, block)), bias};
    struct ir_attr *attrs = IR_NEWN(b->ctx, n->nattrs + 1, struct ir_attr); /* ends with zeros */
    for (int i = 0; i < n->nattrs; i++)
        attrs[i] = n->attrs[i].key == IR_ATTR_groups ? ir_attr_i(IR_ATTR_groups, wide / block) : n->attrs[i];
    struct ir_value *y = ir_build1(b, IR_conv, bias ? 3 : 2, args, attrs);
    if (y && wide > channels)
        y = ir_slice_axis(b, y, 1, none, ir_const(b->ctx, channels));
    if (y)
        replace(n, y->def);
    return y != NULL;
}

static void resize(struct pass_run *r, struct ir_builder *b, struct ir_node *n)
{
    struct ir_value *v = legalise_resize(r, b, n);
    if (v)
        replace(n, v->def);
}

static bool picture(struct pass_run *r, struct ir_builder *b, struct ir_node *n)
{
    struct ir_value *v = legalise_few_channels(r, b, n);
    v = v ? v : legalise_padding(r, b, n);
    v = v ? v : legalise_strided(r, b, n);
    if (v)
        replace(n, v->def);
    return v != NULL;
}

static bool legalise_block(struct pass_run *r, struct ir_func *f, struct ir_block *block)
{
    for (struct ir_node *n = block->first, *next; n; n = next) {
        next = n->next;
        struct ir_builder b = {pass_ctx(r), f, block, n, n->where};
        bool ok = true;
        for (int i = 0; i < n->nregions && ok; i++)
            ok = legalise_block(r, f, n->regions[i]);
        if (n->op == IR_topk)
            ok = topk(r, &b, n);
        else if (n->op == IR_random_uniform || n->op == IR_random_normal)
            ok = random_numbers(&b, n);
        else if (ir_op_info(n->op)->kind == IR_K_ATTENTION)
            ok = legalise_attention(r, &b, n);
        else if (n->op == IR_state_write)
            ok = fill_state(&b, n);
        else if (n->op == IR_lib)
            resize(r, &b, n);
        else if (pass_opts(r)->level > 0 && n->op == IR_conv && picture(r, &b, n))
            continue;
        else if (narrow_groups(r, n))
            ok = widen_groups(&b, n, narrow_groups(r, n));
        else
            ok = winograd(r, &b, n);
        if (!ok)
            return false;
    }
    return true;
}

bool pass_legalise_run(struct pass_run *r)
{
    if (!legalise_symbols(pass_module(r)))
        return false;
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next) {
        fill_windows(pass_ctx(r), f->body);
        if (!legalise_mx(r, f, f->body) || !legalise_operands(r, f, f->body) || !legalise_block(r, f, f->body) ||
            !legalise_operands(r, f, f->body))
            return false; /* twice: before convolutions are chosen among, and after products have been spelled out */
    }
    return true;
}
