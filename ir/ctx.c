/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctx.c - the context: arenas, interned strings, hash sets, and where running out of memory goes.
 *
 * Arenas are lists of chunks that double in size up to a megabyte; memory is zeroed once, when its chunk is made.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/ir_int.h"

struct ir_chunk {
    struct ir_chunk *next;
    size_t used, size;
    _Alignas(16) char at[];
};

#define FIRST_CHUNK ((size_t)16 << 10)
#define LAST_CHUNK ((size_t)1 << 20)

struct ir_ctx *ir_ctx_new(void)
{
    struct ir_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return NULL;
    ctx->own.ctx = ctx;
    return ctx;
}

static void free_chunks(struct ir_arena *arena)
{
    for (struct ir_chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    arena->chunks = NULL;
}

void ir_ctx_free(struct ir_ctx *ctx)
{
    if (!ctx)
        return;
    ir_release_modules(ctx);
    for (int i = 0; i < ctx->kept.n; i++)
        ir_tensor_unref((struct ir_tensor *)ctx->kept.at[i]);
    while (ctx->arenas)
        ir_arena_free(ctx->arenas);
    ir_set_free(&ctx->strings);
    ir_set_free(&ctx->exprs);
    ir_set_free(&ctx->types);
    ir_set_free(&ctx->layouts);
    free(ctx->pending_text);
    free_chunks(&ctx->own);
    free(ctx);
}

void ir_keep_tensor(struct ir_ctx *ctx, const struct ir_tensor *t)
{
    struct ir_protect frame;
    if (!IR_PROTECT(ctx, &frame)) { /* what was handed over is let go, then the jump goes on */
        ir_tensor_unref((struct ir_tensor *)t);
        ir_no_memory(ctx);
    }
    VEC_PUSH(ctx, ctx->kept, t);
    ir_unprotect(ctx);
}

struct ir_arena *ir_arena_new(struct ir_ctx *ctx)
{
    struct ir_arena *arena = calloc(1, sizeof *arena);
    if (!arena)
        ir_no_memory(ctx);
    arena->ctx = ctx;
    arena->next = ctx->arenas;
    arena->prev = &ctx->arenas;
    if (arena->next)
        arena->next->prev = &arena->next;
    ctx->arenas = arena;
    return arena;
}

void ir_arena_free(struct ir_arena *arena)
{
    if (!arena)
        return;
    *arena->prev = arena->next;
    if (arena->next)
        arena->next->prev = arena->prev;
    free_chunks(arena);
    free(arena);
}

static struct ir_chunk *add_chunk(struct ir_arena *arena, size_t bytes)
{
    size_t size = arena->chunks ? arena->chunks->size * 2 : FIRST_CHUNK;
    if (size > LAST_CHUNK)
        size = LAST_CHUNK;
    bool big = bytes > size / 4;
    if (big)
        size = bytes;
    if (bytes > SIZE_MAX / 2)
        ir_no_memory(arena->ctx);
    struct ir_chunk *c = calloc(1, sizeof *c + size);
    if (!c)
        ir_no_memory(arena->ctx);
    c->size = size;
    if (big && arena->chunks) { /* keep the current chunk in front: it has room left */
        c->next = arena->chunks->next;
        arena->chunks->next = c;
    } else {
        c->next = arena->chunks;
        arena->chunks = c;
    }
    return c;
}

void *ir_arena_alloc(struct ir_arena *arena, size_t bytes)
{
    struct ir_chunk *c = arena->chunks;
    if (bytes > SIZE_MAX - 16)
        ir_no_memory(arena->ctx);
    bytes = (bytes + 15) & ~(size_t)15;
    if (!c || c->size - c->used < bytes)
        c = add_chunk(arena, bytes);
    void *p = c->at + c->used;
    c->used += bytes;
    return p;
}

void *ir_alloc(struct ir_ctx *ctx, size_t bytes)
{
    return ir_arena_alloc(&ctx->own, bytes);
}

void *ir_alloc_n(struct ir_ctx *ctx, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        ir_no_memory(ctx);
    return ir_alloc(ctx, bytes);
}

char *ir_strdup(struct ir_ctx *ctx, const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(ir_alloc(ctx, n), s, n);
}

void *ir_grow(struct ir_ctx *ctx, void *old, int *cap, size_t size)
{
    if (*cap > INT32_MAX / 2)
        ir_no_memory(ctx);
    int bigger = *cap ? *cap * 2 : 8;
    void *p = ir_alloc_n(ctx, (size_t)bigger, size);
    if (*cap)
        memcpy(p, old, (size_t)*cap * size);
    *cap = bigger;
    return p;
}

void *ir_longer(struct ir_ctx *ctx, const void *list, size_t n, size_t size)
{
    void *p = ir_alloc_n(ctx, n + 1, size);
    return n ? memcpy(p, list, n * size) : p;
}

void ir_protect_push(struct ir_ctx *ctx, struct ir_protect *frame)
{
    frame->outer = ctx->protect;
    ctx->protect = frame;
}

void ir_unprotect(struct ir_ctx *ctx)
{
    ctx->protect = ctx->protect->outer;
}

void ir_no_memory(struct ir_ctx *ctx)
{
    struct ir_protect *frame = ctx->protect;
    if (!frame)
        _Exit(3); /* the door says so: nobody is there to tell */
    ctx->protect = frame->outer;
    ctx->capture = NULL; /* what was under way is given up */
    ctx->expr_depth = 0;
    ctx->parsing = false;
    longjmp(frame->jump, 1);
}

/* == Hash sets and strings == */

void *ir_set_next(const struct ir_set *set, uint64_t hash, uint32_t *pos)
{
    if (!set->cap)
        return NULL;
    uint32_t mask = set->cap - 1;
    uint32_t i = *pos == UINT32_MAX ? (uint32_t)hash & mask : (*pos + 1) & mask;
    for (; set->at[i]; i = (i + 1) & mask) {
        if (set->hash[i] == hash) {
            *pos = i;
            return set->at[i];
        }
    }
    return NULL;
}

static void set_put(struct ir_set *set, uint64_t hash, void *p)
{
    uint32_t mask = set->cap - 1, i = (uint32_t)hash & mask;
    while (set->at[i])
        i = (i + 1) & mask;
    set->at[i] = p;
    set->hash[i] = hash;
}

void ir_set_add(struct ir_ctx *ctx, struct ir_set *set, uint64_t hash, void *p)
{
    if (set->n >= set->cap / 2) {
        uint32_t cap = set->cap ? set->cap * 2 : 256;
        struct ir_set bigger = {.arena = set->arena, .n = set->n, .cap = cap};
        if (set->arena) {
            bigger.at = ir_arena_alloc(set->arena, cap * sizeof *bigger.at);
            bigger.hash = ir_arena_alloc(set->arena, cap * sizeof *bigger.hash);
        } else {
            bigger.at = calloc(cap, sizeof *bigger.at);
            bigger.hash = calloc(cap, sizeof *bigger.hash);
        }
        if (!bigger.at || !bigger.hash || cap == 0) {
            ir_set_free(&bigger);
            ir_no_memory(ctx);
        }
        for (uint32_t i = 0; i < set->cap; i++) {
            if (set->at[i])
                set_put(&bigger, set->hash[i], set->at[i]);
        }
        ir_set_free(set);
        *set = bigger;
    }
    set_put(set, hash, p);
    set->n++;
}

void ir_set_free(struct ir_set *set)
{
    if (!set->arena) {
        free(set->at);
        free(set->hash);
    }
    *set = (struct ir_set){.arena = set->arena};
}

uint64_t ir_hash_bytes(const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t h = size + 1;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        h = ir_hash_mix(h, v);
    }
    uint64_t v = 0;
    memcpy(&v, p, size);
    return ir_hash_mix(h, v);
}

