/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccrt.h - running compiled models from C (public).
 *
 * A model is opened once (from a .so, or from the struct tcc_model that an archive or object defines), is immutable and
 * may be shared by threads. A session holds what a run needs (arena, state, bound sizes); one thread runs a session at
 * a time, many sessions of one model may run at once. Every call returns a tcc_status (abi.h); tccrt_error() has the
 * message of the calling thread's last failure. The library never prints and never exits.
 *
 *   struct tccrt_model *m;  struct tccrt_session *s;
 *   if (tccrt_open("model.so", &m) || tccrt_session_new(m, NULL, &s)) ...
 *   struct tcc_tensor in = {x, TCC_F32, 4, {1, 3, 224, 224}}, out = {0};
 *   if (tccrt_run(s, "main", 1, &in, 1, &out)) fprintf(stderr, "%s\n", tccrt_error());
 *   ... out.data (owned by the session, good until its next run) ...
 */
#ifndef TCCRT_H
#define TCCRT_H

#include <stdbool.h>
#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tccrt_model;
struct tccrt_session;

/* Opens PATH (dlopen; sidecar weights are looked for beside it and their digest is checked). TCC_EENV: no such file, a
 * lesser CPU, no memory; TCC_EINPUT: not an artifact of this ABI version. Thread-safe. */
int tccrt_open(const char *path, struct tccrt_model **out);
/* The same for a model that is linked into the program (`extern const struct tcc_model NAME_model`). */
int tccrt_open_linked(const struct tcc_model *model, struct tccrt_model **out);
void tccrt_close(struct tccrt_model *m);             /* after its sessions are freed; NULL is fine */

/* -- Signatures -------------------------------------------------------------------------- */
struct tccrt_value_info {
    const char *name;
    int kind;                    /* enum tcc_object_kind; of an optional: what it holds */
    bool optional;               /* may be TCC_OBJ_NONE (struct tcc_psignature says so) */
    int dtype, rank;             /* rank -1: unranked */
    int64_t dims[TCC_MAX_RANK];  /* -1: symbolic or data-dependent */
    const char *dim_names[TCC_MAX_RANK];     /* the symbol, or expression, of a -1 dim */
};
int tccrt_nentries(const struct tccrt_model *m);
const char *tccrt_entry_name(const struct tccrt_model *m, int entry);      /* inference: one entry, "main" */
int tccrt_ninputs(const struct tccrt_model *m, const char *entry);         /* -1: no such entry */
/* Inputs that a call may leave out, since they have values of their own (initialisers that an ONNX model lists as
 * inputs): numbers ninputs and on for tccrt_input(), and behind the others in a run that is given `ninputs + ndefaults`
 * inputs, where one without data and of type 0 (objects: NULL) has its own value. */
int tccrt_ndefaults(const struct tccrt_model *m, const char *entry);
/* Names of the model's inputs whose values are compiled in, and cannot be given (tccc --defaults); NULL: no such i. */
const char *tccrt_fixed_input(const struct tccrt_model *m, const char *entry, int i);
int tccrt_noutputs(const struct tccrt_model *m, const char *entry);
int tccrt_input(const struct tccrt_model *m, const char *entry, int i, struct tccrt_value_info *info);
/* Between what that axis of input i may be by itself (both ends included; 0 and -1: the axis is fixed, computed from
 * others, or not there). Relations of sizes are not in it: a run says those. */
int tccrt_input_bounds(const struct tccrt_model *m, const char *entry, int i, int axis, int64_t *least,
                       int64_t *most);
int tccrt_output(const struct tccrt_model *m, const char *entry, int i, struct tccrt_value_info *info);
/* What element k of the last axis of input or output i stands for, where the model says so (DictVectorizer's keys,
 * ZipMap's classes); NULL: it doesn't, or there is no such element. */
const char *tccrt_input_label(const struct tccrt_model *m, const char *entry, int i, int k);
const char *tccrt_output_label(const struct tccrt_model *m, const char *entry, int i, int k);
/* Shape versions: what an entry point was compiled for, in the order in which a call is tried; which it runs depends on
 * the dims of its inputs, and is chosen when they change. Outputs whose rank depends on it have rank -1, dims that do
 * the name "?". */
int tccrt_nversions(const struct tccrt_model *m, const char *entry);       /* 1: it has none apart; -1: no such entry */
/* "N = 1", "any size"; NULL: no such version */
const char *tccrt_version_sizes(const struct tccrt_model *m, const char *entry, int i);
const char *tccrt_name(const struct tccrt_model *m);
/* Classes that the model's first output with labels tells apart (tccc --embed-meta: those of training's data; or
 * ZipMap's): how many, 0 where it has no names of them, and the name of class k, NULL: there is no such. Texts are the
 * model's, good until tccrt_close(), and may be asked for by any threads. */
int tccrt_nclasses(const struct tccrt_model *m);
const char *tccrt_class_name(const struct tccrt_model *m, int k);
/* What the artifact says of itself by that key, likewise; NULL: nothing. "train.data.tables": what training's data
 * were, lines of text (doc/tccc-train.md); "train.loss": of each term of its loss a line, LOSS HOW OUTPUT, where HOW
 * (softmax, sigmoid, exp, none) makes probabilities of that output's numbers. */
