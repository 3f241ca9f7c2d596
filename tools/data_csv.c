/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables as text: comma-separated values (RFC 4180: fields in double quotes may hold the delimiter, line breaks and doubled quotes), the first line names the columns.
 *
 * A column whose values are all numbers is one of numbers. Any other is one of categories, numbered by the order of their names as bytes, or as
 * categories=COLUMN:A+B+C;COLUMN:... says; a name that is not listed there is a bad value. An empty field, NA, nan or null is missing: an error, unless missing=mean
 * (of the column's numbers) or missing=X (that number) says what it becomes; in a column of categories X is the number of its class.
 * Numbers go through float64. What the input gets is f32[n, columns] (f32[n] of one column where the input has rank 1), i64 for an input of integers.
 */
#include "tools/data_int.h"

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
};

struct column {
    int at; /* in a line */
    bool numbers;
    int nclasses;
    struct span *classes;
    double sum;
    int64_t count;
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
        char why[120];
    } *bad; /* ascending */
};

/* -- Text ----------------------------------------------------------------------------------------------------------- */

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

static int compare(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int c = n ? memcmp(x->at, y->at, n) : 0;
    return c ? c : x->n < y->n ? -1 : x->n > y->n;
}

static struct span trim(struct span s)
{
    while (!s.quoted && s.n && (*s.at == ' ' || *s.at == '\t'))
        s.at++, s.n--;
    while (!s.quoted && s.n && (s.at[s.n - 1] == ' ' || s.at[s.n - 1] == '\t'))
        s.n--;
    return s;
}

static bool missing(struct span s)
{
    static const char *const words[] = {"NA", "NaN", "nan", "null", "NULL"};
    bool is = !s.n;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is |= same(s, words[i], strlen(words[i]));
    return is && !s.quoted;
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

/* -- Columns ---------------------------------------------------------------------------------------------------------- */

static int column_named(const struct table *t, const char *name, size_t n)
{
    for (int i = 0; i < t->ncolumns; i++)
        if (same(t->names[i], name, n))
            return i;
    return -1;
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
        c[n++].at = at;
        s += length;
        if (!*s)
            break;
    }
    return n;
}

