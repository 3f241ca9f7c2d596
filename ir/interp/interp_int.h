/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interp_int.h - what the files of the reference interpreter share.
 *
 * An op is a function of a `struct it_call`: operands as dense, aligned tensors, room for results. The same functions
 * run whole functions (interp.c) and fold single nodes (where `it` holds no values).
 */
#ifndef TCC_INTERP_INT_H
#define TCC_INTERP_INT_H

#include "ir/ir.h"

/* A value while running: a tensor (when ir_is_tensor(its type)), or an object, or neither (omitted operand). */
struct it_value { struct ir_tensor *t; struct tcc_object *o; };

struct it_sym { bool bound; int64_t value; };

struct ir_interp_state {
    struct ir_module *module;
    int n;
    struct ir_tensor **values;      /* by ir_state.index; NULL: zeros */
    uint64_t step;                  /* runs finished: the last word of a random op's counter */
    ir_interp_watcher watcher;      /* NULL: none */
    void *watching;
};

struct interp {
    struct ir_func *func;
    struct ir_interp_state *state;
    struct it_value *values;        /* by value id; NULL while folding */
    struct it_sym *syms;            /* by expression id */
    const void **definer;           /* by expression id: the node or block that binds the symbol */
    uint32_t nsyms;
    uint32_t *dies;                 /* by node id: first value (id + 1) whose last use it is; chained by `dies_next` */
    uint32_t *dies_next;
    uint32_t *order;                /* by node id: position in the function */
    struct it_fact **facts;         /* by node id: what it takes for granted (fact.c); NULL while folding */
    int depth;
    char *error;
    size_t error_size;
};

struct it_call {
    struct interp *it;
    const struct ir_node *n;
    const struct ir_tensor **in;    /* NULL: omitted, or an object */
    struct ir_tensor **out;         /* set by the op; the caller takes the references */
    struct it_temp *temps;          /* freed when the call ends */
    int status;
};

typedef int (*it_fn)(struct it_call *c);

