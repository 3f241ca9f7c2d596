/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fourier transforms, and what makes and takes apart complex tensors.
 *
 * A complex tensor is one of floats whose last axis of 2 holds real and imaginary part (pt2_int.h); transforms of one
 * axis are ONNX's DFT, whose forward direction is not scaled and whose inverse is divided by the length. Several axes
 * are transformed one after the other: where one side is real (r2c, c2r) that is the last of the list.
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

/* -- Pairs */

static struct ir_value *unsqueezed(struct pt2 *p, struct ir_value *x)
{
    int64_t last = x ? imp_rank(x) : 0;
    if (x && last + 1 > TCC_MAX_RANK)
        return imp_unsupported(p->im, "a complex tensor of so many dims"), NULL;
    return x ? imp_unsqueeze(p->im, x, 1, &last) : NULL;
}

struct ir_value *pt2_pair(struct pt2 *p, struct ir_value *re, struct ir_value *im)
{
    struct ir_value *in[] = {unsqueezed(p, re), unsqueezed(p, im)};
    return in[0] && in[1] ? imp_concat(p->im, 2, in, imp_rank(in[0]) - 1) : NULL;
}

struct ir_value *pt2_part(struct pt2 *p, struct ir_value *pair, int part)
{
    int64_t last = imp_rank(pair) - 1;
    struct ir_value *x = imp_slice1(p->im, pair, (int)last, ir_const(p->ctx, part), ir_const(p->ctx, 1));
    return x ? imp_squeeze(p->im, x, 1, &last) : NULL;
}

/* A complex operand as it is, a real one with imaginary parts of 0. */
static struct ir_value *operand_pair(struct pt2 *p, const char *name)
{
    struct ir_value *x = pt2_need(p, name);
    if (!x || pt2_is_complex(p, name))
        return x;
    if (!imp_is_float(x))
        x = imp_cast(p->im, x, TCC_F32);
    return pt2_pair(p, x, imp_expand(p->im, imp_like(p->im, x, 0), imp_rank(x), x->type->dim));
}

/* view_as_real, view_as_complex: the same memory. */
bool aten_as_pair(struct pt2 *p)
{
    int to_complex = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    if (x && to_complex == pt2_is_complex(p, "self"))
        return imp_bad(p->im, to_complex ? "its operand is complex" : "its operand is not complex");
    return x && pt2_out(p, 0, x);
}

/* real, imag */
bool aten_part(struct pt2 *p)
{
    int part = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    if (!x || (!part && !pt2_is_complex(p, "self")))
        return x && pt2_out(p, 0, x);
    return pt2_is_complex(p, "self") ? pt2_out(p, 0, pt2_part(p, x, part))
                                     : imp_bad(p->im, "its operand is not complex");
}

static bool broadcast2(struct pt2 *p, struct ir_value **a, struct ir_value **b)
{
    if (*a && *b && imp_dtype(*a) != imp_dtype(*b))
        return imp_bad(p->im, "operands of two types");
    if (*a && *b && imp_rank(*b) < imp_rank(*a))
        *b = pt2_expand_as(p, *b, *a);
    *a = *a ? pt2_expand_as(p, *a, *b) : NULL;
    *b = *a && *b ? pt2_expand_as(p, *b, *a) : NULL;
    return *b != NULL;
}

/* complex(real, imag); polar(abs, angle) */
bool aten_complex(struct pt2 *p)
{
    int polar = p->row->arg;
    struct ir_value *a = pt2_need(p, polar ? "abs" : "real"), *b = a ? pt2_need(p, polar ? "angle" : "imag") : NULL;
    if (!b || !broadcast2(p, &a, &b))
        return false;
    if (!polar)
        return pt2_out(p, 0, pt2_pair(p, a, b));
    struct ir_value *product = imp_bin(p->im, IR_mul, a, imp_un(p->im, IR_sin, b));
    return pt2_out(p, 0, pt2_pair(p, imp_bin(p->im, IR_mul, a, imp_un(p->im, IR_cos, b)), product));
}

bool aten_conj(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    if (!x || !pt2_is_complex(p, "self"))
        return x && pt2_out(p, 0, x);
    struct ir_value *im = pt2_part(p, x, 1);
    struct ir_value *negated = im ? imp_un(p->im, IR_neg, im) : NULL;
    return im && pt2_out(p, 0, pt2_pair(p, pt2_part(p, x, 0), negated));
}

/* abs, angle of a complex tensor */
bool aten_modulus(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    struct ir_value *re = x ? pt2_part(p, x, 0) : NULL, *im = re ? pt2_part(p, x, 1) : NULL;
    if (!im)
        return false;
    return pt2_out(p, 0, imp_hypot(p->im, re, im));
}

