/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.c - a kernel of the host's processor as prove.c runs one of a device: in memory where each operand ends at, or
 * begins behind, a page that nobody may touch, so that an access that the emitted code makes outside of its operands is
 * found. It runs in a process of its own, which such an access ends.
 */
#include "tools/prove/prove_int.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 1026, POISON = 0xff };

/* What lies between two such pages. */
struct block {
    char *map, *data;
    size_t room, bytes; /* room: of the pages that may be touched */
};

struct run {
    struct prove_launch *l;
    struct block block[BLOCKS];
    int nblocks;
    struct told {
        struct tcc_env env;
        void *fault; /* the address */
    } * told;        /* shared with the process that runs the kernel */
};

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static bool take(struct run *r, size_t bytes, bool begins)
{
    struct block *b = &r->block[r->nblocks];
    size_t room = (bytes + page() - 1) / page() * page();
    char *at = mmap(NULL, room + 2 * page(), PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return false;
    *b = (struct block){at, at + page() + (begins ? 0 : room - bytes), room, bytes};
    r->nblocks++;
    if (room && mprotect(at + page(), room, PROT_READ | PROT_WRITE))
        return false;
    memset(at + page(), POISON, room);
    return true;
}

static void drop(struct run *r)
{
    for (int i = 0; i < r->nblocks; i++)
        munmap(r->block[i].map, r->block[i].room + 2 * page());
    if (r->told)
        munmap(r->told, sizeof *r->told);
}

static struct told *told_to;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    told_to->fault = info->si_addr;
    _exit(1);
}

/* The other process: all tiles of both phases, a few a call. */
static void run_tiles(struct run *r, tcc_kernel_fn f, int64_t tiles, int64_t combining)
{
    enum { STEP = 3 };
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    void *args[BLOCKS];
    int64_t first[] = {0, tiles, tiles + combining};
    told_to = r->told;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    for (int i = 0; i < r->nblocks; i++)
        args[i] = r->block[i].data;
    for (int phase = 0; phase < 2; phase++)
        for (int64_t t = first[phase]; t < first[phase + 1]; t += STEP)
            f(args, r->l->sizes, args[r->nblocks - 1], &r->told->env, t,
              t + STEP < first[phase + 1] ? t + STEP : first[phase + 1]);
    _exit(0);
}

/* Of which block is the address that nobody may touch? */
static void tell_fault(const struct run *r, char *error)
{
    const char *at = r->told->fault;
    for (int i = 0; i < r->nblocks; i++) {
        const struct block *b = &r->block[i];
        if (at < b->map || at >= b->map + b->room + 2 * page())
            continue;
        char name[32] = "its scratch";
        if (i < r->nblocks - 1)
            snprintf(name, sizeof name, "argument %d", i);
        snprintf(error, PROVE_TEXT, "an access outside of %s of %zu bytes, at byte %lld", name, b->bytes,
                 (long long)(at - b->data));
        return;
    }
    snprintf(error, PROVE_TEXT, "an access outside of its memory");
}

/* What lies beside a block in its pages is as it was. */
static bool is_whole(const struct block *b)
{
    const char *from = b->map + page();
    for (size_t i = 0; i < b->room; i++)
        if ((from + i < b->data || from + i >= b->data + b->bytes) && (unsigned char)from[i] != POISON)
            return false;
    return true;
}

static bool finish(struct run *r, int status, char *error)
{
    struct prove_launch *l = r->l;
    if (WIFSIGNALED(status))
        snprintf(error, PROVE_TEXT, "it is ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status))
        tell_fault(r, error);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return false;
    for (int i = 0; i < r->nblocks; i++)
        if (!is_whole(&r->block[i])) {
            snprintf(error, PROVE_TEXT, "it wrote beside argument %d of %zu bytes", i, r->block[i].bytes);
            return false;
        }
    for (int i = 0; i < l->nargs; i++)
        if (l->uses[i] != KN_IN)
            memcpy(l->args[i], r->block[i].data, l->bytes[i]);
    l->env = r->told->env;
    return true;
}

bool prove_run_host(tcc_kernel_fn f, struct prove_launch *l, const struct prove_extent *e, bool begins, char *error)
{
    struct run *r = calloc(1, sizeof *r);
    int status = 0;
    bool ok = r && l->nargs < BLOCKS - 1;
    snprintf(error, PROVE_TEXT, "%s", strerror(ENOMEM));
    if (r) {
        r->l = l;
        r->told = mmap(NULL, sizeof *r->told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ok = ok && r->told != MAP_FAILED;
        r->told = r->told == MAP_FAILED ? NULL : r->told;
    }
    for (int i = 0; i < l->nargs && ok; i++)
        if ((ok = take(r, l->bytes[i], begins))) /* results too: some are stored a piece each launch */
            memcpy(r->block[i].data, l->args[i], l->bytes[i]);
    /* Scratch begins at a multiple of 64 bytes. */
    ok = ok && take(r, (size_t)(e->scratch + 63) / 64 * 64, begins);
    if (ok) {
        r->told->env = l->env;
        pid_t child = fork();
        if (child == 0)
            run_tiles(r, f, l->tiles, e->combining);
        ok = child > 0 && waitpid(child, &status, 0) == child && finish(r, status, error);
    }
    if (r)
        drop(r);
    free(r);
    return ok;
}
