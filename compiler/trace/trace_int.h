/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_int.h - private to compiler/trace/: the context, the graph being recorded, compiled graphs, executions.
 *
 *   context.c   a context's begin and end
 *   tensor.c    tensors and their lifetime, errors                  graph.c    the graph being recorded, ops by name
 *   create.c    tensors from data, constants, random numbers        ops.c      elementwise ops, moves, reductions
 *   layers.c    composite ops                                       grad.c     gradients
 *   optim.c     optimizers, scaler                                  loader.c   batches
 *   sampler.c   the order of samples                                flags.c    TCCC_FLAGS
 *   flush.c     what a graph gives, updates in place                compile.c  compiled graphs
 *   digest.c    what tells graphs apart
 *   run.c       executions on a thread of their own, closures       eager.c    ops one by one
 *   device.c    data on a device with memory of its own
 *   report.c    why a graph is new                            ranks.c    processes, their groups, their state
 *   collective.c  collectives                                 stage.c    partition scopes, and cutting by them
 */
#ifndef TCC_TRACE_INT_H
#define TCC_TRACE_INT_H

#include <pthread.h>

#include "compiler/trace.h"
#include "ir/ir.h"
#include "passes/pass.h"
#include "runtime/tccrt.h"

enum trace_mode { TRACE_LAZY, TRACE_EAGER };

/* The memory of tensors' data. An execution may hold it when no tensor does any more. Counted by the context's thread
 * only. */
struct trace_data {
    struct tcc_object *o;                /* a tensor */
    int refs;
    int owners;                          /* tensors whose value it is, or was before the graph being recorded */
    uint64_t generation;                 /* of the graph that it is input number `input` of */
    int input;
    bool alias;                          /* (in that graph) a tensor's new value is this input itself */
    /* 0: every process has it; k: that of stage k - 1, and for others it has no memory */
    int owner_stage;
    bool here;                           /* ... but a copy that trace_collect() brought */
    /* where it lies in the memory of the device, of so many bytes, taken through that session; NULL: it does not
     * (device.c) */
    void *device;
    size_t bytes;
    struct tccrt_session *session;
    struct trace_ctx *c;                 /* that gives it back */
    bool stale, ahead;                   /* the host's copy is older than the device's; newer */
    bool wanted;                         /* on the device, from the first run that has it */
    int reads;                           /* runs that had it as an input, from the host */
    struct trace_data *next;             /* of those to be given back */
};

/* A loss in the graph: differentiated as a whole, by the formula that goes with it. */
struct trace_whole { struct ir_value *value, *scores, *target; const char *text; };

/* What is being recorded: a module with one function, whose inputs are the data of tensors. */
struct trace_graph {
    struct ir_ctx *ctx;                  /* NULL: nothing recorded yet */
    struct ir_module *module;
    struct ir_func *func;
    struct ir_builder b;
    struct trace_data **inputs;          /* of each parameter of func, referenced */
    const char **names;                  /* of the parameters' tensors, in ctx; NULL: none */
    int ninputs, cap_inputs;
    int nrandom;                         /* random ops so far: their streams */
    bool effects;                        /* something in it tells other processes something */
    VEC(struct ir_value *) stops;        /* results of trace_detach() */
    VEC(struct trace_whole) wholes;
    struct tcc_object **eager;           /* eager mode: by value id, the data of what has been computed */
    uint32_t neager;
    uint32_t computed;                   /* eager mode: nodes with smaller ids are */
};

/* A graph that was compiled: a node of the chain of all, newest first. */
struct trace_compiled {
    uint64_t digest[2];
    int number;                          /* from 1 */
    char *text;                          /* .tcir, for the report */
    char *names;                         /* of inputs and states, in the text's order, each ended by 0 */
    struct tccrt_model *model;
    struct tccrt_session *session;
    int nstates;
    int *states;                         /* number in the model of each state variable, -1: it has none */
    double modelled;                     /* seconds of the simulated device when the oldest run under way began */
    struct trace_compiled *next;
};

