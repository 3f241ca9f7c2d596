/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lower_int.h - from level 1 to level 2, shared by the files of passes/fuse/, passes/kernel/ and passes/plan/.
 *
 *   passes/lower.c  what all of them ask of the lowering at hand
 *   fuse/group.c    which nodes become one kernel (fusion); kernel/group.c: that kernel
 *   sketch.c   may a node be evaluated in a group's kernel: what the kernel reads, kept as nodes join
 *   profit.c   does that pay
 *   inline.c   builds a kernel backwards from the value that it stores: access maps, bodies, stages
 *   moves.c    moves, as access maps
 *   anchor.c   kernels around a contraction, window or scatter, whose loop nest they prescribe
 *   steps.c    blocks -> plan steps; buffers; control flow; symbols bound while running
 *   attention.c  the kernel of attention
 *   sort.c     the kernel of sort
 *   winograd.c  the kernel of a convolution by Winograd's algorithm
 *   part.c     buffers that are parts of a concat's
 *   update.c   concats that overwrite a part of a state variable's value
 *   scan.c     what loops collect, stored in place
 *   version.c  versions of state variables, for the plan's verifier
 *   elide.c    copies of state variables and carried values that need not be made
 *   weight.c   equal weights are one
 *   chain.c    launches that hand rows on, as one
 *   split.c    which reductions run in pieces; pieces.c: their kernels
 *   fusion.c   the passes layout, fuse and build; groups between passes
 *   lower.c    the passes steps to share
 *   place.c    what lies and runs where
 *   offload.c  what leaves a device's memory for the host's, and comes back
 *   queues.c   which steps run beside each other, and what they wait for
 *   program.c  steps that a device runs as one thing
 *   memory.c   offsets of buffers in the arena
 *
 * A *group* is a root node, whose value is stored, and nodes evaluated inside the same kernel. *Views* (moves, sources)
 * are index arithmetic: any group may evaluate them again. Every other node is evaluated in one group only. A value
 * that is stored in a buffer is *materialised*; reading it is a load.
 */
#ifndef TCC_PASSES_LOWER_LOWER_INT_H
#define TCC_PASSES_LOWER_LOWER_INT_H

#include "passes/pass.h"

struct lw_group {
    /* where in the block the kernel runs; computes the first result, or is what that is stored into */
    struct ir_node *root;
    struct kn_result results[KN_MAX_RESULTS];        /* what the kernel computes and stores: see kn_group */
    int nresults;
    struct ir_node *anchor;          /* gives the loop nest; NULL: the root's dims do */
    struct kn_kernel *kernel;
    struct ir_value **values;        /* per kernel operand; NULL: local */
    ir_expr into_offset[TCC_MAX_RANK];       /* index i of the first result is index i * step + offset of its `into` */
    int64_t into_step[TCC_MAX_RANK];
    ir_expr into_start;              /* where lw->start stands in into_offset: what that is of this group; else NULL */
    bool updates;                    /* the second kernel of a scatter: see lw_build_scatter */
    struct ir_value *collects;       /* what a loop collects, an element of which it stores: see scan.c */
    ir_expr *sizes;                  /* of the launch, where they are not the kernel's own */
    struct kb *sketch;               /* sketch.c; NULL: no node has been tried */
    int number;                      /* 1 + its place in the function's kn_fusion; 0: none */
    int joined;                      /* nodes that have joined it */
};

/* Groups, without order or repetition. */
struct lw_set { struct lw_group **at; int n, cap; };

/* Of a concat or interleave: the groups that store its operands in its buffer (NULL: none does), and, of a concat, the
 * position of each along the axis. Tables by operand; NULL until asked for. Of one that changes a part of a state
 * variable's value, and of such a scatter: that value, and which operands stay where they are (update.c). */
struct lw_pieces { struct lw_group **group; ir_expr *position; struct ir_value *updated; uint32_t stays; };

/* The concat in whose buffer a value lies, as which operand; NULL: it has memory of its own. */
struct lw_part { struct ir_node *concat; int piece; };

/* A weight's buffer, in the list (by hash) of those that begin alike; next: 1 + number of an entry, 0 ends it. */
struct lw_weight { uint64_t beginning; int buffer, next; };
enum { LW_WEIGHT_LISTS = 4096, LW_SUMS = 8 };

