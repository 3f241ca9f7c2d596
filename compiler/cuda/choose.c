/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.c - which template takes a kernel: a function of its structure and sizes alone.
 *
 *   no inner dims                              loops, by vectors of 16 bytes where all accesses are consecutive or uniform
 *   inner points, consecutive along the last   group: a warp, or a block where outer points are few and inner ones many
 *   else                                       loops: neighbouring threads run neighbouring outer points
 */
#include "compiler/cuda/cuda_int.h"

enum {
    UNKNOWN = 1024,     /* guess for extents that depend on symbols */
    WARP_INNER = 32,    /* inner points from which on a warp shares them */
    BLOCK_INNER = 1024, /* and a block, */
    BLOCK_OUTER = 4096  /* where outer points are fewer than that */
};

/* -- Vectors -------------------------------------------------------------------------------------------------- */

/* Do the stage's expressions follow dim v by anything but loads and stores? */
static bool guards_follow(const struct kn_insn *n, ir_expr var)
{
    for (int i = 0; i < n->nguards; i++)
        if (ir_uses_sym(n->guards[i].e, var) || ir_uses_sym(n->guards[i].lo, var) || ir_uses_sym(n->guards[i].hi, var))
            return true;
    return false;
}

/* Offset of an access with `width` consecutive points of v from a multiple of `width` on: 0: equal for all, 1: consecutive, and *aligned:
 * from a multiple of width elements; -1: neither. */
static int access_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *n, int v, int width,
                     bool *aligned)
{
    ir_expr var = k->dims[v].var, offset = em_flat_offset(ctx, &k->operands[n->operand], n->index),
            zero = ir_const(ctx, 0);
    int64_t stride;
    *aligned = false;
    if (!ir_uses_sym(offset, var))
        return 0;
    if (!em_lane_stride(ctx, offset, var, width, true, &stride) || stride < 0 || stride > 1)
        return -1;
    if (stride == 0)
        return 0;
    ir_expr n_of = ir_const(ctx, width), q = ir_iter(ctx, "q", ir_ceildiv(ctx, k->dims[v].extent, n_of));
    ir_expr at = ir_mulc(ctx, q, width), start = ir_subst(ctx, offset, 1, &var, &at);
    *aligned = ir_mod(ctx, start, n_of) == zero;
    return 1;
}

int cuda_vector_width(struct ir_ctx *ctx, const struct kn_kernel *k, int v, int *align)
{
    int most = 1, width, stores = 0;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use == KN_LOCAL)
            return 1;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_STORE || k->insns[i].code == KN_LOAD) {
            int bytes = tcc_dtype_bytes((enum tcc_dtype)k->operands[k->insns[i].operand].dtype);
            if (k->insns[i].code == KN_STORE && bytes == 1)
                bytes = 4; /* NVPTX stores vectors of more bytes piece by piece */
            most = bytes > most ? bytes : most;
        }
    width = 16 / most;
    for (int i = 0; i < k->noperands; i++)
        align[i] = width * tcc_dtype_bytes((enum tcc_dtype)k->operands[i].dtype);
    if (width == 1 || width > ir_const_or(k->dims[v].extent, width))
        return 1;
    bool *vectors = IR_NEWN(ctx, k->noperands + 1, bool);
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        bool aligned;
        if (guards_follow(n, k->dims[v].var) || n->code == KN_INDEX)
            return 1;
        if (n->code != KN_LOAD && n->code != KN_STORE)
            continue;
        int how = access_of(ctx, k, n, v, width, &aligned);
        if (how < 0 || (n->code == KN_STORE && (how != 1 || !aligned)))
            return 1;
        stores += n->code == KN_STORE;
        vectors[n->operand] |= how == 1;
        if (how == 1 && !aligned)
            align[n->operand] = 0;
    }
    for (int i = 0; i < k->noperands; i++)
        if (!vectors[i])
            align[i] = 0;
    return stores ? width : 1;
}

/* -- Groups ----------------------------------------------------------------------------------------------------- */

static int64_t extent(const struct kn_kernel *k, int dim)
{
    return ir_const_or(k->dims[dim].extent, UNKNOWN);
}

/* The stages' inner points, the most of them; *along: loads and stores that are consecutive along the last inner dim less those that are so
 * along the last outer one. */
static int64_t inner_points(struct ir_ctx *ctx, const struct kn_kernel *k, int *along)
{
    int64_t most = 1;
    int outer = em_nouter(k) - 1;
    *along = 0;
    for (int s = 0; s < k->nstages; s++) {
        const struct kn_stage *stage = &k->stages[s];
        int64_t n = 1;
        if (!stage->inner)
            continue;
        int last = 31 - __builtin_clz(stage->inner);
        for (int d = 0; d < k->ndims; d++)
            if (stage->inner >> d & 1 && n < (1 << 30))
                n *= extent(k, d);
        most = n > most ? n : most;
        for (int i = stage->first; i < stage->last; i++) {
            const struct kn_insn *x = &k->insns[i];
            int64_t stride;
            if ((x->code != KN_LOAD && x->code != KN_STORE) || k->operands[x->operand].use == KN_LOCAL)
                continue;
            ir_expr offset = em_flat_offset(ctx, &k->operands[x->operand], x->index);
            *along += em_lane_stride(ctx, offset, k->dims[last].var, 32, true, &stride) && stride == 1;
            *along -= outer >= 0 && em_lane_stride(ctx, offset, k->dims[outer].var, 32, true, &stride) && stride == 1;
        }
    }
    return most;
}

static bool may_group(const struct kn_kernel *k)
{
    for (int s = 0; s < k->nstages; s++)
        if (k->stages[s].repeat)
            return false;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_SCAN || k->insns[i].dtype == TCC_C128)
            return false;
    return true;
}

static int group_size(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    int64_t outer = 1, inner;
    int along;
    if (!may_group(k))
        return 1;
    for (int d = 0; d < em_nouter(k) && outer < (1 << 30); d++)
        outer *= extent(k, d);
    inner = inner_points(ctx, k, &along);
    if (inner < WARP_INNER || (along <= 0 && (outer >= BLOCK_OUTER || inner < BLOCK_INNER)))
        return 1;
    return inner >= BLOCK_INNER && outer < BLOCK_OUTER ? 256 : 32;
}

/* -- The choice --------------------------------------------------------------------------------------------------- */

void cuda_choose_schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct cuda_schedule s = cuda_plain_schedule(CUDA_POINTS);
    bool inner = false;
    int last = em_nouter(k) - 1;
    (void)m;
    k->schedule = (struct kn_schedule){0};
    for (int i = 0; i <= last; i++)
        k->schedule.tile[i] = 1;
    for (int i = 0; i < k->nstages; i++)
        inner |= k->stages[i].inner != 0;
    if (inner)
        s.group = group_size(ctx, k);
    else if (last >= 0)
        s.width = cuda_vector_width(ctx, k, last, IR_NEWN(ctx, k->noperands + 1, int));
    if (s.group > 1) {
        s.how = CUDA_GROUPS;
        s.threads = s.group > s.threads ? s.group : s.threads;
    }
    if (s.width > 1)
        k->schedule.tile[s.vector = last] = s.width;
    cuda_put_schedule(k, s);
    k->tiles = em_tile_count(ctx, k);
    k->scratch = em_local_scratch(ctx, k, 1);
}
