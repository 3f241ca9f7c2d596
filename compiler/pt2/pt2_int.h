/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to compiler/pt2: the reader of torch.export's programs. It builds with what front ends share
 * (compiler/import/import.h).
 *
 * How to add an op. Write a row in aten.def:
 *
 *     ATEN("relu", CORE, map1, IR_relu)        name (or name.overload, which wins), flags, function, argument
 *
 * and, unless an existing function fits, `bool aten_NAME(struct pt2 *p)` in the file of its family (op_*.c). The row's
 * argument is p->row->arg. The function reads the node's arguments by the names that ATen's schema gives them (pt2_t,
 * pt2_i, pt2_ints, ...); what the archive leaves out has the default that the call names. An argument that the node has
 * and the function never asked for refuses the node: nothing is passed over. Results go to pt2_out(), which checks them
 * against the type that the archive records, and converts to its element type.
 *
 * Aliases. A row flagged VIEW gives another view of its first operand's memory (of a list: result k of its element k):
 * its result remembers how it was made, is made again when the operand was written to since, and a write to it is
 * carried to the operand (mutate.c). COPIES beside it: a copy where no view can be; KEEPS: the operand itself where
 * nothing is to be changed; PASSES: the operand itself where the function gives it. An op whose name ends in `_` is the
 * op without, written to `self`; of a VIEW, another view of `self`.
 */
#ifndef TCCC_PT2_INT_H
#define TCCC_PT2_INT_H

#include "compiler/import/import.h"
#include "compiler/pt2/archive_int.h"
#include "ir/map.h"

#define PT2_MAX_LIST 4096 /* elements of an argument */
#define PT2_MAX_DEPTH 32  /* graphs inside graphs */

struct pt2;

enum {
    ATEN_CORE = 1,
    ATEN_VIEW = 2,
    /* takes graphs */
    ATEN_GRAPHS = 4,
    /* writes running ones */
    ATEN_STATISTICS = 8,
    /* takes complex operands as pairs */
    ATEN_PAIRS = 16,
    /* of a complex operand, which shares its memory in a way that writes can't follow */
    ATEN_SHARES = 32,
    ATEN_COPIES = 64,
    ATEN_KEEPS = 128,
    ATEN_PASSES = 256,
    /* a view without gradient */
    ATEN_CUTS = 512,
    /* of all memory that the operand lies in */
    ATEN_STORAGE = 1024,
    /* a graph where it stands: its inputs and outputs are other names of the node's */
    ATEN_CALLS = 2048,
    /* in a region of torch.autocast it takes operands of that region's type */
    ATEN_LOWERS = 4096,
};

/* Special functions, by the library's table. */
enum {
#define SPECIAL1(name, function, meaning) PT2_SPECIAL_##name,
#define SPECIAL2(name, function, meaning) PT2_SPECIAL_##name,
#include "runtime/libop/special.def"
};

/* Which part of a complex operand is given. */
enum pt2_part { PT2_WHOLE, PT2_REAL, PT2_IMAGINARY };

struct aten_row {
    const char *name;
    int flags;
    bool (*build)(struct pt2 *p);
    int arg;
};

/* What a name of a graph stands for: a tensor, a number (e: an integer's expression; v alone: a float or a bool), or
 * nothing. */
struct pt2_value {
    const char *name;
    struct ir_value *v;
    ir_expr e;
    bool number; /* a Python number, not a tensor */
    bool read;   /* ... that is made of a tensor's elements, not of sizes alone */
    bool complex; /* v holds pairs: its last axis, of 2, is none that the program knows */
    bool refused;
    /* A view: of what, made by which node of which graph as which of its results, from the operand's version `seen`; no
     * row: all of it. cuts: without gradient. */
    struct pt2_value *of;
    const struct aten_row *row;
    struct pt2_scope *scope;
    json_t *node;
    int index, count;
    bool cuts;
    unsigned seen, version;
    /* Memory that may be another's, as that was at version `seen`; what was written to under that other name; why it
     * can't be written to. */
    struct pt2_value *shares;
    const char *spoiled, *unwritable;
    bool taught; /* something with a gradient was written to it */
    /* Memory that outlives the call: a state variable, or an input that the program writes to. */
    struct ir_state *state;
    const char *input;
};

