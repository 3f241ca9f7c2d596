/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tools/: data to train on. Arrays whose first axis is the samples, from files; the order of samples; batches,
 * gathered ahead of time by threads. Functions that can fail write why into `error` (ERROR_SIZE bytes).
 *
 *   data_file     npy, IDX, raw files; gzip
 *   data_zip      npz
 *   data_set      --data and the step's inputs: which array feeds which input
 *   data_fill     one batch of one array, converted and checked
 *   data_loader   batches ahead of time
 */
#ifndef TCCC_TOOLS_DATA_INT_H
#define TCCC_TOOLS_DATA_INT_H

#include "runtime/tccrt.h"
#include "tools/model_int.h"

/* A file in memory: mapped, or unpacked. Arrays share it. */
struct data_file { int refs; unsigned char *bytes; size_t size; bool mapped; };

struct data_array {
    struct data_file *file;
    const unsigned char *at;     /* the first element */
    enum tcc_dtype dtype;
    bool swap;                   /* of the other byte order */
    bool windows;                /* raw: samples may overlap */
    bool reshape;                /* knows nothing of channels: a row of as many elements will do */
    bool scaled;                 /* integers may feed an input of floats */
    int rank;
    int64_t dims[TCC_MAX_RANK];  /* dims[0]: samples */
    int64_t stride;              /* elements from one sample to the next */
    double scale, mean, std;     /* (v * scale - mean) / std */
    char name[256];              /* "FILE" or "FILE:ARRAY", for messages */
};

/* What stands after FILE in --data [NAME=]FILE,KEY=VALUE,...; 0: not given. */
struct data_options { enum tcc_dtype dtype; int64_t length, stride, offset, limit; double scale, mean, std; bool scaled; };

struct data_file *data_map(const char *path, char *error);                 /* .gz is unpacked */
struct data_file *data_take(unsigned char *bytes, size_t size, char *error);       /* takes over malloc'ed memory */
void data_unref(struct data_file *f);
/* An array from a file's content (.npy, IDX, or raw elements), with the options applied. `info`: the input that it is for. */
bool data_array_read(const char *path, struct data_file *f, const struct data_options *o, const struct tccrt_value_info *info,
                     struct data_array *out, char *error);
/* The same of the array `name` of an .npz file; NULL name: the only one. *found false: there is none (`error` lists those that are). */
bool data_zip_is(const struct data_file *f);
bool data_zip_array(const char *path, struct data_file *f, const char *name, const struct data_options *o,
                    const struct tccrt_value_info *info, struct data_array *out, bool *found, char *error);

char **data_zip_names(const struct data_file *f, int *n);                  /* without .npy; free() each and the list */

/* One array for each input of an entry point. */
struct data_set { int n; struct data_array *arrays; const struct tccrt_value_info *inputs; int64_t samples; };
/* Arguments of --data (or --eval-data). EXIT_FINE, or an exit code after a message. */
int data_set_open(const struct options *o, enum option_id id, const struct tccrt_value_info *inputs, int n, struct data_set *set);
void data_set_notes(const struct options *o, const struct data_set *set);  /* which element types are converted, to standard error */
void data_set_close(struct data_set *set);

/* Fills `to` with rows of array i of the set; rows[k] is a sample's number. `batch` is for messages. */
bool data_fill(const struct data_set *set, int i, int64_t batch, int64_t n, const int64_t *rows, void *to, char *error);
int64_t data_row_elements(const struct data_array *a);

/* Batches of the order that trace_sampler_epoch() gives (compiler/trace.h). */
/* A batch: data[i] has `rows` rows of input i. `error`: why it could not be made, else "". */
struct batch { int64_t rows, number; void **data; char error[ERROR_SIZE]; };
struct loader;
/* Batches [first, ...) of `size` samples of the order; the last one is smaller, or left out with drop_last. The loader keeps
 * `ahead` batches made or in the making; workers 0: the caller makes them. */
struct loader *loader_new(const struct data_set *set, int workers, int ahead, int64_t size);
bool loader_start(struct loader *l, const int64_t *order, int64_t count, bool drop_last, int64_t first, int64_t number);
struct batch *loader_next(struct loader *l);                               /* NULL: the epoch has ended */
void loader_release(struct loader *l, int n);                              /* the n oldest batches that were handed out */
void loader_stop(struct loader *l);                                        /* ends the epoch early */
void loader_free(struct loader *l);

#endif
