/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables as text: comma-separated values (RFC 4180: fields in double quotes may hold the delimiter, line breaks and
 * doubled quotes), the first line names the columns.
 *
 * A column whose values are all numbers is one of numbers. Any other is one of categories, numbered by the order of
 * their names as bytes, or as categories=COLUMN:A+B+C;COLUMN:... says; a name that is not listed there is a bad value.
 * encode=COLUMN:WORD+WORD;COLUMN:... says what else becomes of a value (encode.c), and which columns are of dates. An
 * empty field, NA, nan or null is missing: an error, unless missing=mean (of the column's numbers or dates) or
 * missing=X (that number or date) says what it becomes; in a column of categories X is the number of its class. All
 * this is found over all files of the training's data, and is the input's table (tables.c); where there is one
 * already, a file's columns are those, by name, and nothing depends on the file's other rows. Numbers go through
 * float64. What the input gets is f32[n, numbers] (f32[n] of one where the input has rank 1), i64 for an input of
 * integers.
 *
 * With tokens= a column is of text: the input gets u32[n, length], a row's first tokens and padding behind them (a
 * tokenizer's file may say: its last ones, and padding before them), or by as= what of a row is not padding. Where
 * lines are rows (lines:FILE), there is one column, which is called as training's or as the input.
 */
#include "tools/data/csv_int.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NUMBERS = 1 << 20 };

struct rows {
    struct data_source source;
    char path[256];
    enum tcc_dtype dtype;
    int64_t n, width;     /* rows, and numbers of one */
    struct data_bpe *bpe; /* of text; NULL: bytes */
    int64_t text[3];      /* as in its table */
    void *values;
    double *row;
    int64_t nbad;
    struct bad_row {
        int64_t row, line;
        char why[200];
    } * bad; /* ascending */
};

/* -- Passes: what columns hold, then their values ------------------------------------------------------------------ */

static bool survey(struct csv_table *t, int n, struct csv_column *c, char *error)
{
    int64_t line;
    double d;

    while (csv_read_line(t, &line, error))
        for (int k = 0; k < n && t->nfields == t->ncolumns; k++) {
            struct csv_span s = csv_trim(t->fields[c[k].at]);
            bool is = !csv_missing(s) && (c[k].of->dates ? data_date(s.at, s.n, &d) : csv_number(s, &d));
            c[k].of->numbers &= is || c[k].of->dates || csv_missing(s);
            c[k].of->sum += is ? d : 0;
            c[k].of->count += is;
        }
    return !*error;
}

/* Numbers of categories, and scales, that are found here would depend on which rows the file has: training may do that,
 * nobody else. */
static bool may_find(const struct csv_table *t, const struct csv_column *c, bool scale, char *error)
{
    const struct data_table *table = t->q->o->table;

    if (!table->alone && !table->closed)
        return true;
    if (scale)
        snprintf(
            error, ERROR_SIZE,
            "%s: column '%.80s': the scale of encode= is training's: --load CHECKPOINT (to quantise: --embed-meta)",
            t->q->path, c->of->name);
    else if (table->from)
        snprintf(error, ERROR_SIZE,
                 "%s: column '%.80s' is of categories, which %s has no numbers for; say categories=%.80s:A+B",
                 t->q->path, c->of->name, table->from, c->of->name);
    else
        snprintf(error, ERROR_SIZE,
                 "%s: column '%.80s' is of categories, whose numbers are training's: --load CHECKPOINT (to quantise: "
                 "--embed-meta), or say "
                 "categories=%.80s:A+B",
                 t->q->path, c->of->name, c->of->name);
    return false;
}

static bool note_class(struct csv_table *t, const struct csv_column *c, struct csv_span s, char *error)
{
    size_t n;
    const char *name = csv_plain(t, s, &n);

    return name ? data_class_note(c->of, name, n, error) : csv_no_memory(error);
}

static bool find_classes(struct csv_table *t, int n, struct csv_column *c, char *error)
{
    int64_t line;
    bool any = false;

    for (int k = 0; k < n; k++)
        if (!c[k].of->numbers && !csv_listed(t, t->q->o->categories, c[k].at)) {
            any = true;
            if (!may_find(t, &c[k], false, error))
                return false;
        }
    while (any && csv_read_line(t, &line, error))
        for (int k = 0; k < n && t->nfields == t->ncolumns; k++) {
            struct csv_span s = csv_trim(t->fields[c[k].at]);
            if (!c[k].of->numbers && !csv_listed(t, t->q->o->categories, c[k].at) && !csv_missing(s) &&
                !note_class(t, &c[k], s, error))
                return false;
        }
    return !any || !*error;
}

/* What a missing value of the column becomes; false: nothing does. */
static bool instead_of(const struct csv_table *t, const struct csv_column *c, double *out)
{
    const struct data_table *table = t->q->o->table;
    const char *instead = t->q->o->missing ? t->q->o->missing : table->missing;
    bool mean = instead && !strcmp(instead, "mean");

    if (mean && c->of->numbers && c->of->count && !(table->alone && !table->closed))
        return *out = c->of->sum / (double)c->of->count, true;
    if (c->of->dates)
        return instead && !mean && data_date(instead, strlen(instead), out);
    return instead && !mean && csv_number((struct csv_span){instead, strlen(instead), false}, out);
}

/* A field's value; false: `why` says what is wrong with it. */
static bool value_of(struct csv_table *t, const struct csv_column *c, double *out, char *why, size_t room)
{
    struct csv_span s = csv_trim(t->fields[c->at]), name = t->names[c->at];
    int shown = (int)(name.n < 40 ? name.n : 40), cut = (int)(s.n < 20 ? s.n : 20);
    char names[120];

    if (csv_missing(s)) {
        if (instead_of(t, c, out))
            return true;
        snprintf(why, room, "column '%.*s': no value; %smissing=X says what it becomes%s", shown, name.at,
                 !c->of->numbers         ? ""
                 : t->q->o->table->alone ? "missing=mean (of training, --load) or "
                                         : "missing=mean or ",
                 c->of->numbers ? "" : ", X the number of a category");
        return false;
    }
    if (c->of->numbers) {
        if (c->of->dates ? data_date(s.at, s.n, out) : csv_number(s, out))
            return true;
        snprintf(why, room,
                 c->of->dates ? "column '%.*s': '%.*s' is no date: expected 2026-11-30, or 2026-11-30T18:05:00"
                              : "column '%.*s': '%.*s' is no number, training had numbers there",
                 shown, name.at, cut, s.at);
        return false;
    }
    size_t n = 0;
    const char *own = csv_plain(t, s, &n);
    int class = own ? data_class_of(c->of, own, n) : -1;
    *out = class;
    if (class < 0) {
        data_class_names(c->of, names, sizeof names);
        snprintf(why, room, "column '%.*s': '%.*s' is none of its categories: %s", shown, name.at, cut, s.at, names);
    }
    return class >= 0;
}

/* Scales of what the file's rows are before. */
static bool find_scales(struct csv_table *t, int n, struct csv_column *c, char *error)
{
    int64_t line;
    int widest = 0;
    char why[200];
    double d, *room;

    for (int k = 0; k < n; k++) {
        struct data_column *of = c[k].of;
        if (!csv_encode_others(t, &c[k], error) || (of->encoding.scale && !may_find(t, &c[k], true, error)))
            return false;
        if (of->encoding.scale && !of->nscales && !data_column_scales(of, data_column_width(of)))
            return csv_no_memory(error);
        widest = of->nscales > widest ? of->nscales : widest;
    }
    if (!widest)
        return true;
    if (!(room = malloc((size_t)widest * sizeof *room)))
        return csv_no_memory(error);
    while (csv_read_line(t, &line, error))
        for (int k = 0; k < n && t->nfields == t->ncolumns; k++)
            if (c[k].of->nscales && !csv_missing(csv_trim(t->fields[c[k].at])) &&
                value_of(t, &c[k], &d, why, sizeof why))
                data_column_see(c[k].of, d, room);
    for (int k = 0; k < n; k++)
        data_column_fit(c[k].of);
    free(room);
    return !*error;
}

static bool bad_row(struct rows *r, int64_t line, const char *why, bool lenient, char *error)
{
    if (!lenient)
        return put_error(error, "%s: line %lld: %s", r->path, (long long)line, why);
    if (r->nbad % 64 == 0) {
        struct bad_row *grown = realloc(r->bad, ((size_t)r->nbad + 64) * sizeof *grown);
        if (!grown)
            return csv_no_memory(error);
        r->bad = grown;
    }
    struct bad_row *b = &r->bad[r->nbad++];
    b->row = r->n;
    b->line = line;
    snprintf(b->why, sizeof b->why, "%s", why);
    return true;
}

/* The column of a line that number i of a row is of. */
static int column_at(const struct csv_column *c, int64_t i)
{
    while (i >= data_column_width(c->of))
        i -= data_column_width(c++->of);
    return c->at;
}

/* Its name, in messages. */
static const char *shown_name(const struct csv_table *t, const struct csv_column *c, int64_t i)
{
    return t->names[column_at(c, i)].at;
}

static int shown_length(const struct csv_table *t, const struct csv_column *c, int64_t i)
{
    size_t n = t->names[column_at(c, i)].n;

    return (int)(n < 40 ? n : 40);
}

static void put_number(struct rows *r, int64_t i, uint32_t v)
{
    if (r->dtype == TCC_F32)
        ((float *)r->values)[i] = (float)v;
    else
        ((uint32_t *)r->values)[i] = v;
}

/* A text's first (or last) tokens and padding, or what of the row is of tokens. */
static bool text_row(struct csv_table *t, const struct csv_column *c, struct rows *r, char *why, size_t room)
{
    char error[ERROR_SIZE] = "no memory";
    uint32_t *ids = NULL;
    size_t length = 0, n = 0;
    const unsigned char *s = (const unsigned char *)csv_plain(t, t->fields[c->at], &length);
    bool ok = s && (!r->bpe || data_bpe_encode(r->bpe, s, length, &ids, &n, error));

    if (!ok)
        snprintf(why, room, "column '%.40s': %.140s", c->of->name, error);
    int64_t all = (int64_t)(r->bpe ? n : length), most = all < r->text[0] ? all : r->text[0],
            what = r->text[2] & TEXT_WHAT, begin = r->text[2] & TEXT_PADS_LEFT ? r->text[0] - most : 0,
            first = r->text[2] & TEXT_CUTS_LEFT ? all - most : 0;
    for (int64_t i = 0; ok && i < r->width; i++) {
        int64_t k = i - begin;
        bool in = k >= 0 && k < most;
        put_number(r, r->n * r->width + i,
                   what == TEXT_LENGTHS ? (uint32_t)most
                   : what == TEXT_MASK  ? in
                   : !in                ? (uint32_t)r->text[1]
                   : r->bpe             ? ids[first + k]
                                        : s[first + k]);
    }
    free(ids);
    return ok;
}

static bool read_row(struct csv_table *t, int n, const struct csv_column *c, struct rows *r, char *why, size_t room)
{
    if (t->nfields != t->ncolumns) {
        snprintf(why, room, "%d field%s, the first line names %d columns", t->nfields, t->nfields == 1 ? "" : "s",
                 t->ncolumns);
        return false;
    }
    if (t->text)
        return text_row(t, c, r, why, room);
    for (int k = 0, at = 0; k < n; at += data_column_width(c[k++].of)) {
        struct csv_span name = t->names[c[k].at];
        char wrong[120];
        double d = 0;
        if (!value_of(t, &c[k], &d, why, room))
            return false;
        if (!data_column_encode(c[k].of, d, r->row + at, wrong, sizeof wrong)) {
            snprintf(why, room, "column '%.*s': %s", (int)(name.n < 40 ? name.n : 40), name.at, wrong);
            return false;
        }
    }
    for (int64_t i = 0, at = r->n * r->width; i < r->width; i++) {
        double d = r->row[i];
        if (r->dtype == TCC_F32) {
            ((float *)r->values)[at + i] = (float)d;
            if (isfinite((float)d))
                continue;
            snprintf(why, room, "column '%.*s': %g is no finite float32", shown_length(t, c, i), shown_name(t, c, i),
                     d);
            return false;
        }
        if (!(fabs(d) < 9e15) || d != (double)(int64_t)d) {
            snprintf(why, room, "column '%.*s': %g is no whole number", shown_length(t, c, i), shown_name(t, c, i), d);
            return false;
        }
        ((int64_t *)r->values)[at + i] = (int64_t)d;
    }
    return true;
}

static bool read_rows(struct csv_table *t, int n, const struct csv_column *c, struct rows *r, char *error)
{
    char why[200];
    int64_t line;

    while (csv_read_line(t, &line, error)) {
        if (!read_row(t, n, c, r, why, sizeof why) && !bad_row(r, line, why, t->q->o->lenient, error))
            return false;
        r->n++;
    }
    return !*error;
}

/* -- The array ----------------------------------------------------------------------------------------------------- */

static void rows_release(struct data_source *s)
{
    struct rows *r = (struct rows *)s;

    data_bpe_free(r->bpe);
    free(r->values);
    free(r->row);
    free(r->bad);
    free(r);
}

static bool rows_row(const struct data_source *s, int64_t row, const struct data_draw *draw, void *to, char *error)
{
    const struct rows *r = (const struct rows *)s;
    size_t bytes = (size_t)r->width * (size_t)tcc_dtype_bytes(r->dtype);
    int64_t low = 0, high = r->nbad;

    (void)draw;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        *(r->bad[middle].row < row ? &low : &high) = r->bad[middle].row < row ? middle + 1 : middle;
    }
    if (low < r->nbad && r->bad[low].row == row)
        return put_error(error, "%s: line %lld: %s", r->path, (long long)r->bad[low].line, r->bad[low].why);
    memcpy(to, (const char *)r->values + (size_t)row * bytes, bytes);
    return true;
}