struct pt2_scope {
    struct pt2_scope *outer;
    json_t *graph;          /* whose tensor_values say what types are */
    /* the interned names that its nodes and outputs read, by address; empty: nobody has asked */
    VEC(const char *) used;
    struct ir_map values; /* by interned name */
};

/* The node at hand, in the graph at hand. */
struct pt2_at {
    struct pt2_scope *scope;
    json_t *node;
    struct ir_value **outs;
    ir_expr *out_exprs;
    struct pt2_value **made;   /* by a node that calls a graph where it stands: what its results are names of */
    bool no_gradient;          /* in a graph in which none is recorded */
    bool in_place;             /* the node is an op in place */
    bool writes;               /* what it gives is written to `written`; NULL: to something that is no tensor */
    struct pt2_value *written; /* the first operand of an op in place, or the argument `out` */
    bool reads;                /* the node takes elements of tensors as numbers, or such numbers */
    struct pt2_value *instead; /* a view is made again of `instead_v`, not of this operand's value */
    struct ir_value *instead_v;
    int instead_index;         /* of its node's results this one is made */
};

struct pt2 {
    struct imp builder; /* first: builders' callbacks get this one */
    struct imp *im;     /* &builder */
    struct ir_ctx *ctx;
    struct pt2_archive *archive;
    struct pt2_at at;
    int depth;
    /* The node being imported. */
    const struct aten_row *row;
    uint64_t asked[4]; /* bits of its arguments */
    int nouts;
    enum tcc_dtype autocast;  /* that a region of torch.autocast lowers to; TCC_NONE: none does */
    enum pt2_part part[2];    /* of its first operand, and of the others */
    bool zeros;               /* imaginary parts of real operands are asked for, too */
    bool told_guards;         /* which can't be read */
    bool eval;                /* the function infers from a program that is trained: no dropout, running statistics */
    struct imp_export_signs signs;   /* of an export for inference, in what is trained */
    struct {                         /* core ATen (core_gradient.c) */
        bool is;
        int told, untold;            /* nodes with and without metadata */
        const char *write;           /* the line of one whose gradient is lost */
    } core;
    /* conditions that the graph at hand checks, each with what PyTorch says */
    VEC(struct pt2_check { struct ir_where where; struct ir_value *holds; const char *message; }) checks;
    VEC(struct pt2_value *) mutated; /* memory that outlives the call, and was written to */
    VEC(struct pt2_shared { uint64_t storage; const char *name; }) storages; /* the state variable of a storage */
    VEC(struct pt2_value *) memory;  /* state variables and inputs of this function */
};

/* -- Arguments of the node. A tensor or list that is absent is NULL or -1; numbers have the default given */

json_t *pt2_arg(struct pt2 *p, const char *name, const char **kind); /* the union's value; NULL: absent, or None */
bool pt2_given(struct pt2 *p, const char *name);                       /* present, and not None */
struct ir_value *pt2_t(struct pt2 *p, const char *name);               /* a tensor; NULL also after a message */
struct ir_value *pt2_need(struct pt2 *p, const char *name);            /* the same; a message where it is absent */
int64_t pt2_i(struct pt2 *p, const char *name, int64_t otherwise);
double pt2_f(struct pt2 *p, const char *name, double otherwise);
bool pt2_b(struct pt2 *p, const char *name, bool otherwise);
const char *pt2_s(struct pt2 *p, const char *name, const char *otherwise);
/* a size, maybe symbolic; NULL after a message */
ir_expr pt2_e(struct pt2 *p, const char *name, int64_t otherwise);
enum tcc_dtype pt2_type(struct pt2 *p, const char *name, enum tcc_dtype otherwise);
/* Lists: how many; -1: absent; -2 after a message. One integer is a list of one. */
int pt2_ints(struct pt2 *p, const char *name, int max, int64_t *out);
int pt2_exprs(struct pt2 *p, const char *name, int max, ir_expr *out);
int pt2_floats(struct pt2 *p, const char *name, int max, double *out);
int pt2_list(struct pt2 *p, const char *name, struct ir_value ***out);     /* tensors; NULL where one is None */
/* A tensor, or a number as a constant of rank 0 (*number): i64, f64 or bool. NULL after a message; absent: NULL
 * without. */
