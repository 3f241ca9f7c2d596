/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantise: models with 8-bit tensors compute with bytes, not with the floats that their operators are defined by.
 *
 *   products       of (x - zx) * sx and (w - zw) * sw become products of bytes with sums in i32 (quantise_product.c);
 *                  of 8-bit floats times scales, products of those floats
 *   moves, pools   of (x - z) * s move x; so dequantised copies of whole feature maps don't arise
 *   i8             becomes u8, 128 higher, where it is made
 *   requantising   round(y / s) takes the factor 1 / s into the constants that y is made with; a relu that saturation
 *                  implies goes
 *
 * Exact, but for products of floats and the last rule, which are bounded: sums in i32 are exact, and each of at most
 * four constants (scale of x, w, y; bias) is rounded once more than the spelled-out form rounds it, so that y / s
 * changes by a few units in the last place. After rounding to an integer that is no change, but next to a tie, where it
 * is one quantum. --exact keeps the spelled-out form.
 */
#include "passes/opt/quantise_int.h"
#include "passes/util_int.h"

#include <math.h>

bool pass_quantise_run(struct pass_run *r);

/* -- Moves ------------------------------------------------------------------------------------------------------ */

static bool same_scale(const struct q_form *a, const struct q_form *b)
{
    double x, y;
    return rewrite_dtype_of(a->x) == rewrite_dtype_of(b->x) && q_per_tensor(a, &x) && q_per_tensor(b, &y) && x == y &&
           a->zero == b->zero;
}

static struct ir_value *move_bytes(struct rewrite *w, struct ir_node *n)
{
    struct q_form q, other;
    double scale;
    struct ir_value **in = IR_NEWN(w->b.ctx, n->nin + 1, struct ir_value *);
    int data = n->op == IR_concat ? n->nin : 1;
    for (int i = 0; i < n->nin; i++) {
        in[i] = n->in[i].value;
        if (i >= data)
            continue;
        if (!q_dequantised(w, in[i], &other) || !q_per_tensor(&other, &scale) || (i && !same_scale(&q, &other)))
            return NULL;
        q = i ? q : other;
        in[i] = other.x;
    }
    if (rewrite_dtype_of(n->out[0]) != TCC_F32 || !rewrite_go(w))
        return NULL;
    struct ir_value *v = q_again(w, n, n->nin, in, TCC_NONE);
    return v ? q_dequantise(w, v, q.zero, q.scale ? ir_constant_f(&w->b, TCC_F32, scale) : NULL) : NULL;
}

/* Padding by zeros is padding by the zero point. */
static struct ir_value *pad_bytes(struct rewrite *w, struct ir_node *n)
{
    struct q_form q;
    double scale, value = 0;
    const char *mode = ir_get_s(n, IR_ATTR_mode, "constant");
    if (!q_dequantised(w, n->in[0].value, &q) || !q_per_tensor(&q, &scale))
        return NULL;
    if (mode[0] == 'c' && rewrite_operand(n, 1) &&
        (!q_known(w->b.ctx, n->in[1].value) || !ir_splat_f(n->in[1].value, &value)))
        return NULL;
    bool fits = rewrite_dtype_of(q.x) == TCC_U8 ? q.zero >= 0 && q.zero <= 255 : q.zero >= -128 && q.zero <= 127;
    if (value != 0 || !fits || !rewrite_go(w))
        return NULL;
    struct ir_value *in[2] = {q.x, ir_constant_i(&w->b, rewrite_dtype_of(q.x), q.zero)};
    struct ir_value *v = q_again(w, n, mode[0] == 'c' ? 2 : 1, in, TCC_NONE);
    return v ? q_dequantise(w, v, q.zero, q.scale ? ir_constant_f(&w->b, TCC_F32, scale) : NULL) : NULL;
}

