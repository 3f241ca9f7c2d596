/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --report: what a plan takes. The memory of each entry point, which buffers share it, what a shape version adds; on a
 * device, which steps stay on the host: a kernel of floats there is one that no template of the device takes.
 */
#include "compiler/memory/budget_int.h"

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

/* " of 'cuda'" where there are several memories. */
static const char *memory_text(struct ir_ctx *ctx, const struct kn_program *p, int memory)
{
    return p->nmemories > 1 ? ir_internf(ctx, " of '%s'", p->memories[memory].name) : "";
}

static void report_buffer(struct ir_ctx *ctx, const struct kn_program *p, const bool *used, int b, FILE *out)
{
    const struct kn_buffer *x = &p->buffers[b];
    const char *where = memory_text(ctx, p, x->memory);
    int64_t at, bytes, other_at, other_bytes;
    int before = 0;
    if (used[b] && x->space == TCC_SPACE_ARENA && x->bytes && !placed(x, &at, &bytes)) {
        fprintf(out, "%-10s %12s  buffer %d%s%s: steps %d to %d, %s bytes%s, placed when it runs\n", "symbolic", "-", b,
                x->name ? " " : "", x->name ? ir_shown(x->name) : "", x->first_step, x->last_step,
                ir_expr_text(ctx, x->bytes), where);
        return;
    }
    if (!used[b] || !placed(x, &at, &bytes))
        return;
    for (int o = 0; o < p->nbuffers; o++)
        before += used[o] && o != b && p->buffers[o].memory == x->memory &&
                  placed(&p->buffers[o], &other_at, &other_bytes) && p->buffers[o].last_step < x->first_step &&
                  other_at < at + bytes && at < other_at + other_bytes;
    fprintf(out, "%-10s %12lld  buffer %d%s%s: steps %d to %d, offset %lld%s", before ? "reused" : "fresh",
            (long long)bytes, b, x->name ? " " : "", x->name ? ir_shown(x->name) : "", x->first_step, x->last_step,
            (long long)at, where);
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

/* What the other memories take at their peak. */
static void report_devices(const struct kn_program *p, const struct kn_entry *e, FILE *out)
{
    for (int m = 1; m < p->nmemories; m++) {
        int64_t bytes;
        if (e->arenas && e->arenas[m - 1] && ir_is_const(e->arenas[m - 1], &bytes))
            fprintf(out, "memory of '%s' on '%s': %lld bytes\n", ir_shown(e->name), p->memories[m].name,
                    (long long)bytes);
    }
}

struct step_counts {
    int device, copies, kernels, library, other, floats;
    int rows, with_rows; /* row buffers of kernels on a device; kernels that have some */
    double row_bytes;    /* of all their outer points */
};

/* Does a kernel or a library step access floats? */
static bool has_floats(const struct kn_program *p, const struct kn_step *s)
{
    for (int i = 0; i < s->nargs; i++)
        if (s->args[i] >= 0 && p->buffers[s->args[i]].bytes &&
            (tcc_is_float(p->buffers[s->args[i]].dtype) ||
             tcc_dtype_class(p->buffers[s->args[i]].dtype) == TCC_CLASS_COMPLEX))
            return true;
    return false;
}

/* Row buffers: what would go by memory if the stages that hand it on were kernels of their own. */
static void count_rows(const struct kn_kernel *k, struct step_counts *n)
{
    double points = 1;
    int before = n->rows;
    for (int d = 0; d < k->ndims; d++)
        points *= k->dims[d].role == KN_OUTER ? (double)ir_const_or(k->dims[d].extent, 0) : 1;
    for (int i = 0; i < k->noperands; i++) {
        double bytes = points * tcc_dtype_bytes(k->operands[i].dtype);
        if (k->operands[i].use != KN_LOCAL)
            continue;
        for (int d = 0; d < k->operands[i].rank; d++)
            bytes *= (double)ir_const_or(k->operands[i].dims[d], 0);
        n->rows++;
        n->row_bytes += bytes;
    }
    n->with_rows += n->rows > before;
}

static void count_steps(const struct kn_program *p, const struct kn_steps *steps, struct step_counts *n, FILE *out)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        bool launch = s->kind == TCC_STEP_LAUNCH, library = s->kind == TCC_STEP_LIB;
        for (int r = 0; r < s->nregions; r++)
            count_steps(p, &s->regions[r].steps, n, out);
        if (s->kind == TCC_STEP_COPY)
            n->copies++;
        else if (p->queues[s->queue].memory) {
            n->device += launch;
            if (launch)
                count_rows(s->kernel, n);
        } else if (launch || library) {
            *(launch ? &n->kernels : &n->library) += 1;
            if (has_floats(p, s)) {
                n->floats++;
                fprintf(out, "floats on the host: %s%s%s\n", ir_shown(launch ? s->kernel->name : s->lib),
                        s->node ? ", " : "", s->node ? ir_shown(s->node) : "");
            }
        } else
            n->other++;
    }
}

static void report_steps(const struct kn_program *p, const struct kn_entry *e, FILE *out)
{
    struct step_counts n = {0};
    count_steps(p, &e->steps, &n, out);
    fprintf(out,
            "steps of '%s': %d kernels on the device, %d copies; on the host %d kernels, %d library calls, %d others; "
            "%d of them on floats\n",
            ir_shown(e->name), n.device, n.copies, n.kernels, n.library, n.other, n.floats);
    if (n.rows)
        fprintf(out, "rows on chip in '%s': %d row buffers in %d kernels, %.0f bytes that memory does not see\n",
                ir_shown(e->name), n.rows, n.with_rows, n.row_bytes);
}

