/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that know no more than a rank, a size and the address of rank 0 find each other. Rank 0 listens at MASTER_ADDR, on the first
 * free port from MASTER_PORT on; the others try these ports in turn until one answers for their job. Then, over TCP:
 *
 *   HELLO      from a rank: who it is, of which job and size, and a number used once
 *   CHALLENGE  from rank 0: a number of its own, and the proof that it knows the job's secret (TCCC_COMM_SECRET)
 *   CARD       from a rank: its proof, and its card
 *   TABLE      from rank 0: all cards; or REFUSED: why there is no job; or OTHER: this is another job's rank 0
 *   AGAIN      both ways, at the end: a rank has come to the end; all have
 *
 * A proof is SipHash-2-4 of both numbers, keyed by the secret (empty: none). It keeps strangers out of the job; it hides nothing.
 * Whatever lengths and counts say is checked before it is believed; strangers that say nothing hold nobody up. A connection that
 * ends before its time is a rank that is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/meet_int.h"

#define PORTS 16     /* that are tried, from MASTER_PORT on */
#define STRANGERS 64 /* connections beyond those of the job's ranks */

struct tcr_meeting {
    int rank, size, listening;
    int nlines;
    struct line *lines; /* rank 0: of all who connect; else one */
    struct tcr_card *cards;
    unsigned char *table; /* what cards lie in, of others than rank 0 */
    int ncards;
    bool again, over; /* the end: said; all have said it */
    int nagain;
    bool died, told; /* rank 0: a rank that had come has ended; those who are there know what is wrong */
    char why[400];
};

static struct addrinfo *resolve(const char *host, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char service[16];
    int code;

    snprintf(service, sizeof service, "%d", port);
    if ((code = getaddrinfo(host, service, &hints, &list)))
        tcr_fail(TCC_EENV, "MASTER_ADDR=%s: %s", host, gai_strerror(code));
    return code ? NULL : list;
}

