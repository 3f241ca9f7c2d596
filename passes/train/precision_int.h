/* SPDX-License-Identifier: Apache-2.0 */
/* precision_int.h - the element types that a network is trained in: --precision, --auto-cast, --auto-cast-type. */
#ifndef TCC_PASSES_TRAIN_PRECISION_INT_H
#define TCC_PASSES_TRAIN_PRECISION_INT_H

#include "passes/train/train.h"

enum precision_mode { PRECISION_FLOAT32, PRECISION_AUTOCAST, PRECISION_BF16_SR, PRECISION_BF16_MASTER };

struct precision_config {
    enum precision_mode mode;
    const char *cast;            /* AUTOCAST: list, matmul, all, or a file's name */
    enum tcc_dtype type;         /* AUTOCAST: the lower type */
};

/* False after a diagnostic, which is a usage error. */
bool precision_parse(struct ir_ctx *ctx, const struct train_options *o, struct precision_config *c);

#endif
