/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise ops. Operands are promoted as PyTorch does, for an op in place too; the result's type is what the archive
 * records. Numbers beside 16-bit floats become such a float (0.1 equals f16's 0.1), but for factors and divisors: those
 * keep their precision, and the result is rounded once.
 */
#include "compiler/pt2/pt2_int.h"

#include <math.h>
#include <string.h>

/* -- Promotion */

static int category(enum tcc_dtype d)
{
    return tcc_is_float(d) ? 2 : d == TCC_BOOL ? 0 : 1;
}

static enum tcc_dtype wider(enum tcc_dtype a, enum tcc_dtype b)
{
    int ca = category(a), cb = category(b), sa = tcc_dtype_bytes(a), sb = tcc_dtype_bytes(b);
    if (a == b || ca != cb)
        return ca < cb ? b : a;
    if (ca == 2 && sa == sb)
        return TCC_F32; /* f16 and bf16 */
    if (ca == 1 && sa == sb)
        return sa == 1 ? TCC_I16 : sa == 2 ? TCC_I32 : TCC_I64; /* signed and unsigned */
    if (ca == 1 && !tcc_is_signed(sa > sb ? a : b) && tcc_is_signed(sa > sb ? b : a))
        return sa + sb > 6 ? TCC_I64 : TCC_I32;
    return sa > sb ? a : b;
}

static int weight(const struct ir_value *v, bool number)
{
    return number ? 0 : imp_rank(v) == 0 ? 1 : 2;
}

enum tcc_dtype pt2_promote(const struct ir_value *a, bool a_number, const struct ir_value *b, bool b_number)
{
    int wa = weight(a, a_number), wb = weight(b, b_number);
    enum tcc_dtype da = imp_dtype(a), db = imp_dtype(b);
    if (wa == wb)
        return wider(da, db);
    enum tcc_dtype strong = wa > wb ? da : db, weak = wa > wb ? db : da;
    if (category(strong) >= category(weak))
        return strong;
    bool number = wa > wb ? b_number : a_number;
    return number && category(weak) == 2 ? TCC_F32 : weak; /* the default float type */
}

struct ir_value *pt2_expand_as(struct pt2 *p, struct ir_value *x, const struct ir_value *like)
{
    return x && like ? imp_expand(p->im, x, imp_rank(like), like->type->dim) : NULL;
}

/* A number, or a tensor of one element whose type does not decide: a scale of 65536 is none of f16. */
static bool scales(const struct ir_value *v, bool number, enum tcc_dtype type)
{
    for (int k = 0; k < imp_rank(v); k++)
        if (!ir_is_value(imp_dim(v, k), 1))
            return false;
    return number || imp_dtype(v) != type;
}

/* Operands as `type`, or TCC_NONE: as they promote; an, bn: which are numbers. */
static bool unify(struct pt2 *p, struct pt2_operands *pair, bool an, bool bn, enum tcc_dtype type, bool factors)
{
    if (!pair->a || !pair->b)
        return false;
    if (type == TCC_NONE)
        type = pt2_promote(pair->a, an, pair->b, bn);
    if (factors && tcc_small_float(type) && (scales(pair->a, an, type) || scales(pair->b, bn, type)))
        type = TCC_F32;
    pair->type = type;
    pair->a = imp_cast(p->im, pair->a, type);
    pair->b = imp_cast(p->im, pair->b, type);
    return pair->a && pair->b;
}

static bool pair_of(struct pt2 *p, const char *first, const char *second, enum tcc_dtype type, bool factors,
                    struct pt2_operands *pair)
{
    bool an, bn = false;
    pair->a = pt2_operand(p, first, &an);
    pair->b = pair->a ? pt2_operand(p, second, &bn) : NULL;
    return unify(p, pair, an, bn, p->at.in_place ? TCC_NONE : type, factors);
}

bool pt2_pair_of(struct pt2 *p, const char *first, const char *second, enum tcc_dtype type, struct pt2_operands *pair)
{
    return pair_of(p, first, second, type, false, pair);
}

bool pt2_factors(struct pt2 *p, const char *first, const char *second, struct pt2_operands *pair)
{
    return pair_of(p, first, second, pt2_out_type(p, 0), true, pair);
}

struct ir_value *pt2_times(struct pt2 *p, struct ir_value *a, struct ir_value *b)
{
    struct pt2_operands o = {.a = a, .b = b};
    return unify(p, &o, false, false, TCC_NONE, true) ? pt2_bin(p, IR_mul, o.a, o.b) : NULL;
}

struct ir_value *pt2_bin(struct pt2 *p, enum ir_op op, struct ir_value *a, struct ir_value *b)
{
    if (a && imp_dtype(a) == TCC_BOOL) {
        if (op == IR_pow)
            b = imp_un(p->im, IR_not, b);
        op = op == IR_pow || op == IR_add || op == IR_max ? IR_or : op == IR_mul || op == IR_min ? IR_and : op;
    }
    return imp_bin(p->im, op, a, b);
}

/* An operand as a float of the type in which the result is computed. */
static struct ir_value *as_float(struct pt2 *p, struct ir_value *x)
{
    enum tcc_dtype d = pt2_out_type(p, 0);
    return !x || imp_is_float(x) ? x : imp_cast(p->im, x, tcc_is_float(d) ? d : TCC_F32);
}

struct ir_value *pt2_wide_float(struct pt2 *p, struct ir_value *x)
{
    return imp_wide(p->im, as_float(p, x));
}

/* -- One operand */

bool aten_map1(struct pt2 *p)
{
    return pt2_out(p, 0, imp_un(p->im, (enum ir_op)p->row->arg, as_float(p, pt2_need(p, "self"))));
}

/* The same for those that take any number, of which a bool counts as one where the result is none. */
bool aten_map1_any(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    x = x && imp_dtype(x) == TCC_BOOL ? imp_cast(p->im, x, pt2_out_type(p, 0)) : x;
    return pt2_out(p, 0, imp_un(p->im, (enum ir_op)p->row->arg, x));
}

/* (x > 0) - (x < 0): NaN gives 0 */
bool aten_sign(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *zero = imp_like(p->im, x, 0);
    if (!x || !imp_is_float(x))
        return pt2_out(p, 0, x && imp_dtype(x) != TCC_BOOL ? imp_un(p->im, IR_sign, x) : x);
    struct ir_value *sign_of = imp_un(p->im, IR_sign, x);
    return pt2_out(p, 0, imp_select(p->im, imp_un(p->im, IR_isnan, x), zero, sign_of));
}

/* Whole numbers stay what they are. */
bool aten_rounding(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    int64_t decimals = pt2_i(p, "decimals", 0);
    if (!x || !imp_is_float(x))
        return pt2_out(p, 0, x);
    if (!decimals)
        return pt2_out(p, 0, imp_un(p->im, (enum ir_op)arg, x));
    struct ir_value *wide = imp_wide(p->im, x), *ten = imp_like(p->im, wide, pow(10, fabs((double)decimals)));
    bool up = decimals > 0;
    struct ir_value *scaled = imp_un(p->im, (enum ir_op)arg, imp_bin(p->im, up ? IR_mul : IR_div, wide, ten));
    return pt2_out(p, 0, imp_bin(p->im, up ? IR_div : IR_mul, scaled, ten));
}

bool aten_frac(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    return pt2_out(p, 0, imp_bin(p->im, IR_sub, x, imp_un(p->im, IR_trunc, x)));
}

/* log2, log10: arg is the base; exp2: arg 0. */
bool aten_log_base(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_wide_float(p, pt2_need(p, "self"));
    if (!arg)
        return pt2_out(p, 0, imp_bin(p->im, IR_pow, imp_like(p->im, x, 2), x));
    return pt2_out(p, 0, imp_with(p->im, IR_mul, imp_un(p->im, IR_log, x), 1 / log(arg)));
}

/* isnan, isinf: no integer is; arg 0 is isfinite. */
bool aten_float_test(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    if (!x)
        return false;
    if (!imp_is_float(x))
        return pt2_out(p, 0, imp_splat(p->im, TCC_BOOL, arg == 0, imp_rank(x), x->type->dim));
    if (arg)
        return pt2_out(p, 0, imp_un(p->im, (enum ir_op)arg, x));
    return pt2_out(p, 0, imp_formula(p->im, "not(or(isnan(x), isinf(x)))", x));
}

bool aten_logical_not(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    return pt2_out(p, 0, imp_with(p->im, IR_eq, x, 0));
}

bool aten_identity(struct pt2 *p)
{
    pt2_ignore(p, "implicit");
    return pt2_out(p, 0, pt2_need(p, "self"));
}

bool aten_detach(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    bool stop = x && p->im->train && imp_is_float(x);
    return pt2_out(p, 0, stop ? imp_un(p->im, IR_stop_gradient, x) : x);
}

/* to, _to_copy, type_as; arg 1: the primitives that keep the elements. The result's type is recorded. */
bool aten_to(struct pt2 *p)
{
    int arg = p->row->arg;
    static const char *const ignored[][4] = {{"dtype", "copy", "other"}, {"dtype", "device", "stride"}};
    pt2_ignore_all(p, ignored[arg]);
    return pt2_out(p, 0, pt2_need(p, arg ? "a" : "self"));
}

/* -- Two operands */

/* out = a OP b * alpha; arg: the op, negative: operands exchanged (rsub). */
bool aten_arith(struct pt2 *p)
{
    int arg = p->row->arg;
    struct pt2_operands o;
    bool number;
    const char *other = pt2_given(p, "exponent") ? "exponent" : "other";
    if (!pair_of(p, "self", other, pt2_out_type(p, 0), arg == IR_mul, &o))
        return false;
    struct ir_value *alpha = pt2_operand(p, "alpha", &number), *times = arg < 0 ? o.a : o.b;
    double one = 0;
    if (alpha && !(imp_scalar_of(alpha, &one) && one == 1)) {
        enum tcc_dtype wide = tcc_small_float(o.type) ? TCC_F32 : o.type;
        struct ir_value *alpha_cast = imp_cast(p->im, alpha, wide);
        times = imp_bin(p->im, IR_mul, imp_cast(p->im, times, wide), alpha_cast);
        o.a = imp_cast(p->im, o.a, wide);
        o.b = imp_cast(p->im, o.b, wide);
    }
    enum ir_op op = (enum ir_op)(arg < 0 ? -arg : arg);
    if (op == IR_mod || op == IR_fmod)
        times = pt2_not_zero(p, times);
    return pt2_out(p, 0, pt2_bin(p, op, arg < 0 ? o.b : o.a, times));
}

bool aten_compare(struct pt2 *p)
{
    struct pt2_operands o;
    return pt2_pair_of(p, "self", "other", TCC_NONE, &o) &&
           pt2_out(p, 0, imp_bin(p->im, (enum ir_op)p->row->arg, o.a, o.b));
}

/* Of truth values, for logical_and and its like: anything but 0 is true. */
bool aten_logical(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "other", TCC_NONE, &o))
        return false;
    struct ir_value *b_cast = imp_cast(p->im, o.b, TCC_BOOL);
    return pt2_out(p, 0, imp_bin(p->im, (enum ir_op)p->row->arg, imp_cast(p->im, o.a, TCC_BOOL), b_cast));
}

