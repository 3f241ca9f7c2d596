/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a TCP connection of ranks that meet: messages of a head and a body go out and come in as far as the socket
 * takes and has them. What a head says of lengths is checked before it is believed, and who wrote it when the whole has
 * come (rendezvous_key.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/rendezvous_int.h"

const char tcr_meet_magic[8] = "tcccmeet";

void tcr_line_hang_up(struct line *l)
{
    if (l->fd >= 0)
        close(l->fd);
    free(l->body);
    free(l->send);
    free(l->card);
    *l = (struct line){.fd = -1, .rank = -1, .size = -1};
}

bool tcr_line_say(struct line *l, uint32_t kind, const void *a, size_t na, const void *b, size_t nb)
{
    size_t nseal = l->sealed ? TCR_MAC : 0, bytes = na + nb + nseal;
    struct head h = {.kind = kind, .bytes = (uint32_t)bytes};
    unsigned char *grown = bytes > UINT32_MAX ? NULL : realloc(l->send, l->out_size + sizeof h + bytes), *at;

    if (!grown)
        return false;
    memcpy(h.magic, tcr_meet_magic, sizeof h.magic);
    l->send = grown;
    at = grown + l->out_size;
    memcpy(at, &h, sizeof h);
    if (na)
        memcpy(at + sizeof h, a, na);
    if (nb)
        memcpy(at + sizeof h + na, b, nb);
    if (nseal)
        tcr_line_seal(l, l->way, &h, a, na, b, nb, at + sizeof h + na + nb);
    l->out_size += sizeof h + bytes;
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

enum pull tcr_line_pull(struct line *l, size_t most)
{
    for (;;) {
        size_t whole = sizeof l->head + (l->in < sizeof l->head ? 0 : l->head.bytes);
        unsigned char *to =
            l->in < sizeof l->head ? (unsigned char *)&l->head + l->in : l->body + (l->in - sizeof l->head);
        ssize_t n;

        if (l->in == whole && l->in >= sizeof l->head)
            return !l->sealed || tcr_line_unseal(l) ? MESSAGE : ENDED;
        n = recv(l->fd, to, whole - l->in, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return NOTHING;
        if (n <= 0)
            return ENDED;
        l->in += (size_t)n;
        if (l->in != sizeof l->head)
            continue;
        if (memcmp(l->head.magic, tcr_meet_magic, sizeof tcr_meet_magic) ||
            l->head.bytes > most + (l->sealed ? TCR_MAC : 0))
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
