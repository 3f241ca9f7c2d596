/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training transformation: from @main and @train to @step, @eval, @grad, @apply and @init (train.h).
 *
 * Each entry point is a copy of the model's function with the loss, the gradients (grad.h) and the update (optim*.c)
 * built behind it. State is written at a function's end only, after all that may fail on bad data: a label out of range
 * is a failing gather of the forward pass, and leaves every state variable as it was.
 */
#include "passes/train/entry_int.h"

#include "passes/util_int.h"

/* -- Gradients ----------------------------------------------------------------------------------------------------- */

struct ir_value *train_read_of(struct entry *e, struct ir_state *s)
{
    IR_EACH_NODE(n, e->func->body) {
        if (n->op == IR_state_read && ir_state_of(n) == s)
            return n->out[0];
    }
    struct ir_builder at = e->b;
    at.before = e->func->body->first;
    return ir_read_state(&at, s);
}

static bool build_gradients(struct entry *e, const struct whole_loss *w, struct ir_value **grads)
{
    struct training *t = e->t;
    struct ir_value **reads = IR_NEWN(t->ctx, t->nparams, struct ir_value *);
    for (int i = 0; i < t->nparams; i++)
        reads[i] = train_read_of(e, t->params[i]);
    return grad_build(&e->b, w->from.n, w->from.at, w->seeds.at, t->nparams, reads, grads);
}

struct ir_state *train_grad_state(struct training *t, const struct ir_state *param)
{
    const char *name = ir_internf(t->ctx, "grad.%s", param->name);
    struct ir_state *s = ir_state_by_name(t->m, name);
    if (s)
        return s;
    s = ir_state_new(t->m, name, ir_with_dtype(t->ctx, param->type, TCC_F32), NULL, IR_STATE_GRADIENT);
    s->owner = train_zero_has(t->o, 2) ? train_zero_symbol(t->ctx, param->name) : NULL;
    return s;
}

static bool update(struct ir_builder *b, struct training *t, struct ir_value **grads, struct ir_value **rate)
{
    struct train_param *params = IR_NEWN(t->ctx, t->nparams, struct train_param);
    for (int i = 0; i < t->nparams; i++)
        params[i] = (struct train_param){.state = t->params[i], .grad = grads[i]};
    return optim_update(b, t->o, t->nparams, params, rate);
}

struct ir_state *train_counter(struct training *t)
{
    struct ir_state *s = ir_state_by_name(t->m, "train.micro");
    return s ? s
             : ir_state_new(t->m, "train.micro", ir_scalar_type(t->ctx, TCC_I64), ir_tensor_scalar_i(TCC_I64, 0),
                            IR_STATE_OPTIMIZER);
}

/* if (condition) update(sums / K); sums NULL: the means are what owners have in grad.* */
static bool update_if(struct entry *e, struct ir_value *condition, struct ir_value **sums)
{
    struct training *t = e->t;
    struct ir_value **means = IR_NEWN(t->ctx, t->nparams, struct ir_value *), *rate;
    struct pass_if full;
    struct ir_builder *then = &full.then;
    if (!pass_begin_if(&e->b, condition, 0, NULL, &full))
        return false;
    for (int i = 0; i < t->nparams; i++)
        means[i] = sums ? ir_binary(then, IR_mul, sums[i], ir_constant_f(then, TCC_F32, 1.0 / t->o->accumulate))
                        : ir_read_state(then, train_grad_state(t, t->params[i]));
    return !(sums && !train_parallel_gradients(then, t->o, t->nparams, t->params, means)) &&
           update(then, t, means, &rate) && pass_end_if(&full, NULL, NULL);
}

/* One gradient that its owner keeps: it adds to what it has, or begins anew. */
struct kept_grad {
    struct ir_state *state;
    struct ir_value *grad, *first; /* first: bool[]: begin? NULL: always */
};

