/* SPDX-License-Identifier: Apache-2.0 */
/* collective.c - collectives among a context's processes: recorded like other ops, and computed at once in eager
 * mode. */
#include "compiler/trace/trace_int.h"

#include <math.h>
#include <string.h>

struct collective_work {
    enum ir_op op;
    const char *group, *mode;
    double scale;    /* 0: 1 */
    int number, tag; /* root, peer, or the group's size */
    int n;           /* operands, and results */
    struct trace_tensor *const *in;
    struct trace_tensor **out, *one;
    const int64_t *give, *take; /* all_to_all: rows to and from each rank; NULL: equal parts */
    int dtype, rank;
    const int64_t *dims;
};

static struct ir_node *build(struct trace_graph *g, const struct collective_work *w, struct ir_value **v)
{
    struct ir_attr group = ir_attr_s(IR_ATTR_group, ir_intern(g->ctx, w->group)),
                   mode = ir_attr_s(IR_ATTR_mode, ir_intern(g->ctx, w->mode ? w->mode : "sum")),
                   root = ir_attr_i(IR_ATTR_root, w->number), count = ir_attr_i(IR_ATTR_count, w->number),
                   scale = ir_attr_f(IR_ATTR_scale, w->scale != 0 ? w->scale : 1),
                   peer = ir_attr_e(IR_ATTR_peer, ir_const(g->ctx, w->number)),
                   tag = ir_attr_e(IR_ATTR_tag, ir_const(g->ctx, w->tag));
    ir_type *list = IR_NEWN(g->ctx, (size_t)w->n + 1, ir_type);
    list[0] = w->n ? NULL : ir_tensor_type_i(g->ctx, (enum tcc_dtype)w->dtype, w->rank, w->dims);
    for (int i = 0; i < w->n; i++)
        list[i] = v[i]->type;
    struct ir_attr types = ir_attr_types(IR_ATTR_types, w->n ? w->n : 1, list);
    switch (w->op) {
    case IR_all_reduce:
        return w->scale == 0 || w->scale == 1 ? ir_build(&g->b, w->op, w->n, v, IR_ATTRS(group, mode, types))
                                              : ir_build(&g->b, w->op, w->n, v, IR_ATTRS(group, mode, scale, types));
    case IR_reduce: return ir_build(&g->b, w->op, w->n, v, IR_ATTRS(group, mode, root, types));
    case IR_broadcast: return ir_build(&g->b, w->op, w->n, v, IR_ATTRS(group, root, types));
    case IR_all_gather: return ir_build(&g->b, w->op, w->n, v, IR_ATTRS(group, count));
    case IR_reduce_scatter: return ir_build(&g->b, w->op, w->n, v, IR_ATTRS(group, mode, count));
    case IR_send: return ir_build(&g->b, w->op, w->n, v, IR_ATTRS(group, peer, tag));
    case IR_recv: return ir_build(&g->b, w->op, w->n, v, IR_ATTRS(group, peer, tag, types));
    default:
        return w->give ? ir_build(&g->b, w->op, w->n, v,
                                  IR_ATTRS(group, ir_attr_ints(IR_ATTR_give, w->number, w->give),
                                           ir_attr_ints(IR_ATTR_take, w->number, w->take)))
                       : ir_build(&g->b, w->op, w->n, v, IR_ATTRS(group));
    }
}

static void record(struct trace_ctx *c, void *arg)
{
    struct collective_work *w = arg;
    struct trace_graph *g = &c->graph;
    struct ir_value **v = IR_NEWN(g->ctx, (size_t)w->n + 1, struct ir_value *);
    for (int i = 0; i < w->n; i++)
        if (!(v[i] = trace_value(w->in[i])))
            return;
    g->b.where = trace_where(c, NULL);
    struct ir_node *n = build(g, w, v);
    for (int i = 0; n && i < n->nout; i++)
        if (!(w->out[i] = trace_tensor_of(c, n->out[i])))
            return;
    g->effects |= n && trace_comm(c, w->group);
}

