/* SPDX-License-Identifier: Apache-2.0 */
/*
 * winograd.c - a 3x3 convolution of stride 1 by Winograd's F(4x4, 3x3) or F(2x2, 3x3) (Lavin and Gray, 2016): a tile of
 * 4 x 4 results takes 6 x 6 elements of each input channel, transformed; 36 products with transformed weights, summed
 * over the channels; and a transform back. With tiles of 2 x 2 results these are 4 x 4 elements and 16 products.
 *
 *   outer n, t (of the image's tiles, row by row), ob, ol (channel ob * 16 + ol); inner ib, il (channel ib * 16 + il),
 *   z < 36
 *   stage () repeat (ib, il)   v[z, channel] = B' d B of the tile's 36 elements
 *   stage (ib, il) repeat (z)   sum of v u
 *   stage () repeat (z)        m[z] = sum
 *   stage ()                  y = A' m A; bias, epilogue and store of the 16 results
 */
#include "passes/lower_int.h"

enum { BLOCK = 16, MOST = 6 };

static int scalar(struct kb *k, int stage, enum ir_op op, int a, int b)
{
    int args[2] = {a, b};
    return kb_scalar(k, stage, op, TCC_F32, 2, args);
}

static int times(struct kb *k, int stage, double c, int a)
{
    return scalar(k, stage, IR_mul, a, kb_const(k, stage, TCC_F32, c, 0));
}

/* B' x, for points 0, 1, -1, infinity. The four lie `step` apart. */
static void transform_in_4(struct kb *k, int s, int *x, int step)
{
    int x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
    x[0] = scalar(k, s, IR_sub, x0, x2);
    x[step] = scalar(k, s, IR_add, x1, x2);
    x[2 * step] = scalar(k, s, IR_sub, x2, x1);
    x[3 * step] = scalar(k, s, IR_sub, x1, x3);
}

/* A' m: four become two. */
static void transform_out_4(struct kb *k, int s, int *m, int step)
{
    int even = scalar(k, s, IR_add, m[step], m[2 * step]), odd = scalar(k, s, IR_sub, m[step], m[2 * step]);
    m[0] = scalar(k, s, IR_add, m[0], even);
    m[step] = scalar(k, s, IR_sub, odd, m[3 * step]);
}

/* B' x, for points 0, 1, -1, 2, -2, infinity. */
static void transform_in_6(struct kb *k, int s, int *x, int step)
{
    int x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step], x5 = x[5 * step];
    int a = scalar(k, s, IR_sub, x4, times(k, s, 4, x2)), b = scalar(k, s, IR_sub, x3, times(k, s, 4, x1));
    int c = scalar(k, s, IR_sub, x4, x2), d = times(k, s, 2, scalar(k, s, IR_sub, x3, x1));
    int right = times(k, s, 4, x0);
    x[0] = scalar(k, s, IR_add, scalar(k, s, IR_sub, x4, times(k, s, 5, x2)), right);
    x[step] = scalar(k, s, IR_add, a, b);
    x[2 * step] = scalar(k, s, IR_sub, a, b);
    x[3 * step] = scalar(k, s, IR_add, c, d);
    x[4 * step] = scalar(k, s, IR_sub, c, d);
    int second = times(k, s, 4, x1);
    x[5 * step] = scalar(k, s, IR_add, scalar(k, s, IR_sub, x5, times(k, s, 5, x3)), second);
}

/* A' m: six become four. */
static void transform_out_6(struct kb *k, int s, int *m, int step)
{
    int m0 = m[0], m1 = m[step], m2 = m[2 * step], m3 = m[3 * step], m4 = m[4 * step], m5 = m[5 * step];
    int even = scalar(k, s, IR_add, m1, m2), odd = scalar(k, s, IR_sub, m1, m2);
    int even2 = scalar(k, s, IR_add, m3, m4), odd2 = scalar(k, s, IR_sub, m3, m4);
    m[0] = scalar(k, s, IR_add, scalar(k, s, IR_add, m0, even), even2);
    m[step] = scalar(k, s, IR_add, odd, times(k, s, 2, odd2));
    m[2 * step] = scalar(k, s, IR_add, even, times(k, s, 4, even2));
    m[3 * step] = scalar(k, s, IR_add, scalar(k, s, IR_add, odd, times(k, s, 8, odd2)), m5);
}

