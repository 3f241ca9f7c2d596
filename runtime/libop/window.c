/* SPDX-License-Identifier: Apache-2.0 */
/* Library ops that put windows back, max_unpool and col2im, and the windows of roi_pool. */
#include <math.h>

#include "runtime/libop/libop_int.h"

static void list_attr(struct tcc_lib_call *call, const char *name, int n, int64_t otherwise, int64_t *to)
{
    const struct tcc_attr *a = lib_attr(call, name);

    for (int i = 0; i < n; i++)
        to[i] = a && a->kind == TCC_ATTR_INTS && i < a->n ? a->ints[i] : otherwise;
}

/* (x[n, c, ...], indices into the flat result, output_shape?): zeros but for x at its indices. An output_shape larger
 * than what kernel, strides and pads give is filled up with zeros at the far ends. */
int tccrt_lib_max_unpool(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *index;
    int64_t kernel[TCC_MAX_RANK], strides[TCC_MAX_RANK], pads[2 * TCC_MAX_RANK], inner[TCC_MAX_RANK],
        dims[TCC_MAX_RANK], n, total;
    int nd, status;
    void *y;

    if ((status = lib_need(call, 0, -1, LIB_NUMBER, &x)) || (status = lib_need(call, 1, x->rank, LIB_NUMBER, &index)))
        return status;
    nd = x->rank - 2;
    if (nd < 1 || !lib_attr(call, "kernel_shape") || lib_attr(call, "kernel_shape")->n != nd ||
        lib_count(index) != lib_count(x))
        return LIB_FAIL(call, "x, indices and kernel_shape do not fit");
    list_attr(call, "kernel_shape", nd, 1, kernel);
    list_attr(call, "strides", nd, 1, strides);
    list_attr(call, "pads", 2 * nd, 0, pads);
    memcpy(inner, x->dims, sizeof inner);
    for (int i = 0; i < nd; i++)
        inner[2 + i] = (x->dims[2 + i] - 1) * strides[i] - pads[i] - pads[nd + i] + kernel[i];
    memcpy(dims, inner, sizeof dims);
    if (lib_has(call, 2) && lib_values(call, 2, dims, TCC_MAX_RANK) != x->rank)
        return LIB_FAIL(call, "output_shape must have %d values", x->rank);
    for (int i = 0; i < x->rank; i++)
        if (inner[i] < 0 || dims[i] < inner[i])
            return LIB_FAIL(call, "output size %lld of axis %d is less than %lld", (long long)dims[i], i,
                            (long long)inner[i]);
    if (!(y = lib_out(call, 0, x->dtype, x->rank, dims)))
        return TCC_EENV;
    n = lib_count(x);
    total = lib_product(x->rank, inner);
    memset(y, 0, (size_t)lib_product(x->rank, dims) * (size_t)lib_bytes(x->dtype));
    for (int64_t i = 0; i < n; i++) {
        int64_t from = lib_get_int(index, i), to = 0, scale = 1;

        if (from < 0 || from >= total)
            return call->host->fail(call, TCC_EINDEX, "index %lld is outside [0, %lld)", (long long)from,
                                    (long long)total);
        for (int a = x->rank - 1; a >= 0; a--) {
            to += from % inner[a] * scale;
            from /= inner[a];
            scale *= dims[a];
        }
        lib_copy(y, to, x, i);
    }
    return TCC_OK;
}

struct col2im {
    int nd;
    int64_t image[TCC_MAX_RANK], block[TCC_MAX_RANK], blocks[TCC_MAX_RANK], strides[TCC_MAX_RANK],
        dilations[TCC_MAX_RANK], pads[2 * TCC_MAX_RANK];
};

static int read_col2im(struct tcc_lib_call *call, struct col2im *c)
{
    c->nd = lib_values(call, 1, c->image, TCC_MAX_RANK - 2);
    if (c->nd < 0)
        return TCC_EINPUT;
    if (lib_values(call, 2, c->block, TCC_MAX_RANK - 2) != c->nd)
        return LIB_FAIL(call, "image_shape and block_shape must have equally many values");
    list_attr(call, "strides", c->nd, 1, c->strides);
    list_attr(call, "dilations", c->nd, 1, c->dilations);
    list_attr(call, "pads", 2 * c->nd, 0, c->pads);
    for (int i = 0; i < c->nd; i++) {
        int64_t span = c->image[i] + c->pads[i] + c->pads[c->nd + i] - (c->dilations[i] * (c->block[i] - 1) + 1);

        if (c->block[i] < 1 || c->strides[i] < 1 || c->image[i] < 0 || span < 0)
            return LIB_FAIL(call, "the block does not fit axis %d of the image", i);
        c->blocks[i] = span / c->strides[i] + 1;
    }
    return TCC_OK;
}

/* Where block element `at` of block `n` lies in a plane of the image; -1: outside. */
static int64_t target(const struct col2im *c, int64_t at, int64_t n)
{
    int64_t to = 0, scale = 1;

    for (int i = c->nd - 1; i >= 0; i--) {
        int64_t k = n % c->blocks[i] * c->strides[i] - c->pads[i] + at % c->block[i] * c->dilations[i];

        if (k < 0 || k >= c->image[i])
            return -1;
        to += k * scale;
        scale *= c->image[i];
        n /= c->blocks[i];
        at /= c->block[i];
    }
    return to;
}

