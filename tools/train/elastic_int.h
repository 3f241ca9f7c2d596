/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_int.h - of --elastic: where a rank is (elastic.c), and what it keeps of the state (kept.c). */
#ifndef TCCC_TOOLS_ELASTIC_INT_H
#define TCCC_TOOLS_ELASTIC_INT_H

#include "tools/train/train_int.h"

/* Where a rank is: a member of the trainer each. */
#define PLACE(_)                                  \
    _(int64_t, done, done)                        \
    _(int64_t, keeps, keeps)                      \
    _(int64_t, epoch, epoch)                      \
    _(int64_t, batch, batch)                      \
    _(int64_t, resumed, resumed)                  \
    _(int64_t, worse, control.worse)              \
    _(int64_t, flat, control.flat)                \
    _(uint64_t, seed, sampler.seed)               \
    _(uint64_t, first_seed, first_seed)           \
    _(double, best_loss, best_loss)               \
    _(double, resumed_rate, control.resumed_rate) \
    _(double, base_rate, base_rate)               \
    _(double, best, control.best)                 \
    _(struct step_result, step, last)

/* What a rank says of itself when ranks meet; the furthest one's holds for all. */
struct place {
#define MEMBER(type, name, of) type name;
    PLACE(MEMBER)
#undef MEMBER
    int64_t runs;
    int64_t fresh;   /* has no state yet */
    /* --zero: number (keeps) of the oldest state that it keeps and that it knows all to have whole, and of the newest;
     * -1: none */
    int64_t oldest, newest;
    int64_t stopped; /* asked to end, or told by another rank, and not all have heard so */
    uint64_t flags;
};
struct place elastic_place(struct trainer *t);
void elastic_take_place(struct trainer *t, const struct place *p);

/* What a rank goes back to. copies: of what it has itself, by number of the variable; others: --zero, of what the rank
 * before it alone has, in `block`; complete: it has all of that; whole: it knows that all ranks have; before: the state
 * kept before, until then (a rank that has come since has none). */
struct kept {
    struct place at;
    void **copies, **others;
    unsigned char *block;
    bool complete, whole;
    struct kept *before;
};

/* Have ranks parts of the state (--zero)? */
bool kept_in_parts(const struct trainer *t);
/* A copy of the state; NULL: no memory. And its end: the variables become what it has (needed), or nothing. */
void *kept_copies(struct trainer *t);
void kept_put_back(struct trainer *t, void **copies, bool needed);
/* --zero: the older of two states, unless the newer one is complete. */
void kept_drop_incomplete(struct trainer *t);
/* --zero, with a world met anew: all ranks get what they have to have now of the state of that number, which each of
 * all[ranks] that is not fresh keeps. An exit code. */
int kept_share(struct trainer *t, const struct place *all, int64_t number);

#endif
