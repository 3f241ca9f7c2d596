/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rendezvous_int.h - what the files of the meeting of ranks (rendezvous.c, which says how it goes) share: messages,
 * connections, keys.
 *
 *   rendezvous.c        the meeting, its beginning and its end
 *   rendezvous_host.c   rank 0: who has come, what all are told
 *   rendezvous_visit.c  the others: who is rank 0
 *   rendezvous_again.c  ranks of an elastic world: those that are left and those that have come meet anew
 *   rendezvous_line.c   one end of a connection: messages in and out, without waiting
 *   rendezvous_key.c    the keys of a connection, and seals
 *   mac.c               what they are made with
 */
#ifndef TCC_RUNTIME_COMM_RENDEZVOUS_INT_H
#define TCC_RUNTIME_COMM_RENDEZVOUS_INT_H

#include <poll.h>

#include "runtime/comm/comm_int.h"
#include "runtime/comm/mac.h"

enum { HELLO = 1, CHALLENGE, CARD, TABLE, REFUSED, OTHER, AGAIN, TAKEN, STAY, RUNNING, NEXT };

#define MEET_PORTS 16      /* that are tried, from MASTER_PORT on */
#define MEET_STRANGERS 256 /* connections beyond those of ranks that have proved themselves */
#define MEET_SECONDS 2.0   /* a stranger has to prove himself, from when he came */

struct head { char magic[8]; uint32_t kind, bytes; };    /* bytes: of what follows, seal included */
struct hello { int32_t rank, size; uint64_t job; uint8_t once[TCR_MAC]; };
struct challenge { uint8_t once[TCR_MAC]; };
struct ticket { uint64_t left; };                        /* before a card: milliseconds that this rank still waits */

enum { UP, DOWN };                                       /* to rank 0; from it */

/* One end of a connection: what has come of a message, what has to leave. */
struct line {
    int fd; /* -1: none */
    struct head head;
    size_t in, out, out_size; /* bytes that have come, head included; that have left */
    unsigned char *body, *send;
    int rank, size;           /* that it says; -1: nothing yet */
    unsigned char *card;      /* rank 0: what it has proved itself with, a ticket first, until it is the meeting's */
    size_t card_bytes;
    bool carded;              /* it has come to stay */
    bool member, gone;        /* of an elastic world: this is one of its ranks, whose end has come */
    double since;             /* when it came */
    bool sealed;              /* the keys are there: all messages from here on have seals */
    int way;                  /* of what this end says */
    uint8_t key[2][TCR_MAC];
    uint64_t count[2];        /* messages, each way */
};
extern const char tcr_meet_magic[8];
void tcr_line_hang_up(struct line *l);
/* Queues a message of two parts behind what is still to leave, sealed where there are keys. False: no memory, or it is
 * too long. */
bool tcr_line_say(struct line *l, uint32_t kind, const void *a, size_t na, const void *b, size_t nb);
/* Sends what there is room for; false: the connection has ended. */
bool tcr_line_push(struct line *l);
/* Takes what has come, up to a whole message of at most `most` bytes without its seal, which stays in l->head and
 * l->body until tcr_line_next(). A message whose seal is wrong ends the connection. */
enum pull { NOTHING, MESSAGE, ENDED };
enum pull tcr_line_pull(struct line *l, size_t most);
void tcr_line_next(struct line *l);

/* The connection's keys: of the secret, the hello and rank 0's number. */
void tcr_line_keys(struct line *l, int way, const struct hello *h, const struct challenge *c);
/* The seal of the next message that way. */
void tcr_line_seal(struct line *l, int way, const struct head *h, const void *a, size_t na, const void *b, size_t nb,
                   uint8_t seal[TCR_MAC]);
/* takes the seal off the message that has come; false: it is not the right one */
bool tcr_line_unseal(struct line *l);
bool tcr_meet_once(uint8_t out[TCR_MAC]);                /* numbers used once; false: the system has none */
void tcr_meet_data_key(const void *table, size_t bytes, uint8_t key[TCR_MAC]);

