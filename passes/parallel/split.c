/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment's function becomes two. What the forward pass's results need is the forward function; the rest is the
 * backward function. What the latter reads of the former is kept, in a slot a microbatch; but sources, and views of
 * what is there anyway, are made again.
 */
#include "passes/parallel/stages_int.h"
#include "passes/util_int.h"

struct pass_split {
    struct stages *x;
    struct segment *seg;
    struct ir_func *func;
    bool *forward;          /* by node id: top-level nodes that the forward pass needs */
    bool *rematerialised;   /* by node id: forward nodes that the backward function runs too */
    struct ir_value **kept; /* values of func that the backward function gets from the forward function */
    int nkept;
    int *kept_value; /* its buffer */
};

static bool is_gradient(const struct ir_state *s)
{
    return s && (s->flags & IR_STATE_GRADIENT);
}

static void mark(bool *seen, const struct ir_node *n)
{
    while (n && n->block->parent)
        n = n->block->parent;
    if (!n || seen[n->id])
        return;
    seen[n->id] = true;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value)
            mark(seen, n->in[i].value->def);
}

static void mark_inner(bool *seen, const struct ir_node *n)
{
    for (int g = 0; g < n->nregions; g++)
        IR_EACH_NODE(inner, n->regions[g]) {
            for (int i = 0; i < inner->nin; i++)
                if (inner->in[i].value && inner->in[i].value->def && !inner->in[i].value->def->block->parent)
                    mark(seen, inner->in[i].value->def);
            mark_inner(seen, inner);
        }
}

static void find_forward(struct pass_split *h)
{
    const struct ir_node *end = h->func->body->last;
    h->forward = IR_NEWN(h->x->ctx, h->func->nnodes + 1, bool);
    for (int i = 0; i < h->seg->nforward; i++)
        mark(h->forward, end->in[i].value->def);
    IR_EACH_NODE(n, h->func->body) {
        if (n->op == IR_state_write && !is_gradient(ir_state_of(n)))
            mark(h->forward, n);
    }
    /* Regions read values around them: until nothing is added. */
    for (int more = 1; more;) {
        more = 0;
        IR_EACH_NODE(n, h->func->body) {
            if (!h->forward[n->id] || !n->nregions)
                continue;
            int before = 0, after = 0;
            IR_EACH_NODE(c, h->func->body)
                before += h->forward[c->id];
            mark_inner(h->forward, n);
            IR_EACH_NODE(c, h->func->body)
                after += h->forward[c->id];
            more |= after > before;
        }
    }
}

static bool is_written(const struct pass_split *h, const struct ir_state *s)
{
    IR_EACH_NODE(n, h->func->body) {
        if (n->op == IR_state_write && ir_state_of(n) == s)
            return true;
    }
    return false;
}

static bool is_source(const struct pass_split *h, const struct ir_node *n)
{
    if (n->op == IR_state_version)
        return true;
    if (n->op == IR_state_read)
        return !is_written(h, ir_state_of(n));
    return ir_op_info(n->op)->kind == IR_K_SOURCE;
}

static bool is_view(const struct ir_node *n)
{
    return n->op == IR_reshape || n->op == IR_transpose || n->op == IR_expand || n->op == IR_slice;
}

/* Views and casts of sources alone: a parameter in the type in which products take it. */
static bool is_cast_source(const struct pass_split *h, const struct ir_node *n)
{
    if (is_source(h, n))
        return true;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value && (!n->in[i].value->def || !is_cast_source(h, n->in[i].value->def)))
            return false;
    return is_view(n) || n->op == IR_cast;
}

/* Costs next to nothing to make again, or no more than a slot for each microbatch does: sources, what they are cast to,
 * and views. */
static bool is_cheap(const struct pass_split *h, const struct ir_node *n)
{
    return is_view(n) || is_cast_source(h, n);
}

static void keep(struct pass_split *h, struct ir_value *v)
{
    for (int i = 0; i < h->nkept; i++)
        if (h->kept[i] == v)
            return;
    const struct ir_node *end = h->func->body->last;
    int value = -1;
    for (int i = 0; i < h->seg->nforward; i++)
        if (end->in[i].value == v)
            value = h->seg->out.at[i]; /* it is there: another segment gets it too */
    h->kept[h->nkept] = v;
    h->kept_value[h->nkept++] = value;
}

static void need(struct pass_split *h, struct ir_value *v)
{
    if (!v || !v->def || v->def->block->parent || !h->forward[v->def->id] || h->rematerialised[v->def->id])
        return;
    if (!is_cheap(h, v->def)) {
        keep(h, v);
        return;
    }
    h->rematerialised[v->def->id] = true;
    for (int i = 0; i < v->def->nin; i++)
        need(h, v->def->in[i].value);
}