/* Records the first failure and returns its status. */
int it_fail(struct it_call *c, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Result k with the element type of its value; NULL after it_fail. Zeroed. */
struct ir_tensor *it_out(struct it_call *c, int k, int rank, const int64_t *dims);
/* Scratch memory that lives until the call ends, not zeroed; NULL after it_fail. n * size is checked. */
void *it_scratch(struct it_call *c, int64_t n, size_t size);
/* Values of an expression attribute, n of them; false after it_fail. */
bool it_exprs(struct it_call *c, enum ir_attr_key key, int n, int64_t *out);
/* An INTS attribute; `otherwise` for each where it is absent. */
void it_ints(const struct ir_node *n, enum ir_attr_key key, int count, int64_t otherwise, int64_t *out);
/* A dense, aligned form of t: t itself with a new reference, or a copy. NULL: no memory. */
struct ir_tensor *it_dense(const struct ir_tensor *t);

/* Facts of nodes (fact.c): collected before a run (false: no memory); those of n that this run's values decide, for
 * `early` once and for all; those of the body that the inputs decide. */
bool it_collect_facts(struct interp *it, const struct ir_block *block);
void it_free_facts(struct interp *it);
int it_check_facts(struct interp *it, const struct ir_node *n, bool early);
int it_check_inputs(struct interp *it);
/* Of the versions of f's entry point for the sizes of the call the last, which is for the most; f if it is none. */
struct ir_func *it_last_version(struct ir_func *f, const struct ir_interp_state *state, struct tcc_object *const *in);

/* Do the inputs of a call fit these types? False: `error` (may be NULL) says which does not, as the run-time library
 * says it. */
bool it_inputs_fit(struct ir_ctx *ctx, int n, const char *const *names, const ir_type *types,
                   struct tcc_object *const *in, char *error, size_t size);

/* [2, 3], in a buffer of IT_DIMS_TEXT bytes, as tcr_dims_text() has it; returns it. */
enum { IT_DIMS_TEXT = 260 };
char *it_dims_text(char *to, int rank, const int64_t *dims);

/* Objects. Each returns NULL when there is no memory. */
struct ir_tensor *it_from_object(const struct tcc_object *o);      /* a tensor object's copy */
struct tcc_object *it_to_object(const struct ir_tensor *t);

/* A call of a user's operator on memory that is guarded on both sides (custom.c). */
int it_custom(const struct ir_custom *x, struct tcc_lib_call *call);

/* Symbols (symbols.c). */
/* Room for the values of all symbols that there are by now; false: no memory. */
bool it_prepare_syms(struct interp *it, struct ir_ctx *ctx);
bool it_bind(struct interp *it, ir_expr sym, int64_t value);       /* false: outside its bounds */
bool it_eval(struct interp *it, ir_expr e, int64_t *out);
/* Of a tensor, or an object whose type is one. */
const int64_t *it_dims_of(const struct it_value *x, int *rank, int *dtype);
/* Checks (and, for symbols that `definer` introduces, binds) a value's dims. */
int it_match(struct interp *it, const void *definer, const struct ir_value *v, const struct it_value *x);
/* Binds the one unbound symbol s of a dim c * s + r that is `dim`; other forms are left unbound. */
void it_solve(struct interp *it, ir_expr e, int64_t dim);

/* Control (control.c). */
int it_run_block(struct interp *it, const struct ir_block *block);
int it_set(struct interp *it, const struct ir_value *v, struct it_value x);    /* takes over the reference; converts */
/* Puts back what it_match took off the definer table: a symbol met twice must agree with its first meeting. */
void it_redefine(struct interp *it, const void *definer, ir_type type);
/* The variables' values before a run (false: no memory); one that has failed gets them back. */
bool it_save_state(struct interp *it, struct ir_tensor ***saved);
void it_settle_state(struct interp *it, struct ir_tensor **saved, bool failed);
/* State variables with symbols: the symbols are bound when a call begins; may it advance them; it ended well. */
int it_bind_positions(struct interp *it);
int it_check_advances(struct interp *it);
int it_advance(struct interp *it);
struct it_value it_share(struct it_value x);                       /* with new references */
void it_drop(struct it_value *x);
int it_error(struct interp *it, const struct ir_node *n, int status, const char *format,
             ...) __attribute__((format(printf, 4, 5)));

/* Element access. Strides in elements; `at` is an element's number. */
static inline void *it_data(struct ir_tensor *t)
{
    return (void *)t->data;
}
static inline enum tcc_dtype it_dtype(const struct ir_tensor *t)
{
    return (enum tcc_dtype)t->dtype;
}
void it_load_f64s(const struct ir_tensor *t, int64_t at, int64_t stride, int64_t n, double *out);
void it_load_i64s(const struct ir_tensor *t, int64_t at, int64_t stride, int64_t n, int64_t *out);
void it_store_f64s(struct ir_tensor *t, int64_t at, int64_t stride, int64_t n, const double *in);
void it_store_i64s(struct ir_tensor *t, int64_t at, int64_t stride, int64_t n, const int64_t *in);
/* accumulates in f64, else in wrapping 64-bit integers */
bool it_counts_as_float(enum tcc_dtype d);

/* Row-major strides. */
void it_strides(int rank, const int64_t *dims, int64_t *strides);
int64_t it_product(const int64_t *dims, int first, int last);

/* A rows x columns matrix at element `at`, stored transposed or not, as row-major f64 or 64-bit integers (matmul.c). */
void it_load_matrix(const struct ir_tensor *t, int64_t at, int64_t rows, int64_t columns, bool transposed,
                    bool is_float, void *to);
/* c[m, n] += a[m, k] b[k, n], row-major, in f64 or wrapping integers (matmul.c). */
void it_gemm_f64(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c);
void it_gemm_i64(int64_t m, int64_t n, int64_t k, const int64_t *a, const int64_t *b, int64_t *c);

/* Philox4x32-10 (random.c). */

/* Combines *to with *from as scatter's `mode` and reductions do: "add", "mul", "min", "max". */
enum it_combine { IT_SET, IT_ADD, IT_MUL, IT_MIN, IT_MAX };
void it_combine(enum it_combine how, enum tcc_dtype d, void *to, const void *from);

#endif
