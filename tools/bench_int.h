/* SPDX-License-Identifier: Apache-2.0 */
/* Private to tccc-bench. */
#ifndef TCCC_TOOLS_BENCH_INT_H
#define TCCC_TOOLS_BENCH_INT_H

#include "tools/model_int.h"

/* --tokens: measures `tokens` tokens (2 or more) in m's session, which is new, and prints the figures. */
int bench_tokens(const struct options *o, struct model *m, int64_t tokens);

#endif
