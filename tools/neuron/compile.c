/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-neuron compile: what neuron_parallel_compile does, all programs of a job before it runs, several at once. Each
 * line of a file has the arguments of a `tccc`, split at blanks as TCCC_FLAGS are; an empty line, or one that begins
 * with #, says nothing. A failed one is begun again NEURON_PARALLEL_COMPILE_MAX_RETRIES times; the others go on. The
 * report is the vendor's: how many were well and how many were not, and of each, by its output, whether it was, and how
 * often it was begun again; here with its seconds.
 */
#include "base/safe.h"
#include "tools/run/model_int.h"
#include "tools/neuron/neuron_tool_int.h"
#include "tools/values/values_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct program {
    char **words; /* argv of a tccc; NULL at the end */
    const char *name;
    pid_t child; /* 0: none */
    int64_t retry;
    double started, seconds;
    bool done, well;
};

struct compiling {
    const struct options *o;
    char *text, tccc[PATH_MAX];
    struct program *programs;
    int n;
    int64_t most, retries;
};

/* -- The file -- */

static const char *output_of(char **words)
{
    const char *name = words[1] ? words[1] : "";

    for (int i = 1; words[i]; i++) {
        if ((!strcmp(words[i], "-o") || !strcmp(words[i], "--output")) && words[i + 1])
            return words[i + 1];
        if (!strncmp(words[i], "--output=", 9))
            return words[i] + 9;
        if (words[i][0] != '-')
            name = words[i];
    }
    return name;
}

/* The words of a line, which are written over it; a backslash keeps the next character. */
static bool split(struct compiling *c, char *line)
{
    struct program *p = &c->programs[c->n];
    size_t room = strlen(line) / 2 + 3, n = 1;
    char *to = line;

    if (!(p->words = calloc(room, sizeof *p->words)))
        return false;
    p->words[0] = "tccc";
    while (*(line += strspn(line, " \t\r"))) {
        p->words[n++] = to;
        for (; *line && !strchr(" \t\r", *line); line++) {
            if (*line == '\\' && line[1])
                line++;
            *to++ = *line;
        }
        if (*line)
            line++;
        *to++ = '\0';
    }
    p->name = output_of(p->words);
    c->n++;
    return true;
}

static int read_programs(struct compiling *c, const char *path)
{
    char error[ERROR_SIZE];
    size_t size, lines = 1;
    unsigned char *bytes = file_read(path, &size, error);

    if (!bytes)
        return tool_error(c->o, EXIT_DATA, "%s", error);
    char *text = realloc(bytes, size + 1);
    if (!text) {
        free(bytes);
        return tool_error(c->o, EXIT_ENVIRONMENT, "no memory");
    }
    c->text = text;
    c->text[size] = '\0';
    for (size_t i = 0; i < size; i++)
        lines += c->text[i] == '\n';
    if (!(c->programs = calloc(lines, sizeof *c->programs)))
        return tool_error(c->o, EXIT_ENVIRONMENT, "no memory");
    for (char *line = c->text, *end; line; line = end) {
        if ((end = strchr(line, '\n')))
            *end++ = '\0';
        line += strspn(line, " \t\r");
        if (*line && *line != '#' && !split(c, line))
            return tool_error(c->o, EXIT_ENVIRONMENT, "no memory");
    }
    return c->n ? EXIT_FINE : tool_error(c->o, EXIT_DATA, "%s: no line has a program to compile", path);
}

/* -- Processes -- */

/* tccc lies beside this program, or where PATH finds it. */
static void find_tccc(struct compiling *c)
{
    ssize_t n = readlink("/proc/self/exe", c->tccc, sizeof c->tccc - 8);
    char *slash = n > 0 ? memrchr(c->tccc, '/', (size_t)n) : NULL;

    strcpy(slash ? slash + 1 : c->tccc, "tccc");
    if (slash && access(c->tccc, X_OK))
        strcpy(c->tccc, "tccc");
}

static int start(struct compiling *c, struct program *p)
{
    p->started = now_ms();
    if (!(p->child = fork())) {
        execvp(c->tccc, p->words);
        fprintf(stderr, "error: cannot run '%s': %m\n", c->tccc);
        _exit(EXIT_ENVIRONMENT);
    }
    if (p->child > 0)
        return EXIT_FINE;
    p->child = 0;
    return tool_error(c->o, EXIT_ENVIRONMENT, "cannot begin a process: %m");
}

