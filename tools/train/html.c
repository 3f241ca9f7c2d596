/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-train --html: the curves of a training run as a page, written anew every few seconds by rank 0 and whole at the
 * end, then with the profile, the memory of all ranks and the last step's timeline, a row a rank, stage and queue. What
 * is kept of a run does not grow with it: when the list of points is full, neighbours become one, with their least and
 * greatest loss.
 */
#include "tools/html/html_int.h"
#include "tools/bench/peak_int.h"
#include "tools/train/train_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 2048, MOST_EPOCHS = 2000, MOST_TRACE = 4 << 20 };
#define FIRST_MS 1000 /* until the first page, */
#define EVERY_MS 5000 /* and from one to the next */

/* Steps in a row; sums and extremes over them. */
struct point {
    int64_t step, n, nnorm; /* the last step */
    double loss, least, most, lr, norm, ms, slowest, waited, rows;
    int64_t memory, device; /* bytes of the process beyond what it began with, and of the device's, at its last step */
};
struct eval_point {
    int64_t step;
    double loss, accuracy;
};
struct epoch_row {
    int64_t epoch, step;
    double loss, lr, rate, seconds, eval, accuracy;
};

struct train_html {
    const char *path;
    struct point points[MOST_POINTS];
    struct eval_point evals[MOST_POINTS];
    struct epoch_row epochs[MOST_EPOCHS];
    int npoints, nevals, nepochs;
    int64_t each;           /* steps that a point has */
    int64_t bad_step;       /* the first whose loss was not finite; 0: none */
    double written, peak;   /* ms of the clock; GFLOP/s, 0: not measured yet */
    json_t *ranks, *traces; /* memory of all ranks, their traces; at the end */
};

int train_html_new(struct trainer *t)
{
    if (!option_set(t->o, OPT_html))
        return EXIT_FINE;
    if (!(t->html = calloc(1, sizeof *t->html)))
        return tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    t->html->path = option_text(t->o, OPT_html, "");
    t->html->each = 1;
    return t->chief ? html_check(t->o) : EXIT_FINE;
}

void train_html_free(struct trainer *t)
{
    if (t->html) {
        json_decref(t->html->ranks);
        json_decref(t->html->traces);
    }
    free(t->html);
}

/* -- What is kept ------------------------------------------------------------------------------------------ */

static void merge(struct point *a, const struct point *b)
{
    a->step = b->step;
    a->n += b->n;
    a->nnorm += b->nnorm;
    a->loss += b->loss;
    a->least = fmin(a->least, b->least);
    a->most = fmax(a->most, b->most);
    a->lr = b->lr;
    a->norm += b->norm;
    a->ms += b->ms;
    a->slowest = fmax(a->slowest, b->slowest);
    a->waited += b->waited;
    a->rows += b->rows;
    a->memory = b->memory;
    a->device = b->device;
}

void train_html_step(struct trainer *t, const struct step_result *r)
{
    struct train_html *h = t->html;

    if (!h || !t->chief)
        return;
    if (!isfinite(r->loss)) {
        h->bad_step = h->bad_step ? h->bad_step : t->done;
        return;
    }
    struct point p = {t->done,
                      1,
                      r->has_norm && isfinite(r->norm),
                      r->loss,
                      r->loss,
                      r->loss,
                      r->lr,
                      r->has_norm && isfinite(r->norm) ? r->norm : 0,
                      r->ms,
                      r->ms,
                      r->data_ms,
                      (double)r->rows,
                      t->memory.now,
                      t->memory.device_now};
    struct point *last = h->npoints ? &h->points[h->npoints - 1] : NULL;
    if (last && last->n < h->each) {
        merge(last, &p);
        return;
    }
    if (h->npoints == MOST_POINTS) {
        for (int i = 0; i < MOST_POINTS / 2; i++) {
            h->points[i] = h->points[2 * i];
            merge(&h->points[i], &h->points[2 * i + 1]);
        }
        h->npoints /= 2;
        h->each *= 2;
    }
    h->points[h->npoints++] = p;
}