static int temp(struct kb *k, const char *name, int64_t n, ir_expr channels)
{
    struct kn_operand t = {
        .use = KN_LOCAL, .space = KN_SCRATCH, .dtype = TCC_F32, .name = name, .rank = channels ? 2 : 1};
    t.dims[0] = ir_const(k->ctx, n);
    t.dims[1] = channels;
    VEC_PUSH(k->ctx, k->operands, t);
    VEC_PUSH(k->ctx, k->values, NULL);
    return k->operands.n - 1;
}

static int temp_access(struct kb *k, int stage, int operand, ir_expr z, ir_expr channel, int stored)
{
    ir_expr *index = IR_NEWN(k->ctx, 2, ir_expr);
    index[0] = z;
    index[1] = channel;
    return kb_insn(k, stage,
                   (struct kn_insn){.code = stored >= 0 ? KN_STORE : KN_LOAD,
                                    .dtype = TCC_F32,
                                    .nargs = stored >= 0,
                                    .arg = {stored, -1, -1},
                                    .operand = operand,
                                    .nindex = channel ? 2 : 1,
                                    .index = index});
}

struct tile {
    const struct ir_node *n;
    int side, results;               /* elements and results along an axis */
    ir_expr image, y, x, in, out, z; /* first row and column of the tile's results; channels; frequency */
    uint32_t in_dims, z_dim;
};

static void take_tile(struct kb *k, struct tile *t)
{
    const struct ir_attr *before = ir_attr(t->n, IR_ATTR_before);
    struct ir_value *x = t->n->in[0].value;
    void (*transform)(struct kb *, int, int *, int) = t->side == 6 ? transform_in_6 : transform_in_4;
    struct kn_winograd *w = &k->roles.winograd;
    int stage = w->take = kb_stage_new(k, 0), side = t->side, d[MOST * MOST];
    k->stages.at[stage].repeat = t->in_dims;
    for (int i = 0; i < side * side; i++) {
        ir_expr at[4] = {t->image, t->in, ir_addc(k->ctx, ir_sub(k->ctx, t->y, before->exprs[0]), i / side),
                         ir_addc(k->ctx, ir_sub(k->ctx, t->x, before->exprs[1]), i % side)};
        struct kn_guard inside[2];
        for (int j = 0; j < 2; j++)
            inside[j] = (struct kn_guard){at[2 + j], ir_const(k->ctx, 0), x->type->dim[2 + j]};
        int saved = kb_push_guards(k, 2, inside);
        d[i] = lw_operand(k, stage, x, at, TCC_F32);
        k->guards = saved;
    }
    for (int i = 0; i < side; i++)
        transform(k, stage, d + i, side);
    for (int i = 0; i < side; i++)
        transform(k, stage, d + i * side, 1);
    for (int i = 0; i < side * side; i++)
        temp_access(k, stage, w->v, ir_const(k->ctx, i), t->in, d[i]);
    kb_stage_end(k, stage);
}

static void multiply(struct kb *k, struct tile *t)
{
    struct kn_winograd *w = &k->roles.winograd;
    ir_expr at[3] = {t->z, t->in, t->out};
    int stage = kb_stage_new(k, t->in_dims), args[2];
    k->stages.at[stage].repeat = t->z_dim;
    args[0] = temp_access(k, stage, w->v, t->z, t->in, -1);
    args[1] = lw_operand(k, stage, t->n->in[1].value, at, TCC_F32);
    w->load_u = kb_load_of(k, args[1]);
    w->sum = lw_reduce(k, stage, KN_SUM, TCC_F32, kb_scalar(k, stage, IR_mul, TCC_F32, 2, args));
    kb_stage_end(k, stage);
    stage = kb_stage_new(k, 0);
    k->stages.at[stage].repeat = t->z_dim;
    temp_access(k, stage, w->m, t->z, NULL, w->sum);
    kb_stage_end(k, stage);
}

