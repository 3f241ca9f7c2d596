/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-level byte-pair encoding by a tokenizer.json of Hugging Face's tokenizers (GPT-2, RoBERTa and what is made like them): Sennrich, Haddow, Birch, "Neural machine
 * translation of rare words with subword units" (2016); Radford and others, "Language models are unsupervised multitask learners" (2019).
 *
 * Text is cut into words by GPT-2's pattern, 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+; a word's bytes are joined pair by
 * pair, the pair that comes first in the list of merges first. In the file each byte is written as a letter (printable ones as themselves, the others from U+0100 on).
 * Added tokens are cut out of the text before. Other models, normalizers and pre-tokenizers are refused by name.
 */
#include "tools/data_int.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct merge {
    uint64_t pair; /* ids of both; UINT64_MAX: free */
    uint32_t rank, to;
};

struct added {
    char *text;
    size_t n;
    uint32_t id;
};

struct data_bpe {
    uint32_t byte[256]; /* ids; UINT32_MAX: there is none */
    size_t nmerges;     /* a power of two */
    struct merge *merges;
    size_t nadded;
    struct added *added;
    bool prefix_space;
};

/* -- Unicode -------------------------------------------------------------------------------------------------------- */

struct range {
    uint32_t first, last;
};

static const struct range letters[] = {
#define LETTER(first, last) {first, last},
#include "tools/data_unicode.def"
};
static const struct range numbers[] = {
#define NUMBER(first, last) {first, last},
#include "tools/data_unicode.def"
};
static const struct range spaces[] = {{9, 13},          {32, 32},         {0x85, 0x85},     {0xa0, 0xa0},
                                      {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                      {0x205f, 0x205f}, {0x3000, 0x3000}};

static bool in_ranges(const struct range *r, size_t n, uint32_t c)
{
    size_t low = 0;

    while (low < n) {
        size_t middle = (low + n) / 2;
        if (c >= r[middle].first && c <= r[middle].last)
            return true;
        if (c < r[middle].first)
            n = middle;
        else
            low = middle + 1;
    }
    return false;
}

enum kind { LETTERS, NUMBERS, SPACES, OTHERS, NONE };

static enum kind kind_of(uint32_t c)
{
    return in_ranges(spaces, sizeof spaces / sizeof *spaces, c)      ? SPACES
           : in_ranges(letters, sizeof letters / sizeof *letters, c) ? LETTERS
           : in_ranges(numbers, sizeof numbers / sizeof *numbers, c) ? NUMBERS
                                                                     : OTHERS;
}

/* The code point at s and its length; 0: not UTF-8. */
static int decode(const unsigned char *s, size_t n, uint32_t *c)
{
    int length = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : (s[0] & 0xf0) == 0xe0       ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;

    if (!length || (size_t)length > n)
        return 0;
    *c = length == 1 ? s[0] : s[0] & (0xffu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (s[i] & 0x3f);
    }
    bool bad = (length == 3 && (*c < 0x800 || (*c >= 0xd800 && *c < 0xe000))) ||
               (length == 4 && (*c < 0x10000 || *c > 0x10ffff));
    return bad ? 0 : length;
}

/* -- The file --------------------------------------------------------------------------------------------------------- */

/* The byte that a letter of the file stands for; -1: none. */
static int byte_of(uint32_t c)
{
    static const struct range plain[] = {{'!', '~'}, {0xa1, 0xac}, {0xae, 0xff}};
    uint32_t next = 256;

    for (uint32_t b = 0; b < 256; b++) {
        bool own = in_ranges(plain, 3, b);
        if (c == (own ? b : next))
            return (int)b;
        next += !own;
    }
    return -1;
}

static uint64_t spread(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15;
    return x ^ x >> 29;
}

static struct merge *slot(const struct data_bpe *b, uint64_t pair)
{
    size_t i = (size_t)spread(pair) & (b->nmerges - 1);

    while (b->merges[i].pair != UINT64_MAX && b->merges[i].pair != pair)
        i = (i + 1) & (b->nmerges - 1);
    return &b->merges[i];
}

static bool wrong(char *error, const char *path, const char *what)
{
    snprintf(error, ERROR_SIZE, "%s: %s", path, what);
    return false;
}

static bool id_of(json_t *vocab, const char *text, uint32_t *id)
{
    json_t *v = json_object_get(vocab, text);
    json_int_t n = v && json_is_integer(v) ? json_integer_value(v) : -1;

    *id = (uint32_t)n;
    return n >= 0 && n < UINT32_MAX;
}

static void read_bytes(struct data_bpe *b, json_t *vocab)
{
    const char *text;
    json_t *value;
    uint32_t c;

    memset(b->byte, 0xff, sizeof b->byte);
    json_object_foreach(vocab, text, value)
    {
        size_t n = strlen(text);
        int length = n ? decode((const unsigned char *)text, n, &c) : 0,
            byte = length && (size_t)length == n ? byte_of(c) : -1;
        if (byte >= 0)
            id_of(vocab, text, &b->byte[byte]);
    }
}

/* "a b", or ["a", "b"] */
static bool read_merge(struct data_bpe *b, json_t *vocab, json_t *m, size_t rank)
{
    char joined[2100], first[1024], second[1024];
    const char *text = json_string_value(m), *space = text ? strchr(text + (*text != 0), ' ') : NULL;
    const char *x = json_string_value(json_array_get(m, 0)), *y = json_string_value(json_array_get(m, 1));
    uint32_t i, j, k;

    if (space && strlen(text) < sizeof first) {
        snprintf(first, sizeof first, "%.*s", (int)(space - text), text);
        snprintf(second, sizeof second, "%s", space + 1);
        x = first;
        y = second;
    }
    if (!x || !y || strlen(x) >= sizeof first || strlen(y) >= sizeof second)
        return false;
    snprintf(joined, sizeof joined, "%.1023s%.1023s", x, y);
    if (!id_of(vocab, x, &i) || !id_of(vocab, y, &j) || !id_of(vocab, joined, &k))
        return false;
    struct merge *to = slot(b, (uint64_t)i << 32 | j);
    if (to->pair == UINT64_MAX)
        *to = (struct merge){(uint64_t)i << 32 | j, (uint32_t)rank, k};
    return true;
}

static bool read_merges(struct data_bpe *b, json_t *vocab, json_t *merges, const char *path, char *error)
{
    char what[80];
    size_t n = json_array_size(merges), room = 16;

    while (room < 2 * n)
        room *= 2;
    b->merges = malloc(room * sizeof *b->merges);
    b->nmerges = room;
    for (size_t i = 0; b->merges && i < room; i++)
        b->merges[i].pair = UINT64_MAX;
    for (size_t i = 0; b->merges && i < n; i++) {
        if (read_merge(b, vocab, json_array_get(merges, i), i))
            continue;
        snprintf(what, sizeof what, "merge %zu is malformed, or names what 'vocab' lacks", i);
        return wrong(error, path, what);
    }
    return b->merges || wrong(error, path, "no memory");
}

static bool read_added(struct data_bpe *b, json_t *list, const char *path, char *error)
{
    size_t n = json_array_size(list);

    b->added = calloc(n + 1, sizeof *b->added);
    for (size_t i = 0; b->added && i < n; i++) {
        json_t *a = json_array_get(list, i);
        const char *text = json_string_value(json_object_get(a, "content"));
        json_int_t id = json_integer_value(json_object_get(a, "id"));
        if (!text || !*text || id < 0 || id >= UINT32_MAX)
            return wrong(error, path, "an added token is malformed");
        struct added *to = &b->added[b->nadded];
        *to = (struct added){strdup(text), strlen(text), (uint32_t)id};
        if (!to->text)
            return wrong(error, path, "no memory");
        b->nadded++;
    }
    return b->added || wrong(error, path, "no memory");
}

static bool is_empty(json_t *v)
{
    return !v || json_is_null(v) || (json_is_string(v) && !*json_string_value(v)) || json_is_false(v);
}

/* What this encoder does not do. */
static bool supported(struct data_bpe *b, json_t *root, const char *path, char *error)
{
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"};
    json_t *model = json_object_get(root, "model"), *pre = json_object_get(root, "pre_tokenizer");
    const char *type = json_string_value(json_object_get(model, "type")),
               *cut = json_string_value(json_object_get(pre, "type"));
    char what[200];

    if (!json_is_object(model) || !json_is_object(json_object_get(model, "vocab")) ||
        !json_is_array(json_object_get(model, "merges")) || (type && strcmp(type, "BPE"))) {
        snprintf(what, sizeof what, "model '%.40s': expected BPE, with 'vocab' and 'merges'", type ? type : "none");
        return wrong(error, path, what);
    }
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (!is_empty(json_object_get(model, off[i]))) {
            snprintf(what, sizeof what, "the model's '%s' is not supported", off[i]);
            return wrong(error, path, what);
        }
    if (!is_empty(json_object_get(root, "normalizer")))
        return wrong(error, path, "a normalizer is not supported: normalise the text, and set it to null");
    if (!cut || strcmp(cut, "ByteLevel") || json_is_false(json_object_get(pre, "use_regex"))) {
        snprintf(what, sizeof what, "pre_tokenizer '%.40s' is not supported; expected ByteLevel, with its pattern",
                 cut ? cut : "none");
        return wrong(error, path, what);
    }
    b->prefix_space = json_is_true(json_object_get(pre, "add_prefix_space"));
    return true;
}

struct data_bpe *data_bpe_open(const char *path, char *error)
{
    struct data_bpe *b = calloc(1, sizeof *b);
    struct data_file *f = b ? data_map(path, error) : NULL;
    json_error_t why;
    json_t *root = f && f->size ? json_loadb((const char *)f->bytes, f->size, 0, &why) : NULL;

    if (!b)
        snprintf(error, ERROR_SIZE, "no memory");
    else if (f && !root)
        snprintf(error, ERROR_SIZE, "%s: line %d: %s", path, f->size ? why.line : 1, f->size ? why.text : "empty");
    bool ok = root && supported(b, root, path, error);
    if (ok) {
        json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
        read_bytes(b, vocab);
        ok = read_merges(b, vocab, json_object_get(model, "merges"), path, error) &&
             read_added(b, json_object_get(root, "added_tokens"), path, error);
    }
    json_decref(root);
    data_unref(f);
    if (ok)
        return b;
    data_bpe_free(b);
    return NULL;
}

void data_bpe_free(struct data_bpe *b)
{
    for (size_t i = 0; b && i < b->nadded; i++)
        free(b->added[i].text);
    if (b) {
        free(b->added);
        free(b->merges);
    }
    free(b);
}

/* -- Encoding ------------------------------------------------------------------------------------------------------------- */

struct ids {
    uint32_t *at;
    size_t n, room;
};

static bool reserve(struct ids *to, size_t more)
{
    if (to->n + more <= to->room)
        return true;
    size_t room = 2 * (to->n + more) + 64;
    uint32_t *grown = realloc(to->at, room * sizeof *grown);
    if (!grown)
        return false;
    to->at = grown;
    to->room = room;
    return true;
}

/* Joins the n ids at `at`, best pair first, everywhere where it stands; how many are left. */
static size_t join(const struct data_bpe *b, uint32_t *at, size_t n)
{
    for (;;) {
        struct merge best = {.rank = UINT32_MAX};
        size_t to = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const struct merge *m = slot(b, (uint64_t)at[i] << 32 | at[i + 1]);
            if (m->pair != UINT64_MAX && m->rank < best.rank)
                best = *m;
        }
        if (best.rank == UINT32_MAX)
            return n;
        for (size_t i = 0; i < n; i++, to++) {
            bool pair = i + 1 < n && ((uint64_t)at[i] << 32 | at[i + 1]) == best.pair;
            at[to] = pair ? best.to : at[i];
            i += pair;
        }
        n = to;
    }
}

