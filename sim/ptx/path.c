/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a block takes by itself, for modelled time: each warp has a clock. An instruction moves it on; what the warp
 * waits for moves it to where that is: the last arrival at a barrier or in a phase of an mbarrier, the arrival of
 * copies, the end of products. Bulk copies of a warp come one behind the other, at the multiprocessor's share of the
 * L2, and so do a warp's wgmma, on one of the four tensor cores (an mma.sync takes an instruction's time). A block is
 * done with its last warp.
 *
 * Warps run in an order that the seed draws, so whose turn it is on a unit that several share says nothing: a warp has
 * its share of the tensor core that warps with its number modulo 4 share. How many multiply is known when the block has
 * ended: so there are as many clocks, and the block's time is on that one.
 */
#include "sim/ptx/ptx_int.h"
#include "sim/time.h"

void ptx_path_latest(struct ptx_path *to, const struct ptx_path *from)
{
    for (int k = 0; k < PTX_SHARES; k++)
        to->at[k] = from->at[k] > to->at[k] ? from->at[k] : to->at[k];
}

static void add(struct ptx_path *to, uint64_t cycles)
{
    for (int k = 0; k < PTX_SHARES; k++)
        to->at[k] += cycles;
}

/* The warp's clock, with the instructions since it was last looked at. */
static struct ptx_path *now(struct ptx_warp *w)
{
    add(&w->now, (w->tick - w->counted) * SIM_DEPENDENT_ISSUE);
    w->counted = w->tick;
    return &w->now;
}

void ptx_path_arrive(struct ptx_warp *w, struct ptx_path *at)
{
    ptx_path_latest(at, now(w));
}

/* A wait that goes round in a loop until something has happened takes until then, however often it went round. */
void ptx_path_tries(struct ptx_warp *w)
{
    if (!w->tries)
        w->tried = *now(w);
    w->tries = true;
}

void ptx_path_wait(struct ptx_warp *w, const struct ptx_path *until)
{
    struct ptx_path *at = now(w);
    if (w->tries)
        *at = w->tried;
    ptx_path_latest(at, until);
    w->tries = false;
}

struct ptx_path ptx_path_copy(struct ptx_warp *w)
{
    struct ptx_path at = *now(w);
    add(&at, SIM_MEMORY_LATENCY);
    return at;
}

struct ptx_path ptx_path_bulk(struct ptx_warp *w, size_t bytes)
{
    ptx_path_latest(&w->bulk_until, now(w));
    add(&w->bulk_until, bytes / SIM_L2_SHARE);
    struct ptx_path at = w->bulk_until;
    add(&at, SIM_MEMORY_LATENCY);
    return at;
}

struct ptx_path ptx_path_product(struct ptx_warp *w, uint64_t cycles)
{
    ptx_path_latest(&w->product_until, now(w));
    for (int k = 0; k < PTX_SHARES; k++)
        w->product_until.at[k] += cycles * (unsigned)(k + 1);
    w->multiplies = true;
    return w->product_until;
}

void ptx_path_products_wait(struct ptx_warp *w, struct ptx_path until)
{
    add(&until, SIM_PRODUCT_LATENCY);
    ptx_path_wait(w, &until);
}

/* The block has ended. */
void ptx_path_end(struct ptx_block *b)
{
    struct ptx_path most = {{0}};
    int multiply[4] = {0}, share = 1;
    for (int k = 0; k < b->nwarps; k++) {
        ptx_path_latest(&most, now(&b->warps[k]));
        ptx_path_latest(&most, &b->warps[k].bulk_until);
        multiply[k & 3] += b->warps[k].multiplies;
        share = multiply[k & 3] > share ? multiply[k & 3] : share;
    }
    b->count.path_cycles += most.at[(share < PTX_SHARES ? share : PTX_SHARES) - 1];
}
