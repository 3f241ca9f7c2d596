/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantise_product.c - matrix products and convolutions of bytes, in i32.
 *
 *   sum (x - zx)(w - zw) = sum x w - zx sum w - zw sum x + K zx zw
 *
 * x becomes unsigned and w signed (both by 128, which goes to the zero points), or x signed too, where the machine has
 * the products of such bytes and x can be made so; w - zw of constant weights is a byte
 * again, as a rule, and then only zx sum w is left, a constant for each column, which `fold` works out. Of weights that
 * are known at run time, and their zero points, sum x is a product by ones. Integers wrap, so that this is exact.
 * Padding of a convolution stands for zeros, and so is zx among bytes: it is written out where zx isn't 0.
 */
#include "passes/opt/quantise_int.h"

#include <string.h>

/* -- Weights ----------------------------------------------------------------------------------------------------- */

/* Bytes from one of the i32 in t to the next, along each axis of what they belong to; 0 where they don't differ. */
static void zero_steps(const struct ir_tensor *t, int rank, int64_t *steps)
{
    int64_t step = sizeof(int32_t);
    for (int i = rank - 1, j = t ? t->rank - 1 : -1; i >= 0; i--, j--) {
        steps[i] = j < 0 || t->dims[j] == 1 || t->splat ? 0 : step;
        step *= j < 0 ? 1 : t->dims[j];
    }
}

/* n bytes less `by`, the sign bit turned by `flip` before; bits beyond 8 say that one did not fit. */
static int subtract_bytes(int8_t *to, const uint8_t *from, int64_t n, int flip, int by)
{
    int out = 0;
    for (int64_t i = 0; i < n; i++) {
        int d = (from[i] ^ flip) - by;
        to[i] = (int8_t)d;
        out |= (d + 128) & ~255;
    }
    return out;
}

/* A row of bytes less its zero points; false: one does not fit. */
static bool centre_row(int8_t *to, const uint8_t *from, int64_t step, int64_t n, int flip, int64_t zero,
                       const char *zeros, int64_t zero_step)
{
    enum { BLOCK = 256 }; /* a known count, which compilers make vector code of */
    int64_t i = 0, out = 0;
    for (; !zeros && step == 1 && i + BLOCK <= n; i += BLOCK)
        out |= subtract_bytes(to + i, from + i, BLOCK, flip, flip + (int)zero);
    for (; i < n; i++) {
        int32_t z = 0;
        if (zeros)
            memcpy(&z, zeros + i * zero_step, sizeof z); /* a tensor of a file may lie anywhere */
        int64_t d = (from[i * step] ^ flip) - flip - zero - z;
        to[i] = (int8_t)d;
        out |= (d + 128) & ~(int64_t)255;
    }
    return !out;
}

/* The constant bytes x less zero and zeros (i32), as i8; NULL: one does not fit. Weights can be most of a model, so
 * this is a pass over bytes, not what cast and sub would be as constants. */
static struct ir_tensor *centred(const struct ir_tensor *x, int64_t zero, const struct ir_tensor *zeros)
{
    int last = x->rank - 1, flip = x->dtype == TCC_I8 ? 128 : 0;
    int64_t index[TCC_MAX_RANK] = {0}, row = x->rank && zeros ? x->dims[last] : x->nelems, step = !x->splat, at = 0;
    int64_t zero_step[TCC_MAX_RANK] = {0};
    zero_steps(zeros, x->rank, zero_step);
    struct ir_tensor *out = ir_tensor_new(TCC_I8, x->rank, x->dims);
    int8_t *to = out ? (int8_t *)(uintptr_t)out->data : NULL;
    bool fits = out != NULL;
    for (int64_t i = 0; fits && i < x->nelems; i += row) {
        fits = centre_row(to + i, (const uint8_t *)x->data + i * step, step, row, flip, zero,
                          zeros ? (const char *)zeros->data + at : NULL, zero_step[x->rank ? last : 0]);
        for (int k = last - 1; k >= 0; k--) {
            at += zero_step[k];
            if (++index[k] < x->dims[k])
                break;
            at -= x->dims[k] * zero_step[k];
            index[k] = 0;
        }
    }
    ir_tensor_cool(x);
    if (fits)
        return out;
    ir_tensor_unref(out);
    return NULL;
}

