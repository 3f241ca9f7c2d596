/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the random-graph generator: its state, and the makers. */
#ifndef TCCC_TESTS_FUZZ_RANDOM_GRAPH_INT_H
#define TCCC_TESTS_FUZZ_RANDOM_GRAPH_INT_H

#include "tests/fuzz/random_graph.h"

enum { MAX_POOL = 256 };

struct item {
    struct ir_value *v;
    double mag;          /* about how large its elements are */
    double scale;        /* the largest mag among what it was computed from */
    int exact;           /* > 0: computed without rounding; so many more sums or products keep it so */
};

struct gen {
    struct ir_ctx *ctx;
    struct ir_builder b;
    struct random_graph *result;
    uint64_t rng;
    struct item pool[MAX_POOL];
    int npool, forced;         /* forced: what the next pick() gives; -1: nothing in particular */
    struct ir_value *hostile[2]; /* inputs, i64[] of any value */
    int nhostile, first_parameter; /* in the pool */
    bool open, train, failed;
};

uint64_t rnd(struct gen *g);
int below(struct gen *g, int n);                 /* 0 .. n-1 */
struct item *pick(struct gen *g);
struct item *pick_float(struct gen *g);          /* NULL: none found */
bool dim_value(struct gen *g, ir_expr e, int64_t *out);
void add(struct gen *g, struct ir_value *v, double mag, double scale, int exact);
struct ir_value *constant(struct gen *g, int rank, const int64_t *dims, double sigma, bool grid);   /* f32 */
/* f32 of any dims: a constant where they are numbers, otherwise computed from the positions. */
struct ir_value *filled(struct gen *g, int rank, const ir_expr *dims, double sigma);
/* A symbol that the run's data define, at most about `most`. */
ir_expr bound_symbol(struct gen *g, int64_t lo, int64_t hi, int64_t most);

void make_unary(struct gen *g), make_binary(struct gen *g), make_broadcast(struct gen *g), make_select(struct gen *g);
void make_cast(struct gen *g), make_integer(struct gen *g), make_reduce(struct gen *g), make_softmax(struct gen *g);
void make_layernorm(struct gen *g), make_matmul(struct gen *g), make_self_matmul(struct gen *g),
                    make_conv(struct gen *g);
void make_pool(struct gen *g), make_transpose(struct gen *g), make_reshape(struct gen *g), make_slice(struct gen *g);
void make_concat(struct gen *g), make_joined(struct gen *g), make_split(struct gen *g), make_interleave(struct gen *g),
                 make_pad(struct gen *g), make_expand(struct gen *g), make_gather(struct gen *g);
void make_cumsum(struct gen *g), make_sort(struct gen *g), make_attention(struct gen *g);
void make_gather_elements(struct gen *g), make_gather_nd(struct gen *g), make_residual(struct gen *g),
                          make_scatter(struct gen *g);
void make_conv_transpose(struct gen *g), make_symbolic(struct gen *g), make_counting(struct gen *g),
                         make_bits(struct gen *g);
/* An if with one result, whose type must outlive the program, and empty branches, by the largest element of x; NULL: x
 * is no
   f32 that everybody computes alike. */
struct ir_node *new_if(struct gen *g, struct item x, const ir_type *type);
void make_nonzero(struct gen *g), make_taken(struct gen *g), make_counted(struct gen *g), make_indexed(struct gen *g),
                  make_choice(struct gen *g);
void make_product(struct gen *g);
void make_if(struct gen *g), make_loop(struct gen *g), make_conv_gradient(struct gen *g), make_state(struct gen *g);
void read_states(struct gen *g);                 /* what the state variables hold in the end */

#endif
