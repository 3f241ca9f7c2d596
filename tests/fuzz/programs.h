/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzzers of random programs share (programs.c): a process for each, reduction, the command line. */
#ifndef TCCC_TESTS_FUZZ_PROGRAMS_H
#define TCCC_TESTS_FUZZ_PROGRAMS_H

#include "tests/fuzz/random_graph.h"

enum { MAX_INPUTS = 6 };

/* Shared with the children: runs of artifacts that gave values, and that refused. */
struct counts {
    long values, refusals;
};

struct job {
    uint64_t seed;
    int nodes;
    uint64_t skip;               /* steps that are left out, a bit each */
    enum random_form form;
    struct counts *counts;
    const char *folder;          /* for the program's files; its text is kept from FOLDER/fuzz.tcir */
    bool quiet;
    bool turn;                   /* one compilation, as the seed says */
};

/* Everything about one program; 0: fine. */
typedef int check_fn(const struct job *j);

int complain(const struct job *j, const char *what, const char *why);        /* 1, and a line where it should be said */
/* of the compiler: the first error, into char[300] */
void keep_message(void *user, int severity, const char *text);
/* is it an error of the inputs, not of the product? */
bool refuses(int status);
void count_run(const struct job *j, bool values);
/* The program: 0 all are fine, 1 some are not, 2 usage. */
int programs_main(int argc, char **argv, const char *name, enum random_form form, check_fn *check);

#endif
