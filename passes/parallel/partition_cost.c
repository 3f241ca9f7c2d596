/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the nodes of a function cost: time from operations and bytes (the larger of both, and a little for each node),
 * memory from the parameters that it is the first to read and from what it leaves for the backward pass. Dims that are
 * symbols get a guess: only proportions matter.
 *
 * Nodes that read the same parameter stay together. Where what lies between them is little, no cut may go between; else
 * the later ones (an output layer that is the transposed embedding) follow the first one, with the elementwise ops
 * behind them, and their cost counts where they run.
 */
#include "passes/parallel/partition.h"

#define BATCH 8   /* samples, where the batch is a symbol */
#define NEAR 0.05 /* of the whole cost: tied nodes no farther apart are not cut */

bool partition_is_source(const struct ir_node *n)
{
    const struct ir_op_info *info = ir_op_info(n->op);
    if (info->kind == IR_K_SOURCE || n->op == IR_state_version || n->op == IR_state_read || n->op == IR_return)
        return true;
    bool view =
        n->op == IR_reshape || n->op == IR_transpose || n->op == IR_expand || n->op == IR_slice || n->op == IR_cast;
    return view && n->in[0].value && n->in[0].value->def && partition_is_source(n->in[0].value->def);
}

const struct ir_state *partition_state_of(const struct ir_value *v)
{
    while (v && v->def && v->def->op != IR_state_read && v->def->nin == 1 && partition_is_source(v->def))
        v = v->def->in[0].value;
    return v && v->def && v->def->op == IR_state_read ? ir_state_of(v->def) : NULL;
}

static void cost_item(struct partition *p, struct partition_item *it, bool *seen_state)
{
    const struct ir_node *n = it->node;
    bool contracts;
    double flops = pass_flops(&p->sizes, n, &contracts);
    for (int i = 0; i < n->nin; i++) {
        const struct ir_value *v = n->in[i].value;
        const struct ir_state *s = partition_state_of(v);
        bool constant = v && v->def && v->def->op == IR_constant;
        if (s ? !seen_state[s->index] : constant)
            it->params += pass_bytes(&p->sizes, v->type);
        if (s)
            seen_state[s->index] = true;
    }
    for (int i = 0; i < n->nout; i++)
        it->activations += pass_is_free(n) ? 0 : pass_bytes(&p->sizes, n->out[i]->type);
    double time =
        pass_is_free(n) ? 0 : pass_seconds(pass_cost(p->o.machine), flops, pass_node_bytes(&p->sizes, n), false);
    it->time = time * (p->o.training ? contracts ? 3 : 2 : 1);
}

/* -- What stays together ------------------------------------------------------------------------------------------- */

static void visit_states(const struct partition *p, const struct ir_node *n, int item, int *first,
                         void (*each)(struct partition *p, int first, int item, bool written), bool *written)
{
    struct partition *q = (struct partition *)p;
    for (int i = 0; i < n->nin; i++) {
        const struct ir_state *s = partition_state_of(n->in[i].value);
        if (!s || (p->o.shared && p->o.shared[s->index]))
            continue;
        if (first[s->index] < 0)
            first[s->index] = item;
        else if (first[s->index] != item)
            each(q, first[s->index], item, written[s->index]);
    }
    if (n->op == IR_state_write || n->op == IR_state_read) {
        const struct ir_state *s = ir_state_of(n);
        if (s && n->op == IR_state_write) {
            written[s->index] = true;
            if (first[s->index] < 0)
                first[s->index] = item;
            else
                each(q, first[s->index], item, true);
        }
    }
    for (int g = 0; g < n->nregions; g++)
        IR_EACH_NODE(inner, n->regions[g])
            visit_states(p, inner, item, first, each, written);
}

static int root(const struct partition *p, int i)
{
    while (p->items[i].anchor != i)
        i = p->items[i].anchor;
    return i;
}

static void no_cuts(struct partition *p, int first, int last)
{
    for (int i = first + 1; i <= last; i++)
        p->may_cut[i] = false;
}

static void keep_together(struct partition *p, int first, int item, bool written)
{
    double between = 0;
    for (int i = first; i <= item; i++)
        between += p->items[i].cost;
    if (written || between <= NEAR)
        no_cuts(p, first, item);
    else if (root(p, item) == item && root(p, first) != item)
        p->items[item].anchor = root(p, first);
}

/* Ops behind a follower that need little but its result, and belong to nothing else, follow too: softmax behind the
 * output layer. */
static void follow_on(struct partition *p)
{
    for (int i = 0; i < p->n; i++) {
        struct partition_item *it = &p->items[i];
        enum ir_kind kind = ir_op_info(it->node->op)->kind;
        bool light = kind == IR_K_MAP || kind == IR_K_MOVE || kind == IR_K_REDUCE;
        int anchor = -1;
        for (int k = 0; light && k < it->node->nin; k++) {
            const struct ir_value *v = it->node->in[k].value;
            if (!v || !v->def || partition_is_source(v->def)) {
                light = !partition_state_of(v);
                continue;
            }
            int a = p->item_of[v->def->id];
            int r = root(p, a);
            light = r != a && (anchor < 0 || anchor == r);
            anchor = r;
        }
        if (light && anchor >= 0 && it->anchor == i && p->may_cut[i] && (i + 1 > p->n || p->may_cut[i + 1]))
            it->anchor = anchor;
    }
}

static bool knows(const struct partition *p, ir_expr sym);

struct finder {
    const struct partition *p;
    bool unknown;
};

static void look(void *user, ir_expr sym)
{
    struct finder *f = user;
    f->unknown |= !knows(f->p, sym);
}

