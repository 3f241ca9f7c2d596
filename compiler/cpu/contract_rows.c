/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_rows.c - the rows of a contraction's loop nest: which dim they are, alone or with others as one, and what
 * guards (padding) leave of a step's rows.
 */
#include "compiler/cpu/contract_int.h"
#include "ir/ir.h"

/* Does padding cut what dim d reads by a long loop of the sum, so that nearly each of its points is cut somewhere? So
 * are the taps of a gradient by weight, and their number is small. */
static bool cut_taps(const struct ct *c, int d)
{
    const struct kn_kernel *k = c->k;
    const struct kn_insn *load = &k->insns[c->load_a];
    if (ir_const_or(k->dims[d].extent, CT_SHORT) >= CT_SHORT)
        return false;
    for (int g = 0; g < load->nguards; g++)
        for (int i = 0; i < k->ndims && ir_uses_sym(load->guards[g].e, k->dims[d].var); i++)
            if (k->roles.contraction.k >> i & 1 && ir_uses_sym(load->guards[g].e, k->dims[i].var) &&
                ir_const_or(k->dims[i].extent, CT_SHORT) >= CT_SHORT)
                return true;
    return false;
}

int ct_row_dim(const struct ct *c)
{
    int row = -1, any = -1;
    for (int d = 0; d < c->k->ndims; d++)
        if ((c->extra_m | c->collapsed) >> d & 1 && !ir_is_value(c->k->dims[d].extent, 1)) {
            any = d;
            if (!cut_taps(c, d))
                row = d;
        }
    return row < 0 ? any : row;
}

/* Dim `row` and those before it that run as its rows too, their number; empty where A isn't linear in it. */
static uint32_t rows_with(const struct ct *c, int row, ir_expr *rows)
{
    const struct kn_kernel *k = c->k;
    ir_expr coef;
    uint32_t dims = 1u << row;
    if (!ct_stride_of(c->ctx, c->off_a, k->dims[row].var, &coef))
        return 0;
    *rows = k->dims[row].extent;
    for (int d = row - 1; d >= 0 && !c->period; d--) {
        if (!(c->extra_m >> d & 1) || ir_is_value(k->dims[d].extent, 1))
            continue;
        if (!ct_collapses(c, d, row, *rows))
            break;
        dims |= 1u << d;
        *rows = ir_mul(c->ctx, *rows, k->dims[d].extent);
    }
    return dims;
}

/* How well a register tile is filled by so many rows along dim d: fewer than six wait for their own sums, and of an
 * unknown number there may be as few. Rows that lie an unknown distance apart have smaller tiles (max_rows()); of two
 * unknown numbers theirs is mostly the batch, the other the sequence. */
static double filled(const struct ct *c, int d, ir_expr rows)
{
    ir_expr apart = NULL;
    ct_stride_of(c->ctx, c->off_a, c->k->dims[d].var, &apart);
    int64_t n = ir_const_or(rows, CT_DYN);
    double full = n == CT_DYN ? 0.8 : n < 6 ? (double)n / 6 : 1;
    return apart && ir_is_const(apart, NULL) ? full : 0.9 * full;
}

/*
 * Rows are the last m dim, but of two that don't run as one (a sequence whose batch stands behind it) the one that
 * fills register tiles. Padding cuts rows of an image, and groups are of one dim: those stay.
 */
void ct_find_rows(struct ct *c)
{
    const struct kn_kernel *k = c->k;
    bool may_choose = !c->period && !k->insns[c->load_a].nguards && k->kind != IR_K_WINDOW;
    ir_expr other;
    c->row = ct_row_dim(c);
    c->rows = ir_const(c->ctx, 1);
    if (c->row >= 0 && !(c->collapsed = rows_with(c, c->row, &c->rows)))
        c->row = -1; /* one row at a time */
    for (int d = c->row - 1; d >= 0 && may_choose; d--) {
        uint32_t dims = c->extra_m >> d & 1 && !(c->collapsed >> d & 1) ? rows_with(c, d, &other) : 0;
        if (dims && filled(c, d, other) > filled(c, c->row, c->rows)) {
            c->row = d;
            c->collapsed = dims;
            c->rows = other;
        }
    }
    if (c->row >= 0)
        ct_stride_of(c->ctx, c->off_a, k->dims[c->row].var, &c->row_ea);
    c->extra_m &= ~c->collapsed;
    c->nrows = ir_const_or(c->rows, CT_DYN);
    c->row_sa = c->row >= 0 ? ir_const_or(c->row_ea, CT_DYN) : 0;
}

/*
 * Though nobody knows how many rows there are, padding often cuts the first and the last ones as it always does:
 * `before` is a number, and the last row lies as far from the end of what is read whatever its size.
 */
static void find_edges(struct ct *c)
{
    int g = 0;
    while (!c->guards[g].row_coef)
        g++;
    const struct ct_guard *t = &c->guards[g];
    if (c->collapsed != 1u << c->row || t->k >= c->nks - 1 || c->ks[t->k].n == CT_DYN || c->ks[t->k].n > 16)
        return;
    ir_expr end = ir_sub(c->ctx, ir_sub(c->ctx, t->hi, t->rest), ir_mulc(c->ctx, c->rows, t->row_coef));
    c->edge = g;
    c->edge_known[0] = ir_is_const(t->lo, NULL) && ir_is_const(t->rest, NULL);
    c->edge_known[1] = ir_is_const(end, &c->edge_room);
    c->ks[t->k].unroll = c->edge_known[0] || c->edge_known[1];
}

