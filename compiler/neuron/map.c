/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.c - index expressions over a tile. An expression is linear in the indices of a tile's axes, or becomes so in each
 * of two boxes that one cut makes of the tile: where a division's quotient changes, where a guard begins to hold. So
 * any access falls into boxes with an access pattern each; how many these are is the measure of what it costs.
 */
#include "compiler/neuron/neuron_int.h"

struct nk_box nk_whole(const struct nk_tile *t)
{
    struct nk_box b = {0};
    for (int a = 0; a < t->n; a++)
        b.n[a] = t->axis[a].extent;
    return b;
}

void nk_line_range(const struct nk_line *l, const struct nk_box *b, int64_t *lo, int64_t *hi)
{
    *lo = *hi = l->base;
    for (int a = 0; a < NK_AXES; a++)
        if (l->coef[a])
            *(l->coef[a] < 0 ? lo : hi) += l->coef[a] * (b->n[a] - 1);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* The axis along which the line rises or falls most, and where on it, from the others' first points, the value gets
 * from below `at` to `at` or beyond. Partitions are cut last. */
static enum nk_linear cut(const struct nk_line *l, const struct nk_box *b, int64_t threshold, int *axis, int64_t *at)
{
    int64_t most = 0;
    *axis = -1;
    for (int a = NK_AXES - 1; a >= 0; a--) {
        int64_t span = l->coef[a] * (b->n[a] - 1);
        span = span < 0 ? -span : span;
        if (span && (*axis < 0 || (a && span > most))) {
            *axis = a;
            most = span;
        }
    }
    if (*axis < 0)
        return NK_UNKNOWN;
    int64_t c = l->coef[*axis], away = threshold - l->base, n = b->n[*axis];
    int64_t i = c > 0 ? -floor_div(-away, c) : floor_div(away, c) + 1;
    *at = i < 1 || i > n - 1 ? n / 2 : i;
    return NK_SPLIT;
}

static enum nk_linear divided(const struct nk_line *in, const struct nk_box *b, int64_t c, bool mod, struct nk_line *to,
                              int *axis, int64_t *at)
{
    struct nk_line rest = {.base = in->base - c * floor_div(in->base, c)};
    int64_t lo, hi;
    *to = (struct nk_line){.base = floor_div(in->base, c)};
    for (int a = 0; a < NK_AXES; a++)
        if (in->coef[a] % c == 0)
            to->coef[a] = in->coef[a] / c;
        else
            rest.coef[a] = in->coef[a];
    nk_line_range(&rest, b, &lo, &hi);
    if (floor_div(lo, c) != floor_div(hi, c))
        return cut(&rest, b, c * (floor_div(rest.base, c) + 1), axis, at);
    if (mod) {
        *to = rest;
        to->base -= c * floor_div(lo, c);
    } else {
        to->base += floor_div(lo, c);
    }
    return NK_LINEAR;
}

static enum nk_linear smaller(const struct nk_line *x, const struct nk_line *y, const struct nk_box *b, bool max,
                              struct nk_line *to, int *axis, int64_t *at)
{
    struct nk_line d = {.base = x->base - y->base};
    int64_t lo, hi;
    for (int a = 0; a < NK_AXES; a++)
        d.coef[a] = x->coef[a] - y->coef[a];
    nk_line_range(&d, b, &lo, &hi);
    if (lo < 0 && hi > 0)
        return cut(&d, b, 0, axis, at);
    *to = (hi <= 0) != max ? *x : *y;
    return NK_LINEAR;
}

static bool is_index(const struct nk *nk, ir_expr e)
{
    for (int i = 0; i < nk->indices.n && nk->addressing; i++)
        if (nk->indices.at[i].symbol == e)
            return true;
    return false;
}

static enum nk_linear line_of_symbol(struct nk *nk, const struct nk_tile *t, const struct nk_box *b, ir_expr e,
                                     struct nk_line *to, int *axis, int64_t *at)
{
    for (int d = 0; d < nk->k->ndims; d++) {
        if (nk->k->dims[d].var != e)
            continue;
        to->base = t->base[d];
        if (t->quarter && t->axis[0].dim == d) {
            int64_t quadrant = b->lo[0] / 32;
            *axis = 0;
            *at = 32 * (quadrant + 1) - b->lo[0];
            if (*at < b->n[0])
                return NK_SPLIT;
            to->base += quadrant * (t->quarter - 32);
        }
        for (int a = 0; a < t->n; a++)
            if (t->axis[a].dim == d) {
                to->base += t->axis[a].mult * b->lo[a];
                to->coef[a] = t->axis[a].mult;
            }
        return NK_LINEAR;
    }
    return is_index(nk, e) ? NK_LINEAR : NK_UNKNOWN;
}

enum nk_linear nk_line_of(struct nk *nk, const struct nk_tile *t, const struct nk_box *b, ir_expr e, struct nk_line *to,
                          int *axis, int64_t *at)
{
    struct nk_line x, y;
    enum nk_linear how;
    *to = (struct nk_line){0};
    if (e->kind == IR_X_CONST) {
        to->base = e->value;
        return NK_LINEAR;
    }
    if (e->kind == IR_X_SYM)
        return line_of_symbol(nk, t, b, e, to, axis, at);
    if ((how = nk_line_of(nk, t, b, e->arg[0], &x, axis, at)) != NK_LINEAR)
        return how;
    for (int i = 1; i < e->nargs; i++, x = *to) {
        int64_t c;
        if ((how = nk_line_of(nk, t, b, e->arg[i], &y, axis, at)) != NK_LINEAR)
            return how;
        bool constant = ir_is_const(e->arg[i], &c);
        switch ((enum ir_expr_kind)e->kind) {
        case IR_X_ADD:
            *to = x;
            to->base += y.base;
            for (int a = 0; a < NK_AXES; a++)
                to->coef[a] += y.coef[a];
            break;
        case IR_X_MUL:
            if (!constant && !ir_is_const(e->arg[0], &c))
                return NK_UNKNOWN;
            *to = constant ? x : y;
            to->base *= c;
            for (int a = 0; a < NK_AXES; a++)
                to->coef[a] *= c;
            break;
        case IR_X_FLOORDIV:
        case IR_X_MOD:
            if (!constant || c <= 0)
                return NK_UNKNOWN;
            how = divided(&x, b, c, e->kind == IR_X_MOD, to, axis, at);
            break;
        case IR_X_MIN:
        case IR_X_MAX: how = smaller(&x, &y, b, e->kind == IR_X_MAX, to, axis, at); break;
        default: return NK_UNKNOWN;
        }
        if (how != NK_LINEAR)
            return how;
    }
    return NK_LINEAR;
}

/* -- Pieces -------------------------------------------------------------------------------------------------------- */

struct search {
    struct nk *nk;
    const struct nk_tile *t;
    const struct kn_insn *n;
    int64_t row[TCC_MAX_RANK];
    struct nk_pieces *to;
};

/* 1: all guards hold, 0: some one never does; -1: the box has to be cut. */
static int guarded(struct search *s, const struct nk_box *b, int *axis, int64_t *at)
{
    for (int g = 0; g < s->n->nguards; g++) {
        const struct kn_guard *guard = &s->n->guards[g];
        struct nk_line e, ends[2];
        int64_t lo, hi, first, last, unused;
        for (int i = 0; i < 2; i++) {
            enum nk_linear how = nk_line_of(s->nk, s->t, b, i ? guard->hi : guard->lo, &ends[i], axis, at);
            if (how == NK_SPLIT)
                return -1;
            nk_line_range(&ends[i], b, i ? &last : &first, &unused);
            if (how == NK_UNKNOWN || unused != (i ? last : first))
                nk_refuse(s->nk, "a guard with bounds that vary");
        }
        enum nk_linear how = nk_line_of(s->nk, s->t, b, guard->e, &e, axis, at);
        if (how == NK_SPLIT)
            return -1;
        if (how == NK_UNKNOWN)
            nk_refuse(s->nk, "a guard that depends on data");
        nk_line_range(&e, b, &lo, &hi);
        if (hi < first || lo >= last)
            return 0;
        if (lo < first)
            return cut(&e, b, first, axis, at) == NK_SPLIT ? -1 : 0;
        if (hi >= last)
            return cut(&e, b, last, axis, at) == NK_SPLIT ? -1 : 0;
    }
    return 1;
}

static bool addressed(struct search *s, const struct nk_box *b, struct nk_line *to, int *axis, int64_t *at)
{
    *to = (struct nk_line){0};
    for (int i = 0; i < s->n->nindex; i++) {
        struct nk_line l;
        s->nk->addressing = true;
        enum nk_linear how = nk_line_of(s->nk, s->t, b, s->n->index[i], &l, axis, at);
        s->nk->addressing = false;
        if (how == NK_UNKNOWN)
            nk_refuse(s->nk, "an index that is no expression of the loops");
        if (how == NK_SPLIT)
            return false;
        to->base += l.base * s->row[i];
        for (int a = 0; a < NK_AXES; a++)
            to->coef[a] += l.coef[a] * s->row[i];
    }
    return true;
}

static void find(struct search *s, const struct nk_box *b)
{
    struct nk_piece piece = {.box = *b};
    int axis, holds;
    int64_t at;
    if ((holds = guarded(s, b, &axis, &at)) == 0)
        return;
    if (holds > 0 && addressed(s, b, &piece.line, &axis, &at)) {
        if (s->to->n == NK_MOST_BOXES)
            nk_refuse(s->nk, "an access that falls into more than %d boxes", NK_MOST_BOXES);
        VEC_PUSH(s->nk->ctx, *s->to, piece);
        return;
    }
    struct nk_box half = *b;
    half.n[axis] = at;
    find(s, &half);
    half.lo[axis] += at;
    half.n[axis] = b->n[axis] - at;
    find(s, &half);
}

bool nk_pieces_of(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, struct nk_pieces *to)
{
    const struct kn_operand *o = &nk->k->operands[n->operand];
    struct search s = {.nk = nk, .t = t, .n = n, .to = to};
    struct nk_box all = nk_whole(t);
    int64_t row = 1;
    for (int i = n->nindex - 1; i >= 0; i--) {
        s.row[i] = row;
        row *= ir_const_or(o->dims[i], 0);
    }
    to->n = 0;
    find(&s, &all);
    bool whole = to->n == 1;
    for (int a = 0; whole && a < t->n; a++)
        whole = to->at[0].box.n[a] == all.n[a];
    return whole;
}
