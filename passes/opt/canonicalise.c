/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canonicalise: one form per meaning, so that later passes look for one form only.
 *
 *   operands      of commuting ops: a constant last, else the value first that stands first (in the end, when all
 *                 stands where it will: the form depends on nothing but the text); comparisons with a constant: the
 *                 constant last
 *   subtraction   of a constant is addition of its negative; division by a power of two is a multiplication
 *   identities    x + 0, x * 1, x ^ 1, - - x, relu relu x, select c x x, ...
 *   words         x * x is square, max(0, x) is relu, 1 / x is recip, 1 / sqrt(x) is rsqrt, x * sigmoid(x) is silu
 *   reductions    over nothing, or over axes of extent 1
 *   regions       an `if` whose condition is constant is replaced by the branch, a loop that runs once by its body
 *   symbols       a `bind` of values that are expressions already is replaced by these
 *
 * Float licence: a rule without a mark is exact (every bit of a result that is no NaN). [b] bounded: at most 1.5 ULP
 * more, or the sign of a zero. [f] fast: wrong for infinities, or without a bound.
 */
#include "passes/rewrite_int.h"
#include "passes/util_int.h"

#include <math.h>
#include <stdlib.h>

bool pass_canonicalise_run(struct pass_run *r);

static bool is_constant(const struct ir_value *v)
{
    return ir_const_of(v) != NULL;
}

static bool float_result(const struct ir_node *n)
{
    return tcc_is_float(rewrite_dtype_of(n->out[0]));
}

/* -- Operand order ------------------------------------------------------------------------------ */

static bool commutes(const struct ir_node *n)
{
    return (ir_op_info(n->op)->flags & IR_F_COMMUTES) && n->nin == 2;
}

static void swap_operands(struct ir_node *n)
{
    struct ir_value *x = n->in[0].value, *y = n->in[1].value;
    ir_set_operand(n, 0, y);
    ir_set_operand(n, 1, x);
}

/* add(c, x) = add(x, c) */
static struct ir_value *constant_last(struct rewrite *w, struct ir_node *n)
{
    if (!commutes(n) || !is_constant(n->in[0].value) || is_constant(n->in[1].value) || !rewrite_go(w))
        return NULL;
    swap_operands(n);
    return n->out[0];
}

/* lt(c, x) = gt(x, c) and so on */
static struct ir_value *order_comparison(struct rewrite *w, struct ir_node *n)
{
    enum ir_op turned = n->op == IR_lt ? IR_gt : n->op == IR_gt ? IR_lt : n->op == IR_le ? IR_ge : IR_le;
    if (!is_constant(n->in[0].value) || is_constant(n->in[1].value) || !rewrite_go(w))
        return NULL;
    return ir_binary(&w->b, turned, n->in[1].value, n->in[0].value);
}

/* -- Constants on the right ------------------------------------------------------------------------ */

/* sub(x, c) = add(x, -c): IEEE subtraction is defined so; integers wrap */
static struct ir_value *sub_constant(struct rewrite *w, struct ir_node *n)
{
    enum tcc_dtype d = rewrite_dtype_of(n->out[0]);
    const struct ir_tensor *c = ir_const_of(n->in[1].value);
    if (!c || (!c->splat && c->nelems > 1 << 20) || is_constant(n->in[0].value) ||
        (!tcc_is_float(d) && !tcc_is_signed(d)) || !rewrite_go(w))
        return NULL;
    return ir_binary(&w->b, IR_add, n->in[0].value, ir_unary(&w->b, IR_neg, n->in[1].value));
}

/* Is 1/v a number of that type, with no subnormal near? Then x / v and x * (1/v) are the same. */
static bool exact_reciprocal(enum tcc_dtype d, double v)
{
    int exponent;
    char buffer[16];
    if (!(fabs(frexp(v, &exponent)) == 0.5) || abs(exponent) > 100)
        return false;
    tcc_store_f64(d, buffer, 1 / v);
    return tcc_load_f64(d, buffer) == 1 / v;
}

