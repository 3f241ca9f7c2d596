/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --memory-budget: how much of the forward pass a training step computes again so that its memory fits.
 *
 * Every choice is tried on a copy of the step and lowered as it will be, so the peak that is compared and printed is that of the plan. First
 * segments of several sizes are tried, all of them recomputed; of those that fit the one that computes least is taken, and then
 * as many of its last segments as can be are kept after all.
 */
#include "compiler/budget_int.h"
#include "compiler/frontend.h"

struct choice {
    double segment_bytes;
    int segments;               /* recomputed ones */
    struct train_memory memory; /* what came of it */
    uint64_t arena, state, scratch;
};

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
    quiet.change_limit = -1;
    if (c->segments)
        train_remat(ir_func_by_name(m, f->name), pass_cost(p->machine), c->segment_bytes, c->segments, &c->memory,
                    NULL);
    if (!pass_list(m, "codegen", &quiet))
        return false;
    const struct kn_entry *e = &m->program->entries[0];
    if (!e->arena || !ir_is_const(e->arena, &bytes)) {
        struct ir_where where = {.file = f->module->name};
        ir_error(ctx, &where,
                 "--memory-budget requires known sizes: specialise the dynamic dimensions with --dim or --shape");
        return false;
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
    ir_error(
        ctx, &where,
        "--memory-budget=%llu: the step takes %llu bytes as it is and %llu when activations are recomputed (state: "
        "%llu); a smaller batch would take less",
        (unsigned long long)budget, (unsigned long long)peak_of(&first), (unsigned long long)peak_of(best),
        (unsigned long long)best->state);
    return false;
}

static void tell(struct ir_ctx *ctx, const struct ir_func *f, const struct choice *c)
{
    struct ir_where where = {.file = f->module->name};
    const char *repeated =
        c->segments ? ir_internf(ctx, "%d operations are recomputed (activation checkpointing)", c->memory.rematerialised)
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

/* Marks the buffers that these steps name. */
static void mark_used(const struct kn_steps *steps, bool *used)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *step = &steps->at[i];
        for (int k = 0; k < step->nargs; k++)
            if (step->args[k] >= 0)
                used[step->args[k]] = true;
        for (int k = 0; k < step->nregions; k++)
            mark_used(&step->regions[k].steps, used);
    }
}

static bool placed(const struct kn_buffer *b, int64_t *at, int64_t *bytes)
{
    return b->space == TCC_SPACE_ARENA && b->offset && ir_is_const(b->offset, at) && ir_is_const(b->bytes, bytes);
}

static void report_buffer(struct ir_ctx *ctx, const struct kn_program *p, const bool *used, int b, FILE *out)
{
    const struct kn_buffer *x = &p->buffers[b];
    int64_t at, bytes, other_at, other_bytes;
    int before = 0;
    if (used[b] && x->space == TCC_SPACE_ARENA && x->bytes && !placed(x, &at, &bytes)) {
        fprintf(out, "%-10s %12s  buffer %d%s%s: steps %d to %d, %s bytes, placed when it runs\n", "symbolic", "-", b,
                x->name ? " " : "", x->name ? ir_shown(x->name) : "", x->first_step, x->last_step,
                ir_expr_text(ctx, x->bytes));
        return;
    }
    if (!used[b] || !placed(x, &at, &bytes))
        return;
    for (int o = 0; o < p->nbuffers; o++)
        before += used[o] && o != b && placed(&p->buffers[o], &other_at, &other_bytes) &&
                  p->buffers[o].last_step < x->first_step && other_at < at + bytes && at < other_at + other_bytes;
    fprintf(out, "%-10s %12lld  buffer %d%s%s: steps %d to %d, offset %lld", before ? "reused" : "fresh",
            (long long)bytes, b, x->name ? " " : "", x->name ? ir_shown(x->name) : "", x->first_step, x->last_step,
            (long long)at);
    if (before)
        fprintf(out, ", memory of %d earlier", before);
    fputc('\n', out);
}

/* Marks the kernels that these steps launch. */
static void mark_kernels(const struct kn_steps *steps, bool *used)
{
    for (int i = 0; i < steps->n; i++) {
        if (steps->at[i].kind == TCC_STEP_LAUNCH)
            used[steps->at[i].kernel->id] = true;
        for (int k = 0; k < steps->at[i].nregions; k++)
            mark_kernels(&steps->at[i].regions[k].steps, used);
    }
}

/* What a shape version is for, and what of it no earlier entry point has. */
static void report_version(struct ir_ctx *ctx, const struct kn_program *p, int e, const bool *buffers, FILE *out)
{
    const struct ir_version *v = p->entries[e].func->version;
    bool *own = IR_NEWN(ctx, p->nkernels + 1, bool), *before = IR_NEWN(ctx, p->nkernels + 1, bool),
         *stored = IR_NEWN(ctx, p->nbuffers + 1, bool);
    int kernels = 0, fresh = 0;
    int64_t weights = 0, more = 0;
    if (!v)
        return;
    mark_kernels(&p->entries[e].steps, own);
    for (int i = 0; i < e; i++) {
        mark_kernels(&p->entries[i].steps, before);
        mark_used(&p->entries[i].steps, stored);
    }
    for (int k = 0; k < p->nkernels; k++) {
        kernels += own[k];
        fresh += own[k] && !before[k];
    }
    for (int b = 0; b < p->nbuffers; b++) {
        int64_t bytes = buffers[b] && p->buffers[b].space == TCC_SPACE_WEIGHT ? ir_const_or(p->buffers[b].bytes, 0) : 0;
        weights += bytes;
        more += stored[b] ? 0 : bytes;
    }
    fprintf(out,
            "version of '%s' for %s: %d kernels, %d not in earlier versions; %lld bytes of weights, %lld not in "
            "earlier versions\n",
            v->entry, ir_guards_text(ctx, v->nguards, v->guards), kernels, fresh, (long long)weights, (long long)more);
}

/* What the plan takes, and the most that must be there at once whatever the plan. */
static void report_peak(const struct kn_entry *e, FILE *out)
{
    int64_t arena, live;
    fprintf(out, "memory of '%s':", ir_shown(e->name));
    if (!e->arena || !ir_is_const(e->arena, &arena))
        fputs(" placed when it runs, by sizes (--dim gives figures):\n", out);
    else if (!e->peak_live || !ir_is_const(e->peak_live, &live))
        fprintf(out, " %lld bytes\n", (long long)arena);
    else
        fprintf(out, " %lld bytes, %lld of them live at once\n", (long long)arena, (long long)live);
}

void budget_report(struct ir_ctx *ctx, const struct kn_program *p, FILE *out)
{
    for (int e = 0; e < p->nentries; e++) {
        bool *used = IR_NEWN(ctx, p->nbuffers + 1, bool);
        mark_used(&p->entries[e].steps, used);
        report_version(ctx, p, e, used, out);
        report_peak(&p->entries[e], out);
        for (int b = 0; b < p->nbuffers; b++)
            report_buffer(ctx, p, used, b, out);
    }
}
