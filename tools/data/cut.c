/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a tokenizer.json of Hugging Face's tokenizers normalises text and cuts it into the words that its model encodes
 * (`normalizer`, `pre_tokenizer`).
 *
 *   normalizers      Prepend, Replace (of a string), Sequence; NFC: text that may not be in that form is refused, the
 *                    others stay as they are
 *   pre-tokenizers   ByteLevel (GPT-2's pattern, 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|
 *                    ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+, or none), Split (by a regular expression: PCRE2, opened at run
 *                    time), Digits, Metaspace, Sequence
 *
 * Others are refused by name. Each step cuts the pieces of the one before; some change them (Metaspace, a blank in
 * front).
 */
#include "tools/data/data_int.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* -- PCRE2 --------------------------------------------------------------------------------------------------------- */

enum { PCRE2_UTF = 0x80000, PCRE2_UCP = 0x20000, PCRE2_LITERAL = 0x2000000, PCRE2_NO_UTF_CHECK = 0x40000000 };

static struct pcre2 {
    bool tried, there;
    void *(*compile)(const unsigned char *, size_t, uint32_t, int *, size_t *, void *);
    void (*code_free)(void *);
    void *(*data_new)(const void *, void *);
    void (*data_free)(void *);
    int (*match)(const void *, const unsigned char *, size_t, size_t, uint32_t, void *, void *);
    size_t *(*ends)(void *);
    int (*message)(int, unsigned char *, size_t);
} pcre2;

/* By the thread that opens files. */
static bool load_pcre2(void)
{
    const struct {
        const char *name;
        void **to;
    } names[] = {{"pcre2_compile_8", (void **)&pcre2.compile},
                 {"pcre2_code_free_8", (void **)&pcre2.code_free},
                 {"pcre2_match_data_create_from_pattern_8", (void **)&pcre2.data_new},
                 {"pcre2_match_data_free_8", (void **)&pcre2.data_free},
                 {"pcre2_match_8", (void **)&pcre2.match},
                 {"pcre2_get_ovector_pointer_8", (void **)&pcre2.ends},
                 {"pcre2_get_error_message_8", (void **)&pcre2.message}};

    if (pcre2.tried)
        return pcre2.there;
    pcre2.tried = true;
    void *library = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL);
    pcre2.there = library != NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && pcre2.there; i++)
        pcre2.there = (*names[i].to = dlsym(library, names[i].name)) != NULL;
    return pcre2.there;
}

/* -- The plan ------------------------------------------------------------------------------------------------------ */

enum { MOST_STEPS = 16, DEEPEST = 4 };
enum step_kind { STEP_PREPEND, STEP_REPLACE, STEP_NFC, STEP_BYTES, STEP_SPLIT, STEP_DIGITS, STEP_METASPACE };
enum scheme { SCHEME_ALWAYS, SCHEME_FIRST, SCHEME_NEVER };

struct step {
    enum step_kind kind;
    char *from, *to;    /* PREPEND, METASPACE: to; REPLACE: both */
    bool prefix, regex; /* BYTES */
    bool each;          /* DIGITS: one by one; METASPACE: cuts */
    enum scheme scheme; /* METASPACE */
    bool keep, matches; /* SPLIT: what lies between the matches, the matches are words */
    void *code, *data;  /* SPLIT */
};

struct data_cut {
    int nsteps;
    struct step steps[MOST_STEPS];
    bool bytes;
};

struct reading {
    struct data_cut *c;
    const char *path;
    char *error;
    int *code;
};

static bool refuse(struct reading *r, const char *what, const char *name)
{
    return put_error(r->error, "%s: %s '%.40s' is not supported", r->path, what, name ? name : "none");
}

static struct step *add_step(struct reading *r, enum step_kind kind)
{
    if (r->c->nsteps == MOST_STEPS)
        return put_error(r->error, "%s: more than %d steps", r->path, MOST_STEPS), NULL;
    struct step *s = &r->c->steps[r->c->nsteps++];
    *s = (struct step){.kind = kind};
    return s;
}

static bool own(struct reading *r, char **to, const char *text)
{
    *to = text && *text ? strdup(text) : NULL;
    if (!*to)
        snprintf(r->error, ERROR_SIZE, "%s: %s", r->path, text && *text ? "no memory" : "a step lacks its text");
    return *to != NULL;
}