/* A closure of a step, and the tensors that it gets: of the context until it is handed over, then copies. */
struct trace_call {
    trace_closure fn;
    void *user;
    int n;
    struct trace_tensor **tensors;
    struct trace_data **from;            /* what they hold when the step has been run */
    struct tcc_tensor *values;           /* copies */
    struct trace_call *next;
};

/* A tensor that an execution gives a value: what it had before. */
struct trace_undo { struct trace_tensor *t; struct trace_data *before, *now; };

struct trace_run {
    struct trace_compiled *compiled;     /* NULL: closures only */
    int64_t count;                       /* executions before: for random numbers */
    uint64_t seed;
    int nin, nout, nstates;
    struct tcc_tensor *in, *out, *states;
    struct trace_data **in_data, **state_data;   /* whose they are */
    struct trace_data **held;            /* all of these */
    int nheld;
    struct trace_undo *undo;
    int nundo;
    struct trace_call *calls;
    bool under_way;                      /* on the device; `ticket` is waited for */
    int64_t ticket;
    int status;
    char error[512];
    double modelled;                     /* seconds of the device's, where that is simulated */
    struct trace_run *next;
};

/* The two threads, and what goes through them. */
struct trace_executor {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t runner, caller;
    bool started, quit, failed;          /* failed: nothing is run until the context's thread has seen why */
    int begun;                           /* threads that run */
    struct trace_run *todo, *done;       /* oldest first */
    struct trace_data *garbage;          /* memory of the device that nobody holds */
    int running;                         /* runs that are todo or being run */
    bool wanted;                         /* somebody waits for all of them */
    int64_t ahead;                       /* runs that were given to the device while the one before was under way */
    struct trace_call *calls;
    int calling;
};

/* What a graph that is being ended must give. */
struct trace_results {
    int n;
    struct ir_value **values;
    struct trace_data **data;            /* referenced */
    int *donors;                         /* input that the result replaces; -1: none */
    int *index;                          /* by value id: which result; -1: none. Of the graph's inputs: which input */
    bool *skip;                          /* results that another process computes for itself */
    bool *gone;                          /* inputs that are none of this process's part */
};

/* What TCCC_FLAGS says of compiling. */
/* level -1: not said. dumps: as tccc's --dump-ir, ended by NULL */
struct trace_flags {
    int level, jobs;
    bool exact, fast_math, verify, verbose;
    char *march, *cache_dir, **dumps;
    int ndumps;
};

struct trace_ctx {
    enum trace_mode mode;
    bool report;
    char *target, *march, *cache_dir;    /* cache_dir NULL: none */
    char *device;                        /* NULL: what the target is for, or TCCC_DEVICE */
    bool discrete;                       /* it has memory of its own */
    struct trace_flags flags;
    int threads, level;
    uint64_t seed;
    uint64_t generation;                 /* graphs recorded so far */
    int64_t runs_before;                 /* of those that the random numbers go on from: trace_runs() */
    uint32_t ncreated;                   /* random tensors made: their streams */
    int autocast;                        /* element type; TCC_NONE: off */
    enum composite composite;            /* that is recorded, for autocast */
    const char *source;                  /* the operator that what is recorded is a part of, or NULL */
    int stage;                           /* that what is recorded belongs to; -1: none */
    struct trace_world *world;           /* NULL: alone */
    uint64_t run_seed;                   /* added to the seed of what is run: other masks in other copies */
    struct trace_graph graph;
    struct trace_results results;        /* while it is being ended */
    struct trace_compiled *compiled;
    struct trace_compiled *fresh;        /* being compiled */
    struct trace_tensor *tensors, *last; /* all, oldest first */
    struct trace_tensor *dead, *last_dead;       /* the newest that were freed, oldest first */
    int ndead;
    struct trace_optimizer *optimizers;
    struct trace_scaler *scalers;
    struct trace_loader *loaders;
    struct trace_call *calls;            /* of the step being recorded, in order */
    struct trace_executor executor;
    struct trace_counters counters;
    int status;                          /* of the first failure since the last execution */
    char error[1024];
};