void train_html_eval(struct trainer *t, const struct eval_result *r)
{
    struct train_html *h = t->html;

    if (!h || !t->chief)
        return;
    if (h->nevals == MOST_POINTS) { /* every second one stays */
        for (int i = 0; i < MOST_POINTS / 2; i++)
            h->evals[i] = h->evals[2 * i + 1];
        h->nevals /= 2;
    }
    h->evals[h->nevals++] = (struct eval_point){t->done, r->loss, r->has_accuracy ? r->accuracy : NAN};
    if (h->nepochs && h->epochs[h->nepochs - 1].step == t->done) {
        h->epochs[h->nepochs - 1].eval = r->loss;
        h->epochs[h->nepochs - 1].accuracy = r->has_accuracy ? r->accuracy : NAN;
    }
}

void train_html_epoch(struct trainer *t, double rate, double seconds)
{
    struct train_html *h = t->html;

    if (!h || !t->chief || !t->epoch_rows || h->nepochs == MOST_EPOCHS)
        return;
    h->epochs[h->nepochs++] = (struct epoch_row){
        t->epoch + 1, t->done, t->epoch_loss / (double)t->epoch_rows, t->last_lr, rate, seconds, NAN, NAN};
}

/* -- Curves ------------------------------------------------------------------------------------------------ */

/* Loss over a part of the points, in steps: the mean. */
static double mean_loss(const struct train_html *h, double from, double to)
{
    double sum = 0, n = 0;
    int first = (int)(from * h->npoints), last = (int)ceil(to * h->npoints);

    for (int i = first; i < last && i < h->npoints; i++) {
        sum += h->points[i].loss;
        n += (double)h->points[i].n;
    }
    return n > 0 ? sum / n : NAN;
}

static void curves(json_t *report, const struct trainer *t)
{
    const struct train_html *h = t->html;
    json_t *s = html_section(report, "curves", "Curves", NULL);
    bool log = h->npoints > 0, ranged = h->each > 1;
    double first = mean_loss(h, 0, 0.1), last = mean_loss(h, 0.9, 1);

    for (int i = 0; i < h->npoints; i++)
        log &= h->points[i].least > 0;
    log &= first > 10 * last;
    json_t *item = html_line(s, "Loss", log ? "logarithmic, since it falls so far" : NULL, "step", "", log),
           *mean = html_series(item, "loss"), *least = ranged ? html_series(item, "least") : NULL,
           *most = ranged ? html_series(item, "greatest") : NULL;
    for (int i = 0; i < h->npoints; i++) {
        const struct point *p = &h->points[i];
        html_point(mean, 2, (double)p->step, p->loss / (double)p->n);
        if (ranged) {
            html_point(least, 2, (double)p->step, p->least);
            html_point(most, 2, (double)p->step, p->most);
        }
    }
    if (h->nevals) {
        json_t *evals = html_series(item, "evaluation");
        bool accuracy = false;
        for (int i = 0; i < h->nevals; i++) {
            html_point(evals, 2, (double)h->evals[i].step, h->evals[i].loss);
            accuracy |= isfinite(h->evals[i].accuracy);
        }
        if (accuracy) {
            json_t *points = html_series(html_line(s, "Accuracy", NULL, "step", "percent", false), "accuracy");
            for (int i = 0; i < h->nevals; i++)
                html_point(points, 2, (double)h->evals[i].step, 100 * h->evals[i].accuracy);
        }
    }
    if (t->has_lr) {
        json_t *points = html_series(html_line(s, "Learning rate", NULL, "step", "number", false), "rate");
        for (int i = 0; i < h->npoints; i++)
            html_point(points, 2, (double)h->points[i].step, h->points[i].lr);
    }
    if (t->has_norm) {
        json_t *points =
            html_series(html_line(s, "Norm of the gradients", "before clipping", "step", "number", false), "norm");
        for (int i = 0; i < h->npoints; i++)
            if (h->points[i].nnorm)
                html_point(points, 2, (double)h->points[i].step, h->points[i].norm / (double)h->points[i].nnorm);
    }
}

