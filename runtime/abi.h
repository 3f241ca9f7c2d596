/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abi.h - what the compiler writes and the runtime reads: element types, tensor
 * descriptors, library-op calls, and the layout of an artifact's descriptor and plan.
 *
 * This header is a leaf that every folder may include. It declares data, and the functions by
 * which all of them count the elements of a shape and decide a guard. Every structure that is
 * stored in an artifact is little-endian, has no pointers (but for struct tcc_model, whose pointers
 * the linker relocates) and no implicit padding. Changing any of them means raising TCC_ABI_VERSION.
 */
#ifndef TCC_ABI_H
#define TCC_ABI_H

#include <stddef.h>
#include <stdint.h>

#define TCC_ABI_VERSION 25u
#define TCC_MAX_RANK 12
#define TCC_MAX_ELEMENTS (INT64_C(1) << 47) /* what a process can address */

/* The number of elements of a shape; -1: a dim is negative, or the dims other than 0 multiply to more than
 * TCC_MAX_ELEMENTS (NumPy's rule). So no product of some of the dims of a tensor overflows, not of one without elements
 * either. */
static inline int64_t tcc_elements(int rank, const int64_t *dims)
{
    int64_t n = 1;
    int empty = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0 || (dims[i] && dims[i] > TCC_MAX_ELEMENTS / n))
            return -1;
        n *= dims[i] ? dims[i] : 1;
        empty |= !dims[i];
    }
    return empty ? 0 : n;
}

/* -- Element types ------------------------------------------------------------------
 * Numbered as ONNX's TensorProto.DataType. `bytes` is the size of an element in memory
 * inside tccc and its artifacts: 4-bit and 2-bit types are held one to a byte (integers
 * sign- or zero-extended, f4e2m1 as its raw low nibble), packed only in files; strings
 * are struct tcc_string. `class` is a TCC_CLASS_ name. */
#define TCC_DTYPES(X)                                                                    \
    /* id        n   name            bytes class     */                                  \
    X(F32,        1, "f32",            4, FLOAT)                                         \
    X(U8,         2, "u8",             1, UINT)                                          \
    X(I8,         3, "i8",             1, INT)                                           \
    X(U16,        4, "u16",            2, UINT)                                          \
    X(I16,        5, "i16",            2, INT)                                           \
    X(I32,        6, "i32",            4, INT)                                           \
    X(I64,        7, "i64",            8, INT)                                           \
    X(STRING,     8, "string",        16, STRING)                                        \
    X(BOOL,       9, "bool",           1, BOOL)                                          \
    X(F16,       10, "f16",            2, FLOAT)                                         \
    X(F64,       11, "f64",            8, FLOAT)                                         \
    X(U32,       12, "u32",            4, UINT)                                          \
    X(U64,       13, "u64",            8, UINT)                                          \
    X(C64,       14, "c64",            8, COMPLEX)                                       \
    X(C128,      15, "c128",          16, COMPLEX)                                       \
    X(BF16,      16, "bf16",           2, FLOAT)                                         \
    X(F8E4M3FN,  17, "f8e4m3fn",       1, FLOAT)                                         \
    X(F8E4M3FNUZ,18, "f8e4m3fnuz",     1, FLOAT)                                         \
    X(F8E5M2,    19, "f8e5m2",         1, FLOAT)                                         \
    X(F8E5M2FNUZ,20, "f8e5m2fnuz",     1, FLOAT)                                         \
    X(U4,        21, "u4",             1, UINT)                                          \
    X(I4,        22, "i4",             1, INT)                                           \
    X(F4E2M1,    23, "f4e2m1",         1, FLOAT)                                         \
    X(F8E8M0,    24, "f8e8m0",         1, FLOAT)                                         \
    X(U2,        25, "u2",             1, UINT)                                          \
    X(I2,        26, "i2",             1, INT)

enum tcc_class {
    TCC_CLASS_NONE, TCC_CLASS_FLOAT, TCC_CLASS_INT, TCC_CLASS_UINT, TCC_CLASS_BOOL, TCC_CLASS_STRING, TCC_CLASS_COMPLEX
};

enum tcc_dtype {
    TCC_NONE = 0,
#define X(id, n, name, bytes, class) TCC_##id = n,
    TCC_DTYPES(X)
#undef X
    TCC_NDTYPES = 27
};

/* -- Status codes -------------------------------------------------------------------- */
enum tcc_status {
    TCC_OK = 0,
    TCC_EINPUT = 1,    /* a tensor, shape, name or value given by the caller is wrong */
    TCC_EUSAGE = 2,    /* the API was called in a way that it does not allow */
    TCC_EENV = 3,      /* the environment: no memory, no device, a lesser CPU, no such file */
    TCC_EBUG = 4,      /* our bug: the artifact contradicts itself */
    TCC_EINDEX = 5     /* an index read from a tensor lies outside its axis (gather, scatter) */
};

