/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - attention as one kernel: what the engines share. attention_int.h says how it works. */
#include "compiler/cuda/attention_int.h"

#include <float.h>
#include <math.h>

#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef
#define LOG2_E 1.44269504088896340736

/* -- Which kernels ------------------------------------------------------------------------------------------------- */

static bool is_cast_of(const struct kn_kernel *k, int value, int load)
{
    return value == load || (k->insns[value].op == IR_cast && k->insns[value].arg[0] == load);
}

static int64_t pad(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static void place_sides(struct fa_shape *s)
{
    struct fa_side *const side[] = {&s->q, &s->k, &s->v};
    int64_t bytes = tcc_dtype_bytes(s->dtype);
    for (int i = 0; i < 3; i++) {
        side[i]->at = s->bytes;
        s->bytes += pad(bytes * side[i]->rows * side[i]->pitch, 128);
    }
    s->weights = s->bytes;
    s->bytes += (int64_t)4 * FA_ROWS * s->pitch_p;
    int64_t out = (int64_t)4 * FA_ROWS * (s->pitch_out + 1);
    s->bytes = s->bytes > out ? s->bytes : out;
}

bool cuda_attention_shape(struct ir_ctx *ctx, const struct kn_kernel *k, struct fa_shape *s)
{
    *s = (struct fa_shape){.dtype = TCC_F32};
    struct em_attention *r = &s->r;
    if (!em_attention_roles(ctx, k, r))
        return false;
    int64_t nd = ir_const_or(k->dims[r->d].extent, 0), ne = ir_const_or(k->dims[r->e].extent, 0);
    if (nd < 1 || ne < 1 || nd > FA_MOST_WIDTH || ne > FA_MOST_WIDTH)
        return false;
    enum tcc_dtype type = (enum tcc_dtype)k->insns[r->load_q].dtype;
    if ((type == TCC_F16 || type == TCC_BF16) && k->insns[r->load_k].dtype == type &&
        k->insns[r->load_v].dtype == type && is_cast_of(k, r->val_q, r->load_q) && is_cast_of(k, r->val_k, r->load_k) &&
        is_cast_of(k, r->val_v, r->load_v))
        s->dtype = type;
    s->engine = s->dtype == TCC_F32 ? &fa_ffma : &fa_mma;
    s->q = (struct fa_side){.value = r->val_q, .load = r->load_q, .row = r->row, .col = r->d, .rows = FA_ROWS};
    s->k = (struct fa_side){.value = r->val_k, .load = r->load_k, .row = r->t, .col = r->d};
    s->v = (struct fa_side){.value = r->val_v, .load = r->load_v, .row = r->t, .col = r->e};
    s->engine->layout(s, (int)nd, (int)ne);
    s->k.rows = s->v.rows = s->bn;
    s->pitch_out = s->v.columns + 8;
    struct fa_side *const side[] = {&s->q, &s->k, &s->v};
    for (int i = 0; i < 3; i++) {
        int own = tcc_dtype_bytes((enum tcc_dtype)k->insns[side[i]->load].dtype);
        side[i]->width =
            own == tcc_dtype_bytes(s->dtype) ? cuda_load_width(ctx, k, side[i]->load, side[i]->col, 16 / own) : 1;
    }
    place_sides(s);
    return true;
}

/* -- Small things --------------------------------------------------------------------------------------------------- */

V fa_shared(struct fa *a, int64_t at, V row, V column, int pitch, int bytes)
{
    struct em *e = a->e;
    V index = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, row, em_i64(e, pitch), ""), column, "");
    return ct_at(e, ct_at(e, a->pool, em_i64(e, at), 1), index, bytes);
}

V fa_get(struct fa *a, V slot)
{
    return LLVMBuildLoad2(a->e->b, a->e->t_f32, slot, "");
}

static V larger(struct em *e, V x, V y)
{
    return em_intrinsic(e, "llvm.maxnum", 1, &e->t_f32, 2, (V[]){x, y});
}

/* e^x to about 2 units in the last place: x is a difference of a score and the row's largest. */
static V exponential(struct em *e, V x)
{
    V y = LLVMBuildFMul(e->b, x, em_fp(e->t_f32, LOG2_E), "");
    return em_intrinsic(e, "llvm.nvvm.ex2.approx.ftz.f", 0, NULL, 1, &y);
}

static void bind(struct fa *a, int dim, V v)
{
    if (dim >= 0)
        em_bind(a->e, a->e->k->dims[dim].var, v);
}

static void bind_row(struct fa *a, V row)
{
    bind(a, a->s.r.row, cuda_below(a->e, LLVMBuildAdd(a->e->b, a->first, row, ""), a->rows));
}

/* -- Tiles on their way ----------------------------------------------------------------------------------------------- */

