/* SPDX-License-Identifier: Apache-2.0 */
/* winograd.c - which forms of Winograd's minimal filtering there are, and their weights. */
#include "ir/winograd.h"

const double ir_winograd_at[IR_WINOGRAD_POINTS - 1] = {0, 1, -1, 2, -2};

struct ir_winograd_phase ir_winograd_phase(const struct ir_winograd *w, int phase)
{
    struct ir_winograd_phase p = {0};
    for (int i = 0; i <= phase; i++) {
        p.first += p.points;
        p.taps = (w->taps - i + w->stride - 1) / w->stride;
        p.points = w->results + p.taps - 1;
    }
    return p;
}

static bool make(int taps, int stride, int results, struct ir_winograd *w)
{
    if (taps > IR_WINOGRAD_MOST || taps <= stride || stride < 1 || results < 2 || results > IR_WINOGRAD_MOST)
        return false; /* as many steps as taps: nothing is shared */
    *w = (struct ir_winograd){taps, stride, results, stride * (results - 1) + taps};
    return w->points <= IR_WINOGRAD_MOST && ir_winograd_phase(w, 0).points <= IR_WINOGRAD_POINTS;
}

/* The one number in that list of two; 0: there is none. */
static int both(const struct ir_attr *a)
{
    return !a ? 1 : a->n == 2 && a->ints[0] == a->ints[1] && a->ints[0] <= IR_WINOGRAD_MOST ? (int)a->ints[0] : 0;
}

bool ir_winograd_of(const struct ir_node *n, int results, struct ir_winograd *w)
{
    ir_type t = n->nin > 1 ? n->in[1].value->type : NULL;
    int stride = both(ir_attr(n, IR_ATTR_strides)), taps = 0;
    if (t && n->op == IR_winograd) {
        taps = both(ir_attr(n, IR_ATTR_kernel));
        for (int m = 2; m <= IR_WINOGRAD_MOST; m++)
            if (make(taps, stride, m, w) && ir_is_value(t->dim[0], w->points * w->points))
                return true;
        return false;
    }
    if (!t || n->op != IR_conv || t->rank != 4 || t->dim[2] != t->dim[3] || both(ir_attr(n, IR_ATTR_dilations)) != 1)
        return false;
    int64_t size = ir_const_or(t->dim[2], 0);
    return size <= IR_WINOGRAD_MOST && make((int)size, stride, results, w);
}

double ir_winograd_weight(const struct ir_winograd *w, int point, int tap)
{
    struct ir_winograd_phase p = ir_winograd_phase(w, tap % w->stride);
    double of = 1;
    point -= p.first;
    tap /= w->stride;
    if (point < 0 || point >= p.points)
        return 0;
    if (p.taps == 1)
        return 1;
    if (point == p.points - 1)
        return tap == p.taps - 1;
    for (int i = 0; i < p.points - 1; i++)
        of *= i == point ? 1 : ir_winograd_at[point] - ir_winograd_at[i];
    double power = 1;
    for (int i = 0; i < tap; i++)
        power *= ir_winograd_at[point];
    return power / of;
}
