/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one form of a value to another: parts, all-gather, all-reduce, reduce-scatter and all-to-all. Collectives
 * work on axis 0; other axes are brought there, which fusion folds into what makes or reads the value.
 */
#include "passes/parallel/tensor_int.h"

#include <math.h>
#include <string.h>

static ir_expr count(const struct rewriter *w)
{
    return ir_const(w->ctx, w->parts);
}

struct ir_value *shard_offset(struct rewriter *w, ir_expr size)
{
    ir_expr at = ir_mul(w->ctx, w->rank, size);
    return ir_dim_value(&w->b, at);
}

/* The dims with axis `c.axis` as [outer, parts, part]; the first two only if they are `with`. Returns their number. */
static int split_dims(struct rewriter *w, ir_type whole, struct sharding c, bool parts, ir_expr *dims)
{
    ir_expr part = shard_divide(w->ctx, shard_size(w->plan, whole->dim[c.axis], c), c.outer);
    int n = 0;
    for (int i = 0; i < whole->rank; i++) {
        if (i != c.axis) {
            dims[n++] = whole->dim[i];
            continue;
        }
        dims[n++] = c.outer;
        if (parts)
            dims[n++] = count(w);
        dims[n++] = part;
    }
    return n;
}

/* -- Axes that the ranks do not divide -- */

/* The whole with zeros behind, as much as the ranks have room for. */
static struct ir_value *with_padding(struct rewriter *w, struct ir_value *whole, struct sharding c)
{
    ir_expr more = ir_const(w->ctx, shard_padding(w->plan, whole->type->dim[c.axis], c));
    return ir_pad_axis(&w->b, whole, NULL, c.axis, ir_const(w->ctx, 0), more);
}

/* What of `part` lies behind `length` along the axis, of all ranks', is `filler`. Of a transpose's result it is the
 * operand's: rows are read as they lie, and the product that adds up along the axis still finds the transpose. */
static struct ir_value *fill_behind(struct rewriter *w, struct ir_value *part, int axis, ir_expr length, double filler)
{
    struct ir_builder *b = &w->b;
    ir_expr size = part->type->dim[axis], dims[TCC_MAX_RANK];
    int n = 0;
    if (part->def && part->def->op == IR_transpose) {
        const int64_t *perm = ir_attr(part->def, IR_ATTR_perm)->ints;
        struct ir_value *filled = fill_behind(w, part->def->in[0].value, (int)perm[axis], length, filler);
        return filled ? ir_transpose_by(b, filled, perm) : NULL;
    }
    struct ir_value *i = ir_iota(b, 1, &size, 0, TCC_I64);
    i = ir_binary(b, IR_add, i, shard_offset(w, size));
    struct ir_value *real = ir_binary(b, IR_lt, i, ir_constant_i(b, TCC_I64, ir_const_or(length, 0)));
    dims[n++] = size;
    while (axis + n < part->type->rank)
        dims[n++] = ir_const(w->ctx, 1);
    enum tcc_dtype dtype = (enum tcc_dtype)part->type->dtype;
    struct ir_value *none = tcc_is_float(dtype) ? ir_constant_f(b, dtype, filler) : ir_constant_i(b, dtype, 0);
    return ir_select(b, n > 1 ? ir_reshape_to(b, real, n, dims) : real, part, none);
}

struct ir_value *shard_neutral(struct rewriter *w, struct ir_value *part, ir_type whole, struct sharding c,
                               enum shard_kind kind)
{
    double filler = kind == SHARD_MAX ? -INFINITY : kind == SHARD_MIN ? INFINITY : 0;
    if (!shard_padding(w->plan, whole->dim[c.axis], c))
        return part;
    return fill_behind(w, part, c.axis, whole->dim[c.axis], filler);
}

/* -- Parts and wholes -- */

struct ir_value *shard_take_part(struct rewriter *w, struct ir_value *whole, struct sharding c)
{
    ir_type type = shard_type(w->plan, whole->type, c);
    const struct ir_tensor *t = ir_const_of(whole);
    int64_t dims[TCC_MAX_RANK];
    if (t && t->splat && ir_static_dims(type, dims)) {
        struct ir_tensor *part = ir_tensor_splat((enum tcc_dtype)t->dtype, t->rank, dims, t->data);
        if (!part)
            ir_no_memory(w->ctx);
        return ir_constant(&w->b, part);
    }
    if (ir_is_value(c.outer, 1)) {
        struct ir_value *v = with_padding(w, whole, c);
        return v ? ir_slice_axis(&w->b, v, c.axis, ir_mul(w->ctx, w->rank, type->dim[c.axis]), type->dim[c.axis])
                 : NULL;
    }
    ir_expr blocks[TCC_MAX_RANK + 2];
    int n = split_dims(w, whole->type, c, false, blocks);
    ir_expr part = blocks[c.axis + 1];
    if (n > TCC_MAX_RANK)
        return ir_error(w->ctx, NULL, "--tensor-parallel: %s has too many axes", ir_type_text(w->ctx, whole->type)),
               NULL;
    blocks[c.axis + 1] = ir_mul(w->ctx, part, count(w));
    struct ir_value *v = ir_reshape_to(&w->b, whole, n, blocks);
    v = v ? ir_slice_axis(&w->b, v, c.axis + 1, ir_mul(w->ctx, w->rank, part), part) : NULL;
    return ir_reshape_to(&w->b, v, type->rank, type->dim);
}

