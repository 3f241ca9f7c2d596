/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maps.c - which factors of a product are matrices that tensor copies can bring (struct tcc_pmap): elements of one or
 * two bytes, no guards, and an index in which the side's dims count as one, the terms' dims as one, one of the two
 * without gaps. Dim 0 of the map is that one, dim 1 the other, behind them stand the batch's dims that the factor has.
 *
 * A convolution's windows overlap: their terms are not one dim. Of images with channels last there are maps for windows
 * (tcc_pmap.windows): a copy brings 64 channels of one tap for as many positions as the tile has, in the order of rows,
 * and what the guards leave out is what lies outside the map. A step of 64 terms is of one tap then, so channels are a
 * multiple of 64.
 */
#include "compiler/cuda/attention_int.h"
#include "compiler/cuda/contract_int.h"

/* All dims of a set as one, where the offset of point (.., i, j) is that of the set's point number: *stride elements
 * from one to the next. What else the offset has stays in *offset. */
static bool collapse(struct ir_ctx *ctx, const struct kn_kernel *k, uint32_t set, ir_expr *offset, ir_expr *stride,
                     ir_expr *count)
{
    ir_expr next = NULL, one = ir_const(ctx, 1);
    *stride = *count = one;
    for (int d = k->ndims - 1; d >= 0; d--) {
        ir_expr step;
        if (!(set >> d & 1))
            continue;
        if (!ir_linear_in(ctx, *offset, k->dims[d].var, &step, offset))
            return false;
        if (ir_is_value(k->dims[d].extent, 1))
            continue;
        if (!next)
            *stride = next = step;
        else if (step != next)
            return false;
        next = ir_mul(ctx, next, k->dims[d].extent);
        *count = ir_mul(ctx, *count, k->dims[d].extent);
    }
    return next != NULL;
}

static bool uses_dims(const struct kn_kernel *k, ir_expr e)
{
    for (int d = 0; d < k->ndims; d++)
        if (ir_uses_sym(e, k->dims[d].var))
            return true;
    return false;
}

static bool add_dim(struct ct_map *m, ir_expr count, ir_expr stride, int box, int batch)
{
    if (m->map.rank == TCC_MAP_RANK)
        return false;
    m->map.dims[m->map.rank] = count;
    m->map.strides[m->map.rank] = stride;
    m->map.box[m->map.rank] = box;
    m->map.step[m->map.rank] = 1;
    m->batch[m->map.rank++] = batch;
    return true;
}

/* A stride of so many elements, in bytes; NULL: a copy cannot take it. One that is not known is looked at when the map
 * is made. */
static ir_expr stride_bytes(struct ir_ctx *ctx, ir_expr elements, int each)
{
    ir_expr bytes = ir_mulc(ctx, elements, each);
    int64_t n;
    return ir_is_const(bytes, &n) && (n <= 0 || n % 16) ? NULL : bytes;
}

/* -- Windows ------------------------------------------------------------------------------------------------------- */

/* The one dim of the set, of more than a point, that *e follows, with a known step; what else *e has stays there. -1:
 * none. False: several, or another step. */
static bool one_dim(struct ir_ctx *ctx, const struct kn_kernel *k, uint32_t set, ir_expr *e, int *dim, int64_t *step)
{
    *dim = -1;
    *step = 1;
    for (int d = 0; d < k->ndims; d++) {
        ir_expr each;
        if (!(set >> d & 1) || !ir_uses_sym(*e, k->dims[d].var))
            continue;
        if (*dim >= 0 || !ir_linear_in(ctx, *e, k->dims[d].var, &each, e) || !ir_is_const(each, step))
            return false;
        *dim = d;
    }
    return true;
}

/* Are those all dims of the set with more than a point, each behind the one before? */
static bool in_order(const struct kn_kernel *k, uint32_t set, const int *dims, int n)
{
    int before = -1;
    for (int i = 0; i < n; i++) {
        if (dims[i] < 0)
            continue;
        if (dims[i] <= before)
            return false;
        before = dims[i];
        set &= ~(1u << dims[i]);
    }
    for (int d = 0; d < k->ndims; d++)
        if (set >> d & 1 && !ir_is_value(k->dims[d].extent, 1))
            return false;
    return true;
}

/* Do its guards say what the map's own bounds do? */
static bool guards_are_bounds(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *load)
{
    const struct kn_operand *o = &k->operands[load->operand];
    for (int g = 0; g < load->nguards; g++) {
        int i = 0;
        while (i < o->rank && (load->index[i] != load->guards[g].e || load->guards[g].hi != o->dims[i]))
            i++;
        if (i == o->rank || load->guards[g].lo != ir_const(ctx, 0))
            return false;
    }
    return ct_zero_outside(k, load);
}

/* Dim number d of the map, of space: index e. limit: of corners, by the number of such dims; least and most bounds of
 * PTX ISA, "Im2col mode". */
