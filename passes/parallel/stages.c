/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model's training, cut into stages that run microbatch by microbatch (--partitions).
 *
 * The model is cut first (partition.h), then each part is differentiated by itself: the gradient of what a part gives
 * is what the parts behind it send back. So nothing has to be found out about backward nodes, and what crosses is
 * known. The update follows the parameters (stage_update.c).
 *
 * Becomes: entry points in stages (ir/stages.h) @step, @eval, @grad, @apply, @init and @predict, whose calls are the
 * functions that are left in the module. @grad is @step without what comes behind its microbatches.
 */
#include "passes/parallel/stages_int.h"

#include <string.h>

int stages_value(struct stages *x, const char *name, ir_type type, enum tcc_space space, int index)
{
    enum tcc_dtype dtype = (enum tcc_dtype)type->dtype;
    VEC_PUSH(x->ctx, x->values,
             (struct kn_buffer){.name = name, .type = type, .dtype = dtype, .space = space, .index = index});
    return x->values.n - 1;
}

int stages_call(struct stages *x, struct ir_func *f, int stage, int nin, const int *in, int nout, const int *out)
{
    struct kn_step s = {.kind = TCC_STEP_CALL, .lib = f->name, .func = f, .nin = nin, .nargs = nin + nout};
    s.args = IR_NEWN(x->ctx, nin + nout + 1, int);
    for (int i = 0; i < nin + nout; i++)
        s.args[i] = i < nin ? in[i] : out[i - nin];
    VEC_PUSH(x->ctx, x->calls, (struct stage_call){s, stage});
    return x->calls.n - 1;
}

/* Puts the entry point behind the module's others. */
static void stages_link(struct stages *x, struct kn_staged *p)
{
    struct kn_staged **end = &x->m->staged;
    while (*end)
        end = &(*end)->next;
    *end = p;
}

struct kn_staged *stages_new(struct stages *x, int micros)
{
    struct kn_staged *p = IR_NEW(x->ctx, struct kn_staged);
    *p = (struct kn_staged){.name = x->name,
                            .stages = x->o->partitions,
                            .micros = micros,
                            .ninputs = x->inputs.n,
                            .noutputs = x->outputs.n,
                            .nbuffers = x->values.n,
                            .inputs = x->inputs.at,
                            .outputs = x->outputs.at,
                            .buffers = x->values.at,
                            .accumulates = x->training};
    p->lists = IR_NEWN(x->ctx, p->stages + 1, struct kn_steps);
    stages_link(x, p);
    return p;
}

static bool clean(struct ir_module *m)
{
    struct pass_options o = {.change_limit = -1};
    return pass_list(m, "clean", &o);
}

/* -- What is cut --------------------------------------------------------------------------------------------------- */

static const char *const hows[] = {"mean", "sum", "concat", "stack"};

/* NAME:how; returns the how, or -1, and cuts the name. */
static int how_of(struct ir_ctx *ctx, const char **name)
{
    const char *colon = strrchr(*name, ':');
    for (int i = 0; colon && i < 4; i++)
        if (!strcmp(colon + 1, hows[i])) {
            char *copy = ir_strdup(ctx, *name);
            copy[colon - *name] = 0;
            *name = ir_intern(ctx, copy);
            return i;
        }
    return -1;
}