bool aten_angle(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    if (!x)
        return false;
    if (!pt2_is_complex(p, "self"))
        return pt2_out(p, 0,
                       imp_formula(p->im, "select(ne(x, x), x, select(lt(x, 0), 3.141592653589793, 0))",
                                   imp_cast(p->im, x, pt2_out_type(p, 0))));
    struct ir_value *re = pt2_part(p, x, 0), *im = pt2_part(p, x, 1);
    return re && im && pt2_out(p, 0, pt2_atan2(p, im, re));
}

/* to, _to_copy: to a complex type, of complex or real numbers. */
bool aten_complex_copy(struct pt2 *p)
{
    struct ir_value *x = operand_pair(p, "self");
    pt2_ignore(p, "dtype"); /* the result's, which is recorded */
    pt2_ignore(p, "copy");
    if (x && !pt2_out_complex(p, 0))
        return imp_unsupported(p->im, "a conversion from complex numbers to real ones");
    return x && pt2_out(p, 0, x);
}

/* -- Transforms */

enum { NORM_NONE, NORM_ROOT, NORM_ALL }; /* PyTorch's fft_norm_mode */

struct transform {
    struct ir_value *x; /* a pair, or (real) with a last axis of 1 */
    int rank;           /* without that axis */
    int naxes;
    int64_t axes[TCC_MAX_RANK];
    ir_expr sizes[TCC_MAX_RANK]; /* NULL: the axis' own */
    bool inverse, onesided;
    int norm;
};

static struct ir_value *dft(struct pt2 *p, struct ir_value *x, ir_expr n, int64_t axis, bool inverse, bool onesided)
{
    struct ir_value *in[] = {x, imp_dim_value(p->im, n), imp_int(p->im, TCC_I64, axis)};
    const struct ir_attr words[] = {imp_user_int(p->im, "inverse", inverse), imp_user_int(p->im, "onesided", onesided)};
    ir_expr dims[TCC_MAX_RANK];
    if (!x || !imp_assume(p->im, IR_LE, ir_const(p->ctx, 1), n, "a transform has a length of 1 at least"))
        return NULL;
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = imp_dim(x, k);
    dims[axis] = onesided && !inverse ? ir_addc(p->ctx, ir_floordiv(p->ctx, n, ir_const(p->ctx, 2)), 1) : n;
    dims[imp_rank(x) - 1] = ir_const(p->ctx, onesided && inverse ? 1 : 2);
    return imp_lib_value(p->im, "dft", 3, in, ir_tensor_type(p->ctx, imp_dtype(x), imp_rank(x), dims), 2, words);
}

/* From what DFT gives to the scale that is asked for; n is the product of the lengths. */
static struct ir_value *scaled(struct pt2 *p, struct ir_value *y, ir_expr n, bool inverse, int norm)
{
    if (!y || norm == (inverse ? NORM_ALL : NORM_NONE))
        return y;
    struct ir_value *f = imp_cast(p->im, imp_dim_value(p->im, n), imp_dtype(y));
    if (f && norm == NORM_ROOT)
        f = imp_un(p->im, IR_sqrt, f);
    return f ? imp_bin(p->im, inverse ? IR_mul : IR_div, y, f) : NULL;
}

/* `half`: which side of the last axis' transform is real and has n / 2 + 1 elements on the other. */
static struct ir_value *transform(struct pt2 *p, struct transform *t, bool real_result)
{
    ir_expr total = ir_const(p->ctx, 1);
    struct ir_value *y = t->x;
    bool real_operand = t->onesided && !real_result;
    for (int i = 0; y && i < t->naxes; i++) {
        int k = real_operand ? t->naxes - 1 - i : i; /* the real side's axis: first of r2c, last of c2r */
        bool last = t->onesided && k == t->naxes - 1;
        ir_expr n = t->sizes[k] ? t->sizes[k] : imp_dim(y, (int)t->axes[k]);
        if (last && real_result && !t->sizes[k])
            n = ir_addc(p->ctx, ir_mulc(p->ctx, n, 2), -2);
        total = ir_mul(p->ctx, total, n);
        y = dft(p, y, n, t->axes[k], t->inverse, last);
    }
    y = scaled(p, y, total, t->inverse, t->norm);
    int64_t end = t->rank;
    return y && real_result ? imp_squeeze(p->im, y, 1, &end) : y;
}

struct ir_value *pt2_transform(struct pt2 *p, struct ir_value *x, int64_t axis, int64_t n, enum pt2_transform kind,
                               bool normalized)
{
    struct transform t = {.x = x,
                          .rank = imp_rank(x) - 1,
                          .naxes = 1,
                          .axes = {axis},
                          .sizes = {ir_const(p->ctx, n)},
                          .inverse = kind == PT2_C2R || kind == PT2_C2C_INVERSE,
                          .onesided = kind == PT2_C2R || kind == PT2_R2C};
    t.norm = normalized ? NORM_ROOT : t.inverse ? NORM_ALL : NORM_NONE;
    return transform(p, &t, kind == PT2_C2R);
}

