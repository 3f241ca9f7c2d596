/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multi_tensor.c - the pass `join`: updates of state that do the same to tensors of different sizes, as an optimizer's
 * to all parameters, become launches of one kernel, the number of points its size, and stand together, so that a device
 * may run them as one launch (the pass `batch`): "multi-tensor apply" in NVIDIA Apex (csrc/multi_tensor_apply.cuh).
 * Each point's arithmetic is what it was.
 */
#include "passes/lower_int.h"

static const char length_name[] = "points_of_joined";

/* A step that may be joined: its kernel with its number of points as a size. */
struct candidate {
    struct kn_kernel *kernel; /* NULL: it is none */
    uint64_t digest;
    int64_t points;
};

static bool on_device(const struct lw *lw, int buffer)
{
    const struct kn_buffer *b = &lw->buffers.at[lw_storage(lw, buffer)];
    if (b->space != TCC_SPACE_STATE)
        return false;
    for (const struct ir_state *s = lw->prog->module->states; s; s = s->next)
        if (s->index == b->index)
            return !s->on_host;
    return false;
}

static const struct lw_fusable by_points = {
    .map = true, .known = true, .codes = KN_BIT(KN_INDEX), .uses = KN_BIT(KN_LOCAL)};

/* Does it write state alone, point by point along one dim, from the first element on? */
static bool is_candidate(const struct lw *lw, const struct kn_step *s)
{
    const struct kn_kernel *k = s->kernel;
    int64_t points;
    if (!lw_may_fuse(s, &by_points) || k->ndims != 1 || !ir_is_const(k->dims[0].extent, &points) || points < 1 ||
        points > INT32_MAX)
        return false;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_IN && !on_device(lw, s->args[i]))
            return false;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].nguards)
            return false;
    return true;
}

/* 1: the access is to the point's own element; 0: to the same one at all points; -1: neither. */
static int access(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *n)
{
    ir_expr var = k->dims[0].var, offset = ir_const(ctx, 0);
    const struct kn_operand *o = &k->operands[n->operand];
    for (int i = 0; i < n->nindex; i++)
        offset = ir_add(ctx, ir_mul(ctx, offset, o->dims[i]), n->index[i]);
    return offset == var ? 1 : ir_uses_sym(offset, var) ? -1 : 0;
}

static struct kn_kernel *of_any_size(struct lw *lw, const struct kn_kernel *k)
{
    struct ir_ctx *ctx = lw->ctx;
    ir_expr length = ir_sym_bounded(ctx, length_name, 1, INT32_MAX), var = lw_iteration_var(lw, 0, length);
    struct kn_kernel *to = IR_NEW(ctx, struct kn_kernel);
    *to = *k;
    to->dims = IR_NEW(ctx, struct kn_dim);
    to->operands = IR_NEWN(ctx, k->noperands + 1, struct kn_operand);
    to->insns = IR_NEWN(ctx, k->ninsns + 1, struct kn_insn);
    to->sizes = IR_NEW(ctx, ir_expr);
    to->ninsns = 0;
    to->nsizes = 1;
    to->sizes[0] = length;
    to->dims[0] = (struct kn_dim){var, length, KN_OUTER};
    int *how = IR_NEWN(ctx, k->noperands + 1, int);
    for (int i = 0; i < k->noperands; i++) {
        to->operands[i] = k->operands[i];
        how[i] = -1;
    }
    struct lw_copy c = {.ctx = ctx, .from = k, .to = to, .number = IR_NEWN(ctx, k->ninsns + 1, int)};
    c.old[0] = k->dims[0].var;
    c.new[0] = var;
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *n = &to->insns[lw_copy_insn(&c, i)];
        if (n->code != KN_LOAD && n->code != KN_STORE)
            continue;
        int own = access(ctx, k, &k->insns[i]);
        if (own < 0 || (how[n->operand] >= 0 && how[n->operand] != own))
            return NULL;
        how[n->operand] = own;
        if (!own)
            continue;
        to->operands[n->operand].rank = 1;
        to->operands[n->operand].dims[0] = length;
        ir_expr *index = IR_NEW(ctx, ir_expr);
        *index = var;
        n->index = index;
        n->nindex = 1;
    }
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_IN && how[i] != 1)
            return NULL;
    return to;
}

static struct candidate candidate(struct lw *lw, const struct kn_step *s)
{
    struct candidate c = {0};
    if (!is_candidate(lw, s) || !(c.kernel = of_any_size(lw, s->kernel)))
        return c;
    c.digest = kn_digest_meaning(c.kernel);
    c.points = ir_const_or(s->kernel->dims[0].extent, 0);
    return c;
}

/* Steps [first, last), of one digest. */
static void join(struct lw *lw, struct kn_steps *steps, const struct candidate *of, int first, int last)
{
    if (last - first < 2 || !lw_may_change(lw))
        return;
    lw_add_kernel(lw, of[first].kernel);
    for (int i = first; i < last; i++) {
        struct kn_step *s = &steps->at[i];
        s->kernel = of[first].kernel;
        s->nsizes = 1;
        s->sizes = IR_NEW(lw->ctx, ir_expr);
        s->sizes[0] = ir_const(lw->ctx, of[i].points);
    }
}

void lw_join_launches(struct lw *lw, struct kn_steps *steps)
{
    struct candidate *of = IR_NEWN(lw->ctx, steps->n + 1, struct candidate);
    for (int j = 0; j < steps->n; j++) {
        struct kn_step s = steps->at[j];
        for (int r = 0; r < s.nregions; r++)
            lw_join_launches(lw, &s.regions[r].steps);
        struct candidate c = candidate(lw, &s);
        int at = j;
        if (c.kernel) {
            int i = j - 1;
            while (i >= 0 && !(of[i].kernel && of[i].digest == c.digest) && lw_can_hoist(lw, &s, &steps->at[i]))
                i--;
            if (i >= 0 && of[i].kernel && of[i].digest == c.digest)
                at = i + 1;
        }
        for (int i = j; i > at; i--) {
            steps->at[i] = steps->at[i - 1];
            of[i] = of[i - 1];
        }
        steps->at[at] = s;
        of[at] = c;
    }
    for (int i = 0, end; i < steps->n; i = end) {
        end = i + 1;
        while (of[i].kernel && end < steps->n && of[end].kernel && of[end].digest == of[i].digest)
            end++;
        join(lw, steps, of, i, end);
    }
}