struct ir_value *pt2_operand(struct pt2 *p, const char *name, bool *number);
/* One element of a list of sizes, or a size by itself. NULL after a message. */
ir_expr pt2_size(struct pt2 *p, json_t *item);
ir_expr pt2_known_size(struct pt2 *p, json_t *item);                   /* the same; NULL without a message */
/* These arguments change nothing here. */
#define pt2_ignore(p, ...) pt2_ignore_all(p, (const char *const[]){__VA_ARGS__, NULL})
void pt2_ignore_all(struct pt2 *p, const char *const *names);
/* in 0 .. rank - 1; false after a message */
bool pt2_axis(struct pt2 *p, const char *name, int64_t otherwise, int rank, int64_t *axis);
/* Ascending axes without repeats; absent or empty: all. -1 after a message. */
int pt2_axes(struct pt2 *p, const char *name, int rank, int64_t *axes);

/* -- Results */

int pt2_nouts(const struct pt2 *p);
/* as the archive records it, of a complex type the parts'; TCC_NONE: it does not */
enum tcc_dtype pt2_out_type(struct pt2 *p, int k);
const char *pt2_out_name(const struct pt2 *p, int k);
bool pt2_wants(struct pt2 *p, int k);                /* false: no such result, or nothing uses it */
bool pt2_makes(const struct pt2 *p, int k);          /* false: another result of the node is made again */
bool pt2_out(struct pt2 *p, int k, struct ir_value *v);
bool pt2_out_e(struct pt2 *p, int k, ir_expr e);     /* an integer */

/* -- Complex tensors (complex.c): pairs of floats along one more axis, the last */

bool pt2_meta_complex(const json_t *meta);             /* does the archive record a complex type? */
bool pt2_reads_complex(struct pt2 *p);                 /* is an operand of the node complex? */
bool pt2_is_complex(struct pt2 *p, const char *name);  /* is that argument? */
bool pt2_out_complex(struct pt2 *p, int k);
/* Builds a node that reads complex tensors, by complex.def. False after a message. */
bool pt2_complex_build(struct pt2 *p, const struct aten_row *row);
/* The part of an operand that is asked for now; position 0: the node's first. */
struct ir_value *pt2_operand_part(struct pt2 *p, struct ir_value *v, bool complex, int position);
struct ir_value *pt2_pair(struct pt2 *p, struct ir_value *re, struct ir_value *im);    /* NULL operands: NULL */
struct ir_value *pt2_part(struct pt2 *p, struct ir_value *pair, int part);             /* 0: real, 1: imaginary */
/* A transform of length n along an axis, of pairs, or (R2C) of reals with a last axis of 1; `normalized`: divided by
 * the root of n. */
enum pt2_transform { PT2_C2C, PT2_C2C_INVERSE, PT2_R2C, PT2_C2R };
struct ir_value *pt2_transform(struct pt2 *p, struct ir_value *x, int64_t axis, int64_t n, enum pt2_transform kind,
                               bool normalized);
/* The parts of an operand, which may be a number, in the result's type; the imaginary one of what is real is NULL. */
bool pt2_parts_of(struct pt2 *p, const char *name, struct ir_value *part[2]);
#define COMPLEX(name, way)
#define COMPLEX_BY(name, way, function) bool function(struct pt2 *p);
#include "compiler/pt2/complex.def"

