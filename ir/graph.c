/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.c - modules, functions, blocks, nodes, values and their use lists; changing and cloning them.
 *
 * All memory is the context's; tensors that attributes and states hold are released when a node is removed or the
 * context ends. A use is an element of its node's operand array, linked into its value's list.
 */
#include <string.h>

#include "ir/ir_int.h"
#include "base/mutant.h"

struct ir_module *ir_module_new(struct ir_ctx *ctx, const char *name)
{
    struct ir_module *m = IR_NEW(ctx, struct ir_module);
    m->ctx = ctx;
    m->name = name ? ir_intern(ctx, name) : NULL;
    VEC_PUSH(ctx, ctx->modules, m);
    return m;
}

static struct ir_block *new_block(struct ir_func *f, struct ir_node *parent)
{
    struct ir_block *b = IR_NEW(f->module->ctx, struct ir_block);
    b->func = f;
    b->parent = parent;
    return b;
}

struct ir_func *ir_func_new(struct ir_module *m, const char *name)
{
    struct ir_func *f = IR_NEW(m->ctx, struct ir_func);
    f->module = m;
    f->name = ir_intern(m->ctx, name);
    f->body = new_block(f, NULL);
    if (m->last_func)
        m->last_func->next = f;
    else
        m->funcs = f;
    m->last_func = f;
    return f;
}

struct ir_func *ir_func_by_name(struct ir_module *m, const char *name)
{
    struct ir_func *f = m->funcs;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    return f;
}

struct ir_state *ir_state_new(struct ir_module *m, const char *name, ir_type type, struct ir_tensor *init, int flags)
{
    struct ir_state *s = IR_NEW(m->ctx, struct ir_state);
    *s = (struct ir_state){.name = ir_intern(m->ctx, name), .type = type, .init = init, .flags = flags};
    if (m->last_state) {
        s->index = m->last_state->index + 1;
        m->last_state->next = s;
    } else {
        m->states = s;
    }
    m->last_state = s;
    return s;
}

void ir_default_new(struct ir_module *m, const char *input, struct ir_tensor *value)
{
    struct ir_default *more = IR_LONGER(m->ctx, m->defaults, m->ndefaults);
    more[m->ndefaults++] = (struct ir_default){ir_intern(m->ctx, input), value};
    m->defaults = more;
}

void ir_labels_new(struct ir_module *m, const char *output, int n, const char *const *words)
{
    struct ir_labels *more = IR_NEWN(m->ctx, m->nlabels + 1, struct ir_labels);
    const char **at = IR_NEWN(m->ctx, n + 1, const char *);
    for (int i = 0; i < m->nlabels; i++)
        more[i] = m->labels[i];
    for (int i = 0; i < n; i++)
        at[i] = ir_intern(m->ctx, words[i]);
    more[m->nlabels++] = (struct ir_labels){ir_intern(m->ctx, output), n, at};
    m->labels = more;
}

void ir_meta_new(struct ir_module *m, const char *key, const char *value)
{
    for (int i = 0; i < m->nmetas; i++)
        if (!strcmp(m->metas[i].key, key)) {
            m->metas[i].value = ir_intern(m->ctx, value);
            return;
        }
    struct ir_meta *more = IR_LONGER(m->ctx, m->metas, m->nmetas);
    more[m->nmetas++] = (struct ir_meta){ir_intern(m->ctx, key), ir_intern(m->ctx, value)};
    m->metas = more;
}

const struct ir_labels *ir_labels_of(const struct ir_module *m, const char *output)
{
    for (int i = 0; i < m->nlabels; i++)
        if (!strcmp(m->labels[i].output, output))
            return &m->labels[i];
    return NULL;
}

ir_type ir_state_whole_type(struct ir_ctx *ctx, const struct ir_state *s)
{
    ir_expr dims[TCC_MAX_RANK];
    if (!s->shard.parts)
        return s->type;
    memcpy(dims, s->type->dim, (size_t)s->type->rank * sizeof *dims);
    dims[s->shard.axis] =
        ir_add(ctx, ir_mulc(ctx, dims[s->shard.axis], s->shard.parts), ir_const(ctx, -s->shard.padding));
    return ir_tensor_type(ctx, (enum tcc_dtype)s->type->dtype, s->type->rank, dims);
}