/* The copy that is cut: its results are the scores, then the other outputs. */
static bool make_whole(struct stages *x, const struct ir_func *from, int *how)
{
    struct training *t = x->t;
    struct entry e = train_entry_new(t, ir_internf(x->ctx, "%s.whole", x->name), from);
    VEC(struct ir_value *) results = {0};
    VEC(const char *) names = {0};
    struct ir_value *scores = x->predicts ? NULL : train_entry_scores(&e);
    if (!scores && !x->predicts)
        return false;
    if (scores) {
        VEC_PUSH(x->ctx, results, scores);
        VEC_PUSH(x->ctx, names, "scores");
    }
    int n = x->training ? 0 : from->body->last->nin;
    while (x->training && t->step_outputs[n])
        n++;
    for (int i = 0; i < n; i++) {
        const char *name = x->training ? t->step_outputs[i] : ir_output_name(from, i);
        struct ir_value *v = x->training ? train_entry_value(&e, name) : e.results[i];
        how[i] = -1;
        if (x->predicts && !train_predicts(t, name))
            continue;
        if (!v && x->training) {
            how[i] = how_of(x->ctx, &name);
            v = train_entry_value(&e, name);
        }
        if (!v)
            return train_no_output(&e, "--step-outputs", name);
        if (!ir_is_tensor(v->type))
            return train_complain(t, "output '%s' is no tensor: a model in stages cannot give it", name);
        VEC_PUSH(x->ctx, results, v);
        VEC_PUSH(x->ctx, names, name);
    }
    x->whole = e.func;
    VEC_GIVE(names, x->names.at, x->names.n);
    return ir_return(&e.b, results.n, results.at, names.at) != NULL;
}

/* The first axis that goes with the batch; -1: none does. */
static int batch_axis(const struct stages *x, ir_type type)
{
    for (int d = 0; d < type->rank; d++)
        for (int i = 0; i < x->inputs.n; i++) {
            const struct kn_stage_input *in = &x->inputs.at[i];
            if (in->axis >= 0 && type->dim[d] == in->type->dim[in->axis])
                return d;
        }
    return -1;
}

static void add_inputs_and_outputs(struct stages *x, const int *how)
{
    const struct ir_block *b = x->whole->body;
    for (int i = 0; i < b->nparams; i++) {
        const char *name = x->whole->input_names[i];
        ir_type type = b->params[i]->type;
        VEC_PUSH(x->ctx, x->inputs, (struct kn_stage_input){name, type, train_split_axis(x->o, name, type)});
        stages_value(x, name, type, TCC_SPACE_INPUT, i);
    }
    int first = x->predicts ? 0 : 1;
    if (first) {
        ir_type loss = ir_scalar_type(x->ctx, TCC_F32);
        int v = stages_value(x, "loss", loss, TCC_SPACE_SLOT, 1);
        VEC_PUSH(x->ctx, x->outputs,
                 (struct kn_stage_output){"loss", loss, v, 0,
                                          x->t->loss.reduction == REDUCE_SUM ? TCC_COMBINE_SUM : TCC_COMBINE_MEAN, 0});
    }
    for (int i = first; i < b->last->nin; i++) {
        ir_type type = b->last->in[i].value->type;
        int axis = batch_axis(x, type);
        enum tcc_combine r = how[i - first] >= 0                         ? (enum tcc_combine)how[i - first]
                             : axis >= 0                                 ? TCC_COMBINE_CONCAT
                             : tcc_is_float((enum tcc_dtype)type->dtype) ? TCC_COMBINE_MEAN
                                                                         : TCC_COMBINE_STACK;
        int v = stages_value(x, x->names.at[i], type, TCC_SPACE_SLOT, 1);
        VEC_PUSH(x->ctx, x->outputs, (struct kn_stage_output){x->names.at[i], type, v, 0, r, axis > 0 ? axis : 0});
    }
}

/* -- The pipelines ------------------------------------------------------------------------------------------------- */

static bool build_segments(struct stages *x)
{
    x->nsegments = x->part->nsegments;
    x->segments = IR_NEWN(x->ctx, x->nsegments + 1, struct segment);
    x->grads = IR_NEWN(x->ctx, x->t->nparams + 1, struct ir_value *);
    for (int i = 0; i < x->outputs.n; i++) {
        struct ir_value *v = x->whole->body->last->in[i].value;
        x->outputs.at[i].stage = stages_segment_of(x, v) % x->o->partitions;
    }
    stages_find_cut_values(x);
    for (int s = x->nsegments - 1; s >= 0; s--)
        if (!stages_build_segment(x, s))
            return false;
    ir_func_remove(x->whole);
    return true;
}

