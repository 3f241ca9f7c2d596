/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a meeting (rendezvous.c) but rank 0: try the ports in turn until one proves that it knows the job's
 * secret. Who answers without knowing it, or falls silent, is somebody else's program or a thief, and the next port is
 * tried; until rank 0 says that the card is TAKEN, too.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/rendezvous_int.h"

#define LOOK_SECONDS 2.0 /* that one who listens himself looks for another one who does */

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
    tcr_meet_prepare(fd);
    return fd;
}

/* The next message of rank 0. */
enum pull tcr_meet_await(struct line *l, size_t most, double until)
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
        what = tcr_line_pull(l, most);
    }
    return what;
}

/* The CHALLENGE comes before the keys, which it makes: its seal is looked at here. */
bool tcr_meet_greet(struct tcr_meeting *m, struct line *l, uint64_t job, double seconds, bool *lies)
{
    struct hello h = {.rank = m->rank, .size = m->size, .job = job};
    struct challenge c;

    if (!tcr_meet_once(h.once) || !tcr_line_say(l, HELLO, &h, sizeof h, NULL, 0) ||
        tcr_meet_await(l, sizeof c + TCR_MAC, tcr_seconds() + seconds) != MESSAGE)
        return false;
    if (l->head.kind != CHALLENGE || l->head.bytes != sizeof c + TCR_MAC)
        return false;
    memcpy(&c, l->body, sizeof c);
    tcr_line_keys(l, UP, &h, &c);
    if (tcr_line_unseal(l))
        return true;
    *lies = true;
    return false;
}

/* Tries so many ports in turn. */
bool tcr_meet_try_ports(struct tcr_meeting *m, const struct tcr_launch *l, int ports, struct poll_time t,
                        struct search *s)
{
    struct line *line = &m->lines[0];

    for (int k = 0; k < ports && tcr_seconds() < t.until; k++) {
        int i = l->port_taken + (m->first + k) % ports;
        struct addrinfo *list;

        if (m->listening >= 0 && i == m->port)
            continue;
        if (!(list = tcr_meet_resolve(l->host, l->port + i))) {
            snprintf(s->last, sizeof s->last, "%s", tccrt_error());
            break;
        }
        for (struct addrinfo *a = list; a && line->fd < 0; a = a->ai_next)
            if ((line->fd = call(a, t.patience)) < 0 && i == l->port_taken && !s->lies)
                snprintf(s->last, sizeof s->last, "%s", strerror(errno));
        freeaddrinfo(list);
        if (line->fd >= 0 && tcr_meet_greet(m, line, tcr_meet_job(l), t.patience, &s->lies)) {
            m->first = i - l->port_taken + 1;
            return true;
        }
        tcr_line_hang_up(line);
        if (s->lies)
            snprintf(s->last, sizeof s->last, "who answers there has another TCCC_COMM_SECRET than rank %d", m->rank);
    }
    return false;
}

/* A port may be somebody else's who takes his time to answer: patience grows from round to round. */
static bool find_host(struct tcr_meeting *m, const struct tcr_launch *l, double until, struct search *s)
{
    for (struct poll_time t = {0.5, until}; tcr_seconds() < until; t.patience *= 2) {
        if (tcr_meet_try_ports(m, l, MEET_PORTS - l->port_taken, t, s))
            return true;
        tcr_meet_pause();
    }
    return false;
}

int tcr_meet_read_table(struct tcr_meeting *m, struct line *l)
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
    if (bytes < TCR_MAC || at != bytes - TCR_MAC)
        return tcr_fail(TCC_EENV, "rank 0 sent a damaged table of addresses");
    tcr_meet_data_key(m->table, bytes, m->data_key);
    return TCC_OK;
}

/* What rank 0 says goes to a terminal. */
int tcr_meet_refused(struct line *l)
{
    for (uint32_t i = 0; i < l->head.bytes; i++)
        if (l->body[i] < 0x20 || l->body[i] == 0x7f)
            l->body[i] = '?';
    return tcr_fail(TCC_EENV, "%.300s", (const char *)l->body);
}

/* Gives the card to rank 0, and stays when that has it: MESSAGE, which is TAKEN or REFUSED. Otherwise somebody stands
 * in between who keeps the card to himself, or rank 0 had no room. */
enum pull tcr_meet_hand_over(struct line *line, double seconds, double until, struct tcr_card mine)
{
    struct ticket t = {.left = tcr_seconds() < until ? (uint64_t)((until - tcr_seconds()) * 1e3) : 0};
    enum pull what;

    if (!tcr_line_say(line, CARD, &t, sizeof t, mine.data, mine.bytes))
        return ENDED;
    what = tcr_meet_await(line, sizeof((struct tcr_meeting *)0)->why,
                          tcr_seconds() + seconds < until ? tcr_seconds() + seconds : until);
    if (what == MESSAGE && line->head.kind == TAKEN && !tcr_line_say(line, STAY, NULL, 0, NULL, 0))
        return ENDED;
    return what;
}

bool tcr_meet_elsewhere(struct tcr_meeting *m, const struct tcr_launch *l, int ports, struct tcr_card mine)
{
    struct line line = {.fd = -1, .rank = -1, .size = -1};
    struct tcr_meeting looks = *m;
    struct search s = {.lies = false};
    double until = tcr_seconds() + LOOK_SECONDS;
    uint32_t says = m->size > 0 ? RUNNING : TAKEN; /* to one who would begin a job; to one who was of it */
    bool found = true, runs = false;

    looks.lines = &line;
    looks.first = 0;
    while (found && !runs && tcr_seconds() < until) {
        found = tcr_meet_try_ports(&looks, l, ports, (struct poll_time){0.5, until}, &s);
        runs = found && tcr_meet_hand_over(&line, MEET_SECONDS, tcr_seconds() + MEET_SECONDS, mine) == MESSAGE &&
               line.head.kind == says;
        tcr_line_hang_up(&line);
    }
    if (runs)
        m->first = looks.first - 1;
    return runs;
}

int tcr_meet_visit(struct tcr_meeting *m, const struct tcr_launch *l, const char *title, double until, double limit,
                   struct tcr_card mine)
{
    struct line *line = &m->lines[0];
    size_t most = (size_t)m->size * (4 + TCR_CARD_BYTES) + TCR_MAC;
    struct search s = {.last = "nobody answers"};
    enum pull what = ENDED;

    for (double seconds = MEET_SECONDS; what != MESSAGE; seconds *= 2) {
        tcr_line_hang_up(line);
        if (!find_host(m, l, until, &s))
            return tcr_fail(TCC_EENV,
                            "%s did not start within %g s: rank 0 has not come (MASTER_ADDR=%s, MASTER_PORT=%d: %s)",
                            title, limit, l->host, l->port, s.last);
        what = tcr_meet_hand_over(line, seconds, until, mine);
    }
    if (line->head.kind == TAKEN)
        what = tcr_meet_await(line, most < UINT32_MAX ? most : UINT32_MAX, until);
    if (what == NOTHING)
        return tcr_fail(TCC_EENV, "%s did not start within %g s: rank 0 does not answer", title, limit);
    if (what == ENDED)
        return tcr_fail(TCC_EENV, "%s did not start: rank 0 has died: its connection ended", title);
    if (line->head.kind == RUNNING && l->elastic) {
        m->waits = true;
        return TCC_OK;
    }
    if (line->head.kind == REFUSED)
        return tcr_meet_refused(line);
    if (line->head.kind != TABLE)
        return tcr_fail(TCC_EENV, "rank 0 sent what is no table of addresses");
    return tcr_meet_read_table(m, line);
}
