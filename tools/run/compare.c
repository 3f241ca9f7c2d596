/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-run --compare: layer by layer, each value that a run makes beside the one of the same name that the reference
 * interpreter makes, or that another framework wrote to an .npz file: where differences begin and how they grow from
 * there.
 *
 * The others' values are taken first and kept by the value's name or, where it has none, its node's; names that come
 * more than once, as a loop's, are left out. Then the run is observed step by step, and each value that has a
 * counterpart, by its name or its node's, of its type and shape gives a row.
 */
#include "base/grow.h"
#include "tools/train/ckpt_tool_int.h"
#include "tools/html/html_int.h"
#include "tools/run/run_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct other {
    char *name;
    struct tcc_tensor t;
    bool repeated;
};

/* One value of the run. */
struct row {
    unsigned step;
    char what[64], name[200];
    double largest,
        relative; /* difference of an element; norm of the difference to the other's norm (infinite: to nothing) */
    bool within;  /* the tolerance */
};

struct comparison {
    const struct options *o;
    struct tolerance tolerance;
    struct tensors file; /* of .npz */
    struct other *others;
    int nothers, capothers;
    struct row *rows;
    int nrows, caprows, alone;
    bool no_memory;
};

/* Room for one more in a growing list; false: no memory. */
static bool grow(struct comparison *c, void **list, int n, int *cap, size_t size)
{
    if (n < *cap || tcc_grow(list, size, cap, sizeof *cap, 64))
        return true;
    c->no_memory = true;
    return false;
}

/* -- The others' values -------------------------------------------------------------------------------------------- */

