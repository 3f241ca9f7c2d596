/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --dump-ir=memory: what a process takes that runs a training step, a line a stage: state by kind, the largest arena of
 * what it calls, slots of microbatches; on a device with a memory of its own, there. Sizes must be known. What copies
 * divide (--zero) is that of the copy that owns most: who owns what is found as the run-time library does it
 * (runtime/comm/comm.c), and buffers that owners alone have are then placed once more.
 */
#include "compiler/memory/budget_int.h"

#include <string.h>

struct figures {
    uint64_t params, gradients, optimizer, other, arena, slots;
};

/* -- Owners ------------------------------------------------------------------------------------------------------ */

struct owners {
    struct ir_ctx *ctx;
    int copies;
    VEC(ir_expr) from, to;
};

static void settle_list(struct owners *o, const struct ir_node *n)
{
    const struct ir_attr *bytes = ir_attr(n, IR_ATTR_bytes), *kept = ir_attr(n, IR_ATTR_kept);
    int64_t *load = IR_NEWN(o->ctx, o->copies + 1, int64_t);
    int *owner = IR_NEWN(o->ctx, bytes->n + 1, int), most = 0;
    for (int i = bytes->n - 1; i >= 0; i--) {
        for (int r = 1; r < o->copies; r++)
            owner[i] = load[r] < load[owner[i]] ? r : owner[i];
        load[owner[i]] += bytes->ints[i];
    }
    for (int r = 1; r < o->copies; r++)
        most = load[r] > load[most] ? r : most;
    for (int i = 0; i < kept->n; i++) {
        VEC_PUSH(o->ctx, o->from, kept->exprs[i]);
        VEC_PUSH(o->ctx, o->to, ir_const(o->ctx, owner[i] == most));
    }
}

static void find_lists(struct owners *o, const struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        if (n->op == IR_is_owner && ir_attr(n, IR_ATTR_bytes) && ir_attr(n, IR_ATTR_kept))
            settle_list(o, n);
        for (int g = 0; g < n->nregions; g++)
            find_lists(o, n->regions[g]);
    }
}

static ir_expr settled(const struct owners *o, ir_expr e)
{
    return e ? ir_subst(o->ctx, e, o->from.n, o->from.at, o->to.at) : NULL;
}

static bool settle_buffers(struct owners *o, struct ir_module *m, const struct pass_options *options)
{
    for (const struct ir_func *f = m->funcs; f; f = f->next)
        find_lists(o, f->body);
    for (int b = 0; b < m->program->nbuffers && o->from.n; b++)
        m->program->buffers[b].bytes = settled(o, m->program->buffers[b].bytes);
    return !o->from.n || pass_list(m, "memory", options);
}

bool budget_settle_owners(struct ir_module *m, const struct pass_options *options)
{
    struct owners all = {.ctx = m->ctx, .copies = 1};
    return settle_buffers(&all, m, options);
}

/* -- What is there ----------------------------------------------------------------------------------------------- */

/* Is the variable looked at by an entry point's steps? Gradients that a step makes for itself have no memory between
 * calls. */
static bool uses(const struct kn_program *p, const struct kn_steps *steps, const struct ir_state *s)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *x = &steps->at[i];
        for (int a = 0; a < x->nargs; a++) {
            int b = x->args[a] < 0 ? -1 : kn_storage(p->buffers, x->args[a]);
            if (b >= 0 && p->buffers[b].space == TCC_SPACE_STATE && p->buffers[b].index == s->index)
                return true;
        }
        for (int r = 0; r < x->nregions; r++)
            if (uses(p, &x->regions[r].steps, s))
                return true;
    }
    return false;
}

/* By entry point: does the stage call it? */
static bool *find_called(const struct ir_module *m, int stage)
{
    const struct kn_program *g = m->program;
    bool *called = IR_NEWN(m->ctx, g->nentries + 1, bool);
    struct kn_call *calls;
    int n = m->staged ? kn_calls(m->ctx, m->staged, &calls) : 0;
    for (int e = 0; e < g->nentries; e++) {
        called[e] = !m->staged && !strcmp(g->entries[e].name, "step");
        for (int c = 0; c < n; c++)
            called[e] |= (calls[c].list == stage || calls[c].list == m->staged->stages) &&
                         calls[c].step->func == g->entries[e].func;
    }
    return called;
}

static bool add_state(const struct owners *o, const struct ir_module *m, const struct ir_state *s, int stage,
                      const bool *called, struct figures *f)
{
    const struct kn_program *p = m->program;
    int64_t bytes, here = 1;
    bool used = false;
    for (int e = 0; e < p->nentries && !used; e++)
        used = called[e] && uses(p, &p->entries[e].steps, s);
    if (!used || (s->owner_stage && s->owner_stage != stage + 1) || (s->on_host && p->nmemories > 1))
        return true;
    if (s->owner && !ir_is_const(settled(o, s->owner), &here))
        return false;
    if (!ir_is_const(ir_num_elements(o->ctx, s->type), &bytes))
        return false;
    bytes *= here * tcc_dtype_bytes((enum tcc_dtype)s->type->dtype);
    *(s->flags & IR_STATE_PARAM       ? &f->params
      : s->flags & IR_STATE_GRADIENT  ? &f->gradients
      : s->flags & IR_STATE_OPTIMIZER ? &f->optimizer
                                      : &f->other) += (uint64_t)bytes;
    return true;
}

static bool measure(const struct owners *o, const struct ir_module *m, int stage, struct figures *f)
{
    const struct kn_program *p = m->program;
    int64_t bytes;
    const bool *called = find_called(m, stage);
    *f = (struct figures){0};
    for (int e = 0; e < p->nentries; e++) {
        ir_expr arena = budget_arena(p, &p->entries[e]);
        if (!called[e])
            continue;
        if (!arena || !ir_is_const(arena, &bytes))
            return false;
        f->arena = (uint64_t)bytes > f->arena ? (uint64_t)bytes : f->arena;
    }
    for (const struct ir_state *s = m->states; s; s = s->next)
        if (!add_state(o, m, s, stage, called, f))
            return false;
    return !m->staged || budget_slots(o->ctx, m->staged, stage, m->program->nmemories > 1, &f->slots);
}

bool figures_print(struct ir_module *m, const struct pass_options *options, int copies, FILE *out)
{
    struct owners o = {.ctx = m->ctx, .copies = copies > 1 ? copies : 1};
    if (!settle_buffers(&o, m, options))
        return false;
    for (int s = 0; s < (m->staged ? m->staged->stages : 1); s++) {
        struct figures f;
        if (!measure(&o, m, s, &f)) {
            struct ir_where where = {.file = m->name};
            return ir_error(
                m->ctx, &where,
                "--dump-ir=memory requires known sizes: specialise the dynamic dimensions with --dim or --shape");
        }
        fprintf(out, "stage %d params %llu gradients %llu optimizer %llu other %llu arena %llu slots %llu\n", s,
                (unsigned long long)f.params, (unsigned long long)f.gradients, (unsigned long long)f.optimizer,
                (unsigned long long)f.other, (unsigned long long)f.arena, (unsigned long long)f.slots);
    }
    return true;
}
