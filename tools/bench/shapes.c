/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-bench --shapes: one artifact over many sizes, in one session, as a server meets them: the first run at a size
 * binds it and gets memory ready, the later ones are what it costs. Several dims are combined, each size of one with
 * each of the others. And --html, of the sweep and of a plain benchmark.
 */
#include "ir/ir.h"
#include "base/safe.h"
#include "tools/bench/bench_int.h"
#include "tools/html/html_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = 4, MOST_SIZES = 64, MOST_ROWS = 1024, MOST_RUNS = 200, LEAST_RUNS = 5 };
#define SIZE_MS 300.0 /* for which a size is measured */

struct swept {
    char name[80];
    int n;
    int64_t sizes[MOST_SIZES];
};

struct sweep {
    const struct options *o;
    struct model *m;
    struct tccrt_session *counting; /* with a profile, for operations */
    int ndims, nrows;
    struct swept dims[MOST_DIMS];
    struct row {
        int64_t sizes[MOST_DIMS];
        double first, median, least, flops, arena;
        int runs;
        const char *version;
    } rows[MOST_ROWS];
};

/* -- What is asked for ------------------------------------------------------------------------------------ */

static bool has_dim(const struct model *m, const char *name)
{
    for (int i = 0; i < m->nin; i++)
        for (int k = 0; k < m->in[i].info.rank; k++)
            if (m->in[i].info.dims[k] < 0 && m->in[i].info.dim_names[k] && !strcmp(m->in[i].info.dim_names[k], name))
                return true;
    return false;
}

static int unknown_dim(const struct sweep *s, const char *text, const char *name)
{
    struct ir_known known = {.near.word = name};

    for (int i = 0; i < s->m->nin; i++)
        for (int k = 0; k < s->m->in[i].info.rank; k++)
            ir_known_add(&known, s->m->in[i].info.dims[k] < 0 ? s->m->in[i].info.dim_names[k] : NULL);
    return usage_error(s->o, "--shapes=%s: no input has a dim '%s' that is open%s", text, name, ir_known_text(&known));
}

/* "NAME=N,N..." */
static int read_dim(struct sweep *s, const char *text)
{
    const char *equals = strrchr(text, '=');
    struct swept *d = &s->dims[s->ndims];

    if (s->ndims == MOST_DIMS)
        return usage_error(s->o, "--shapes: at most %d dims", MOST_DIMS);
    if (!equals || equals == text || equals - text >= (ptrdiff_t)sizeof d->name)
        return usage_error(s->o, "--shapes=%s: expected NAME=N,N...", text);
    snprintf(d->name, sizeof d->name, "%.*s", (int)(equals - text), text);
    for (const char *at = equals + 1; *at;) {
        char *end;
        long long v = strtoll(at, &end, 10);

        if (end == at || v < 0 || v > INT32_MAX || (*end && *end != ',') || (*end == ',' && !end[1]))
            return usage_error(s->o, "--shapes=%s: '%.40s' is no size", text, at);
        if (d->n == MOST_SIZES)
            return usage_error(s->o, "--shapes=%s: at most %d sizes", text, MOST_SIZES);
        d->sizes[d->n++] = v;
        at = end + (*end == ',');
    }
    if (!d->n)
        return usage_error(s->o, "--shapes=%s: expected NAME=N,N...", text);
    if (!has_dim(s->m, d->name))
        return unknown_dim(s, text, d->name);
    s->ndims++;
    return EXIT_FINE;
}

/* -- Measuring ---------------------------------------------------------------------------------------------- */

/* A run of `session`; its time, or -1. */
static double timed_run(struct sweep *s, struct tccrt_session *session, struct tcc_object **in, struct tcc_object **out)
{
    struct tccrt_session *own = s->m->session;

    s->m->session = session;
    int status = model_restart(s->m);
    double start = now_ms();
    if (status == TCC_OK)
        status = tccrt_run_objects(session, s->m->entry, s->m->nin, in, s->m->nout, out);
    double ms = now_ms() - start;
    objects_free(out, s->m->nout);
    s->m->session = own;
    return status == TCC_OK ? ms : -1;
}

