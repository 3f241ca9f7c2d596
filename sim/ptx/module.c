/* SPDX-License-Identifier: Apache-2.0 */
/* A module's memory, which goes with it, and what is in a loaded one: kernels with their parameters and needs,
 * variables. */
#include <stdlib.h>

#include "sim/ptx/text_int.h"
#include "sim/time.h"

/* -- Memory -- */

struct ptx_block_mem {
    struct ptx_block_mem *next;
};

void *ptx_new(struct ptx_parse *p, size_t bytes)
{
    struct ptx_block_mem *b = calloc(1, 64 + bytes);
    if (!b)
        ptx_fail(p, p->x.line, "no memory");
    b->next = p->m->arena;
    p->m->arena = b;
    return (char *)b + 64;
}

void *ptx_grow(struct ptx_parse *p, void *list, int n, int *room, size_t each)
{
    if (n < *room)
        return list;
    *room = *room ? 2 * *room : 32;
    void *grown = ptx_new(p, (size_t)*room * each);
    if (n)
        memcpy(grown, list, (size_t)n * each);
    return grown;
}

const char *ptx_name(struct ptx_parse *p, const char *s, size_t n)
{
    char *copy = ptx_new(p, n + 1);
    memcpy(copy, s, n);
    return copy;
}

void ptx_unload(struct ptx_module *m)
{
    char why[PTX_ERROR];
    if (!m)
        return;
    for (int i = 0; i < m->nowned; i++)
        ptx_free(m->d, m->owned[i], why);
    while (m->arena) {
        struct ptx_block_mem *b = m->arena;
        m->arena = b->next;
        free(b);
    }
    free(m);
}

/* -- What is in it -- */

const struct ptx_kernel *ptx_kernel_at(const struct ptx_module *m, int i)
{
    const struct ptx_func *f = m->funcs;
    while (f && (!f->entry || !f->defined || i-- > 0))
        f = f->next;
    return (const struct ptx_kernel *)f;
}

int ptx_kernel_count(const struct ptx_module *m)
{
    int n = 0;
    while (ptx_kernel_at(m, n))
        n++;
    return n;
}

const struct ptx_kernel *ptx_find(const struct ptx_module *m, const char *name)
{
    for (const struct ptx_func *f = m->funcs; f; f = f->next)
        if (f->entry && f->defined && strcmp(f->name, name) == 0)
            return (const struct ptx_kernel *)f;
    return NULL;
}

const char *ptx_kernel_name(const struct ptx_kernel *k)
{
    return k->f.name;
}

uint64_t ptx_global(const struct ptx_module *m, const char *name, size_t *bytes)
{
    for (const struct ptx_sym *s = m->globals; s; s = s->next)
        if (s->space != SP_SHARED && strcmp(s->name, name) == 0) {
            *bytes = s->size;
            return s->at;
        }
    return 0;
}

bool ptx_kernel_param(const struct ptx_kernel *k, int i, size_t *offset, size_t *bytes, const char **type)
{
    if (i < 0 || i >= k->f.nparams)
        return false;
    *offset = k->f.params[i]->at;
    *bytes = k->f.params[i]->size;
    *type = ptx_types[k->f.params[i]->type].text;
    return true;
}

/* An assembler keeps to what the kernel says, and to what lets a block of as many threads as it says run. */
int ptx_kernel_registers(const struct ptx_kernel *k)
{
    const int *n = k->f.reqntid[0] ? k->f.reqntid : k->f.maxntid;
    int threads = (n[0] * n[1] * n[2] + 127) / 128 * 128, most = threads ? SIM_REGISTERS / threads / 8 * 8 : 255;
    most = k->f.maxnreg && k->f.maxnreg < most ? k->f.maxnreg : most;
    return most < k->f.registers ? most : k->f.registers;
}

bool ptx_modelled(const struct ptx_kernel *k, const struct ptx_launch *l, const struct ptx_counters *c,
                  const char *machine, struct ptx_time *t)
{
    const struct sim_machine *m = sim_machine(machine);
    int threads = (int)(l->block[0] * l->block[1] * l->block[2]);
    struct sim_work w = {
        .blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2],
        .warps = (threads + LANES - 1) / LANES,
        .warp_instructions = c->warp_instructions,
        .int_instructions = c->by_class[PTX_CLASS_INT] + c->by_class[PTX_CLASS_MOVE] + c->by_class[PTX_CLASS_CONVERT],
        .float_instructions = c->by_class[PTX_CLASS_FLOAT],
        .double_instructions = c->by_class[PTX_CLASS_DOUBLE],
        .special_instructions = c->by_class[PTX_CLASS_SPECIAL],
        .shared_wavefronts = c->shared_wavefronts,
        .requests = c->global_requests,
        .sectors = c->global_sectors,
        .memory_bytes = c->memory_bytes,
        .peer_bytes = c->peer_bytes,
        .mma_flops = (double)c->mma_flops,
        .wgmma_flops = (double)c->wgmma_flops,
        .path_cycles = c->path_cycles,
    };
    if (!m)
        return false;
    t->registers = ptx_kernel_registers(k);
    t->occupancy = w.occupancy = sim_occupancy(m, threads, t->registers, k->f.shared_bytes + l->shared);
    if (!w.occupancy)
        return false;
    struct sim_time is = sim_launch_time(m, &w);
    t->cycles = is.cycles;
    t->seconds = is.seconds;
    t->bound = sim_bound_name(is.bound);
    return true;
}

int ptx_kernel_threads(const struct ptx_kernel *k)
{
    const int *n = k->f.reqntid[0] ? k->f.reqntid : k->f.maxntid;
    int64_t most = (int64_t)n[0] * n[1] * n[2];
    return most && most < 1024 ? (int)most : 1024;
}

void ptx_kernel_needs(const struct ptx_kernel *k, size_t *shared, size_t *local, int *params)
{
    *shared = k->f.shared_bytes;
    *local = k->f.local_bytes;
    *params = (int)k->f.param_bytes;
}
