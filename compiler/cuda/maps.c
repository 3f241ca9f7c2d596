/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maps.c - which factors of a product are matrices that tensor copies can bring (struct tcc_pmap): elements of one or two bytes, no guards, and an index in which the
 * side's dims count as one, the terms' dims as one, one of the two without gaps. Dim 0 of the map is that one, dim 1 the other, behind them stand the batch's
 * dims that the factor has. A convolution's windows overlap: its terms are not one dim, and it has no map.
 */
#include "compiler/cuda/contract_int.h"

/* All dims of a set as one, where the offset of point (.., i, j) is that of the set's point number: *stride elements from one to the next. What else the
 * offset has stays in *offset. */
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

static int argument(const struct kn_kernel *k, int operand)
{
    int n = 0;
    for (int i = 0; i < operand; i++)
        n += k->operands[i].use != KN_LOCAL;
    return n;
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

/* A stride of so many elements, in bytes; NULL: a copy cannot take it. One that is not known is looked at when the map is made. */
static ir_expr stride_bytes(struct ir_ctx *ctx, ir_expr elements, int each)
{
    ir_expr bytes = ir_mulc(ctx, elements, each);
    int64_t n;
    return ir_is_const(bytes, &n) && (n <= 0 || n % 16) ? NULL : bytes;
}

bool ct_map_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct ct_shape *s, int which, int size,
               struct ct_map *m)
{
    const struct kn_contraction *c = &k->contraction;
    const struct kn_insn *load = &k->insns[s->load[which]], *value = &k->insns[s->value[which]];
    const struct kn_operand *o = &k->operands[load->operand];
    ir_expr offset = em_flat_offset(ctx, o, load->index), side, terms, n, nk;
    bool plain = value == load || (value->op == IR_cast && value->arg[0] == s->load[which]);
    *m = (struct ct_map){.map = {.arg = argument(k, load->operand), .type = s->type[which]}};
    if (!plain || s->bytes > 2 || s->whole || (int)s->type[which] != load->dtype || load->nguards ||
        o->dtype != s->type[which] || !collapse(ctx, k, which ? c->n : c->m, &offset, &side, &n) ||
        !collapse(ctx, k, c->k, &offset, &terms, &nk))
        return false;
    ir_expr fast = s->along_k[which] ? terms : side,
            slow = stride_bytes(ctx, s->along_k[which] ? side : terms, s->bytes);
    int row = CT_ROW / s->bytes;
    if (!ir_is_value(fast, 1) || !slow || (s->bytes == 1 && !s->along_k[which])) /* wgmma transposes no bytes */
        return false;
    add_dim(m, s->along_k[which] ? nk : n, ir_const(ctx, s->bytes), row, -1);
    add_dim(m, s->along_k[which] ? n : nk, slow, s->along_k[which] ? size : row, -1);
    for (int d = 0; d < k->ndims; d++) {
        ir_expr step;
        if (!(c->batch >> d & 1))
            continue;
        if (!ir_linear_in(ctx, offset, k->dims[d].var, &step, &offset))
            return false;
        if (ir_is_value(step, 0) || ir_is_value(k->dims[d].extent, 1))
            continue;
        ir_expr bytes = stride_bytes(ctx, step, s->bytes);
        if (!bytes || !add_dim(m, k->dims[d].extent, bytes, 1, d))
            return false;
    }
    for (int i = 0; i < m->map.rank; i++)
        if (uses_dims(k, m->map.dims[i]) || uses_dims(k, m->map.strides[i]))
            return false;
    m->map.first = ir_mulc(ctx, offset, s->bytes);
    return !uses_dims(k, offset) && ir_const_or(m->map.first, 0) % 16 == 0;
}

bool cuda_may_map(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s)
{
    struct ct_shape shape;
    struct ct_map m;
    return ct_shape_by(ctx, k, s, &shape) && ct_map_of(ctx, k, &shape, 0, CT_ROW, &m) &&
           ct_map_of(ctx, k, &shape, 1, CT_ROW, &m);
}

void cuda_launch_maps(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s,
                      struct image_launch *l)
{
    struct ct_shape shape;
    if (!cuda_has_maps(s))
        return;
    ct_shape_by(ctx, k, s, &shape);
    for (int i = 0; i < 2; i++) { /* rows first */
        struct ct_map m;
        ct_map_of(ctx, k, &shape, i ^ shape.swap, i ? s->bn : s->bm, &m);
        l->maps[l->nmaps++] = m.map;
    }
}
