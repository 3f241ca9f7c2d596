/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products. */
#include "compiler/onnx/import_int.h"

bool onnx_op_matmul(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL;
    return b && imp_out(im, 0, imp_matmul_nd(im, a, b, imp_dtype(a)));
}

struct ir_value *imp_gemm(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL, *c = imp_in(im, 2);
    double alpha = imp_f(im, "alpha", 1), beta = imp_f(im, "beta", 1);
    if (!b)
        return NULL;
    if (imp_rank(a) != 2 || imp_rank(b) != 2)
        return imp_bad(im, "operands of %d and %d dims; matrices are expected", imp_rank(a), imp_rank(b)), NULL;
    struct ir_value *y = imp_matmul(im, a, b, imp_i(im, "transA", 0), imp_i(im, "transB", 0), imp_dtype(a));
    if (alpha != 1)
        y = imp_bin(im, IR_mul, y, imp_like(im, a, alpha));
    if (c && beta != 0)
        y = imp_bin(im, IR_add, y, beta == 1 ? c : imp_with(im, IR_mul, c, beta));
    return y;
}

bool onnx_op_gemm(struct imp *im)
{
    return imp_out(im, 0, imp_gemm(im));
}

bool onnx_op_einsum(struct imp *im)
{
    int n = imp_nin(im);
    struct ir_value **in = IR_NEWN(im->ctx, n + 1, struct ir_value *);
    for (int k = 0; k < n; k++)
        if (!(in[k] = imp_tensor(im, k)))
            return false;
    return n < 1 ? imp_bad(im, "no operands") : imp_out(im, 0, imp_einsum(im, imp_s(im, "equation", ""), n, in));
}
