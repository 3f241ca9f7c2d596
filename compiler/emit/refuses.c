/* SPDX-License-Identifier: Apache-2.0 */
/* refuses.c - kernels that no code can be emitted for: strings, arithmetic on complex numbers, scalar ops without
 * code. */
#include "compiler/emit/vmath.h"

static const char *refuses_insn(struct ir_ctx *ctx, const struct kn_insn *n)
{
    enum tcc_class class = tcc_dtype_class((enum tcc_dtype)n->dtype);
    if (class == TCC_CLASS_STRING)
        return "strings have no kernels";
    bool moves = n->code == KN_LOAD || n->code == KN_STORE || (n->code == KN_SCALAR && n->op == IR_select);
    if (class == TCC_CLASS_COMPLEX && !moves)
        return "arithmetic on complex numbers";
    if (n->code != KN_SCALAR || n->op == IR_cast)
        return NULL;
    const struct ir_scalar_body *body = ir_scalar_body((enum ir_op)n->op);
    if (!body || !body->primitive)
        return ir_internf(ctx, "%s is not a primitive scalar op", ir_op_info((enum ir_op)n->op)->name);
    if (ir_is_vmath((enum ir_op)n->op) && tcc_is_float((enum tcc_dtype)n->dtype) && !vm_has((enum ir_op)n->op))
        return ir_internf(ctx, "no code for %s", ir_op_info((enum ir_op)n->op)->name);
    return NULL;
}

const char *em_refuses(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].space == KN_SHARED || k->operands[i].space == KN_REGISTERS)
            return "an operand in shared memory or registers";
    for (int i = 0; i < k->ninsns; i++) {
        const char *why = refuses_insn(ctx, &k->insns[i]);
        if (why)
            return why;
    }
    return NULL;
}