/* -- Graphs */

/* Where in the Python program the node is from; NULL: the archive does not say (trace.c). */
const char *pt2_line(struct imp *im);

/* Imports the nodes of a graph whose inputs are bound; its outputs in `outs` (as many as it has). False after a
 * message. */
bool pt2_graph(struct pt2 *p, json_t *graph, struct pt2_value **outs);
void pt2_push_scope(struct pt2 *p, struct pt2_scope *s, json_t *graph);
void pt2_pop_scope(struct pt2 *p);
/* a new name; NULL after a message: there is one already */
struct pt2_value *pt2_bind(struct pt2 *p, const char *name);
struct pt2_value *pt2_lookup(struct pt2 *p, const char *name);
/* of {"as_tensor": {"name": ...}} and the like; NULL after a message */
struct pt2_value *pt2_named(struct pt2 *p, json_t *argument);
const char *pt2_name_of(json_t *argument);                             /* NULL: it names nothing */
struct ir_value *pt2_number(struct pt2 *p, struct pt2_value *v);       /* a number as a tensor of rank 0 */
/* Builds `row` of `node`, with outputs in p->at.outs. Leaves the importer at the node where it was. */
bool pt2_build(struct pt2 *p, const struct aten_row *row, json_t *node, int nouts);
void pt2_note_signs(struct pt2 *p);      /* of the node being imported (train_signs.c) */
/* What core ATen's metadata says of gradients (core_gradient.c). Is none recorded of this node? */
bool pt2_is_core(const struct pt2 *p);
bool pt2_core_stops(struct pt2 *p, const json_t *node);
void pt2_core_note(struct pt2 *p, json_t *node);
void pt2_core_warn(struct pt2 *p);
const struct aten_row *pt2_row(const char *target);
/* of what an op in place writes; NULL: it is no such name */
const struct aten_row *pt2_row_in_place(struct pt2 *p, const char *target);
/* of a user's own operator (op_custom.c); NULL: it is none that is given */
const struct aten_row *pt2_custom(struct pt2 *p, const char *target);

/* What the archive says of a tensor: its type, with the symbols of sizes. NULL after a message. */
ir_type pt2_meta_type(struct pt2 *p, const json_t *meta);
json_t *pt2_meta(struct pt2 *p, const char *name);                     /* of tensor_values; NULL: none */
/* of its sizes and strides; NULL: not understood */
ir_expr pt2_meta_size(struct pt2 *p, const json_t *size);
/* Did it lie in row-major order when the program was exported? */
enum ir_tri pt2_row_major(struct pt2 *p, const json_t *meta);
/* Does the text at *at, behind blanks, go on with that word? Then *at stands behind it, else behind the blanks. */
bool pt2_take(const char **at, const char *word);
/* sympy's srepr as an expression; NULL: not understood. */
ir_expr pt2_symbols(struct pt2 *p, const char *text);
/* The name of a symbol of PyTorch's, or what the archive says instead. */
const char *pt2_dim_name(struct pt2 *p, const char *symbol);
/* A number of Python's: an integer that is an expression, or a scalar; an argument of the node is read when it must be.
 * Neither: none, after a message. */
struct pt2_py { ir_expr e; struct ir_value *v; const char *argument; };
/* What the rows number1 and number2 with this argument make of one, of two (op_create.c). */
struct pt2_py pt2_number_of(struct pt2 *p, int arg, const struct pt2_py *x);
struct pt2_py pt2_numbers(struct pt2 *p, int arg, const struct pt2_py *x, const struct pt2_py *y);
/* Has the run refuse what breaks a guard of the export (guards.c). False after a message. */
bool pt2_guards(struct pt2 *p);
/* writes the results; sizes: of the last n axes */
bool pt2_adaptive_max(struct pt2 *p, struct ir_value *x, int n, const ir_expr *sizes);
ir_expr pt2_divisor(struct ir_ctx *ctx, ir_expr b);                  /* at least 1; NULL: b may be negative */
ir_expr pt2_power(struct ir_ctx *ctx, ir_expr a, ir_expr b);         /* NULL: b is no number of 0 to 16 */
/* The n inputs' types, and expressions of those that are integers (else NULL), in symbols that dims and integers give
 * by themselves (sizes.c). */
