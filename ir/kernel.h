/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h - level 2: kernels (iteration space, access maps, scalar bodies, schedule) and the plan.
 * Part of the door ir.h; do not include it by itself.
 *
 * A kernel means: for every point of its OUTER dims, in any order and in parallel: for each stage in order: for every
 * point of the stage's INNER dims in ascending order: run the stage's instructions. A REDUCE instruction
 * combines its operand over the stage's inner points; its value may be used by later stages (and by them only). A
 * value computed in a stage without inner dims may be used by later stages. Everything else that crosses stages goes
 * through a local operand (a row buffer, private to the outer point) or is computed again.
 *
 * A stage may have REPEAT dims too: it runs once for every point of them, ascending, and its sums are over the inner
 * dims only. Neighbouring stages with the same REPEAT dims share that loop, and the values of its reductions are used
 * among them only.
 *
 *   softmax over c of x[r, c]:  outer r, inner c
 *     stage 0 (c): v0 = load x[r, c]; m = reduce max v0
 *     stage 1 (c): v1 = load x[r, c]; v2 = exp(v1 - m); store t[c] v2; s = reduce sum v2
 *     stage 2 (c): v3 = load t[c]; store y[r, c] (v3 / s)
 *   matmul + bias + relu: outer i, j; inner k
 *     stage 0 (k): a = load a[i, k]; b = load b[k, j]; s = reduce sum (a * b)
 *     stage 1 (): store c[i, j] relu(s + load bias[j])
 *
 *   the first k of x[r, c], sorted: outer r; inner c, p < k
 *     stage 0 (c): store keys[c] load x[r, c]; store at[c] c
 *     stage 1 (): sort max keys at
 *     stage 2 (p): store y[r, p] load keys[p]; store i[r, p] load at[p]
 *
 *   attention, one row: outer s; inner t (keys), d, e
 *     stage 0 (d) repeat (t): r = reduce sum (q[s, d] * k[t, d])
 *     stage 1 () repeat (t): store p[t] r * scale + mask[s, t]
 *     softmax of p as above
 *     stage 4 (t) repeat (e): o = reduce sum (p[t] * v[t, e])
 *     stage 5 () repeat (e): store y[s, e] o
 *
 * So any kernel can be run by the plain loop nest above; the schedule only says how it is done fast.
 *
 * A kernel of few outer and many inner points may be *split*. It has a dim of role PIECES, in front of all others, and
 * two phases. The first, up to the stage `combine`: for every point of the PIECES and OUTER dims, in any order and in
 * parallel, the stages run with one INNER dim cut: piece q has its points [q * step, min((q + 1) * step, extent)),
 * which may be none. Then, when all of them have ended, the second: for every point of the OUTER dims, in any order and
 * in parallel, the stages from `combine` on, over whole dims. The stage `combine` alone runs over the pieces, and its
 * reductions combine them in a tree, element by element the second half of them with the first until one is left. What
 * goes from the first phase to the second goes through operands of use PARTIAL: the first stores nothing else. Both
 * phases are one LAUNCH. Pieces are a matter of the shape, not of what runs them, so that a result depends on neither
 * threads nor processors.
 *
 *   sum over rows r of x[r, c]:  pieces p < 4; outer c; inner r < 1000
 *     stage 0 (r): v = load x[r, c]; s = reduce sum v
 *     stage 1 (): store part[p, c] s
 *     stage 2, combine (p): w = load part[p, c]; t = reduce sum w
 *     stage 3 (): store y[c] t
 *     split r step 250
 *
 * Layouts live here: an operand's dims and index are *physical*. The logical index of a value becomes a physical one
 * through its layout when the kernel is built.
 */
#ifndef TCC_KERNEL_H
#define TCC_KERNEL_H