/* Inputs that have values where a call gives none, and those that no call can give. */
static void report_defaults(struct ir_ctx *ctx, const struct ir_module *m, FILE *out)
{
    for (int i = 0; i < m->ndefaults; i++) {
        const struct ir_default *d = &m->defaults[i];
        if (!d->value) {
            fprintf(out, "input '%s' of 'main': its value is compiled in (--defaults='%s': may be given)\n",
                    ir_shown(d->input), ir_shown(d->input));
            continue;
        }
        ir_type t = ir_tensor_type_i(ctx, (enum tcc_dtype)d->value->dtype, d->value->rank, d->value->dims);
        fprintf(out, "input '%s' of 'main': need not be given, its value is a %s; with one, 'main.given' runs\n",
                ir_shown(d->input), ir_type_text(ctx, t));
    }
}

enum { MOST_TOLD = 6 };

/* Kernels and library calls that stay on the host, of an entry point: those of floats; or kernels of anything else that
 * the device refuses. Library calls of integers are sizes, strings, what comes of values: the host's on any device. */
struct left {
    struct ir_ctx *ctx;
    const struct target *t;
    const struct pass_machine *m;
    bool floats;
    int n;
    const char *text;
};

static void find_left(const struct kn_program *p, const struct kn_steps *steps, struct left *x)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        bool launch = s->kind == TCC_STEP_LAUNCH;
        for (int r = 0; r < s->nregions; r++)
            find_left(p, &s->regions[r].steps, x);
        bool refused = launch && x->t->host_reason && !strcmp(s->kernel->schedule.how, "host");
        if ((!launch && s->kind != TCC_STEP_LIB) || p->queues[s->queue].memory || has_floats(p, s) != x->floats ||
            (launch && !refused && x->t->host_reason) || (!x->floats && !refused))
            continue;
        if (x->n++ >= MOST_TOLD)
            continue;
        const char *why = launch && x->t->host_reason ? x->t->host_reason(x->ctx, x->m, s->kernel)
                          : launch                    ? "its operands lie with the host"
                                                      : "the device has no code for it";
        x->text = ir_internf(x->ctx, "%s%s %s%s%s: %s", x->text, *x->text ? ";" : "", s->node ? "node '" : "",
                             s->node ? ir_shown(s->node) : ir_shown(launch ? s->kernel->name : s->lib),
                             s->node ? "'" : "", why);
    }
}

/* False: there are some, and there may be none. */
static bool tell_left(const struct kn_program *p, const struct kn_entry *e, struct left x, bool strict)
{
    find_left(p, &e->steps, &x);
    if (!x.n)
        return true;
    const char *more = x.n > MOST_TOLD ? ir_internf(x.ctx, "; and %d more", x.n - MOST_TOLD) : "";
    const char *text =
        ir_internf(x.ctx, "'%s': %d step%s of %s run%s on the host, not on the device:%s%s", ir_shown(e->name), x.n,
                   x.n > 1 ? "s" : "", x.floats ? "floats" : "integers", x.n > 1 ? "" : "s", x.text, more);
    if (strict)
        ir_error(x.ctx, NULL, "--strict-device: %s", text);
    else
        ir_diag(x.ctx, NULL, IR_D_WARNING, "%s", text);
    return !strict;
}

bool plan_host_steps(struct ir_ctx *ctx, const struct kn_program *p, const struct target *t,
                     const struct pass_machine *m, bool strict)
{
    bool ok = true;

    for (int e = 0; e < p->nentries; e++)
        for (int floats = 1; floats >= 0; floats--)
            ok &= tell_left(p, &p->entries[e], (struct left){.ctx = ctx, .t = t, .m = m, .floats = floats, .text = ""},
                            strict);
    return ok;
}

/* What products of bytes are expected to gain over those of floats. */
static void report_bytes(const struct kn_entry *e, const struct pass_machine *m, FILE *out)
{
    double bytes = 0, floats = 0, b, f;
    for (const struct ir_node *n = e->func->body->first; n; n = n->next)
        if (m->bytes_cost && m->bytes_cost(m, n, &b, &f)) {
            bytes += b;
            floats += f;
        }
    if (bytes > 0)
        fprintf(out, "8 bits in '%s': the cost model of %s expects products of floats to take %.2f times as long%s\n",
                ir_shown(e->name), m->name, floats / bytes, floats < 1.3 * bytes ? ", so 8 bits gain little time" : "");
}

void plan_report(struct ir_ctx *ctx, const struct kn_program *p, const struct pass_machine *m, FILE *out)
{
    report_defaults(ctx, p->module, out);
    for (int e = 0; e < p->nentries; e++) {
        bool *used = IR_NEWN(ctx, p->nbuffers + 1, bool);
        mark_used(&p->entries[e].steps, used);
        report_version(ctx, p, e, used, out);
        report_peak(&p->entries[e], out);
        report_bytes(&p->entries[e], m, out);
        report_devices(p, &p->entries[e], out);
        if (p->nmemories > 1)
            report_steps(p, &p->entries[e], out);
        for (int b = 0; b < p->nbuffers; b++)
            report_buffer(ctx, p, used, b, out);
    }
}
