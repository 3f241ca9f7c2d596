/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.c - products of tiles through shared memory (contract_int.h says how): matrix products, batched ones, convolutions (rows are gathered
 * as they would be unfolded). Sums are in ascending order of k for FFMA; the order of mma.sync is the hardware's within 16.
 */
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef

/* -- Indexes ---------------------------------------------------------------------------------------------------- */

V ct_at(struct em *e, V base, V index, int bytes)
{
    V offset = LLVMBuildNSWMul(e->b, index, em_i64(e, bytes), "");
    return LLVMBuildInBoundsGEP2(e->b, e->t_i8, base, &offset, 1, "");
}

static V count_of(struct em *e, uint32_t dims)
{
    ir_expr n = ir_const(e->ctx, 1);
    for (int d = 0; d < e->k->ndims; d++)
        if (dims >> d & 1)
            n = ir_mul(e->ctx, n, e->k->dims[d].extent);
    return em_expr(e, n);
}

/* Binds the dims of a set by one index, the last fastest. */
static void bind_dims(struct em *e, uint32_t dims, V index)
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

static V below(struct em *e, V a, V b)
{
    return em_intrinsic(e, "llvm.smin", 1, &e->t_i64, 2, (V[]){a, LLVMBuildSub(e->b, b, em_i64(e, 1), "")});
}

/* -- Tiles on their way ------------------------------------------------------------------------------------------- */

static int last_dim(uint32_t dims)
{
    return 31 - __builtin_clz(dims);
}

/* Where slot j of this thread lies in the tile: row, and its place along k; both first ones of `width`. */
static void slot(struct ct *c, const struct ct_side *s, int j, V *row, V *k)
{
    struct em *e = c->e;
    V number = LLVMBuildAdd(e->b, c->f->thread, em_i64(e, (int64_t)j * CT_THREADS), "");
    V across = em_i64(e, (s->along_k ? c->bk : s->size) / s->width), width = em_i64(e, s->width);
    V fast = LLVMBuildMul(e->b, LLVMBuildURem(e->b, number, across, ""), width, ""),
      slow = LLVMBuildUDiv(e->b, number, across, "");
    *row = s->along_k ? slow : fast;
    *k = s->along_k ? fast : slow;
}

static int slots(const struct ct *c, const struct ct_side *s)
{
    int n = s->size * c->bk / s->width;
    return (n + CT_THREADS - 1) / CT_THREADS;
}

