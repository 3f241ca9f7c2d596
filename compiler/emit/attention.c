/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - which of an attention kernel's instructions and dims play which part (passes/kernel/attention.c makes
 * such kernels). */
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

/* visible: by select(row >= key, score, -inf). */
static struct em_score score_of(const struct kn_kernel *k, int score, int dot, bool visible)
{
    struct em_score to = {.compare = visible ? k->insns[score].arg[0] : -1, .scale = 1};
    const struct kn_insn *n = &k->insns[score = visible ? k->insns[score].arg[1] : score];
    if (n->code == KN_SCALAR && n->op == IR_mul && n->arg[0] == dot && k->insns[n->arg[1]].code == KN_CONST) {
        to.scale = k->insns[n->arg[1]].fvalue;
        score = dot;
    }
    to.plain = score == dot && to.scale > 0;
    return to;
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

/* Stages up to the sum of the weights. */
static bool find_scores(const struct kn_kernel *k, struct em_attention *a)
{
    const struct kn_stage *s = k->stages;
    a->t = only_dim(s[AT_TOP].inner);
    a->d = only_dim(s[AT_DOT].inner);
    if (a->t < 0 || a->d < 0 || s[AT_DOT].repeat != s[AT_TOP].inner || s[AT_SCORE].repeat != s[AT_TOP].inner ||
        s[AT_SCORE].inner || s[AT_CLAMP].inner || s[AT_WEIGHTS].inner != s[AT_TOP].inner)
        return false;
    a->dot = reduction(k, AT_DOT, KN_SUM);
    a->top = reduction(k, AT_TOP, KN_MAX);
    a->clamped = s[AT_CLAMP].last - 1;
    a->sum = reduction(k, AT_WEIGHTS, KN_SUM);
    const struct kn_insn *store = &k->insns[s[AT_SCORE].last - 1];
    if (a->dot < 0 || a->top < 0 || a->sum < 0 || store->code != KN_STORE ||
        k->operands[store->operand].use != KN_LOCAL || k->insns[a->dot].dtype != TCC_F32)
        return false;
    a->score = store->arg[0];
    return products(k, a->dot, &a->val_q, &a->val_k, &a->load_q, &a->load_k);
}

static bool find_mean(const struct kn_kernel *k, struct em_attention *a)
{
    const struct kn_stage *s = k->stages;
    int weights;
    a->e = only_dim(s[AT_LAST].repeat);
    if (a->e < 0 || s[AT_MEAN].inner != s[AT_TOP].inner || s[AT_MEAN].repeat != s[AT_LAST].repeat || s[AT_LAST].inner)
        return false;
    a->mean = reduction(k, AT_MEAN, KN_SUM);
    return a->mean >= 0 && products(k, a->mean, &weights, &a->val_v, &weights, &a->load_v) &&
           k->operands[k->insns[weights].operand].use == KN_LOCAL;
}

bool em_attention_roles(struct ir_ctx *ctx, const struct kn_kernel *k, struct em_attention *a)
{
    bool alone = k->nstages == AT_MEAN + 1;
    *a = (struct em_attention){.row = -1, .mean = -1, .e = -1, .load_v = -1, .val_v = -1};
    if (k->kind != IR_K_ATTENTION || (!alone && k->nstages != AT_STAGES && k->nstages != AT_STAGES + 1))
        return false;
    a->lse = k->nstages == AT_STAGES ? 0 : k->nstages - 1;
    if (a->lse && (k->stages[a->lse].inner || k->stages[a->lse].repeat))
        return false;
    if (!find_scores(k, a) || (!alone && !find_mean(k, a)))
        return false;
    for (int i = 0; i < em_nouter(k); i++)
        if (uses_dim(k, a->load_q, i) && !uses_dim(k, a->load_k, i) && (alone || !uses_dim(k, a->load_v, i)))
            a->row = i;
    a->keys = visible_keys(ctx, k, a->score, a->t);
    a->is = score_of(k, a->score, a->dot, a->keys != NULL);
    return true;
}

/* -- Gradients
 * -------------------------------------------------------------------------------------------------------- */

/* A product of rows and columns: which of its factors is which. */
static bool find_product(const struct kn_kernel *k, int stage, struct em_attention_grad *a, int i)
{
    int val[2], load[2];
    a->dot[i] = reduction(k, stage, KN_SUM);
    if (a->dot[i] < 0 || k->insns[a->dot[i]].dtype != TCC_F32 ||
        !products(k, a->dot[i], &val[0], &val[1], &load[0], &load[1]))
        return false;
    int col = uses_dim(k, load[1], a->col);
    if (uses_dim(k, load[1 - col], a->col) || !uses_dim(k, load[col], a->col))
        return false;
    a->val_row[i] = val[1 - col];
    a->load_row[i] = load[1 - col];
    a->val_col[i] = val[col];
    a->load_col[i] = load[col];
    return true;
}

/* Do they load the same element? */
static bool same_load(const struct kn_kernel *k, int x, int y)
{
    const struct kn_insn *a = &k->insns[x], *b = &k->insns[y];
    if (a->operand != b->operand || a->nindex != b->nindex || a->nguards || b->nguards)
        return false;
    for (int i = 0; i < a->nindex; i++)
        if (a->index[i] != b->index[i])
            return false;
    return true;
}

/* Columns of one side, summed by weights that the weights' stage stores. */
static bool find_sum(const struct kn_kernel *k, int stage, struct em_attention_grad *a)
{
    int weights, value, load, kept, sum = reduction(k, stage, KN_SUM);
    if (sum < 0 || !products(k, sum, &weights, &value, &kept, &load) || weights != kept ||
        k->operands[k->insns[kept].operand].use != KN_LOCAL)
        return false;
    int side = same_load(k, load, a->load_col[0]) ? 0 : 1;
    if (!same_load(k, load, a->load_col[side]) || a->sum[side] >= 0)
        return false;
    a->sum[side] = sum;
    a->last[side] = stage + 1;
    for (int j = k->stages[AT_GRAD_WEIGHTS].first; j < k->stages[AT_GRAD_WEIGHTS].last; j++)
        if (k->insns[j].code == KN_STORE && k->insns[j].operand == k->insns[kept].operand)
            a->weight[side] = k->insns[j].arg[0];
    return a->weight[side] >= 0;
}

/* The exponential of score - lse. */
static void find_weight(const struct kn_kernel *k, struct em_attention_grad *a)
{
    const struct kn_stage *s = &k->stages[AT_GRAD_WEIGHTS];
    for (int i = s->first; i < s->last; i++) {
        const struct kn_insn *n = &k->insns[i], *less = n->code == KN_SCALAR ? &k->insns[n->arg[0]] : n;
        if (n->code != KN_SCALAR || n->op != IR_exp || n->dtype != TCC_F32 || less->code != KN_SCALAR ||
            less->op != IR_sub)
            continue;
        a->exp = i;
        a->less = n->arg[0];
        a->lse = less->arg[1];
        a->is = score_of(k, less->arg[0], a->dot[0], a->from || a->to);
    }
}

/* select(query >= key, score, -inf): the columns that a row sees. */
static void find_range(struct ir_ctx *ctx, const struct kn_kernel *k, struct em_attention_grad *a)
{
    const struct kn_stage *s = &k->stages[AT_GRAD_WEIGHTS];
    for (int i = s->first; i < s->last; i++) {
        const struct kn_insn *n = &k->insns[i], *c = n->code == KN_SCALAR ? &k->insns[n->arg[0]] : n;
        if (n->code != KN_SCALAR || n->op != IR_select || k->insns[n->arg[2]].code != KN_CONST ||
            k->insns[n->arg[2]].fvalue != -INFINITY || c->code != KN_SCALAR || c->op != IR_ge)
            continue;
        const struct kn_insn *query = &k->insns[c->arg[0]], *key = &k->insns[c->arg[1]];
        if (query->code != KN_EXPR || key->code != KN_EXPR)
            continue;
        if (key->expr == k->dims[a->col].var)
            a->to = ir_addc(ctx, query->expr, 1);
        else if (query->expr == k->dims[a->col].var)
            a->from = key->expr;
    }
}

bool em_attention_grad_roles(struct ir_ctx *ctx, const struct kn_kernel *k, struct em_attention_grad *a)
{
    const struct kn_stage *s = k->stages;
    *a = (struct em_attention_grad){.row = -1, .weight = {-1, -1}, .sum = {-1, -1}, .exp = -1};
    if (k->kind != IR_K_ATTENTION || (k->nstages != AT_GRAD_LAST + 1 && k->nstages != AT_GRAD_LAST2 + 1))
        return false;
    a->col = only_dim(s[AT_GRAD_WEIGHTS].repeat);
    a->d = only_dim(s[AT_GRAD_DOT].inner);
    a->e = only_dim(s[AT_GRAD_DOT2].inner);
    if (a->col < 0 || a->d < 0 || a->e < 0 || s[AT_GRAD_WEIGHTS].inner || s[AT_GRAD_LAST].inner)
        return false;
    uint32_t col = UINT32_C(1) << a->col;
    for (int i = 0; i < 2; i++)
        if (s[i].repeat != col || !find_product(k, i, a, i))
            return false;
    for (int i = AT_GRAD_SUM; i < k->nstages; i += 2)
        if (s[i].inner != col || s[i + 1].inner || s[i + 1].repeat != s[i].repeat || !find_sum(k, i, a))
            return false;
    for (int i = 0; i < 2; i++)
        if (a->sum[i] >= 0 && s[a->last[i]].repeat != s[i].inner)
            return false;
    for (int i = 0; i < em_nouter(k); i++)
        if (uses_dim(k, a->load_row[0], i) && uses_dim(k, a->load_row[1], i) && !uses_dim(k, a->load_col[0], i) &&
            !uses_dim(k, a->load_col[1], i))
            a->row = i;
    find_range(ctx, k, a);
    find_weight(k, a);
    return true;
}