static bool read_axes(struct pt2 *p, struct transform *t, const char *name, int otherwise)
{
    int n = pt2_ints(p, name, TCC_MAX_RANK, t->axes);
    if (n < -1)
        return false;
    if (n == -1) { /* the last ones; 0: as many as there are sizes, or all */
        n = otherwise ? otherwise : t->naxes ? t->naxes : t->rank;
        for (int k = 0; k < n; k++)
            t->axes[k] = k - n;
    }
    if ((t->naxes && t->naxes != n) || n > t->rank)
        return imp_bad(p->im, "%d axes", n);
    t->naxes = n;
    for (int k = 0; k < n; k++) {
        if (!imp_axis(p->im, &t->axes[k], t->rank))
            return false;
        for (int i = 0; i < k; i++)
            if (t->axes[i] == t->axes[k])
                return imp_bad(p->im, "axis %lld twice", (long long)t->axes[k]);
    }
    return true;
}

/* The operand: a real one keeps a last axis of 1 where DFT takes it so. */
static bool read_operand(struct pt2 *p, struct transform *t, bool pair)
{
    t->x = pair ? operand_pair(p, "self") : pt2_need(p, "self");
    if (t->x && !pair && pt2_is_complex(p, "self"))
        return imp_bad(p->im, "its operand is complex");
    if (t->x && !pair)
        t->x = unsqueezed(p, t->x);
    if (t->x && imp_dtype(t->x) != TCC_F32 && imp_dtype(t->x) != TCC_F64)
        return imp_unsupported(p->im, "a transform of %s", tcc_dtype_name(imp_dtype(t->x)));
    t->rank = t->x ? imp_rank(t->x) - 1 : 0;
    return t->x != NULL;
}

enum { FFT_CORE_C2C, FFT_CORE_R2C, FFT_CORE_C2R };

/* _fft_c2c(self, dim, normalization, forward), _fft_r2c(self, dim, normalization, onesided), _fft_c2r(self, dim,
 * normalization, last_dim_size) */
bool aten_fft_core(struct pt2 *p)
{
    int kind = p->row->arg;
    struct transform t = {0};
    if (!read_operand(p, &t, kind != FFT_CORE_R2C) || !read_axes(p, &t, "dim", 0))
        return false;
    t.norm = (int)pt2_i(p, "normalization", NORM_NONE);
    t.inverse = kind == FFT_CORE_C2R || (kind == FFT_CORE_C2C && !pt2_b(p, "forward", true));
    t.onesided = kind == FFT_CORE_C2R || (kind == FFT_CORE_R2C && pt2_b(p, "onesided", true));
    if (t.norm < NORM_NONE || t.norm > NORM_ALL || !t.naxes)
        return imp_bad(p->im, "normalization %d, %d axes", t.norm, t.naxes);
    if (kind == FFT_CORE_C2R && !(t.sizes[t.naxes - 1] = pt2_e(p, "last_dim_size", 1)))
        return false;
    return pt2_out(p, 0, transform(p, &t, kind == FFT_CORE_C2R));
}

enum { FFT_INVERSE = 1, FFT_REAL = 2, FFT_TWO = 4, FFT_MANY = 8 };

/* torch.fft: fft(self, n, dim, norm) and its like; of two or many axes (self, s, dim, norm). */
bool aten_fft(struct pt2 *p)
{
    int kind = p->row->arg;
    static const char *const norms[] = {"backward", "ortho", "forward"};
    struct transform t = {.inverse = kind & FFT_INVERSE, .onesided = kind & FFT_REAL};
    bool several = kind & (FFT_TWO | FFT_MANY), real_result = t.inverse && t.onesided;
    if (!read_operand(p, &t, !t.onesided || t.inverse))
        return false;
    int n = pt2_exprs(p, several ? "s" : "n", TCC_MAX_RANK, t.sizes);
    if (n < -1)
        return false;
    t.naxes = n > 0 ? n : 0;
    if (!read_axes(p, &t, "dim", kind & FFT_TWO ? 2 : several ? 0 : 1))
        return false;
    for (int k = 0; k < t.naxes; k++)
        t.sizes[k] = n > 0 && !ir_is_value(t.sizes[k], -1) ? t.sizes[k] : NULL;
    const char *norm = pt2_s(p, "norm", norms[0]);
    int which = 0;
    while (which < 3 && strcmp(norm, norms[which]) != 0)
        which++;
    if (which == 3 || !t.naxes)
        return imp_bad(p->im, "norm '%s', %d axes", norm, t.naxes);
    t.norm = which == 1 ? NORM_ROOT : (which == 2) != t.inverse ? NORM_ALL : NORM_NONE;
    return pt2_out(p, 0, transform(p, &t, real_result));
}
