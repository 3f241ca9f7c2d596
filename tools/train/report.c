/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tccc-train says: on a terminal one line that is written over, and a line that stays for each epoch and
 * evaluation; elsewhere a JSON object a line on standard output. With --quiet, evaluations alone, in words.
 */
#include "tools/run/sim_int.h"
#include "tools/train/train_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* JSON has no NaN and no infinity. */
static const char *number(char *to, size_t size, double v)
{
    if (isfinite(v))
        snprintf(to, size, "%.9g", v);
    else
        snprintf(to, size, "null");
    return to;
}

static void left_text(char *to, size_t size, double ms)
{
    int64_t s = (int64_t)(ms / 1000);
    if (s >= 3600)
        snprintf(to, size, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(to, size, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
}

/* A float32 with as few digits as give it back: 0.01, not 0.00999999978. */
static const char *single(char *to, size_t size, double v)
{
    for (int digits = 6; isfinite(v) && digits < 9; digits++) {
        snprintf(to, size, "%.*g", digits, v);
        if (strtof(to, NULL) == (float)v)
            return to;
    }
    return number(to, size, v);
}

/* Epochs that there will be: --steps may end training before --epochs does. */
static int64_t epochs_in_all(const struct trainer *t)
{
    int64_t by_steps = t->steps ? (t->steps + t->per_epoch - 1) / t->per_epoch : t->epochs;

    return by_steps < t->epochs ? by_steps : t->epochs;
}

/* Samples of all ranks a second, over `steps` steps that took so long. */
static double samples_rate(const struct trainer *t, int64_t samples, double ms)
{
    return ms > 0 ? (double)samples * t->ranks / ms * 1e3 : NAN;
}

/* wall: ms since the run began. */
static void step_json(struct trainer *t, const struct step_result *r, double wall, FILE *out)
{
    char a[40], b[40], c[40], d[40];

    fprintf(out,
            "{\"step\":%" PRId64 ",\"loss\":%s,\"lr\":%s,\"ms\":%.3f,\"epoch\":%" PRId64
            ",\"samples_per_s\":%s,\"wall_s\":%.3f,\"data_ms\":%.3f",
            t->done, number(a, sizeof a, r->loss), single(b, sizeof b, r->lr), r->ms, t->epoch + 1,
            number(c, sizeof c, samples_rate(t, r->rows, r->ms)), wall / 1e3, r->data_ms);
    if (r->has_norm)
        fprintf(out, ",\"grad_norm\":%s", number(d, sizeof d, r->norm));
    if (r->has_scale)
        fprintf(out, ",\"loss_scale\":%s", single(d, sizeof d, r->scale));
    if (r->sim_ms > 0)
        fprintf(out, ",\"sim_ms\":%.9g", r->sim_ms);
    if (t->elastic)
        fprintf(out, ",\"ranks\":%d", r->ranks);
    fputs("}\n", out);
    fflush(out);
}

/* Numbers for readers of runs. */
static void tell_scalars(struct trainer *t, int n, const struct train_scalar *scalars)
{
    train_events_scalars(t, n, scalars);
    train_serve_scalars(t, n, scalars);
}

static void step_scalars(struct trainer *t, const struct step_result *r)
{
    const struct {
        const char *name;
        bool has;
        double value;
    } all[] = {{"train/loss", true, r->loss},
               {"train/learning_rate", t->has_lr, r->lr},
               {"train/grad_norm", r->has_norm, r->norm},
               {"train/loss_scale", r->has_scale, r->scale},
               {"train/samples_per_second", r->ms > 0, samples_rate(t, r->rows, r->ms)},
               {"train/step_ms", true, r->ms},
               {"train/data_ms", true, r->data_ms},
               {"train/epoch", true, (double)t->epoch + 1}};
    struct train_scalar list[SCALARS_MOST];
    int n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].has) {
            snprintf(list[n].name, sizeof list[n].name, "%s", all[i].name);
            list[n++].value = all[i].value;
        }
    tell_scalars(t, n, list);
}

static void eval_scalars(struct trainer *t, const struct eval_result *r)
{
    struct train_scalar list[SCALARS_MOST] = {{"eval/loss", r->loss}, {"eval/accuracy", r->accuracy}};
    int n = 1 + r->has_accuracy;
    int64_t classes;
    const double *matrix = metrics_matrix(t->metrics, &classes);

    n += metrics_scalars(t->metrics, r->loss, list + n);
    tell_scalars(t, n, list);
    train_events_parameters(t);
    if (matrix)
        train_events_confusion(t, classes, matrix);
}

void report_sim(struct trainer *t)
{
    struct tccrt_sim sim;

    if (!t->chief || !option_set(t->o, OPT_nc_sim) || tccrt_simulated(t->m.session, &sim) != TCC_OK)
        return;
    if (t->json) {
        fputs("{\"sim\":", stdout);
        sim_print_json(stdout, &sim);
        puts("}");
    } else {
        report_clear(t);
        sim_print(stdout, &sim);
    }
    fflush(stdout);
}

