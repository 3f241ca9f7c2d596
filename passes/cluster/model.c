/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model as the planner sees it. What is cut is the function that --partitions cuts, with the same costs, so cuts are
 * those that the compiler would make. What a node takes is counted here once more, for any batch: sizes are functions
 * of the batch that are taken for straight lines, through two points. A value that one elementwise node alone reads is
 * taken for fused: it doesn't go to memory, unless the backward pass wants it.
 *
 * What the backward pass wants is found by building it (grad.h) on a copy.
 *
 * With parts of tensors a rank has that part of what the compiler would cut (tensor_survey()) of the same nodes; what
 * ranks exchange is told by node.
 */
#include "passes/cluster/cluster_int.h"
#include "passes/parallel/stages_int.h"
#include "passes/parallel/tensor.h"

#include <string.h>

#define FEW 64 /* samples at which sizes are counted, and twice as many */
#define FIRST_BUCKET 1048576.0
#define BUCKET 26214400.0

struct counter {
    struct ir_ctx *ctx;
    struct stages *x;
    struct plan_model *m;
    ir_expr batch; /* the symbol; NULL: the batch is a number */
    bool *kept;    /* by value id: the backward pass reads it */
    bool *active;  /* by value id: it depends on what is trained */
    bool *trained; /* by state index: has a gradient */
    bool *seen;    /* by state index: counted */
    int nstates;
    /* Of the parts that are counted: */
    int parts;
    enum tensor_how how;
    const bool *cut; /* by value id; NULL: there is one part */
};

/* A rank's part of a value: 1, or 1 / parts. Norms and sums between products are on parts of the sequence. */
static double part_of(const struct counter *k, const struct ir_value *v)
{
    bool activation = v->def && !partition_is_source(v->def) && ir_is_tensor(v->type) && v->type->rank > 2;
    return k->cut && (k->cut[v->id] || (k->how == TENSOR_SEQUENCE && activation)) ? 1.0 / k->parts : 1;
}

static bool is_divided(const struct counter *k, const struct ir_node *n)
{
    for (int i = 0; k->cut && i < n->nin; i++)
        if (n->in[i].value && k->cut[n->in[i].value->id])
            return true;
    for (int i = 0; k->cut && i < n->nout; i++)
        if (k->cut[n->out[i]->id] || (k->how == TENSOR_SEQUENCE && part_of(k, n->out[i]) < 1))
            return true;
    return false;
}

static struct plan_size times(struct plan_size s, double factor)
{
    return (struct plan_size){s.fixed * factor, s.each * factor};
}

/* -- Sizes --------------------------------------------------------------------------------------------------------- */

static struct plan_size line(const struct counter *k, double few, double many)
{
    if (!k->batch)
        return (struct plan_size){0, few / (double)(k->m->fixed_batch > 0 ? k->m->fixed_batch : 1)};
    double each = (many - few) / FEW, fixed = few - FEW * each;
    return (struct plan_size){fixed > 0 ? fixed : 0, each};
}

static double bytes_at(const struct counter *k, ir_type t, int64_t samples)
{
    struct pass_sizes z = {k->batch, samples};
    return pass_bytes(&z, t);
}

static struct plan_size bytes_of(const struct counter *k, ir_type t)
{
    return line(k, bytes_at(k, t, FEW), bytes_at(k, t, 2 * FEW));
}

/* -- The backward pass, built on a copy ---------------------------------------------------------------------------- */

/* Nodes behind `last` that gradients or loss need, latest first. */
static void mark_needed(bool *needed, const struct ir_node *from, const struct ir_node *last)
{
    for (const struct ir_node *n = from; n && n != last; n = n->prev)
        if (needed[n->id])
            for (int i = 0; i < n->nin; i++)
                if (n->in[i].value && n->in[i].value->def)
                    needed[n->in[i].value->def->id] = true;
}

/* A view is made again of what it is a view of; sources are there. */
static void keep(struct counter *k, const struct ir_value *v)
{
    while (v->def && !partition_is_source(v->def) && pass_is_free(v->def) && v->def->in[0].value)
        v = v->def->in[0].value;
    if (v->def && !partition_is_source(v->def))
        k->kept[v->id] = true;
}

static void find_kept(struct counter *k, struct entry *e, const struct ir_node *last, const bool *needed)
{
    const struct ir_func *f = k->x->whole;
    bool *backward = IR_NEWN(k->ctx, e->func->nnodes + 1, bool);
    for (const struct ir_node *n = last->next; n; n = n->next)
        backward[n->id] = needed[n->id];
    IR_EACH_NODE(n, f->body) {
        for (int i = 0; i < n->nout; i++) {
            const struct ir_value *copy = e->map[n->out[i]->id];
            bool read = false;
            for (const struct ir_use *u = copy ? copy->uses : NULL; u; u = u->next)
                read |= backward[ir_outermost(u->user)->id];
            if (read)
                keep(k, n->out[i]);
        }
    }
}

