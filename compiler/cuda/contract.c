/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.c - products of tiles through shared memory (contract_int.h says how): matrix products, batched ones,
 * convolutions (rows are gathered as they would be unfolded). Sums are in ascending order of k for FFMA; the order of
 * mma.sync is the hardware's within 16.
 */
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef

/* -- Indexes ---------------------------------------------------------------------------------------------------- */

V ct_at(struct em *e, V base, V index, int bytes)
{
    V offset = LLVMBuildNSWMul(e->b, index, em_i64(e, bytes), "");
    return LLVMBuildInBoundsGEP2(e->b, e->t_i8, base, &offset, 1, "");
}

/* points of a set of dims, i64 */
static V ct_count(struct em *e, uint32_t dims)
{
    ir_expr n = ir_const(e->ctx, 1);
    for (int d = 0; d < e->k->ndims; d++)
        if (dims >> d & 1)
            n = ir_mul(e->ctx, n, e->k->dims[d].extent);
    return em_expr(e, n);
}

void ct_bind(struct em *e, uint32_t dims, V index)
{
    int64_t total = 1, n = 0;
    for (int d = 0; d < e->k->ndims && total; d++)
        if (dims >> d & 1)
            total = ir_is_const(e->k->dims[d].extent, &n) && n < (1 << 30) && total * n < (1 << 30) ? total * n : 0;
    LLVMTypeRef t = total ? e->t_i32 : e->t_i64;
    V rest = total ? LLVMBuildTrunc(e->b, index, t, "") : index;
    for (int d = e->k->ndims - 1; d >= 0; d--) {
        if (!(dims >> d & 1))
            continue;
        V v = rest, extent = em_extent(e, d);
        if (dims & ((1u << d) - 1)) {
            extent = total ? LLVMBuildTrunc(e->b, extent, t, "") : extent;
            v = LLVMBuildURem(e->b, rest, extent, "");
            rest = LLVMBuildUDiv(e->b, rest, extent, "");
        }
        em_bind(e, e->k->dims[d].var, total ? LLVMBuildZExt(e->b, v, e->t_i64, "") : v);
    }
}

/* Of the threads that multiply. */
void ct_barrier(struct ct *c)
{
    if (c->f->s.threads == CT_THREADS)
        cuda_barrier(c->e);
    else
        cuda_asm(c->e, c->e->t_void, "bar.sync 1, 256;", "~{memory}", 0, NULL);
}

/* -- Tiles ------------------------------------------------------------------------------------------------------- */

static V tiles_of(struct em *e, const struct ct_side *s)
{
    return LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, s->count, em_i64(e, s->size - 1), ""), em_i64(e, s->size), "");
}

/* The terms of piece number `piece` (i64), whole steps of them, and where its sums of that batch go. --exact: the first
 * piece has all terms. */
static void begin_piece(struct ct *c, V piece, V batch)
{
    struct em *e = c->e;
    V each = c->nk;
    if (c->engine->whole || !e->exact) {
        V whole = em_i64(e, (int64_t)c->pieces * c->bk);
        each =
            LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, c->nk, LLVMBuildSub(e->b, whole, em_i64(e, 1), ""), ""), whole, "");
        each = LLVMBuildMul(e->b, each, em_i64(e, c->bk), "");
    }
    c->first = LLVMBuildMul(e->b, piece, each, "");
    V end = LLVMBuildAdd(e->b, c->first, each, "");
    c->last = em_least(e, end, c->nk);
    V number = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, piece, ct_count(e, c->batch), ""), batch, "");
    V results = LLVMBuildMul(e->b, c->rows.count, c->cols.count, "");
    c->partial = ct_at(e, e->scratch, LLVMBuildMul(e->b, number, results, ""), 4);
}

/* Where tile number `number` lies: ROWS_TOGETHER rows of tiles are run column by column, so that the tiles that run at
 * a time share rows and columns in the level-2 cache. The blocks of a cluster have neighbouring columns of one row:
 * where columns end in the first one's, the second has none. */
