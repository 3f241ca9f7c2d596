/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and the views of it. Programs before decomposition write in place (x[:, 0] = y, buffer += 1); SSA has values
 * only.
 *
 * A name is memory of its own or a view of another name's. Each has a version, which a write counts up. A write to a
 * view becomes a write to what it looks at, of the whole with that part replaced; a view whose operand was written to
 * since is made again, by its own node, when it is read. Which elements a view consists of is found by looking, through
 * that view, at the elements' numbers.
 *
 * Some ops give a view where there can be one and a copy else (reshape). The archive records strides, which say what
 * PyTorch did; where sizes that are open decide, the result is taken for a copy, and what would be another value if it
 * were none is refused: either of the two after a write to the other.
 *
 * Where no gradient is to be recorded, a write changes the values only: what is read then has the gradient of what was
 * there before.
 */
#include "compiler/pt2/pt2_int.h"

struct pt2_value *pt2_memory(struct pt2_value *v)
{
    while (v->of)
        v = v->of;
    return v;
}

/* -- Which memory a result is */

/* Are two lists of sizes or strides the same where the size is not 1? */
static enum ir_tri same_strides(struct pt2 *p, const json_t *a, const json_t *b)
{
    json_t *sizes = js_array(a, "sizes"), *first = js_array(a, "strides"), *second = js_array(b, "strides");
    enum ir_tri same = IR_YES;
    if (json_array_size(first) != json_array_size(second) || json_array_size(first) != json_array_size(sizes))
        return IR_NO;
    for (size_t k = 0; k < json_array_size(sizes); k++) {
        ir_expr size = pt2_meta_size(p, json_array_get(sizes, k)), x = pt2_meta_size(p, json_array_get(first, k)),
                y = pt2_meta_size(p, json_array_get(second, k));
        if (!size || !x || !y)
            return IR_MAYBE;
        enum ir_tri one = ir_expr_eq(p->ctx, size, ir_const(p->ctx, 1)), equal = ir_expr_eq(p->ctx, x, y);
        if (one == IR_NO && equal == IR_NO)
            return IR_NO;
        if (one != IR_YES && equal != IR_YES)
            same = IR_MAYBE;
    }
    return same;
}

/* Does the node ask for a copy in any case (to)? */
static bool copies(struct pt2 *p)
{
    json_t *inputs = js_array(p->at.node, "inputs"), *value;
    for (size_t k = 0; k < json_array_size(inputs); k++) {
        const char *name = js_string(json_array_get(inputs, k), "name");
        js_union(json_object_get(json_array_get(inputs, k), "arg"), &value);
        if (name && !strcmp(name, "copy") && json_is_true(value))
            return true;
    }
    return false;
}

/* Does result k of the node lie in the memory of the operand? */
static enum ir_tri shares(struct pt2 *p, const struct aten_row *row, const struct pt2_value *operand,
                          const struct pt2_value *v)
{
    const json_t *from = pt2_meta(p, operand->name), *to = pt2_meta(p, v->name);
    if (row->flags & ATEN_PASSES)
        return v->v == operand->v ? IR_YES : IR_NO;
    if (!(row->flags & (ATEN_COPIES | ATEN_KEEPS)))
        return imp_dtype(v->v) == imp_dtype(operand->v) ? IR_YES : IR_NO;
    if (!from || !to)
        return IR_MAYBE;
    if (row->flags & ATEN_KEEPS)
        return imp_dtype(v->v) != imp_dtype(operand->v) || copies(p) ? IR_NO : same_strides(p, from, to);
    /* A copy is in row-major order. A view that is has an operand that is. */
    enum ir_tri operand_lies = pt2_row_major(p, from), result_lies = pt2_row_major(p, to);
    if (operand_lies == IR_YES || result_lies == IR_NO)
        return IR_YES;
    return operand_lies == IR_NO && result_lies == IR_YES ? IR_NO : IR_MAYBE;
}

void pt2_look_at(struct pt2_value *v, struct pt2_value *operand)
{
    v->of = operand;
    v->seen = operand->version;
}

