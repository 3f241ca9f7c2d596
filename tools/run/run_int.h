/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tccc-run.
 *
 *   tccc-run    one run; tests
 *   run_against --against: two ways, step by step
 *   run_compare --compare: layer by layer beside the interpreter or another framework's values
 *   run_data    --data: a run over all samples of a data set
 */
#ifndef TCCC_TOOLS_RUN_INT_H
#define TCCC_TOOLS_RUN_INT_H

#include "tools/data/data_int.h"
#include "tools/run/model_int.h"

/* do the options fit --data? EXIT_FINE, or EXIT_USAGE after a message */
int run_data_check(const struct options *o);
int run_data(const struct options *o, struct model *m);            /* m has a session; the exit code */
/* What such a run leaves: the outputs' rows, one a sample (axes[k] -1: a mean over them), and what the samples are. */
struct run_results {
    int n;
    struct tcc_object *const *values;
    const char *const *names;
    const int *axes;
    const struct data_set *data;
    const struct data_tables *tables;
};
/* The same, whose results go to `done`, which gives the exit code. load: the checkpoint whose tables hold, or NULL. */
int run_data_with(const struct options *o, struct model *m, const char *load,
                  int (*done)(void *user, const struct run_results *r), void *user);

/* against.c, --against: the exit code. */
int against_run(const struct options *o, const char *path);
/* Code for the host that is compiled for a comparison is made at -O0, which keeps each node's value, in rows as the
 * model has it and not in blocks of channels: sets that option where none says otherwise. */
void against_plain_code(struct options *o, const char *path);

/* compare.c, --compare: the exit code. */
int compare_run(const struct options *o, const char *path);

#endif