static void speed(json_t *report, const struct trainer *t)
{
    static const char *const columns[] = {"epoch|count",
                                          "last step|count",
                                          "loss|number",
                                          "evaluation loss|number",
                                          "accuracy|percent",
                                          "learning rate|number",
                                          "samples/s|rate",
                                          "time|ms|bar",
                                          NULL};
    const struct train_html *h = t->html;
    json_t *s = html_section(report, "speed", "Steps and epochs", NULL),
           *item = html_line(s, "Time of a step", "the first steps also get memory ready", "step", "ms", false),
           *ms = html_series(item, "step"), *waited = html_series(item, "waiting for data"),
           *slowest = h->each > 1 ? html_series(item, "slowest step") : NULL;

    for (int i = 0; i < h->npoints; i++) {
        const struct point *p = &h->points[i];
        html_point(ms, 2, (double)p->step, p->ms / (double)p->n);
        html_point(waited, 2, (double)p->step, p->waited / (double)p->n);
        if (slowest)
            html_point(slowest, 2, (double)p->step, p->slowest);
    }
    json_t *rows = html_table(s, "Epochs", NULL, columns);
    for (int i = 0; i < h->nepochs; i++) {
        const struct epoch_row *e = &h->epochs[i];
        html_row(rows, 8, html_number((double)e->epoch), html_number((double)e->step), html_number(e->loss),
                 html_number(e->eval), html_number(100 * e->accuracy), html_number(e->lr), html_number(e->rate),
                 html_number(1e3 * e->seconds));
    }
}

/* What this process holds from step to step, and what of it the device does. */
static void memory_curve(json_t *section, const struct trainer *t)
{
    const struct train_html *h = t->html;
    json_t *item = html_line(section, "Memory over time",
                             "of this process, beyond what it had before its session; looked at between steps", "step",
                             "bytes", false),
           *process = html_series(item, "process"), *device = t->memory.device ? html_series(item, "device") : NULL;

    for (int i = 0; i < h->npoints; i++) {
        html_point(process, 2, (double)h->points[i].step, (double)h->points[i].memory);
        if (device)
            html_point(device, 2, (double)h->points[i].step, (double)h->points[i].device);
    }
}

/* -- In short ----------------------------------------------------------------------------------------------------- */

static void answer_learning(json_t *report, const struct train_html *h)
{
    double first = mean_loss(h, 0, 0.1), middle = mean_loss(h, 0.6, 0.8), last = mean_loss(h, 0.8, 1), best = INFINITY;
    int64_t best_step = 0;

    if (h->bad_step) {
        html_answer(report, "bad", "Is it learning?",
                    html_textf("no: the loss was not finite at step %" PRId64, h->bad_step),
                    html_text("a smaller learning rate, --clip-norm or another --precision may help"));
        return;
    }
    if (h->npoints < 5) {
        html_answer(report, "", "Is it learning?", html_text("too early to say"),
                    html_textf("%d steps so far", h->npoints));
        return;
    }
    double fall = first - last, scale = fmax(fabs(first), 1e-12), late = (middle - last) / scale;
    bool learns = fall > 0.02 * scale;
    html_answer(report,
                learns                 ? "good"
                : fall < -0.02 * scale ? "bad"
                                       : "warn",
                "Is it learning?",
                html_textf("%s: loss %.4g to %.4g",
                           learns                 ? "yes"
                           : fall < -0.02 * scale ? "no, it grows"
                                                  : "hardly",
                           first, last),
                html_textf("means of the first tenth and the last fifth of the steps; of late it is %s",
                           late > 0.01    ? "still falling"
                           : late < -0.01 ? "rising"
                                          : "flat"));
    for (int i = 0; i < h->nevals; i++)
        if (h->evals[i].loss < best) {
            best = h->evals[i].loss;
            best_step = h->evals[i].step;
        }
    if (h->nevals < 2 || !isfinite(best))
        return;
    double now = h->evals[h->nevals - 1].loss;
    bool worse = now > best + 0.02 * fmax(fabs(best), 1e-12);
    html_answer(report, worse ? "warn" : "good", "Does it hold on other data?",
                html_textf("%s: evaluation loss %.4g", worse ? "less than before" : "yes", now),
                html_textf("the best was %.4g at step %" PRId64 "%s", best, best_step,
                           worse ? ": it may be learning the samples by heart" : ""));
}

static void answer_speed(json_t *report, const struct trainer *t)
{
    const struct train_html *h = t->html;
    double ms = 0, waited = 0, n = 0, rows = 0;
    char a[HTML_AMOUNT], b[HTML_AMOUNT];

    for (int i = h->npoints > 10 ? 1 : 0; i < h->npoints; i++) { /* the first step gets memory ready */
        ms += h->points[i].ms;
        waited += h->points[i].waited;
        n += (double)h->points[i].n;
        rows += h->points[i].rows;
    }
    if (!(n > 0 && ms + waited > 0))
        return;
    double rate = rows * t->ranks / (ms + waited) * 1e3;
    html_answer(report, "", "How fast is it?", html_textf("%s a step", html_amount(a, "ms", (ms + waited) / n)),
                html_textf("%s samples/s, in all processes", html_amount(b, rate < 1e3 ? "rate" : "count", rate)));
    double part = waited / (ms + waited);
    html_answer(report,
                part < 0.05  ? "good"
                : part < 0.3 ? "warn"
                             : "bad",
                "Does it wait for data?", html_textf("%.1f %% of the time", 100 * part),
                html_textf("%s a step%s", html_amount(b, "ms", waited / n),
                           part < 0.05 ? "" : "; --workers=N reads with more threads"));
}

