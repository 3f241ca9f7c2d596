/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_nest.c - finds the loop nest of a contraction (contract_int.h) in a kernel: which dim runs in vector lanes,
 * strides, splits of dims that blocked layouts ask for. Rows and guards are in contract_rows.c.
 */
#include "compiler/cpu/contract_int.h"
#include "ir/ir.h"

bool ct_stride_of(struct ir_ctx *ctx, ir_expr e, ir_expr sym, ir_expr *coef)
{
    ir_expr rest;
    if (!ir_uses_sym(e, sym)) {
        *coef = ir_const(ctx, 0);
        return true;
    }
    return ir_linear_in(ctx, e, sym, coef, &rest);
}

/* The largest constant that sym (or a sum with it) is divided by, or 0. */
static int64_t divisor_of(ir_expr e, ir_expr sym)
{
    int64_t c, most = 0;
    if ((e->kind == IR_X_FLOORDIV || e->kind == IR_X_MOD) && ir_is_const(e->arg[1], &c) && ir_uses_sym(e->arg[0], sym))
        most = c;
    for (int i = 0; i < e->nargs; i++) {
        c = divisor_of(e->arg[i], sym);
        most = c > most ? c : most;
    }
    return most;
}

bool ct_uses(ir_expr e, ir_expr sym)
{
    return e && ir_uses_sym(e, sym);
}

/* Does the instruction depend on sym, apart from its arguments and memory indexes? */
static bool insn_uses(const struct kn_insn *in, ir_expr sym)
{
    return ct_uses(in->expr, sym) || ct_uses(in->bound, sym) || kn_guards_use(in, sym);
}

/* The bf16, f16 or byte that instruction i is a cast of, to the type of the sum; or -1. */
static int small_of(const struct kn_kernel *k, int i)
{
    int small = kn_uncast(k, i), from = k->insns[small].dtype, to = k->insns[i].dtype;
    bool is = to == TCC_F32 ? from == TCC_BF16 || from == TCC_F16 : to == TCC_I32 && (from == TCC_U8 || from == TCC_I8);
    return is ? small : -1;
}

/* Of a form that the templates emit. */
static bool right_form(const struct kn_kernel *k, struct ct *c)
{
    const struct kn_contraction *t = &k->roles.contraction;
    if (!kn_only_multiplies(k) || !(t->n | t->m))
        return false;
    const struct kn_insn *la = &k->insns[t->load[0]], *lb = &k->insns[t->load[1]];
    c->dtype = (enum tcc_dtype)k->insns[t->mul].dtype;
    if (k->insns[t->reduce].dtype != (int)c->dtype ||
        (c->dtype != TCC_F32 && c->dtype != TCC_F64 && c->dtype != TCC_I32))
        return false;
    c->load_a = t->load[0];
    c->load_b = t->load[1];
    c->val_a = t->factor[0];
    c->val_b = t->factor[1];
    c->chain_a = c->val_a != c->load_a;
    c->chain_b = c->val_b != c->load_b;
    c->dot_a = small_of(k, c->val_a);
    c->dot_b = small_of(k, c->val_b);
    c->extra_m = t->m;
    c->extra_n = t->n;
    c->batch = t->batch;
    return la->arg[0] < 0 && lb->arg[0] < 0 && la->nguards <= CT_MAX_GUARDS && lb->nguards <= CT_MAX_GUARDS;
}

static void add_k(struct ct *c, int dim, int64_t scale, ir_expr var, ir_expr extent)
{
    struct ct_k *t = &c->ks[c->nks++];
    *t = (struct ct_k){
        .dim = dim, .scale = scale, .step = 1, .var = var, .extent = extent, .n = ir_const_or(extent, CT_DYN)};
    ct_stride_of(c->ctx, c->off_a, var, &t->ea);
    ct_stride_of(c->ctx, c->off_b, var, &t->eb);
    t->sa = ir_const_or(t->ea, CT_DYN);
    t->sb = ir_const_or(t->eb, CT_DYN);
}