static struct ir_attr group_of(void)
{
    return ir_attr_s(IR_ATTR_group, TENSOR_GROUP);
}

static struct ir_value *move_axis(struct rewriter *w, struct ir_value *v, int from, int to)
{
    int64_t perm[TCC_MAX_RANK];
    int n = 0, rank = v ? v->type->rank : 0;
    for (int i = 0; i < rank; i++) {
        if (n == to && from > to)
            perm[n++] = from;
        if (i != from)
            perm[n++] = i;
        if (n == to && from < to)
            perm[n++] = from;
    }
    return v && from != to ? ir_transpose_by(&w->b, v, perm) : v;
}

static bool has_room(struct rewriter *w, ir_type t, int rank)
{
    if (rank > TCC_MAX_RANK)
        ir_error(w->ctx, NULL, "--tensor-parallel: %s has too many axes", ir_type_text(w->ctx, t));
    return rank <= TCC_MAX_RANK;
}

/* The ranks' parts, each of type `local`, one behind the other, where they belong:
 * [parts, ..., outer, part, ...] -> [..., outer, parts, part, ...]. */
static struct ir_value *parts_home(struct rewriter *w, struct ir_value *v, ir_type local, struct sharding c)
{
    ir_expr dims[TCC_MAX_RANK + 2], all[TCC_MAX_RANK + 2];
    if (!v || (c.axis == 0 && ir_is_value(c.outer, 1)))
        return v;
    int n = 0;
    all[n++] = count(w);
    for (int i = 0; i < local->rank; i++) {
        if (i == c.axis) {
            all[n++] = c.outer;
            all[n++] = shard_divide(w->ctx, local->dim[i], c.outer);
        } else {
            all[n++] = local->dim[i];
        }
        dims[i] = i == c.axis ? ir_mul(w->ctx, local->dim[i], count(w)) : local->dim[i];
    }
    if (!has_room(w, local, n))
        return NULL;
    v = move_axis(w, ir_reshape_to(&w->b, v, n, all), 0, c.axis + 1);
    return ir_reshape_to(&w->b, v, local->rank, dims);
}

/* The other way round. */
static struct ir_value *parts_in_front(struct rewriter *w, struct ir_value *v, struct sharding c)
{
    ir_expr dims[TCC_MAX_RANK + 2];
    if (!v || (c.axis == 0 && ir_is_value(c.outer, 1)))
        return v;
    ir_type local = shard_type(w->plan, v->type, c), whole = v->type;
    int n = split_dims(w, whole, c, true, dims);
    if (!has_room(w, whole, n))
        return NULL;
    v = move_axis(w, ir_reshape_to(&w->b, v, n, dims), c.axis + 1, 0);
    memcpy(dims, local->dim, (size_t)local->rank * sizeof *dims);
    dims[0] = ir_mul(w->ctx, dims[0], count(w));
    return ir_reshape_to(&w->b, v, local->rank, dims);
}

struct ir_value *shard_all_gather(struct rewriter *w, struct ir_value *part, ir_type whole, struct sharding c)
{
    struct ir_value *v =
        ir_build1(&w->b, IR_all_gather, 1, &part, IR_ATTRS(group_of(), ir_attr_i(IR_ATTR_count, w->parts)));
    v = parts_home(w, v, part->type, c);
    return v && shard_padding(w->plan, whole->dim[c.axis], c)
               ? ir_slice_axis(&w->b, v, c.axis, ir_const(w->ctx, 0), whole->dim[c.axis])
               : v;
}

struct ir_value *shard_all_reduce(struct rewriter *w, struct ir_value *v, enum shard_kind kind)
{
    const char *mode = kind == SHARD_SUM ? "sum" : kind == SHARD_MAX ? "max" : "min";
    struct ir_node *n =
        ir_build(&w->b, IR_all_reduce, 1, &v,
                 IR_ATTRS(group_of(), ir_attr_s(IR_ATTR_mode, mode), ir_attr_types(IR_ATTR_types, 1, &v->type)));
    return n ? n->out[0] : NULL;
}

struct ir_value *shard_reduce_scatter(struct rewriter *w, struct ir_value *v, struct sharding c)
{
    v = parts_in_front(w, with_padding(w, v, c), c);
    return v ? ir_build1(&w->b, IR_reduce_scatter, 1, &v,
                         IR_ATTRS(group_of(), ir_attr_s(IR_ATTR_mode, "sum"), ir_attr_i(IR_ATTR_count, w->parts)))
             : NULL;
}

bool shard_can_reshard(const struct rewriter *w, ir_type whole, struct sharding from, struct sharding to)
{
    return from.axis != to.axis && whole->rank + 2 <= TCC_MAX_RANK &&
           !shard_padding(w->plan, whole->dim[from.axis], from) && !shard_padding(w->plan, whole->dim[to.axis], to);
}

struct ir_value *shard_reshard(struct rewriter *w, struct ir_value *part, struct sharding from, struct sharding to)
{
    ir_type both = shard_type(w->plan, part->type, to);
    struct ir_value *v = parts_in_front(w, part, to);
    v = v ? ir_build1(&w->b, IR_all_to_all, 1, &v, IR_ATTRS(group_of())) : NULL;
    return parts_home(w, v, both, from);
}