/* -- Tensors and objects ------------------------------------------------------------- */

/* An element of a string tensor: not terminated, owned by the tensor that holds it. */
struct tcc_string {
    char *data;
    int64_t size;   /* bytes */
};

/* A dense row-major tensor. */
struct tcc_tensor {
    void *data;
    int32_t dtype;  /* enum tcc_dtype */
    int32_t rank;
    int64_t dims[TCC_MAX_RANK];
};

enum tcc_object_kind { TCC_OBJ_NONE, TCC_OBJ_TENSOR, TCC_OBJ_SEQUENCE };

/* A value whose shape or structure is known at run time only: strings, sequences,
 * optionals (TCC_OBJ_NONE when empty, else the value itself) and tensors of unknown rank.
 * Reference-counted; immutable once its producer has returned. refs < 0: a header over somebody else's memory, good for
 * the duration of a call; tccrt_object_ref() copies it. */
struct tcc_object {
    int32_t refs;
    int32_t kind;                /* enum tcc_object_kind */
    struct tcc_tensor t;         /* TENSOR */
    int64_t n;                   /* SEQUENCE: number of items */
    struct tcc_object **items;
};

/* -- Library ops ----------------------------------------------------------------------
 * The long tail (kind LIBRARY): code that the runtime holds once and that the reference
 * interpreter calls too. An op gets its inputs as objects (NULL: omitted), and makes each
 * output through tcc_lib_output() or tcc_lib_set(). It reports failure by
 * `return tcc_lib_fail(call, TCC_EINPUT, "what was expected, what was found")`. */
enum tcc_attr_kind { TCC_ATTR_INTS, TCC_ATTR_FLOATS, TCC_ATTR_STRINGS, TCC_ATTR_TENSOR };

struct tcc_attr {
    const char *name;
    int32_t kind;                /* enum tcc_attr_kind */
    int32_t n;                   /* number of values */
    const int64_t *ints;
    const double *floats;
    const char *const *strings;
    const struct tcc_tensor *tensor;
};

struct tcc_lib_call;

/* Filled in by whoever calls library ops (the runtime or the interpreter). */
struct tcc_lib_host {
    /* Memory for output k; NULL when there is none left (the op then returns TCC_EENV). The pointer
     * is 64-byte aligned and not zeroed, but for string tensors, whose elements are zeroed. */
    void *(*output)(struct tcc_lib_call *call, int k, int dtype, int rank, const int64_t *dims);
    /* Output k becomes `object`; takes over the caller's reference. */
    void (*set)(struct tcc_lib_call *call, int k, struct tcc_object *object);
    int (*fail)(struct tcc_lib_call *call, int status, const char *format, ...);
    /* body(arg, i) for each i in [0, n), by several threads in any order; returns when all have ended. NULL: there is
     * one thread only. */
    void (*each)(struct tcc_lib_call *call, int64_t n, void (*body)(void *arg, int64_t i), void *arg);
};

struct tcc_lib_call {
    const struct tcc_lib_host *host;
    void *user;                              /* the host's own */
    int32_t nin, nout;
    const struct tcc_object *const *in;
    struct tcc_object **out;
    int32_t nattrs;
    const struct tcc_attr *attrs;
    uint64_t seed;                           /* of the session, and how many runs it has ended: for random ops */
    int64_t run;
};

/* Resize: so near to the middle of two elements a coordinate in f32 is taken to be there, as ONNX Runtime does. By the
 * library op and by what compiles it. */
#define TCC_RESIZE_TIE 1e-6

typedef int (*tcc_libop_fn)(struct tcc_lib_call *call);

/* The table of library ops, sorted by name; defined in runtime/ (libop/). */
struct tcc_libop {
    const char *name;
    const char *symbol;                      /* "tccrt_lib_NAME" */
    tcc_libop_fn fn;
};
extern const struct tcc_libop tccrt_libops[];
extern const int tccrt_nlibops;

/* A user's own operator (tccc_custom.h) called as a library op: the results' shapes are what its shape() says, run()
 * fills them in. In an artifact the plan's function for it does only this. */
struct tccc_custom_op;
int tccrt_custom_call(struct tcc_lib_call *call, const struct tccc_custom_op *op);
/* Its shape(); where it has none, result k is like the k-th operand of floats. */
struct tccc_custom;
int tccrt_custom_shape(struct tccc_custom *c, const struct tccc_custom_op *op);

