/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rt_int.h - what the runtime's files share. Internal functions begin with tcr_ (the static library is linked into
 * programs whose names we do not know).
 *
 *   error, object, xxh3, cpu     leaves
 *   model, check                 opening: descriptor, tables, code version, weights
 *   size                         the integer program
 *   session, memory, run         tables and memory of a session; binding of inputs and outputs
 *   device/                      where data lies, and what runs kernels
 *   walk, launch, lib            the plan walker
 *   pool, profile
 *   guard                        blocks between pages that nobody may touch, for tests
 */
#ifndef TCCRT_INT_H
#define TCCRT_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/xxh3.h"
#include "runtime/abi.h"
#include "runtime/device/device.h"
#include "runtime/model_int.h"
#include "runtime/tccrt.h"

/* -- session.c -------------------------------------------------------------------------------- */

/* A DYNAMIC buffer (data, bytes, dims as made) or an OBJECT one. */
struct tcr_slot {
    void *data;
    uint32_t memory;
    int64_t bytes;
    struct tcc_object *object;
    int32_t rank;
    int64_t dims[TCC_MAX_RANK];
};

/* An output of the running call. */
struct tcr_out {
    void *data;                      /* where it is written; NULL: not known yet */
    /* where the caller finds it: the same, or what is on a device is copied there in the end */
    void *host;
    void *there;                     /* the session's memory on a device */
    size_t there_bytes;
    int64_t bytes;
    int32_t rank;
    int64_t dims[TCC_MAX_RANK];
    struct tcc_object *object;       /* holds `data` (objects asked for), or is the result */
    const struct tcc_tensor *user;   /* the caller's memory, to be checked when the dims are known; NULL: none */
    void *own;                       /* the session's memory, kept from run to run */
    size_t own_bytes;
};

/* A group of processes that the plan's steps name (comm/step.c). */
#define TCR_MAX_GROUPS 8
struct tcr_group { char name[16]; struct tccrt_comm *comm; };

struct tcr_profile;                  /* profile.c */

struct tccrt_session {
    atomic_bool busy;            /* a thread is inside: tcr_enter() */
    struct tccrt_model *m;
    struct tcr_heap heap;            /* tables, and host memory of the device */
    void **tables;                   /* all tables, which end with the session */
    size_t ntables, tables_room;
    struct tcr_device *host;         /* the plan's memory 0 */
    struct tcr_device *device;       /* its memory 1: buffers, state, kernels; may be the host */
    bool discrete;                   /* the device's memory is not the host's */
    /* the plan says what lies there; else all but objects does, and steps of the host fetch it */
    bool placed;
    /* placed and discrete: steps of the device's queues are given to them, and waits are events */
    bool ordered;
    bool in_program;
    bool giving;                     /* the run returns when its work is in the device's queues (async.c) */
    int64_t given, waited;           /* runs that were given so, of which so many have been waited for */
    int (*settle)(struct tccrt_session *s);  /* waits for them; set once one was given */
    struct tcr_async *async;         /* NULL: none was given yet */
    void (*free_async)(struct tccrt_session *s);     /* and its end */
    struct tcr_batches *batches;     /* that went to the device together (many.c); NULL: none did */
    void (*free_batches)(struct tccrt_session *s);
    const struct tccrt_async *how;   /* the running call's */
    /* of the running call: by input and output, does the caller's data lie on the device? NULL: none */
    const bool *in_on_device, *out_on_device;
    /* by buffer of the arena, and by weight: where it is rebound to; NULL: as the plan says */
    void **rebound;
    bool writes_state, carries;      /* the copy that is being given: to state; a collective's own */
    int queue;                       /* of the device: the step's that runs; the plan's numbers */
    uint32_t *event_of;              /* by step: 1 + the event that others wait for; 0: none does */
    uint32_t nevents;
    uint64_t seed;
    int64_t runs;                    /* successful runs so far; random ops count with it */

