/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-run --html: where a run's time went. The session's profile by kernel, by part of the network and by kind; each
 * kernel under the roof that the processor puts over it (Williams, Waterman and Patterson's roofline, 2009); the last
 * run's events, those of the Chrome trace, as a timeline by thread, queue or engine; memory.
 */
#include "tools/html/html_int.h"
#include "tools/run/model_int.h"
#include "tools/run/sim_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_GROUPS = 64 };

struct sums {
    char name[120];
    double ns, flops, calls;
};

/* "/layer1/layer1.0/conv1/Conv" and "layer1.0.conv1" belong to layer1: up to the first separator behind the first
 * letter. */
static void part_of(const char *node, char to[120])
{
    const char *at = node + strspn(node, "/.");
    size_t n = strcspn(at, "/.");

    if (!at[n] || !strcmp(at + n, "/"))
        snprintf(to, 120, "%s", *at ? "(the rest)" : "(no name)");
    else
        snprintf(to, 120, "%.*s", (int)(n < 100 ? n : 100), at);
}

static void kind_of(const char *kernel, char to[120])
{
    snprintf(to, 120, "%.*s", (int)strcspn(kernel, "_"), kernel);
}

/* Adds a row under that name; what has no room is "other". */
static void add_to(struct sums *list, int *n, const char *name, const struct tccrt_profile_row *r)
{
    int i = 0;

    while (i < *n && strcmp(list[i].name, name) != 0)
        i++;
    if (i == *n && i < MOST_GROUPS) {
        snprintf(list[i].name, sizeof list->name, "%s", i == MOST_GROUPS - 1 ? "other" : name);
        ++*n;
    }
    i = i < MOST_GROUPS ? i : MOST_GROUPS - 1;
    list[i].ns += r->ns;
    list[i].flops += r->flops;
    list[i].calls += (double)r->calls;
}

static int slower_first(const void *a, const void *b)
{
    const struct sums *x = a, *y = b;
    return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static void sums_table(json_t *section, const char *title, const char *what, struct sums *list, int n, double all,
                       double runs)
{
    const char *columns[] = {what, "time|ms|bar", "part|percent", "steps|count", "GFLOP/s|rate", NULL};
    json_t *rows = html_table(section, title, NULL, columns);

    qsort(list, (size_t)n, sizeof *list, slower_first);
    for (int i = 0; i < n; i++)
        html_row(rows, 5, html_text(list[i].name), html_number(list[i].ns * 1e-6 / runs),
                 html_number(all > 0 ? 100 * list[i].ns / all : NAN), html_number(list[i].calls / runs),
                 list[i].flops > 0 && list[i].ns > 0 ? html_number(list[i].flops / list[i].ns) : json_null());
}

static bool waits(const struct tccrt_profile_row *r)
{
    return !strcmp(r->kernel, "wait"); /* for what other rows have */
}

static void kernel_table(json_t *section, const struct tccrt_profile_row *rows, int n, double all, double peak,
                         double runs)
{
    static const char *const columns[] = {
        "kernel",      "layer",        "time|ms|bar",         "part|percent", "all up to here|percent",
        "calls|count", "GFLOP/s|rate", "of the peak|percent", "GB/s|rate",    NULL};
    json_t *list = html_table(section, "Kernels, slowest first",
                              "mean of a run; GFLOP/s, and bytes of operands and results a second", columns);
    double sum = 0;

    for (int i = 0; i < n; i++) {
        const struct tccrt_profile_row *r = &rows[i];
        double rate = r->ns > 0 && r->flops > 0 ? r->flops / r->ns : NAN;

        sum += waits(r) ? 0 : r->ns;
        html_row(list, 9, html_text(r->kernel), html_text(r->node), html_number(r->ns * 1e-6 / runs),
                 html_number(all > 0 && !waits(r) ? 100 * r->ns / all : NAN),
                 html_number(all > 0 ? 100 * sum / all : NAN), html_number((double)r->calls / runs), html_number(rate),
                 html_number(peak > 0 ? 100 * rate / peak : NAN),
                 r->ns > 0 && r->bytes > 0 ? html_number(r->bytes / r->ns) : json_null());
    }
}

static void roofline(json_t *section, const struct tccrt_profile_row *rows, int n, double peak)
{
    json_t *item = html_item(section, "scatter", "Kernels under the roof",
                             "FLOP a byte moved (across), GFLOP/s (up). Dashes: what the processor can do at best, and "
                             "what the fastest bytes seen here allow: a kernel at the slope waits for memory"),
           *points = json_array();
    double bytes = 0;

    for (int i = 0; i < n; i++) {
        const struct tccrt_profile_row *r = &rows[i];
        char what[200];

        if (!(r->ns > 0))
            continue;
        bytes = fmax(bytes, r->bytes / r->ns);
        if (!(r->flops > 0 && r->bytes > 0))
            continue;
        html_point(points, 2, r->flops / r->bytes, r->flops / r->ns);
        snprintf(what, sizeof what, "%.80s (%.60s): %.1f GFLOP/s", r->node ? r->node : "", r->kernel, r->flops / r->ns);
        json_array_append_new(json_array_get(points, json_array_size(points) - 1), html_text(what));
    }
    json_object_set_new(item, "x", html_text("FLOP a byte"));
    json_object_set_new(item, "points", points);
    if (peak > 0)
        json_object_set_new(item, "roof", json_pack("[ff]", peak, bytes));
}

/* -- Trace ------------------------------------------------------------------------------------------------- */

static int write_trace(void *m, const char *path)
{
    return tccrt_profile_trace(((const struct model *)m)->session, path);
}

/* The last run's trace; NULL: none. */
static json_t *trace_of(const struct model *m)
{
    size_t size;
    char *text = html_text_of(write_trace, (void *)m, SIZE_MAX, &size);
    json_t *trace = text ? json_loadb(text, size, 0, NULL) : NULL;

    free(text);
    return trace;
}

/* -- Devices, memory -------------------------------------------------------------------------------------------- */

static void engines(json_t *report, const struct model *m, int runs)
{
    static const char *const columns[] = {
        "engine", "busy|ms|bar", "part of the time|percent", "waits for semaphores|ms", "instructions|count", NULL};
    struct tccrt_sim sim;

    if (tccrt_simulated(m->session, &sim) != TCC_OK)
        return;
    sim = sim_between(&(struct tccrt_sim){0}, &sim, runs);
    json_t *s = html_section(report, "engines", "Engines", "Modelled by the simulator, a run's share."),
           *rows = html_table(s, sim.core, NULL, columns);
    for (int e = 0; e < sim.nengines; e++)
        html_row(rows, 5, html_text(sim.engines[e].name), html_number(sim.engines[e].busy * 1e3),
                 html_number(sim.seconds > 0 ? 100 * sim.engines[e].busy / sim.seconds : NAN),
                 html_number(sim.engines[e].waiting * 1e3), html_number((double)sim.engines[e].instructions));
    const struct {
        const char *name;
        double busy;
    } others[] = {{"DMA", sim.dma_busy},
                  {"HBM", sim.hbm_busy},
                  {"copies to and from the host", sim.copy_seconds},
                  {"collectives, exposed", sim.exposed_seconds}};
    for (int k = 0; k < 4; k++)
        if (others[k].busy > 0)
            html_row(rows, 5, html_text(others[k].name), html_number(others[k].busy * 1e3),
                     html_number(sim.seconds > 0 ? 100 * others[k].busy / sim.seconds : NAN), json_null(), json_null());
    html_fact(report, "Modelled time of a run", html_textf("%.4g ms on %s", sim.seconds * 1e3, sim.core));
}

static void memory_section(json_t *report, const struct model *m)
{
    static const char *const columns[] = {"what", "bytes|bytes|bar", NULL};
    struct rusage usage;
    struct tccrt_memory memory;
    json_t *s = html_section(report, "memory", "Memory", NULL),
           *rows = html_table(s, "What this process has", NULL, columns);

    getrusage(RUSAGE_SELF, &usage);
    html_row(rows, 2, html_text("resident at most"), html_number(1024.0 * (double)usage.ru_maxrss));
    if (tccrt_memory(m->session, m->entry, &memory) != TCC_OK)
        return;
    const struct {
        const char *name;
        int64_t bytes;
    } list[] = {{"weights in the artifact", memory.weights},
                {"state: parameters and buffers", memory.params},
                {"state: the optimizer's", memory.optimizer},
                {"state: gradients", memory.gradients},
                {"state, all", memory.state},
                {"buffers of runs (arena)", memory.arena},
                {"predicted by the plan, state included", memory.predicted},
                {"on the device, now", memory.device},
                {"on the device, at most", memory.device_peak},
                {"on the device, weights", memory.device_weights}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].bytes > 0)
            html_row(rows, 2, html_text(list[i].name), html_number((double)list[i].bytes));
}

/* -- In short ------------------------------------------------------------------------------------------------------ */

static void answer_run(json_t *report, const struct model *m, const struct tccrt_profile_row *rows, int n,
                       const struct tccrt_profile_row *all, const struct html_runs *h)
{
    char a[HTML_AMOUNT], b[HTML_AMOUNT];
    double rate = all->ns > 0 ? all->flops / all->ns : 0, first = 0, steps = all->ns * 1e-6 / (double)h->runs;
    bool host = !strncmp(tccrt_device_used(m->session), "cpu", 3);
    const struct tccrt_profile_row *top = NULL;
    double runs = (double)h->runs;

    for (int i = 0, taken = 0; i < n; i++) {
        if (waits(&rows[i]))
            continue;
        top = top ? top : &rows[i];
        first += taken++ < 5 ? rows[i].ns : 0;
    }
    if (h->ms > 0)
        html_answer(
            report, "", "How fast is it?", html_textf("%s a run", html_amount(a, "ms", host ? h->ms : steps)),
            h->peak > 0 && rate > 0
                ? html_textf("%.1f GFLOP/s, %.0f %% of what %d thread%s can do (%.1f); mean of %.0f runs", rate,
                             100 * rate / h->peak, tccrt_threads(m->session), tccrt_threads(m->session) > 1 ? "s" : "",
                             h->peak, runs)
                : html_textf("%.1f GFLOP/s; mean of %.0f runs on '%s'", rate, runs, tccrt_device_used(m->session)));
    if (top && all->ns > 0)
        html_answer(
            report, "", "What is slow?",
            html_textf("%.100s: %.1f %%", top->node && *top->node ? top->node : top->kernel, 100 * top->ns / all->ns),
            html_textf("%s in %.80s; the five slowest of %d steps take %.0f %%",
                       html_amount(b, "ms", top->ns * 1e-6 / runs), top->kernel, n, 100 * first / all->ns));
    if (host && h->ms > 0 && steps > 0)
        html_answer(report, steps > 0.8 * h->ms ? "good" : "warn", "Is time lost between steps?",
                    html_textf("%.1f %%", 100 * fmax(0, 1 - steps / h->ms)),
                    html_textf("of a run no step is at work: binding sizes, copying results, measuring"));
}

int html_profile(json_t *report, const struct options *o, const struct model *m, const struct html_runs *h)
{
    const struct tccrt_profile_row *rows;
    struct tccrt_profile_row all = {.kernel = ""};
    struct sums *parts = calloc(MOST_GROUPS, sizeof *parts), *kinds = calloc(MOST_GROUPS, sizeof *kinds);
    int n = tccrt_profile(m->session, &rows), nparts = 0, nkinds = 0;

    if (n < 0 || !parts || !kinds || h->runs < 1) {
        free(parts);
        free(kinds);
        return tool_error(o, EXIT_ENVIRONMENT, "--html: no profile: %s", tccrt_error());
    }
    for (int i = 0; i < n; i++) {
        char name[120];
        if (waits(&rows[i]))
            continue;
        all.ns += rows[i].ns;
        all.flops += rows[i].flops;
        all.bytes += rows[i].bytes;
        part_of(rows[i].node ? rows[i].node : "", name);
        add_to(parts, &nparts, name, &rows[i]);
        kind_of(rows[i].kernel, name);
        add_to(kinds, &nkinds, name, &rows[i]);
    }
    answer_run(report, m, rows, n, &all, h);
    json_t *s = html_section(report, "time", "Time", NULL);
    kernel_table(s, rows, n, all.ns, h->peak, (double)h->runs);
    if (nparts > 1)
        sums_table(s, "By part of the network", "part", parts, nparts, all.ns, (double)h->runs);
    sums_table(s, "By kind of kernel", "kind", kinds, nkinds, all.ns, (double)h->runs);
    roofline(s, rows, n, h->peak);
    json_t *own = h->trace ? NULL : trace_of(m),
           *timeline = html_section(report, "timeline", "Timeline of the last run", NULL);
    html_trace(timeline, "Timeline", h->trace ? h->trace : own);
    json_decref(own);
    engines(report, m, (int)h->all);
    memory_section(report, m);
    free(parts);
    free(kinds);
    return EXIT_FINE;
}

int html_run(const struct options *o, const struct model *m, const struct html_runs *h)
{
    const char *path = o->words[0], *version = model_version(m);
    json_t *r = html_report("run", tool_base_name(path), "Profile of runs");
    int code = html_profile(r, o, m, h);

    html_fact(r, "Model", html_text(path));
    html_fact(r, "Entry point", html_text(m->entry));
    if (version)
        html_fact(r, "Version for", html_text(version));
    html_fact(r, "Device", html_text(tccrt_device_used(m->session)));
    html_fact(r, "Threads", html_textf("%d", tccrt_threads(m->session)));
    html_fact(r, "Runs measured", html_textf("%.0f", (double)h->runs));
    if (h->peak > 0)
        html_fact(r, "Peak", html_textf("%.1f GFLOP/s", h->peak));
    struct tccrt_memory memory = {0};
    char a[HTML_AMOUNT], b[3][HTML_AMOUNT];
    bool known = tccrt_memory(m->session, m->entry, &memory) == TCC_OK;
    const struct {
        const char *name;
        double bytes;
    } parts[] = {{"weights", (double)memory.weights},
                 {"state", (double)memory.state},
                 {"buffers of a run", (double)memory.arena}};
    size_t most = 0;
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        most = parts[i].bytes > parts[most].bytes ? i : most;
    double arena = (double)memory.arena;
    if (!html_compiled_part(r, m->facts, m->facts_size, arena) && known)
        html_answer(
            r, "", "What takes the memory?",
            html_textf("%s: %s", parts[most].name, html_amount(a, "bytes", parts[most].bytes)),
            html_textf(
                "weights %s, state %s, a run's buffers %s; the report of the model instead of the artifact says which",
                html_amount(b[0], "bytes", parts[0].bytes), html_amount(b[1], "bytes", parts[1].bytes),
                html_amount(b[2], "bytes", parts[2].bytes)));
    if (code == EXIT_FINE)
        code = html_write(o, option_text(o, OPT_html, ""), r);
    json_decref(r);
    return code;
}
