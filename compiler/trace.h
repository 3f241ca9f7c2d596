/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - lazy tracing (public): networks written as C programs that record instead of running.
 *
 * An op on tensors adds a node to the context's graph and returns a tensor that has no data yet. trace_mark_step()
 * compiles what was recorded and starts running it; trace_read(), trace_print() and the loader's next batch do so too.
 * The same graph recorded again (the same ops, shapes, element types and constants; what tensors made from data hold is
 * no part of it) is not compiled again: it comes from the context, and in another process from the cache folder. A
 * training loop compiles its step once. doc/tracing.md is the guide.
 *
 *   struct trace_ctx *c;
 *   if (trace_new(NULL, &c)) ...
 *   struct trace_tensor *w = trace_param(trace_kaiming(c, TCC_F32, 2, (int64_t[]){10, 784}, 784), "w");
 *   struct trace_optimizer *opt = trace_optimizer(c, "sgd:lr=0.1", 1, &w, NULL);
 *   for (each batch) {
 *       struct trace_tensor *loss = trace_cross_entropy(trace_linear(trace_from(c, &x), w, NULL), trace_from(c,
 *       &labels)); trace_zero_grad(opt);
 *       trace_backward(loss);
 *       trace_optimizer_step(opt);
 *       if (trace_mark_step(c)) ... trace_error(c) ...
 *   }
 *
 * Lifetime: a tensor that a function returns is the context's and is good until the next trace_mark_step(), which keeps
 * those on which trace_retain() was called (trace_param() does) and frees the others: nested calls leak nothing. A
 * tensor that is used after it was freed so is TCC_EUSAGE, as long as it is among the last few thousand.
 *
 * What an execution computes: tensors that are retained, those that a step closure or trace_read() asks for, and those
 * from which nothing was computed (a loss). The others exist inside the graph only; to read one later, retain it or
 * read it first. Retained tensors that were replaced (trace_assign(), optimizers) are updated in place, in the memory
 * that they had.
 *
 * Steps are asynchronous: trace_mark_step() hands the graph to a thread of the context's and returns, so that the next
 * step is recorded while this one runs; at most two wait. trace_read() and trace_wait() wait.
 *
 * Errors: functions that return a tensor return NULL after an error, and when an operand is NULL. The first error
 * stays: it is the status of the next trace_mark_step(), trace_read() or trace_wait(), which drops what was recorded
 * since the last execution. An execution that fails (a label outside the classes) is reported by the next of those
 * calls; retained tensors then hold what they held before it, and those that it was to compute for the first time have
 * no value. Statuses are enum tcc_status. Nothing is printed (but for TCCC_TRACE=report, -v, --dump-ir); nothing exits.
 *
 * Environment: TCCC_CACHE_DIR, the cache folder where the options name none. TCCC_FLAGS, options of the compiler.
 * TCCC_TRACE, a list: `report` writes a line to standard error for each new graph: why it is not one of those before.
 * `eager` computes each op when it is recorded, through the reference interpreter: slow, and an error stands where its
 * op is called.
 *
 * A context and its tensors are used by one thread at a time, not across fork(); contexts are independent.
 */
#ifndef TCCC_TRACE_H
#define TCCC_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "runtime/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct trace_ctx;
struct trace_tensor;
struct trace_optimizer;
struct trace_scaler;
struct trace_loader;

/* == Contexts =============================================================================== */

struct trace_options {
    /* what runs the steps: "cpu", "cuda", "cuda:K", "neuron", "sim" (what the target is for, simulated), "cpu-split";
     * NULL: TCCC_DEVICE, else what the target is for */
    const char *device;
    /* what they are compiled for, as tccc's --target: "cuda:sm_90a", "neuron:trn1"; NULL: by the device: "cpu",
     * "neuron:trn1", or "cuda:sm_80", whose PTX newer ones run too (sim: that of CUDA) */
    const char *target;
    const char *march;           /* of tccc's --march; NULL: native */
    int threads;                 /* 0: the physical cores that the process may use */
    const char *cache_dir;       /* folder of compiled graphs that processes share; NULL: TCCC_CACHE_DIR; "": none */
    uint64_t seed;               /* of random numbers */
    int level;                   /* optimisation, 1..3; 0: 2 */
};
/* `options` may be NULL. TCC_EENV: no memory, or no such device here; TCC_EUSAGE: an unknown device, option or value of
 * an environment variable; trace_error(NULL) says why. What the options leave open TCCC_FLAGS says: -O, --march,
 * --cache-dir; --exact, --fast-math, --verify, -j, -v and --dump-ir (to standard error) are heeded too. */
