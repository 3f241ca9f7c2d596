/* SPDX-License-Identifier: Apache-2.0 */
/* quant_int.h - what op_quant.c (ONNX's quantised operators), and op_qlinear.c, op_contrib_quant.c and
 * op_contrib_moe.c (ONNX Runtime's) share. */
#ifndef TCC_ONNX_QUANT_INT_H
#define TCC_ONNX_QUANT_INT_H

#include "compiler/onnx/import_int.h"

/* product * (scale of a * scale of b / scale of y), rounded and saturated to y's type: result 0. */
bool imp_requantise(struct imp *im, struct ir_value *product, struct ir_value *sa, struct ir_value *sb,
                    struct ir_value *sy,
                    struct ir_value *zero);

/* u8[.., n] -> u8[.., n * 8 / bits], the lowest bits of each byte first. NULL: NULL. */
struct ir_value *imp_unpack_bytes(struct imp *im, struct ir_value *x, int bits);

#endif
