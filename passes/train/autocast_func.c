/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inserts the casts of autocast into a function: nodes in order, each operand to the type that the node's policy asks
 * for, then the node's result types anew. A value is cast once, right behind the node that makes it, whoever uses the
 * copy. Contractions in a lower type accumulate in float32 (that is how the ops are defined).
 */
#include "passes/train/autocast_int.h"
#include "passes/train/loss_int.h"

#include <fnmatch.h>
#include <string.h>

/* A value: the type it had before, and its casts. */
struct seen {
    uint8_t dtype;
    struct ir_value *lower, *wide; /* to the lower type, to f32 */
};
struct autocaster {
    struct ir_ctx *ctx;
    struct ir_func *func;
    const struct autocast *a;
    bool *tail; /* by node likewise: part of a loss that the model computes itself (mark_tail()); NULL: there is none */
    const uint8_t *composites; /* by node, of those that were there at first */
    uint32_t nnodes;
    struct seen *seen;
    uint32_t nseen;
};

/* -- Policies */

static const struct {
    enum composite what;
    enum autocast_policy policy;
} composite_rows[] = {
#define AUTOCAST_COMPOSITE(id, policy) {COMPOSITE_##id, AUTOCAST_##policy},
#include "passes/train/autocast.def"
};
static const struct {
    enum ir_op op;
    enum autocast_policy policy;
} op_rows[] = {
#define AUTOCAST_OP(op, policy) {IR_##op, AUTOCAST_##policy},
#include "passes/train/autocast.def"
};
static const struct {
    enum ir_kind kind;
    enum autocast_policy policy;
} kind_rows[] = {
#define AUTOCAST_KIND(kind, policy) {IR_K_##kind, AUTOCAST_##policy},
#include "passes/train/autocast.def"
};
#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

/* False: no row. */
static bool find_policy(enum composite what, enum ir_op op, enum autocast_policy *policy)
{
    for (size_t i = 0; i < COUNT_OF(composite_rows); i++)
        if (composite_rows[i].what == what) {
            *policy = composite_rows[i].policy;
            return true;
        }
    for (size_t i = 0; i < COUNT_OF(op_rows); i++)
        if (op_rows[i].op == op) {
            *policy = op_rows[i].policy;
            return true;
        }
    for (size_t i = 0; i < COUNT_OF(kind_rows); i++)
        if (kind_rows[i].kind == ir_op_info(op)->kind) {
            *policy = kind_rows[i].policy;
            return true;
        }
    return false;
}

enum autocast_policy autocast_policy_of(enum composite what, enum ir_op op)
{
    enum autocast_policy policy;
    return find_policy(what, op, &policy) ? policy : AUTOCAST_PROMOTE;
}

static bool rule_fits(const struct autocast_rule *r, const struct ir_node *n)
{
    if (r->node)
        return n->where.node && !fnmatch(r->name, n->where.node, 0);
    return (n->where.op && !strcmp(r->name, n->where.op)) || !strcmp(r->name, ir_op_info(n->op)->name) ||
           !strcmp(r->name, ir_kind_name(ir_op_info(n->op)->kind));
}

static bool is_product(const struct ir_node *n)
{
    enum ir_kind kind = ir_op_info(n->op)->kind;
    return kind == IR_K_CONTRACT || kind == IR_K_ATTENTION || n->op == IR_conv || n->op == IR_conv_transpose;
}

static enum autocast_policy policy_of(const struct autocaster *c, const struct ir_node *n)
{
    const struct autocast *a = c->a;
    enum autocast_policy policy = AUTOCAST_PROMOTE;
    if (c->tail && n->id <= c->nnodes && c->tail[n->id])
        return AUTOCAST_FLOAT32;
    bool row = find_policy(n->id <= c->nnodes ? (enum composite)c->composites[n->id] : COMPOSITE_NONE, n->op, &policy);

    for (int i = 0; i < a->nrules; i++)
        if (rule_fits(&a->rules[i], n))
            return a->rules[i].policy;
    if (a->mode == AUTOCAST_MATMUL)
        return is_product(n) ? AUTOCAST_LOWER : AUTOCAST_PROMOTE;
    if (a->mode == AUTOCAST_ALL)
        return row && policy == AUTOCAST_FLOAT32 ? AUTOCAST_FLOAT32 : AUTOCAST_LOWER;
    return policy;
}

/* -- Casts */

static struct seen *seen_of(struct autocaster *c, const struct ir_value *v)
{
    if (v->id >= c->nseen) {
        uint32_t n = 2 * v->id + 64;
        struct seen *seen = IR_NEWN(c->ctx, n, struct seen);
        if (c->nseen)
            memcpy(seen, c->seen, c->nseen * sizeof *seen);
        c->seen = seen;
        c->nseen = n;
    }
    return &c->seen[v->id];
}

