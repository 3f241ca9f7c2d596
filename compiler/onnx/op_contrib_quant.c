/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Runtime's operators on weights of 2, 4 and 8 bits in blocks that have a scale and a zero point each:
 * MatMulNBits, GatherBlockQuantized.
 *
 * Where the number of rows is known to be large, the weights become floats when the model is compiled (as other
 * constants do, up to the limit of the pass fold); else they stay as they are in the file.
 * Source: ONNX Runtime, docs/ContribOperators.md.
 */
#include "compiler/onnx/quant_int.h"

/* -- Packed elements */

/* The elements of x where they are known: of a constant, or of one in another shape. */
static const struct ir_tensor *known_bytes(const struct ir_value *x)
{
    const struct ir_tensor *t = ir_const_of(x);
    return t || !x->def || x->def->op != IR_reshape ? t : ir_const_of(x->def->in[0].value);
}

static struct ir_value *unpack_constant(struct imp *im, const struct ir_tensor *t, const struct ir_value *x, int bits)
{
    int64_t dims[TCC_MAX_RANK];
    int rank = imp_rank(x);
    if (rank < 1 || !ir_static_dims(x->type, dims))
        return NULL;
    dims[rank - 1] *= 8 / bits;
    struct ir_tensor *y = ir_tensor_new(TCC_U8, rank, dims);
    uint8_t *to = y ? (uint8_t *)(uintptr_t)y->data : NULL;
    for (int64_t k = 0; y && k < t->nelems; k++) {
        unsigned v = *(const uint8_t *)ir_tensor_at(t, k);
        for (int j = 0; j < 8; j += bits)
            *to++ = (uint8_t)(v >> j & ((1u << bits) - 1));
    }
    return imp_const(im, y);
}

struct ir_value *imp_unpack_bytes(struct imp *im, struct ir_value *x, int bits)
{
    struct ir_value *part[4];
    ir_expr dims[TCC_MAX_RANK];
    if (!x || bits == 8)
        return x;
    int rank = imp_rank(x), per = 8 / bits;
    int64_t axis = rank;
    const struct ir_tensor *known = known_bytes(x);
    if (known)
        return unpack_constant(im, known, x, bits);
    for (int k = 0; k < per; k++) {
        part[k] = imp_bin(im, IR_shr, x, imp_int(im, TCC_U8, bits * k));
        part[k] = imp_unsqueeze(im, imp_bin(im, IR_and, part[k], imp_int(im, TCC_U8, (1 << bits) - 1)), 1, &axis);
        if (!part[k])
            return NULL;
    }
    for (int k = 0; k < rank; k++)
        dims[k] = k == rank - 1 ? ir_mulc(im->ctx, imp_dim(x, k), per) : imp_dim(x, k);
    return imp_reshape(im, imp_concat(im, per, part, rank), rank, dims);
}

static bool known_bits(struct imp *im, int64_t bits)
{
    return bits == 2 || bits == 4 || bits == 8 || imp_unsupported(im, "weights of %lld bits", (long long)bits);
}

/* -- MatMulNBits */

struct blocks {
    int64_t n, k, bits, size, count; /* results, summands, bits, size and number of blocks */
};

/* [n, count] of elements, or of such packed in bytes, whatever shape they come in. NULL where v is. */
static struct ir_value *per_block(struct imp *im, struct ir_value *v, const struct blocks *b)
{
    ir_expr dims[2] = {ir_const(im->ctx, b->n), NULL};
    if (!v)
        return NULL;
    if (imp_dtype(v) != TCC_U8) {
        dims[1] = ir_const(im->ctx, b->count);
        return imp_reshape(im, v, 2, dims);
    }
    dims[1] = ir_const(im->ctx, (b->count * b->bits + 7) / 8);
    v = imp_unpack_bytes(im, imp_reshape(im, v, 2, dims), (int)b->bits);
    return imp_slice1(im, v, 1, ir_const(im->ctx, 0), ir_const(im->ctx, b->count));
}

