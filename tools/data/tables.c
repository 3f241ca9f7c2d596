/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What training's data were: of each input the columns by name, the categories of a column and the mean of its numbers,
 * the names of a folder's classes, scale, mean and std. Training finds them once, over all files of the input;
 * checkpoints hold them as text (the metadata train.data.tables), and whoever reads data for the same parameters uses
 * them instead of looking again: a row's values then depend on that row alone, never on the rows beside it.
 *
 * The text has a line an item, a word and what it is about: input NAME begins an input; then read TYPE, scale X, mean
 * X..., std X..., missing TEXT, tokens bytes|DIGEST FILE, row LENGTH PAD [FORM], picture H W RESIZE; numbers MEAN NAME,
 * dates MEAN NAME and categories NAME for each column in its order (MEAN "-": it had no number; categories of text have
 * no classes); class NAME for each category of the column before, encode WORD+WORD for what becomes of it (encode.c),
 * by SUBTRACT DIVIDE for each scale. Bytes that would break lines or JSON are written \xHH.
 */
#include "tools/data/data_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/safe.h"

enum { MOST_COLUMNS = 65536 };

/* -- Categories ------------------------------------------------------------------------------------------- */

static int compare(const char *a, size_t na, const char *b)
{
    size_t nb = strlen(b), n = na < nb ? na : nb;
    int c = n ? memcmp(a, b, n) : 0;
    return c ? c : na < nb ? -1 : na > nb;
}

/* Where it is (*found), or belongs. */
static int place(const struct data_column *c, const char *name, size_t n, bool *found)
{
    int low = 0, high = c->nclasses;

    *found = false;
    while (low < high && !*found) {
        int middle = (low + high) / 2, order = compare(name, n, c->classes[middle]);
        *found = !order;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

int data_class_of(const struct data_column *c, const char *name, size_t n)
{
    bool found = false;
    int at = c->listed ? 0 : place(c, name, n, &found);

    for (; c->listed && at < c->nclasses; at++)
        if ((found = !compare(name, n, c->classes[at])))
            break;
    return found ? at : -1;
}

static bool insert(struct data_column *c, int at, const char *name, size_t n, char *error)
{
    if (c->nclasses == MOST_COLUMNS)
        return put_error(error, "a column of more than %d categories", MOST_COLUMNS);
    char *copy = strndup(name, n), **grown = copy && c->nclasses % 16 == 0
                                                 ? realloc(c->classes, ((size_t)c->nclasses + 16) * sizeof *grown)
                                                 : c->classes;
    if (!copy || !grown) {
        free(copy);
        return put_error(error, "no memory");
    }
    c->classes = grown;
    memmove(grown + at + 1, grown + at, (size_t)(c->nclasses - at) * sizeof *grown);
    grown[at] = copy;
    c->nclasses++;
    return true;
}

bool data_class_note(struct data_column *c, const char *name, size_t n, char *error)
{
    bool found;
    int at = place(c, name, n, &found);

    return found || insert(c, at, name, n, error);
}

bool data_class_list(struct data_column *c, const char *name, size_t n, char *error)
{
    c->listed |= c->nclasses && compare(name, n, c->classes[c->nclasses - 1]) <= 0;
    return insert(c, c->nclasses, name, n, error);
}

void data_class_names(const struct data_column *c, char *to, size_t room)
{
    size_t used = 0;

    *to = '\0';
    for (int i = 0; i < c->nclasses && used < room; i++)
        if (i < 8 || c->nclasses == 9)
            used += (size_t)snprintf(to + used, room - used, "%s%.40s", i ? ", " : "", c->classes[i]);
    if (c->nclasses > 9 && used < room)
        snprintf(to + used, room - used, " and %d more", c->nclasses - 8);
}

/* -- Tables ----------------------------------------------------------------------------------------------- */

struct data_column *data_table_column(struct data_table *t, const char *name, size_t n)
{
    char *copy = t->ncolumns < MOST_COLUMNS && ONE_MORE(t->columns, t->ncolumns) ? strndup(name, n) : NULL;

    if (!copy)
        return NULL;
    struct data_column *c = &t->columns[t->ncolumns++];
    *c = (struct data_column){.name = copy, .numbers = true};
    return c;
}

static struct data_table *find(const struct data_tables *all, const char *input)
{
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->at[i]->input, input))
            return all->at[i];
    return NULL;
}

