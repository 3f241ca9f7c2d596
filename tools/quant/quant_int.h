/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tccc-quantize.
 *
 *   quantize        options, what is done in which order, the report
 *   step            tccc --quantize
 *   graph           the model's nodes, values and weights, read from the file's records
 *   choose          which nodes are quantised
 *   feed            runs over data: calibration, scores
 *   histogram       what values a tensor has had, in bounded memory; ranges from it
 *   write           nodes, tensors, the file
 *   qdq             static int8, float8, and weights alone in int8: QuantizeLinear and DequantizeLinear
 *   dynamic         dynamic int8: DynamicQuantizeLinear and MatMulInteger
 *   blocks          weights in 4 bits: MatMulNBits, or DequantizeLinear by blocks
 *   codes           weights as whole numbers with scales: rounded, or by GPTQ
 *   awq             rows of weights multiplied before they are rounded
 *   bias            --bias-correction
 *   smooth          channels of inputs divided, and rows of weights multiplied, before both are rounded
 *   noise           what each quantised node does to the outputs; --min-snr
 *   search          --max-drop
 *   trained         --trained
 */
#ifndef TCCC_TOOLS_QUANT_INT_H
#define TCCC_TOOLS_QUANT_INT_H

#include "tools/onnx/onnx_file_int.h"

enum quant_mode { QUANT_STATIC, QUANT_DYNAMIC, QUANT_WEIGHT8, QUANT_WEIGHT4, QUANT_FP8, QUANT_NMODES };
struct quant_out;
enum quant_method { METHOD_MINMAX, METHOD_PERCENTILE, METHOD_ENTROPY, METHOD_MSE, METHOD_RTN, METHOD_GPTQ, METHOD_AWQ,
                    METHOD_SMOOTH };

/* -- Ranges (histogram.c) ---------------------------------------------------------------------------------------- */

/* Counts of values in bins of one width, a power of two, that are doubled as wider values come: what is counted depends
 * neither on the order of values nor on how many there are. Bin HIST_HALF begins at 0; zeros: how many are just
 * that. */
enum { HIST_HALF = 4096, HIST_BINS = 2 * HIST_HALF };
struct hist { double min, max; int exponent; uint64_t count, zeros, bins[HIST_BINS]; };
void hist_add(struct hist *h, const float *x, int64_t n);      /* what is not finite is left out */
/* The range that 256 levels are to cover, with 0 in it. percentile: of METHOD_PERCENTILE, 0 to 100. */
void hist_range(const struct hist *h, enum quant_method method, double percentile, double *lo, double *hi);
/* Of a range: the scale, and the level of 0 among 0..255. */
void quant_levels(double lo, double hi, float *scale, int *zero);

/* -- The graph (graph.c) ------------------------------------------------------------------------------------------ */

/* hist: NULL, unless it is calibrated. hessian: the sum of products of a value's rows; GPTQ's. */
struct quant_value {
    const char *name;
    int producer, uses;          /* node, -1: none; nodes that read it, how often */
    int tensor;                  /* its value is constant; -1 */
    bool input, output, captured;    /* of the graph; read in a subgraph */
    bool wanted, fed;            /* calibrated; samples had elements of it */
    struct hist *hist;
    double *hessian;
    int64_t width;               /* of the Hessian; 0: it gets a histogram */
    int64_t channels, summed;    /* whose means are wanted; 0: none. How many values each sum has */
    bool by_channel;             /* they are axis 1, else the last one */
    double *sums;
    int64_t smoothed;            /* channels that are divided by `by`; 0: none are */
    int behind;                  /* axes behind theirs: of a convolution's input */
    float step;                  /* --trained's, else what its range says; 0: not yet */
    int zero;                    /* the level of 0 then */
    int inputs;                  /* of a weight: how many have got steps by its name */
    float *extremes, *by;        /* of each channel its least and its largest value, with 0 between them */
};
struct quant_node {
    const char *name, *op, *domain;
    int nin, nout, *in, *out;    /* values; -1: left out */
    struct wire_record record;
    bool chosen, excluded;
    double noise;                /* of the outputs beside their squares when it alone is quantised, a multiplication */
    struct quant_codes *codes;   /* of GPTQ, AWQ */
    float *steps;                /* --trained's, by output; NULL: what it holds says them */
    const double *correction;    /* of its bias, by output; NULL: none */
};
static inline bool quant_used(const struct quant_node *n) { return n->chosen && !n->excluded; }
enum { QUANT_HALVES_OPSET = 21 };       /* DequantizeLinear reads codes of 4 bits, and blocks */

