/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of cpu-split. A memfd is mapped twice: at the addresses that the runtime gets, without any permission, so
 * that the host faults where it follows one; and at addresses that only launches and copies of this device know.
 * Allocations keep a gap between them, are found by binary search, and hold poison until they are written. One memory a
 * process, shared by its sessions; a process that was forked makes one of its own, since it would write into its
 * parent's. Guarded (runtime/guard.c), the second mapping has pages for allocations alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/grow.h"
#include "runtime/device/split/split_int.h"

#define MOST ((size_t)1 << 38)
#define LEAST ((size_t)1 << 28)
#define GAP ((size_t)4096)
#define PAGE ((size_t)4096)

struct block {
    size_t at, bytes, room;
    size_t first, pages; /* guarded: bytes that may be touched, and where they begin */
    bool retired;
};
struct split_card {
    int users;
    pid_t pid;
    char *addresses, *view;
    size_t size;
    int fd;
    bool guarded;
    struct block *blocks; /* by address */
    size_t n, room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct split_card *card;

/* -- The card ------------------------------------------------------------------------------------------ */

static bool map(struct split_card *c, size_t size)
{
    if (ftruncate(c->fd, (off_t)size))
        return false;
    c->addresses = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, c->fd, 0);
    if (c->addresses == MAP_FAILED)
        return false;
    c->view = mmap(NULL, size, c->guarded ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, c->fd, 0);
    if (c->view == MAP_FAILED) {
        munmap(c->addresses, size);
        return false;
    }
    c->size = size;
    return true;
}

static struct split_card *make(void)
{
    struct split_card *c = calloc(1, sizeof *c);
    int why;

    if (!c || (c->fd = memfd_create("cpu-split", MFD_CLOEXEC)) < 0) {
        tcr_fail(TCC_EENV, "device 'cpu-split': no memory for it: %s", strerror(errno));
        free(c);
        return NULL;
    }
    c->pid = getpid();
    c->guarded = tcr_guard_wanted();
    for (size_t size = MOST; size >= LEAST; size /= 2)
        if (map(c, size))
            return c;
    why = errno;
    close(c->fd);
    free(c);
    return tcr_fail(TCC_EENV, "device 'cpu-split': no addresses for its memory: %s", strerror(why)), NULL;
}

struct split_card *split_card_get(void)
{
    pthread_mutex_lock(&lock);
    if (!card || card->pid != getpid())
        card = make();
    if (card)
        card->users++;
    pthread_mutex_unlock(&lock);
    return card;
}

void split_card_put(struct split_card *c)
{
    pthread_mutex_lock(&lock);
    if (--c->users == 0) {
        munmap(c->addresses, c->size);
        munmap(c->view, c->size);
        close(c->fd);
        free(c->blocks);
        if (card == c)
            card = NULL;
        free(c);
    }
    pthread_mutex_unlock(&lock);
}

size_t split_card_bytes(const struct split_card *c)
{
    return c->size;
}

/* -- Allocations ------------------------------------------------------------------------------------------ */

