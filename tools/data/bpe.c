/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-pair encoding by a tokenizer.json of Hugging Face's tokenizers: Sennrich, Haddow, Birch, "Neural machine
 * translation of rare words with subword units" (2016).
 *
 * cut.c cuts the text into words; a word's symbols are joined pair by pair, the pair that comes first in the list of
 * merges first, of equal ones the leftmost. Symbols are bytes, each written as a letter in the file (Radford and
 * others, "Language models are unsupervised multitask learners", 2019; printable ones as themselves, the others from
 * U+0100 on), or else characters; one that the vocabulary lacks is spelled in its bytes <0xNN> (byte_fallback), or is
 * unk_token. Added tokens are cut out of the text before. Special tokens that a post-processor would add are not.
 */
#include "base/xxh3.h"
#include "tools/data/bpe_int.h"

#include <stdlib.h>
#include <string.h>

/* -- The file ------------------------------------------------------------------------------------------------------ */

/* The letter that stands for a byte. */
static uint32_t letter_of(unsigned byte)
{
    uint32_t next = 256;

    for (unsigned b = 0; b <= byte; b++) {
        bool own = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte)
            return own ? b : next;
        next += !own;
    }
    return 0;
}

/* In at most 2 bytes of UTF-8, as all letters are. */
static size_t put_letter(uint32_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    to[0] = (char)(0xc0 | c >> 6);
    to[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

static bool wrong(char *error, const char *path, const char *what)
{
    return put_error(error, "%s: %s", path, what);
}

static bool id_of(json_t *vocab, const char *text, uint32_t *id)
{
    json_t *v = json_object_get(vocab, text);
    json_int_t n = v && json_is_integer(v) ? json_integer_value(v) : -1;

    *id = n >= 0 && n < UINT32_MAX ? (uint32_t)n : NO_ID;
    return *id != NO_ID;
}

static void read_bytes(struct data_bpe *b)
{
    for (unsigned k = 0; k < 256; k++) {
        char name[8] = "";
        b->letter[k] = letter_of(k);
        if (b->bytes)
            put_letter(b->letter[k], name);
        else
            snprintf(name, sizeof name, "<0x%02X>", k);
        id_of(b->vocab, name, &b->byte[k]);
    }
}

/* "a b", or ["a", "b"] */
static bool read_merge(struct data_bpe *b, json_t *m, size_t rank)
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
    if (!id_of(b->vocab, x, &i) || !id_of(b->vocab, y, &j) || !id_of(b->vocab, joined, &k))
        return false;
    struct bpe_merge *to = bpe_slot(b, (uint64_t)i << 32 | j);
    if (to->pair == UINT64_MAX)
        *to = (struct bpe_merge){(uint64_t)i << 32 | j, (uint32_t)rank, k};
    return true;
}

static bool read_merges(struct data_bpe *b, json_t *merges, const char *path, char *error)
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
        if (read_merge(b, json_array_get(merges, i), i))
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
        if (json_is_true(json_object_get(a, "single_word")))
            return wrong(error, path, "an added token with single_word is not supported");
        struct bpe_added *to = &b->added[b->nadded];
        *to = (struct bpe_added){strdup(text), strlen(text), (uint32_t)id, json_is_true(json_object_get(a, "lstrip")),
                                 json_is_true(json_object_get(a, "rstrip"))};
        if (!to->text)
            return wrong(error, path, "no memory");
        b->nadded++;
    }
    return b->added || wrong(error, path, "no memory");
}

static bool is_empty(json_t *v)
{
    return !v || json_is_null(v) || (json_is_string(v) && !*json_string_value(v)) || json_is_false(v) ||
           (json_is_number(v) && json_number_value(v) == 0);
}

static bool read_model(struct data_bpe *b, json_t *model, const char *path, char *error)
{
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = json_string_value(json_object_get(model, "type")),
               *unknown = json_string_value(json_object_get(model, "unk_token"));
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
    b->vocab = json_incref(json_object_get(model, "vocab"));
    b->unknown = NO_ID;
    if (unknown)
        id_of(b->vocab, unknown, &b->unknown);
    b->fallback = json_is_true(json_object_get(model, "byte_fallback"));
    b->fuse = json_is_true(json_object_get(model, "fuse_unk"));
    b->whole = json_is_true(json_object_get(model, "ignore_merges"));
    return true;
}

/* Of what decides which tokens a text becomes, however the file is laid out. */
static bool digest(struct data_bpe *b, const json_t *root)
{
    static const char *const parts[] = {"model", "normalizer", "pre_tokenizer", "added_tokens"};
    struct tcr_xxh3 x;

    tcr_xxh3_begin(&x);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *text = json_dumps(json_object_get(root, parts[i]), JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        if (!text && json_object_get(root, parts[i]))
            return false;
        tcr_xxh3_add(&x, text ? text : "", text ? strlen(text) + 1 : 1);
        free(text);
    }
    snprintf(b->digest, sizeof b->digest, "%016llx", (unsigned long long)tcr_xxh3_end(&x));
    return true;
}