struct quant {
    const struct options *o;
    struct ir_ctx *ctx;          /* memory */
    const char *path, *folder;   /* folder: for temporary files */
    FILE *report;                /* where what was done is said; NULL: nowhere */
    const char *called;          /* what it is said of; NULL: the output */
    struct data_file *file;
    struct wire_record graph;
    struct onnx_files files;
    int64_t opset, ir;
    bool microsoft;              /* imports com.microsoft */
    int nnodes, nvalues, ntensors;
    struct quant_node *nodes;
    struct quant_value *values;
    struct onnx_tensor *tensors;
    bool *turned;                /* by tensor: it is the Transpose of what its record holds */
    /* settings */
    enum quant_mode mode;
    enum quant_method method;
    double percentile, max_drop;
    double smooth;               /* --method=smooth's exponent; 0: no smoothing */
    double min_snr;              /* in dB; -INFINITY: no limit */
    double snr, snr_all;         /* of outputs over --data: as it is now; with all chosen nodes. NAN: not known */
    int64_t group;
    bool corrects;               /* --bias-correction */
    bool qdq;                    /* 4 bits by DequantizeLinear */
    const struct tensors *trained;    /* --trained; NULL: none */
    int trained_bits;
};
/* What stands before an option's name in messages: a word of tccc's --quantize has no dashes. */
static inline const char *quant_option(const struct quant *q) { return q->called ? "--quantize: " : "--"; }
/* The model as the user named it: `path` may be a temporary file. */
static inline const char *quant_shown(const struct quant *q)
{
    return q->o->nwords ? q->o->words[0] : q->path;
}
/* EXIT_FINE, or an exit code after a message. */
int quant_open(struct quant *q);
void quant_close(struct quant *q);
/* The node's attribute, else `otherwise`. */
int64_t quant_attr_i(const struct quant_node *n, const char *name, int64_t otherwise);
double quant_attr_f(const struct quant_node *n, const char *name, double otherwise);
/* DequantizeLinear has no axis yet: a weight has one scale. */
bool quant_one_scale(const struct quant *q);
/* Elements of a constant as floats, the caller's to free; NULL: after a message, *code. */
float *quant_floats(struct quant *q, int tensor, int *code);
const char *quant_text(struct quant *q, const struct wire_record *r);               /* interned, as names are */
int64_t quant_elements(const struct onnx_tensor *t);

/* -- Which nodes (choose.c) ---------------------------------------------------------------------------------------- */

/* The weight of a node that has one: input 1. rows: as a product reads it, [K, N]; transposed: it is stored as [N, K].
 * conv: [outputs, ...]. axis: of the outputs. channels: of the node's input, which convolutions read in `groups`. */
struct quant_weight { int tensor, axis; bool conv, transposed; int64_t k, n, groups, channels; };
bool quant_weight_of(const struct quant *q, const struct quant_node *n, struct quant_weight *w);
/* is its bias a constant one that is quantised? */
bool quant_bias_fits(const struct quant *q, const struct quant_node *n);
/* Which channel of its input row k of the weight multiplies, for output m. */
int64_t quant_channel(const struct quant_weight *w, int64_t k, int64_t m);
/* Marks them by --ops and --exclude. EXIT_FINE, or an exit code after a message: a pattern that matches nothing. */
int quant_choose(struct quant *q);
int quant_chosen(const struct quant *q);

