/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h - what everything of ir/ lives in: contexts, their memory, and diagnostics. Needs nothing of either level.
 */
#ifndef TCC_IR_CONTEXT_H
#define TCC_IR_CONTEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ir_ctx;

struct ir_ctx *ir_ctx_new(void);             /* NULL: no memory */
void ir_ctx_free(struct ir_ctx *ctx);        /* NULL is fine */

/* Bump arenas: memory lives until the arena is freed or reset. Allocation never returns NULL. */
struct ir_arena;
struct ir_arena *ir_arena_new(struct ir_ctx *ctx);          /* freed with the context at the latest */
void ir_arena_free(struct ir_arena *arena);
void *ir_arena_alloc(struct ir_arena *arena, size_t bytes);  /* zeroed, 16-byte aligned */
void *ir_alloc(struct ir_ctx *ctx, size_t bytes);            /* from the context's own arena */
char *ir_strdup(struct ir_ctx *ctx, const char *s);
struct ir_tensor;
/* takes over a reference until the context is freed */
void ir_keep_tensor(struct ir_ctx *ctx, const struct ir_tensor *t);
const char *ir_intern(struct ir_ctx *ctx, const char *s);    /* equal strings, equal pointers */
const char *ir_internf(struct ir_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3), nonnull(2)));

#define IR_NEW(ctx, type) ((type *)ir_alloc((ctx), sizeof(type)))
#define IR_NEWN(ctx, n, type) ((type *)ir_alloc_n((ctx), (n), sizeof(type)))
void *ir_alloc_n(struct ir_ctx *ctx, size_t n, size_t size);     /* checks n * size */

/* Where out-of-memory goes: if (IR_PROTECT(ctx, &frame)) { ...work...; ir_unprotect } else { no memory }. */
struct ir_protect { jmp_buf jump; struct ir_protect *outer; };
void ir_protect_push(struct ir_ctx *ctx, struct ir_protect *frame);
void ir_unprotect(struct ir_ctx *ctx);
#define IR_PROTECT(ctx, frame) (ir_protect_push((ctx), (frame)), setjmp((frame)->jump) == 0)
_Noreturn void ir_no_memory(struct ir_ctx *ctx);

/* A growing array for compiler code: VEC(int) v = {0}; VEC_PUSH(ctx, v, 3). Memory from the context's arena. */
#define VEC(...) struct { __VA_ARGS__ *at; int n, cap; }
#define VEC_PUSH(ctx, v, ...) IR_PUSH(ctx, (v).at, (v).n, (v).cap, __VA_ARGS__)
/* The same where array, n and cap have other names; each of the three is evaluated several times. */
#define IR_PUSH(ctx, array, n, cap, ...) ({ \
        __typeof__(*(array)) vec_item_ = (__VA_ARGS__);      /* first: it may read the array */ \
        if ((n) == (cap)) \
            (array) = ir_grow((ctx), (array), &(cap), sizeof *(array)); \
        (array)[(n)++] = vec_item_; \
    })
/* What has grown becomes somebody's: a pointer and a count. */
#define VEC_GIVE(v, array, count) ((array) = (v).at, (count) = (v).n)
void *ir_grow(struct ir_ctx *ctx, void *old, int *cap, size_t size);
/* A copy of a list of n, with room for one more. */
#define IR_LONGER(ctx, list, n) ir_longer((ctx), (list), (size_t)(n), sizeof *(list))
void *ir_longer(struct ir_ctx *ctx, const void *list, size_t n, size_t size);

/* -- Diagnostics ------------------------------------------------------------------------
 * A message's text stands where it is made: what was expected, what was found, what would work. */
enum ir_severity { IR_NOTE, IR_WARNING, IR_ERROR, IR_BUG };

/* What kind of message: its severity, and where an error lies. */
enum ir_diag_kind {
    IR_D_NOTE,
    IR_D_WARNING,
    IR_D_ERROR,              /* the input */
    IR_D_UNSUPPORTED,        /* the input asks for what is not there; its text alone may have several lines */
    IR_D_USAGE,              /* the options */
    IR_D_ENVIRONMENT,        /* memory, space, a missing file: the same may go well elsewhere */
    IR_D_BUG                 /* this program */
};

/* What a message is about. Any member may be NULL or 0. Printed "file:line:col: " or "file: node 'n' (Op, opset 13):
 * ". */
struct ir_where {
    const char *file;
    int line, col;
    const char *node;        /* the source model's node name */
    const char *op;          /* the source model's operator */
    int opset;
    const char *scope;       /* the layer that it is part of, where the source says so: "blocks.0.fc"; in no text */
};

