/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of an elastic world (tccrt_comm_regroup) meet anew when one of them has died, or a process has come to join.
 * Until then the connections of the meeting before (rendezvous.c) stay: one that ends is a rank that is gone, and rank
 * 0 goes on listening.
 *
 *   HELLO    its size says what for: WORLD_SIZE, to begin a job; 0, to join one; -G, to be of its world number G, by
 *            one who was of number G - 1
 *   RUNNING  in TAKEN's place, to one who would begin a job that runs: it gets ready, and comes again to join
 *   NEXT     from rank 0 to its ranks: they meet anew
 *   TABLE    has a head: who the rank has become, of how many
 *
 * What a process is, and what ends it:
 *
 *   begins   it waits for all ranks of a new job (rendezvous.c). A rank of the job answers RUNNING, asked now and
 *            then since it may be slow, or comes itself and is told OTHER: it joins
 *   member   of a world; a connection that ends, NEXT or a member's HELLO: it meets the others
 *   meets    tries the ports in turn for one who hosts. Rank 0 is gone, and it is this rank's turn: it hosts
 *   hosts    listens until all members are there or the time limit is over, and is rank 0 of the next world. It gives
 *            way to one at a lower port, and, where nobody has come, to any; but only to one who takes its card: one
 *            who begins answers, too, and has no state
 *   joins    tries the ports in turn and never hosts: it has no state. Nobody answers for three time limits: the job
 *            has ended. So does who was rank 0 and has given way
 *
 * tests/dist/regroup.py has each of them die or stand still at each message of these.
 *
 * A rank that finds another one gone says HELLO to rank 0, where that lives; rank 0 hears so (tcr_meet_tend) and says
 * NEXT to all. It waits for those whose connections have not ended, as long as for any rank, and gives the table to
 * them and to all who wait. If it is rank 0 that is gone, the first of the others that can listen at MASTER_ADDR takes
 * its place: each looks for one that has, and the higher its rank the longer it looks before it listens itself. Of two
 * that begin to listen at once the one at the higher port finds the other, and goes there.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/rendezvous_int.h"

#define TURN_SECONDS 0.2 /* from one rank's turn to listen to the next one's */
#define GIVE_UP 3        /* time limits without anybody who is rank 0 */
#define LOOK_AGAIN 0.5   /* seconds until one who has taken rank 0's place looks again whether another one has */

struct anew {
    int32_t rank, size, generation;
}; /* before a table */

/* -- While a world lasts ------------------------------------------------------------------------------------------- */

/* What rank 0 has said goes: that it has said anything is what counts. */
static void hear_host(struct tcr_meeting *m)
{
    char heard[256];
    ssize_t n;

    if (m->lines[0].gone)
        return;
    while ((n = recv(m->lines[0].fd, heard, sizeof heard, MSG_DONTWAIT)) > 0)
        m->next = true;
    m->lines[0].gone = !n || (errno != EAGAIN && errno != EINTR);
}