static bool space_dim(struct ir_ctx *ctx, const struct kn_kernel *k, uint32_t side, const struct kn_operand *o,
                      ir_expr e, int at, struct ct_map *m, int d)
{
    static const int64_t corners[] = {32768, 128, 16}, offsets[] = {65535, 255, 31};
    int64_t stride, dilation, first, size, positions = 1, taps = 1;
    int spaces = o->rank - 2;
    if (!one_dim(ctx, k, side, &e, &m->batch[d], &stride) ||
        !one_dim(ctx, k, k->roles.contraction.k, &e, &m->tap[d], &dilation) || !ir_is_const(e, &first) ||
        !ir_is_const(o->dims[at], &size) || stride < 1 || stride > 8 || dilation < 1)
        return false;
    if ((m->batch[d] >= 0 && !ir_is_const(k->dims[m->batch[d]].extent, &positions)) ||
        (m->tap[d] >= 0 && !ir_is_const(k->dims[m->tap[d]].extent, &taps)))
        return false;
    int64_t upper = first + (positions - 1) * stride - (size - 1), limit = corners[spaces - 1];
    if (first < -limit || first >= limit || upper < -limit || upper >= limit ||
        (taps - 1) * dilation > offsets[spaces - 1])
        return false;
    m->map.lower[d - 1] = (int)first;
    m->map.upper[d - 1] = (int)upper;
    m->map.step[d] = (int)stride;
    m->dilation[d] = (int)dilation;
    return true;
}

/* The map of a factor that is read by windows, `size` positions at a time. */
static bool windows_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct ct_shape *s, int which, int size,
                       struct ct_map *m)
{
    const struct kn_insn *load = &k->insns[s->load[which]];
    const struct kn_operand *o = &k->operands[load->operand];
    uint32_t side = which ? k->roles.contraction.n : k->roles.contraction.m;
    int row = CT_ROW / s->bytes, r = o->rank, dims[TCC_MAP_RANK], taps[TCC_MAP_RANK];
    int64_t channels, step;
    if (r < 3 || r > TCC_MAP_RANK || load->nindex != r || !s->along_k[which] ||
        !in_order(k, k->roles.contraction.batch, NULL, 0) || !ir_is_const(o->dims[r - 1], &channels) ||
        channels % row || !guards_are_bounds(ctx, k, load))
        return false;
    m->map.windows = true;
    ir_expr bytes = ir_const(ctx, s->bytes);
    for (int d = 0; d < r; d++) {
        int at = d == 0       ? r - 1
                 : d == r - 1 ? 0
                              : r - 1 - d; /* map dims come innermost first, and so do the operand's from behind */
        ir_expr e = load->index[at];
        add_dim(m, o->dims[at], bytes, d == 0 ? row : d == 1 ? size : 0, -1);
        m->tap[d] = -1;
        bytes = ir_mul(ctx, bytes, o->dims[at]);
        bool ok = d == 0 ? one_dim(ctx, k, k->roles.contraction.k, &e, &m->tap[d], &step) && m->tap[d] >= 0 &&
                               step == 1 && k->dims[m->tap[d]].extent == o->dims[at] && ir_is_value(e, 0)
                  : d == r - 1 ? one_dim(ctx, k, side, &e, &m->batch[d], &step) && step == 1 && ir_is_value(e, 0)
                               : space_dim(ctx, k, side, o, e, at, m, d);
        if (!ok)
            return false;
        dims[r - 1 - d] = m->batch[d];
        taps[r - 1 - d] = m->tap[d];
    }
    m->map.first = ir_const(ctx, 0);
    return in_order(k, side, dims, r) && in_order(k, k->roles.contraction.k, taps, r);
}

/* -- Maps ---------------------------------------------------------------------------------------------------------- */

/* The dims of the set that the factor has, of elements of so many bytes; what is left of the offset is where the map
 * begins. */
static bool add_batch(struct ir_ctx *ctx, const struct kn_kernel *k, uint32_t set, int each, ir_expr *offset,
                      struct ct_map *m)
{
    for (int d = 0; d < k->ndims; d++) {
        ir_expr step;
        if (!(set >> d & 1))
            continue;
        if (!ir_linear_in(ctx, *offset, k->dims[d].var, &step, offset))
            return false;
        if (ir_is_value(step, 0) || ir_is_value(k->dims[d].extent, 1))
            continue;
        ir_expr bytes = stride_bytes(ctx, step, each);
        if (!bytes || !add_dim(m, k->dims[d].extent, bytes, 1, d))
            return false;
    }
    for (int i = 0; i < m->map.rank; i++)
        if (uses_dims(k, m->map.dims[i]) || uses_dims(k, m->map.strides[i]))
            return false;
    m->map.first = ir_mulc(ctx, *offset, each);
    return !uses_dims(k, *offset) && ir_const_or(m->map.first, 0) % 16 == 0;
}

