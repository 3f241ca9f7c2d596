/* SPDX-License-Identifier: Apache-2.0 */
/* plan_pipe.c - pipelines as the plan's tables: their values are buffers, each stage's tasks a list of steps
 * (runtime/abi.h, ir/pipe.h). */
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

/* What the steps of a pipeline's lists are made of. */
struct lists {
    struct plan_writer *w;
    const struct pipe *p;
    uint32_t first;          /* its values among the plan's buffers */
    struct tcc_pstep *calls; /* as they are made for microbatch 0 */
    uint32_t group;
};

static struct tcc_range constants(struct plan_writer *w, int n, const int *v)
{
    ir_expr e[2];
    for (int i = 0; i < n; i++)
        e[i] = ir_const(w->ctx, v[i]);
    return plan_expr_list(w, n, e);
}

static struct tcc_pstep new_step(const struct lists *l, enum tcc_step_kind kind, int what, const char *name, int nin,
                                 int n, const int *values)
{
    int *args = IR_NEWN(l->w->ctx, n + 1, int);
    for (int i = 0; i < n; i++)
        args[i] = (int)l->first + values[i];
    return (struct tcc_pstep){.kind = kind,
                              .what = (uint32_t)what,
                              .node = plan_string(l->w, name),
                              .nin = (uint32_t)nin,
                              .flops = TCC_NO,
                              .args = plan_int_list(l->w, n, args),
                              .group = l->group,
                              .tiles = TCC_NO,
                              .scratch = TCC_NO,
                              .combining = TCC_NO};
}

/* The calls' operands are listed once: those of a call's microbatches differ in sizes alone. */
static void make_calls(struct lists *l)
{
    l->calls = IR_NEWN(l->w->ctx, l->p->ncalls + 1, struct tcc_pstep);
    for (int c = 0; c < l->p->ncalls; c++) {
        const struct pipe_call *x = &l->p->calls[c];
        int *values = IR_NEWN(l->w->ctx, x->nin + x->nout + 1, int);
        for (int i = 0; i < x->nin + x->nout; i++)
            values[i] = i < x->nin ? x->in[i] : x->out[i - x->nin];
        l->calls[c] =
            new_step(l, TCC_STEP_CALL, (int)entry_of(l->w, x->func), x->name, x->nin, x->nin + x->nout, values);
        l->calls[c].sizes = constants(l->w, 1, (int[]){0});
    }
}

static struct tcc_pstep step_of(const struct lists *l, const struct pipe_task *t)
{
    const struct pipe_value *v = l->p->values;
    const struct pipe_output *o = &l->p->outputs[t->what];
    struct tcc_pstep s;
    switch (t->kind) {
    case TCC_TASK_CALL:
        s = l->calls[t->what];
        s.sizes = constants(l->w, 1, &t->micro);
        return s;
    case TCC_TASK_GATHER:
        return new_step(l, TCC_STEP_COLLECTIVE, TCC_ALL_GATHER, v[t->what].name, 1, 2, (int[]){t->what, t->peer});
    case TCC_TASK_OUTPUT:
        s = new_step(l, TCC_STEP_RESULT, t->what, v[o->value].name, 1, 1, &o->value);
        s.sizes = constants(l->w, 1, &t->micro);
        return s;
    default:
        s = new_step(l, t->kind == TCC_TASK_SEND ? TCC_STEP_SEND : TCC_STEP_RECV, 0, v[t->what].name, 0, 1, &t->what);
        s.sizes = constants(l->w, 2, (int[]){t->peer, t->micro});
        return s;
    }
}

