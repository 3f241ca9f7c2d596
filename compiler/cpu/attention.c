/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - which kernels the attention template takes, and how they are cut.
 *
 * Register tiles are those of the matrix products: two vectors by as many rows as registers allow. A tile has enough
 * rows to pay for bringing its keys into panels, and few enough that all threads have some.
 */
#include "compiler/cpu/attention_int.h"

#include <math.h>

#include "compiler/cpu/emit_int.h"

#define KEY_BLOCK 256
#define MOST_WIDTH 512

/* k or v may be read where it lies: `along`, which is d or e, at consecutive addresses, keys at equal distances. Its
 * offset; else NULL. */
static ir_expr offset_of(struct ir_ctx *ctx, const struct at *a, int load, int value, int along, ir_expr *step)
{
    const struct kn_kernel *k = a->k;
    const struct kn_insn *n = &k->insns[load];
    ir_expr one, rest;
    if (value != load || n->nguards || n->dtype != TCC_F32)
        return NULL;
    ir_expr off = kn_flat_offset(ctx, &k->operands[n->operand], n->index);
    bool lies = ir_uses_sym(off, k->dims[along].var) && ir_uses_sym(off, k->dims[a->r.t].var) &&
                ir_linear_in(ctx, off, k->dims[along].var, &one, &rest) && ir_is_value(one, 1) &&
                ir_linear_in(ctx, off, k->dims[a->r.t].var, step, &rest);
    return lies ? off : NULL;
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
        heads *= i == a->r.row ? 1 : ir_const_or(a->k->dims[i].extent, 4);
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
    ir_expr step, from;
    if (k->roles.form != KN_ATTENTION || k->roles.attention.lse >= 0)
        return false;
    a->r = k->roles.attention;
    kn_visible(ctx, k, &a->r.is, a->r.t, &from, &a->keys);
    a->off_k = offset_of(ctx, a, a->r.load_k, a->r.val_k, a->r.d, &step);
    a->off_v = offset_of(ctx, a, a->r.load_v, a->r.val_v, a->r.e, &a->step_v);
    a->nt = ir_const_or(k->dims[a->r.t].extent, -1);
    a->nd = ir_const_or(k->dims[a->r.d].extent, -1);
    a->ne = ir_const_or(k->dims[a->r.e].extent, -1);
    a->nrows = a->r.row < 0 ? 1 : ir_const_or(k->dims[a->r.row].extent, -1);
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

bool cpu_takes(const struct pass_machine *m, const struct ir_node *n, int result)
{
    if (n->op != IR_attention && n->op != IR_attention_lse)
        return false;
    ir_type q = n->in[0].value->type, v = n->in[2].value->type;
    int64_t d = ir_const_or(q->dim[3], -1), e = ir_const_or(v->dim[3], -1);
    (void)m;
    return !result && q->dtype == TCC_F32 && d >= 1 && d <= MOST_WIDTH && e >= 1 && e <= MOST_WIDTH;
}

static bool schedule_attention(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct at a;
    if (!at_analyse(m, ctx, k, &a))
        return false;
    cpu_put_schedule(k, (struct cpu_schedule){.how = CPU_ATTENTION, .mr = a.mr});
    for (int i = 0; i < em_nouter(k); i++)
        k->schedule.tile[i] = i == a.r.row ? a.tile_rows : 1;
    k->tiles = em_tile_count(ctx, k);
    k->scratch = ir_const(ctx, at_scratch(&a).all * 4);
    return true;
}

const struct cpu_template cpu_template_attention = {CPU_ATTENTION, schedule_attention, at_emit};
