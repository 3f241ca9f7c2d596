/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charts of a report (html_int.h) as SVG: lines, timelines, memory over steps, points under a roof; graph.c has graphs.
 * What a picture shows stands as text below it, for who reads without a pointer. Colours are classes c0 to c7
 * (html.css); series differ in their dashes too. Many points become their extremes in each column of the picture, spans
 * too short to be seen one block: sizes do not grow with a run's length.
 */
#include "tools/html/chart_int.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 720, HEIGHT = 280, LEFT = 70, RIGHT = 14, TOP = 14, BOTTOM = 40 };
enum { COLUMNS = 500, MOST_SERIES = 8, MOST_TRACKS = 96, MOST_SPANS = 20000, MOST_BLOCKS = 3000, MOST_POINTS = 1500 };

/* -- Axes ---------------------------------------------------------------------------------------------- */

struct axis {
    double lo, hi;
    bool log;
    const char *unit;
};

static double place(const struct axis *a, double v)
{
    double lo = a->log ? log10(a->lo) : a->lo, hi = a->log ? log10(a->hi) : a->hi, x = a->log ? log10(v) : v;
    return hi > lo ? (x - lo) / (hi - lo) : 0.5;
}

static double at_x(const struct axis *a, double v)
{
    return LEFT + place(a, v) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct axis *a, double v)
{
    return HEIGHT - BOTTOM - place(a, v) * (HEIGHT - TOP - BOTTOM);
}

static bool fits(const struct axis *a, double v)
{
    return isfinite(v) && (!a->log || v > 0);
}

static void extend(struct axis *a, double v)
{
    if (!fits(a, v))
        return;
    a->lo = fmin(a->lo, v);
    a->hi = fmax(a->hi, v);
}

static struct axis new_axis(bool log, const char *unit)
{
    return (struct axis){INFINITY, -INFINITY, log, unit};
}

/* Room for what is shown: never empty; whole decades where logarithmic; from zero where that is near, bytes always. */
static void round_axis(struct axis *a)
{
    if (!(a->lo <= a->hi))
        *a = (struct axis){a->log ? 1 : 0, a->log ? 10 : 1, a->log, a->unit};
    if (a->log) {
        a->lo = pow(10, floor(log10(a->lo)));
        a->hi = pow(10, ceil(log10(a->hi)));
        a->lo = a->lo > 0 ? a->lo : 1e-300;
        a->hi = a->hi > a->lo ? a->hi : 10 * a->lo;
        return;
    }
    if (a->lo > 0 && (a->lo < 0.5 * a->hi || !strcmp(a->unit, "bytes")))
        a->lo = 0;
    if (!(a->hi > a->lo)) {
        double d = fabs(a->lo) > 0 ? 0.1 * fabs(a->lo) : 1;
        a->lo -= d;
        a->hi += d;
    }
}

/* 1, 2 or 5 times a power of ten: so that about five fit. */
static double tick_step(const struct axis *a)
{
    double raw = (a->hi - a->lo) / 5, power = pow(10, floor(log10(raw))), r = raw / power;
    return (r < 1.5 ? 1 : r < 3.5 ? 2 : r < 7.5 ? 5 : 10) * power;
}

/* The k-th tick; NaN: there is none. */
static double tick(const struct axis *a, int k)
{
    double v;

    if (a->log) {
        double decades = log10(a->hi / a->lo), each = ceil(decades / 8);
        v = a->lo * pow(10, k * (each > 0 ? each : 1));
    } else {
        double step = tick_step(a);
        v = (ceil(a->lo / step - 1e-9) + k) * step;
        v = fabs(v) < 1e-9 * step ? 0 : v;
    }
    return v <= a->hi * (a->hi > 0 ? 1 + 1e-9 : 1 - 1e-9) + (a->log ? 0 : 1e-12) ? v : NAN;
}

