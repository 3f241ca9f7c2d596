/* SPDX-License-Identifier: Apache-2.0 */
/* verify_int.h - a program that is being checked, step after step: what verify.c and verify_access.c share. */
#ifndef TCC_PLAN_VERIFY_INT_H
#define TCC_PLAN_VERIFY_INT_H

#include "ir/plan/plan_int.h"

/* Who accessed a buffer last: the moment of its last write, and those of the reads since, of each queue the last. */
struct reader {
    const struct kn_moment *at;
    struct reader *next;
};
struct accesses {
    const struct kn_moment *write;
    struct reader *reads;
};

struct verifier {
    struct ir_ctx *ctx;
    const struct kn_program *p;
    const struct kn_entry *entry;
    int position;
    struct ir_arena *scratch;
    struct kn_life *life; /* by root buffer */
    bool *written;        /* by root buffer */
    bool *freed;
    int *version; /* by buffer: of a state variable, the one that it holds */
    struct kn_order *order;
    const struct kn_moment *now;
    struct accesses *accesses;    /* by root buffer */
    const struct kn_step *bundle; /* the program or batch whose region is walked */
    bool votes; /* the entry point has a vote, and the pass `queues` has run: `commit` has put it where it belongs */
    VEC(const struct kn_moment *) faulty, voted; /* launches that may fault, of which no vote knows; votes */
    bool ok;
};

/* verify_access.c. A diagnostic of the step (NULL: of the plan), if it is the first; false. */
bool verify_bad(struct verifier *v, const struct kn_step *s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The step, which is the one of v->now (NULL: a region's border), reads or writes buffer b. */
void verify_read(struct verifier *v, const struct kn_step *s, int b);
void verify_write(struct verifier *v, const struct kn_step *s, int b);
bool verify_in_range(struct verifier *v, const struct kn_step *s, int b);
int verify_root(const struct kn_program *p, int b);                  /* the buffer that it is an alias of */
/* Of such a root: it lives now; it is accessed, in order with others. */
void verify_live(struct verifier *v, int b);
void verify_accessed(struct verifier *v, const struct kn_step *s, int b, bool write);
/* Versions that the step reads are there; what it makes is, from now on. Behind regions (`before`: by buffer, what was
 * there in front of them) variables hold what the step makes, others what they held. */
void verify_begin_versions(struct verifier *v, const struct kn_step *s);
void verify_make_versions(struct verifier *v, const struct kn_step *s);
void verify_join_versions(struct verifier *v, const struct kn_step *s, const int *before);

#endif
