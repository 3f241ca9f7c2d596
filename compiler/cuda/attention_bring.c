/* SPDX-License-Identifier: Apache-2.0 */
/* attention_bring.c - attention's tiles on their way to shared memory, and the blocks of columns one behind the other.
 * attention_int.h says how it works. */
#include "compiler/cuda/attention_int.h"
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef

/* -- Tiles on their way -------------------------------------------------------------------------------------------- */

/* Are the elements in memory what shared memory is to have? By how many bytes may they be copied; 0: they are not. */
static int copied(const struct fa *a, const struct fa_side *s)
{
    const struct kn_kernel *k = a->e->k;
    const struct kn_insn *load = &k->insns[s->load];
    int bytes = tcc_dtype_bytes((enum tcc_dtype)load->dtype);
    bool plain = kn_is_cast_of(k, s->value, s->load) && load->dtype == a->s.dtype && !load->nguards;
    return plain && bytes * s->width >= 4 ? bytes * s->width : 0;
}

static V element(struct fa *a, V v)
{
    struct em *e = a->e;
    return a->s.dtype == TCC_F32 ? v : em_to_bits(e, a->s.dtype, v);
}

/* Slot number `i` of the tile whose first row is `first` of `count`; what lies outside is zero. */
static void bring_slot(struct fa *a, const struct fa_side *s, V i, V first, V count, bool whole)
{
    struct em *e = a->e;
    const struct kn_insn *load = &e->k->insns[s->load];
    V across = em_i64(e, s->columns / s->width), width = em_i64(e, s->width);
    V row = LLVMBuildUDiv(e->b, i, across, ""),
      column = LLVMBuildMul(e->b, LLVMBuildURem(e->b, i, across, ""), width, "");
    V to = a->s.engine->place(a, s, row, column);
    V at = LLVMBuildAdd(e->b, first, row, ""), columns = em_extent(e, s->col);
    column = s->apart ? fa_of_part(a, s, column) : column;
    V inside = whole ? NULL : LLVMBuildICmp(e->b, LLVMIntSLT, column, columns, "");
    V ok = whole ? NULL : LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, at, count, ""), inside, "");
    V most = LLVMBuildAdd(e->b, LLVMBuildSub(e->b, columns, width, ""), em_i64(e, 1), "");
    fa_bind(a, s->row, whole ? at : cuda_below(e, at, count));
    fa_bind(a, s->col, whole ? column : cuda_below(e, column, most));
    int bytes = copied(a, s);
    if (bytes) {
        V from = em_address(e, load->operand, em_expr(e, em_offset(e, load->operand, load->index)));
        cuda_copy_async(e, to, from, bytes, ok);
        return;
    }
    if (s->width > 1)
        em_set_lanes(e, e->k->dims[s->col].var, s->width, NULL);
    em_forget(e, 0, e->k->ninsns);
    em_insn_needed(e, s->value);
    V v = element(a, em_splat(e, e->value[s->value], s->width));
    em_set_lanes(e, NULL, 1, NULL);
    em_forget(e, 0, e->k->ninsns);
    v = ok ? LLVMBuildSelect(e->b, ok, v, LLVMConstNull(LLVMTypeOf(v)), "") : v;
    LLVMSetAlignment(LLVMBuildStore(e->b, v, to), (unsigned)(s->width * tcc_dtype_bytes(a->s.dtype)));
}

/* Is all of any of its tiles there? */
static bool is_whole(struct fa *a, const struct fa_side *s)
{
    const struct kn_kernel *k = a->e->k;
    int64_t rows;
    return s->row >= 0 && ir_is_const(k->dims[s->row].extent, &rows) && rows % s->rows == 0 && !s->apart &&
           ir_is_value(k->dims[s->col].extent, s->columns);
}

void fa_bring(struct fa *a, struct fa_side *s, V first, V count)
{
    struct em *e = a->e;
    int n = s->rows * (s->columns / s->width), threads = a->s.threads;
    bool whole = is_whole(a, s);
    struct em_loop l;
    if (n <= 8 * threads && n % threads == 0 && a->s.ring > 1) {
        for (int i = 0; i < n; i += threads)
            bring_slot(a, s, LLVMBuildAdd(e->b, a->f->thread, em_i64(e, i), ""), first, count, whole);
    } else {
        em_loop_begin(e, &l, em_range(e, a->f->thread, em_i64(e, n)), em_i64(e, threads), "slot");
        bring_slot(a, s, l.iv, first, count, whole);
        em_loop_end(e, &l);
    }
    cuda_copy_commit(e);
}

/* The buffer of the block of columns that begins there; i64, in units of `bytes`. */
static V buffer_of(struct fa *a, V first, int64_t bytes)
{
    struct em *e = a->e;
    V number = LLVMBuildUDiv(e->b, first, em_i64(e, a->s.bn), "");
    return LLVMBuildMul(e->b, LLVMBuildURem(e->b, number, em_i64(e, a->s.ring), ""), em_i64(e, bytes), "");
}

static void use_buffers(struct fa *a, V first)
{
    a->s.k.buffer = buffer_of(a, first, a->s.k.bytes);
    a->s.v.buffer = buffer_of(a, first, a->s.v.bytes);
}

