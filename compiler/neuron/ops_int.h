/* SPDX-License-Identifier: Apache-2.0 */
/* ops_int.h - scalar ops: the table of how each is computed (formulas.c), read where one is emitted (ops.c). */
#ifndef TCC_NEURON_OPS_INT_H
#define TCC_NEURON_OPS_INT_H

#include "compiler/neuron/neuron_int.h"

typedef const struct nk_value *value;
struct nk_op {
    struct nk *nk;
    const struct nk_tile *t;
    enum tcc_dtype to, from;
    const struct kn_insn *insn; /* that it is made for */
};

enum nk_how { BY_HOST, BY_ALU, BY_FUNC, BY_MAKE };
struct nk_way {
    enum nk_how how;
    int what; /* the ALU's operation or Scalar's function */
    value (*make)(struct nk_op o, const value *x);
};
/* of floats, integers, bool; behind the ops Scalar's functions, by number (words.c) */
extern const struct nk_way nk_ways[IR_NOPS + NEURON_NFUNCS][3];

#endif
