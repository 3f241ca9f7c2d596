/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON header of a safetensors file (https://huggingface.co/docs/safetensors): an object of
 *   "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}   and   "__metadata__": {"KEY": "VALUE"}
 * One pass over the text, no recursion but for values that are skipped; their depth and everything else is bounded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "runtime/ckpt/ckpt_int.h"

#include "base/mutant.h"

struct parser {
    const char *at, *end;
    char *pool; /* where the next string goes; a decoded string is shorter than its source */
    struct ckpt_header *h;
    int room, meta_room;
    const char *why;
    bool lacking; /* memory, not sense */
};

static bool bad(struct parser *p, const char *why)
{
    if (!p->why)
        p->why = why;
    return false;
}

static bool lacking(struct parser *p)
{
    p->lacking = true;
    return bad(p, "no memory");
}

static void blanks(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
        p->at++;
}

static bool peek(struct parser *p, char c)
{
    blanks(p);
    return p->at < p->end && *p->at == c;
}

static bool take(struct parser *p, char c)
{
    if (!peek(p, c))
        return false;
    p->at++;
    return true;
}

static bool hex4(struct parser *p, unsigned *out)
{
    *out = 0;
    if (p->end - p->at < 4)
        return bad(p, "an escape in a string ends early");
    for (int i = 0; i < 4; i++, p->at++) {
        char c = *p->at;
        int v = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;

        if (v < 0)
            return bad(p, "a bad escape in a string");
        *out = *out * 16 + (unsigned)v;
    }
    return true;
}

static void put_utf8(struct parser *p, unsigned c)
{
    if (c < 0x80) {
        *p->pool++ = (char)c;
    } else if (c < 0x800) {
        *p->pool++ = (char)(0xc0 | c >> 6);
        *p->pool++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *p->pool++ = (char)(0xe0 | c >> 12);
        *p->pool++ = (char)(0x80 | (c >> 6 & 63));
        *p->pool++ = (char)(0x80 | (c & 63));
    } else {
        *p->pool++ = (char)(0xf0 | c >> 18);
        *p->pool++ = (char)(0x80 | (c >> 12 & 63));
        *p->pool++ = (char)(0x80 | (c >> 6 & 63));
        *p->pool++ = (char)(0x80 | (c & 63));
    }
}

static bool escape(struct parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    unsigned c, low;

    if (p->at == p->end)
        return bad(p, "a string does not end");
    if (*p->at != 'u') {
        const char *found = memchr(from, *p->at, sizeof from - 1);

        if (!found)
            return bad(p, "a bad escape in a string");
        *p->pool++ = to[found - from];
        p->at++;
        return true;
    }
    p->at++;
    if (!hex4(p, &c))
        return false;
    if (c >= 0xd800 && c < 0xdc00) {
        if (p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u')
            return bad(p, "half a surrogate pair in a string");
        p->at += 2;
        if (!hex4(p, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return bad(p, "half a surrogate pair in a string");
        c = MUTANT(56, 0x10000, 0) + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) {
        return bad(p, "half a surrogate pair in a string");
    }
    if (c == 0)
        return bad(p, "a zero character in a string");
    put_utf8(p, c);
    return true;
}

static const char *string(struct parser *p)
{
    const char *start = p->pool;

    if (!take(p, '"')) {
        bad(p, "a string was expected");
        return NULL;
    }
    while (p->at < p->end && *p->at != '"') {
        unsigned char c = (unsigned char)*p->at++;

        if (c < 0x20) {
            bad(p, "a control character in a string");
            return NULL;
        }
        if (c != '\\')
            *p->pool++ = (char)c;
        else if (!escape(p))
            return NULL;
    }
    if (p->at == p->end) {
        bad(p, "a string does not end");
        return NULL;
    }
    p->at++;
    *p->pool++ = 0;
    return start;
}

static bool number(struct parser *p, uint64_t *out)
{
    const char *start;

    blanks(p);
    start = p->at;
    *out = 0;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
        if (__builtin_mul_overflow(*out, (uint64_t)10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*p->at - '0'), out))
            return bad(p, "a number is too large");
        p->at++;
    }
    if (p->at == start || (p->at - start > 1 && *start == '0') ||
        (p->at < p->end && (*p->at == '.' || *p->at == 'e' || *p->at == 'E')))
        return bad(p, "a whole number, not negative, was expected");
    return true;
}

/* A value that nobody asks for. Strings and scalars, and lists and objects of them down to CKPT_MAX_DEPTH. */
static bool skip(struct parser *p, int depth)
{
    char close;

    blanks(p);
    if (depth > CKPT_MAX_DEPTH)
        return bad(p, "values are nested too deep");
    if (p->at == p->end)
        return bad(p, "the text ends early");
    if (*p->at == '"')
        return string(p) != NULL;
    if (*p->at != '[' && *p->at != '{') {
        const char *start = p->at;

        while (p->at < p->end && strchr("+-.0123456789aeflnrstuE", *p->at) && *p->at)
            p->at++;
        return p->at > start || bad(p, "a value was expected");
    }
    close = *p->at++ == '[' ? ']' : '}';
    if (take(p, close))
        return true;
    do {
        if (close == '}' && (!string(p) || !take(p, ':')))
            return bad(p, "a name and a colon were expected");
        if (!skip(p, depth + 1))
            return false;
    } while (take(p, ','));
    return take(p, close) || bad(p, "a comma or the end of a list was expected");
}

static bool numbers(struct parser *p, uint64_t *list, int room, int *n)
{
    *n = 0;
    if (!take(p, '['))
        return bad(p, "a list of numbers was expected");
    if (take(p, ']'))
        return true;
    do {
        if (*n == room)
            return bad(p, "a list of numbers is too long");
        if (!number(p, &list[(*n)++]))
            return false;
    } while (take(p, ','));
    return take(p, ']') || bad(p, "a comma or the end of a list was expected");
}

static bool field(struct parser *p, struct ckpt_entry *e, int *seen)
{
    uint64_t list[TCC_MAX_RANK];
    const char *key = string(p);
    int n;

    if (!key || !take(p, ':'))
        return bad(p, "a name and a colon were expected");
    if (strcmp(key, "dtype") == 0) {
        *seen |= 1;
        return (e->dtype = string(p)) != NULL;
    }
    if (strcmp(key, "shape") == 0) {
        *seen |= 2;
        if (!numbers(p, list, TCC_MAX_RANK, &n))
            return false;
        e->rank = n;
        for (int i = 0; i < n; i++) {
            if (list[i] > INT64_MAX)
                return bad(p, "a dim is too large");
            e->dims[i] = (int64_t)list[i];
        }
        return true;
    }
    if (strcmp(key, "data_offsets") == 0) {
        *seen |= 4;
        if (!numbers(p, list, 2, &n))
            return false;
        e->first = list[0];
        e->last = list[1];
        return n == 2 || bad(p, "data_offsets must be two numbers");
    }
    return skip(p, 1);
}

static bool entry(struct parser *p, const char *name)
{
    struct ckpt_header *h = p->h;
    struct ckpt_entry *e;
    int seen = 0;

    if (!GROWN(h->entries, h->nentries, p->room, 64))
        return lacking(p);
    e = &h->entries[h->nentries++];
    *e = (struct ckpt_entry){.name = name};
    if (!take(p, '{'))
        return bad(p, "a tensor's description was expected");
    do {
        if (!field(p, e, &seen))
            return false;
    } while (take(p, ','));
    if (!take(p, '}'))
        return bad(p, "a comma or the end of a description was expected");
    return seen == 7 || bad(p, "a description lacks dtype, shape or data_offsets");
}

static bool metadata(struct parser *p)
{
    struct ckpt_header *h = p->h;

    if (!take(p, '{'))
        return bad(p, "__metadata__ must be an object");
    if (take(p, '}'))
        return true;
    do {
        struct tccrt_pair pair;

        if (!GROWN(h->meta, h->nmeta, p->meta_room, 16))
            return lacking(p);
        if (!(pair.key = string(p)) || !take(p, ':') || !(pair.value = string(p)))
            return bad(p, "__metadata__ must hold strings");
        h->meta[h->nmeta++] = pair;
    } while (take(p, ','));
    return take(p, '}') || bad(p, "a comma or the end of __metadata__ was expected");
}

static bool top(struct parser *p)
{
    if (!take(p, '{'))
        return bad(p, "the header is no object");
    if (!take(p, '}')) {
        do {
            const char *name = string(p);

            if (!name || !take(p, ':'))
                return bad(p, "a name and a colon were expected");
            if (!(strcmp(name, "__metadata__") == 0 ? metadata(p) : entry(p, name)))
                return false;
        } while (take(p, ','));
        if (!take(p, '}'))
            return bad(p, "a comma or the end of the header was expected");
    }
    blanks(p);
    return p->at == p->end || bad(p, "text follows the header's object");
}

void ckpt_json_free(struct ckpt_header *h)
{
    free(h->entries);
    free(h->meta);
    free(h->pool);
    *h = (struct ckpt_header){0};
}

int ckpt_json(struct ckpt_header *h, const char *text, size_t size, char *why)
{
    struct parser p = {.at = text, .end = text + size, .h = h};

    *h = (struct ckpt_header){.pool = malloc(size + 1)};
    p.pool = h->pool;
    if (h->pool && top(&p))
        return TCC_OK;
    snprintf(why, 256, "%s (byte %zu of the header)", h->pool ? p.why : "no memory", (size_t)(p.at - text));
    p.lacking |= !h->pool;
    ckpt_json_free(h);
    return p.lacking ? TCC_EENV : TCC_EINPUT;
}
