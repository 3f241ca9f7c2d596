/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer: ONNX Runtime's operator of that name. Strings become lists of tokens: what lies between matches of regular
 * expressions, or the matches of one, or characters. Patterns are POSIX's, as those of regex_full_match: of all matches
 * that begin first, the longest.
 */
#include "base/grow.h"
#include "runtime/libop/text_int.h"

struct token {
    int64_t at, size; /* in its string */
};

struct tokens {
    struct token *list;
    int64_t n, room;
    bool failed; /* no memory */
};

static void add_token(struct tokens *t, int64_t at, int64_t size)
{
    if (!GROWN(t->list, t->n, t->room, 16)) {
        t->failed = true;
        return;
    }
    t->list[t->n++] = (struct token){at, size};
}

/* Bytes of the UTF-8 sequence at p, of `left` ones. */
static int64_t sequence_size(const char *p, int64_t left)
{
    unsigned char c = (unsigned char)*p;
    int64_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    return n < left ? n : left;
}

static int64_t characters(const char *p, int64_t size)
{
    int64_t n = 0;

    for (int64_t i = 0; i < size; n++)
        i += sequence_size(p + i, size - i);
    return n;
}

/* The first match in text[from, to), as offsets into text; an empty one may be at `to`. */
static bool find_match(const regex_t *r, const char *text, int64_t from, int64_t to, int64_t *first, int64_t *end)
{
    regmatch_t m = {.rm_so = 0, .rm_eo = (regoff_t)(to - from)};

    if (regexec(r, text + from, 1, &m, REG_STARTEND | (from ? REG_NOTBOL : 0)))
        return false;
    *first = from + m.rm_so;
    *end = from + m.rm_eo;
    return true;
}

/* What lies between the matches in one piece, but what is empty; or (`keep`) the matches themselves. */
static void cut(const regex_t *r, const char *text, struct token piece, bool keep, struct tokens *out)
{
    int64_t at = piece.at, stop = piece.at + piece.size, begun = at, first, end;

    while (at < stop && find_match(r, text, at, stop, &first, &end)) {
        if (keep && end > first)
            add_token(out, first, end - first);
        if (!keep && first > begun && end > first)
            add_token(out, begun, first - begun);
        if (end > first)
            begun = end;
        at = end > first ? end : end < stop ? end + sequence_size(text + end, stop - end) : stop;
    }
    if (!keep && stop > begun)
        add_token(out, begun, stop - begun);
}

struct tokenizer {
    regex_t *patterns;
    int n;
    bool keep, letters; /* matches are tokens; every character is one */
    int64_t least;      /* characters of a token */
};

/* The tokens of one string, appended to `out`. `text` ends with a zero. */
static void tokens_of(const struct tokenizer *z, const char *text, int64_t size, struct tokens *out)
{
    struct tokens now = {0}, next = {0};

    if (size)
        add_token(&now, 0, size);
    for (int64_t i = 0; z->letters && i < size; i += sequence_size(text + i, size - i))
        add_token(out, i, sequence_size(text + i, size - i));
    for (int k = 0; k < z->n && !now.failed; k++) {
        struct tokens old = now;

        next.n = 0;
        for (int64_t i = 0; i < now.n; i++)
            cut(&z->patterns[k], text, now.list[i], z->keep, &next);
        next.failed |= now.failed;
        now = next;
        next = old;
    }
    for (int64_t i = 0; !z->letters && i < now.n; i++)
        if (characters(text + now.list[i].at, now.list[i].size) >= z->least)
            add_token(out, now.list[i].at, now.list[i].size);
    out->failed |= now.failed || next.failed;
    free(now.list);
    free(next.list);
}

static void close_tokenizer(struct tokenizer *z)
{
    for (int k = 0; k < z->n; k++)
        regfree(&z->patterns[k]);
    free(z->patterns);
}

