/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma.c - tiles on their way from global to shared memory by tensor copies (PTX ISA, "cp.async.bulk.tensor"), which one
 * thread sends for and which bring their tile as wgmma takes it: in the 128-byte swizzle, zeros outside. Two warpgroups
 * multiply, one thread of a third sends and leaves its registers to them:
 *
 *     the thread that sends, for each step:   waits until the buffer is empty; expects the bytes of both tiles; sends
 *     for them
 *     those that multiply, for each step:     wait until it is full; multiply, while the step before is still under
 *     way; when that one is done, its buffer
 *                                             is empty. 8-bit floats: when this one is done, since its sums are added
 *                                             to the others
 *
 * The blocks of a cluster have the same rows and other columns: each sends for half of the rows, to both (multicast),
 * and for its own columns. A buffer is full when both halves and the columns have come; it is empty when both blocks
 * have multiplied it, since both are written to by either.
 *
 * Two mbarriers a buffer, `full` and `empty`, whose phases alternate: step number n, of all that the block runs, is in
 * buffer n modulo `stages`, and waits for the phase of parity n / stages. Results leave by places of their own
 * (results.c): meanwhile the next tile's first steps come.
 */
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef

enum { CONSUMER_WARPS = CT_THREADS / 32 };

/* -- mbarriers ----------------------------------------------------------------------------------------------------- */

/* Buffer i64 `buffer`'s barrier, as the 32-bit address that instructions take. */
static V barrier(struct ct *c, V buffer, bool empty)
{
    struct em *e = c->e;
    V index = LLVMBuildAdd(e->b, buffer, em_i64(e, empty ? c->f->s.stages : 0), "");
    return cuda_shared_address(e, ct_at(e, ct_at(e, c->pool, em_i64(e, c->barriers), 1), index, 8));
}

/* The buffer with that `empty` barrier has been multiplied: says so to all who write to it. */
static void release(struct ct *c, V at, V ok)
{
    for (int r = 0; r < c->f->s.cluster && c->rank; r++) {
        V args[] = {at, LLVMBuildZExt(c->e->b, ok, c->e->t_i32, "")};
        cuda_asm(c->e, c->e->t_void,
                 ir_internf(c->e->ctx,
                            "{\n.reg .pred ok;\n.reg .b32 there;\nsetp.ne.u32 ok, $1, 0;\n"
                            "mapa.shared::cluster.u32 there, $0, %d;\n"
                            "@ok mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}",
                            r),
                 "r,r,~{memory}", 2, args);
    }
    if (!c->rank)
        cuda_mbarrier_arrive(c->e, at, ok);
}

/* All threads of the cluster. */
static void cluster_barrier(struct em *e)
{
    cuda_asm(e, e->t_void, "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;",
             "~{memory}", 0, NULL);
}

void ct_begin_copies(struct ct *c)
{
    struct em *e = c->e;
    struct em_if one;
    em_if_begin(e, &one, LLVMBuildICmp(e->b, LLVMIntEQ, c->f->thread, em_i64(e, 0), ""));
    for (int i = 0; i < 2 * c->f->s.stages; i++) {
        bool empty = i >= c->f->s.stages;
        cuda_mbarrier_init(e, barrier(c, em_i64(e, i % c->f->s.stages), empty),
                           empty ? CONSUMER_WARPS * c->f->s.cluster : 1);
    }
    cuda_asm(e, e->t_void, "fence.proxy.async.shared::cta;", "~{memory}", 0, NULL); /* copies will arrive there */
    if (c->rank) /* and arrivals of the other block */
        cuda_asm(e, e->t_void, "fence.mbarrier_init.release.cluster;", "~{memory}", 0, NULL);
    em_if_end(e, &one);
    if (c->rank)
        cluster_barrier(e);
    else
        cuda_barrier(e);
}

/* -- Steps --------------------------------------------------------------------------------------------------------- */

/* Buffer (i64) and parity (i32) of a step, and those of the next one. */
struct turn {
    V buffer, parity;
};

static struct turn turn_of(struct ct *c)
{
    struct em *e = c->e;
    V stages = em_i64(e, c->f->s.stages);
    V round = LLVMBuildUDiv(e->b, c->turn, stages, "");
    return (struct turn){LLVMBuildURem(e->b, c->turn, stages, ""),
                         LLVMBuildTrunc(e->b, LLVMBuildAnd(e->b, round, em_i64(e, 1), ""), e->t_i32, "")};
}

