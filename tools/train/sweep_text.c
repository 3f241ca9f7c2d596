/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --sweep's file: lines `OPTION = VALUE | VALUE`, `OPTION = LEAST..MOST`, and `search = HOW`; a line that begins with #
 * is a remark. And the trials that it asks for.
 */
#include "tools/train/sweep_int.h"

#include "base/draw.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 16 };

static int wrong(const struct sweep *s, const char *path, int line, const char *what)
{
    return tool_error(s->o, EXIT_DATA, "%s:%d: %s", path, line, what);
}

static char *trimmed(char *from)
{
    char *end = from + strlen(from);
    while (*from == ' ' || *from == '\t')
        from++;
    while (end > from && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        *--end = 0;
    return from;
}

static bool whole(const char *text, char end, long long least, long long most, long long *to)
{
    char *behind = NULL;
    errno = 0;
    *to = strtoll(text, &behind, 10);
    return behind != text && *behind == end && !errno && *to >= least && *to <= most;
}

/* grid, random:N, halving:N,factor=F,steps=S */
static bool read_search(struct sweep *s, char *text)
{
    char *colon = strchr(text, ':'), *at;
    s->factor = 3;
    s->steps = 50;
    if (!strcmp(text, "grid"))
        return true;
    if (!colon)
        return false;
    *colon = 0;
    s->search = !strcmp(text, "random") ? SWEEP_RANDOM : SWEEP_HALVING;
    if (s->search == SWEEP_HALVING && strcmp(text, "halving"))
        return false;
    at = strchr(colon + 1, ',');
    if (!whole(colon + 1, at ? ',' : 0, 1, SWEEP_MOST_TRIALS, &s->count) || (at && s->search == SWEEP_RANDOM))
        return false;
    for (; at; at = strchr(at + 1, ',')) {
        bool factor = !strncmp(at + 1, "factor=", 7), steps = !strncmp(at + 1, "steps=", 6);
        const char *value = at + (factor ? 8 : 7);
        char end = strchr(at + 1, ',') ? ',' : 0;
        if (factor ? !whole(value, end, 2, 100, &s->factor) : !steps || !whole(value, end, 1, 1 << 30, &s->steps))
            return false;
    }
    return true;
}

/* Two numbers, "1e-4..0.1": drawn by logarithms where both are above 0. */
static bool read_range(struct sweep_option *o, char *text)
{
    char *dots = strstr(text, ".."), *end = NULL;
    if (!dots)
        return false;
    *dots = 0;
    o->least = strtod(text, &end);
    bool fine = end != text && !*end;
    o->most = strtod(dots + 2, &end);
    fine = fine && end != dots + 2 && !*end;
    o->log = o->least > 0;
    *dots = '.';
    return fine;
}

static bool read_values(struct sweep_option *o, char *text)
{
    if (strchr(text, '|') == NULL && read_range(o, text))
        return isfinite(o->most - o->least) && o->least < o->most;
    for (char *next; text; text = next) {
        next = strchr(text, '|');
        if (next)
            *next++ = 0;
        text = trimmed(text);
        if (!*text || o->n == SWEEP_MOST_VALUES)
            return false;
        o->value[o->n++] = text;
    }
    return true;
}

static int read_line(struct sweep *s, const char *path, int number, char *line)
{
    char *equals = strchr(line, '=');
    if (!*line || *line == '#')
        return EXIT_FINE;
    if (!equals)
        return wrong(s, path, number, "expected OPTION = VALUE | VALUE");
    *equals = 0;
    char *name = trimmed(line), *text = trimmed(equals + 1);
    if (!strcmp(name, "search"))
        return read_search(s, text)
                   ? EXIT_FINE
                   : wrong(s, path, number, "search: expected grid, random:N or halving:N,factor=3,steps=50");
    if (s->noptions == SWEEP_MOST_OPTIONS)
        return wrong(s, path, number, "more than 16 options");
    name += !strncmp(name, "--", 2) ? 2 : 0;
    struct sweep_option *o = &s->option[s->noptions++];
    o->name = name;
    for (int i = 0; i + 1 < s->noptions; i++)
        if (!strcmp(s->option[i].name, name))
            return wrong(s, path, number, "an option stands twice");
    if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name) || !strcmp(name, "sweep") ||
        !strcmp(name, "checkpoint") || !strcmp(name, "resume"))
        return wrong(s, path, number, "no option that may differ from trial to trial");
    return read_values(o, text) ? EXIT_FINE : wrong(s, path, number, "expected VALUE | VALUE, or LEAST..MOST");
}

