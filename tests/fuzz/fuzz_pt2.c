/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: programs of torch.export, from the archive to a verified module.
 *
 * A change that moves bytes leaves a ZIP file whose directory lies, and what is refused there never reaches the JSON
 * inside. So each input is read twice: as it is, and with a directory made anew of the local headers that are still
 * there, with what lies between two of them as an entry's data.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/import/frontend.h"
#include "tests/fuzz/fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LOCAL = 30, CENTRAL = 46, END = 22, MAX_ENTRIES = 64, MAX_NAME = 200 };

struct bytes {
    uint8_t *at;
    size_t n, room;
};

static void put(struct bytes *b, const void *data, size_t n)
{
    if (b->n + n > b->room) {
        uint8_t *more = realloc(b->at, b->room = 2 * (b->n + n) + 4096);
        if (!more)
            abort();
        b->at = more;
    }
    if (n)
        memcpy(b->at + b->n, data, n);
    b->n += n;
}

static void put_le(struct bytes *b, uint64_t v, int bytes)
{
    for (int k = 0; k < bytes; k++, v >>= 8)
        put(b, &(uint8_t){(uint8_t)v}, 1);
}

static unsigned le16(const uint8_t *at)
{
    return at[0] | (unsigned)at[1] << 8;
}

static const uint8_t *next(const uint8_t *at, const uint8_t *end, const char *magic)
{
    const uint8_t *found = at < end ? memmem(at, (size_t)(end - at), magic, 4) : NULL;
    return found ? found : end;
}

/* A local header without its extra field (directory: one of the directory, for an entry at `local`). */
static void put_header(struct bytes *to, const uint8_t *name, size_t n, size_t size, bool directory, size_t local)
{
    put(to, directory ? "PK\1\2" : "PK\3\4", 4);
    put_le(to, 20, directory ? 4 : 2);
    put_le(to, 0, 12); /* flags, method, time, date, checksum */
    put_le(to, size, 4);
    put_le(to, size, 4);
    put_le(to, n, 2);
    put_le(to, 0, directory ? 12 : 2);
    if (directory)
        put_le(to, local, 4);
    put(to, name, n);
}

static struct bytes repaired(const uint8_t *data, size_t size)
{
    struct bytes to = {0}, directory = {0};
    const uint8_t *end = data + size, *stop = next(data, end, "PK\1\2");
    int count = 0;

    for (const uint8_t *at = next(data, stop, "PK\3\4"); at < stop && count < MAX_ENTRIES;) {
        const uint8_t *after = next(at + 4, stop, "PK\3\4"), *descriptor = next(at + 4, after, "PK\7\10");
        size_t room = (size_t)(after - at), n = room > LOCAL ? le16(at + 26) : 0,
               extra = room > LOCAL ? le16(at + 28) : 0;

        if (room > LOCAL && n && n <= MAX_NAME && LOCAL + n + extra <= (size_t)(descriptor - at)) {
            const uint8_t *from = at + LOCAL + n + extra;
            size_t bytes = (size_t)(descriptor - from);

            put_header(&directory, at + LOCAL, n, bytes, true, to.n);
            put_header(&to, at + LOCAL, n, bytes, false, 0);
            put(&to, from, bytes);
            count++;
        }
        at = after;
    }
    size_t start = to.n;
    put(&to, directory.at, directory.n);
    put(&to, "PK\5\6", 4);
    put_le(&to, 0, 4);
    put_le(&to, (uint64_t)count, 2);
    put_le(&to, (uint64_t)count, 2);
    put_le(&to, directory.n, 4);
    put_le(&to, start, 4);
    put_le(&to, 0, 2);
    free(directory.at);
    return to;
}

static struct ir_module *read_program(struct ir_ctx *ctx, const char *path)
{
    return pt2_import(ctx, path, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_import(data, size, read_program);
    struct bytes b = repaired(data, size);
    fuzz_import(b.at, b.n, read_program);
    free(b.at);
    return 0;
}