const char *data_bpe_digest(const struct data_bpe *b)
{
    return b->digest;
}

/* The file's own padding and truncation. Rows have one length, so that of a batch's longest text says nothing. */
static bool read_row(struct data_bpe *b, json_t *root, const char *path, char *error)
{
    json_t *pad = json_object_get(root, "padding"), *cut = json_object_get(root, "truncation"),
           *fixed = json_object_get(json_object_get(pad, "strategy"), "Fixed"),
           *length = json_object_get(cut, "max_length");
    const char *side[] = {json_string_value(json_object_get(pad, "direction")),
                          json_string_value(json_object_get(cut, "direction"))};

    b->row[0] = json_integer_value(fixed ? fixed : length);
    b->row[1] = json_integer_value(json_object_get(pad, "pad_id"));
    b->row[2] = (side[0] && !strcmp(side[0], "Left") ? TEXT_PADS_LEFT : 0) |
                (side[1] && !strcmp(side[1], "Left") ? TEXT_CUTS_LEFT : 0);
    return (b->row[0] >= 0 && b->row[0] <= UINT32_MAX && b->row[1] >= 0 && b->row[1] < NO_ID) ||
           wrong(error, path, "padding or truncation of no such length or token");
}

void data_bpe_row(const struct data_bpe *b, int64_t row[3])
{
    memcpy(row, b->row, sizeof b->row);
}

struct data_bpe *data_bpe_open(const char *path, char *error, int *code)
{
    struct data_bpe *b = calloc(1, sizeof *b);
    struct data_file *f = b ? data_map(path, error) : NULL;
    json_error_t why;
    json_t *root = f && f->size ? json_loadb((const char *)f->bytes, f->size, 0, &why) : NULL;

    if (!b)
        snprintf(error, ERROR_SIZE, "no memory");
    else if (f && !root)
        snprintf(error, ERROR_SIZE, "%s: line %d: %s", path, f->size ? why.line : 1, f->size ? why.text : "empty");
    json_t *model = json_object_get(root, "model");
    bool ok = root && read_model(b, model, path, error) && (b->cut = data_cut_open(root, path, error, code)) != NULL;
    if (ok) {
        b->bytes = data_cut_bytes(b->cut);
        read_bytes(b);
        ok = read_merges(b, json_object_get(model, "merges"), path, error) &&
             read_added(b, json_object_get(root, "added_tokens"), path, error) && read_row(b, root, path, error) &&
             (digest(b, root) || wrong(error, path, "no memory"));
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
        json_decref(b->vocab);
        data_cut_free(b->cut);
    }
    free(b);
}

/* -- Words to symbols ---------------------------------------------------------------------------------------------- */

/* The word as the vocabulary spells it, ended by 0; NULL: no memory. */
static const char *spell(struct bpe_encoder *e, const unsigned char *s, size_t n)
{
    char *text = bpe_grow(e->spelled, &e->spelled_room, 2 * n + 1, 1);
    size_t used = 0;

    if (!text)
        return NULL;
    e->spelled = text;
    for (size_t i = 0; i < n; i++) {
        if (e->b->bytes)
            used += put_letter(e->b->letter[s[i]], text + used);
        else
            text[used++] = (char)s[i];
    }
    text[used] = '\0';
    return text;
}

static bool whole_word(struct bpe_encoder *e, const unsigned char *s, size_t n, uint32_t *id)
{
    const char *text = memchr(s, 0, n) && !e->b->bytes ? NULL : spell(e, s, n);
    return text && id_of(e->b->vocab, text, id);
}

static bool lacks(char *error, const char *what, unsigned c)
{
    return put_error(error, "the tokenizer has no token for %s%0*X", what, *what == 'b' ? 2 : 4, c);
}

/* A character's id, those of its bytes, or unk_token. *unknown: the symbol before is one. */
static bool add_character(struct bpe_encoder *e, const unsigned char *s, size_t n, size_t *count, bool *unknown,
                          char *error)
{
    const struct data_bpe *b = e->b;
    uint32_t *at = e->ids + e->n, id = NO_ID, c;
    char text[8] = "";
    bool spelled = b->fallback;

    memcpy(text, s, n);
    if (*s && id_of(b->vocab, text, &id)) {
        at[(*count)++] = id;
        *unknown = false;
        return true;
    }
    for (size_t i = 0; i < n && spelled; i++)
        spelled = b->byte[s[i]] != NO_ID;
    for (size_t i = 0; i < n && spelled; i++)
        at[(*count)++] = b->byte[s[i]];
    if (spelled)
        return *unknown = false, true;
    if (b->unknown == NO_ID)
        return data_utf8(s, n, &c), lacks(error, "U+", c);
    if (!*unknown || !b->fuse)
        at[(*count)++] = b->unknown;
    *unknown = true;
    return true;
}