/* Waits for one; those that failed begin again while they may. */
static int finish_one(struct compiling *c, int *running)
{
    int status, k = 0;
    pid_t child = wait(&status);

    if (child < 0)
        return tool_error(c->o, EXIT_ENVIRONMENT, "cannot wait for a process: %m");
    while (k < c->n && c->programs[k].child != child)
        k++;
    if (k == c->n)
        return EXIT_FINE;
    struct program *p = &c->programs[k];
    p->seconds += (now_ms() - p->started) / 1e3;
    p->well = status == 0;
    p->child = 0;
    if (!p->well && p->retry < c->retries) {
        p->retry++;
        return start(c, p);
    }
    p->done = true;
    --*running;
    return EXIT_FINE;
}

static int compile_all(struct compiling *c)
{
    int code = EXIT_FINE, running = 0;

    for (int next = 0; next < c->n || running;) {
        if (next < c->n && running < c->most && code == EXIT_FINE) {
            code = start(c, &c->programs[next++]);
            running += code == EXIT_FINE;
        } else if (running) {
            int failed = finish_one(c, &running);
            code = code == EXIT_FINE ? failed : code;
            if (failed != EXIT_FINE)
                break;
        } else {
            break;
        }
    }
    return code;
}

/* -- The report -- */

static void print_report(const struct compiling *c, FILE *f, int well, double seconds)
{
    fputs("{\"compilation_summary\":{", f);
    if (well)
        fprintf(f, "\"true\":%d%s", well, well < c->n ? "," : "");
    if (well < c->n)
        fprintf(f, "\"false\":%d", c->n - well);
    fputs("},\"compilation_report\":{", f);
    for (int k = 0; k < c->n; k++) {
        const struct program *p = &c->programs[k];

        fputs(k ? ",\n" : "\n", f);
        tcr_print_json(f, p->name);
        fprintf(f, ":{\"status\":%s,\"retry\":%" PRId64 ",\"seconds\":%.3f}", p->well ? "true" : "false", p->retry,
                p->seconds);
    }
    fprintf(f, "},\n\"seconds\":%.3f,\"processes\":%" PRId64 "}\n", seconds, c->most);
}

static int report(const struct compiling *c, double seconds)
{
    const char *path = option_text(c->o, OPT_output, NULL);
    struct tcr_save save = {.stream = stdout};
    bool open = !path || !tcr_save_open(&save, path, TCR_SAVE_STREAM);
    int well = 0;

    for (int k = 0; k < c->n; k++)
        well += c->programs[k].well;
    if (open)
        print_report(c, save.stream, well, seconds);
    if (!open || (path ? tcr_save_commit(&save) : fflush(stdout)))
        return tool_error(c->o, EXIT_ENVIRONMENT, "cannot write '%s': %s", path ? path : "standard output",
                          strerror(errno));
    return well == c->n ? EXIT_FINE
                        : tool_error(c->o, EXIT_DATA, "%d of %d programs could not be compiled", c->n - well, c->n);
}

/* How often a failed compilation is begun again. */
static int read_retries(struct compiling *c)
{
    const char *text = getenv("NEURON_PARALLEL_COMPILE_MAX_RETRIES");
    char *end = NULL;

    if (!text || !*text)
        return EXIT_FINE;
    c->retries = strtoll(text, &end, 10);
    return *end || c->retries < 0 || c->retries > 1000
               ? usage_error(c->o, "NEURON_PARALLEL_COMPILE_MAX_RETRIES=%s: expected a number from 0 to 1000", text)
               : EXIT_FINE;
}

int neuron_compile(const struct options *o, const char *path)
{
    cpu_set_t cpus;
    struct compiling c = {.o = o, .most = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus)};
    double started = now_ms();
    int code = option_int(o, OPT_jobs, 1, 4096, &c.most) ? read_retries(&c) : EXIT_USAGE;

    if (code == EXIT_FINE)
        code = read_programs(&c, path);
    find_tccc(&c);
    if (code == EXIT_FINE)
        code = compile_all(&c);
    if (code == EXIT_FINE)
        code = report(&c, (now_ms() - started) / 1e3);
    for (int k = 0; k < c.n; k++)
        free(c.programs[k].words);
    free(c.programs);
    free(c.text);
    return code;
}
