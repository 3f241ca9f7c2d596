/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stages do with the gradients that their microbatches have added up: each stage measures its own (averaged
 * over the copies of the model first), all stages exchange the two numbers, and each updates its own parameters. What
 * belongs to no stage (step count, loss scale) every process keeps and writes alike.
 *
 * With --accumulate=K, only every Kth call does so: train.micro, which all processes have, says which.
 */
#include "passes/parallel/stages_int.h"
#include "base/mutant.h"
#include "passes/util_int.h"

static struct ir_builder at_end(struct stages *x, struct ir_func *f)
{
    return (struct ir_builder){.ctx = x->ctx, .func = f, .block = f->body};
}

struct ir_func *stages_func(struct stages *x, const char *what, int stage)
{
    return ir_func_new(x->m, stage < 0 ? ir_internf(x->ctx, "%s.%s", x->name, what)
                                       : ir_internf(x->ctx, "%s.%s%d", x->name, what, stage));
}

/* The stage's parameters with their gradients. */
static struct train_param *stage_params(struct stages *x, struct ir_builder *b, int stage, int *n)
{
    struct ir_state **list = stages_params(x, stage, n);
    struct train_param *params = IR_NEWN(x->ctx, *n + 1, struct train_param);
    for (int i = 0; i < *n; i++)
        params[i] = (struct train_param){.state = list[i], .grad = ir_read_state(b, train_grad_state(x->t, list[i]))};
    return params;
}

/* Where there are `calls` calls' gradients in the sums: their mean. Owners multiply where they use them (--zero=2):
 * nobody else has any. */
static void mean_of_calls(struct stages *x, struct ir_builder *b, int calls, int n, struct train_param *params)
{
    for (int i = 0; i < n && calls > 1; i++) {
        if (train_zero_has(x->t->o, 2))
            params[i].scale = 1.0 / calls;
        else
            params[i].grad = ir_binary(b, IR_mul, params[i].grad, ir_constant_f(b, TCC_F32, 1.0 / calls));
    }
}

/* Copies of the model average their gradients, before these are measured; what owners have is the average. */
static bool average_over_copies(struct stages *x, struct ir_builder *b, int n, struct train_param *params)
{
    struct ir_state **states = IR_NEWN(x->ctx, n + 1, struct ir_state *);
    struct ir_value **grads = IR_NEWN(x->ctx, n + 1, struct ir_value *);
    if (!x->t->o->data_parallel || train_zero_has(x->t->o, 2) || !n)
        return true;
    for (int i = 0; i < n; i++) {
        states[i] = params[i].state;
        grads[i] = params[i].grad;
    }
    if (!train_parallel_gradients(b, x->t->o, n, states, grads))
        return false;
    for (int i = 0; i < n; i++) {
        params[i].grad = grads[i];
        if (!ir_write_state(b, train_grad_state(x->t, states[i]), ir_cast_to(b, grads[i], TCC_F32)))
            return false;
    }
    return true;
}

/* -- Every Kth call ------------------------------------------------------------------------------------------------ */

/* What runs in every Kth call only. */
struct boundary {
    struct pass_if at;
    struct ir_value *full, *now; /* is it the Kth call? calls with this one */
};

static void count_calls(struct stages *x, struct ir_builder *b, struct boundary *t)
{
    struct ir_value *done = ir_read_state(b, stages_counter(x));
    t->now = ir_binary(b, IR_add, done, ir_constant_i(b, TCC_I64, 1));
    t->full = ir_binary(b, IR_ge, t->now, ir_constant_i(b, TCC_I64, x->t->o->accumulate));
}

/* -- Functions ----------------------------------------------------------------------------------------------------- */

