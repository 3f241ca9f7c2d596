/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tccc-train.
 *
 *   tccc-train     the loop over epochs and batches;  train_settings: what a run is, by its options
 *   train_step     a step, or several; losses read late
 *   train_eval     evaluation;  train_metrics: what it says besides loss and accuracy;  train_confusion: --confusion
 *   train_control  what evaluations decide: --patience, --plateau; --keep
 *   train_blame    which sample and label a run failed for
 *   train_ckpt     checkpoints and resuming
 *   train_outputs  --save-outputs
 *   train_memory   --memory-report
 *   train_ranks    many processes: what they have in common, who does what;  train_elastic: --elastic
 *   train_html     --html;  train_log: --log-file;  train_events: --tensorboard;  train_serve: --metrics=HOST:PORT
 *   train_net      --net
 *   train_report   progress on a terminal, JSON lines elsewhere
 */
#ifndef TCCC_TOOLS_TRAIN_INT_H
#define TCCC_TOOLS_TRAIN_INT_H

#include <limits.h>

#include "base/safe.h"
#include "compiler/trace.h"
#include "tools/data/data_int.h"

struct train_schedule;

/* An entry point of the artifact. */
/* axes: of the inputs' samples */
struct entry_info { const char *name; int nin, nout; struct tccrt_value_info *in, *out; int *axes; };

/* --net: where its model lies, and what that was compiled to. */
struct train_net { struct tcr_scratch scratch; char model[PATH_MAX + 16], step[PATH_MAX + 16]; };

/* Of a step. has_norm: the artifact computes the gradients' norm; has_scale: it has a loss scale, and this is the one
 * now. */
struct step_result {
    double loss, lr, ms, norm, scale;
    double data_ms; /* it waited for its batch */
    double sim_ms;  /* 0: no time is modelled */
    int64_t rows;
    bool has_norm, has_scale;
    int ranks; /* that made it */
};

/* A step that the device has been given, its batch, and what it leaves in the state; `values` as they lie there. took:
 * ms to give it; waited: for its batch. ended: seconds of modelled time. run: its number (tccrt_random_get()). */
enum { STATE_LR, STATE_NORM, STATE_SCALE, STATE_SKIPPED, STEP_STATES, TRAIN_AHEAD = 2 };
struct step_ahead {
    struct batch *batch;
    int64_t ticket, run;
    double took, waited, ended, loss[2], values[STEP_STATES];
};

struct eval_result { double loss, accuracy; bool has_accuracy; };

/* A number that a step or an evaluation has, "train/loss", "eval/accuracy": for readers of runs. */
struct train_scalar { char name[32]; double value; };
enum { METRICS_MOST = 14, SCALARS_MOST = METRICS_MOST + 4 };

/* --metrics (metrics.c). A batch as `eval` has run it: `rows` samples of it count, which are order[0], ...; scores and
 * labels: where classes are found on axis `axis`, classes 0: nowhere. */
struct metrics;
struct metrics_batch {
    const struct tcc_tensor *in, *out, *scores, *labels;
    int axis;
    int64_t classes, rows;
    const int64_t *order;
};

/* --patience, --plateau, --keep (control.c). worse, flat: evaluations since the best one. */
struct train_control {
    int64_t patience, keep, worse, flat;
    bool plateau, lower, ended;
    double factor, plateau_patience, least, best, resumed_rate;
};

/* --memory-report, in bytes; predicted -1: not known. */
/* device, weights: of one with a memory of its own, at most */
struct trainer_memory {
    int64_t before, peak, state, predicted, device, weights, params, optimizer, gradients, arena, constants, now,
        device_now;
};

struct train_html;
struct train_events;
struct train_serve;