/* What the backward pass reads, and which parameters have a gradient. */
static bool differentiate(struct counter *k)
{
    struct training *t = k->x->t;
    struct entry e = train_entry_new(t, "plan.backward", k->x->whole);
    struct ir_value **reads = IR_NEWN(k->ctx, t->nparams + 1, struct ir_value *), **grads, *loss, *seed;
    grads = IR_NEWN(k->ctx, t->nparams + 1, struct ir_value *);
    for (int i = 0; i < t->nparams; i++)
        reads[i] = train_read_of(&e, t->params[i]);
    const struct ir_node *last = e.func->body->last;
    if (!train_entry_loss_of(&e, e.results[0], NULL, &loss, &seed))
        return false;
    struct ir_value *scores = e.results[0];
    if (!grad_build(&e.b, 1, &scores, &seed, t->nparams, reads, grads))
        return false;
    bool *needed = IR_NEWN(k->ctx, e.func->nnodes + 1, bool);
    if (loss->def)
        needed[loss->def->id] = true;
    for (int i = 0; i < t->nparams; i++)
        if (grads[i] && grads[i]->def) {
            needed[grads[i]->def->id] = true;
            k->trained[t->params[i]->index] = true;
        }
    mark_needed(needed, e.func->body->last, last);
    find_kept(k, &e, last, needed);
    return true;
}

/* -- Nodes --------------------------------------------------------------------------------------------------------- */

static bool elementwise(const struct ir_node *n)
{
    enum ir_kind kind = ir_op_info(n->op)->kind;
    return kind == IR_K_MAP || kind == IR_K_REDUCE;
}

/* Does one elementwise node alone read it? */
static bool is_fused(const struct ir_value *v)
{
    const struct ir_use *u = v->uses;
    return u && !u->next && elementwise(u->user) && v->def && ir_op_info(v->def->op)->kind != IR_K_LIBRARY;
}

static void count_state(struct counter *k, struct plan_item *it, const struct ir_state *s, double part)
{
    double n = s && !k->seen[s->index] ? part * pass_elements(NULL, s->type) : 0;
    if (n <= 0)
        return;
    k->seen[s->index] = true;
    it->weights += n * tcc_dtype_bytes((enum tcc_dtype)s->type->dtype);
    if (k->trained[s->index])
        it->trained += n * (s->type->dtype == TCC_F64 ? 8 : 4);
}

static void count_operands(struct counter *k, struct plan_item *it, const struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++) {
        const struct ir_value *v = n->in[i].value;
        if (!v)
            continue;
        const struct ir_state *s = partition_state_of(v);
        bool source = v->def && partition_is_source(v->def);
        struct plan_size bytes = bytes_of(k, v->type);
        if (source && !k->batch)
            bytes = (struct plan_size){bytes_at(k, v->type, 0), 0};
        bytes = times(bytes, part_of(k, v));
        if (s)
            count_state(k, it, s, part_of(k, v));
        if (v->def && v->def->op == IR_constant)
            it->weights += bytes.fixed;
        bool gathers = n->op == IR_gather && i == 0; /* reads as much as it writes */
        if (!is_fused(v) && !gathers)
            plan_add(&it->bytes, bytes);
        if (!source)
            plan_add(&it->work, bytes);
        if (v->def && k->active[v->id] && !source)
            plan_add(&it->work, bytes);
    }
}

static void count_node(struct counter *k, struct plan_item *it, int i)
{
    const struct ir_node *n = k->m->part->items[i].node;
    struct pass_sizes few = {k->batch, FEW}, many = {k->batch, 2 * FEW};
    bool contracts;
    it->flops = times(line(k, pass_flops(&few, n, &contracts), pass_flops(&many, n, &contracts)),
                      is_divided(k, n) ? 1.0 / k->parts : 1);
    it->backward = contracts ? 2 : 1;
    it->free = pass_is_free(n);
    const struct ir_value *a = n->nin ? n->in[0].value : NULL;
    it->half = contracts && a && ir_is_tensor(a->type) && (a->type->dtype == TCC_BF16 || a->type->dtype == TCC_F16);
    count_operands(k, it, n);
    for (int o = 0; o < n->nout; o++) {
        struct plan_size bytes = times(bytes_of(k, n->out[o]->type), part_of(k, n->out[o]));
        bool kept = k->kept[n->out[o]->id];
        if (kept)
            plan_add(&it->kept, bytes);
        if (kept || !is_fused(n->out[o]))
            plan_add(&it->bytes, bytes);
        plan_add(&it->work, bytes);
        plan_add(&it->work, bytes);
    }
}