static V place_tile(struct ct *c, V number)
{
    enum { ROWS_TOGETHER = 8 };
    struct em *e = c->e;
    V cluster = em_i64(e, c->f->s.cluster), together = em_i64(e, ROWS_TOGETHER);
    V down = tiles_of(e, &c->rows), across = tiles_of(e, &c->cols);
    across = LLVMBuildAdd(e->b, across, em_i64(e, c->f->s.cluster - 1), "");
    across = LLVMBuildUDiv(e->b, across, cluster, "");
    V all = LLVMBuildMul(e->b, LLVMBuildMul(e->b, across, cluster, ""), down, "");
    V batch = LLVMBuildUDiv(e->b, number, all, "batch"), rest = LLVMBuildURem(e->b, number, all, "");
    V half = LLVMBuildURem(e->b, rest, cluster, ""), at = LLVMBuildUDiv(e->b, rest, cluster, "");
    V band = LLVMBuildMul(e->b, across, together, ""), top = LLVMBuildUDiv(e->b, at, band, "");
    top = LLVMBuildMul(e->b, top, together, "");
    at = LLVMBuildURem(e->b, at, band, "");
    V height = em_least(e, LLVMBuildSub(e->b, down, top, ""), together);
    V row = LLVMBuildAdd(e->b, top, LLVMBuildURem(e->b, at, height, ""), "");
    V col = LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, at, height, ""), cluster, "");
    col = LLVMBuildAdd(e->b, col, half, "");
    c->cols.first = LLVMBuildMul(e->b, col, em_i64(e, c->cols.size), "col");
    c->rows.first = LLVMBuildMul(e->b, row, em_i64(e, c->rows.size), "row");
    return batch;
}

static void each_tile(struct ct *c)
{
    static void (*const sum[])(struct ct *) = {
        [CT_BOTH] = ct_sum, [CT_MULTIPLIES] = ct_sum_sent, [CT_SENDS] = ct_send_all};
    struct em *e = c->e;
    struct em_loop l;
    /* Its own number: other images of the artifact may have other tiles. */
    V all = em_expr(e, cuda_product_tiles(e->ctx, e->k, &c->f->s));
    em_loop_begin(e, &l, em_range(e, e->first, all), e->tile_step, "tile");
    if (c->role != CT_BOTH)
        c->turn = em_loop_carry(e, &l, em_i64(e, 0));
    V batch = place_tile(c, l.iv);
    c->first = em_i64(e, 0);
    c->last = c->nk;
    if (c->pieces > 1) {
        V batches = ct_count(e, c->batch), piece = LLVMBuildUDiv(e->b, batch, batches, "piece");
        batch = LLVMBuildURem(e->b, batch, batches, "");
        begin_piece(c, piece, batch);
    }
    ct_bind(e, c->batch, batch);
    sum[c->role](c);
    if (c->role != CT_SENDS)
        ct_results(c);
    if (c->role != CT_BOTH)
        em_loop_next(&l, 0, ct_next_tile(c));
    em_loop_end(e, &l);
}

/* -- The kernel ---------------------------------------------------------------------------------------------------- */

static void make_side(struct ct *c, struct ct_side *s, uint32_t dims, const struct ct_shape *shape, int which, int size)
{
    struct em *e = c->e;
    *s = (struct ct_side){.dims = dims,
                          .value = shape->value[which],
                          .load = shape->load[which],
                          .type = shape->type[which],
                          .size = size,
                          .along_k = shape->along_k[which],
                          .width = shape->width[which],
                          .count = ct_count(e, dims)};
    c->engine->layout(s, c->bk);
    s->copied = c->role == CT_BOTH && ct_may_copy(c, s);
    if (c->role != CT_BOTH)
        ct_map_of(e->ctx, e->k, shape, which, ct_share(&c->f->s, s == &c->rows), &s->map);
    s->bytes = (int64_t)(s->k_rows ? c->bk : size) * s->pitch * c->engine->bytes;
}

struct body {
    struct ct *c;
    struct ct_shape shape;
};

static void emit_tiles(struct ct *c, struct ct_shape shape, bool wide)
{
    const struct kn_contraction *k = &c->e->k->roles.contraction;
    int row = shape.swap;
    for (int i = 0; i < 2; i++)
        shape.width[i] = wide ? shape.width[i] : 1;
    c->together = wide || c->pieces > 1 ? c->most_together : 1;
    make_side(c, &c->rows, row ? k->n : k->m, &shape, row, c->f->s.bm);
    make_side(c, &c->cols, row ? k->m : k->n, &shape, !row, c->f->s.bn);
    c->rows.at = 0;
    c->cols.at = c->f->s.stages * c->rows.bytes;
    c->e->aligned = true;
    each_tile(c);
}