struct trainer {
    const struct options *o;
    const struct train_net *net;           /* NULL: the model was given */
    struct model m;
    struct entry_info step, eval;          /* eval.name NULL: the artifact has none */
    /* what the data are: of the checkpoint that the run goes on from, or as they are found */
    struct data_tables tables;
    char tables_from[PATH_MAX];            /* that checkpoint */
    struct data_set data, eval_data;
    struct loader *loader, *eval_loader;
    struct trace_sampler sampler;
    int64_t batch_size, epochs, steps;     /* steps 0: no limit */
    int64_t eval_every, checkpoint_every, outputs_every;
    int per_execution;
    int64_t skip_bad;                      /* --skip-bad */
    double split;                          /* --split; 0: none */
    bool evaluates;                        /* there are samples to evaluate */
    bool drop_last, fixed_batch, stopped;
    int micros;                            /* microbatches that a batch is split into */
    struct tcc_tensor *in, *out;           /* of an execution */
    float *losses;
    struct step_ahead ahead[TRAIN_AHEAD];  /* by number of the step: given, but not waited for */
    int nahead;
    bool late;                             /* a step's loss is read when the next one has been given */
    int state_types[STEP_STATES];          /* -1: the artifact has none */
    double skipped;                        /* updates that loss scaling has left out, up to the last step reported */
    /* The rate, where it is not the compiled-in schedule's. */
    struct ir_ctx *ctx;
    struct train_schedule *schedule;
    double base_rate;
    bool by_step;
    /* Where we are: batch of the epoch that comes next, steps made. */
    int64_t epoch, batch, done, per_epoch;
    double best_loss;
    int64_t best_step;                     /* of this run; 0: it was an earlier one's */
    bool resumed;
    bool wrote_best;
    int64_t evaluated;                     /* the step after which the last evaluation was; -1: none */
    /* Reports. */
    bool json, quiet, shown;
    /* the artifact has a learning rate, computes the gradients' norm, has a loss scale */
    bool has_lr, has_norm, has_scale;
    struct tccrt_comm *world;
    int processes;                         /* in the world; 1: alone */
    bool chief;                            /* rank 0 of the world, which reports */
    /* those that run the same on other samples; the stages of one copy of the model; those that have parts of the same
     * tensors */
    struct tccrt_comm *dp, *pp, *tp;
    int rank, ranks;                       /* of dp: who takes which samples */
    bool eval_sharded;                     /* all ranks of dp evaluate, each its batches */
    int stage;                             /* 1 + the one that this process runs; 0: all there are */
    int tensor;                            /* 1 + its rank in tp; 0: tensors are whole */
    /* --elastic. joins: the job runs, this process is to become one of its ranks; regroup: ranks are to meet anew;
     * owes: rank 0 has died, and may not have written what it should have; least: ranks; first_seed: of random ops, of
     * rank 0; last: what the last step has said; logged: the last step that the log has; kept, keeps: by
     * ranks_keep(), and how often. */
    struct kept *kept;
    bool elastic, joins, regroup, owes;
    int least;
    uint64_t first_seed;
    struct step_result last;
    int64_t logged, keeps;
    int64_t global_batch;                  /* of all ranks together; batch_size is this one's */
    double started, last_shown;
    double epoch_started, epoch_loss, last_lr;     /* since the last report_epoch() */
    int64_t epoch_rows;
    int64_t done_at_start;
    struct trainer_memory memory;
    struct metrics *metrics;
    struct train_control control;
    struct train_html *html;               /* --html; NULL: none */
    FILE *log;                             /* --log; NULL: none */
    struct train_events *events;           /* --tensorboard; NULL: none */
    struct train_serve *serve;             /* --metrics=HOST:PORT; NULL: none */
    double looked;                         /* at the memory, last */
    double simulated;                      /* seconds of modelled time, after the last step reported */
    double waited;                         /* ms: for the last execution's batches */
};

/* status.c */
int trainer_code(int status);                                               /* the exit code of a tcc_status */
/* exit code after a message of the run-time library's */
int trainer_status(const struct trainer *t, int status);
/* a variable of rank 0; false: there is none */
bool trainer_state_scalar(struct trainer *t, const char *state, struct tcc_tensor *out);
double trainer_scalar(struct trainer *t, const char *state, double otherwise);
bool trainer_set_scalar(struct trainer *t, const char *state, double value);
/* settings.c, in this order; exit codes. The numbers of the command line; the batch size that the step was compiled
 * for, in which all inputs must agree with --batch-size; the data, and of a rank's epoch the batches that the step can
 * take; the rate: --lr and --lr-schedule win over what was compiled in (`artifact`: into one that was there). */