static void keep(void *user, const char *node, const char *value, const struct tcc_tensor *t)
{
    struct comparison *c = user;
    const char *name = *value ? value : node;
    size_t bytes = (size_t)tcc_elements(t->rank, t->dims) * (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    if (!*name || t->dtype == TCC_STRING || !grow(c, (void **)&c->others, c->nothers, &c->capothers, sizeof *c->others))
        return;
    struct other *x = &c->others[c->nothers];
    *x = (struct other){strdup(name), *t, false};
    x->t.data = malloc(bytes + 1);
    c->nothers++;
    c->no_memory = c->no_memory || !x->name || !x->t.data;
    if (x->t.data)
        memcpy(x->t.data, t->data, bytes);
}

static int by_name(const void *a, const void *b)
{
    const struct other *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void sort_others(struct comparison *c)
{
    if (c->nothers)
        qsort(c->others, (size_t)c->nothers, sizeof *c->others, by_name);
    for (int i = 1; i < c->nothers; i++)
        if (!strcmp(c->others[i].name, c->others[i - 1].name))
            c->others[i].repeated = c->others[i - 1].repeated = true;
}

static const struct other *find(const struct comparison *c, const char *name)
{
    struct other wanted = {.name = (char *)(uintptr_t)name};
    const struct other *x = c->nothers ? bsearch(&wanted, c->others, (size_t)c->nothers, sizeof wanted, by_name) : NULL;
    return x && !x->repeated ? x : NULL;
}

/* The interpreter's, of the model as it was read. */
static int interpret(struct comparison *c, const char *path)
{
    struct model m = {0};
    char error[ERROR_SIZE];
    if (model_is_artifact(path))
        return usage_error(c->o, "--compare=interp requires a model, not an artifact");
    int code = model_open_interpreted(c->o, path, &m);
    if (code == EXIT_FINE && !m.state && !(m.state = ir_interp_state_new(m.module)))
        code = tool_error(c->o, EXIT_ENVIRONMENT, "no memory");
    struct tcc_object **in = calloc((size_t)m.nin + 1, sizeof *in), **out = calloc((size_t)m.nout + 1, sizeof *out);
    if (code == EXIT_FINE)
        code = in && out ? inputs_read(c->o, &m, false, 0, in) : tool_error(c->o, EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_FINE) {
        ir_interp_watch(m.state, keep, c);
        int status = inputs_run(c->o, &m, 0, in, out, error);
        if (status != TCC_OK)
            code = tool_error(c->o, model_exit_code(status), "%s: the interpreter: %s", path, error);
    }
    objects_drop(in, m.nin);
    objects_drop(out, m.nout);
    model_close(&m);
    return code;
}

static int read_file(struct comparison *c, const char *path)
{
    char error[ERROR_SIZE];
    if (!npz_open(path, &c->file, error))
        return tool_error(c->o, EXIT_DATA, "--compare: %s", error);
    for (int i = 0; i < c->file.n; i++)
        keep(c, "", c->file.at[i].name, &c->file.at[i].t);
    return EXIT_FINE;
}

/* -- The run ------------------------------------------------------------------------------------------------------- */

static bool same_type(const struct tcc_tensor *a, const struct tcc_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

static void measure(const struct tcc_tensor *got, const struct tcc_tensor *wanted, struct row *r)
{
    int64_t n = tcc_elements(got->rank, got->dims), size = tcc_dtype_bytes((enum tcc_dtype)got->dtype);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = tcc_load_f64((enum tcc_dtype)got->dtype, (const char *)got->data + i * size),
               y = tcc_load_f64((enum tcc_dtype)wanted->dtype, (const char *)wanted->data + i * size);
        double d = x == y || (isnan(x) && isnan(y)) ? 0 : fabs(x - y);
        r->largest = isnan(d) || d > r->largest ? d : r->largest;
        difference += d * d;
        norm += isfinite(y) ? y * y : 0;
    }
    r->relative = difference == 0 ? 0 : sqrt(difference / norm);
}

static int observe(void *user, const struct tccrt_made *m)
{
    struct comparison *c = user;
    const struct other *named = find(c, m->value), *x = named ? named : find(c, m->node);
    enum tcc_class class = tcc_dtype_class((enum tcc_dtype)m->tensor.dtype);
    char why[ERROR_SIZE];
    if (!x || !m->dense || !same_type(&m->tensor, &x->t) || class == TCC_CLASS_COMPLEX ||
        m->tensor.dtype == TCC_STRING) {
        c->alone++;
        return 0;
    }
    if (!grow(c, (void **)&c->rows, c->nrows, &c->caprows, sizeof *c->rows))
        return 1;
    struct row *r = &c->rows[c->nrows++];
    *r = (struct row){.step = m->step};
    snprintf(r->what, sizeof r->what, "%s", m->what);
    snprintf(r->name, sizeof r->name, "%s", ir_shown(*m->node ? m->node : m->value));
    measure(&m->tensor, &x->t, r);
    r->within = tensor_equal(&m->tensor, &x->t, &c->tolerance, NULL, why);
    return 0;
}

static int run_observed(struct comparison *c, const char *path)
{
    struct options plain = *c->o;
    const struct options *o = &plain;
    struct model m;
    char error[ERROR_SIZE];
    int64_t threads = 0;
    against_plain_code(&plain, path);
    int code = option_int(o, OPT_threads, 1, 4096, &threads) ? model_open(o, path, &m, NULL) : EXIT_USAGE;
    if (code != EXIT_FINE)
        return code;
    struct tcc_object **in = calloc((size_t)m.nin + 1, sizeof *in), **out = calloc((size_t)m.nout + 1, sizeof *out);
    code = in && out ? model_session(o, &m, (int)threads, NULL) : tool_error(o, EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_FINE && tccrt_observe(m.session, observe, c) != TCC_OK)
        code = tool_error(o, EXIT_BUG, "%s", tccrt_error());
    if (code == EXIT_FINE)
        code = inputs_read(o, &m, false, 0, in);
    int status = code == EXIT_FINE ? inputs_run(o, &m, 0, in, out, error) : TCC_OK;
    if (status != TCC_OK && !c->no_memory)
        code = tool_error(o, model_exit_code(status), "%s: %s", path, error);
    objects_drop(in, m.nin);
    objects_drop(out, m.nout);
    model_close(&m);
    return code;
}

/* -- What it says -------------------------------------------------------------------------------------------------- */

/* What matters of all rows; -1: none. */
struct verdict {
    int begins, outside, worst,
        /* the first that differs at all, and out of the tolerance; the one that is off by the largest share; how many
         * are outside */
        noutside;
};

static struct verdict judge(const struct comparison *c)
{
    struct verdict v = {-1, -1, -1, 0};
    for (int i = 0; i < c->nrows; i++) {
        const struct row *r = &c->rows[i];
        bool differs = r->relative != 0;
        v.begins = v.begins < 0 && differs ? i : v.begins;
        v.outside = v.outside < 0 && !r->within ? i : v.outside;
        v.worst = differs && (v.worst < 0 || !(r->relative <= c->rows[v.worst].relative)) ? i : v.worst;
        v.noutside += !r->within;
    }
    return v;
}

static void print_rows(const struct comparison *c)
{
    printf("%6s  %-24s %-40s %12s %12s\n", "step", "kernel", "node", "largest", "of its norm");
    for (int i = 0; i < c->nrows; i++) {
        const struct row *r = &c->rows[i];
        printf("%6u  %-24.24s %-40.40s %12.3g %12.3g%s\n", r->step, r->what, r->name, r->largest, r->relative,
               r->within ? "" : "  outside");
    }
}

static void print_verdict(const struct comparison *c, const struct verdict *v)
{
    printf("%d values compared", c->nrows);
    if (c->alone)
        printf(", %d have no counterpart", c->alone);
    printf(v->noutside ? "; %d outside the tolerance\n" : "; all within the tolerance\n", v->noutside);
    if (v->begins >= 0)
        printf("differences begin at step %u (%s), by %.3g of the norm; the largest is %.3g at step %u (%s)\n",
               c->rows[v->begins].step, c->rows[v->begins].name, c->rows[v->begins].relative,
               c->rows[v->worst].relative, c->rows[v->worst].step, c->rows[v->worst].name);
    else
        printf("no value differs by a bit\n");
}

static json_t *place(const struct row *r)
{
    return html_textf("%s (step %u, %s)", r->name, r->step, r->what);
}

static int write_html(const struct comparison *c, const struct verdict *v, const char *path)
{
    static const char *const columns[] = {
        "step|number", "kernel", "node", "largest difference|number", "of its norm|number|bar", "within", NULL};
    const char *with = option_text(c->o, OPT_compare, "");
    json_t *report = html_report("compare", path, with), *section, *line, *points, *rows;
    html_answer(report, v->noutside ? "bad" : "good", "Do the layers agree?",
                v->noutside ? html_textf("%d of %d do not", v->noutside, c->nrows) : html_textf("all %d do", c->nrows),
                html_textf("within rtol %g, atol %g; %d values have no counterpart", c->tolerance.rtol,
                           c->tolerance.atol, c->alone));
    if (v->begins >= 0)
        html_answer(report, "", "Where do differences begin?", place(&c->rows[v->begins]),
                    html_textf("by %.3g of the norm", c->rows[v->begins].relative));
    if (v->worst >= 0)
        html_answer(report, v->noutside ? "warn" : "", "Where is the largest?", place(&c->rows[v->worst]),
                    html_textf("%.3g of the norm", c->rows[v->worst].relative));
    section = html_section(report, "layers", "Layer by layer", "Differences in the order in which the steps run.");
    line = html_line(section, "Difference by layer", NULL, "value", "number", true);
    points = html_series(line, with);
    for (int i = 0; i < c->nrows; i++)
        if (c->rows[i].relative > 0 && isfinite(c->rows[i].relative))
            html_point(points, 2, (double)i, c->rows[i].relative);
    rows = html_table(section, "Values", NULL, columns);
    for (int i = 0; i < c->nrows; i++) {
        const struct row *r = &c->rows[i];
        html_row(rows, 6, html_number(r->step), html_text(r->what), html_text(r->name), html_number(r->largest),
                 html_number(r->relative), html_text(r->within ? "yes" : "no"));
    }
    int code = html_write(c->o, option_text(c->o, OPT_html, ""), report);
    json_decref(report);
    return code;
}

static int tell(const struct comparison *c, const char *path)
{
    struct verdict v = judge(c);
    int code = EXIT_FINE;
    if (!c->nrows)
        return tool_error(c->o, EXIT_DATA, "nothing was compared: the two make no value of one name, type and shape");
    print_rows(c);
    print_verdict(c, &v);
    if (option_set(c->o, OPT_html))
        code = write_html(c, &v, path);
    if (code == EXIT_FINE && v.noutside)
        return tool_error(c->o, EXIT_DATA, "the first value outside the tolerance: step %u, %s (node '%s')",
                          c->rows[v.outside].step, c->rows[v.outside].what, c->rows[v.outside].name);
    return code;
}

int compare_run(const struct options *o, const char *path)
{
    struct comparison c = {.o = o};
    const char *with = option_text(o, OPT_compare, "");
    if (option_set(o, OPT_interpret) || option_set(o, OPT_check) || option_set(o, OPT_test_data) ||
        option_set(o, OPT_data) || option_set(o, OPT_against))
        return usage_error(o, "--compare excludes --interpret, --check, --test-data, --data and --against");
    int code = html_check(o);
    if (code == EXIT_FINE)
        code = tolerance_read(o, &c.tolerance);
    if (code == EXIT_FINE)
        code = !strcmp(with, "interp") ? interpret(&c, path) : read_file(&c, with);
    if (code == EXIT_FINE && !c.no_memory) {
        sort_others(&c);
        code = run_observed(&c, path);
    }
    if (code == EXIT_FINE)
        code = c.no_memory ? tool_error(o, EXIT_ENVIRONMENT, "no memory") : tell(&c, path);
    for (int i = 0; i < c.nothers; i++) {
        free(c.others[i].name);
        free(c.others[i].t.data);
    }
    free(c.others);
    free(c.rows);
    tensors_close(&c.file);
    return code;
}