int trace_new(const struct trace_options *options, struct trace_ctx **out);
/* And all that belongs to it, when what runs has ended; NULL is fine. */
void trace_free(struct trace_ctx *c);
/* of the last failure; "" when none. NULL: of this thread's last trace_new() */
const char *trace_error(const struct trace_ctx *c);

struct trace_counters { int64_t traced, compiled, loaded, executed; double modelled; };
/* Graphs recorded and asked for; compiled; taken from the cache folder; run (with eager, those that would have been).
 * modelled: seconds that those run take on a simulated device that models time (NeuronCores), copies of their inputs
 * included; 0: none does. */
void trace_count(const struct trace_ctx *c, struct trace_counters *out);

/* Runs what was recorded and frees the tensors that are not retained. */
int trace_mark_step(struct trace_ctx *c);
/* Waits until all that was handed over has been run and its closures have returned. Does not end a step. */
int trace_wait(struct trace_ctx *c);
/* fn runs once, on another thread, when the step that is being recorded has been run, with copies of the tensors'
 * values; later steps go on meanwhile. Closures run in order; those of a step that fails don't. They may not use the
 * context. */
typedef void (*trace_closure)(void *user, int n, const struct tcc_tensor *values);
int trace_step_closure(struct trace_ctx *c, trace_closure fn, void *user, int n, struct trace_tensor *const *tensors);

/* == Tensors ================================================================================ */

/* A copy of host data, row-major. The data is no part of graphs that use it. */
struct trace_tensor *trace_from(struct trace_ctx *c, const struct tcc_tensor *host);
/* rank 0; no part of the graph either */
struct trace_tensor *trace_from_number(struct trace_ctx *c, int dtype, double value);
/* Constants, which are part of the graph: a number that changes from step to step belongs into trace_from_number().
 * Where one is retained it becomes data, and no part of the graphs that use it. */
struct trace_tensor *trace_scalar(struct trace_ctx *c, int dtype, double value);
struct trace_tensor *trace_full(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, double value);
struct trace_tensor *trace_zeros(struct trace_ctx *c, int dtype, int rank, const int64_t *dims);
struct trace_tensor *trace_ones(struct trace_ctx *c, int dtype, int rank, const int64_t *dims);
/* Random data, of float types, computed at once: a function of the context's seed and the order of calls. */
struct trace_tensor *trace_uniform(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, double low,
                                   double high);
struct trace_tensor *trace_normal(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, double mean,
                                  double deviation);
/* Uniform in +-sqrt(6 / fan_in) (He et al. 2015, for relu); uniform in +-1 / sqrt(fan_in), PyTorch's default for
 * layers. fan_in: inputs that a result sums over. */
struct trace_tensor *trace_kaiming(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, int64_t fan_in);
struct trace_tensor *trace_layer_init(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, int64_t fan_in);

/* References of the caller's own: keep a tensor beyond the step. trace_retain() returns t; NULL is fine. */
struct trace_tensor *trace_retain(struct trace_tensor *t);
void trace_release(struct trace_tensor *t);
/* Retains t, and trace_backward() computes its gradient. The name (NULL: none) stands in messages, and optimizers'
 * groups go by it. */
struct trace_tensor *trace_param(struct trace_tensor *t, const char *name);

int trace_dtype(const struct trace_tensor *t);           /* enum tcc_dtype */
int trace_rank(const struct trace_tensor *t);            /* how many axes; 0: a scalar */
const int64_t *trace_dims(const struct trace_tensor *t); /* their sizes; the tensor's, as long as it is there */

/* Copies t's data to `buffer`, computing it first if need be: that runs all that was recorded, and ends its graph:
 * gradients can't be asked for through it any more. No tensor is freed. TCC_EUSAGE: `bytes` is not the tensor's size; t
 * is NULL, or stood inside a graph that was run before. */
int trace_read(struct trace_tensor *t, void *buffer, size_t bytes);
int trace_item(struct trace_tensor *t, double *value);   /* the one element of t */
int trace_print(struct trace_tensor *t, FILE *to);       /* a line: type, shape, the first values */
/* t becomes what `value` is, of the same type and shape, from here on; what was computed from t before is not
 * changed. */
