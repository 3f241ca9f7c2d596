/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_int.h - between the files of the training transformation: train.c builds the entry points (entry.c their
 * forward part, loss.c the losses, params.c what is trained), optim*.c what happens to gradients.
 */
#ifndef TCC_PASSES_TRAIN_TRAIN_INT_H
#define TCC_PASSES_TRAIN_TRAIN_INT_H

#include "passes/pass.h"

/* Bytes of the least state that --offload=optimizer moves: a copy to a device takes about as long to begin as that many
 * take. */
enum { OFFLOAD_LEAST = 16384 };

/* A trained parameter inside the function that is being built. */
struct train_param {
    struct ir_state *state;
    struct ir_value *grad;       /* the parameter's dims; still multiplied by the loss scale, if there is one */
    struct ir_value *value;      /* what it is now; NULL: a state_read is looked for, or made */
    double scale;                /* the gradient is this times `grad`; 0: 1 */
};

/* A model whose parameters are bf16 or f16 already: with no precision given their updates would be rounded away. *out:
 * the options as they hold for it, after a note; else a copy of o. */
void precision_settle(struct ir_module *m, const struct train_options *o, struct train_options *out);

/* Gives the functions of a module (@main and @train) and its parameters the types that the options ask for. To be
 * called before losses and gradients are built. */
bool precision_apply(struct ir_module *m, const struct train_options *o);

/* Makes the state variables that updates of these parameters need (train.*, optimizer.*, master.*). */
bool optim_states(struct ir_module *m, const struct train_options *o, int n, struct ir_state *const *params);

/* The factor by which the loss is multiplied before the backward pass: f32[], or NULL when the options ask for no
 * scaling. */
struct ir_value *optim_loss_scale(struct ir_builder *b, const struct train_options *o);

/* Builds one update at b's point: found-inf, unscaling, clipping by the global norm, the optimizer's formulas, state
 * writes, step count and scaler. Every state write selects the old value when a gradient was not finite. *rate: f32[],
 * the rate used. */
bool optim_update(struct ir_builder *b, const struct train_options *o, int n, const struct train_param *params,
                  struct ir_value **rate);

/* The same in parts, for gradients that are spread over stages. What is asked about all of them together: */
struct optim_totals {
    struct ir_value *largest;    /* f32[]: the largest magnitude, still times the loss scale; NaN if an element is */
    /* f32[]: the sum of squares, without the loss scale; NULL where no optimizer or clipping needs it */
    struct ir_value *squares;
};
bool optim_measure(struct ir_builder *b, const struct train_options *o, int n, const struct train_param *params,
                   struct optim_totals *totals);
/* An update of these parameters by totals of all (NULL: these are all). counters: also writes what is not a
 * parameter's: step count, skipped updates, rate and loss scale. n may be 0. */
bool optim_update_part(struct ir_builder *b, const struct train_options *o, int n, const struct train_param *params,
                       const struct optim_totals *totals, bool counters, struct ir_value **rate);

/* Are the texts that optim*.c reads (optimizer, optimizer_state, schedule, loss_scale, clip_norm, precision,
 * auto_cast*) well-formed? False after a diagnostic. */
bool optim_check(struct ir_ctx *ctx, const struct train_options *o);

/* -- zero.c: what a rank owns it alone has (--zero) */
/* Is that what ranks have alone: 1 the optimizer's state, 2 gradients, 3 parameters? */
bool train_zero_has(const struct train_options *o, int stage);
/* The symbol that is 1 at the rank that owns a parameter, 0 at others. */
ir_expr train_zero_symbol(struct ir_ctx *ctx, const char *param);
/* bool[] for each parameter: is it this rank's to update? NULL: all are. */
bool train_parallel_is_owner(struct ir_builder *b, const struct train_options *o, int n,
                             const struct train_param *params,
                         struct ir_value ***owned);
bool train_parallel_reduce_scalars(struct ir_builder *b, int n, struct ir_value **values);
bool train_parallel_broadcast_from_owner(struct ir_builder *b, const struct train_options *o, int n,
                                         const struct train_param *params);
/* if (mine) build */
bool train_zero_if(struct ir_builder *b, struct ir_value *mine, bool (*build)(struct ir_builder *then, void *user),
                   void *user);
/* Once forward and backward pass of b's function are there, and the averages of gradients: what they read of parameters
 * comes from owners. */
bool train_zero_gather(struct ir_builder *b, const struct train_options *o, int n, struct ir_state *const *params);
/* -- data_parallel.c: averages times `scale`, of those that are not NULL. */
bool train_parallel_scaled(struct ir_builder *b, const struct train_options *o, int n, struct ir_state *const *params,
                           double scale,
                           struct ir_value **grads);

/* -- For all who read option texts (options.c) */

/* KIND[:key=value,...]. A backslash takes the next character as it is. */
struct train_spec { const char *kind; int n; const char **keys, **values; };
/* NAME,NAME,... with the same escapes; ended by NULL. `text` may be NULL. */
const char **train_names(struct ir_ctx *ctx, const char *text);

#endif
