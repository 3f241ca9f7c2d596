/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose_product.c - which tiles a sum of products gets on a GPU: its types and vectors, tiles by the waves that blocks
 * make on the machine, pieces of the sum, stages, clusters. choose.c decides that it is one.
 */
#include "compiler/cuda/contract_int.h"

#include <math.h>

enum { LEAST_TERMS = 256 }; /* of a product, in a piece */

int64_t cuda_points(const struct kn_kernel *k, uint32_t dims)
{
    int64_t n = 1;
    for (int d = 0; d < k->ndims; d++)
        if (dims >> d & 1 && n < (1 << 30))
            n *= cuda_extent(k, d);
    return n;
}

static bool runs_along(struct ir_ctx *ctx, const struct kn_kernel *k, int insn, int dim)
{
    const struct kn_insn *n = &k->insns[insn];
    int64_t stride;
    return em_lane_stride(ctx, kn_flat_offset(ctx, &k->operands[n->operand], n->index), k->dims[dim].var, 1, false,
                          &stride) &&
           stride == 1;
}

int cuda_load_width(struct ir_ctx *ctx, const struct kn_kernel *k, int insn, int d, int width)
{
    bool aligned;
    if (ir_const_or(k->dims[d].extent, 1) % width || kn_guards_use(&k->insns[insn], k->dims[d].var) ||
        !runs_along(ctx, k, insn, d))
        return 1;
    return cuda_access_of(ctx, k, &k->insns[insn], d, width, &aligned) == 1 && aligned ? width : 1;
}

/* The 8-bit type that a factor of type i32 is widened from; TCC_NONE: none. */
static enum tcc_dtype byte_type(const struct kn_kernel *k, int value)
{
    while (kn_is_cast(&k->insns[value]) && tcc_dtype_bytes((enum tcc_dtype)k->insns[value].dtype) > 1)
        value = k->insns[value].arg[0];
    int d = k->insns[value].dtype;
    return d == TCC_I8 || d == TCC_U8 ? (enum tcc_dtype)d : TCC_NONE;
}

static bool is_fp8(enum tcc_dtype d)
{
    return d == TCC_F8E4M3FN || d == TCC_F8E5M2;
}

enum tcc_dtype cuda_factor_type(const struct kn_kernel *k, int value)
{
    return (enum tcc_dtype)k->insns[kn_uncast(k, value)].dtype;
}

/* What tensor cores take as the factors of a product of floats, or of i32 that were bytes. False: neither. f16 has
 * every value of the 8-bit floats. */
static bool find_types(const struct kn_kernel *k, bool fp8, struct ct_shape *s)
{
    const struct kn_contraction *c = &k->roles.contraction;
    enum tcc_dtype product = (enum tcc_dtype)k->insns[c->mul].dtype, a = cuda_factor_type(k, s->value[0]),
                   b = cuda_factor_type(k, s->value[1]);
    if (k->insns[c->reduce].dtype != (int)product)
        return false;
    if (product == TCC_I32) {
        for (int i = 0; i < 2; i++)
            s->type[i] = byte_type(k, s->value[i]);
        s->bytes = 1;
        s->whole = true;
        return s->type[0] != TCC_NONE && s->type[1] != TCC_NONE;
    }
    bool small = a == b && (a == TCC_F16 || a == TCC_BF16);
    s->type[0] = s->type[1] = small ? a : TCC_F32;
    s->bytes = small ? 2 : 4;
    if (is_fp8(a) && is_fp8(b)) {
        s->type[0] = fp8 ? a : TCC_F16;
        s->type[1] = fp8 ? b : TCC_F16;
        s->bytes = fp8 ? 1 : 2;
    }
    return product == TCC_F32;
}

int ct_last_dim(const struct kn_kernel *k, uint32_t dims)
{
    int last = 31 - __builtin_clz(dims);
    for (int d = last; d >= 0; d--)
        if (dims >> d & 1 && !ir_is_value(k->dims[d].extent, 1))
            return d;
    return last;
}

