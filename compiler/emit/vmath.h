/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmath.h - transcendental words and fmod, as vector code for float and double in any number of lanes.
 *
 * Within 2 ULP for float, 4 ULP for double (tests/unit/test_vmath.c), for all arguments, subnormals included (unless
 * the processor is told to flush them). No function is called and no table is read, but by the arguments of sin, cos,
 * tan beyond 2^27 (reduced by an integer routine, one lane at a time) and of fmod whose quotient does not fit a
 * mantissa.
 */
#ifndef TCC_EMIT_VMATH_H
#define TCC_EMIT_VMATH_H

#include "compiler/emit/emit.h"

/* The word on values of float or double type (scalar or vector); NULL: not one of vmath's words. */
LLVMValueRef vm_scalar(struct em *e, enum ir_op op, int nargs, LLVMValueRef *args);
bool vm_has(enum ir_op op);

/* -- Private to vmath*.c: one evaluation's types, and short names for building ----------------------- */
struct vm {
    struct em *e;
    bool f64;
    int lanes;
    LLVMTypeRef f, i;                /* floating and integer type of the lanes */
};
struct vm vm_make(struct em *e, LLVMValueRef like);

LLVMValueRef vm_k(const struct vm *m, double c);
LLVMValueRef vm_ik(const struct vm *m, int64_t c);
LLVMValueRef vm_add(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_sub(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_mul(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_div(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_fma(const struct vm *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
LLVMValueRef vm_neg(const struct vm *m, LLVMValueRef a);
LLVMValueRef vm_abs(const struct vm *m, LLVMValueRef a);
LLVMValueRef vm_sqrt(const struct vm *m, LLVMValueRef a);
LLVMValueRef vm_sel(const struct vm *m, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_lt(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_gt(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_eq(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_nan(const struct vm *m, LLVMValueRef a);
LLVMValueRef vm_or(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_and(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_not(const struct vm *m, LLVMValueRef a);
LLVMValueRef vm_bits(const struct vm *m, LLVMValueRef a);    /* float -> integer of its bits */
LLVMValueRef vm_float(const struct vm *m, LLVMValueRef a);   /* and back */
LLVMValueRef vm_iadd(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_shl(const struct vm *m, LLVMValueRef a, int n);
LLVMValueRef vm_min(const struct vm *m, LLVMValueRef a, LLVMValueRef b);     /* b where either is NaN */
LLVMValueRef vm_max(const struct vm *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_copysign(const struct vm *m, LLVMValueRef magnitude, LLVMValueRef sign);
/* Nearest integer of |x| < 2^22 (2^51): as a float, and as an integer. */
LLVMValueRef vm_nearest(const struct vm *m, LLVMValueRef x, LLVMValueRef *integer);
/* of x * y */
LLVMValueRef vm_nearest_product(const struct vm *m, LLVMValueRef x, LLVMValueRef y, LLVMValueRef *integer);
LLVMValueRef vm_poly(const struct vm *m, LLVMValueRef x, int n, const double *c);
#define VM_POLY(m, x, table) vm_poly((m), (x), (int)(sizeof(table) / sizeof *(table)), (table))
/* a * b = product + *low exactly. */
LLVMValueRef vm_two_product(const struct vm *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *low);

LLVMValueRef vm_exp(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_exp_sum(const struct vm *m, LLVMValueRef x, LLVMValueRef low);   /* e^(x + low), |low| tiny */
LLVMValueRef vm_exp_normal(const struct vm *m, LLVMValueRef x);   /* of x <= 0; 0 where float is subnormal, about */
LLVMValueRef vm_one_plus_exp(const struct vm *m, LLVMValueRef x); /* NULL: of double */
LLVMValueRef vm_expm1(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_log(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_log1p(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_sinh(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_cosh(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_tanh(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_asinh(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_acosh(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_atanh(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_sin(const struct vm *m, LLVMValueRef x);     /* these five: double only */
LLVMValueRef vm_cos(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_tan(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_asin(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_acos(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_atan(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_erf(const struct vm *m, LLVMValueRef x);
/* 1 + erf(x) in fewer steps; NULL: there is no such way here */
LLVMValueRef vm_one_plus_erf(const struct vm *m, LLVMValueRef x);
/* 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)) likewise */
LLVMValueRef vm_one_plus_gelu_tanh(const struct vm *m, LLVMValueRef x);
LLVMValueRef vm_pow(const struct vm *m, LLVMValueRef x, LLVMValueRef y);         /* double only */
/* by square roots; NULL: y isn't a power that takes but them */
LLVMValueRef vm_pow_quarters(const struct vm *m, LLVMValueRef x, double y);
LLVMValueRef vm_fmod(const struct vm *m, LLVMValueRef x, LLVMValueRef y);        /* double only */

/* Calls a scalar helper function of the module for the lanes where `wanted`; other lanes keep `value`. Two arguments
 * at most, all double. `make` builds the helper's body the first time. */
LLVMValueRef vm_per_lane(const struct vm *m, const char *name, void (*make)(struct em *e, LLVMValueRef fn),
                         LLVMValueRef wanted,
                         int nargs, const LLVMValueRef *args, LLVMValueRef value);

#endif
