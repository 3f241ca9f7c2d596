/* SPDX-License-Identifier: Apache-2.0 */
/*
 * @predict: the model's outputs as it infers, with the state that training has left. It reads what the outputs depend on: neither the
 * target, nor a loss that the model computes, is part of it.
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

static void bound_elsewhere(void *user, ir_expr sym)
{
    struct bindings *b = user;
    bool found = false;

    for (int i = 0; i < b->f->body->nparams && !found; i++)
        found = i != b->of && binds(b->f->body->params[i]->type, sym);
    b->alone |= !found;
}

void train_drop_inputs(struct ir_func *f)
{
    for (int i = 0; i < f->body->nparams;) {
        struct bindings b = {f, i, false};

        pass_each_type_symbol(f->body->params[i]->type, bound_elsewhere, &b);
        if (ir_has_uses(f->body->params[i]) || b.alone) {
            i++;
            continue;
        }
        f->body->nparams--;
        for (int k = i; k < f->body->nparams; k++) {
            f->body->params[k] = f->body->params[k + 1];
            f->body->params[k]->index = k;
            f->input_names[k] = f->input_names[k + 1];
        }
    }
}

bool train_predicts(const struct training *t, const char *output)
{
    return t->loss.kind != LOSS_output || strcmp(output, t->loss.input) != 0;
}

bool train_build_predict(struct training *t)
{
    static const struct pass_options plain = {.change_limit = -1};
    struct entry e = train_entry_new(t, "predict", t->main);
    int n = t->main->body->last->nin, kept = 0;
    struct ir_value **values = IR_NEWN(t->ctx, n + 1, struct ir_value *);
    const char **names = IR_NEWN(t->ctx, n + 1, const char *);

    for (int i = 0; i < n; i++) {
        names[kept] = ir_output_name(t->main, i);
        values[kept] = e.results[i];
        kept += train_predicts(t, names[kept]);
    }
    if (!kept) {
        ir_func_remove(e.func);
        return true; /* the loss is all that the model gives */
    }
    if (!train_entry_end(&e, kept, values, names) || !pass_list(t->m, "dce", &plain))
        return false;
    train_drop_inputs(e.func);
    return true;
}