static bool keep_grad(struct ir_builder *then, void *user)
{
    const struct kept_grad *k = user;
    struct ir_value *grad = ir_cast_to(then, k->grad, TCC_F32);
    if (k->first)
        grad = ir_select(then, k->first, grad, ir_binary(then, IR_add, ir_read_state(then, k->state), grad));
    return ir_write_state(then, k->state, grad);
}

/* Gradients are averaged, times `scale`, and kept by their owners in grad.* */
static bool keep_grads(struct entry *e, struct ir_value **grads, double scale, struct ir_value *first)
{
    struct training *t = e->t;
    struct train_param *params = IR_NEWN(t->ctx, t->nparams, struct train_param);
    struct ir_value **owned;
    for (int i = 0; i < t->nparams; i++)
        params[i].state = t->params[i];
    if (!train_parallel_scaled(&e->b, t->o, t->nparams, t->params, scale, grads) ||
        !train_zero_gather(&e->b, t->o, t->nparams, t->params) ||
        !train_parallel_is_owner(&e->b, t->o, t->nparams, params, &owned))
        return false;
    for (int i = 0; i < t->nparams; i++)
        if (!train_zero_if(&e->b, owned[i], keep_grad,
                           &(struct kept_grad){train_grad_state(t, t->params[i]), grads[i], first}))
            return false;
    return true;
}

/* K calls add their gradients up in float32; the Kth updates with the mean. Where owners keep gradients (--zero=2),
 * each call's are averaged, and a Kth of that is added. */
static bool accumulate(struct entry *e, struct ir_value **grads)
{
    struct training *t = e->t;
    struct ir_builder *b = &e->b;
    struct ir_state *micro = train_counter(t);
    struct ir_value *done = ir_read_state(b, micro);
    struct ir_value *first = ir_binary(b, IR_eq, done, ir_constant_i(b, TCC_I64, 0));
    struct ir_value *now = ir_binary(b, IR_add, done, ir_constant_i(b, TCC_I64, 1));
    struct ir_value *full = ir_binary(b, IR_ge, now, ir_constant_i(b, TCC_I64, t->o->accumulate));
    if (train_zero_has(t->o, 2))
        return keep_grads(e, grads, 1.0 / t->o->accumulate, first) &&
               ir_write_state(b, micro, ir_select(b, full, ir_constant_i(b, TCC_I64, 0), now)) &&
               update_if(e, full, NULL);
    for (int i = 0; i < t->nparams; i++) {
        struct ir_state *s = train_grad_state(t, t->params[i]);
        grads[i] = ir_cast_to(b, grads[i], TCC_F32);
        grads[i] = ir_select(b, first, grads[i], ir_binary(b, IR_add, ir_read_state(b, s), grads[i]));
    }
    for (int i = 0; i < t->nparams; i++)
        if (!ir_write_state(b, train_grad_state(t, t->params[i]), grads[i]))
            return false;
    return ir_write_state(b, micro, ir_select(b, full, ir_constant_i(b, TCC_I64, 0), now)) && update_if(e, full, grads);
}

/* -- Entry points -------------------------------------------------------------------------------------------------- */

/* What forward and backward pass leave in a version's function. */
struct backward {
    struct whole_loss loss;
    struct ir_value **grads;
};

/* The loss, each element's where the loss has them, then what --step-outputs names. */
static bool end_with_outputs(struct entry *e, const struct whole_loss *w)
{
    int n = 0, count = 0;
    struct ir_value *loss = train_parallel_mean(&e->b, e->t->o, w->value);
    if (!loss)
        return false;
    while (e->t->step_outputs[count])
        count++;
    struct ir_value **values = IR_NEWN(e->t->ctx, count + 2, struct ir_value *);
    const char **names = IR_NEWN(e->t->ctx, count + 2, const char *);
    values[n] = loss;
    names[n++] = "loss";
    if (w->each) {
        values[n] = w->each;
        names[n++] = "losses";
    }
    for (int i = 0; i < count; i++, n++) {
        names[n] = e->t->step_outputs[i];
        values[n] = train_entry_value(e, names[n]);
        if (!values[n])
            return train_no_output(e, "--step-outputs", names[n]);
    }
    return train_entry_end(e, n, values, names);
}