static struct turn next_turn(struct ct *c, struct turn t)
{
    struct em *e = c->e;
    V next = LLVMBuildAdd(e->b, t.buffer, em_i64(e, 1), "");
    V wraps = LLVMBuildICmp(e->b, LLVMIntEQ, next, em_i64(e, c->f->s.stages), "");
    V other = LLVMBuildXor(e->b, t.parity, LLVMBuildZExt(e->b, wraps, e->t_i32, ""), "");
    return (struct turn){LLVMBuildSelect(e->b, wraps, em_i64(e, 0), next, ""), other};
}

/* i64: how many steps this tile of results has. A piece behind the last term has one, of zeros: ptxas serialises
 * products that a branch may pass by. */
static V steps_of(struct ct *c)
{
    struct em *e = c->e;
    V terms = LLVMBuildSub(e->b, c->last, c->first, ""), step = em_i64(e, c->bk);
    terms = em_most(e, terms, em_i64(e, 1));
    return LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, terms, em_i64(e, c->bk - 1), ""), step, "");
}

/* -- Sending ------------------------------------------------------------------------------------------------------- */

/* Do both blocks of the cluster have that side, half of which each sends for? */
static bool shared(const struct ct *c, const struct ct_side *s)
{
    return c->rank && s == &c->rows;
}

/* Where this block's half begins, in units of `each` a row. */
static V own_share(struct ct *c, const struct ct_side *s, int each)
{
    return LLVMBuildMul(c->e->b, c->rank, em_i64(c->e, (int64_t)s->size / c->f->s.cluster * each), "");
}

/* The tile of a side that is read by windows: 64 channels of a tap, from the tile's first position on. Positions are in
 * order, so one copy brings them all. */
static void send_windows(struct ct *c, const struct ct_side *s, V buffer, V full, V k0)
{
    struct em *e = c->e;
    const struct ct_map *m = &s->map;
    int rank = m->map.rank, n = 0;
    bool all = shared(c, s);
    V args[4 + 2 * TCC_MAP_RANK];
    ct_bind(e, s->dims, all ? LLVMBuildAdd(e->b, s->first, own_share(c, s, 1), "") : s->first);
    ct_bind(e, c->k, k0);
    V index = all ? own_share(c, s, CT_ROW) : em_i64(e, 0);
    args[n++] = cuda_shared_address(e, ct_at(e, ct_buffer(c, s, buffer), index, 1));
    args[n++] = full;
    args[n++] = c->f->maps[s == &c->cols];
    for (int d = 0; d < rank; d++) {
        int of = d ? m->batch[d] : m->tap[d];
        bool space = d > 0 && d < rank - 1;
        V at = of < 0 ? em_i64(e, 0) : em_expr(e, e->k->dims[of].var);
        if (space) {
            at = LLVMBuildMul(e->b, at, em_i64(e, m->map.step[d]), "");
            at = LLVMBuildAdd(e->b, at, em_i64(e, m->map.lower[d - 1]), "");
        }
        args[n++] = LLVMBuildTrunc(e->b, at, e->t_i32, "");
    }
    for (int d = 1; d < rank - 1; d++) {
        V tap = m->tap[d] < 0 ? em_i64(e, 0) : em_expr(e, e->k->dims[m->tap[d]].var);
        tap = LLVMBuildMul(e->b, tap, em_i64(e, m->dilation[d]), "");
        args[n++] = LLVMBuildTrunc(e->b, tap, e->t_i16, "");
    }
    cuda_send_box(e, rank, rank - 2, all ? c->f->s.cluster : 1, args);
}

/* A side's tile from term k0 on, of as many boxes as it has rows of the pattern along what is consecutive. */
static void send_side(struct ct *c, const struct ct_side *s, V buffer, V full, V k0)
{
    struct em *e = c->e;
    if (s->map.map.windows) {
        send_windows(c, s, buffer, full, k0);
        return;
    }
    int row = CT_ROW / c->engine->bytes, boxes = s->k_rows ? s->size / row : 1, bytes = s->k_rows ? c->bk * CT_ROW : 0;
    bool all = shared(c, s);
    if (all && s->k_rows)
        boxes /= c->f->s.cluster;
    for (int i = 0; i < boxes; i++) {
        V at[TCC_MAP_RANK], args[4 + TCC_MAP_RANK];
        V own = LLVMBuildAdd(e->b, s->first, em_i64(e, (int64_t)i * row), ""), to = em_i64(e, (int64_t)i * bytes);
        if (all) {
            own = LLVMBuildAdd(e->b, own, own_share(c, s, 1), "");
            to = LLVMBuildAdd(e->b, to, own_share(c, s, s->k_rows ? bytes / row : CT_ROW), "");
        }
        at[0] = s->k_rows ? own : k0;
        at[1] = s->k_rows ? k0 : own;
        for (int d = 2; d < s->map.map.rank; d++)
            at[d] = em_expr(e, e->k->dims[s->map.batch[d]].var);
        args[0] = cuda_shared_address(e, ct_at(e, ct_buffer(c, s, buffer), to, 1));
        args[1] = full;
        args[2] = c->f->maps[s == &c->cols];
        for (int d = 0; d < s->map.map.rank; d++)
            args[3 + d] = LLVMBuildTrunc(e->b, at[d], e->t_i32, "");
        cuda_send_box(e, s->map.map.rank, 0, all ? c->f->s.cluster : 1, args);
    }
}

