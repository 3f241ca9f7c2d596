/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window_find.c - which kernels are sliding windows as window.c makes code for, and their parts: lanes, neighbours of a
 * row, taps, loads that are linear in both, and the guards of padding as bounds of rows or of taps' loops.
 */
#include "compiler/cpu/window_int.h"

enum { W_ROW_TILE = 8 }; /* of rows of unknown length */

static bool coefficient_expr(struct ir_ctx *ctx, ir_expr e, ir_expr sym, ir_expr *c)
{
    ir_expr rest;
    *c = ir_const(ctx, 0);
    return !ir_uses_sym(e, sym) || ir_linear_in(ctx, e, sym, c, &rest);
}

static bool coefficient(struct ir_ctx *ctx, ir_expr e, ir_expr sym, int64_t *c)
{
    ir_expr coef;
    return coefficient_expr(ctx, e, sym, &coef) && ir_is_const(coef, c);
}

static ir_expr flat_offset(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *in)
{
    const struct kn_operand *o = &k->operands[in->operand];
    ir_expr off = ir_const(ctx, 0);
    for (int p = 0; p < o->rank; p++)
        off = ir_add(ctx, ir_mul(ctx, off, o->dims[p]), in->index[p]);
    return off;
}

/* Is it the constant that a maximum (a minimum) of its type begins with? */
static bool is_extreme(const struct kn_insn *c, bool most)
{
    enum tcc_dtype d = c ? (enum tcc_dtype)c->dtype : TCC_NONE;
    if (!c || (!tcc_is_float(d) && !tcc_is_int(d)))
        return false;
    if (tcc_is_float(d))
        return c->fvalue == (most ? __builtin_inf() : -__builtin_inf());
    int bits = 8 * tcc_dtype_bytes(d);
    int64_t high = tcc_is_signed(d) ? (int64_t)((UINT64_C(1) << (bits - 1)) - 1) : (int64_t)((UINT64_C(1) << bits) - 1);
    return bits < 64 && c->ivalue == (most ? high : tcc_is_signed(d) ? -high - 1 : 0);
}

/* What a load gives where its guards fail leaves reduction r as it was. */
static bool skips(const struct kn_kernel *k, const struct kn_insn *load, const struct kn_insn *red, int value)
{
    const struct kn_insn *in = &k->insns[value], *other = load->arg[0] >= 0 ? &k->insns[load->arg[0]] : NULL;
    if (in == load) {
        double f = other ? other->fvalue : 0;
        if (other && other->code != KN_CONST)
            return false;
        return red->reducer == KN_SUM   ? (other ? tcc_is_float(other->dtype) ? f == 0 : other->ivalue == 0 : true)
               : red->reducer == KN_MAX ? is_extreme(other, false)
               : red->reducer == KN_MIN ? is_extreme(other, true)
                                        : false;
    }
    if (red->reducer != KN_SUM || in->code != KN_SCALAR || (in->op != IR_mul && in->op != IR_cast))
        return false;
    for (int a = 0; a < in->nargs; a++)
        if (skips(k, load, red, in->arg[a]))
            return true;
    return false;
}

static bool find_guards(struct window *w, const struct kn_insn *in)
{
    for (int r = 0; r < w->nreds; r++)
        if (in->nguards && !skips(w->k, in, &w->k->insns[w->red[r]], w->k->insns[w->red[r]].arg[0]))
            return false;
    for (int g = 0; g < in->nguards; g++) {
        if (w->nguards == W_MAX_GUARDS)
            return false;
        struct w_guard *t = &w->guard[w->nguards++];
        ir_expr coef, e = in->guards[g].e;
        *t = (struct w_guard){.tap = -1, .lo = in->guards[g].lo, .hi = in->guards[g].hi};
        for (int i = 0; i < w->ntaps; i++) {
            ir_expr v = w->k->dims[w->tap_dim[i]].var;
            if (!ir_uses_sym(e, v))
                continue;
            if (t->tap >= 0 || !ir_linear_in(w->ctx, e, v, &coef, &t->rest))
                return false;
            t->tap = i;
            t->tap_coef = ir_const_or(coef, 0);
            e = t->rest;
        }
        ir_expr v = w->k->dims[w->row].var;
        if (ir_uses_sym(e, v)) {
            if (!ir_linear_in(w->ctx, e, v, &coef, &t->rest))
                return false;
            t->row_coef = ir_const_or(coef, 0);
            e = t->rest;
            bool known = ir_is_const(e, NULL) && ir_is_const(t->lo, NULL) && ir_is_const(t->hi, NULL);
            if (t->row_coef <= 0 || (t->tap >= 0 && w->tap_n[t->tap] > 16) || (w->nrows && !known) ||
                (!w->nrows && (t->tap < 0 || t->tap_coef <= 0)))
                return false;
            if (t->tap >= 0)
                w->unroll[t->tap] = true;
        } else if (t->tap < 0 || t->tap_coef <= 0) {
            return false;
        }
        if (ir_uses_sym(e, w->k->dims[w->vec].var))
            return false;
        t->rest = e;
    }
    return true;
}