int trace_assign(struct trace_tensor *t, struct trace_tensor *value);
/* Writes host data into a retained tensor, of the same type and shape. Graphs stay what they are. */
int trace_set(struct trace_tensor *t, const struct tcc_tensor *host);
/* Brings t's data to the context's device, by its name in the options, or to "cpu", now instead of when it is needed
 * (before the first step, with that step): a hint, which returns t. Data that steps update lies on the device, and what
 * is read comes to the host by itself. NULL after an error: another device, or memory that ran out. */
struct trace_tensor *trace_to(struct trace_tensor *t, const char *device);
/* The same value, and no gradient flows through it. */
struct trace_tensor *trace_detach(struct trace_tensor *t);

/* == Ops ====================================================================================== */

/* Any op of doc/ops.md with one result but for state, control flow and library ops, by name. Operands may be NULL where
 * the op says so only. Attributes (ended by one without a name; may be NULL) have the op's names: numbers and lists of
 * numbers as TCC_ATTR_INTS (element types too: enum tcc_dtype) or TCC_ATTR_FLOATS, texts as TCC_ATTR_STRINGS. */
struct trace_tensor *trace_op(struct trace_ctx *c, const char *op, int nin, struct trace_tensor *const *in,
                              const struct tcc_attr *attrs);
/* The same with nout results. */
int trace_op_many(struct trace_ctx *c, const char *op, int nin, struct trace_tensor *const *in,
                  const struct tcc_attr *attrs,
                  int nout, struct trace_tensor **out);

/* Elementwise, with NumPy's broadcasting: trace_add(x, y), ..., a function for each row of ir/scalar.def, where their
 * meanings stand (and in doc/ops.md). Operands have one element type; comparisons give bool. */
#define TRACE_OPERANDS_1 struct trace_tensor *x
#define TRACE_OPERANDS_2 TRACE_OPERANDS_1, struct trace_tensor *y
#define TRACE_OPERANDS_3 TRACE_OPERANDS_2, struct trace_tensor *z
#define SCALAR(name, operands, types, flags, body, doc) struct trace_tensor *trace_##name(TRACE_OPERANDS_##operands);
#define SCALAR_CAST(...)
#include "ir/scalar.def"
/* x itself where it has that type */
struct trace_tensor *trace_cast(struct trace_tensor *x, int dtype);
/* x op a number, of x's type and part of the graph. */
struct trace_tensor *trace_add_number(struct trace_tensor *x, double value);
struct trace_tensor *trace_mul_number(struct trace_tensor *x, double value);

/* As torch.matmul: the last two axes are matrices, those before them broadcast; an operand of rank 1 is a row or a
 * column. */
struct trace_tensor *trace_matmul(struct trace_tensor *x, struct trace_tensor *y);
/* x w' + bias, w[out, in], bias[out] or NULL. */
struct trace_tensor *trace_linear(struct trace_tensor *x, struct trace_tensor *w, struct trace_tensor *bias);
/* Two spatial axes: x[n, c, h, w], w[o, c / groups, kh, kw], bias[o] or NULL. */
struct trace_tensor *trace_conv(struct trace_tensor *x, struct trace_tensor *w, struct trace_tensor *bias, int stride,
                                int pad,
                                int groups);
struct trace_tensor *trace_max_pool(struct trace_tensor *x, int kernel, int stride, int pad);
struct trace_tensor *trace_avg_pool(struct trace_tensor *x, int kernel, int stride, int pad);
/* softmax(q k' scale + mask) v, q[b, h, s, d]; the mask is added, and may be NULL. */
struct trace_tensor *trace_attention(struct trace_tensor *q, struct trace_tensor *k, struct trace_tensor *v,
                                     struct trace_tensor *mask, double scale, bool causal);

/* One dim may be -1: what is left. */
struct trace_tensor *trace_reshape(struct trace_tensor *x, int rank, const int64_t *dims);
/* axes from `axis` on become one */
struct trace_tensor *trace_flatten(struct trace_tensor *x, int axis);
struct trace_tensor *trace_transpose(struct trace_tensor *x, const int64_t *perm);
struct trace_tensor *trace_expand(struct trace_tensor *x, int rank, const int64_t *dims);
struct trace_tensor *trace_concat(int n, struct trace_tensor *const *x, int axis);
struct trace_tensor *trace_slice(struct trace_tensor *x, int axis, int64_t start, int64_t size);
struct trace_tensor *trace_gather(struct trace_tensor *x, struct trace_tensor *index, int axis);
/* Rows of w[rows, width]: gather along axis 0. A row that is not there is TCC_EINDEX. */
struct trace_tensor *trace_embedding(struct trace_tensor *w, struct trace_tensor *index);
struct trace_tensor *trace_iota(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, int axis);

