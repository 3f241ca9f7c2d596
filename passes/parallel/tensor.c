/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor parallel training: the functions of a training program rewritten for one of the ranks (tensor.h).
 *
 * Nodes are taken in their order. One whose operands are whole is copied. Else each of its operands' cuts says, by the
 * node's rule, what the other operands must be and what the results are; the choice that has the ranks exchange fewest
 * bytes is taken. Sums over ranks are left open while what follows is linear, and closed where somebody needs more: by
 * an all-reduce, or, with sequence parallel norms, by a reduce-scatter along the sequence, whose inverse is an
 * all-gather in front of the next product. What the forward pass has gathered the backward pass gathers again
 * (Korthikanti et al. 2022, section 4.2.2).
 *
 * Where a part is needed of what is whole, what makes it is made once more for the part alone, if it is cheap; what
 * then nobody reads is removed by dce.
 */
#include "passes/parallel/tensor_int.h"

#include <string.h>

#define NEVER 1e30
#define PARAMETER 64 /* to gather a parameter counts as so many times its bytes: it is why there are ranks */
#define DEEP 100     /* nodes in a row that are made once more */

/* A value in another form than that in which it was made. */
struct form {
    struct sharding c;
    struct ir_value *v;
    bool behind; /* made in the backward pass */
    struct form *next;
};

static struct ir_value *in_form(struct rewriter *w, struct ir_value *old, struct sharding c);

static const struct sharding whole = {.kind = SHARD_REPLICATED};

/* -- Forms --------------------------------------------------------------------------------------------------------- */

static bool is_visible(const struct rewriter *w, const struct ir_value *v)
{
    const struct ir_block *b = w->b.block;
    while (b && b != v->block)
        b = b->parent ? b->parent->block : NULL;
    return b != NULL;
}

static bool usable(const struct rewriter *w, const struct ir_value *old, const struct form *f)
{
    bool gathered = f->c.kind == SHARD_REPLICATED && w->cuts[old->id].kind == SHARD_SPLIT;
    return is_visible(w, f->v) && (!gathered || !w->plan->sequence || f->behind == w->behind);
}

static struct ir_value *find_form(const struct rewriter *w, const struct ir_value *old, struct sharding c)
{
    for (const struct form *f = w->forms[old->id]; f; f = f->next)
        if (shard_same(f->c, c) && usable(w, old, f))
            return f->v;
    return NULL;
}

/* A part of it that is there already, of what is a sum. */
static const struct form *find_part(const struct rewriter *w, const struct ir_value *old)
{
    for (const struct form *f = w->forms[old->id]; f; f = f->next)
        if (f->c.kind == SHARD_SPLIT && usable(w, old, f))
            return f;
    return NULL;
}

static struct ir_value *keep_form(struct rewriter *w, const struct ir_value *old, struct sharding c, struct ir_value *v)
{
    struct form *f = IR_NEW(w->ctx, struct form);
    *f = (struct form){c, v, w->behind, w->forms[old->id]};
    if (v)
        w->forms[old->id] = f;
    return v;
}

/* Zeros, however they were expanded. */
static bool is_zero(const struct ir_value *v)
{
    double x;
    while (v->def && (v->def->op == IR_expand || v->def->op == IR_reshape))
        v = v->def->in[0].value;
    return ir_splat_f(v, &x) && x == 0;
}

/* Bytes exchanged to have it in that form. */
static double form_cost(struct rewriter *w, struct ir_value *old, struct sharding c)
{
    struct sharding now = w->cuts[old->id];
    double bytes = shard_bytes(old);
    if (shard_same(now, c) || find_form(w, old, c))
        return 0;
    bool have = now.kind == SHARD_REPLICATED || find_form(w, old, whole);
    switch (c.kind) {
    case SHARD_SPLIT:
        if (have)
            return 0;
        if (now.kind == SHARD_SPLIT && shard_can_reshard(w, old->type, now, c))
            return bytes / w->parts * (partition_state_of(old) ? PARAMETER : 1);
        return now.kind == SHARD_SPLIT ? bytes : now.kind == SHARD_SUM && !find_part(w, old) ? bytes : 2 * bytes;
    case SHARD_REPLICATED:
        if (now.kind == SHARD_SPLIT || find_part(w, old))
            return bytes * (partition_state_of(old) ? PARAMETER : 1);
        return 2 * bytes;
    case SHARD_SUM: return have && (is_zero(old) || !old->type->rank) ? 0 : NEVER;
    default: return have ? 0 : NEVER;
    }
}

