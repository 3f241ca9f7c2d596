/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of a report: boxes in layers, each below all that it needs (the longest path to it), in a layer by the mean
 * place of what they need: Sugiyama, Tagawa and Toda's method (1981) with one sweep, which is what graphs of networks
 * take, long chains with few branches. Edges over several layers pass at the side.
 */
#include "tools/html/chart_int.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_NODES = 1500, MOST_EDGES = 6000, BOX = 210, TALL = 38, ACROSS = 26, DOWN = 26, EDGE = 30, FITS = 30 };

struct box {
    int layer;
    double want, x; /* place in the layer, and what it should be */
};
struct drawing {
    const json_t *nodes, *edges;
    struct box *boxes;
    int *order; /* boxes by layer, then by place */
    int n, nedges, layers, widest;
};

/* Edges that are none, or lead backwards, are left out: nodes stand in the order in which they run. */
static bool edge_of(const struct drawing *d, int i, int *from, int *to)
{
    const json_t *e = json_array_get(d->edges, (size_t)i);
    double a = html_value(e, 0), b = html_value(e, 1);

    if (!(a >= 0 && b > a && b < d->n))
        return false;
    *from = (int)a;
    *to = (int)b;
    return *from < *to;
}

static int compare_ints(const void *a, const void *b, void *user)
{
    const struct box *boxes = user, *x = &boxes[*(const int *)a], *y = &boxes[*(const int *)b];

    if (x->layer != y->layer)
        return x->layer - y->layer;
    if (x->want != y->want)
        return x->want < y->want ? -1 : 1;
    return *(const int *)a - *(const int *)b;
}

static void find_layers(struct drawing *d)
{
    int from, to;
    bool changed = true;

    /* Edges in any order: as many rounds as a path turns back in their list, few where they are sorted. */
    for (int round = 0; changed && round <= d->n; round++) {
        changed = false;
        for (int i = 0; i < d->nedges; i++)
            if (edge_of(d, i, &from, &to) && d->boxes[to].layer <= d->boxes[from].layer) {
                d->boxes[to].layer = d->boxes[from].layer + 1;
                changed = true;
            }
    }
    for (int i = 0; i < d->n; i++)
        d->layers = d->boxes[i].layer >= d->layers ? d->boxes[i].layer + 1 : d->layers;
}

static void place_layer(struct drawing *d, int first, int n)
{
    d->widest = n > d->widest ? n : d->widest;
    for (int i = 0; i < n; i++)
        d->boxes[d->order[first + i]].x = i - (n - 1) / 2.0;
}

static bool place_boxes(struct drawing *d)
{
    double *sum = calloc((size_t)d->n + 1, sizeof *sum);
    int *count = calloc((size_t)d->n + 1, sizeof *count), from, to;

    for (int i = 0; i < d->n; i++)
        d->order[i] = i;
    qsort_r(d->order, (size_t)d->n, sizeof *d->order, compare_ints, d->boxes);
    for (int first = 0, n; sum && count && first < d->n; first += n) {
        int layer = d->boxes[d->order[first]].layer;

        for (n = 0; first + n < d->n && d->boxes[d->order[first + n]].layer == layer; n++) {
            int b = d->order[first + n];
            d->boxes[b].want = count[b] ? sum[b] / count[b] : 0;
        }
        qsort_r(d->order + first, (size_t)n, sizeof *d->order, compare_ints, d->boxes);
        place_layer(d, first, n);
        for (int i = 0; i < d->nedges; i++)
            if (edge_of(d, i, &from, &to) && d->boxes[from].layer == layer) {
                sum[to] += d->boxes[from].x;
                count[to]++;
            }
    }
    bool done = sum && count;
    free(sum);
    free(count);
    return done;
}

static double left_of(const struct drawing *d, int box, double width)
{
    return width / 2 + d->boxes[box].x * (BOX + ACROSS) - BOX / 2.0;
}

static double top_of(const struct drawing *d, int box)
{
    return d->boxes[box].layer * (TALL + DOWN) + 6.0;
}