const char *tccrt_meta(const struct tccrt_model *m, const char *key);

/* -- Sessions ------------------------------------------------------------------------------- */

/* Threads that the caller supplies instead of the built-in pool: run(user, n, fn, arg) calls fn(arg, i) for every i in
 * [0, n), possibly at once on several threads, and returns when all have returned. */
struct tccrt_threads {
    int count;
    void (*run)(void *user, int n, void (*fn)(void *arg, int i), void *arg);
    void *user;
};
struct tccrt_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *p);
    void *user;
};

/* Memory of a device (not of the host): 64-byte aligned, for work in the order of `stream` (of the device's; a
 * CUstream). free() gives it back in the order of `stream`: what that was given before may still use it. From the
 * thread that is in a session. */
struct tccrt_device_allocator {
    void *(*alloc)(void *user, size_t bytes, uintptr_t stream);
    void (*free)(void *user, void *p, uintptr_t stream);
    void *user;
};

struct tccrt_options {
    int threads;                                 /* 0: the physical cores that the process may use (cgroup, affinity) */
    const struct tccrt_threads *pool;            /* NULL: built-in; sessions with equal `threads` share one pool */
    const struct tccrt_allocator *allocator;     /* NULL: the C library's */
    uint64_t seed;                               /* of random ops */
    /* models cut into stages: 1 + the one that the session runs, with group "pp" (tccrt_session_group) for the others,
     * whose state it doesn't hold; 0: all */
    int stage;
    bool profile;                                /* record times per step */
    /* what runs it: "auto" (what the artifact was made for), "cpu", "cuda", "cuda:K", "sim", "cpu-split"; NULL:
     * $TCCC_DEVICE, else auto */
    const char *device;
    /* of simulated NeuronCores and GPUs: "full"; "time": no values, only time (of NeuronCores capacity and races, too);
     * NeuronCores: "time,ranks=N": and one process stands for N ranks alike (the last of those that divide tensors,
     * the one with most to update of those that divide state); NULL: $TCCC_SIM, else full */
    const char *sim;
    /* of NeuronCores, where float32 becomes a shorter float: "nearest" or "stochastic"; NULL:
     * $NEURON_RT_STOCHASTIC_ROUNDING_EN, else nearest */
    const char *rounding;
    /* NULL: the driver's. All of a session's memory on the device comes from it, a copy of the weights of its own too,
     * until the session is freed; of cpu-split, cuda and the simulator of CUDA devices */
    const struct tccrt_device_allocator *device_allocator;
    /* models whose tensors are divided (--tensor-parallel): 1 + the rank in group "tp" */
    int tensor;
};
int tccrt_session_new(struct tccrt_model *m, const struct tccrt_options *options, struct tccrt_session **out);
void tccrt_session_free(struct tccrt_session *s);

/* Runs an entry point. Inputs: shape, dtype and the agreement of symbolic dims are checked. Outputs: out[i].data NULL:
 * the session provides the memory, good until its next run or end; otherwise dims and dtype must be the result's, and
 * data is written. `entry` NULL: the first.
 *
 * An input may lie where results go, where the session's last results are, or in a state variable: it is copied before
 * the run. Memory given for a result may overlap neither another's nor a state variable's (TCC_EINPUT). */
int tccrt_run(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
              struct tcc_tensor *out);
/* The same with objects (strings, sequences, optionals, unranked tensors). Outputs belong to the caller. */
int tccrt_run_objects(struct tccrt_session *s, const char *entry, int nin, struct tcc_object *const *in, int nout,
                      struct tcc_object **out);

/* What a run with these inputs gives, before it is run: out[k] gets the type, rank and dims, and its data is left NULL,
 * so that memory for it can be provided. A dim that the run decides is -1, and so is the rank where that does; of a
 * sequence, too. Inputs are checked as a run checks them; of their data nothing is read. */
int tccrt_output_shapes(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
                        struct tcc_tensor *out);

/* The same as tccrt_run(), but the call returns when the work is in the device's queues: the runs of a session are done
 * in the order in which they were given, each behind the one before. *ticket (NULL: not asked for) numbers it, from 1.
 * Until tccrt_wait() has returned for it, inputs stay as they are and outputs are not looked at; outputs without memory
 * of the caller's (out[i].data NULL) are good until the next run is given. `how` (NULL: nothing of this): inputs and
 * outputs whose data lies in the device's memory, read and written there without a copy if 64-byte aligned; and a
 * stream of the caller's. What the host has to do within a run (control flow by computed values, library ops, caches
 * with a position) it waits for here. Devices that have no queues, the CPU among them, have done the run when the call
 * returns; there device and host memory are one.
 *
 * Errors that are known come at once, those of the device from tccrt_wait(), or from any later call of the session that
 * has to wait: each is reported once. What was given behind a run that failed does nothing; state and the counter of
 * runs are as before that run. Other calls of the session wait for all runs first. At most 8 runs are under way; one
 * more waits for the oldest. */
struct tccrt_async {
    /* a CUstream: the run comes behind what it was given so far, and what it is given from now on behind the run; 0:
     * none */
    uintptr_t stream;
    /* by input, output: data is an address of the device's; NULL: none is */
    const bool *in_on_device, *out_on_device;
};
int tccrt_run_async(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
                    struct tcc_tensor *out,
                    const struct tccrt_async *how, int64_t *ticket);
