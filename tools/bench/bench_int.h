/* SPDX-License-Identifier: Apache-2.0 */
/* Private to tccc-bench. */
#ifndef TCCC_TOOLS_BENCH_INT_H
#define TCCC_TOOLS_BENCH_INT_H

#include "tools/run/model_int.h"

/* --tokens: measures `tokens` tokens (2 or more) in m's session, which is new, and prints the figures. */
int bench_tokens(const struct options *o, struct model *m, int64_t tokens);

/* --shapes: measures each combination of sizes in one session, new as well, and prints a table. */
int bench_shapes(const struct options *o, struct model *m, int threads, int64_t runs);
/* --html of a plain benchmark: times[n] in ms, sorted, n > 0. */
struct bench_figures { double first, median, gflops; int n; const double *times; };
int bench_html(const struct options *o, const struct model *m, const struct bench_figures *f);

/* --scaling=N,N...: runs by run(user), in ms or -1 after a message, of m's session, which is another one meanwhile;
 * prints a table. */
int bench_scaling(const struct options *o, struct model *m, double (*run)(void *user), void *user);

#endif