struct lw {
    struct ir_ctx *ctx;
    struct pass_run *run;
    const struct pass_options *opts;
    const struct pass_machine *machine;
    struct kn_program *prog;
    struct ir_func *func;
    bool fuse;                       /* -O1 and up */

    /* by value id */
    bool *materialised;               /* lives in a buffer (or object); reading it is a load */
    bool *live_out;                  /* somebody outside kernels reads it */
    kn_layout *layout;
    /* nodes with ids from here on are relayouts that the choice of layouts has made, in front of their readers */
    uint32_t made_from;
    int *buffer;                     /* number in prog->buffers, or -1 */
    /* part.c's answers, and scan.c's: who stores what a loop collects in place; NULL: nobody */
    struct lw_part *part;
    struct lw_group **collected;
    /* by node id */
    /* groups that evaluate it: several where each does; of a view's two at most: what is asked is whether there is one
     * only */
    struct lw_set *in;
    struct lw_set *launches;         /* groups whose kernels run at this node, in order */
    bool *read;                      /* a state_read that has been lowered */
    struct lw_pieces *pieces;        /* of concats and interleaves */

    ir_expr sums[LW_SUMS];           /* stand for sums of sizes in kernels (sums.c); NULL: not used yet */
    /* stands for where a piece starts in kernels that concats of many pieces share; NULL: not used yet */
    ir_expr start;
    /* iteration variables, reused between kernels: vars[position] for an extent */
    VEC(struct { int position; ir_expr extent, var; }) vars;
    VEC(ir_expr) known;              /* symbols that are bound, in order */
    VEC(int) depths;                 /* and the level that binds each */
    int next_level;
    struct kn_steps checks;          /* of sizes that the inputs decide: run first */
    /* that hold at the current point of the plan: guards of the version, what has been checked */
    VEC(struct ir_fact) facts;
    uint32_t value_room, node_room;  /* entries that the tables above have */
    VEC(struct kn_buffer) buffers;
    VEC(struct lw_weight) weights;
    int weight_head[LW_WEIGHT_LISTS];        /* as `next` */
    VEC(struct kn_kernel *) kernels;
    struct kb *builder;              /* build.c: the last kernel's, whose lists have room; NULL: in use, or none yet */
    struct ir_arena *tables;         /* of the tables above */
};

/* -- inline.c: the kernel builder --------------------------------------------------------- */
struct kb_insn { struct kn_insn insn; int stage; };
struct kb_stage { uint32_t inner, repeat; int depth; VEC(int) ids; bool done; int order; };
/* a load, of an anchor's operand: of a node's value that may join */
struct kb_read { const struct ir_value *value; int memo; bool operand; };
struct kb_memo { const void *value; int nidx; const ir_expr *idx; int guards, stage, id; };

struct kb {
    struct lw *lw;
    struct ir_ctx *ctx;
    const struct lw_group *group;
    VEC(struct kn_dim) dims;
    VEC(struct kn_operand) operands;
    VEC(struct ir_value *) values;           /* per operand; NULL: temp */
    VEC(struct kb_insn) insns;               /* by id */
    VEC(struct kb_stage) stages;
    VEC(int) order;                          /* finished stages, in execution order */
    VEC(struct kb_memo) memo;
    VEC(struct { int n; struct kn_guard *at; }) guard_sets;    /* 0 is the empty one */
    int guards;                              /* the current set */
    VEC(struct { ir_expr sym; int stage; }) locals;            /* gather symbols and the stage that binds them */
    uint32_t reduce_outer;                   /* outer dims that the group's reductions depend on, once known */
    bool have_reduce;
    bool operand_only;                       /* inlining an anchor's operand: views only */
    /* what is picked, which need not depend on where, and the KN_INDEX that says so: live with it, since it finds bad
     * indices */
    VEC(struct { int id, index; }) needs;
    bool sketching;                          /* for sketch.c, which alone uses these: */
    VEC(struct kb_read) reads;
    int replaced, functions;                 /* loads that nodes which joined have replaced; expensive instructions */
    struct kn_roles roles;                   /* of the kernel: dims, ids of instructions, stages of this list */
    const char *failed;                      /* why the kernel can't be built so; NULL: fine */
};

