/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train.h - the door of the training transformation: a model's function becomes the entry points of training.
 *
 * In: a module with two functions of the same inputs, as the front end reads a model with `training` set:
 *   @main    inference behaviour (BatchNormalization by running statistics, no Dropout)
 *   @train   training behaviour; running statistics are state_read and state_write of buffers
 * whose float initialisers are state variables flagged IR_STATE_PARAM (or BUFFER), read by state_read under their
 * names. Out: the functions below; @main and @train are gone.
 *
 *   @step(inputs..., target...) -> loss, step outputs...    one update; with accumulate = K, every Kth call updates
 *   @eval(inputs..., target...) -> loss, model outputs...   inference behaviour, changes no state
 *   @grad(inputs..., target...) -> loss, step outputs...    writes grad.NAME for each trained parameter, no update
 *   @apply()                    -> rate                     clipping, optimizer, from grad.NAME
 *   @init()                                                 all state to its first values
 *   @predict(inputs...) -> model outputs...                 inference behaviour, without target and loss
 *
 * Where @main and @train are several functions, shape versions of one (struct ir_version), each entry point but @apply
 * and @init is made of as many. A parameter that the loss reaches in some of them only has a gradient of 0 in the
 * others.
 *
 * State variables besides the parameters (names are those in checkpoints):
 *   optimizer.SLOT.PARAM   f32 (or bf16)   a parameter's moments, PyTorch's slot names (exp_avg, momentum_buffer, ...)
 *   train.step             i64[]           updates made (skipped ones don't count)
 *   train.epoch            i64[]           set by the program that trains; schedules by epoch read it
 *   train.rate             f32[]           the base rate; groups have fixed ratios to it
 *   train.lr               f32[]           the rate of the last update, schedule and warmup included
 *   train.scheduled        i32[]           1: the compiled-in schedule scales the rate; 0: the rate is taken as it is
 *   train.micro            i64[]           calls since the last update (accumulate > 1)
 *   train.norm             f32[]           the gradients' norm in the last update, before clipping (clip_norm, lamb)
 *   train.scale            f32[]           loss scale; train.growth i32[]: good steps since it changed
 *   train.skipped          i64[]           updates skipped because a gradient was not finite
 *   train.rounding         i32[]           1: stochastic rounding of bf16 state (bf16-sr, bf16 moments), 0: to nearest
 *   train.seed             i64[]           the key of that rounding
 *   grad.PARAM             f32             (grad/apply, accumulate) IR_STATE_GRADIENT: not in checkpoints
 *   master.PARAM           f32             bf16-master's copies
 *   ema.PARAM              f32             (ema) the parameter's exponential moving average; after the first update:
 *                          the parameter
 *   train.waited.K         i64[]           updates that were made while group K of the optimizer waited (its option
 *                          `from`)
 */
#ifndef TCC_PASSES_TRAIN_TRAIN_H
#define TCC_PASSES_TRAIN_TRAIN_H

#include "passes/composite.h"
#include "passes/cost.h"

/* What a stage computes again: the forward pass of each of its segments is cut into about `parts` pieces (0: nothing is
 * recomputed), of which the first `segments` keep only what they begin with. */
/* found, rematerialised: pieces that there are, nodes; added to */
struct train_recompute { int parts, segments; int found, rematerialised; };

/*
 * --partitions and what goes with it. The module's functions become parts of entry points in stages (ir/stages.h)
 * called step, eval and init, and its state variables get owning stages. It begins with the members that the rows of
 * base/options.def give tccc_split, too (compiler/tccc.h), but that partitions and microbatches are 1 at least.
 */
#define TCCC_OF_OPTIONS(member)
#define TCCC_OF_TRAIN(member)
#define TCCC_OF_SPLIT(member) member
struct train_split {
#define TCCC_FIELD(id, long_name, short_name, argument, kind, tools, group, help, in, type, member, least, most, uses) \
    TCCC_OF_##in(TCCC_MEMBER_##type(member))
#include "base/options.def"
    const char *map_text;           /* of the file `map`; "": all in default_stage */
    FILE *memory_report;            /* --report: what the backward passes read, kept or computed again */
    FILE *schedule;                 /* the schedule in words; NULL: none */
    struct train_recompute *recompute;      /* by stage; NULL: nothing is recomputed */
};

/* The axis on which an input is split into microbatches; -1: none. */
int train_split_axis(const struct train_split *o, const char *name, ir_type type);

/* How parameters of 16 bits are updated: as the precision says; rounded stochastically; by float32 copies, rounded to
 * nearest. */
enum train_updates { TRAIN_UPDATES_DEFAULT, TRAIN_UPDATES_ROUNDED, TRAIN_UPDATES_MASTER };

/* Of --auto-cast: as without a word, and products in MX formats of 8 bits (the pass mx), a step's when it is built. */
#define AUTOCAST_MXFP8 "mxfp8"

/* Begins with the members that tccc_train has, too. Texts are parsed by options.c against its tables. */
#undef TCCC_OF_TRAIN
#undef TCCC_OF_SPLIT
#define TCCC_OF_TRAIN(member) member
#define TCCC_OF_SPLIT(member)
struct train_options {
#define TCCC_FIELD(id, long_name, short_name, argument, kind, tools, group, help, in, type, member, least, most, uses) \
    TCCC_OF_##in(TCCC_MEMBER_##type(member))
#include "base/options.def"
    const char *auto_cast;          /* matmul, all, AUTOCAST_MXFP8, FILE: passes/autocast */
    const char *auto_cast_type;     /* bf16, fp16 */
    const struct train_split *stages;    /* NULL: one stage, whole batches */
    bool data_parallel;             /* gradients are averaged over the ranks of group dp */
    enum train_updates updates;     /* of parameters that are narrow in the model itself */
    const struct pass_machine *machine;  /* whose time is balanced between stages; NULL: a plain one's */
    /* what a stage's microbatches keep for their backward passes lies with the host (a step without stages:
     * plan/offload.c) */
    bool offload_activations;
    bool offload_optimizer;         /* the optimizer's state lies with the host (struct ir_state, on_host) */
    /* --report: a line for each place where a parameter's gradient stops; may be NULL */
    FILE *report;
};
#undef TCCC_OF_OPTIONS
#undef TCCC_OF_TRAIN
#undef TCCC_OF_SPLIT

/* False after diagnostics: the model is at fault (exit 1), since train_check was called before. */
bool train_build(struct ir_module *m, const struct train_options *o);
/* Are the texts well-formed? False after a diagnostic: a usage error. */
bool train_check(struct ir_ctx *ctx, const struct train_options *o);

/*
 * What makes a trained model one's own, once it has been read and before it is differentiated (head.c, lora.c). All
 * are false after a diagnostic: the model is at fault.
 */
struct train_head { struct ir_state *weight, *bias; };       /* bias NULL: it has none */
/* --new-head: the last dense layer has so many outputs, and first values drawn by the seed. at NULL: found, else a
 * value on which it is built. *head: its parameters. */
bool train_new_head(struct ir_module *m, int64_t classes, const char *at, uint64_t seed, struct train_head *head);
bool train_find_head(struct ir_module *m, struct train_head *head);

/* Low-rank adapters (LoRA): of a layer, by its name; a [rank, inputs...], b [outputs, rank], and what b a is multiplied
 * by, alpha / rank. */
struct train_adapter {
    const char *module;
    struct ir_tensor *a, *b;
    struct ir_tensor *magnitude;     /* DoRA's, one an output; NULL: none */
    double alpha;
};
/* A parameter that is stored beside them. */
struct train_saved { const char *name; struct ir_tensor *values; };
struct base_form;                    /* base.c: how weights that are not trained are kept */
struct train_lora {
    const struct base_form *base;    /* NULL: as they are */
    int64_t rank;
    double alpha, dropout;
    bool dora;                       /* new adapters have magnitudes */
    const char *targets, *save;      /* regular expressions of layers' names; NULL: all products but the last; none */
    const char *from;                /* adapter:DIR, whose these are; NULL: new ones */
    int n, nsaved;
    const struct train_adapter *at;
    const struct train_saved *saved;
};
/* "r:16,alpha:32,targets=REGEX", "adapter:DIR": a usage error if it is malformed. */
bool train_lora_read(struct ir_ctx *ctx, const char *text, struct train_lora *l);
/* "float" (NULL), "int8", "nf4", "q4": likewise. */
bool train_base_read(struct ir_ctx *ctx, const char *text, const struct base_form **form);
/* In a module read for training: layers get adapters, whose variables alone, and those of `head` and `save`, remain;
 * all other parameters become constants. */
bool train_add_lora(struct ir_module *m, const struct train_lora *l, const struct train_head *head, uint64_t seed);
/* In a module read for inference: what adapters add becomes part of the weights. */
bool train_merge_lora(struct ir_module *m, const struct train_lora *l);
/* Likewise, of several: an input `adapter` says which of them a call has, from 1; 0: none. */
bool train_choose_lora(struct ir_module *m, int n, const struct train_lora *l);

/* Takes from the functions of @predict what computes no output of theirs, then inputs that nothing reads. */
bool train_finish_predict(struct ir_module *m);

/* A schedule (text of --lr-schedule) as numbers. NULL after a diagnostic; lives in the context. `step`: updates made so
 * far. */
struct train_schedule;
struct train_schedule *train_schedule_new(struct ir_ctx *ctx, const char *text);
bool train_schedule_rate(const struct train_schedule *s, double base, int64_t step, int64_t epoch, double *rate);

/*
 * For programs that record their own steps (compiler/trace): what a step is made of, op by op. Options are texts as
 * above; those that an update does not read are ignored.
 */
/* Adds to m the state variables (train.*, optimizer.*) that updates of the parameters, variables of m, need. */
bool train_update_states(struct ir_module *m, const struct train_options *o, int n, struct ir_state *const *params);
/* Builds one update of the parameters, which have these values, by their gradients (multiplied by the loss scale, if
 * there is one) at b's point, as reads and writes of those variables, which m holds. */
bool train_update(struct ir_builder *b, const struct train_options *o, int n, struct ir_state *const *params,
                  struct ir_value *const *values, struct ir_value *const *grads);
/* With data_parallel: puts all_reduces of buckets behind the gradients, which become their averages over group dp, in
 * the type of the update. */
bool train_parallel_gradients(struct ir_builder *b, const struct train_options *o, int n,
                              struct ir_state *const *params,
                              struct ir_value **grads);
/* Collectives of group dp in nodes numbered `first` and up, in regions too, become those of `group`. */
void train_use_group(struct ir_block *block, uint32_t first, const char *group);
/* A loss by its text ("cross_entropy:label_smoothing=0.1"), at b's point: *value, f32[], and where `gradient` is not
 * NULL, its gradient by the scores times `factor` (f32[]; NULL: 1). False after a diagnostic. */
bool train_loss_at(struct ir_builder *b, const char *loss, struct ir_value *scores, struct ir_value *target,
                   struct ir_value *factor,
                   struct ir_value **value, struct ir_value **gradient);
/* The row of autocast.def for an op that is a part of that composite. */
enum autocast_policy { AUTOCAST_PROMOTE, AUTOCAST_LOWER, AUTOCAST_FLOAT32 };
enum autocast_policy autocast_policy_of(enum composite what, enum ir_op op);

/*
 * Recomputation (remat.c), after the graph passes: the first `segments` segments of about `segment_bytes` each of what
 * the backward pass reads are recomputed there. `to`: a line for each such value, kept or recomputed; may be NULL.
 */
/* that there are; nodes computed again; what they take by `cost` */
struct train_memory { int segments, rematerialised; double seconds; };
void train_remat(struct ir_func *f, const struct pass_cost *cost, double segment_bytes, int segments,
                 struct train_memory *result,
                 FILE *to);
/* The bytes that the backward pass reads of the forward pass; what has no constant size counts as nothing. */
double train_remat_bytes(struct ir_func *f);
/* A module with a copy of one function, or of all, and all state variables: to try something out. */
struct ir_module *train_copy(const struct ir_func *f);
struct ir_module *train_copy_all(const struct ir_module *m);

#endif
