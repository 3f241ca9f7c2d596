/* SPDX-License-Identifier: Apache-2.0 */
/* String tensors: concatenation, comparison, splitting, normalising, regular expressions. Texts are UTF-8. */

#include "runtime/libop/text_int.h"

static const struct tcc_string *strings(const struct tcc_tensor *t)
{
    return t->data;
}

/* -- Two operands, broadcast -------------------------------------------------------------------------------------- */

struct pair {
    const struct tcc_tensor *a, *b;
    int rank;
    int64_t n, dims[TCC_MAX_RANK], sa[TCC_MAX_RANK], sb[TCC_MAX_RANK];
};

static int read_pair(struct tcc_lib_call *call, struct pair *p)
{
    int status;

    if ((status = lib_need(call, 0, -1, TCC_STRING, &p->a)) || (status = lib_need(call, 1, -1, TCC_STRING, &p->b)))
        return status;
    if ((p->rank = lib_broadcast(call, p->a, p->b, p->dims)) < 0)
        return TCC_EINPUT;
    lib_strides(p->a, p->rank, p->dims, p->sa);
    lib_strides(p->b, p->rank, p->dims, p->sb);
    p->n = lib_product(p->rank, p->dims);
    return TCC_OK;
}

int tccrt_lib_string_concat(struct tcc_lib_call *call)
{
    int64_t index[TCC_MAX_RANK] = {0};
    struct tcc_string *y;
    struct pair p;
    int status = read_pair(call, &p);

    if (status)
        return status;
    if (!(y = lib_out(call, 0, TCC_STRING, p.rank, p.dims)))
        return TCC_EENV;
    for (int64_t i = 0; i < p.n; i++) {
        const struct tcc_string *a = strings(p.a) + lib_dot(p.rank, index, p.sa),
                                *b = strings(p.b) + lib_dot(p.rank, index, p.sb);
        char *room = malloc((size_t)(a->size + b->size) + 1);

        if (!room)
            return LIB_NO_MEMORY(call);
        if (a->size)
            memcpy(room, a->data, (size_t)a->size);
        if (b->size)
            memcpy(room + a->size, b->data, (size_t)b->size);
        y[i] = (struct tcc_string){room, a->size + b->size};
        lib_next(p.rank, p.dims, index);
    }
    return TCC_OK;
}

int tccrt_lib_string_constant(struct tcc_lib_call *call)
{
    const struct tcc_attr *a = lib_attr(call, "value");

    if (!a || a->kind != TCC_ATTR_TENSOR || a->tensor->dtype != TCC_STRING)
        return LIB_FAIL(call, "attribute 'value' must be a tensor of strings");
    void *y = lib_out(call, 0, TCC_STRING, a->tensor->rank, a->tensor->dims);

    if (!y)
        return TCC_EENV;
    return lib_copy_n(y, 0, a->tensor, 0, lib_count(a->tensor)) ? TCC_OK : LIB_NO_MEMORY(call);
}

int tccrt_lib_string_equal(struct tcc_lib_call *call)
{
    int64_t index[TCC_MAX_RANK] = {0};
    struct pair p;
    uint8_t *y;
    int status = read_pair(call, &p);

    if (status)
        return status;
    if (!(y = lib_out(call, 0, TCC_BOOL, p.rank, p.dims)))
        return TCC_EENV;
    for (int64_t i = 0; i < p.n; i++) {
        y[i] = lib_compare_strings(strings(p.a) + lib_dot(p.rank, index, p.sa),
                                   strings(p.b) + lib_dot(p.rank, index, p.sb)) == 0;
        lib_next(p.rank, p.dims, index);
    }
    return TCC_OK;
}

/* -- Splitting ----------------------------------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

/* The next piece of s from *at on; false: there is none. `left`: how many more cuts are allowed (negative: any number).
 * Without a delimiter, runs of white space separate pieces, as in Python's split. */
static bool next_piece(const struct tcc_string *s, const char *delimiter, int64_t *at, int64_t left,
                       struct tcc_string *piece)
{
    int64_t size = (int64_t)strlen(delimiter), i = *at;

    if (size == 0) {
        while (i < s->size && is_space(s->data[i]))
            i++;
        if (i >= s->size)
            return false;
        *piece = (struct tcc_string){s->data + i, s->size - i};
        while (left != 0 && i < s->size && !is_space(s->data[i]))
            i++;
        *at = left == 0 ? s->size : i;
        piece->size = left == 0 ? piece->size : s->data + i - piece->data;
        return true;
    }
    if (i > s->size)
        return false;
    *piece = (struct tcc_string){s->size ? s->data + i : NULL, s->size - i};
    for (; left != 0 && i + size <= s->size; i++) {
        if (memcmp(s->data + i, delimiter, (size_t)size) == 0) {
            piece->size = i - *at;
            *at = i + size;
            return true;
        }
    }
    *at = s->size + 1;
    return true;
}

