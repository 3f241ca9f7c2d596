/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib.c - gradients of library ops, by name.
 *
 * Resampling is linear and goes axis by axis, so that its gradient is the product with each axis's matrix, transposed.
 * The matrix is what the op itself makes of the identity: every mode, coordinate rule and filter is covered.
 */
#include "passes/grad/grad_int.h"

#include <string.h>

/* -- topk ------------------------------------------------------------------------------------------ */

void grad_topk(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *x = n->in[0].value;
    int64_t axis = ir_user_i(n, "axis", -1);
    if (!d)
        return;
    struct ir_value *in[] = {grad_full(g, x->type, 0), n->out[1], d};
    grad_accumulate(g, n, 0,
                    ir_build1(g->b, IR_scatter_elements, 3, in,
                              IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis < 0 ? axis + x->type->rank : axis),
                                       ir_attr_s(IR_ATTR_mode, "add"))));
}

/* -- resize, upsample ------------------------------------------------------------------------------ */

static struct ir_value *identity(struct grad *g, ir_expr size, enum tcc_dtype dt)
{
    ir_expr dims[2] = {size, size};
    struct ir_value *columns = ir_iota(g->b, 2, dims, 1, TCC_I64);
    struct ir_value *on = ir_binary(g->b, IR_eq, ir_iota(g->b, 2, dims, 0, TCC_I64), columns);
    struct ir_value *zero = ir_constant_f(g->b, dt, 0);
    return ir_select(g->b, on, ir_constant_f(g->b, dt, 1), zero);
}

/* Place of `axis` in the operand that lists scales or sizes, -1: not there. */
static int place_of(const struct ir_node *n, int axis, int rank)
{
    const int64_t *axes;
    int naxes = ir_user_ints(n, "axes", &axes);
    if (!naxes)
        return axis;
    for (int i = 0; i < naxes; i++)
        if (axes[i] == axis || axes[i] + rank == axis)
            return i;
    return -1;
}

/* Operand k's element for `axis` with a 1 (scales) or the size in front: what the op is told for the identity. */
static struct ir_value *told(struct grad *g, const struct ir_node *n, int k, int place, ir_expr size)
{
    struct ir_value *v = grad_in(n, k), *first;
    if (!v)
        return NULL;
    enum tcc_dtype dt = (enum tcc_dtype)v->type->dtype;
    ir_expr one = ir_const(g->ctx, 1);
    first = tcc_is_float(dt) ? ir_constant_f(g->b, dt, 1) : ir_cast_to(g->b, ir_dim_value(g->b, size), dt);
    struct ir_value *in[] = {ir_reshape_to(g->b, first, 1, &one),
                             ir_slice_axis(g->b, v, 0, ir_const(g->ctx, place), one)};
    return ir_concat(g->b, 2, in, 0);
}

/* Attribute `scales` of upsample, as told() gives operands. */
static struct ir_value *told_by_attr(struct grad *g, const struct ir_node *n, int place)
{
    const double *scales;
    int64_t two = 2;
    if (place >= ir_user_floats(n, "scales", &scales))
        return NULL;
    struct ir_tensor *t = ir_tensor_new(TCC_F32, 1, &two);
    if (!t)
        ir_no_memory(g->ctx);
    tcc_store_f64(TCC_F32, (char *)(uintptr_t)t->data, 1);
    tcc_store_f64(TCC_F32, (char *)(uintptr_t)t->data + 4, scales[place]);
    return ir_constant(g->b, t);
}

/* [in, out]: what the op makes of the identity along one axis. */
static struct ir_value *axis_matrix(struct grad *g, const struct ir_node *n, int axis, ir_expr to)
{
    struct ir_value *x = n->in[0].value, *in[4] = {NULL};
    int place = place_of(n, axis, x->type->rank), nattrs = 0;
    struct ir_attr *attrs = IR_NEWN(g->ctx, n->nattrs + 1, struct ir_attr);
    for (int i = 0; i < n->nattrs; i++) {
        const struct ir_attr *a = &n->attrs[i];
        bool drop = a->key == IR_ATTR_types ||
                    (a->key == IR_ATTR_user && (!strcmp(a->name, "axes") || !strcmp(a->name, "scales")));
        if (!drop)
            attrs[nattrs++] = *a;
    }
    if (place < 0)
        return NULL;
    ir_expr size = x->type->dim[axis];
    ir_type type = ir_tensor_type(g->ctx, (enum tcc_dtype)x->type->dtype, 2, (ir_expr[]){size, to});
    attrs[nattrs] = ir_attr_types(IR_ATTR_types, 1, &type);
    struct ir_attr *all = IR_NEWN(g->ctx, nattrs + 2, struct ir_attr);
    memcpy(all, attrs, ((size_t)nattrs + 1) * sizeof *attrs);
    in[0] = identity(g, size, (enum tcc_dtype)x->type->dtype);
    bool upsample = !strcmp(ir_get_s(n, IR_ATTR_name, ""), "upsample");
    for (int k = upsample ? 1 : 2; k < 4; k++)
        in[k] = told(g, n, k, place, size);
    if (upsample && !in[1])
        in[1] = told_by_attr(g, n, place);
    int nin = in[3] ? 4 : in[2] ? 3 : in[1] ? 2 : 1;
    struct ir_node *made = ir_build_typed(g->b, IR_lib, nin, in, all, 1, &type);
    return made->out[0];
}