/* The weights as floats [n, k]. */
static struct ir_value *block_weights(struct imp *im, const struct blocks *b, struct ir_value *w,
                                      struct ir_value *scale, struct ir_value *zero, struct ir_value *group)
{
    struct ir_ctx *c = im->ctx;
    ir_expr n = ir_const(c, b->n), k = ir_const(c, b->k), size = ir_const(c, b->size), count = ir_const(c, b->count);
    ir_expr packed[2] = {n, ir_const(c, b->count * b->size * b->bits / 8)}, whole[3] = {n, count, size},
            flat[2] = {n, ir_const(c, b->count * b->size)};
    int64_t last = 2;
    w = imp_unpack_bytes(im, imp_reshape(im, w, 2, packed), (int)b->bits);
    zero = zero ? imp_cast(im, zero, TCC_F32) : imp_num(im, TCC_F32, (double)(1 << (b->bits - 1)));
    scale = imp_wide(im, scale);
    if (!w || !zero || !scale)
        return NULL;
    if (group) {
        w = imp_cast(im, imp_slice1(im, w, 1, ir_const(c, 0), k), TCC_F32);
        scale = imp_gather(im, scale, group, 1);
        zero = imp_rank(zero) ? imp_gather(im, zero, group, 1) : zero;
        return imp_bin(im, IR_mul, imp_bin(im, IR_sub, w, zero), scale);
    }
    w = imp_cast(im, imp_reshape(im, w, 3, whole), TCC_F32);
    w = imp_bin(im, IR_sub, w, imp_rank(zero) ? imp_unsqueeze(im, zero, 1, &last) : zero);
    w = imp_bin(im, IR_mul, w, imp_unsqueeze(im, scale, 1, &last));
    return imp_slice1(im, imp_reshape(im, w, 2, flat), 1, ir_const(c, 0), k);
}

/*
 * Weights that stay packed: part i of a byte belongs to every per-th element of x, from the i-th on, so that bytes are
 * never taken apart into memory. With few rows the product is one reduction over blocks and bytes, which reads each
 * weight once; with many, floats are made for a product of matrices, part behind part along k, and let go again.
 *
 * The weights of `beside` results lie block by block beside each other where they are constants: a kernel that makes so
 * many sums at a time reads all of them from front to end.
 */
struct parts {
    int per, beside;
    struct ir_value *x[4];         /* [m, count * size / per] */
    struct ir_value *w;            /* u8[n / beside, count, beside, size / per] */
    struct ir_value *scale, *zero; /* [n / beside, count, beside, 1]; or [] */
};

enum {
    FEW_ROWS = 4, /* up to here reading the weights is what takes the time, not the sums */
    BESIDE = 4
};

/* v, of n * count * last elements in this order, as a member of struct parts. */
static struct ir_value *laid_beside(struct imp *im, const struct blocks *b, const struct parts *p, struct ir_value *v,
                                    int64_t last)
{
    static const int64_t order[4] = {0, 2, 1, 3};
    struct ir_ctx *c = im->ctx;
    ir_expr dims[4] = {ir_const(c, b->n / p->beside), ir_const(c, p->beside), ir_const(c, b->count), ir_const(c, last)};
    return imp_transpose(im, imp_reshape(im, v, 4, dims), order);
}

/* Part i of the weights as floats, [n / beside, count, beside, size / per]. */
static struct ir_value *weight_part(struct imp *im, const struct blocks *b, const struct parts *p, int i)
{
    struct ir_value *w = i ? imp_bin(im, IR_shr, p->w, imp_int(im, TCC_U8, b->bits * i)) : p->w;
    w = imp_cast(im, imp_bin(im, IR_and, w, imp_int(im, TCC_U8, (1 << b->bits) - 1)), TCC_F32);
    return imp_bin(im, IR_sub, w, p->zero);
}

