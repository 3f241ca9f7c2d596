/* SPDX-License-Identifier: Apache-2.0 */
/* Private to tools/: what a simulated device models, as text and as JSON. */
#ifndef TCCC_TOOLS_SIM_INT_H
#define TCCC_TOOLS_SIM_INT_H

#include <stdio.h>

#include "runtime/tccrt.h"

/* What was done between two moments of a session, a run's share of it. */
struct tccrt_sim sim_between(const struct tccrt_sim *before, const struct tccrt_sim *after, int runs);
void sim_print(FILE *to, const struct tccrt_sim *s);         /* lines */
void sim_print_json(FILE *to, const struct tccrt_sim *s);    /* an object */

#endif