static void axes(FILE *out, const struct axis *x, const struct axis *y, const json_t *item)
{
    char text[HTML_AMOUNT];

    for (int k = 0; k < 12 && isfinite(tick(y, k)); k++) {
        double at = at_y(y, tick(y, k));
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" class=\"e\">%s</text>", LEFT,
                at, WIDTH - RIGHT, LEFT - 6, at + 4, html_amount(text, y->unit, tick(y, k)));
    }
    for (int k = 0; k < 12 && isfinite(tick(x, k)); k++)
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" class=\"m\">%s</text>", at_x(x, tick(x, k)), HEIGHT - BOTTOM + 16,
                html_amount(text, x->unit, tick(x, k)));
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/><text x=\"%d\" y=\"%d\" class=\"m name\">", LEFT, TOP,
            HEIGHT - BOTTOM, WIDTH - RIGHT, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6);
    html_escape(out, html_string(item, "x"));
    fputs("</text>", out);
}

/* -- Frames ------------------------------------------------------------------------------------------------ */

static void chart_begin(FILE *out, const json_t *item, const char *kind, int number)
{
    fprintf(out, "<figure class=\"chart %s\" id=\"chart%d\"><figcaption>", kind, number);
    html_title(out, item);
    fputs("</figcaption>\n", out);
}

void chart_svg(FILE *out, const json_t *item, double width, double height, const char *more)
{
    fprintf(out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" tabindex=\"0\" %s aria-label=\"", width, height, more);
    html_escape(out, html_string(item, "title"));
    fputs("\">", out);
}

void chart_title(FILE *out, const char *label, const char *what)
{
    fputs("<title>", out);
    html_escape(out, label);
    if (*what)
        fputs(": ", out);
    html_escape(out, what);
    fputs("</title>", out);
}

/* -- Lines -------------------------------------------------------------------------------------------------- */

struct column {
    double first, least, most, last, x[4];
    bool any;
};

/* Points in a column of the picture: the first, the least, the greatest and the last stay. */
static void put_column(FILE *out, const struct column *c, const struct axis *x, const struct axis *y)
{
    double v[4] = {c->first, c->least, c->most, c->last};
    int order[4] = {0, c->x[1] <= c->x[2] ? 1 : 2, c->x[1] <= c->x[2] ? 2 : 1, 3};

    for (int k = 0; c->any && k < 4; k++)
        if (!k || c->x[order[k]] > c->x[order[k - 1]])
            fprintf(out, "%.1f,%.1f ", at_x(x, c->x[order[k]]), at_y(y, v[order[k]]));
}

static void polyline(FILE *out, const json_t *points, const struct axis *x, const struct axis *y)
{
    struct column c = {.any = false};
    int now = -1;

    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *p = json_array_get(points, i);
        double px = html_value(p, 0), py = html_value(p, 1);

        if (!fits(x, px) || !fits(y, py))
            continue;
        int column = (int)(place(x, px) * COLUMNS);
        if (column != now || !c.any) {
            put_column(out, &c, x, y);
            c = (struct column){py, py, py, py, {px, px, px, px}, true};
            now = column;
        }
        if (py < c.least) {
            c.least = py;
            c.x[1] = px;
        }
        if (py > c.most) {
            c.most = py;
            c.x[2] = px;
        }
        c.last = py;
        c.x[3] = px;
    }
    put_column(out, &c, x, y);
}

