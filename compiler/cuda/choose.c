/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.c - which template takes a kernel: a function of its structure and sizes alone.
 *
 *   attention                                  attention, where rows are no wider than shared memory allows
 *   a sum of products of two loads             wgmma, mma, contract: tiles of results, sized by the waves that blocks
 *   make on the machine a scatter of many points by their indices  owners
 *   no inner dims, loads along another dim     transpose
 *   no inner dims                              loops, by vectors of 16 bytes where all accesses are consecutive or
 *   uniform
 *   inner points, consecutive along the last   group: a warp, or a block where outer points are few and inner ones many
 *   else                                       loops: neighbouring threads run neighbouring outer points
 */
#include "compiler/cuda/attention_int.h"
#include "compiler/cuda/contract_int.h"

#include <math.h>

enum {
    UNKNOWN = 1024,     /* guess for extents that depend on symbols */
    WARP_INNER = 32,    /* inner points from which on a warp shares them */
    BLOCK_INNER = 1024, /* and a block, */
    BLOCK_OUTER = 4096, /* where outer points are fewer than that */
    WARP_SORTED = 256,  /* a row of fewer elements is sorted by a warp */
    LEAST_TERMS = 256,  /* of a product, in a piece */
    LEAST_KEYS = 128    /* of attention, in one */
};

/* -- Vectors -------------------------------------------------------------------------------------------------- */

/* Offset of an access with `width` consecutive points of v from a multiple of `width` on: 0: equal for all, 1:
 * consecutive, and *aligned: from a multiple of width elements; -1: neither. */
static int access_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *n, int v, int width,
                     bool *aligned)
{
    ir_expr var = k->dims[v].var, offset = kn_flat_offset(ctx, &k->operands[n->operand], n->index),
            zero = ir_const(ctx, 0);
    int64_t stride;
    *aligned = false;
    if (!ir_uses_sym(offset, var))
        return 0;
    if (!em_lane_stride(ctx, offset, var, width, true, &stride) || stride < 0 || stride > 1)
        return -1;
    if (stride == 0)
        return 0;
    ir_expr n_of = ir_const(ctx, width), q = ir_iter(ctx, "q", ir_ceildiv(ctx, k->dims[v].extent, n_of));
    ir_expr at = ir_mulc(ctx, q, width), start = ir_subst(ctx, offset, 1, &var, &at);
    *aligned = ir_mod(ctx, start, n_of) == zero;
    return 1;
}

/* Those by which a vector is accessed. */
static int vector_bytes(const struct kn_operand *o, int width)
{
    int bytes = width * tcc_dtype_bytes((enum tcc_dtype)o->dtype);
    return bytes > 16 ? 16 : bytes;
}

/* Can `width` neighbours along dim v run instructions [first, last) at once? Their stores are vectors; so are their
 * loads where v is an inner dim, else loads may be narrow. align: set to the bytes of which, for them to be vectors,
 * operands' addresses are multiples (0: of those of narrow loads); NULL: isn't. */
static bool takes_vectors(struct ir_ctx *ctx, const struct kn_kernel *k, int first, int last, int v, int width,
                          int *align)
{
    bool inner = k->dims[v].role == KN_INNER, aligned;
    for (int i = first; i < last; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code == KN_INDEX || kn_guards_use(n, k->dims[v].var) ||
            (inner && (n->code == KN_ARGREDUCE || n->code == KN_SCAN || n->code == KN_SORT)))
            return false;
        if (n->code != KN_LOAD && n->code != KN_STORE)
            continue;
        int how = access_of(ctx, k, n, v, width, &aligned);
        if (k->operands[n->operand].use == KN_LOCAL || how < 0 || (n->code == KN_STORE && (how != 1 || !aligned)) ||
            (inner && how == 1 && !aligned))
            return false;
    }
    for (int narrow = 0; narrow < 2 && align; narrow++) /* what one load has narrow is that for all */
        for (int i = first; i < last; i++) {
            const struct kn_insn *n = &k->insns[i];
            if ((n->code == KN_LOAD || n->code == KN_STORE) && access_of(ctx, k, n, v, width, &aligned) == 1 &&
                aligned == !narrow)
                align[n->operand] = narrow ? 0 : vector_bytes(&k->operands[n->operand], width);
        }
    return true;
}

