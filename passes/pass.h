/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass.h - the door of passes/: the pass table, the runner, and the pipelines.
 *
 * A pass is a file NAME.c with one function and a row in passes.def. The runner gives each pass, for free: dump
 * before and after, verification, time and node counts, a change limit for bisecting (pass_changed() says whether the
 * next change may be made), and a reproducer when it crashes. order.def holds pairs that must be in that order in
 * every pipeline, with the reason; pipelines.def the pipelines.
 */
#ifndef TCC_PASS_H
#define TCC_PASS_H

#include "ir/ir.h"
#include "passes/attention.h"
#include "passes/composite.h"
#include "passes/cost.h"

/* A kernel that fusion thinks of: would it pay? */
struct pass_fusion {
    const struct ir_node *node;      /* would be evaluated inside it; NULL: only its size is asked about */
    const struct ir_value *result;   /* what it stores */
    const struct ir_node *anchor;    /* the CONTRACT, WINDOW or ATTENTION node whose loop nest it has; NULL: none */
    int instructions;                /* with the node, about */
    int functions;                   /* those of them that are expensive (ir_is_expensive) */
    /* for which it would work out each reduction's elements; sizes that are not known are guessed (struct
     * pass_sizes) */
    double points;
};

/* What passes ask of a machine: questions only, since what answers them (vectors, caches, blocks) is the target's own.
 * Targets (compiler/<target>/) provide one, a larger structure that begins with it; passes/ holds a plain default. All
 * answers must be deterministic functions of their arguments. */
/* A schedule that somebody asked for instead of the machine's choice, for the kernel of that digest (kn_digest_meaning)
 * on machines of that name. */
struct pass_override { const char *arch; uint64_t kernel; struct kn_schedule schedule; };
struct pass_overrides { int n; const struct pass_override *at; };
/* shared: with the host; what lies in one is seen by both */
struct pass_memory { const char *name; bool shared; };
/* What a machine is asked about a convolution. */
enum pass_window {
    PASS_WINDOW_TILE,     /* results along an axis of a tile by Winograd's algorithm; 0: directly */
    PASS_WINDOW_CHANNELS, /* groups of few, constant f32 weights: how many, by zeros between what were groups */
    PASS_WINDOW_PADDED,   /* with padding: does x get its zeros once, in a tensor of its own? */
    PASS_WINDOW_GATHERED  /* steps over points: is x gathered into a tensor of its own? */
};
struct pass_machine {
    const char *name;
    /* The memory in which its kernels work and communication takes place; NULL: the host's. The pass `place` then puts
     * launches and communication, state and weights there. */
    const struct pass_memory *memory;
    /* Can it run that kernel? Else the host does. NULL: all of them. */
    bool (*runs)(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k);
    /* Has it no elements of that type? What has to do with them runs on the host, in kernels of its own. NULL: it has
     * all. */
    bool (*lacks)(const struct pass_machine *m, enum tcc_dtype d);
    /* Can a PROGRAM hold that launch, or that copy within its memory? NULL: all of them. */
    bool (*holds)(const struct pass_machine *m, const struct kn_step *s);
    /* Does it run users' device code (struct ir_custom)? */
    bool customs;
    /* Has it one instruction for GELU, and one for its derivative? */
    bool gelu;
    /* Its kernels don't say which index was bad: the host looks for it in what they read. */
    bool silent;
    /* Layout wanted for operand `operand` of a CONTRACT or WINDOW node (its result when -1); NULL: plain. */
    kn_layout (*layout)(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n, int operand);
    /* Neighbours along the sum that a product of operands in these types takes at a time. 0, 1, or NULL: one. */
    int (*product_group)(const struct pass_machine *m, enum tcc_dtype a, enum tcc_dtype b);
    /* In what form should that convolution be? 0, or NULL: as it is. */
    int64_t (*window)(const struct pass_machine *m, const struct ir_node *n, enum pass_window what);
    /* Is that cast, pad or gathering slice, of which a product's first operand is made, to be stored (a cast by the
     * kernel that computes what it casts, where one does)? Else kernels of products work it out again for each of their
     * tiles. NULL: never. */
    bool (*materialise)(const struct pass_machine *m, const struct ir_node *n);
    /* In what type to multiply what that CONTRACT, WINDOW or ATTENTION node has in a small type. TCC_NONE: as it is;
     * TCC_F32: cast first; TCC_F16: scaled and cast, from a 16-bit type where `reduced` allows sums of products in f16.
     * NULL: all as they are. */
    enum tcc_dtype (*product_type)(const struct pass_machine *m, const struct ir_node *n, bool reduced);
    /* Does it multiply what that matmul rounds to MX formats? 0, or NULL: it is rounded by ops of floats; -1: after a
     * diagnostic. */
    int (*takes_mx)(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n);
    /* Has it a kernel for that result of that ATTENTION or SORT node? NULL: for none; a library op sorts, and attention
     * is spelled out. */
    bool (*takes)(const struct pass_machine *m, const struct ir_node *n, int result);
    /* And for the gradient of that ATTENTION node, and what that reads, so that it should be made of them? NULL: no. */
    bool (*takes_gradient)(const struct pass_machine *m, const struct ir_node *n);
    /* Cycles of a product of bytes, and what they would be if it and what follows were in floats. False, NULL: the node
     * is none. */
    bool (*bytes_cost)(const struct pass_machine *m, const struct ir_node *n, double *bytes, double *floats);
    /* How fast it is; NULL: as a plain machine. */
    const struct pass_cost *(*cost)(const struct pass_machine *m);
    /* Does that fusion, which is legal, pay? It bounds the size of kernels too. NULL: pass_fuse(). */
    bool (*fuse)(const struct pass_machine *m, struct ir_ctx *ctx, const struct pass_fusion *f);
    /* Fills in k->schedule, k->tiles and k->scratch. */
    void (*schedule)(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k);
    /* Is the schedule that k came with (from text) one that the machine can run? Else a diagnostic says why not. */
    bool (*verify_schedule)(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k);
    const char *arch;                        /* its name in tables of schedules; NULL: it is in none */
    /* Gives k, which has this machine's schedule, that template with those parameters (s->tile does not count), and
     * what follows from them. NULL: done; else why it does not take them, and k is as it was. */
    const char *(*override)(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k,
        const struct kn_schedule *s);
    /* The schedules of k that are worth timing, that which it has first; at most `room` > 0. How many there are. */
    int (*candidates)(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k,
        struct kn_schedule *list, int room);
};