void ir_advance_add(struct ir_func *f, struct ir_state *s, ir_expr to)
{
    struct ir_advance *more = IR_LONGER(f->module->ctx, f->advances, f->nadvances);
    more[f->nadvances++] = (struct ir_advance){s, to};
    f->advances = more;
}

struct ir_state *ir_state_by_name(struct ir_module *m, const char *name)
{
    struct ir_state *s = m->states;
    while (s && s->name != name) /* names are interned, and most callers' too */
        s = s->next;
    for (s = s ? s : m->states; s && s->name != name && strcmp(s->name, name) != 0; s = s->next)
        ;
    return s;
}

/* A pointer array one longer; its room is the next power of two. */
static void *append(struct ir_ctx *ctx, void *old, int n, void *p)
{
    void **at = old;
    if ((n & (n - 1)) == 0) {
        at = IR_NEWN(ctx, n ? 2 * n : 1, void *);
        if (n)
            memcpy(at, old, (size_t)n * sizeof *at);
    }
    at[n] = p;
    return at;
}

const struct ir_node *ir_outermost(const struct ir_node *n)
{
    while (n->block->parent)
        n = n->block->parent;
    return n;
}

struct ir_block *ir_region_new(struct ir_func *f, struct ir_node *parent)
{
    struct ir_block *b = new_block(f, parent);
    parent->regions = append(f->module->ctx, parent->regions, parent->nregions, b);
    parent->nregions++;
    return b;
}

static struct ir_value *new_value(struct ir_block *b, struct ir_node *def, int index, ir_type type)
{
    struct ir_value *v = IR_NEW(b->func->module->ctx, struct ir_value);
    v->id = b->func->nvalues++;
    v->type = type;
    v->def = def;
    v->block = b;
    v->index = index;
    return v;
}

struct ir_value *ir_param_new(struct ir_block *b, ir_type type, const char *name)
{
    struct ir_ctx *ctx = b->func->module->ctx;
    struct ir_value *v = new_value(b, NULL, b->nparams, type);
    v->name = name ? ir_intern(ctx, name) : NULL;
    b->params = append(ctx, b->params, b->nparams, v);
    b->nparams++;
    return v;
}

struct ir_value *ir_input_new(struct ir_func *f, ir_type type, const char *name)
{
    struct ir_value *v = ir_param_new(f->body, type, name);
    f->input_names = append(f->module->ctx, f->input_names, v->index, (void *)v->name);
    return v;
}

const char *ir_output_name(const struct ir_func *f, int i)
{
    const char *name = f->output_names ? f->output_names[i] : NULL;
    return name ? name : ir_internf(f->module->ctx, "output_%d", i);
}

/* == Uses == */

static void link_use(struct ir_use *u)
{
    if (!u->value)
        return;
    u->next = u->value->uses;
    u->prev = &u->value->uses;
    if (u->next)
        u->next->prev = &u->next;
    u->value->uses = u;
}

static void unlink_use(struct ir_use *u)
{
    if (!u->value)
        return;
    *u->prev = u->next;
    if (u->next)
        u->next->prev = u->prev;
    u->next = NULL;
    u->prev = NULL;
}

void ir_set_operand(struct ir_node *n, int i, struct ir_value *v)
{
    unlink_use(&n->in[i]);
    n->in[i].value = v;
    link_use(&n->in[i]);
}

void ir_add_operand(struct ir_node *n, struct ir_value *v)
{
    struct ir_use *more = IR_NEWN(ir_node_ctx(n), n->nin + 1, struct ir_use);
    for (int i = 0; i <= n->nin; i++) {
        more[i] = (struct ir_use){.value = i < n->nin ? n->in[i].value : v, .user = n, .index = i};
        if (i < n->nin)
            unlink_use(&n->in[i]);
        link_use(&more[i]);
    }
    n->in = more;
    n->nin++;
}

void ir_insert_operand(struct ir_node *n, int at, struct ir_value *v)
{
    ir_add_operand(n, v);
    for (int i = n->nin - 1; i > at; i--)
        ir_set_operand(n, i, n->in[i - 1].value);
    ir_set_operand(n, at, v);
}