/* -- Layouts ------------------------------------------------------------------------------
 * Physical axis p holds (index[axis] floordiv div) mod mod (mod 0: no modulus); its extent is ceildiv(dim[axis], div),
 * or mod. The plain layout has one physical axis per logical one. Padding lanes hold zero.
 *   NCHW16c      (0,1,0) (1,16,0) (2,1,0) (3,1,0) (1,1,16)
 *   packed b of a matmul, panels of 32 columns:  (1,32,0) (0,1,0) (1,1,32)
 *   blocked conv weights o,i,h,w:  (0,16,0) (1,16,0) (2,1,0) (3,1,0) (1,1,16) (0,1,16) */
struct kn_axis { int16_t axis; int32_t div, mod; };
typedef const struct kn_layout *kn_layout;       /* hash-consed in the context; NULL: plain */
struct kn_layout { uint8_t rank; uint8_t naxes; struct kn_axis at[]; };
/* NULL when it is the plain one */
kn_layout kn_layout_make(struct ir_ctx *ctx, int rank, int naxes, const struct kn_axis *axes);
/* axis split, the block last */
kn_layout kn_layout_blocked(struct ir_ctx *ctx, int rank, int axis, int block);
/* Physical dims of a value of that type; `dims` has room for TCC_MAX_RANK. Returns the physical rank. */
int kn_physical_dims(struct ir_ctx *ctx, ir_type t, kn_layout l, ir_expr *dims);
int kn_physical_index(struct ir_ctx *ctx, kn_layout l, int rank, const ir_expr *logical, ir_expr *physical);
/* a constant's physical form; NULL: no memory */
struct ir_tensor *kn_relayout(const struct ir_tensor *t, kn_layout l);
void kn_print_layout(FILE *out, kn_layout l);

#include "ir/roles/roles.h"

/* -- Kernels --------------------------------------------------------------------------------- */
#define KN_MAX_DIMS 24

enum kn_role { KN_OUTER, KN_INNER, KN_PIECES };
#define KN_MAX_PIECES 1024       /* a power of two, known when the kernel is made */
struct kn_dim { ir_expr var; ir_expr extent; enum kn_role role; };   /* var: an iteration variable (ir_iter) */

enum kn_operand_use { KN_IN, KN_OUT, KN_INOUT, KN_LOCAL, KN_PARTIAL };
/* Where an operand lies. GLOBAL: in a buffer of the plan, passed to the kernel. The others hold LOCAL operands: SHARED
 * memory of the threads that run an outer point together (a NeuronCore's SBUF), REGISTERS (PSUM), SCRATCH (memory of
 * the kernel's own). A target refuses those that it doesn't have. */
enum kn_operand_space { KN_GLOBAL, KN_SHARED, KN_REGISTERS, KN_SCRATCH };
/* A buffer. Dims are physical, row-major, contiguous. LOCAL: private to an outer point of a phase, written before it is
 * read; all others, and no LOCAL one, are GLOBAL. PARTIAL: what pieces have come to, written in the first phase and
 * read in the second; to the plan, an output that nobody reads. */
struct kn_operand {
    enum kn_operand_use use;
    enum kn_operand_space space;
    enum tcc_dtype dtype;
    int rank;
    ir_expr dims[TCC_MAX_RANK];
    const char *name;
};