/* Result i of the tile: what follows the anchor, and the store, where it lies inside. */
static void give_result(struct kb *k, const struct lw_group *g, const struct tile *t, int stage, int i, int id)
{
    struct ir_value *v = g->anchor->out[0];
    ir_expr idx[4] = {t->image, t->out, ir_addc(k->ctx, t->y, i / t->results), ir_addc(k->ctx, t->x, i % t->results)},
            at[TCC_MAX_RANK];
    struct kn_guard inside[2];
    for (int j = 0; j < 2; j++)
        inside[j] = (struct kn_guard){idx[2 + j], ir_const(k->ctx, 0), v->type->dim[2 + j]};
    if (g->anchor->nin > 2)
        id = scalar(k, stage, IR_add, id, kb_value(k, stage, g->anchor->in[2].value, &idx[1]));
    int saved = kb_push_guards(k, 2, inside);
    kb_remember(k, stage, v, idx, id);
    if (!lw_push_to_root(k, g, idx, at))
        k->failed = "an epilogue that does not follow the anchor's index";
    else
        kb_store_root(k, stage, g, at);
    struct kn_insn *store = k->insns.n ? &k->insns.at[k->insns.n - 1].insn : NULL;
    if (!k->failed && store->code == KN_STORE) {
        store->guards = k->guard_sets.at[k->guards].at;
        store->nguards = (uint8_t)k->guard_sets.at[k->guards].n;
    }
    k->guards = saved;
}

/* Transforms the sums back and gives the results. */
static void finish(struct kb *k, const struct lw_group *g, const struct tile *t)
{
    void (*transform)(struct kb *, int, int *, int) = t->side == 6 ? transform_out_6 : transform_out_4;
    struct kn_winograd *w = &k->roles.winograd;
    int stage = w->give = kb_stage_new(k, 0), side = t->side, m[MOST * MOST];
    for (int i = 0; i < side * side; i++)
        m[i] = temp_access(k, stage, w->m, ir_const(k->ctx, i), NULL, -1);
    for (int i = 0; i < side; i++)
        transform(k, stage, m + i, side);
    for (int i = 0; i < t->results; i++)
        transform(k, stage, m + i * side, 1);
    for (int i = 0; i < t->results * t->results; i++)
        give_result(k, g, t, stage, i, m[i / t->results * side + i % t->results]);
    kb_stage_end(k, stage);
}

bool lw_build_winograd(struct kb *k, struct lw_group *g)
{
    struct tile t = {.n = g->anchor};
    ir_type x = t.n->in[0].value->type, u = t.n->in[1].value->type, y = t.n->out[0]->type;
    t.side = ir_is_value(u->dim[0], 36) ? 6 : 4;
    t.results = t.side - 2;
    ir_expr block = ir_const(k->ctx, BLOCK), results = ir_const(k->ctx, t.results), extents[4], var[4];
    ir_expr across = ir_ceildiv(k->ctx, y->dim[3], results);
    extents[0] = y->dim[0];
    extents[1] = ir_mul(k->ctx, ir_ceildiv(k->ctx, y->dim[2], results), across);
    extents[2] = ir_floordiv(k->ctx, y->dim[1], block);
    extents[3] = block;
    k->roles = kn_roles_of(KN_WINOGRAD);
    struct kn_winograd *w = &k->roles.winograd;
    int *const outer[] = {&w->image, &w->tile, &w->out_block, &w->out_lane};
    for (int i = 0; i < 4; i++) {
        *outer[i] = kb_dim(k, extents[i], KN_OUTER);
        var[i] = k->dims.at[*outer[i]].var;
    }
    t.image = ir_is_value(extents[0], 1) ? ir_const(k->ctx, 0) : var[0];
    t.y = ir_mulc(k->ctx, ir_floordiv(k->ctx, var[1], across), t.results);
    t.x = ir_mulc(k->ctx, ir_mod(k->ctx, var[1], across), t.results);
    t.out = ir_add(k->ctx, ir_mulc(k->ctx, var[2], BLOCK), var[3]);
    w->in_block = k->dims.n;
    t.in = ir_mulc(k->ctx, lw_inner_dim(k, ir_floordiv(k->ctx, x->dim[1], block), &t.in_dims), BLOCK);
    w->in_lane = k->dims.n;
    t.in = ir_add(k->ctx, t.in, lw_inner_dim(k, block, &t.in_dims));
    w->frequency = k->dims.n;
    t.z = lw_inner_dim(k, u->dim[0], &t.z_dim);
    w->v = temp(k, "v", t.side * t.side, x->dim[1]);
    w->m = temp(k, "m", t.side * t.side, NULL);
    take_tile(k, &t);
    multiply(k, &t);
    finish(k, g, &t);
    return !k->failed;
}