struct tcr_meeting {
    int rank, size, listening;
    int port;                 /* where it listens, of MEET_PORTS */
    int nlines;
    struct line *lines;       /* rank 0: of all who connect; else one */
    struct tcr_card *cards;
    unsigned char *table;     /* what cards lie in, of others than rank 0 */
    int ncards;
    uint8_t data_key[TCR_MAC];
    bool again, over;         /* the end: said; all have said it */
    bool died, told;          /* rank 0: a rank that had come has ended; those who are there know what is wrong */
    char why[400];
    int first;                /* the others: the port that is tried first, of MEET_PORTS */
    int impostor;             /* rank 0: the rank that one whose proof was wrong said to be; 0: none */
    /* Of an elastic world. running: there is one; yields: its ranks have no rank 0 now, and this is none of them; next:
     * somebody has begun to meet anew; waits: this process is none of its ranks yet; generation: worlds so far */
    bool elastic, running, yields, next, waits;
    int generation;
    uint64_t job;
};

/* Of the meetings of one address, which is it? Launchers number their runs. */
uint64_t tcr_meet_job(const struct tcr_launch *l);
struct addrinfo;
struct addrinfo *tcr_meet_resolve(const char *host, int port);
void tcr_meet_prepare(int fd);
void tcr_meet_pause(void);
int tcr_meet_host(struct tcr_meeting *m, const struct tcr_launch *l, const char *title, double until, double limit,
                  struct tcr_card mine);
int tcr_meet_visit(struct tcr_meeting *m, const struct tcr_launch *l, const char *title, double until, double limit,
                   struct tcr_card mine);
/* What a connection to rank 0 has brought. */
void tcr_meet_serve(struct tcr_meeting *m, struct line *l, uint64_t job, double *until);
/* The other side: is rank 0 at the other end? It has `seconds` to say so. `lies`: somebody is, who does not know the
 * secret. */
bool tcr_meet_greet(struct tcr_meeting *m, struct line *l, uint64_t job, double seconds, bool *lies);
int tcr_meet_read_table(struct tcr_meeting *m, struct line *l);
/* The parts that a meeting of an elastic world is made of, too. */
bool tcr_meet_open_door(struct tcr_meeting *m, const struct tcr_launch *l, bool anywhere);
/* No more rank 0: whoever has come looks for another one. */
void tcr_meet_close_door(struct tcr_meeting *m);
void tcr_meet_let_in(struct tcr_meeting *m);
/* Waits until somebody comes or says something, at most so long; ready: room for one more than all lines. */
void tcr_meet_wait(const struct tcr_meeting *m, struct pollfd *ready, int milliseconds);
/* A process that must not take part; the text is what it fails with. */
void tcr_meet_refuse(struct line *l, uint32_t kind, const char *why);
unsigned char *tcr_meet_table(const struct tcr_meeting *m, size_t *bytes);
struct poll_time { double patience, until; };
struct search { bool lies; char last[200]; };
/* All but that where it listens itself. */
bool tcr_meet_try_ports(struct tcr_meeting *m, const struct tcr_launch *l, int ports, struct poll_time t,
                        struct search *s);
/* Is somebody else rank 0 of a world that runs, or that meets anew? Of so many ports from the first one on. */
bool tcr_meet_elsewhere(struct tcr_meeting *m, const struct tcr_launch *l, int ports, struct tcr_card mine);
enum pull tcr_meet_await(struct line *l, size_t most, double until);
enum pull tcr_meet_hand_over(struct line *line, double seconds, double until, struct tcr_card mine);
int tcr_meet_refused(struct line *l);
int tcr_meet_read_anew(struct tcr_meeting *m, struct line *l);
int tcr_meet_anew(struct tcr_meeting *m, const struct tcr_launch *l, const char *title, double until, double limit,
                  struct tcr_card mine);
struct tcr_meeting *tcr_meet_new(const struct tcr_launch *l, struct tcr_card mine);

#endif
