/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc --html: the facts of a compilation (compiler/compile_report.c) as a report: which kernels take the time by the
 * cost model, what lies where in memory and when, which weights are large, how the graph became kernels, what compiling
 * took; of a step in stages, each stage's schedule with its bubbles (stages.c).
 */
#include "tools/html/html_int.h"
#include "tools/run/model_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRIES = 4 };

static double number_of(const json_t *object, const char *key)
{
    const json_t *x = json_object_get(object, key);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

static const char *text_at(const json_t *list, size_t i)
{
    const char *text = json_string_value(json_array_get(list, i));
    return text ? text : "";
}

static double predicted(const json_t *entry)
{
    const json_t *steps = json_object_get(entry, "steps");
    double ms = 0;

    for (size_t i = 0; i < json_array_size(steps); i++)
        ms += fmax(0, number_of(json_array_get(steps, i), "ms"));
    return ms;
}

/* "main", "main for N = 1". */
static const char *name_of(const json_t *entry, char to[200])
{
    const char *version = html_string(entry, "version");
    snprintf(to, 200, "%.80s%s%.80s", html_string(entry, "name"), *version ? " for " : "", version);
    return to;
}

/* The number, from 1, of the step at that position of the plan, or of the last one before it. */
static double step_at(const json_t *steps, double position)
{
    size_t first = 0, last = json_array_size(steps);

    while (first < last) {
        size_t middle = (first + last) / 2;
        if (number_of(json_array_get(steps, middle), "at") <= position)
            first = middle + 1;
        else
            last = middle;
    }
    return first ? (double)first : 1;
}

/* Buffers are used from step to step of those that are shown. */
static void number_steps(const json_t *facts)
{
    const json_t *entries = json_object_get(facts, "entries");

    for (size_t e = 0; e < json_array_size(entries); e++) {
        const json_t *entry = json_array_get(entries, e), *buffers = json_object_get(entry, "buffers"),
                     *steps = json_object_get(entry, "steps");
        for (size_t i = 0; i < json_array_size(buffers); i++)
            for (size_t k = 6; k < 8; k++) {
                json_t *buffer = json_array_get(buffers, i);
                double position = html_value(buffer, k);
                if (isfinite(position))
                    json_array_set_new(buffer, k, html_number(step_at(steps, position)));
            }
    }
}

/* -- Time ---------------------------------------------------------------------------------------------- */

static void time_table(json_t *section, const json_t *entry)
{
    static const char *const columns[] = {
        "step|count", "kernel",      "computes",         "how", "predicted|ms|bar", "part|percent",
        "MFLOP|rate", "moves|bytes", "FLOP a byte|rate", NULL};
    const json_t *steps = json_object_get(entry, "steps");
    double all = predicted(entry);
    char name[200];
    json_t *rows =
        html_table(section, name_of(entry, name),
                   "by the compiler's cost model: proportions rather than times; tccc-run --html measures", columns);

    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *s = json_array_get(steps, i);
        const char *sources = html_string(s, "sources");
        double ms = number_of(s, "ms"), flops = number_of(s, "flops"), bytes = number_of(s, "bytes");

        html_row(rows, 9, html_number((double)i + 1), html_text(html_string(s, "kernel")),
                 html_text(*sources ? sources : html_string(s, "node")),
                 json_is_true(json_object_get(s, "host")) ? html_text("on the host") : html_text(html_string(s, "how")),
                 html_number(ms), html_number(all > 0 ? 100 * ms / all : NAN),
                 flops > 0 ? html_number(flops * 1e-6) : json_null(), html_number(bytes),
                 flops > 0 && bytes > 0 ? html_number(flops / bytes) : json_null());
    }
}

/* -- Graph ------------------------------------------------------------------------------------------------ */

/* The step that wrote a buffer last, by buffer; -1: none. */
struct writers {
    int *at;
    size_t n;
};

static int *writer(struct writers *w, double buffer)
{
    return buffer >= 0 && buffer < (double)w->n ? &w->at[(size_t)buffer] : NULL;
}

static size_t buffers_in(const json_t *steps)
{
    double most = 0;

    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *lists[] = {json_object_get(json_array_get(steps, i), "reads"),
                                 json_object_get(json_array_get(steps, i), "writes")};
        for (int l = 0; l < 2; l++)
            for (size_t k = 0; k < json_array_size(lists[l]); k++)
                most = fmax(most, html_value(lists[l], k));
    }
    return most < 1e8 ? (size_t)most + 1 : 0;
}