/* Objects, defined in runtime/object.c. None of them fails but by returning NULL (no memory). */
/* owns zeroed, 64-byte aligned data */
struct tcc_object *tccrt_object_tensor(int dtype, int rank, const int64_t *dims);
struct tcc_object *tccrt_object_sequence(int64_t n);                                /* items start as NULL */
struct tcc_object *tccrt_object_none(void);
struct tcc_object *tccrt_object_ref(const struct tcc_object *object);
void tccrt_object_unref(struct tcc_object *object);
int tccrt_string_set(struct tcc_string *to, const char *data, int64_t size);        /* copies; 0 or -1 (no memory) */

/* -- Kernels --------------------------------------------------------------------------
 * A kernel runs tiles [first, last) of its iteration space. It may be called for disjoint
 * tile ranges from several threads at once. A split kernel has two phases: a launch's `tiles` are those of the first,
 * the `combining` ones, numbered from there on, those of the second, which run when all of the first have ended; no
 * call spans both. `args` are the base addresses of its operands in the kernel's order (TEMPs left out: they lie in
 * scratch), `sizes` the values of its size parameters, `scratch` at least the number of bytes that its plan entry asks
 * for, private to the calling thread, 64-byte aligned. */
struct tcc_env {
    int32_t fault;      /* set to TCC_EINDEX by a kernel that met a bad index; never cleared by kernels */
    /* The call's first tile lies behind the last one that this thread ran in the same phase of the launch, with this
     * scratch: what that tile left there need not be made again. Of kernels on the host. */
    int32_t continues;
    uint64_t seed;      /* of the session (tccrt_options) */
    int64_t run;        /* number of runs of the session before this one; random ops count with it */
    /* Of a bad index that a kernel met, written in front of `fault`: as the data have it, how long its axis is, and the
     * number of the kernel's check (struct tcc_pstep: checks). Of several it is any one. */
    int64_t index, extent, check;
};

/* The run's control block: what changes from run to run, for what lives longer than a run (a PROGRAM that a device has
 * recorded). It lies in the memory where kernels run, 64-byte aligned, and is uploaded once a run, before the run's
 * first launch, but for the values of a PROGRAM that are known later: these are, in its queue, before it begins.
 * Parameters of kernels inside a PROGRAM hold only what can't change while the program lives. A learning rate, as any
 * tensor, is a buffer. */
struct tcc_control {
    /* what kernels get; `fault` is set there by a kernel, and read back by the host's waits */
    struct tcc_env env;
    int64_t iteration;           /* of the LOOP whose body is a PROGRAM, 0 elsewhere */
    uint32_t nvalues, pad;
    int64_t values[];            /* the entry point's `control` list (struct tcc_pentry): sizes, positions in a cache */
};

typedef void (*tcc_kernel_fn)(void *const *args, const int64_t *sizes, void *scratch, struct tcc_env *env,
                              int64_t first, int64_t last);

/* -- Plan -----------------------------------------------------------------------------
 * The plan is one block of bytes: a header, then tables. A `tcc_range` names entries
 * [first, first + count) of the table that its comment says. Index 0xffffffff is "none". */
#define TCC_NO 0xffffffffu

struct tcc_range { uint32_t first, count; };

/* Integer program: value i is computed from earlier values. Values that depend on symbols
 * bound while running are evaluated by TCC_STEP_EVAL. */
enum tcc_expr_op {
    TCC_EX_CONST,   /* k */
    TCC_EX_SYM,     /* symbol number k: bound from an input's dim, a data-dependent output, or a tensor */
    TCC_EX_ADD, TCC_EX_MUL,                  /* a, b; overflow is TCC_EINPUT */
    TCC_EX_FLOORDIV, TCC_EX_MOD,             /* floor, sign of the divisor; divisor 0 is TCC_EINPUT */
    TCC_EX_MIN, TCC_EX_MAX
};
enum tcc_space {
    TCC_SPACE_INPUT,    /* `index`: number of the entry point's input */
    TCC_SPACE_OUTPUT,   /* `index`: number of the entry point's output */
    TCC_SPACE_ARENA,    /* `offset`: expr, bytes from the start of its memory's arena */
    TCC_SPACE_WEIGHT,   /* `offset`: expr, bytes from the weights' start */
    TCC_SPACE_STATE,    /* `index`: number of the state variable */
    TCC_SPACE_DYNAMIC,  /* allocated when its size is known, freed after its last use (step lists say when) */
    TCC_SPACE_OBJECT,   /* a struct tcc_object: strings, sequences, optionals, unranked tensors */
    TCC_SPACE_ALIAS,    /* same memory as buffer `index`, `offset` bytes further */
    /* of stages' lists alone (below), where INPUT is the microbatch's part of an input */
    TCC_SPACE_SLOT,     /* `index` slots on each stage that uses it: microbatch m lies in slot m % index */
    TCC_SPACE_SIZES     /* no data: a tensor of no elements whose dims are the sizes that a call's symbols have */
};
#define TCC_NSPACES (TCC_SPACE_SIZES + 1)