/* The last block at or before an offset; -1: none. */
static ptrdiff_t find(const struct split_card *c, size_t at)
{
    size_t low = 0, high = c->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (c->blocks[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return (ptrdiff_t)low - 1;
}

static size_t block_begin(const struct block *b)
{
    return b->pages ? b->first : b->at;
}

static size_t block_end(const struct block *b)
{
    return b->pages ? b->first + b->pages : b->at + b->room;
}

/* The first gap that is wide enough. */
static bool gap_for(const struct split_card *c, size_t room, size_t *at, size_t *index)
{
    size_t from = GAP;

    for (size_t i = 0; i < c->n; i++) {
        if (block_begin(&c->blocks[i]) >= from + room + GAP) {
            *at = from;
            *index = i;
            return true;
        }
        from = (block_end(&c->blocks[i]) + GAP + PAGE - 1) & ~(PAGE - 1);
    }
    *at = from;
    *index = c->n;
    return room <= c->size && from <= c->size - room;
}

static bool insert(struct split_card *c, size_t index, struct block b)
{
    if (!GROWN(c->blocks, c->n, c->room, 64))
        return false;
    memmove(c->blocks + index + 1, c->blocks + index, (c->n - index) * sizeof *c->blocks);
    c->blocks[index] = b;
    c->n++;
    return true;
}

/* What nobody has written: poison; or zeros, of pages that take no memory until then. */
static void blank(struct split_card *c, size_t at, size_t bytes, bool zeroed)
{
    if (!zeroed)
        memset(c->view + at, SPLIT_POISON, bytes);
    else if (bytes < PAGE || fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes))
        memset(c->view + at, 0, bytes);
}

/* A block's pages may be touched, and the rest of them is poison; or they may not any more. */
static bool guard(struct split_card *c, struct block *b)
{
    if (!c->guarded)
        return true;
    b->first = b->at;
    b->at += tcr_guard_offset(b->bytes, TCR_ALIGN, &b->pages);
    if (mprotect(c->view + b->first, b->pages, PROT_READ | PROT_WRITE) ||
        !tcr_guard_note(c->view + b->first, b->pages, c->view + b->at, b->bytes, c->addresses + b->at))
        return false;
    memset(c->view + b->first, SPLIT_POISON, b->pages);
    return true;
}

static void unguard(struct split_card *c, const struct block *b)
{
    if (!b->pages)
        return;
    mprotect(c->view + b->first, b->pages, PROT_NONE);
    tcr_guard_forget(c->addresses + b->at);
}

void *split_card_alloc(struct split_card *c, size_t bytes, size_t room, bool zeroed)
{
    size_t size = TCR_ROUND(bytes ? bytes : 1), index;
    struct block b = {.bytes = size, .room = size};
    void *p = NULL;

    if (room > size && !c->guarded)
        b.room = TCR_ROUND(room);
    pthread_mutex_lock(&lock);
    if (size >= bytes && gap_for(c, b.room + (c->guarded ? 2 * PAGE : 0), &b.at, &index) && guard(c, &b) &&
        insert(c, index, b)) {
        blank(c, b.at, size, zeroed);
        p = c->addresses + b.at;
    } else {
        tcr_fail(TCC_EENV, "device 'cpu-split': no memory for %zu bytes", bytes);
    }
    pthread_mutex_unlock(&lock);
    return p;
}

static struct block *block_at(struct split_card *c, const void *p)
{
    size_t at = (size_t)((const char *)p - c->addresses);
    ptrdiff_t i = find(c, at);

    return i >= 0 && c->blocks[i].at == at ? &c->blocks[i] : NULL;
}

bool split_card_extend(struct split_card *c, void *p, size_t bytes)
{
    size_t size = TCR_ROUND(bytes);
    struct block *b;

    pthread_mutex_lock(&lock);
    b = block_at(c, p);
    if (b && size > b->bytes && size <= b->room) {
        blank(c, b->at + b->bytes, size - b->bytes, false);
        b->bytes = size;
    }
    pthread_mutex_unlock(&lock);
    return b && size <= b->room;
}

void split_card_retire(struct split_card *c, void *p)
{
    struct block *b;

    pthread_mutex_lock(&lock);
    if ((b = block_at(c, p)))
        b->retired = true;
    pthread_mutex_unlock(&lock);
}

void split_card_free(struct split_card *c, void *p)
{
    struct block *b;

    pthread_mutex_lock(&lock);
    if ((b = block_at(c, p))) {
        size_t pages = b->bytes & ~(PAGE - 1);

        if (b->bytes >= 64 * PAGE)
            fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)b->at, (off_t)pages);
        else
            blank(c, b->at, b->bytes, false);
        unguard(c, b);
        c->n--;
        memmove(b, b + 1, (size_t)(c->blocks + c->n - b) * sizeof *b);
    }
    pthread_mutex_unlock(&lock);
}

bool split_card_owns(const struct split_card *c, const void *p)
{
    return (const char *)p >= c->addresses && (const char *)p < c->addresses + c->size;
}

void *split_card_see(struct split_card *c, const void *p, size_t bytes, bool retired, const char **what)
{
    void *seen = NULL;
    ptrdiff_t i;

    if (!split_card_owns(c, p)) {
        *what = "a host pointer";
        return NULL;
    }
    pthread_mutex_lock(&lock);
    size_t at = (size_t)((const char *)p - c->addresses);
    i = find(c, at);
    if (i < 0 || at > c->blocks[i].at + c->blocks[i].bytes)
        *what = "memory that is not allocated";
    else if (c->blocks[i].retired && !retired)
        *what = "memory that was freed";
    else if (bytes > c->blocks[i].at + c->blocks[i].bytes - at)
        *what = "memory past the end of its allocation";
    else
        seen = c->view + at;
    pthread_mutex_unlock(&lock);
    return seen;
}