static bool forward_backward(struct entry *e, struct backward *r)
{
    struct ir_value *factor = optim_loss_scale(&e->b, e->t->o);
    return train_parallel_buffers(&e->b, e->t->o) && train_entry_loss(e, factor, true, &r->loss) &&
           build_gradients(e, &r->loss, r->grads);
}

static bool build_backward(struct entry *e, void *result)
{
    struct backward *r = result;
    r->grads = IR_NEWN(e->t->ctx, e->t->nparams + 1, struct ir_value *);
    return forward_backward(e, r);
}

/* In every version of @train. The number of those that there are; 0 after a diagnostic. */
static int build_backwards(struct training *t, const char *name, struct entry *e, struct backward *r)
{
    void **results = IR_NEWN(t->ctx, t->ntrains, void *);
    for (int i = 0; i < t->ntrains; i++)
        results[i] = &r[i];
    return train_build_versions(t, name, t->ntrains, t->trains, e, build_backward, results);
}

/* A parameter that is trained in another version only. */
static void fill_gradients(struct entry *e, struct ir_value **grads)
{
    for (int i = 0; i < e->t->nparams; i++) {
        ir_type type = e->t->params[i]->type;
        if (grads[i])
            continue;
        grads[i] = ir_constant_f(&e->b, (enum tcc_dtype)type->dtype, 0);
        grads[i] = type->rank ? ir_expand_to(&e->b, grads[i], type->rank, type->dim) : grads[i];
    }
}

static bool finish_grad(struct training *t, struct entry *e, struct backward *r)
{
    fill_gradients(e, r->grads);
    if (train_zero_has(t->o, 2))
        return keep_grads(e, r->grads, 1, NULL) && end_with_outputs(e, &r->loss);
    for (int i = 0; i < t->nparams; i++)
        if (!ir_write_state(&e->b, train_grad_state(t, t->params[i]), ir_cast_to(&e->b, r->grads[i], TCC_F32)))
            return false;
    return end_with_outputs(e, &r->loss);
}

static bool build_grad(struct training *t)
{
    struct entry *e = IR_NEWN(t->ctx, t->ntrains, struct entry);
    struct backward *r = IR_NEWN(t->ctx, t->ntrains, struct backward);
    bool ok = build_backwards(t, "grad", e, r) > 0;
    for (int i = 0; i < t->ntrains && ok; i++)
        ok = finish_grad(t, &e[i], &r[i]);
    return ok && train_join_versions(t, "grad", t->ntrains, e);
}

static bool finish_step(struct training *t, struct entry *e, struct backward *r)
{
    struct ir_value *rate;
    fill_gradients(e, r->grads);
    if (!train_parallel_vote(&e->b, t->o))
        return false;
    if (t->o->accumulate > 1
            ? !accumulate(e, r->grads)
            : !train_parallel_gradients(&e->b, t->o, t->nparams, t->params, r->grads) ||
                  !train_zero_gather(&e->b, t->o, t->nparams, t->params) || !update(&e->b, t, r->grads, &rate))
        return false;
    return end_with_outputs(e, &r->loss);
}

/* Versions that could not be built are none of @grad's either: it says nothing again. */
static void keep_built(struct training *t, struct entry *e, struct backward *r)
{
    int n = 0;
    for (int i = 0; i < t->ntrains; i++) {
        if (!e[i].func)
            continue;
        e[n] = e[i];
        r[n] = r[i];
        t->trains[n++] = t->trains[i];
    }
    t->ntrains = n;
}

