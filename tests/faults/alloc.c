/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation of the runtime fails in turn, those of a session through the caller's allocator and those of the C
 * library: opening, a session, runs over tensors and objects, a checkpoint. Each failure must be a status (TCC_EENV)
 * with a message, leak nothing, and leave a session that works. usage: alloc MODEL.so THREADS CHECKPOINT; the model is
 * that of tests/misuse.tap.
 */
#include "runtime/tccrt.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

/* -- Failing memory: the call number `left`, counted down -------------------------------------------------- */

static atomic_long left = -1, live;
/* loading: in the C library's loader, which loses memory of its own when it fails */
static atomic_bool armed, loading, lost;

static int fails(void)
{
    if (!armed || left <= 0 || atomic_fetch_sub(&left, 1) != 1)
        return 0;
    lost = loading;
    errno = ENOMEM;
    return 1;
}

static void *count(void *p)
{
    live += armed && p;
    return p;
}

void *malloc(size_t n) { return fails() ? NULL : count(__libc_malloc(n)); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : count(__libc_calloc(n, size)); }
void *aligned_alloc(size_t to, size_t n) { return fails() ? NULL : count(__libc_memalign(to, n)); }
void *realloc(void *p, size_t n) { return fails() ? NULL : p ? __libc_realloc(p, n) : count(__libc_realloc(p, n)); }
void free(void *p)
{
    live -= armed && p;
    __libc_free(p);
}

static long own_left = -1, own_live;

static void *own_alloc(void *user, size_t n, size_t to)
{
    (void)user;
    if (own_left > 0 && --own_left == 0)
        return NULL;
    void *p = __libc_memalign(to, n);
    own_live += p != NULL;
    return p ? memset(p, 0xa5, n) : NULL;
}

static void own_free(void *user, void *p)
{
    (void)user;
    own_live -= p != NULL;
    __libc_free(p);
}

/* -- What is done each time --------------------------------------------------------------------------------- */

static const char *path, *checkpoint;
static int threads;
static float buffer[64 * 8];

static int said(int status)
{
    return status && !*tccrt_error() ? 1000 : status; /* a failure without a message */
}

static int runs(struct tccrt_session *s)
{
    int worst = 0;

    for (int i = 0; i < 3; i++) {
        struct tcc_tensor x = {buffer, TCC_F32, 2, {3 + i * 5, 8}}, out[2] = {0};
        struct tcc_object one = {.refs = -1, .kind = TCC_OBJ_TENSOR, .t = x}, *in[1] = {&one}, *made[2] = {0};
        int status = said(tccrt_run(s, NULL, 1, &x, 2, out));

        worst = status > worst ? status : worst;
        memset(out, 0, sizeof out);
        if (status && tccrt_run(s, NULL, 1, &x, 2, out)) /* the session works afterwards */
            worst = 1001;
        status = said(tccrt_run_objects(s, NULL, 1, in, 2, made));
        worst = status > worst ? status : worst;
        for (int k = 0; k < 2; k++)
            tccrt_object_unref(made[k]);
    }
    return worst;
}

static int once(const struct tccrt_allocator *allocator)
{
    struct tccrt_model *m = NULL;
    struct tccrt_session *s = NULL;
    struct tccrt_options o = {.threads = threads, .allocator = allocator};
    loading = true;
    int status = said(tccrt_open(path, &m)), worst;
    loading = false;

    if (status)
        return m ? 1002 : status;
    status = said(tccrt_session_new(m, &o, &s));
    if (status) {
        tccrt_close(m);
        return s ? 1003 : status;
    }
    worst = runs(s);
    if ((status = said(tccrt_checkpoint_save(s, checkpoint, 0, 0, NULL))) > worst)
        worst = status;
    if ((status = said(tccrt_checkpoint_load(s, checkpoint, 0))) > worst)
        worst = status;
    tccrt_session_free(s);
    tccrt_close(m);
    return worst;
}

static int problems, number;

static void finish(const char *what, long positions, int bad)
{
    printf("%s %d - %s: %ld places\n", bad ? "not ok" : "ok", ++number, what, positions);
    problems += bad;
}

int main(int argc, char **argv)
{
    const struct tccrt_allocator own = {own_alloc, own_free, NULL};
    int bad = 0;
    long n;

    if (argc != 4)
        return 99;
    path = argv[1];
    threads = atoi(argv[2]);
    checkpoint = argv[3];
    if (once(NULL)) { /* what is made once in a process is made now */
        printf("# %s\n", tccrt_error());
        return 99;
    }
    for (n = 1;; n++) {
        own_left = n, own_live = 0;
        int status = once(&own), hit = own_left <= 0;
        if (own_live || (hit ? status != TCC_EENV : status)) {
            printf("# the caller's allocation %ld: status %d, %ld not freed: %s\n", n, status, own_live, tccrt_error());
            bad++;
        }
        if (!hit || bad > 10)
            break;
    }
    own_left = -1;
    finish("the caller's allocator", n - 1, bad);
    bad = 0;
    for (n = 1;; n++) {
        left = n, live = 0, lost = false, armed = true;
        int status = once(NULL), hit = left <= 0;
        armed = false;
        if ((live > 0 && !lost) || status >= 1000 || (hit ? status && status != TCC_EENV : status)) {
            printf("# allocation %ld: status %d, %ld not freed: %s\n", n, status, (long)live, tccrt_error());
            bad++;
        }
        if (!hit || bad > 10)
            break;
    }
    finish("the C library's", n - 1, bad);
    return problems != 0;
}