int sweep_read(struct sweep *s, const char *path)
{
    FILE *f = fopen(path, "re");
    int code = EXIT_FINE, number = 1;

    if (!f || !(s->text = calloc(1, MOST_BYTES + 2)))
        code = tool_error(s->o, f ? EXIT_ENVIRONMENT : EXIT_DATA, "--sweep=%s: %s", path, strerror(errno));
    size_t n = s->text ? fread(s->text, 1, MOST_BYTES + 1, f) : 0;
    if (code == EXIT_FINE && (ferror(f) || n > MOST_BYTES || strlen(s->text) < n))
        code = tool_error(s->o, EXIT_DATA, "--sweep=%s: expected a text of at most 64 KiB", path);
    if (f)
        fclose(f);
    for (char *line = s->text, *next; code == EXIT_FINE && line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        code = read_line(s, path, number, trimmed(line));
    }
    if (code == EXIT_FINE && !s->noptions)
        code = wrong(s, path, number, "no option is listed");
    for (int i = 0; code == EXIT_FINE && s->search == SWEEP_GRID && i < s->noptions; i++)
        if (!s->option[i].n)
            code = tool_error(s->o, EXIT_DATA, "%s: '%s': a grid has values, and no ranges", path, s->option[i].name);
    return code;
}

static char *drawn(const struct sweep_option *o, uint64_t *state)
{
    char text[40];
    double u = tcr_draw_unit(state);
    if (o->n)
        return strdup(o->value[(int)(u * o->n)]);
    double x = o->log ? exp(log(o->least) + u * (log(o->most) - log(o->least))) : o->least + u * (o->most - o->least);
    snprintf(text, sizeof text, "%.4g", x);
    return strdup(text);
}

int sweep_choose(struct sweep *s, uint64_t seed)
{
    uint64_t state = tcr_draw_begin(seed, "sweep");
    long long count = s->search == SWEEP_GRID ? 1 : s->count;

    for (int i = 0; i < s->noptions && s->search == SWEEP_GRID && count <= SWEEP_MOST_TRIALS; i++)
        count *= s->option[i].n;
    if (count > SWEEP_MOST_TRIALS)
        return tool_error(s->o, EXIT_DATA, "--sweep: more than %d trials", SWEEP_MOST_TRIALS);
    s->trial = calloc((size_t)count, sizeof *s->trial);
    bool ok = s->trial != NULL;
    s->ntrials = ok ? (int)count : 0;
    for (int k = 0; k < s->ntrials; k++) {
        struct sweep_trial *t = &s->trial[k];
        int rest = k;
        t->score = t->loss = t->eval_loss = INFINITY;
        t->every = 1;
        for (int i = s->noptions - 1; i >= 0; i--) { /* the last option changes first */
            const struct sweep_option *o = &s->option[i];
            t->value[i] = s->search == SWEEP_GRID ? strdup(o->value[rest % o->n]) : drawn(o, &state);
            ok = ok && t->value[i];
            rest = s->search == SWEEP_GRID ? rest / o->n : rest;
        }
    }
    return ok ? EXIT_FINE : tool_error(s->o, EXIT_ENVIRONMENT, "no memory");
}

void sweep_free(struct sweep *s)
{
    for (int k = 0; k < s->ntrials; k++)
        for (int i = 0; i < s->noptions; i++)
            free(s->trial[k].value[i]);
    free(s->trial);
    free(s->text);
}