/* Pieces of every string of x, and how many the longest list has. */
static void count_pieces(const struct tcc_tensor *x, const char *delimiter, int64_t cuts, int64_t *counts,
                         int64_t *most)
{
    int64_t n = lib_count(x);
    struct tcc_string piece;

    *most = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        counts[i] = 0;
        while (next_piece(strings(x) + i, delimiter, &at, cuts < 0 ? -1 : cuts - counts[i], &piece))
            counts[i]++;
        *most = counts[i] > *most ? counts[i] : *most;
    }
}

/* x -> pieces[x..., most pieces] (missing ones empty), number of pieces. attrs delimiter (none or "": white space),
 * maxsplit. */
int tccrt_lib_string_split(struct tcc_lib_call *call)
{
    const char *delimiter = lib_text(call, "delimiter", "");
    int64_t cuts = lib_int(call, "maxsplit", -1), dims[TCC_MAX_RANK], n, most, *counts, *out;
    const struct tcc_tensor *x;
    struct tcc_string *y, piece;
    int status = lib_need(call, 0, -1, TCC_STRING, &x);

    if (status)
        return status;
    if (x->rank == TCC_MAX_RANK)
        return LIB_FAIL(call, "x has too many dims");
    n = lib_count(x);
    if (!(counts = malloc(((size_t)n + 1) * sizeof *counts)))
        return LIB_NO_MEMORY(call);
    count_pieces(x, delimiter, cuts, counts, &most);
    out = lib_wants(call, 1) ? lib_out(call, 1, TCC_I64, x->rank, x->dims) : counts;
    if (out && out != counts)
        memcpy(out, counts, (size_t)n * sizeof *counts);
    free(counts);
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank] = most;
    if (!out || !(y = lib_out(call, 0, TCC_STRING, x->rank + 1, dims)))
        return TCC_EENV;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0, k = 0;

        for (; next_piece(strings(x) + i, delimiter, &at, cuts < 0 ? -1 : cuts - k, &piece); k++)
            if (tccrt_string_set(&y[i * most + k], piece.data, piece.size))
                return LIB_NO_MEMORY(call);
    }
    return TCC_OK;
}

/* -- Normalising --------------------------------------------------------------------------------------------------- */

/* Ranges of letters: lower = upper + distance, or pairs that alternate. */
static const struct {
    uint16_t first, last;
    int16_t distance;
} letters[] = {
    {'A', 'Z', 32},     {0xc0, 0xd6, 32},   {0xd8, 0xde, 32},   {0x100, 0x12f, 0},
    {0x132, 0x137, 0},  {0x14a, 0x177, 0},  {0x391, 0x3a1, 32}, {0x3a3, 0x3ab, 32},
    {0x400, 0x40f, 80}, {0x410, 0x42f, 32}, {0x460, 0x481, 0},
};

static uint32_t change_case(uint32_t c, bool upper)
{
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        uint32_t first = letters[i].first, last = letters[i].last, d = (uint32_t)letters[i].distance;

        if (d == 0 && c >= first && c <= last)
            return upper ? c & ~1u : c | 1u;
        if (d && !upper && c >= first && c <= last)
            return c + d;
        if (d && upper && c >= first + d && c <= last + d)
            return c - d;
    }
    return c;
}

/* A copy with the case of its letters changed; only one- and two-byte sequences hold letters of the table, and change
 * into such of the same length. */
static int convert(struct tcc_string *to, const struct tcc_string *from, const char *action)
{
    if (tccrt_string_set(to, from->data, from->size))
        return -1;
    if (strcmp(action, "NONE") == 0)
        return 0;
    for (int64_t i = 0; i < to->size; i++) {
        unsigned char *p = (unsigned char *)to->data + i;

        if (*p < 0x80) {
            *p = (unsigned char)change_case(*p, action[0] == 'U');
        } else if ((*p & 0xe0) == 0xc0 && i + 1 < to->size && (p[1] & 0xc0) == 0x80) {
            uint32_t c = change_case((uint32_t)(p[0] & 31) << 6 | (p[1] & 63), action[0] == 'U');

            p[0] = (unsigned char)(0xc0 | c >> 6);
            p[1] = (unsigned char)(0x80 | (c & 63));
            i++;
        }
    }
    return 0;
}

