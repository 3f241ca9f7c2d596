/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frontend.h - the door to the front ends: a model file becomes a module. Front ends only translate, they never
 * optimise.
 */
#ifndef TCC_FRONTEND_H
#define TCC_FRONTEND_H

#include "passes/pass.h"

#define FRONTEND_MAX_NODES 50000
enum { ONNX_MIN_OPSET = 1, ONNX_MAX_OPSET = 28 };

struct frontend_options {
    const char *allow_files;     /* NULL: a text reads no files; else see ir_allow_files() */
    int64_t max_nodes;           /* that a model's functions may expand to; 0: FRONTEND_MAX_NODES */
    /* "name=N": symbol `name` is N; "name=N|M|*": a shape version for N, one for M, one for other sizes; ended by NULL;
     * NULL: none */
    const char *const *dims;
    const char *const *shapes;   /* "input=AxBxC": the dims of an input (a name as a dim leaves that dim symbolic) */
    const char *const *customs;  /* --custom-op, ended by NULL; NULL: none (custom_int.h) */
    /* --defaults: which initialisers that are inputs may be given: auto, all, none, or names separated by commas; NULL:
     * none */
    const char *defaults;
    const char *const *states;   /* --state, ended by NULL; NULL: none */
    /* floats stay floats where an operator makes bytes of them at run time, by their range */
    bool exact;
    bool sync_bn;                /* with training: BatchNormalization by the statistics of all ranks of group dp */
    /* with training: a model's TrainingInfoProto, where it has one, gives @step, @eval and @init instead */
    bool own_step;
    /* sizes on axes that are split are those of a microbatch: what is fixed, here or in the model, is divided; NULL:
     * none */
    const struct train_split *split;
    /* read for training: functions @main and @train with state variables, as passes/train/train.h wants them */
    bool training;
    /* with weights that --adapter changes: what is computed of matrices of floats is not folded while reading */
    bool keeps_weights;
    bool frozen;                 /* with training: the model's own parameters will be constants (--lora) */
    /* no shape versions: dims are not 1, sizes that meet are equal; lists in `dims` wait for frontend_versions() */
    bool one_version;
    /* frontend_pin: which combination of sizes the lists in `dims` stand for; -1: they are passed over. Readers set it:
     * where they make no versions themselves, with training, frontend_versions() is to follow */
    int combination;
};

/* Reads a model (.tcir and .pt2 by their suffix, else ONNX), with dims pinned as asked. NULL after diagnostics in ctx:
 * the file is missing, malformed, unsupported, or an option names something that the model has not. `o` may be NULL. */
struct ir_module *frontend_read(struct ir_ctx *ctx, const char *path, const struct frontend_options *o);

/* Functions of a module whose inputs have dims that `dims` gives lists for become shape versions (struct ir_version),
 * one a combination. For IR text, and for what frontend_train() makes; functions that are versions stay. False after
 * diagnostics. */
bool frontend_versions(struct ir_module *m, const struct frontend_options *o);
/*
 * What -O3 does besides -O2: functions whose inputs begin with a dim of any size (a batch, mostly) become two shape
 * versions, one for size 1, whose memory, kernels and layouts are made for exact sizes, and one for all others.
 * Functions that are versions stay, so what --dim says holds.
 */
void frontend_specialise(struct ir_module *m);
#define FRONTEND_MAX_VERSIONS 8
/* How many combinations of sizes the lists in o->dims have; 1: there is no list. -1 after a diagnostic: more than
 * FRONTEND_MAX_VERSIONS, or no sizes. */
/* those of o->dims that are lists */
const char *const *frontend_lists(struct ir_ctx *ctx, const struct frontend_options *o);
int frontend_combinations(struct ir_ctx *ctx, const struct frontend_options *o);

/* A module that was read with `training` becomes the entry points of passes/train/train.h. The check of the options
 * alone comes first: false after a diagnostic that is a usage error. Then false: the model is at fault. */
struct tccc_train;
bool frontend_train_check(struct ir_ctx *ctx, const struct tccc_train *t);
/* --partitions' options as passes/ takes them. False after a diagnostic: the map can't be read. */
struct tccc_split;
bool frontend_split(struct ir_ctx *ctx, const struct tccc_split *s, struct train_split *out);
/* machine: for which it is compiled; schedule: gets the pipeline schedules in words; recompute: by stage, what it
 * computes again; all may be NULL. */
bool frontend_train(struct ir_module *m, const struct tccc_train *t, const struct pass_machine *machine, FILE *schedule,
                    struct train_recompute *recompute);

/* What these options say to a front end, but for `split`. */
struct tccc_options;
struct frontend_options frontend_options_of(const struct tccc_options *o);

/* What --new-head, --lora, --adapter and --embed-meta do to a module that has been read, with `training` for the first
 * two. False after a diagnostic. */
bool frontend_adapt(struct ir_module *m, const struct tccc_options *o);
/* Files that it reads, ended by NULL; NULL: none. */
const char *const *frontend_adapter_files(struct ir_ctx *ctx, const struct tccc_options *o);
/* --embed-meta=PATH (describe.c); called by frontend_adapt(). False after a diagnostic. */
bool frontend_describe(struct ir_module *m, const char *path);
/* --optimizer's text, in which --unfreeze-after has all parameters but the last layer's wait. NULL: the default; after
 * a diagnostic, where --unfreeze-after is given. */
const char *frontend_unfreeze(struct ir_module *m, const struct tccc_train *t);

/* The same module as the planner sees it (passes/cluster/cluster.h); t->split must be given, microbatches 1 in it
 * allows models whose batch can't be split. The module is used up. NULL after a diagnostic: the model is at fault. */
struct plan_model *frontend_plan(struct ir_module *m, const struct tccc_train *t);

/* Inference in a lower type: `what` list, matmul, all or a file, `type` bf16 or fp16; both NULL: nothing happens. For a
 * module after its other graph passes. False after a diagnostic. */
bool frontend_autocast(struct ir_module *m, const char *what, const char *type, const struct pass_options *o);
/* Products in MX formats, where --auto-cast says so: behind what makes products, a training step too. */
bool frontend_mx(struct ir_module *m, const char *what, const struct pass_options *o);

/* For front ends: applies the options to the types of a function's n inputs before anything is built from them, so that
 * what depends on pinned dims folds while translating. Unranked inputs get the rank that --shape gives. False after
 * diagnostics. Symbols of the inputs that became constants (or other dims) are listed in `pins`, for types met
 * later. */
struct frontend_pins {
    int n;
    ir_expr *from, *to;
    int nguards;                 /* what the combination takes for granted, and */
    struct ir_guard *guards;
    const ir_type *general;      /* the types for all combinations */
};
bool frontend_pin(struct ir_ctx *ctx, const struct frontend_options *o, int n, const char *const *names, ir_type *types,
                  struct frontend_pins *pins);
ir_type frontend_pinned_type(struct ir_ctx *ctx, const struct frontend_pins *pins, ir_type t);

/* The ONNX front end (compiler/onnx). It calls frontend_pin itself. */
struct ir_module *onnx_import(struct ir_ctx *ctx, const char *path, const struct frontend_options *o);
/* That for archives of torch.export (compiler/pt2), likewise. */
struct ir_module *pt2_import(struct ir_ctx *ctx, const char *path, const struct frontend_options *o);

#endif