int cuda_vector_width(struct ir_ctx *ctx, const struct kn_kernel *k, int v, int *align)
{
    int most = 1, width, stores = 0;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_STORE || k->insns[i].code == KN_LOAD) {
            int bytes = tcc_dtype_bytes((enum tcc_dtype)k->operands[k->insns[i].operand].dtype);
            if (k->insns[i].code == KN_STORE && bytes == 1)
                bytes = 4; /* NVPTX stores vectors of more bytes piece by piece */
            most = bytes > most ? bytes : most;
            stores += k->insns[i].code == KN_STORE;
        }
    width = 16 / most;
    bool fits = width > 1 && stores && width <= ir_const_or(k->dims[v].extent, width);
    return fits && takes_vectors(ctx, k, 0, k->ninsns, v, width, align) ? width : 1;
}

/* -- Transposes ---------------------------------------------------------------------------------------------- */

/* The dim along which most loads are consecutive that jump along v; -1: none, or something else speaks against a
 * transpose. */
static int transpose_dim(struct ir_ctx *ctx, const struct kn_kernel *k, int v)
{
    int best = -1, most = 0;
    if (k->nstages != 1 || ir_const_or(k->dims[v].extent, UNKNOWN) < 16)
        return -1;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use == KN_LOCAL || tcc_dtype_bytes((enum tcc_dtype)k->operands[i].dtype) > 8)
            return -1;
    for (int u = 0; u < em_nouter(k); u++) {
        int n = 0;
        if (u == v || ir_const_or(k->dims[u].extent, UNKNOWN) < 16)
            continue;
        for (int i = 0; i < k->ninsns; i++)
            n += cuda_is_turned(ctx, k, i, u, v);
        if (n > most) {
            most = n;
            best = u;
        }
    }
    return best;
}

/* -- Groups ----------------------------------------------------------------------------------------------------- */

static int64_t extent(const struct kn_kernel *k, int dim)
{
    return ir_const_or(em_is_piece(k, dim) ? k->split.step : k->dims[dim].extent, UNKNOWN);
}

static bool follows(const struct kn_kernel *k, ir_expr e, uint32_t dims)
{
    bool any = false;
    for (int d = 0; d < k->ndims; d++)
        any |= (dims >> d & 1) && ir_uses_sym(e, k->dims[d].var);
    return any;
}

/* The stages' inner points, of a split kernel those of the first phase, the most of them; *along: loads and stores that
 * are consecutive along the last inner dim less those that are so along the last outer one. */
static int64_t inner_points(struct ir_ctx *ctx, const struct kn_kernel *k, int *along)
{
    int64_t most = 1;
    int outer = em_nouter(k) - 1, stages = k->split.combine ? k->split.combine : k->nstages;
    *along = 0;
    for (int s = 0; s < stages; s++) {
        const struct kn_stage *stage = &k->stages[s];
        int64_t n = 1;
        if (!stage->inner)
            continue;
        int last = 31 - __builtin_clz(stage->inner);
        for (int d = 0; d < k->ndims; d++)
            if (stage->inner >> d & 1 && n < (1 << 30))
                n *= extent(k, d);
        most = n > most ? n : most;
        for (int i = stage->first; i < stage->last; i++) {
            const struct kn_insn *x = &k->insns[i];
            int64_t stride;
            if ((x->code != KN_LOAD && x->code != KN_STORE) || k->operands[x->operand].use == KN_LOCAL)
                continue;
            ir_expr offset = kn_flat_offset(ctx, &k->operands[x->operand], x->index);
            if (!follows(k, offset, stage->inner)) /* the same for all inner points: one access for many */
                continue;
            bool near = em_lane_stride(ctx, offset, k->dims[last].var, 32, true, &stride);
            *along += near && (stride == 1 || (stride == -1 && kn_stage_has(k, stage, KN_BIT(KN_SCAN))));
            *along -= outer >= 0 && em_lane_stride(ctx, offset, k->dims[outer].var, 32, true, &stride) && stride == 1;
        }
    }
    return most;
}