/* k, which has the machine's schedule, with what the table says for it; an override that does not fit is a warning. May
 * be called again. False: none was asked for. */
bool pass_override_schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k,
                            const struct pass_overrides *overrides);

/* pass_machine.fuse for machines without one: what the machine's `cost` says. */
bool pass_fuse(const struct pass_machine *m, struct ir_ctx *ctx, const struct pass_fusion *f);

/* Has the convolution any padding? */
bool pass_is_padded(const struct ir_node *n);

/* The kernel with inner dim `dim` cut in that many pieces, a power of two; its partial operands stand behind the
 * others. NULL: it can't be cut so. The pass `split` does it where it pays; for tests. */
struct kn_kernel *pass_split_kernel(struct ir_ctx *ctx, const struct kn_kernel *k, int dim, int64_t pieces);

/* A kernel that scans as two, run one after the other, each with so many pieces of its dim as an outer one. The sums of
 * pieces are the last operand of both; `sums` has k's operands of those numbers in front of it, `scan` all of k's.
 * False: it can't be cut so. */
struct pass_scan { struct kn_kernel *sums, *scan; const int *operands; };
bool pass_split_scan(struct ir_ctx *ctx, const struct kn_kernel *k, int64_t pieces, struct pass_scan *s);

/* What a pass took. before, after: nodes. */
struct pass_timing { const char *name; double ms; int before, after; int64_t changes; };

/* Options of one compilation that passes read. */
struct pass_options {
    int level;                   /* 0..3 */
    bool exact, fast_math;       /* float licence, DESIGN section 5 */
    /* what the backward pass reads lies with the host until then, beside a device with a memory of its own */
    bool offload;
    /* products of small floats may keep sums of fewer than 256 products in f16 (auto-casts, --fast-math) */
    bool reduced;
    bool keep_bytes;             /* constants in bytes are not made floats when compiling, to take less memory */
    const struct pass_machine *machine;      /* NULL: a plain one */
    const struct pass_overrides *overrides; /* schedules asked for; NULL: none */
    /* Runner: */
    const char *const *dump;     /* "before:PASS", "after:PASS", "all", ended by NULL; to dump_to */
    FILE *dump_to;
    bool time_passes;            /* a table to time_to at the end */
    FILE *time_to;
    void (*timed)(void *user, const struct pass_timing *t);  /* called after each pass; NULL: nobody asks */
    void *timed_user;
    bool verify;                 /* after each pass */
    int64_t change_limit;        /* passes stop changing things after so many changes; < 0: no limit */
    int64_t *changes_left;       /* of several lists together, which count it down; NULL: each list has change_limit */
    /* file to write the IR before the running pass and its name into before each pass, removed after a good end; NULL:
     * none */
    const char *reproducer;
    struct ir_beside *beside;    /* where its big constants go; NULL: into it */
    const char *again;           /* the command that goes on from it, but for `--passes=LIST FILE`; NULL: tccc-opt's */
    /* for tests: behind that pass a node's result has a type that the node does not give it; NULL: none */
    const char *damage;
    const char *hang;            /* for tests: that pass does not come back; NULL: none */
    const struct rewrite_watch *rules;       /* for tests (rewrite_int.h); NULL: nobody watches */
};