static struct ir_value *differ_in_sign(struct pt2 *p, struct ir_value *a, struct ir_value *b)
{
    return imp_formula(p->im, "xor(lt(x, 0), lt(y, 0))", a, b);
}

struct ir_value *pt2_floor_div(struct pt2 *p, struct ir_value *a, struct ir_value *b)
{
    return imp_formula(p->im, "select(and(ne(fmod(x, y), 0), z), x / y - 1, x / y)", a, b, differ_in_sign(p, a, b));
}

/* The only element of a list, or none where it is 0: that is an index beyond the list, which the run refuses. */
struct ir_value *pt2_not_zero(struct pt2 *p, struct ir_value *by)
{
    struct imp *im = p->im;
    double v;
    if (!by || tcc_is_float(imp_dtype(by)) || (imp_scalar_of(by, &v) && v != 0))
        return by;
    ir_expr one = ir_const(p->ctx, 1);
    struct ir_value *list = imp_splat(im, imp_dtype(by), 0, 1, &one),
                    *which = imp_cast(im, imp_with(im, IR_eq, by, 0), TCC_I64);
    return imp_bin(im, IR_add, by, imp_gather(im, list, which, 0));
}

/* floor(a / b) as PyTorch has it: from the exact remainder, so that a quotient that is whole is not rounded below
 * itself. */
