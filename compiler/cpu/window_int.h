/* SPDX-License-Identifier: Apache-2.0 */
/* window_int.h - what a sliding window is: found by window_find.c, made code by window.c. */
#ifndef TCC_CPU_WINDOW_INT_H
#define TCC_CPU_WINDOW_INT_H

#include "compiler/cpu/emit_int.h"
#include "ir/ir.h"

#define W_MAX_LOADS 4
#define W_MAX_REDS KN_MAX_REDUCTIONS
#define W_MAX_TAPS 4
#define W_MAX_GUARDS 8

struct w_load {
    int insn;
    int64_t row;
    bool uniform;
    ir_expr off, tap[W_MAX_TAPS]; /* elements to the next tap: sizes may be in it */
};
struct w_guard {
    int64_t row_coef, tap_coef;
    int tap;
    ir_expr rest, lo, hi;
};

struct window {
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    bool folds;    /* lanes are summed up: vec is an inner dim */
    int vec, row;  /* kernel dims: lanes, neighbours */
    int64_t nrows; /* 0: known only at run time, as are the rows that all taps reach */
    int lanes, mr;
    int ntaps, tap_dim[W_MAX_TAPS];
    int64_t tap_n[W_MAX_TAPS];
    bool unroll[W_MAX_TAPS];
    int nloads, nreds, nguards;
    struct w_load load[W_MAX_LOADS];
    int red[W_MAX_REDS];
    struct w_guard guard[W_MAX_GUARDS];
    int dot_u, dot_s; /* loads whose bytes are multiplied, unsigned and signed: several taps at once; -1: none */
    bool in_floats;   /* .. one tap at a time, by multiply-adds of floats, whose sums are exact */
};

/* What window.c's templates take of k, for a schedule and for code; false: it is no such window. folds: the lanes are
 * channels that are summed up. */
bool cpu_find_window(const struct cpu_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k, bool folds,
                     struct window *w);

#endif
