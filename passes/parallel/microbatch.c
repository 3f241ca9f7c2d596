/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which axes of the inputs are split into microbatches, and whether the model lets them be. A symbolic batch axis stays
 * as it is: the run-time library binds it to the microbatch's size. A fixed one was divided when the model was read
 * (compiler/import/specialise.c), where a node that holds the batch as a number contradicts; with a symbolic one such a
 * node is found here.
 */
#include "passes/parallel/stages_int.h"
#include "base/mutant.h"

#include <stdlib.h>
#include <string.h>

int train_split_axis(const struct train_split *o, const char *name, ir_type type)
{
    size_t n = strlen(name);
    int axis = ir_is_tensor(type) && type->rank > 0 ? 0 : -1;
    for (int i = 0; o->split_axes && o->split_axes[i]; i++) {
        const char *text = o->split_axes[i];
        if (strncmp(text, name, n) || text[n] != ':')
            continue;
        axis = strcmp(text + n + 1, "none") ? atoi(text + n + 1) : -1;
    }
    return axis;
}

static bool known_names(struct training *t, const struct ir_func *f, const struct train_split *o)
{
    for (int i = 0; o->split_axes && o->split_axes[i]; i++) {
        const char *text = o->split_axes[i], *colon = strrchr(text, ':');
        bool known = !strncmp(text, t->loss.target, (size_t)(colon - text)) && !t->loss.target[colon - text];
        for (int k = 0; k < f->body->nparams; k++) {
            ir_type type = f->body->params[k]->type;
            bool this = !strncmp(text, f->input_names[k], (size_t)(colon - text)) && !f->input_names[k][colon - text];
            known |= this;
            if (this && strcmp(colon, ":none") && (!ir_is_tensor(type) || atoi(colon + 1) >= type->rank))
                return train_complain(t, "--split-axis=%s: axis out of range", text);
        }
        if (!known)
            return train_complain(t, "--split-axis=%s: unknown input", text);
    }
    return true;
}

static bool is_split_by_name(const struct train_split *o, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; o->split_axes && o->split_axes[i]; i++)
        if (!strncmp(o->split_axes[i], name, n) && o->split_axes[i][n] == ':')
            return true;
    return false;
}

/* The extent of the target that is split: where the target is no input yet, that of the scores' axis in its place.
 * NULL: there is no target, or it is not split. */
static ir_expr target_batch(struct training *t, const struct ir_func *f, const struct train_split *o)
{
    const struct ir_node *end = f->body->last;
    ir_type type = NULL;
    if (t->loss.kind == LOSS_output)
        return NULL;
    for (int i = 0; i < f->body->nparams && !type; i++)
        if (!strcmp(f->input_names[i], t->loss.target))
            type = f->body->params[i]->type;
    for (int i = 0; i < end->nin && !type; i++) {
        ir_type v = end->in[i].value->type;
        if (t->loss.input ? !strcmp(ir_output_name(f, i), t->loss.input)
                          : ir_is_tensor(v) && tcc_is_float((enum tcc_dtype)v->dtype))
            type = v;
    }
    int axis = type ? train_split_axis(o, t->loss.target, type) : -1;
    return axis >= 0 && axis < type->rank ? type->dim[axis] : NULL;
}

/* Can parts of both extents be those of the same samples? A target may have several rows a sample. */
static bool goes_with(ir_expr batch, ir_expr dim)
{
    int64_t all, own;
    if (batch == dim)
        return true;
    if (ir_is_const(dim, &own))
        return MUTANT(145, ir_is_const(batch, &all) && own > 0 && all % own == 0, true);
    return dim->kind != IR_X_SYM || ir_uses_sym(batch, dim) || ir_is_const(batch, NULL);
}

/* An extent as the model's user knows it: a fixed one was divided when the model was read. */
static const char *whole_extent(struct ir_ctx *ctx, ir_expr dim, int micros)
{
    int64_t n;
    return ir_expr_text(ctx, ir_is_const(dim, &n) ? ir_const(ctx, n * micros) : dim);
}

/* An input that nobody has spoken of is split on its first axis; refused where that can't be the batch. */
static bool check_first_axes(struct training *t, const struct ir_func *f, const struct train_split *o)
{
    ir_expr batch = target_batch(t, f, o);
    struct ir_where where = {.file = t->m->name};
    for (int i = 0; i < f->body->nparams; i++) {
        ir_type type = f->body->params[i]->type;
        const char *name = f->input_names[i];
        if (!ir_is_tensor(type) || type->rank == 0 || is_split_by_name(o, name))
            continue;
        if (!batch)
            batch = type->dim[0];
        if (goes_with(batch, type->dim[0]))
            continue;
        int axis = 0;
        while (axis < type->rank && type->dim[axis] != batch)
            axis++;
        return ir_error(t->ctx, &where,
                        "input '%s': its first axis is %s, not the batch (%s), which is split into %d microbatches: "
                        "--split-axis=%s:%s says so",
                        name, whole_extent(t->ctx, type->dim[0], o->microbatches),
                        whole_extent(t->ctx, batch, o->microbatches), o->microbatches, name,
                        axis < type->rank ? ir_internf(t->ctx, "%d", axis) : "none");
    }
    return true;
}

struct pins {
    struct ir_ctx *ctx;
    ir_expr batch; /* the symbol, or NULL */
    bool found;
};

/* A size that must be a certain one. What has to be long enough only (IR_LE) is asked of each microbatch when it
 * runs. */
static void seen(void *user, const struct ir_fact *f)
{
    struct pins *p = user;
    p->found |= f->relation == IR_EQ && p->batch &&
                MUTANT(144, ir_uses_sym(f->a, p->batch) != ir_uses_sym(f->b, p->batch), false);
}

/* The node that takes a size for granted which a microbatch hasn't. */
static const struct ir_node *pinning(struct ir_ctx *ctx, const struct ir_block *b, ir_expr batch)
{
    IR_EACH_NODE(n, b) {
        struct pins p = {ctx, batch, false};
        ir_assumptions(n, seen, &p);
        if (p.found)
            return n;
        for (int g = 0; g < n->nregions; g++) {
            const struct ir_node *inner = pinning(ctx, n->regions[g], batch);
            if (inner)
                return inner;
        }
    }
    return NULL;
}

static bool refuse(struct training *t, const struct ir_node *n, int micros)
{
    struct ir_where w = n->where;
    if (!w.file)
        w.file = t->m->name;
    return ir_error(
        t->ctx, &w,
        "the batch is a fixed number here, so it cannot be split into %d microbatches: export the model with a "
        "symbolic "
        "batch axis",
        micros);
}

bool stages_check_batch(struct training *t, struct ir_func *f, const struct train_split *o)
{
    ir_expr batch = NULL;
    if (!known_names(t, f, o) || (o->microbatches > 1 && !check_first_axes(t, f, o)))
        return false;
    for (int i = 0; i < f->body->nparams && o->microbatches > 1; i++) {
        const struct ir_value *v = f->body->params[i];
        int axis = train_split_axis(o, f->input_names[i], v->type);
        if (axis >= 0 && v->type->dim[axis]->kind == IR_X_SYM)
            batch = v->type->dim[axis];
    }
    const struct ir_node *n = o->microbatches > 1 ? pinning(t->ctx, f->body, batch) : NULL;
    return n ? refuse(t, n, o->microbatches) : true;
}
