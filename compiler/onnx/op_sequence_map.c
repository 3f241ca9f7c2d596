/* SPDX-License-Identifier: Apache-2.0 */
/* SequenceMap: its body for each item where they are known, else a loop over the items that collects each result in a
 * sequence of its own. */
#include "compiler/onnx/import_int.h"

#define MAX_MAPPED 32
#define MAX_KNOWN 64 /* items for each of which the body is imported */

struct mapping {
    const struct onnx_graph *body;
    int nin, nout;
    struct ir_value *in[MAX_MAPPED];
    ir_type results[MAX_MAPPED];
};

/* Item `i` of operand k as the body's input; operands that are no sequences are passed as they are. */
static struct ir_value *item(struct imp *im, const struct mapping *m, int k, struct ir_value *i)
{
    struct ir_value *in[2] = {m->in[k], i};
    if (m->in[k]->type->kind != IR_T_SEQUENCE)
        return m->in[k];
    ir_type elem = m->in[k]->type->elem, wanted = imp_type_of(im, m->body->inputs[k].type);
    if (elem->kind == IR_T_TENSOR && elem->rank < 0 && wanted && wanted->kind == IR_T_TENSOR && wanted->rank >= 0)
        elem = imp_fresh_type(im, (enum tcc_dtype)elem->dtype, wanted->rank, NULL);
    struct ir_node *n = imp_lib(im, "sequence_at", 2, in, 1, &elem, NULL);
    return n ? n->out[0] : NULL;
}

static bool map_body(struct imp *im, struct mapping *m, struct ir_value *i, struct ir_value **sequences,
                     struct ir_value **yields)
{
    struct ir_value *outs[MAX_MAPPED];
    for (int k = 0; k < m->nin; k++) {
        struct ir_value *v = item(im, m, k, i);
        if (!v)
            return false;
        imp_bind_name(im, m->body->inputs[k].name, v);
    }
    if (!imp_graph(im, m->body, outs))
        return false;
    for (int k = 0; k < m->nout; k++) {
        if (outs[k] == &imp_poison) {
            im->refused = true;
            return false;
        }
        struct ir_value *in[2] = {sequences[k], outs[k]};
        struct ir_node *n = imp_lib(im, "sequence_insert", 2, in, 1, &m->results[k], NULL);
        if (!n)
            return false;
        yields[k] = n->out[0];
    }
    return true;
}

/* The element types of the results, from what the body declares. */
static bool result_types(struct imp *im, struct mapping *m)
{
    for (int k = 0; k < m->nout; k++) {
        ir_type t = imp_type_of(im, m->body->outputs[k].type);
        if (!t || t->kind != IR_T_TENSOR)
            return imp_unsupported(im, "a body that does not declare its outputs as tensors");
        m->results[k] = ir_sequence_type(im->ctx, ir_unranked_type(im->ctx, (enum tcc_dtype)t->dtype));
    }
    return true;
}

/* -- Known items */

/* How many times the body is imported; -1: not known, or too often. */
static int known_length(struct imp *im, const struct mapping *m)
{
    const struct imp_items *first = imp_items_of(im, m->in[0]);
    for (int k = 0; k < m->nin && first; k++) {
        const struct imp_items *items = imp_items_of(im, m->in[k]);
        if (m->in[k]->type->kind == IR_T_SEQUENCE && (!items || items->n != first->n))
            return -1;
    }
    return first && first->n <= MAX_KNOWN ? first->n : -1;
}

/* The body for item i; outs: its results. */
static bool map_item(struct imp *im, const struct mapping *m, int i, struct ir_value **outs)
{
    struct imp_scope scope;
    imp_push_scope(im, &scope);
    for (int k = 0; k < m->nin; k++) {
        const struct imp_items *items = imp_items_of(im, m->in[k]);
        bool sequence = m->in[k]->type->kind == IR_T_SEQUENCE;
        imp_bind_name(im, m->body->inputs[k].name, sequence ? items->at[i] : m->in[k]);
    }
    bool fine = imp_graph(im, m->body, outs);
    imp_pop_scope(im);
    for (int k = 0; fine && k < m->nout; k++)
        im->refused |= outs[k] == &imp_poison;
    return fine && !im->refused;
}

