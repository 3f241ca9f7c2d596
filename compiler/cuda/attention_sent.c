/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_sent.c - attention whose keys and values come by tensor copies (PTX ISA, "cp.async.bulk.tensor"), which one
 * thread of a third warpgroup sends for, whose registers the others have; two warpgroups multiply, each 64 rows of the
 * tile, and neither waits for the other: while one does softmax, the other has the tensor cores.
 *
 *     the thread that sends, for each block of keys:    waits until k's buffer is empty, sends for k; the same for v
 *     those that multiply:                              scores of the first block; its softmax
 *         for each further block:                       scores, and behind them the means of the block before, which go
 *         on during the softmax
 *                                                       means corrected by the new maximum
 *         means of the last block
 *
 * Shah et al., "FlashAttention-3", 2024. Each buffer has two mbarriers, `full` and `empty`, whose phases alternate:
 * block number n, of all that this block of threads runs, is in buffer n modulo `ring`, and waits for the phase of
 * parity n / ring. Between the statement that starts the means and the one that waits for them stands no branch: ptxas
 * would serialise the products. So masks that are loaded are not for this form.
 */
#include "compiler/cuda/attention_int.h"
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef

enum { BARRIERS = 4 }; /* of k and of v: full, empty */
enum which { KEYS, VALUES };

int64_t fa_barrier_bytes(const struct fa_shape *s)
{
    return (int64_t)8 * BARRIERS * s->ring;
}

static V buffer_of(struct fa *a, V number)
{
    return LLVMBuildURem(a->e->b, number, em_i64(a->e, a->s.ring), "");
}

static V parity_of(struct fa *a, V number)
{
    struct em *e = a->e;
    V round = LLVMBuildUDiv(e->b, number, em_i64(e, a->s.ring), "");
    return LLVMBuildTrunc(e->b, LLVMBuildAnd(e->b, round, em_i64(e, 1), ""), e->t_i32, "");
}

static V barrier(struct fa *a, enum which which, bool empty, V buffer)
{
    struct em *e = a->e;
    V index = LLVMBuildAdd(e->b, buffer, em_i64(e, (int64_t)a->s.ring * (2 * which + empty)), "");
    return cuda_shared_address(e, ct_at(e, ct_at(e, a->pool, em_i64(e, a->s.barriers), 1), index, 8));
}

/* Number of the block of keys that begins at `at`, of all. */
static V number_of(struct fa *a, V from, V at)
{
    struct em *e = a->e;
    V turn = LLVMBuildLoad2(e->b, e->t_i64, a->turn, "");
    V block = LLVMBuildUDiv(e->b, LLVMBuildSub(e->b, at, from, ""), em_i64(e, a->s.bn), "");
    return LLVMBuildAdd(e->b, turn, block, "");
}

static void end_turn(struct fa *a, V from, V to)
{
    struct em *e = a->e;
    V last = LLVMBuildAdd(e->b, to, em_i64(e, a->s.bn - 1), "");
    LLVMBuildStore(e->b, number_of(a, from, last), a->turn);
}

/* -- Sending ------------------------------------------------------------------------------------------------------- */

static void send(struct fa *a, enum which which, const struct ct_map *m, V at, V number)
{
    struct em *e = a->e;
    const struct fa_side *s = which == KEYS ? &a->s.k : &a->s.v;
    int part = CT_ROW / tcc_dtype_bytes(a->s.dtype);
    V buffer = buffer_of(a, number), full = barrier(a, which, false, buffer);
    V flipped = LLVMBuildXor(e->b, parity_of(a, number), LLVMConstInt(e->t_i32, 1, 0), "");
    cuda_mbarrier_wait(e, barrier(a, which, true, buffer), flipped);
    cuda_mbarrier_expect(e, full, s->bytes);
    LLVMValueRef index = LLVMBuildMul(e->b, buffer, em_i64(e, s->bytes), "");
    V to = ct_at(e, ct_at(e, a->pool, em_i64(e, s->at), 1), index, 1);
    for (int c = 0; c < s->columns; c += part) {
        V args[4 + TCC_MAP_RANK];
        args[0] = cuda_shared_address(e, ct_at(e, to, em_i64(e, (int64_t)c / part * a->s.bn * CT_ROW), 1));
        args[1] = full;
        args[2] = a->f->maps[which];
        args[3] = em_i64(e, c);
        args[4] = at;
        for (int d = 2; d < m->map.rank; d++)
            args[3 + d] = em_expr(e, e->k->dims[m->batch[d]].var);
        for (int d = 0; d < m->map.rank; d++)
            args[3 + d] = LLVMBuildTrunc(e->b, args[3 + d], e->t_i32, "");
        cuda_send_box(e, m->map.rank, 0, 1, args);
    }
}