void kb_init(struct kb *k, struct lw *lw, const struct lw_group *group);
/* for another kernel: the lists keep their memory */
void kb_reset(struct kb *k, struct lw *lw, const struct lw_group *group);
int kb_dim(struct kb *k, ir_expr extent, enum kn_role role);             /* number of the new dim */
int kb_stage_new(struct kb *k, uint32_t inner);
void kb_stage_end(struct kb *k, int stage);
int kb_insn(struct kb *k, int stage, struct kn_insn insn);              /* id; 0 once failed */
/* The value of `id`, an index of node n's, is `sym`, in [0, bound). */
int kb_index(struct kb *k, int stage, const struct ir_node *n, int id, ir_expr sym, ir_expr bound);
int kb_const(struct kb *k, int stage, enum tcc_dtype dtype, double f, int64_t i);
int kb_expr(struct kb *k, int stage, enum tcc_dtype dtype, ir_expr e);
int kb_env(struct kb *k, int stage, enum kn_env what);
int kb_scalar(struct kb *k, int stage, enum ir_op word, enum tcc_dtype dtype, int nargs, const int *args);
int kb_cast(struct kb *k, int stage, int id, enum tcc_dtype to);
int kb_inside(struct kb *k, int stage, int nguards, const struct kn_guard *guards);   /* bool: all hold */
int kb_push_guards(struct kb *k, int n, const struct kn_guard *guards);  /* returns the set to restore into k->guards */
int kb_load(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx);
/* v's memory with the dims of a reshape */
int kb_load_as(struct kb *k, int stage, struct ir_value *v, ir_type as, const ir_expr *idx);
void kb_store(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx, int id);
/* The value v at logical index idx, in that stage: from its buffer, or evaluated here. */
int kb_value(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx);
/* A move's value there (moves.c). */
int kb_move(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx);
/* Is v evaluated in this kernel (rather than loaded)? In a sketch: is it loaded, and may yet be evaluated here? */
bool kb_is_here(const struct kb *k, const struct ir_value *v);
bool kb_may_join(const struct kb *k, const struct ir_value *v);
/* May instructions of `stage` use instruction id of stage `other`? */
bool kb_usable_from(const struct kb *k, int stage, int other, int id);
/* Index of an operand that broadcasts to rank `rank`. */
void kb_broadcast_index(struct kb *k, const struct ir_value *operand, const ir_expr *idx, int rank, ir_expr *out);
void kb_remember(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx, int id);
void kb_logical_index(struct kb *k, ir_type t, kn_layout l, const ir_expr *physical, ir_expr *logical);
void kb_store_root(struct kb *k, int stage, const struct lw_group *g, const ir_expr *idx);
struct kn_kernel *kb_finish(struct kb *k, struct lw_group *g);           /* NULL: failed */
void lw_settle_roles(struct kn_kernel *k);
int kb_load_of(const struct kb *k, int id);
enum tcc_dtype kb_acc_dtype(enum tcc_dtype d);                           /* accumulator of a reduction over d */
ir_expr lw_iteration_var(struct lw *lw, int position, ir_expr extent);

/* Builds g's kernel; false when the group can't be one kernel (g->kernel stays NULL). */
bool lw_build(struct lw *lw, struct lw_group *g);
bool lw_build_inline(struct kb *k, struct lw_group *g);                    /* inline.c */
/* the same with outer dims for all of the value's */
bool lw_sketch_inline(struct kb *k, struct lw_group *g);
bool lw_build_anchor(struct kb *k, struct lw_group *g);                  /* anchor.c */
bool lw_is_anchor(const struct ir_node *n);
/* the updates; the data has been copied before */
bool lw_build_scatter(struct lw *lw, struct lw_group *g);
/* For anchors' builders. Inner dim of that extent (1 too), added to *set; an operand, by views only, cast to acc; a
 * reduction. */
ir_expr lw_inner_dim(struct kb *k, ir_expr extent, uint32_t *set);
int lw_operand(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx, enum tcc_dtype acc);
int lw_reduce(struct kb *k, int stage, enum kn_reducer r, enum tcc_dtype dtype, int id);
/* The anchor's first result that is read; of how many that is so (1 without an anchor): the group's first results. */
struct ir_value *lw_anchored(const struct lw_group *g);
int lw_nanchored(const struct lw_group *g);
/* Result `which` of the anchor, if it is read, is `id` at idx: stored in that stage, which it ends, the first one as
 * lw_finish() does, others through their casts. */