/* Least, greatest and last of a series, in words. */
static void tell_series(FILE *out, const json_t *s, const struct axis *x, const struct axis *y)
{
    const json_t *points = json_object_get(s, "points");
    double least = INFINITY, most = -INFINITY, least_at = 0, most_at = 0, first = NAN, last = NAN;
    char a[HTML_AMOUNT], b[HTML_AMOUNT], c[HTML_AMOUNT], d[HTML_AMOUNT], e[HTML_AMOUNT], f[HTML_AMOUNT];

    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *p = json_array_get(points, i);
        double px = html_value(p, 0), py = html_value(p, 1);

        if (!fits(x, px) || !isfinite(py))
            continue;
        first = isfinite(first) ? first : py;
        last = py;
        if (py < least) {
            least = py;
            least_at = px;
        }
        if (py > most) {
            most = py;
            most_at = px;
        }
    }
    fputs("<tr><td>", out);
    html_escape(out, html_string(s, "name"));
    if (isfinite(last))
        fprintf(
            out,
            "</td><td class=\"n\">%zu</td><td class=\"n\">%s</td><td class=\"n\">%s at %s</td><td class=\"n\">%s at "
            "%s</td><td class=\"n\">%s</td></tr>\n",
            json_array_size(points), html_amount(a, y->unit, first), html_amount(b, y->unit, least),
            html_amount(c, x->unit, least_at), html_amount(d, y->unit, most), html_amount(e, x->unit, most_at),
            html_amount(f, y->unit, last));
    else
        fputs("</td><td colspan=\"5\">no values</td></tr>\n", out);
}

static void legend(FILE *out, const json_t *series, const char *key)
{
    fputs("<p class=\"legend\">", out);
    for (size_t i = 0; i < json_array_size(series) && i < MOST_SERIES; i++) {
        fprintf(out,
                "<span class=\"key c%zu\"><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path d=\"M0 4H24\"/></svg>",
                i);
        html_escape(out, html_string(json_array_get(series, i), key));
        fputs("</span> ", out);
    }
    fputs("</p>\n", out);
}

static void line(FILE *out, const json_t *item)
{
    const json_t *series = json_object_get(item, "series");
    size_t n = json_array_size(series);
    struct axis x = new_axis(false, "number"),
                y = new_axis(json_is_true(json_object_get(item, "log")), html_string(item, "unit"));

    n = n < MOST_SERIES ? n : MOST_SERIES;
    for (size_t s = 0; s < n; s++) {
        const json_t *points = json_object_get(json_array_get(series, s), "points");
        for (size_t i = 0; i < json_array_size(points); i++) {
            const json_t *p = json_array_get(points, i);
            if (fits(&x, html_value(p, 0)) && fits(&y, html_value(p, 1))) {
                extend(&x, html_value(p, 0));
                extend(&y, html_value(p, 1));
            }
        }
    }
    double from = x.lo;
    round_axis(&x);
    round_axis(&y);
    if (isfinite(from) && !x.log && x.hi > from)
        x.lo = from;
    char scale[200];
    snprintf(scale, sizeof scale,
             "data-x=\"%.9g %.9g\" data-y=\"%.9g %.9g %d\" data-box=\"%d %d %d %d\" data-unit=\"%.20s\"", x.lo, x.hi,
             y.lo, y.hi, y.log, LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP,
             !strcmp(y.unit, "ms") || !strcmp(y.unit, "bytes") ? y.unit : "");
    chart_svg(out, item, WIDTH, HEIGHT, scale);
    axes(out, &x, &y, item);
    for (size_t s = 0; s < n; s++) {
        const json_t *one = json_array_get(series, s);
        fprintf(out, "<polyline class=\"line c%zu\" data-name=\"", s);
        html_escape(out, html_string(one, "name"));
        fputs("\" points=\"", out);
        polyline(out, json_object_get(one, "points"), &x, &y);
        fputs("\"/>", out);
    }
    fputs("</svg>\n", out);
    legend(out, series, "name");
    fputs("<table "
          "class=\"told\"><thead><tr><th></th><th>points</th><th>first</th><th>least</th><th>greatest</th><th>last</th>"
          "</tr></thead><tbody>\n",
          out);
    for (size_t s = 0; s < n; s++)
        tell_series(out, json_array_get(series, s), &x, &y);
    fputs("</tbody></table>\n", out);
}

/* -- Points under a roof ------------------------------------------------------------------------------------ */