/* Elements from one step of a tap to the next; lanes that don't fit in a vector are a tap too. */
static ir_expr tap_step(const struct window *w, int tap, ir_expr coef)
{
    return ir_mulc(w->ctx, coef, w->tap_dim[tap] == w->vec ? w->lanes : 1);
}

/* Does it change from one element that is made to the next, or from tap to tap? */
static bool changes(const struct window *w, ir_expr e)
{
    bool does = ir_uses_sym(e, w->k->dims[w->row].var) || ir_uses_sym(e, w->k->dims[w->vec].var);
    for (int t = 0; t < w->ntaps; t++)
        does = does || ir_uses_sym(e, w->k->dims[w->tap_dim[t]].var);
    return does;
}

static bool find_load(struct window *w, int i)
{
    const struct kn_insn *in = &w->k->insns[i];
    if (w->nloads == W_MAX_LOADS)
        return false;
    struct w_load *l = &w->load[w->nloads++];
    int64_t c;
    l->insn = i;
    l->off = flat_offset(w->ctx, w->k, in);
    if (!coefficient(w->ctx, l->off, w->k->dims[w->row].var, &l->row) ||
        !coefficient(w->ctx, l->off, w->k->dims[w->vec].var, &c) || (c != 0 && c != 1))
        return false;
    l->uniform = c == 0;
    for (int t = 0; t < w->ntaps; t++)
        if (!coefficient_expr(w->ctx, l->off, w->k->dims[w->tap_dim[t]].var, &l->tap[t]) || changes(w, l->tap[t]))
            return false;
    for (int t = 0; t < w->ntaps; t++)
        l->tap[t] = tap_step(w, t, l->tap[t]);
    for (int g = 0; w->folds && g < in->nguards; g++)
        if (ir_uses_sym(in->guards[g].e, w->k->dims[w->vec].var))
            return false;
    /* Of several columns lanes are channels, not taps along the row. */
    if (w->folds && (l->uniform || (w->k->roles.contraction.n && l->row % w->lanes)))
        return false;
    return find_guards(w, in);
}

/* The lane dim: short, constant, of unit stride in the first store; of sums over the lanes the last inner one. */
static bool find_lanes(struct window *w, const struct cpu_machine *m)
{
    const struct kn_kernel *k = w->k;
    int64_t n = 0, c;
    w->vec = -1;
    for (int d = 0; w->folds && d < k->ndims; d++)
        if (k->dims[d].role == KN_INNER && ir_is_const(k->dims[d].extent, &n) && n > 1)
            w->vec = d;
    for (int i = kn_main_stage(k)->last; !w->folds && i < k->ninsns && w->vec < 0; i++) {
        if (k->insns[i].code != KN_STORE)
            continue;
        ir_expr off = flat_offset(w->ctx, k, &k->insns[i]);
        for (int d = 0; d < em_nouter(k); d++)
            if (coefficient(w->ctx, off, k->dims[d].var, &c) && c == 1 && ir_is_const(k->dims[d].extent, &n) && n > 1)
                w->vec = d;
        break;
    }
    if (w->vec < 0)
        return false;
    n = ir_const_or(k->dims[w->vec].extent, 0);
    w->lanes = cpu_lanes(m, 4);
    while (w->lanes > 1 && n % w->lanes)
        w->lanes /= 2;
    return w->lanes >= 4;
}

/* The row: the last outer dim beside the lanes. */
static bool find_dims(struct window *w, const struct cpu_machine *m)
{
    const struct kn_kernel *k = w->k;
    int64_t n;
    w->row = -1;
    if (!find_lanes(w, m))
        return false;
    for (int d = 0; d < em_nouter(k); d++)
        if (d != w->vec && ir_const_or(k->dims[d].extent, 2) > 1)
            w->row = d;
    for (int d = 0; d < k->ndims; d++) {
        if (k->dims[d].role != KN_INNER)
            continue;
        if (!ir_is_const(k->dims[d].extent, &n))
            return false;
        n = d == w->vec ? n / w->lanes : n;
        if (d == w->vec && n == 1)
            continue;
        if (w->ntaps == W_MAX_TAPS)
            return false;
        w->tap_n[w->ntaps] = n;
        w->tap_dim[w->ntaps++] = d;
    }
    w->nrows = w->row < 0 ? 0 : ir_const_or(k->dims[w->row].extent, 0);
    return w->row >= 0 && w->ntaps;
}

/* The load that instruction i widens to i32, if it is one of bytes of type d; or -1. */
static int widened(const struct window *w, int i, enum tcc_dtype d)
{
    const struct kn_insn *n = &w->k->insns[i];
    for (int l = 0; n->code == KN_SCALAR && n->op == IR_cast && n->dtype == TCC_I32 && l < w->nloads; l++)
        if (w->load[l].insn == n->arg[0] && w->k->insns[n->arg[0]].dtype == d && !w->load[l].uniform)
            return l;
    return -1;
}