static bool map_known(struct imp *im, struct mapping *m, int n)
{
    struct ir_value *outs[MAX_MAPPED], **all = IR_NEWN(im->ctx, (n + 1) * MAX_MAPPED, struct ir_value *);
    for (int i = 0; i < n; i++) {
        if (!map_item(im, m, i, outs))
            return false;
        for (int k = 0; k < m->nout; k++)
            all[k * n + i] = outs[k];
    }
    for (int k = 0; k < m->nout; k++) {
        struct ir_node *empty = n ? NULL : imp_lib(im, "sequence_empty", 0, NULL, 1, &m->results[k], NULL);
        struct ir_value *v = n ? imp_sequence(im, n, all + k * n) : empty ? empty->out[0] : NULL;
        if ((!n && v && !imp_set_items(im, v, 0, NULL)) || !imp_out(im, k, v))
            return false;
    }
    return true;
}

bool onnx_op_sequence_map(struct imp *im)
{
    const struct onnx_attr *a = imp_attr(im, "body");
    struct mapping m = {
        .body = a && a->type == ONNX_ATTR_GRAPH ? a->graph : NULL, .nin = imp_nin(im), .nout = imp_nout(im)};
    if (!m.body || m.nin > MAX_MAPPED || m.nout > MAX_MAPPED || (int)m.body->input_count != m.nin ||
        (int)m.body->output_count != m.nout)
        return imp_bad(im, "a body with an input for each operand and an output for each result is expected");
    for (int k = 0; k < m.nin; k++) {
        if (!(m.in[k] = imp_in(im, k)))
            return imp_bad(im, "operand %d is missing", k);
    }
    if (m.in[0]->type->kind != IR_T_SEQUENCE)
        return imp_bad(im, "operand 0 must be a sequence");
    if (!result_types(im, &m))
        return false;
    int known = known_length(im, &m);
    if (known >= 0)
        return map_known(im, &m, known);
    ir_type count = ir_scalar_type(im->ctx, TCC_I64);
    struct ir_node *length = imp_lib(im, "sequence_length", 1, m.in, 1, &count, NULL);
    struct ir_value *in[MAX_MAPPED + 2] = {length ? length->out[0] : NULL, NULL}, *carried[MAX_MAPPED],
                                     *yields[MAX_MAPPED + 1];
    for (int k = 0; length && k < m.nout; k++) {
        struct ir_node *empty = imp_lib(im, "sequence_empty", 0, NULL, 1, &m.results[k], NULL);
        in[k + 2] = empty ? empty->out[0] : NULL;
    }
    struct ir_builder outside;
    struct ir_node *loop =
        length ? ir_build_typed(&im->b, IR_loop, 2 + m.nout, in,
                                IR_ATTRS(ir_attr_i(IR_ATTR_nscan, 0), ir_attr_types(IR_ATTR_types, m.nout, m.results)),
                                m.nout, m.results)
               : NULL;
    if (!loop)
        return false;
    struct imp_scope scope;
    struct ir_block *region = imp_open_region(im, loop, &outside);
    struct ir_value *i = ir_param_new(region, count, "i");
    yields[0] = ir_param_new(region, ir_scalar_type(im->ctx, TCC_BOOL), "go");
    for (int k = 0; k < m.nout; k++)
        carried[k] = ir_param_new(region, m.results[k], NULL);
    imp_push_scope(im, &scope);
    bool fine = map_body(im, &m, i, carried, yields + 1) && imp_yield(im, (size_t)m.nout + 1, yields);
    imp_pop_scope(im);
    imp_close_region(im, &outside);
    for (int k = 0; fine && k < m.nout; k++)
        imp_out(im, k, loop->out[k]);
    return fine;
}
