/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The net of a process: operations under way, and who moves them on. Whoever waits moves everything on himself; a
 * thread does it between times, so that communication goes on while the program computes, and answers those who ask
 * whether this process is alive. The thread also opens the engine, since a library that waits for a rank that never
 * comes would not come back.
 *
 * One lock guards the engine and all operations; it is held for one look at them, never while waiting.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/format.h"
#include "runtime/comm/comm_int.h"

struct tcr_lock {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool running, stop, opened, given_up;
    pthread_t waiter; /* the caller of tcr_net_open() */
    int opening_status;
    char opening_why[512];
    struct tccrt_comm_options options;
};

double tcr_seconds(void)
{
    return tcr_now() * 1e-9;
}

void tcr_net_lock(struct tcr_net *net)
{
    pthread_mutex_lock(&net->lock->mutex);
}

void tcr_net_unlock(struct tcr_net *net)
{
    pthread_mutex_unlock(&net->lock->mutex);
}

static void rest(long nanoseconds)
{
    struct timespec t = {0, nanoseconds};

    nanosleep(&t, NULL);
}

/* Cores may be fewer than ranks: after a short while others get the core. */
void tcr_pause(int *idle)
{
    if (++*idle < 64)
        return;
    if (*idle < 2048)
        sched_yield();
    else
        rest(50000);
}

/* -- Progress ----------------------------------------------------------------------------------------------- */

int tcr_net_status(struct tcr_net *net)
{
    return net->broken ? tcr_fail(TCC_EENV, "%s", net->why) : TCC_OK;
}

/* It is over, and in no list any more: nobody may know of it. */
static void op_over(struct tcr_op *op)
{
    if (!op->detached)
        return;
    tcr_coll_free(&op->c);
    free(op);
}

void tcr_net_break(struct tcr_net *net, bool tell, const char *format, ...)
{
    if (net->broken)
        return;
    net->broken = true;
    FORMAT_INTO(net->why, sizeof net->why, format);
    if (tell)
        tcr_watch_tell(net, net->why);
    for (struct tcr_op *op = net->ops, *next; op; op = next) {
        next = op->next;
        tcr_coll_end(op);
        op->status = TCC_EENV;
        op->done = true;
        op_over(op);
    }
    net->ops = NULL;
}

void tcr_net_progress(struct tcr_net *net)
{
    double now = tcr_seconds();

    if (net->engine->progress)
        net->engine->progress(net);
    for (struct tcr_op **at = &net->ops; *at && !net->broken;) {
        struct tcr_op *op = *at;
        bool moved = false;

        if (op->advance(op, &moved)) {
            tcr_net_break(net, true, "rank %d: %s", net->rank, tccrt_error());
            return;
        }
        if (moved)
            op->since = now;
        if (!op->done) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        tcr_coll_end(op);
        op_over(op);
    }
    tcr_watch_poll(net, now);
}

/* -- The thread --------------------------------------------------------------------------------------------- */