/* div(x, c) = mul(x, 1/c): exact for powers of two; [f] for others */
static struct ir_value *div_constant(struct rewrite *w, struct ir_node *n)
{
    enum tcc_dtype d = rewrite_dtype_of(n->out[0]);
    const struct ir_tensor *c = ir_const_of(n->in[1].value);
    if (!c || !tcc_is_float(d) || is_constant(n->in[0].value) || (!c->splat && c->nelems > 1 << 16))
        return NULL;
    for (int64_t i = 0; i < (c->splat ? 1 : c->nelems) && !pass_fast(w->run); i++)
        if (!exact_reciprocal(d, tcc_load_f64(d, ir_tensor_at(c, i))))
            return NULL;
    if (!rewrite_go(w))
        return NULL;
    return ir_binary(&w->b, IR_mul, n->in[0].value, ir_unary(&w->b, IR_recip, n->in[1].value));
}

/* add(add(x, a), b) = add(x, a + b), and mul: integers; [f] floats */
static struct ir_value *join_constants(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *inner = rewrite_operand_node(n, 0, n->op);
    if (!inner || !is_constant(n->in[1].value) || !is_constant(rewrite_operand(inner, 1)) ||
        (float_result(n) && !pass_fast(w->run)) || !rewrite_go(w))
        return NULL;
    return ir_binary(&w->b, n->op, inner->in[0].value, ir_binary(&w->b, n->op, inner->in[1].value, n->in[1].value));
}

/* -- Identities --------------------------------------------------------------------------------------- */

/* x + -0, x + 0 for integers, [b] x + 0: -0 would have become 0 */
static struct ir_value *add_zero(struct rewrite *w, struct ir_node *n)
{
    bool zero =
        rewrite_operand_is(n, 1, float_result(n) ? -0.0 : 0) || (pass_bounded(w->run) && rewrite_operand_is(n, 1, 0));
    return zero && rewrite_has_result_type(n, n->in[0].value) && rewrite_go(w) ? n->in[0].value : NULL;
}

/* x * 1, x / 1, x ^ 1 */
static struct ir_value *by_one(struct rewrite *w, struct ir_node *n)
{
    return rewrite_operand_is(n, 1, 1) && rewrite_has_result_type(n, n->in[0].value) && rewrite_go(w) ? n->in[0].value
                                                                                                      : NULL;
}

/* x * -1 = -x */
static struct ir_value *mul_minus_one(struct rewrite *w, struct ir_node *n)
{
    return rewrite_operand_is(n, 1, -1) && rewrite_has_result_type(n, n->in[0].value) && rewrite_go(w)
               ? ir_unary(&w->b, IR_neg, n->in[0].value)
               : NULL;
}

/* or, xor, shl, shr by 0; for bools: or, xor with false */
static struct ir_value *bits_zero(struct rewrite *w, struct ir_node *n)
{
    return rewrite_operand_is(n, 1, 0) && rewrite_has_result_type(n, n->in[0].value) && rewrite_go(w) ? n->in[0].value
                                                                                                      : NULL;
}

/* and(x, true) = x */
static struct ir_value *and_true(struct rewrite *w, struct ir_node *n)
{
    bool yes = rewrite_dtype_of(n->out[0]) == TCC_BOOL && rewrite_operand_is(n, 1, 1);
    return yes && rewrite_has_result_type(n, n->in[0].value) && rewrite_go(w) ? n->in[0].value : NULL;
}

/* min, max, and, or of a value with itself */
static struct ir_value *with_itself(struct rewrite *w, struct ir_node *n)
{
    return n->in[0].value == n->in[1].value && rewrite_go(w) ? n->in[0].value : NULL;
}

/* neg neg, not not: the operand's operand */
static struct ir_value *twice_back(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *inner = rewrite_operand_node(n, 0, n->op);
    return inner && rewrite_go(w) ? inner->in[0].value : NULL;
}

/* abs abs, relu relu, floor floor...: the operand */
static struct ir_value *twice_once(struct rewrite *w, struct ir_node *n)
{
    return rewrite_operand_node(n, 0, n->op) && rewrite_go(w) ? n->in[0].value : NULL;
}

/* abs(-x) = abs(x), square(-x) = square(|x|) = square(x) */
static struct ir_value *even(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *inner = rewrite_operand_node(n, 0, IR_neg);
    if (!inner && n->op == IR_square)
        inner = rewrite_operand_node(n, 0, IR_abs);
    return inner && rewrite_go(w) ? ir_unary(&w->b, n->op, inner->in[0].value) : NULL;
}

