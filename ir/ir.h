/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ir.h - the door of ir/: the two levels of the intermediate representation.
 *
 *   context      arenas, diagnostics (context.h)
 *   expression   integer arithmetic over named symbols: dims, offsets, access maps (expr.h)
 *   type         element type and dims of a value; sequences and optionals (type.h)
 *   tensor       constant data: owned, splat, or a range of a mapped file (type.h)
 *   module       level 1: functions of SSA nodes over tensors, state variables
 *   text         .tcir: printer and parser, which round-trip
 *   verify, infer, interp
 *   kernel, plan level 2 (kernel.h: included at the end)
 *
 * Everything belongs to a context and dies with it. A context is used by one thread at a
 * time; different contexts are independent. Functions that can meet bad input report a
 * diagnostic in the context and return NULL or false. Running out of memory jumps to the
 * innermost IR_PROTECT (or, with none, ends the process: the compiler always has one).
 */
#ifndef TCC_IR_H
#define TCC_IR_H

#include <string.h>

#include "ir/context.h"
#include "ir/expr.h"
#include "ir/type.h"

/* == Level 1: modules ===================================================================== */

/* What fusion, gradients, planning and targets switch on. */
#define IR_KINDS(X) X(MAP) X(REDUCE) X(SCAN) X(CONTRACT) X(WINDOW) X(ATTENTION) X(RECURRENT) X(SORT) X(MOVE) \
    X(RANDOM) X(UPDATE) X(COLLECTIVE) X(CONTROL) X(LIBRARY) X(SOURCE)
enum ir_kind {
#define X(k) IR_K_##k,
    IR_KINDS(X)
#undef X
    IR_NKINDS
};

/* Ops: ops.def (all but MAP) and scalar.def (MAP: one op per scalar op). Both files say what each op means. */
enum ir_op {
    IR_OP_NONE,
#define OP(name, kind, nmin, nmax, nout, attrs, infer, interp, flags, doc) IR_##name,
#include "ir/ops.def"
#define SCALAR(name, nargs, types, flags, body, doc) IR_##name,
#include "ir/scalar.def"
    IR_NOPS
};

/* Attribute keys: attrs.def. */
enum ir_attr_kind {
    IR_A_INT, IR_A_FLOAT, IR_A_INTS, IR_A_EXPR, IR_A_EXPRS, IR_A_STRING, IR_A_STRINGS, IR_A_FLOATS, IR_A_TENSOR,
    IR_A_DTYPE, IR_A_TYPES
};
enum ir_attr_key {
    IR_ATTR_NONE,
#define ATTR(name, kind, doc) IR_ATTR_##name,
#include "ir/attrs.def"
    IR_NATTRS
};
struct ir_attr {
    uint8_t key, kind;
    int32_t n;                                   /* lists: length */
    const char *name;                            /* key `user`: a library op's own attribute name, else NULL */
    union {
        int64_t i; double f; const char *s; ir_expr e; struct ir_tensor *t; enum tcc_dtype dtype;
        const int64_t *ints; const double *floats; const ir_expr *exprs; const char *const *strings;
        const ir_type *types;
    };
};

enum ir_op_flags {
    IR_F_COMMUTES = 1,       /* first two operands may be swapped, exactly */
    IR_F_EFFECT = 2,         /* ordered: never removed, moved across another effect, or shared */
    IR_F_DEFINES_SYMS = 4,   /* binds symbols that its outputs' types (or attribute `syms`) introduce */
    IR_F_TERMINATOR = 8,
    IR_F_REGIONS = 16,
    IR_F_EXPENSIVE = 32,     /* tens of instructions an element: rather kept than computed twice */
    IR_F_VMATH = 64 | IR_F_EXPENSIVE     /* a function of the targets' vector math */
};