/* The bytes t, less `zero`, are what the weights are from now on, for this product and for all that read the same
 * value: a weight is worked out once, however many nodes share it. */
static bool take_weights(struct q_form *q, struct rewrite *w, struct ir_tensor *t, int64_t zero)
{
    struct ir_node *n = q->whole->def;
    enum tcc_dtype d = rewrite_dtype_of(q->whole);
    struct ir_builder b = {.ctx = w->b.ctx, .func = n->block->func, .block = n->block, .before = n, .where = n->where};
    q->x = t ? ir_constant(&b, t) : NULL;
    q->zero = zero;
    if (!q->x || q->zeros)
        return q->x != NULL;
    struct ir_value *v = ir_cast_to(&b, q->x, d);
    if (v && zero)
        v = ir_binary(&b, IR_sub, v, d == TCC_F32 ? ir_constant_f(&b, d, (double)zero) : ir_constant_i(&b, d, zero));
    if (v && v->type == q->whole->type)
        ir_replace_uses(q->whole, v);
    return v != NULL;
}

/* Signed bytes x - zero(s) from what stands for the weights. */
static bool signed_weights(struct rewrite *w, struct q_form *q)
{
    struct ir_builder *b = &w->b;
    if (rewrite_dtype_of(q->x) == TCC_I8 && !q->zero && !q->zeros)
        return true;
    const struct ir_tensor *bytes = q_known(b->ctx, q->x);
    const struct ir_tensor *zeros = bytes && q->zeros ? q_known(b->ctx, q->zeros) : NULL;
    struct ir_tensor *t = bytes && (!q->zeros || zeros) ? centred(bytes, q->zero, zeros) : NULL;
    if (t) {
        q->zeros = NULL;
        return take_weights(q, w, t, 0);
    }
    if (rewrite_dtype_of(q->x) == TCC_I8)
        return true;
    if (bytes)
        return take_weights(q, w, centred(bytes, 128, NULL), q->zero - 128);
    struct ir_value *x = ir_cast_to(b, q->x, TCC_I32);
    x = ir_binary(b, IR_sub, x, ir_constant_i(b, TCC_I32, 128));
    q->x = x ? ir_cast_to(b, x, TCC_I8) : NULL;
    q->zero -= 128;
    return q->x != NULL;
}

/* -- Corrections ---------------------------------------------------------------------------------------------- */

static bool has_zero(const struct q_form *q)
{
    return q->zero || q->zeros;
}

static struct ir_value *zero_value(struct rewrite *w, const struct q_form *q)
{
    struct ir_value *c = ir_constant_i(&w->b, TCC_I32, q->zero);
    return !q->zeros ? c : q->zero ? ir_binary(&w->b, IR_add, q->zeros, c) : q->zeros;
}

/* Zero points of a matrix: one, or one for each index of `axis` (counted from the end). */
static bool zeros_along(const struct q_form *q, int axis)
{
    ir_type t = q->zeros ? q->zeros->type : NULL;
    for (int i = 0; t && i < t->rank; i++)
        if (t->rank - i != axis && !ir_is_value(t->dim[i], 1))
            return false;
    return true;
}

