/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that know no more than a rank, a size and the address of rank 0 find each other. Rank 0 listens at MASTER_ADDR,
 * on the first free port from MASTER_PORT on; the others try these ports in turn until one answers for their job. Then,
 * over TCP, messages of a head (magic "tcccmeet", kind, length) and a body:
 *
 *   HELLO      from a rank: who it is, of which job and size, and numbers used once (256 bits)
 *   CHALLENGE  from rank 0: numbers of its own; or OTHER: this is another job's rank 0
 *   CARD       from a rank: how long it waits, and its card
 *   TAKEN      from rank 0: it has the card
 *   STAY       from a rank: it has heard so; from here on it is there, and a connection that ends is a rank that is
 *              gone
 *   TABLE      from rank 0: all cards, and numbers used once; or, in its place or TAKEN's, REFUSED: why there is no job
 *   AGAIN      both ways, at the end: a rank has come to the end; all have
 *
 * A world that may lose and take ranks meets again meanwhile (rendezvous_again.c).
 *
 * From CHALLENGE on each message has a seal, HMAC-SHA-256 under a key of that connection and way (rendezvous_key.c),
 * made of the job's secret (TCCC_COMM_SECRET) and of all of HELLO and CHALLENGE. So a rank knows from CHALLENGE's seal
 * that rank 0 knows the secret and has heard it right, and rank 0 from CARD's that the rank does; nothing can be
 * changed, left out, repeated or brought from another connection in between without the seal being wrong, and a wrong
 * seal ends the connection, as any nonsense does, and no more than it. The table is what ranks know each other by; of
 * it and the secret comes the key of the job's other messages (tcr_meet_data_key: UCX's tags have 20 bits of it).
 * Nothing is hidden: whoever hears the exchange can try secrets on it at home, so a secret should be long and random.
 * Without a secret the seals are those of the empty one, which everybody knows.
 *
 * Whatever lengths and counts say is checked before it is believed; strangers hold nobody up (rendezvous_host.c). Heads
 * and numbers are little-endian.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/rendezvous_int.h"

struct addrinfo *tcr_meet_resolve(const char *host, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char service[16];
    int code;

    snprintf(service, sizeof service, "%d", port);
    if ((code = getaddrinfo(host, service, &hints, &list)))
        tcr_fail(TCC_EENV, "MASTER_ADDR=%s: %s", host, gai_strerror(code));
    return code ? NULL : list;
}

void tcr_meet_prepare(int fd)
{
    int yes = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void tcr_meet_pause(void)
{
    struct timespec t = {0, 20000000};

    nanosleep(&t, NULL);
}

uint64_t tcr_meet_job(const struct tcr_launch *l)
{
    const char *run = getenv("TORCHELASTIC_RUN_ID"), *restart = getenv("TORCHELASTIC_RESTART_COUNT");
    char text[512];
    int n = snprintf(text, sizeof text, "%s %d %s %s%s", l->host, l->port, run ? run : "", restart ? restart : "",
                     l->elastic ? " elastic" : "");

    return tcr_xxh3(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

struct tcr_meeting *tcr_meet_new(const struct tcr_launch *l, struct tcr_card mine)
{
    struct tcr_meeting *m = calloc(1, sizeof *m);
    unsigned char *card = malloc(mine.bytes + 1);

    if (!m || !card) {
        free(m);
        free(card);
        return NULL;
    }
    *m = (struct tcr_meeting){.rank = l->rank, .size = l->size, .listening = -1};
    m->elastic = l->elastic;
    m->generation = 1;
    m->job = tcr_meet_job(l);
    m->nlines = l->elastic ? TCR_ELASTIC_RANKS + MEET_STRANGERS : l->rank ? 1 : l->size - 1 + MEET_STRANGERS;
    m->lines = calloc((size_t)m->nlines, sizeof *m->lines);
    m->cards = calloc((size_t)(l->elastic ? TCR_ELASTIC_RANKS : m->size), sizeof *m->cards);
    for (int i = 0; m->lines && i < m->nlines; i++)
        m->lines[i] = (struct line){.fd = -1, .rank = -1, .size = -1};
    if (m->lines && m->cards && l->rank == 0 && !l->before && !l->ready) {
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
    int status = TCC_OK;

    *out = NULL;
    if (mine.bytes > TCR_CARD_BYTES)
        return tcr_fail(TCC_EENV, "%s: this rank's address has %zu bytes, the most is %zu", title, mine.bytes,
                        TCR_CARD_BYTES);
    if (!(m = tcr_meet_new(l, mine)))
        return tcr_fail(TCC_EENV, "no memory to meet %d ranks", l->size);
    if (l->before || l->ready)
        status = tcr_meet_anew(m, l, title, until, limit, mine);
    else if (l->rank)
        status = tcr_meet_visit(m, l, title, until, limit, mine);
    else if (!l->elastic || !(m->waits = tcr_meet_elsewhere(m, l, MEET_PORTS - l->port_taken, mine)))
        /* rank 0 gives up a little earlier, so that the others hear from it who is missing */
        status = tcr_meet_host(m, l, title, until - 0.1 * seconds, limit, mine);
    if (status) {
        tcr_meet_free(m);
        return status;
    }
    m->running = true;
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

bool tcr_meet_place(const struct tcr_meeting *m, int *rank, int *size)
{
    *rank = m->rank;
    *size = m->size;
    return !m->waits;
}

uint32_t tcr_meet_tag(const struct tcr_meeting *m)
{
    uint32_t tag;

    memcpy(&tag, m->data_key, sizeof tag);
    return tag;
}

bool tcr_meet_again(struct tcr_meeting *m)
{
    bool all = true;

    if (!m->again)
        for (int i = 0; i < m->nlines; i++) {
            if (m->elastic && !m->rank && !m->lines[i].member)
                tcr_meet_refuse(&m->lines[i], REFUSED, "the job has ended");
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
