/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which axes are divided among the ranks of tensor parallel training. A candidate is an axis of a parameter, and what
 * else is cut when it is: found by following it, backwards and forwards, by the rules of tensor.def. Where no rule goes
 * on, or two disagree, ranks must exchange something. Candidates that divide most elements of parameters (each a
 * multiplication a token, in a product) for a byte exchanged come first; what contradicts those taken before is left
 * out.
 */
#include "base/format.h"
#include "passes/parallel/tensor_int.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS 512  /* for how many a parameter is used, where only proportions matter */
#define RESULT 0.25 /* a result is gathered in evaluation alone */
#define LEAST 1.0   /* multiplications a byte: less is not worth a message */

struct candidate {
    struct sharding *cuts;    /* by value */
    bool *node_seen, *summed; /* by node; by value: whole, and its gradient is a sum over the ranks */
    VEC(const struct ir_value *) values;
    VEC(const struct ir_node *) nodes;
    double elements, bytes; /* of parameters that are cut, of what is exchanged */
    VEC(struct tensor_exchange) exchanges;
    double score;
    const struct ir_value *seed;
    bool contracts;    /* a product or an embedding has such a parameter */
    ir_expr undivided; /* size that the ranks don't divide, of `at` */
    const struct ir_node *at;
};

struct chooser {
    struct ir_ctx *ctx;
    struct ir_func *f;
    struct tensor_plan *plan;
    bool *trained;                /* by value: it depends on a parameter, so it has a gradient */
    struct tensor_survey *survey; /* what those taken come to; NULL: nobody asks */
    const char *why;              /* nothing can be cut; NULL: it can, or there is a message */
    VEC(struct candidate) found;
};

static bool is_seen(const struct candidate *c, const struct ir_value *v)
{
    return c->cuts[v->id].kind == SHARD_SPLIT;
}

static void see_node(struct chooser *k, struct candidate *c, const struct ir_node *n)
{
    if (c->node_seen[n->id])
        return;
    c->node_seen[n->id] = true;
    VEC_PUSH(k->ctx, c->nodes, n);
}

static void see(struct chooser *k, struct candidate *c, const struct ir_value *v, struct sharding cut)
{
    if (cut.kind != SHARD_SPLIT || is_seen(c, v))
        return;
    c->cuts[v->id] = cut;
    VEC_PUSH(k->ctx, c->values, v);
    if (v->def)
        see_node(k, c, v->def);
    for (const struct ir_use *u = v->uses; u; u = u->next)
        see_node(k, c, u->user);
}

/* What the node makes of its operand or result `index`; false: nothing. */
static bool follow(struct chooser *k, struct candidate *c, const struct ir_node *n, bool result, int index,
                   struct shard_node *x)
{
    const struct ir_value *v = result ? n->out[index] : n->in[index].value;
    if (shard_try(k->plan, n, result, index, c->cuts[v->id], x))
        return true;
    if (x->undivided && !c->undivided) {
        c->undivided = x->undivided;
        c->at = n;
    }
    return false;
}

static void spread(struct chooser *k, struct candidate *c, const struct ir_node *n, bool result, int index)
{
    struct shard_node x = {0};
    if (!follow(k, c, n, result, index, &x))
        return;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value)
            see(k, c, n->in[i].value, x.in[i]);
    for (int i = 0; i < n->nout; i++)
        see(k, c, n->out[i], x.out[i]);
}

/* All-reduces of the value; a half: it is gathered. */
static void exchange(struct chooser *k, struct candidate *c, const struct ir_node *n, const struct ir_value *v,
                     double times)
{
    c->bytes += 2 * times * shard_bytes(v);
    VEC_PUSH(k->ctx, c->exchanges, (struct tensor_exchange){n, v, times});
}