/* Address of a vector's element in a block of columns. */
static V vector_at(struct fa *a, const struct fa_vector *v, V block, V column)
{
    V index = buffer_of(a, block, (int64_t)4 * a->s.bn);
    V at = ct_at(a->e, ct_at(a->e, a->pool, em_i64(a->e, v->at), 1), index, 1);
    return ct_at(a->e, at, column, 4);
}

static void bring_vectors(struct fa *a, V first)
{
    struct em *e = a->e;
    struct em_loop l;
    if (!a->s.nvectors)
        return;
    em_loop_begin(e, &l, em_range(e, a->f->thread, em_i64(e, a->s.bn)), em_i64(e, a->s.threads), "vector");
    V column = LLVMBuildAdd(e->b, first, l.iv, "");
    fa_bind(a, a->s.col, cuda_below(e, column, a->keys));
    for (int i = 0; i < a->s.nvectors; i++) {
        const struct kn_insn *load = &e->k->insns[a->s.vectors[i].load];
        V from = em_address(e, load->operand, em_expr(e, em_offset(e, load->operand, load->index)));
        cuda_copy_async(e, vector_at(a, &a->s.vectors[i], first, l.iv), from, 4, NULL);
    }
    em_loop_end(e, &l);
    cuda_copy_commit(e);
}

/* k, v and the vectors from that column on */
static void fa_bring_columns(struct fa *a, V first)
{
    use_buffers(a, first);
    bring_vectors(a, first);
    fa_bring(a, &a->s.k, first, a->keys);
    if (a->s.gradient || a->s.r.mean >= 0)
        fa_bring(a, &a->s.v, first, a->keys);
}

void fa_set_vectors(struct fa *a, int i, int j, V block)
{
    struct em *e = a->e;
    int pair = a->s.engine->together == 2 ? 2 : 1; /* neighbours j and j + 1 */
    V two = em_i64(e, j % pair);
    for (int x = 0; x < a->s.nvectors; x++) {
        V at = vector_at(a, &a->s.vectors[x], block, a->s.engine->key(a, j - j % pair));
        V v = LLVMBuildLoad2(e->b, em_vec(e->t_f32, pair), at, "");
        LLVMSetAlignment(v, (unsigned)(4 * pair));
        e->value[a->s.vectors[x].load] = pair > 1 ? LLVMBuildExtractElement(e->b, v, two, "") : v;
    }
    for (int x = 0; x < a->s.nrow_vectors; x++)
        e->value[a->s.row_vectors[x].load] = a->s.row_vectors[x].of_row[i];
}

void fa_barrier(struct fa *a)
{
    if (a->f->s.threads == a->s.threads)
        cuda_barrier(a->e);
    else
        cuda_asm(a->e, a->e->t_void, ir_internf(a->e->ctx, "bar.sync 1, %d;", a->s.threads), "~{memory}", 0, NULL);
}

void fa_arrived(struct fa *a)
{
    cuda_copy_wait(a->e, 0);
    if (a->s.engine->async_proxy) /* what this thread wrote, to those that will read it */
        cuda_asm(a->e, a->e->t_void, "fence.proxy.async.shared::cta;", "~{memory}", 0, NULL);
    fa_barrier(a);
}

/* -- Blocks of columns --------------------------------------------------------------------------------------------- */

V fa_round(struct fa *a, V column, bool up)
{
    struct em *e = a->e;
    column = up ? LLVMBuildAdd(e->b, column, em_i64(e, a->s.bn - 1), "") : column;
    return LLVMBuildAnd(e->b, column, em_i64(e, -(int64_t)a->s.bn), "");
}

/* The next block is on its way while this one is computed, or, where there is one buffer, from then on. */
static void blocks(struct fa *a, V from, V to, V last, bool full, void (*block)(struct fa *a, V at))
{
    struct em *e = a->e;
    struct em_loop l;
    struct em_if some;
    em_loop_begin(e, &l, em_range(e, from, to), em_i64(e, a->s.bn), full ? "full" : "columns");
    V next = LLVMBuildAdd(e->b, l.iv, em_i64(e, a->s.bn), "");
    fa_arrived(a);
    if (a->s.ring == 1) {
        use_buffers(a, l.iv);
        a->full = full;
        block(a, l.iv);
        fa_barrier(a);
    }
    em_if_begin(e, &some, LLVMBuildICmp(e->b, LLVMIntSLT, next, last, ""));
    fa_bring_columns(a, next);
    em_if_end(e, &some);
    if (a->s.ring > 1) {
        use_buffers(a, l.iv);
        a->full = full;
        block(a, l.iv);
    }
    a->full = false;
    cuda_loop_end(e, &l);
}

void fa_columns_in(struct fa *a, V from, V first, V last, V to, void (*block)(struct fa *a, V at))
{
    struct em_if some; /* no columns: none to bring */
    em_if_begin(a->e, &some, LLVMBuildICmp(a->e->b, LLVMIntSLT, from, to, ""));
    fa_bring_columns(a, from);
    em_if_end(a->e, &some);
    if (a->s.ring == 1) { /* registers are few, too */
        blocks(a, from, to, to, first == from && last == to, block);
    } else {
        if (first != from)
            blocks(a, from, first, to, false, block);
        blocks(a, first, last, to, true, block);
        if (last != to)
            blocks(a, last, to, to, false, block);
    }
    a->s.k.buffer = a->s.v.buffer = NULL;
}