/* Over the axes (negative ones count from the end); naxes < 0: over all. */
struct trace_tensor *trace_sum(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep);
struct trace_tensor *trace_mean(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep);
struct trace_tensor *trace_amax(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep);
struct trace_tensor *trace_amin(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep);
struct trace_tensor *trace_prod(struct trace_tensor *x, int naxes, const int64_t *axes, bool keep);
struct trace_tensor *trace_argmax(struct trace_tensor *x, int axis, bool keep);           /* i64 */
struct trace_tensor *trace_softmax(struct trace_tensor *x, int axis);
struct trace_tensor *trace_log_softmax(struct trace_tensor *x, int axis);
/* (x - mean) / sqrt(variance + eps) over the last n axes, times scale plus bias (either may be NULL), of those axes'
 * dims. */
struct trace_tensor *trace_layer_norm(struct trace_tensor *x, int n, struct trace_tensor *scale,
                                      struct trace_tensor *bias, double eps);
/* Over all axes but 1. Training: by the batch's statistics, and mean and variance (retained tensors) are assigned
 * (1 - momentum) x what they were + momentum x the batch's, the variance without bias, as in PyTorch. */
struct trace_tensor *trace_batch_norm(struct trace_tensor *x, struct trace_tensor *scale, struct trace_tensor *bias,
                                      struct trace_tensor *mean, struct trace_tensor *variance, bool training,
                                          double momentum,
                                      double eps);
/* Zeros each element with that probability and divides the others by 1 - probability. The elements are a function of
 * the seed, the number of executions before, and the order of calls. */
struct trace_tensor *trace_dropout(struct trace_tensor *x, double probability);

/* A loss as the text of --loss says it, without input and target: "cross_entropy:label_smoothing=0.1"
 * (doc/training.md). f32[]. */
struct trace_tensor *trace_loss(struct trace_tensor *scores, struct trace_tensor *target, const char *loss);
/* The mean over rows of -log softmax(scores[n, classes])[labels[n]]; a label outside the classes is TCC_EINDEX. */
struct trace_tensor *trace_cross_entropy(struct trace_tensor *scores, struct trace_tensor *labels);
struct trace_tensor *trace_nll(struct trace_tensor *logarithms, struct trace_tensor *labels);
struct trace_tensor *trace_mse(struct trace_tensor *x, struct trace_tensor *y);

/* From here on ops take operands of the types that passes/train/autocast.def says, lower ones as `dtype` (TCC_BF16,
 * TCC_F16); TCC_NONE: no casts, as in the beginning. Returns what was set before, to be set again at the scope's end.
 * For forward passes: gradients have the types of what they differentiate. */
int trace_autocast(struct trace_ctx *c, int dtype);

/* == Gradients and optimizers ==================================================================== */

/* Adds d loss / d p to p's gradient for each param p that the loss was computed from in the graph being recorded. loss
 * has one element. TCC_EUSAGE: none of them; TCC_EINPUT: an op without a gradient on the way. */
int trace_backward(struct trace_tensor *loss);
/* NULL: none yet. It is the param's own: retain it to keep it beyond trace_zero_grad(). What runs a graph keeps
 * gradients that no optimizer has used yet (to be added to by later steps) and drops the others. */
struct trace_tensor *trace_grad(struct trace_tensor *t);

struct trace_optimizer_options {
    /* of --lr-schedule: "step:size=1,gamma=0.7"; NULL: constant. Epochs are trace_set_epoch()'s */
    const char *schedule;
    const char *state;           /* "float32" or "bf16"; NULL: float32 */
    double clip_norm;            /* 0: none */
    /* gradients are averaged over the processes of group dp first, in buckets, while others are computed */
    bool data_parallel;
    const char *group;           /* over that group instead; NULL: dp */
    double bucket_cap_mb;        /* 0: 25, with a first one of 1 MiB */
};
/* Any optimizer of doc/training.md by its text, groups included: "adamw:lr=1e-3;*bias:weight_decay=0". Retains the
 * params; those without a name are called paramN. With data_parallel, called by all processes of the group, which must
 * list the same params (TCC_EINPUT otherwise): all get those of the group's first rank. `options` may be NULL. NULL
 * after an error. An update whose gradients are not all finite changes nothing. */
struct trace_optimizer *trace_optimizer(struct trace_ctx *c, const char *text, int n,
                                        struct trace_tensor *const *params,
                                        const struct trace_optimizer_options *options);