/* Sum of v's elements along its last axis but `behind`, in i32; the axis stays, as the last but `to`. */
static struct ir_value *sum_along(struct rewrite *w, struct ir_value *v, int behind, int to)
{
    int64_t axis = v->type->rank - 1 - behind, perm[TCC_MAX_RANK];
    v = ir_cast_to(&w->b, v, TCC_I32);
    v = ir_reduce(&w->b, IR_reduce_sum, v, 1, &axis, true);
    if (!v || behind == to)
        return v;
    for (int i = 0; i < v->type->rank; i++)
        perm[i] = i;
    perm[v->type->rank - 1] = v->type->rank - 2;
    perm[v->type->rank - 2] = v->type->rank - 1;
    return ir_transpose_by(&w->b, v, perm);
}

static struct ir_value *matrix(struct rewrite *w, const struct ir_node *n, const struct q_form *a,
                               const struct q_form *b)
{
    struct ir_builder *at = &w->b;
    bool ta = ir_get_i(n, IR_ATTR_trans_a, 0), tb = ir_get_i(n, IR_ATTR_trans_b, 0);
    int rank = a->x->type->rank;
    int64_t k;
    bool known = ir_is_const(a->x->type->dim[ta ? rank - 2 : rank - 1], &k);
    if (!zeros_along(a, ta ? 0 : 2) || !zeros_along(b, tb ? 0 : 1) || (!known && has_zero(a) && has_zero(b)))
        return NULL;
    struct ir_value *y = q_again(w, n, 2, (struct ir_value *[]){a->x, b->x}, TCC_I32);
    if (y && has_zero(a)) {
        struct ir_value *sums = sum_along(w, b->x, tb ? 0 : 1, 1);
        y = ir_binary(at, IR_sub, y, ir_binary(at, IR_mul, sums, zero_value(w, a)));
    }
    if (y && has_zero(b)) {
        struct ir_value *sums = sum_along(w, a->x, ta ? 1 : 0, 0);
        if (has_zero(a)) {
            struct ir_value *k_value = ir_constant_i(at, TCC_I32, known ? k : 0);
            sums = ir_binary(at, IR_sub, sums, ir_binary(at, IR_mul, zero_value(w, a), k_value));
        }
        y = ir_binary(at, IR_sub, y, ir_binary(at, IR_mul, sums, zero_value(w, b)));
    }
    return y;
}

/* Is the zero point of bytes one of them, so that it can stand for padding? */
static bool zero_is_byte(const struct q_form *q)
{
    const struct ir_node *cast = q->zeros ? q->zeros->def : NULL;
    int64_t zero = q->zero + (rewrite_dtype_of(q->x) == TCC_I8 ? 128 : 0);
    if (!q->zeros)
        return zero >= 0 && zero <= 255;
    enum tcc_dtype from = cast && cast->op == IR_cast ? rewrite_dtype_of(cast->in[0].value) : TCC_NONE;
    return (from == TCC_U8 && zero == 0) || (from == TCC_I8 && zero == 128);
}

/* x with what the convolution pads it by, of the value `zero`; before and after become 0. */
static struct ir_value *padded(struct rewrite *w, const struct ir_node *n, struct ir_value *x, struct ir_value *zero,
                               ir_expr *none)
{
    const struct ir_attr *before = ir_attr(n, IR_ATTR_before), *after = ir_attr(n, IR_ATTR_after);
    ir_expr lo[TCC_MAX_RANK], hi[TCC_MAX_RANK], nothing = ir_const(w->b.ctx, 0);
    for (int i = 0; i < x->type->rank; i++) {
        lo[i] = i < 2 ? nothing : before->exprs[i - 2];
        hi[i] = i < 2 ? nothing : after->exprs[i - 2];
        none[i] = nothing;
    }
    zero = ir_cast_to(&w->b, zero, rewrite_dtype_of(x));
    return zero ? ir_pad(&w->b, x, zero, lo, hi) : NULL;
}

