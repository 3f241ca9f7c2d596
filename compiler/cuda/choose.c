/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.c - which template takes a kernel: a function of its structure and sizes alone.
 *
 *   attention                                  attention, where rows are no wider than shared memory allows
 *   a sum of products of two loads             wgmma, mma, contract: tiles of results, sized by the waves that blocks
 *                                              make on the machine (choose_product.c)
 *   a scatter of many points by their indices  owners
 *   no inner dims, loads along another dim     transpose
 *   no inner dims                              loops, by vectors of 16 bytes where all accesses are consecutive or
 *                                              uniform
 *   inner points, consecutive along the last   group: a warp, or a block where outer points are few and inner ones many
 *   else                                       loops: neighbouring threads run neighbouring outer points
 */
#include "compiler/cuda/attention_int.h"
#include "compiler/cuda/contract_int.h"

enum {
    UNKNOWN = 1024,     /* guess for extents that depend on symbols */
    WARP_INNER = 32,    /* inner points from which on a warp shares them */
    BLOCK_INNER = 1024, /* and a block, */
    BLOCK_OUTER = 4096, /* where outer points are fewer than that */
    WARP_SORTED = 256,  /* a row of fewer elements is sorted by a warp */
    LEAST_KEYS = 128    /* of attention, in one */
};

/* -- Vectors -------------------------------------------------------------------------------------------------- */

/* Offset of an access with `width` consecutive points of v from a multiple of `width` on: 0: equal for all, 1:
 * consecutive, and *aligned: from a multiple of width elements; -1: neither. */
int cuda_access_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *n, int v, int width,
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
        int how = cuda_access_of(ctx, k, n, v, width, &aligned);
        if (k->operands[n->operand].use == KN_LOCAL || how < 0 || (n->code == KN_STORE && (how != 1 || !aligned)) ||
            (inner && how == 1 && !aligned))
            return false;
    }
    for (int narrow = 0; narrow < 2 && align; narrow++) /* what one load has narrow is that for all */
        for (int i = first; i < last; i++) {
            const struct kn_insn *n = &k->insns[i];
            if ((n->code == KN_LOAD || n->code == KN_STORE) && cuda_access_of(ctx, k, n, v, width, &aligned) == 1 &&
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

int64_t cuda_extent(const struct kn_kernel *k, int dim)
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
                n *= cuda_extent(k, d);
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
        outer *= cuda_extent(k, d);
    inner = inner_points(ctx, k, &along);
    if (kn_has(k, KN_BIT(KN_SORT)))
        return inner < WARP_SORTED ? 32 : 256;
    if (inner < WARP_INNER || (along <= 0 && (outer >= BLOCK_OUTER || inner < BLOCK_INNER)))
        return 1;
    return rows_group(k, inner, inner >= BLOCK_INNER && outer < BLOCK_OUTER ? 256 : 32);
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
        s.split = cuda_choose_split(tiles, keys, LEAST_KEYS);
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
        cuda_points(k, kn_main_stage(k)->inner) < FEW_POINTS)
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
    bool product = cuda_choose_product((const struct cuda_machine *)m, ctx, k, &s);
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
