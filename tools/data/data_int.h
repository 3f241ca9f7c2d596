/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tools/: data to train on. Arrays one axis of which (the first, unless --split-axis says otherwise) is the
 * samples, from files; the order of samples; batches, gathered ahead of time by threads. Functions that can fail write
 * why into `error` (ERROR_SIZE bytes).
 *
 *   data_file     npy, IDX, raw files; gzip
 *   data_zip      npz
 *   data_words    what stands in --data: the file, its reader, the options (readers.def, options.def)
 *   data_read     which reader takes a file; shards
 *   data_folder   folders of pictures;  data_image: one picture
 *   data_tar      archives of samples (webdataset)
 *   data_csv      tables (csv_int.h)
 *   data_encode   how a column's values become numbers of a row: dates, one number a category, logarithms, scales
 *   data_tables   what training's data were: columns, categories, means, scales; in checkpoints
 *   data_text     text as bytes or tokens;  data_bpe: tokens of a tokenizer.json;  data_cut: the words that it cuts
 *                 text into
 *   data_hdf5     HDF5, by libhdf5
 *   data_set      --data and the step's inputs: which array feeds which input
 *   data_split    --split
 *   data_axes     --split-axis: where an input's samples are
 *   data_fill     one batch of one array, converted and checked; rows of batches
 *   data_loader   batches ahead of time; --skip-bad
 */
#ifndef TCCC_TOOLS_DATA_INT_H
#define TCCC_TOOLS_DATA_INT_H

#include "runtime/tccdata.h"
#include "runtime/tccrt.h"
#include "tools/run/model_int.h"

enum { DATA_CHANNELS = 4 };      /* of a picture, at most */

/* A file in memory: mapped, or unpacked. Arrays share it. */
struct data_file { int refs; unsigned char *bytes; size_t size; bool mapped; };

/* What random choices about a sample depend on: never on threads or ranks. */
struct data_draw { uint64_t seed; int64_t epoch; };

/*
 * Rows that are made when they are asked for: decoded, joined, read by a library. `row` writes the elements of row
 * `row`, of the array's type, and is called by several threads at once; draw NULL: nothing random. `release` ends it
 * with its last user.
 */
struct data_source {
    int refs;
    bool (*row)(const struct data_source *s, int64_t row, const struct data_draw *draw, void *to, char *error);
    /* where people find the row: a file's path; NULL: they have no names */
    const char *(*name)(const struct data_source *s, int64_t row);
    void (*release)(struct data_source *s);
};

struct data_array {
    struct data_file *file;      /* elements in memory, or */
    struct data_source *source;  /* rows that are made; both NULL: the input has no data */
    const unsigned char *at;     /* the first element (of a file) */
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
    int64_t left;                /* of a folder: pictures of kinds that are not read */
    char name[256];              /* "FILE" or "FILE:ARRAY", for messages */
};

/* What stands after FILE in --data [NAME=]FILE,KEY=VALUE,... (options.def); 0 or NULL, of pad -1: not given. axis: of
 * the input's samples, -1: none (--split-axis). Lists and texts are the caller's. */
struct data_options {
    enum tcc_dtype dtype;
    int64_t length, stride, offset, limit, size, resize, pad;
    double scale;
    /* of a picture's channels; else one number */
    struct data_numbers { int n; double at[DATA_CHANNELS]; } means, stds;
    bool scaled;
    int axis;
    unsigned augment;            /* 1 << enum data_augment */
    const char *columns, *missing, *categories, *encode, *tokens, *as, *delimiter;
    bool lenient;                /* --skip-bad: a bad row is a row that fails, not the end */
    struct data_table *table;    /* of the input; NULL: nobody keeps one */
};

enum data_augment { DATA_FLIP, DATA_CROP, DATA_JITTER, DATA_NAUGMENTS };

/* -- Tables: what training's data were (tables.c) ---------------------------------------------------------------- */

enum data_word {
#define ENCODING(word, kind, text) ENCODE_##word,
#include "tools/data/encodings.def"
    DATA_NWORDS
};
/* What encode= says of a column: numbers of a date, or ENCODE_onehot; then a logarithm; then a scale (0: none). */
struct data_encoding { unsigned char nparts, parts[DATA_NWORDS], curve, scale; };
/* Of one number of a row: what values there are, and what they decide. */
struct data_scale { int64_t n; double mean, squares, least, most, subtract, divide; };
/* A column's categories are in ascending order, unless listed. dates: its numbers are seconds since 1970. */
struct data_column {
    char *name;
    bool numbers, dates, listed;
    int nclasses, nscales;
    char **classes;
    double sum;
    int64_t count;
    struct data_encoding encoding;
    struct data_scale *scales;
};
/* Of an input. closed: it is training's, and as it stands; alone: no training's is known, and none is made of this
 * data. read: dtype and the scaling are known. The one column of a folder has no name. */