/* Waits until the run of that number, and all before it, are done (0: all that were given). TCC_EUSAGE: no such run. */
int tccrt_wait(struct tccrt_session *s, int64_t ticket);
/* runs that were given and not waited for; 0 where a run is done when the call returns */
int tccrt_under_way(const struct tccrt_session *s);
/* The value that a state variable has behind the runs given so far goes to `to`, all of its bytes: there once
 * tccrt_wait() has returned for the last of them, whatever runs given later make of the variable. */
int tccrt_state_behind(struct tccrt_session *s, const char *name, void *to);

/* Memory of the session's device; of the host's where that is the device. Sessions of one device may share it. NULL:
 * there is none, message set. free: when no run that uses it is under way. copy: to and from what each says; waits for
 * all runs and returns when it is done. */
void *tccrt_device_alloc(struct tccrt_session *s, size_t bytes);
void tccrt_device_free(struct tccrt_session *s, void *p, size_t bytes);
int tccrt_device_copy(struct tccrt_session *s, bool to_device, void *to, bool from_device, const void *from,
                      size_t bytes);

/* Runs an entry point n times, in a loop, each given to the device before the one before is waited for: batch k has
 * inputs in[k * nin ...] and outputs out[k * nout ...]; give out[].data, since the session's own output memory is good
 * for one run. On a device where a copy takes long to start (NeuronCores) an input's batches of one size go there in
 * one transfer, to a block that the session keeps. Stops at the first run that fails; *done counts those that ended
 * well. */
int tccrt_run_many(struct tccrt_session *s, const char *entry, int64_t n, int nin, const struct tcc_tensor *in,
                   int nout,
                   struct tcc_tensor *out, int64_t *done);

/* -- Stages --------------------------------------------------------------------------------------
 * An artifact compiled with --partitions=N is cut into N pipeline stages. A session of tccrt_options.stage 0 runs all
 * of them in turn. One of stage s + 1 runs stage s only, beside N - 1 other processes: their group, of ranks in the
 * order of the stages, is given to it as "pp" by tccrt_session_group(). Runs, tccrt_state_gather() and
 * tccrt_checkpoint_save() are then collective calls of that group; all of its processes give the same inputs, and get
 * the same outputs. State that belongs to another stage is not held. */
int tccrt_stages(const struct tccrt_model *m);                             /* 1: not cut */
int tccrt_microbatches(const struct tccrt_model *m, const char *entry);    /* inputs are split into; 1: they aren't */
/* The axis on which input i is; -1: all microbatches get the whole; -2: the entry point isn't split, or has no such
 * input. */
int tccrt_split_axis(const struct tccrt_model *m, const char *entry, int i);
/* stage that has state variable i; -1: all have it */
int tccrt_state_stage(const struct tccrt_model *m, int i);
/* An artifact compiled with --tensor-parallel=T runs in T processes, each with a part of many state variables
 * (tccrt_options.tensor), and with their group as "tp". tccrt_state_info(), _get() and _set() are about that part;
 * checkpoints and tccrt_state_gather() about the whole, which the group's rank 0 gets. */
int tccrt_tensor_parts(const struct tccrt_model *m);                       /* T; 1: nothing is divided */
/* axis of state variable i that is divided; -1: it is whole */
int tccrt_state_axis(const struct tccrt_model *m, int i);
/* The variable's value on the process of stage `root`, whose out->data has room for it, from the stage that has it. */
int tccrt_state_gather(struct tccrt_session *s, const char *name, int root, const struct tcc_tensor *out);

/* What an artifact's C functions NAME_ENTRY call: a run of the model's entry point (by number) in a session that the
 * library keeps. out[i].data must be given, with its dtype and dims. Thread-safe; calls of a model with state take
 * turns. */
int tccrt_call(const struct tcc_model *model, int entry, const struct tcc_tensor *in, struct tcc_tensor *out);

/* -- State ---------------------------------------------------------------------------------------
 * Parameters, buffers, optimizer state: variables that the entry points of a session share, by name. A new session
 * holds the first values that the model was compiled with. A run that fails (a label outside its axis, a wrong input,
 * no memory) leaves all of them, and the counter of runs, as they were before it: the compiler puts writes of state
 * behind whatever may fail, and what the microbatches of a step in stages write early is put back. Not covered:
 * gradients that are not being accumulated, writes inside regions of control flow, and outputs whose size is known only
 * after the run. NaN is a value like another: what it does to the state is the program's to see. */
enum tccrt_state_flags {
    TCCRT_STATE_PARAM = 1,
    TCCRT_STATE_BUFFER = 2,
    TCCRT_STATE_OPTIMIZER = 4,
    TCCRT_STATE_GRADIENT = 8,
    TCCRT_STATE_LOCAL = 32,      /* a rank's own: in no checkpoint */
    /* (tccc --state) filled up to a position, which is a state variable too; what lies behind it means nothing */
    TCCRT_STATE_CACHE = 16
};
int tccrt_nstates(const struct tccrt_model *m);
int tccrt_state_info(const struct tccrt_model *m, int i, struct tccrt_value_info *info);
/* of enum tccrt_state_flags; 0: no such variable */
int tccrt_state_flags(const struct tccrt_model *m, int i);
/* out->data: the session's own memory, no copy; it may be written between runs, and stays where it is while the session
 * lives. On a device whose memory is not the host's (tccrt_options, device) it is a copy, good until the next call for
 * this variable: tccrt_state_set() writes. */