static bool add_word(const struct data_bpe *b, const unsigned char *s, size_t n, bool space, struct ids *to,
                     char *error)
{
    if (!reserve(to, n + 1))
        return snprintf(error, ERROR_SIZE, "no memory"), false;
    uint32_t *at = to->at + to->n;
    size_t count = 0;
    if (space)
        at[count++] = b->byte[' '];
    for (size_t i = 0; i < n; i++)
        at[count++] = b->byte[s[i]];
    for (size_t i = 0; i < count; i++)
        if (at[i] == UINT32_MAX) {
            snprintf(error, ERROR_SIZE, "the tokenizer has no token for byte 0x%02x", space && !i ? ' ' : s[i - space]);
            return false;
        }
    to->n += join(b, at, count);
    return true;
}

/* The end of the run of characters of that kind. */
static size_t run_end(const unsigned char *s, size_t at, size_t n, enum kind kind)
{
    uint32_t c;

    while (at < n) {
        int length = decode(s + at, n - at, &c);
        if (!length || kind_of(c) != kind)
            break;
        at += (size_t)length;
    }
    return at;
}

/* Where the word that begins at s[0] ends, by GPT-2's pattern. The text is UTF-8. */
static size_t word_end(const unsigned char *s, size_t n)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    uint32_t c;
    size_t first, start, end, last;

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (n >= strlen(endings[i]) && !memcmp(s, endings[i], strlen(endings[i])))
            return strlen(endings[i]);
    start = s[0] == ' ' && n > 1;
    decode(s + start, n - start, &c);
    if (kind_of(c) != SPACES)
        return run_end(s, start, n, kind_of(c));
    first = (size_t)decode(s, n, &c);
    end = run_end(s, 0, n, SPACES);
    for (last = end - 1; (s[last] & 0xc0) == 0x80; last--)
        ;
    return end == n || last < first ? end : last; /* the last space goes with the word behind it */
}