struct ir_node;
struct ir_value;
/* A row of the op table. nin -1: any number; operands may be NULL where `optional` says so (trailing ones are cut). */
struct ir_op_info {
    const char *name;
    enum ir_kind kind;
    int nin_min, nin_max, nout;
    const enum ir_attr_key *attrs;               /* allowed keys, ended by IR_ATTR_NONE */
    /* sets output types from operands and attributes; diagnoses */
    bool (*infer)(struct ir_ctx *ctx, struct ir_node *node);
    int flags;
    const char *doc;
};
const struct ir_op_info *ir_op_info(enum ir_op op);
static inline bool ir_is_expensive(enum ir_op op) { return (ir_op_info(op)->flags & IR_F_EXPENSIVE) != 0; }
static inline bool ir_is_vmath(enum ir_op op) { return (ir_op_info(op)->flags & IR_F_VMATH) == IR_F_VMATH; }
enum ir_op ir_op_by_name(const char *name);      /* IR_OP_NONE: unknown */
const char *ir_attr_name(enum ir_attr_key key);
const char *ir_kind_name(enum ir_kind kind);

/*
 * Custom operators (custom.c): a user's own, that nodes `lib` call by a name with a colon, DOMAIN:NAME. What computes
 * them is given when a model is read (tccc_custom.h); until then, and without, a node is a name.
 */
struct tccc_custom_op;
struct ir_custom {
    const char *name;
    const struct tccc_custom_op *op;     /* stays for as long as the process does */
    const void *origin;                  /* who registered it: the file that it is from */
    const struct tccc_custom_op *device; /* how a GPU launches its device code; NULL: it has none */
    const void *device_origin;
    struct ir_custom *next;              /* in the order of their registration */
};
static inline bool ir_is_custom(const char *lib) { return strchr(lib, ':') != NULL; }
struct ir_custom *ir_custom_add(struct ir_ctx *ctx, const char *name, const struct tccc_custom_op *op,
                                const void *origin);
struct ir_custom *ir_customs(const struct ir_ctx *ctx);                          /* the first; NULL: there is none */
struct ir_custom *ir_custom_find(const struct ir_ctx *ctx, const char *name);
struct ir_node;
/* that a node calls; NULL: none, or it is not registered */
struct ir_custom *ir_custom_of(const struct ir_node *n);
/* Types of the results on operands of types `in` (NULL: omitted) with those of `attrs` whose key is `user`, as its
 * shape() says: sizes that it cannot tell are fresh symbols. NULL after a diagnostic at `where`. */
struct ir_attr;
struct ir_where;
const ir_type *ir_custom_types(struct ir_ctx *ctx, const struct ir_where *where, const struct ir_custom *x, int nin,
                               const ir_type *in,
                               int nattrs, const struct ir_attr *attrs, int nout);

struct ir_use { struct ir_value *value; struct ir_node *user; int index; struct ir_use *next, **prev; };

struct ir_value {
    uint32_t id;                                 /* dense in the function */
    ir_type type;
    struct ir_node *def;                         /* NULL: a block's parameter */
    struct ir_block *block;                      /* that holds it */
    int index;                                   /* among def's outputs or the block's parameters */
    const char *name;                            /* from the source model, may be NULL; not unique */
    /* of its buffer (kernel.h), once the pass `layout` has run; NULL: plain */
    const struct kn_layout *layout;
    struct ir_use *uses;
};

struct ir_node {
    enum ir_op op;
    uint32_t id;                                 /* dense in the function */
    struct ir_block *block;
    struct ir_node *prev, *next;
    int nin, nout, nattrs, nregions;
    struct ir_use *in;                           /* in[i].value; NULL value: omitted optional operand */
    struct ir_value **out;
    struct ir_attr *attrs;
    struct ir_block **regions;                   /* one block each */
    struct ir_where where;                       /* the source model's node */
};

/* A region's one block: parameters, nodes in order; the last node is `yield` (in functions: `return`). */
struct ir_block {
    struct ir_func *func;
    struct ir_node *parent;                      /* NULL: the function's body */
    int nparams;
    struct ir_value **params;
    struct ir_node *first, *last;
};