static void need_all(struct pass_split *h, const struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++)
        need(h, n->in[i].value);
    for (int g = 0; g < n->nregions; g++)
        IR_EACH_NODE(inner, n->regions[g])
            need_all(h, inner);
}

static void find_kept(struct pass_split *h)
{
    const struct ir_node *end = h->func->body->last;
    h->rematerialised = IR_NEWN(h->x->ctx, h->func->nnodes + 1, bool);
    h->kept = IR_NEWN(h->x->ctx, h->func->nvalues + 1, struct ir_value *);
    h->kept_value = IR_NEWN(h->x->ctx, h->func->nvalues + 1, int);
    IR_EACH_NODE(n, h->func->body) {
        if (!h->forward[n->id] && n != end)
            need_all(h, n);
    }
    for (int i = h->seg->nforward; i < end->nin; i++)
        need(h, end->in[i].value);
}

/* -- Symbols ------------------------------------------------------------------------------------------------------- */

struct symbols {
    struct ir_ctx *ctx;
    struct {
        ir_expr *at;
        int n, cap;
    } used;
};

static void note(void *user, ir_expr sym)
{
    struct symbols *s = user;
    for (int i = 0; i < s->used.n; i++)
        if (s->used.at[i] == sym)
            return;
    if (!sym->extent)
        VEC_PUSH(s->ctx, s->used, sym);
}

static void note_block(struct symbols *s, const struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        pass_each_symbol(n, note, s);
        for (int g = 0; g < n->nregions; g++)
            note_block(s, n->regions[g]);
    }
}

static bool binds(const struct ir_func *f, ir_expr sym)
{
    for (int i = 0; i < f->body->nparams; i++) {
        ir_type t = f->body->params[i]->type;
        for (int d = 0; ir_is_tensor(t) && d < t->rank; d++)
            if (t->dim[d] == sym)
                return true;
    }
    return false;
}

static bool is_input_symbol(const struct stages *x, ir_expr sym)
{
    for (int i = 0; i < x->inputs.n; i++) {
        ir_type t = x->inputs.at[i].type;
        for (int d = 0; ir_is_tensor(t) && d < t->rank; d++)
            if (t->dim[d] == sym)
                return true;
    }
    return false;
}

static void drop_inputs(struct ir_func *f, int *n, int *in)
{
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        if (!ir_has_uses(f->body->params[i]))
            continue;
        f->body->params[kept] = f->body->params[i];
        f->body->params[kept]->index = kept;
        f->input_names[kept] = f->input_names[i];
        in[kept++] = in[i];
    }
    *n = f->body->nparams = kept;
}

/* `in` has room for one more. */
static bool stages_settle_inputs(struct stages *x, struct ir_func *f, int *n, int *in)
{
    struct symbols s = {.ctx = x->ctx};
    ir_expr dims[TCC_MAX_RANK];
    int rank = 0;
    drop_inputs(f, n, in);
    for (int i = 0; i < *n; i++)
        pass_each_type_symbol(f->body->params[i]->type, note, &s);
    note_block(&s, f->body);
    for (int i = 0; i < s.used.n; i++) {
        if (binds(f, s.used.at[i]) || !is_input_symbol(x, s.used.at[i]))
            continue; /* what no input binds is found out inside the function */
        if (rank == TCC_MAX_RANK - 1)
            return train_complain(x->t, "%s", "a stage needs more symbolic sizes than a tensor has dims");
        dims[rank++] = s.used.at[i];
    }
    if (!rank)
        return true;
    dims[rank++] = ir_const(x->ctx, 0);
    ir_type type = ir_tensor_type(x->ctx, TCC_U8, rank, dims);
    ir_input_new(f, type, "sizes");
    in[(*n)++] = stages_value(x, "sizes", type, TCC_SPACE_SIZES, 0);
    return true;
}

/* -- Making the functions ------------------------------------------------------------------------------------------ */

struct pass_part {
    struct ir_func *func;
    struct ir_builder b;
    struct ir_value **map;
    int n;
    int *in;
};

static struct pass_part pass_part_new(struct pass_split *h, const char *name)
{
    struct stages *x = h->x;
    struct pass_part f = {.func = ir_func_new(x->m, name)};
    f.b = (struct ir_builder){.ctx = x->ctx, .func = f.func, .block = f.func->body};
    f.map = IR_NEWN(x->ctx, h->func->nvalues + 1, struct ir_value *);
    f.in = IR_NEWN(x->ctx, h->func->body->nparams + h->nkept + 2, int);
    for (int i = 0; i < h->func->body->nparams; i++) {
        const struct ir_value *p = h->func->body->params[i];
        f.map[p->id] = ir_input_new(f.func, p->type, h->func->input_names[i]);
        f.in[f.n++] = h->seg->in.at[i];
    }
    ir_clone_block(&f.b, h->func->body, f.map, NULL);
    return f;
}

