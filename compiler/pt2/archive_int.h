/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to compiler/pt2: a .pt2 archive as a table of entries, its program as JSON, its tensors as ranges of the
 * mapped file.
 *
 * The container is a ZIP whose entries are stored, not compressed (zip.c); names are given without their common first
 * folder. Nothing here runs or unpacks a pickle. What the archive says is checked against its bytes before anything is
 * read.
 */
#ifndef TCCC_PT2_ARCHIVE_INT_H
#define TCCC_PT2_ARCHIVE_INT_H

#include <jansson.h>

#include "ir/ir.h"

struct pt2_entry {
    const char *name; /* without the first folder; interned */
    uint64_t offset, size;
};

/* Reads the directory of a ZIP file in memory. NULL after a diagnostic at `where`. */
struct pt2_entry *pt2_zip(struct ir_ctx *ctx, const struct ir_where *where, const uint8_t *data, uint64_t size, int *n);

struct pt2_archive {
    struct ir_ctx *ctx;
    struct ir_where where; /* the file */
    struct ir_file *file;
    int n;
    struct pt2_entry *entries; /* ascending by name */
    json_t *program;           /* models/NAME.json */
    json_t *weights, *constants; /* what name lies where; NULL: there are none */
    json_t *dim_names;           /* {symbol: the name that its Dim has}; NULL: none are told */
    VEC(json_t *) held;          /* roots, let go by pt2_close() */
};

/* Opens and checks an archive. False after a diagnostic; pt2_close() follows in any case. */
bool pt2_open(struct pt2_archive *a, struct ir_ctx *ctx, const char *path);
void pt2_close(struct pt2_archive *a);

/*
 * The tensor of that name among the weights (or constants): a reference for the caller. `storage` tells which bytes it
 * has: tensors of one storage and layout are one. NULL after a diagnostic.
 */
struct ir_tensor *pt2_tensor(struct pt2_archive *a, const char *name, bool constant, uint64_t *storage);

/* The element type of a code of the schema (not c10's); TCC_NONE: none that tensors here have. */
enum tcc_dtype pt2_dtype(int64_t code);
/* Of a complex type in a tensor's meta data: that of its parts, which are a last axis of 2; else TCC_NONE. */
enum tcc_dtype pt2_part_type(const json_t *meta);
/* The element type of what holds such a tensor. */
enum tcc_dtype pt2_held_type(const json_t *meta);

/* -- Reading JSON that may hold anything: what is absent or of another kind is NULL, or `otherwise` */

const char *js_string(const json_t *object, const char *key);
int64_t js_int(const json_t *object, const char *key, int64_t otherwise);
json_t *js_object(const json_t *object, const char *key);
json_t *js_array(const json_t *object, const char *key);
/* A union is an object of one key. Its key and its value; NULL: it is none. */
const char *js_union(json_t *object, json_t **value);
/* {"as_int": n}: a size that is a constant */
bool js_size(const json_t *size, int64_t *value);

#endif