/* A convolution of x by these, padded or not as n's is, or without padding; the bias may be NULL. */
static struct ir_value *convolve(struct rewrite *w, const struct ir_node *n, struct ir_value *x,
                                 struct ir_value *weights, struct ir_value *bias, bool padding)
{
    ir_expr none[TCC_MAX_RANK];
    struct ir_value *y =
        x && weights ? q_again(w, n, bias ? 3 : 2, (struct ir_value *[]){x, weights, bias}, TCC_I32) : NULL;
    if (!y || padding)
        return y;
    for (int i = 0; i < x->type->rank; i++)
        none[i] = ir_const(w->b.ctx, 0);
    ir_set_attr(y->def, ir_attr_exprs(IR_ATTR_before, x->type->rank - 2, none));
    ir_set_attr(y->def, ir_attr_exprs(IR_ATTR_after, x->type->rank - 2, none));
    return ir_op_info(y->def->op)->infer(w->b.ctx, y->def) ? y : NULL;
}

/* Sum of a filter's elements, for each of them. */
static struct ir_value *filter_sums(struct rewrite *w, struct ir_value *weights)
{
    return ir_reduce_from(&w->b, IR_reduce_sum, ir_cast_to(&w->b, weights, TCC_I32), 1);
}

/* zw (sum of x in the window - zx K), what weights of a zero point have too much: the sum is one for all filters, a
 * convolution by ones. Of one group, filters whose size is known. NULL: it can't be had. */
static struct ir_value *window_share(struct rewrite *w, const struct ir_node *n, struct ir_value *x,
                                     struct ir_value *zero, const struct q_form *b, bool padding)
{
    struct ir_builder *at = &w->b;
    ir_type t = b->x->type;
    int64_t dims[TCC_MAX_RANK], terms = 1;
    ir_expr shape[TCC_MAX_RANK];
    dims[0] = 1;
    for (int i = 1; i < t->rank; i++) {
        if (!ir_is_const(t->dim[i], &dims[i]))
            return NULL;
        terms *= dims[i];
    }
    struct ir_tensor *ones = ir_get_i(n, IR_ATTR_groups, 1) == 1 ? ir_tensor_new(TCC_I8, t->rank, dims) : NULL;
    if (!ones)
        return NULL;
    memset((void *)(uintptr_t)ones->data, 1, (size_t)terms);
    struct ir_value *sum = convolve(w, n, x, ir_constant(at, ones), NULL, padding), *zeros = zero_value(w, b);
    if (zero)
        sum = ir_binary(at, IR_sub, sum, ir_binary(at, IR_mul, zero, ir_constant_i(at, TCC_I32, terms)));
    for (int i = 0; i < t->rank - 1; i++) /* [filters, 1, ...] against [image, filters, ...] */
        shape[i] = ir_const(at->ctx, 1);
    if (zeros)
        shape[0] = ir_num_elements(at->ctx, zeros->type);
    zeros = zeros ? ir_reshape_to(at, zeros, ir_is_value(shape[0], 1) ? 0 : t->rank - 1, shape) : NULL;
    return ir_binary(at, IR_mul, sum, zeros);
}

/* bias: i32, or NULL. */
static struct ir_value *convolution(struct rewrite *w, const struct ir_node *n, const struct q_form *a,
                                    const struct q_form *b, struct ir_value *bias)
{
    struct ir_builder *at = &w->b;
    if (!zeros_along(b, b->x->type->rank) || !zero_is_byte(a) ||
        (a->zeros && !ir_is_value(ir_num_elements(at->ctx, a->zeros->type), 1)))
        return NULL;
    ir_expr none[TCC_MAX_RANK];
    struct ir_value *zero = NULL, *x = a->x;
    if (has_zero(a)) {
        zero = ir_reshape_to(at, zero_value(w, a), 0, NULL);
        struct ir_value *sums = ir_binary(at, IR_mul, filter_sums(w, b->x), zero);
        x = padded(w, n, x, zero, none);
        bias = bias ? ir_binary(at, IR_sub, bias, sums) : ir_unary(at, IR_neg, sums);
        if (!x || !bias)
            return NULL;
    }
    struct ir_value *share = has_zero(b) ? window_share(w, n, x, zero, b, x == a->x) : NULL;
    if (has_zero(b) && !share)
        return NULL;
    struct ir_value *y = convolve(w, n, x, b->x, bias, x == a->x);
    return y && share ? ir_binary(at, IR_sub, y, share) : y;
}