/* The first line's fields name the columns, with their doubled quotes single. */
static bool name_columns(struct csv_table *t)
{
    size_t room = 1, n;

    for (int i = 0; i < t->nfields; i++)
        room += t->fields[i].n;
    t->ncolumns = t->nfields;
    t->names = malloc((size_t)t->nfields * sizeof *t->names);
    char *to = t->heads = malloc(room);
    for (int i = 0; t->names && to && i < t->nfields; i++, to += n) {
        const char *plain = csv_plain(t, csv_trim(t->fields[i]), &n);
        if (!plain)
            return false;
        t->names[i] = (struct csv_span){memcpy(to, plain, n), n, true};
    }
    return t->names && to;
}

/* Where delimiter= says none: a comma, of .tsv a tab; where the first line has no comma outside of quotes, but a
 * semicolon or a tab, as programs of languages with decimal commas write tables, that one. */
static char usual_delimiter(const struct csv_table *t, size_t n)
{
    const char *end = memchr(t->at, '\n', (size_t)(t->end - t->at));
    bool quoted = false, seen[UCHAR_MAX + 1] = {false};

    if (n > 4 && strstr(t->q->path + n - 4, "tsv"))
        return '\t';
    for (const char *s = t->at; s < (end ? end : t->end); s++) {
        quoted ^= *s == '"';
        seen[(unsigned char)*s] |= !quoted;
    }
    return seen[','] ? ',' : seen[';'] ? ';' : seen['\t'] ? '\t' : ',';
}

