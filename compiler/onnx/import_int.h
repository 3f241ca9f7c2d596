/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to compiler/onnx and compiler/pt2: the importer, which turns the structures of onnx_int.h into level-1 IR.
 * compiler/pt2 builds with the same builders.
 *
 * How to add an operator. Write a row in ops.def:
 *
 *     ROW(AI, "Relu", 1, 0, map1, IR_relu)      domain, operator, first and last opset (0: still valid), function,
 *     argument
 *
 * and, unless an existing function fits, `bool onnx_op_NAME(struct imp *im)` in the file of its family
 * (op_*.c). ops.def declares it. The row's argument is im->row->arg. The function reads the node through
 * imp_in/imp_i/imp_ints..., builds IR with the imp_* builders below (they fold constants and follow small integer
 * tensors as dim expressions; do not call ir_build yourself) and ends with `return imp_out(im, 0, value)`.
 *
 *     bool onnx_op_leaky(struct imp *im)
 *     {
 *         struct ir_value *x = imp_in(im, 0);
 *         return imp_out(im, 0, imp_bin(im, IR_leaky_relu, x, imp_like(im, x, imp_f(im, "alpha", 0.01))));
 *     }
 *
 * All builders return NULL after a message and when an operand is NULL, so calls nest; imp_out passes the NULL on as
 * false. What the model does wrong is `return imp_bad(im, "what was expected, what was found")`; what tccc can't do yet
 * is `return imp_unsupported(im, "why")`: those are collected over the whole model and reported together.
 *
 * Operands that shape the result come in three kinds. imp_ints_of: constants only. imp_exprs_of: constants or dim
 * expressions. imp_bound_exprs: those, or else fresh symbols that a `bind` node ties to the run-time values. An operand
 * whose run-time value decides more than sizes (axes, say) goes to a library op: imp_lib().
 */
#ifndef TCCC_ONNX_IMPORT_INT_H
#define TCCC_ONNX_IMPORT_INT_H

#include "compiler/import/frontend.h"
#include "compiler/onnx/onnx_int.h"
#include "ir/ir.h"

#define IMP_MAX_NODES 1000000    /* nodes imported, functions expanded */
#define IMP_MAX_CALLS 64         /* functions inside each other */
#define IMP_MAX_DIM (INT64_C(1) << 40)      /* of sizes and positions that only a run knows */
#define IMP_FOLD_ELEMENTS 65536  /* results up to this size are computed while importing */

struct imp;

struct imp_row {
    const char *domain, *op;
    int since, until;
    bool (*build)(struct imp *im);
    int arg;
    bool any; /* takes operands that are no ranked tensors of numbers */
    bool map; /* elementwise: operands of unknown rank become vectors first */
};

/* Names of one graph (or function body) and where to look next. */
struct imp_scope {
    struct imp_scope *outer;
    uint32_t count, room; /* open addressing; keys are interned */
    const char **keys;
    struct ir_value **values;
};

/* The body of a model-local function being expanded. */
struct imp_call {
    struct imp_call *outer;
    const struct onnx_function *function;
    const struct onnx_node *node;      /* the call */
    struct imp_call *node_call;        /* in which the call's attributes are to be read */
    int depth;
};

struct imp_refusal {
    const char *node, *op, *why;         /* node NULL: it is of the whole model */
    const char *domain;                  /* NULL: the operator is none of ONNX's */
    const char *line;                    /* of the program that was exported; NULL: not recorded */
    int opset;
    bool unknown;                        /* the operator is: one entry for all its nodes */
    int count;                           /* nodes, where it is unknown (imp_list_unknown) */
};

/* A condition on the inputs' sizes that the version being imported takes for granted (version.c). BROADCAST: the one
 * about all sizes that may broadcast; true: they are equal. */
struct imp_fact { enum tcc_guard op; ir_expr a, b; bool truth; const char *node; };
struct imp_joined { ir_expr a, b, both; };
/* A value of unknown rank, and the type that it has with 1s put in front until it has the largest rank that it may have
 * (unranked.c). */
struct imp_padded { const struct ir_value *value; ir_type type; };
/* A sequence or an optional whose items are known (items.c). */
struct imp_items { const struct ir_value *value; int n; struct ir_value **at; };

/* A value whose last axis has a word for each element. */
struct imp_labels { const struct ir_value *value; int n; const char **at; };