static bool matrix_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct ct_shape *s, int which, int size,
                      struct ct_map *m)
{
    const struct kn_contraction *c = &k->roles.contraction;
    const struct kn_insn *load = &k->insns[s->load[which]];
    ir_expr offset = kn_flat_offset(ctx, &k->operands[load->operand], load->index), side, terms, n, nk;
    if (load->nguards || !collapse(ctx, k, which ? c->n : c->m, &offset, &side, &n) ||
        !collapse(ctx, k, c->k, &offset, &terms, &nk))
        return false;
    ir_expr fast = s->along_k[which] ? terms : side,
            slow = stride_bytes(ctx, s->along_k[which] ? side : terms, s->bytes);
    int row = CT_ROW / s->bytes;
    if (!ir_is_value(fast, 1) || !slow || (s->bytes == 1 && !s->along_k[which])) /* wgmma transposes no bytes */
        return false;
    add_dim(m, s->along_k[which] ? nk : n, ir_const(ctx, s->bytes), row, -1);
    add_dim(m, s->along_k[which] ? n : nk, slow, s->along_k[which] ? size : row, -1);
    return add_batch(ctx, k, c->batch, s->bytes, &offset, m);
}

bool ct_map_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct ct_shape *s, int which, int size,
               struct ct_map *m)
{
    const struct kn_insn *load = &k->insns[s->load[which]];
    const struct kn_operand *o = &k->operands[load->operand];
    bool plain = kn_is_cast_of(k, s->value[which], s->load[which]);
    const struct ct_map none = {.map = {.arg = kn_argument_of(k, load->operand), .type = s->type[which]}};
    if (!plain || s->bytes > 2 || s->whole || (int)s->type[which] != load->dtype || o->dtype != s->type[which])
        return false;
    *m = none;
    if (matrix_of(ctx, k, s, which, size, m))
        return true;
    *m = none;
    return windows_of(ctx, k, s, which, size, m);
}

/* Of a side of attention, whose columns come in parts as wide as the swizzle. */
static bool side_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct fa_shape *s, const struct fa_side *side,
                    struct ct_map *m)
{
    const struct kn_insn *load = &k->insns[side->load];
    const struct kn_operand *o = &k->operands[load->operand];
    ir_expr offset = kn_flat_offset(ctx, o, load->index), step, slow;
    int bytes = tcc_dtype_bytes(s->dtype);
    *m = (struct ct_map){.map = {.arg = kn_argument_of(k, load->operand), .type = s->dtype}};
    if (!kn_is_cast_of(k, side->value, side->load) || load->nguards || load->dtype != s->dtype ||
        o->dtype != s->dtype || !ir_linear_in(ctx, offset, k->dims[side->col].var, &step, &offset) ||
        !ir_is_value(step, 1) || !ir_linear_in(ctx, offset, k->dims[side->row].var, &step, &offset) ||
        !(slow = stride_bytes(ctx, step, bytes)))
        return false;
    add_dim(m, k->dims[side->col].extent, ir_const(ctx, bytes), CT_ROW / bytes, -1);
    add_dim(m, k->dims[side->row].extent, slow, s->bn, -1);
    return add_batch(ctx, k, (1u << em_nouter(k)) - 1, bytes, &offset, m);
}

bool fa_maps_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct fa_shape *s, struct ct_map *maps)
{
    return side_of(ctx, k, s, &s->k, &maps[0]) && side_of(ctx, k, s, &s->v, &maps[1]);
}

bool cuda_may_map(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s)
{
    struct fa_shape attention;
    struct ct_map maps[2];
    if (s->how == CUDA_ATTENTION)
        return cuda_attention_shape(ctx, k, &attention) && fa_maps_of(ctx, k, &attention, maps);
    struct ct_shape shape;
    struct ct_map m;
    return ct_shape_by(ctx, k, s, &shape) && ct_map_of(ctx, k, &shape, 0, CT_ROW, &m) &&
           ct_map_of(ctx, k, &shape, 1, CT_ROW, &m);
}

int ct_share(const struct cuda_schedule *s, bool rows)
{
    return rows ? s->bm / s->cluster : s->bn;
}

void cuda_launch_maps(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s,
                      struct image_launch *l)
{
    struct ct_shape shape;
    if (!cuda_has_maps(s))
        return;
    if (s->how == CUDA_ATTENTION) {
        struct fa_shape attention;
        struct ct_map maps[2];
        cuda_attention_shape(ctx, k, &attention);
        fa_maps_of(ctx, k, &attention, maps);
        for (int i = 0; i < 2; i++)
            l->maps[l->nmaps++] = maps[i].map;
        return;
    }
    ct_shape_by(ctx, k, s, &shape);
    for (int i = 0; i < 2; i++) { /* rows first */
        struct ct_map m;
        ct_map_of(ctx, k, &shape, i ^ shape.swap, ct_share(s, !i), &m);
        l->maps[l->nmaps++] = m.map;
    }
}