static void kernel_graph(json_t *section, const json_t *entry)
{
    const json_t *steps = json_object_get(entry, "steps");
    struct writers w = {.n = buffers_in(steps)};
    char name[200];
    json_t *g = html_item(section, "graph", name_of(entry, name),
                          "each box a kernel or another step, below what it needs; in colour and in figures its part "
                          "of the predicted time"),
           *nodes = json_array(), *edges = json_array();
    double all = predicted(entry);

    if ((w.at = calloc(w.n + 1, sizeof *w.at)))
        for (size_t i = 0; i < json_array_size(steps); i++) {
            const json_t *s = json_array_get(steps, i), *reads = json_object_get(s, "reads"),
                         *writes = json_object_get(s, "writes");
            const char *node = html_string(s, "node"), *sources = html_string(s, "sources");
            int last = 0;
            json_t *box = json_array();

            json_array_append_new(box, html_text(*node ? node : html_string(s, "kernel")));
            json_array_append_new(box, html_text(*sources ? sources : html_string(s, "kernel")));
            json_array_append_new(box, html_number(all > 0 ? fmax(0, number_of(s, "ms")) / all : 0));
            json_array_append_new(nodes, box);
            for (size_t k = 0; k < json_array_size(reads); k++) {
                int *from = writer(&w, html_value(reads, k));
                if (from && *from && *from != last && (size_t)*from != i + 1)
                    html_point(edges, 2, *from - 1.0, (double)i);
                last = from ? *from : last;
            }
            for (size_t k = 0; k < json_array_size(writes); k++) {
                int *to = writer(&w, html_value(writes, k));
                if (to)
                    *to = (int)i + 1;
            }
        }
    free(w.at);
    json_object_set_new(g, "nodes", nodes);
    json_object_set_new(g, "edges", edges);
}

/* -- Memory ---------------------------------------------------------------------------------------------- */

/* Bytes that are live at each step, and the step at which most are. */
struct live {
    double *at;
    int steps, peak;
};

static struct live live_bytes(const json_t *buffers, double memory)
{
    struct live l = {0};
    double last = 0;

    for (size_t i = 0; i < json_array_size(buffers); i++)
        last = fmax(last, html_value(json_array_get(buffers, i), 7));
    if (!(last >= 0 && last < 1e7) || !(l.at = calloc((size_t)last + 2, sizeof *l.at)))
        return l;
    l.steps = (int)last + 1;
    for (size_t i = 0; i < json_array_size(buffers); i++) {
        const json_t *b = json_array_get(buffers, i);
        double first = html_value(b, 6), end = html_value(b, 7);
        if (html_value(b, 3) == memory && first >= 0 && end >= first && end < l.steps && html_value(b, 4) >= 0) {
            l.at[(int)first] += html_value(b, 4);
            l.at[(int)end + 1] -= html_value(b, 4);
        }
    }
    for (int s = 1; s < l.steps; s++)
        l.at[s] += l.at[s - 1];
    for (int s = 0; s < l.steps; s++)
        l.peak = l.at[s] > l.at[l.peak] ? s : l.peak;
    return l;
}

/* True: every buffer of that memory has a place. */
static bool put_blocks(json_t *item, const json_t *buffers, double memory)
{
    json_t *blocks = json_array();
    double bytes = 0, steps = 0;
    bool all = true;

    for (size_t i = 0; i < json_array_size(buffers); i++) {
        const json_t *b = json_array_get(buffers, i);
        double offset = html_value(b, 5), size = html_value(b, 4), last = html_value(b, 7);
        if (html_value(b, 3) != memory)
            continue;
        all &= isfinite(offset);
        bytes = fmax(bytes, offset + size);
        steps = fmax(steps, last + 1);
        html_point(blocks, 4, html_value(b, 6), last, offset, size);
        json_array_append_new(json_array_get(blocks, json_array_size(blocks) - 1), html_text(text_at(b, 1)));
    }
    json_object_set_new(item, "bytes", html_number(bytes));
    json_object_set_new(item, "steps", html_number(steps));
    all &= json_array_size(blocks) > 0;
    json_object_set_new(item, "blocks", blocks);
    return all;
}