void ir_drop_operand(struct ir_node *n, int at)
{
    for (int i = at; i < n->nin - 1; i++)
        ir_set_operand(n, i, n->in[i + 1].value);
    unlink_use(&n->in[--n->nin]);
}

/* The attribute `types` is what the outputs are now. */
static void renew_types(struct ir_node *n)
{
    if (!ir_attr(n, IR_ATTR_types))
        return;
    ir_type *types = IR_NEWN(ir_node_ctx(n), n->nout + 1, ir_type);
    for (int i = 0; i < n->nout; i++)
        types[i] = n->out[i]->type;
    ir_set_attr(n, ir_attr_types(IR_ATTR_types, n->nout, types));
}

struct ir_value *ir_insert_output(struct ir_node *n, int at, ir_type type)
{
    struct ir_value **more = IR_NEWN(ir_node_ctx(n), n->nout + 1, struct ir_value *);
    for (int i = 0; i < n->nout; i++) {
        more[i + (i >= at)] = n->out[i];
        n->out[i]->index = i + (i >= at);
    }
    more[at] = new_value(n->block, n, at, type);
    n->out = more;
    n->nout++;
    renew_types(n);
    return more[at];
}

void ir_drop_output(struct ir_node *n, int at)
{
    n->nout--;
    for (int i = at; i < n->nout; i++) {
        n->out[i] = n->out[i + 1];
        n->out[i]->index = i;
    }
    renew_types(n);
}

void ir_drop_param(struct ir_block *b, int at)
{
    b->nparams--;
    for (int i = at; i < b->nparams; i++) {
        b->params[i] = b->params[i + 1];
        b->params[i]->index = i;
    }
}

void ir_replace_uses(struct ir_value *from, struct ir_value *to)
{
    if (from == to)
        return;
    while (from->uses)
        ir_set_operand(from->uses->user, from->uses->index, to);
}

bool ir_has_uses(const struct ir_value *v)
{
    return v->uses != NULL;
}

bool ir_has_one_use(const struct ir_value *v)
{
    return v->uses && !v->uses->next;
}

/* == Nodes == */

static void insert_before(struct ir_node *n, struct ir_block *b, struct ir_node *before)
{
    n->block = b;
    n->next = before;
    n->prev = before ? before->prev : b->last;
    if (n->prev)
        n->prev->next = n;
    else
        b->first = n;
    if (before)
        before->prev = n;
    else
        b->last = n;
}

static void take_out(struct ir_node *n)
{
    struct ir_block *b = n->block;
    if (n->prev)
        n->prev->next = n->next;
    else
        b->first = n->next;
    if (n->next)
        n->next->prev = n->prev;
    else
        b->last = n->prev;
    n->prev = n->next = NULL;
}

static void set_where(struct ir_ctx *ctx, struct ir_node *n, const struct ir_where *w)
{
    n->where = *w;
    n->where.file = w->file ? ir_intern(ctx, w->file) : NULL;
    n->where.node = w->node ? ir_intern(ctx, w->node) : NULL;
    n->where.op = w->op ? ir_intern(ctx, w->op) : NULL;
}

static void copy_attrs(struct ir_ctx *ctx, struct ir_node *n, const struct ir_attr *attrs)
{
    int count = 0;
    while (attrs && attrs[count].key != IR_ATTR_NONE)
        count++;
    n->attrs = count ? IR_NEWN(ctx, count, struct ir_attr) : NULL;
    for (int i = 0; i < count; i++) {
        n->attrs[i] = ir_attr_copy(ctx, &attrs[i]);
        n->nattrs = i + 1;
    }
}

