/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tools/: values (struct tcc_object) in files, in comparisons and on the screen. Functions that can fail
 * write why into `error` (ERROR_SIZE bytes). Objects that are returned belong to the caller (tccrt_object_unref).
 */
#ifndef TCCC_TOOLS_VALUES_INT_H
#define TCCC_TOOLS_VALUES_INT_H

#include <stdbool.h>
#include <stdio.h>

#include "ir/ir.h"
#include "runtime/abi.h"

#define ERROR_SIZE 1024
/* Writes why into `error`; false, for the caller to return. */
bool put_error(char *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What a value of a model is, beyond a tensor: SequenceProto and OptionalProto cannot be told apart by their bytes. */
/* DEFAULT: a tensor that need not be given */
enum value_kind { VALUE_TENSOR, VALUE_SEQUENCE, VALUE_OPTIONAL, VALUE_DEFAULT };

/* Reads .npy or .pb by suffix. `*name` (may be NULL) gets the name that a .pb holds, "" if none; free() it. */
struct tcc_object *value_read(const char *path, enum value_kind kind, char **name, char *error);
/* The same from memory; `path` is for messages. */
struct tcc_object *npy_parse(const char *path, const unsigned char *data, size_t size, char *error);
struct tcc_object *pb_parse(const char *path, const unsigned char *data, size_t size, enum value_kind kind,
                            char **name, char *error);
struct tcc_object *npy_read(const char *path, char *error);
struct tcc_object *pb_read(const char *path, enum value_kind kind, char **name, char *error);

/* What the header of a .npy file says; `bytes` of an element. Where the data begins; 0: not a .npy file of numbers. */
struct npy_info { enum tcc_dtype dtype; int bytes; bool swap, fortran; int rank; int64_t dims[TCC_MAX_RANK]; };
size_t npy_describe(const unsigned char *data, size_t size, struct npy_info *h);

/* npy_can: is it a tensor of a type that .npy knows? */
bool npy_can(const struct tcc_object *v);
bool npy_put(FILE *out, const struct tcc_object *v);
bool npy_write(const char *path, const struct tcc_object *v, char *error);
bool pb_write(const char *path, const char *name, enum value_kind kind, const struct tcc_object *v, char *error);

/* Reads a whole file; NULL: `error` says why. free() the result. */
unsigned char *file_read(const char *path, size_t *size, char *error);

/* -- Comparison (compare.c) */

/* |got - expected| <= rtol |expected| + atol, times the largest finite |expected| unless absolute. signed_zero: 0 and
 * -0 differ too. */
struct tolerance { double rtol, atol; bool absolute, signed_zero; };

/* How many elements differ, the first of them and the one that is out of the tolerance by the largest factor; count 0,
 * first -1 where dtype or shape do. */
struct difference { int64_t count, first, worst; };

/* 0: equal within the tolerance (atol absolute); else, by which factor it is exceeded: above 1, INFINITY where a NaN or
 * an infinity stands against anything else. */
double float_excess(double got, double expected, double rtol, double atol);
double tensor_largest(const struct tcc_tensor *t);      /* the largest finite magnitude of floats; 0 for other types */

/* Are two tensors or values equal within the tolerance (DESIGN section 8)? If not, `error` (ERROR_SIZE bytes) has the
 * first and the worst difference; `difference` may be NULL. Any thread. */
bool tensor_equal(const struct tcc_tensor *got, const struct tcc_tensor *expected, const struct tolerance *t,
                  struct difference *difference, char *error);
bool value_equal(const struct tcc_object *got, const struct tcc_object *expected, const struct tolerance *tolerance,
                 char *error);

/* One element as text. */
void value_print_element(FILE *out, int dtype, const void *data, int64_t i);
/* "f32[1,10]: 0.1 0.2 ..." */
void value_print(FILE *out, const struct tcc_object *v);

/* A tensor of floats as f32: for files that have no name for its type. NULL: no memory. */
struct tcc_object *value_widened(const struct tcc_tensor *t);

/* Values for --random: floats uniform in [-1, 1), integers and bools 0, strings empty. NULL: no memory. */
struct tcc_object *value_random(int dtype, int rank, const int64_t *dims, uint64_t seed, int stream);

#endif