/* What running the node so has the ranks exchange: by the first of its operands that is cut. */
static void count_node(struct chooser *k, struct candidate *c, const struct ir_node *n)
{
    struct shard_node x = {0};
    bool ok = false;
    if (n->op == IR_state_read || ir_op_info(n->op)->kind == IR_K_SOURCE)
        return;
    for (int i = 0; i < n->nin && !ok; i++)
        if (n->in[i].value && is_seen(c, n->in[i].value))
            ok = follow(k, c, n, false, i, &x);
    bool operands = false;
    for (int i = 0; i < n->nin; i++)
        operands |= n->in[i].value && is_seen(c, n->in[i].value);
    if (!ok && !operands)
        for (int i = 0; i < n->nout && !ok; i++)
            if (is_seen(c, n->out[i]))
                ok = follow(k, c, n, true, i, &x);
    for (int i = 0; i < n->nin; i++) {
        const struct ir_value *v = n->in[i].value;
        if (v && is_seen(c, v) && (!ok || !shard_same(x.in[i], c->cuts[v->id])))
            exchange(k, c, n, v, n->op == IR_return ? RESULT / 2 : 0.5);
        else if (ok && v && x.in[i].kind == SHARD_SPLIT && !is_seen(c, v))
            exchange(k, c, n, v, 0.5); /* its gradient is gathered */
    }
    for (int i = 0; i < n->nout; i++) {
        bool seen = is_seen(c, n->out[i]);
        if (ok && x.out[i].kind != SHARD_REPLICATED && x.out[i].kind != SHARD_SPLIT)
            exchange(k, c, n, n->out[i], 1);
        else if (seen && (!ok || !shard_same(x.out[i], c->cuts[n->out[i]->id])))
            exchange(k, c, n, n->out[i], 0.5);
    }
    for (int i = 0; ok && i < n->nin && n->nout && x.out[0].kind == SHARD_SPLIT; i++) {
        const struct ir_value *v = n->in[i].value;
        if (!v || x.in[i].kind != SHARD_REPLICATED || !k->trained[v->id] || c->summed[v->id] ||
            !tcc_is_float((enum tcc_dtype)v->type->dtype) || partition_state_of(v))
            continue;
        c->summed[v->id] = true;
        exchange(k, c, n, v, 1);
    }
    enum ir_kind kind = ir_op_info(n->op)->kind;
    for (int i = 0; ok && i < n->nin; i++) {
        bool parameter = n->in[i].value && x.in[i].kind == SHARD_SPLIT && partition_state_of(n->in[i].value);
        c->contracts |= parameter && (kind == IR_K_CONTRACT || n->op == IR_gather);
    }
}

static struct candidate *find(struct chooser *k, const struct ir_value *v, struct sharding cut)
{
    struct candidate c = {.seed = v,
                          .cuts = IR_NEWN(k->ctx, k->f->nvalues + 1, struct sharding),
                          .node_seen = IR_NEWN(k->ctx, k->f->nnodes + 1, bool),
                          .summed = IR_NEWN(k->ctx, k->f->nvalues + 1, bool)};
    see(k, &c, v, cut);
    for (int i = 0; i < c.values.n; i++) {
        const struct ir_value *x = c.values.at[i];
        if (x->def)
            spread(k, &c, x->def, true, x->index);
        for (const struct ir_use *u = x->uses; u; u = u->next)
            spread(k, &c, u->user, false, u->index);
    }
    c.bytes = 1;
    for (int i = 0; i < c.nodes.n; i++)
        count_node(k, &c, c.nodes.at[i]);
    for (int i = 0; i < c.values.n; i++)
        if (c.values.at[i]->def && c.values.at[i]->def->op == IR_state_read)
            c.elements += pass_elements(&(struct pass_sizes){0}, c.values.at[i]->type);
    c.score = 2.0 * TOKENS * c.elements / c.bytes;
    VEC_PUSH(k->ctx, k->found, c);
    return &k->found.at[k->found.n - 1];
}

static bool is_found(const struct chooser *k, const struct ir_value *v, struct sharding cut)
{
    for (int i = 0; i < k->found.n; i++)
        if (shard_same(k->found.at[i].cuts[v->id], cut))
            return true;
    return false;
}

static bool is_parameter(const struct ir_node *n)
{
    return n->op == IR_state_read && (ir_state_of(n)->flags & IR_STATE_PARAM) &&
           tcc_is_float((enum tcc_dtype)n->out[0]->type->dtype);
}

static void find_trained(struct chooser *k)
{
    k->trained = IR_NEWN(k->ctx, k->f->nvalues + 1, bool);
    IR_EACH_NODE(n, k->f->body) {
        bool any = is_parameter(n);
        for (int i = 0; i < n->nin; i++)
            any |= n->in[i].value && k->trained[n->in[i].value->id];
        for (int i = 0; i < n->nout; i++)
            k->trained[n->out[i]->id] = any;
    }
}