/* -- Memories and queues ---------------------------------------------------------------------
 * Memory 0 is the host's, memories 1.. are devices'. All but TCC_SPACE_OBJECT may lie in a device's; what the user
 * gives and gets (INPUT, OUTPUT) lies in the host's. A weight's buffer in a device's memory is a copy that is uploaded
 * once for each model and device, at the same offset; a state variable lives where `memory` of struct tcc_pstate says.
 * Each memory has an arena of its own.
 *
 * Queue 0 is the host's program order: its steps run where they stand, one after the other, on the thread that walks
 * the plan, and each has ended when the next step of whatever queue begins. A step of another queue is only started
 * where it stands, and runs behind the steps before it in its queue and behind those in its `waits`. This is all that
 * orders steps (*happens-before*):
 *   1. a step of queue 0 has ended before whatever stands behind it begins;
 *   2. steps of one queue run in the order of the list;
 *   3. a step begins when those that its `waits` name have ended: they stand before it, in its list or in one around
 *      it;
 *   4. IF and LOOP have ended when all steps of their regions have, and so has each iteration before the next begins
 *      (and before values are handed over); an entry point has ended when all its steps have;
 *   5. a PROGRAM is one step of its queue: the steps of its region run in their order and wait for nothing; what others
 *      wait for is the PROGRAM.
 * Whatever two steps access, one of them writing, must be ordered so; the compiler proves it (ir/plan/verify.c).
 *
 * A queue belongs to a memory. Its LAUNCHes access that memory, COPYs that memory and the host's; what stands in queue
 * 0 accesses memory 0 only (and memories that are shared with the host). Queues of memory 0 but for queue 0 hold
 * communication, which is started and runs beside the host's steps. */
enum {
    /* addresses of the host are good there and the other way round: a COPY between them may be none */
    TCC_MEMORY_SHARED_WITH_HOST = 1,
    /* the host's: much goes between it and a device, whose copies should reach it without a block in between */
    TCC_MEMORY_PINNED = 2
};
enum tcc_queue_kind {
    TCC_QUEUE_HOST, TCC_QUEUE_COMPUTE, TCC_QUEUE_COPY_IN, TCC_QUEUE_COPY_OUT, TCC_QUEUE_COMMUNICATION
};
/* How a tensor that is one part of a larger one lies in it. axis: 0: it is whole; else 1 + the axis that is split over
 * the `parts` ranks of `group`: it consists of `blocks` blocks of equal size, and of each of them rank r has the rth of
 * equal parts. A state variable's first value is that of the whole. padding: of one block, the elements of the axis by
 * which the parts are more than the whole; they lie at its end, and hold anything. */
struct tcc_pshard { uint32_t axis, group, parts, blocks, padding, pad; };

