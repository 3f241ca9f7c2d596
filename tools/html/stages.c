/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step in stages as a timeline, a row a stage: its tasks in the order in which the artifact has them, each as long as
 * the cost model says, a receive no earlier than its send. What remains is the bubble. Communication takes no time here
 * (tccc-plan has links).
 */
#include "base/grow.h"
#include "tools/html/html_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STAGES = 64 };

struct stage {
    const json_t *tasks;
    size_t next;
    double time, busy;
};

/* A message under way: value of a microbatch to a stage, when it was sent. */
struct sent {
    double value, micro, to, at;
    bool taken;
};
struct mail {
    struct sent *list;
    size_t n, room;
};

static const char *kind_of(const json_t *task)
{
    const char *kind = json_string_value(json_array_get(task, 3));
    return kind ? kind : "";
}

static bool post(struct mail *m, struct sent s)
{
    if (!GROWN(m->list, m->n, m->room, 64))
        return false;
    m->list[m->n++] = s;
    return true;
}

static struct sent *find(struct mail *m, double value, double micro, double to)
{
    for (size_t i = 0; i < m->n; i++)
        if (!m->list[i].taken && m->list[i].value == value && m->list[i].micro == micro && m->list[i].to == to)
            return &m->list[i];
    return NULL;
}

/* Does the stage's tasks as far as they can be done; the number done. */
static size_t go_on(struct stage *s, int number, struct mail *m, json_t *spans)
{
    size_t done = 0;

    for (; s->next < json_array_size(s->tasks); s->next++, done++) {
        const json_t *t = json_array_get(s->tasks, s->next);
        double ms = fmax(0, html_value(t, 1)), micro = html_value(t, 2), value = html_value(t, 4),
               peer = html_value(t, 5);

        if (!strcmp(kind_of(t), "receive")) {
            struct sent *x = find(m, value, micro, number);
            if (!x)
                break;
            x->taken = true;
            s->time = fmax(s->time, x->at);
        } else if (!strcmp(kind_of(t), "send")) {
            if (!post(m, (struct sent){value, micro, peer, s->time, false}))
                break;
        } else if (!strcmp(kind_of(t), "call") && ms > 0) {
            const char *name = json_string_value(json_array_get(t, 0));
            bool backward = name && strstr(name, "backward");
            json_t *span = json_array();

            json_array_append_new(span, html_number(s->time));
            json_array_append_new(span, html_number(s->time + ms));
            json_array_append_new(span, html_textf("%.100s, microbatch %.0f", name ? name : "", micro));
            json_array_append_new(span, html_text(backward                          ? "backward"
                                                  : name && strstr(name, "forward") ? "forward"
                                                                                    : "other"));
            json_array_append_new(spans, span);
            s->time += ms;
            s->busy += ms;
        }
    }
    return done;
}

/* What came of a schedule. */
struct waiting {
    const char *name;
    double bubble, ms;
    size_t stages;
    double micros;
};

static struct waiting stages_section(json_t *section, const json_t *pipe)
{
    static const char *const columns[] = {
        "stage|count", "works|ms|bar", "waits|ms", "part of the step|percent", "tasks|count", NULL};
    const json_t *stages = json_object_get(pipe, "stages");
    size_t n = json_array_size(stages), done = 1;
    struct stage s[MOST_STAGES];
    json_t *spans[MOST_STAGES], *tracks = json_array();
    struct mail mail = {0};
    double end = 0, busy = 0;

    n = n < MOST_STAGES ? n : MOST_STAGES;
    for (size_t k = 0; k < n; k++) {
        s[k] = (struct stage){.tasks = json_array_get(stages, k)};
        spans[k] = json_array();
    }
    while (done) {
        done = 0;
        for (size_t k = 0; k < n; k++)
            done += go_on(&s[k], (int)k, &mail, spans[k]);
    }
    free(mail.list);
    for (size_t k = 0; k < n; k++) {
        json_t *track = json_object();
        json_object_set_new(track, "name", html_textf("stage %zu", k));
        json_object_set_new(track, "spans", spans[k]);
        json_array_append_new(tracks, track);
        end = fmax(end, s[k].time);
        busy += s[k].busy;
    }
    json_t *item = html_item(section, "timeline", html_string(pipe, "name"),
                             "predicted by the cost model, communication left out; tccc-plan predicts it with links");
    json_object_set_new(item, "tracks", tracks);
    json_object_set_new(item, "unit", html_text("ms"));
    json_t *rows = html_table(section, "Stages", NULL, columns);
    for (size_t k = 0; k < n; k++)
        html_row(rows, 5, html_number((double)k), html_number(s[k].busy), html_number(end - s[k].busy),
                 html_number(end > 0 ? 100 * s[k].busy / end : NAN), html_number((double)json_array_size(s[k].tasks)));
    return (struct waiting){json_string_value(json_object_get(pipe, "name")),
                            end > 0 && n ? 1 - busy / (end * (double)n) : 0, end, n,
                            json_number_value(json_object_get(pipe, "micros"))};
}

/* Of the entry point that takes longest. */
static void answer_waiting(json_t *report, const struct waiting *w, bool only)
{
    char a[HTML_AMOUNT];

    html_answer(
        report, w->bubble < 0.15 ? "good" : "warn", "Do the stages wait?",
        html_textf("%.1f %% of their time (bubble)", 100 * w->bubble),
        html_textf("%s%.60s%s%zu stages, %.0f microbatches, %s predicted without communication; more microbatches "
                   "make it less",
                   only ? "" : "in '", only || !w->name ? "" : w->name, only ? "" : "': ", w->stages, w->micros,
                   html_amount(a, "ms", w->ms)));
}

void html_stages(json_t *report, const json_t *facts)
{
    const json_t *pipes = json_object_get(facts, "pipes");
    json_t *section = json_array_size(pipes) ? html_section(report, "stages", "Stages", NULL) : NULL;
    struct waiting longest = {.ms = -1};

    for (size_t i = 0; i < json_array_size(pipes) && i < 4; i++) {
        struct waiting w = stages_section(section, json_array_get(pipes, i));
        longest = w.ms > longest.ms ? w : longest;
    }
    if (section)
        answer_waiting(report, &longest, json_array_size(pipes) == 1);
}