/* Each stage's list, and the last call's. */
static struct tcc_range write_lists(struct lists *l)
{
    const struct pipe *p = l->p;
    struct tcc_range r = {(uint32_t)l->w->regions.n, (uint32_t)p->stages + 1};
    make_calls(l);
    for (int s = 0; s < p->stages; s++) {
        struct tcc_pregion x = {.steps = {(uint32_t)l->w->steps.n, (uint32_t)p->tasks[s].n}};
        for (int i = 0; i < p->tasks[s].n; i++)
            VEC_PUSH(l->w->ctx, l->w->steps, step_of(l, &p->tasks[s].at[i]));
        VEC_PUSH(l->w->ctx, l->w->regions, x);
    }
    VEC_PUSH(l->w->ctx, l->w->regions, (struct tcc_pregion){.steps = {(uint32_t)l->w->steps.n, p->last >= 0}});
    if (p->last >= 0)
        VEC_PUSH(l->w->ctx, l->w->steps, l->calls[p->last]);
    return r;
}

static struct tcc_range write_values(struct plan_writer *w, const struct pipe *p)
{
    static const uint32_t spaces[] = {
        [TCC_PIPE_INPUT] = TCC_SPACE_INPUT, [TCC_PIPE_SLOT] = TCC_SPACE_SLOT, [TCC_PIPE_DIMS] = TCC_SPACE_SIZES};
    struct tcc_range r = {(uint32_t)w->buffers.n, (uint32_t)p->nvalues};
    for (int i = 0; i < p->nvalues; i++) {
        const struct pipe_value *v = &p->values[i];
        struct tcc_pbuffer y = {.name = plan_string(w, v->name),
                                .dtype = v->type->dtype,
                                .space = spaces[v->space],
                                .index = (uint32_t)(v->space == TCC_PIPE_INPUT ? v->input : v->slots),
                                .rank = (uint32_t)v->type->rank,
                                .offset = TCC_NO,
                                .bytes = plan_expr(w, ir_mulc(w->ctx, ir_num_elements(w->ctx, v->type),
                                                              tcc_dtype_bytes((enum tcc_dtype)v->type->dtype))),
                                .memory = v->on_device && w->memories.n > 1};
        y.dims = plan_expr_list(w, v->type->rank, v->type->dim);
        VEC_PUSH(w->ctx, w->buffers, y);
    }
    return r;
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
    struct tcc_pentry e = {.name = plan_string(w, p->name), .arena = TCC_NO, .staged = (uint32_t)w->staged.n + 1};
    struct tcc_pstaged x = {.stages = (uint32_t)p->stages,
                            .micros = (uint32_t)p->micros,
                            .accumulates = p->accumulates,
                            .counter = p->counter ? 1 + plan_state_number(w, p->counter->index) : 0,
                            .buffers = write_values(w, p),
                            .results = {(uint32_t)w->results.n, (uint32_t)p->noutputs}};
    struct lists l = {.w = w, .p = p, .first = x.buffers.first, .group = plan_group(w, "pp")};
    int *axes = IR_NEWN(w->ctx, p->ninputs + 1, int), *early = IR_NEWN(w->ctx, p->nearly + 1, int);
    e.inputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)p->ninputs};
    for (int i = 0; i < p->ninputs; i++) {
        VEC_PUSH(w->ctx, w->signatures, plan_signature(w, p->inputs[i].name, p->inputs[i].type));
        axes[i] = p->inputs[i].axis;
    }
    e.outputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)p->noutputs};
    for (int i = 0; i < p->noutputs; i++) {
        const struct pipe_output *o = &p->outputs[i];
        VEC_PUSH(w->ctx, w->signatures, plan_signature(w, o->name, o->type));
        VEC_PUSH(w->ctx, w->results,
                 (struct tcc_presult){l.first + (uint32_t)o->value, (uint32_t)o->stage, o->how, (uint32_t)o->axis});
    }
    e.scratch = plan_expr(w, ir_const(w->ctx, 0));
    x.axes = plan_int_list(w, p->ninputs, axes);
    for (int i = 0; i < p->nearly; i++)
        early[i] = (int)plan_state_number(w, p->early[i]);
    x.early = plan_int_list(w, p->nearly, early);
    x.lists = write_lists(&l);
    x.peaks = peaks(w, p);
    VEC_PUSH(w->ctx, w->entries, e);
    VEC_PUSH(w->ctx, w->staged, x);
}