enum tcc_step_kind {
    TCC_STEP_LAUNCH,    /* what: kernel; args: buffers; sizes: exprs; tiles, combining: exprs */
    TCC_STEP_COPY,      /* args: from, to; whole buffers of equal byte size */
    TCC_STEP_LIB,       /* what: libop; args: nin inputs (TCC_NO: omitted), then outputs; attrs */
    TCC_STEP_BIND,      /* args[0]: int64 host tensor; syms: u32s, symbols to bind to its elements */
    TCC_STEP_DIMS,      /* args[0]: buffer or object; syms: symbols (TCC_NO: skip) to bind to its dims */
    TCC_STEP_EVAL,      /* evaluates all exprs of level `what` */
    TCC_STEP_ALLOC,     /* args: DYNAMIC buffers to allocate now */
    TCC_STEP_FREE,      /* args: DYNAMIC or OBJECT buffers to release */
    TCC_STEP_IF,        /* args[0]: bool; regions: then, else */
    TCC_STEP_LOOP,      /* args: trip count or TCC_NO, condition or TCC_NO; regions: body. See struct tcc_pregion */
    TCC_STEP_BOX,       /* args: buffer -> object (copies the tensor into a new object) */
    TCC_STEP_UNBOX,     /* args: object -> buffer (dims already bound by DIMS; copies, checks dtype and size) */
    TCC_STEP_ACCUM,     /* args: buffer or object (one iteration's value) -> sequence object: appends a copy */
    /* args: sequence object -> object: its tensors stacked on a new axis `what`. tiles: expr, TCC_NO or 0: in order,
     * else reversed; sizes: dims of one item, for a sequence that is empty or was never begun (none given: a rank-1
     * result) */
    TCC_STEP_STACK,
    /* sizes: pairs of exprs that must be in the relation `what` (enum tcc_relation), else TCC_EINPUT; `node` says
     * where; attrs: why (string: a sentence for people; none: shapes that must agree) */
    TCC_STEP_CHECK,
    TCC_STEP_REF,       /* args: object -> object: shares it */
    /* what: enum tcc_collective; args: nin inputs, then outputs (dense; an output may be the input: in place); group;
     * attrs: mode (string: reductions), scale (float: reductions), root (int) */
    TCC_STEP_COLLECTIVE,
    TCC_STEP_SEND,      /* args[0]: buffer; sizes: rank in the group, tag; group */
    TCC_STEP_RECV,      /* the same; args[0] is written */
    /* regions: one, without parameters: steps of its queue that the device runs as one thing, compiled or recorded: a
     * CUDA graph, a NeuronCore program. sizes: exprs of levels behind 0 that its launches read in the control block, as
     * values `what` and on */
    TCC_STEP_PROGRAM,
    /* regions: two or more, without parameters, each of one LOOP: all of them run, in any order or at the same time.
     * Their bodies are launches and copies, and none touches what another writes */
    TCC_STEP_PARALLEL,
    /* what: kernel; regions: one, without parameters: launches of that kernel in its queue, on tensors of their own,
     * which a device may run as one */
    TCC_STEP_BATCH,
    /* in stages' lists alone (below); sizes: the microbatch */
    TCC_STEP_CALL,      /* what: entry point; args: nin inputs, then outputs */
    TCC_STEP_RESULT     /* args[0]: buffer; its microbatch goes into output `what` of the entry point */
};
#define TCC_NSTEPS (TCC_STEP_RESULT + 1)

enum tcc_relation { TCC_EQ, TCC_LE };       /* a == b, a <= b */
#define TCC_NRELATIONS 2
static inline int tcc_related(uint32_t relation, int64_t a, int64_t b)
{
    return relation == TCC_EQ ? a == b : a <= b;
}
/* One side of a relation for people: its expression, its value in this run. */
struct tcc_side { const char *text; int64_t value; };
/* "WHY: N + 1 = 9 must be at most M = 5, with N = 8": what a run says where a relation does not hold, artifact and
 * interpreter alike (relation.c). why NULL: shapes that must agree. with: the values of what the expressions name, or
 * "". */
void tcr_relation_text(char *to, size_t size, uint32_t relation, const char *why, struct tcc_side a, struct tcc_side b,
                       const char *with);

/* COLLECTIVE, SEND and RECV with queue 0 are done when the step ends; those of other queues run beside what follows.
 * Collectives of one group are started in the same order on all of its ranks. `group` is what tccrt_session_group()
 * gave the session; a session that was given none of that name is alone in it.
 *
 *   ALL_REDUCE      n tensors -> n tensors: reduced over ranks by `mode` (sum, avg, min, max, product), then times
 *                   `scale` (1)
 *   BROADCAST       n tensors -> n tensors: those of rank `root`
 *   REDUCE          n tensors -> n tensors: as ALL_REDUCE at rank `root`; elsewhere the outputs are left as they are
 *   ALL_GATHER      tensor -> tensor: the ranks' tensors one behind the other on axis 0
 *   REDUCE_SCATTER  tensor -> tensor: part number `rank` on axis 0 of what ALL_REDUCE gives
 *   ALL_TO_ALL      tensor -> tensor: part r on axis 0 goes to rank r, that of rank r comes to part r
 *   BROADCAST_FROM_OWNER n tensors -> n tensors: each from the rank that owns it, of the list itself or, with `bytes`
 *                   and `members` (ints), of a list of these bytes of which they are members. Only the owner need have
 *                   the first n
 *   IS_OWNER        n bools: does this rank own that tensor of a list of these `bytes` (ints)? Nothing is communicated.
 *                   `name`: names of the state variables, a line each. Its symbols, where it has any, are the same
 *                   numbers, bound when a call begins
 *   REDUCE_OWNED    n tensors -> n tensors: as REDUCE, at the owner of each. Only the owner need have the result: a
 *                   buffer whose `bytes` are 0 has no memory
 *   BARRIER         nothing -> nothing
 *   VOTE            nothing -> nothing: has the run gone well so far, at all ranks? (Two-phase commit: Gray, 1978.) The
 *                   largest status of the ranks is every rank's, with the message of the first that has it. A run that
 *                   has failed in front of a VOTE of its entry point's own list goes on with the communication up to
 *                   there. Whatever may meet a fault stands in front of it, what writes state behind it */
