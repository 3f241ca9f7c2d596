/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry point of training, before there are gradients: a copy of the model's function whose writes of state come
 * last, and the loss behind it.
 */
#include "passes/train/entry_int.h"

#include <string.h>

bool train_complain(struct training *t, const char *format, const char *name)
{
    struct ir_where where = {.file = t->m->name};
    return ir_error(t->ctx, &where, format, name);
}

/* -- Copies -------------------------------------------------------------------------------------------------------- */

/* The state writes of the copy, to be moved behind what is built after it; but for those whose versions somebody
 * reads. */
static void collect_writes(struct entry *e)
{
    VEC(struct ir_node *) writes = {0};
    IR_EACH_NODE(n, e->func->body) {
        if (n->op == IR_state_write && !ir_has_uses(n->out[0]))
            VEC_PUSH(e->t->ctx, writes, n);
    }
    VEC_GIVE(writes, e->writes, e->nwrites);
}

/* A version of a state variable is one value: later reads of it are the first. */
static void share_reads(struct entry *e)
{
    struct ir_value **first = IR_NEWN(e->t->ctx, e->func->nvalues + 1, struct ir_value *); /* by the version's id */
    ir_state_versions(e->func);
    for (struct ir_node *n = e->func->body->first, *next; n; n = next) {
        next = n->next;
        if (n->op != IR_state_read)
            continue;
        struct ir_value **v = &first[n->in[0].value->id];
        if (!*v) {
            *v = n->out[0];
            continue;
        }
        ir_replace_uses(n->out[0], *v);
        for (uint32_t i = 0; i < e->from->nvalues; i++)
            if (e->map[i] == n->out[0])
                e->map[i] = *v;
        ir_remove(n);
    }
}

struct entry train_entry_new(struct training *t, const char *name, const struct ir_func *from)
{
    struct entry e = {.t = t, .from = from, .func = ir_func_new(t->m, name)};
    e.b = (struct ir_builder){.ctx = t->ctx, .func = e.func, .block = e.func->body};
    if (!from)
        return e;
    e.map = IR_NEWN(t->ctx, from->nvalues + 1, struct ir_value *);
    e.results = IR_NEWN(t->ctx, from->body->last->nin + 1, struct ir_value *);
    for (int i = 0; i < from->body->nparams; i++) {
        const struct ir_value *p = from->body->params[i];
        e.map[p->id] = ir_input_new(e.func, p->type, from->input_names[i]);
    }
    ir_clone_block(&e.b, from->body, e.map, e.results);
    share_reads(&e);
    for (int i = 0; i < from->body->last->nin; i++)
        e.results[i] = e.map[from->body->last->in[i].value->id];
    collect_writes(&e);
    return e;
}

bool train_entry_end(struct entry *e, int n, struct ir_value *const *values, const char *const *names)
{
    for (int i = 0; i < e->nwrites; i++)
        ir_move_before(e->writes[i], NULL);
    return ir_return(&e->b, n, values, names) != NULL;
}

/* A value of the model: an output's, or any of its body that has that name in the source. */
struct ir_value *train_entry_value(struct entry *e, const char *name)
{
    for (int i = 0; i < e->from->body->last->nin; i++)
        if (!strcmp(ir_output_name(e->from, i), name))
            return e->results[i];
    IR_EACH_NODE(n, e->from->body) {
        for (int i = 0; i < n->nout; i++)
            if (n->out[i]->name && !strcmp(n->out[i]->name, name))
                return e->map[n->out[i]->id];
    }
    return NULL;
}

bool train_no_output(struct entry *e, const char *option, const char *name)
{
    struct ir_known known = {.near.word = name};

    for (int i = 0; i < e->from->body->last->nin; i++)
        ir_known_add(&known, ir_output_name(e->from, i));
    return train_complain(
        e->t, "%s", ir_internf(e->t->ctx, "%s: the model has no output '%s'%s", option, name, ir_known_text(&known)));
}

static struct ir_value *input_named(struct entry *e, const char *name)
{
    for (int i = 0; i < e->func->body->nparams; i++)
        if (!strcmp(e->func->input_names[i], name))
            return e->func->body->params[i];
    return NULL;
}

/* -- The loss ------------------------------------------------------------------------------------------------------ */

bool train_is_float_tensor(const struct ir_value *v)
{
    return ir_is_tensor(v->type) && tcc_is_float((enum tcc_dtype)v->type->dtype);
}

/* The output of that name, or the first one of floats; NULL after a diagnostic. */
static struct ir_value *scores_named(struct entry *e, const char *name)
{
    if (name) {
        struct ir_value *v = train_entry_value(e, name);
        if (!v)
            train_no_output(e, "--loss", name);
        else if (!train_is_float_tensor(v))
            train_complain(e->t, "--loss: output '%s' is not a tensor of floats", name);
        return v && train_is_float_tensor(v) ? v : NULL;
    }
    for (int i = 0; i < e->from->body->last->nin; i++)
        if (train_is_float_tensor(e->results[i]))
            return e->results[i];
    train_complain(e->t, "%s", "--loss: the model has no output that is a tensor of floats");
    return NULL;
}

struct ir_value *train_entry_scores(struct entry *e)
{
    return scores_named(e, e->t->loss.input);
}

