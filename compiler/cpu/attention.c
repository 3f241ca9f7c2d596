/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - which kernels the attention template takes, and how they are cut.
 *
 * Register tiles are those of the matrix products: two vectors by as many rows as registers allow. A tile has enough rows to
 * pay for bringing its keys into panels, and few enough that all threads have some.
 */
#include "compiler/cpu/attention_int.h"

#include <math.h>

#include "compiler/cpu/emit_int.h"

#define KEY_BLOCK 256
#define MOST_WIDTH 512

static int only_dim(uint32_t set)
{
    return set && !(set & (set - 1)) ? __builtin_ctz(set) : -1;
}

static int reduction(const struct kn_kernel *k, int stage, enum kn_reducer r)
{
    int found = -1;
    for (int i = k->stages[stage].first; i < k->stages[stage].last; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code == KN_ARGREDUCE || n->code == KN_SCAN ||
            (n->code == KN_REDUCE && (found >= 0 || n->reducer != r)))
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

/* v may be read where it lies: e at consecutive addresses, keys at equal distances. */
static void find_values(struct ir_ctx *ctx, const struct kn_kernel *k, struct at *a)
{
    const struct kn_insn *n = &k->insns[a->load_v];
    ir_expr one, rest, step;
    if (a->val_v != a->load_v || n->nguards || n->dtype != TCC_F32)
        return;
    ir_expr off = em_flat_offset(ctx, &k->operands[n->operand], n->index);
    if (ir_uses_sym(off, k->dims[a->e].var) && ir_uses_sym(off, k->dims[a->t].var) &&
        ir_linear_in(ctx, off, k->dims[a->e].var, &one, &rest) && ir_is_value(one, 1) &&
        ir_linear_in(ctx, off, k->dims[a->t].var, &step, &rest)) {
        a->off_v = off;
        a->step_v = step;
    }
}

static bool find_roles(struct ir_ctx *ctx, const struct kn_kernel *k, struct at *a)
{
    const struct kn_stage *s = k->stages;
    int weights;
    a->t = only_dim(s[AT_TOP].inner);
    a->d = only_dim(s[AT_DOT].inner);
    a->e = only_dim(s[AT_LAST].repeat);
    if (a->t < 0 || a->d < 0 || a->e < 0 || s[AT_DOT].repeat != s[AT_TOP].inner || s[AT_SCORE].repeat != s[AT_TOP].inner ||
        s[AT_SCORE].inner || s[AT_CLAMP].inner || s[AT_WEIGHTS].inner != s[AT_TOP].inner ||
        s[AT_MEAN].inner != s[AT_TOP].inner || s[AT_MEAN].repeat != s[AT_LAST].repeat || s[AT_LAST].inner)
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
    a->row = -1;
    for (int i = 0; i < em_nouter(k); i++)
        if (uses_dim(k, a->load_q, i) && !uses_dim(k, a->load_k, i) && !uses_dim(k, a->load_v, i))
            a->row = i;
    a->keys = visible_keys(ctx, k, a->score, a->t);
    find_values(ctx, k, a);
    return true;
}

static void choose_sizes(const struct cpu_machine *m, struct at *a)
{
    int64_t heads = 1;
    a->lanes = cpu_lanes(m, 4);
    a->cv = 2;
    a->mr = (m->registers - a->cv - (m->emit.fma ? 1 : 2)) / a->cv;
    int64_t panel = (int64_t)a->cv * a->lanes;
    a->block = a->nt >= 0 && a->nt <= KEY_BLOCK ? (int)at_round(a->nt ? a->nt : 1, panel)
               : a->nt < 0                      ? KEY_BLOCK / 2
                                                : KEY_BLOCK;
    for (int i = 0; i < em_nouter(a->k); i++)
        heads *= i == a->row ? 1 : ir_const_or(a->k->dims[i].extent, 4);
    int64_t most = a->mr * (heads >= 4 ? 16 : 8);
    if (a->nrows >= 0) {
        int64_t n = a->nrows ? a->nrows : 1, tiles = (n + most - 1) / most, rows = (n + tiles - 1) / tiles;
        int64_t blocks = (rows + a->mr - 1) / a->mr;
        a->mr = (int)((rows + blocks - 1) / blocks);
        a->tile_rows = rows;
    } else {
        a->mr = a->mr > 8 ? 8 : a->mr;
        a->tile_rows = a->mr * 8;
    }
}

bool at_analyse(const struct cpu_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k, struct at *a)
{
    *a = (struct at){.k = k, .ctx = ctx};
    if (k->kind != IR_K_ATTENTION || k->nstages != AT_STAGES || !find_roles(ctx, k, a))
        return false;
    a->nt = ir_const_or(k->dims[a->t].extent, -1);
    a->nd = ir_const_or(k->dims[a->d].extent, -1);
    a->ne = ir_const_or(k->dims[a->e].extent, -1);
    a->nrows = a->row < 0 ? 1 : ir_const_or(k->dims[a->row].extent, -1);
    if (a->nd < 1 || a->ne < 1 || a->nd > MOST_WIDTH || a->ne > MOST_WIDTH)
        return false;
    choose_sizes(m, a);
    return true;
}

struct at_scratch at_scratch(const struct at *a)
{
    int64_t rows = a->tile_rows + 16, at = 0, /* whole row blocks, whatever their size */
        line = 16, e = at_round(a->ne, a->lanes);
    struct at_scratch s;
    int64_t *const part[] = {&s.q, &s.means, &s.tops, &s.sums, &s.fixes, &s.scores, &s.keys, &s.values, &s.all};
    const int64_t size[] = {rows * a->nd,
                            rows * e,
                            rows + line,
                            rows,
                            at_round(a->mr, a->lanes),
                            (int64_t)a->mr * a->block,
                            a->nd * a->block,
                            a->off_v ? 0 : e * a->block,
                            0};
    for (int i = 0; i < 9; i++) {
        *part[i] = at;
        at += at_round(size[i], line);
    }
    return s;
}

bool cpu_attention(const struct pass_machine *m, const struct ir_node *n)
{
    ir_type q = n->in[0].value->type, v = n->in[2].value->type;
    int64_t d = ir_const_or(q->dim[3], -1), e = ir_const_or(v->dim[3], -1);
    (void)m;
    return q->dtype == TCC_F32 && d >= 1 && d <= MOST_WIDTH && e >= 1 && e <= MOST_WIDTH;
}

static bool schedule_attention(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct at a;
    if (!at_analyse(m, ctx, k, &a))
        return false;
    cpu_put_schedule(k, (struct cpu_schedule){.how = CPU_ATTENTION, .mr = a.mr});
    for (int i = 0; i < em_nouter(k); i++)
        k->schedule.tile[i] = i == a.row ? a.tile_rows : 1;
    k->tiles = em_tile_count(ctx, k);
    k->scratch = ir_const(ctx, at_scratch(&a).all * 4);
    return true;
}

const struct cpu_template cpu_template_attention = {CPU_ATTENTION, schedule_attention, at_emit};
