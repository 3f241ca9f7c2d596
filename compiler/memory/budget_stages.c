/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --memory-budget of a step in stages: each stage is to fit by itself, in the process that runs it. What it takes is
 * known when all is lowered, so every choice is made on a copy of the model that is cut, differentiated and lowered as
 * the real one will be; since what a stage computes again changes nothing in the others, one such copy tries a choice
 * for each stage that does not fit yet.
 *
 * The choices cut the forward pass of a stage's segments into more or fewer pieces, all of which are recomputed; when
 * one fits, as many of its pieces as can be are kept after all.
 */
#include "compiler/memory/budget_int.h"
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"

#define ALIGN 64 /* of the session's blocks of memory */

static const int ladder[] = {8, 4, 2, 1, 16, 3, 12, 6, 24}; /* pieces */
enum { STEPS = sizeof ladder / sizeof *ladder };

/* Bytes that the process of one stage takes while it runs a step. */
struct taken {
    uint64_t tensors; /* of a call, at once */
    uint64_t state;
    uint64_t flight;  /* slots of values: one for each microbatch that is under way */
    uint64_t other;   /* outputs as they come together, copies of what a failing step puts back */
    uint64_t scratch; /* a thread */
};

static uint64_t total(const struct taken *t)
{
    return t->tensors + t->state + t->flight + t->other;
}

/* -- What a lowered module takes ------------------------------------------------------------------------------- */

