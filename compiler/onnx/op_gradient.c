/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.onnx.preview.training Gradient: derivatives of the value named y by the values named xs, where those and zs take
 * the values of the node's operands. Operands that are the named values themselves, the usual case, leave the graph as
 * it is; otherwise what y is computed by is built once more from the operands.
 */
#include "compiler/onnx/import_int.h"

#include <string.h>

struct target {
    int nx, n; /* names in xs, in both lists */
    struct ir_value **named, **given, *y;
    bool same;
};

static struct ir_value *value_named(struct imp *im, const char *name)
{
    struct ir_value *v = imp_lookup(im, name);
    if (!v || v == &imp_poison)
        return imp_bad(im, "'%s' is not computed before it is differentiated", name), NULL;
    if (v->block != im->b.block)
        return imp_unsupported(im, "'%s' is computed in another graph", name), NULL;
    return v;
}

static bool read_target(struct imp *im, struct target *t)
{
    int nz = 0;
    const struct onnx_str *xs = imp_strs(im, "xs", &t->nx), *zs = imp_strs(im, "zs", &nz);
    if (!xs || t->nx != imp_nout(im) || (zs ? t->nx + nz : t->nx) != imp_nin(im))
        return imp_bad(im, "%d operands and %d results for %d names in xs and %d in zs", imp_nin(im), imp_nout(im),
                       xs ? t->nx : 0, zs ? nz : 0);
    t->n = imp_nin(im);
    t->named = IR_NEWN(im->ctx, t->n + 1, struct ir_value *);
    t->given = IR_NEWN(im->ctx, t->n + 1, struct ir_value *);
    t->same = true;
    for (int i = 0; i < t->n; i++) {
        t->named[i] = value_named(im, i < t->nx ? xs[i].data : zs[i - t->nx].data);
        t->given[i] = imp_tensor(im, i);
        if (!t->named[i] || !t->given[i])
            return false;
        t->same &= t->named[i] == t->given[i];
    }
    return (t->y = value_named(im, imp_s(im, "y", ""))) != NULL;
}

/* The node with other operands; NULL after a message. */
static struct ir_node *copy_node(struct imp *im, const struct ir_node *n, struct ir_value *const *map, uint32_t room)
{
    struct ir_value **in = IR_NEWN(im->ctx, n->nin + 1, struct ir_value *);
    struct ir_attr *attrs = IR_NEWN(im->ctx, n->nattrs + 1, struct ir_attr);
    if (n->nregions || (ir_op_info(n->op)->flags & IR_F_EFFECT))
        return imp_unsupported(im, "other values for what is computed through %s", ir_op_info(n->op)->name), NULL;
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *v = n->in[i].value;
        in[i] = v && v->id < room && map[v->id] ? map[v->id] : v;
    }
    for (int i = 0; i < n->nattrs; i++)
        attrs[i] = n->attrs[i];
    return ir_build(&im->b, (enum ir_op)n->op, n->nin, in, attrs);
}

/* Values that y is computed from. */
static bool *ancestors(struct imp *im, const struct ir_value *y)
{
    bool *needed = IR_NEWN(im->ctx, im->func->nvalues + 1, bool);
    needed[y->id] = true;
    const struct ir_node *last = NULL;
    IR_EACH_NODE(n, im->b.block)
        last = n;
    for (const struct ir_node *n = last; n; n = n->prev) {
        bool any = false;
        for (int i = 0; i < n->nout; i++)
            any |= needed[n->out[i]->id];
        for (int i = 0; any && i < n->nin; i++)
            if (n->in[i].value)
                needed[n->in[i].value->id] = true;
    }
    return needed;
}

/* Builds y anew from the operands. */
static bool substitute(struct imp *im, struct target *t)
{
    uint32_t room = im->func->nvalues;
    struct ir_value **map = IR_NEWN(im->ctx, room + 1, struct ir_value *);
    const bool *needed = ancestors(im, t->y);
    const struct ir_node *end = NULL;
    IR_EACH_NODE(n, im->b.block)
        end = n;
    for (int i = 0; i < t->n; i++)
        map[t->named[i]->id] = t->given[i];
    for (const struct ir_node *n = im->b.block->first; n && end; n = n == end ? NULL : n->next) {
        bool changes = false, wanted = false;
        for (int i = 0; i < n->nin; i++)
            changes |= n->in[i].value && n->in[i].value->id < room && map[n->in[i].value->id];
        for (int i = 0; i < n->nout; i++)
            wanted |= needed[n->out[i]->id] && !map[n->out[i]->id];
        struct ir_node *copy = NULL;
        if (changes && wanted && !(copy = copy_node(im, n, map, room)))
            return false;
        for (int i = 0; copy && i < n->nout; i++)
            if (!map[n->out[i]->id])
                map[n->out[i]->id] = copy->out[i];
    }
    memcpy(t->named, t->given, (size_t)t->n * sizeof *t->named);
    if (map[t->y->id])
        t->y = map[t->y->id];
    return true;
}

bool onnx_op_gradient(struct imp *im)
{
    struct target t = {0};
    if (!read_target(im, &t) || (!t.same && !substitute(im, &t)))
        return false;
    struct ir_value **grads = IR_NEWN(im->ctx, t.nx + 1, struct ir_value *);
    if (!grad_build(&im->b, 1, &t.y, NULL, t.nx, t.named, grads))
        return false;
    for (int i = 0; i < t.nx; i++) {
        ir_type x = t.named[i]->type;
        if (!grads[i])
            grads[i] = imp_splat(im, (enum tcc_dtype)x->dtype, 0, x->rank, x->dim);
        if (!imp_out(im, i, grads[i]))
            return false;
    }
    return true;
}