struct ir_node *ir_build_typed(struct ir_builder *b, enum ir_op op, int nin, struct ir_value *const *in,
                               const struct ir_attr *attrs, int nout, const ir_type *types)
{
    struct ir_ctx *ctx = b->ctx;
    struct ir_node *n = IR_NEW(ctx, struct ir_node);
    n->op = op;
    n->id = b->func->nnodes++;
    while (nin > ir_op_info(op)->nin_min && !in[nin - 1])
        nin--;
    n->nin = nin;
    n->in = IR_NEWN(ctx, nin, struct ir_use);
    n->nout = nout;
    n->out = IR_NEWN(ctx, nout, struct ir_value *);
    insert_before(n, b->block, b->before);
    for (int i = 0; i < nout; i++)
        n->out[i] = new_value(b->block, n, i, types ? types[i] : NULL);
    for (int i = 0; i < nin; i++) {
        n->in[i] = (struct ir_use){.value = in[i], .user = n, .index = i};
        link_use(&n->in[i]);
    }
    set_where(ctx, n, &b->where);
    copy_attrs(ctx, n, attrs);
    return n;
}

static void drop_block(struct ir_block *b);

/* Lets go of a node's operands and tensors, and of all that is inside it. */
static void drop(struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++) {
        unlink_use(&n->in[i]);
        n->in[i].value = NULL;
    }
    for (int i = 0; i < n->nattrs; i++) {
        if (n->attrs[i].kind == IR_A_TENSOR)
            ir_tensor_unref(n->attrs[i].t);
    }
    n->nattrs = 0;
    for (int i = 0; i < n->nregions; i++)
        drop_block(n->regions[i]);
}

static void drop_block(struct ir_block *b)
{
    IR_EACH_NODE(n, b)
        drop(n);
}

void ir_remove(struct ir_node *n)
{
    drop(n);
    take_out(n);
}

bool ir_replace(struct ir_node *n, struct ir_value *v)
{
    if (!v)
        return false;
    v->name = MUTANT(405, n->out[0]->name, v->name);
    ir_replace_uses(n->out[0], v);
    ir_remove(n);
    return true;
}

void ir_move_before(struct ir_node *n, struct ir_node *before)
{
    if (n == before)
        return;
    take_out(n);
    insert_before(n, before ? before->block : n->block, before);
    for (int i = 0; i < n->nout; i++)
        n->out[i]->block = n->block;
}

const struct ir_tensor *ir_const_of(const struct ir_value *v)
{
    if (!v || !v->def || v->def->op != IR_constant)
        return NULL;
    const struct ir_attr *a = ir_attr(v->def, IR_ATTR_value);
    return a ? a->t : NULL;
}

bool ir_splat_f(const struct ir_value *v, double *out)
{
    const struct ir_tensor *t = ir_const_of(v);
    if (!t || t->nelems == 0 || t->dtype == TCC_STRING || tcc_dtype_class(t->dtype) == TCC_CLASS_COMPLEX)
        return false;
    size_t size = (size_t)tcc_dtype_bytes(t->dtype);
    const char *first = ir_tensor_at(t, 0);
    for (int64_t i = 1; !t->splat && i < t->nelems; i++) {
        if (memcmp(first, ir_tensor_at(t, i), size) != 0)
            return false;
    }
    *out = tcc_load_f64(t->dtype, first);
    return true;
}

static void release_block(struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        for (int i = 0; i < n->nattrs; i++) {
            if (n->attrs[i].kind == IR_A_TENSOR)
                ir_tensor_unref(n->attrs[i].t);
        }
        for (int i = 0; i < n->nregions; i++)
            release_block(n->regions[i]);
    }
}

void ir_release_modules(struct ir_ctx *ctx)
{
    for (int i = 0; i < ctx->modules.n; i++) {
        struct ir_module *m = ctx->modules.at[i];
        for (struct ir_func *f = m->funcs; f; f = f->next)
            release_block(f->body);
        for (struct ir_state *s = m->states; s; s = s->next)
            ir_tensor_unref(s->init);
        for (int k = 0; k < m->ndefaults; k++)
            ir_tensor_unref(m->defaults[k].value);
    }
}

/* == Cloning == */

static struct ir_value *mapped(struct ir_value *v, struct ir_value **map)
{
    return v && map[v->id] ? map[v->id] : v;
}

/* A type in the module of the copy, whose state variables have the same names. */
static ir_type cloned_type(const struct ir_builder *b, const struct ir_node *n, ir_type t)
{
    struct ir_module *m = b->func->module;
    return m != n->block->func->module && ir_is_version(t)
               ? ir_version_type(b->ctx, ir_state_by_name(m, t->state->name))
               : t;
}

