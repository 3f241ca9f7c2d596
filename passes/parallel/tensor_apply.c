/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor parallel training: the module (tensor.h). Each function is rewritten for one of the ranks (tensor.c), the
 * calls of stages in an order in which the cuts of what a call reads are known; state variables become parts, and
 * so do the sizes by which owners of whole tensors are found (--zero).
 */
#include "passes/parallel/tensor_int.h"

#include <string.h>

/* -- Stages -------------------------------------------------------------------------------------------------------- */

/* Functions that stages call: several may call the same. */
struct call_cuts {
    const struct ir_func *f;
    struct sharding *out;
};
struct staged_rewriter {
    const struct tensor_plan *plan;
    ir_expr rank;
    VEC(struct call_cuts) done;
};

static const struct call_cuts *find_done(const struct staged_rewriter *r, const struct ir_func *f)
{
    for (int i = 0; i < r->done.n; i++)
        if (r->done.at[i].f == f)
            return &r->done.at[i];
    return NULL;
}

/* Values that must be whole: outputs, and what all stages tell each other. */
static bool *free_values(struct ir_ctx *ctx, const struct kn_staged *p)
{
    bool *free_ones = IR_NEWN(ctx, p->nbuffers + 1, bool);
    for (int i = 0; i < p->nbuffers; i++)
        free_ones[i] = p->buffers[i].space == TCC_SPACE_SLOT;
    for (int i = 0; i < p->noutputs; i++)
        free_ones[p->outputs[i].buffer] = false;
    for (int s = 0; s < p->stages; s++)
        for (int i = 0; i < p->lists[s].n; i++)
            for (int k = 0; p->lists[s].at[i].kind == TCC_STEP_COLLECTIVE && k < 2; k++)
                free_ones[p->lists[s].at[i].args[k]] = false;
    return free_ones;
}

static bool rewrite_call(struct staged_rewriter *r, struct kn_staged *p, const struct kn_step *c, const bool *free_ones,
                         struct sharding *cuts, bool *known)
{
    struct ir_ctx *ctx = r->plan->m->ctx;
    const struct call_cuts *done = find_done(r, c->func);
    if (!done) {
        int nout = c->nargs - c->nin;
        struct sharding *in = IR_NEWN(ctx, c->nin + 1, struct sharding), *out = IR_NEWN(ctx, nout + 1, struct sharding);
        bool *results = IR_NEWN(ctx, nout + 1, bool);
        for (int i = 0; i < c->nin; i++)
            in[i] = cuts[c->args[i]];
        for (int i = 0; i < nout; i++)
            results[i] = free_ones[c->args[c->nin + i]];
        if (!tensor_rewrite_func(c->func, r->plan, r->rank, in, results, out))
            return false;
        VEC_PUSH(ctx, r->done, (struct call_cuts){c->func, out});
        done = &r->done.at[r->done.n - 1];
    }
    for (int i = 0; i < c->nargs - c->nin; i++) {
        int b = c->args[c->nin + i];
        cuts[b] = done->out[i];
        known[b] = true;
        p->buffers[b].type = c->func->body->last->in[i].value->type;
    }
    return true;
}

/* Calls in an order in which each finds what it reads. */
static bool rewrite_staged(struct staged_rewriter *r, struct kn_staged *p)
{
    struct ir_ctx *ctx = r->plan->m->ctx;
    struct kn_call *calls;
    int n = kn_calls(ctx, p, &calls);
    bool *free_ones = free_values(ctx, p), *known = IR_NEWN(ctx, p->nbuffers + 1, bool),
         *ran = IR_NEWN(ctx, n + 1, bool);
    struct sharding *cuts = IR_NEWN(ctx, p->nbuffers + 1, struct sharding);
    memset(known, true, p->nbuffers + 1);
    for (int c = 0; c < n; c++)
        for (int i = calls[c].step->nin; i < calls[c].step->nargs; i++)
            known[calls[c].step->args[i]] = false;
    for (bool more = true; more;) {
        more = false;
        for (int c = 0; c < n; c++) {
            bool ready = !ran[c];
            for (int i = 0; ready && i < calls[c].step->nin; i++)
                ready = known[calls[c].step->args[i]];
            if (!ready)
                continue;
            ran[c] = more = true;
            if (!rewrite_call(r, p, calls[c].step, free_ones, cuts, known))
                return false;
        }
    }
    for (int c = 0; c < n; c++)
        if (!ran[c])
            return ir_diag(ctx, &(struct ir_where){0}, IR_D_BUG, "tensor parallel: call %s reads what nobody makes",
                           calls[c].step->lib),
                   false;
    return true;
}

/* -- Owners -------------------------------------------------------------------------------------------------------- */

/* The names of the tensors that ranks divide whole among themselves (--zero), which an is_owner in some function has, a
 * line each. */
static const char *names_of(const struct ir_block *b, const struct ir_attr *bytes)
{
    IR_EACH_NODE(n, b) {
        const struct ir_attr *x = n->op == IR_is_owner ? ir_attr(n, IR_ATTR_bytes) : NULL;
        if (x && x->n == bytes->n && !memcmp(x->ints, bytes->ints, (size_t)x->n * sizeof *x->ints))
            return ir_get_s(n, IR_ATTR_name, "");
        for (int r = 0; r < n->nregions; r++) {
            const char *names = names_of(n->regions[r], bytes);
            if (names)
                return names;
        }
    }
    return NULL;
}

/* Their sizes are those of parts: by these owners are found, here and where the tensors themselves are looked at.
 * Before any function is rewritten. */
