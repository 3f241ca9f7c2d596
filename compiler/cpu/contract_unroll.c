/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_unroll.c - how many steps a turn of a sum's innermost loop takes, and what it brings into the caches on the
 * way.
 *
 * A column tile of B is read once for every row block; the first time it comes from far and the processor waits for it.
 * So each row block brings its share of the next column tile into the second cache: 1 line for every trip of the
 * innermost loop (more if there are few row blocks).
 */
#include "compiler/cpu/contract_step_int.h"
#include "ir/ir.h"

static int log2_exact(int64_t v)
{
    return v > 0 && (v & (v - 1)) == 0 ? __builtin_ctzll((unsigned long long)v) : -1;
}

int cg_few_steps(const struct sum *s)
{
    return s->mr * s->cv >= 16 ? 3 : 8;
}

static int steps_a_turn(const struct sum *s)
{
    return s->mr * s->cv >= 16 ? 2 : 4;
}

/*
 * Do rows of A share elements that steps side by side read, as neighbouring pixels do by a convolution's taps, where
 * sums, splats of those and B are more than the registers? LLVM would load each once, keep it from step to step, and
 * spill sums, each of which then waits for memory. Of one vector of B, loads bound a step: there sharing is worth it.
 */
static bool shares_too_much(const struct sum *s)
{
    const struct ct *c = &s->g->c;
    int64_t n = c->ks[c->nks - 1].n, together = n != CT_DYN && n <= cg_few_steps(s) ? n : steps_a_turn(s);
    if (s->cv == 1 || c->depth > 1 || c->by_lane)
        return false;
    bool shares = ct_rows_share(s->sa[c->nks - 1], s->row_sa, s->mr, together);
    return shares && s->mr * s->cv + s->cv + s->mr > em_cpu(s->g->e)->registers;
}

/*
 * Halves of both operands (dot.c) fill the registers beside the sums. LLVM orders the instructions of several steps so
 * that loads come early, and spills: such steps stand alone in their loop. So do many rows of one vector where there
 * are 16 registers: LLVM puts a sum where the row's splat was, sums move from register to register with each step, and
 * some of them to memory and back.
 */
bool cg_crowded(const struct sum *s)
{
    const struct cpu_machine *m = em_cpu(s->g->e);
    bool halves = s->g->c.depth == 4 && !m->multiplies_bytes && !s->pairs && s->mr * s->cv >= 6;
    bool moves = s->g->c.depth == 1 && m->registers == 16 && s->cv == 1 && s->mr > 8;
    return halves || moves || shares_too_much(s);
}

int cg_unroll(const struct sum *s)
{
    const struct ct *c = &s->g->c;
    if (c->by_lane && s->sb[c->nks - 1] != CT_DYN) {
        /* Twice, if nothing is left then. LLVM would load the second half early and spill in floats' convolutions, and
         * move sums about where instructions for lanes are the machine's. */
        int64_t n = s->part_level == c->nks - 1 ? s->part : c->ks[c->nks - 1].n, twice = 2 * c->by_lane;
        bool apart = (c->depth > 1 || c->k->kind != IR_K_WINDOW) && !em_cpu(s->g->e)->lane_product;
        bool fits = apart && n != CT_DYN && n % twice == 0;
        return (int)(fits ? twice : c->by_lane);
    }
    if (cg_crowded(s))
        return 1;
    return steps_a_turn(s);
}

void cg_start_fetch(struct sum *s, LLVMValueRef r0, LLVMValueRef b)
{
    struct cg *g = s->g;
    struct em *e = g->e;
    const struct ct *c = &g->c;
    const struct ct_k *in = &c->ks[c->nks - 1];
    int u = cg_unroll(s), size = ct_step_bytes(c), last = c->nks - 1, unit = size / c->depth;
    if (c->nk == CT_DYN || c->ncols == CT_DYN)
        return;
    int64_t slab = c->nk * s->cv * g->lanes * size, total = c->ncols * c->nk * size;
    int least = em_cpu(e)->registers < 32 || c->late_rows ? 8 : 16; /* sums of a tile that hide what fetching takes */
    if (g->packed_b || !c->panel || s->mr * s->cv < least || slab < 4 << 10 || total < 256 << 10 || in->n == CT_DYN ||
        in->n % u || s->sb[last] == CT_DYN || (int64_t)s->cv * g->lanes % c->panel)
        return;
    s->fetch_shift = log2_exact(s->sb[last] * u * unit / 64);
    if (s->fetch_shift < 0)
        return;
    /* Of rows whose number is not known there may be one block: what is there already costs it little. */
    int64_t shares = slab / 64 / (c->nk / u), blocks = c->nrows == CT_DYN ? 1 : (c->nrows + g->mr - 1) / g->mr;
    for (int d = 0; d < c->k->ndims; d++)
        if (c->extra_m >> d & 1)
            blocks *= c->k->schedule.tile[d] ? c->k->schedule.tile[d] : ir_const_or(c->k->dims[d].extent, 8);
    s->fetch_lines = (int)((shares + blocks - 1) / blocks);
    s->fetch_gap = c->nk / u * 64;
    if (shares < 1 || s->fetch_lines > 4)
        return;
    LLVMValueRef number = LLVMBuildUDiv(e->b, r0, em_i64(e, g->mr), "");
    for (int d = 0; d < c->k->ndims; d++)
        if (c->extra_m >> d & 1)
            number = LLVMBuildAdd(e->b, number, em_expr(e, c->k->dims[d].var), "");
    number = LLVMBuildMul(e->b, number, em_i64(e, s->fetch_lines), "");
    number = LLVMBuildURem(e->b, number, em_i64(e, shares), "");
    LLVMValueRef at = LLVMBuildMul(e->b, number, em_i64(e, s->fetch_gap), "");
    at = LLVMBuildAdd(e->b, at, em_i64(e, (int64_t)s->cv * g->lanes / c->panel * c->panel_stride * unit), "");
    s->fetch = LLVMBuildGEP2(e->b, e->t_i8, b, &at, 1, "");
    s->b_start = LLVMBuildPtrToInt(e->b, b, e->t_i64, "");
}

void cg_fetch(struct sum *s, LLVMValueRef b)
{
    struct em *e = s->g->e;
    if (!s->fetch)
        return;
    LLVMValueRef at = LLVMBuildSub(e->b, LLVMBuildPtrToInt(e->b, b, e->t_i64, ""), s->b_start, "");
    at = LLVMBuildLShr(e->b, at, em_i64(e, s->fetch_shift), "");
    LLVMValueRef p = LLVMBuildGEP2(e->b, e->t_i8, s->fetch, &at, 1, "");
    for (int i = 0; i < s->fetch_lines; i++) {
        LLVMValueRef gap = em_i64(e, i * s->fetch_gap);
        em_prefetch(e, LLVMBuildGEP2(e->b, e->t_i8, p, &gap, 1, ""), 2);
    }
}
