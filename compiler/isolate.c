/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isolate.c - see isolate_int.h. Parent and child talk over a pair of sockets: a record is a kind, two numbers and a
 * text; the child goes on when the parent has dealt with it, so that everything comes in order. Signs of life are a
 * counter in memory that both have, and the child's own children too.
 *
 * Time stands still for the watch while the parent does not run: a stopped process and its compiler are not taken for
 * stuck.
 */
#include "compiler/isolate_int.h"
#include "compiler/llvm_int.h"
#include "base/env.h"
#include "base/numbers.h"
#include "base/safe.h"

#include <errno.h>
#include <fenv.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENVIRONMENT = 3, BUG = 4 };
enum { MESSAGE, PROGRESS, DUMP, REPORT, TRAIN_REPORT, SPLIT_REPORT, FACTS, DIAGNOSTIC, RESULT, NSTREAMS = 5 };
enum { SLICE_MS = 50, STACK = 16 << 20 };

struct record {
    int kind, number;
    double fraction;
    size_t size; /* of the text behind it */
};

struct link {
    int fd;
};
struct stream {
    struct link *link;
    int kind;
};

/* -- The child's side -------------------------------------------------------------------------------------- */

static void must(bool done)
{
    if (!done)
        _exit(BUG); /* nobody listens any more */
}

static bool read_all(int fd, void *to, size_t n)
{
    for (char *at = to; n;) {
        ssize_t got = read(fd, at, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static void tell(struct link *l, int kind, int number, double fraction, const void *text, size_t size)
{
    struct record r = {kind, number, fraction, size};
    char heard;
    must(!tcr_write_all(l->fd, &r, sizeof r) && !tcr_write_all(l->fd, text, size) && read_all(l->fd, &heard, 1));
}

static void tell_message(void *user, int severity, const char *text)
{
    tell(user, MESSAGE, severity, 0, text, strlen(text));
}

static void tell_progress(void *user, const char *what, double fraction)
{
    tell(user, PROGRESS, 0, fraction, what, strlen(what));
}

static ssize_t tell_text(void *cookie, const char *text, size_t size)
{
    const struct stream *s = cookie;
    tell(s->link, s->kind, 0, 0, text, size);
    return (ssize_t)size;
}

/* A stream whose text the parent writes to its own. */
static FILE *led_to(struct stream *s, struct link *l, int kind)
{
    *s = (struct stream){l, kind};
    return fopencookie(s, "w", (cookie_io_functions_t){.write = tell_text});
}

void isolate_tell(const struct isolate_child *c, const struct ir_ctx *ctx, int first)
{
    for (int i = first; i < ir_nmessages(ctx); i++) {
        const struct ir_message *m = ir_message(ctx, i);
        const char *texts[] = {m->text, m->where.file, m->where.node, m->where.op};
        char *all = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&all, &size);
        must(f != NULL);
        fwrite(&m->where, sizeof m->where, 1, f);
        for (int k = 0; k < 4; k++)
            fprintf(f, "%c%s%c", texts[k] ? '+' : '-', texts[k] ? texts[k] : "", 0);
        must(fclose(f) == 0);
        tell(c->link, DIAGNOSTIC, (int)m->kind, 0, all, size);
        free(all);
    }
}

/* The thread that compiles has nothing of its caller's: a comma in numbers, another rounding, denormals flushed to
 * zero, exceptions that trap would change what is compiled, or end it; with SIGCHLD ignored no process of the code
 * generator's or linker's is ever waited for. */
static void be_plain(void)
{
    tcc_locale_plain();
    fesetenv(FE_DFL_ENV);
    signal(SIGCHLD, SIG_DFL);
}

struct child_work {
    const struct isolate_job *job;
    const struct isolate_child *child;
    bool flag;
    int status;
};

static void *do_work(void *arg)
{
    struct child_work *w = arg;
    be_plain();
    w->status = w->job->work(w->job->user, w->child, &w->flag);
    return NULL;
}

/* Passes and LLVM take what a main thread has; a thread of the caller's may have a hundredth of it. */
static bool has_stack(void)
{
    pthread_attr_t a;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &a))
        return true;
    bool known = pthread_attr_getstacksize(&a, &size) == 0;
    pthread_attr_destroy(&a);
    return !known || size >= STACK / 4;
}

