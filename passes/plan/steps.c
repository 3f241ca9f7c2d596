/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.c - a function becomes an entry point of the plan: buffers for stored values, a step for every launch and
 * every node that is no kernel, and the binding of symbols whose value is known at run time only.
 *
 * Values: a ranked tensor has a buffer (arena, or *dynamic* where its size depends on such a symbol); everything else
 * is an object. Symbols are numbered by *level*: 0 when the inputs are bound; each node that binds new ones makes a
 * level of its own, whose expressions an EVAL step computes right after it.
 */
#include "passes/lower_int.h"

#include <string.h>

/* -- Symbols ------------------------------------------------------------------------------------------- */

struct depth {
    const struct lw *lw;
    int level;
};

static void note_level(void *user, ir_expr sym)
{
    struct depth *l = user;
    for (int i = 0; i < l->lw->known.n; i++)
        if (l->lw->known.at[i] == sym) {
            if (l->level >= 0 && l->lw->depths.at[i] > l->level)
                l->level = l->lw->depths.at[i];
            return;
        }
    l->level = -1;
}

/* -1: a symbol is not bound yet. */
int lw_level(const struct lw *lw, ir_expr e)
{
    struct depth l = {lw, 0};
    ir_each_sym(e, note_level, &l);
    return l.level;
}

bool lw_bound(const struct lw *lw, ir_expr e)
{
    return lw_level(lw, e) >= 0;
}

bool lw_type_bound(const struct lw *lw, ir_type t)
{
    for (int i = 0; i < t->rank; i++)
        if (!lw_bound(lw, t->dim[i]))
            return false;
    return true;
}

void lw_define_symbol(struct lw *lw, ir_expr sym, int level)
{
    if (sym->kind != IR_X_SYM || lw_bound(lw, sym))
        return;
    VEC_PUSH(lw->ctx, lw->known, sym);
    VEC_PUSH(lw->ctx, lw->depths, level);
}

void lw_define_symbols(struct lw *lw, ir_type t, int level)
{
    for (int i = 0; t->kind == IR_T_TENSOR && i < t->rank; i++)
        lw_define_symbol(lw, t->dim[i], level);
}

/* -- Buffers and steps ------------------------------------------------------------------------------------ */

int lw_storage(const struct lw *lw, int buffer)
{
    return kn_storage(lw->buffers.at, buffer);
}

struct kn_step *lw_push_step(struct ir_ctx *ctx, struct kn_steps *to, struct kn_step s)
{
    VEC_PUSH(ctx, *to, s);
    return &to->at[to->n - 1];
}

/* Is memory of that buffer (which is no alias) in the list? */
static bool lw_lists(const struct lw *lw, int n, const int *list, int buffer)
{
    for (int i = 0; i < n; i++)
        if (list[i] >= 0 && lw_storage(lw, list[i]) == buffer)
            return true;
    return false;
}

/* Is it named by the step or its regions' own lists? */
static bool lw_names(const struct lw *lw, const struct kn_step *s, int buffer)
{
    if (lw_lists(lw, s->nargs, s->args, buffer))
        return true;
    for (int r = 0; r < s->nregions; r++) {
        const struct kn_region *g = &s->regions[r];
        int nexits = g->exits ? g->nresults - (s->kind == TCC_STEP_LOOP) : 0; /* a loop's condition has none */
        if (lw_lists(lw, g->nparams, g->params, buffer) || lw_lists(lw, g->nresults, g->results, buffer) ||
            lw_lists(lw, nexits, g->exits, buffer))
            return true;
    }
    return false;
}

bool lw_touches(const struct lw *lw, const struct kn_step *s, int buffer)
{
    if (lw_names(lw, s, buffer))
        return true;
    for (int r = 0; r < s->nregions; r++)
        for (int i = 0; i < s->regions[r].steps.n; i++)
            if (lw_touches(lw, &s->regions[r].steps.at[i], buffer))
                return true;
    return false;
}

bool lw_same_index(const struct kn_insn *a, const struct kn_insn *b)
{
    for (int i = 0; i < a->nindex && i < b->nindex; i++)
        if (a->index[i] != b->index[i])
            return false;
    return a->nindex == b->nindex;
}

