/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.c - the layouts that the CPU's templates want: weights of matrix products in panels, feature maps of
 * convolutions and pools with 16 channels innermost, their weights to match.
 */
#include "compiler/cpu/cpu_int.h"
#include "ir/winograd.h"

#define BLOCK 16 /* channels; one AVX-512 vector of floats, two of AVX2, four of SSE */

static int64_t dim_of(const struct ir_node *n, int operand, int axis)
{
    return ir_const_or(n->in[operand].value->type->dim[axis], -1);
}

/* Types that the templates compute in f32. */
static bool in_f32(enum tcc_dtype d)
{
    return d == TCC_F32 || tcc_small_float(d);
}

static bool in_bytes(enum tcc_dtype d)
{
    return d == TCC_U8 || d == TCC_I8;
}

/* Products of bf16 two at a time, of bytes four (contract_dot.c): those lie together. Else 1. */
static int depth_of(const struct pass_machine *m, enum tcc_dtype d)
{
    return in_bytes(d) ? 4 : d == TCC_BF16 && ((const struct cpu_machine *)m)->multiplies_bf16 ? 2 : 1;
}

/* The same of a sum of n points that one operand's layout takes apart: squares take twice as many. */
static int group_of(const struct pass_machine *m, enum tcc_dtype d, int64_t n)
{
    const struct cpu_machine *cpu = (const struct cpu_machine *)m;
    int depth = depth_of(m, d);
    bool squares = in_bytes(d) ? cpu->squares_bytes : depth > 1 && cpu->squares_bf16;
    return squares && n % (2 * depth) == 0 ? 2 * depth : depth;
}

int cpu_product_group(const struct pass_machine *m, enum tcc_dtype a, enum tcc_dtype b)
{
    const struct cpu_machine *cpu = (const struct cpu_machine *)m;
    if (a == TCC_I8 && b == TCC_I8 && !(cpu->multiplies_bytes && cpu->dot_bytes_signed))
        return 1;
    return depth_of(m, b);
}

/* A block, where twice the products are still faster. */
static int64_t group_channels(const struct ir_node *n)
{
    int64_t per = dim_of(n, 1, 1);
    return per < BLOCK && per * 2 >= BLOCK ? BLOCK : 0;
}

/*
 * Few results of few channels: blocks would be padding for the most part, so both stay plain, lanes are neighbours
 * along the row, and the results stand one below the other. No tap may be left out of a row then (pads).
 */
static bool lanes_along_rows(const struct ir_node *n)
{
    enum { FEW = 8, WORTH = 32 };
    const struct ir_attr *s = ir_attr(n, IR_ATTR_strides);
    ir_type w = n->in[1].value->type;
    int64_t o = dim_of(n, 1, 0), c = dim_of(n, 1, 1), sum = c;
    for (int i = 2; i < w->rank; i++)
        sum *= dim_of(n, 1, i);
    return n->in[0].value->type->dtype == TCC_F32 && w->dtype == TCC_F32 && ir_const_of(n->in[1].value) &&
           ir_get_i(n, IR_ATTR_groups, 1) == 1 && o >= 1 && o <= FEW && c >= 1 && c <= FEW && sum >= WORTH &&
           s->ints[s->n - 1] == 1 && ir_const_or(n->out[0]->type->dim[w->rank - 1], BLOCK) >= BLOCK;
}

/* Register tiles that padding cuts have constant rows, and code for each tap: of rows of so many taps they are slow,
 * and long. */
static bool pads(const struct ir_node *n)
{
    enum { LONG = 16 };
    ir_type w = n->in[1].value->type;
    bool longer = w->dtype == TCC_F32 && ir_get_i(n, IR_ATTR_groups, 1) == 1 && dim_of(n, 1, 0) >= 8 &&
                  dim_of(n, 1, w->rank - 1) >= LONG;
    return longer || lanes_along_rows(n);
}

/* More than one? */
static bool has_taps(const struct ir_node *n)
{
    ir_type w = n->in[1].value->type;
    int i = 2;
    while (i < w->rank && dim_of(n, 1, i) == 1)
        i++;
    return i < w->rank;
}

/* Is it a convolution of float32 with one tap, no padding, and so many results of a point that bringing its channels
 * together costs little? */