/* select(c, x, x) = x; select with a constant condition */
static struct ir_value *select_known(struct rewrite *w, struct ir_node *n)
{
    double c;
    struct ir_value *v = NULL;
    if (n->in[1].value == n->in[2].value)
        v = n->in[1].value;
    else if (ir_splat_f(n->in[0].value, &c))
        v = n->in[c != 0 ? 1 : 2].value;
    return v && rewrite_has_result_type(n, v) && rewrite_go(w) ? v : NULL;
}

/* not(eq(x, y)) = ne(x, y) and the other way round; the order comparisons differ for NaN */
static struct ir_value *not_equal(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *eq = rewrite_operand_node(n, 0, IR_eq), *ne = rewrite_operand_node(n, 0, IR_ne), *c = eq ? eq : ne;
    return c && rewrite_go(w) ? ir_binary(&w->b, eq ? IR_ne : IR_eq, c->in[0].value, c->in[1].value) : NULL;
}

/* -- Words ----------------------------------------------------------------------------------------------- */

/* mul(x, x) = square(x) */
static struct ir_value *square(struct rewrite *w, struct ir_node *n)
{
    return n->in[0].value == n->in[1].value && rewrite_go(w) ? ir_unary(&w->b, IR_square, n->in[0].value) : NULL;
}

/* mul(x, sigmoid(x)) = silu(x) [b] */
static struct ir_value *silu(struct rewrite *w, struct ir_node *n)
{
    for (int i = 0; i < 2; i++) {
        struct ir_node *s = rewrite_operand_node(n, i, IR_sigmoid);
        if (s && s->in[0].value == n->in[1 - i].value && pass_bounded(w->run) && rewrite_go(w))
            return ir_unary(&w->b, IR_silu, s->in[0].value);
    }
    return NULL;
}

/* max(0, x) = relu(x), as its body says; max(x, 0) = relu(x) [b]: the sign of a zero */
static struct ir_value *max_zero(struct rewrite *w, struct ir_node *n)
{
    struct ir_value *x = rewrite_operand_is(n, 0, 0)                                                 ? n->in[1].value
                         : rewrite_operand_is(n, 1, 0) && (!float_result(n) || pass_bounded(w->run)) ? n->in[0].value
                                                                                                     : NULL;
    return x && rewrite_has_result_type(n, x) && rewrite_go(w) ? ir_unary(&w->b, IR_relu, x) : NULL;
}

/* clip(x, 0, inf) = relu(x); clip(x, -inf, inf) = x: as the bodies say */
static struct ir_value *clip_open(struct rewrite *w, struct ir_node *n)
{
    struct ir_value *x = n->in[0].value;
    if (!float_result(n) || !rewrite_has_result_type(n, x) || !rewrite_operand_is(n, 2, INFINITY))
        return NULL;
    if (rewrite_operand_is(n, 1, 0))
        return rewrite_go(w) ? ir_unary(&w->b, IR_relu, x) : NULL;
    return rewrite_operand_is(n, 1, -INFINITY) && rewrite_go(w) ? x : NULL;
}

/* div(1, x) = recip(x) */
static struct ir_value *recip(struct rewrite *w, struct ir_node *n)
{
    struct ir_value *x = n->in[1].value;
    return float_result(n) && rewrite_operand_is(n, 0, 1) && rewrite_has_result_type(n, x) && rewrite_go(w)
               ? ir_unary(&w->b, IR_recip, x)
               : NULL;
}

/* recip(sqrt(x)) = rsqrt(x) */
static struct ir_value *rsqrt(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *root = rewrite_operand_node(n, 0, IR_sqrt);
    return root && rewrite_go(w) ? ir_unary(&w->b, IR_rsqrt, root->in[0].value) : NULL;
}

/* pow(x, 2) = square(x), pow(x, 3) = x * x * x, pow(x, -1) = 1/x [b]; pow(x, 0.5) = sqrt(x) [f]: -0, -inf */
static struct ir_value *pow_constant(struct rewrite *w, struct ir_node *n)
{
    struct ir_value *x = n->in[0].value;
    bool bounded = pass_bounded(w->run) || !float_result(n);

