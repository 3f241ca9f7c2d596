/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment's function: a copy of the model from which the other segments' nodes are gone. What they made comes as
 * inputs, what others use goes out; behind it stand the gradients, by the parameters that it reads and by those inputs,
 * of what later segments say the gradient of their part of its results is. So a backward node is always where its
 * forward node is.
 */
#include "passes/parallel/stages_int.h"

int stages_segment_of(const struct stages *x, const struct ir_value *v)
{
    int item = v->def ? x->part->item_of[v->def->id] : -1;
    return item < 0 ? 0 : x->part->items[item].segment;
}

/* -- What crosses -------------------------------------------------------------------------------------------------- */

static bool is_trained(const struct stages *x, const struct ir_node *read)
{
    for (int i = 0; i < x->t->nparams; i++)
        if (x->t->params[i] == ir_state_of(read))
            return true;
    return false;
}

static bool reads_active(const struct ir_node *n, const bool *active)
{
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value && active[n->in[i].value->id])
            return true;
    for (int g = 0; g < n->nregions; g++)
        IR_EACH_NODE(inner, n->regions[g])
            if (reads_active(inner, active))
                return true;
    return false;
}

/* Values that depend on trained parameters. */
static bool *find_active(const struct stages *x)
{
    bool *active = IR_NEWN(x->ctx, x->whole->nvalues + 1, bool);
    IR_EACH_NODE(n, x->whole->body) {
        bool on = n->op == IR_state_read ? is_trained(x, n) : reads_active(n, active);
        for (int k = 0; k < n->nout; k++)
            active[n->out[k]->id] =
                on && ir_is_tensor(n->out[k]->type) && tcc_is_float((enum tcc_dtype)n->out[k]->type->dtype);
    }
    return active;
}

static void consider(struct stages *x, struct ir_value *v, const bool *active)
{
    struct cut_value c = {.v = v, .from = stages_segment_of(x, v), .active = active[v->id]};
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        int item = x->part->item_of[u->user->id];
        if (item < 0 || x->part->items[item].segment == c.from)
            continue;
        if (!c.to)
            c.to = IR_NEWN(x->ctx, x->nsegments, bool);
        c.to[x->part->items[item].segment] = true;
    }
    if (!c.to)
        return;
    c.grad = IR_NEWN(x->ctx, x->nsegments, int);
    for (int s = 0; s < x->nsegments; s++)
        c.grad[s] = -1;
    c.value = stages_value(x, v->name ? v->name : ir_internf(x->ctx, "v%u", v->id), v->type, TCC_SPACE_SLOT, 1);
    VEC_PUSH(x->ctx, x->cut_values, c);
}

void stages_find_cut_values(struct stages *x)
{
    bool *active = find_active(x);
    for (int i = 0; i < x->part->n; i++)
        for (int k = 0; k < x->part->items[i].node->nout; k++)
            consider(x, x->part->items[i].node->out[k], active);
}

/* -- The model's part ---------------------------------------------------------------------------------------------- */

struct building {
    struct stages *x;
    int s;
    struct segment *seg;
    struct entry e;
    struct ir_value **map;  /* of the whole's values */
    struct ir_value **here; /* by cut value: as an input */
    struct {
        struct ir_value **at;
        int n, cap;
    } results;
    struct {
        const char **at;
        int n, cap;
    } names;
};

static void export_value(struct building *b, struct ir_value *v, int value)
{
    VEC_PUSH(b->x->ctx, b->results, v);
    VEC_PUSH(b->x->ctx, b->names, b->x->values.at[value].name);
    VEC_PUSH(b->x->ctx, b->seg->out, value);
}

static struct ir_value *import_value(struct building *b, int value)
{
    const struct kn_buffer *v = &b->x->values.at[value];
    VEC_PUSH(b->x->ctx, b->seg->in, value);
    return ir_input_new(b->e.func, v->type, v->name);
}

/* A source that the segment has no use for, unless it is a result of the model. */
static bool unused(const struct ir_node *old, const struct ir_node *copy)
{
    for (int k = 0; k < copy->nout; k++) {
        if (ir_has_uses(copy->out[k]))
            return false;
        for (const struct ir_use *u = old->out[k]->uses; u; u = u->next)
            if (u->user->op == IR_return)
                return false;
    }
    return true;
}

/* Copies all, and takes away what is not this segment's. */
static void copy_part(struct building *b)
{
    struct stages *x = b->x;
    const struct ir_block *whole = x->whole->body;
    b->map = IR_NEWN(x->ctx, x->whole->nvalues + 1, struct ir_value *);
    for (int i = 0; i < whole->nparams; i++)
        b->map[whole->params[i]->id] = import_value(b, i); /* the first values are the inputs */
    ir_clone_block(&b->e.b, whole, b->map, NULL);
    b->here = IR_NEWN(x->ctx, x->cut_values.n + 1, struct ir_value *);
    for (int i = 0; i < x->cut_values.n; i++) {
        const struct cut_value *c = &x->cut_values.at[i];
        if (!c->to[b->s])
            continue;
        b->here[i] = import_value(b, c->value);
        ir_replace_uses(b->map[c->v->id], b->here[i]);
    }
    const struct ir_node *old = whole->last->prev; /* but for `return` */
    struct ir_node *copy = b->e.func->body->last, *before;
    for (; old; old = old->prev, copy = before) {
        before = copy->prev;
        int item = x->part->item_of[old->id];
        if (item >= 0 ? x->part->items[item].segment != b->s : unused(old, copy))
            ir_remove(copy);
    }
}

