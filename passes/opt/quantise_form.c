/* SPDX-License-Identifier: Apache-2.0 */
/* quantise_form.c - takes and makes the forms in which tensors of bytes stand for numbers (quantise_int.h);
 * composite.def says what they are. */
#include "passes/opt/quantise_int.h"
#include "base/mutant.h"

#include <math.h>

/* -- Constants ------------------------------------------------------------------------------------------- */

static bool may_run(const struct ir_node *n)
{
    enum ir_kind kind = ir_op_info(n->op)->kind;
    return n->nout == 1 && n->nin <= 4 && ir_is_tensor(n->out[0]->type) &&
           (kind == IR_K_MAP || n->op == IR_iota || n->op == IR_reshape || n->op == IR_transpose ||
            n->op == IR_expand || n->op == IR_slice);
}

const struct ir_tensor *q_known(struct ir_ctx *ctx, struct ir_value *v)
{
    struct ir_tensor *out = NULL;
    if (!v || !v->def)
        return NULL;
    if (v->def->op == IR_constant)
        return ir_const_of(v);
    struct ir_node *n = v->def;
    if (!may_run(n))
        return NULL;
    for (int i = 0; i < n->nin; i++)
        if (!q_known(ctx, n->in[i].value))
            return NULL;
    if (!ir_interp_node(n, &out))
        return NULL;
    struct ir_builder b = {.ctx = ctx, .func = n->block->func, .block = n->block, .before = n, .where = n->where};
    struct ir_value *c = ir_constant(&b, out);
    if (!c || c->type != v->type)
        return NULL;
    c->name = v->name;
    ir_replace_uses(v, c);
    return ir_const_of(c);
}

/* -- Forms --------------------------------------------------------------------------------------------------- */

/* A constant splat with an integer value. */
static bool known_integer(struct rewrite *w, struct ir_value *v, int64_t *out)
{
    double d;
    if (!q_known(w->b.ctx, v) || !ir_splat_f(v, &d) || d != floor(d) || fabs(d) > 1e6)
        return false;
    *out = (int64_t)d;
    return true;
}

/* Takes the zero point z, added if `sign` is -1, into q. */
static bool take_zero(struct rewrite *w, struct q_form *q, struct ir_value *z, int sign)
{
    int64_t c;
    if (known_integer(w, z, &c)) {
        q->zero += sign * c;
        return true;
    }
    const struct ir_tensor *t = q_known(w->b.ctx, z);
    if (q->zeros || (rewrite_dtype_of(z) != TCC_I32 && !t))
        return false;
    for (int64_t i = 0; t && i < t->nelems; i++) {
        double d = tcc_load_f64((enum tcc_dtype)t->dtype, ir_tensor_at(t, i));
        if (d != floor(d) || fabs(d) > 1e6)
            return false;
    }
    q->zeros = ir_cast_to(&w->b, z, TCC_I32);
    if (sign < 0)
        q->zeros = ir_unary(&w->b, IR_neg, q->zeros);
    return q->zeros != NULL;
}

/* What the letters of the patterns stand for: x, less z and y, times s; b and c: the sums or differences. */
static bool take_form(struct rewrite *w, const struct composite_match *m, struct q_form *q)
{
    struct ir_value *const *value = m->value;
    int scaled = m->node[0]->op == IR_mul, times = scaled && m->node[0]->in[0].value == value['s' - 'a'];
    *q = (struct q_form){.x = value['x' - 'a'], .whole = scaled ? m->node[0]->in[times].value : m->node[0]->out[0]};
    for (int i = 0; i < m->nnodes; i++) /* zero points and scales broadcast against x, not x against them */
        if (m->node[i]->out[0]->type != m->node[0]->out[0]->type)
            return false;
    for (int i = 0; i < 2 && value['b' + i - 'a']; i++) {
        struct ir_value *sum = value['b' + i - 'a'];
        if (!take_zero(w, q, value['z' - i - 'a'], MUTANT(191, sum->def->op == IR_sub, true) ? 1 : -1))
            return false;
    }
    return true;
}