/* Comes first: it finds out which parameters the loss reaches. */
static bool build_step(struct training *t)
{
    struct entry *e = IR_NEWN(t->ctx, t->ntrains, struct entry);
    struct backward *r = IR_NEWN(t->ctx, t->ntrains, struct backward);
    struct ir_value ***grads = IR_NEWN(t->ctx, t->ntrains, struct ir_value **);
    const struct whole_loss **losses = IR_NEWN(t->ctx, t->ntrains, const struct whole_loss *);
    if (!optim_states(t->m, t->o, 0, NULL)) /* the loss scale, before it is read */
        return false;
    if (!build_backwards(t, "step", e, r))
        return false;
    keep_built(t, e, r);
    for (int i = 0; i < t->ntrains; i++) {
        grads[i] = r[i].grads;
        losses[i] = &r[i].loss;
    }
    bool ok = train_drop_unreached(t, t->ntrains, grads, e, losses) && optim_states(t->m, t->o, t->nparams, t->params);
    for (int i = 0; i < t->ntrains && ok; i++)
        ok = finish_step(t, &e[i], &r[i]);
    return ok && train_join_versions(t, "step", t->ntrains, e);
}

static bool end_eval(struct entry *e, void *result)
{
    int n = e->from->body->last->nin;
    struct ir_value **values = IR_NEWN(e->t->ctx, n + 2, struct ir_value *);
    const char **names = IR_NEWN(e->t->ctx, n + 2, const char *);
    struct whole_loss w = {0};
    int first = 1;
    (void)result;
    if (!train_entry_loss(e, NULL, false, &w))
        return false;
    values[0] = w.value;
    names[0] = "loss";
    if (w.each) {
        values[first] = w.each;
        names[first++] = "losses";
    }
    for (int i = 0; i < n; i++) {
        values[first + i] = e->results[i];
        names[first + i] = ir_output_name(e->from, i);
    }
    return train_entry_end(e, first + n, values, names);
}

static bool build_eval(struct training *t)
{
    struct entry *e = IR_NEWN(t->ctx, t->nmains, struct entry);
    void **none = IR_NEWN(t->ctx, t->nmains, void *);
    return train_build_versions(t, "eval", t->nmains, t->mains, e, end_eval, none) &&
           train_join_versions(t, "eval", t->nmains, e);
}

static bool build_apply(struct training *t)
{
    struct entry e = train_entry_new(t, "apply", NULL);
    struct ir_value **grads = IR_NEWN(t->ctx, t->nparams, struct ir_value *), *rate;
    for (int i = 0; i < t->nparams; i++)
        grads[i] = ir_read_state(&e.b, train_grad_state(t, t->params[i]));
    return (train_zero_has(t->o, 2) || train_parallel_gradients(&e.b, t->o, t->nparams, t->params, grads)) &&
           update(&e.b, t, grads, &rate) && train_entry_end(&e, 1, &rate, (const char *const[]){"rate"});
}

static bool train_init_state(struct ir_builder *b, struct ir_state *s)
{
    struct ir_value *v;
    if (s->init)
        v = ir_constant(b, ir_tensor_ref(s->init));
    else {
        v = tcc_is_float((enum tcc_dtype)s->type->dtype) ? ir_constant_f(b, (enum tcc_dtype)s->type->dtype, 0)
                                                         : ir_constant_i(b, (enum tcc_dtype)s->type->dtype, 0);
        v = s->type->rank ? ir_expand_to(b, v, s->type->rank, s->type->dim) : v;
    }
    return ir_write_state(b, s, v);
}

static bool init_owned(struct ir_builder *then, void *state)
{
    return train_init_state(then, state);
}

bool train_init_states(struct ir_builder *b, struct training *t, int owner_stage, int n, struct ir_state *const *params)
{
    struct train_param *list = IR_NEWN(t->ctx, n + 1, struct train_param);
    struct ir_value **owned;
    for (int i = 0; i < n; i++)
        list[i].state = params[i];
    if (!train_parallel_is_owner(b, t->o, n, list, &owned))
        return false;
    for (struct ir_state *s = t->m->states; s; s = s->next) {
        int i = s->owner ? 0 : n;
        if (s->owner_stage != owner_stage)
            continue;
        while (i < n && train_zero_symbol(t->ctx, params[i]->name) != s->owner)
            i++;
        if (!(i < n ? train_zero_if(b, owned[i], init_owned, s) : train_init_state(b, s)))
            return false;
    }
    return true;
}

