/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a TCP connection of ranks that meet: messages of a head and a body go out and come in as far as the socket takes and has
 * them. What a head says of lengths is checked before it is believed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/meet_int.h"

static const char magic[8] = "tcccmeet";

void tcr_line_hang_up(struct line *l)
{
    if (l->fd >= 0)
        close(l->fd);
    free(l->body);
    free(l->send);
    *l = (struct line){.fd = -1, .rank = -1, .size = -1};
}

/* Queues a message behind what is still to leave. */
bool tcr_line_say(struct line *l, uint32_t kind, const void *a, size_t na, const void *b, size_t nb)
{
    struct head h = {.kind = kind, .bytes = (uint32_t)(na + nb)};
    size_t size = l->out_size + sizeof h + na + nb;
    unsigned char *grown = realloc(l->send, size);

    if (!grown)
        return false;
    memcpy(h.magic, magic, sizeof magic);
    memcpy(grown + l->out_size, &h, sizeof h);
    if (na)
        memcpy(grown + l->out_size + sizeof h, a, na);
    if (nb)
        memcpy(grown + l->out_size + sizeof h + na, b, nb);
    l->send = grown;
    l->out_size = size;
    return true;
}

/* Sends what there is room for; false: the connection has ended. */
bool tcr_line_push(struct line *l)
{
    while (l->out < l->out_size) {
        ssize_t n = send(l->fd, l->send + l->out, l->out_size - l->out, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n < 0)
            return false;
        l->out += (size_t)n;
    }
    l->out = l->out_size = 0;
    return true;
}

/* Takes what has come, up to a whole message of at most `most` bytes. */
enum pull tcr_line_pull(struct line *l, size_t most)
{
    for (;;) {
        size_t whole = sizeof l->head + (l->in < sizeof l->head ? 0 : l->head.bytes);
        unsigned char *to =
            l->in < sizeof l->head ? (unsigned char *)&l->head + l->in : l->body + (l->in - sizeof l->head);
        ssize_t n;

        if (l->in == whole && l->in >= sizeof l->head)
            return MESSAGE;
        n = recv(l->fd, to, whole - l->in, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return NOTHING;
        if (n <= 0)
            return ENDED;
        l->in += (size_t)n;
        if (l->in != sizeof l->head)
            continue;
        if (memcmp(l->head.magic, magic, sizeof magic) || l->head.bytes > most)
            return ENDED;
        free(l->body);
        if (!(l->body = malloc((size_t)l->head.bytes + 1)))
            return ENDED;
        l->body[l->head.bytes] = 0;
    }
}

void tcr_line_next(struct line *l)
{
    l->in = 0;
}