enum tcc_collective {
    TCC_ALL_REDUCE, TCC_BROADCAST, TCC_REDUCE, TCC_ALL_GATHER, TCC_REDUCE_SCATTER, TCC_ALL_TO_ALL, TCC_BARRIER,
        TCC_BROADCAST_FROM_OWNER, TCC_IS_OWNER, TCC_REDUCE_OWNED, TCC_VOTE, TCC_NCOLLECTIVES
};

/* Where launches of it run. A kernel that runs in both has functions (struct tcc_version) and launch records (struct
 * tcc_pimage). */
enum {
    TCC_KERNEL_HOST = 1,
    TCC_KERNEL_DEVICE = 2,
    TCC_KERNEL_FAULTS = 4,                      /* it may meet a bad index */
    /* it takes sizes as parameters alone, never from the control block: a user's device code */
    TCC_KERNEL_BY_VALUE = 8,
    /* it does little for each element that it reads or writes: its time follows from their bytes */
    TCC_KERNEL_LIGHT = 16,
    /* its time follows from bytes and floating-point operations: products and sums, with little behind them */
    TCC_KERNEL_PRODUCT = 32
};
enum { TCC_READS = 1, TCC_WRITES = 2 };         /* what is done with bytes; both: what it leaves of them stays */

/* -- Shape versions -----------------------------------------------------------------------
 * An entry point with `cases` has no steps, buffers or arena of its own: its inputs' dims are bound as its signature
 * says, level 0 is evaluated, and the first case whose guards all hold names the entry point (behind those that the
 * user sees, with as many inputs and outputs, and no cases of its own) that the call runs on the same inputs. Outputs
 * whose rank depends on the case have rank TCC_NO in the signature, dims that do are a symbol without a value. No case:
 * TCC_EINPUT. A guard on a value that is not known does not hold. */
enum tcc_guard {
    TCC_GUARD_EQ,                       /* a == b */
    TCC_GUARD_NE,
    TCC_GUARD_LE,                       /* a <= b */
    TCC_GUARD_BROADCAST                 /* a == b, or one of them is 1 */
};
#define TCC_NGUARDS 4
static inline int tcc_guard_holds(uint32_t op, int64_t a, int64_t b)
{
    switch (op) {
    case TCC_GUARD_EQ: return a == b;
    case TCC_GUARD_NE: return a != b;
    case TCC_GUARD_LE: return a <= b;
    default: return a == b || a == 1 || b == 1;
    }
}
/* -- Stages ------------------------------------------------------------------------------
 * An entry point that runs in stages (struct tcc_pstaged) splits the batch into `micros` microbatches. Each stage has a
 * list of steps, a region's, which it runs in order; a session runs one stage or, in turn, all of them. Their buffers
 * are INPUTs, SLOTs and SIZES, their steps
 *   CALL        of another entry point (they stand behind those that the user sees)
 *   SEND        sizes: the stage that gets the buffer, the microbatch. Does not wait: its slot stays until it has gone
 *   RECV        sizes: the stage that sends it, the microbatch. Where the buffer has a slot to spare it may begin when
 *               the one before of that buffer has ended
 *   COLLECTIVE  ALL_GATHER: every stage's buffer, stacked on a new axis 0, on every stage
 *   RESULT
 * and `group` is that of the stages, "pp". Sizes are constants. */
/* over microbatches; STACK: on a new axis 0 */
enum tcc_combine { TCC_COMBINE_MEAN, TCC_COMBINE_SUM, TCC_COMBINE_CONCAT, TCC_COMBINE_STACK };

/* The records of tables, and the plan's head. */
#define TCC_RECORDS(member, record, word, needed) struct record {
#define TCC_FIELD(type, name, check, argument) type name;
#define TCC_END };
#include "plan.def"

struct tcc_plan {
    uint32_t magic, version;            /* TCC_PLAN_MAGIC, TCC_ABI_VERSION */
    uint64_t size;                      /* of the whole block */
    /* tables: byte offset from the plan's start, number of entries */
#define TCC_TABLE(member, type) struct tcc_range member;
#include "plan.def"
    uint32_t levels;                    /* number of evaluation levels of exprs */
    uint32_t nlibops;
    uint32_t nvisible, pad;             /* entries that the user sees: the first ones; 0: all */
};
#define TCC_PLAN_MAGIC 0x4e504354u      /* "TCPN" */