enum kn_code {
    KN_CONST,       /* fvalue or ivalue, by dtype */
    KN_EXPR,        /* value of integer expression `expr`, converted to dtype (exact for integers) */
    /* operand[index]; where a guard fails or an index is bad: arg 0 (or zero when arg[0] < 0), and nothing is read */
    KN_LOAD,
    KN_STORE,       /* operand[index] = arg 0, where all guards hold and no index is bad */
    /* primitive scalar op `op` of arg 0.. ; for `cast` from arg 0's dtype to dtype, ivalue bit 0: 8-bit floats don't
     * saturate; bits 1, 2: f8e8m0 rounds 0 up, 1 down, 2 to nearest */
    KN_SCALAR,
    /* binds symbol `expr` to integer arg 0 for use in later indexes and guards (gather); negative values get + bound
     * first. Outside [0, bound) it is bad: env->fault is set, and no access happens in whose indexes or guards the
     * symbol stands; elsewhere it is 0. bound may be 0: then each index is bad, but nothing is said of a 0 that stands
     * for a load that did not happen (padding beside what is gathered from nothing) */
    KN_INDEX,
    KN_ENV,         /* what the environment of a run says (struct tcc_env): ivalue KN_SEED, u64, or KN_RUN, i64 */
    KN_REDUCE,      /* combines arg 0 over the stage's inner points by `reducer`; dtype is the accumulator's */
    /* position (i64 arg 1) of the extreme arg 0; reducer MAX or MIN; ivalue 1: the last of equals; -1: of no points.
     * Positions below 0 are those of none */
    KN_ARGREDUCE,
    KN_SCAN,     /* running combination along the stage's one inner dim, in ascending order; ivalue 1: exclusive */
    /* no value: sorts LOCAL row `operand`, ascending (reducer MIN) or descending (MAX), NaN being the largest; the
     * elements of LOCAL i32 row ivalue, which are distinct, move with those of the first, and are ascending among
     * equals. In a stage without inner dims */
    KN_SORT
};
enum kn_env { KN_SEED, KN_RUN };
enum kn_reducer { KN_SUM, KN_PROD, KN_MAX, KN_MIN };

struct kn_guard { ir_expr e, lo, hi; };     /* lo <= e < hi */

/* How a load or store is known to stay inside its operand (kernel_bounds.c). UNKNOWN: nobody has asked yet. */
enum kn_answer { KN_UNKNOWN, KN_PROVED, KN_CHECKED, KN_GUARDED };

/* What sizes must be for an access to stay inside: a <= b in launches that have points there (points > 0). */
struct kn_requirement { ir_expr a, b, points; int operand, axis; };

struct kn_insn {
    uint8_t code;               /* enum kn_code */
    uint8_t dtype;              /* of the value; STORE: of the operand */
    uint8_t reducer;
    uint8_t nargs, nindex, nguards;
    uint8_t answer;             /* LOAD, STORE: enum kn_answer */
    uint16_t op;                /* SCALAR: a primitive enum ir_op of kind MAP */
    int32_t arg[3];             /* earlier instructions of the kernel */
    int32_t operand;
    const ir_expr *index;       /* one per physical axis of the operand */
    const struct kn_guard *guards;
    ir_expr expr, bound;
    double fvalue;
    int64_t ivalue;
    const struct ir_where *from;    /* INDEX: whose it is, for messages; no part of what a kernel is; in no text */
};

/* bit sets of inner kernel dims; instructions [first, last) */
struct kn_stage { uint32_t inner, repeat; int first, last; };

/*
 * How a target runs it: one of the target's templates, and that template's parameters by name. What they mean is the
 * target's, whose table says which there are and whose verify_schedule() (struct pass_machine) checks them. Here they
 * are words and numbers, so that dumps parse with no target at hand, and a text can pin a schedule:
 *     schedule contract(width=16, mr=14, nr=32, kc=256) tile (1, 28)
 */
#define KN_MAX_PARAMS 16
struct kn_param { const char *key; int64_t value; };
struct kn_schedule {
    const char *how;            /* the template's name; NULL: not chosen yet */
    int nparams;
    struct kn_param params[KN_MAX_PARAMS];
    /* The parallel grain, the same for all templates: tile[i] points of outer dim i per tile; 0: all of them. */
    int64_t tile[KN_MAX_DIMS];
};

/* The second phase of a split kernel. */
struct kn_split {
    int combine;                /* its first stage; 0: the kernel has one phase */
    int dim;                    /* the inner dim that is cut */
    ir_expr step;               /* points of a piece */
};

/* A kernel of a user's own device code: a function in the target's language that calls what `file` defines. It has
 * operands, and neither dims nor instructions. Made when code is generated: passes see the call (TCC_STEP_LIB). */
