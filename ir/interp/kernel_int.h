/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_int.h - a kernel that is being interpreted: what kernel.c, which walks its points, and kernel_insn.c share. */
#ifndef TCC_INTERP_KERNEL_INT_H
#define TCC_INTERP_KERNEL_INT_H

#include "ir/ir_int.h"

union ki_value {
    double f;
    int64_t i;
    char raw[16];
};

struct ki_accumulator {
    double f;
    int64_t i, position;
};

/* What an instruction evaluates at each point. */
struct ki_insn_exprs {
    const struct ir_formula *index;
    const struct ir_formula *guards; /* e, lo, hi of each */
    const struct ir_formula *expr, *bound;
};

struct ki_run {
    const struct kn_kernel *k;
    const struct tcc_env *env;           /* NULL: all zero */
    const int64_t *sizes;
    int64_t var[KN_MAX_DIMS], first[KN_MAX_DIMS], extent[KN_MAX_DIMS]; /* of each dim: points [first, extent) */
    struct ki_insn_exprs *exprs;         /* by instruction */
    struct ir_formula *nodes;            /* all that these point to */
    union ki_value *values;              /* by instruction; KN_INDEX: the symbol's value */
    bool *bad;                           /* by instruction; KN_INDEX: is the index outside its bound */
    bool any_bad;                        /* has any been so far */
    struct ki_accumulator *acc;          /* by instruction */
    char **data;                         /* by operand */
    int64_t (*dims)[TCC_MAX_RANK];       /* by operand */
    const struct kn_sample *sample;      /* NULL: all points */
    int status;
};

/* kernel_insn.c. Where a symbol's value lies (`user` the run), NULL: it has none; an expression at the point. */
const int64_t *ki_where(void *user, ir_expr sym);
int64_t ki_eval(struct ki_run *r, ir_expr e);
/* Of an instruction with an operand, at the point: is its element one that it touches, and where; NULL: outside. */
bool ki_guards_hold(struct ki_run *r, const struct kn_insn *n);
char *ki_address(struct ki_run *r, const struct kn_insn *n);
void ki_run_insn(struct ki_run *r, int i);
/* A reduction's value before its first point, and, rounded, behind its last. */
void ki_start_accumulator(struct ki_run *r, int i);
void ki_accumulated(struct ki_run *r, int i);

#endif
