/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --test-suite DIR: every DIR/NAME/model.onnx (or model.pt2) on its test_data_set_* folders. A case is a forked process
 * in a process group of its own: it writes its verdict into a pipe; one that ends without, or not within a minute, has
 * crashed. Lines come out in the order of the names.
 */
#include "tools/run/model_int.h"

#include "compiler/tccc.h"
#include "base/safe.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 60

enum verdict { PASSED, WRONG, UNSUPPORTED, CRASHED, NVERDICTS };
static const char *const verdict_names[] = {"passed", "wrong", "unsupported", "crashed"};

struct test_case {
    char *name;
    pid_t child; /* 0: not running */
    int pipe;
    double deadline;
    bool done, listed;
    enum verdict verdict;
    char why[ERROR_SIZE];
};

struct suite {
    const struct options *o;
    const char *dir;
    struct test_case *cases;
    int n, next, printed, running, jobs, threads;
    int count[NVERDICTS];
    struct tcr_scratch temp;
};

/* -- In the child --------------------------------------------------------------------------------- */

static void read_tolerance(const struct options *o, const char *folder, struct tolerance *t)
{
    char path[2 * PATH_MAX];
    double rtol, atol;

    tolerance_read(o, t);
    snprintf(path, sizeof path, "%s/tol", folder);
    FILE *in = tcr_stream_input(path);
    if (!in)
        return;
    if (fscanf(in, "%lf %lf", &rtol, &atol) == 2) {
        if (!option_set(o, OPT_rtol))
            t->rtol = rtol;
        if (!option_set(o, OPT_atol) && !option_set(o, OPT_atol_abs)) {
            t->atol = atol;
            t->absolute = true;
        }
    }
    fclose(in);
}

static int data_folders(const struct dirent *e)
{
    return strncmp(e->d_name, "test_data_set_", 14) == 0;
}

static enum verdict run_data(const struct suite *s, const char *folder, struct model *m, char *why)
{
    struct tolerance t;
    struct dirent **list;
    char path[2 * PATH_MAX];
    int n = scandir(folder, &list, data_folders, versionsort), code = EXIT_FINE;

    read_tolerance(s->o, folder, &t);
    if (n <= 0) {
        snprintf(why, ERROR_SIZE, "no test_data_set_* folder");
        return WRONG;
    }
    for (int i = 0; i < n && code == EXIT_FINE; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        code = testdata_run(s->o, m, path, &t, why);
    }
    return code == EXIT_FINE ? PASSED : code == EXIT_DATA ? WRONG : CRASHED;
}

