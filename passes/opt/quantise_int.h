/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantise_int.h - private to the pass quantise: tensors of bytes seen as numbers, and products of them.
 */
#ifndef TCC_PASSES_OPT_QUANTISE_INT_H
#define TCC_PASSES_OPT_QUANTISE_INT_H

#include "passes/composite.h"
#include "passes/rewrite_int.h"

/* (x - zero - zeros) * scale. */
struct q_form {
    struct ir_value *x;          /* i8 or u8 */
    struct ir_value *whole;      /* the value that is x - zero - zeros */
    int64_t zero;
    /* i32 that broadcasts against x: known at run time, or different along an axis; NULL: none */
    struct ir_value *zeros;
    struct ir_value *scale;      /* a constant, or NULL: 1 */
};

/* v as a constant, when it can be worked out from constants by elementwise ops and moves; it then takes v's place. */
const struct ir_tensor *q_known(struct ir_ctx *ctx, struct ir_value *v);

/* Is v, of type f32 or i32, a tensor of bytes less its zero point? */
bool q_centred(struct rewrite *w, struct ir_value *v, struct q_form *q);
/* The same times a positive constant. */
bool q_dequantised(struct rewrite *w, struct ir_value *v, struct q_form *q);
/* One zero point and one scale for all elements? *scale: 1 where there is none. */
bool q_per_tensor(const struct q_form *q, double *scale);
/* v as (x - zero) * scale in f32. */
struct ir_value *q_dequantise(struct rewrite *w, struct ir_value *x, int64_t zero, struct ir_value *scale);

/* x + 128 of an i8 x as u8. `free_only`: NULL unless it can be had in place of x (where x is made, or moved). */
struct ir_value *q_unsigned(struct rewrite *w, struct ir_value *x, bool free_only);

/* Does the machine multiply signed bytes as fast as unsigned by signed ones? */
bool q_takes_signed(const struct rewrite *w);
/* Does a convolution in groups read the number that the bytes x stand for? Kernels of few products a result widen
 * unsigned bytes. */
bool q_is_grouped(const struct ir_value *x);
/* x - 128 of a u8 x as i8, which takes the place of x: all its readers are given that and 128. NULL: not of this x. */
struct ir_value *q_signed(struct rewrite *w, struct ir_value *x);

/* The node of the same op and attributes on other operands; `to`: the attribute of that name, TCC_NONE: as it is. */
struct ir_value *q_again(struct rewrite *w, const struct ir_node *n, int nin, struct ir_value *const *in,
                         enum tcc_dtype to);

/* Rules for matmul and conv: products of centred i32 (exact), of dequantised f32 (bounded). */
struct ir_value *q_integer_product(struct rewrite *w, struct ir_node *n);
struct ir_value *q_float_product(struct rewrite *w, struct ir_node *n);
/* And of 8-bit floats times scales, one of the first operand's and one for each result of the second's: the scales
 * become the result's (bounded). */
struct ir_value *q_fp8_product(struct rewrite *w, struct ir_node *n);

#endif
