/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State in parts (--zero): S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models,
 * 2020, arXiv 1910.02054. Whole tensors belong to ranks, about as many bytes each. What a rank owns it alone has, by
 * stage: 1 the optimizer's state, 2 gradients as well, 3 parameters as well. Who owns what is known when a group is
 * there; until then it is a symbol for each parameter, 0 or 1, by which variables (struct ir_state, owner) and kept
 * results of collectives have memory or none.
 *
 * At stage 3 what reads parameters gets them gathered, each from its owner, for a stretch of nodes at a time: as many
 * neighbours as read no more than a bucket of parameters. A stretch's are asked for at the beginning of the one in
 * front of it, and have no memory any more behind it. So one that the forward and the backward pass read is gathered
 * for each; what is derived from a parameter alone (casts, transposes) is derived anew.
 */
#include "passes/train/entry_int.h"

#include <string.h>

#include "passes/util_int.h"

#define DEFAULT_CAP_MB 25

bool train_zero_has(const struct train_options *o, int stage)
{
    return o->data_parallel && o->zero >= stage;
}

ir_expr train_zero_symbol(struct ir_ctx *ctx, const char *param)
{
    return ir_sym_bounded(ctx, ir_internf(ctx, "own.%s", param), 0, 1);
}

/* Parameters have static dims, and so have their gradients. */
static int64_t bytes_of(struct ir_builder *b, ir_type type)
{
    return ir_const_or(ir_num_elements(b->ctx, type), 0) * tcc_dtype_bytes((enum tcc_dtype)type->dtype);
}

/* -- Owners ------------------------------------------------------------------------------------------------------- */

bool train_parallel_is_owner(struct ir_builder *b, const struct train_options *o, int n,
                             const struct train_param *params, struct ir_value ***owned)
{
    *owned = NULL;
    if (!train_zero_has(o, 1) || !n)
        return true;
    int64_t *bytes = IR_NEWN(b->ctx, n, int64_t);
    ir_type *types = IR_NEWN(b->ctx, n, ir_type);
    ir_expr *kept = IR_NEWN(b->ctx, n, ir_expr);
    const char *names = "";
    struct ir_builder at = *b;
    at.block = b->func->body; /* at the start: nothing waits for it */
    at.before = at.block->first;
    for (int i = 0; i < n; i++) {
        const char *name = params[i].state->name;
        bytes[i] = bytes_of(b, params[i].state->type);
        types[i] = ir_scalar_type(b->ctx, TCC_BOOL);
        kept[i] = train_zero_symbol(b->ctx, name);
        names = ir_internf(b->ctx, "%s%s%s", names, i ? "\n" : "", name);
    }
    struct ir_node *node = ir_build(
        &at, IR_is_owner, 0, NULL,
        IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp"), ir_attr_s(IR_ATTR_name, names), ir_attr_ints(IR_ATTR_bytes, n, bytes),
                 ir_attr_exprs(IR_ATTR_kept, n, kept), ir_attr_types(IR_ATTR_types, n, types)));
    *owned = node ? node->out : NULL;
    return node != NULL;
}

/* What owners know of their gradients, all ranks know then: a sum of one number and zeros. */
bool train_parallel_reduce_scalars(struct ir_builder *b, int n, struct ir_value **values)
{
    ir_type *types = IR_NEWN(b->ctx, n + 1, ir_type);
    for (int i = 0; i < n; i++) {
        if (!values[i])
            return false;
        types[i] = values[i]->type;
    }
    struct ir_node *node = n ? ir_build(b, IR_all_reduce, n, values,
                                        IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp"), ir_attr_s(IR_ATTR_mode, "sum"),
                                                 ir_attr_types(IR_ATTR_types, n, types)))
                             : NULL;
    for (int i = 0; node && i < n; i++)
        values[i] = node->out[i];
    return node || !n;
}