static void send_tile(struct fa *a)
{
    struct em *e = a->e;
    struct em_loop l;
    struct ct_map maps[2];
    V from, seen, to;
    fa_maps_of(e->ctx, e->k, &a->s, maps);
    fa_key_range(a, &from, &seen, &to);
    em_loop_begin(e, &l, em_range(e, from, to), em_i64(e, a->s.bn), "sent");
    V number = number_of(a, from, l.iv);
    fa_bind_row(a, em_i64(e, 0));
    for (enum which which = KEYS; which <= VALUES; which++)
        send(a, which, &maps[which], l.iv, number);
    cuda_loop_end(e, &l);
    end_turn(a, from, em_most(a->e, from, to));
}

/* -- Multiplying --------------------------------------------------------------------------------------------------- */

/* That block is there, and its side's buffer the one that is meant. */
static void await(struct fa *a, enum which which, V number)
{
    struct em *e = a->e;
    V buffer = buffer_of(a, number);
    struct fa_side *s = which == KEYS ? &a->s.k : &a->s.v;
    V parity = parity_of(a, number);
    cuda_mbarrier_wait(e, barrier(a, which, false, buffer), parity);
    s->buffer = LLVMBuildMul(e->b, buffer, em_i64(e, s->bytes), "");
}

static void release(struct fa *a, enum which which, V number)
{
    struct em *e = a->e;
    V first = LLVMBuildICmp(e->b, LLVMIntEQ, a->lane, em_i64(e, 0), "");
    cuda_mbarrier_arrive(e, barrier(a, which, true, buffer_of(a, number)), first);
}

static int npacked(const struct fa *a)
{
    return a->s.engine->r * fa_keys(a) / 2;
}

static void keep_packed(struct fa *a, V *p)
{
    V packed[FA_MAX_R * FA_MAX_C / 2];
    fa_pack(a, p, packed);
    for (int i = 0; i < npacked(a); i++)
        LLVMBuildStore(a->e->b, packed[i], a->packed[i]);
}

static void packed_of(struct fa *a, V *packed)
{
    for (int i = 0; i < npacked(a); i++)
        packed[i] = LLVMBuildLoad2(a->e->b, a->e->t_i32, a->packed[i], "");
}

static void first_block(struct fa *a, V from)
{
    V p[FA_MAX_R * FA_MAX_C], number = number_of(a, from, from);
    await(a, KEYS, number);
    a->s.engine->scores(a, &a->s.q, &a->s.k, a->score);
    release(a, KEYS, number);
    for (int i = 0; i < a->s.engine->r; i++) /* there are no means yet */
        fa_weigh(a, i, from, p);
    keep_packed(a, p);
}

static void blocks(struct fa *a, V from, V at, V to, bool full)
{
    struct em *e = a->e;
    struct em_loop l;
    V p[FA_MAX_R * FA_MAX_C], packed[FA_MAX_R * FA_MAX_C / 2], less[FA_MAX_R];
    em_loop_begin(e, &l, em_range(e, at, to), em_i64(e, a->s.bn), full ? "full" : "columns");
    V number = number_of(a, from, l.iv), before = LLVMBuildSub(e->b, number, em_i64(e, 1), "");
    packed_of(a, packed);
    await(a, KEYS, number);
    await(a, VALUES, before);
    fa_start_means(a, a->score, packed);
    release(a, KEYS, number);
    a->full = full;
    for (int i = 0; i < a->s.engine->r; i++)
        less[i] = fa_weigh(a, i, l.iv, p);
    a->full = false;
    fa_end_means(a);
    release(a, VALUES, before);
    for (int i = 0; i < a->s.engine->r; i++)
        fa_scale_means(a, i, less[i]);
    keep_packed(a, p);
    cuda_loop_end(e, &l);
}