struct pass_run;                 /* what a running pass gets: module, options, its own parameters, counters */

struct pass {
    const char *name;
    int level;                   /* 1 or 2: which IR level it works on */
    bool (*run)(struct pass_run *r);     /* false after a diagnostic */
    const char *help;
};
const struct pass *pass_table(int *n);

/* The other tables, for documents and tests. */
struct pass_order_row { const char *first, *then, *reason; };
const struct pass_order_row *pass_order_table(int *n);
struct pass_pipeline_row { const char *name, *passes; };
const struct pass_pipeline_row *pass_pipeline_table(int *n);
/* What is wrong with the tables (an unknown pass, a pipeline that breaks an order), or NULL. The text lives in
 * `buffer`. */
const char *pass_tables_error(char *buffer, size_t size);

struct ir_module *pass_module(struct pass_run *r);
struct ir_ctx *pass_ctx(struct pass_run *r);
const struct pass_options *pass_opts(struct pass_run *r);
const char *pass_param(struct pass_run *r, const char *name, const char *otherwise);   /* pass{name=value} */
bool pass_changed(struct pass_run *r);       /* call before each change: false, don't make it (limit reached) */
bool pass_bounded(struct pass_run *r);       /* float licence: may rewrites be *bounded*? (from -O1, unless --exact) */
bool pass_fast(struct pass_run *r);          /* may they be *fast*? (--fast-math) */

/* Replaces symbols by expressions in all types and attributes of a function, and infers its types anew. False after
 * diagnostics. What defined the symbols (inputs' types, a `bind`) is the caller's matter. */
bool pass_substitute(struct ir_func *f, int n, const ir_expr *from, const ir_expr *to);

/* The same in node n of the block and in all behind it (NULL: in the whole block), where nothing is inferred. */
void pass_substitute_from(struct ir_block *b, struct ir_node *n, int nsyms, const ir_expr *from, const ir_expr *to);
/* The same in a type alone; NULL stays NULL. */
ir_type pass_subst_type(struct ir_ctx *ctx, ir_type t, int n, const ir_expr *from, const ir_expr *to);

/* opt/state.c: inputs and outputs become state variables. specs: "INPUT:OUTPUT[,axis=K][,capacity=N]" or
 * "auto[,capacity=N]", ended by NULL; NULL: none. False after a diagnostic. */
bool pass_make_state(struct ir_module *m, const char *const *specs);
/* For front ends, which decide by sizes what they build: the capacity that a spec gives for the input, -1: none; *axis:
 * the one given, or -1. The symbol of a cache's position: at most capacity - 1 when a run begins. */
int64_t pass_state_capacity(struct ir_ctx *ctx, const char *spec, const char *input, int *axis);
ir_expr pass_position_symbol(struct ir_ctx *ctx, ir_expr size, int64_t capacity);

/* Runs a list 'pass,pass{opt=1,opt2=x}', in which a pipeline's name ("O2", "lower") stands for its passes. False after
 * diagnostics. */
bool pass_list(struct ir_module *m, const char *list, const struct pass_options *o);
/* Are the list's passes and pipelines, and those that o's dumps name, all there? False after a diagnostic: a usage
 * error. */
bool pass_check(struct ir_ctx *ctx, const char *list, const struct pass_options *o);

#include "passes/grad/grad.h"
#include "passes/parallel/partition.h"
#include "passes/parallel/stage_order.h"
#include "passes/parallel/tensor.h"
#include "passes/cluster/cluster.h"
#include "passes/train/train.h"

#endif