static struct ir_value *floor_divide(struct pt2 *p, const struct pt2_operands *o)
{
    struct imp *im = p->im;
    if (!tcc_is_float(o->type))
        return pt2_floor_div(p, o->a, o->b);
    struct ir_value *a = imp_wide(im, o->a), *b = imp_wide(im, o->b), *rest = imp_bin(im, IR_fmod, a, b);
    return imp_formula(im, "select(eq(y, 0), x / y, round((x - z) / y - select(and(ne(z, 0), u), 1, 0)))", a, b, rest,
                       differ_in_sign(p, rest, b));
}

/* div, by rounding_mode; arg 1: floor_divide. */
bool aten_div(struct pt2 *p)
{
    struct pt2_operands o;
    const char *mode = p->row->arg ? "floor" : pt2_s(p, "rounding_mode", "");
    if (!pt2_factors(p, "self", "other", &o))
        return false;
    if (*mode)
        o.b = pt2_not_zero(p, o.b);
    if (!strcmp(mode, "floor"))
        return pt2_out(p, 0, o.b ? floor_divide(p, &o) : NULL);
    struct ir_value *q = imp_bin(p->im, IR_div, o.a, o.b);
    return pt2_out(p, 0, *mode && tcc_is_float(o.type) ? imp_un(p->im, IR_trunc, q) : q);
}