/* f32[2]: the largest gradient, the sum of squares. NULL after a diagnostic. */
static struct ir_value *measured(struct stages *x, struct ir_builder *b, int stage, int calls)
{
    struct optim_totals totals = {0};
    ir_expr one = ir_const(x->ctx, 1);
    int n;
    struct train_param *params = stage_params(x, b, stage, &n);
    mean_of_calls(x, b, calls, n, params);
    if (!average_over_copies(x, b, n, params) || !optim_measure(b, x->t->o, n, params, &totals))
        return NULL;
    if (!totals.squares)
        totals.squares = ir_constant_f(b, TCC_F32, 0);
    struct ir_value *both[] = {ir_reshape_to(b, totals.largest, 1, &one), ir_reshape_to(b, totals.squares, 1, &one)};
    return ir_concat(b, 2, both, 0);
}

static struct ir_func *make_measure(struct stages *x, int stage, int calls)
{
    struct ir_func *f = stages_func(x, "measure", stage);
    struct ir_builder b = at_end(x, f);
    struct ir_value *out;
    if (calls > 1) {
        struct boundary t;
        ir_expr two = ir_const(x->ctx, 2);
        count_calls(x, &b, &t);
        const ir_type result = ir_tensor_type(x->ctx, TCC_F32, 1, &two);
        if (!pass_begin_if(&b, t.full, 1, &result, &t.at))
            return NULL;
        struct ir_builder *other = &t.at.otherwise;
        struct ir_value *zeros = ir_expand_to(other, ir_constant_f(other, TCC_F32, 0), 1, &two);
        out = measured(x, &t.at.then, stage, calls);
        if (!out || !pass_end_if(&t.at, &out, &zeros))
            return NULL;
        out = t.at.node->out[0];
    } else {
        out = measured(x, &b, stage, calls);
    }
    return out && ir_return(&b, 1, &out, (const char *const[]){"totals"}) ? f : NULL;
}

/* From f32[stages, 2] */
static struct ir_value *column(struct stages *x, struct ir_builder *b, struct ir_value *all, int i, enum ir_op op)
{
    struct ir_value *v = ir_slice_axis(b, all, 1, ir_const(x->ctx, i), ir_const(x->ctx, 1));
    return ir_reduce_from(b, op, v, 0);
}

/* stage -1: what belongs to none. */
static bool updated(struct stages *x, struct ir_builder *b, struct ir_value *all, int stage, int calls,
                    struct ir_value **rate)
{
    int n = 0;
    struct train_param *params = stage < 0 ? NULL : stage_params(x, b, stage, &n);
    if (!x->t->o->data_parallel || train_zero_has(x->t->o, 2)) /* else the means have been written */
        mean_of_calls(x, b, calls, n, params);
    struct optim_totals t = {column(x, b, all, 0, IR_reduce_max),
                             column(x, b, all, 1, MUTANT(146, IR_reduce_sum, IR_reduce_max))};
    return optim_update_part(b, x->t->o, n, params, &t, stage < 0, rate);
}

static ir_type totals_type(struct stages *x)
{
    ir_expr dims[] = {ir_const(x->ctx, x->o->partitions), ir_const(x->ctx, 2)};
    return ir_tensor_type(x->ctx, TCC_F32, 2, dims);
}

static struct ir_func *make_update(struct stages *x, int stage, int calls)
{
    struct ir_func *f = stages_func(x, stage < 0 ? "count" : "update", stage);
    struct ir_value *all = ir_input_new(f, totals_type(x), "totals"), *rate;
    struct ir_builder b = at_end(x, f);
    if (calls > 1) {
        struct boundary t;
        struct ir_state *counter = stages_counter(x);
        count_calls(x, &b, &t);
        if (!pass_begin_if(&b, t.full, 0, NULL, &t.at) || !updated(x, &t.at.then, all, stage, calls, &rate) ||
            !pass_end_if(&t.at, NULL, NULL))
            return NULL;
        struct ir_value *zero = ir_constant_i(&b, TCC_I64, 0);
        if (stage < 0 && !ir_write_state(&b, counter, ir_select(&b, t.full, zero, t.now)))
            return NULL;
        return ir_return(&b, 0, NULL, NULL) ? f : NULL;
    }
    if (!updated(x, &b, all, stage, calls, &rate))
        return NULL;
    return ir_return(&b, stage == 0, &rate, (const char *const[]){"rate"}) ? f : NULL;
}