static void memory_of(json_t *section, const json_t *facts, const json_t *entry, int memory)
{
    static const char *const columns[] = {"buffer",          "type",        "bytes|bytes|bar", "first step|count",
                                          "last step|count", "at the peak", "offset|bytes",    NULL};
    const json_t *buffers = json_object_get(entry, "buffers"), *names = json_object_get(facts, "memories");
    struct live l = live_bytes(buffers, memory);
    char name[200], title[400];

    name_of(entry, name);
    if (memory || json_array_size(names) > 1)
        snprintf(title, sizeof title, "%s, memory of '%.60s'", name, text_at(names, (size_t)memory));
    else
        snprintf(title, sizeof title, "%s", name);
    json_t *item = html_item(section, "memory", title,
                             "each rectangle a buffer, from its first to its last use, at its place in the arena");
    if (!put_blocks(item, buffers, memory)) { /* placed when it runs: how much is live is all there is to say */
        json_object_set_new(item, "type", html_text("line"));
        json_object_set_new(item, "note",
                            html_text("bytes live at each step; buffers are placed when sizes are known, here taken as "
                                      "64 (--dim fixes them)"));
        json_object_del(item, "blocks");
        json_t *points = html_series(item, "live");
        for (int s = 0; s < l.steps; s++)
            html_point(points, 2, (double)s, l.at[s]);
        json_object_set_new(item, "unit", html_text("bytes"));
    }
    json_object_set_new(item, "x", html_text("step"));
    snprintf(title + strlen(title), sizeof title - strlen(title), ": buffers");
    json_t *rows = html_table(section, title, NULL, columns);
    for (size_t i = 0; i < json_array_size(buffers); i++) {
        const json_t *b = json_array_get(buffers, i);
        if (html_value(b, 3) == memory)
            html_row(rows, 7, html_text(text_at(b, 1)), html_text(text_at(b, 2)), html_number(html_value(b, 4)),
                     html_number(html_value(b, 6)), html_number(html_value(b, 7)),
                     html_text(l.at && html_value(b, 6) <= l.peak && html_value(b, 7) >= l.peak ? "yes" : ""),
                     html_number(html_value(b, 5)));
    }
    free(l.at);
}

static void memory_of_entry(json_t *s, const json_t *facts, const json_t *entry)
{
    size_t n = json_array_size(json_object_get(facts, "memories"));

    for (int m = 0; m < (n ? (int)n : 1) && m < 4; m++) {
        const json_t *buffers = json_object_get(entry, "buffers");
        bool any = false;
        for (size_t i = 0; i < json_array_size(buffers); i++)
            any |= html_value(json_array_get(buffers, i), 3) == m;
        if (any)
            memory_of(s, facts, entry, m);
    }
}

static void weights_section(json_t *report, const json_t *facts)
{
    static const char *const columns[] = {"name", "type", "bytes|bytes|bar", "part|percent", NULL};
    const json_t *weights = json_object_get(facts, "weights");
    json_t *s = html_section(
        report, "weights", "Weights and state",
        "Constants and state variables as they lie in memory: padded and laid out for the kernels that read them.");
    json_t *rows = html_table(s, "Weights and state", NULL, columns);
    double all = 0;

    for (size_t i = 0; i < json_array_size(weights); i++)
        all += fmax(0, html_value(json_array_get(weights, i), 2));
    for (size_t i = 0; i < json_array_size(weights); i++) {
        const json_t *w = json_array_get(weights, i);
        html_row(rows, 4, html_text(text_at(w, 0)), html_text(text_at(w, 1)), html_number(html_value(w, 2)),
                 html_number(all > 0 ? 100 * html_value(w, 2) / all : NAN));
    }
}

/* -- Levels and passes ---------------------------------------------------------------------------------------- */

static double total(const json_t *list, size_t column)
{
    double sum = 0;

    for (size_t i = 0; i < json_array_size(list); i++)
        sum += fmax(0, html_value(json_array_get(list, i), column));
    return sum;
}

static void ops_table(json_t *section, const json_t *facts, const char *key, const char *title)
{
    static const char *const columns[] = {"operator", "how many|count|bar", NULL};
    const json_t *list = json_object_get(facts, key);
    json_t *rows = html_table(section, title, NULL, columns);

    for (size_t i = 0; i < json_array_size(list); i++)
        html_row(rows, 2, html_text(text_at(json_array_get(list, i), 0)),
                 html_number(html_value(json_array_get(list, i), 1)));
}

