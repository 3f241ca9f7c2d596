/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topk.c - topk as kernels that sort rows, where the machine has them: one that gives values and positions together.
 *
 * A long row of which little is wanted is cut in pieces, so that it fits in fast memory and keeps the machine busy: the first k of each piece, then the first k of
 * those, by as many rounds as it takes. Pieces stand in their order, and within a piece equals do, so that of equals the lower index still
 * comes first. A last piece that is not full ends in what sorts behind everything.
 */
#include "passes/legalise/legalise_int.h"

#include <math.h>

enum {
    MOST = 2048,       /* elements of a piece, */
    LEAST = MOST / 4,  /* at least, so that it need not be padded; */
    SHARE = 4,         /* of which a round keeps one in so many at most */
    WHOLE = 2 * MOST   /* a row of no more is sorted by one kernel */
};

struct sorted {
    struct ir_value *values, *positions; /* NULL: not wanted */
};

static struct ir_value *part(struct ir_builder *b, const struct ir_node *n, enum ir_op op, struct ir_value *x, int axis,
                             ir_expr k)
{
    return ir_build1(b, op, 1, &x,
                     IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_e(IR_ATTR_k, k),
                              ir_attr_i(IR_ATTR_largest, ir_get_i(n, IR_ATTR_largest, 1))));
}

/* Elements of a piece: the most that divide n, or as many as there may be. */
static int64_t piece_of(int64_t n)
{
    for (int64_t size = MOST; size >= LEAST; size--)
        if (n % size == 0)
            return size;
    return MOST;
}

/* What no element sorts behind. */
static struct ir_value *last(struct ir_builder *b, const struct ir_node *n, enum tcc_dtype d)
{
    bool largest = ir_get_i(n, IR_ATTR_largest, 1);
    int bits = 8 * tcc_dtype_bytes(d);
    if (tcc_is_float(d))
        return ir_constant_f(b, d, largest ? -INFINITY : NAN);
    if (!tcc_is_signed(d))
        return ir_constant_i(b, d, largest ? 0 : (int64_t)(~(uint64_t)0 >> (64 - bits)));
    int64_t lowest = (int64_t)(~(uint64_t)0 << (bits - 1));
    return ir_constant_i(b, d, largest ? lowest : ~lowest);
}

/* x with its axis as two, [pieces, size]. */
static struct ir_value *in_pieces(struct ir_builder *b, const struct ir_node *n, struct ir_value *x, int axis,
                                  int64_t pieces, int64_t size)
{
    int rank = x->type->rank;
    int64_t more = pieces * size - ir_const_or(x->type->dim[axis], 0);
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK], dims[TCC_MAX_RANK + 1];
    for (int i = 0; i < rank; i++) {
        before[i] = ir_const(b->ctx, 0);
        after[i] = ir_const(b->ctx, i == axis ? more : 0);
        dims[i < axis ? i : i + 1] = x->type->dim[i];
    }
    dims[axis] = ir_const(b->ctx, pieces);
    dims[axis + 1] = ir_const(b->ctx, size);
    if (more)
        x = ir_build1(b, IR_pad, 2, (struct ir_value *[]){x, last(b, n, (enum tcc_dtype)x->type->dtype)},
                      IR_ATTRS(ir_attr_exprs(IR_ATTR_before, rank, before), ir_attr_exprs(IR_ATTR_after, rank, after)));
    return x ? ir_reshape_to(b, x, rank + 1, dims) : NULL;
}

/* The two axes of x that pieces made as one again. */
static struct ir_value *joined(struct ir_builder *b, struct ir_value *x, int axis)
{
    ir_expr dims[TCC_MAX_RANK + 1];
    int rank = x ? x->type->rank - 1 : 0;
    for (int i = 0; i < rank; i++)
        dims[i] = x->type->dim[i < axis ? i : i + 1];
    if (x)
        dims[axis] = ir_mul(b->ctx, x->type->dim[axis], x->type->dim[axis + 1]);
    return x ? ir_reshape_to(b, x, rank, dims) : NULL;
}

/* Positions within pieces as positions within rows. */
static struct ir_value *from_pieces(struct ir_builder *b, struct ir_value *positions, int axis, int64_t size)
{
    if (!positions)
        return NULL;
    struct ir_value *piece =
        ir_build1(b, IR_iota, 0, NULL,
                  IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, positions->type->rank, positions->type->dim),
                           ir_attr_i(IR_ATTR_axis, axis), ir_attr_dtype(IR_ATTR_to, TCC_I64)));
    piece = ir_binary(b, IR_mul, piece, ir_constant_i(b, TCC_I64, size));
    return ir_binary(b, IR_add, positions, piece);
}

/* The first k along the axis. False after a diagnostic. */
static bool sort(struct ir_builder *b, const struct ir_node *n, struct ir_value *x, int axis, ir_expr k, bool positions,
                 struct sorted *s)
{
    int64_t length = ir_const_or(x->type->dim[axis], 0), kept = ir_const_or(k, MOST), size = piece_of(length);
    if (length <= WHOLE || kept > size / SHARE || x->type->rank == TCC_MAX_RANK) {
        s->values = part(b, n, IR_topk_values, x, axis, k);
        s->positions = positions ? part(b, n, IR_topk_positions, x, axis, k) : NULL;
        return s->values && (s->positions || !positions);
    }
    struct sorted first, then;
    x = in_pieces(b, n, x, axis, (length + size - 1) / size, size);
    if (!x || !sort(b, n, x, axis + 1, k, positions, &first))
        return false;
    struct ir_value *candidates = joined(b, first.values, axis);
    if (!candidates || !sort(b, n, candidates, axis, k, positions, &then))
        return false;
    *s = then;
    if (!positions)
        return true;
    struct ir_value *all = joined(b, from_pieces(b, first.positions, axis, size), axis);
    s->positions = !all ? NULL
                        : ir_build1(b, IR_gather_elements, 2, (struct ir_value *[]){all, then.positions},
                                    IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
    return s->positions != NULL;
}

bool legalise_topk(struct ir_builder *b, struct ir_node *n)
{
    struct sorted s = {0};
    if (!sort(b, n, n->in[0].value, (int)ir_get_i(n, IR_ATTR_axis, 0), ir_attr(n, IR_ATTR_k)->e,
              ir_has_uses(n->out[1]), &s))
        return false;
    s.values->name = n->out[0]->name;
    ir_replace_uses(n->out[0], s.values);
    if (s.positions) {
        s.positions->name = n->out[1]->name;
        ir_replace_uses(n->out[1], s.positions);
    }
    ir_remove(n);
    return true;
}