/* Are the elements in memory what shared memory is to have? By how many bytes may they be copied; 0: they are not. */
static int copied(const struct fa *a, const struct fa_side *s)
{
    const struct kn_kernel *k = a->e->k;
    const struct kn_insn *load = &k->insns[s->load];
    int bytes = tcc_dtype_bytes((enum tcc_dtype)load->dtype);
    bool plain = is_cast_of(k, s->value, s->load) && load->dtype == a->s.dtype && !load->nguards;
    return plain && bytes * s->width >= 4 ? bytes * s->width : 0;
}

static V element(struct fa *a, V v)
{
    struct em *e = a->e;
    return a->s.dtype == TCC_F32 ? v : em_to_bits(e, a->s.dtype, v);
}

/* Slot number `i` of the tile whose first row is `first` of `count`; what lies outside is zero. */
static void bring_slot(struct fa *a, const struct fa_side *s, V i, V first, V count)
{
    struct em *e = a->e;
    const struct kn_insn *load = &e->k->insns[s->load];
    V across = em_i64(e, s->columns / s->width), width = em_i64(e, s->width);
    V row = LLVMBuildUDiv(e->b, i, across, ""),
      column = LLVMBuildMul(e->b, LLVMBuildURem(e->b, i, across, ""), width, "");
    V to = fa_shared(a, s->at, row, column, s->pitch, tcc_dtype_bytes(a->s.dtype));
    V at = LLVMBuildAdd(e->b, first, row, ""), columns = em_extent(e, s->col);
    V ok = LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, at, count, ""),
                        LLVMBuildICmp(e->b, LLVMIntSLT, column, columns, ""), "");
    bind(a, s->row, cuda_below(e, at, count));
    V most = LLVMBuildAdd(e->b, LLVMBuildSub(e->b, columns, width, ""), em_i64(e, 1), "");
    bind(a, s->col, cuda_below(e, column, most));
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
    v = LLVMBuildSelect(e->b, ok, v, LLVMConstNull(LLVMTypeOf(v)), "");
    LLVMSetAlignment(LLVMBuildStore(e->b, v, to), (unsigned)(s->width * tcc_dtype_bytes(a->s.dtype)));
}

static void bring(struct fa *a, const struct fa_side *s, V first, V count)
{
    struct em *e = a->e;
    int n = s->rows * (s->columns / s->width);
    struct em_loop l;
    if (n <= 8 * FA_THREADS && n % FA_THREADS == 0) {
        for (int i = 0; i < n; i += FA_THREADS)
            bring_slot(a, s, LLVMBuildAdd(e->b, a->f->thread, em_i64(e, i), ""), first, count);
    } else {
        em_loop_begin(e, &l, a->f->thread, em_i64(e, n), em_i64(e, FA_THREADS), "slot");
        bring_slot(a, s, l.iv, first, count);
        em_loop_end(e, &l);
    }
    cuda_copy_commit(e);
}

/* What was sent for is there, and what was read has been. */
static void arrived(struct fa *a)
{
    cuda_copy_wait(a->e, 0);
    cuda_barrier(a->e);
}

/* -- Softmax ---------------------------------------------------------------------------------------------------------- */

static int keys_of(const struct fa *a)
{
    return a->s.bn / a->s.engine->across;
}

static int columns_of(const struct fa *a)
{
    return a->s.v.columns / a->s.engine->across;
}

static V over_row(struct fa *a, V v, V (*combine)(struct em *e, V x, V y))
{
    for (int distance = 1; distance < a->s.engine->across; distance *= 2)
        v = combine(a->e, v, cuda_shuffle_xor(a->e, v, distance));
    return v;
}

static V sum_of(struct em *e, V x, V y)
{
    return LLVMBuildFAdd(e->b, x, y, "");
}

/* Scaled and masked: the kernel's own stage at one row and key. */
static V masked(struct fa *a, int i, int j, V block)
{
    struct em *e = a->e;
    const struct kn_stage *s = &e->k->stages[AT_SCORE];
    V key = LLVMBuildAdd(e->b, block, a->s.engine->key(a, j), "");
    int64_t nt = 0;
    bool whole = ir_is_const(e->k->dims[a->s.r.t].extent, &nt) && nt % a->s.bn == 0;
    bind(a, a->s.r.t, whole ? key : cuda_below(e, key, a->keys));
    em_forget(e, s->first, s->last);
    e->value[a->s.r.dot] = fa_get(a, a->score[i * keys_of(a) + j]);
    em_insn_needed(e, a->s.r.score);
    V v = e->value[a->s.r.score];
    e->value[a->s.r.dot] = NULL;
    em_forget(e, s->first, s->last);
    if (whole)
        return v;
    V inside = LLVMBuildICmp(e->b, LLVMIntSLT, key, a->keys, "");
    return LLVMBuildSelect(e->b, inside, v, em_fp(e->t_f32, -INFINITY), "");
}

