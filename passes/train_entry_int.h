/* SPDX-License-Identifier: Apache-2.0 */
/* train_entry_int.h - shared by the files that build the entry points of training (train.c, train_params.c). */
#ifndef TCC_TRAIN_ENTRY_INT_H
#define TCC_TRAIN_ENTRY_INT_H

#include "passes/train_int.h"
#include "passes/train_loss_int.h"

struct training {
    struct ir_ctx *ctx;
    struct ir_module *m;
    const struct train_options *o;
    struct ir_func *main, *train;        /* of the front end */
    struct train_loss loss;
    const char **step_outputs;           /* names, ended by NULL */
    int nparams;
    struct ir_state **params;            /* trained ones */
};

/* Parameters that the patterns leave. False after a diagnostic. */
bool train_select(struct training *t);
/* Takes parameters without a gradient from the list (grads is shortened alike), with one warning that names them. False
 * when none is left. */
bool train_drop_unreached(struct training *t, struct ir_value **grads);

#endif
