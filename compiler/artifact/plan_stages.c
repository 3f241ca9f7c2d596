/* SPDX-License-Identifier: Apache-2.0 */
/* plan_stages.c - entry points in stages as the plan's tables: what the lists' steps say of microbatches, stages and
 * entry points becomes sizes and numbers (runtime/abi.h, ir/stages.h). */
#include "compiler/memory/budget_int.h"
#include "compiler/artifact/plan_int.h"

#include <string.h>

static int entry_of(const struct plan_writer *w, const struct ir_func *f)
{
    int e = 0;
    while (e < w->p->nentries && w->p->entries[e].func != f)
        e++;
    return artifact_nentries(w->p) + e;
}

/* The step as it is written, with buffers from number `first` on. */
static struct kn_step written(struct plan_writer *w, const struct kn_staged *p, const struct kn_step *s, int first)
{
    bool call = s->kind == TCC_STEP_CALL, message = s->kind == TCC_STEP_SEND || s->kind == TCC_STEP_RECV;
    struct kn_step x = *s;
    x.node = call ? s->lib : p->buffers[s->args[0]].name;
    x.what = call ? entry_of(w, s->func) : s->what;
    x.args = IR_NEWN(w->ctx, s->nargs + 1, int);
    for (int i = 0; i < s->nargs; i++)
        x.args[i] = first + s->args[i];
    x.nsizes = s->kind == TCC_STEP_COLLECTIVE ? 0 : 1 + message;
    x.sizes = IR_NEWN(w->ctx, 2, ir_expr);
    x.sizes[0] = ir_const(w->ctx, s->peer);
    x.sizes[message] = ir_const(w->ctx, s->micro);
    x.group = "pp";
    return x;
}

static struct tcc_range write_lists(struct plan_writer *w, const struct kn_staged *p, int first)
{
    struct tcc_range r = {(uint32_t)w->regions.n, (uint32_t)p->stages + 1};
    for (int l = 0; l <= p->stages; l++) {
        struct kn_steps list = {0};
        for (int i = 0; i < p->lists[l].n; i++)
            VEC_PUSH(w->ctx, list, written(w, p, &p->lists[l].at[i], first));
        VEC_PUSH(w->ctx, w->regions, (struct tcc_pregion){.steps = plan_steps(w, &list)});
    }
    return r;
}

static struct tcc_range write_buffers(struct plan_writer *w, const struct kn_staged *p)
{
    struct kn_buffer *list = IR_NEWN(w->ctx, p->nbuffers + 1, struct kn_buffer);
    for (int i = 0; i < p->nbuffers; i++) {
        list[i] = p->buffers[i];
        list[i].bytes = ir_mulc(w->ctx, ir_num_elements(w->ctx, list[i].type), tcc_dtype_bytes(list[i].dtype));
        list[i].memory = list[i].memory && w->p->nmemories > 1;
    }
    return plan_buffers(w, p->nbuffers, list);
}

/* By stage; none where the sizes are unknown. */
static struct tcc_range peaks(struct plan_writer *w, const struct kn_staged *p)
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

void plan_write_staged(struct plan_writer *w, const struct kn_staged *p)
{
    struct tcc_pentry e = {.name = plan_string(w, p->name), .arena = TCC_NO, .staged = (uint32_t)w->staged.n + 1};
    struct tcc_pstaged x = {.stages = (uint32_t)p->stages,
                            .micros = (uint32_t)p->micros,
                            .accumulates = p->accumulates,
                            .counter = p->counter ? 1 + plan_state_number(w, p->counter->index) : 0,
                            .buffers = write_buffers(w, p),
                            .results = {(uint32_t)w->results.n, (uint32_t)p->noutputs}};
    int *axes = IR_NEWN(w->ctx, p->ninputs + 1, int), *early = IR_NEWN(w->ctx, p->nearly + 1, int);
    e.inputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)p->ninputs};
    for (int i = 0; i < p->ninputs; i++) {
        VEC_PUSH(w->ctx, w->signatures, plan_signature(w, p->inputs[i].name, p->inputs[i].type));
        axes[i] = p->inputs[i].axis;
    }
    e.outputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)p->noutputs};
    for (int i = 0; i < p->noutputs; i++) {
        const struct kn_stage_output *o = &p->outputs[i];
        VEC_PUSH(w->ctx, w->signatures, plan_signature(w, o->name, o->type));
        VEC_PUSH(
            w->ctx, w->results,
            (struct tcc_presult){x.buffers.first + (uint32_t)o->buffer, (uint32_t)o->stage, o->how, (uint32_t)o->axis});
    }
    e.scratch = plan_expr(w, ir_const(w->ctx, 0));
    x.axes = plan_int_list(w, p->ninputs, axes);
    for (int i = 0; i < p->nearly; i++)
        early[i] = (int)plan_state_number(w, p->early[i]);
    x.early = plan_int_list(w, p->nearly, early);
    x.lists = write_lists(w, p, (int)x.buffers.first);
    x.peaks = peaks(w, p);
    VEC_PUSH(w->ctx, w->entries, e);
    VEC_PUSH(w->ctx, w->staged, x);
}
