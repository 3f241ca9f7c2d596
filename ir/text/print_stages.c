/* SPDX-License-Identifier: Apache-2.0 */
/* print_stages.c - the text form of entry points that run in stages: inputs, outputs, the plan's buffers and steps
 * (doc/ir.md). */
#include "ir/text/kernel_words_int.h"

const char *const kn_result_words[] = {"mean", "sum", "concat", "stack", NULL};

static void print_head(FILE *out, const struct kn_staged *p, const struct ir_module *m)
{
    fputs("stages ", out);
    ir_print_string(out, p->name);
    fprintf(out, " %d micros %d", p->stages, p->micros);
    fputs(p->accumulates ? " accumulates" : "", out);
    if (p->counter)
        kn_print_global(out, " counter", p->counter->name);
    const char *between = " early";
    for (int i = 0; i < p->nearly; i++, between = ",")
        for (const struct ir_state *s = m->states; s; s = s->next)
            if (s->index == p->early[i])
                kn_print_global(out, between, s->name);
    fputs(" {\n", out);
}

static void print_value(FILE *out, const char *word, const char *name, ir_type type)
{
    fprintf(out, "  %s ", word);
    ir_print_string(out, name);
    fputc(' ', out);
    ir_print_type(out, type);
}

void kn_print_staged(FILE *out, const struct ir_module *m, const struct kn_staged *p)
{
    print_head(out, p, m);
    for (int i = 0; i < p->ninputs; i++) {
        print_value(out, "input", p->inputs[i].name, p->inputs[i].type);
        if (p->inputs[i].axis >= 0)
            fprintf(out, " axis %d", p->inputs[i].axis);
        fputc('\n', out);
    }
    for (int i = 0; i < p->noutputs; i++) {
        const struct kn_stage_output *o = &p->outputs[i];
        print_value(out, "output", o->name, o->type);
        fprintf(out, " %s", kn_result_words[o->how]);
        if (o->how == TCC_COMBINE_CONCAT)
            fprintf(out, " %d", o->axis);
        fprintf(out, " of %d stage %d\n", o->buffer, o->stage);
    }
    for (int i = 0; i < p->nbuffers; i++)
        kn_print_buffer(out, &p->buffers[i], i, 2);
    for (int l = 0; l <= p->stages; l++) {
        if (l == p->stages && !p->lists[l].n)
            break;
        fprintf(out, l < p->stages ? "  stage %d {\n" : "  last {\n", l);
        kn_print_steps(out, &p->lists[l], 4);
        fputs("  }\n", out);
    }
    fputs("}\n", out);
}

void kn_collect_staged_syms(struct ir_syms *s, const struct kn_staged *p)
{
    for (int i = 0; i < p->ninputs; i++)
        ir_collect_type_syms(s, p->inputs[i].type);
    for (int i = 0; i < p->nbuffers; i++)
        ir_collect_type_syms(s, p->buffers[i].type);
    for (int i = 0; i < p->noutputs; i++)
        ir_collect_type_syms(s, p->outputs[i].type);
}