static bool add_outputs(struct building *b)
{
    struct stages *x = b->x;
    for (int i = 0; i < x->cut_values.n; i++)
        if (x->cut_values.at[i].from == b->s)
            export_value(b, b->map[x->cut_values.at[i].v->id], x->cut_values.at[i].value);
    const struct ir_node *end = x->whole->body->last;
    for (int i = x->predicts ? 0 : 1; i < end->nin; i++)
        if (stages_segment_of(x, end->in[i].value) == b->s)
            export_value(b, b->map[end->in[i].value->id], x->outputs.at[i].buffer);
    return true;
}

/* Where the scores are made: the loss, and the gradient by the scores. */
static bool add_loss(struct building *b, struct ir_value *scores, struct ir_value **seed)
{
    struct stages *x = b->x;
    struct ir_value *loss, *factor = x->training ? optim_loss_scale(&b->e.b, x->t->o) : NULL;
    int before = b->e.func->body->nparams;
    if (!train_entry_loss_of(&b->e, scores, factor, &loss, x->training ? seed : NULL))
        return false;
    if (b->e.func->body->nparams > before) { /* the target is a new input */
        const char *name = b->e.func->input_names[before];
        ir_type type = b->e.func->body->params[before]->type;
        VEC_PUSH(x->ctx, x->inputs, (struct kn_stage_input){name, type, train_split_axis(x->o, name, type)});
        int value = stages_value(x, name, type, TCC_SPACE_INPUT, x->inputs.n - 1);
        VEC_PUSH(x->ctx, b->seg->in, value);
    }
    if (x->training && !(loss = train_parallel_mean(&b->e.b, x->t->o, loss)))
        return false;
    export_value(b, loss, x->outputs.at[0].buffer);
    return true;
}

/* -- Gradients ----------------------------------------------------------------------------------------------------- */

struct flow {
    struct {
        struct ir_value **at;
        int n, cap;
    } ys, seeds, xs;
};

static struct ir_value *read_of(const struct ir_func *f, const struct ir_state *s)
{
    IR_EACH_NODE(n, f->body) {
        if (n->op == IR_state_read && ir_state_of(n) == s && ir_has_uses(n->out[0]))
            return n->out[0];
    }
    return NULL;
}

static void collect_flow(struct building *b, struct flow *f)
{
    struct stages *x = b->x;
    for (int i = 0; i < x->cut_values.n; i++) {
        struct cut_value *c = &x->cut_values.at[i];
        for (int s = 0; s < x->nsegments && c->from == b->s; s++) {
            if (c->grad[s] < 0)
                continue;
            VEC_PUSH(x->ctx, f->ys, b->map[c->v->id]);
            VEC_PUSH(x->ctx, f->seeds, import_value(b, c->grad[s]));
        }
    }
    for (int i = 0; i < x->t->nparams; i++) {
        struct ir_value *read = read_of(b->e.func, x->t->params[i]);
        if (read)
            VEC_PUSH(x->ctx, f->xs, read);
    }
    for (int i = 0; i < x->cut_values.n; i++)
        if (b->here[i] && x->cut_values.at[i].active)
            VEC_PUSH(x->ctx, f->xs, b->here[i]);
}

static void note_grad(struct building *b, struct ir_state *param, struct ir_value *grad)
{
    int i = 0;
    while (b->x->t->params[i] != param)
        i++;
    b->x->grads[i] = grad;
    VEC_PUSH(b->x->ctx, b->seg->grads, (struct segment_grad){param, grad});
}

static bool add_gradients(struct building *b, struct ir_value *scores, struct ir_value *seed)
{
    struct stages *x = b->x;
    struct flow f = {0};
    collect_flow(b, &f);
    if (seed) {
        VEC_PUSH(x->ctx, f.ys, scores);
        VEC_PUSH(x->ctx, f.seeds, seed);
    }
    struct ir_value **grads = IR_NEWN(x->ctx, f.xs.n + 1, struct ir_value *);
    if (!f.ys.n || !f.xs.n)
        return true;
    if (!grad_build(&b->e.b, f.ys.n, f.ys.at, f.seeds.at, f.xs.n, f.xs.at, grads))
        return false;
    for (int k = 0; k < f.xs.n; k++) {
        if (!grads[k])
            continue;
        if (f.xs.at[k]->def) {
            note_grad(b, ir_state_of(f.xs.at[k]->def), grads[k]);
            continue;
        }
        int i = 0;
        while (b->here[i] != f.xs.at[k])
            i++;
        struct cut_value *c = &x->cut_values.at[i];
        c->grad[b->s] = stages_value(x, ir_internf(x->ctx, "d.%s.%d", x->values.at[c->value].name, b->s),
                                     grads[k]->type, TCC_SPACE_SLOT, 1);
        export_value(b, grads[k], c->grad[b->s]);
    }
    return true;
}

/* Later segments come first: they say which gradients there are. */
bool stages_build_segment(struct stages *x, int s)
{
    struct building b = {.x = x, .s = s, .seg = &x->segments[s]};
    const struct ir_node *end = x->whole->body->last;
    struct ir_value *scores = NULL, *seed = NULL;
    b.e = (struct entry){.t = x->t, .func = ir_func_new(x->m, ir_internf(x->ctx, "%s.segment%d", x->name, s))};
    b.e.b = (struct ir_builder){.ctx = x->ctx, .func = b.e.func, .block = b.e.func->body};
    b.seg->func = b.e.func;
    copy_part(&b);
    if (!add_outputs(&b))
        return false;
    if (!x->predicts && stages_segment_of(x, end->in[0].value) == s) {
        scores = b.map[end->in[0].value->id];
        if (!add_loss(&b, scores, &seed))
            return false;
    }
    b.seg->nforward = b.results.n;
    if (x->training && !add_gradients(&b, scores, seed))
        return false;
    return ir_return(&b.e.b, b.results.n, b.results.at, b.names.at) != NULL;
}