/* Axes of parameters that products and embeddings read. Where q, k and v come of one product its columns are found from
 * the rows of the product behind attention, in three blocks, so parameters are looked at from the last to the first. */
static void find_all(struct chooser *k)
{
    for (struct ir_node *n = k->f->body->last; n; n = n->prev)
        for (int a = 0; is_parameter(n) && n->out[0]->type->rank > 1 && a < n->out[0]->type->rank; a++) {
            struct sharding c = {SHARD_SPLIT, a, ir_const(k->ctx, 1)};
            if (shard_size(k->plan, n->out[0]->type->dim[a], c) && !is_found(k, n->out[0], c))
                find(k, n->out[0], c);
        }
}

static int better(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->score != y->score        ? (x->score > y->score ? -1 : 1)
           : x->elements > y->elements ? -1
                                       : x->elements < y->elements;
}

static bool fits(const struct chooser *k, const struct candidate *c)
{
    for (int i = 0; i < c->values.n; i++) {
        const struct ir_node *n = c->values.at[i]->def;
        const struct ir_state *s = n && n->op == IR_state_read ? ir_state_of(n) : NULL;
        struct sharding now = s ? k->plan->cuts[s->index] : (struct sharding){0};
        if (s && now.kind == SHARD_SPLIT && !shard_same(now, c->cuts[c->values.at[i]->id]))
            return false;
    }
    return true;
}

static void tell(struct chooser *k, const struct candidate *c)
{
    ir_detail(
        k->ctx, "tensor parallel: axis %d of %s: %.0f elements of parameters, %.3g bytes exchanged, score %.3g%s%s%s",
        c->cuts[c->seed->id].axis, ir_state_of(c->seed->def)->name, c->elements, c->bytes, c->score,
        c->contracts ? "" : ", in no product", c->undivided ? ", split by something that the ranks do not divide" : "",
        fits(k, c) ? "" : ", contradicts better ones");
}

static void take(struct chooser *k, const struct candidate *c)
{
    for (int i = 0; i < c->values.n; i++) {
        const struct ir_node *n = c->values.at[i]->def;
        if (n && n->op == IR_state_read)
            k->plan->cuts[ir_state_of(n)->index] = c->cuts[c->values.at[i]->id];
        if (k->survey)
            k->survey->cut[c->values.at[i]->id] = true;
    }
    for (int i = 0; i < c->exchanges.n && k->survey; i++)
        if (c->exchanges.at[i].node->op != IR_return)
            k->survey->exchanges[k->survey->nexchanges++] = c->exchanges.at[i];
}

/* -- What was chosen, in words ------------------------------------------------------------------------------------- */

static bool complain(struct chooser *k, const struct candidate *c)
{
    k->why = "parts of tensors don't divide an axis";
    if (k->survey)
        return false;
    return ir_error(k->ctx, &c->at->where,
                    "--tensor-parallel=%d does not divide %s: an axis of a parameter is split into so many here",
                    k->plan->parts, ir_expr_text(k->ctx, c->undivided));
}

static void report(struct chooser *k, const char *what)
{
    struct ir_where where = {.file = k->plan->m->name};
    double whole = 0, cut = 0;
    int ncut = 0, n = 0, named = 0;
    const char *names = "";
    IR_EACH_NODE(x, k->f->body) {
        if (!is_parameter(x))
            continue;
        double size = pass_elements(&(struct pass_sizes){0}, x->out[0]->type);
        bool is = k->plan->cuts[ir_state_of(x)->index].kind == SHARD_SPLIT;
        n++;
        ncut += is;
        *(is ? &cut : &whole) += size;
        if (!is && x->out[0]->type->rank > 1 && ++named <= 8)
            names =
                ir_internf(k->ctx, "%s%s%s", names,
                           named > 1 ? ", " : "; whole on every rank besides biases and norms: ", ir_state_of(x)->name);
    }
    ir_diag(k->ctx, &where, IR_D_NOTE,
            "%s parallel: %d of %d parameters, %.1f %% of their elements, are divided among %d ranks%s%s", what, ncut,
            n, 100 * cut / (cut + whole), k->plan->parts, names, named > 8 ? ", ..." : "");
}

