/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isolate_int.h - a compilation in a process of its own, which is ended when it makes no progress: so no compilation
 * runs without bound, and what a library's caller gets is a status, whatever the compiler does.
 */
#ifndef TCC_ISOLATE_INT_H
#define TCC_ISOLATE_INT_H

#include "compiler/tccc.h"
#include "ir/ir.h"

/* What the child works with: options whose callbacks and streams lead to the caller's, and where its signs of life
 * go. */
struct isolate_child {
    struct tccc_options options;
    struct ir_life *life;
    void *link;
    int owner; /* the parent's pid */
};

struct isolate_job {
    const struct tccc_options *o;        /* the caller's */
    /* gets the diagnostics that the child's has in the end, instead of o->message; may be NULL */
    struct ir_ctx *ctx;
    int (*work)(void *user, const struct isolate_child *c, bool *flag);     /* in the child: an exit code */
    void *user;
    bool flag;                           /* out: what work() said */
};

/* An exit code: work()'s; BUG, with a message, where it made no progress for o->time_limit seconds (0: any time) or
 * died; ENVIRONMENT: it could not be started, or somebody killed it. o's callbacks are called in this process, by this
 * thread. */
int isolate_run(struct isolate_job *job);
/* In the child, at the end of work: hands the context's diagnostics from the first-th on over. */
void isolate_tell(const struct isolate_child *c, const struct ir_ctx *ctx, int first);

#endif