/* The model of a case's folder; false: it has none. */
static bool model_path(const char *folder, char *path, size_t size)
{
    for (const char *const *name = (const char *const[]){"model.onnx", "model.pt2", NULL}; *name; name++) {
        if ((size_t)snprintf(path, size, "%s/%s", folder, *name) < size && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

static enum verdict run_case(const struct suite *s, const struct test_case *c, char *why)
{
    char folder[PATH_MAX], model[PATH_MAX + 16];
    struct model m;

    snprintf(folder, sizeof folder, "%s/%s", s->dir, c->name);
    if (!model_path(folder, model, sizeof model)) {
        snprintf(why, ERROR_SIZE, "no model");
        return CRASHED;
    }
    int code = model_open(s->o, model, &m, why);
    if (code != EXIT_FINE)
        return code == EXIT_DATA ? UNSUPPORTED : CRASHED;
    if (model_session(s->o, &m, s->threads, why) != EXIT_FINE)
        return CRASHED;
    enum verdict v = run_data(s, folder, &m, why);
    model_close(&m);
    return v;
}

static void child_main(const struct suite *s, const struct test_case *c, int out)
{
    char why[ERROR_SIZE] = "";
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    int null = open("/dev/null", O_RDWR);
    if (null >= 0 && !option_set(s->o, OPT_verbose)) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    char verdict = (char)run_case(s, c, why);
    for (char *p = why; *p; p++)
        if (*p == '\n')
            *p = ' ';
    if (write(out, &verdict, 1) != 1 || write(out, why, strlen(why)) < 0)
        _exit(EXIT_ENVIRONMENT);
    _exit(EXIT_FINE);
}

/* -- In the parent ---------------------------------------------------------------------------------- */

static bool start_case(struct suite *s, struct test_case *c)
{
    int ends[2];
    pid_t self = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    fflush(NULL);
    c->child = fork();
    if (c->child == 0) {
        tcr_die_with_parent(self);
        close(ends[0]);
        child_main(s, c, ends[1]);
    }
    close(ends[1]);
    if (c->child < 0) {
        close(ends[0]);
        c->child = 0;
        return false;
    }
    setpgid(c->child, c->child);
    c->pipe = ends[0];
    c->deadline = now_ms() + SECONDS * 1e3;
    s->running++;
    return true;
}

/* Reads the verdict; `status` is waitpid's. */
static void end_case(struct suite *s, struct test_case *c, int status, bool late)
{
    char verdict;
    ssize_t n;

    kill(-c->child, SIGKILL); /* what the case has left running */
    fcntl(c->pipe, F_SETFL, O_NONBLOCK);
    if (!late && read(c->pipe, &verdict, 1) == 1 && verdict >= 0 && verdict < NVERDICTS) {
        c->verdict = (enum verdict)verdict;
        n = read(c->pipe, c->why, sizeof c->why - 1);
        c->why[n > 0 ? n : 0] = '\0';
    } else {
        c->verdict = CRASHED;
        if (late)
            snprintf(c->why, sizeof c->why, "no end after %d s", SECONDS);
        else if (WIFSIGNALED(status))
            snprintf(c->why, sizeof c->why, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        else
            snprintf(c->why, sizeof c->why, "exit status %d", WEXITSTATUS(status));
    }
    close(c->pipe);
    c->child = 0;
    c->done = true;
    s->running--;
    s->count[c->verdict]++;
}

static void print_done(struct suite *s)
{
    for (; s->printed < s->n && s->cases[s->printed].done; s->printed++) {
        const struct test_case *c = &s->cases[s->printed];
        printf("%s: %s%s%s\n", ir_shown(c->name), verdict_names[c->verdict],
               *c->why && c->verdict != PASSED ? ": " : "", c->verdict != PASSED ? ir_shown(c->why) : "");
    }
    fflush(stdout);
    if (isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO) && !option_set(s->o, OPT_quiet)) {
        int done = s->next - s->running;
        fprintf(stderr, "\r%d/%d%s", done, s->n, done == s->n ? "\n" : "");
    }
}

/* Waits until something has happened or a tenth of a second has passed, and collects cases that ended. */
static void collect(struct suite *s, const sigset_t *child)
{
    struct timespec wait = {.tv_nsec = 100000000};
    int status;

    sigtimedwait(child, NULL, &wait);
    for (int i = s->printed; i < s->next; i++) {
        struct test_case *c = &s->cases[i];
        if (!c->child)
            continue;
        if (waitpid(c->child, &status, WNOHANG) == c->child) {
            end_case(s, c, status, false);
        } else if (now_ms() > c->deadline) {
            kill(-c->child, SIGKILL);
            kill(c->child, SIGKILL);
            waitpid(c->child, &status, 0);
            end_case(s, c, status, true);
        }
    }
}

static int run_cases(struct suite *s)
{
    sigset_t child;

    if (!option_set(s->o, OPT_interpret))
        tccc_prepare();
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    while (s->next < s->n || s->running) {
        while (s->next < s->n && s->running < s->jobs) {
            if (!start_case(s, &s->cases[s->next]) && !s->running)
                return tool_error(s->o, EXIT_ENVIRONMENT, "cannot start a process: %m");
            if (!s->cases[s->next].child)
                break;
            s->next++;
        }
        collect(s, &child);
        print_done(s);
    }
    return EXIT_FINE;
}

/* -- Lists -------------------------------------------------------------------------------------------- */

static int folders(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int find_cases(struct suite *s)
{
    struct dirent **list;
    char folder[PATH_MAX + 300], path[2 * PATH_MAX];
    int n = scandir(s->dir, &list, folders, alphasort);

    if (n < 0)
        return tool_error(s->o, EXIT_DATA, "cannot open '%s': %m", s->dir);
    s->cases = calloc((size_t)n + 1, sizeof *s->cases);
    for (int i = 0; i < n; i++) {
        snprintf(folder, sizeof folder, "%s/%s", s->dir, list[i]->d_name);
        if (s->cases && model_path(folder, path, sizeof path))
            s->cases[s->n++].name = strdup(list[i]->d_name);
        free(list[i]);
    }
    free(list);
    if (!s->cases)
        return tool_error(s->o, EXIT_ENVIRONMENT, "no memory");
    return s->n ? EXIT_FINE : tool_error(s->o, EXIT_DATA, "'%s' holds no NAME/model.onnx or NAME/model.pt2", s->dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, ((const struct test_case *)b)->name);
}

/* Checks a list of names; how many of them did not pass, -1 when it can't be read. */
static int check_list(const struct suite *s, const char *path)
{
    FILE *in = tcr_stream_input(path);
    char *line = NULL;
    size_t room = 0;
    int missing = 0;

    if (!in)
        return -1;
    while (getline(&line, &room, in) > 0) {
        line[strcspn(line, " \t\r\n#")] = '\0';
        const struct test_case *c = *line ? bsearch(line, s->cases, (size_t)s->n, sizeof *c, by_name) : NULL;
        if (!*line || (c && c->verdict == PASSED))
            continue;
        fprintf(stderr, "%s: must pass by %s, but %s\n", ir_shown(line), path, c ? "did not" : "is not there");
        missing++;
    }
    free(line);
    fclose(in);
    return missing;
}

static int write_list(const struct suite *s, const char *path)
{
    struct tcr_save save;
    bool open = !tcr_save_open(&save, path, TCR_SAVE_STREAM);

    for (int i = 0; open && i < s->n; i++)
        if (s->cases[i].verdict == PASSED)
            fprintf(save.stream, "%s\n", s->cases[i].name);
    if (open && !tcr_save_commit(&save))
        return EXIT_FINE;
    return tool_error(s->o, EXIT_ENVIRONMENT, "cannot write '%s': %m", path);
}

static int finish(struct suite *s)
{
    int failed = s->n - s->count[PASSED];
    const char *list = option_text(s->o, OPT_list, NULL), *to = option_text(s->o, OPT_write_list, NULL);
    int code = failed ? EXIT_DATA : EXIT_FINE;

    printf("%d wrong, %d unsupported, %d crashed\n", s->count[WRONG], s->count[UNSUPPORTED], s->count[CRASHED]);
    printf("%d passed, %d failed\n", s->count[PASSED], failed);
    fflush(stdout);
    if (list) {
        int missing = check_list(s, list);
        if (missing < 0)
            return tool_error(s->o, EXIT_DATA, "cannot open '%s': %m", list);
        code = missing ? EXIT_DATA : EXIT_FINE;
    }
    int wrote = to ? write_list(s, to) : EXIT_FINE;
    return wrote != EXIT_FINE ? wrote : code;
}

/* A folder for all cases' temporary files: those of cases that were killed go with it. */
static int make_temp(struct suite *s)
{
    if (tcr_scratch_make(&s->temp, NULL, "tccc-suite-"))
        return tool_error(s->o, EXIT_ENVIRONMENT, "cannot make a folder in '%s': %m", tcr_temporary());
    setenv("TMPDIR", s->temp.path, 1);
    return EXIT_FINE;
}

int suite_run(const struct options *o, const char *dir)
{
    struct suite s = {.o = o, .dir = dir};
    struct tolerance t;
    struct tccc_options flags;
    int64_t jobs = sysconf(_SC_NPROCESSORS_ONLN), threads = 1;
    const char *list = option_text(o, OPT_list, NULL);

    if (!option_int(o, OPT_jobs, 1, 1024, &jobs) || !option_int(o, OPT_threads, 1, 4096, &threads) ||
        tolerance_read(o, &t) != EXIT_FINE || compile_options(o, &flags) != EXIT_FINE)
        return EXIT_USAGE;
    if (list && access(list, R_OK) != 0)
        return tool_error(o, EXIT_DATA, "cannot open '%s': %m", list);
    s.jobs = (int)jobs;
    s.threads = (int)threads;
    int code = find_cases(&s);
    if (code == EXIT_FINE && (code = make_temp(&s)) == EXIT_FINE) {
        code = run_cases(&s);
        tcr_scratch_remove(&s.temp);
        if (code == EXIT_FINE)
            code = finish(&s);
    }
    for (int i = 0; i < s.n; i++)
        free(s.cases[i].name);
    free(s.cases);
    return code;
}
