/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tools/: data to train on. Arrays one axis of which (the first, unless --split-axis says otherwise) is the samples, from files; the order of samples; batches,
 * gathered ahead of time by threads. Functions that can fail write why into `error` (ERROR_SIZE bytes).
 *
 *   data_file     npy, IDX, raw files; gzip
 *   data_zip      npz
 *   data_set      --data and the step's inputs: which array feeds which input
 *   data_axes     --split-axis: where an input's samples are
 *   data_fill     one batch of one array, converted and checked; rows of batches
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
    int64_t dims[TCC_MAX_RANK];
    int axis;                    /* of the samples; -1: none, all batches get the whole */
    int64_t stride;              /* elements from one sample to the next */
    int64_t outer, jump;         /* a sample is `outer` pieces, and so many elements from one to the next */
    double scale, mean, std;     /* (v * scale - mean) / std */
    char name[256];              /* "FILE" or "FILE:ARRAY", for messages */
};

/* What stands after FILE in --data [NAME=]FILE,KEY=VALUE,...; 0: not given. axis: of the input's samples, -1: none (--split-axis). */
struct data_options { enum tcc_dtype dtype; int64_t length, stride, offset, limit; double scale, mean, std; bool scaled; int axis; };

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

/* One array for each input of an entry point. axes: of each input's samples, -1: it has none. */
struct data_set { int n; struct data_array *arrays; const struct tccrt_value_info *inputs; const int *axes; int64_t samples; };
/* Which axes those are: of --split-axis, or as the artifact was compiled. axes[n] is the caller's to free. */
int data_axes(const struct options *o, const struct tccrt_model *m, const char *entry, const struct tccrt_value_info *inputs, int n, int **axes);
/* Arguments of --data (or --eval-data). EXIT_FINE, or an exit code after a message. */
int data_set_open(const struct options *o, enum option_id id, const struct tccrt_value_info *inputs, const int *axes, int n, struct data_set *set);
void data_set_notes(const struct options *o, const struct data_set *set);  /* which element types are converted, to standard error */
void data_set_close(struct data_set *set);

/* Fills `to` with rows of array i of the set; rows[k] is a sample's number. `batch` is for messages. */
bool data_fill(const struct data_set *set, int i, int64_t batch, int64_t n, const int64_t *rows, void *to, char *error);
int64_t data_row_elements(const struct data_array *a);                     /* of a sample; without an axis of samples: of all */
/* The dims but that of the axis, and their number; -1: a rank that has no such axis. */
int data_other_dims(int rank, const int64_t *dims, int axis, int64_t *others);
/* Bytes of input i in a batch; 0: more than there can be. */
size_t data_batch_bytes(const struct data_set *set, int i, int64_t rows);
struct data_rows { void *data; int64_t rows, first; };                     /* a batch's values of one input, and a row of it */
/* n rows of `to` from its first on become those of `from`, or each becomes that one row. */
void data_copy_rows(const struct data_set *set, int i, struct data_rows to, struct data_rows from, int64_t n, bool repeat);

/* Batches of the order that trace_sampler_epoch() gives (compiler/trace.h). */
/* A batch: data[i] has `rows` rows of input i. `error`: why it could not be made, else "". */
struct batch { int64_t rows, number; void **data; char error[ERROR_SIZE]; };
struct loader;
void data_bind(const struct data_set *set, const struct batch *b, struct tcc_tensor *in);     /* in[set->n]: the batch's tensors */
/* Batches [first, ...) of `size` samples of the order; the last one is smaller, or left out with drop_last. The loader keeps
 * `ahead` batches made or in the making; workers 0: the caller makes them. */
struct loader *loader_new(const struct data_set *set, int workers, int ahead, int64_t size);
bool loader_start(struct loader *l, const int64_t *order, int64_t count, bool drop_last, int64_t first, int64_t number);
struct batch *loader_next(struct loader *l);                               /* NULL: the epoch has ended */
void loader_release(struct loader *l, int n);                              /* the n oldest batches that were handed out */
void loader_stop(struct loader *l);                                        /* ends the epoch early */
void loader_free(struct loader *l);

#endif