static const char *text_of(json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static bool read_replace(struct reading *r, json_t *o)
{
    const char *from = text_of(json_object_get(o, "pattern"), "String"), *to = text_of(o, "content");
    struct step *s = from && to ? add_step(r, STEP_REPLACE) : NULL;

    if (!from || !to)
        return refuse(r, "normalizer", "Replace of a Regex");
    return s && own(r, &s->from, from) && (s->to = strdup(to)) != NULL;
}

static bool read_normalizer(struct reading *r, json_t *o, int depth)
{
    const char *type = text_of(o, "type");
    json_t *list = json_object_get(o, "normalizers"), *each;
    size_t i;

    if (!o || json_is_null(o))
        return true;
    if (type && !strcmp(type, "Sequence") && json_is_array(list) && depth < DEEPEST) {
        json_array_foreach(list, i, each)
        {
            if (!read_normalizer(r, each, depth + 1))
                return false;
        }
        return true;
    }
    if (type && !strcmp(type, "Replace"))
        return read_replace(r, o);
    if (type && !strcmp(type, "NFC"))
        return add_step(r, STEP_NFC) != NULL;
    if (!type || strcmp(type, "Prepend"))
        return refuse(r, "normalizer", type);
    struct step *s = add_step(r, STEP_PREPEND);
    return s && own(r, &s->to, text_of(o, "prepend"));
}

static bool read_split(struct reading *r, json_t *o)
{
    json_t *pattern = json_object_get(o, "pattern");
    const char *regex = text_of(pattern, "Regex"), *literal = text_of(pattern, "String"),
               *text = regex ? regex : literal, *behaviour = text_of(o, "behavior");
    bool removed = behaviour && !strcmp(behaviour, "Removed"), invert = json_is_true(json_object_get(o, "invert"));
    unsigned char why[120];
    int wrong;
    size_t at;

    if (!text || !behaviour || (!removed && strcmp(behaviour, "Isolated") != 0))
        return refuse(r, "pre_tokenizer Split with behavior", behaviour);
    if (!load_pcre2()) {
        *r->code = EXIT_ENVIRONMENT;
        return put_error(r->error,
                         "%s: its pattern needs the library PCRE2 (Debian: libpcre2-8-0), which is not installed",
                         r->path);
    }
    struct step *s = add_step(r, STEP_SPLIT);
    if (!s)
        return false;
    s->matches = !removed || invert;
    s->keep = !removed || !invert;
    s->code = pcre2.compile((const unsigned char *)text, strlen(text),
                            regex ? PCRE2_UTF | PCRE2_UCP : PCRE2_UTF | PCRE2_LITERAL, &wrong, &at, NULL);
    s->data = s->code ? pcre2.data_new(s->code, NULL) : NULL;
    if (s->data)
        return true;
    pcre2.message(wrong, why, sizeof why);
    return put_error(r->error, "%s: the pattern '%.200s': %.110s", r->path, text,
                     s->code ? "no memory" : (const char *)why);
}

static bool read_metaspace(struct reading *r, json_t *o)
{
    static const char *const names[] = {"always", "first", "never"};
    struct step *s = add_step(r, STEP_METASPACE);
    const char *scheme = text_of(o, "prepend_scheme");
    json_t *prefix = json_object_get(o, "add_prefix_space");

    if (!s || !own(r, &s->to, text_of(o, "replacement")))
        return false;
    s->each = !json_is_false(json_object_get(o, "split"));
    s->scheme = json_is_false(prefix) ? SCHEME_NEVER : SCHEME_ALWAYS; /* of older files */
    for (int i = 0; scheme && i < 3; i++)
        if (!strcmp(scheme, names[i])) {
            s->scheme = (enum scheme)i;
            return true;
        }
    return !scheme || refuse(r, "pre_tokenizer Metaspace with prepend_scheme", scheme);
}

static bool read_cutter(struct reading *r, json_t *o, int depth)
{
    const char *type = text_of(o, "type");
    json_t *list = json_object_get(o, "pretokenizers"), *each;
    struct step *s;
    size_t i;

    if (!o || json_is_null(o))
        return true;
    if (type && !strcmp(type, "Sequence") && json_is_array(list) && depth < DEEPEST) {
        json_array_foreach(list, i, each)
        {
            if (!read_cutter(r, each, depth + 1))
                return false;
        }
        return true;
    }
    if (r->c->bytes)
        return refuse(r, "behind ByteLevel a pre_tokenizer", type);
    if (type && !strcmp(type, "Split"))
        return read_split(r, o);
    if (type && !strcmp(type, "Metaspace"))
        return read_metaspace(r, o);
    if (type && !strcmp(type, "Digits")) {
        if (!(s = add_step(r, STEP_DIGITS)))
            return false;
        s->each = json_is_true(json_object_get(o, "individual_digits"));
        return true;
    }
    if (!type || strcmp(type, "ByteLevel"))
        return refuse(r, "pre_tokenizer", type);
    if (!(s = add_step(r, STEP_BYTES)))
        return false;
    s->prefix = !json_is_false(json_object_get(o, "add_prefix_space"));
    s->regex = !json_is_false(json_object_get(o, "use_regex"));
    return r->c->bytes = true;
}

struct data_cut *data_cut_open(struct json_t *root, const char *path, char *error, int *code)
{
    struct reading r = {calloc(1, sizeof *r.c), path, error, code};

    if (!r.c)
        return put_error(error, "no memory"), NULL;
    bool ok = read_normalizer(&r, json_object_get(root, "normalizer"), 0);
    ok = ok && read_cutter(&r, json_object_get(root, "pre_tokenizer"), 0);
    if (ok)
        return r.c;
    data_cut_free(r.c);
    return NULL;
}

void data_cut_free(struct data_cut *c)
{
    for (int i = 0; c && i < c->nsteps; i++) {
        struct step *s = &c->steps[i];
        free(s->from);
        free(s->to);
        if (s->data)
            pcre2.data_free(s->data);
        if (s->code)
            pcre2.code_free(s->code);
    }
    free(c);
}

bool data_cut_bytes(const struct data_cut *c)
{
    return c->bytes;
}

/* -- Cutting ------------------------------------------------------------------------------------------------------- */

/* A piece on its way through the steps; start: it begins where the text does. */
struct piece {
    const unsigned char *s;
    size_t n;
    bool start;
};

struct cutting {
    const struct data_cut *c;
    data_word_fn *word;
    void *user;
    char *error;
};

static bool run_step(struct cutting *k, int i, struct piece p);

static bool wrong(struct cutting *k, const char *what)
{
    return put_error(k->error, "%s", what);
}

/* The end of the run of characters of that kind. */
static size_t run_end(const unsigned char *s, size_t at, size_t n, enum data_kind kind)
{
    uint32_t c;

    while (at < n) {
        int length = data_utf8(s + at, n - at, &c);
        if (!length || data_kind_of(c) != kind)
            break;
        at += (size_t)length;
    }
    return at;
}

/* Where the word that begins at s[0] ends, by GPT-2's pattern. */
static size_t word_end(const unsigned char *s, size_t n)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    uint32_t c;
    size_t first, start, end, last;

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (n >= strlen(endings[i]) && !memcmp(s, endings[i], strlen(endings[i])))
            return strlen(endings[i]);
    start = s[0] == ' ' && n > 1;
    data_utf8(s + start, n - start, &c);
    if (data_kind_of(c) != DATA_SPACE)
        return run_end(s, start, n, data_kind_of(c));
    first = (size_t)data_utf8(s, n, &c);
    end = run_end(s, 0, n, DATA_SPACE);
    for (last = end - 1; (s[last] & 0xc0) == 0x80; last--)
        ;
    return end == n || last < first ? end : last; /* the last space goes with the word behind it */
}