void report_step(struct trainer *t, const struct step_result *r)
{
    char left[40];

    t->epoch_loss += r->loss * (double)r->rows;
    t->epoch_rows += r->rows;
    t->last_lr = r->lr;
    train_html_step(t, r);
    if (!t->chief)
        return;
    step_scalars(t, r);
    double wall = now_ms() - t->started; /* read once: both records are the same */
    if (t->log && t->done > t->logged) {
        step_json(t, r, wall, t->log);
        t->logged = t->done;
    }
    if (t->json) {
        step_json(t, r, wall, stdout);
        return;
    }
    double now = now_ms();
    if (t->quiet || now - t->last_shown < 100)
        return;
    t->last_shown = now;
    int64_t all = t->epochs * t->per_epoch;
    all = t->steps && (t->steps < all || !all) ? t->steps : all;
    double each = (now - t->started) / (double)(t->done - t->done_at_start);
    left_text(left, sizeof left, each * (double)(all > t->done ? all - t->done : 0));
    fprintf(stderr,
            "\r\033[Kepoch %" PRId64 "/%" PRId64 "  step %" PRId64 "/%" PRId64
            "  loss %.4f  lr %.4g  %.1f ms/step  %s left",
            t->epoch + 1, epochs_in_all(t), t->done, all, r->loss, r->lr, each, left);
    fflush(stderr);
    t->shown = true;
}

void report_clear(struct trainer *t)
{
    if (t->shown)
        fprintf(stderr, "\r\033[K");
    t->shown = false;
}

void report_epoch(struct trainer *t)
{
    char lr[40], taken[40];
    double now = now_ms();

    train_html_epoch(t, samples_rate(t, t->epoch_rows, now - t->epoch_started), (now - t->epoch_started) / 1e3);
    if (t->chief && !t->json && !t->quiet && t->epoch_rows) {
        report_clear(t);
        left_text(taken, sizeof taken, now - t->started);
        printf("epoch %" PRId64 "/%" PRId64 ", step %" PRId64 ": loss %.5f, lr %s, %.4g samples/s, %s\n", t->epoch + 1,
               epochs_in_all(t), t->done, t->epoch_loss / (double)t->epoch_rows, single(lr, sizeof lr, t->last_lr),
               samples_rate(t, t->epoch_rows, now - t->epoch_started), taken);
        fflush(stdout);
    }
    t->epoch_loss = 0;
    t->epoch_rows = 0;
    t->epoch_started = now;
}

void report_end(struct trainer *t)
{
    char taken[40];
    double now = now_ms();
    int64_t steps = t->done - t->done_at_start;

    if (!t->chief || t->json || t->quiet || !steps)
        return;
    left_text(taken, sizeof taken, now - t->started);
    printf("%" PRId64 " step%s in %s, %.1f ms each", steps, steps == 1 ? "" : "s", taken,
           (now - t->started) / (double)steps);
    if (t->best_step)
        printf("; best evaluation loss %.5f, step %" PRId64, t->best_loss, t->best_step);
    printf("\n");
    fflush(stdout);
}

static void eval_json(struct trainer *t, const struct eval_result *r, FILE *out)
{
    char a[40], b[40];

    fprintf(out, "{\"eval_step\":%" PRId64 ",\"epoch\":%" PRId64 ",\"eval_loss\":%s", t->done, t->epoch + 1,
            number(a, sizeof a, r->loss));
    if (r->has_accuracy)
        fprintf(out, ",\"eval_accuracy\":%s", number(b, sizeof b, r->accuracy));
    metrics_print(t->metrics, out, true, r->loss);
    fputs("}\n", out);
    fflush(out);
}

void report_eval(struct trainer *t, const struct eval_result *r)
{
    train_html_eval(t, r);
    if (!t->chief)
        return;
    eval_scalars(t, r);
    if (t->log)
        eval_json(t, r, t->log);
    if (t->json) {
        eval_json(t, r, stdout);
        return;
    }
    report_clear(t);
    printf("epoch %" PRId64 ", step %" PRId64 ": evaluation loss %.5f", t->epoch + 1, t->done, r->loss);
    if (r->has_accuracy)
        printf(", accuracy %.2f %%", 100 * r->accuracy);
    metrics_print(t->metrics, stdout, false, r->loss);
    printf("\n");
    fflush(stdout);
}

int trainer_trace(struct trainer *t, const char *path)
{
    struct loader_span made[LOADER_SPANS];
    struct tccrt_span spans[LOADER_SPANS];
    char tracks[LOADER_SPANS][32], names[LOADER_SPANS][40];
    int n = loader_spans(t->loader, made);

    for (int i = 0; i < n; i++) {
        snprintf(tracks[i], sizeof tracks[i], made[i].worker < 0 ? "loader" : "loader thread %d", made[i].worker);
        snprintf(names[i], sizeof names[i], "batch %" PRId64, made[i].batch);
        spans[i] = (struct tccrt_span){tracks[i], names[i], 1e6 * made[i].start, 1e6 * made[i].end};
    }
    return tccrt_profile_trace_with(t->m.session, path, n, spans);
}

int report_trace(struct trainer *t)
{
    const char *path = option_text(t->o, OPT_trace, NULL), *dot = path ? strrchr(path, '.') : NULL;
    char own[4096];

    if (!path)
        return EXIT_FINE;
    if (t->processes == 1)
        snprintf(own, sizeof own, "%s", path);
    else
        snprintf(own, sizeof own, "%.*s.%d%s", dot ? (int)(dot - path) : (int)strlen(path), path,
                 tccrt_comm_rank(t->world), dot ? dot : "");
    int status = trainer_trace(t, own);
    return status == TCC_OK ? EXIT_FINE : trainer_status(t, status);
}