static ir_expr physical_bytes(struct lw *lw, ir_type t, kn_layout l)
{
    ir_expr dims[TCC_MAX_RANK], bytes = ir_const(lw->ctx, tcc_dtype_bytes(t->dtype));
    int n = kn_physical_dims(lw->ctx, t, l, dims);
    for (int i = 0; i < n; i++)
        bytes = ir_mul(lw->ctx, bytes, dims[i]);
    return bytes;
}

/* Shape versions read and rewrite the model's constants each for itself: equal ones are stored once, whatever their
 * size. */
static bool same_elements(const struct lw *lw, const struct kn_buffer *b, const struct ir_tensor *t)
{
    if (b->weight == t || (t->file && t->file == b->weight->file && t->data == b->weight->data))
        return true;
    return ((t->bytes <= 4096 && !b->layout) || lw->func->version) && ir_tensor_equal(b->weight, t);
}

static int weight_buffer(struct lw *lw, struct ir_value *v, const struct ir_tensor *t)
{
    kn_layout l = lw->layout[v->id];
    int same = lw_weight_find(lw, v->type, l, t, same_elements);
    if (same >= 0)
        return same;
    struct kn_buffer b = {
        .space = TCC_SPACE_WEIGHT, .dtype = v->type->dtype, .type = v->type, .layout = l, .weight = t, .name = v->name};
    b.bytes = physical_bytes(lw, v->type, l);
    return lw_weight_new(lw, b);
}

/* Are all dims known when the call begins? Bytes alone don't tell: 0 times a size that is known later is 0. */
static bool sized_at_entry(const struct lw *lw, ir_type t)
{
    for (int i = 0; i < t->rank; i++)
        if (lw_level(lw, t->dim[i]) != 0)
            return false;
    return true;
}

int lw_buffer(struct lw *lw, struct ir_value *v)
{
    if (lw->buffer[v->id] >= 0)
        return lw->buffer[v->id];
    const struct ir_tensor *t = ir_const_of(v);
    struct kn_buffer b = {.type = v->type, .layout = lw->layout[v->id], .name = v->name};
    if (t && ir_is_tensor(v->type))
        return lw->buffer[v->id] = weight_buffer(lw, v, t);
    if (ir_is_tensor(v->type)) {
        b.dtype = v->type->dtype;
        b.bytes = physical_bytes(lw, v->type, b.layout);
        b.space = sized_at_entry(lw, v->type) ? TCC_SPACE_ARENA : TCC_SPACE_DYNAMIC;
        int part = lw_part_buffer(lw, v, b);
        if (part >= 0)
            return lw->buffer[v->id] = part;
    } else {
        b.space = TCC_SPACE_OBJECT;
        b.dtype = v->type->kind == IR_T_TENSOR ? v->type->dtype : TCC_NONE;
    }
    return lw->buffer[v->id] = lw_buffer_new(lw, b);
}

struct kn_step *lw_step(struct lw *lw, struct kn_steps *to, enum tcc_step_kind kind, const struct ir_node *n, int nargs,
                        const int *args)
{
    struct kn_step s = {.kind = kind, .nargs = nargs};
    s.args = IR_NEWN(lw->ctx, nargs + 1, int);
    for (int i = 0; i < nargs; i++)
        s.args[i] = args[i];
    if (n)
        s.node = n->where.node ? n->where.node : ir_op_info(n->op)->name;
    const char *op = !n ? NULL : n->where.op ? n->where.op : ir_op_info(n->op)->name;
    if (n && n->where.node && strcmp(n->where.node, op))
        s.op = op;
    return lw_push_step(lw->ctx, to, s);
}

static void lw_bind(struct lw *lw, struct kn_steps *to, const struct ir_node *n, enum tcc_step_kind how, int buffer,
                    int nsyms, ir_expr *syms)
{
    int level = lw->next_level++;
    struct kn_step *s = lw_step(lw, to, how, n, 1, &buffer);
    s->nsyms = nsyms;
    s->syms = syms;
    for (int i = 0; i < nsyms; i++)
        if (syms[i])
            lw_define_symbol(lw, syms[i], level);
    s = lw_step(lw, to, TCC_STEP_EVAL, n, 0, NULL);
    s->what = level;
}