bool lw_store_result(struct kb *k, const struct lw_group *g, int which, int stage, const ir_expr *idx, int id);
/* Last stage: `acc` is the anchor's first result at idx; cast to its type, then the epilogue, then the store. */
bool lw_finish(struct kb *k, const struct lw_group *g, int stage, const ir_expr *idx, int acc);
/* Follows the anchor's element to the root. */
bool lw_push_to_root(struct kb *k, const struct lw_group *g, const ir_expr *idx, ir_expr *out);
/* Outer dims for the anchor's result. They run over physical axes where the root is stored in the anchor's shape. */
void lw_outer_index(struct kb *k, const struct lw_group *g, ir_expr *idx);
bool lw_build_window(struct kb *k, struct lw_group *g);                  /* window.c */
bool lw_build_winograd(struct kb *k, struct lw_group *g);                /* winograd.c */
bool lw_build_attention(struct kb *k, struct lw_group *g);               /* attention.c */
bool lw_build_sort(struct kb *k, struct lw_group *g);                    /* sort.c */
/* Makes sums of many sizes in g's finished kernel sizes of their own; `sizes`: what its launch gives for k->sizes.
 * Returns what it then gives. */
ir_expr *lw_shorten_sums(struct lw *lw, struct kn_kernel *k, ir_expr *sizes);    /* sums.c */
void lw_collapse(struct lw *lw, struct kn_kernel *k);                    /* collapse.c */
/* Gives each dim the variable of its position and extent: after extents have changed, and so that equal kernels stay
 * equal. */
void lw_rename_dims(struct lw *lw, struct kn_kernel *k);
/* Index of a reshape's other side: of a `to` element, given the index of the `from` element. */
void lw_reshape_index(struct ir_ctx *ctx, ir_type from, ir_type to, const ir_expr *idx, ir_expr *out);

/* -- sketch.c, profit.c ---------------------------------------------------------------------- */
/* Lets n be evaluated in g's kernel, if that is legal and pays. All readers of n are in g. */
bool lw_join(struct lw *lw, struct ir_node *n, struct lw_group *g);
/* The node joins all of the groups or none. */
bool lw_join_all(struct lw *lw, struct ir_node *n, const struct lw_set *groups);
/* recompute.c: the groups that read n's value, where it pays that each works it out: what is read for that is stored
 * anyhow. */
bool lw_recomputes(struct lw *lw, const struct ir_node *n, struct lw_set *readers);
bool lw_worth(const struct lw *lw, const struct pass_fusion *f);

/* -- group.c --------------------------------------------------------------------------------- */
void lw_set_add(struct lw *lw, struct lw_set *s, struct lw_group *g);
/* Where operand `piece` of a concat begins along its axis. */
ir_expr lw_piece_position(struct lw *lw, const struct ir_node *n, int piece);
/* Is n a concat of a value's end and its beginning along an axis, not the last: the value rolled by `shift` of
 * `size`? */
bool lw_is_circular_shift(const struct ir_node *n, int64_t *shift, int64_t *size);
/* Is operand i of n a slice of another value's axis that is whole along the others? Where it starts; NULL: it is
 * not. */
ir_expr lw_whole_slice(const struct ir_node *n, int i, int axis);
bool lw_is_view(const struct ir_node *n);
static inline bool lw_is_reduce(const struct ir_node *n) { return ir_op_info(n->op)->kind == IR_K_REDUCE; }
bool lw_is_kernel_node(const struct ir_node *n);                         /* can be evaluated inside a kernel at all */
bool lw_in_group(const struct lw *lw, const struct ir_node *n, const struct lw_group *g);
void lw_form_groups(struct lw *lw, struct ir_block *block);
/* A new group whose value is stored (NULL: to be said); it is launched where n stands. */
struct lw_group *lw_group_new(struct lw *lw, struct ir_node *root, struct ir_value *value);
void lw_launch_at(struct lw *lw, struct ir_node *n, struct lw_group *g);