/* Adds the loops of part `var` of dim d: one, or where a blocked layout divides it those of its high and its low
 * part. */
static bool add_parts(struct ct *c, int d, int64_t scale, ir_expr var, ir_expr extent)
{
    ir_expr coef;
    bool in_a = ct_stride_of(c->ctx, c->off_a, var, &coef), in_b = ct_stride_of(c->ctx, c->off_b, var, &coef);
    if (c->nks == CT_MAX_K)
        return false;
    if (in_a && in_b) {
        add_k(c, d, scale, var, extent);
        return true;
    }
    int64_t div = divisor_of(c->off_a, var), other = divisor_of(c->off_b, var), n = ir_const_or(extent, CT_DYN);
    div = other > div ? other : div;
    if (div < 2 || n == div || (n == CT_DYN && (in_a || in_b)))
        return false;
    ir_expr high = ir_iter(c->ctx, "kh", ir_ceildiv(c->ctx, extent, ir_const(c->ctx, div)));
    ir_expr low = ir_iter(c->ctx, "kl", ir_const(c->ctx, div));
    ir_expr both = ir_add(c->ctx, ir_mulc(c->ctx, high, div), low);
    c->off_a = ir_subst(c->ctx, c->off_a, 1, &var, &both);
    c->off_b = ir_subst(c->ctx, c->off_b, 1, &var, &both);
    int before = c->nks;
    if (!add_parts(c, d, scale * div, high, high->extent) || !add_parts(c, d, scale, low, low->extent))
        return false;
    bool cut = n != CT_DYN && n % div && scale == 1 && c->depth == 1 && c->nks == before + 2;
    if (cut) /* what pads a block is zero: whole groups of steps where both are padded */
        c->ks[c->nks - 1].last = in_a || in_b ? n % div : (n % div + 3) / 4 * 4 % div;
    c->unpadded |= cut && (in_a || in_b);
    return cut || n == CT_DYN || n % div == 0 || !(in_a || in_b);
}

/* What the loops of the sum are sorted by, descending: B's stride; symbolic ones count as large and keep their order.
 * So do loops of one point where a step takes several neighbours along the innermost one: each would have zeros beside
 * it. */
static int64_t distance(const struct ct *c, const struct ct_k *t)
{
    return t->sb == CT_DYN || (c->depth > 1 && t->n == 1) ? INT64_MAX : t->sb;
}

/* The loops of the sum; innermost the one that walks B in small steps. */
static bool find_ks(struct ct *c)
{
    const struct kn_kernel *k = c->k;
    for (int d = 0; d < k->ndims; d++)
        if ((k->roles.contraction.k >> d & 1) && !add_parts(c, d, 1, k->dims[d].var, k->dims[d].extent))
            return false;
    for (int i = 1; i < c->nks; i++) {
        struct ct_k t = c->ks[i];
        int j = i;
        for (; j > 0 && distance(c, &c->ks[j - 1]) < distance(c, &t); j--)
            c->ks[j] = c->ks[j - 1];
        c->ks[j] = t;
    }
    for (int i = 0; i < c->nks; i++)
        for (int j = i + 1; j < c->nks; j++)
            if (c->ks[i].last && c->ks[i].dim == c->ks[j].dim)
                return false; /* blocks are counted inside of one */
    c->ksize = ir_const(c->ctx, 1);
    for (int i = 0; i < c->nks; i++)
        c->ksize = ir_mul(c->ctx, c->ksize, c->ks[i].extent);
    c->nk = ir_const_or(c->ksize, CT_DYN);
    return true;
}

/* Does the first store (or, for want of one, B) have unit stride along dim d? */
static bool unit_stride_out(const struct ct *c, int d)
{
    const struct kn_kernel *k = c->k;
    for (int i = kn_main_stage(k)->last; i < k->ninsns; i++) {
        const struct kn_insn *in = &k->insns[i];
        ir_expr coef;
        if (in->code == KN_STORE)
            return ct_stride_of(c->ctx, kn_flat_offset(c->ctx, &k->operands[in->operand], in->index), k->dims[d].var,
                                &coef) &&
                   ir_is_value(coef, 1);
    }
    return false;
}

