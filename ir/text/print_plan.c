/* SPDX-License-Identifier: Apache-2.0 */
/* print_plan.c - the text form of programs: buffers, entry points and their steps (doc/ir.md). */
#include <inttypes.h>

#include "ir/text/kernel_words_int.h"

const char *const kn_space_words[] = {"input",  "output", "arena", "weight", "state", "dynamic",
                                      "object", "alias",  "slot",  "sizes",  NULL};
const char *const kn_step_words[] = {"launch", "copy", "lib",        "bind", "dims",  "eval",    "alloc",
                                     "free",   "if",   "loop",       "box",  "unbox", "accum",   "stack",
                                     "check",  "ref",  "collective", "send", "recv",  "program", "parallel",
                                     "batch",  "call", "result",     "wait", NULL};
const char *const kn_queue_words[] = {"host", "compute", "copy_in", "copy_out", "communication", NULL};

static void print_ints(FILE *out, const char *word, int n, const int *v)
{
    fprintf(out, "%s(", word);
    for (int i = 0; v && i < n; i++)
        fprintf(out, "%s%d", i ? ", " : "", v[i]);
    fputc(')', out);
}

static void print_exprs(FILE *out, const char *word, int n, const ir_expr *e)
{
    if (!n)
        return;
    fprintf(out, " %s (", word);
    for (int i = 0; i < n; i++) {
        if (i)
            fputs(", ", out);
        if (e[i])
            ir_print_expr(out, e[i]);
        else
            fputc('_', out);
    }
    fputc(')', out);
}

static void print_expr(FILE *out, const char *word, ir_expr e)
{
    if (!e)
        return;
    fprintf(out, " %s ", word);
    ir_print_expr(out, e);
}

static void print_name(FILE *out, const char *word, const char *name)
{
    if (!name)
        return;
    fprintf(out, " %s ", word);
    ir_print_string(out, name);
}

void kn_print_buffer(FILE *out, const struct kn_buffer *b, int i, int indent)
{
    fprintf(out, "%*sbuffer %d %s %s ", indent, "", i, kn_space_words[b->space],
            b->dtype == TCC_NONE ? "none" : tcc_dtype_name(b->dtype));
    ir_print_type(out, b->type);
    if (b->layout) {
        fputs(" layout ", out);
        kn_print_layout(out, b->layout);
    }
    if (b->index)
        fprintf(out, " index %d", b->index);
    if (b->memory)
        fprintf(out, " memory %d", b->memory);
    print_expr(out, "bytes", b->bytes);
    print_expr(out, "offset", b->offset);
    if (b->first_step || b->last_step)
        fprintf(out, " steps %d..%d", b->first_step, b->last_step);
    uint64_t digest = b->weight ? ir_tensor_digest(b->weight) : b->digest;
    if (digest)
        fprintf(out, " digest %" PRIu64, digest);
    print_name(out, "name", b->name);
    fputc('\n', out);
}

static void print_step(FILE *out, const struct kn_step *s, int indent);

void kn_print_steps(FILE *out, const struct kn_steps *steps, int indent)
{
    for (int i = 0; i < steps->n; i++)
        print_step(out, &steps->at[i], indent);
}

void kn_print_global(FILE *out, const char *word, const char *name)
{
    fprintf(out, "%s @", word);
    if (name && ir_is_identifier(name))
        fputs(name, out);
    else
        ir_print_string(out, name ? name : "");
}

static void print_versions(FILE *out, const struct kn_step *s)
{
    for (int i = 0; i < s->nversions; i++)
        fprintf(out, "%s%d, %d, %d", i ? ", " : " versions (", s->versions[i].buffer, s->versions[i].reads,
                s->versions[i].makes);
    if (s->nversions)
        fputc(')', out);
}

