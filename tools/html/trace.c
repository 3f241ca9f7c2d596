/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Chrome trace (tccrt_profile_trace(), --profile=FILE.json) in a report: spans as a timeline, a row a thread, queue,
 * stage or engine; the counter of memory as lines.
 */
#include "tools/html/html_int.h"

#include <math.h>
#include <string.h>

enum { LANES = 64, LINES = 16, SPANS = 900 /* tracks of the program's own begin there */ };

struct lane {
    double process, thread;
    json_t *track;
};

static json_t *lane_of(struct lane *lanes, int *n, double process, double thread, json_t *tracks)
{
    for (int i = 0; i < *n; i++)
        if (lanes[i].process == process && lanes[i].thread == thread)
            return lanes[i].track;
    if (*n == LANES)
        return NULL;
    json_t *track = json_object();
    static const char *const queues[] = {"host", "compute", "copy in", "copy out", "communication"};
    json_object_set_new(track, "name",
                        thread == 1                       ? html_text("steps")
                        : thread == 2                     ? html_text("communication")
                        : thread > 2 && thread < SPANS    ? html_textf("stage %.0f", thread - 3)
                        : thread > 1000 && thread <= 1005 ? html_textf("device, %s", queues[(int)thread - 1001])
                                                          : html_textf("track %.0f", thread));
    json_object_set_new(track, "spans", json_array());
    json_array_append(tracks, track);
    json_decref(track);
    lanes[(*n)++] = (struct lane){process, thread, track};
    return track;
}

/* Of several processes each row says whose it is. */
static void name_processes(struct lane *lanes, int n)
{
    bool several = false;

    for (int i = 1; i < n; i++)
        several |= lanes[i].process != lanes[0].process;
    for (int i = 0; several && i < n; i++)
        json_object_set_new(lanes[i].track, "name",
                            html_textf("rank %.0f: %.80s", lanes[i].process, html_string(lanes[i].track, "name")));
}

/* -- Memory ----------------------------------------------------------------------------------------------- */

/* What a process has of a kind of memory, over the run: each value until the next one. */
struct held {
    struct {
        double process, last;
        const char *kind;
        json_t *points;
    } lines[LINES];
    int n;
};

static void add_sample(struct held *h, const json_t *event)
{
    double ms = json_number_value(json_object_get(event, "ts")) * 1e-3,
           process = json_number_value(json_object_get(event, "pid"));

    for (void *at = json_object_iter(json_object_get(event, "args")); at;
         at = json_object_iter_next(json_object_get(event, "args"), at)) {
        const char *kind = json_object_iter_key(at);
        int i = 0;

        while (i < h->n && (h->lines[i].process != process || strcmp(h->lines[i].kind, kind) != 0))
            i++;
        if (i == LINES)
            return;
        if (i == h->n) {
            h->lines[h->n++].points = json_array();
            h->lines[i].process = process;
            h->lines[i].kind = kind;
        } else {
            html_point(h->lines[i].points, 2, ms, h->lines[i].last);
        }
        h->lines[i].last = json_number_value(json_object_iter_value(at));
        html_point(h->lines[i].points, 2, ms, h->lines[i].last);
    }
}

static void put_held(json_t *section, struct held *h, double end)
{
    json_t *line = h->n ? html_line(section, "Memory over time",
                                    "what sessions hold; weights that are read in the file are not counted",
                                    "ms of the run", "bytes", false)
                        : NULL;
    bool several = false;

    for (int i = 1; i < h->n; i++)
        several |= h->lines[i].process != h->lines[0].process;
    for (int i = 0; i < h->n; i++) {
        char name[100], rank[40] = "";

        if (several)
            snprintf(rank, sizeof rank, "rank %.0f, ", h->lines[i].process);
        snprintf(name, sizeof name, "%s%.40s", rank, h->lines[i].kind);
        html_point(h->lines[i].points, 2, end, h->lines[i].last);
        json_array_extend(html_series(line, name), h->lines[i].points);
        json_decref(h->lines[i].points);
    }
}

/* -- Both ------------------------------------------------------------------------------------------------------ */

bool html_trace(json_t *section, const char *title, const json_t *trace)
{
    const json_t *events = json_object_get(trace, "traceEvents");
    json_t *tracks = json_array();
    struct lane lanes[LANES];
    struct held held = {.n = 0};
    int n = 0;
    size_t spans = 0;
    double end = 0;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i), *args = json_object_get(e, "args");
        const char *kind = html_string(e, "ph"), *node = html_string(args, "node");
        double ts = json_number_value(json_object_get(e, "ts")), dur = json_number_value(json_object_get(e, "dur"));

        if (!strcmp(kind, "C")) {
            add_sample(&held, e);
            continue;
        }
        end = fmax(end, ts + dur);
        json_t *track = lane_of(lanes, &n, json_number_value(json_object_get(e, "pid")),
                                json_number_value(json_object_get(e, "tid")), tracks);

        if (track && !strcmp(kind, "M") && !strcmp(html_string(e, "name"), "thread_name"))
            json_object_set_new(track, "name", html_text(html_string(args, "name")));
        if (!track || strcmp(kind, "X") != 0)
            continue;
        json_t *span = json_array();
        json_array_append_new(span, html_number(ts * 1e-3));
        json_array_append_new(span, html_number((ts + dur) * 1e-3));
        json_array_append_new(span, html_textf("%.100s%s%.100s", html_string(e, "name"), *node ? ", " : "", node));
        json_array_append_new(span, html_text(html_string(e, "cat")));
        json_array_append_new(json_object_get(track, "spans"), span);
        spans++;
    }
    name_processes(lanes, n);
    if (spans) {
        json_t *item = html_item(section, "timeline", title, "focus it: + and - zoom, arrows move, 0 shows all");
        json_object_set_new(item, "tracks", json_incref(tracks));
        json_object_set_new(item, "unit", html_text("ms"));
    }
    json_decref(tracks);
    put_held(section, &held, end * 1e-3);
    return spans > 0;
}