/* -- Once more, for a part ----------------------------------------------------------------------------------------- */

static bool is_source(const struct ir_value *v, int depth)
{
    const struct ir_node *n = v->def;
    enum ir_kind kind = n ? ir_op_info(n->op)->kind : IR_K_COLLECTIVE;
    if (kind == IR_K_SOURCE)
        return true;
    if (depth > 8 || (kind != IR_K_MAP && n && !pass_is_free(n)) || !n)
        return false;
    for (int i = 0; i < n->nin; i++)
        if (!n->in[i].value || (!is_source(n->in[i].value, depth + 1) && n->in[i].value->type->rank))
            return false;
    return true;
}

/* Is its node to be made once more for that part? *x: how. */
static bool remakes(struct rewriter *w, struct ir_value *old, struct sharding c, int depth, struct shard_node *x)
{
    struct ir_node *n = old->def;
    enum ir_kind kind = n ? ir_op_info(n->op)->kind : IR_K_SOURCE;
    if (!n || depth > DEEP || (kind != IR_K_MAP && kind != IR_K_MOVE) || w->cuts[old->id].kind != SHARD_REPLICATED)
        return false;
    bool placed = n->op == IR_expand || n->op == IR_concat || n->op == IR_scatter_nd || n->op == IR_scatter_elements;
    if (!placed && !ir_has_one_use(old) && !is_source(old, 0))
        return false;
    if (!shard_try(w->plan, n, true, old->index, c, x))
        return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value && form_cost(w, n->in[i].value, x->in[i]) > 0)
            return false;
    return true;
}

static struct ir_value *part_of(struct rewriter *w, struct ir_value *old, struct sharding c, int depth)
{
    struct shard_node x = {0};
    struct sharding now = w->cuts[old->id];
    struct ir_value *v = shard_same(now, c) ? w->main[old->id] : find_form(w, old, c);
    if (v)
        return v;
    if (now.kind == SHARD_SPLIT && !find_form(w, old, whole) && shard_can_reshard(w, old->type, now, c))
        return keep_form(w, old, c, shard_reshard(w, w->main[old->id], now, c));
    if (!remakes(w, old, c, depth, &x)) {
        v = in_form(w, old, whole);
        return keep_form(w, old, c, v ? shard_take_part(w, v, c) : NULL);
    }
    struct ir_value **in = IR_NEWN(w->ctx, x.n->nin + 1, struct ir_value *);
    for (int i = 0; i < x.n->nin; i++) {
        struct ir_value *o = x.n->in[i].value;
        in[i] = !o ? NULL : x.in[i].kind == SHARD_SPLIT ? part_of(w, o, x.in[i], depth + 1) : in_form(w, o, x.in[i]);
        if (o && !in[i])
            return NULL;
    }
    struct ir_value **made = shard_row_of(x.n->op)->build(w, &x, in);
    return keep_form(w, old, c, made ? made[old->index] : NULL);
}

/* -- To another form ----------------------------------------------------------------------------------------------- */

/* A part that was only moved is gathered where it came from: who else needs that has it then. NULL: it was not, or
 * after a diagnostic. */
static struct ir_value *gather_moved(struct rewriter *w, struct ir_value *old)
{
    struct ir_node *n = old->def;
    if (!n || (n->op != IR_reshape && n->op != IR_transpose) || w->cuts[n->in[0].value->id].kind != SHARD_SPLIT)
        return NULL;
    struct ir_value *from = in_form(w, n->in[0].value, whole);
    struct ir_builder b = w->b;
    b.where = n->where;
    struct ir_node *made = from ? ir_build_typed(&b, n->op, 1, &from, n->attrs, 1, &old->type) : NULL;
    return made ? made->out[0] : NULL;
}