void lw_bind_dims(struct lw *lw, struct kn_steps *to, const struct ir_node *n, int buffer, ir_type t)
{
    if (t->kind != IR_T_TENSOR || t->rank <= 0 || lw_type_bound(lw, t))
        return;
    ir_expr *syms = IR_NEWN(lw->ctx, t->rank, ir_expr);
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i]->kind != IR_X_SYM || lw_bound(lw, t->dim[i]))
            continue;
        syms[i] = t->dim[i];
        for (int j = 0; j < i; j++)
            if (syms[j] == syms[i])
                syms[i] = NULL;
    }
    lw_bind(lw, to, n, TCC_STEP_DIMS, buffer, t->rank, syms);
}

/* -- Nodes ---------------------------------------------------------------------------------------------------- */

/*
 * All that a kernel computes, for reports: the source's nodes in the order in which they run, each once. A group lists
 * its nodes in that order, all of one block (ir/fusion_verify.c).
 */
static const char *sources_of(struct lw *lw, const struct lw_group *g)
{
    enum { MOST = 12 };
    const struct kn_fusion *f = lw->func->fusion;
    const struct kn_group *group = f && g->number > 0 && g->number <= f->n ? &f->at[g->number - 1] : NULL;
    const char *names[MOST], *ops[MOST];
    size_t room = 1, at = 0;
    int n = 0;
    for (int i = 0; group && i < group->nnodes && n < MOST; i++) {
        const struct ir_where *w = &group->nodes[i]->where;
        const char *own = ir_op_info(group->nodes[i]->op)->name;
        bool again = false;
        names[n] = w->node ? w->node : own;
        ops[n] = w->op ? w->op : own;
        for (int k = 0; k < n; k++)
            again |= !strcmp(names[k], names[n]);
        if (again)
            continue;
        room += strlen(names[n]) + strlen(ops[n]) + strlen(",  ()");
        n++;
    }
    if (!n)
        return NULL;
    char *text = IR_NEWN(lw->ctx, room, char);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%s (%s)", i ? ", " : "", names[i], ops[i]);
    return text;
}

static void lw_launch(struct lw *lw, struct kn_steps *to, struct ir_node *n, struct lw_group *g)
{
    struct kn_kernel *k = g->kernel;
    for (int d = 0; d < k->ndims; d++)
        if (k->dims[d].role == KN_OUTER && ir_is_value(k->dims[d].extent, 0))
            return; /* nothing to compute */
    int *args = IR_NEWN(lw->ctx, k->noperands + 1, int), nargs = 0;
    lw_require(lw, n, k, g->sizes ? g->sizes : k->sizes, to);
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_LOCAL)
            args[nargs++] = lw_buffer(lw, g->values[i]);
    struct kn_step *s = lw_step(lw, to, TCC_STEP_LAUNCH, g->anchor ? g->anchor : n, nargs, args);
    s->kernel = k;
    s->sources = sources_of(lw, g);
    s->nsizes = k->nsizes;
    s->sizes = g->sizes ? g->sizes : k->sizes;
}

/* A library op's own attributes; their names are the ONNX ones. */
static void lib_attrs(struct lw *lw, struct kn_step *s, const struct ir_node *n)
{
    struct ir_attr *attrs = IR_NEWN(lw->ctx, n->nattrs + 1, struct ir_attr);
    for (int i = 0; i < n->nattrs; i++)
        if (n->attrs[i].key == IR_ATTR_user)
            attrs[s->nattrs++] = n->attrs[i];
    s->attrs = attrs;
}

static void lower_lib(struct lw *lw, struct ir_node *n, struct kn_steps *to)
{
    int *args = IR_NEWN(lw->ctx, n->nin + n->nout + 1, int), nargs = 0;
    for (int i = 0; i < n->nin; i++)
        args[nargs++] = n->in[i].value ? lw_buffer(lw, n->in[i].value) : -1;
    for (int i = 0; i < n->nout; i++)
        args[nargs++] = lw_buffer(lw, n->out[i]);
    struct kn_step *s = lw_step(lw, to, TCC_STEP_LIB, n, nargs, args);
    s->lib = ir_get_s(n, IR_ATTR_name, "");
    s->nin = n->nin;
    lib_attrs(lw, s, n);
    for (int i = 0; i < n->nout; i++)
        lw_bind_dims(lw, to, n, lw->buffer[n->out[i]->id], n->out[i]->type);
}