/* The factor of slot j from step k0 on; zero behind the sum's end. Rows behind the last one repeat it: they are not stored. */
static V fetch(struct ct *c, const struct ct_side *s, int j, V k0)
{
    struct em *e = c->e;
    V row, k;
    slot(c, s, j, &row, &k);
    k = LLVMBuildAdd(e->b, k0, k, "");
    V inside = LLVMBuildICmp(e->b, LLVMIntSLT, k, c->nk, "");
    row = LLVMBuildAdd(e->b, s->first, row, "");
    V most = s->along_k || s->width == 1 ? s->count : LLVMBuildSub(e->b, s->count, em_i64(e, s->width - 1), "");
    V most_k = s->along_k && s->width > 1 ? LLVMBuildSub(e->b, c->nk, em_i64(e, s->width - 1), "") : c->nk;
    bind_dims(e, s->dims, below(e, row, most));
    bind_dims(e, c->k, below(e, k, most_k));
    if (s->width > 1)
        em_set_lanes(e, e->k->dims[last_dim(s->along_k ? c->k : s->dims)].var, s->width, NULL);
    em_forget(e, 0, e->k->stages[0].last);
    em_insn_needed(e, s->value);
    V v = c->engine->element(c, s, em_splat(e, e->value[s->value], s->width));
    em_set_lanes(e, NULL, 1, NULL);
    return LLVMBuildSelect(e->b, inside, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

static V place(struct ct *c, const struct ct_side *s, V buffer, V row, V k)
{
    struct em *e = c->e;
    V index = LLVMBuildMul(e->b, s->k_rows ? k : row, em_i64(e, s->pitch), "");
    index = LLVMBuildAdd(e->b, index, c->engine->fast(c, s, row, k), "");
    V base = ct_at(e, c->pool, em_i64(e, s->at), 1);
    base = ct_at(e, base, LLVMBuildMul(e->b, buffer, em_i64(e, s->bytes), ""), 1);
    return ct_at(e, base, index, c->engine->bytes);
}

static void keep_slot(struct ct *c, const struct ct_side *s, int j, V buffer, V v)
{
    struct em *e = c->e;
    V row, k;
    slot(c, s, j, &row, &k);
    if (s->width == 1 || s->along_k != s->k_rows) {
        V at = place(c, s, buffer, row, k);
        LLVMSetAlignment(LLVMBuildStore(e->b, v, at),
                         (unsigned)(c->engine->bytes * s->width > 16 ? 16 : c->engine->bytes * s->width));
        return;
    }
    for (int i = 0; i < s->width; i++) { /* turned */
        V step = em_i64(e, i);
        V at = place(c, s, buffer, s->along_k ? row : LLVMBuildAdd(e->b, row, step, ""),
                     s->along_k ? LLVMBuildAdd(e->b, k, step, "") : k);
        LLVMBuildStore(e->b, LLVMBuildExtractElement(e->b, v, step, ""), at);
    }
}

static void keep(struct ct *c, const struct ct_side *s, int j, V buffer, V v)
{
    struct em *e = c->e;
    struct em_if own;
    int n = s->size * c->bk / s->width;
    if (n >= CT_THREADS) {
        keep_slot(c, s, j, buffer, v);
        return;
    }
    em_if_begin(e, &own, LLVMBuildICmp(e->b, LLVMIntSLT, c->f->thread, em_i64(e, n), ""));
    keep_slot(c, s, j, buffer, v);
    em_if_end(e, &own);
}

static void fetch_tiles(struct ct *c, V k0, V *values)
{
    int n = 0;
    for (int j = 0; j < slots(c, &c->rows); j++)
        values[n++] = fetch(c, &c->rows, j, k0);
    for (int j = 0; j < slots(c, &c->cols); j++)
        values[n++] = fetch(c, &c->cols, j, k0);
}

static void keep_tiles(struct ct *c, V buffer, const V *values)
{
    int n = 0;
    for (int j = 0; j < slots(c, &c->rows); j++)
        keep(c, &c->rows, j, buffer, values[n++]);
    for (int j = 0; j < slots(c, &c->cols); j++)
        keep(c, &c->cols, j, buffer, values[n++]);
}

/* -- A tile of results -------------------------------------------------------------------------------------------- */

static void sum(struct ct *c)
{
    struct em *e = c->e;
    V values[64];
    struct em_loop l;
    V zero = em_i64(e, 0), step = em_i64(e, c->bk);
    struct em_if some; /* a sum of no terms has none to fetch */
    em_if_begin(e, &some, LLVMBuildICmp(e->b, LLVMIntSGT, c->nk, zero, ""));
    fetch_tiles(c, zero, values);
    keep_tiles(c, zero, values);
    em_if_end(e, &some);
    cuda_barrier(e);
    em_loop_begin(e, &l, zero, c->nk, step, "k");
    for (int i = 0; i < c->nacc; i++)
        c->acc[i] = em_loop_carry(e, &l, LLVMConstNull(e->t_f32));
    V buffer = LLVMBuildAnd(e->b, LLVMBuildUDiv(e->b, l.iv, step, ""), em_i64(e, 1), "buffer");
    fetch_tiles(c, LLVMBuildAdd(e->b, l.iv, step, ""), values);
    c->engine->multiply(c, buffer);
    keep_tiles(c, LLVMBuildXor(e->b, buffer, em_i64(e, 1), ""), values);
    cuda_barrier(e);
    for (int i = 0; i < c->nacc; i++)
        em_loop_next(&l, i, c->acc[i]);
    em_loop_end(e, &l);
    for (int i = 0; i < c->nacc; i++)
        c->acc[i] = l.phi[i];
}

/* The kernel's other stages at one result. */
static void epilogue(struct ct *c, V row, V col, V value)
{
    struct em *e = c->e;
    struct em_if inside;
    V ok = LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, row, c->rows.count, ""),
                        LLVMBuildICmp(e->b, LLVMIntSLT, col, c->cols.count, ""), "");
    em_if_begin(e, &inside, ok);
    bind_dims(e, c->rows.dims, row);
    bind_dims(e, c->cols.dims, col);
    em_forget(e, 0, e->k->ninsns);
    e->value[e->k->contraction.reduce] = value;
    for (int s = 1; s < e->k->nstages; s++)
        for (int i = e->k->stages[s].first; i < e->k->stages[s].last; i++)
            em_insn(e, i);
    em_if_end(e, &inside);
}

static void results(struct ct *c)
{
    struct em *e = c->e;
    struct em_loop l;
    V width = em_i64(e, c->cols.size);
    for (int s = 0; s < c->strips; s++) {
        c->engine->put(c, s, c->pool);
        cuda_barrier(e);
        em_loop_begin(e, &l, c->f->thread, em_i64(e, (int64_t)c->strip * c->cols.size), em_i64(e, CT_THREADS), "r");
        V r = LLVMBuildUDiv(e->b, l.iv, width, ""), n = LLVMBuildURem(e->b, l.iv, width, "");
        V at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, r, em_i64(e, c->pitch), ""), n, "");
        V value = LLVMBuildLoad2(e->b, e->t_f32, ct_at(e, c->pool, at, 4), "");
        epilogue(c, LLVMBuildAdd(e->b, c->rows.first, c->engine->row(c, s, r), ""),
                 LLVMBuildAdd(e->b, c->cols.first, n, ""), value);
        em_loop_end(e, &l);
        cuda_barrier(e);
    }
}

