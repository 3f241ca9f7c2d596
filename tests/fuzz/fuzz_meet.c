/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the meeting of ranks (runtime/comm/rendezvous.c). The first byte of an input says to whom the rest is
 * said:
 *
 *   0  rank 0, the bytes as they are: a stranger
 *   1  rank 0, by somebody who knows the secret: a number, then messages (kind, length of 16 bits, body), each under
 *      the seal that it should have
 *   2  another rank, in rank 0's place
 *   3  another rank, as the table that rank 0 gives (its seal was right)
 *   4 to 7  the same in an elastic world that lasts, and where ranks meet anew
 *
 * A stranger must not end the meeting, nor become a rank.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/rendezvous_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 3, JOB = 42, MOST = 60000 };
static bool elastic;

static struct tcr_meeting *meeting(int rank)
{
    static const unsigned char card[] = "a card";
    struct tcr_launch l = {.rank = rank, .size = RANKS, .host = "127.0.0.1", .port = 1, .elastic = elastic};
    struct tcr_meeting *m = tcr_meet_new(&l, (struct tcr_card){sizeof card, card});

    if (m)
        m->running = elastic;
    return m;
}

static bool two_ends(int ends[2])
{
    return !socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
}

/* Rank 0 hears all that has come. */
static void serve(struct tcr_meeting *m, struct line *l)
{
    double until = tcr_seconds() + 100;

    for (int idle = 0; l->fd >= 0 && idle < 2 && !*m->why;) {
        size_t in = l->in, out = l->out_size;

        tcr_meet_serve(m, l, JOB, &until);
        idle = l->in == in && l->out_size == out ? idle + 1 : 0;
    }
}

static void stranger(const uint8_t *data, size_t size)
{
    struct tcr_meeting *m = meeting(0);
    int ends[2];

    if (m && two_ends(ends)) {
        m->lines[0].fd = ends[0];
        m->lines[0].since = tcr_seconds();
        if (write(ends[1], data, size < MOST ? size : MOST) >= 0) {
            serve(m, &m->lines[0]);
            close(ends[1]);
            serve(m, &m->lines[0]);
        } else {
            close(ends[1]);
        }
        if (*m->why || m->ncards != 1 || tcr_meet_waiting(m))
            abort(); /* nobody could know the key */
    }
    tcr_meet_free(m);
}

/* The other end of rank 0's first line, which knows the secret: HELLO said and CHALLENGE heard. */
static bool greet(struct tcr_meeting *m, struct line *mine, int32_t rank, int32_t ranks)
{
    struct hello h = {.rank = rank, .size = ranks, .job = JOB, .once = {1}};
    struct challenge c;

    if (!tcr_line_say(mine, HELLO, &h, sizeof h, NULL, 0) || !tcr_line_push(mine))
        return false;
    serve(m, &m->lines[0]);
    if (tcr_line_pull(mine, sizeof c + TCR_MAC) != MESSAGE || mine->head.bytes != sizeof c + TCR_MAC)
        return false;
    memcpy(&c, mine->body, sizeof c);
    tcr_line_keys(mine, UP, &h, &c);
    if (!tcr_line_unseal(mine))
        abort();
    tcr_line_next(mine);
    return true;
}

static void member(const uint8_t *data, size_t size)
{
    struct tcr_meeting *m = meeting(0);
    struct line mine = {.fd = -1};
    int ends[2];

    if (m && size > 1 && two_ends(ends)) {
        m->lines[0].fd = ends[0];
        m->lines[0].since = tcr_seconds();
        mine.fd = ends[1];
        if (greet(m, &mine, data[0], data[1] ? RANKS : elastic ? -data[0] : data[0]))
            for (size_t at = 2; at + 3 <= size && m->lines[0].fd >= 0;) {
                size_t n = (size_t)data[at + 1] | (size_t)data[at + 2] << 8;

                n = n < size - at - 3 ? n : size - at - 3;
                if (!tcr_line_say(&mine, data[at], data + at + 3, n, NULL, 0) || !tcr_line_push(&mine))
                    break;
                serve(m, &m->lines[0]);
                at += 3 + n;
            }
        tcr_line_hang_up(&mine);
        serve(m, &m->lines[0]);
        if (m->ncards + tcr_meet_waiting(m) > 2)
            abort(); /* one connection, two ranks */
    }
    tcr_meet_free(m);
}

static void impostor(const uint8_t *data, size_t size)
{
    struct tcr_meeting *m = meeting(1);
    bool lies = false;
    int ends[2];

    if (m && two_ends(ends)) {
        m->lines[0].fd = ends[0];
        if (write(ends[1], data, size < MOST ? size : MOST) >= 0 && !shutdown(ends[1], SHUT_WR) &&
            tcr_meet_greet(m, &m->lines[0], JOB, 0.2, &lies))
            abort(); /* its number was not known when that was said */
        close(ends[1]);
    }
    tcr_meet_free(m);
}

static void table(const uint8_t *data, size_t size)
{
    struct tcr_meeting *m = meeting(1);
    unsigned char *body = malloc(size + 1);

    if (m && body) {
        memcpy(body, data, size);
        m->lines[0].body = body;
        m->lines[0].head.bytes = (uint32_t)size;
        body = NULL;
        if (!(elastic ? tcr_meet_read_anew : tcr_meet_read_table)(m, &m->lines[0]))
            for (int r = 0; r < m->size; r++)
                for (size_t i = 0; i < m->cards[r].bytes; i++)
                    if (m->cards[r].data + i >= m->table + m->lines[0].head.bytes - TCR_MAC)
                        abort(); /* outside the table */
    }
    free(body);
    tcr_meet_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const ways[])(const uint8_t *data, size_t size) = {stranger, member, impostor, table};

    if (size) {
        elastic = data[0] & 4;
        ways[data[0] % 4](data + 1, size - 1);
    }
    return 0;
}
