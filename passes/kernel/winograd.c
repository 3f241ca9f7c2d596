/* SPDX-License-Identifier: Apache-2.0 */
/*
 * winograd.c - a convolution by Winograd's algorithm (ir/winograd.h). By F(4x4, 3x3) a tile of 4 x 4 results takes 6 x
 * 6 elements of each input channel, transformed; 36 products with transformed weights, summed over the channels; and a
 * transform back. With tiles of 2 x 2 results these are 4 x 4 elements and 16 products. Along one axis, F(4, 5) are 8
 * elements and 8 products of 4 results.
 *
 *   outer n, t (of the image's tiles, row by row), ob, ol (channel ob * 16 + ol); inner ib, il (channel ib * 16 + il),
 *   z < 36; of a long filter besides f, its short ones, each of which reads the tile that lies f tiles further on:
 *   stages of (ib, il) are of (ib, il, f) then, and v is v[f, z, channel]
 *   stage () repeat (ib, il)   v[z, channel] = B' d B of the tile's 36 elements
 *   stage (ib, il) repeat (z)   sum of v u
 *   stage () repeat (z)        m[z] = sum
 *   stage ()                  y = A' m A; bias, epilogue and store of the 16 results
 */
#include "passes/lower_int.h"
#include "ir/winograd.h"

#include <string.h>

enum { BLOCK = IR_WINOGRAD_BLOCK, MOST = IR_WINOGRAD_MOST, POINTS = IR_WINOGRAD_POINTS };
enum { ELEMENTS = IR_WINOGRAD_ELEMENTS };

static int scalar(struct kb *k, int stage, enum ir_op op, int a, int b)
{
    int args[2] = {a, b};
    return kb_scalar(k, stage, op, TCC_F32, 2, args);
}

static int times(struct kb *k, int stage, double c, int a)
{
    return scalar(k, stage, IR_mul, a, kb_const(k, stage, TCC_F32, c, 0));
}

/* Does a point's negative one stand behind it? */
static bool paired(int point, int points)
{
    return point > 0 && point + 2 < points;
}

/* The polynomial that is 0 at the phase's points but infinity and those from `but` to below `end`: its degree; `c` has
 * its coefficients, the highest one is 1. */
static int vanishing(int points, int but, int end, double *c)
{
    int degree = 0;
    c[0] = 1;
    for (int i = 0; i < points - 1; i++) {
        if (i >= but && i < end)
            continue;
        c[degree + 1] = c[degree];
        for (int k = degree; k > 0; k--)
            c[k] = c[k - 1] - ir_winograd_at[i] * c[k];
        c[0] *= -ir_winograd_at[i];
        degree++;
    }
    return degree;
}

/* The sum of c[k] x[k], from the highest one down. */
static int combined(struct kb *k, int s, int degree, const double *c, const int *x)
{
    int sum = x[degree];
    for (int i = degree - 1; i >= 0; i--) {
        if (c[i] == 0)
            continue;
        int scaled = c[i] == 1 || c[i] == -1 ? x[i] : times(k, s, c[i] < 0 ? -c[i] : c[i], x[i]);
        sum = scalar(k, s, c[i] < 0 ? IR_sub : IR_add, sum, scaled);
    }
    return sum;
}

/* What a phase's elements x give at its points. Of a pair the even and the odd part are worked out once. */
static void at_points(struct kb *k, int s, int points, const int *x, int *out)
{
    double c[POINTS + 1];
    for (int i = 0; i < points - 1; i++) {
        bool two = paired(i, points);
        int degree = vanishing(points, i, i + 1 + two, c), even = two ? combined(k, s, degree, c, x + 1) : -1;
        out[i] = combined(k, s, degree, c, x);
        if (!two)
            continue;
        int odd = ir_winograd_at[i] == 1 ? out[i] : times(k, s, ir_winograd_at[i], out[i]);
        out[i] = scalar(k, s, IR_add, even, odd);
        out[++i] = scalar(k, s, IR_sub, even, odd);
    }
    out[points - 1] = combined(k, s, vanishing(points, 0, 0, c), c, x);
}

