/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_int.h - of --elastic: where a rank is (elastic.c), and what it keeps of the state (kept.c). */
#ifndef TCCC_TOOLS_ELASTIC_INT_H
#define TCCC_TOOLS_ELASTIC_INT_H

#include "tools/train/train_int.h"

/* What a rank says of itself when ranks meet; the furthest one's holds for all. */
struct place {
    int64_t done, epoch, batch, resumed, worse, flat, runs, keeps;
    uint64_t seed, first_seed, flags;
    double best_loss, resumed_rate, base_rate, best;
    int64_t fresh;  /* has no state yet */
    int64_t oldest; /* --zero: number (keeps) of the oldest state that it keeps; -1: none */
    struct step_result step;
};
struct place elastic_place(struct trainer *t);
void elastic_take_place(struct trainer *t, const struct place *p);

/* What a rank goes back to. copies: of what it has itself, by number of the variable; others: --zero, of what the rank
 * before it alone has, in `block`; before: the state kept before, until all ranks have this one. */
struct kept {
    struct place at;
    void **copies, **others;
    unsigned char *block;
    bool complete;
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