/* A mean of (x - z) * s is that of x, less z, times s. */
static struct ir_value *pool_bytes(struct rewrite *w, struct ir_node *n)
{
    struct q_form q;
    double scale;
    struct ir_value *x = n->in[0].value;
    if (x->def && x->def->op == IR_cast)
        return NULL;
    if (rewrite_dtype_of(n->out[0]) != TCC_F32 || !pass_bounded(w->run) || !q_dequantised(w, x, &q) ||
        !q_per_tensor(&q, &scale) || ir_get_s(n, IR_ATTR_mode, "valid")[0] != 'v' || !rewrite_go(w))
        return NULL;
    struct ir_value *v = ir_cast_to(&w->b, q.x, TCC_F32);
    v = v ? q_again(w, n, 1, &v, TCC_NONE) : NULL;
    if (v && q.zero)
        v = ir_binary(&w->b, IR_sub, v, ir_constant_f(&w->b, TCC_F32, (double)q.zero));
    return v && q.scale ? ir_binary(&w->b, IR_mul, v, q.scale) : v;
}

/* -- i8 as u8 ------------------------------------------------------------------------------------------------------ */

static struct ir_value *widen_unsigned(struct rewrite *w, struct ir_node *n)
{
    struct ir_value *x = n->in[0].value;
    enum tcc_dtype d = rewrite_dtype_of(n->out[0]);
    if (rewrite_dtype_of(x) != TCC_I8 || (d != TCC_F32 && d != TCC_I32) || (q_takes_signed(w) && !q_is_grouped(x)))
        return NULL;
    x = q_unsigned(w, x, true);
    if (!x || !rewrite_go(w))
        return NULL;
    struct ir_value *offset = d == TCC_F32 ? ir_constant_f(&w->b, d, 128) : ir_constant_i(&w->b, d, 128);
    return ir_binary(&w->b, IR_sub, ir_cast_to(&w->b, x, d), offset);
}

/* Zero points added one after the other are added at once: all of them are small integers. */
static struct ir_value *join_zeros(struct rewrite *w, struct ir_node *n)
{
    struct q_form q;
    struct ir_node *inner = n->in[0].value->def;
    enum tcc_dtype d = rewrite_dtype_of(n->out[0]);
    if (!inner || (inner->op != IR_add && inner->op != IR_sub) || !q_centred(w, n->out[0], &q) || q.zeros ||
        !rewrite_go(w))
        return NULL;
    struct ir_value *x = ir_cast_to(&w->b, q.x, d);
    struct ir_value *zero = d == TCC_F32 ? ir_constant_f(&w->b, d, (double)q.zero) : ir_constant_i(&w->b, d, q.zero);
    return q.zero ? ir_binary(&w->b, IR_sub, x, zero) : x;
}

/* -- Requantising -------------------------------------------------------------------------------------------------- */

static bool known_positive(struct rewrite *w, struct ir_value *v)
{
    const struct ir_tensor *t = q_known(w->b.ctx, v);
    for (int64_t i = 0; t && i < (t->splat ? 1 : t->nelems); i++)
        if (!(tcc_load_f64((enum tcc_dtype)t->dtype, ir_tensor_at(t, i)) > 0))
            return false;
    return t != NULL;
}

/* v * k for a positive constant k, without another multiplication where v ends in one: *free says whether. */
static struct ir_value *scaled(struct rewrite *w, struct ir_value *v, struct ir_value *k, bool *is_free, int depth)
{
    struct ir_builder *b = &w->b;
    struct ir_node *n = v->def;
    bool once = ir_has_one_use(v), left, right;
    *is_free = true;
    if (q_known(b->ctx, v))
        return ir_binary(b, IR_mul, v, k);
    if (n && depth < 12 && ir_op_info(n->op)->kind == IR_K_MAP) {
        for (int i = 0; n->op == IR_mul && i < 2; i++)
            if (q_known(b->ctx, n->in[i].value))
                return ir_binary(b, IR_mul, n->in[1 - i].value, ir_binary(b, IR_mul, n->in[i].value, k));
        if (n->op == IR_relu && once) {
            struct ir_value *x = scaled(w, n->in[0].value, k, is_free, depth + 1);
            return x && *is_free ? ir_unary(b, IR_relu, x) : NULL;
        }
        if ((n->op == IR_add || n->op == IR_sub || n->op == IR_max || n->op == IR_min) && once) {
            struct ir_value *x = scaled(w, n->in[0].value, k, &left, depth + 1);
            struct ir_value *y = scaled(w, n->in[1].value, k, &right, depth + 1);
            if (x && y && (left || right)) {
                *is_free = left && right;
                return ir_binary(b, n->op, x, y);
            }
        }
        if (n->op == IR_clip && once) {
            struct ir_value *in[3];
            for (int i = 0; i < 3; i++)
                in[i] = scaled(w, n->in[i].value, k, i ? &right : &left, depth + 1);
            if (in[0] && in[1] && in[2] && left)
                return ir_build1(b, IR_clip, 3, in, NULL);
        }
    }
    *is_free = false;
    return ir_binary(b, IR_mul, v, k);
}