/* A constant of strings is an object: made by a library op each time. Other constants are weights, made when first
 * asked for. */
static void lower_constant(struct lw *lw, struct ir_node *n, struct kn_steps *to)
{
    if (ir_is_tensor(n->out[0]->type) || !ir_has_uses(n->out[0]))
        return;
    int args[1] = {lw_buffer(lw, n->out[0])};
    struct kn_step *s = lw_step(lw, to, TCC_STEP_LIB, n, 1, args);
    struct ir_attr *value = IR_NEW(lw->ctx, struct ir_attr);
    *value = *ir_attr(n, IR_ATTR_value);
    value->key = IR_ATTR_user;
    value->name = "value";
    s->lib = "string_constant";
    s->nattrs = 1;
    s->attrs = value;
}

static int state_buffer(struct lw *lw, const struct ir_node *n)
{
    const struct ir_state *state = ir_state_of(n);
    for (int i = 0; i < lw->buffers.n; i++)
        if (lw->buffers.at[i].space == TCC_SPACE_STATE && lw->buffers.at[i].index == state->index)
            return i;
    struct kn_buffer b = {.space = TCC_SPACE_STATE,
                          .dtype = state->type->dtype,
                          .type = state->type,
                          .index = state->index,
                          .name = state->name};
    b.bytes = physical_bytes(lw, state->type, NULL);
    return lw_buffer_new(lw, b);
}

/* What is read, and what is written, has a buffer of its own; elide.c finds those that can be the variable itself. */
static void lower_read(struct lw *lw, struct ir_node *n, struct kn_steps *to)
{
    if (!ir_has_uses(n->out[0]) || lw->read[n->id])
        return;
    lw->read[n->id] = true;
    lw_step(lw, to, TCC_STEP_COPY, n, 2, (int[]){state_buffer(lw, n), lw_buffer(lw, n->out[0])});
    lw_copy_updated(lw, n->out[0], n, to);
}

/* Is the block, or one around it, `outer`? */
static bool is_within(const struct ir_block *b, const struct ir_block *outer)
{
    while (b != outer && b->parent)
        b = b->parent->block;
    return b == outer;
}

static bool within_regions(const struct ir_block *b, const struct ir_node *n)
{
    for (int r = 0; r < n->nregions; r++)
        if (is_within(b, n->regions[r]))
            return true;
    return false;
}

/* Steps are in order: what reads a version behind the node that overwrites it, reads in front of that node. */
static void read_before(struct lw *lw, const struct ir_node *n, const struct ir_value *version, struct kn_steps *to)
{
    for (const struct ir_use *u = version->uses; u; u = u->next) {
        bool asks_again =
            n->op == IR_if && within_regions(u->user->block, n); /* in front of the write in that branch */
        if (u->user->op == IR_state_read && !asks_again && is_within(u->user->block, n->block))
            lower_read(lw, u->user, to);
    }
}

/* The version in front of n that `v`, which n has or yields, comes from. */
static const struct ir_value *version_before(const struct ir_node *n, const struct ir_value *v)
{
    while (v->def == n || within_regions(v->block, n)) {
        const struct ir_node *d = v->def;
        if (!d)
            v = v->block->parent->in[v->index].value; /* a loop's parameter */
        else if (d->op == IR_state_write)
            v = d->in[1].value;
        else
            v = d->op == IR_if ? d->regions[0]->last->in[v->index].value : d->in[2 + v->index].value;
    }
    return v;
}

static void lower_write(struct lw *lw, struct ir_node *n, struct kn_steps *to)
{
    read_before(lw, n, n->in[1].value, to);
    lw_step(lw, to, TCC_STEP_COPY, n, 2, (int[]){lw_buffer(lw, n->in[0].value), state_buffer(lw, n)});
}