static void prepare(int fd)
{
    int yes = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static void pause_briefly(void)
{
    struct timespec t = {0, 20000000};

    nanosleep(&t, NULL);
}

/* Tells jobs apart that use the same address: launchers number their runs. */
static uint64_t job_of(const struct tcr_launch *l)
{
    const char *run = getenv("TORCHELASTIC_RUN_ID"), *restart = getenv("TORCHELASTIC_RESTART_COUNT");
    char text[512];
    int n = snprintf(text, sizeof text, "%s %d %s %s", l->host, l->port, run ? run : "", restart ? restart : "");

    return tcr_xxh3(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* -- Rank 0 ------------------------------------------------------------------------------------------------------ */

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
static int open_door(const struct tcr_launch *l)
{
    int error = 0;

    for (int i = l->port_taken; i < PORTS; i++) {
        struct addrinfo *list = resolve(l->host, l->port + i);
        int fd = -1;

        if (!list)
            return -1;
        for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
            fd = listen_on(a);
        error = errno;
        if (fd < 0 && error == EADDRNOTAVAIL && list->ai_family == AF_INET) {
            ((struct sockaddr_in *)list->ai_addr)->sin_addr.s_addr = htonl(INADDR_ANY);
            fd = listen_on(list);
        }
        freeaddrinfo(list);
        if (fd >= 0)
            return fd;
    }
    tcr_fail(TCC_EENV, "rank 0 cannot listen at MASTER_ADDR=%s, ports %d to %d: %s", l->host, l->port,
             l->port + PORTS - 1, strerror(error));
    return -1;
}

static void let_in(struct tcr_meeting *m)
{
    for (;;) {
        int fd = accept4(m->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), i = 0;

        if (fd < 0)
            return;
        while (i < m->nlines && m->lines[i].fd >= 0)
            i++;
        if (i == m->nlines) {
            close(fd);
            continue;
        }
        prepare(fd);
        m->lines[i].fd = fd;
    }
}

/* A rank that must not take part; the text is what it fails with. */
static void refuse(struct line *l, uint32_t kind, const char *why)
{
    if (tcr_line_say(l, kind, why, strlen(why), NULL, 0))
        tcr_line_push(l);
    tcr_line_hang_up(l);
}

static void on_hello(struct line *l, uint64_t job)
{
    struct hello h;
    struct challenge c;

    if (l->head.kind != HELLO || l->head.bytes != sizeof h) {
        tcr_line_hang_up(l);
        return;
    }
    memcpy(&h, l->body, sizeof h);
    if (h.job != job) {
        refuse(l, OTHER, "");
        return;
    }
    if (h.rank < 1 || !tcr_meet_once(l->mine)) {
        tcr_line_hang_up(l);
        return;
    }
    l->rank = h.rank;
    l->size = h.size;
    memcpy(l->theirs, h.once, sizeof l->theirs);
    memcpy(c.once, l->mine, sizeof c.once);
    c.proof = tcr_meet_prove(l->theirs, l->mine, 0);
    if (!tcr_line_say(l, CHALLENGE, &c, sizeof c, NULL, 0))
        tcr_line_hang_up(l);
}

/* The ranks that have waited longest must hear from rank 0 before their time is over. */
static void on_card(struct tcr_meeting *m, struct line *l, double *until)
{
    struct ticket t;
    char why[120];
    double left;

    if (l->head.kind != CARD || l->head.bytes < sizeof t) {
        tcr_line_hang_up(l);
        return;
    }
    memcpy(&t, l->body, sizeof t);
    if (t.proof != tcr_meet_prove(l->mine, l->theirs, 1 + (uint64_t)l->rank)) {
        snprintf(why, sizeof why, "rank %d has another TCCC_COMM_SECRET than rank 0", l->rank);
        refuse(l, REFUSED, why);
        return;
    }
    if (l->size != m->size || l->rank >= m->size) {
        snprintf(m->why, sizeof m->why, "rank %d was started with WORLD_SIZE=%d, rank 0 with WORLD_SIZE=%d", l->rank,
                 l->size, m->size);
        return;
    }
    if (m->cards[l->rank].data) {
        snprintf(why, sizeof why, "two processes were started with RANK=%d", l->rank);
        refuse(l, REFUSED, why);
        return;
    }
    m->cards[l->rank] = (struct tcr_card){l->head.bytes - sizeof t, l->body + sizeof t};
    l->body = NULL; /* the card's now: see tcr_meet_free() */
    l->carded = true;
    m->ncards++;
    if (m->told) {
        refuse(l, REFUSED, m->why);
        return;
    }
    left = tcr_seconds() + 0.9e-3 * (double)t.left - 0.1;
    *until = left < *until ? left : *until;
}

/* What a connection has brought. */
static void serve_line(struct tcr_meeting *m, struct line *l, uint64_t job, double *until)
{
    enum pull what = tcr_line_pull(l, sizeof(struct ticket) + TCR_CARD_BYTES);

    if (what == ENDED) {
        if (l->carded && !m->told) {
            snprintf(m->why, sizeof m->why, "rank %d has died: its connection ended", l->rank);
            m->died = true;
        }
        tcr_line_hang_up(l);
        return;
    }
    if (what == MESSAGE) {
        if (l->rank < 0)
            on_hello(l, job);
        else if (!l->carded)
            on_card(m, l, until);
        else
            tcr_line_hang_up(l); /* it has nothing to say until it has the table */
        tcr_line_next(l);
    }
    if (l->fd >= 0 && !tcr_line_push(l))
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

/* Gives all ranks the table, or the reason why there is none; waits until it has left, not for ever. */
static void answer(struct tcr_meeting *m, bool good, const unsigned char *table, size_t bytes)
{
    double until = tcr_seconds() + 5;
    bool left = false;

    for (int i = 0; i < m->nlines; i++)
        if (m->lines[i].fd >= 0 && m->lines[i].rank >= 0 && (m->lines[i].carded || !good))
            tcr_line_say(&m->lines[i], good ? TABLE : REFUSED, table, bytes, NULL, 0);
    while (!left && tcr_seconds() < until) {
        left = true;
        for (int i = 0; i < m->nlines; i++)
            if (m->lines[i].fd >= 0 && m->lines[i].out < m->lines[i].out_size) {
                if (!tcr_line_push(&m->lines[i]))
                    tcr_line_hang_up(&m->lines[i]);
                left &= m->lines[i].out == m->lines[i].out_size;
            }
        if (!left)
            pause_briefly();
    }
}

/* n numbers of 32 bits, then the cards one after the other. */
static unsigned char *table_of(const struct tcr_meeting *m, size_t *bytes)
{
    size_t n = (size_t)m->size * 4, at = n;
    unsigned char *table;

    for (int r = 0; r < m->size; r++)
        n += m->cards[r].bytes;
    if (n > UINT32_MAX || !(table = malloc(n)))
        return NULL;
    for (int r = 0; r < m->size; r++) {
        uint32_t size = (uint32_t)m->cards[r].bytes;

        memcpy(table + 4 * (size_t)r, &size, 4);
        memcpy(table + at, m->cards[r].data, size);
        at += size;
    }
    *bytes = n;
    return table;
}

/* Until all cards are there, the time is over or something is wrong (m->why). Once those who are there have been told what is wrong, until all others have come,
 * who are told, too. */
static void receive_cards(struct tcr_meeting *m, uint64_t job, double until)
{
    struct pollfd *ready = calloc((size_t)m->nlines + 1, sizeof *ready);

    while (ready && m->ncards < m->size && (!*m->why || m->told) && tcr_seconds() < until) {
        nfds_t n = 0;

        ready[n++] = (struct pollfd){.fd = m->listening, .events = POLLIN};
        for (int i = 0; i < m->nlines; i++)
            if (m->lines[i].fd >= 0)
                ready[n++] = (struct pollfd){.fd = m->lines[i].fd, .events = POLLIN};
        poll(ready, n, 50);
        for (int i = 0; i < m->nlines && (!*m->why || m->told); i++)
            if (m->lines[i].fd >= 0)
                serve_line(m, &m->lines[i], job, &until);
        let_in(m);
    }
    free(ready);
}

static int host(struct tcr_meeting *m, const struct tcr_launch *l, const char *title, double until, double limit)
{
    unsigned char *table;
    size_t bytes = 0;
    char who[200];

    if ((m->listening = open_door(l)) < 0)
        return TCC_EENV;
    receive_cards(m, job_of(l), until);
    if (!*m->why && m->ncards < m->size) {
        absent(m, who, sizeof who);
        snprintf(m->why, sizeof m->why, "%s did not start within %g s: %s not come", title, limit, who);
    } else if (*m->why) {
        snprintf(who, sizeof who, "%.199s", m->why);
        snprintf(m->why, sizeof m->why, "%s did not start: %s", title, who);
    }
    if (*m->why) {
        answer(m, false, (const unsigned char *)m->why, strlen(m->why));
        m->told = true;
        if (m->died) /* who finds nobody here would take rank 0 for the one that is missing */
            receive_cards(m, job_of(l), until);
    }
    close(m->listening);
    m->listening = -1;
    if (*m->why)
        return tcr_fail(TCC_EENV, "%s", m->why);
    if (!(table = table_of(m, &bytes)))
        return tcr_fail(TCC_EENV, "no memory for the addresses of %d ranks", m->size);
    answer(m, true, table, bytes);
    free(table);
    return TCC_OK;
}

/* -- The others -------------------------------------------------------------------------------------------------- */

/* Connects, or the reason in errno; waits for `seconds` at most. */
static int call(const struct addrinfo *a, double seconds)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t size = sizeof error;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};

    if (fd < 0)
        return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
        error = errno;
    else if (poll(&ready, 1, (int)(seconds * 1e3)) <= 0)
        error = ETIMEDOUT;
    else
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    prepare(fd);
    return fd;
}

/* The next message of rank 0. */
static enum pull await(struct line *l, double until)
{
    enum pull what = NOTHING;

    tcr_line_next(l);
    while (what == NOTHING && tcr_seconds() < until) {
        struct pollfd ready = {.fd = l->fd, .events = POLLIN};

        if (l->out < l->out_size)
            ready.events |= POLLOUT;
        poll(&ready, 1, 50);
        if (!tcr_line_push(l))
            return ENDED;
        what = tcr_line_pull(l, UINT32_MAX);
    }
    return what;
}

/* Is the one at the other end rank 0 of this job? It has `seconds` to say so. */
static bool greet(struct tcr_meeting *m, struct line *l, uint64_t job, double seconds)
{
    struct hello h = {.rank = m->rank, .size = m->size, .job = job};
    struct challenge c;

    if (!tcr_meet_once(l->mine))
        return false;
    memcpy(h.once, l->mine, sizeof h.once);
    if (!tcr_line_say(l, HELLO, &h, sizeof h, NULL, 0) || await(l, tcr_seconds() + seconds) != MESSAGE)
        return false;
    if (l->head.kind == REFUSED)
        snprintf(m->why, sizeof m->why, "%s", (const char *)l->body);
    if (l->head.kind != CHALLENGE || l->head.bytes != sizeof c)
        return false;
    memcpy(&c, l->body, sizeof c);
    if (c.proof != tcr_meet_prove(l->mine, c.once, 0)) {
        snprintf(m->why, sizeof m->why, "rank 0 has another TCCC_COMM_SECRET than rank %d", m->rank);
        return false;
    }
    memcpy(l->theirs, c.once, sizeof l->theirs);
    return true;
}

/* Tries the ports in turn. A port may be somebody else's who takes his time to answer: patience grows from round to round. */
static bool find_host(struct tcr_meeting *m, const struct tcr_launch *l, double until, char *last, size_t size)
{
    struct line *line = &m->lines[0];

    for (double patience = 0.5; !*m->why && tcr_seconds() < until; patience *= 2) {
        for (int i = l->port_taken; i < PORTS && !*m->why && tcr_seconds() < until; i++) {
            struct addrinfo *list = resolve(l->host, l->port + i);

            if (!list) {
                snprintf(last, size, "%s", tccrt_error());
                break;
            }
            for (struct addrinfo *a = list; a && line->fd < 0; a = a->ai_next)
                if ((line->fd = call(a, patience)) < 0 && i == l->port_taken)
                    snprintf(last, size, "%s", strerror(errno));
            freeaddrinfo(list);
            if (line->fd >= 0 && greet(m, line, job_of(l), patience))
                return true;
            tcr_line_hang_up(line);
        }
        pause_briefly();
    }
    return false;
}

static int read_table(struct tcr_meeting *m, struct line *l)
{
    size_t at = 4 * (size_t)m->size, bytes = l->head.bytes;

    m->table = l->body;
    l->body = NULL;
    for (int r = 0; r < m->size && at <= bytes; r++) {
        uint32_t size;

        memcpy(&size, m->table + 4 * (size_t)r, 4);
        m->cards[r] = (struct tcr_card){size, m->table + at};
        if (size > TCR_CARD_BYTES || size > bytes - at)
            at = bytes + 1;
        else
            at += size;
    }
    return at == bytes ? TCC_OK : tcr_fail(TCC_EENV, "rank 0 sent a damaged table of addresses");
}

static int visit(struct tcr_meeting *m, const struct tcr_launch *l, const char *title, double until, double limit,
                 struct tcr_card mine)
{
    struct line *line = &m->lines[0];
    char last[200] = "nobody answers";
    struct ticket t;
    enum pull what;

    if (!find_host(m, l, until, last, sizeof last))
        return *m->why
                   ? tcr_fail(TCC_EENV, "%s", m->why)
                   : tcr_fail(TCC_EENV,
                              "%s did not start within %g s: rank 0 has not come (MASTER_ADDR=%s, MASTER_PORT=%d: %s)",
                              title, limit, l->host, l->port, last);
    t.proof = tcr_meet_prove(line->theirs, line->mine, 1 + (uint64_t)m->rank);
    t.left = tcr_seconds() < until ? (uint64_t)((until - tcr_seconds()) * 1e3) : 0;
    if (!tcr_line_say(line, CARD, &t, sizeof t, mine.data, mine.bytes))
        return tcr_fail(TCC_EENV, "no memory for an address");
    what = await(line, until);
    if (what == NOTHING)
        return tcr_fail(TCC_EENV, "%s did not start within %g s: rank 0 does not answer", title, limit);
    if (what == ENDED)
        return tcr_fail(TCC_EENV, "%s did not start: rank 0 has died: its connection ended", title);
    if (line->head.kind == REFUSED)
        return tcr_fail(TCC_EENV, "%.300s", (const char *)line->body);
    if (line->head.kind != TABLE)
        return tcr_fail(TCC_EENV, "rank 0 sent what is no table of addresses");
    return read_table(m, line);
}

/* -- Both --------------------------------------------------------------------------------------------------------- */

static struct tcr_meeting *meeting_new(const struct tcr_launch *l, struct tcr_card mine)
{
    struct tcr_meeting *m = calloc(1, sizeof *m);
    unsigned char *card = malloc(mine.bytes + 1);

    if (!m || !card) {
        free(m);
        free(card);
        return NULL;
    }
    *m = (struct tcr_meeting){.rank = l->rank, .size = l->size, .listening = -1};
    m->nlines = l->rank ? 1 : l->size - 1 + STRANGERS;
    m->lines = calloc((size_t)m->nlines, sizeof *m->lines);
    m->cards = calloc((size_t)m->size, sizeof *m->cards);
    for (int i = 0; m->lines && i < m->nlines; i++)
        m->lines[i] = (struct line){.fd = -1, .rank = -1, .size = -1};
    if (m->lines && m->cards && l->rank == 0) {
        memcpy(card, mine.data, mine.bytes);
        m->cards[0] = (struct tcr_card){mine.bytes, card};
        m->ncards = 1;
    } else {
        free(card);
    }
    if (m->lines && m->cards)
        return m;
    tcr_meet_free(m);
    return NULL;
}

int tcr_meet(const struct tcr_launch *l, const char *title, double seconds, double limit, struct tcr_card mine,
             struct tcr_meeting **out, const struct tcr_card **cards)
{
    double until = tcr_seconds() + seconds;
    struct tcr_meeting *m;
    int status;

    *out = NULL;
    if (mine.bytes > TCR_CARD_BYTES)
        return tcr_fail(TCC_EENV, "%s: this rank's address has %zu bytes, the most is %zu", title, mine.bytes,
                        TCR_CARD_BYTES);
    if (!(m = meeting_new(l, mine)))
        return tcr_fail(TCC_EENV, "no memory to meet %d ranks", l->size);
    /* rank 0 gives up a little earlier, so that the others hear from it who is missing */
    status = l->rank ? visit(m, l, title, until, limit, mine) : host(m, l, title, until - 0.1 * seconds, limit);
    if (status) {
        tcr_meet_free(m);
        return status;
    }
    *out = m;
    *cards = m->cards;
    return TCC_OK;
}

/* A connection at the end: has the other one said AGAIN, or gone? */
static bool came_again(struct line *l)
{
    enum pull what = l->fd < 0 ? ENDED : tcr_line_pull(l, 0);

    if (what == NOTHING)
        return false;
    if (what == MESSAGE)
        tcr_line_next(l);
    return true;
}

bool tcr_meet_again(struct tcr_meeting *m)
{
    bool all = true;

    if (!m->again)
        for (int i = 0; i < m->nlines; i++) {
            m->lines[i].carded = false; /* from here on: has come to the end */
            tcr_line_next(&m->lines[i]);
            if (m->rank && m->lines[i].fd >= 0 && tcr_line_say(&m->lines[i], AGAIN, NULL, 0, NULL, 0))
                tcr_line_push(&m->lines[i]);
        }
    m->again = true;
    for (int i = 0; i < m->nlines && !m->over; i++) {
        struct line *l = &m->lines[i];

        l->carded = l->carded || came_again(l);
        all &= l->carded;
    }
    if (all && !m->over && !m->rank)
        for (int i = 0; i < m->nlines; i++)
            if (m->lines[i].fd >= 0 && tcr_line_say(&m->lines[i], AGAIN, NULL, 0, NULL, 0))
                tcr_line_push(&m->lines[i]);
    m->over |= all;
    return m->over;
}

void tcr_meet_free(struct tcr_meeting *m)
{
    if (!m)
        return;
    if (m->listening >= 0)
        close(m->listening);
    for (int i = 0; m->lines && i < m->nlines; i++)
        tcr_line_hang_up(&m->lines[i]);
    for (int r = 0; m->cards && !m->table && r < m->size;
         r++) /* rank 0's: a block each, a ticket before the others' cards */
        if (m->cards[r].data)
            free((void *)(m->cards[r].data - (r ? sizeof(struct ticket) : 0)));
    free(m->table);
    free(m->cards);
    free(m->lines);
    free(m);
}
