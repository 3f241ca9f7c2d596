/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of a model that has shape versions (struct ir_version): one function a version, which together are the
 * entry point. What can't be trained at a version's sizes (a loss of scores that have another rank there) is left out
 * of it, with a warning; a call with such sizes is refused. A target that becomes an input has one type for all
 * versions, in which each dim is what they agree on: a dim of the last and most general version, one of the model's own
 * symbols, else a symbol of its own that the guards compare.
 */
#include "passes/train/entry_int.h"

#include <string.h>

int train_versions_of(struct ir_module *m, const char *entry, struct ir_func ***list)
{
    VEC(struct ir_func *) found = {0};
    for (struct ir_func *f = m->funcs; f; f = f->next)
        if (!strcmp(ir_entry_name(f), entry))
            VEC_PUSH(m->ctx, found, f);
    *list = found.at;
    return found.n;
}

/* "step.v2" for "train.v2". */
static const char *name_of(struct training *t, const char *entry, const struct ir_func *from)
{
    return from->version ? ir_internf(t->ctx, "%s%s", entry, from->name + strlen(from->version->entry)) : entry;
}

/* -- What is left out ---------------------------------------------------------------------------------------------- */

struct left_out {
    int count;
    const char *sizes;
    char text[600];
};

static void leave_out(struct left_out *l, const struct entry *e, const char *text)
{
    const struct ir_version *v = e->from->version;
    if (!l->count++) {
        l->sizes = ir_guards_text(e->t->ctx, v->nguards, v->guards);
        snprintf(l->text, sizeof l->text, "%s", text);
    }
    ir_func_remove(e->func);
}

static void tell(struct training *t, const char *entry, const struct left_out *l, int made)
{
    struct ir_where where = {.file = t->m->name};
    const char *others =
        l->count > 1 ? ir_internf(t->ctx, " (and %d more version%s)", l->count - 1, l->count == 2 ? "" : "s") : "";
    if (l->count)
        ir_diag(t->ctx, &where, made ? IR_D_WARNING : IR_D_ERROR, "sizes with %s%s: %s%s", l->sizes,
                made ? ir_internf(t->ctx, " are left out of '%s'", entry) : "", l->text, others);
}

static ir_type target_of(const struct entry *e)
{
    const struct ir_block *b = e->func->body;
    return b->nparams > e->from->body->nparams ? b->params[b->nparams - 1]->type : NULL;
}

/* Is version k's new input of another rank than the last one's? */
static bool other_target(const struct entry *e, const struct entry *last)
{
    ir_type a = target_of(e), b = target_of(last);
    return a && b && (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank);
}

int train_build_versions(struct training *t, const char *entry, int n, struct ir_func **from, struct entry *e,
                         bool (*build)(struct entry *e, void *result), void *const *results)
{
    struct left_out out = {0};
    bool *good = IR_NEWN(t->ctx, n + 1, bool);
    int made = 0, last = -1;
    for (int i = 0; i < n; i++) {
        char text[sizeof out.text] = "";
        e[i] = train_entry_new(t, name_of(t, entry, from[i]), from[i]);
        if (n > 1)
            ir_capture(t->ctx, text, sizeof text);
        good[i] = build(&e[i], results[i]);
        ir_capture(t->ctx, NULL, 0);
        if (!good[i] && (n == 1 || !text[0]))
            return 0;
        if (good[i])
            last = i;
        else
            leave_out(&out, &e[i], text);
    }
    for (int i = 0; i < n; i++) {
        if (good[i] && other_target(&e[i], &e[last])) {
            leave_out(&out, &e[i],
                      ir_internf(t->ctx, "the target is %s there, at other sizes %s",
                                 ir_type_text(t->ctx, target_of(&e[i])), ir_type_text(t->ctx, target_of(&e[last]))));
            good[i] = false;
        }
    }
    for (int i = 0; i < n; i++)
        made += good[i];
    tell(t, entry, &out, made);
    for (int i = 0; i < n; i++)
        e[i].func = good[i] ? e[i].func : NULL;
    return made;
}