/* Products of activations, in attention, have the heads as their last axis but two. */
static bool heads_divide(struct chooser *k)
{
    IR_EACH_NODE(n, k->f->body) {
        enum ir_kind kind = ir_op_info(n->op)->kind;
        ir_type t = kind == IR_K_CONTRACT || kind == IR_K_ATTENTION ? n->in[0].value->type : NULL;
        int axis = kind == IR_K_ATTENTION ? 1 : t ? t->rank - 3 : -1;
        int64_t heads;
        if (!t || t->rank < 4 || partition_state_of(n->in[0].value) || partition_state_of(n->in[1].value))
            continue;
        if (!ir_is_const(t->dim[axis], &heads) || heads < 2 || heads % k->plan->parts == 0)
            continue;
        k->why = "parts of tensors don't divide the heads";
        if (k->survey)
            return false;
        return ir_error(k->ctx, &n->where, "--tensor-parallel=%d does not divide the %lld heads of attention",
                        k->plan->parts, (long long)heads);
    }
    return true;
}

static bool choose(struct chooser *k)
{
    bool any = false;
    if (!heads_divide(k))
        return false;
    find_all(k);
    int nexchanges = 0;
    for (int i = 0; i < k->found.n; i++)
        nexchanges += k->found.at[i].exchanges.n;
    if (k->survey)
        k->survey->exchanges = IR_NEWN(k->ctx, nexchanges + 1, struct tensor_exchange);
    if (k->found.n)
        qsort(k->found.at, k->found.n, sizeof *k->found.at, better);
    for (int broken = 0; broken < 2;
         broken++) /* what is broken somewhere comes last: another cut may have its parameters */
        for (int i = 0; i < k->found.n; i++) {
            struct candidate *c = &k->found.at[i];
            if (!broken && !k->survey)
                tell(k, c);
            if ((c->undivided != NULL) != broken || !c->contracts || c->score < LEAST || !fits(k, c))
                continue;
            if (broken && shard_padding(k->plan, c->seed->type->dim[c->cuts[c->seed->id].axis], c->cuts[c->seed->id]))
                continue; /* nobody expects that */
            if (broken)
                return complain(k, c);
            take(k, c);
            any = true;
        }
    k->why = any ? NULL : "there is nothing that parts of tensors divide";
    return any;
}

static struct chooser chooser_new(struct ir_func *train, int parts, enum tensor_how how)
{
    struct ir_module *m = train->module;
    struct tensor_plan *plan = IR_NEW(m->ctx, struct tensor_plan);
    *plan = (struct tensor_plan){
        .m = m, .parts = parts, .sequence = how == TENSOR_SEQUENCE, .context = how == TENSOR_CONTEXT};
    plan->inputs = IR_NEWN(m->ctx, train->body->nparams + 1, struct shard_input);
    for (const struct ir_state *s = m->states; s; s = s->next)
        plan->nstates = s->index >= plan->nstates ? s->index + 1 : plan->nstates;
    plan->cuts = IR_NEWN(m->ctx, plan->nstates + 1, struct sharding);
    struct chooser k = {.ctx = m->ctx, .f = train, .plan = plan};
    find_trained(&k);
    return k;
}

/* -- The sequence (--context-parallel) ------------------------------------------------------------------------- */

/* The graph can't be divided: in words for who asks what a rank would do, else in a message. */
static bool cannot(struct chooser *k, const struct ir_where *where, const char *why, const char *message, ...)
    __attribute__((format(printf, 4, 5)));
static bool cannot(struct chooser *k, const struct ir_where *where, const char *why, const char *message, ...)
{
    struct ir_where file = {.file = k->plan->m->name};
    FORMATTED(text, 512, message);
    k->why = why;
    if (!k->survey)
        ir_error(k->ctx, where ? where : &file, "%s", text);
    return false;
}

/* Inputs that have the axis of the queries of some attention. */
static void add_inputs(struct chooser *k, const struct candidate *c)
{
    struct tensor_plan *p = k->plan;
    for (int i = 0; i < k->f->body->nparams; i++) {
        const struct ir_value *v = k->f->body->params[i];
        bool known = !is_seen(c, v) || !v->name;
        for (int j = 0; j < p->ninputs && !known; j++)
            known = !strcmp(p->inputs[j].name, v->name);
        if (!known)
            p->inputs[p->ninputs++] = (struct shard_input){v->name, c->cuts[v->id]};
    }
}

