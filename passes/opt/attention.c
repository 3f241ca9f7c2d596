/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention: scaled dot-product attention that the source spells out becomes one ATTENTION node.
 *
 *   matmul(softmax(matmul(q [* c], k' [* c]) [* c] [+ mask]...), v)      exp, max, sum and div by hand
 *
 * also where rows that see no key are 0 (NaN in the softmax is replaced, or the mask says which rows these are), scores
 * are selected against -inf, heads have factors of their own, or the batch is two axes, all the way or where a mask is
 * added (windows of images). A constant mask that hides exactly the later keys becomes `causal`. Nothing else may read
 * what lies between: so a function that has been differentiated, whose gradient reads the weights, is left as it is.
 *
 * Bounded: factors are multiplied together first, and the machine may sum and normalise in another order. Each score
 * changes by a few rounding errors of itself, so a weight by that much relative to itself: (d + 4) u max |score| for u
 * = 2^-24.
 */
#include "passes/rewrite_int.h"

#include <math.h>
#include <string.h>

bool pass_attention_run(struct pass_run *r);

struct found {
    struct ir_value *q, *k, *v;
    bool k_ready;       /* k is [.., t, d] already */
    ir_expr rows, keys; /* extents of the scores */
    double scale;
    struct ir_value *factor;  /* of heads or batches, or NULL: its last two dims are 1 */
    ir_type wide;             /* [b1, b2, h, s, t] where scores are seen so; else NULL */
    struct ir_value *mask[4]; /* added */
    ir_type mask_wide[4];     /* to what */
    struct {
        struct ir_value *condition, *shown, *hidden;
    } choice[2];
    int nmasks, nchoices;
    bool scaled;             /* a factor has been met on the way down from the softmax */
    bool guarded;            /* NaN becomes 0 */
    struct ir_value *hidden; /* rows in which this mask hides everything become 0; or NULL */
};

static bool last_axis(const struct ir_node *n)
{
    const struct ir_attr *a = ir_attr(n, IR_ATTR_axes);
    return a && a->n == 1 && a->ints[0] == n->in[0].value->type->rank - 1 && ir_get_i(n, IR_ATTR_keepdims, 0);
}

/* The scores, if p is their softmax along the last axis, of which nothing else reads a part. */
static struct ir_value *softmax_of(struct ir_value *p)
{
    struct composite_match m;
    if (!p->def || !composite_match(p->def, COMPOSITE_softmax, &m))
        return NULL;
    for (int i = 0; i < m.nnodes; i++) {
        const struct ir_node *n = m.node[i];
        bool reduces = ir_op_info(n->op)->kind == IR_K_REDUCE;
        if ((reduces && !last_axis(n)) || ((reduces || n->op == IR_sub) && !ir_has_one_use(n->out[0])))
            return NULL;
    }
    return m.value['x' - 'a'];
}

/* The mask, if v says in which of its rows nothing but -inf is: its largest along the last axis is that. */
static struct ir_value *hidden_rows_of(const struct ir_value *v)
{
    const struct ir_node *eq = v->def;
    double least;
    if (!eq || eq->op != IR_eq || !ir_splat_f(eq->in[1].value, &least) || least != -INFINITY)
        return NULL;
    const struct ir_node *most = rewrite_operand_node(eq, 0, IR_reduce_max);
    return most && last_axis(most) ? most->in[0].value : NULL;
}

/* select(isnan(x), 0, x); or rows that the mask hides are 0: select(hidden, 0, x) */
static struct ir_value *unguarded(struct ir_value *p, struct found *f)
{
    const struct ir_node *s = p->def;
    double zero;
    if (!s || s->op != IR_select || !ir_splat_f(s->in[1].value, &zero) || zero != 0)
        return p;
    struct ir_node *nan = rewrite_operand_node(s, 0, IR_isnan);
    f->hidden = hidden_rows_of(s->in[0].value);
    f->guarded = nan && nan->in[0].value == s->in[2].value;
    return f->guarded || f->hidden ? s->in[2].value : p;
}

static int uses(const struct ir_value *v)
{
    int n = 0;
    for (const struct ir_use *u = v->uses; u; u = u->next)
        n++;
    return n;
}

static bool from_matmul(const struct ir_value *v, int depth)
{
    const struct ir_node *n = v->def;
    if (!n || depth > 6)
        return false;
    if (n->op == IR_matmul)
        return true;
    if (n->op == IR_reshape)
        return from_matmul(n->in[0].value, depth + 1);
    if (n->op != IR_add && n->op != IR_mul && n->op != IR_div && n->op != IR_select)
        return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value && n->in[i].value->type->rank == v->type->rank && from_matmul(n->in[i].value, depth + 1))
            return true;
    return false;
}

/* Do rank-5 scores become rank-4 ones when their first two axes are joined? */
static bool joins(ir_type wide, ir_type t)
{
    return wide->rank == 5 && t->rank == 4 && wide->dim[2] == t->dim[1] && wide->dim[3] == t->dim[2] &&
           wide->dim[4] == t->dim[3];
}

static bool is_factor(const struct found *f, const struct ir_value *x)
{
    int rank = x->type->rank;
    return !f->factor && rank >= 2 && rank <= (f->wide ? 3 : 4) && ir_is_value(x->type->dim[rank - 1], 1) &&
           ir_is_value(x->type->dim[rank - 2], 1);
}

/* One step from the scores towards their product; NULL: something that isn't part of attention. */
static struct ir_value *step(struct found *f, const struct ir_node *n)
{
    double c;
    switch (n->op) {
    case IR_mul:
    case IR_div:
        for (int i = 0; i < (n->op == IR_mul ? 2 : 1); i++)
            if (ir_splat_f(n->in[1 - i].value, &c) && rewrite_has_result_type(n, n->in[i].value)) {
                f->scaled = true;
                f->scale = n->op == IR_mul ? f->scale * c : f->scale / c;
                return n->in[i].value;
            }
        for (int i = 0; i < 2 && n->op == IR_mul; i++)
            if (is_factor(f, n->in[1 - i].value) && rewrite_has_result_type(n, n->in[i].value) &&
                from_matmul(n->in[i].value, 0)) {
                f->scaled = true;
                f->factor = n->in[1 - i].value;
                return n->in[i].value;
            }
        return NULL;
    case IR_reshape: {
        ir_type t = n->out[0]->type, from = n->in[0].value->type;
        if (f->wide ? !joins(t, from) : !joins(from, t))
            return NULL;
        f->wide = f->wide ? NULL : from;
        return n->in[0].value;
    }
    case IR_add:
        for (int i = 0; i < 2; i++)
            if (f->nmasks < 4 && !f->scaled && rewrite_has_result_type(n, n->in[i].value) &&
                from_matmul(n->in[i].value, 0)) {
                f->mask_wide[f->nmasks] = f->wide;
                f->mask[f->nmasks++] = n->in[1 - i].value;
                return n->in[i].value;
            }
        return NULL;
    case IR_select:
        for (int i = 1; i < 3; i++)
            if (f->nchoices < 2 && !f->scaled && !f->wide && ir_splat_f(n->in[3 - i].value, &c) && c < -1e30 &&
                rewrite_has_result_type(n, n->in[i].value)) {
                f->choice[f->nchoices].condition = n->in[0].value;
                f->choice[f->nchoices].shown = i == 1 ? n->in[1].value : NULL;
                f->choice[f->nchoices++].hidden = n->in[3 - i].value;
                return n->in[i].value;
            }
        return NULL;
    default: return NULL;
    }
}

static struct ir_value *without_factor(struct found *f, struct ir_value *x)
{
    const struct ir_node *n = x->def;
    double c;
    if (n && n->op == IR_mul && ir_splat_f(n->in[1].value, &c) && rewrite_has_result_type(n, n->in[0].value)) {
        f->scale *= c;
        return n->in[0].value;
    }
    return x;
}

static bool same_batch(const struct ir_value *a, const struct ir_value *b)
{
    if (a->type->rank != b->type->rank)
        return false;
    for (int i = 0; i < a->type->rank - 2; i++)
        if (a->type->dim[i] != b->type->dim[i])
            return false;
    return true;
}

static bool match(const struct ir_node *n, struct found *f)
{
    *f = (struct found){.scale = 1};
    struct ir_value *p = n->in[0].value;
    if (n->op != IR_matmul || ir_get_i(n, IR_ATTR_trans_a, 0) || ir_get_i(n, IR_ATTR_trans_b, 0) ||
        !ir_is_tensor(n->out[0]->type) || rewrite_dtype_of(n->out[0]) != TCC_F32 || rewrite_dtype_of(p) != TCC_F32 ||
        p->type->rank < 3 || p->type->rank > 5 || !ir_has_one_use(p))
        return false;
    if (p->type->rank == 5)
        f->wide = p->type;
    struct ir_value *soft = unguarded(p, f), *x = softmax_of(soft);
    if (!x || uses(soft) != (f->guarded ? 2 : 1) || uses(x) != 2)
        return false;
    while (x->def && x->def->op != IR_matmul) {
        x = step(f, x->def);
        if (!x || !ir_has_one_use(x))
            return false;
    }
    if (!x->def || ir_get_i(x->def, IR_ATTR_trans_a, 0) || rewrite_dtype_of(x) != TCC_F32)
        return false;
    f->k_ready = ir_get_i(x->def, IR_ATTR_trans_b, 0);
    f->rows = x->type->dim[x->type->rank - 2];
    f->keys = x->type->dim[x->type->rank - 1];
    f->q = without_factor(f, x->def->in[0].value);
    f->k = without_factor(f, x->def->in[1].value);
    f->v = n->in[1].value;
    /* Beside others their sum would say which rows are hidden. */
    bool added = !f->hidden || (f->nmasks == 1 && !f->nchoices && f->mask[0] == f->hidden);
    return added && rewrite_dtype_of(f->q) == TCC_F32 && rewrite_dtype_of(f->v) == TCC_F32 && same_batch(f->q, p) &&
           same_batch(f->k, p) && same_batch(f->v, p) && (float)f->scale == (float)f->scale;
}

/* -- The mask -------------------------------------------------------------------------------------------- */

/* Does it have a row for each query and a number for each key? One that is broadcast says the same to all of them. */
static bool spans_scores(struct ir_ctx *ctx, const struct found *f, ir_type mask)
{
    int rank = mask->rank;
    return rank >= 2 && ir_expr_eq(ctx, mask->dim[rank - 2], f->rows) == IR_YES &&
           ir_expr_eq(ctx, mask->dim[rank - 1], f->keys) == IR_YES;
}

/* What is added to scores that weigh nothing: exp(-1e8) is 0 in every type by far. Models have -1e9 (in 16 bits a
 * little more), or the lowest number there is. */
#define HIDDEN (-1e8)

/* 0 up to the diagonal and nothing to see after it, for every query. */
static bool hides_later_keys(const struct ir_value *mask)
{
    const struct ir_tensor *t = ir_const_of(mask);
    if (!t || t->splat || !tcc_is_float(t->dtype) || t->rank < 2)
        return false;
    int64_t rows = t->dims[t->rank - 2], keys = t->dims[t->rank - 1];
    for (int64_t i = 0; i < t->nelems; i++) {
        double v = tcc_load_f64(t->dtype, ir_tensor_at(t, i));
        if (i % keys > i / keys % rows ? v > HIDDEN : v != 0)
            return false;
    }
    return rows > 1;
}

/* The index along the last axis but `back`, whatever the others. */
static bool is_position(const struct ir_value *v, int back)
{
    const struct ir_node *n = v->def;
    while (n && (n->op == IR_cast || n->op == IR_expand)) {
        v = n->in[0].value;
        n = v->def;
    }
    return n && n->op == IR_iota && tcc_is_int(rewrite_dtype_of(v)) &&
           v->type->rank - 1 - back == ir_get_i(n, IR_ATTR_axis, 0);
}

/* select(query >= key, 0, -inf), in any order of words. */
static bool compares_positions(const struct ir_value *mask)
{
    const struct ir_node *s = mask->def;
    double shown, hidden;
    if (!s || s->op != IR_select || !s->in[0].value->def)
        return false;
    const struct ir_node *c = s->in[0].value->def;
    bool ge = c->op == IR_ge || c->op == IR_lt, swapped = c->op == IR_le || c->op == IR_gt;
    bool negated = c->op == IR_lt || c->op == IR_gt;
    if ((!ge && !swapped) || !ir_splat_f(s->in[negated ? 2 : 1].value, &shown) ||
        !ir_splat_f(s->in[negated ? 1 : 2].value, &hidden))
        return false;
    return shown == 0 && hidden <= HIDDEN && is_position(c->in[0].value, swapped ? 0 : 1) &&
           is_position(c->in[1].value, swapped ? 1 : 0);
}

/* [b1, b2, ...] of rank 5 -> [b1 b2, ...]; what broadcasts to `wide` -> what broadcasts to that. */
static struct ir_value *join_batches(struct ir_builder *b, ir_type wide, struct ir_value *x)
{
    int r = x ? x->type->rank : 0;
    if (!wide || r < 4)
        return x;
    const ir_expr *last = x->type->dim + r - 3;
    ir_expr one = ir_const(b->ctx, 1),
            dims[5] = {r == 5 ? x->type->dim[0] : one, x->type->dim[r - 4], last[0], last[1], last[2]};
    if (!ir_is_value(dims[0], 1) || !ir_is_value(dims[1], 1)) {
        dims[0] = wide->dim[0];
        dims[1] = wide->dim[1];
        x = ir_expand_to(b, x, 5, dims);
    }
    ir_expr joined[4] = {ir_mul(b->ctx, dims[0], dims[1]), dims[2], dims[3], dims[4]};
    return x ? ir_reshape_to(b, x, 4, joined) : NULL;
}

/* [B, s, t] or less -> what broadcasts to [B, 1, s, t]. */
static struct ir_value *with_heads(struct ir_builder *b, struct ir_value *x)
{
    if (!x || x->type->rank != 3)
        return x;
    ir_expr dims[4] = {x->type->dim[0], ir_const(b->ctx, 1), x->type->dim[1], x->type->dim[2]};
    return ir_reshape_to(b, x, 4, dims);
}

static struct ir_value *build_mask(struct ir_builder *b, const struct found *f, bool three, bool *causal)
{
    struct ir_value *mask = NULL;
    *causal = f->nmasks == 1 && !f->nchoices && spans_scores(b->ctx, f, f->mask[0]->type) &&
              (hides_later_keys(f->mask[0]) || compares_positions(f->mask[0]));
    if (*causal)
        return NULL;
    for (int i = 0; i < f->nmasks + f->nchoices; i++) {
        struct ir_value *m = i < f->nmasks ? join_batches(b, f->mask_wide[i], f->mask[i]) : NULL;
        if (i >= f->nmasks) {
            const __typeof__(f->choice[0]) *c = &f->choice[i - f->nmasks];
            struct ir_value *zero = ir_constant_f(b, TCC_F32, 0);
            m = ir_select(b, c->condition, c->shown ? zero : c->hidden, c->shown ? c->hidden : zero);
        }
        mask = mask && m ? ir_binary(b, IR_add, mask, m) : m;
    }
    return three ? with_heads(b, mask) : mask;
}

static struct ir_value *attend(struct rewrite *w, struct ir_node *n)
{
    static const int64_t swap3[3] = {0, 2, 1}, swap4[4] = {0, 1, 3, 2};
    struct found f;
    struct ir_builder *b = &w->b;
    if (!pass_bounded(w->run) || !match(n, &f) || !rewrite_go(w))
        return NULL;
    bool three = f.q->type->rank == 3, causal;
    if (f.factor)
        f.q = ir_binary(b, IR_mul, f.q, f.factor);
    ir_type wide = f.q->type->rank == 5 ? f.q->type : NULL;
    f.q = join_batches(b, wide, f.q);
    f.k = join_batches(b, wide, f.k);
    f.v = join_batches(b, wide, f.v);
    if (!f.k_ready)
        f.k = ir_transpose_by(b, f.k, three ? swap3 : swap4);
    struct ir_value *in[4] = {f.q, f.k, f.v, build_mask(b, &f, three, &causal)};
    for (int i = 0; i < 3 && three; i++)
        in[i] = with_heads(b, in[i]);
    struct ir_value *y =
        ir_build1(b, IR_attention, in[3] ? 4 : 3, in,
                  IR_ATTRS(ir_attr_f(IR_ATTR_scale, (float)f.scale), ir_attr_i(IR_ATTR_causal, causal),
                           ir_attr_s(IR_ATTR_mode, f.guarded || (f.hidden && !causal) ? "zero" : "nan")));
    return y && (three || wide) ? ir_reshape_to(b, y, n->out[0]->type->rank, n->out[0]->type->dim) : y;
}

/* -- For training ------------------------------------------------------------------------------------------ */

/* n with its rows' logarithms, where the machine makes gradients from them, or all are to have them. */
static bool put_logarithms(struct pass_run *r, struct ir_node *n, bool all)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    struct ir_builder b = {pass_ctx(r), n->block->func, n->block, n->next, n->where};
    struct ir_value *in[4];
    if ((!all && !m->takes_gradient(m, n)) || !pass_changed(r))
        return true;
    for (int i = 0; i < n->nin; i++)
        in[i] = n->in[i].value;
    struct ir_node *with = ir_build(&b, IR_attention_lse, n->nin, in,
                                    IR_ATTRS(ir_attr_f(IR_ATTR_scale, ir_get_f(n, IR_ATTR_scale, 1)),
                                             ir_attr_i(IR_ATTR_causal, ir_get_i(n, IR_ATTR_causal, 0)),
                                             ir_attr_s(IR_ATTR_mode, ir_get_s(n, IR_ATTR_mode, "zero"))));
    return with && ir_replace(n, with->out[0]);
}

static bool each_attention(struct pass_run *r, struct ir_block *block, bool all)
{
    for (struct ir_node *n = block->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->nregions; i++)
            if (!each_attention(r, n->regions[i], all))
                return false;
        if (n->op == IR_attention && !put_logarithms(r, n, all))
            return false;
    }
    return true;
}

RULES(attention, false, RULE(matmul, attend));

bool pass_attention_run(struct pass_run *r)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    bool ring = strcmp(pass_param(r, "for", "inference"), "ring") == 0,
         training = strcmp(pass_param(r, "for", "inference"), "training") == 0;
    if (training && (!m || !m->takes_gradient || !pass_bounded(r)))
        return true;
    rewrite_module(r, &attention);
    for (struct ir_func *f = pass_module(r)->funcs; f && (training || ring); f = f->next)
        if (!each_attention(r, f->body, ring))
            return false;
    return true;
}
