/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of floats below f32 in the type that the machine multiplies fast (struct pass_machine's product_type).
 *
 * f32: operands are cast once, where they are defined, instead of in each tile of each kernel that reads them;
 * constants are cast now. Exact: products of small floats are summed in f32 anyway.
 *
 * f16, for products that may keep partial sums in it: its range is small, so an operand is scaled by a power of two
 * that brings its largest finite magnitude to at most 2^4, and sums of fewer than 256 such products stay in range.
 * Magnitudes from 2^-17 of the largest up keep all bits of their type; what is below loses some, by up to 2^-28 of the
 * largest, less than what a sum in f32 with the largest loses. The result is scaled back in f32. Scaling by parts of a
 * tensor would keep more; a tensor's largest element is the cheapest to find.
 */
#include "passes/legalise/legalise_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Largest magnitudes that a tensor is scaled by: so far from f32's ends that no scale falls off them. */
#define LEAST 0x1p-100
#define MOST 0x1p120

/* An operand as f16: value, and what 1 of it stands for (f32[]). */
struct scaled {
    struct ir_value *value, *unit;
};
struct operands {
    struct pass_run *run;
    struct ir_func *func;
    struct scaled *scaled; /* by number of the value that it stands for */
    uint32_t nscaled;
};

/* v, computed now if its operands are constants. */
static struct ir_value *settled(struct ir_builder *b, struct ir_value *v)
{
    struct ir_tensor *constant[1] = {NULL};
    for (int i = 0; v && i < v->def->nin; i++)
        if (!ir_const_of(v->def->in[i].value))
            return v;
    if (!v || v->def->op == IR_constant || !ir_interp_node(v->def, constant) || !constant[0])
        return v;
    ir_remove(v->def);
    return ir_constant(b, constant[0]);
}

static void build_behind(struct ir_builder *b, const struct ir_value *v)
{
    b->block = v->block;
    b->before = v->def ? v->def->next : v->block->first;
}

/* -- f32 ---------------------------------------------------------------------------------------------- */

/* The cast of v to f32 right behind its definition (one for all that want it), or NULL. */
static struct ir_value *cast_behind(const struct ir_value *v, struct ir_node *at)
{
    for (; at && at->op == IR_cast && at->in[0].value == v; at = at->next)
        if (at->out[0]->type->dtype == TCC_F32)
            return at->out[0];
    return NULL;
}

/* `unrounded`: types were chosen by automatic casts, and what was cast down from f32 to bf16 for this product is taken
 * as it was. f16 has another range: what leaves it is infinite, and loss scales depend on that. */
static struct ir_value *widened(struct ir_builder *b, struct ir_value *v, bool unrounded)
{
    bool cast = unrounded && v->type->dtype == TCC_BF16 && v->def && v->def->op == IR_cast;
    const struct ir_value *from = cast ? v->def->in[0].value : NULL;
    if (from && from->type->dtype == TCC_F32)
        return v->def->in[0].value;
    build_behind(b, v);
    struct ir_value *wide = cast_behind(v, b->before);
    return wide ? wide : settled(b, ir_cast_to(b, v, TCC_F32));
}

/* -- f16 ---------------------------------------------------------------------------------------------- */

static struct ir_value *with_number(struct ir_builder *b, enum ir_op op, struct ir_value *x, double y)
{
    struct ir_value *number = x ? ir_constant_f(b, TCC_F32, y) : NULL;
    return number ? ir_binary(b, op, x, number) : NULL;
}

/* The largest finite magnitude in x (f32), in two steps: the first of them keeps axes that threads can share. */
static struct ir_value *largest(struct ir_builder *b, struct ir_value *x)
{
    struct ir_value *size = x ? ir_unary(b, IR_abs, x) : NULL, *finite = with_number(b, IR_le, size, FLT_MAX);
    struct ir_value *choice[3] = {finite, size, finite ? ir_constant_f(b, TCC_F32, 0) : NULL};
    if (!choice[2])
        return NULL;
    int rank = x->type->rank;
    struct ir_value *kept = ir_build1(b, IR_select, 3, choice, NULL);
    return ir_reduce_from(b, IR_reduce_max, ir_reduce_from(b, IR_reduce_max, kept, rank > 2 ? 2 : rank > 1 ? 1 : 0), 0);
}

/* Each reader of v widens it anew: as one value, f32 would be stored for them. */
static bool scale(struct ir_builder *b, struct ir_value *v, struct scaled *s)
{
    struct ir_value *most = largest(b, ir_cast_to(b, v, TCC_F32)), *x = ir_cast_to(b, v, TCC_F32);
    most = with_number(b, IR_min, with_number(b, IR_max, most, LEAST), MOST);
    most = most ? ir_cast_to(b, most, TCC_F8E8M0) : NULL; /* a power of two, rounded up */
    s->unit = with_number(b, IR_mul, most ? ir_cast_to(b, most, TCC_F32) : NULL, 0x1p-4);
    struct ir_value *one = s->unit ? ir_constant_f(b, TCC_F32, 1) : NULL,
                    *by = one ? ir_binary(b, IR_div, one, s->unit) : NULL;
    struct ir_value *small = x && by ? ir_binary(b, IR_mul, x, by) : NULL;
    s->value = small ? ir_cast_to(b, small, TCC_F16) : NULL;
    return s->value != NULL;
}

/* Element i of a 16-bit type as its code; constants in a model's file may lie at any address. */
static uint16_t code_at(const struct ir_tensor *t, int64_t i)
{
    uint16_t code;
    memcpy(&code, ir_tensor_at(t, i), sizeof code);
    return code;
}

/* The largest finite magnitude in t, a tensor of a 16-bit type, at least LEAST. Magnitudes are in the order of their
 * codes. */
static double largest_in(const struct ir_tensor *t)
{
    uint16_t most = 0;
    for (int64_t i = 0; i < t->nelems; i++) {
        uint16_t code = code_at(t, i) & 0x7fff;
        if (code > most && isfinite(tcc_load_f64((enum tcc_dtype)t->dtype, &code)))
            most = code;
    }
    double size = tcc_load_f64((enum tcc_dtype)t->dtype, &most);
    return size > LEAST ? size : LEAST;
}

static bool scale_constant(struct ir_builder *b, const struct ir_tensor *t, struct scaled *s)
{
    enum { CODES = 1 << 16 };
    struct ir_tensor *small = ir_tensor_new(TCC_F16, t->rank, t->dims);
    uint16_t *to = IR_NEWN(b->ctx, CODES, uint16_t); /* by code of t's type */
    int exponent;
    if (!small) {
        ir_no_memory(b->ctx);
        return false;
    }
    if (frexp(largest_in(t), &exponent) == 0.5)
        exponent--;
    for (uint32_t c = 0; c < CODES; c++) {
        uint16_t code = (uint16_t)c;
        tcc_store_f64(TCC_F16, &to[c], ldexp(tcc_load_f64((enum tcc_dtype)t->dtype, &code), 4 - exponent));
    }
    for (int64_t i = 0; i < t->nelems; i++)
        ((uint16_t *)small->data)[i] = to[code_at(t, i)];
    s->value = ir_constant(b, small);
    s->unit = s->value ? ir_constant_f(b, TCC_F32, ldexp(1, exponent - 4)) : NULL;
    return s->unit != NULL;
}

static struct scaled *scaled_of(struct operands *o, struct ir_value *v)
{
    struct ir_builder b = {pass_ctx(o->run), o->func, v->block, NULL, v->def ? v->def->where : (struct ir_where){0}};
    if (v->id >= o->nscaled) {
        uint32_t n = 2 * v->id + 64;
        struct scaled *more = IR_NEWN(b.ctx, n, struct scaled);
        if (o->nscaled)
            memcpy(more, o->scaled, o->nscaled * sizeof *more);
        o->scaled = more;
        o->nscaled = n;
    }
    struct scaled *s = &o->scaled[v->id];
    const struct ir_tensor *t = ir_const_of(v);
    if (s->value)
        return s;
    build_behind(&b, v);
    return (t ? scale_constant(&b, t, s) : scale(&b, v, s)) ? s : NULL;
}

/* -- Products ------------------------------------------------------------------------------------------- */

/* n on other operands, its result of type `to` (TCC_NONE: that of the operands), its sums partly of type `partial`. */
static struct ir_value *product(struct ir_builder *b, const struct ir_node *n, int nin, struct ir_value *const *in,
                                enum tcc_dtype to, enum tcc_dtype partial)
{
    int nattrs;
    struct ir_attr *attrs = ir_attrs_without(b->ctx, n, IR_ATTR_to, &nattrs);
    if (to)
        attrs[nattrs++] = ir_attr_dtype(IR_ATTR_to, to);
    if (partial)
        attrs[nattrs++] = ir_attr_dtype(IR_ATTR_partial, partial);
    return ir_build1(b, n->op, nin, in, attrs);
}

/* Puts `wide`, of f32, in place of n's result. */
static bool put(struct ir_builder *b, struct ir_node *n, struct ir_value *wide)
{
    return ir_replace(n, ir_cast_to(b, wide, (enum tcc_dtype)n->out[0]->type->dtype));
}

static bool small(const struct ir_value *v)
{
    return v && ir_is_tensor(v->type) && tcc_small_float((enum tcc_dtype)v->type->dtype);
}

/* n on operands of f32, as a product of floats like any other. */
static bool widen(struct operands *o, struct ir_node *n)
{
    struct ir_builder b = {pass_ctx(o->run), o->func, n->block, n, n->where};
    struct ir_value *in[4] = {NULL};
    if (n->nin > 4)
        return false;
    for (int i = 0; i < n->nin; i++) {
        in[i] = n->in[i].value;
        if (small(in[i]))
            in[i] = widened(&b, in[i], pass_opts(o->run)->reduced && pass_bounded(o->run));
        if (n->in[i].value && !in[i])
            return false;
    }
    b.block = n->block;
    b.before = n;
    return put(&b, n, product(&b, n, n->nin, in, TCC_NONE, TCC_NONE));
}

/* A convolution's bias, shaped to be added to its result. */
static struct ir_value *as_channels(struct ir_builder *b, struct ir_value *bias, const struct ir_value *result)
{
    ir_expr dims[TCC_MAX_RANK];
    bias = ir_cast_to(b, bias, TCC_F32);
    dims[0] = result->type->dim[1];
    for (int i = 1; i < result->type->rank - 1; i++)
        dims[i] = ir_const(b->ctx, 1);
    return bias ? settled(b, ir_reshape_to(b, bias, result->type->rank - 1, dims)) : NULL;
}

/* n on scaled operands of f16. */
static bool demote_to_f16(struct operands *o, struct ir_node *n)
{
    struct scaled *s = scaled_of(o, n->in[0].value);
    if (!s)
        return false;
    struct scaled x = *s, *w = scaled_of(o, n->in[1].value);
    if (!w)
        return false;
    struct ir_builder b = {pass_ctx(o->run), o->func, n->block, n, n->where};
    struct ir_value *in[2] = {x.value, w->value}, *y = product(&b, n, 2, in, TCC_F32, TCC_F16);
    struct ir_value *unit = y ? ir_binary(&b, IR_mul, x.unit, w->unit) : NULL;
    y = unit ? ir_binary(&b, IR_mul, y, unit) : NULL;
    if (y && n->nin > 2 && n->in[2].value) {
        struct ir_value *bias = as_channels(&b, n->in[2].value, y);
        y = bias ? ir_binary(&b, IR_add, y, bias) : NULL;
    }
    return put(&b, n, y);
}

static bool is_product(const struct ir_node *n)
{
    enum ir_kind kind = ir_op_info(n->op)->kind;
    return (kind == IR_K_CONTRACT || kind == IR_K_WINDOW) && n->nin > 1 && n->in[1].value != NULL;
}

/* Is n a product of bf16, summed in f32, of which all readers want an f32? Where types were chosen by automatic casts,
 * what they get is not rounded before: the gradient of weights that were cast. */
static bool read_wide(const struct operands *o, const struct ir_node *n)
{
    const struct ir_value *v = is_product(n) ? n->out[0] : NULL;
    if (!v || !pass_bounded(o->run) || !pass_opts(o->run)->reduced || !small(v) || v->type->dtype != TCC_BF16 ||
        v->type->dtype != n->in[0].value->type->dtype || (n->op != IR_matmul && n->op != IR_conv_grad_weight) ||
        !v->uses)
        return false;
    for (const struct ir_use *u = v->uses; u; u = u->next)
        if (u->user->op != IR_cast || u->user->out[0]->type->dtype != TCC_F32)
            return false;
    return true;
}

/* n with a result of f32 in place of its casts; NULL: no memory. */
static struct ir_node *leave_wide(struct operands *o, struct ir_node *n)
{
    struct ir_builder b = {pass_ctx(o->run), o->func, n->block, n, n->where};
    struct ir_value *in[2] = {n->in[0].value, n->in[1].value}, *v = n->out[0];
    struct ir_value *wide = product(&b, n, 2, in, TCC_F32, TCC_NONE);
    while (wide && v->uses) {
        struct ir_node *cast = v->uses->user;
        ir_replace_uses(cast->out[0], wide);
        ir_remove(cast);
    }
    ir_remove(n);
    return wide ? wide->def : NULL;
}

/* Does it run faster by Winograd's algorithm, on floats, than by the products of its operands' type that the machine is
 * fast at? Weights that change stay as they are: their transform would be one more pass over them in each step. */
static bool by_tiles(const struct operands *o, const struct ir_node *n)
{
    return pass_opts(o->run)->level > 0 && n->op == IR_conv && pass_bounded(o->run) && small(n->in[0].value) &&
           ir_const_of(n->in[1].value) && legalise_window(o->run, n, PASS_WINDOW_TILE);
}

static enum tcc_dtype wanted(struct operands *o, const struct ir_node *n)
{
    const struct pass_machine *m = pass_opts(o->run)->machine;
    enum ir_kind kind = ir_op_info(n->op)->kind;
    bool attention = kind == IR_K_ATTENTION && pass_bounded(o->run);
    if ((kind != IR_K_CONTRACT && kind != IR_K_WINDOW && !attention) || n->nin < 2 || !n->in[1].value ||
        ir_attr(n, IR_ATTR_partial))
        return TCC_NONE;
    enum tcc_dtype d = m->product_type(m, n, pass_opts(o->run)->reduced && pass_bounded(o->run));
    return by_tiles(o, n) ? TCC_F32 : d;
}

static bool products(struct operands *o, struct ir_block *block)
{
    for (struct ir_node *n = block->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->nregions; i++)
            if (!products(o, n->regions[i]))
                return false;
        if (read_wide(o, n)) {
            n = leave_wide(o, n);
            if (!n)
                return false;
            next = n->next;
        }
        enum tcc_dtype d = wanted(o, n);
        if ((d == TCC_F32 && !widen(o, n)) || (d == TCC_F16 && !demote_to_f16(o, n)))
            return false;
    }
    return true;
}

bool legalise_operands(struct pass_run *r, struct ir_func *f, struct ir_block *block)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    struct operands o = {.run = r, .func = f};
    return !m || !m->product_type || products(&o, block);
}
