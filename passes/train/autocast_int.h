/* SPDX-License-Identifier: Apache-2.0 */
/* autocast_int.h - casts of floats to a lower type inside functions: the pass autocast, and precision.c. */
#ifndef TCC_PASSES_TRAIN_AUTOCAST_INT_H
#define TCC_PASSES_TRAIN_AUTOCAST_INT_H

#include "passes/train/train.h"

enum autocast_mode {
    AUTOCAST_LIST,       /* by autocast.def */
    AUTOCAST_MATMUL,     /* products, convolutions and attention take the lower type and give float32 */
    AUTOCAST_ALL         /* everything but the FLOAT32 rows takes and gives the lower type */
};
/* What a file adds in front of the table: a node's name, a source operator, an op or a kind, to a policy. */
struct train_loss;
struct autocast_rule { enum autocast_policy policy; bool node; const char *name; };
struct autocast {
    enum autocast_mode mode;
    enum tcc_dtype type;
    int nrules;
    const struct autocast_rule *rules;
    /* NULL: none. Outputs that are losses by themselves are computed in f32 from the last product on */
    const struct train_loss *loss;
};

/* "list", "matmul", "all" or a file's name. False after a diagnostic. */
bool autocast_read(struct ir_ctx *ctx, const char *text, enum tcc_dtype type, struct autocast *a);
/* Casts within a function; its inputs, outputs, regions' parameters and what library ops get keep their types. State is
 * read and written in the type that the variables have now. */
bool autocast_func(struct ir_func *f, const struct autocast *a);

#endif