static bool open_table(struct csv_table *t, char *error)
{
    const char *d = t->q->o->delimiter;
    size_t n = strlen(t->q->path);
    int64_t line;

    if (!t->q->file)
        return put_error(error, "%s: a folder; expected a file of text", t->q->path);
    t->at = (const char *)t->q->file->bytes;
    t->end = t->at + t->q->file->size;
    if (t->end - t->at >= 3 && !memcmp(t->at, "\xef\xbb\xbf", 3))
        t->at += 3;
    t->line = 1;
    if (t->lines) {
        const struct data_table *known = t->q->o->table;
        const char *name = known->ncolumns == 1 ? known->columns[0].name : t->q->info->name;
        t->ncolumns = 1;
        t->names = malloc(sizeof *t->names);
        if (t->names)
            t->names[0] = (struct csv_span){name, strlen(name), false};
        return t->names || csv_no_memory(error);
    }
    t->delimiter = !d ? usual_delimiter(t, n) : !strcmp(d, "tab") ? '\t' : *d;
    if (d && strcmp(d, "tab") && d[1])
        return put_error(error, "%s: delimiter=%s: expected one character, or tab", t->q->path, d);
    if (!csv_read_line(t, &line, error)) {
        if (!*error)
            snprintf(error, ERROR_SIZE, "%s: empty: the first line names the columns", t->q->path);
        return false;
    }
    return name_columns(t) || csv_no_memory(error);
}