static void scatter(FILE *out, const json_t *item)
{
    const json_t *points = json_object_get(item, "points"), *roof = json_object_get(item, "roof");
    double most = html_value(roof, 0), slope = html_value(roof, 1);
    struct axis x = new_axis(true, "number"), y = new_axis(true, "number");

    for (size_t i = 0; i < json_array_size(points) && i < MOST_POINTS; i++) {
        extend(&x, html_value(json_array_get(points, i), 0));
        extend(&y, html_value(json_array_get(points, i), 1));
    }
    if (most > 0) {
        extend(&y, most);
        if (slope > 0)
            extend(&x, most / slope);
    }
    round_axis(&x);
    round_axis(&y);
    chart_svg(out, item, WIDTH, HEIGHT, "");
    axes(out, &x, &y, item);
    if (most > 0) {
        double bend = slope > 0 ? most / slope : x.lo, from = slope > 0 ? x.lo * slope : most, begin = x.lo;
        if (from < y.lo) {
            begin = y.lo / slope;
            from = y.lo;
        }
        if (begin < bend)
            fprintf(out, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1f\"/>", at_x(&x, begin), at_y(&y, from),
                    at_x(&x, fmin(bend, x.hi)), at_y(&y, most));
        fprintf(out, "<path class=\"roof\" d=\"M%.1f %.1fH%d\"/>", at_x(&x, fmax(bend, x.lo)), at_y(&y, most),
                WIDTH - RIGHT);
    }
    for (size_t i = 0; i < json_array_size(points) && i < MOST_POINTS; i++) {
        const json_t *p = json_array_get(points, i);
        const char *label = json_string_value(json_array_get(p, 2));
        if (!fits(&x, html_value(p, 0)) || !fits(&y, html_value(p, 1)))
            continue;
        fprintf(out, "<circle class=\"dot c0\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\">", at_x(&x, html_value(p, 0)),
                at_y(&y, html_value(p, 1)));
        chart_title(out, label ? label : "", "");
        fputs("</circle>", out);
    }
    fputs("</svg>\n", out);
}

/* -- Timelines ------------------------------------------------------------------------------------------------ */

struct span {
    double begin, end;
    const char *label, *category;
    int n; /* spans that are one block here */
};
enum { ROW = 22, ACROSS = 1000 };

static int by_begin(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* The track's spans in order, neighbours shorter than `each` as blocks, at most `most`; NULL: no memory. */
static struct span *spans_of(const json_t *track, double each, size_t most, size_t *count)
{
    const json_t *list = json_object_get(track, "spans");
    struct span *spans = calloc(json_array_size(list) + 1, sizeof *spans);
    size_t n = 0, kept = 0;

    for (size_t i = 0; spans && i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        const char *label = json_string_value(json_array_get(x, 2)),
                   *category = json_string_value(json_array_get(x, 3));
        double begin = html_value(x, 0), end = html_value(x, 1);
        if (isfinite(begin) && isfinite(end) && end >= begin)
            spans[n++] = (struct span){begin, end, label ? label : "", category ? category : "", 1};
    }
    if (spans)
        qsort(spans, n, sizeof *spans, by_begin);
    for (size_t i = 0; i < n; i++) {
        struct span *last = kept ? &spans[kept - 1] : NULL, s = spans[i];
        bool shorts = last && last->end - last->begin < each && s.end - s.begin < each;
        if (last && s.begin - last->end < each &&
            (shorts || (last->n > 1 && s.end - s.begin < each && s.end - last->begin < 4 * each))) {
            last->end = fmax(last->end, s.end);
            last->n++;
        } else if (kept < most) {
            spans[kept++] = s;
        }
    }
    *count = kept;
    return spans;
}

/* The number of the category among those seen, for its colour. */
static int colour_of(const char **seen, int *n, const char *category)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(seen[i], category))
            return i;
    if (*n == MOST_SERIES)
        return MOST_SERIES - 1;
    seen[*n] = category;
    return (*n)++;
}