int trainer_read_numbers(struct trainer *t);
int trainer_settle_batch_size(struct trainer *t);
int trainer_open_data(struct trainer *t);
int trainer_count_batches(struct trainer *t);
int trainer_settle_rate(struct trainer *t, bool artifact);

extern const char *const train_states[STEP_STATES];                         /* state variables that a step leaves */
int train_calibrate(struct trainer *t);      /* before the first step; nothing where none is wanted, or it was done */
/* one execution, of the epoch's next batches; *ended: there are no more */
int train_execute(struct trainer *t, struct batch **list, const int64_t *order, bool *ended);
/* steps that were given are waited for and reported */
int train_read_all(struct trainer *t, const int64_t *order);
bool train_is_folded(const struct trainer *t);           /* does this process stand for several simulated ones? */
bool train_reads_late(const struct trainer *t);

int train_evaluate(struct trainer *t, struct eval_result *result);
/* A run failed on batch b of the set, whose rows are samples order[0], ...: a message that begins with `what` and names
 * the label, or the sample, if one alone makes it fail. */
void train_blame(struct trainer *t, const struct data_set *set, const struct batch *b, const int64_t *order,
                 int status, const char *what);

/* -- ranks.c: all of it does nothing much when there is one rank */
int ranks_begin(struct trainer *t);
/* the artifact, or the model compiled once a machine */
int ranks_open(struct trainer *t, bool artifact);
int ranks_place(struct trainer *t);                                        /* which stage, which samples */
int ranks_groups(struct trainer *t);                                       /* of the new session */
int ranks_agree(struct trainer *t);
int ranks_agree_plan(struct trainer *t); /* of an artifact for several targets; the session is there */
int ranks_share(struct trainer *t);
int ranks_tables(struct trainer *t);                                        /* rank 0's tables become everybody's */
/* rank 0 gets what others hold of the state, for a checkpoint */
int ranks_collect(struct trainer *t);
/* who evaluates gets the parameters that others hold */
int ranks_params(struct trainer *t);
/* they let go of both; code, or what went wrong */
int ranks_release(struct trainer *t, int code);
int ranks_stop(struct trainer *t, bool mine, bool *all);
int ranks_end(struct trainer *t, int code);                                /* the exit code */
void ranks_flags(const struct trainer *t, char *text, size_t size);         /* what must be the same everywhere */
void ranks_seed(struct trainer *t, int64_t runs);                           /* this rank's, from first_seed */
/* elastic.c, --elastic: has the run ended, with that code, since a rank is gone? The ranks that are left and those that
 * come meet, and all are as far as the furthest one: an exit code. */
bool ranks_lost(const struct trainer *t, int code);
int ranks_keep(struct trainer *t);      /* in front of each step: keeps what a rank goes back to when another dies */
bool ranks_may_meet(struct trainer *t); /* ... is the state as it was kept? */
void ranks_forget(struct trainer *t);
int ranks_regroup(struct trainer *t);
int trainer_recut(struct trainer *t);                                      /* there are as many ranks now */

int metrics_new(struct trainer *t, struct metrics **out);                  /* reads --metrics */
void metrics_begin(struct metrics *m);                                     /* of an evaluation */
int metrics_add(struct metrics *m, const struct metrics_batch *b);
int metrics_share(struct metrics *m);                                      /* adds up those of all ranks */
/* "eval/NAME" of all but the matrix into to[METRICS_MOST]; how many */
int metrics_scalars(struct metrics *m, double loss, struct train_scalar *to);
void metrics_print(struct metrics *m, FILE *out, bool json, double loss);
/* [classes, classes], a row a label; NULL: not asked for */
const double *metrics_matrix(const struct metrics *m, int64_t *classes);
/* --confusion; EXIT_FINE, or an exit code after a message */
int metrics_draw(struct metrics *m);
void metrics_free(struct metrics *m);
/* confusion.c: a picture of counts[n, n], a row a label */
int confusion_draw(struct trainer *t, const char *path, int64_t n, const double *counts);