static void memory_of_ranks(json_t *report, const struct trainer *t)
{
    static const char *const columns[] = {"rank|count",
                                          "parameters|bytes",
                                          "optimizer|bytes",
                                          "gradients|bytes",
                                          "a run's buffers|bytes",
                                          "peak, measured|bytes|bar",
                                          "peak, predicted|bytes",
                                          "on the device|bytes",
                                          NULL};
    const struct trainer_memory *m = &t->memory;
    json_t *s = html_section(report, "ranks", "Memory by rank", NULL);
    memory_curve(s, t);
    json_t *rows = html_table(s, "Memory by rank", NULL, columns);
    const struct {
        const char *name;
        int64_t bytes;
    } list[] = {{"parameters", m->params},
                {"the optimizer's state", m->optimizer},
                {"gradients", m->gradients},
                {"buffers of a step", m->arena}};
    size_t most = 0;
    char a[HTML_AMOUNT], b[HTML_AMOUNT];

    for (size_t i = 1; i < sizeof list / sizeof *list; i++)
        most = list[i].bytes > list[most].bytes ? i : most;
    html_answer(report, "", "What takes the memory?",
                html_textf("%s: %s", list[most].name, html_amount(a, "bytes", (double)list[most].bytes)),
                html_textf("%s of state and buffers; peak of the process %s",
                           html_amount(b, "bytes", (double)(m->state + m->arena)),
                           html_amount(a, "bytes", (double)m->peak)));
    if (t->html->ranks) {
        json_array_extend(rows, t->html->ranks);
        return;
    }
    html_row(rows, 8, html_number(0), html_number((double)m->params), html_number((double)m->optimizer),
             html_number((double)m->gradients), html_number((double)m->arena), html_number((double)m->peak),
             html_number(m->predicted >= 0 ? (double)m->predicted : NAN),
             m->device ? html_number((double)m->device) : json_null());
}

/* -- The page ------------------------------------------------------------------------------------------------------ */

static int write_page(struct trainer *t, const char *state)
{
    struct train_html *h = t->html;
    json_t *r = html_report("train", tool_base_name(t->o->words[0]), *state ? state : "Training, under way");
    int64_t runs = t->done - t->done_at_start, all = t->epochs * t->per_epoch;
    bool host = !strncmp(tccrt_device_used(t->m.session), "cpu", 3);

    all = t->steps && (t->steps < all || !all) ? t->steps : all;
    if (!*state)
        json_object_set_new(r, "live", json_real(EVERY_MS / 1e3));
    answer_learning(r, h);
    answer_speed(r, t);
    curves(r, t);
    speed(r, t);
    if (host && h->peak == 0)
        h->peak = peak_of(tccrt_isa_used(t->m.session), tccrt_threads(t->m.session));
    int code =
        runs > 0 ? html_profile(r, t->o, &t->m, &(struct html_runs){runs, runs, 0, h->peak, h->traces}) : EXIT_FINE;
    memory_of_ranks(r, t);
    if (*state)
        html_compiled_part(r, t->m.facts, t->m.facts_size, -1);
    html_fact(r, "Step", html_textf("%" PRId64 " of %" PRId64, t->done, all));
    html_fact(r, "Epoch", html_textf("%" PRId64, t->epoch < t->epochs ? t->epoch + 1 : t->epoch));
    html_fact(r, "Batch, of all processes", html_textf("%" PRId64, t->global_batch));
    html_fact(r, "Processes", html_textf("%d", t->processes));
    html_fact(r, "Device", html_text(tccrt_device_used(t->m.session)));
    html_fact(r, "Threads", html_textf("%d", tccrt_threads(t->m.session)));
    if (t->done_at_start)
        html_fact(r, "Resumed at step", html_textf("%" PRId64 "; curves begin there", t->done_at_start));
    if (code == EXIT_FINE)
        code = html_write(t->o, h->path, r);
    json_decref(r);
    h->written = now_ms();
    return code;
}

