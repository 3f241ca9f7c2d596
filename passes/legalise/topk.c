/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topk.c - topk as kernels that sort rows, values and positions together, where the machine has them.
 *
 * A long row of which little is wanted is cut in pieces, so that it fits in fast memory and keeps the machine busy: the
 * first k of each piece, then the first k of those, by as many rounds as it takes. Pieces stand in their order, and
 * within a piece equals do, so that of equals the lower index still comes first. A last piece that is not full ends in
 * what sorts behind everything.
 *
 * A long row of which much is wanted is cut too: pieces, a power of two of them, are sorted, and merged two by two by a
 * bitonic network (Batcher 1968): values and their places in the row are compared and exchanged over distances of whole
 * pieces, element by element, and then the pieces are sorted again. So many blocks work on one row. As in the network
 * of compiler/emit/sort.c the first step of a merge compares with mirror images, so that all comparisons go one way.
 */
#include "passes/legalise/legalise_int.h"

#include <math.h>
#include <string.h>

enum {
    MOST = 2048,      /* elements of a piece, */
    LEAST = MOST / 4, /* at least, so that it need not be padded; */
    SHARE = 4,        /* of which a round keeps one in so many at most */
    WHOLE = 2 * MOST  /* a row of no more is sorted by one kernel */
};

struct sorted {
    struct ir_value *values, *positions; /* NULL: not wanted */
};

/* places: NULL, or those that break ties. False after a diagnostic. */
static bool sort_rows(struct ir_builder *b, const struct ir_node *n, struct ir_value *x, struct ir_value *places,
                      int axis, ir_expr k, struct sorted *s)
{
    struct ir_node *sort = ir_build(b, IR_sort, places ? 2 : 1, (struct ir_value *[]){x, places},
                                    IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_e(IR_ATTR_k, k),
                                             ir_attr_i(IR_ATTR_largest, ir_get_i(n, IR_ATTR_largest, 1))));
    *s = sort ? (struct sorted){sort->out[0], sort->out[1]} : (struct sorted){0};
    return sort != NULL;
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
    struct ir_value *piece = ir_iota(b, positions->type->rank, positions->type->dim, axis, TCC_I64);
    piece = ir_binary(b, IR_mul, piece, ir_constant_i(b, TCC_I64, size));
    return ir_binary(b, IR_add, positions, piece);
}

/* -- Merging -- */

/* A row in pieces, whose elements know their places in it. */
struct merged {
    struct ir_builder *b;
    const struct ir_node *n;
    int axis;             /* of the pieces; the next one is that of a piece's elements */
    int64_t pieces, size; /* size: elements of a piece */
    struct ir_value *v, *at;
};

/* Axis `axis` of x, whose elements are pieces, as three: a distance apart, two of these, and what lies beside; or
 * back. */
static struct ir_value *apart(const struct merged *m, struct ir_value *x, int64_t distance)
{
    ir_expr dims[TCC_MAX_RANK];
    int rank = x ? x->type->rank : 0;
    for (int i = 0; i < rank; i++)
        dims[i < m->axis ? i : i + 2] = x->type->dim[i];
    dims[m->axis] = ir_const(m->b->ctx, m->pieces / (2 * distance));
    dims[m->axis + 1] = ir_const(m->b->ctx, 2);
    dims[m->axis + 2] = ir_const(m->b->ctx, distance);
    return x ? ir_reshape_to(m->b, x, rank + 2, dims) : NULL;
}

static struct ir_value *together(const struct merged *m, struct ir_value *x)
{
    ir_expr dims[TCC_MAX_RANK];
    int rank = x ? x->type->rank - 2 : 0;
    for (int i = 0; i < rank; i++)
        dims[i] = x->type->dim[i < m->axis ? i : i + 2];
    dims[m->axis] = ir_const(m->b->ctx, m->pieces);
    return x ? ir_reshape_to(m->b, x, rank, dims) : NULL;
}