/* Regions of n that write state. */
static void read_before_regions(struct lw *lw, const struct ir_node *n, struct kn_steps *to)
{
    for (int i = 0; i < n->nout; i++)
        if (ir_is_version(n->out[i]->type))
            read_before(lw, n, version_before(n, n->out[i]), to);
}

static bool lower_node(struct lw *lw, struct ir_node *n, struct kn_steps *to)
{
    lw_check(lw, n, to);
    for (int i = 0; i < lw->launches[n->id].n; i++)
        lw_launch(lw, to, n, lw->launches[n->id].at[i]);
    if (lw_is_kernel_node(n))
        return true;
    switch (n->op) {
    case IR_constant: lower_constant(lw, n, to); return true;
    case IR_yield:
    case IR_return: return true;
    case IR_check: return true; /* lw_check() */
    case IR_lib: lower_lib(lw, n, to); return true;
    case IR_state_version: return true;
    case IR_state_read: lower_read(lw, n, to); return true;
    case IR_state_write: lower_write(lw, n, to); return true;
    case IR_bind: {
        const struct ir_attr *a = ir_attr(n, IR_ATTR_syms);
        ir_expr *syms = IR_NEWN(lw->ctx, a->n, ir_expr);
        memcpy(syms, a->exprs, a->n * sizeof *syms);
        lw_bind(lw, to, n, TCC_STEP_BIND, lw_buffer(lw, n->in[0].value), a->n, syms);
        return true;
    }
    case IR_box:
    case IR_unbox: {
        int args[2] = {lw_buffer(lw, n->in[0].value), 0};
        if (n->op == IR_unbox)
            lw_bind_dims(lw, to, n, args[0], n->out[0]->type);
        args[1] = lw_buffer(lw, n->out[0]);
        lw_step(lw, to, n->op == IR_box ? TCC_STEP_BOX : TCC_STEP_UNBOX, n, 2, args);
        return true;
    }
    case IR_all_reduce:
    case IR_broadcast:
    case IR_reduce:
    case IR_all_gather:
    case IR_reduce_scatter:
    case IR_all_to_all:
    case IR_broadcast_from_owner:
    case IR_is_owner:
    case IR_reduce_owned:
    case IR_vote:
    case IR_send:
    case IR_recv: return lw_lower_collective(lw, n, to);
    case IR_if: read_before_regions(lw, n, to); return lw_lower_if(lw, n, to);
    case IR_loop: read_before_regions(lw, n, to); return lw_lower_loop(lw, n, to);
    default:
        return ir_error(lw->ctx, &n->where, "%s of %s cannot be compiled: it has no kernel and no library op",
                        ir_op_info(n->op)->name,
                        n->nin && n->in[0].value ? ir_type_text(lw->ctx, n->in[0].value->type) : "nothing");
    }
}

bool lw_lower_block(struct lw *lw, struct ir_block *block, struct kn_steps *to)
{
    int facts = lw->facts.n;
    IR_EACH_NODE(n, block)
        if (!lower_node(lw, n, to))
            return false;
    lw->facts.n = facts;
    return true;
}

/* -- Functions -------------------------------------------------------------------------------------------------- */

void lw_make_inputs(struct lw *lw, struct kn_entry *e)
{
    struct ir_block *body = lw->func->body;
    e->ninputs = body->nparams;
    for (const struct ir_state *s = lw->func->module->states; s; s = s->next)
        for (int i = 0; i < 2; i++)
            if (i ? s->owner : s->sym)
                lw_define_symbol(lw, i ? s->owner : s->sym, 0);
    e->input_buffers = IR_NEWN(lw->ctx, body->nparams + 1, int);
    for (int i = 0; i < body->nparams; i++) {
        struct ir_value *v = body->params[i];
        lw_define_symbols(lw, v->type, 0);
        struct kn_buffer b = {.space = TCC_SPACE_INPUT, .type = v->type, .index = i, .name = v->name};
        if (ir_is_tensor(v->type)) {
            b.dtype = v->type->dtype;
            b.bytes = physical_bytes(lw, v->type, NULL);
        } else {
            b.space = TCC_SPACE_OBJECT;
            b.dtype = v->type->kind == IR_T_TENSOR ? v->type->dtype : TCC_NONE;
        }
        e->input_buffers[i] = lw->buffer[v->id] = lw_buffer_new(lw, b);
    }
    const struct ir_version *version = lw->func->version; /* its guards may name dims that are pinned here */
    for (int i = 0; version && i < version->ninputs; i++)
        lw_define_symbols(lw, version->inputs[i], 0);
}

