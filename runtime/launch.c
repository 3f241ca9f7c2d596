/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: arguments and sizes of a kernel are gathered, and its tiles given to the device. */
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"

/* This and make_launch() are inline: on the host they are what a launch costs. */
#define INLINE static inline __attribute__((always_inline))

INLINE int gather(struct tccrt_session *s, const struct tcc_pstep *p, const char *node)
{
    const uint32_t *args = s->m->u32s + p->args.first, *sizes = s->m->u32s + p->sizes.first;

    for (uint32_t i = 0; i < p->args.count; i++) {
        int status = tcr_address(s, args[i], node, &s->args[i]);

        if (status)
            return status;
    }
    for (uint32_t i = 0; i < p->sizes.count; i++) {
        s->sizes[i] = s->values[sizes[i]];
        if (!TCR_IS_VALUE(s->sizes[i]))
            return tcr_size(s, sizes[i], "a size", node, &s->sizes[i]);
    }
    return TCC_OK;
}

/* What the kernel does with its arguments, for a device that checks; of one that a program holds, with the most that
 * they may be. */
static int accesses(struct tccrt_session *s, const struct tcc_pstep *p, const char *node, struct tcr_kernel_launch *l)
{
    for (uint32_t i = 0; i < p->args.count; i++) {
        uint32_t b = s->m->u32s[p->args.first + i];
        int64_t bytes;
        int status = tcr_buffer_bytes(s, b, node, &bytes);

        if (status)
            return status;
        if (s->m->buffers[b].space == TCC_SPACE_DYNAMIC)
            bytes = s->slots[s->m->slot_of[b]].bytes;
        else if (l->at)
            bytes = tcr_most(s, s->m->buffers[b].bytes);
        s->access[i] =
            (struct tcr_access){s->args[i], (size_t)bytes, s->m->u32s[s->m->kernels[p->what].uses.first + i]};
    }
    l->access = s->access;
    return TCC_OK;
}

/*
 * Bytes of a light kernel's arguments, and bytes and operations of a product's, up to which nothing is won by more than
 * one thread. What is light may gather what it reads.
 */
enum { SMALL_LIGHT = 16 << 10, SMALL_PRODUCT = 160 << 10 };

/* Tiles are cut when sizes may not be known yet. */
bool tcr_is_small(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    uint32_t flags = s->m->kernels[p->what].flags;
    bool product = flags & TCC_KERNEL_PRODUCT;
    int64_t cost = 0, most = product ? SMALL_PRODUCT : SMALL_LIGHT;

    if (!(flags & (TCC_KERNEL_LIGHT | TCC_KERNEL_PRODUCT)) ||
        (product && (p->flops == TCC_NO || !TCR_IS_VALUE(cost = s->values[p->flops]))))
        return false;
    for (uint32_t i = 0; i < p->args.count && cost <= most; i++) {
        uint32_t size = s->m->buffers[s->m->u32s[p->args.first + i]].bytes;

        if (size == TCC_NO || !TCR_IS_VALUE(s->values[size]))
            return false;
        cost += s->values[size];
    }
    return cost <= most;
}

/* One number of a launch: is it in the control block, and bounded? */
static bool find_in_control(const struct tccrt_session *s, uint32_t expr, uint32_t i)
{
    s->size_ranges[i] = (struct tcr_interval){0, 0};
    s->size_at[i] = TCC_NO;
    if (expr == TCC_NO)
        return true;
    s->size_ranges[i] = tcr_range(s, expr);
    s->size_at[i] = s->control_at[expr] - 1;
    return s->control_at[expr] && tcr_is_bounded(s->size_ranges[i]);
}

/* A launch of a program whose numbers are all in the control block, where the device can hold it so. */
static void put_in_control(struct tccrt_session *s, const struct tcc_pstep *p, struct tcr_made_launch *x)
{
    struct tcr_interval scratch = p->scratch == TCC_NO ? (struct tcr_interval){0, 0} : tcr_range(s, p->scratch);
    uint32_t n = p->sizes.count;
    bool all = n && !(s->m->kernels[p->what].flags & TCC_KERNEL_BY_VALUE) && tcr_is_bounded(scratch) &&
               find_in_control(s, p->tiles, n) && find_in_control(s, p->combining, n + 1) && s->size_ranges[n].hi > 0;

    for (uint32_t i = 0; i < n && all; i++)
        all = find_in_control(s, s->m->u32s[p->sizes.first + i], i);
    if (!all)
        return;
    x->l.at = s->size_at;
    x->l.ranges = s->size_ranges;
    if (s->device->ops->holds && !s->device->ops->holds(s->device, &x->l, &x->shape)) {
        x->l.at = NULL;
        x->l.ranges = NULL;
        x->shape = 0;
        return;
    }
    x->l.scratch = scratch.hi;
    x->made = true;
}

/* The host runs small kernels that feed sizes, conditions and bindings: none has floats. */
static int launch_on_host(struct tccrt_session *s, const struct tcc_pstep *p, const struct tcr_kernel_launch *l)
{
    int status = TCC_OK;

    for (uint32_t i = 0; i < l->nargs && s->device->checks && !status; i++) {
        const struct tcc_pbuffer *b = &s->m->buffers[s->m->u32s[p->args.first + i]];

        if (tcr_dtype_is_float((int)b->dtype))
            return tcr_fail(TCC_EBUG, "node '%s': its kernel has floats and runs on the host, expected device '%s'",
                            l->node, s->device->name);
        status = tcr_touch(s, l->access[i].at, l->access[i].bytes, l->access[i].how, l->node);
    }
    return status ? status : s->host->ops->launch(s->host, 0, l);
}