/* Does an axis whose size stays keep its elements? A factor slightly above 1 moves them. */
static bool keeps_axis(const struct ir_node *n, int axis)
{
    bool upsample = !strcmp(ir_get_s(n, IR_ATTR_name, ""), "upsample");
    int k = upsample ? 1 : 2, place = place_of(n, axis, n->in[0].value->type->rank);
    const double *scales;
    int nscales = ir_user_floats(n, "scales", &scales);
    if (upsample && nscales)
        return place >= nscales || scales[place] == 1;
    struct ir_value *v = place < 0 || k >= n->nin ? NULL : n->in[k].value;
    const struct ir_tensor *t = v ? ir_const_of(v) : NULL;
    return !v || (t && (place >= t->nelems || tcc_load_f64((enum tcc_dtype)t->dtype, ir_tensor_at(t, place)) == 1));
}

void grad_resample(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    ir_type t = n->in[0].value->type;
    if (!d)
        return;
    if (!strcmp(ir_user_s(n, "coordinate_transformation_mode", ""), "tf_crop_and_resize") ||
        strcmp(ir_user_s(n, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0) {
        grad_fail(g, n, "cropping, and policies that keep the aspect ratio, are not differentiated");
        return;
    }
    for (int a = 0; a < t->rank && d; a++) {
        ir_expr to = d->type->dim[a];
        if (ir_expr_eq(g->ctx, to, t->dim[a]) == IR_YES && keeps_axis(n, a))
            continue;
        struct ir_value *m = axis_matrix(g, n, a, to);
        struct ir_value *last = grad_move_axis(g, d, a, 1, t->rank - 1);
        d = last && m ? ir_matmul(g->b, last, m, false, true, (enum tcc_dtype)t->dtype) : NULL;
        d = grad_move_axis(g, d, t->rank - 1, 1, a);
    }
    grad_accumulate(g, n, 0, d);
}

/* -- Ops whose results are elements of their first operand, each at one place, or 0 -------------------- */

/* n's attributes, for an op of that name and with results of those types. */
static struct ir_attr *attrs_of(struct grad *g, const struct ir_node *n, const char *name, int nout,
                                const ir_type *types)
{
    struct ir_attr *attrs = IR_NEWN(g->ctx, n->nattrs + 1, struct ir_attr);
    for (int i = 0; i < n->nattrs; i++)
        attrs[i] = n->attrs[i].key == IR_ATTR_types  ? ir_attr_types(IR_ATTR_types, nout, types)
                   : n->attrs[i].key == IR_ATTR_name ? ir_attr_s(IR_ATTR_name, name)
                                                     : n->attrs[i];
    return attrs;
}

/* The op again on the elements' numbers (from 1; 0 is none) says where each result came from. */
void grad_moved(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), **in = IR_NEWN(g->ctx, n->nin, struct ir_value *);
    ir_type t = n->in[0].value->type, *types = IR_NEWN(g->ctx, n->nout, ir_type);
    if (!d)
        return;
    ir_expr count = ir_num_elements(g->ctx, t), room = ir_addc(g->ctx, count, 1),
            size = ir_num_elements(g->ctx, d->type);
    struct ir_value *one = ir_constant_i(g->b, TCC_I64, 1);
    struct ir_value *numbers = ir_binary(g->b, IR_add, ir_iota(g->b, 1, &count, 0, TCC_I64), one);
    for (int i = 0; i < n->nin; i++)
        in[i] = i ? n->in[i].value : ir_reshape_to(g->b, numbers, t->rank, t->dim);
    for (int k = 0; k < n->nout; k++)
        types[k] = k ? n->out[k]->type : ir_with_dtype(g->ctx, n->out[k]->type, TCC_I64);
    struct ir_attr *attrs = attrs_of(g, n, ir_get_s(n, IR_ATTR_name, ""), n->nout, types);
    struct ir_node *made = ir_build_typed(g->b, IR_lib, n->nin, in, attrs, n->nout, types);
    struct ir_value *zeros = grad_full(g, ir_tensor_type(g->ctx, (enum tcc_dtype)t->dtype, 1, &room), 0);
    struct ir_value *scatter[] = {zeros, ir_reshape_to(g->b, made->out[0], 2, (ir_expr[]){size, ir_const(g->ctx, 1)}),
                                  ir_reshape_to(g->b, d, 1, &size)};
    struct ir_value *sums = ir_build1(g->b, IR_scatter_nd, 3, scatter, IR_ATTRS(ir_attr_s(IR_ATTR_mode, "add")));
    sums = ir_slice_axis(g->b, sums, 0, ir_const(g->ctx, 1), count);
    grad_accumulate(g, n, 0, sums ? ir_reshape_to(g->b, sums, t->rank, t->dim) : NULL);
}

/* -- Means over regions ------------------------------------------------------------------------------ */

void grad_roialign(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *in[] = {d, n->in[1].value, n->in[2].value, n->in[0].value};
    if (!d)
        return;
    if (!strcmp(ir_user_s(n, "mode", "avg"), "max")) {
        grad_fail(g, n, "the largest value of a region is not differentiated");
        return;
    }
    struct ir_attr *attrs = attrs_of(g, n, "roialign_grad", 1, &in[3]->type);
    struct ir_node *made = ir_build_typed(g->b, IR_lib, 4, in, attrs, 1, &in[3]->type);
    if (made)
        grad_accumulate(g, n, 0, made->out[0]);
}

void grad_check(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    if (d)
        grad_accumulate(g, n, 0, d);
}

/* -- By name --------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    grad_rule rule;
    unsigned operands;
} rules[] = {
#define GRAD_MAP(word, x, y, z)
#define GRAD_OP(op, rule, meaning)
#define GRAD_NONE(op, why)
#define GRAD_REFUSED(op, why)
#define GRAD_LIB(name, rule, operands) {#name, grad_##rule, operands},
#define GRAD_LIB_NONE(name, why) {#name, NULL, 0},
#include "passes/grad/grad.def"
};

/* A place that is rounded has no slope. */
static bool picks_nearest(const struct ir_node *n, const char *name)
{
    return !strcmp(name, "grid_sample") && !strcmp(ir_user_s(n, "mode", "linear"), "nearest");
}

/* What has no rule passes, so that it is found out. */
bool grad_lib_passes(const struct ir_node *n, int i)
{
    const char *name = ir_get_s(n, IR_ATTR_name, "");
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        if (!strcmp(rules[k].name, name))
            return (rules[k].operands >> i & 1) && !(i && picks_nearest(n, name));
    return true;
}

const char *const *grad_libs(void)
{
    static const char *names[sizeof rules / sizeof *rules + 1];
    int n = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].rule)
            names[n++] = rules[i].name;
    return names;
}