/* Types that autocast may change. */
static bool casts(const struct ir_value *v)
{
    return v && v->type->kind == IR_T_TENSOR && v->type->rank >= 0 &&
           (v->type->dtype == TCC_F32 || v->type->dtype == TCC_F16 || v->type->dtype == TCC_BF16);
}

static struct ir_value *cast_value(struct autocaster *c, struct ir_value *v, enum tcc_dtype to)
{
    struct ir_value **known = to == TCC_F32 ? &seen_of(c, v)->wide : to == c->a->type ? &seen_of(c, v)->lower : NULL;
    struct ir_builder b = {.ctx = c->ctx, .func = c->func, .block = v->block};
    struct ir_value *r;

    if (known && *known)
        return *known;
    b.before = v->def ? v->def->next : v->block->first;
    if (v->def)
        b.where = v->def->where;
    r = ir_cast_to(&b, v, to);
    if (r) {
        seen_of(c, r)->dtype = (uint8_t)to;
        known = to == TCC_F32 ? &seen_of(c, v)->wide : to == c->a->type ? &seen_of(c, v)->lower : NULL;
        if (known)
            *known = r;
    }
    return r;
}

static bool cast_operand(struct autocaster *c, struct ir_node *n, int i, enum tcc_dtype to)
{
    struct ir_value *v = n->in[i].value;

    if (v->type->dtype == to)
        return true;
    v = cast_value(c, v, to);
    if (v)
        ir_set_operand(n, i, v);
    return v != NULL;
}

static bool cast_operands(struct autocaster *c, struct ir_node *n, enum tcc_dtype to)
{
    for (int i = 0; i < n->nin; i++)
        if (casts(n->in[i].value) && !cast_operand(c, n, i, to))
            return false;
    return true;
}

/* The widest type of the operands; scalars count where there is nothing else, as in PyTorch. NONE: no floats. */
static enum tcc_dtype widest(const struct ir_node *n)
{
    enum tcc_dtype to = TCC_NONE;

    for (int scalars = 0; scalars < 2 && to == TCC_NONE; scalars++)
        for (int i = 0; i < n->nin; i++) {
            const struct ir_value *v = n->in[i].value;
            enum tcc_dtype d;
            if (!casts(v) || (v->type->rank == 0) != (scalars == 1))
                continue;
            d = (enum tcc_dtype)v->type->dtype;
            to = to == TCC_NONE || to == d ? d : TCC_F32;
        }
    return to;
}

/* State variables may have changed their type before. */
static bool cast_state(struct autocaster *c, struct ir_node *n)
{
    const struct ir_state *s = ir_state_of(n);

    if (n->op == IR_state_read)
        return ir_op_info(n->op)->infer(c->ctx, n);
    return !casts(n->in[0].value) || cast_operand(c, n, 0, (enum tcc_dtype)s->type->dtype);
}

/* What must not change: operands are cast back to what they were. */
static bool restore(struct autocaster *c, struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++)
        if (casts(n->in[i].value) && !cast_operand(c, n, i, (enum tcc_dtype)seen_of(c, n->in[i].value)->dtype))
            return false;
    return true;
}

static bool keeps_types(const struct ir_node *n)
{
    switch (ir_op_info(n->op)->kind) {
    case IR_K_CONTROL:
    case IR_K_LIBRARY:
    case IR_K_RANDOM:
    case IR_K_COLLECTIVE:
    case IR_K_SOURCE: return true;
    default: return n->op == IR_cast; /* which says itself what it wants */
    }
}

/* The node's result in type `was`, for all that use it. */
static bool cast_result(struct autocaster *c, struct ir_node *n, enum tcc_dtype was)
{
    struct ir_value *v = n->out[0], *as;

    if (v->type->dtype == was || !casts(v))
        return true;
    for (const enum ir_attr_key *key = ir_op_info(n->op)->attrs; *key; key++)
        if (*key == IR_ATTR_to) {
            ir_set_attr(n, ir_attr_dtype(IR_ATTR_to, was));
            return ir_op_info(n->op)->infer(c->ctx, n);
        }
    as = cast_value(c, v, was);
    if (!as)
        return false;
    seen_of(c, as)->dtype = seen_of(c, v)->dtype; /* which it stands for from here on */
    ir_replace_uses(v, as);
    ir_set_operand(as->def, 0, v);
    return true;
}

/* Would a wider scalar operand lose bits in this type? Then the op runs in f32 and only its result is rounded, as
 * PyTorch's ops do with Python numbers. */