/* -- epilogue.c ------------------------------------------------------------------------------ */
/* The group of a contraction or window, with all that its kernel computes behind it. */
void lw_form_anchor(struct lw *lw, struct ir_node *n);
static inline bool lw_joins_pieces(const struct ir_node *n) { return n->op == IR_concat || n->op == IR_interleave; }
struct lw_pieces *lw_pieces_of(struct lw *lw, const struct ir_node *n);  /* groups of its operands */
/* g's value is stored as an operand of n (a concat, an interleave, or what a scatter starts from). */
void lw_place_in(struct lw *lw, struct lw_group *g, const struct ir_node *n, int piece);

/* -- steps.c ---------------------------------------------------------------------------------- */
/* Appends a step; the pointer is good until the next one. */
struct kn_step *lw_push_step(struct ir_ctx *ctx, struct kn_steps *to, struct kn_step s);
struct kn_step *lw_step(struct lw *lw, struct kn_steps *to, enum tcc_step_kind kind, const struct ir_node *n,
                        int nargs, const int *args);
int lw_buffer(struct lw *lw, struct ir_value *v);        /* v's buffer, made when first asked for */
int lw_buffer_new(struct lw *lw, struct kn_buffer b);
/* weight.c: the first buffer of a weight of that type and layout that `same` takes for t, or -1; a new one. */
typedef bool lw_same_weight(const struct lw *lw, const struct kn_buffer *b, const struct ir_tensor *t);
int lw_weight_find(struct lw *lw, ir_type type, kn_layout layout, const struct ir_tensor *t, lw_same_weight *same);
int lw_weight_new(struct lw *lw, struct kn_buffer b);
/* facts.c: checks of what n takes for granted, in `to` or in front of everything; the guards of the function's version
 * as facts; the latter checks first. */
void lw_check(struct lw *lw, struct ir_node *n, struct kn_steps *to);
void lw_know_guards(struct lw *lw);
/* The same of what a kernel requires of its sizes, which have those values in a launch for n. */
/* of a finished plan: what its launches require, and no check says yet */
void lw_require_again(struct lw *lw, struct kn_entry *e);
void lw_require(struct lw *lw, struct ir_node *n, const struct kn_kernel *k, const ir_expr *sizes, struct kn_steps *to);
void lw_checks_first(struct lw *lw, struct kn_steps *steps);
bool lw_lower_block(struct lw *lw, struct ir_block *block, struct kn_steps *to);
void lw_side_tables_grow(struct lw *lw);                 /* after nodes were added to lw->func */
/* Buffers of the function's inputs and of what is computed in place as an output. */
void lw_make_inputs(struct lw *lw, struct kn_entry *e);
void lw_place_outputs(struct lw *lw, struct kn_entry *e);
/* The rest of the entry, once its groups have kernels. */
bool lw_lower_func(struct lw *lw, struct kn_entry *e);
/* Symbols that arrive with a value of that type are bound from here on, at that level. */
void lw_define_symbols(struct lw *lw, ir_type t, int level);
void lw_define_symbol(struct lw *lw, ir_expr sym, int level);
/* The buffer whose memory this one is a part of: itself, unless it is an alias. */
int lw_storage(const struct lw *lw, int buffer);
/* Is memory of that buffer (which is no alias) named by the step, its regions' own lists, or a step inside them? */
bool lw_touches(const struct lw *lw, const struct kn_step *s, int buffer);
/* Do two loads or stores access their operands at the same indexes? */
bool lw_same_index(const struct kn_insn *a, const struct kn_insn *b);
/* merge.c: what fusion of launches asks of each, beside what all its forms do: a kernel that is no user's code, in one
 * phase, nothing of it repeated, and no attention. */
struct lw_fusable {
    bool map;                    /* each point by itself */
    bool known;                  /* its extents are numbers */
    uint32_t codes, uses;        /* what no instruction does, and what no operand is for: bits */
};
bool lw_may_fuse(const struct kn_step *s, const struct lw_fusable *f);
/* merge.c: a launch moves up to the nearest earlier one that it can be one kernel with, within 64 steps, in regions
 * too. */
