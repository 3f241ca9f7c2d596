/* SPDX-License-Identifier: Apache-2.0 */
/* Building reports: the tree of html_int.h, with text as people may see it and numbers that JSON has. */
#include "tools/html/html_int.h"

#include "base/format.h"
#include "base/safe.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 2000 };

json_t *html_text(const char *text)
{
    char shown[ROOM];

    tcr_show(shown, sizeof shown, text ? text : "", false);
    json_t *made = json_string(shown);
    for (size_t n = strlen(shown); !made && n; made = json_string(shown)) /* cut within a character */
        shown[--n] = '\0';
    return made;
}

json_t *html_textf(const char *format, ...)
{
    FORMATTED(text, ROOM, format);
    return html_text(text);
}

json_t *html_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* The list under that key, made where it is not there. */
static json_t *list_of(json_t *object, const char *key)
{
    json_t *list = json_object_get(object, key);

    if (!list && json_object_set_new(object, key, json_array()) == 0)
        list = json_object_get(object, key);
    return list;
}

json_t *html_report(const char *kind, const char *title, const char *subtitle)
{
    json_t *r = json_object();

    json_object_set_new(r, "kind", html_text(kind));
    json_object_set_new(r, "title", html_text(title));
    json_object_set_new(r, "subtitle", html_text(subtitle));
    return r;
}

void html_fact(json_t *report, const char *name, json_t *value)
{
    json_t *pair = json_array();

    json_array_append_new(pair, html_text(name));
    json_array_append_new(pair, value);
    json_array_append_new(list_of(report, "facts"), pair);
}

void html_answer(json_t *report, const char *state, const char *question, json_t *answer, json_t *detail)
{
    json_t *a = json_object();

    json_object_set_new(a, "state", html_text(state));
    json_object_set_new(a, "question", html_text(question));
    json_object_set_new(a, "answer", answer);
    json_object_set_new(a, "detail", detail);
    json_array_append_new(list_of(report, "answers"), a);
}

/* Appends an object and gives it back. */
static json_t *append(json_t *list, json_t *object)
{
    return json_array_append_new(list, object) == 0 ? json_array_get(list, json_array_size(list) - 1) : NULL;
}

json_t *html_section(json_t *report, const char *id, const char *title, const char *note)
{
    json_t *s = append(list_of(report, "sections"), json_object());

    json_object_set_new(s, "id", html_text(id));
    json_object_set_new(s, "title", html_text(title));
    json_object_set_new(s, "note", html_text(note));
    json_object_set_new(s, "items", json_array());
    return s;
}

json_t *html_item(json_t *section, const char *type, const char *title, const char *note)
{
    json_t *x = append(list_of(section, "items"), json_object());

    json_object_set_new(x, "type", html_text(type));
    json_object_set_new(x, "title", html_text(title));
    json_object_set_new(x, "note", html_text(note));
    return x;
}

json_t *html_table(json_t *section, const char *title, const char *note, const char *const *columns)
{
    json_t *t = html_item(section, "table", title, note), *list = json_array();

    for (; *columns; columns++) {
        json_t *c = json_object();
        const char *unit = strchr(*columns, '|'), *bar = unit ? strchr(unit + 1, '|') : NULL;
        size_t name = unit ? (size_t)(unit - *columns) : strlen(*columns);

        json_object_set_new(c, "name", json_stringn(*columns, name));
        if (unit)
            json_object_set_new(c, "unit", json_stringn(unit + 1, bar ? (size_t)(bar - unit - 1) : strlen(unit + 1)));
        if (bar)
            json_object_set_new(c, "bar", json_true());
        json_array_append_new(list, c);
    }
    json_object_set_new(t, "columns", list);
    return list_of(t, "rows");
}

void html_row(json_t *rows, int n, ...)
{
    json_t *row = json_array();
    va_list args;

    va_start(args, n);
    for (int i = 0; i < n; i++)
        json_array_append_new(row, va_arg(args, json_t *));
    va_end(args);
    json_array_append_new(rows, row);
}

void html_point(json_t *list, int n, ...)
{
    json_t *point = json_array();
    va_list args;

    va_start(args, n);
    for (int i = 0; i < n; i++)
        json_array_append_new(point, html_number(va_arg(args, double)));
    va_end(args);
    json_array_append_new(list, point);
}

json_t *html_line(json_t *section, const char *title, const char *note, const char *x, const char *unit, bool log)
{
    json_t *line = html_item(section, "line", title, note);

    json_object_set_new(line, "x", html_text(x));
    json_object_set_new(line, "unit", html_text(unit));
    json_object_set_new(line, "log", json_boolean(log));
    return line;
}

json_t *html_series(json_t *line, const char *name)
{
    json_t *all = json_object_get(line, "series"), *one = json_object(), *points = json_array();

    if (!all && json_object_set_new(line, "series", all = json_array()))
        all = NULL;
    json_object_set_new(one, "name", html_text(name));
    bool whole = !json_object_set_new(one, "points", points);
    return json_array_append_new(all, one) || !whole ? NULL : points;
}

char *html_text_of(int (*write)(void *what, const char *path), void *what, size_t most, size_t *size)
{
    char path[40], *text = NULL;
    int fd = memfd_create("report", MFD_CLOEXEC);
    ssize_t got = 0;

    *size = 0;
    if (fd < 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    off_t end = !write(what, path) ? lseek(fd, 0, SEEK_END) : 0;
    if (end > 0 && (uint64_t)end <= most && (text = malloc((size_t)end)))
        got = pread(fd, text, (size_t)end, 0);
    close(fd);
    *size = got > 0 ? (size_t)got : 0;
    return text;
}
