/* SPDX-License-Identifier: Apache-2.0 */
/* type.h - types of values, conversions of scalars, and constant tensors. A part of ir.h, which includes it. */
#ifndef TCC_IR_TYPE_H
#define TCC_IR_TYPE_H

#include "ir/expr.h"
#include "runtime/abi.h"

/* == Types ================================================================================
 * Hash-consed: equal pointers are equal types. */
enum ir_type_kind { IR_T_TENSOR, IR_T_SEQUENCE, IR_T_OPTIONAL, IR_T_VERSION };

typedef const struct ir_type_node *ir_type;
struct ir_type_node {
    uint8_t kind;
    uint8_t dtype;           /* TENSOR */
    int8_t rank;             /* TENSOR: -1 when unranked */
    uint32_t id;
    ir_type elem;            /* SEQUENCE, OPTIONAL; NULL: unknown */
    struct ir_state *state;  /* VERSION: of which state variable */
    ir_expr dim[];           /* TENSOR */
};

ir_type ir_tensor_type(struct ir_ctx *ctx, enum tcc_dtype dtype, int rank, const ir_expr *dims);
ir_type ir_tensor_type_i(struct ir_ctx *ctx, enum tcc_dtype dtype, int rank, const int64_t *dims);
ir_type ir_scalar_type(struct ir_ctx *ctx, enum tcc_dtype dtype);
ir_type ir_unranked_type(struct ir_ctx *ctx, enum tcc_dtype dtype);
ir_type ir_sequence_type(struct ir_ctx *ctx, ir_type elem);
ir_type ir_optional_type(struct ir_ctx *ctx, ir_type elem);
ir_type ir_with_dtype(struct ir_ctx *ctx, ir_type t, enum tcc_dtype dtype);
bool ir_same_dims(ir_type a, ir_type b);             /* of any types with ranks; both unranked: yes */
bool ir_is_tensor(ir_type t);                       /* ranked tensor of a non-string dtype: lives in a buffer */
bool ir_is_version(ir_type t);                      /* of a state variable: lives in the variable. NULL: no */
bool ir_is_object(ir_type t);                       /* anything else: lives in a struct tcc_object */
bool ir_static_dims(ir_type t, int64_t *dims);      /* all dims constant? dims may be NULL */
#define IR_MAX_BYTES (INT64_C(1) << 47)              /* what a process can address */
/* no memory can hold a tensor of this type, dims of 0 taken as 1: what it has; else NULL */
const char *ir_type_impossible(ir_type t);
ir_expr ir_num_elements(struct ir_ctx *ctx, ir_type t);
/* f32[N,3,224,224], i64[], seq<f32[?]>, f32[*] (unranked), @w (a version of variable w) */
void ir_print_type(FILE *out, ir_type t);
const char *ir_type_text(struct ir_ctx *ctx, ir_type t);

int tcc_dtype_bytes(enum tcc_dtype d);
/* of a random word that a uniform float takes: its significand's, at most 32 */
int tcc_random_bits(enum tcc_dtype d);
double tcc_largest(enum tcc_dtype d);                    /* finite number of a float type */
const char *tcc_dtype_name(enum tcc_dtype d);
enum tcc_dtype tcc_dtype_by_name(const char *name);      /* TCC_NONE: unknown */
enum tcc_class tcc_dtype_class(enum tcc_dtype d);
bool tcc_is_float(enum tcc_dtype d);
bool tcc_is_int(enum tcc_dtype d);                       /* signed or unsigned; not bool */
bool tcc_is_signed(enum tcc_dtype d);
bool tcc_small_float(enum tcc_dtype d);                  /* every float type but f32 and f64: computed in f32 */
/* The type in which floats of type d are computed. */
static inline enum tcc_dtype tcc_wide_float(enum tcc_dtype d) { return d == TCC_F64 ? TCC_F64 : TCC_F32; }
static inline bool tcc_is_half(enum tcc_dtype d) { return d == TCC_F16 || d == TCC_BF16; }

