/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_graph.h - random programs of level 1 that verify, and inputs for them.
 *
 * The same seed gives the same program everywhere; with fewer nodes it is the beginning of the longer one, which is what
 * makes a failing program easy to shrink. Values stay of moderate size, and what jumps (rounding, comparing, sorting) is
 * applied only to values that every implementation computes exactly, so that results may be compared with a tolerance.
 */
#ifndef TCCC_TESTS_FUZZ_RANDOM_GRAPH_H
#define TCCC_TESTS_FUZZ_RANDOM_GRAPH_H

#include "ir/ir.h"

enum { GRAPH_MAX_OUTPUTS = 8 };

struct random_graph {
    struct ir_module *module;
    struct ir_func *func;
    int ninputs, noutputs;
    double scale[GRAPH_MAX_OUTPUTS];     /* how large the numbers were that an output was computed from */
    bool coarse;                         /* f16 or bf16 occurs: results differ by their rounding */
    int64_t n, m;                        /* values of the symbols N and M, which inputs' dims may name */
};

/* A program with about `nodes` operations in its one function "main". False: our bug, see ctx's diagnostics. */
bool random_graph(struct ir_ctx *ctx, uint64_t seed, int nodes, struct random_graph *g);
/* Input i: its dtype's values on a coarse grid; the caller's (tccrt_object_unref). NULL: no memory. */
struct tcc_object *random_input(const struct random_graph *g, uint64_t seed, int i);

#endif
