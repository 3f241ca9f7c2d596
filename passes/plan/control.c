/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - if and loop become steps with regions.
 *
 * What a region yields is copied into the node's outputs (if) or the next iteration's parameters (loop). Where the
 * shape is not known before the node runs, the value travels as an object and its dims are bound when it arrives.
 * Versions of state variables are not handed over: they are in the variables.
 */
#include "passes/lower_int.h"
#include "passes/util_int.h"

static int object_buffer(struct lw *lw, const char *name)
{
    return lw_buffer_new(lw, (struct kn_buffer){.space = TCC_SPACE_OBJECT, .name = name});
}

static bool travels_as_object(const struct lw *lw, ir_type t)
{
    return !ir_is_tensor(t) || !lw_type_bound(lw, t);
}

static bool same_type(ir_type a, ir_type b)
{
    return a == b;
}

/* The object that holds v's value at the end of a region. */
static int as_object(struct lw *lw, struct kn_steps *to, const struct ir_node *n, struct ir_value *v)
{
    int from = lw_buffer(lw, v);
    if (!ir_is_tensor(v->type))
        return from;
    int args[2] = {from, object_buffer(lw, v->name)};
    lw_step(lw, to, TCC_STEP_BOX, n, 2, args);
    return args[1];
}

/* Value v arrives as `object`: its dims are bound, and tensors are copied into a buffer. */
static void arrive(struct lw *lw, struct kn_steps *to, const struct ir_node *n, int object, struct ir_value *v)
{
    if (!ir_is_tensor(v->type)) {
        lw->buffer[v->id] = object;
        return;
    }
    lw_bind_dims(lw, to, n, object, v->type);
    int args[2] = {object, lw_buffer(lw, v)};
    lw_step(lw, to, TCC_STEP_UNBOX, n, 2, args);
}

bool lw_lower_if(struct lw *lw, struct ir_node *n, struct kn_steps *to)
{
    struct kn_region *regions = IR_NEWN(lw->ctx, 2, struct kn_region);
    bool *object = IR_NEWN(lw->ctx, n->nout + 1, bool);
    int *exits = IR_NEWN(lw->ctx, n->nout + 1, int), nresults = 0;
    int *which = IR_NEWN(lw->ctx, n->nout + 1, int); /* of the node's results */
    for (int i = 0; i < n->nout; i++)
        if (!ir_is_version(n->out[i]->type))
            which[nresults++] = i;
    for (int k = 0; k < nresults; k++) {
        int i = which[k];
        ir_type t = n->out[i]->type;
        object[k] = travels_as_object(lw, t);
        for (int r = 0; r < 2; r++)
            object[k] = object[k] || !same_type(t, n->regions[r]->last->in[i].value->type);
        exits[k] = object[k] ? object_buffer(lw, n->out[i]->name) : lw_buffer(lw, n->out[i]);
    }
    for (int r = 0; r < 2; r++) {
        struct ir_node *yield = n->regions[r]->last;
        if (!lw_lower_block(lw, n->regions[r], &regions[r].steps))
            return false;
        regions[r].nresults = nresults;
        regions[r].exits = exits;
        regions[r].results = IR_NEWN(lw->ctx, nresults + 1, int);
        for (int k = 0; k < nresults; k++)
            regions[r].results[k] = object[k] ? as_object(lw, &regions[r].steps, yield, yield->in[which[k]].value)
                                              : lw_buffer(lw, yield->in[which[k]].value);
    }
    int condition = lw_buffer(lw, n->in[0].value);
    struct kn_step *s = lw_step(lw, to, TCC_STEP_IF, n, 1, &condition);
    s->nregions = 2;
    s->regions = regions;
    for (int k = 0; k < nresults; k++)
        if (object[k])
            arrive(lw, to, n, exits[k], n->out[which[k]]);
    return true;
}

struct loop {
    struct ir_node *n;
    struct ir_block *body;
    int ncarried, nscan;
    int *which, nhanded; /* carried values that are handed over, in order */
    bool *object;        /* per carried value */
    bool *dropped;       /* per collected value: nobody reads it, nor asks for its size */
    int *params, *sequences;
};

struct asked {
    ir_expr sym;
    bool found;
};

static void find_symbol(void *user, ir_expr sym)
{
    struct asked *a = user;
    a->found |= sym == a->sym;
}

/* Does a node from n on, or one inside it, have that symbol? */
static bool asks_for(const struct ir_node *n, ir_expr sym)
{
    struct asked a = {sym, false};
    for (; n && !a.found; n = n->next) {
        pass_each_symbol(n, find_symbol, &a);
        for (int r = 0; r < n->nregions && !a.found; r++)
            a.found = asks_for(n->regions[r]->first, sym);
    }
    return a.found;
}

/* A collection that nobody reads may still be what tells how many iterations there were. */
static bool dropped(const struct lw *lw, const struct ir_value *all)
{
    if (!lw->fuse || ir_has_uses(all))
        return false;
    for (int i = 0; all->type->kind == IR_T_TENSOR && i < all->type->rank; i++)
        if (all->type->dim[i]->kind == IR_X_SYM && !lw_bound(lw, all->type->dim[i]) &&
            asks_for(all->def->next, all->type->dim[i]))
            return false;
    return true;
}

