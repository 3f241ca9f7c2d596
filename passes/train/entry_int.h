/* SPDX-License-Identifier: Apache-2.0 */
/* entry_int.h - shared by the files that build the entry points of training (train.c, params.c). */
#ifndef TCC_PASSES_TRAIN_ENTRY_INT_H
#define TCC_PASSES_TRAIN_ENTRY_INT_H

#include "passes/train/train_int.h"
#include "passes/train/loss_int.h"

struct training {
    struct ir_ctx *ctx;
    struct ir_module *m;
    const struct train_options *o;       /* settled */
    struct train_options settled;
    struct ir_func *main, *train;        /* of the front end; the first ones, where there are shape versions: */
    int nmains, ntrains;
    struct ir_func **mains, **trains;
    struct train_loss loss;
    const char **step_outputs;           /* names, ended by NULL */
    int nparams;
    struct ir_state **params;            /* trained ones */
};

/* One entry point being built. */
struct entry {
    struct training *t;
    const struct ir_func *from; /* NULL: made of nothing */
    struct ir_func *func;
    struct ir_builder b;
    struct ir_value **map;     /* by id of a value of `from` */
    struct ir_value **results; /* what the outputs of `from` became */
    int nwrites;
    struct ir_node **writes; /* of the copy, taken to the end */
};

/* What comes before any entry point is built: the model's functions, the loss, the precision, what is trained. False
 * after a diagnostic. */
bool train_begin(struct training *t, struct ir_module *m, const struct train_options *o);
struct entry train_entry_new(struct training *t, const char *name, const struct ir_func *from);
/* A value of the model: an output's, or any of its body that has that name in the source; NULL: there is none. */
struct ir_value *train_entry_value(struct entry *e, const char *name);
/* says so, and which there are; false */
bool train_no_output(struct entry *e, const char *option, const char *name);
bool train_is_float_tensor(const struct ir_value *v);
struct ir_value *train_entry_scores(struct entry *e);        /* what the loss takes; NULL after a diagnostic */
/* The loss of one term and of one output, and its gradient by it (seed NULL: not wanted). A target that is no input yet
 * becomes the last one. */
bool train_entry_loss_of(struct entry *e, struct ir_value *scores, struct ir_value *factor, struct ir_value **value,
                         struct ir_value **seed);
/* The loss as it is trained on: its value, what reduction=none gives besides (NULL: nothing), and the values by which
 * it is differentiated, each with its gradient. */
struct whole_loss {
    struct ir_value *value, *each;
    VEC(struct ir_value *) from, seeds;
};
/* Builds all terms of the loss; factor: what their gradients are multiplied by, NULL: 1. False after a diagnostic. */
bool train_entry_loss(struct entry *e, struct ir_value *factor, bool want_gradient, struct whole_loss *w);
/* The read of a state variable in the entry's function; one that is not there yet is put at its start. */
struct ir_value *train_read_of(struct entry *e, struct ir_state *s);
/* Writes the first values of the state of a stage (0: what belongs to none) whose trained parameters these are; of what
 * they own, at owners. */
bool train_init_states(struct ir_builder *b, struct training *t, int owner_stage, int n,
                       struct ir_state *const *params);
/* grad.PARAM, made when missing */
struct ir_state *train_grad_state(struct training *t, const struct ir_state *param);
struct ir_state *train_counter(struct training *t);          /* train.micro, made when missing */
bool train_complain(struct training *t, const char *format, const char *name);            /* false */

/* Ends the entry point; writes of state come last. */
bool train_entry_end(struct entry *e, int n, struct ir_value *const *values, const char *const *names);

/* -- versions.c: entry points of a model that has shape versions; one function each, where it has none */
/* The functions of an entry point, in their order. */
int train_versions_of(struct ir_module *m, const char *entry, struct ir_func ***list);
/* A function of the entry point for each of the n it is made from, by build(&e[i], results[i]). Versions whose build
 * fails are left out with a warning, their e[i].func is NULL. How many there are; 0 after a diagnostic. */
int train_build_versions(struct training *t, const char *entry, int n, struct ir_func **from, struct entry *e,
                         bool (*build)(struct entry *e, void *result), void *const *results);
/* Once they are built: makes them versions of the entry point. */
bool train_join_versions(struct training *t, const char *entry, int n, const struct entry *e);

/* -- predict.c */
bool train_build_predict(struct training *t);
bool train_predicts(const struct training *t, const char *output);     /* is it one of @predict's? */
/* Inputs that none of the functions, an entry point's, reads, nor binds a size by alone. */
void train_drop_inputs(int n, struct ir_func *const *f);

/* -- qat.c: products of what bytes will hold, and the entry point that sets their first steps (--qat) */
bool train_add_qat(struct training *t);
bool train_build_calibrate(struct training *t);
bool train_qat_check(struct ir_ctx *ctx, const struct train_options *o);

/* parallel/stages.c: the entry points of a model that is cut into stages. */
bool train_stages(struct training *t);

/* Parameters that the patterns leave. False after a diagnostic. */
bool train_select(struct training *t);
/* Takes parameters without a gradient in any of the n functions' lists from those that are trained (the lists are
 * shortened alike), with a warning that names them. False when none is left, or where the loss of e[i], found[i],
 * depends on one by a way that does not stop gradients by definition. */
bool train_drop_unreached(struct training *t, int n, struct ir_value **const *grads, struct entry *e,
                          const struct whole_loss *const *found);

/* -- data_parallel.c: nothing happens without data_parallel */
/* Puts a broadcast behind the reads of buffers that b's function writes. */
bool train_parallel_buffers(struct ir_builder *b, const struct train_options *o);
/* A scalar's mean over the ranks. */
struct ir_value *train_parallel_mean(struct ir_builder *b, const struct train_options *o, struct ir_value *v);
/* No rank writes state unless all have come so far without a fault: for functions that all ranks call alike. */
bool train_parallel_vote(struct ir_builder *b, const struct train_options *o);
bool train_parallel_check(struct ir_ctx *ctx, const struct train_options *o);

/* remat.c: computes some of the forward pass, the function's first results, again behind it. `to`: a line a value that
 * the backward pass reads; may be NULL. */
void train_remat_part(struct ir_func *f, int results, struct train_recompute *c, FILE *to);

#endif