void pt2_name_sizes(struct pt2 *p, int n, ir_type *types, ir_expr *numbers);

/* -- Memory (mutate.c) */

struct ir_value *pt2_read(struct pt2 *p, struct pt2_value *v);         /* its value now; NULL after a message */
bool pt2_write(struct pt2 *p, struct pt2_value *v, struct ir_value *to);
/* the node's operand of that name, if it is given */
bool pt2_write_operand(struct pt2 *p, const char *name, struct ir_value *to);
struct pt2_value *pt2_memory(struct pt2_value *v);                     /* what it looks at in the end */
/* v, just bound, is another name of the operand */
void pt2_look_at(struct pt2_value *v, struct pt2_value *operand);
struct ir_value *pt2_without_gradient(struct pt2 *p, struct ir_value *x);
/* v, just bound, is a result of the node that is imported, by `row`: whose memory it lies in. Results of nodes that
 * record no gradient have none, but for what was there before. */
void pt2_bind_memory(struct pt2 *p, struct pt2_value *v, const struct aten_row *row);
/* the node's first; if that is a list, its k-th */
struct pt2_value *pt2_first_operand(struct pt2 *p, json_t *node, int k);
/* div.out, add.Tensor_out: what is computed goes to the argument `out`. */
bool pt2_is_out_form(const char *target);

/* -- Shared by the families of ops */

/* false after a message; of sizes that only the run knows it is a fact of the run */
bool pt2_some(struct pt2 *p, const struct ir_value *x, int n, const int64_t *axes);
/* Results of what chooses an element, of a tensor without dims: the tensor, and where two are wanted its place, 0. */
bool pt2_alone(struct pt2 *p, struct ir_value *x);
/* Between a and b, from the nearer end, as PyTorch has it: where an end is infinite the other form is NaN. */
struct ir_value *pt2_between(struct pt2 *p, struct ir_value *a, struct ir_value *b, struct ir_value *weight);

/* PyTorch's promotion of two operands; a number weighs less than a tensor of no dims, that less than one with dims. */
enum tcc_dtype pt2_promote(const struct ir_value *a, bool a_number, const struct ir_value *b, bool b_number);
/* Two operands (tensors or numbers) of a node in the type in which it computes: `type`, or TCC_NONE, and where
 * it is in place: as they promote. False after a message. */
struct pt2_operands { struct ir_value *a, *b; enum tcc_dtype type; };
bool pt2_pair_of(struct pt2 *p, const char *first, const char *second, enum tcc_dtype type, struct pt2_operands *pair);
/* The same for factors and divisors: numbers keep their precision beside 16-bit floats, as f32. */
bool pt2_factors(struct pt2 *p, const char *first, const char *second, struct pt2_operands *pair);
/* a b in the type to which two tensors promote; NULL operands: NULL. */
struct ir_value *pt2_times(struct pt2 *p, struct ir_value *a, struct ir_value *b);
/* a OP b, of one type: of bools sums and maxima are `or`, products and minima `and`, powers a or not b. */
struct ir_value *pt2_bin(struct pt2 *p, enum ir_op op, struct ir_value *a, struct ir_value *b);
/* An operand as a float of the result's type, or f32: at least f32. NULL operands: NULL. */
struct ir_value *pt2_wide_float(struct pt2 *p, struct ir_value *x);
/* x with the elements of `part` in the place of those that have the (row-major) numbers `which`; NULL operands:
 * NULL. */