/* May inner points run in any order, scans aside, and are all values ones that threads can hand over? */
bool cuda_may_group(const struct kn_kernel *k)
{
    /* a scan's points come in order: nothing else is combined there */
    const uint32_t combine = KN_BIT(KN_REDUCE) | KN_BIT(KN_ARGREDUCE), scan = KN_BIT(KN_SCAN);
    for (int s = 0; s < k->nstages; s++)
        if (k->stages[s].repeat || (kn_stage_has(k, &k->stages[s], scan) && kn_stage_has(k, &k->stages[s], combine)))
            return false;
    if (kn_has_operand(k, KN_BIT(KN_INOUT)))
        return false;
    for (int i = 0; i < k->ninsns; i++) /* a scatter: its points are in order */
        for (int j = 0; j < i && k->insns[i].code == KN_STORE; j++)
            if (k->insns[j].code == KN_INDEX && kn_insn_uses(&k->insns[i], k->insns[j].expr))
                return false;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].dtype == TCC_C128)
            return false;
    return true;
}

int cuda_stage_width(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_stage *s, int width, int *align)
{
    if (width == 1 || !s->inner)
        return 1;
    int last = 31 - __builtin_clz(s->inner);
    int64_t points;
    bool fits = ir_is_const(k->dims[last].extent, &points) && points % width == 0 && !em_is_piece(k, last);
    return fits && takes_vectors(ctx, k, s->first, s->last, last, width, align) ? width : 1;
}

/* As many neighbours as 16 bytes have of the widest elements, and no more than give each thread of the group some. */
static int group_width(struct ir_ctx *ctx, const struct kn_kernel *k, int group, int64_t inner)
{
    enum { MOST_LOADS = 16 }; /* for each of which vectors are in registers at a time */
    int most = 1, width, best = 1, loads = 0;
    for (int i = 0; i < k->ninsns; i++)
        loads += k->insns[i].code == KN_LOAD;
    if (kn_has(k, KN_BIT(KN_SORT) | KN_BIT(KN_SCAN)) || k->split.combine || loads > MOST_LOADS)
        return 1;
    for (int i = 0; i < k->ninsns; i++)
        if ((k->insns[i].code == KN_STORE || k->insns[i].code == KN_LOAD) && k->insns[i].nindex) {
            int bytes = tcc_dtype_bytes((enum tcc_dtype)k->operands[k->insns[i].operand].dtype);
            int64_t points = 1, n;
            for (int d = 0; d < k->operands[k->insns[i].operand].rank; d++)
                points *= ir_is_const(k->operands[k->insns[i].operand].dims[d], &n) && points < 1 << 30 ? n : 1;
            most = bytes > most && points >= inner ? bytes : most;
        }
    for (width = 16 / most; width > 1 && inner / width < group; width /= 2)
        ;
    for (int i = 0; i < k->nstages; i++)
        best = cuda_stage_width(ctx, k, &k->stages[i], width, NULL) > 1 ? width : best;
    return best;
}

/* Rows that several stages read: of so many at a time as the level-2 cache holds. */
static int rows_group(const struct kn_kernel *k, int64_t inner, int group)
{
    enum { LONG = 4096, LONGER = 16384 };
    int stages = 0;
    for (int i = 0; i < k->nstages; i++)
        stages += k->stages[i].inner != 0;
    return kn_has_operand(k, KN_BIT(KN_LOCAL)) || group == 1 || k->split.combine || stages < 2 || inner < LONG ? group
           : inner < LONGER                                                                                    ? 256
                                                                                                               : 512;
}