/* -- Weights as codes (codes.c) ------------------------------------------------------------------------------------ */

/* at[k][n]: weight = (code - zero) * scale; scales and zeros: [groups][n], of `group` rows each. 8 bits: one group,
 * zero 128, codes 1 to 255; 4 bits: codes 0 to 15. one: all outputs have the same scale. */
/* by: rows were multiplied so, and inputs are to be divided (NULL: not). */
struct quant_codes { int bits; bool one; int64_t k, n, group, groups; uint8_t *at, *zeros; float *scales, *by; };
struct quant_codes *quant_codes_new(const struct quant *q, const struct quant_weight *w, int bits, int64_t group);
void quant_round(struct quant_codes *c, const float *w);                           /* each to the nearest */
/* Of w[k][n], by what its inputs were. False: no memory. */
bool quant_awq(const struct quant *q, struct quant_codes *c, const float *w, const double *hessian);
/* Of the node's weight; by GPTQ or AWQ where its input has a Hessian. *code: an exit code after a message; then
 * NULL. */
struct quant_codes *quant_codes_of(struct quant *q, int node, int bits, int64_t group, int *code);
void quant_codes_free(struct quant_codes *c);
/* GPTQ's or AWQ's, of all chosen products: as many at a time as Hessians have room. */
int quant_gptq(struct quant *q, int bits, int64_t group);

/* -- Biases (bias.c) ----------------------------------------------------------------------------------------------- */

/* Marks the inputs whose channels' means are wanted; adds rows of one; by output, what its bias lacks: NULL, none. */
void quant_want_means(struct quant *q);
void quant_add_means(struct quant_value *v, const float *x, int rank, const int64_t *dims, int64_t rows);
double *quant_correction(struct quant *q, const struct quant_node *n, const struct quant_weight *w,
                         const struct quant_codes *c, int *code);
/* -- Smoothing (smooth.c) ------------------------------------------------------------------------------------------ */

/* Which values' channels are divided, those that `whole` names not; what they hold; by what, once all has been seen. */
void quant_want_extremes(struct quant *q, const int *whole);
void quant_add_extremes(struct quant_value *v, const struct tcc_tensor *t, int64_t n);
int quant_smooth(struct quant *q);
/* Of the divided value: its range; its name, behind the node that divides. */
void quant_smoothed_range(const struct quant_value *v, double *lo, double *hi);
const char *quant_put_smoothed(struct quant_out *w, int value);

/* The weight as [k][n], the caller's to free; NULL: after a message, *code, or no memory. */
float *quant_columns(struct quant *q, const struct quant_weight *w, int *code);

/* -- Trained steps (trained.c) ------------------------------------------------------------------------------------- */

/* q->path becomes a copy with the checkpoint's weights; nodes that have steps alone stay chosen. */
int quant_open_trained(struct quant *q);
int quant_mark_trained(struct quant *q);

/* -- Runs (feed.c) ------------------------------------------------------------------------------------------------- */

int quant_calibrate(struct quant *q);    /* histograms, or (width) Hessians, of the values that are wanted */
/* Compiles the model and makes a session; model_close() is for the caller, whatever the exit code. */
struct model;
int quant_session(struct quant *q, const char *path, struct model *m);
/* The first output's classes of all samples. With --eval-data, `right` are the target's. */
struct quant_classes { int64_t n, room; int32_t *at; int64_t right; };
int quant_classes_of(struct quant *q, const char *path, struct quant_classes *c);
void quant_classes_free(struct quant_classes *c);
/* The share of classes that are right; of --data alone, that are `model`'s. */
double quant_score(const struct quant *q, const struct quant_classes *c, const struct quant_classes *model);

/* -- Writing (write.c) --------------------------------------------------------------------------------------------- */

/* The new graph. Names that stand for a value are made, with the nodes that compute them, when the first node reads
 * them. */
