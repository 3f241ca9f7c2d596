/* SPDX-License-Identifier: Apache-2.0 */
/* predict_int.h - tccc-train predict: what a network says of each sample, for people (predict.c) and as a page with
 * pictures (predict_page.c). */
#ifndef TCCC_TOOLS_TRAIN_PREDICT_INT_H
#define TCCC_TOOLS_TRAIN_PREDICT_INT_H

#include "tools/run/run_int.h"

/* Of a sample: the most probable classes, or numbers. name: a class's, from training's data; NULL: it has none. */
struct predicted { int64_t class; const char *name; double value; };
struct predictions {
    const struct options *o;
    const char *output;          /* whose these are */
    bool classes;                /* else a row of numbers */
    bool sigmoid;                /* the loss's: each number becomes a probability by itself */
    int64_t samples, tokens;     /* rows of a sample: one, or one a token */
    int64_t *used;               /* [samples]: rows that are not of padding */
    bool pads_left;              /* which lies before them */
    int each;                    /* of a row */
    struct predicted *at;        /* [samples * tokens, each] */
    const struct data_table *target;     /* what training had for it; NULL: not known, or of other numbers */
    const struct run_results *results;
};

int predict_run(const struct options *o);
/* The file of a sample, or its number from 1, in to[64]. */
const char *predict_sample(const struct predictions *p, int64_t sample, char *to);
bool predict_pads(const struct predictions *p, int64_t row);     /* is it of padding? */
/* "cat", or the class's number, in to[64]. */
const char *predict_class(const struct predicted *x, char *to);
/* What stands above column k of the numbers, in to[TEXT]. */
enum { PREDICT_TEXT = 256 };
void predict_head(const struct predictions *p, int k, char *to);
void predict_page(FILE *out, const struct predictions *p);

#endif
