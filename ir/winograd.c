/* SPDX-License-Identifier: Apache-2.0 */
/* winograd.c - which forms of Winograd's minimal filtering there are, and their weights. */
#include "ir/winograd.h"

const double ir_winograd_at[IR_WINOGRAD_POINTS - 1] = {0, 1, -1, 2, -2, 0.5, -0.5};

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

int ir_winograd_points(const struct ir_winograd w[2])
{
    return w[0].points * w[1].points;
}

int ir_winograd_results(const struct ir_winograd w[2])
{
    return w[0].results * w[1].results;
}

int ir_winograd_filters(const struct ir_winograd w[2])
{
    return w[0].filters * w[1].filters;
}

/* That element of a list that a node may have; 1: it has none. */
static int64_t listed(const struct ir_node *n, enum ir_attr_key key, int i)
{
    const struct ir_attr *a = ir_attr(n, key);
    return !a ? 1 : i < a->n ? a->ints[i] : 0;
}

/* Of so many taps, more than a filter may have, along the one axis: weights that change are not taken apart. */
static bool make_long(const struct ir_node *n, int64_t taps, int results, struct ir_winograd *w)
{
    enum { LONG = 1 << 12 };
    int points = 2 * results - 1;
    if (taps > LONG || results < 2 || points > IR_WINOGRAD_POINTS || (n->op == IR_conv && !ir_const_of(n->in[1].value)))
        return false;
    *w = (struct ir_winograd){results, 1, 1, results, points, (int)((taps + results - 1) / results)};
    return true;
}

/* The form along an axis; each of its phases has at most so many points. Steps and dilation both: none. */
static bool make(const struct ir_node *n, int axis, int64_t taps, int results, int most, struct ir_winograd *w)
{
    int64_t stride = listed(n, IR_ATTR_strides, axis), dilation = listed(n, IR_ATTR_dilations, axis);
    enum { FAR = 1 << 16 };
    if (taps < 1 || stride < 1 || stride > FAR || dilation < 1 || dilation > FAR)
        return false;
    if (taps == 1) {
        *w = (struct ir_winograd){1, (int)stride, 1, 1, 1, 1};
        return true;
    }
    if (taps >= IR_WINOGRAD_POINTS && stride == 1 && dilation == 1 && n->in[0].value->type->rank == 3)
        return make_long(n, taps, results, w);
    if (taps > IR_WINOGRAD_MOST)
        return false;
    if (taps <= stride || (stride > 1 && dilation > 1) || results < 2 || results > IR_WINOGRAD_MOST)
        return false; /* as many steps as taps: nothing is shared */
    *w = (struct ir_winograd){(int)taps, (int)stride, (int)dilation, results, 0, 1};
    w->points = w->stride * (results - 1) + w->taps;
    return w->points <= IR_WINOGRAD_MOST && ir_winograd_phase(w, 0).points <= most;
}

static bool make_both(const struct ir_node *n, const int64_t taps[2], int axes, int results, struct ir_winograd w[2])
{
    int most = taps[0] > 1 && taps[1] > 1 ? IR_WINOGRAD_OF_TWO : IR_WINOGRAD_POINTS;
    w[0] = (struct ir_winograd){1, 1, 1, 1, 1, 1};
    return (taps[0] > 1 || taps[1] > 1) && (axes == 1 || make(n, 0, taps[0], results, most, &w[0])) &&
           make(n, axes - 1, taps[1], results, most, &w[1]);
}

bool ir_winograd_of(const struct ir_node *n, int results, struct ir_winograd w[2])
{
    ir_type x = n->nin > 1 ? n->in[0].value->type : NULL, t = x ? n->in[1].value->type : NULL;
    int axes = x ? x->rank - 2 : 0;
    int64_t taps[2] = {1, 1};
    if (axes < 1 || axes > 2 || (n->op != IR_winograd && n->op != IR_conv))
        return false;
    for (int i = 0; i < axes; i++)
        taps[2 - axes + i] = n->op == IR_conv ? ir_const_or(t->dim[2 + i], 0) : listed(n, IR_ATTR_kernel, i);
    if (n->op == IR_conv)
        return make_both(n, taps, axes, results, w);
    for (int m = 2; m <= IR_WINOGRAD_MOST; m++)
        if (make_both(n, taps, axes, m, w) && ir_is_value(t->dim[0], ir_winograd_points(w)))
            return true;
    return false;
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