struct data_table {
    char *input, *missing;
    const char *from;            /* a checkpoint's path, for messages */
    bool closed, alone, read, scaled;
    enum tcc_dtype dtype;
    double scale;
    struct data_numbers means, stds;
    char *tokens;                /* "bytes", or the digest of a tokenizer and its file's name; NULL: not of text */
    int64_t vocabulary;          /* tokens, or what as= makes of them, are below this; 0: not known. Not kept */
    int64_t row[3];              /* of text: how many tokens, the one that fills up, enum data_text; 0: of no text */
    int64_t picture[3];          /* height, width, and what the shorter side became; 0: no pictures */
    int ncolumns;
    struct data_column *columns;
};
/* frozen: data of inputs that have none yet make none. */
struct data_tables { int n; struct data_table **at; bool frozen; const char *from; };

struct data_table *data_table_of(struct data_tables *all, const char *input);      /* of the input; NULL: no memory */
const struct data_table *data_table_find(const struct data_tables *all, const char *input);    /* NULL: none yet */
/* a new one, of numbers; NULL: no memory, too many */
struct data_column *data_table_column(struct data_table *t, const char *name, size_t n);
int data_class_of(const struct data_column *c, const char *name, size_t n);        /* its number; -1: none */
bool data_class_note(struct data_column *c, const char *name, size_t n, char *error);      /* it is one, in order */
bool data_class_list(struct data_column *c, const char *name, size_t n, char *error);      /* it is the next one */
void data_class_names(const struct data_column *c, char *to, size_t room);         /* "a, b, c and 12 more" */

/* encode.c. The words WORD+WORD; false: they make no sense. */
bool data_encoding_read(const char *text, size_t n, struct data_encoding *e, char *error);
void data_encoding_text(const struct data_encoding *e, char *to, size_t room);
bool data_date(const char *text, size_t n, double *seconds);                       /* false: it is none */
int data_column_width(const struct data_column *c);                                /* numbers of a row */
bool data_column_whole(const struct data_column *c);                               /* its parts fit each other */
/* A field's number (of its category, of the date) as numbers of a row; false: it has none (`why`). */
bool data_column_encode(const struct data_column *c, double v, double *out, char *why, size_t room);
bool data_column_scales(struct data_column *c, int n);                             /* n new ones; false: no memory */
/* A value that the scales are found by (room: for a row's numbers); and the end of them. */
void data_column_see(struct data_column *c, double v, double *room);
void data_column_fit(struct data_column *c);

/* A row of the input: how many numbers its columns make (0: it has none), what number k is called, and what it was
 * before encode=, scale=, mean= and std=. */
int64_t data_table_width(const struct data_table *t);
void data_table_name(const struct data_table *t, int64_t k, char *to, size_t room);
double data_table_decode(const struct data_table *t, int64_t k, double v);
/* scale=, mean= and std= of elements of that type: kept in an open table; of a closed one they become training's.
 * False: they are others. */
bool data_table_scaling(const char *path, struct data_options *own, enum tcc_dtype dtype, char *error);
/* Text's tokens: `digest` of the tokenizer (NULL: bytes), `file` it is from. False: training had others. */
bool data_table_tokens(const char *path, struct data_table *t, const char *digest, const char *file, char *error);
/* What a text's row is: its tokens, 1 for each and 0 for padding, or how many there are; and on which side it is filled
 * up and cut. */
enum data_text { TEXT_TOKENS, TEXT_MASK, TEXT_LENGTHS, TEXT_WHAT = 3, TEXT_PADS_LEFT = 4, TEXT_CUTS_LEFT = 8 };
/* length=, pad= and as= of a column of text, as they came to be: kept, or training's. */
bool data_table_row(const char *path, struct data_table *t, const int64_t is[3], char *error);
/* size= and resize= of pictures that are not given are training's; and what they came to is kept, or was training's. */
void data_table_size(const struct data_table *t, struct data_options *own);
bool data_table_picture(const char *path, struct data_table *t, const int64_t is[3], char *error);
void data_tables_close(struct data_tables *all);
/* categories of open ones, to standard error */
void data_tables_notes(const struct options *o, const struct data_tables *all);
char *data_tables_text(const struct data_tables *all);                             /* malloc'ed; NULL: no memory */
/* what it has is closed; false: damaged */
bool data_tables_parse(struct data_tables *all, const char *text);
/* Those of a checkpoint, if it has any. `path` must outlive them. EXIT_FINE, or an exit code after a message. */
int data_tables_load(const struct options *o, const char *path, struct data_tables *all);
/* Those that the artifact carries (tccc --embed-meta), if it does. The same. */
int data_tables_embedded(const struct options *o, const struct tccrt_model *m, struct data_tables *all);
void data_tables_free(struct data_tables *all);

