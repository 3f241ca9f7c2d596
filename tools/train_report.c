/* SPDX-License-Identifier: Apache-2.0 */
/* What tccc-train says: one line that is written over on a terminal; elsewhere a JSON object a line on standard output. */
#include "tools/train_int.h"

#include <inttypes.h>
#include <math.h>
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

void report_step(struct trainer *t, double loss, double lr, double ms)
{
    char a[40], b[40], left[40];

    if (!t->chief)
        return;
    if (t->json) {
        printf("{\"step\":%" PRId64 ",\"loss\":%s,\"lr\":%s,\"ms\":%.3f}\n", t->done, number(a, sizeof a, loss),
               number(b, sizeof b, lr), ms);
        fflush(stdout);
        return;
    }
    double now = now_ms();
    if (now - t->last_shown < 100)
        return;
    t->last_shown = now;
    int64_t all = t->epochs * t->per_epoch;
    all = t->steps && (t->steps < all || !all) ? t->steps : all;
    double each = (now - t->started) / (double)(t->done - t->done_at_start);
    left_text(left, sizeof left, each * (double)(all > t->done ? all - t->done : 0));
    fprintf(stderr,
            "\r\033[Kepoch %" PRId64 "/%" PRId64 "  step %" PRId64 "/%" PRId64
            "  loss %.4f  lr %.4g  %.1f ms/step  %s left",
            t->epoch + 1, t->epochs, t->done, all, loss, lr, each, left);
    fflush(stderr);
    t->shown = true;
}

void report_clear(struct trainer *t)
{
    if (t->shown)
        fprintf(stderr, "\r\033[K");
    t->shown = false;
}

void report_eval(struct trainer *t, const struct eval_result *r)
{
    char a[40], b[40];

    if (!t->chief)
        return;
    if (t->json) {
        printf("{\"eval_step\":%" PRId64 ",\"epoch\":%" PRId64 ",\"eval_loss\":%s", t->done, t->epoch + 1,
               number(a, sizeof a, r->loss));
        if (r->has_accuracy)
            printf(",\"eval_accuracy\":%s", number(b, sizeof b, r->accuracy));
        printf("}\n");
        fflush(stdout);
        return;
    }
    report_clear(t);
    printf("epoch %" PRId64 ", step %" PRId64 ": evaluation loss %.5f", t->epoch + 1, t->done, r->loss);
    if (r->has_accuracy)
        printf(", accuracy %.2f %%", 100 * r->accuracy);
    printf("\n");
    fflush(stdout);
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
    int status = tccrt_profile_trace(t->m.session, own);
    return status == TCC_OK ? EXIT_FINE : trainer_status(t, status);
}