static struct ir_value *few_rows(struct imp *im, const struct blocks *b, const struct parts *p)
{
    static const int64_t axes[2] = {2, 4};
    struct ir_value *sum = NULL;
    ir_expr one = ir_const(im->ctx, 1), result[2] = {imp_dim(p->x[0], 0), ir_const(im->ctx, b->n)};
    for (int i = 0; i < p->per; i++) {
        ir_expr dims[5] = {result[0], one, ir_const(im->ctx, b->count), one, ir_const(im->ctx, b->size / p->per)};
        struct ir_value *b_part = weight_part(im, b, p, i);
        struct ir_value *term = imp_bin(im, IR_mul, imp_reshape(im, p->x[i], 5, dims), b_part);
        sum = sum && term ? imp_bin(im, IR_add, sum, term) : term;
    }
    sum = imp_reduce(im, IR_reduce_sum, imp_bin(im, IR_mul, sum, p->scale), 2, axes, false);
    return imp_reshape(im, sum, 2, result);
}

static struct ir_value *many_rows(struct imp *im, const struct blocks *b, const struct parts *p)
{
    static const int64_t back[4] = {0, 2, 1, 3};
    ir_expr dims[2] = {ir_const(im->ctx, b->n), ir_const(im->ctx, b->count * b->size / p->per)};
    struct ir_value *w[4];
    for (int i = 0; i < p->per; i++) {
        w[i] = imp_bin(im, IR_mul, weight_part(im, b, p, i), p->scale);
        if (!(w[i] = imp_reshape(im, imp_transpose(im, w[i], back), 2, dims)))
            return NULL;
    }
    struct ir_value *y = imp_matmul(im, p->x[0], w[0], false, true, TCC_NONE);
    for (int i = 1; i < p->per; i++)
        y = imp_bin(im, IR_add, y, imp_matmul(im, p->x[i], w[i], false, true, TCC_NONE));
    return y;
}

/* few_rows() or many_rows(), as the number of rows turns out. */
static struct ir_value *as_many_rows(struct imp *im, const struct blocks *b, const struct parts *p)
{
    ir_expr rows = imp_dim(p->x[0], 0), dims[2] = {rows, ir_const(im->ctx, b->n)};
    ir_type type = ir_tensor_type(im->ctx, TCC_F32, 2, dims);
    struct ir_value *row_limit = imp_int(im, TCC_I64, FEW_ROWS);
    struct ir_value *few = imp_bin(im, IR_le, imp_dim_value(im, rows), row_limit);
    struct ir_node *node =
        few ? ir_build_typed(&im->b, IR_if, 1, &few, IR_ATTRS(ir_attr_types(IR_ATTR_types, 1, &type)), 1, &type) : NULL;
    struct ir_builder outside;
    for (int k = 0; node && k < 2; k++) {
        imp_open_region(im, node, &outside);
        struct ir_value *y = k ? many_rows(im, b, p) : few_rows(im, b, p);
        bool fine = y && imp_yield(im, 1, &y);
        imp_close_region(im, &outside);
        if (!fine)
            return NULL;
    }
    return node ? node->out[0] : NULL;
}

/* x [m, k] of f32 in parts, zeros where the last block is not full. Each is a sum with one term: so it is stored, and
 * is not read with gaps once for each of the n results. */
static bool split_rows(struct imp *im, const struct blocks *b, struct ir_value *x, struct parts *p)
{
    struct ir_ctx *c = im->ctx;
    int64_t all = b->count * b->size, last = 2;
    ir_expr zero = ir_const(c, 0), none[2] = {zero, zero}, after[2] = {zero, ir_const(c, all - b->k)};
    x = imp_pad(im, x, NULL, none, after, "constant");
    if (!x || p->per == 1)
        return (p->x[0] = x) != NULL;
    ir_expr dims[3] = {imp_dim(x, 0), ir_const(c, all / p->per), ir_const(c, p->per)};
    x = imp_reshape(im, x, 3, dims);
    struct ir_value *which = imp_iota(im, 1, &dims[2], 0, TCC_I32);
    for (int i = 0; i < p->per; i++) {
        struct ir_value *own = imp_bin(im, IR_eq, which, imp_int(im, TCC_I32, i));
        own = imp_select(im, own, x, imp_num(im, TCC_F32, 0));
        if (!(p->x[i] = imp_reduce(im, IR_reduce_sum, own, 1, &last, false)))
            return false;
    }
    return true;
}