bool q_centred(struct rewrite *w, struct ir_value *v, struct q_form *q)
{
    struct composite_match m;
    return (rewrite_dtype_of(v) == TCC_F32 || rewrite_dtype_of(v) == TCC_I32) && v->def &&
           composite_match(v->def, COMPOSITE_bytes, &m) && take_form(w, &m, q);
}

static bool positive(const struct ir_tensor *t)
{
    for (int64_t i = 0; i < (t->splat ? 1 : t->nelems); i++) {
        double d = tcc_load_f64((enum tcc_dtype)t->dtype, ir_tensor_at(t, i));
        if (!(d > 0) || isinf(d))
            return false;
    }
    return true;
}

bool q_dequantised(struct rewrite *w, struct ir_value *v, struct q_form *q)
{
    struct composite_match m;
    if (rewrite_dtype_of(v) != TCC_F32 || !v->def)
        return false;
    if (v->def->op != IR_mul)
        return q_centred(w, v, q);
    if (!composite_match(v->def, COMPOSITE_dequantise, &m) || !take_form(w, &m, q))
        return false;
    int scale = v->def->in[1].value == m.value['s' - 'a'];
    const struct ir_tensor *t = q_known(w->b.ctx, v->def->in[scale].value);
    q->scale = v->def->in[scale].value;
    return t && positive(t);
}

bool q_per_tensor(const struct q_form *q, double *scale)
{
    *scale = 1;
    return !q->zeros && (!q->scale || ir_splat_f(q->scale, scale));
}

struct ir_value *q_dequantise(struct rewrite *w, struct ir_value *x, int64_t zero, struct ir_value *scale)
{
    struct ir_value *v = ir_cast_to(&w->b, x, TCC_F32);
    if (v && zero)
        v = ir_binary(&w->b, IR_sub, v, ir_constant_f(&w->b, TCC_F32, (double)zero));
    return v && scale ? ir_binary(&w->b, IR_mul, v, scale) : v;
}

/* -- Signed bytes as unsigned ones ----------------------------------------------------------------------------- */

struct ir_value *q_again(struct rewrite *w, const struct ir_node *n, int nin, struct ir_value *const *in,
                         enum tcc_dtype to)
{
    int count;
    struct ir_attr *attrs = ir_attrs_without(w->b.ctx, n, to == TCC_NONE ? IR_ATTR_NONE : IR_ATTR_to, &count);
    if (to != TCC_NONE)
        attrs[count++] = ir_attr_dtype(IR_ATTR_to, to);
    return ir_build1(&w->b, n->op, nin, in, attrs);
}

/* Quantised bytes, cast(clip(t, lo, hi)) of whole numbers t, in the other type of bytes: the same 128 higher, or
 * lower. */
static struct ir_value *shift_quantised(struct rewrite *w, struct ir_node *cast, enum tcc_dtype to)
{
    int by = to == TCC_U8 ? 128 : -128, least = to == TCC_U8 ? 0 : -128;
    struct ir_node *clip = cast->in[0].value->def;
    struct composite_match m;
    struct q_form q;
    double lo, hi;
    if (q_centred(w, cast->in[0].value, &q) && !q.zeros && q.zero == by && rewrite_dtype_of(q.x) == to)
        return q.x;
    if (!composite_match(cast, COMPOSITE_quantise, &m) || !m.value['l' - 'a'] ||
        !tcc_is_float(rewrite_dtype_of(clip->out[0])) || !q_known(w->b.ctx, clip->in[1].value) ||
        !q_known(w->b.ctx, clip->in[2].value) || !ir_splat_f(clip->in[1].value, &lo) ||
        !ir_splat_f(clip->in[2].value, &hi) || lo + by < least || hi + by > least + 255 || lo != floor(lo) ||
        hi != floor(hi))
        return NULL;
    enum tcc_dtype d = rewrite_dtype_of(clip->out[0]);
    struct ir_builder *b = &w->b;
    struct ir_value *t = m.value['t' - 'a'], *offset = ir_constant_f(b, d, by);
    if (t->def && t->def->op == IR_add && q_known(b->ctx, t->def->in[1].value)) {
        offset = ir_binary(b, IR_add, t->def->in[1].value, offset);
        t = t->def->in[0].value;
    }
    struct ir_value *in[3] = {ir_binary(b, IR_add, t, offset), ir_constant_f(b, d, lo + by),
                              ir_constant_f(b, d, hi + by)};
    struct ir_value *v = in[0] ? ir_build1(b, IR_clip, 3, in, NULL) : NULL;
    return v ? ir_cast_to(b, v, to) : NULL;
}