static void print_step(FILE *out, const struct kn_step *s, int indent)
{
    fprintf(out, "%*s%s", indent, "", kn_step_words[s->kind]);
    if (s->kernel)
        kn_print_global(out, "", s->kernel->name);
    if (s->lib) {
        fputc(' ', out);
        ir_print_string(out, s->lib);
    }
    print_ints(out, " ", s->nargs, s->args);
    const struct {
        const char *word;
        int value;
    } numbers[] = {{"nin", s->nin},   {"what", s->what},   {"micro", s->micro},
                   {"peer", s->peer}, {"queue", s->queue}, {"event", s->event}};
    for (int i = 0; i < 6; i++) {
        if (numbers[i].value)
            fprintf(out, " %s %d", numbers[i].word, numbers[i].value);
    }
    print_exprs(out, "sizes", s->nsizes, s->sizes);
    print_exprs(out, "syms", s->nsyms, s->syms);
    for (int i = 0; i < s->nattrs; i++) {
        fputs(i ? ", " : " {", out);
        ir_print_attr(out, &s->attrs[i]);
    }
    if (s->nattrs)
        fputc('}', out);
    if (s->nwaits)
        print_ints(out, " waits ", s->nwaits, s->waits);
    print_versions(out, s);
    print_expr(out, "tiles", s->tiles);
    print_expr(out, "combining", s->combining);
    print_expr(out, "scratch", s->scratch);
    print_name(out, "node", s->node);
    print_name(out, "of", s->op);
    for (int r = 0; r < s->nregions; r++) {
        const struct kn_region *g = &s->regions[r];
        fputs(" do", out);
        print_ints(out, " ", g->nparams, g->params);
        print_ints(out, " ", g->nresults, g->results);
        print_ints(out, " ", g->exits ? g->nresults - (s->kind == TCC_STEP_LOOP) : 0, g->exits);
        fputs(" {\n", out);
        kn_print_steps(out, &g->steps, indent + 2);
        fprintf(out, "%*s}", indent, "");
    }
    fputc('\n', out);
}

/* == Symbols == */

static void collect_expr(void *user, ir_expr e)
{
    if (e)
        ir_collect_syms(user, e);
}

static void collect_steps(struct ir_syms *s, const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *step = &steps->at[i];
        for (int j = 0; j < step->nsizes; j++)
            collect_expr(s, step->sizes[j]);
        for (int j = 0; j < step->nsyms; j++)
            collect_expr(s, step->syms[j]);
        collect_expr(s, step->tiles);
        collect_expr(s, step->combining);
        collect_expr(s, step->scratch);
        for (int r = 0; r < step->nregions; r++)
            collect_steps(s, &step->regions[r].steps);
    }
}

void kn_collect_syms(struct ir_syms *s, const struct kn_program *p)
{
    for (int i = 0; i < p->nkernels; i++)
        kn_each_expr(p->kernels[i], collect_expr, s);
    for (int i = 0; i < p->nsyms; i++)
        collect_expr(s, p->syms[i]);
    for (int i = 0; i < p->nbuffers; i++) {
        ir_collect_type_syms(s, p->buffers[i].type);
        collect_expr(s, p->buffers[i].bytes);
        collect_expr(s, p->buffers[i].offset);
    }
    for (int i = 0; i < p->nentries; i++)
        collect_steps(s, &p->entries[i].steps);
}

/* == Entries == */

static void print_entry(FILE *out, const struct kn_program *p, const struct kn_entry *e)
{
    fputs("entry ", out);
    ir_print_string(out, e->name);
    print_ints(out, " ", e->ninputs, e->input_buffers);
    print_ints(out, " -> ", e->noutputs, e->output_buffers);
    print_expr(out, "arena", e->arena);
    print_exprs(out, "arenas", e->arenas ? p->nmemories - 1 : 0, e->arenas);
    print_expr(out, "peak", e->peak_live);
    fputs(" {\n", out);
    kn_print_steps(out, &e->steps, 2);
    fputs("}\n", out);
}

static void print_memories(FILE *out, const struct kn_program *p)
{
    for (int i = 0; i < p->nmemories; i++) {
        fprintf(out, "memory %d ", i);
        ir_print_string(out, p->memories[i].name);
        fputs(p->memories[i].shared ? " shared" : "", out);
        fputs(p->memories[i].pinned ? " pinned\n" : "\n", out);
    }
    for (int i = 0; i < p->nqueues; i++)
        fprintf(out, "queue %d %s memory %d\n", i, kn_queue_words[p->queues[i].kind], p->queues[i].memory);
}

void kn_print_program(FILE *out, const struct kn_program *p, bool kernels, bool plan)
{
    for (int i = 0; kernels && i < p->nkernels; i++)
        kn_print_kernel(out, p->kernels[i]);
    if (!plan)
        return;
    for (int i = 0; i < p->nsyms; i++) {
        fputs("level ", out);
        ir_print_expr(out, p->syms[i]);
        fprintf(out, " = %d\n", p->sym_level ? p->sym_level[i] : 0);
    }
    print_memories(out, p);
    for (int i = 0; i < p->nbuffers; i++)
        kn_print_buffer(out, &p->buffers[i], i, 0);
    for (int i = 0; i < p->nentries; i++)
        print_entry(out, p, &p->entries[i]);
}