/* v, of b's results in rows of `last` elements each, with rows of zeros behind them up to `n`. */
static struct ir_value *more_results(struct imp *im, const struct blocks *b, struct ir_value *v, int64_t last,
                                     int64_t n)
{
    struct ir_ctx *c = im->ctx;
    ir_expr zero = ir_const(c, 0), dims[2] = {ir_const(c, b->n), ir_const(c, last)}, none[2] = {zero, zero},
            after[2] = {ir_const(c, n - b->n), zero};
    return v && n > b->n ? imp_pad(im, imp_reshape(im, v, 2, dims), NULL, none, after, "constant") : v;
}

/* x [.., k] times weights that stay packed. Constants get as many results as lie beside each other, the last ones of
 * zeros: a vocabulary is often of an odd size. */
static struct ir_value *packed_product(struct imp *im, const struct blocks *given, struct ir_value *x,
                                       struct ir_value *w, struct ir_value *scale, struct ir_value *zero)
{
    struct blocks blocks = *given, *b = &blocks;
    struct parts p = {.per = (int)(8 / b->bits), .beside = known_bytes(w) && b->n >= BESIDE ? BESIDE : 1};
    struct ir_ctx *c = im->ctx;
    b->n = (b->n + p.beside - 1) / p.beside * p.beside;
    w = more_results(im, given, w, b->count * b->size / p.per, b->n);
    scale = more_results(im, given, scale, b->count, b->n);
    zero = more_results(im, given, zero, b->count, b->n);
    int rank = imp_rank(x);
    ir_expr rows[2] = {ir_const(c, 1), ir_const(c, b->k)}, dims[TCC_MAX_RANK];
    for (int k = 0; k < rank; k++) {
        dims[k] = k < rank - 1 ? imp_dim(x, k) : ir_const(c, given->n);
        rows[0] = k < rank - 1 ? ir_mul(c, rows[0], imp_dim(x, k)) : rows[0];
    }
    p.w = laid_beside(im, b, &p, w, b->size / p.per);
    p.scale = laid_beside(im, b, &p, imp_wide(im, scale), 1);
    p.zero = zero ? laid_beside(im, b, &p, imp_cast(im, zero, TCC_F32), 1)
                  : imp_num(im, TCC_F32, (double)(1 << (b->bits - 1)));
    if (!p.w || !p.scale || !p.zero || !split_rows(im, b, imp_reshape(im, imp_wide(im, x), 2, rows), &p))
        return NULL;
    struct ir_value *y = ir_is_const(rows[0], NULL) ? few_rows(im, b, &p) : as_many_rows(im, b, &p);
    y = imp_slice1(im, y, 1, ir_const(c, 0), ir_const(c, given->n));
    return imp_cast(im, imp_reshape(im, y, rank, dims), imp_dtype(x));
}

bool onnx_op_matmul_integer16(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL;
    a = b ? imp_cast(im, a, TCC_I32) : NULL;
    return a && imp_out(im, 0, imp_matmul_nd(im, a, imp_cast(im, b, TCC_I32), TCC_I32));
}

