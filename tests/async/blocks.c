/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks MODEL DEVICE FILE: how much memory of the host a checkpoint takes whose state lies on a device: "save BYTES",
 * "load BYTES", the most that was allocated meanwhile beyond what there was. malloc and its like are this program's.
 */
#include "runtime/tccrt.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t n), *__libc_realloc(void *p, size_t n), *__libc_memalign(size_t align, size_t n);
extern void __libc_free(void *p);
static atomic_llong live, most;

static void *took(void *p)
{
    long long now =
        atomic_fetch_add(&live, p ? (long long)malloc_usable_size(p) : 0) + (p ? (long long)malloc_usable_size(p) : 0);

    if (now > most)
        most = now;
    return p;
}

void *malloc(size_t n)
{
    return took(__libc_malloc(n));
}

void free(void *p)
{
    atomic_fetch_sub(&live, p ? (long long)malloc_usable_size(p) : 0);
    __libc_free(p);
}

void *calloc(size_t n, size_t size)
{
    void *p = __libc_malloc(n * size);

    return took(p ? memset(p, 0, n * size) : NULL);
}

void *realloc(void *p, size_t n)
{
    long long had = p ? (long long)malloc_usable_size(p) : 0;
    void *q = __libc_realloc(p, n);

    if (q)
        atomic_fetch_sub(&live, had);
    return took(q);
}

int posix_memalign(void **p, size_t align, size_t n)
{
    *p = took(__libc_memalign(align, n));
    return *p ? 0 : 12;
}

void *aligned_alloc(size_t align, size_t n)
{
    return took(__libc_memalign(align, n));
}

static int told(const char *what, long long before, int status)
{
    if (status) {
        fprintf(stderr, "%s: %s\n", what, tccrt_error());
        return 1;
    }
    printf("%s %lld\n", what, (long long)most - before);
    return 0;
}

int main(int argc, char **argv)
{
    struct tccrt_model *m;
    struct tccrt_session *s;
    struct tccrt_options o = {.threads = 1, .device = argc > 2 ? argv[2] : NULL};
    long long before;

    if (argc != 4 || tccrt_open(argv[1], &m) || tccrt_session_new(m, &o, &s))
        return told("open", 0, 1);
    before = most = live;
    if (told("save", before, tccrt_checkpoint_save(s, argv[3], 0, 0, NULL)))
        return 1;
    before = most = live;
    if (told("load", before, tccrt_checkpoint_load(s, argv[3], 0)))
        return 1;
    tccrt_session_free(s);
    tccrt_close(m);
    return 0;
}
