/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables as text: comma-separated values (RFC 4180: fields in double quotes may hold the delimiter, line breaks and
 * doubled quotes), the first line names the columns.
 *
 * A column whose values are all numbers is one of numbers. Any other is one of categories, numbered by the order of
 * their names as bytes, or as categories=COLUMN:A+B+C;COLUMN:... says; a name that is not listed there is a bad value.
 * An empty field, NA, nan or null is missing: an error, unless missing=mean (of the column's numbers) or missing=X
 * (that number) says what it becomes; in a column of categories X is the number of its class. All this is found over
 * all files of the training's data, and is the input's table (tables.c); where there is one already, a file's columns
 * are those, by name, and nothing depends on the file's other rows. Numbers go through float64. What the input gets is
 * f32[n, columns] (f32[n] of one column where the input has rank 1), i64 for an input of integers.
 */
#include "tools/data/data_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 65536 };

struct span {
    const char *at;
    size_t n;
    bool quoted;
};

struct table {
    const struct data_request *q;
    const char *at, *end; /* of the text; `at` moves */
    char delimiter;
    int64_t line; /* of the file, from 1 */
    int ncolumns, room;
    struct span *fields; /* of the line that was read last */
    int nfields;
    struct span *names;
    char *plain; /* a category's name with its quotes single */
    size_t plain_room;
};

struct column {
    int at; /* in a line */
    struct data_column *of;
};

struct rows {
    struct data_source source;
    char path[256];
    enum tcc_dtype dtype;
    int64_t n, columns;
    void *values;
    int64_t nbad;
    struct bad_row {
        int64_t row, line;
        char why[200];
    } * bad; /* ascending */
};

/* -- Text
 * ----------------------------------------------------------------------------------------------------------- */

static bool no_memory(char *error)
{
    snprintf(error, ERROR_SIZE, "no memory");
    return false;
}

static bool add_field(struct table *t, struct span s, char *error)
{
    if (t->nfields == t->room) {
        int room = t->room ? 2 * t->room : 64;
        struct span *grown = room <= MOST_COLUMNS * 2 ? realloc(t->fields, (size_t)room * sizeof s) : NULL;
        if (!grown)
            return no_memory(error);
        t->fields = grown;
        t->room = room;
    }
    t->fields[t->nfields++] = s;
    return true;
}

/* The field in quotes that begins at t->at, without them; doubled ones stay doubled. */
static bool quoted_field(struct table *t, struct span *s, char *error)
{
    const char *from = ++t->at;
    int64_t line = t->line;

    for (; t->at < t->end; t->at++) {
        t->line += *t->at == '\n';
        if (*t->at != '"')
            continue;
        if (t->at + 1 < t->end && t->at[1] == '"') {
            t->at++;
            continue;
        }
        *s = (struct span){from, (size_t)(t->at - from), true};
        t->at++;
        return true;
    }
    snprintf(error, ERROR_SIZE, "%s: line %lld: a quote is never closed", t->q->path, (long long)line);
    return false;
}

/* The next line's fields; false with an empty error: there is none. */
static bool read_line(struct table *t, int64_t *line, char *error)
{
    *error = '\0';
    t->nfields = 0;
    while (t->at < t->end && (*t->at == '\n' || *t->at == '\r')) { /* empty lines are no rows */
        t->line += *t->at == '\n';
        t->at++;
    }
    *line = t->line;
    if (t->at >= t->end)
        return false;
    for (;;) {
        struct span s = {t->at, 0, false};
        if (*t->at == '"') {
            if (!quoted_field(t, &s, error))
                return false;
        }
        while (t->at < t->end && *t->at != t->delimiter && *t->at != '\n') { /* behind a closing quote: left out */
            s.n += !s.quoted;
            t->at++;
        }
        s.n -= !s.quoted && s.n && s.at[s.n - 1] == '\r';
        if (!add_field(t, s, error))
            return false;
        if (t->at >= t->end || *t->at++ == '\n')
            break;
        if (t->at >= t->end) /* the delimiter was the file's last byte */
            return add_field(t, (struct span){t->at, 0, false}, error);
    }
    t->line++;
    return true;
}

static bool same(struct span s, const char *text, size_t n)
{
    return s.n == n && !memcmp(s.at, text, n);
}

static struct span trim(struct span s)
{
    while (!s.quoted && s.n && (*s.at == ' ' || *s.at == '\t'))
        s.at++, s.n--;
    while (!s.quoted && s.n && (s.at[s.n - 1] == ' ' || s.at[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* The name of a category; NULL: no memory. It lasts to the next call. */
static const char *plain(struct table *t, struct span s, size_t *n)
{
    if (s.n > t->plain_room || !t->plain) {
        char *grown = realloc(t->plain, 2 * s.n + 64);
        if (!grown)
            return NULL;
        t->plain = grown;
        t->plain_room = 2 * s.n + 64;
    }
    *n = 0;
    for (size_t i = 0; i < s.n; i++) {
        t->plain[(*n)++] = s.at[i];
        i += s.quoted && s.at[i] == '"';
    }
    return t->plain;
}

static bool missing(struct span s)
{
    static const char *const words[] = {"NA", "NaN", "nan", "null", "NULL"};
    bool is = !s.n;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is |= same(s, words[i], strlen(words[i]));
    return is && (!s.quoted || !s.n); /* who quotes all fields quotes empty ones, too */
}

static bool number(struct span s, double *out)
{
    char copy[64], *end;

    if (!s.n || s.n >= sizeof copy)
        return false;
    memcpy(copy, s.at, s.n);
    copy[s.n] = '\0';
    *out = strtod(copy, &end);
    return !*end && end != copy;
}

/* -- Columns
 * ---------------------------------------------------------------------------------------------------------- */

static int column_named(const struct table *t, const char *name, size_t n)
{
    for (int i = 0; i < t->ncolumns; i++)
        if (same(t->names[i], name, n))
            return i;
    return -1;
}

static int columns_named(const struct table *t, const char *name, size_t n)
{
    int count = 0;

    for (int i = 0; i < t->ncolumns; i++)
        count += same(t->names[i], name, n);
    return count;
}

static bool is_input(const struct data_request *q, struct span name)
{
    for (int i = 0; i < q->ninputs; i++)
        if (same(name, q->inputs[i].name, strlen(q->inputs[i].name)))
            return true;
    return false;
}

static void list_names(const struct table *t, char *to, size_t room)
{
    size_t used = 0;

    *to = '\0';
    for (int i = 0; i < t->ncolumns && used < room - 80; i++)
        used += (size_t)snprintf(to + used, room - used, "%s'%.*s'", i ? ", " : "",
                                 (int)(t->names[i].n < 60 ? t->names[i].n : 60), t->names[i].at);
}

/* Columns of a list A+B+C. */
static int named_columns(const struct table *t, const char *list, struct column *c, char *error)
{
    char names[400];
    int n = 0;

    for (const char *s = list; n < t->ncolumns; s++) {
        size_t length = strcspn(s, "+");
        int at = column_named(t, s, length);
        if (at < 0) {
            list_names(t, names, sizeof names);
            snprintf(error, ERROR_SIZE, "%s: no column '%.*s'; it has %s", t->q->path, (int)length, s, names);
            return 0;
        }
        if (columns_named(t, s, length) > 1) {
            snprintf(error, ERROR_SIZE, "%s: %d columns are called '%.*s': which one?", t->q->path,
                     columns_named(t, s, length), (int)length, s);
            return 0;
        }
        c[n++].at = at;
        s += length;
        if (!*s)
            break;
    }
    return n;
}

static const char *asked_columns(const struct data_request *q)
{
    return q->name ? q->name : q->o->columns;
}

/* Those that the request is for: columns=, FILE:NAME, the input's own name, else (floats) all that are no input's. */
static int choose_columns(const struct table *t, struct column *c, bool *found, char *error)
{
    const struct data_request *q = t->q;
    const char *list = asked_columns(q);
    int n = 0, own = column_named(t, q->info->name, strlen(q->info->name));

    if (list && (q->named || q->name || tcc_is_float((enum tcc_dtype)q->info->dtype)) && (q->named || own < 0))
        return named_columns(t, list, c, error);
    if (own >= 0) {
        c[0].at = own;
        return 1;
    }
    for (int i = 0; i < t->ncolumns && tcc_is_float((enum tcc_dtype)q->info->dtype); i++)
        if (!is_input(q, t->names[i]))
            c[n++].at = i;
    *found = n > 0 || q->named;
    if (!n) {
        char names[400];
        list_names(t, names, sizeof names);
        snprintf(error, ERROR_SIZE, "%s: no column for input '%s': NAME=FILE:COLUMN, or columns=A+B; it has %s",
                 q->path, q->info->name, names);
    }
    return n;
}

/* The next column of that name behind `after`: names may be there twice. */
static int column_after(const struct table *t, const char *name, int after)
{
    for (int i = after + 1; i < t->ncolumns; i++)
        if (same(t->names[i], name, strlen(name)))
            return i;
    return -1;
}

/* Training's columns, in its order, where this file has them. */
static int known_columns(const struct table *t, struct column *c, char *error)
{
    const struct data_table *known = t->q->o->table;
    char names[400];

    for (int k = 0; k < known->ncolumns; k++) {
        const char *name = known->columns[k].name;
        int after = -1, here = columns_named(t, name, strlen(name)), then = 0;
        for (int i = 0; i < known->ncolumns; i++)
            then += !strcmp(known->columns[i].name, name);
        if (here > then) {
            snprintf(error, ERROR_SIZE, "%s: %d columns are called '%.80s', of which input '%s' was trained with %d",
                     t->q->path, here, name, known->input, then);
            return 0;
        }
        for (int i = 0; i < k; i++)
            after = !strcmp(known->columns[i].name, name) && c[i].at > after ? c[i].at : after;
        if ((c[k].at = column_after(t, name, after)) < 0) {
            list_names(t, names, sizeof names);
            snprintf(error, ERROR_SIZE, "%s: no column '%.80s', which input '%s' was trained with; it has %s",
                     t->q->path, name, known->input, names);
            return 0;
        }
    }
    return known->ncolumns;
}

/* Columns that are asked for by name stand for training's, one by one; those that have a name of its table must be
 * where that is. */
static int renamed_columns(const struct table *t, struct column *c, char *error)
{
    const struct data_table *known = t->q->o->table;
    int n = named_columns(t, asked_columns(t->q), c, error);

    if (n && n != known->ncolumns) {
        snprintf(error, ERROR_SIZE, "%s: %d column%s for input '%s', which was trained with %d", t->q->path, n,
                 n == 1 ? "" : "s", known->input, known->ncolumns);
        return 0;
    }
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            struct span s = t->names[c[k].at];
            if (!same(s, known->columns[i].name, strlen(known->columns[i].name)) ||
                same(s, known->columns[k].name, strlen(known->columns[k].name)))
                continue;
            snprintf(error, ERROR_SIZE, "%s: column '%.80s' is number %d of input '%s'; in training it was number %d",
                     t->q->path, known->columns[i].name, k + 1, known->input, i + 1);
            return 0;
        }
    return n;
}

/* categories=COLUMN:A+B;COLUMN:...: the list of this column, or NULL. */
static const char *listed(const struct table *t, int at)
{
    struct span name = t->names[at];

    for (const char *s = t->q->o->categories; s && *s; s += strcspn(s, ";"), s += *s == ';')
        if (strnlen(s, name.n) == name.n && !memcmp(s, name.at, name.n) && s[name.n] == ':')
            return s + name.n + 1;
    return NULL;
}

/* categories= of a new column. */
static bool list_classes(const struct table *t, const struct column *c, char *error)
{
    const char *list = listed(t, c->at);

    c->of->numbers = !list;
    for (const char *s = list; s; s++) {
        size_t n = strcspn(s, "+;");
        if (!data_class_list(c->of, s, n, error))
            return false;
        s += n;
        if (*s != '+')
            break;
    }
    return true;
}

/* categories= of a column that training had. */
static bool same_classes(const struct table *t, const struct column *c, char *error)
{
    const char *s = listed(t, c->at);
    char names[400];
    bool same = true;
    int k = 0;

    for (; same && k < c->of->nclasses; k++) {
        size_t n = strcspn(s, "+;");
        same = strlen(c->of->classes[k]) == n && !memcmp(c->of->classes[k], s, n);
        s += n + (s[n] == '+');
    }
    if (same && k && (!*s || *s == ';'))
        return true;
    data_class_names(c->of, names, sizeof names);
    snprintf(error, ERROR_SIZE, "%s: categories= of column '%.80s' are not those of training: %s", t->q->path,
             c->of->name, c->of->numbers ? "it had numbers" : names);
    return false;
}

/* The table's columns are this file's. */
static bool note_columns(struct table *t, int n, struct column *c, char *error)
{
    struct data_table *table = t->q->o->table;

    for (int k = 0; k < n; k++)
        if (!data_table_column(table, t->names[c[k].at].at, t->names[c[k].at].n))
            return no_memory(error);
    for (int k = 0; k < n; k++) {
        c[k].of = &table->columns[k];
        if (!list_classes(t, &c[k], error))
            return false;
    }
    return !t->q->o->missing || table->missing || (table->missing = strdup(t->q->o->missing)) || no_memory(error);
}

static int find_columns(struct table *t, struct column *c, bool *found, char *error)
{
    struct data_table *table = t->q->o->table;
    bool known = table->ncolumns > 0;
    int n = !known                               ? choose_columns(t, c, found, error)
            : asked_columns(t->q) && t->q->named ? renamed_columns(t, c, error)
                                                 : known_columns(t, c, error);

    if (!known)
        return n && note_columns(t, n, c, error) ? n : 0;
    for (int k = 0; k < n; k++) {
        c[k].of = &table->columns[k];
        if (listed(t, c[k].at) && !same_classes(t, &c[k], error))
            return 0;
    }
    return n;
}

/* -- Passes: what columns hold, then their values
 * --------------------------------------------------------------------------- */

static bool survey(struct table *t, int n, struct column *c, char *error)
{
    int64_t line;
    double d;

    while (read_line(t, &line, error))
        for (int k = 0; k < n && t->nfields == t->ncolumns; k++) {
            struct span s = trim(t->fields[c[k].at]);
            bool is = !missing(s) && number(s, &d);
            c[k].of->numbers &= is || missing(s);
            c[k].of->sum += is ? d : 0;
            c[k].of->count += is;
        }
    return !*error;
}

/* Numbers of categories that are found here would depend on which rows the file has: training may do that, nobody
 * else. */
static bool may_find(const struct table *t, const struct column *c, char *error)
{
    const struct data_table *table = t->q->o->table;

    if (!table->alone && !table->closed)
        return true;
    if (table->from)
        snprintf(error, ERROR_SIZE,
                 "%s: column '%.80s' is of categories, which %s has no numbers for; say categories=%.80s:A+B",
                 t->q->path, c->of->name, table->from, c->of->name);
    else
        snprintf(error, ERROR_SIZE,
                 "%s: column '%.80s' is of categories, whose numbers are training's: --load CHECKPOINT, or say "
                 "categories=%.80s:A+B",
                 t->q->path, c->of->name, c->of->name);
    return false;
}

static bool note_class(struct table *t, const struct column *c, struct span s, char *error)
{
    size_t n;
    const char *name = plain(t, s, &n);

    return name ? data_class_note(c->of, name, n, error) : no_memory(error);
}

static bool find_classes(struct table *t, int n, struct column *c, char *error)
{
    int64_t line;
    bool any = false;

    for (int k = 0; k < n; k++)
        if (!c[k].of->numbers && !listed(t, c[k].at)) {
            any = true;
            if (!may_find(t, &c[k], error))
                return false;
        }
    while (any && read_line(t, &line, error))
        for (int k = 0; k < n && t->nfields == t->ncolumns; k++) {
            struct span s = trim(t->fields[c[k].at]);
            if (!c[k].of->numbers && !listed(t, c[k].at) && !missing(s) && !note_class(t, &c[k], s, error))
                return false;
        }
    return !any || !*error;
}

/* What a missing value of the column becomes; false: nothing does. */
static bool instead_of(const struct table *t, const struct column *c, double *out)
{
    const struct data_table *table = t->q->o->table;
    const char *instead = t->q->o->missing ? t->q->o->missing : table->missing;
    bool mean = instead && !strcmp(instead, "mean");

    if (mean && c->of->numbers && c->of->count && !(table->alone && !table->closed))
        return *out = c->of->sum / (double)c->of->count, true;
    return instead && !mean && number((struct span){instead, strlen(instead), false}, out);
}

/* A field's value; false: `why` says what is wrong with it. */
static bool value_of(struct table *t, const struct column *c, double *out, char *why, size_t room)
{
    struct span s = trim(t->fields[c->at]), name = t->names[c->at];
    int shown = (int)(name.n < 40 ? name.n : 40), cut = (int)(s.n < 20 ? s.n : 20);
    char names[120];

    if (missing(s)) {
        if (instead_of(t, c, out))
            return true;
        snprintf(why, room, "column '%.*s': no value; missing=mean%s or missing=X says what it becomes", shown, name.at,
                 t->q->o->table->alone ? " (of training, --load)" : "");
        return false;
    }
    if (c->of->numbers) {
        if (number(s, out))
            return true;
        snprintf(why, room, "column '%.*s': '%.*s' is no number, training had numbers there", shown, name.at, cut,
                 s.at);
        return false;
    }
    size_t n = 0;
    const char *own = plain(t, s, &n);
    int class = own ? data_class_of(c->of, own, n) : -1;
    *out = class;
    if (class < 0) {
        data_class_names(c->of, names, sizeof names);
        snprintf(why, room, "column '%.*s': '%.*s' is none of its categories: %s", shown, name.at, cut, s.at, names);
    }
    return class >= 0;
}

static bool bad_row(struct rows *r, int64_t line, const char *why, bool lenient, char *error)
{
    if (!lenient) {
        snprintf(error, ERROR_SIZE, "%s: line %lld: %s", r->path, (long long)line, why);
        return false;
    }
    if (r->nbad % 64 == 0) {
        struct bad_row *grown = realloc(r->bad, ((size_t)r->nbad + 64) * sizeof *grown);
        if (!grown)
            return no_memory(error);
        r->bad = grown;
    }
    struct bad_row *b = &r->bad[r->nbad++];
    b->row = r->n;
    b->line = line;
    snprintf(b->why, sizeof b->why, "%s", why);
    return true;
}

static bool read_row(struct table *t, int n, const struct column *c, struct rows *r, char *why, size_t room)
{
    if (t->nfields != t->ncolumns) {
        snprintf(why, room, "%d field%s, the first line names %d columns", t->nfields, t->nfields == 1 ? "" : "s",
                 t->ncolumns);
        return false;
    }
    for (int k = 0; k < n; k++) {
        double d = 0;
        if (!value_of(t, &c[k], &d, why, room))
            return false;
        if (r->dtype == TCC_F32) {
            ((float *)r->values)[r->n * n + k] = (float)d;
            continue;
        }
        if (!(fabs(d) < 9e15) || d != (double)(int64_t)d) {
            snprintf(why, room, "column '%.*s': %g is no whole number",
                     (int)(t->names[c[k].at].n < 40 ? t->names[c[k].at].n : 40), t->names[c[k].at].at, d);
            return false;
        }
        ((int64_t *)r->values)[r->n * n + k] = (int64_t)d;
    }
    return true;
}

static bool read_rows(struct table *t, int n, const struct column *c, struct rows *r, char *error)
{
    char why[200];
    int64_t line;

    while (read_line(t, &line, error)) {
        if (!read_row(t, n, c, r, why, sizeof why) && !bad_row(r, line, why, t->q->o->lenient, error))
            return false;
        r->n++;
    }
    return !*error;
}

/* -- The array
 * --------------------------------------------------------------------------------------------------------------- */

static void rows_release(struct data_source *s)
{
    struct rows *r = (struct rows *)s;

    free(r->values);
    free(r->bad);
    free(r);
}

static bool rows_row(const struct data_source *s, int64_t row, const struct data_draw *draw, void *to, char *error)
{
    const struct rows *r = (const struct rows *)s;
    size_t bytes = (size_t)r->columns * (size_t)tcc_dtype_bytes(r->dtype);
    int64_t low = 0, high = r->nbad;

    (void)draw;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        *(r->bad[middle].row < row ? &low : &high) = r->bad[middle].row < row ? middle + 1 : middle;
    }
    if (low < r->nbad && r->bad[low].row == row) {
        snprintf(error, ERROR_SIZE, "%s: line %lld: %s", r->path, (long long)r->bad[low].line, r->bad[low].why);
        return false;
    }
    memcpy(to, (const char *)r->values + (size_t)row * bytes, bytes);
    return true;
}

static bool open_table(struct table *t, char *error)
{
    const char *d = t->q->o->delimiter;
    size_t n = strlen(t->q->path);
    int64_t line;

    t->at = (const char *)t->q->file->bytes;
    t->end = t->at + t->q->file->size;
    if (t->end - t->at >= 3 && !memcmp(t->at, "\xef\xbb\xbf", 3))
        t->at += 3;
    t->line = 1;
    t->delimiter = d ? (!strcmp(d, "tab") ? '\t' : *d) : n > 4 && strstr(t->q->path + n - 4, "tsv") ? '\t' : ',';
    if (d && strcmp(d, "tab") && d[1]) {
        snprintf(error, ERROR_SIZE, "%s: delimiter=%s: expected one character, or tab", t->q->path, d);
        return false;
    }
    if (!read_line(t, &line, error)) {
        if (!*error)
            snprintf(error, ERROR_SIZE, "%s: empty: the first line names the columns", t->q->path);
        return false;
    }
    t->ncolumns = t->nfields;
    t->names = malloc((size_t)t->nfields * sizeof *t->names);
    for (int i = 0; t->names && i < t->nfields; i++)
        t->names[i] = trim(t->fields[i]);
    return t->names || no_memory(error);
}

static bool fill_rows(struct table *t, int n, struct column *c, struct rows *r, char *error)
{
    const char *at = t->at;
    int64_t line = t->line, count = 0, number;
    size_t bytes;

    while (read_line(t, &number, error))
        count++;
    t->at = at;
    t->line = line;
    if (*error)
        return false;
    if (__builtin_mul_overflow((size_t)count * (size_t)n, (size_t)tcc_dtype_bytes(r->dtype), &bytes) ||
        !(r->values = calloc(bytes + 1, 1)))
        return no_memory(error);
    r->columns = n;
    return read_rows(t, n, c, r, error);
}

static bool make_array(struct table *t, int n, struct column *c, struct data_array *out, char *error)
{
    const struct data_request *q = t->q;
    struct rows *r = calloc(1, sizeof *r);

    if (!r)
        return no_memory(error);
    r->source = (struct data_source){.refs = 1, .row = rows_row, .release = rows_release};
    r->dtype = tcc_is_float((enum tcc_dtype)q->info->dtype) ? TCC_F32 : TCC_I64;
    snprintf(r->path, sizeof r->path, "%.250s", q->path);
    if (!fill_rows(t, n, c, r, error)) {
        rows_release(&r->source);
        return false;
    }
    int64_t dims[2] = {r->n, n};
    return data_from_source(q, &r->source, r->dtype, n == 1 && q->info->rank == 1 ? 1 : 2, dims, out, error);
}

bool data_open_csv(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    struct table t = {.q = q};
    struct column *c = NULL;
    int n = 0;
    bool ok = false;

    *found = true;
    *error = '\0';
    if (open_table(&t, error)) {
        c = calloc((size_t)t.ncolumns + 1, sizeof *c);
        n = c ? find_columns(&t, c, found, error) : 0;
        ok = n > 0 && (q->phase == PHASE_COLUMNS   ? survey(&t, n, c, error)
                       : q->phase == PHASE_CLASSES ? find_classes(&t, n, c, error)
                                                   : make_array(&t, n, c, out, error));
    }
    if (!ok && !*error)
        no_memory(error);
    free(c);
    free(t.fields);
    free(t.names);
    free(t.plain);
    return ok;
}