void trace_optimizer_free(struct trace_optimizer *o);        /* NULL is fine */
void trace_zero_grad(struct trace_optimizer *o);             /* its params have no gradients from here on */
int trace_optimizer_step(struct trace_optimizer *o);         /* records the update of those that have gradients */
/* The base rate and the epoch of the next steps: inputs of the graph, so no new one. */
int trace_set_rate(struct trace_optimizer *o, double rate);
int trace_set_epoch(struct trace_optimizer *o, int64_t epoch);
/* Its tensors by name, for checkpoints and tests: "optimizer.exp_avg.w", "train.step", "train.lr" (the last update's
 * rate), "train.random" (i64[2]: the context's seed and the number of the next execution, which dropout is a function
 * of: what trace_set() gives it the context goes on with); NULL: none of that name. trace_optimizer_state_name(): those
 * there are, NULL behind the last. */
struct trace_tensor *trace_optimizer_state(struct trace_optimizer *o, const char *name);
const char *trace_optimizer_state_name(const struct trace_optimizer *o, int i);

/* torch.amp.GradScaler with its defaults (scale: 0 for 65536): halves after an overflow, doubles after 2000 good steps.
 * One scaler an optimizer: trace_backward(trace_scaler_scale(s, loss)), then trace_scaler_step(s, o) instead of
 * trace_optimizer_step(o). */
struct trace_scaler *trace_scaler(struct trace_ctx *c, double scale);
/* 0: the default, 65536, 2, 0.5, 2000. After an overflow the scale is times backoff, after `interval` good steps times
 * growth. */
struct trace_scaler_options { double init, growth, backoff; int64_t interval; };
/* NULL: defaults */
struct trace_scaler *trace_scaler_new(struct trace_ctx *c, const struct trace_scaler_options *options);
/* Its tensors by name, for checkpoints: "train.scale", f32[], and "train.growth", i32[]: good steps since the scale
 * changed. */
struct trace_tensor *trace_scaler_state(struct trace_scaler *s, const char *name);
const char *trace_scaler_state_name(const struct trace_scaler *s, int i);
void trace_scaler_free(struct trace_scaler *s);
struct trace_tensor *trace_scaler_scale(struct trace_scaler *s, struct trace_tensor *loss);
int trace_scaler_step(struct trace_scaler *s, struct trace_optimizer *o);
struct trace_tensor *trace_scaler_value(struct trace_scaler *s);     /* f32[]: the scale */

/* == Many processes ================================================================================
 * The same program in all of them, started by mpirun or srun (doc/distributed.md). Every process records the same
 * steps; in group "dp" they differ in their data, in group "pp" each runs its part of the graph. */

/* Joins the other processes, before anything is made or recorded in the context. The groups are then
 *   "world"  all
 *   "pp"     with stages > 1: one process a stage, rank k of it stage k; neighbours in the world
 *   "dp"     the processes of one stage: those that have the same parameters and other samples
 * A process that was started alone is a world of one, which runs all stages. Graphs are compiled once on each machine,
 * whoever comes first: the others wait and load them, from the context's cache folder or one that is made for this run.
 * Threads that the options leave open are this process's share of the machine's CPUs. Dropout has other masks in each
 * rank of dp. trace_free() leaves; one context of a process joins at a time. TCC_EENV: no MPI library, a process that
 * does not come; TCC_EINPUT: stages don't divide the number of processes.
 *
 * A step that fails in one process fails in all: TCC_EENV, with a message that names the rank and the reason; they
 * can't go on then. */
int trace_join(struct trace_ctx *c, int stages);
/* A group of ranks of the world, in that order, under a name of at most 15 letters. Called by all processes, before
 * anything is recorded. */
int trace_group(struct trace_ctx *c, const char *name, int n, const int *ranks);
/* this process's number; 0: no such group; -1: no member of it */
int trace_group_rank(const struct trace_ctx *c, const char *name);
int trace_group_size(const struct trace_ctx *c, const char *name);       /* 1: no such group, or no member of it */

/* Collectives, recorded like other ops and run by all members of the group in the order of recording. `mode`: "sum",
 * "avg", "min", "max", "product". In a group of one they give t. Only all_reduce has a gradient (of sum and avg). With
 * stages, the group is dp. */
struct trace_tensor *trace_all_reduce(struct trace_tensor *t, const char *group, const char *mode);
/* All of a list by one message: out[i] = scale * the reduction of in[i] (a scale other than 1 is for floats). */
int trace_all_reduce_many(struct trace_ctx *c, int n, struct trace_tensor *const *in, const char *group,
                          const char *mode, double scale,
                          struct trace_tensor **out);
