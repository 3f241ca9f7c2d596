/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - see child_int.h. */
#include "compiler/child_int.h"

#include "runtime/safe.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
    pid_t pid;
    int pipe;
};

static bool start_child(struct child *c, void (*work)(void *jobs, int i, int report), void *jobs, int i)
{
    int pipes[2];
    pid_t self = getpid();
    fflush(NULL);
    if (pipe(pipes) != 0)
        return false;
    c->pid = fork();
    if (c->pid < 0) {
        close(pipes[0]);
        close(pipes[1]);
        return false;
    }
    if (c->pid == 0) {
        tcr_die_with_parent(self);
        close(pipes[0]);
        work(jobs, i, pipes[1]);
        _exit(1);
    }
    close(pipes[1]);
    c->pipe = pipes[0];
    return true;
}

int child_end(pid_t pid, int pipe, char *text, size_t size)
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

/* Waits for a child; false, with its message in `text`, if it failed. */
static bool finish_child(struct child *c, char *text, size_t size)
{
    int state = child_end(c->pid, c->pipe, text, size);
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
        return true;
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
    bool ok = true;
    char text[4096];
    if (limit < 1)
        limit = 1;
    while (finished < started || (ok && started < n)) {
        if (ok && started < n && started - finished < limit) {
            if (start_child(&children[started], work, jobs, started)) {
                started++;
            } else {
                ir_error(ctx, NULL, "cannot start the code generator: %s", strerror(errno));
                ok = false;
            }
            continue;
        }
        bool good = finish_child(&children[finished++], text, sizeof text);
        ir_tick(ctx);
        if (!good) {
            if (ok)
                ir_error(ctx, NULL, "code generation failed: %s", text);
            ok = false;
        }
    }
    return ok;
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