/* -- Files --------------------------------------------------------------------------------------------------------- */

struct data_file *data_map(const char *path, char *error);                 /* .gz is unpacked */
/* the exit status of a data_map() that has just failed: the file's, or the machine's */
int data_map_code(void);
struct data_file *data_take(unsigned char *bytes, size_t size, char *error);       /* takes over malloc'ed memory */
void data_unref(struct data_file *f);
/* An array from a file's content (.npy, IDX, or raw elements), with the options applied. `info`: the input that it is
 * for. */
bool data_array_read(const char *path, struct data_file *f, const struct data_options *o,
                     const struct tccrt_value_info *info,
                     struct data_array *out, char *error);
/* The same of the array `name` of an .npz file; NULL name: the only one. *found false: there is none (`error` lists
 * those that are). */
bool data_zip_is(const struct data_file *f);
bool data_zip_array(const char *path, struct data_file *f, const char *name, const struct data_options *o,
                    const struct tccrt_value_info *info, struct data_array *out, bool *found, char *error);

char **data_zip_names(const struct data_file *f, int *n);                  /* without .npy; free() each and the list */

/* -- Readers ------------------------------------------------------------------------------------------------------ */

/* Columns are found, and which of them are of numbers; then the others' categories; then scales; then rows are read. */
enum data_phase { PHASE_COLUMNS, PHASE_CLASSES, PHASE_SCALES, PHASE_ROWS };

/* What an input is to get. `name`: what stood after the file (FILE:NAME), or NULL. `named`: --data NAME=FILE, rather
 * than FILE for all inputs. */
struct data_request {
    const char *path, *name;
    struct data_file *file;      /* mapped; NULL: a folder, a pattern of names */
    const struct data_options *o;
    const struct tccrt_value_info *info;
    bool named;
    int ninputs;                 /* of the step: a file for all inputs may hold columns of their names */
    const struct tccrt_value_info *inputs;
    const struct data_words *words;  /* all arguments: what one names of a file no other input gets unasked */
    int nwords;
    enum data_phase phase;       /* what to do: a reader that looks for categories does so over all files first */
    int code;                    /* of a failure: EXIT_DATA, unless a reader says that the environment is to blame */
};

enum data_reader_id {
#define READER(id, prefix, suffixes, keys, all, looks, text) READER_##id,
#include "tools/data/readers.def"
    NREADERS
};

/* Each reader is data_open_ID(). *found false: the file has nothing for this input. */
#define READER(id, prefix, suffixes, keys, all, looks, text) \
    bool data_open_##id(struct data_request *q, struct data_array *out, bool *found, char *error);
#include "tools/data/readers.def"

/* --data's words: FILE[:NAME][,KEY=VALUE]... with a reader's prefix before it. `text` is the copy that all texts point
 * into. input: the one that NAME= says, -1: none. reader -1: what the file holds decides. */
struct data_words { char *text; const char *path, *name; int input, reader; struct data_options o; };
/* EXIT_FINE, or an exit code after a message; `given` is the whole argument. words->text is to be freed in any case. */
int data_words_read(const struct options *o, const char *text, const char *given, struct data_words *words);
/* All arguments of the option, for these inputs; *all is there in any case, and the caller's. */
int data_words_all(const struct options *o, enum option_id id, const struct tccrt_value_info *inputs, int n,
                   struct data_words **all);
void data_words_free(struct data_words *all, int n);
void data_list_inputs(const struct tccrt_value_info *inputs, int n, char *to, size_t room);
/* Names in lists, as A+B of COLUMN:A+B;COLUMN:...; a backslash takes the next character as it is. How long the one at
 * `s` is, up to one of `ends`; what stands behind it if it begins with that name, else NULL. */