/* B' x: elements `step` apart become products' factors. */
static void transform_in(struct kb *k, int s, const struct ir_winograd *w, int *x, int step)
{
    int element[MOST], out[MOST];
    if (w->taps == 1)
        return;
    for (int phase = 0; phase < w->stride; phase++) {
        struct ir_winograd_phase p = ir_winograd_phase(w, phase);
        for (int i = 0; i < p.points; i++)
            element[i] = x[(i * w->stride + phase) * step];
        if (p.taps > 1)
            at_points(k, s, p.points, element, out + p.first);
        else
            memcpy(out + p.first, element, (size_t)p.points * sizeof *out);
    }
    for (int i = 0; i < w->points; i++)
        x[i * step] = out[i];
}

/* sum + scale * x; sum -1: none yet. */
static int added(struct kb *k, int s, int sum, double scale, int x)
{
    int scaled = scale == 1 ? x : times(k, s, scale, x);
    return sum < 0 ? scaled : scalar(k, s, IR_add, sum, scaled);
}

/* What a phase's products m give to result i; those of a pair are replaced by sum and difference before. */
static int add_points(struct kb *k, int s, const struct ir_winograd_phase *p, int results, int i, int sum, const int *m)
{
    if (p->taps == 1)
        return added(k, s, sum, 1, m[i]);
    for (int at = 0; at < p->points - 1; at++) {
        bool two = paired(at, p->points);
        double power = 1;
        for (int e = 0; e < i; e++)
            power *= ir_winograd_at[at];
        if (power != 0)
            sum = added(k, s, sum, power, m[at + (two && i % 2)]);
        at += two;
    }
    return i == results - 1 ? added(k, s, sum, 1, m[p->points - 1]) : sum;
}

/* A' m: products `step` apart become results. */
static void transform_out(struct kb *k, int s, const struct ir_winograd *w, int *m, int step)
{
    int product[MOST], out[MOST];
    if (w->taps == 1)
        return;
    for (int i = 0; i < w->points; i++)
        product[i] = m[i * step];
    for (int phase = 0; phase < w->stride; phase++) {
        struct ir_winograd_phase p = ir_winograd_phase(w, phase);
        for (int i = 1; p.taps > 1 && paired(i, p.points); i += 2) {
            int *pair = product + p.first + i, difference = scalar(k, s, IR_sub, pair[0], pair[1]);
            pair[0] = scalar(k, s, IR_add, pair[0], pair[1]);
            pair[1] = difference;
        }
    }
    for (int i = 0; i < w->results; i++) {
        out[i] = -1;
        for (int phase = 0; phase < w->stride; phase++) {
            struct ir_winograd_phase p = ir_winograd_phase(w, phase);
            out[i] = add_points(k, s, &p, w->results, i, out[i], product + p.first);
        }
    }
    for (int i = 0; i < w->results; i++)
        m[i * step] = out[i];
}

static int temp(struct kb *k, const char *name, int filters, int64_t n, ir_expr channels)
{
    struct kn_operand t = {.use = KN_LOCAL, .space = KN_SCRATCH, .dtype = TCC_F32, .name = name};
    if (filters > 1)
        t.dims[t.rank++] = ir_const(k->ctx, filters);
    t.dims[t.rank++] = ir_const(k->ctx, n);
    if (channels)
        t.dims[t.rank++] = channels;
    VEC_PUSH(k->ctx, k->operands, t);
    VEC_PUSH(k->ctx, k->values, NULL);
    return k->operands.n - 1;
}

/* Of v, with a filter (NULL: there is one) and a channel, or of m. */
static int temp_access(struct kb *k, int stage, int operand, ir_expr filter, ir_expr z, ir_expr channel, int stored)
{
    ir_expr *index = IR_NEWN(k->ctx, 3, ir_expr);
    int nindex = 0;
    if (filter)
        index[nindex++] = filter;
    index[nindex++] = z;
    if (channel)
        index[nindex++] = channel;
    return kb_insn(k, stage,
                   (struct kn_insn){.code = stored >= 0 ? KN_STORE : KN_LOAD,
                                    .dtype = TCC_F32,
                                    .nargs = stored >= 0,
                                    .arg = {stored, -1, -1},
                                    .operand = operand,
                                    .nindex = nindex,
                                    .index = index});
}