static void look_at_member(struct line *l)
{
    char byte;
    ssize_t n = l->gone ? 0 : recv(l->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

    l->gone = !n || (n < 0 && errno != EAGAIN && errno != EINTR);
}

bool tcr_meet_tend(struct tcr_meeting *m)
{
    double until = tcr_seconds() + 1;

    if (m->rank) {
        hear_host(m);
        return m->next;
    }
    tcr_meet_let_in(m);
    for (int i = 0; i < m->nlines; i++) {
        struct line *l = &m->lines[i];

        if (l->fd >= 0 && l->member)
            look_at_member(l);
        else if (l->fd >= 0)
            tcr_meet_serve(m, l, m->job, &until);
        m->next |= l->carded && !l->member && l->size == -(m->generation + 1);
    }
    return m->next;
}

/* rank 0's line of a rank; NULL: none */
static struct line *line_of(const struct tcr_meeting *m, int rank)
{
    for (int i = 0; i < m->nlines; i++)
        if (m->lines[i].member && m->lines[i].rank == rank)
            return &m->lines[i];
    return NULL;
}

bool tcr_meet_gone(const struct tcr_meeting *m, int rank)
{
    const struct line *l = m->rank ? &m->lines[0] : line_of(m, rank);

    return rank != m->rank && (!m->rank || !rank) && l && l->gone;
}

int tcr_meet_waiting(const struct tcr_meeting *m)
{
    int n = 0;

    for (int i = 0; i < m->nlines && !m->rank; i++)
        n += m->lines[i].carded && !m->lines[i].member;
    return n;
}

/* -- Rank 0 ---------------------------------------------------------------------------------------------------- */

/* Who was rank 0 goes on being it: all who have come since stay, all its ranks are told to come. */
static void go_on(struct tcr_meeting *m, struct tcr_meeting *before)
{
    m->listening = before->listening;
    m->port = before->port;
    before->listening = -1;
    for (int i = 0; i < before->nlines; i++) {
        struct line *l = &before->lines[i];

        if (l->fd >= 0 && !l->member) {
            m->lines[i] = *l;
            *l = (struct line){.fd = -1, .rank = -1, .size = -1};
        } else if (l->fd >= 0 && !l->gone && tcr_line_say(l, NEXT, NULL, 0, NULL, 0)) {
            tcr_line_push(l);
        }
    }
}

/* Who has come as that rank of the world before. */
static struct line *came_as(struct tcr_meeting *m, int rank)
{
    for (int i = 0; i < m->nlines; i++)
        if (m->lines[i].carded && m->lines[i].size == -m->generation && m->lines[i].rank == rank)
            return &m->lines[i];
    return NULL;
}

/* Is a rank of the world before still to come? */
static bool awaits(struct tcr_meeting *m, struct tcr_meeting *before)
{
    for (int r = 0; r < before->size; r++) {
        struct line *l = before->rank ? NULL : line_of(before, r);

        if (l && l->fd >= 0)
            look_at_member(l);
        if (r != before->rank && !came_as(m, r) && !(before->rank ? r == 0 : l && l->gone))
            return true;
    }
    return false;
}

/* Until all are there, or the time is over. False: another one has taken rank 0's place, too, at a lower port, and has
 * been slow to answer. */
static bool hear_all(struct tcr_meeting *m, const struct tcr_launch *l, double until, struct tcr_card mine)
{
    struct pollfd *ready = calloc((size_t)m->nlines + 1, sizeof *ready);
    double looks = tcr_seconds() + LOOK_AGAIN;
    bool other = false;

    while (ready && !other && awaits(m, l->before) && tcr_seconds() < until) {
        tcr_meet_wait(m, ready, 10);
        for (int i = 0; i < m->nlines; i++)
            if (m->lines[i].fd >= 0)
                tcr_meet_serve(m, &m->lines[i], m->job, &until);
        tcr_meet_let_in(m);
        if (l->before->rank && m->port > l->port_taken && tcr_seconds() > looks) {
            other = tcr_meet_elsewhere(m, l, m->port - l->port_taken, mine);
            looks = tcr_seconds() + LOOK_AGAIN;
        }
    }
    free(ready);
    return !other;
}

static void add(struct tcr_meeting *m, struct line *l)
{
    if (m->size == TCR_ELASTIC_RANKS)
        return;
    m->cards[m->size] = (struct tcr_card){l->card_bytes - sizeof(struct ticket), l->card + sizeof(struct ticket)};
    l->card = NULL; /* the meeting's now: see tcr_meet_free() */
    l->rank = m->size++;
    l->member = true;
}

/* Ranks of the world before in their order, then whoever has come since. */
static int number_all(struct tcr_meeting *m, const struct tcr_meeting *before, struct tcr_card mine)
{
    unsigned char *card = malloc(mine.bytes + 1);
    int size = before->size;

    if (!card)
        return tcr_fail(TCC_EENV, "no memory for an address");
    memcpy(card, mine.data, mine.bytes);
    m->cards[0] = (struct tcr_card){mine.bytes, card};
    m->rank = 0;
    m->size = 1;
    for (int r = 0; r < size; r++) {
        struct line *l = came_as(m, r);

        if (l && !l->member)
            add(m, l);
    }
    for (int i = 0; i < m->nlines; i++)
        if (m->lines[i].carded && !m->lines[i].member)
            add(m, &m->lines[i]);
    return TCC_OK;
}

/* To all ranks; waits until it has left, not for ever. */
static void give(struct tcr_meeting *m, uint32_t kind, const void *bytes, size_t n)
{
    double until = tcr_seconds() + 5;
    bool left = false;

    for (int i = 0; i < m->nlines; i++) {
        struct anew head = {m->lines[i].rank, m->size, m->generation};

        if (m->lines[i].member)
            tcr_line_say(&m->lines[i], kind, &head, kind == TABLE ? sizeof head : 0, bytes, n);
    }
    while (!left && tcr_seconds() < until) {
        left = true;
        for (int i = 0; i < m->nlines; i++)
            if (m->lines[i].member && !m->lines[i].gone && m->lines[i].out < m->lines[i].out_size) {
                m->lines[i].gone = !tcr_line_push(&m->lines[i]);
                left &= m->lines[i].gone || m->lines[i].out == m->lines[i].out_size;
            }
        if (!left)
            tcr_meet_pause();
    }
}

static int host(struct tcr_meeting *m, const struct tcr_launch *l, struct tcr_card mine)
{
    unsigned char *table;
    size_t bytes = 0;
    int status;

    if ((status = number_all(m, l->before, mine)))
        return status;
    if (m->size < l->least) {
        snprintf(m->why, sizeof m->why, "of %d ranks %d %s left: the job goes on with no less than %d", l->before->size,
                 m->size, m->size == 1 ? "is" : "are", l->least);
        give(m, REFUSED, m->why, strlen(m->why));
        return tcr_fail(TCC_EENV, "%s", m->why);
    }
    if (!(table = tcr_meet_table(m, &bytes)))
        return tcr_fail(TCC_EENV, "no memory for the addresses of %d ranks", m->size);
    give(m, TABLE, table, bytes);
    tcr_meet_data_key(table, bytes, m->data_key);
    free(table);
    return TCC_OK;
}

/* To whom nobody has come: have the others gone on at another port? Then it goes there. */
static bool is_left_behind(struct tcr_meeting *m, const struct tcr_launch *l, struct tcr_card mine)
{
    for (int r = 0; r < l->before->size; r++)
        if (came_as(m, r))
            return false;
    return tcr_meet_elsewhere(m, l, MEET_PORTS - l->port_taken, mine);
}

/* Rank 0, or in its place; false: another one is. */
static bool hosts(struct tcr_meeting *m, const struct tcr_launch *l, double limit, struct tcr_card mine, int *status)
{
    if (!hear_all(m, l, tcr_seconds() + limit, mine) || is_left_behind(m, l, mine)) {
        tcr_meet_close_door(m);
        return false;
    }
    *status = host(m, l, mine);
    return true;
}

/* -- The others ------------------------------------------------------------------------------------------------ */

int tcr_meet_read_anew(struct tcr_meeting *m, struct line *l)
{
    struct anew head;

    if (l->head.bytes < sizeof head)
        return tcr_fail(TCC_EENV, "rank 0 sent a damaged table of addresses");
    memcpy(&head, l->body, sizeof head);
    l->head.bytes -= (uint32_t)sizeof head;
    memmove(l->body, l->body + sizeof head, l->head.bytes);
    if (head.size < 2 || head.size > TCR_ELASTIC_RANKS || head.rank < 1 || head.rank >= head.size)
        return tcr_fail(TCC_EENV, "rank 0 sent a damaged table of addresses");
    m->rank = head.rank;
    m->size = head.size;
    m->generation = head.generation;
    return tcr_meet_read_table(m, l);
}

/* To whom rank 0 is; true: *status says how it has ended. *heard: when somebody was rank 0 last. */
static bool visit(struct tcr_meeting *m, const struct tcr_launch *l, double until, struct tcr_card mine, double *heard,
                  int *status)
{
    const size_t most = sizeof(struct anew) + TCR_ELASTIC_RANKS * (4 + TCR_CARD_BYTES) + TCR_MAC;
    struct line *line = &m->lines[0];
    struct search s = {.lies = false};
    enum pull what = ENDED;

    if (tcr_meet_try_ports(m, l, MEET_PORTS - l->port_taken, (struct poll_time){MEET_SECONDS, until}, &s))
        what = tcr_meet_hand_over(line, MEET_SECONDS, until, mine);
    if (what == MESSAGE && line->head.kind == TAKEN)
        what = tcr_meet_await(line, most, until);
    *heard = line->sealed ? tcr_seconds() : *heard;
    if (what == MESSAGE && (line->head.kind == TABLE || line->head.kind == REFUSED)) {
        *status = line->head.kind == TABLE ? tcr_meet_read_anew(m, line) : tcr_meet_refused(line);
        tcr_line_next(line);
        return true;
    }
    tcr_line_hang_up(line);
    return false;
}

/* Rank 0 is gone, and this rank's turn has come: can it listen, and has nobody begun to before? */
static bool takes_over(struct tcr_meeting *m, const struct tcr_launch *l, double waited, struct tcr_card mine)
{
    bool other;

    hear_host(l->before);
    if (!l->before->lines[0].gone || waited < TURN_SECONDS * (l->before->rank - 1) || !tcr_meet_open_door(m, l, false))
        return false;
    other = m->port > l->port_taken && tcr_meet_elsewhere(m, l, m->port - l->port_taken, mine);
    if (other)
        tcr_meet_close_door(m);
    return !other;
}

/* It lives, and has not answered for so long. */
static void leave_host(struct tcr_meeting *before)
{
    tcr_line_hang_up(&before->lines[0]);
    before->lines[0].gone = true;
}

int tcr_meet_anew(struct tcr_meeting *m, const struct tcr_launch *l, const char *title, double until, double limit,
                  struct tcr_card mine)
{
    double start = tcr_seconds(), heard = start, turn = start;
    struct tcr_meeting *before = l->before; /* NULL: has to join */
    int status;

    m->generation = l->before ? l->before->generation + 1 : 0;
    m->running = true;
    m->rank = l->before ? l->before->rank : l->rank;
    m->size = -m->generation;
    m->first = l->before ? l->before->first : 0;
    m->first -= m->first > 0;
    if (before && !m->rank) {
        go_on(m, l->before);
        if (hosts(m, l, limit, mine, &status))
            return status;
        before = NULL; /* it is one of those that join */
        heard = tcr_seconds();
    }
    while (tcr_seconds() < until && tcr_seconds() - heard < GIVE_UP * limit) {
        if (visit(m, l, until, mine, &heard, &status))
            return status;
        if (before && !before->lines[0].gone && tcr_seconds() - heard > limit + MEET_SECONDS) {
            leave_host(before);
            turn = tcr_seconds();
        }
        if (before && takes_over(m, l, tcr_seconds() - turn, mine) && hosts(m, l, limit, mine, &status))
            return status;
        tcr_meet_pause();
    }
    if (!before)
        return tcr_fail(TCC_EENV, "the job has ended: nobody answers at MASTER_ADDR=%s any more", l->host);
    return tcr_fail(TCC_EENV, "%s: the ranks did not meet anew within %g s", title, tcr_seconds() - start);
}