struct ir_value *pt2_atan2(struct pt2 *p, struct ir_value *y, struct ir_value *x)
{
    struct imp *im = p->im;
    y = imp_wide(im, y);
    x = imp_wide(im, x);
    /* 1 / -0 is -inf: that tells -0 from 0, on either axis. */
    static const char negative[] = "or(lt(x, 0), and(eq(x, 0), lt(1 / x, 0)))";
    struct ir_value *left = imp_formula(im, negative, x), *below = imp_formula(im, negative, y);
    /* By choices: abs, max and min have no gradient, or half of it, where an operand is 0 or both are equal. */
    struct ir_value *ax = imp_formula(im, "select(y, -x, x)", x, left),
                    *ay = imp_formula(im, "select(y, -x, x)", y, below);
    struct ir_value *steep = imp_bin(im, IR_gt, ay, ax);
    struct ir_value *big = imp_select(im, steep, ay, ax), *small = imp_select(im, steep, ax, ay);
    struct ir_value *ratio =
        imp_formula(im, "select(or(eq(x, 0), isinf(y)), select(eq(x, 0), 0, 1), y / x)", big, small);
    const double *turns = IMP_NUMBERS(M_PI_2, M_PI);
    struct ir_value *angle = imp_formula_n(im, "select(y, a - atan(x), atan(x))", turns, ratio, steep);
    angle = imp_formula_n(im, "select(y, b - x, x)", turns, angle, left);
    return imp_formula(im, "select(y, -x, x)", angle, below);
}

bool aten_atan2(struct pt2 *p)
{
    struct pt2_operands o;
    return pt2_pair_of(p, "self", "other", pt2_out_type(p, 0), &o) && pt2_out(p, 0, pt2_atan2(p, o.a, o.b));
}

/* -- More operands */

bool aten_where(struct pt2 *p)
{
    struct ir_value *c = pt2_need(p, "condition");
    struct pt2_operands o;
    bool number;
    enum tcc_dtype d = pt2_out_type(p, 0);
    o.a = c ? pt2_operand(p, "self", &number) : NULL;
    o.b = o.a ? pt2_operand(p, "other", &number) : NULL;
    struct ir_value *b_cast = o.b ? imp_cast(p->im, o.b, d) : NULL;
    struct ir_value *a_cast = o.a ? imp_cast(p->im, o.a, d) : NULL;
    return pt2_out(p, 0, imp_select(p->im, c ? imp_cast(p->im, c, TCC_BOOL) : NULL, a_cast, b_cast));
}

bool aten_masked_fill(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *mask = x ? pt2_need(p, "mask") : NULL;
    bool number;
    struct ir_value *v = mask ? pt2_operand(p, "value", &number) : NULL;
    struct ir_value *v_cast = v ? imp_cast(p->im, v, imp_dtype(x)) : NULL;
    return v && pt2_out(p, 0, imp_select(p->im, imp_cast(p->im, mask, TCC_BOOL), v_cast, x));
}

/* A number as a bound of elements of type d; NULL: none, since all lie on the right side of it. */
static struct ir_value *bound_of(struct pt2 *p, const char *name, enum tcc_dtype d, bool *number)
{
    struct ir_value *v = pt2_operand(p, name, number);
    double at;
    if (!v || !*number || !tcc_is_int(d) || tcc_dtype_bytes(d) > 4 || !imp_scalar_of(v, &at))
        return v;
    double low = tcc_is_signed(d) ? -ldexp(1, 8 * tcc_dtype_bytes(d) - 1) : 0;
    return at < low || at >= low + ldexp(1, 8 * tcc_dtype_bytes(d)) ? NULL : v;
}

/* clamp, clamp_min, clamp_max: bounds are numbers, or tensors; either may be absent. Where x equals a number it has no
 * gradient (clip's); where it equals a tensor's element they share it (that of max and min), except between equal
 * ones. */