static bool one_tap(const struct ir_node *n)
{
    enum { MANY = 128 };
    ir_type w = n->in[1].value->type;
    return n->in[0].value->type->dtype == TCC_F32 && w->dtype == TCC_F32 && ir_get_i(n, IR_ATTR_groups, 1) == 1 &&
           dim_of(n, 1, 0) >= MANY && dim_of(n, 1, 1) >= MANY && !pass_is_padded(n) && !has_taps(n);
}

/*
 * Points a stride apart lie in every second line of the caches, which then hold half as much, and rows of the register
 * tile end with each row of the picture. Gathered, all points are rows. Measured with vectors of 32 bytes, where tiles
 * have few rows and read their lines often.
 */
static bool gathers(const struct pass_machine *m, const struct ir_node *n)
{
    const struct ir_attr *s = ir_attr(n, IR_ATTR_strides);
    return ((const struct cpu_machine *)m)->emit.vector_bytes == 32 && s->n == 2 && s->ints[1] > 1 && one_tap(n);
}

int64_t cpu_window(const struct pass_machine *m, const struct ir_node *n, enum pass_window what)
{
    switch (what) {
    case PASS_WINDOW_TILE: return cpu_winograd(m, n);
    case PASS_WINDOW_CHANNELS: return group_channels(n);
    case PASS_WINDOW_PADDED: return pads(n) && !cpu_winograd(m, n);
    case PASS_WINDOW_GATHERED: return gathers(m, n);
    }
    return 0;
}

/* Was that slice made of such a convolution's x? */
static bool is_gather(const struct pass_machine *m, const struct ir_node *n)
{
    const struct ir_attr *step = ir_attr(n, IR_ATTR_steps);
    int64_t by = 1;
    const struct ir_use *u = n->out[0]->uses;
    return ((const struct cpu_machine *)m)->emit.vector_bytes == 32 && step && step->n == 4 &&
           ir_is_const(step->exprs[3], &by) && by > 1 && u && !u->next && u->user->op == IR_conv && !u->index &&
           one_tap(u->user);
}

bool cpu_materialise(const struct pass_machine *m, const struct ir_node *n)
{
    if (n->op == IR_slice)
        return is_gather(m, n);
    if (n->op != IR_pad)
        return true;
    bool channels = n->out[0]->type->rank > 1 && !ir_is_value(ir_attr(n, IR_ATTR_after)->exprs[1], 0);
    for (const struct ir_use *u = n->out[0]->uses; u; u = u->next)
        if (u->user->op == IR_conv && !u->index && (channels || pads(u->user)))
            return true;
    return false;
}

/* Neighbours along the sum of that product, of so many, that lie together; of f16 the two of a step, or none. */
static int depth_in(const struct pass_machine *m, const struct ir_node *n, int64_t points)
{
    if (ir_attr(n, IR_ATTR_partial))
        return cpu_halves_by_lane((const struct cpu_machine *)m) ? 1 : 2;
    return group_of(m, (enum tcc_dtype)n->in[1].value->type->dtype, points);
}

/* Is each element of both operands multiplied so often that scaling it is little beside? Dims that are not known count
 * as large. */
static bool reused(const struct ir_node *n)
{
    ir_type y = n->out[0]->type;
    enum { OFTEN = 64 };
    return y->rank >= 2 && ir_const_or(y->dim[y->rank - 1], OFTEN) >= OFTEN &&
           ir_const_or(y->dim[y->rank - 2], OFTEN) >= OFTEN;
}

/* Does that product run well as one of f16? Depthwise convolutions and groups of few channels are no products by
 * pairs. */
static bool halves(const struct pass_machine *m, const struct ir_node *n)
{
    ir_type w = n->in[1].value->type;
    bool weights = ir_const_of(n->in[1].value) != NULL;
    if (!((const struct cpu_machine *)m)->multiplies_f16)
        return false;
    if (n->op == IR_matmul)
        return (weights && w->rank == 2) || reused(n);
    if (!weights)
        return false;
    int64_t per_in = dim_of(n, 1, 1), groups = ir_get_i(n, IR_ATTR_groups, 1), o = dim_of(n, 1, 0);
    return w->rank + 3 <= TCC_MAX_RANK && o >= 8 && per_in >= BLOCK &&
           (groups == 1 || (per_in % BLOCK == 0 && o / groups % BLOCK == 0));
}

/* Is it a product of bytes, in i32, that contract_dot.c takes? */
static bool bytes_product(const struct pass_machine *m, const struct ir_node *n)
{
    enum tcc_dtype a = n->in[0].value->type->dtype, b = n->in[1].value->type->dtype;
    return n->out[0]->type->dtype == TCC_I32 && in_bytes(a) && in_bytes(b) &&
           (a != b || (a == TCC_I8 && cpu_product_group(m, a, b) > 1));
}

