/* SPDX-License-Identifier: Apache-2.0 */
/* Library ops: their nodes, their attributes, sizes that only the run knows. */
#include "compiler/import/import.h"

#include <string.h>

static const char *output_name(struct imp *im, int output)
{
    const char *name = im->result ? im->result(im, output) : NULL;
    return name ? name : im->b.where.node ? im->b.where.node : "size";
}

ir_expr imp_fresh_dim(struct imp *im, int output, int axis)
{
    return ir_fresh_as(im->ctx, ir_internf(im->ctx, "%s.%d", output_name(im, output), axis), 0, IMP_MAX_DIM);
}

ir_expr imp_fresh_element(struct imp *im, const struct ir_value *v, int k, int64_t lo, int64_t hi)
{
    const struct ir_value *named = v;
    while (named && !named->name) /* made of the model's value by us: casts, clips */
        named = named->def && named->def->nin ? named->def->in[0].value : NULL;
    const char *name = named ? named->name : output_name(im, 0);
    return ir_fresh_as(im->ctx, imp_rank(v) == 0 ? name : ir_internf(im->ctx, "%s[%d]", name, k), lo, hi);
}

ir_type imp_fresh_type(struct imp *im, enum tcc_dtype dtype, int rank, const ir_expr *dims)
{
    ir_expr all[TCC_MAX_RANK];
    for (int k = 0; k < rank; k++)
        all[k] = dims && dims[k] ? dims[k] : imp_fresh_dim(im, 0, k);
    return ir_tensor_type(im->ctx, dtype, rank, all);
}

struct ir_attr imp_user_ints(struct imp *im, const char *name, int n, const int64_t *values)
{
    int64_t *v = IR_NEWN(im->ctx, n + 1, int64_t);
    memcpy(v, values, (size_t)n * sizeof *v);
    struct ir_attr a = ir_attr_ints(IR_ATTR_user, n, v);
    a.name = name;
    return a;
}

struct ir_attr imp_user_int(struct imp *im, const char *name, int64_t value)
{
    return imp_user_ints(im, name, 1, &value);
}

struct ir_attr imp_user_num(struct imp *im, const char *name, float value)
{
    double *v = IR_NEW(im->ctx, double);
    *v = (double)value;
    struct ir_attr a = ir_attr_floats(IR_ATTR_user, 1, v);
    a.name = name;
    return a;
}

struct ir_attr imp_user_text(struct imp *im, const char *name, const char *value)
{
    const char **v = IR_NEW(im->ctx, const char *);
    *v = value;
    struct ir_attr a = ir_attr_strings(IR_ATTR_user, 1, v);
    a.name = name;
    return a;
}

struct ir_node *imp_lib_of(struct imp *im, const char *name, int nin, struct ir_value *const *in, int nout,
                           const ir_type *types, int n, const struct ir_attr *own)
{
    struct ir_attr *attrs = IR_NEWN(im->ctx, n + 3, struct ir_attr);
    for (int i = 0; i < nout; i++) { /* sizes that constants say */
        const char *why = ir_type_impossible(types[i]);
        if (why)
            return imp_bad(im, "a result of type %s would have %s", ir_type_text(im->ctx, types[i]), why), NULL;
    }
    attrs[0] = ir_attr_s(IR_ATTR_name, name);
    attrs[1] = ir_attr_types(IR_ATTR_types, nout, types);
    if (n)
        memcpy(attrs + 2, own, (size_t)n * sizeof *attrs);
    return ir_build_typed(&im->b, IR_lib, nin, in, attrs, nout, types);
}

struct ir_value *imp_lib_value(struct imp *im, const char *name, int nin, struct ir_value *const *in, ir_type type,
                               int n, const struct ir_attr *own)
{
    struct ir_node *node = imp_lib_of(im, name, nin, in, 1, &type, n, own);
    return node ? node->out[0] : NULL;
}

struct ir_value *imp_nonzero(struct imp *im, struct ir_value *x)
{
    ir_expr dims[2] = {ir_const(im->ctx, imp_rank(x)), NULL};
    ir_type t = x ? imp_fresh_type(im, TCC_I64, 2, dims) : NULL;
    return x ? imp_lib_value(im, "nonzero", 1, &x, t, 0, NULL) : NULL;
}

struct ir_value *imp_unbox(struct imp *im, struct ir_value *v, ir_type type)
{
    if (!v || ir_is_tensor(v->type) || !type || !ir_is_tensor(type))
        return v;
    return ir_build1(&im->b, IR_unbox, 1, &v, IR_ATTRS(ir_attr_types(IR_ATTR_types, 1, &type)));
}
