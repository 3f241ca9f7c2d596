/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do all ranks do the same? Each writes down the collectives that it is given, when it is given them, with how many of
 * the process's other communicators came before; whoever runs one compares with what the others have written, so that a
 * difference is found though they wait for each other.
 */
#include <string.h>

#include "sim/nccl/nccl_int.h"

static struct fake_row *row_of(const struct ncclComm *c, int rank, uint64_t number)
{
    return &c->shared->ranks[rank].rows[number % FAKE_RING];
}

void fake_describe(struct ncclComm *c, struct fake_item *i)
{
    struct fake_row *r = row_of(c, c->rank, i->number = c->given++);
    int n = 0;
    r->kind = i->kind;
    r->type = i->type;
    r->op = i->op >= ncclNumOps ? ncclNumOps : i->op;
    r->root = i->root;
    r->n = i->n;
    memset(r->others, 0, sizeof r->others);
    for (struct ncclComm *o = fake.comms; o && n < FAKE_OTHERS; o = o->next)
        if (o != c && o->rank >= 0 && !o->aborted)
            r->others[n++] = (struct fake_other){o->tag, o->given};
    atomic_store(&r->written, i->number + 1);
}

static const struct fake_other *other(const struct fake_row *r, uint64_t tag)
{
    for (int k = 0; k < FAKE_OTHERS; k++)
        if (r->others[k].tag == tag)
            return &r->others[k];
    return NULL;
}

/* How many collectives of the other communicators came before is a question among ranks that are in both. */
static bool same_order(struct ncclComm *c, const struct fake_row *mine, const struct fake_row *theirs, int rank)
{
    for (int k = 0; k < FAKE_OTHERS; k++) {
        const struct fake_other *o = mine->others[k].tag ? other(theirs, mine->others[k].tag) : NULL;
        if (o && o->count != mine->others[k].count) {
            fake_fail(c, ncclInvalidUsage, true,
                      "two communicators in opposite order: %s comes behind %llu operations of the other on rank %d, "
                      "behind %llu "
                      "on rank %d",
                      fake_name(mine->kind), (unsigned long long)mine->others[k].count, c->rank,
                      (unsigned long long)o->count, rank);
            return false;
        }
    }
    return true;
}

bool fake_compare(struct ncclComm *c, const struct fake_item *i)
{
    const struct fake_row *mine = row_of(c, c->rank, i->number);
    for (int k = 0; k < c->size; k++) {
        const struct fake_row *r = row_of(c, k, i->number);
        if (k == c->rank || atomic_load(&r->written) != i->number + 1)
            continue;
        if (r->kind != mine->kind || r->type != mine->type || r->op != mine->op || r->root != mine->root ||
            r->n != mine->n) {
            fake_fail(c, ncclInvalidUsage, true,
                      "operation %llu differs: rank %d: %s of %llu elements of type %d, operation %d, root %d; rank "
                      "%d: %s of %llu of type %d, operation %d, root %d",
                      (unsigned long long)i->number, c->rank, fake_name(mine->kind), (unsigned long long)mine->n,
                      mine->type, mine->op, mine->root, k, fake_name(r->kind), (unsigned long long)r->n, r->type, r->op,
                      r->root);
            return false;
        }
        if (!same_order(c, mine, r, k))
            return false;
    }
    return true;
}
