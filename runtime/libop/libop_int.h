/* SPDX-License-Identifier: Apache-2.0 */
/* libop_int.h - what library ops share: operands, attributes, results, elements as numbers. See util.c.
 * In the static library these names are hidden: what links it exports none of them. */
#ifndef TCC_RUNTIME_LIBOP_LIBOP_INT_H
#define TCC_RUNTIME_LIBOP_LIBOP_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/abi.h"

#define LIB_FAIL(call, ...) ((call)->host->fail((call), TCC_EINPUT, __VA_ARGS__))
#define LIB_NO_MEMORY(call) ((call)->host->fail((call), TCC_EENV, "no memory"))

/* Every library op, declared once. */
#define OP(name, meaning) int tccrt_lib_##name(struct tcc_lib_call *call);
#include "runtime/libop/libops.def"

/* Operand i as a tensor; NULL when it is omitted, empty, or a sequence. */
const struct tcc_tensor *lib_in(const struct tcc_lib_call *call, int i);
bool lib_has(const struct tcc_lib_call *call, int i);
/* The same; what is missing or has another rank (-1: any) or element type (0: any, LIB_NUMBER: no strings, no complex
 * numbers) is reported. */
#define LIB_NUMBER (-1)
int lib_need(struct tcc_lib_call *call, int i, int rank, int dtype, const struct tcc_tensor **out);

const struct tcc_attr *lib_attr(const struct tcc_lib_call *call, const char *name);
int64_t lib_int(const struct tcc_lib_call *call, const char *name, int64_t otherwise);
double lib_float(const struct tcc_lib_call *call, const char *name, double otherwise);
const char *lib_text(const struct tcc_lib_call *call, const char *name, const char *otherwise);

/* Lists of numbers, in an attribute or a tensor attribute. lib_list: NAME or NAME_as_tensor, NULL when absent or
 * empty. */
int64_t lib_list_size(const struct tcc_attr *a);
double lib_list_value(const struct tcc_attr *a, int64_t i);
const struct tcc_attr *lib_list(const struct tcc_lib_call *call, const char *name);

void *lib_out(struct tcc_lib_call *call, int k, int dtype, int rank, const int64_t *dims);
bool lib_wants(const struct tcc_lib_call *call, int k);

int lib_class(int dtype);                    /* enum tcc_class */
int lib_bytes(int dtype);
int64_t lib_count(const struct tcc_tensor *t);               /* elements */
int64_t lib_product(int rank, const int64_t *dims);         /* elements of a shape; INT64_MAX: more than memory holds */
/* Element i as a double or an integer, and back; narrow floats round to nearest even and saturate as ONNX's Cast
 * does. */
double lib_get(const struct tcc_tensor *t, int64_t i);
int64_t lib_get_int(const struct tcc_tensor *t, int64_t i);
void lib_put(void *data, int dtype, int64_t i, double v);
/* 8-bit floats: beyond the range infinity or NaN */
void lib_put_overflowing(void *data, int dtype, int64_t i, double v);
void lib_put_int(void *data, int dtype, int64_t i, int64_t v);
/* Copies one element of any type; false: no memory (strings). */
bool lib_copy(void *to, int64_t i, const struct tcc_tensor *from, int64_t k);
bool lib_copy_n(void *to, int64_t i, const struct tcc_tensor *from, int64_t k, int64_t n);
int lib_compare_strings(const struct tcc_string *a, const struct tcc_string *b);     /* bytewise */

/* axis in [-rank, rank) made >= 0; -1 otherwise. */
int lib_axis(int64_t axis, int rank);
/* The i64 (or i32) values of operand i into `to` (room for `room`); the number of them, or -1 after a report. */
int lib_values(struct tcc_lib_call *call, int i, int64_t *to, int room);
/* Axes from operand `i` or, when that is omitted, from the attribute "axes", normalised; -1 after a report. */
int lib_axes(struct tcc_lib_call *call, int i, int rank, int *axes);
/* NumPy broadcast of two shapes; the rank, or -1 after a report. */
int lib_broadcast(struct tcc_lib_call *call, const struct tcc_tensor *a, const struct tcc_tensor *b, int64_t *dims);
/* Strides, in elements, of t seen with shape dims (0 along broadcast axes). */
void lib_strides(const struct tcc_tensor *t, int rank, const int64_t *dims, int64_t *strides);
/* Advances an index through dims in row-major order; false at the end. */
bool lib_next(int rank, const int64_t *dims, int64_t *index);
int64_t lib_dot(int rank, const int64_t *index, const int64_t *strides);

/* ml_score.c: what ai.onnx.ml's models do with their scores. */
int lib_post_transform(struct tcc_lib_call *call, const char *name, double *v, int64_t n);
/* Labels of a classifier from attribute `ints` or `strings`: allocated as output 0, then set one by one. */
struct lib_labels { const struct tcc_attr *ints, *strings; void *out; };
int lib_labels_begin(struct tcc_lib_call *call, const char *ints, const char *strings, int64_t rows,
                     struct lib_labels *l);
int lib_labels_put(struct tcc_lib_call *call, struct lib_labels *l, int64_t row, int64_t class);
int64_t lib_labels_count(const struct lib_labels *l);
int64_t lib_largest(const double *v, int64_t n);

#endif