static void put_span(FILE *out, const struct span *s, double from, double scale, size_t row, int colour,
                     const char *unit)
{
    char when[3 * HTML_AMOUNT], a[HTML_AMOUNT], b[HTML_AMOUNT];
    double width = (s->end - s->begin) * scale;

    fprintf(out, "<rect class=\"c%d\" x=\"%.2f\" y=\"%zu\" width=\"%.2f\" height=\"%d\">", colour,
            (s->begin - from) * scale, row * ROW + 2, width > 0.3 ? width : 0.3, ROW - 4);
    snprintf(when, sizeof when, "%s from %s", html_amount(a, unit, s->end - s->begin),
             html_amount(b, unit, s->begin - from));
    if (s->n > 1) {
        char many[HTML_AMOUNT + 16];
        snprintf(many, sizeof many, "%d short ones", s->n);
        chart_title(out, many, when);
    } else {
        chart_title(out, s->label, when);
    }
    fputs("</rect>", out);
}

static void extent_of(const json_t *tracks, double *from, double *to)
{
    *from = INFINITY;
    *to = -INFINITY;
    for (size_t t = 0; t < json_array_size(tracks) && t < MOST_TRACKS; t++) {
        const json_t *list = json_object_get(json_array_get(tracks, t), "spans");
        for (size_t i = 0; i < json_array_size(list); i++) {
            double begin = html_value(json_array_get(list, i), 0), end = html_value(json_array_get(list, i), 1);
            if (isfinite(begin) && isfinite(end) && end >= begin) {
                *from = fmin(*from, begin);
                *to = fmax(*to, end);
            }
        }
    }
}

/* How long each track is busy, in words. */
static void tell_tracks(FILE *out, const json_t *tracks, double all, const char *unit)
{
    char a[HTML_AMOUNT];

    fputs("<table class=\"told\"><thead><tr><th>track</th><th>spans</th><th>busy</th><th>part of the "
          "time</th></tr></thead><tbody>\n",
          out);
    for (size_t t = 0; t < json_array_size(tracks) && t < MOST_TRACKS; t++) {
        const json_t *track = json_array_get(tracks, t);
        size_t n = 0;
        double busy = 0, reached = -INFINITY;
        struct span *spans = spans_of(track, 0, SIZE_MAX, &n);
        for (size_t i = 0; spans && i < n; i++) { /* the union: spans may lie in others */
            busy += fmax(0, spans[i].end - fmax(spans[i].begin, reached));
            reached = fmax(reached, spans[i].end);
        }
        free(spans);
        fputs("<tr><td>", out);
        html_escape(out, html_string(track, "name"));
        fprintf(out, "</td><td class=\"n\">%zu</td><td class=\"n\">%s</td><td class=\"n\">%.1f %%</td></tr>\n",
                json_array_size(json_object_get(track, "spans")), html_amount(a, unit, busy),
                all > 0 ? 100 * busy / all : 0);
    }
    fputs("</tbody></table>\n", out);
}