bool stages_make_updates(struct stages *x, int calls, struct stage_updates *u)
{
    *u = (struct stage_updates){IR_NEWN(x->ctx, x->o->partitions, struct ir_func *),
                                IR_NEWN(x->ctx, x->o->partitions, struct ir_func *), NULL};
    for (int s = 0; s < x->o->partitions; s++)
        if (!(u->measure[s] = make_measure(x, s, calls)) || !(u->update[s] = make_update(x, s, calls)))
            return false;
    return (u->count = make_update(x, -1, calls)) != NULL;
}

/* -- Calls --------------------------------------------------------------------------------------------------------- */

void stages_call_updates(struct stages *x, const struct stage_updates *u, struct stage_calls *c)
{
    ir_expr two = ir_const(x->ctx, 2);
    c->own = stages_value(x, "totals of the stage", ir_tensor_type(x->ctx, TCC_F32, 1, &two), TCC_SPACE_SLOT, 1);
    c->totals = stages_value(x, "totals", totals_type(x), TCC_SPACE_SLOT, 1);
    c->rate = stages_value(x, "rate", ir_scalar_type(x->ctx, TCC_F32), TCC_SPACE_SLOT, 1);
    c->measure = IR_NEWN(x->ctx, x->o->partitions, int);
    c->update = IR_NEWN(x->ctx, x->o->partitions, int);
    for (int s = 0; s < x->o->partitions; s++) {
        c->measure[s] = stages_call(x, u->measure[s], s, 0, NULL, 1, &c->own);
        c->update[s] = stages_call(x, u->update[s], s, 1, &c->totals, u->update[s]->body->last->nin, &c->rate);
    }
    c->last = stages_call(x, u->count, 0, 1, &c->totals, 0, NULL);
}

void stages_task_updates(struct stages *x, struct kn_staged *p, const struct stage_calls *c)
{
    for (int s = 0; s < p->stages; s++) {
        stages_add_call(x, p, s, c->measure[s], 0);
        struct kn_step *gather = stages_add_step(x, p, s, TCC_STEP_COLLECTIVE, c->own, 0);
        gather->what = TCC_ALL_GATHER;
        gather->nin = 1;
        gather->args[gather->nargs++] = c->totals;
        stages_add_call(x, p, s, c->update[s], 0);
    }
    stages_add_call(x, p, p->stages, c->last, 0);
}

struct ir_state *stages_counter(struct stages *x)
{
    return x->t->o->accumulate > 1 ? train_counter(x->t) : NULL;
}

/* -- Apply --------------------------------------------------------------------------------------------------------- */

/* The rate, of stage 0's update. */
bool stages_build_apply(struct stages *step, const struct stage_updates *u)
{
    struct stages x = {.t = step->t, .ctx = step->ctx, .m = step->m, .o = step->o, .name = "apply", .part = step->part};
    struct stage_updates own = *u;
    struct stage_calls c;
    if (x.t->o->accumulate > 1 && !stages_make_updates(&x, 1, &own))
        return false;
    stages_call_updates(&x, &own, &c);
    struct kn_stage_output *rate = IR_NEW(x.ctx, struct kn_stage_output);
    *rate = (struct kn_stage_output){"rate", ir_scalar_type(x.ctx, TCC_F32), c.rate, 0, TCC_COMBINE_SUM, 0};
    struct kn_staged *p = stages_new(&x, 1);
    p->noutputs = 1;
    p->outputs = rate;
    stages_task_updates(&x, p, &c);
    stages_add_step(&x, p, 0, TCC_STEP_RESULT, c.rate, 0);
    return true;
}
