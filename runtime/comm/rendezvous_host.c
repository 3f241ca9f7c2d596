/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 of a meeting (rendezvous.c): listens, and gives everybody the table, or the reason why there is none.
 *
 * Whoever connects is a stranger until his card has come under the right seal, and a rank when he says that he stays.
 * There is room for MEET_STRANGERS of them at a time, each has MEET_SECONDS; where one more comes, the one who is least
 * likely to be a rank goes: of those that have said nothing the one who came first. A rank says HELLO with its first
 * packet, so any number of silent connections delays none. What strangers send can end their connection and nothing
 * else.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/rendezvous_int.h"

static int listen_on(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1, code;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1024)) {
        code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

/* The first free port; where the address is no interface's here (a translated one), on all interfaces. */
bool tcr_meet_open_door(struct tcr_meeting *m, const struct tcr_launch *l, bool anywhere)
{
    int error = 0;

    for (int i = l->port_taken; i < MEET_PORTS; i++) {
        struct addrinfo *list = tcr_meet_resolve(l->host, l->port + i);
        int fd = -1;

        if (!list)
            return false;
        for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
            fd = listen_on(a);
        error = errno;
        if (fd < 0 && error == EADDRNOTAVAIL && anywhere && list->ai_family == AF_INET) {
            ((struct sockaddr_in *)list->ai_addr)->sin_addr.s_addr = htonl(INADDR_ANY);
            fd = listen_on(list);
        }
        freeaddrinfo(list);
        m->listening = fd;
        m->port = i;
        if (fd >= 0)
            return true;
    }
    tcr_fail(TCC_EENV, "rank 0 cannot listen at MASTER_ADDR=%s, ports %d to %d: %s", l->host, l->port,
             l->port + MEET_PORTS - 1, strerror(error));
    return false;
}

void tcr_meet_close_door(struct tcr_meeting *m)
{
    close(m->listening);
    m->listening = -1;
    for (int i = 0; i < m->nlines; i++)
        tcr_line_hang_up(&m->lines[i]);
}

/* The stranger who has to make room: one who has said nothing, else one who has; of these who came first. NULL: there
 * is none. */
static struct line *least_likely(struct tcr_meeting *m)
{
    struct line *worst = NULL;

    for (int i = 0; i < m->nlines; i++) {
        struct line *l = &m->lines[i];
        bool silent = l->rank < 0, than = worst && worst->rank < 0;

        if (l->fd < 0 || l->carded || l->card)
            continue;
        if (!worst || silent > than || (silent == than && l->since < worst->since))
            worst = l;
    }
    return worst;
}

/* Room for one more, of which there is always some: as many lines as ranks, and strangers. */
static struct line *make_room(struct tcr_meeting *m)
{
    struct line *l, *unused = NULL;
    int strangers = 0;

    for (int i = 0; i < m->nlines; i++) {
        if (m->lines[i].fd < 0)
            unused = &m->lines[i];
        else
            strangers += !m->lines[i].carded && !m->lines[i].card;
    }
    if (unused && strangers < MEET_STRANGERS)
        return unused;
    if ((l = least_likely(m)))
        tcr_line_hang_up(l);
    return l;
}

/* taken before those that are there are served again: none goes before it was heard */
#define AT_ONCE (MEET_STRANGERS / 2)

void tcr_meet_let_in(struct tcr_meeting *m)
{
    for (int n = 0; n < AT_ONCE; n++) {
        int fd = accept4(m->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct line *l;

        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && (l = least_likely(m))) {
            tcr_line_hang_up(l);
            continue;
        }
        if (fd < 0 && errno != ECONNABORTED && errno != EINTR)
            return;
        if (fd < 0)
            continue;
        if (!(l = make_room(m))) {
            close(fd);
            continue;
        }
        tcr_meet_prepare(fd);
        l->fd = fd;
        l->since = tcr_seconds();
        l->rank = l->size = -1;
    }
}

void tcr_meet_refuse(struct line *l, uint32_t kind, const char *why)
{
    if (l->fd >= 0 && tcr_line_say(l, kind, why, strlen(why), NULL, 0))
        tcr_line_push(l);
    tcr_line_hang_up(l);
}

static void on_hello(const struct tcr_meeting *m, struct line *l, uint64_t job)
{
    struct hello h;
    struct challenge c;

    if (l->head.kind != HELLO || l->head.bytes != sizeof h) {
        tcr_line_hang_up(l);
        return;
    }
    memcpy(&h, l->body, sizeof h);
    if (h.job != job) {
        tcr_meet_refuse(l, OTHER, "");
        return;
    }
    if (h.rank < !m->elastic || !tcr_meet_once(c.once)) {
        tcr_line_hang_up(l);
        return;
    }
    l->rank = h.rank;
    l->size = h.size;
    tcr_line_keys(l, DOWN, &h, &c);
    if (!tcr_line_say(l, CHALLENGE, &c, sizeof c, NULL, 0))
        tcr_line_hang_up(l);
}

/* Its seal was right: a process that knows the secret. */
static void on_card(struct tcr_meeting *m, struct line *l)
{
    if (l->head.kind != CARD || l->head.bytes < sizeof(struct ticket)) {
        tcr_line_hang_up(l);
        return;
    }
    if (m->elastic && l->size > 0 && m->running) { /* it gets ready, and comes again */
        tcr_meet_refuse(l, RUNNING, "");
        return;
    }
    if (m->elastic && l->size <= 0 && !m->running) { /* of a job that runs: its ranks look for each other */
        m->yields = true;
        tcr_meet_refuse(l, OTHER, "");
        return;
    }
    if (!m->running && (l->size != m->size || l->rank >= m->size)) {
        snprintf(m->why, sizeof m->why, "rank %d was started with WORLD_SIZE=%d, rank 0 with WORLD_SIZE=%d", l->rank,
                 l->size, m->size);
        return;
    }
    l->card = l->body;
    l->card_bytes = l->head.bytes;
    l->body = NULL;
    if (!tcr_line_say(l, TAKEN, NULL, 0, NULL, 0))
        tcr_line_hang_up(l);
}

/* It has heard that rank 0 has its card. The ranks that have waited longest must hear from rank 0 before their time is
 * over. */
static void on_stay(struct tcr_meeting *m, struct line *l, double *until)
{
    struct ticket t;
    char why[120];
    double left;

    if (l->head.kind != STAY || l->head.bytes) {
        tcr_line_hang_up(l);
        return;
    }
    if (m->running) { /* the card is the line's until the next world begins */
        l->carded = true;
        return;
    }
    if (m->cards[l->rank].data) {
        snprintf(why, sizeof why, "two processes were started with RANK=%d", l->rank);
        tcr_meet_refuse(l, REFUSED, why);
        return;
    }
    memcpy(&t, l->card, sizeof t);
    m->cards[l->rank] = (struct tcr_card){l->card_bytes - sizeof t, l->card + sizeof t};
    l->card = NULL; /* the meeting's now: see tcr_meet_free() */
    l->carded = true;
    m->ncards++;
    if (m->told) {
        tcr_meet_refuse(l, REFUSED, m->why);
        return;
    }
    left = tcr_seconds() + 0.9e-3 * (double)t.left - 0.1;
    *until = left < *until ? left : *until;
}

static void on_end(struct tcr_meeting *m, struct line *l)
{
    if (l->carded && !m->told && !m->running) {
        snprintf(m->why, sizeof m->why, "rank %d has died: its connection ended", l->rank);
        m->died = true;
    } else if (l->sealed && !l->carded && !l->card && l->body && l->in == sizeof l->head + l->head.bytes &&
               l->rank < m->size) {
        m->impostor = l->rank; /* a whole message, whose seal is wrong */
    }
    tcr_line_hang_up(l);
}

void tcr_meet_serve(struct tcr_meeting *m, struct line *l, uint64_t job, double *until)
{
    size_t most = l->rank < 0            ? sizeof(struct hello)
                  : l->carded || l->card ? 0
                                         : sizeof(struct ticket) + TCR_CARD_BYTES;
    enum pull what = tcr_line_pull(l, most);

    if (what == ENDED) {
        on_end(m, l);
        return;
    }
    if (what == MESSAGE) {
        if (l->rank < 0)
            on_hello(m, l, job);
        else if (!l->carded && !l->card)
            on_card(m, l);
        else if (!l->carded)
            on_stay(m, l, until);
        else
            on_end(m, l); /* it has nothing to say until it has the table */
        tcr_line_next(l);
    }
    if (l->fd >= 0 && !tcr_line_push(l))
        on_end(m, l);
    if (l->fd >= 0 && !l->carded && !l->card && tcr_seconds() - l->since > MEET_SECONDS)
        tcr_line_hang_up(l);
}

/* "rank 1 has", "ranks 1, 3 and 20 more have" */
static void absent(const struct tcr_meeting *m, char *text, size_t size)
{
    int missing = m->size - m->ncards, named = 0;
    size_t n = (size_t)snprintf(text, size, missing == 1 ? "rank" : "ranks");

    for (int r = 0; r < m->size && named < 16; r++)
        if (!m->cards[r].data)
            n += (size_t)snprintf(text + n, size - n, "%s %d", named++ ? "," : "", r);
    if (missing > named)
        n += (size_t)snprintf(text + n, size - n, " and %d more", missing - named);
    snprintf(text + n, size - n, missing == 1 ? " has" : " have");
}

/* Gives all ranks the table, or the reason why there is none; waits until it has left, not for ever, and for no
 * stranger. */
static void answer(struct tcr_meeting *m, bool good, const unsigned char *table, size_t bytes)
{
    double until = tcr_seconds() + 5;
    bool left = false;

    for (int i = 0; i < m->nlines; i++)
        if (m->lines[i].fd >= 0 && m->lines[i].sealed && (m->lines[i].carded || !good))
            tcr_line_say(&m->lines[i], good ? TABLE : REFUSED, table, bytes, NULL, 0);
    while (!left && tcr_seconds() < until) {
        left = true;
        for (int i = 0; i < m->nlines; i++)
            if (m->lines[i].fd >= 0 && m->lines[i].out < m->lines[i].out_size) {
                if (!tcr_line_push(&m->lines[i]))
                    tcr_line_hang_up(&m->lines[i]);
                left &= m->lines[i].out == m->lines[i].out_size || !m->lines[i].carded;
            }
        if (!left)
            tcr_meet_pause();
    }
}

/* The strangers that are left. */
static void clear_room(struct tcr_meeting *m)
{
    for (int i = 0; i < m->nlines; i++)
        if (m->lines[i].fd >= 0 && !m->lines[i].carded)
            tcr_line_hang_up(&m->lines[i]);
}

/* n numbers of 32 bits, the cards one after the other, and numbers used once, so that no two jobs have one table. */
unsigned char *tcr_meet_table(const struct tcr_meeting *m, size_t *bytes)
{
    size_t n = (size_t)m->size * 4 + TCR_MAC, at = (size_t)m->size * 4;
    unsigned char *table;

    for (int r = 0; r < m->size; r++)
        n += m->cards[r].bytes;
    if (n > UINT32_MAX - TCR_MAC || !(table = malloc(n)))
        return NULL;
    for (int r = 0; r < m->size; r++) {
        uint32_t size = (uint32_t)m->cards[r].bytes;

        memcpy(table + 4 * (size_t)r, &size, 4);
        memcpy(table + at, m->cards[r].data, size);
        at += size;
    }
    if (!tcr_meet_once(table + at)) {
        free(table);
        return NULL;
    }
    *bytes = n;
    return table;
}

void tcr_meet_wait(const struct tcr_meeting *m, struct pollfd *ready, int milliseconds)
{
    nfds_t n = 0;

    ready[n++] = (struct pollfd){.fd = m->listening, .events = POLLIN};
    for (int i = 0; i < m->nlines; i++)
        if (m->lines[i].fd >= 0)
            ready[n++] = (struct pollfd){.fd = m->lines[i].fd, .events = POLLIN};
    poll(ready, n, milliseconds);
}

/* Until all cards are there, the time is over or something is wrong (m->why). Once those who are there have been told
 * what is wrong, until all others have come, who are told, too. `look` (0: never): after so many seconds, and less
 * and less often then, it is looked whether the job runs already: who is rank 0 there may have been slow to answer. */
static void receive_cards(struct tcr_meeting *m, const struct tcr_launch *l, double until, double look,
                          struct tcr_card mine)
{
    struct pollfd *ready = calloc((size_t)m->nlines + 1, sizeof *ready);
    uint64_t job = tcr_meet_job(l);
    double looks = tcr_seconds() + look;

    while (ready && m->ncards < m->size && (!*m->why || m->told) && !m->yields && tcr_seconds() < until) {
        tcr_meet_wait(m, ready, 50);
        for (int i = 0; i < m->nlines && (!*m->why || m->told); i++)
            if (m->lines[i].fd >= 0)
                tcr_meet_serve(m, &m->lines[i], job, &until);
        tcr_meet_let_in(m);
        if (look > 0 && tcr_seconds() > looks) {
            m->yields |= tcr_meet_elsewhere(m, l, MEET_PORTS - l->port_taken, mine);
            looks = tcr_seconds() + (look *= 2);
        }
    }
    free(ready);
}

/* The job runs already: all who have come get ready and come again, as this process does. */
static void tell_running(struct tcr_meeting *m)
{
    for (int i = 0; i < m->nlines; i++)
        if (m->lines[i].fd >= 0 && m->lines[i].carded)
            tcr_meet_refuse(&m->lines[i], RUNNING, "");
    tcr_meet_close_door(m);
    m->waits = true;
}

/* Why there is no job, where there is none. */
static void conclude(struct tcr_meeting *m, const char *title, double limit)
{
    char who[200];
    int n;

    if (*m->why) {
        snprintf(who, sizeof who, "%.199s", m->why);
        snprintf(m->why, sizeof m->why, "%s did not start: %s", title, who);
    } else if (m->ncards < m->size) {
        absent(m, who, sizeof who);
        n = snprintf(m->why, sizeof m->why, "%s did not start within %g s: %s not come", title, limit, who);
        if (m->impostor && n < (int)sizeof m->why)
            snprintf(m->why + n, sizeof m->why - (size_t)n,
                     "; a process that says it is rank %d has another TCCC_COMM_SECRET than rank 0", m->impostor);
    }
}

int tcr_meet_host(struct tcr_meeting *m, const struct tcr_launch *l, const char *title, double until, double limit,
                  struct tcr_card mine)
{
    unsigned char *table;
    size_t bytes = 0;

    if (!tcr_meet_open_door(m, l, true))
        return TCC_EENV;
    receive_cards(m, l, until, l->elastic ? limit / 8 : 0, mine);
    if (m->yields) {
        tell_running(m);
        return TCC_OK;
    }
    conclude(m, title, limit);
    if (*m->why) {
        answer(m, false, (const unsigned char *)m->why, strlen(m->why));
        m->told = true;
        if (m->died) /* who finds nobody here would take rank 0 for the one that is missing */
            receive_cards(m, l, until, 0, mine);
    }
    if (*m->why || !m->elastic) {
        close(m->listening);
        m->listening = -1;
    }
    if (*m->why)
        return tcr_fail(TCC_EENV, "%s", m->why);
    if (!(table = tcr_meet_table(m, &bytes)))
        return tcr_fail(TCC_EENV, "no memory for the addresses of %d ranks", m->size);
    answer(m, true, table, bytes);
    clear_room(m);
    for (int i = 0; i < m->nlines; i++)
        m->lines[i].member = m->lines[i].carded;
    tcr_meet_data_key(table, bytes, m->data_key);
    free(table);
    return TCC_OK;
}
