/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of a node as a library op's own. */
#include "compiler/onnx/import_int.h"

#include <string.h>

bool imp_user_attr(struct imp *im, const struct onnx_attr *a, struct ir_attr *to)
{
    int n = (int)a->count;
    double *f = IR_NEWN(im->ctx, n + 1, double);
    const char **s = IR_NEWN(im->ctx, n + 1, const char *);
    switch (a->type) {
    case ONNX_ATTR_INT: *to = ir_attr_ints(IR_ATTR_user, 1, &a->i); break;
    case ONNX_ATTR_INTS: *to = ir_attr_ints(IR_ATTR_user, n, a->ints); break;
    case ONNX_ATTR_FLOAT:
        f[0] = (double)a->f;
        *to = ir_attr_floats(IR_ATTR_user, 1, f);
        break;
    case ONNX_ATTR_FLOATS:
        for (int k = 0; k < n; k++)
            f[k] = (double)a->floats[k];
        *to = ir_attr_floats(IR_ATTR_user, n, f);
        break;
    case ONNX_ATTR_STRING:
        s[0] = a->s.data;
        *to = ir_attr_strings(IR_ATTR_user, 1, s);
        break;
    case ONNX_ATTR_STRINGS:
        for (int k = 0; k < n; k++)
            s[k] = a->strings[k].data;
        *to = ir_attr_strings(IR_ATTR_user, n, s);
        break;
    case ONNX_ATTR_TENSOR: {
        struct ir_tensor *t = imp_tensor_data(im, a->tensor);
        if (!t)
            return false;
        *to = ir_attr_t(IR_ATTR_user, t);
        break;
    }
    default: return false;
    }
    to->name = ir_intern(im->ctx, a->name);
    return true;
}

/* all: what can't be one is refused; else it is left out */
static const struct ir_attr *user_attrs(struct imp *im, bool all, int *n)
{
    struct ir_attr *attrs = IR_NEWN(im->ctx, im->node->attr_count + 1, struct ir_attr);
    *n = 0;
    for (size_t k = 0; k < im->node->attr_count; k++) {
        const struct onnx_attr *a = imp_attr(im, im->node->attrs[k].name);
        if (!a)
            continue;
        if (!imp_user_attr(im, a, &attrs[*n])) {
            if (!all)
                continue;
            return imp_unsupported(
                       im,
                       "attribute '%s': numbers, strings, lists of them and tensors are what a custom operator takes",
                       im->node->attrs[k].name),
                   NULL;
        }
        attrs[(*n)++].name = ir_intern(im->ctx, im->node->attrs[k].name);
    }
    return attrs;
}

const struct ir_attr *imp_user_attrs(struct imp *im, int *n)
{
    return user_attrs(im, true, n);
}

const struct ir_attr *imp_words(struct imp *im, int *n)
{
    return user_attrs(im, false, n);
}

struct ir_node *imp_lib(struct imp *im, const char *name, int nin, struct ir_value *const *in, int nout,
                        const ir_type *types, const struct ir_attr *more)
{
    int n, extra = 0;
    const struct ir_attr *words = imp_words(im, &n);
    while (more && more[extra].key != IR_ATTR_NONE)
        extra++;
    struct ir_attr *attrs = IR_NEWN(im->ctx, n + extra + 1, struct ir_attr);
    if (n)
        memcpy(attrs, words, (size_t)n * sizeof *attrs);
    if (extra)
        memcpy(attrs + n, more, (size_t)extra * sizeof *attrs);
    return imp_lib_of(im, name, nin, in, nout, types, n + extra, attrs);
}