struct ir_value *pt2_put(struct pt2 *p, struct ir_value *x, struct ir_value *which, struct ir_value *part);
/* x as a vector; n axes of it backwards; its diagonal of the axes a and b, elements [i, i + offset], which becomes the
 * last axis. NULL operands: NULL, but for the diagonal's, which is there. */
struct ir_value *pt2_flat(struct pt2 *p, struct ir_value *x);

/* Rows `index` of the table w; by_frequency: the gradient of a row is the mean over where it is used, not the sum. */
struct ir_value *pt2_rows(struct pt2 *p, struct ir_value *w, struct ir_value *index, bool by_frequency);
struct ir_value *pt2_flip(struct pt2 *p, struct ir_value *x, int n, const int64_t *axes);
struct ir_value *pt2_diagonal(struct pt2 *p, struct ir_value *x, int64_t offset, int64_t a, int64_t b);
/* Broadcasts x to the type's dims. */
struct ir_value *pt2_expand_as(struct pt2 *p, struct ir_value *x, const struct ir_value *like);
/* Integers to divide by: 0 is none, when run. NULL operands: NULL. */
struct ir_value *pt2_not_zero(struct pt2 *p, struct ir_value *by);
struct ir_value *pt2_floor_div(struct pt2 *p, struct ir_value *a, struct ir_value *b);     /* of integers, b not 0 */
/* i < 0 counts from the end; clamped to 0 .. size: how slices take bounds. */
ir_expr pt2_clamp(struct pt2 *p, ir_expr i, ir_expr size);
static inline ir_expr pt2_zero(struct pt2 *p) { return ir_const(p->ctx, 0); }
static inline ir_expr pt2_one(struct pt2 *p) { return ir_const(p->ctx, 1); }
/* The square root; what is trained gets no gradient where it is 0, as PyTorch's norms and distances do. */
struct ir_value *pt2_root(struct pt2 *p, struct ir_value *x);
struct ir_value *pt2_atan2(struct pt2 *p, struct ir_value *y, struct ir_value *x);     /* of one shape and type */
struct ir_value *pt2_dropout(struct pt2 *p, struct ir_value *x, double probability, struct ir_value **mask);

/* The least (or largest) number of x's type, infinite where there are infinities; rank 0. */
struct ir_value *pt2_outermost(struct pt2 *p, const struct ir_value *x, bool least);
/* The p-norm over n axes (op_reduce.c); that of a - b + eps along the last one; the sum of a b along an axis, which may
 * count from the end, in at least f32. NULL operands: NULL. */
struct ir_value *pt2_norm(struct pt2 *p, struct ir_value *x, double order, int n, const int64_t *axes, bool keep);
struct ir_value *pt2_distance(struct pt2 *p, struct ir_value *a, struct ir_value *b, double order, double eps,
                              bool keep);
struct ir_value *pt2_summed_product(struct pt2 *p, struct ir_value *a, struct ir_value *b, int64_t axis, bool keep);
/* x's matrices with zeros below (`upper`) or above the diagonal of that number (op_shape.c); how many elements the axes
 * [from, to) have (op_linalg.c). */
struct ir_value *pt2_triangle(struct pt2 *p, struct ir_value *x, bool upper, ir_expr diagonal);
/* bool[m, n]: is the column the row's number and `ahead` more? (op_create.c) */
struct ir_value *pt2_on_diagonal(struct pt2 *p, ir_expr m, ir_expr n, int64_t ahead);
ir_expr pt2_product(struct pt2 *p, const struct ir_value *x, int from, int to);
/* Of matrices (op_factor.c): the singular values, descending; the inverse, which has to be there. NULL operands:
 * NULL. */
struct ir_value *pt2_singular_values(struct pt2 *p, struct ir_value *x);
struct ir_value *pt2_inverse(struct pt2 *p, struct ir_value *x);

#define ATEN(name, flags, function, arg) bool aten_##function(struct pt2 *p);
#include "compiler/pt2/aten.def"

#endif
