/* SPDX-License-Identifier: Apache-2.0 */
/* parse_kernel_int.h - a kernel that is being read from text: what parse_kernel.c and parse_schedule.c share. */
#ifndef TCC_PARSE_KERNEL_INT_H
#define TCC_PARSE_KERNEL_INT_H

#include "ir/text/parse_int.h"

struct kernel_label {
    const char *name;
    int number;
};

struct kernel_reader {
    struct parser *p;
    struct ir_ctx *ctx;
    struct kn_kernel *k;
    VEC(struct kn_dim) dims;
    VEC(struct kn_operand) operands;
    VEC(struct kernel_label) operand_names, insn_names;
    VEC(struct kn_insn) insns;
    VEC(struct kn_stage) stages;
    VEC(struct kn_requirement) required;
    bool sizes, no_roles;
};

/* parse_kernel.c. A set of dims, (i, j); names of an instruction's value and of an operand. */
bool parse_dim_set(struct kernel_reader *r, uint32_t *set);
bool parse_insn_name(struct kernel_reader *r, int32_t *out);
bool parse_operand_name(struct kernel_reader *r, int32_t *out);

/* parse_schedule.c, each behind its word. As older texts have the roles of a contraction. */
bool parse_contraction(struct kernel_reader *r);
bool parse_roles(struct kernel_reader *r);
bool parse_schedule(struct kernel_reader *r);

#endif
