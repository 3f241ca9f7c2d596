/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading for training: initialisers of the main graph that are floats become state variables, but those that tell an
 * operator how to work (const_operands.def). The graph is imported twice: once as it infers, once as it trains
 * (imp.train: dropout drops, batch normalisation takes the batch's statistics and updates the running ones).
 */
#include "compiler/onnx/import_int.h"

#include <string.h>

static const struct {
    const char *op;
    size_t first, last;
} rows[] = {
#define CONSTANT(op, first, last) {op, first, last},
#include "compiler/onnx/const_operands.def"
#undef CONSTANT
};

static void note_node(struct imp *im, const struct onnx_node *n)
{
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (n->domain[0] || strcmp(n->op, rows[r].op))
            continue;
        for (size_t k = rows[r].first; k <= rows[r].last && k < n->input_count; k++)
            VEC_PUSH(im->ctx, im->fixed, n->inputs[k]);
    }
}

static void note_nodes(struct imp *im, const struct onnx_node *nodes, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        note_node(im, &nodes[k]);
        for (size_t a = 0; a < nodes[k].attr_count; a++)
            if (nodes[k].attrs[a].graph)
                note_nodes(im, nodes[k].attrs[a].graph->nodes, nodes[k].attrs[a].graph->node_count);
    }
}

void imp_note_constants(struct imp *im)
{
    note_nodes(im, im->model->graph->nodes, im->model->graph->node_count);
}

/* Numbers of the program that torch.onnx.export makes initialisers of, under names like val_12: nothing that the
 * network learns. */
static bool is_number(const struct onnx_tensor *t)
{
    return !t->rank && !strncmp(t->name, "val_", 4) && t->name[4] && !t->name[4 + strspn(t->name + 4, "0123456789")];
}

bool imp_is_parameter(const struct imp *im, const struct onnx_tensor *t)
{
    bool trainable =
        t->dtype == ONNX_FLOAT || t->dtype == ONNX_DOUBLE || t->dtype == ONNX_FLOAT16 || t->dtype == ONNX_BFLOAT16;
    for (int k = 0; k < im->fixed.n && trainable; k++)
        trainable = strcmp(im->fixed.at[k], t->name) != 0;
    return trainable && t->name[0] && !is_number(t);
}

static bool is_state(const struct imp *im, const struct onnx_tensor *t)
{
    if (im->by_binding)
        return !im->call && (im->graph == im->model->graph || im->graph == im->model->training[0].algorithm) &&
               imp_is_bound(im, t->name);
    return im->training && im->graph == im->model->graph && imp_is_parameter(im, t);
}

/* What a Gradient node differentiates by, and what an adapter is added to, must not be folded away. */
static struct ir_value *fixed_initializer(struct imp *im, const struct onnx_tensor *t)
{
    struct ir_value *v = imp_tensor_const(im, t);
    if (v && im->keeps_weights && t->rank > 1 && imp_is_parameter(im, t))
        return ir_reshape_to(&im->b, v, v->type->rank, v->type->dim);
    for (int k = 0; v && k < im->differentiated.n; k++)
        if (!strcmp(im->differentiated.at[k], t->name))
            return ir_reshape_to(&im->b, v, v->type->rank, v->type->dim);
    return v;
}

struct ir_value *imp_initializer(struct imp *im, const struct onnx_tensor *t)
{
    if (!is_state(im, t))
        return fixed_initializer(im, t);
    struct ir_state *s = ir_state_by_name(im->module, t->name);
    if (!s) {
        struct ir_tensor *data = imp_tensor_data(im, t);
        if (!data)
            return NULL;
        ir_type type = ir_tensor_type_i(im->ctx, (enum tcc_dtype)data->dtype, data->rank, data->dims);
        int flags = im->by_binding && im->graph != im->model->graph ? IR_STATE_OPTIMIZER : IR_STATE_PARAM;
        s = ir_state_new(im->module, ir_intern(im->ctx, t->name), type, ir_tensor_ref(data), flags);
    }
    return ir_read_state(&im->b, s);
}

bool imp_update_buffer(struct imp *im, struct ir_state *s, struct ir_value *v)
{
    return ir_write_state(&im->b, s, v);
}