static bool is_known(struct ir_ctx *ctx, ir_type t, uint64_t *bytes)
{
    int64_t n;
    if (!ir_is_const(ir_num_elements(ctx, t), &n))
        return false;
    *bytes = (uint64_t)n * (uint64_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    return true;
}

static bool is_here(const struct ir_state *s, int stage)
{
    return !s->owner_stage || s->owner_stage == stage + 1;
}

static void add_states(const struct ir_module *m, const struct kn_staged *p, int stage, struct taken *t)
{
    for (const struct ir_state *s = m->states; s; s = s->next) {
        uint64_t bytes;
        bool kept = p->counter && (s->flags & IR_STATE_GRADIENT);
        if (!is_here(s, stage) || !is_known(m->ctx, s->type, &bytes))
            continue;
        for (int i = 0; i < p->nearly; i++)
            kept |= p->early[i] == s->index;
        t->state += bytes;
        t->other += kept ? bytes : 0;
    }
}

static bool add_call(const struct ir_module *m, const struct ir_func *func, struct taken *t)
{
    const struct kn_program *program = m->program;
    int64_t bytes;
    for (int e = 0; e < program->nentries; e++) {
        const struct kn_entry *x = &program->entries[e];
        if (x->func != func)
            continue;
        const ir_expr arena = budget_arena(program, x);
        if (!arena || !ir_is_const(arena, &bytes))
            return false;
        t->tensors = (uint64_t)bytes > t->tensors ? (uint64_t)bytes : t->tensors;
        for (int i = 0; i < x->steps.n; i++)
            if (x->steps.at[i].scratch && ir_is_const(x->steps.at[i].scratch, &bytes) && (uint64_t)bytes > t->scratch)
                t->scratch = (uint64_t)bytes;
    }
    return true;
}

/* By buffer: does the stage name it? */
static bool *find_named(struct ir_ctx *ctx, const struct kn_staged *p, int stage)
{
    bool *named = IR_NEWN(ctx, p->nbuffers + 1, bool);
    for (int k = 0; k < 2; k++) {
        const struct kn_steps *l = &p->lists[k ? p->stages : stage];
        for (int i = 0; i < l->n; i++)
            for (int a = 0; a < l->at[i].nargs; a++)
                named[l->at[i].args[a]] = true;
    }
    return named;
}

bool budget_slots(struct ir_ctx *ctx, const struct kn_staged *p, int stage, bool on_device, uint64_t *bytes)
{
    const bool *named = find_named(ctx, p, stage);
    uint64_t each;
    *bytes = 0;
    for (int b = 0; b < p->nbuffers; b++) {
        const struct kn_buffer *x = &p->buffers[b];
        if (x->space != TCC_SPACE_SLOT || (on_device && !x->memory) || !named[b])
            continue;
        if (!is_known(ctx, x->type, &each))
            return false;
        *bytes += ((each ? each : 1) + ALIGN - 1) / ALIGN * ALIGN * (uint64_t)x->index;
    }
    return true;
}

static bool add_results(const struct ir_module *m, const struct kn_staged *p, struct taken *t)
{
    uint64_t bytes;
    for (int o = 0; o < p->noutputs; o++) {
        const struct kn_stage_output *x = &p->outputs[o];
        bool adds = x->how == TCC_COMBINE_MEAN || x->how == TCC_COMBINE_SUM;
        if (!is_known(m->ctx, x->type, &bytes))
            return false;
        /* Sums are float64; else microbatches lie behind each other. */
        t->other +=
            adds ? bytes / (uint64_t)tcc_dtype_bytes((enum tcc_dtype)x->type->dtype) * 8 : bytes * (uint64_t)p->micros;
    }
    return true;
}

static bool measure_stage(const struct ir_module *m, const struct kn_staged *p, int stage, struct taken *t)
{
    struct kn_call *calls;
    int n = kn_calls(m->ctx, p, &calls);
    *t = (struct taken){0};
    add_states(m, p, stage, t);
    for (int c = 0; c < n; c++)
        if ((calls[c].list == stage || calls[c].list == p->stages) && !add_call(m, calls[c].step->func, t))
            return false;
    return budget_slots(m->ctx, p, stage, false, &t->flight) && add_results(m, p, t);
}

/* By stage, what the first entry point, @step, takes. */
static bool measure(const struct ir_module *m, struct taken *t)
{
    for (int s = 0; s < m->staged->stages; s++)
        if (!measure_stage(m, m->staged, s, &t[s]))
            return false;
    return true;
}

bool budget_stage_bytes(const struct ir_module *m, const struct kn_staged *p, int stage, uint64_t *bytes,
                        uint64_t *scratch)
{
    struct taken t;
    bool known = measure_stage(m, p, stage, &t);
    *bytes = total(&t);
    *scratch = t.scratch;
    return known;
}

/* -- Trying -------------------------------------------------------------------------------------------------------- */

struct fitting {
    struct ir_ctx *ctx;
    const struct ir_module *m;
    const struct tccc_train *train;
    const struct pass_options *options;
    budget_passes *passes;
    void *user;
    int stages;
    struct train_recompute *now; /* the choice that is tried, by stage */
    struct taken *taken;         /* by stage, with it */
    struct train_recompute *best;
    uint64_t *first, *least; /* by stage: as it is; the least of all choices */
    bool *fits;
};

static bool complain(struct fitting *f)
{
    struct ir_where where = {.file = f->m->name};
    return ir_error(f->ctx, &where,
                    "--memory-budget requires known sizes: specialise the dynamic dimensions with --dim or --shape");
}

static bool build(struct fitting *f, struct ir_module *m, const struct tccc_train *t, const struct pass_options *p)
{
    return frontend_train(m, t, p->machine, NULL, f->now) && f->passes(f->user, m, p) && pass_list(m, "codegen", p) &&
           budget_settle_owners(m, p);
}

/* Compiles a copy with f->now. Messages are those of the real thing to come; but what fails says why. */
static bool try_choice(struct fitting *f)
{
    static const char *const none[] = {NULL};
    struct pass_options quiet = *f->options;
    struct tccc_train train = *f->train;
    struct tccc_split split = *train.split;
    quiet.dump = none;
    quiet.time_passes = quiet.verify = false;
    quiet.timed = NULL;
    quiet.change_limit = -1;
    quiet.reproducer = NULL;
    split.report = NULL;
    split.chart = NULL;
    train.split = &split;
    train.report = NULL;
    for (int s = 0; s < f->stages; s++)
        f->now[s].found = f->now[s].rematerialised = 0;
    struct ir_module *m = train_copy_all(f->m);
    ir_quiet(f->ctx, true);
    bool ok = build(f, m, &train, &quiet);
    ir_quiet(f->ctx, false);
    if (!ok) /* with its messages */
        return build(f, train_copy_all(f->m), &train, &quiet);
    return measure(m, f->taken) || complain(f);
}

/* Another number of pieces for every stage that does not fit. */
static bool climb(struct fitting *f, int pieces)
{
    for (int s = 0; s < f->stages; s++)
        f->now[s] = f->fits[s] ? f->best[s] : (struct train_recompute){.parts = pieces, .segments = 1 << 20};
    if (!try_choice(f))
        return false;
    for (int s = 0; s < f->stages; s++) {
        if (f->fits[s])
            continue;
        uint64_t bytes = total(&f->taken[s]);
        f->least[s] = bytes < f->least[s] ? bytes : f->least[s];
        f->fits[s] = bytes <= f->train->memory_budget;
        f->best[s] = (struct train_recompute){.parts = pieces, .segments = f->now[s].found};
    }
    return true;
}

static bool all_fit(const struct fitting *f)
{
    for (int s = 0; s < f->stages; s++)
        if (!f->fits[s])
            return false;
    return true;
}

/* The fewest pieces, from the first on, that do. */
static bool keep_more(struct fitting *f)
{
    int *lo = IR_NEWN(f->ctx, f->stages, int), *hi = IR_NEWN(f->ctx, f->stages, int);
    for (int s = 0; s < f->stages; s++) {
        lo[s] = 1;
        hi[s] = f->best[s].parts ? f->best[s].segments : 0;
    }
    for (;;) {
        bool open = false;
        for (int s = 0; s < f->stages; s++) {
            f->now[s] = f->best[s];
            f->now[s].segments = lo[s] < hi[s] ? (lo[s] + hi[s]) / 2 : f->best[s].segments;
            open |= lo[s] < hi[s];
        }
        if (!open)
            return true;
        if (!try_choice(f))
            return false;
        for (int s = 0; s < f->stages; s++) {
            if (lo[s] >= hi[s])
                continue;
            if (total(&f->taken[s]) <= f->train->memory_budget)
                f->best[s].segments = hi[s] = f->now[s].segments;
            else
                lo[s] = f->now[s].segments + 1;
        }
    }
}

static bool refuse(struct fitting *f)
{
    struct ir_where where = {.file = f->m->name};
    uint64_t works = 0;
    int worst = 0;
    for (int s = 0; s < f->stages; s++)
        if (!f->fits[s] && f->least[s] > works) {
            works = f->least[s];
            worst = s;
        }
    return ir_error(
        f->ctx, &where,
        "--memory-budget=%llu: stage %d takes %llu bytes as it is and %llu when activations are recomputed "
        "(state: %llu): the smallest budget that works is %llu; more stages, smaller microbatches or fewer of them "
        "in flight (--active-microbatches) would take less",
        (unsigned long long)f->train->memory_budget, worst, (unsigned long long)f->first[worst],
        (unsigned long long)works, (unsigned long long)f->taken[worst].state, (unsigned long long)works);
}

bool budget_fit_stages(const struct ir_module *m, const struct tccc_train *t, const struct pass_options *p,
                       budget_passes *passes, void *user, struct train_recompute **chosen)
{
    int n = t->split->partitions > 1 ? t->split->partitions : 1;
    struct fitting f = {.ctx = m->ctx,
                        .m = m,
                        .train = t,
                        .options = p,
                        .passes = passes,
                        .user = user,
                        .stages = n,
                        .now = IR_NEWN(m->ctx, n, struct train_recompute),
                        .best = IR_NEWN(m->ctx, n, struct train_recompute),
                        .taken = IR_NEWN(m->ctx, n, struct taken),
                        .first = IR_NEWN(m->ctx, n, uint64_t),
                        .least = IR_NEWN(m->ctx, n, uint64_t),
                        .fits = IR_NEWN(m->ctx, n, bool)};
    *chosen = NULL;
    if (!try_choice(&f))
        return false;
    for (int s = 0; s < n; s++) {
        f.first[s] = f.least[s] = total(&f.taken[s]);
        f.fits[s] = f.first[s] <= t->memory_budget;
    }
    if (all_fit(&f))
        return true;
    for (int i = 0; i < STEPS && !all_fit(&f); i++)
        if (!climb(&f, ladder[i]))
            return false;
    if (!all_fit(&f))
        return refuse(&f);
    if (!keep_more(&f))
        return false;
    *chosen = f.best;
    for (int s = 0; s < n; s++)
        f.best[s].found = f.best[s].rematerialised = 0;
    return true;
}

void budget_tell_stages(const struct ir_module *m, const struct train_recompute *chosen, FILE *report)
{
    struct ir_where where = {.file = m->name};
    struct taken *t = IR_NEWN(m->ctx, m->staged->stages, struct taken);
    if (!measure(m, t)) {
        if (report)
            fprintf(report, "peak of memory: not known before the sizes are: specialise the dynamic dimensions with "
                            "--dim or --shape\n");
        return;
    }
    for (int s = 0; s < m->staged->stages; s++) {
        const char *repeated = chosen && chosen[s].rematerialised
                                   ? ir_internf(m->ctx, "%d operations are recomputed (activation checkpointing)",
                                                chosen[s].rematerialised)
                                   : "nothing is recomputed";
        ir_diag(m->ctx, &where, IR_D_NOTE,
                "stage %d takes %llu bytes at its peak: %llu for tensors, %llu for state, %llu for microbatches in "
                "flight, %llu for outputs and copies (and up to %llu a thread); %s",
                s, (unsigned long long)total(&t[s]), (unsigned long long)t[s].tensors, (unsigned long long)t[s].state,
                (unsigned long long)t[s].flight, (unsigned long long)t[s].other, (unsigned long long)t[s].scratch,
                repeated);
    }
}