const struct data_table *data_table_find(const struct data_tables *all, const char *input)
{
    return find(all, input);
}

struct data_table *data_table_of(struct data_tables *all, const char *input)
{
    struct data_table *known = find(all, input);

    if (known)
        return known;
    struct data_table *t = calloc(1, sizeof *t);
    if (!t || !ONE_MORE(all->at, all->n) || !(t->input = strdup(input))) {
        free(t);
        return NULL;
    }
    t->alone = all->frozen;
    t->from = all->from;
    return all->at[all->n++] = t;
}

void data_tables_close(struct data_tables *all)
{
    for (int i = 0; i < all->n; i++)
        all->at[i]->closed = true;
}

void data_tables_free(struct data_tables *all)
{
    for (int i = 0; i < all->n; i++) {
        struct data_table *t = all->at[i];
        for (int k = 0; k < t->ncolumns; k++) {
            for (int j = 0; j < t->columns[k].nclasses; j++)
                free(t->columns[k].classes[j]);
            free(t->columns[k].classes);
            free(t->columns[k].scales);
            free(t->columns[k].name);
        }
        free(t->columns);
        free(t->missing);
        free(t->tokens);
        free(t->input);
        free(t);
    }
    free(all->at);
    *all = (struct data_tables){0};
}

void data_tables_notes(const struct options *o, const struct data_tables *all)
{
    char names[400];

    for (int i = 0; i < all->n && !option_set(o, OPT_quiet); i++)
        for (int k = 0; k < all->at[i]->ncolumns && !all->at[i]->closed; k++) {
            const struct data_column *c = &all->at[i]->columns[k];
            data_class_names(c, names, sizeof names);
            if (!c->numbers && c->nclasses)
                fprintf(stderr, "note: input '%s'%s%s%s has %d categor%s, numbered from 0: %s\n", all->at[i]->input,
                        *c->name ? ": column '" : "", c->name, *c->name ? "'" : "", c->nclasses,
                        c->nclasses == 1 ? "y" : "ies", names);
        }
}

/* -- Scaling ---------------------------------------------------------------------------------------------- */

static bool same_numbers(const struct data_numbers *a, const struct data_numbers *b)
{
    return a->n == b->n && !memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at);
}

/* scale=, mean= or std= of `given` are what training had, or training read another type of element. */
static bool agrees(const struct data_options *own, const struct data_table *t)
{
    return (!own->scaled || (t->scaled && own->scale == t->scale)) &&
           (!own->means.n || same_numbers(&own->means, &t->means)) &&
           (!own->stds.n || same_numbers(&own->stds, &t->stds));
}

bool data_table_scaling(const char *path, struct data_options *own, enum tcc_dtype dtype, char *error)
{
    struct data_table *t = own->table;
    bool given = own->scaled || own->means.n || own->stds.n;

    if (!t || (t->closed && !t->read))
        return true;
    if (!t->closed) {
        t->read = true;
        t->dtype = dtype;
        t->scaled = own->scaled;
        t->scale = own->scale;
        t->means = own->means;
        t->stds = own->stds;
        return true;
    }
    bool same = t->dtype == dtype, had = t->scaled || t->means.n || t->stds.n;
    if (same && agrees(own, t)) {
        if (t->scaled) {
            own->scaled = true;
            own->scale = t->scale;
        }
        own->means = t->means;
        own->stds = t->stds;
        return true;
    }
    if (same)
        snprintf(error, ERROR_SIZE, "%s: input '%s': scale=, mean= or std= is not what training had (%s): leave it out",
                 path, t->input, t->from);
    else if (had && !given)
        snprintf(
            error, ERROR_SIZE,
            "%s: input '%s': training scaled elements of %s (%s), these are of %s: say scale=, mean= and std= that "
            "make the same of them",
            path, t->input, tcc_dtype_name(t->dtype), t->from, tcc_dtype_name(dtype));
    return !same && (given || !had);
}

/* -- Tokens and pictures ----------------------------------------------------------------------------------- */