    int64_t *values;                 /* by expression: its value, or TCR_UNBOUND, TCR_BAD */
    int64_t *syms;                   /* by symbol */
    int64_t *bound;                  /* the symbols as they were when level 0 was last evaluated */
    int32_t *origin;                 /* by symbol: input * TCC_MAX_RANK + axis that bound it */
    /* by expression of level 0: what it may be while a program lives (bounds.c); NULL: what it is */
    struct tcr_interval *ranges;
    struct tcr_interval *sym_ranges; /* by symbol */
    /* by expression: 1 + its number in the control block of `controlled`, 0: it isn't there; NULL: the device has no
     * programs */
    uint32_t *control_at;
    int64_t *control_values;
    struct tcr_program_digest { uint64_t key, digest; bool settled; } *program_digests;      /* by step (program.c) */
    uint32_t ncontrol;               /* of the entry point and the program that have most */
    const struct tcc_pentry *controlled;
    const struct tcc_pentry *entry;  /* that level 0 was last evaluated for; NULL: none */
    const struct tcc_pentry *chosen; /* what a call of it with these sizes runs: itself, or one of its shape versions */

    uint8_t *arenas[2];              /* by memory */
    size_t arena_bytes[2];
    const uint8_t *weights;          /* on the device */
    uint64_t *places;                /* by buffer: offset in the arena, where the plan has none */
    struct tcr_placement *placements;        /* by entry point: the sizes that its buffers were placed for */
    void **states;
    /* by state variable: where it lies in the caller's memory; NULL: it is the session's */
    void **borrowed;
    bool any_lent;
    bool *placed_states;             /* by state variable: it lies in the caller's memory of the device */
    /* by state variable: what tccrt_state_get() gave of a device's, or its value where another rank owns it; NULL:
     * none */
    void **mirrors;
    /* by symbol that says who owns something: is it this rank? which of the group? */
    struct tcr_owner { bool known, mine; int rank; } *owner;
    bool states_due;                 /* variables of which that is this rank may have no memory yet */
    bool *entered;                   /* by entry point: what it accesses of the state has memory */
    struct tcr_slot *slots;

    /* The running call. */
    void **inputs;                   /* data of dense inputs */
    void **inputs_there;             /* on the device */
    size_t *inputs_bytes;
    struct tcc_object *heads;        /* headers of inputs that were given as tensors */
    const struct tcc_object **in;
    struct tcr_apart { void *at; size_t bytes; } *apart;     /* by input: a copy of it (apart.c); NULL: there is none */
    /* room for all ranges of memory that a call reads or may write (apart.c) */
    struct tcr_span { uintptr_t at, end; bool there, written; } *spans;
    struct tcr_out *outs;
    uint32_t max_inputs, max_outputs, max_args, max_sizes;
    const struct tcc_pentry *running;
    bool objects;                    /* outputs are to be objects */
    void **args;                     /* room for the arguments of the largest launch */
    int64_t *sizes;
    struct tcr_access *access;       /* what it does with them; NULL: the device doesn't ask */
    /* one of several threads that walk loops at the same time (parallel.c): 1 + its steps; else 0 */
    uint64_t lane;
    uint32_t *size_at;               /* and where a program finds its sizes */
    struct tcr_interval *size_ranges;

    struct tcr_group groups[TCR_MAX_GROUPS];
    struct tccrt_comm *folded;       /* those of the ranks for which the device stands, one block; NULL: none */
    struct tccrt_request **requests; /* by queue: what is under way */
    uint32_t *started;               /* and the step that started it */
    double *started_at;
    int64_t *votes;                  /* and what votes are reduced to */
    uint32_t max_queues;

    uint32_t failed_at;              /* the step of the outermost list at which a run has failed */
    uint32_t voting;                 /* 1 + the vote that this run has begun last; 0: none */
    /* the device has been given exchanges with others that it may not have passed; NULL: none */
    struct tcr_net *exchanging;
    int failed;                      /* a run that has failed goes on to the vote, with its status */
    char failure[256];               /* and message */

