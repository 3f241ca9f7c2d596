/* SPDX-License-Identifier: Apache-2.0 */
/* What is trained: parameters that --freeze and --train-only leave, and that the loss reaches. */
#include "passes/grad/grad.h"
#include "passes/train/entry_int.h"

#include <fnmatch.h>

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
        struct ir_known known = {.near.word = patterns[i]};
        for (s = t->m->states; s; s = s->next)
            ir_known_add(&known, s->flags & IR_STATE_PARAM ? s->name : NULL);
        ir_error(t->ctx, &where, "%s=%s: no parameter matches%s", option, patterns[i], ir_known_text(&known));
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
    VEC_GIVE(chosen, t->params, t->nparams);
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

/* -- Parameters without a gradient: does the loss not depend on them, or by what stops gradients only? */

#define MAX_STOPS 8 /* that are told of a parameter */

struct unreached {
    const char *names, *stopped; /* lists of names */
    int n, nstopped;
};

static const char *add_name(struct ir_ctx *ctx, const char *list, int n, const char *name)
{
    return ir_internf(ctx, "%s%s%s", list, n ? ", " : "", name);
}

static void tell_stops(struct training *t, const struct ir_state *s, int n, const struct grad_stop *stops)
{
    for (int i = 0; t->o->report && i < n; i++) {
        const struct ir_where *w = &stops[i].node->where;
        fprintf(t->o->report, "%s: its gradient stops at %s%s%s%s: %s\n", ir_shown(s->name), w->node ? "node '" : "",
                w->node ? ir_shown(w->node) : ir_op_info(stops[i].node->op)->name, w->node ? "', " : "",
                w->node && w->op ? ir_shown(w->op) : "", stops[i].why);
    }
}

/* Notes a parameter that has none. False after a diagnostic: nothing on the way says that gradients stop. */
static bool note_unreached(struct training *t, struct unreached *u, struct ir_state *s, int versions, struct entry *e,
                           const struct whole_loss *const *found)
{
    struct grad_stop stops[MAX_STOPS];
    bool depends = false;
    int n = 0;
    for (int v = 0; v < versions && !n; v++)
        depends |=
            grad_stops(&e[v].b, found[v]->from.n, found[v]->from.at, train_read_of(&e[v], s), MAX_STOPS, stops, &n);
    if (!depends) {
        u->names = add_name(t->ctx, u->names, u->n++, s->name);
        return true;
    }
    if (!n) {
        struct ir_where where = {.file = t->m->name};
        return ir_error(t->ctx, &where, "the loss depends on parameter '%s', which has no gradient", s->name);
    }
    tell_stops(t, s, n, stops);
    u->stopped = add_name(t->ctx, u->stopped, u->nstopped++, s->name);
    return true;
}

static void warn_unreached(struct training *t, const struct unreached *u)
{
    struct ir_where where = {.file = t->m->name};
    if (u->n)
        ir_diag(t->ctx, &where, IR_D_WARNING, "%d parameter%s that the loss does not reach will not be trained: %s",
                u->n, u->n == 1 ? "" : "s", u->names);
    if (u->nstopped)
        ir_diag(t->ctx, &where, IR_D_WARNING,
                "%d parameter%s that the loss depends on only by what stops gradients will not be trained (--report "
                "says where): %s",
                u->nstopped, u->nstopped == 1 ? "" : "s", u->stopped);
}

bool train_drop_unreached(struct training *t, int versions, struct ir_value **const *grads, struct entry *e,
                          const struct whole_loss *const *found)
{
    struct unreached u = {.names = "", .stopped = ""};
    bool sound = true;
    int kept = 0;
    for (int i = 0; i < t->nparams; i++) {
        if (!reached(versions, grads, i)) {
            sound &= note_unreached(t, &u, t->params[i], versions, e, found);
            continue;
        }
        for (int v = 0; v < versions; v++)
            if (grads[v])
                grads[v][kept] = grads[v][i];
        t->params[kept++] = t->params[i];
    }
    t->nparams = kept;
    struct ir_where where = {.file = t->m->name};
    if (!sound)
        return false;
    if (kept)
        warn_unreached(t, &u);
    else
        ir_error(t->ctx, &where, "the loss depends on no parameter by a gradient (%s%s%s)", u.names,
                 u.n && u.nstopped ? ", " : "", u.stopped);
    return kept > 0;
}