/* 1: listed; 0: not; -1: no memory. */
static int is_stopword(struct tcc_lib_call *call, const struct tcc_string *s, bool sensitive)
{
    const struct tcc_attr *words = lib_attr(call, "stopwords");
    struct tcc_string a = {0}, b = {0};
    int found = 0;

    if (convert(&a, s, sensitive ? "NONE" : "LOWER"))
        return -1;
    for (int i = 0; words && words->kind == TCC_ATTR_STRINGS && i < words->n && !found; i++) {
        struct tcc_string w = {(char *)words->strings[i], (int64_t)strlen(words->strings[i])};

        if (convert(&b, &w, sensitive ? "NONE" : "LOWER")) {
            found = -1;
            break;
        }
        found = lib_compare_strings(&a, &b) == 0;
    }
    free(a.data);
    free(b.data);
    return found;
}

/* x[c] or [1, c] -> its strings but for the stopwords, case changed; a single empty string when none is left. */
int tccrt_lib_string_normalizer(struct tcc_lib_call *call)
{
    const char *action = lib_text(call, "case_change_action", "NONE");
    bool sensitive = lib_int(call, "is_case_sensitive", 0) != 0;
    const struct tcc_tensor *x;
    int64_t n, kept = 0, dims[2] = {1, 1};
    struct tcc_string *y;
    uint8_t *drop;
    int status = lib_need(call, 0, -1, TCC_STRING, &x);

    if (status)
        return status;
    if (x->rank < 1 || x->rank > 2 || (x->rank == 2 && x->dims[0] != 1))
        return LIB_FAIL(call, "x must be [c] or [1, c]");
    if (strcmp(action, "NONE") != 0 && strcmp(action, "LOWER") != 0 && strcmp(action, "UPPER") != 0)
        return LIB_FAIL(call, "case_change_action '%s' is not known", action);
    n = lib_count(x);
    if (!(drop = calloc((size_t)n + 1, 1)))
        return LIB_NO_MEMORY(call);
    for (int64_t i = 0; i < n; i++) {
        int found = is_stopword(call, strings(x) + i, sensitive);

        if (found < 0) {
            free(drop);
            return LIB_NO_MEMORY(call);
        }
        drop[i] = (uint8_t)found;
        kept += !found;
    }
    dims[x->rank - 1] = kept ? kept : 1;
    y = lib_out(call, 0, TCC_STRING, x->rank, dims);
    for (int64_t i = 0, k = 0; y && i < n; i++) {
        if (!drop[i] && convert(&y[k++], strings(x) + i, action)) {
            free(drop);
            return LIB_NO_MEMORY(call);
        }
    }
    free(drop);
    return y ? TCC_OK : TCC_EENV;
}

/* -- Regular expressions ------------------------------------------------------------------------------------------- */

/* Translates RE2 syntax into the C library's extended expressions (which know \w \s \b themselves): \d and \D, groups
 * that do not capture, lazy quantifiers (greed does not matter for a full match), and a dot that does not match a
 * newline. What has no counterpart is named in *problem. `to` has room for 8 bytes per byte of the pattern. */
struct translation {
    char *to;
    const char *problem;
};

static const char *translate_escape(const char *p, bool bracket, struct translation *t)
{
    static const struct {
        char c;
        const char *alone, *inside;
    } classes[] = {
        {'d', "[0-9]", "0-9"},
        {'D', "[^0-9]", NULL},
        {'w', "[0-9A-Za-z_]", "0-9A-Za-z_"},
        {'W', "[^0-9A-Za-z_]", NULL},
        {'s', "[\t\n\f\r ]", "\t\n\f\r "},
        {'S', "[^\t\n\f\r ]", NULL},
        {'b', "\\b", NULL},
        {'B', "\\B", NULL},
        {'n', "\n", "\n"},
        {'t', "\t", "\t"},
        {'r', "\r", "\r"},
        {'f', "\f", "\f"},
        {'v', "\v", "\v"},
        {'A', "^", NULL},
        {'z', "$", NULL},
    };

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].c != *p)
            continue;
        if (!(bracket ? classes[i].inside : classes[i].alone))
            t->problem = "a negated class inside brackets";
        else
            t->to = stpcpy(t->to, bracket ? classes[i].inside : classes[i].alone);
        return p + 1;
    }
    if (*p == 0 || (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')) {
        t->problem = "an escape that is not known";
        return p + (*p != 0);
    }
    if (!bracket)
        *t->to++ = '\\';
    *t->to++ = *p;
    return p + 1;
}