struct kn_custom {
    const char *file, *text;    /* text: @ stands for the function's name */
    int block, shared;          /* threads of a block, bytes of its shared memory */
    bool rows;                  /* tiles are blocks, else points */
};

struct kn_kernel {
    const struct kn_custom *custom;      /* NULL: it is a loop nest */
    const char *name;           /* kind, shape and type, as in contract_f32_1x1000x2048_bias; unique in the program */
    enum ir_kind kind;
    int id;
    int ndims, noperands, ninsns, nstages;
    struct kn_dim *dims;        /* pieces, then outer dims, in loop order */
    struct kn_operand *operands;
    struct kn_insn *insns;
    struct kn_stage *stages;
    int nsizes;                 /* symbols that appear anywhere, in order of first appearance; passed at run time */
    ir_expr *sizes;
    int nrequired;              /* by kn_require() */
    struct kn_requirement *required;
    struct kn_roles roles;
    /* of a contraction: the type that sums of fewer than 256 products may be kept in; TCC_NONE: that of the sum */
    enum tcc_dtype partial;
    /* of a contraction: the type of the MX formats that factors are rounded to, along two dims of the sum, the last
     * of 4 points, or TCC_NONE */
    enum tcc_dtype mx;
    struct kn_split split;
    struct kn_schedule schedule;
    ir_expr tiles;              /* number of tiles, in terms of `sizes`; set with the schedule */
    ir_expr combining;          /* of a split kernel, tiles of the second phase: numbers from `tiles` on */
    ir_expr scratch;            /* bytes per thread */
    ir_expr flops;              /* per launch, for profiles */
    /* only bodies of loops launch it: what it reads may lie in a cache since the iteration before; found when it is
     * scheduled */
    bool looped;
};

/* Is an instruction a cast; what is it a cast of (itself: it is none); is it the load, or a cast of it? */
static inline bool kn_is_cast(const struct kn_insn *n) { return n->code == KN_SCALAR && n->op == IR_cast; }
static inline int kn_uncast(const struct kn_kernel *k, int insn)
{ return kn_is_cast(&k->insns[insn]) ? k->insns[insn].arg[0] : insn; }
static inline bool kn_is_cast_of(const struct kn_kernel *k, int insn, int load)
{ return insn == load || kn_uncast(k, insn) == load; }

/* Is it a load or store of the operand? */
static inline bool kn_accesses(const struct kn_insn *n, int operand)
{ return (n->code == KN_LOAD || n->code == KN_STORE) && n->operand == operand; }
/* What a kernel does (plan/query.c). Has an instruction, of a stage or of all, one of these codes; has an operand one
 * of these uses? They are bits. */
#define KN_BIT(number) (1u << (number))
bool kn_stage_has(const struct kn_kernel *k, const struct kn_stage *s, uint32_t codes);
bool kn_has(const struct kn_kernel *k, uint32_t codes);
bool kn_has_operand(const struct kn_kernel *k, uint32_t uses);
/* The one store to an operand; -1: there is none, or there are several. */
int kn_store_to(const struct kn_kernel *k, int operand);
/* Is there one stage, which has no dims of its own: each point by itself? */
bool kn_is_map(const struct kn_kernel *k);
/* Does an index that is read at run time (KN_INDEX) stand in the expression? */
bool kn_is_gathered(const struct kn_kernel *k, ir_expr e);
/* In its expression, bound, indexes or guards; in the guards alone. */
bool kn_insn_uses(const struct kn_insn *n, ir_expr sym);
bool kn_guards_use(const struct kn_insn *n, ir_expr sym);
/* operand[index] as one number of elements: the sum of index[p] * the product of the later dims (plan/query.c). */
ir_expr kn_flat_offset(struct ir_ctx *ctx, const struct kn_operand *o, const ir_expr *index);