int tccrt_state_get(struct tccrt_session *s, const char *name, struct tcc_tensor *out);
/* TCC_EUSAGE: no such variable; TCC_EINPUT: another type or shape. */
int tccrt_state_set(struct tccrt_session *s, const char *name, const struct tcc_tensor *value);
/* The variable, or all of them (name NULL), has its first value again: a cache of keys and values is empty, its
 * position 0. TCC_EUSAGE: no such variable. Not to be called while the session runs. */
int tccrt_state_reset(struct tccrt_session *s, const char *name);
/* Variable number i (as in tccrt_state_info) lies in the caller's memory from here on: what is there is its value, and
 * runs update it there (a device with memory of its own copies it before a run and back after it). The memory is the
 * caller's to free, 64-byte aligned, and stays good until the variable is bound elsewhere or the session is freed. So
 * sessions of several models can share a variable. Not to be called while the session runs. */
int tccrt_state_bind(struct tccrt_session *s, int i, const struct tcc_tensor *memory);
/* The same in memory of the session's device (tccrt_device_alloc(), of this session or another of the device): runs
 * read and write it there, nothing is copied. From then on the variable can't be bound to the host's. Where the
 * device's memory is the host's it is tccrt_state_bind(). */
int tccrt_state_bind_on_device(struct tccrt_session *s, int i, const struct tcc_tensor *memory);

/* Random ops (dropout, stochastic rounding) count with the seed and the number of runs that ended well: two sessions
 * with equal state, seed and runs go on with equal bits. */
void tccrt_random_get(const struct tccrt_session *s, uint64_t *seed, int64_t *runs);
void tccrt_random_set(struct tccrt_session *s, uint64_t seed, int64_t runs);

/* -- Tensors in files --------------------------------------------------------------------------------
 * safetensors files (https://huggingface.co/docs/safetensors), which other programs read and write too. Functions that
 * open or write return TCC_EINPUT for a file that is missing or wrong, TCC_EENV where the system refuses (no space, no
 * permission). */
struct tccrt_named { const char *name; struct tcc_tensor t; };
struct tccrt_pair { const char *key, *value; };
struct tccrt_tensors;
/* Maps the file; the tensors' data (aligned to nothing in files of others) and all strings are good until it is
 * closed. */
int tccrt_tensors_open(const char *path, struct tccrt_tensors **out);
void tccrt_tensors_close(struct tccrt_tensors *f);                                      /* NULL is fine */
int tccrt_tensors_count(const struct tccrt_tensors *f);
/* by name; NULL: no such number */
const struct tccrt_named *tccrt_tensors_at(const struct tccrt_tensors *f, int i);
/* NULL: not there */
const struct tccrt_named *tccrt_tensors_find(const struct tccrt_tensors *f, const char *name);
/* The tensor of that name in a list; else the only one whose name differs by what PyTorch's wrappers add (`module.` of
 * DistributedDataParallel in front, `_orig_mod.` of torch.compile anywhere), in either name. NULL: there is none. */
const struct tccrt_named *tccrt_tensors_parameter(int n, const struct tccrt_named *tensors, const char *name);
const struct tccrt_pair *tccrt_tensors_meta(const struct tccrt_tensors *f, int *n);
/* of the metadata; NULL: not there */
const char *tccrt_tensors_value(const struct tccrt_tensors *f, const char *key);
/* reads all bytes: TCC_EINPUT unless they have the digest that is stored */
int tccrt_tensors_check(const struct tccrt_tensors *f);
/* What a file's digest covers: nothing (none is stored), the tensors' bytes (files of tccc before 2026-11-28), or all
 * of the file. */
enum { TCCRT_DIGEST_NONE, TCCRT_DIGEST_TENSORS, TCCRT_DIGEST_FILE };
int tccrt_tensors_covered(const struct tccrt_tensors *f);
/* Writes the tensors and metadata. Atomic: at every moment, PATH is what it was before or the whole new file, on disk.
 * Needs no memory but for the header. Two processes that write one PATH at once: the later one gets TCC_EENV. */
int tccrt_tensors_write(const char *path, int n, const struct tccrt_named *tensors, int nmeta,
                        const struct tccrt_pair *meta);

/* -- Checkpoints --------------------------------------------------------------------------------------
 * A session's state, random seed and run counter in a safetensors file; `meta` adds pairs of the program's own, read
 * back by tccrt_tensors_value(). A session that loads it goes on with the bits that the saving one would have had. Not
 * to be called while the session runs. Sessions of one stage each save together: the process of stage 0 writes the
 * whole model's file, as one process would have done, and the others' `path` and `meta` are not looked at. Each loads
 * what it holds, from the same file.
 *
 * In parts (TCCRT_CHECKPOINT_STAGES): every stage's process writes what it holds to a file of its own beside `path`
 * (its own, with its own `meta`), then that of stage 0 writes an index to `path`, which stands for the set from then
 * on: tccrt_tensors_open() and tccrt_checkpoint_load() read it as the whole model, whatever the number of stages that
 * reads it. A set that was not finished leaves the last one as it was; missing parts and parts of other steps are
 * TCC_EINPUT when the index is opened. */
