/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of --data: [READER:]FILE[:NAME][,KEY=VALUE]..., by the tables readers.def and options.def. An existing
 * file's name may hold commas and colons; the longest part that is a file's name is it. In a value a backslash takes
 * the next character as it is; in a list of names its separators, too. An argument that names
 * an existing file is that file; else the longest name of an input followed by '=' is the input that it is for.
 */
#include "tools/data/data_int.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum option_form { FORM_COUNT, FORM_NUMBER, FORM_NUMBERS, FORM_TYPE, FORM_TEXT, FORM_WORDS, FORM_LIST };

static const struct key {
    const char *key;
    enum option_form form;
    size_t field;
    int64_t least;
    const char *expected;
} keys[] = {
#define DATA_OPTION(key, kind, field, least, expected) \
    {#key, FORM_##kind, offsetof(struct data_options, field), least, expected},
#include "tools/data/options.def"
};
enum { NKEYS = sizeof keys / sizeof *keys };

static const struct reader_row {
    const char *prefix, *keys;
} readers[] = {
#define READER(id, prefix, suffixes, keys, all, looks, text) {prefix, keys},
#include "tools/data/readers.def"
};

static const char *const augments[DATA_NAUGMENTS] = {"flip", "crop", "jitter"};

/* -- Values --------------------------------------------------------------------------------------------------- */

/* "0.1307", "1/255"; *end is what follows. */
static bool read_number(const char *text, const char **end, double *out)
{
    char *stop;
    *out = strtod(text, &stop);
    if (stop != text && *stop == '/') {
        const char *below = stop + 1;
        double d = strtod(below, &stop);
        if (stop == below || d == 0)
            return false;
        *out /= d;
    }
    *end = stop;
    return stop != text && isfinite(*out);
}

/* X+Y+Z */
static bool read_numbers(const char *text, bool zero, struct data_numbers *to)
{
    for (to->n = 0; to->n < DATA_CHANNELS; text++) {
        double *x = &to->at[to->n++];
        if (!read_number(text, &text, x) || (!zero && *x == 0))
            return false;
        if (*text != '+')
            return !*text;
    }
    return false;
}

static bool read_augments(const char *text, unsigned *to)
{
    for (const char *s = text;; s++) {
        size_t n = strcspn(s, "+");
        int k = 0;
        while (k < DATA_NAUGMENTS && (strlen(augments[k]) != n || strncmp(s, augments[k], n)))
            k++;
        if (k == DATA_NAUGMENTS)
            return false;
        *to |= 1u << k;
        s += n;
        if (!*s)
            return true;
    }
}

static bool read_value(const struct key *k, const char *value, struct data_options *o)
{
    void *field = (char *)o + k->field;
    double d;

    switch (k->form) {
    case FORM_TYPE:
        o->dtype = tcc_dtype_by_name(value);
        return o->dtype != TCC_NONE && o->dtype != TCC_STRING && tcc_dtype_class(o->dtype) != TCC_CLASS_COMPLEX;
    case FORM_LIST:
    case FORM_TEXT: *(const char **)field = value; return *value != 0;
    case FORM_WORDS: return read_augments(value, field);
    case FORM_NUMBERS: return read_numbers(value, field != &o->stds, field);
    case FORM_COUNT:
    case FORM_NUMBER: break;
    }
    if (!read_number(value, &value, &d) || *value)
        return false;
    if (k->form == FORM_NUMBER) {
        o->scaled = true; /* `scale` is the only one */
        *(double *)field = d;
        return true;
    }
    *(int64_t *)field = (int64_t)d;
    return d >= (double)k->least && d <= 1e15 && d == (double)(int64_t)d;
}

/* Takes backslashes off (of a list those before commas alone), up to a comma that has none, and ends the text there;
 * what follows, or NULL. */
static char *cut_value(char *text, bool list)
{
    char *to = text;

    for (; *text && *text != ','; text++) {
        if (*text == '\\' && text[1] && (!list || text[1] == ','))
            text++;
        else if (*text == '\\' && text[1])
            *to++ = *text++;
        *to++ = *text;
    }
    char *next = *text ? text + 1 : NULL;
    *to = '\0';
    return next;
}

static const struct key *find_key(const char *text, size_t n)
{
    for (int i = 0; i < NKEYS; i++)
        if (strlen(keys[i].key) == n && !strncmp(keys[i].key, text, n))
            return &keys[i];
    return NULL;
}

/* -- Lists of names --------------------------------------------------------------------------------------------- */

size_t data_item(const char *s, const char *ends)
{
    const char *from = s;

    for (; *s && !strchr(ends, *s); s++)
        s += *s == '\\' && s[1];
    return (size_t)(s - from);
}

const char *data_item_behind(const char *s, const char *ends, const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++, s++) {
        if (*s == '\\' && s[1])
            s++;
        else if (!*s || strchr(ends, *s))
            return NULL;
        if (*s != name[i])
            return NULL;
    }
    return s;
}

