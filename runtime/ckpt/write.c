/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes safetensors files, at once or not at all (safe.h): the new file is synced before it takes the old one's place,
 * and then the folder. Whatever happens meanwhile (a kill, a full disk), PATH holds the old file or the new one.
 * The tensors' bytes go from where they are to the kernel; nothing is copied but what comes from a device, in blocks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/ckpt_int.h"
#include "base/mutant.h"
#include "base/safe.h"

/* -- The header --------------------------------------------------------------------------------------- */

struct text {
    char *at;
    size_t n, room;
    bool failed;
};

static void put(struct text *t, const char *s, size_t n)
{
    if (t->n + n > t->room) {
        size_t room = 2 * (t->n + n) + 256;
        char *grown = realloc(t->at, room);

        if (!grown) {
            t->failed = true;
            return;
        }
        t->at = grown;
        t->room = room;
    }
    memcpy(t->at + t->n, s, n);
    t->n += n;
}

static void puts_(struct text *t, const char *s)
{
    put(t, s, strlen(s));
}

static void put_number(struct text *t, uint64_t v)
{
    char number[24];

    snprintf(number, sizeof number, "%llu", (unsigned long long)v);
    puts_(t, number);
}

static void put_string(struct text *t, const char *s)
{
    char escape[8];

    put(t, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') {
            escape[0] = '\\';
            escape[1] = *s;
            put(t, escape, 2);
        } else if ((unsigned char)*s < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*s);
            put(t, escape, 6);
        } else {
            put(t, s, 1);
        }
    }
    put(t, "\"", 1);
}

static uint64_t bytes_of(const struct tcc_tensor *t)
{
    int64_t n = tcr_elements(t->dtype, t->rank, t->dims);

    return n <= 0 ? 0 : (uint64_t)n * (uint64_t)tcr_dtype_bytes(t->dtype);
}

static void put_tensor(struct text *t, const struct tccrt_named *x, uint64_t at)
{
    put_string(t, x->name);
    puts_(t, ":{\"dtype\":");
    put_string(t, ckpt_dtype_name(x->t.dtype));
    puts_(t, ",\"shape\":[");
    for (int i = 0; i < x->t.rank; i++) {
        if (i)
            put(t, ",", 1);
        put_number(t, (uint64_t)x->t.dims[i]);
    }
    puts_(t, "],\"data_offsets\":[");
    put_number(t, at);
    put(t, ",", 1);
    put_number(t, at + bytes_of(&x->t));
    puts_(t, "]}");
}

/* The length field, and the header padded with blanks so that the data begins at a multiple of 64. */
static int make_header(struct text *t, int n, const struct tccrt_named **order, int nmeta,
                       const struct tccrt_pair *meta, size_t *digits)
{
    uint64_t at = 0, length;

    put(t, "\0\0\0\0\0\0\0\0", 8);
    puts_(t, "{\"__metadata__\":{\"" CKPT_FORMAT_KEY "\":\"" CKPT_FORMAT "\",");
    for (int i = 0; i < nmeta; i++) {
        if (!strcmp(meta[i].key, CKPT_FORMAT_KEY) || !strcmp(meta[i].key, CKPT_DIGEST_KEY)) /* another file's */
            continue;
        put_string(t, meta[i].key);
        put(t, ":", 1);
        put_string(t, meta[i].value);
        put(t, ",", 1);
    }
    puts_(t, "\"" CKPT_DIGEST_KEY "\":\"" CKPT_DIGEST_KIND);
    *digits = t->n;
    puts_(t, "0000000000000000\"}");
    for (int i = 0; i < n; i++) {
        put(t, ",", 1);
        put_tensor(t, order[i], at);
        at += MUTANT(55, bytes_of(&order[i]->t), 0);
    }
    put(t, "}", 1);
    while (!t->failed && t->n % 64)
        put(t, " ", 1);
    if (t->failed)
        return tcr_fail(TCC_EENV, "no memory for the header");
    length = t->n - 8;
    if (length > CKPT_MAX_HEADER)
        return tcr_fail(TCC_EINPUT, "%d tensors are too many for a safetensors file", n);
    for (int i = 0; i < 8; i++)
        t->at[i] = (char)(length >> 8 * i);
    return TCC_OK;
}

/* -- The file ----------------------------------------------------------------------------------------- */

/* What the bytes go to; -1 and errno where it is full. */
struct sink {
    int fd;
    bool bad;
};

static int write_block(void *user, const void *data, size_t n)
{
    struct sink *to = user;

    to->bad = tcr_write_all(to->fd, data, n);
    return to->bad ? TCC_EENV : TCC_OK;
}

static int add_digest(void *user, const void *data, size_t n)
{
    tcr_xxh3_add(user, data, n);
    return TCC_OK;
}