enum {
    TCCRT_CHECKPOINT_WEIGHTS = 1,    /* parameters and buffers only; whatever else the file holds is left alone */
    TCCRT_CHECKPOINT_PARTIAL = 2,    /* load: what the file lacks stays as it is, what the model lacks is passed over */
    /* save: a file a stage, and an index; a model that is not cut has one file anyway */
    TCCRT_CHECKPOINT_STAGES = 4
};
int tccrt_checkpoint_save(struct tccrt_session *s, const char *path, int flags, int nmeta,
                          const struct tccrt_pair *meta);
/* TCC_EINPUT: truncated, damaged, or of another model (a name, element type or shape differs; the message says which).
 * On any failure the session's state is unchanged. */
int tccrt_checkpoint_load(struct tccrt_session *s, const char *path, int flags);

/* -- Communication ----------------------------------------------------------------------------------
 * Processes that run one program on parts of the work, started by mpirun, srun or another launcher of MPI (engine
 * "mpi"), or by torchrun and whatever else sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT (engine "ucx"). The library (Open MPI's, MPICH's, one of MPI-5's standard ABI; UCX's) is opened when
 * tccrt_comm_init() needs it: nothing links with it, and a process that was started alone is a world of one without it.
 * A `struct tccrt_comm` is a group of processes: the world, or a part of it. Ranks are numbers in the group.
 *
 * Collective calls are made by all ranks of the group, in the same order, with tensors of the same type and size
 * (unless it says otherwise). Tensors are dense, of any type but strings, and belong to the caller. Each call takes
 * `request`: NULL: it returns when the work is done; else it returns at once, the tensors' memory stays untouched
 * (outputs: unread) until tccrt_comm_wait(), or until tccrt_comm_test() says done. The arrays of struct tcc_tensor
 * themselves are copied.
 *
 * Reductions are bit-equal on all ranks and from run to run: elements are added in the order of ranks. bf16, f16 and
 * narrower floats are reduced in float32 and rounded once. Integers wrap; avg of integers rounds toward zero; bool: sum
 * and max are "or", product and min are "and"; min and max: NaN wins. Complex numbers have no min and max, f8e8m0 only
 * min and max.
 *
 * No call hangs: when a rank that is waited for neither answers nor gets on for `timeout` seconds, has failed or has
 * ended, the call returns TCC_EENV, tccrt_error() names the rank and the reason, and so does every later call in all
 * ranks. A rank that computes is not taken for hanging: running steps and calls here count as getting on,
 * tccrt_comm_alive() for anything else that takes long.
 *
 * Thread-safe, but for init and finalize; the order of collective calls is the caller's to keep. */
struct tccrt_comm;
struct tccrt_request;

/* the last three bit by bit, of integers and bool */
enum tccrt_reduction { TCCRT_SUM, TCCRT_AVG, TCCRT_MIN, TCCRT_MAX, TCCRT_PRODUCT, TCCRT_AND, TCCRT_OR, TCCRT_XOR };

struct tccrt_comm_options {
    /* the engine's, NULL: $TCCC_MPI_LIBRARY or $TCCC_UCX_LIBRARY, else that of the launcher */
    const char *library;
    /* address of the program's MPI_Comm, whose processes become the world; NULL: MPI_COMM_WORLD. MPI that the program
     * has initialised is used, and is the program's to finalize. With less than MPI_THREAD_MULTIPLE, requests get on in
     * calls of this library only */
    const void *adopt;
    double timeout;              /* seconds; 0: $TCCC_COMM_TIMEOUT, else 10 */
    bool alone;                  /* a world of one whatever the launcher says */
    /* "auto", "mpi", "ucx", "sim": what carries messages; NULL: $TCCC_COMM, else auto: as the launcher suits. Exchanges
     * between GPUs go by NCCL where all ranks have it (auto), must (ENGINE+nccl, nccl: auto+nccl), or through the hosts
     * (ENGINE alone). nccl:exact: sums are added in the order of ranks there, too, and bits are those of hosts */
    const char *engine;
    /* ranks may die and others come: tccrt_comm_regroup(); with the engines ucx and sim */
    bool elastic;
};

/* 1: the MPI library can be opened; 0: it cannot, the message says why */
int tccrt_comm_available(const char *library);
/* The world, of which a process has one at a time: a second call gives the same one. TCC_EUSAGE: no engine of that
 * name; TCC_EENV: an engine that this version does not have or the launcher does not suit (the message says how to
 * start), no library, no answer. */
int tccrt_comm_init(const struct tccrt_comm_options *options, struct tccrt_comm **world);
/* Is there a world, be it of this process alone? False before tccrt_comm_init() and after tccrt_comm_finalize(). */
bool tccrt_comm_initialized(void);
/* Could anybody who reaches rank 0's port have joined? Engines that start from torchrun's variables, without
 * TCCC_COMM_SECRET. */