static bool unit_stride_in(const struct ct *c, uint32_t set)
{
    for (int d = 0; d < c->k->ndims; d++)
        if (set >> d & 1 && !ir_is_value(c->k->dims[d].extent, 1) && unit_stride_out(c, d))
            return true;
    return false;
}

/* A dim of both operands that the one with offset `off` holds only divided by a constant: that constant, or 0. */
static int64_t period_of(struct ct *c, ir_expr off, int d)
{
    ir_expr var = c->k->dims[d].var, coef;
    int64_t p = divisor_of(off, var), n = ir_const_or(c->k->dims[d].extent, CT_DYN);
    if (p < 2 || n == CT_DYN || n % p)
        return 0;
    ir_expr high = ir_iter(c->ctx, "g", ir_const(c->ctx, n / p)), low = ir_iter(c->ctx, "r", ir_const(c->ctx, p));
    ir_expr both = ir_add(c->ctx, ir_mulc(c->ctx, high, p), low);
    off = ir_subst(c->ctx, off, 1, &var, &both);
    return ct_stride_of(c->ctx, off, low, &coef) && ir_is_value(coef, 0) ? p : 0;
}

/* Vectors want to run along the dim that the result is consecutive in. If that is one of the kernel's a, the two change
 * roles. */
static void choose_roles(struct ct *c)
{
    if (unit_stride_in(c, c->extra_n) || !unit_stride_in(c, c->extra_m))
        return;
    ir_expr coef;
    int rows = -1;
    int64_t period = 0;
    for (int d = 0; d < c->k->ndims; d++)
        if (c->extra_n >> d & 1 && !ir_is_value(c->k->dims[d].extent, 1))
            rows = d;
    /* Groups: the last dim of both that our B sees by groups only is a row dim of ours. */
    for (int d = 0; d < c->k->ndims && (rows < 0 || period); d++)
        if (c->batch >> d & 1 && period_of(c, c->off_a, d)) {
            rows = d;
            period = period_of(c, c->off_a, d);
        }
    if (rows < 0 || !ct_stride_of(c->ctx, c->off_b, c->k->dims[rows].var, &coef))
        return; /* or: packed for the usual roles */
    if (period) {
        c->period = period;
        c->batch &= ~(1u << rows);
        c->extra_n |= 1u << rows;
    }
#define SWAP(type, x, y)  \
    do {                  \
        type swap_ = (x); \
        (x) = (y);        \
        (y) = swap_;      \
    } while (0)
    SWAP(int, c->load_a, c->load_b);
    SWAP(int, c->val_a, c->val_b);
    SWAP(bool, c->chain_a, c->chain_b);
    SWAP(int, c->dot_a, c->dot_b);
    SWAP(ir_expr, c->off_a, c->off_b);
    SWAP(uint32_t, c->extra_m, c->extra_n);
#undef SWAP
}

/* How far apart columns of a ready B are: groups of the sum's points may lie together. */
static int64_t lanes_apart(const struct ct *c)
{
    return c->ks[c->nks - 1].n == c->depth && c->ks[c->nks - 1].sb == 1 ? c->depth : 1;
}

/* Is the vector dim, with the n dim next to it, one run of consecutive columns? */
static bool one_with_next(const struct ct *c)
{
    for (int d = c->vec - 1; d >= 0; d--)
        if (c->extra_n >> d & 1 && !ir_is_value(c->k->dims[d].extent, 1))
            return ct_collapses(c, d, c->vec, c->cols);
    return false;
}

/* B's step for a point of dim d, blocks of n columns: every block a panel, or several of them side by side in a
 * panel. */
