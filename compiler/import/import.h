/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import.h - what front ends stand on (compiler/onnx, compiler/pt2): builders of level-1 IR that fold constants and
 * follow small integer tensors as dim expressions, sizes that become facts or shape versions, messages, and what
 * several front ends call by different names: normalisations, losses, windows, products.
 *
 * All builders return NULL after a message and when an operand is NULL, so calls nest. What the model does wrong is
 * `return imp_bad(im, "what was expected, what was found")`; what tccc can't do yet is `return imp_unsupported(im,
 * "why")`: those are collected over the whole model and reported together.
 */
#ifndef TCC_IMPORT_H
#define TCC_IMPORT_H

#include "compiler/import/frontend.h"
#include "ir/ir.h"

#define IMP_MAX_NODES 1000000          /* nodes imported, functions expanded */
#define IMP_MAX_DIM (INT64_C(1) << 40) /* of sizes and positions that only a run knows */
#define IMP_FOLD_ELEMENTS 65536        /* results up to this size are computed while importing */

struct imp;

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
    const char *path;
    struct frontend_pins pins;
    /* What the front end says of the node being imported (either may be NULL): the line of the program that it is from,
     * the name of its result k. */
    const char *(*line)(struct imp *im);
    const char *(*result)(const struct imp *im, int k);
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
    bool keeps_weights;                  /* what is computed of matrices of floats is not folded while reading */
    bool frozen;                         /* what is read for training will not be trained itself */
    VEC(struct imp_fact) facts;          /* of the version being imported */
    bool again;                          /* a fact was added: this import is given up, and begun anew */
    bool one_version;                    /* nothing becomes a fact: dims are not 1, sizes that meet are equal */
    bool joins;                          /* sizes that broadcast may make versions */
    VEC(struct ir_guard) pairs;          /* of sizes met that broadcast */
    VEC(struct imp_checked) checked;
    bool may_fail;                       /* that there is such a function is not asked for */
    VEC(struct imp_joined) joined;       /* pairs of sizes and that of their broadcast, in the function's own block */
    /* The ONNX reader's own (compiler/onnx). */
    const struct onnx_model *model;
    const struct onnx_function **functions; /* of the model, by name */
    struct ir_file **files;              /* of model->files, opened on first use */
    struct imp_scope *scope;
    struct imp_call *call;
    const struct onnx_graph *graph;      /* being imported (its value_info helps with unknown ranks) */
    const struct onnx_node *node;        /* being imported */
    const struct imp_row *row;           /* by which it is built */
    const char *domain;
    int opset;
    struct ir_value **outs;
    VEC(const char *) fixed;             /* names of operands that stay constants */
    VEC(const char *) differentiated;    /* names in xs of Gradient nodes */
    bool by_binding;                     /* state variables are what the TrainingInfoProto binds */
    VEC(struct imp_padded) padded;       /* values of unknown rank whose rank is bounded */
    VEC(struct imp_labels) labels;       /* become the outputs' */
    VEC(struct imp_items) items;         /* of sequences and optionals whose structure is known */
    /* inputs that have initialisers and may be given all the same (defaults.c) */
    VEC(const struct onnx_value_info *) defaults;
    bool given;                          /* this function takes them */
};

/* -- Messages (refuse.c) */

/* Both return false (as a pointer: use `return imp_bad(...), NULL`). */
bool imp_bad(struct imp *im, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool imp_unsupported(struct imp *im, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* imp_unsupported() for want of a size: which --dim says it, where a and b (either may be NULL) come from the inputs'
 * sizes (version.c). */
bool imp_open_size(struct imp *im, ir_expr a, ir_expr b, const char *format, ...) __attribute__((format(printf, 4, 5)));

void imp_report_refusals(struct imp *im); /* one message for all */
/* What a table says of operators of such names, patterns that blanks separate: the first that fits. NULL: none. */
struct imp_saying { const char *patterns, *words; };
const char *imp_said_of(struct imp *im, size_t n, const struct imp_saying *list, const char *name);

/* Warns of a model that was exported for inference. The signs of it, by which each front end's models are
 * judged alike; `made`: products and convolutions whose bias is the exporter's work; `still`: such as only infer. */
struct imp_export_signs {
    int biased, plain, made; /* convolutions with and without a bias */
    int norms, dropouts, still_batch_norms, batch_norms, still_dropouts;
};
void imp_warn_signs(struct imp *im, const struct imp_export_signs *s);

/* -- Types */

/* Of NULL, what could not be built, -1 and TCC_NONE. */
static inline int imp_rank(const struct ir_value *v) { return v && v->type->kind == IR_T_TENSOR ? v->type->rank : -1; }
static inline enum tcc_dtype imp_dtype(const struct ir_value *v) { return v ? (enum tcc_dtype)v->type->dtype
                                       : TCC_NONE; }
static inline ir_expr imp_dim(const struct ir_value *v, int axis) { return v->type->dim[axis]; }
bool imp_is_float(const struct ir_value *v);
/* The axes from `first` on: their number. */
static inline int imp_axes_from(int first, int rank, int64_t *axes)
{
    for (int k = first; k < rank; k++)
        axes[k - first] = k;
    return rank - first;
}
/* Makes `*axis` (maybe negative) 0 .. rank-1, else imp_bad. */
bool imp_axis(struct imp *im, int64_t *axis, int rank);

/* -- Values of operands */

/* The elements of an integer constant, -1 if it is none or longer than `max`. */
int imp_ints_of(struct imp *im, const struct ir_value *v, int max, int64_t *out);
/* A rank-0 or one-element constant. */
bool imp_scalar_of(const struct ir_value *v, double *out);
/* The elements as expressions (rank 0 or 1); -1 when they are not known now. */
int imp_exprs_of(struct imp *im, const struct ir_value *v, int max, ir_expr *out);
/* The same; what is not known becomes fresh symbols lo..hi bound at run time. -1 after a message. */
int imp_bound_exprs(struct imp *im, struct ir_value *v, int max, int64_t lo, int64_t hi, ir_expr *out);

/* -- Building */

struct ir_value *imp_op(struct imp *im, enum ir_op op, int nin, struct ir_value *const *in,
                        const struct ir_attr *attrs);
struct ir_value *imp_un(struct imp *im, enum ir_op op, struct ir_value *x);
struct ir_value *imp_bin(struct imp *im, enum ir_op op, struct ir_value *x, struct ir_value *y);
/* x op v, in the type of x */
struct ir_value *imp_with(struct imp *im, enum ir_op op, struct ir_value *x, double v);
struct ir_value *imp_tri(struct imp *im, enum ir_op op, struct ir_value *x, struct ir_value *y, struct ir_value *z);
/* x where c is true, else y */
struct ir_value *imp_select(struct imp *im, struct ir_value *c, struct ir_value *x, struct ir_value *y);
/* An elementwise formula in the language of ir/scalar.def's bodies, of any of its words: operands x y z u v w, in that
 * order; literals are of the type of what they stand beside. With numbers, too (a b c d): IMP_NUMBERS(...). */
struct ir_value *imp_formula_of(struct imp *im, const char *text, const double *numbers,
                                struct ir_value *const *operands);
#define imp_formula(im, text, ...) imp_formula_of(im, text, NULL, (struct ir_value *const[6]){__VA_ARGS__})
#define imp_formula_n(im, text, numbers, ...) \
    imp_formula_of(im, text, numbers, (struct ir_value *const[6]){__VA_ARGS__})
#define IMP_NUMBERS IR_NUMBERS
/* A region of the node, in which is built until it is closed; what it gives. */
struct ir_block *imp_open_region(struct imp *im, struct ir_node *parent, struct ir_builder *saved);
void imp_close_region(struct imp *im, const struct ir_builder *saved);
bool imp_yield(struct imp *im, size_t n, struct ir_value *const *v);
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
/* An index that may not count from the end (base/index.h). NULL operand: NULL. */
struct ir_value *imp_from_zero(struct imp *im, struct ir_value *index);
struct ir_value *imp_pad(struct imp *im, struct ir_value *x, struct ir_value *fill, const ir_expr *before,
                         const ir_expr *after, const char *mode);
/* axes of the result, ascending */
struct ir_value *imp_unsqueeze(struct imp *im, struct ir_value *x, int n, const int64_t *axes);
struct ir_value *imp_squeeze(struct imp *im, struct ir_value *x, int n, const int64_t *axes);
struct ir_value *imp_to_rank(struct imp *im, struct ir_value *x, int rank);                        /* 1s in front */
/* Reshapes a vector [c] so that it broadcasts along `axis` of rank-`rank` tensors. */
struct ir_value *imp_along(struct imp *im, struct ir_value *x, int axis, int rank);
struct ir_value *imp_reduce(struct imp *im, enum ir_op op, struct ir_value *x, int n, const int64_t *axes, bool keep);
/* of all elements */
struct ir_value *imp_reduce_all(struct imp *im, enum ir_op op, struct ir_value *x);
struct ir_value *imp_mean(struct imp *im, struct ir_value *x, int n, const int64_t *axes, bool keep);
/* log(sum(exp(x))) without overflow: the maximum is taken out; an infinite one would give NaN and counts as 0. */
struct ir_value *imp_log_sum_exp(struct imp *im, struct ir_value *x, int n, const int64_t *axes, bool keep);
/* Values and places of the k largest, or smallest, along an axis. NULL after a message. */
struct ir_node *imp_topk(struct imp *im, struct ir_value *x, int64_t axis, ir_expr k, bool largest, bool sorted);
/* product of dims, rank 0 */
struct ir_value *imp_count(struct imp *im, const struct ir_value *x, int n, const int64_t *axes, enum tcc_dtype dtype);
struct ir_value *imp_matmul(struct imp *im, struct ir_value *a, struct ir_value *b, bool trans_a, bool trans_b,
                            enum tcc_dtype to);
struct ir_value *imp_iota(struct imp *im, int rank, const ir_expr *dims, int axis, enum tcc_dtype to);
/* Of a matrix of these two dims: each element's column - row, compared with k (i64, rank 0). */
struct ir_value *imp_band(struct imp *im, enum ir_op compare, const ir_expr *dims, struct ir_value *k);
struct ir_value *imp_softmax(struct imp *im, struct ir_value *x, int axis, bool log);
/* 0 where all along the axis is -inf (attention.c). */
struct ir_value *imp_safe_softmax(struct imp *im, struct ir_value *x, int axis);
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

/* takes over the reference until the end */
struct ir_tensor *imp_keep(struct imp *im, struct ir_tensor *t);
/* A library op: operands (NULL: omitted), output types (symbols that nothing defines are bound to the results' dims), n
 * attributes of its own. Returns the node, NULL after a message. */
struct ir_node *imp_lib_of(struct imp *im, const char *name, int nin, struct ir_value *const *in, int nout,
                           const ir_type *types, int n,
                           const struct ir_attr *own);
/* The same of one result, which it returns. */
struct ir_value *imp_lib_value(struct imp *im, const char *name, int nin, struct ir_value *const *in, ir_type type,
                               int n, const struct ir_attr *own);
/* Attributes of a library op, which keep the name's pointer. */
struct ir_attr imp_user_int(struct imp *im, const char *name, int64_t value);
struct ir_attr imp_user_ints(struct imp *im, const char *name, int n, const int64_t *values);
struct ir_attr imp_user_num(struct imp *im, const char *name, float value);
struct ir_attr imp_user_text(struct imp *im, const char *name, const char *value);
/* A ranked tensor type with fresh symbols where `dims` is NULL or has NULLs. */
ir_type imp_fresh_type(struct imp *im, enum tcc_dtype dtype, int rank, const ir_expr *dims);
/* A size that only the run knows: of that axis of the node's output ("NAME.AXIS"), element k of a tensor of integers
 * ("NAME[K]"). */
ir_expr imp_fresh_dim(struct imp *im, int output, int axis);
ir_expr imp_fresh_element(struct imp *im, const struct ir_value *v, int k, int64_t lo, int64_t hi);
/* A ranked form of an unranked value (object) when its rank is declared; else the value. */
struct ir_value *imp_unbox(struct imp *im, struct ir_value *v, ir_type type);

/* -- Normalisations, products */

/* (x - mean) / sqrt(var + epsilon) over `axes`, and x / sqrt(mean(x^2) + epsilon), in the dtype of x; mean and
 * 1/deviation are handed out (may be NULL). */
struct ir_value *imp_normalise(struct imp *im, struct ir_value *x, int n, const int64_t *axes, double epsilon,
                               struct ir_value **mean_out,
                               struct ir_value **inverse_out);
struct ir_value *imp_rms_normalise(struct imp *im, struct ir_value *x, int n, const int64_t *axes, double epsilon,
                                   struct ir_value **inverse_out);
/* NumPy's matmul */
struct ir_value *imp_matmul_nd(struct imp *im, struct ir_value *a, struct ir_value *b, enum tcc_dtype to);
/* y * scale + bias, in the type of y; either may be NULL. */
struct ir_value *imp_scaled(struct imp *im, struct ir_value *y, struct ir_value *scale, struct ir_value *bias);
/* x with its axis of channels as [groups, channels / groups]; *n axes: all but the samples' and the groups'. */
struct ir_value *imp_grouped(struct imp *im, struct ir_value *x, int channels, int64_t groups, int *n, int64_t *axes);

/* Batch normalisation of x, along `axis`; -1: each element of a sample is a channel. */
struct imp_batch_norm {
    struct ir_value *x, *scale, *bias;    /* [c]; NULL: 1 and 0 */
    struct ir_value *mean, *var;          /* running statistics; in training NULL: none */
    int axis;
    double epsilon, keep, fresh;          /* in training they become running * keep + batch * fresh, */
    bool biased;                          /* as ONNX's text has it; else as PyTorch, with the unbiased variance */
    /* What training gives: the batch's statistics, 1 / deviation, the next running ones. */
    struct ir_value *batch_mean, *batch_var, *inverse, *next[2];
};
/* By the running statistics, in their type. */
struct ir_value *imp_batch_norm(struct imp *im, const struct imp_batch_norm *b);
/* By the batch's (over all ranks with --sync-bn), from the centred operand, which loses nothing to cancellation; in
 * that type. NULL after a message: PyTorch wants more than one value for each channel. */
struct ir_value *imp_batch_norm_train(struct imp *im, struct imp_batch_norm *b, enum tcc_dtype d);
/* NULL after a message. */
struct ir_value *imp_einsum(struct imp *im, const char *equation, int n, struct ir_value *const *in);

/* start, start + delta, .. in front of limit. */
struct ir_value *imp_range(struct imp *im, struct ir_value *start, struct ir_value *limit, struct ir_value *delta);
/* The positions of what is not 0, i64[rank, n]. */
struct ir_value *imp_nonzero(struct imp *im, struct ir_value *x);
/* Random numbers, of the next stream. */
struct ir_value *imp_random(struct imp *im, enum ir_op op, int rank, const ir_expr *dims, enum tcc_dtype dtype,
                            int64_t seed);
/* x with elements dropped by that probability (a scalar), the others scaled up; *mask: which are kept. Where `training`
 * (a scalar; NULL: true) is false, all are. */
struct ir_value *imp_dropout(struct imp *im, struct ir_value *x, struct ir_value *probability, int64_t seed,
                             struct ir_value *training, struct ir_value **mask);

/* -- Losses (loss.c) */

enum imp_reduction { IMP_NONE, IMP_MEAN, IMP_SUM };
struct ir_value *imp_reduced(struct imp *im, struct ir_value *loss, enum imp_reduction how);
/* The loss of labels (target) by the logarithms of probabilities [n, c, d...], or of one row of them. */
struct imp_labels_loss {
    struct ir_value *logs, *target, *weight; /* weight: of each class; NULL: 1 */
    bool ignores;                            /* targets of the label `ignored` count for nothing */
    int64_t ignored;
    struct ir_value *kept, *w; /* results: which targets count, what each weighs; NULL: all, 1 */
};
/* Weighed, one for each target. */
struct ir_value *imp_likelihood(struct imp *im, struct imp_labels_loss *l);
/* Of such losses; their mean is one by weights. */
struct ir_value *imp_weighed(struct imp *im, const struct imp_labels_loss *l, struct ir_value *loss,
                             enum imp_reduction how);

/* -- Convolutions and pools (window.c) */

#define IMP_SPATIAL (TCC_MAX_RANK - 2)
struct imp_window {
    int n; /* spatial axes */
    int64_t kernel[IMP_SPATIAL], strides[IMP_SPATIAL], dilations[IMP_SPATIAL];
    ir_expr open[IMP_SPATIAL]; /* a kernel's extent that only the run knows, else NULL */
    ir_expr before[IMP_SPATIAL], after[IMP_SPATIAL];
};
/* Its attributes that all windows have. */
#define IMP_WINDOW(w)                                         \
    ir_attr_ints(IR_ATTR_strides, (w)->n, (w)->strides),      \
    ir_attr_ints(IR_ATTR_dilations, (w)->n, (w)->dilations),  \
    ir_attr_exprs(IR_ATTR_before, (w)->n, (w)->before)
/* From the first to behind the last element that a window looks at. */
ir_expr imp_reach(struct imp *im, const struct imp_window *w, int k);
/* ceil_mode: the last window may hang over the end; that is one more pad behind, as far as it starts inside the operand
 * or the pads in front. */
void imp_ceil_pads(struct imp *im, const struct ir_value *x, struct imp_window *w);
/* What x, padded with zeros, has at each place of the windows, the last axis's first: *n of them. NULL after a
 * message. */
struct ir_value **imp_places(struct imp *im, const struct imp_window *w, struct ir_value *x, int64_t *n);
/* bias NULL: none; `to`: the result's type; shape: of a transposed convolution's spatial axes. */
struct ir_value *imp_convolve(struct imp *im, const struct imp_window *w, struct ir_value *x, struct ir_value *weight,
                              struct ir_value *bias, int64_t groups, enum tcc_dtype to);
struct ir_value *imp_convolve_transposed(struct imp *im, const struct imp_window *w, struct ir_value *x,
                                         struct ir_value *weight, struct ir_value *bias, int64_t groups,
                                         const ir_expr *shape);
/* mode NULL: none */
struct ir_value *imp_pool(struct imp *im, enum ir_op op, struct ir_value *x, const struct imp_window *w,
                          const char *mode);

/* -- Quantisation (quant.c) */

/* Scale and zero point (NULL: 0) of a tensor: of all of it, along an axis, or of blocks of so many along it. */
struct imp_scales { struct ir_value *scale, *zero; int64_t axis, block; };
/* x / scale, computed in the type `in`; floats beyond the range of `to` become its ends where `saturate`. NULL after a
 * message. */
struct ir_value *imp_quantize(struct imp *im, struct ir_value *x, const struct imp_scales *s, enum tcc_dtype in,
                              enum tcc_dtype to, bool saturate);
struct ir_value *imp_dequantize(struct imp *im, struct ir_value *x, const struct imp_scales *s, enum tcc_dtype to);
/* Rounds to even, adds the zero point (may be NULL), clamps to the range of `to`. `x` is a float. */
struct ir_value *imp_saturate(struct imp *im, struct ir_value *x, struct ir_value *zero, enum tcc_dtype to);
/* An operand as i32 without its zero point (may be NULL); a vector of zero points lies along `axis`. */
struct ir_value *imp_centred(struct imp *im, struct ir_value *x, struct ir_value *zero, int axis);
/* x in u8 by a scale and a zero point that its range gives (DynamicQuantizeLinear); `rows`: by those of each row, [..,
 * 1]. */
struct ir_value *imp_dynamic_quantize(struct imp *im, struct ir_value *x, bool rows, struct ir_value **scale,
                                      struct ir_value **point);
/* Each element along the axis `block` times, cut to `size` in all. */
struct ir_value *imp_repeat_blocks(struct imp *im, struct ir_value *s, int axis, int64_t block, ir_expr size);
/* f32 (a - za)(b - zb) sa sb of bytes a and b: a matrix product. Zero points may be NULL; b's and its scale may be one
 * for each column. */
struct ir_value *imp_integer_product(struct imp *im, struct ir_value *a, struct ir_value *za, struct ir_value *sa,
                                     struct ir_value *b,
                                     struct ir_value *zb, struct ir_value *sb);
/* A scale or zero point in rank 0 if it has one element. */
struct ir_value *imp_one(struct imp *im, struct ir_value *v);

/* -- Library ops of pictures (picture.c), with these attributes */

/* dims of x scaled along n axes, counted in f64 (`precise`) or in f32: NULL where the run finds them. False after a
 * message. */
bool imp_scaled_dims(struct imp *im, const struct ir_value *x, const double *scales, bool precise, int n,
                     const int64_t *axes, ir_expr *dims);
/* The elements of a constant; -1: it is none. */
int imp_scale_values(const struct ir_value *v, double *out);
/* No elements can be resized to some: where the sizes are known before it runs, that is decided then, in whatever way
 * it is computed; of each axis by itself, as engines do. False after a message. */
bool imp_resizes_something(struct imp *im, const struct ir_value *x, const ir_expr *dims);
struct ir_value *imp_grid_sample(struct imp *im, struct ir_value *x, struct ir_value *grid, int n,
                                 const struct ir_attr *words);
/* in: pictures, regions, which picture each is of */
struct ir_value *imp_roi_align(struct imp *im, struct ir_value *const *in, int64_t height, int64_t width, int n,
                               const struct ir_attr *words);
/* in: columns [n, c x taps, windows], the picture's sizes, the window's */
struct ir_value *imp_col2im(struct imp *im, struct ir_value *const *in, int n, const struct ir_attr *words);

/* -- Shape versions (version.c) */

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
/* Between version.c and broadcast.c: what this version takes sizes that broadcast for; is the expression known as soon
 * as the inputs are there? */
enum imp_broadcasting { IMP_NOT_ASKED, IMP_ALL_EQUAL, IMP_ANY };
enum imp_broadcasting imp_broadcasting(const struct imp *im);
bool imp_of_inputs(struct imp *im, ir_expr e);
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

/* The state variable that v is the value of; NULL: none. */
struct ir_state *imp_state_of(const struct ir_value *v);

#endif