static double counted_flops(struct sweep *s, struct tcc_object **in, struct tcc_object **out)
{
    const struct tccrt_profile_row *rows;
    double flops = 0;

    if (tccrt_profile_reset(s->counting) != TCC_OK || timed_run(s, s->counting, in, out) < 0)
        return NAN;
    int n = tccrt_profile(s->counting, &rows);
    for (int i = 0; i < n; i++)
        flops += rows[i].flops;
    return flops;
}

static int measure(struct sweep *s, struct row *r, int64_t runs, struct tcc_object **in, struct tcc_object **out)
{
    double times[MOST_RUNS], start;
    struct tccrt_memory memory;
    int most = runs > 0 && runs < MOST_RUNS ? (int)runs : MOST_RUNS;

    if ((r->first = timed_run(s, s->m->session, in, out)) < 0)
        return tool_error(s->o, EXIT_DATA, "%s", tccrt_error());
    start = now_ms();
    while (r->runs < most && (runs > 0 || r->runs < LEAST_RUNS || now_ms() - start < SIZE_MS))
        if ((times[r->runs++] = timed_run(s, s->m->session, in, out)) < 0)
            return tool_error(s->o, EXIT_DATA, "%s", tccrt_error());
    r->median = sort_times(times, r->runs);
    r->least = times[0];
    r->arena = tccrt_memory(s->m->session, s->m->entry, &memory) == TCC_OK ? (double)memory.arena : NAN;
    r->version = model_version(s->m);
    r->flops = counted_flops(s, in, out);
    return EXIT_FINE;
}

/* The row's sizes are given as --dim would. */
static int run_row(struct sweep *s, struct row *r, int64_t runs)
{
    struct options with = *s->o;
    char texts[MOST_DIMS][120];
    const char *list[MOST_DIMS + 1] = {NULL};
    struct tcc_object **in = calloc((size_t)s->m->nin + 1, sizeof *in),
                      **out = calloc((size_t)s->m->nout + 1, sizeof *out);

    for (int d = 0; d < s->ndims; d++) {
        snprintf(texts[d], sizeof texts[d], "%s=%" PRId64, s->dims[d].name, r->sizes[d]);
        list[d] = texts[d];
    }
    with.given[OPT_dim].n = s->ndims;
    with.given[OPT_dim].at = list;
    with.given[OPT_dim].inherited = 0;
    int code = in && out ? inputs_read(&with, s->m, true, 0, in) : tool_error(s->o, EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_FINE)
        code = measure(s, r, runs, in, out);
    objects_drop(in, s->m->nin);
    free(out);
    return code;
}

/* -- What is said --------------------------------------------------------------------------------------------- */

static double rate(const struct row *r)
{
    return r->flops > 0 && r->median > 0 ? r->flops / (r->median * 1e6) : 0;
}

static void print_text(const struct sweep *s)
{
    printf("compile %10.1f ms\nload    %10.3f ms\n", s->m->compile_ms, s->m->load_ms);
    for (int d = 0; d < s->ndims; d++)
        printf("%8s ", ir_shown(s->dims[d].name));
    printf("%12s %12s %12s %12s %12s\n", "first ms", "median ms", "minimum ms", "GFLOP/s", "buffers MB");
    for (int i = 0; i < s->nrows; i++) {
        const struct row *r = &s->rows[i];
        for (int d = 0; d < s->ndims; d++)
            printf("%8" PRId64 " ", r->sizes[d]);
        printf("%12.4f %12.4f %12.4f %12.3f %12.3f%s%s\n", r->first, r->median, r->least, rate(r), r->arena / 1e6,
               r->version ? "  version for " : "", r->version ? ir_shown(r->version) : "");
    }
}

static void print_json(const struct sweep *s)
{
    printf("{\"compile_ms\":%.3f,\"load_ms\":%.3f,\"shapes\":[", s->m->compile_ms, s->m->load_ms);
    for (int i = 0; i < s->nrows; i++) {
        const struct row *r = &s->rows[i];
        fputs(i ? ",\n{\"dims\":{" : "\n{\"dims\":{", stdout);
        for (int d = 0; d < s->ndims; d++) {
            fputs(d ? "," : "", stdout);
            tcr_print_json(stdout, s->dims[d].name);
            printf(":%" PRId64, r->sizes[d]);
        }
        printf("},\"first_ms\":%.4f,\"p50_ms\":%.4f,\"min_ms\":%.4f,\"runs\":%d,\"gflops\":%.3f,\"arena_bytes\":%.0f,"
               "\"version\":",
               r->first, r->median, r->least, r->runs, rate(r), r->arena);
        if (r->version)
            tcr_print_json(stdout, r->version);
        fputs(r->version ? "}" : "null}", stdout);
    }
    puts("]}");
}

