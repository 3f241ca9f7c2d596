/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of a compilation, as JSON for reports (tccc --html, doc/reports.md):
 *
 *   {"model", "target", "archs": [text...], "level", "source": ops, "graph": ops, "passes": [[name, ms, nodes before,
 *   after, changes]...], "laps": [[what, ms]...],
 *    "kernels": how many different ones, "weight_bytes", "memories": [name...], "weights": [[name, type, bytes]...],
 *    "entries": [{"name", "version", "arena", "live": bytes or null, "arenas": [bytes of the other memories...],
 *                 "steps": [{"kind", "kernel", "how", "node", "sources", "host": true, "at": position, "flops",
 *                 "bytes", "ms": predicted, "reads": [buffer...], "writes": [buffer...]}...], "buffers": [[number,
 *                 name, type, memory, bytes, offset or null, first position, last position]...]}...],
 *    "pipes": [{"name", "micros", "stages": [[[name of what is called, ms, microbatch, kind of step, value,
 *    peer]...]...]}...]}
 *   ops: [[operator, how many]...]
 *
 * Times are those of the cost model (passes/cost.h) for the target's machine, with its guess for sizes that are not
 * known.
 */
#include "compiler/job_int.h"

struct op_count {
    const char *op;
    int n;
};
struct op_counts {
    VEC(struct op_count) list;
};

struct facts {
    struct op_counts source;
    VEC(struct pass_timing) passes;
};

static void count_op(struct ir_ctx *ctx, struct op_counts *c, const char *op)
{
    int i = 0;
    while (i < c->list.n && strcmp(c->list.at[i].op, op) != 0)
        i++;
    if (i == c->list.n)
        VEC_PUSH(ctx, c->list, (struct op_count){op, 0});
    c->list.at[i].n++;
}

/* By the source's operators, or by the graph's own. */
static void count_block(struct ir_ctx *ctx, struct op_counts *c, const struct ir_block *b, bool source)
{
    const char *node = NULL;
    for (const struct ir_node *n = b->first; n; n = n->next) {
        const struct ir_op_info *info = ir_op_info(n->op);
        const char *op = source && n->where.op ? n->where.op : info->name;
        /* A source node that was built as several is one: they stand together. */
        bool again = source && n->where.op && node && n->where.node && !strcmp(node, n->where.node);
        node = n->where.node;
        if (!again && info->kind != IR_K_SOURCE && !(info->flags & IR_F_TERMINATOR))
            count_op(ctx, c, op);
        for (int r = 0; r < n->nregions; r++)
            count_block(ctx, c, n->regions[r], source);
    }
}

static struct op_counts count_ops(struct job *j, bool source)
{
    struct op_counts c = {0};
    for (const struct ir_func *f = j->module->funcs; f; f = f->next)
        count_block(j->ctx, &c, f->body, source);
    return c;
}

void facts_begin(struct job *j)
{
    if (!j->o->facts)
        return;
    j->facts = IR_NEW(j->ctx, struct facts);
    j->facts->source = count_ops(j, true);
}

void facts_timed(void *job, const struct pass_timing *t)
{
    struct job *j = job;
    VEC_PUSH(j->ctx, j->facts->passes, *t);
}

/* -- Words --------------------------------------------------------------------------------------------- */

static void put_key(FILE *out, const char *key, const char *text)
{
    fprintf(out, "\"%s\":", key);
    tcr_print_json(out, text ? text : "");
}

static void put_bytes(FILE *out, ir_expr e)
{
    int64_t v;
    if (e && ir_is_const(e, &v))
        fprintf(out, "%lld", (long long)v);
    else
        fputs("null", out);
}

static void put_ops(FILE *out, const char *key, const struct op_counts *c)
{
    fprintf(out, "\"%s\":[", key);
    for (int i = 0; i < c->list.n; i++) {
        fputs(i ? ",[" : "[", out);
        tcr_print_json(out, c->list.at[i].op);
        fprintf(out, ",%d]", c->list.at[i].n);
    }
    fputs("],\n", out);
}

/* -- Steps --------------------------------------------------------------------------------------------------- */