static void passes_section(json_t *report, const json_t *facts)
{
    static const char *const pass_columns[] =
        {"run|count", "pass", "time|ms|bar", "nodes before|count", "nodes after|count", "changes|count", NULL},
                             *const lap_columns[] = {"step", "time|ms|bar", NULL};
    const json_t *passes = json_object_get(facts, "passes"), *laps = json_object_get(facts, "laps");
    json_t *s = html_section(report, "compiling", "Compiling", NULL),
           *rows = html_table(s, "Steps of the compilation", NULL, lap_columns);

    for (size_t i = 0; i < json_array_size(laps); i++)
        html_row(rows, 2, html_text(text_at(json_array_get(laps, i), 0)),
                 html_number(html_value(json_array_get(laps, i), 1)));
    rows = html_table(s, "Passes", "in the order in which they ran", pass_columns);
    for (size_t i = 0; i < json_array_size(passes); i++) {
        const json_t *p = json_array_get(passes, i);
        html_row(rows, 6, html_number((double)i + 1), html_text(text_at(p, 0)), html_number(html_value(p, 1)),
                 html_number(html_value(p, 2)), html_number(html_value(p, 3)), html_number(html_value(p, 4)));
    }
    ops_table(s, facts, "source", "Operators of the model");
    ops_table(s, facts, "graph", "Operations of the graph after its passes");
}

/* -- In short -------------------------------------------------------------------------------------------------- */

static void answer_time(json_t *report, const json_t *entry)
{
    const json_t *steps = json_object_get(entry, "steps"), *slowest = NULL;
    size_t n = json_array_size(steps);
    double *ms = calloc(n + 1, sizeof *ms), all = predicted(entry), most = -1, first = 0;
    char a[HTML_AMOUNT], b[HTML_AMOUNT];

    for (size_t i = 0; ms && i < n; i++) {
        ms[i] = fmax(0, number_of(json_array_get(steps, i), "ms"));
        if (ms[i] > most) {
            most = ms[i];
            slowest = json_array_get(steps, i);
        }
    }
    if (ms && n)
        sort_times(ms, (int)n);
    for (size_t i = n; ms && i > 0 && n - i < 5; i--)
        first += ms[i - 1];
    free(ms);
    if (!slowest || !(all > 0))
        return;
    const char *node = html_string(slowest, "node");
    html_answer(report, "", "What will take the time?",
                html_textf("%.120s: %.1f %%", *node ? node : html_string(slowest, "kernel"), 100 * most / all),
                html_textf("%s of %s predicted for a run; the five longest of %zu steps take %.0f %%",
                           html_amount(a, "ms", most), html_amount(b, "ms", all), n, 100 * first / all));
}

/* measured: bytes of the buffers of a run that has been; 0: as planned. */
static void answer_memory(json_t *report, const json_t *facts, const json_t *entry, double measured)
{
    const json_t *buffers = json_object_get(entry, "buffers"), *arenas = json_object_get(entry, "arenas");
    double arena = number_of(entry, "arena"), live = number_of(entry, "live"),
           weights = total(json_object_get(facts, "weights"), 2), most = -1, peak = 0;
    const char *largest = "";
    char a[HTML_AMOUNT], b[HTML_AMOUNT], c[HTML_AMOUNT], guessed[40] = "";
    size_t n = json_array_size(json_object_get(facts, "memories"));

    for (size_t m = 0; m < (n ? n : 1); m++) {
        struct live l = live_bytes(buffers, (double)m);
        peak = l.at ? fmax(peak, l.at[l.peak]) : peak;
        free(l.at);
    }
    for (size_t i = 0; i < json_array_size(buffers); i++)
        if (html_value(json_array_get(buffers, i), 4) > most) {
            most = html_value(json_array_get(buffers, i), 4);
            largest = text_at(json_array_get(buffers, i), 1);
        }
    for (size_t i = 0; i < json_array_size(arenas); i++)
        arena += html_value(arenas, i);
    bool known = isfinite(arena) && arena > 0;
    double work = measured > 0 ? measured : known ? arena : peak;
    if (!known && !(measured > 0) && work > 0)
        snprintf(guessed, sizeof guessed, " where sizes are 64");
    json_t *detail = most >= 0 && peak > 0 ? html_textf("weights and state %s, a run's buffers %s%s; the largest is "
                                                        "%.80s, %.0f %% of what is live at the peak",
                                                        html_amount(a, "bytes", weights), html_amount(b, "bytes", work),
                                                        guessed, *largest ? largest : "unnamed", 100 * most / peak)
                                           : html_textf("weights and state %s", html_amount(a, "bytes", weights));
    html_answer(report, "", "What takes the memory?",
                html_textf("%s: %s", weights >= work ? "weights" : "buffers of a run",
                           html_amount(c, "bytes", fmax(weights, work))),
                detail);
    if (known && live > 0 && !json_array_size(arenas))
        html_answer(report, arena <= 1.1 * live ? "good" : "warn", "Is memory shared well?",
                    html_textf("%.2f times the least", arena / live),
                    html_textf("the arena has %s; %s of it are live at once, which no plan can do without",
                               html_amount(a, "bytes", arena), html_amount(b, "bytes", live)));
}

