/* SPDX-License-Identifier: Apache-2.0 */
/* --sweep's table, or JSON lines, the best trial first; and a picture of the trials' losses by step. */
#include "tools/train/sweep_int.h"

#include "base/safe.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 800, HEIGHT = 420, LEFT = 70, TOP = 20, RIGHT = 20, BOTTOM = 50 };

static bool before(const struct sweep_trial *a, const struct sweep_trial *b)
{
    bool failed[] = {!isfinite(a->score), !isfinite(b->score)};
    if (failed[0] != failed[1])
        return failed[1];
    return a->steps != b->steps && !failed[0] ? a->steps > b->steps : a->score < b->score;
}

void sweep_order(const struct sweep *s, int *order)
{
    bool steps = s->search == SWEEP_HALVING;
    for (int k = 0; k < s->ntrials; k++) {
        int at = k;
        const struct sweep_trial *t = &s->trial[k];
        for (; at > 0; at--) {
            const struct sweep_trial *other = &s->trial[order[at - 1]];
            if (!(steps ? before(t, other) : t->score < other->score))
                break;
            order[at] = order[at - 1];
        }
        order[at] = k;
    }
}

static void print_json(const struct sweep *s, int k)
{
    const struct sweep_trial *t = &s->trial[k];
    printf("{\"trial\":%d,\"steps\":%lld,\"score\":", k + 1, t->steps);
    printf(isfinite(t->score) ? "%.9g" : "null", t->score);
    for (int i = 0; i < s->noptions; i++) {
        printf(",\"%s\":", s->option[i].name);
        tcr_print_json(stdout, t->value[i]);
    }
    puts("}");
}

static int width_of(const struct sweep *s, int i)
{
    size_t n = strlen(s->option[i].name);
    for (int k = 0; k < s->ntrials; k++)
        n = strlen(s->trial[k].value[i]) > n ? strlen(s->trial[k].value[i]) : n;
    return (int)n;
}

static void print_row(const struct sweep *s, int k)
{
    const struct sweep_trial *t = k < 0 ? NULL : &s->trial[k];
    if (t)
        printf("%5d %8lld %12.6g", k + 1, t->steps, t->score);
    else
        printf("%5s %8s %12s", "trial", "steps", "loss");
    for (int i = 0; i < s->noptions; i++)
        printf("  %-*s", i + 1 < s->noptions ? width_of(s, i) : 0, t ? t->value[i] : s->option[i].name);
    puts("");
}

int sweep_print(const struct sweep *s)
{
    int *order = calloc((size_t)s->ntrials, sizeof *order);
    bool json = option_set(s->o, OPT_json);

    if (!order)
        return tool_error(s->o, EXIT_ENVIRONMENT, "no memory");
    sweep_order(s, order);
    if (!json)
        print_row(s, -1);
    for (int k = 0; k < s->ntrials; k++)
        (json ? print_json : print_row)(s, order[k]);
    bool none = !isfinite(s->trial[order[0]].score);
    free(order);
    if (fflush(stdout))
        return tool_error(s->o, EXIT_ENVIRONMENT, "cannot write standard output: %m");
    return none ? tool_error(s->o, EXIT_DATA, "--sweep: no trial came to an end with a finite loss") : EXIT_FINE;
}

/* -- The picture ------------------------------------------------------------------------------------------------- */

struct axes {
    double least, most, steps;
};

static struct axes axes_of(const struct sweep *s)
{
    struct axes a = {INFINITY, -INFINITY, 1};
    for (int k = 0; k < s->ntrials; k++)
        for (int i = 0; i < s->trial[k].npoints; i++) {
            const struct sweep_trial *t = &s->trial[k];
            if (!isfinite(t->points[i]))
                continue;
            a.least = fmin(a.least, t->points[i]);
            a.most = fmax(a.most, t->points[i]);
            a.steps = fmax(a.steps, (double)((i + 1) * t->every));
        }
    if (!(a.most > a.least))
        a = (struct axes){isfinite(a.least) ? a.least - 1 : 0, isfinite(a.least) ? a.least + 1 : 1, a.steps};
    return a;
}

static void draw_trial(FILE *f, const struct sweep *s, int k, const struct axes *a, bool best)
{
    const struct sweep_trial *t = &s->trial[k];
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" points=\"", best ? "#1256b8" : "#9aa7b5",
            best ? "2.5" : "1");
    for (int i = 0; i < t->npoints; i++)
        if (isfinite(t->points[i]))
            fprintf(f, "%.1f,%.1f ", LEFT + (WIDTH - LEFT - RIGHT) * (double)((i + 1) * t->every) / a->steps,
                    TOP + (HEIGHT - TOP - BOTTOM) * (a->most - t->points[i]) / (a->most - a->least));
    fprintf(f, "\"><title>trial %d</title></polyline>\n", k + 1);
}

int sweep_draw(const struct sweep *s, const char *path)
{
    struct axes a = axes_of(s);
    int *order = calloc((size_t)s->ntrials, sizeof *order);
    FILE *f = order ? fopen(path, "we") : NULL;

    if (!f) {
        free(order);
        return tool_error(s->o, EXIT_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    }
    sweep_order(s, order);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            WIDTH, HEIGHT);
    fprintf(f, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#444\"/>\n", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.4g</text>\n", LEFT - 6, TOP + 10, a.most);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.4g</text>\n", LEFT - 6, HEIGHT - BOTTOM, a.least);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">step %.0f</text>\n", WIDTH - RIGHT, HEIGHT - BOTTOM + 20,
            a.steps);
    fprintf(f, "<text x=\"%d\" y=\"%d\">loss; trial %d in blue</text>\n", LEFT, HEIGHT - 12, order[0] + 1);
    for (int k = s->ntrials - 1; k >= 0; k--)
        draw_trial(f, s, order[k], &a, !k);
    fputs("</svg>\n", f);
    free(order);
    bool bad = ferror(f);
    return fclose(f) || bad ? tool_error(s->o, EXIT_ENVIRONMENT, "cannot write '%s'", path) : EXIT_FINE;
}
