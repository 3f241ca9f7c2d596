/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optim_int.h - between the files of the optimizer: the options as parsed, and what the optimizers' formulas are built
 * from.
 *
 *   optim_text.c       command-line texts to struct optim_config
 *   optim.c            the update as a whole: found-inf, clipping, scaler, reading and writing of state
 *   optim_rules*.c     one function per optimizer
 *   lr_schedule.c      the rate at a step or epoch
 *   optim_round.c      stochastic rounding
 *   optim_state.c      the state variables
 */
#ifndef TCC_PASSES_TRAIN_OPTIM_INT_H
#define TCC_PASSES_TRAIN_OPTIM_INT_H

#include "passes/train/train_int.h"

enum optim_option {
#define OPTION_NAME(name, kind, meaning) OPT_##name,
#include "passes/train/optim.def"
    OPT_N
};
enum optim_kind {
#define OPTIMIZER(name, meaning) OPTIM_##name,
#include "passes/train/optim.def"
    OPTIM_N
};
enum optim_slot_shape { SLOT_LIKE, SLOT_SCALAR };
struct optim_slot {
    enum optim_kind optimizer;
    const char *name;
    enum optim_slot_shape shape;
    enum optim_option option;
};
extern const struct optim_slot optim_slots[];
extern const int optim_nslots;
#define OPTIM_MAX_SLOTS 3                        /* of one optimizer */

enum schedule_setting {
#define SETTING_NAME(name, alias, kind, meaning) SET_##name,
#include "passes/train/lr_schedule.def"
    SET_N
};
enum schedule_kind {
#define SCHEDULE(name, meaning) SCHEDULE_##name,
#include "passes/train/lr_schedule.def"
    SCHEDULE_N
};

struct optim_group {
    const char *pattern;                         /* NULL: all others */
    double value[OPT_N];
};
struct schedule_config {
    enum schedule_kind kind;
    double value[SET_N];
    int nmilestones;
    int64_t *milestones;
    int64_t warmup;
    bool by_step;                                /* counts updates, not epochs */
};
/* torch.amp.GradScaler's settings; a fixed scale has the first alone. */
struct optim_scaler {
    bool dynamic;
    double init;                                 /* first loss scale; 0: no scaling */
    double growth, backoff;                      /* factors after `interval` good steps, after an overflow */
    double interval;
};
struct optim_config {
    enum optim_kind kind;
    int ngroups;
    /* the first holds for all parameters that no other's pattern matches */
    struct optim_group *groups;
    struct schedule_config schedule;
    enum tcc_dtype slot_type;                    /* f32 or bf16 */
    double clip_norm;                            /* 0: none */
    struct optim_scaler scaler;
    double ema;                                  /* decay of the parameters' averages; 0: none are kept */
    bool master;                                 /* bf16-master */
    bool rounding;                               /* some state is bf16 and written with stochastic rounding */
};

/* NULL after a diagnostic. Lives in the context. */
const struct optim_config *optim_parse(struct ir_ctx *ctx, const struct train_options *o);
const struct optim_group *optim_group_of(const struct optim_config *c, const char *parameter);

/* One parameter's update while it is built. Values marked * are of type `dtype`, which is f32, or f64 for f64
 * parameters. */
struct optim_update {
    struct ir_builder *b;
    enum tcc_dtype dtype;
    const double *opt;                           /* the group's options */
    const struct optim_shared *shared;
    struct ir_value *rate;                       /* f64[]: the group's */
    struct ir_value *p, *g;                      /* * parameter and unscaled, clipped gradient */
    struct ir_value *slot[OPTIM_MAX_SLOTS];      /* * in the table's order; NULL where the options make none */
    struct ir_value *slot_new[OPTIM_MAX_SLOTS];  /* * */
};
/* What all parameters' updates share. */
struct optim_shared {
    struct ir_value *ok;                         /* bool[]: all gradients are finite */
    struct ir_value *first;                      /* bool[]: the first update (of a group that waits: of that group) */
    /* f64[]: number of this update, from 1; of a group that waits: of that group's */
    struct ir_value *t;
    /* f32[]: global norm of the gradients as used; NULL where nothing asks */
    struct ir_value *norm;
};
/* from + weight * (to - from), in torch.lerp's two forms. */
struct ir_value *optim_lerp(struct optim_update *u, struct ir_value *from, struct ir_value *to, double weight);
/* The new parameter (*); sets slot_new. NULL after a diagnostic. */
typedef struct ir_value *optim_rule(struct optim_update *u);
extern optim_rule *const optim_rules[OPTIM_N];

/* f64[]: the rate at the schedule's time, from the base rate f64[]. */
struct ir_value *schedule_rate(struct ir_builder *b, const struct schedule_config *s, struct ir_value *base,
                               struct ir_value *step, struct ir_value *epoch);

/* Stochastic rounding. The key: u32[], of this step; x (f32) dithered: its cast to bf16 is then exact. */
struct ir_value *optim_random_key(struct ir_builder *b);
struct ir_value *optim_dither(struct ir_builder *b, struct ir_value *key, const char *name, struct ir_value *x);

/* The state's value at b's point: an earlier read where no write stands between, else a new one. */
struct ir_value *optim_read(struct ir_builder *b, const char *name);

/* optim_state.c. The type that a parameter is updated in; has it a master copy in that type; is the norm of all
 * gradients asked for; does a group wait for an epoch (`from`), what is updated meanwhile being counted for it? */
enum tcc_dtype optim_update_type(const struct ir_state *parameter);
bool optim_has_master(const struct optim_config *c, const struct ir_state *parameter);
bool optim_needs_norm(const struct optim_config *c);
bool optim_waits(const struct optim_config *c, int group);
/* names of state variables: a slot, that count, a parameter's average */
const char *optim_slot_name(struct ir_ctx *ctx, const struct optim_slot *slot, const char *parameter);
const char *optim_waited_name(struct ir_ctx *ctx, int group);
const char *optim_average_name(struct ir_ctx *ctx, const struct ir_state *parameter);

#endif
