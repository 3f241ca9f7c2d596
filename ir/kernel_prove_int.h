/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_prove_int.h - proofs about accesses of kernels: what kernel_bounds.c and kernel_prove.c share. */
#ifndef TCC_KERNEL_PROVE_INT_H
#define TCC_KERNEL_PROVE_INT_H

#include "ir/ir_int.h"

enum { MOST_FACTS = 64 };

struct prover {
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    int steps;
    bool never; /* facts contradict each other: it does not happen */
    bool asked; /* something of the sizes */
    int nfacts;
    ir_expr fact[MOST_FACTS]; /* each >= 0 */
    int nindex;               /* KN_INDEX symbols and the variables that stand for them */
    ir_expr index[MOST_FACTS], var[MOST_FACTS];
    /* Where guards leave a part of a dim: its variable, and first + another variable, of the extent of that part. */
    int nparts;
    ir_expr whole[KN_MAX_DIMS], part[KN_MAX_DIMS], length[KN_MAX_DIMS];
};

/* kernel_prove.c. A fact, which is at least 0, from now on; is f at least 0 at every point? */
void prover_know(struct prover *p, ir_expr fact);
bool prover_proves(struct prover *p, ir_expr f);
/* Is e a row's number times a row's length plus a place in the row, so that it is less than n? At most `left` rows in
 * rows. */
bool prover_in_rows(struct prover *p, ir_expr e, ir_expr n, int left);
/* f = c atom + rest, with the sign of c known; *sign. rest + c x. */
bool prover_split(struct prover *p, ir_expr f, ir_expr atom, ir_expr *c, ir_expr *rest, int *sign);
ir_expr prover_plus(struct prover *p, ir_expr rest, ir_expr c, ir_expr x);
/* c q + rest >= 0 with c 1 or -1, where that can be had; the same without the quotient q. */
void prover_divide_by_factor(struct prover *p, ir_expr *c, ir_expr *rest);
ir_expr prover_without_quotient(struct prover *p, ir_expr q, ir_expr c, ir_expr rest);

#endif
