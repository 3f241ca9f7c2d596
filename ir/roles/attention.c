/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - the roles of attention and of its gradients, found from kernels as passes/kernel/attention.c draws
 * them; and what follows from the roles of a score. */
#include "ir/roles/roles_int.h"

#include <math.h>

enum { DOT, SCORE, TOP, CLAMP, WEIGHTS, MEAN, LAST, STAGES }; /* of attention */
enum { GRAD_DOT, GRAD_DOT2, GRAD_WEIGHTS, GRAD_SUM, GRAD_LAST, GRAD_SUM2, GRAD_LAST2 };

static int only_dim(uint32_t set)
{
    return set && !(set & (set - 1)) ? __builtin_ctz(set) : -1;
}

static bool is_op(const struct kn_kernel *k, int i, enum ir_op op)
{
    return k->insns[i].code == KN_SCALAR && k->insns[i].op == op;
}

/* The stage's one reduction; -1: it has none, or others. */
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

/* The load that a value comes from by scalar ops of one operand. */
static int load_of(const struct kn_kernel *k, int i)
{
    while (k->insns[i].code == KN_SCALAR && k->insns[i].nargs == 1)
        i = k->insns[i].arg[0];
    return k->insns[i].code == KN_LOAD ? i : -1;
}

static bool along(const struct kn_kernel *k, int load, int dim)
{
    return kn_runs_along(&k->insns[load], k->dims[dim].var);
}

/* The two factors of the products of floats that are summed, and the loads that they are made of. */
static bool factors(const struct kn_kernel *k, int sum, int val[2], int load[2])
{
    const struct kn_insn *mul = &k->insns[k->insns[sum].arg[0]];
    if (mul->code != KN_SCALAR || mul->op != IR_mul || mul->dtype != TCC_F32)
        return false;
    for (int i = 0; i < 2; i++) {
        val[i] = mul->arg[i];
        load[i] = load_of(k, val[i]);
    }
    return load[0] >= 0 && load[1] >= 0;
}

/* select(query >= key, .., -inf) of two positions, one of them that of dim `col`. */
static bool find_compare(const struct kn_kernel *k, int col, struct kn_score *s)
{
    const struct kn_insn *n = &k->insns[s->score];
    if (!is_op(k, s->score, IR_select) || !is_op(k, n->arg[0], IR_ge) || k->insns[n->arg[2]].code != KN_CONST ||
        k->insns[n->arg[2]].fvalue != -INFINITY)
        return false;
    const int32_t *at = k->insns[n->arg[0]].arg;
    ir_expr var = k->dims[col].var;
    if (k->insns[at[0]].code != KN_EXPR || k->insns[at[1]].code != KN_EXPR ||
        (k->insns[at[0]].expr != var && k->insns[at[1]].expr != var))
        return false;
    s->compare = n->arg[0];
    s->query = at[0];
    s->key = at[1];
    return true;
}

/* What stands between the product `dot` and s->score. */
static void find_score(const struct kn_kernel *k, int dot, int col, struct kn_score *s)
{
    s->unmasked = find_compare(k, col, s) ? k->insns[s->score].arg[1] : s->score;
    int at = is_op(k, s->unmasked, IR_add) ? k->insns[s->unmasked].arg[0] : s->unmasked;
    if (is_op(k, at, IR_mul) && k->insns[at].arg[0] == dot && k->insns[k->insns[at].arg[1]].code == KN_CONST) {
        s->scaled = at;
        s->scale = k->insns[at].arg[1];
    } else {
        s->scaled = dot;
    }
}

/* -- Attention ------------------------------------------------------------------------------------------------ */