bool tccrt_comm_unguarded(const struct tccrt_comm *world);
/* Ends it: all groups must be freed. `why` (NULL: none) is what ranks that still wait for this one are told. After a
 * failure it gives the others a moment to hear of it and leaves MPI as it is; ending the process is then the right
 * thing to do. */
int tccrt_comm_finalize(struct tccrt_comm *world, const char *why);
/* -- An elastic world (tccrt_comm_options.elastic), of up to 64 ranks: one that is broken is begun anew, by those ranks
 * that are left and the processes that wait to join. A process started with the same variables and secret while the job
 * runs gets a world of itself alone first, and is of the others' from its own call of tccrt_comm_regroup() on. */
/* Ends the world and begins it anew; all groups must be freed, and sessions given theirs again. Ranks that are left
 * come first, in their order but that the one that listens is rank 0. TCC_EENV: fewer than `least` ranks are left, or
 * they did not meet; *world is NULL. */
int tccrt_comm_regroup(struct tccrt_comm **world, int least);
bool tccrt_comm_joins(const struct tccrt_comm *world);          /* is it such a world of a process that has to join? */
int tccrt_comm_waiting(struct tccrt_comm *world);               /* rank 0: how many processes wait to join */
int tccrt_comm_broken(struct tccrt_comm *c);                    /* TCC_OK, or TCC_EENV with why: a rank is gone */
/* Can ranks go on when one dies in the midst of this entry point's run? Then all of its communication stands in front
 * of what it writes, and in an elastic world ranks wait for each other in between, so that the state of any is that of
 * before or behind the step; of a step that adds up gradients of several calls (state train.micro: how many) it is what
 * a rank kept of it in front of the first of them; where ranks divide the state, what each kept of its part and
 * another's. TCC_EUSAGE: no; the message says why. */
int tccrt_comm_commits(const struct tccrt_model *m, const char *entry);
/* Do ranks have parts of the state that the entry point's runs update (--zero)? */
bool tccrt_comm_divides(const struct tccrt_model *m, const char *entry);

/* Tells all ranks of the world that this one has failed, why: their calls return TCC_EENV with that text. */
void tccrt_comm_abort(struct tccrt_comm *c, const char *why);
void tccrt_comm_alive(void);
void tccrt_comm_timeout(struct tccrt_comm *c, double seconds);  /* of the world and all groups; 0: as when it began */

int tccrt_comm_rank(const struct tccrt_comm *c);
int tccrt_comm_size(const struct tccrt_comm *c);
int tccrt_comm_world_rank(const struct tccrt_comm *c, int rank);           /* of a member; -1: no such rank */
/* number among the world's processes on this machine */
int tccrt_comm_local_rank(const struct tccrt_comm *c);
/* how many of the world's processes this machine has */
int tccrt_comm_local_size(const struct tccrt_comm *c);
/* Called by all ranks of the world: the processes of a machine that may use the same CPUs divide them, this one is
 * bound to its share, and the number of threads that are worth having is returned. */
int tccrt_comm_cores(struct tccrt_comm *world);
/* A group of ranks[n] (different, of `c`, in the new group's order). Called by its members, all with the same list;
 * *out is NULL in ranks that are not listed, which need not call. */
int tccrt_comm_group(struct tccrt_comm *c, int n, const int *ranks, struct tccrt_comm **out);
/* NULL and the world are fine: nothing happens */
void tccrt_comm_free(struct tccrt_comm *group);
/* The same ranks, for tensors in the memory of a device ("cuda", "cuda:K", "sim", a list cuda:K,K... by local rank), by
 * its own library (NCCL). Called by all ranks; *out is freed like a group, before `group`. What its calls are given
 * stands in the order of `stream` (a CUstream of the device's primary context): they return when it is given, and with
 * a request, test and wait say when the device has passed it. What goes wrong later is what later calls return. By one
 * thread at a time. Messages to a rank and from it go in the order of the stream, too, and their tags are not looked
 * at. f16 and bf16 are rounded at each hop, unless exact. */
int tccrt_comm_device(struct tccrt_comm *group, const char *device, void *stream, struct tccrt_comm **out);
/* TCC_EINPUT in all ranks unless `value` (a digest, flags, the number of batches...) is equal in all; names the first
 * that differs. */
int tccrt_comm_agree(struct tccrt_comm *c, const char *what, const char *value);

/* n tensors at once, of any types: out[i] = scale * reduction of in[i]. out may be in, out[i].data may be in[i].data. A
 * scale other than 1 is for floats. */
int tccrt_comm_all_reduce(struct tccrt_comm *c, int reduction, double scale, int n, const struct tcc_tensor *in,
                          const struct tcc_tensor *out, struct tccrt_request **request);
int tccrt_comm_reduce(struct tccrt_comm *c, int reduction, double scale, int root, int n, const struct tcc_tensor *in,
                      const struct tcc_tensor *out, struct tccrt_request **request);       /* out: of the root */
int tccrt_comm_broadcast(struct tccrt_comm *c, int root, int n, const struct tcc_tensor *tensors,
                         struct tccrt_request **request);
/* Shapes don't matter here, elements are counted. counts[size]: elements of each rank's part, the same in all ranks;
 * NULL: equal parts. */
