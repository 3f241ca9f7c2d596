/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stage does with its parameters' gradients microbatch by microbatch: it adds them up in grad.PARAM. With
 * --zero, what the copies of a stage divide among them is divided as in a step without stages (train/zero.c), among the
 * copies of that stage: its parameters are the list by which owners are found, the same in all of its functions. From 2
 * on a microbatch's gradients go to their owners, who add them up; at 3 each forward and each backward pass gets
 * parameters from their owners.
 */
#include "passes/parallel/stages_int.h"

static int stage_of(const struct stages *x, const struct ir_state *s)
{
    for (int i = 0; i < x->part->n; i++)
        for (int k = 0; k < x->part->items[i].node->nin; k++)
            if (partition_state_of(x->part->items[i].node->in[k].value) == s)
                return x->part->items[i].stage;
    return 0;
}

struct ir_state **stages_params(const struct stages *x, int stage, int *n)
{
    struct ir_state **list = IR_NEWN(x->ctx, x->t->nparams + 1, struct ir_state *);
    *n = 0;
    for (int i = 0; i < x->t->nparams; i++)
        if (stage_of(x, x->t->params[i]) == stage)
            list[(*n)++] = x->t->params[i];
    return list;
}

/* Of one parameter: what it adds to, and by what. */
struct addend {
    struct ir_state *state;
    struct ir_value *grad;
    double factor;
};

static bool add_one(struct ir_builder *b, void *user)
{
    const struct addend *a = user;
    struct ir_value *sum = ir_read_state(b, a->state), *grad = ir_cast_to(b, a->grad, TCC_F32);
    if (a->factor != 1)
        grad = ir_binary(b, IR_mul, grad, ir_constant_f(b, TCC_F32, a->factor));
    return ir_write_state(b, a->state, ir_binary(b, IR_add, sum, grad));
}

/* By the owners of gradients, of the list's n parameters; NULL: the segment has none of that one. */
static bool add_owned(struct stages *x, struct ir_builder *b, int n, struct ir_state *const *list,
                      struct ir_value *const *of, double factor)
{
    struct train_param *params = IR_NEWN(x->ctx, n + 1, struct train_param);
    struct ir_value **grads = IR_NEWN(x->ctx, n + 1, struct ir_value *), **owned;
    for (int i = 0; i < n; i++) {
        params[i].state = list[i];
        grads[i] = of[i];
    }
    if (!train_parallel_scaled(b, x->t->o, n, list, factor, grads) ||
        !train_parallel_is_owner(b, x->t->o, n, params, &owned))
        return false;
    for (int i = 0; i < n; i++)
        if (grads[i] &&
            !train_zero_if(b, owned[i], add_one, &(struct addend){train_grad_state(x->t, list[i]), grads[i], 1}))
            return false;
    return true;
}

bool stages_add_up(struct stages *x, int s)
{
    struct training *t = x->t;
    struct segment *seg = &x->segments[s];
    bool sum = t->loss.reduction == REDUCE_SUM && t->loss.kind != LOSS_output;
    double factor = sum ? 1 : 1.0 / x->o->microbatches;
    struct ir_builder b = {.ctx = x->ctx, .func = seg->func, .block = seg->func->body, .before = seg->func->body->last};
    int n;
    struct ir_state **list = stages_params(x, s % x->o->partitions, &n);
    struct ir_value **grads = IR_NEWN(x->ctx, n + 1, struct ir_value *);
    for (int k = 0; k < seg->grads.n; k++)
        for (int i = 0; i < n; i++)
            if (list[i] == seg->grads.at[k].param)
                grads[i] = seg->grads.at[k].grad;
    if (train_zero_has(t->o, 2))
        return !seg->grads.n || add_owned(x, &b, n, list, grads, factor);
    for (int i = 0; i < n; i++)
        if (grads[i] && !add_one(&b, &(struct addend){train_grad_state(t, list[i]), grads[i], factor}))
            return false;
    return true;
}

bool stages_gather(struct stages *x, int stage, struct ir_builder *b)
{
    int n;
    struct ir_state **list = stages_params(x, stage, &n);
    return !x->training || train_zero_gather(b, x->t->o, n, list);
}