/* An output whose size is known from the inputs is computed in place; other tensors are copied at the end, objects
 * shared. */
void lw_place_outputs(struct lw *lw, struct kn_entry *e)
{
    struct ir_node *ret = lw->func->body->last;
    e->noutputs = ret->nin;
    e->output_buffers = IR_NEWN(lw->ctx, ret->nin + 1, int);
    for (int i = 0; i < ret->nin; i++) {
        struct ir_value *v = ret->in[i].value;
        struct kn_buffer b = {.space = TCC_SPACE_OUTPUT, .type = v->type, .index = i, .name = v->name};
        e->output_buffers[i] = -1;
        if (!ir_is_tensor(v->type))
            continue;
        b.dtype = v->type->dtype;
        b.bytes = physical_bytes(lw, v->type, NULL);
        e->output_buffers[i] = lw_buffer_new(lw, b);
        bool here = v->def && v->def->block == lw->func->body && (lw_is_kernel_node(v->def) || lw->collected[v->id]);
        if (here && lw->buffer[v->id] < 0 && sized_at_entry(lw, v->type))
            lw->buffer[v->id] = e->output_buffers[i];
    }
}

static void copy_outputs(struct lw *lw, struct kn_entry *e)
{
    struct ir_node *ret = lw->func->body->last;
    for (int i = 0; i < ret->nin; i++) {
        struct ir_value *v = ret->in[i].value;
        int args[2] = {lw_buffer(lw, v), e->output_buffers[i]};
        if (args[1] < 0)
            e->output_buffers[i] = args[0];
        else if (args[0] != args[1])
            lw_step(lw, &e->steps, TCC_STEP_COPY, ret, 2, args);
    }
}

static void *grown(struct lw *lw, const void *old, size_t had, size_t want, size_t size)
{
    char *new = ir_arena_alloc(lw->tables, want * size);
    if (had)
        memcpy(new, old, had * size);
    return new;
}

void lw_side_tables_grow(struct lw *lw)
{
    struct ir_func *f = lw->func;
    uint32_t had = lw->value_room, want = had;
    if (f->nvalues + 1 > had) {
        lw->value_room = want = 2 * (f->nvalues + 1);
        lw->materialised = grown(lw, lw->materialised, had, want, sizeof *lw->materialised);
        lw->live_out = grown(lw, lw->live_out, had, want, sizeof *lw->live_out);
        lw->layout = grown(lw, lw->layout, had, want, sizeof *lw->layout);
        lw->buffer = grown(lw, lw->buffer, had, want, sizeof *lw->buffer);
        lw->part = grown(lw, lw->part, had, want, sizeof *lw->part);
        lw->collected = grown(lw, lw->collected, had, want, sizeof *lw->collected);
        for (uint32_t i = had; i < want; i++)
            lw->buffer[i] = -1;
    }
    had = lw->node_room;
    if (f->nnodes + 1 > had) {
        lw->node_room = want = 2 * (f->nnodes + 1);
        lw->in = grown(lw, lw->in, had, want, sizeof *lw->in);
        lw->launches = grown(lw, lw->launches, had, want, sizeof *lw->launches);
        lw->read = grown(lw, lw->read, had, want, sizeof *lw->read);
        lw->pieces = grown(lw, lw->pieces, had, want, sizeof *lw->pieces);
    }
}

bool lw_lower_func(struct lw *lw, struct kn_entry *e)
{
    lw_make_inputs(lw, e);
    lw_place_outputs(lw, e);
    lw_know_guards(lw);
    if (!lw_lower_block(lw, lw->func->body, &e->steps))
        return false;
    copy_outputs(lw, e);
    lw_checks_first(lw, &e->steps);
    lw_number_versions(lw, e);
    return true;
}
