/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data parallel training: what ranks with the same parameters and different samples must tell each other. The
 * collectives are nodes of group "dp"; lowering starts them where they stand and waits for them where their results are
 * used.
 *
 * Gradients are averaged in buckets, as PyTorch's DistributedDataParallel does it: in the order in which the backward
 * pass makes them, a bucket is closed by the gradient that fills it, and is reduced from there on while the backward
 * pass goes on. The first bucket is small, so that the first message leaves early. Gradients are reduced in the type of
 * the update (float32, whatever the forward pass computed in), still multiplied by the loss scale: what comes after
 * (found-inf, unscaling, clipping, norms of lamb) then sees the same bits on all ranks.
 */
#include "passes/train/entry_int.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKET ((int64_t)1 << 20)
#define DEFAULT_CAP_MB 25

static struct ir_node *reduce_at(struct ir_builder *b, int n, struct ir_value *const *values)
{
    ir_type *types = IR_NEWN(b->ctx, n, ir_type);
    for (int i = 0; i < n; i++)
        types[i] = values[i]->type;
    return ir_build(b, IR_all_reduce, n, values,
                    IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp"), ir_attr_s(IR_ATTR_mode, "avg"),
                             ir_attr_types(IR_ATTR_types, n, types)));
}

struct ir_value *train_parallel_mean(struct ir_builder *b, const struct train_options *o, struct ir_value *v)
{
    struct ir_builder at = *b;
    if (!v || !o->data_parallel)
        return v;
    if (v->def && v->def->block == b->block && v->def->next)
        at.before = v->def->next; /* it is long there when the step ends */
    struct ir_node *n = reduce_at(&at, 1, &v);
    return n ? n->out[0] : NULL;
}

/* -- Early gradients --------------------------------------------------------------------------------------------- */

/*
 * The gradient of a transposed weight is made where the forward pass transposes the weight: at the start, so in the
 * backward pass at its end, long after what it is made of. What makes a gradient is taken up to right behind its
 * operands: the product, and the moves and elementwise ops behind it. So its bucket can leave early.
 */
struct early {
    struct ir_builder *b;
    double *position; /* by node id; a node that was moved stands a little behind its last operand */
    bool *seen;
};

static void take_up(struct early *e, struct ir_value *v)
{
    struct ir_node *n = v->def, *last = NULL;
    enum ir_kind kind = n ? ir_op_info(n->op)->kind : IR_K_SOURCE;
    bool simple = kind == IR_K_MAP || kind == IR_K_MOVE;
    if ((!simple && kind != IR_K_CONTRACT && kind != IR_K_WINDOW && kind != IR_K_REDUCE) || n->block != e->b->block ||
        e->seen[n->id])
        return;
    e->seen[n->id] = true;
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *x = n->in[i].value;
        if (!x || !x->def)
            continue;
        if (simple)
            take_up(e, x);
        if (x->def->block == n->block && (!last || e->position[x->def->id] > e->position[last->id]))
            last = x->def;
    }
    if (!last || !last->next || last->next == n)
        return;
    ir_move_before(n, last->next);
    e->position[n->id] = e->position[last->id] + 1e-6;
}

static void take_up_all(struct ir_builder *b, int n, struct ir_value *const *grads)
{
    struct early e = {b, IR_NEWN(b->ctx, b->func->nnodes + 1, double), IR_NEWN(b->ctx, b->func->nnodes + 1, bool)};
    double position = 0;
    IR_EACH_NODE(node, b->block)
        e.position[node->id] = ++position;
    for (int i = 0; i < n; i++)
        if (grads[i])
            take_up(&e, grads[i]);
}

/* -- Buckets --------------------------------------------------------------------------------------------------- */

/* What owners are found by (--zero): the parameters' sizes, and the symbols that say which are this rank's, where
 * gradients lie with owners alone. */
struct owned_list {
    int n;
    int64_t *bytes;
    ir_expr *kept;
    double scale;
};

struct ready {
    int param;
    long position; /* of the node in its block that makes the gradient; 0: it is there from the start */
};

static int sooner(const void *a, const void *b)
{
    const struct ready *x = a, *y = b;
    return x->position != y->position ? (x->position < y->position ? -1 : 1) : y->param - x->param;
}

/* Gradients in the order in which they are made; of those that are there already the last parameter's first. *n: of
 * parameters, then of these. */