struct trace_tensor {
    struct trace_ctx *c;
    struct trace_tensor *prev, *next;
    int refs;                            /* the caller's */
    int holds;                           /* executions that may have to undo it, closures */
    bool temporary;                      /* the context's own reference, until the step ends */
    bool dead;                           /* freed: kept for a while to tell who still uses it */
    bool param, used_grad;               /* used_grad: by an optimizer */
    bool random;                         /* stands for the context's seed and number of executions */
    char *name;
    struct ir_value *value;              /* in the graph of `generation`, or NULL */
    uint64_t generation;
    struct trace_data *data;             /* NULL: not computed */
    /* what it was before the graph being recorded assigned it; NULL: not assigned */
    struct trace_data *before;
    bool assigned;
    struct trace_tensor *grad;           /* referenced */
    int dtype, rank;
    int64_t dims[TCC_MAX_RANK];
};

/* -- context.c, tensor.c, assign.c */
/* Notes the failure, if it is the first since the last execution; returns `status`. */
int trace_fail(struct trace_ctx *c, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Why there is no context: trace_new() makes none; the context of the last failure ends. */
int trace_refuse(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trace_forget_failure(const struct trace_ctx *c);
int trace_no_memory(struct trace_ctx *c);
/* whose failure is not reported yet, of this thread's last one; or NULL */
struct trace_ctx *trace_failed(void);
/* New temporary tensors. NULL: no memory, or no value. */
struct trace_tensor *trace_tensor_of(struct trace_ctx *c, struct ir_value *value);
/* takes over the reference */
struct trace_tensor *trace_tensor_data(struct trace_ctx *c, struct trace_data *data);
void trace_tensor_drop(struct trace_tensor *t);                  /* frees it if nobody holds it */
void trace_tensor_free(struct trace_tensor *t);
/* false after trace_fail(): it was freed with its step */
bool trace_alive(struct trace_tensor *t);
/* The tensor's data; either takes a reference and counts the owner. */
void trace_hold(struct trace_data **at, struct trace_data *data);
void trace_forget_grad(struct trace_tensor *t);
bool trace_same_type(const struct trace_tensor *a, const struct trace_tensor *b);
const char *trace_type_text(const struct trace_tensor *t, char *to, size_t size);   /* f32[2,3] */
size_t trace_bytes(const struct trace_tensor *t);
size_t trace_host_bytes(const struct tcc_tensor *t);

struct trace_data *trace_data_new(int dtype, int rank, const int64_t *dims);    /* NULL: no memory */
/* takes over the reference; NULL: no memory */
struct trace_data *trace_data_of(struct tcc_object *o);
struct trace_data *trace_data_ref(struct trace_data *d);
void trace_data_unref(struct trace_data *d);

/* The number of the execution that is being recorded: the last word of random counters. A `random` tensor's data, and
 * back. */
int64_t trace_runs(const struct trace_ctx *c);
void trace_random_show(struct trace_tensor *t);
void trace_random_take(struct trace_tensor *t);

/* -- device.c */
/* Target and device of the options: a tcc_status, with a message. */
int trace_settle_device(struct trace_ctx *c, const struct trace_options *o, char *error, size_t size);
/* The data as the host has it, brought from the device if need be; to be written: the device takes it from there. NULL:
 * the copy failed, tccrt_error() says why. While no run is under way, or by the thread that runs. */
void *trace_host(struct trace_data *d);
void *trace_host_write(struct trace_data *d);
/* gives memory of the device back: by the thread that runs, or when it has ended */
void trace_device_collect(struct trace_ctx *c);
/* r->under_way: it is the device's now, and must be ended */
int trace_device_begin(struct trace_ctx *c, struct trace_run *r, bool follows);
/* waits for it; followed: another one is under way behind it */
int trace_device_end(struct trace_run *r, bool followed);
/* the failure that was heard of last was this run's */
bool trace_device_faulted(const struct trace_run *r);
/* May r begin while `before` is under way? The same graph on the same state, which reads nothing that must be brought
 * to the device first. */
bool trace_device_follows(const struct trace_run *before, const struct trace_run *r);

/* -- flags.c */
int trace_flags_read(struct trace_flags *f, char *error, size_t size);  /* a tcc_status, with a message */
void trace_flags_free(struct trace_flags *f);

/* -- graph.c */
/* Calls work(c, arg) where nodes may be built, with the graph begun; then computes them in eager mode. Returns
 * c->status; work() notes failures by trace_fail(); errors of the IR are noted here. */
typedef void trace_work(struct trace_ctx *c, void *arg);
int trace_do(struct trace_ctx *c, trace_work *work, void *arg);
/* forgets what is recorded; the next generation begins */
void trace_graph_drop(struct trace_ctx *c);
/* t's value in the graph being recorded: an input for a tensor with data. NULL after trace_fail(). */
struct ir_value *trace_value(struct trace_tensor *t);
bool trace_is_pending(const struct trace_tensor *t);             /* is its value recorded and not computed? */
void trace_become(struct trace_tensor *t, struct ir_value *value);      /* t is that value from here on */

/* -- eager.c */
void trace_eager(struct trace_ctx *c);                           /* computes what was recorded since the last call */
/* One node on these operands. The count is of executions, for random ops. A tcc_status, with a message in `error`. */
int trace_eager_node(const struct ir_node *n, int64_t count, struct tcc_object *const *in, struct tcc_object **out,
                     char *error,
                     size_t size);

/* -- flush.c, compile.c, run.c, report.c */
/* Starts what is recorded; `want`: to be computed besides what always is, or NULL. */
int trace_flush(struct trace_ctx *c, struct trace_tensor *want);
int trace_report_status(struct trace_ctx *c);                    /* the status; the next call starts afresh */
/* The compiled graph with these results. NULL after trace_fail(). */
struct trace_compiled *trace_compile(struct trace_ctx *c, const struct trace_results *r);
/* Equal for equal graphs. False: no memory. */
bool trace_digest(struct trace_ctx *c, uint64_t out[2]);
void trace_compiled_free(struct trace_compiled *g);
/* Why the text is not one of those compiled before, to standard error. */
void trace_report(const struct trace_ctx *c, const char *text, const char *names);

/* What the compiler has warned of, now or when the graph that came from the cache was made; with TCCC_TRACE=report. */
void trace_report_warnings(const struct trace_ctx *c, int number);

void trace_run_start(struct trace_ctx *c, struct trace_run *r);  /* takes it over */
void trace_run_free(struct trace_run *r);
void trace_reap(struct trace_ctx *c, bool wait);                 /* lets go of what has ended; notes failures */
void trace_calls_free(struct trace_call *calls);
bool trace_executor_init(struct trace_ctx *c);
void trace_executor_end(struct trace_ctx *c);                    /* its threads have ended */
void trace_executor_free(struct trace_ctx *c);

/* -- ranks.c */
/* of which this process is to be a member */
int trace_check_group(struct trace_ctx *c, const char *what, const char *name);
struct tccrt_comm *trace_comm(const struct trace_ctx *c, const char *group);     /* NULL: alone in it */
/* The tensors become those of the group's first rank, as DistributedDataParallel does it: the same names and types
 * everywhere. */
void trace_share_tensors(struct trace_ctx *c, const char *group, int n, struct trace_tensor *const *tensors);
int trace_comm_failed(struct trace_ctx *c, int status);          /* with tccrt_error()'s message */
int trace_session_groups(struct trace_ctx *c, struct tccrt_session *s);
void trace_busy(struct trace_ctx *c, bool busy);                 /* compiles: not to be taken for hanging */
/* to the others, who can't go on without this process */
void trace_tell_failure(struct trace_ctx *c, const char *why);
void trace_leave(struct trace_ctx *c);
bool trace_is_here(const struct trace_tensor *t);                /* has this process its data's bytes? */

/* -- stage.c */
struct ir_where trace_where(struct trace_ctx *c, const char *source);    /* of nodes that are recorded now */
/* that it belongs to; -1: none, or there are no stages */
int trace_stage_of(const struct trace_tensor *t);
/* What this process does of the graph with these results, which become its own. */
bool trace_cut(struct trace_ctx *c, struct trace_results *r);

/* -- collective.c */
int trace_eager_collective(struct trace_ctx *c, const struct ir_node *n, struct tcc_object *const *in,
                           struct tcc_object **out);

/* -- optim.c, loader.c */
void trace_optimizers_free(struct trace_ctx *c);
void trace_loaders_free(struct trace_ctx *c);

#endif