struct tile {
    const struct ir_node *n;
    struct ir_winograd w[2];
    int axes;                            /* of the image; w[2 - axes] on */
    ir_expr image, first[2], in, out, z; /* row and column of the tile's first result; channels; frequency */
    ir_expr filter;                      /* of a long one; NULL: there is one */
    uint32_t in_dims, z_dim;
};

/* Tiles along an axis. Of a dilation d, d tiles of neighbouring results lie among each other. */
static ir_expr tiles_along(struct ir_ctx *ctx, const struct ir_winograd *w, ir_expr results)
{
    ir_expr across = ir_const(ctx, (int64_t)w->results * w->dilation);
    return ir_mulc(ctx, ir_ceildiv(ctx, results, across), w->dilation);
}

static ir_expr first_result(struct ir_ctx *ctx, const struct ir_winograd *w, ir_expr tile)
{
    ir_expr among = ir_const(ctx, w->dilation);
    ir_expr first = ir_mulc(ctx, ir_floordiv(ctx, tile, among), (int64_t)w->results * w->dilation);
    return ir_add(ctx, first, ir_mod(ctx, tile, among));
}

/* Where an element lies, number i of the tile's, or a result: `idx` from 2 on, and that it is inside of dims. */
static void place(struct kb *k, const struct tile *t, bool result, int i, const ir_expr *dims, ir_expr *idx,
                  struct kn_guard *inside)
{
    const struct ir_attr *before = ir_attr(t->n, IR_ATTR_before);
    for (int axis = 0; axis < t->axes; axis++) {
        const struct ir_winograd *w = &t->w[2 - t->axes + axis];
        int across = result ? t->w[1].results : t->w[1].points, along = axis == t->axes - 1 ? i % across : i / across;
        ir_expr from = t->first[2 - t->axes + axis];
        if (!result && w->filters > 1)
            from = ir_add(k->ctx, from, ir_mulc(k->ctx, t->filter, w->taps));
        if (!result)
            from = ir_sub(k->ctx, ir_mulc(k->ctx, from, w->stride), before->exprs[axis]);
        idx[2 + axis] = ir_addc(k->ctx, from, (int64_t)along * w->dilation);
        inside[axis] = (struct kn_guard){idx[2 + axis], ir_const(k->ctx, 0), dims[2 + axis]};
    }
}

static void take_tile(struct kb *k, struct tile *t)
{
    struct ir_value *image = t->n->in[0].value;
    struct kn_winograd *w = &k->roles.winograd;
    int stage = w->take = kb_stage_new(k, 0), points = ir_winograd_points(t->w), across = t->w[1].points, d[ELEMENTS];
    k->stages.at[stage].repeat = t->in_dims;
    for (int i = 0; i < points; i++) {
        ir_expr at[4] = {t->image, t->in};
        struct kn_guard inside[2];
        place(k, t, false, i, image->type->dim, at, inside);
        int saved = kb_push_guards(k, t->axes, inside);
        d[i] = lw_operand(k, stage, image, at, TCC_F32);
        k->guards = saved;
    }
    for (int i = 0; i < across; i++)
        transform_in(k, stage, &t->w[0], d + i, across);
    for (int i = 0; i < points; i += across)
        transform_in(k, stage, &t->w[1], d + i, 1);
    for (int i = 0; i < points; i++)
        temp_access(k, stage, w->v, t->filter, ir_const(k->ctx, i), t->in, d[i]);
    kb_stage_end(k, stage);
}

static void multiply(struct kb *k, struct tile *t)
{
    struct kn_winograd *w = &k->roles.winograd;
    ir_expr channels = t->n->in[0].value->type->dim[1], at[3] = {t->z, t->in, t->out};
    if (t->filter)
        at[1] = ir_add(k->ctx, ir_mul(k->ctx, t->filter, channels), t->in);
    int stage = kb_stage_new(k, t->in_dims), args[2];
    k->stages.at[stage].repeat = t->z_dim;
    args[0] = temp_access(k, stage, w->v, t->filter, t->z, t->in, -1);
    args[1] = lw_operand(k, stage, t->n->in[1].value, at, TCC_F32);
    w->load_u = kb_load_of(k, args[1]);
    w->sum = lw_reduce(k, stage, KN_SUM, TCC_F32, kb_scalar(k, stage, IR_mul, TCC_F32, 2, args));
    kb_stage_end(k, stage);
    stage = kb_stage_new(k, 0);
    k->stages.at[stage].repeat = t->z_dim;
    temp_access(k, stage, w->m, NULL, t->z, NULL, w->sum);
    kb_stage_end(k, stage);
}

