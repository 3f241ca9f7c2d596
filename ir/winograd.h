/* SPDX-License-Identifier: Apache-2.0 */
/*
 * winograd.h - Winograd's minimal filtering, as Toom and Cook derive it (Lavin and Gray, "Fast Algorithms for
 * Convolutional Neural Networks", 2016): m results of a filter of r taps along an axis are m + r - 1 products of what
 * polynomials of elements and of taps give at as many points, F(m, r). A filter that goes by steps is several, one for
 * each residue of its taps, over every so manieth element (its phases); F(m, 1) are m products as they stand. A filter
 * whose taps lie d elements apart makes m results that lie so, too. Of two axes each product is one of a point along
 * either; an axis of one tap has one point, and a tile one result along it.
 *
 * A long filter is the sum of short ones of m taps: that of the taps from i m on makes a tile's results of the elements
 * of the i-th tile behind it, F(m, m), so that elements are transformed once for all of them.
 */
#ifndef TCC_IR_WINOGRAD_H
#define TCC_IR_WINOGRAD_H

#include "ir/ir.h"

enum { IR_WINOGRAD_MOST = 11, IR_WINOGRAD_POINTS = 8 }; /* points along an axis: of all phases, of one */
enum { IR_WINOGRAD_OF_TWO = 6 };                         /* of a phase of either of two axes, whose errors multiply */
enum { IR_WINOGRAD_ELEMENTS = IR_WINOGRAD_MOST * IR_WINOGRAD_MOST };
enum { IR_WINOGRAD_BLOCK = 16 };                         /* channels, which kernels take together */

/* Points but the last of a phase, which is infinity: one and its negative side by side. */
extern const double ir_winograd_at[IR_WINOGRAD_POINTS - 1];

/* Along an axis of a tile. */
struct ir_winograd {
    int taps, stride, dilation, results, points; /* of all phases; elements, too */
    int filters;                                 /* of so many taps each, one behind the other */
};
/* The phase of the taps p, p + stride, ..: how many, its points, the number of the first one. */
struct ir_winograd_phase { int taps, points, first; };

/* The form of a convolution of one axis or two (in one or more groups), but for its types and channels, with so many
 * results along each axis of several taps, or of a `winograd` node, of which `results` is not read: w[0] down, which is
 * of one tap where there is one axis, w[1] across; false: there is none. */
bool ir_winograd_of(const struct ir_node *n, int results, struct ir_winograd w[2]);
/* Points, and results, of a tile. */
int ir_winograd_points(const struct ir_winograd w[2]);
int ir_winograd_results(const struct ir_winograd w[2]);
int ir_winograd_filters(const struct ir_winograd w[2]);
struct ir_winograd_phase ir_winograd_phase(const struct ir_winograd *w, int phase);
/* What a point's product takes of a tap, along an axis. */
double ir_winograd_weight(const struct ir_winograd *w, int point, int tap);

#endif