/* What a survey is to know of what the ranks exchange besides: `times` all-reduces of the value. */
static void survey_exchange(struct chooser *k, const struct ir_node *n, const struct ir_value *v, double times)
{
    if (k->survey)
        k->survey->exchanges[k->survey->nexchanges++] = (struct tensor_exchange){n, v, times};
}

static void survey_cuts(struct chooser *k, const struct candidate *c)
{
    for (int i = 0; i < c->values.n && k->survey; i++)
        k->survey->cut[c->values.at[i]->id] = true;
}

/* Gradients of parameters that are whole are added up. */
static void survey_gradients(struct chooser *k)
{
    IR_EACH_NODE(n, k->f->body)
        if (is_parameter(n) && k->plan->cuts[ir_state_of(n)->index].kind != SHARD_SPLIT && ir_has_uses(n->out[0]))
            survey_exchange(k, n->out[0]->uses->user, n->out[0], 1);
}

static bool choose_context(struct chooser *k)
{
    bool any = false;
    IR_EACH_NODE(n, k->f->body) {
        struct sharding c = {SHARD_SPLIT, 2, ir_const(k->ctx, 1)};
        if (ir_op_info(n->op)->kind != IR_K_ATTENTION)
            continue;
        any = true;
        if (!shard_size(k->plan, n->in[0].value->type->dim[2], c))
            return cannot(k, &n->where, "the ranks don't divide the sequence",
                          "--context-parallel=%d does not divide a sequence of %s: give its length (--dim)",
                          k->plan->parts, ir_expr_text(k->ctx, n->in[0].value->type->dim[2]));
        const struct candidate *found = find(k, n->in[0].value, c);
        add_inputs(k, found);
        survey_cuts(k, found);
        for (int i = 1; i < 3; i++) { /* there; and back, with the gradients */
            survey_exchange(k, n, n->in[i].value, 0.5);
            survey_exchange(k, n, n->in[i].value, 1);
        }
    }
    if (!k->plan->ninputs)
        return cannot(k, NULL, any ? "the sequence is no axis of an input" : "there is no attention",
                      "--context-parallel=%d: there is no %s", k->plan->parts,
                      any ? "input that has the axis of attention's sequence" : "attention");
    survey_gradients(k);
    return true;
}

struct tensor_plan *tensor_choose_context(struct ir_func *train, int parts)
{
    struct chooser k = chooser_new(train, parts, TENSOR_CONTEXT);
    struct ir_where where = {.file = k.plan->m->name};
    const char *names = "";
    if (!choose_context(&k))
        return NULL;
    for (int i = 0; i < k.plan->ninputs; i++)
        names = ir_internf(k.ctx, "%s%s'%s' (axis %d)", names, i ? ", " : "", k.plan->inputs[i].name,
                           k.plan->inputs[i].c.axis);
    ir_diag(k.ctx, &where, IR_D_NOTE, "context parallel: the sequence, of %s, is divided among %d ranks", names, parts);
    return k.plan;
}

/* -- Experts (--expert-parallel) ------------------------------------------------------------------------------- */

/* Does one product read it, directly or moved? Each expert has products of its own. */
static bool in_one_product(const struct ir_value *v)
{
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        const struct ir_node *n = u->user;
        bool moves = ir_op_info(n->op)->kind == IR_K_MOVE || n->op == IR_cast;
        if ((ir_op_info(n->op)->kind == IR_K_CONTRACT && v->type->rank < 3) || (moves && in_one_product(n->out[0])))
            return true;
    }
    return false;
}

/* What is cut with the experts' axis of a product's parameters: theirs, but not the columns of who chooses among them.
 */
static void take_experts(struct chooser *k, const struct candidate *c)
{
    for (int i = 0; i < c->values.n; i++) {
        const struct ir_value *v = c->values.at[i];
        if (v->def && is_parameter(v->def) && !in_one_product(v))
            k->plan->cuts[ir_state_of(v->def)->index] = c->cuts[v->id];
    }
}

/* Tokens that go to the experts of a product, or come from them: of operand and result the smaller one. */
static void survey_tokens(struct chooser *k, const struct ir_node *n, int parameter)
{
    const struct ir_value *in = n->in[1 - parameter].value, *out = n->out[0];
    survey_exchange(k, n, shard_bytes(in) < shard_bytes(out) ? in : out, 1.0 / k->plan->parts); /* there and back */
}

