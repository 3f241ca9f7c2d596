/* SPDX-License-Identifier: Apache-2.0 */
/* print_pipe.c - the text form of pipelines: inputs, values with their slots, calls, outputs, and each stage's tasks
 * (doc/ir.md). */
#include "ir/text/kernel_words_int.h"

#include <string.h>

const char *const pipe_space_words[] = {"input", "slots", "sizes", NULL};
const char *const pipe_task_words[] = {"call", "send", "recv", "gather", "output", NULL};
const char *const pipe_reduce_words[] = {"mean", "sum", "concat", "stack", NULL};

static void print_values(FILE *out, int n, const int *list)
{
    fputc('(', out);
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%d", i ? ", " : "", list[i]);
    fputc(')', out);
}

static void print_global(FILE *out, const char *name)
{
    fputc('@', out);
    if (ir_is_identifier(name))
        fputs(name, out);
    else
        ir_print_string(out, name);
}

static void print_task(FILE *out, const struct pipe_task *t)
{
    fprintf(out, "    %s %d", pipe_task_words[t->kind], t->what);
    if (t->kind == TCC_TASK_GATHER)
        fprintf(out, " in %d\n", t->peer);
    else if (t->kind == TCC_TASK_SEND || t->kind == TCC_TASK_RECV)
        fprintf(out, " micro %d %s %d\n", t->micro, t->kind == TCC_TASK_SEND ? "to" : "from", t->peer);
    else
        fprintf(out, " micro %d\n", t->micro);
}

static void print_value(FILE *out, const struct pipe_value *v, int i)
{
    fprintf(out, "  value %d %s ", i, pipe_space_words[v->space]);
    if (v->space != TCC_PIPE_DIMS)
        fprintf(out, "%d ", v->space == TCC_PIPE_INPUT ? v->input : v->slots);
    ir_print_type(out, v->type);
    fputs(" name ", out);
    ir_print_string(out, v->name);
    fputs(v->on_device ? " device\n" : "\n", out);
}

static void print_output(FILE *out, const struct pipe_output *o)
{
    fputs("  output ", out);
    ir_print_string(out, o->name);
    fputc(' ', out);
    ir_print_type(out, o->type);
    fprintf(out, " %s", pipe_reduce_words[o->how]);
    if (o->how == TCC_PIPE_CONCAT)
        fprintf(out, " %d", o->axis);
    fprintf(out, " of %d stage %d\n", o->value, o->stage);
}

static void print_head(FILE *out, const struct pipe *p, const struct ir_module *m)
{
    fputs("stages ", out);
    ir_print_string(out, p->name);
    fprintf(out, " %d micros %d", p->stages, p->micros);
    fputs(p->accumulates ? " accumulates" : "", out);
    if (p->counter) {
        fputs(" counter ", out);
        print_global(out, p->counter->name);
    }
    const char *between = " early ";
    for (int i = 0; i < p->nearly; i++, between = ", ")
        for (const struct ir_state *s = m->states; s; s = s->next)
            if (s->index == p->early[i]) {
                fputs(between, out);
                print_global(out, s->name);
            }
    if (p->last >= 0)
        fprintf(out, " last %d", p->last);
    fputs(" {\n", out);
}

void pipe_print(FILE *out, const struct ir_module *m, const struct pipe *p)
{
    print_head(out, p, m);
    for (int i = 0; i < p->ninputs; i++) {
        fputs("  input ", out);
        ir_print_string(out, p->inputs[i].name);
        fputc(' ', out);
        ir_print_type(out, p->inputs[i].type);
        if (p->inputs[i].axis >= 0)
            fprintf(out, " axis %d", p->inputs[i].axis);
        fputc('\n', out);
    }
    for (int i = 0; i < p->nvalues; i++)
        print_value(out, &p->values[i], i);
    for (int i = 0; i < p->ncalls; i++) {
        const struct pipe_call *c = &p->calls[i];
        fprintf(out, "  call %d ", i);
        print_global(out, c->name);
        fprintf(out, " stage %d ", c->stage);
        print_values(out, c->nin, c->in);
        fputs(" -> ", out);
        print_values(out, c->nout, c->out);
        fputc('\n', out);
    }
    for (int i = 0; i < p->noutputs; i++)
        print_output(out, &p->outputs[i]);
    for (int s = 0; s < p->stages; s++) {
        fprintf(out, "  stage %d {\n", s);
        for (int i = 0; i < p->tasks[s].n; i++)
            print_task(out, &p->tasks[s].at[i]);
        fputs("  }\n", out);
    }
    fputs("}\n", out);
}

void pipe_collect_syms(struct ir_syms *s, const struct pipe *p)
{
    for (int i = 0; i < p->ninputs; i++)
        ir_collect_type_syms(s, p->inputs[i].type);
    for (int i = 0; i < p->nvalues; i++)
        ir_collect_type_syms(s, p->values[i].type);
    for (int i = 0; i < p->noutputs; i++)
        ir_collect_type_syms(s, p->outputs[i].type);
}

struct pipe *pipe_by_name(const struct ir_module *m, const char *name)
{
    for (struct pipe *p = m->pipes; p; p = p->next)
        if (!strcmp(p->name, name))
            return p;
    return NULL;
}