struct lw_merger {
    struct lw_fusable takes;                     /* the later one */
    /* one of both, in the first one's place; false: they stay apart */
    bool (*join)(struct lw *lw, void *user, struct kn_step *first, const struct kn_step *second);
    void *user;
};
void lw_merge_by(struct lw *lw, struct kn_steps *steps, const struct lw_merger *m);
/* Does the machine take a kernel of that size, with the first one's sizes? */
bool lw_fit_together(const struct lw *lw, const struct kn_step *first, const struct kn_step *second);
/* merge.c: elementwise launches over the same points that share operands become one. */
void lw_merge_launches(struct lw *lw, struct kn_steps *steps);
bool lw_same_shape(const struct kn_operand *a, const struct kn_operand *b);
/* rows.c: of two that chain.c may join: does it pay that a kernel goes on from the numbers that another one's rows come
 * to, where rows are kept in no memory beside the cores? */
bool lw_rows_pay(const struct lw *lw, const struct kn_step *first, const struct kn_step *second);
/* may `later` be moved up across s? */
bool lw_can_hoist(const struct lw *lw, const struct kn_step *later, const struct kn_step *s);
/* multi_tensor.c: updates of state that do the same to each point become launches of one kernel that stand together. */
void lw_join_launches(struct lw *lw, struct kn_steps *steps);
/* parallel.c */
void lw_parallel_loops(struct lw *lw, struct kn_steps *steps);
/* dead.c: takes out the stores to an operand of a kernel, and the operand; args: one for each operand, of which it
 * takes that one out, too. */
void lw_remove_operand(struct kn_kernel *k, int *args, int operand);
/* chain.c: launches that hand rows on, or what rows come to, become one. */
void lw_chain_launches(struct lw *lw, struct kn_entry *e);
/* dead.c: stores that nobody reads, behind merged launches; in the end, buffers of the arena that no step names. */
void lw_drop_dead_stores(struct lw *lw, struct kn_entry *e);
void lw_drop_dead_buffers(struct lw *lw, struct kn_program *p);
/* elide.c: copies that are not needed go: of state variables where they are read (before launches are merged), and
 * where new values of them, or of carried values, are computed. */
void lw_elide_reads(struct lw *lw, struct kn_entry *e);
void lw_elide_writes(struct lw *lw, struct kn_entry *e);
/* pieces.c: can k be cut? Then stages [0, first) reduce over inner dims, all over those of `inner`, and the rest works
 * on what comes of it. Products of at least so many rows and columns can't. */
struct lw_cut { int first; uint32_t inner; };
bool lw_find_cut(const struct kn_kernel *k, int least, struct lw_cut *c);
uint32_t lw_outer_dims(const struct kn_kernel *k);       /* bit set */
double lw_points(const struct kn_kernel *k, uint32_t dims);      /* of those dims, at least 1 */
/* prefix.c: the instruction of a kernel that does nothing but run it along a dim of known extent, which may then be
 * cut; -1: none. */
int lw_find_scan(const struct kn_kernel *k);
/* copy.c: instructions of a kernel in another one that is made of it. */
struct lw_copy {
    struct ir_ctx *ctx;
    const struct kn_kernel *from;
    struct kn_kernel *to;                        /* has room for what is added */
    ir_expr old[KN_MAX_DIMS], new[KN_MAX_DIMS];  /* variables of from's dims; what stands for them */
    int *number;                                 /* of from's instructions in `to`; -1: not there */
};
int lw_copy_add(struct lw_copy *c, struct kn_insn n);                    /* returns its number */
void lw_copy_stage(struct lw_copy *c, uint32_t inner, int first);        /* of what was added from `first` on */
int lw_copy_insn(struct lw_copy *c, int i);                              /* its arguments are there */
int lw_copy_needed(struct lw_copy *c, int i);                            /* with what it needs, unless it is there */
void lw_copy_forget(struct lw_copy *c);                                  /* nothing is there */
/* split.c: reductions and scans with few outer points are cut in pieces. */
void lw_split(struct lw *lw, struct kn_entry *e);
/* version.c: numbers the versions of state variables, in a plan of which only copies access them; a step's entry for a
 * variable, made when first asked for (until the next call); what a launch that joins another accesses. */