bool ct_find_guards(struct ct *c)
{
    const struct kn_insn *load = &c->k->insns[c->load_a];
    for (int g = 0; g < load->nguards; g++) {
        struct ct_guard *t = &c->guards[c->nguards++];
        ir_expr e = load->guards[g].e, coef;
        *t = (struct ct_guard){.lo = load->guards[g].lo, .hi = load->guards[g].hi, .k = -1};
        for (int i = 0; i < c->nks; i++) {
            /* A split dim in a guard would need its parts in the expression. */
            ir_expr var = c->ks[i].var;
            if (ct_uses(t->lo, c->k->dims[c->ks[i].dim].var) || ct_uses(t->hi, c->k->dims[c->ks[i].dim].var))
                return false;
            if (var != c->k->dims[c->ks[i].dim].var) {
                if (ir_uses_sym(e, c->k->dims[c->ks[i].dim].var))
                    return false;
                continue;
            }
            if (!ir_uses_sym(e, var))
                continue;
            if (t->k >= 0 || !ir_linear_in(c->ctx, e, var, &coef, &t->rest))
                return false;
            t->k = i;
            t->k_coef = ir_const_or(coef, 0);
            e = t->rest;
        }
        if (c->row >= 0 && ir_uses_sym(e, c->k->dims[c->row].var)) {
            if (!ir_linear_in(c->ctx, e, c->k->dims[c->row].var, &coef, &t->rest))
                return false;
            t->row_coef = ir_const_or(coef, 0);
            e = t->rest;
            if (t->row_coef <= 0)
                return false;
            c->nrowguards++;
            if (!ir_is_const(e, NULL) || !ir_is_const(t->lo, NULL) || !ir_is_const(t->hi, NULL) || c->nrows == CT_DYN ||
                (t->k >= 0 && (c->ks[t->k].n == CT_DYN || c->ks[t->k].n > 16)))
                c->late_rows = true;
            else if (t->k >= 0)
                c->ks[t->k].unroll = true;
        } else if (t->k < 0 || t->k_coef <= 0) {
            return false;
        }
        t->rest = e;
    }
    for (int g = 0; g < c->nguards && c->late_rows; g++)
        if (c->guards[g].row_coef && (c->guards[g].k < 0 || c->guards[g].k_coef <= 0))
            return false;
    for (int i = 0; i < c->nks && c->late_rows; i++)
        c->ks[i].unroll = false;
    if (c->late_rows && c->nrowguards == 1)
        find_edges(c);
    return true;
}

/* The first row with row_coef * row >= bound. */
static int64_t first_row(const struct ct_guard *t, int64_t bound)
{
    return bound <= 0 ? 0 : (bound + t->row_coef - 1) / t->row_coef;
}

struct em_span ct_row_range(const struct ct *c, const int64_t *tap)
{
    struct em_span r = em_span(0, c->nrows);
    for (int g = 0; g < c->nguards; g++) {
        const struct ct_guard *t = &c->guards[g];
        if (!t->row_coef)
            continue;
        int64_t rest = ir_const_or(t->rest, 0) + (t->k >= 0 ? t->k_coef * tap[t->k] : 0);
        r = em_span_cut(
            r, em_span(first_row(t, ir_const_or(t->lo, 0) - rest), first_row(t, ir_const_or(t->hi, 0) - rest)));
    }
    return r;
}

struct em_span ct_interior(const struct ct *c)
{
    struct em_span r = em_span(0, c->nrows);
    for (int g = 0; g < c->nguards; g++) {
        const struct ct_guard *t = &c->guards[g];
        int64_t taps = t->row_coef ? (t->k >= 0 ? c->ks[t->k].n : 1) : 0, tap[CT_MAX_K] = {0};
        for (int64_t i = 0; i < taps; i++) {
            if (t->k >= 0)
                tap[t->k] = i;
            r = em_span_cut(r, ct_row_range(c, tap));
        }
    }
    return r;
}

int64_t ct_cut_rows(const struct ct *c, bool last, int64_t tap)
{
    const struct ct_guard *t = &c->guards[c->edge];
    int64_t past = t->k_coef * tap;
    if (!last)
        return first_row(t, ir_const_or(t->lo, 0) - ir_const_or(t->rest, 0) - past);
    return past <= c->edge_room ? 0 : (past - c->edge_room) / t->row_coef;
}

void ct_late_cuts(const struct ct *c, ir_expr *first, ir_expr *last)
{
    struct ir_ctx *ctx = c->ctx;
    *first = *last = ir_const(ctx, 0);
    for (int g = 0; g < c->nguards; g++) {
        const struct ct_guard *t = &c->guards[g];
        if (!t->row_coef)
            continue;
        ir_expr d = ir_const(ctx, t->row_coef), reach = ir_mulc(ctx, ir_addc(ctx, c->ks[t->k].extent, -1), t->k_coef);
        ir_expr end = ir_ceildiv(ctx, ir_sub(ctx, ir_sub(ctx, t->hi, t->rest), reach), d);
        *first = ir_max(ctx, *first, ir_ceildiv(ctx, ir_sub(ctx, t->lo, t->rest), d));
        *last = ir_max(ctx, *last, ir_sub(ctx, c->rows, end));
    }
}