/* -- Names of files --------------------------------------------------------------------------------------------- */

bool data_words_glob(const char *path)
{
    return strpbrk(path, "*?[") && access(path, F_OK) != 0;
}

static bool is_file(char *text, char *end)
{
    char kept = *end;

    *end = '\0';
    bool file = access(text, F_OK) == 0;
    *end = kept;
    return file;
}

/* Where the options begin, at a comma; NULL: there are none. */
static char *options_of(char *text)
{
    char *comma = text, *first = NULL, *best = NULL;

    if (access(text, F_OK) == 0)
        return NULL;
    for (; (comma = strchr(comma, ',')); comma++) {
        first = first ? first : comma;
        best = is_file(text, comma) ? comma : best;
    }
    return best ? best : first;
}

/* FILE:NAME with a file (or a pattern) before some colon: where NAME begins; NULL: there is none. */
static char *name_of(char *text)
{
    char *colon = text + strlen(text);

    if (access(text, F_OK) == 0)
        return NULL;
    while (colon > text)
        if (*--colon == ':' && is_file(text, colon))
            return colon + 1;
    colon = strpbrk(text, "*?[") ? strrchr(text, ':') : NULL;
    return colon ? colon + 1 : NULL;
}

/* -- The door ------------------------------------------------------------------------------------------------------ */

/* Is the word one of those between commas? */
static bool is_listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *s = list; *s; s += *s == ',') {
        size_t length = strcspn(s, ",");
        if (length == n && !strncmp(s, word, n))
            return true;
        s += length;
    }
    return false;
}

static void list_keys(const char *of, char *to, size_t room)
{
    size_t used = 0;

    for (int i = 0; i < NKEYS && used < room - 80; i++)
        if (!of || is_listed(of, keys[i].key))
            used += (size_t)snprintf(to + used, room - used, "%s%s", used ? ", " : "", keys[i].expected);
}

static int bad_option(const struct options *o, const char *given, const char *bad)
{
    char known[600];

    list_keys(NULL, known, sizeof known);
    return usage_error(o, "%s: unknown option '%s' of a data file; expected %s", given, bad, known);
}

int data_words_read(const struct options *o, const char *text, const char *given, struct data_words *words)
{
    *words = (struct data_words){.text = strdup(text), .input = -1, .reader = -1, .o = {.scale = 1, .pad = -1}};
    char *path = words->text;

    if (!path)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < NREADERS && words->reader < 0 && access(path, F_OK) != 0; i++)
        if (*readers[i].prefix && !strncmp(path, readers[i].prefix, strlen(readers[i].prefix)))
            words->reader = i;
    path += words->reader < 0 ? 0 : strlen(readers[words->reader].prefix);
    char *next = options_of(path);
    if (next)
        *next++ = '\0';
    while (next) {
        char *at = next, bad[64], *value = at + strcspn(at, ",=");
        const struct key *k = *value == '=' ? find_key(at, (size_t)(value - at)) : NULL;
        snprintf(bad, sizeof bad, "%.*s", (int)strcspn(at, ","), at);
        next = cut_value(*value == '=' ? value + 1 : at, k && k->form == FORM_LIST);
        if (!k || !read_value(k, value + 1, &words->o))
            return bad_option(o, given, bad);
    }
    words->path = path;
    char *name = name_of(path);
    if (name) {
        name[-1] = '\0';
        words->name = name;
    }
    words->o.lenient = option_set(o, OPT_skip_bad);
    return EXIT_FINE;
}