/* The word's symbols behind the ids so far; how many there are. */
static bool add_symbols(struct bpe_encoder *e, const unsigned char *s, size_t n, size_t *count, char *error)
{
    const struct data_bpe *b = e->b;
    bool unknown = false;
    uint32_t c;

    for (size_t i = 0; i < n && b->bytes; i++) {
        e->ids[e->n + i] = b->byte[s[i]];
        if (b->byte[s[i]] == NO_ID)
            return lacks(error, "byte 0x", s[i]);
    }
    *count = b->bytes ? n : 0;
    for (size_t i = 0, length; i < n && !b->bytes; i += length) {
        length = (size_t)data_utf8(s + i, n - i, &c);
        if (!add_character(e, s + i, length, count, &unknown, error))
            return false;
    }
    return true;
}

static bool add_word(void *user, const unsigned char *s, size_t n, char *error)
{
    struct bpe_encoder *e = user;
    size_t count = 0;
    uint32_t id;

    if (n >= NO_ID / 2 || !bpe_reserve(e, n + 1))
        return put_error(error, "no memory");
    if (e->b->whole && whole_word(e, s, n, &id)) {
        e->ids[e->n++] = id;
        return true;
    }
    if (!add_symbols(e, s, n, &count, error))
        return false;
    return bpe_join(e, count) || put_error(error, "no memory");
}

/* -- Texts --------------------------------------------------------------------------------------------------------- */

/* Where the first added token from `at` on begins, the longest of those that do; n: there is none. next[i]: where token
 * i was found last, so that the text is searched once for each; SIZE_MAX: not yet. */
static size_t find_added(const struct data_bpe *b, const unsigned char *s, size_t at, size_t n, size_t *next,
                         const struct bpe_added **which)
{
    size_t best = n;

    *which = NULL;
    for (size_t i = 0; i < b->nadded; i++) {
        const struct bpe_added *a = &b->added[i];
        if (next[i] == SIZE_MAX || (next[i] < at && next[i] < n)) {
            const unsigned char *found = memmem(s + at, n - at, a->text, a->n);
            next[i] = found ? (size_t)(found - s) : n;
        }
        if (next[i] < n && (next[i] < best || (next[i] == best && *which && a->n > (*which)->n))) {
            best = next[i];
            *which = a;
        }
    }
    return best;
}

static size_t spaces_before(const unsigned char *s, size_t from, size_t at)
{
    for (size_t p = at; p > from; at = p) {
        uint32_t c;
        while (p > from && (s[--p] & 0xc0) == 0x80)
            ;
        data_utf8(s + p, at - p, &c);
        if (!data_is_space(c))
            return at;
    }
    return at;
}

static size_t spaces_behind(const unsigned char *s, size_t at, size_t n)
{
    uint32_t c;

    while (at < n) {
        size_t length = (size_t)data_utf8(s + at, n - at, &c);
        if (!data_is_space(c))
            break;
        at += length;
    }
    return at;
}

int64_t data_bpe_size(const struct data_bpe *b)
{
    const char *text;
    json_t *id;
    int64_t most = -1;

    json_object_foreach(b->vocab, text, id) most = json_integer_value(id) > most ? json_integer_value(id) : most;
    for (size_t i = 0; i < b->nadded; i++)
        most = b->added[i].id > most ? b->added[i].id : most;
    return most + 1;
}

static bool encode(struct bpe_encoder *e, const unsigned char *text, size_t n, size_t *next, char *error)
{
    const struct bpe_added *added;

    for (size_t at = 0; at < n;) {
        size_t found = find_added(e->b, text, at, n, next, &added);
        size_t end = added && added->left ? spaces_before(text, at, found) : found;
        if (!data_cut_words(e->b->cut, text + at, end - at, at == 0, add_word, e, error))
            return false;
        if (!bpe_reserve(e, 1))
            return put_error(error, "no memory");
        at = found;
        if (!added)
            continue;
        e->ids[e->n++] = added->id;
        at += added->n;
        at = added->right ? spaces_behind(text, at, n) : at;
    }
    return true;
}

bool data_bpe_encode(const struct data_bpe *b, const unsigned char *text, size_t n, uint32_t **ids, size_t *count,
                     char *error)
{
    struct bpe_encoder e = {.b = b, .ids = *ids, .n = *count, .room = *count};
    bool ok = true;
    uint32_t c;
    int length;

    for (size_t at = 0, line = 1; at < n && ok; at += (size_t)length) {
        length = data_utf8(text + at, n - at, &c);
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
    ok = ok && next && encode(&e, text, n, next, error);
    free(next);
    free(e.next);
    free(e.before);
    free(e.heap);
    free(e.spelled);
    *ids = e.ids;
    *count = e.n;
    return ok;
}
