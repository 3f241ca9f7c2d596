/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine over shared memory, for the ranks of one machine that stand for simulated devices: who waits sleeps, so
 * that many more ranks than cores make no less headway than one after the other.
 *
 * Each rank has an inbox, a file in memory (memfd) with a ring for each other rank; ranks tell each other by
 * rendezvous.c where it is, and open it by
 * /proc. A ring is a stream of messages, header and bytes, of one writer and one reader; a long message goes through it
 * piece by piece. The reader takes out all there is, whether or not somebody has asked for it, so no ring stays full.
 * An inbox has a word, the bell, that changes with what is done to it, and on which its owner sleeps (futex).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/comm_int.h"

#define RING_BYTES ((size_t)1 << 17)
#define NAP_NS 5000000 /* longest sleep: the net has to be looked at */
#define END_SECONDS 2  /* that others may take to come to the end */

struct ring {
    _Atomic uint64_t written, taken; /* bytes, ever */
    char unused[48];                 /* a line of the cache each */
};
struct inbox {
    uint64_t secret; /* as on the card: it is that of this job */
    _Atomic uint32_t bell, sleepers;
    char unused[48];
    struct ring rings[]; /* one a rank, then their bytes */
};
struct card {
    uint64_t secret;
    int32_t process, file;
};

struct header {
    uint64_t bytes;
    int32_t lane, tag;
};
struct message {
    struct message *next;
    struct header h;
    int peer; /* -1: from anybody */
    char *data;
    size_t at;                      /* of its bytes; a send's header has gone when `begun` */
    bool begun, done, dropped, own; /* dropped: nobody asks for it any more; own: its memory */
    bool too_long;
};
/* What comes from a rank, and what goes to it. */
struct peer {
    struct inbox *inbox;
    struct message *sends, **last;
    struct message *coming; /* the one whose bytes are being taken out */
};
struct shared {
    const struct tcr_card *cards;
    struct inbox *mine;
    struct peer *peers;
    struct message *asked,
        *unasked;               /* receives that nothing came for; what came that nobody has asked for; oldest first */
    int file, rank, size, room; /* room: ranks that an inbox has rings for */
    size_t bytes;               /* of an inbox */
    _Atomic uint32_t seen;
};

/* -- Sleep ---------------------------------------------------------------------------------------------------- */