static void share(struct pt2 *p, struct pt2_value *v, const struct aten_row *row, struct pt2_value *operand)
{
    if (!v->v || !operand->v || v->number || operand->number || v->refused || operand->refused)
        return;
    bool conjugate = row->flags & ATEN_SHARES && pt2_reads_complex(p),
         bits = row->flags & ATEN_SHARES && imp_dtype(v->v) != imp_dtype(operand->v);
    enum ir_tri same = conjugate || bits ? IR_MAYBE : shares(p, row, operand, v);
    if (same == IR_MAYBE) {
        v->shares = pt2_memory(operand);
        v->seen = v->shares->version;
        v->unwritable = conjugate ? "what was made of a complex tensor"
                        : bits    ? "bits looked at as another type"
                                  : NULL;
    } else if (same == IR_YES) {
        pt2_look_at(v, row->flags & ATEN_STORAGE ? pt2_memory(operand) : operand);
        v->row = row;
    }
}

/* Results of nodes that record no gradient have none, but for what was there before. */
void pt2_bind_memory(struct pt2 *p, struct pt2_value *v, const struct aten_row *row)
{
    const int sharing = ATEN_VIEW | ATEN_SHARES | ATEN_KEEPS | ATEN_PASSES;
    bool looks = row && row->flags & sharing && !p->at.writes;
    struct pt2_value *operand = looks ? pt2_first_operand(p, p->at.node, v->index) : NULL;
    if (row && row->flags & ATEN_CALLS) {
        if (!v->number)
            pt2_look_at(v, p->at.made[v->index]);
        return;
    }
    if (p->at.writes) {
        pt2_look_at(v, p->at.written);
        return;
    }
    if (operand)
        share(p, v, row, operand);
    v->cuts = p->at.no_gradient;
    if (v->cuts)
        v->v = pt2_without_gradient(p, v->v);
}

/* -- Reading */

struct ir_value *pt2_without_gradient(struct pt2 *p, struct ir_value *x)
{
    return x && ir_is_tensor(x->type) && p->im->train && imp_is_float(x) ? imp_un(p->im, IR_stop_gradient, x) : x;
}

/* v made of another operand: by its own node, in its own graph. NULL after a message. */
static struct ir_value *view_of(struct pt2 *p, struct pt2_value *v, struct ir_value *operand)
{
    if (!v->row)
        return operand;
    struct pt2_at before = p->at;
    p->at.instead = v->of;
    p->at.instead_v = operand;
    p->at.instead_index = v->index;
    p->at.scope = v->scope;
    p->at.outs = IR_NEWN(p->ctx, v->count, struct ir_value *);
    p->at.out_exprs = IR_NEWN(p->ctx, v->count, ir_expr);
    struct ir_value *result = pt2_build(p, v->row, v->node, v->count) ? p->at.outs[v->index] : NULL;
    before.reads = p->at.reads;
    p->at = before;
    return v->cuts ? pt2_without_gradient(p, result) : result;
}

/* Nothing was written to that may be the same memory. */
static bool is_certain(struct pt2 *p, const struct pt2_value *memory)
{
    const char *other = memory->spoiled;
    for (const struct pt2_value *m = memory; m->shares && !other; m = m->shares)
        other = m->seen != m->shares->version ? m->shares->name : NULL;
    return !other ||
           imp_unsupported(p->im, "'%s', whose memory may have been written to as that of '%s'", memory->name, other);
}

struct ir_value *pt2_read(struct pt2 *p, struct pt2_value *v)
{
    if (v == p->at.instead)
        return p->at.instead_v;
    if (v->refused || !is_certain(p, pt2_memory(v)))
        return v->refused ? v->v : NULL;
    if (!v->of)
        return v->v;
    struct ir_value *operand = pt2_read(p, v->of);
    if (v->seen != v->of->version) {
        v->v = operand ? view_of(p, v, operand) : NULL;
        v->seen = v->of->version;
        v->version++;
    }
    return v->v;
}

/* -- Writing */

struct ir_value *pt2_put(struct pt2 *p, struct ir_value *x, struct ir_value *which, struct ir_value *part)
{
    struct ir_value *in[] = {pt2_flat(p, x), pt2_flat(p, which), pt2_flat(p, part)};
    if (!in[0] || !in[1] || !in[2])
        return NULL;
    struct ir_value *all = imp_op(p->im, IR_scatter_elements, 3, in,
                                  IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_s(IR_ATTR_mode, "none")));
    return all ? imp_reshape(p->im, all, imp_rank(x), x->type->dim) : NULL;
}

static bool cuts(const struct pt2_value *v)
{
    return v->cuts || (v->row && v->row->flags & ATEN_CUTS);
}

/* What v looks at through views that pass gradients. */
static struct pt2_value *with_gradient(struct pt2_value *v)
{
    while (v->of && !cuts(v))
        v = v->of;
    return v;
}

