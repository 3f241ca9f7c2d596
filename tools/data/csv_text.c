/* SPDX-License-Identifier: Apache-2.0 */
/* csv_text.c - lines of a delimited text, and their fields: quoted, trimmed, missing, numbers (RFC 4180). */
#include "tools/data/csv_int.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

bool csv_no_memory(char *error)
{
    return put_error(error, "no memory");
}

static bool add_field(struct csv_table *t, struct csv_span s, char *error)
{
    if (t->nfields == 2 * CSV_MOST_COLUMNS || !GROWN(t->fields, t->nfields, t->room, 64))
        return csv_no_memory(error);
    t->fields[t->nfields++] = s;
    return true;
}

/* The field in quotes that begins at t->at, without them; doubled ones stay doubled. */
static bool quoted_field(struct csv_table *t, struct csv_span *s, char *error)
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
        *s = (struct csv_span){from, (size_t)(t->at - from), true};
        t->at++;
        return true;
    }
    return put_error(error, "%s: line %lld: a quote is never closed", t->q->path, (long long)line);
}

/* All of a line, empty or not, is a field. */
static bool whole_line(struct csv_table *t, int64_t *line, char *error)
{
    const char *end = t->at < t->end ? memchr(t->at, '\n', (size_t)(t->end - t->at)) : NULL;
    struct csv_span s = {t->at, (size_t)((end ? end : t->end) - t->at), false};

    *line = t->line++;
    if (t->at >= t->end)
        return false;
    t->at = end ? end + 1 : t->end;
    s.n -= s.n && s.at[s.n - 1] == '\r';
    return add_field(t, s, error);
}

/* The next line's fields; false with an empty error: there is none. */
bool csv_read_line(struct csv_table *t, int64_t *line, char *error)
{
    *error = '\0';
    t->nfields = 0;
    if (t->lines)
        return whole_line(t, line, error);
    while (t->at < t->end && (*t->at == '\n' || *t->at == '\r')) { /* empty lines are no rows */
        t->line += *t->at == '\n';
        t->at++;
    }
    *line = t->line;
    if (t->at >= t->end)
        return false;
    for (;;) {
        struct csv_span s = {t->at, 0, false};
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
            return add_field(t, (struct csv_span){t->at, 0, false}, error);
    }
    t->line++;
    return true;
}

bool csv_same(struct csv_span s, const char *text, size_t n)
{
    return s.n == n && !memcmp(s.at, text, n);
}

struct csv_span csv_trim(struct csv_span s)
{
    while (!s.quoted && s.n && (*s.at == ' ' || *s.at == '\t'))
        s.at++, s.n--;
    while (!s.quoted && s.n && (s.at[s.n - 1] == ' ' || s.at[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* The name of a category; NULL: no memory. It lasts to the next call. */
const char *csv_plain(struct csv_table *t, struct csv_span s, size_t *n)
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

bool csv_missing(struct csv_span s)
{
    static const char *const words[] = {"NA", "NaN", "nan", "null", "NULL"};
    bool is = !s.n;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is |= csv_same(s, words[i], strlen(words[i]));
    return is && (!s.quoted || !s.n); /* who quotes all fields quotes empty ones, too */
}

bool csv_number(struct csv_span s, double *out)
{
    char copy[64], *end;

    if (!s.n || s.n >= sizeof copy)
        return false;
    memcpy(copy, s.at, s.n);
    copy[s.n] = '\0';
    *out = strtod(copy, &end);
    return end == copy + s.n; /* a byte 0 ends no number */
}