/*
 * Shape versions: several functions that compute the same thing, each for the sizes that its guards describe. Together
 * they are the entry point `entry`, whose inputs have the types `inputs` (the same in all of them; the guards are about
 * these types' symbols). A call runs the first function, in the module's order, whose guards all hold. Passes treat
 * each as a function of its own.
 */
struct ir_guard { enum tcc_guard op; ir_expr a, b; };
struct ir_version {
    const char *entry;
    int ninputs;
    const ir_type *inputs;
    int nguards;
    const struct ir_guard *guards;
};

/* What a run that ends well leaves in a state variable that has a symbol: that expression's value, over the symbols
 * that are bound when the call begins. A run for which it is outside the symbol's bounds is refused before it
 * begins. */
struct ir_advance { struct ir_state *state; ir_expr to; };

struct ir_func {
    struct ir_module *module;
    const char *name;
    const struct ir_version *version;            /* NULL: the function is an entry point by itself */
    struct ir_block *body;                       /* parameters: the inputs; return's operands: the outputs */
    const char **input_names, **output_names;
    uint32_t nvalues, nnodes;                    /* ids given so far */
    int nadvances;
    struct ir_advance *advances;
    /* which nodes become one kernel (kernel.h), between the passes `fuse` and `steps` */
    struct kn_fusion *fusion;
    struct ir_func *next;
};

/* State that functions read and update: parameters, buffers, optimizer moments, step count. */
enum ir_state_flags {
    IR_STATE_PARAM = 1,
    IR_STATE_BUFFER = 2,
    IR_STATE_OPTIMIZER = 4,
    IR_STATE_GRADIENT = 8,       /* not in checkpoints */
    /* only elements in front of a position that is a state variable too are read before they are written again: a run
     * that fails may leave others changed */
    IR_STATE_CACHE = 16,
    IR_STATE_LOCAL = 32          /* a rank's own: its number in a group; in no checkpoint */
};
/* A variable of which each of `parts` ranks of a group holds a part: its axis consists of `blocks` blocks of equal
 * size, and of each the rank has the part of its number. The variable's type is the part's; its first value is that of
 * the whole. parts 0: the variable is whole. padding: by so many elements of the axis the parts are more than the
 * whole. */
struct ir_shard { const char *group; int axis, parts, blocks; int64_t padding; };
struct ir_state {
    const char *name;
    ir_type type;                                /* static dims */
    struct ir_tensor *init;                      /* NULL: zeros */
    int flags;
    int index;
    int owner_stage;                             /* 0: every rank has it; else 1 + the only stage that does */
    struct ir_shard shard;
    /* i64[]: the symbol that stands for its value when a call begins, in all functions; NULL: none */
    ir_expr sym;
    /* the symbol, 0 or 1, that says whether this rank owns it (is_owner): no other has it; NULL: all have */
    ir_expr owner;
    /* lies with the host where a device has a memory of its own (--offload=optimizer) */
    bool on_host;
    ir_type version;                             /* ir_version_type() */
    struct ir_state *next;
};

/*
 * Inputs that have a value where a call gives none (ONNX: initialisers that are inputs too). The entry point @main
 * takes none of them: their values are constants there. Those with a `value` may be given: @main.given is the same with
 * them as further inputs, in this order, and is what a call that gives any runs. value NULL: @main's constant is all
 * that there is.
 */
#define IR_GIVEN "main.given"
struct ir_default { const char *input; struct ir_tensor *value; };
/* What the elements of a value's last axis stand for, a word each (ONNX: ZipMap's classes, DictVectorizer's keys):
 * of any function's input or output of that name. */
struct ir_labels { const char *output; int n; const char **at; };

/* What an artifact says of itself to whoever asks by that key (tccrt_meta). */
struct ir_meta { const char *key, *value; };

