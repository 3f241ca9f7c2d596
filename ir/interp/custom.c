/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custom.c - a user's operator in the interpreter: its operands are copies, its results lie between bytes of a pattern.
 * What it writes beside a result, or to an operand, is found when it returns, and names it.
 */
#include "base/format.h"
#include "ir/interp/interp_int.h"
#include "runtime/tccc_custom.h"

#include <stdlib.h>
#include <string.h>

enum { ZONE = 4096, PATTERN = 0xa5 };

/* size bytes between two zones. */
struct guarded {
    uint8_t *block;
    size_t size;
};

struct guarded_call {
    struct tcc_lib_call c; /* first: the host's functions get its address */
    struct tcc_lib_call *outer;
    struct guarded *in, *out;
    struct tcc_object *copies; /* of the operands */
    const struct tcc_object **operands;
};

static void *guard(struct guarded *g, size_t size)
{
    size_t room = (size + 63) / 64 * 64;
    if (size > SIZE_MAX / 2 || !(g->block = aligned_alloc(64, room + 2 * ZONE)))
        return NULL;
    g->size = size;
    memset(g->block, PATTERN, room + 2 * ZONE);
    return g->block + ZONE;
}

/* The first byte beside the block's own that was written, from its first one; 0: none was. */
static int64_t written_beside(const struct guarded *g)
{
    size_t all = (g->size + 63) / 64 * 64 + 2 * ZONE;
    for (size_t i = ZONE; g->block && i-- > 0;)
        if (g->block[i] != PATTERN)
            return (int64_t)i - ZONE;
    for (size_t i = ZONE + g->size; g->block && i < all; i++)
        if (g->block[i] != PATTERN)
            return (int64_t)(i - ZONE);
    return 0;
}

static size_t bytes_of(const struct tcc_tensor *t)
{
    int64_t n = tcc_elements(t->rank, t->dims);
    return n < 0 ? SIZE_MAX : (size_t)n * (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
}

static void *guarded_output(struct tcc_lib_call *call, int k, int dtype, int rank, const int64_t *dims)
{
    struct guarded_call *g = (struct guarded_call *)call;
    struct tcc_tensor t = {.dtype = dtype, .rank = rank};
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    if (!g->outer->host->output(g->outer, k, dtype, rank, dims))
        return NULL;
    return guard(&g->out[k], bytes_of(&t));
}

static int __attribute__((format(printf, 3, 4)))
guarded_fail(struct tcc_lib_call *call, int status, const char *format, ...)
{
    struct guarded_call *g = (struct guarded_call *)call;
    FORMATTED(text, 300, format);
    return g->outer->host->fail(g->outer, status, "%s", text);
}

static const struct tcc_lib_host host = {.output = guarded_output, .fail = guarded_fail};

static bool copy_operands(struct guarded_call *g)
{
    for (int i = 0; i < g->c.nin; i++) {
        const struct tcc_object *o = g->outer->in[i];
        g->operands[i] = o;
        if (!o || o->kind != TCC_OBJ_TENSOR || o->t.dtype == TCC_STRING)
            continue;
        void *at = guard(&g->in[i], bytes_of(&o->t));
        if (!at)
            return false;
        if (g->in[i].size)
            memcpy(at, o->t.data, g->in[i].size);
        g->copies[i] = *o;
        g->copies[i].refs = -1;
        g->copies[i].t.data = at;
        g->operands[i] = &g->copies[i];
    }
    return true;
}

static int check_block(struct guarded_call *g, const struct guarded *b, const char *what, int k)
{
    int64_t at = written_beside(b);
    if (!at)
        return TCC_OK;
    return at < 0 ? guarded_fail(&g->c, TCC_EINPUT, "it writes out of bounds: %lld bytes in front of %s %d",
                                 (long long)-at, what, k)
                  : guarded_fail(&g->c, TCC_EINPUT, "it writes out of bounds: byte %lld of %s %d, which has %zu",
                                 (long long)at, what, k, b->size);
}

static int check_and_deliver(struct guarded_call *g)
{
    int status = TCC_OK;
    for (int i = 0; i < g->c.nin && !status; i++) {
        status = check_block(g, &g->in[i], "operand", i);
        if (!status && g->in[i].size && memcmp(g->in[i].block + ZONE, g->outer->in[i]->t.data, g->in[i].size) != 0)
            status = guarded_fail(&g->c, TCC_EINPUT, "it writes to its operand %d", i);
    }
    for (int k = 0; k < g->c.nout && !status; k++) {
        status = check_block(g, &g->out[k], "result", k);
        if (!status && g->out[k].size && g->outer->out[k])
            memcpy(g->outer->out[k]->t.data, g->out[k].block + ZONE, g->out[k].size);
    }
    return status;
}

int it_custom(const struct ir_custom *x, struct tcc_lib_call *call)
{
    size_t nin = (size_t)call->nin, nout = (size_t)call->nout;
    struct guarded_call g = {.c = *call,
                             .outer = call,
                             .in = calloc(nin + nout + 1, sizeof *g.in),
                             .copies = calloc(nin + 1, sizeof *g.copies),
                             .operands = calloc(nin + 1, sizeof *g.operands)};
    bool room = g.in && g.copies && g.operands;
    int status = TCC_EENV;
    g.out = room ? g.in + nin : NULL;
    g.c.host = &host;
    g.c.in = g.operands;
    if (!room || !copy_operands(&g))
        status = call->host->fail(call, TCC_EENV, "no memory");
    else if (!(status = tccrt_custom_call(&g.c, x->op)))
        status = check_and_deliver(&g);
    for (size_t i = 0; room && i < nin + nout; i++)
        free(g.in[i].block);
    free(g.in);
    free(g.copies);
    free((void *)g.operands);
    return status;
}