static struct ready *arrival(struct ir_builder *b, int *n, struct ir_value *const *grads)
{
    struct ready *order = IR_NEWN(b->ctx, *n + 1, struct ready);
    int there = 0;
    for (int i = 0; i < *n; i++) {
        if (!grads[i])
            continue;
        struct ready *r = &order[there++];
        r->param = i;
        long position = 1;
        IR_EACH_NODE(node, b->block) {
            if (grads[i]->def == node)
                r->position = position;
            position++;
        }
    }
    *n = there;
    if (there)
        qsort(order, there, sizeof *order, sooner);
    return order;
}

/* Parameters have static dims, and so have their gradients. */
static int64_t bytes_of(struct ir_builder *b, ir_type type)
{
    return ir_const_or(ir_num_elements(b->ctx, type), 0) * tcc_dtype_bytes((enum tcc_dtype)type->dtype);
}

/* Each for the rank that updates its parameter. */
static struct ir_node *reduce_owned_at(struct ir_builder *b, int n, struct ir_value *const *values,
                                       const struct ready *bucket, const struct owned_list *all)
{
    ir_type *types = IR_NEWN(b->ctx, n, ir_type);
    int64_t *members = IR_NEWN(b->ctx, n, int64_t);
    ir_expr *kept = all->kept ? IR_NEWN(b->ctx, n, ir_expr) : NULL;
    for (int i = 0; i < n; i++) {
        types[i] = values[i]->type;
        members[i] = bucket[i].param;
        if (kept)
            kept[i] = all->kept[bucket[i].param];
    }
    struct ir_node *node =
        ir_build(b, IR_reduce_owned, n, values,
                 IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp"), ir_attr_s(IR_ATTR_mode, "avg"),
                          ir_attr_ints(IR_ATTR_bytes, all->n, all->bytes), ir_attr_ints(IR_ATTR_members, n, members),
                          ir_attr_types(IR_ATTR_types, n, types)));
    if (node && kept) {
        ir_set_attr(node, ir_attr_exprs(IR_ATTR_kept, n, kept));
        ir_set_attr(node, ir_attr_i(IR_ATTR_ahead, 1));
    }
    if (node && all->scale != 1)
        ir_set_attr(node, ir_attr_f(IR_ATTR_scale, all->scale));
    return node;
}

/* Behind the bucket's last gradient, which is the last in the order of arrival. */
static bool reduce_bucket(struct ir_builder *b, int n, const struct ready *bucket, const struct owned_list *all,
                          struct ir_value **grads)
{
    struct ir_value **values = IR_NEWN(b->ctx, n, struct ir_value *);
    struct ir_node *last = grads[bucket[n - 1].param]->def;
    struct ir_builder at = *b;
    if (last && last->block == b->block && last->next)
        at.before = last->next;
    for (int i = 0; i < n; i++)
        values[i] = grads[bucket[i].param];
    struct ir_node *node = all ? reduce_owned_at(&at, n, values, bucket, all) : reduce_at(&at, n, values);
    for (int i = 0; node && i < n; i++)
        grads[bucket[i].param] = node->out[i];
    return node != NULL;
}

/* To the type of the update, right behind the gradient: the message leaves from there. */
static struct ir_value *widened(struct ir_builder *b, struct ir_value *grad, const struct ir_state *param)
{
    struct ir_builder at = *b;
    if (grad->def && grad->def->block == b->block && grad->def->next)
        at.before = grad->def->next;
    return ir_cast_to(&at, grad, tcc_wide_float(param->type->dtype));
}

bool train_parallel_scaled(struct ir_builder *b, const struct train_options *o, int n, struct ir_state *const *params,
                           double scale, struct ir_value **grads)
{
    if (!o->data_parallel)
        return true;
    double cap_mb = o->bucket_cap_mb > 0 ? o->bucket_cap_mb : DEFAULT_CAP_MB;
    int64_t cap = (int64_t)(cap_mb * (1 << 20)), limit = o->bucket_cap_mb > 0 ? cap : FIRST_BUCKET, held = 0;
    for (int i = 0; i < n; i++)
        if (grads[i] && !(grads[i] = widened(b, grads[i], params[i])))
            return false;
    take_up_all(b, n, grads);
    int there = n;
    const struct ready *order = arrival(b, &there, grads);
    struct owned_list all = {.n = n, .bytes = IR_NEWN(b->ctx, n + 1, int64_t), .scale = scale};
    all.kept = train_zero_has(o, 2) ? IR_NEWN(b->ctx, n + 1, ir_expr) : NULL;
    for (int i = 0; i < n; i++) {
        all.bytes[i] = bytes_of(b, params[i]->type);
        if (all.kept)
            all.kept[i] = train_zero_symbol(b->ctx, params[i]->name);
    }
    for (int i = 0, first = 0; i < there; i++) {
        held += bytes_of(b, grads[order[i].param]->type);
        if (held < limit && i + 1 < there)
            continue;
        if (!reduce_bucket(b, i + 1 - first, order + first, train_zero_has(o, 1) ? &all : NULL, grads))
            return false;
        first = i + 1;
        held = 0;
        limit = cap;
    }
    return true;
}