    int stage;                       /* 1 + the only one that it runs; 0: all */
    int tensor;                      /* 1 + the rank whose parts of tensors it has; 0: they are whole */
    struct tcr_staged **staged;        /* by entry point in stages: its memory, once it was run */
    void (*free_staged)(struct tccrt_session *s);

    struct tcr_profile *profile;     /* NULL: off */
    struct tcr_guard *guard;         /* guard.c; NULL: off */
    tccrt_observer observer;         /* NULL: nobody observes */
    void *observed;                  /* its */

    struct tcr_view *views;          /* what steps of the host use of a device's memory */
    size_t nviews, views_room, first_view;    /* first_view: the running step's */
    struct tcr_held *held;           /* host memory that a copy under way may use */
    size_t nheld, held_room;
};

/* -- memory.c --------------------------------------------------------------------------------- */

/* until: what was started in this queue of communication uses it, too; 0: nothing. */
struct tcr_view { void *device, *host; size_t bytes; bool writes, state, carried; uint32_t until; };
struct tcr_held { void *data; size_t bytes; struct tcc_object *object; };

static inline struct tcr_device *
tcr_device_of(const struct tccrt_session *s, uint32_t memory)
{
    return memory ? s->device : s->host;
}

/* The memory that buffer b lies in. */
static inline uint32_t
tcr_memory(const struct tccrt_session *s, uint32_t b)
{
    const struct tcc_pbuffer *p = &s->m->buffers[b];

    if ((p->space == TCC_SPACE_INPUT && s->in_on_device && s->in_on_device[p->index]) ||
        (p->space == TCC_SPACE_OUTPUT && s->out_on_device && s->out_on_device[p->index]))
        return s->discrete;
    return s->discrete && (s->placed ? p->memory != 0 : p->space != TCC_SPACE_OBJECT);
}

/* The arena that buffer b lies in: the plan's memories have one each, also where the host runs them all. */
static inline uint32_t
tcr_arena(const struct tccrt_session *s, uint32_t b)
{
    return s->placed ? s->m->buffers[b].memory != 0 : s->discrete;
}

/* Is buffer b a state variable, or part of one? */
static inline bool
tcr_is_state(const struct tccrt_session *s, uint32_t b)
{
    while (s->m->buffers[b].space == TCC_SPACE_ALIAS)
        b = s->m->buffers[b].index;
    return s->m->buffers[b].space == TCC_SPACE_STATE;
}

/* Data, in one of the plan's memories. (Tables are the heap's.) */
/* TCR_ALIGN-aligned; NULL: no memory, message set */
void *tcr_alloc(struct tccrt_session *s, uint32_t memory, size_t bytes);
/* when work given before is done */
void tcr_free(struct tccrt_session *s, uint32_t memory, void *p, size_t bytes);
int tcr_grow(struct tccrt_session *s, uint32_t memory, void *pp, size_t *held, size_t bytes);
int tcr_copy(struct tccrt_session *s, uint32_t to_memory, void *to, uint32_t from_memory, const void *from,
             size_t bytes, const char *node);