/* round(y / s) or round(y * k): the factor goes into y's constants; bytes of the same scale are integers already. */
static struct ir_value *round_quotient(struct rewrite *w, struct ir_node *n)
{
    struct ir_builder *b = &w->b;
    struct ir_node *by = n->in[0].value->def;
    struct q_form q;
    double from, to;
    bool is_free;
    if (rewrite_dtype_of(n->out[0]) != TCC_F32 || !pass_bounded(w->run) || !by ||
        (by->op != IR_div && by->op != IR_mul) || by->in[0].value->type != n->out[0]->type ||
        !known_positive(w, by->in[1].value))
        return NULL;
    struct ir_value *y = by->in[0].value, *k = by->in[1].value;
    if (q_dequantised(w, y, &q) && q_per_tensor(&q, &from) && ir_splat_f(k, &to) &&
        fabs((by->op == IR_div ? from / to : from * to) - 1) < 1e-6 && rewrite_go(w))
        return q_dequantise(w, q.x, q.zero, NULL);
    if (!rewrite_go(w))
        return NULL;
    if (by->op == IR_div)
        k = ir_binary(b, IR_div, ir_constant_f(b, TCC_F32, 1), k);
    y = q_known(b->ctx, k) ? scaled(w, y, k, &is_free, 0) : NULL;
    return y && (is_free || by->op == IR_div) ? ir_unary(b, IR_round, y) : NULL;
}

/* max(u, c), or relu, or min, behind which a clip has the narrower bound; NULL: none. */
static struct ir_value *unbounded(struct rewrite *w, struct ir_value *v, double lo, double hi)
{
    struct ir_node *n = v->def;
    double c = 0;
    if (!n || (n->op != IR_relu && n->op != IR_max && n->op != IR_min))
        return NULL;
    if (n->op == IR_relu)
        return lo >= 0 ? n->in[0].value : NULL;
    for (int i = 0; i < 2; i++)
        if (n->in[1 - i].value->type == v->type && q_known(w->b.ctx, n->in[i].value) &&
            ir_splat_f(n->in[i].value, &c) && (n->op == IR_max ? c <= lo : c >= hi))
            return n->in[1 - i].value;
    return NULL;
}

/* clip(round(max(u, c)) + z, lo, hi) = clip(round(u) + z, lo, hi) where c <= lo - z; and bytes are within the bounds of
 * bytes. */
static struct ir_value *clip_rounded(struct rewrite *w, struct ir_node *n)
{
    struct ir_builder *b = &w->b;
    struct ir_value *x = n->in[0].value, *zero = NULL;
    struct q_form q;
    double lo, hi, z = 0;
    if (!tcc_is_float(rewrite_dtype_of(x)) || !q_known(b->ctx, n->in[1].value) || !q_known(b->ctx, n->in[2].value) ||
        !ir_splat_f(n->in[1].value, &lo) || !ir_splat_f(n->in[2].value, &hi))
        return NULL;
    if (x->type == n->out[0]->type && q_centred(w, x, &q) && !q.zeros) {
        int64_t least = rewrite_dtype_of(q.x) == TCC_I8 ? -128 : 0;
        return lo <= least - q.zero && hi >= least + 255 - q.zero && rewrite_go(w) ? x : NULL;
    }
    if (x->def && x->def->op == IR_add && q_known(b->ctx, x->def->in[1].value) && ir_splat_f(x->def->in[1].value, &z)) {
        zero = x->def->in[1].value;
        x = x->def->in[0].value;
    }
    if (!x->def || x->def->op != IR_round || x->type != n->out[0]->type || z != floor(z))
        return NULL;
    struct ir_value *u = unbounded(w, x->def->in[0].value, lo - z, hi - z);
    if (!u || !rewrite_go(w))
        return NULL;
    u = ir_unary(b, IR_round, u);
    struct ir_value *in[3] = {zero ? ir_binary(b, IR_add, u, zero) : u, n->in[1].value, n->in[2].value};
    return in[0] ? ir_build1(b, IR_clip, 3, in, NULL) : NULL;
}

