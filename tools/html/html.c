/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report (html_int.h) as a page: head, answers, facts, sections, tables. Charts are chart.c's. The script may run
 * only with the page's nonce (Content Security Policy Level 3, https://www.w3.org/TR/CSP3/), and nothing is loaded:
 * text that got out of its quotes all the same could do nothing.
 */
#include "tools/html/html_int.h"

#include "base/safe.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

enum {
    MOST_ROWS = 4000,
    MOST_TEXT = 400,
    MOST_COLUMNS = 24,
    MOST_SECTIONS = 40,
    MOST_ITEMS = 40,
    SHOWN_ROWS = 25,
    WHOLE_TEXT = 16
};

static const char style[] =
#include "tools/html/html_css.inc"
    ;
static const char script[] =
#include "tools/html/html_js.inc"
    ;

void html_escape(FILE *out, const char *text)
{
    for (int n = 0; *text; text++, n += (*text & 0xc0) != 0x80) {
        if (n >= MOST_TEXT && (*text & 0xc0) != 0x80) {
            fputs("\u2026", out);
            return;
        }
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default: fputc(*text, out);
        }
    }
}

const char *html_string(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double html_value(const json_t *list, size_t i)
{
    const json_t *x = json_array_get(list, i);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

const char *html_amount(char *to, const char *unit, double v)
{
    static const char *const sizes[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double a = fabs(v);
    int u = 0;

    if (!strcmp(unit, "bytes")) {
        for (; a >= 999.5 && u < 6; u++, a /= 1000)
            v /= 1000;
        snprintf(to, HTML_AMOUNT, u && a < 99.95 ? "%.1f %s" : "%.0f %s", v, sizes[u]);
    } else if (!strcmp(unit, "ms") && a >= 120e3) {
        snprintf(to, HTML_AMOUNT, "%.1f min", v / 60e3);
    } else if (!strcmp(unit, "ms") && a >= 1e3) {
        snprintf(to, HTML_AMOUNT, "%.2f s", v / 1e3);
    } else if (!strcmp(unit, "ms") && a > 0 && a < 0.9995) {
        snprintf(to, HTML_AMOUNT, a < 0.01 ? "%.2f us" : "%.1f us", v * 1e3);
    } else if (!strcmp(unit, "ms")) {
        snprintf(to, HTML_AMOUNT, a < 10 ? "%.2f ms" : "%.1f ms", v);
    } else if (!strcmp(unit, "percent")) {
        snprintf(to, HTML_AMOUNT, "%.1f %%", v);
    } else if (!strcmp(unit, "rate")) {
        snprintf(to, HTML_AMOUNT, a < 10 ? "%.2f" : "%.1f", v);
    } else if (!strcmp(unit, "count")) {
        snprintf(to, HTML_AMOUNT, v == rint(v) || a >= 100 ? "%.0f" : "%.2f", v); /* means have fractions */
    } else {
        snprintf(to, HTML_AMOUNT, "%.6g", v);
    }
    return to;
}

/* -- Tables ------------------------------------------------------------------------------------------ */

static void cell(FILE *out, const json_t *x, const json_t *column, double most)
{
    char amount[HTML_AMOUNT];
    double v = json_is_number(x) ? json_number_value(x) : NAN;

    if (json_is_string(x)) { /* what is short stays on a line; long names may break anywhere */
        fputs(json_string_length(x) <= WHOLE_TEXT ? "<td class=\"w\">" : "<td>", out);
        html_escape(out, json_string_value(x));
    } else if (!isfinite(v)) {
        fputs("<td class=\"n\">", out);
    } else if (json_is_true(json_object_get(column, "bar")) && most > 0) {
        fprintf(out, "<td class=\"n bar\" data-v=\"%.9g\" style=\"--w:%.1f%%\">%s", v, 100 * fmax(v, 0) / most,
                html_amount(amount, html_string(column, "unit"), v));
    } else {
        fprintf(out, "<td class=\"n\" data-v=\"%.9g\">%s", v, html_amount(amount, html_string(column, "unit"), v));
    }
    fputs("</td>", out);
}

static double largest(const json_t *rows, size_t column)
{
    double most = 0;

    for (size_t r = 0; r < json_array_size(rows); r++) {
        double v = html_value(json_array_get(rows, r), column);
        most = v > most ? v : most;
    }
    return most;
}

void html_title(FILE *out, const json_t *item)
{
    html_escape(out, html_string(item, "title"));
    if (*html_string(item, "note")) {
        fputs("<span class=\"note\">", out);
        html_escape(out, html_string(item, "note"));
        fputs("</span>", out);
    }
}

static void table(FILE *out, const json_t *item)
{
    const json_t *columns = json_object_get(item, "columns"), *rows = json_object_get(item, "rows");
    size_t width = json_array_size(columns), n = json_array_size(rows);
    double most[MOST_COLUMNS];

    width = width < MOST_COLUMNS ? width : MOST_COLUMNS;
    fprintf(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\"><table class=\"data\" data-shown=\"%d\">",
            SHOWN_ROWS);
    fputs("<caption>", out);
    html_title(out, item);
    fputs("</caption><thead><tr>", out);
    for (size_t c = 0; c < width; c++) {
        const json_t *column = json_array_get(columns, c);

        most[c] = largest(rows, c);
        fprintf(out, "<th scope=\"col\"%s>", *html_string(column, "unit") ? " class=\"n\"" : "");
        html_escape(out, html_string(column, "name"));
        fputs("</th>", out);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (size_t r = 0; r < n && r < MOST_ROWS; r++) {
        fputs("<tr>", out);
        for (size_t c = 0; c < width; c++)
            cell(out, json_array_get(json_array_get(rows, r), c), json_array_get(columns, c), most[c]);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    if (n > MOST_ROWS)
        fprintf(out, "<p class=\"note\">%zu more rows are left out.</p>\n", n - MOST_ROWS);
}

/* -- Page ------------------------------------------------------------------------------------------------ */

static void head(FILE *out, const json_t *report, const char *nonce)
{
    double live = json_number_value(json_object_get(report, "live"));

    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            "img-src data:; script-src 'nonce-%s'\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n",
            nonce);
    if (live > 0)
        fprintf(out, "<noscript><meta http-equiv=\"refresh\" content=\"%.0f\"></noscript>\n", ceil(live));
    fputs("<title>", out);
    html_escape(out, html_string(report, "title"));
    fprintf(out, "</title>\n<style>\n%s</style></head>\n<body data-kind=\"", style);
    html_escape(out, html_string(report, "kind"));
    if (live > 0)
        fprintf(out, "\" data-live=\"%.9g", live);
    fputs("\">\n<a class=\"skip\" href=\"#main\">Skip to the sections</a>\n<header><h1>", out);
    html_escape(out, html_string(report, "title"));
    fputs("</h1><p>", out);
    html_escape(out, html_string(report, "subtitle"));
    fputs("</p>", out);
    if (live > 0)
        fputs("<p id=\"live\" role=\"status\">under way: the page is written anew as it goes on</p>", out);
    fputs("</header>\n", out);
}

static void answers(FILE *out, const json_t *report)
{
    static const struct {
        const char *state, *mark, *word;
    } states[] = {{"good", "\u2713", "good"}, {"warn", "!", "look"}, {"bad", "\u2717", "bad"}};
    const json_t *list = json_object_get(report, "answers");

    if (!json_array_size(list))
        return;
    fputs("<div class=\"answers\" role=\"list\" aria-label=\"In short\">\n", out);
    for (size_t i = 0; i < json_array_size(list) && i < MOST_ITEMS; i++) {
        const json_t *a = json_array_get(list, i);
        size_t s = 0;

        while (s < 3 && strcmp(states[s].state, html_string(a, "state")) != 0)
            s++;
        fprintf(out, "<div class=\"answer %s\" role=\"listitem\"><h2>", s < 3 ? states[s].state : "plain");
        html_escape(out, html_string(a, "question"));
        if (s < 3)
            fprintf(out, " <span class=\"mark\"><span aria-hidden=\"true\">%s</span> %s</span>", states[s].mark,
                    states[s].word);
        fputs("</h2><p class=\"value\">", out);
        html_escape(out, html_string(a, "answer"));
        fputs("</p><p>", out);
        html_escape(out, html_string(a, "detail"));
        fputs("</p></div>\n", out);
    }
    fputs("</div>\n", out);
}

static void facts(FILE *out, const json_t *report)
{
    const json_t *list = json_object_get(report, "facts");

    if (!json_array_size(list))
        return;
    fputs("<dl class=\"facts\">\n", out);
    for (size_t i = 0; i < json_array_size(list) && i < 4 * MOST_ITEMS; i++) {
        const json_t *fact = json_array_get(list, i);
        const char *name = json_string_value(json_array_get(fact, 0)),
                   *value = json_string_value(json_array_get(fact, 1));

        fputs("<div><dt>", out);
        html_escape(out, name ? name : "");
        fputs("</dt><dd>", out);
        html_escape(out, value ? value : "");
        fputs("</dd></div>\n", out);
    }
    fputs("</dl>\n", out);
}

static void navigation(FILE *out, const json_t *sections)
{
    fputs("<nav aria-label=\"Sections\">", out);
    for (size_t i = 0; i < json_array_size(sections) && i < MOST_SECTIONS; i++) {
        fputs("<a href=\"#", out);
        html_escape(out, html_string(json_array_get(sections, i), "id"));
        fputs("\">", out);
        html_escape(out, html_string(json_array_get(sections, i), "title"));
        fputs("</a> ", out);
    }
    fputs("</nav>\n", out);
}

static void section(FILE *out, const json_t *s, int *number)
{
    const json_t *items = json_object_get(s, "items");

    fputs("<section id=\"", out);
    html_escape(out, html_string(s, "id"));
    fputs("\"><h2>", out);
    html_escape(out, html_string(s, "title"));
    fputs("</h2>\n", out);
    if (*html_string(s, "note")) {
        fputs("<p class=\"note\">", out);
        html_escape(out, html_string(s, "note"));
        fputs("</p>\n", out);
    }
    for (size_t i = 0; i < json_array_size(items) && i < MOST_ITEMS; i++) {
        const json_t *item = json_array_get(items, i);

        if (!strcmp(html_string(item, "type"), "table"))
            table(out, item);
        else
            html_chart(out, item, ++*number);
    }
    fputs("</section>\n", out);
}

/* 64 random bits in hexadecimal, new for each page. */
static void make_nonce(char to[17])
{
    unsigned char bytes[8];

    if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != (ssize_t)sizeof bytes)
        memset(bytes, 0x5a, sizeof bytes);
    for (int i = 0; i < 8; i++)
        snprintf(to + 2 * i, 3, "%02x", bytes[i]);
}

void html_page(FILE *out, const json_t *report)
{
    const json_t *sections = json_object_get(report, "sections");
    char nonce[17];
    int number = 0;

    make_nonce(nonce);
    head(out, report, nonce);
    answers(out, report);
    facts(out, report);
    navigation(out, sections);
    fputs("<main id=\"main\">\n", out);
    for (size_t i = 0; i < json_array_size(sections) && i < MOST_SECTIONS; i++)
        section(out, json_array_get(sections, i), &number);
    fprintf(out,
            "</main>\n<p id=\"said\" role=\"status\" aria-live=\"polite\"></p>\n<script "
            "nonce=\"%s\">\n%s</script>\n</body></html>\n",
            nonce, script);
}

static int cannot_write(const struct options *o, const char *path)
{
    return tool_error(o, EXIT_ENVIRONMENT, "--html: cannot write '%s': %s", path, strerror(errno));
}

int html_write(const struct options *o, const char *path, const json_t *report)
{
    struct tcr_save save;

    if (!report)
        return tool_error(o, EXIT_ENVIRONMENT, "--html: no memory");
    if (tcr_save_open(&save, path, TCR_SAVE_STREAM))
        return cannot_write(o, path);
    html_page(save.stream, report);
    return tcr_save_commit(&save) ? cannot_write(o, path) : EXIT_FINE;
}

int html_check(const struct options *o)
{
    const char *path = option_text(o, OPT_html, NULL);
    struct tcr_save save;

    if (!path || !tcr_save_plain(path))
        return EXIT_FINE;
    if (tcr_save_open(&save, path, TCR_SAVE_STREAM))
        return cannot_write(o, path);
    tcr_save_drop(&save);
    return EXIT_FINE;
}