int train_html_look(struct trainer *t)
{
    struct train_html *h = t->html;

    if (!h || !t->chief ||
        now_ms() - (h->written > 0 ? h->written : t->started) < (h->written > 0 ? EVERY_MS : FIRST_MS))
        return EXIT_FINE;
    return write_page(t, "");
}

/* -- The end ------------------------------------------------------------------------------------------------------- */

static int write_trace(void *t, const char *path)
{
    return trainer_trace(t, path);
}

/* Events of a rank: rows of its own. */
static void add_trace(json_t *all, const char *text, int64_t size, int rank)
{
    json_t *one = json_loadb(text, (size_t)size, 0, NULL), *events = json_object_get(one, "traceEvents");

    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *e = json_array_get(events, i);
        json_object_set_new(e, "pid", json_integer(rank));
        json_array_append(all, e);
    }
    json_decref(one);
}

static int gather_traces(struct trainer *t)
{
    size_t size;
    char *text = html_text_of(write_trace, t, MOST_TRACE, &size), *list = NULL;
    int64_t mine = (int64_t)size, *sizes = calloc((size_t)t->processes, sizeof *sizes), total = 0;
    struct tcc_tensor in = {&mine, TCC_I64, 1, {1}}, out = {sizes, TCC_I64, 1, {t->processes}};
    int code = sizes ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");

    if (code == EXIT_FINE && tccrt_comm_all_gather(t->world, &in, &out, NULL, NULL) != TCC_OK)
        code = trainer_status(t, TCC_EENV);
    for (int r = 0; code == EXIT_FINE && r < t->processes; r++)
        total += sizes[r];
    if (code == EXIT_FINE && total && !(list = malloc((size_t)total)))
        code = tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    in = (struct tcc_tensor){text ? text : (char *)&mine, TCC_U8, 1, {mine}};
    out = (struct tcc_tensor){list, TCC_U8, 1, {total}};
    if (code == EXIT_FINE && total && tccrt_comm_all_gather(t->world, &in, &out, sizes, NULL) != TCC_OK)
        code = trainer_status(t, TCC_EENV);
    if (code == EXIT_FINE && t->chief) {
        json_t *events = json_array();
        for (int64_t r = 0, at = 0; r < t->processes; at += sizes[r++])
            add_trace(events, list + at, sizes[r], (int)r);
        t->html->traces = json_object();
        json_object_set_new(t->html->traces, "traceEvents", events);
    }
    free(sizes);
    free(text);
    free(list);
    return code;
}

static int gather_memory(struct trainer *t)
{
    int64_t count = (int64_t)sizeof t->memory / 8;
    struct trainer_memory *all = calloc((size_t)t->processes, sizeof *all);
    struct tcc_tensor in = {&t->memory, TCC_I64, 1, {count}}, out = {all, TCC_I64, 1, {count * t->processes}};
    int code = all ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");

    if (code == EXIT_FINE && tccrt_comm_all_gather(t->world, &in, &out, NULL, NULL) != TCC_OK)
        code = trainer_status(t, TCC_EENV);
    t->html->ranks = code == EXIT_FINE ? json_array() : NULL;
    for (int r = 0; r < t->processes && code == EXIT_FINE; r++) {
        const struct trainer_memory *m = &all[r];
        html_row(t->html->ranks, 8, html_number(r), html_number((double)m->params), html_number((double)m->optimizer),
                 html_number((double)m->gradients), html_number((double)m->arena), html_number((double)m->peak),
                 html_number(m->predicted >= 0 ? (double)m->predicted : NAN),
                 m->device ? html_number((double)m->device) : json_null());
    }
    free(all);
    return code;
}

int train_html_end(struct trainer *t, int code)
{
    char state[80];

    if (!t->html || !t->m.session || !t->started)
        return code;
    int more = code == EXIT_FINE ? gather_memory(t) : EXIT_FINE;
    if (code == EXIT_FINE && more == EXIT_FINE)
        more = gather_traces(t);
    if (!t->chief)
        return code == EXIT_FINE ? more : code;
    snprintf(state, sizeof state,
             code != EXIT_FINE ? "Training, ended by an error at step %" PRId64
             : t->stopped      ? "Training, stopped at step %" PRId64
                               : "Training, done: step %" PRId64,
             t->done);
    int written = write_page(t, state);
    return code != EXIT_FINE ? code : more != EXIT_FINE ? more : written;
}
