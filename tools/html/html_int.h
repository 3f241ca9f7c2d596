/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tools/: reports as one HTML file (doc/reports.md). What a report says is a tree of JSON, built by the
 * tools and by the compiler (compiler/compile_report.c); html.c and chart.c write any such tree as a page. The page
 * needs no network and no file beside it: style and script (html.css, html.js) are in it, tables and charts are there
 * without the script, which sorts, filters and zooms. All text is escaped, and lists are cut at bounds that the page
 * names, so a page is never larger than about 5 MB.
 *
 *   report   {"kind", "title", "subtitle", "live": seconds between two writings of a run under way,
 *             "answers": [{"question", "answer", "detail", "state": "good" | "warn" | "bad" | ""}],
 *             "facts": [[name, value]...], "sections": [section...]}
 *   section  {"id", "title", "note", "items": [item...]}: items are charts and tables, as they stand
 *   table    {"type": "table", "title", "note", "columns": [{"name", "unit": unit, "bar": true: a bar behind the
 *            number}], "rows": [[cell...]...]}: cells are text, numbers or null
 *   line     {"type": "line", "title", "x", "y": names of the axes, "unit": of y, "log": y's axis, "series": [{"name",
 *            "points": [[x, y]...]}]}
 *   timeline {"type": "timeline", "title", "note", "unit": "us", "tracks": [{"name", "spans": [[begin, end, label,
 *   category]...]}]}
 *   memory   {"type": "memory", "title", "steps", "bytes", "blocks": [[first step, last step, offset, bytes, name]...]}
 *   scatter  {"type": "scatter", "title", "x", "y", "points": [[x, y, label]...], "roof": [most y, y for each x]}: both
 *            axes logarithmic
 *   graph    {"type": "graph", "title", "nodes": [[label, detail, share of the time]...], "edges": [[from, to]...]}:
 *            from before to
 *   units    "", "count", "bytes", "ms", "percent", "rate" (GFLOP/s, GB/s: one decimal), "number" (as it is)
 */
#ifndef TCCC_TOOLS_HTML_INT_H
#define TCCC_TOOLS_HTML_INT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/options_int.h"

/* -- Writing ------------------------------------------------------------------------------------------ */

/* Writes the report as a page under that path, by the rules of tcr_save_open() (the old file or the whole new one is
 * there at every moment). EXIT_FINE, or EXIT_ENVIRONMENT after a message. */
int html_write(const struct options *o, const char *path, const json_t *report);
/* The page alone. Any tree is fine: what is not as described above is left out. */
void html_page(FILE *out, const json_t *report);

/* -- Building: references are taken over; NULL: there was no memory, and is left out ------------------------------- */

json_t *html_report(const char *kind, const char *title, const char *subtitle);
json_t *html_text(const char *text);                             /* as people may see it (tcr_show); NULL: "" */
json_t *html_textf(const char *format, ...) __attribute__((format(printf, 1, 2)));
json_t *html_number(double v);                                   /* null: not finite */
void html_fact(json_t *report, const char *name, json_t *value);
void html_answer(json_t *report, const char *state, const char *question, json_t *answer, json_t *detail);
json_t *html_section(json_t *report, const char *id, const char *title, const char *note);     /* borrowed */
json_t *html_item(json_t *section, const char *type, const char *title, const char *note);      /* borrowed */
/* columns: "name|unit|bar", ended by NULL; gives the list of rows, borrowed. */
json_t *html_table(json_t *section, const char *title, const char *note, const char *const *columns);
void html_row(json_t *rows, int n, ...);                         /* json_t *cells */
void html_point(json_t *list, int n, ...);                       /* doubles */
/* borrowed */
json_t *html_line(json_t *section, const char *title, const char *note, const char *x, const char *unit, bool log);
json_t *html_series(json_t *line, const char *name);             /* another line of it: its points, borrowed */
/* What `write` puts under a path (0: it did), by way of a file without a name: to be freed. NULL, and 0 bytes: nothing,
 * or more than `most`. */
char *html_text_of(int (*write)(void *what, const char *path), void *what, size_t most, size_t *size);

/* -- Text ------------------------------------------------------------------------------------------------ */

enum { HTML_AMOUNT = 40 };
/* "12.3 MB", "1.24 ms", "45.1 %", by unit; to[HTML_AMOUNT]. */
const char *html_amount(char *to, const char *unit, double v);
void html_escape(FILE *out, const char *text);
void html_title(FILE *out, const json_t *item); /* title and note, of what has a caption */

/* -- Between html.c and chart.c ------------------------------------------------------------------------ */

const char *html_string(const json_t *object, const char *key);  /* "" where there is none */
bool html_chart(FILE *out, const json_t *item, int number);      /* false: it is no chart */
double html_value(const json_t *list, size_t i);                 /* NaN: no number */

/* -- Reports ----------------------------------------------------------------------------------------------- */

/* Is FILE of --html there to be written? EXIT_FINE, or an exit code after a message: before the work rather than behind
 * it. */
int html_check(const struct options *o);

/* compile.c: what the compiler said (compiler/compile_report.c) as a report; NULL: it is no such text, or no memory.
 * The same as sections of another one, whose answer about memory they give (arena: the bytes of a run that has been; 0:
 * none has; below 0: no answer); false: it is no such text. */
json_t *html_compiled(const char *facts, size_t size);
bool html_compiled_part(json_t *report, const char *facts, size_t size, double arena);
/* stages.c: the schedule of a step in stages, as sections and an answer; nothing where the facts have none. */
void html_stages(json_t *report, const json_t *facts);

/* run.c. What a session's profile says: answers and sections. EXIT_FINE, or an exit code after a message. */
struct model;
struct html_runs {
    int64_t runs, all;           /* that the profile is of; that the session has had */
    double ms, peak;             /* of a run, 0: not to be told; GFLOP/s that the processor can do, 0: not known */
    const json_t *trace;         /* events (html_trace()); NULL: the session's own last run's */
};
int html_profile(json_t *report, const struct options *o, const struct model *m, const struct html_runs *r);
/* tccc-run's report, written. */
int html_run(const struct options *o, const struct model *m, const struct html_runs *r);
/* trace.c. Events of a Chrome trace as a timeline in that section, its counter of memory as lines; false: there are no
 * events. */
bool html_trace(json_t *section, const char *title, const json_t *trace);

#endif