static bool encode_part(const struct data_bpe *b, const unsigned char *s, size_t n, struct ids *to, char *error)
{
    bool space = b->prefix_space && n && run_end(s, 0, n, SPACES) == 0;

    for (size_t at = 0; at < n;) {
        size_t length = word_end(s + at, n - at);
        if (!add_word(b, s + at, length, space && !at, to, error))
            return false;
        at += length;
    }
    return true;
}

/* Where the first added token from `at` on begins, the longest of those that do; n: there is none. next[i]: where token i was found last,
 * so that the text is searched once for each; SIZE_MAX: not yet. */
static size_t find_added(const struct data_bpe *b, const unsigned char *s, size_t at, size_t n, size_t *next,
                         const struct added **which)
{
    size_t best = n;

    for (size_t i = 0; i < b->nadded; i++) {
        const struct added *a = &b->added[i];
        if (next[i] == SIZE_MAX || next[i] < at) {
            const unsigned char *found = memmem(s + at, n - at, a->text, a->n);
            next[i] = found ? (size_t)(found - s) : n;
        }
        if (next[i] < best || (next[i] < n && next[i] == best && a->n > (*which)->n)) {
            best = next[i];
            *which = a;
        }
    }
    return best;
}

static bool encode(const struct data_bpe *b, const unsigned char *text, size_t n, size_t *next, struct ids *to,
                   char *error)
{
    const struct added *added;

    for (size_t at = 0; at < n; at += added ? added->n : 0) {
        added = NULL;
        size_t end = find_added(b, text, at, n, next, &added);
        if (!encode_part(b, text + at, end - at, to, error))
            return false;
        if (!reserve(to, 1))
            return snprintf(error, ERROR_SIZE, "no memory"), false;
        at = end;
        if (added)
            to->at[to->n++] = added->id;
    }
    return true;
}

bool data_bpe_encode(const struct data_bpe *b, const unsigned char *text, size_t n, uint32_t **ids, size_t *count,
                     char *error)
{
    struct ids to = {*ids, *count, *count};
    bool ok = true;
    uint32_t c;
    int length;

    for (size_t at = 0, line = 1; at < n && ok; at += (size_t)length) {
        length = decode(text + at, n - at, &c);
        ok = length > 0;
        line += c == '\n';
        if (!ok)
            snprintf(error, ERROR_SIZE, "byte %zu (line %zu) is not UTF-8; ,tokens=bytes takes any", at, line);
    }
    size_t *next = malloc((b->nadded + 1) * sizeof *next);
    if (ok && !next)
        snprintf(error, ERROR_SIZE, "no memory");
    if (next)
        memset(next, 0xff, b->nadded * sizeof *next);
    ok = ok && next && encode(b, text, n, next, &to, error);
    free(next);
    *ids = to.at;
    *count = to.n;
    return ok;
}