void kn_print_kernel(FILE *out, const struct kn_kernel *k);
bool kn_verify_kernel(struct ir_ctx *ctx, const struct kn_kernel *k);
/*
 * Each access of a kernel has one of three answers (kernel_bounds.c): it is PROVED to be inside its operand at every
 * point that makes it, by what the kernel says and the bounds of its sizes; it is CHECKED: inside exactly where the
 * sizes are as the kernel requires, which a step in front of the launch compares; or GUARDED: it goes through KN_INDEX,
 * or has a guard that says just that, and its other axes have one of the other answers. Sets answers and requirements
 * of a kernel that has no schedule; what neither is proved nor a matter of sizes alone gets such a guard. False, after
 * a diagnostic: there is no room for one. A schedule does not change what is accessed.
 */
bool kn_require(struct ir_ctx *ctx, struct kn_kernel *k);
/* Has each access of such a kernel an answer, the one that it says, if it says one; and does the kernel say all that it
 * requires? */
bool kn_verify_answers(struct ir_ctx *ctx, const struct kn_kernel *k);
/* Products in indexes and guards, at their greatest, that may be more than 64 bits hold: a launch computes them in
 * checked arithmetic (kernel_products.c). */
void kn_each_product(struct ir_ctx *ctx, const struct kn_kernel *k, void (*each)(void *user, ir_expr greatest),
                     void *user);
/* Puts map(user, e) in the place of each expression: extents and what operands and instructions have. Their arrays are
 * made anew; sizes stay. */
void kn_map_exprs(struct ir_ctx *ctx, struct kn_kernel *k, ir_expr (*map)(void *user, ir_expr e), void *user);
/* The same by ir_subst(), of one instruction or of all that a kernel has: from[i], wherever it stands, becomes
 * to[i]. */
void kn_subst_insn(struct ir_ctx *ctx, struct kn_insn *insn, int n, const ir_expr *from, const ir_expr *to);
void kn_subst(struct ir_ctx *ctx, struct kn_kernel *k, int n, const ir_expr *from, const ir_expr *to);
/* Takes dim `d` out of the list, out of the stages' sets, and out of what splits. */
uint32_t kn_without_bit(uint32_t set, int bit);          /* those behind it move down */
void kn_remove_dim(struct kn_kernel *k, int d);
void kn_remove_operand(struct kn_kernel *k, int operand); /* that nothing loads or stores any more */
/* sets sizes: symbols that are neither dims nor indices */
void kn_find_sizes(struct ir_ctx *ctx, struct kn_kernel *k);
uint64_t kn_digest_kernel(const struct kn_kernel *k);        /* equal for kernels that are the same but for names */
/* and but for how they are run: schedule, tiles, scratch */
uint64_t kn_digest_meaning(const struct kn_kernel *k);
/* Runs a kernel by its plain meaning (the level-2 oracle of the tests). args: operand buffers; sizes: values of
 * k->sizes; env: seed and run are read, NULL: zeros. */
int kn_interp_kernel(const struct kn_kernel *k, void *const *args, const int64_t *sizes, const struct tcc_env *env);
/* The same of those outer points alone for which `wanted` holds: it is told the point's number and the element of
 * argument `arg` that is stored there first (-1: none). For kernels whose points have nothing to do with one another,
 * each of which stores something. */
struct kn_sample { bool (*wanted)(void *user, int64_t point, int arg, int64_t element); void *user; };
int kn_interp_sample(const struct kn_kernel *k, void *const *args, const int64_t *sizes, const struct tcc_env *env,
                     const struct kn_sample *s);

/* -- Fusion ---------------------------------------------------------------------------------------
 * Groups of level-1 nodes that become one kernel each: between level 1 and the plan. A group computes `value` and
 * stores it; `root` is the node where it runs, and groups stand in the order in which they run. Moves that are index
 * arithmetic belong to no group: whoever reads them evaluates them. */