/* Before the copy has an end: with that, versions of state would come to stand elsewhere. */
static void strip(const struct pass_split *h, struct pass_part *f, bool forward)
{
    const struct ir_node *old = h->func->body->last->prev;
    struct ir_node *copy = f->func->body->last, *before;
    for (; old; old = old->prev, copy = before) {
        before = copy->prev;
        if (forward ? !h->forward[old->id] : h->forward[old->id] && !h->rematerialised[old->id])
            ir_remove(copy);
    }
}

static bool writes_state(const struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        if (n->op == IR_state_write)
            return true;
        for (int g = 0; g < n->nregions; g++)
            if (writes_state(n->regions[g]))
                return true;
    }
    return false;
}

/* The part returns n results, the values numbered `out`; *call: its call, left alone where it does nothing. */
static bool end_pass(struct pass_split *h, struct pass_part *f, bool forward, int n, struct ir_value **results,
                     const int *out, int *call)
{
    struct stages *x = h->x;
    int stage = (int)(h->seg - x->segments) % x->o->partitions;
    const char **names = IR_NEWN(x->ctx, n + 1, const char *);
    for (int i = 0; i < n; i++)
        names[i] = x->values.at[out[i]].name;
    strip(h, f, forward);
    ir_return(&f->b, n, results, names);
    if (!writes_state(f->func->body) && !f->func->body->last->nin) {
        ir_func_remove(f->func);
        return true;
    }
    if (!stages_gather(x, stage, &f->b) || !stages_settle_inputs(x, f->func, &f->n, f->in))
        return false;
    *call = stages_call(x, f->func, stage, f->n, f->in, n, out);
    return true;
}

static bool make_forward(struct pass_split *h)
{
    struct stages *x = h->x;
    const struct ir_node *end = h->func->body->last;
    struct pass_part f = pass_part_new(h, ir_internf(x->ctx, "%s.forward%d", x->name, (int)(h->seg - x->segments)));
    int n = h->seg->nforward, total = n;
    struct ir_value **results = IR_NEWN(x->ctx, n + h->nkept + 1, struct ir_value *);
    int *out = IR_NEWN(x->ctx, n + h->nkept + 1, int);
    for (int i = 0; i < n; i++)
        out[i] = h->seg->out.at[i];
    for (int i = 0; i < n; i++)
        results[i] = f.map[end->in[i].value->id];
    for (int i = 0; i < h->nkept; i++) {
        if (h->kept_value[i] >= 0)
            continue;
        const char *name = h->kept[i]->name ? h->kept[i]->name : ir_internf(x->ctx, "kept%u", h->kept[i]->id);
        h->kept_value[i] = out[total] = stages_value(x, name, h->kept[i]->type, TCC_SPACE_SLOT, 1);
        x->values.at[out[total]].memory = !x->t->o->offload_activations;
        results[total++] = f.map[h->kept[i]->id];
    }
    return end_pass(h, &f, true, total, results, out, &h->seg->forward);
}

static bool make_backward(struct pass_split *h)
{
    struct stages *x = h->x;
    const struct ir_node *end = h->func->body->last;
    struct pass_part f = pass_part_new(h, ir_internf(x->ctx, "%s.backward%d", x->name, (int)(h->seg - x->segments)));
    int first = h->seg->nforward, n = end->nin - first;
    struct ir_value **results = IR_NEWN(x->ctx, n + 1, struct ir_value *);
    for (int i = 0; i < h->nkept; i++) {
        struct ir_value *in = ir_input_new(f.func, h->kept[i]->type, x->values.at[h->kept_value[i]].name);
        f.in[f.n++] = h->kept_value[i];
        ir_replace_uses(f.map[h->kept[i]->id], in);
        f.map[h->kept[i]->id] = in;
    }
    for (int i = 0; i < n; i++)
        results[i] = f.map[end->in[first + i].value->id];
    return end_pass(h, &f, false, n, results, h->seg->out.at + first, &h->seg->backward);
}

bool stages_split_passes(struct stages *x, int s)
{
    struct pass_split h = {.x = x, .seg = &x->segments[s], .func = x->segments[s].func};
    h.seg->forward = h.seg->backward = -1;
    find_forward(&h);
    find_kept(&h);
    bool ok = make_forward(&h) && (!x->training || make_backward(&h));
    ir_func_remove(h.func);
    return ok;
}
