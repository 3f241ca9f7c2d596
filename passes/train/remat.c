/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recomputation: values of the forward pass that the backward pass reads are recomputed there instead of being kept.
 *
 * The forward pass (all nodes up to the last one that the loss depends on) is cut into segments after Chen, Xu, Zhang,
 * Guestrin, "Training deep nets with sublinear memory cost" (2016, arXiv 1604.06174): a segment ends where about
 * `segment_bytes` of values that are wanted later have come together and fewest bytes cross the cut. What crosses a cut
 * is kept; in the first `segments` segments the rest is computed again from that, each node once, before the first
 * backward node that wants it. Random masks repeat, since their numbers are counted by stream and not by call. A value
 * is never computed again from one that has not been kept for another reason: graph inputs, state, constants, and
 * values of few bytes always are.
 */
#include "passes/train/entry_int.h"

#include <math.h>
#include <string.h>

#define SMALL 4096       /* bytes; such values are kept */
#define SMALL_OF_MANY 64 /* where there is one for each microbatch */

struct remat {
    struct ir_ctx *ctx;
    struct ir_func *func;
    int nnodes, forward; /* nodes of the body in order; the first `forward` are the forward pass */
    struct ir_node **nodes;
    int *position; /* of a top-level node, by id */
    int results;   /* of the function, the first ones: the forward pass's */
    bool part;     /* the function of a stage's segment: its running statistics belong to the forward pass, too */
    int *segment;  /* of a forward node, by position */
    int nsegments, limit;   /* segments; those below limit are recomputed */
    bool *keep;             /* by value id */
    struct ir_value **copy; /* by value id */
    struct ir_builder b;
    struct train_memory *result;
    const struct pass_cost *cost; /* the machine's; NULL: seconds are not asked for */
};

/* The node of the function's body that holds n. */
static int top_position(const struct remat *r, const struct ir_node *n)
{
    while (n->block->parent)
        n = n->block->parent;
    return r->position[n->id];
}

static double bytes_of(const struct ir_value *v)
{
    int64_t dims[TCC_MAX_RANK];
    double bytes = 0;
    if (ir_is_tensor(v->type) && ir_static_dims(v->type, dims)) {
        bytes = tcc_dtype_bytes((enum tcc_dtype)v->type->dtype);
        for (int i = 0; i < v->type->rank; i++)
            bytes *= (double)dims[i];
    }
    return bytes;
}

static bool repeatable(const struct ir_node *n)
{
    const struct ir_op_info *info = ir_op_info(n->op);
    if (n->nregions || info->kind == IR_K_UPDATE ||
        (info->flags & (IR_F_REGIONS | IR_F_DEFINES_SYMS | IR_F_TERMINATOR)))
        return false;
    return !(info->flags & IR_F_EFFECT) || info->kind == IR_K_RANDOM;
}

/* -- Looking at the function --------------------------------------------------------------------------------------- */

static void mark(bool *seen, const struct ir_node *n)
{
    if (!n || seen[n->id])
        return;
    seen[n->id] = true;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value)
            mark(seen, n->in[i].value->def);
    for (int g = 0; g < n->nregions; g++)
        IR_EACH_NODE(inner, n->regions[g])
            mark(seen, inner);
}

static bool is_gradient(const struct ir_node *write)
{
    const struct ir_state *s = ir_state_of(write);
    return s && (s->flags & IR_STATE_GRADIENT);
}

static void number(struct remat *r)
{
    VEC(struct ir_node *) nodes = {0};
    r->position = IR_NEWN(r->ctx, r->func->nnodes + 1, int);
    IR_EACH_NODE(n, r->func->body) {
        r->position[n->id] = nodes.n;
        VEC_PUSH(r->ctx, nodes, n);
    }
    VEC_GIVE(nodes, r->nodes, r->nnodes);
    bool *seen = IR_NEWN(r->ctx, r->func->nnodes + 1, bool);
    for (int i = 0; r->func->body->last && i < r->results && i < r->func->body->last->nin; i++)
        mark(seen, r->func->body->last->in[i].value->def);
    for (int i = 0; i < r->nnodes && r->part; i++)
        if (r->nodes[i]->op == IR_state_write && !is_gradient(r->nodes[i]))
            mark(seen, r->nodes[i]->in[0].value->def);
    for (int i = 0; i < r->nnodes; i++)
        if (seen[r->nodes[i]->id])
            r->forward = i + 1;
}

/* Last use in the forward pass (-1: none), and whether the backward pass uses it. */
static int last_forward_use(const struct remat *r, const struct ir_value *v, bool *wanted)
{
    int last = -1;
    *wanted = false;
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        int at = top_position(r, u->user);
        if (at >= r->forward)
            *wanted |= u->user->op != IR_state_write; /* that is done with what the forward pass made of it */
        else if (at > last)
            last = at;
    }
    return last;
}

/* sum[i]: bytes wanted by the backward pass of nodes before i; crossing[i]: bytes that nodes from i on read of earlier
 * ones. */