/* What depends on trained parameters: in the order of the nodes. */
static void find_active(struct counter *k)
{
    IR_EACH_NODE(n, k->x->whole->body) {
        bool active = n->nregions > 0;
        const struct ir_state *s = n->op == IR_state_read ? ir_state_of(n) : NULL;
        active |= s && k->trained[s->index];
        for (int i = 0; i < n->nin; i++)
            active |= n->in[i].value && k->active[n->in[i].value->id];
        for (int i = 0; i < n->nout; i++)
            k->active[n->out[i]->id] =
                active && ir_is_tensor(n->out[i]->type) && tcc_is_float((enum tcc_dtype)n->out[i]->type->dtype);
    }
}

static void list_values(struct counter *k)
{
    struct partition *p = k->m->part;
    VEC(struct plan_value) values = {0};
    for (int i = 0; i < p->n; i++)
        for (int o = 0; o < p->items[i].node->nout; o++) {
            const struct ir_value *v = p->items[i].node->out[o];
            VEC(int) users = {0};
            for (const struct ir_use *u = v->uses; u; u = u->next) {
                int at = p->item_of[ir_outermost(u->user)->id];
                if (at > i)
                    VEC_PUSH(k->ctx, users, at);
            }
            if (users.n)
                VEC_PUSH(k->ctx, values,
                         (struct plan_value){i, users.n, users.at, bytes_of(k, v->type), k->active[v->id]});
        }
    VEC_GIVE(values, k->m->values, k->m->nvalues);
}

/* -- The whole ----------------------------------------------------------------------------------------------------- */

/* The axis on which inputs are split: a symbol, or a number. */
static void find_batch(struct counter *k)
{
    const struct ir_func *f = k->x->whole;
    for (int i = 0; i < f->body->nparams; i++) {
        ir_type t = f->body->params[i]->type;
        int axis = train_split_axis(k->x->o, f->input_names[i], t);
        int64_t n;
        if (axis < 0 || k->batch)
            continue;
        if (t->dim[axis]->kind == IR_X_SYM)
            k->batch = t->dim[axis];
        else if (ir_is_const(t->dim[axis], &n) && !k->m->fixed_batch)
            k->m->fixed_batch = n;
    }
    if (k->batch)
        k->m->fixed_batch = 0;
    k->m->batch = k->batch ? k->batch->name : NULL;
}

/* Other symbols of inputs. */
static void list_sizes(struct counter *k)
{
    const struct ir_func *f = k->x->whole;
    VEC(const char *) names = {0};
    for (int i = 0; i < f->body->nparams; i++) {
        ir_type t = f->body->params[i]->type;
        for (int d = 0; ir_is_tensor(t) && d < t->rank; d++) {
            bool new = t->dim[d]->kind == IR_X_SYM && t->dim[d] != k->batch && t->dim[d]->name;
            for (int n = 0; n < names.n && new; n++)
                new = strcmp(names.at[n], t->dim[d]->name) != 0;
            if (new)
                VEC_PUSH(k->ctx, names, t->dim[d]->name);
        }
    }
    VEC_PUSH(k->ctx, names, NULL);
    k->m->sizes = names.at;
}

static bool add_states(struct counter *k)
{
    struct training *t = k->x->t;
    for (const struct ir_state *s = t->m->states; s; s = s->next)
        k->m->weights += pass_bytes(NULL, s->type);
    if (!optim_states(t->m, t->o, t->nparams, t->params))
        return false;
    for (const struct ir_state *s = t->m->states; s; s = s->next)
        if (s->flags & IR_STATE_OPTIMIZER)
            k->m->state += pass_bytes(NULL, s->type);
    return true;
}

static void add_loss(struct counter *k)
{
    struct plan_size scores = bytes_of(k, k->x->whole->body->last->in[0].value->type);
    k->m->scores_each = scores.each;
    k->m->loss_fixed = scores.fixed;
}

/* -- Parts of tensors ---------------------------------------------------------------------------------------------- */

/* What a node's exchanges move: forward, of what it makes or takes; backward, the gradient of what it takes whole. */
static void add_exchanges(struct counter *k, struct plan_part *p, const struct tensor_survey *s)
{
    for (int i = 0; i < s->nexchanges; i++) {
        const struct tensor_exchange *e = &s->exchanges[i];
        int item = k->m->part->item_of[ir_outermost(e->node)->id];
        bool backward = e->times >= 1 && !(e->value->def == e->node);
        double more = backward && k->how == TENSOR_SEQUENCE
                          ? e->times + 0.5
                          : e->times; /* gathered once more for the weight's gradient */
        if (item < 0)
            continue;
        p->items[item].exchanges[backward]++;
        plan_add(&p->items[item].exchanged[backward], times(bytes_of(k, e->value->type), more));
    }
}