/* The updated parameters, each from its owner; where all have them. */
bool train_parallel_broadcast_from_owner(struct ir_builder *b, const struct train_options *o, int n,
                                         const struct train_param *params)
{
    struct ir_value **reads = IR_NEWN(b->ctx, n, struct ir_value *);
    ir_type *types = IR_NEWN(b->ctx, n, ir_type);
    if (train_zero_has(o, 3))
        return true;
    for (int i = 0; i < n; i++) {
        reads[i] = ir_read_state(b, params[i].state);
        if (!reads[i])
            return false;
        types[i] = reads[i]->type;
    }
    struct ir_node *node = ir_build(b, IR_broadcast_from_owner, n, reads,
                                    IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp"), ir_attr_types(IR_ATTR_types, n, types)));
    for (int i = 0; node && i < n; i++)
        if (!ir_write_state(b, params[i].state, node->out[i]))
            return false;
    return node != NULL;
}

bool train_zero_if(struct ir_builder *b, struct ir_value *mine, bool (*build)(struct ir_builder *then, void *user),
                   void *user)
{
    struct pass_if own;
    return pass_begin_if(b, mine, 0, NULL, &own) && build(&own.then, user) && pass_end_if(&own, NULL, NULL);
}

/* -- Gathering parameters ------------------------------------------------------------------------------------------ */

/* Neighbouring nodes that are gathered for together. */
struct stretch {
    struct ir_node *first;
    struct ir_value **value; /* by parameter: gathered; NULL: not read */
    bool *gathers, *keeps;   /* by parameter: for this stretch, or what the one in front of it has */
    int64_t bytes;
};

struct gather {
    struct ir_builder *b;
    int n;
    struct ir_state *const *params;
    int64_t cap, *bytes;
    uint32_t nvalues;
    int *param_of; /* by value that there was: 1 + the parameter that it is made of alone; 0: it is something else */
    VEC(struct stretch) stretches;
    VEC(struct {
        struct ir_node *node;
        int stretch;
    })
    users;
    /* Of one stretch: */
    struct ir_value **copy; /* by value: what it is made anew as */
    int *copy_of;           /* by value: 1 + the stretch that `copy` is for */
    bool *used;             /* by parameter */
};

static int made_of(const struct gather *g, const struct ir_value *v)
{
    return v && v->id < g->nvalues ? g->param_of[v->id] : 0;
}

/* A view, or a cast, of one parameter and constants? */
static int derives_from(const struct gather *g, const struct ir_node *n)
{
    int p = 0;
    if ((ir_op_info(n->op)->kind != IR_K_MOVE && n->op != IR_cast) || n->nregions || n->nout != 1)
        return 0;
    for (int i = 0; i < n->nin; i++) {
        const struct ir_value *v = n->in[i].value;
        int of = made_of(g, v);
        if (v && !of && !ir_const_of(v))
            return 0;
        if (of && p && of != p)
            return 0;
        p = of ? of : p;
    }
    return p;
}

static void find_derived(struct gather *g)
{
    IR_EACH_NODE(n, g->b->func->body) {
        const struct ir_state *s = n->op == IR_state_read ? ir_state_of(n) : NULL;
        int p = s ? 0 : derives_from(g, n);
        for (int i = 0; s && i < g->n; i++)
            p = g->params[i] == s ? i + 1 : p;
        if (p)
            g->param_of[n->out[0]->id] = p;
    }
}

static bool mark_used(struct gather *g, const struct ir_node *n)
{
    bool any = false;
    for (int i = 0; i < n->nin; i++) {
        int p = made_of(g, n->in[i].value);
        if (p)
            any = g->used[p - 1] = true;
    }
    for (int r = 0; r < n->nregions; r++)
        IR_EACH_NODE(inner, n->regions[r])
            any |= mark_used(g, inner);
    return any;
}

static struct stretch *new_stretch(struct gather *g, struct ir_node *first)
{
    struct stretch s = {.first = first,
                        .value = IR_NEWN(g->b->ctx, g->n, struct ir_value *),
                        .gathers = IR_NEWN(g->b->ctx, g->n, bool),
                        .keeps = IR_NEWN(g->b->ctx, g->n, bool)};
    VEC_PUSH(g->b->ctx, g->stretches, s);
    return &g->stretches.at[g->stretches.n - 1];
}

/* Adds a node that reads parameters to the last stretch, or to a new one where they are too many for it. */
static void add_user(struct gather *g, struct ir_node *n)
{
    struct stretch *s = g->stretches.n ? &g->stretches.at[g->stretches.n - 1] : new_stretch(g, n);
    int64_t more = 0;
    for (int i = 0; i < g->n; i++)
        more += g->used[i] && !s->keeps[i] && !s->gathers[i] ? g->bytes[i] : 0;
    if (more && s->bytes && s->bytes + more > g->cap)
        s = new_stretch(g, n);
    const struct stretch *before = g->stretches.n > 1 ? s - 1 : NULL;
    for (int i = 0; i < g->n; i++) {
        if (!g->used[i] || s->gathers[i] || s->keeps[i])
            continue;
        s->bytes += g->bytes[i];
        s->keeps[i] = before && (before->gathers[i] || before->keeps[i]);
        s->gathers[i] = !s->keeps[i];
    }
    VEC_PUSH(g->b->ctx, g->users, (__typeof__(*g->users.at)){n, g->stretches.n - 1});
}

static bool gather_for(struct gather *g, int k)
{
    struct stretch *s = &g->stretches.at[k];
    struct ir_ctx *ctx = g->b->ctx;
    struct ir_builder at = *g->b;
    struct ir_value **in = IR_NEWN(ctx, g->n + 1, struct ir_value *);
    ir_type *types = IR_NEWN(ctx, g->n + 1, ir_type);
    int64_t *members = IR_NEWN(ctx, g->n + 1, int64_t);
    int n = 0;
    at.block = g->b->func->body;
    at.before = g->stretches.at[k ? k - 1 : 0].first;
    for (int i = 0; i < g->n; i++) {
        if (s->keeps[i])
            s->value[i] = g->stretches.at[k - 1].value[i];
        if (!s->gathers[i])
            continue;
        if (!(in[n] = ir_read_state(&at, g->params[i])))
            return false;
        types[n] = in[n]->type;
        members[n++] = i;
    }
    struct ir_node *node =
        n ? ir_build(&at, IR_broadcast_from_owner, n, in,
                     IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp"), ir_attr_ints(IR_ATTR_bytes, g->n, g->bytes),
                              ir_attr_ints(IR_ATTR_members, n, members), ir_attr_i(IR_ATTR_ahead, 1),
                              ir_attr_types(IR_ATTR_types, n, types)))
          : NULL;
    for (int i = 0; node && i < n; i++)
        s->value[members[i]] = node->out[i];
    return node || !n;
}