static void answer_compiling(json_t *report, const json_t *facts)
{
    const json_t *laps = json_object_get(facts, "laps");
    double all = total(laps, 1), most = -1;
    const char *what = "";
    char a[HTML_AMOUNT], b[HTML_AMOUNT];

    for (size_t i = 0; i < json_array_size(laps); i++)
        if (html_value(json_array_get(laps, i), 1) > most) {
            most = html_value(json_array_get(laps, i), 1);
            what = text_at(json_array_get(laps, i), 0);
        }
    if (most >= 0)
        html_answer(report, "", "What took compiling?", html_text(html_amount(a, "ms", all)),
                    html_textf("most of it: %s, %s", what, html_amount(b, "ms", most)));
}

static void answer_host(json_t *report, const json_t *facts, const json_t *entry)
{
    const json_t *steps = json_object_get(entry, "steps");
    size_t host = 0, n = json_array_size(steps);

    if (json_array_size(json_object_get(facts, "memories")) < 2)
        return;
    for (size_t i = 0; i < n; i++)
        host += json_is_true(json_object_get(json_array_get(steps, i), "host"));
    html_answer(report, host ? "warn" : "good", "Does the device do the work?",
                host ? html_textf("%zu of %zu steps run on the host", host, n) : html_textf("all %zu steps", n),
                html_text(host ? "the table of times says which" : "nothing is left to the host"));
}

/* The sections; the entry point that takes longest. */
static const json_t *put_sections(json_t *r, const json_t *facts)
{
    const json_t *entries = json_object_get(facts, "entries"), *costly = NULL;

    for (size_t i = 0; i < json_array_size(entries); i++)
        if (!costly || predicted(json_array_get(entries, i)) > predicted(costly))
            costly = json_array_get(entries, i);
    html_stages(r, facts);
    json_t *times = html_section(r, "predicted", "Predicted time", NULL);
    for (size_t i = 0; i < json_array_size(entries) && i < MOST_ENTRIES; i++)
        time_table(times, json_array_get(entries, i));
    kernel_graph(html_section(r, "graph", "Graph of kernels", NULL), costly);
    json_t *memory =
        html_section(r, "buffers", "Buffers", "What a run keeps beside weights and state, as it was planned.");
    for (size_t i = 0; i < json_array_size(entries) && i < MOST_ENTRIES; i++)
        memory_of_entry(memory, facts, json_array_get(entries, i));
    weights_section(r, facts);
    passes_section(r, facts);
    if (json_array_size(entries) > MOST_ENTRIES)
        html_fact(r, "Entry points", html_textf("%zu; the first %d are shown", json_array_size(entries), MOST_ENTRIES));
    return costly;
}

bool html_compiled_part(json_t *report, const char *text, size_t size, double arena)
{
    json_t *facts = text ? json_loadb(text, size, 0, NULL) : NULL;
    bool some = json_array_size(json_object_get(facts, "entries")) > 0;

    number_steps(facts);
    const json_t *costly = some ? put_sections(report, facts) : NULL;
    if (some && arena >= 0)
        answer_memory(report, facts, costly, arena);
    json_decref(facts);
    return some;
}

json_t *html_compiled(const char *text, size_t size)
{
    json_t *facts = json_loadb(text, size, 0, NULL), *archs = json_object_get(facts, "archs");
    const char *model = html_string(facts, "model");

    if (!json_array_size(json_object_get(facts, "entries"))) {
        json_decref(facts);
        return NULL;
    }
    number_steps(facts);
    json_t *r = html_report("compile", tool_base_name(model), "Compilation");
    const json_t *costly = put_sections(r, facts);
    answer_time(r, costly);
    answer_memory(r, facts, costly, 0);
    answer_host(r, facts, costly);
    answer_compiling(r, facts);
    html_fact(r, "Model", html_text(model));
    html_fact(r, "Target",
              html_textf("%s%s%.*s", html_string(facts, "target"), json_array_size(archs) ? ", " : "",
                         (int)strcspn(text_at(archs, 0), ":"), text_at(archs, 0))); /* without what it has */
    html_fact(r, "Optimisation", html_textf("-O%.0f", number_of(facts, "level")));
    html_fact(r, "Operators, operations, steps",
              html_textf("%.0f, %.0f, %zu", total(json_object_get(facts, "source"), 1),
                         total(json_object_get(facts, "graph"), 1), json_array_size(json_object_get(costly, "steps"))));
    html_fact(r, "Different kernels", html_textf("%.0f", number_of(facts, "kernels")));
    json_decref(facts);
    return r;
}