/* -- Images --------------------------------------------------------------------------------
 * The device's side of an artifact: for each machine that it was compiled for, one block of bytes with the code of the
 * kernels that run there, and how each is launched. All machines share one plan; what is chosen for one (grid, scratch,
 * recipes) is in its image.
 *
 * A device function has these parameters, 8 bytes each:
 *     the device address of each argument of the launching step, in the step's order
 *     each size of the step, i64
 *     the device address of the launch's scratch, 256-byte aligned; 0: it has none
 *     the device address of struct tcc_control, whose `env` is first: it is the struct tcc_env * that kernels know
 *     the number of tiles, i64: the function runs them all, whatever its grid
 *     0; or, within a PROGRAM that serves several sizes, the device address of the values of struct tcc_control: then
 *         sizes and the number of tiles that were given are numbers of these values, which the function reads there
 * Where that is more than TCC_LAUNCH_BYTES, arguments and sizes lie in a table in device memory, in that order, and the
 * parameters are: the address of the table, scratch, control, tiles, values. A kernel that meets a bad index writes
 * TCC_EINDEX to env->fault (such kernels have TCC_KERNEL_FAULTS); one that is launched while the word is not 0 does
 * nothing, or nothing that outlives the run: the run has failed, and steps that write state test the word first. The
 * word is read and written by several at once: relaxed accesses of the system's scope (PTX: ld.relaxed.sys,
 * st.relaxed.sys).
 *
 * A function whose launch record has recipes has further ones: 1, or 0 where the runtime could not make all of the
 * tensor maps (the function does without them then); and, each at a multiple of 64 bytes from the first parameter, the
 * maps.
 *
 * A launch whose number of tiles is 0 is not made. */
#define TCC_IMAGE_MAGIC 0x474d4954u     /* "TIMG" */
#define TCC_LAUNCH_BYTES 4000u
static inline int tcc_launch_has_table(uint64_t nargs, uint64_t nsizes)
{
    return 8 * (nargs + nsizes + 4) > TCC_LAUNCH_BYTES;
}
/* TCC_LAUNCH_ROWS: a further record of a kernel of a TCC_STEP_BATCH, behind those of its range. Its function runs
 * several launches as one, with blocks for each. Its parameters are the address of a table in device memory,
 * scratch (0), control, the number of launches n, and 0. The table, of words of 8 bytes: the first block
 * of each launch, ascending from 0, then the number of all blocks; then for each launch its arguments, its sizes, and
 * the number of its tiles. The record's grid, along x, is that of one launch. TCC_LAUNCH_RESIDENT: a block takes a
 * multiprocessor's room and goes on to the next tile, on whose way it is before the one before is stored: no more
 * blocks than the device has multiprocessors, in whole clusters. */
enum { TCC_LAUNCH_ROWS = 1, TCC_LAUNCH_RESIDENT = 2 };
static inline uint32_t tcc_launch_blocks(uint32_t flags, uint32_t grid, uint32_t cluster, uint32_t multiprocessors)
{
    uint32_t most = cluster ? multiprocessors / cluster * cluster : multiprocessors;
    return flags & TCC_LAUNCH_RESIDENT && most && grid > most ? most : grid;
}
static inline size_t tcc_rows_words(uint64_t rows, uint64_t nargs, uint64_t nsizes)
{
    return (size_t)(rows + 1 + rows * (nargs + nsizes + 1));
}
/* of one function. Numbers are exprs of the image, whose symbol k is size k of the launching step, and whose symbol
 * number nsizes is the number of tiles; levels mean nothing. TCC_NO: 1 (grid, block), none (the others) */
struct tcc_plaunch {
    uint32_t symbol;                    /* strings: the function, PREFIXk<i> */
    uint32_t flags;                     /* TCC_LAUNCH_... */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared;                    /* bytes of a block's shared memory, beyond what the function declares */
    uint32_t scratch;                   /* bytes of device memory for all of the launch */
    struct tcc_range recipes;           /* bytes: what else the target's runtime must know: struct tcc_pmap (CUDA) */
};
/* A tensor map (CUDA: cuTensorMapEncodeTiled): boxes of an argument, in the 128-byte swizzle, zeros outside. Numbers of
 * elements and, for strides, bytes are exprs as those of a launch; that of dim 0 is the type's. It cannot be made where
 * the driver doesn't take it: an address or stride that is no multiple of 16. With windows (cuTensorMapEncodeIm2col)
 * dim 0 is channels, then come 1 to 3 dims of space, then images: a copy brings box[0] channels of box[1] windows, one
 * behind the other over space and images; a window's first point goes from lower[i] to the dim less 1 plus upper[i], in
 * steps of step[i + 1]. */
