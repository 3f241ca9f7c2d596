/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linalg_int.h - what the library ops of matrices share: operands [..., rows, columns] read one matrix at a time as
 * doubles, row-major, whatever their type of floats is. Small dense matrices: no blocking, one thread.
 */
#ifndef TCC_RUNTIME_LIBOP_LINALG_INT_H
#define TCC_RUNTIME_LIBOP_LINALG_INT_H

#include "runtime/libop/libop_int.h"

struct lib_stack {
    const struct tcc_tensor *t;
    int64_t m, n, count; /* rows, columns, matrices */
};

/* Operand i; refused unless it has at least two dims and, if `square`, as many rows as columns. */
int lib_stack(struct tcc_lib_call *call, int i, bool square, struct lib_stack *s);
/* Operand i with as many matrices as `like`, of m rows (n columns); -1: any number. */
int lib_stack_like(struct tcc_lib_call *call, int i, const struct lib_stack *like, int64_t m, int64_t n,
                   struct lib_stack *s);
void lib_stack_get(const struct lib_stack *s, int64_t i, double *a);
/* Result k: the leading dims of s, then `tail` more; NULL after a report. */
void *lib_stack_out(struct tcc_lib_call *call, int k, const struct lib_stack *s, int dtype, int tail, int64_t first,
                    int64_t second);
void lib_put_all(void *data, int dtype, int64_t at, const double *a, int64_t n);
/* Room for so many doubles, of n numbers each; NULL: no memory, or more than there is. */
double *lib_doubles(int64_t n, int64_t times);
/* A power of two by which the elements are divided so that their squares are no infinities and no zeros; 0: they are
 * zeros. NaN: one is no finite number. */
double lib_scale_of(const double *a, int64_t n);

/* linalg.c. Factors and pivots in the matrix's place, and the number, from 1, of the first pivot that is 0 (0: there is
 * none); solutions in b's place, of k columns. */
int64_t lib_lu(double *a, int64_t m, int64_t n, int64_t *pivot);
void lib_solve_lu(const double *lu, const int64_t *pivot, int64_t m, bool transposed, double *b, int64_t k);
/* What ops of square matrices need: a matrix (with room for so many), its pivots. The second frees it and gives
 * `status`. */
struct lib_squares {
    struct lib_stack x;
    double *a;
    int64_t *pivot;
};
int lib_squares(struct tcc_lib_call *call, int64_t room, struct lib_squares *s);
int lib_squares_done(struct lib_squares *s, int status);

#endif
