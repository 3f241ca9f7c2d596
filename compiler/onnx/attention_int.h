/* SPDX-License-Identifier: Apache-2.0 */
/* attention_int.h - what op_attention.c (ONNX's attention) and op_contrib_attention.c, op_contrib_cache.c (ONNX
 * Runtime's) share. */
#ifndef TCC_ONNX_ATTENTION_INT_H
#define TCC_ONNX_ATTENTION_INT_H

#include "compiler/import/attention.h"
#include "compiler/onnx/import_int.h"

/* What an attribute says of imp_rotate()'s `turned`. */
ir_expr imp_turned(struct imp *im);

#endif