void lw_number_versions(struct lw *lw, struct kn_entry *e);
struct kn_version *lw_version(struct lw *lw, struct kn_step *s, int state);
void lw_merge_versions(struct lw *lw, struct kn_step *to, const struct kn_step *from);
/* layout.c: fills in lw->layout; may insert relayout nodes. */
void lw_choose_layouts(struct lw *lw, struct ir_func *f);
bool lw_bound(const struct lw *lw, ir_expr e);           /* are all its symbols bound? */
bool lw_type_bound(const struct lw *lw, ir_type t);
int lw_level(const struct lw *lw, ir_expr e);            /* the level after which it can be evaluated */
/* Binds the symbols that t introduces to the dims of the buffer or object, and evaluates what depends on them. */
void lw_bind_dims(struct lw *lw, struct kn_steps *to, const struct ir_node *n, int buffer, ir_type t);

/* -- control.c: if and loop ------------------------------------------------------------------- */
bool lw_lower_if(struct lw *lw, struct ir_node *n, struct kn_steps *to);
bool lw_lower_loop(struct lw *lw, struct ir_node *n, struct kn_steps *to);

/* -- part.c: values whose buffer is a part of a concat's -------------------------------------- */
/* For `fuse`, when a block begins: which of its values lie in concats' buffers. */
void lw_place_parts(struct lw *lw, struct ir_block *block);
/* The concat in whose buffer v lies, as operand *piece; NULL: v has memory of its own. */
struct ir_node *lw_part_of(const struct lw *lw, const struct ir_value *v, int *piece);
bool lw_is_part(const struct lw *lw, const struct ir_node *n, int piece);
/* The buffer of such a value; the rest of it is as in b. -1: it is none. */
int lw_part_buffer(struct lw *lw, struct ir_value *v, struct kn_buffer b);

/* -- update.c: concats that overwrite a part of a state variable's value ------------------------ */
/* For `fuse`: which of a block's nodes are such. */
void lw_find_updates(struct lw *lw, struct ir_block *block);
/* The value that concat n repeats but for one operand, each other operand in its place; NULL: there is none. It is a
 * state variable's, read in the same block. Is operand `piece` such a repeated part? */
struct ir_value *lw_updated(const struct lw *lw, const struct ir_node *n);
bool lw_is_unchanged(const struct lw *lw, const struct ir_node *n, int piece);
/* Behind the read of v: copies of it for the concats that overwrite a part. */
void lw_copy_updated(struct lw *lw, struct ir_value *v, const struct ir_node *read, struct kn_steps *to);

/* -- scan.c: what loops collect ---------------------------------------------------------------- */
/* For `fuse`: groups for those results of a loop that are stored element by element while it runs, in buffers of their
 * own or as pieces of a concat's (through views). lw->collected keeps them. What is known is what is known when the
 * loop begins. */
void lw_collect_in_place(struct lw *lw, struct ir_node *loop);
bool lw_build_collected(struct kb *k, struct lw_group *g);

/* -- collective.c: communication, and marks where it should have ended -------------------------- */
bool lw_lower_collective(struct lw *lw, struct ir_node *n, struct kn_steps *to);
void lw_place_waits(struct lw *lw, struct kn_steps *steps);             /* as late as they may stand */

/* -- commit.c: moves writes of state behind the last step that may fail ----------------------- */
bool lw_communicates(const struct kn_step *s);
/* For the sake of data or memory, communication aside. */
bool lw_may_fault(const struct kn_step *s);
void lw_commit(struct lw *lw, struct kn_steps *steps);
bool lw_may_fail(const struct kn_step *s);               /* lw_may_fault(), or it is communication */

/* -- lower.c: the passes ------------------------------------------------------------------------ */
/* before a pass; with the module's program, where there is one */
void lw_open(struct lw *lw, struct pass_run *r);
/* call before each change that is not needed: --change-limit */
bool lw_may_change(const struct lw *lw);
void lw_add_kernel(struct lw *lw, struct kn_kernel *k);  /* to the program; names it */
/* -- fusion.c: the function at hand, and its groups as kn_fusion -------------------------------- */
void lw_enter(struct lw *lw, struct ir_func *f);
void lw_leave(struct lw *lw);      /* gives the tables back; whoever enters another function does */
void lw_load_groups(struct lw *lw);

/* -- memory.c: lifetimes, ALLOC and FREE steps, offsets in the arena ---------------------------- */
/* ALLOC and FREE steps; for the pass `queues` */
void lw_release_buffers(struct ir_ctx *ctx, struct kn_program *p, struct kn_entry *e);
bool lw_plan_memory(struct ir_ctx *ctx, struct kn_program *p, struct kn_entry *e);

#endif
