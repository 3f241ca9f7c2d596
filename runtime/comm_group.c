/* SPDX-License-Identifier: Apache-2.0 */
/* The world of processes: its beginning and end, and groups. */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm_int.h"

static int zero;
static struct tccrt_comm alone = {.world = &alone, .size = 1, .ranks = &zero};

struct tccrt_comm *tcr_comm_alone(void)
{
    return &alone;
}

int tccrt_comm_rank(const struct tccrt_comm *c)
{
    return c->rank;
}

int tccrt_comm_size(const struct tccrt_comm *c)
{
    return c->size;
}

int tccrt_comm_world_rank(const struct tccrt_comm *c, int rank)
{
    return rank >= 0 && rank < c->size ? c->ranks[rank] : -1;
}

int tccrt_comm_local_rank(const struct tccrt_comm *c)
{
    (void)c;
    return 0;
}

int tccrt_comm_local_size(const struct tccrt_comm *c)
{
    (void)c;
    return 1;
}

int tccrt_comm_available(const char *library)
{
    (void)library;
    tcr_fail(TCC_EENV, "no transport is built in");
    return 0;
}

int tccrt_comm_init(const struct tccrt_comm_options *options, struct tccrt_comm **world)
{
    *world = &alone;
    tcr_clear_error();
    return options && options->alone ? TCC_OK : tcr_fail(TCC_EENV, "no transport is built in: ask for a world of one");
}

int tccrt_comm_finalize(struct tccrt_comm *world, const char *why)
{
    (void)world;
    (void)why;
    return TCC_OK;
}

void tccrt_comm_abort(struct tccrt_comm *c, const char *why)
{
    (void)c;
    (void)why;
}

void tccrt_comm_alive(void)
{
}

void tccrt_comm_timeout(struct tccrt_comm *c, double seconds)
{
    (void)c;
    (void)seconds;
}

int tccrt_comm_group(struct tccrt_comm *c, int n, const int *ranks, struct tccrt_comm **out)
{
    *out = NULL;
    tcr_clear_error();
    if (n != 1 || ranks[0] != 0 || c->size != 1)
        return tcr_fail(TCC_EUSAGE, "group: a list of %d ranks of a world of %d", n, c->size);
    *out = &alone;
    return TCC_OK;
}

void tccrt_comm_free(struct tccrt_comm *group)
{
    (void)group;
}

int tccrt_comm_agree(struct tccrt_comm *c, const char *what, const char *value)
{
    (void)c;
    (void)what;
    (void)value;
    return TCC_OK;
}