static void timeline(FILE *out, const json_t *item)
{
    const json_t *tracks = json_object_get(item, "tracks");
    const char *unit = html_string(item, "unit"), *seen[MOST_SERIES];
    size_t n = json_array_size(tracks);
    double from, to;
    char size[132], a[HTML_AMOUNT];
    int colours = 0;

    n = n < MOST_TRACKS ? n : MOST_TRACKS;
    extent_of(tracks, &from, &to);
    if (!n || !(to > from)) {
        fputs("<p class=\"note\">nothing was recorded</p>\n", out);
        return;
    }
    double scale = ACROSS / (to - from);
    size_t most = MOST_SPANS / n < 2000 ? MOST_SPANS / n : 2000;
    fputs("<div class=\"lanes\"><ol aria-hidden=\"true\">", out);
    for (size_t t = 0; t < n; t++) {
        fputs("<li>", out);
        html_escape(out, html_string(json_array_get(tracks, t), "name"));
        fputs("</li>", out);
    }
    fputs("</ol><div>", out);
    snprintf(size, sizeof size,
             "preserveAspectRatio=\"none\" style=\"height:%zupx\" data-time=\"%.9g\" data-unit=\"%.20s\"", n * ROW,
             to - from, !strcmp(unit, "ms") ? "ms" : "");
    chart_svg(out, item, ACROSS, (double)(n * ROW), size);
    for (size_t t = 0; t < n; t++) {
        size_t count = 0;
        struct span *spans = spans_of(json_array_get(tracks, t), 4 * (to - from) / (double)most, most, &count);
        for (size_t i = 0; spans && i < count; i++)
            put_span(out, &spans[i], from, scale, t, colour_of(seen, &colours, spans[i].category), unit);
        free(spans);
    }
    fputs("</svg><p class=\"scale\">", out);
    for (int k = 0; k <= 4; k++)
        fprintf(out, "<span>%s</span>", html_amount(a, unit, (to - from) * k / 4));
    fputs("</p></div></div>\n<p class=\"legend\">", out);
    for (int c = 0; c < colours; c++) {
        fprintf(out, "<span class=\"key box c%d\">", c);
        html_escape(out, *seen[c] ? seen[c] : "other");
        fputs("</span> ", out);
    }
    fputs("</p>\n", out);
    tell_tracks(out, tracks, to - from, unit);
}

/* -- Memory ----------------------------------------------------------------------------------------------------- */

static void memory(FILE *out, const json_t *item)
{
    const json_t *blocks = json_object_get(item, "blocks");
    double steps = json_number_value(json_object_get(item, "steps")),
           bytes = json_number_value(json_object_get(item, "bytes"));
    struct axis x = {0, steps > 0 ? steps : 1, false, "number"}, y = {0, bytes > 0 ? bytes : 1, false, "bytes"};
    char a[HTML_AMOUNT], what[200];

    chart_svg(out, item, WIDTH, HEIGHT, "");
    axes(out, &x, &y, item);
    for (size_t i = 0; i < json_array_size(blocks) && i < MOST_BLOCKS; i++) {
        const json_t *b = json_array_get(blocks, i);
        double first = html_value(b, 0), last = html_value(b, 1) + 1, offset = html_value(b, 2),
               size = html_value(b, 3);
        const char *name = json_string_value(json_array_get(b, 4));

        if (!(first >= 0 && last <= x.hi + 1 && last > first && offset >= 0 && size > 0 &&
              offset + size <= y.hi * 1.001))
            continue;
        double left = at_x(&x, first), right = at_x(&x, fmin(last, x.hi)), low = at_y(&y, offset),
               high = at_y(&y, fmin(offset + size, y.hi));
        fprintf(out, "<rect class=\"block c%zu\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">",
                i % MOST_SERIES, left, high, fmax(right - left, 0.5), fmax(low - high, 0.3));
        snprintf(what, sizeof what, "%s, steps %.0f to %.0f", html_amount(a, "bytes", size), first, last - 1);
        chart_title(out, name ? name : "", what);
        fputs("</rect>", out);
    }
    fputs("</svg>\n", out);
}

bool html_chart(FILE *out, const json_t *item, int number)
{
    static const struct {
        const char *type;
        void (*draw)(FILE *out, const json_t *item);
    } kinds[] = {
        {"line", line}, {"scatter", scatter}, {"timeline", timeline}, {"memory", memory}, {"graph", chart_graph}};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(kinds[k].type, html_string(item, "type")) != 0)
            continue;
        chart_begin(out, item, kinds[k].type, number);
        kinds[k].draw(out, item);
        fputs("</figure>\n", out);
        return true;
    }
    return false;
}
