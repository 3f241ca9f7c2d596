/* SPDX-License-Identifier: Apache-2.0 */
/* Library ops of pictures: their results' sizes. What else their words say is the ops' own (runtime/libop). */
#include "compiler/import/import.h"

/* Sizes are computed when scales or sizes are constants, else found when it runs. */
bool imp_scaled_dims(struct imp *im, const struct ir_value *x, const double *scales, bool precise, int n,
                     const int64_t *axes, ir_expr *dims)
{
    for (int k = 0; k < n; k++) {
        int64_t d;
        int a = (int)axes[k];
        double whole = scales[k];
        if (!(whole > 0 && whole < 1e9))
            return imp_bad(im, "scale %g", whole);
        if (ir_is_const(imp_dim(x, a), &d)) {
            double size = precise ? (double)d * whole : (double)((float)d * (float)whole);
            dims[a] = size < 1e12 ? ir_const(im->ctx, (int64_t)size) : NULL;
        } else if (whole == (double)(int64_t)whole)
            dims[a] = ir_mulc(im->ctx, imp_dim(x, a), (int64_t)whole);
        else
            dims[a] = NULL;
    }
    return true;
}

int imp_scale_values(const struct ir_value *v, double *out)
{
    const struct ir_tensor *t = v ? ir_const_of(v) : NULL;
    if (!t || t->nelems > TCC_MAX_RANK || !tcc_is_float(t->dtype))
        return -1;
    for (int k = 0; k < t->nelems; k++)
        out[k] = tcc_load_f64(t->dtype, ir_tensor_at(t, k));
    return (int)t->nelems;
}

bool imp_resizes_something(struct imp *im, const struct ir_value *x, const ir_expr *dims)
{
    int rank = imp_rank(x);
    for (int k = 0; k < rank; k++)
        if (!dims[k])
            return true;
    if (ir_type_impossible(ir_tensor_type(im->ctx, imp_dtype(x), rank, dims)))
        return true;
    for (int k = 0; k < rank; k++)
        if (!imp_assume(im, IR_LE, ir_min(im->ctx, dims[k], ir_const(im->ctx, 1)), imp_dim(x, k),
                        "axis %d is empty, and can't be resized to one with elements", k))
            return false;
    return true;
}

struct ir_value *imp_grid_sample(struct imp *im, struct ir_value *x, struct ir_value *grid, int n,
                                 const struct ir_attr *words)
{
    struct ir_value *in[] = {x, grid};
    ir_expr dims[TCC_MAX_RANK];
    if (!x || !grid)
        return NULL;
    if (imp_rank(x) < 3 || imp_rank(grid) != imp_rank(x))
        return imp_bad(im, "x %s and grid %s", ir_type_text(im->ctx, x->type), ir_type_text(im->ctx, grid->type)), NULL;
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = k < 2 ? imp_dim(x, k) : imp_dim(grid, k - 1);
    return imp_lib_value(im, "grid_sample", 2, in, ir_tensor_type(im->ctx, imp_dtype(x), imp_rank(x), dims), n, words);
}

struct ir_value *imp_roi_align(struct imp *im, struct ir_value *const *in, int64_t height, int64_t width, int n,
                               const struct ir_attr *words)
{
    if (!in[0] || !in[1])
        return NULL;
    if (imp_rank(in[0]) != 4 || imp_rank(in[1]) != 2)
        return imp_bad(im, "X with 4 dims and rois with 2 are expected"), NULL;
    ir_expr dims[4] = {imp_dim(in[1], 0), imp_dim(in[0], 1), ir_const(im->ctx, height), ir_const(im->ctx, width)};
    return imp_lib_value(im, "roialign", 3, in, ir_tensor_type(im->ctx, imp_dtype(in[0]), 4, dims), n, words);
}

struct ir_value *imp_col2im(struct imp *im, struct ir_value *const *in, int nwords, const struct ir_attr *words)
{
    ir_expr image[TCC_MAX_RANK], block[TCC_MAX_RANK], dims[TCC_MAX_RANK], taps = ir_const(im->ctx, 1);
    struct ir_value *x = in[0];
    int n = x ? imp_bound_exprs(im, in[1], TCC_MAX_RANK - 2, 0, IMP_MAX_DIM, image) : -1;
    int m = n < 0 ? -1 : imp_bound_exprs(im, in[2], TCC_MAX_RANK - 2, 1, IMP_MAX_DIM, block);
    if (m < 0)
        return NULL;
    if (n != m || imp_rank(x) != 3)
        return imp_bad(im, "x with 3 dims, image_shape and block_shape of one length are expected"), NULL;
    for (int k = 0; k < n; k++) {
        if (!imp_assume(im, IR_LE, ir_const(im->ctx, 0), image[k], "element %d of image_shape is negative", k) ||
            !imp_assume(im, IR_LE, ir_const(im->ctx, 1), block[k], "element %d of block_shape is too small", k))
            return NULL;
        taps = ir_mul(im->ctx, taps, block[k]);
        dims[k + 2] = image[k];
    }
    dims[0] = imp_dim(x, 0);
    dims[1] = ir_floordiv(im->ctx, imp_dim(x, 1), taps);
    return imp_lib_value(im, "col2im", 3, in, ir_tensor_type(im->ctx, imp_dtype(x), n + 2, dims), nwords, words);
}