static void match(void *user, ir_expr sym)
{
    ir_expr *want = user;
    if (sym == *want)
        *want = NULL;
}

/* Is the symbol bound by an input? */
static bool knows(const struct partition *p, ir_expr sym)
{
    for (int i = 0; i < p->func->body->nparams; i++) {
        ir_type t = p->func->body->params[i]->type;
        for (int d = 0; ir_is_tensor(t) && d < t->rank; d++) {
            ir_expr want = sym;
            ir_each_sym(t->dim[d], match, &want);
            if (!want)
                return true;
        }
    }
    return false;
}

/* Objects and values of sizes that are only known while running don't cross. */
static bool can_cross(const struct partition *p, const struct ir_value *v)
{
    struct finder f = {p, false};
    if (!ir_is_tensor(v->type))
        return false;
    for (int d = 0; d < v->type->rank; d++)
        ir_each_sym(v->type->dim[d], look, &f);
    return !f.unknown;
}

static int last_use(const struct partition *p, const struct ir_value *v)
{
    int last = -1;
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        const struct ir_node *n = u->user;
        while (n->block->parent)
            n = n->block->parent;
        int at = p->item_of[n->id];
        last = at > last ? at : last;
    }
    return last;
}

static void cross(struct partition *p)
{
    double *change = IR_NEWN(p->ctx, p->n + 2, double), live = 0;
    for (int i = 0; i < p->n; i++) {
        const struct ir_node *n = p->items[i].node;
        for (int k = 0; k < n->nout; k++) {
            int last = last_use(p, n->out[k]);
            if (last <= i)
                continue;
            if (!can_cross(p, n->out[k]))
                no_cuts(p, i, last);
            change[i + 1] += pass_bytes(&p->sizes, n->out[k]->type);
            change[last + 1] -= pass_bytes(&p->sizes, n->out[k]->type);
        }
        if (n->op == IR_bind) /* the symbol's users can't be told from those of the value */
            no_cuts(p, i, p->n - 1);
    }
    for (int i = 0; i <= p->n; i++) {
        live += change[i];
        p->crossing[i] = live;
    }
}

static void map_nodes(struct partition *p, const struct ir_block *b, int item)
{
    IR_EACH_NODE(n, b) {
        p->item_of[n->id] = item;
        for (int g = 0; g < n->nregions; g++)
            map_nodes(p, n->regions[g], item);
    }
}

static void list_items(struct partition *p)
{
    VEC(struct partition_item) items = {0};
    p->item_of = IR_NEWN(p->ctx, p->func->nnodes + 1, int);
    IR_EACH_NODE(n, p->func->body) {
        p->item_of[n->id] = -1;
        if (partition_is_source(n))
            continue;
        p->item_of[n->id] = items.n;
        for (int g = 0; g < n->nregions; g++)
            map_nodes(p, n->regions[g], items.n);
        VEC_PUSH(p->ctx, items, (struct partition_item){.node = n, .anchor = items.n, .stage = -1});
    }
    VEC_GIVE(items, p->items, p->n);
}

/* State is spread over the parameter's gradient and moments. */
static void mix(struct partition *p)
{
    double time = 0, memory = 0, w = p->o.memory_weight;
    double params = p->o.training ? 4 : 1;
    for (int i = 0; i < p->n; i++) {
        time += p->items[i].time;
        memory += params * p->items[i].params + p->items[i].activations;
    }
    for (int i = 0; i < p->n; i++) {
        struct partition_item *it = &p->items[i];
        double m = params * it->params + it->activations;
        it->cost = (1 - w) * it->time / (time > 0 ? time : 1) + w * m / (memory > 0 ? memory : 1);
    }
}

/* The symbol of the leading dim of the first input that has one; NULL: the batch is a number. */
static ir_expr batch_of(const struct ir_func *f)
{
    for (int i = 0; i < f->body->nparams; i++) {
        ir_type t = f->body->params[i]->type;
        if (ir_is_tensor(t) && t->rank > 0 && t->dim[0]->kind == IR_X_SYM)
            return t->dim[0];
    }
    return NULL;
}

struct partition *partition_analyse(const struct ir_func *f, const struct partition_options *o)
{
    struct ir_ctx *ctx = f->module->ctx;
    struct partition *p = IR_NEW(ctx, struct partition);
    int nstates = 0;
    *p = (struct partition){.ctx = ctx, .func = f, .o = *o};
    for (const struct ir_state *s = f->module->states; s; s = s->next)
        nstates = s->index >= nstates ? s->index + 1 : nstates;
    list_items(p);
    p->sizes = (struct pass_sizes){.batch = batch_of(f), .value = BATCH};
    bool *seen = IR_NEWN(ctx, nstates + 1, bool), *written = IR_NEWN(ctx, nstates + 1, bool);
    int *first = IR_NEWN(ctx, nstates + 1, int);
    for (int i = 0; i < nstates; i++)
        first[i] = -1;
    for (int i = 0; i < p->n; i++)
        cost_item(p, &p->items[i], seen);
    mix(p);
    p->may_cut = IR_NEWN(ctx, p->n + 2, bool);
    p->crossing = IR_NEWN(ctx, p->n + 2, double);
    p->load = IR_NEWN(ctx, p->n + 1, double);
    for (int i = 0; i <= p->n; i++)
        p->may_cut[i] = true;
    cross(p);
    if (!o->map) {
        for (int i = 0; i < p->n; i++)
            visit_states(p, p->items[i].node, i, first, keep_together, written);
        follow_on(p);
    }
    for (int i = 0; i < p->n; i++)
        p->load[root(p, i)] += p->items[i].cost;
    return p;
}