static bool shape_of(struct ir_ctx *ctx, const struct kn_kernel *k, bool fp8, struct ct_shape *s)
{
    const struct kn_contraction *c = &k->roles.contraction;
    if (!kn_only_multiplies(k) || !c->m || !c->n)
        return false;
    *s = (struct ct_shape){.value = {c->factor[0], c->factor[1]}, .load = {c->load[0], c->load[1]}};
    if (!find_types(k, fp8, s))
        return false;
    int last[2] = {ct_last_dim(k, c->m), ct_last_dim(k, c->n)}, last_k = ct_last_dim(k, c->k);
    for (int i = 0; i < 2; i++) {
        int bytes = tcc_dtype_bytes((enum tcc_dtype)k->insns[s->load[i]].dtype);
        s->along_k[i] = runs_along(ctx, k, s->load[i], last_k) && !runs_along(ctx, k, s->load[i], last[i]);
        s->width[i] = s->bytes > 1 && bytes != s->bytes
                          ? 1
                          : cuda_load_width(ctx, k, s->load[i], s->along_k[i] ? last_k : last[i], 16 / bytes);
    }
    for (int i = 0; i < k->ninsns; i++) /* neighbours in memory are stored by neighbours */
        if (k->insns[i].code == KN_STORE && runs_along(ctx, k, i, last[0]) && !runs_along(ctx, k, i, last[1]))
            s->swap = true;
    return true;
}

static bool ct_shape_of(struct ir_ctx *ctx, const struct kn_kernel *k, struct ct_shape *s)
{
    return shape_of(ctx, k, false, s);
}

bool ct_shape_by(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *by, struct ct_shape *s)
{
    return shape_of(ctx, k, by->fp8, s);
}

bool cuda_may_fp8(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct ct_shape s;
    return shape_of(ctx, k, true, &s) && s.bytes == 1 && !s.whole;
}

bool cuda_takes_contract(struct ir_ctx *ctx, const struct kn_kernel *k, enum cuda_how how)
{
    struct ct_shape s;
    return ct_shape_of(ctx, k, &s) && (how == CUDA_MMA || (how == CUDA_CONTRACT ? s.bytes > 1 : s.bytes == 2));
}

int cuda_product_bytes(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct ct_shape s;
    return ct_shape_of(ctx, k, &s) ? s.bytes : 4;
}

/* Waves of blocks times what a block does: results, and what it brings for them. Of wgmma, blocks have a multiprocessor
 * to themselves, so waves are whole, and half of what is brought is hidden. */
static double tile_cost(const struct cuda_machine *m, int64_t batch, int64_t rows, int64_t cols,
                        const struct cuda_schedule *s, int bytes)
{
    double blocks = (double)batch * (double)((rows + s->bm - 1) / s->bm) * (double)((cols + s->bn - 1) / s->bn);
    double waves = blocks / m->sms, product = s->how == CUDA_WGMMA && bytes == 1   ? 0.25
                                              : s->how == CUDA_WGMMA || bytes == 1 ? 0.5
                                              : bytes == 4 && s->how == CUDA_MMA   ? 3
                                              : bytes == 4                         ? 8
                                                                                   : 1;
    bool alone = s->how == CUDA_WGMMA;
    waves = alone ? ceil(waves) : waves < 1 ? 1 : waves;
    return waves * (product * s->bm * s->bn + (alone ? 12 : 24) * (s->bm + s->bn));
}

/* As many as leave room for two blocks on a multiprocessor (one of 256 columns, or with tensor copies: they need the
 * registers of two), and no more than there are steps. */