/* A column that becomes tokens is one, and nothing else is made of it. */
static bool check_text(const struct csv_table *t, int n, struct csv_column *c, char *error)
{
    const struct data_options *o = t->q->o;

    if (!t->text)
        return !t->q->named || (!o->length && o->pad < 0 && !o->as) ||
               put_error(error, "%s: length=, pad= and as= are of a column of text: tokens=", t->q->path);
    if (n != 1)
        return put_error(error, "%s: tokens= is for one column, of %d: NAME=FILE:COLUMN", t->q->path, n);
    if (t->q->named && (o->categories || o->encode || o->missing))
        return put_error(error, "%s: categories=, encode= and missing= say nothing of text (tokens=)", t->q->path);
    if (o->table->closed && !o->table->tokens)
        return put_error(error, "%s: input '%s': training's column '%.80s' was not of text (%s): leave tokens= out",
                         t->q->path, o->table->input, c->of->name, o->table->from ? o->table->from : "its data");
    c->of->numbers = false;
    return true;
}

/* as=; -1 after an error. */
static int64_t form_of(const struct csv_table *t, char *error)
{
    static const char *const words[] = {[TEXT_TOKENS] = "tokens", [TEXT_MASK] = "mask", [TEXT_LENGTHS] = "lengths"};
    const struct data_options *o = t->q->o;

    if (!o->as)
        return o->table->row[2] & TEXT_WHAT;
    for (int k = 0; t->q->named && k <= TEXT_LENGTHS; k++)
        if (!strcmp(o->as, words[k]))
            return k;
    put_error(error, "%s: as=%s: expected tokens, mask or lengths, of one input: NAME=FILE:COLUMN", t->q->path, o->as);
    return -1;
}

