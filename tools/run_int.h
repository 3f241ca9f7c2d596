/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tccc-run.
 *
 *   tccc-run    one run; tests
 *   run_against --against: two ways, step by step
 *   run_data    --data: a run over all samples of a data set
 */
#ifndef TCCC_TOOLS_RUN_INT_H
#define TCCC_TOOLS_RUN_INT_H

#include "tools/model_int.h"

int run_data_check(const struct options *o);                       /* do the options fit --data? EXIT_FINE, or EXIT_USAGE after a message */
int run_data(const struct options *o, struct model *m);            /* m has a session; the exit code */

/* run_against.c, --against: the exit code. */
int against_run(const struct options *o, const char *path);

#endif