static bool block_step(const struct ct *c, int d, int64_t n, int64_t *panel, int64_t *step)
{
    struct ir_ctx *ctx = c->ctx;
    ir_expr var = c->k->dims[d].var, coef;
    *panel = n;
    if (ct_stride_of(ctx, c->off_b, var, &coef)) {
        *step = ir_const_or(coef, CT_DYN);
        return ir_const_or(coef, 0) > 0;
    }
    int64_t side = divisor_of(c->off_b, var), points = ir_const_or(c->k->dims[d].extent, CT_DYN);
    if (side < 2 || points == CT_DYN || points % side || n % c->lanes)
        return false;
    ir_expr high = ir_iter(ctx, "np", ir_const(ctx, points / side)), low = ir_iter(ctx, "nb", ir_const(ctx, side));
    ir_expr both = ir_add(ctx, ir_mulc(ctx, high, side), low), off = ir_subst(ctx, c->off_b, 1, &var, &both);
    if (!ct_stride_of(ctx, off, low, &coef) || !ir_is_value(coef, n) || !ct_stride_of(ctx, off, high, &coef))
        return false;
    *panel = n * side;
    *step = ir_const_or(coef, CT_DYN);
    return ir_const_or(coef, 0) > 0;
}

static void find_blocks(struct ct *c, int64_t n)
{
    const struct kn_kernel *k = c->k;
    int64_t panel, step;
    for (int d = 0; d < k->ndims; d++)
        if (c->extra_n >> d & 1 && ir_const_or(k->dims[d].extent, CT_DYN) != 1 && block_step(c, d, n, &panel, &step)) {
            c->block = d;
            c->panel = panel;
            c->panel_stride = step;
        }
    if (c->block < 0)
        return;
    c->width = n;
    c->extra_n &= ~(1u << c->block);
    c->cols = ir_mulc(c->ctx, k->dims[c->block].extent, n);
    while (c->lanes > n || n % c->lanes)
        c->lanes /= 2;
}

static bool find_columns(struct ct *c)
{
    const struct kn_kernel *k = c->k;
    struct ir_ctx *ctx = c->ctx;
    c->vec = c->block = -1;
    for (int d = 0; d < k->ndims; d++)
        if (c->extra_n >> d & 1 && !ir_is_value(k->dims[d].extent, 1) && (c->vec < 0 || !unit_stride_out(c, c->vec)))
            c->vec = d;
    if (c->vec < 0)
        return false;
    ir_expr var = k->dims[c->vec].var, coef;
    int64_t n = ir_const_or(k->dims[c->vec].extent, CT_DYN), apart = lanes_apart(c);
    c->columns = 1u << c->vec;
    c->extra_n &= ~c->columns;
    if (!ct_stride_of(ctx, c->off_b, var, &c->vec_eb)) {
        c->panel = divisor_of(c->off_b, var);
        if (c->panel < 2 || c->panel % c->lanes)
            return false;
        ir_expr high = ir_iter(ctx, "np", ir_ceildiv(ctx, k->dims[c->vec].extent, ir_const(ctx, c->panel)));
        ir_expr low = ir_iter(ctx, "nj", ir_const(ctx, c->panel)),
                both = ir_add(ctx, ir_mulc(ctx, high, c->panel), low);
        ir_expr off = ir_subst(ctx, c->off_b, 1, &var, &both);
        if (!ct_stride_of(ctx, off, low, &c->vec_eb) || (c->depth > 1 && !ir_is_value(c->vec_eb, apart)) ||
            !ct_stride_of(ctx, off, high, &coef))
            return false;
        c->panel_stride = ir_const_or(coef, CT_DYN);
    }
    c->vec_sb = ir_const_or(c->vec_eb, CT_DYN);
    c->cols = k->dims[c->vec].extent;
    /* A short vector dim beside another n dim, with which it can't run as one: channel blocks. */
    if (n != CT_DYN && n <= 64 && !c->panel && c->extra_n && (n % c->lanes == 0 || c->lanes % n == 0) && n % 4 == 0 &&
        !one_with_next(c))
        find_blocks(c, n);
    for (int d = c->vec - 1; d >= 0 && c->block < 0 && !c->panel; d--) {
        if (!(c->extra_n >> d & 1) || ir_is_value(k->dims[d].extent, 1))
            continue;
        if (!ct_collapses(c, d, c->vec, c->cols))
            break;
        c->columns |= 1u << d;
        c->extra_n &= ~(1u << d);
        c->cols = ir_mul(ctx, c->cols, k->dims[d].extent);
    }
    c->ncols = ir_const_or(c->cols, CT_DYN);
    return true;
}