int tccrt_comm_all_gather(struct tccrt_comm *c, const struct tcc_tensor *in, const struct tcc_tensor *out,
                          const int64_t *counts,
                          struct tccrt_request **request);
int tccrt_comm_reduce_scatter(struct tccrt_comm *c, int reduction, double scale, const struct tcc_tensor *in,
                              const struct tcc_tensor *out, const int64_t *counts, struct tccrt_request **request);
/* in_counts: elements to each rank; out_counts: from each; NULL: equal parts. in and out must not overlap. */
int tccrt_comm_all_to_all(struct tccrt_comm *c, const struct tcc_tensor *in, const int64_t *in_counts,
                          const struct tcc_tensor *out,
                          const int64_t *out_counts, struct tccrt_request **request);
/* Messages between two ranks of the group, in order per (sender, tag); 0 <= tag < 8192. The receiver must know type and
 * size. */
int tccrt_comm_send(struct tccrt_comm *c, int to, int tag, const struct tcc_tensor *t, struct tccrt_request **request);
int tccrt_comm_recv(struct tccrt_comm *c, int from, int tag, const struct tcc_tensor *t,
                    struct tccrt_request **request);
int tccrt_comm_barrier(struct tccrt_comm *c, struct tccrt_request **request);
/* *done: over, well (TCC_OK) or not; the request is still to be given to wait, which returns its status and frees
 * it. */
int tccrt_comm_test(struct tccrt_request *request, bool *done);
int tccrt_comm_wait(struct tccrt_request *request);            /* NULL: TCC_OK */

/* All state variables but gradients, the random seed and the counter of runs become those of rank `root`. */
int tccrt_comm_state(struct tccrt_comm *c, int root, struct tccrt_session *s);
/* What the ranks of the group hold in parts (--zero) as a whole at rank `root` (-1: at all), in the host's memory: for
 * tccrt_state_get() and checkpoints; called by all. It stays as it was then until tccrt_comm_release(). */
int tccrt_comm_collect(struct tccrt_comm *c, int root, struct tccrt_session *s);
/* The same for parameters alone (--zero=3), in the session's own memory, so that entry points that gather none run
 * there (eval, predict). */
int tccrt_comm_params(struct tccrt_comm *c, int root, struct tccrt_session *s);
int tccrt_comm_release(struct tccrt_session *s);       /* what others own has no memory here again */
/* Has the model steps of group `name`? */
bool tccrt_uses_group(const struct tccrt_model *m, const char *name);
/* Digest of all that the model computes: plan, weights, flags; artifacts with equal ones run together. */
uint64_t tccrt_digest(const struct tccrt_model *m);
/* Of the plan that the session runs: an artifact for several targets has one for each. */
uint64_t tccrt_session_digest(const struct tccrt_session *s);

/* The plan's steps of group `name` ("world", "dp", "pp") run in `c` (NULL: alone again), which must live as long as the
 * session. */
int tccrt_session_group(struct tccrt_session *s, const char *name, struct tccrt_comm *c);

/* Profile of the runs since the session was made or the profile was reset. */
struct tccrt_profile_row { const char *kernel, *node; int64_t calls; double ns; double flops, bytes;
                           /* of a simulated GPU's kernel: "memory", "tensor cores" and so on; NULL: not known */
                           const char *bound; };
int tccrt_profile(struct tccrt_session *s, const struct tccrt_profile_row **rows);     /* number of rows */
/* forgets what it has counted */
int tccrt_profile_reset(struct tccrt_session *s);
/* Chrome trace of the last run */
int tccrt_profile_trace(struct tccrt_session *s, const char *path);
/* The same with what the program itself did meanwhile: a row of the trace for each `track`, named so. start, end: ns of
 * CLOCK_MONOTONIC. Spans that had ended when the run began are left out. */
struct tccrt_span { const char *track, *name; double start, end; };
int tccrt_profile_trace_with(struct tccrt_session *s, const char *path, int n, const struct tccrt_span *spans);
/* What a step of the plan has made, for an observer: called behind each step, for each value that it writes, in the
 * order in which the steps are given; the run waits. All is good until the observer returns; it calls no function of
 * the session, and ends the run (TCC_EUSAGE) by returning other than 0. NULL: nobody observes. */
struct tccrt_made {
    unsigned step;                                       /* number in the plan */
    /* the kernel's name, or the kind of step; where it comes from; the value's name */
    const char *what, *node, *value;
    struct tcc_tensor tensor;                            /* in the host's memory */
    size_t bytes;                                        /* of the data */
    /* 0: it lies in a layout of the target's own, with padding: `bytes` of elements in some order */
    int dense;
};
typedef int (*tccrt_observer)(void *user, const struct tccrt_made *made);
int tccrt_observe(struct tccrt_session *s, tccrt_observer observer, void *user);
/* What each tile of a launch takes, and each part of a library op that threads share, for who wants to know what more
 * of them would bring: called behind each that has `tiles` of two or more, unless it is so small that one thread runs
 * it in any case; ns[i] is tile i's, behind the tile before it, or with `apart` as the first that a thread runs, which
 * may have to make what tiles share. Of sessions with one thread on the host; for others, and NULL, nobody observes.
 * The observer calls no function of the session. */