/* x with `count` axes from `first` on backwards. */
static struct ir_value *backwards(struct ir_builder *b, struct ir_value *x, int first, int count)
{
    ir_expr starts[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    for (int i = 0; i < x->type->rank; i++) {
        bool turned = i >= first && i < first + count;
        starts[i] = turned ? ir_sub(b->ctx, x->type->dim[i], ir_const(b->ctx, 1)) : ir_const(b->ctx, 0);
        steps[i] = ir_const(b->ctx, turned ? -1 : 1);
    }
    return ir_slice(b, x, starts, x->type->dim, steps);
}

/* Does (x, at) stand before (y, other)? NaN is the largest; of equals the lower place comes first. */
static struct ir_value *before(const struct merged *m, struct ir_value *x, struct ir_value *at, struct ir_value *y,
                               struct ir_value *other)
{
    struct ir_builder *b = m->b;
    bool largest = ir_get_i(m->n, IR_ATTR_largest, 1);
    bool floats = tcc_is_float((enum tcc_dtype)x->type->dtype);
    const char *up = floats ? "or(gt(x, y), and(isnan(x), not(isnan(y))))" : "gt(x, y)";
    const char *same = floats ? "or(eq(x, y), and(isnan(x), isnan(y)))" : "eq(x, y)";
    struct ir_value *first = ir_formula(b, up, largest ? x : y, largest ? y : x), *equal = ir_formula(b, same, x, y);
    return ir_formula(b, "or(x, and(y, lt(z, u)))", first, equal, at, other);
}

/* One step: elements of pieces that lie so many pieces apart; mirror: each with the one as far from the end of both
 * halves as it is from their beginning. */
static bool exchange(struct merged *m, int64_t distance, bool mirror)
{
    struct ir_builder *b = m->b;
    struct ir_value *v = apart(m, m->v, distance), *at = apart(m, m->at, distance);
    if (!v || !at)
        return false;
    int count = mirror ? 3 : 1;
    struct ir_value *w = backwards(b, v, m->axis + 1, count), *other = backwards(b, at, m->axis + 1, count);
    if (!w || !other)
        return false;
    struct ir_value *half = ir_iota(b, v->type->rank, v->type->dim, m->axis + 1, TCC_I32);
    struct ir_value *stays = ir_formula(b, "xor(x, eq(y, 1))", before(m, v, at, w, other), half);
    m->v = together(m, ir_select(b, stays, v, w));
    m->at = together(m, ir_select(b, stays, at, other));
    return m->v && m->at;
}

/* Sorts the elements of each piece. */
static bool sort_pieces(struct merged *m)
{
    struct sorted s;
    if (!sort_rows(m->b, m->n, m->v, m->at, m->axis + 1, ir_const(m->b->ctx, m->size), &s))
        return false;
    m->v = s.values;
    m->at = ir_cast_to(m->b, s.positions, TCC_I32);
    return m->at != NULL;
}

/* By pieces of at most MOST elements, a power of two of them, which together are hardly longer than the row. */
static bool merge_sort(struct ir_builder *b, const struct ir_node *n, struct ir_value *x, int axis, ir_expr k,
                       bool positions, struct sorted *s)
{
    int64_t length = ir_const_or(x->type->dim[axis], 0);
    struct merged m = {.b = b, .n = n, .axis = axis, .pieces = 2};
    while (m.pieces * MOST < length)
        m.pieces *= 2;
    m.size = (length + m.pieces - 1) / m.pieces;
    m.v = in_pieces(b, n, x, axis, m.pieces, m.size);
    if (!m.v)
        return false;
    ir_expr dims[TCC_MAX_RANK];
    int rank = x->type->rank;
    memcpy(dims, x->type->dim, (size_t)rank * sizeof *dims);
    dims[axis] = ir_const(b->ctx, m.pieces * m.size);
    m.at = ir_iota(b, rank, dims, axis, TCC_I32);
    m.at = m.at ? ir_reshape_to(b, m.at, rank + 1, m.v->type->dim) : NULL;
    bool ok = m.at && sort_pieces(&m);
    for (int64_t half = 1; half < m.pieces && ok; half *= 2) {
        ok = exchange(&m, half, true);
        for (int64_t distance = half / 2; distance && ok; distance /= 2)
            ok = exchange(&m, distance, false);
        ok = ok && sort_pieces(&m);
    }
    if (!ok)
        return false;
    s->values = ir_slice_axis(b, joined(b, m.v, axis), axis, ir_const(b->ctx, 0), k);
    s->positions = positions ? ir_slice_axis(b, joined(b, m.at, axis), axis, ir_const(b->ctx, 0), k) : NULL;
    s->positions = s->positions ? ir_cast_to(b, s->positions, TCC_I64) : NULL;
    return s->values && (s->positions || !positions);
}

/* The first k along the axis. False after a diagnostic. */
static bool sort(struct ir_builder *b, const struct ir_node *n, struct ir_value *x, int axis, ir_expr k, bool positions,
                 struct sorted *s)
{
    int64_t length = ir_const_or(x->type->dim[axis], 0), kept = ir_const_or(k, MOST), size = piece_of(length);
    if (length > WHOLE && length < INT32_MAX && kept > size / SHARE && x->type->rank + 3 <= TCC_MAX_RANK)
        return merge_sort(b, n, x, axis, k, positions, s);
    if (length <= WHOLE || kept > size / SHARE || x->type->rank == TCC_MAX_RANK)
        return sort_rows(b, n, x, NULL, axis, k, s);
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
    if (!sort(b, n, n->in[0].value, (int)ir_get_i(n, IR_ATTR_axis, 0), ir_attr(n, IR_ATTR_k)->e, ir_has_uses(n->out[1]),
              &s))
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
