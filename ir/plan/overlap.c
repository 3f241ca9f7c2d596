/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlap.c - do buffers of an arena that live at the same time share memory, or does one reach beyond it? Memory is
 * disjoint where the bounds of offsets and sizes prove it; where they can't, sample values of the symbols must not
 * contradict it. Apart from verify.c, which says how long buffers live, as it knows nothing of steps.
 */
#include "ir/plan/plan_int.h"

#include <stdlib.h>

/* Symbols at sample number n: small values, their bounds, and values that differ from each other. */
static bool sample(void *user, ir_expr sym, int64_t *out)
{
    static const int64_t values[] = {0, 1, 2, 3, 5, 16, 17, 64, 100, 1000};
    int n = *(int *)user;
    int64_t v = values[(n + (n < 10 ? 0 : (int)(sym->id % 7) * (n / 10))) % 10];
    *out = v < sym->lo ? sym->lo : v > sym->hi ? sym->hi : v;
    return true;
}

/* Does [a, a + abytes) end before [b, ...) at all sample points, or the other way round? */
static bool samples_disjoint(ir_expr a, ir_expr abytes, ir_expr b, ir_expr bbytes)
{
    for (int n = 0; n < 40; n++) {
        int64_t x, xs, y, ys;
        if (!ir_eval(a, sample, &n, &x) || !ir_eval(abytes, sample, &n, &xs) || !ir_eval(b, sample, &n, &y) ||
            !ir_eval(bbytes, sample, &n, &ys))
            continue;
        if (xs > 0 && ys > 0 && x < y + ys && y < x + xs)
            return false;
    }
    return true;
}

static bool disjoint(struct ir_ctx *ctx, const struct kn_buffer *a, const struct kn_buffer *b)
{
    int64_t x, y, xs, ys;
    if (ir_is_value(a->bytes, 0) || ir_is_value(b->bytes, 0))
        return true;
    if (ir_is_const(a->offset, &x) && ir_is_const(b->offset, &y) && ir_is_const(a->bytes, &xs) &&
        ir_is_const(b->bytes, &ys))
        return x + xs <= y || y + ys <= x;
    if (ir_expr_le(ctx, ir_add(ctx, a->offset, a->bytes), b->offset) == IR_YES ||
        ir_expr_le(ctx, ir_add(ctx, b->offset, b->bytes), a->offset) == IR_YES)
        return true;
    return samples_disjoint(a->offset, a->bytes, b->offset, b->bytes);
}

struct placed {
    int buffer, first, last;
};

static int by_first(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : x->buffer - y->buffer;
}

static const char *find_overlap(const struct kn_program *p, struct placed *at, int n)
{
    struct ir_ctx *ctx = p->module->ctx;
    int nactive = 0;
    for (int i = 0; i < n; i++) {
        const struct kn_buffer *b = &p->buffers[at[i].buffer];
        int kept = 0;
        for (int j = 0; j < nactive; j++) { /* the array's front holds those that still live */
            const struct kn_buffer *a = &p->buffers[at[j].buffer];
            if (at[j].last < at[i].first)
                continue;
            if (a->memory == b->memory && !disjoint(ctx, a, b))
                return ir_internf(
                    ctx, "buffers %d and %d live at once and share memory: offsets %s and %s, bytes %s and %s",
                    at[j].buffer, at[i].buffer, ir_expr_text(ctx, a->offset), ir_expr_text(ctx, b->offset),
                    ir_expr_text(ctx, a->bytes), ir_expr_text(ctx, b->bytes));
            at[kept++] = at[j];
        }
        at[kept++] = at[i];
        nactive = kept;
    }
    return NULL;
}

const char *kn_memory_error(const struct kn_program *p, const struct kn_entry *e, const struct kn_life *life)
{
    struct ir_ctx *ctx = p->module->ctx;
    VEC(struct placed) live = {0};
    for (int b = 0; b < p->nbuffers; b++) {
        const struct kn_buffer *buffer = &p->buffers[b];
        if (buffer->space != TCC_SPACE_ARENA || life[b].first < 0 || !buffer->offset)
            continue;
        if (!buffer->bytes)
            return ir_internf(ctx, "buffer %d has no size", b);
        ir_expr arena = buffer->memory == 0 ? e->arena : e->arenas ? e->arenas[buffer->memory - 1] : NULL;
        if (arena && ir_expr_le(ctx, ir_add(ctx, buffer->offset, buffer->bytes), arena) == IR_NO)
            return ir_internf(ctx, "buffer %d reaches beyond the arena", b);
        VEC_PUSH(ctx, live, (struct placed){b, life[b].first, life[b].last});
    }
    if (live.n)
        qsort(live.at, (size_t)live.n, sizeof *live.at, by_first);
    return find_overlap(p, live.at, live.n);
}