const char *ir_intern(struct ir_ctx *ctx, const char *s)
{
    uint64_t hash = ir_hash_bytes(s, strlen(s));
    uint32_t pos = UINT32_MAX;
    for (char *known; (known = ir_set_next(&ctx->strings, hash, &pos));) {
        if (strcmp(known, s) == 0)
            return known;
    }
    char *copy = ir_strdup(ctx, s);
    ir_set_add(ctx, &ctx->strings, hash, copy);
    return copy;
}

const char *ir_internf(struct ir_ctx *ctx, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    const char *s = small;
    if (n >= (int)sizeof small) {
        char *big = ir_alloc(ctx, (size_t)n + 1);
        vsnprintf(big, (size_t)n + 1, format, again);
        s = big;
    }
    va_end(again);
    va_end(args);
    return ir_intern(ctx, s);
}

/* -- Signs of life ------------------------------------------------------------------------------ */

void ir_watch(struct ir_ctx *ctx, struct ir_life *life)
{
    ctx->life = life;
}

void ir_tick(struct ir_ctx *ctx)
{
    if (ctx->life)
        __atomic_fetch_add(&ctx->life->ticks, 1, __ATOMIC_RELAXED);
}

void ir_hang(struct ir_ctx *ctx, const char *name)
{
    ctx->hang = name;
}

void ir_doing(struct ir_ctx *ctx, const char *what, const char *name)
{
    if (ctx->life)
        snprintf(ctx->life->what, sizeof ctx->life->what, name ? "%s '%s'" : "%s", what, name);
    ir_tick(ctx);
    while (ctx->hang && name && !strcmp(ctx->hang, name))
        pause();
}