/* p is behind the opening bracket. POSIX has no escapes in brackets: ] must come first, - last, ^ not first. */
static const char *translate_bracket(const char *p, struct translation *t)
{
    bool negated = *p == '^', close = false, dash = false, caret = false, any = false;
    const char *start = p += negated;
    char *first;

    *t->to++ = '[';
    if (negated)
        *t->to++ = '^';
    first = t->to;
    while (*p && (*p != ']' || p == start)) {
        bool escaped = *p == '\\';
        char c = escaped ? p[1] : *p;

        if (!escaped && p[0] == '[' && p[1] == ':') {
            const char *end = strstr(p, ":]");

            end = end ? end + 2 : p + strlen(p);
            memcpy(t->to, p, (size_t)(end - p));
            t->to += end - p;
            p = end;
        } else if (c == ']' || c == '^' || (c == '-' && (escaped || p == start || p[1] == ']'))) {
            close = close || c == ']';
            caret = caret || c == '^';
            dash = dash || c == '-';
            p += 1 + escaped;
        } else if (escaped) {
            p = translate_escape(p + 1, true, t);
        } else {
            *t->to++ = *p++;
        }
        any = true;
    }
    if (*p != ']' || !any)
        t->problem = "brackets that are not closed";
    if (close) {
        memmove(first + 1, first, (size_t)(t->to - first));
        *first = ']';
        t->to++;
    }
    if (caret && t->to == first && !dash && !negated) { /* [^] alone cannot be written */
        t->to = stpcpy(first - 1, "\\^");
        return p + (*p != 0);
    }
    if (caret && t->to == first && dash) {
        *t->to++ = '-';
        dash = false;
    }
    if (caret)
        *t->to++ = '^';
    if (dash)
        *t->to++ = '-';
    *t->to++ = ']';
    return p + (*p != 0);
}

static const char *translate(const char *p, struct translation *t, bool whole)
{
    bool quantified = false;

    t->to = stpcpy(t->to, whole ? "^(" : "(");
    while (*p && !t->problem) {
        bool repeat = *p == '*' || *p == '+' || *p == '?' || *p == '}';

        if (quantified && (*p == '?' || *p == '+')) {
            if (*p == '+')
                t->problem = "a possessive quantifier";
            p++;
            quantified = false;
            continue;
        }
        quantified = repeat;
        if (*p == '\\') {
            p = translate_escape(p + 1, false, t);
        } else if (*p == '[') {
            p = translate_bracket(p + 1, t);
        } else if (*p == '.') {
            t->to = stpcpy(t->to, "[^\n]");
            p++;
        } else if (p[0] == '(' && p[1] == '?') {
            const char *end = p[2] == 'P' && p[3] == '<' ? strchr(p, '>') : p[2] == ':' ? p + 2 : NULL;

            if (!end)
                t->problem = "a group of a kind that is not known";
            *t->to++ = '(';
            p = end ? end + 1 : p + 2;
        } else {
            *t->to++ = *p++;
        }
    }
    t->to = stpcpy(t->to, whole ? ")$" : ")");
    return t->problem;
}

int lib_regex(struct tcc_lib_call *call, const char *pattern, bool whole, regex_t *r)
{
    bool ignore_case = strncmp(pattern, "(?i)", 4) == 0;
    struct translation t = {0};
    char *room, message[128];
    int error;

    if (!(room = t.to = malloc(16 * strlen(pattern) + 16)))
        return LIB_NO_MEMORY(call);
    if (translate(pattern + 4 * ignore_case, &t, whole)) {
        free(room);
        return LIB_FAIL(call, "pattern '%s' has %s, which is not supported", pattern, t.problem);
    }
    error = regcomp(r, room, REG_EXTENDED | (ignore_case ? REG_ICASE : 0));
    free(room);
    if (!error)
        return TCC_OK;
    regerror(error, r, message, sizeof message);
    return LIB_FAIL(call, "pattern '%s': %s", pattern, message);
}

static int match_all(struct tcc_lib_call *call, const struct tcc_tensor *x, const regex_t *r)
{
    uint8_t *y = lib_out(call, 0, TCC_BOOL, x->rank, x->dims);
    int64_t n = lib_count(x);

    if (!y)
        return TCC_EENV;
    for (int64_t i = 0; i < n; i++) {
        const struct tcc_string *s = strings(x) + i;
        regmatch_t whole = {.rm_so = 0, .rm_eo = (regoff_t)s->size};
        char *text = malloc((size_t)s->size + 1); /* terminated, as regexec() wants it; zeros inside are fine */

        if (!text)
            return LIB_NO_MEMORY(call);
        memcpy(text, s->size ? s->data : "", (size_t)s->size);
        text[s->size] = 0;
        y[i] = regexec(r, text, 1, &whole, REG_STARTEND) == 0;
        free(text);
    }
    return TCC_OK;
}

/* x -> bool: whether the whole string matches attr pattern */
int tccrt_lib_regex_full_match(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    regex_t r;
    int status = lib_need(call, 0, -1, TCC_STRING, &x);

    if (status || (status = lib_regex(call, lib_text(call, "pattern", ""), true, &r)))
        return status;
    status = match_all(call, x, &r);
    regfree(&r);
    return status;
}