typedef void (*tccrt_tile_observer)(void *user, int64_t tiles, const double *ns);
int tccrt_observe_tiles(struct tccrt_session *s, bool apart, tccrt_tile_observer observer, void *user);
int tccrt_threads(const struct tccrt_session *s);                                      /* that it runs with */
const char *tccrt_device_used(const struct tccrt_session *s);                          /* "cpu", "cpu-split" */
/* What the code that runs on this processor was compiled for: a psABI level ("x86-64-v3"), or "native:" and LLVM's
 * names of the features that it may use. */
const char *tccrt_isa_used(const struct tccrt_session *s);
/* What a simulated NeuronCore has done since the session began, in modelled time: launches one after the other, and
 * copies that no program makes. */
struct tccrt_sim {
    /* all, and of them copies between the host and the device and within the device */
    double seconds, copy_seconds;
    double collective_seconds, exposed_seconds;  /* collectives, beside the engines; what the core waited for them */
    int64_t launches, copies, copy_bytes, collectives, collective_bytes;
    int64_t dma_transfers, dma_bytes, dma_paid_bytes;    /* paid: rows below 512 bytes count as 512 */
    int64_t hbm_read, hbm_written;
    /* seconds, the mean of the 16 DMA engines; what HBM's bytes take at its rate */
    double dma_busy, hbm_busy;
    /* of products; what the tensor engine could do in `seconds` with 16-bit operands */
    double flops, peak_flops;
    const char *core;                            /* "trn1" */
    /* how float32 becomes shorter: "nearest" (even), "stochastic"; NULL: the device has no modes of it */
    const char *rounding;
    int nengines;
    /* seconds, the mean of the physical cores; waiting: for semaphores */
    struct tccrt_sim_engine { const char *name; int64_t instructions; double busy, waiting; } engines[8];
    int physical;                                /* cores of the logical one; 0: the device has none */
};
/* A core of the simulated instance that a process of this user has, and what that has done with it. */
struct tccrt_neuron_core {
    int64_t core, process;
    char command[64];
    double since;                                /* seconds of the epoch */
    int64_t launches, held;                      /* held: bytes of its sessions' memory */
    double seconds, busy[5];                     /* modelled; of the engines tensor, scalar, gpsimd, vector and sync */
};
/* Those of instances of a kind ("trn1", "trn2", "trn3"), by number, `room` at most; how many. */
int tccrt_neuron_cores(const char *kind, int room, struct tccrt_neuron_core *list);
/* TCC_EUSAGE: the session's device models no time (or TCCC_ORDER_SEED draws durations instead). */
int tccrt_simulated(const struct tccrt_session *s, struct tccrt_sim *out);
/* so far, of kernels over a memory of the device's own; cpu: 0 */
int64_t tccrt_device_launches(const struct tccrt_session *s);
/* Is there a device of that name, which artifacts of `target` ("cuda:sm_80") run on? NULL: the one that the target is
 * for. TCC_EENV: no, tccrt_error() says why. NeuronCores are known with an artifact only: TCC_OK. */
int tccrt_device_there(const char *device, const char *target);
/* The same, copies within, to and from its memory, and programs: regions of a plan that were recorded, and how often
 * one was run without being walked. */
struct tccrt_device_counts { int64_t launches, copies, programs, replays; };
void tccrt_device_counts(const struct tccrt_session *s, struct tccrt_device_counts *out);
/* by the last run; -1: there was none, or its sizes have no version */
int tccrt_version_used(const struct tccrt_session *s);
/* Of this process. state: variables that it holds. predicted: what a run of the entry point takes by the plan, state
 * included, as the compiler (a pipeline's stage of known sizes) or the last run's sizes say; -1: not known. */
struct tccrt_memory {
    int64_t state, predicted;
    /* held by the session on a device with a memory of its own, now and at most; and the weights there, which sessions
     * of the model share (in the former two with a device_allocator); 0 on others */
    int64_t device, device_peak, device_weights;
    int64_t device_bytes;                /* that the device has; 0: not known, or the host's */
    /* of state: parameters and buffers; what updates need; gradients that are kept from call to call */
    int64_t params, optimizer, gradients;
    int64_t arena;                       /* of runs: activations, gradients, what is gathered */
    /* of the artifact: constants, as they are laid out for its kernels, which all sessions and processes share */
    int64_t weights;
};
int tccrt_memory(const struct tccrt_session *s, const char *entry, struct tccrt_memory *out);
size_t tccrt_arena_bytes(const struct tccrt_session *s);                               /* held now, all arenas */

const char *tccrt_error(void);                   /* of this thread; "" when none */
const char *tccrt_version(void);                 /* "0.1", of the library */

/* -- Environment --------------------------------------------------------------------------------------- */

/* Have all variables of ours (doc/environment.md) values that are known? TCC_EUSAGE: one has not; the message names
 * it. */
int tccrt_env_check(void);
const char *tccrt_env_text(const char *name);                              /* NULL: not set, or empty */
double tccrt_env_seconds(const char *name, double otherwise);
bool tccrt_env_has(const char *name, const char *word);                    /* is the word in the variable's list? */

#ifdef __cplusplus
}
#endif
#endif