struct ir_module {
    struct ir_ctx *ctx;
    const char *name;                            /* source file, for messages */
    bool text;                                   /* name is that of the .tcir text itself, and not printed */
    struct ir_func *funcs, *last_func;
    struct ir_state *states, *last_state;
    int ndefaults;
    struct ir_default *defaults;
    int nlabels;
    struct ir_labels *labels;
    int nmetas;
    struct ir_meta *metas;
    struct kn_program *program;                  /* level 2, once lowered; see kernel.h */
    /* entry points that run in stages (stages.h); the functions are then parts of them */
    struct kn_staged *staged;
};

struct ir_module *ir_module_new(struct ir_ctx *ctx, const char *name);
struct ir_func *ir_func_new(struct ir_module *m, const char *name);          /* with an empty body */
struct ir_func *ir_func_by_name(struct ir_module *m, const char *name);
/* from its module; lets go of its constants */
void ir_func_remove(struct ir_func *f);
/* the last in its module; no version; NULL after a diagnostic */
struct ir_func *ir_func_clone(const struct ir_func *f, const char *name);
void ir_advance_add(struct ir_func *f, struct ir_state *s, ir_expr to);
/* Versions (version.c): the guards in words, "N = 1, M != 2" ("any size": none); the name of the entry point that f is,
 * or belongs to; the function that a call with these inputs, and state (may be NULL), runs: of an entry point or
 * function of that name, NULL: there is none for these sizes, and `error` says so. */
const char *ir_guards_text(struct ir_ctx *ctx, int n, const struct ir_guard *guards);
const char *ir_entry_name(const struct ir_func *f);
/* the function, or the first of its shape versions */
struct ir_func *ir_entry_by_name(struct ir_module *m, const char *entry);
struct ir_interp_state;
struct ir_func *ir_choose_version(struct ir_module *m, const char *entry, const struct ir_interp_state *state,
                                  struct tcc_object *const *in,
                                  char *error, size_t size);
/* Of inputs of @main and, behind these (`needed`), those that may be given: where some of them are (not NULL or an
 * object of nothing), the others become objects of their own values, the caller's, and IR_GIVEN runs; else "main". */
const char *ir_take_defaults(struct ir_module *m, int needed, struct tcc_object **in);
/* The type of an entry point's result i: the functions' where they agree for all sizes that their guards allow. Dims
 * that differ become symbols (`unknown`), differing ranks an unranked tensor. */
ir_type ir_entry_result(const struct ir_func *f, int i, ir_expr unknown);
/* Takes over the reference to init (NULL: zeros). */
const char *ir_output_name(const struct ir_func *f, int i);                /* "output_I" where the text gives none */
struct ir_state *ir_state_new(struct ir_module *m, const char *name, ir_type type, struct ir_tensor *init, int flags);
struct ir_state *ir_state_by_name(struct ir_module *m, const char *name);
/* takes over the reference (NULL: fixed) */
void ir_default_new(struct ir_module *m, const char *input, struct ir_tensor *value);
void ir_labels_new(struct ir_module *m, const char *output, int n, const char *const *words);
/* in place of what was said under that key */
void ir_meta_new(struct ir_module *m, const char *key, const char *value);
const struct ir_labels *ir_labels_of(const struct ir_module *m, const char *output);       /* NULL: it has none */
/* of all ranks' parts together; else its type */
ir_type ir_state_whole_type(struct ir_ctx *ctx, const struct ir_state *s);
/*
 * Versions of state variables (state.c). A version is a value of the type ir_version_type(): `state_version` gives the
 * one that a call begins with, a `state_write` overwrites a version and gives the next, a `state_read` gives what a
 * version holds, wherever it stands. Ifs and loops hand versions on as they do with other values. A write overwrites
 * the variable's newest version on each way there, and a region that makes one hands it on: then the newest one is what
 * a call leaves, whether it is used or not. The verifier checks it.
 */
ir_type ir_version_type(struct ir_ctx *ctx, struct ir_state *s);
/* of a state_version, state_read or state_write; NULL: n is none */
struct ir_state *ir_state_of(const struct ir_node *n);
/* Makes each `state_version` that stands behind writes the version at its place, which regions hand on where they make
 * one: for who has built accesses with ir_read_state(), ir_write_state(). ir_return() does it. */