/* p of row i, in the places of its scores; its means, which get smaller. */
static void weigh(struct fa *a, int i, V block, V *p)
{
    struct em *e = a->e;
    int n = keys_of(a);
    V old = fa_get(a, a->top[i]), top = old, sum = NULL;
    bind_row(a, LLVMBuildAdd(e->b, LLVMBuildMul(e->b, a->warp, em_i64(e, 16), ""), a->s.engine->row(a, i), ""));
    for (int j = 0; j < n; j++)
        p[i * n + j] = masked(a, i, j, block);
    for (int j = 0; j < n; j++)
        top = larger(e, top, p[i * n + j]);
    top = over_row(a, top, larger);
    LLVMBuildStore(e->b, top, a->top[i]);
    for (int j = 0; j < n; j++) {
        p[i * n + j] = exponential(e, LLVMBuildFSub(e->b, p[i * n + j], top, ""));
        sum = sum ? LLVMBuildFAdd(e->b, sum, p[i * n + j], "") : p[i * n + j];
    }
    V less = exponential(e, LLVMBuildFSub(e->b, old, top, ""));
    LLVMBuildStore(e->b, LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, fa_get(a, a->sum[i]), less, ""), sum, ""), a->sum[i]);
    for (int j = 0; j < columns_of(a); j++) {
        V at = a->mean[i * columns_of(a) + j];
        LLVMBuildStore(e->b, LLVMBuildFMul(e->b, fa_get(a, at), less, ""), at);
    }
}

/* -- A tile ----------------------------------------------------------------------------------------------------------- */

static void clear(struct fa *a)
{
    struct em *e = a->e;
    for (int i = 0; i < a->s.engine->r; i++) {
        LLVMBuildStore(e->b, em_fp(e->t_f32, -FLT_MAX), a->top[i]);
        LLVMBuildStore(e->b, em_fp(e->t_f32, 0), a->sum[i]);
    }
    for (int i = 0; i < a->s.engine->r * columns_of(a); i++)
        LLVMBuildStore(e->b, em_fp(e->t_f32, 0), a->mean[i]);
}

static void key_blocks(struct fa *a, V nkeys)
{
    struct em *e = a->e;
    V p[FA_MAX_R * FA_MAX_C];
    struct em_loop l;
    em_loop_begin(e, &l, em_i64(e, 0), nkeys, em_i64(e, a->s.bn), "keys");
    arrived(a);
    bring(a, &a->s.v, l.iv, a->keys);
    a->s.engine->scores(a);
    for (int i = 0; i < a->s.engine->r; i++)
        weigh(a, i, l.iv, p);
    arrived(a);
    bring(a, &a->s.k, LLVMBuildAdd(e->b, l.iv, em_i64(e, a->s.bn), ""), a->keys);
    a->s.engine->means(a, p);
    em_loop_end(e, &l);
}

/* Means and sums to shared memory. */
static void hand_over(struct fa *a)
{
    struct em *e = a->e;
    int n = columns_of(a), together = a->s.engine->together;
    V base = LLVMBuildMul(e->b, a->warp, em_i64(e, 16), "");
    for (int i = 0; i < a->s.engine->r; i++) {
        V row = LLVMBuildAdd(e->b, base, a->s.engine->row(a, i), "");
        V sum = over_row(a, fa_get(a, a->sum[i]), sum_of);
        struct em_if one; /* of the threads that share the row */
        em_if_begin(e, &one, LLVMBuildICmp(e->b, LLVMIntEQ, a->s.engine->key(a, 0), em_i64(e, 0), ""));
        LLVMBuildStore(e->b, sum, fa_shared(a, (int64_t)4 * FA_ROWS * a->s.pitch_out, em_i64(e, 0), row, 0, 4));
        em_if_end(e, &one);
        for (int j = 0; j < n; j += together) {
            V v = LLVMGetPoison(em_vec(e->t_f32, together));
            for (int x = 0; x < together; x++)
                v = LLVMBuildInsertElement(e->b, v, fa_get(a, a->mean[i * n + j + x]), em_i64(e, x), "");
            V to = fa_shared(a, 0, row, a->s.engine->column(a, j), a->s.pitch_out, 4);
            LLVMSetAlignment(LLVMBuildStore(e->b, v, to), (unsigned)(4 * together));
        }
    }
}