static V tiles_of(struct em *e, const struct ct_side *s)
{
    return LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, s->count, em_i64(e, s->size - 1), ""), em_i64(e, s->size), "");
}

/* Tiles of neighbouring blocks share rows. */
static void each_tile(struct ct *c)
{
    struct em *e = c->e;
    struct em_loop l;
    em_loop_begin(e, &l, e->first, e->last, e->tile_step, "tile");
    V across = tiles_of(e, &c->cols), down = tiles_of(e, &c->rows);
    V rest = LLVMBuildUDiv(e->b, l.iv, across, "");
    c->cols.first = LLVMBuildMul(e->b, LLVMBuildURem(e->b, l.iv, across, ""), em_i64(e, c->cols.size), "col");
    c->rows.first = LLVMBuildMul(e->b, LLVMBuildURem(e->b, rest, down, ""), em_i64(e, c->rows.size), "row");
    bind_dims(e, c->batch, LLVMBuildUDiv(e->b, rest, down, ""));
    sum(c);
    results(c);
    em_loop_end(e, &l);
}

/* -- The kernel ----------------------------------------------------------------------------------------------------- */

static void make_side(struct ct *c, struct ct_side *s, uint32_t dims, const struct ct_shape *shape, int which, int size)
{
    struct em *e = c->e;
    *s = (struct ct_side){.dims = dims,
                          .value = shape->value[which],
                          .load = shape->load[which],
                          .size = size,
                          .along_k = shape->along_k[which],
                          .width = shape->width[which],
                          .count = count_of(e, dims)};
    c->engine->layout(s, c->bk);
    s->bytes = (int64_t)(s->k_rows ? c->bk : size) * s->pitch * c->engine->bytes;
}

/* All of it, where `wide` says that vectors lie at multiples of their bytes. */
static void emit(struct ct *c, struct ct_shape shape, bool wide)
{
    struct em *e = c->e;
    const struct kn_contraction *k = &e->k->contraction;
    int *align = IR_NEWN(e->ctx, e->k->noperands + 1, int), row = shape.swap;
    for (int i = 0; i < 2; i++)
        if (!wide)
            shape.width[i] = 1;
        else if (shape.width[i] > 1)
            align[e->k->insns[shape.load[i]].operand] =
                shape.width[i] * tcc_dtype_bytes((enum tcc_dtype)e->k->insns[shape.load[i]].dtype);
    make_side(c, &c->rows, row ? k->n : k->m, &shape, row, c->f->s.bm);
    make_side(c, &c->cols, row ? k->m : k->n, &shape, !row, c->f->s.bn);
    c->rows.at = 0;
    c->cols.at = 2 * c->rows.bytes;
    e->align = align;
    e->aligned = true;
    each_tile(c);
    e->align = NULL;
}

static V begin_aligned(struct ct *c, const struct ct_shape *shape)
{
    struct em *e = c->e;
    V any = em_i64(e, 0);
    for (int i = 0; i < 2; i++)
        if (shape->width[i] > 1)
            any = LLVMBuildOr(e->b, any,
                              LLVMBuildPtrToInt(e->b, e->base[e->k->insns[shape->load[i]].operand], e->t_i64, ""), "");
    return LLVMBuildICmp(e->b, LLVMIntEQ, LLVMBuildAnd(e->b, any, em_i64(e, 15), ""), em_i64(e, 0), "aligned");
}

void cuda_emit_contract(struct cuda_fn *f)
{
    struct em *e = f->e;
    struct ct c = {.f = f, .e = e, .k = e->k->contraction.k, .batch = e->k->contraction.batch};
    struct ct_shape shape;
    struct em_if wide;
    ct_shape_of(e->ctx, e->k, &shape);
    /* --exact: one rounding an operation, in order. */
    c.engine = f->s.how == CUDA_MMA && !e->exact ? &ct_mma : &ct_ffma;
    c.bk = c.engine == &ct_mma ? f->s.bk : 8;
    c.nk = count_of(e, c.k);
    c.strips = c.engine == &ct_mma ? f->s.bm / 32 : f->s.bm / 16;
    c.strip = c.engine == &ct_mma ? 32 : 16;
    c.pitch = f->s.bn + 8;
    c.nacc = f->s.bm * f->s.bn / CT_THREADS;
    c.pool = cuda_shared(e, ir_internf(e->ctx, "%s_pool", f->name), cuda_contract_shared(&f->s), 16);
    if (shape.width[0] == 1 && shape.width[1] == 1) {
        emit(&c, shape, false);
        return;
    }
    V aligned = begin_aligned(&c, &shape);
    em_if_begin(e, &wide, aligned);
    emit(&c, shape, true);
    em_if_end(e, &wide);
    em_if_begin(e, &wide, LLVMBuildNot(e->b, aligned, ""));
    emit(&c, shape, false);
    em_if_end(e, &wide);
}
