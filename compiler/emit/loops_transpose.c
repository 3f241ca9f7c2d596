/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposes in loop nests: a load whose consecutive elements lie along another outer dim (u) than the one in lanes (v)
 * is done for W x W points at once: W vectors along u, one per lane of v, are transposed in registers and give the
 * load's value for W steps of u. Without it each element would be gathered from a cache line of its own.
 *
 * Sums of such loads over inner dims (a window over channels of a plain layout, whose results are wanted in blocks of
 * channels) are taken with lanes along u as well, for one point of v after the other; the sums are what is transposed.
 */
#include "compiler/emit/loops.h"

#define V LLVMValueRef
#define MAX_INSNS 16 /* the body is repeated W times */

/* Is instruction i a load that runs along dim u, and jumps along dim v? Guards along u are masks; another value than 0
 * where one fails it must not have. */
static bool wants_transpose(struct ir_ctx *ctx, const struct em_machine *m, const struct kn_kernel *k, int i, int u,
                            int v, int width)
{
    const struct kn_insn *n = &k->insns[i];
    int64_t along_u, along_v;
    if (n->code != KN_LOAD || (n->nguards && n->nargs && n->arg[0] >= 0) ||
        (!m->masks && kn_guards_use(n, k->dims[u].var)))
        return false;
    ir_expr offset = kn_flat_offset(ctx, &k->operands[n->operand], n->index);
    if (kn_is_gathered(k, offset) || !ir_uses_sym(offset, k->dims[v].var))
        return false;
    if (em_lane_stride(ctx, offset, k->dims[v].var, width, true, &along_v) && along_v >= -1 && along_v <= 1)
        return false;
    return em_lane_stride(ctx, offset, k->dims[u].var, width, true, &along_u) && along_u == 1;
}

static bool is_summed(const struct kn_kernel *k, int i)
{
    return k->stages[0].inner && i < k->stages[0].last;
}

/* Can the first stage, where it has inner dims, run with lanes along u? */
static bool sums_along(struct ir_ctx *ctx, const struct kn_kernel *k, int u, int width)
{
    for (int i = 0; i < k->stages[0].last && k->stages[0].inner; i++) {
        const struct kn_insn *n = &k->insns[i];
        int64_t along = -1;
        if (n->code == KN_LOAD) {
            ir_expr offset = kn_flat_offset(ctx, &k->operands[n->operand], n->index);
            if (ir_uses_sym(offset, k->dims[u].var) &&
                !em_lane_stride(ctx, offset, k->dims[u].var, width, true, &along))
                return false;
            along = ir_uses_sym(offset, k->dims[u].var) ? along : 0;
        }
        if (along == 0 || along == 1 || n->code == KN_CONST || n->code == KN_SCALAR || n->code == KN_REDUCE)
            continue;
        return false;
    }
    return true;
}

int loops_transpose_dim(struct ir_ctx *ctx, const struct em_machine *m, const struct kn_kernel *k, int v, int width)
{
    int sums = k->nstages > 1 && k->stages[0].inner && !k->stages[0].repeat;
    if (v < 0 || k->dims[v].role != KN_OUTER || width < 4 || k->nstages != 1 + sums || k->stages[sums].inner ||
        k->stages[sums].repeat || k->split.combine || k->ninsns > MAX_INSNS)
        return -1;
    for (int i = 0; i < k->noperands && sums; i++)
        if (k->operands[i].use == KN_LOCAL)
            return -1;
    for (int i = 0; i < k->ninsns; i++)
        for (int u = 0; u < em_nouter(k); u++)
            if (u != v && ir_const_or(k->dims[u].extent, width) >= width &&
                wants_transpose(ctx, m, k, i, u, v, width) && sums_along(ctx, k, u, width))
                return u;
    return -1;
}

bool loops_transposes(struct ir_ctx *ctx, const struct em_machine *m, const struct kn_kernel *k, int i, int v,
                      int width)
{
    int u = loops_transpose_dim(ctx, m, k, v, width);
    return u >= 0 && wants_transpose(ctx, m, k, i, u, v, width);
}

/* -- Code -------------------------------------------------------------------------------------------- */