/* All of it, where `wide` says that vectors lie at multiples of their bytes. */
static void emit(void *user, bool wide)
{
    const struct body *body = user;
    emit_tiles(body->c, body->shape, wide);
}

/* Two warpgroups multiply, of the third a warp sends for what they do; where the runtime has no maps they do without.
 * --exact has another engine. */
static void emit_sent(struct ct *c, const struct ct_shape *shape, const int *align)
{
    struct em *e = c->e;
    struct em_if mapped, sends;
    LLVMBasicBlockRef sent = em_block(e, "sent"), other = em_block(e, "other"), own = em_block(e, "own"),
                      send = em_block(e, "send"), done = em_block(e, "done");
    V has = LLVMBuildICmp(e->b, LLVMIntNE, c->f->mapped, em_i64(e, 0), ""), aligned = cuda_aligned(c->f, align);
    bool tensor = c->engine->async_proxy;
    has = aligned ? LLVMBuildAnd(e->b, has, aligned, "") : has;
    if (!tensor)
        has = LLVMConstNull(LLVMTypeOf(has));
    c->rank = c->f->s.cluster > 1 ? cuda_sreg(e, "cluster.ctarank") : NULL;
    em_if_begin(e, &mapped, has);
    ct_begin_copies(c);
    em_if_end(e, &mapped);
    V multiplies = LLVMBuildICmp(e->b, LLVMIntSLT, c->f->thread, em_i64(e, CT_THREADS), "");
    LLVMBuildCondBr(e->b, multiplies, own, send);
    LLVMPositionBuilderAtEnd(e->b, own);
    cuda_set_registers(e, true, CUDA_MULTIPLYING_REGISTERS);
    LLVMBuildCondBr(e->b, has, sent, other);
    LLVMPositionBuilderAtEnd(e->b, sent);
    c->role = CT_MULTIPLIES;
    e->align = align;
    if (tensor)
        emit_tiles(c, *shape, true);
    e->align = NULL;
    c->role = CT_BOTH;
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, other);
    cuda_twice(c->f, align, emit, &(struct body){c, *shape});
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, send);
    cuda_set_registers(e, false, CUDA_SENDING_REGISTERS);
    c->role = CT_SENDS;
    V first = LLVMBuildICmp(e->b, LLVMIntSLT, c->f->thread, em_i64(e, CT_THREADS + 32), "");
    em_if_begin(e, &sends, LLVMBuildAnd(e->b, has, first, ""));
    if (tensor)
        emit_tiles(c, *shape, true);
    em_if_end(e, &sends);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
    ct_end_copies(c, has);
}

static struct ct begin_contract(struct cuda_fn *f, struct ct_shape *shape)
{
    struct em *e = f->e;
    struct ct c = {
        .f = f, .e = e, .k = e->k->roles.contraction.k, .batch = e->k->roles.contraction.batch, .pieces = f->s.split};
    struct cuda_schedule by = f->s;
    by.fp8 = by.fp8 && !e->exact; /* multiply-adds take floats */
    ct_shape_by(e->ctx, e->k, &by, shape);
    c.nk = ct_count(e, c.k);
    return c;
}

/* --exact: one rounding an operation, in order. Whole numbers are exact in any. */
static const struct ct_engine *engine_of(const struct cuda_fn *f, const struct ct_shape *s)
{
    if (s->whole)
        return &ct_mma_bytes;
    if (f->e->exact || f->s.how == CUDA_CONTRACT)
        return &ct_ffma;
    if (f->s.how == CUDA_WGMMA)
        return s->bytes == 1 ? &ct_wgmma_fp8 : &ct_wgmma;
    return s->bytes == 1 ? &ct_mma_fp8 : s->bytes == 2 ? &ct_mma : &ct_mma_tf32;
}

LLVMTypeRef ct_sum_type(const struct ct *c)
{
    return c->engine->whole ? c->e->t_i32 : c->e->t_f32;
}