void ct_send_all(struct ct *c)
{
    struct em *e = c->e;
    struct em_loop l;
    struct em_if one;
    em_if_begin(e, &one, LLVMBuildICmp(e->b, LLVMIntEQ, c->f->thread, em_i64(e, CT_THREADS), ""));
    struct turn t = turn_of(c);
    V flip = LLVMConstInt(e->t_i32, 1, 0);
    em_loop_begin(e, &l, em_below(e, steps_of(c)), em_i64(e, 1), "sent");
    t.buffer = em_loop_carry(e, &l, t.buffer);
    t.parity = em_loop_carry(e, &l, t.parity);
    V full = barrier(c, t.buffer, false);
    LLVMValueRef right = LLVMBuildXor(e->b, t.parity, flip, "");
    cuda_mbarrier_wait(c->e, barrier(c, t.buffer, true), right);
    cuda_mbarrier_expect(e, full, c->rows.bytes + c->cols.bytes);
    V k0 = LLVMBuildAdd(e->b, c->first, LLVMBuildMul(e->b, l.iv, em_i64(e, c->bk), ""), "");
    send_side(c, &c->rows, t.buffer, full, k0);
    send_side(c, &c->cols, t.buffer, full, k0);
    t = next_turn(c, t);
    em_loop_next(&l, 0, t.buffer);
    em_loop_next(&l, 1, t.parity);
    em_loop_end(e, &l);
    em_if_end(e, &one);
}

/* -- Multiplying --------------------------------------------------------------------------------------------------- */

void ct_sum_sent(struct ct *c)
{
    struct em *e = c->e;
    struct em_loop l;
    struct turn t = turn_of(c);
    bool stays = c->engine->finish != NULL;
    V zero = em_i64(e, 0), lane = LLVMBuildURem(e->b, c->f->thread, em_i64(e, 32), "");
    V signals = LLVMBuildICmp(e->b, LLVMIntEQ, lane, zero, "");
    em_loop_begin(e, &l, em_below(e, steps_of(c)), em_i64(e, 1), "k");
    for (int i = 0; i < c->nacc; i++)
        c->acc[i] = em_loop_carry(e, &l, LLVMConstNull(e->t_f32));
    V before = em_loop_carry(e, &l, t.buffer);
    t.buffer = em_loop_carry(e, &l, t.buffer);
    t.parity = em_loop_carry(e, &l, t.parity);
    cuda_mbarrier_wait(c->e, barrier(c, t.buffer, false), t.parity);
    c->engine->multiply(c, t.buffer);
    if (stays) {
        V some = LLVMBuildICmp(e->b, LLVMIntSGT, l.iv, zero, "");
        LLVMValueRef right = LLVMBuildAnd(e->b, signals, some, "");
        release(c, barrier(c, before, true), right);
    } else {
        release(c, barrier(c, t.buffer, true), signals);
    }
    for (int i = 0; i < c->nacc; i++)
        em_loop_next(&l, i, c->acc[i]);
    em_loop_next(&l, c->nacc, t.buffer);
    t = next_turn(c, t);
    em_loop_next(&l, c->nacc + 1, t.buffer);
    em_loop_next(&l, c->nacc + 2, t.parity);
    em_loop_end(e, &l);
    for (int i = 0; i < c->nacc; i++)
        c->acc[i] = l.phi[i];
    if (stays) {
        c->engine->finish(c);
        release(c, barrier(c, l.phi[c->nacc], true), signals);
    }
}

V ct_next_tile(struct ct *c)
{
    return LLVMBuildAdd(c->e->b, c->turn, steps_of(c), "");
}

void ct_end_copies(struct ct *c, V sent)
{
    struct em_if some;
    if (!c->rank)
        return;
    em_if_begin(c->e, &some, sent); /* no block ends while the other one sends and signals to it */
    cluster_barrier(c->e);
    em_if_end(c->e, &some);
}