/* The parts that begin at byte `at` of a piece. */
static bool part(struct cutting *k, int i, const struct piece *p, size_t at, size_t end)
{
    return at >= end || run_step(k, i + 1, (struct piece){p->s + at, end - at, p->start && at == 0});
}

static bool cut_gpt2(struct cutting *k, int i, const struct piece *p)
{
    for (size_t at = 0, end; at < p->n; at = end) {
        end = at + word_end(p->s + at, p->n - at);
        if (!part(k, i, p, at, end))
            return false;
    }
    return true;
}

static bool cut_digits(struct cutting *k, int i, const struct piece *p)
{
    bool each = k->c->steps[i].each, digit;
    size_t from = 0;

    for (size_t at = 0; at < p->n;) {
        uint32_t c;
        size_t end = at + (size_t)data_utf8(p->s + at, p->n - at, &c);
        digit = data_kind_of(c) == DATA_NUMBER;
        if (digit && !each)
            end = run_end(p->s, at, p->n, DATA_NUMBER);
        if (digit && (!part(k, i, p, from, at) || !part(k, i, p, at, end)))
            return false;
        from = digit ? end : from;
        at = end;
    }
    return part(k, i, p, from, p->n);
}

static bool cut_split(struct cutting *k, int i, const struct piece *p)
{
    const struct step *s = &k->c->steps[i];
    size_t from = 0, at = 0;

    while (at <= p->n) {
        int found = pcre2.match(s->code, p->s, p->n, at, PCRE2_NO_UTF_CHECK, s->data, NULL);
        if (found < -1)
            return wrong(k, "the tokenizer's pattern takes more steps than its library allows");
        if (found < 0)
            break;
        size_t begin = pcre2.ends(s->data)[0], end = pcre2.ends(s->data)[1];
        if (end <= begin || begin < from) { /* an empty match, or one by \K: none */
            at = at + 1;
            while (at < p->n && (p->s[at] & 0xc0) == 0x80)
                at++;
            continue;
        }
        if ((s->keep && !part(k, i, p, from, begin)) || (s->matches && !part(k, i, p, begin, end)))
            return false;
        from = at = end;
    }
    return !s->keep || part(k, i, p, from, p->n);
}

