/* SPDX-License-Identifier: Apache-2.0 */
/*
 * part.c - values that several nodes read, one of them a concat, are computed where the concat wants them: their buffer
 * is a part of its buffer, and nothing is copied. So a block of layers each of which reads all results before it (which
 * level 1 writes as concats of concats) lives in one buffer that grows. Other values that only the concat reads are
 * stored there by its own kernels (group.c).
 */
#include "passes/lower_int.h"

/* Where the piece begins in the concat's buffer, in bytes, if it is one run of memory there; NULL: it is not. */
static ir_expr begin_of(struct lw *lw, const struct ir_node *n, int piece)
{
    struct ir_ctx *ctx = lw->ctx;
    ir_type t = n->out[0]->type, of = n->in[piece].value->type;
    kn_layout l = lw->layout[n->out[0]->id];
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0), p = 0, naxes;
    ir_expr dims[TCC_MAX_RANK], offset = lw_piece_position(lw, n, piece);
    int64_t start, extent, bytes, div = 1;
    if (!ir_is_const(offset, &start))
        return NULL;
    naxes = kn_physical_dims(ctx, t, l, dims);
    for (; p < naxes && (l ? l->at[p].axis : p) != axis; p++)
        if (!ir_is_value(dims[p], 1))
            return NULL;
    if (l)
        div = l->at[p].div;
    if (div > 1 && (start % div || !ir_is_const(of->dim[axis], &extent) || extent % div))
        return NULL;
    offset = ir_const(ctx, start / div * tcc_dtype_bytes(t->dtype));
    for (p++; p < naxes; p++)
        offset = ir_mul(ctx, offset, dims[p]);
    /* Kernels take the first element of a buffer to be aligned. */
    return ir_is_const(offset, &bytes) && bytes % 64 == 0 ? offset : NULL;
}

/* Does the value live in memory that the plan gives it, of a size that the inputs decide? */
static bool placeable(const struct lw *lw, const struct ir_value *v)
{
    int b = lw->buffer[v->id];
    return b < 0 ? lw_type_bound(lw, v->type) && lw_level(lw, ir_num_elements(lw->ctx, v->type)) == 0
                 : lw->buffers.at[lw_storage(lw, b)].space == TCC_SPACE_ARENA;
}

/* A product or convolution, and elementwise nodes behind it: all of these share one kernel when it needn't know where
 * in a concat it stores. */
static bool behind_anchor(const struct ir_node *n)
{
    for (int i = 0; n && i < 16 && ir_op_info(n->op)->kind == IR_K_MAP; i++)
        n = n->in[0].value->def;
    return n && (ir_op_info(n->op)->kind == IR_K_WINDOW || ir_op_info(n->op)->kind == IR_K_CONTRACT);
}

static struct ir_node *find_concat(struct lw *lw, const struct ir_value *v, int *piece)
{
    const struct ir_node *def = v->def;
    if (!lw->fuse || !def || !lw_is_kernel_node(def) || lw_is_view(def) ||
        (ir_has_one_use(v) && def->op != IR_concat && !behind_anchor(def)) || !placeable(lw, v))
        return NULL;
    for (struct ir_use *u = v->uses; u; u = u->next) /* what is under way keeps its whole buffer to itself */
        if (ir_op_info(u->user->op)->kind == IR_K_COLLECTIVE)
            return NULL;
    for (struct ir_use *u = v->uses; u; u = u->next) {
        struct ir_node *n = u->user;
        if (n->op != IR_concat || n->block != def->block || !lw_is_kernel_node(n) || lw_is_view(n) ||
            lw->layout[n->out[0]->id] != lw->layout[v->id] || !placeable(lw, n->out[0]) || !begin_of(lw, n, u->index))
            continue;
        *piece = u->index;
        return n;
    }
    return NULL;
}

void lw_place_parts(struct lw *lw, struct ir_block *block)
{
    IR_EACH_NODE(n, block)
        for (int i = 0; i < n->nout; i++) {
            struct lw_part *p = &lw->part[n->out[i]->id];
            p->concat = find_concat(lw, n->out[i], &p->piece);
        }
}

struct ir_node *lw_part_of(const struct lw *lw, const struct ir_value *v, int *piece)
{
    *piece = lw->part[v->id].piece;
    return lw->part[v->id].concat;
}

bool lw_is_part(const struct lw *lw, const struct ir_node *n, int piece)
{
    int i;
    return n->op == IR_concat && lw_part_of(lw, n->in[piece].value, &i) == n && i == piece;
}

int lw_part_buffer(struct lw *lw, struct ir_value *v, struct kn_buffer b)
{
    int piece;
    struct ir_node *n = lw_part_of(lw, v, &piece);
    if (!n)
        return -1;
    b.space = TCC_SPACE_ALIAS;
    b.index = lw_buffer(lw, n->out[0]);
    b.offset = begin_of(lw, n, piece);
    return lw_buffer_new(lw, b);
}