/* The digest of all that will be written, into the header too. */
static int seal(struct tccrt_session *s, struct text *header, size_t digits, int n, const struct tccrt_named **order,
                char digest[CKPT_DIGEST])
{
    struct tcr_xxh3 x;
    int status = TCC_OK;

    tcr_xxh3_begin(&x);
    tcr_xxh3_add(&x, header->at, header->n);
    for (int i = 0; i < n && !status; i++)
        status = ckpt_each_block(s, &order[i]->t, add_digest, &x);
    snprintf(digest, CKPT_DIGEST, CKPT_DIGEST_KIND "%016llx", (unsigned long long)tcr_xxh3_end(&x));
    memcpy(header->at + digits, digest + strlen(CKPT_DIGEST_KIND), CKPT_DIGITS);
    return status;
}

static int write_file(struct tccrt_session *s, const char *path, const struct text *header, int n,
                      const struct tccrt_named **order)
{
    struct tcr_save save;
    int bad = tcr_save_open(&save, path, TCR_SAVE_SYNC), open = !bad, status = TCC_OK;
    struct sink to = {save.fd, bad || tcr_write_all(save.fd, header->at, header->n)};

    for (int i = 0; i < n && !to.bad && !status; i++)
        status = ckpt_each_block(s, &order[i]->t, write_block, &to);
    bad = to.bad || status;
    if (bad && open)
        tcr_save_drop(&save);
    if (status && !to.bad) /* the device's */
        return status;
    if (bad || tcr_save_commit(&save))
        return tcr_fail(TCC_EENV, "%s: cannot be written: %s", path,
                        errno == EBUSY ? "another process is writing it" : strerror(errno));
    return TCC_OK;
}

/* Larger elements first, so that each tensor is aligned to its own; then by name. */
static int by_size(const void *a, const void *b)
{
    const struct tccrt_named *x = *(const struct tccrt_named *const *)a, *y = *(const struct tccrt_named *const *)b;
    int d = tcr_dtype_bytes(y->t.dtype) - tcr_dtype_bytes(x->t.dtype);

    return d ? d : strcmp(x->name, y->name);
}

int ckpt_write(struct tccrt_session *s, const char *path, int n, const struct tccrt_named *tensors, int nmeta,
               const struct tccrt_pair *meta, char digest[CKPT_DIGEST])
{
    const struct tccrt_named **order = calloc((size_t)n + 1, sizeof(void *));
    struct tccrt_named *sorted = calloc((size_t)n + 1, sizeof *sorted);
    struct text header = {0};
    size_t digits = 0;
    int status = order && sorted ? TCC_OK : tcr_fail(TCC_EENV, "%s: no memory", path);

    for (int i = 0; i < n && !status; i++) {
        order[i] = &tensors[i];
        sorted[i] = tensors[i];
        if (!ckpt_dtype_name(tensors[i].t.dtype))
            status = tcr_fail(TCC_EINPUT, "%s: '%s': safetensors files have no element type %s", path, tensors[i].name,
                              tcr_dtype_name(tensors[i].t.dtype));
    }
    if (!status) {
        qsort(order, (size_t)n, sizeof *order, by_size);
        qsort(sorted, (size_t)n, sizeof *sorted, ckpt_by_name);
        for (int i = 1; i < n && !status; i++)
            if (!strcmp(sorted[i - 1].name, sorted[i].name))
                status = tcr_fail(TCC_EUSAGE, "%s: two tensors are named '%s'", path, sorted[i].name);
    }
    if (!status && !(status = make_header(&header, n, order, nmeta, meta, &digits)) &&
        !(status = seal(s, &header, digits, n, order, digest)))
        status = write_file(s, path, &header, n, order);
    free(header.at);
    free(sorted);
    free(order);
    return status;
}

int tccrt_tensors_write(const char *path, int n, const struct tccrt_named *tensors, int nmeta,
                        const struct tccrt_pair *meta)
{
    if (!path || n < 0 || nmeta < 0 || (n && !tensors) || (nmeta && !meta))
        return tcr_fail(TCC_EUSAGE, "a path and lists of tensors and pairs are required, got NULL");
    for (int i = 0; i < n; i++) {
        const struct tcc_tensor *t = &tensors[i].t;
        int64_t count = tcr_elements(t->dtype, t->rank, t->dims);

        if (!tensors[i].name || count < 0 || (count && !t->data))
            return tcr_fail(TCC_EUSAGE, "%s: tensor %d (%s) has no name, no data, or no shape (rank %d)", path, i,
                            tensors[i].name ? tensors[i].name : "NULL", t->rank);
    }
    for (int i = 0; i < nmeta; i++)
        if (!meta[i].key || !meta[i].value)
            return tcr_fail(TCC_EUSAGE, "%s: pair %d has no key or no value", path, i);
    tcr_clear_error();
    return ckpt_replace(NULL, path, n, tensors, nmeta, meta);
}