/* What this rank adds to the sum: all of it, on rank 0. */
static struct ir_value *as_summand(struct rewriter *w, struct ir_value *old)
{
    struct ir_builder *b = &w->b;
    struct ir_value *v = in_form(w, old, whole);
    if (!v || is_zero(old))
        return v;
    enum tcc_dtype dtype = (enum tcc_dtype)v->type->dtype;
    struct ir_value *zero = ir_constant_i(b, TCC_I64, 0);
    struct ir_value *first = ir_binary(b, IR_eq, shard_offset(w, ir_const(w->ctx, 1)), zero);
    return ir_select(b, first, v, tcc_is_float(dtype) ? ir_constant_f(b, dtype, 0) : ir_constant_i(b, dtype, 0));
}

static struct ir_value *make_form(struct rewriter *w, struct ir_value *old, struct sharding c)
{
    struct sharding now = w->cuts[old->id];
    struct ir_value *v = w->main[old->id];
    const struct form *part = find_part(w, old);
    bool have = now.kind == SHARD_REPLICATED || find_form(w, old, whole);
    switch (c.kind) {
    case SHARD_SPLIT:
        if (!have && now.kind == SHARD_SUM && !part)
            return keep_form(w, old, c, shard_reduce_scatter(w, v, c));
        return part_of(w, old, c, 0);
    case SHARD_REPLICATED:
        if (now.kind == SHARD_SPLIT && (v = gather_moved(w, old)))
            return keep_form(w, old, c, v);
        v = w->main[old->id];
        if (now.kind == SHARD_SPLIT || part)
            return keep_form(w, old, c,
                             now.kind == SHARD_SPLIT ? shard_all_gather(w, v, old->type, now)
                                                     : shard_all_gather(w, part->v, old->type, part->c));
        return keep_form(w, old, c, shard_all_reduce(w, v, now.kind));
    case SHARD_SUM: return keep_form(w, old, c, as_summand(w, old));
    default: return in_form(w, old, whole);
    }
}

/* NULL after a diagnostic. */
static struct ir_value *in_form(struct rewriter *w, struct ir_value *old, struct sharding c)
{
    struct ir_value *v = shard_same(w->cuts[old->id], c) ? w->main[old->id] : find_form(w, old, c);
    return v ? v : make_form(w, old, c);
}

/* -- Nodes --------------------------------------------------------------------------------------------------------- */

/* The axis on which a sum becomes a part with sequence parallel norms: the last but for the one of features. */
static bool sequence_cut(const struct rewriter *w, ir_type t, struct sharding *c)
{
    for (int a = t->rank - 2; a >= 0; a--) {
        ir_expr size = t->dim[a];
        int64_t factor = 0;
        for (int i = 0; size->kind == IR_X_MUL && i < size->nargs; i++)
            ir_is_const(size->arg[i], &factor);
        ir_expr outer = factor ? shard_divide(w->ctx, size, ir_const(w->ctx, factor)) : ir_const(w->ctx, 1);
        *c = (struct sharding){SHARD_SPLIT, a, outer};
        if (outer && shard_size(w->plan, size, *c) && !shard_padding(w->plan, size, *c))
            return true;
    }
    return false;
}

/* The variable that a result belongs to: an update's values have its dims and are computed from it element by
 * element. */
static const struct ir_state *owner_of(const struct rewriter *w, const struct ir_node *n)
{
    for (int i = 0; i < n->nin && ir_op_info(n->op)->kind == IR_K_MAP; i++) {
        const struct ir_value *v = n->in[i].value;
        if (v && w->owner[v->id] && ir_same_dims(v->type, n->out[0]->type))
            return w->owner[v->id];
    }
    return NULL;
}

static struct sharding state_cut(const struct rewriter *w, const struct ir_state *s)
{
    return s->index < w->plan->nstates ? w->plan->cuts[s->index] : whole;
}