void cuda_choose_stages(const struct cuda_machine *m, int64_t terms, int bytes, struct cuda_schedule *s)
{
    int64_t steps = (terms + s->bk - 1) / s->bk;
    int blocks = s->bn > 128 || cuda_has_maps(s) ? 1 : 2;
    for (s->stages = cuda_has_maps(s) ? 6 : 4; s->stages > 2; s->stages--)
        if (s->stages <= steps + 1 && blocks * (cuda_contract_shared(s, bytes) + 1024) <= m->shared)
            return;
}

/* Tiles that a template has, by their cost; *s is the best so far, *best its cost, 0: none. */
static void try_tiles(const struct cuda_machine *m, struct cuda_schedule tried, int64_t batch, int64_t rows,
                      int64_t cols, int bytes, struct cuda_schedule *s, double *best)
{
    static const struct {
        int least_m, least_n, most_n, bk;
    } tiles[] = {[CUDA_CONTRACT] = {32, 32, 128, 8}, [CUDA_MMA] = {64, 64, 128, 32}, [CUDA_WGMMA] = {128, 64, 256, 64}};
    tried.bk = tried.how == CUDA_MMA ? 64 / bytes : tried.how == CUDA_WGMMA ? CT_ROW / bytes : tiles[tried.how].bk;
    int most_n = tried.fp8 && tiles[tried.how].most_n > 128 ? 128 : tiles[tried.how].most_n;
    for (tried.bm = tiles[tried.how].least_m; tried.bm <= 128; tried.bm *= 2)
        for (tried.bn = tiles[tried.how].least_n; tried.bn <= most_n;
             tried.bn += tried.how == CUDA_WGMMA ? tiles[CUDA_WGMMA].least_n : tried.bn) {
            double cost = tile_cost(m, batch, rows, cols, &tried, bytes);
            if (*best > 0 && cost >= *best)
                continue;
            *best = cost;
            *s = tried;
        }
}

/* Pieces of the terms where so few tiles of 64 x 64 results are there that most multiprocessors of any machine would
 * have none. By shape alone: the bits depend on it. least: terms of a piece. */
int cuda_choose_split(int64_t tiles, int64_t terms, int64_t least)
{
    enum { FEW_TILES = 48, ENOUGH = 128, MOST_PIECES = 32 };
    int64_t pieces = tiles > 0 && tiles < FEW_TILES ? ENOUGH / tiles : 1;
    pieces = pieces < terms / least ? pieces : terms / least;
    pieces = pieces < MOST_PIECES ? pieces : MOST_PIECES;
    return pieces > 1 ? (int)pieces : 1;
}

/* The same where tiles are more, but don't fill waves, and sums are long, as of a weight's gradient: the number of
 * pieces that takes fewest cycles, of tensor cores of an H100 that take 20 a term of a tile, 1500 a tile besides, and
 * of memory that takes a piece's sums and gives them back at 1900 bytes each; another launch is 4000. By shape alone,
 * too. */
static int choose_long_split(int64_t batch, int64_t rows, int64_t cols, int64_t terms)
{
    enum { ROWS = 128, ENOUGH = 128, MOST_PIECES = 16, LONG = 1024 };
    double best = 0, results = (double)(batch * rows * cols);
    int pieces = 1;
    for (int n = 1; n <= MOST_PIECES && (n == 1 || terms / n >= LONG); n++)
        for (int wide = 128; wide <= 256; wide += 64) {
            double tiles = (double)(batch * ((rows + ROWS - 1) / ROWS) * ((cols + wide - 1) / wide) * n);
            double tile = 20.0 * (ROWS * wide / 2 + 12 * (ROWS + wide)) / (ROWS * 256 / 2 + 12 * (ROWS + 256));
            double cycles = ceil(tiles / ENOUGH) * (tile * (double)(terms / n) + 1500) +
                            (n > 1 ? 4000 + results * n * 2 * sizeof(float) / 1900 : 0);
            if (best > 0 && cycles >= best * 0.9)
                continue;
            best = cycles;
            pieces = n;
        }
    return pieces;
}