static void put_edge(FILE *out, const struct drawing *d, int from, int to, double width)
{
    double x = left_of(d, from, width) + BOX / 2.0, y = top_of(d, from) + TALL, u = left_of(d, to, width) + BOX / 2.0,
           v = top_of(d, to), half = (v - y) / 2;
    int over = d->boxes[to].layer - d->boxes[from].layer;

    if (over <= 1) {
        fprintf(out, "<path class=\"edge\" d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f\"/>", x, y, x, y + half, u,
                v - half, u, v);
        return;
    }
    double side = fmax(left_of(d, from, width), left_of(d, to, width)) + BOX + fmin(6 + 4.0 * over, EDGE - 4);
    fprintf(out,
            "<path class=\"edge\" d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0fV%.0fC%.0f %.0f %.0f %.0f %.0f %.0f\"/>",
            x + BOX / 2.0 - 12, y, x + BOX / 2.0 - 12, y + 12, side, y, side, y + 20, v - 20, side, v,
            u + BOX / 2.0 - 12, v - 12, u + BOX / 2.0 - 12, v);
}

/* As much of the text as a box has room for. */
static void put_short(FILE *out, const char *text, int fits)
{
    char cut[4 * FITS + 8];
    size_t bytes = 0;
    int n = 0;

    while (text[bytes] && n < fits && bytes < 4 * FITS) {
        n++;
        do
            bytes++;
        while (((unsigned char)text[bytes] & 0xc0) == 0x80 && bytes < 4 * FITS);
    }
    snprintf(cut, sizeof cut, "%.*s%s", (int)bytes, text, text[bytes] ? "\u2026" : "");
    html_escape(out, cut);
}

static void put_box(FILE *out, const struct drawing *d, int i, double width)
{
    const json_t *node = json_array_get(d->nodes, (size_t)i);
    const char *label = json_string_value(json_array_get(node, 0)),
               *detail = json_string_value(json_array_get(node, 1));
    double x = left_of(d, i, width), y = top_of(d, i), share = html_value(node, 2);
    int heat = share >= 0.1 ? 3 : share >= 0.03 ? 2 : share >= 0.01 ? 1 : 0;

    label = label ? label : "";
    detail = detail ? detail : "";
    fprintf(out,
            "<g class=\"box h%d\"><rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"4\"/><text x=\"%.0f\" "
            "y=\"%.0f\">",
            heat, x, y, BOX, TALL, x + 8, y + 16);
    put_short(out, label, FITS);
    fprintf(out, "</text><text class=\"small\" x=\"%.0f\" y=\"%.0f\">", x + 8, y + 31);
    put_short(out, detail, share >= 0.001 ? FITS - 7 : FITS);
    fputs("</text>", out);
    if (share >= 0.001)
        fprintf(out, "<text class=\"small e\" x=\"%.0f\" y=\"%.0f\">%.1f %%</text>", x + BOX - 6, y + 31, 100 * share);
    chart_title(out, label, detail);
    fputs("</g>\n", out);
}

static void draw(FILE *out, const json_t *item, struct drawing *d)
{
    double width = d->widest * (double)(BOX + ACROSS) + 2 * EDGE, height = d->layers * (double)(TALL + DOWN) + 12;
    char size[80];
    int from, to;

    snprintf(size, sizeof size, "width=\"%.0f\" height=\"%.0f\"", width, height);
    fputs("<div class=\"scroll net\" tabindex=\"0\" role=\"region\" aria-label=\"Graph\">", out);
    chart_svg(out, item, width, height, size);
    for (int i = 0; i < d->nedges; i++)
        if (edge_of(d, i, &from, &to))
            put_edge(out, d, from, to, width);
    for (int i = 0; i < d->n; i++)
        put_box(out, d, i, width);
    fputs("</svg></div>\n", out);
}

void chart_graph(FILE *out, const json_t *item)
{
    struct drawing d = {.nodes = json_object_get(item, "nodes"), .edges = json_object_get(item, "edges")};
    size_t n = json_array_size(d.nodes), nedges = json_array_size(d.edges);

    if (!n || n > MOST_NODES || nedges > MOST_EDGES) {
        fprintf(out,
                n ? "<p class=\"note\">%zu nodes are too many for a picture: the table has them.</p>\n"
                  : "<p class=\"note\">nothing to draw</p>\n",
                n);
        return;
    }
    d.n = (int)n;
    d.nedges = (int)nedges;
    d.boxes = calloc(n, sizeof *d.boxes);
    d.order = calloc(n, sizeof *d.order);
    if (d.boxes && d.order) {
        find_layers(&d);
        if (place_boxes(&d))
            draw(out, item, &d);
    }
    free(d.boxes);
    free(d.order);
}