/* The input that the argument names, as NAME=; -1: none. */
static int input_of(const struct tccrt_value_info *inputs, int n, const char *text)
{
    int best = -1;
    size_t longest = 0;

    for (int i = 0; i < n; i++) {
        size_t length = strlen(inputs[i].name);
        if (strncmp(text, inputs[i].name, length) == 0 && text[length] == '=' && (best < 0 || length > longest)) {
            best = i;
            longest = length;
        }
    }
    return best;
}

void data_list_inputs(const struct tccrt_value_info *inputs, int n, char *to, size_t room)
{
    size_t used = 0;

    *to = '\0';
    for (int i = 0; i < n && used < room - 80; i++)
        used += (size_t)snprintf(to + used, room - used, "%s'%.60s'", i ? ", " : "", inputs[i].name);
}

int data_words_all(const struct options *o, enum option_id id, const struct tccrt_value_info *inputs, int n,
                   struct data_words **all)
{
    int count = o->given[id].n, code = EXIT_FINE;
    struct data_words *list = *all = calloc((size_t)count + 1, sizeof *list);

    if (!list)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int k = 0; k < count && code == EXIT_FINE; k++) {
        const char *text = o->given[id].at[k];
        bool file = access(text, F_OK) == 0;
        int i = file ? -1 : input_of(inputs, n, text);
        if (i < 0 && !file && strchr(text, '=') && strcspn(text, ",") > strcspn(text, "=")) {
            char names[512];
            data_list_inputs(inputs, n, names, sizeof names);
            return usage_error(o, "%s: the step has no input of that name, and there is no such file; it reads %s",
                               text, names);
        }
        code = data_words_read(o, i < 0 ? text : text + strlen(inputs[i].name) + 1, text, &list[k]);
        list[k].input = i;
    }
    return code;
}

void data_words_free(struct data_words *all, int n)
{
    for (int k = 0; all && k < n; k++)
        free(all[k].text);
    free(all);
}

static bool is_given(const struct key *k, const struct data_options *o)
{
    static const struct data_options none = {.scale = 1, .pad = -1};
    static const size_t sizes[] = {
        [FORM_COUNT] = sizeof(int64_t),       [FORM_NUMBER] = sizeof(double), [FORM_NUMBERS] = sizeof(int),
        [FORM_TYPE] = sizeof(enum tcc_dtype), [FORM_TEXT] = sizeof(char *),   [FORM_WORDS] = sizeof(unsigned),
        [FORM_LIST] = sizeof(char *)};

    return memcmp((const char *)o + k->field, (const char *)&none + k->field, sizes[k->form]) != 0;
}

int data_words_check(const struct options *o, const struct data_words *words, int reader, const char *given)
{
    static const char every[] = "limit,scale,mean,std";
    char known[600];

    for (int i = 0; i < NKEYS; i++) {
        if (!is_given(&keys[i], &words->o) || is_listed(every, keys[i].key) ||
            is_listed(readers[reader].keys, keys[i].key))
            continue;
        list_keys(readers[reader].keys, known, sizeof known - 80);
        return usage_error(o, "%s: '%s' says nothing of such a file; expected %s%slimit=N, scale=X, mean=X, std=X",
                           given, keys[i].key, known, *readers[reader].keys ? ", " : "");
    }
    return EXIT_FINE;
}