bool data_table_tokens(const char *path, struct data_table *t, const char *digest, const char *file, char *error)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    char is[320] = "bytes";
    size_t same = digest ? strlen(digest) + 1 : sizeof is;

    if (digest)
        snprintf(is, sizeof is, "%s %.250s", digest, slash ? slash + 1 : file);
    if (t && !t->tokens && !t->closed && !(t->tokens = strdup(is)))
        return put_error(error, "no memory");
    if (!t || !t->tokens || !strncmp(t->tokens, is, same))
        return true;
    const char *had = strchr(t->tokens, ' '), *from = t->from ? t->from : "its data";
    if (had)
        snprintf(error, ERROR_SIZE,
                 "%s: input '%s': training's tokens were those of a tokenizer '%s' with another vocabulary (%s): say "
                 "tokens= with that one",
                 path, t->input, ir_shown(had + 1), from);
    else
        snprintf(error, ERROR_SIZE, "%s: input '%s': training read text as bytes (%s): leave tokens= out", path,
                 t->input, from);
    return false;
}

bool data_table_row(const char *path, struct data_table *t, const int64_t is[3], char *error)
{
    if (!t->closed && !t->row[0])
        memcpy(t->row, is, sizeof t->row);
    if (!t->row[0] || !memcmp(t->row, is, sizeof t->row))
        return true;
    return put_error(error,
                     "%s: input '%s': training's rows were of %lld tokens, filled up with %lld (%s), these would be "
                     "of %lld with %lld%s",
                     path, t->input, (long long)t->row[0], (long long)t->row[1], t->from ? t->from : "its data",
                     (long long)is[0], (long long)is[1],
                     is[2] == t->row[2] ? ": leave length= and pad= out" : ", by another as=: leave it out");
}

void data_table_size(const struct data_table *t, struct data_options *own)
{
    if (!t || !t->closed || !t->picture[0])
        return;
    if (!own->size && t->picture[0] == t->picture[1])
        own->size = t->picture[0];
    if (!own->resize)
        own->resize = t->picture[2];
}

bool data_table_picture(const char *path, struct data_table *t, const int64_t is[3], char *error)
{
    if (t && !t->closed && !t->picture[0])
        memcpy(t->picture, is, sizeof t->picture);
    if (!t || !t->picture[0] || !memcmp(t->picture, is, sizeof t->picture))
        return true;
    return put_error(
        error,
        "%s: input '%s': training's pictures were cut to %lld x %lld after their shorter side had become %lld (%s), "
        "these would be %lld x %lld after %lld: leave size= and resize= out",
        path, t->input, (long long)t->picture[0], (long long)t->picture[1], (long long)t->picture[2],
        t->from ? t->from : "its data", (long long)is[0], (long long)is[1], (long long)is[2]);
}

/* -- Text ------------------------------------------------------------------------------------------------- */

static void put(FILE *f, const char *word, const char *text)
{
    size_t n = strlen(text);
    uint32_t point;

    fprintf(f, "%s ", word);
    for (size_t i = 0; i < n;) {
        const unsigned char *s = (const unsigned char *)text + i;
        int length = *s < 0x20 || *s == 0x7f || *s == '\\' ? 0 : data_utf8(s, n - i, &point);
        if (length < 1)
            fprintf(f, "\\x%02x", *s);
        else
            fwrite(s, 1, (size_t)length, f);
        i += length < 1 ? 1 : (size_t)length;
    }
    fputc('\n', f);
}

static void put_numbers(FILE *f, const char *word, const struct data_numbers *x)
{
    if (x->n)
        fputs(word, f);
    for (int i = 0; i < x->n; i++)
        fprintf(f, " %.17g", x->at[i]);
    if (x->n)
        fputc('\n', f);
}

static void put_column(FILE *f, const struct data_column *c)
{
    static const struct data_encoding none;
    const char *kind = c->dates ? "dates" : "numbers";
    char word[80] = "categories";

    if (c->numbers && c->count)
        snprintf(word, sizeof word, "%s %.17g", kind, c->sum / (double)c->count);
    else if (c->numbers)
        snprintf(word, sizeof word, "%s -", kind);
    put(f, word, c->name);
    for (int i = 0; i < c->nclasses; i++)
        put(f, "class", c->classes[i]);
    data_encoding_text(&c->encoding, word, sizeof word);
    if (memcmp(&c->encoding, &none, sizeof none))
        put(f, "encode", word);
    for (int k = 0; k < c->nscales; k++)
        fprintf(f, "by %.17g %.17g\n", c->scales[k].subtract, c->scales[k].divide);
}