/* Is its first operand to be signed? */
static bool takes_signed(const struct rewrite *w, const struct ir_node *n)
{
    return q_takes_signed(w) && (n->op != IR_conv || ir_get_i(n, IR_ATTR_groups, 1) == 1);
}

/* The product, of type i32, from what its operands are. */
static struct ir_value *product(struct rewrite *w, const struct ir_node *n, struct q_form *a, struct q_form *b,
                                struct ir_value *bias)
{
    if (!signed_weights(w, b))
        return NULL;
    bool signs = takes_signed(w, n);
    struct ir_value *x = signs && rewrite_dtype_of(a->x) == TCC_U8 ? q_signed(w, a->x) : NULL;
    if (x) {
        a->x = x;
        a->zero -= 128;
    } else if (rewrite_dtype_of(a->x) == TCC_I8 && !signs) {
        a->x = q_unsigned(w, a->x, false);
        a->zero += 128;
    }
    if (!a->x)
        return NULL;
    return n->op == IR_conv ? convolution(w, n, a, b, bias) : matrix(w, n, a, b);
}

struct ir_value *q_integer_product(struct rewrite *w, struct ir_node *n)
{
    struct q_form a, b;
    if (rewrite_dtype_of(n->out[0]) != TCC_I32 || rewrite_dtype_of(n->in[0].value) != TCC_I32 ||
        rewrite_dtype_of(n->in[1].value) != TCC_I32 || !q_centred(w, n->in[0].value, &a) ||
        !q_centred(w, n->in[1].value, &b) || !rewrite_go(w))
        return NULL;
    return product(w, n, &a, &b, rewrite_operand(n, 2));
}

/* -- Products of floats -------------------------------------------------------------------------------------------- */

/* The scale of the weights as a factor of the result; false: it differs along the sum. */
static bool result_scale(struct rewrite *w, const struct ir_node *n, struct ir_value **scale)
{
    struct ir_builder *b = &w->b;
    double one;
    ir_type t = *scale ? (*scale)->type : NULL;
    int rank = n->in[1].value->type->rank;
    if (!t)
        return true;
    if (ir_splat_f(*scale, &one)) {
        *scale = ir_constant_f(b, TCC_F32, one);
        return true;
    }
    bool tb = ir_get_i(n, IR_ATTR_trans_b, 0);
    int axis = n->op == IR_conv ? 0 : tb ? rank - 2 : rank - 1;
    for (int i = 0; i < t->rank; i++)
        if (rank - t->rank + i != axis && !ir_is_value(t->dim[i], 1))
            return false;
    ir_expr dims[TCC_MAX_RANK];
    int r = n->op == IR_conv ? rank - 1 : 1;
    for (int i = 0; i < r; i++)
        dims[i] = ir_const(b->ctx, 1);
    dims[0] = ir_num_elements(b->ctx, t);
    *scale = ir_reshape_to(b, *scale, r, dims);
    return *scale != NULL;
}

/* Does no sum of the product leave 32 bits? */
static bool fits_i32(const struct ir_node *n)
{
    ir_type t = n->in[1].value->type;
    bool tb = ir_get_i(n, IR_ATTR_trans_b, 0);
    int64_t terms = 1, dim;
    for (int i = 0; i < t->rank; i++) {
        bool summed = n->op == IR_conv ? i > 0 : i == (tb ? t->rank - 1 : t->rank - 2);
        if (summed && (!ir_is_const(t->dim[i], &dim) || dim > 65536 || (terms *= dim) > 65536))
            return false;
    }
    return true;
}