static int group_size(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    int64_t outer = 1, inner;
    int along;
    if (!cuda_may_group(k))
        return 1;
    for (int d = 0; d < em_nouter(k) && outer < (1 << 30); d++)
        outer *= extent(k, d);
    inner = inner_points(ctx, k, &along);
    if (kn_has(k, KN_BIT(KN_SORT)))
        return inner < WARP_SORTED ? 32 : 256;
    if (inner < WARP_INNER || (along <= 0 && (outer >= BLOCK_OUTER || inner < BLOCK_INNER)))
        return 1;
    return rows_group(k, inner, inner >= BLOCK_INNER && outer < BLOCK_OUTER ? 256 : 32);
}

/* -- Products ------------------------------------------------------------------------------------------------------ */

int64_t cuda_points(const struct kn_kernel *k, uint32_t dims)
{
    int64_t n = 1;
    for (int d = 0; d < k->ndims; d++)
        if (dims >> d & 1 && n < (1 << 30))
            n *= extent(k, d);
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
    return access_of(ctx, k, &k->insns[insn], d, width, &aligned) == 1 && aligned ? width : 1;
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
static int choose_split(int64_t tiles, int64_t terms, int64_t least)
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

static bool choose_contract(const struct cuda_machine *m, struct ir_ctx *ctx, struct kn_kernel *k,
                            struct cuda_schedule *s)
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
    tried.split = choose_split(batch * ((rows + 63) / 64) * ((cols + 63) / 64), cuda_points(k, c->k), LEAST_TERMS);
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

/* -- Attention ----------------------------------------------------------------------------------------------------- */

/* By wgmma, where the machine has it, rows are enough for it and the tiles fit. */
static bool choose_warpgroups(struct ir_ctx *ctx, struct kn_kernel *k, struct fa_shape *shape, struct cuda_schedule *s)
{
    enum { ENOUGH = 32 };
    struct kn_schedule own = k->schedule;
    struct fa_shape other;
    if (shape->dtype == TCC_F32 || shape->row < 0 || cuda_points(k, 1u << shape->row) < ENOUGH)
        return false;
    s->warpgroups = 1;
    cuda_put_schedule(k, *s);
    if (cuda_attention_shape(ctx, k, &other)) {
        *shape = other;
        return true;
    }
    s->warpgroups = 0;
    k->schedule = own;
    return false;
}

/* Keys and values by tensor copies for tiles of two warpgroups, one of which does softmax while the other multiplies:
 * where tiles are for all multiprocessors, and keys enough for the time until the first ones have come. */
static bool choose_sent(struct ir_ctx *ctx, struct kn_kernel *k, struct fa_shape *shape, struct cuda_schedule *s)
{
    enum { MANY_KEYS = 512, ENOUGH = 128, ROWS = 2 * FA_ROWS };
    struct kn_schedule own = k->schedule;
    struct cuda_schedule sent = *s;
    struct fa_shape other;
    int64_t points = cuda_points(k, (1u << em_nouter(k)) - 1);
    if (!s->warpgroups || s->split > 1 || shape->gradient || shape->r.mean < 0 || !shape->plain ||
        cuda_points(k, 1u << shape->col) < MANY_KEYS || cuda_points(k, 1u << shape->row) < ROWS ||
        points / ROWS < ENOUGH)
        return false;
    sent.warpgroups = 2;
    sent.threads = 2 * FA_THREADS + FA_SENDING;
    cuda_put_schedule(k, sent);
    if (cuda_attention_shape(ctx, k, &other) && cuda_may_map(ctx, k, &sent)) {
        *shape = other;
        *s = sent;
        return true;
    }
    k->schedule = own;
    return false;
}

static bool choose_attention(const struct cuda_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct fa_shape shape;
    if (k->kind != IR_K_ATTENTION || !cuda_attention_shape(ctx, k, &shape))
        return false;
    struct cuda_schedule s = cuda_plain_schedule(CUDA_ATTENTION);
    if (m->wgmma && choose_warpgroups(ctx, k, &shape, &s))
        s.threads = shape.threads;
    if (shape.row >= 0)
        k->schedule.tile[shape.row] = shape.rows;
    k->tiles = em_tile_count(ctx, k);
    int64_t tiles, keys;
    if (!shape.gradient && shape.r.mean >= 0 && ir_is_const(k->tiles, &tiles) &&
        ir_is_const(k->dims[shape.col].extent, &keys))
        s.split = choose_split(tiles, keys, LEAST_KEYS);
    if (choose_sent(ctx, k, &shape, &s)) {
        k->schedule.tile[shape.row] = shape.rows;
        k->tiles = em_tile_count(ctx, k);
    }
    cuda_put_schedule(k, s);
    k->scratch = ir_const(ctx, 0);
    return true;
}

/* -- Scatters ------------------------------------------------------------------------------------------------------ */

ir_expr cuda_owner_tiles(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s)
{
    ir_expr rows;
    cuda_owner_rows(ctx, k, &rows);
    return ir_ceildiv(ctx, rows, ir_const(ctx, s->rows));
}

/* Outer points that are threads enough are loops of their own, in order. */
static bool choose_owners(struct ir_ctx *ctx, struct kn_kernel *k, struct cuda_schedule *s)
{
    enum { ENOUGH = 1 << 14, FEW_POINTS = 16, BLOCKS = 512 };
    ir_expr rows;
    if (!cuda_owner_rows(ctx, k, &rows) || cuda_points(k, (1u << em_nouter(k)) - 1) >= ENOUGH ||
        cuda_points(k, k->stages[0].inner) < FEW_POINTS)
        return false;
    int64_t n = ir_const_or(rows, UNKNOWN), each = (n + BLOCKS - 1) / BLOCKS;
    *s = cuda_plain_schedule(CUDA_OWNERS);
    s->threads = 256;
    s->rows = each < 1 ? 1 : each < 1 << 24 ? (int)each : 1 << 24;
    return true;
}

/* -- The choice --------------------------------------------------------------------------------------------------- */

void cuda_choose_schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct cuda_schedule s = cuda_plain_schedule(CUDA_POINTS);
    bool inner = false;
    int last = em_nouter(k) - 1;
    k->schedule = (struct kn_schedule){0};
    for (int i = 0; i <= last; i++)
        k->schedule.tile[i] = 1;
    while (last > 0 && ir_is_value(k->dims[last].extent, 1))
        last--;
    for (int i = 0; i < k->nstages; i++)
        inner |= k->stages[i].inner != 0;
    if (choose_attention((const struct cuda_machine *)m, ctx, k))
        return;
    bool product = choose_contract((const struct cuda_machine *)m, ctx, k, &s);
    bool owners = !product && choose_owners(ctx, k, &s);
    if (!product && !owners && inner)
        s.group = group_size(ctx, k);
    else if (!product && !owners && last >= 0)
        s.width = cuda_vector_width(ctx, k, last, IR_NEWN(ctx, k->noperands + 1, int));
    if (s.group > 1) {
        int along;
        s.how = CUDA_GROUPS;
        s.threads = s.group > s.threads ? s.group : s.threads;
        s.width = group_width(ctx, k, s.group, inner_points(ctx, k, &along));
    }
    if (s.width > 1 && s.group == 1)
        k->schedule.tile[s.vector = last] = s.width;
    else if (!product && !inner && last >= 0 && (s.along = transpose_dim(ctx, k, last)) >= 0) {
        s.how = CUDA_TRANSPOSE;
        s.threads = 256;
        s.vector = last;
        k->schedule.tile[last] = k->schedule.tile[s.along] = 32;
    }
    cuda_put_schedule(k, s);
    k->tiles = product ? cuda_product_tiles(ctx, k, &s) : owners ? cuda_owner_tiles(ctx, k, &s) : em_tile_count(ctx, k);
    k->combining = em_combine_count(ctx, k);
    k->scratch = em_local_scratch(ctx, k, 1);
}