/* The elements of v among those of `whole`, which it looks at. NULL after a message. */
static struct ir_value *elements(struct pt2 *p, struct pt2_value *v, const struct pt2_value *whole,
                                 struct ir_value *numbers)
{
    struct ir_value *operand = v == whole ? numbers : elements(p, v->of, whole, numbers);
    return v == whole || !operand ? operand : view_of(p, v, operand);
}

/* The value of `whole` with the elements that view v looks at replaced by those of `part`. An element that is not in v
 * is left alone, though it be in a view between them. */
static struct ir_value *replaced(struct pt2 *p, struct pt2_value *v, struct pt2_value *whole, struct ir_value *part)
{
    struct ir_value *old = pt2_read(p, whole);
    if (!old || v == whole)
        return old ? part : NULL;
    ir_expr count = ir_num_elements(p->ctx, old->type);
    struct ir_value *numbers =
        imp_reshape(p->im, imp_iota(p->im, 1, &count, 0, TCC_I64), imp_rank(old), old->type->dim);
    struct ir_value *which = numbers ? elements(p, v, whole, numbers) : NULL;
    if (which && which == numbers) /* all of it, in order */
        return imp_reshape(p->im, part, imp_rank(old), old->type->dim);
    return pt2_put(p, old, which, part);
}

/* What the caller gives, and buffers, have none until something is written to them that has. */
static bool has_gradient(const struct pt2_value *memory)
{
    return memory->taught || !(memory->input || (memory->state && !(memory->state->flags & IR_STATE_PARAM)));
}

/* The values of `to` with the gradient of `old`, where that is finite: to + (old - old). */
static struct ir_value *values_only(struct pt2 *p, struct ir_value *old, struct ir_value *to)
{
    if (!old || !to || !p->im->train || !imp_is_float(to))
        return to;
    struct ir_value *is_infinite = imp_un(p->im, IR_isinf, old);
    struct ir_value *odd = imp_bin(p->im, IR_or, imp_un(p->im, IR_isnan, old), is_infinite);
    old = imp_select(p->im, odd, imp_like(p->im, old, 0), old);
    struct ir_value *difference = imp_bin(p->im, IR_sub, old, pt2_without_gradient(p, old));
    return imp_bin(p->im, IR_add, pt2_without_gradient(p, to), difference);
}

/* What may be the same memory holds nobody knows what from now on. */
static bool spoil_others(struct pt2 *p, struct pt2_value *memory)
{
    for (struct pt2_value *m = memory; m->shares; m = m->shares) {
        if (m->shares->state || m->shares->input)
            return imp_unsupported(p->im, "a write to '%s', whose memory may be that of '%s': the sizes decide",
                                   memory->name, m->shares->name);
        m->shares->spoiled = memory->name;
        m->seen = ++m->shares->version;
    }
    return true;
}

/* gradient: what is written has its own gradient. */
static bool write(struct pt2 *p, struct pt2_value *v, struct ir_value *to, bool gradient)
{
    struct ir_value *old = pt2_read(p, v);
    struct pt2_value *whole = with_gradient(v);
    if (!old || !to || !ir_is_tensor(old->type) || !ir_is_tensor(to->type))
        return false;
    to = imp_expand(p->im, imp_cast(p->im, to, imp_dtype(old)), imp_rank(old), old->type->dim);
    to = to ? replaced(p, v, whole, to) : NULL;
    if (!to)
        return false;
    if (whole->of && !write(p, whole->of, replaced(p, whole, whole->of, to), false))
        return false;
    if (!whole->of || gradient) { /* what a view without gradient looks at gets the values, the view the gradient */
        whole->v = gradient ? to : has_gradient(whole) ? values_only(p, whole->v, to) : pt2_without_gradient(p, to);
        whole->taught |= gradient;
        whole->seen = whole->of ? whole->of->version : whole->seen;
        whole->version++;
    }
    return pt2_read(p, v) != NULL;
}

bool pt2_write(struct pt2 *p, struct pt2_value *v, struct ir_value *to)
{
    struct pt2_value *memory = pt2_memory(v);
    if (memory->unwritable)
        return imp_unsupported(p->im, "a write to %s", memory->unwritable);
    if (!spoil_others(p, memory) || !write(p, v, to, !p->at.no_gradient))
        return false;
    for (int k = 0; k < p->mutated.n; k++) {
        if (p->mutated.at[k] == memory)
            return true;
    }
    if (memory->state || memory->input)
        VEC_PUSH(p->ctx, p->mutated, memory);
    return true;
}
