/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - what passes and reports ask a plan: whose memory a buffer is, where a kernel reads and writes, what a step
 * does to an argument, who names a buffer. */
#include "ir/text/kernel_words_int.h"

/* -- Buffers -------------------------------------------------------------------------------------------------- */

int kn_storage(const struct kn_buffer *buffers, int buffer)
{
    while (buffer >= 0 && buffers[buffer].space == TCC_SPACE_ALIAS)
        buffer = buffers[buffer].index;
    return buffer;
}

int kn_next_weight(const struct kn_program *p, int b)
{
    bool device = b < 0 || p->buffers[b].memory; /* those of the device, then the others */
    while (++b < p->nbuffers || device) {
        if (b == p->nbuffers) {
            device = false;
            b = -1;
        } else if (p->buffers[b].space == TCC_SPACE_WEIGHT && !!p->buffers[b].memory == device) {
            return b;
        }
    }
    return p->nbuffers;
}

/* -- Kernels -------------------------------------------------------------------------------------------------- */

bool kn_stage_has(const struct kn_kernel *k, const struct kn_stage *s, uint32_t codes)
{
    for (int i = s->first; i < s->last; i++)
        if (codes >> k->insns[i].code & 1)
            return true;
    return false;
}

bool kn_has(const struct kn_kernel *k, uint32_t codes)
{
    return kn_stage_has(k, &(struct kn_stage){.last = k->ninsns}, codes);
}

bool kn_has_operand(const struct kn_kernel *k, uint32_t uses)
{
    for (int i = 0; i < k->noperands; i++)
        if (uses >> k->operands[i].use & 1)
            return true;
    return false;
}

int kn_store_to(const struct kn_kernel *k, int operand)
{
    int found = -1;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_STORE && k->insns[i].operand == operand) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

bool kn_is_map(const struct kn_kernel *k)
{
    return k->nstages == 1 && !k->stages[0].inner && !k->stages[0].repeat;
}

bool kn_is_gathered(const struct kn_kernel *k, ir_expr e)
{
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_INDEX && ir_uses_sym(e, k->insns[i].expr))
            return true;
    return false;
}

bool kn_guards_use(const struct kn_insn *n, ir_expr sym)
{
    for (int i = 0; i < n->nguards; i++)
        if (ir_uses_sym(n->guards[i].e, sym) || ir_uses_sym(n->guards[i].lo, sym) || ir_uses_sym(n->guards[i].hi, sym))
            return true;
    return false;
}

bool kn_insn_uses(const struct kn_insn *n, ir_expr sym)
{
    bool used = (n->expr && ir_uses_sym(n->expr, sym)) || (n->bound && ir_uses_sym(n->bound, sym));
    for (int i = 0; i < n->nindex && !used; i++)
        used = ir_uses_sym(n->index[i], sym);
    return used || kn_guards_use(n, sym);
}

void kn_remove_dim(struct kn_kernel *k, int d)
{
    for (int i = d; i + 1 < k->ndims; i++)
        k->dims[i] = k->dims[i + 1];
    k->ndims--;
    for (int s = 0; s < k->nstages; s++)
        k->stages[s].inner = kn_without_bit(k->stages[s].inner, d);
    if (k->split.combine && k->split.dim > d)
        k->split.dim--;
    kn_leave_roles(&k->roles, KN_ROLE_DIM, d);
}

void kn_remove_operand(struct kn_kernel *k, int operand)
{
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *n = &k->insns[i];
        n->operand -= (n->code == KN_LOAD || n->code == KN_STORE) && n->operand > operand;
    }
    k->noperands--;
    memmove(k->operands + operand, k->operands + operand + 1, (size_t)(k->noperands - operand) * sizeof *k->operands);
    kn_leave_roles(&k->roles, KN_ROLE_OPERAND, operand);
}

ir_expr kn_flat_offset(struct ir_ctx *ctx, const struct kn_operand *o, const ir_expr *index)
{
    ir_expr sum = ir_const(ctx, 0), stride = ir_const(ctx, 1);
    for (int i = o->rank - 1; i >= 0; i--) {
        sum = ir_add(ctx, sum, ir_mul(ctx, index[i], stride));
        stride = ir_mul(ctx, stride, o->dims[i]);
    }
    return sum;
}

/* -- Steps ---------------------------------------------------------------------------------------------------- */

int kn_count_steps(const struct kn_steps *steps)
{
    int n = steps->n;
    for (int i = 0; i < steps->n; i++)
        for (int r = 0; r < steps->at[i].nregions; r++)
            n += kn_count_steps(&steps->at[i].regions[r].steps);
    return n;
}

int kn_operand_of(const struct kn_kernel *k, int arg)
{
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_LOCAL && arg-- == 0)
            return i;
    return -1;
}

int kn_argument_of(const struct kn_kernel *k, int operand)
{
    int n = 0;
    for (int i = 0; i < operand; i++)
        n += k->operands[i].use != KN_LOCAL;
    return n;
}

enum kn_operand_use kn_use(const struct kn_step *s, int arg)
{
    switch ((int)s->kind) {
    case TCC_STEP_LAUNCH: {
        enum kn_operand_use use = s->kernel->operands[kn_operand_of(s->kernel, arg)].use;
        return use == KN_PARTIAL ? KN_OUT : use;
    }
    case TCC_STEP_COPY:
    case TCC_STEP_BOX:
    case TCC_STEP_UNBOX:
    case TCC_STEP_REF:
    case TCC_STEP_STACK: return arg ? KN_OUT : KN_IN;
    case TCC_STEP_LIB:
    case TCC_STEP_COLLECTIVE:
    case KN_STEP_WAIT: return arg < s->nin ? KN_IN : KN_OUT;
    case TCC_STEP_SEND:
    case TCC_STEP_BIND:
    case TCC_STEP_DIMS:
    case TCC_STEP_IF:
    case TCC_STEP_LOOP: return KN_IN;
    case TCC_STEP_RECV: return KN_OUT;
    default: return KN_INOUT;
    }
}

static void count_list(const struct kn_buffer *buffers, int n, const int *list, int *uses)
{
    for (int i = 0; i < n; i++)
        if (list[i] >= 0)
            uses[kn_storage(buffers, list[i])]++;
}

void kn_count_uses(const struct kn_buffer *buffers, const struct kn_steps *steps, int *uses)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        count_list(buffers, s->nargs, s->args, uses);
        for (int r = 0; r < s->nregions; r++) {
            const struct kn_region *g = &s->regions[r];
            int nexits = g->exits ? g->nresults - (s->kind == TCC_STEP_LOOP) : 0; /* a loop's condition has none */
            count_list(buffers, g->nparams, g->params, uses);
            count_list(buffers, g->nresults, g->results, uses);
            count_list(buffers, nexits, g->exits, uses);
            kn_count_uses(buffers, &g->steps, uses);
        }
    }
}