static const struct pass_sizes guesses;

static bool is_half(const struct kn_kernel *k)
{
    enum tcc_dtype d = k->roles.form == KN_CONTRACTION ? k->insns[k->roles.contraction.load[0]].dtype : TCC_NONE;
    return tcc_is_half(d);
}

static bool reads(const struct kn_step *s, int i)
{
    return kn_use(s, i) != KN_OUT;
}

static void put_args(FILE *out, const struct kn_program *p, const struct kn_step *s, const char *key,
                     bool (*wanted)(const struct kn_step *, int))
{
    const char *comma = "";
    fprintf(out, ",\"%s\":[", key);
    for (int i = 0; i < s->nargs; i++)
        if (s->args[i] >= 0 && wanted(s, i)) {
            fprintf(out, "%s%d", comma, kn_storage(p->buffers, s->args[i]));
            comma = ",";
        }
    fputs("]", out);
}

struct step_cost {
    double flops, bytes, seconds;
};

static struct step_cost cost_of(struct job *j, const struct kn_step *s)
{
    const struct kn_program *p = j->module->program;
    struct step_cost c = {0};
    for (int i = 0; i < s->nargs; i++)
        if (s->args[i] >= 0 && p->buffers[s->args[i]].bytes)
            c.bytes += pass_extent(&guesses, p->buffers[s->args[i]].bytes);
    const struct kn_kernel *k = s->kind == TCC_STEP_LAUNCH ? s->kernel : NULL;
    int64_t none;
    ir_expr flops = k && k->flops ? ir_subst(j->ctx, k->flops, s->nsizes, k->sizes, s->sizes) : NULL;
    if (flops && !(ir_is_const(flops, &none) && none == 0))
        c.flops = pass_extent(&guesses, flops);
    c.seconds = pass_seconds(pass_cost(j->made.machine), c.flops, c.bytes, k && is_half(k));
    return c;
}

/* Those that take time: kernels, copies, library calls, communication. */
static const char *kind_of(const struct kn_step *s)
{
    switch (s->kind) {
    case TCC_STEP_LAUNCH: return "kernel";
    case TCC_STEP_COPY: return "copy";
    case TCC_STEP_LIB: return "library call";
    case TCC_STEP_COLLECTIVE: return "collective";
    case TCC_STEP_SEND: return "send";
    case TCC_STEP_RECV: return "receive";
    default: return NULL;
    }
}

static void put_step(struct job *j, const struct kn_step *s, const char *kind, struct step_cost c, int at, bool first)
{
    FILE *out = j->o->facts;
    const struct kn_program *p = j->module->program;
    fputs(first ? "\n{" : ",\n{", out);
    put_key(out, "kind", kind);
    fputc(',', out);
    put_key(out, "kernel", s->kind == TCC_STEP_LAUNCH ? s->kernel->name : s->kind == TCC_STEP_LIB ? s->lib : kind);
    fputc(',', out);
    put_key(out, "how", s->kind == TCC_STEP_LAUNCH ? s->kernel->schedule.how : NULL);
    fputc(',', out);
    put_key(out, "node", s->node);
    if (s->sources) {
        fputc(',', out);
        put_key(out, "sources", s->sources);
    }
    if (p->nmemories > 1 && p->nqueues && !p->queues[s->queue].memory)
        fputs(",\"host\":true", out);
    fprintf(out, ",\"at\":%d,\"flops\":%.0f,\"bytes\":%.0f,\"ms\":%.9g", at, c.flops, c.bytes, c.seconds * 1e3);
    put_args(out, p, s, "reads", reads);
    put_args(out, p, s, "writes", kn_writes);
    fputc('}', out);
}

/* at: the positions of the steps before, as passes/plan/memory.c counts them; those of buffers are among them. */
static double put_steps(struct job *j, const struct kn_steps *steps, bool print, int *at, bool *first)
{
    double seconds = 0;
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        const char *kind = kind_of(s);
        struct step_cost c = kind ? cost_of(j, s) : (struct step_cost){0};
        ++*at;
        if (kind && print) {
            put_step(j, s, kind, c, *at, *first);
            *first = false;
        }
        seconds += c.seconds;
        for (int r = 0; r < s->nregions; r++) {
            ++*at;
            seconds += put_steps(j, &s->regions[r].steps, print, at, first);
            *at += 2;
        }
        ++*at;
    }
    return seconds;
}