static void add_up(struct remat *r, double *sum, double *crossing)
{
    double *ends = IR_NEWN(r->ctx, r->forward + 2, double), live = 0;
    for (int i = 0; i < r->forward; i++) {
        const struct ir_node *n = r->nodes[i];
        sum[i + 1] = sum[i];
        live -= ends[i];
        for (int k = 0; k < n->nout && n->op != IR_state_read && n->op != IR_constant; k++) {
            bool wanted;
            int last = last_forward_use(r, n->out[k], &wanted);
            double bytes = bytes_of(n->out[k]);
            sum[i + 1] += wanted ? bytes : 0;
            if (last > i) {
                live += bytes;
                ends[last] += bytes;
            }
        }
        crossing[i + 1] = live - ends[i + 1];
    }
}

/* Cuts the forward pass, and keeps what crosses. */
static void cut(struct remat *r, double segment_bytes)
{
    double *sum = IR_NEWN(r->ctx, r->forward + 2, double), *crossing = IR_NEWN(r->ctx, r->forward + 2, double);
    int start = 0, segment = 0;
    add_up(r, sum, crossing);
    r->segment = IR_NEWN(r->ctx, r->forward + 1, int);
    while (start < r->forward) {
        int best = -1;
        for (int i = start + 1; i < r->forward && sum[i] - sum[start] <= 1.35 * segment_bytes; i++)
            if (sum[i] - sum[start] >= 0.65 * segment_bytes && (best < 0 || crossing[i] <= crossing[best]))
                best = i;
        if (best < 0) /* one node holds that much, or the end is near */
            for (best = start + 1; best < r->forward && sum[best] - sum[start] < segment_bytes; best++)
                ;
        for (int i = start; i < best; i++)
            r->segment[i] = segment;
        start = best;
        segment++;
    }
    r->nsegments = segment;
}

static void choose_kept(struct remat *r)
{
    for (int i = 0; i < r->forward; i++) {
        const struct ir_node *n = r->nodes[i];
        for (int k = 0; k < n->nout; k++) {
            bool wanted, *keep = &r->keep[n->out[k]->id];
            int last = last_forward_use(r, n->out[k], &wanted);
            *keep =
                r->segment[i] >= r->limit || !repeatable(n) || bytes_of(n->out[k]) <= (r->part ? SMALL_OF_MANY : SMALL);
            *keep |= last >= 0 && r->segment[last] > r->segment[i];
            for (const struct ir_use *u = n->out[k]->uses; u; u = u->next)
                *keep |= u->user->op == IR_return;
        }
    }
}

/* -- Changing it --------------------------------------------------------------------------------------------------- */

static struct ir_value *rematerialise(struct remat *r, struct ir_value *v);

static void rematerialise_node(struct remat *r, const struct ir_node *n)
{
    struct ir_value **in = IR_NEWN(r->ctx, n->nin + 1, struct ir_value *);
    ir_type *types = IR_NEWN(r->ctx, n->nout + 1, ir_type);
    struct ir_attr *attrs = IR_NEWN(r->ctx, n->nattrs + 1, struct ir_attr);
    for (int i = 0; i < n->nin; i++)
        in[i] = n->in[i].value ? rematerialise(r, n->in[i].value) : NULL;
    for (int i = 0; i < n->nout; i++)
        types[i] = n->out[i]->type;
    if (n->nattrs)
        memcpy(attrs, n->attrs, (size_t)n->nattrs * sizeof *attrs);
    struct ir_builder b = r->b;
    b.where = n->where;
    struct ir_node *c = ir_build_typed(&b, n->op, n->nin, in, attrs, n->nout, types);
    for (int i = 0; i < n->nout; i++) {
        c->out[i]->name = n->out[i]->name;
        r->copy[n->out[i]->id] = c->out[i];
    }
    if (r->cost && !pass_is_free(n))
        r->result->seconds += pass_seconds(r->cost, pass_flops(NULL, n, NULL), pass_node_bytes(NULL, n), false);
    r->result->rematerialised++;
}

/* The value as the backward pass is to read it. */
static struct ir_value *rematerialise(struct remat *r, struct ir_value *v)
{
    if (!v->def || v->def->block != r->func->body || r->position[v->def->id] >= r->forward || r->keep[v->id])
        return v;
    if (!r->copy[v->id])
        rematerialise_node(r, v->def);
    return r->copy[v->id];
}

static void rewire(struct remat *r, struct ir_node *n, uint32_t old_values)
{
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *v = n->in[i].value;
        if (v && v->id < old_values && n->op != IR_return) {
            struct ir_value *now = rematerialise(r, v);
            if (now != v)
                ir_set_operand(n, i, now);
        }
    }
    for (int g = 0; g < n->nregions; g++)
        IR_EACH_NODE(inner, n->regions[g])
            rewire(r, inner, old_values);
}

static const char *value_name(const struct ir_value *v)
{
    return v->name ? v->name : v->def && v->def->where.node ? v->def->where.node : "";
}