INLINE int make_launch(struct tccrt_session *s, const struct tcc_pstep *p, struct tcr_made_launch *out)
{
    const char *node = tcr_string(s->m, p->node);
    struct tcr_kernel_launch *l = &out->l;
    int status;

    *out = (struct tcr_made_launch){.l = {.kernel = p->what,
                                          .nargs = p->args.count,
                                          .nsizes = p->sizes.count,
                                          .tiles = s->values[p->tiles],
                                          .combining = p->combining == TCC_NO ? 0 : s->values[p->combining],
                                          .scratch = p->scratch == TCC_NO ? 0 : s->values[p->scratch],
                                          .args = s->args,
                                          .sizes = s->sizes,
                                          .may_fault = s->m->kernels[p->what].flags & TCC_KERNEL_FAULTS,
                                          .small = s->values[p->tiles] > 1 && tcr_is_small(s, p),
                                          .node = node,
                                          .checks = p->checks ? tcr_string(s->m, p->checks - 1) : node},
                                    .made = s->values[p->tiles] != 0};
    if (l->tiles < 0)
        return tcr_size(s, p->tiles, "the number of tiles", node, &l->tiles);
    if (s->in_program && s->device->ops->program)
        put_in_control(s, p, out);
    if (!out->made)
        return TCC_OK;
    if (l->combining < 0)
        return tcr_size(s, p->combining, "the number of tiles that combine", node, &l->combining);
    if (l->scratch < 0)
        return tcr_size(s, p->scratch, "scratch", node, &l->scratch);
    if ((status = gather(s, p, node)))
        return status;
    return s->device->checks ? accesses(s, p, node, l) : TCC_OK;
}

int tcr_make_launch(struct tccrt_session *s, const struct tcc_pstep *p, struct tcr_made_launch *out)
{
    return make_launch(s, p, out);
}

int tcr_step_launch(struct tccrt_session *s, const struct tcc_pstep *p)
{
    struct tcr_made_launch x;
    int status = make_launch(s, p, &x);

    if (status || !x.made)
        return status;
    if (s->placed && s->discrete && !s->m->queues[p->queue].memory)
        return launch_on_host(s, p, &x.l);
    return s->device->ops->launch(s->device, s->queue, &x.l);
}

/* -- Several as one ------------------------------------------------------------------------------------ */

/* Launches with lists of their own, each as long as the first step's. */
struct rows {
    uint32_t n, nargs, nsizes;
    bool apart; /* one reads its sizes in the control block: each is given by itself */
    struct tcr_kernel_launch *at;
    void **args;
    int64_t *sizes;
    struct tcr_access *access;
};

static int add_row(struct tccrt_session *s, const struct tcc_pstep *p, struct rows *r)
{
    void **args = r->args + (size_t)r->n * r->nargs;
    int64_t *sizes = r->sizes + (size_t)r->n * r->nsizes;
    struct tcr_access *access = r->access + (size_t)r->n * r->nargs;
    struct tcr_made_launch x;
    int status = make_launch(s, p, &x);

    if (status || !x.made)
        return status;
    r->apart = r->apart || x.l.at;
    memcpy(args, x.l.args, r->nargs * sizeof *args);
    memcpy(sizes, x.l.sizes, r->nsizes * sizeof *sizes);
    if (x.l.access) {
        memcpy(access, x.l.access, r->nargs * sizeof *access);
        x.l.access = access;
    }
    x.l.args = args;
    x.l.sizes = sizes;
    r->at[r->n++] = x.l;
    return TCC_OK;
}

static int launch_each(struct tccrt_session *s, const struct tcc_pstep *p, uint32_t n)
{
    struct tcr_made_launch x;
    int status = TCC_OK;

    for (uint32_t i = 0; i < n && !status; i++)
        if (!(status = make_launch(s, p + i, &x)) && x.made)
            status = s->device->ops->launch(s->device, s->queue, &x.l);
    return status;
}

static int launch_rows(struct tccrt_session *s, const struct tcc_pstep *p, uint32_t n)
{
    struct rows r = {.nargs = p->args.count, .nsizes = p->sizes.count};
    int status = TCC_OK;

    r.at = calloc(n, sizeof *r.at);
    r.args = calloc((size_t)n * r.nargs + 1, sizeof *r.args);
    r.sizes = calloc((size_t)n * r.nsizes + 1, sizeof *r.sizes);
    r.access = calloc((size_t)n * r.nargs + 1, sizeof *r.access);
    if (!r.at || !r.args || !r.sizes || !r.access)
        status = tcr_fail(TCC_EENV, "no memory for %u launches", n);
    for (uint32_t i = 0; i < n && !status; i++)
        status = add_row(s, p + i, &r);
    if (!status && r.apart)
        status = launch_each(s, p, n);
    else if (!status && r.n)
        status = s->device->ops->launch_rows(s->device, s->queue, r.at, r.n);
    free(r.access);
    free(r.sizes);
    free(r.args);
    free(r.at);
    return status;
}

/* Who observes steps sees each by itself. */
int tcr_step_batch(struct tccrt_session *s, const struct tcc_pstep *p)
{
    struct tcc_range steps = s->m->regions[p->regions.first].steps;

    if (!s->device->ops->launch_rows || !s->ordered || s->observer)
        return tcr_walk(s, steps);
    if (s->profile)
        tcr_profile_batch(s, p);
    return launch_rows(s, s->m->steps + steps.first, steps.count);
}