bool aten_clamp(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    bool number = false, number_too = false;
    for (int k = 0; k < 2 && x && p->at.in_place; k++) {
        struct ir_value *bound = pt2_operand(p, k ? "max" : "min", &number);
        x = bound && !number ? imp_cast(p->im, x, pt2_promote(x, false, bound, false)) : x;
    }
    enum tcc_dtype d = x && p->at.in_place ? imp_dtype(x) : pt2_out_type(p, 0), wide = tcc_small_float(d) ? TCC_F32 : d;
    struct ir_value *low = x ? bound_of(p, "min", d, &number) : NULL,
                    *high = x ? bound_of(p, "max", d, &number_too) : NULL;
    if (!x)
        return false;
    x = imp_cast(p->im, x, wide);
    low = low ? imp_cast(p->im, low, wide) : NULL;
    high = high ? imp_cast(p->im, high, wide) : NULL;
    if (tcc_is_float(wide) && (number || number_too)) {
        struct ir_value *upper = high ? high : imp_like(p->im, x, INFINITY);
        return pt2_out(p, 0, imp_tri(p->im, IR_clip, x, low ? low : imp_like(p->im, x, -INFINITY), upper));
    }
    struct ir_value *y = low ? pt2_bin(p, IR_max, x, low) : x;
    y = high ? pt2_bin(p, IR_min, y, high) : y;
    if (low && high && p->im->training && imp_is_float(x))
        y = imp_formula(p->im, "select(and(eq(x, y), eq(x, z)), x, u)", x, low, high, y);
    return pt2_out(p, 0, y);
}

struct ir_value *pt2_between(struct pt2 *p, struct ir_value *a, struct ir_value *b, struct ir_value *weight)
{
    struct ir_value *near = imp_formula(p->im, "lt(abs(x), 0.5)", weight);
    return imp_formula(p->im, "select(u, x + z * (y - x), y - (y - x) * (1 - z))", a, b, weight, near);
}

/* self + value * a * b, self + value * a / b; prims.fma(a, b, c) */
bool aten_addc(struct pt2 *p)
{
    struct imp *im = p->im;
    bool prim = pt2_given(p, "c");
    bool number;
    struct ir_value *x = pt2_need(p, prim ? "c" : "self"), *a = x ? pt2_need(p, prim ? "a" : "tensor1") : NULL,
                    *b = a ? pt2_operand(p, prim ? "b" : "tensor2", &number) : NULL;
    struct ir_value *value = pt2_operand(p, "value", &number);
    enum tcc_dtype d = pt2_out_type(p, 0), wide = tcc_small_float(d) ? TCC_F32 : d;
    if (!b)
        return false;
    a = imp_cast(im, a, wide);
    if (value)
        a = imp_bin(im, IR_mul, imp_cast(im, value, wide), a);
    struct ir_value *term = imp_bin(im, (enum ir_op)p->row->arg, a, imp_cast(im, b, wide));
    return pt2_out(p, 0, imp_bin(im, IR_add, imp_cast(im, x, wide), term));
}

bool aten_lerp(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *a = imp_wide(im, pt2_need(p, "self")), *b = a ? imp_wide(im, pt2_need(p, "end")) : NULL;
    bool number;
    struct ir_value *w = b ? pt2_operand(p, "weight", &number) : NULL;
    return pt2_out(p, 0, w ? pt2_between(p, a, b, imp_cast(im, w, imp_dtype(a))) : NULL);
}

/* -- Activations */

bool aten_gelu(struct pt2 *p)
{
    bool tanh = !strcmp(pt2_s(p, "approximate", "none"), "tanh");
    return pt2_out(p, 0, imp_un(p->im, tanh ? IR_gelu_tanh : IR_gelu, pt2_need(p, "self")));
}

/* With one or two numbers beside the operand. */
static const struct {
    enum ir_op op;
    int n;
    const char *name[2];
    double otherwise[2];
} activations[] = {
    {IR_leaky_relu, 1, {"negative_slope"}, {0.01}},
    {IR_celu, 1, {"alpha"}, {1}},
    {IR_clip, 2, {"min_val", "max_val"}, {-1, 1}},
};

bool aten_activation(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *in[3] = {pt2_wide_float(p, pt2_need(p, "self"))};
    for (int k = 0; k < activations[arg].n && in[0]; k++)
        in[k + 1] = imp_like(p->im, in[0], pt2_f(p, activations[arg].name[k], activations[arg].otherwise[k]));
    return in[0] && pt2_out(p, 0, imp_op(p->im, activations[arg].op, 1 + activations[arg].n, in, NULL));
}

