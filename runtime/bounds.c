/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounds.c - between which values the integer program's values may lie while a device's program lives: one that was
 * recorded at one position of a cache is replayed at all others. Symbols of positions have their whole range, others
 * the value that they are bound to; expressions follow by interval arithmetic (Moore, "Interval Analysis", 1966), which
 * may give more than there is, never less.
 */
#include "runtime/rt_int.h"

static const struct tcr_interval none = {TCR_BAD, TCR_BAD};

static struct tcr_interval point(int64_t v)
{
    return TCR_IS_VALUE(v) ? (struct tcr_interval){v, v} : none;
}

/* From the least to the largest of four values; none where one of them is none. */
static struct tcr_interval hull(const int64_t v[4])
{
    struct tcr_interval x = point(v[0]);

    for (int i = 0; i < 4; i++) {
        if (!TCR_IS_VALUE(v[i]))
            return none;
        x.lo = v[i] < x.lo ? v[i] : x.lo;
        x.hi = v[i] > x.hi ? v[i] : x.hi;
    }
    return x;
}

static struct tcr_interval corners(uint32_t op, struct tcr_interval a, struct tcr_interval b)
{
    return hull((int64_t[4]){tcr_compute(op, a.lo, b.lo), tcr_compute(op, a.lo, b.hi), tcr_compute(op, a.hi, b.lo),
                             tcr_compute(op, a.hi, b.hi)});
}

static struct tcr_interval remainder_of(struct tcr_interval a, struct tcr_interval b)
{
    if (b.lo == b.hi && tcr_compute(TCC_EX_FLOORDIV, a.lo, b.lo) == tcr_compute(TCC_EX_FLOORDIV, a.hi, b.lo))
        return (struct tcr_interval){tcr_compute(TCC_EX_MOD, a.lo, b.lo), tcr_compute(TCC_EX_MOD, a.hi, b.lo)};
    return (struct tcr_interval){0, b.hi - 1};
}

struct tcr_interval tcr_interval(uint32_t op, struct tcr_interval a, struct tcr_interval b)
{
    if (!tcr_is_bounded(a) || !tcr_is_bounded(b))
        return none;
    if (a.lo == a.hi && b.lo == b.hi)
        return point(tcr_compute(op, a.lo, b.lo));
    switch (op) {
    case TCC_EX_FLOORDIV: return b.lo > 0 ? corners(op, a, b) : none;
    case TCC_EX_MOD: return b.lo > 0 ? remainder_of(a, b) : none;
    default: return corners(op, a, b);
    }
}

/* Level 0 of the integer program. */
static void evaluate(struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;

    for (uint32_t i = 0; i < m->level_first[1]; i++) {
        uint32_t n = m->level_exprs[i];
        const struct tcc_pexpr *e = &m->exprs[n];

        s->ranges[n] = e->op == TCC_EX_CONST ? point(e->k)
                       : e->op == TCC_EX_SYM ? s->sym_ranges[e->k]
                                             : tcr_interval(e->op, s->ranges[e->a], s->ranges[e->b]);
    }
}

/* What a run adds to the state variable; 0: that can't be told. */
static int64_t added(const struct tccrt_session *s, uint32_t sym, uint32_t to)
{
    const struct tcc_pexpr *x = &s->m->exprs[to];
    uint32_t parts[2] = {x->a, x->b};

    for (int i = 0; x->op == TCC_EX_ADD && i < 2; i++) {
        const struct tcc_pexpr *p = &s->m->exprs[parts[i]];
        struct tcr_interval other = s->ranges[parts[1 - i]];

        if (p->op == TCC_EX_SYM && p->k == sym && tcr_is_bounded(other) && other.lo == other.hi)
            return other.lo;
    }
    return 0;
}

/* A run that does not fit is refused: the largest position is the last one at which the entry point's runs fit. */
static bool leave_room(struct tccrt_session *s, const struct tcc_pentry *e)
{
    bool changed = false;

    for (uint32_t i = 0; i < e->advances.count; i += 2) {
        const uint32_t *pair = s->m->u32s + e->advances.first + i;
        uint32_t sym = s->m->states[pair[0]].sym;
        struct tcr_interval *r = &s->sym_ranges[sym];
        int64_t n = added(s, sym, pair[1]);

        if (n > 1 && r->hi - (n - 1) >= s->syms[sym]) {
            r->hi -= n - 1;
            changed = true;
        }
    }
    return changed;
}

void tcr_bounds(struct tccrt_session *s, const struct tcc_pentry *e)
{
    const struct tccrt_model *m = s->m;

    if (!s->ranges || !m->plan->levels)
        return;
    for (uint32_t k = 0; k < m->plan->syms.count; k++)
        s->sym_ranges[k] = point(s->syms[k]);
    for (uint32_t i = 0; i < m->plan->states.count; i++)
        if (m->states[i].sym != TCC_NO && TCR_IS_VALUE(s->syms[m->states[i].sym]))
            s->sym_ranges[m->states[i].sym] =
                (struct tcr_interval){m->syms[m->states[i].sym].lo, m->syms[m->states[i].sym].hi};
    evaluate(s);
    if (leave_room(s, e))
        evaluate(s);
}

struct tcr_interval tcr_range(const struct tccrt_session *s, uint32_t expr)
{
    return s->ranges && !s->m->exprs[expr].level ? s->ranges[expr] : point(s->values[expr]);
}

int64_t tcr_most(const struct tccrt_session *s, uint32_t expr)
{
    struct tcr_interval r = tcr_range(s, expr);

    return tcr_is_bounded(r) && r.hi > s->values[expr] ? r.hi : s->values[expr];
}
