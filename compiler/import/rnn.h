/* SPDX-License-Identifier: Apache-2.0 */
/* rnn.h - recurrent cells, for front ends: a direction of a layer, and one step by itself. */
#ifndef TCC_IMPORT_RNN_H
#define TCC_IMPORT_RNN_H

#include "compiler/import/import.h"

enum imp_cell { IMP_RNN, IMP_GRU, IMP_LSTM };

/* A matrix [inputs, gates] of bytes, and its scale and zero point (may be NULL), one or one for each column. */
struct imp_bytes {
    struct ir_value *x, *scale, *zero;
};

struct imp_rnn {
    enum imp_cell cell;
    const int *order;       /* gate k of ONNX (z r h; i o f c) is the order[k]-th of the weights; NULL: the k-th */
    bool reverse;
    struct ir_value *x;     /* [t, b, i]; of a step [b, i] */
    struct ir_value *lens;  /* of the sequences, i64[b, 1]; NULL: all whole */
    ir_expr hidden, out;    /* out: of the state that is put out, hidden unless projected */
    const char *f[3];       /* activations; NULL: the usual ones */
    double alpha[3], beta[3];
    double clip;            /* 0: none */
    bool linear_before_reset, input_forget;
    struct ir_value *w, *r; /* [g*h, i], [g*h, out] */
    struct imp_bytes w_bytes, r_bytes;          /* instead of them where x is set */
    struct ir_value *bias_w, *bias_r;           /* [g*h], both or neither */
    struct ir_value *peephole[3], *projection;  /* [h]; [out, h], of PyTorch's LSTMs; NULL: none */
    struct ir_value *project;                   /* imp_rnn_prepare's: x W' + b where the cell allows */
};

int imp_rnn_gates(enum imp_cell cell);
/* The usual activations of a cell. */
const char *const *imp_rnn_functions(enum imp_cell cell, int *n);
/* To be called once the weights are there. These return false after a message. */
bool imp_rnn_prepare(struct imp *im, struct imp_rnn *r);
/* One direction from its first states [b, h] (an LSTM's second is the cell's) to its last, and behind them in `last`
 * the outputs [t, b, out]. */
bool imp_rnn_run(struct imp *im, const struct imp_rnn *r, struct ir_value *const *initial, struct ir_value **last);
/* One step of `state`, for x as r->project has it. */
bool imp_rnn_step(struct imp *im, const struct imp_rnn *r, struct ir_value *x, struct ir_value **state);

#endif