static void clone_nodes(struct ir_builder *b, const struct ir_block *from, struct ir_value **map, bool terminator,
                        uint32_t limit);

static void clone_node(struct ir_builder *b, const struct ir_node *n, struct ir_value **map, uint32_t limit)
{
    struct ir_ctx *ctx = b->ctx;
    struct ir_value **in = IR_NEWN(ctx, n->nin, struct ir_value *);
    ir_type *types = IR_NEWN(ctx, n->nout, ir_type);
    struct ir_attr *attrs = IR_NEWN(ctx, n->nattrs + 1, struct ir_attr);
    for (int i = 0; i < n->nin; i++)
        in[i] = mapped(n->in[i].value, map);
    for (int i = 0; i < n->nout; i++)
        types[i] = cloned_type(b, n, n->out[i]->type);
    if (n->nattrs)
        memcpy(attrs, n->attrs, (size_t)n->nattrs * sizeof *attrs);
    struct ir_builder at = *b;
    at.where = n->where;
    for (int i = 0; i < n->nattrs; i++)
        if (attrs[i].key == IR_ATTR_types && attrs[i].n == n->nout && (n->op == IR_state_version || n->nregions))
            attrs[i].types = types;
    struct ir_node *c = ir_build_typed(&at, n->op, n->nin, in, attrs, n->nout, types);
    for (int i = 0; i < n->nout; i++) {
        c->out[i]->name = n->out[i]->name;
        map[n->out[i]->id] = c->out[i];
    }
    for (int r = 0; r < n->nregions; r++) {
        const struct ir_block *old = n->regions[r];
        struct ir_builder inner = *b;
        inner.block = ir_region_new(b->func, c);
        inner.before = NULL;
        for (int i = 0; i < old->nparams; i++)
            map[old->params[i]->id] =
                ir_param_new(inner.block, cloned_type(b, n, old->params[i]->type), old->params[i]->name);
        clone_nodes(&inner, old, map, true, limit);
    }
}

/* Nodes with ids from `limit` on are copies, made in the same block. */
static void clone_nodes(struct ir_builder *b, const struct ir_block *from, struct ir_value **map, bool terminator,
                        uint32_t limit)
{
    IR_EACH_NODE(n, from) {
        if (n->id < limit && (terminator || !(ir_op_info(n->op)->flags & IR_F_TERMINATOR)))
            clone_node(b, n, map, limit);
    }
}

void ir_func_remove(struct ir_func *f)
{
    struct ir_module *m = f->module;
    struct ir_func *last = NULL;
    for (struct ir_func **at = &m->funcs; *at;) {
        if (*at == f) {
            *at = f->next;
        } else {
            last = *at;
            at = &last->next;
        }
    }
    m->last_func = last;
    release_block(f->body);
}

struct ir_func *ir_func_clone(const struct ir_func *f, const char *name)
{
    struct ir_ctx *ctx = f->module->ctx;
    struct ir_func *to = ir_func_new(f->module, name);
    struct ir_builder b = {.ctx = ctx, .func = to, .block = to->body};
    struct ir_value **map = IR_NEWN(ctx, f->nvalues + 1, struct ir_value *),
                    **results = IR_NEWN(ctx, f->body->last->nin + 1, struct ir_value *);
    for (int i = 0; i < f->body->nparams; i++)
        map[f->body->params[i]->id] = ir_input_new(to, f->body->params[i]->type, f->input_names[i]);
    ir_clone_block(&b, f->body, map, results);
    for (int i = 0; i < f->nadvances; i++)
        ir_advance_add(to, f->advances[i].state, f->advances[i].to);
    b.where = f->body->last->where;
    return ir_return(&b, f->body->last->nin, results, f->output_names) ? to : NULL;
}

void ir_clone_block(struct ir_builder *b, const struct ir_block *from, struct ir_value **map, struct ir_value **results)
{
    clone_nodes(b, from, map, false, from->func == b->func ? from->func->nnodes : UINT32_MAX);
    const struct ir_node *end = from->last;
    for (int i = 0; results && end && i < end->nin; i++)
        results[i] = mapped(end->in[i].value, map);
}