bool ct_collapses(const struct ct *c, int outer, int row, ir_expr rows)
{
    const struct kn_kernel *k = c->k;
    ir_expr vo = k->dims[outer].var, vr = k->dims[row].var, so, sr;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *in = &k->insns[i];
        if (insn_uses(in, vo) || insn_uses(in, vr))
            return false;
        if (in->code != KN_LOAD && in->code != KN_STORE)
            continue;
        ir_expr off = kn_flat_offset(c->ctx, &k->operands[in->operand], in->index);
        if (!ct_stride_of(c->ctx, off, vo, &so) || !ct_stride_of(c->ctx, off, vr, &sr) ||
            ir_expr_eq(c->ctx, so, ir_mul(c->ctx, sr, rows)) != IR_YES)
            return false;
    }
    return true;
}

/*
 * The store from which a sum can be taken up again: the one thing that later stages do is to store it, zeros in padding
 * lanes. The sum's outermost loop must not be cut by guards.
 */
static int resumable(const struct ct *c)
{
    const struct kn_kernel *k = c->k;
    int store = -1;
    for (int i = kn_main_stage(k)->last; i < k->ninsns; i++) {
        const struct kn_insn *in = &k->insns[i];
        if (in->code == KN_STORE && store >= 0)
            return -1;
        if (in->code == KN_STORE)
            store = i;
        else if (in->code != KN_EXPR && in->code != KN_CONST &&
                 !(in->code == KN_SCALAR && in->op == IR_select && in->arg[1] == k->roles.contraction.reduce &&
                   k->insns[in->arg[0]].code == KN_EXPR && k->insns[in->arg[2]].code == KN_CONST))
            return -1;
    }
    for (int g = 0; g < c->nguards; g++)
        if (c->guards[g].k == 0)
            return -1;
    if (store < 0 || k->insns[store].dtype != c->dtype || c->pack_a || c->pack_b || c->ks[0].unroll || c->late_rows)
        return -1;
    return store;
}

/*
 * Rows of A that lie in no simple order (windows of an image, one of several tensors), or guards that are more than
 * bounds of loops: A is copied first, element by element as its load says. Not for windows over images, whose copy is
 * many times A.
 */
static bool copy_rows(struct ct *c)
{
    if (c->k->kind == IR_K_WINDOW || c->period)
        return false;
    c->extra_m |= c->collapsed;
    c->collapsed = 0;
    c->nguards = c->nrowguards = 0;
    c->late_rows = false;
    for (int i = 0; i < c->nks; i++)
        c->ks[i].unroll = false;
    c->row = ct_row_dim(c);
    c->rows = c->row < 0 ? ir_const(c->ctx, 1) : c->k->dims[c->row].extent;
    c->nrows = ir_const_or(c->rows, CT_DYN);
    c->row_ea = ir_const(c->ctx, 0);
    c->row_sa = 0;
    if (c->row >= 0)
        c->collapsed = 1u << c->row;
    c->extra_m &= ~c->collapsed;
    return true;
}

/* Steps whose values of A, which lie side by side, are lanes of one vector; 0: none. */
static int steps_by_lane(const struct cpu_machine *m, const struct ct *c)
{
    const struct ct_k *last = &c->ks[c->nks - 1];
    int n = m->lane_bytes / tcc_dtype_bytes(c->dtype);
    bool fits = !c->halves && !c->square && (!ct_half(c) || c->unpaired) && !last->unroll &&
                (c->depth != 4 || m->multiplies_bytes) && (c->pack_a ? !c->a_by_k : last->sa == c->depth) &&
                (last->n == CT_DYN || last->n >= n) && c->lanes * tcc_dtype_bytes(c->dtype) == m->emit.vector_bytes;
    return fits && n > 1 ? n : 0;
}