/* -- A user's own ----------------------------------------------------------------------------------- */

/* Operator NAME_grad on n's operands, results and the gradients of these gives those of the operands of floats. */
static void custom(struct grad *g, struct ir_node *n, const char *name)
{
    const struct ir_custom *rule = ir_custom_find(g->ctx, ir_internf(g->ctx, "%s_grad", name));
    int nin = n->nin + 2 * n->nout, nout = 0;
    struct ir_value **in = IR_NEWN(g->ctx, nin + 1, struct ir_value *);
    ir_type *types = IR_NEWN(g->ctx, nin + 1, ir_type);
    struct ir_attr *attrs = IR_NEWN(g->ctx, n->nattrs + 3, struct ir_attr);
    int nattrs = 0;
    bool any = false;
    if (!rule) {
        const char *op = strrchr(name, ':') + 1;
        grad_fail(g, n, "a custom operator is trained where its file defines TCCC_CUSTOM_OP(%s_grad) too", op);
        return;
    }
    for (int i = 0; i < n->nin; i++) {
        in[i] = n->in[i].value;
        nout += in[i] && tcc_is_float((enum tcc_dtype)in[i]->type->dtype);
    }
    for (int k = 0; k < n->nout; k++) {
        struct ir_value *d = grad_out(g, n, k);
        any |= d != NULL;
        in[n->nin + k] = n->out[k];
        in[n->nin + n->nout + k] =
            d || !tcc_is_float((enum tcc_dtype)n->out[k]->type->dtype) ? d : grad_full(g, n->out[k]->type, 0);
    }
    if (!any)
        return;
    for (int i = 0; i < nin; i++)
        types[i] = in[i] ? in[i]->type : NULL;
    for (int i = 0; i < n->nattrs; i++)
        if (n->attrs[i].key == IR_ATTR_user)
            attrs[nattrs++] = n->attrs[i];
    const ir_type *results = ir_custom_types(g->ctx, &n->where, rule, nin, types, nattrs, attrs, nout);
    if (!results) {
        g->failed = true;
        return;
    }
    attrs[nattrs++] = ir_attr_s(IR_ATTR_name, rule->name);
    attrs[nattrs++] = ir_attr_types(IR_ATTR_types, nout, results);
    struct ir_node *made = ir_build_typed(g->b, IR_lib, nin, in, attrs, nout, results);
    for (int i = 0, k = 0; made && i < n->nin; i++)
        if (in[i] && tcc_is_float((enum tcc_dtype)in[i]->type->dtype))
            grad_accumulate(g, n, i, made->out[k++]);
}

void grad_rule_lib(struct grad *g, struct ir_node *n)
{
    const char *name = ir_get_s(n, IR_ATTR_name, "");
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].name, name) != 0)
            continue;
        rules[i].rule(g, n);
        return;
    }
    if (ir_is_custom(name))
        custom(g, n, name);
    else
        grad_fail(g, n, "no gradient rule for this library op");
}
