/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a ZIP file (PKWARE's APPNOTE, 6.3): where each stored entry lies.
 *
 * torch.export.save stores every entry, so that tensors can be used where they lie. Sizes come from the central
 * directory (local headers may leave them to a descriptor behind the data); where data begins, only the local header
 * says. Both are bounded by the file.
 */
#include "compiler/pt2/archive_int.h"

#include <stdlib.h>
#include <string.h>

#define END_SIZE 22
#define CENTRAL_SIZE 46
#define LOCAL_SIZE 30
#define LOCATOR64_SIZE 20
#define END64_SIZE 56
#define MAX_ENTRIES 1000000

struct zip {
    struct ir_ctx *ctx;
    const struct ir_where *where;
    const uint8_t *data;
    uint64_t size;
};

static uint64_t le(const uint8_t *at, int bytes)
{
    uint64_t v = 0;
    for (int k = bytes - 1; k >= 0; k--)
        v = v << 8 | at[k];
    return v;
}

static bool bad(const struct zip *z, const char *what)
{
    return ir_error(z->ctx, z->where, "not a .pt2 archive that can be read: %s", what);
}

static bool signature(const struct zip *z, uint64_t at, uint64_t bytes, const char *magic)
{
    return at <= z->size && z->size - at >= bytes && !memcmp(z->data + at, magic, 4);
}

/* The record at the end of the file, behind which only a comment stands; in big files it refers to another. */
static bool find_directory(const struct zip *z, uint64_t *at, uint64_t *bytes, uint64_t *count)
{
    uint64_t least = z->size > END_SIZE + 0xffff ? z->size - END_SIZE - 0xffff : 0, end = z->size - END_SIZE;
    if (z->size < END_SIZE)
        return bad(z, "it is too short for a zip file");
    while (!signature(z, end, END_SIZE, "PK\5\6")) {
        if (end-- == least)
            return bad(z, "the end of the zip file is missing (cut off, or not a zip file)");
    }
    *count = le(z->data + end + 10, 2);
    *bytes = le(z->data + end + 12, 4);
    *at = le(z->data + end + 16, 4);
    if (end < LOCATOR64_SIZE || !signature(z, end - LOCATOR64_SIZE, LOCATOR64_SIZE, "PK\6\7"))
        return true;
    uint64_t end64 = le(z->data + end - LOCATOR64_SIZE + 8, 8);
    if (!signature(z, end64, END64_SIZE, "PK\6\6"))
        return bad(z, "its 64-bit directory is not where it says");
    *count = le(z->data + end64 + 32, 8);
    *bytes = le(z->data + end64 + 40, 8);
    *at = le(z->data + end64 + 48, 8);
    return true;
}

/* Sizes and offsets of 32 set bits stand in an extra field, in this order, and only they. */
static bool read_wide(const struct zip *z, const uint8_t *extra, uint64_t bytes, uint64_t *const *fields, int n)
{
    for (uint64_t at = 0; at + 4 <= bytes;) {
        uint64_t length = le(extra + at + 2, 2), from = at + 4;
        if (length > bytes - from)
            break;
        for (int k = 0; le(extra + at, 2) == 1 && k < n; k++) {
            if (*fields[k] != UINT32_MAX)
                continue;
            if (from + 8 > at + 4 + length)
                return bad(z, "a 64-bit size is cut off");
            *fields[k] = le(extra + from, 8);
            from += 8;
        }
        at += 4 + length;
    }
    return true;
}

/* Where the data of an entry begins, whose local header is at `local`. */
static bool place(const struct zip *z, uint64_t local, struct pt2_entry *e)
{
    if (!signature(z, local, LOCAL_SIZE, "PK\3\4"))
        return bad(z, "an entry is not where the directory says");
    e->offset = local + LOCAL_SIZE + le(z->data + local + 26, 2) + le(z->data + local + 28, 2);
    if (e->offset > z->size || e->size > z->size - e->offset)
        return bad(z, "an entry runs past the end of the file (cut off?)");
    return true;
}

static bool read_entry(const struct zip *z, uint64_t *at, struct pt2_entry *e)
{
    if (!signature(z, *at, CENTRAL_SIZE, "PK\1\2"))
        return bad(z, "its directory is damaged");
    const uint8_t *c = z->data + *at;
    uint64_t name = le(c + 28, 2), extra = le(c + 30, 2), local = le(c + 42, 4), packed = le(c + 20, 4);
    e->size = le(c + 24, 4);
    *at += CENTRAL_SIZE;
    if (name + extra + le(c + 32, 2) > z->size - *at)
        return bad(z, "its directory is cut off");
    if (!read_wide(z, z->data + *at + name, extra, (uint64_t *const[]){&e->size, &packed, &local}, 3))
        return false;
    if (memchr(z->data + *at, 0, name))
        return bad(z, "an entry's name holds a zero");
    char *text = ir_alloc(z->ctx, name + 1);
    memcpy(text, z->data + *at, name);
    const char *inner = strchr(text, '/');
    e->name = ir_intern(z->ctx, inner ? inner + 1 : text);
    *at += name + extra + le(c + 32, 2);
    if (le(c + 8, 2) & 1)
        return bad(z, "it is encrypted");
    if (le(c + 10, 2) || packed != e->size)
        return bad(z, "its entries are compressed; torch.export.save stores them, so store them again (zip -0)");
    return place(z, local, e);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pt2_entry *)a)->name, ((const struct pt2_entry *)b)->name);
}

struct pt2_entry *pt2_zip(struct ir_ctx *ctx, const struct ir_where *where, const uint8_t *data, uint64_t size, int *n)
{
    struct zip z = {.ctx = ctx, .where = where, .data = data, .size = size};
    uint64_t at = 0, bytes = 0, count = 0;
    *n = 0;
    if (!find_directory(&z, &at, &bytes, &count))
        return NULL;
    if (count > MAX_ENTRIES || count > size / CENTRAL_SIZE)
        return bad(&z, "its directory has more entries than the file has room for"), NULL;
    struct pt2_entry *entries = IR_NEWN(ctx, count + 1, struct pt2_entry);
    for (uint64_t k = 0; k < count; k++) {
        if (!read_entry(&z, &at, &entries[k]))
            return NULL;
    }
    qsort(entries, count, sizeof *entries, by_name);
    for (uint64_t k = 1; k < count; k++) {
        if (entries[k - 1].name == entries[k].name)
            return bad(&z, "two entries have one name"), NULL;
    }
    *n = (int)count;
    return entries;
}