/* Two blocks that share rows read them once from the level-2 cache: where blocks fill the machine, and no column of
 * tiles is left over. */
static int choose_cluster(const struct cuda_machine *m, int64_t batch, int64_t rows, int64_t cols,
                          const struct cuda_schedule *s)
{
    int64_t across = (cols + s->bn - 1) / s->bn, tiles = batch * ((rows + s->bm - 1) / s->bm) * across;
    return cuda_has_maps(s) && across % 2 == 0 && tiles >= m->sms ? 2 : 1;
}

bool cuda_choose_product(const struct cuda_machine *m, struct ir_ctx *ctx, struct kn_kernel *k, struct cuda_schedule *s)
{
    const struct kn_contraction *c = &k->roles.contraction;
    struct ct_shape shape;
    if (!ct_shape_of(ctx, k, &shape))
        return false;
    int64_t batch = cuda_points(k, c->batch), rows = cuda_points(k, shape.swap ? c->n : c->m),
            cols = cuda_points(k, shape.swap ? c->m : c->n);
    if (rows < CUDA_LEAST_ROWS || cols < CUDA_LEAST_ROWS || cuda_points(k, c->k) < 8)
        return false;
    double best = 0;
    struct cuda_schedule tried = cuda_plain_schedule(CUDA_CONTRACT);
    tried.split = cuda_choose_split(batch * ((rows + 63) / 64) * ((cols + 63) / 64), cuda_points(k, c->k), LEAST_TERMS);
    if (tried.split == 1)
        tried.split = choose_long_split(batch, rows, cols, cuda_points(k, c->k));
    tried.threads = CT_THREADS;
    batch *= tried.split;
    bool takes[] = {[CUDA_CONTRACT] = shape.bytes == 4,
                    [CUDA_MMA] = shape.bytes < 4 || m->tf32,
                    [CUDA_WGMMA] = shape.bytes == 2 && m->wgmma && cuda_points(k, c->k) >= 64};
    bool fp8 = m->fp8 && cuda_may_fp8(ctx, k);
    takes[CUDA_WGMMA] &= !fp8 || cuda_points(k, c->k) >= CT_ROW;
    for (tried.how = CUDA_CONTRACT; tried.how <= CUDA_WGMMA; tried.how++) {
        tried.fp8 = fp8 && (int)tried.how == m->fp8;
        if (takes[tried.how])
            try_tiles(m, tried, batch, rows, cols, tried.fp8 ? 1 : shape.bytes, s, &best);
    }
    if (s->how == CUDA_WGMMA && cuda_may_map(ctx, k, s))
        s->threads = CUDA_SENDING;
    s->cluster = choose_cluster(m, batch, rows, cols, s);
    cuda_choose_stages(m, cuda_points(k, c->k), s->fp8 ? 1 : shape.bytes, s);
    return true;
}

ir_expr cuda_product_tiles(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s)
{
    const struct kn_contraction *c = &k->roles.contraction;
    struct ct_shape shape;
    ct_shape_of(ctx, k, &shape);
    uint32_t sets[3] = {c->batch, shape.swap ? c->n : c->m, shape.swap ? c->m : c->n};
    int sizes[3] = {1, s->bm, s->bn};
    ir_expr tiles = ir_const(ctx, s->split);
    for (int i = 0; i < 3; i++) {
        ir_expr n = ir_const(ctx, 1);
        for (int d = 0; d < k->ndims; d++)
            if (sets[i] >> d & 1)
                n = ir_mul(ctx, n, k->dims[d].extent);
        n = ir_ceildiv(ctx, n, ir_const(ctx, sizes[i]));
        if (i == 2 && s->cluster > 1) /* of columns, whole clusters */
            n = ir_mulc(ctx, ir_ceildiv(ctx, n, ir_const(ctx, s->cluster)), s->cluster);
        tiles = ir_mul(ctx, tiles, n);
    }
    return tiles;
}