char *data_tables_text(const struct data_tables *all)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    for (int i = 0; f && i < all->n; i++) {
        const struct data_table *t = all->at[i];
        put(f, "input", t->input);
        if (t->read)
            put(f, "read", tcc_dtype_name(t->dtype));
        if (t->scaled)
            fprintf(f, "scale %.17g\n", t->scale);
        put_numbers(f, "mean", &t->means);
        put_numbers(f, "std", &t->stds);
        if (t->missing)
            put(f, "missing", t->missing);
        if (t->tokens)
            put(f, "tokens", t->tokens);
        if (t->row[0])
            fprintf(f, t->row[2] ? "row %lld %lld %lld\n" : "row %lld %lld\n", (long long)t->row[0],
                    (long long)t->row[1], (long long)t->row[2]);
        if (t->picture[0])
            fprintf(f, "picture %lld %lld %lld\n", (long long)t->picture[0], (long long)t->picture[1],
                    (long long)t->picture[2]);
        for (int k = 0; k < t->ncolumns; k++)
            put_column(f, &t->columns[k]);
    }
    if (f && fclose(f) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

static bool take_numbers(char *s, struct data_numbers *to, bool divides)
{
    while (*s && to->n < DATA_CHANNELS) {
        char *end;
        to->at[to->n++] = strtod(s, &end);
        if (end == s || !isfinite(to->at[to->n - 1]) || (divides && to->at[to->n - 1] == 0))
            return false;
        s = end + (*end == ' ');
    }
    return !*s;
}

static bool take_column(struct data_table *t, char *name, bool numbers, bool dates)
{
    char *mean = name;
    struct data_column *c;

    if (numbers) {
        name = strchr(name, ' ');
        if (!name)
            return false;
        *name++ = '\0';
    }
    if (!tcr_unescape(name) || !(c = data_table_column(t, name, strlen(name))))
        return false;
    c->numbers = numbers;
    c->dates = dates;
    if (numbers && strcmp(mean, "-")) {
        c->sum = strtod(mean, &name);
        c->count = 1;
        return name != mean && !*name;
    }
    return true;
}

static bool take_scale(struct data_table *t, const char *s)
{
    char *end;

    t->scaled = true;
    t->scale = strtod(s, &end);
    return end != s && !*end;
}

static bool take_counts(const char *s, int64_t *to, int n, int64_t least, int64_t most)
{
    for (int i = 0; i < n; i++) {
        char *end;
        to[i] = strtoll(s, &end, 10);
        if (end == s || to[i] < (i ? least : 1) || to[i] > most || *end != (i < n - 1 ? ' ' : '\0'))
            return false;
        s = end + 1;
    }
    return true;
}

static struct data_column *last_column(const struct data_table *t)
{
    return t->ncolumns ? &t->columns[t->ncolumns - 1] : NULL;
}

static bool take_class(struct data_table *t, char *name)
{
    char error[ERROR_SIZE];
    struct data_column *c = last_column(t);

    return c && !c->numbers && tcr_unescape(name) && data_class_list(c, name, strlen(name), error);
}

static bool take_encoding(struct data_table *t, const char *words)
{
    char error[ERROR_SIZE];
    struct data_column *c = last_column(t);

    return c && !c->encoding.nparts && !c->encoding.scale && !c->encoding.curve && strcmp(words, "none") &&
           data_encoding_read(words, strlen(words), &c->encoding, error);
}

/* The next scale of the column before. */
static bool take_by(struct data_table *t, const char *s)
{
    struct data_column *c = last_column(t);
    char *end;

    if (!c || !c->encoding.scale)
        return false;
    struct data_scale own = {.n = 1};
    if (!ONE_MORE(c->scales, c->nscales))
        return false;
    own.subtract = strtod(s, &end);
    if (end == s || *end != ' ')
        return false;
    own.divide = strtod(s = end + 1, &end);
    c->scales[c->nscales++] = own;
    return end != s && !*end && isfinite(own.subtract) && isfinite(own.divide) && own.divide != 0;
}

static bool take_line(struct data_tables *all, struct data_table **t, const char *word, char *rest)
{
    if (!strcmp(word, "input"))
        return tcr_unescape(rest) && (*t = data_table_of(all, rest)) && !(*t)->closed && ((*t)->closed = true);
    if (!*t)
        return false;
    if (!strcmp(word, "read")) {
        (*t)->read = true;
        return ((*t)->dtype = tcc_dtype_by_name(rest)) != TCC_NONE;
    }
    if (!strcmp(word, "missing"))
        return !(*t)->missing && tcr_unescape(rest) && ((*t)->missing = strdup(rest));
    if (!strcmp(word, "tokens"))
        return !(*t)->tokens && tcr_unescape(rest) && ((*t)->tokens = strdup(rest));
    if (!strcmp(word, "picture"))
        return take_counts(rest, (*t)->picture, 3, 1, INT64_MAX);
    if (!strcmp(word, "row"))
        return take_counts(rest, (*t)->row, strchr(rest, ' ') && strchr(strchr(rest, ' ') + 1, ' ') ? 3 : 2, 0,
                           UINT32_MAX);
    return !strcmp(word, "scale")        ? take_scale(*t, rest)
           : !strcmp(word, "mean")       ? take_numbers(rest, &(*t)->means, false)
           : !strcmp(word, "std")        ? take_numbers(rest, &(*t)->stds, true)
           : !strcmp(word, "numbers")    ? take_column(*t, rest, true, false)
           : !strcmp(word, "dates")      ? take_column(*t, rest, true, true)
           : !strcmp(word, "categories") ? take_column(*t, rest, false, false)
           : !strcmp(word, "encode")     ? take_encoding(*t, rest)
           : !strcmp(word, "by")         ? take_by(*t, rest)
                                         : !strcmp(word, "class") && take_class(*t, rest);
}

static bool whole(const struct data_tables *all)
{
    bool ok = true;

    for (int i = 0; i < all->n; i++)
        for (int k = 0; k < all->at[i]->ncolumns; k++)
            ok &= data_column_whole(&all->at[i]->columns[k]);
    return ok;
}

bool data_tables_parse(struct data_tables *all, const char *text)
{
    struct data_table *t = NULL;
    char *copy = strdup(text), *at = copy;
    bool ok = copy != NULL;

    while (ok && *at) {
        char *line = at, *end = at + strcspn(at, "\n"), *rest = line + strcspn(line, " \n");
        at = *end ? end + 1 : end;
        *end = '\0';
        ok = rest < end;
        if (ok) {
            *rest++ = '\0';
            ok = take_line(all, &t, line, rest);
        }
    }
    free(copy);
    return ok && whole(all);
}

int data_tables_embedded(const struct options *o, const struct tccrt_model *m, struct data_tables *all)
{
    const char *text = tccrt_meta(m, "train.data.tables");

    if (!text)
        return EXIT_FINE;
    all->from = "the artifact";
    if (data_tables_parse(all, text))
        return EXIT_FINE;
    return tool_error(o, EXIT_DATA, "the artifact's description of its data (--embed-meta) is damaged");
}

int data_tables_load(const struct options *o, const char *path, struct data_tables *all)
{
    struct tccrt_tensors *f;
    int status = tccrt_tensors_open(path, &f), code = EXIT_FINE;

    if (status != TCC_OK)
        return tool_error(o, status == TCC_EENV ? EXIT_ENVIRONMENT : EXIT_DATA, "%s", tccrt_error());
    const char *text = tccrt_tensors_value(f, "train.data.tables");
    all->from = path;
    if (tccrt_tensors_check(f) != TCC_OK)
        code = tool_error(o, EXIT_DATA, "%s: %s", path, tccrt_error());
    else if (text && !data_tables_parse(all, text))
        code = tool_error(o, EXIT_DATA, "%s: its metadata train.data.tables is damaged", path);
    tccrt_tensors_close(f);
    return code;
}