static int open_tokenizer(struct tcc_lib_call *call, struct tokenizer *z)
{
    const struct tcc_attr *separators = lib_attr(call, "separators");
    const char *expression = lib_text(call, "tokenexp", "");
    int n = separators && separators->kind == TCC_ATTR_STRINGS ? separators->n : 0, status;

    *z = (struct tokenizer){.keep = *expression != 0, .least = lib_int(call, "mincharnum", 1)};
    z->letters = strcmp(expression, ".") == 0 || (n == 1 && !*separators->strings[0]);
    if (!n == !*expression)
        return LIB_FAIL(call, "either separators or tokenexp expected");
    if (!(z->patterns = calloc((size_t)n + 1, sizeof *z->patterns)))
        return LIB_NO_MEMORY(call);
    for (int k = 0; !z->letters && k < (z->keep ? 1 : n); k++) {
        if ((status = lib_regex(call, z->keep ? expression : separators->strings[k], false, &z->patterns[k]))) {
            close_tokenizer(z);
            return status;
        }
        z->n++;
    }
    return TCC_OK;
}

/* All tokens of x; counts[i]: how many string i has. */
static bool tokenize_all(const struct tokenizer *z, const struct tcc_tensor *x, struct tokens *all, int64_t *counts)
{
    for (int64_t i = 0; i < lib_count(x); i++) {
        const struct tcc_string *s = (const struct tcc_string *)x->data + i;
        char *text = malloc((size_t)s->size + 1);
        int64_t before = all->n;

        if (!text)
            return false;
        memcpy(text, s->size ? s->data : "", (size_t)s->size);
        text[s->size] = 0;
        tokens_of(z, text, s->size, all);
        free(text);
        if (all->failed)
            return false;
        counts[i] = all->n - before;
    }
    return true;
}

static int write_tokens(struct tcc_lib_call *call, const struct tcc_tensor *x, const struct tokens *all,
                        const int64_t *counts)
{
    const char *pad = lib_text(call, "pad_value", "");
    bool mark = lib_int(call, "mark", 0) != 0;
    int64_t dims[TCC_MAX_RANK], n = lib_count(x), most = 0, next = 0;
    struct tcc_string *y;

    for (int64_t i = 0; i < n; i++)
        most = counts[i] > most ? counts[i] : most;
    most += most && mark ? 2 : 0;
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank] = most;
    if (!(y = lib_out(call, 0, TCC_STRING, x->rank + 1, dims)))
        return TCC_EENV;
    for (int64_t i = 0; i < n; i++) {
        const char *data = ((const struct tcc_string *)x->data)[i].data;
        int64_t shift = most && mark, end = counts[i] + 2 * shift;

        for (int64_t k = 0; k < most; k++, y++) {
            bool is_token = k >= shift && k < counts[i] + shift;
            const struct token *t = is_token ? &all->list[next++] : NULL;
            const char *text = t ? data + t->at : k >= end ? pad : k ? "\3" : "\2";

            if (tccrt_string_set(y, text, t ? t->size : (int64_t)strlen(text)))
                return LIB_NO_MEMORY(call);
        }
    }
    return TCC_OK;
}

/* x[c] or [n, c] -> tokens [.., most]. attrs separators or tokenexp, mincharnum, mark, pad_value */
int tccrt_lib_tokenizer(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    struct tokens all = {0};
    struct tokenizer z;
    int64_t *counts;
    int status = lib_need(call, 0, -1, TCC_STRING, &x);

    if (status)
        return status;
    if (x->rank < 1 || x->rank > 2)
        return LIB_FAIL(call, "x must be [c] or [n, c]");
    if ((status = open_tokenizer(call, &z)))
        return status;
    counts = calloc((size_t)lib_count(x) + 1, sizeof *counts);
    status = counts && tokenize_all(&z, x, &all, counts) ? write_tokens(call, x, &all, counts) : LIB_NO_MEMORY(call);
    free(counts);
    free(all.list);
    close_tokenizer(&z);
    return status;
}