/* The value, made of what was gathered for the stretch, in front of a node. */
static struct ir_value *made_anew(struct gather *g, int stretch, struct ir_value *v, struct ir_node *before)
{
    int p = made_of(g, v);
    const struct ir_node *n = v ? v->def : NULL;
    if (!p)
        return v;
    if (n->op == IR_state_read)
        return g->stretches.at[stretch].value[p - 1];
    if (g->copy_of[v->id] == stretch + 1)
        return g->copy[v->id];
    struct ir_builder at = *g->b;
    struct ir_value **in = IR_NEWN(g->b->ctx, n->nin + 1, struct ir_value *);
    struct ir_attr *attrs = IR_NEWN(g->b->ctx, n->nattrs + 1, struct ir_attr);
    at.block = g->b->func->body;
    at.before = before;
    at.where = n->where;
    for (int i = 0; i < n->nin; i++)
        in[i] = made_anew(g, stretch, n->in[i].value, before);
    if (n->nattrs)
        memcpy(attrs, n->attrs, (size_t)n->nattrs * sizeof *attrs);
    struct ir_node *c = ir_build_typed(&at, n->op, n->nin, in, attrs, 1, &v->type);
    g->copy_of[v->id] = stretch + 1;
    return g->copy[v->id] = c ? c->out[0] : NULL;
}

static void replace_operands(struct gather *g, struct ir_node *n, int stretch, struct ir_node *before)
{
    for (int i = 0; i < n->nin; i++)
        if (made_of(g, n->in[i].value))
            ir_set_operand(n, i, made_anew(g, stretch, n->in[i].value, before));
    for (int r = 0; r < n->nregions; r++)
        IR_EACH_NODE(inner, n->regions[r])
            replace_operands(g, inner, stretch, before);
}

bool train_zero_gather(struct ir_builder *b, const struct train_options *o, int n, struct ir_state *const *params)
{
    if (!train_zero_has(o, 3) || !n)
        return true;
    uint32_t nvalues = b->func->nvalues;
    struct gather g = {.b = b,
                       .n = n,
                       .params = params,
                       .cap = (int64_t)((o->bucket_cap_mb > 0 ? o->bucket_cap_mb : DEFAULT_CAP_MB) * (1 << 20)),
                       .bytes = IR_NEWN(b->ctx, n, int64_t),
                       .nvalues = nvalues,
                       .param_of = IR_NEWN(b->ctx, nvalues + 1, int),
                       .copy = IR_NEWN(b->ctx, nvalues + 1, struct ir_value *),
                       .copy_of = IR_NEWN(b->ctx, nvalues + 1, int),
                       .used = IR_NEWN(b->ctx, n, bool)};
    for (int i = 0; i < n; i++)
        g.bytes[i] = bytes_of(b, params[i]->type);
    find_derived(&g);
    IR_EACH_NODE(node, b->func->body) {
        if (node->nout == 1 && made_of(&g, node->out[0]))
            continue;
        memset(g.used, 0, (size_t)n * sizeof *g.used);
        if (mark_used(&g, node))
            add_user(&g, node);
    }
    for (int k = 0; k < g.stretches.n; k++)
        if (!gather_for(&g, k))
            return false;
    for (int i = 0; i < g.users.n; i++)
        replace_operands(&g, g.users.at[i].node, g.users.at[i].stretch, g.users.at[i].node);
    return true;
}
