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
/* A batch that has run: the first `keep` rows of `rows` are samples, from number `first` on. in[nin]: what lies
 * beside. */
struct run_batch { const struct tcc_tensor *in, *out; const int *axes; int64_t first, keep, rows; };
/* A run over the data that an option names. load: the checkpoint whose tables hold, or NULL. beside: one more array of
 * the data, which no input has; NULL: none. Either each batch goes to `batch`, or all results to `done`, which give the
 * exit code. */
struct run_wish {
    enum option_id data;
    const char *load;
    const struct tccrt_value_info *beside;
    int (*batch)(void *user, const struct run_batch *b);
    int (*done)(void *user, const struct run_results *r);
    void *user;
};
int run_data_with(const struct options *o, struct model *m, const struct run_wish *wish);

/* against.c, --against: the exit code. */
int against_run(const struct options *o, const char *path);
/* Code for the host that is compiled for a comparison is made at -O0, which keeps each node's value, in rows as the
 * model has it and not in blocks of channels: sets that option where none says otherwise. */
void against_plain_code(struct options *o, const char *path);

/* compare.c, --compare: the exit code. */
int compare_run(const struct options *o, const char *path);

#endif