/* From the device to the host, and waits for it. */
int tcr_download(struct tccrt_session *s, void *to, const void *from, size_t bytes);
/* until the device has passed its exchanges with others (comm/peers.c); a rank that is gone ends it */
int tcr_peers_settle(struct tccrt_session *s);
/* Waits for all work. TCC_EINDEX: a kernel has met a bad index. */
int tcr_sync(struct tccrt_session *s);
int tcr_sync_event(struct tccrt_session *s, uint32_t event);
/* Queue 0 of the device waits for all others, and then they for it. */
int tcr_join(struct tccrt_session *s);
/* Waits for the runs that were given and not waited for. */
static inline int
tcr_settle(struct tccrt_session *s)
{
    return s->given > s->waited && !s->giving ? s->settle(s) : TCC_OK;
}
/* May input i of an entry point lie in memory of the device's that a run was not given, without a copy (async.c)? */
int tcr_goes_ahead(struct tccrt_session *s, const struct tcc_pentry *e, uint32_t i, bool *goes);
int tcr_hold(struct tccrt_session *s, struct tcr_held what);         /* until then */
/* The host itself uses memory of its own that copies may use. */
int tcr_touch(struct tccrt_session *s, const void *at, size_t bytes, unsigned how, const char *node);
/* A dense buffer, or its memory *data, as a step of the host reads or writes it (TCC_READS, TCC_WRITES); what it writes
 * goes to the device when the views from `first` on end. */
int tcr_host_tensor(struct tccrt_session *s, uint32_t b, const char *node, unsigned how, struct tcc_tensor *out);
int tcr_view(struct tccrt_session *s, uint32_t b, const char *node, unsigned how, void **data, size_t bytes);
int tcr_views_end(struct tccrt_session *s, size_t first, int status);        /* returns status, or what went wrong */
/* they stay until tcr_views_done() says so */
void tcr_views_until(struct tccrt_session *s, size_t first, uint32_t queue);
int tcr_views_done(struct tccrt_session *s, uint32_t queue, int status);     /* TCC_NO: of all queues */

/* State variables: their memory; their value from and to the host. zero: all bytes. */
void *tcr_state_alloc(struct tccrt_session *s, const struct tcc_pstate *p);
void tcr_state_free(struct tccrt_session *s, const struct tcc_pstate *p, void *at);
/* The host's memory for what goes to a device and back, its bytes 0: pinned where the plan asks for it and the device
 * has such. */
bool tcr_pins(const struct tccrt_session *s);
/* with the host, beside a device with a memory of its own */
bool tcr_state_stays(const struct tccrt_session *s, uint32_t i);
int tcr_state_read(struct tccrt_session *s, uint32_t i, size_t first, size_t bytes, void *to);
int tcr_state_write(struct tccrt_session *s, uint32_t i, const void *from);
int tcr_state_zero(struct tccrt_session *s, uint32_t i);
/* *out: where the host can read it: it itself, or a copy in *room, which is made where it is NULL and is the caller's
 * to free. NULL: another stage's. */
int tcr_state_on_host(struct tccrt_session *s, uint32_t i, void **room, const void **out);

/* -- shard.c: variables that are parts of larger ones */
uint64_t tcr_whole_bytes(const struct tccrt_model *m, const struct tcc_pstate *p);
void tcr_take_part(const struct tccrt_model *m, const struct tcc_pstate *p, int rank, const void *whole, void *part);
int tcr_state_write_whole(struct tccrt_session *s, uint32_t i, const void *whole);      /* the session's part of it */
/* A call of all ranks of the group: *whole, on rank 0 (elsewhere not looked at), becomes all their parts. */
int tcr_gather_parts(struct tccrt_session *s, uint32_t i, void *whole);
const char *tcr_shard_group(const struct tccrt_model *m);      /* NULL: nothing is divided */
int tcr_check_tensor(const struct tccrt_model *m, int tensor);

void tcr_slot_clear(struct tccrt_session *s, struct tcr_slot *slot);
/* takes the reference */
void tcr_slot_set(struct tccrt_session *s, struct tcr_slot *slot, struct tcc_object *object);

/* -- apart.c: the inputs, in s->in, lie where the run does not write. out: the caller's list of results; NULL: they are
 * objects. Results of the call before are still there. */
int tcr_keep_apart(struct tccrt_session *s, const struct tcc_pentry *e, int nout, const struct tcc_tensor *out);

/* -- size.c ----------------------------------------------------------------------------------- */
#define TCR_UNBOUND INT64_MIN                /* depends on a symbol that has no value yet */
#define TCR_BAD (INT64_MIN + 1)              /* overflowed, or divided by zero */
#define TCR_IS_VALUE(v) ((v) > TCR_BAD)