static bool add_up(struct stages *x)
{
    for (int s = 0; s < x->nsegments; s++)
        if (!stages_add_up(x, s))
            return false;
    return true;
}

static bool halve_segments(struct stages *x)
{
    for (int s = 0; s < x->nsegments; s++) {
        struct train_recompute none = {0}, *remat = x->o->recompute ? &x->o->recompute[s % x->o->partitions] : &none;
        FILE *to = x->training ? x->o->memory_report : NULL;
        if (to)
            fprintf(to, "stage %d, of a microbatch:\n", s % x->o->partitions);
        if (x->training && (remat->parts || to))
            train_remat_part(x->segments[s].func, x->segments[s].nforward, remat, to);
        if (!stages_split_passes(x, s))
            return false;
    }
    return true;
}

/* State that is neither trained nor written: several stages may read it. */
static const bool *find_shared(const struct stages *x)
{
    int n = 0;
    for (const struct ir_state *s = x->m->states; s; s = s->next)
        n = s->index >= n ? s->index + 1 : n;
    bool *shared = IR_NEWN(x->ctx, n + 1, bool);
    for (int i = 0; i < n; i++)
        shared[i] = true;
    for (int i = 0; i < x->t->nparams; i++)
        shared[x->t->params[i]->index] = false;
    IR_EACH_NODE(w, x->whole->body) {
        const struct ir_state *s = w->op == IR_state_write ? ir_state_of(w) : NULL;
        if (s)
            shared[s->index] = false;
    }
    return shared;
}

static struct partition_options cutting(const struct stages *x)
{
    const struct train_split *o = x->o;
    struct pipeline_options pipeline = {0};
    pipeline_parse(x->ctx, o->schedule_of_stages, &pipeline);
    return (struct partition_options){.stages = o->partitions,
                                      .machine = x->t->o->machine,
                                      .chunks = pipeline.chunks,
                                      .memory_weight = o->optimize && !strcmp(o->optimize, "memory") ? 0.8 : 0.2,
                                      .training = true,
                                      .shared = find_shared(x),
                                      .map = o->map_text,
                                      .map_name = o->map,
                                      .default_stage = o->default_stage};
}

/* What the microbatches' calls write besides gradients: running statistics. A run that fails puts them back. */
static void find_early(struct stages *x, struct kn_staged *p)
{
    VEC(int) early = {0};
    struct kn_call *calls;
    int n = kn_calls(x->ctx, p, &calls);
    for (int c = 0; c < n; c++)
        IR_EACH_NODE(w, calls[c].step->func->body) {
            const struct ir_state *s = w->op == IR_state_write ? ir_state_of(w) : NULL;
            bool known = !s || (s->flags & IR_STATE_GRADIENT);
            for (int i = 0; s && i < early.n; i++)
                known |= early.at[i] == s->index;
            if (!known)
                VEC_PUSH(x->ctx, early, s->index);
        }
    VEC_GIVE(early, p->early, p->nearly);
}

/* The microbatches alone: kept until all else is in its place. */
static struct kn_staged *make_grad(struct stages *x, const struct kn_staged *step)
{
    struct kn_staged *p = IR_NEW(x->ctx, struct kn_staged);
    *p = *step;
    p->name = "grad";
    p->next = NULL;
    p->lists = IR_NEWN(x->ctx, p->stages + 1, struct kn_steps);
    for (int s = 0; s < p->stages; s++)
        for (int i = 0; i < step->lists[s].n; i++)
            VEC_PUSH(x->ctx, p->lists[s], step->lists[s].at[i]);
    return p;
}