/* Result i of the tile: what follows the anchor, and the store, where it lies inside. */
static void give_result(struct kb *k, const struct lw_group *g, const struct tile *t, int stage, int i, int id)
{
    struct ir_value *v = g->anchor->out[0];
    ir_expr idx[4] = {t->image, t->out}, at[TCC_MAX_RANK];
    struct kn_guard inside[2];
    place(k, t, true, i, v->type->dim, idx, inside);
    if (g->anchor->nin > 2)
        id = scalar(k, stage, IR_add, id, kb_value(k, stage, g->anchor->in[2].value, &idx[1]));
    int saved = kb_push_guards(k, t->axes, inside);
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
    struct kn_winograd *w = &k->roles.winograd;
    int stage = w->give = kb_stage_new(k, 0), across = t->w[1].points, wide = t->w[1].results, m[ELEMENTS];
    for (int i = 0; i < ir_winograd_points(t->w); i++)
        m[i] = temp_access(k, stage, w->m, NULL, ir_const(k->ctx, i), NULL, -1);
    for (int i = 0; i < across; i++)
        transform_out(k, stage, &t->w[0], m + i, across);
    for (int i = 0; i < t->w[0].results; i++)
        transform_out(k, stage, &t->w[1], m + i * across, 1);
    for (int i = 0; i < ir_winograd_results(t->w); i++)
        give_result(k, g, t, stage, i, m[i / wide * across + i % wide]);
    kb_stage_end(k, stage);
}

bool lw_build_winograd(struct kb *k, struct lw_group *g)
{
    struct tile t = {.n = g->anchor, .axes = g->anchor->out[0]->type->rank - 2};
    ir_type x = t.n->in[0].value->type, u = t.n->in[1].value->type, y = t.n->out[0]->type;
    if (!ir_winograd_of(t.n, 0, t.w))
        return false; /* cannot be: its type was inferred */
    ir_expr block = ir_const(k->ctx, BLOCK), extents[4], var[4];
    ir_expr across = tiles_along(k->ctx, &t.w[1], y->dim[1 + t.axes]);
    extents[0] = y->dim[0];
    extents[1] = t.axes > 1 ? ir_mul(k->ctx, tiles_along(k->ctx, &t.w[0], y->dim[2]), across) : across;
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
    t.first[0] = first_result(k->ctx, &t.w[0], ir_floordiv(k->ctx, var[1], across));
    t.first[1] = first_result(k->ctx, &t.w[1], t.axes > 1 ? ir_mod(k->ctx, var[1], across) : var[1]);
    t.out = ir_add(k->ctx, ir_mulc(k->ctx, var[2], BLOCK), var[3]);
    w->in_block = k->dims.n;
    t.in = ir_mulc(k->ctx, lw_inner_dim(k, ir_floordiv(k->ctx, x->dim[1], block), &t.in_dims), BLOCK);
    w->in_lane = k->dims.n;
    t.in = ir_add(k->ctx, t.in, lw_inner_dim(k, block, &t.in_dims));
    w->frequency = k->dims.n;
    t.z = lw_inner_dim(k, u->dim[0], &t.z_dim);
    int filters = ir_winograd_filters(t.w);
    if (filters > 1) {
        w->filter = k->dims.n;
        t.filter = lw_inner_dim(k, ir_const(k->ctx, filters), &t.in_dims);
    }
    w->v = temp(k, "v", filters, ir_winograd_points(t.w), x->dim[1]);
    w->m = temp(k, "m", 1, ir_winograd_points(t.w), NULL);
    take_tile(k, &t);
    multiply(k, &t);
    finish(k, g, &t);
    return !k->failed;
}