static const int64_t *part_bytes(struct ir_module *m, const struct tensor_plan *plan, const struct ir_attr *bytes)
{
    const char *names = NULL;
    int64_t *list = IR_NEWN(m->ctx, bytes->n + 1, int64_t);
    for (struct ir_func *f = m->funcs; f && !names; f = f->next)
        names = names_of(f->body, bytes);
    memcpy(list, bytes->ints, (size_t)bytes->n * sizeof *list);
    for (int i = 0; names && i < bytes->n; i++) {
        size_t n = strcspn(names, "\n");
        for (const struct ir_state *s = m->states; s; s = s->next)
            if (strlen(s->name) == n && !memcmp(s->name, names, n) && plan->cuts[s->index].kind == SHARD_SPLIT)
                list[i] = (int64_t)pass_bytes(&(struct pass_sizes){0}, shard_type(plan, s->type, plan->cuts[s->index]));
        names += n + (names[n] != 0);
    }
    return list;
}

struct sized {
    struct ir_node *n;
    struct ir_attr bytes;
};
struct sized_list {
    VEC(struct sized) at;
};

static void find_sized(struct ir_ctx *ctx, struct ir_block *b, struct sized_list *list)
{
    IR_EACH_NODE(n, b) {
        if (ir_attr(n, IR_ATTR_bytes))
            VEC_PUSH(ctx, list->at, (struct sized){n, *ir_attr(n, IR_ATTR_bytes)});
        for (int r = 0; r < n->nregions; r++)
            find_sized(ctx, n->regions[r], list);
    }
}

static void resize_owned(struct ir_module *m, const struct tensor_plan *plan)
{
    struct sized_list list = {0};
    for (struct ir_func *f = m->funcs; f; f = f->next)
        find_sized(m->ctx, f->body, &list);
    for (int i = 0; i < list.at.n; i++)
        list.at.at[i].bytes.ints = part_bytes(m, plan, &list.at.at[i].bytes);
    for (int i = 0; i < list.at.n; i++)
        ir_set_attr(list.at.at[i].n, list.at.at[i].bytes);
}

/* -- State --------------------------------------------------------------------------------------------------------- */

/* What belongs to a parameter, optimizer.SLOT.PARAM, grad.PARAM, master.PARAM (train.h), is cut as it is: the one with
 * the longest such name. */
static const struct ir_state *parameter_of(const struct ir_module *m, const struct ir_state *s)
{
    const struct ir_state *best = NULL;
    size_t length = strlen(s->name), most = 0;
    for (const struct ir_state *p = m->states; p; p = p->next) {
        size_t n = strlen(p->name);
        if ((p->flags & IR_STATE_PARAM) && n > most && n < length && s->name[length - n - 1] == '.' &&
            !strcmp(s->name + length - n, p->name) && ir_same_dims(s->type, p->type)) {
            best = p;
            most = n;
        }
    }
    return best;
}

static struct tensor_plan *with_slots(const struct tensor_plan *chosen)
{
    struct ir_module *m = chosen->m;
    struct tensor_plan *plan = IR_NEW(m->ctx, struct tensor_plan);
    *plan = *chosen;
    for (const struct ir_state *s = m->states; s; s = s->next)
        plan->nstates = s->index >= plan->nstates ? s->index + 1 : plan->nstates;
    plan->cuts = IR_NEWN(m->ctx, plan->nstates + 1, struct sharding);
    for (const struct ir_state *s = m->states; s; s = s->next) {
        const struct ir_state *p = s->flags & (IR_STATE_OPTIMIZER | IR_STATE_GRADIENT) ? parameter_of(m, s) : s;
        if (p && p->index < chosen->nstates)
            plan->cuts[s->index] = chosen->cuts[p->index];
    }
    return plan;
}

bool tensor_apply(struct ir_module *m, const struct tensor_plan *chosen)
{
    struct tensor_plan *plan = with_slots(chosen);
    struct ir_expr_node const *rank = ir_sym_bounded(m->ctx, TENSOR_GROUP ".rank", 0, plan->parts - 1);
    struct staged_rewriter r = {.plan = plan, .rank = rank};
    VEC(struct ir_func *) funcs = {0};
    plan->m = m;
    ir_doing(m->ctx, "building", "tensor parallel");
    for (struct ir_func *f = m->funcs; f; f = f->next)
        VEC_PUSH(m->ctx, funcs, f);
    resize_owned(m, plan);
    for (struct ir_state *s = m->states; s; s = s->next) {
        struct sharding c = plan->cuts[s->index];
        if (c.kind != SHARD_SPLIT)
            continue;
        s->shard = (struct ir_shard){TENSOR_GROUP, c.axis, plan->parts, (int)ir_const_or(c.outer, 1),
                                     shard_padding(plan, s->type->dim[c.axis], c)};
        s->type = shard_type(plan, s->type, c);
    }
    ir_state_new(m, TENSOR_GROUP ".rank", ir_scalar_type(m->ctx, TCC_I64), NULL, IR_STATE_LOCAL)->sym = rank;
    if (plan->context) { /* each rank's part of the list of ranks: by it the artifact's readers know of how many */
        ir_type one = ir_tensor_type(m->ctx, TCC_I64, 1, (ir_expr[]){ir_const(m->ctx, 1)});
        struct ir_state *s = ir_state_new(m, TENSOR_GROUP ".parts", one, NULL, IR_STATE_LOCAL);
        s->shard = (struct ir_shard){TENSOR_GROUP, 0, plan->parts, 1, 0};
    }
    for (struct kn_staged *p = m->staged; p; p = p->next)
        if (!rewrite_staged(&r, p))
            return false;
    for (int i = 0; i < funcs.n; i++) {
        struct ir_func *f = funcs.at[i];
        struct sharding *out = IR_NEWN(m->ctx, f->body->last->nin + 1, struct sharding);
        if (!find_done(&r, f) && !tensor_rewrite_func(f, plan, rank, NULL, NULL, out))
            return false;
    }
    return true;
}