static bool moves(enum ir_op op)
{
    return op == IR_reshape || op == IR_transpose || op == IR_slice || op == IR_expand || op == IR_max_pool;
}

static struct ir_value *shift(struct rewrite *w, struct ir_value *x, int depth)
{
    struct ir_node *n = x->def;
    if (!n || depth > 8)
        return NULL;
    struct ir_node *before = w->b.before;
    struct ir_block *block = w->b.block;
    if (n->op == IR_cast && n->block == block) {
        /* Where the bytes are made, so that all their readers can have it. */
        w->b.before = n->next;
        struct ir_value *v = shift_quantised(w, n, TCC_U8);
        w->b.before = before;
        return v;
    }
    if (!moves(n->op) || n->nin != 1)
        return NULL;
    struct ir_value *v = shift(w, n->in[0].value, depth + 1);
    if (!v || n->block != block)
        return NULL;
    w->b.before = n->next;
    v = q_again(w, n, 1, &v, TCC_NONE);
    w->b.before = before;
    return v;
}

struct ir_value *q_unsigned(struct rewrite *w, struct ir_value *x, bool free_only)
{
    struct ir_value *v = shift(w, x, 0);
    if (v || free_only)
        return v;
    v = ir_cast_to(&w->b, x, TCC_I32);
    v = ir_binary(&w->b, IR_add, v, ir_constant_i(&w->b, TCC_I32, 128));
    return v ? ir_cast_to(&w->b, v, TCC_U8) : NULL;
}

bool q_takes_signed(const struct rewrite *w)
{
    const struct pass_machine *m = pass_opts(w->run)->machine;
    return m && m->product_group && m->product_group(m, TCC_I8, TCC_I8) > 1;
}

/* Does a convolution in groups read v, or what a zero point and a scale make of it? */
static bool grouped_later(const struct ir_value *v, int depth)
{
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        const struct ir_node *n = u->user;
        bool goes_on = n->op == IR_cast || n->op == IR_sub || n->op == IR_add || n->op == IR_mul;
        if (n->op == IR_conv ? ir_get_i(n, IR_ATTR_groups, 1) > 1
                             : goes_on && depth < 5 && grouped_later(n->out[0], depth + 1))
            return true;
    }
    return false;
}

bool q_is_grouped(const struct ir_value *x)
{
    return grouped_later(x, 0);
}

struct ir_value *q_signed(struct rewrite *w, struct ir_value *x)
{
    struct ir_node *n = x->def;
    VEC(struct ir_node *) readers = {0};
    for (const struct ir_use *u = x->uses; u; u = u->next) {
        enum tcc_dtype d = u->user->op == IR_cast ? rewrite_dtype_of(u->user->out[0]) : TCC_NONE;
        if (d != TCC_F32 && d != TCC_I32)
            return NULL;
        VEC_PUSH(w->b.ctx, readers, u->user);
    }
    if (!n || n->op != IR_cast || n->block != w->b.block || q_is_grouped(x))
        return NULL;
    struct ir_builder b = w->b;
    w->b.before = n->next;
    struct ir_value *v = shift_quantised(w, n, TCC_I8);
    w->b = b;
    for (int i = 0; i < readers.n && v; i++) {
        struct ir_node *cast = readers.at[i];
        struct ir_builder at = {
            .ctx = b.ctx, .func = cast->block->func, .block = cast->block, .before = cast, .where = cast->where};
        enum tcc_dtype d = rewrite_dtype_of(cast->out[0]);
        struct ir_value *offset = d == TCC_F32 ? ir_constant_f(&at, d, 128) : ir_constant_i(&at, d, 128);
        struct ir_value *number = ir_binary(&at, IR_add, ir_cast_to(&at, v, d), offset);
        if (!number || number->type != cast->out[0]->type)
            return NULL;
        ir_replace_uses(cast->out[0], number);
    }
    return v;
}