/* A byte that became a float and is a byte again. */
static struct ir_value *cast_back(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *inner = rewrite_operand_node(n, 0, IR_cast);
    enum tcc_dtype d = rewrite_dtype_of(n->out[0]);
    if (!inner || (d != TCC_U8 && d != TCC_I8) || rewrite_dtype_of(inner->in[0].value) != d ||
        (rewrite_dtype_of(inner->out[0]) != TCC_F32 && rewrite_dtype_of(inner->out[0]) != TCC_I32) || !rewrite_go(w))
        return NULL;
    return inner->in[0].value;
}

/* A cast to bytes saturates, so that a clip to their range before it is idle. Last: other rules look for the clip. */
static struct ir_value *drop_clip(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *clip = rewrite_operand_node(n, 0, IR_clip);
    double lo, hi, least = rewrite_dtype_of(n->out[0]) == TCC_I8 ? -128 : 0;
    if (!clip || (rewrite_dtype_of(n->out[0]) != TCC_U8 && rewrite_dtype_of(n->out[0]) != TCC_I8) ||
        !tcc_is_float(rewrite_dtype_of(clip->out[0])) || clip->in[0].value->type != clip->out[0]->type ||
        !ir_splat_f(clip->in[1].value, &lo) || !ir_splat_f(clip->in[2].value, &hi) || lo > least || hi < least + 255 ||
        !rewrite_go(w))
        return NULL;
    return q_again(w, n, 1, &clip->in[0].value, TCC_NONE);
}

RULES(quantise_last, true, RULE(cast, drop_clip));

RULES(quantise, true, RULE(cast, cast_back), RULE(cast, widen_unsigned), RULE(add, join_zeros), RULE(sub, join_zeros),
      RULE(round, round_quotient), RULE(clip, clip_rounded), RULE(matmul, q_integer_product),
      RULE(matmul, q_float_product), RULE(matmul, q_fp8_product), RULE(conv, q_fp8_product),
      RULE(conv, q_integer_product), RULE(conv, q_float_product), RULE(reshape, move_bytes),
      RULE(transpose, move_bytes), RULE(slice, move_bytes), RULE(expand, move_bytes), RULE(gather, move_bytes),
      RULE(concat, move_bytes), RULE(max_pool, move_bytes), RULE(pad, pad_bytes), RULE(avg_pool, pool_bytes));

/* Is there a tensor of bytes, or of 8-bit floats? */
static bool has_bytes(const struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        for (int i = 0; i < n->nout; i++)
            if (ir_is_tensor(n->out[i]->type) && tcc_dtype_bytes((enum tcc_dtype)n->out[i]->type->dtype) == 1 &&
                n->out[i]->type->dtype != TCC_BOOL)
                return true;
        for (int i = 0; i < n->nregions; i++)
            if (has_bytes(n->regions[i]))
                return true;
    }
    return false;
}

static bool share(struct pass_run *r)
{
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        if (has_bytes(f->body))
            return pass_share_equal(r);
    return true;
}

/* Equal nodes are joined before, so that a weight which many share is worked out once, and behind, for its sums. */
bool pass_quantise_run(struct pass_run *r)
{
    if (!share(r))
        return false;
    rewrite_module(r, &quantise);
    rewrite_module(r, &quantise_last);
    return share(r);
}