static bool build_init(struct training *t)
{
    struct entry e = train_entry_new(t, "init", NULL);
    return train_init_states(&e.b, t, 0, t->nparams, t->params) && train_entry_end(&e, 0, NULL, NULL);
}

/* -- The door ------------------------------------------------------------------------------------------------------ */

bool train_begin(struct training *t, struct ir_module *m, const struct train_options *o)
{
    *t = (struct training){.ctx = m->ctx, .m = m, .o = o, .step_outputs = train_names(m->ctx, o->step_outputs)};
    t->nmains = train_versions_of(m, "main", &t->mains);
    t->ntrains = train_versions_of(m, "train", &t->trains);
    if (!t->ntrains)
        t->ntrains = train_versions_of(m, "main", &t->trains);
    if (!t->nmains)
        t->nmains = train_versions_of(m, "train", &t->mains);
    if (!t->nmains)
        return train_complain(t, "%s", "a function 'main' is needed for training");
    t->main = t->mains[0];
    t->train = t->trains[0];
    if (!o->loss)
        return train_complain(t, "%s",
                              "training requires a loss: --loss=KIND, or a model that carries TrainingInfoProto");
    precision_settle(m, o, &t->settled);
    t->o = &t->settled;
    return train_loss_read(m->ctx, o->loss, &t->loss) && train_add_qat(t) && precision_apply(m, t->o) &&
           train_select(t);
}

/* What the artifact says of its loss: predictions become probabilities by it. */
static void describe_loss(const struct training *t)
{
    int i = 0;

    while (i < t->main->body->last->nin - 1 && !train_is_float_tensor(t->main->body->last->in[i].value))
        i++;
    if (t->main->body->last->nin)
        ir_meta_new(t->m, "train.loss", train_loss_text(t->ctx, &t->loss, ir_output_name(t->main, i)));
}

static int64_t bytes_of(const struct ir_state *s)
{
    int64_t dims[TCC_MAX_RANK], n = tcc_dtype_bytes((enum tcc_dtype)s->type->dtype);
    ir_static_dims(s->type, dims);
    for (int i = 0; i < s->type->rank; i++)
        n *= dims[i];
    return n;
}

static void remove_all(struct ir_module *m, const char *entry)
{
    struct ir_func **list;
    int n = train_versions_of(m, entry, &list);
    for (int i = 0; i < n; i++)
        ir_func_remove(list[i]);
}

bool train_build(struct ir_module *m, const struct train_options *o)
{
    struct training t;
    if (!train_begin(&t, m, o))
        return false;
    struct tensor_plan *tensors = NULL;
    if (o->tensor_parallel > 1 && !(tensors = tensor_choose(t.train, o->tensor_parallel, o->sequence_parallel)))
        return false;
    if (o->context_parallel > 1 && !(tensors = tensor_choose_context(t.train, o->context_parallel)))
        return false;
    if (o->expert_parallel > 1 && !(tensors = tensor_choose_experts(t.train, o->expert_parallel)))
        return false;
    ir_doing(m->ctx, "building", "train");
    if (o->stages && (t.nmains > 1 || t.ntrains > 1))
        return train_complain(&t, "%s", "a step in stages has one version for all sizes");
    if (o->stages ? !train_stages(&t)
                  : !build_step(&t) || !build_eval(&t) || !build_grad(&t) || !build_apply(&t) || !build_init(&t) ||
                        !train_build_predict(&t) || !train_build_calibrate(&t))
        return false;
    describe_loss(&t);
    for (struct ir_state *s = m->states; s; s = s->next)
        s->on_host = t.o->offload_optimizer && s->flags & IR_STATE_OPTIMIZER && bytes_of(s) >= OFFLOAD_LEAST;
    remove_all(t.m, "main");
    remove_all(t.m, "train");
    return !tensors || tensor_apply(m, tensors);
}
