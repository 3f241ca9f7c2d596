/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_graph.h - random programs of level 1 that verify, and inputs for them.
 *
 * The same seed gives the same program everywhere; with fewer nodes it is the beginning of the longer one, which is
 * what makes a failing program easy to shrink. Values stay of moderate size, and what jumps (rounding, comparing,
 * sorting) is applied only to values that every implementation computes exactly, so that results may be compared with a
 * tolerance.
 */
#ifndef TCCC_TESTS_FUZZ_RANDOM_GRAPH_H
#define TCCC_TESTS_FUZZ_RANDOM_GRAPH_H

#include "ir/ir.h"

enum { GRAPH_MAX_OUTPUTS = 8, GRAPH_SYMBOLS = 3, GRAPH_RUNS = 6, GRAPH_MAX_BOUND = 16 };

/* Fixed: most dims of inputs are numbers. Open: most are symbols, and values of the run decide positions, sizes and
 * trip counts. Trained: floats without
   what jumps by them, its last output is the scalar "loss", and inputs "p0"... are parameters (in RANDOM_STEP state
   variables of these names). */
enum random_form { RANDOM_FIXED, RANDOM_OPEN, RANDOM_LOSS, RANDOM_STEP };

struct random_graph {
    struct ir_module *module;
    struct ir_func *func;
    int ninputs, noutputs;
    double scale[GRAPH_MAX_OUTPUTS];     /* how large the numbers were that an output was computed from */
    bool coarse;                         /* f16 or bf16 occurs: results differ by their rounding */
    enum random_form form;
    /* Values of the symbols N, M and P, which inputs' dims may name, run by run: the program was made for the first
     * run's, and may refuse others. */
    int64_t sizes[GRAPH_RUNS][GRAPH_SYMBOLS];
    int nruns, run;                      /* run: the one that random_input() and random_size() are asked about */
    /* symbols that a run's data define, and about how large they get */
    struct { const char *name; int64_t most; } bound[GRAPH_MAX_BOUND];
    int nbound;
};

/* A program of `nodes` steps (64 at most), each some operations, but those of the bits of `skip`, in its one function
 * "main". False: our bug, see ctx's
   diagnostics. */
bool random_graph(struct ir_ctx *ctx, uint64_t seed, int nodes, enum random_form form, uint64_t skip,
                  struct random_graph *g);
/* The value of an input's dim in the current run. */
bool random_size(const struct random_graph *g, ir_expr e, int64_t *out);
/* What element k of input or parameter `name` holds in programs that train: the same whatever its type. */
double random_number(uint64_t seed, const char *name, int64_t k);
/* Input i of the current run: its dtype's values on a coarse grid, but those named "k0"... are hostile integers; the
 * caller's (tccrt_object_unref).
   NULL: no memory. */
struct tcc_object *random_input(const struct random_graph *g, uint64_t seed, int i);

#endif