enum { KN_MAX_VIEWS = 8 };
/* Stored as operand `piece` of the node of `into` (a concat, an interleave, what a scatter starts from), or, NULL, in a
 * buffer of its own. */
struct kn_result { struct ir_value *value, *into; int piece; };
enum { KN_MAX_RESULTS = 2 };
struct kn_group {
    struct ir_node *root;
    /* First what the anchor's first result that is read becomes by the nodes between it and `root`, or `root`'s value.
     * Then what casts make of the anchor's further results that are read; a cast of the first. */
    struct kn_result results[KN_MAX_RESULTS];
    int nresults;
    /* the CONTRACT, WINDOW, ATTENTION or SORT node that gives the loop nest; NULL: the first result's dims do */
    struct ir_node *anchor;
    bool updates;                /* the updates of a scatter, behind the copy of its data */
    /* what a loop collects, whose element the result is: it is stored in each iteration, at the yield, which is `root`;
     * or NULL. `into` has it through at most KN_MAX_VIEWS moves of one operand each */
    struct ir_value *collects;
    int nnodes, cap;
    struct ir_node **nodes;      /* evaluated in it */
    struct kn_kernel *kernel;    /* from the pass `build` on: */
    struct ir_value **args;      /* one for each operand that is not LOCAL, */
    ir_expr *sizes;              /* and what kernel->sizes are */
};
/* What else stands where it is wanted: operand `piece` of the node of `into` is computed there, although others read it
 * too, or (`stays`) is what a state variable's value has there. Each is decided once, when groups are formed; who comes
 * later reads it here. */
struct kn_place { struct ir_value *into; int piece; bool stays; };
struct kn_places { struct kn_place *at; int n, cap; };
struct kn_fusion { struct kn_group *at; int n, cap; struct kn_places places; };
/* of a function without groups too; false after a diagnostic */
bool kn_verify_fusion(const struct ir_func *f);

/* -- Plan -----------------------------------------------------------------------------------------
 * The in-memory form of abi.h's plan: same steps, spaces, memories and queues, expressions still symbolic, buffers by
 * number. */
/* with the host; host's memory that a device's copies reach where it is */
struct kn_memory { const char *name; bool shared, pinned; };
struct kn_queue { int memory; enum tcc_queue_kind kind; };
struct kn_buffer {
    enum tcc_space space;
    enum tcc_dtype dtype;
    ir_type type;                /* logical */
    kn_layout layout;
    int index;                   /* INPUT, OUTPUT, STATE, ALIAS: as in abi.h */
    int memory;                  /* that of what it is an alias of */
    ir_expr bytes;               /* physical; NULL for objects */
    ir_expr offset;              /* ARENA, WEIGHT, ALIAS */
    const struct ir_tensor *weight;      /* WEIGHT: its physical data */
    uint64_t digest;                     /* of a weight read from text, which does not hold the data; else 0 */
    int first_step, last_step;   /* positions (in the flattened order) of the first write and the last use */
    const char *name;
};

/* A step's access to a state variable: the version that it reads, and the one that it makes; -1: none. 0 is what the
 * run found; each version has a number of its own. An if makes one of those that its branches leave, a loop the one
 * with which each iteration begins. */
struct kn_version { int buffer, reads, makes; };

/* Until the pass `queues`, where all steps are the host's, this marks where communication should have ended that may
 * run beside the steps before: args: the buffers of the step that starts it, nin of them as there. */
#define KN_STEP_WAIT ((enum tcc_step_kind)TCC_NSTEPS)