/* an operation of enum tcc_expr_op behind SYM, on values; or TCR_BAD */
int64_t tcr_compute(uint32_t op, int64_t a, int64_t b);
void tcr_eval_level(struct tccrt_session *s, uint32_t level);
void tcr_forget_levels(struct tccrt_session *s);             /* levels above 0 and their symbols become unbound */
/* position.c: binds the symbols of state variables; may a run of e advance them; it ended well. */
int tcr_bind_positions(struct tccrt_session *s);
int tcr_check_advances(struct tccrt_session *s, const struct tcc_pentry *e);
/* the checks that an entry point begins with, of sizes that are bound */
int tcr_check_first(struct tccrt_session *s, const struct tcc_pentry *e);
/* Of the versions for the sizes of the call the last, which is for the most; what runs if it has none. */
const struct tcc_pentry *tcr_last_version(const struct tccrt_session *s);
int tcr_advance(struct tccrt_session *s, const struct tcc_pentry *e);
int tcr_bind_sym(struct tccrt_session *s, uint32_t sym, int64_t value, const char *node);
/* The value of an expression, at least 0. `what` is for the message. */
int tcr_size(struct tccrt_session *s, uint32_t expr, const char *what, const char *node, int64_t *out);
/* The dims of a buffer. */
int tcr_dims(struct tccrt_session *s, struct tcc_range dims, const char *what, const char *node, int64_t *out);
char *tcr_expr_text(const struct tccrt_model *m, uint32_t expr);   /* malloc'd; NULL: no memory */
/* "N = 3, M = 4": the symbols of those expressions that are more than one, and their values; "": there are none. */
void tcr_expr_names(const struct tccrt_session *s, const uint32_t *exprs, int n, char *to, size_t size);

/* -- bounds.c: intervals of the integer program ------------------------------------------------------- */
static inline bool
tcr_is_bounded(struct tcr_interval x)
{
    return TCR_IS_VALUE(x.lo) && TCR_IS_VALUE(x.hi);
}
/* An operation of enum tcc_expr_op: contains all results; not bounded where an operand isn't, or an operation may
 * fail. */
struct tcr_interval tcr_interval(uint32_t op, struct tcr_interval a, struct tcr_interval b);
/* Computes the session's ranges for the sizes that are bound now, e's runs. */
void tcr_bounds(struct tccrt_session *s, const struct tcc_pentry *e);
/* what an expression may be while a program lives */
struct tcr_interval tcr_range(const struct tccrt_session *s, uint32_t expr);
/* its largest value, as far as it is known; at least the one now */
int64_t tcr_most(const struct tccrt_session *s, uint32_t expr);

/* -- place.c ---------------------------------------------------------------------------------- */
struct tcr_placement { int64_t *sizes; uint64_t arenas[2]; bool done; };
/* Places an entry point's buffers for the sizes that are bound now, unless they are what they were; arenas: bytes that
 * each takes. */
int tcr_place(struct tccrt_session *s, const struct tcc_pentry *e, int64_t *arenas);

/* -- outputs.c -------------------------------------------------------------------------------- */
/* Output k's memory for a result of these dims, in one of the plan's memories. */
void *tcr_output_memory(struct tccrt_session *s, uint32_t k, uint32_t memory, int dtype, int rank, const int64_t *dims,
                        int64_t bytes, int *status);
void tcr_reset_outputs(struct tccrt_session *s);
/* Outputs whose dims follow from the inputs'; those whose memory follows from the run; what lies in the session's
 * memory on the device goes to the host. */
int tcr_early_outputs(struct tccrt_session *s, const struct tcc_pentry *e);
int tcr_late_outputs(struct tccrt_session *s, const struct tcc_pentry *e);
int tcr_outputs_to_host(struct tccrt_session *s);