/* Stages up to the sum of the weights. */
static bool find_scores(const struct kn_kernel *k, struct kn_attention *a)
{
    const struct kn_stage *s = k->stages;
    int val[2], load[2];
    a->t = only_dim(s[TOP].inner);
    a->d = only_dim(s[DOT].inner);
    if (s[SCORE].first == s[SCORE].last || s[CLAMP].first == s[CLAMP].last)
        return false;
    if (a->t < 0 || a->d < 0 || s[DOT].repeat != s[TOP].inner || s[SCORE].repeat != s[TOP].inner || s[SCORE].inner ||
        s[CLAMP].inner || s[WEIGHTS].inner != s[TOP].inner)
        return false;
    a->dot = reduction(k, DOT, KN_SUM);
    a->top = reduction(k, TOP, KN_MAX);
    a->clamped = s[CLAMP].last - 1;
    a->sum = reduction(k, WEIGHTS, KN_SUM);
    const struct kn_insn *store = &k->insns[s[SCORE].last - 1];
    if (a->dot < 0 || a->top < 0 || a->sum < 0 || store->code != KN_STORE ||
        k->operands[store->operand].use != KN_LOCAL || k->insns[a->dot].dtype != TCC_F32 ||
        !factors(k, a->dot, val, load))
        return false;
    a->is.score = store->arg[0];
    a->val_q = val[0];
    a->val_k = val[1];
    a->load_q = load[0];
    a->load_k = load[1];
    find_score(k, a->dot, a->t, &a->is);
    return true;
}

static bool find_mean(const struct kn_kernel *k, struct kn_attention *a)
{
    const struct kn_stage *s = k->stages;
    int val[2], load[2];
    a->e = only_dim(s[LAST].repeat);
    if (a->e < 0 || s[MEAN].inner != s[TOP].inner || s[MEAN].repeat != s[LAST].repeat || s[LAST].inner)
        return false;
    a->mean = reduction(k, MEAN, KN_SUM);
    if (a->mean < 0 || !factors(k, a->mean, val, load) || val[0] != load[0] ||
        k->operands[k->insns[load[0]].operand].use != KN_LOCAL)
        return false;
    a->val_v = val[1];
    a->load_v = load[1];
    a->last = LAST;
    return true;
}

bool kn_find_attention(const struct kn_kernel *k, struct kn_roles *r)
{
    struct kn_attention *a = &r->attention;
    bool alone = k->nstages == MEAN + 1;
    if (k->kind != IR_K_ATTENTION || (!alone && k->nstages != STAGES && k->nstages != STAGES + 1))
        return false;
    if (k->nstages != STAGES)
        a->lse = k->nstages - 1;
    if (a->lse >= 0 && (k->stages[a->lse].inner || k->stages[a->lse].repeat))
        return false;
    if (!find_scores(k, a) || (!alone && !find_mean(k, a)))
        return false;
    for (int i = 0; i < k->ndims && k->dims[i].role == KN_OUTER; i++)
        if (along(k, a->load_q, i) && !along(k, a->load_k, i) && (alone || !along(k, a->load_v, i)))
            a->row = i;
    return true;
}

/* -- Gradients ------------------------------------------------------------------------------------------------ */

/* Product i of rows and columns: which of its factors is which. */
static bool find_product(const struct kn_kernel *k, struct kn_attention_grad *a, int i)
{
    int val[2], load[2];
    a->dot[i] = reduction(k, i, KN_SUM);
    if (a->dot[i] < 0 || k->insns[a->dot[i]].dtype != TCC_F32 || !factors(k, a->dot[i], val, load))
        return false;
    int col = along(k, load[1], a->col);
    if (along(k, load[1 - col], a->col) || !along(k, load[col], a->col))
        return false;
    a->val_row[i] = val[1 - col];
    a->load_row[i] = load[1 - col];
    a->val_col[i] = val[col];
    a->load_col[i] = load[col];
    return true;
}

/* ds = p (product - delta), p = exp(score - lse). */
static bool find_ds(const struct kn_kernel *k, struct kn_attention_grad *a, int ds)
{
    const struct kn_insn *insns = k->insns;
    if (!is_op(k, ds, IR_mul) || !is_op(k, insns[ds].arg[0], IR_exp) || !is_op(k, insns[ds].arg[1], IR_sub))
        return false;
    int p = insns[ds].arg[0], rest = insns[ds].arg[1], less = insns[p].arg[0];
    if (insns[rest].arg[0] != a->dot[1] || !is_op(k, less, IR_sub))
        return false;
    a->weight[0] = ds;
    a->weight[1] = p;
    a->delta = insns[rest].arg[1];
    a->less = less;
    a->is.score = insns[less].arg[0];
    a->lse = insns[less].arg[1];
    find_score(k, a->dot[0], a->col, &a->is);
    return true;
}

