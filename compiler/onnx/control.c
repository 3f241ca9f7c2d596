/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What If, Loop and Scan share: ONNX's graphs become regions, whose results have types outside of them that are known
 * only when the region has been imported.
 */
#include "compiler/onnx/control_int.h"

const struct onnx_graph *control_graph(struct imp *im, const char *name)
{
    const struct onnx_attr *a = imp_attr(im, name);
    if (a && a->type == ONNX_ATTR_GRAPH && a->graph->output_count < MAX_RESULTS && a->graph->input_count < MAX_RESULTS)
        return a->graph;
    return imp_bad(im, "graph attribute '%s' is missing, or has too many inputs or outputs", name), NULL;
}

struct ir_block *control_open(struct imp *im, struct ir_node *parent, struct imp_scope *scope, struct ir_builder *saved)
{
    imp_push_scope(im, scope);
    return imp_open_region(im, parent, saved);
}

void control_close(struct imp *im, const struct ir_builder *saved)
{
    imp_pop_scope(im);
    imp_close_region(im, saved);
}

bool control_poisoned(struct imp *im, size_t n, struct ir_value *const *v)
{
    for (size_t k = 0; k < n; k++) {
        if (v[k] == &imp_poison) {
            im->refused = true;
            return true;
        }
    }
    return false;
}

struct outside {
    uint32_t first_inside;
    bool inside;
};

static void look(void *user, ir_expr sym)
{
    struct outside *o = user;
    o->inside |= sym->id >= o->first_inside;
}

ir_expr control_outside_dim(struct imp *im, ir_expr e, uint32_t first_inside, int output, int axis)
{
    struct outside o = {first_inside, false};
    ir_each_sym(e, look, &o);
    return o.inside ? imp_fresh_dim(im, output, axis) : e;
}

uint32_t control_mark(struct imp *im)
{
    return ir_fresh(im->ctx, "mark", 0, 1)->id;
}

ir_type control_outside_type(struct imp *im, ir_type t, uint32_t first_inside, int output)
{
    ir_expr dims[TCC_MAX_RANK];
    if (t->kind != IR_T_TENSOR || t->rank <= 0)
        return t;
    for (int k = 0; k < t->rank; k++)
        dims[k] = control_outside_dim(im, t->dim[k], first_inside, output, k);
    return ir_tensor_type(im->ctx, (enum tcc_dtype)t->dtype, t->rank, dims);
}

ir_type control_common_type(struct imp *im, ir_type a, ir_type b, uint32_t first_inside, int output)
{
    ir_expr dims[TCC_MAX_RANK];
    if (a == b)
        return control_outside_type(im, a, first_inside, output);
    if (a->kind != b->kind) {
        /* A value and an optional one: both are optional. */
        ir_type o = a->kind == IR_T_OPTIONAL ? a : b->kind == IR_T_OPTIONAL ? b : NULL, other = o == a ? b : a;
        ir_type e = o && o->elem ? control_common_type(im, o->elem, other, first_inside, output) : NULL;
        return e ? ir_optional_type(im->ctx, e) : NULL;
    }
    if (a->kind != IR_T_TENSOR) {
        if (!a->elem || !b->elem)
            return a->elem ? a : b;
        /* Elements of differing shape: a type without one. */
        bool tensors = a->elem->kind == IR_T_TENSOR && b->elem->kind == IR_T_TENSOR;
        ir_type e = !tensors                           ? control_common_type(im, a->elem, b->elem, first_inside, output)
                    : a->elem->dtype == b->elem->dtype ? ir_unranked_type(im->ctx, (enum tcc_dtype)a->elem->dtype)
                                                       : NULL;
        return !e ? NULL : a->kind == IR_T_SEQUENCE ? ir_sequence_type(im->ctx, e) : ir_optional_type(im->ctx, e);
    }
    if (a->dtype != b->dtype)
        return NULL;
    if (a->rank != b->rank || a->rank < 0)
        return ir_unranked_type(im->ctx, (enum tcc_dtype)a->dtype);
    for (int k = 0; k < a->rank; k++)
        dims[k] = a->dim[k] == b->dim[k] ? control_outside_dim(im, a->dim[k], first_inside, output, k)
                                         : imp_fresh_dim(im, output, k);
    return ir_tensor_type(im->ctx, (enum tcc_dtype)a->dtype, a->rank, dims);
}

struct ir_value *control_as_type(struct imp *im, struct ir_value *v, ir_type t)
{
    if (!v || v->type == t || (ir_is_tensor(v->type) && ir_is_tensor(t)))
        return v;
    if (ir_is_tensor(v->type) && t->kind == IR_T_TENSOR)
        return ir_build1(&im->b, IR_box, 1, &v, NULL);
    const char *name = t->kind == v->type->kind   ? "dyn_identity"
                       : t->kind == IR_T_OPTIONAL ? "optional"
                                                  : "optional_get_element";
    struct ir_node *n = ir_build_typed(
        &im->b, IR_lib, 1, &v, IR_ATTRS(ir_attr_s(IR_ATTR_name, name), ir_attr_types(IR_ATTR_types, 1, &t)), 1, &t);
    return n ? n->out[0] : NULL;
}

struct ir_value *control_operand(struct imp *im, int k)
{
    struct ir_value *v = imp_in(im, k);
    bool any_rank = v && v->type->kind == IR_T_TENSOR && imp_dtype(v) != TCC_STRING;
    return any_rank ? imp_single(im, v) : imp_tensor(im, k);
}
