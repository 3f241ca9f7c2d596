/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines in dumps of the plan, as comments: values with their slots, calls, and each stage's tasks. */
#include "ir/ir.h"

static void print_values(FILE *out, int n, const int *list)
{
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%%%d", i ? ", " : "", list[i]);
}

static void print_task(FILE *out, const struct pipe *p, const struct pipe_task *t)
{
    switch (t->kind) {
    case TCC_TASK_CALL: fprintf(out, "call @%s micro %d", p->calls[t->what].func->name, t->micro); return;
    case TCC_TASK_SEND: fprintf(out, "send %%%d micro %d to stage %d", t->what, t->micro, t->peer); return;
    case TCC_TASK_RECV: fprintf(out, "recv %%%d micro %d from stage %d", t->what, t->micro, t->peer); return;
    case TCC_TASK_GATHER: fprintf(out, "gather %%%d of all stages in %%%d", t->what, t->peer); return;
    case TCC_TASK_OUTPUT: fprintf(out, "output %s micro %d", p->outputs[t->what].name, t->micro); return;
    }
}

void pipe_print(FILE *out, const struct pipe *p)
{
    static const char *const hows[] = {"mean", "sum", "concat", "stack"};
    fprintf(out, "; pipeline @%s: %d stages, %d microbatches\n", p->name, p->stages, p->micros);
    for (int i = 0; i < p->nvalues; i++) {
        const struct pipe_value *v = &p->values[i];
        fprintf(out, ";   %%%d = %s \"%s\" : ", i,
                v->space == TCC_PIPE_INPUT  ? "input"
                : v->space == TCC_PIPE_DIMS ? "sizes"
                                            : "slots",
                v->name);
        ir_print_type(out, v->type);
        if (v->space == TCC_PIPE_SLOT)
            fprintf(out, " x %d", v->slots);
        fputc('\n', out);
    }
    for (int i = 0; i < p->ncalls; i++) {
        fprintf(out, ";   stage %d: @%s(", p->calls[i].stage, p->calls[i].func->name);
        print_values(out, p->calls[i].nin, p->calls[i].in);
        fputs(") -> (", out);
        print_values(out, p->calls[i].nout, p->calls[i].out);
        fputs(")\n", out);
    }
    for (int i = 0; i < p->noutputs; i++)
        fprintf(out, ";   output \"%s\": %s of %%%d, from stage %d\n", p->outputs[i].name, hows[p->outputs[i].how],
                p->outputs[i].value, p->outputs[i].stage);
    for (int s = 0; s < p->stages; s++) {
        fprintf(out, ";   stage %d runs\n", s);
        for (int i = 0; i < p->tasks[s].n; i++) {
            fputs(";     ", out);
            print_task(out, p, &p->tasks[s].at[i]);
            fputc('\n', out);
        }
    }
}