bool onnx_op_matmul_nbits(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *w = a ? imp_tensor(im, 1) : NULL, *scale = w ? imp_tensor(im, 2) : NULL;
    struct ir_value *zero = imp_in(im, 3), *group = imp_in(im, 4), *bias = imp_in(im, 5), *y;
    struct blocks b = {imp_i(im, "N", 0), imp_i(im, "K", 0), imp_i(im, "bits", 4), imp_i(im, "block_size", 0), 0};
    int64_t rows = 1, dim;
    if (!scale || !known_bits(im, b.bits))
        return false;
    if (b.n < 1 || b.k < 1 || b.n > INT32_MAX || b.k > INT32_MAX || b.size < 8 || b.size > INT32_MAX ||
        imp_dtype(w) != TCC_U8 || imp_rank(a) < 1)
        return imp_bad(im, "N, K, block_size and weights of u8 are expected");
    if (imp_i(im, "weight_prepacked", 0))
        return imp_unsupported(im, "weights packed for one device");
    b.count = (b.k + b.size - 1) / b.size;
    for (int k = 0; k < imp_rank(a) - 1; k++)
        rows = rows <= FEW_ROWS && ir_is_const(imp_dim(a, k), &dim) ? rows * dim : rows > FEW_ROWS ? rows : -1;
    scale = per_block(im, scale, &b);
    zero = per_block(im, zero, &b);
    if (!group && rows <= FEW_ROWS && !im->training) {
        y = packed_product(im, &b, a, w, scale, zero);
    } else {
        w = block_weights(im, &b, w, scale, zero, group);
        y = w ? imp_matmul(im, a, imp_cast(im, w, imp_dtype(a)), false, true, imp_dtype(a)) : NULL;
    }
    return imp_out(im, 0, y && bias ? imp_bin(im, IR_add, y, bias) : y);
}

/* -- MatMulBnb4: weights [n, k] in bitsandbytes' four bits, codes of 16 numbers in units of a block's largest. Blocks
 * run on from row to row; of a byte's two codes the upper one is first. */

static const float bnb4_codes[2][16] = {
    {0, 5.208333333e-03F, 0.66666667F, 1, 0.33333333F, 0.5F, 0.16666667F, 0.25F, -0.0F, -5.208333333e-03F, -0.66666667F,
     -1, -0.33333333F, -0.5F, -0.16666667F, -0.25F},
    {-1, -0.6961928009986877F, -0.5250730514526367F, -0.39491748809814453F, -0.28444138169288635F,
     -0.18477343022823334F, -0.09105003625154495F, 0, 0.07958029955625534F, 0.16093020141124725F, 0.24611230194568634F,
     0.33791524171829224F, 0.44070982933044434F, 0.5626170039176941F, 0.7229568362236023F, 1}}; /* FP4, NF4 */

bool onnx_op_matmul_bnb4(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *w = a ? imp_tensor(im, 1) : NULL, *most = w ? imp_tensor(im, 2) : NULL;
    int64_t n = imp_i(im, "N", 0), k = imp_i(im, "K", 0), block = imp_i(im, "block_size", 0), codes = 16;
    int64_t kind = imp_i(im, "quant_type", 0);
    if (!most)
        return false;
    if (n < 1 || k < 1 || n > INT32_MAX || k > INT32_MAX || block < 2 || block > INT32_MAX || imp_dtype(w) != TCC_U8)
        return imp_bad(im, "N, K, block_size and weights of u8 are expected");
    if (!imp_i(im, "transB", 1))
        return imp_unsupported(im, "transB 0");
    struct ir_tensor *t = ir_tensor_new(TCC_F32, 1, &codes);
    if (t)
        memcpy((void *)(uintptr_t)t->data, bnb4_codes[kind], sizeof bnb4_codes[kind]);
    ir_expr bytes = ir_const(im->ctx, (n * k + 1) / 2), one = ir_const(im->ctx, 1), column[2] = {bytes, one};
    ir_expr all = ir_const(im->ctx, n * k), twice = ir_const(im->ctx, (n * k + 1) / 2 * 2),
            dims[2] = {ir_const(im->ctx, n), ir_const(im->ctx, k)};
    struct ir_value *table = imp_const(im, t), *part[2];
    w = imp_reshape(im, w, 2, column);
    part[0] = w ? imp_bin(im, IR_shr, w, imp_int(im, TCC_U8, 4)) : NULL;
    part[1] = w ? imp_bin(im, IR_and, w, imp_int(im, TCC_U8, 15)) : NULL;
    w = part[0] && part[1] ? imp_reshape(im, imp_concat(im, 2, part, 1), 1, &twice) : NULL;
    w = w && table ? imp_gather_row(im, table, imp_cast(im, imp_slice1(im, w, 0, ir_const(im->ctx, 0), all), TCC_I64))
                   : NULL;
    most = w ? imp_repeat_blocks(im, imp_wide(im, most), 0, block, all) : NULL;
    w = most ? imp_reshape(im, imp_bin(im, IR_mul, w, most), 2, dims) : NULL;
    return w && imp_out(im, 0, imp_matmul(im, a, imp_cast(im, w, imp_dtype(a)), false, true, imp_dtype(a)));
}