struct quant_out {
    struct quant *q;
    struct onnx_pieces nodes, tensors;
    struct onnx_external external;
    /* by value: of QUANT_DYNAMIC its bytes, scale and zero point; else [0]: what DequantizeLinear gives */
    const char **made[3];
    int *whole;                  /* by value that all nodes read in 8 bits: whose result it is, from 1; else 0 */
    int *replaced;               /* by value: nodes that read another instead */
    bool microsoft;              /* has nodes of com.microsoft */
    const char *switches;        /* the input of quant_write_switched(): results have names of their own; NULL */
    const char **on;             /* by used node: its element */
    int64_t ir;                  /* least version of the file format */
    int code;                    /* of what has failed, after a message */
};
struct quant_attr { const char *name; int64_t i; };
/* Lists of names end with NULL; of attributes with a name that is NULL, or there is none. */
void quant_put_node(struct quant_out *w, const char *domain, const char *op, const char *const *in,
                    const char *const *out, const struct quant_attr *attrs);
/* The elements are copied; of 4 bits there are two in a byte. Returns the name. */
const char *quant_put_tensor(struct quant_out *w, const char *name, enum tcc_dtype dtype, int rank, const int64_t *dims,
                             const void *data);
/* The node as it is, but for the names of its inputs: in[nin]; "": left out. */
void quant_put_copy(struct quant_out *w, const struct quant_node *n, const char *const *in);
const char *quant_value_name(const struct quant *q, int value);                    /* "" of -1 */
const char *quant_result(const struct quant_out *w, int value);           /* a quantised node's name for it */
/* one that the model does not have */
const char *quant_name(struct quant *q, const char *base, const char *suffix);
int quant_write(struct quant *q, const char *path);                                /* by the mode */
int quant_write_observed(struct quant *q, const char *path);               /* with the wanted values as outputs */
/* The model with each used node there twice, as it is and quantised. Which of the two counts, an input says that has
 * zeros as its own values, QUANT_SWITCHES: a number for each used node in turn, 1: the quantised one. Of values that
 * all nodes read in 8 bits, bytes count where all nodes that make and read them so do. */
#define QUANT_SWITCHES "tccc_quantised_nodes"
int quant_write_switched(struct quant *q, const char *path);

/* By mode: a chosen node, and what it needs. */
void quant_put_qdq(struct quant_out *w, int node);
void quant_put_dynamic(struct quant_out *w, int node);
void quant_put_blocks(struct quant_out *w, int node);
/* qdq.c: which values of a static model are quantised; those of convolutions' results are read by all nodes. */
void quant_want_static(struct quant *q, int *whole);
/* How often a static model's node multiplies, in any unit that all nodes have; what is calibrated tells. */
double quant_multiplications(const struct quant *q, int node);
/* The value behind Quantize- and DequantizeLinear. */
const char *quant_dequantized(struct quant_out *w, int value);

/* -- Noise (noise.c) ----------------------------------------------------------------------------------------------- */

/* Of used nodes: what each alone does to the outputs. */
int quant_measure(struct quant *q);
void quant_sort(struct quant_node **list, int n);                                  /* those that do most first */
/* Leaves nodes out until q->snr is q->min_snr or more, those that do most first. */
int quant_limit(struct quant *q);

/* -- Search (search.c) --------------------------------------------------------------------------------------------- */

/* Leaves nodes out until the score falls by no more than q->max_drop, those that do most to the outputs first. path:
 * for trials. c: of what is left, or c->n is 0. */
int quant_search(struct quant *q, const char *path, const struct quant_classes *model, struct quant_classes *c);

/* -- The whole (quantize.c) ---------------------------------------------------------------------------------------- */

/* A model, o->words, by tccc-quantize's options: the exit code. */
int quant_run(const struct options *o, FILE *report, const char *called);
/* By tccc's --quantize, into a file below `folder`, whose name is path[PATH_MAX]: the exit code. */
int quant_step(const struct options *o, const char *folder, char *path);

#endif