bool stages_analyse(struct training *t, struct stages *x, int **how)
{
    int n = 0;
    *x = (struct stages){.t = t, .ctx = t->ctx, .m = t->m, .o = t->o->stages, .name = "step", .training = true};
    while (t->step_outputs[n])
        n++;
    *how = IR_NEWN(t->ctx, n + 1, int);
    if (!stages_check_batch(t, t->train, x->o) || !make_whole(x, t->train, *how) || !clean(t->m))
        return false;
    struct partition_options o = cutting(x);
    x->part = partition_analyse(x->whole, &o);
    return true;
}

/* Bytes a microbatch of step outputs that each stage sends: all stages get them. Means and sums go once a batch. */
static double *output_bytes(const struct stages *x)
{
    double *bytes = IR_NEWN(x->ctx, x->o->partitions + 1, double);
    const struct ir_node *end = x->whole->body->last;
    for (int i = 0; i < x->outputs.n; i++) {
        const struct kn_stage_output *out = &x->outputs.at[i];
        bool once = out->how == TCC_COMBINE_MEAN || out->how == TCC_COMBINE_SUM;
        int stage = stages_segment_of(x, end->in[i].value) % x->o->partitions;
        bytes[stage] +=
            pass_bytes(&x->part->sizes, out->type) * (x->o->partitions - 1) / (once ? x->o->microbatches : 1);
    }
    return bytes;
}

/* Parameters without a gradient in any stage; why is asked of what was cut, whose first result the loss is made of. */
static bool drop_unreached(struct training *t, struct stages *x)
{
    struct ir_node *end = x->whole->body->last;
    struct entry e = {
        .t = t, .func = x->whole, .b = {.ctx = x->ctx, .func = x->whole, .block = x->whole->body, .before = end}};
    struct whole_loss loss = {0};
    VEC_PUSH(x->ctx, loss.from, end->in[0].value);
    return train_drop_unreached(t, 1, &x->grads, &e, (const struct whole_loss *[]){&loss});
}

static bool build_step(struct training *t, struct stages *x, struct stage_updates *u, struct kn_staged **grad)
{
    int *how;
    if (!stages_analyse(t, x, &how) || !partition_place(x->part))
        return false;
    add_inputs_and_outputs(x, how);
    if (x->o->report)
        partition_report(x->part, output_bytes(x), x->o->report);
    if (!optim_states(t->m, t->o, 0, NULL) || !build_segments(x) || !drop_unreached(t, x) || !add_up(x) ||
        !optim_states(t->m, t->o, t->nparams, t->params) || !clean(t->m) || !halve_segments(x))
        return false;
    struct stage_calls c;
    if (!stages_make_updates(x, t->o->accumulate, u))
        return false;
    stages_call_updates(x, u, &c);
    struct kn_staged *p = stages_schedule(x);
    if (!p)
        return false;
    *grad = make_grad(x, p);
    find_early(x, *grad);
    p->early = (*grad)->early;
    p->nearly = (*grad)->nearly;
    p->counter = stages_counter(x);
    stages_task_updates(x, p, &c);
    return true;
}

/* The same stages for eval: nodes go where the step has put their state, else to the last stage that makes an
 * operand. */
static void place_by_state(struct partition *p)
{
    for (int i = 0; i < p->n; i++) {
        struct partition_item *it = &p->items[i];
        int stage = -1, before = 0;
        for (int k = 0; k < it->node->nin; k++) {
            const struct ir_value *v = it->node->in[k].value;
            const struct ir_state *s = partition_state_of(v);
            int from = v && v->def ? p->item_of[v->def->id] : -1;
            if (s && s->owner_stage)
                stage = s->owner_stage - 1;
            if (from >= 0 && p->items[from].stage > before)
                before = p->items[from].stage;
        }
        it->stage = stage >= 0 ? stage : before;
    }
}