/* elsewhere undefined */
struct trace_tensor *trace_reduce(struct trace_tensor *t, const char *group, const char *mode, int root);
struct trace_tensor *trace_broadcast(struct trace_tensor *t, const char *group, int root);
/* [n, ...] to [size n, ...]: the ranks' tensors one behind the other; and back: the sum's part of this rank. */
struct trace_tensor *trace_all_gather(struct trace_tensor *t, const char *group);
struct trace_tensor *trace_reduce_scatter(struct trace_tensor *t, const char *group, const char *mode);
/* part r of axis 0 goes to rank r */
struct trace_tensor *trace_all_to_all(struct trace_tensor *t, const char *group);
/* Parts of any sizes: give[r] rows go to rank r, take[r] come from it; what one gives is what the other takes. */
struct trace_tensor *trace_all_to_all_parts(struct trace_tensor *t, const char *group, const int64_t *give,
                                            const int64_t *take);
int trace_send(struct trace_tensor *t, const char *group, int peer, int tag);            /* 0 <= tag < 4096 */
struct trace_tensor *trace_recv(struct trace_ctx *c, const char *group, int peer, int tag, int dtype, int rank,
                                const int64_t *dims);

/* Ops recorded from here on, and their gradients, belong to that stage (0...), or to none (-1: losses, updates, which
 * go where what they need is). Returns what was set before, to be set again at the scope's end. Where group pp has one
 * process, nothing is cut. */
int trace_stage(struct trace_ctx *c, int stage);
/* Called by all processes of group pp: a tensor of one stage comes to all, until it is updated. Reading another stage's
 * tensor without it is TCC_EUSAGE. Runs what was recorded. */
int trace_collect(struct trace_tensor *t);
/* Called by all of the group: its retained tensors (parameters, optimizer state) become rank `root`'s: after reading a
 * checkpoint there. Runs what was recorded. */
int trace_share_state(struct trace_ctx *c, const char *group, int root);

/* == Data ========================================================================================= */

struct trace_loader_options {
    int64_t batch;               /* samples in a batch */
    bool shuffle, keep_last;     /* keep_last: the last batch may be smaller, and has a graph of its own */
    /* `batch` is that of all processes of group dp: a rank's has max(1, batch / ranks) samples */
    bool data_parallel;
    const char *group;           /* of that group instead; NULL: dp */
    int batches_per_execution;   /* steps end after so many batches; 0: 1 */
    uint64_t seed;
};
/* Batches of samples: the arrays' first axis, as long in all of them. The arrays stay the caller's and must stay. */
struct trace_loader *trace_loader(struct trace_ctx *c, int narrays, const struct tcc_tensor *arrays,
                                  const struct trace_loader_options *options);
void trace_loader_free(struct trace_loader *l);
/* in an epoch: as many as trace_loader_next() gives, the same in all ranks */
int64_t trace_loader_batches(const struct trace_loader *l);
void trace_loader_start(struct trace_loader *l, int64_t epoch);      /* begins that epoch (at first: 0) */
/* Ends the step (trace_mark_step()) when batches_per_execution batches were given or the epoch ends, then makes out[i]
 * the next batch of array i: temporary tensors. *more: false at the end of the epoch, where no tensor is made. */
int trace_loader_next(struct trace_loader *l, struct trace_tensor **out, bool *more);
/* The order of samples, as torch.utils.data.DistributedSampler's, which the loader and tccc-train use: of each epoch's
 * order rank r takes numbers r, r + ranks, ... (contiguous: adjacent parts). All ranks take as many: what the last ones
 * lack begins at the epoch's first samples again, or with drop_last the rest is left out. */
struct trace_sampler { int64_t samples; int ranks, rank; bool shuffle, drop_last, contiguous; uint64_t seed; };
int64_t trace_sampler_count(const struct trace_sampler *s);  /* of this rank, in an epoch */
/* Its *count numbers in the epoch's order, by torch.randperm seeded with seed + epoch: free() them. NULL: no memory. */
int64_t *trace_sampler_epoch(const struct trace_sampler *s, int64_t epoch, int64_t *count);
/* torch.randperm(n) on the CPU, seeded with `seed`: 0..n-1 in a random order. */
void trace_randperm(uint64_t seed, int64_t n, int64_t *out);

#ifdef __cplusplus
}
#endif
#endif
