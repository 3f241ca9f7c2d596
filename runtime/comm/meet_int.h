/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_int.h - what the files of the meeting of ranks (meet.c, which says how it goes) share: messages, connections, proofs.
 *
 *   meet.c        who is rank 0, who has come, what all are told
 *   meet_line.c   one end of a connection: messages in and out, without waiting
 *   meet_proof.c  that a rank knows the job's secret
 */
#ifndef TCC_RUNTIME_COMM_MEET_INT_H
#define TCC_RUNTIME_COMM_MEET_INT_H

#include "runtime/comm/comm_int.h"

enum { HELLO = 1, CHALLENGE, CARD, TABLE, REFUSED, OTHER, AGAIN };

struct head {
    char magic[8];
    uint32_t kind, bytes; /* of what follows */
};

struct hello {
    int32_t rank, size;
    uint64_t job, once[2];
};

struct challenge {
    uint64_t once[2], proof;
};

/* What comes before a card. left: milliseconds that this rank still waits. */
struct ticket {
    uint64_t proof, left;
};

/* One end of a connection: what has come of a message, what has to leave. */
struct line {
    int fd; /* -1: none */
    struct head head;
    size_t in, out, out_size; /* bytes that have come, head included; that have left */
    unsigned char *body, *send;
    int rank, size; /* that it says; -1: nothing yet */
    bool carded;
    uint64_t mine[2], theirs[2];
};
void tcr_line_hang_up(struct line *l);
/* Queues a message of two parts behind what is still to leave. False: no memory. */
bool tcr_line_say(struct line *l, uint32_t kind, const void *a, size_t na, const void *b, size_t nb);
/* Sends what there is room for; false: the connection has ended. */
bool tcr_line_push(struct line *l);
/* Takes what has come, up to a whole message of at most `most` bytes, which stays in l->head and l->body until tcr_line_next(). */
enum pull { NOTHING, MESSAGE, ENDED };
enum pull tcr_line_pull(struct line *l, size_t most);
void tcr_line_next(struct line *l);

/* Of having the secret (TCCC_COMM_SECRET), over numbers used once. side: 0 of rank 0, else 1 + rank. */
uint64_t tcr_meet_prove(const uint64_t theirs[2], const uint64_t mine[2], uint64_t side);
bool tcr_meet_once(uint64_t out[2]);         /* such a number; false: the system has none */

#endif
