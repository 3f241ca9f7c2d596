/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tccc-ckpt.
 *
 *   tccc-ckpt   list, diff, convert, average
 *   ckpt_npz    files of tensors as lists: .safetensors, .npz
 *   ckpt_onnx   trained weights back into a model
 */
#ifndef TCCC_TOOLS_CKPT_TOOL_INT_H
#define TCCC_TOOLS_CKPT_TOOL_INT_H

#include "tools/data/data_int.h"

/* Named tensors of a file, with what holds them; until tensors_close. */
struct tensors {
    int n;
    struct tccrt_named *at;
    int nmeta;
    const struct tccrt_pair *meta;
    struct tccrt_tensors *file;  /* .safetensors */
    struct data_file *zip;       /* .npz */
    int narrays;                 /* of it: arrays and names */
    struct data_array *arrays;
    char **names;
    void **owned;                /* data that was made here, n of them or NULL */
};

/* .safetensors or .npz; --use-ema: with averages in the parameters' places. EXIT_FINE, or an exit code after a
 * message. */
int tensors_open(const struct options *o, const char *path, struct tensors *t);
bool npz_is(const char *path);
bool npz_open(const char *path, struct tensors *t, char *error);      /* tensors_close(), whatever it returns */
void tensors_close(struct tensors *t);
bool npz_write(const char *path, int n, const struct tccrt_named *tensors, char *error);
/* Writes the model with the initialisers' values replaced by those of tensors of the same names; *replaced counts
 * them. */
int onnx_export(const struct options *o, const struct tensors *t, const char *model, const char *output, int *replaced);

#endif