/* Scalar conversions, exact where the target type allows, else round to nearest even. */
double tcc_load_f64(enum tcc_dtype d, const void *p);               /* any numeric dtype */
int64_t tcc_load_i64(enum tcc_dtype d, const void *p);              /* floats truncate toward zero and saturate */
void tcc_store_f64(enum tcc_dtype d, void *p, double v);            /* 8-bit floats: saturate (ONNX's default) */
void tcc_store_i64(enum tcc_dtype d, void *p, int64_t v);           /* wraps modulo the width */
/* Cast with ONNX's rules (`saturate` is for the 8-bit floats only; round_mode: "up", "down", "nearest" for f8e8m0 or
 * NULL). */
/* Numbers that share a scale in MX formats (OCP's Microscaling specification, 1.0), and the exponent of the largest of
 * type d. */
enum { TCC_MX_GROUP = 32 };
int tcc_mx_exponent(enum tcc_dtype d);
/* A group of them, `stride` apart, rounded to such numbers times their scale: NaN where one is infinite or NaN. */
void tcc_mx_round(enum tcc_dtype d, double *v, int64_t stride);
void tcc_cast(enum tcc_dtype to, void *out, enum tcc_dtype from, const void *in, bool saturate, const char *round_mode);

/* == Tensors (constant data) ==============================================================
 * Immutable and reference-counted apart from any context: the same bytes may be held by
 * several modules. Data is row-major, elements as in abi.h; a splat holds one element. */
struct ir_file;                                             /* a mapped file, reference-counted */
/* NULL: `error` and errno say why */
struct ir_file *ir_file_open(const char *path, char *error, size_t error_size);
/* the same, but for want of memory: ir_no_memory() */
struct ir_file *ir_file_get(struct ir_ctx *ctx, const char *path, char *error, size_t error_size);
void ir_file_unref(struct ir_file *file);
const char *ir_file_path(const struct ir_file *file);      /* as opened */
const uint8_t *ir_file_data(const struct ir_file *file);
uint64_t ir_file_size(const struct ir_file *file);

struct ir_tensor {
    int refs;
    uint8_t dtype, rank;
    bool splat;
    int64_t dims[TCC_MAX_RANK];
    int64_t nelems;
    const void *data;
    uint64_t bytes;                                        /* at data: one element when splat */
    struct ir_file *file;                                  /* where data points into, or NULL: owned */
};
/* zeroed, writable until shared; NULL: no memory or too big */
struct ir_tensor *ir_tensor_new(enum tcc_dtype dtype, int rank, const int64_t *dims);
struct ir_tensor *ir_tensor_splat(enum tcc_dtype dtype, int rank, const int64_t *dims, const void *element);
/* The pages of a tensor in a file need not stay in memory; whoever reads it again gets them from the file. */
void ir_tensor_cool(const struct ir_tensor *t);
struct ir_tensor *ir_tensor_file(enum tcc_dtype dtype, int rank, const int64_t *dims, struct ir_file *file,
                                 uint64_t offset);
struct ir_tensor *ir_tensor_scalar_f(enum tcc_dtype dtype, double v);
struct ir_tensor *ir_tensor_scalar_i(enum tcc_dtype dtype, int64_t v);
struct ir_tensor *ir_tensor_ints(int64_t n, const int64_t *values);                     /* i64[n] */
struct ir_tensor *ir_tensor_ref(const struct ir_tensor *t);
void ir_tensor_unref(struct ir_tensor *t);
const void *ir_tensor_at(const struct ir_tensor *t, int64_t i);                         /* element i, splats too */
bool ir_tensor_equal(const struct ir_tensor *a, const struct ir_tensor *b);             /* dtype, shape, bits */
/* XXH3-64 of dtype, shape and elements */
uint64_t ir_tensor_digest(const struct ir_tensor *t);

#endif
