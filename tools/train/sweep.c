/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --sweep: trainings one after the other, each a process of its own with the same command line and the options of its
 * trial behind it, whose JSON lines are read as they come; successive halving (Jamieson, Talwalkar: Non-stochastic best
 * arm identification and hyperparameter optimization, AISTATS 2016) goes on with the best of each round from their
 * checkpoints.
 */
#include "tools/train/sweep_int.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number behind "KEY": in a line of JSON; NaN: none. */
static double number_of(const char *line, const char *key)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(line, quoted);
    char *end = NULL;
    double x = at ? strtod(at + strlen(quoted), &end) : 0;
    return at && end != at + strlen(quoted) ? x : (double)NAN;
}

static void note_loss(struct sweep_trial *t, long long step, double loss)
{
    t->steps = step;
    t->loss = loss;
    if (step % t->every)
        return;
    if (t->npoints == SWEEP_POINTS) {
        t->npoints /= 2;
        for (int i = 0; i < t->npoints; i++)
            t->points[i] = t->points[2 * i + 1];
        t->every *= 2;
        if (step % t->every)
            return;
    }
    t->points[t->npoints++] = (float)loss;
}

static void note_line(struct sweep_trial *t, const char *line)
{
    double step = number_of(line, "step"), loss = number_of(line, "loss"), eval = number_of(line, "eval_loss");
    if (step >= 1 && !strncmp(line, "{\"step\":", 8))
        note_loss(t, (long long)step, isfinite(loss) ? loss : (double)INFINITY);
    else if (!isnan(eval) && eval < t->eval_loss)
        t->eval_loss = eval;
}

/* The command line without --sweep and its file, and what the trial adds; ended by NULL. NULL: no memory. */
static char **command(int argc, char **argv, char **more, int nmore)
{
    char **out = calloc((size_t)(argc + nmore) + 1, sizeof *out);
    int n = 0, i = 0;
    for (; out && i < argc && strcmp(argv[i], "--"); i++) {
        size_t k = strcspn(argv[i], "=");
        if (k > 3 && !strncmp(argv[i], "--sweep", k))
            i += argv[i][k] != '=';
        else
            out[n++] = argv[i];
    }
    for (int k = 0; out && k < nmore; k++)
        out[n++] = more[k];
    for (; out && i < argc; i++)
        out[n++] = argv[i];
    return out;
}

static pid_t start(char **args, int *from)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    pid_t pid = fork();
    if (!pid) {
        dup2(ends[1], STDOUT_FILENO);
        execv("/proc/self/exe", args);
        _exit(127);
    }
    close(ends[1]);
    *from = ends[0];
    return pid;
}

static int read_lines(struct sweep_trial *t, int from, pid_t pid)
{
    FILE *f = fdopen(from, "r");
    char *line = NULL;
    size_t room = 0;
    int status = 0;
    while (f && getline(&line, &room, f) > 0)
        note_line(t, line);
    free(line);
    if (f)
        fclose(f);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BUG;
}

/* One more argument; false: no memory, or no room. */
static bool add(char **list, int *n, const char *name, const char *value)
{
    char text[2 * PATH_MAX];
    snprintf(text, sizeof text, value ? "--%s=%s" : "--%s", name, value);
    return (list[(*n)++] = strdup(text)) != NULL;
}

static bool any_ran(const struct sweep *s)
{
    for (int k = 0; k < s->ntrials; k++)
        if (s->trial[k].steps > 0)
            return true;
    return false;
}