/* Is the number one of a rank of the group? */
static bool check(struct trace_ctx *c, const struct collective_work *w, bool rank)
{
    const char *name = ir_op_info(w->op)->name;
    if (trace_check_group(c, name, w->group))
        return false;
    if (trace_comm(c, "pp") && strcmp(w->group, "dp"))
        trace_fail(c, TCC_EUSAGE, "%s: of group '%s': processes that are stages have collectives of group dp only",
                   name, w->group);
    else if (rank && (w->number < 0 || w->number >= trace_group_size(c, w->group)))
        trace_fail(c, TCC_EUSAGE, "%s: group '%s' has no rank %d, but %d ranks", name, w->group, w->number,
                   trace_group_size(c, w->group));
    else
        return true;
    return false;
}

static struct trace_tensor *collective(struct trace_tensor *t, struct collective_work w, bool rank)
{
    if (!t || !check(t->c, &w, rank))
        return NULL;
    w.n = 1;
    w.in = &t;
    w.out = &w.one;
    return trace_do(t->c, record, &w) ? NULL : w.one;
}

struct trace_tensor *trace_all_reduce(struct trace_tensor *t, const char *group, const char *mode)
{
    return collective(t, (struct collective_work){.op = IR_all_reduce, .group = group, .mode = mode}, false);
}

int trace_all_reduce_many(struct trace_ctx *c, int n, struct trace_tensor *const *in, const char *group,
                          const char *mode, double scale, struct trace_tensor **out)
{
    struct collective_work w = {
        .op = IR_all_reduce, .group = group, .mode = mode, .scale = scale, .n = n, .in = in, .out = out};
    memset(out, 0, (size_t)(n > 0 ? n : 0) * sizeof *out);
    if (n < 1 || !(scale != 0 && isfinite(scale)))
        return trace_fail(c, TCC_EUSAGE, "all_reduce: %d tensors, times %g", n, scale);
    for (int i = 0; i < n; i++)
        if (!in[i] || in[i]->c != c)
            return trace_fail(c, TCC_EUSAGE, "all_reduce: tensor %d is none of this context", i);
    if (!check(c, &w, false) || trace_do(c, record, &w))
        memset(out, 0, (size_t)n * sizeof *out);
    return c->status;
}

struct trace_tensor *trace_reduce(struct trace_tensor *t, const char *group, const char *mode, int root)
{
    return collective(t, (struct collective_work){.op = IR_reduce, .group = group, .mode = mode, .number = root}, true);
}

struct trace_tensor *trace_broadcast(struct trace_tensor *t, const char *group, int root)
{
    return collective(t, (struct collective_work){.op = IR_broadcast, .group = group, .number = root}, true);
}

struct trace_tensor *trace_all_gather(struct trace_tensor *t, const char *group)
{
    int size = t ? trace_group_size(t->c, group) : 1;
    return collective(t, (struct collective_work){.op = IR_all_gather, .group = group, .number = size}, false);
}

struct trace_tensor *trace_reduce_scatter(struct trace_tensor *t, const char *group, const char *mode)
{
    int size = t ? trace_group_size(t->c, group) : 1;
    return collective(
        t, (struct collective_work){.op = IR_reduce_scatter, .group = group, .mode = mode, .number = size}, false);
}

struct trace_tensor *trace_all_to_all(struct trace_tensor *t, const char *group)
{
    return collective(t, (struct collective_work){.op = IR_all_to_all, .group = group}, false);
}

struct trace_tensor *trace_all_to_all_parts(struct trace_tensor *t, const char *group, const int64_t *give,
                                            const int64_t *take)
{
    int size = t ? trace_group_size(t->c, group) : 1;
    return collective(
        t, (struct collective_work){.op = IR_all_to_all, .group = group, .number = size, .give = give, .take = take},
        false);
}

int trace_send(struct trace_tensor *t, const char *group, int peer, int tag)
{
    if (!t)
        return TCC_EUSAGE;
    collective(t, (struct collective_work){.op = IR_send, .group = group, .number = peer, .tag = tag}, true);
    return t->c->status;
}

struct trace_tensor *trace_recv(struct trace_ctx *c, const char *group, int peer, int tag, int dtype, int rank,
                                const int64_t *dims)
{
    struct collective_work w = {
        .op = IR_recv, .group = group, .number = peer, .tag = tag, .dtype = dtype, .rank = rank, .dims = dims};
    w.out = &w.one;
    return check(c, &w, true) && !trace_do(c, record, &w) ? w.one : NULL;
}

