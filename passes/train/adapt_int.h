/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adapt_int.h - between the files that make a trained model one's own before it is differentiated: dense.c finds dense
 * layers, head.c gives a classifier another last one, lora.c adds adapters to them, draw.c draws first values.
 */
#ifndef TCC_PASSES_TRAIN_ADAPT_INT_H
#define TCC_PASSES_TRAIN_ADAPT_INT_H

#include "passes/train/train_int.h"

/* A product or convolution one of whose operands is a parameter: a state variable of a model read for training, else a
 * constant that has a name. */
struct dense {
    struct ir_node *node;
    struct ir_value *weight;     /* as it is read, before it is transposed */
    struct ir_state *state;      /* NULL: a constant */
    const char *param;           /* the weight's name */
    const char *module;          /* the layer's name as PyTorch has it: "layers.0.fc" */
    bool conv;
    bool by_input;               /* the weight is [inputs, outputs]; else [outputs, inputs, ...] */
    int64_t in, out;             /* features; of a convolution: channels of a group, all channels */
};
bool train_dense_of(struct ir_node *n, struct dense *d);
/* The values of a parameter. */
struct ir_tensor *train_dense_values(const struct dense *d);

/* Does the first output of floats come from this layer without another in between? */
bool train_is_last(struct ir_func *f, const struct ir_node *n);

/* Nodes that nobody uses go, then parameters that no function reads (unread.c). */
void train_drop_unread(struct ir_module *m);

/* Uniform in +-bound, in the order of elements; equal seeds and names, equal values. */
struct ir_tensor *train_draw_uniform(struct ir_ctx *ctx, enum tcc_dtype type, int rank, const int64_t *dims,
                                     double bound, uint64_t seed, const char *name);

#endif