/* Is what a store stores zero for all `lanes` columns from x on? So it is where they pad a result: a choice by an
 * expression of the columns' numbers (store_value() of passes/kernel/inline.c). */
static bool stores_zeros(const struct ct *c, const struct kn_insn *store, int64_t x)
{
    const struct kn_kernel *k = c->k;
    const struct kn_insn *select = &k->insns[store->arg[0]];
    if (select->code != KN_SCALAR || select->op != IR_select || k->insns[select->arg[0]].code != KN_EXPR)
        return false;
    const struct kn_insn *other = &k->insns[select->arg[2]];
    int64_t in_block = c->block < 0 ? x : x % c->width;
    ir_expr from[2] = {k->dims[c->vec].var}, to[2];
    to[0] = ir_addc(c->ctx, ir_iter(c->ctx, "lane", ir_const(c->ctx, c->lanes)), in_block);
    if (c->block >= 0) {
        from[1] = k->dims[c->block].var;
        to[1] = ir_const(c->ctx, x / c->width);
    }
    ir_expr inside = ir_subst(c->ctx, k->insns[select->arg[0]].expr, 1 + (c->block >= 0), from, to);
    return other->code == KN_CONST && other->fvalue == 0 && other->ivalue == 0 &&
           ir_expr_le(c->ctx, inside, ir_const(c->ctx, 0)) == IR_YES;
}

/* Columns up to the last vector of which some result is wanted. */
static int64_t live_columns(const struct ct *c)
{
    const struct kn_kernel *k = c->k;
    int64_t block = c->block < 0 ? c->ncols : c->width, live = c->ncols;
    if (live == CT_DYN || block % c->lanes || (c->block < 0 && c->columns != 1u << c->vec))
        return live;
    for (bool zeros = true; zeros && live > c->ncols - block + c->lanes; live -= zeros ? c->lanes : 0)
        for (int i = kn_main_stage(k)->last; i < k->ninsns && zeros; i++)
            zeros = k->insns[i].code != KN_STORE || stores_zeros(c, &k->insns[i], live - c->lanes);
    return live;
}

/* Columns that lie side by side in what a store stores, and then those of the next row do; 0: no such order. */
static int columns_in_turns(const struct ct *c, const struct kn_insn *store)
{
    ir_expr off = kn_flat_offset(c->ctx, &c->k->operands[store->operand], store->index), coef;
    ir_expr row = c->k->dims[c->row].var, column = c->k->dims[c->vec].var;
    if (store->nguards || kn_is_gathered(c->k, off) || !ct_stride_of(c->ctx, off, row, &coef))
        return 0;
    int64_t n = ir_const_or(coef, 0);
    if (n == 1 || (n != 2 && n != 4) || c->ncols % n)
        return n == 1;
    ir_expr high = ir_iter(c->ctx, "g", ir_const(c->ctx, c->ncols / n)),
            low = ir_iter(c->ctx, "r", ir_const(c->ctx, n));
    ir_expr both = ir_add(c->ctx, ir_mulc(c->ctx, high, n), low);
    off = ir_subst(c->ctx, off, 1, &column, &both);
    return ct_stride_of(c->ctx, off, low, &coef) && ir_is_value(coef, 1) ? (int)n : 0;
}

/* The same for all stores of few columns, where these are not what lies side by side as it is. */
static int crossed_columns(const struct ct *c)
{
    const struct kn_kernel *k = c->k;
    int n = 0;
    if (c->dtype != TCC_F32 || c->square || c->row < 0 || c->block >= 0 || c->columns != 1u << c->vec ||
        c->ncols == CT_DYN || c->ncols > c->lanes || c->live != c->ncols || unit_stride_out(c, c->vec))
        return 0;
    for (int i = kn_main_stage(k)->last; i < k->ninsns; i++) {
        const struct kn_insn *in = &k->insns[i];
        enum tcc_dtype d = (enum tcc_dtype)in->dtype;
        if (in->code != KN_STORE)
            continue;
        int here = d == TCC_F32 || d == TCC_BF16 || d == TCC_F16 ? columns_in_turns(c, in) : 0;
        if (!here || (n && n != here))
            return 0;
        n = here;
    }
    return n;
}