/* -- Eager mode ------------------------------------------------------------------------------------------------- */

static int reduction(const struct ir_node *n)
{
    static const char *const names[] = {[TCCRT_SUM] = "sum",
                                        [TCCRT_AVG] = "avg",
                                        [TCCRT_MIN] = "min",
                                        [TCCRT_MAX] = "max",
                                        [TCCRT_PRODUCT] = "product"};
    const char *mode = ir_get_s(n, IR_ATTR_mode, "sum");
    int i = TCCRT_SUM;
    while (i < TCCRT_PRODUCT && strcmp(names[i], mode))
        i++;
    return i;
}

static int number(const struct ir_node *n, enum ir_attr_key key)
{
    const struct ir_attr *a = ir_attr(n, key);
    return a ? (int)ir_const_or(a->e, 0) : 0;
}

/* Elements of the parts whose rows an attribute lists; NULL: equal parts. */
static int64_t *parts(struct ir_ctx *ctx, const struct ir_attr *rows, const struct tcc_tensor *t)
{
    int64_t *counts = rows ? IR_NEWN(ctx, (size_t)rows->n + 1, int64_t) : NULL, row = 1;
    for (int i = 1; i < t->rank; i++)
        row *= t->dims[i];
    for (int i = 0; rows && i < rows->n; i++)
        counts[i] = rows->ints[i] * row;
    return counts;
}

static int communicate(struct ir_ctx *ctx, struct tccrt_comm *comm, const struct ir_node *n,
                       const struct tcc_tensor *in, const struct tcc_tensor *out)
{
    double scale = ir_get_f(n, IR_ATTR_scale, 1);
    int root = (int)ir_get_i(n, IR_ATTR_root, 0), how = reduction(n);
    switch (n->op) {
    case IR_all_reduce: return tccrt_comm_all_reduce(comm, how, scale, n->nin, in, out, NULL);
    case IR_reduce: return tccrt_comm_reduce(comm, how, scale, root, n->nin, in, out, NULL);
    case IR_broadcast:
        for (int i = 0; i < n->nin; i++)
            if (tccrt_comm_rank(comm) == root)
                memcpy(out[i].data, in[i].data, trace_host_bytes(&in[i]));
        return tccrt_comm_broadcast(comm, root, n->nin, out, NULL);
    case IR_all_gather: return tccrt_comm_all_gather(comm, in, out, NULL, NULL);
    case IR_reduce_scatter: return tccrt_comm_reduce_scatter(comm, how, scale, in, out, NULL, NULL);
    case IR_all_to_all:
        return tccrt_comm_all_to_all(comm, in, parts(ctx, ir_attr(n, IR_ATTR_give), in), out,
                                     parts(ctx, ir_attr(n, IR_ATTR_take), out), NULL);
    case IR_send: return tccrt_comm_send(comm, number(n, IR_ATTR_peer), number(n, IR_ATTR_tag), in, NULL);
    case IR_recv: return tccrt_comm_recv(comm, number(n, IR_ATTR_peer), number(n, IR_ATTR_tag), out, NULL);
    default: return TCC_EBUG;
    }
}

int trace_eager_collective(struct trace_ctx *c, const struct ir_node *n, struct tcc_object *const *in,
                           struct tcc_object **out)
{
    struct ir_ctx *ctx = c->graph.ctx;
    struct tcc_tensor *from = IR_NEWN(ctx, (size_t)n->nin + 1, struct tcc_tensor);
    struct tcc_tensor *to = IR_NEWN(ctx, (size_t)n->nout + 1, struct tcc_tensor);
    int64_t dims[TCC_MAX_RANK];
    for (int i = 0; i < n->nin; i++)
        from[i] = in[i]->t;
    for (int i = 0; i < n->nout; i++) {
        ir_type type = n->out[i]->type;
        ir_static_dims(type, dims);
        if (!(out[i] = tccrt_object_tensor(type->dtype, type->rank, dims)))
            return trace_no_memory(c);
        to[i] = out[i]->t;
    }
    int status = communicate(ctx, trace_comm(c, ir_get_s(n, IR_ATTR_group, "world")), n, from, to);
    return status ? trace_comm_failed(c, status) : TCC_OK;
}
