/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which axes of the inputs are split into microbatches, and whether the model lets them be. A symbolic batch axis stays as it is: the
 * run-time library binds it to the microbatch's size. A fixed one was divided when the model was read (compiler/pin.c), where a node that
 * holds the batch as a number contradicts; with a symbolic one such a node is found here.
 */
#include "passes/train_stages_int.h"

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

struct pins {
    struct ir_ctx *ctx;
    ir_expr batch; /* the symbol, or NULL */
    bool found;
};

static void seen(void *user, ir_expr a, ir_expr b)
{
    struct pins *p = user;
    bool both_constant = ir_is_const(a, NULL) && ir_is_const(b, NULL);
    p->found |= both_constant ? a != b : p->batch && ir_uses_sym(a, p->batch) != ir_uses_sym(b, p->batch);
}

/* The node that takes a size for granted which a microbatch hasn't. */
static const struct ir_node *pinning(struct ir_ctx *ctx, const struct ir_block *b, ir_expr batch)
{
    IR_EACH_NODE(n, b)
    {
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
    ir_error(
        t->ctx, &w,
        "the batch is a fixed number here, so it can't be split into %d microbatches: export the model with a symbolic "
        "batch axis",
        micros);
    return false;
}

bool stages_check_batch(struct training *t, struct ir_func *f, const struct train_split *o)
{
    ir_expr batch = NULL;
    if (!known_names(t, f, o))
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