/* a0 b0 a1 b1 ... of the lower or upper halves. */
static V interleave(struct em *e, V a, V b, int width, bool upper)
{
    V order[EM_MAX_LANES];
    for (int i = 0; i < width; i++)
        order[i] = LLVMConstInt(e->t_i32, (unsigned)(i / 2 + (upper ? width / 2 : 0) + (i & 1 ? width : 0)), 0);
    return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(order, (unsigned)width), "");
}

static void transpose(struct em *e, V *rows, int width)
{
    V next[EM_MAX_LANES];
    for (int step = 1; step < width; step *= 2) {
        for (int i = 0; i < width / 2; i++) {
            next[2 * i] = interleave(e, rows[i], rows[i + width / 2], width, false);
            next[2 * i + 1] = interleave(e, rows[i], rows[i + width / 2], width, true);
        }
        for (int i = 0; i < width; i++)
            rows[i] = next[i];
    }
}

/* Lane l of v from v0 on; where lanes are masked, those behind `last` are loaded as it is, and nobody looks at them. */
static V lane_point(struct em *e, V v0, int l, V last)
{
    V at = LLVMBuildAdd(e->b, v0, em_i64(e, l), "");
    return last && l ? em_least(e, at, last) : at;
}

/* A point of v: vectors along u of the loads that jump along it, and of the sums. */
static void run_lane(struct em *e, int u, int v, int l, int width, V **columns)
{
    const struct kn_kernel *k = e->k;
    em_set_lanes(e, k->dims[u].var, width, NULL);
    em_forget(e, 0, k->ninsns);
    if (is_summed(k, 0))
        loops_run_stage(e, &k->stages[0]);
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        V there, lanes;
        if (is_summed(k, i) ? n->code != KN_REDUCE : !wants_transpose(e->ctx, e->m, k, i, u, v, width))
            continue;
        columns[i] = columns[i] ? columns[i] : IR_NEWN(e->ctx, width, V);
        if (is_summed(k, i)) {
            columns[i][l] = em_splat(e, e->value[i], width);
            continue;
        }
        em_guards_split(e, n->nguards, n->guards, &there, &lanes);
        columns[i][l] = em_load_run(e, n->operand, n->index, there, lanes);
    }
}

/* W x W points from (u0, v0), of which `mask` says which lanes of v are there (NULL: all). */
static void run_block(struct em *e, int u, int v, V u0, V v0, int width, V mask, V last)
{
    const struct kn_kernel *k = e->k;
    ir_expr var_u = k->dims[u].var, var_v = k->dims[v].var;
    V *columns[MAX_INSNS] = {NULL};
    bool aligned = e->aligned;
    em_bind(e, var_u, u0);
    e->aligned = true;
    for (int l = 0; l < width; l++) {
        em_bind(e, var_v, lane_point(e, v0, l, mask ? last : NULL));
        run_lane(e, u, v, l, width, columns);
    }
    for (int i = 0; i < k->ninsns; i++)
        if (columns[i])
            transpose(e, columns[i], width);
    e->aligned = aligned;
    em_bind(e, var_v, v0);
    em_set_lanes(e, var_v, width, mask);
    for (int j = 0; j < width; j++) {
        em_forget(e, 0, k->ninsns);
        for (int i = 0; i < k->ninsns; i++)
            e->value[i] = columns[i] ? columns[i][j] : NULL;
        em_bind(e, var_u, LLVMBuildAdd(e->b, u0, em_i64(e, j), ""));
        em_insns(e, k->stages[k->nstages - 1].first, k->ninsns);
    }
}

void loops_run_transposed(struct em *e, int u, const struct em_tiles *t, int lanes,
                          void (*point)(void *user, int segment), void *user)
{
    struct em_nest s = e->nest;
    int v = s.vector, width = s.width;
    V v0 = em_expr(e, e->k->dims[v].var);
    struct em_range points = t->at[u];
    struct em_loop l;
    if (lanes == width) {
        V last = LLVMBuildSub(e->b, t->at[v].hi, em_i64(e, 1), "");
        struct em_parts parts = em_tiles(e, points, width);
        em_loop_begin(e, &l, parts.whole, em_i64(e, width), "t");
        run_block(e, u, v, l.iv, v0, width, e->mask, last);
        em_loop_end(e, &l);
        points = parts.rest;
    }
    em_loop_begin(e, &l, points, em_i64(e, 1), "u");
    em_bind(e, e->k->dims[u].var, l.iv);
    point(user, 0);
    em_loop_end(e, &l);
}