/* What imp_check_all() has checked, in which block. */
struct imp_checked { const struct ir_value *v; ir_expr hi; const struct ir_block *block; };

struct imp {
    struct ir_ctx *ctx;
    struct ir_module *module;
    struct ir_func *func;
    struct ir_builder b;
    const struct onnx_model *model;
    const char *path;
    const struct onnx_function **functions;      /* of the model, by name */
    struct ir_file **files;              /* of model->files, opened on first use */
    struct frontend_pins pins;
    struct imp_scope *scope;
    struct imp_call *call;
    const struct onnx_graph *graph;      /* being imported (its value_info helps with unknown ranks) */
    /* The node being imported. */
    const struct onnx_node *node;
    const struct imp_row *row;           /* by which it is built */
    const char *domain;
    int opset;
    struct ir_value **outs;
    const char *(*line)(struct imp *im); /* of models that are no ONNX: a refused node's imp_refusal.line */
    VEC(struct imp_refusal) refusals;
    VEC(struct ir_tensor *) kept;        /* references let go when the import ends */
    uint64_t nodes;                      /* imported so far */
    int stream;                          /* of the next random node */
    bool refused;                        /* the current node was refused */
    bool malformed;                      /* an error says that the file is no model, whatever its sizes */
    bool training;                       /* read for training: floats are state variables (training.c) */
    bool train;                          /* and this function is @train */
    bool infers;                         /* this function infers, whatever its nodes say of training */
    bool exact;                          /* floats that an operator makes bytes at run time stay floats */
    bool sync_bn;                   /* statistics of batches are those of all ranks */
    VEC(const char *) fixed;             /* names of operands that stay constants */
    VEC(const char *) differentiated;    /* names in xs of Gradient nodes */
    bool keeps_weights;                  /* what is computed of matrices of floats is not folded while reading */
    bool frozen;                         /* what is read for training will not be trained itself */
    bool by_binding;                     /* state variables are what the TrainingInfoProto binds */
    VEC(struct imp_fact) facts;          /* of the version being imported */
    bool again;                          /* a fact was added: this import is given up, and begun anew */
    bool one_version;                    /* nothing becomes a fact: dims are not 1, sizes that meet are equal */
    bool joins;                          /* sizes that broadcast may make versions */
    VEC(struct ir_guard) pairs;          /* of sizes met that broadcast */
    VEC(struct imp_checked) checked;
    VEC(struct imp_padded) padded;       /* values of unknown rank whose rank is bounded */
    VEC(struct imp_labels) labels;       /* become the outputs' */
    VEC(struct imp_items) items;         /* of sequences and optionals whose structure is known */
    /* inputs that have initialisers and may be given all the same (defaults.c) */
    VEC(const struct onnx_value_info *) defaults;
    bool given;                          /* this function takes them */
    bool may_fail;                       /* that there is such a function is not asked for */
    VEC(struct imp_joined) joined;       /* pairs of sizes and that of their broadcast, in the function's own block */
};

/* -- The node: operands, results, attributes
 * -------------------------------------------------------------------------------- */

int imp_nin(const struct imp *im);                       /* operands written, "" included */
int imp_nout(const struct imp *im);
bool imp_has(const struct imp *im, int k);               /* is operand k given? */
struct ir_value *imp_in(struct imp *im, int k);          /* operand k; NULL: omitted */
bool imp_wants(const struct imp *im, int k);             /* is result k used by name? */
bool imp_out(struct imp *im, int k, struct ir_value *v); /* sets result k; false if v is NULL */

const struct onnx_attr *imp_attr(struct imp *im, const char *name);   /* NULL: absent */
int64_t imp_i(struct imp *im, const char *name, int64_t otherwise);
double imp_f(struct imp *im, const char *name, double otherwise);
const char *imp_s(struct imp *im, const char *name, const char *otherwise);
const int64_t *imp_ints(struct imp *im, const char *name, int *n);    /* NULL: absent */
const float *imp_floats(struct imp *im, const char *name, int *n);    /* NULL: absent */
const struct onnx_str *imp_strs(struct imp *im, const char *name, int *n);