static void ring_bell(struct inbox *b)
{
    atomic_fetch_add(&b->bell, 1);
    if (atomic_load(&b->sleepers))
        syscall(SYS_futex, &b->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Until something is done to the inbox that the last look at it did not see. */
static void shared_rest(struct tcr_net *net)
{
    struct shared *s = net->data;
    struct timespec t = {0, NAP_NS};

    atomic_fetch_add(&s->mine->sleepers, 1);
    syscall(SYS_futex, &s->mine->bell, FUTEX_WAIT, atomic_load(&s->seen), &t, NULL, 0);
    atomic_fetch_sub(&s->mine->sleepers, 1);
}

/* -- Rings ---------------------------------------------------------------------------------------------------- */

static char *ring_data(const struct shared *s, struct inbox *b, int from)
{
    return (char *)b + sizeof *b + (size_t)s->room * sizeof(struct ring) + (size_t)from * RING_BYTES;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Puts up to n bytes (NULL: zeros) behind what the ring of this rank at b has; how many there was room for. */
static size_t put(struct shared *s, struct inbox *b, const char *from, size_t n)
{
    struct ring *r = &b->rings[s->rank];
    char *data = ring_data(s, b, s->rank);
    uint64_t written = atomic_load_explicit(&r->written, memory_order_relaxed);
    size_t room = RING_BYTES - (size_t)(written - atomic_load(&r->taken)), done = least(n, room);

    for (size_t at = 0; at < done;) {
        size_t first = (size_t)(written + at) % RING_BYTES, part = least(done - at, RING_BYTES - first);

        if (from)
            memcpy(data + first, from + at, part);
        else
            memset(data + first, 0, part);
        at += part;
    }
    atomic_store(&r->written, written + done);
    return done;
}

static size_t there(const struct shared *s, int from)
{
    const struct ring *r = &s->mine->rings[from];

    return (size_t)(atomic_load(&r->written) - atomic_load(&r->taken));
}

/* Copies up to n bytes out of the ring of `from` (to NULL: none), and takes them out unless they are to stay. */
static size_t take(struct shared *s, int from, char *to, size_t n, bool stay)
{
    struct ring *r = &s->mine->rings[from];
    const char *data = ring_data(s, s->mine, from);
    uint64_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed);
    size_t done = least(n, there(s, from));

    for (size_t at = 0; at < done;) {
        size_t first = (size_t)(taken + at) % RING_BYTES, part = least(done - at, RING_BYTES - first);

        if (to)
            memcpy(to + at, data + first, part);
        at += part;
    }
    if (!stay)
        atomic_store(&r->taken, taken + done);
    return done;
}

/* -- Messages --------------------------------------------------------------------------------------------------- */

static void message_free(struct message *m)
{
    if (m->own)
        free(m->data);
    free(m);
}

/* Bytes of the first sends to a rank, as far as there is room; whether there were any. */
static bool push(struct shared *s, struct peer *p)
{
    bool moved = false;

    while (p->sends) {
        struct message *m = p->sends;
        size_t n;

        if (!m->begun && RING_BYTES - (size_t)(atomic_load(&p->inbox->rings[s->rank].written) -
                                               atomic_load(&p->inbox->rings[s->rank].taken)) <
                             sizeof m->h)
            break;
        if (!m->begun) {
            put(s, p->inbox, (const char *)&m->h, sizeof m->h);
            m->begun = moved = true;
        }
        n = put(s, p->inbox, m->dropped ? NULL : m->data + m->at, m->h.bytes - m->at);
        m->at += n;
        moved |= n > 0;
        if (m->at < m->h.bytes)
            break;
        m->done = true;
        p->sends = m->next;
        if (!p->sends)
            p->last = &p->sends;
        if (m->dropped)
            message_free(m);
    }
    return moved;
}

static void append(struct message **list, struct message *m)
{
    while (*list)
        list = &(*list)->next;
    m->next = NULL;
    *list = m;
}

static void unlink_message(struct message **list, const struct message *m)
{
    while (*list && *list != m)
        list = &(*list)->next;
    if (*list)
        *list = m->next;
}

/* Who has asked for a message that begins; else memory for it until somebody does. NULL: no memory. */
static struct message *receiver(struct shared *s, int from, const struct header *h)
{
    struct message *m = s->asked;

    while (m && !((m->peer < 0 || m->peer == from) && m->h.lane == h->lane && m->h.tag == h->tag))
        m = m->next;
    if (m) {
        unlink_message(&s->asked, m);
        m->too_long = h->bytes > m->h.bytes;
    } else {
        if (!(m = calloc(1, sizeof *m)) || (h->bytes && !(m->data = malloc(h->bytes)))) {
            free(m);
            return NULL;
        }
        m->own = true;
        append(&s->unasked, m);
    }
    m->peer = from;
    m->h = *h;
    m->begun = true;
    return m;
}

static bool pull(struct shared *s, int from)
{
    struct peer *p = &s->peers[from];
    bool moved = false;

    for (;;) {
        struct header h;
        struct message *m = p->coming;

        if (!m && there(s, from) < sizeof h)
            return moved;
        if (!m) {
            take(s, from, (char *)&h, sizeof h, true);
            if (!(m = p->coming = receiver(s, from, &h))) /* no memory: later, perhaps */
                return moved;
            take(s, from, NULL, sizeof h, false);
            moved = true;
        }
        size_t n = take(s, from, m->dropped || m->too_long ? NULL : m->data + m->at, m->h.bytes - m->at, false);
        m->at += n;
        moved |= n > 0;
        if (m->at < m->h.bytes)
            return moved;
        m->done = true;
        p->coming = NULL;
        if (m->dropped)
            message_free(m);
    }
}

static void shared_progress(struct tcr_net *net)
{
    struct shared *s = net->data;

    atomic_store(&s->seen, atomic_load(&s->mine->bell));
    for (int r = 0; r < s->size; r++) {
        bool pushed = s->peers[r].sends && push(s, &s->peers[r]);

        if ((there(s, r) && pull(s, r)) || pushed)
            ring_bell(s->peers[r].inbox);
    }
}

static int shared_send(struct tcr_net *net, int lane, int to, int tag, const void *data, size_t bytes,
                       struct tcr_pending *p)
{
    struct shared *s = net->data;
    struct message *m = calloc(1, sizeof *m);

    if (!m)
        return tcr_fail(TCC_EENV, "no memory for a message");
    *m = (struct message){.h = {bytes, lane, tag}, .peer = to, .data = (char *)data};
    *s->peers[to].last = m;
    s->peers[to].last = &m->next;
    *p = (struct tcr_pending){.at[0].pointer = m};
    if (push(s, &s->peers[to]))
        ring_bell(s->peers[to].inbox);
    return TCC_OK;
}

static int shared_recv(struct tcr_net *net, int lane, int from, int tag, void *data, size_t bytes,
                       struct tcr_pending *p)
{
    struct shared *s = net->data;
    struct message *m = s->unasked;

    while (m && !((from < 0 || m->peer == from) && m->h.lane == lane && m->h.tag == tag))
        m = m->next;
    if (m) { /* it is there, or on its way: it goes on into the memory of who asks now */
        unlink_message(&s->unasked, m);
        m->too_long = m->h.bytes > bytes;
        if (!m->too_long && m->at)
            memcpy(data, m->data, m->at);
        free(m->data);
        m->data = data;
        m->own = false;
    } else {
        if (!(m = calloc(1, sizeof *m)))
            return tcr_fail(TCC_EENV, "no memory for a message");
        *m = (struct message){.h = {bytes, lane, tag}, .peer = from, .data = data};
        append(&s->asked, m);
    }
    *p = (struct tcr_pending){.at[0].pointer = m, .at[1].pointer = m};
    return TCC_OK;
}

static int shared_test(struct tcr_net *net, struct tcr_pending *p, bool *done)
{
    struct message *m = p->at[0].pointer;
    bool too_long = m && m->done && m->too_long;

    (void)net;
    *done = !m || m->done;
    if (m && m->done) {
        message_free(m);
        p->at[0].pointer = NULL;
    }
    return too_long ? tcr_fail(TCC_EENV, "shared memory: a message is longer than was expected") : TCC_OK;
}

static void shared_cancel(struct tcr_net *net, struct tcr_pending *p)
{
    struct shared *s = net->data;
    struct message *m = p->at[0].pointer;

    if (!m)
        return;
    if (m->done || (p->at[1].pointer && !m->begun)) {
        unlink_message(&s->asked, m);
        message_free(m);
    } else { /* the stream goes on without it */
        m->dropped = true;
    }
    *p = (struct tcr_pending){.at[0].pointer = NULL};
}

/* -- Beginning and end -------------------------------------------------------------------------------------------- */

static int make_inbox(struct shared *s)
{
    s->bytes = sizeof *s->mine + (size_t)s->room * (sizeof(struct ring) + RING_BYTES);
    s->file = memfd_create("tccc-inbox", MFD_CLOEXEC);
    if (s->file < 0 || ftruncate(s->file, (off_t)s->bytes))
        return tcr_fail(TCC_EENV, "shared memory: %s", strerror(errno));
    s->mine = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->file, 0);
    if (s->mine == MAP_FAILED) {
        s->mine = NULL;
        return tcr_fail(TCC_EENV, "shared memory: %s", strerror(errno));
    }
    if (getrandom(&s->mine->secret, sizeof s->mine->secret, 0) != sizeof s->mine->secret)
        s->mine->secret = (uint64_t)tcr_now() ^ (uint64_t)getpid() << 32;
    return TCC_OK;
}

static int open_inbox(const struct tcr_net *net, struct shared *s, int rank)
{
    struct card card;
    struct stat is;
    char path[64];
    int file;

    if (s->cards[rank].bytes != sizeof card)
        return tcr_fail(TCC_EENV, "shared memory: rank %d speaks another version", rank);
    memcpy(&card, s->cards[rank].data, sizeof card);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)card.process, (int)card.file);
    s->peers[rank].last = &s->peers[rank].sends;
    if (rank == s->rank) {
        s->peers[rank].inbox = s->mine;
        return TCC_OK;
    }
    file = open(path, O_RDWR | O_CLOEXEC);
    int why = errno; /* ENXIO: that number is a connection's now */
    void *at = file < 0 || fstat(file, &is) || is.st_size < (off_t)s->bytes
                   ? MAP_FAILED
                   : mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (file >= 0)
        close(file);
    if (at != MAP_FAILED && ((struct inbox *)at)->secret == card.secret) {
        s->peers[rank].inbox = at;
        return TCC_OK;
    }
    if (at != MAP_FAILED)
        munmap(at, s->bytes);
    /* It has died already, or meets others anew: what it gets goes nowhere. */
    if (net->elastic && (file >= 0 || why == ENOENT || why == ENXIO) &&
        (at = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED) {
        s->peers[rank].inbox = at;
        return TCC_OK;
    }
    return tcr_fail(
        TCC_EENV,
        "shared memory: that of rank %d can't be reached (%s): the engine 'sim' is for processes of one machine", rank,
        file >= 0 ? "another process has its number" : strerror(why));
}

