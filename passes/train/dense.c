/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense layers and convolutions as a graph has them: `matmul` or `conv` whose second operand is a parameter, read as it
 * is or transposed. A layer's name is that of its parameter without ".weight". Exporters that fold the transposition
 * into the weight call it onnx::MatMul_12 or val_3: there the node's metadata, or its path, /layers.0/fc/MatMul, name
 * it.
 */
#include "passes/train/adapt_int.h"

#include <string.h>

/* What v is a matrix transposed of, any number of times. */
static struct ir_value *matrix_behind(struct ir_value *v, bool *transposed)
{
    while (v->def && v->def->op == IR_transpose && v->type->rank == 2) {
        const struct ir_attr *perm = ir_attr(v->def, IR_ATTR_perm);
        *transposed ^= perm && perm->n == 2 && perm->ints[0] == 1;
        v = v->def->in[0].value;
    }
    return v;
}

static const char *without(struct ir_ctx *ctx, const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && !strcmp(name + n - k, end) ? ir_internf(ctx, "%.*s", (int)(n - k), name) : NULL;
}

/* "/layers.0/fc/MatMul": layers.0.fc. NULL: the node's name is no path. */
static const char *module_of_path(struct ir_ctx *ctx, const char *node)
{
    const char *last = node && *node == '/' ? strrchr(node, '/') : NULL;
    if (!last || last == node)
        return NULL;
    char *name = ir_strdup(ctx, ir_internf(ctx, "%.*s", (int)(last - node - 1), node + 1));
    for (char *c = name; *c; c++)
        *c = *c == '/' ? '.' : *c;
    return ir_intern(ctx, name);
}

static const char *module_name(struct ir_ctx *ctx, const struct ir_node *n, const char *param)
{
    const char *module = without(ctx, param, ".weight");
    if (!module)
        module = n->where.scope;
    if (!module)
        module = module_of_path(ctx, n->where.node);
    return module ? module : param;
}

/* A constant, or one that readers have put behind a reshape of its own shape, lest it be folded. */
static const struct ir_tensor *constant_behind(const struct ir_value *v)
{
    if (v->def->op == IR_reshape && v->def->in[0].value->type == v->type)
        v = v->def->in[0].value;
    return v->def ? ir_const_of(v) : NULL;
}

/* Is v a parameter? Then its name and state. */
static bool is_param(struct ir_value *v, struct dense *d)
{
    if (!v->def || !ir_is_tensor(v->type) || !tcc_is_float((enum tcc_dtype)v->type->dtype))
        return false;
    d->state = v->def->op == IR_state_read ? ir_state_of(v->def) : NULL;
    if (d->state ? !(d->state->flags & (IR_STATE_PARAM | IR_STATE_BUFFER)) : !constant_behind(v))
        return false;
    d->weight = v;
    d->param = d->state ? d->state->name : v->name;
    return d->param && ir_static_dims(v->type, NULL);
}

bool train_dense_of(struct ir_node *n, struct dense *d)
{
    int64_t dims[TCC_MAX_RANK];
    bool transposed = false;
    *d = (struct dense){.node = n, .conv = n->op == IR_conv};
    if (n->op != IR_matmul && n->op != IR_conv)
        return false;
    struct ir_value *w = n->in[1].value;
    if (!d->conv)
        w = matrix_behind(w, &transposed);
    if (!is_param(w, d) || (d->conv ? w->type->rank < 3 : w->type->rank != 2))
        return false;
    ir_static_dims(w->type, dims);
    d->by_input = !d->conv && transposed == (ir_get_i(n, IR_ATTR_trans_b, 0) != 0);
    d->in = dims[!d->by_input];
    d->out = dims[d->by_input];
    d->module = module_name(n->block->func->module->ctx, n, d->param);
    return true;
}

struct ir_tensor *train_dense_values(const struct dense *d)
{
    return d->state ? d->state->init : (struct ir_tensor *)(uintptr_t)constant_behind(d->weight);
}