/* Both return false (as a pointer: use `return imp_bad(...), NULL`). */
bool imp_bad(struct imp *im, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool imp_unsupported(struct imp *im, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* imp_unsupported() for want of a size: which --dim says it, where a and b (either may be NULL) come from the inputs'
 * sizes (version.c). */
bool imp_open_size(struct imp *im, ir_expr a, ir_expr b, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* has the node what its operator needs, nothing that it doesn't have, and values that it takes? (schema.c) */
bool imp_check_schema(struct imp *im);

/* -- Types
 * ----------------------------------------------------------------------------------------------------------------- */

/* Of NULL, what could not be built, -1 and TCC_NONE. */
static inline int imp_rank(const struct ir_value *v) { return v && v->type->kind == IR_T_TENSOR ? v->type->rank : -1; }
static inline enum tcc_dtype imp_dtype(const struct ir_value *v) { return v ? (enum tcc_dtype)v->type->dtype
                                       : TCC_NONE; }
static inline ir_expr imp_dim(const struct ir_value *v, int axis) { return v->type->dim[axis]; }
bool imp_is_float(const struct ir_value *v);
/* Operand k as a ranked tensor that is not a string; otherwise NULL after imp_unsupported or imp_bad. */
struct ir_value *imp_tensor(struct imp *im, int k);
/* Makes `*axis` (maybe negative) 0 .. rank-1, else imp_bad. */
bool imp_axis(struct imp *im, int64_t *axis, int rank);
enum tcc_dtype imp_dtype_of(struct imp *im, int64_t onnx_dtype);       /* TCC_NONE after a message */
ir_type imp_type_of(struct imp *im, const struct onnx_type *t);        /* pinned dims applied; NULL: unknown */
/* the same; unknown dims are called INPUT.AXIS */
ir_type imp_input_type(struct imp *im, const struct onnx_value_info *input);
/* what the graph says about a value; NULL: nothing */
ir_type imp_declared(struct imp *im, const char *name);
/* of result k: its rank and its fixed dims; unranked otherwise */
ir_type imp_declared_result(struct imp *im, int k, enum tcc_dtype dtype);

/* -- Values of operands
 * ---------------------------------------------------------------------------------------------------- */

/* The elements of an integer constant, -1 if it is none or longer than `max`. */
int imp_ints_of(struct imp *im, const struct ir_value *v, int max, int64_t *out);
/* A rank-0 or one-element constant. */
bool imp_scalar_of(const struct ir_value *v, double *out);
/* The elements as expressions (rank 0 or 1); -1 when they are not known now. */
int imp_exprs_of(struct imp *im, const struct ir_value *v, int max, ir_expr *out);
/* The same; what is not known becomes fresh symbols lo..hi bound at run time. -1 after a message. */
int imp_bound_exprs(struct imp *im, struct ir_value *v, int max, int64_t lo, int64_t hi, ir_expr *out);
/* "axes": an attribute up to some opset, operand k later. Returns their number, normalised and ascending; -1: not
 * given; -2: opaque; -3 after a message. */
int imp_axes(struct imp *im, int k, int rank, int64_t *axes);

/* -- Building
 * -------------------------------------------------------------------------------------------------------------- */

struct ir_value *imp_op(struct imp *im, enum ir_op op, int nin, struct ir_value *const *in,
                        const struct ir_attr *attrs);
struct ir_value *imp_un(struct imp *im, enum ir_op op, struct ir_value *x);
struct ir_value *imp_bin(struct imp *im, enum ir_op op, struct ir_value *x, struct ir_value *y);
struct ir_value *imp_tri(struct imp *im, enum ir_op op, struct ir_value *x, struct ir_value *y, struct ir_value *z);
/* takes over the reference; NULL: no memory */
struct ir_value *imp_const(struct imp *im, struct ir_tensor *t);
struct ir_value *imp_num(struct imp *im, enum tcc_dtype dtype, double v);           /* rank 0 */
struct ir_value *imp_int(struct imp *im, enum tcc_dtype dtype, int64_t v);          /* rank 0 */
struct ir_value *imp_like(struct imp *im, const struct ir_value *x, double v);      /* rank 0, x's dtype */
struct ir_value *imp_i64s(struct imp *im, int n, const int64_t *v);                 /* i64[n] */
struct ir_value *imp_dims(struct imp *im, int n, const ir_expr *e);                 /* i64[n] of expressions */
struct ir_value *imp_dim_value(struct imp *im, ir_expr e);                          /* i64[] */
struct ir_value *imp_shape(struct imp *im, const struct ir_value *x);               /* i64[rank] */
struct ir_value *imp_cast(struct imp *im, struct ir_value *x, enum tcc_dtype to);
struct ir_value *imp_reshape(struct imp *im, struct ir_value *x, int rank, const ir_expr *dims);
struct ir_value *imp_transpose(struct imp *im, struct ir_value *x, const int64_t *perm);
struct ir_value *imp_expand(struct imp *im, struct ir_value *x, int rank, const ir_expr *dims);
/* As imp_bound_exprs, of positions along an axis: what lies beyond any size is brought to its end, as Slice's
 * INT64_MAX. */
int imp_clipped_exprs(struct imp *im, struct ir_value *v, int max, ir_expr *out);
/* The run refuses elements of v (rank 0 or 1, of known length) that are not in [lo, hi]. */
bool imp_check_values(struct imp *im, struct ir_value *v, int64_t lo, int64_t hi);
/* The run refuses a v of any shape with an element that is not in [0, hi]: "WHAT is negative", "WHAT is too large". */
bool imp_check_all(struct imp *im, struct ir_value *v, ir_expr hi, const char *what);
/* A fact that the operator's text asks for (struct ir_fact): the run is refused where it does not hold, unless it is
 * known to. */
bool imp_assume(struct imp *im, enum ir_relation relation, ir_expr a, ir_expr b, const char *what,
                ...) __attribute__((format(printf, 5, 6)));
/* v with these dims, which its type says from here on: what is not known to be so is a fact, in what[axis]'s words.
 * NULL: any size. */
struct ir_value *imp_with_dims(struct imp *im, struct ir_value *v, const ir_expr *dims, const char *const *what);
/* Rows of a table by number; a negative one is no row, and does not count from the end. */
struct ir_value *imp_gather_row(struct imp *im, struct ir_value *table, struct ir_value *index);
struct ir_value *imp_slice(struct imp *im, struct ir_value *x, const ir_expr *starts, const ir_expr *sizes,
                           const ir_expr *steps);
/* one axis, step 1 */
struct ir_value *imp_slice1(struct imp *im, struct ir_value *x, int axis, ir_expr start, ir_expr size);
struct ir_value *imp_concat(struct imp *im, int n, struct ir_value *const *in, int axis);
struct ir_value *imp_gather(struct imp *im, struct ir_value *x, struct ir_value *index, int axis);
struct ir_value *imp_gather_elements(struct imp *im, struct ir_value *x, struct ir_value *index, int axis);
struct ir_value *imp_pad(struct imp *im, struct ir_value *x, struct ir_value *fill, const ir_expr *before,
                         const ir_expr *after, const char *mode);
/* axes of the result, ascending */
struct ir_value *imp_unsqueeze(struct imp *im, struct ir_value *x, int n, const int64_t *axes);
struct ir_value *imp_squeeze(struct imp *im, struct ir_value *x, int n, const int64_t *axes);
struct ir_value *imp_to_rank(struct imp *im, struct ir_value *x, int rank);                        /* 1s in front */
/* Reshapes a vector [c] so that it broadcasts along `axis` of rank-`rank` tensors. */
struct ir_value *imp_along(struct imp *im, struct ir_value *x, int axis, int rank);
struct ir_value *imp_reduce(struct imp *im, enum ir_op op, struct ir_value *x, int n, const int64_t *axes, bool keep);
struct ir_value *imp_mean(struct imp *im, struct ir_value *x, int n, const int64_t *axes, bool keep);
/* product of dims, rank 0 */
struct ir_value *imp_count(struct imp *im, const struct ir_value *x, int n, const int64_t *axes, enum tcc_dtype dtype);
struct ir_value *imp_matmul(struct imp *im, struct ir_value *a, struct ir_value *b, bool trans_a, bool trans_b,
                            enum tcc_dtype to);
struct ir_value *imp_iota(struct imp *im, int rank, const ir_expr *dims, int axis, enum tcc_dtype to);
struct ir_value *imp_softmax(struct imp *im, struct ir_value *x, int axis, bool log);
/* Along all axes from `axis` on together. */
struct ir_value *imp_softmax_from(struct imp *im, struct ir_value *x, int axis, bool log);
struct ir_value *imp_splat(struct imp *im, enum tcc_dtype dtype, double v, int rank, const ir_expr *dims);
/* Do operators that make bytes of floats at run time, by their range, do so? Not with --exact and not for training. */
static inline bool imp_quantises(const struct imp *im) { return !im->exact && !im->training; }
/* f16, bf16 and smaller as f32 for computing in; others as they are. */
struct ir_value *imp_wide(struct imp *im, struct ir_value *x);
/* 1 - erf(x), and sqrt(a^2 + b^2) without overflow; of f32 or f64 */
struct ir_value *imp_erfc(struct imp *im, struct ir_value *x);
struct ir_value *imp_hypot(struct imp *im, struct ir_value *a, struct ir_value *b);
/* An activation by ONNX's name (RNN, LSTM, GRU; case-insensitive). NULL after a message. */
int imp_activation_constants(const char *name);      /* how many of alpha and beta it takes */
struct ir_value *imp_activation(struct imp *im, const char *name, struct ir_value *x, double alpha, double beta);

/* A library op: operands (NULL: omitted), output types (symbols that nothing defines are bound to the results' dims),
 * and the ONNX node's own attributes copied (but graphs and types). Returns the node, NULL after a message. */
struct ir_node *imp_lib(struct imp *im, const char *name, int nin, struct ir_value *const *in, int nout,
                        const ir_type *types,
                        const struct ir_attr *more);
/* The same with n attributes of its own, none of the node's. */
struct ir_node *imp_lib_of(struct imp *im, const char *name, int nin, struct ir_value *const *in, int nout,
                           const ir_type *types, int n,
                           const struct ir_attr *own);
/* An attribute of the node as one of a library op's own; false: not of a kind that they take. */
bool imp_user_attr(struct imp *im, const struct onnx_attr *a, struct ir_attr *to);
/* one that the node need not have */
struct ir_attr imp_user_int(struct imp *im, const char *name, int64_t value);
struct ir_attr imp_user_text(struct imp *im, const char *name, const char *value);
/* The node being imported as that library op, with its operands; results become its outputs. False after a message. */
bool imp_lib_node(struct imp *im, const char *name, int nout, const ir_type *types, const struct ir_attr *more);
/* The same for one operand, one result, and n attributes that are integers; none are copied. */
struct ir_value *imp_lib1(struct imp *im, const char *name, struct ir_value *x, ir_type type, int n,
                          const char *const *names,
                          const int64_t *values);
/* A ranked tensor type with fresh symbols where `dims` is NULL or has NULLs. */
ir_type imp_fresh_type(struct imp *im, enum tcc_dtype dtype, int rank, const ir_expr *dims);
/* A size that only the run knows: of that axis of the node's output ("NAME.AXIS"), element k of a tensor of integers
 * ("NAME[K]"). */
ir_expr imp_fresh_dim(struct imp *im, int output, int axis);
ir_expr imp_fresh_element(struct imp *im, const struct ir_value *v, int k, int64_t lo, int64_t hi);
/* A ranked form of an unranked value (object) when its rank is declared; else the value. */
struct ir_value *imp_unbox(struct imp *im, struct ir_value *v, ir_type type);

/* The statistics of a batch that is trained on need more than one value, as in PyTorch: an error where the axes of x
 * have one; where they may have at run time, such a run is refused. False after a message. */
bool imp_check_statistics(struct imp *im, const struct ir_value *x, int n, const int64_t *axes);
/* What a running statistic becomes: as it was where the batch, of `count` values, is empty, as in PyTorch. */
struct ir_value *imp_run_on(struct imp *im, struct ir_value *count, struct ir_value *running, struct ir_value *next);

/* The mean over the ranks that train together (--sync-bn; mode "avg"), or their sum ("sum"); otherwise the value
 * itself. */
struct ir_value *imp_over_ranks(struct imp *im, struct ir_value *x, const char *mode);

/* Shared by families. imp_conv reads the node's window attributes. */
struct ir_value *imp_conv(struct imp *im, struct ir_value *x, struct ir_value *w, struct ir_value *bias,
                          enum tcc_dtype to);
/* likewise */
struct ir_value *imp_average_pool(struct imp *im, struct ir_value *x);
/* likewise */
struct ir_value *imp_max_pool(struct imp *im, struct ir_value *x);
/* x[n, spatial..., c] <-> x[n, c, spatial...]; fewer than 3 dims as they are. */
struct ir_value *imp_channels_first(struct imp *im, struct ir_value *x);
struct ir_value *imp_channels_last(struct imp *im, struct ir_value *x);
/* the node's operands and attributes */
struct ir_value *imp_gemm(struct imp *im);
/* (x - mean) / sqrt(var + epsilon) over `axes`, and x / sqrt(mean(x^2) + epsilon), in the dtype of x; mean and
 * 1/deviation are handed out (may be NULL). */
struct ir_value *imp_normalise(struct imp *im, struct ir_value *x, int n, const int64_t *axes, double epsilon,
                               struct ir_value **mean_out,
                               struct ir_value **inverse_out);
struct ir_value *imp_rms_normalise(struct imp *im, struct ir_value *x, int n, const int64_t *axes, double epsilon,
                                   struct ir_value **inverse_out);
/* NumPy's matmul */
struct ir_value *imp_matmul_nd(struct imp *im, struct ir_value *a, struct ir_value *b, enum tcc_dtype to);
/* A reduction over axes known at run time (opaque.c); *count: elements combined into one, i64[]. */
struct ir_value *imp_reduce_scatter(struct imp *im, struct ir_value *x, struct ir_value *axes, bool keep, enum ir_op op,
                                    struct ir_value **count);

/* -- Graphs (graph.c)
 * -------------------------------------------------------------------------------------------------------- */

/* Appends the nodes of `g` at the builder's point. Its inputs must have been bound (imp_bind_name); results in `outs`
 * (g->output_count; NULL where a refused node left none). False after a message. */
bool imp_graph(struct imp *im, const struct onnx_graph *g, struct ir_value **outs);
void imp_push_scope(struct imp *im, struct imp_scope *s);
void imp_pop_scope(struct imp *im);
void imp_bind_name(struct imp *im, const char *name, struct ir_value *v);
struct ir_value *imp_lookup(struct imp *im, const char *name);           /* NULL: unknown; see imp_poison */
extern struct ir_value imp_poison;                                       /* the result of a refused node */
struct ir_value *imp_tensor_const(struct imp *im, const struct onnx_tensor *t);
/* A sparse tensor made dense. Indices in any order; one out of range, or there twice, is an error. */
struct ir_value *imp_sparse_const(struct imp *im, const struct onnx_sparse *s);
/* Is an initialiser of the main graph something to train? */
bool imp_is_parameter(const struct imp *im, const struct onnx_tensor *t);
/* train_warn.c: warns of a model that was exported for inference. The signs of it, by which each front end's models are
 * judged alike; `made`: products and convolutions whose bias is the exporter's work; `still`: such as only infer. */
struct imp_export_signs {
    int biased, plain, made; /* convolutions with and without a bias */
    int norms, dropouts, still_batch_norms, batch_norms, still_dropouts;
};
void imp_warn_signs(struct imp *im, const struct imp_export_signs *s);
void imp_warn_export(struct imp *im);
/* Reading for training (training.c). An initialiser's value: a constant, or a state variable's. The state variable that
 * v is the value of (NULL: none), a write to one. Notes operands that stay constants; takes away what no function
 * reads. */
struct ir_value *imp_initializer(struct imp *im, const struct onnx_tensor *t);
struct ir_state *imp_state_of(const struct ir_value *v);
bool imp_update_buffer(struct imp *im, struct ir_state *s, struct ir_value *v);
void imp_note_constants(struct imp *im);
/* A TrainingInfoProto (train_info.c): its functions; does it name this initialiser? Notes what Gradient nodes
 * differentiate by. */
bool imp_training_info(struct imp *im, const struct frontend_options *o);
/* Model-local functions (expand.c): to be sorted once, then found by a node that calls one (NULL: none); false, after a
 * message, if they would expand to more than `most` nodes. */
void imp_sort_functions(struct imp *im);
const struct onnx_function *imp_find_function(const struct imp *im, const struct onnx_node *node);
bool imp_check_expansion(struct imp *im, int64_t most);
bool imp_is_bound(const struct imp *im, const char *name);
void imp_note_differentiated(struct imp *im);
/* Initialisers that are inputs (defaults.c): which of them a call may give; a function that takes those; is this one of
 * them? */
bool imp_is_initializer(const struct onnx_graph *g, const char *name);
bool imp_choose_defaults(struct imp *im, const struct frontend_options *o);
bool imp_given(struct imp *im, const struct frontend_options *o, bool (*import)(struct imp *,
               const struct frontend_options *));
bool imp_is_given(const struct imp *im, const char *name);
/* Parameters of im->func for the inputs of the graphs (import.c). */
bool imp_make_inputs(struct imp *im, const struct frontend_options *o, int n, const struct onnx_graph *const *graphs);
void imp_drop_unused_states(struct imp *im);
void imp_report_refusals(struct imp *im);                                         /* one message for all */
/* kept by the importer: ref it to hand it on */
struct ir_tensor *imp_tensor_data(struct imp *im, const struct onnx_tensor *t);
/* takes over the reference until the end */
struct ir_tensor *imp_keep(struct imp *im, struct ir_tensor *t);
/* A user's own operator (op_custom.c); NULL: none of that name is given. */
struct ir_custom *imp_custom(struct ir_ctx *ctx, const char *domain, const char *op);
bool imp_custom_node(struct imp *im, const struct ir_custom *custom);
/* The node's attributes as a library op's own, ended by one without a key; NULL after a message: one is a graph or a
 * type. */
const struct ir_attr *imp_user_attrs(struct imp *im, int *n);
/* Why there is no row for an operator; NULL: there is one. */
const char *imp_unknown_why(struct imp *im, const char *domain, const char *op, int opset);
/* The entry of an operator that is not known; NULL: none yet. */
struct imp_refusal *imp_refusal_of(struct imp *im, const char *domain, const char *op, int opset);
/* Adds what else the model has of such operators to the refusals, and counts their nodes (unknown.c). */
void imp_list_unknown(struct imp *im);
const struct imp_row *imp_find_row(const char *domain, const char *op, int opset, bool *other_version);
/* The node being imported by that row. False after a message. */
bool imp_build_row(struct imp *im, const struct imp_row *row);
/* Its forms for axes known at run time (opaque.c), of n axes that are added. */
bool imp_cumulate_opaque(struct imp *im), imp_pad_opaque(struct imp *im), imp_reduce_opaque(struct imp *im),
    imp_slice_opaque(struct imp *im), imp_squeeze_opaque(struct imp *im), imp_unsqueeze_opaque(struct imp *im, int n);

/* -- Regions that may be wrong (attempt.c)
 * --------------------------------------------------------------------------------------- */

/* What the importer goes back to. */
struct imp_attempt {
    struct ir_attempt errors;
    struct imp_scope *scope;
    struct imp_call *call;
    const struct onnx_graph *graph;
    const struct onnx_node *node;
    const char *domain;
    int opset, nrefusals, npadded;
    struct ir_value **outs;
    struct ir_builder b;
    bool refused, malformed;
};
enum imp_outcome { IMP_FINE, IMP_WRONG, IMP_FAILED };
/* Around the import of a graph into the region that the builder stands in. WRONG: it makes no sense where it stands,
 * the region is empty again; FAILED: nothing helps (the message has been told), or the import begins anew. */
void imp_attempt_begin(struct imp *im, struct imp_attempt *a);
enum imp_outcome imp_attempt_end(struct imp *im, struct imp_attempt *a, bool fine);
void imp_attempt_tell(struct imp *im, const struct imp_attempt *a);        /* its error, as if it had not been tried */
/* n values of these types, of a node in `block` that ends the run with the attempt's error. */
bool imp_attempt_refuse(struct imp *im, const struct imp_attempt *a, struct ir_block *block, int n,
                        const ir_type *types, struct ir_value **outs);

/* -- Shape versions (version.c)
 * ------------------------------------------------------------------------------------------------ */

#define IMP_MAX_VERSIONS 16

/* Does a op b (EQ, LE) hold in this version? False: not known; with `ask`, where it depends on the inputs' sizes only,
 * im->again is set: the caller returns false at once, and is called again knowing it. */
bool imp_holds(struct imp *im, enum tcc_guard op, ir_expr a, ir_expr b, bool ask, bool *truth);
/* Is e, which may be less than 0 where a size of an input is 0, at least 0 in this version? It asks whether they are 0,
 * as imp_holds() does. */
bool imp_unless_empty(struct imp *im, ir_expr e);
/* the same of a bool value */
bool imp_condition(struct imp *im, const struct ir_value *v, bool ask, bool *truth);
/* How two sizes broadcast: as inference says; they are taken to be equal; either may be 1, and imp_join() gives the
 * size of the result (NULL after a message), to which imp_widen() brings an operand. */
enum imp_joining { IMP_AS_EVER, IMP_EQUAL, IMP_EITHER };
enum imp_joining imp_joining(struct imp *im, ir_expr a, ir_expr b);
ir_expr imp_join(struct imp *im, ir_expr a, ir_expr b);
struct ir_value *imp_widen(struct imp *im, struct ir_value *x, int axis, ir_expr to);
/* all that of operands that broadcast, but for the last `but` axes */
bool imp_fit(struct imp *im, int n, struct ir_value **in, int but);
/* facts `N = 1` into the inputs' types and im->pins */
void imp_pin_facts(struct imp *im, int n, ir_type *types);
/* Imports a function by `import` (into im->func), once or as several versions. */
bool imp_versions(struct imp *im, const struct frontend_options *o, const char *name, bool (*import)(struct imp *,
                  const struct frontend_options *));
/* What a module without a step of its own becomes: @main and, where it is to be trained, @train behind it. */
bool imp_main_and_train(struct imp *im, const struct frontend_options *o, bool (*import)(struct imp *,
                        const struct frontend_options *));

/* Integer tensors as expressions (fold.c): the result of `op` on such operands, or NULL when it can't be followed. */
struct ir_value *imp_follow(struct imp *im, enum ir_op op, int nin, struct ir_value *const *in,
                            const struct ir_attr *attrs);

/* For operands of unknown rank or strings: the operator's form as a library op, if it has one (*done). False after a
 * message. */
bool imp_dynamic(struct imp *im, const struct imp_row *row, bool *done);

/* Of an operator that moves strings (strings.c): im->outs[k] has the shape of result k, its elements are bytes. *known
 * false: that can't be told. False after a message. */
bool imp_string_shapes(struct imp *im, const struct imp_row *row, bool *known);

/* Sequences and optionals whose structure is known when compiling (items.c): what v holds, NULL: not known; notes it.
 * An optional holds nothing or one value. */
const struct imp_items *imp_items_of(const struct imp *im, const struct ir_value *v);
bool imp_set_items(struct imp *im, const struct ir_value *v, int n, struct ir_value *const *at);
/* A sequence of those (n > 0); NULL after a message. */
struct ir_value *imp_sequence(struct imp *im, int n, struct ir_value *const *at);

/* Calls an elementwise row on operands some of which have an unknown rank (unranked.c). */
bool imp_map_unranked(struct imp *im, const struct imp_row *row);
bool imp_has_unranked(struct imp *im);
/* The same for one value of unknown rank and a function of tensors. NULL after a message. */
struct ir_value *imp_map1_unranked(struct imp *im, struct ir_value *x, struct ir_value *(*f)(struct imp *im,
                                   struct ir_value *x, int arg), int arg);
/* A tensor of one element, of known or unknown rank, as a scalar. */
struct ir_value *imp_single(struct imp *im, struct ir_value *v);
/* Notes that v, of unknown rank, is of one of two ranked types. */
void imp_note_ranks(struct imp *im, const struct ir_value *v, ir_type a, ir_type b);

/* Rows of libs.def, the argument of rows with function `lib`. */
enum imp_lib_row {
#define LIB(id, name, results) LIB_##id,
#include "compiler/onnx/libs.def"
#undef LIB
};

/* How a node of ONNX's first versions is restated (op_old.c), the argument of rows with function `old`. */
enum imp_old {
    OLD_ALIGNED, OLD_TYPE_BY_NAME, OLD_PADDINGS, OLD_SIZES_AS_VALUES, OLD_TILES, OLD_SCALES, OLD_ROUGH_CONSTANTS
};
enum imp_trial { TRIAL_AFFINE, TRIAL_SOFTPLUS, TRIAL_TANH, TRIAL_SCALE };

#define ROW(domain, op, since, until, function, arg) bool onnx_op_##function(struct imp *im);
#include "compiler/onnx/ops.def"
#undef ROW

#endif