/* Two multiply-adds and four other instructions of vectors a cycle. Rates as measured on an AMD EPYC (Zen 5): products
 * of bytes beside floats', whole kernels; depthwise ones are mostly conversions; instructions that make a byte of a
 * sum, where a float takes a bias and an activation. */
bool cpu_bytes_cost(const struct pass_machine *m, const struct ir_node *n, double *bytes, double *floats)
{
    const struct cpu_machine *cpu = (const struct cpu_machine *)m;
    struct ir_winograd form[2];
    double lanes = (double)cpu->emit.vector_bytes / 4, gain = cpu->multiplies_bytes ? 3.3 : 1.55;
    if ((n->op != IR_conv && n->op != IR_matmul) || !bytes_product(m, n))
        return false;
    double direct = pass_flops(NULL, n, NULL) / 2 / (2 * lanes), results = pass_elements(NULL, n->out[0]->type) / lanes;
    if (n->op == IR_conv && ir_get_i(n, IR_ATTR_groups, 1) > 1 && dim_of(n, 1, 1) == 1)
        gain = cpu->multiplies_bytes ? 1.4 : 0.9;
    *bytes = direct / gain + results * 12 / 4;
    *floats = (ir_winograd_of(n, 2, form) ? cpu_winograd_cycles(m, n) : direct) + results * 3 / 4;
    return true;
}

/* (.., n div NR), k, (n mod NR): a panel is read from front to end by the register tiles of its NR columns. */
static kn_layout matrix_layout(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n)
{
    ir_type t = n->in[1].value->type;
    struct kn_axis at[TCC_MAX_RANK + 2];
    int r = t->rank, k = r - 2, col = r - 1;
    int32_t nr = (((const struct cpu_machine *)m)->emit.vector_bytes >= 64 ? 128 : 64) / (t->dtype == TCC_F64 ? 8 : 4);
    if (r < 2 || r == TCC_MAX_RANK || (!in_f32(t->dtype) && t->dtype != TCC_F64 && !bytes_product(m, n)))
        return NULL;
    if (ir_get_i(n, IR_ATTR_trans_b, 0)) {
        k = r - 1;
        col = r - 2;
    }
    if (ir_const_or(t->dim[col], 0) < 4)
        return NULL;
    int depth = depth_in(m, n, ir_const_or(t->dim[k], 1));
    if (in_bytes(t->dtype) && (r + 2 > TCC_MAX_RANK || ir_const_or(t->dim[k], 1) % depth))
        return NULL;
    if (r + 2 > TCC_MAX_RANK || ir_const_or(t->dim[k], 1) % depth)
        depth = 1;
    for (int i = 0; i < r - 2; i++)
        at[i] = (struct kn_axis){(int16_t)i, 1, 0};
    at[r - 2] = (struct kn_axis){(int16_t)col, nr, 0};
    at[r - 1] = (struct kn_axis){(int16_t)k, depth, 0};
    at[r] = (struct kn_axis){(int16_t)col, 1, nr};
    at[r + 1] = (struct kn_axis){(int16_t)k, 1, depth};
    return kn_layout_make(ctx, r, r + 1 + (depth > 1), at);
}

/* o div 16, i div 16 (or i), taps.., i mod 16, o mod 16. With a depth: .., i div depth mod .., o mod 16, i mod depth;
 * without blocks of channels the last axis of the taps is what is cut so. */
static kn_layout weight_layout(struct ir_ctx *ctx, int rank, bool split_in, int depth)
{
    struct kn_axis at[TCC_MAX_RANK + 1];
    int p = 0;
    at[p++] = (struct kn_axis){0, BLOCK, 0};
    at[p++] = (struct kn_axis){1, split_in ? BLOCK : 1, 0};
    for (int i = 2; i < rank; i++)
        at[p++] = (struct kn_axis){(int16_t)i, 1, 0};
    if (split_in)
        at[p++] = depth > 1 ? (struct kn_axis){1, depth, BLOCK / depth} : (struct kn_axis){1, 1, BLOCK};
    else if (depth > 1)
        at[p - 1].div = depth;
    at[p++] = (struct kn_axis){0, 1, BLOCK};
    if (depth > 1)
        at[p++] = (struct kn_axis){(int16_t)(split_in ? 1 : rank - 1), 1, depth};
    return kn_layout_make(ctx, rank, p, at);
}

