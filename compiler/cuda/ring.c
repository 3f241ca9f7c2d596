/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c - tiles on their way from global to shared memory, through a ring of `stages` buffers:
 *
 *     the first stages - 1 tiles are sent for
 *     for each step: tile k has arrived and all have left tile k - 1; tile k + stages - 1 is sent for, into the buffer
 *     of tile k - 1; tile k multiplied
 *
 * A side whose elements are what memory holds is copied by cp.async (PTX ISA, "Data Movement and Conversion
 * Instructions: cp.async"), by 16 bytes or a float at a time, one group a step; what lies behind the sum's end, behind
 * the last row or outside a guard is filled with zeros without being read. Other sides come through registers: fetched
 * before the product, kept after it.
 */
#include "compiler/cuda/contract_int.h"

#include <math.h>

#define V LLVMValueRef

/* -- cp.async ------------------------------------------------------------------------------------------------------ */

void cuda_copy_async(struct em *e, V to, V from, int bytes, V ok)
{
    V all = LLVMConstInt(e->t_i32, (unsigned)bytes, 0);
    V args[] = {to, from, ok ? LLVMBuildSelect(e->b, ok, all, LLVMConstNull(e->t_i32), "") : all};
    em_intrinsic(e,
                 bytes == 16  ? "llvm.nvvm.cp.async.cg.shared.global.16.s"
                 : bytes == 8 ? "llvm.nvvm.cp.async.ca.shared.global.8.s"
                              : "llvm.nvvm.cp.async.ca.shared.global.4.s",
                 0, NULL, 3, args);
}

void cuda_copy_commit(struct em *e)
{
    em_intrinsic(e, "llvm.nvvm.cp.async.commit.group", 0, NULL, 0, NULL);
}

void cuda_copy_wait(struct em *e, int pending)
{
    V n = LLVMConstInt(e->t_i32, (unsigned)pending, 0);
    em_intrinsic(e, "llvm.nvvm.cp.async.wait.group", 0, NULL, 1, &n);
}

/* -- Slots --------------------------------------------------------------------------------------------------------- */

/* Where slot j of this thread lies in the tile: row, and its place along k; both first ones of `width`. Slots of a
 * thread differ by whole rows (ks) of the tile, so their addresses do by constants; where threads are no whole rows, as
 * of 192 columns, slots are dealt one behind the other. */
static void slot(struct ct *c, const struct ct_side *s, V j, V *row, V *k)
{
    struct em *e = c->e;
    int across = (s->along_k ? c->bk : s->size) / s->width;
    bool whole = CT_THREADS % across == 0;
    V n = c->f->thread;
    if (!whole)
        n = LLVMBuildAdd(e->b, n, LLVMBuildMul(e->b, j, em_i64(e, CT_THREADS), ""), "");
    V fast = LLVMBuildMul(e->b, LLVMBuildURem(e->b, n, em_i64(e, across), ""), em_i64(e, s->width), "");
    V slow = LLVMBuildUDiv(e->b, n, em_i64(e, across), "");
    if (whole)
        slow = LLVMBuildAdd(e->b, slow, LLVMBuildMul(e->b, j, em_i64(e, CT_THREADS / across), ""), "");
    *row = s->along_k ? slow : fast;
    *k = s->along_k ? fast : slow;
}

static int slots(const struct ct *c, const struct ct_side *s)
{
    int n = s->size * c->bk / s->width;
    return (n + CT_THREADS - 1) / CT_THREADS;
}

/* Binds the dims of slot j from step k0 on, to what lies inside; is all of the slot inside? Rows behind the last one
 * give it: they are not stored. */
static V bind_slot(struct ct *c, const struct ct_side *s, V j, V k0)
{
    struct em *e = c->e;
    V row, k;
    slot(c, s, j, &row, &k);
    k = LLVMBuildAdd(e->b, k0, k, "");
    V inside = LLVMBuildICmp(e->b, LLVMIntSLT, k, c->last, "");
    row = LLVMBuildAdd(e->b, s->first, row, "");
    if (s->copied)
        inside = LLVMBuildAnd(e->b, inside, LLVMBuildICmp(e->b, LLVMIntSLT, row, s->count, ""), "");
    V most = s->along_k || s->width == 1 ? s->count : LLVMBuildSub(e->b, s->count, em_i64(e, s->width - 1), "");
    V most_k = s->along_k && s->width > 1 ? LLVMBuildSub(e->b, c->nk, em_i64(e, s->width - 1), "") : c->nk;
    ct_bind(e, s->dims, cuda_below(e, row, most));
    ct_bind(e, c->k, cuda_below(e, k, most_k));
    return inside;
}

V ct_buffer(struct ct *c, const struct ct_side *s, V buffer)
{
    struct em *e = c->e;
    V base = ct_at(e, c->pool, em_i64(e, s->at), 1);
    return ct_at(e, base, LLVMBuildMul(e->b, buffer, em_i64(e, s->bytes), ""), 1);
}

static V place(struct ct *c, const struct ct_side *s, V buffer, V row, V k)
{
    V index = c->engine->index(c, s, row, k);
    return ct_at(c->e, ct_buffer(c, s, buffer), index, c->engine->bytes);
}

/* -- By copies ----------------------------------------------------------------------------------------------------- */

static bool turned(const struct ct_side *s)
{
    return s->width > 1 && s->along_k == s->k_rows;
}

bool ct_zero_outside(const struct kn_kernel *k, const struct kn_insn *load)
{
    if (!load->nguards || load->nargs == 0 || load->arg[0] < 0)
        return true;
    const struct kn_insn *n = &k->insns[load->arg[0]];
    if (n->code != KN_CONST)
        return false;
    return tcc_is_float((enum tcc_dtype)n->dtype) ? n->fvalue == 0 && !signbit(n->fvalue) : n->ivalue == 0;
}

bool ct_may_copy(const struct ct *c, const struct ct_side *s)
{
    const struct kn_kernel *k = c->e->k;
    const struct kn_insn *load = &k->insns[s->load];
    int bytes = tcc_dtype_bytes((enum tcc_dtype)load->dtype);
    bool plain = kn_is_cast_of(k, s->value, s->load) && (int)s->type == load->dtype;
    return plain && bytes == c->engine->bytes && bytes * s->width >= 4 && !turned(s) && ct_zero_outside(k, load);
}

static void copy_slot(struct ct *c, const struct ct_side *s, V j, V buffer, V k0)
{
    struct em *e = c->e;
    const struct kn_insn *load = &e->k->insns[s->load];
    V row, k, ok = bind_slot(c, s, j, k0), guards = em_guards(e, load->nguards, load->guards);
    V from = em_address(e, load->operand, em_expr(e, em_offset(e, load->operand, load->index)));
    if (guards)
        ok = LLVMBuildAnd(e->b, ok, guards, "");
    slot(c, s, j, &row, &k);
    cuda_copy_async(e, place(c, s, buffer, row, k), from, c->engine->bytes * s->width, ok);
}

/* -- Through registers --------------------------------------------------------------------------------------------- */

static V fetch_slot(struct ct *c, const struct ct_side *s, V j, V k0)
{
    struct em *e = c->e;
    V inside = bind_slot(c, s, j, k0);
    if (s->width > 1)
        em_set_lanes(e, e->k->dims[ct_last_dim(e->k, s->along_k ? c->k : s->dims)].var, s->width, NULL);
    em_forget(e, 0, kn_main_stage(e->k)->last);
    em_insn_needed(e, s->value);
    V v = c->engine->element(c, s, em_splat(e, e->value[s->value], s->width));
    em_set_lanes(e, NULL, 1, NULL);
    return LLVMBuildSelect(e->b, inside, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

static void keep_slot(struct ct *c, const struct ct_side *s, V j, V buffer, V v)
{
    struct em *e = c->e;
    V row, k;
    slot(c, s, j, &row, &k);
    if (!turned(s)) {
        V at = place(c, s, buffer, row, k);
        LLVMSetAlignment(LLVMBuildStore(e->b, v, at),
                         (unsigned)(c->engine->bytes * s->width > 16 ? 16 : c->engine->bytes * s->width));
        return;
    }
    for (int i = 0; i < s->width; i++) {
        V step = em_i64(e, i);
        LLVMValueRef right = s->along_k ? LLVMBuildAdd(e->b, k, step, "") : k;
        V at = place(c, s, buffer, s->along_k ? row : LLVMBuildAdd(e->b, row, step, ""), right);
        LLVMBuildStore(e->b, LLVMBuildExtractElement(e->b, v, step, ""), at);
    }
}

/* -- Both sides ---------------------------------------------------------------------------------------------------- */

enum { MAX_SLOTS = 64, MANY_SLOTS = 16, MANY_OF_BOTH = 24, AT_ONCE = 4 };
struct on_the_way {
    V values[MAX_SLOTS];
    int n;
};

/* Elements one by one of a large tile, or of two: in a loop, a few fetched and then kept. There are no registers for
 * them all. */
static bool rolled(const struct ct *c, const struct ct_side *s)
{
    bool both = s == &c->cols && !c->rows.copied && slots(c, &c->rows) + slots(c, s) > MANY_OF_BOTH;
    return !s->copied && (both || slots(c, s) > MANY_SLOTS);
}

static void keep_in_loop(struct ct *c, const struct ct_side *s, V buffer, V k0)
{
    struct em *e = c->e;
    struct em_loop l;
    int some = slots(c, s) % AT_ONCE ? 1 : AT_ONCE;
    V v[AT_ONCE];
    em_loop_begin(e, &l, em_below(e, em_i64(e, slots(c, s))), em_i64(e, some), "slot");
    for (int i = 0; i < some; i++)
        v[i] = fetch_slot(c, s, LLVMBuildAdd(e->b, l.iv, em_i64(e, i), ""), k0);
    for (int i = 0; i < some; i++)
        keep_slot(c, s, LLVMBuildAdd(e->b, l.iv, em_i64(e, i), ""), buffer, v[i]);
    cuda_loop_end(e, &l);
}

/* Sends for a side's tile from step k0 on. What comes through registers is in `w` until it is kept. */
static void send(struct ct *c, const struct ct_side *s, V buffer, V k0, struct on_the_way *w)
{
    struct em *e = c->e;
    int n = s->size * c->bk / s->width;
    for (int i = 0; i < slots(c, s) && !rolled(c, s); i++) {
        struct em_if own;
        V j = em_i64(e, i);
        if (!s->copied) {
            w->values[w->n++] = fetch_slot(c, s, j, k0);
            continue;
        }
        if (n < CT_THREADS)
            em_if_begin(e, &own, LLVMBuildICmp(e->b, LLVMIntSLT, c->f->thread, em_i64(e, n), ""));
        copy_slot(c, s, j, buffer, k0);
        if (n < CT_THREADS)
            em_if_end(e, &own);
    }
}

static void keep(struct ct *c, const struct ct_side *s, V buffer, V k0, struct on_the_way *w)
{
    struct em *e = c->e;
    int n = s->size * c->bk / s->width;
    if (rolled(c, s)) {
        keep_in_loop(c, s, buffer, k0);
        return;
    }
    for (int i = 0; i < slots(c, s) && !s->copied; i++) {
        struct em_if own;
        if (n < CT_THREADS)
            em_if_begin(e, &own, LLVMBuildICmp(e->b, LLVMIntSLT, c->f->thread, em_i64(e, n), ""));
        keep_slot(c, s, em_i64(e, i), buffer, w->values[w->n++]);
        if (n < CT_THREADS)
            em_if_end(e, &own);
    }
}

static void send_both(struct ct *c, V buffer, V k0, struct on_the_way *w)
{
    w->n = 0;
    send(c, &c->rows, buffer, k0, w);
    send(c, &c->cols, buffer, k0, w);
    if (c->rows.copied || c->cols.copied)
        cuda_copy_commit(c->e);
}

static void keep_both(struct ct *c, V buffer, V k0, struct on_the_way *w)
{
    w->n = 0;
    keep(c, &c->rows, buffer, k0, w);
    keep(c, &c->cols, buffer, k0, w);
}

/* This thread's copies have arrived but for those of `pending` steps; then everybody's have, and everybody is done with
 * what went before. */
static void arrive(struct ct *c, int pending)
{
    if (c->rows.copied || c->cols.copied)
        cuda_copy_wait(c->e, pending);
    if (c->engine->async_proxy) /* what this thread wrote, to those that will read it */
        cuda_asm(c->e, c->e->t_void, "fence.proxy.async.shared::cta;", "~{memory}", 0, NULL);
    ct_barrier(c);
}

void ct_sum(struct ct *c)
{
    struct em *e = c->e;
    struct em_loop l;
    struct on_the_way w;
    int stages = c->f->s.stages;
    V zero = em_i64(e, 0), one = em_i64(e, 1), step = em_i64(e, c->bk), last = em_i64(e, stages - 1);
    em_loop_begin(e, &l, em_below(e, last), one, "ahead");
    V k0 = LLVMBuildAdd(e->b, c->first, LLVMBuildMul(e->b, l.iv, step, ""), "");
    struct em_if some; /* a sum of no terms has none to fetch */
    em_if_begin(e, &some, LLVMBuildICmp(e->b, LLVMIntSGT, c->last, c->first, ""));
    send_both(c, l.iv, k0, &w);
    keep_both(c, l.iv, k0, &w);
    em_if_end(e, &some);
    em_loop_end(e, &l);
    em_loop_begin(e, &l, em_range(e, c->first, c->last), step, "k");
    for (int i = 0; i < c->nacc; i++)
        c->acc[i] = em_loop_carry(e, &l, LLVMConstNull(ct_sum_type(c)));
    V buffer = em_loop_carry(e, &l, zero), first = LLVMBuildICmp(e->b, LLVMIntEQ, buffer, zero, "");
    V before = LLVMBuildSelect(e->b, first, last, LLVMBuildSub(e->b, buffer, one, ""), "");
    arrive(c, stages - 2);
    V ahead = LLVMBuildAdd(e->b, l.iv, em_i64(e, (int64_t)c->bk * (stages - 1)), "");
    send_both(c, before, ahead, &w);
    c->engine->multiply(c, buffer);
    keep_both(c, before, ahead, &w);
    for (int i = 0; i < c->nacc; i++)
        em_loop_next(&l, i, c->acc[i]);
    V wraps = LLVMBuildICmp(e->b, LLVMIntEQ, buffer, last, "");
    em_loop_next(&l, c->nacc, LLVMBuildSelect(e->b, wraps, zero, LLVMBuildAdd(e->b, buffer, one, ""), ""));
    cuda_loop_end(e, &l); /* of a short sum ptxas would have all steps at once, and spill what they need */
    for (int i = 0; i < c->nacc; i++)
        c->acc[i] = l.phi[i];
    arrive(c, 0);
}
