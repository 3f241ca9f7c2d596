/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt_int.h - between the files of checkpoints. Artifacts embed none of them: nothing that runs a plan refers to them.
 *
 *   ckpt_json    the header's JSON, bounded
 *   ckpt_names   parameters' names as PyTorch's wrappers change them
 *   ckpt_read    a safetensors file as a list of tensors over a mapping
 *   ckpt_write   a list of tensors to a file, at once or not at all
 *   ckpt_block   tensors in blocks, from wherever they lie
 *   ckpt_parts   several files that are one: a part a stage, and an index
 *   ckpt         a session's state to and from such files
 */
#ifndef TCC_RUNTIME_CKPT_CKPT_INT_H
#define TCC_RUNTIME_CKPT_CKPT_INT_H

#include "base/checkpoint.h"
#include "runtime/rt_int.h"

#define CKPT_MAX_HEADER ((size_t)100 << 20)      /* as in the reference implementation */
#define CKPT_MAX_DEPTH 32

/* A tensor as the header describes it. */
struct ckpt_entry { const char *name; const char *dtype; int rank; int64_t dims[TCC_MAX_RANK]; uint64_t first, last; };

struct ckpt_header {
    struct ckpt_entry *entries;
    int nentries;
    struct tccrt_pair *meta;
    int nmeta;
    char *pool;                  /* the decoded strings */
};
/* Parses the header's text: TCC_OK, TCC_EINPUT or TCC_EENV. On failure `why` (256 bytes) says what is wrong with it and
 * nothing is left to free. */
int ckpt_json(struct ckpt_header *h, const char *text, size_t size, char *why);
void ckpt_json_free(struct ckpt_header *h);

int ckpt_by_name(const void *a, const void *b);              /* orders struct tccrt_named */
/* The names of element types in files; NULL or TCC_NONE: there is none. */
const char *ckpt_dtype_name(int dtype);

struct tccrt_tensors {
    const uint8_t *data;         /* the whole file */
    size_t size;
    bool mapped;
    struct tccrt_named *tensors; /* by name */
    int ntensors;
    struct ckpt_header header;
    const char *digest, *format; /* that its metadata have; NULL: none */
    struct tccrt_tensors **parts; /* of an index: whose tensors these are */
    int nparts;
};
/* The same from memory, which must outlive the result; `what` is for messages. */
int tcr_tensors_parse(const char *what, const uint8_t *data, size_t size, struct tccrt_tensors **out);
/* fn() on the tensor's bytes in order: all at once; or, where it is one of the state variables that session s (NULL:
 * none) has on a device (t->data is where it lies there), in blocks as they come from it. Stops where fn() doesn't
 * return TCC_OK. */
int ckpt_each_block(struct tccrt_session *s, const struct tcc_tensor *t, int (*fn)(void *user, const void *data,
                    size_t n), void *user);

/* One file, whatever it says about parts. */
int ckpt_open_file(const char *path, struct tccrt_tensors **out);
/* Writes a file at once or not at all; its digest. s: the session whose state is among the tensors, or NULL. */
int ckpt_write(struct tccrt_session *s, const char *path, int n, const struct tccrt_named *tensors, int nmeta,
               const struct tccrt_pair *meta, char digest[CKPT_DIGEST]);

/* -- parts.c */
int ckpt_nparts(const struct tccrt_tensors *f);              /* that the file names as an index; 0: it is none */
int ckpt_join(const char *path, struct tccrt_tensors *f);    /* opens an index's parts: f then has all their tensors */
/* ckpt_write, and the parts that PATH named before go. */
int ckpt_replace(struct tccrt_session *s, const char *path, int n, const struct tccrt_named *tensors, int nmeta,
                 const struct tccrt_pair *meta);
/* A set of n parts for PATH: a letter that the set there doesn't use, the parts (k from 0), then the index. */
char ckpt_other_set(const char *path);
int ckpt_write_part(struct tccrt_session *s, const char *path, char set, int k, int n, int ntensors,
                    const struct tccrt_named *tensors, int nmeta,
                    const struct tccrt_pair *meta, char digest[CKPT_DIGEST]);
int ckpt_write_index(const char *path, char set, int n, const char (*digests)[CKPT_DIGEST], int nmeta,
                     const struct tccrt_pair *meta);

#endif