/* Results that a thread stores at once, at most. Pieces' sums are stored by their columns alone. */
static void find_together(struct ct *c, const struct ct_shape *shape, int *align)
{
    const struct kn_contraction *k = &c->e->k->roles.contraction;
    uint32_t columns = shape->swap ? k->m : k->n;
    int64_t last = ir_const_or(c->e->k->dims[ct_last_dim(c->e->k, columns)].extent, 1);
    if (c->pieces > 1)
        c->most_together = last % CT_TOGETHER ? 1 : CT_TOGETHER;
    else
        c->most_together = ct_together(c->e->ctx, c->e->k, columns, align);
}

void cuda_emit_contract(struct cuda_fn *f)
{
    struct em *e = f->e;
    struct ct_shape shape;
    struct ct c = begin_contract(f, &shape);
    c.engine = engine_of(f, &shape);
    c.bk = c.engine == &ct_ffma ? 8 : f->s.bk;
    c.strip = c.engine->strip ? c.engine->strip : f->s.bm;
    c.strips = f->s.bm / c.strip;
    c.pitch = f->s.bn + 8;
    c.nacc = f->s.bm * f->s.bn / CT_THREADS;
    c.own = cuda_has_maps(&f->s) ? cuda_ring_bytes(&f->s, shape.bytes) : 0;
    c.pool = cuda_dynamic_shared(e->ctx, e->k, &f->s)
                 ? cuda_launch_shared(e)
                 : cuda_shared(e, ir_internf(e->ctx, "%s_pool", f->name), cuda_contract_shared(&f->s, shape.bytes),
                               c.engine->async_proxy ? 1024 : 16);
    int *align = IR_NEWN(e->ctx, e->k->noperands + 1, int);
    for (int i = 0; i < 2; i++) {
        const struct kn_insn *load = &e->k->insns[shape.load[i]];
        if (shape.width[i] > 1)
            align[load->operand] = shape.width[i] * tcc_dtype_bytes((enum tcc_dtype)load->dtype);
    }
    find_together(&c, &shape, align);
    if (cuda_has_maps(&f->s)) {
        c.barriers = c.own + ct_own_bytes();
        emit_sent(&c, &shape, align);
    } else {
        cuda_twice(f, align, emit, &(struct body){&c, shape});
    }
}

/* A thread has a result, or neighbours of a row: their pieces in order. */
static void add_pieces(void *user, bool wide)
{
    struct ct *c = ((struct body *)user)->c;
    struct em *e = c->e;
    struct em_loop l;
    c->together = wide ? c->most_together : 1;
    V each = em_i64(e, c->together), results = LLVMBuildMul(e->b, c->rows.count, c->cols.count, ""),
      all = LLVMBuildMul(e->b, results, ct_count(e, c->batch), ""), threads = em_i64(e, c->f->s.threads);
    V first = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, c->f->block, threads, ""), c->f->thread, "");
    LLVMValueRef step = LLVMBuildMul(e->b, c->f->blocks, LLVMBuildMul(e->b, threads, each, ""), "");
    em_loop_begin(e, &l, em_range(e, LLVMBuildMul(e->b, first, each, ""), all), step, "result");
    V sum = ct_add_pieces(c, all, l.iv, ((struct body *)user)->shape.whole);
    V rest = LLVMBuildUDiv(e->b, l.iv, c->cols.count, "");
    ct_bind(e, c->batch, LLVMBuildUDiv(e->b, rest, c->rows.count, ""));
    LLVMValueRef col = LLVMBuildURem(e->b, l.iv, c->cols.count, "");
    ct_epilogue(c, LLVMBuildURem(e->b, rest, c->rows.count, ""), col, sum);
    em_loop_end(e, &l);
}

void cuda_emit_contract_sum(struct cuda_fn *f)
{
    struct em *e = f->e;
    struct ct_shape shape;
    struct ct c = begin_contract(f, &shape);
    const struct kn_contraction *k = &e->k->roles.contraction;
    int *align = IR_NEWN(e->ctx, e->k->noperands + 1, int);
    c.rows = (struct ct_side){.dims = shape.swap ? k->n : k->m};
    c.cols = (struct ct_side){.dims = shape.swap ? k->m : k->n};
    c.rows.count = ct_count(e, c.rows.dims);
    c.cols.count = ct_count(e, c.cols.dims);
    c.most_together = ct_together(e->ctx, e->k, c.cols.dims, align);
    e->aligned = true;
    cuda_twice(f, align, add_pieces, &(struct body){&c, shape});
}