/* -- run.c ------------------------------------------------------------------------------------ */
const char *tcr_kind_name(uint32_t kind);    /* "tensor", of enum tcc_object_kind */
/* A run's parts: sizes, arenas and inputs; variables in the caller's memory. failed: ends what is under way; the
 * message stays. first: but where a kernel has met a bad index, which is told: it was before what the host then met,
 * and perhaps the reason, for nothing is stored behind it that the host could read. */
int tcr_prepare(struct tccrt_session *s, const struct tcc_pentry *e);
int tcr_copy_borrowed(struct tccrt_session *s, bool back);
int tcr_run_failed(struct tccrt_session *s, int status);
int tcr_first_failure(struct tccrt_session *s, int status);
/* A call with tensors: run() does it. */
int tcr_run_tensors(struct tccrt_session *s, const char *entry, int nin, const struct tcc_tensor *in, int nout,
                    struct tcc_tensor *out,
                    int (*run)(struct tccrt_session *s, const struct tcc_pentry *e));
int tcr_run_now(struct tccrt_session *s, const struct tcc_pentry *e);

/* Binds the inputs in s->in, evaluates sizes, and chooses s->chosen. */
int tcr_bind(struct tccrt_session *s, const struct tcc_pentry *e);
int tcr_bind_sizes(struct tccrt_session *s, const struct tcc_pentry *e);          /* without the inputs' elements */
/* Runs an entry point on the inputs in s->in; leaves results in s->outs. */
int tcr_execute(struct tccrt_session *s, const struct tcc_pentry *e);
/* The steps of s->running themselves, in the arithmetic that they expect; after a failure the other ranks have been
 * told. */
int tcr_run_steps(struct tccrt_session *s);

/* -- stages.c ----------------------------------------------------------------------------------- */
int tcr_stages_run(struct tccrt_session *s, const struct tcc_pentry *e);
/* The microbatch of a step of a stage's list: its last size. */
static inline uint32_t
tcr_stage_micro(const struct tccrt_model *m, const struct tcc_pstep *p)
{
    return p->sizes.count ? (uint32_t)m->exprs[m->u32s[p->sizes.first + p->sizes.count - 1]].k : 0;
}
int tcr_state_gather(struct tccrt_session *s, uint32_t i, int root, void *to);       /* to: of the root */
/* Does the session hold what has this owner_stage (struct tcc_pstate), or run that stage? */
static inline bool
tcr_has_stage(const struct tccrt_session *s, uint32_t owner_stage)
{
    return !owner_stage || !s->stage || (uint32_t)s->stage == owner_stage;
}

/* -- comm/owned.c: state and buffers that one rank of a group has ------------------------------------------------ */
/* anew, when the session or a group of its own is there; what others own now has no memory here */
int tcr_owners_find(struct tccrt_session *s);
void tcr_owners_bind(struct tccrt_session *s);           /* their symbols, when a call begins */
bool tcr_is_elsewhere(const struct tccrt_session *s, uint32_t i);        /* does another rank own state variable i? */
/* its number; -1, and a message: there is none */
int tcr_find_state(const struct tccrt_session *s, const char *name);
/* says so, and which there are; TCC_EUSAGE */
int tcr_no_state(const struct tccrt_session *s, const char *name);
void tcr_list_name(char *list, size_t room, const char *name);              /* 'A', 'B', ... */
bool tcr_has_state(const struct tccrt_session *s, uint32_t i);           /* its memory, or a mirror of its value */
/* the status, and the message, of who asks for one that is not here */
int tcr_state_absent(const struct tccrt_session *s, uint32_t i);
/* has the buffer no memory, since another rank owns what belongs there? */
bool tcr_lacks(const struct tccrt_session *s, uint32_t b);
int tcr_states_make(struct tccrt_session *s);            /* memory for what this rank owns, unless it is there */
int tcr_state_make(struct tccrt_session *s, uint32_t i); /* memory for a variable, unless it is there or elsewhere */
/* for those that its steps access: gradients have none before */
int tcr_entry_states(struct tccrt_session *s, const struct tcc_pentry *e);
int tcr_mirror(struct tccrt_session *s, uint32_t i, void **out);         /* made where there is none */
int tcr_accumulating(struct tccrt_session *s, bool *yes);                /* ckpt.c: are gradients being added up? */