    if (!rewrite_has_result_type(n, x))
        return NULL;
    if (rewrite_operand_is(n, 1, 2))
        return bounded && rewrite_go(w) ? ir_unary(&w->b, IR_square, x) : NULL;
    if (rewrite_operand_is(n, 1, 3))
        return bounded && rewrite_go(w) ? ir_binary(&w->b, IR_mul, ir_unary(&w->b, IR_square, x), x) : NULL;
    if (rewrite_operand_is(n, 1, -1))
        return float_result(n) && bounded && rewrite_go(w) ? ir_unary(&w->b, IR_recip, x) : NULL;
    if (rewrite_operand_is(n, 1, 0.5))
        return pass_fast(w->run) && rewrite_go(w) ? ir_unary(&w->b, IR_sqrt, x) : NULL;
    return NULL;
}

/* -- Reductions ---------------------------------------------------------------------------------------------- */

/* Over no axis: x. Over axes of extent 1 only: a reshape; a sum [b]: -0 would have become 0. */
static struct ir_value *reduce_nothing(struct rewrite *w, struct ir_node *n)
{
    const struct ir_attr *axes = ir_attr(n, IR_ATTR_axes);
    struct ir_value *x = n->in[0].value;
    ir_type t = n->out[0]->type;

    for (int i = 0; axes && i < axes->n; i++)
        if (!ir_is_value(x->type->dim[axes->ints[i]], 1))
            return NULL;
    if (axes && axes->n && n->op == IR_reduce_sum && float_result(n) && !pass_bounded(w->run))
        return NULL;
    if (!rewrite_go(w))
        return NULL;
    return rewrite_has_result_type(n, x) ? x : ir_reshape_to(&w->b, x, t->rank, t->dim);
}

RULES(canonicalise, false, RULE(OP_NONE, constant_last), RULE(lt, order_comparison), RULE(le, order_comparison),
      RULE(gt, order_comparison), RULE(ge, order_comparison), RULE(sub, sub_constant), RULE(div, by_one),
      RULE(div, recip), RULE(div, div_constant), RULE(add, add_zero), RULE(add, join_constants), RULE(mul, by_one),
      RULE(mul, mul_minus_one), RULE(mul, square), RULE(mul, silu), RULE(mul, join_constants), RULE(pow, by_one),
      RULE(pow, pow_constant), RULE(or, bits_zero), RULE(xor, bits_zero), RULE(shl, bits_zero), RULE(shr, bits_zero),
      RULE(and, and_true), RULE(min, with_itself), RULE(max, with_itself), RULE(and, with_itself),
      RULE(or, with_itself), RULE(neg, twice_back), RULE(not, twice_back), RULE(abs, twice_once),
      RULE(relu, twice_once), RULE(floor, twice_once), RULE(ceil, twice_once), RULE(trunc, twice_once),
      RULE(round, twice_once), RULE(sign, twice_once), RULE(abs, even), RULE(square, even), RULE(select, select_known),
      RULE(not, not_equal), RULE(max, max_zero), RULE(clip, clip_open), RULE(recip, rsqrt),
      RULE(reduce_sum, reduce_nothing), RULE(reduce_prod, reduce_nothing), RULE(reduce_max, reduce_nothing),
      RULE(reduce_min, reduce_nothing));

/* -- Regions ---------------------------------------------------------------------------------------------------- */

/* Lists, for dims of `declared` that are symbols and stand for another dim in `actual`, the pairs; false when the types
 * differ in more than that. */
struct pairs {
    int n;
    ir_expr from[64], to[64];
};

static bool unify(struct pairs *p, ir_type declared, ir_type actual)
{
    if (declared == actual)
        return true;
    if (declared->kind != IR_T_TENSOR || actual->kind != IR_T_TENSOR || declared->dtype != actual->dtype ||
        declared->rank != actual->rank)
        return false;
    for (int i = 0; i < declared->rank; i++) {
        ir_expr d = declared->dim[i], a = actual->dim[i];
        if (d == a)
            continue;
        for (int k = 0; k < p->n; k++)
            if (p->from[k] == d)
                d = p->to[k];
        if (d == a)
            continue;
        if (d->kind != IR_X_SYM || p->n == 64 || ir_uses_sym(a, d))
            return false;
        p->from[p->n] = d;
        p->to[p->n++] = a;
    }
    return true;
}