/* Is the last axis but the features one that so many ranks can share, in all that lies between products? */
static bool sequence_divides(const struct counter *k)
{
    int64_t n;
    for (int i = 0; i < k->m->part->n; i++) {
        ir_type t = k->m->part->items[i].node->nout ? k->m->part->items[i].node->out[0]->type : NULL;
        if (t && ir_is_tensor(t) && t->rank == 3)
            return ir_is_const(t->dim[1], &n) && n % k->parts == 0;
    }
    return false;
}

static struct plan_part *count_part(struct counter *k, int parts, enum tensor_how how)
{
    struct plan_part *p = IR_NEW(k->ctx, struct plan_part);
    struct tensor_survey survey = {0};
    *p = (struct plan_part){.parts = parts, .how = how};
    k->parts = parts;
    k->how = how;
    if (parts > 1 && !tensor_survey(k->x->whole, parts, how, &survey, &p->why))
        return p;
    if (how == TENSOR_SEQUENCE && !sequence_divides(k)) {
        p->why = "parts of tensors don't divide the sequence";
        return p;
    }
    k->cut = survey.cut;
    memset(k->seen, 0, (size_t)k->nstates * sizeof *k->seen);
    p->items = IR_NEWN(k->ctx, k->m->part->n + 1, struct plan_item);
    for (int i = 0; i < k->m->part->n; i++)
        count_node(k, &p->items[i], i);
    for (int i = 0; i < k->m->part->n; i++)
        p->trained += p->items[i].trained;
    add_exchanges(k, p, &survey);
    const struct ir_value *scores = k->x->whole->body->last->in[0].value;
    p->scores = part_of(k, scores);
    return p;
}

void plan_set_measure(struct plan_model *m, int parts, enum tensor_how how, struct plan_measure *measure)
{
    for (struct plan_part *p = m->parts; p; p = p->next)
        if (p->parts == parts && p->how == how)
            p->measure = measure;
}

const struct plan_part *plan_part(struct plan_model *m, int parts, enum tensor_how how)
{
    struct plan_part **at = &m->parts;
    while (*at && ((*at)->parts != parts || (*at)->how != how))
        at = &(*at)->next;
    if (!*at)
        *at = count_part(m->counter, parts, how);
    (*at)->state = m->trained > 0 ? m->state * (*at)->trained / m->trained : 0;
    return *at;
}

static struct counter *counter_new(const struct stages *from, struct plan_model *m)
{
    struct stages *x = IR_NEW(m->ctx, struct stages);
    struct counter *k = IR_NEW(m->ctx, struct counter);
    int nstates = 0;
    *x = *from;
    *k = (struct counter){.ctx = x->ctx, .x = x, .m = m};
    for (const struct ir_state *s = x->m->states; s; s = s->next)
        nstates = s->index >= nstates ? s->index + 1 : nstates;
    k->nstates = nstates;
    k->kept = IR_NEWN(x->ctx, x->whole->nvalues + 1, bool);
    k->active = IR_NEWN(x->ctx, x->whole->nvalues + 1, bool);
    k->trained = IR_NEWN(x->ctx, nstates + 1, bool);
    k->seen = IR_NEWN(x->ctx, nstates + 1, bool);
    return k;
}

struct plan_model *plan_model_new(struct ir_module *module, const struct train_options *o)
{
    struct training *own = IR_NEW(module->ctx, struct training), t = {0};
    struct stages x;
    int *how;
    if (!train_begin(&t, module, o) || !stages_analyse(&t, &x, &how))
        return NULL;
    struct plan_model *m = IR_NEW(module->ctx, struct plan_model);
    *m = (struct plan_model){.ctx = module->ctx, .name = module->name, .part = x.part};
    m->bucket_cap = o->bucket_cap_mb > 0 ? o->bucket_cap_mb * 1048576 : BUCKET;
    m->bucket_first = o->bucket_cap_mb > 0 ? m->bucket_cap : FIRST_BUCKET;
    struct counter *k = counter_new(&x, m);
    *own = t;
    k->x->t = own;
    if (!differentiate(k))
        return NULL;
    find_batch(k);
    list_sizes(k);
    find_active(k);
    m->counter = k;
    m->parts = count_part(k, 1, TENSOR_PARAMETERS);
    m->trained = m->parts->trained;
    list_values(k);
    add_loss(k);
    m->micros = o->stages->microbatches == 1 ? 1 : 0;
    return add_states(k) ? m : NULL;
}