bool train_parallel_gradients(struct ir_builder *b, const struct train_options *o, int n,
                              struct ir_state *const *params, struct ir_value **grads)
{
    return train_parallel_scaled(b, o, n, params, 1, grads);
}

bool train_parallel_vote(struct ir_builder *b, const struct train_options *o)
{
    return !o->data_parallel ||
           ir_build_typed(b, IR_vote, 0, NULL, IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp")), 0, NULL) != NULL;
}

/* -- Buffers ----------------------------------------------------------------------------------------------------- */

static bool is_written(const struct ir_func *f, const struct ir_state *s)
{
    IR_EACH_NODE(n, f->body) {
        if (n->op == IR_state_write && ir_state_of(n) == s)
            return true;
    }
    return false;
}

/* Running statistics are those of rank 0 at a step's start: reads of buffers that the step updates go through a
 * broadcast. */
bool train_parallel_buffers(struct ir_builder *b, const struct train_options *o)
{
    VEC(struct ir_value *) reads = {0};
    if (!o->data_parallel || (o->broadcast_buffers && !strcmp(o->broadcast_buffers, "once")))
        return true;
    IR_EACH_NODE(n, b->func->body) {
        const struct ir_state *s = n->op == IR_state_read ? ir_state_of(n) : NULL;
        if (s && (s->flags & IR_STATE_BUFFER) && is_written(b->func, s))
            VEC_PUSH(b->ctx, reads, n->out[0]);
    }
    if (!reads.n)
        return true;
    for (int i = 0; i < reads.n; i++) /* all to the start, where nothing has been written yet */
        ir_move_before(reads.at[i]->def, b->func->body->first);
    ir_type *types = IR_NEWN(b->ctx, reads.n, ir_type);
    struct ir_builder at = *b;
    at.before = b->func->body->first;
    for (int i = 0; i < reads.n; i++) {
        types[i] = reads.at[i]->type;
        at.before = at.before->next;
    }
    struct ir_node *n = ir_build(&at, IR_broadcast, reads.n, reads.at,
                                 IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp"), ir_attr_i(IR_ATTR_root, 0),
                                          ir_attr_types(IR_ATTR_types, reads.n, types)));
    for (int i = 0; n && i < reads.n; i++) {
        ir_replace_uses(reads.at[i], n->out[i]);
        ir_set_operand(n, i, reads.at[i]);
    }
    return n != NULL;
}

/* -- Options ------------------------------------------------------------------------------------------------------- */

bool train_parallel_check(struct ir_ctx *ctx, const struct train_options *o)
{
    const char *mode = o->broadcast_buffers;
    if (mode && strcmp(mode, "each") && strcmp(mode, "once"))
        ir_error(ctx, NULL, "--broadcast-buffers=%s: expected each or once", mode);
    else if (o->zero < 0 || o->zero > 3)
        ir_error(ctx, NULL, "--zero=%d: expected 0 to 3", o->zero);
    else if (!o->data_parallel && o->zero)
        ir_error(ctx, NULL, "--zero requires --data-parallel");
    else if (!o->data_parallel && (mode || o->bucket_cap_mb > 0))
        ir_error(ctx, NULL, "--broadcast-buffers and --bucket-cap-mb require --data-parallel");
    else
        return true;
    return false;
}

void train_use_group(struct ir_block *block, uint32_t first, const char *group)
{
    IR_EACH_NODE(n, block) {
        if (n->id >= first && ir_op_info(n->op)->kind == IR_K_COLLECTIVE &&
            !strcmp(ir_get_s(n, IR_ATTR_group, ""), "dp"))
            ir_set_attr(n, ir_attr_s(IR_ATTR_group, group));
        for (int i = 0; i < n->nregions; i++)
            train_use_group(n->regions[i], first, group);
    }
}