/* What it costs to run n so. */
static double run_cost(struct rewriter *w, const struct shard_node *x)
{
    const struct ir_node *n = x->n;
    const struct ir_state *owner = n->nout ? owner_of(w, n) : NULL;
    double cost = 0;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value)
            cost += form_cost(w, n->in[i].value, x->in[i]);
    for (int i = 0; i < n->nout; i++) {
        if (x->out[i].kind != SHARD_REPLICATED && x->out[i].kind != SHARD_SPLIT)
            cost += shard_bytes(n->out[i]) * (w->plan->sequence ? 1 : 2);
        else if (owner && !shard_same(state_cut(w, owner), x->out[i])) /* it is brought back for the variable */
            cost += 2 * shard_bytes(n->out[i]);
    }
    return cost;
}

static void consider(struct rewriter *w, const struct ir_node *n, int i, struct sharding c, struct shard_node *best,
                     double *least)
{
    struct shard_node x = {0};
    if (c.kind == SHARD_REPLICATED || !shard_try(w->plan, n, false, i, c, &x))
        return;
    double cost = run_cost(w, &x);
    if (cost >= *least)
        return;
    *least = cost;
    *best = x;
}

/* Does somebody need the sum itself? Then it is closed once, for all. */
static bool is_closed_anyway(struct rewriter *w, const struct ir_value *v)
{
    struct shard_node x = {0};
    for (const struct ir_use *u = v->uses; u; u = u->next)
        if (!shard_try(w->plan, u->user, false, u->index, w->cuts[v->id], &x) ||
            shard_row_of(u->user->op)->rule == shard_map)
            return true;
    return false;
}

/* The cheapest way to run it on parts; false: it is run whole. */
static bool choose(struct rewriter *w, const struct ir_node *n, struct shard_node *best)
{
    double least = NEVER, all = 0;
    bool any = false;
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *v = n->in[i].value;
        struct sharding c;
        if (!v || !ir_is_tensor(v->type))
            continue;
        any |= w->cuts[v->id].kind != SHARD_REPLICATED;
        if (w->cuts[v->id].kind != SHARD_SUM || ir_has_one_use(v) || !is_closed_anyway(w, v))
            consider(w, n, i, w->cuts[v->id], best, &least);
        for (const struct form *f = w->forms[v->id]; f && w->cuts[v->id].kind != SHARD_REPLICATED; f = f->next)
            if (is_visible(w, f->v))
                consider(w, n, i, f->c, best, &least);
        if (w->plan->sequence && w->cuts[v->id].kind == SHARD_SUM && sequence_cut(w, v->type, &c))
            consider(w, n, i, c, best, &least);
    }
    for (int i = 0; i < n->nin && any; i++)
        if (n->in[i].value && ir_is_tensor(n->in[i].value->type))
            all += form_cost(w, n->in[i].value, whole);
    return any && least <= all && least < NEVER;
}

static bool keep_all(struct rewriter *w, const struct ir_node *old, struct ir_value **made, const struct sharding *cuts)
{
    for (int i = 0; made && i < old->nout; i++) {
        made[i]->name = old->out[i]->name;
        w->main[old->out[i]->id] = made[i];
        w->cuts[old->out[i]->id] = cuts ? cuts[i] : whole;
    }
    return made != NULL;
}

static bool keep(struct rewriter *w, const struct ir_node *old, const struct ir_node *made, const struct sharding *cuts)
{
    return made && keep_all(w, old, made->out, cuts);
}

static bool rewrite_block(struct rewriter *w, const struct ir_block *from);

/* A copy, of whole operands; regions are rewritten with it. */
static bool run_whole(struct rewriter *w, const struct ir_node *n)
{
    struct ir_value **in = IR_NEWN(w->ctx, n->nin + 1, struct ir_value *);
    ir_type *types = IR_NEWN(w->ctx, n->nout + 1, ir_type);
    struct ir_builder b;
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *v = n->in[i].value;
        if (v && !(in[i] = in_form(w, v, whole)))
            return false;
    }
    for (int i = 0; i < n->nout; i++)
        types[i] = n->out[i]->type;
    b = w->b;
    b.where = n->where;
    struct ir_attr *attrs = IR_LONGER(w->ctx, n->attrs, n->nattrs);
    struct ir_node *made = ir_build_typed(&b, n->op, n->nin, in, attrs, n->nout, types);
    if (!keep(w, n, made, NULL))
        return false;
    for (int r = 0; r < n->nregions; r++) {
        struct ir_builder outer = w->b;
        const struct ir_block *old = n->regions[r];
        w->b.block = ir_region_new(w->b.func, made);
        w->b.before = NULL;
        for (int i = 0; i < old->nparams; i++)
            w->main[old->params[i]->id] = ir_param_new(w->b.block, old->params[i]->type, old->params[i]->name);
        if (!rewrite_block(w, old))
            return false;
        w->b = outer;
    }
    return true;
}

