/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - which of an attention kernel's instructions and dims play which part (passes/lower/attention.c makes such kernels). */
#include "compiler/emit/attention.h"

#include <math.h>

static int only_dim(uint32_t set)
{
    return set && !(set & (set - 1)) ? __builtin_ctz(set) : -1;
}

static int reduction(const struct kn_kernel *k, int stage, enum kn_reducer r)
{
    int found = -1;
    for (int i = k->stages[stage].first; i < k->stages[stage].last; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code == KN_ARGREDUCE || n->code == KN_SCAN || (n->code == KN_REDUCE && (found >= 0 || n->reducer != r)))
            return -1;
        if (n->code == KN_REDUCE)
            found = i;
    }
    return found;
}

/* The load that a value comes from by words of one operand. */
static int load_of(const struct kn_kernel *k, int i)
{
    while (k->insns[i].code == KN_SCALAR && k->insns[i].nargs == 1)
        i = k->insns[i].arg[0];
    return k->insns[i].code == KN_LOAD ? i : -1;
}

static bool uses_dim(const struct kn_kernel *k, int load, int dim)
{
    const struct kn_insn *n = &k->insns[load];
    for (int i = 0; i < n->nindex; i++)
        if (ir_uses_sym(n->index[i], k->dims[dim].var))
            return true;
    return false;
}

/* The sums of products of two loads. */
static bool products(const struct kn_kernel *k, int sum, int *val_a, int *val_b, int *load_a, int *load_b)
{
    const struct kn_insn *mul = &k->insns[k->insns[sum].arg[0]];
    if (mul->code != KN_SCALAR || mul->op != IR_mul || mul->dtype != TCC_F32)
        return false;
    *val_a = mul->arg[0];
    *val_b = mul->arg[1];
    *load_a = load_of(k, *val_a);
    *load_b = load_of(k, *val_b);
    return *load_a >= 0 && *load_b >= 0;
}

/* select(row >= key, score, -inf): the number of keys that a row sees. */
static ir_expr visible_keys(struct ir_ctx *ctx, const struct kn_kernel *k, int score, int t)
{
    const struct kn_insn *s = &k->insns[score];
    if (s->code != KN_SCALAR || s->op != IR_select || k->insns[s->arg[2]].code != KN_CONST ||
        k->insns[s->arg[2]].fvalue != -INFINITY)
        return NULL;
    const struct kn_insn *c = &k->insns[s->arg[0]];
    if (c->code != KN_SCALAR || c->op != IR_ge)
        return NULL;
    const struct kn_insn *row = &k->insns[c->arg[0]], *key = &k->insns[c->arg[1]];
    if (row->code != KN_EXPR || key->code != KN_EXPR || key->expr != k->dims[t].var)
        return NULL;
    return ir_addc(ctx, row->expr, 1);
}

bool em_attention_roles(struct ir_ctx *ctx, const struct kn_kernel *k, struct em_attention *a)
{
    const struct kn_stage *s = k->stages;
    int weights;
    *a = (struct em_attention){.row = -1};
    if (k->kind != IR_K_ATTENTION || k->nstages != AT_STAGES)
        return false;
    a->t = only_dim(s[AT_TOP].inner);
    a->d = only_dim(s[AT_DOT].inner);
    a->e = only_dim(s[AT_LAST].repeat);
    if (a->t < 0 || a->d < 0 || a->e < 0 || s[AT_DOT].repeat != s[AT_TOP].inner ||
        s[AT_SCORE].repeat != s[AT_TOP].inner || s[AT_SCORE].inner || s[AT_CLAMP].inner ||
        s[AT_WEIGHTS].inner != s[AT_TOP].inner || s[AT_MEAN].inner != s[AT_TOP].inner ||
        s[AT_MEAN].repeat != s[AT_LAST].repeat || s[AT_LAST].inner)
        return false;
    a->dot = reduction(k, AT_DOT, KN_SUM);
    a->top = reduction(k, AT_TOP, KN_MAX);
    a->sum = reduction(k, AT_WEIGHTS, KN_SUM);
    a->mean = reduction(k, AT_MEAN, KN_SUM);
    const struct kn_insn *store = &k->insns[s[AT_SCORE].last - 1];
    if (a->dot < 0 || a->top < 0 || a->sum < 0 || a->mean < 0 || store->code != KN_STORE ||
        k->operands[store->operand].use != KN_LOCAL || k->insns[a->dot].dtype != TCC_F32)
        return false;
    a->score = store->arg[0];
    if (!products(k, a->dot, &a->val_q, &a->val_k, &a->load_q, &a->load_k) ||
        !products(k, a->mean, &weights, &a->val_v, &weights, &a->load_v) ||
        k->operands[k->insns[weights].operand].use != KN_LOCAL)
        return false;
    for (int i = 0; i < em_nouter(k); i++)
        if (uses_dim(k, a->load_q, i) && !uses_dim(k, a->load_k, i) && !uses_dim(k, a->load_v, i))
            a->row = i;
    a->keys = visible_keys(ctx, k, a->score, a->t);
    return true;
}
