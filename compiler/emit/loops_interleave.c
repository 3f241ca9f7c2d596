/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interleaving in loop nests: what is stored alternates between the few points of an outer dim (v: halves of pairs,
 * parts of groups), and is consecutive along another (u) but for that. With u in lanes a vector is computed for each
 * point of v, and those are stored as one, element by element in turns. Without it each element would be stored by
 * itself.
 */
#include "compiler/emit/loops.h"

#define V LLVMValueRef
#define MAX_INSNS 16 /* the body is repeated for each point of v */
#define MAX_POINTS 4

static bool steps_by(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *n, int dim, int width,
                     int64_t step)
{
    int64_t stride;
    ir_expr offset = kn_flat_offset(ctx, &k->operands[n->operand], n->index);
    return !kn_is_gathered(k, offset) && em_lane_stride(ctx, offset, k->dims[dim].var, width, true, &stride) &&
           stride == step;
}

int loops_interleave_dim(struct ir_ctx *ctx, const struct kn_kernel *k, int u, int width)
{
    if (u < 0 || k->dims[u].role != KN_OUTER || width < 4 || !kn_is_map(k) || k->ninsns > MAX_INSNS)
        return -1;
    for (int v = 0; v < em_nouter(k); v++) {
        int64_t points = ir_const_or(k->dims[v].extent, 0);
        bool fits = v != u && (points == 2 || points == MAX_POINTS), any = false;
        for (int i = 0; i < k->ninsns && fits; i++) {
            const struct kn_insn *n = &k->insns[i];
            enum tcc_dtype d = (enum tcc_dtype)n->dtype;
            if (n->code != KN_STORE)
                continue;
            any = true;
            fits = !n->nguards && (d == TCC_F32 || d == TCC_BF16 || d == TCC_F16) &&
                   steps_by(ctx, k, n, v, (int)points, 1) && steps_by(ctx, k, n, u, width, points);
        }
        if (fits && any)
            return v;
    }
    return -1;
}

/* -- Code -------------------------------------------------------------------------------------------- */

/* Element l of part j at l * n + j; n parts of that many lanes. */
static V in_turns(struct em *e, const V *part, int n, int lanes)
{
    int order[EM_MAX_LANES], all[EM_MAX_LANES];
    if (n == 1)
        return part[0];
    for (int i = 0; i < n * lanes; i++) {
        order[i] = i % n * lanes + i / n;
        all[i] = i;
    }
    if (n == 2)
        return em_shuffle(e, part[0], part[1], 2 * lanes, order);
    V low = em_shuffle(e, part[0], part[1], 2 * lanes, all), high = em_shuffle(e, part[2], part[3], 2 * lanes, all);
    return em_shuffle(e, low, high, n * lanes, order);
}

void loops_store_in_turns(struct em *e, const struct kn_insn *store, const V *part, int n, V mask)
{
    V bits[MAX_POINTS], to = em_address(e, store->operand, em_expr(e, em_offset(e, store->operand, store->index)));
    enum tcc_dtype d = (enum tcc_dtype)store->dtype, word = d == TCC_F32 ? TCC_F32 : TCC_I16;
    int lanes = em_lanes_of(part[0]);
    for (int j = 0; j < n; j++) {
        bits[j] = d == TCC_F32 ? part[j] : em_to_bits(e, d, part[j]);
        V at = em_i64(e, j);
        if (lanes == 1)
            em_store(e, word, LLVMBuildGEP2(e->b, em_mem_type(e, word), to, &at, 1, ""), bits[j], mask, store->operand);
    }
    if (lanes > 1)
        em_store(e, word, to, in_turns(e, bits, n, lanes), mask, store->operand);
}

void loops_run_interleaved(struct em *e, int v)
{
    const struct kn_kernel *k = e->k;
    V part[MAX_INSNS][MAX_POINTS], mask = e->mask, masks[MAX_POINTS];
    int n = (int)ir_const_or(k->dims[v].extent, 0), lanes = e->lanes;
    for (int j = 0; j < n; j++) {
        em_bind(e, k->dims[v].var, em_i64(e, j));
        em_forget(e, 0, k->ninsns);
        for (int i = 0; i < k->ninsns; i++) {
            if (k->insns[i].code != KN_STORE) {
                em_insn(e, i);
                continue;
            }
            part[i][j] = em_splat(e, e->value[k->insns[i].arg[0]], lanes);
        }
        masks[j] = mask;
    }
    if (mask && em_lanes_of(mask) > 1)
        mask = in_turns(e, masks, n, lanes);
    em_bind(e, k->dims[v].var, em_i64(e, 0));
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_STORE)
            loops_store_in_turns(e, &k->insns[i], part[i], n, mask);
}