static void *serve(void *arg)
{
    struct tcr_net *net = arg;
    struct tcr_lock *l = net->lock;
    int status = l->opened ? l->opening_status : net->engine->open(net, &l->options);

    pthread_mutex_lock(&l->mutex);
    l->opening_status = status;
    if (!l->opened)
        snprintf(l->opening_why, sizeof l->opening_why, "%s", status ? tccrt_error() : "");
    l->opened = true;
    pthread_cond_broadcast(&l->changed);
    while (!l->stop && !status && net->threaded) {
        struct timespec until;
        bool busy = net->ops != NULL;

        if (net->watch)
            tcr_net_progress(net);
        if (busy && !atomic_load(&net->waiting)) {
            pthread_mutex_unlock(&l->mutex);
            if (net->engine->rest)
                net->engine->rest(net);
            else
                rest(30000);
            pthread_mutex_lock(&l->mutex);
            continue;
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += busy && !net->engine->rest ? 1000000 : 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&l->changed, &l->mutex, &until);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

/* -- Opening and closing -------------------------------------------------------------------------------------- */

/* glibc's; elsewhere there is none, and what it is for is left out. */
extern int on_exit(void (*)(int, void *), void *) __attribute__((weak));

/*
 * A thread that is still inside of the library when the process ends can hang what the library does at exit. So the
 * process then ends without that: what the program registered to run at exit after this call has run by then, streams
 * are flushed.
 */
static void leave(int status, void *unused)
{
    (void)unused;
    fflush(NULL);
    _exit(status);
}

#define DIED_AFTER \
    0.3 /* seconds: from when a rank was found gone while the library starts; it might have started all the same */

static bool watching_exit;
static struct tcr_net *opening; /* until its engine has come back */

/*
 * A library whose start fails may end the process (Open MPI does when a rank dies meanwhile), before anybody has heard
 * which rank it was. The thread that does, the library's or ours, is held up until the caller has given up, and has had
 * the time to say so.
 */
static void library_exits(int status, void *unused)
{
    struct tcr_net *net = opening;
    struct tcr_lock *l = net ? net->lock : NULL;

    (void)status;
    (void)unused;
    if (!l || pthread_equal(pthread_self(), l->waiter))
        return;
    pthread_mutex_lock(&l->mutex);
    while (!l->given_up)
        pthread_cond_wait(&l->changed, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
    sleep(2);
}

/* Ranks that meet anew come when they have ended what they are at; those that join wait for the end of a step. */
#define ANEW_SECONDS 600.0

static double patience(const struct tcr_net *net)
{
    if (net->from.before || net->from.ready)
        return net->timeout > ANEW_SECONDS ? net->timeout : ANEW_SECONDS;
    return net->timeout > 5 ? net->timeout - 1.5 : 0.7 * net->timeout;
}

double tcr_net_patience(const struct tcr_net *net)
{
    return 0.95 * patience(net);
}

int tcr_net_meet(struct tcr_net *net, struct tcr_launch *l, struct tcr_card mine, const struct tcr_card **cards)
{
    int status;

    l->elastic = net->elastic;
    l->before = net->from.before;
    l->ready = net->from.ready;
    l->least = net->from.least;
    status = tcr_meet(l, net->engine->title, tcr_net_patience(net), net->timeout, mine, &net->meeting, cards);
    if (status)
        return status;
    net->joins = !tcr_meet_place(net->meeting, &net->rank, &net->size);
    if (net->joins) { /* for nothing but to be heard of */
        tcr_meet_free(net->meeting);
        net->meeting = NULL;
        net->rank = 0;
        net->size = 1;
    }
    return TCC_OK;
}

#define PARTING_LEAST 0.9 /* seconds: ranks that come a little later must not miss this one's sign */
#define PARTING_MOST 4.0

/* The library has failed, or has not come back. `left`: the rank that is known to have ended, or -1. */
static int give_up(struct tcr_net *net, bool opened, int left)
{
    struct tcr_lock *l = net->lock;
    double start = tcr_seconds();
    char who[200] = "";

    for (; opened && left < 0 && tcr_seconds() - start < DIED_AFTER;
         rest(20000000)) /* it fails when a rank dies, too */
        left = tcr_left();
    if (left >= 0)
        tcr_accuse(left);
    else if (!opened)
        tcr_absent(who, sizeof who);
    if (left >= 0 || !opened) {
        if (on_exit)
            on_exit(leave, NULL);
        tcr_part(PARTING_LEAST, PARTING_MOST);
    }
    pthread_mutex_lock(&l->mutex);
    l->given_up = true;
    /* Where the ranks meet by themselves the meeting knows best, even if a busy machine let it say so a little late. */
    if (left < 0 && net->engine->launcher == TCR_LAUNCHER_VARIABLES)
        opened |= l->opened && l->opening_status;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    tcr_arrive(false);
    if (left >= 0 && opened)
        return tcr_fail(TCC_EENV, "%.400s; rank %d has died: its process is gone", l->opening_why, left);
    if (left >= 0)
        return tcr_fail(TCC_EENV, "%s did not start: rank %d has died: its process is gone", net->engine->title, left);
    if (!opened)
        return tcr_fail(TCC_EENV, "%s did not start within %g s: %s not come", net->engine->title, net->timeout, who);
    return tcr_fail(l->opening_status, "%s", l->opening_why);
}

/* The whole takes the limit at most, a second for the others to see that this rank was there included. */
static int wait_open(struct tcr_net *net)
{
    struct tcr_lock *l = net->lock;
    double limit = patience(net), start = tcr_seconds(), looked = 0, gone = 0;
    int left = -1;
    bool opened, failed, others = false;
    bool anew = net->from.before || net->from.ready; /* those who would begin the job do so in vain */

    if (on_exit && !watching_exit)
        on_exit(library_exits, NULL);
    watching_exit = true;
    pthread_mutex_lock(&l->mutex);
    while (!l->opened && tcr_seconds() - start < limit && !(gone && tcr_seconds() - gone > DIED_AFTER) && !others) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&l->changed, &l->mutex, &until);
        if (!l->opened && !gone && !anew && tcr_seconds() - looked > 0.04) {
            looked = tcr_seconds();
            if ((left = tcr_left()) >= 0) {
                gone = looked;
                tcr_accuse(left);
            }
            others = left < 0 && tcr_given_up();
        }
    }
    opened = l->opened;
    failed = opened && l->opening_status;
    pthread_mutex_unlock(&l->mutex);
    if (opened && !failed) {
        opening = NULL;
        return TCC_OK;
    }
    return give_up(net, opened, left);
}

static void net_free(struct tcr_net *net)
{
    if (net->lock) {
        pthread_mutex_destroy(&net->lock->mutex);
        pthread_cond_destroy(&net->lock->changed);
    }
    free(net->lock);
    free(net);
}

/* It has not been opened within the time; where that comes to an end now it may still have gone well. A library that
 * never comes back keeps its thread and what it uses. */
static void leave_opening(struct tcr_net *net)
{
    bool opened;

    tcr_net_lock(net);
    net->lock->stop = true;
    opened = net->lock->opened;
    pthread_cond_broadcast(&net->lock->changed);
    tcr_net_unlock(net);
    if (!opened)
        return;
    pthread_join(net->lock->thread, NULL);
    if (!net->lock->opening_status && !net->joins)
        net->engine->close(net, true);
    tcr_meet_free(net->meeting);
    net_free(net);
}

static int begin(const struct tcr_engine *engine, const struct tccrt_comm_options *options, double timeout,
                 const struct tcr_launch *from, struct tcr_net **out)
{
    struct tcr_net *net = calloc(1, sizeof *net);
    int status;

    *out = NULL;
    if (!net || !(net->lock = calloc(1, sizeof *net->lock))) {
        free(net);
        return tcr_fail(TCC_EENV, "no memory for communication");
    }
    net->engine = engine;
    net->timeout = net->first_timeout = timeout;
    net->elastic = options->elastic;
    if (from)
        net->from = *from;
    net->lock->options = *options;
    pthread_mutex_init(&net->lock->mutex, NULL);
    pthread_cond_init(&net->lock->changed, NULL);
    /* Before the ranks can meet: whoever has met this one looks for its name, once. */
    tcr_launched(engine->launcher);
    tcr_arrive(true);
    if (options->adopt) { /* it runs already: nothing to wait for, and perhaps only this thread may call it */
        net->lock->opening_status = engine->open(net, options);
        snprintf(net->lock->opening_why, sizeof net->lock->opening_why, "%s", tccrt_error());
        net->lock->opened = true;
    }
    net->lock->waiter = pthread_self();
    opening = net;
    if (pthread_create(&net->lock->thread, NULL, serve, net)) {
        opening = NULL;
        tcr_arrive(false);
        net_free(net);
        return tcr_fail(TCC_EENV, "no thread for communication");
    }
    net->lock->running = true;
    if ((status = wait_open(net))) {
        leave_opening(net);
        return status;
    }
    *out = net;
    return TCC_OK;
}

static void stop_thread(struct tcr_net *net)
{
    tcr_net_lock(net);
    net->lock->stop = true;
    pthread_cond_broadcast(&net->lock->changed);
    tcr_net_unlock(net);
    if (net->lock->running)
        pthread_join(net->lock->thread, NULL);
}

int tcr_net_open(const struct tcr_engine *engine, const struct tccrt_comm_options *options, double timeout,
                 const struct tcr_launch *from, struct tcr_net **out)
{
    struct tcr_net *net;
    int status = begin(engine, options, timeout, from, &net);

    *out = NULL;
    if (status)
        return status;
    if (net->joins) {
        stop_thread(net);
        net_free(net);
        return TCC_OK;
    }
    tcr_net_lock(net);
    status = tcr_watch_new(net);
    tcr_net_unlock(net);
    *out = net;
    return status;
}

struct tcr_meeting *tcr_net_leave(struct tcr_net *net)
{
    struct tcr_meeting *m = net->meeting;

    tcr_net_lock(net);
    tcr_net_break(net, false, "the ranks meet anew");
    tcr_net_unlock(net);
    stop_thread(net);
    tcr_watch_free(net);
    net->meeting = NULL;
    net->engine->close(net, true);
    net_free(net);
    return m;
}

/* Waits until all others have ended too; a net that is or gets broken is left behind, after the others had time to hear
 * of it. */
int tcr_net_close(struct tcr_net *net, const char *why)
{
    double start = tcr_seconds();
    int idle = 0, missing = -1, status;
    bool over = false;

    tcr_net_lock(net);
    if (!net->broken)
        tcr_watch_bye(net, why);
    while (!over) {
        tcr_net_progress(net);
        over = net->broken ? tcr_seconds() - start > 1 /* others may be slow to hear of it */
                           : tcr_watch_alone(net, &missing) && tcr_watch_quiet(net);
        tcr_net_unlock(net);
        tcr_pause(&idle);
        tcr_net_lock(net);
    }
    status = tcr_net_status(net);
    tcr_net_unlock(net);
    stop_thread(net);
    if (!status) /* of a broken one others look for this process until it ends */
        tcr_arrive(false);
    tcr_watch_free(net);
    net->engine->close(net, status != TCC_OK);
    if (!status)
        tcr_meet_free(net->meeting);
    net_free(net);
    return status;
}

#define FEW_LOOKS 16 /* before a sleep: what is as good as there */

/* -- Operations ----------------------------------------------------------------------------------------------- */

static int op_tag(const struct tcr_coll *c)
{
    int group = (int)(c->c->id % (1u << (TCR_TAG_BITS - TCR_POINT_BITS))) << TCR_POINT_BITS;

    if (c->kind == TCR_SEND || c->kind == TCR_RECV)
        return group | c->tag;
    return group | (int)(c->c->turn++ % (1u << (TCR_POINT_BITS - 1))) << 1;
}

int tcr_op_start(struct tcr_coll *c, struct tcr_op **out)
{
    struct tcr_net *net = c->c->net;
    struct tcr_op *op = calloc(1, sizeof *op), **last;
    int status;

    *out = NULL;
    if (!op) {
        tcr_coll_free(c);
        return tcr_fail(TCC_EENV, "no memory for %s", tcr_coll_name(c->kind));
    }
    op->net = net;
    op->c = *c;
    op->awaited = -1;
    tcr_work++;
    tcr_net_lock(net);
    if (!(status = tcr_net_status(net))) {
        op->tag = op_tag(c);
        op->since = tcr_seconds();
        if (!(status = tcr_coll_begin(op))) {
            for (last = &net->ops; *last; last = &(*last)->next)
                ;
            *last = op;
            if (!net->threaded)
                tcr_net_progress(net);
            pthread_cond_broadcast(&net->lock->changed);
        }
    }
    tcr_net_unlock(net);
    if (status) {
        tcr_coll_free(&op->c);
        free(op);
        return status;
    }
    if (c->device && c->kind != TCR_JOIN && (status = tcr_peers_give(op))) {
        double ended = 0;

        tcr_op_finish(op, &ended);
        return status;
    }
    *out = op;
    return TCC_OK;
}

void tcr_op_detach(struct tcr_op *op)
{
    struct tcr_net *net = op->net;

    tcr_net_lock(net);
    op->detached = true;
    if (op->done) {
        tcr_coll_free(&op->c);
        free(op);
    }
    tcr_net_unlock(net);
}

bool tcr_op_done(struct tcr_op *op)
{
    bool done;

    tcr_net_lock(op->net);
    if (!op->done)
        tcr_net_progress(op->net);
    done = op->done;
    tcr_net_unlock(op->net);
    return done;
}

int tcr_op_finish(struct tcr_op *op, double *ended)
{
    struct tcr_net *net = op->net;
    int idle = 0, status;

    atomic_fetch_add(&net->waiting, 1);
    while (!tcr_op_done(op)) {
        if (net->engine->rest && ++idle > FEW_LOOKS)
            net->engine->rest(net);
        else
            tcr_pause(&idle);
    }
    atomic_fetch_sub(&net->waiting, 1);
    tcr_net_lock(net);
    status = op->status ? tcr_net_status(net) : TCC_OK;
    tcr_net_unlock(net);
    tcr_work++;
    *ended = op->since * 1e9 > *ended ? op->since * 1e9 : *ended;
    tcr_coll_free(&op->c);
    free(op);
    return status;
}