void ir_state_versions(struct ir_func *f);
const struct ir_node *ir_outermost(const struct ir_node *n); /* of the function's body: what n stands in, or n */
struct ir_block *ir_region_new(struct ir_func *f, struct ir_node *parent);   /* appended to parent's regions */
struct ir_value *ir_param_new(struct ir_block *b, ir_type type, const char *name);
/* parameter of the body, and its input name */
struct ir_value *ir_input_new(struct ir_func *f, ir_type type, const char *name);

/* Building. ir_build puts a node before the builder's point, sets attributes (ended by an attr with key NONE; may be
 * NULL), infers its types and returns the node, or NULL after a diagnostic. Attribute payloads are copied. */
struct ir_builder {
    struct ir_ctx *ctx;
    struct ir_func *func;
    struct ir_block *block;
    struct ir_node *before;                      /* NULL: at the block's end */
    struct ir_where where;                       /* given to new nodes */
};
struct ir_node *ir_build(struct ir_builder *b, enum ir_op op, int nin, struct ir_value *const *in,
                         const struct ir_attr *attrs);
/* Without inference: output types are given (library ops, control flow, parser). */
struct ir_node *ir_build_typed(struct ir_builder *b, enum ir_op op, int nin, struct ir_value *const *in,
                               const struct ir_attr *attrs,
                               int nout, const ir_type *types);
/* `return` of n values, and the function's output names (NULL: none given). */
struct ir_node *ir_return(struct ir_builder *b, int n, struct ir_value *const *values, const char *const *names);
/* The one-output shorthands; they return NULL after a diagnostic, and when an operand is NULL (so that calls nest). */
struct ir_value *ir_build1(struct ir_builder *b, enum ir_op op, int nin, struct ir_value *const *in,
                           const struct ir_attr *attrs);
struct ir_value *ir_unary(struct ir_builder *b, enum ir_op op, struct ir_value *x);
struct ir_value *ir_binary(struct ir_builder *b, enum ir_op op, struct ir_value *x, struct ir_value *y);
struct ir_value *ir_select(struct ir_builder *b, struct ir_value *which, struct ir_value *x, struct ir_value *y);
struct ir_value *ir_constant(struct ir_builder *b, struct ir_tensor *t);           /* takes over the reference */
struct ir_value *ir_constant_f(struct ir_builder *b, enum tcc_dtype dtype, double v);   /* rank 0 */
struct ir_value *ir_constant_i(struct ir_builder *b, enum tcc_dtype dtype, int64_t v);  /* rank 0 */
/* x itself if it has that dtype */
struct ir_value *ir_cast_to(struct ir_builder *b, struct ir_value *x, enum tcc_dtype to);
struct ir_value *ir_reshape_to(struct ir_builder *b, struct ir_value *x, int rank, const ir_expr *dims);
struct ir_value *ir_transpose_by(struct ir_builder *b, struct ir_value *x, const int64_t *perm);
struct ir_value *ir_expand_to(struct ir_builder *b, struct ir_value *x, int rank, const ir_expr *dims);
struct ir_value *ir_slice(struct ir_builder *b, struct ir_value *x, const ir_expr *starts, const ir_expr *sizes,
                          const ir_expr *steps);
struct ir_value *ir_slice_axis(struct ir_builder *b, struct ir_value *x, int axis, ir_expr start, ir_expr size);
/* With zeros, or with that number; x itself if there is nothing to pad. */
struct ir_value *ir_pad(struct ir_builder *b, struct ir_value *x, struct ir_value *with, const ir_expr *before,
                       const ir_expr *after);
struct ir_value *ir_pad_axis(struct ir_builder *b, struct ir_value *x, struct ir_value *with, int axis, ir_expr before,
                             ir_expr after);