struct kn_step {
    enum tcc_step_kind kind;
    int queue;
    /* by which waits name the step: a number of its own in the entry point; 0: none waits for it */
    int event;
    struct kn_kernel *kernel;    /* LAUNCH */
    const char *lib;             /* LIB; CALL: of the function, and of its entry point */
    struct ir_func *func;        /* CALL; NULL: of a plan's text without functions */
    int what;                    /* STACK: axis; EVAL: level; COLLECTIVE: which; RESULT: output */
    int nin;                     /* LIB, CALL: inputs among args */
    int micro, peer;             /* of stages' lists: microbatch; SEND, RECV: the other stage */
    const char *group;           /* of ranks, where no attribute names it; NULL: "world" */
    int nargs, nsizes, nsyms, nattrs, nregions, nwaits;
    int *args;                   /* buffers; -1: omitted */
    ir_expr *sizes;
    ir_expr *syms;               /* NULL entries: skip */
    const struct ir_attr *attrs;
    struct kn_region *regions;
    int *waits;                  /* events */
    int nversions;               /* of state variables */
    struct kn_version *versions;
    ir_expr tiles, combining, scratch;   /* LAUNCH: in the function's symbols */
    const char *node;            /* source node names, for profiles */
    const char *op;              /* that node's operator, for messages; NULL: not known, or the node has no name */
    /* LAUNCH: all source nodes that the kernel computes, "conv1 (Conv), relu1 (Relu)", for reports; NULL: not known
     * (plans read from text) */
    const char *sources;
    const char *checks;          /* LAUNCH: struct tcc_pstep's; NULL: all are `node`'s, or not known */
};
struct kn_steps { struct kn_step *at; int n, cap; };
struct kn_region { struct kn_steps steps; int nparams, nresults; int *params, *results, *exits; };

struct kn_entry {
    const char *name;
    struct ir_func *func;
    int ninputs, noutputs;
    int *input_buffers, *output_buffers;
    struct kn_steps steps;
    ir_expr arena;               /* bytes; NULL: sizes are symbolic, and buffers are placed when they are bound */
    ir_expr *arenas;             /* the same of memories 1..; NULL: there are none */
    ir_expr peak_live;           /* lower bound: largest set of bytes live at once, or NULL when symbolic */
};

struct kn_program {
    struct ir_module *module;
    int nkernels; struct kn_kernel **kernels;
    int nbuffers; struct kn_buffer *buffers;
    int nentries; struct kn_entry *entries;
    int nsyms; ir_expr *syms;            /* all symbols, in the order of binding */
    int *sym_level;                      /* level that binds it: 0 inputs, else that of the EVAL after it */
    uint64_t weight_bytes;
    int nmemories; struct kn_memory *memories;   /* 0: the host's only */
    int nqueues; struct kn_queue *queues;        /* 0: the host's program order only */
};
/* plan/query.c */
/* The buffer whose memory this one is a part of: itself, unless it is an alias; < 0 stays. */
int kn_storage(const struct kn_buffer *buffers, int buffer);
/* The weight buffer behind `b` (-1: the first) in the order in which weights lie: what a device reads comes before what
 * only the host reads and first values of state, so that a device with a memory of its own needs the beginning of them.
 * nbuffers: b is the last. */
int kn_next_weight(const struct kn_program *p, int b);
/* which operand a launch's argument is, for arguments leave local ones out; -1: none */
int kn_operand_of(const struct kn_kernel *k, int arg);
int kn_argument_of(const struct kn_kernel *k, int operand);  /* how many arguments stand in front of it */
/* what becomes of argument `arg` in a step; INOUT where the kind does not tell */
enum kn_operand_use kn_use(const struct kn_step *s, int arg);
static inline bool kn_writes(const struct kn_step *s, int arg) { return kn_use(s, arg) != KN_IN; }
static inline bool kn_is_vote(const struct kn_step *s) { return s->kind == TCC_STEP_COLLECTIVE && s->what == TCC_VOTE; }
static inline bool kn_communicates(const struct kn_step *s)
{
    return s->kind == TCC_STEP_COLLECTIVE || s->kind == TCC_STEP_SEND || s->kind == TCC_STEP_RECV;
}
int kn_count_steps(const struct kn_steps *steps);        /* those of regions too */
/* Adds to uses[b] how often buffers with the memory of b are named, by steps and by what regions take and leave. */
void kn_count_uses(const struct kn_buffer *buffers, const struct kn_steps *steps, int *uses);
/* May a device run the two launches as one, in a BATCH step? They are of one kernel, which runs each point by itself,
 * in one queue, each on tensors of its own, of which those that are written are state (plan/batch.c). */