/* Trains trial k, up to so many steps (0: as the command line says). */
static int run_trial(struct sweep *s, int k, char **argv, long long steps, bool resume)
{
    struct sweep_trial *t = &s->trial[k];
    const char *folder = option_text(s->o, OPT_checkpoint, NULL), *events = option_text(s->o, OPT_tensorboard, NULL);
    char *more[SWEEP_MOST_OPTIONS + 6] = {0}, path[PATH_MAX], number[24];
    int n = 0, argc = 0, from = -1;
    bool ok = true;
    while (argv[argc])
        argc++;
    for (int i = 0; i < s->noptions; i++)
        ok = ok && add(more, &n, s->option[i].name, t->value[i]);
    snprintf(path, sizeof path, "%s/%d", folder, k + 1);
    ok = ok && add(more, &n, "checkpoint", path) && add(more, &n, "json", NULL);
    if (resume)
        ok = ok && add(more, &n, "resume", NULL);
    snprintf(number, sizeof number, "%lld", steps);
    if (steps)
        ok = ok && add(more, &n, "steps", number);
    if (events) {
        mkdir(events, 0777); /* the trial says what is wrong with it */
        snprintf(path, sizeof path, "%s/%d", events, k + 1);
        ok = ok && add(more, &n, "tensorboard", path);
    }
    char **args = ok ? command(argc, argv, more, n) : NULL;
    pid_t pid = args ? start(args, &from) : -1;
    t->code = pid > 0 ? read_lines(t, from, pid)
                      : tool_error(s->o, EXIT_ENVIRONMENT, "--sweep: cannot start a trial: %s", strerror(errno));
    t->score = t->code != EXIT_FINE ? (double)INFINITY : isfinite(t->eval_loss) ? t->eval_loss : t->loss;
    free(args);
    for (int i = 0; i < n; i++)
        free(more[i]);
    if (!option_set(s->o, OPT_quiet))
        fprintf(stderr, "trial %d of %d: %lld steps, %g\n", k + 1, s->ntrials, t->steps, t->score);
    return t->code == EXIT_USAGE && !any_ran(s) ? EXIT_USAGE : EXIT_FINE; /* a wrong command line is so in all */
}

static int halve(struct sweep *s, char **argv)
{
    int *order = calloc((size_t)s->ntrials, sizeof *order), code = order ? EXIT_FINE : EXIT_ENVIRONMENT;
    long long steps = s->steps;
    for (int k = 0; order && k < s->ntrials; k++)
        order[k] = k;
    for (int left = s->ntrials; code == EXIT_FINE; steps *= s->factor) {
        for (int k = 0; k < left && code == EXIT_FINE; k++)
            code = run_trial(s, order[k], argv, steps, steps > s->steps);
        if (left == 1 || steps > (1LL << 40) / s->factor)
            break;
        sweep_order(s, order); /* more steps come first */
        left = (int)((left + s->factor - 1) / s->factor);
    }
    free(order);
    return code;
}

int train_sweep(const struct options *o, char **argv)
{
    struct sweep s = {.o = o};
    const char *folder = option_text(o, OPT_checkpoint, NULL);
    char path[PATH_MAX];
    int64_t seed = 0;
    int code;

    if (!folder)
        return usage_error(o, "--sweep requires --checkpoint=DIR, where each trial has a folder");
    if (!option_int(o, OPT_seed, 0, INT64_MAX, &seed))
        return EXIT_USAGE;
    code = sweep_read(&s, option_text(o, OPT_trials, NULL));
    if (code == EXIT_FINE && s.search == SWEEP_HALVING && (option_set(o, OPT_steps) || option_set(o, OPT_epochs)))
        code = usage_error(o, "--sweep: halving says how many steps there are; --steps and --epochs are for others");
    if (code == EXIT_FINE && (code = sweep_choose(&s, (uint64_t)seed)) == EXIT_FINE && mkdir(folder, 0777) != 0 &&
        errno != EEXIST)
        code = tool_error(o, EXIT_ENVIRONMENT, "cannot make '%s': %s", folder, strerror(errno));
    if (code == EXIT_FINE && s.search == SWEEP_HALVING)
        code = halve(&s, argv);
    for (int k = 0; k < s.ntrials && code == EXIT_FINE && s.search != SWEEP_HALVING; k++)
        code = run_trial(&s, k, argv, 0, option_set(o, OPT_resume));
    snprintf(path, sizeof path, "%s/sweep.svg", folder);
    if (code == EXIT_FINE && (code = sweep_print(&s)) == EXIT_FINE)
        code = sweep_draw(&s, path);
    sweep_free(&s);
    return code;
}
