/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --memory-budget: how much of the forward pass a training step computes again so that its memory fits.
 *
 * Every choice is tried on a copy of the step and lowered as it will be, so the peak that is compared and printed is
 * that of the plan. First segments of several sizes are tried, all of them recomputed; of those that fit the one that
 * computes least is taken, and then as many of its last segments as can be are kept after all.
 */
#include "compiler/memory/budget_int.h"

struct choice {
    double segment_bytes;
    int segments;               /* recomputed ones */
    struct train_memory memory; /* what came of it */
    uint64_t arena, state, scratch;
};

ir_expr budget_arena(const struct kn_program *p, const struct kn_entry *e)
{
    return p->nmemories > 1 && e->arenas ? e->arenas[0] : e->arena;
}

static uint64_t peak_of(const struct choice *c)
{
    return c->arena + c->state;
}

/* Lowers a copy of f with that choice; false after a diagnostic. */
static bool try_choice(struct ir_ctx *ctx, const struct ir_func *f, const struct pass_options *p, struct choice *c)
{
    struct pass_options quiet = *p;
    static const char *const none[] = {NULL};
    struct ir_module *m = train_copy(f);
    int64_t bytes;
    quiet.dump = none;
    quiet.time_passes = quiet.verify = false;
    quiet.timed = NULL;
    quiet.change_limit = -1;
    if (c->segments)
        train_remat(ir_func_by_name(m, f->name), pass_cost(p->machine), c->segment_bytes, c->segments, &c->memory,
                    NULL);
    if (!pass_list(m, "codegen", &quiet) || !budget_settle_owners(m, &quiet))
        return false;
    const struct kn_entry *e = &m->program->entries[0];
    const ir_expr arena = budget_arena(m->program, e);
    if (!arena || !ir_is_const(arena, &bytes)) {
        struct ir_where where = {.file = f->module->name};
        return ir_error(
            ctx, &where,
            "--memory-budget requires known sizes: specialise the dynamic dimensions with --dim or --shape");
    }
    c->arena = (uint64_t)bytes;
    c->state = c->scratch = 0;
    for (int b = 0; b < m->program->nbuffers; b++)
        if (m->program->buffers[b].space == TCC_SPACE_STATE && ir_is_const(m->program->buffers[b].bytes, &bytes))
            c->state += (uint64_t)bytes;
    for (int i = 0; i < e->steps.n; i++)
        if (e->steps.at[i].scratch && ir_is_const(e->steps.at[i].scratch, &bytes) && (uint64_t)bytes > c->scratch)
            c->scratch = (uint64_t)bytes;
    return true;
}

/* The fewest segments, from the first on, that fit: more of them recomputed never takes more memory, as a rule. */
static bool fewest_segments(struct ir_ctx *ctx, const struct ir_func *f, const struct pass_options *p, uint64_t budget,
                            struct choice *best)
{
    int lo = 1, hi = best->segments;
    while (lo < hi) {
        struct choice c = {.segment_bytes = best->segment_bytes, .segments = (lo + hi) / 2};
        if (!try_choice(ctx, f, p, &c))
            return false;
        if (peak_of(&c) <= budget && c.memory.seconds <= best->memory.seconds) {
            *best = c;
            hi = c.segments;
        } else {
            lo = c.segments + 1;
        }
    }
    return true;
}

static bool search(struct ir_ctx *ctx, const struct ir_func *f, const struct pass_options *p, uint64_t budget,
                   struct choice *best)
{
    static const int parts[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48};
    double total = train_remat_bytes((struct ir_func *)f);
    struct choice first = *best;
    bool fits = false;
    /* All of the segments, or the first half: those behind are wanted soon, and then two copies live side by side. */
    for (size_t i = 0; i < 2 * (sizeof parts / sizeof *parts); i++) {
        int n = parts[i / 2];
        struct choice c = {.segment_bytes = total / n, .segments = i % 2 ? (n + 1) / 2 : n + 8};
        if (!try_choice(ctx, f, p, &c))
            return false;
        bool now = peak_of(&c) <= budget;
        if (now != fits ? now : now ? c.memory.seconds < best->memory.seconds : peak_of(&c) < peak_of(best))
            *best = c;
        fits |= now;
    }
    if (fits)
        return fewest_segments(ctx, f, p, budget, best);
    struct ir_where where = {.file = f->module->name};
    return ir_error(
        ctx, &where,
        "--memory-budget=%llu: the step takes %llu bytes as it is and %llu when activations are recomputed (state: "
        "%llu); a smaller batch would take less",
        (unsigned long long)budget, (unsigned long long)peak_of(&first), (unsigned long long)peak_of(best),
        (unsigned long long)best->state);
}

static void tell(struct ir_ctx *ctx, const struct ir_func *f, const struct choice *c)
{
    struct ir_where where = {.file = f->module->name};
    const char *repeated = c->segments ? ir_internf(ctx, "%d operations are recomputed (activation checkpointing)",
                                                    c->memory.rematerialised)
                                       : "nothing is recomputed";
    ir_diag(ctx, &where, IR_D_NOTE,
            "@%s takes %llu bytes at its peak: %llu for tensors, %llu for state (and up to %llu a thread); %s", f->name,
            (unsigned long long)peak_of(c), (unsigned long long)c->arena, (unsigned long long)c->state,
            (unsigned long long)c->scratch, repeated);
}

bool budget_fit(struct ir_ctx *ctx, struct ir_module *m, const struct pass_options *p, uint64_t budget, FILE *report)
{
    struct ir_func *step = ir_func_by_name(m, "step"), *grad = ir_func_by_name(m, "grad");
    struct choice best = {0};
    if (!step)
        return true;
    if (budget) {
        if (!try_choice(ctx, step, p, &best))
            return false;
        if (peak_of(&best) > budget && !search(ctx, step, p, budget, &best))
            return false;
        tell(ctx, step, &best);
    }
    struct train_memory memory;
    if (best.segments || report)
        train_remat(step, pass_cost(p->machine), best.segment_bytes > 0 ? best.segment_bytes : 1e300, best.segments,
                    &memory, report);
    if (best.segments && grad)
        train_remat(grad, pass_cost(p->machine), best.segment_bytes, best.segments, &memory, NULL);
    return true;
}