/* What becomes of text: as it is said, as training had it, as the input wants it, as the tokenizer's file says. */
static bool open_tokens(struct csv_table *t, struct rows *r, char *error)
{
    const struct data_options *o = t->q->o;
    const struct tccrt_value_info *info = t->q->info;
    struct data_table *table = o->table;
    bool bytes = !o->tokens || !strcmp(o->tokens, "bytes");
    int64_t wants = info->rank == 2 && info->dims[1] > 0 ? info->dims[1] : 0;
    int64_t file[3] = {0}, *row = r->text, form = form_of(t, error);

    if (form < 0 || (!bytes && !(r->bpe = data_bpe_open(o->tokens, error, &t->q->code))))
        return false;
    if (r->bpe)
        data_bpe_row(r->bpe, file);
    wants = form == TEXT_LENGTHS ? 0 : wants;
    row[0] = o->length ? o->length : table->row[0] ? table->row[0] : wants ? wants : file[0];
    row[1] = o->pad >= 0 ? o->pad : table->row[0] ? table->row[1] : file[1];
    row[2] = form | (table->row[0] ? table->row[2] & ~(int64_t)TEXT_WHAT : file[2]);
    if (row[0] < 1 || row[1] > UINT32_MAX)
        return put_error(error, "%s: how many tokens has a row of input '%s'? Add ,length=N", t->q->path, info->name);
    r->dtype = form != TEXT_TOKENS && tcc_is_float((enum tcc_dtype)info->dtype) ? TCC_F32 : TCC_U32;
    r->width = form == TEXT_LENGTHS ? 1 : row[0];
    int64_t tokens = bytes ? 256 : data_bpe_size(r->bpe);
    tokens = tokens > row[1] ? tokens : row[1] + 1;
    table->vocabulary = form == TEXT_MASK ? 2 : form == TEXT_LENGTHS ? row[0] + 1 : tokens;
    return data_table_tokens(t->q->path, table, bytes ? NULL : data_bpe_digest(r->bpe), o->tokens, error) &&
           data_table_row(t->q->path, table, row, error);
}

