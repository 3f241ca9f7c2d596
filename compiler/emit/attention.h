/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h - the parts of an attention kernel: for templates that don't hold a row's scores whole. */
#ifndef TCC_EMIT_ATTENTION_H
#define TCC_EMIT_ATTENTION_H

#include "compiler/emit/emit.h"

struct em_attention {
    int dot, top, sum, mean;             /* reductions */
    int val_q, val_k, val_v;             /* factors: the loads, or words of one operand of them */
    int load_q, load_k, load_v;
    int score;                           /* value that stage AT_SCORE stores */
    int t, d, e, row;                    /* dims; row -1: a single one */
    ir_expr keys;                        /* keys that a row may look at, or NULL: all */
};
enum { AT_DOT, AT_SCORE, AT_TOP, AT_CLAMP, AT_WEIGHTS, AT_MEAN, AT_LAST, AT_STAGES };
/* False: the kernel is none of these. */
bool em_attention_roles(struct ir_ctx *ctx, const struct kn_kernel *k, struct em_attention *a);

#endif
