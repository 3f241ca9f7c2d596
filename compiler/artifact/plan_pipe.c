/* SPDX-License-Identifier: Apache-2.0 */
/* plan_pipe.c - pipelines as the plan's tables: values, calls and each stage's tasks (runtime/abi.h, ir/pipe.h). */
#include "compiler/memory/budget_int.h"
#include "compiler/artifact/plan_int.h"

#include <string.h>

static uint32_t entry_of(const struct plan_writer *w, const struct ir_func *f)
{
    int e = 0;
    while (e < w->p->nentries && w->p->entries[e].func != f)
        e++;
    return (uint32_t)(artifact_nentries(w->p) + e);
}

static struct tcc_range tasks(struct plan_writer *w, const struct pipe *p)
{
    uint32_t *lists = IR_NEWN(w->ctx, 2 * p->stages + 1, uint32_t);
    for (int s = 0; s < p->stages; s++) {
        lists[2 * s] = (uint32_t)w->ptasks.n;
        lists[2 * s + 1] = (uint32_t)p->tasks[s].n;
        for (int i = 0; i < p->tasks[s].n; i++) {
            const struct pipe_task *t = &p->tasks[s].at[i];
            VEC_PUSH(w->ctx, w->ptasks,
                     (struct tcc_ptask){t->kind, (uint32_t)t->what, (uint32_t)t->micro, (uint32_t)t->peer});
        }
    }
    return plan_list(w, 2 * p->stages, lists);
}

static void write_pipe_tables(struct plan_writer *w, const struct pipe *p, struct tcc_ppipe *x)
{
    x->values = (struct tcc_range){(uint32_t)w->pvalues.n, (uint32_t)p->nvalues};
    for (int i = 0; i < p->nvalues; i++) {
        const struct pipe_value *v = &p->values[i];
        struct tcc_pvalue y = {.name = plan_string(w, v->name),
                               .dtype = v->type->dtype,
                               .space = v->space,
                               .input = (uint32_t)v->input,
                               .slots = (uint32_t)v->slots,
                               .rank = (uint32_t)v->type->rank,
                               .memory = v->on_device};
        y.dims = plan_expr_list(w, v->type->rank, v->type->dim);
        VEC_PUSH(w->ctx, w->pvalues, y);
    }
    x->calls = (struct tcc_range){(uint32_t)w->pcalls.n, (uint32_t)p->ncalls};
    for (int i = 0; i < p->ncalls; i++) {
        const struct pipe_call *c = &p->calls[i];
        struct tcc_pcall y = {.entry = entry_of(w, c->func), .stage = (uint32_t)c->stage};
        y.in = plan_int_list(w, c->nin, c->in);
        y.out = plan_int_list(w, c->nout, c->out);
        VEC_PUSH(w->ctx, w->pcalls, y);
    }
    x->outputs = (struct tcc_range){(uint32_t)w->poutputs.n, (uint32_t)p->noutputs};
    for (int i = 0; i < p->noutputs; i++)
        VEC_PUSH(w->ctx, w->poutputs,
                 (struct tcc_poutput){(uint32_t)p->outputs[i].value, (uint32_t)p->outputs[i].stage, p->outputs[i].how,
                                      (uint32_t)p->outputs[i].axis});
}

/* By stage; none where the sizes are unknown. */
static struct tcc_range peaks(struct plan_writer *w, const struct pipe *p)
{
    int *words = IR_NEWN(w->ctx, 4 * p->stages + 1, int);
    uint64_t bytes[2];
    for (int s = 0; s < p->stages; s++) {
        if (!budget_stage_bytes(w->p->module, p, s, &bytes[0], &bytes[1]))
            return (struct tcc_range){0, 0};
        memcpy(words + 4 * s, bytes, sizeof bytes);
    }
    return plan_int_list(w, 4 * p->stages, words);
}

void plan_write_pipe(struct plan_writer *w, const struct pipe *p)
{
    struct tcc_pentry e = {.name = plan_string(w, p->name), .arena = TCC_NO, .pipe = (uint32_t)w->pipes.n + 1};
    struct tcc_ppipe x = {.stages = (uint32_t)p->stages,
                          .micros = (uint32_t)p->micros,
                          .last = p->last < 0 ? TCC_NO : (uint32_t)p->last,
                          .accumulates = p->accumulates,
                          .counter = p->counter ? 1 + plan_state_number(w, p->counter->index) : 0};
    int *axes = IR_NEWN(w->ctx, p->ninputs + 1, int), *early = IR_NEWN(w->ctx, p->nearly + 1, int);
    e.inputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)p->ninputs};
    for (int i = 0; i < p->ninputs; i++) {
        VEC_PUSH(w->ctx, w->signatures, plan_signature(w, p->inputs[i].name, p->inputs[i].type));
        axes[i] = p->inputs[i].axis;
    }
    e.outputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)p->noutputs};
    for (int i = 0; i < p->noutputs; i++)
        VEC_PUSH(w->ctx, w->signatures, plan_signature(w, p->outputs[i].name, p->outputs[i].type));
    e.scratch = plan_expr(w, ir_const(w->ctx, 0));
    x.axes = plan_int_list(w, p->ninputs, axes);
    for (int i = 0; i < p->nearly; i++)
        early[i] = (int)plan_state_number(w, p->early[i]);
    x.early = plan_int_list(w, p->nearly, early);
    write_pipe_tables(w, p, &x);
    x.tasks = tasks(w, p);
    x.peaks = peaks(w, p);
    VEC_PUSH(w->ctx, w->entries, e);
    VEC_PUSH(w->ctx, w->pipes, x);
}
