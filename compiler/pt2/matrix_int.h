/* SPDX-License-Identifier: Apache-2.0 */
/* Private to op_factor.c, which has these functions, and op_spectral.c: how torch.linalg's operators read matrices and
 * call the library. */
#ifndef TCCC_PT2_MATRIX_INT_H
#define TCCC_PT2_MATRIX_INT_H

#include "compiler/pt2/pt2_int.h"

/* Integer attributes of a library op. MAT_WORDS({"name", value}, ...) are two arguments: how many, and which. */
struct mat_word {
    const char *name;
    int64_t value;
};
#define MAT_WORDS(...) \
    (int)(sizeof((const struct mat_word[]){__VA_ARGS__}) / sizeof(struct mat_word)), \
        ((const struct mat_word[]){__VA_ARGS__})

/* An operand that has to be of matrices, 16-bit floats as f32; NULL after a message. */
struct ir_value *mat_operand(struct pt2 *p, const char *name);
/* The extents of x's matrices; the lesser of the two. NULL: it has none. */
ir_expr mat_rows(const struct ir_value *x);
ir_expr mat_columns(const struct ir_value *x);
ir_expr mat_shorter_side(struct pt2 *p, const struct ir_value *x);
/* x's leading dims, and `tail` more. */
ir_type mat_stacked(struct pt2 *p, const struct ir_value *x, enum tcc_dtype dtype, int tail, ir_expr first,
                    ir_expr second);
struct ir_value *mat_transposed(struct pt2 *p, struct ir_value *x);

/* A library op; NULL after a message, or where the first operand is NULL. */
struct ir_node *mat_library(struct pt2 *p, const char *name, int nin, struct ir_value *const *in, int nout,
                            const ir_type *types, int n, const struct mat_word *words);
/* Results that a node of the library gives in the order of `which` (-1: none of it); those that nothing uses may be
 * missing. */
bool mat_results(struct pt2 *p, const struct ir_node *made, int n, const int *which);
/* A result that is no use to a program, as the copy of an operand is, but may be asked for. */
bool mat_optional_result(struct pt2 *p, int k, struct ir_value *v);
/* Nodes: L and U in one, pivots and `info` of x's matrices; the solution of a x = b (left) or x a = b, and `info`. */
struct ir_node *mat_factors(struct pt2 *p, struct ir_value *x, bool pivot, bool check);
struct ir_node *mat_solution(struct pt2 *p, struct ir_value *a, struct ir_value *b, bool left, bool check);

#endif