struct ir_value *q_float_product(struct rewrite *w, struct ir_node *n)
{
    struct ir_builder *at = &w->b;
    struct q_form a, b;
    double sa;
    if (rewrite_dtype_of(n->out[0]) != TCC_F32 || rewrite_dtype_of(n->in[0].value) != TCC_F32 ||
        !pass_bounded(w->run) || !q_dequantised(w, n->in[0].value, &a) || !q_per_tensor(&a, &sa) ||
        !q_dequantised(w, n->in[1].value, &b) || !q_known(at->ctx, b.x) || !fits_i32(n) || !rewrite_go(w))
        return NULL;
    struct ir_value *scale = b.scale, *bias = rewrite_operand(n, 2);
    if (!result_scale(w, n, &scale))
        return NULL;
    struct ir_value *y = product(w, n, &a, &b, NULL);
    y = y ? ir_cast_to(at, y, TCC_F32) : NULL;
    struct ir_value *factor = ir_constant_f(at, TCC_F32, sa);
    y = ir_binary(at, IR_mul, y, scale ? ir_binary(at, IR_mul, scale, factor) : factor);
    if (!y || !bias)
        return y;
    ir_expr dims[TCC_MAX_RANK];
    int rank = y->type->rank - 1;
    for (int i = 0; i < rank; i++)
        dims[i] = ir_const(at->ctx, 1);
    dims[0] = bias->type->dim[0];
    return ir_binary(at, IR_add, y, ir_reshape_to(at, bias, rank, dims));
}

/* -- Products of 8-bit floats -------------------------------------------------------------------------------------- */

static bool is_fp8(const struct ir_value *v)
{
    enum tcc_dtype d = rewrite_dtype_of(v);
    return d == TCC_F8E4M3FN || d == TCC_F8E5M2;
}

/* v as an 8-bit float cast to f32, times a scale (NULL: none). */
static bool scaled_fp8(struct ir_value *v, struct ir_value **cast, struct ir_value **scale)
{
    struct ir_node *n = v->def;
    *scale = NULL;
    for (int i = 0; n && n->op == IR_mul && i < 2; i++) {
        struct ir_value *x = n->in[i].value;
        if (x->type == v->type && x->def && x->def->op == IR_cast && is_fp8(x->def->in[0].value)) {
            *scale = n->in[1 - i].value;
            n = x->def;
            v = x;
        }
    }
    *cast = v;
    return n && n->op == IR_cast && is_fp8(n->in[0].value);
}

struct ir_value *q_fp8_product(struct rewrite *w, struct ir_node *n)
{
    struct ir_builder *at = &w->b;
    struct ir_value *in[2], *a, *b, *bias = rewrite_operand(n, 2);
    if (rewrite_dtype_of(n->out[0]) != TCC_F32 || rewrite_dtype_of(n->in[0].value) != TCC_F32 ||
        rewrite_dtype_of(n->in[1].value) != TCC_F32 || !pass_bounded(w->run) || bias ||
        !scaled_fp8(n->in[0].value, &in[0], &a) || !scaled_fp8(n->in[1].value, &in[1], &b) || (!a && !b) ||
        (a && !ir_is_value(ir_num_elements(at->ctx, a->type), 1)) || !result_scale(w, n, &b) || !rewrite_go(w))
        return NULL;
    a = a ? ir_reshape_to(at, a, 0, NULL) : NULL;
    struct ir_value *x = in[0]->def->in[0].value, *v = in[1]->def->in[0].value;
    bool one_type =
        rewrite_dtype_of(x) == rewrite_dtype_of(v); /* then without casts: constants stay as small as they are */
    struct ir_value *y = q_again(w, n, 2, one_type ? (struct ir_value *[]){x, v} : in, one_type ? TCC_F32 : TCC_NONE);
    struct ir_value *scale = a && b ? ir_binary(at, IR_mul, b, a) : a ? a : b;
    return y && scale ? ir_binary(at, IR_mul, y, scale) : NULL;
}