/* Replaces an `if` by the branch that its constant condition names. */
static bool inline_if(struct pass_run *r, struct ir_node *n)
{
    const struct ir_tensor *c = ir_const_of(n->in[0].value);
    struct ir_func *f = n->block->func;
    struct pairs pairs = {0};

    if (!c || c->nelems != 1)
        return true;
    struct ir_block *branch = n->regions[*(const uint8_t *)c->data ? 0 : 1];
    const struct ir_node *yield = branch->last;
    for (int i = 0; i < n->nout; i++)
        if (!unify(&pairs, n->out[i]->type, yield->in[i].value->type))
            return true;
    if (!pass_changed(r))
        return true;
    struct ir_builder b = {.ctx = pass_ctx(r), .func = f, .block = n->block, .before = n, .where = n->where};
    struct ir_value **map = IR_NEWN(b.ctx, f->nvalues, struct ir_value *),
                    **results = IR_NEWN(b.ctx, n->nout + 1, struct ir_value *);
    ir_clone_block(&b, branch, map, results);
    for (int i = 0; i < n->nout; i++)
        ir_replace_uses(n->out[i], results[i]);
    ir_remove(n);
    return pass_substitute(f, pairs.n, pairs.from, pairs.to);
}

static bool is_const_bool(const struct ir_value *v, bool is)
{
    const struct ir_tensor *t = v ? ir_const_of(v) : NULL;
    return t && t->nelems == 1 && t->dtype == TCC_BOOL && (*(const uint8_t *)ir_tensor_at(t, 0) != 0) == is;
}

/* Does the body of a loop run once, whatever the inputs are? Its limit says so, or the condition that the body
 * yields. */
static bool runs_once(struct ir_ctx *ctx, const struct ir_node *n)
{
    ir_expr trips = NULL;
    if (n->in[1].value && !is_const_bool(n->in[1].value, true))
        return false;
    if (n->in[0].value && pass_exprs_of(ctx, n->in[0].value, &trips, 1) != 1)
        return false;
    return (trips && ir_is_value(trips, 1)) ||
           ((!trips || trips->lo >= 1) && is_const_bool(n->regions[0]->last->in[0].value, false));
}

/* Replaces a loop whose body runs once by that body. What it collects are stacks of one. */
static bool inline_loop(struct pass_run *r, struct ir_node *n)
{
    struct ir_ctx *ctx = pass_ctx(r);
    struct ir_func *f = n->block->func;
    struct ir_block *body = n->regions[0];
    const struct ir_node *yield = body->last;
    int ncarried = n->nin - 2;
    struct pairs pairs = {0};
    ir_expr dims[TCC_MAX_RANK + 1];

    if (!runs_once(ctx, n))
        return true;
    for (int i = 0; i < n->nout; i++) {
        ir_type t = yield->in[1 + i].value->type;
        if (i < ncarried && body->params[2 + i]->type != n->in[2 + i].value->type)
            return true;
        if (i >= ncarried) {
            if (!ir_is_tensor(t) || t->rank == TCC_MAX_RANK)
                return true;
            dims[0] = ir_const(ctx, 1);
            for (int d = 0; d < t->rank; d++)
                dims[d + 1] = t->dim[d];
            t = ir_tensor_type(ctx, (enum tcc_dtype)t->dtype, t->rank + 1, dims);
        }
        if (!unify(&pairs, n->out[i]->type, t))
            return true;
    }
    if (!pass_changed(r))
        return true;
    struct ir_builder b = {.ctx = ctx, .func = f, .block = n->block, .before = n, .where = n->where};
    int64_t first = 0;
    uint8_t go = 1;
    struct ir_value *iteration = ir_constant(&b, ir_tensor_splat(TCC_I64, 0, NULL, &first)),
                    *condition = ir_constant(&b, ir_tensor_splat(TCC_BOOL, 0, NULL, &go));
    struct ir_value **map = IR_NEWN(ctx, f->nvalues, struct ir_value *),
                    **results = IR_NEWN(ctx, n->nout + 2, struct ir_value *);
    if (!iteration || !condition)
        return false;
    for (int i = 0; i < body->nparams; i++)
        map[body->params[i]->id] = i == 0 ? iteration : i == 1 ? condition : n->in[i].value;
    ir_clone_block(&b, body, map, results);
    for (int i = 0; i < n->nout; i++) {
        struct ir_value *v = results[1 + i];
        if (i >= ncarried) {
            ir_type t = n->out[i]->type;
            dims[0] = ir_const(ctx, 1);
            for (int d = 0; d < v->type->rank; d++)
                dims[d + 1] = v->type->dim[d];
            v = ir_reshape_to(&b, v, t->rank, dims);
            if (!v)
                return false;
        }
        ir_replace_uses(n->out[i], v);
    }
    ir_remove(n);
    return pass_substitute(f, pairs.n, pairs.from, pairs.to);
}