/* The model's own loss, one element: as f32[], and what flows back into it. */
static bool own_loss(struct entry *e, const char *name, struct ir_value *v, struct ir_value *factor,
                     struct ir_value **value, struct ir_value **seed)
{
    for (int i = 0; i < v->type->rank; i++)
        if (!ir_is_value(v->type->dim[i], 1))
            return train_complain(e->t, "--loss=output:%s: a loss has one element", name);
    struct ir_value *scalar = v->type->rank ? ir_reshape_to(&e->b, v, 0, NULL) : v;
    *value = ir_cast_to(&e->b, scalar, TCC_F32);
    if (seed) {
        struct ir_value *one = factor ? ir_cast_to(&e->b, factor, (enum tcc_dtype)v->type->dtype)
                                      : ir_constant_f(&e->b, (enum tcc_dtype)v->type->dtype, 1);
        *seed = v->type->rank ? ir_reshape_to(&e->b, one, v->type->rank, v->type->dim) : one;
    }
    return *value && (!seed || *seed);
}

/* Is e known once the inputs are there? */
struct known {
    const struct ir_func *f;
    bool outside;
};

static void look_up(void *user, ir_expr sym)
{
    struct known *k = user;
    bool found = false;
    for (int i = 0; i < k->f->body->nparams && !found; i++) {
        ir_type t = k->f->body->params[i]->type;
        for (int d = 0; ir_is_tensor(t) && d < t->rank && !found; d++)
            found = t->dim[d] == sym;
    }
    k->outside |= !found;
}

/* The target's type. A size of the scores that only the run knows is a symbol of its own in it; the loss's ops compare
 * the two. */
static ir_type target_type(struct entry *e, const struct train_loss *loss, ir_type scores)
{
    struct ir_ctx *ctx = e->t->ctx;
    ir_type t = train_loss_target(ctx, loss, scores);
    ir_expr dims[TCC_MAX_RANK];
    for (int d = 0; d < t->rank; d++) {
        struct known k = {e->func, false};
        ir_each_sym(t->dim[d], look_up, &k);
        dims[d] = k.outside ? ir_sym(ctx, ir_internf(ctx, "%s.%d", loss->target, d)) : t->dim[d];
    }
    return ir_tensor_type(ctx, (enum tcc_dtype)t->dtype, t->rank, dims);
}

/* One term; *use has its scores. A target that is no input yet becomes the last one. */
static bool loss_term(struct entry *e, const struct train_loss *loss, struct train_loss_use *use)
{
    if (loss->kind == LOSS_output)
        return own_loss(e, loss->input, use->scores[0], use->factor, &use->value,
                        use->want_gradient ? &use->gradient[0] : NULL);
    if (train_loss_target_kind(loss) != TARGET_NOTHING) {
        use->target = input_named(e, loss->target);
        if (!use->target)
            use->target = ir_input_new(e->func, target_type(e, loss, use->scores[0]->type), loss->target);
        if (!ir_is_tensor(use->target->type))
            return train_complain(e->t, "--loss: the target '%s' is not a tensor of numbers", loss->target);
    }
    return train_loss_build(&e->b, loss, use);
}

bool train_entry_loss_of(struct entry *e, struct ir_value *scores, struct ir_value *factor, struct ir_value **value,
                         struct ir_value **seed)
{
    struct train_loss_use use = {.scores = {scores}, .factor = factor, .want_gradient = seed != NULL};
    if (!loss_term(e, &e->t->loss, &use))
        return false;
    *value = use.value;
    if (seed)
        *seed = use.gradient[0];
    return true;
}

static bool add_term(struct entry *e, const struct train_loss *loss, struct ir_value *factor, bool want_gradient,
                     struct whole_loss *w)
{
    struct ir_builder *b = &e->b;
    struct ir_value *share = loss->factor != 1 ? ir_constant_f(b, TCC_F32, loss->factor) : NULL;
    struct train_loss_use use = {.want_gradient = want_gradient};
    int n = train_loss_nscores(loss);
    for (int i = 0; i < n; i++)
        if (!(use.scores[i] = scores_named(e, i ? loss->others[i - 1] : loss->input)))
            return false;
    use.factor = factor && share ? ir_binary(b, IR_mul, ir_cast_to(b, factor, TCC_F32), share) : share ? share : factor;
    if (!loss_term(e, loss, &use))
        return false;
    struct ir_value *value = share ? ir_binary(b, IR_mul, use.value, share) : use.value;
    w->value = w->value ? ir_binary(b, IR_add, w->value, value) : value;
    if (use.each && w->each)
        return train_complain(e->t, "%s", "--loss: reduction=none is for one of the losses");
    w->each = use.each ? use.each : w->each;
    for (int i = 0; i < n && want_gradient; i++) {
        VEC_PUSH(e->t->ctx, w->from, use.scores[i]);
        VEC_PUSH(e->t->ctx, w->seeds, use.gradient[i]);
    }
    return w->value != NULL;
}

bool train_entry_loss(struct entry *e, struct ir_value *factor, bool want_gradient, struct whole_loss *w)
{
    for (const struct train_loss *l = &e->t->loss; l; l = l->next)
        if (!add_term(e, l, factor, want_gradient, w))
            return false;
    return true;
}