/* -- program.c ------------------------------------------------------------------------------------- */
int tcr_step_program(struct tccrt_session *s, const struct tcc_pstep *p);
/* the values of e's control block; out's others stay */
void tcr_control(struct tccrt_session *s, const struct tcc_pentry *e, struct tcr_control *out);

/* -- walk.c, buffer.c, launch.c, libop/lib.c ------------------------------------------------------------------ */
int tcr_walk(struct tccrt_session *s, struct tcc_range steps);
/* Of buffer b its name in messages; where it lies now, as a tensor or a block. */
const char *tcr_buffer_name(const struct tccrt_session *s, uint32_t b);
int tcr_address(struct tccrt_session *s, uint32_t b, const char *node, void **out);
int tcr_buffer_tensor(struct tccrt_session *s, uint32_t b, const char *node, struct tcc_tensor *out);
int tcr_buffer_bytes(struct tccrt_session *s, uint32_t b, const char *node, int64_t *out);
int tcr_copy_buffer(struct tccrt_session *s, uint32_t from, uint32_t to, const char *node);
int tcr_dynamic(struct tccrt_session *s, uint32_t b, int rank, const int64_t *dims, int64_t bytes);
int tcr_make_dynamic(struct tccrt_session *s, uint32_t b, const char *node); /* by its own dims */
int tcr_step_launch(struct tccrt_session *s, const struct tcc_pstep *p);
int tcr_step_batch(struct tccrt_session *s, const struct tcc_pstep *p);
/* The launch of a step, its lists in the session's room. made: false: it has no tiles. shape: of struct
 * tcr_device_ops.holds. */
struct tcr_made_launch { struct tcr_kernel_launch l; bool made; uint64_t shape; };
/* does it take less time than threads need to meet? */
bool tcr_is_small(const struct tccrt_session *s, const struct tcc_pstep *p);
int tcr_make_launch(struct tccrt_session *s, const struct tcc_pstep *p, struct tcr_made_launch *out);
int tcr_step_lib(struct tccrt_session *s, const struct tcc_pstep *p);
int tcr_step_accum(struct tccrt_session *s, const struct tcc_pstep *p);
int tcr_step_stack(struct tccrt_session *s, const struct tcc_pstep *p);
int tcr_step_loop(struct tccrt_session *s, const struct tcc_pstep *p);
/* Is one of a loop's results, as they lie now, overwritten by an earlier one when they become parameters? */
int tcr_carried_overlap(struct tccrt_session *s, const struct tcc_pstep *p, bool *overlap);
/* parallel.c */
int tcr_step_parallel(struct tccrt_session *s, const struct tcc_pstep *p);
int tcr_step_if(struct tccrt_session *s, const struct tcc_pstep *p);

/* -- comm/step.c ------------------------------------------------------------------------------ */
/* comm/group.c: groups of the ranks for which the session's device stands (struct tcr_device): its collectives move
 * nothing */
int tcr_groups_fold(struct tccrt_session *s);
int tcr_step_collective(struct tccrt_session *s, const struct tcc_pstep *p);
int tcr_step_message(struct tccrt_session *s, const struct tcc_pstep *p);
int tcr_await(struct tccrt_session *s, uint32_t step);       /* until what that step has started has ended */
int tcr_await_list(struct tccrt_session *s, struct tcc_range steps);         /* the same of all steps of a list */
/* comm/vote.c: a run of this list has failed at s->failed_at: tells the other ranks where the plan votes. Returns
 * status; the message is every rank's then. */