/* -- Buffers, entry points ------------------------------------------------------------------------------------- */

static void put_buffers(struct job *j, const struct kn_entry *e)
{
    FILE *out = j->o->facts;
    const struct kn_program *p = j->module->program;
    int *uses = IR_NEWN(j->ctx, p->nbuffers + 1, int);
    bool first = true;
    kn_count_uses(p->buffers, &e->steps, uses);
    fputs(",\"buffers\":[", out);
    for (int b = 0; b < p->nbuffers; b++) {
        const struct kn_buffer *x = &p->buffers[b];
        if (!uses[b] || !x->bytes || (x->space != TCC_SPACE_ARENA && x->space != TCC_SPACE_DYNAMIC))
            continue;
        fprintf(out, "%s[%d,", first ? "\n" : ",\n", b);
        tcr_print_json(out, x->name ? x->name : "");
        fputc(',', out);
        tcr_print_json(out, x->type ? ir_type_text(j->ctx, x->type) : "");
        fprintf(out, ",%d,%.0f,", x->memory, pass_extent(&guesses, x->bytes));
        put_bytes(out, x->space == TCC_SPACE_ARENA ? x->offset : NULL);
        fprintf(out, ",%d,%d]", x->first_step, x->last_step);
        first = false;
    }
    fputs("]", out);
}

static void put_entry(struct job *j, const struct kn_entry *e)
{
    FILE *out = j->o->facts;
    const struct kn_program *p = j->module->program;
    const struct ir_version *v = e->func ? e->func->version : NULL;
    int at = 0;
    bool first = true;
    fputc('{', out);
    put_key(out, "name", v ? v->entry : e->name);
    fputc(',', out);
    put_key(out, "version", v ? ir_guards_text(j->ctx, v->nguards, v->guards) : NULL);
    fputs(",\"arena\":", out);
    put_bytes(out, e->arena);
    fputs(",\"live\":", out);
    put_bytes(out, e->peak_live);
    fputs(",\"arenas\":[", out);
    for (int m = 1; m < p->nmemories && e->arenas; m++) {
        fputs(m > 1 ? "," : "", out);
        put_bytes(out, e->arenas[m - 1]);
    }
    fputs("],\"steps\":[", out);
    put_steps(j, &e->steps, true, &at, &first);
    fputc(']', out);
    put_buffers(j, e);
    fputc('}', out);
}

static void put_weights(struct job *j)
{
    FILE *out = j->o->facts;
    const struct kn_program *p = j->module->program;
    const char *comma = "";
    fputs("\"weights\":[", out);
    for (int b = 0; b < p->nbuffers; b++) {
        const struct kn_buffer *x = &p->buffers[b];
        if (x->space != TCC_SPACE_WEIGHT && x->space != TCC_SPACE_STATE)
            continue;
        fprintf(out, "%s\n[", comma);
        tcr_print_json(out, x->name ? x->name : "");
        fputc(',', out);
        tcr_print_json(out, x->type ? ir_type_text(j->ctx, x->type) : "");
        fprintf(out, ",%.0f]", x->bytes ? pass_extent(&guesses, x->bytes) : 0);
        comma = ",";
    }
    fputs("],\n", out);
}

/* -- Stages ------------------------------------------------------------------------------------------------------ */

static double seconds_of_call(struct job *j, const char *name)
{
    const struct kn_program *p = j->module->program;
    int at = 0;
    bool first = true;
    for (int e = 0; e < p->nentries; e++)
        if (!strcmp(p->entries[e].name, name))
            return put_steps(j, &p->entries[e].steps, false, &at, &first);
    return 0;
}

static double ms_of(const struct kn_call *calls, const double *ms, int list, const char *name)
{
    while (calls->list != list || strcmp(calls->step->lib, name))
        calls++, ms++;
    return *ms;
}

