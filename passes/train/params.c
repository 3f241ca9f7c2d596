/* SPDX-License-Identifier: Apache-2.0 */
/* What is trained: parameters that --freeze and --train-only leave, and that the loss reaches. */
#include "passes/train/entry_int.h"

#include <fnmatch.h>
#include <string.h>

static bool any_match(const char *const *patterns, const char *name)
{
    for (int i = 0; patterns && patterns[i]; i++)
        if (!fnmatch(patterns[i], name, 0))
            return true;
    return false;
}

/* A pattern that names nothing is a mistake of the one who wrote it. */
static bool all_used(struct training *t, const char *option, const char *const *patterns)
{
    bool used = true;
    for (int i = 0; patterns && patterns[i]; i++) {
        const struct ir_state *s = t->m->states;
        while (s && (!(s->flags & IR_STATE_PARAM) || fnmatch(patterns[i], s->name, 0)))
            s = s->next;
        if (s)
            continue;
        struct ir_where where = {.file = t->m->name};
        ir_error(t->ctx, &where, "%s=%s: no parameter matches", option, patterns[i]);
        used = false;
    }
    return used;
}

bool train_select(struct training *t)
{
    VEC(struct ir_state *) chosen = {0};
    if (!all_used(t, "--freeze", t->o->freeze) || !all_used(t, "--train-only", t->o->train_only))
        return false;
    for (struct ir_state *s = t->m->states; s; s = s->next) {
        bool wanted = (s->flags & IR_STATE_PARAM) && tcc_is_float((enum tcc_dtype)s->type->dtype);
        if (t->o->train_only && t->o->train_only[0])
            wanted = wanted && any_match(t->o->train_only, s->name);
        if (wanted && !any_match(t->o->freeze, s->name))
            VEC_PUSH(t->ctx, chosen, s);
    }
    t->nparams = chosen.n;
    t->params = chosen.at;
    struct ir_where where = {.file = t->m->name};
    if (!chosen.n)
        ir_error(t->ctx, &where, "there is nothing to train: the model has no parameters%s",
                 t->o->freeze || t->o->train_only ? " but frozen ones" : "");
    return chosen.n > 0;
}

static bool reached(int n, struct ir_value **const *grads, int param)
{
    for (int v = 0; v < n; v++)
        if (grads[v] && grads[v][param])
            return true;
    return false;
}

bool train_drop_unreached(struct training *t, int versions, struct ir_value **const *grads)
{
    const char *names = "";
    int n = 0, kept = 0;
    for (int i = 0; i < t->nparams; i++) {
        if (!reached(versions, grads, i)) {
            names = ir_internf(t->ctx, "%s%s%s", names, n++ ? ", " : "", t->params[i]->name);
            continue;
        }
        for (int v = 0; v < versions; v++)
            if (grads[v])
                grads[v][kept] = grads[v][i];
        t->params[kept++] = t->params[i];
    }
    t->nparams = kept;
    struct ir_where where = {.file = t->m->name};
    if (n && kept)
        ir_diag(t->ctx, &where, IR_D_WARNING, "%d parameter%s that the loss does not reach will not be trained: %s", n,
                n == 1 ? "" : "s", names);
    else if (n)
        ir_error(t->ctx, &where, "the loss depends on no parameter (%s)", names);
    return kept > 0;
}