int tcr_vote_failed(struct tccrt_session *s, struct tcc_range steps, int status);
struct tccrt_comm *tcr_session_group(struct tccrt_session *s, const char *name);      /* NULL: none of that name */
void tcr_drain(struct tccrt_session *s, int status); /* waits for what a run has left under way; its message stays */

/* -- guard.c ---------------------------------------------------------------------------------- */
#define TCR_GUARD_POISON 0xff                /* a NaN in every float type, -1 in signed integers */
bool tcr_guard_wanted(void);                 /* by TCCRT_GUARD */
void tcr_guard_free(void *p);
void tcr_guard_heap(struct tcr_heap *h);     /* such blocks are what the heap gives, whoever's allocator it had */
/* n rows, each with such a page behind it, *step bytes apart; freed as a block is. Where a kernel's scratch of so many
 * bytes begins in a row, which becomes poison unless what lies there is kept. */
void *tcr_guard_rows(size_t n, size_t bytes, size_t *step);
void *tcr_guard_scratch(uint8_t *row, size_t step, size_t bytes, bool kept);
/* For who has pages of his own: where a block begins in *room bytes of pages; that it lies there, to sessions at
 * `known`; that it is gone. */
size_t tcr_guard_offset(size_t bytes, size_t alignment, size_t *room);
bool tcr_guard_note(void *pages, size_t room, void *data, size_t bytes, const void *known);
void tcr_guard_forget(const void *known);
/* A session's: made last, and ended first. The memory of buffer b in s->rebound; of inputs and outputs. */
int tcr_guard_new(struct tccrt_session *s);
void tcr_guard_end(struct tccrt_session *s);
int tcr_guard_address(struct tccrt_session *s, uint32_t b, const char *node);
int tcr_guard_input(struct tccrt_session *s, uint32_t i, const struct tcc_tensor *t);
int tcr_guard_output(struct tccrt_session *s, uint32_t k, int dtype);
void tcr_guard_outputs_back(struct tccrt_session *s);
int tcr_guard_begin(struct tccrt_session *s, const struct tcc_pentry *e);    /* a run: all of the arena is poison */
void tcr_guard_step(struct tccrt_session *s);                                /* one begins */
void tcr_guard_launch(const struct tcr_kernel_launch *l);                    /* a launch begins */
/* it has ended: TCC_EBUG where something was written beside a block */
int tcr_guard_check(struct tccrt_session *s, const struct tcc_pstep *p);

/* -- profile.c -------------------------------------------------------------------------------- */
int tcr_profile_new(struct tccrt_session *s);
void tcr_profile_free(struct tccrt_session *s);
/* its kernel's, or its kind */
const char *tcr_profile_name(const struct tccrt_session *s, const struct tcc_pstep *p);
/* observe.c: the step has been given */
int tcr_observe_step(struct tccrt_session *s, const struct tcc_pstep *p);
void tcr_profile_begin(struct tccrt_session *s);             /* a run begins */
/* one begins behind others: what came before those is forgotten */
void tcr_profile_behind(struct tccrt_session *s);
/* of a stage's list */
void tcr_profile_staged(struct tccrt_session *s, uint32_t stage, const struct tcc_pstep *p, double start, double end);
void tcr_profile_step(struct tccrt_session *s, const struct tcc_pstep *p, double start, double end);
/* to a device, which takes the time itself */
void tcr_profile_given(struct tccrt_session *s, const struct tcc_pstep *p);
void tcr_profile_batch(struct tccrt_session *s, const struct tcc_pstep *p);
void tcr_profile_device(struct tccrt_session *s);            /* it has done what it was given: its times */
void tcr_profile_waited(struct tccrt_session *s, double ns); /* the host, for the device */
void tcr_profile_wait(struct tccrt_session *s, uint32_t step, double ns);
/* trace only: beside the steps */
void tcr_profile_aside(struct tccrt_session *s, uint32_t step, double start, double end);

#endif