int control_read(struct trainer *t);
void control_evaluated(struct trainer *t, double loss);                     /* before best_loss changes */
int control_share(struct trainer *t);
void control_text(const struct trainer *t, char *to, size_t room);         /* for the checkpoint's metadata */
void control_resume(struct trainer *t, const char *text);
int control_keep(struct trainer *t, const char *folder, const char *path);

/* --checkpoint: can be written, and holds no other run's */
int train_check_folder(struct trainer *t);
int train_save(struct trainer *t, const char *name);
int train_resume(struct trainer *t);
/* of the checkpoint that --resume or --load names */
int train_tables(struct trainer *t);
int train_load(struct trainer *t, const char *path);                        /* --load: parameters and buffers */

/* net.c: makes the model of --net and puts it on the command line; into the folder of the checkpoints; away. Exit codes
 * after a message. */
int train_net_begin(struct options *o, struct train_net *net);
/* sweep.c: --sweep, instead of a training. An exit code. */
int train_sweep(const struct options *o, char **argv);
int train_net_save(const struct trainer *t);
void train_net_end(struct train_net *net);

/* log.c: --log-file */
int train_log_open(struct trainer *t);
int train_log_resume(struct trainer *t);                                    /* lines of steps that are made again go */
int train_log_take(struct trainer *t);                                      /* of the rank that wrote it before */
int train_log_close(struct trainer *t);

/* events.c: --tensorboard. Opened when it is known which step comes next; exit codes after a message. */
int train_events_open(struct trainer *t);
struct wire_buffer;
int train_events_graph(const struct options *o, struct wire_buffer *graph);  /* of an ONNX model; else nothing */
int train_events_close(struct trainer *t);
void train_events_scalars(struct trainer *t, int n, const struct train_scalar *scalars);
void train_events_parameters(struct trainer *t);                            /* histograms */
void train_events_confusion(struct trainer *t, int64_t n, const double *counts);

/* serve.c: --metrics=HOST:PORT, from a thread of its own */
int train_serve_open(struct trainer *t);
void train_serve_close(struct trainer *t);
void train_serve_scalars(struct trainer *t, int n, const struct train_scalar *scalars);

/* --save-outputs: there are some, and can be written */
int train_outputs_check(const struct trainer *t);
bool train_outputs_wanted(const struct trainer *t, int64_t step);
/* Of the step just made: out[nout], and which rows of the data it had. */
int train_outputs_write(const struct trainer *t, const struct tcc_tensor *out, int64_t rows, const int64_t *samples);

/* modelled time of all, where --sim asks for it */
void report_sim(struct trainer *t);
void report_step(struct trainer *t, const struct step_result *r);
void report_epoch(struct trainer *t);                                      /* of the steps since the last call */
void report_end(struct trainer *t);                                         /* on a terminal: how long all took */
void report_eval(struct trainer *t, const struct eval_result *r);
void report_clear(struct trainer *t);
void memory_begin(struct trainer *t);                                      /* before the session is made */
void memory_look(struct trainer *t);                                       /* after a call of the run-time library */
int report_memory(struct trainer *t);                                      /* at the end, by all ranks */
int report_trace(struct trainer *t);                                       /* --trace */
/* the last step's, with the loader's threads; a tcc_status */
int trainer_trace(struct trainer *t, const char *path);

/* html.c, --html: what rank 0 keeps of steps, evaluations and epochs; the page, where it is time for one; the last one,
 * by all ranks: code, or what went wrong. */
int train_html_new(struct trainer *t);
void train_html_free(struct trainer *t);
void train_html_step(struct trainer *t, const struct step_result *r);
void train_html_eval(struct trainer *t, const struct eval_result *r);
void train_html_epoch(struct trainer *t, double rate, double seconds);      /* before its sums are taken back */
int train_html_look(struct trainer *t);
int train_html_end(struct trainer *t, int code);

#endif
