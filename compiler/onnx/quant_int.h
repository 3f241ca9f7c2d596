/* SPDX-License-Identifier: Apache-2.0 */
/* quant_int.h - what op_quant.c (ONNX's quantised operators) and op_qlinear.c (ONNX Runtime's) share. */
#ifndef TCC_ONNX_QUANT_INT_H
#define TCC_ONNX_QUANT_INT_H

#include "compiler/onnx/import_int.h"

/* Rounds to even, adds the zero point (may be NULL), clamps to the range of `to`. `x` is a float. */
struct ir_value *imp_saturate(struct imp *im, struct ir_value *x, struct ir_value *zero, enum tcc_dtype to);
/* An operand as i32 without its zero point (may be NULL); a vector of zero points lies along `axis`. */
struct ir_value *imp_centred(struct imp *im, struct ir_value *x, struct ir_value *zero, int axis);
/* product * (scale of a * scale of b / scale of y), rounded and saturated to y's type: result 0. */
bool imp_requantise(struct imp *im, struct ir_value *product, struct ir_value *sa, struct ir_value *sb,
                    struct ir_value *sy,
                    struct ir_value *zero);
/* x in u8 by a scale and a zero point that its range gives (DynamicQuantizeLinear); `rows`: by those of each row, [..,
 * 1]. */
struct ir_value *imp_dynamic_quantize(struct imp *im, struct ir_value *x, bool rows, struct ir_value **scale,
                                      struct ir_value **point);
/* Each element along the axis `block` times, cut to `size` in all. */
struct ir_value *imp_repeat_blocks(struct imp *im, struct ir_value *s, int axis, int64_t block, ir_expr size);
/* f32 (a - za)(b - zb) sa sb of bytes a and b: a matrix product. Zero points may be NULL; b's and its scale may be one
 * for each column. */
struct ir_value *imp_integer_product(struct imp *im, struct ir_value *a, struct ir_value *za, struct ir_value *sa,
                                     struct ir_value *b,
                                     struct ir_value *zb, struct ir_value *sb);
/* A scale or zero point in rank 0 if it has one element. */
struct ir_value *imp_one(struct imp *im, struct ir_value *v);

#endif