size_t data_item(const char *s, const char *ends);
const char *data_item_behind(const char *s, const char *ends, const char *name, size_t n);
/* Does the reader heed the options given? Else an exit code after a message. */
int data_words_check(const struct options *o, const struct data_words *words, int reader, const char *given);
/* a pattern of names, and no file of that name */
bool data_words_glob(const char *path);
/* The reader of a file by its prefix (words->reader), content or suffix. */
int data_reader_of(const char *path, const struct data_file *f, int asked);
bool data_reader_feeds_all(int reader);
/* The array that q->path holds for q->info, of one file or of all that a pattern matches; *found as above. */
bool data_read(struct data_request *q, int reader, struct data_array *out, bool *found, char *error);
/* What the options say of an array whose type and shape are known: its samples, scale, limit. */
bool data_apply(const char *path, const struct data_options *o, const struct tccrt_value_info *info,
                struct data_array *a, char *error);
/* An array of rows that `s` makes, dims[0] of them; takes over s. The options apply. */
bool data_from_source(const struct data_request *q, struct data_source *s, enum tcc_dtype dtype, int rank,
                      const int64_t *dims,
                      struct data_array *out, char *error);
/* An array of elements in memory, which become the array's file. */
bool data_from_memory(const struct data_request *q, void *elements, enum tcc_dtype dtype, int rank,
                      const int64_t *dims, struct data_array *out,
                      char *error);
void data_release(struct data_array *a);

/* -- Pictures */

/* What becomes of pictures. augment: 1 << enum data_augment, in training. */
struct data_picture { struct tccdata_picture as; unsigned augment; };
/* The picture that the request's input takes; dims: of a row, 3. */
bool data_picture_for(const struct data_request *q, struct data_picture *p, int64_t *dims, char *error);
/* Decodes a file's bytes into a row. `sample` and draw: what is random; draw NULL: nothing. `name` is for messages. */
bool data_picture_row(const struct data_picture *p, const char *name, const unsigned char *bytes, size_t size,
                      int64_t sample,
                      const struct data_draw *draw, void *to, char *error);
/* What --image-decode says of training's pictures: CKPT, keys as behind a folder, or both; what none of them says is 0,
 * std 1. EXIT_FINE, or an exit code after a message. */
int data_picture_told(const struct options *o, struct tccdata_picture *p);
bool data_is_picture(const char *extension);                                /* of a file's name, without the dot */
bool data_is_other_picture(const char *extension);                          /* one of a kind that is not read */
/* Is it an input that takes pictures (floats or bytes of rank 4), or class numbers (integers of rank 1)? */
bool data_takes_pictures(const struct tccrt_value_info *info);
bool data_takes_classes(const struct tccrt_value_info *info);

/* -- Tokens */
/* How a tokenizer.json normalises text and cuts it into words (cut.c). */
struct data_cut;
struct json_t;
/* NULL after `error`: what is not supported, by name; *code: EXIT_ENVIRONMENT where a library is missing, else left
 * alone. */
struct data_cut *data_cut_open(struct json_t *root, const char *path, char *error, int *code);
/* symbols of words are bytes, not characters */
bool data_cut_bytes(const struct data_cut *c);
typedef bool data_word_fn(void *user, const unsigned char *s, size_t n, char *error);
/* Calls `word` for each word of n bytes of valid UTF-8; start: they begin the text. For one thread at a time. False:
 * word's, or after `error`. */
bool data_cut_words(const struct data_cut *c, const unsigned char *s, size_t n, bool start, data_word_fn *word,
                    void *user, char *error);
void data_cut_free(struct data_cut *c);
/* the code point at s, and its length; 0: not UTF-8 */
int data_utf8(const unsigned char *s, size_t n, uint32_t *c);
bool data_is_space(uint32_t c);
enum data_kind { DATA_LETTER, DATA_NUMBER, DATA_SPACE, DATA_OTHER };
enum data_kind data_kind_of(uint32_t c);
bool data_may_compose(uint32_t c);   /* NFC_Quick_Check is No or Maybe (Unicode Standard Annex 15) */
bool data_is_mark(uint32_t c);       /* with a combining class */

struct data_bpe;
struct data_bpe *data_bpe_open(const char *path, char *error, int *code);   /* of a tokenizer.json; *code as above */
/* Appends the tokens of valid UTF-8; *ids is malloc'ed and grows. For one thread at a time. False after `error`. */
bool data_bpe_encode(const struct data_bpe *b, const unsigned char *text, size_t n, uint32_t **ids, size_t *count,
                     char *error);
int64_t data_bpe_size(const struct data_bpe *b);               /* one more than the largest token */
/* What the file says of rows: how many tokens (0: nothing), the one that fills up, the sides (enum data_text). */
void data_bpe_row(const struct data_bpe *b, int64_t row[3]);
const char *data_bpe_digest(const struct data_bpe *b);         /* of its vocabulary, and of how it cuts */
void data_bpe_free(struct data_bpe *b);