static bool scalar_loses(const struct ir_node *n, enum tcc_dtype to)
{
    for (int i = 0; i < n->nin; i++) {
        const struct ir_value *v = n->in[i].value;
        double x, y;
        uint32_t narrow = 0;
        if (!casts(v) || v->type->rank != 0 || v->type->dtype != TCC_F32 || to == TCC_F32)
            continue;
        if (!ir_splat_f(v, &x))
            return true;
        tcc_cast(to, &narrow, TCC_F64, &x, false, NULL);
        y = tcc_load_f64(to, &narrow);
        if (x == x && x != y)
            return true;
    }
    return false;
}

static bool cast_node(struct autocaster *c, struct ir_node *n)
{
    enum autocast_policy policy = policy_of(c, n);
    enum tcc_dtype to = policy == AUTOCAST_LOWER ? c->a->type : policy == AUTOCAST_FLOAT32 ? TCC_F32 : widest(n), was;
    bool map = ir_op_info(n->op)->kind == IR_K_MAP;

    if (to == TCC_NONE)
        return true;
    if (map && widest(n) != TCC_NONE && n->out[0]->type->rank > 0 && scalar_loses(n, to))
        return cast_operands(c, n, TCC_F32) && ir_op_info(n->op)->infer(c->ctx, n) && cast_result(c, n, to);
    was = n->nout ? (enum tcc_dtype)n->out[0]->type->dtype : TCC_NONE;
    return cast_operands(c, n, to) && ir_op_info(n->op)->infer(c->ctx, n) &&
           (c->a->mode != AUTOCAST_MATMUL || policy != AUTOCAST_LOWER || cast_result(c, n, was));
}

static void remember(struct autocaster *c, const struct ir_block *block)
{
    for (int i = 0; i < block->nparams; i++)
        seen_of(c, block->params[i])->dtype =
            block->params[i]->type->kind == IR_T_TENSOR ? block->params[i]->type->dtype : 0;
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < n->nout; i++)
            seen_of(c, n->out[i])->dtype = n->out[i]->type->kind == IR_T_TENSOR ? n->out[i]->type->dtype : 0;
        for (int i = 0; i < n->nregions; i++)
            remember(c, n->regions[i]);
    }
}

static bool cast_block(struct autocaster *c, struct ir_block *block)
{
    for (struct ir_node *n = block->first, *next; n; n = next) {
        bool good;
        next = n->next; /* casts of its results come behind it, and are not visited */
        if (n->op == IR_state_version)
            good = true;
        else if (n->op == IR_state_read || n->op == IR_state_write)
            good = cast_state(c, n);
        else
            good = keeps_types(n) ? n->op == IR_cast || restore(c, n) : cast_node(c, n);
        for (int i = 0; i < n->nregions && good; i++)
            good = cast_block(c, n->regions[i]);
        if (!good)
            return false;
    }
    return true;
}

/* -- Losses that the model computes itself */

static bool is_loss(const struct ir_func *f, const struct train_loss *loss, int output)
{
    for (; loss; loss = loss->next)
        if (loss->kind == LOSS_output && !strcmp(loss->input, ir_output_name(f, output)))
            return true;
    return false;
}

/* Do all who read n's results belong to the loss? */
static bool only_for_loss(const struct autocaster *c, const struct ir_node *n)
{
    const struct ir_node *end = c->func->body->last;
    for (int k = 0; k < n->nout; k++)
        for (const struct ir_use *u = n->out[k]->uses; u; u = u->next)
            if (u->user == end ? !is_loss(c->func, c->a->loss, u->index) : !c->tail[u->user->id])
                return false;
    return true;
}

/*
 * What comes behind the last product and is read for the loss alone is the loss: PyTorch's losses take f32 and give it.
 * Where lower types keep a network's activations, whose readers are products of later layers, nothing changes.
 */
static void mark_tail(struct autocaster *c)
{
    bool any = false;
    for (int i = 0; i < c->func->body->last->nin; i++)
        any |= is_loss(c->func, c->a->loss, i);
    if (!any)
        return;
    c->tail = IR_NEWN(c->ctx, c->nnodes + 1, bool);
    for (const struct ir_node *n = c->func->body->last->prev; n; n = n->prev) {
        enum ir_kind kind = ir_op_info(n->op)->kind;
        bool plain = kind == IR_K_MAP || kind == IR_K_REDUCE || kind == IR_K_MOVE || kind == IR_K_SCAN;
        c->tail[n->id] =
            plain && n->nout && autocast_policy_of(COMPOSITE_NONE, n->op) != AUTOCAST_LOWER && only_for_loss(c, n);
    }
}

bool autocast_func(struct ir_func *f, const struct autocast *a)
{
    struct autocaster c = {
        .ctx = f->module->ctx, .func = f, .a = a, .composites = composites_of(f), .nnodes = f->nnodes};
    mark_tail(&c);
    remember(&c, f->body);
    return cast_block(&c, f->body);
}