static kn_layout conv_layout(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n, int operand)
{
    ir_type x = n->in[0].value->type, w = n->in[1].value->type;
    int rank = x->rank;
    int64_t c = dim_of(n, 0, 1), o = dim_of(n, 1, 0), per_in = dim_of(n, 1, 1), groups = ir_get_i(n, IR_ATTR_groups, 1);
    if (rank + 2 > TCC_MAX_RANK || (!in_f32(w->dtype) && !in_bytes(w->dtype)) || c < 1 || o < 1 || per_in < 1 ||
        (lanes_along_rows(n) && !pass_is_padded(n)))
        return NULL;
    /* Few results of many channels: a plain result from blocks, not worth its padding. Channels are lanes where a point
     * has several taps, or one result (window.c). */
    bool few = o < 8, lanes = few && w->dtype == TCC_F32 && (o == 1 || (has_taps(n) && c % BLOCK == 0));
    if (few && (groups > 1 || c < BLOCK || !in_f32(w->dtype)))
        return NULL;
    bool depthwise = per_in == 1 && groups == c && o == c && c > 1, plain_in = groups == 1 && c < 8;
    if (!depthwise && groups > 1 && (per_in % BLOCK || o / groups % BLOCK))
        return NULL;
    switch (operand) {
    case -1: return few ? NULL : kn_layout_blocked(ctx, rank, 1, BLOCK);
    case 0: return plain_in ? NULL : kn_layout_blocked(ctx, rank, 1, BLOCK);
    case 1: {
        if (lanes)
            return kn_layout_blocked(ctx, rank, 1, BLOCK);
        int depth = rank + 3 <= TCC_MAX_RANK ? depth_in(m, n, plain_in ? 1 : BLOCK) : 1;
        bool by_taps = depth > 1 && dim_of(n, 1, rank - 1) % depth == 0;
        return weight_layout(ctx, rank, !depthwise && !plain_in, depthwise || (plain_in && !by_taps) ? 1 : depth);
    }
    default: return NULL;
    }
}

/* The channels of a gradient by weight: is it one whose weights are in blocks, a depthwise convolution's, one of few
 * input channels? */
struct grad_weight {
    bool blocks, depthwise, plain_in;
};

static struct grad_weight grad_weight(const struct ir_node *n)
{
    struct grad_weight g = {false, false, false};
    int64_t c = dim_of(n, 0, 1), o = dim_of(n, 1, 1), per_in = ir_const_or(n->out[0]->type->dim[1], -1),
            groups = ir_get_i(n, IR_ATTR_groups, 1);
    g.depthwise = per_in == 1 && groups == c && o == c && c > 1;
    g.plain_in = groups == 1 && c < 8;
    g.blocks = n->in[0].value->type->rank + 2 <= TCC_MAX_RANK && c >= 1 && o >= 8 && per_in >= 1 &&
               (g.depthwise || groups == 1 || (per_in % BLOCK == 0 && o / groups % BLOCK == 0));
    return g;
}

/*
 * Does it run by products of pairs? The sum goes over images and positions; pairs are of two images, which every tap
 * sees at the same place, and so does padding: pairs of neighbours in a row would be others for each tap.
 */
static bool image_pairs(const struct pass_machine *m, const struct ir_node *n)
{
    struct grad_weight g = grad_weight(n);
    ir_type x = n->in[0].value->type;
    return g.blocks && !g.depthwise && !g.plain_in && x->rank + 3 <= TCC_MAX_RANK && !ir_is_value(x->dim[0], 1) &&
           tcc_small_float((enum tcc_dtype)x->dtype) && x->dtype == n->in[1].value->type->dtype &&
           depth_of(m, (enum tcc_dtype)x->dtype) == 2;
}

/* n div 2, c div 16, positions.., c mod 16, n mod 2. */
static kn_layout paired_layout(struct ir_ctx *ctx, int rank)
{
    struct kn_axis at[TCC_MAX_RANK + 1];
    int p = 0;
    at[p++] = (struct kn_axis){0, 2, 0};
    at[p++] = (struct kn_axis){1, BLOCK, 0};
    for (int i = 2; i < rank; i++)
        at[p++] = (struct kn_axis){(int16_t)i, 1, 0};
    at[p++] = (struct kn_axis){1, 1, BLOCK};
    at[p++] = (struct kn_axis){0, 1, 2};
    return kn_layout_make(ctx, rank, p, at);
}