/* -- Symbols ------------------------------------------------------------------------------------------------------- */

/* The upper bound that a symbol has by default: no dim that memory can hold is larger, so nothing is lost with it. */
#define ANY_SIZE ((int64_t)1 << 40)

/* bind of values that are expressions: the symbols are these, if they lie within the symbols' bounds for certain. */
static bool resolve_bind(struct pass_run *r, struct ir_node *n)
{
    const struct ir_attr *syms = ir_attr(n, IR_ATTR_syms);
    ir_expr to[64];
    struct ir_func *f = n->block->func;
    int count = pass_exprs_of(pass_ctx(r), n->in[0].value, to, 64);

    if (count < 0 || count != syms->n)
        return true;
    for (int i = 0; i < count; i++)
        if (to[i]->lo < syms->exprs[i]->lo || (to[i]->hi > syms->exprs[i]->hi && syms->exprs[i]->hi < ANY_SIZE))
            return true;
    if (!pass_changed(r))
        return true;
    const ir_expr *from = syms->exprs;
    ir_remove(n);
    return pass_substitute(f, count, from, to);
}

/* unbox(box(x)) = x, its symbols being x's dims */
static bool unbox_box(struct pass_run *r, struct ir_node *n)
{
    struct ir_node *box = rewrite_operand_node(n, 0, IR_box);
    struct pairs pairs = {0};
    struct ir_func *f = n->block->func;

    if (!box || !unify(&pairs, n->out[0]->type, box->in[0].value->type) || !pass_changed(r))
        return true;
    ir_replace_uses(n->out[0], box->in[0].value);
    ir_remove(n);
    return pass_substitute(f, pairs.n, pairs.from, pairs.to);
}

static bool resolve_block(struct pass_run *r, struct ir_block *b)
{
    bool ok = true;
    for (struct ir_node *n = b->first, *next; n && ok; n = next) {
        /* What is inlined stands before the `if`, and the next round of the pass sees it. */
        next = n->next;
        for (int i = 0; i < n->nregions && ok; i++)
            ok = resolve_block(r, n->regions[i]);
        if (!ok)
            break;
        if (n->op == IR_if)
            ok = inline_if(r, n);
        else if (n->op == IR_loop)
            ok = inline_loop(r, n);
        else if (n->op == IR_bind)
            ok = resolve_bind(r, n);
        else if (n->op == IR_unbox)
            ok = unbox_box(r, n);
    }
    return ok;
}

/* -- Operand order, of what is left -------------------------------------------------------------------------------- */

/* Where values are defined, by their ids: counted in the order of the text. */
static void number_values(const struct ir_block *b, int *where, int *n)
{
    for (int i = 0; i < b->nparams; i++)
        where[b->params[i]->id] = (*n)++;
    IR_EACH_NODE(x, b) {
        for (int i = 0; i < x->nout; i++)
            where[x->out[i]->id] = (*n)++;
        for (int i = 0; i < x->nregions; i++)
            number_values(x->regions[i], where, n);
    }
}

/* add(%5, %3) = add(%3, %5); false: the change limit is reached */
static bool order_block(struct pass_run *r, const struct ir_block *b, const int *where)
{
    IR_EACH_NODE(n, b) {
        for (int i = 0; i < n->nregions; i++)
            if (!order_block(r, n->regions[i], where))
                return false;
        if (!commutes(n) || is_constant(n->in[0].value) != is_constant(n->in[1].value) ||
            where[n->in[0].value->id] <= where[n->in[1].value->id])
            continue;
        if (!pass_changed(r))
            return false;
        swap_operands(n);
    }
    return true;
}

static void order_operands(struct pass_run *r, const struct ir_func *f)
{
    struct ir_arena *scratch = ir_arena_new(pass_ctx(r));
    int *where = ir_arena_alloc(scratch, (f->nvalues + (size_t)1) * sizeof *where), n = 0;
    number_values(f->body, where, &n);
    order_block(r, f->body, where);
    ir_arena_free(scratch);
}

bool pass_canonicalise_run(struct pass_run *r)
{
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        if (!resolve_block(r, f->body))
            return false;
    rewrite_module(r, &canonicalise);
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        order_operands(r, f);
    return true;
}