/* A sum of products of unsigned by signed bytes, whose innermost taps are unrolled? */
static void find_dot(struct window *w)
{
    const struct kn_insn *red = &w->k->insns[w->red[0]], *mul = &w->k->insns[red->arg[0]];
    w->dot_u = w->dot_s = -1;
    if (w->nreds != 1 || w->nloads != 2 || red->reducer != KN_SUM || red->dtype != TCC_I32 || mul->code != KN_SCALAR ||
        mul->op != IR_mul || !w->unroll[w->ntaps - 1] || !ir_is_const(w->load[0].tap[w->ntaps - 1], NULL) ||
        !ir_is_const(w->load[1].tap[w->ntaps - 1], NULL))
        return;
    for (int i = 0; i < 2; i++) {
        int u = widened(w, mul->arg[i], TCC_U8), s = widened(w, mul->arg[1 - i], TCC_I8);
        if (u >= 0 && s >= 0) {
            w->dot_u = u;
            w->dot_s = s;
        }
    }
}

/*
 * Without an instruction for groups of bytes a float's multiply-add takes a tap, where widened bytes take a product of
 * two taps and a sum, and shifts that bring their taps together. What is converted serves all taps of a row.
 */
static bool floats_pay(const struct cpu_machine *m, const struct window *w)
{
    int64_t most = 255 * 128; /* a tap's product */
    for (int t = 0; t < w->ntaps; t++)
        most *= w->tap_n[t] < 1 << 12 ? w->tap_n[t] : 1 << 12;
    return w->dot_u >= 0 && m->dot_halves && !m->multiplies_bytes && m->emit.fma && most <= 1 << 24;
}

/* Neighbours in a register tile. */
static int tile_rows(const struct cpu_machine *m, const struct window *w)
{
    int max = m->registers / 2 / w->nreds; /* the rest for loads that LLVM moves up */
    if (w->folds)
        return w->lanes < max ? w->lanes : max;
    max = max < 1 ? 1 : max > 14 ? 14 : max;
    int64_t blocks = (w->nrows + max - 1) / max;
    return w->nrows ? (int)((w->nrows + blocks - 1) / blocks) : max < W_ROW_TILE ? max : W_ROW_TILE;
}

/* Sums of floats, one in each point, may be folded. */
static bool may_fold(const struct window *w)
{
    const struct kn_insn *red = &w->k->insns[w->red[0]];
    return w->nreds == 1 && red->reducer == KN_SUM && red->dtype == TCC_F32;
}

/* Has a convolution whose lanes are summed up several taps, and so few columns that each is worth a pass over the
 * image? Products in lanes of columns would be wasted on padding for more than half. */
static bool few_columns(const struct window *w, unsigned columns)
{
    enum { FEW = 7 };
    int64_t all = 1;
    int sums = 0;
    for (int d = 0; d < w->k->ndims; d++) {
        all *= columns & 1u << d ? ir_const_or(w->k->dims[d].extent, FEW + 1) : 1;
        sums += w->k->dims[d].role == KN_INNER && !ir_is_value(w->k->dims[d].extent, 1);
    }
    return w->folds && all <= FEW && sums > 1;
}

/* What a pooling reduces, or a convolution whose results have no columns of their own, or few. */
static bool find_reductions(struct window *w)
{
    const struct kn_contraction *c = &w->k->roles.contraction;
    if (w->k->roles.form == KN_REDUCTION)
        for (; w->nreds < W_MAX_REDS && w->k->roles.reduction.reduce[w->nreds] >= 0; w->nreds++)
            w->red[w->nreds] = w->k->roles.reduction.reduce[w->nreds];
    else if (kn_only_multiplies(w->k) && (!c->n || few_columns(w, c->n)))
        w->red[w->nreds++] = c->reduce;
    return w->nreds > 0;
}

bool cpu_find_window(const struct cpu_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k, bool folds,
                     struct window *w)
{
    *w = (struct window){.ctx = ctx, .k = k, .folds = folds};
    if (k->kind != IR_K_WINDOW || !find_reductions(w) || !find_dims(w, m))
        return false;
    for (int i = kn_main_stage(k)->first; i < kn_main_stage(k)->last; i++) {
        int code = k->insns[i].code;
        if (code != KN_REDUCE && code != KN_LOAD && code != KN_SCALAR && code != KN_CONST)
            return false;
    }
    for (int i = kn_main_stage(k)->first; i < kn_main_stage(k)->last; i++)
        if (k->insns[i].code == KN_LOAD && !find_load(w, i))
            return false;
    if (!w->nloads || (folds && !may_fold(w)))
        return false;
    for (int t = 0; t < w->ntaps; t++) {
        bool bounded =
            false; /* by guards that don't depend on the row: bounds of the tap's loop, which has to be one then */
        for (int i = 0; i < w->nguards; i++)
            bounded |= w->guard[i].tap == t && !w->guard[i].row_coef;
        if (bounded && w->unroll[t])
            return false;
        w->unroll[t] |= !bounded && t == w->ntaps - 1 && w->tap_n[t] <= 7;
    }
    find_dot(w);
    w->in_floats = floats_pay(m, w);
    w->mr = tile_rows(m, w);
    return true;
}