static void last_block(struct fa *a, V from, V to)
{
    V packed[FA_MAX_R * FA_MAX_C / 2];
    V number = number_of(a, from, LLVMBuildSub(a->e->b, to, em_i64(a->e, 1), ""));
    packed_of(a, packed);
    await(a, VALUES, number);
    fa_packed_means(a, &a->s.v, packed, a->mean);
    release(a, VALUES, number);
}

static void multiply_tile(struct fa *a)
{
    struct em *e = a->e;
    struct em_if some;
    V from, seen, to;
    fa_key_range(a, &from, &seen, &to);
    fa_begin_rows(a);
    fa_arrived(a);
    em_if_begin(e, &some, LLVMBuildICmp(e->b, LLVMIntSLT, from, to, ""));
    V second = LLVMBuildAdd(e->b, from, em_i64(e, a->s.bn), "");
    first_block(a, from);
    blocks(a, from, second, seen, true);
    if (seen != to)
        blocks(a, from, em_most(a->e, second, seen), to, false);
    last_block(a, from, to);
    end_turn(a, from, to);
    em_if_end(e, &some);
    a->s.k.buffer = a->s.v.buffer = NULL;
    fa_end_rows(a);
}

/* -- The kernel ---------------------------------------------------------------------------------------------------- */

static void begin_copies(struct fa *a)
{
    struct em *e = a->e;
    struct em_if one;
    em_if_begin(e, &one, LLVMBuildICmp(e->b, LLVMIntEQ, a->f->thread, em_i64(e, 0), ""));
    for (enum which which = KEYS; which <= VALUES; which++)
        for (int i = 0; i < a->s.ring; i++) {
            cuda_mbarrier_init(e, barrier(a, which, false, em_i64(e, i)), 1);
            cuda_mbarrier_init(e, barrier(a, which, true, em_i64(e, i)), a->s.threads / 32);
        }
    cuda_asm(e, e->t_void, "fence.proxy.async.shared::cta;", "~{memory}", 0, NULL); /* copies will arrive there */
    em_if_end(e, &one);
    cuda_barrier(e);
}

/* All of a role, with operands where vectors may be. */
static void run(const struct fa *all, const int *align, void (*tile)(struct fa *a))
{
    struct fa a = *all;
    a.wide = true;
    a.e->aligned = true;
    a.e->align = align;
    LLVMBuildStore(a.e->b, em_i64(a.e, 0), a.turn);
    fa_each_tile(&a, tile);
    a.e->align = NULL;
}

void fa_emit_sent(struct fa *a, const int *align, void (*other)(void *user, bool wide))
{
    struct em *e = a->e;
    struct em_if mapped, sends;
    LLVMBasicBlockRef own = em_block(e, "own"), sent = em_block(e, "sent"), brought = em_block(e, "brought"),
                      send_block = em_block(e, "send"), done = em_block(e, "done");
    a->turn = em_alloca(e, e->t_i64, 1, 8);
    for (int i = 0; i < npacked(a); i++)
        a->packed[i] = em_alloca(e, e->t_i32, 1, 4);
    V has = LLVMBuildICmp(e->b, LLVMIntNE, a->f->mapped, em_i64(e, 0), ""), aligned = cuda_aligned(a->f, align);
    has = aligned ? LLVMBuildAnd(e->b, has, aligned, "") : has;
    em_if_begin(e, &mapped, has);
    begin_copies(a);
    em_if_end(e, &mapped);
    V multiplies = LLVMBuildICmp(e->b, LLVMIntSLT, a->f->thread, em_i64(e, a->s.threads), "");
    LLVMBuildCondBr(e->b, multiplies, own, send_block);
    LLVMPositionBuilderAtEnd(e->b, own);
    cuda_set_registers(e, true, CUDA_MULTIPLYING_REGISTERS);
    LLVMBuildCondBr(e->b, has, sent, brought);
    LLVMPositionBuilderAtEnd(e->b, sent);
    run(a, align, multiply_tile);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, brought);
    cuda_twice(a->f, align, other, a);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, send_block);
    cuda_set_registers(e, false, CUDA_SENDING_REGISTERS);
    V first = LLVMBuildICmp(e->b, LLVMIntEQ, a->f->thread, em_i64(e, a->s.threads), "");
    em_if_begin(e, &sends, LLVMBuildAnd(e->b, has, first, ""));
    run(a, align, send_tile);
    em_if_end(e, &sends);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
}