/* Parameters of products of which there are as many as experts; false after a message. */
static bool find_experts(struct chooser *k)
{
    bool any = false;
    IR_EACH_NODE(n, k->f->body) {
        for (int i = 0; ir_op_info(n->op)->kind == IR_K_CONTRACT && i < 2; i++) {
            const struct ir_value *v = n->in[i].value;
            const struct ir_state *s = partition_state_of(v);
            struct sharding c = {SHARD_SPLIT, v->type->rank - 3, ir_const(k->ctx, 1)};
            if (!s || !(s->flags & IR_STATE_PARAM) || c.axis < 0 || ir_is_value(v->type->dim[c.axis], 1))
                continue;
            if (!shard_size(k->plan, v->type->dim[c.axis], c) || shard_padding(k->plan, v->type->dim[c.axis], c))
                return cannot(k, &n->where, "the ranks don't divide the experts",
                              "--expert-parallel=%d does not divide the %s experts", k->plan->parts,
                              ir_expr_text(k->ctx, v->type->dim[c.axis]));
            const struct candidate *found = find(k, v, c);
            take_experts(k, found);
            survey_cuts(k, found);
            survey_tokens(k, n, i);
            any = true;
        }
    }
    return any || cannot(k, NULL, "there are no experts",
                         "--expert-parallel=%d: there are no experts: no product of a parameter with an axis of its "
                         "own for them",
                         k->plan->parts);
}

/* A batch whose size is open is one that the ranks divide, for who only asks. */
static bool choose_experts(struct chooser *k)
{
    struct tensor_plan *p = k->plan;
    const struct ir_block *body = k->f->body;
    ir_expr samples = NULL;
    if (!find_experts(k))
        return false;
    for (int i = 0; i < body->nparams; i++) {
        const struct ir_value *v = body->params[i];
        struct sharding c = {SHARD_SPLIT, 0, ir_const(k->ctx, 1)};
        if (!v->name || !ir_is_tensor(v->type) || !v->type->rank || (samples && v->type->dim[0] != samples))
            continue;
        samples = v->type->dim[0];
        bool is_open = k->survey && !ir_is_const(samples, &(int64_t){0});
        if (!shard_size(p, samples, c) && !is_open)
            return cannot(k, NULL, "the ranks don't divide the batch",
                          "--expert-parallel=%d does not divide a batch of %s: give its size (--dim)", p->parts,
                          ir_expr_text(k->ctx, samples));
        p->inputs[p->ninputs++] = (struct shard_input){v->name, c};
        if (k->survey)
            survey_cuts(k, find(k, v, c));
    }
    survey_gradients(k);
    return true;
}

struct tensor_plan *tensor_choose_experts(struct ir_func *train, int parts)
{
    struct chooser k = chooser_new(train, parts, TENSOR_EXPERTS);
    if (!choose_experts(&k))
        return NULL;
    report(&k, "expert");
    return k.plan;
}

bool tensor_survey(struct ir_func *train, int parts, enum tensor_how how, struct tensor_survey *out, const char **why)
{
    struct chooser k = chooser_new(train, parts, how);
    *out = (struct tensor_survey){.cut = IR_NEWN(k.ctx, train->nvalues + 1, bool)};
    if (how >= TENSOR_CONTEXT)
        out->exchanges = IR_NEWN(k.ctx, 4 * train->nnodes + 1, struct tensor_exchange);
    k.survey = out;
    bool any = how == TENSOR_CONTEXT ? choose_context(&k) : how == TENSOR_EXPERTS ? choose_experts(&k) : choose(&k);
    *why = k.why;
    return any;
}

struct tensor_plan *tensor_choose(struct ir_func *train, int parts, bool sequence)
{
    struct ir_where where = {.file = train->module->name};
    struct chooser k = chooser_new(train, parts, sequence ? TENSOR_SEQUENCE : TENSOR_PARAMETERS);
    bool any = choose(&k);
    if (any)
        report(&k, "tensor");
    else if (!ir_nerrors(k.ctx))
        ir_error(k.ctx, &where,
                 "--tensor-parallel=%d: there is nothing to divide: no product, attention or embedding has a parameter "
                 "with an axis that %d ranks can share",
                 parts, parts);
    return any ? k.plan : NULL;
}