/* (x[n, c * product(block), blocks], image_shape, block_shape): overlapping blocks add up. */
int tccrt_lib_col2im(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int64_t dims[TCC_MAX_RANK], planes, block, blocks, image;
    struct col2im c;
    struct tcc_tensor out;
    int status;

    if ((status = lib_need(call, 0, 3, LIB_NUMBER, &x)) || (status = read_col2im(call, &c)))
        return status;
    block = lib_product(c.nd, c.block);
    blocks = lib_product(c.nd, c.blocks);
    image = lib_product(c.nd, c.image);
    if (x->dims[1] % block || x->dims[2] != blocks)
        return LIB_FAIL(call, "x must be [n, c * %lld, %lld]", (long long)block, (long long)blocks);
    dims[0] = x->dims[0];
    dims[1] = x->dims[1] / block;
    memcpy(dims + 2, c.image, (size_t)c.nd * sizeof *dims);
    out = (struct tcc_tensor){.dtype = x->dtype, .rank = c.nd + 2};
    if (!(out.data = lib_out(call, 0, x->dtype, c.nd + 2, dims)))
        return TCC_EENV;
    planes = dims[0] * dims[1];
    memset(out.data, 0, (size_t)(planes * image) * (size_t)lib_bytes(x->dtype));
    for (int64_t p = 0; p < planes; p++) {
        for (int64_t at = 0; at < block; at++) {
            for (int64_t n = 0; n < blocks; n++) {
                int64_t to = target(&c, at, n);

                if (to >= 0)
                    lib_put(out.data, x->dtype, p * image + to,
                            lib_get(&out, p * image + to) + lib_get(x, (p * block + at) * blocks + n));
            }
        }
    }
    return TCC_OK;
}

/* -- Maxima of regions ------------------------------------------------------------------------------------------ */

/* Part `i` of `parts` of a region [from, to] along an axis of `size` elements, its ends whole numbers; computed as
 * PyTorch does, in the operand's type. */
static void part_of_region(bool wide, double from, double to, int64_t i, int64_t parts, int64_t size, int64_t *bounds)
{
    double length = to - from + 1 > 1 ? to - from + 1 : 1,
           bin = wide ? length / (double)parts : (float)length / (float)parts;

    for (int end = 0; end < 2; end++) {
        double at = wide ? (double)(i + end) * bin : (double)((float)(i + end) * (float)bin);

        at = (end ? ceil(at) : floor(at)) + from;
        bounds[end] = !(at > 0) ? 0 : at < (double)size ? (int64_t)at : size;
    }
}

static int32_t largest_of(const struct tcc_tensor *x, int64_t plane, const int64_t *rows, const int64_t *columns)
{
    int64_t width = x->dims[3], at = -1;

    for (int64_t h = rows[0]; h < rows[1]; h++)
        for (int64_t w = columns[0]; w < columns[1]; w++)
            if (at < 0 || lib_get(x, plane + h * width + w) > lib_get(x, plane + at))
                at = h * width + w;
    return (int32_t)at;
}

/* (x[n, c, h, w], rois[r, 5]) -> i32[r, c, output_height, output_width]; a row of rois: its picture, x, y, x, y. */
int tccrt_lib_roi_pool(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *rois;
    double scale = lib_float(call, "spatial_scale", 1);
    int status = lib_need(call, 0, 4, LIB_NUMBER, &x);
    int32_t *out;

    if (!status)
        status = lib_need(call, 1, 2, LIB_NUMBER, &rois);
    if (status)
        return status;
    int64_t dims[] = {rois->dims[0], x->dims[1], lib_int(call, "output_height", 1), lib_int(call, "output_width", 1)};
    if (rois->dims[1] != 5 || dims[2] < 1 || dims[3] < 1 || x->dims[2] * x->dims[3] > INT32_MAX)
        return LIB_FAIL(call, "regions [r, 5] and planes of at most 2^31 elements are expected");
    if (!(out = lib_out(call, 0, TCC_I32, 4, dims)))
        return TCC_EENV;
    for (int64_t r = 0; r < dims[0]; r++) {
        double picture = lib_get(rois, 5 * r), ends[4];

        if (!(picture >= 0 && picture < (double)x->dims[0]))
            return LIB_FAIL(call, "region %lld is of picture %g; there are %lld", (long long)r, picture,
                            (long long)x->dims[0]);
        for (int k = 0; k < 4; k++)
            ends[k] = x->dtype == TCC_F64 ? round(lib_get(rois, 5 * r + 1 + k) * scale)
                                          : (double)roundf((float)lib_get(rois, 5 * r + 1 + k) * (float)scale);
        for (int64_t k = 0; k < dims[1] * dims[2] * dims[3]; k++) {
            int64_t rows[2], columns[2], plane = (int64_t)picture * dims[1] + k / (dims[2] * dims[3]);

            part_of_region(x->dtype == TCC_F64, ends[1], ends[3], k / dims[3] % dims[2], dims[2], x->dims[2], rows);
            part_of_region(x->dtype == TCC_F64, ends[0], ends[2], k % dims[3], dims[3], x->dims[3], columns);
            *out++ = largest_of(x, plane * x->dims[2] * x->dims[3], rows, columns);
        }
    }
    return TCC_OK;
}
