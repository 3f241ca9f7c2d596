/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to compiler/onnx: the importer, which turns the structures of onnx_int.h into level-1 IR, with the builders
 * of compiler/import/import.h.
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

#include "compiler/import/import.h"
#include "compiler/onnx/onnx_int.h"
#include "ir/map.h"

#define IMP_MAX_CALLS 64 /* functions inside each other */

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
    struct ir_map values; /* by interned name */
};

/* The body of a model-local function being expanded. */
struct imp_call {
    struct imp_call *outer;
    const struct onnx_function *function;
    const struct onnx_node *node;      /* the call */
    struct imp_call *node_call;        /* in which the call's attributes are to be read */
    int depth;
};

/* -- The node: operands, results, attributes */

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

/* has the node what its operator needs, nothing that it doesn't have, and values that it takes? (schema.c) */
bool imp_check_schema(struct imp *im);

/* -- Types */

/* Operand k as a ranked tensor that is not a string; otherwise NULL after imp_unsupported or imp_bad. */
struct ir_value *imp_tensor(struct imp *im, int k);
enum tcc_dtype imp_dtype_of(struct imp *im, int64_t onnx_dtype);       /* TCC_NONE after a message */
ir_type imp_type_of(struct imp *im, const struct onnx_type *t);        /* pinned dims applied; NULL: unknown */
/* the same; unknown dims are called INPUT.AXIS */
ir_type imp_input_type(struct imp *im, const struct onnx_value_info *input);
/* what the graph says about a value; NULL: nothing */
ir_type imp_declared(struct imp *im, const char *name);
/* of result k: its rank and its fixed dims; unranked otherwise */
ir_type imp_declared_result(struct imp *im, int k, enum tcc_dtype dtype);

/* -- Values of operands */

/* "axes": an attribute up to some opset, operand k later. Returns their number, normalised and ascending; -1: not
 * given; -2: opaque; -3 after a message. */
int imp_axes(struct imp *im, int k, int rank, int64_t *axes);

/* A library op: operands (NULL: omitted), output types (symbols that nothing defines are bound to the results' dims),
 * and the ONNX node's own attributes copied (but graphs and types). Returns the node, NULL after a message. */
struct ir_node *imp_lib(struct imp *im, const char *name, int nin, struct ir_value *const *in, int nout,
                        const ir_type *types,
                        const struct ir_attr *more);
/* The node's attributes as a library op's own, but graphs and types. */
const struct ir_attr *imp_words(struct imp *im, int *n);
/* An attribute of the node as one of a library op's own; false: not of a kind that they take. */
bool imp_user_attr(struct imp *im, const struct onnx_attr *a, struct ir_attr *to);
/* The node being imported as that library op, with its operands; results become its outputs. False after a message. */
bool imp_lib_node(struct imp *im, const char *name, int nout, const ir_type *types, const struct ir_attr *more);

/* x as elements of another type, strings included, is result 0. */
bool imp_out_as(struct imp *im, struct ir_value *x, enum tcc_dtype to);

/* The transform of x[.., 1 or 2] along an axis, and its inverse; of real numbers, half of it (op_signal.c). */
struct ir_value *imp_transform(struct imp *im, struct ir_value *x, int axis, bool inverse, bool real);
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
/* What the attribute rotary_embedding_dim says of imp_rotate()'s `turned`. */
ir_expr imp_turned(struct imp *im);
/* the node's operands and attributes */
struct ir_value *imp_gemm(struct imp *im);
/* A reduction over axes known at run time (opaque.c); *count: elements combined into one, i64[]. */
struct ir_value *imp_reduce_scatter(struct imp *im, struct ir_value *x, struct ir_value *axes, bool keep, enum ir_op op,
                                    struct ir_value **count);

/* -- Graphs (graph.c) */

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
void imp_warn_export(struct imp *im);
/* Reading for training (training.c). An initialiser's value: a constant, or a state variable's. A write to one. Notes
 * operands that stay constants. */
struct ir_value *imp_initializer(struct imp *im, const struct onnx_tensor *t);
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
/* kept by the importer: ref it to hand it on */
struct ir_tensor *imp_tensor_data(struct imp *im, const struct onnx_tensor *t);
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

/* -- Regions that may be wrong (attempt.c) */

/* What the importer goes back to. */
struct imp_attempt {
    struct ir_attempt errors;
    struct imp before;
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

/* For operands of unknown rank or strings: the operator's form as a library op, if it has one (*done). False after a
 * message. */
/* A list whose length, the rank of what has its elements as dims, is known only at run time. */
bool imp_open_list(const struct ir_value *v);
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
};

/* How a node of ONNX's first versions is restated (op_old.c), the argument of rows with function `old`. */
enum imp_old {
    OLD_ALIGNED, OLD_TYPE_BY_NAME, OLD_PADDINGS, OLD_SIZES_AS_VALUES, OLD_TILES, OLD_SCALES, OLD_ROUGH_CONSTANTS
};
enum imp_trial { TRIAL_AFFINE, TRIAL_SOFTPLUS, TRIAL_TANH, TRIAL_SCALE };

#define ROW(domain, op, since, until, function, arg) bool onnx_op_##function(struct imp *im);
#include "compiler/onnx/ops.def"

#endif