/* -- Sets ---------------------------------------------------------------------------------------------------------- */

/* One array for each input of an entry point. axes: of each input's samples, -1: it has none. rows: which rows of the
 * arrays the samples are; NULL: all. */
struct data_set {
    int n;
    struct data_array *arrays;
    const struct tccrt_value_info *inputs;
    const int *axes;
    int64_t samples;
    int64_t *rows;
    struct data_tables *tables;
};
/* Which axes those are: of --split-axis, or as the artifact was compiled. axes[n] is the caller's to free. */
int data_axes(const struct options *o, const struct tccrt_model *m, const char *entry,
              const struct tccrt_value_info *inputs, int n, int **axes);
/* Arguments of --data (or --eval-data). EXIT_FINE, or an exit code after a message. `tables`: training's, or those that
 * become so. */
int data_set_open(const struct options *o, enum option_id id, const struct tccrt_value_info *inputs, const int *axes,
                  int n,
                  struct data_tables *tables, struct data_set *set);
/* Takes a share of the samples out of `set` into `held`, which feeds the n inputs of an entry point: by a permutation
 * of the seed, or the last ones where samples overlap. */
int data_set_split(const struct options *o, struct data_set *set, double share, uint64_t seed,
                   const struct tccrt_value_info *inputs,
                   const int *axes, int n, struct data_set *held);
/* which element types are converted, to standard error */
void data_set_notes(const struct options *o, const struct data_set *set);
void data_set_close(struct data_set *set);

/* Fills `to` with rows of array i of the set; rows[k] is a sample's number. `batch` is for messages; draw NULL: nothing
 * is random. *bad: the k of the row that could not be made. */
struct data_fill {
    const struct data_set *set;
    int64_t batch, n;
    const int64_t *rows;
    const struct data_draw *draw;
    int64_t bad;
};
bool data_fill(struct data_fill *f, int i, void *to, char *error);
int64_t data_set_row(const struct data_set *set, int64_t sample);          /* the row of the arrays that it is */
const char *data_set_name(const struct data_set *set, int64_t sample);     /* its file; NULL: it has no name */
/* of a sample; without an axis of samples: of all */
int64_t data_row_elements(const struct data_array *a);
/* The dims but that of the axis, and their number; -1: a rank that has no such axis. */
int data_other_dims(int rank, const int64_t *dims, int axis, int64_t *others);
/* Bytes of input i in a batch; 0: more than there can be. */
size_t data_batch_bytes(const struct data_set *set, int i, int64_t rows);
/* a batch's values of one input, and a row of it */
struct data_rows { void *data; int64_t rows, first; };
/* n rows of `to` from its first on become those of `from`, or each becomes that one row. */
void data_copy_rows(const struct data_set *set, int i, struct data_rows to, struct data_rows from, int64_t n,
                    bool repeat);

/* Batches of the order that trace_sampler_epoch() gives (compiler/trace.h). */
/* A batch: data[i] has `rows` rows of input i. `error`: why it could not be made, else "". */
struct batch { int64_t rows, number; void **data; char error[ERROR_SIZE]; };
struct loader;
/* in[set->n]: the batch's tensors */
void data_bind(const struct data_set *set, const struct batch *b, struct tcc_tensor *in);
/* Batches [first, ...) of `size` samples of the order; the last one is smaller, or left out with drop_last. The loader
 * keeps `ahead` batches made or in the making; workers 0: the caller makes them. skip_bad: so many samples that can't
 * be read are replaced by those after them. */
struct loader *loader_new(const struct data_set *set, int workers, int ahead, int64_t size, int64_t skip_bad);
/* What is random in the epoch's samples; draw NULL: nothing. */
struct loader_epoch {
    const int64_t *order;
    int64_t count;
    bool drop_last;
    int64_t first, number;
    const struct data_draw *draw;
};
bool loader_start(struct loader *l, const struct loader_epoch *e);
struct batch *loader_next(struct loader *l);                               /* NULL: the epoch has ended */
/* the n oldest batches that were handed out */
void loader_release(struct loader *l, int n);
void loader_stop(struct loader *l);                                        /* ends the epoch early */
/* Samples that were replaced so far, each counted once, and why the first was. */
int64_t loader_bad(struct loader *l, const char **first);
/* When the last batches were made, in ms of now_ms(), the latest last; worker -1: by the caller. How many, at most
 * LOADER_SPANS. */
enum { LOADER_SPANS = 64 };
struct loader_span { double start, end; int64_t batch; int worker; };
int loader_spans(struct loader *l, struct loader_span *to);
void loader_free(struct loader *l);

#endif