/* Those that the request is for: columns=, FILE:NAME, the input's own name, else (floats) all that are no input's. */
static int choose_columns(const struct table *t, struct column *c, bool *found, char *error)
{
    const struct data_request *q = t->q;
    const char *list = q->name ? q->name : q->o->columns;
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

/* categories=COLUMN:A+B;COLUMN:...: the list of this column, or NULL. */
static const char *listed(const struct table *t, const struct column *c)
{
    struct span name = t->names[c->at];

    for (const char *s = t->q->o->categories; s && *s; s += strcspn(s, ";"), s += *s == ';')
        if (strnlen(s, name.n) == name.n && !memcmp(s, name.at, name.n) && s[name.n] == ':')
            return s + name.n + 1;
    return NULL;
}

static bool add_class(struct column *c, struct span s, char *error)
{
    if (c->nclasses == MOST_COLUMNS) {
        snprintf(error, ERROR_SIZE, "a column of more than %d categories", MOST_COLUMNS);
        return false;
    }
    if (c->nclasses % 16 == 0) {
        struct span *grown = realloc(c->classes, ((size_t)c->nclasses + 16) * sizeof s);
        if (!grown)
            return no_memory(error);
        c->classes = grown;
    }
    c->classes[c->nclasses++] = s;
    return true;
}

static int class_of(const struct column *c, struct span s, bool sorted)
{
    int low = 0, high = c->nclasses;

    for (int i = 0; i < c->nclasses && !sorted; i++)
        if (!compare(&c->classes[i], &s))
            return i;
    while (sorted && low < high) {
        int middle = (low + high) / 2, order = compare(&c->classes[middle], &s);
        if (!order)
            return middle;
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return -1;
}

/* A class that is new goes where it belongs. */
static bool note_class(struct column *c, struct span s, char *error)
{
    int low = 0, high = c->nclasses;

    while (low < high) {
        int middle = (low + high) / 2, order = compare(&c->classes[middle], &s);
        if (!order)
            return true;
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    if (!add_class(c, s, error))
        return false;
    memmove(c->classes + low + 1, c->classes + low, (size_t)(c->nclasses - 1 - low) * sizeof s);
    c->classes[low] = s;
    return true;
}

static bool list_classes(const struct table *t, struct column *c, char *error)
{
    const char *list = listed(t, c);

    if (!list)
        return true;
    c->numbers = false;
    for (const char *s = list;; s++) {
        size_t n = strcspn(s, "+;");
        if (!add_class(c, (struct span){s, n, false}, error))
            return false;
        s += n;
        if (*s != '+')
            return true;
    }
}

/* -- Two passes: what columns hold, then their values ---------------------------------------------------------------------- */

static bool survey(struct table *t, int n, struct column *c, int64_t *rows, char *error)
{
    int64_t line;
    double d;

    for (int k = 0; k < n; k++) {
        c[k].numbers = true;
        if (!list_classes(t, &c[k], error))
            return false;
    }
    for (*rows = 0; read_line(t, &line, error); ++*rows)
        for (int k = 0; k < n && t->nfields == t->ncolumns; k++) {
            struct span s = trim(t->fields[c[k].at]);
            bool is = !missing(s) && number(s, &d);
            c[k].numbers &= is || missing(s);
            c[k].sum += is ? d : 0;
            c[k].count += is;
        }
    return !*error;
}

static bool find_classes(struct table *t, int n, struct column *c, char *error)
{
    int64_t line;
    bool any = false;

    for (int k = 0; k < n; k++)
        any |= !c[k].numbers && !c[k].nclasses;
    while (any && read_line(t, &line, error))
        for (int k = 0; k < n && t->nfields == t->ncolumns; k++) {
            struct span s = trim(t->fields[c[k].at]);
            if (!c[k].numbers && !listed(t, &c[k]) && !missing(s) && !note_class(&c[k], s, error))
                return false;
        }
    return !any || !*error;
}

/* A field's value; false: `why` says what is wrong with it. */
static bool value_of(const struct table *t, const struct column *c, double *out, char *why, size_t room)
{
    struct span s = trim(t->fields[c->at]), name = t->names[c->at];
    const char *instead = t->q->o->missing;
    int shown = (int)(name.n < 40 ? name.n : 40);

    if (missing(s)) {
        bool mean = instead && !strcmp(instead, "mean");
        if (mean && c->numbers && c->count)
            return *out = c->sum / (double)c->count, true;
        if (instead && !mean && number((struct span){instead, strlen(instead), false}, out))
            return true;
        snprintf(why, room, "column '%.*s': no value; missing=mean or missing=X says what it becomes", shown, name.at);
        return false;
    }
    if (c->numbers)
        return number(s, out);
    int class = class_of(c, s, !listed(t, c));
    *out = class;
    if (class < 0)
        snprintf(why, room, "column '%.*s': '%.*s' is none of its categories", shown, name.at,
                 (int)(s.n < 20 ? s.n : 20), s.at);
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
    char why[120];
    int64_t line;

    while (read_line(t, &line, error)) {
        if (!read_row(t, n, c, r, why, sizeof why) && !bad_row(r, line, why, t->q->o->lenient, error))
            return false;
        r->n++;
    }
    return !*error;
}

/* -- The array --------------------------------------------------------------------------------------------------------------- */

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

/* Both passes go over the same lines. */
static bool fill_rows(struct table *t, int n, struct column *c, struct rows *r, char *error)
{
    const char *at = t->at;
    int64_t line = t->line, count;
    size_t bytes;

    if (!survey(t, n, c, &count, error))
        return false;
    t->at = at;
    t->line = line;
    if (!find_classes(t, n, c, error))
        return false;
    t->at = at;
    t->line = line;
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
        n = c ? choose_columns(&t, c, found, error) : 0;
        ok = n > 0 && make_array(&t, n, c, out, error);
    }
    if (!ok && !*error)
        no_memory(error);
    for (int k = 0; c && k < n; k++)
        free(c[k].classes);
    free(c);
    free(t.fields);
    free(t.names);
    return ok;
}