/* @eval and @predict: forward passes over the stages of the step. */
static bool build_forward(struct training *t, const char *name, bool predicts)
{
    struct stages x = {.t = t, .ctx = t->ctx, .m = t->m, .o = t->o->stages, .name = name, .predicts = predicts};
    int *how = IR_NEWN(t->ctx, t->main->body->last->nin + 1, int);
    if ((t->main != t->train && !stages_check_batch(t, t->main, x.o)) || !make_whole(&x, t->main, how) || !clean(t->m))
        return false;
    if (!x.whole->body->last->nin) {
        ir_func_remove(x.whole);
        return true; /* the loss is all that the model gives */
    }
    if (predicts)
        train_drop_inputs(1, &x.whole);
    struct partition_options o = cutting(&x);
    o.training = false;
    x.part = partition_analyse(x.whole, &o);
    place_by_state(x.part);
    partition_number(x.part);
    add_inputs_and_outputs(&x, how);
    return build_segments(&x) && clean(t->m) && halve_segments(&x) && stages_schedule(&x) != NULL;
}

static bool build_init(struct training *t, struct partition *part)
{
    struct stages x = {.t = t, .ctx = t->ctx, .m = t->m, .o = t->o->stages, .name = "init", .part = part};
    struct kn_staged *p = stages_new(&x, 1);
    for (int s = -1; s < p->stages; s++) {
        struct ir_func *f = stages_func(&x, s < 0 ? "everywhere" : "stage", s);
        struct ir_builder b = {.ctx = x.ctx, .func = f, .block = f->body};
        int n = 0;
        struct ir_state **params = s < 0 ? NULL : stages_params(&x, s, &n);
        if (!train_init_states(&b, t, s + 1, n, params))
            return false;
        int call = stages_call(&x, f, s < 0 ? 0 : s, 0, NULL, 0, NULL);
        if (!ir_return(&b, 0, NULL, NULL))
            return false;
        stages_add_call(&x, p, s < 0 ? p->stages : s, call, 0);
    }
    return true;
}

/* -- Homes of state ------------------------------------------------------------------------------------------------ */

static void note_states(const struct ir_block *b, int stage, int *reader, int *writer)
{
    IR_EACH_NODE(n, b) {
        const struct ir_state *s = n->op == IR_state_version ? NULL : ir_state_of(n);
        if (s) {
            int *at = n->op == IR_state_read ? &reader[s->index] : &writer[s->index];
            *at = *at == 0 || *at == stage + 1 ? stage + 1 : -1; /* -1: several */
        }
        for (int g = 0; g < n->nregions; g++)
            note_states(n->regions[g], stage, reader, writer);
    }
}

/* What one stage alone uses is there only. */
static void settle_homes(struct training *t, const struct kn_staged *p)
{
    int n = 0;
    for (struct ir_state *s = t->m->states; s; s = s->next)
        n = s->index >= n ? s->index + 1 : n;
    int *reader = IR_NEWN(t->ctx, n + 1, int), *writer = IR_NEWN(t->ctx, n + 1, int);
    struct kn_call *calls;
    int ncalls = kn_calls(t->ctx, p, &calls);
    for (int c = 0; c < ncalls; c++) /* the last list's are written everywhere */
        note_states(calls[c].step->func->body, calls[c].list < p->stages ? calls[c].list : -2, reader, writer);
    for (struct ir_state *s = t->m->states; s; s = s->next) {
        int r = reader[s->index], w = writer[s->index];
        bool one = (r > 0 || w > 0) && r >= 0 && w >= 0 && (!r || !w || r == w);
        s->owner_stage = one ? (w ? w : r) : 0;
    }
}

bool train_stages(struct training *t)
{
    struct stages step;
    struct stage_updates updates;
    struct kn_staged *grad;
    ir_doing(t->ctx, "building", "partition");
    if (!clean(t->m) || !build_step(t, &step, &updates, &grad))
        return false;
    settle_homes(t, t->m->staged);
    if (!build_forward(t, "eval", false))
        return false;
    stages_link(&step, grad);
    return stages_build_apply(&step, &updates) && build_init(t, step.part) && build_forward(t, "predict", true);
}
