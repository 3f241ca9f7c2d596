/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - see child_int.h. */
#include "compiler/child_int.h"
#include "compiler/llvm_int.h"

#include "base/safe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
    pid_t pid;
    int pipe;
};

/* False after a diagnostic. */
static bool start_child(struct ir_ctx *ctx, struct child *c, void (*work)(void *jobs, int i, int report), void *jobs,
                        int i)
{
    int pipes[2];
    pid_t self = getpid();
    const char *missing = llvm_load(); /* here: each child would load it again */
    if (missing)
        return ir_diag(ctx, NULL, IR_D_ENVIRONMENT, "%s", missing);
    fflush(NULL);
    c->pid = -1;
    if (pipe(pipes) == 0 && (c->pid = fork()) < 0) {
        close(pipes[0]);
        close(pipes[1]);
    }
    if (c->pid < 0)
        return ir_diag(ctx, NULL, IR_D_ENVIRONMENT, "cannot start the code generator: %s", strerror(errno));
    if (c->pid == 0) {
        struct ir_protect frame; /* the parent's frames are not the child's to return to */
        tcr_die_with_parent(self);
        close(pipes[0]);
        dup2(pipes[1], 2); /* what libraries say when they give up */
        if (IR_PROTECT(ctx, &frame))
            work(jobs, i, pipes[1]);
        _exit(CHILD_NO_MEMORY);
    }
    close(pipes[1]);
    c->pipe = pipes[0];
    return true;
}

/* Collects up to size - 1 bytes of what a child writes to `pipe`, and closes that; waits for its end. Its wait status,
 * -1: there is none. */
static int child_end(pid_t pid, int pipe, char *text, size_t size)
{
    size_t n = 0;
    int state = 0;
    for (;;) {
        char buffer[512];
        ssize_t got = read(pipe, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size_t keep = n + (size_t)got < size ? (size_t)got : size - 1 - n;
        memcpy(text + n, buffer, keep);
        n += keep;
    }
    text[n] = '\0';
    close(pipe);
    while (waitpid(pid, &state, 0) < 0)
        if (errno != EINTR)
            return -1;
    return state;
}

/* pid < 0: it could not be started. */
static struct child start_program(char *const *argv)
{
    int pipes[2];
    pid_t self = getpid(), pid;

    if (pipe2(pipes, O_CLOEXEC) != 0)
        return (struct child){-1, -1};
    pid = fork();
    if (pid == 0) {
        tcr_die_with_parent(self);
        if (dup2(pipes[1], 1) >= 0 && dup2(pipes[1], 2) >= 0)
            execvp(argv[0], argv);
        _exit(127);
    }
    close(pipes[1]);
    if (pid < 0)
        close(pipes[0]);
    return (struct child){pid, pipes[0]};
}

static int end_program(const struct child *c, char *output, size_t size)
{
    output[0] = '\0';
    int state = c->pid < 0 ? -1 : child_end(c->pid, c->pipe, output, size);
    if (state < 0)
        return -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128;
}

int child_program(char *const *argv, char *output, size_t size)
{
    struct child c = start_program(argv);

    return end_program(&c, output, size);
}

void child_programs(struct child_program *programs, int n, int limit)
{
    enum { MOST = 64 };
    struct child running[MOST];
    int started = 0;

    limit = limit < 1 ? 1 : limit > MOST ? MOST : limit;
    for (int ended = 0; ended < n; ended++) {
        for (; started < n && started - ended < limit; started++)
            running[started % MOST] = start_program(programs[started].argv);
        programs[ended].code = end_program(&running[ended % MOST], programs[ended].text, sizeof programs[ended].text);
    }
}

bool child_lacked(const char *text)
{
    static const char *const signs[] = {"out of memory",     "no memory",  "bad_alloc",
                                        "not enough memory", "No space",   "Cannot allocate",
                                        "Allocation fail",   "Disk quota", "temporarily unavailable",
                                        "File too large",    "IO failure"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcasestr(text, signs[i]))
            return true;
    return false;
}

/* Waits for a child; false, with its message in `text`, if it failed. *lacking: memory or space, not sense. */
static bool finish_child(struct child *c, char *text, size_t size, bool *lacking)
{
    int state = child_end(c->pid, c->pipe, text, size);
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
        return true;
    *lacking = child_lacked(text) || (WIFEXITED(state) && WEXITSTATUS(state) == CHILD_NO_MEMORY) ||
               (WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
    if (*lacking && !*text)
        snprintf(text, size, "not enough memory");
    if (!*text && WIFSIGNALED(state))
        snprintf(text, size, "the code generator died of signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state)));
    else if (!*text)
        snprintf(text, size, "the code generator failed without a message");
    return false;
}

bool child_run(struct ir_ctx *ctx, int n, int limit, void (*work)(void *jobs, int i, int report), void *jobs)
{
    struct child *children = IR_NEWN(ctx, n + 1, struct child);
    int started = 0, finished = 0;
    bool ok = true, lacking;
    char text[4096];
    if (limit < 1)
        limit = 1;
    while (finished < started || (ok && started < n)) {
        if (ok && started < n && started - finished < limit) {
            ok = start_child(ctx, &children[started], work, jobs, started);
            started += ok;
            continue;
        }
        bool good = finish_child(&children[finished++], text, sizeof text, &lacking);
        ir_tick(ctx);
        if (!good) {
            if (ok && lacking)
                ir_diag(ctx, NULL, IR_D_ENVIRONMENT, "code generation failed: %s", text);
            else if (ok)
                ir_error(ctx, NULL, "code generation failed: %s", text);
            ok = false;
        }
    }
    return ok;
}

bool child_ask(struct ir_ctx *ctx, void (*work)(void *jobs, int i, int report), char *text, size_t size)
{
    struct child c;
    bool lacking = false;
    if (!start_child(ctx, &c, work, NULL, 0))
        return false;
    if (finish_child(&c, text, size, &lacking))
        return true;
    if (lacking)
        ir_diag(ctx, NULL, IR_D_ENVIRONMENT, "%s", text);
    else
        ir_error(ctx, NULL, "%s", text);
    return false;
}

void child_take_dump(const char *path, FILE *to)
{
    FILE *f = fopen(path, "r");
    char buffer[4096];
    size_t n;
    if (!f)
        return;
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
        fwrite(buffer, 1, n, to);
    fclose(f);
    unlink(path);
}