static json_t *curve(json_t *section, const char *title, const char *note, const char *x, const char *unit, bool log)
{
    return html_series(html_line(section, title, note, x, unit, log), title);
}

static int write_sweep(const struct sweep *s)
{
    json_t *r = html_report("bench", tool_base_name(s->o->words[0]), "Time over sizes"),
           *section = html_section(r, "sizes", "Sizes", NULL), *rows;
    const char *columns[MOST_DIMS + 8];
    char heads[MOST_DIMS][100], names[400] = "", a[HTML_AMOUNT], b[HTML_AMOUNT];
    const struct row *low = &s->rows[0], *high = low;

    for (int d = 0; d < s->ndims; d++) {
        snprintf(heads[d], sizeof heads[d], "%s", s->dims[d].name);
        for (char *c = heads[d]; (c = strchr(c, '|')); c++) /* which stands between a column's name and its unit */
            *c = '/';
        strcat(heads[d], "|count");
        columns[d] = heads[d];
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", d ? " x " : "", s->dims[d].name);
    }
    static const char *const rest[] = {
        "first|ms",   "median|ms|bar", "minimum|ms", "GFLOP/s|rate", "run's buffers|bytes",
        "runs|count", "version for",   NULL};
    memcpy(columns + s->ndims, rest, sizeof rest);
    json_t *times = curve(section, "Median time", "logarithmic", names, "ms", true),
           *rates = curve(section, "GFLOP/s", NULL, names, "rate", false);
    rows = html_table(section, "Sizes", "the first run at a size binds it and gets its memory ready", columns);
    for (int i = 0; i < s->nrows; i++) {
        const struct row *x = &s->rows[i];
        json_t *row = json_array();
        double size = 1;
        for (int d = 0; d < s->ndims; d++) {
            size *= (double)x->sizes[d];
            json_array_append_new(row, html_number((double)x->sizes[d]));
        }
        html_point(times, 2, size, x->median);
        html_point(rates, 2, size, rate(x));
        const double cells[] = {x->first, x->median, x->least, x->flops > 0 ? rate(x) : NAN, x->arena, x->runs};
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            json_array_append_new(row, html_number(cells[c]));
        json_array_append_new(row, html_text(x->version));
        json_array_append_new(rows, row);
        low = x->median < low->median ? x : low;
        high = x->median > high->median ? x : high;
    }
    html_answer(r, "", "How long does it take?",
                html_textf("%s to %s", html_amount(a, "ms", low->median), html_amount(b, "ms", high->median)),
                html_textf("medians of %d sizes of %s", s->nrows, names));
    const struct row *slow = &s->rows[0];
    for (int i = 1; i < s->nrows; i++)
        slow = s->rows[i].first / s->rows[i].median > slow->first / slow->median ? &s->rows[i] : slow;
    html_answer(r, slow->first < 3 * slow->median ? "good" : "warn", "What does a new size cost?",
                html_textf("at most %.1f times a run", slow->first / slow->median),
                html_textf("the first run of %s %" PRId64 " took %s", s->dims[0].name, slow->sizes[0],
                           html_amount(a, "ms", slow->first)));
    html_fact(r, "Model", html_text(s->o->words[0]));
    html_fact(r, "Device", html_text(tccrt_device_used(s->m->session)));
    html_fact(r, "Threads", html_textf("%d", tccrt_threads(s->m->session)));
    int code = html_write(s->o, option_text(s->o, OPT_html, ""), r);
    json_decref(r);
    return code;
}