bool kn_may_batch(const struct kn_program *p, const struct kn_step *a, const struct kn_step *b);
/* A PROGRAM or a BATCH: its region's steps stand in its queue, and run once and in their order. */
static inline bool kn_is_bundle(const struct kn_step *s)
{ return s->kind == TCC_STEP_PROGRAM || s->kind == TCC_STEP_BATCH; }
/* May the two loops run at the same time, each on a thread, as regions of a PARALLEL step? They are steps of the host
 * whose bodies are launches and copies, and neither touches what the other writes (plan/parallel.c); kn_independent()
 * says that of any two steps, false where it can't tell. */
bool kn_parallel(const struct kn_program *p, const struct kn_step *a, const struct kn_step *b);
bool kn_independent(const struct kn_program *p, const struct kn_step *a, const struct kn_step *b);
void kn_print_program(FILE *out, const struct kn_program *p, bool kernels, bool plan);
/* Checks that no two buffers that are live at once share memory, and that whatever two steps access is ordered by what
 * happens before what. */
bool kn_verify_program(const struct kn_program *p);
bool kn_verify_sizes(const struct kn_program *p, const struct kn_entry *e);     /* plan/sizes.c, a part of it */
/* Tells of each requirement of a launch, step *at of `steps`, which nothing in front says: f, with the launch's sizes,
 * holds of launches that have points. The steps may get a check in front of it, and *at one more. False: it said so
 * (plan/checks.c). */
typedef bool (*kn_unchecked_fn)(void *user, struct kn_steps *steps, int *at, const struct kn_requirement *r,
    const struct ir_fact *f);
bool kn_each_unchecked(struct ir_ctx *ctx, struct kn_entry *e, kn_unchecked_fn missing, void *user);

/* What happens before what (plan/order.c), by the rules of runtime/abi.h. The walker of an entry point tells its steps
 * as they stand. */
struct kn_order;
struct kn_moment {               /* a step, or the end of a region, where values are handed over */
    int queue, index;            /* the index-th of its queue, from 1 */
    int position;                /* the walker's number for where it stands; never falls */
    int number;                  /* among moments */
    int *known;                  /* by queue: how many of its steps have ended when it begins */
};
/* Lives in `scratch`. nqueues, nevents: room for more than the program has; 0: as many. */
struct kn_order *kn_order_new(struct ir_ctx *ctx, struct ir_arena *scratch, const struct kn_program *p,
                              const struct kn_entry *e, int nqueues, int nevents);
/* before it is told: drops its waits that the place where it stands or its other waits imply */
void kn_order_reduce(struct kn_order *o, struct kn_step *s);
/* NULL: no such queue, or it waits for what does not stand before */
const struct kn_moment *kn_order_step(struct kn_order *o, const struct kn_step *s, int position);
void kn_order_enter(struct kn_order *o, const struct kn_step *s);           /* its next region */
const struct kn_moment *kn_order_leave(struct kn_order *o, const struct kn_step *s, int position);
bool kn_before(const struct kn_moment *a, const struct kn_moment *b);       /* has a ended when b begins? */
/* the step, which has been told, gets that event */
void kn_order_name(struct kn_order *o, int event, const struct kn_moment *m);
/* what a step of that queue that stands here knows, without waits */
int *kn_order_known(struct kn_order *o, int queue);
/* accesses the buffer (no alias), in order */
void kn_order_touch(struct kn_order *o, int buffer, const struct kn_moment *m);
/* behind that position, all steps happen after all that touched it; -1: none has */
int kn_order_until(struct kn_order *o, int buffer);

#include "ir/stages.h"

#endif