/* Parameters get the first values: iteration and condition are the walker's, carried ones are copied or boxed. */
static void enter(struct lw *lw, struct loop *l, struct kn_steps *to)
{
    struct ir_node *n = l->n;
    for (int i = 0; i < 2; i++)
        l->params[i] = lw_buffer(lw, l->body->params[i]);
    for (int k = 0; k < l->nhanded; k++) {
        int i = l->which[k];
        struct ir_value *first = n->in[2 + i].value, *param = l->body->params[2 + i];
        l->object[k] = travels_as_object(lw, param->type) || !same_type(param->type, first->type) ||
                       !same_type(param->type, n->out[i]->type) ||
                       !same_type(param->type, l->body->last->in[1 + i].value->type);
        if (!l->object[k]) {
            int args[2] = {lw_buffer(lw, first), lw_buffer(lw, param)};
            lw_step(lw, to, TCC_STEP_COPY, n, 2, args);
            l->params[2 + k] = args[1];
        } else {
            int args[2] = {as_object(lw, to, n, first), object_buffer(lw, param->name)};
            lw_step(lw, to, TCC_STEP_REF, n, 2, args);
            l->params[2 + k] = args[1];
        }
    }
    for (int i = 0; i < l->nscan; i++) {
        struct ir_value *all = n->out[l->ncarried + i];
        l->dropped[i] = dropped(lw, all);
        if (lw->collected[all->id] || l->dropped[i])
            continue;
        l->sequences[i] = object_buffer(lw, all->name);
        struct kn_step *s = lw_step(lw, to, TCC_STEP_LIB, n, 1, &l->sequences[i]);
        s->lib = "sequence_empty";
    }
}

static bool lower_body(struct lw *lw, struct loop *l, struct kn_region *r)
{
    struct ir_node *yield = l->body->last;
    for (int k = 0; k < l->nhanded; k++)
        if (l->object[k])
            arrive(lw, &r->steps, l->n, l->params[2 + k], l->body->params[2 + l->which[k]]);
    if (!lw_lower_block(lw, l->body, &r->steps))
        return false;
    for (int i = 0; i < l->nscan; i++) {
        struct ir_value *all = l->n->out[l->ncarried + i];
        if (lw->collected[all->id] || l->dropped[i])
            continue;
        int args[2] = {lw_buffer(lw, yield->in[1 + l->ncarried + i].value), l->sequences[i]};
        lw_step(lw, &r->steps, TCC_STEP_ACCUM, yield, 2, args);
    }
    r->nparams = 2 + l->nhanded;
    r->params = l->params;
    r->exits = l->params + 2;
    r->nresults = 1 + l->nhanded;
    r->results = IR_NEWN(lw->ctx, r->nresults + 1, int);
    r->results[0] = lw_buffer(lw, yield->in[0].value);
    for (int k = 0; k < l->nhanded; k++) {
        struct ir_value *v = yield->in[1 + l->which[k]].value;
        r->results[1 + k] = l->object[k] ? as_object(lw, &r->steps, yield, v) : lw_buffer(lw, v);
    }
    return true;
}

/* Dims and element type of a collected value, for a stack of none: what only the iterations would tell counts as 0. */
static void set_item_dims(struct lw *lw, struct kn_step *s, int object, ir_type t)
{
    if (t->kind != IR_T_TENSOR)
        return;
    lw->buffers.at[object].dtype = t->dtype;
    if (t->rank < 1)
        return;
    s->nsizes = t->rank - 1;
    s->sizes = IR_NEWN(lw->ctx, t->rank, ir_expr);
    for (int i = 1; i < t->rank; i++)
        s->sizes[i - 1] =
            lw_type_bound(lw, ir_tensor_type(lw->ctx, t->dtype, 1, &t->dim[i])) ? t->dim[i] : ir_const(lw->ctx, 0);
}

bool lw_lower_loop(struct lw *lw, struct ir_node *n, struct kn_steps *to)
{
    struct loop l = {.n = n, .body = n->regions[0], .nscan = ir_get_i(n, IR_ATTR_nscan, 0)};
    l.ncarried = n->nout - l.nscan;
    l.object = IR_NEWN(lw->ctx, l.ncarried + 1, bool);
    l.which = IR_NEWN(lw->ctx, l.ncarried + 1, int);
    for (int i = 0; i < l.ncarried; i++)
        if (!ir_is_version(n->out[i]->type))
            l.which[l.nhanded++] = i;
    l.params = IR_NEWN(lw->ctx, l.ncarried + 2, int);
    l.sequences = IR_NEWN(lw->ctx, l.nscan + 1, int);
    l.dropped = IR_NEWN(lw->ctx, l.nscan + 1, bool);
    struct kn_region *region = IR_NEW(lw->ctx, struct kn_region);
    enter(lw, &l, to);
    if (!lower_body(lw, &l, region))
        return false;
    int args[2];
    for (int i = 0; i < 2; i++)
        args[i] = n->in[i].value ? lw_buffer(lw, n->in[i].value) : -1;
    struct kn_step *s = lw_step(lw, to, TCC_STEP_LOOP, n, 2, args);
    s->nregions = 1;
    s->regions = region;
    /* After the last iteration the parameters hold the final values, after no iteration the first ones. */
    for (int k = 0; k < l.nhanded; k++) {
        if (l.object[k])
            arrive(lw, to, n, l.params[2 + k], n->out[l.which[k]]);
        else
            lw->buffer[n->out[l.which[k]]->id] = l.params[2 + k];
    }
    for (int i = 0; i < l.nscan; i++) {
        if (lw->collected[n->out[l.ncarried + i]->id] || l.dropped[i])
            continue;
        int stack[2] = {l.sequences[i], object_buffer(lw, n->out[l.ncarried + i]->name)};
        set_item_dims(lw, lw_step(lw, to, TCC_STEP_STACK, n, 2, stack), stack[1], n->out[l.ncarried + i]->type);
        arrive(lw, to, n, stack[1], n->out[l.ncarried + i]);
    }
    return true;
}