/* Where there are 16 registers: with 32, sums are as many as hide what loads take. */
static int shared_steps(const struct cpu_machine *m, const struct ct *c)
{
    enum { ALL = 8, TURN = 4 }; /* steps without a loop, and of a turn (contract_micro.c) */
    const struct ct_k *last = &c->ks[c->nks - 1];
    bool shares = m->registers == 16 && c->depth == 1 && !c->pack_a && last->sa > 0 && last->sa == c->row_sa;
    return !shares ? 0 : last->n == CT_DYN || last->n > ALL ? TURN : (int)last->n;
}

enum { SHARED_ROWS = 16 }; /* more than these make sums of B's columns worth a loop of their own */

/* `together`: in steps of several neighbours, `square`: in squares. */
static bool analyse(const struct cpu_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k, struct ct *c,
                    bool together, bool square)
{
    *c = (struct ct){.ctx = ctx, .k = k, .depth = 1, .square = square};
    if (!right_form(k, c))
        return false;
    if (together)
        c->depth = ct_depth(m, c);
    if (together && c->depth == 1)
        return false;
    c->lanes = cpu_lanes(m, tcc_dtype_bytes(c->dtype));
    if (c->lanes < 2)
        return false;
    c->off_a = kn_flat_offset(ctx, &k->operands[k->insns[c->load_a].operand], k->insns[c->load_a].index);
    c->off_b = kn_flat_offset(ctx, &k->operands[k->insns[c->load_b].operand], k->insns[c->load_b].index);
    choose_roles(c);
    if (!c->extra_n || !find_ks(c) || !find_columns(c))
        return false;
    ct_find_rows(c);
    bool rough = c->row < 0 && ct_row_dim(c) >= 0;
    bool computed = together ? c->dot_a != c->load_a : c->chain_a;
    rough = !ct_find_guards(c) || (c->nguards && computed) || rough;
    if (rough && (together || !copy_rows(c)))
        return false;
    const struct kn_operand *a = &k->operands[k->insns[c->load_a].operand],
                            *b = &k->operands[k->insns[c->load_b].operand];
    c->pack_b = c->chain_b || k->insns[c->load_b].nguards || b->dtype != c->dtype || c->vec_sb != 1 ||
                c->panel_stride == CT_DYN;
    c->pack_a = rough || c->chain_a || a->dtype != c->dtype;
    if ((together && !ct_dot(m, c)) || (c->pack_a && c->nguards) || (c->unpadded && (c->pack_a || c->pack_b)))
        return false;
    ct_pack_bytes(m, c);
    ct_choose_copies(m, c);
    c->by_lane = steps_by_lane(m, c);
    c->shifted = c->depth == 4 && !c->halves && m->dot_bytes_signed && k->insns[c->dot_a].dtype == TCC_U8;
    c->pairs = c->shifted && m->dot_bytes_pairs;
    c->columns_first = c->shifted && (c->nrows > SHARED_ROWS || c->extra_m) && !c->nguards && !c->nrowguards;
    c->resume = resumable(c);
    c->live = live_columns(c);
    c->crossed = crossed_columns(c);
    c->shared = shared_steps(m, c);
    /* The columns of B must be walked by packing or by constant steps. */
    if (c->pack_b && c->block >= 0 && c->width % c->lanes)
        return false;
    return true;
}

bool ct_analyse(const struct cpu_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k, struct ct *c)
{
    return ((m->squares_bytes || m->squares_bf16) && analyse(m, ctx, k, c, true, true)) ||
           analyse(m, ctx, k, c, true, false) || analyse(m, ctx, k, c, false, false);
}