static void finish(struct fa *a, V rows)
{
    struct em *e = a->e;
    const struct kn_stage *s = &e->k->stages[AT_LAST];
    struct em_loop l;
    V width = em_extent(e, a->s.r.e);
    em_loop_begin(e, &l, a->f->thread, LLVMBuildMul(e->b, rows, width, ""), em_i64(e, FA_THREADS), "result");
    V row = LLVMBuildUDiv(e->b, l.iv, width, ""), column = LLVMBuildURem(e->b, l.iv, width, "");
    bind_row(a, row);
    bind(a, a->s.r.e, column);
    em_forget(e, 0, e->k->ninsns);
    e->value[a->s.r.sum] = fa_get(a, fa_shared(a, (int64_t)4 * FA_ROWS * a->s.pitch_out, em_i64(e, 0), row, 0, 4));
    e->value[a->s.r.mean] = fa_get(a, fa_shared(a, 0, row, column, a->s.pitch_out, 4));
    em_insns(e, s->first, s->last);
    em_forget(e, 0, e->k->ninsns);
    em_loop_end(e, &l);
}

static void each_tile(struct fa *a)
{
    struct em *e = a->e;
    struct em_tiles t;
    em_tiles_begin(e, &t);
    for (int i = 0; i < em_nouter(e->k); i++)
        em_bind(e, e->k->dims[i].var, t.lo[i]);
    int row = a->s.r.row;
    a->first = row < 0 ? em_i64(e, 0) : t.lo[row];
    a->rows = row < 0 ? em_i64(e, 1) : t.hi[row];
    a->keys = em_extent(e, a->s.r.t);
    V nkeys = a->keys;
    if (a->s.r.keys) { /* of the tile's last row */
        bind_row(a, em_i64(e, FA_ROWS));
        nkeys = em_intrinsic(e, "llvm.smin", 1, &e->t_i64, 2, (V[]){nkeys, em_expr(e, a->s.r.keys)});
    }
    bring(a, &a->s.q, a->first, a->rows);
    struct em_if some; /* no keys: none to bring */
    em_if_begin(e, &some, LLVMBuildICmp(e->b, LLVMIntSGT, nkeys, em_i64(e, 0), ""));
    bring(a, &a->s.k, em_i64(e, 0), a->keys);
    em_if_end(e, &some);
    clear(a);
    key_blocks(a, nkeys);
    arrived(a);
    hand_over(a);
    cuda_barrier(e);
    finish(a, LLVMBuildSub(e->b, a->rows, a->first, ""));
    cuda_barrier(e);
    em_tiles_end(e, &t);
}

/* -- The kernel ------------------------------------------------------------------------------------------------------- */

/* All of it, where `wide` says that vectors lie at multiples of their bytes. */
static void emit(void *user, bool wide)
{
    struct fa a = *(struct fa *)user;
    struct fa_side *const side[] = {&a.s.q, &a.s.k, &a.s.v};
    for (int i = 0; i < 3; i++)
        side[i]->width = wide ? side[i]->width : 1;
    a.e->aligned = true;
    each_tile(&a);
}

static void slots(struct fa *a, V *to, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = em_alloca(a->e, a->e->t_f32, 1, 4);
}

void cuda_emit_attention(struct cuda_fn *f)
{
    struct em *e = f->e;
    struct fa a = {.f = f, .e = e};
    cuda_attention_shape(e->ctx, e->k, &a.s);
    a.pool = a.s.bytes > CUDA_MOST_STATIC ? cuda_launch_shared(e)
                                          : cuda_shared(e, ir_internf(e->ctx, "%s_pool", f->name), a.s.bytes, 128);
    a.lane = LLVMBuildURem(e->b, f->thread, em_i64(e, 32), "lane");
    a.warp = LLVMBuildUDiv(e->b, f->thread, em_i64(e, 32), "warp");
    slots(&a, a.score, a.s.engine->r * keys_of(&a));
    slots(&a, a.mean, a.s.engine->r * columns_of(&a));
    slots(&a, a.top, a.s.engine->r);
    slots(&a, a.sum, a.s.engine->r);
    struct fa_side *const side[] = {&a.s.q, &a.s.k, &a.s.v};
    int *align = IR_NEWN(e->ctx, e->k->noperands + 1, int);
    for (int i = 0; i < 3; i++)
        if (side[i]->width > 1)
            align[e->k->insns[side[i]->load].operand] = 16;
    cuda_twice(f, align, emit, &a);
}

bool cuda_attention(const struct pass_machine *m, const struct ir_node *n)
{
    ir_type q = n->in[0].value->type, v = n->in[2].value->type;
    int64_t d = ir_const_or(q->dim[3], -1), e = ir_const_or(v->dim[3], -1);
    (void)m;
    return (q->dtype == TCC_F32 || q->dtype == TCC_F16 || q->dtype == TCC_BF16) && d >= 1 && d <= FA_MOST_WIDTH &&
           e >= 1 && e <= FA_MOST_WIDTH;
}

int64_t cuda_attention_bytes(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct fa_shape s;
    return cuda_attention_shape(ctx, k, &s) ? s.bytes : 0;
}