static void put_staged(struct job *j, const struct kn_staged *q)
{
    static const char *const kinds[TCC_NSTEPS] = {[TCC_STEP_CALL] = "call",
                                                  [TCC_STEP_SEND] = "send",
                                                  [TCC_STEP_RECV] = "receive",
                                                  [TCC_STEP_COLLECTIVE] = "gather",
                                                  [TCC_STEP_RESULT] = "output"};
    FILE *out = j->o->facts;
    struct kn_call *calls;
    int n = kn_calls(j->ctx, q, &calls);
    double *ms = IR_NEWN(j->ctx, n + 1, double);
    for (int c = 0; c < n; c++)
        ms[c] = 1e3 * seconds_of_call(j, calls[c].step->lib);
    fputc('{', out);
    put_key(out, "name", q->name);
    fprintf(out, ",\"micros\":%d,\"stages\":[", q->micros);
    for (int l = 0; l < q->stages; l++) {
        fputs(l ? ",\n[" : "\n[", out);
        for (int i = 0; i < q->lists[l].n; i++) {
            const struct kn_step *s = &q->lists[l].at[i];
            bool call = s->kind == TCC_STEP_CALL, result = s->kind == TCC_STEP_RESULT;
            const char *name = call ? s->lib : result ? q->outputs[s->what].name : q->buffers[s->args[0]].name;
            fputs(i ? ",[" : "[", out);
            tcr_print_json(out, name ? name : "");
            fprintf(out, ",%.9g,%d,\"%s\",%d,%d]", call ? ms_of(calls, ms, l, s->lib) : 0, s->micro, kinds[s->kind],
                    call || result ? s->what : s->args[0], s->peer);
        }
        fputc(']', out);
    }
    fputs("]}", out);
}

/* -- All of it ----------------------------------------------------------------------------------------------------- */

static void put_times(struct job *j)
{
    FILE *out = j->o->facts;
    fputs("\"passes\":[", out);
    for (int i = 0; i < j->facts->passes.n; i++) {
        const struct pass_timing *t = &j->facts->passes.at[i];
        fputs(i ? "," : "", out);
        fprintf(out, "[\"%s\",%.6f,%d,%d,%lld]", t->name, t->ms, t->before, t->after, (long long)t->changes);
    }
    fputs("],\n\"laps\":[", out);
    for (int i = 0; i < j->nlaps; i++)
        fprintf(out, "%s[\"%s\",%.6f]", i ? "," : "", j->laps[i].what, j->laps[i].ms);
    fputs("],\n", out);
}

void facts_write(struct job *j)
{
    FILE *out = j->o->facts;
    const struct kn_program *p = j->module->program;
    struct op_counts graph = count_ops(j, false);
    fputc('{', out);
    put_key(out, "model", j->o->model);
    fputc(',', out);
    put_key(out, "target", j->target->name);
    fputs(",\"archs\":[", out);
    for (int i = 0; i < j->made.n; i++) {
        fputs(i ? "," : "", out);
        tcr_print_json(out, j->made.archs[i]);
    }
    fprintf(out, "],\"level\":%d,\"train\":%s,", j->o->level, j->o->train ? "true" : "false");
    put_ops(out, "source", &j->facts->source);
    put_ops(out, "graph", &graph);
    put_times(j);
    fprintf(out, "\"kernels\":%d,\"weight_bytes\":%llu,\"memories\":[", p->nkernels,
            (unsigned long long)p->weight_bytes);
    for (int m = 0; m < p->nmemories; m++) {
        fputs(m ? "," : "", out);
        tcr_print_json(out, p->memories[m].name);
    }
    fputs("],\n", out);
    put_weights(j);
    fputs("\"entries\":[", out);
    for (int e = 0; e < p->nentries; e++) {
        fputs(e ? ",\n" : "\n", out);
        put_entry(j, &p->entries[e]);
    }
    fputs("],\n\"pipes\":[", out);
    for (const struct kn_staged *q = j->module->staged; q; q = q->next) {
        put_staged(j, q);
        fputs(q->next ? "," : "", out);
    }
    fputs("]}\n", out);
}
