/* SPDX-License-Identifier: Apache-2.0 */
/* quantise_form.c - finds and makes the forms in which tensors of bytes stand for numbers (quantise_int.h). */
#include "passes/opt/quantise_int.h"

#include <math.h>

static bool is_byte(const struct ir_value *v)
{
    return v && (rewrite_dtype_of(v) == TCC_I8 || rewrite_dtype_of(v) == TCC_U8);
}

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

bool q_centred(struct rewrite *w, struct ir_value *v, struct q_form *q)
{
    *q = (struct q_form){0};
    if (rewrite_dtype_of(v) != TCC_F32 && rewrite_dtype_of(v) != TCC_I32)
        return false;
    for (int depth = 0; depth < 4 && v->def; depth++) {
        struct ir_node *n = v->def;
        if (n->op == IR_cast) {
            q->x = n->in[0].value;
            return is_byte(q->x);
        }
        if ((n->op != IR_add && n->op != IR_sub) || n->in[0].value->type != v->type)
            return false;
        /* Only of what is made of bytes: or constants would be worked out in vain. */
        const struct ir_node *a = n->in[0].value->def;
        if (!a || (a->op != IR_cast && a->op != IR_add && a->op != IR_sub) ||
            !take_zero(w, q, n->in[1].value, n->op == IR_sub ? 1 : -1))
            return false;
        v = n->in[0].value;
    }
    return false;
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
    struct ir_node *n = v->def;
    if (rewrite_dtype_of(v) != TCC_F32 || !n)
        return false;
    if (n->op != IR_mul)
        return q_centred(w, v, q);
    for (int i = 0; i < 2; i++) {
        struct ir_value *x = n->in[i].value, *scale = n->in[1 - i].value;
        if (x->type != v->type || !q_centred(w, x, q))
            continue;
        const struct ir_tensor *t = q_known(w->b.ctx, scale);
        q->scale = n->in[1 - i].value;
        return t && positive(t);
    }
    return false;
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
    struct ir_attr *attrs = IR_NEWN(w->b.ctx, n->nattrs + 2, struct ir_attr);
    int count = 0;
    for (int i = 0; i < n->nattrs; i++)
        if (to == TCC_NONE || n->attrs[i].key != IR_ATTR_to)
            attrs[count++] = n->attrs[i];
    if (to != TCC_NONE)
        attrs[count++] = ir_attr_dtype(IR_ATTR_to, to);
    return ir_build1(&w->b, n->op, nin, in, attrs);
}

/* cast(clip(t, lo, hi)) as the same 128 higher. */
static struct ir_value *shift_quantised(struct rewrite *w, const struct ir_node *cast)
{
    struct ir_node *clip = cast->in[0].value->def;
    struct q_form q;
    double lo, hi;
    if (q_centred(w, cast->in[0].value, &q) && !q.zeros && q.zero == 128 && rewrite_dtype_of(q.x) == TCC_U8)
        return q.x;
    if (!clip || clip->op != IR_clip || !tcc_is_float(rewrite_dtype_of(clip->out[0])) ||
        !q_known(w->b.ctx, clip->in[1].value) || !q_known(w->b.ctx, clip->in[2].value) ||
        !ir_splat_f(clip->in[1].value, &lo) || !ir_splat_f(clip->in[2].value, &hi) || lo < -128 || hi > 127 ||
        lo != floor(lo) || hi != floor(hi))
        return NULL;
    enum tcc_dtype d = rewrite_dtype_of(clip->out[0]);
    struct ir_builder *b = &w->b;
    struct ir_value *t = clip->in[0].value, *offset = ir_constant_f(b, d, 128);
    if (t->def && t->def->op == IR_add && q_known(b->ctx, t->def->in[1].value)) {
        offset = ir_binary(b, IR_add, t->def->in[1].value, offset);
        t = t->def->in[0].value;
    }
    struct ir_value *in[3] = {ir_binary(b, IR_add, t, offset), ir_constant_f(b, d, lo + 128),
                              ir_constant_f(b, d, hi + 128)};
    struct ir_value *v = in[0] ? ir_build1(b, IR_clip, 3, in, NULL) : NULL;
    return v ? ir_cast_to(b, v, TCC_U8) : NULL;
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
        struct ir_value *v = shift_quantised(w, n);
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