static void do_work_with_stack(struct child_work *w)
{
    pthread_attr_t a;
    pthread_t thread;
    if (!has_stack() && !pthread_attr_init(&a)) {
        bool started = !pthread_attr_setstacksize(&a, STACK) && !pthread_create(&thread, &a, do_work, w);
        pthread_attr_destroy(&a);
        if (started && !pthread_join(thread, NULL))
            return;
    }
    do_work(w);
}

_Noreturn static void be_child(const struct isolate_job *job, int fd, struct ir_life *life)
{
    struct link l = {fd};
    struct stream streams[NSTREAMS];
    struct isolate_child c = {.options = *job->o, .life = life, .link = &l, .owner = (int)getppid()};
    struct tccc_train train;
    struct tccc_split split;
    c.options.message = job->o->message ? tell_message : NULL;
    c.options.progress = job->o->progress ? tell_progress : NULL;
    c.options.user = &l;
    c.options.dump_to = led_to(&streams[0], &l, DUMP);
    if (c.options.report)
        c.options.report = led_to(&streams[1], &l, REPORT);
    if (c.options.facts)
        c.options.facts = led_to(&streams[4], &l, FACTS);
    if (c.options.train) {
        train = *c.options.train;
        c.options.train = &train;
        if (train.report)
            train.report = led_to(&streams[2], &l, TRAIN_REPORT);
        if (train.split) {
            split = *train.split;
            train.split = &split;
            if (split.report)
                split.report = led_to(&streams[3], &l, SPLIT_REPORT);
        }
    }
    struct child_work w = {.job = job, .child = &c};
    do_work_with_stack(&w);
    fflush(NULL);
    tell(&l, RESULT, w.status, w.flag, "", 0);
    _exit(0);
}

/* -- The parent's side --------------------------------------------------------------------------------------- */

static void message(const struct isolate_job *job, int severity, const char *text)
{
    if (job->ctx)
        ir_error(job->ctx, NULL, "%s", text);
    else if (job->o->message) {
        char whole[600];
        snprintf(whole, sizeof whole, "%s: %s", severity == IR_BUG ? "internal error" : "error", text);
        job->o->message(job->o->user, severity, whole);
    }
}

static void take_diagnostic(const struct isolate_job *job, int kind, const char *text, size_t size)
{
    struct ir_where where;
    const char *texts[4], *at = text + sizeof where, *end = text + size;
    memcpy(&where, text, sizeof where);
    for (int k = 0; k < 4; k++, at += strnlen(at, (size_t)(end - at)) + 1)
        texts[k] = *at == '+' ? at + 1 : NULL;
    where.file = texts[1];
    where.node = texts[2];
    where.op = texts[3];
    ir_replay(job->ctx, (enum ir_diag_kind)kind, &where, texts[0]);
}

static void take_text(const struct isolate_job *job, int kind, const char *text, size_t size)
{
    const struct tccc_train *t = job->o->train;
    FILE *to = kind == DUMP           ? job->o->dump_to ? job->o->dump_to : stdout
               : kind == REPORT       ? job->o->report
               : kind == FACTS        ? job->o->facts
               : kind == TRAIN_REPORT ? t->report
                                      : t->split->report;
    fwrite(text, 1, size, to);
    fflush(to);
}

