/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_int.h - between the files of --sweep: sweep_text.c reads what is tried, sweep.c runs it, sweep_report.c shows
 * it. */
#ifndef TCCC_TOOLS_TRAIN_SWEEP_INT_H
#define TCCC_TOOLS_TRAIN_SWEEP_INT_H

#include "tools/train/train_int.h"

enum sweep_search { SWEEP_GRID, SWEEP_RANDOM, SWEEP_HALVING };
enum { SWEEP_MOST_OPTIONS = 16, SWEEP_MOST_VALUES = 64, SWEEP_MOST_TRIALS = 4096, SWEEP_POINTS = 256 };

/* An option, and its values; or, n = 0, a range, in which numbers are drawn, by their logarithms where `log`. */
struct sweep_option {
    char *name, *value[SWEEP_MOST_VALUES];
    int n;
    bool log;
    double least, most;
};
/* Losses are kept at up to SWEEP_POINTS steps: every `every`th. */
struct sweep_trial {
    char *value[SWEEP_MOST_OPTIONS];
    double score, loss, eval_loss;       /* score: eval_loss, or the last loss where nothing is evaluated; INFINITY */
    long long steps, every;
    int code, npoints;                   /* its exit code */
    float points[SWEEP_POINTS];
};
struct sweep {
    const struct options *o;
    char *text;                          /* of the file: names and values lie in it */
    enum sweep_search search;
    long long count, factor, steps;      /* trials; of halving: what is left of each round, its first one's steps */
    int noptions, ntrials;
    struct sweep_option option[SWEEP_MOST_OPTIONS];
    struct sweep_trial *trial;
};

/* Exit codes, after a message where they are not EXIT_FINE. */
int sweep_read(struct sweep *s, const char *path);
int sweep_choose(struct sweep *s, uint64_t seed);        /* the trials */
void sweep_free(struct sweep *s);
/* The trials' places, the best first. */
void sweep_order(const struct sweep *s, int *order);
int sweep_print(const struct sweep *s);
int sweep_draw(const struct sweep *s, const char *path);

#endif