static bool find_weights(const struct kn_kernel *k, struct kn_attention_grad *a)
{
    const struct kn_stage *s = &k->stages[GRAD_WEIGHTS];
    for (int i = s->first; i < s->last; i++)
        if (k->insns[i].code == KN_STORE && find_ds(k, a, k->insns[i].arg[0]))
            return true;
    return false;
}

static bool same_load(const struct kn_kernel *k, int x, int y)
{
    const struct kn_insn *a = &k->insns[x], *b = &k->insns[y];
    return kn_same_element(a, b) && !a->nguards && !b->nguards;
}

/* Columns of one side, summed by weights that the weights' stage stores. */
static bool find_sum(const struct kn_kernel *k, int stage, struct kn_attention_grad *a)
{
    int val[2], load[2], sum = reduction(k, stage, KN_SUM);
    if (sum < 0 || !factors(k, sum, val, load) || val[0] != load[0])
        return false;
    for (int i = k->stages[GRAD_WEIGHTS].first; i < k->stages[GRAD_WEIGHTS].last; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code != KN_STORE || n->operand != k->insns[load[0]].operand)
            continue;
        int side = n->arg[0] == a->weight[1];
        if (n->arg[0] != a->weight[side] || k->operands[n->operand].use != KN_LOCAL || a->sum[side] >= 0 ||
            !same_load(k, load[1], a->load_col[side]))
            return false;
        a->sum[side] = sum;
        a->last[side] = stage + 1;
        return true;
    }
    return false;
}

bool kn_find_attention_grad(const struct kn_kernel *k, struct kn_roles *r)
{
    struct kn_attention_grad *a = &r->attention_grad;
    const struct kn_stage *s = k->stages;
    if (k->kind != IR_K_ATTENTION || (k->nstages != GRAD_LAST + 1 && k->nstages != GRAD_LAST2 + 1))
        return false;
    a->col = only_dim(s[GRAD_WEIGHTS].repeat);
    a->d = only_dim(s[GRAD_DOT].inner);
    a->e = only_dim(s[GRAD_DOT2].inner);
    if (a->col < 0 || a->d < 0 || a->e < 0 || s[GRAD_WEIGHTS].inner || s[GRAD_LAST].inner)
        return false;
    uint32_t col = UINT32_C(1) << a->col;
    for (int i = 0; i < 2; i++)
        if (s[i].repeat != col || !find_product(k, a, i))
            return false;
    if (!find_weights(k, a))
        return false;
    for (int i = GRAD_SUM; i < k->nstages; i += 2)
        if (s[i].inner != col || s[i + 1].inner || s[i + 1].repeat != s[i].repeat || !find_sum(k, i, a))
            return false;
    for (int i = 0; i < 2; i++)
        if (a->sum[i] >= 0 && s[a->last[i]].repeat != s[i].inner)
            return false;
    for (int i = 0; i < k->ndims && k->dims[i].role == KN_OUTER; i++)
        if (along(k, a->load_row[0], i) && along(k, a->load_row[1], i) && !along(k, a->load_col[0], i) &&
            !along(k, a->load_col[1], i))
            a->row = i;
    return true;
}

/* -- Scores --------------------------------------------------------------------------------------------------- */

double kn_scale_of(const struct kn_kernel *k, const struct kn_score *s)
{
    return s->scale >= 0 ? k->insns[s->scale].fvalue : 1;
}

bool kn_is_plain_score(const struct kn_kernel *k, const struct kn_score *s)
{
    return s->unmasked == s->scaled && kn_scale_of(k, s) > 0;
}

void kn_visible(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_score *s, int col, ir_expr *from,
                ir_expr *to)
{
    *from = *to = NULL;
    if (s->compare < 0)
        return;
    if (k->insns[s->key].expr == k->dims[col].var)
        *to = ir_addc(ctx, k->insns[s->query].expr, 1);
    else
        *from = k->insns[s->key].expr;
}