/* One record; false: there are no more, or memory for it. *status gets the child's. */
static bool take_record(struct isolate_job *job, int fd, int *status)
{
    struct record r;
    if (!read_all(fd, &r, sizeof r))
        return false;
    char *text = malloc(r.size + 1);
    if (!text || !read_all(fd, text, r.size)) {
        free(text);
        return false;
    }
    text[r.size] = '\0';
    switch (r.kind) {
    case MESSAGE: job->o->message(job->o->user, r.number, text); break;
    case PROGRESS: job->o->progress(job->o->user, text, r.fraction); break;
    case DIAGNOSTIC:
        if (job->ctx)
            take_diagnostic(job, r.number, text, r.size);
        break;
    case RESULT:
        *status = r.number;
        job->flag = r.fraction != 0;
        break;
    default: take_text(job, r.kind, text, r.size);
    }
    free(text);
    return !tcr_write_all(fd, "", 1);
}

/* Until the child has ended or is stuck (true). */
static bool watch(struct isolate_job *job, int fd, const struct ir_life *life, int *status)
{
    double idle = 0, before = 1e-6 * tcr_now();
    uint64_t ticks = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, SLICE_MS);
        uint64_t seen = __atomic_load_n(&life->ticks, __ATOMIC_RELAXED);
        double now = 1e-6 * tcr_now(), passed = now - before;
        before = now;
        idle = ready || seen != ticks ? 0 : idle + (passed < 4 * SLICE_MS ? passed : SLICE_MS);
        ticks = seen;
        if (ready > 0) {
            if (!take_record(job, fd, status))
                return false;
            before = 1e-6 * tcr_now();
        } else if (job->o->time_limit > 0 && idle >= job->o->time_limit * 1e3) {
            return true;
        }
    }
}

/* What the child's end says where it has given no result. */
static int ended(const struct isolate_job *job, int state)
{
    char text[400];
    int number = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    if (number == SIGKILL || number == SIGINT || number == SIGTERM || number == SIGHUP) {
        snprintf(text, sizeof text, "the compiler was killed%s", number == SIGKILL ? ", perhaps out of memory" : "");
        message(job, IR_ERROR, text);
        return ENVIRONMENT;
    }
    if (number == SIGPIPE) {
        message(job, IR_ERROR, "whoever read the compiler's output has gone");
        return ENVIRONMENT;
    }
    if (number)
        snprintf(text, sizeof text, "the compiler ended by signal %d (%s)", number, strsignal(number));
    else
        snprintf(text, sizeof text, "the compiler ended without a result");
    message(job, IR_BUG, text);
    return BUG;
}

static int end_stuck(const struct isolate_job *job, const struct ir_life *life)
{
    char text[500];
    snprintf(text, sizeof text, "no progress for %g s (--time-limit) in %.200s", job->o->time_limit,
             *life->what ? life->what : "the compiler");
    message(job, IR_BUG, text);
    return BUG;
}

/* Where it can't be loaded the child that needs it says so. */
void tccc_prepare(void)
{
    llvm_load();
}

int isolate_run(struct isolate_job *job)
{
    static atomic_bool again;
    /* Whoever compiles a second time will go on. */
    if (atomic_exchange(&again, true))
        tccc_prepare();
    int pair[2], status = -1, state = 0;
    pid_t self = getpid();
    struct ir_life *life = mmap(NULL, sizeof *life, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool made = life != MAP_FAILED && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0;
    fflush(NULL);
    pid_t pid = made ? fork() : -1;
    if (pid == 0) {
        tcr_die_with_parent(self);
        close(pair[0]);
        be_child(job, pair[1], life);
    }
    int why = errno;
    if (made)
        close(pair[1]);
    if (pid < 0) {
        char text[200];
        snprintf(text, sizeof text, "cannot start a process: %s", strerror(why));
        message(job, IR_ERROR, text);
        status = ENVIRONMENT;
    } else {
        bool stuck = watch(job, pair[0], life, &status);
        if (stuck)
            kill(pid, SIGKILL);
        while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
        }
        status = stuck ? end_stuck(job, life) : status < 0 ? ended(job, state) : status;
    }
    if (made)
        close(pair[0]);
    if (life != MAP_FAILED)
        munmap(life, sizeof *life);
    return status;
}