struct ir_value *ir_concat(struct ir_builder *b, int n, struct ir_value *const *in, int64_t axis);
struct ir_value *ir_gather(struct ir_builder *b, struct ir_value *x, struct ir_value *index, int64_t axis);
struct ir_value *ir_iota(struct ir_builder *b, int rank, const ir_expr *dims, int axis, enum tcc_dtype to);
struct ir_value *ir_dim_value(struct ir_builder *b, ir_expr e);                     /* i64, rank 0 */
struct ir_value *ir_reduce(struct ir_builder *b, enum ir_op op, struct ir_value *x, int n, const int64_t *axes,
                           bool keep);
/* Over all axes from `first` on, which go; x itself if it has none. */
struct ir_value *ir_reduce_from(struct ir_builder *b, enum ir_op op, struct ir_value *x, int first);
struct ir_value *ir_matmul(struct ir_builder *b, struct ir_value *x, struct ir_value *y, bool trans_x, bool trans_y,
                           enum tcc_dtype to);
/* Of the version at b's point; see ir_state_versions(). */
struct ir_value *ir_state_version(struct ir_builder *b, struct ir_state *s);
struct ir_value *ir_read_state(struct ir_builder *b, struct ir_state *s);
/* false after a diagnostic, and when v is NULL */
bool ir_write_state(struct ir_builder *b, struct ir_state *s, struct ir_value *v);

struct ir_attr ir_attr_i(enum ir_attr_key key, int64_t v);
struct ir_attr ir_attr_f(enum ir_attr_key key, double v);
struct ir_attr ir_attr_s(enum ir_attr_key key, const char *s);
/* A library op's own, with that name, which stays the caller's: nodes that are built with it intern it. */
struct ir_attr ir_attr_user_i(const char *name, int64_t v);
struct ir_attr ir_attr_user_s(const char *name, const char *s);
struct ir_attr ir_attr_ints(enum ir_attr_key key, int n, const int64_t *v);
struct ir_attr ir_attr_floats(enum ir_attr_key key, int n, const double *v);
struct ir_attr ir_attr_strings(enum ir_attr_key key, int n, const char *const *v);
struct ir_attr ir_attr_e(enum ir_attr_key key, ir_expr e);
struct ir_attr ir_attr_exprs(enum ir_attr_key key, int n, const ir_expr *v);
struct ir_attr ir_attr_dtype(enum ir_attr_key key, enum tcc_dtype d);
struct ir_attr ir_attr_t(enum ir_attr_key key, struct ir_tensor *t);
struct ir_attr ir_attr_types(enum ir_attr_key key, int n, const ir_type *v);
#define IR_ATTRS(...) ((const struct ir_attr[]){__VA_ARGS__, {0}})

const struct ir_attr *ir_attr(const struct ir_node *n, enum ir_attr_key key);       /* NULL: absent */
/* A library op's own attributes, by name. Front ends write lists, text may have single values: a value and a list of
 * one read alike, and integers are numbers too. `otherwise` (lists: 0 elements) where it is absent, empty or of another
 * kind. */
int64_t ir_user_i(const struct ir_node *n, const char *name, int64_t otherwise);
double ir_user_f(const struct ir_node *n, const char *name, double otherwise);
const char *ir_user_s(const struct ir_node *n, const char *name, const char *otherwise);
int ir_user_ints(const struct ir_node *n, const char *name, const int64_t **values);
int ir_user_floats(const struct ir_node *n, const char *name, const double **values);
int64_t ir_get_i(const struct ir_node *n, enum ir_attr_key key, int64_t otherwise);
double ir_get_f(const struct ir_node *n, enum ir_attr_key key, double otherwise);
const char *ir_get_s(const struct ir_node *n, enum ir_attr_key key, const char *otherwise);
/* A copy of all but those of that key, with room for three more; *count: how many there are. */
struct ir_attr *ir_attrs_without(struct ir_ctx *ctx, const struct ir_node *n, enum ir_attr_key key, int *count);
void ir_set_attr(struct ir_node *n, struct ir_attr a);                               /* replaces or adds */