static bool run_parts(struct rewriter *w, const struct shard_node *x)
{
    struct ir_value **in = IR_NEWN(w->ctx, x->n->nin + 1, struct ir_value *);
    for (int i = 0; i < x->n->nin; i++) {
        struct ir_value *v = x->n->in[i].value;
        if (v && !(in[i] = in_form(w, v, x->in[i])))
            return false;
    }
    return keep_all(w, x->n, shard_row_of(x->n->op)->build(w, x, in), x->out);
}

/* Of other groups: each operand as it is, sums closed. */
static bool run_collective(struct rewriter *w, const struct ir_node *n)
{
    struct ir_value **in = IR_NEWN(w->ctx, n->nin + 1, struct ir_value *);
    struct sharding *cuts = IR_NEWN(w->ctx, n->nin + 1, struct sharding);
    ir_type *types = IR_NEWN(w->ctx, n->nin + 1, ir_type);
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *v = n->in[i].value;
        cuts[i] = w->cuts[v->id].kind == SHARD_SPLIT ? w->cuts[v->id] : whole;
        if (!(in[i] = in_form(w, v, cuts[i])))
            return false;
        types[i] = in[i]->type;
    }
    struct ir_attr *attrs = IR_LONGER(w->ctx, n->attrs, n->nattrs);
    for (int i = 0; i < n->nattrs; i++)
        if (attrs[i].key == IR_ATTR_types)
            attrs[i].types = types;
    struct ir_builder b = w->b;
    b.where = n->where;
    return keep(w, n, ir_build(&b, n->op, n->nin, in, attrs), cuts);
}

/* Operand by operand, whatever their dims. */
static bool is_elementwise_collective(const struct ir_node *n)
{
    return n->op == IR_all_reduce || n->op == IR_broadcast || n->op == IR_reduce || n->op == IR_broadcast_from_owner ||
           n->op == IR_reduce_owned;
}

static bool read_state(struct rewriter *w, const struct ir_node *n)
{
    struct ir_value *version = w->main[n->in[0].value->id];
    const struct ir_state *s = n->in[0].value->type->state;
    struct sharding c = state_cut(w, s);
    struct ir_builder b = w->b;
    b.where = n->where;
    w->owner[n->out[0]->id] = s;
    return keep(w, n, ir_build(&b, n->op, 1, &version, NULL), &c);
}

static bool write_state(struct rewriter *w, const struct ir_node *n)
{
    struct ir_value *in[] = {in_form(w, n->in[0].value, state_cut(w, ir_state_of(n))), w->main[n->in[1].value->id]};
    struct ir_builder b = w->b;
    b.where = n->where;
    return in[0] && keep(w, n, ir_build(&b, n->op, 2, in, NULL), NULL);
}

/* Made where somebody reads it: of a random tensor, whose numbers depend on neither place nor order, often a part alone
 * is wanted. */
static bool rewrite_node(struct rewriter *w, const struct ir_node *n)
{
    struct shard_node x = {0};
    w->behind = !w->forward[n->id];
    if (n->op == IR_state_read)
        return read_state(w, n);
    if (n->op == IR_state_write)
        return write_state(w, n);
    if (is_elementwise_collective(n))
        return run_collective(w, n);
    if (n->nout == 1)
        w->owner[n->out[0]->id] = owner_of(w, n);
    return choose(w, n, &x) ? run_parts(w, &x) : run_whole(w, n);
}

