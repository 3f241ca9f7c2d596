/* SPDX-License-Identifier: Apache-2.0 */
/*
 * @predict: the model's outputs as it infers, with the state that training has left. It reads what the outputs depend
 * on: neither the target, nor a loss that the model computes, is part of it.
 */
#include "passes/train/entry_int.h"

#include "passes/util_int.h"

#include <string.h>

static bool binds(ir_type t, ir_expr sym)
{
    for (int d = 0; ir_is_tensor(t) && d < t->rank; d++)
        if (t->dim[d] == sym)
            return true;
    return false;
}

struct bindings {
    const struct ir_func *f;
    int of;
    bool alone;
};

/* The type that a call's input is matched with. */
static ir_type input_type(const struct ir_func *f, int i)
{
    return f->version ? f->version->inputs[i] : f->body->params[i]->type;
}

static void bound_elsewhere(void *user, ir_expr sym)
{
    struct bindings *b = user;
    bool found = false;

    for (int i = 0; i < b->f->body->nparams && !found; i++)
        found = i != b->of && binds(input_type(b->f, i), sym);
    b->alone |= !found;
}

static void drop_input(struct ir_func *f, int i)
{
    struct ir_version *v = f->version ? IR_NEW(f->module->ctx, struct ir_version) : NULL;
    ir_type *types = v ? IR_NEWN(f->module->ctx, f->version->ninputs, ir_type) : NULL;

    f->body->nparams--;
    for (int k = 0; v && k < f->body->nparams; k++)
        types[k] = f->version->inputs[k < i ? k : k + 1];
    for (int k = i; k < f->body->nparams; k++) {
        f->body->params[k] = f->body->params[k + 1];
        f->body->params[k]->index = k;
        f->input_names[k] = f->input_names[k + 1];
    }
    if (!v)
        return;
    *v = *f->version;
    v->ninputs--;
    v->inputs = types;
    f->version = v;
}

void train_drop_inputs(int n, struct ir_func *const *f)
{
    for (int i = 0; n && i < f[0]->body->nparams;) {
        struct bindings b = {f[0], i, false};
        bool used = false;

        pass_each_type_symbol(input_type(f[0], i), bound_elsewhere, &b);
        for (int k = 0; k < n; k++)
            used |= ir_has_uses(f[k]->body->params[i]);
        for (int k = 0; k < n && !used && !b.alone; k++)
            drop_input(f[k], i);
        i += used || b.alone;
    }
}

bool train_finish_predict(struct ir_module *m)
{
    static const struct pass_options plain = {.change_limit = -1};
    struct ir_func **list;
    int n = train_versions_of(m, "predict", &list);

    if (n && !pass_list(m, "dce", &plain))
        return false;
    train_drop_inputs(n, list);
    return true;
}

bool train_predicts(const struct training *t, const char *output)
{
    for (const struct train_loss *l = &t->loss; l; l = l->next)
        if (l->kind == LOSS_output && !strcmp(output, l->input))
            return false;
    return true;
}

static bool keep_outputs(struct entry *e, void *result)
{
    int n = e->from->body->last->nin, kept = 0;
    struct ir_value **values = IR_NEWN(e->t->ctx, n + 1, struct ir_value *);
    const char **names = IR_NEWN(e->t->ctx, n + 1, const char *);

    (void)result;
    for (int i = 0; i < n; i++) {
        names[kept] = ir_output_name(e->from, i);
        values[kept] = e->results[i];
        kept += train_predicts(e->t, names[kept]);
    }
    return train_entry_end(e, kept, values, names);
}

bool train_build_predict(struct training *t)
{
    struct entry *e = IR_NEWN(t->ctx, t->nmains, struct entry);
    void **none = IR_NEWN(t->ctx, t->nmains, void *);
    int kept = 0;

    for (int i = 0; i < t->main->body->last->nin; i++)
        kept += train_predicts(t, ir_output_name(t->main, i));
    if (!kept)
        return true; /* the loss is all that the model gives */
    return train_build_versions(t, "predict", t->nmains, t->mains, e, keep_outputs, none) &&
           train_join_versions(t, "predict", t->nmains, e) && train_finish_predict(t->m);
}