/* Changing the graph. */
void ir_replace_uses(struct ir_value *from, struct ir_value *to);
/* v comes in place of n's only result, with its name, and n goes. False, and nothing, where v is NULL. */
bool ir_replace(struct ir_node *n, struct ir_value *v);
void ir_set_operand(struct ir_node *n, int i, struct ir_value *v);
void ir_add_operand(struct ir_node *n, struct ir_value *v);
/* operands from `at` on move up by one */
void ir_insert_operand(struct ir_node *n, int at, struct ir_value *v);
/* results likewise, and the attribute `types` */
struct ir_value *ir_insert_output(struct ir_node *n, int at, ir_type type);
void ir_drop_operand(struct ir_node *n, int at);
void ir_drop_output(struct ir_node *n, int at);           /* which must be unused */
/* of a region, or of a function whose input_names the caller keeps right; unused */
void ir_drop_param(struct ir_block *b, int at);
void ir_remove(struct ir_node *n);                        /* its outputs must be unused; regions go with it */
void ir_move_before(struct ir_node *n, struct ir_node *before);                      /* NULL: to the end of its block */
bool ir_has_uses(const struct ir_value *v);
bool ir_has_one_use(const struct ir_value *v);
const struct ir_tensor *ir_const_of(const struct ir_value *v);   /* of a `constant` node, else NULL */
bool ir_splat_f(const struct ir_value *v, double *out);          /* a constant whose elements are all equal */
/* Copies a block's nodes but for its terminator (recursively) before b's point. map: value id -> new value, as long as
 * the function has values; entries for parameters are given, those for the copies filled in. results (or NULL): what
 * the terminator's operands became. */
void ir_clone_block(struct ir_builder *b, const struct ir_block *from, struct ir_value **map,
                    struct ir_value **results);

#define IR_EACH_NODE(n, blk) for (struct ir_node *n = (blk)->first; n; n = n->next)

/* == Scalar bodies ==========================================================================
 * scalar.def's rows parsed once: a word is primitive (targets and the interpreter implement it) or an
 * expression over primitives. Read by the interpreter, every target and the gradient pass. */
enum ir_scalar_kind { IR_S_ARG, IR_S_CONST, IR_S_CALL };
/* CALL: op is a primitive scalar op, arg: earlier nodes; ARG: arg[0] = operand number */
struct ir_scalar_node { uint8_t kind; uint16_t op; int16_t arg[3]; double value; };
/* result: the last node */
struct ir_scalar_body { int nargs; bool primitive; int nnodes; const struct ir_scalar_node *nodes; };
const struct ir_scalar_body *ir_scalar_body(enum ir_op map_op);
/* An expression in the language of these bodies (formula.c), over values of any kind: whoever asks makes them. name: of
 * one letter; word: of an op (add, sub, mul, div and neg for + - * / and a minus in front). NULL where an operand of
 * + - * / is, and after what is no expression. */
struct ir_reading {
    void *user;
    void *(*number)(void *user, double v);
    void *(*name)(void *user, char c);
    void *(*apply)(void *user, const char *word, int n, void *const *args);
};
void *ir_read_formula(const struct ir_reading *of, const char *text);

/* The same of values, elementwise, of any words of maps (form.c): operands x y z u v w, in that order; literals and the
 * numbers a b c d are of the type of what they stand beside. NULL where an operand is. */
struct ir_value *ir_formula_of(struct ir_builder *b, const char *text, const double *numbers,
                               struct ir_value *const *operands);
#define IR_NUMBERS(...) ((const double[4]){__VA_ARGS__})
#define ir_formula(b, text, ...) ir_formula_of(b, text, NULL, (struct ir_value *const[6]){__VA_ARGS__})
#define ir_formula_n(b, text, numbers, ...) ir_formula_of(b, text, numbers, (struct ir_value *const[6]){__VA_ARGS__})
/* By builders of one's own: of ops, and of a number of that value's type. */
struct ir_forming {
    void *user;
    struct ir_value *(*op)(void *user, enum ir_op op, int n, struct ir_value *const *in);
    struct ir_value *(*literal)(void *user, const struct ir_value *like, double v);
};
struct ir_value *ir_form(const struct ir_forming *how, const char *text, const double *numbers,
                         struct ir_value *const *operands);