/* `from` becomes `to` everywhere, and `front` stands in front. *n bytes, malloc'ed; NULL: no memory. */
static unsigned char *replaced(const struct piece *p, const char *from, const char *to, const char *front, size_t *n)
{
    size_t nfrom = strlen(from), nto = strlen(to), nfront = strlen(front), count = 0;

    for (size_t at = 0; nfrom && at + nfrom <= p->n; at++)
        if (!memcmp(p->s + at, from, nfrom)) {
            count++;
            at += nfrom - 1;
        }
    unsigned char *out = malloc(nfront + p->n + count * (nto > nfrom ? nto - nfrom : 0) + 1), *end = out;
    if (!out)
        return NULL;
    memcpy(end, front, nfront);
    end += nfront;
    for (size_t at = 0; at < p->n;) {
        bool here = nfrom && at + nfrom <= p->n && !memcmp(p->s + at, from, nfrom);
        memcpy(end, here ? (const void *)to : p->s + at, here ? nto : 1);
        end += here ? nto : 1;
        at += here ? nfrom : 1;
    }
    *n = (size_t)(end - out);
    return out;
}

static bool begins_with(const struct piece *p, const char *text)
{
    return p->n >= strlen(text) && !memcmp(p->s, text, strlen(text));
}

static bool cut_metaspace(struct cutting *k, int i, const struct piece *p)
{
    const struct step *s = &k->c->steps[i];
    bool front = s->scheme == SCHEME_ALWAYS || (s->scheme == SCHEME_FIRST && p->start), ok = true;
    struct piece own = {.start = p->start};
    size_t from = 0, width = strlen(s->to);
    unsigned char *text =
        replaced(p, " ", s->to, front && !begins_with(p, s->to) && !begins_with(p, " ") ? s->to : "", &own.n);

    if (!text)
        return wrong(k, "no memory");
    own.s = text;
    for (size_t at = 1; s->each && ok && at + width <= own.n; at++)
        if (!memcmp(text + at, s->to, width)) {
            ok = part(k, i, &own, from, at);
            from = at;
        }
    ok = ok && part(k, i, &own, from, own.n);
    free(text);
    return ok;
}

static bool cut_bytes(struct cutting *k, int i, const struct piece *p)
{
    const struct step *s = &k->c->steps[i];
    struct piece own = *p;
    unsigned char *text = NULL;

    if (s->prefix && *p->s != ' ') {
        if (!(text = replaced(p, "", "", " ", &own.n)))
            return wrong(k, "no memory");
        own.s = text;
    }
    bool ok = s->regex ? cut_gpt2(k, i, &own) : part(k, i, &own, 0, own.n);
    free(text);
    return ok;
}

static bool replace(struct cutting *k, int i, const struct piece *p)
{
    const struct step *s = &k->c->steps[i];
    bool prepend = s->kind == STEP_PREPEND;
    struct piece own = *p;
    unsigned char *text = replaced(p, prepend ? "" : s->from, prepend ? "" : s->to, prepend ? s->to : "", &own.n);

    if (!text)
        return wrong(k, "no memory");
    own.s = text;
    bool ok = run_step(k, i + 1, own);
    free(text);
    return ok;
}

/* Text in which nothing may compose, and no mark follows another, is in NFC (quick check of UAX 15). */
static bool check_nfc(struct cutting *k, const struct piece *p)
{
    bool mark = false;
    uint32_t c;

    for (size_t at = 0; at < p->n;) {
        at += (size_t)data_utf8(p->s + at, p->n - at, &c);
        bool is = data_is_mark(c);
        if (data_may_compose(c) || (is && mark))
            return put_error(
                k->error,
                "U+%04X: this text may not be in normalization form C, which the tokenizer wants: normalise it first",
                c);
        mark = is;
    }
    return true;
}

static bool run_step(struct cutting *k, int i, struct piece p)
{
    if (!p.n)
        return true;
    if (i == k->c->nsteps)
        return k->word(k->user, p.s, p.n, k->error);
    switch (k->c->steps[i].kind) {
    case STEP_PREPEND:
    case STEP_REPLACE: return replace(k, i, &p);
    case STEP_NFC: return check_nfc(k, &p) && run_step(k, i + 1, p);
    case STEP_BYTES: return cut_bytes(k, i, &p);
    case STEP_SPLIT: return cut_split(k, i, &p);
    case STEP_DIGITS: return cut_digits(k, i, &p);
    case STEP_METASPACE: return cut_metaspace(k, i, &p);
    }
    return false;
}

bool data_cut_words(const struct data_cut *c, const unsigned char *s, size_t n, bool start, data_word_fn *word,
                    void *user, char *error)
{
    struct cutting k = {c, word, user, error};

    return run_step(&k, 0, (struct piece){s, n, start});
}