static void free_list(struct message *m)
{
    for (struct message *next; m; m = next) {
        next = m->next;
        message_free(m);
    }
}

static void shared_free(struct shared *s)
{
    for (int r = 0; s->peers && r < s->size; r++) {
        free_list(s->peers[r].sends);
        if (s->peers[r].inbox && r != s->rank)
            munmap(s->peers[r].inbox, s->bytes);
    }
    free_list(s->asked);
    free_list(s->unasked);
    if (s->mine)
        munmap(s->mine, s->bytes);
    if (s->file >= 0)
        close(s->file);
    free(s->peers);
    free(s);
}

static int shared_open(struct tcr_net *net, const struct tccrt_comm_options *options)
{
    struct shared *s = calloc(1, sizeof *s);
    struct tcr_launch l;
    int status;

    (void)options;
    if (!s)
        return tcr_fail(TCC_EENV, "no memory for communication");
    s->file = -1;
    if ((status = tcr_launch_read(&l))) {
        free(s);
        return status;
    }
    net->rank = l.rank;
    net->size = l.size;
    net->threaded = true;
    s->room = net->elastic ? TCR_ELASTIC_RANKS : l.size;
    if (!(status = make_inbox(s))) {
        struct card card = {s->mine->secret, (int32_t)getpid(), s->file};

        status = tcr_net_meet(net, &l, (struct tcr_card){sizeof card, (unsigned char *)&card}, &s->cards);
    }
    s->rank = net->local_rank = net->rank;
    s->size = net->local_size = net->size;
    if (!status && !(s->peers = calloc((size_t)s->size, sizeof *s->peers)))
        status = tcr_fail(TCC_EENV, "no memory for %d ranks", s->size);
    for (int r = 0; r < s->size && !status && !net->joins; r++)
        status = open_inbox(net, s, r);
    if (status || net->joins)
        shared_free(s);
    else
        net->data = s;
    return status;
}

/* Nobody leaves before all have come here, and what was sent has been taken. */
static void shared_close(struct tcr_net *net, bool broken)
{
    struct shared *s = net->data;
    double until = tcr_seconds() + END_SECONDS;

    while (!broken && tcr_seconds() < until) {
        bool quiet = true;

        shared_progress(net);
        for (int r = 0; r < s->size; r++)
            quiet = quiet && !s->peers[r].sends;
        if (quiet && tcr_meet_again(net->meeting))
            break;
        shared_rest(net);
    }
    if (!broken || net->elastic) /* messages of others may be on their way into ours */
        shared_free(s);
}

const struct tcr_engine tcr_shared = {.name = "sim",
                                      .title = "shared memory",
                                      .launcher = TCR_LAUNCHER_VARIABLES,
                                      .open = shared_open,
                                      .close = shared_close,
                                      .progress = shared_progress,
                                      .rest = shared_rest,
                                      .send = shared_send,
                                      .recv = shared_recv,
                                      .test = shared_test,
                                      .cancel = shared_cancel};