/* The gradient by weight of a convolution that runs in blocks: x and dy as forward has them, or in pairs of images, the
 * result as its weights. */
static kn_layout grad_weight_layout(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n,
                                    int operand)
{
    struct grad_weight g = grad_weight(n);
    int rank = n->in[0].value->type->rank;
    if (!g.blocks)
        return NULL;
    if (operand < 0)
        return weight_layout(ctx, rank, !g.depthwise && !g.plain_in, 1);
    if (image_pairs(m, n))
        return paired_layout(ctx, rank);
    return operand == 0 && g.plain_in ? NULL : kn_layout_blocked(ctx, rank, 1, BLOCK);
}

/* o div 32, frequency, i, o mod 32: what a tile's products with 32 channels read lies together. Or 16. */
static kn_layout transformed_layout(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n)
{
    int32_t wide = cpu_winograd_panel(m, dim_of(n, 1, 2));
    const struct kn_axis at[] = {{2, wide, 0}, {0, 1, 0}, {1, 1, 0}, {2, 1, wide}};
    return kn_layout_make(ctx, 3, 4, at);
}

kn_layout cpu_layout(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n, int operand)
{
    ir_type t = n->out[0]->type;
    switch (n->op) {
    case IR_matmul: return operand == 1 && ir_const_of(n->in[1].value) ? matrix_layout(m, ctx, n) : NULL;
    case IR_conv:
        return (in_f32(t->dtype) && in_f32(n->in[0].value->type->dtype)) || bytes_product(m, n)
                   ? conv_layout(m, ctx, n, operand)
                   : NULL;
    case IR_winograd:
        return operand == 1  ? transformed_layout(m, ctx, n)
               : operand < 1 ? kn_layout_blocked(ctx, t->rank, 1, BLOCK)
                             : NULL;
    case IR_conv_grad_weight: return in_f32(t->dtype) ? grad_weight_layout(m, ctx, n, operand) : NULL;
    case IR_max_pool:
    case IR_avg_pool:
    case IR_max_pool_index:
    case IR_max_pool_grad:
    case IR_sum_pool_grad:
        if ((!in_f32(n->in[0].value->type->dtype) && !in_bytes(n->in[0].value->type->dtype)) || dim_of(n, 0, 1) < 8 ||
            t->rank + 1 > TCC_MAX_RANK)
            return NULL;
        return kn_layout_blocked(ctx, t->rank, 1, BLOCK);
    default: return NULL;
    }
}

/* A convolution of so few channels that they fill no blocks; of those, one whose taps `legalise` makes come in
 * groups. */
static bool few_channels(const struct ir_node *n)
{
    return n->op == IR_conv && dim_of(n, 0, 1) < 8 && ir_get_i(n, IR_ATTR_groups, 1) == 1;
}

static bool grouped_taps(const struct ir_node *n)
{
    const struct ir_attr *d = ir_attr(n, IR_ATTR_dilations);
    return ir_const_of(n->in[1].value) && dim_of(n, 1, 0) >= 8 && d->n && d->ints[d->n - 1] == 1;
}

/*
 * Products of operands in small types run as products of floats, which the operands become beforehand: once, and not
 * for each tile that reads them. What the machine multiplies in pairs stays, but for convolutions of few channels that
 * give it no groups; and products with weights, or many products, become such of f16 where the machine is fast at
 * those.
 */
enum tcc_dtype cpu_product_type(const struct pass_machine *m, const struct ir_node *n, bool reduced)
{
    enum tcc_dtype d = n->in[0].value->type->dtype;
    bool conv = n->op == IR_conv;
    if (tcc_small_float(d) && n->op == IR_attention)
        return TCC_F32; /* one kernel of floats is faster than several of products in pairs */
    if (!tcc_small_float(d) || (!conv && n->op != IR_matmul && n->op != IR_conv_grad_weight))
        return TCC_NONE;
    if (n->op == IR_conv_grad_weight)
        return image_pairs(m, n) ? TCC_NONE : TCC_F32;
    if (few_channels(n) && (depth_of(m, d) == 1 || !grouped_taps(n)))
        return TCC_F32;
    if (depth_of(m, d) > 1)
        return TCC_NONE;
    return reduced && (d == TCC_BF16 || d == TCC_F16) && halves(m, n) ? TCC_F16 : TCC_F32;
}
