/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of domain com.microsoft that ONNX Runtime's genai builder writes of decoders with gates and recurrences
 * (Qwen3-Next, Mamba 2 and their like). Floats of 16 bits are computed in f32, and rounded where the operator's text
 * says. Their recurrence and convolution are ONNX's own, op_attention.c. Source: docs/ContribOperators.md there.
 */
#include "compiler/onnx/import_int.h"

#include <string.h>

/* SiLU of alpha * x; operand 1, where it is given, in alpha's place. Each step is rounded to x's type. */
bool onnx_op_scaled_silu(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *given = imp_in(im, 1), *wide = x ? imp_wide(im, x) : NULL;
    if (!wide)
        return false;
    struct ir_value *scale = given ? imp_cast(im, imp_reshape(im, given, 0, NULL), imp_dtype(wide))
                                   : imp_like(im, wide, imp_f(im, "alpha", 1));
    struct ir_value *z = scale ? imp_bin(im, IR_mul, wide, scale) : NULL;
    z = z ? imp_cast(im, z, imp_dtype(x)) : NULL;
    return z && imp_out(im, 0, imp_bin(im, IR_mul, z, imp_un(im, IR_sigmoid, z)));
}

/* x + y * gate */
bool onnx_op_gated_add(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *y = x ? imp_tensor(im, 1) : NULL, *gate = y ? imp_tensor(im, 2) : NULL;
    return gate && imp_out(im, 0, imp_bin(im, IR_add, x, imp_bin(im, IR_mul, y, gate)));
}

/* decay_scale * softplus(a + dt_bias), and sigmoid(b) */
bool onnx_op_linear_attention_gate(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *bias = a ? imp_tensor(im, 1) : NULL,
                    *scale = bias ? imp_tensor(im, 2) : NULL, *b = imp_in(im, 3);
    if (!scale || (imp_wants(im, 1) && !b))
        return scale && imp_bad(im, "beta is wanted, and b is missing");
    struct ir_value *decay = imp_bin(im, IR_add, imp_wide(im, a), bias);
    decay = imp_bin(im, IR_mul, imp_un(im, IR_softplus, decay), scale);
    return imp_out(im, 0, imp_cast(im, decay, imp_dtype(a))) &&
           (!imp_wants(im, 1) || imp_out(im, 1, imp_cast(im, imp_un(im, IR_sigmoid, imp_wide(im, b)), imp_dtype(b))));
}

/* x[..., groups * size] as [..., groups, size], normalised along `size`, in f32. */
static struct ir_value *normalised_groups(struct imp *im, struct ir_value *x, ir_expr groups, ir_expr size)
{
    int rank = imp_rank(x);
    int64_t last = rank;
    ir_expr dims[TCC_MAX_RANK];
    if (rank < 1 || rank >= TCC_MAX_RANK)
        return imp_bad(im, "%d dims", rank), NULL;
    memcpy(dims, x->type->dim, (size_t)rank * sizeof *dims);
    dims[rank - 1] = groups;
    dims[rank] = size;
    if (!imp_assume(im, IR_EQ, ir_mul(im->ctx, groups, size), imp_dim(x, rank - 1), "the last axis in groups"))
        return NULL;
    x = imp_reshape(im, imp_wide(im, x), rank + 1, dims);
    return x ? imp_rms_normalise(im, x, 1, &last, imp_f(im, "epsilon", 1e-5f), NULL) : NULL;
}

/* The gate's activation of RMS-normalised groups, as long as scale, of the last axis. */
bool onnx_op_gated_rms_norm(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = x ? imp_tensor(im, 1) : NULL,
                    *gate = scale ? imp_tensor(im, 2) : NULL;
    if (!gate || imp_rank(scale) != 1 || imp_rank(x) < 1)
        return gate && imp_bad(im, "X with dims and scale with one dim are expected");
    ir_expr size = imp_dim(scale, 0), whole = imp_dim(x, imp_rank(x) - 1);
    struct ir_value *y = normalised_groups(im, x, ir_floordiv(im->ctx, whole, size), size);
    y = y ? imp_reshape(im, imp_bin(im, IR_mul, y, imp_wide(im, scale)), imp_rank(x), x->type->dim) : NULL;
    bool sigmoid = !strcmp(imp_s(im, "activation", "silu"), "sigmoid");
    gate = y ? imp_un(im, sigmoid ? IR_sigmoid : IR_silu, imp_wide(im, gate)) : NULL;
    return gate && imp_out(im, 0, imp_cast(im, imp_bin(im, IR_mul, y, gate), imp_dtype(x)));
}

/* Each branch by itself: x[..., branches, size], or [..., branches * size] where num_branches says how many. */
bool onnx_op_branchwise_rms_norm(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = imp_in(im, 1), *y;
    int64_t branches = imp_i(im, "num_branches", 0), last;
    if (!x || imp_rank(x) < (branches ? 1 : 2))
        return x && imp_bad(im, "X with more dims, or num_branches, is expected");
    int rank = imp_rank(x);
    ir_expr whole = imp_dim(x, rank - 1), groups = branches ? ir_const(im->ctx, branches) : imp_dim(x, rank - 2);
    ir_expr size = branches ? ir_floordiv(im->ctx, whole, groups) : whole, dims[2] = {groups, size};
    last = rank - 1;
    y = branches ? normalised_groups(im, x, groups, size)
                 : imp_rms_normalise(im, imp_wide(im, x), 1, &last, imp_f(im, "epsilon", 1e-5f), NULL);
    if (scale && imp_rank(scale) == 1 && imp_dim(scale, 0) != size)
        scale = imp_reshape(im, scale, 2, dims);
    y = y && scale ? imp_bin(im, IR_mul, y, imp_wide(im, scale)) : y;
    return y && imp_out(im, 0, imp_cast(im, imp_reshape(im, y, rank, x->type->dim), imp_dtype(x)));
}