static bool rewrite_block(struct rewriter *w, const struct ir_block *from)
{
    IR_EACH_NODE(n, from)
        if (n->op != IR_return && !rewrite_node(w, n))
            return false;
    return true;
}

/* -- Functions ----------------------------------------------------------------------------------------------------- */

static void mark_forward(struct rewriter *w, const struct ir_value *v)
{
    const struct ir_node *n = v->def;
    if (!n || w->forward[n->id])
        return;
    w->forward[n->id] = true;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value)
            mark_forward(w, n->in[i].value);
}

/* What the loss depends on; all, where a function gives none. */
static void find_forward(struct rewriter *w, const struct ir_func *f)
{
    const struct ir_node *end = f->body->last;
    w->forward = IR_NEWN(w->ctx, f->nnodes + 1, bool);
    if (end->nin && !strcmp(ir_output_name(f, 0), "loss"))
        mark_forward(w, end->in[0].value);
    else
        memset(w->forward, true, f->nnodes + 1);
}

static void empty(struct ir_func *f)
{
    while (f->body->last)
        ir_remove(f->body->last);
}

/* Of an input whose sequence is cut each rank has the whole, and begins with its part. */
static bool take_input(struct rewriter *w, struct ir_value *p)
{
    for (int i = 0; i < w->plan->ninputs && p->name; i++) {
        const struct shard_input *x = &w->plan->inputs[i];
        if (strcmp(x->name, p->name) || !ir_is_tensor(p->type) || x->c.axis >= p->type->rank ||
            !shard_size(w->plan, p->type->dim[x->c.axis], x->c))
            continue;
        struct ir_value *all = w->main[p->id];
        keep_form(w, p, whole, all);
        w->main[p->id] = shard_take_part(w, all, x->c);
        w->cuts[p->id] = x->c;
        return w->main[p->id] != NULL;
    }
    return true;
}

bool tensor_rewrite_func(struct ir_func *f, const struct tensor_plan *plan, ir_expr rank, const struct sharding *in,
                         const bool *free_results, struct sharding *out)
{
    struct ir_ctx *ctx = plan->m->ctx;
    struct ir_func *old = ir_func_clone(f, ir_internf(ctx, "%s.undivided", f->name));
    if (!old)
        return false;
    uint32_t n = old->nvalues + 1;
    struct rewriter w = {.ctx = ctx,
                         .plan = plan,
                         .parts = plan->parts,
                         .rank = rank,
                         .main = IR_NEWN(ctx, n, struct ir_value *),
                         .cuts = IR_NEWN(ctx, n, struct sharding),
                         .forms = IR_NEWN(ctx, n, struct form *),
                         .owner = IR_NEWN(ctx, n, const struct ir_state *)};
    find_forward(&w, old);
    empty(f);
    w.b = (struct ir_builder){.ctx = ctx, .func = f, .block = f->body};
    for (int i = 0; i < old->body->nparams; i++) {
        struct ir_value *p = old->body->params[i];
        w.cuts[p->id] = in ? in[i] : whole;
        w.main[p->id] = f->body->params[i];
        if (w.cuts[p->id].kind == SHARD_SPLIT)
            f->body->params[i]->type = shard_type(plan, p->type, in[i]);
        else if (!take_input(&w, p))
            return false;
    }
    const struct ir_node *end = old->body->last;
    struct ir_value **results = IR_NEWN(ctx, end->nin + 1, struct ir_value *);
    bool ok = rewrite_block(&w, old->body);
    w.behind = false;
    for (int i = 0; ok && i < end->nin; i++) {
        struct ir_value *v = end->in[i].value;
        struct sharding now = w.cuts[v->id], c = whole;
        if (free_results && free_results[i])
            c = now.kind == SHARD_SPLIT ? now : whole;
        if (free_results && free_results[i] && plan->sequence && now.kind == SHARD_SUM &&
            !sequence_cut(&w, v->type, &c))
            c = whole;
        ok = (results[i] = in_form(&w, v, c)) != NULL;
        out[i] = c;
    }
    w.b.where = end->where;
    ok = ok && ir_return(&w.b, end->nin, results, f->output_names);
    ir_func_remove(old);
    return ok;
}