static bool fill_rows(struct csv_table *t, int n, struct csv_column *c, struct rows *r, char *error)
{
    const char *at = t->at;
    int64_t line = t->line, count = 0, number;
    size_t bytes;

    while (csv_read_line(t, &number, error))
        count++;
    t->at = at;
    t->line = line;
    if (*error)
        return false;
    if (t->text && !open_tokens(t, r, error))
        return false;
    for (int k = 0; k < n && !t->text; k++)
        r->width += data_column_width(c[k].of);
    if (r->width > MOST_NUMBERS)
        return put_error(error, "%s: %lld numbers a row; at most %d", r->path, (long long)r->width, MOST_NUMBERS);
    if (__builtin_mul_overflow((size_t)count, (size_t)r->width * (size_t)tcc_dtype_bytes(r->dtype), &bytes) ||
        !(r->values = calloc(bytes + 1, 1)) || !(r->row = calloc((size_t)r->width + 1, sizeof *r->row)))
        return csv_no_memory(error);
    return read_rows(t, n, c, r, error);
}

static bool make_array(struct csv_table *t, int n, struct csv_column *c, struct data_array *out, char *error)
{
    struct data_request *q = t->q;
    struct data_options plain = *q->o; /* whose length= cuts nothing out of an array */
    struct data_request own = *q;
    struct rows *r = calloc(1, sizeof *r);

    if (!r)
        return csv_no_memory(error);
    r->source = (struct data_source){.refs = 1, .row = rows_row, .release = rows_release};
    r->dtype = tcc_is_float((enum tcc_dtype)q->info->dtype) ? TCC_F32 : TCC_I64;
    snprintf(r->path, sizeof r->path, "%.250s", q->path);
    if (!fill_rows(t, n, c, r, error)) {
        rows_release(&r->source);
        return false;
    }
    int64_t dims[2] = {r->n, r->width};
    plain.length = 0;
    own.o = &plain;
    return data_from_source(&own, &r->source, r->dtype, r->width == 1 && q->info->rank == 1 ? 1 : 2, dims, out, error);
}

static bool open_rows(struct data_request *q, bool lines, struct data_array *out, bool *found, char *error)
{
    struct csv_table t = {.q = q, .lines = lines};
    struct csv_column *c = NULL;
    int n = 0;
    bool ok = false;

    *found = true;
    *error = '\0';
    if (open_table(&t, error)) {
        t.text = csv_takes_text(&t);
        c = calloc((size_t)t.ncolumns + 1, sizeof *c);
        n = c ? csv_find_columns(&t, c, found, error) : 0;
        ok = n > 0 && check_text(&t, n, c, error) &&
             (q->phase == PHASE_ROWS      ? make_array(&t, n, c, out, error)
              : t.text                    ? true
              : q->phase == PHASE_COLUMNS ? survey(&t, n, c, error)
              : q->phase == PHASE_CLASSES ? find_classes(&t, n, c, error)
                                          : find_scales(&t, n, c, error));
    }
    if (!ok && !*error)
        csv_no_memory(error);
    free(c);
    free(t.fields);
    free(t.names);
    free(t.heads);
    free(t.plain);
    return ok;
}

bool data_open_csv(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    return open_rows(q, false, out, found, error);
}

/* Of several inputs one has to be named. */
bool data_open_lines(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    *found = q->named || q->ninputs == 1;
    return *found && open_rows(q, true, out, found, error);
}