int bench_html(const struct options *o, const struct model *m, const struct bench_figures *f)
{
    static const char *const columns[] = {"what", "time|ms|bar", NULL};
    json_t *r = html_report("bench", tool_base_name(o->words[0]), "Benchmark"),
           *section = html_section(r, "runs", "Runs", NULL);
    json_t *points = curve(section, "Time of runs, sorted", "how many percent of the runs take at most so long",
                           "percent of the runs", "ms", false);
    const struct {
        const char *name;
        double ms;
    } list[] = {{"compilation", m->compile_ms},
                {"opening", m->load_ms},
                {"first run", f->first},
                {"median", f->median},
                {"minimum", f->times[0]},
                {"90 % of runs are faster", f->times[f->n * 9 / 10]},
                {"99 % of runs are faster", f->times[f->n * 99 / 100]}};
    char a[HTML_AMOUNT];

    for (int i = 0; i < f->n; i++)
        html_point(points, 2, f->n > 1 ? 100.0 * i / (f->n - 1) : 100, f->times[i]);
    json_t *rows = html_table(section, "Times", NULL, columns);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        html_row(rows, 2, html_text(list[i].name), html_number(list[i].ms));
    html_answer(r, "", "How fast is it?", html_text(html_amount(a, "ms", f->median)),
                html_textf("median of %d runs%s", f->n, f->gflops > 0 ? "" : "; operations are not known"));
    double spread = f->median > 0 ? f->times[f->n * 9 / 10] / f->median : 1;
    html_answer(
        r, spread < 1.2 ? "good" : "warn", "Is it steady?",
        html_textf("nine of ten runs take at most %.2f times the median", spread),
        html_text(spread < 1.2 ? "what else the machine does hardly shows" : "something else may run on this machine"));
    html_fact(r, "GFLOP/s", html_textf("%.1f", f->gflops));
    html_fact(r, "Device", html_text(tccrt_device_used(m->session)));
    html_fact(r, "Threads", html_textf("%d", tccrt_threads(m->session)));
    html_compiled_part(r, m->facts, m->facts_size, 0);
    int code = html_write(o, option_text(o, OPT_html, ""), r);
    json_decref(r);
    return code;
}

/* -- All of it ---------------------------------------------------------------------------------------------------- */

static int run_rows(struct sweep *s, int64_t runs)
{
    int at[MOST_DIMS] = {0}, code = EXIT_FINE;

    for (bool more = true; more && code == EXIT_FINE;) {
        if (s->nrows == MOST_ROWS)
            return usage_error(s->o, "--shapes: more than %d combinations", MOST_ROWS);
        struct row *r = &s->rows[s->nrows++];
        for (int d = 0; d < s->ndims; d++)
            r->sizes[d] = s->dims[d].sizes[at[d]];
        code = run_row(s, r, runs);
        int d = s->ndims - 1;
        while (d >= 0 && ++at[d] == s->dims[d].n)
            at[d--] = 0;
        more = d >= 0;
    }
    return code;
}

int bench_shapes(const struct options *o, struct model *m, int threads, int64_t runs)
{
    struct sweep *s = calloc(1, sizeof *s);
    struct tccrt_options counting = {.threads = threads,
                                     .profile = true,
                                     .device = option_text(o, OPT_device, NULL),
                                     .sim = option_text(o, OPT_nc_sim, NULL),
                                     .rounding = option_text(o, OPT_nc_rounding, NULL)};
    int code = s ? EXIT_FINE : tool_error(o, EXIT_ENVIRONMENT, "no memory");

    for (int i = 0; code == EXIT_FINE && i < o->given[OPT_sweep].n; i++) {
        s->o = o;
        s->m = m;
        code = read_dim(s, o->given[OPT_sweep].at[i]);
    }
    if (code == EXIT_FINE)
        code = model_session(o, m, threads, NULL);
    if (code == EXIT_FINE && tccrt_session_new(m->artifact, &counting, &s->counting) != TCC_OK)
        code = tool_error(o, EXIT_ENVIRONMENT, "%s", tccrt_error());
    if (code == EXIT_FINE)
        code = run_rows(s, runs);
    if (code == EXIT_FINE) {
        if (option_set(o, OPT_json))
            print_json(s);
        else
            print_text(s);
        fflush(stdout);
        code = option_set(o, OPT_html) ? write_sweep(s) : EXIT_FINE;
    }
    if (s)
        tccrt_session_free(s->counting);
    free(s);
    return code;
}