static void report(struct remat *r, FILE *out)
{
    if (out)
        fprintf(out, "activations that the backward pass of '%s' reads:\n", ir_shown(r->func->name));
    for (int i = 0; i < r->forward && out; i++)
        for (int k = 0; k < r->nodes[i]->nout; k++) {
            const struct ir_value *v = r->nodes[i]->out[k];
            bool wanted,
                of_state = r->nodes[i]->op == IR_state_read || r->nodes[i]->op == IR_constant || ir_is_version(v->type);
            last_forward_use(r, v, &wanted);
            /* What was computed again has no use behind the forward pass any more. */
            if ((wanted || r->copy[v->id]) && !of_state)
                fprintf(out, "%-10s %12.0f  %s%s%s (%s)\n", r->copy[v->id] ? "recomputed" : "kept", bytes_of(v),
                        ir_op_info(r->nodes[i]->op)->name, *value_name(v) ? " " : "", ir_shown(value_name(v)),
                        ir_type_text(r->ctx, v->type));
        }
}

static double wanted_bytes(struct remat *r)
{
    double *sum = IR_NEWN(r->ctx, r->forward + 2, double), *crossing = IR_NEWN(r->ctx, r->forward + 2, double);
    add_up(r, sum, crossing);
    return sum[r->forward];
}

double train_remat_bytes(struct ir_func *f)
{
    struct remat r = {.ctx = f->module->ctx, .func = f, .results = 1};
    number(&r);
    return wanted_bytes(&r);
}

/* The backward pass of a function whose forward pass is cut. */
static void recompute(struct remat *r)
{
    uint32_t old_values = r->func->nvalues;
    r->keep = IR_NEWN(r->ctx, old_values + 1, bool);
    r->copy = IR_NEWN(r->ctx, old_values + 1, struct ir_value *);
    choose_kept(r);
    for (int i = r->forward; i < r->nnodes; i++) {
        r->b = (struct ir_builder){.ctx = r->ctx, .func = r->func, .block = r->func->body, .before = r->nodes[i]};
        if (r->nodes[i]->op != IR_state_write)
            rewire(r, r->nodes[i], old_values);
    }
}

void train_remat(struct ir_func *f, const struct pass_cost *cost, double segment_bytes, int segments,
                 struct train_memory *result, FILE *to)
{
    struct remat r = {
        .ctx = f->module->ctx, .func = f, .results = 1, .limit = segments, .result = result, .cost = cost};
    *result = (struct train_memory){0};
    number(&r);
    cut(&r, segment_bytes);
    result->segments = r.nsegments;
    /* The last segment's values are wanted at once: computing them again saves nothing. */
    if (r.limit > r.nsegments - 1)
        r.limit = r.nsegments - 1;
    recompute(&r);
    report(&r, to);
}

void train_remat_part(struct ir_func *f, int results, struct train_recompute *c, FILE *to)
{
    struct train_memory memory = {0};
    struct remat r = {
        .ctx = f->module->ctx, .func = f, .results = results, .part = true, .limit = c->segments, .result = &memory};
    number(&r);
    cut(&r, c->parts > 1 ? wanted_bytes(&r) / c->parts : INFINITY);
    recompute(&r);
    report(&r, to);
    c->found = r.nsegments > c->found ? r.nsegments : c->found;
    c->rematerialised += memory.rematerialised;
}

static struct ir_module *copy_states(const struct ir_module *from)
{
    struct ir_module *m = ir_module_new(from->ctx, from->name);
    for (const struct ir_state *s = from->states; s; s = s->next) {
        struct ir_state *copy = ir_state_new(m, s->name, s->type, s->init ? ir_tensor_ref(s->init) : NULL, s->flags);
        copy->shard = s->shard;
        copy->sym = s->sym;
        copy->owner = s->owner;
        copy->on_host = s->on_host;
    }
    return m;
}

static void copy_func(struct ir_module *m, const struct ir_func *f)
{
    struct ir_func *c = ir_func_new(m, f->name);
    struct ir_value **map = IR_NEWN(m->ctx, f->nvalues + 1, struct ir_value *);
    int n = f->body->last->nin;
    struct ir_value **results = IR_NEWN(m->ctx, n + 1, struct ir_value *);
    for (int i = 0; i < f->body->nparams; i++)
        map[f->body->params[i]->id] = ir_input_new(c, f->body->params[i]->type, f->input_names[i]);
    struct ir_builder b = {.ctx = m->ctx, .func = c, .block = c->body};
    ir_clone_block(&b, f->body, map, results);
    ir_return(&b, n, results, f->output_names);
}

struct ir_module *train_copy(const struct ir_func *f)
{
    struct ir_module *m = copy_states(f->module);
    copy_func(m, f);
    return m;
}

struct ir_module *train_copy_all(const struct ir_module *from)
{
    struct ir_module *m = copy_states(from);
    for (const struct ir_func *f = from->funcs; f; f = f->next)
        copy_func(m, f);
    return m;
}