/* -- GatherBlockQuantized */

/* Scales or zero points of the rows that were gathered from `x`; `axis`: where blocks are. */
static struct ir_value *of_rows(struct imp *im, struct ir_value *v, struct ir_value *index, int64_t gather,
                                int64_t axis, int64_t block)
{
    if (!v)
        return NULL;
    if (gather == axis)
        index = imp_with(im, IR_div, index, (double)block);
    return imp_gather(im, v, index, (int)gather);
}

bool onnx_op_gather_block_quantized(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *index = x ? imp_tensor(im, 1) : NULL,
                    *scale = index ? imp_tensor(im, 2) : NULL;
    struct ir_value *zero = imp_in(im, 3);
    int64_t gather = imp_i(im, "gather_axis", 0), axis = imp_i(im, "quantize_axis", 1),
            block = imp_i(im, "block_size", 128), bits = imp_i(im, "bits", 4);
    if (!scale || !imp_axis(im, &gather, imp_rank(x)) || !imp_axis(im, &axis, imp_rank(x)))
        return false;
    bool bytes = imp_dtype(x) == TCC_U8;
    if (bytes && (!known_bits(im, bits) || (bits < 8 && (gather || axis == gather))))
        return imp_bad(im, "packed data needs gather_axis 0 and another quantize_axis");
    if (imp_rank(scale) != imp_rank(x) || block < 0)
        return imp_bad(im, "scales with %d dims and a block_size are expected", imp_rank(x));
    if (bytes && zero)
        zero = imp_unpack_bytes(im, zero, (int)bits);
    if (bytes && zero && imp_rank(zero) == imp_rank(scale))
        zero = imp_slice1(im, zero, imp_rank(zero) - 1, ir_const(im->ctx, 0), imp_dim(scale, imp_rank(zero) - 1));
    else if (!zero && bytes)
        zero = imp_num(im, TCC_F32, (double)(1 << (bits - 1)));
    enum tcc_dtype to = imp_dtype(scale);
    struct ir_value *rows = imp_gather(im, x, index, (int)gather);
    rows = bytes ? imp_unpack_bytes(im, rows, (int)bits) : rows;
    if (!rows)
        return false;
    int at = (int)axis + (axis > gather ? imp_rank(index) - 1 : 0);
    ir_expr size = imp_rank(rows) > at ? imp_dim(rows, at) : NULL;
    struct ir_value *pair[2] = {imp_wide(im, scale), zero ? imp_cast(im, zero, TCC_F32) : NULL};
    for (int k = 0; k < 2; k++) {
        if (!pair[k] || !imp_rank(pair[k]))
            continue;
        pair[k] = of_rows(im, pair[k], index, gather, axis, block);
        pair[k] = gather == axis || !block ? pair[k] : imp_repeat_blocks(im, pair[k], at, block, size);
        if (!pair[k])
            return false;
    }
    struct ir_value *y = imp_cast(im, rows, TCC_F32);
    y = pair[1] ? imp_bin(im, IR_sub, y, pair[1]) : y;
    return imp_out(im, 0, imp_cast(im, imp_bin(im, IR_mul, y, pair[0]), to));
}