/* -- What versions have in common ---------------------------------------------------------------------------------- */

/* The sizes of a version, put for the general types' symbols. */
struct sizes {
    VEC(ir_expr) from, to;
};

static struct sizes sizes_of(struct ir_ctx *ctx, const struct ir_func *f)
{
    struct sizes s = {0};
    for (int i = 0; i < f->version->ninputs; i++) {
        ir_type general = f->version->inputs[i], own = f->body->params[i]->type;
        for (int d = 0; ir_is_tensor(general) && d < general->rank; d++) {
            if (general->dim[d]->kind != IR_X_SYM)
                continue;
            VEC_PUSH(ctx, s.from, general->dim[d]);
            VEC_PUSH(ctx, s.to, own->dim[d]);
        }
    }
    return s;
}

static bool fits_all(struct ir_ctx *ctx, ir_expr general, int n, const struct entry *e, int axis)
{
    for (int i = 0; i < n; i++) {
        struct sizes s = sizes_of(ctx, e[i].from);
        if (ir_subst(ctx, general, s.from.n, s.from.at, s.to.at) != target_of(&e[i])->dim[axis])
            return false;
    }
    return true;
}

/* A dim of the target that is each version's own once its sizes are put in; NULL: there is none. */
static ir_expr common_dim(struct ir_ctx *ctx, int n, const struct entry *e, int axis)
{
    for (int i = n - 1; i >= 0; i--)
        if (fits_all(ctx, target_of(&e[i])->dim[axis], n, e, axis))
            return target_of(&e[i])->dim[axis];
    struct sizes s = sizes_of(ctx, e[0].from);
    for (int k = 0; k < s.from.n; k++)
        if (fits_all(ctx, s.from.at[k], n, e, axis))
            return s.from.at[k];
    return NULL;
}

bool train_join_versions(struct training *t, const char *entry, int n, const struct entry *all)
{
    struct entry *e = IR_NEWN(t->ctx, n + 1, struct entry);
    ir_expr dims[TCC_MAX_RANK], own[TCC_MAX_RANK] = {0};
    int made = 0;
    for (int i = 0; i < n; i++)
        if (all[i].func)
            e[made++] = all[i];
    if (!made || !e[0].from->version)
        return made > 0;
    ir_type target = target_of(&e[0]);
    for (int d = 0; target && ir_is_tensor(target) && d < target->rank; d++) {
        dims[d] = common_dim(t->ctx, made, e, d);
        if (!dims[d])
            dims[d] = own[d] = ir_sym(t->ctx, ir_internf(t->ctx, "%s.%d", t->loss.target, d));
    }
    if (target && ir_is_tensor(target))
        target = ir_tensor_type(t->ctx, (enum tcc_dtype)target->dtype, target->rank, dims);
    for (int i = 0; i < made; i++) {
        const struct ir_version *v = e[i].from->version;
        int inputs = e[i].func->body->nparams;
        ir_type *types = IR_NEWN(t->ctx, inputs + 1, ir_type);
        VEC(struct ir_guard) guards = {0};
        for (int k = 0; k < inputs; k++)
            types[k] = k < v->ninputs ? v->inputs[k] : target;
        for (int k = 0; k < v->nguards; k++)
            VEC_PUSH(t->ctx, guards, v->guards[k]);
        for (int d = 0; target && ir_is_tensor(target) && d < target->rank; d++)
            if (own[d] && own[d] != target_of(&e[i])->dim[d])
                VEC_PUSH(t->ctx, guards, (struct ir_guard){TCC_GUARD_EQ, own[d], target_of(&e[i])->dim[d]});
        struct ir_version *w = IR_NEW(t->ctx, struct ir_version);
        *w = (struct ir_version){ir_intern(t->ctx, entry), inputs, types, guards.n, guards.at};
        e[i].func->version = w;
    }
    return true;
}
