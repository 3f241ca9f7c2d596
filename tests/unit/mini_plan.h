/* SPDX-License-Identifier: Apache-2.0 */
/* Plans built by hand, for tests of the runtime: tables of fixed room, packed into one block by mp_finish(). */
#ifndef MINI_PLAN_H
#define MINI_PLAN_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/abi.h"

struct mini_plan {
    char strings[4096];
    _Alignas(16) uint8_t bytes[4096];
    uint32_t u32s[4096];
    struct tcc_pexpr exprs[256];
    struct tcc_psym syms[32];
    struct tcc_pbuffer buffers[128];
    struct tcc_psignature signatures[32];
    struct tcc_pstep steps[128];
    struct tcc_pregion regions[16];
    struct tcc_pattr attrs[32];
    struct tcc_pkernel kernels[16];
    struct tcc_pentry entries[4];
    struct tcc_pstate states[8];
    struct tcc_pcase cases[8];
    struct tcc_pguard guards[8];
    struct tcc_pmemory memories[2]; /* 0: the host's only, and its program order */
    struct tcc_pqueue queues[4];
    uint32_t nstrings, nbytes, nu32s, nexprs, nsyms, nbuffers, nsignatures, nsteps, nregions, nattrs, nkernels,
        nentries,
        nstates, ncases, nguards, levels, nlibops, nmemories, nqueues;
};

static inline uint32_t
mp_string(struct mini_plan *p, const char *s)
{
    uint32_t at = p->nstrings;

    memcpy(p->strings + at, s, strlen(s) + 1);
    p->nstrings += (uint32_t)strlen(s) + 1;
    return at;
}

/* mp_list(p, 2, a, b): a range of u32s. */
static inline struct tcc_range
mp_list(struct mini_plan *p, int n, ...)
{
    struct tcc_range r = {p->nu32s, (uint32_t)n};
    va_list args;

    va_start(args, n);
    for (int i = 0; i < n; i++)
        p->u32s[p->nu32s++] = va_arg(args, uint32_t);
    va_end(args);
    return r;
}

static inline uint32_t
mp_expr(struct mini_plan *p, uint32_t op, uint32_t a, uint32_t b, int64_t k, uint32_t level)
{
    p->exprs[p->nexprs] = (struct tcc_pexpr){op, a, b, level, k};
    if (level + 1 > p->levels)
        p->levels = level + 1;
    return p->nexprs++;
}

static inline uint32_t
mp_const(struct mini_plan *p, int64_t k)
{
    return mp_expr(p, TCC_EX_CONST, 0, 0, k, 0);
}

/* A symbol; returns its expression. The symbol's number is p->nsyms - 1 afterwards. */
static inline uint32_t
mp_sym(struct mini_plan *p, const char *name, int64_t lo, int64_t hi, uint32_t level)
{
    uint32_t e = mp_expr(p, TCC_EX_SYM, 0, 0, p->nsyms, level);

    p->syms[p->nsyms++] = (struct tcc_psym){mp_string(p, name), e, lo, hi};
    return e;
}

static inline uint32_t
mp_buffer(struct mini_plan *p, uint32_t space, uint32_t dtype, uint32_t index, uint32_t offset, uint32_t bytes,
          struct tcc_range dims, const char *name)
{
    p->buffers[p->nbuffers] = (struct tcc_pbuffer){space, dtype, index, offset, bytes, dims.count, dims, mp_string(p,
        name), 0, 0, 0};
    return p->nbuffers++;
}

static inline uint32_t
mp_object(struct mini_plan *p, const char *name)
{
    p->buffers[p->nbuffers] = (struct tcc_pbuffer){TCC_SPACE_OBJECT, TCC_NONE, 0, TCC_NO, TCC_NO, TCC_NO, {0, 0},
        mp_string(p, name), 0, 0, 0};
    return p->nbuffers++;
}

static inline void
mp_signature(struct mini_plan *p, const char *name, uint32_t dtype, uint32_t kind, uint32_t rank, struct tcc_range dims)
{
    p->signatures[p->nsignatures++] = (struct tcc_psignature){mp_string(p, name), dtype, rank, kind, dims, 0, 0, {0}, {0}};
}

static inline struct tcc_pstep *
mp_step(struct mini_plan *p, uint32_t kind, const char *node, struct tcc_range args)
{
    struct tcc_pstep *s = &p->steps[p->nsteps++];

    *s = (struct tcc_pstep){.kind = kind, .node = mp_string(p, node), .args = args, .flops = TCC_NO, .tiles = TCC_NO,
        .scratch = TCC_NO, .combining = TCC_NO};
    return s;
}

static inline struct tcc_plan *
mp_finish(const struct mini_plan *p)
{
    struct tcc_plan h = {.magic = TCC_PLAN_MAGIC, .version = TCC_ABI_VERSION, .levels = p->levels,
        .nlibops = p->nlibops};
    size_t at = (sizeof h + 15) & ~(size_t)15;
    char *block = aligned_alloc(64, 128 << 10);

    memset(block, 0, 128 << 10);
#define PUT(field, n) \
    (memcpy(block + at, p->field, (n) * sizeof *p->field), h.field = (struct tcc_range){(uint32_t)at, (n)}, \
     at = (at + (n) * sizeof *p->field + 15) & ~(size_t)15)
    PUT(strings, p->nstrings);
    PUT(bytes, p->nbytes);
    PUT(u32s, p->nu32s);
    PUT(exprs, p->nexprs);
    PUT(syms, p->nsyms);
    PUT(buffers, p->nbuffers);
    PUT(signatures, p->nsignatures);
    PUT(steps, p->nsteps);
    PUT(regions, p->nregions);
    PUT(attrs, p->nattrs);
    PUT(kernels, p->nkernels);
    PUT(entries, p->nentries);
    PUT(states, p->nstates);
    PUT(cases, p->ncases);
    PUT(guards, p->nguards);
    PUT(memories, p->nmemories ? p->nmemories : 1);
    PUT(queues, p->nqueues ? p->nqueues : 1);
#undef PUT
    h.size = at;
    memcpy(block, &h, sizeof h);
    return (struct tcc_plan *)block;
}

#endif