/* elu(x) = scale * (x > 0 ? x : alpha * expm1(x * input_scale)); arg 1: SELU's constants. */
bool aten_elu(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = pt2_wide_float(p, pt2_need(p, "self"));
    double alpha = arg ? 1.6732632423543772848170429916717 : pt2_f(p, "alpha", 1),
           scale = arg ? 1.0507009873554804934193349852946 : pt2_f(p, "scale", 1), input = pt2_f(p, "input_scale", 1);
    if (input == 1) {
        struct ir_value *scale_value = imp_like(im, x, scale);
        return pt2_out(p, 0, imp_tri(im, IR_selu, x, imp_like(im, x, alpha), scale_value));
    }
    return pt2_out(
        p, 0,
        imp_formula_n(im, "select(gt(x, 0), x, expm1(min(x, 0) * c) * a) * b", IMP_NUMBERS(alpha, scale, input), x));
}

bool aten_hardsigmoid(struct pt2 *p)
{
    struct ir_value *x = pt2_wide_float(p, pt2_need(p, "self"));
    if (p->im->training) { /* x / 6 rounds: the ends, where no gradient is, are told by x */
        struct ir_value *three = imp_like(p->im, x, 3);
        struct ir_value *y = imp_tri(p->im, IR_clip, x, imp_like(p->im, x, -3), three);
        return pt2_out(p, 0, imp_with(p->im, IR_div, imp_with(p->im, IR_add, y, 3), 6));
    }
    struct ir_value *half = imp_like(p->im, x, 0.5);
    return pt2_out(p, 0, imp_tri(p->im, IR_hardsigmoid, x, imp_like(p->im, x, 1.0 / 6), half));
}

bool aten_relu6(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    struct ir_value *six = imp_like(p->im, x, 6);
    return pt2_out(p, 0, imp_tri(p->im, IR_clip, x, imp_like(p->im, x, 0), six));
}

/* softplus(x) = log1p(exp(beta x)) / beta, x itself where beta x exceeds the threshold */
bool aten_softplus(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_wide_float(p, pt2_need(p, "self"));
    double beta = pt2_f(p, "beta", 1), threshold = pt2_f(p, "threshold", 20);
    return pt2_out(
        p, 0,
        imp_formula_n(im,
                      beta == 1 ? "select(gt(x, b), x, softplus(x))" : "select(gt(x * a, b), x, softplus(x * a) / a)",
                      IMP_NUMBERS(beta, threshold), x));
}

bool aten_log_sigmoid(struct pt2 *p)
{
    struct ir_value *x = pt2_wide_float(p, pt2_need(p, "self"));
    return pt2_out(p, 0, imp_formula(p->im, "-softplus(-x)", x));
}

bool aten_prelu(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *w = x ? pt2_need(p, "weight") : NULL;
    if (w && imp_rank(w) == 1 && imp_rank(x) > 1)
        w = imp_along(p->im, w, 1, imp_rank(x));
    return pt2_out(p, 0, imp_bin(p->im, IR_leaky_relu, x, w));
}

bool aten_threshold(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    double filler = pt2_f(p, "value", 0);
    const double *n = IMP_NUMBERS(pt2_f(p, "threshold", 0), filler);
    return pt2_out(p, 0, imp_formula_n(p->im, "select(le(x, a), b, x)", n, x));
}

/* -- Dropout */

struct ir_value *pt2_dropout(struct pt2 *p, struct ir_value *x, double probability, struct ir_value **mask)
{
    struct imp *im = p->im;
    struct ir_value *kept;
    if (!x || p->eval || probability == 0) {
        if (mask && x)
            *mask = imp_splat(im, TCC_BOOL, 1, imp_rank(x), x->type->dim);
        return x;
    }
    return imp_dropout(im, x, imp_num(im, TCC_F32, probability), 0, NULL, mask ? mask : &kept);
}

/* dropout(input, p, train); arg 1: native_dropout, whose second result is what is kept. */
bool aten_dropout(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, pt2_given(p, "self") ? "self" : "input"), *mask = NULL; /* dropout_ says self */
    double probability = pt2_f(p, "p", 0.5);
    bool train = pt2_b(p, "train", true);
    struct ir_value *y = pt2_dropout(p, x, train ? probability : 0, p->row->arg && pt2_wants(p, 1) ? &mask : NULL);
    return pt2_out(p, 0, y) && (!mask || pt2_out(p, 1, mask));
}