enum { TCC_MAP_RANK = 5, TCC_MAP_BYTES = 128, TCC_MAP_SPACE = 3 };
struct tcc_pmap {
    uint32_t arg, type, rank;           /* argument of the launch; enum tcc_dtype: f16, bf16, or one of 8 bits */
    uint32_t first;                     /* byte of the argument at which it begins */
    /* innermost first; box: numbers of elements, no exprs */
    uint32_t dims[TCC_MAP_RANK], strides[TCC_MAP_RANK], box[TCC_MAP_RANK];
    uint32_t windows;                   /* 0 or 1 */
    uint32_t step[TCC_MAP_RANK];        /* 1 to 8 */
    int32_t lower[TCC_MAP_SPACE], upper[TCC_MAP_SPACE];
};
/* Where map number i lies, behind n parameters; i: their number: bytes of all. */
static inline size_t tcc_map_at(size_t n, size_t i)
{
    return (8 * (n + 1) + 63) / 64 * 64 + TCC_MAP_BYTES * i;
}
struct tcc_pimage {
    uint32_t magic, version;            /* TCC_IMAGE_MAGIC, TCC_ABI_VERSION */
    uint64_t size;                      /* of the whole block */
    /* strings: "sm_90a", "trn1"; "ptx": code is a zero-terminated text; "cubin", ...: its bytes; "cubins": several
     * modules, which have its functions between them: struct tcc_range, the first of them the table's own, then one a
     * module, all from the code's first byte; then the modules, 64-byte aligned */
    uint32_t machine, format;
    struct tcc_range strings, exprs;    /* tables, as in struct tcc_plan */
    /* struct tcc_range, one for each kernel of the plan: its launches; none: it does not run on the device */
    struct tcc_range kernels;
    /* those of a kernel run one after the other, with the same parameters; their scratch is one block, as long as the
     * longest needs */
    struct tcc_range launches;
    struct tcc_range bytes;             /* recipes, 4-byte aligned */
    struct tcc_range code;              /* the image itself, 64-byte aligned */
};

/* -- Artifact --------------------------------------------------------------------------- */
#define TCC_MODEL_MAGIC 0x4343435441u   /* "ATCCC" */

enum tcc_isa { TCC_ISA_X86_64_V2 = 2, TCC_ISA_X86_64_V3 = 3, TCC_ISA_X86_64_V4 = 4 };

/* One code version of what runs on the host: all kernels of the plan for one instruction set (NULL: one that runs on
 * the device only). The versions of an artifact are the host's times the images: each is chosen for itself. */
struct tcc_version {
    /* "x86-64-v3", or "native:" and the CPU features that it needs, comma-separated */
    const char *isa;
    const tcc_kernel_fn *kernels;
};

/* Of an artifact whose weights are made when it is opened (--weights=random:SEED, to measure a model without carrying
 * its weights): records in place of the weights, the last with `offset` ~0. */
struct tcc_prandom {
    uint64_t offset, bytes;             /* within the weights */
    /* given: the bytes follow, padded to 8; else elements of that type, drawn evenly */
    uint32_t dtype, given;
    double mean, deviation;
};
#define TCC_RANDOM_WEIGHTS "random:"    /* `sidecar` begins so, and the seed follows */
/* those that are drawn */
#define TCC_RANDOM_TYPE(dtype) ((dtype) == TCC_F32 || (dtype) == TCC_F16 || (dtype) == TCC_BF16)

/* The one object that an artifact exports as data: NAME_model, in a .so also tccc_model. Pointers to the descriptors of
 * the same model for other devices, with plans, code and weights of their own, follow it (tcc_model_other()). */
struct tcc_model {
    uint64_t magic;
    uint32_t abi_version, nversions;
    uint32_t nimages, nothers;
    const struct tcc_plan *plan;
    const struct tcc_version *versions; /* best first */
    const struct tcc_pimage *const *images;     /* best first; NULL: none */
    const tcc_libop_fn *libops;         /* plan's LIB steps index this */
    const uint8_t *weights;             /* NULL: in the sidecar; with TCC_RANDOM_WEIGHTS: struct tcc_prandom */
    uint64_t weights_size;
    uint64_t weights_digest;            /* XXH3-64 of the weights; checked for sidecars */
    const char *name;                   /* C identifier that prefixes its symbols */
    const char *sidecar;                /* file name of the weights beside the .so, or NULL */
    const char *source;                 /* digest of the source file and flags, for --version style questions */
};

static inline const struct tcc_model *tcc_model_other(const struct tcc_model *m, uint32_t i)
{
    return ((const struct tcc_model *const *)(const void *)(m + 1))[i];
}

#endif