/* Text from a file as messages, tables and reports show it: without control characters (base/safe.h: tcr_show). NULL
 * stays NULL. Text that has to be changed is in memory of the thread's, good for seven more such calls, and cut at 500
 * bytes. Diagnostics need none of this: all their text is shown so. The pieces of a text with several lines
 * (IR_D_UNSUPPORTED) are shown by who makes it. */
const char *ir_shown(const char *text);
void ir_print_bytes(FILE *out, const char *s, size_t n);   /* quoted, as .tcir texts have strings; may hold a zero */

struct ir_message { enum ir_severity severity; enum ir_diag_kind kind; struct ir_where where; const char *text; };
typedef void (*ir_diag_handler)(void *user, const struct ir_message *message);

/* false, for the caller to return. */
bool ir_diag(struct ir_ctx *ctx, const struct ir_where *where, enum ir_diag_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same, IR_D_ERROR. */
bool ir_error(struct ir_ctx *ctx, const struct ir_where *where, const char *format, ...) __attribute__((format(printf,
              3, 4)));
/* What only somebody who asked for it wants to read: a note, dropped unless ir_verbose() has been said. */
void ir_detail(struct ir_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ir_verbose(struct ir_ctx *ctx, bool on);
void ir_on_diag(struct ir_ctx *ctx, ir_diag_handler handler, void *user);   /* default: collected only */
int ir_nerrors(const struct ir_ctx *ctx);                                   /* errors and bugs so far */
/* on: messages are dropped, and not counted (something is tried) */
void ir_quiet(struct ir_ctx *ctx, bool on);
/* Messages are neither kept nor counted, the first one's text written to `buffer`, until called with NULL. */
void ir_capture(struct ir_ctx *ctx, char *buffer, size_t size);
/* What is tried, and may be wrong: errors in between are kept here alone, the first one with its place; other messages
 * go on. Attempts nest. An error is counted by ir_nerrors() until its attempt ends. */
struct ir_attempt { struct ir_attempt *outer; int errors; struct ir_where where; const char *text; };
void ir_attempt_begin(struct ir_ctx *ctx, struct ir_attempt *a);
void ir_attempt_end(struct ir_ctx *ctx);
int ir_nmessages(const struct ir_ctx *ctx);
const struct ir_message *ir_message(const struct ir_ctx *ctx, int i);
/* The known name that a mistyped word probably means: ir_nearest_try() for each known one, then `best` (NULL: none is
 * near). Names must outlive the search; the first of several equally near ones wins. No context: any thread. */
struct ir_nearest { const char *word; size_t length; /* 0: all of it */ const char *best; int distance; };
void ir_nearest_try(struct ir_nearest *s, const char *name);
const char *ir_did_you_mean(struct ir_ctx *ctx, const struct ir_nearest *s);    /* ": did you mean 'X'?", or "" */
/* Who names something that is not there is told what is: {.near.word = WORD}, ir_known_add() for each name (they must
 * outlive the text), then the text to put behind the message: ": did you mean 'X'? It has 'X', 'Y' and 12 more", "; it
 * has 'X'", or "; it has none". No context: any thread. */
struct ir_known { struct ir_nearest near; int n, listed; size_t used; char list[300], text[420]; };
void ir_known_add(struct ir_known *k, const char *name);
const char *ir_known_text(struct ir_known *k);
/* A message of another context once more; `text` is final. */
void ir_replay(struct ir_ctx *ctx, enum ir_diag_kind kind, const struct ir_where *where, const char *text);
/* Signs of life, for who watches a compilation from another process and ends it when it makes no progress. What counts
 * is bounded by the work at hand: a pass begun and done, a change by a pass (as many as its module has room for), a
 * kernel built or compiled. */
struct ir_life { uint64_t ticks; char what[200]; };
void ir_watch(struct ir_ctx *ctx, struct ir_life *life);                     /* NULL: nobody watches */
void ir_tick(struct ir_ctx *ctx);
/* a tick; e.g. "pass", "fold"; name may be NULL */
void ir_doing(struct ir_ctx *ctx, const char *what, const char *name);
/* for tests: what is begun by that name never ends; NULL: nothing */
void ir_hang(struct ir_ctx *ctx, const char *name);
void ir_print_where(FILE *out, const struct ir_where *where);                /* "FILE: node ...: ", or nothing */
/* one line, "error: " in front of the text */
void ir_print_message(FILE *out, const struct ir_message *message);

#endif