/* == Text, verifier, inference, interpreter ==================================================== */

/* beside.c: the same with big constants in the file `path`, which the text names; each once for all texts. For a
 * process that compiles and ends. */
struct ir_beside;
struct ir_beside *ir_beside_new(struct ir_ctx *ctx, const char *path);
/* b NULL: all is in the text */
void ir_print_module_beside(FILE *out, const struct ir_module *m, struct ir_beside *b);
void ir_print_module(FILE *out, const struct ir_module *m);
/* Text -> module; NULL after diagnostics. Level 2 is parsed too. `name` is used in messages. */
struct ir_module *ir_parse(struct ir_ctx *ctx, const char *name, const char *text, size_t size);
/* Which files a text that is parsed from here on may name as its constants', file(PATH, OFFSET): none (folder NULL, as
 * it is unless somebody says otherwise); those below the text's own folder (""); or below `folder` too. Links are
 * followed; what counts is where the file lies. */
void ir_allow_files(struct ir_ctx *ctx, const char *folder);

/* Checks everything that a pass may rely on; reports IR_BUG diagnostics, returns false if any. */
bool ir_verify(const struct ir_module *m);
/* Recomputes types of all nodes after shapes were pinned or operands changed. */
bool ir_infer_func(struct ir_func *f);
/*
 * Facts: relations of sizes that a node takes for granted (fact.c). `what` says for people what does not hold where the
 * relation doesn't ("the slice reaches beyond axis 0 of its operand"), interned; NULL: sizes that must agree.
 */
enum ir_relation { IR_EQ = TCC_EQ, IR_LE = TCC_LE };
struct ir_fact { enum ir_relation relation; ir_expr a, b; const char *what; };
/* What the types of n's operands and outputs take for granted: calls `each` for every fact that must hold for n to
 * compute what it should and touch its operands only, and that does not hold for all values of the symbols. Types are
 * left as they are. */
void ir_assumptions(struct ir_node *n, void (*each)(void *user, const struct ir_fact *f), void *user);
/* What a shape version's guard says as a fact; false: it is none. */
bool ir_guard_fact(const struct ir_guard *g, struct ir_fact *f);
/* A node that states f, before b's point; false after a diagnostic. */
bool ir_check(struct ir_builder *b, const struct ir_fact *f);
/* Does it hold for all values of the symbols for which the n known ones do? NO: for none. */
enum ir_tri ir_fact_holds(struct ir_ctx *ctx, const struct ir_fact *f, int n, const struct ir_fact *known);

/* Runs function f on tensors (or objects) in plain loops; inputs and outputs are tcc_objects. Dims symbols are bound
 * from the inputs. State variables live in `state` (made by ir_interp_state_new, one per module; NULL if the module has
 * none). Returns a tcc_status; `error` gets a message. Outputs belong to the caller (tccrt_object_unref). */
struct ir_interp_state *ir_interp_state_new(struct ir_module *m);
void ir_interp_state_free(struct ir_interp_state *s);
void ir_interp_state_step(struct ir_interp_state *s, int64_t step);        /* the step count that random ops see next */
/* Called behind each node of a run with this state, for each tensor that it gives: the source model's node and the
 * value's name ("" where there is none), and the tensor, dense, good until the watcher returns. NULL: nobody
 * watches. */
typedef void (*ir_interp_watcher)(void *user, const char *node, const char *value, const struct tcc_tensor *t);
void ir_interp_watch(struct ir_interp_state *s, ir_interp_watcher watcher, void *user);
int ir_interp(struct ir_func *f, struct ir_interp_state *state, struct tcc_object *const *in, struct tcc_object **out,
              char *error, size_t error_size);
/* One node on constant operands, for constant folding: NULL outputs if it can't (no memory, effect, unknown dims). */
bool ir_interp_node(const struct ir_node *n, struct ir_tensor **out);

#include "ir/kernel.h"

#endif
